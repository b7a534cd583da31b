#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program smollm2 and other engines in turns, on the same numbers: tokens per second, and how many times theirs.

    peers.py PROGRAM MODEL GGUF [ROUNDS]

Others are OpenVINO GenAI (package openvino-genai) and llama.cpp (package llama-cpp-python), as far as they are installed: see
peer_engines.py. Each keeps its process and is asked case by case in turns, a round's first one being another each time. All use as
many threads as there are processors for this process. Shown are medians of the rounds (5).
"""
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import tempfile

CASES = ["prompt 1 512", "decode 1 512", "decode 8 512", "decode 1 4096"]
OURS = [("bf16", 16, "bf16"), ("i8", 8, "bf16"), ("i8", 8, "i8")]
# The GGUF has 4 bits ("q4_1"), from which all other weights are made, ours too.
LLAMA = [("f16", 16, "f16"), ("bf16", 16, "f16"), ("q8_0", 8, "f16"), ("q8_0", 8, "q8_0"), ("as it is", 4, "f16")]


class Ended(Exception):
    pass


@dataclasses.dataclass
class Engine:
    """A process that answers lines; bits are its weights'."""
    family: str
    settings: str
    bits: int
    command: list

    @property
    def name(self):
        return f"{self.family}, {self.settings}"

    def start(self):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def rate(self, case):
        try:
            print(case, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.said.seek(0)
            raise Ended(f"{self.name} has ended: {self.said.read()[-1000:]}")
        return float(line.split()[0])

    def stop(self):
        with contextlib.suppress(BrokenPipeError):  # of what it did not read
            self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()
        self.process.wait()


def engines(program, model, gguf):
    for weights, bits, cache in OURS:
        options = ["--weights", weights, "--cache", cache]
        yield Engine("fovea", f"weights {weights}, cache {cache}", bits, [program, *options, model, "measure"])
    other = [sys.executable, str(pathlib.Path(__file__).with_name("peer_engines.py")), gguf]
    if importlib.util.find_spec("openvino_genai"):
        yield Engine("OpenVINO", "weights of 4 bits", 4, [*other, "openvino"])
    if importlib.util.find_spec("llama_cpp"):
        for weights, bits, cache in LLAMA:
            name = "q4_1" if weights == "as it is" else weights
            yield Engine("llama.cpp", f"weights {name}, cache {cache}", bits, [*other, "llama", weights, cache])


def said_versions():
    for name, package in (("OpenVINO GenAI", "openvino-genai"), ("llama.cpp of llama-cpp-python", "llama-cpp-python")):
        try:
            yield f"{name} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{name}: not there{', --llama builds it' if 'llama' in package else ''}"


def progress(text):
    """Over the line before, on a terminal; nowhere else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def turns(running, rounds):
    """The engines of each round, the first of which moves on."""
    for turn in range(rounds):
        first = turn % len(running)
        yield running[first:] + running[:first]


def measured(running, case, rounds):
    """The rates of each engine by its name."""
    rates = {engine.name: [] for engine in running}
    for turn, order in enumerate(turns(running, rounds), 1):
        for engine in order:
            progress(f"      {case}, round {turn} of {rounds}: {engine.name}")
            rates[engine.name].append(engine.rate(case))
    progress("")
    return rates


def rivals(running, medians):
    """What ours is compared with: the fastest of several sets of the others, by what each set is called."""
    sets = {"the best": lambda engine: True, "16 bits": lambda engine: engine.bits == 16,
            "OpenVINO": lambda engine: engine.family == "OpenVINO", "llama.cpp": lambda engine: engine.family == "llama.cpp"}
    others = [engine for engine in running if engine.family != "fovea"]
    found = {}
    for called, belongs in sets.items():
        names = [engine.name for engine in others if belongs(engine)]
        if names:
            found[called] = max(names, key=medians.get)
    return found


def table(case, running, rates):
    """Lines: each engine's rates; for ours how many times the fastest of the others; which those are."""
    medians = {name: statistics.median(of) for name, of in rates.items()}
    against = rivals(running, medians)
    head = "".join(f"{'/ ' + called:>12}" for called in against)
    yield f"{case:36} {'tokens/s':>9} {'lowest, highest':>17}{head}"
    for engine in running:
        of = rates[engine.name]
        ratios = (f"{medians[engine.name] / medians[rival]:12.2f}" for rival in against.values() if engine.family == "fovea")
        yield f"  {engine.name:34} {medians[engine.name]:9.1f} {min(of):8.1f} {max(of):8.1f}{''.join(ratios)}"
    for called, rival in against.items():
        what = {"the best": "of all others", "16 bits": "of the others with weights of 16 bits"}.get(called, f"of {called}'s")
        yield f"  / {called}: the fastest {what}, {rival}"


def main(program, model, gguf, rounds="5"):
    running = list(engines(program, model, gguf))
    print("\n".join(said_versions()), flush=True)
    for engine in running:
        engine.start()
    try:
        for case in CASES:
            print("", *table(case, running, measured(running, case, int(rounds))), sep="\n", flush=True)
    except Ended as ended:
        progress("")
        sys.exit(str(ended))
    for engine in running:
        engine.stop()


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
