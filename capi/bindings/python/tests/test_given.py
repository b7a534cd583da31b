"""What is not given is told from 0; lists and scalars of every kind are given as arrays and Python's own numbers are; and
signs that a view turns round are seen."""
import array

import numpy as np
import pytest
from reference import attention, close, gaussian, random

import fovea

Q, K, V = random(2, 4, 5, 16), random(2, 2, 7, 16, seed=2), random(2, 2, 7, 12, seed=3)
MEAN = np.broadcast_to(V.astype(np.float64).mean(2, keepdims=True).repeat(2, 1), (2, 4, 5, 12))
X = random(3, 8)
POOL = dict(kv_heads=2, head_dim=8, positions=64, sequences=4)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, np.float32(0), np.int64(0), np.array(0.0, np.float32)])
def test_a_scale_of_0_gives_the_mean_of_the_values(zero):
    close(fovea.attention(Q, K, V, scale=zero), MEAN)
    close(fovea.scaled_dot_product_attention(Q, K, V, scale=zero, enable_gqa=True), MEAN)
    close(fovea.plan(Q, K, V, scale=zero)(Q, K, V), MEAN)
    packed = [x[0].swapaxes(0, 1) for x in (Q, K, V)]
    close(fovea.varlen_attention(*packed, [0, 5], [0, 7], scale=zero), MEAN[0].swapaxes(0, 1))
    close(fovea.gaussian_attention(Q, K, V, scale=zero), MEAN)
    assert not np.array_equal(fovea.attention(Q, K, V, scale=None), fovea.attention(Q, K, V, scale=zero))
    assert np.array_equal(fovea.attention(Q, K, V, scale=None), fovea.attention(Q, K, V))


def test_a_scale_of_0_in_multi_head_attention():
    layer, x = fovea.MultiHeadAttention(2, in_weight=random(24, 8)), random(2, 3, 8)
    weights = layer(x, scale=0.0, return_weights=True)[1]
    close(weights, np.full_like(weights, 1 / 3))


def test_epsilon_of_0():
    y = X.astype(np.float64)
    close(fovea.layer_norm(X * 1e-4, epsilon=0.0), (y - y.mean(-1, keepdims=True)) / y.std(-1, keepdims=True), 1e-4)
    close(fovea.rms_norm(X * 1e-4, epsilon=0), y / np.sqrt((y**2).mean(-1, keepdims=True)), 1e-4)
    close(fovea.layer_norm(X * 1e-4), fovea.layer_norm(X * 1e-4, epsilon=1e-5))
    assert np.abs(fovea.layer_norm(X * 1e-4)).max() < 0.5


@pytest.mark.parametrize("make, words", [
    (lambda: fovea.kernel_regression(X, X, X, sigma=0), "sigma"),
    (lambda: fovea.gaussian_attention(Q, K, V, sigma=0), "sigma"),
    (lambda: fovea.attention(Q, K, V, score=fovea.Gaussian(0.0)), "sigma"),
    (lambda: fovea.attention(Q, K, V, score=fovea.Gaussian(0.0, [1, 1, 1, 1])), "sigma"),
    (lambda: fovea.rotary(X, base=0), "base"), (lambda: fovea.rotary(X, base=0.0, positions=[1, 2, 3]), "base"),
    (lambda: fovea.positional_encoding(3, 4, base=0), "base"),
    (lambda: fovea.add_positional_encoding(X, base=0.0), "base"),
    (lambda: fovea.rotary_frequencies(8, base=0), "base"),
    (lambda: fovea.rotary_frequencies(8, kind="dynamic", factor=2, original_length=64, length=0), "length"),
    (lambda: fovea.rotary_frequencies(8, kind="yarn", factor=2, original_length=64, fast_rotations=0), "fast_rotations"),
    *[(lambda name=name, zero=zero: fovea.KVPool(**{**POOL, name: zero}), name) for name in
      ("kv_heads", "head_dim", "positions", "sequences", "layers", "value_dim", "page_size", "scale_group")
      for zero in (0, np.int64(0))],
    (lambda: fovea.Schedule(query=(4, 2, 8), key=(9, 2, 8), value=(9, 2, 8), sequences=0), "sequences"),
    (lambda: fovea.Schedule(query=(4, 2, 8), key=(9, 2, 8), value=(9, 2, 8), sequences=1, key_len=0), "key_len"),
    (lambda: fovea.quantize(X, 0), "group"),
    (lambda: fovea.MultiHeadAttention(0, in_weight=random(24, 8)), "heads"),
    (lambda: fovea.MultiHeadAttention(2, kv_heads=0, in_weight=random(24, 8)), "kv_heads"),
    (lambda: fovea.Context(max_threads=0), "max_threads"), (lambda: fovea.Context(max_threads=-1), "max_threads"),
    (lambda: fovea.Context(max_isa=""), "max_isa"),
])
def test_a_0_that_cannot_be_is_an_error(make, words):
    with pytest.raises(fovea.BadArgument, match=words):
        make()


def test_a_0_that_can_be_is_meant():
    assert np.array_equal(fovea.rotary(X, rotary_dim=0), X)
    assert np.array_equal(fovea.rotary(X, position_scale=0), X)
    assert not np.array_equal(fovea.rotary(X), X)
    pool = fovea.KVPool(**POOL)
    sequence = pool.open()
    assert pool.step({sequence: 0}).key_lens.tolist() == [0] and len(sequence.fork(0)) == 0
    offset = fovea.attention(Q, K, V, is_causal=True, query_offset=0)
    close(offset[:, :, 0], V[:, :, 0].repeat(2, 1))
    close(fovea.attention(Q, K, V, is_causal=True, top_left=True, window_left=0)[:, :, 1], V[:, :, 1].repeat(2, 1))
    assert np.array_equal(fovea.attention(Q, K, V, softcap=0, dropout=0.0), fovea.attention(Q, K, V))
    close(fovea.gemm(X, X.T.copy(), np.ones((3, 3), np.float32), alpha=0), np.ones((3, 3)))
    close(fovea.gemm(X, X.T.copy(), np.full((3, 3), np.nan, np.float32), beta=0), X.astype(np.float64) @ X.T)
    assert np.array_equal(fovea.gaussian_attention(Q, K, V, 1.0), fovea.gaussian_attention(Q, K, V))
    close(fovea.gaussian_attention(Q, K, V, sigma=np.float32(2)), attention(Q, K, V, score=gaussian(2))[0])


LISTS = {"valid_lens": [3, 7], "query_offsets": [0, 2], "mask": (random(5, 7) > -1).tolist(), "bias": random(5, 7).tolist(),
         "alibi_slopes": [0.1, 0.2, 0.3, 1], "sinks": (0, 1, 2, 3)}
TYPES = {"valid_lens": np.int64, "query_offsets": np.int32, "mask": bool}


@pytest.mark.parametrize("name", LISTS)
def test_lists_for_every_option(name):
    given = {name: LISTS[name], "is_causal": True}
    wanted = fovea.attention(Q, K, V, **{**given, name: np.array(LISTS[name], TYPES.get(name, np.float32))})
    assert np.array_equal(fovea.attention(Q, K, V, **given), wanted)
    run = fovea.plan(Q, K, V, **given)
    assert np.array_equal(run(Q, K, V), wanted) and np.array_equal(run(Q, K, V, **{name: LISTS[name]}), wanted)
    assert np.array_equal(run(Q.tolist(), K, V.tolist(), **{name: LISTS[name]}), wanted)
    if name in ("alibi_slopes", "sinks"):
        packed = [x[0].swapaxes(0, 1) for x in (Q, K, V)]
        assert np.array_equal(fovea.varlen_attention(*packed, [0, 5], (0, 7), **given), wanted[0].swapaxes(0, 1))


def test_lists_elsewhere():
    weights, bias = random(24, 8), random(24)
    layers = [fovea.MultiHeadAttention(2, in_weight=w, in_bias=b) for w, b in ((weights, bias), (weights.tolist(), tuple(bias)))]
    assert np.array_equal(layers[0](X), layers[1](X.tolist()))
    assert np.array_equal(fovea.linear(X.tolist(), weights.tolist(), bias.tolist(), residual=random(3, 24).tolist()),
                          fovea.linear(X, weights, bias, residual=random(3, 24)))
    assert np.array_equal(fovea.layer_norm(X, X[0].tolist(), X[1].tolist(), residual=X.tolist()),
                          fovea.layer_norm(X, X[0], X[1], residual=X))
    assert np.array_equal(fovea.gemm(X, X.T.copy(), [[1.0, 2, 3]] * 3), fovea.gemm(X, X.T.copy(), np.array([[1, 2, 3]] * 3, "f")))
    score = fovea.Concat(random(8, 32).tolist(), random(8).tolist(), random(8, seed=5).tolist())
    same = fovea.Concat(random(8, 32), random(8), random(8, seed=5))
    assert np.array_equal(fovea.plan(Q, K, V, score=score)(Q, K, V), fovea.attention(Q, K, V, score=same))
    assert np.array_equal(fovea.gaussian_attention(Q, K, V, sigmas=[1, 2, 3, 4]),
                          fovea.gaussian_attention(Q, K, V, sigmas=np.array([1, 2, 3, 4], np.float32)))
    keep = random(5, 7) > -1
    same = dict(enable_gqa=True)
    for mask in (keep, random(5, 7)):
        assert np.array_equal(fovea.scaled_dot_product_attention(Q, K, V, mask.tolist(), **same),
                              fovea.scaled_dot_product_attention(Q, K, V, mask, **same))


@pytest.mark.parametrize("given, words", [
    ({"valid_lens": [1.5, 2]}, "valid_lens has dtype float64, expected int32 or int64"),
    ({"valid_lens": [True, False]}, "valid_lens has dtype bool, expected int32"),
    ({"mask": [[2] * 7] * 5}, "mask has dtype int64, expected bool"), ({"bias": ["a"]}, "bias: a list of <U1"),
    ({"sinks": [1j] * 4}, "sinks: a list of complex128"), ({"bias": [[1, 2], [3]]}, "bias: "),
    ({"sinks": [None] * 4}, "sinks: a list of object"), ({"valid_lens": [2**70, 1]}, "valid_lens has dtype object"),
    ({"valid_lens": [1, 2, 3]}, "valid_lens"),
])
def test_lists_of_other_things(given, words):
    with pytest.raises(fovea.BadArgument, match=words):
        fovea.attention(Q, K, V, **given)


@pytest.mark.parametrize("options", [
    {"scale": np.float32(0.5)}, {"scale": np.array(0.5)}, {"softcap": np.float64(2)}, {"dropout": np.float32(0.5), "dropout_seed": 3},
    {"dropout": 0.5, "dropout_seed": np.uint64(2**63)}, {"is_causal": np.True_, "query_offset": np.int64(1)},
    {"is_causal": True, "query_offset": np.array(1)}, {"window_left": np.int8(2), "window_right": np.uint16(1)},
    {"valid_lens": array.array("q", [3, 7])}, {"valid_lens": memoryview(np.array([3, 7], np.int32))},
    {"sinks": array.array("f", [0, 1, 2, 3])}, {"empty_rows": "uniform", "valid_lens": [0, 1]},
    {"precision": "high"}, {"query_invariant": True}, {"leave_one_out": np.bool_(True)}, {"return_weights": np.True_},
    {"return_scores": "logits", "return_log_sum_exp": True, "mask": random(5, 7) > 0, "bias": random(5, 7)}])
def test_a_plan_takes_what_a_call_takes(options):
    planned, called = fovea.plan(Q, K, V, **options)(Q, K, V), fovea.attention(Q, K, V, **options)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (planned, called)), strict=True):
        assert np.array_equal(one, other)


def test_negated_views_keep_their_sign():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 4, 5, 16)
    negated = torch._neg_view(x)
    imaginary = torch.complex(x, x).conj().imag
    for view in (negated, imaginary, negated[:, ::2], torch._neg_view(x.half()), torch._neg_view(x.bfloat16())):
        assert view.is_neg() and torch.equal(fovea.tanh(view), fovea.tanh(view.resolve_neg().contiguous()))
        wanted = fovea.attention(*[view.resolve_neg()] * 3)
        assert torch.equal(fovea.attention(view, view, view), wanted)
        assert torch.equal(fovea.plan(view, view, view)(view, view, view), wanted)
    assert torch.equal(fovea.attention(x, x, x, bias=torch._neg_view(x[0, 0, :, :5])), fovea.attention(x, x, x, bias=-x[0, 0, :, :5]))
    before = x.clone()
    with pytest.raises(fovea.BadValue, match="out: a negated view"):
        fovea.tanh(x, out=negated)
    assert torch.equal(x, before)
    with pytest.raises(fovea.BadDtype, match="x has dtype complex64"):
        fovea.tanh(torch.complex(x, x).conj())


def test_bfloat16_of_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(Q, jax.numpy.bfloat16)
    out, weights = fovea.attention(x, x, x, return_weights=True)
    assert isinstance(out, jax.Array) and out.dtype == jax.numpy.bfloat16 and weights.dtype == np.float32
    wide = np.asarray(x, np.float32)
    close(np.asarray(out, np.float32), attention(wide, wide, wide)[0], 2e-2)
    with pytest.raises(fovea.BadValue, match="out: .*read-only"):
        fovea.attention(x, x, x, out=x + 0)
    with pytest.raises(fovea.BadDtype, match="x has dtype"):
        fovea.exp(jax.numpy.ones(3, jax.numpy.float8_e4m3fn))
