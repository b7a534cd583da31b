"""ONNX Runtime's ways to the scaled dot product and to multi-head attention.

MultiHeadAttention (fused, flash-like where there is no mask), GroupQueryAttention (for decoders: causal, grouped heads,
windows, a cache whose memory it shares), the standard Attention operator, and products by hand.
"""
import numpy as np
from onnx import helper

import inputs
from worker import Unsupported

MOST_SCORE_BYTES = 2 << 30


def node(operator, takes, gives, **attributes):
    return helper.make_node(operator, takes, gives.split(), **attributes)


def fused(operator, takes, gives, **attributes):
    return node(operator, takes, gives, domain="com.microsoft", **attributes)


def merged(heads):
    """[B,H,L,D] -> [B,L,H*D]"""
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3)).reshape(heads.shape[0], heads.shape[2], -1)


class Problem:
    def __init__(self, graphs, case, given):
        self.graphs, self.case, self.given = graphs, case, given
        self.dtype = given["query"].dtype
        self.scale = float(case.scale or case.head_dim**-0.5)
        self.group = case.heads // case.kv_heads
        self.offset = max(0, case.key_len - case.query_len)
        self.allowed = inputs.allowed_keys(case)
        one = given["key"].nbytes + given["value"].nbytes
        self.copies = inputs.cache_copies(case, one)

    def bias(self):
        """What is added to the scores, [B or 1, H or 1, Q or 1, K]; None: nothing."""
        case, bias = self.case, None
        if self.allowed is not None:
            bias = np.where(self.allowed, np.float32(0), np.float32(-6e4 if self.dtype == np.float16 else -1e30))
        if case.bias:
            bias = self.given["bias"] if bias is None else bias + self.given["bias"]
        if case.alibi:
            distances = np.abs(np.arange(case.query_len)[:, None] + self.offset - np.arange(case.key_len))
            slopes = -self.given["slopes"].astype(np.float32)[None, :, None, None] * distances
            bias = slopes if bias is None else bias + slopes
        return None if bias is None else bias.astype(self.dtype)

    def rounds(self, feeds):
        """The feeds, and as often again as there are copies of the cache, with keys and values of their own."""
        own = ("key", "value", "past_key", "past_value")
        return [feeds] + [{name: inputs.aligned_copy(array) if name in own else array for name, array in feeds.items()}
                          for _ in range(self.copies - 1)]

    def bias_feed(self, bias):
        return {} if bias is None else {"bias": inputs.aligned_copy(bias)}

    def as_rows(self, bias):
        """[B or 1, H or 1, Q or 1, K] for the heads of a group as rows: [B or 1, Hkv or 1, G*Q, K]."""
        case = self.case
        batch, heads = bias.shape[0], case.heads if bias.shape[1] > 1 else self.group
        wide = np.broadcast_to(bias, (batch, heads, case.query_len, case.key_len))
        return wide.reshape(batch, heads // self.group, -1, case.key_len)

    def zeros(self, *shape):
        return np.zeros(shape, self.dtype)


def products(p):
    """MatMul and Softmax over the heads of a group as rows."""
    case, given = p.case, p.given
    rows = given["query"].reshape(case.batch, case.kv_heads, -1, case.head_dim)
    constants = {"scale": np.array(p.scale, p.dtype)}
    nodes = [node("Transpose", ["key"], "turned", perm=[0, 1, 3, 2]), node("MatMul", ["query", "turned"], "products"),
             node("Mul", ["products", "scale"], "scores")]
    last, bias = "scores", p.bias()
    if case.softcap:
        constants["cap"] = np.array(case.softcap, p.dtype)
        nodes += [node("Div", [last, "cap"], "divided"), node("Tanh", ["divided"], "bent"),
                  node("Mul", ["bent", "cap"], "capped")]
        last = "capped"
    if bias is not None:
        bias = p.as_rows(bias)
        nodes.append(node("Add", [last, "bias"], "biased"))
        last = "biased"
    if case.sinks:
        sinks = given["sinks"].reshape(1, case.kv_heads, p.group, 1, 1)
        sinks = np.broadcast_to(sinks, (case.batch, case.kv_heads, p.group, case.query_len, 1))
        constants |= {"sinks": sinks.reshape(case.batch, case.kv_heads, -1, 1).astype(p.dtype),
                      "from": np.array([0]), "to": np.array([case.key_len]), "axis": np.array([3])}
        nodes += [node("Concat", [last, "sinks"], "all", axis=3), node("Softmax", ["all"], "shares", axis=-1),
                  node("Slice", ["shares", "from", "to", "axis"], "weights")]
    else:
        nodes.append(node("Softmax", [last], "weights", axis=-1))
    nodes.append(node("MatMul", ["weights", "value"], "out"))
    outputs = {"out": p.zeros(case.batch, case.kv_heads, rows.shape[2], case.value_dim)}
    if case.weights:
        outputs["weights"] = p.zeros(case.batch, case.kv_heads, rows.shape[2], case.key_len)
    feeds = {"query": rows, "key": given["key"], "value": given["value"], **p.bias_feed(bias)}
    return p.graphs.run(nodes, p.rounds(feeds), constants, outputs)


def standard(p, causal):
    """The Attention operator of the standard's opset 23."""
    case, given = p.case, p.given
    takes = ["query", "key", "value"]
    bias = None if causal else p.bias()
    if bias is not None:
        bias = np.broadcast_to(bias, (*bias.shape[:2], case.query_len, case.key_len))
        takes.append("bias")
    nodes = [node("Attention", takes, "out", scale=p.scale, softcap=float(case.softcap), is_causal=int(causal))]
    feeds = {name: given[name] for name in ("query", "key", "value")} | p.bias_feed(bias)
    return p.graphs.run(nodes, p.rounds(feeds), {},
                        {"out": p.zeros(case.batch, case.heads, case.query_len, case.value_dim)})


def multi_head_operator(p, causal, by_lens):
    """MultiHeadAttention: takes queries [B,L,H*D]; keys and values may stay [B,H,L,D]."""
    case, given, constants = p.case, p.given, {}
    takes = ["query", "key", "value"]
    bias = None if causal or by_lens else p.bias()
    if by_lens:
        constants["lens"] = inputs.lens_of(case)
        takes += ["", "lens"]
    if bias is not None:
        bias = np.broadcast_to(bias, (*bias.shape[:2], case.query_len, case.key_len))
        takes += ["", "", "bias"]
    nodes = [fused("MultiHeadAttention", takes, "out", num_heads=case.heads, scale=p.scale, unidirectional=int(causal))]
    feeds = {"query": merged(given["query"]), "key": given["key"], "value": given["value"], **p.bias_feed(bias)}
    return p.graphs.run(nodes, p.rounds(feeds), constants,
                        {"out": p.zeros(case.batch, case.query_len, case.heads * case.value_dim)})


def group_query_feeds(case, key, value, lens):
    """The newest positions as inputs, the others in the cache's memory."""
    new = case.query_len
    positions = np.asarray(lens)[:, None] - new + np.arange(new)
    batch = np.arange(case.batch)[:, None]
    feeds = {"key": key.transpose(0, 2, 1, 3)[batch, positions].reshape(case.batch, new, -1),
             "value": value.transpose(0, 2, 1, 3)[batch, positions].reshape(case.batch, new, -1)}
    if case.key_len > new:
        feeds |= {"past_key": key, "past_value": value}
    return feeds


def group_query(p):
    case, given = p.case, p.given
    lens = inputs.lens_of(case)
    lens = np.full(case.batch, case.key_len, np.int32) if lens is None else lens
    feeds = {"query": merged(given["query"]), **group_query_feeds(case, given["key"], given["value"], lens)}
    cached = "past_key" in feeds
    takes = ["query", "key", "value", *(["past_key", "past_value"] if cached else ["", ""]), "lens", "total"]
    if case.sinks:
        takes += ["", "", "", "", "sinks"]
    constants = {"lens": (lens - 1).astype(np.int32), "total": np.array([case.key_len], np.int32)}
    if case.sinks:
        constants["sinks"] = given["sinks"].astype(p.dtype)
    options = {"num_heads": case.heads, "kv_num_heads": case.kv_heads, "scale": p.scale, "softcap": float(case.softcap),
               "local_window_size": case.window_left + 1 if case.window_left >= 0 else -1}
    nodes = [fused("GroupQueryAttention", takes, "out present_key present_value", **options)]
    outputs = {"out": p.zeros(case.batch, case.query_len, case.heads * case.head_dim),
               "present_key": np.zeros_like(given["key"], order="C"),
               "present_value": np.zeros_like(given["value"], order="C")}
    shared = {"present_key": "past_key", "present_value": "past_value"} if cached else {}
    return p.graphs.run(nodes, p.rounds(feeds), constants, outputs, shared)


def ways(graphs, case, given):
    p = Problem(graphs, case, given)
    found = {}
    lens, plain = inputs.lens_of(case), not (case.sinks or case.weights)
    square = case.causal and case.query_len == case.key_len and case.window_left < 0
    only_causal = square and lens is None and not (case.bias or case.alibi)
    if plain and p.group == 1 and not case.softcap:
        found["MultiHeadAttention"] = lambda: multi_head_operator(p, only_causal, False)
        if lens is not None and not case.causal:
            found["MultiHeadAttention, lengths"] = lambda: multi_head_operator(p, False, True)
    looks_back = case.causal or case.query_len == 1
    if looks_back and not (case.weights or case.bias or case.alibi or case.prefix) and case.head_dim == case.value_dim:
        found["GroupQueryAttention"] = lambda: group_query(p)
    if plain:
        found["Attention"] = lambda: standard(p, only_causal)
    if case.batch * case.heads * case.query_len * case.key_len * 4 <= MOST_SCORE_BYTES:
        found["MatMul and Softmax"] = lambda: products(p)
    if not found:
        raise Unsupported("no operator takes this, and the weights would not fit memory")
    return found


# ---- multi-head attention --------------------------------------------------------------------------------------------

def projection_nodes(case, given):
    """Nodes that project, and their constants: [B,L,H*D] "query", "key", "value"."""
    width = case.kv_heads * case.head_dim
    sizes = np.array([case.hidden, width, width])
    if not case.cross:
        constants = {"in_weight": given["in_weight"].T, "in_bias": given["in_bias"], "sizes": sizes}
        return [node("MatMul", ["x", "in_weight"], "products"), node("Add", ["products", "in_bias"], "rows"),
                node("Split", ["rows", "sizes"], "query key value", axis=2)], constants
    split = [case.hidden]
    weights, biases = np.split(given["in_weight"], split), np.split(given["in_bias"], split)
    constants = {"query_weight": weights[0].T, "query_bias": biases[0], "other_weight": weights[1].T,
                 "other_bias": biases[1], "sizes": sizes[1:]}
    return [node("MatMul", ["x", "query_weight"], "query_product"), node("Add", ["query_product", "query_bias"], "query"),
            node("MatMul", ["y", "other_weight"], "other_product"), node("Add", ["other_product", "other_bias"], "other"),
            node("Split", ["other", "sizes"], "key value", axis=2)], constants


END = [node("MatMul", ["heads", "out_weight"], "unbiased"), node("Add", ["unbiased", "out_bias"], "out")]


def rotary_caches(case, dtype):
    half = case.head_dim // 2
    frequencies = 10000.0 ** (-np.arange(half) / half)
    angles = np.outer(np.arange(max(case.cached, case.query_len)), frequencies)
    return {"cosines": np.cos(angles).astype(dtype), "sines": np.sin(angles).astype(dtype)}


def decoder_layer(graphs, case, given):
    """Projections around GroupQueryAttention, which turns queries and keys and appends to the cache itself."""
    start, constants = projection_nodes(case, given)
    dtype = given["x"].dtype
    total = max(case.cached, case.query_len)
    takes = ["query", "key", "value", *(["past_key", "past_value"] if case.cached else ["", ""]), "lens", "total"]
    if case.rotary:
        takes += ["cosines", "sines"]
        constants |= rotary_caches(case, dtype)
    constants |= {"lens": np.full(case.batch, total - 1, np.int32), "total": np.array([total], np.int32),
                  "out_weight": given["out_weight"].T, "out_bias": given["out_bias"]}
    middle = fused("GroupQueryAttention", takes, "heads present_key present_value", num_heads=case.heads,
                   kv_num_heads=case.kv_heads, do_rotary=int(case.rotary))
    feeds, shape = {"x": given["x"]}, (case.batch, case.kv_heads, total, case.head_dim)
    if case.cached:
        for name in ("key", "value"):
            feeds["past_" + name] = np.zeros(shape, dtype)
            feeds["past_" + name][:, :, :-1] = given["cached_" + name]
    outputs = {"out": np.zeros(inputs.output_shape(case), dtype), "present_key": np.zeros(shape, dtype),
               "present_value": np.zeros(shape, dtype)}
    shared = {"present_key": "past_key", "present_value": "past_value"} if case.cached else {}
    return graphs.run([*start, middle, *END], feeds, constants, outputs, shared)


def encoder_layer(graphs, case, given):
    start, constants = projection_nodes(case, given)
    constants |= {"out_weight": given["out_weight"].T, "out_bias": given["out_bias"]}
    middle = fused("MultiHeadAttention", ["query", "key", "value"], "heads", num_heads=case.heads,
                   unidirectional=int(case.causal))
    feeds = {name: given[name] for name in ("x", "y") if name in given}
    return graphs.run([*start, middle, *END], feeds, constants,
                      {"out": np.zeros(inputs.output_shape(case), given["x"].dtype)})


def attention_operator(graphs, case, given):
    """The older Attention operator, which projects too."""
    constants = {"in_weight": given["in_weight"].T, "in_bias": given["in_bias"], "out_weight": given["out_weight"].T,
                 "out_bias": given["out_bias"]}
    nodes = [fused("Attention", ["x", "in_weight", "in_bias"], "heads", num_heads=case.heads,
                   unidirectional=int(case.causal)), *END]
    return graphs.run(nodes, {"x": given["x"]}, constants,
                      {"out": np.zeros(inputs.output_shape(case), given["x"].dtype)})


def multi_head_ways(graphs, case, given):
    if case.cached or case.rotary or case.heads != case.kv_heads:
        return {"GroupQueryAttention": lambda: decoder_layer(graphs, case, given)}
    found = {"MultiHeadAttention": lambda: encoder_layer(graphs, case, given)}
    if not case.cross:
        found["Attention with projections"] = lambda: attention_operator(graphs, case, given)
    return found
