"""Training in PyTorch: fovea.torch.attention and its operators beside PyTorch's autograd of the formula in float64."""
import numpy as np
import pytest
from reference import close, counted
from torch_by_hand import (ALL, B, H, I, J, KEYS, LAST, MASK, MIXES, PARAMETERS, QUERIES, REACHING, by_hand, compare,
                           gradients, leaves, qkv, run, tensor, twice)

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402
from fovea import _fovea  # noqa: E402
from fovea.torch.derivatives import attend  # noqa: E402
from fovea.options import KEPT  # noqa: E402
from fovea.torch import operators  # noqa: E402
from fovea.torch.operators import DIFFERENTIABLE  # noqa: E402

sdpa = fovea.torch.scaled_dot_product_attention


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("kind", PARAMETERS)
def test_gradients_are_those_of_the_formula(kind, mix):
    tensors, options, meant = MIXES[mix]
    given = leaves({**qkv(), **PARAMETERS[kind], **tensors})
    exact = leaves(given, torch.float64)
    found, wanted = run(kind, given, options, **ALL), by_hand(kind, exact, **meant)
    for one, other in zip(found, wanted):
        close(one.detach(), other.detach(), 2e-5)
    compare(gradients(found, given), gradients(wanted, exact))
    out = run(kind, given, options)
    assert torch.equal(out, run(kind, {name: x.detach() for name, x in given.items()}, options))
    compare(dict(zip(given, torch.autograd.grad(out.pow(2).sum(), given.values()))),
            dict(zip(exact, torch.autograd.grad(by_hand(kind, exact, **meant)[0].pow(2).sum(), exact.values()))))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["additive", "concat"])
def test_projections_are_kept(kind, compiled, monkeypatch):
    """With the bits of a backward pass that makes them again; where no gradients are to come they are not."""
    torch._dynamo.reset()
    given, tensors = leaves({**qkv(), **PARAMETERS[kind]}), {**qkv(), **PARAMETERS[kind]}
    calls = {"attention": [], "attention_backward": []}
    for name, called, function in (("of_any_array", "attention", operators.of_any_array),
                                   ("attention_backward", "attention_backward", operators.attention_backward)):
        def recorded(*args, called=called, function=function, **options):
            calls[called].append(options)
            return function(*args, **options)

        monkeypatch.setattr(operators, name, recorded)
    layer = (lambda **x: run(kind, x, {}))  # noqa: E731
    if compiled:
        layer = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(layer(**given).pow(2).sum(), given.values())
    assert [sorted(set(options) & set(KEPT)) for options in calls["attention_backward"]] == [sorted(KEPT)]
    kept = calls["attention_backward"][0]
    assert kept["projected_query"].shape == (B, H, QUERIES, given["score_vector"].shape[0])
    with torch.no_grad():
        rows = [given[name] for name in ("query", "key", "value")]
        out, log_sum_exp = fovea.attention(*rows, return_log_sum_exp=True, score=kept["score"])
        again = fovea.attention_backward(*rows, out, log_sum_exp, 2 * out, wanted=tuple(given), score=kept["score"])
    assert all(torch.equal(one, again[name]) for name, one in zip(given, found))
    calls["attention"].clear()
    with torch.no_grad():
        layer(**given)
    layer(**tensors)
    assert len(calls["attention"]) == 2 and not any("return_projected_query" in options for options in calls["attention"])


@pytest.mark.parametrize("mix", ["alone", "all", "offsets", "short mask", "leave one out", "top-left", "lengths of queries",
                                 "slopes and sinks", "slopes, causal"])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_gradients_of_gradients(kind, mix):
    tensors, options, meant = MIXES[mix]
    given = leaves({**qkv(), **PARAMETERS[kind], **tensors})
    exact = leaves(given, torch.float64)
    compare(twice(run(kind, given, options, **ALL), given), twice(by_hand(kind, exact, **meant), exact), 1e-4)


@pytest.mark.parametrize("kind", PARAMETERS)
def test_dropout(kind):
    """The same weights are dropped for a seed, backwards too and twice; PyTorch's generator draws it."""
    given = leaves({**qkv(), **PARAMETERS[kind]})
    exact = leaves(given, torch.float64)
    seed = torch.tensor(12345)
    factors = torch.ops.fovea.dropout_factors(seed, [B, H, QUERIES, KEYS], 0.3)
    assert set(factors.unique().tolist()) == {0.0, float(torch.tensor(1.0) / (1 - 0.3))}
    assert 0.1 < (factors == 0).double().mean() < 0.5
    found, wanted = run(kind, given, dict(dropout=0.3, dropout_seed=seed), **ALL), by_hand(kind, exact, factors=factors)
    for one, other in zip(found, wanted):
        close(one.detach(), other.detach(), 2e-5)
    compare(gradients(found, given), gradients(wanted, exact))
    compare(twice(run(kind, given, dict(dropout=0.3, dropout_seed=12345), **ALL), given),
            twice(by_hand(kind, exact, factors=factors), exact), 1e-4)
    outs = []
    for n in (5, 5, 6):
        torch.manual_seed(n)
        outs.append(run(kind, given, dict(dropout=0.3)))
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    assert torch.equal(run(kind, given, dict(dropout=0.0)), run(kind, given, {}))


def test_dropout_by_central_differences():
    query, key, value = qkv().values()
    at = lambda x: fovea.torch.attention(x, key, value, dropout=0.4, dropout_seed=9)  # noqa: E731
    direction = tensor(*query.shape, seed=8)
    leaf = query.clone().requires_grad_()
    gradient, = torch.autograd.grad((at(leaf) * REACHING["out"]).sum(), leaf)
    rise = ((at(query + 1e-2 * direction) - at(query - 1e-2 * direction)).double() * REACHING["out"]).sum() / 2e-2
    assert float((gradient * direction).sum()) == pytest.approx(float(rise), rel=2e-3)


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("kind", PARAMETERS)
def test_gradcheck(kind):
    names = ("query", "key", "value", *PARAMETERS[kind])
    given = leaves({**qkv(), **PARAMETERS[kind]})
    small = {"query": given["query"][:1, :, :2], "key": given["key"][:1, :, :3], "value": given["value"][:1, :, :3]}
    tensors = list(leaves(given | small).values())
    attention = lambda *x: run(kind, dict(zip(names, x)), {"is_causal": True})  # noqa: E731
    assert torch.autograd.gradcheck(attention, tensors, eps=1e-2, atol=3e-3, rtol=3e-3)


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_16_bits(kind, dtype, tolerance):
    given = leaves({**qkv(dtype), **{name: x if name == "sigmas" else x.to(dtype) for name, x in PARAMETERS[kind].items()}})
    exact = leaves(given, torch.float64)
    found, wanted = run(kind, given, {"is_causal": True}, **ALL), by_hand(kind, exact, keep=J <= LAST)
    assert [x.dtype for x in found] == [dtype, torch.float32, torch.float32]
    found, wanted = gradients(found, given), gradients(wanted, exact)
    assert all(found[name].dtype == x.dtype for name, x in given.items())
    compare(found, wanted, tolerance)
    sums = torch.autograd.grad(run(kind, given, {}).sum(), given["query"], create_graph=True)[0]
    assert torch.autograd.grad(sums.float().pow(2).sum(), given["query"])[0].dtype == dtype


@pytest.mark.parametrize("function", [sdpa, torch.ops.fovea.sdpa])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_pytorchs_function(function, dtype, tolerance):
    """Masks whose gradient is summed up over what they broadcast to, and types."""
    if function is sdpa:
        function = lambda q, k, v, mask, causal: sdpa(q, k, v, mask, 0.0, causal, enable_gqa=True)  # noqa: E731
    column = [tensor(QUERIES, 1)] * (dtype == torch.float32)  # whose gradient is 0, but for rounded results
    for mask in (None, tensor(QUERIES, KEYS), tensor(H, 1, KEYS), tensor(B, 1, 1, KEYS), MASK, *column):
        if mask is None or mask.dtype == torch.bool:
            given, bias = leaves(qkv(dtype)), {}
        else:
            given = leaves({**qkv(dtype), "bias": mask.to(dtype)})
            bias = {"bias": given["bias"]}
        exact, calls = leaves(given, torch.float64), []
        given_mask = bias.get("bias", mask)
        inputs = (given["query"], given["key"], given["value"], given_mask, mask is None)
        out = counted(calls, lambda: function(*inputs))
        wanted, _, _ = by_hand("dot", exact, keep=J <= I if mask is None else mask if mask.dtype == torch.bool else None)
        assert out.dtype == dtype and len(calls) == 1
        compare(dict(zip(given, torch.autograd.grad((out * REACHING["out"]).sum(), given.values()))),
                dict(zip(exact, torch.autograd.grad((wanted * REACHING["out"]).sum(), exact.values()))), tolerance)


def test_pytorchs_function_with_dropout():
    given = leaves(qkv())
    calls = []
    ours = lambda p: counted(calls, lambda: sdpa(*given.values(), None, p, enable_gqa=True))  # noqa: E731
    torch.manual_seed(1)
    seed = torch.randint(2**62, ())
    torch.manual_seed(1)
    out, exact = ours(0.4), leaves(given, torch.float64)
    factors = torch.ops.fovea.dropout_factors(seed, [B, H, QUERIES, KEYS], 0.4)
    wanted = by_hand("dot", exact, factors=factors)[0]
    close(out.detach(), wanted.detach(), 2e-5)
    compare(dict(zip(given, torch.autograd.grad(out.pow(2).sum(), given.values()))),
            dict(zip(exact, torch.autograd.grad(wanted.pow(2).sum(), exact.values()))))
    with torch.no_grad():
        torch.manual_seed(1)
        assert torch.equal(ours(0.4), out)
    assert len(calls) == 2
    assert float(ours(1.0).detach().abs().max()) == 0 and len(calls) == 2  # by PyTorch
    means = torch.stack([ours(0.5).detach() for _ in range(300)]).mean(0)
    np.testing.assert_allclose(means, ours(0.0).detach(), atol=0.5)


@pytest.mark.parametrize("names", [("query",), ("key",), ("value",), ("query", "value"), ("sinks",), ("bias",),
                                   ("score_vector",), ("query_weight", "key_weight")])
def test_only_what_is_needed_is_computed(names, monkeypatch):
    kind = "additive" if {"score_vector", "query_weight"} & {*names} else "dot"
    tensors = {**qkv(), **PARAMETERS[kind], "bias": tensor(1, 1, QUERIES, KEYS), "sinks": tensor(H)}
    given, exact = ({**tensors, **leaves({name: tensors[name] for name in names})} for _ in range(2))
    exact = {name: x.detach().double().requires_grad_(name in names) for name, x in exact.items()}
    asked, real = [], _fovea.attention_backward

    def noted(*arguments):
        asked.append({name for name in arguments[-1] if name in DIFFERENTIABLE})
        return real(*arguments)

    monkeypatch.setattr(_fovea, "attention_backward", noted)
    found = torch.autograd.grad(run(kind, given, {}).pow(2).sum(), [given[name] for name in names])
    assert asked == [{*names}]
    wanted = torch.autograd.grad(by_hand(kind, exact)[0].pow(2).sum(), [exact[name] for name in names])
    compare(dict(zip(names, found)), dict(zip(names, wanted)))


@pytest.mark.parametrize("empty_rows", ["zero", "uniform", "nan"])
def test_empty_rows_have_no_gradient(empty_rows):
    given = leaves(qkv())
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    keep[1] = False
    out = fovea.torch.attention(*given.values(), mask=keep, empty_rows=empty_rows)
    found = dict(zip(given, torch.autograd.grad(out.nansum(), given.values(), create_graph=True)))
    assert not found["query"][:, :, 1].any()
    exact = leaves(given, torch.float64)
    wanted = torch.autograd.grad(by_hand("dot", exact, keep=keep)[0].sum(), exact.values())
    compare({name: x.detach() for name, x in found.items()}, dict(zip(exact, wanted)))
    for x in torch.autograd.grad(sum(x.pow(2).sum() for x in found.values()), given.values()):
        assert torch.isfinite(x).all()


@pytest.mark.parametrize("shapes", [((0, 2, 3, 4), (0, 2, 5, 4), (0, 2, 5, 6)), ((1, 2, 0, 4), (1, 2, 5, 4), (1, 2, 5, 6)),
                                    ((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 6))])
def test_nothing_at_all(shapes):
    given = [tensor(*shape).requires_grad_() for shape in shapes]
    for function in (fovea.torch.attention, sdpa, torch.ops.fovea.sdpa):
        out = function(*given)
        for x, gradient in zip(given, torch.autograd.grad(out.sum(), given)):
            assert gradient.shape == x.shape and not gradient.any()


@pytest.mark.parametrize("options", [{"query_invariant": True}, {"precision": "medium"}, {"precision": "highest"}])
def test_how_exactly(options):
    given = leaves(qkv())
    exact = leaves(given, torch.float64)
    tolerance = 2e-2 if options.get("precision") == "medium" else 3e-5
    compare(gradients(run("dot", given, options, **ALL), given), gradients(by_hand("dot", exact), exact), tolerance)


def test_ranks():
    query, key, value = (x[:, 0] for x in qkv().values())
    sigma = torch.tensor([1.5], requires_grad=True)
    for at in ((), (0,)):
        q, k, v = (x[at].clone().requires_grad_() for x in (query, key, value))
        mask = MASK[:, 0][at]
        out, log_sum_exp, weights = fovea.torch.attention(q, k, v, score=fovea.Gaussian(sigmas=sigma), mask=mask, **ALL)
        with torch.no_grad():
            wanted = fovea.attention(q, k, v, score=fovea.Gaussian(sigmas=sigma), mask=mask, **ALL)
        for one, other in zip((out, log_sum_exp, weights), wanted):
            assert one.shape == other.shape
            close(one.detach(), other, 1e-6)
        out.sum().backward()
        assert q.grad.shape == q.shape and sigma.grad is not None
    one = fovea.torch.attention(query, key, value, score=fovea.Gaussian(sigma=1.5))
    close(one, fovea.attention(query, key, value, score=fovea.Gaussian(1.5)), 1e-6)


def test_errors_name_the_argument():
    query, key, value = qkv().values()
    attention = fovea.torch.attention
    with pytest.raises(TypeError, match="no option 'dropout_p'; it has .*dropout"):
        attention(query, key, value, dropout_p=0.1)
    with pytest.raises(TypeError, match="no option 'key_scales'"):
        attention(query, key, value, key_scales=query)
    with pytest.raises(TypeError, match="key: a tensor"):
        attention(query, key.numpy(), value)
    with pytest.raises(TypeError, match="valid_lens: a tensor"):
        attention(query, key, value, valid_lens=[3, 4])
    with pytest.raises(TypeError, match="weight: a tensor"):
        attention(query, key, value, score=fovea.Bilinear(np.ones((6, 6), np.float32)))
    with pytest.raises(TypeError, match="sigma: a number"):
        attention(query, key, value, score=fovea.Gaussian(sigma=torch.ones(1, requires_grad=True)))
    with pytest.raises(TypeError, match="scale: a number"):
        attention(query, key, value, scale=torch.ones(()))
    with pytest.raises(TypeError, match="score: a fovea.Score"):
        attention(query, key, value, score="dot")
    with pytest.raises(ValueError, match="key has rank 3, expected 4"):
        attention(query, key[0], value)
    with pytest.raises(ValueError, match="return_weights"):
        attention(query, key, value, return_weights="average")
    with pytest.raises(fovea.BadDtype, match="query"):
        attention(query.double(), key, value)
    with pytest.raises(fovea.BadShape, match="bias"):
        attention(query, key, value, bias=torch.ones(3, KEYS))
    with pytest.raises(fovea.BadValue, match="dropout"):
        attention(query, key, value, dropout=1.5)


def test_what_is_given_by_name_alone():
    """The operator's arguments, all of which have defaults but three."""
    out, log_sum_exp, weights = attend(**qkv())
    assert weights.numel() == 0 and torch.equal(out, fovea.torch.attention(*qkv().values()))
    assert log_sum_exp.shape == (B, H, QUERIES)
