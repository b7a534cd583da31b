"""Which of the bench's cases are asked for, and how a result of Google Benchmark is read."""
# SPDX-License-Identifier: Apache-2.0
import re

RATES = ("GFLOP/s", "GB/s", "GElem/s", "GB/s (decode)")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

# One or more for each operation: what --quick measures and README.md shows, in that order. {case: (what, shape)}
CHOSEN = {
    "sdpa/f32/bert_base": ("encoder", "B1 H12 L512 D64"),
    "sdpa/f32/bert_batch": ("encoder, valid lengths 32 to 128", "B8 H12 L128 D64"),
    "sdpa/f32/gpt2": ("causal prompt", "B1 H12 L1024 D64"),
    "sdpa/f32/gpt2_dropout": ("the same with dropout", "B1 H12 L1024 D64"),
    "sdpa/f32/llama8b_prefill": ("causal prompt, grouped heads", "B1 H32/8 L2048 D128"),
    "sdpa/f32/long": ("long causal prompt", "B1 H8 L8192 D64"),
    "sdpa/f32/long_full": ("long, all to all", "B1 H8 L4096 D128"),
    "sdpa/f32/decode": ("decoding, from the caches", "B1 H32/8 Q1 K4096 D128"),
    "sdpa/f32/decode_cold": ("decoding, from memory", "B1 H32/8 Q1 K4096 D128"),
    "sdpa/f32/small": ("small, a planned run", "B2 H5 Q4 K6 D20"),
    "additive/f32/long": ("additive, whole call", "B4 Q256 K512 h256"),
    "additive/f32/nmt": ("additive, whole call", "B32 Q32 K32 h512"),
    "additive/f32/seq2seq": ("additive, whole call", "B64 Q1 K32 h256"),
    "additive_step/f32/seq2seq": ("additive, prepared keys", "B64 Q1 K32 h256"),
    "additive_tile/f32/long": ("additive, units alone", "B4 Q1024 K512 h256"),
    "gaussian/f32/bert_base": ("Gaussian scores (share: of the dot product's speed)", "B1 H12 L512 D64"),
    "multi_head/f32/b8_l128_768_12": ("multi-head attention", "B8 L128, 768, 12 heads"),
    "multi_head/f32/llama1b_step_1000": ("multi-head, a step with a cache", "1000 keys, 2048, 32/8 heads"),
    "linear/f32/512x3072x768_gelu": ("linear with gelu, packed", "512 × 3072 × 768"),
    "layer_norm/f32/4096x768": ("layer normalisation", "4096 × 768"),
    "rotary/f32/llama8b_query_halves": ("rotary, half-split", "B1 H32 L2048 D128"),
    "masked_softmax/f32/512x512x512_per_sequence": ("masked softmax", "512 × 512 × 512"),
    "matmul_packed/f32/2048x768x768": ("matmul, packed", "2048 × 768 × 768"),
    "matmul/f32/2048x2048x2048": ("matmul, one shot", "2048 × 2048 × 2048"),
    "exp/f32/4096": ("exponentials, one thread", "4096"),
}
LEFT_OUT_WHEN_QUICK = (
    "sdpa/f32/llama8b_prefill",
    "sdpa/f32/long",
    "sdpa/f32/long_full",
    "sdpa/f32/gpt2_dropout",
    "matmul/f32/2048x2048x2048",
    "masked_softmax/f32/512x512x512_per_sequence",
)

# Measured with the second best instruction set, too.
BOTH_WHEN_QUICK = ("sdpa/f32/bert_base", "sdpa/f32/gpt2", "sdpa/f32/decode", "additive/f32/nmt", "exp/f32/4096")

# What others are asked for: one or more for each operation that one of them has; in a quick run.
CHOSEN_PEERS = (
    "sdpa/f32/bert_base",
    "sdpa/f32/gpt2",
    "sdpa/f32/decode",
    "additive/f32/long",
    "additive/f32/seq2seq",
    "gaussian/f32/bert_base",
    "multi_head/f32/b8_l128_768_12",
    "masked_softmax/f32/512x512x512_per_sequence",
    "matmul_packed/f32/2048x768x768",
    "exp/f32/4096",
)
QUICK_PEERS = ("sdpa/f32/bert_base", "sdpa/f32/decode", "additive/f32/nmt")


def pattern_of(names):
    return "^(" + "|".join(names) + ")$"


def split(name):
    """("sdpa/f32/bert_base", "avx512", 2) of "sdpa/f32/bert_base/avx512/t2"."""
    case, isa, threads = name.rsplit("/", 2)
    return case, isa, int(threads.removeprefix("t"))


def chosen_filter(names, quick, only=None):
    """A pattern for the chosen cases (those that match `only`) on all threads, with the two best instruction sets;
    decoding on one thread, too: that tells how fast one thread reads."""
    runs = [split(name) for name in names]
    isas = list(dict.fromkeys(isa for _, isa, _ in runs if isa != "amx"))
    most = {case: max(threads for other, _, threads in runs if other == case) for case, _, _ in runs}
    wanted = []
    for name, (case, isa, threads) in zip(names, runs):
        chosen = case in CHOSEN and isa in isas[-2:] and not (quick and case in LEFT_OUT_WHEN_QUICK)
        chosen = chosen and (not quick or isa == isas[-1] or case in BOTH_WHEN_QUICK)
        chosen = chosen and re.search(only or "", name)
        alone = "/decode" in case and isa == isas[-1]
        if chosen and (threads == most[case] or alone):
            wanted.append(name)
    return "^(" + "|".join(wanted) + ")(/|$)"


def result(run):
    """One run of Google Benchmark's JSON as a plain record."""
    case, isa, threads = split(run["name"])
    operation, dtype, shape = case.split("/", 2)
    record = {"case": case, "operation": operation, "dtype": dtype, "shape": shape, "isa": isa, "threads": threads}
    if run.get("error_occurred"):
        return record | {"error": run.get("error_message", "failed")}
    record["seconds"] = run["real_time"] * UNITS[run["time_unit"]]
    for rate in RATES:
        if rate in run:
            record |= {"rate": run[rate], "rate_unit": rate}
    known = {
        "name",
        "run_name",
        "run_type",
        "repetitions",
        "repetition_index",
        "threads",
        "iterations",
        "real_time",
        "cpu_time",
        "time_unit",
        "family_index",
        "per_family_instance_index",
        *RATES,
    }
    return record | {name: value for name, value in run.items() if name not in known}
