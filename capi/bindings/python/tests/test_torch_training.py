"""Training in PyTorch: fovea.torch.attention and its operators beside PyTorch's autograd of the formula in float64."""
import numpy as np
import pytest
from reference import close, counted, random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402
from fovea import _fovea  # noqa: E402
from fovea.torch.derivatives import attend  # noqa: E402
from fovea.torch.operators import ARGUMENTS, DEFAULTS, DIFFERENTIABLE, OF_BACKWARD  # noqa: E402

sdpa = fovea.torch.scaled_dot_product_attention
B, H, GROUPS, QUERIES, KEYS, D, VALUES, UNITS = 2, 4, 2, 5, 7, 6, 3, 8


def tensor(*shape, seed=1):
    return torch.from_numpy(random(*shape, seed=seed))


def qkv(dtype=torch.float32):
    shapes = ((B, H, QUERIES, D), (B, GROUPS, KEYS, D), (B, GROUPS, KEYS, VALUES))
    return {name: tensor(*shape, seed=n).to(dtype) for n, (name, shape) in enumerate(zip(("query", "key", "value"), shapes))}


PARAMETERS = {
    "dot": {}, "bilinear": {"weight": tensor(D, D) / 2}, "gaussian": {"sigmas": tensor(H).abs() + 1},
    "additive": {"query_weight": tensor(UNITS, D), "key_weight": tensor(UNITS, D, seed=2), "score_vector": tensor(UNITS)},
    "concat": {"weight": tensor(UNITS, 2 * D), "score_vector": tensor(UNITS), "score_bias": tensor(UNITS, seed=2)},
}
CLASSES = {"dot": fovea.Dot, "bilinear": fovea.Bilinear, "gaussian": fovea.Gaussian, "additive": fovea.Additive,
           "concat": fovea.Concat}


def score_of(kind, given):
    """The score function, its parameters those of `given`."""
    return CLASSES[kind](**{"bias" if name == "score_bias" else name: given[name] for name in PARAMETERS[kind]})


def scores_by_hand(kind, given):
    q, k = given["query"][:, :, :, None], given["key"][:, :, None]
    if kind == "dot":
        return (q * k).sum(-1) / D**0.5
    if kind == "bilinear":
        return (q @ given["weight"] * k).sum(-1)
    if kind == "gaussian":
        return -((q - k) ** 2).sum(-1) / (2 * given["sigmas"].view(H, 1, 1) ** 2)
    if kind == "additive":
        return torch.tanh(q @ given["query_weight"].T + k @ given["key_weight"].T) @ given["score_vector"]
    pairs = torch.cat(torch.broadcast_tensors(q, k), -1)
    return torch.tanh(pairs @ given["weight"].T + given["score_bias"]) @ given["score_vector"]


def by_hand(kind, given, keep=None, scale=None, softcap=None, distances=None, factors=None):
    """(out, log-sum-exp, weights) in the type of what is given."""
    given = {**given, **{name: given[name].repeat_interleave(H // GROUPS, 1) for name in ("key", "value")}}
    scores = scores_by_hand(kind, given)
    if scale is not None:
        scores = scores * (scale * D**0.5 if kind == "dot" else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if "bias" in given:
        scores = scores + given["bias"]
    if "alibi_slopes" in given:
        scores = scores - given["alibi_slopes"].view(H, 1, 1) * distances.abs()
    exps = torch.exp(scores)
    if keep is not None:
        exps = exps * keep
    total = exps.sum(-1)
    if "sinks" in given:
        total = total + torch.exp(given["sinks"]).view(H, 1)
    some = torch.where(total == 0, 1, total)
    weights = exps / some[..., None]
    weights = weights if factors is None else weights * factors
    return weights @ given["value"], torch.where(total == 0, -torch.inf, torch.log(some)), weights


I, J = torch.arange(QUERIES)[:, None], torch.arange(KEYS)
LAST = I + KEYS - QUERIES
MASK = (tensor(B, 1, QUERIES, KEYS, seed=4) > -0.5) | (J == 0)
LENS, OWN_LENS = torch.tensor([3, KEYS]), torch.tensor([[1, 2, 3, 4, 5], [7, 0, 1, 7, 2]])
OFFSETS = torch.tensor([0, 2])
MIXES = {
    "alone": ({}, {}, {}),
    "mask and bias": ({"bias": tensor(1, H, QUERIES, KEYS)}, {"mask": MASK}, {"keep": MASK}),
    "a bias of a row": ({"bias": tensor(B, 1, 1, KEYS)}, {"scale": 0.3}, {"scale": 0.3}),
    "a bias for all": ({"bias": tensor(QUERIES, KEYS)}, {"valid_lens": LENS}, {"keep": J < LENS.view(B, 1, 1, 1)}),
    "short mask": ({}, {"mask": MASK[:1, :, :, :4]}, {"keep": MASK[:1] & (J < 4)}),
    "lengths": ({}, {"valid_lens": LENS, "softcap": 1.5}, {"keep": J < LENS.view(B, 1, 1, 1), "softcap": 1.5}),
    "lengths of queries": ({}, {"valid_lens": OWN_LENS.int()}, {"keep": J < OWN_LENS.view(B, 1, QUERIES, 1)}),
    "causal": ({}, {"is_causal": True}, {"keep": J <= LAST}),
    "top-left": ({}, {"is_causal": True, "top_left": True}, {"keep": J <= I}),
    "an offset": ({}, {"is_causal": True, "query_offset": 1}, {"keep": J <= I + 1}),
    "offsets": ({}, {"is_causal": True, "query_offsets": OFFSETS}, {"keep": J <= I + OFFSETS.view(B, 1, 1, 1)}),
    "windows": ({}, {"window_left": 2, "window_right": 1}, {"keep": (J >= LAST - 2) & (J <= LAST + 1)}),
    "leave one out": ({}, {"leave_one_out": True}, {"keep": I != J}),
    "slopes and sinks": ({"alibi_slopes": tensor(H).abs(), "sinks": tensor(H)}, {"top_left": True}, {"distances": I - J}),
    "slopes, causal": ({"alibi_slopes": tensor(H).abs()}, {"is_causal": True, "scale": 0.5},
                       {"distances": LAST - J, "keep": J <= LAST, "scale": 0.5}),
    "all": ({"bias": tensor(1, 1, QUERIES, KEYS), "alibi_slopes": tensor(H).abs(), "sinks": tensor(H)},
            {"mask": MASK, "valid_lens": OWN_LENS, "window_left": 4, "softcap": 2.0, "scale": 0.7},
            {"keep": MASK & (J < OWN_LENS.view(B, 1, QUERIES, 1)) & (J >= LAST - 4), "distances": LAST - J, "softcap": 2.0,
             "scale": 0.7}),
}
TAKEN_BY_ATTENTION = ("bias", "alibi_slopes", "sinks")


def run(kind, given, options, **others):
    named = {name: given[name] for name in TAKEN_BY_ATTENTION if name in given}
    return fovea.torch.attention(given["query"], given["key"], given["value"], score=score_of(kind, given), **named, **options,
                                 **others)


def leaves(given, dtype=None):
    return {name: x.detach().to(dtype or x.dtype).clone().requires_grad_() for name, x in given.items()}


def loss_of(results):
    """A loss that all results reach, but for the log-sum-exp of rows with nothing to attend, -infinity."""
    out, log_sum_exp, weights = results
    finite = torch.where(torch.isinf(log_sum_exp), 0, log_sum_exp)
    return (out * REACHING["out"]).sum() + (finite * REACHING["lse"]).sum() + (weights * REACHING["weights"]).sum()


REACHING = {"out": tensor(B, H, QUERIES, VALUES, seed=5), "lse": tensor(B, H, QUERIES, seed=6),
            "weights": tensor(B, H, QUERIES, KEYS, seed=7)}
ALL = dict(return_log_sum_exp=True, return_weights=True)


def compare(found, wanted, tolerance=3e-5):
    """Gradients by name, each within `tolerance` of its largest number, which is not next to nothing."""
    for name, one in wanted.items():
        size = float(one.abs().max())
        assert found[name].shape == one.shape
        np.testing.assert_allclose(found[name].double(), one, rtol=0, atol=tolerance * max(size, 0.1), err_msg=name)


def gradients(results, given):
    return dict(zip(given, torch.autograd.grad(loss_of(results), given.values())))


def twice(results, given):
    """Gradients of the squares of gradients."""
    first = torch.autograd.grad(loss_of(results), given.values(), create_graph=True)
    return dict(zip(given, torch.autograd.grad(sum(x.pow(2).sum() for x in first), given.values())))


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


def arguments(kind="dot", mix="alone", **others):
    tensors, options, _ = MIXES[mix]
    return {**qkv(), **PARAMETERS[kind], "score": kind, **tensors, **options, **others}


@pytest.mark.parametrize("kind, mix, others", [
    ("dot", "all", {"return_weights": True}), ("additive", "lengths", {}), ("gaussian", "offsets", {}),
    ("bilinear", "windows", {}), ("dot", "alone", {"dropout": 0.5, "dropout_seed": torch.tensor(3)})])
def test_the_operators(kind, mix, others):
    given = arguments(kind, mix, **others)
    given |= leaves({name: given[name] for name in DIFFERENTIABLE if name in given})
    taken = tuple(given.get(name, DEFAULTS[name]) for name in ARGUMENTS)
    torch.library.opcheck(torch.ops.fovea.attention, taken)
    out, log_sum_exp, _ = (x.detach() for x in torch.ops.fovea.attention(*taken))
    call = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in (DEFAULTS | given).items()}
    call |= {"grad_out": REACHING["out"], "grad_log_sum_exp": None, "grad_weights": None, "out": out}
    call |= {"log_sum_exp": log_sum_exp, "wanted": [name in given for name in DIFFERENTIABLE]}
    torch.library.opcheck(torch.ops.fovea.attention_backward, tuple(call[name] for name in OF_BACKWARD))
    if mix == "alone":
        call["query"].requires_grad_()
        torch.library.opcheck(torch.ops.fovea.attention_backward, tuple(call[name] for name in OF_BACKWARD))
    torch.library.opcheck(torch.ops.fovea.dropout_factors, (torch.tensor(3), [1, 2, 3, 4], 0.5))


@pytest.mark.parametrize("kind, mix", [("dot", "all"), ("additive", "lengths"), ("gaussian", "causal"), ("concat", "alone"),
                                       ("bilinear", "mask and bias"), ("dot", "slopes and sinks")])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(kind, mix, dynamic):
    """In one graph, forwards and backwards, which draws the seeds of dropout as PyTorch does."""
    torch._dynamo.reset()
    tensors, options, _ = MIXES[mix]
    given = leaves({**qkv(), **PARAMETERS[kind], **tensors})
    layer = lambda given: run(kind, {**given, "query": given["query"] * 2}, {**options, "dropout": 0.2}, **ALL)  # noqa: E731
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    torch.manual_seed(7)
    wanted = layer(given)
    torch.manual_seed(7)
    found = compiled(given)
    for one, other in zip(found, wanted):
        assert torch.equal(one, other)
    compare(gradients(found, given), {name: x.double() for name, x in gradients(wanted, given).items()}, 1e-6)


def test_pytorchs_function_compiled():
    for dropout in (0.0, 0.3):
        torch._dynamo.reset()
        layer = lambda q, k, v: sdpa(q, k, v, None, dropout, True, enable_gqa=True) + 1  # noqa: E731
        compiled, results = torch.compile(layer, fullgraph=True, backend="aot_eager"), []
        for function in (layer, compiled):
            given, calls = leaves(qkv()), []
            torch.manual_seed(3)
            out = counted(calls, lambda: function(*given.values()))
            assert len(calls) == 1
            results.append((out, *torch.autograd.grad(out.pow(2).sum(), given.values())))
        assert all(torch.equal(one, other) for one, other in zip(*results))


def test_traced_exported_and_checkpointed():
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils.checkpoint import checkpoint

    query, key, value = qkv().values()
    gradient = torch.func.grad(lambda q: fovea.torch.attention(q, key, value).pow(2).sum())
    graph = make_fx(gradient)(query)
    assert "fovea.attention_backward" in graph.code
    close(graph(2 * query), gradient(2 * query), 1e-6)
    module, x = fovea.torch.MultiHeadAttention(16, 4, 0.5, query_size=D, key_size=D, value_size=D), query[:, 0]
    program = torch.export.export(module, (x, x, x)).run_decompositions()
    assert "fovea.attention" in str(program.graph)
    results = []
    for one in (module, program.module(), lambda *x: checkpoint(module, *x, use_reentrant=False)):
        torch.manual_seed(2)
        leaf = x.clone().requires_grad_()
        results.append(torch.autograd.grad(one(leaf, leaf, leaf).pow(2).sum(), leaf)[0])
    assert all(torch.equal(one, results[0]) for one in results)


@pytest.mark.parametrize("kind", PARAMETERS)
def test_gradients_by_torch_func(kind):
    given, exact = {**qkv(), **PARAMETERS[kind]}, {name: x.double() for name, x in {**qkv(), **PARAMETERS[kind]}.items()}
    ours, theirs = (lambda given: run(kind, given, {}).pow(2).sum()), (lambda given: by_hand(kind, given)[0].pow(2).sum())
    compare(torch.func.grad(ours)(given), torch.func.grad(theirs)(exact))

    squares = lambda function: lambda x: sum(y.pow(2).sum() for y in torch.func.grad(function)(x).values())  # noqa: E731
    compare(torch.func.grad(squares(ours))(given), torch.func.grad(squares(theirs))(exact), 1e-4)


@pytest.mark.parametrize("mix", ["alone", "mask and bias", "a bias for all", "all"])
@pytest.mark.parametrize("kind", ["dot", "additive", "gaussian"])
def test_gradients_of_samples(kind, mix):
    """vmap of grad: of each sample, for parameters that all share, too."""
    tensors, options, meant = MIXES[mix]
    shared = {**PARAMETERS[kind], **tensors}
    batches = {name: torch.stack([x, x.flip(0), 2 * x]) for name, x in qkv().items()}

    def samples(function, shared, batches):
        one = lambda shared, rows: function({**shared, **rows}).pow(2).sum()  # noqa: E731
        return torch.func.vmap(torch.func.grad(one, argnums=(0, 1)), (None, 0))(shared, batches)

    calls = []
    found = counted(calls, lambda: samples(lambda given: run(kind, given, options), shared, batches))
    exact = [{name: x.double() for name, x in one.items()} for one in (shared, batches)]
    wanted = samples(lambda given: by_hand(kind, given, **meant)[0], *exact)
    for one, other in zip(found, wanted):
        compare(one, other)
    if kind == "dot" and mix in ("alone", "mask and bias", "a bias for all"):
        assert len(calls) == 1


def test_vmap():
    query, key, value = (torch.stack([x, 2 * x, x.flip(2)]) for x in qkv().values())
    bias, lens, sinks = tensor(3, QUERIES, KEYS), torch.tensor([[1, 2], [3, 4], [5, 7]]), tensor(3, H)
    one = lambda q, k, v, b, n, s: fovea.torch.attention(q, k, v, bias=b, valid_lens=n, sinks=s, **ALL)  # noqa: E731
    for dims, given in (((0, 0, 0, 0, 0, 0), (query, key, value, bias, lens, sinks)),
                        ((0, None, None, 0, None, None), (query, key[0], value[0], bias, lens[0], None)),
                        ((1, 0, 0, None, 1, None), (query.movedim(0, 1), key, value, bias[0], lens.T, None)),
                        ((None, None, None, None, None, 0), (query[0], key[0], value[0], bias[0], None, sinks))):
        found = torch.func.vmap(one, dims)(*given)
        for n in range(3):
            alone = one(*(x if dim is None else x.select(dim, n) for x, dim in zip(given, dims)))
            for x, y in zip(found, alone):
                close(x[n], y, 1e-6)


def test_vmap_and_dropout():
    """Randomness as PyTorch has it: an error, the same, or different ones."""
    query, key, value = (x[None].expand(3, *x.shape) for x in qkv().values())
    one = lambda q, k, v: fovea.torch.attention(q, k, v, dropout=0.5)  # noqa: E731
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(one)(query, key, value)
    same = torch.func.vmap(one, randomness="same")(query, key, value)
    different = torch.func.vmap(one, randomness="different")(query, key, value)
    assert torch.equal(same[0], same[1]) and not torch.equal(different[0], different[1])


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


def test_pytorchs_function_by_torch_func():
    """Both ways round, and what only PyTorch has within them."""
    query, key, value = (torch.stack([x, 2 * x]) for x in qkv().values())
    ours = lambda *x: sdpa(*x, enable_gqa=True).pow(2).sum()  # noqa: E731
    theirs = lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, enable_gqa=True).pow(2).sum()  # noqa: E731
    calls = []
    found = counted(calls, lambda: torch.func.vmap(torch.func.grad(ours, (0, 1, 2)))(query, key, value))
    assert len(calls) == 1
    samples = [torch.func.grad(theirs, (0, 1, 2))(query[n], key[n], value[n]) for n in range(2)]
    wanted = [torch.stack(x) for x in zip(*samples)]
    around = torch.func.grad(lambda *x: torch.func.vmap(ours)(*x).sum(), (0, 1, 2))(query, key, value)
    for one, other, third in zip(found, wanted, around):
        close(one, other, 5e-5)
        close(third, other, 5e-5)
    double = torch.func.grad(lambda q: ours(q, key[0].double(), value[0].double()))(query[0].double())
    close(double, wanted[0][0], 5e-5)


def test_forward_derivatives_are_refused():
    query, key, value = qkv().values()
    one = lambda q: fovea.torch.attention(q, key, value)  # noqa: E731
    with pytest.raises(NotImplementedError, match="forward derivatives"):
        torch.func.jvp(one, (query,), (query,))
    with pytest.raises(NotImplementedError, match="forward derivatives"):
        torch.func.hessian(lambda q: one(q).sum())(query)
    with torch.autograd.forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match="forward derivatives"):
            one(torch.autograd.forward_ad.make_dual(query, query))
        close(one(query), one(query.clone()), 1e-6)
    exact = lambda q: by_hand("dot", {"query": q, "key": key.double(), "value": value.double()})[0][0, 0, 0]  # noqa: E731
    found, wanted = torch.func.jacrev(lambda q: one(q)[0, 0, 0])(query), torch.func.jacrev(exact)(query.double())
    compare({"jacobian": found}, {"jacobian": wanted})


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
