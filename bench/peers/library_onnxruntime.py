"""ONNX Runtime: graphs of standard operators, which its optimizer may fuse, and its fused attention operators."""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import inputs
import onnx_attention
from array_library import ArrayLibrary
from worker import Unsupported

ELEMENT_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
                 np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64,
                 np.dtype(np.bool_): TensorProto.BOOL}


def node(operator, takes, gives, **attributes):
    return helper.make_node(operator, takes, gives.split() if isinstance(gives, str) else gives, **attributes)


def fused(operator, takes, gives, **attributes):
    return node(operator, takes, gives, domain="com.microsoft", **attributes)


class Graphs:
    """Makes runs of graphs whose inputs and outputs are bound to memory once."""

    def __init__(self, threads):
        self._threads = threads

    def session(self, nodes, feeds, constants, outputs):
        graph = helper.make_graph(
            nodes, "case",
            [helper.make_tensor_value_info(name, ELEMENT_TYPES[array.dtype], array.shape) for name, array in feeds.items()],
            [helper.make_tensor_value_info(name, ELEMENT_TYPES[array.dtype], array.shape)
             for name, array in outputs.items()],
            [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()])
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, nodes, feeds, constants, outputs, shared=None):
        """feeds: {name: array}, or several of them to go round. shared: {output: input whose memory it is}."""
        rounds = feeds if isinstance(feeds, list) else [feeds]
        session = self.session(nodes, rounds[0], constants, outputs)
        results = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in outputs.items()
                   if name not in (shared or {})}
        bindings = [self._binding(session, feed, results, shared or {}) for feed in rounds]
        next_binding = inputs.going_round(bindings)
        out = results[next(iter(outputs))]

        def run():
            session.run_with_iobinding(next_binding())
            return out

        return run

    def _binding(self, session, feed, results, shared):
        binding = session.io_binding()
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
                  for name, array in feed.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in results.items():
            binding.bind_ortvalue_output(name, value)
        for output, name in shared.items():
            binding.bind_ortvalue_output(output, values[name])
        return binding


def zeros(case, shape=None):
    return np.zeros(shape or inputs.output_shape(case), np.float16 if case.dtype == "f16" else np.float32)


# ---- operations of their own -----------------------------------------------------------------------------------------

def matmul_ways(graphs, case, given):
    constants = {"b": given["b"]} if case.packed else {}
    feeds = {name: array for name, array in given.items() if name not in constants}
    return {"MatMul": lambda: graphs.run([node("MatMul", ["a", "b"], "out")], feeds, constants, {"out": zeros(case)})}


def linear_ways(graphs, case, given):
    activations = {"none": [], "relu": [node("Relu", ["biased"], "active")],
                   "gelu": [node("Gelu", ["biased"], "active")],
                   "gelu_tanh": [node("Gelu", ["biased"], "active", approximate="tanh")],
                   "silu": [node("Sigmoid", ["biased"], "gate"), node("Mul", ["biased", "gate"], "active")]}
    nodes = [node("MatMul", ["a", "b"], "product")]
    last = "product"
    if "bias" in given:
        nodes.append(node("Add", ["product", "bias"], "biased"))
        last = "biased"
    else:
        nodes[0].output[0] = last = "biased"
    nodes += activations[case.activation or "none"]
    if nodes[-1].output[0] == "active":
        last = "active"
    if "residual" in given:
        nodes.append(node("Add", [last, "residual"], "out"))
    nodes[-1].output[0] = "out"
    constants = {name: given[name] for name in ("b", "bias") if name in given}
    feeds = {name: array for name, array in given.items() if name not in constants}
    return {"MatMul and the rest, as fused": lambda: graphs.run(nodes, feeds, constants, {"out": zeros(case)})}


def layer_norm_ways(graphs, case, given):
    constants = {name: given[name] for name in ("weight", "bias")}
    feeds = {name: array for name, array in given.items() if name not in constants}
    if "residual" not in given:
        nodes = [node("LayerNormalization", ["x", "weight", "bias"], "out", axis=-1, epsilon=1e-5)]
        return {"LayerNormalization": lambda: graphs.run(nodes, feeds, constants, {"out": zeros(case)})}
    feeds = {name: array[None] for name, array in feeds.items()}  # it wants [B,L,E]
    nodes = [fused("SkipLayerNormalization", ["x", "residual", "weight", "bias"], "out", epsilon=1e-5)]
    out = zeros(case, (1, case.rows, case.features))
    return {"SkipLayerNormalization": lambda: graphs.run(nodes, feeds, constants, {"out": out})}


def elementwise_ways(graphs, case, given):
    name = case.operation.capitalize()
    return {name: lambda: graphs.run([node(name, ["x"], "out")], given, {}, {"out": zeros(case, (case.count,))})}


def masked_softmax_ways(graphs, case, given):
    lens = inputs.lens_of(case)
    nodes, constants, feeds = [node("Softmax", ["x"], "out", axis=-1)], {}, dict(given)
    if lens is not None:
        feeds["lens"] = lens.reshape(case.batch, case.query_len if case.length_per_query else 1, 1)
        constants = {"keys": np.arange(case.key_len, dtype=np.int32), "hidden": np.array(-np.inf, given["x"].dtype)}
        nodes = [node("Less", ["keys", "lens"], "valid"), node("Where", ["valid", "x", "hidden"], "scores"),
                 node("Softmax", ["scores"], "out", axis=-1)]
    return {"Where and Softmax": lambda: graphs.run(nodes, feeds, constants, {"out": zeros(case)})}


# ---- score functions -------------------------------------------------------------------------------------------------

def length_nodes(case, constants):
    """Nodes from "raw" to "scores": keys behind the valid length get -infinity."""
    lens = inputs.lens_of(case)
    if lens is None:
        return [node("Identity", ["raw"], "scores")]
    constants["mask"] = np.where(np.arange(case.key_len) < lens[:, None, None], np.float32(0), np.float32(-np.inf))
    return [node("Add", ["raw", "mask"], "scores")]


def additive_ways(graphs, case, given):
    feeds = {name: given[name][:, 0] for name in ("query", "key", "value")}
    if case.score == "concat":
        query_weight, key_weight = np.split(given["weight"], [case.query_dim], axis=1)
    else:
        query_weight, key_weight = given["query_weight"], given["key_weight"]
    constants = {"query_weight": query_weight.T, "score_vector": given["score_vector"], "one": np.array([1]),
                 "two": np.array([2])}
    nodes = [node("MatMul", ["query", "query_weight"], "projected_query")]
    if case.prepared_keys:
        feeds["projected_key"] = feeds.pop("key") @ key_weight.T
    else:
        constants["key_weight"] = key_weight.T
        nodes.append(node("MatMul", ["key", "key_weight"], "projected_key"))
    nodes += [node("Unsqueeze", ["projected_query", "two"], "queries"),
              node("Unsqueeze", ["projected_key", "one"], "keys"), node("Add", ["queries", "keys"], "sums"),
              node("Tanh", ["sums"], "features"), node("MatMul", ["features", "score_vector"], "raw"),
              *length_nodes(case, constants), node("Softmax", ["scores"], "weights", axis=-1),
              node("MatMul", ["weights", "value"], "out")]
    out = zeros(case, (case.batch, case.query_len, case.value_dim))
    return {"Tanh of all sums": lambda: graphs.run(nodes, feeds, constants, {"out": out})}


def distance_nodes(inverse, constants, dtype):
    """Of the squared distance only q.k and |k|^2 differ between the keys of a row."""
    constants |= {"inverse": np.array(inverse, dtype), "half": np.array(-0.5 * inverse, dtype), "last": np.array([-1]),
                  "row": np.array([-2])}
    return [node("MatMul", ["query", "turned"], "products"), node("Mul", ["products", "inverse"], "scaled"),
            node("Mul", ["key", "key"], "squares"), node("ReduceSum", ["squares", "last"], "sums", keepdims=0),
            node("Mul", ["sums", "half"], "halves"), node("Unsqueeze", ["halves", "row"], "norms"),
            node("Add", ["scaled", "norms"], "scores"), node("Softmax", ["scores"], "weights", axis=-1),
            node("MatMul", ["weights", "value"], "out")]


def gaussian_ways(graphs, case, given):
    constants = {}
    axes = [*range(given["key"].ndim - 2), given["key"].ndim - 1, given["key"].ndim - 2]
    nodes = [node("Transpose", ["key"], "turned", perm=axes),
             *distance_nodes(1 / case.sigma**2, constants, given["key"].dtype)]
    return {"MatMul and Softmax": lambda: graphs.run(nodes, given, constants, {"out": zeros(case)})}


def bilinear_ways(graphs, case, given):
    constants = {"weight": given["weight"]}
    feeds = {name: given[name] for name in ("query", "key", "value")}
    start = [node("MatMul", ["query", "weight"], "projected")]
    end = [node("Transpose", ["key"], "turned", perm=[0, 1, 3, 2]), node("MatMul", ["projected", "turned"], "scores"),
           node("Softmax", ["scores"], "weights", axis=-1), node("MatMul", ["weights", "value"], "out")]
    standard = [node("Attention", ["projected", "key", "value"], "out", scale=1.0)]
    out = {"out": zeros(case)}
    return {"MatMul and Softmax": lambda: graphs.run(start + end, feeds, constants, out),
            "MatMul and Attention": lambda: graphs.run(start + standard, feeds, constants, out)}


def score_ways(graphs, case, given):
    ways = {"gaussian": gaussian_ways, "bilinear": bilinear_ways}
    return ways.get(case.score, additive_ways)(graphs, case, given)


WAYS = {"sdpa": onnx_attention.ways, **dict.fromkeys(inputs.SCORES, score_ways), "kernel_regression": gaussian_ways,
        "masked_softmax": masked_softmax_ways, "matmul": matmul_ways, "matmul_packed": matmul_ways,
        "linear": linear_ways, "layer_norm": layer_norm_ways, "multi_head": onnx_attention.multi_head_ways,
        "exp": elementwise_ways, "tanh": elementwise_ways}


class OnnxRuntime(ArrayLibrary):
    name, version, types = "onnxruntime", onnxruntime.__version__, ["f32", "f16"]
    untried = {"bf16": "its CPU kernels take no bfloat16"}

    def __init__(self, threads):
        self._graphs = Graphs(threads)

    def ways(self, case):
        if case.operation not in WAYS:
            raise Unsupported("no such operation")
        given = {name: inputs.stored_as(array, case.dtype) for name, array in inputs.make(case).items()}
        return WAYS[case.operation](self._graphs, case, given)

    def output(self, result, case):
        out = inputs.as_float(result.numpy())
        if case.operation == "sdpa" and out.ndim == 3:  # [B,Q,H*Dv]
            out = out.reshape(case.batch, case.query_len, case.heads, case.value_dim).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(out).reshape(inputs.output_shape(case))


def make(threads):
    return OnnxRuntime(int(threads))
