"""fovea through its C interface, by the same protocol as its peers: planned calls, called from Python as they are."""
import ctypes

import numpy as np

import fovea_abi
import fovea_training
import inputs
from array_library import ArrayLibrary
from case import BACKWARD
from worker import Unsupported

DTYPES = {"f32": "FOVEA_F32", "bf16": "FOVEA_BF16", "f16": "FOVEA_F16"}


class Library:
    """The shared library with its structs and constants."""

    def __init__(self, path, headers):
        text = fovea_abi.read_headers(headers)
        self.constants = fovea_abi.constants(text)
        self.structs = fovea_abi.structs(text)
        self.calls = ctypes.CDLL(path)
        self.calls.fovea_last_error.restype = ctypes.c_char_p
        self.calls.fovea_version.restype = ctypes.c_char_p
        self.calls.fovea_isa_name.restype = ctypes.c_char_p
        self.calls.fovea_isa_available.restype = ctypes.c_char_p
        self.calls.fovea_plan_workspace_size.restype = ctypes.c_size_t
        self.calls.fovea_kv_pool_keys.restype = self.calls.fovea_kv_pool_values.restype = self.structs["fovea_tensor"]

    def check(self, status):
        if status == self.constants["FOVEA_BAD_DTYPE"]:
            raise Unsupported(self.calls.fovea_last_error().decode())
        if status != 0:
            raise ValueError(self.calls.fovea_last_error().decode())

    def dtype(self, name):
        try:
            return self.constants[DTYPES[name]]
        except KeyError:
            raise Unsupported(f"no element type {name}") from None


class Struct:
    """An options struct being filled in; keeps what its pointers point to."""

    def __init__(self, library, name):
        kind = library.structs[name]
        self.value = kind()
        self.value.struct_size = ctypes.sizeof(kind)
        self._kept = []

    def set(self, name, value):
        if isinstance(value, ctypes.c_void_p):
            value = value.value
        elif isinstance(value, (ctypes.Structure, Struct)):
            self._kept.append(value)
            value = ctypes.addressof(value.value if isinstance(value, Struct) else value)
        elif isinstance(value, np.ndarray):
            self._kept.append(value)
            value = value.ctypes.data
        setattr(self.value, name, value)

    @property
    def pointer(self):
        return ctypes.byref(self.value)


DESTROYERS = {"fovea_context_create": "fovea_context_destroy", "fovea_matmul_pack": "fovea_packed_matrix_destroy",
              "fovea_mha_weights_create": "fovea_mha_weights_destroy", "fovea_kv_pool_create": "fovea_kv_pool_destroy",
              "fovea_prepared_keys_create": "fovea_prepared_keys_destroy",
              "fovea_schedule_create": "fovea_schedule_destroy"}


class Calls:
    """Makes the runs of one context. Each run keeps it, and its handles live as long as it does."""

    def __init__(self, library, threads, isa):
        self._library = library
        self._handles = []
        options = Struct(library, "fovea_context_options")
        options.set("max_threads", threads)
        self._isa = ctypes.c_char_p(isa)
        if isa:
            options.set("max_isa", ctypes.cast(self._isa, ctypes.c_void_p))
        self._context = self.make("fovea_context_create", options.pointer)

    def __del__(self):
        for destroy, handle in reversed(self._handles):
            destroy(handle)

    def make(self, name, *arguments):
        """Calls the function that makes a handle: its last argument is where it puts it."""
        handle = ctypes.c_void_p()
        self._library.check(getattr(self._library.calls, name)(*arguments, ctypes.byref(handle)))
        destroy = DESTROYERS.get(name, "fovea_plan_destroy")
        self._handles.append((getattr(self._library.calls, destroy), handle))
        return handle

    def make_plan(self, name, *arguments):
        return self.make(name, self._context, *self._pointers(arguments))

    def destroy(self, name, handle):
        """Of what a run has made."""
        getattr(self._library.calls, name)(handle)

    def struct(self, name, **members):
        made = Struct(self._library, name)
        for member, value in members.items():
            made.set(member, value)
        return made

    def number(self, name):
        return self._library.constants[name]

    def tensor(self, array, dtype=None):
        names = {np.int32: "FOVEA_I32", np.int64: "FOVEA_I64", np.bool_: "FOVEA_BOOL"}
        number = self._library.constants.get(names.get(array.dtype.type)) or self._library.dtype(dtype or "f32")
        view = self._library.structs["fovea_tensor"](data=array.ctypes.data, dtype=number, rank=array.ndim)
        view.shape[: array.ndim] = array.shape
        view.strides[: array.ndim] = [stride // array.itemsize for stride in array.strides]
        view.array = array  # kept
        return view

    def given(self, case, names=None):
        """{name: (array as stored, tensor)} of the inputs."""
        arrays = {name: inputs.aligned_copy(inputs.stored_as(array, "f32" if name in ("slopes", "sinks") else case.dtype))
                  for name, array in inputs.make(case).items() if names is None or name in names}
        return {name: (array, self.tensor(array, "f32" if name in ("slopes", "sinks") else case.dtype))
                for name, array in arrays.items()}

    def out(self, case):
        array = inputs.aligned_copy(inputs.stored_as(np.zeros(inputs.output_shape(case), np.float32), case.dtype))
        return array, self.tensor(array, case.dtype)

    @staticmethod
    def _pointers(arguments):
        return [argument.pointer if isinstance(argument, Struct)
                else ctypes.byref(argument) if isinstance(argument, ctypes.Structure) else argument
                for argument in arguments]

    def call(self, name, out, *arguments):
        """A run that calls a function as it is; `arguments` are kept."""
        function, check, pointers = getattr(self._library.calls, name), self._library.check, self._pointers(arguments)
        context = self._context

        def run(kept=(self, arguments)):
            status = function(context, *pointers)
            if status:
                check(status)
            return out

        return run

    def planned(self, plan, buffers, out, kept):
        """A run of a plan; buffers are gone round."""
        calls, check = self._library.calls, self._library.check
        size = calls.fovea_plan_workspace_size(plan)
        workspace = inputs.aligned_empty((max(size, 64),), np.uint8)
        function, workspace_pointer, byte_count = calls.fovea_attention_run, workspace.ctypes.data_as(
            ctypes.c_void_p), ctypes.c_size_t(size)
        next_pointer = inputs.going_round([one.pointer for one in buffers])

        def run(kept=(self, kept, buffers, workspace)):
            status = function(plan, next_pointer(), workspace_pointer, byte_count)
            if status:
                check(status)
            return out

        return run

    def attention_options(self, case, given):
        """The options, and the buffers' members that go with them."""
        numbers = self._library.constants
        options, members = Struct(self._library, "fovea_attention_options"), {}
        flags = numbers["FOVEA_CAUSAL"] if case.get("causal") else 0
        if case.get("window_left", -1) >= 0:
            flags |= numbers["FOVEA_WINDOW_LEFT"]
            options.set("window_left", case.window_left)
        options.set("flags", flags)
        options.set("scale", case.get("scale", 0))
        options.set("softcap", case.get("softcap", 0))
        arrays = {"valid_lens": inputs.lens_of(case)}
        if case.get("prefix"):
            arrays["mask"] = np.ascontiguousarray(inputs.allowed_keys(case))
        if case.get("weights"):  # of the case's type, as the others' are
            shape = case.batch, case.heads, case.query_len, case.key_len
            arrays["weights"] = inputs.aligned_copy(inputs.stored_as(np.zeros(shape, np.float32), case.dtype))
        views = {name: (array, self.tensor(array, case.dtype)) for name, array in arrays.items() if array is not None}
        views |= {new: given[old] for old, new in (("bias", "bias"), ("slopes", "alibi_slopes"), ("sinks", "sinks"))
                  if old in given}
        for name, (array, view) in views.items():
            options.set(name, view)
            members[name] = array
        return options, members

    def sdpa(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        options, members = self.attention_options(case, given)
        query, key, value = (given[name] for name in ("query", "key", "value"))
        views = [query[1], key[1], value[1], out_view]
        if case.one_shot:
            return self.call("fovea_sdpa", out, *views, options)
        plan = self.make("fovea_sdpa_plan_create", self._context, *map(ctypes.byref, views), options.pointer)
        copies = inputs.cache_copies(case, key[0].nbytes + value[0].nbytes)
        caches = [(key[0], value[0])] + [(inputs.aligned_copy(key[0]), inputs.aligned_copy(value[0])) for _ in range(copies - 1)]
        buffers = [self.buffers(query[0], *cache, out, members) for cache in caches]
        return self.planned(plan, buffers, out, (views, options))

    def buffers(self, query, key, value, out, members):
        buffers = Struct(self._library, "fovea_attention_buffers")
        named = {"query": query, "key": key, "value": value, "out": out, **members}
        for name, array in named.items():
            if array is not None:
                buffers.set(name, array)
        return buffers

    def scored(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        options, members = self.attention_options(case, given)
        score = Struct(self._library, "fovea_score")
        score.set("kind", self._library.constants["FOVEA_SCORE_" + case.score.upper()])
        score.set("sigma", case.get("sigma", 0))
        for name in ("query_weight", "key_weight", "weight", "score_vector"):
            if name in given:
                score.set(name, given[name][1])
                members[name] = given[name][0]
        (query, query_view), (key, key_view), (value, value_view) = (given[n] for n in ("query", "key", "value"))
        if not case.prepared_keys:
            views = [score, query_view, key_view, value_view, out_view, options]
            pointers = [view.pointer if isinstance(view, Struct) else ctypes.byref(view) for view in views]
            plan = self.make("fovea_attention_plan_create", self._context, *pointers)
            return self.planned(plan, [self.buffers(query, key, value, out, members)], out, views)
        sizes = Struct(self._library, "fovea_prepared_keys_sizes")
        for name, size in (("batch", case.batch), ("kv_heads", case.heads), ("capacity", case.key_len),
                           ("query_dim", case.query_dim), ("key_dim", case.key_dim)):
            sizes.set(name, size)
        keys = self.make("fovea_prepared_keys_create", self._context, score.pointer, sizes.pointer)
        self._library.check(self._library.calls.fovea_prepared_keys_append(self._context, keys, ctypes.byref(key_view)))
        plan = self.make("fovea_attention_prepared_plan_create", self._context, ctypes.byref(query_view), keys,
                                  ctypes.byref(value_view), ctypes.byref(out_view), None)
        return self.planned(plan, [self.buffers(query, None, value, out, {})], out, (given, out_view))

    def backward(self, case):
        """Gradients of queries, keys, values and what the score has, from a forward call that is made once."""
        given, numbers = self.given(case), self._library.constants
        score, options = Struct(self._library, "fovea_score"), Struct(self._library, "fovea_attention_options")
        wanted = Struct(self._library, "fovea_attention_gradients")
        score.set("kind", numbers["FOVEA_SCORE_" + case.score.upper()])
        score.set("sigma", case.sigma)
        options.set("flags", numbers["FOVEA_CAUSAL"] if case.causal else 0)
        shapes = {"out": given["grad_out"][0].shape, "log_sum_exp": given["query"][0].shape[:3]}
        if case.score == "additive":  # kept, as PyTorch keeps them
            shapes |= {"projected_" + name: given[name][0].shape[:3] + (case.hidden_units,) for name in ("query", "key")}
        made = {name: inputs.aligned_copy(np.zeros(shape, np.float32)) for name, shape in shapes.items()}
        made["out"] = inputs.aligned_copy(inputs.stored_as(made["out"], case.dtype))
        views = {name: self.tensor(array, case.dtype if name == "out" else None) for name, array in made.items()}
        for name, view in views.items():
            if name != "out":
                options.set(name, view)
        members = {**made, "grad_out": given["grad_out"][0]}
        lens = inputs.lens_of(case)
        if lens is not None:
            options.set("valid_lens", self.tensor(lens))
            members["valid_lens"] = lens
        wanted.set("out", given["grad_out"][1])
        for name, (array, view) in given.items():
            if name == "grad_out":
                continue
            gradient = inputs.aligned_copy(np.zeros_like(array))
            wanted.set(name, self.tensor(gradient, case.dtype))
            members |= {name: array, "grad_" + name: gradient}
            if name not in ("query", "key", "value"):
                score.set(name, view)
        heads = [ctypes.byref(given[name][1]) for name in ("query", "key", "value")] + [ctypes.byref(views["out"])]
        attend = self._library.calls.fovea_attention
        self._library.check(attend(self._context, score.pointer, *heads, options.pointer))
        plan = self.make("fovea_attention_backward_plan_create", self._context, score.pointer, *heads, options.pointer,
                         wanted.pointer)
        buffers = Struct(self._library, "fovea_attention_buffers")
        for name, array in members.items():
            buffers.set(name, array)
        return self.planned(plan, [buffers], members["grad_query"], (given, views, score, options, wanted))

    def kernel_regression(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        options = Struct(self._library, "fovea_kernel_regression_options")
        options.set("sigma", case.sigma)
        return self.call("fovea_kernel_regression", out, *(given[n][1] for n in ("query", "key", "value")), out_view,
                         options)

    def masked_softmax(self, case):
        (_, x), (out, out_view) = self.given(case)["x"], self.out(case)
        lens = inputs.lens_of(case)
        if lens is not None:
            lens = self.tensor(lens.reshape((case.batch, -1) if case.length_per_query else -1))
        return self.call("fovea_masked_softmax", out, x, lens, out_view, None)

    def linear(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        (_, a), (_, b) = given["a"], given["b"]
        if not case.packed:
            return self.call("fovea_matmul", out, a, b, out_view)
        packed = self.make("fovea_matmul_pack", self._context, ctypes.byref(b), None)
        if case.operation == "matmul_packed":
            return self.call("fovea_matmul_packed", out, a, packed, out_view)
        options = Struct(self._library, "fovea_linear_options")
        options.set("activation", self._library.constants["FOVEA_ACTIVATION_" + (case.activation or "none").upper()])
        for name in ("bias", "residual"):
            if name in given:
                options.set(name, given[name][1])
        return self.call("fovea_linear", out, a, packed, out_view, options)

    def multi_head(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        parameters = Struct(self._library, "fovea_mha_parameters")
        parameters.set("heads", case.heads)
        parameters.set("kv_heads", case.kv_heads)
        for name in ("in_weight", "in_bias", "out_weight", "out_bias"):
            parameters.set(name, given[name][1])
        weights = self.make("fovea_mha_weights_create", self._context, parameters.pointer)
        attention, options = Struct(self._library, "fovea_attention_options"), Struct(self._library, "fovea_mha_options")
        attention.set("flags", self._library.constants["FOVEA_CAUSAL"] if case.causal else 0)
        if case.rotary:
            options.set("rotary", Struct(self._library, "fovea_rotary_options"))
        other = given["y"][1] if case.cross else None
        if case.cached:
            return self.decoding_step(case, given, weights, attention, options)
        options.set("attention", attention)
        return self.call("fovea_multi_head_attention", out, weights, given["x"][1], other, None, out_view, options)

    def decoding_step(self, case, given, weights, attention, options):
        """One position again, over pages that hold all positions but that one."""
        calls, pool = self._library.calls, self.pool(case)
        keys, values = calls.fovea_kv_pool_keys(pool, ctypes.c_int64(0)), calls.fovea_kv_pool_values(pool, ctypes.c_int64(0))
        rows = self.tensor(np.empty((case.cached, case.heads, case.head_dim), np.float32))
        limits = Struct(self._library, "fovea_schedule_limits")
        limits.set("sequences", 1)
        schedule = self.make("fovea_schedule_create", self._context, None, ctypes.byref(rows), ctypes.byref(keys),
                             ctypes.byref(values), ctypes.byref(rows), attention.pointer, limits.pointer)
        sequence, step = ctypes.c_int64(), self._library.structs["fovea_step"]()
        self._library.check(calls.fovea_kv_pool_open(pool, ctypes.byref(sequence)))
        which = self.tensor(np.array([sequence.value], np.int64))

        def grow(tokens):
            by = self.tensor(np.array([tokens], np.int64))
            self._library.check(calls.fovea_kv_pool_step(self._context, pool, ctypes.byref(which), ctypes.byref(by),
                                                         ctypes.byref(step)))
            self._library.check(calls.fovea_schedule_set(schedule, ctypes.byref(step)))

        grow(case.cached - 1)
        # [B,Hkv,L,D] as [L,Hkv,D]
        views = [self.tensor(np.ascontiguousarray(given[name][0][0].swapaxes(0, 1))) for name in ("cached_key", "cached_value")]
        self._library.check(calls.fovea_schedule_append(schedule, *(ctypes.byref(view) for view in views), ctypes.byref(keys),
                                                        ctypes.byref(values), None))
        options.set("schedule", schedule)
        options.set("key_pages", keys)
        options.set("value_pages", values)
        x, (out, _) = given["x"][0][0], self.out(case)
        run = self.call("fovea_multi_head_attention", out, weights, self.tensor(x), None, None, self.tensor(out[0]), options)

        def run_step():
            calls.fovea_kv_pool_truncate(pool, sequence, ctypes.c_int64(case.cached - 1))
            grow(1)
            return run()

        return run_step

    def pool(self, case):
        sizes = Struct(self._library, "fovea_kv_pool_sizes")
        for name, size in (("layers", 1), ("kv_heads", case.kv_heads), ("head_dim", case.head_dim),
                           ("positions", case.cached), ("sequences", 1)):
            sizes.set(name, size)
        return self.make("fovea_kv_pool_create", sizes.pointer)

    def layer_norm(self, case):
        given, (out, out_view) = self.given(case), self.out(case)
        options = Struct(self._library, "fovea_layer_norm_options")
        for name in ("weight", "bias", "residual"):
            if name in given:
                options.set(name, given[name][1])
        return self.call("fovea_layer_norm", out, given["x"][1], out_view, options)

    def elementwise(self, case):
        (array, _), out = self.given(case)["x"], self.out(case)[0].reshape(-1)
        return self.call("fovea_" + case.operation, out, self.tensor(array, case.dtype), self.tensor(out, case.dtype))


# What makes a run; or several of them, by the names of their ways.
OPERATIONS = {"sdpa": Calls.sdpa, **dict.fromkeys(inputs.SCORES, Calls.scored), "multi_head": Calls.multi_head,
              "multi_head_training": {"the layer's calls": fovea_training.by_layer, "its parts' calls": fovea_training.by_parts},
              **dict.fromkeys(BACKWARD, Calls.backward),
              "kernel_regression": Calls.kernel_regression, "masked_softmax": Calls.masked_softmax,
              "layer_norm": Calls.layer_norm, "exp": Calls.elementwise, "tanh": Calls.elementwise,
              **dict.fromkeys(("matmul", "matmul_packed", "linear"), Calls.linear)}


class Fovea(ArrayLibrary):
    name = "fovea"

    def __init__(self, path, headers, threads):
        self._library = Library(path, headers)
        self._threads = threads
        self.version = self._library.calls.fovea_version().decode()
        self.types = [name for name in DTYPES if DTYPES[name] in self._library.constants]

    def ways(self, case):
        """On the default context's instruction set, and on whatever else has to be asked for by name."""
        if case.operation not in OPERATIONS:
            raise Unsupported("not compared")
        threads = 1 if case.operation in ("exp", "tanh") else self._threads
        default = self._library.calls.fovea_isa_name(None).decode()
        names = [default]
        index = 0
        while name := self._library.calls.fovea_isa_available(index):
            names = names[:1] if name.decode() == default else [*names, name.decode()]
            index += 1
        makers = OPERATIONS[case.operation]
        if not isinstance(makers, dict):
            makers = {"": makers}
        return {", ".join(filter(None, (isa, way))):
                lambda isa=isa, make=make: make(Calls(self._library, threads, isa.encode()), case)
                for isa in names for way, make in makers.items()}

    def output(self, result, case):
        return inputs.as_float(result).reshape(inputs.output_shape(case))


def make(path, headers, threads):
    return Fovea(path, headers, int(threads))
