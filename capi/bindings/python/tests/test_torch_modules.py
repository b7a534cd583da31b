"""Modules that train by fovea, beside the same written in plain PyTorch: results, weights, steps of an optimizer."""
import copy
import io
import pathlib

import pytest
from reference import close, counted, random

torch = pytest.importorskip("torch")

import fovea.torch  # noqa: E402

nn = torch.nn
B, QUERIES, KEYS = 3, 5, 7
LENS = torch.tensor([2, 7, 5])


def tensor(*shape, seed=1):
    return torch.from_numpy(random(*shape, seed=seed))


QUERIES_8, KEYS_6, KEYS_8, VALUES_4 = tensor(B, QUERIES, 8), tensor(B, KEYS, 6), tensor(B, KEYS, 8, seed=2), tensor(B, KEYS, 4)


def masked_weights(scores, valid_lens):
    if valid_lens is not None:
        lens = valid_lens[:, None, None] if valid_lens.dim() == 1 else valid_lens[:, :, None]
        scores = scores.masked_fill(torch.arange(scores.shape[-1]) >= lens, -torch.inf)
    return scores.softmax(-1)


class PlainDot(nn.Module):
    def forward(self, queries, keys, values, valid_lens=None):
        self.weights = masked_weights(queries @ keys.mT / queries.shape[-1] ** 0.5, valid_lens)
        return self.weights @ values


class PlainAdditive(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.w_v = (nn.Linear(*sizes, bias=False) for sizes in ((8, 16), (6, 16), (16, 1)))

    def forward(self, queries, keys, values, valid_lens=None):
        units = torch.tanh(self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None])
        self.weights = masked_weights(self.w_v(units).squeeze(-1), valid_lens)
        return self.weights @ values


class PlainMultiHead(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(size, 12, bias=bias) for size in (8, 6, 4, 12))

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = (x.unflatten(-1, (3, 4)).transpose(1, 2) for x in (self.W_q(queries), self.W_k(keys), self.W_v(values)))
        lens = None if valid_lens is None else valid_lens.repeat_interleave(3, 0)
        self.weights = masked_weights((q @ k.mT / 2).flatten(0, 1), lens).unflatten(0, (-1, 3))
        return self.W_o((self.weights @ v).transpose(1, 2).flatten(2))


class PlainRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(1))

    def forward(self, queries, keys, values, valid_lens=None):
        distances = (queries[:, :, None] - keys[:, None]).square().sum(-1)
        self.weights = masked_weights(-distances * self.w**2 / 2, valid_lens)
        return self.weights @ values


MODULES = {
    "dot": (lambda: fovea.torch.DotProductAttention(0.0), PlainDot, (QUERIES_8, KEYS_8, VALUES_4)),
    "additive": (lambda: fovea.torch.AdditiveAttention(16, 0.0), PlainAdditive, (QUERIES_8, KEYS_6, VALUES_4)),
    "multi-head": (lambda: fovea.torch.MultiHeadAttention(12, 3, 0.0), PlainMultiHead, (QUERIES_8, KEYS_6, VALUES_4)),
    "multi-head, bias": (lambda: fovea.torch.MultiHeadAttention(12, 3, 0.0, bias=True), lambda: PlainMultiHead(True),
                         (QUERIES_8, KEYS_6, VALUES_4)),
    "regression": (fovea.torch.NadarayaWatson, PlainRegression, (QUERIES_8, KEYS_8, VALUES_4)),
}


def pair(name):
    make, plain, given = MODULES[name]
    torch.manual_seed(1)
    ours, theirs = make(), plain()
    ours(*given)  # which has it know its sizes
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs, given


@pytest.mark.parametrize("lens", [None, LENS, LENS[:, None] - torch.arange(QUERIES) % 2])
@pytest.mark.parametrize("name", MODULES)
def test_the_same_as_in_plain_pytorch(name, lens):
    ours, theirs, given = pair(name)
    given = [x.clone().requires_grad_() for x in given]
    found, wanted = ours(*given, lens), theirs(*given, lens)
    close(found.detach(), wanted.detach(), 2e-5)
    assert ours.attention_weights is None
    names = [name for name, _ in theirs.named_parameters()]
    gradients = [torch.autograd.grad(out.pow(2).sum(), [*given, *map(module.get_parameter, names)])
                 for out, module in ((found, ours), (wanted, theirs))]
    for one, other in zip(*gradients):
        close(one, other, 1e-4)
    ours.keep_weights = True
    close(ours(*given, lens).detach(), wanted.detach(), 2e-5)
    assert not ours.attention_weights.requires_grad
    close(ours.attention_weights, theirs.weights.detach(), 1e-5)


@pytest.mark.parametrize("name", MODULES)
def test_steps_of_an_optimizer(name):
    """A layer behind the dot product, which has no parameters, learns, too."""
    ours, theirs, (queries, keys, values) = pair(name)
    target, losses = tensor(B, QUERIES, 12 if "multi" in name else 4, seed=9), []
    first = nn.Linear(8, 8)
    for module in (ours, theirs):
        before = copy.deepcopy(first)
        optimizer = torch.optim.SGD([*before.parameters(), *module.parameters()], lr=0.05)
        losses.append([])
        for _ in range(8):
            optimizer.zero_grad()
            calls = []
            out = counted(calls, lambda: module(before(queries), keys, values, LENS))
            loss = (out - target).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0][-1] < losses[0][0] - 1e-3
    close(losses[0], losses[1], 1e-4)
    for key, one in theirs.state_dict().items():
        close(ours.state_dict()[key], one, 1e-4)


def test_names_and_sizes():
    def sizes(module):
        return {name: tuple(x.shape) for name, x in module.state_dict().items()}

    assert sizes(fovea.torch.DotProductAttention(0.1)) == {}
    additive = {"W_q.weight": (16, 8), "W_k.weight": (16, 6), "w_v.weight": (1, 16)}
    assert sizes(fovea.torch.AdditiveAttention(16, 0.1, 8, 6)) == additive
    lazy = fovea.torch.AdditiveAttention(16, 0.1)
    assert isinstance(lazy.W_q, nn.LazyLinear)
    lazy(QUERIES_8, KEYS_6, VALUES_4)
    assert sizes(lazy) == additive and type(lazy.W_q) is nn.Linear
    sized = fovea.torch.MultiHeadAttention(12, 3, 0.1, True, query_size=8, key_size=6, value_size=4)
    weights = {"W_q": (12, 8), "W_k": (12, 6), "W_v": (12, 4), "W_o": (12, 12)}
    biases = {f"{name}.bias": (12,) for name in weights}
    assert sizes(sized) == {f"{name}.weight": size for name, size in weights.items()} | biases
    assert sizes(fovea.torch.NadarayaWatson()) == {"w": (1,)}
    with pytest.raises(ValueError, match="num_heads is 5, expected a divisor"):
        fovea.torch.MultiHeadAttention(12, 5, 0.1)
    with pytest.raises(ValueError, match="dropout is 1"):
        fovea.torch.DotProductAttention(1)


@pytest.mark.parametrize("name", ["dot", "additive", "multi-head"])
def test_dropout_in_training_alone(name):
    module, _, given = pair(name)
    module.dropout, module.keep_weights = 0.5, True
    outs = []
    for n in (3, 3, 4):
        torch.manual_seed(n)
        outs.append(module(*given, LENS).detach())
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    dropped = module.attention_weights
    module.eval()
    plain = module(*given, LENS)
    assert torch.equal(plain, module(*given, LENS))
    kept = dropped != 0
    assert 0.2 < kept[module.attention_weights > 0].double().mean() < 0.8
    close(dropped[kept], 2 * module.attention_weights[kept], 1e-5)


@pytest.mark.parametrize("name", MODULES)
def test_copied_saved_and_compiled(name):
    module, _, given = pair(name)
    wanted = module(*given, LENS)
    assert torch.equal(copy.deepcopy(module)(*given, LENS), wanted)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(*given, LENS), wanted)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given, LENS), wanted)


def test_bfloat16_and_autocast():
    for name in MODULES:
        module, _, given = pair(name)
        wanted = module(*given, LENS)
        found = copy.deepcopy(module).bfloat16()(*(x.bfloat16() for x in given), LENS)
        assert found.dtype == torch.bfloat16
        close(found.float().detach(), wanted.detach(), 5e-2)
    with torch.autocast("cpu", torch.bfloat16):
        module, _, given = pair("multi-head")
        out = module(*given, LENS)
        assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert module.W_q.weight.grad.dtype == torch.float32


def test_causal_and_scale():
    x = tensor(B, QUERIES, 8)
    keep = torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()
    found = fovea.torch.DotProductAttention(scale=0.2)(x, x, x, is_causal=True)
    close(found, (x @ x.mT * 0.2).masked_fill(~keep, -torch.inf).softmax(-1) @ x, 1e-5)
    module = fovea.torch.MultiHeadAttention(12, 3)
    close(module(x, x, x, is_causal=True).detach(), module(x, x, x, torch.arange(1, QUERIES + 1).expand(B, -1)).detach(), 1e-5)
    heads = tensor(B, 2, QUERIES, 8)
    close(fovea.torch.DotProductAttention()(heads, heads, heads), fovea.torch.attention(heads, heads, heads), 1e-6)


def test_regression_of_numbers():
    """As the textbook has them: [Q] and [K], or keys of each query's own [Q, K]; leave_one_out on its own points."""
    x, y = tensor(20), tensor(20, seed=2)
    module = fovea.torch.NadarayaWatson()
    scores = -((x[:, None] - x) * module.w).square() / 2
    close(module(x, x, y).detach(), (scores.softmax(-1) @ y).detach(), 1e-5)
    others = ~torch.eye(20, dtype=torch.bool)
    wanted = scores.masked_fill(~others, -torch.inf).softmax(-1) @ y
    close(module(x, x, y, leave_one_out=True).detach(), wanted.detach(), 1e-5)
    own = (z.expand(20, 20)[others].view(20, 19) for z in (x, y))
    found = module(x, *own)
    close(found.detach(), wanted.detach(), 1e-5)
    close(torch.autograd.grad(found.sum(), module.w)[0], torch.autograd.grad(wanted.sum(), module.w)[0], 1e-4)
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=0.5), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (module(x, x, torch.sin(x), leave_one_out=True) - torch.sin(x)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    with torch.no_grad():
        module.w.neg_()
    close(module(x, x, y).detach(), ((-((x[:, None] - x) * module.w).square() / 2).softmax(-1) @ y).detach(), 1e-5)


def test_what_the_readme_shows():
    readme = (pathlib.Path(__file__).resolve().parents[1] / "README.md").read_text()
    program = next(part for part in readme.split("```") if part.startswith("py\n") and "AdditiveAttention" in part)[3:]
    query = tensor(B, 2, QUERIES, 8).requires_grad_()
    given = {"fovea": fovea, "query": query, "key": tensor(B, 2, KEYS, 8), "value": tensor(B, 2, KEYS, 4), "lengths": LENS,
             "sigmas": torch.ones(2, requires_grad=True), "queries": QUERIES_8, "keys": KEYS_6, "values": VALUES_4,
             "valid_lens": LENS}
    exec(program, given)
    assert given["sigmas"].grad.any() and query.grad.any() and given["out"].shape == (B, QUERIES, 4)
