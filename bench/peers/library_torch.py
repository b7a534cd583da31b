"""PyTorch: eager calls as its users write them, and compiled ones."""
import torch
import torch.nn.functional as F

import inputs
import torch_attention
import torch_backward
import torch_scores
import torch_training
from array_library import ArrayLibrary
from case import BACKWARD
from worker import Unsupported

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def tensors(case):
    """{name: tensor of the case's type}; what is not the type's in fovea either stays float32."""
    return {name: torch.from_numpy(array).to(torch.float32 if name in ("slopes", "sinks") else DTYPES[case.dtype])
            for name, array in inputs.make(case).items()}


def compiled(function, *arguments):
    """A run of the compiled function, called as the eager one is."""
    called = torch.compile(function, dynamic=False)
    return lambda: called(*arguments)


class Frozen(torch.nn.Module):
    """Tensors that the compiler may take as constants, and lay out anew beforehand."""

    def __init__(self, function, **constants):
        super().__init__()
        self._function = function
        for name, constant in constants.items():
            self.register_buffer(name, constant)
        self._names = list(constants)

    def forward(self, *arguments):
        return self._function(*arguments, **{name: getattr(self, name) for name in self._names})


def frozen(function, *arguments, **constants):
    return compiled(Frozen(function, **constants).eval(), *arguments)


# ---- products and layers ---------------------------------------------------------------------------------------------

ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}


def matmul_ways(case, given):
    a, b, out = given["a"], given["b"], torch.empty(case.m, case.n, dtype=given["a"].dtype)
    ways = {"mm": lambda: lambda: torch.mm(a, b, out=out)}
    if case.packed:
        weight = b.T.contiguous()
        ways["linear"] = lambda: lambda: F.linear(a, weight)
        ways["compiled, weight frozen"] = lambda: frozen(lambda x, weight: F.linear(x, weight), a, weight=weight)
    return ways


def linear_ways(case, given):
    activation = ACTIVATIONS[case.activation or "none"]
    bias, residual = given.get("bias"), given.get("residual")
    weight = given["b"].T.contiguous()

    def layer(x, weight, bias=None):
        y = activation(F.linear(x, weight, bias))
        return y if residual is None else y + residual

    constants = {"weight": weight} | ({} if bias is None else {"bias": bias})
    return {"eager": lambda: lambda: layer(given["a"], **constants),
            "compiled, weight frozen": lambda: frozen(layer, given["a"], **constants)}


def layer_norm_ways(case, given):
    x, residual, weight, bias = (given.get(name) for name in ("x", "residual", "weight", "bias"))

    def normalise(x, residual):
        return F.layer_norm(x if residual is None else x + residual, (case.features,), weight, bias)

    return {"eager": lambda: lambda: normalise(x, residual), "compiled": lambda: compiled(normalise, x, residual)}


def elementwise_ways(case, given):
    function, x = getattr(torch, case.operation), given["x"]
    out = torch.empty_like(x)
    return {"eager": lambda: lambda: function(x, out=out), "compiled": lambda: compiled(function, x)}


def masked_softmax_ways(case, given):
    x, lens = given["x"], inputs.lens_of(case)
    if lens is None:
        return {"softmax": lambda: lambda: torch.softmax(x, -1),
                "compiled": lambda: compiled(lambda x: torch.softmax(x, -1), x)}
    lens = torch.from_numpy(lens).reshape(case.batch, case.query_len if case.length_per_query else 1, 1)
    keys = torch.arange(case.key_len)

    def masked(x, lens):
        return torch.softmax(x.masked_fill(keys >= lens, float("-inf")), -1)

    def each_sequence():
        out = torch.zeros_like(x)
        for b, length in enumerate(lens.flatten().tolist()):
            out[b, :, :length] = torch.softmax(x[b, :, :length], -1)
        return out

    ways = {"masked_fill": lambda: lambda: masked(x, lens), "compiled": lambda: compiled(masked, x, lens)}
    if not case.length_per_query:
        ways["sequence by sequence"] = lambda: each_sequence
    return ways


# ---- multi-head attention --------------------------------------------------------------------------------------------

def multi_head_module(case, given):
    """nn.MultiheadAttention, whose fast path takes a whole layer in one call."""
    module = torch.nn.MultiheadAttention(case.hidden, case.heads, batch_first=True, dtype=given["x"].dtype).eval()
    state = {"in_proj_weight": given["in_weight"], "in_proj_bias": given["in_bias"],
             "out_proj.weight": given["out_weight"], "out_proj.bias": given["out_bias"]}
    module.load_state_dict(state)
    query, other = given["x"], given.get("y", given["x"])
    return lambda: module(query, other, other, need_weights=False)[0]


def rotary_table(case, first):
    half = case.head_dim // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = (first + torch.arange(case.query_len, dtype=torch.float64))[:, None] * frequencies
    return angles.cos().float(), angles.sin().float()


def turn(x, table):
    cosine, sine = table
    left, right = x.float().chunk(2, -1)
    return torch.cat([left * cosine - right * sine, left * sine + right * cosine], -1).to(x.dtype)


def multi_head_by_hand(case, given):
    """(function of x, y and the weights, its arguments, its weights)."""
    width = case.kv_heads * case.head_dim
    table = rotary_table(case, max(0, case.cached - 1)) if case.rotary else None
    cache = None
    if case.cached:  # the last position is overwritten by each step
        shape = (case.batch, case.kv_heads, case.cached, case.head_dim)
        cache = [torch.empty(shape, dtype=given["x"].dtype) for _ in range(2)]
        for memory, name in zip(cache, ("cached_key", "cached_value")):
            memory[:, :, :-1] = given[name]
    options = {"enable_gqa": case.heads != case.kv_heads, "is_causal": bool(case.causal and not case.cached)}

    def heads(rows):
        return rows.unflatten(-1, (-1, case.head_dim)).transpose(1, 2)

    def attend(query, key, value):
        if options["enable_gqa"] and case.query_len == 1:  # heads of a group as rows
            query = query.reshape(case.batch, case.kv_heads, -1, case.head_dim)
            out = F.scaled_dot_product_attention(query, key, value)
            return out.reshape(case.batch, case.heads, 1, case.head_dim)
        return F.scaled_dot_product_attention(query, key, value, **options)

    def layer(x, y, in_weight, in_bias, out_weight, out_bias):
        if y is None:
            query, key, value = F.linear(x, in_weight, in_bias).split([case.hidden, width, width], -1)
        else:
            query = F.linear(x, in_weight[: case.hidden], in_bias[: case.hidden])
            key, value = F.linear(y, in_weight[case.hidden :], in_bias[case.hidden :]).chunk(2, -1)
        query, key, value = heads(query), heads(key), heads(value)
        if table is not None:
            query, key = turn(query, table), turn(key, table)
        if cache is not None:
            cache[0][:, :, -1:], cache[1][:, :, -1:] = key, value
            key, value = cache
        return F.linear(attend(query, key, value).transpose(1, 2).flatten(2), out_weight, out_bias)

    weights = {name: given[name] for name in ("in_weight", "in_bias", "out_weight", "out_bias")}
    return layer, (given["x"], given.get("y")), weights


def multi_head_ways(case, given):
    layer, arguments, weights = multi_head_by_hand(case, given)
    ways = {"linear and fused attention": lambda: lambda: layer(*arguments, **weights),
            "the same compiled, weights frozen": lambda: frozen(layer, *arguments, **weights)}
    if case.heads == case.kv_heads and not (case.rotary or case.cached or case.causal):
        ways["nn.MultiheadAttention"] = lambda: multi_head_module(case, given)
    return ways


WAYS = {"sdpa": torch_attention.ways, **dict.fromkeys(BACKWARD, torch_backward.ways), **dict.fromkeys(inputs.SCORES, torch_scores.ways),
        "kernel_regression": torch_scores.regression_ways, "masked_softmax": masked_softmax_ways,
        "matmul": matmul_ways, "matmul_packed": matmul_ways, "linear": linear_ways, "layer_norm": layer_norm_ways,
        "multi_head": multi_head_ways, "multi_head_training": torch_training.ways,
        "exp": elementwise_ways, "tanh": elementwise_ways}


class Torch(ArrayLibrary):
    name, version, types = "torch", torch.__version__, list(DTYPES)

    def __init__(self, threads):
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self._mode = torch.inference_mode()
        self._mode.__enter__()

    def ways(self, case):
        if case.operation not in WAYS:
            raise Unsupported("no such operation")
        return WAYS[case.operation](case, tensors(case))

    def output(self, result, case):
        if isinstance(result, tuple):  # parts of the output
            result = torch.cat([part.reshape(-1, case.hidden) for part in result])
        return result.float().reshape(inputs.output_shape(case)).numpy()

    def free(self):
        torch.compiler.reset()


def make(threads):
    return Torch(int(threads))
