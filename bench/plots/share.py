#!/usr/bin/env python3
"""Draws, for each case, the share of the machine's limit that it reaches.

  fovea_bench --json results.json
  bench/plots/share.py results.json share.png [--threads 2] [--only sdpa]

One bar per case and instruction set; the line at 1 is the limit measured beside each case. Needs matplotlib.
"""
import argparse
import json
import sys

COLORS = {"base": "#9aa5b1", "avx2": "#4c8bb0", "avx512": "#d1603d", "amx": "#7a4fa3"}


def read_shares(path, threads, only):
    """{case: {instruction set: share}} in the file's order, and the instruction sets from worst to best."""
    with open(path, encoding="utf-8") as file:
        runs = json.load(file)["benchmarks"]
    shares, sets = {}, []
    for run in runs:
        if "share" not in run or only not in run["name"]:
            continue
        case, isa, thread_text = run["name"].rsplit("/", 2)
        if int(thread_text.removeprefix("t")) != threads:
            continue
        shares.setdefault(case, {})[isa] = run["share"]
        if isa not in sets:
            sets.append(isa)
    return shares, sets


def most_threads(path):
    with open(path, encoding="utf-8") as file:
        names = [run["name"] for run in json.load(file)["benchmarks"]]
    return max(int(name.rsplit("/t", 1)[1]) for name in names)


def draw(shares, sets, title, picture):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = list(shares)
    height = 0.8 / len(sets)
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.42 * len(cases)), layout="constrained")
    for i, isa in enumerate(sets):
        places = [row + (i - (len(sets) - 1) / 2) * height for row in range(len(cases))]
        values = [shares[case].get(isa, 0) for case in cases]
        bars = axes.barh(places, values, height, label=isa, color=COLORS.get(isa))
        axes.bar_label(bars, [f"{value:.0%}" if value else "" for value in values], padding=2, fontsize=6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), cases, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.1, 1.1 * max(max(row.values()) for row in shares.values())))
    axes.set_xlabel("share of the machine's limit, measured in the same run")
    axes.set_title(title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05 - 1 / (len(cases) + 4)), ncols=len(sets), frameon=False)
    figure.savefig(picture, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json")
    parser.add_argument("picture")
    parser.add_argument("--threads", type=int, help="default: the most in the file")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    threads = arguments.threads or most_threads(arguments.json)
    shares, sets = read_shares(arguments.json, threads, arguments.only)
    if not shares:
        sys.exit(f"{arguments.json}: no case with a share on {threads} thread(s)")
    draw(shares, sets, f"fovea, {threads} thread{'s' if threads > 1 else ''}", arguments.picture)
    print(arguments.picture)


if __name__ == "__main__":
    main()
