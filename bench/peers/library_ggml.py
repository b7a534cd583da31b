"""ggml, the library under llama.cpp, through the C interface of the libraries that its Python binding builds.

Its fused attention takes float32 queries, keys and values of any type and a float16 mask; sizes are told innermost first.
"""
import ctypes
import importlib.util
import pathlib

import numpy as np

import inputs
from array_library import ArrayLibrary
from worker import Unsupported

TYPES = {"f32": 0, "f16": 1, "bf16": 30}
F32, F16 = TYPES["f32"], TYPES["f16"]
ITEM_BYTES = {0: 4, 1: 2, 30: 2}
MOST_SCORE_BYTES = 2 << 30
OVERHEAD = 64 << 20  # of a context: graphs and the descriptions of tensors


class InitParameters(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def load():
    spec = importlib.util.find_spec("ggml")
    if spec is None:
        raise ImportError("no module ggml")
    folder = pathlib.Path(spec.submodule_search_locations[0]) / "lib"
    base, cpu = (ctypes.CDLL(str(folder / f"libggml-{name}.so"), ctypes.RTLD_GLOBAL) for name in ("base", "cpu"))
    pointer, number = ctypes.c_void_p, ctypes.c_float
    base.ggml_init.argtypes = [InitParameters]
    for name, arguments in {
            "ggml_new_tensor_4d": [pointer, ctypes.c_int] + [ctypes.c_int64] * 4, "ggml_get_data": [pointer],
            "ggml_flash_attn_ext": [pointer] * 5 + [number] * 3, "ggml_new_graph": [pointer], "ggml_init": None,
            "ggml_mul_mat": [pointer] * 3, "ggml_soft_max_ext": [pointer] * 3 + [number] * 2, "ggml_cont": [pointer] * 2,
            "ggml_permute": [pointer] * 2 + [ctypes.c_int] * 4}.items():
        function = getattr(base, name)
        function.restype = pointer
        if arguments:
            function.argtypes = arguments
    for name, arguments in {"ggml_build_forward_expand": [pointer] * 2, "ggml_free": [pointer],
                            "ggml_flash_attn_ext_add_sinks": [pointer] * 2,
                            "ggml_soft_max_add_sinks": [pointer] * 2}.items():
        getattr(base, name).argtypes = arguments
        getattr(base, name).restype = None
    base.ggml_backend_graph_compute.argtypes = [pointer] * 2
    cpu.ggml_backend_cpu_init.restype = pointer
    cpu.ggml_backend_cpu_set_n_threads.argtypes = [pointer, ctypes.c_int]
    return base, cpu


class Context:
    """Memory of one case with its tensors and graphs."""

    def __init__(self, base, byte_count):
        self._base = base
        self._context = base.ggml_init(InitParameters(byte_count + OVERHEAD, None, False))
        if not self._context:
            raise MemoryError("no memory for a context")

    def __del__(self):
        self._base.ggml_free(self._context)

    def call(self, name, *arguments):
        return getattr(self._base, name)(self._context, *arguments)

    def memory(self, tensor, shape, kind):
        count = int(np.prod(shape))
        address = (ctypes.c_uint8 * (count * ITEM_BYTES[kind])).from_address(self._base.ggml_get_data(tensor))
        dtype = {0: np.float32, 1: np.float16, 30: np.uint16}[kind]
        return np.frombuffer(address, dtype).reshape(shape)

    def tensor(self, array, kind):
        """A tensor of rank 4 or less, filled."""
        shape = (1,) * (4 - array.ndim) + array.shape
        tensor = self.call("ggml_new_tensor_4d", kind, *shape[::-1])
        name = {number: name for name, number in TYPES.items()}[kind]
        with np.errstate(over="ignore"):  # -infinity in float16
            self.memory(tensor, shape, kind)[...] = inputs.stored_as(np.ascontiguousarray(array), name).reshape(shape)
        return tensor

    def graph(self, out):
        graph = self.call("ggml_new_graph")
        self._base.ggml_build_forward_expand(graph, out)
        return graph


class Ggml(ArrayLibrary):
    name, types = "ggml", list(TYPES)

    def __init__(self, threads):
        self._base, cpu = load()
        self._backend = cpu.ggml_backend_cpu_init()
        cpu.ggml_backend_cpu_set_n_threads(self._backend, threads)
        sets = [name for name in ("avx2", "avx512") if getattr(cpu, f"ggml_cpu_has_{name}")()]
        build = f"built for {sets[-1]}" if sets else "built for the least of its kind"
        self._base.ggml_version.restype = ctypes.c_char_p
        self.version = f"{self._base.ggml_version().decode()} ({build})"

    def run_of(self, context, graphs, outs, shape):
        """Goes round the graphs; each writes where its `outs` lies."""
        compute, backend = self._base.ggml_backend_graph_compute, self._backend
        views = [context.memory(out, shape, F32) for out in outs]
        next_one = inputs.going_round(list(zip(graphs, views)))

        def run(kept=context):
            graph, view = next_one()
            if compute(backend, graph):
                raise RuntimeError("ggml_backend_graph_compute failed")
            return view

        return run

    # ---- attention ---------------------------------------------------------------------------------------------------

    def bias(self, case, given):
        bias, allowed = None, inputs.allowed_keys(case)
        if allowed is not None:
            bias = np.where(allowed, np.float32(0), np.float32(-np.inf))
        if case.bias:
            bias = given["bias"] if bias is None else bias + given["bias"]
        if case.alibi:
            offset = max(0, case.key_len - case.query_len)
            distances = np.abs(np.arange(case.query_len)[:, None] + offset - np.arange(case.key_len))
            slopes = -given["slopes"][None, :, None, None] * distances.astype(np.float32)
            bias = slopes if bias is None else bias + slopes
        if bias is None:
            return None
        return np.broadcast_to(bias, (*bias.shape[:2], case.query_len, case.key_len))

    def attention(self, case, given, make):
        """make(context, query, key, value, bias, sinks) -> the output's tensor, [B,Q,H,Dv] or [B,H,Q,Dv]."""
        kind, bias = TYPES[case.dtype], self.bias(case, given)
        one = (given["key"].nbytes + given["value"].nbytes) // 4 * ITEM_BYTES[kind]
        copies = inputs.cache_copies(case, one)
        scores = case.batch * case.heads * case.query_len * case.key_len * 4
        out_bytes = int(np.prod(inputs.output_shape(case))) * 4
        room = given["query"].nbytes + (one + 2 * out_bytes + (3 * scores if make == self.by_products else 0)) * copies
        context = Context(self._base, room + (0 if bias is None else bias.nbytes) + given["value"].nbytes * copies)
        query = context.tensor(given["query"], F32)
        bias = None if bias is None else context.tensor(bias, F16 if make == self.fused else F32)
        sinks = context.tensor(given["sinks"], F32) if case.sinks else None
        outs = [make(case, context, query, given, kind, bias, sinks) for _ in range(copies)]
        rows = case.heads, case.query_len
        shape = (case.batch, *(rows[::-1] if make == self.fused else rows), case.value_dim)
        return self.run_of(context, [context.graph(out) for out in outs], outs, shape)

    def fused(self, case, context, query, given, kind, bias, sinks):
        key, value = (context.tensor(given[name], kind) for name in ("key", "value"))
        out = context.call("ggml_flash_attn_ext", query, key, value, bias, case.scale or case.head_dim**-0.5, 0.0,
                           case.softcap)
        if sinks:
            self._base.ggml_flash_attn_ext_add_sinks(out, sinks)
        return out

    def by_products(self, case, context, query, given, kind, bias, sinks):
        key = context.tensor(given["key"], kind)
        value = context.tensor(np.ascontiguousarray(given["value"].transpose(0, 1, 3, 2)), kind)  # as llama.cpp stores it
        scores = context.call("ggml_mul_mat", key, query)
        weights = context.call("ggml_soft_max_ext", scores, bias, case.scale or case.head_dim**-0.5, 0.0)
        if sinks:
            self._base.ggml_soft_max_add_sinks(weights, sinks)
        return context.call("ggml_mul_mat", value, weights)

    def sdpa(self, case, given):
        if case.weights:
            raise Unsupported("its operator returns no weights")
        found = {"ggml_flash_attn_ext": lambda: self.attention(case, given, self.fused)}
        if not case.softcap and case.batch * case.heads * case.query_len * case.key_len * 4 <= MOST_SCORE_BYTES:
            found["ggml_mul_mat and ggml_soft_max_ext"] = lambda: self.attention(case, given, self.by_products)
        return found

    def matmul(self, case, given):
        def make():
            weight = np.ascontiguousarray(given["b"].T)
            context = Context(self._base, given["a"].nbytes + 2 * weight.nbytes + case.m * case.n * 4)
            out = context.call("ggml_mul_mat", context.tensor(weight, TYPES[case.dtype]), context.tensor(given["a"], F32))
            return self.run_of(context, [context.graph(out)], [out], (case.m, case.n))

        return {"ggml_mul_mat": make}

    def ways(self, case):
        makers = {"sdpa": self.sdpa, "matmul_packed": self.matmul}
        if case.operation not in makers:
            raise Unsupported("only attention and products with weights are compared")
        return makers[case.operation](case, inputs.make(case))

    def output(self, result, case):
        if case.operation == "sdpa" and result.shape != inputs.output_shape(case):
            result = result.reshape(case.batch, case.query_len, case.heads, case.value_dim).transpose(0, 2, 1, 3)
        return np.array(result, np.float32)


def make(threads):
    return Ggml(int(threads))
