"""Finds the build to compare with: a folder that holds one, or a commit, which it builds in build/against."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from server import Broken, Refused, Server

# What a build depends on beside its sources.
ENVIRONMENT = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH")


class CannotBuild(Exception):
    pass


class Build:
    def __init__(self, binary, text, present_benchmarks=False):
        self.binary, self.text, self.present_benchmarks = str(binary), text, present_benchmarks

    def case_names(self, pattern):
        command = [self.binary, "--cases"] + ([pattern] if pattern else [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"{self.binary} --cases: {done.stderr.strip() or 'failed'}")
        return [case["name"] for case in json.loads(done.stdout)]

    def check(self):
        try:
            with Server([self.binary, "--serve"], answer_seconds=60):
                pass
        except (Broken, Refused, OSError) as error:
            raise CannotBuild(f"{self.binary} cannot serve ({error}): name the commit it is from instead") from error
        return self


def build_of(root, what):
    if os.path.isdir(what):
        for place in ("bench/fovea_bench", "fovea_bench"):
            if os.access(os.path.join(what, place), os.X_OK):
                return Build(os.path.join(what, place), what).check()
        raise CannotBuild(f"{what} holds no bench/fovea_bench: set it up with -Dbench=enabled, then ninja")
    return commit_build(pathlib.Path(root), what)


def git(root, *arguments, **options):
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False, **options)


def commit_build(root, what):
    found = git(root, "rev-parse", "--verify", "--quiet", f"{what}^{{commit}}", text=True)
    if found.returncode != 0:
        raise CannotBuild(f"'{what}' is neither a folder nor a commit")
    commit = found.stdout.strip()
    text = git(root, "log", "-1", "--format=%h %s", commit, text=True).stdout.strip()
    serves = any(git(root, "cat-file", "-e", f"{commit}:{path}").returncode == 0
                 for path in ("bench/harness/serve.cpp", "bench/serve.cpp"))
    folder = root / "build" / "against" / (commit[:12] + ("" if serves else "-" + digest(root / "bench")))
    made_with = "\n".join(f"{name}={os.environ.get(name, '')}" for name in ENVIRONMENT)
    marker = folder / "made-with"
    if not marker.exists() or marker.read_text() != made_with:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        unpack(root, commit, folder / "source")
        if not serves:
            overlay(root, folder / "source")
        set_up(folder, made_with)
    steps(folder / "build.log", ["ninja", "-C", str(folder / "build"), "bench/fovea_bench"])
    return Build(folder / "build" / "bench" / "fovea_bench", text, not serves).check()


def digest(folder):
    """Of the sources that are put over an older commit's."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".cpp", ".hpp") or path.name == "meson.build":
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:8]


def unpack(root, commit, source):
    source.mkdir()
    archive = subprocess.Popen(["git", "-C", str(root), "archive", "--format=tar", commit], stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive.stdout, check=False)
    archive.stdout.close()
    if archive.wait() != 0 or unpacked.returncode != 0:
        raise CannotBuild(f"cannot unpack {commit}")


def overlay(root, source):
    """The present benchmarks on that commit's library: its own cannot serve."""
    shutil.rmtree(source / "bench", ignore_errors=True)
    shutil.copytree(root / "bench", source / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    if "subdir('bench')" not in (source / "meson.build").read_text():
        raise CannotBuild("that commit has no benchmarks yet: its meson.build does not know bench/")


def set_up(folder, made_with):
    log = folder / "setup.log"
    steps(log, ["meson", "setup", str(folder / "build"), str(folder / "source"), "--buildtype=release", "-Dbench=enabled"])
    (folder / "made-with").write_text(made_with)


def steps(log, command):
    """Runs it with its output in a file, the last line of which is shown meanwhile; tells why where it fails."""
    terminal = sys.stderr.isatty()
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        seconds, shown = 0, ""
        while process.poll() is None:
            time.sleep(0.2)
            seconds += 0.2
            last = last_line(log)
            if last != shown and (terminal or seconds >= 15):
                print(f"\r\033[K      {last[:100]}" if terminal else f"      {last[:100]}",
                      end="" if terminal else "\n", file=sys.stderr, flush=True)
                shown, seconds = last, 0
    if terminal:
        print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        raise CannotBuild(f"{reasons(log)}\nfailed: {' '.join(command)}; the whole output is in {log}")


def last_line(path):
    lines = path.read_bytes()[-2000:].decode(errors="replace").splitlines()
    return lines[-1] if lines else ""


def reasons(log):
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if re.search(r"\b(error|ERROR)\b", line)]
    return "\n".join(errors[:10] or lines[-10:])
