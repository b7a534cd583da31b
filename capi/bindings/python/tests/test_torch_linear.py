"""Packed linear layers: whatever is done to a weight, the next call computes with what it holds then."""
import copy
import gc
import io
import pickle
import threading
import weakref

import numpy as np
import pytest
from reference import close, random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402

X = torch.from_numpy(random(6, 12))
D = torch.from_numpy(random(20, 12, seed=4))


def layers(**options):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(12, 20, **options), torch.nn.GELU(), torch.nn.Linear(20, 8, bias=False)).eval()


def packed_layers(**options):
    """With weights that are packed already."""
    model = fovea.torch.pack_linear_layers(layers(**options))
    with torch.no_grad():
        model(X)
    assert is_packed(model)
    return model


def is_packed(model):
    return model[0]._packed is not None


def plain(model, x=X):
    """What a torch.nn.Linear gives of the weights as they are, in float64."""
    weight, bias = (dict.get(model[0].__dict__["_parameters"], name) for name in ("weight", "bias"))  # which is not noticed
    return torch.nn.functional.linear(x.double(), weight.detach().double(), None if bias is None else bias.detach().double())


def check(model, calls=3):
    """Each call is right, before it packs, while it does and after."""
    dtype = dict.get(model[0].__dict__["_parameters"], "weight").dtype
    with torch.no_grad():
        for _ in range(calls):
            close(model[0](X.to(dtype)).double(), plain(model), 1e-4 if dtype == torch.float32 else 5e-2)


def test_packed_linear_layers_are_the_models_own():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 8, bias=False)).eval()
    names, packed = list(model.state_dict()), fovea.torch.pack_linear_layers(copy.deepcopy(model))
    assert list(packed.state_dict()) == names and isinstance(packed[0], torch.nn.Linear)
    with torch.no_grad():
        for shape in ((12,), (3, 12), (2, 3, 12), (2, 0, 12), (2, 1, 3, 12)):
            x = torch.from_numpy(random(*shape))
            close(packed(x), model(x), 1e-5)
            assert packed(x).shape == model(x).shape
        turned = torch.from_numpy(random(12, 3)).T
        close(packed(turned), model(turned), 1e-5)
        assert is_packed(packed)
        packed[0].weight.mul_(2)
        model[0].weight.mul_(2)
        close(packed(turned), model(turned), 1e-5)
        for other in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
            assert not is_packed(other)
            close(other(turned), model(turned), 1e-5)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            packed(torch.zeros(3, 11))
    with torch.inference_mode():
        close(packed(turned), model(turned), 1e-5)


def test_packed_linear_layers_leave_to_pytorch_what_is_not_theirs():
    layer = fovea.torch.pack_linear_layers(torch.nn.Sequential(torch.nn.Linear(4, 3)))
    layer(torch.ones(2, 4)).sum().backward()
    assert layer[0].weight.grad is not None and not is_packed(layer)
    with torch.no_grad():
        assert layer.double()(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64
        half = layer.bfloat16()(torch.ones(2, 4, dtype=torch.bfloat16))  # the library's to take or to leave
        assert half.dtype == torch.bfloat16
        close(half.float(), layer.float()(torch.ones(2, 4)), 2e-2)
    attention = torch.nn.MultiheadAttention(8, 2)
    assert type(fovea.torch.pack_linear_layers(attention).out_proj) is type(torch.nn.MultiheadAttention(8, 2).out_proj)


def no_grad(change):
    def changed(model):
        with torch.no_grad():
            return change(model[0].weight)

    return changed


def of_optimizer(kind):
    def step(model):
        optimizer = kind(model.parameters(), lr=0.1)
        model(X).pow(2).sum().backward()
        optimizer.step()
        return optimizer

    return step


def new_data(model):
    model[0].weight.data = D.clone()


def add_to_data(model):
    model[0].weight.data += D


def add_to_data_of_all(model):
    for parameter in model.parameters():
        parameter.data += 1


def load(model):
    model.load_state_dict(layers_of(3).state_dict())


def load_and_assign(model):
    model.load_state_dict(layers_of(3).state_dict(), assign=True)


def layers_of(seed):
    other = layers()
    with torch.no_grad():
        for n, parameter in enumerate(other.parameters()):
            parameter.copy_(torch.from_numpy(random(*parameter.shape, seed=seed + n)))
    return other


def through_an_array(model):
    model[0].weight.detach().numpy()[:] = 1.5


def through_dlpack(model):
    torch.from_dlpack(model[0].weight.detach()).fill_(2.5)


def through_a_view(model):
    with torch.no_grad():
        model[0].weight[3].zero_()
        model[0].weight.T[:, 1] = 7


def through_storage(model):
    torch.empty(0).set_(model[0].weight.untyped_storage(), 0, (240,)).fill_(0.25)


def new_parameter(model):
    model[0].weight = torch.nn.Parameter(D.clone())


def swapped(model):
    torch.utils.swap_tensors(model[0].weight, torch.nn.Parameter(D.clone()))


def moving_average(model):
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(layers_of(3))
    average.update_parameters(layers_of(5))
    for own, other in zip(model.parameters(), average.module.parameters()):
        own.data.copy_(other.data)


def merged_adapter(model):
    layer, a, b = model[0], torch.ones(2, 12), torch.ones(20, 2)
    layer.weight.data = layer.weight.data + b @ a


def from_vector(model):
    torch.nn.utils.vector_to_parameters(torch.linspace(-1, 1, 260 + 160), model.parameters())


def of_foreach(model):
    torch._foreach_mul_([p.data for p in model.parameters()], 2.0)


WAYS = {
    "add_": no_grad(lambda w: w.add_(D)), "copy_": no_grad(lambda w: w.copy_(D)),
    "mul_ of detach": lambda m: m[0].weight.detach().mul_(2),
    "data +=": add_to_data, "data =": new_data, "all data +=": add_to_data_of_all, "load_state_dict": load,
    "load_state_dict, assign": load_and_assign, "an array": through_an_array, "DLPack": through_dlpack, "a view": through_a_view,
    "storage": through_storage, "a new parameter": new_parameter, "swap_tensors": swapped, "a moving average": moving_average,
    "a merged adapter": merged_adapter, "a vector": from_vector, "foreach": of_foreach,
    "SGD": lambda m: of_optimizer(torch.optim.SGD)(m), "Adam": lambda m: of_optimizer(torch.optim.Adam)(m),
    "init": lambda m: torch.nn.init.normal_(m[0].weight), "reset_parameters": lambda m: m[0].reset_parameters(),
    "apply": lambda m: m.apply(lambda x: x.weight.data.zero_() if hasattr(x, "weight") else None),
    "bfloat16": lambda m: m.bfloat16(), "and back": lambda m: m.bfloat16().float(),
    "to": lambda m: m.to(torch.float16),
    "state_dict": lambda m: m.state_dict()["0.weight"].fill_(0.5),
    "get_parameter": lambda m: m.get_parameter("0.weight").data.fill_(3),
    "_parameters": lambda m: m[0]._parameters["weight"].data.fill_(3),
    "a copy of _parameters": lambda m: dict(m[0]._parameters)["weight"].data.fill_(3),
    "unpacked _parameters": lambda m: {**m[0]._parameters}["weight"].data.fill_(3),
    "joined _parameters": lambda m: (m[0]._parameters | {})["weight"].data.fill_(3),
    "vars": lambda m: [p.data.fill_(3) for p in vars(m[0])["_parameters"].values()],
    "share_memory": lambda m: m.share_memory(),
    "functional_call": lambda m: torch.func.functional_call(m, {"0.weight": D}, (X,)),
}


@pytest.mark.parametrize("name", WAYS)
def test_every_way_of_writing(name):
    model = packed_layers()
    WAYS[name](model)
    gc.collect()
    check(model)
    assert is_packed(model) == (name not in ("share_memory", "a vector"))  # to which others may write at any time
    WAYS[name](model)  # and again
    check(model)


HOLDERS = {
    "the parameter": lambda m: m[0].weight, "its data": lambda m: m[0].weight.data,
    "detach": lambda m: m[0].weight.detach(), "an array": lambda m: m[0].weight.detach().numpy(),
    "a view": lambda m: m[0].weight[2:], "transposed": lambda m: m[0].weight.T,
    "storage": lambda m: m[0].weight.untyped_storage(), "all": lambda m: list(m.parameters()),
    "names": lambda m: m.state_dict(),
    "values": lambda m: m[0]._parameters.values(), "items": lambda m: m[0]._parameters.items(),
    "an optimizer": lambda m: torch.optim.SGD(m.parameters(), lr=1.0), "a weak reference": lambda m: weakref.ref(m[0].weight),
    "a tied layer": lambda m: torch.nn.Embedding(20, 12, _weight=m[0].weight),
    "a list of data": lambda m: [p.data for p in m.parameters()],
    "a generator": lambda m: begun(m.parameters()),
}


def begun(generator):
    next(generator)
    return generator


def weight_of(held):
    """A tensor that shares the weight's memory, from what is held of it."""
    if isinstance(held, weakref.ref):
        held = held()
    if isinstance(held, torch.optim.Optimizer):
        held = held.param_groups[0]["params"][0]
    if isinstance(held, torch.nn.Embedding):
        held = held.weight
    if isinstance(held, dict):
        held = held["0.weight"]
    if isinstance(held, list):
        held = held[0][1] if isinstance(held[0], tuple) else held[0]
    if isinstance(held, torch.UntypedStorage):
        return torch.empty(0).set_(held, 0, (240,))
    return torch.from_numpy(held) if isinstance(held, np.ndarray) else held.detach()


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_is_written_to_between_calls(name):
    model = packed_layers()
    held = HOLDERS[name](model)
    for n in range(3):
        check(model, 2)
        if name != "a generator":
            weight_of(held).add_(n + 1.0)
        check(model, 2)
    assert not is_packed(model)
    del held
    gc.collect()
    check(model, 3)
    assert is_packed(model)


def test_a_weight_over_an_array():
    """What lies in an array of the user's gets memory of its own when it is packed; one that comes later is PyTorch's."""
    array, later = random(20, 12), random(20, 12, seed=7)
    model = layers()
    model[0].weight = torch.nn.Parameter(torch.from_numpy(array))
    fovea.torch.pack_linear_layers(model)
    check(model)
    assert is_packed(model)
    array[:] = 3
    check(model)
    assert float(model[0].weight.detach().max()) != 3
    model[0].weight = torch.nn.Parameter(torch.from_numpy(later))
    check(model)
    later[:] = 4
    check(model)
    assert float(model[0].weight.detach().min()) == 4 and not is_packed(model)
    check(fovea.torch.pack_linear_layers(model))
    assert is_packed(model)


def test_weights_in_shared_storage():
    """Views of one tensor, of which others know."""
    both = torch.from_numpy(random(40, 12))
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Linear(20, 12))
    model[0].weight = torch.nn.Parameter(both[:20])
    fovea.torch.pack_linear_layers(model)
    check(model)
    both.mul_(3)
    check(model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)),
                                    lambda m: torch.load(saved(m), weights_only=False)])
def test_copies(copied):
    """Of a model: each with weights, and a packing, of its own."""
    model = packed_layers()
    names = list(layers().state_dict())
    other = fovea.torch.pack_linear_layers(copied(model))  # torch.load's weights lie in the file's memory
    assert list(other.state_dict()) == names and type(other[0]) is fovea.torch.PackedLinear
    check(other)
    check(model)
    assert is_packed(model) and is_packed(other)
    other[0].weight.data += 1
    check(other)
    check(model)


def test_a_shallow_copy_shares_weights():
    layer = packed_layers()[0]
    other = copy.copy(layer)
    with torch.no_grad():
        for _ in range(3):
            close(other(X), plain([layer]), 1e-4)
            other.weight.data += 1
            close(layer(X), plain([layer]), 1e-4)


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return file


def test_state_dicts_go_both_ways():
    model, other = packed_layers(), layers_of(3)
    assert list(model.state_dict()) == list(other.state_dict())
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        close(other(X), model(X), 1e-5)


def test_parametrizations():
    from torch.nn.utils import parametrizations, parametrize, prune

    class Doubled(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    for before in (True, False):
        model = layers()
        if not before:
            fovea.torch.pack_linear_layers(model)
        parametrize.register_parametrization(model[0], "weight", Doubled())
        if before:
            fovea.torch.pack_linear_layers(model)
        with torch.no_grad():
            for _ in range(2):
                close(model[0](X), torch.nn.functional.linear(X, 2 * model[0].parametrizations.weight.original, model[0].bias), 1e-5)
                model[0].parametrizations.weight.original.data += 1
        parametrize.remove_parametrizations(model[0], "weight")
        check(model)
    model = packed_layers()
    parametrizations.weight_norm(model[0])
    prune.l1_unstructured(model[2], "weight", 0.5)
    with torch.no_grad():
        for _ in range(3):
            close(model[0](X), torch.nn.functional.linear(X, model[0].weight, model[0].bias), 1e-5)
            inner = torch.nn.functional.gelu(model[0](X))
            close(model(X), torch.nn.functional.linear(inner, model[2].weight), 1e-5)
            model[0].parametrizations.weight.original0.data *= 2
            model[2].weight_orig.data *= 2


def test_tied_weights():
    """A weight that an embedding has, too, can be written to through that: it is PyTorch's."""
    model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(20, 12), "head": torch.nn.Linear(12, 20, bias=False)})
    model["head"].weight = model["embedding"].weight
    fovea.torch.pack_linear_layers(model)
    with torch.no_grad():
        for _ in range(3):
            close(model["head"](X), X @ model["embedding"].weight.T, 1e-5)
            model["embedding"].weight.data += 1
    assert model["head"].weight is model["embedding"].weight and model["head"]._packed is None


def test_a_layer_in_two_places_is_one_layer():
    layer = torch.nn.Linear(12, 12)
    layer.register_forward_hook(lambda module, given, out: out + 100)
    model = fovea.torch.pack_linear_layers(torch.nn.ModuleList([layer, layer]))
    assert model[0] is model[1] is layer and type(layer) is fovea.torch.PackedLinear
    with torch.no_grad():
        assert float(model[0](X).min()) > 50  # hooks stay
    assert type(fovea.torch.pack_linear_layers(torch.nn.Linear(3, 4))) is fovea.torch.PackedLinear


def test_unpacking():
    model = packed_layers()
    wanted = model(X)
    assert type(fovea.torch.unpack_linear_layers(model)[0]) is torch.nn.Linear
    assert type(model[0]._parameters) is dict and "_packed" not in vars(model[0])
    close(model(X).detach(), wanted.detach(), 1e-5)


def test_gradients_and_modes():
    model = packed_layers()
    model(X).sum().backward()
    assert model[0].weight.grad is not None
    with torch.inference_mode():
        check(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert model[0](X).dtype == torch.bfloat16
    with torch.no_grad():
        close(torch.func.vmap(model)(X[:, None]), model(X)[:, None], 1e-5)
    _, tangent = torch.func.jvp(model[0], (X,), (X,))
    close(tangent.detach(), (X @ model[0].weight.T).detach(), 1e-4)
    gradients = torch.func.grad(lambda p: torch.func.functional_call(model, p, (X,)).sum())(dict(model.named_parameters()))
    assert gradients["0.weight"].abs().sum() > 0
    frozen = packed_layers()
    frozen.requires_grad_(False)
    with torch.enable_grad():
        x = X.clone().requires_grad_()
        frozen(x).sum().backward()
        assert x.grad is not None
        check(frozen)


def test_compiled_layers():
    torch._dynamo.reset()
    model = packed_layers()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        close(compiled(X), model(X), 1e-5)
        model[0].weight.data += 1
        close(compiled(X), model(X), 1e-5)
        check(model)


def test_a_weight_is_packed_once_unless_it_is_asked_for(monkeypatch):
    packings = []
    real = fovea.torch.linear.PackedMatrix
    monkeypatch.setattr(fovea.torch.linear, "PackedMatrix", lambda *a, **b: packings.append(1) or real(*a, **b))
    model = fovea.torch.pack_linear_layers(layers())
    with torch.no_grad():
        for _ in range(5):
            model(X)
        assert len(packings) == 2
        for _ in range(5):
            assert model[0].weight.dtype == torch.float32  # as models do between calls: no packing for each
            model(X)
        assert len(packings) == 2
        model(X)
        assert len(packings) == 3


def test_many_threads_call_and_write():
    model, stop = packed_layers(), threading.Event()

    def call():
        with torch.no_grad():
            while not stop.is_set():
                model(X)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        model[0].weight.data += 1
    stop.set()
    for thread in threads:
        thread.join()
    check(model)
