#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what ninja has to make before the tests of a suite can run.

    suite_targets.py BUILD SUITE     BUILD: a folder that Meson has set up
"""
import json
import pathlib
import sys


def suite_targets(build, suite):
    """Files, relative to the build folder, that tests of that suite are or take."""
    known = build / "meson-info"
    tests = json.loads((known / "intro-tests.json").read_text())
    files = {target["id"]: target["filename"] for target in json.loads((known / "intro-targets.json").read_text())}
    wanted = {each for test in tests if any(its.endswith(":" + suite) for its in test["suite"]) for each in test["depends"]}
    return sorted(str(pathlib.Path(file).relative_to(build)) for each in wanted for file in files[each])


if __name__ == "__main__":
    print(*suite_targets(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]), sep="\n")
