#!/usr/bin/env python3
"""Tests of the driver, with libraries that move a clock of their own instead of computing. Standard library only."""
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import case as cases  # noqa: E402
import client  # noqa: E402
import driver  # noqa: E402
import ratios  # noqa: E402
import table  # noqa: E402


def case_named(model, dtype="f32"):
    return cases.Case("sdpa", model, dtype, "flops", 1e6, 0, 0, {"batch": 2})


class Comparison(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.limits, self.started, self.clients = 0, [], {}
        self.spins_until = os.path.join(self.folder.name, "may sleep")
        self.settings = driver.Settings(2, pairs=6, block_seconds=0.01, pause=0.001, directory=self.folder.name)
        self.turns = driver.Turns(self.settings, self.start)
        self.addCleanup(self.turns.close)
        self.compared = driver.Driver(self.settings, self.turns, self.error_of, self.measure_limits, lambda text: None)

    def start(self, library, kept=True):
        self.started.append((library, kept))
        command = [sys.executable, "-B", str(HERE.parent / "serve.py"), "fake", *library.split()]
        environment = os.environ | {"PYTHONPATH": str(HERE), "FAKE_SPINS_UNTIL": self.spins_until}
        self.clients[library] = client.Client(command, environment, os.path.join(self.folder.name, f"{library}.log"))
        return self.clients[library]

    def error_of(self, case, path):
        return float(pathlib.Path(path).read_text())

    def measure_limits(self):
        self.limits += 1
        return {"flops": float(self.limits)}

    def compare(self, case, library="peer", reason=None):
        return next(iter(list(self.compared.compare(case, {library: reason}))))

    def test_the_fastest_right_way_is_kept(self):
        result = self.compare(case_named("plain"))
        self.assertEqual(result["status"], "ok")
        self.assertEqual(result["way"], "fast")
        self.assertTrue(result["tried"]["wrong"].startswith("wrong: error 0.5"))
        self.assertEqual(result["tried"]["fails"], "ValueError: no such operator")
        self.assertAlmostEqual(result["tried"]["slow"], 20e-3)
        self.assertEqual(result["error"], 1e-6)

    def test_ratios_are_of_neighbouring_blocks(self):
        result = self.compare(case_named("plain"))
        self.assertEqual(result["ratio"]["pairs"], 6)
        self.assertAlmostEqual(result["ratio"]["median"], 3.0)  # 6 ms over 2 ms
        self.assertAlmostEqual(result["seconds"], 6e-3)
        self.assertAlmostEqual(result["fovea_seconds"], 2e-3)
        self.assertEqual(result["limits"], {"flops": 2.0})  # before, in the middle, after

    def test_wrong_alone_is_no_result(self):
        result = self.compare(case_named("all_wrong"))
        self.assertEqual((result["status"], result["way"]), ("wrong", ""))
        self.assertNotIn("ratio", result)
        self.assertIn("error 0.5", result["reason"])

    def test_a_crash_is_named_and_the_next_case_goes_on(self):
        result = self.compare(case_named("crash"))
        self.assertEqual(result["status"], "failed")
        self.assertIn("exit code 3", result["reason"])
        self.assertEqual(self.compare(case_named("plain"))["status"], "ok")

    def test_what_is_missing_says_why(self):
        described = self.compared.descriptions(["fovea", "peer", "absent"])
        self.assertIn("No module named absent", described["absent"]["reason"])
        self.assertEqual(described["peer"]["version"], "1.0")
        result = self.compare(case_named("plain"), "absent", described["absent"]["reason"])
        self.assertEqual(result["status"], "missing")

    def test_fovea_takes_part_in_float32_where_it_lacks_the_type(self):
        fovea = self.compared._fovea(case_named("plain", "bf16"))
        self.assertEqual(fovea.case.dtype, "f32")

    def test_without_fovea_nothing_is_compared(self):
        result = self.compare(case_named("unsupported"))
        self.assertEqual((result["status"], result["reason"]), ("failed", "fovea failed: cannot"))

    def test_nobody_runs_beside_another_ones_spinning_threads(self):
        self.settings.longest_pause = 60
        self.turns.ask("fovea", "describe")
        self.turns.ask("spinner", "ways", case=case_named("spins").to_json())
        self.turns.ask("spinner", "prepare", way="spins", output=os.path.join(self.folder.name, "out"))
        spinner = self.clients["spinner"]
        is_asleep, awake = spinner.is_asleep, []

        def asked():  # the third time the thread is told that it may sleep
            sleeps = is_asleep()
            if not sleeps:
                awake.append(True)
            if len(awake) == 3:
                pathlib.Path(self.spins_until).touch()
            return sleeps

        spinner.is_asleep = asked
        self.turns.ask("fovea", "describe")
        self.assertGreaterEqual(len(awake), 3)
        self.assertTrue(is_asleep())

    def test_ways_can_be_left_out(self):
        self.settings.leave_out = "^fa"
        result = self.compare(case_named("plain"))
        self.assertEqual(result["way"], "slow")
        self.assertEqual((result["tried"]["fast"], result["tried"]["fails"]), ("left out", "left out"))

    def test_a_library_whose_threads_may_wait_in_two_ways_gets_the_better_one(self):
        self.settings.variants = {"peer": "TWICE=AS_FAST"}
        result = self.compare(case_named("plain"))
        self.assertEqual(result["way"], "fast TWICE=AS_FAST")
        self.assertAlmostEqual(result["tried"]["fast TWICE=AS_FAST"], 3e-3)
        self.assertAlmostEqual(result["ratio"]["median"], 1.5)
        self.settings.variants = {"peer": "TWICE=AS_SLOW"}
        result = self.compare(case_named("plain"))
        self.assertEqual(result["way"], "fast")
        self.assertAlmostEqual(result["ratio"]["median"], 3.0)

    def test_memory_is_that_of_fresh_processes(self):
        self.settings.memory = True
        result = self.compare(case_named("plain"))
        self.assertGreaterEqual(result["bytes"], 0)
        self.assertGreaterEqual(result["fovea_bytes"], 0)
        self.assertEqual(sorted(self.started), [("fovea", False), ("fovea", True), ("peer", False), ("peer", True)])

    def test_no_pairs_are_run_when_ways_are_only_tried(self):
        self.settings.pairs = 0
        result = self.compare(case_named("plain"))
        self.assertNotIn("ratio", result)
        self.assertEqual((result["way"], self.limits), ("fast", 0))
        self.assertIn("fast", table.line(result))


class Statistics(unittest.TestCase):
    def test_intervals_hold_the_median_at_least_as_surely_as_they_say(self):
        # Tables of the sign test: 95 % needs the extremes of 6 to 8 values, the sixth of 20, the tenth of 30.
        ranks = {1: 1, 5: 1, 6: 1, 8: 1, 9: 2, 20: 6, 30: 10}
        self.assertEqual({count: ratios.interval_rank(count) for count in ranks}, ranks)

    def test_an_outlier_moves_neither_median_nor_interval(self):
        found = ratios.median_and_interval([1.0 + i / 100 for i in range(20)] + [1000])
        self.assertEqual(found, {"median": 1.1, "low": 1.05, "high": 1.15})

    def test_the_summary_tells_who_is_ahead_and_what_did_not_run(self):
        results = [{"library": "a", "status": "ok", "case": "x", "ratio": {"median": 4.0}},
                   {"library": "a", "status": "ok", "case": "y", "ratio": {"median": 0.25}},
                   {"library": "b", "status": "failed", "reason": "broke", "case": "x"}]
        text = table.summary(results)
        self.assertIn("a: fovea faster in 1 of 2, geometric mean of the ratios 1", text)
        self.assertIn("b, failed: x: broke", text)


if __name__ == "__main__":
    unittest.main()
