"""fovea.torch.scaled_dot_product_attention beside PyTorch's: every shape and type it takes, what it refuses, and what PyTorch
does around a call."""
import threading

import numpy as np
import pytest
from reference import close, counted, random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402

theirs = torch.nn.functional.scaled_dot_product_attention
ours = fovea.torch.scaled_dot_product_attention


def tensors(*shapes):
    return [torch.from_numpy(random(*shape, seed=n)) for n, shape in enumerate(shapes)]


Q, K, V = tensors((2, 4, 5, 16), (2, 4, 7, 16), (2, 4, 7, 12))
SHAPES = {
    "alike": ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)),
    "one batch of keys": ((2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 6)),
    "one batch of queries": ((1, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)),
    "one batch of values": ((2, 4, 5, 8), (2, 4, 7, 8), (1, 4, 7, 6)),
    "one head of keys": ((2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 6)),
    "one head of queries": ((2, 1, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)),
    "rank 2": ((5, 8), (7, 8), (7, 6)),
    "rank 3": ((4, 5, 8), (4, 7, 8), (4, 7, 6)),
    "rank 3, one head": ((4, 5, 8), (1, 7, 8), (1, 7, 6)),
    "rank 5": ((3, 2, 4, 5, 8), (3, 2, 4, 7, 8), (3, 2, 4, 7, 6)),
    "rank 5, broadcast": ((3, 2, 4, 5, 8), (1, 2, 4, 7, 8), (3, 1, 4, 7, 6)),
    "ranks 4 and 3": ((2, 4, 5, 8), (4, 7, 8), (4, 7, 6)),
    "ranks 4 and 2": ((2, 4, 5, 8), (7, 8), (7, 6)),
    "ranks 3 and 4": ((4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)),
    "no queries": ((2, 4, 0, 8), (2, 4, 7, 8), (2, 4, 7, 6)),
    "no keys": ((2, 4, 5, 8), (2, 4, 0, 8), (2, 4, 0, 6)),
    "no batch": ((0, 4, 5, 8), (0, 4, 7, 8), (0, 4, 7, 6)),
    "1024 features": ((1, 1, 2, 1024), (1, 1, 3, 1024), (1, 1, 3, 1024)),
}
GROUPED = {
    "grouped": ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)),
    "grouped, rank 3": ((4, 5, 8), (2, 7, 8), (2, 7, 6)),
    "grouped, rank 5": ((3, 2, 4, 5, 8), (3, 2, 2, 7, 8), (3, 2, 2, 7, 6)),
    "grouped, one batch of keys": ((2, 4, 5, 8), (1, 2, 7, 8), (1, 2, 7, 6)),
    "not grouped": ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)),
}
PYTORCHS = {  # the library refuses them
    "1025 features": ((1, 2, 3, 1025), (1, 2, 4, 1025), (1, 2, 4, 8)),
    "1025 values": ((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 1025)),
    "no features": ((2, 4, 2, 0), (2, 4, 3, 0), (2, 4, 3, 8)),
}


@pytest.mark.parametrize("name", SHAPES | GROUPED)
def test_shapes(name):
    query, key, value = tensors(*(SHAPES | GROUPED)[name])
    options = {"enable_gqa": True} if name in GROUPED else {}
    rows = (query.shape[-2], key.shape[-2])
    wanted = theirs(query, key, value, **options)
    calls = []
    found = counted(calls, lambda: ours(query, key, value, **options))
    assert found.shape == wanted.shape and len(calls) == 1
    close(found, wanted, 1e-5)
    close(ours(query, key, value, is_causal=True, scale=0.3, **options),
          theirs(query, key, value, is_causal=True, scale=0.3, **options), 1e-5)
    mask = torch.from_numpy(random(*rows, seed=9))
    for one in (mask, mask > -0.5, mask[:1]):
        calls.clear()
        close(counted(calls, lambda: ours(query, key, value, one, **options)), theirs(query, key, value, one, **options), 1e-5)
        assert len(calls) == 1
    close(fovea.scaled_dot_product_attention(*(x.numpy() for x in (query, key, value)), mask.numpy(), **options),
          theirs(query, key, value, mask, **options), 1e-5)
    close(fovea.scaled_dot_product_attention(query, key, value, mask, **options),
          theirs(query, key, value, mask, **options), 1e-5)


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 1), (5, 7), (1, 1, 5, 7), (2, 1, 5, 7), (1, 4, 1, 7), (2, 4, 5, 7),
                                   (2, 1, 1, 1), (4, 5, 7), (3, 2, 4, 5, 7), (3, 1, 1, 5, 7), (1, 2, 1, 1, 7)])
@pytest.mark.parametrize("rank", [4, 5])
def test_masks(shape, rank):
    query, key, value = (x if rank == 4 else x.expand(3, *x.shape) for x in (Q, K, V))
    for mask in (torch.from_numpy(random(*shape)), torch.from_numpy(random(*shape)) > 0):
        same_or_same_error(query, key, value, mask)


@pytest.mark.parametrize("name", PYTORCHS)
def test_what_the_library_refuses_is_pytorchs(name):
    query, key, value = tensors(*PYTORCHS[name])
    close(ours(query, key, value), theirs(query, key, value), 1e-4)
    found = torch.ops.fovea.sdpa(query, key, value)
    close(found, theirs(query, key, value), 1e-4)
    compiled = torch.compile(lambda *given: ours(*given), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        close(compiled(query, key, value), theirs(query, key, value), 1e-4)


def same_or_same_error(*arguments, **options):
    try:
        wanted = theirs(*arguments, **options)
    except Exception as error:  # noqa: BLE001
        with pytest.raises(type(error)) as raised:
            ours(*arguments, **options)
        assert str(raised.value) == str(error)
        return
    found = ours(*arguments, **options)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape and found.device == wanted.device
    if wanted.device.type == "cpu":
        np.testing.assert_allclose(found.double().detach(), wanted.double().detach(), rtol=2e-2, atol=2e-2)


HALF = [x.bfloat16() for x in (Q, K, V)]
ODD = {
    "a head too many": lambda: (Q, K[:, :2], V[:, :2]),
    "heads that do not divide": lambda: (Q, K[:, :3], V[:, :3], None, 0.0, False, None, True),
    "heads of keys and values": lambda: (Q, K[:, :2], V, None, 0.0, False, None, True),
    "grouped, rank 2": lambda: (Q[0, 0], K[0, 0], V[0, 0], None, 0.0, False, None, True),
    "rank 1": lambda: (Q[0, 0, 0], K[0, 0, 0], V[0, 0, 0]),
    "features": lambda: (Q, V, V),
    "batches": lambda: (Q, K[:1].expand(3, -1, -1, -1), V[:1].expand(3, -1, -1, -1)),
    "element types": lambda: (Q, HALF[1], V),
    "integers": lambda: (Q.long(), K.long(), V.long()),
    "float64": lambda: (Q.double(), K.double(), V.double()),
    "complex": lambda: (Q.cfloat(), K.cfloat(), V.cfloat()),
    "arrays": lambda: (Q.numpy(), K, V),
    "a mask of integers": lambda: (Q, K, V, torch.ones(5, 7, dtype=torch.long)),
    "a mask of float64": lambda: (Q, K, V, torch.ones(5, 7, dtype=torch.float64)),
    "a mask of bfloat16": lambda: (Q, K, V, torch.ones(5, 7, dtype=torch.bfloat16)),
    "a mask of float32 of bfloat16": lambda: (*HALF, torch.ones(5, 7)),
    "a mask of float16 of bfloat16": lambda: (*HALF, torch.ones(5, 7).half()),
    "a mask of another size": lambda: (Q, K, V, torch.ones(5, 6)),
    "a mask beside causality": lambda: (Q, K, V, torch.ones(5, 7), 0.0, True),
    "a number as mask": lambda: (Q, K, V, torch.tensor(1.0)),
    "nothing attended": lambda: (Q, K, V, torch.zeros(5, 7, dtype=torch.bool)),
    "dropout of 2": lambda: (Q, K, V, None, 2.0),
    "a scale of 0": lambda: (Q, K, V, None, 0.0, False, 0.0),
    "a scale below 0": lambda: (Q, K, V, None, 0.0, False, -0.5),
    "a scale of NaN": lambda: (Q, K, V, None, 0.0, False, float("nan")),
    "a scale that is no number": lambda: (Q, K, V, None, 0.0, False, "x"),
    "meta": lambda: tuple(x.to("meta") for x in (Q, K, V)),
    "two devices": lambda: (Q, K.to("meta"), V),
    "negated views": lambda: (torch._neg_view(Q), torch._neg_view(K), torch._neg_view(V)),
    "turned": lambda: tuple(x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (Q, K, V)),
    "parameters": lambda: tuple(torch.nn.Parameter(x) for x in (Q, K, V)),
    "sparse": lambda: (Q.to_sparse(), K, V),
}


def by_name(arguments):
    """Positional arguments as the functions take them, scale and enable_gqa by name."""
    return arguments[:6], dict(zip(("scale", "enable_gqa"), arguments[6:]))


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments_and_errors(name):
    arguments, named = by_name(ODD[name]())
    same_or_same_error(*arguments, **named)


def test_values_that_there_are_not_are_not_read():
    """PyTorch's function reads past the end of fewer values than keys."""
    with pytest.raises(fovea.BadShape, match="value"):
        ours(Q, K, V[:, :, :6])


def test_nested_tensors_are_pytorchs():
    nested = torch.nested.nested_tensor([torch.ones(5, 4, 8), torch.ones(3, 4, 8)], layout=torch.jagged).transpose(1, 2)
    assert torch.equal(ours(nested, nested, nested).values(), theirs(nested, nested, nested).values())


def test_gradients_are_those_of_pytorch():
    given = [x.clone().requires_grad_() for x in (Q, K, V, MASK)]
    others = [x.clone().requires_grad_() for x in (Q, K, V, MASK)]
    ours(*given).pow(2).sum().backward()
    theirs(*others).pow(2).sum().backward()
    for one, other in zip(given, others):
        close(one.grad, other.grad, 1e-5)


MASK = torch.from_numpy(random(5, 7, seed=9))


@pytest.mark.parametrize("mask", [None, MASK, MASK > 0])
def test_gradients_of_the_operator(mask):
    def of(function):
        query, key, value = (x.clone().requires_grad_() for x in (Q, K[:, :2], V[:, :2]))
        out = function(query, key, value)
        return torch.autograd.grad(out.pow(2).sum(), (query, key, value))

    for one, other in zip(of(lambda *x: torch.ops.fovea.sdpa(*x, mask)), of(lambda *x: theirs(*x, mask, enable_gqa=True))):
        close(one, other, 1e-5)


def test_forward_derivatives_are_not_lost():
    from torch.autograd import forward_ad

    tangent = torch.ones_like(Q)
    wanted = (theirs((Q + 1e-3 * tangent).double(), K.double(), V.double()) -
              theirs((Q - 1e-3 * tangent).double(), K.double(), V.double())) / 2e-3
    with forward_ad.dual_level(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = ours(forward_ad.make_dual(Q, tangent), K, V)
        close(forward_ad.unpack_dual(out).tangent, wanted, 1e-3)
        with pytest.raises(RuntimeError, match="no gradients"):
            fovea.attention(forward_ad.make_dual(Q, tangent), K, V)
        close(fovea.attention(Q, K, V), theirs(Q, K, V), 1e-5)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _, found = torch.func.jvp(lambda q: ours(q, K, V), (Q,), (tangent,))
        close(found, wanted, 1e-3)
        close(torch.func.grad(lambda q: ours(q, K, V).sum())(Q), torch.func.grad(lambda q: theirs(q, K, V).sum())(Q), 1e-5)


@pytest.mark.parametrize("dims, mask, mask_dim", [
    ((0, 0, 0), None, None), ((0, None, None), None, None), ((1, 1, 1), None, None), ((0, 0, 0), (5, 7), None),
    ((0, 0, 0), (3, 5, 7), 0), ((None, 0, None), (2, 1, 5, 7), None), ((0, 0, 0), (3, 2, 1, 5, 7), 0),
    ((0, 0, 0), (5, 3, 7), 1),
    ((2, 2, 2), (3, 4, 5, 7), 0), ((0, 0, 0), (3, 1, 1, 1, 7), 0)])
def test_vmap(dims, mask, mask_dim):
    """By the operator's rule: one call of the library for all of the batch."""
    wide = [torch.from_numpy(random(3, *x.shape, seed=n)) for n, x in enumerate((Q, K, V))]
    given = [x.movedim(0, dim) if dim is not None else x[0] for x, dim in zip(wide, dims)]
    mask = None if mask is None else torch.from_numpy(random(*mask))
    for one in [None] if mask is None else [mask, mask > 0]:
        calls = []
        found = counted(calls, lambda: torch.func.vmap(lambda *x: ours(*x), (*dims, mask_dim))(*given, one))
        assert len(calls) == 1
        close(found, torch.func.vmap(lambda *x: theirs(*x), (*dims, mask_dim))(*given, one), 1e-5)
    twice = torch.func.vmap(torch.func.vmap(ours))
    close(twice(*(x.movedim(0, 1) for x in wide)), twice_theirs(wide), 1e-5)


def twice_theirs(wide):
    return torch.stack([torch.stack([theirs(*(x[n, b] for x in wide)) for n in range(3)]) for b in range(2)])


def test_compiled():
    """One graph for the shapes that broadcast, too, and dynamic ones."""
    with torch.no_grad():
        for name in ("alike", "one batch of keys", "one head of keys", "rank 3", "rank 5, broadcast", "grouped"):
            torch._dynamo.reset()
            compiled = torch.compile(lambda *given, **named: ours(*given, **named) + 1, fullgraph=True, backend="aot_eager",
                                     dynamic=True)
            query, key, value = tensors(*(SHAPES | GROUPED)[name])
            grouped = name == "grouped"
            for mask in (None, MASK, MASK > 0):
                calls = []
                found = counted(calls, lambda: compiled(query, key, value, mask, enable_gqa=grouped))
                assert len(calls) == 1, name
                close(found, theirs(query, key, value, mask, enable_gqa=grouped) + 1, 1e-5)


def test_exported():
    class Layer(torch.nn.Module):
        def forward(self, query, key, value):
            return ours(query, key, value)

    with torch.no_grad():
        program = torch.export.export(Layer(), (Q, K, V))
        assert "fovea.sdpa" in str(program.graph)
        close(program.module()(Q, K, V), theirs(Q, K, V), 1e-5)


def test_what_watches_calls_sees_the_operator():
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch._subclasses import FakeTensorMode

    with torch.no_grad():
        graph = make_fx(lambda *given: ours(*given))(Q, K, V)
        assert "fovea.sdpa" in graph.code
        close(graph(Q * 2, K, V), theirs(Q * 2, K, V), 1e-5)
        with FakeTensorMode() as mode:
            fake = ours(*(mode.from_tensor(x) for x in (Q, K, V)))
            assert fake.shape == (2, 4, 5, 12) and fake.dtype == torch.float32


def test_tensors_of_other_classes_are_pytorchs():
    seen = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs)

    found = ours(Q.as_subclass(Mine), K, V)
    assert theirs in seen and type(found) is Mine
    close(found.as_subclass(torch.Tensor), theirs(Q, K, V), 1e-5)


def test_many_threads():
    wanted, wrong = ours(Q, K, V), []

    def work():
        for _ in range(50):
            if not torch.equal(ours(Q, K, V), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
