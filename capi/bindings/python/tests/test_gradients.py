# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention, by central differences in float64 of the formula."""
import numpy as np
import pytest

import fovea


def scores_of(kind, q, k, parameters):
    if kind == "dot":
        return np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if kind == "gaussian":
        squares = ((q[:, :, :, None] - k[:, :, None]) ** 2).sum(-1)
        return -squares / (2 * parameters["sigmas"][0] ** 2)
    units = np.tanh((q @ parameters["query_weight"].T)[:, :, :, None] + (k @ parameters["key_weight"].T)[:, :, None])
    return units @ parameters["score_vector"]


def loss(kind, tensors, parameters, grad_out):
    """What changes by grad_out for each element of out, causally masked."""
    s = scores_of(kind, tensors["query"], tensors["key"], parameters)
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    out = p / p.sum(-1, keepdims=True) @ tensors["value"]
    return (out * grad_out).sum()


SCORES = {"dot": lambda p: None, "gaussian": lambda p: fovea.Gaussian(sigma=float(p["sigmas"][0])),
          "additive": lambda p: fovea.Additive(p["query_weight"], p["key_weight"], p["score_vector"])}


@pytest.mark.parametrize("kind", SCORES)
def test_gradients_are_central_differences(kind):
    random = np.random.default_rng(5)
    make = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    tensors = {name: make(2, 2, 7, 4) for name in ("query", "key", "value")}
    parameters = {"dot": {}, "gaussian": {"sigmas": np.float32([1.5])},
                  "additive": {"query_weight": make(6, 4), "key_weight": make(6, 4), "score_vector": make(6)}}[kind]
    grad_out, score = make(2, 2, 7, 4), SCORES[kind](parameters)
    q, k, v = tensors.values()
    out, lse = fovea.attention(q, k, v, score=score, is_causal=True, return_log_sum_exp=True)
    grads = fovea.attention_backward(q, k, v, out, lse, grad_out, score=score, is_causal=True,
                                     wanted=("query", "key", "value", *parameters))
    assert list(grads) == ["query", "key", "value", *parameters]
    exact = {name: array.astype(np.float64) for name, array in (tensors | parameters).items()}
    for name, grad in grads.items():
        assert grad.shape == exact[name].shape and grad.dtype == np.float32
        for at in list(np.ndindex(exact[name].shape))[::5]:
            ends = []
            for step in (1e-5, -1e-5):
                moved = {other: array.copy() for other, array in exact.items()}
                moved[name][at] += step
                ends.append(loss(kind, moved, moved, grad_out.astype(np.float64)))
            assert grad[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-5)


def test_planned():
    random = np.random.default_rng(7)
    q, k, v, grad_out = (random.standard_normal((1, 2, 5, 4)).astype(np.float32) for _ in range(4))
    bias, score = random.standard_normal((5, 5)).astype(np.float32), fovea.Gaussian(sigma=2.0)
    out, lse = fovea.attention(q, k, v, score=score, bias=bias, return_log_sum_exp=True)
    given = dict(score=score, bias=bias, wanted=("query", "key", "value", "bias", "sigmas"))
    once = fovea.attention_backward(q, k, v, out, lse, grad_out, **given)
    run = fovea.plan_attention_backward(q, k, v, out, lse, grad_out, **given)
    assert run.describe().startswith("op=gaussian_backward ") and run.workspace_size > 0
    for _ in range(2):
        again = run(q, k, v, out, lse, grad_out)
        assert list(again) == list(once) and all(np.array_equal(again[name], once[name]) for name in once)
    with pytest.raises(fovea.Error):
        run(q[:, :, :4], k, v, out, lse, grad_out)


def test_what_the_forward_pass_wrote_may_be_read_only():
    random = np.random.default_rng(8)
    q, k, v, grad_out = (random.standard_normal((1, 2, 5, 4)).astype(np.float32) for _ in range(4))
    out, lse = fovea.attention(q, k, v, return_log_sum_exp=True)
    wanted = fovea.attention_backward(q, k, v, out, lse, grad_out)
    given = (q, k, v, out, lse, grad_out)
    for array in given:
        array.flags.writeable = False
    run = fovea.plan_attention_backward(*given)
    for found in (fovea.attention_backward(*given), run(*given)):
        for name, grad in wanted.items():
            np.testing.assert_array_equal(found[name], grad)


KEEPING = {"additive": lambda make: fovea.Additive(make(6, 4), make(6, 4), make(6)),
           "concat": lambda make: fovea.Concat(make(6, 8), make(6), make(6))}


@pytest.mark.parametrize("kind", KEEPING)
def test_projections_that_are_kept(kind):
    random = np.random.default_rng(9)
    make = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    q, k, v, grad_out, score = make(2, 4, 7, 4), make(2, 2, 40, 4), make(2, 2, 40, 3), make(2, 4, 7, 3), KEEPING[kind](make)
    given = {"score": score, "valid_lens": np.array([30, 33])}
    out, lse, kept_query, kept_key = fovea.attention(q, k, v, return_log_sum_exp=True, return_projected_query=True,
                                                     return_projected_key=True, **given)
    if kind == "additive":
        query_weight, key_weight, bias = score.query_weight, score.key_weight, 0
    else:
        query_weight, key_weight, bias = score.weight[:, :4], score.weight[:, 4:], score.bias
    np.testing.assert_allclose(kept_query, q @ query_weight.T + bias, atol=1e-5)
    np.testing.assert_allclose(kept_key[:, :, :30], (k @ key_weight.T)[:, :, :30], atol=1e-5)
    assert not kept_key[0, :, 30:].any() and not kept_key[1, :, 33:].any() and kept_key[1, :, 30:33].any()
    projected = {"projected_query": kept_query, "projected_key": kept_key}
    once = fovea.attention_backward(q, k, v, out, lse, grad_out, **given)
    run = fovea.plan_attention_backward(q, k, v, out, lse, grad_out, **given, **projected)
    assert " kept=query,key " in run.describe()
    for array in projected.values():
        array.flags.writeable = False
    for found in (fovea.attention_backward(q, k, v, out, lse, grad_out, **given, **projected),
                  fovea.attention_backward(q, k, v, out, lse, grad_out, projected_key=kept_key, **given),
                  run(q, k, v, out, lse, grad_out), run(q, k, v, out, lse, grad_out, **projected)):
        assert all(np.array_equal(found[name], once[name]) for name in once)
    planned = fovea.plan(q, k, v, return_projected_key=True, **given)(q, k, v)
    assert np.array_equal(planned[1], kept_key)


def test_projections_that_no_score_keeps():
    x = np.ones((1, 1, 3, 2), np.float32)
    with pytest.raises(fovea.BadValue, match="projected_key is given, expected NULL: FOVEA_SCORE_ADDITIVE"):
        fovea.attention(x, x, x, return_projected_key=True)
    out, lse = fovea.attention(x, x, x, return_log_sum_exp=True)
    with pytest.raises(fovea.BadValue, match="projected_query is given"):
        fovea.attention_backward(x, x, x, out, lse, x, projected_query=x)
    with pytest.raises(fovea.BadOption, match="return_projected_query"):
        fovea.attention_backward(x, x, x, out, lse, x, return_projected_query=True)


def test_only_what_is_wanted():
    x = np.ones((1, 1, 3, 2), np.float32)
    out, lse = fovea.attention(x, x, x, return_log_sum_exp=True)
    assert list(fovea.attention_backward(x, x, x, out, lse, x, wanted=("value",))) == ["value"]
    with pytest.raises(fovea.BadOption, match="'bias' is not among"):
        fovea.attention_backward(x, x, x, out, lse, x, wanted=("bias",))
    with pytest.raises(ValueError, match="'wieghts' is none of"):
        fovea.attention_backward(x, x, x, out, lse, x, wanted=("wieghts",))
    with pytest.raises(fovea.BadOption, match="return_scores"):
        fovea.attention_backward(x, x, x, out, lse, x, return_scores=True)


def test_gradients_of_weights():
    """The gradient of averaged weights alone: of the first key's weight, whose sum over queries is the loss."""
    random = np.random.default_rng(6)
    q, k, v = (random.standard_normal((1, 2, 5, 4)).astype(np.float32) for _ in range(3))
    out, lse = fovea.attention(q, k, v, return_log_sum_exp=True)
    reaching = np.zeros((1, 5, 5), np.float32)
    reaching[..., 0] = 1
    grads = fovea.attention_backward(q, k, v, out, lse, np.zeros_like(out), grad_weights=reaching, return_weights="average")
    step = 1e-2
    _, up = fovea.attention(q + step * grads["query"], k, v, return_weights=True)
    _, down = fovea.attention(q - step * grads["query"], k, v, return_weights=True)
    rise = (up.mean(1)[..., 0].sum() - down.mean(1)[..., 0].sum()) / (2 * step)
    assert rise == pytest.approx((grads["query"] ** 2).sum(), rel=1e-3)
    assert not grads["value"].any()
