"""libfovea through ctypes, as far as the report needs it: planned attention on any number of threads.

A context with a parallel loop of its own plans for any number of workers, whatever the machine has. Here that loop runs
them one after the other on one core: so the work that many workers make of a call can be measured without them.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import time

import numpy as np

DTYPES = {np.dtype(np.float32): 1, np.dtype(np.int32): 5, np.dtype(np.int64): 6, np.dtype(np.bool_): 7}
ADDITIVE = 2
CAUSAL = 1

WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, WORK, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """fovea_tensor: a view of a NumPy array of any strides, which it keeps."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 6),
        ("strides", ctypes.c_int64 * 6),
    ]

    def __init__(self, array):
        self.array = array
        super().__init__(array.ctypes.data, DTYPES[array.dtype], array.ndim)
        self.shape[: array.ndim] = array.shape
        self.strides[: array.ndim] = [stride // array.itemsize for stride in array.strides]


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("max_threads", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("max_isa", ctypes.c_char_p),
        ("parallel_for", PARALLEL_FOR),
        ("user", ctypes.c_void_p),
    ]


class AttentionOptions(ctypes.Structure):
    _fields_ = (
        [
            ("struct_size", ctypes.c_size_t),
            ("flags", ctypes.c_uint32),
            ("empty_rows", ctypes.c_int32),
            ("scale", ctypes.c_float),
            ("softcap", ctypes.c_float),
            ("query_offset", ctypes.c_int64),
            ("window_left", ctypes.c_int64),
            ("window_right", ctypes.c_int64),
        ]
        + [
            (name, ctypes.POINTER(Tensor))
            for name in ("valid_lens", "mask", "bias", "alibi_slopes", "sinks", "log_sum_exp", "weights")
        ]
        + [("dropout", ctypes.c_float), ("reserved", ctypes.c_int32), ("dropout_seed", ctypes.c_uint64)]
        + [("query_offsets", ctypes.POINTER(Tensor)), ("scores", ctypes.POINTER(Tensor))]
        + [("scores_kind", ctypes.c_int32), ("reserved_2", ctypes.c_int32)]
    )


class Score(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int32), ("sigma", ctypes.c_float)] + [
        (name, ctypes.POINTER(Tensor))
        for name in ("query_weight", "key_weight", "weight", "bias", "score_vector", "sigmas")
    ]


class Buffers(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p)
        for name in (
            "query",
            "key",
            "value",
            "out",
            "valid_lens",
            "mask",
            "bias",
            "alibi_slopes",
            "sinks",
            "log_sum_exp",
            "weights",
            "query_weight",
            "key_weight",
            "weight",
            "score_bias",
            "score_vector",
            "sigmas",
            "query_offsets",
            "scores",
        )
    ]


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
        options = ContextOptions(
            struct_size=ctypes.sizeof(ContextOptions), max_threads=threads, max_isa=isa.encode(), parallel_for=self.loop
        )
        self.handle = ctypes.c_void_p()
        library.check(library.calls.fovea_context_create(ctypes.byref(options), ctypes.byref(self.handle)))

    def __del__(self):
        self.library.calls.fovea_context_destroy(self.handle)


class Attention:
    """A planned call: run() computes `out`. parameters: W_q, W_k and v of additive attention; None: a dot product."""

    def __init__(self, context, query, key, value, causal=False, parameters=None):
        self.context, self.calls = context, context.library.calls
        self.out = np.empty(query.shape[:-1] + value.shape[-1:], np.float32)
        tensors = [Tensor(array) for array in (query, key, value, self.out)]
        options = AttentionOptions(struct_size=ctypes.sizeof(AttentionOptions), flags=CAUSAL if causal else 0)
        arguments = [ctypes.byref(each) for each in (*tensors, options)]
        self.buffers = Buffers(
            struct_size=ctypes.sizeof(Buffers),
            query=query.ctypes.data,
            key=key.ctypes.data,
            value=value.ctypes.data,
            out=self.out.ctypes.data,
        )
        self.plan = ctypes.c_void_p()
        if parameters is None:
            self.kept = tensors
            status = self.calls.fovea_sdpa_plan_create(context.handle, *arguments, ctypes.byref(self.plan))
        else:
            views = [Tensor(array) for array in parameters]
            score = Score(
                ctypes.sizeof(Score),
                ADDITIVE,
                0,
                ctypes.pointer(views[0]),
                ctypes.pointer(views[1]),
                None,
                None,
                ctypes.pointer(views[2]),
            )
            self.buffers.query_weight, self.buffers.key_weight, self.buffers.score_vector = [
                array.ctypes.data for array in parameters
            ]
            self.kept = tensors + views
            status = self.calls.fovea_attention_plan_create(
                context.handle, ctypes.byref(score), *arguments, ctypes.byref(self.plan)
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
