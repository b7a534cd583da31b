"""OpenVINO: graphs of its operators, compiled for low latency, on tensors that stay where they are."""
import numpy as np
import openvino as ov
from openvino import opset15 as op

import inputs
from array_library import ArrayLibrary
from worker import Unsupported

TYPES = {"f32": ov.Type.f32, "bf16": ov.Type.bf16, "f16": ov.Type.f16}
MOST_SCORE_BYTES = 2 << 30


class Graph:
    """A graph of one case being built."""

    def __init__(self, case, feeds):
        self.case = case
        self.kind = TYPES[case.dtype]
        self.feeds = feeds
        self.inputs = {name: op.parameter(list(array.shape), self.kind if array.dtype != np.int32 else ov.Type.i32, name)
                       for name, array in feeds.items()}

    def __getitem__(self, name):
        return self.inputs[name]

    def constant(self, array):
        constant = op.constant(np.asarray(array, np.float32))
        return constant if self.kind == ov.Type.f32 else op.convert(constant, self.kind)

    def product(self, a, b, transposed=False):
        return op.matmul(a, b, False, transposed)


class Runner:
    def __init__(self, threads):
        self._core = ov.Core()
        self._threads = threads

    def run(self, graph, out, copies=1):
        """Compiles it; a run infers once. With copies, keys and values are gone round."""
        model = ov.Model([out], list(graph.inputs.values()), "case")
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self._threads, "NUM_STREAMS": 1,
                  "INFERENCE_PRECISION_HINT": graph.case.dtype}
        compiled = self._core.compile_model(model, "CPU", config)
        requests = [self._request(compiled, graph) for _ in range(copies)]
        next_request = inputs.going_round([request for request, _ in requests])

        def run(kept=requests):  # a request does not keep its tensors' memory
            request = next_request()
            request.infer(share_outputs=True)
            return request

        return run

    def _request(self, compiled, graph):
        """A request with copies of the inputs, and what it needs kept."""
        request = compiled.create_infer_request()
        kept = []
        for index, array in enumerate(graph.feeds.values()):
            memory = inputs.aligned_copy(np.ascontiguousarray(
                array if array.dtype == np.int32 else inputs.stored_as(array, graph.case.dtype)))
            kept += [memory, tensor(memory)]
            request.set_input_tensor(index, kept[-1])
        return request, kept


def tensor(memory):
    if memory.dtype == np.uint16:
        return ov.Tensor(memory, ov.Shape(memory.shape), ov.Type.bf16)
    return ov.Tensor(memory, shared_memory=True)


# ---- the operations --------------------------------------------------------------------------------------------------

ACTIVATIONS = {"none": lambda x: x, "relu": op.relu, "gelu": lambda x: op.gelu(x, "erf"),
               "gelu_tanh": lambda x: op.gelu(x, "tanh"), "silu": lambda x: op.multiply(x, op.sigmoid(x))}


def matmul_ways(runner, case, given):
    def make():
        constant = case.packed
        graph = Graph(case, {"a": given["a"]} if constant else {"a": given["a"], "b": given["b"]})
        return runner.run(graph, graph.product(graph["a"], graph.constant(given["b"]) if constant else graph["b"]))

    return {"MatMul": make}


def linear_ways(runner, case, given):
    def make():
        graph = Graph(case, {name: given[name] for name in ("a", "residual") if name in given})
        out = graph.product(graph["a"], graph.constant(given["b"].T.copy()), True)
        if "bias" in given:
            out = op.add(out, graph.constant(given["bias"][None]))
        out = ACTIVATIONS[case.activation or "none"](out)
        return runner.run(graph, op.add(out, graph["residual"]) if "residual" in given else out)

    return {"MatMul and the rest, as fused": make}


def layer_norm_ways(runner, case, given):
    def make():
        graph = Graph(case, {name: given[name] for name in ("x", "residual") if name in given})
        x = op.add(graph["x"], graph["residual"]) if "residual" in given else graph["x"]
        normal = op.mvn(x, op.constant(np.array([1])), True, 1e-5, "inside_sqrt")
        scaled = op.multiply(normal, graph.constant(given["weight"][None]))
        return runner.run(graph, op.add(scaled, graph.constant(given["bias"][None])))

    return {"MVN, scale and shift": make}


def elementwise_ways(runner, case, given):
    def make():
        graph = Graph(case, given)
        return runner.run(graph, getattr(op, case.operation)(graph["x"]))

    return {case.operation.capitalize(): make}


def masked_softmax_ways(runner, case, given):
    lens = inputs.lens_of(case)

    def make():
        feeds = dict(given)
        if lens is not None:
            feeds["lens"] = lens.reshape(case.batch, case.query_len if case.length_per_query else 1, 1)
        graph = Graph(case, feeds)
        x = graph["x"]
        if lens is not None:
            valid = op.less(op.constant(np.arange(case.key_len, dtype=np.int32)), graph["lens"])
            x = op.select(valid, x, graph.constant(-np.inf))
        return runner.run(graph, op.softmax(x, 2))

    return {"Select and Softmax": make}


def additive_ways(runner, case, given):
    def make():
        if case.score == "concat":
            query_weight, key_weight = np.split(given["weight"], [case.query_dim], axis=1)
        else:
            query_weight, key_weight = given["query_weight"], given["key_weight"]
        feeds = {name: given[name][:, 0] for name in ("query", "key", "value")}
        if case.prepared_keys:
            feeds["key"] = feeds["key"] @ key_weight.T
        graph = Graph(case, feeds)
        queries = graph.product(graph["query"], graph.constant(query_weight.copy()), True)
        keys = graph["key"] if case.prepared_keys else graph.product(graph["key"], graph.constant(key_weight.copy()), True)
        features = op.tanh(op.add(op.unsqueeze(queries, op.constant([2])), op.unsqueeze(keys, op.constant([1]))))
        scores = op.squeeze(graph.product(features, graph.constant(given["score_vector"][:, None])), op.constant([3]))
        lens = inputs.lens_of(case)
        if lens is not None:
            hidden = np.arange(case.key_len) >= lens[:, None, None]
            scores = op.add(scores, graph.constant(np.where(hidden, -1e30, 0)))
        return runner.run(graph, graph.product(op.softmax(scores, 2), graph["value"]))

    return {"Tanh of all sums": make}


def score_ways(runner, case, given):
    if case.score not in ("gaussian", "bilinear"):
        return additive_ways(runner, case, given)

    def make(attention):
        graph = Graph(case, {name: given[name] for name in ("query", "key", "value")})
        query, key, value = graph["query"], graph["key"], graph["value"]
        if case.score == "bilinear":
            return runner.run(graph, attention(graph, graph.product(query, graph.constant(given["weight"])), key, value,
                                               1.0, None))
        norms = op.reduce_sum(op.multiply(key, key), op.constant([3]))
        norms = op.unsqueeze(op.multiply(norms, graph.constant(-0.5 / case.sigma**2)), op.constant([2]))
        return runner.run(graph, attention(graph, query, key, value, case.sigma**-2, norms))

    return {"MatMul and Softmax": lambda: make(by_products),
            "ScaledDotProductAttention": lambda: make(by_operator)}


def regression_ways(runner, case, given):
    four = {name: array[None, None] for name, array in given.items()}

    def make():
        graph = Graph(case, four)
        norms = op.reduce_sum(op.multiply(graph["key"], graph["key"]), op.constant([3]))
        norms = op.unsqueeze(op.multiply(norms, graph.constant(-0.5 / case.sigma**2)), op.constant([2]))
        return runner.run(graph, by_products(graph, graph["query"], graph["key"], graph["value"], case.sigma**-2, norms))

    return {"MatMul and Softmax": make}


# ---- attention -------------------------------------------------------------------------------------------------------

def by_products(graph, query, key, value, scale, mask):
    scores = op.multiply(graph.product(query, key, True), graph.constant(scale))
    scores = scores if mask is None else op.add(scores, mask)
    return graph.product(op.softmax(scores, 3), value)


def by_operator(graph, query, key, value, scale, mask, causal=False):
    mask = graph.constant(0.0) if mask is None else mask
    return op.scaled_dot_product_attention(query, key, value, mask, graph.constant(scale), causal=causal)


def bias_of(case, given):
    """What is added to the scores, [B or 1, H or 1, Q or 1, K]; None: nothing."""
    bias, allowed = None, inputs.allowed_keys(case)
    if allowed is not None:
        bias = np.where(allowed, np.float32(0), np.float32(-6e4 if case.dtype == "f16" else -1e30))
    if case.bias:
        bias = given["bias"] if bias is None else bias + given["bias"]
    if case.alibi:
        offset = max(0, case.key_len - case.query_len)
        distances = np.abs(np.arange(case.query_len)[:, None] + offset - np.arange(case.key_len))
        slopes = -given["slopes"][None, :, None, None] * distances.astype(np.float32)
        bias = slopes if bias is None else bias + slopes
    return bias


def repeated(graph, x, group):
    """[B,Hkv,L,D] -> [B,H,L,D]"""
    if group == 1:
        return x
    batch, heads, length, size = x.get_output_partial_shape(0).to_shape()
    wide = op.broadcast(op.unsqueeze(x, op.constant([2])), op.constant([batch, heads, group, length, size]))
    return op.reshape(wide, op.constant([batch, heads * group, length, size]), False)


def sdpa_ways(runner, case, given):
    if case.softcap or case.sinks:
        raise Unsupported("no soft-cap and no sink in its operator")
    if case.weights:
        raise Unsupported("its operator returns no weights")
    bias, group = bias_of(case, given), case.heads // case.kv_heads
    scale = case.scale or case.head_dim**-0.5
    one = (given["key"].nbytes + given["value"].nbytes) * (4 if case.dtype == "f32" else 2) // 4
    copies = inputs.cache_copies(case, one)
    square = bool(case.causal and case.query_len == case.key_len and case.window_left < 0)
    only_causal = square and not (case.valid_lens or case.bias or case.alibi)

    def make(attention, rows, causal=False):
        query = given["query"].reshape(case.batch, case.kv_heads, -1, case.head_dim) if rows else given["query"]
        feeds = {"query": query, "key": given["key"], "value": given["value"]}
        if bias is not None and not causal:
            feeds["mask"] = np.broadcast_to(bias, (*bias.shape[:2], 1 if rows else case.query_len, case.key_len))
        graph = Graph(case, feeds)
        key, value = (repeated(graph, graph[name], 1 if rows else group) for name in ("key", "value"))
        options = {"causal": True} if causal else {}
        out = attention(graph, graph["query"], key, value, scale, graph.inputs.get("mask"), **options)
        return runner.run(graph, out, copies)

    found = {"ScaledDotProductAttention": lambda: make(by_operator, False, only_causal)}
    if group > 1 and (case.query_len == 1 or bias is None):
        found["ScaledDotProductAttention, heads of a group as rows"] = lambda: make(by_operator, True)
        found["MatMul and Softmax, heads of a group as rows"] = lambda: make(by_products, True)
    elif case.batch * case.heads * case.query_len * case.key_len * 4 <= MOST_SCORE_BYTES:
        found["MatMul and Softmax"] = lambda: make(by_products, False)
    return found


def multi_head_ways(runner, case, given):
    if case.cached or case.rotary:
        raise Unsupported("no cache and no rotary embedding outside whole models")
    width, sizes = case.kv_heads * case.head_dim, (case.hidden, case.kv_heads * case.head_dim)

    def make():
        graph = Graph(case, {name: given[name] for name in ("x", "y") if name in given})
        source = graph["y"] if case.cross else graph["x"]
        bounds = np.cumsum([0, sizes[0], width, width])
        heads = []
        for number, x in enumerate((graph["x"], source, source)):
            part = slice(bounds[number], bounds[number + 1])
            rows = op.add(graph.product(x, graph.constant(given["in_weight"][part]), True),
                          graph.constant(given["in_bias"][part][None, None]))
            split = op.reshape(rows, op.constant([0, 0, -1, case.head_dim]), True)
            heads.append(op.transpose(split, op.constant([0, 2, 1, 3])))
        attended = by_operator(graph, *heads, case.head_dim**-0.5, None)
        joined = op.reshape(op.transpose(attended, op.constant([0, 2, 1, 3])), op.constant([0, 0, -1]), True)
        out = graph.product(joined, graph.constant(given["out_weight"]), True)
        return runner.run(graph, op.add(out, graph.constant(given["out_bias"][None, None])))

    return {"MatMul and ScaledDotProductAttention": make}


WAYS = {"sdpa": sdpa_ways, **dict.fromkeys(inputs.SCORES, score_ways), "kernel_regression": regression_ways,
        "masked_softmax": masked_softmax_ways, "matmul": matmul_ways, "matmul_packed": matmul_ways,
        "linear": linear_ways, "layer_norm": layer_norm_ways, "multi_head": multi_head_ways, "exp": elementwise_ways,
        "tanh": elementwise_ways}


class OpenVino(ArrayLibrary):
    name, version, types = "openvino", ov.__version__, list(TYPES)

    def __init__(self, threads):
        self._runner = Runner(threads)

    def ways(self, case):
        if case.operation not in WAYS:
            raise Unsupported("no such operation")
        return WAYS[case.operation](self._runner, case, inputs.make(case))

    def output(self, request, case):
        result = request.get_output_tensor(0)
        data = result.data
        if result.element_type == ov.Type.bf16:
            data = data.view(np.uint16)
        return inputs.as_float(data).reshape(inputs.output_shape(case))


def make(threads):
    return OpenVino(int(threads))
