#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a character GPT on this project's documents four times from the same weights: with fovea's causal attention and
PyTorch's, in float32 and in bfloat16.

    gpt.py FOLDER [--quick]        --quick: a few steps

FOLDER gets losses.png, sample.txt (what fovea's model writes) and results.json.
"""
import pathlib

import turns
from curves import draw_losses

HERE = pathlib.Path(__file__).resolve().parent
STEPS, QUICK_STEPS, TURN = 250, 10, 5
BEGIN, LENGTH, QUICK_LENGTH = "## ", 600, 40


def write(trainers, folder, steps, rounds, length):
    turns.train_in_turns(trainers, steps, TURN)
    results = turns.results(trainers, rounds) | {
        "memory": {trainer.name: trainer.ask("memory") for trainer in trainers},
        "held_out_loss": {trainer.name: trainer.ask("held_out_loss", 4) for trainer in trainers},
        "autocast": trainers[-1].ask("autocasts"),
        "sample": trainers[0].ask("sample", BEGIN, length),
    }
    (folder / "sample.txt").write_text(results["sample"], encoding="utf-8")
    draw_losses(results["losses"], [("fovea", "PyTorch"), ("fovea bfloat16", "PyTorch bfloat16")], folder / "losses.png")
    return results


def report(results):
    turns.table(turns.figures(results) | {
        "loss of held-out text": {name: f"{loss:.4f}" for name, loss in results["held_out_loss"].items()},
        "peak memory of the process, MB": {name: f"{peak:.0f}" for name, peak in results["memory"].items()},
    })
    if not results["autocast"]:
        print("\nbfloat16 is of attention alone, as PyTorch has no quick products of bfloat16 on this processor")
    print(f"\nfovea's model writes:\n\n{results['sample']}\n")


def main(folder, quick):
    steps, rounds, length = (QUICK_STEPS, 1, QUICK_LENGTH) if quick else (STEPS, 10, LENGTH)
    commands = {}
    for dtype in ("float32", "bfloat16"):
        for attention in ("fovea", "PyTorch"):
            name = attention if dtype == "float32" else f"{attention} {dtype}"
            commands[name] = (HERE / "writer.py", attention, dtype, steps)
    turns.run(folder, commands, lambda trainers: write(trainers, folder, steps, rounds, length), report)


if __name__ == "__main__":
    main(*turns.arguments(__doc__))
