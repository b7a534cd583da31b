"""Attention against the formula in float64, option by option; SPEC's worked examples are in test_examples.py."""
import numpy as np
import pytest
from reference import additive, attention, bilinear, causal, close, gaussian, random, within

import fovea

Q, K, V = random(2, 4, 5, 16), random(2, 2, 7, 16, seed=2), random(2, 2, 7, 12, seed=3)
ONE = random(2, 1, 7, 16, seed=4)


def test_grouped_heads_and_value_size():
    out = fovea.attention(Q, K, V)
    assert out.shape == (2, 4, 5, 12) and out.dtype == np.float32
    close(out, attention(Q, K, V)[0])


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_ranks(rank):
    query, key, value = (x[(0,) * (4 - rank)] for x in (Q, K[:, :1].repeat(4, 1), V[:, :1].repeat(4, 1)))
    close(fovea.attention(query, key, value), attention(query, key, value)[0])


def test_lists_are_arrays():
    lists = [[3, 0], [0, 3]], [[1, 0], [0, 1], [1, 1]], [[10, 20], [30, 40], [50, 60]]
    close(fovea.attention(*lists), attention(*lists)[0])


KEEP = {
    "causal": (dict(is_causal=True), causal(5, 7)),
    "top left": (dict(is_causal=True, top_left=True), causal(5, 7, top_left=True)),
    "offset": (dict(is_causal=True, query_offset=1), np.arange(7) <= 1 + np.arange(5)[:, None]),
    "window": (dict(window_left=1, window_right=0, top_left=True),
               causal(5, 7, top_left=True) & (np.arange(7) >= np.arange(5)[:, None] - 1)),
    "leave one out": (dict(leave_one_out=True), np.arange(7) != np.arange(5)[:, None]),
    "lengths": (dict(valid_lens=np.array([3, 6])), within([3, 6], 7)),
    "lengths of queries": (dict(valid_lens=np.array([[1, 2, 3, 4, 5], [7, 6, 5, 4, 0]], np.int32)),
                           within([[1, 2, 3, 4, 5], [7, 6, 5, 4, 0]], 7)),
    "mask": (dict(mask=causal(5, 7)), causal(5, 7)),
    "mask of heads": (dict(mask=random(1, 4, 1, 7) > 0), random(1, 4, 1, 7) > 0),
}


@pytest.mark.parametrize("name", KEEP)
def test_what_is_attended(name):
    options, keep = KEEP[name]
    wanted, wanted_weights = attention(Q, K, V, keep=keep)
    out, weights = fovea.attention(Q, K, V, return_weights=True, **options)
    close(out, wanted)
    close(weights, wanted_weights)
    assert (weights[~np.broadcast_to(keep, weights.shape)] == 0).all()


def test_bias_scale_softcap():
    bias = random(4, 5, 7)[None]
    close(fovea.attention(Q, K, V, bias=bias), attention(Q, K, V, bias=bias)[0])
    close(fovea.attention(Q, K, V, scale=0.3), attention(Q, K, V, score=lambda q, k: 0.3 * q @ k.swapaxes(-1, -2))[0])
    close(fovea.attention(Q, K, V, softcap=2.0),
          attention(Q, K, V, score=lambda q, k: 2 * np.tanh(q @ k.swapaxes(-1, -2) / 8))[0])


def test_alibi_and_sinks():
    slopes = fovea.alibi_slopes(4)
    close(slopes, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
    distance = np.abs(np.arange(7) - (2 + np.arange(5)[:, None]))
    close(fovea.attention(Q, K, V, alibi_slopes=slopes),
          attention(Q, K, V, bias=-slopes[:, None, None].astype(np.float64) * distance)[0])
    sinks = random(4)
    out, lse = fovea.attention(Q, K, V, sinks=sinks, return_log_sum_exp=True)
    _, plain = fovea.attention(Q, K, V, return_log_sum_exp=True)
    close(lse, np.logaddexp(plain.astype(np.float64), sinks[:, None]))
    close(out, attention(Q, K, V)[0] * np.exp(plain - lse)[..., None])


def test_precision():
    medium = fovea.attention(Q, K, V, precision="medium")
    close(medium, fovea.attention(Q, K, V), 0.05)
    context = fovea.Context(precision="medium")
    np.testing.assert_array_equal(fovea.attention(Q, K, V, context=context), medium)
    with pytest.raises(ValueError, match="precision: 'low' is none of 'default', 'highest', 'high', 'medium', 'int8'"):
        fovea.attention(Q, K, V, precision="low")


def test_empty_rows():
    lens = np.array([0, 7])
    assert (fovea.attention(Q, K, V, valid_lens=lens)[0] == 0).all()
    assert np.isnan(fovea.attention(Q, K, V, valid_lens=lens, empty_rows="nan")[0]).all()
    close(fovea.attention(Q, K, V, valid_lens=lens, empty_rows="uniform")[0, 0, 0], V[0, 0].astype(np.float64).mean(0))
    with pytest.raises(ValueError, match="empty_rows: 'none' is none of 'zero', 'uniform', 'nan'"):
        fovea.attention(Q, K, V, empty_rows="none")


def test_what_a_mask_excludes_is_not_read():
    key, value = K.copy(), V.copy()
    key[:, :, 4:], value[:, :, 4:] = np.nan, np.inf
    assert np.array_equal(fovea.attention(Q, key, value, valid_lens=np.array([4, 4])),
                          fovea.attention(Q, K, V, valid_lens=np.array([4, 4])))


def test_average_weights():
    out, weights = fovea.attention(Q, K, V, return_weights="average")
    close(weights, attention(Q, K, V)[1].mean(1))


def test_scores():
    scores = (Q.astype(np.float64).reshape(2, 2, 2, 5, 16) @ K[:, :, None].swapaxes(-1, -2) / 4).reshape(2, 4, 5, 7)
    for kind, wanted in ((True, scores), ("raw", scores), ("capped", 2 * np.tanh(scores / 2)),
                         ("logits", np.where(causal(5, 7), 2 * np.tanh(scores / 2), -np.inf))):
        close(fovea.attention(Q, K, V, is_causal=True, softcap=2.0, return_scores=kind)[1], wanted)
    assert np.array_equal(fovea.plan(Q, K, V, return_scores=True)(Q, K, V)[1],
                          fovea.attention(Q, K, V, return_scores=True)[1])
    with pytest.raises(ValueError, match="return_scores: 'log' is none of"):
        fovea.attention(Q, K, V, return_scores="log")


def test_an_offset_for_each_sequence():
    out = fovea.attention(Q, K, V, is_causal=True, query_offsets=np.array([0, 2]))
    for entry, offset in ((0, 0), (1, 2)):
        close(out[entry], attention(Q, K, V, keep=np.arange(7) <= offset + np.arange(5)[:, None])[0][entry])


def test_dropout_is_repeated_by_its_seed():
    def run(seed):
        return fovea.attention(Q, K, V, dropout=0.5, dropout_seed=seed, return_weights=True)[1]

    plain = attention(Q, K, V)[1]
    dropped = run(1)
    assert np.array_equal(dropped, run(1)) and not np.array_equal(dropped, run(2))
    close(dropped, np.where(dropped == 0, 0, 2 * plain))
    assert 0.2 < (dropped == 0).mean() < 0.8


W_Q, W_K, V_S = random(8, 16), random(8, 10), random(8)
KEY_OF_10 = random(2, 2, 7, 10)


def test_additive():
    close(fovea.additive_attention(Q, KEY_OF_10, V, W_Q, W_K, V_S),
          attention(Q, KEY_OF_10, V, score=additive(W_Q, W_K, V_S))[0])


def test_concat_is_additive_of_a_weight_in_two():
    joined = np.concatenate([W_Q, W_K], 1)
    plain = fovea.additive_attention(Q, KEY_OF_10, V, W_Q, W_K, V_S)
    close(fovea.concat_attention(Q, KEY_OF_10, V, joined, V_S), plain, 1e-6)
    close(fovea.concat_attention(Q, KEY_OF_10, V, joined, V_S, np.zeros(8, np.float32)), plain, 1e-6)


def test_bilinear_and_gaussian():
    weight = random(16, 10)
    close(fovea.bilinear_attention(Q, KEY_OF_10, V, weight), attention(Q, KEY_OF_10, V, score=bilinear(weight))[0], 1e-4)
    close(fovea.gaussian_attention(Q, K, V, sigma=1.5), attention(Q, K, V, score=gaussian(1.5))[0])
    close(fovea.gaussian_attention(Q, K, V), attention(Q, K, V, score=gaussian(1))[0])
    sigmas = np.array([0.5, 1, 1.5, 2], np.float32)
    close(fovea.gaussian_attention(Q, K, V, sigmas=sigmas)[:, 2], attention(Q, K, V, score=gaussian(1.5))[0][:, 2])


def test_merging_parts_of_the_keys():
    parts = [fovea.attention(Q, K[:, :, part], V[:, :, part], return_log_sum_exp=True)
             for part in (slice(0, 3), slice(3, 7))]
    out, lse = fovea.merge_states(np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]))
    whole = fovea.attention(Q, K, V, return_log_sum_exp=True)
    close(out, whole[0])
    close(lse, whole[1])


def test_the_same_as_pytorch_takes():
    """Its signature: leading axes, a mask that broadcasts, top-left causality, heads that differ only if that is said."""
    sdpa = fovea.scaled_dot_product_attention
    heads = [Q, K.repeat(2, 1), V.repeat(2, 1)]
    close(sdpa(*heads, causal(5, 7)), attention(Q, K, V, keep=causal(5, 7))[0])
    close(sdpa(*heads, None, 0.0, True), attention(Q, K, V, keep=causal(5, 7, top_left=True))[0])
    close(sdpa(Q, K, V, enable_gqa=True, scale=0.25), attention(Q, K, V)[0])
    close(sdpa(*(x[None] for x in heads), attn_mask=random(5, 7)), attention(Q, K, V, bias=random(5, 7))[0][None])
    close(sdpa(*heads, attn_mask=random(5, 1)), attention(Q, K, V)[0])
    turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in heads]
    close(sdpa(*turned), attention(Q, K, V)[0])
    assert 0 < (sdpa(*heads, dropout_p=0.9) == 0).mean() < 1
    with pytest.raises(ValueError, match="enable_gqa"):
        sdpa(Q, K, V)
    with pytest.raises(ValueError, match="attn_mask"):
        sdpa(*heads, causal(5, 7), is_causal=True)


def test_out_is_written_where_it_lies():
    inside = np.full((2, 5, 4, 12), np.nan, np.float32)
    out = inside.swapaxes(1, 2)
    assert fovea.attention(Q, K, V, out=out) is out
    assert np.array_equal(out, fovea.attention(Q, K, V))


def test_contexts():
    base = fovea.Context(max_threads=1, max_isa="base")
    assert (base.isa, base.threads) == ("base", 1) and base.isa in fovea.isas_available()
    close(fovea.attention(Q, K, V, context=base), attention(Q, K, V)[0])
    with pytest.raises(fovea.UnknownISA, match="sse9"):
        fovea.Context(max_isa="sse9")
