"""Measures two builds in turns: rounds of a fresh pair of processes, in which old and new take their turns side by side.

A turn is cut into blocks, and a round compares the lower quartiles of all blocks of either side: what others do on the
machine only ever adds time, and with more work than cores it is seldom that a whole turn is left in peace. On a machine
with five busy processes for each core, rounds of equal builds so differed by 0.3 % (a call of 3 us) where means over
whole turns differed by 12 %. A change that shows in the slower blocks alone is not seen.
"""
import contextlib
import math
import random

from decide import lower_quartile
from server import Server

BLOCKS = 16  # of a turn, at most
SLOW_SECONDS = 0.1  # of one run: a turn is then one run, and rounds have fewer turns


class Scheme:
    """How long is measured. A first look at every case; those that may differ are measured again, anew."""

    def __init__(self, quick=False, first_rounds=6, second_rounds=20):
        self.quick = quick
        self.turn_seconds = 0.001 if quick else 0.02
        self.first_rounds, self.second_rounds = first_rounds, second_rounds

    def turn(self, run_seconds):
        """Runs of a block, blocks of a turn, pairs of turns in a round."""
        runs = max(1, math.ceil(self.turn_seconds / BLOCKS / run_seconds))
        if self.quick:
            return runs, BLOCKS if run_seconds < self.turn_seconds / BLOCKS else 1, 1
        if run_seconds > SLOW_SECONDS:
            return runs, 1, 2
        return runs, min(BLOCKS, max(2, round(self.turn_seconds / (runs * run_seconds)))), 4


class Case:
    """One case of both builds: what has been measured of it."""

    def __init__(self, name, commands, isa="-", threads="-"):
        self.name, self.commands, self.isa, self.threads = name, commands, isa, threads
        self.ran_on = ""
        self.turn = None  # the same for both builds and all rounds
        self.seconds = []  # of one run, (old, new) for each round
        self.logs = []  # of new over old
        self.adjusted_p = None
        self.answer = None  # same, faster, slower
        self.noisy = False  # same, but only because little can be seen

    def measure(self, rounds, scheme):
        self.seconds = [self.measure_round(scheme, random.random() < 0.5) for _ in range(rounds)]
        self.logs = [math.log(new / old) for old, new in self.seconds]

    def measure_round(self, scheme, old_first):
        """Turns in the order old new, new old, ..., or the other way round; so does what starts first."""
        with contextlib.ExitStack() as stack:
            servers = [None, None]
            for side in (0, 1) if old_first else (1, 0):
                servers[side] = stack.enter_context(Server(self.commands[side]))
                self.ran_on = " ".join(servers[side].ask(f"prepare {self.name} {self.isa} {self.threads}"))
            if self.turn is None:
                self.turn = scheme.turn(min(server.numbers(f"time {scheme.turn_seconds}")[0] for server in servers))
            runs, blocks, pairs = self.turn
            seconds = ([], [])
            for pair in range(pairs):
                for side in (0, 1) if old_first == (pair % 2 == 0) else (1, 0):
                    seconds[side].extend(servers[side].numbers(f"runs {runs} {blocks}"))
            return lower_quartile(seconds[0]), lower_quartile(seconds[1])
