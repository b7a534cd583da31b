"""Measures through the library itself: time over sequence length, scaling over threads, error, memory.

Ways that are compared take turns, block by block, so that a machine that changes its speed favours none; reported is
the mean of the fastest third of the blocks. On a shared machine others only ever take time away, and more often from
two threads than from one: a median would show how busy they were.
"""
# SPDX-License-Identifier: Apache-2.0
import statistics

import numpy as np

import library as fovea

#        name: B, H, Hkv, Q, K, D, causal, units of additive attention (0: dot product), bound, in cache
CALLS = {
    "encoder, 512 tokens": (1, 12, 12, 512, 512, 64, False, 0, "flops", True),
    "batch of 8 x 128 tokens": (8, 12, 12, 128, 128, 64, False, 0, "flops", True),
    "causal prompt, 1024 tokens": (1, 12, 12, 1024, 1024, 64, True, 0, "flops", True),
    "causal prompt, 32 heads of 128": (1, 32, 8, 2048, 2048, 128, True, 0, "flops", True),
    "additive, 4 x 256 queries": (4, 1, 1, 256, 512, 256, False, 256, "flops", True),
    "decoding, 4096 keys": (1, 32, 8, 1, 4096, 128, False, 0, "bytes", True),
    "decoding 16 x 1024 keys": (16, 32, 8, 1, 1024, 128, False, 0, "bytes", False),
}
QUICK_CALLS = ("encoder, 512 tokens", "causal prompt, 1024 tokens", "additive, 4 x 256 queries", "decoding, 4096 keys")
BARELY_SHARED = ((1, 1, 1, 128, 128, 64), (1, 2, 2, 96, 96, 64), (1, 4, 4, 64, 64, 64))


def inputs(batch, heads, kv_heads, queries, keys, size, units=0):
    """query, key, value, and additive attention's parameters or None."""
    random = np.random.default_rng(0)
    arrays = [
        fovea.normal(random, batch, count, length, size)
        for count, length in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    ]
    if not units:
        return *arrays, None
    return *arrays, [
        fovea.normal(random, units, size, scale=0.5 * size**-0.5),
        fovea.normal(random, units, size, scale=0.5 * size**-0.5),
        fovea.normal(random, units),
    ]


def in_turns(runs, blocks, block_seconds):
    """{name: [seconds of a run in each block]}."""
    counts = {
        name: max(1, round(block_seconds / fovea.seconds_of(run, block_seconds / 4))) for name, run in runs.items()
    }
    seconds = {name: [] for name in runs}
    for _ in range(blocks):
        for name, run in runs.items():
            run()  # its threads are awake, its data is where it can be
            seconds[name].append(fovea.seconds_exactly(run, counts[name]))
    return seconds


def undisturbed(seconds):
    fastest = sorted(seconds)[: -(-len(seconds) // 3)]
    return sum(fastest) / len(fastest)


def thread_counts(most):
    """1, 2, 4, ... and the most there are."""
    counts = [1]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return counts if most == 1 else counts + [most]


def length_points(quick):
    """(operation, length, sizes, causal, units) for each point."""
    longest = 2048 if quick else 8192
    points = []
    length = 64
    while length <= longest:
        points.append(("attention", length, (1, 8, 8, length, length, 64), False, 0))
        points.append(("causal attention", length, (1, 8, 8, length, length, 64), True, 0))
        points.append(("one query, 8 of 32 heads' keys", 4 * length, (1, 32, 8, 1, 4 * length, 128), False, 0))
        if length <= 2048:
            points.append(("additive attention", length, (1, 1, 1, length, length, 64), False, 64))
        length *= 2
    return points


def over_length(library, isa, most, quick, progress):
    rows = []
    for operation, length, sizes, causal, units in length_points(quick):
        progress.begin(f"{operation} over {length} keys")
        *arrays, parameters = inputs(*sizes, units)
        calls = {
            threads: fovea.Attention(fovea.Context(library, isa, threads), *arrays, causal, parameters)
            for threads in {1, most}
        }
        seconds = in_turns({threads: call.run for threads, call in calls.items()}, 3 if quick else 9, 0.02)
        batch, heads, _, queries, keys, _ = sizes
        for threads, call in calls.items():
            rows.append(
                {
                    "operation": operation,
                    "dtype": "f32",
                    "length": length,
                    "isa": isa,
                    "threads": threads,
                    "seconds": undisturbed(seconds[threads]),
                    "workspace": call.workspace_size,
                    "tensor_bytes": 4 * batch * heads * queries * keys * max(1, units),
                }
            )
    return rows


def traffic(sizes, causal, plan):
    """Bytes of keys and values that all tasks together read."""
    batch, _, kv_heads, _, keys, size = sizes
    return plan["row_blocks"] * batch * kv_heads * keys * 2 * size * 4 * (0.5 if causal else 1)


def inflation(library, isa, workers, arrays, causal, parameters, blocks):
    """Work of a call cut up for so many workers, over that of one, all on one core; and the plan."""
    contexts = [fovea.Context(library, isa, count, in_turn=True) for count in (1, workers)]
    calls = [fovea.Attention(context, *arrays, causal, parameters) for context in contexts]
    ratios = []
    for call in calls:
        call.run()
    for _ in range(blocks):
        one = fovea.seconds_of(calls[0].run, 0.01)
        calls[1].run()
        ratios.append(contexts[1].first_seconds / one)
    return max(1.0, statistics.median(ratios)), calls[1].describe()


def over_threads(library, isa, most, many, quick, progress):
    """For each call: seconds on 1, 2, 4, ... threads; and what its plan makes of `many` workers."""
    rows = []
    for name in QUICK_CALLS if quick else CALLS:
        progress.begin(f"threads: {name}")
        *sizes, causal, units, bound, warm = CALLS[name]
        *arrays, parameters = inputs(*sizes, units)
        contexts = {threads: fovea.Context(library, isa, threads) for threads in thread_counts(most)}
        calls = {
            threads: fovea.Attention(context, *arrays, causal, parameters) for threads, context in contexts.items()
        }
        seconds = in_turns({threads: call.run for threads, call in calls.items()}, 6 if quick else 15, 0.03)
        row = {
            "name": name,
            "bound": bound,
            "warm": warm,
            "tasks": {},
            "inflation": {},
            "traffic": {},
            "bytes": traffic(sizes, causal, {"row_blocks": 1}),
            "seconds": {threads: undisturbed(values) for threads, values in seconds.items()},
        }
        for workers in sorted({1, 2, *many}):
            more, plan = inflation(library, isa, workers, arrays, causal, parameters, 3 if quick else 5)
            row["inflation"][workers], row["tasks"][workers] = more, plan["tasks"]
            row["traffic"][workers] = traffic(sizes, causal, plan)
        rows.append(row)
    return rows


def barely_shared(library, isa):
    """(seconds of one thread, of two) of calls that are just large enough for two."""
    pairs = []
    for sizes in BARELY_SHARED:
        *arrays, _ = inputs(*sizes)
        calls = {threads: fovea.Attention(fovea.Context(library, isa, threads), *arrays) for threads in (1, 2)}
        seconds = in_turns({threads: call.run for threads, call in calls.items()}, 30, 0.002)
        pairs.append((undisturbed(seconds[1]), undisturbed(seconds[2])))
    return pairs
