"""Planned multi-head attention: the bits of the call."""
import copy
import pickle
import threading

import numpy as np
import pytest
from reference import random

import fovea

X = random(2, 5, 24)
LAYER = fovea.MultiHeadAttention(4, kv_heads=2, in_weight=random(4 * 8 + 2 * 2 * 8, 24, seed=2), out_weight=random(20, 32, seed=3))
FREQUENCIES = [1.0, 0.5, 0.25, 0.125]


def test_a_plan_gives_what_the_call_gives():
    run = LAYER.plan(X, rotary={"base": 5000.0}, is_causal=True)
    wanted = LAYER(X, rotary={"base": 5000.0}, is_causal=True)
    assert np.array_equal(run(X), wanted) and np.array_equal(run(X.copy()), wanted)
    out, workspace = np.empty_like(wanted), np.empty(run.workspace_size, np.uint8)
    assert run(X, out=out, workspace=workspace) is out and np.array_equal(out, wanted)
    assert copy.deepcopy(run) is run
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(run)


def test_keys_masks_and_outputs():
    key, lens = random(2, 9, 24, seed=4), np.array([9, 9])
    options = {"valid_lens": lens, "return_weights": True, "return_log_sum_exp": True}
    run = LAYER.plan(X, key, key, **options)
    for lens in (lens, np.array([3, 8])):
        planned, called = run(X, key, key, valid_lens=lens), LAYER(X, key, key, **{**options, "valid_lens": lens})
        assert len(planned) == 3 and all(np.array_equal(a, b) for a, b in zip(planned, called))
    assert np.array_equal(run(X, key, key)[0], LAYER(X, key, key, return_weights=True)[0])
    score = fovea.Bilinear(random(8, 8, seed=5))
    assert np.array_equal(LAYER.plan(X, score=score)(X), LAYER(X, score=score))


def test_rotary_s_arrays_are_copied():
    frequencies = np.array(FREQUENCIES, np.float32)
    run, wanted = LAYER.plan(X, rotary={"frequencies": frequencies}), LAYER(X, rotary={"frequencies": FREQUENCIES})
    frequencies[:] = 0
    assert np.array_equal(run(X), wanted)


def test_over_a_schedule_s_steps():
    sizes = {"layers": 2, "kv_heads": 2, "head_dim": 8, "positions": 64, "page_size": 4, "sequences": 2}
    pools = [fovea.KVPool(**sizes) for _ in range(2)]
    schedules = [fovea.Schedule(query=(12, 4, 8), pool=pool, is_causal=True) for pool in pools]
    opened = [[pool.open(), pool.open()] for pool in pools]
    rows = random(12, 24, seed=6)
    plan = LAYER.plan(rows, schedule=schedules[0], pages=0, rotary={})
    for tokens in ((7, 5), (1, 1), (0, 3), (0, 0)):
        for pool, schedule, sequences in zip(pools, schedules, opened):
            schedule.set(pool.step(dict(zip(sequences, tokens))))
        x = rows[:sum(tokens)]
        for layer in range(2):
            wanted = LAYER(x, schedule=schedules[1], pages=layer, rotary={})
            assert np.array_equal(plan(x, pages=layer), wanted)
        more = plan(rows, pages=1)
        assert np.array_equal(more[:sum(tokens)], wanted) and not more[sum(tokens):].any()
    with pytest.raises(fovea.BadShape, match="query: 2 rows, the step has 3 tokens"):
        schedules[0].set(pools[0].step({opened[0][0]: 3}))
        plan(rows[:2], pages=0)
    with pytest.raises(TypeError, match="key_pages is missing"):
        plan(rows)
    del pools, schedules, opened
    assert plan.workspace_size > 0


@pytest.mark.parametrize("arrays, named, error, words", [
    ((X[:, :4],), {}, fovea.BadShape, r"query: shape \(2, 4, 24\), planned with \(2, 5, 24\)"),
    ((X.astype(np.float16),), {}, fovea.BadDtype, "query: dtype float16, planned with float32"),
    ((X, X), {}, TypeError, "was not planned"),
    ((X,), {"mask": X}, TypeError, "was not planned"),
    ((X,), {"pages": 0}, TypeError, "None is expected without a schedule"),
    ((X,), {"workspace": bytearray(1)}, fovea.WorkspaceTooSmall, "workspace_size is 1"),
    ((X,), {"workspace": b"1"}, TypeError, "read-write"),
    ((X,), {"out": np.empty((2, 5, 21), np.float32)}, fovea.BadShape, "out: shape"),
])
def test_what_is_refused(arrays, named, error, words):
    with pytest.raises(error, match=words):
        LAYER.plan(X)(*arrays, **named)
    with pytest.raises(fovea.BadShape):
        LAYER.plan(X[..., :3])


def test_many_threads_run_one_plan():
    run, wanted, wrong = LAYER.plan(X), LAYER(X), []

    def work():
        for _ in range(50):
            if not np.array_equal(run(X), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
