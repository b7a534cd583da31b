#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the program smollm2 beside the formula in NumPy, float64 throughout, on the same weights.

    check.py PROGRAM MODEL

Logits behind each of 64 tokens, with weights in float32 and in bfloat16 and caches of every type: the largest difference, and
the Kullback-Leibler divergence of the next token's distribution. Then 200 tokens of a greedy answer in float32, which have to be
float64's wherever its two likeliest tokens are further apart than that difference.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers

LAYERS, HIDDEN, HEADS, KV_HEADS, BASE, EPSILON = 30, 576, 9, 3, 100000.0, 1e-5
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
    """One sequence, token by token, with keys and values kept."""

    def __init__(self, path):
        weights = Weights(path)
        self.layers = [{name: weights[f"blk.{n}.{name}"] for name in
                        ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up",
                         "ffn_down")} for n in range(LAYERS)]
        self.embedding, self.last = weights["token_embd"], weights["output_norm"]
        self.kept = [([], []) for _ in range(LAYERS)]
        self.length = 0

    def turned(self, x):
        angle = self.length * BASE ** (-2.0 * np.arange(DIM // 2) / DIM)
        even, odd = x[:, 0::2], x[:, 1::2]
        out = np.empty_like(x)
        out[:, 0::2] = even * np.cos(angle) - odd * np.sin(angle)
        out[:, 1::2] = even * np.sin(angle) + odd * np.cos(angle)
        return out

    def attend(self, layer, kept, x):
        query = self.turned((layer["attn_q"] @ x).reshape(HEADS, DIM))
        kept[0].append(self.turned((layer["attn_k"] @ x).reshape(KV_HEADS, DIM)))
        kept[1].append((layer["attn_v"] @ x).reshape(KV_HEADS, DIM))
        keys, values = np.stack(kept[0]), np.stack(kept[1])
        out = []
        for head in range(HEADS):
            of = head // (HEADS // KV_HEADS)
            score = keys[:, of] @ query[head] / np.sqrt(DIM)
            weight = np.exp(score - score.max())
            out.append(weight @ values[:, of] / weight.sum())
        return layer["attn_output"] @ np.concatenate(out)

    def step(self, token):
        x = self.embedding[token].copy()
        for layer, kept in zip(self.layers, self.kept):
            x += self.attend(layer, kept, rms_norm(x, layer["attn_norm"]))
            h = rms_norm(x, layer["ffn_norm"])
            gate = layer["ffn_gate"] @ h
            x += layer["ffn_down"] @ (gate / (1 + np.exp(-gate)) * (layer["ffn_up"] @ h))
        self.length += 1
        return self.embedding @ rms_norm(x, self.last)


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def logits_of(program, model, tokens, *options):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program, *options, model, "logits", file.name], input=" ".join(map(str, tokens)) + "\n", text=True,
                       check=True)
        return np.fromfile(file.name, "<f4").reshape(len(tokens), -1)


def main(program, model):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    tokens = tokenizer.encode(TEXT).ids[:64]
    reference = Reference(model / "model.safetensors")
    truth = np.stack([reference.step(token) for token in tokens])
    expected, failed, differences = log_softmax(truth), False, {}
    print(f"logits behind {len(tokens)} tokens against float64; they span {truth.min():.1f} to {truth.max():.1f}")
    for weights, cache, most in (("f32", "f32", 1e-3), ("f32", "bf16", 1.0), ("f32", "i8", 2.0), ("bf16", "bf16", 3.0),
                                 ("bf16", "i8", 3.0)):
        found = logits_of(program, model, tokens, "--weights", weights, "--cache", cache).astype(np.float64)
        difference = np.abs(found - truth).max()
        differences[weights, cache] = difference
        divergence = (np.exp(expected) * (expected - log_softmax(found))).sum(-1).mean()
        same = (found.argmax(-1) == truth.argmax(-1)).mean()
        bad = not difference <= most or (cache == "i8" and weights == "f32" and not divergence <= 1e-3)
        failed |= bad
        print(f"  weights {weights:4} cache {cache:4}  largest difference {difference:.2e}, divergence {divergence:.1e}, "
              f"the same likeliest token {same:.0%}{'  TOO MUCH' if bad else ''}")
    reference.kept, reference.length = [([], []) for _ in range(LAYERS)], 0
    tokens, chosen, ties = tokenizer.encode(QUESTION).ids, [], 0
    for token in tokens:
        logits = reference.step(token)
    for _ in range(200):
        chosen.append(int(logits.argmax()))
        logits = reference.step(chosen[-1])
    found = logits_of(program, model, tokens + chosen, "--weights", "f32", "--cache", "f32")[len(tokens) - 1:-1]
    reference.kept, reference.length = [([], []) for _ in range(LAYERS)], 0
    wrong = 0
    for at, (ours, theirs) in enumerate(zip(found.argmax(-1), chosen)):
        if ours == theirs:
            continue
        margin = found[at, ours] - found[at, theirs]
        if margin <= 2 * differences["f32", "f32"]:
            ties += 1
            print(f"  token {at}: a tie, {margin:.1e} apart")
        else:
            wrong += 1
    failed |= wrong > 0
    print(f"of 200 greedy tokens {200 - wrong - ties} are float64's, {ties} are ties, {wrong} others")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
