"""Plans and prepared keys."""
import threading

import numpy as np
import pytest
from reference import random

import fovea

Q, K, V = random(2, 4, 5, 16), random(2, 2, 7, 16, seed=2), random(2, 2, 7, 12, seed=3)


def test_a_plan_gives_what_the_call_gives():
    run = fovea.plan(Q, K, V, is_causal=True)
    wanted = fovea.attention(Q, K, V, is_causal=True)
    assert np.array_equal(run(Q, K, V), wanted)
    out = np.empty_like(wanted)
    assert run(Q, K, V, out=out) is out and np.array_equal(out, wanted)
    assert np.array_equal(run(query=Q, key=K, value=V), wanted)
    assert run.describe().startswith("op=sdpa ") and run.workspace_size > 0


def test_what_was_planned_with_is_taken_again_unless_another_is_given():
    run = fovea.plan(Q, K, V, valid_lens=np.array([7, 7]), return_weights=True, return_log_sum_exp=True)
    for lens in (np.array([7, 7]), np.array([2, 5])):
        planned, called = run(Q, K, V, valid_lens=lens), fovea.attention(
            Q, K, V, valid_lens=lens, return_weights=True, return_log_sum_exp=True)
        assert len(planned) == 3 and all(np.array_equal(a, b) for a, b in zip(planned, called))
    assert np.array_equal(run(Q, K, V)[0], fovea.attention(Q, K, V, return_weights=True)[0])
    weights = np.empty((2, 4, 5, 7), np.float32)
    assert run(Q, K, V, weights=weights)[2] is weights


def test_a_planned_score():
    score = fovea.Concat(random(8, 32), random(8), random(8, seed=5))
    run = fovea.plan(Q, K, V, score=score)
    assert np.array_equal(run(Q, K, V), fovea.attention(Q, K, V, score=score))
    other = random(8, seed=6)
    assert np.array_equal(run(Q, K, V, score_bias=other),
                          fovea.attention(Q, K, V, score=fovea.Concat(score.weight, score.score_vector, other)))


@pytest.mark.parametrize("arrays, named, error, words", [
    ((Q, K, V[:, :, :6]), {}, fovea.BadShape, r"value: shape \(2, 2, 6, 12\), planned with \(2, 2, 7, 12\)"),
    ((Q, K.swapaxes(1, 2).copy().swapaxes(1, 2), V), {}, fovea.BadStride, "key: strides"),
    ((Q.astype(np.int32), K, V), {}, fovea.BadDtype, "query"),
    ((Q, K), {}, TypeError, "value is missing"),
    ((Q, K, V, V), {}, TypeError, "at most 3"),
    ((Q, K, V), {"mask": Q}, TypeError, "mask was not planned"),
])
def test_a_run_of_other_arrays_is_refused(arrays, named, error, words):
    with pytest.raises(error, match=words):
        fovea.plan(Q, K, V)(*arrays, **named)


def test_a_plan_outlives_its_context_and_keys():
    keys = fovea.PreparedKeys(fovea.Bilinear(random(16, 16)), batch=2, kv_heads=2, capacity=7, query_dim=16, key_dim=16)
    keys.append(K)
    run = fovea.plan(Q, keys, V, context=fovea.Context(max_threads=1))
    wanted = keys.attend(Q, V)
    del keys
    assert np.array_equal(run(Q, V), wanted)


def test_many_threads_run_one_plan():
    run, wanted = fovea.plan(Q, K, V), fovea.attention(Q, K, V)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(run(Q, K, V), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_prepared_keys():
    score = fovea.Additive(random(8, 16), random(8, 16), random(8))
    keys = fovea.PreparedKeys(score, batch=2, kv_heads=2, capacity=9, query_dim=16, key_dim=16)
    keys.append(K[:, :, :4])
    keys.append(K[:, :, 4:])
    assert len(keys) == 7 and keys.nbytes > 0
    out, weights = keys.attend(Q, V, return_weights=True)
    assert np.array_equal(weights, fovea.attention(Q, K, V, score=score, return_weights=True)[1])
    keys.truncate(3)
    assert np.array_equal(keys.attend(Q, V[:, :, :3]), fovea.attention(Q, K[:, :, :3], V[:, :, :3], score=score))
    with pytest.raises(fovea.BadShape, match="at most 6"):
        keys.append(K)
