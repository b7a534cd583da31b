#!/usr/bin/env python3
"""Tells whether a change made anything slower: measures two builds in turns.

  ./dev bench --against COMMIT_OR_FOLDER [FILTER] [--slower-than 2%] [--threads N] [--isa NAME] [--json FILE]

The present build is compared with a commit, which is built aside (build/against), or with a folder that holds a build.
Both run case by case, beside each other and in turns of 20 ms; each round of turns is a fresh pair of processes. Six
rounds are a first look; a case that may differ by more than the limit gets 20 new ones, and those alone decide: see
decide.py. By default the best instruction set, on all threads.

Exit status: 0; 1 if a case is slower by more than the limit and that is more than noise; 2 if something failed.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import sys
import time

import builds
import decide
from server import Broken, Refused
from turns import Case, Scheme


def limit_of(text):
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(%?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no limit: write 2%")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0 and 100 %")
    return value


def whole(least):
    def parse(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {least} on")
        return int(text)

    return parse


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.partition("\n\n")[0],
                                     allow_abbrev=False)
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)  # the present build's, from ./dev
    parser.add_argument("--against", required=True, metavar="COMMIT_OR_FOLDER")
    parser.add_argument("filter", nargs="?", default="", help="regular expression over case names")
    parser.add_argument("--slower-than", type=limit_of, default=0.02, metavar="2%", help="smaller differences are none")
    parser.add_argument("--threads", type=whole(1), default=None)
    parser.add_argument("--isa", default="-", metavar="NAME", help="base, avx2, ...; the best one")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=whole(8), default=20, help="that decide, at least; more see smaller differences")
    parser.add_argument("--quick", action="store_true", help="few and short turns: only to see that everything runs")
    return parser.parse_args(arguments)


class Progress:
    """Lines on stderr: which case of how many, and how long it will still take."""

    def __init__(self, what, count):
        self.what, self.count, self.done, self.begin = what, count, 0, time.monotonic()

    def next(self, name):
        left = ""
        if self.done > 0:
            seconds = (time.monotonic() - self.begin) / self.done * (self.count - self.done)
            left = f", {duration(seconds)} left"
        self.done += 1
        print(f"[{self.what} {self.done}/{self.count}{left}] {name}", file=sys.stderr, flush=True)


def duration(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def time_text(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    return ""


def percent(log):
    return f"{math.expm1(log) * 100:+.1f}"


def line(case, text):
    old, new = (time_text(decide.median(seconds)) for seconds in zip(*case.seconds))
    low, high = decide.interval(case.logs)
    return (f"{case.name:44} {old:>9} -> {new:>9} {percent(decide.median(case.logs)):>6} % "
            f"({percent(low)} to {percent(high)})  {text}")


def screen(cases, scheme, limit, failed):
    """Those that may differ; the others are done with."""
    progress = Progress("first look", len(cases))
    suspects = []
    for case in cases:
        progress.next(case.name)
        try:
            case.measure(scheme.first_rounds, scheme)
        except (Refused, Broken) as error:
            failed[case.name] = str(error)
            print(f"{case.name:44} failed: {error}", flush=True)
            continue
        if decide.suspicious(case.logs, limit):
            suspects.append(case)
        else:
            case.answer = "same"
            print(line(case, "same"), flush=True)
    return suspects


def decide_suspects(cases, scheme, limit, failed):
    """Measures them anew, so that what made them suspects does not count against them."""
    progress = Progress("again", len(cases))
    rounds = max(scheme.second_rounds, decide.rounds_needed(len(cases)))
    measured = []
    for case in cases:
        progress.next(case.name)
        try:
            case.measure(rounds, scheme)
            measured.append(case)
        except (Refused, Broken) as error:
            failed[case.name] = str(error)
            print(f"{case.name:44} failed: {error}", flush=True)
    adjusted = decide.holm([decide.signed_rank_p(case.logs) for case in measured])
    for case, p in zip(measured, adjusted):
        case.adjusted_p = p
        case.answer = decide.answer(case.logs, p, limit)
        case.noisy = case.answer == "same" and decide.too_noisy(case.logs, limit)
        print(line(case, case.answer + (", but noisy" if case.noisy else "")), flush=True)


def report(case):
    low, high = decide.interval(case.logs)
    ran_on = case.ran_on.split()
    return {"name": case.name, "isa": ran_on[0], "threads": int(ran_on[1]), "answer": case.answer,
            "ratio": math.exp(decide.median(case.logs)), "ratio_interval": [math.exp(low), math.exp(high)],
            "rounds": len(case.logs), "adjusted_p": case.adjusted_p,
            "noisy": case.noisy,
            "seconds": [decide.median(seconds) for seconds in zip(*case.seconds)],
            "round_ratios": [math.exp(log) for log in case.logs]}


def only_in(names, others, text):
    left = [name for name in names if name not in set(others)]
    if left:
        print(f"only in the {text} build: {', '.join(left)}")
    return left


def summary(done, failed, limit):
    counts = {text: sum(case.answer == text for case in done) for text in ("same", "faster", "slower")}
    noisy = [case.name for case in done if case.noisy]
    print(f"{len(done)} cases: {counts['same']} same, {counts['faster']} faster, {counts['slower']} slower by more than "
          f"{limit * 100:g} %" + (f"; {len(failed)} failed" if failed else ""))
    if noisy:
        print(f"{len(noisy)} of the same are noisy: a difference of {limit * 100:g} % could hide there. Measure those again, "
              f"more quietly or with more --rounds: {' '.join(noisy[:5])}{' ...' if len(noisy) > 5 else ''}")
    for case in done:
        if case.answer == "slower":
            print(line(case, "slower"))
    return 2 if failed else 1 if counts["slower"] else 0


def compare(options, root):
    old = builds.build_of(root, options.against)
    new = builds.Build(options.binary, "present").check()
    print(f"old: {old.text}" + (", measured by the present benchmarks, as its own cannot serve"
                                if old.present_benchmarks else ""))
    new_names, old_names = new.case_names(options.filter), old.case_names(options.filter)
    only = {"new": only_in(new_names, old_names, "present"), "old": only_in(old_names, new_names, "old")}
    names = [name for name in new_names if name in set(old_names)]
    if not names:
        raise builds.CannotBuild(f"no case is called anything like '{options.filter}' in both builds")
    commands = ([old.binary, "--serve"], [new.binary, "--serve"])
    threads = str(options.threads) if options.threads else "-"
    cases = [Case(name, commands, options.isa, threads) for name in names]
    scheme = Scheme(options.quick, second_rounds=options.rounds)
    failed = {}
    decide_suspects(screen(cases, scheme, options.slower_than, failed), scheme, options.slower_than, failed)
    done = [case for case in cases if case.name not in failed]
    if options.json:
        results = {"against": old.text, "present_benchmarks": old.present_benchmarks, "slower_than": options.slower_than,
                   "alpha": decide.ALPHA, "only_in": only, "failed": failed,
                   "cases": [report(case) for case in done]}
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return summary(done, failed, options.slower_than)


def main(arguments):
    options = parse(arguments)
    random.seed()
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    try:
        return compare(options, root)
    except (builds.CannotBuild, Refused, Broken, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main(sys.argv[1:]))
