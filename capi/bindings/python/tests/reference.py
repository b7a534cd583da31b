# SPDX-License-Identifier: Apache-2.0
"""The formulas in NumPy, float64, as plainly as they can be written."""
import numpy as np


def softmax(scores):
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.where(np.isfinite(scores), weights, 0)
        return np.nan_to_num(weights / weights.sum(-1, keepdims=True))


def dot(query, key):
    return query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])


def additive(query_weight, key_weight, score_vector):
    def score(query, key):
        sums = (query @ query_weight.T)[..., :, None, :] + (key @ key_weight.T)[..., None, :, :]
        return np.tanh(sums) @ score_vector

    return score


def gaussian(sigma):
    def score(query, key):
        return -((query[..., :, None, :] - key[..., None, :, :]) ** 2).sum(-1) / (2 * sigma**2)

    return score


def bilinear(weight):
    return lambda query, key: query @ weight @ key.swapaxes(-1, -2)


def attention(query, key, value, *, score=dot, keep=True, bias=0.0):
    """(out, weights) of query [B, H, Q, D], key and value [B, Hkv, K, D]; keep: broadcasts to [B, H, Q, K]."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    groups = query.shape[-3] // key.shape[-3] if query.ndim > 3 else 1
    if groups > 1:
        key, value = key.repeat(groups, -3), value.repeat(groups, -3)
    weights = softmax(np.where(keep, score(query, key) + bias, -np.inf))
    return weights @ value, weights


def causal(query_len, key_len, top_left=False):
    first = 0 if top_left or key_len < query_len else key_len - query_len
    return np.arange(key_len) <= first + np.arange(query_len)[:, None]


def within(lens, key_len):
    """[B] as [B, 1, 1, K], [B, Q] as [B, 1, Q, K]."""
    lens = np.asarray(lens)
    lens = lens[:, None, None, None] if lens.ndim == 1 else lens[:, None, :, None]
    return np.arange(key_len) < lens


def close(given, wanted, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(given), wanted, rtol=tolerance, atol=tolerance)


def random(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def counted(calls, run):
    """run(), noting each call of the library."""
    from fovea import _fovea

    real = _fovea.sdpa

    def count(*arguments):
        calls.append(1)
        return real(*arguments)

    _fovea.sdpa = count
    try:
        return run()
    finally:
        _fovea.sdpa = real
