#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the example smollm2 beside other engines (capi/examples/smollm2/peers.py), with engines that are made up.

    smollm2_peers.py FOLDER    of the example
"""
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import peer_engines  # noqa: E402
import peers  # noqa: E402

# Answers every case by the same rate, and anything else it is told by ending.
MADE_UP = """
import sys
for line in sys.stdin:
    if line != "decode 1 512\\n":
        sys.exit("this case is not mine")
    print(RATE, 0, 0, flush=True)
"""


def made_up(family, settings, bits, rate):
    return peers.Engine(family, settings, bits, [sys.executable, "-c", MADE_UP.replace("RATE", str(rate))])


def some_engines():
    return [made_up("fovea", "a", 16, 60.0), made_up("fovea", "b", 8, 90.0), made_up("OpenVINO", "c", 4, 40.0),
            made_up("llama.cpp", "d", 16, 20.0), made_up("llama.cpp", "e", 4, 50.0)]


class Turns(unittest.TestCase):
    def test_each_round_has_all_and_begins_with_the_next(self):
        rounds = ["".join(order) for order in peers.turns(["a", "b", "c"], 4)]
        self.assertEqual(rounds, ["abc", "bca", "cab", "abc"])

    def test_all_are_asked_as_often(self):
        running = some_engines()
        for engine in running:
            engine.start()
        rates = peers.measured(running, "decode 1 512", 3)
        for engine in running:
            engine.stop()
        self.assertEqual(rates, {"fovea, a": [60.0] * 3, "fovea, b": [90.0] * 3, "OpenVINO, c": [40.0] * 3,
                                 "llama.cpp, d": [20.0] * 3, "llama.cpp, e": [50.0] * 3})

    def test_one_that_ends_is_named_with_what_it_said(self):
        engine = made_up("OpenVINO", "c", 4, 1.0)
        engine.start()
        for _ in range(2):  # the second time it is gone
            with self.assertRaisesRegex(peers.Ended, "OpenVINO, c has ended: this case is not mine"):
                engine.rate("prompt 1 512")
            engine.process.wait()  # so that it has not read the second line
        engine.stop()


class Ratios(unittest.TestCase):
    RATES = {"fovea, a": [60.0, 61.0, 10.0], "fovea, b": [90.0, 80.0, 95.0], "OpenVINO, c": [40.0, 41.0, 39.0],
             "llama.cpp, d": [20.0, 99.0, 15.0], "llama.cpp, e": [50.0, 50.0, 1.0]}

    def lines(self, running):
        return list(peers.table("decode 1 512", running, {engine.name: self.RATES[engine.name] for engine in running}))

    def test_ours_are_held_beside_the_fastest_of_each_set_by_medians(self):
        lines = self.lines(some_engines())
        self.assertEqual([called.strip() for called in lines[0].split(" / ")[1:]], ["the best", "16 bits", "OpenVINO", "llama.cpp"])
        self.assertEqual(lines[1].split()[2:], ["60.0", "10.0", "61.0", "1.20", "3.00", "1.50", "1.20"])
        self.assertEqual(lines[2].split()[2:], ["90.0", "80.0", "95.0", "1.80", "4.50", "2.25", "1.80"])

    def test_others_have_no_ratios(self):
        self.assertEqual([line.split()[2:] for line in self.lines(some_engines())[3:6]],
                         [["40.0", "39.0", "41.0"], ["20.0", "15.0", "99.0"], ["50.0", "1.0", "50.0"]])

    def test_the_rivals_are_named(self):
        self.assertEqual([line.rsplit(", ", 2)[1:] for line in self.lines(some_engines())[6:]],
                         [["llama.cpp", "e"], ["llama.cpp", "d"], ["OpenVINO", "c"], ["llama.cpp", "e"]])

    def test_who_is_not_there_is_not_compared_with(self):
        without = [engine for engine in some_engines() if engine.family != "llama.cpp"]
        self.assertEqual(list(peers.rivals(without, {"OpenVINO, c": 40.0})), ["the best", "OpenVINO"])
        self.assertEqual(peers.rivals(without[:2], {}), {})


class Steps(unittest.TestCase):
    """llama.cpp's side of the protocol, over a library that only takes notes."""

    class Library:
        def __init__(self):
            self.steps, self.removed = [], []

        def llama_decode(self, _, batch):
            self.steps.append([(batch.seq_id[n][0], batch.pos[n]) for n in range(batch.n_tokens)])
            return 0

        def llama_memory_seq_rm(self, _, sequence, begin, end):
            self.removed.append((sequence, begin, end))

        def llama_memory_clear(self, *_):
            pass

        def llama_synchronize(self, _):
            pass

    class Batch:
        def __init__(self):
            self.token, self.pos, self.n_seq_id, self.logits = ([0] * 512 for _ in range(4))
            self.seq_id = [[0] for _ in range(512)]

    def test_prompts_are_read_once_and_decoding_begins_at_their_ends(self):
        engine = peer_engines.LlamaCpp.__new__(peer_engines.LlamaCpp)
        engine.api, engine.batch, engine.context, engine.memory, engine.open_prompts = self.Library(), self.Batch(), 1, 1, None
        engine.make_context = lambda sequences, positions: None
        prompts = peer_engines.tokens(2, 700)
        engine.decode(prompts)
        read = [(sequence, at) for step in engine.api.steps[:4] for sequence, at in step]
        self.assertEqual(read, [(sequence, at) for sequence in range(2) for at in range(700)])
        count = peer_engines.DECODES * peer_engines.STEPS
        decoded = [[(0, at), (1, at)] for at in range(700, 700 + count)]
        self.assertEqual(engine.api.steps[4:], decoded)
        engine.decode(prompts)
        self.assertEqual(engine.api.removed, [(0, 700, -1), (1, 700, -1)])
        self.assertEqual(engine.api.steps[4 + count:], decoded)


if __name__ == "__main__":
    unittest.main()
