"""Products, normalisation, positions and multi-head attention against the formulas in float64."""
import numpy as np
import pytest
from reference import attention, close, random

import fovea


def test_matmul():
    a, b = random(3, 4, 5), random(5, 6)
    close(fovea.matmul(a, b), a.astype(np.float64) @ b)
    close(fovea.matmul(a[0], b), a[0].astype(np.float64) @ b)
    close(fovea.matmul(a[0], random(3, 5, 2)), a[0].astype(np.float64) @ random(3, 5, 2))
    packed = fovea.PackedMatrix(b)
    assert packed.shape == (5, 6) and packed.nbytes > 0
    assert np.array_equal(fovea.matmul(a, packed), fovea.matmul(a, b))
    turned = fovea.PackedMatrix(np.ascontiguousarray(b.T), layout="out_in")
    assert turned.shape == (5, 6) and np.array_equal(fovea.matmul(a, turned), fovea.matmul(a, b))


@pytest.mark.parametrize("activation, formula", [
    (None, lambda x: x), ("relu", lambda x: np.maximum(x, 0)), ("silu", lambda x: x / (1 + np.exp(-x))),
    ("gelu_tanh", lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2)])
def test_linear(activation, formula):
    x, weight, bias, residual = random(3, 5), random(6, 5), random(6), random(3, 6)
    wanted = formula(x.astype(np.float64) @ weight.T + bias) + residual
    close(fovea.linear(x, weight, bias, activation=activation, residual=residual), wanted)
    close(fovea.linear(x, weight.T.copy(), bias, activation=activation, residual=residual, layout="in_out"), wanted)
    added = residual.copy()
    fovea.linear(x, fovea.PackedMatrix(weight, layout="out_in"), bias, activation=activation, residual=added, out=added)
    close(added, wanted)
    gated = random(3, 6, seed=5)
    wanted = formula(x.astype(np.float64) @ weight.T + bias) * gated + residual
    close(fovea.linear(x, weight, bias, activation=activation, multiplier=gated, residual=residual), wanted)
    fovea.linear(x, weight, bias, activation=activation, multiplier=gated, residual=residual, out=gated)
    close(gated, wanted)


def test_precision():
    x, weight = random(40, 64), random(64, 48)
    context = fovea.Context(precision="medium")
    medium = fovea.matmul(x, weight, context=context)
    close(medium, x.astype(np.float64) @ weight, 0.2)
    packed = fovea.PackedMatrix(weight, precision="medium")
    np.testing.assert_array_equal(fovea.matmul(x, packed), medium)
    np.testing.assert_array_equal(fovea.linear(x, weight, layout="in_out", precision="medium"), medium)
    np.testing.assert_array_equal(fovea.linear(x, packed, precision="medium"), medium)
    assert packed.nbytes in (fovea.PackedMatrix(weight).nbytes, fovea.PackedMatrix(weight).nbytes // 2)
    eight = fovea.PackedMatrix(weight, precision="int8")
    assert eight.nbytes == fovea.PackedMatrix(weight).nbytes * 17 // 64
    close(fovea.matmul(x, eight), x.astype(np.float64) @ weight, 0.5)
    np.testing.assert_array_equal(fovea.matmul(x, weight, context=fovea.Context(precision="int8")), fovea.matmul(x, eight))
    square = random(64, 64) / 8
    layers = [fovea.MultiHeadAttention(2, query_weight=square, key_weight=square, value_weight=square, out_weight=square,
                                       precision=precision) for precision in ("medium", "highest")]
    np.testing.assert_array_equal(layers[0](x), layers[0](x, precision="medium"))
    np.testing.assert_array_equal(layers[1](x), layers[1](x, precision="highest"))
    close(layers[0](x), layers[1](x), 0.2)


def test_layer_norm():
    x, weight, bias, residual = random(2, 3, 8), random(8), random(8, seed=3), random(2, 3, 8, seed=4)
    y = x.astype(np.float64) + residual
    normal = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 0.5)
    close(fovea.layer_norm(x, weight, bias, epsilon=0.5, residual=residual), normal * weight + bias)
    close(fovea.layer_norm(y.astype(np.float32), epsilon=0.5), normal)


def test_layer_norm_outputs():
    x, residual = random(2, 3, 8), random(2, 3, 8, seed=4)
    y = x.astype(np.float64) + residual
    total, mean, inverse = np.empty_like(x), np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
    fovea.layer_norm(x, residual=residual, epsilon=0.5, sum=total, mean=mean, inverse_deviation=inverse)
    assert np.array_equal(total, x + residual)
    close(mean, y.mean(-1))
    close(inverse, 1 / np.sqrt(y.var(-1) + 0.5))


def test_rms_norm():
    x, weight, residual = random(2, 3, 8), random(8), random(2, 3, 8, seed=4)
    y = x.astype(np.float64) + residual
    inverse = 1 / np.sqrt((y * y).mean(-1) + 0.5)
    wanted = y * inverse[..., None] * weight
    close(fovea.rms_norm(x, weight, epsilon=0.5, residual=residual), wanted)
    close(fovea.rms_norm(x, weight - 1, epsilon=0.5, residual=residual, weight_from_one=True), wanted)
    out, stream, found = x.copy(), residual.copy(), np.empty((2, 3), np.float32)
    assert fovea.rms_norm(out, weight, epsilon=0.5, residual=stream, sum=stream, out=out, inverse_deviation=found) is out
    close(out, wanted)
    close(found, inverse)
    assert np.array_equal(stream, x + residual)
    close(fovea.rms_norm(1e-4 * x, epsilon=0.0), x / np.sqrt((x.astype(np.float64)**2).mean(-1, keepdims=True)))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_softmax_over_an_axis(axis):
    x = random(3, 4, 5)
    powers = np.exp(x.astype(np.float64))
    wanted = powers / powers.sum(axis, keepdims=True)
    close(fovea.softmax(x, axis), wanted)
    close(fovea.log_softmax(x, axis=axis), np.log(wanted))
    with pytest.raises(fovea.BadValue, match="axis is 3"):
        fovea.softmax(x, 3)


def test_activation():
    x = random(3, 5)
    close(fovea.activation("silu", x), x / (1 + np.exp(-x.astype(np.float64))))
    assert np.array_equal(fovea.activation("relu", x), np.maximum(x, 0))


def test_gemm_and_batches_of_two_axes():
    a, b, c = random(2, 1, 3, 4), random(5, 4, 6), random(3, 1, seed=2)
    product = a.astype(np.float64) @ b
    close(fovea.matmul(a, b), product)
    close(fovea.gemm(a, b, c, alpha=0.5, beta=-2.0), 0.5 * product - 2 * c)
    close(fovea.gemm(a, b, c, alpha=0.0), np.broadcast_to(c, product.shape))
    close(fovea.gemm(a, b, np.full(6, np.nan, np.float32), beta=0.0), product)


def rotated(x, positions, interleaved):
    half = x.shape[-1] // 2
    angle = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(half) / half)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    a, b = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    return np.stack([a, b], -1).reshape(x.shape) if interleaved else np.concatenate([a, b], -1)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved):
    x = random(2, 3, 5, 8)
    out = fovea.rotary(x, interleaved=interleaved, offset=4)
    close(out, rotated(x, np.arange(4, 9), interleaved), 1e-5)
    close(fovea.rotary(out, interleaved=interleaved, offset=4, inverse=True), x, 1e-5)
    close(fovea.rotary(x, interleaved=interleaved, positions=[9, 1, 0, 3, 3]), rotated(x, [9, 1, 0, 3, 3], interleaved), 1e-5)
    part = fovea.rotary(x, interleaved=interleaved, rotary_dim=4, position_scale=0.5)
    assert np.array_equal(part[..., 4:], x[..., 4:])


def test_add_positional_encoding_and_elements():
    x = random(2, 5, 6)
    close(fovea.add_positional_encoding(x, offset=2), x + fovea.positional_encoding(5, 6, offset=2), 1e-6)
    dropped = fovea.add_positional_encoding(x, dropout=0.5, dropout_seed=3)
    assert 0.1 < (dropped == 0).mean() < 0.9
    close(fovea.exp(x), np.exp(x.astype(np.float64)), 1e-6)
    close(fovea.tanh(x), np.tanh(x.astype(np.float64)), 1e-6)


def multi_head(x, y, weights, heads, **options):
    """The formula: project, split into heads, attend, join, project."""
    def split(rows, weight):
        projected = rows.astype(np.float64) @ weight.T
        return projected.reshape(*rows.shape[:2], -1, weight.shape[0] // heads).swapaxes(1, 2)

    out, _ = attention(split(x, weights[0]), split(y, weights[1]), split(y, weights[2]), **options)
    return out.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ weights[3].T


def test_multi_head_attention():
    weights = [random(12, 12, seed=n) for n in range(4)]
    x, y = random(2, 3, 12), random(2, 5, 12)
    layer = fovea.MultiHeadAttention(4, query_weight=weights[0], key_weight=weights[1], value_weight=weights[2],
                                     out_weight=weights[3])
    close(layer(x, y), multi_head(x, y, weights, 4), 1e-4)
    close(layer(x), multi_head(x, x, weights, 4), 1e-4)
    close(layer(x[0]), multi_head(x[:1], x[:1], weights, 4)[0], 1e-4)
    out, average = layer(x, y, return_weights="average")
    assert average.shape == (2, 3, 5) and layer(x, y, return_weights=True)[1].shape == (2, 4, 3, 5)
    joined = fovea.MultiHeadAttention(4, in_weight=np.concatenate(weights[:3]), layout="out_in")
    assert joined(x).shape == (2, 3, 12) and joined.nbytes > 0
    turned = fovea.MultiHeadAttention(4, in_weight=np.concatenate(weights[:3]).T.copy(), out_weight=weights[3].T.copy(),
                                      layout="in_out")
    close(turned(x), layer(x), 1e-5)


def test_one_sequence_s_outputs_have_no_axis_of_sequences():
    layer = fovea.MultiHeadAttention(4, in_weight=random(36, 12, seed=1), out_weight=random(12, 12, seed=2))
    x = random(2, 5, 12)
    for options in ({"return_weights": True}, {"return_weights": "average"}, {"return_scores": "raw"},
                    {"return_log_sum_exp": True, "return_weights": True, "is_causal": True}):
        plan = layer.plan(x[1], **options)
        both = layer(x, **options)
        for one in (layer(x[1], **options), plan(x[1])):
            assert len(one) == len(both)
            for single, array in zip(one, both):
                assert single.shape == array.shape[1:]
                close(single, array[1], 1e-6)


def test_a_decoder_layer_over_pages():
    weights = np.concatenate([random(16, 16, seed=n) for n in range(3)])
    layer, x = fovea.MultiHeadAttention(2, in_weight=weights), random(1, 6, 16)
    whole = layer(x, is_causal=True, rotary={"base": 100.0})
    pool = fovea.KVPool(layers=2, kv_heads=2, head_dim=8, positions=8, page_size=4, sequences=1)
    schedule = fovea.Schedule(query=(1, 2, 8), pool=pool, is_causal=True)
    sequence, steps = pool.open(), []
    for n in range(6):
        schedule.set(pool.step({sequence: 1}))
        steps.append(layer(x[0, n:n + 1], rotary={"base": 100.0}, schedule=schedule, pages=1))
    close(np.concatenate(steps), whole[0], 1e-4)
    held = pool.values(1).copy()
    again = layer(x[0, 5:], rotary={"base": 100.0}, schedule=schedule, pages=(pool.keys(1), pool.values(1)), keep_pages=True)
    assert np.array_equal(again, steps[5]) and np.array_equal(held, pool.values(1)) and len(sequence) == 6
    for wrong, words in (({"pages": 1}, "without a schedule"), ({"schedule": schedule}, "key_pages"),
                         ({"schedule": pool}, "fovea.Schedule is wanted"),
                         ({"schedule": schedule, "pages": 1, "is_causal": True}, "in the schedule")):
        with pytest.raises((TypeError, fovea.BadArgument), match=words):
            layer(x[0, 5:], **wrong)


def test_one_page_and_one_head():
    """Strides that are never stepped along are anybody's."""
    layer, x = fovea.MultiHeadAttention(2, kv_heads=1, in_weight=random(32, 16)), random(5, 16)
    pool = fovea.KVPool(kv_heads=1, head_dim=8, positions=8, page_size=8, sequences=1)
    schedule = fovea.Schedule(query=(5, 2, 8), pool=pool, is_causal=True)
    schedule.set(pool.step({pool.open(): 5}))
    close(layer(x, schedule=schedule, pages=0), layer(x, is_causal=True), 1e-5)


SIXTEEN_BITS = {
    "matmul": lambda x: fovea.matmul(x, x), "packed": lambda x: fovea.matmul(x, fovea.PackedMatrix(x)),
    "linear": lambda x: fovea.linear(x, x, x[0], residual=x), "masked_softmax": lambda x: fovea.masked_softmax(x),
    "layer_norm": lambda x: fovea.layer_norm(x, x[0], x[1]), "rotary": fovea.rotary, "exp": fovea.exp, "tanh": fovea.tanh,
    "rms_norm": lambda x: fovea.rms_norm(x, x[0]), "softmax": lambda x: fovea.softmax(x, 0), "log_softmax": fovea.log_softmax,
    "activation": lambda x: fovea.activation("gelu", x), "gemm": lambda x: fovea.gemm(x, x, x[0], alpha=0.5),
    "add_positional_encoding": fovea.add_positional_encoding, "kernel_regression": lambda x: fovea.kernel_regression(x, x, x),
    "additive_attention": lambda x: fovea.additive_attention(x, x, x, x, x, x[0]),
    "multi_head": lambda x: fovea.MultiHeadAttention(2, query_weight=x, key_weight=x, value_weight=x)(x)}


@pytest.mark.parametrize("name", SIXTEEN_BITS)
def test_every_operation_is_handed_16_bits(name):
    """Nothing is decided in Python: what the library takes comes back in 16 bits, and what it does not (kernel regression,
    a score's parameters) is refused in its words."""
    narrow = random(8, 8).astype(np.float16)
    wide = SIXTEEN_BITS[name](narrow.astype(np.float32))
    try:
        found = SIXTEEN_BITS[name](narrow)
    except fovea.BadDtype as refused:
        assert "expected" in str(refused) and name in ("kernel_regression", "additive_attention")
        return
    assert found.dtype == np.float16
    close(found, wide, 1e-2 + np.abs(wide).max() / 64)
