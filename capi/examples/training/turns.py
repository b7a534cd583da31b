# SPDX-License-Identifier: Apache-2.0
"""Trainers in processes of their own, which work in turns: each has a peak of memory of its own, and the machine's changing
speed falls on all of them alike.

A trainer's process calls `serve`. The process that asks holds a `Trainer` for each.
"""
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time


class Failed(Exception):
    pass


def serve(trainer):
    """Answers each line, the name of a method and its arguments, by a line with what it returns; both are JSON."""
    for line in sys.stdin:
        method, *given = json.loads(line)
        print(json.dumps(getattr(trainer, method)(*given)), flush=True)


def timed(step):
    """What it returns, a tuple, and the seconds that it took."""
    begin = time.perf_counter()
    return *step(), time.perf_counter() - begin


def peak_memory():
    """The most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


class Trainer:
    def __init__(self, name, *command):
        self.name, self.losses, self.rates = name, [], []
        # OpenMP's threads are to sleep, not to spin, when others work: fovea's threads, or another trainer's.
        environment = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ
        self.process = subprocess.Popen([sys.executable, "-B", *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment, process_group=0)  # Ctrl-C is for who asks

    def ask(self, method, *given):
        try:
            self.process.stdin.write(json.dumps([method, *given]) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # there is no answer either
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f"the trainer with {self.name} ended with code {self.process.wait()} when asked to {method}")
        return json.loads(answer)

    def train(self, steps):
        for loss, tokens, seconds in self.ask("train", steps):
            self.losses.append(loss)
            self.rates.append(tokens / seconds)

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # of what it did not read
            self.process.stdin.close()
        self.process.wait()


def train_in_turns(trainers, steps, turn, look=lambda: ""):
    """Trains all of them, `turn` steps at a time; `look` is called after each round, and what it says is shown."""
    begin, progress = time.monotonic(), Progress()
    for done in range(0, steps, turn):
        for trainer in trainers:
            trainer.train(min(turn, steps - done))
        done = min(done + turn, steps)
        left = (time.monotonic() - begin) * (steps - done) / done
        losses = ", ".join(f"{trainer.losses[-1]:.4f} {trainer.name}" for trainer in trainers)
        progress.show(f"step {done} of {steps}: loss {losses}; {look()}{left:.0f} s left", done == steps)


class Progress:
    """A line in place on a terminal, else one every ten seconds."""

    def __init__(self):
        self.shown = -10.0

    def show(self, line, last):
        if sys.stdout.isatty():
            print(f"\r\033[K      {line}", end="\n" if last else "", flush=True)
        elif last or time.monotonic() >= self.shown + 10:
            print(f"      {line}", flush=True)
            self.shown = time.monotonic()


def attention_seconds(trainers, rounds):
    """Medians of attention by itself, in turns, by the trainer's name."""
    taken = {trainer.name: [] for trainer in trainers}
    for _ in range(rounds):
        for trainer in trainers:
            taken[trainer.name] += trainer.ask("attention_seconds", 3)[1:]
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def results(trainers, rounds):
    """What all trainings have in common, by the trainer's name."""
    return {"losses": {trainer.name: trainer.losses for trainer in trainers},
            "tokens_per_second": {trainer.name: statistics.median(trainer.rates) for trainer in trainers},
            "attention_seconds": attention_seconds(trainers, rounds)}


def figures(found):
    """Rows of a table with these results."""
    losses = found["losses"].items()
    return {"loss of the first step": {name: f"{values[0]:.6f}" for name, values in losses},
            "mean loss of the last ten": {name: f"{statistics.fmean(values[-10:]):.6f}" for name, values in losses},
            "tokens per second, median": {name: f"{rate:.0f}" for name, rate in found["tokens_per_second"].items()},
            "attention alone, there and back, ms": {name: f"{1e3 * x:.1f}" for name, x in found["attention_seconds"].items()}}


def table(rows):
    """Prints rows, each a name and what to say of each trainer."""
    names = list(next(iter(rows.values())))
    print("\n" + " " * 42 + "".join(f"{name:>20}" for name in names))
    for label, cells in rows.items():
        print(f"{label:42}" + "".join(f"{cells[name]:>20}" for name in names))


def run(folder, commands, train, report):
    """Starts a trainer for each command, by name, and writes what `train` makes of them into folder/results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    trainers = [Trainer(name, *command) for name, command in commands.items()]
    try:
        found = train(trainers)
    except KeyboardInterrupt:
        print(f"\nstopped at step {len(trainers[-1].losses)}; nothing was written")
        raise SystemExit(130) from None
    except Failed as failed:
        raise SystemExit(str(failed)) from failed
    finally:
        for trainer in trainers:
            trainer.close()
    (folder / "results.json").write_text(json.dumps(found))
    report(found)
    for file in sorted(folder.iterdir()):
        print(f"written: {file}")


def arguments(usage):
    """The folder, and whether it is to be quick."""
    given = [argument for argument in sys.argv[1:] if argument != "--quick"]
    if len(given) != 1 or given[0].startswith("-"):
        raise SystemExit(usage)
    return pathlib.Path(given[0]).resolve(), len(given) < len(sys.argv[1:])
