"""Gradients of layers: against PyTorch's in float64 where it is there, else against central differences of NumPy's formulas."""
import numpy as np
import pytest
from reference import close, random

import fovea

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def leaf(array):
    return torch.from_numpy(np.asarray(array, np.float64)).requires_grad_()


def gradients_of(out, grad_out, *leaves):
    return [g.numpy() for g in torch.autograd.grad(out, leaves, torch.from_numpy(np.asarray(grad_out, np.float64)))]


X, GRAD = random(3, 5, 24, seed=1), random(3, 5, 24, seed=2)
WEIGHT, BIAS, MORE = random(24, seed=3), random(24, seed=4), random(3, 5, 24, seed=5)


@pytest.mark.parametrize("kind, function", [
    ("relu", functional.relu), ("gelu", functional.gelu), ("silu", functional.silu),
    ("gelu_tanh", lambda x: functional.gelu(x, approximate="tanh"))])
def test_activations(kind, function):
    x = leaf(X)
    close(fovea.activation_backward(kind, X, GRAD), gradients_of(function(x), GRAD, x)[0], 1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis):
    x = leaf(X)
    close(fovea.softmax_backward(fovea.softmax(X, axis), GRAD, axis), gradients_of(torch.softmax(x, axis), GRAD, x)[0], 1e-6)
    wanted = gradients_of(torch.log_softmax(x, axis), GRAD, x)[0]
    close(fovea.log_softmax_backward(fovea.log_softmax(X, axis), GRAD, axis), wanted, 1e-5)


def test_masked_softmax():
    lens = np.array([24, 7, 0])
    x = leaf(X)
    mask = torch.arange(24) < torch.from_numpy(lens)[:, None, None]
    out = torch.where(mask, torch.softmax(x.masked_fill(~mask, -1e9), -1), 0.0)
    close(fovea.masked_softmax_backward(fovea.masked_softmax(X, lens), GRAD, lens), gradients_of(out, GRAD, x)[0], 1e-6)


def test_layer_norm():
    x, weight, bias, more = (leaf(array) for array in (X, WEIGHT, BIAS, MORE))
    y = x + more
    out = functional.layer_norm(y, (24,), weight, bias)
    grad_sum = random(3, 5, 24, seed=6)
    wanted = gradients_of((out * torch.from_numpy(GRAD.astype(np.float64)) + y * torch.from_numpy(grad_sum.astype(np.float64))).sum(),
                          1.0, x, weight, bias)
    found = fovea.layer_norm_backward(X, GRAD, WEIGHT, BIAS, residual=MORE, grad_sum=grad_sum)
    assert list(found) == ["x", "weight", "bias"]
    for ours, theirs in zip(found.values(), wanted):
        close(ours, theirs, 1e-5)
    assert list(fovea.layer_norm_backward(X, GRAD, WEIGHT, wanted=("weight",))) == ["weight"]


def test_rms_norm():
    x, weight = leaf(X), leaf(WEIGHT)
    found = fovea.rms_norm_backward(X, GRAD, WEIGHT, epsilon=1e-5, weight_from_one=True)
    wanted = gradients_of(functional.rms_norm(x, (24,), 1 + weight, 1e-5), GRAD, x, weight)
    close(found["x"], wanted[0], 1e-5)
    close(found["weight"], wanted[1], 1e-5)


@pytest.mark.parametrize("layout", ["out_in", "in_out"])
def test_linear(layout):
    matrix, bias, gate, grad = random(24, 10, seed=7), random(10, seed=8), random(3, 5, 10, seed=9), random(3, 5, 10, seed=10)
    x, w, b, m = (leaf(array) for array in (X, matrix, bias, gate))
    wanted = gradients_of(functional.silu(x @ w + b) * m, grad, x, w, b, m)
    given = matrix if layout == "in_out" else np.ascontiguousarray(matrix.T)
    found = fovea.linear_backward(X, given, grad, bias, activation="silu", multiplier=gate, layout=layout)
    close(found["x"], wanted[0], 1e-5)
    close(found["weight"] if layout == "in_out" else found["weight"].T, wanted[1], 2e-5)
    close(found["bias"], wanted[2], 1e-5)
    close(found["multiplier"], wanted[3], 1e-5)


def test_merge_states():
    outs, lses, grad, more = random(4, 3, 6, seed=11), random(4, 3, seed=12), random(3, 6, seed=13), random(3, seed=14)
    o, s = leaf(outs), leaf(lses)
    out, total = (torch.softmax(s, 0)[..., None] * o).sum(0), torch.logsumexp(s, 0)
    loss = (out * torch.from_numpy(grad.astype(np.float64))).sum() + (total * torch.from_numpy(more.astype(np.float64))).sum()
    for ours, theirs in zip(fovea.merge_states_backward(outs, lses, grad, more), gradients_of(loss, 1.0, o, s)):
        close(ours, theirs, 1e-6)


@pytest.mark.parametrize("layout", ["out_in", "in_out"])
@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_multi_head_attention(layout, inputs):
    torch.manual_seed(1)
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    given = [random(2, 5, 12, seed=20), random(2, 7, 12, seed=21), random(2, 7, 12, seed=22)][:inputs]
    grad = random(2, 5, 12, seed=23)
    leaves = [leaf(array) for array in given]
    query, key, value = leaves + leaves[-1:] * (3 - inputs)
    parameters = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias)
    wanted = gradients_of(module(query, key, value, need_weights=False)[0], grad, *leaves, *parameters)
    arrays = {name: np.ascontiguousarray((p.detach().T if layout == "in_out" else p.detach()).numpy().astype(np.float32))
              for name, p in zip(("in_weight", "in_bias", "out_weight", "out_bias"), parameters)}
    found = fovea.multi_head_attention_backward(given[0], grad, *given[1:], heads=3, layout=layout, parameters=arrays)
    names = ["query", "key", "value"][:inputs] + list(arrays)
    assert list(found) == names
    layer = fovea.MultiHeadAttention(3, layout=layout, precision="highest", **arrays)
    out, kept = layer(*given, return_kept=True)
    assert kept.shape == (2 * 5 * 3 * 9 + 2 * given[-1].shape[1] * 3 * 8,)
    np.testing.assert_array_equal(out, layer(*given))
    with_kept = fovea.multi_head_attention_backward(given[0], grad, *given[1:], heads=3, layout=layout, parameters=arrays,
                                                    kept=kept)
    for name in names:
        np.testing.assert_array_equal(with_kept[name], found[name])
    with pytest.raises(ValueError, match="options.kept.shape"):
        fovea.multi_head_attention_backward(given[0], grad, *given[1:], heads=3, layout=layout, parameters=arrays,
                                            kept=kept[1:])
    for name, theirs in zip(names, wanted):
        ours = found[name].T if layout == "in_out" and name.endswith("weight") else found[name]
        close(ours, theirs, 3e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_multi_head_attention_keeps_float32_of_any_type(dtype):
    arrays = {"in_weight": random(36, 12, seed=40).astype(dtype), "out_weight": random(12, 12, seed=41)}
    x, grad = random(2, 5, 12, seed=42).astype(dtype), random(2, 5, 12, seed=43)
    layer = fovea.MultiHeadAttention(3, precision="highest", **arrays)
    _, kept = layer(x, return_kept=True)
    assert kept.dtype == np.float32
    found = [fovea.multi_head_attention_backward(x, grad, heads=3, parameters=arrays, kept=given) for given in (None, kept)]
    for name, gradient in found[0].items():
        np.testing.assert_array_equal(gradient, found[1][name])


def test_multi_head_attention_through_rotary_and_a_bias():
    arrays = {"query_weight": random(8, 6, seed=30), "key_weight": random(8, 6, seed=31), "value_weight": random(8, 6, seed=32)}
    x, grad, bias = random(2, 5, 6, seed=33), random(2, 5, 8, seed=34), random(1, 2, 5, 5, seed=35)
    leaves = [leaf(array) for array in (x, *arrays.values(), bias)]

    def turned(rows):
        angles = torch.arange(5, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(2, dtype=torch.float64) / 2)
        first, second = rows.unflatten(-1, (2, 4)).transpose(1, 2).chunk(2, -1)
        return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1)

    tx, wq, wk, wv, tb = leaves
    q, k, v = turned(tx @ wq.T), turned(tx @ wk.T), (tx @ wv.T).unflatten(-1, (2, 4)).transpose(1, 2)
    out = (torch.softmax(q @ k.transpose(-1, -2) / 2 + tb, -1) @ v).transpose(1, 2).flatten(2)
    wanted = gradients_of(out, grad, *leaves)
    found = fovea.multi_head_attention_backward(x, grad, heads=2, parameters=arrays, rotary={}, bias=bias,
                                                wanted_of_attention=("bias",))
    for name, theirs in zip(("query", *arrays), wanted):
        close(found[name], theirs, 3e-5)
    close(found["attention"]["bias"], wanted[-1], 3e-5)


def test_dropout_alone_goes_back_through_an_encoding():
    options = {"dropout": 0.5, "dropout_seed": 3, "offset": 2}
    dropped = fovea.add_positional_encoding(X, **options)
    back = fovea.add_positional_encoding(np.ones_like(X), dropout_alone=True, **options)
    assert np.array_equal(back, np.where(dropped == 0, 0, 2).astype(np.float32))


def test_what_is_refused():
    with pytest.raises(fovea.BadShape, match="gradients.out"):
        fovea.layer_norm_backward(X, GRAD[:2])
    with pytest.raises(fovea.BadOption, match="wanted: 'bias'"):
        fovea.layer_norm_backward(X, GRAD, wanted=("bias",))
    with pytest.raises(fovea.BadShape, match="weight"):
        fovea.linear_backward(X, random(10, 23), random(3, 5, 10))
    with pytest.raises(fovea.BadOption, match="return_weights"):
        fovea.multi_head_attention_backward(X, GRAD, heads=2, parameters={}, return_weights=True)


def test_tensors_in_tensors_out():
    found = fovea.layer_norm_backward(torch.from_numpy(X).to(torch.bfloat16), torch.from_numpy(GRAD))
    assert isinstance(found["x"], torch.Tensor) and found["x"].dtype == torch.bfloat16
