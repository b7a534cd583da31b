"""libfovea through ctypes, as far as the report needs it: planned attention on any number of threads.

A context with a parallel loop of its own plans for any number of workers, whatever the machine has. Here that loop runs
them one after the other on one core: so the work that many workers make of a call can be measured without them.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import pathlib
import sys
import time

import numpy as np

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(BENCH / "peers"))
import fovea_abi  # noqa: E402

HEADERS = fovea_abi.read_headers(BENCH.parent / "include" / "fovea")
CONSTANTS = fovea_abi.constants(HEADERS)
STRUCTS = fovea_abi.structs(HEADERS)
DTYPES = {
    np.dtype(numpy_type): CONSTANTS[name]
    for numpy_type, name in (
        (np.float32, "FOVEA_F32"),
        (np.int32, "FOVEA_I32"),
        (np.int64, "FOVEA_I64"),
        (np.bool_, "FOVEA_BOOL"),
    )
}

WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, WORK, ctypes.c_void_p)


def options(name, **members):
    """An options struct; what is not named is 0."""
    struct = STRUCTS[name]
    return struct(struct_size=ctypes.sizeof(struct), **members)


def tensor(array):
    """fovea_tensor: a view of a NumPy array of any strides, which it keeps."""
    view = STRUCTS["fovea_tensor"](data=array.ctypes.data, dtype=DTYPES[array.dtype], rank=array.ndim)
    view.array = array
    view.shape[: array.ndim] = array.shape
    view.strides[: array.ndim] = [stride // array.itemsize for stride in array.strides]
    return view


def address(struct):
    return ctypes.cast(ctypes.pointer(struct), ctypes.c_void_p)


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        self.calls.fovea_last_error.restype = ctypes.c_char_p
        self.calls.fovea_version.restype = ctypes.c_char_p
        self.calls.fovea_isa_available.restype = ctypes.c_char_p
        self.calls.fovea_plan_describe.restype = ctypes.c_size_t
        self.calls.fovea_plan_workspace_size.restype = ctypes.c_size_t

    def check(self, status):
        if status != 0:
            raise ValueError(self.calls.fovea_last_error().decode())

    def version(self):
        return self.calls.fovea_version().decode()

    def isas(self):
        """From the least to the best."""
        names = []
        while name := self.calls.fovea_isa_available(len(names)):
            names.append(name.decode())
        return names


class Context:
    """Up to `threads` threads of oneTBB's; or, with in_turn, so many workers that run one after the other."""

    def __init__(self, library, isa, threads, in_turn=False):
        self.library = library
        self.first_seconds = 0.0  # of the last parallel loop's first worker, which finds all the work there is

        def run_in_turn(_user, count, work, data):
            begin = time.perf_counter()
            work(data, 0)
            self.first_seconds = time.perf_counter() - begin
            for worker in range(1, count):
                work(data, worker)

        self.loop = PARALLEL_FOR(run_in_turn) if in_turn else PARALLEL_FOR()
        name = isa.encode()
        created = options(
            "fovea_context_options",
            max_threads=threads,
            max_isa=ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p),
            parallel_for=ctypes.cast(self.loop, ctypes.c_void_p),
        )
        self.handle = ctypes.c_void_p()
        library.check(library.calls.fovea_context_create(ctypes.byref(created), ctypes.byref(self.handle)))

    def __del__(self):
        self.library.calls.fovea_context_destroy(self.handle)


class Attention:
    """A planned call: run() computes `out`. parameters: W_q, W_k and v of additive attention; None: a dot product."""

    def __init__(self, context, query, key, value, causal=False, parameters=None):
        self.context, self.calls = context, context.library.calls
        self.out = np.empty(query.shape[:-1] + value.shape[-1:], np.float32)
        tensors = [tensor(array) for array in (query, key, value, self.out)]
        chosen = options("fovea_attention_options", flags=CONSTANTS["FOVEA_CAUSAL"] if causal else 0)
        data = {name: view.data for name, view in zip(("query", "key", "value", "out"), tensors)}
        self.kept = list(tensors)
        score = options("fovea_score", kind=CONSTANTS["FOVEA_SCORE_DOT"])
        if parameters is not None:
            names = ("query_weight", "key_weight", "score_vector")
            views = {name: tensor(array) for name, array in zip(names, parameters)}
            data.update((name, view.data) for name, view in views.items())
            self.kept += views.values()
            additive = CONSTANTS["FOVEA_SCORE_ADDITIVE"]
            score = options("fovea_score", kind=additive, **{name: address(view) for name, view in views.items()})
        self.buffers = options("fovea_attention_buffers", **data)
        self.plan = ctypes.c_void_p()
        status = self.calls.fovea_attention_plan_create(
            context.handle,
            *[ctypes.byref(each) for each in (score, *tensors, chosen)],
            ctypes.byref(self.plan),
        )
        context.library.check(status)
        self.workspace_size = self.calls.fovea_plan_workspace_size(self.plan)
        self.workspace = np.empty(self.workspace_size, np.uint8)
        self.run_arguments = (
            self.plan,
            ctypes.byref(self.buffers),
            ctypes.c_void_p(self.workspace.ctypes.data),
            ctypes.c_size_t(self.workspace_size),
        )

    def run(self):
        self.context.library.check(self.calls.fovea_attention_run(*self.run_arguments))
        return self.out

    def describe(self):
        """{word: value} of fovea_plan_describe; numbers as numbers."""
        text = ctypes.create_string_buffer(512)
        self.calls.fovea_plan_describe(self.plan, text, ctypes.c_size_t(512))
        pairs = (word.split("=", 1) for word in text.value.decode().split())
        return {name: int(value) if value.isdigit() else value for name, value in pairs}

    def __del__(self):
        if getattr(self, "plan", None):
            self.calls.fovea_plan_destroy(self.plan)


def normal(random, *shape, scale=1.0):
    return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def seconds_exactly(run, runs):
    begin = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - begin) / runs


def seconds_of(run, least):
    """Of one run, from as many as fill `least` seconds."""
    runs = 1
    while True:
        seconds = seconds_exactly(run, runs)
        if seconds * runs >= least:
            return seconds
        runs = max(runs + 1, int(1.2 * least / max(seconds, 1e-7)))
