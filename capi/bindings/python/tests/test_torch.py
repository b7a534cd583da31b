"""PyTorch: tensors in and out, the custom operators, layers of its own."""
import gc
import threading

import pytest
from reference import close, random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


def tensors(*shapes):
    return [torch.from_numpy(random(*shape, seed=n)) for n, shape in enumerate(shapes)]


Q, K, V = tensors((2, 4, 5, 16), (2, 4, 7, 16), (2, 4, 7, 12))
MASKS = {"none": None, "bool": torch.from_numpy(random(2, 1, 5, 7) > -0.5), "float": torch.from_numpy(random(5, 7)),
         "one head": torch.from_numpy(random(1, 1, 1, 7)), "one key": torch.from_numpy(random(5, 1))}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("function", [fovea.scaled_dot_product_attention, fovea.torch.scaled_dot_product_attention])
def test_the_same_as_pytorch(function, mask):
    out = function(Q, K, V, MASKS[mask])
    assert isinstance(out, torch.Tensor)
    close(out, sdpa(Q, K, V, MASKS[mask]), 1e-5)
    close(function(Q, K, V, is_causal=True, scale=0.3), sdpa(Q, K, V, is_causal=True, scale=0.3), 1e-5)
    close(function(Q, K[:, :2], V[:, :2], enable_gqa=True), sdpa(Q, K[:, :2], V[:, :2], enable_gqa=True), 1e-5)


def test_leading_axes_and_layouts():
    for shape in ((), (3,), (2, 3), (2, 2, 3)):
        q, k, v = tensors(shape + (5, 8), shape + (6, 8), shape + (6, 8))
        close(fovea.scaled_dot_product_attention(q, k, v), sdpa(q, k, v), 1e-5)
    inside = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (Q, K, V)]
    close(fovea.scaled_dot_product_attention(*inside), sdpa(*inside), 1e-5)


def test_plans_and_layers_give_tensors():
    run = fovea.plan(Q, K, V)
    assert isinstance(run(Q, K, V), torch.Tensor)
    close(run(Q, K, V), sdpa(Q, K, V), 1e-5)
    out, weights = fovea.attention(Q, K, V, return_weights=True)
    assert isinstance(weights, torch.Tensor)
    close(fovea.layer_norm(Q), torch.nn.functional.layer_norm(Q, (16,)), 1e-5)
    close(fovea.linear(Q[0], K[0, 0], activation="gelu"), torch.nn.functional.gelu(Q[0] @ K[0, 0].T), 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_run_makes_tensors_that_are_its_callers(dtype, monkeypatch):
    """Memory of our own as PyTorch's tensors: each a new one, freed with its tensor, whatever becomes of the plan."""
    made = []

    def counting(maker):
        def counted_maker(shape, like, *others):
            make, arguments = maker(shape, like, *others)
            return (lambda *given: made.append(1) or make(*given)), arguments
        return counted_maker

    monkeypatch.setattr(fovea.plans, "maker", counting(fovea.plans.maker))
    query, key, value = (x.to(dtype) for x in (Q, K, V))
    run = fovea.plan(query, key, value, return_weights=True)
    before = len(made)
    outs = [run(query * n, key, value) for n in range(4)]
    assert len(made) == before  # PyTorch's own function is slow to ask
    expected = [fovea.attention(query * n, key, value, return_weights=True) for n in range(4)]
    del run
    gc.collect()
    for found, wanted in zip(outs, expected):
        for ours, theirs in zip(found, wanted):
            assert type(ours) is torch.Tensor and torch.equal(ours, theirs)
            assert ours.stride() == theirs.stride() and ours.dtype == theirs.dtype and ours.data_ptr() % 64 == 0
    assert len({out.data_ptr() for out, _ in outs}) == 4
    thread = threading.Thread(target=outs.clear)  # freed there
    thread.start()
    thread.join()


def test_no_gradient_is_lost_in_silence():
    q = Q.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="no gradients"):
        fovea.attention(q, K, V)
    with torch.no_grad():
        close(fovea.attention(q, K, V), sdpa(Q, K, V), 1e-5)
    out = fovea.torch.scaled_dot_product_attention(q, K, V)
    out.pow(2).sum().backward()
    other = Q.clone().requires_grad_()
    sdpa(other, K, V).pow(2).sum().backward()
    close(q.grad, other.grad, 1e-5)


def test_other_types_are_pytorchs_or_refused():
    half = [x.double() for x in (Q, K, V)]
    close(fovea.torch.scaled_dot_product_attention(*half), sdpa(*half), 1e-12)
    close(torch.ops.fovea.sdpa(*half), sdpa(*half), 1e-12)
    with pytest.raises(fovea.BadDtype, match="query .*dtype"):
        fovea.attention(Q.long(), K, V)


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_half_precision(dtype, tolerance):
    half = [x.to(dtype) for x in (Q, K, V)]
    for mask in (None, MASKS["bool"], MASKS["float"].to(dtype)):
        wanted = sdpa(*(x.double() for x in half), mask.double() if mask is not None and mask.is_floating_point() else mask)
        for function in (fovea.scaled_dot_product_attention, fovea.torch.scaled_dot_product_attention):
            out = function(*half, mask)
            assert out.dtype == dtype
            close(out.double(), wanted, tolerance)
    base = fovea.Context(max_isa="base")  # where no products of bfloat16 are taken
    rounded = fovea.attention(*(x.float() for x in half), context=base).to(dtype)
    assert torch.equal(fovea.attention(*half, context=base), rounded)


def test_the_operator():
    torch.library.opcheck(torch.ops.fovea.sdpa, (Q, K, V, MASKS["float"], False, 0.5))
    torch.library.opcheck(torch.ops.fovea.sdpa, (Q, K, V), {"is_causal": True})
    torch.library.opcheck(torch.ops.fovea.sdpa, (Q.clone().requires_grad_(), K[:, :2], V[:, :2]))


def test_the_operator_is_compiled_around():
    """In one graph, which is what fullgraph insists on."""
    def layer(q, k, v):
        return fovea.torch.scaled_dot_product_attention(q * 2, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, -1) + 1

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        close(compiled(Q, K, V), sdpa(2 * Q, K, V, is_causal=True).transpose(1, 2).reshape(2, 5, -1) + 1, 1e-5)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 10, "vdim": 14}])
@pytest.mark.parametrize("bias", [True, False])
def test_from_torch(batch_first, sizes, bias):
    torch.manual_seed(1)
    module = torch.nn.MultiheadAttention(12, 4, bias=bias, batch_first=batch_first, **sizes).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    x, = tensors((2, 5, 12))
    key, value = tensors((2, 7, sizes.get("kdim", 12)), (2, 7, sizes.get("vdim", 12)))
    if not batch_first:
        x, key, value = (one.transpose(0, 1).contiguous() for one in (x, key, value))
    layer = fovea.MultiHeadAttention.from_torch(module)
    with torch.no_grad():
        wanted, wanted_weights = module(x, key, value)
        out, weights = layer(x, key, value, return_weights="average")
    close(out, wanted, 1e-4)
    close(weights, wanted_weights, 1e-4)
    with torch.no_grad():
        padding = torch.arange(7) >= torch.tensor([[3], [7]])
        close(layer(x, key, value, valid_lens=torch.tensor([3, 7])), module(x, key, value, key_padding_mask=padding)[0], 1e-4)


def test_from_torch_keeps_16_bits():
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    wide = fovea.MultiHeadAttention.from_torch(module)
    narrow = fovea.MultiHeadAttention.from_torch(module.bfloat16())
    x = torch.from_numpy(random(2, 5, 16)).bfloat16()
    with torch.no_grad():
        found = narrow(x)
        assert found.dtype == torch.bfloat16 and narrow.nbytes < wide.nbytes
        close(found.float(), module(x, x, x, need_weights=False)[0].float(), 3e-2)
    assert fovea.MultiHeadAttention.from_torch(module.double()).nbytes == wide.nbytes


def test_from_torch_refuses_what_it_would_not_compute():
    with pytest.raises(ValueError, match="add_bias_kv"):
        fovea.MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(4, 2, add_bias_kv=True))
    with pytest.raises(ValueError, match="eval"):
        fovea.MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(4, 2, dropout=0.5))
