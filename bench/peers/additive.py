#!/usr/bin/env python3
"""Times additive attention, whole calls in float32, with fovea, PyTorch and ONNX Runtime side by side.

  bench/peers/additive.py build/release/capi/libfovea.so [--threads 2] [--only nmt] [--compile]

Uses what can be imported of torch and onnxruntime (with onnx); needs numpy. The libraries take turns, block by block, so
that a machine that changes its speed favours none: medians over blocks, each after a rest in which the threads of the
one before stop spinning. Memory is what the largest resident size of a process of its own grows by, from before the
first call to after a few. The peers compute the formula as it is written
down, v . tanh(Wq q + Wk k), softmax, weighted sum: no library here has a call for it but fovea. --compile adds
torch.compile. For steady figures pin the threads (taskset -c 0,1) and keep freed memory: MALLOC_TRIM_THRESHOLD_=-1
MALLOC_MMAP_MAX_=0.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

BLOCKS = 9
BLOCK_SECONDS = 0.1
REST_SECONDS = 0.3
#          B   Q    K   hidden units; queries, keys and values are of the same size
SHAPES = {"seq2seq": (64, 1, 32, 256), "nmt": (32, 32, 32, 512), "long": (4, 256, 512, 256)}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 6), ("strides", ctypes.c_int64 * 6)]

    def __init__(self, array):
        """A view of a contiguous float32 array, which it keeps."""
        self.array = array
        super().__init__(array.ctypes.data, 1, array.ndim)
        self.shape[: array.ndim] = array.shape
        self.strides[: array.ndim] = [stride // array.itemsize for stride in array.strides]


class Score(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int32), ("sigma", ctypes.c_float)] + [
        (name, ctypes.POINTER(Tensor)) for name in
        ("query_weight", "key_weight", "weight", "bias", "score_vector", "sigmas")]


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("max_threads", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("max_isa", ctypes.c_char_p), ("parallel_for", ctypes.c_void_p), ("user", ctypes.c_void_p)]


def make_inputs(name):
    """query, key, value, Wq, Wk, v; weights such that units are about 0.5."""
    random = np.random.default_rng(0)
    batch, queries, keys, size = SHAPES[name]
    arrays = [random.standard_normal(shape, dtype=np.float32)
              for shape in ((batch, queries, size), (batch, keys, size), (batch, keys, size), (size, size), (size, size),
                            (size,))]
    for weight in arrays[3:5]:
        weight *= np.float32(0.5 * size**-0.5)
    return arrays


def fovea_way(inputs, threads, library):
    fovea = ctypes.CDLL(library)
    fovea.fovea_last_error.restype = ctypes.c_char_p

    def check(status):
        if status != 0:
            raise ValueError(fovea.fovea_last_error().decode())

    context = ctypes.c_void_p()
    options = ContextOptions(struct_size=ctypes.sizeof(ContextOptions), max_threads=threads)
    check(fovea.fovea_context_create(ctypes.byref(options), ctypes.byref(context)))
    out = np.empty(inputs[0].shape, np.float32)
    query, key, value, query_weight, key_weight, score_vector, result = [Tensor(array) for array in (*inputs, out)]
    score = Score(struct_size=ctypes.sizeof(Score), kind=2, query_weight=ctypes.pointer(query_weight),
                  key_weight=ctypes.pointer(key_weight), score_vector=ctypes.pointer(score_vector))
    arguments = [ctypes.byref(struct) for struct in (score, query, key, value, result)]

    def run():
        check(fovea.fovea_attention(context, *arguments, None))
        return out

    return run


def torch_way(inputs, threads, compiled):
    import torch

    torch.set_num_threads(threads)
    query, key, value, query_weight, key_weight, score_vector = [torch.from_numpy(array) for array in inputs]

    def attend():
        features = torch.tanh((query @ query_weight.T).unsqueeze(2) + (key @ key_weight.T).unsqueeze(1))
        return torch.bmm(torch.softmax(features @ score_vector, -1), value)

    called = torch.compile(attend) if compiled else attend

    def run():
        with torch.inference_mode():
            return called().numpy()

    return run


def onnx_way(inputs, threads):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    query, key, value, query_weight, key_weight, score_vector = inputs
    feeds = {"query": query, "key": key, "value": value}
    constants = {"query_weight": query_weight.T.copy(), "key_weight": key_weight.T.copy(),
                 "score_vector": score_vector, "one": np.array([1]), "two": np.array([2])}
    nodes = [helper.make_node(operator, inputs, [output], **attributes) for operator, inputs, output, attributes in (
        ("MatMul", ["query", "query_weight"], "projected_query", {}),
        ("MatMul", ["key", "key_weight"], "projected_key", {}),
        ("Unsqueeze", ["projected_query", "two"], "queries", {}),
        ("Unsqueeze", ["projected_key", "one"], "keys", {}),
        ("Add", ["queries", "keys"], "sums", {}),
        ("Tanh", ["sums"], "features", {}),
        ("MatMul", ["features", "score_vector"], "scores", {}),
        ("Softmax", ["scores"], "weights", {"axis": -1}),
        ("MatMul", ["weights", "value"], "out", {}))]
    graph = helper.make_graph(
        nodes, "additive",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)[0]


def ways(arguments):
    """{name: function of the inputs that makes the call}, of what can be imported."""
    threads, library = arguments.threads, arguments.library
    makers = {"fovea": lambda inputs: fovea_way(inputs, threads, library),
              "torch": lambda inputs: torch_way(inputs, threads, False),
              "onnxruntime": lambda inputs: onnx_way(inputs, threads)}
    if arguments.compile:
        makers["torch.compile"] = lambda inputs: torch_way(inputs, threads, True)
    for name, module in (("torch", "torch"), ("torch.compile", "torch"), ("onnxruntime", "onnxruntime")):
        try:
            __import__(module)
        except ImportError:
            makers.pop(name, None)
    return makers


def status_bytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024


def extra_bytes(run):
    """By how much calls raise the largest resident size of this process, which has made no other."""
    before = status_bytes("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the largest size so far is forgotten
    for _ in range(3):
        run()
    return status_bytes("VmHWM") - before


def in_a_process(arguments, shape, way):
    command = [sys.executable, __file__, arguments.library, "--threads", str(arguments.threads), "--memory", shape, way]
    if arguments.compile:
        command.append("--compile")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}  # frees what is freed
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=plain).stdout)


def seconds_per_run(run, runs):
    begin = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - begin) / runs


def compare(arguments, name):
    inputs = make_inputs(name)
    runs = {way: make(inputs) for way, make in ways(arguments).items()}
    expected = runs["fovea"]().copy()
    for way, run in runs.items():
        difference = float(np.abs(run() - expected).max())
        if not difference < 1e-4:
            sys.exit(f"{name}: {way} differs from fovea by {difference}")
    counts = {way: max(1, int(BLOCK_SECONDS / seconds_per_run(run, 2))) for way, run in runs.items()}
    seconds = {way: [] for way in runs}
    for _ in range(BLOCKS):
        for way, run in runs.items():
            time.sleep(REST_SECONDS)
            run()  # caches and threads are its own again
            seconds[way].append(seconds_per_run(run, counts[way]))
    fovea = statistics.median(seconds["fovea"])
    for way in runs:
        median = statistics.median(seconds[way])
        memory = in_a_process(arguments, name, way)
        print(f"{name:8} {way:14} {median * 1e3:9.3f} ms {median / fovea:7.1f} x {memory * 1e-6:9.1f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libfovea.so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (needs a C++ compiler)")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)  # a shape and a way: prints bytes
    arguments = parser.parse_args()
    if arguments.memory:
        shape, way = arguments.memory
        print(json.dumps(extra_bytes(ways(arguments)[way](make_inputs(shape)))))
        return
    names = [name for name in SHAPES if arguments.only in name]
    if not names:
        sys.exit(f"no shape contains {arguments.only!r}; there are {', '.join(SHAPES)}")
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", file=sys.stderr)
        compare(arguments, name)


if __name__ == "__main__":
    main()
