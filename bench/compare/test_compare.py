"""Tests of the driver with programs that make their times up: protocol, order of turns, exit status, JSON."""
import collections
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

import builds
import compare
import server
from turns import Case, Scheme

FAKE = pathlib.Path(__file__).resolve().parent / "fake_bench.py"


class WithFakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fake(self, side, seconds, **wrong):
        """A build folder with a program in it."""
        folder = self.folder / side
        (folder / "bench").mkdir(parents=True)
        settings = folder / "settings.json"
        settings.write_text(json.dumps({"side": side, "seconds": seconds, **wrong}))
        binary = folder / "bench" / "fovea_bench"
        binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -B "{FAKE}" "{settings}" "$@"\n')
        binary.chmod(0o755)
        return folder

    def binary(self, side, seconds, **wrong):
        return str(self.fake(side, seconds, **wrong) / "bench" / "fovea_bench")

    def run_main(self, old, new, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = compare.main(["--binary", str(new / "bench" / "fovea_bench"), "--against", str(old),
                                       "--rounds", "8", *arguments])
            except SystemExit as error:
                status = error.code
        return status, out.getvalue(), err.getvalue()


class Turns(WithFakes):
    def measured(self, rounds, seconds):
        log = self.folder / "log"
        commands = [[self.binary(side, {"a": seconds}, log=str(log)), "--serve"] for side in ("old", "new")]
        case = Case("a", commands)
        case.measure(rounds, Scheme())
        requests = [line.split() for line in log.read_text().splitlines()]
        by_process = collections.OrderedDict()
        for process, side, *words in requests:
            by_process.setdefault(process, []).append((side, words))
        return requests, by_process

    def test_every_round_has_fresh_processes(self):
        _, by_process = self.measured(3, 1e-3)
        self.assertEqual(len(by_process), 6)

    def test_turns_alternate_so_that_neither_always_follows_the_other(self):
        requests, _ = self.measured(2, 1e-3)
        turns = [side for _, side, command, *_ in requests if command == "runs"]
        for begin in (0, 8):
            first, second = turns[begin : begin + 2]
            self.assertNotEqual(first, second)
            self.assertEqual(turns[begin : begin + 8], [first, second, second, first] * 2)

    def test_both_run_as_often(self):
        requests, _ = self.measured(2, 3e-6)
        asked = {tuple(words) for _, _, command, *words in requests if command == "runs"}
        self.assertEqual(len(asked), 1)
        runs, blocks = next(iter(asked))
        self.assertAlmostEqual(int(runs), 417, delta=20)  # by what a first look finds
        self.assertEqual(blocks, "16")

    def test_long_runs_get_few_turns_of_one(self):
        requests, _ = self.measured(1, 0.4)
        turns = [words for _, _, command, *words in requests if command == "runs"]
        self.assertEqual(turns, [["1", "1"]] * 4)


class Protocol(WithFakes):
    def serve(self, **wrong):
        running = server.Server([self.binary("one", {"a": 1e-3}, **wrong), "--serve"], answer_seconds=60)
        self.addCleanup(running.close)
        return running

    def test_a_program_that_cannot_serve(self):
        with self.assertRaisesRegex(server.Broken, "expected"):
            self.serve(banner="ok fovea_bench serves 2")
        with self.assertRaisesRegex(server.Broken, "ended with status 1"):
            server.Server([sys.executable, "-c", "raise SystemExit(1)"])

    def test_a_refusal_is_no_end(self):
        running = self.serve(refuses=["b"])
        with self.assertRaisesRegex(server.Refused, "FOVEA_BAD_OPTION: flags"):
            running.ask("prepare b - -")
        self.assertEqual(running.ask("prepare a - -"), ["avx2", "2"])

    def test_the_last_words_of_one_that_dies(self):
        running = self.serve(dies=["a"])
        running.ask("prepare a - -")
        with self.assertRaisesRegex(server.Broken, "ended with status 3: out of memory"):
            running.numbers("runs 3 2")

    def test_one_that_says_nothing_is_not_waited_for_forever(self):
        running = self.serve(silent=["a"])
        running.ask("prepare a - -")
        running.answer_seconds = 0.1
        with self.assertRaisesRegex(server.Broken, "no answer within 0.1 s"):
            running.numbers("runs 3 2")

    def test_what_is_no_number(self):
        running = self.serve(babbles=["a"])
        running.ask("prepare a - -")
        with self.assertRaisesRegex(server.Broken, "numbers above 0"):
            running.numbers("runs 3 2")


class Whole(WithFakes):
    def test_equal_builds(self):
        status, out, err = self.run_main(self.fake("old", {"a": 1e-3}), self.fake("new", {"a": 1e-3}))
        self.assertEqual(status, 0, out + err)
        self.assertIn("1 cases: 1 same, 0 faster, 0 slower by more than 2 %", out)

    def test_slower_and_faster(self):
        old = self.fake("old", {"a": 1e-3, "b": 1e-3})
        new = self.fake("new", {"a": 1.05e-3, "b": 0.9e-3})
        target = self.folder / "out.json"
        status, out, err = self.run_main(old, new, "--json", str(target), "--threads", "1")
        self.assertEqual(status, 1, out + err)
        results = {case["name"]: case for case in json.loads(target.read_text())["cases"]}
        self.assertEqual({name: case["answer"] for name, case in results.items()}, {"a": "slower", "b": "faster"})
        self.assertAlmostEqual(results["a"]["ratio"], 1.05, delta=0.003)
        self.assertEqual((results["a"]["isa"], results["a"]["threads"]), ("avx2", 1))
        self.assertEqual(results["a"]["rounds"], 11)  # eight could not decide between two cases

    def test_slower_by_less_than_the_limit(self):
        old, new = self.fake("old", {"a": 1e-3}), self.fake("new", {"a": 1.05e-3})
        status, out, _ = self.run_main(old, new, "--slower-than", "10%")
        self.assertEqual(status, 0, out)

    def test_cases_that_only_one_has_and_a_filter(self):
        old = self.fake("old", {"op/a": 1e-3, "op/gone": 1e-3, "else": 1e-3})
        status, out, _ = self.run_main(old, self.fake("new", {"op/a": 1e-3, "op/fresh": 1e-3, "else": 1e-3}), "op/")
        self.assertEqual(status, 0, out)
        self.assertIn("only in the present build: op/fresh", out)
        self.assertIn("only in the old build: op/gone", out)
        self.assertIn("1 cases", out)

    def test_a_case_that_fails_is_reported_and_the_others_go_on(self):
        old = self.fake("old", {"a": 1e-3, "b": 1e-3}, refuses=["a"])
        status, out, _ = self.run_main(old, self.fake("new", {"a": 1e-3, "b": 1e-3}))
        self.assertEqual(status, 2)
        self.assertIn("failed: FOVEA_BAD_OPTION: flags", out)
        self.assertIn("1 same", out)

    def test_errors(self):
        old, new = self.fake("old", {"a": 1e-3}), self.fake("new", {"a": 1e-3})
        self.assertEqual(self.run_main(old, new, "nothing")[0], 2)
        self.assertEqual(self.run_main(old, new, "--slower-than", "2%x")[0], 2)
        self.assertEqual(self.run_main(old, new, "--slower-than", "0")[0], 2)
        self.assertEqual(self.run_main(old, new, "--threads", "0")[0], 2)
        status, _, err = self.run_main(self.folder, new)
        self.assertEqual(status, 2)
        self.assertIn("holds no bench/fovea_bench", err)

    def test_a_folder_whose_program_cannot_serve(self):
        status, _, err = self.run_main(self.fake("old", {"a": 1e-3}, banner="usage: fovea_bench"),
                                       self.fake("new", {"a": 1e-3}))
        self.assertEqual(status, 2)
        self.assertIn("cannot serve", err)


class Building(WithFakes):
    """Which commands build a commit; the compiler itself is left out."""

    def setUp(self):
        super().setUp()
        self.root = self.folder / "repository"
        (self.root / "bench").mkdir(parents=True)
        (self.root / "meson.build").write_text("subdir('bench')\n")
        (self.root / "bench" / "main.cpp").write_text("old\n")
        self.git("init", "-q")
        self.commits = [self.commit("old")]
        (self.root / "bench" / "main.cpp").write_text("new\n")
        (self.root / "bench" / "serve.cpp").write_text("serves\n")
        self.commits.append(self.commit("serving"))
        self.commands = []
        for name, stand_in in (("steps", lambda log, command: self.commands.append(command)),
                               ("Server", lambda *_, **__: contextlib.nullcontext())):
            self.addCleanup(setattr, builds, name, getattr(builds, name))
            setattr(builds, name, stand_in)

    def git(self, *arguments):
        done = builds.git(self.root, "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def commit(self, text):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")

    def test_a_commit_that_serves_is_built_as_it_is(self):
        build = builds.commit_build(self.root, "HEAD")
        self.assertFalse(build.present_benchmarks)
        self.assertTrue(build.text.endswith("serving"))
        self.assertIn(str(self.root / "build" / "against" / self.commits[1][:12]), build.binary)
        self.assertEqual([command[0] for command in self.commands], ["meson", "ninja"])

    def test_it_is_set_up_once(self):
        builds.commit_build(self.root, "HEAD")
        builds.commit_build(self.root, self.commits[1])
        self.assertEqual([command[0] for command in self.commands], ["meson", "ninja", "ninja"])
        os.environ["CXXFLAGS"] = "-DOTHER"
        self.addCleanup(os.environ.pop, "CXXFLAGS")
        builds.commit_build(self.root, "HEAD")
        self.assertEqual([command[0] for command in self.commands[3:]], ["meson", "ninja"])

    def test_an_older_one_gets_the_present_benchmarks(self):
        (self.root / "bench" / "main.cpp").write_text("not even committed\n")
        build = builds.commit_build(self.root, "HEAD~1")
        self.assertTrue(build.present_benchmarks)
        source = pathlib.Path(build.binary).parent.parent.parent / "source"
        self.assertEqual((source / "bench" / "main.cpp").read_text(), "not even committed\n")
        self.assertTrue((source / "bench" / "serve.cpp").exists())

    def test_what_is_no_commit(self):
        with self.assertRaisesRegex(builds.CannotBuild, "neither a folder nor a commit"):
            builds.commit_build(self.root, "HEAD~7")


class Steps(unittest.TestCase):
    def test_a_failure_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            with self.assertRaisesRegex(builds.CannotBuild, "x.cpp:1: error: no such member"):
                builds.steps(log, ["sh", "-c", "echo fine; echo 'x.cpp:1: error: no such member' >&2; exit 1"])


if __name__ == "__main__":
    unittest.main()
