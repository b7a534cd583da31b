#!/usr/bin/env python3
"""Measures fovea on this machine and writes a page about it: ./dev report.

  report.py BUILD [--quick | --chosen] [--only PART]... [--cases REGEX] [--draw] [--readme] [--peers COMMAND]

BUILD is a build directory with the library and the bench in it. Results, pictures and the page go to BUILD/../report.
What --only leaves out, and --draw, which measures nothing, is taken from the run before.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import csv
import datetime
import json
import pathlib
import shlex
import sys

import accuracy
import cases
import collect
import library as fovea
import machine
import model
import sweeps

PARTS = ("bench", "lengths", "threads", "errors", "peers")
LIMITS_ROUNDS = 5


def arguments_of(command_line):
    parser = argparse.ArgumentParser(prog="./dev report", description="measures fovea and writes a page about it")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="a few cases, in under three minutes")
    extent.add_argument("--chosen", action="store_true", help="the cases that README.md shows")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this, take the rest from the last run")
    parser.add_argument("--cases", metavar="REGEX", help="measure these of the bench again, where the machine was busy")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw the last run")
    parser.add_argument("--readme", action="store_true", help="keep the run in docs/measured, rewrite README.md by it")
    parser.add_argument("--peers", type=shlex.split, help=argparse.SUPPRESS)  # the command that measures others
    arguments = parser.parse_args(command_line)
    arguments.all = not (arguments.only or arguments.cases)
    arguments.only = arguments.only or (["bench"] if arguments.cases else PARTS)
    return arguments


def planned_parts(arguments, names):
    """[(name, steps, seconds guessed for each step)]"""
    quick = arguments.quick
    parts = {
        "bench": (len(names), 1.3),
        "lengths": (len(sweeps.length_points(quick)), 0.8),
        "threads": (len(sweeps.QUICK_CALLS if quick else sweeps.CALLS), 3.0),
        "errors": (2, 1.0),
        "peers": (1, 60.0 if quick else 600.0),
    }
    wanted = [] if arguments.draw else arguments.only
    return [(name, *parts[name]) for name in PARTS if name in wanted]


def level_rates(bench, isa, samples):
    """Bytes a second that one thread and two read from the last-level cache and from memory."""

    def limit(case, threads):
        found = [
            run["limit"] * 1e9
            for run in bench
            if (run["case"], run["isa"], run["threads"]) == (case, isa, threads) and "limit" in run
        ]
        return found[0] if found else None

    def undisturbed(threads):
        seconds = [1 / sample["read_bytes"] for sample in samples if sample["threads"] == threads]
        return 1 / sweeps.undisturbed(seconds)

    rates = {"cache": [undisturbed(threads) for threads in (1, 2)]}
    memory = [limit("sdpa/f32/decode_cold", threads) for threads in (1, 2)]
    return rates | {"memory": memory} if all(memory) else rates | {"memory": rates["cache"]}


def less_disturbed(before, after):
    """Of two runs of a case the one beside which the machine could do more: that knows nothing of fovea's speed."""
    if "limit" not in before or "limit" not in after:
        return after
    return before if before["limit"] > after["limit"] else after


class Run:
    """One run of the command: what it measures goes into `results`."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.binary = arguments.build / "bench" / "fovea_bench"
        self.library = fovea.Library(arguments.build / "capi" / "libfovea.so")
        self.isa = [isa for isa in self.library.isas() if isa != "amx"][-1]
        self.results = {}
        last = folder / "results.json"
        if last.exists() and (arguments.draw or not arguments.all):
            self.results = json.loads(last.read_text(encoding="utf-8"))
        elif arguments.draw:
            sys.exit("there is no run to draw yet: ./dev report measures one")
        self.most = machine.describe()["cores_seen"]

    def add_limits(self, rounds):
        """Between everything else, so that their spread is that of the whole run."""
        for _ in range(rounds):
            for threads in sorted({1, min(2, self.most), self.most}):
                self.results.setdefault("limits", []).append(collect.limits(self.binary, threads))

    def measure(self):
        pattern, names = "", []
        parts = self.arguments.only
        if "bench" in parts and not self.arguments.draw:
            names = collect.names_of(self.binary)
            if self.arguments.quick or self.arguments.chosen:
                pattern = cases.chosen_filter(names, self.arguments.quick, self.arguments.cases)
            else:
                pattern = self.arguments.cases or ""
            names = collect.names_of(self.binary, pattern)
        plan = planned_parts(self.arguments, names)
        if not plan:
            return
        self.results |= {
            "date": datetime.date.today().isoformat(),
            "version": self.library.version(),
            "machine": machine.describe(),
            "isa": self.isa,
            "quick": self.arguments.quick,
        }
        if self.arguments.all:
            self.results["limits"] = []
        progress = collect.Progress(plan)
        for name, _, _ in plan:
            self.add_limits(LIMITS_ROUNDS)
            getattr(self, "measure_" + name)(progress, pattern)
            progress.end_part()
            self.save()
        progress.end()

    def measure_bench(self, progress, pattern):
        def way(run):
            return run["case"], run["isa"], run["threads"]

        runs = collect.run_bench(self.binary, pattern or ".", self.folder / "bench.json", progress)
        if self.arguments.cases:
            new = {way(run): run for run in runs}
            before = self.results.get("bench", [])
            runs = [less_disturbed(run, new.pop(way(run), run)) for run in before] + list(new.values())
        self.results["bench"] = runs
        self.results["cases"] = collect.about_cases(self.binary)

    def measure_lengths(self, progress, _):
        self.results["lengths"] = sweeps.over_length(self.library, self.isa, self.most, self.arguments.quick, progress)

    def measure_threads(self, progress, _):
        many = [each["workers"] for each in model.MACHINES]
        self.results["threads"] = sweeps.over_threads(
            self.library, self.isa, self.most, many, self.arguments.quick, progress
        )
        if self.most > 1:
            self.results["barely_shared"] = sweeps.barely_shared(self.library, self.isa)

    def measure_errors(self, progress, _):
        self.results["errors"] = accuracy.measure(self.library, self.library.isas(), self.arguments.quick, progress)

    def measure_peers(self, progress, _):
        quick, chosen = self.arguments.quick, self.arguments.chosen
        only = cases.pattern_of(cases.QUICK_PEERS if quick else cases.CHOSEN_PEERS) if quick or chosen else ""
        target = self.folder / "peers.json"
        self.results["peers"] = collect.peers(self.arguments.peers, target, only, quick, progress)

    def save(self):
        text = json.dumps(self.results, indent=1)
        (self.folder / "results.json").write_text(text + "\n", encoding="utf-8")
        self.results = json.loads(text)  # keys as a later run finds them


def whole_numbers(row):
    """JSON has made the numbers of workers into text."""
    return {
        name: {int(key): each for key, each in value.items()} if isinstance(value, dict) else value
        for name, value in row.items()
    }


def add_model(results):
    """The model's fit and what it says, from the run's own measurements."""
    if "threads" not in results or results["machine"]["cores_seen"] < 2:
        return
    small = [run["seconds"] for run in results.get("bench", ()) if run["case"].endswith("/small")]
    calls = [whole_numbers(row) for row in results["threads"]]
    rates = level_rates(results.get("bench", ()), results["isa"], results["limits"])
    fitted = model.fit(calls, rates, min(small, default=2.5e-6), results.get("barely_shared", ()))
    results["model"] = {
        "predictions": model.predictions(calls, fitted),
        "assumed": model.ASSUMED,
        "rates": rates,
        "contention": fitted["bandwidth"].c,
        **{name: fitted[name] for name in ("way_in", "wake", "sharing")},
    }


def write_csv(results, target):
    """One row for each number that was measured."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("part", "case", "dtype", "way", "threads", "quantity", "value"))
        for run in results.get("bench", ()):
            for name in ("seconds", "rate", "share", "limit", "scaling", "workspace"):
                if name in run:
                    quantity = run["rate_unit"] if name == "rate" else name
                    writer.writerow(
                        ("bench", run["case"], run["dtype"], run["isa"], run["threads"], quantity, run[name])
                    )
        for row in results.get("lengths", ()):
            for name in ("seconds", "workspace", "tensor_bytes"):
                writer.writerow(
                    (
                        "lengths",
                        f"{row['operation']} {row['length']}",
                        row["dtype"],
                        row["isa"],
                        row["threads"],
                        name,
                        row[name],
                    )
                )
        for row in results.get("errors", ()):
            writer.writerow(
                ("errors", f"{row['operation']} {row['keys']}", row["dtype"], row["way"], 1, "error", row["error"])
            )
        for sample in results.get("limits", ()):
            for name in ("flops", "read_bytes"):
                writer.writerow(("limits", "", "f32", sample["isa"], sample["threads"], name, sample[name]))
        for row in results.get("peers", {}).get("results", ()):
            if row.get("seconds"):
                writer.writerow(
                    (
                        "peers",
                        row["case"],
                        row["dtype"],
                        f"{row['library']} {row['way']}".strip(),
                        row["threads"],
                        "seconds",
                        row["seconds"],
                    )
                )


def main():
    arguments = arguments_of(sys.argv[1:])
    folder = arguments.build.resolve().parent / "report"
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(arguments, folder)
    run.measure()
    add_model(run.results)
    run.save()
    results = run.results
    write_csv(results, folder / "results.csv")
    import page  # draws: only now, as what was measured must not be lost where matplotlib is not to be had

    page.write(results, folder)
    if arguments.readme:
        import readme

        root = pathlib.Path(__file__).resolve().parents[2]
        if arguments.only == ["peers"]:
            readme.keep_peers(results["peers"], root)
        else:
            readme.keep(results, root)
        readme.draw(root)
        for changed in readme.rewrite(root):
            print(f"written: {changed}")
    for name in ("results.json", "results.csv", "report.html"):
        print(folder / name)


if __name__ == "__main__":
    main()
