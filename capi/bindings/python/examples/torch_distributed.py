#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ring attention for a program of torch.distributed: over MPI where there is one, else by the group's own messages.

    torchrun --nproc-per-node 3 torch_distributed.py               the group's own (gloo): MPI is not needed
    mpirun -n 3 python3 -m mpi4py torch_distributed.py             fovea.mpi, beside a group of gloo

libfovea-mpi speaks MPI and nothing else. Started by mpirun, a program has MPI's ranks beside its group's (or is MPI's own, with the
backend "mpi", which few builds of PyTorch have), and a communicator that is split off in the order of the group has the group's
ranks; tensors stay PyTorch's. Started by torchrun there is no MPI. Then the ring is a few
lines of `fovea.attention`, which says how much each partial result weighs, and `fovea.merge_states`. They wait for each message
before they compute; fovea.mpi computes meanwhile, shares positions so that a causal mask gives all ranks as much to do, and
leaves out blocks that nobody attends.
"""
import os
import sys

import torch
import torch.distributed as dist

import fovea

BATCH, HEADS, KV_HEADS, LENGTH, HEAD_DIM = 2, 8, 2, 1000, 64


def ring_of_the_group(query, key, value, first, length):
    """Causal attention of queries [B, H, Q, D] that stand at `first` of a sequence of `length`, to the keys and values of all
    ranks, each of which has neighbours, rank after rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ends = [length * (n + 1) // ranks for n in range(ranks)]
    outs, sums = [], []
    for step in range(ranks):
        owner = (rank - step) % ranks  # whose keys and values are here
        begin = ends[owner - 1] if owner else 0
        if begin < first + query.shape[-2]:  # else all of them come after these queries
            out = torch.empty_like(query, dtype=torch.float32)  # rounded once, when all are merged
            out, log_sum_exp = fovea.attention(query, key, value, is_causal=True, query_offset=first - begin, out=out,
                                               return_log_sum_exp=True)
            outs.append(out)
            sums.append(log_sum_exp)
        if step < ranks - 1:
            following = (rank - step - 1) % ranks
            size = ends[following] - (ends[following - 1] if following else 0)
            key, value = [passed_on(tensor, size) for tensor in (key, value)]
    return fovea.merge_states(torch.stack(outs), torch.stack(sums))[0].to(query.dtype)


def passed_on(tensor, length):
    """What comes from the rank before this one, of `length` positions, while `tensor` goes to the one behind it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = tensor.new_empty((*tensor.shape[:-2], length, tensor.shape[-1]))
    messages = [dist.P2POp(dist.isend, tensor.contiguous(), (rank + 1) % ranks),
                dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]
    for message in dist.batch_isend_irecv(messages):
        message.wait()
    return received


def ring_over_mpi(query, key, value):
    """The same over MPI."""
    from mpi4py import MPI

    import fovea.mpi

    comm = MPI.COMM_WORLD.Split(0, dist.get_rank())  # ranks as the group has them
    with fovea.mpi.Ranks(comm, context=fovea.Context(max_threads=torch.get_num_threads())) as ranks:
        return ranks.ring_attention(query, key, value, is_causal=True)


def join_the_group():
    """True if mpirun has started this; then MPI tells torch.distributed what torchrun would."""
    by_mpirun = "TORCHELASTIC_RUN_ID" not in os.environ
    if by_mpirun:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        # Of one machine: on several the first rank's address takes the place of 127.0.0.1.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if comm.rank == 0 else None
        port = comm.bcast(store.port if store else None)
        store = store or dist.TCPStore("127.0.0.1", port, is_master=False)
        dist.init_process_group("gloo", store=store, rank=comm.rank, world_size=comm.size)
    else:
        dist.init_process_group("gloo")
    return by_mpirun


def main():
    torch.set_num_threads(1)  # ranks of one machine share its cores
    by_mpirun = join_the_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # on all ranks alike: each has the whole to compare with
    whole = [torch.randn(BATCH, heads, LENGTH, HEAD_DIM, dtype=torch.bfloat16) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    begin, end = LENGTH * rank // ranks, LENGTH * (rank + 1) // ranks
    query, key, value = (tensor[:, :, begin:end] for tensor in whole)

    out = ring_over_mpi(query, key, value) if by_mpirun else ring_of_the_group(query, key, value, begin, LENGTH)
    error = (out.float() - fovea.attention(*whole, is_causal=True)[:, :, begin:end].float()).abs().max()
    dist.all_reduce(error, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{LENGTH} positions on {ranks} ranks, {'over MPI' if by_mpirun else 'by gloo'}: within {error:.1e} of one process")
    dist.destroy_process_group()
    if not error <= 0.01:  # a place of bfloat16, of numbers up to 2
        sys.exit("the ring's result is not that of one process")


if __name__ == "__main__":
    main()
