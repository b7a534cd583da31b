"""The operators under PyTorch's transforms: torch.compile, export, checkpoints, torch.func and vmap."""
import pytest
from reference import close, counted
from torch_by_hand import (ALL, D, H, KEYS, MIXES, PARAMETERS, QUERIES, REACHING, by_hand, compare, gradients, leaves, qkv,
                           run, tensor)

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402
from fovea.options import KEPT  # noqa: E402
from fovea.torch.operators import ARGUMENTS, DEFAULTS, DIFFERENTIABLE, OF_BACKWARD  # noqa: E402

sdpa = fovea.torch.scaled_dot_product_attention


def arguments(kind="dot", mix="alone", **others):
    tensors, options, _ = MIXES[mix]
    return {**qkv(), **PARAMETERS[kind], "score": kind, **tensors, **options, **others}


@pytest.mark.parametrize("kind, mix, others", [
    ("dot", "all", {"return_weights": True}), ("additive", "lengths", {}), ("gaussian", "offsets", {}),
    ("additive", "lengths", {"keep_projections": True}), ("concat", "alone", {"keep_projections": True}),
    ("bilinear", "windows", {}), ("dot", "alone", {"dropout": 0.5, "dropout_seed": torch.tensor(3)})])
def test_the_operators(kind, mix, others):
    given = arguments(kind, mix, **others)
    given |= leaves({name: given[name] for name in DIFFERENTIABLE if name in given})
    taken = tuple(given.get(name, DEFAULTS[name]) for name in ARGUMENTS)
    torch.library.opcheck(torch.ops.fovea.attention, taken)
    out, log_sum_exp, _, *projected = (x.detach() for x in torch.ops.fovea.attention(*taken))
    call = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in (DEFAULTS | given).items()}
    call |= {"grad_out": REACHING["out"], "grad_log_sum_exp": None, "grad_weights": None, "out": out}
    call |= {"log_sum_exp": log_sum_exp, "wanted": [name in given for name in DIFFERENTIABLE], **dict(zip(KEPT, projected))}
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
