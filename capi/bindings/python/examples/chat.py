#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A conversation with a language model, SmolLM2-135M-Instruct, on fovea: streamed word by word; Ctrl-C ends an answer.

    python3 chat.py MODEL [--precision highest|medium|int8] [--cache float32|bfloat16|int8] [--temperature T] [--seed N] [QUESTION]

MODEL has model.safetensors and tokenizer.json, as `./dev example smollm2` puts them into build/smollm2/model. With a QUESTION it
answers that and ends. precision "medium" keeps weights as bfloat16 where the processor multiplies that, "int8" as 8-bit
numbers. Needs NumPy and tokenizers.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import tokenizers

import fovea

LAYERS, HIDDEN, HEADS, KV_HEADS, BASE, EPSILON = 30, 576, 9, 3, 100000.0, 1e-5
HEAD_DIM = HIDDEN // HEADS
MOST_TOKENS, POSITIONS, END_OF_TURN = 512, 8192, 2
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"


def read_safetensors(path):
    """Its float32 tensors by name, where they lie in the file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    data = np.memmap(path, mode="r", offset=8 + size)
    return {name: data[slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


class Layer:
    def __init__(self, tensors, prefix, packed):
        def named(name):
            return tensors[f"{prefix}.{name}.weight"]

        self.attention_norm, self.feed_forward_norm = np.array(named("attn_norm")), np.array(named("ffn_norm"))
        self.query_key_value = packed(np.concatenate([named("attn_q"), named("attn_k"), named("attn_v")]))
        self.out, self.gate, self.up, self.down = (packed(named(name)) for name in
                                                   ("attn_output", "ffn_gate", "ffn_up", "ffn_down"))


class Model:
    def __init__(self, folder, precision, cache):
        tensors = read_safetensors(folder / "model.safetensors")

        def packed(matrix):
            return fovea.PackedMatrix(np.ascontiguousarray(matrix), layout="out_in", precision=precision)

        self.embedding = tensors["token_embd.weight"]
        self.to_logits, self.last_norm = packed(self.embedding), np.array(tensors["output_norm.weight"])
        self.layers = [Layer(tensors, f"blk.{n}", packed) for n in range(LAYERS)]
        self.pool = fovea.KVPool(layers=LAYERS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, positions=POSITIONS, sequences=1,
                                 key_dtype=cache, value_dtype=cache)
        self.schedule = fovea.Schedule(query=(MOST_TOKENS, HEADS, HEAD_DIM), pool=self.pool, is_causal=True)

    def step(self, sequence, tokens):
        """The logits of what follows the last of at most MOST_TOKENS tokens."""
        self.schedule.set(self.pool.step({sequence: len(tokens)}))
        x = np.ascontiguousarray(self.embedding[tokens])
        for number, layer in enumerate(self.layers):
            rows = fovea.linear(fovea.rms_norm(x, layer.attention_norm, epsilon=EPSILON), layer.query_key_value)
            rows = rows.reshape(len(tokens), HEADS + 2 * KV_HEADS, HEAD_DIM)
            query, key, value = np.split(rows, [HEADS, HEADS + KV_HEADS], axis=1)
            turned = rows[:, :HEADS + KV_HEADS].swapaxes(0, 1)
            fovea.rotary(turned, interleaved=True, base=BASE, positions=self.schedule.positions, out=turned)
            self.schedule.append(number, key, value)
            attended = self.schedule.run(np.ascontiguousarray(query), number).reshape(len(tokens), HIDDEN)
            fovea.linear(attended, layer.out, residual=x, out=x)
            h = fovea.rms_norm(x, layer.feed_forward_norm, epsilon=EPSILON)
            gated = fovea.linear(h, layer.gate, activation="silu", multiplier=fovea.linear(h, layer.up))
            fovea.linear(gated, layer.down, residual=x, out=x)
        return fovea.linear(fovea.rms_norm(x[-1:], self.last_norm, epsilon=EPSILON), self.to_logits)[0]


class Chat:
    def __init__(self, model, tokenizer, temperature, seed):
        self.model, self.tokenizer, self.temperature = model, tokenizer, temperature
        self.random = np.random.default_rng(seed)
        self.sequence = model.pool.open()
        self.before = SYSTEM

    def choose(self, logits):
        if self.temperature <= 0:
            return int(logits.argmax())
        weights = np.exp((logits - logits.max()).astype(np.float64) / self.temperature)
        return int(self.random.choice(len(weights), p=weights / weights.sum()))

    def read(self, tokens):
        for at in range(0, len(tokens), MOST_TOKENS):
            logits = self.model.step(self.sequence, tokens[at:at + MOST_TOKENS])
        return logits

    def answer(self, question, most=512):
        """Yields the answer's pieces; the sequence then ends as a turn does, also where nobody asked for all of them."""
        text = f"{self.before}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        self.before = "\n"
        logits, made, shown = self.read(self.tokenizer.encode(text).ids), [], ""
        try:
            while len(made) < most and (token := self.choose(logits)) != END_OF_TURN:
                made.append(token)
                whole = self.tokenizer.decode(made)
                if not whole.endswith("\ufffd"):  # a letter may take several tokens
                    yield whole[len(shown):]
                    shown = whole
                logits = self.read([token])
        finally:
            self.read([END_OF_TURN])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("question", nargs="?")
    parser.add_argument("--precision", choices=["highest", "medium", "int8"], default="medium")
    parser.add_argument("--cache", choices=["float32", "bfloat16", "int8"], default="bfloat16")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    its = parser.parse_intermixed_args()
    if not (its.model / "model.safetensors").exists():
        sys.exit(f"{its.model} has no model.safetensors: ./dev example smollm2 makes it")
    tokenizer = tokenizers.Tokenizer.from_file(str(its.model / "tokenizer.json"))
    chat = Chat(Model(its.model, its.precision, its.cache), tokenizer, its.temperature, its.seed)
    questions = iter([its.question]) if its.question else iter(lambda: input("you: "), None)
    try:
        for question in questions:
            try:
                for piece in chat.answer(question):
                    print(piece, end="", flush=True)
            except KeyboardInterrupt:
                print(" …", end="")
            print()
    except (EOFError, KeyboardInterrupt):
        print()


if __name__ == "__main__":
    main()
