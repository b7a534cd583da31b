# SPDX-License-Identifier: Apache-2.0
"""A folder of an example's own below the build folder, with a Python environment in it. Standard library only."""
import subprocess
import sys


class Failed(Exception):
    pass


class OwnEnvironment:
    def __init__(self, build, name):
        self.folder = build / name
        self.python = self.folder / "venv" / "bin" / "python"
        self.log = build / "logs" / f"{name}.log"

    def succeeds(self, *command):
        """Runs it, with all it says in the log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("w", encoding="utf-8") as log:
            return subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode == 0

    def logged(self, *command):
        if self.succeeds(*command):
            return
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-20:]), file=sys.stderr)
        raise Failed(f"failed: {' '.join(map(str, command))}; the whole output is in {self.log}")

    def works(self, *arguments):
        return self.python.exists() and subprocess.run([self.python, *arguments], capture_output=True).returncode == 0

    def make(self):
        self.logged(sys.executable, "-m", "venv", "--clear", self.folder / "venv")

    def pip(self, *arguments):
        self.logged(self.python, "-m", "pip", "--disable-pip-version-check", *arguments)
