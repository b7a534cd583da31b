"""The result of a case in float64, by the plain formula, for the sampled rows alone. Needs NumPy."""
import numpy as np

import inputs


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def indices(case):
    """(b, h, i) of each sampled row of an output [B,H,Q,...]."""
    shape = inputs.output_shape(case)[:-1]
    return zip(*np.unravel_index(inputs.sampled_rows(case), shape))


def sdpa(case, given):
    allowed = inputs.allowed_keys(case)
    scale = case.scale or case.head_dim**-0.5
    rows = []
    for b, h, i in indices(case):
        g = h // (case.heads // case.kv_heads)
        scores = scale * (given["key"][b, g].astype(np.float64) @ given["query"][b, h, i])
        if case.softcap:
            scores = case.softcap * np.tanh(scores / case.softcap)
        if case.bias:
            scores += given["bias"][0, h, i]
        if case.alibi:
            position = i + max(0, case.key_len - case.query_len)
            scores -= given["slopes"][h] * np.abs(position - np.arange(case.key_len))
        if allowed is not None:
            row = np.broadcast_to(allowed, (case.batch, 1, case.query_len, case.key_len))[b, 0, i]
            scores = np.where(row, scores, -np.inf)
        if case.sinks:
            scores = np.append(scores, given["sinks"][h])
        rows.append(softmax(scores)[: case.key_len] @ given["value"][b, g].astype(np.float64))
    return np.array(rows)


def score_of(case, given, b, h, i):
    query = given["query"][b, h, i].astype(np.float64)
    key = given["key"][b, h].astype(np.float64)
    if case.score == "additive":
        return np.tanh(given["query_weight"] @ query + key @ given["key_weight"].T) @ given["score_vector"]
    if case.score == "concat":
        by_query, by_key = np.split(given["weight"].astype(np.float64), [case.query_dim], axis=1)
        return np.tanh(by_query @ query + key @ by_key.T) @ given["score_vector"]
    if case.score == "bilinear":
        return key @ (query @ given["weight"])
    return -((query - key) ** 2).sum(-1) / (2 * case.sigma**2)


def scores(case, given):
    lens = inputs.lens_of(case)
    rows = []
    for b, h, i in indices(case):
        count = case.key_len if lens is None else lens[b]
        weights = softmax(score_of(case, given, b, h, i)[:count])
        rows.append(weights @ given["value"][b, h, :count].astype(np.float64))
    return np.array(rows)


def score_and_back(case, given, b, h, i):
    """The scores of a query and what their gradients give it."""
    query = given["query"][b, h, i].astype(np.float64)
    key = given["key"][b, h // (case.heads // case.kv_heads)].astype(np.float64)
    if case.score == "additive":
        units = np.tanh(given["query_weight"] @ query + key @ given["key_weight"].T)
        return units @ given["score_vector"], lambda ds: (ds @ (1 - units**2) * given["score_vector"]) @ given["query_weight"]
    if case.score == "bilinear":
        return key @ (query @ given["weight"]), lambda ds: given["weight"] @ (ds @ key)
    if case.score == "gaussian":
        inverse = case.sigma**-2
        return -((query - key) ** 2).sum(-1) * inverse / 2, lambda ds: ds @ (key - query) * inverse
    scale = case.head_dim**-0.5
    return scale * (key @ query), lambda ds: scale * (ds @ key)


def backward(case, given):
    allowed = inputs.allowed_keys(case)
    rows = []
    for b, h, i in indices(case):
        raw, back = score_and_back(case, given, b, h, i)
        if allowed is not None:
            row = np.broadcast_to(allowed, (case.batch, 1, case.query_len, case.key_len))[b, 0, i]
            raw = np.where(row, raw, -np.inf)
        weights = softmax(raw)
        reaching = given["value"][b, h // (case.heads // case.kv_heads)].astype(np.float64) @ given["grad_out"][b, h, i]
        rows.append(back(weights * (reaching - weights @ reaching)))
    return np.array(rows)


def regression(case, given):
    query = given["query"][inputs.sampled_rows(case)].astype(np.float64)
    squares = ((query[:, None] - given["key"]) ** 2).sum(-1)
    return softmax(-squares / (2 * case.sigma**2)) @ given["value"]


def masked_softmax(case, given):
    sampled = inputs.sampled_rows(case)
    x = given["x"].reshape(-1, case.key_len)[sampled].astype(np.float64)
    lens = inputs.lens_of(case)
    if lens is None:
        return softmax(x)
    lens = lens[sampled] if case.length_per_query else lens[sampled // case.query_len]
    return softmax(np.where(np.arange(case.key_len) < lens[:, None], x, -np.inf))


def rotate(x, first_position, base=10000.0):
    """Rotary embedding of [..., L, D], features j and j + D/2 a pair."""
    half = x.shape[-1] // 2
    frequencies = base ** (-2.0 * np.arange(half) / x.shape[-1])
    angles = np.outer(first_position + np.arange(x.shape[-2]), frequencies)
    left, right = x[..., :half], x[..., half:]
    return np.concatenate([left * np.cos(angles) - right * np.sin(angles),
                           left * np.sin(angles) + right * np.cos(angles)], -1)


def projected(case, x, weight, bias, first_position):
    """[B,L,E] -> [B,heads,L,D], turned if first_position is given."""
    rows = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    rows = rows.reshape(*rows.shape[:2], -1, case.head_dim).transpose(0, 2, 1, 3)
    return rows if first_position is None else rotate(rows, first_position)


def multi_head(case, given):
    hidden, width = case.hidden, case.kv_heads * case.head_dim
    parts = [slice(0, hidden), slice(hidden, hidden + width), slice(hidden + width, None)]
    weights = [given["in_weight"][part] for part in parts]
    biases = [given["in_bias"][part] for part in parts]
    first = max(0, case.cached - 1) if case.rotary else None
    source = given["y"] if case.cross else given["x"]
    query = projected(case, given["x"], weights[0], biases[0], first)
    key = projected(case, source, weights[1], biases[1], first)
    value = projected(case, source, weights[2], biases[2], None)
    if case.cached:
        key = np.concatenate([given["cached_key"], key], 2)
        value = np.concatenate([given["cached_value"], value], 2)
    group = case.heads // case.kv_heads
    heads_of = np.arange(case.heads) // group
    rows = []
    for b, i in zip(*np.unravel_index(inputs.sampled_rows(case), (case.batch, case.query_len))):
        raw = np.einsum("hd,hkd->hk", query[b, :, i], key[b, heads_of]) * case.head_dim**-0.5
        if case.causal:
            raw[:, i + key.shape[2] - case.query_len + 1 :] = -np.inf
        heads = np.einsum("hk,hkd->hd", softmax(raw), value[b, heads_of])
        rows.append(given["out_weight"].astype(np.float64) @ heads.reshape(-1) + given["out_bias"])
    return np.array(rows)


def head_and_back(query, key, value, grad_out, scale):
    """What a head gives, and the gradients of its three inputs."""
    weights = softmax(scale * (query @ key.T))
    reaching = grad_out @ value.T
    grad_scores = scale * weights * (reaching - (weights * reaching).sum(-1, keepdims=True))
    return weights @ value, (grad_scores @ key, grad_scores.T @ query, weights.T @ grad_out)


def multi_head_training(case, given):
    """Here all rows are computed: the gradient of a weight is a sum over them."""
    wide = {name: array.astype(np.float64) for name, array in given.items()}
    x, grad_out = (wide[name].reshape(-1, case.hidden) for name in ("x", "grad_out"))
    shape = case.batch, case.length, -1, case.heads, case.hidden // case.heads  # [B,L,parts,H,D]
    projected = (x @ wide["in_weight"].T + wide["in_bias"]).reshape(shape)
    grad_heads = (grad_out @ wide["out_weight"]).reshape(shape)[:, :, 0]
    heads, grad_projected = np.empty_like(grad_heads), np.empty_like(projected)
    for b, h in np.ndindex(case.batch, case.heads):
        parts = (projected[b, :, part, h] for part in range(3))
        heads[b, :, h], back = head_and_back(*parts, grad_heads[b, :, h], shape[-1] ** -0.5)
        for part in range(3):
            grad_projected[b, :, part, h] = back[part]
    heads, grad_projected = heads.reshape(x.shape), grad_projected.reshape(len(x), -1)
    given_back = {"out": heads @ wide["out_weight"].T + wide["out_bias"], "x": grad_projected @ wide["in_weight"],
                  "in_weight": grad_projected.T @ x, "out_weight": grad_out.T @ heads,
                  "in_bias": grad_projected.sum(0), "out_bias": grad_out.sum(0)}
    rows = [given_back[name].reshape(-1, case.hidden) for name in inputs.training_parts(case)]
    return np.concatenate(rows)[inputs.sampled_rows(case)]


def erf(x):
    import math

    return np.vectorize(math.erf)(x)


ACTIVATIONS = {"none": lambda x: x, "relu": lambda x: np.maximum(x, 0),
               "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
               "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
               "silu": lambda x: x / (1 + np.exp(-x))}


def linear(case, given):
    sampled = inputs.sampled_rows(case)
    rows = given["a"][sampled].astype(np.float64) @ given["b"]
    if "bias" in given:
        rows += given["bias"]
    rows = ACTIVATIONS[case.get("activation") or "none"](rows)
    return rows + given["residual"][sampled] if "residual" in given else rows


def layer_norm(case, given):
    sampled = inputs.sampled_rows(case)
    x = given["x"][sampled].astype(np.float64)
    if "residual" in given:
        x += given["residual"][sampled]
    x -= x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * given["weight"] + given["bias"]


def elementwise(case, given):
    return {"exp": np.exp, "tanh": np.tanh}[case.operation](given["x"].astype(np.float64))[None]


FORMULAS = {"sdpa": sdpa, **dict.fromkeys(inputs.BACKWARD, backward), **dict.fromkeys(inputs.SCORES, scores), "kernel_regression": regression,
            "masked_softmax": masked_softmax, "multi_head": multi_head, "multi_head_training": multi_head_training,
            "layer_norm": layer_norm, "exp": elementwise, "tanh": elementwise,
            **dict.fromkeys(("matmul", "matmul_packed", "linear"), linear)}


def error_of(out, expected):
    """The largest error of a row relative to its largest magnitude, or that of an average row if this is larger.

    Infinite where numbers are missing.
    """
    if out.shape != expected.shape or not np.isfinite(out).all():
        return float("inf")
    largest = np.abs(expected).max(-1)
    return float((np.abs(out - expected).max(-1) / np.maximum(largest, largest.mean())).max())


def error_of_parts(case, out, expected):
    """The largest of the parts' errors."""
    ends = np.cumsum([len(inputs.sampled_of(count)) for count in inputs.compared_parts(case)])[:-1]
    return max(map(error_of, np.split(out, ends), np.split(expected, ends)))


class Checker:
    """Compares what libraries wrote with the reference of the case at hand."""

    def __init__(self):
        self._key, self._expected = None, None

    def error(self, case, path):
        if self._key != case.name:
            self._expected = FORMULAS[case.operation](case, inputs.make(case))
            self._key = case.name
        return error_of_parts(case, np.load(path).astype(np.float64), self._expected)
