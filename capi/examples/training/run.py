#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example that trains, once what it needs is there: `./dev example translation` and `./dev example gpt` call this.

    run.py BUILD PACKAGE translation|gpt [--quick]

PACKAGE is the folder that holds the Python package fovea. BUILD/training gets an environment with PyTorch, NumPy and matplotlib,
and BUILD/training/NAME what the example draws.
"""
import contextlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "bench" / "peers")]
import environment as peers  # noqa: E402
from own_environment import Failed, OwnEnvironment  # noqa: E402

NAMES = ("translation", "gpt")


class Training(OwnEnvironment):
    def __init__(self, build):
        super().__init__(build, "training")

    def provide(self):
        if self.works("-c", "import matplotlib, numpy, torch"):
            return
        print("      making a Python environment with PyTorch, NumPy and matplotlib (some minutes, once)", flush=True)
        self.make()
        self.pip("install", "numpy", "matplotlib")
        self.add_pytorch()

    def add_pytorch(self):
        """Without the packages for GPUs that it would bring along."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log, contextlib.redirect_stdout(log):
            reason = peers.install(self.folder, "torch")
        if reason is not None:
            raise Failed(f"PyTorch cannot be installed: {reason}; the whole output is in {self.log}")


def main():
    build, package, name, *options = sys.argv[1:] if len(sys.argv) > 3 else sys.exit(__doc__)
    if name not in NAMES or options not in ([], ["--quick"]):
        sys.exit(__doc__)
    training = Training(pathlib.Path(build).resolve())
    try:
        training.provide()
    except Failed as failed:
        sys.exit(f"""{failed}
The packages torch, numpy and matplotlib are needed in {training.python.parent.parent}. Then run ./dev example {name} again.""")
    known = os.environ.get("PYTHONPATH")
    package = str(pathlib.Path(package).resolve())
    os.environ["PYTHONPATH"] = f"{package}{os.pathsep}{known}" if known else package
    os.execv(training.python, [str(training.python), "-B", str(HERE / f"{name}.py"), str(training.folder / name), *options])


if __name__ == "__main__":
    main()
