"""The worker's side: answers the driver's requests with a library. What is special to a library is an object with

  name, version       of the library
  types               the element types it is tried with
  ways(case)          {name of a way: function of no argument that prepares it and returns run}; raises Unsupported
  write(what run returned, case, path)  the rows that are compared, to a file
  free()                after a case
  clock()               seconds, if not time.perf_counter

The requests
  describe                            {"library", "version", "types", "untried"}
  ways       case                     {"ways": [name]} or {"reason"}
  prepare    case, way, output        {"bytes"}: prepares it, runs it and writes the sampled rows of what it gives to the
                                      file `output`; bytes is what runs raise the largest resident size by. Or {"reason"}
  time       way, seconds             {"seconds", "runs"}: per run, after one run that is not timed
  keep       ways                     {}: frees the others
  free                                {}

The libraries' own chatter on stdout goes to stderr, which the driver keeps in a log.
"""
import gc
import json
import os
import pathlib
import sys
import time

import case as cases


class Unsupported(Exception):
    """The library has no way to do this; the message says why."""


def status_bytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024


def forget_largest_size():
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not allowed here: the figure is then too large
        pass


def one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


class Worker:
    def __init__(self, library):
        self._library = library
        self._clock = getattr(library, "clock", time.perf_counter)
        self._case = None
        self._makers = {}
        self._runs = {}

    def describe(self):
        library = self._library
        return {"library": library.name, "version": library.version, "types": list(library.types),
                "untried": getattr(library, "untried", {})}

    def ways(self, case):
        self.free()
        self._case = cases.from_json(case)
        try:
            self._makers = self._library.ways(self._case)
        except Unsupported as unsupported:
            return {"reason": str(unsupported)}
        return {"ways": list(self._makers)}

    def prepare(self, way, output):
        self._runs[way] = run = self._makers[way]()
        before = status_bytes("VmRSS")
        forget_largest_size()
        for _ in range(2):
            result = run()
        grown = status_bytes("VmHWM") - before
        self._library.write(result, self._case, output)
        return {"bytes": max(0, grown)}

    def time(self, way, seconds):
        run = self._runs[way]
        once = self._seconds_per_run(run, 1)  # caches and threads are its own again
        if once < 1e-3:
            once = self._seconds_per_run(run, 3)
        runs = max(1, round(seconds / once))
        return {"seconds": self._seconds_per_run(run, runs), "runs": runs}

    def _seconds_per_run(self, run, runs):
        clock = self._clock
        begin = clock()
        for _ in range(runs):
            run()
        return (clock() - begin) / runs

    def keep(self, ways):
        self._runs = {way: run for way, run in self._runs.items() if way in ways}
        gc.collect()
        return {}

    def free(self):
        self._makers = {}
        self._library.free()
        return self.keep([])


def serve(make_library):
    """Answers until stdin ends. make_library may raise ImportError or OSError: the library is not there."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        worker, reason = Worker(make_library()), None
    except (ImportError, OSError, ValueError, Unsupported) as error:
        worker, reason = None, one_line(error)
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            answer = {"reason": reason} if worker is None else getattr(worker, do)(**request)
        except Exception as error:  # whatever a library throws at us is its reason
            answer = {"reason": one_line(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
