#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a small call costs from Python beyond the same call from C, in turns in one process; medians of 41 rounds.

    PYTHONPATH=build/release/capi/bindings/python python3 capi/bindings/python/bench/overhead.py \
        build/release/capi/bindings/python/bench/liboverhead.so
"""
import ctypes
import statistics
import sys
import time

import numpy as np

import fovea

COUNT, ROUNDS = 3000, 41


def loop(call):
    start = time.perf_counter_ns()
    for _ in range(COUNT):
        call()
    return (time.perf_counter_ns() - start) / COUNT


def main(library, with_torch):
    in_c = ctypes.CDLL(library).nanoseconds_in_c
    in_c.restype = ctypes.c_double
    rng = np.random.default_rng(1)
    query = rng.standard_normal((1, 1, 1, 64), np.float32)
    key, value = (rng.standard_normal((1, 1, 16, 64), np.float32) for _ in range(2))
    out = np.empty_like(query)
    shapes = [(ctypes.c_int64 * 4)(*x.shape) for x in (query, key)]
    data = [x.ctypes.data_as(ctypes.c_void_p) for x in (query, key, value, out)]
    run = fovea.plan(query, key, value)
    ways = {
        "C, planned": lambda: in_c(*shapes, *data, COUNT),
        "an empty loop": lambda: loop(lambda: None),
        "plan(q, k, v, out=out)": lambda: loop(lambda: run(query, key, value, out=out)),
        "plan(q, k, v)": lambda: loop(lambda: run(query, key, value)),
        "fovea.attention(q, k, v)": lambda: loop(lambda: fovea.attention(query, key, value)),
    }
    if with_torch:
        import torch
        from fovea import torch as _torch  # which registers the operator

        tensors = [torch.from_numpy(x) for x in (query, key, value)]
        target = torch.empty_like(tensors[0])
        theirs = torch.nn.functional.scaled_dot_product_attention
        planned = fovea.plan(*tensors)
        ways |= {
            "plan of tensors, out=": lambda: loop(lambda: planned(*tensors, out=target)),
            "plan of tensors": lambda: loop(lambda: planned(*tensors)),
            "fovea.torch's function": lambda: loop(lambda: _torch.scaled_dot_product_attention(*tensors)),
            "torch.ops.fovea.sdpa": lambda: loop(lambda: torch.ops.fovea.sdpa(*tensors)),
            "PyTorch's own function": lambda: loop(lambda: theirs(*tensors)),
        }
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name].append(way())
    in_c_alone, empty = (statistics.median(times[name]) for name in list(ways)[:2])
    for name, taken in times.items():
        median = statistics.median(taken)
        beyond = "" if name in list(ways)[:2] else f"  {median - empty - in_c_alone:+7.0f} ns over C"
        print(f"{name:26} {median:8.0f} ns{beyond}")


if __name__ == "__main__":
    main(sys.argv[1], "torch" in sys.argv[2:])
