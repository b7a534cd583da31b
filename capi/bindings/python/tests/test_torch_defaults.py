"""No default of the process changes a result or its type: every public function in turn, under each of them."""
import contextlib
import copy
import inspect

import numpy as np
import pytest
from reference import random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402


def tensors(dtype, *shapes):
    return [torch.from_numpy(random(*shape, seed=n)).to(dtype) for n, shape in enumerate(shapes)]


def packed_rows(x):
    return x.transpose(1, 2).flatten(0, 1).contiguous()


def steps(query, key, value):
    pool = fovea.KVPool(kv_heads=2, head_dim=16, value_dim=12, positions=32, page_size=8, sequences=2, key_dtype=query.dtype)
    schedule = fovea.Schedule(query=(14, 4, 16), pool=pool, dtype=query.dtype, is_causal=True, return_log_sum_exp=True)
    first, second = pool.open(), pool.open()
    schedule.set(pool.step([(first, 7), (second, 7)]))
    schedule.append(0, packed_rows(key), packed_rows(value))
    return schedule.run(packed_rows(torch.cat([query, query[:, :, :2]], 2)), 0)


def prepared(query, key, value):
    keys = fovea.PreparedKeys(fovea.Bilinear(SQUARE), batch=2, kv_heads=2, capacity=7, query_dim=16, key_dim=16)
    keys.append(key)
    return keys.attend(query, value, return_log_sum_exp=True)


def multi_head(query, key, value):
    weights = [torch.from_numpy(random(*shape)) for shape in ((16, 16), (8, 16), (8, 12), (12, 16))]
    layer = fovea.MultiHeadAttention(4, kv_heads=2, **dict(zip(
        ("query_weight", "key_weight", "value_weight", "out_weight"), weights)))
    return layer(query[:, 0], key[:, 0], value[:, 0], return_weights="average")


def multi_head_backward(query, key, value):
    weights = [torch.from_numpy(random(*shape)).to(query.dtype) for shape in ((16, 16), (8, 16), (8, 12), (12, 16))]
    names = ("query_weight", "key_weight", "value_weight", "out_weight")
    return fovea.multi_head_attention_backward(query[:, 0], query[:, 1, :, :12], key[:, 0], value[:, 0], heads=4, kv_heads=2,
                                               parameters=dict(zip(names, weights)), is_causal=True)


def from_torch(query, key, value):
    with torch.device("cpu"):
        torch.manual_seed(1)
        module = torch.nn.MultiheadAttention(16, 4, batch_first=True, dtype=torch.float32).eval()
    return fovea.MultiHeadAttention.from_torch(module)(query[:, 0], key[:, 0])


WEIGHT, SQUARE, VECTOR = (torch.from_numpy(random(*shape)) for shape in ((8, 16), (16, 16), (8,)))
PLAN_OPTIONS = dict(return_weights=True, return_log_sum_exp=True, return_scores=True)
RUNS = {
    "attention": lambda q, k, v: fovea.attention(q, k, v, is_causal=True, **PLAN_OPTIONS),
    "additive_attention": lambda q, k, v: fovea.additive_attention(q, k, v, WEIGHT, WEIGHT, VECTOR),
    "concat_attention": lambda q, k, v: fovea.concat_attention(q, k, v, torch.cat([WEIGHT, WEIGHT], 1), VECTOR),
    "bilinear_attention": lambda q, k, v: fovea.bilinear_attention(q, k, v, SQUARE),
    "gaussian_attention": lambda q, k, v: fovea.gaussian_attention(q, k, v),
    "scaled_dot_product_attention": lambda q, k, v: fovea.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.0),
    "attention_backward": lambda q, k, v: fovea.attention_backward(q, k, v, *attended(q, k, v), attended(q, k, v)[0], wanted=("query",))["query"],
    "plan_attention_backward": lambda q, k, v: fovea.plan_attention_backward(q, k, v, *attended(q, k, v), attended(q, k, v)[0])(
        q, k, v, *attended(q, k, v), attended(q, k, v)[0])["query"],
    "kernel_regression": lambda q, k, v: fovea.kernel_regression(q[0, 0], k[0, 0], v[0, 0], return_weights=True),
    "masked_softmax": lambda q, k, v: fovea.masked_softmax(q, [3, 5]),
    "merge_states": lambda q, k, v: fovea.merge_states(q, q[..., 0].float().contiguous()),
    "plan": lambda q, k, v: fovea.plan(q, k, v, **PLAN_OPTIONS)(q, k, v),
    "Plan": lambda q, k, v: fovea.plan(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)(
        q.transpose(1, 2).contiguous().transpose(1, 2), k, v),
    "Schedule": steps, "quantize": lambda q, k, v: fovea.quantize(q),
    "dequantize": lambda q, k, v: fovea.dequantize(*fovea.quantize(q)),
    "varlen_attention": lambda q, k, v: fovea.varlen_attention(*map(packed_rows, (q, k, v)), [0, 5, 10], [0, 7, 14]),
    "fovea.torch.varlen_attention": lambda q, k, v: fovea.torch.varlen_attention(
        *map(packed_rows, (q, k, v)), torch.tensor([0, 5, 10], device="cpu"), torch.tensor([0, 7, 14], device="cpu"), causal=True),
    "PreparedKeys": prepared, "MultiHeadAttention": multi_head, "from_torch": from_torch,
    "linear": lambda q, k, v: fovea.linear(q[0], WEIGHT.to(q.dtype), activation="gelu"),
    "matmul": lambda q, k, v: fovea.matmul(q[0], k[0, :1].transpose(1, 2).contiguous().expand(4, -1, -1)),
    "PackedMatrix": lambda q, k, v: fovea.matmul(q[0], fovea.PackedMatrix(WEIGHT, layout="out_in")),
    "layer_norm": lambda q, k, v: fovea.layer_norm(q), "rotary": lambda q, k, v: fovea.rotary(q),
    "add_positional_encoding": lambda q, k, v: fovea.add_positional_encoding(q),
    "rms_norm": lambda q, k, v: fovea.rms_norm(q), "softmax": lambda q, k, v: fovea.softmax(q, 1),
    "log_softmax": lambda q, k, v: fovea.log_softmax(q), "activation": lambda q, k, v: fovea.activation("gelu", q),
    "gemm": lambda q, k, v: fovea.gemm(q[0], WEIGHT.to(q.dtype).T.contiguous()),
    "activation_backward": lambda q, k, v: fovea.activation_backward("gelu", q, q),
    "softmax_backward": lambda q, k, v: fovea.softmax_backward(q, q),
    "log_softmax_backward": lambda q, k, v: fovea.log_softmax_backward(q, q),
    "masked_softmax_backward": lambda q, k, v: fovea.masked_softmax_backward(q, q, [3, 5]),
    "layer_norm_backward": lambda q, k, v: fovea.layer_norm_backward(q, q, q[0, 0, 0], q[0, 0, 0]),
    "rms_norm_backward": lambda q, k, v: fovea.rms_norm_backward(q, q, q[0, 0, 0]),
    "linear_backward": lambda q, k, v: fovea.linear_backward(q[0], WEIGHT.to(q.dtype), k[0, :1, :5, :8].expand(4, -1, -1)),
    "merge_states_backward": lambda q, k, v: fovea.merge_states_backward(q, q[..., 0].float().contiguous(), q[0]),
    "multi_head_attention_backward": multi_head_backward,
    "rotary_frequencies": lambda q, k, v: fovea.rotary_frequencies(16)[0],
    "exp": lambda q, k, v: fovea.exp(q), "tanh": lambda q, k, v: fovea.tanh(q),
    "positional_encoding": lambda q, k, v: fovea.positional_encoding(5, 8),
    "alibi_slopes": lambda q, k, v: fovea.alibi_slopes(4),
    "fovea.torch.scaled_dot_product_attention": lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
    "masked": lambda q, k, v: sdpa(q, k, v, q[:1, :1, :, :1] > 0, enable_gqa=True),
    "broadcast": lambda q, k, v: sdpa(q, k[:1, :1], v[:1, :1]),
    "torch.ops.fovea.sdpa": lambda q, k, v: torch.ops.fovea.sdpa(q, k, v),
    "transformers_attention": lambda q, k, v: of_module(
        q, k, v, None, softcap=1.0, s_aux=q[0, :, 0, 0], output_attentions=True),
    "sinks of queries": lambda q, k, v: of_module(q, k, v, None, sinks=q[..., :1])[0],
    "a window": lambda q, k, v: of_module(q, k, v, None, sliding_window=2)[0],
    "packed sequences": lambda q, k, v: of_module(q[:1], k[:1, :, :5], v[:1, :, :5], None, cu_seq_lens_q=ENDS)[0],
    "pack_linear_layers": lambda q, k, v: packed(q),
    "fovea.torch.attention": lambda q, k, v: fovea.torch.attention(
        q, k, v, score=fovea.Gaussian(sigmas=q[0, :, 0, 0].abs() + 1), dropout=0.3, dropout_seed=7, **TORCH_OPTIONS),
    "gradients": lambda q, k, v: trained(lambda x: fovea.torch.attention(
        x, k, v, score=fovea.Additive(WEIGHT, WEIGHT, VECTOR), dropout=0.3, dropout_seed=7, **TORCH_OPTIONS), q),
    "gradients of PyTorch's function": lambda q, k, v: trained(lambda x: torch.ops.fovea.sdpa(x, k, v), q),
    "DotProductAttention": lambda q, k, v: of_layer(fovea.torch.DotProductAttention(keep_weights=True), q, k, v),
    "AdditiveAttention": lambda q, k, v: of_layer(ADDITIVE, q[:, 0], k[:, 0], v[:, 0]),
    "fovea.torch.MultiHeadAttention": lambda q, k, v: of_layer(MULTI_HEAD, q[:, 0], k[:, 0], v[:, 0]),
    "NadarayaWatson": lambda q, k, v: of_layer(REGRESSION, q[:, 0], k[:, 0], v[:, 0]),
}
TORCH_OPTIONS = dict(is_causal=True, return_log_sum_exp=True, return_weights=True)
ADDITIVE, REGRESSION = fovea.torch.AdditiveAttention(8, 0.0, 16, 16), fovea.torch.NadarayaWatson(keep_weights=True)
MULTI_HEAD = fovea.torch.MultiHeadAttention(16, 4, query_size=16, key_size=16, value_size=12)
ENDS = torch.tensor([0, 2, 5])
LAYER = torch.nn.Linear(16, 8)


sdpa = fovea.torch.scaled_dot_product_attention


def of_module(*given, **named):
    return fovea.torch.transformers_attention(torch.nn.Module(), *given, **named)


def of_layer(layer, *given):
    layer = copy.deepcopy(layer).to(given[0].dtype)
    return layer(*given).detach(), layer.attention_weights


def trained(function, x):
    """The gradient, in whatever mode the caller is."""
    with torch.inference_mode(False), torch.enable_grad():
        x = x.clone().requires_grad_()
        results = function(x)
        out = results[0] if isinstance(results, tuple) else results
        return torch.autograd.grad(out, x, torch.ones_like(out))


def packed(x):
    layer = fovea.torch.pack_linear_layers(torch.nn.ModuleList([LAYER]))[0]
    with torch.no_grad():
        return [layer(x) for _ in range(3)][-1] if x.dtype == torch.float32 else None  # packed by then


def attended(q, k, v):
    return fovea.attention(q, k, v, return_log_sum_exp=True)


NOT_RUN = {"BackwardPlan", "MultiHeadPlan", "Score", "Dot", "Additive", "Bilinear", "Concat", "Gaussian", "AttentionOptions", "Context", "isa_name",
           "isas_available", "show_heatmaps", "KVPool", "Sequence", "Step", "PackedLinear", "register_with_transformers", "unpack_linear_layers"}
"""What computes nothing of its own."""


def test_every_public_function_is_run():
    errors = {name for name, thing in vars(fovea).items() if inspect.isclass(thing) and issubclass(thing, Exception)}
    missing = set(fovea.__all__) - errors - set(RUNS) - NOT_RUN
    run = {name.rpartition(".")[2] for name in RUNS if not hasattr(fovea, name)}
    missing |= set(fovea.torch.__all__) - run - NOT_RUN
    assert not missing, f"no run under the defaults of the process: {missing}"


@contextlib.contextmanager
def setting(get, change, value):
    before = get()
    change(value)
    try:
        yield
    finally:
        change(before)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


DEFAULTS = {
    "bfloat16": lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.bfloat16),
    "float64": lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "the device meta": lambda: torch.device("meta"),
    "no_grad": torch.no_grad, "inference_mode": torch.inference_mode,
    "one thread": lambda: setting(torch.get_num_threads, torch.set_num_threads, 1),
    "deterministic": deterministic,
    "medium": lambda: setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    "denormals": lambda: setting(lambda: False, torch.set_flush_denormal, True),
    "NumPy's errors": lambda: np.errstate(all="raise"),
    "anomalies": lambda: torch.autograd.detect_anomaly(check_nan=True),
}
AUTOCAST = {"autocast": lambda: torch.autocast("cpu", torch.bfloat16)}
FOLLOW_AUTOCAST = ("fovea.torch.scaled_dot_product_attention", "masked", "broadcast", "transformers_attention",
                   "sinks of queries", "a window", "packed sequences", "pack_linear_layers", "fovea.torch.MultiHeadAttention")


def flat(results):
    results = list(results.values()) if isinstance(results, dict) else results
    return [x for one in results for x in flat(one)] if isinstance(results, (tuple, list)) else [results]


def is_expected_of(x, other):
    assert type(x) is type(other)
    if x is None:
        return
    assert x.dtype == other.dtype and tuple(x.shape) == tuple(other.shape)
    if isinstance(x, torch.Tensor):
        assert x.device.type == "cpu" and not x.requires_grad
    assert np.array_equal(np.asarray(x.float() if isinstance(x, torch.Tensor) else x),
                          np.asarray(other.float() if isinstance(other, torch.Tensor) else other), equal_nan=True)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("default", DEFAULTS | AUTOCAST)
def test_a_default_changes_nothing(default, dtype):
    given = tensors(dtype, (2, 4, 5, 16), (2, 2, 7, 16), (2, 2, 7, 12))
    for name, run in RUNS.items():
        if default in AUTOCAST and name in FOLLOW_AUTOCAST:
            continue
        with torch.no_grad():
            wanted = flat(run(*given))
        with (DEFAULTS | AUTOCAST)[default]():
            found = flat(run(*given))
        for one, other in zip(found, wanted, strict=True):
            try:
                is_expected_of(one, other)
            except AssertionError as error:
                raise AssertionError(f"{name} under {default}: {error}") from error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16])
def test_autocast_as_pytorch_has_it(dtype, to):
    query, key, value, mask = tensors(dtype, (2, 4, 5, 16), (2, 4, 7, 16), (2, 4, 7, 12), (5, 7))
    theirs = torch.nn.functional.scaled_dot_product_attention
    with torch.autocast("cpu", to):
        for one in (None, mask, mask > 0):
            found, wanted = fovea.torch.scaled_dot_product_attention(query, key, value, one), theirs(query, key, value, one)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found.double(), wanted.double(), atol=3e-2)
    with torch.autocast("cpu", to, enabled=False):
        assert fovea.torch.scaled_dot_product_attention(query, key, value).dtype == dtype


def test_what_is_drawn_at_random_lies_on_the_cpu():
    query, key, value = tensors(torch.float32, (2, 4, 5, 16), (2, 4, 7, 16), (2, 4, 7, 12))
    with torch.device("meta"):
        dropped = fovea.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert dropped.device.type == "cpu" and dropped.dtype == torch.float32
