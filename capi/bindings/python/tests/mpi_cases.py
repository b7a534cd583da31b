#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What test_mpi.py starts under mpirun: functions of fovea.mpi on several ranks, against the package's own on the whole.

usage: mpi_cases.py CASE...
"""
import contextlib
import itertools
import sys
import threading

import numpy as np
from mpi4py import MPI

import fovea
import fovea.mpi
from fovea.mpi import layouts, share

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
ORDERS = ("contiguous", "zigzag", "striped")
ONE_THREAD = fovea.Context(max_threads=1)
HEADS = 12  # a multiple of 1 to 4 ranks
TYPES = [(np.float32, 2e-6), (np.float16, 2e-3)]
with contextlib.suppress(ImportError):
    import ml_dtypes

    TYPES.append((ml_dtypes.bfloat16, 2e-2))


def random(*shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tensors(length=37, *, dtype=np.float32, heads=HEADS, kv_heads=HEADS, dim=16, value_dim=12):
    return (random(2, heads, length, dim, dtype=dtype), random(2, kv_heads, length, dim, seed=2, dtype=dtype),
            random(2, kv_heads, length, value_dim, seed=3, dtype=dtype))


def shares(order, *arrays, axis=-2):
    return [share(order, array, RANK, SIZE, axis) for array in arrays]


def close(given, wanted, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(given, np.float64), np.asarray(wanted, np.float64), rtol=tolerance, atol=tolerance)


def same(given, wanted):
    assert given.dtype == wanted.dtype and given.shape == wanted.shape
    assert given.tobytes() == wanted.tobytes()


SCORES = [None, fovea.Dot(), fovea.Bilinear(random(16, 16, seed=4)),
          fovea.Additive(random(8, 16, seed=5), random(8, 16, seed=6), random(8, seed=7)),
          fovea.Concat(random(8, 32, seed=8), random(8, seed=9), random(8, seed=10)),
          fovea.Gaussian(1.5), fovea.Gaussian(sigmas=np.linspace(1, 2, HEADS, dtype="f"))]
OPTIONS = [{}, {"is_causal": True}, {"is_causal": True, "scale": 0.3, "softcap": 4.0}, {"window_left": 9, "window_right": 2},
           {"valid_lens": np.array([20, 0]), "empty_rows": "nan"},
           {"sinks": random(HEADS, seed=11), "query_offset": 3, "is_causal": True},
           {"query_offsets": [0, 4], "window_left": 5}, {"scale": 0.0}]


def ring(ranks):
    q, k, v = tensors()
    for order, (score, options) in itertools.product(ORDERS, [(score, {"is_causal": True}) for score in SCORES] +
                                                     [(None, options) for options in OPTIONS]):
        wanted = fovea.attention(q, k, v, score=score, return_log_sum_exp=True, **options)
        out, log_sum_exp = ranks.ring_attention(*shares(order, q, k, v), score=score, order=order, return_log_sum_exp=True,
                                                **options)
        close(out, share(order, wanted[0], RANK, SIZE), 5e-6)
        close(log_sum_exp, share(order, wanted[1], RANK, SIZE, -1), 5e-6)
        if SIZE == 1:
            same(out, wanted[0])
    slopes = fovea.alibi_slopes(HEADS)
    wanted = fovea.attention(q, k, v, alibi_slopes=slopes, is_causal=True)
    for order in ORDERS[:2]:
        out = ranks.ring_attention(*shares(order, q, k, v), order=order, alibi_slopes=slopes, is_causal=True)
        close(out, share(order, wanted, RANK, SIZE))


def backward(ranks):
    q, k, v = tensors(kv_heads=4)
    grad_out, grad_sums = random(2, HEADS, 37, 12, seed=20), random(2, HEADS, 37, seed=21)
    additive = fovea.Additive(random(8, 16, seed=5), random(8, 16, seed=6), random(8, seed=7))
    for order, (score, options, parameters) in itertools.product(ORDERS, [
            (None, {"is_causal": True}, ()), (None, {"sinks": random(HEADS), "window_left": 9}, ("sinks",)),
            (additive, {}, ("query_weight", "key_weight", "score_vector")), (fovea.Gaussian(1.5), {}, ("sigmas",))]):
        wanted = ("query", "key", "value", *parameters)
        out, sums = fovea.attention(q, k, v, score=score, return_log_sum_exp=True, **options)
        expected = fovea.attention_backward(q, k, v, out, sums, grad_out, grad_log_sum_exp=grad_sums, score=score, wanted=wanted,
                                            **options)
        mine = shares(order, q, k, v)
        out, sums = ranks.ring_attention(*mine, score=score, order=order, return_log_sum_exp=True, **options)
        sums.flags.writeable = False  # it is read
        reaching = share(order, grad_out, RANK, SIZE), share(order, grad_sums, RANK, SIZE, -1)
        given = ranks.ring_attention_backward(*mine, out, sums, reaching[0], grad_log_sum_exp=reaching[1], wanted=wanted, score=score,
                                              order=order, **options)
        assert tuple(given) == wanted
        for name in wanted:
            close(given[name], expected[name] if name in parameters else share(order, expected[name], RANK, SIZE), 5e-5)
    for by in range(SIZE):
        with refused(ValueError, "wanted: 'joy' is none of", by, by_python=True):
            ranks.ring_attention_backward(*mine, out, sums, share(order, grad_out, RANK, SIZE), order=order,
                                          wanted=("joy" if RANK == by else "key",))


def types(ranks):
    for dtype, tolerance in TYPES:
        q, k, v = tensors(dtype=dtype, kv_heads=4)
        out = ranks.ring_attention(*shares("zigzag", q, k, v), order="zigzag", is_causal=True)
        assert out.dtype == dtype
        close(out, share("zigzag", fovea.attention(q, k, v, is_causal=True), RANK, SIZE), tolerance)
    q, k, v = tensors(kv_heads=4)
    mine = shares("striped", q, k, v)
    given = np.empty(mine[0].shape[:-1] + (12,), np.float16)
    assert ranks.ring_attention(*mine, order="striped", out=given) is given
    close(given, share("striped", fovea.attention(q, k, v), RANK, SIZE), 1e-3)
    for name, rank_3_or_2 in (("rank 3", (q[:, 0], k[:, 0], v[:, 0])), ("rank 2", (q[0, 0], k[0, 0], v[0, 0]))):
        out = ranks.ring_attention(*shares("contiguous", *rank_3_or_2))
        close(out, share("contiguous", fovea.attention(*rank_3_or_2), RANK, SIZE)), name
    laid = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in mine]  # [B, L, H, D] in memory
    same(ranks.ring_attention(*laid, order="striped"), ranks.ring_attention(*mine, order="striped"))
    lists = [x[0, 0].tolist() for x in mine]
    same(ranks.ring_attention(*lists, order="striped"), ranks.ring_attention(*(x[0, 0] for x in mine), order="striped"))


def transport(ranks):
    q, k, v = tensors()
    mine = shares("zigzag", q, k, v)
    for name, dtype in [("float16", np.float16)] + ([("bfloat16", TYPES[2][0])] if len(TYPES) > 2 else []):
        rounded = [x.astype(dtype).astype(np.float32) if SIZE > 1 else x for x in (k, v)]
        wanted = share("zigzag", fovea.attention(q, *rounded), RANK, SIZE)
        bytes_sent = []
        for given in (None, name, dtype):
            out = ranks.ring_attention(*mine, order="zigzag", transport=given)
            bytes_sent.append(ranks.figures.bytes_sent)
            close(out, wanted if given is not None else share("zigzag", fovea.attention(q, k, v), RANK, SIZE))
        assert bytes_sent[0] == 2 * bytes_sent[1] == 2 * bytes_sent[2], bytes_sent
        assert (bytes_sent[0] > 0) == (SIZE > 1)


def figures(ranks):
    """Of more than one rank: one alone makes the core's call and counts nothing."""
    assert (ranks.rank, ranks.size) == (RANK, SIZE)
    ranks.ring_attention(*shares("contiguous", *tensors()), is_causal=True)
    seen = ranks.figures
    assert seen.blocks_attended == RANK + 1 and seen.blocks_passed_by == SIZE - RANK - 1, seen
    assert seen.seconds_computing > 0 and seen.seconds_waiting >= 0, seen
    assert (seen.bytes_sent > 0) == (RANK < SIZE - 1), seen


def heads(ranks):
    q, k, v = tensors()
    mask, bias = random(1, HEADS, 37, 37, seed=4) > -1, random(37, 37, seed=5)
    for order, options in itertools.product(ORDERS, [{}, {"is_causal": True, "sinks": random(HEADS)},
                                                     {"mask": mask, "bias": bias},
                                                     {"valid_lens": np.arange(74).reshape(2, 37) % 38}]):
        options = {**options, "query_invariant": True}
        wanted = fovea.attention(q, k, v, **options)
        same(ranks.ulysses_attention(*shares(order, q, k, v), order=order, **options), share(order, wanted, RANK, SIZE))
    score = fovea.Gaussian(sigmas=np.linspace(1, 2, HEADS, dtype="f"))
    wanted = fovea.attention(q, k, v, score=score)
    close(ranks.ulysses_attention(*shares("contiguous", q, k, v), score=score), share("contiguous", wanted, RANK, SIZE))


def decode(ranks):
    q, k, v = tensors()
    q = q[:, :, :3]
    ends = [0, *(37 * (n + 1) // SIZE for n in range(SIZE))]
    if SIZE > 2:
        ends[2] = ends[1]  # a rank without keys
    mine = [x[:, :, ends[RANK]:ends[RANK + 1]] for x in (k, v)]
    for score, options in [(score, {}) for score in SCORES] + [(None, {"sinks": random(HEADS), "scale": 0.2})]:
        wanted = fovea.attention(q, k, v, score=score, return_log_sum_exp=True, **options)
        given = ranks.decode_attention(q, *mine, score=score, return_log_sum_exp=True, **options)
        for out, one in zip(given, wanted):
            close(out, one, 5e-6)
            assert len(set(COMM.allgather(out.tobytes()))) == 1
    from_first = ranks.decode_attention(q if RANK == 0 else np.full_like(q, np.nan), *mine, query_on_rank_0=True)
    same(from_first, ranks.decode_attention(q, *mine))
    (k8, k_scales), (v8, v_scales) = fovea.quantize(mine[0], 16), fovea.quantize(mine[1], 12)
    out = ranks.decode_attention(q, k8, v8, key_scales=k_scales, value_scales=v_scales)
    close(out, fovea.attention(q, k, v), 0.05)
    lengths = np.array([mine[0].shape[2] // 2, mine[0].shape[2]])
    out = ranks.decode_attention(q, *mine, valid_lens=lengths)
    halves = [x[:1, :, [j for n in range(SIZE) for j in range(ends[n], ends[n] + (ends[n + 1] - ends[n]) // 2)]] for x in (k, v)]
    close(out[:1], fovea.attention(q[:1], *halves))


def positions(_):
    for order in ORDERS:
        everyone = COMM.allgather(fovea.mpi.positions(order, 37, RANK, SIZE))
        assert everyone[RANK].dtype == np.int64 and len(everyone[RANK]) == fovea.mpi.share_length(order, 37, RANK, SIZE)
        assert sorted(np.concatenate(everyone)) == list(range(37))
        for dtype in (np.int64, np.int32, np.float32, np.int8, bool):
            whole = (np.arange(3 * 37 * 2).reshape(3, 37, 2) % 2).astype(dtype)
            for axis in (1, -2):
                same(share(order, whole, RANK, SIZE, axis), whole[:, everyone[RANK]])
        back = np.zeros((3, 37, 2), dtype)
        for rank in range(SIZE):
            assert fovea.mpi.unshare(order, share(order, whole, rank, SIZE), back, rank, SIZE) is back
        same(back, whole)
        given = np.zeros((len(everyone[RANK]), 2), dtype)
        assert share(order, whole[0], RANK, SIZE, out=given) is given
        same(given, whole[0, everyone[RANK]])


def contexts(_):
    q, k, v = tensors(300)
    slowest = fovea.Context(max_threads=2, max_isa="base")
    with fovea.mpi.Ranks(MPI.COMM_SELF, context=slowest) as ranks:
        same(ranks.ring_attention(q, k, v), fovea.attention(q, k, v, context=slowest))
    medium = fovea.Context(max_threads=1, precision="medium")
    with fovea.mpi.Ranks(MPI.COMM_SELF, context=medium, message_bytes=100) as ranks:
        same(ranks.ring_attention(q, k, v), fovea.attention(q, k, v, context=medium))
    with fovea.mpi.Ranks(COMM, message_bytes=1000) as small, fovea.mpi.Ranks(COMM) as large:
        mine = shares("zigzag", q, k, v)
        same(small.ring_attention(*mine, order="zigzag"), large.ring_attention(*mine, order="zigzag"))


def from_threads(ranks):
    """Of one Ranks they take turns."""
    assert MPI.Query_thread() >= MPI.THREAD_SERIALIZED
    mine = shares("zigzag", *tensors())
    wanted, given = ranks.ring_attention(*mine, order="zigzag"), []
    for _ in range(5):
        threads = [threading.Thread(target=lambda: given.append(ranks.ring_attention(*mine, order="zigzag"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(given) == 15
    for out in given:
        same(out, wanted)


def grid(_):
    """Groups of two; of four ranks, two groups."""
    q, k, v = tensors()
    with (fovea.mpi.Ranks(COMM.Split(RANK // 2, RANK)) as within, fovea.mpi.Ranks(COMM.Split(RANK % 2, RANK)) as between):
        group = share("zigzag", q, between.rank, between.size), share("zigzag", k, between.rank, between.size), share(
            "zigzag", v, between.rank, between.size)
        mine = [share("contiguous", x, within.rank, within.size) for x in group]
        options = {"is_causal": True, "return_log_sum_exp": True}
        out, log_sum_exp = fovea.mpi.grid_attention(within, between, *mine, order="zigzag", **options)
        for given, wanted, axis in zip((out, log_sum_exp), fovea.attention(q, k, v, **options), (-2, -1)):
            wanted = share("zigzag", wanted, between.rank, between.size, axis)
            close(given, share("contiguous", wanted, within.rank, within.size, axis), 5e-6)
        for bad in range(SIZE):
            is_mine = bad == RANK
            who = f"rank {bad // 2}: rank {bad % 2}: "
            with refused(ValueError, "order: 'spiral' is none of", bad, who, by_python=True):
                fovea.mpi.grid_attention(within, between, *mine, order="spiral" if is_mine else "zigzag")
            with refused(fovea.BadDtype, "query has dtype float64, expected float32, float16 or bfloat16", bad, who):
                fovea.mpi.grid_attention(within, between, mine[0].astype("d") if is_mine else mine[0], *mine[1:], order="zigzag")
        same(out, fovea.mpi.grid_attention(within, between, *mine, order="zigzag", is_causal=True))


@contextlib.contextmanager
def refused(kind, message, by, who=None, *, by_python=False):
    """All ranks raise it. `by` is the rank at fault, `who` what it is called; where Python refuses, it says so in its own words."""
    who = f"rank {by}: " if who is None else who
    try:
        yield
    except BaseException as error:
        said = str(error)
        assert isinstance(error, kind), (type(error), said)
        assert error.on_all_ranks
        if by_python:
            assert said.startswith(message if by == RANK else who + message), (said, who, message)
        else:
            assert said.startswith(who) and message in said, (said, who, message)
    else:
        raise AssertionError(f"rank {RANK}: nothing is refused, expected {message}")


class Unreadable:
    """An array that raises when it is read."""

    shape = (2, HEADS, 10, 16)

    def __init__(self, error):
        self.error = error

    def __dlpack_device__(self):
        raise self.error

    def __dlpack__(self, **_):
        raise self.error


def errors(ranks):
    """Each in turn by each rank alone; then a call works as before, and what was given as out is as it was."""
    mine = shares("zigzag", *tensors(36))  # as many on each rank, for decoding takes one number of queries
    q, k, v = mine
    wanted = ranks.ring_attention(*mine, order="zigzag")
    given = np.full_like(wanted, 7)
    calls = {"ring": lambda *a, **o: ranks.ring_attention(*a, **{"order": "zigzag", "out": given, **o}),
             "heads": lambda *a, **o: ranks.ulysses_attention(*a, **{"order": "zigzag", "out": given, **o}),
             "decode": lambda *a, **o: ranks.decode_attention(*a, out=given, **o)}
    for by, (name, call) in itertools.product(range(SIZE), calls.items()):
        bad = by == RANK

        def python(kind, message, arrays=mine, **options):
            with refused(kind, message, by, by_python=True):  # noqa: B023
                call(*(arrays if bad else mine), **(options if bad else {}))  # noqa: B023

        def library(kind, message, arrays=mine, **options):
            with refused(kind, message, by):  # noqa: B023
                call(*(arrays if bad else mine), **(options if bad else {}))  # noqa: B023

        if name != "decode":
            python(ValueError, "order: 'spiral' is none of", order="spiral")
            python(ValueError, "order: 3 is none of", order=3)
        python(TypeError, "attention has no option 'telepathy'", telepathy=True)
        python(ValueError, "empty_rows: 'full' is none of", empty_rows="full")
        python(TypeError, "score: a fovea.Score is wanted", score="dot")
        python(TypeError, "key: an array is wanted", arrays=(q, object(), v))
        python(ValueError, "query: no such luck", arrays=(Unreadable(ValueError("no such luck")), k, v))
        python(TypeError, "softcap: ", softcap="much")
        python(fovea.Error if not bad else KeyboardInterrupt, "KeyboardInterrupt" if not bad else "",
               arrays=(Unreadable(KeyboardInterrupt()), k, v))
        library(fovea.NullPointer, "value is NULL", arrays=(q, k, None))
        expected = "expected float32, float16 or bfloat16"
        library(fovea.BadDtype, f"value has dtype float64, {expected}", arrays=(q, k, v.astype("d")))
        library(fovea.BadDtype, f"query has dtype int32, {expected}", arrays=(q.astype("i"), k, v))
        library(fovea.BadShape, "key", arrays=(q, k[..., :7], v))
        library(fovea.BadRank, "has rank 4, expected 3", arrays=(q[0], k, v))
        library(fovea.BadValue, "options.weights", return_weights=True)
        library(fovea.BadValue, "options.softcap", softcap=-1.0)
        if SIZE > 1:
            with refused(fovea.BadValue, "options.scale", by or 1):
                call(*mine, scale=0.25 if RANK == (by or 1) else 0.5)
        assert (given == 7).all()
        same(ranks.ring_attention(*mine, order="zigzag"), wanted)
    with refused(fovea.BadValue, "transport is int8, expected float16 or bfloat16", RANK, by_python=True):
        ranks.ring_attention(*mine, order="zigzag", transport="int8")


def two_errors(ranks):
    """Of two ranks at once: Python's words are heard before the library's, and of the library's those of the first rank."""
    q, k, v = shares("zigzag", *tensors())
    last = SIZE - 1
    with refused(ValueError, "order: 'spiral' is none of", last, by_python=True):
        ranks.ring_attention(q, k[..., :7] if RANK == 0 else k, v, order="spiral" if RANK == last else "zigzag")
    with refused(fovea.BadDtype, "query has dtype float64", 0):
        ranks.ring_attention(q.astype("d" if RANK == 0 else "i"), k, v, order="zigzag")
    with refused(fovea.BadValue, "calls fovea_mpi_decode_attention, expected fovea_mpi_ring_attention", 1):
        if RANK == 1:
            ranks.decode_attention(q, k, v)
        else:
            ranks.ring_attention(q, k, v, order="zigzag")


def handles(_):
    """Made and closed, and what is refused then."""
    for by in range(SIZE):
        bad = by == RANK
        with refused(fovea.BadValue, "message_bytes is 0, expected at least 1, or None", by, by_python=True):
            fovea.mpi.Ranks(COMM, message_bytes=0 if bad else None)
        with refused(fovea.BadValue, f"message_bytes: {2**70} is out of range", by, by_python=True):
            fovea.mpi.Ranks(COMM, message_bytes=2**70 if bad else 5)
        with refused(TypeError, "context: a fovea.Context is wanted, not int", by, by_python=True):
            fovea.mpi.Ranks(COMM, context=3 if bad else ONE_THREAD)
        with refused(fovea.BadValue, "options.message_bytes is -1", by):
            fovea.mpi.Ranks(COMM, message_bytes=-1 if bad else None)
    for comm in (None, 3, COMM.group):
        expect(TypeError, "comm: a communicator of mpi4py is wanted", lambda: fovea.mpi.Ranks(comm))  # noqa: B023
    expect(fovea.BadValue, "comm is no intracommunicator", lambda: fovea.mpi.Ranks(MPI.COMM_NULL))
    ranks = fovea.mpi.Ranks(COMM)
    assert repr(ranks) == f"<fovea.mpi.Ranks, rank {RANK} of {SIZE}>"
    ranks.close()
    ranks.close()
    assert repr(ranks) == "<fovea.mpi.Ranks, closed>"
    q, other = random(4, 8), fovea.mpi.Ranks(MPI.COMM_SELF)
    other.close()
    for call in (lambda: ranks.rank, lambda: ranks.size, lambda: ranks.figures, lambda: ranks.ring_attention(q, q, q),
                 lambda: ranks.__enter__(), lambda: fovea.mpi.grid_attention(ranks, other, q, q, q)):
        expect(ValueError, "these Ranks are closed", call)
    expect(TypeError, "within: fovea.mpi.Ranks are wanted, not Intracomm", lambda: fovea.mpi.grid_attention(COMM, ranks, q, q, q))
    expect(ValueError, "two different Ranks are wanted", lambda: fovea.mpi.grid_attention(ranks, ranks, q, q, q))
    for error, closes in ((fovea.BadValue("all say so"), True), (KeyError("one alone"), False)):
        error.on_all_ranks = closes
        with contextlib.suppress(fovea.BadValue, KeyError), fovea.mpi.Ranks(COMM) as ranks:
            raise error
        assert ("closed" in repr(ranks)) == closes
        ranks.close()


def shares_refused(_):
    """Not collective: what is wrong is said here."""
    whole = random(5, 3)
    for call, kind, message in [
            (lambda: share("spiral", whole, 0, 1), ValueError, "order: 'spiral' is none of"),
            (lambda: share("zigzag", whole, 1, 1), fovea.BadValue, "rank"),
            (lambda: share("zigzag", whole, 2**32, 1), fovea.BadValue, f"rank: {2**32} is out of range"),
            (lambda: share("zigzag", whole, 0, 1, axis=2), fovea.BadValue, "axis"),
            (lambda: share("zigzag", whole, 0, 1, axis=-3), fovea.BadValue, "axis"),
            (lambda: share("zigzag", whole, 0, 1, out=np.empty((5, 3), "d")), fovea.BadDtype, "share has dtype float64"),
            (lambda: share("zigzag", whole, 0, 1, out=np.empty((4, 3), "f")), fovea.BadShape, "share"),
            (lambda: share("zigzag", whole, 0, 1, out=whole), fovea.Overlap, "overlap"),
            (lambda: fovea.mpi.unshare("zigzag", whole, np.empty((6, 3), "f"), 0, 1), fovea.BadShape, "share"),
            (lambda: fovea.mpi.share_length("zigzag", -1, 0, 1), fovea.BadValue, "length"),
            (lambda: fovea.mpi.share_length("zigzag", 1.5, 0, 1), TypeError, "integer"),
            (lambda: fovea.mpi.positions("zigzag", 2**62, 0, 1), fovea.BadValue, "length")]:
        expect(kind, message, call)


def expect(kind, message, call):
    try:
        call()
    except kind as error:
        assert message in str(error), (message, str(error))
    else:
        raise AssertionError(f"{message!r} was expected")


def torch_tensors(ranks):
    import torch

    q, k, v = (torch.from_numpy(x) for x in tensors(kv_heads=4))
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        whole = [x.to(dtype) for x in (q, k, v)]
        mine = shares("zigzag", *whole)
        assert all(isinstance(x, torch.Tensor) and x.dtype == dtype for x in mine)
        out, log_sum_exp = ranks.ring_attention(*mine, order="zigzag", is_causal=True, return_log_sum_exp=True)
        assert isinstance(out, torch.Tensor) and out.dtype == dtype and log_sum_exp.dtype == torch.float32
        wanted = fovea.attention(*whole, is_causal=True)
        torch.testing.assert_close(out, share("zigzag", wanted, RANK, SIZE), rtol=tolerance, atol=tolerance)
        given = torch.empty_like(out)
        assert ranks.ring_attention(*mine, order="zigzag", is_causal=True, out=given) is given and torch.equal(given, out)
    out = ranks.ulysses_attention(*shares("striped", *tensors_of_torch(torch)), order="striped", query_invariant=True)
    wanted = fovea.attention(*tensors_of_torch(torch), query_invariant=True)
    assert torch.equal(out, share("striped", wanted, RANK, SIZE))
    close(ranks.ring_attention(*mine, order="zigzag", transport=None if mine[0].dtype != torch.float32 else torch.bfloat16).float(),
          share("zigzag", fovea.attention(*whole), RANK, SIZE).float(), 2e-2)
    for dtype in (torch.int64, torch.bool, torch.bfloat16):
        x = (torch.arange(74).reshape(37, 2) % 2).to(dtype)
        assert torch.equal(share("striped", x, RANK, SIZE), x[RANK::SIZE])
    for by in range(SIZE):
        with refused(RuntimeError, "fovea computes no gradients but in fovea.torch", by, by_python=True):
            ranks.ring_attention(mine[0].clone().requires_grad_(by == RANK), *mine[1:], order="zigzag")


def tensors_of_torch(torch):
    return [torch.from_numpy(x) for x in tensors()]


def jax_arrays(ranks):
    import jax
    import jax.numpy as jnp

    whole = [jnp.asarray(x) for x in tensors()]
    mine = shares("zigzag", *whole)
    out = ranks.ring_attention(*mine, order="zigzag")
    assert isinstance(out, jax.Array) and all(isinstance(x, jax.Array) for x in mine)
    close(out, share("zigzag", fovea.attention(*whole), RANK, SIZE))


def main(names):
    assert layouts.Figures().struct_size > 0
    with fovea.mpi.Ranks(COMM, context=ONE_THREAD) as ranks:
        for name in names:
            globals()[name](ranks)
            COMM.Barrier()
            if RANK == 0:
                print("ok", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
