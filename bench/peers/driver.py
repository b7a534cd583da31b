"""Runs fovea and its peers on the same cases, in turns. Standard library only: the libraries are in the workers.

For each case and library
  1. every way that the library has is prepared, run once and compared with the float64 reference; of those that pass,
     the fastest in a short trial is kept; it is tried once more in a second process of the library whose threads wait
     otherwise, where there is one: spinning threads are quicker on idle cores, sleeping ones on shared cores
  2. fovea and that way run in turns, block by block, and each pair of neighbouring blocks gives a ratio. Who comes first
     alternates. Before a block begins, all threads of the process before it have gone to sleep
  3. the machine's limits are measured before, in the middle and after

So a machine that changes its speed from second to second changes both halves of a ratio.
"""
import dataclasses
import os
import re
import statistics
import sys
import time

import ratios
from client import WorkerGone


@dataclasses.dataclass
class Settings:
    threads: int
    pairs: int = 20
    block_seconds: float = 0.03
    leave_out: str | None = None  # ways that this regular expression matches
    memory: bool = False
    variants: dict = dataclasses.field(default_factory=dict)  # library -> "NAME=VALUE", the second process' environment
    pair_seconds: float = 12.0  # all pairs of one case and library; long ones have fewer
    least_pairs: int = 7
    pause: float = 0.02
    longest_pause: float = 1.0
    directory: str = "."


class Turns:
    """The workers, of which one runs at a time. A worker is named by its library, or "library NAME=VALUE"."""

    def __init__(self, settings, start):
        """start(worker, kept=True) -> a new Client; with kept False its allocator gives back what is freed."""
        self._settings = settings
        self._start = start
        self._workers = {}

    def ask(self, worker, do, **fields):
        if worker not in self._workers:
            self._workers[worker] = self._start(worker)
        self._wait_for_sleep(worker)
        try:
            return self._workers[worker].ask(do, **fields)
        except WorkerGone:
            self._workers.pop(worker).close()
            raise

    def _wait_for_sleep(self, asked):
        """Threads that wait for more work spin for a while: not while another library is measured."""
        settings = self._settings
        others = [worker for name, worker in self._workers.items() if name != asked]
        end = time.monotonic() + settings.longest_pause
        time.sleep(settings.pause)
        while time.monotonic() < end and not all(worker.is_asleep() for worker in others):
            time.sleep(0.005)

    def extra_bytes(self, way):
        """By how much calls raise the largest resident size of a process that has made no other; None: unknown."""
        worker = self._start(way.worker, kept=False)
        try:
            worker.ask("ways", case=way.case.to_json())
            path = os.path.join(self._settings.directory, "memory.npy")
            return worker.ask("prepare", way=way.name, output=path).get("bytes")
        except WorkerGone:
            return None
        finally:
            worker.close()

    def free(self, library):
        """Frees a case in all processes of a library."""
        for name in [name for name in self._workers if name.split()[0] == library]:
            try:
                self.ask(name, "free")
            except WorkerGone:
                pass  # started again for the next case

    def close(self):
        for worker in self._workers.values():
            worker.close()
        self._workers = {}


class Way:
    """One way to do a case, in one worker, that gave the right output."""

    def __init__(self, worker, name, case, seconds, error):
        self.worker, self.name, self.case, self.seconds, self.error = worker, name, case, seconds, error

    def __str__(self):
        return " ".join([self.name, *self.worker.split()[1:]])


class Driver:
    def __init__(self, settings, turns, error_of, measure_limits, say):
        """error_of(case, path) -> error of what a worker wrote; measure_limits() -> {name: rate}; say(text): progress."""
        self._settings, self._turns = settings, turns
        self._error_of, self._measure_limits, self._say = error_of, measure_limits, say

    def descriptions(self, libraries):
        """{library: what its worker says of itself, or {"reason"}}."""
        found = {}
        for library in libraries:
            try:
                found[library] = self._turns.ask(library, "describe")
            except WorkerGone as gone:
                found[library] = {"reason": str(gone)}
        return found

    # ---- the fastest way that is right -------------------------------------------------------------------------------

    def _try_way(self, worker, case, way):
        """(Way, None), or (None, why not)."""
        path = os.path.join(self._settings.directory, "out.npy")
        answer = self._turns.ask(worker, "prepare", way=way, output=path)
        if "reason" in answer:
            return None, answer["reason"]
        error = self._error_of(case, path)
        if not error <= case.tolerance:
            return None, f"wrong: error {error:.2g}, {case.tolerance:g} is allowed"
        seconds = min(self._turns.ask(worker, "time", way=way, seconds=self._settings.block_seconds)["seconds"]
                      for _ in range(2))
        return Way(worker, way, case, seconds, error), None

    def _fastest(self, library, case):
        """(the fastest right Way or None, {way: seconds or reason})."""
        answer = self._turns.ask(library, "ways", case=case.to_json())
        if "reason" in answer:
            return None, {"": answer["reason"]}
        fastest, tried = None, {}
        for name in answer["ways"]:
            if self._settings.leave_out and re.search(self._settings.leave_out, name):
                tried[name] = "left out"
                continue
            self._say(f"{library}: {name}")
            way, tried[name] = self._try_way(library, case, name)
            if way:
                tried[name] = way.seconds
                if fastest is None or way.seconds < fastest.seconds:
                    fastest = way
            self._turns.ask(library, "keep", ways=[fastest.name] if fastest else [])
        if fastest and library in self._settings.variants:
            fastest = self._better_waiting(fastest, tried)
        return fastest, tried

    def _better_waiting(self, way, tried):
        """The same way in the library's second process, if that is faster."""
        variant = self._settings.variants[way.worker]
        worker, other, name = f"{way.worker} {variant}", None, f"{way.name} {variant}"
        try:
            self._turns.ask(worker, "ways", case=way.case.to_json())
            other, tried[name] = self._try_way(worker, way.case, way.name)
        except WorkerGone as gone:
            tried[name] = str(gone)
            return way
        if other:
            tried[name] = other.seconds
            if other.seconds < way.seconds:
                self._turns.ask(way.worker, "free")
                return other
        self._turns.ask(worker, "free")
        return way

    def _fovea(self, case):
        """fovea's fastest way, in float32 where it does not take the type."""
        way, tried = self._fastest("fovea", case)
        if way is None and case.dtype != "f32":
            way, tried = self._fastest("fovea", case.of_type("f32"))
        if way is None:
            raise RuntimeError(f"fovea failed: {next(iter(tried.values()))}")
        return way

    # ---- pairs -------------------------------------------------------------------------------------------------------

    def _block(self, way):
        return self._turns.ask(way.worker, "time", way=way.name, seconds=self._settings.block_seconds)["seconds"]

    def _pairs(self, peer, fovea):
        """Lists of the peer's and fovea's seconds, block by block, and of the limits between."""
        settings = self._settings
        theirs, ours, limits = [], [], [self._measure_limits()]
        begin = time.monotonic()
        for pair in range(settings.pairs):
            order = ((peer, theirs), (fovea, ours))
            for way, seconds in order if pair % 2 else order[::-1]:
                seconds.append(self._block(way))
            if pair == settings.pairs // 2:
                limits.append(self._measure_limits())
            if pair + 1 >= settings.least_pairs and time.monotonic() - begin > settings.pair_seconds:
                break
        limits.append(self._measure_limits())
        return theirs, ours, limits

    def _result(self, case, library, fovea):
        result = {"case": case.name, "operation": case.operation, "library": library, "way": "", "dtype": case.dtype,
                  "threads": self._settings.threads, "status": "ok", "reason": "", "fovea_way": fovea.name,
                  "fovea_dtype": fovea.case.dtype, "fovea_error": fovea.error,
                  "bound": case.bound, "flops": case.flops, "tried": {}}
        try:
            way, result["tried"] = self._fastest(library, case)
        except WorkerGone as gone:
            return result | {"status": "failed", "reason": str(gone)}
        if way is None:
            return result | failure(result.pop("tried"))
        result |= {"way": str(way), "error": way.error, "seconds": way.seconds}
        if self._settings.memory:
            result |= {"bytes": self._turns.extra_bytes(way), "fovea_bytes": self._turns.extra_bytes(fovea)}
        if self._settings.pairs == 0:
            return result
        self._say(f"{library}: {way}, in turns")
        try:
            theirs, ours, limits = self._pairs(way, fovea)
        except WorkerGone as gone:
            return result | {"status": "failed", "reason": str(gone)}
        ratio = ratios.median_and_interval([their / our for their, our in zip(theirs, ours)])
        return result | {"seconds": statistics.median(theirs), "fovea_seconds": statistics.median(ours),
                         "ratio": ratio | {"pairs": len(ours)}, "limits": medians(limits)}

    def compare(self, case, libraries):
        """Results of one case, one after the other. `libraries`: {name: None, or why it cannot take part}."""
        try:
            fovea = self._fovea(case)
        except (WorkerGone, RuntimeError) as error:
            for library in libraries:
                yield no_result(case, library, self._settings.threads, "failed", str(error))
            return
        for library, reason in libraries.items():
            if reason:
                yield no_result(case, library, self._settings.threads, "missing", reason)
                continue
            yield self._result(case, library, fovea)
            self._turns.free(library)
        self._turns.free("fovea")


def no_result(case, library, threads, status, reason):
    return {"case": case.name, "operation": case.operation, "library": library, "way": "", "dtype": case.dtype,
            "threads": threads, "status": status, "reason": reason, "tried": {}}


def failure(tried):
    """What to report where no way came through."""
    reasons = list(tried.values())
    if list(tried) == [""]:
        return {"status": "missing", "reason": reasons[0], "tried": {}}
    wrong = all(reason.startswith("wrong") for reason in reasons)
    return {"status": "wrong" if wrong else "failed", "reason": reasons[0], "tried": tried}


def medians(measured):
    return {name: statistics.median(one[name] for one in measured) for name in measured[0]}


class Progress:
    """On stderr: where it is, and about how long it takes on."""

    def __init__(self, total):
        self._total, self._done, self._name = total, 0, ""
        self._begin = time.monotonic()

    def case(self, name):
        self._name = name
        self._done += 1
        self.say("")

    def say(self, text):
        finished = self._done - 1
        left = ""
        if finished:
            seconds = (time.monotonic() - self._begin) / finished * (self._total - finished)
            left = f" (about {seconds / 60:.0f} min left)" if seconds >= 60 else f" (about {seconds:.0f} s left)"
        line = f"[{self._done}/{self._total}] {self._name} {text}".rstrip() + left
        if sys.stderr.isatty():
            print(f"\r\033[K{line[:150]}", end="", file=sys.stderr, flush=True)
        elif not text:
            print(line, file=sys.stderr, flush=True)

    def clear(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
