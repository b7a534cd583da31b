#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A prompt whose positions lie on several ranks: causal ring attention, compared with one process that has all of them.

    mpirun -n 4 python3 -m mpi4py ring.py [LENGTH]     LENGTH: of the sequence, by default 2000

With mpi4py and libfovea-mpi (docs/beyond-one-machine.md). `-m mpi4py` ends all ranks if one of them fails.
"""
import sys

import numpy as np
from mpi4py import MPI

import fovea
import fovea.mpi

HEADS, KV_HEADS, HEAD_DIM = 8, 2, 64
ORDER = "zigzag"  # each rank has a chunk of the beginning and one of the end: as much to compute under a causal mask


def rows(heads, positions, seed):
    """Of some positions, as a model would compute them on the rank that has them: the same numbers wherever that is."""
    rows = [np.random.default_rng([seed, position]).standard_normal((heads, HEAD_DIM), np.float32) for position in positions]
    return np.stack(rows, axis=1)[None]  # [1, heads, positions, HEAD_DIM]


def main(length):
    comm = MPI.COMM_WORLD
    mine = fovea.mpi.positions(ORDER, length, comm.rank, comm.size)
    query, key, value = rows(HEADS, mine, 1), rows(KV_HEADS, mine, 2), rows(KV_HEADS, mine, 3)
    query, key = fovea.rotary(query, positions=mine), fovea.rotary(key, positions=mine)

    threads = fovea.Context(max_threads=1)  # ranks of one machine share its cores
    with fovea.mpi.Ranks(comm, context=threads) as ranks:
        out = ranks.ring_attention(query, key, value, order=ORDER, is_causal=True)
        figures = comm.gather(ranks.figures)
    shares = comm.gather((query, key, value, out))
    if comm.rank > 0:
        return

    for rank, figure in enumerate(figures):
        print(f"rank {rank}: {figure.bytes_sent / 1e6:.2f} MB sent, {figure.blocks_attended} blocks attended, "
              f"{figure.seconds_computing * 1e3:.1f} ms computing, {figure.seconds_waiting * 1e3:.1f} ms waiting")
    whole = [np.empty((1, heads, length, HEAD_DIM), np.float32) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)]
    for rank, arrays in enumerate(shares):
        for array, one in zip(whole, arrays):
            fovea.mpi.unshare(ORDER, one, array, rank, comm.size)
    query, key, value, out = whole
    error = np.abs(out - fovea.attention(query, key, value, is_causal=True)).max()
    print(f"{length} positions on {comm.size} ranks: within {error:.1e} of one process")
    if not error <= 1e-5:
        sys.exit("the ring's result is not that of one process")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or [2000]))
