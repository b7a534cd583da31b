"""Runs all measurements and shows progress: the bench, the limits, the sweeps, the peers."""
# SPDX-License-Identifier: Apache-2.0
import json
import re
import subprocess
import sys
import time

import cases

SHOWN_EVERY = 0.5 if sys.stderr.isatty() else 10.0


class Progress:
    """Prints "[k/n] what, time left" for parts whose lengths are first guessed, then measured."""

    def __init__(self, parts):
        """parts: [(name, steps, seconds guessed for each step)] in order."""
        self.parts = [list(part) for part in parts]
        self.total = sum(part[1] for part in self.parts)
        self.done, self.here, self.shown = 0, 0, -1e9
        self.part_begin = time.monotonic()

    def end_part(self):
        """Steps of the part that did not come count as done."""
        self.done += self.parts.pop(0)[1] - self.here
        self.here, self.part_begin = 0, time.monotonic()

    def left(self):
        _, steps, guess = self.parts[0]
        if self.here > 1:
            guess = (time.monotonic() - self.part_begin) / (self.here - 1)
        later = sum(steps * seconds for _, steps, seconds in self.parts[1:])
        return guess * max(0, steps - self.here + 1) + later

    def begin(self, what):
        self.here, self.done = self.here + 1, self.done + 1
        now = time.monotonic()
        if now - self.shown < SHOWN_EVERY and self.here > 1:
            return
        self.shown = now
        left = self.left()
        text = f"{left / 60:.0f} min" if left >= 90 else f"{max(1, left):.0f} s"
        line = f"[{min(self.done, self.total)}/{self.total}] {what}, {text} left"
        print(
            f"\r\033[K{line[:110]}" if sys.stderr.isatty() else line,
            end="" if sys.stderr.isatty() else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def names_of(binary, pattern=""):
    arguments = [binary, "--benchmark_list_tests=true"] + ([pattern] if pattern else [])
    listed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    return [re.sub(r"/iterations:.*", "", line) for line in listed.splitlines() if line.count("/") >= 3]


def run_bench(binary, pattern, target, progress):
    """The bench's records. Its own progress on stderr is turned into ours."""
    target.unlink(missing_ok=True)
    command = [binary, pattern, "--json", str(target)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stderr:
            if found := re.match(r"\[\d+/\d+\] (.*)", line):
                progress.begin(found[1])
            else:
                said.append(line)
    try:
        runs = json.loads(target.read_text(encoding="utf-8"))["benchmarks"]
    except (OSError, ValueError):
        sys.exit("the bench gave no whole results:\n" + "".join(said[-20:]))
    return [cases.result(run) for run in runs]


def about_cases(binary):
    """{case: what the bench says of it}; empty where this bench does not tell."""
    said = subprocess.run([binary, "--cases"], capture_output=True, text=True)
    if said.returncode != 0:
        return {}
    return {case["name"]: case for case in json.loads(said.stdout)}


def limits(binary, threads):
    """One measurement of the machine's limits on so many threads."""
    return json.loads(
        subprocess.run([binary, "--limits", str(threads)], check=True, capture_output=True, text=True).stdout
    )


def peers(command, target, only, quick, progress):
    """What others take for the cases that `only` matches, or why that is not known. A quick run installs nothing."""
    if command is None:
        return {"missing": "they were not asked for"}
    if quick and not (target.parent.parent / "peers" / "venv").exists():
        return {"missing": "a quick run does not install them; ./dev peers does"}
    progress.begin("other libraries")
    progress.end()
    arguments = [*command, "--json", str(target)] + (["--only", only] if only else [])
    arguments += ["--pairs", "6", "--block", "0.01"] if quick else []
    target.unlink(missing_ok=True)
    last = "it said nothing"
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print(f"  {line.rstrip()}", file=sys.stderr, flush=True)
            last = line.strip() or last
    if process.returncode != 0 or not target.exists():
        return {"missing": last}
    return json.loads(target.read_text(encoding="utf-8"))
