#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how fast the program smollm2 decodes: tokens per second over the number of sequences, and where the time goes.

    picture.py PROGRAM MODEL FILE

With weights in bfloat16 and in 8 bits, a cache in bfloat16, sequences at depth 512; dashed what the rates of memory and of
products allow. FILE is a PNG or SVG.
"""
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, FormatStrFormatter  # noqa: E402

WEIGHTS = {"bf16": ("weights in bfloat16", "#7a7a7a"), "i8": ("weights in 8 bits", "#1f5fa8")}
PARTS = {"attention": "#e08a1e", "products": "#1f5fa8", "rest": "#b8b8b8"}
SEQUENCES = [1, 2, 4, 8, 16, 32]


def measured(program, model, weights):
    print(f"      measuring with {WEIGHTS[weights][0]}", flush=True)
    cases = "".join(f"decode {count} 512\n" for count in SEQUENCES)
    table = subprocess.run([program, "--weights", weights, model, "measure"], input=cases, stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    columns = zip(*(map(float, line.split()) for line in table.splitlines()))
    return dict(zip(("rate", "bound", *PARTS), columns))


def draw_rates(axes, tables):
    for weights, table in tables.items():
        name, color = WEIGHTS[weights]
        axes.plot(SEQUENCES, table["rate"], "o-", color=color, label=name)
        axes.plot(SEQUENCES, table["bound"], "--", color=color, linewidth=1, label="their bound")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis, numbers in ((axes.xaxis, SEQUENCES), (axes.yaxis, [2**n for n in range(4, 14)])):
        axis.set_major_locator(FixedLocator(numbers))
        axis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_xlabel("sequences, each at depth 512")
    axes.set_ylabel("tokens per second, all together")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def draw_shares(axes, table, name):
    places, below = range(len(SEQUENCES)), [0.0] * len(SEQUENCES)
    for part, color in PARTS.items():
        axes.bar(places, table[part], bottom=below, color=color, label=part, width=0.7)
        below = [a + b for a, b in zip(below, table[part])]
    axes.set_xticks(places, [f"{count:g}" for count in SEQUENCES])
    axes.set_xlabel(f"sequences, {name}")
    axes.set_ylabel("share of a step's time")
    axes.set_ylim(0, 1)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=len(PARTS), frameon=False)


def main(program, model, file):
    tables = {weights: measured(program, model, weights) for weights in WEIGHTS}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    draw_rates(left, tables)
    draw_shares(right, tables["i8"], WEIGHTS["i8"][0])
    figure.savefig(file, dpi=110)
    print(f"written: {file}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
