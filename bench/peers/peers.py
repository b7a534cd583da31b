#!/usr/bin/env python3
"""Times the benchmark's attention shapes with PyTorch and ONNX Runtime, float32.

  bench/peers/peers.py build/bench/fovea_bench [--threads 2] [--only bert]

Uses what can be imported of torch and onnxruntime (with onnx); needs numpy. The shapes come from
`fovea_bench --shapes` and the machine's limit from `fovea_bench --limits`, measured before and after every block of
every case, as the benchmark itself does: medians over blocks, and shares of the neighbouring limit, so that a machine
that changes its speed does not favour anyone. Only shapes that all can express are run: no window, soft-cap, bias or
mask but causality and valid lengths. A rate counts attended query-key pairs only (GFLOP/s), or the keys and values read
once (GB/s, decode). Each library is given its fastest public way: fused attention with enable_gqa where it exists
(PyTorch); a graph of MatMul and Softmax that its optimizer may fuse, and the fused MultiHeadAttention operator (ONNX
Runtime). For steady figures pin the threads (taskset -c 0,1) and keep freed memory:
MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

BLOCKS = 7
BLOCK_SECONDS = 0.03
COLD_BYTES = 2_000_000_000


def ask(binary, *arguments):
    return json.loads(subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout)


def make_inputs(shape):
    """query, one or more (key, value) pairs to go round, and the mask [B,1,1,K] or None."""
    random = np.random.default_rng(0)
    b, k = shape["batch"], shape["key_len"]
    query = random.standard_normal((b, shape["heads"], shape["query_len"], shape["head_dim"]), dtype=np.float32)
    key = random.standard_normal((b, shape["kv_heads"], k, shape["head_dim"]), dtype=np.float32)
    value = random.standard_normal((b, shape["kv_heads"], k, shape["value_dim"]), dtype=np.float32)
    copies = max(2, COLD_BYTES // (key.nbytes + value.nbytes)) if shape["cold"] else 1
    caches = [(key, value)] + [(key.copy(), value.copy()) for _ in range(copies - 1)]
    mask = None
    if shape["valid_lens"]:
        mask = np.arange(k) < np.array(shape["valid_lens"])[:, None]
        mask = mask[:, None, None, :]
    return query, caches, mask


def going_round(caches):
    """A function that gives the next cache each time."""
    state = {"next": 0}

    def advance():
        state["next"] = (state["next"] + 1) % len(caches)
        return caches[state["next"]]

    return advance


def torch_ways(shape, inputs, threads):
    """{name: function} for PyTorch, empty where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    query, caches, mask = inputs
    query = torch.from_numpy(query)
    cache = going_round([(torch.from_numpy(key), torch.from_numpy(value)) for key, value in caches])
    mask = None if mask is None else torch.from_numpy(mask)
    grouped = shape["heads"] != shape["kv_heads"]
    options = {"attn_mask": mask}
    if shape["causal"] and shape["query_len"] == shape["key_len"]:
        options["is_causal"] = True
    elif shape["causal"]:  # PyTorch's own causal mask stands top left; the cache needs it bottom right
        offset = shape["key_len"] - shape["query_len"]
        options["attn_mask"] = torch.ones(shape["query_len"], shape["key_len"], dtype=torch.bool).tril(offset)
    if grouped:
        options["enable_gqa"] = True

    def fused():
        with torch.inference_mode():
            key, value = cache()
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)

    ways = {"torch sdpa": fused}
    if shape["query_len"] == 1 and mask is None:
        rows = query.reshape(shape["batch"] * shape["kv_heads"], -1, shape["head_dim"])
        scale = shape["head_dim"] ** -0.5

        def packed_by_hand():  # the heads of a group as rows of one product
            with torch.inference_mode():
                key, value = cache()
                scores = torch.bmm(rows, key.flatten(0, 1).transpose(1, 2)).mul_(scale)
                return torch.bmm(torch.softmax(scores, -1), value.flatten(0, 1))

        ways["torch bmm"] = packed_by_hand
    return ways


def onnx_session(graph_nodes, graph_inputs, constants, threads):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        graph_nodes,
        "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in graph_inputs.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_ways(shape, inputs, threads):
    """{name: function} for ONNX Runtime, empty where it is not installed or the shape has grouped heads."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        from onnx import helper
    except ImportError:
        return {}
    if shape["heads"] != shape["kv_heads"]:
        return {}
    query, caches, mask = inputs
    cache = going_round(caches)
    q_len, k_len = shape["query_len"], shape["key_len"]
    allowed = np.ones((1, 1, q_len, k_len), bool)
    if mask is not None:
        allowed = allowed & mask
    if shape["causal"]:
        allowed = allowed & np.tril(np.ones((q_len, k_len), bool), k_len - q_len)
    masked = not allowed.all()
    bias = np.where(allowed, np.float32(0), np.float32(-1e30))
    feeds = {"q": query, "k": caches[0][0], "v": caches[0][1]}
    constants = {"scale": np.array(shape["head_dim"] ** -0.5, np.float32)} | ({"bias": bias} if masked else {})
    nodes = [
        helper.make_node("Transpose", ["k"], ["k_t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "k_t"], ["raw"]),
        helper.make_node("Mul", ["raw", "scale"], ["scaled"]),
        *([helper.make_node("Add", ["scaled", "bias"], ["scores"])] if masked else []),
        helper.make_node("Softmax", ["scores" if masked else "scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["out"]),
    ]
    graph = onnx_session(nodes, feeds, constants, threads)

    def run_graph():
        key, value = cache()
        return graph.run(None, {"q": query, "k": key, "v": value})

    ways = {"onnxruntime graph": run_graph}
    if not masked and shape["head_dim"] == shape["value_dim"]:
        # Fused, flash-like without a mask. Takes [B,L,H*D]; keys and values may stay [B,H,L,D].
        merged = np.ascontiguousarray(query.transpose(0, 2, 1, 3)).reshape(shape["batch"], q_len, -1)
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft",
                                num_heads=shape["heads"])
        fused = onnx_session([node], feeds | {"q": merged}, {}, threads)

        def run_fused():
            key, value = cache()
            return fused.run(None, {"q": merged, "k": key, "v": value})

        ways["onnxruntime fused"] = run_fused
    return ways


def seconds_per_run(run, runs):
    begin = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - begin) / runs


def measure(binary, shape, run, threads):
    """Median seconds, and median share of the limits measured before and after each block."""

    def shortest():
        limits = ask(binary, "--limits", str(threads))
        arithmetic = shape["flops"] / limits["flops"]
        return max(arithmetic, shape["bytes"] / limits["read_bytes"]) if shape["by_bytes"] else arithmetic

    run()
    runs = max(1, int(BLOCK_SECONDS / seconds_per_run(run, 1)))
    seconds, shares = [], []
    before = shortest()
    for _ in range(BLOCKS):
        run()  # the probe has cooled the caches
        taken = seconds_per_run(run, runs)
        after = shortest()
        seconds.append(taken)
        shares.append((before + after) / 2 / taken)
        before = after
    return statistics.median(seconds), statistics.median(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the fovea_bench executable")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    arguments = parser.parse_args()
    shapes = [s for s in ask(arguments.binary, "--shapes") if s["plain"] and arguments.only in s["name"]]
    print(f"{'shape':20} {'library':18} {'ms':>9} {'rate':>15} {'share':>6}")
    measured = 0
    for number, shape in enumerate(shapes, 1):
        print(f"[{number}/{len(shapes)}] {shape['name']}", file=sys.stderr)
        inputs = make_inputs(shape)
        ways = torch_ways(shape, inputs, arguments.threads) | onnx_ways(shape, inputs, arguments.threads)
        for name, run in ways.items():
            seconds, share = measure(arguments.binary, shape, run, arguments.threads)
            work, unit = (shape["bytes"], "GB/s") if shape["by_bytes"] else (shape["flops"], "GFLOP/s")
            rate = f"{work / seconds * 1e-9:.1f} {unit}"
            print(f"{shape['name']:20} {name:18} {seconds * 1e3:9.4f} {rate:>15} {share:6.1%}", flush=True)
            measured += 1
    if not measured:
        sys.exit("nothing measured: neither torch nor onnxruntime (with onnx) can be imported, or no shape matches")


if __name__ == "__main__":
    main()
