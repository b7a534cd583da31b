# SPDX-License-Identifier: Apache-2.0
"""How far the compiler is, for whoever waits for pip: written to the terminal, as pip keeps what its build prints to itself."""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import threading
import time

METER = pathlib.Path(__file__).resolve().parents[3] / "tools" / "ninja_progress.awk"
SECONDS_BETWEEN_LINES = 15


@contextlib.contextmanager
def shown(build):
    """Writes a line now and then while ninja works in the folder `build`, where there is a terminal."""
    try:
        terminal = open("/dev/tty", "w")
    except OSError:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(build, terminal, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        terminal.close()


def watch(build, terminal, done):
    begin = time.time()
    while not (build / "build.ninja").exists() or (build / "build.ninja").stat().st_mtime < begin - 1:
        if done.wait(0.5):
            return
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        plan, log = pathlib.Path(folder, "plan"), pathlib.Path(folder, "log")
        ninja = os.environ.get("NINJA", "ninja")
        asked = subprocess.run([ninja, "-n", "-C", str(build)], capture_output=True, text=True, check=False)
        plan.write_text(asked.stdout)
        say(terminal, meter(plan))
        while not done.wait(SECONDS_BETWEEN_LINES):
            log.write_text("".join(finished(build, begin)))
            say(terminal, meter(plan, log, time.time() - begin))


def finished(build, begin):
    """A line of ninja's for each object made since `begin`."""
    for line in (build / ".ninja_log").read_text().splitlines():
        output = line.split("\t")[3:4]
        if output and output[0].endswith(".o") and (build / output[0]).stat().st_mtime >= begin:
            yield f"[1/1] Compiling {output[0]}\n"


def meter(plan, log=None, elapsed=0.0):
    command = ["awk", "-v", f"jobs={os.cpu_count() or 1}", "-v", f"elapsed={elapsed:.0f}", "-f", str(METER), str(plan)]
    return subprocess.run(command + ([str(log)] if log else []), capture_output=True, text=True, check=False).stdout.strip()


def say(terminal, words):
    if words:
        print(f"\r\033[K  compiling fovea: {words}", file=terminal, flush=True)
