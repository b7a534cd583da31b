#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the program smollm2 beside the formula in NumPy, float64 throughout, on the same weights.

    check.py PROGRAM MODEL

Logits behind each of 64 tokens, with weights in float32, in bfloat16 and in 8 bits and caches of every type: the largest difference, and
the Kullback-Leibler divergence of the next token's distribution. Then 200 tokens of a greedy answer in float32, each of which has to
be what float64 would choose there, unless its two likeliest tokens are nearer to each other than that difference allows to tell.
Where transformers and PyTorch are installed, their logits in float32 are held beside float64's, too.
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers

LAYERS, HIDDEN, HEADS, KV_HEADS, VOCABULARY, BASE, EPSILON = 30, 576, 9, 3, 49152, 100000.0, 1e-5
DIM = HIDDEN // HEADS
TEXT = ("The history of the lighthouse begins long before electricity. Fires were lit on hills, and later on towers of stone, so "
        "that ships could find the harbour at night; keepers carried wood, then oil, up hundreds of steps every evening. A lens of "
        "glass, ground by hand, gathered the light into a beam that could be seen from twenty miles away in clear weather.")
QUESTION = "<|im_start|>user\nTell me a long story about a lighthouse keeper.<|im_end|>\n<|im_start|>assistant\n"


class Weights:
    def __init__(self, path):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            self.header = json.loads(file.read(size))
        self.data = np.memmap(path, mode="r", offset=8 + size)

    def __getitem__(self, name):
        entry = self.header[name + ".weight"]
        begin, end = entry["data_offsets"]
        return self.data[begin:end].view("<f4").reshape(entry["shape"]).astype(np.float64)


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


class Reference:
    """The logits behind each of some tokens."""

    def __init__(self, path):
        self.weights = Weights(path)

    @staticmethod
    def turned(x):
        """[tokens, heads, DIM], neighbouring features together."""
        angle = np.arange(len(x))[:, None, None] * BASE ** (-2.0 * np.arange(DIM // 2) / DIM)
        even, odd = x[:, :, 0::2], x[:, :, 1::2]
        out = np.empty_like(x)
        out[:, :, 0::2] = even * np.cos(angle) - odd * np.sin(angle)
        out[:, :, 1::2] = even * np.sin(angle) + odd * np.cos(angle)
        return out

    def attended(self, layer, x):
        query, key, value = ((x @ self.weights[f"{layer}.attn_{name}"].T).reshape(len(x), -1, DIM) for name in "qkv")
        query, key = self.turned(query), self.turned(key)
        out = np.empty_like(query)
        hidden = np.triu(np.full((len(x), len(x)), -np.inf), 1)
        for head in range(HEADS):
            of = head // (HEADS // KV_HEADS)
            out[:, head] = np.exp(log_softmax(query[:, head] @ key[:, of].T / np.sqrt(DIM) + hidden)) @ value[:, of]
        return out.reshape(len(x), HIDDEN) @ self.weights[f"{layer}.attn_output"].T

    def logits(self, tokens):
        embedding = self.weights["token_embd"]
        x = embedding[tokens]
        for number in range(LAYERS):
            layer = f"blk.{number}"
            x = x + self.attended(layer, rms_norm(x, self.weights[f"{layer}.attn_norm"]))
            h = rms_norm(x, self.weights[f"{layer}.ffn_norm"])
            gate = h @ self.weights[f"{layer}.ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ self.weights[f"{layer}.ffn_up"].T)) @ self.weights[f"{layer}.ffn_down"].T
        return rms_norm(x, self.weights["output_norm"]) @ embedding.T


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def logits_of(program, model, tokens, *options):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program, *options, model, "logits", file.name], input=" ".join(map(str, tokens)) + "\n", text=True,
                       check=True)
        return np.fromfile(file.name, "<f4").reshape(-1, VOCABULARY).astype(np.float64)


def check_logits(program, model, reference, tokens):
    """The largest difference of float32, and whether all are as near as they should be."""
    truth, good, differences = reference.logits(tokens), True, []
    expected = log_softmax(truth)
    print(f"logits behind {len(tokens)} tokens against float64; they span {truth.min():.1f} to {truth.max():.1f}")
    for weights, cache, most in (("f32", "f32", 1e-3), ("f32", "bf16", 1.0), ("f32", "i8", 2.0), ("f32", "i8u4", 4.0),
                                 ("bf16", "bf16", 3.0), ("bf16", "i8", 3.0), ("bf16", "i8u4", 4.0), ("i8", "bf16", 3.0),
                                 ("i8", "i8", 3.0)):
        found = logits_of(program, model, tokens, "--weights", weights, "--cache", cache)
        differences.append(np.abs(found - truth).max())
        divergence = (np.exp(expected) * (expected - log_softmax(found))).sum(-1).mean()
        farthest = 1e-2 if cache == "i8u4" else 5e-3 if weights == "i8" else 1e-3  # 4 bits: 7e-3
        near = differences[-1] <= most and divergence <= farthest
        same = (found.argmax(-1) == truth.argmax(-1)).mean()
        good = good and near
        print(f"  weights {weights:4} cache {cache:4}  largest difference {differences[-1]:.2e}, divergence {divergence:.1e}, "
              f"the same likeliest token {same:.0%}{'' if near else '  TOO FAR'}")
    return differences[0], good


def check_transformers(reference, tokens):
    """Another's formula: that NumPy's is the right one."""
    if not all(importlib.util.find_spec(package) for package in ("transformers", "torch")):
        print("  transformers: not installed, so left out")
        return True
    import transformers_model

    found = transformers_model.logits(reference.weights, tokens, layers=LAYERS, heads=HEADS, kv_heads=KV_HEADS, base=BASE,
                                      epsilon=EPSILON)
    difference = np.abs(found - reference.logits(tokens)).max()
    good = difference <= 1e-3
    print(f"  transformers in float32      largest difference {difference:.2e}{'' if good else '  TOO FAR'}")
    return good


def check_greedy(program, model, reference, tokens, difference):
    """Each token chosen is float64's, too, unless its two likeliest are nearer to each other than float32 can tell."""
    chosen = logits_of(program, model, tokens, "--weights", "f32", "--cache", "f32", "--more", "200").argmax(-1)
    chosen = chosen[len(tokens) - 1:-1]
    truth = reference.logits([*tokens, *chosen])[len(tokens) - 1:-1]
    margins = truth.max(-1) - truth[np.arange(len(chosen)), chosen]
    ties, wrong = np.flatnonzero((margins > 0) & (margins <= 2 * difference)), np.flatnonzero(margins > 2 * difference)
    for at in ties:
        print(f"  token {at}: a tie, {margins[at]:.1e} apart")
    print(f"of {len(chosen)} greedy tokens {len(chosen) - len(ties) - len(wrong)} are float64's, {len(ties)} are ties, "
          f"{len(wrong)} others")
    return len(wrong) == 0


def main(program, model):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    reference = Reference(model / "model.safetensors")
    tokens = tokenizer.encode(TEXT).ids[:64]
    difference, good = check_logits(program, model, reference, tokens)
    good = check_transformers(reference, tokens) and good
    good = check_greedy(program, model, reference, tokenizer.encode(QUESTION).ids, difference) and good
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
