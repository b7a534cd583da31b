#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: requests come and go, and each step attends whatever is there, new prompts and old conversations alike.

    python3 continuous_batching.py

A toy of a language model: two layers of attention with random weights, whose "tokens" are vectors. What is real is how a server
goes: prompts come in pieces beside others' tokens, two answers to one prompt share its pages, a request waits where the pool is
full, and what is done gives its pages back. The timeline has a line for each step and a column for each request: P a piece of
its prompt, . a token of its answer, w it waits.
"""
import numpy as np

import fovea

LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2, 8, 2, 32
WIDTH = HEADS * HEAD_DIM
CHUNK = 48  # the most tokens of a prompt in a step
# (arrives at step, tokens of its prompt, tokens of its answer, whether a second answer to the same prompt is wanted)
REQUESTS = [(0, 100, 6, False), (1, 30, 9, True), (2, 120, 5, False), (6, 20, 4, False)]


class Request:
    def __init__(self, sequence, prompt, answer, twice):
        self.sequence, self.answer, self.twice = sequence, answer, twice
        self.waiting = np.random.default_rng(prompt).standard_normal((prompt, WIDTH)).astype(np.float32)
        self.answered = 0

    def fork(self):
        """Another answer to the same prompt, which is kept once."""
        other = object.__new__(Request)
        other.__dict__.update(self.__dict__, sequence=self.sequence.fork(), waiting=-self.waiting)
        return other

    @property
    def next_tokens(self):
        return self.waiting[:CHUNK]

    def take(self, out, tokens):
        """What the model says of its tokens: while there is a prompt left, nothing that counts."""
        self.waiting = self.waiting[tokens:]
        if len(self.waiting) == 0:
            self.answered += 1
            self.waiting = out[-1:] / (np.abs(out[-1:]).max() + 1e-6)


def make_layers(rng):
    def matrix(rows):
        return (rng.standard_normal((rows, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)

    return [fovea.MultiHeadAttention(HEADS, kv_heads=KV_HEADS, in_weight=matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM),
                                     out_weight=matrix(WIDTH)) for _ in range(LAYERS)]


def room_for(pool, running):
    """The step that all of them take, or as many of the oldest as there are pages for."""
    for count in range(len(running), 0, -1):
        try:
            return running[:count], pool.step([(one.sequence, len(one.next_tokens)) for one in running[:count]])
        except fovea.PoolExhausted:
            continue
    raise SystemExit("the pool is too small for one request")


def main():
    pool = fovea.KVPool(layers=LAYERS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, positions=320, page_size=16, sequences=8)
    schedule = fovea.Schedule(query=(8 * CHUNK, HEADS, HEAD_DIM), pool=pool, is_causal=True)
    layers = make_layers(np.random.default_rng(0))
    running, columns, step_number = [], [], 0
    arriving = list(REQUESTS)
    while running or arriving:
        while arriving and arriving[0][0] <= step_number:
            running.append(Request(pool.open(), *arriving.pop(0)[1:]))
            columns.append(running[-1])
        stepping, step = room_for(pool, running) if running else ([], None)
        marks = {id(one): "P" if one.answered == 0 else "." for one in stepping}
        if stepping:
            schedule.set(step)
            x = np.concatenate([one.next_tokens for one in stepping])
            for number, layer in enumerate(layers):
                x = x + layer(x, schedule=schedule, pages=number, rotary={})
            starts = step.query_starts
            for n, one in enumerate(stepping):
                one.take(x[starts[n]:starts[n + 1]], starts[n + 1] - starts[n])
        line = " ".join(marks.get(id(one), "w" if one in running else " ") for one in columns)
        tokens = schedule.tokens if stepping else 0
        print(f"step {step_number:2}  {line:<10} {tokens:3} tokens  {pool.pages - pool.free_pages:2} of {pool.pages} pages")
        for one in list(running):
            if one.answered == 1 and one.twice:
                one.twice = False
                running.append(one.fork())
                columns.append(running[-1])
            if one.answered > one.answer:
                one.sequence.close()
                running.remove(one)
        step_number += 1
    print(f"all answered in {step_number} steps; {pool.free_pages} of {pool.pages} pages are free")


if __name__ == "__main__":
    main()
