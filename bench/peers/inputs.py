"""The inputs of a case: the same numbers in every process, made there, so that each library has them in memory of its own.

All are float32 arrays whose numbers the case's element type can hold. Needs NumPy.
"""
import pathlib
import zlib

import numpy as np

from case import BACKWARD

SAMPLED = 48
LEAST_COLD_BYTES = 512 << 20


def round_to(array, dtype):
    """The nearest numbers of the type, as float32."""
    if dtype == "bf16":
        bits = array.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype == "f16":
        return array.astype(np.float16).astype(np.float32)
    return array


def stored_as(array, dtype):
    """The array as it is stored: bfloat16 as uint16, of which NumPy knows nothing."""
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.astype(np.float16) if dtype == "f16" else array


def as_float(array):
    """The reverse of stored_as."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def aligned_empty(shape, dtype):
    """On a boundary of 64 bytes, as the libraries' own allocators have it."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array):
    """A copy on such a boundary, in the same order of axes."""
    order = np.argsort([-stride for stride in array.strides], kind="stable")
    copy = aligned_empty([array.shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    copy[...] = array
    return copy


class Source:
    """Random numbers by name, so that who needs only some gets the same ones."""

    def __init__(self, case):
        self._case = case

    def normals(self, name, *shape, scale=1.0):
        case = self._case
        random = np.random.default_rng(zlib.crc32(f"{case.operation} {case.model} {name}".encode()))
        array = aligned_empty(shape, np.float32)
        random.standard_normal(dtype=np.float32, out=array)
        if scale != 1.0:
            array *= np.float32(scale)
        array[...] = round_to(array, case.dtype)
        return array


def lens_of(case):
    return np.array(case.valid_lens, np.int32) if case.get("valid_lens") else None


def sdpa_inputs(case):
    source = Source(case)

    def heads(name, count, length, size):
        if case.heads_last:
            return source.normals(name, case.batch, length, count, size).transpose(0, 2, 1, 3)
        return source.normals(name, case.batch, count, length, size)

    given = {"query": heads("query", case.heads, case.query_len, case.head_dim),
             "key": heads("key", case.kv_heads, case.key_len, case.head_dim),
             "value": heads("value", case.kv_heads, case.key_len, case.value_dim)}
    if case.bias:
        given["bias"] = source.normals("bias", 1, case.heads, case.query_len, case.key_len)
    if case.alibi:
        given["slopes"] = np.exp2(-8.0 * np.arange(1, case.heads + 1) / case.heads).astype(np.float32)
    if case.sinks:
        given["sinks"] = source.normals("sinks", case.heads)
    return given


def score_inputs(case):
    source = Source(case)
    given = {"query": source.normals("query", case.batch, case.heads, case.query_len, case.query_dim),
             "key": source.normals("key", case.batch, case.heads, case.key_len, case.key_dim),
             "value": source.normals("value", case.batch, case.heads, case.key_len, case.value_dim)}
    units = case.hidden_units
    if case.score == "additive":  # units of about 0.5, as trained ones are
        given["query_weight"] = source.normals("query_weight", units, case.query_dim, scale=0.5 * case.query_dim**-0.5)
        given["key_weight"] = source.normals("key_weight", units, case.key_dim, scale=0.5 * case.key_dim**-0.5)
    elif case.score == "concat":
        size = case.query_dim + case.key_dim
        given["weight"] = source.normals("weight", units, size, scale=0.5 * size**-0.5)
    elif case.score == "bilinear":
        given["weight"] = source.normals("weight", case.query_dim, case.key_dim, scale=0.5 * case.key_dim**-0.5)
    if case.score in ("additive", "concat"):
        given["score_vector"] = source.normals("score_vector", units)
    return given


def backward_inputs(case):
    """Of attention's backward pass."""
    source = Source(case)
    given = {"query": source.normals("query", case.batch, case.heads, case.query_len, case.head_dim),
             "key": source.normals("key", case.batch, case.kv_heads, case.key_len, case.head_dim),
             "value": source.normals("value", case.batch, case.kv_heads, case.key_len, case.value_dim),
             "grad_out": source.normals("grad_out", case.batch, case.heads, case.query_len, case.value_dim)}
    scale = 0.5 * case.head_dim**-0.5
    if case.score == "additive":
        for name in ("query_weight", "key_weight"):
            given[name] = source.normals(name, case.hidden_units, case.head_dim, scale=scale)
        given["score_vector"] = source.normals("score_vector", case.hidden_units)
    elif case.score == "bilinear":
        given["weight"] = source.normals("weight", case.head_dim, case.head_dim, scale=scale)
    return given


def multi_head_inputs(case):
    source = Source(case)
    hidden, width = case.hidden, case.kv_heads * case.head_dim
    given = {"x": source.normals("x", case.batch, case.query_len, hidden),
             "in_weight": source.normals("in_weight", hidden + 2 * width, hidden, scale=hidden**-0.5),
             "out_weight": source.normals("out_weight", hidden, hidden, scale=hidden**-0.5),
             "in_bias": source.normals("in_bias", hidden + 2 * width),
             "out_bias": source.normals("out_bias", hidden)}
    if case.cross:
        given["y"] = source.normals("y", case.batch, case.key_len, hidden)
    if case.cached:  # all positions but that of this step
        for name in ("cached_key", "cached_value"):
            given[name] = source.normals(name, case.batch, case.kv_heads, case.cached - 1, case.head_dim)
    return given


def training_inputs(case):
    """Of a step of training a layer of multi-head self-attention."""
    source, hidden = Source(case), case.hidden
    return {"x": source.normals("x", case.batch, case.length, hidden),
            "in_weight": source.normals("in_weight", 3 * hidden, hidden, scale=hidden**-0.5),
            "out_weight": source.normals("out_weight", hidden, hidden, scale=hidden**-0.5),
            "in_bias": source.normals("in_bias", 3 * hidden),
            "out_bias": source.normals("out_bias", hidden),
            "grad_out": source.normals("grad_out", case.batch, case.length, hidden)}


def linear_inputs(case):
    source = Source(case)
    given = {"a": source.normals("a", case.m, case.k), "b": source.normals("b", case.k, case.n, scale=case.k**-0.5)}
    if case.get("bias"):
        given["bias"] = source.normals("bias", case.n)
    if case.get("residual"):
        given["residual"] = source.normals("residual", case.m, case.n)
    return given


def softmax_inputs(case):
    return {"x": Source(case).normals("x", case.batch, case.query_len, case.key_len)}


def elementwise_inputs(case):
    return {"x": Source(case).normals("x", case.count)}


def layer_norm_inputs(case):
    source = Source(case)
    given = {name: source.normals(name, case.features) for name in ("weight", "bias")}
    given["x"] = source.normals("x", case.rows, case.features)
    if case.residual:
        given["residual"] = source.normals("residual", case.rows, case.features)
    return given


def regression_inputs(case):
    source = Source(case)
    return {"query": source.normals("query", case.queries, case.features),
            "key": source.normals("key", case.inputs, case.features),
            "value": source.normals("value", case.inputs, case.targets)}


SCORES = ("additive", "additive_padded", "additive_step", "additive_tile", "concat", "gaussian", "bilinear")
MAKERS = {"sdpa": sdpa_inputs, **dict.fromkeys(BACKWARD, backward_inputs), **dict.fromkeys(SCORES, score_inputs),
          "kernel_regression": regression_inputs,
          "masked_softmax": softmax_inputs, "multi_head": multi_head_inputs,
          "multi_head_training": training_inputs,
          "exp": elementwise_inputs, "tanh": elementwise_inputs, "layer_norm": layer_norm_inputs,
          **dict.fromkeys(("matmul", "matmul_packed", "linear"), linear_inputs)}


def make(case):
    """{name: float32 array}."""
    return MAKERS[case.operation](case)


def training_parts(case):
    """{name: rows} of what a training step gives, one after the other: out, then gradients. All rows have `hidden` numbers."""
    rows, hidden = case.batch * case.length, case.hidden
    return {"out": rows, "x": rows, "in_weight": 3 * hidden, "out_weight": hidden, "in_bias": 3, "out_bias": 1}


def output_shape(case):
    if case.operation == "sdpa":
        return (case.batch, case.heads, case.query_len, case.value_dim)
    if case.operation in SCORES:
        return (case.batch, case.heads, case.query_len, case.value_dim)
    if case.operation in BACKWARD:  # of the gradient of queries
        return (case.batch, case.heads, case.query_len, case.head_dim)
    if case.operation == "kernel_regression":
        return (case.queries, case.targets)
    if case.operation == "masked_softmax":
        return (case.batch, case.query_len, case.key_len)
    if case.operation == "multi_head":
        return (case.batch, case.query_len, case.hidden)
    if case.operation == "multi_head_training":
        return (sum(training_parts(case).values()), case.hidden)
    if case.operation in ("exp", "tanh"):
        return (1, case.count)
    if case.operation == "layer_norm":
        return (case.rows, case.features)
    return (case.m, case.n)


def compared_parts(case):
    """How many rows of the output each part has whose rows are of one magnitude: parts are compared by themselves."""
    if case.operation == "multi_head_training":
        *parts, in_bias, out_bias = training_parts(case).values()
        return [*parts, in_bias + out_bias]  # keys' biases change nothing: their gradient is 0, and what rounding leaves
    return [int(np.prod(output_shape(case)[:-1]))]


def sampled_of(count):
    """Of so many rows the first, the last, and some between."""
    if count <= SAMPLED:
        return np.arange(count)
    picked = np.random.default_rng(1).choice(count, SAMPLED - 2, replace=False)
    return np.unique(np.concatenate([[0, count - 1], picked]))


def sampled_rows(case):
    """Which rows of the output, all axes but the last as one, are compared: some of each part."""
    counts = compared_parts(case)
    firsts = np.cumsum([0, *counts[:-1]])
    return np.concatenate([first + sampled_of(count) for first, count in zip(firsts, counts)])


def allowed_keys(case):
    """Boolean [B or 1, 1, Q or 1, K]: which keys a query attends; None: all."""
    masks = []
    if case.get("valid_lens"):
        masks.append(np.arange(case.key_len) < lens_of(case)[:, None, None, None])
    keys = np.arange(case.key_len)[None, :]
    positions = (np.arange(case.query_len) + max(0, case.key_len - case.query_len))[:, None]
    if case.get("causal"):
        masks.append(keys <= positions)
    if case.get("prefix"):
        masks.append((keys <= positions) | (keys < case.prefix))
    if case.get("window_left", -1) >= 0:
        masks.append(keys >= positions - case.window_left)
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other
    return mask if mask.ndim == 4 else mask[None, None]


def last_level_cache_bytes():
    sizes = pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(size.read_text().strip().removesuffix("K")) * 1024 for size in sizes), default=32 << 20)


def cache_copies(case, one):
    """How many copies of `one` bytes of keys and values a run has to go round so that each comes from memory."""
    if not case.get("cold"):
        return 1
    return max(2, -(-max(LEAST_COLD_BYTES, 4 * last_level_cache_bytes()) // one))


def going_round(items):
    """A function that gives the next item each time."""
    if len(items) == 1:
        only = items[0]
        return lambda: only
    state = {"next": 0}

    def advance():
        state["next"] = (state["next"] + 1) % len(items)
        return items[state["next"]]

    return advance
