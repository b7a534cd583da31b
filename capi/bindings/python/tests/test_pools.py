"""Pools: sequences come, share, go; what a thread, a garbage collector or a caller in a hurry does to them."""
import gc
import threading
import weakref

import numpy as np
import pytest
from reference import random

import fovea


def make_pool(**sizes):
    return fovea.KVPool(**{**dict(layers=2, kv_heads=2, head_dim=16, value_dim=12, positions=64, page_size=8, sequences=4),
                           **sizes})


def test_sequences_grow_share_and_go():
    pool = make_pool()
    assert (pool.pages, pool.page_size, pool.value_dim, pool.free_pages) == (8, 8, 12, 8)
    assert pool.nbytes == 2 * 64 * 2 * (16 + 12) * 4
    first, second = pool.open(), pool.open()
    step = pool.step({first: 20, second: 3})
    assert len(first) == 20 and len(second) == 3 and pool.free_pages == 4
    assert step.query_starts.tolist() == [0, 20, 23] and step.key_lens.tolist() == [20, 3]
    assert step.page_starts.tolist() == [0, 3, 4] and step.page_ids.shape == (4,)
    forked = first.fork(17)
    assert len(forked) == 17 and pool.free_pages == 4
    pool.step([(forked, np.int64(1))])  # copies the page that both would write into
    assert pool.free_pages == 3
    first.truncate(8)
    assert len(first) == 8 and pool.free_pages == 4
    forked.drop(16)
    assert len(forked) == 18 and pool.free_pages == 5
    with second:
        pass
    assert second.is_closed and pool.free_pages == 6
    second.close()
    with pytest.raises(fovea.BadValue, match="the sequence is closed"):
        len(second)
    for deed in (second.fork, second.save, lambda: second.truncate(0), lambda: second.drop(0), lambda: pool.step({second: 1})):
        with pytest.raises(fovea.BadValue, match="closed"):
            deed()


def test_a_fork_has_what_was_there():
    pool = make_pool()
    first = pool.open()
    ids = pool.step({first: 12}).page_ids
    pool.keys(0)[ids] = np.arange(2)[:, None, None, None]
    forked = first.fork()
    other = pool.step({forked: 1}).page_ids
    assert other[0] == ids[0] and other[1] != ids[1]
    assert (pool.keys(0)[other[1], :, :4] == 1).all()


def test_a_pool_that_is_full():
    pool = make_pool(sequences=2)
    first, second = pool.open(), pool.open()
    with pytest.raises(fovea.PoolExhausted, match="sequences") as caught:
        pool.open()
    assert isinstance(caught.value, fovea.Error) and caught.value.status == fovea.PoolExhausted.status == 14
    with pytest.raises(fovea.PoolExhausted, match="first|the step needs 9, and 8 of 8 are free"):
        pool.step({first: 60, second: 8})
    assert len(first) == 0 and pool.free_pages == 8
    pool.step({first: 64})
    with pytest.raises(fovea.PoolExhausted):
        pool.step({second: 1})
    with pytest.raises(fovea.PoolExhausted):
        first.fork()
    second.close()
    with first.fork(8) as forked:
        assert len(forked) == 8


@pytest.mark.parametrize("dtype", ["float32", np.float16, "bfloat16"])
def test_the_memory_is_the_pools_own(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    pool = make_pool(key_dtype=dtype, value_dtype="float32")
    keys = pool.keys(1)
    assert keys.shape == (8, 2, 8, 16) and keys.dtype == dtype and pool.values(1).shape == (8, 2, 8, 12)
    keys[3] = 5
    assert (pool.keys(1)[3] == 5).all() and np.shares_memory(keys, pool.keys(1)) and not np.shares_memory(keys, pool.keys(0))
    assert pool.key_scales(0) is None and pool.value_scales(0) is None
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    keys[:] = 7  # the array keeps the memory
    assert (keys == 7).all()
    with pytest.raises(IndexError):
        make_pool().keys(2)


def test_saved_and_restored():
    pool, other = make_pool(), make_pool(page_size=5)
    sequence = pool.open()
    ids = pool.step({sequence: 13}).page_ids
    pool.keys(1)[ids] = random(2, 2, 8, 16)
    saved = sequence.save()
    copy = other.restore(memoryview(bytearray(saved)))
    assert len(copy) == 13 and copy.save() == saved
    for wrong in (saved[:50], b"x" * 200, saved[:-1] + bytes([saved[-1] ^ 1])):
        with pytest.raises(fovea.BadValue, match="bytes|size is"):
            other.restore(wrong)
    with pytest.raises(fovea.BadArgument):
        make_pool(head_dim=8).restore(saved)
    assert other.free_pages == other.pages - 3


def test_steps_say_when_they_are_out_of_date():
    pool = make_pool()
    first, second = pool.open(), pool.open()
    for deed in (lambda: pool.step({first: 1}), lambda: first.truncate(1), lambda: first.drop(0), first.close):
        step, neighbour = pool.step({first: 2}), pool.step({second: 1})
        assert step.is_current and neighbour.is_current
        ids = step.page_ids
        deed()
        assert not step.is_current and neighbour.is_current
        assert np.array_equal(step.page_ids, ids)  # a copy
        with pytest.raises(ValueError):
            ids[0] = 3


def test_what_a_step_refuses():
    pool, other = make_pool(), make_pool()
    first = pool.open()
    for growth, error, words in (
            ({1: 2}, TypeError, "sequences and numbers of tokens, not int"), ({other.open(): 1}, fovea.BadValue, "another pool"),
            ([(first, 1), (first, 2)], fovea.BadValue, "sequences"), ({first: -1}, fovea.BadValue, "tokens"),
            ({first: 1.5}, fovea.BadDtype, "tokens"), ({first: 2**40}, fovea.BadArgument, "tokens")):
        with pytest.raises(error, match=words):
            pool.step(growth)
    assert len(first) == 0 and pool.step({}).query_starts.tolist() == [0]


def test_the_collector_closes_sequences():
    pool = make_pool()
    sequence = pool.open()
    step = pool.step({sequence: 20})
    del sequence
    gc.collect()
    assert pool.free_pages == 5 and step.is_current  # the step has it
    del step
    gc.collect()
    assert pool.free_pages == 8
    cycle = [pool.open()]
    cycle.append(cycle)
    pool.step({cycle[0]: 8})
    del cycle
    gc.collect()
    assert pool.free_pages == 8


def test_sequences_keep_the_pool():
    sequence = make_pool().open()
    gc.collect()
    assert len(sequence.pool.step({sequence: 3}).page_ids) == 1 and len(sequence) == 3


def test_one_call_at_a_time():
    """What the library leaves to its callers, and would crash on, is an error here; what goes away meanwhile is closed later."""
    pool = make_pool(layers=32, kv_heads=8, head_dim=128, value_dim=128, positions=2048, page_size=512, sequences=64)
    stop, refused = threading.Event(), []
    parent = pool.open()
    pool.step({parent: 500})

    def fork_and_write():
        while not stop.is_set():
            try:
                forked = parent.fork()
                pool.step({forked: 1})  # copies half a page in all layers
                del forked
            except RuntimeError:
                pass

    thread = threading.Thread(target=fork_and_write)
    thread.start()
    for _ in range(20000):
        try:
            pool.open()  # which is gone at once
        except RuntimeError as error:
            refused.append(str(error))
            if len(refused) > 3:
                break
    stop.set()
    thread.join()
    gc.collect()
    assert refused and "fovea_kv_pool is in use by another thread" in refused[0]
    parent.close()
    assert pool.free_pages == pool.pages
    assert len([pool.open() for _ in range(64)]) == 64
