#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learns to translate written dates into ISO dates twice from the same weights, with fovea's additive attention and PyTorch's.

    translation.py FOLDER [--quick]        --quick: a few steps

FOLDER gets losses.png, alignment.png (where fovea's model looks for each character of a held-out date) and results.json.
"""
import pathlib

import dates
import turns
from curves import draw_losses

import fovea

HERE = pathlib.Path(__file__).resolve().parent
STEPS, QUICK_STEPS, TURN = 220, 10, 5
WATCHED, STEPS_BETWEEN = 128, 50


def accuracies(trainers):
    """What the progress line says of them every so many steps."""
    said = ""

    def look():
        nonlocal said
        if len(trainers[0].losses) % STEPS_BETWEEN == 0:
            said = ", ".join(f"{trainer.ask('accuracy', WATCHED):.1%}" for trainer in trainers) + " right; "
        return said

    return look


def translate(trainers, folder, steps, rounds):
    turns.train_in_turns(trainers, steps, TURN, accuracies(trainers))
    memory = {trainer.name: trainer.ask("memory") for trainer in trainers}
    held_out = dates.pairs(dates.TRAINING, dates.HELD_OUT)[1]
    results = turns.results(trainers, rounds) | {
        "memory": memory,
        "accuracy": {trainer.name: trainer.ask("accuracy", len(held_out)) for trainer in trainers},
    }
    written, wanted = max(held_out[:100], key=lambda pair: len(pair[0]))
    translated, weights = trainers[0].ask("alignment", written)
    results |= {"written": written, "translated": translated, "wanted": wanted}
    draw_losses(results["losses"], [("fovea", "PyTorch")], folder / "losses.png")
    fovea.show_heatmaps(weights, query_labels=list(translated), key_labels=list(written), titles=[f"{written}: {translated}"],
                        size=6, file=str(folder / "alignment.png"))
    return results


def report(results):
    memory = results["memory"].items()
    turns.table(turns.figures(results) | {
        "held-out dates right in every character": {name: f"{share:.1%}" for name, share in results["accuracy"].items()},
        "peak memory of the process, MB": {name: f"{peak:.0f}" for name, (_, peak) in memory},
        "of that since before the first step": {name: f"{peak - before:.0f}" for name, (before, peak) in memory},
    })
    print(f"\n{results['written']!r} is {results['translated']}")


def main(folder, quick):
    steps, rounds = (QUICK_STEPS, 1) if quick else (STEPS, 10)
    commands = {name: (HERE / "translator.py", name, steps) for name in ("fovea", "PyTorch")}
    turns.run(folder, commands, lambda trainers: translate(trainers, folder, steps, rounds), report)


if __name__ == "__main__":
    main(*turns.arguments(__doc__))
