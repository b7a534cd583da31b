#!/usr/bin/env python3
"""Times fovea and other libraries on the benchmark's own cases, side by side and in turns.

  build/peers/venv/bin/python bench/peers --build build/release [--only sdpa] [--types f32,bf16] [--json FILE]

Cases and their sizes come from `fovea_bench --cases`. A ratio is the peer's time over fovea's: above 1, fovea is faster.
It is the median over pairs of neighbouring blocks, with the interval that holds the median with a probability of 95 %.
The peer's time is that of its fastest way whose output is right; the JSON holds all that were tried. Each library is
called from Python in a process of its own, pinned to as many cores as there are threads; so a call of a few microseconds
is its binding's cost too, fovea's as well. Progress goes to stderr, the workers' own output to BUILD/../peers/logs.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import case as cases
import client
import driver
import environment
import table

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ("torch", "onnxruntime", "openvino", "ggml", "keops")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="build directory with fovea_bench and libfovea.so")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="default: %(default)s")
    parser.add_argument("--types", default="f32", help="element types: f32, bf16, f16 (default: f32)")
    parser.add_argument("--threads", type=int, default=0, help="default: all cores this process may use")
    parser.add_argument("--pairs", type=int, default=20, help="0: try all ways and measure none (default: 20)")
    parser.add_argument("--leave-out", metavar="REGEX", help="ways that it matches: compiled ones take long to prepare")
    parser.add_argument("--memory", action="store_true", help="also what memory a call takes, in processes of their own")
    parser.add_argument("--block", type=float, default=0.03, metavar="SECONDS", help="of one turn (default: 0.03)")
    parser.add_argument("--json", metavar="FILE", help="also writes the results there")
    parser.add_argument("--add", action="store_true", help="keeps what FILE holds of other cases and libraries")
    parsed = parser.parse_args(arguments)
    parsed.types = parsed.types.split(",")
    parsed.libraries = [name for name in parsed.libraries.split(",") if name]
    for name, known in ((parsed.types, cases.TOLERANCES), (parsed.libraries, LIBRARIES)):
        unknown = [one for one in name if one not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    cores = len(os.sched_getaffinity(0))
    if not 0 <= parsed.threads <= cores:
        parser.error(f"--threads is {parsed.threads}, and this process may use {cores} cores")
    parsed.threads = parsed.threads or cores
    for option, pattern in (("--only", parsed.only), ("--leave-out", parsed.leave_out or "")):
        try:
            re.compile(pattern)
        except re.error as error:
            parser.error(f"{option} is no regular expression: {error}")
    return parsed


def ask(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def selected_cases(binary, only, types):
    listed = [cases.from_json(fields) for fields in ask(binary, "--cases")]
    listed = [case for case in listed if case.operation in cases.OPERATIONS and not case.get("dropout")]  # cannot be compared
    listed = [case for case in listed if case.dtype == "f32"]  # and then in the types that are asked for
    return [case.of_type(dtype) for case in listed for dtype in types if re.search(only, case.of_type(dtype).name)]


def pinned_cores(threads):
    """As many of the allowed cores as there are threads, of different physical cores first."""
    allowed, siblings = sorted(os.sched_getaffinity(0)), {}
    for core in allowed:
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings.setdefault(path.read_text().strip() if path.exists() else core, []).append(core)
    rounds = [core for turn in range(len(allowed)) for group in siblings.values() for core in group[turn : turn + 1]]
    return set(rounds[:threads])


def worker_command(library, build, threads):
    command = [sys.executable, str(HERE / "serve.py"), library]
    if library == "fovea":
        command += [str(build / "capi/libfovea.so"), str(HERE.parent.parent / "include/fovea")]
    return [*command, str(threads)]


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    family = [next((line.split(":", 1)[1].strip() for line in lines if re.match(f"{name}\\s*:", line)), "")
              for name in ("cpu family", "model")]
    return {"processor": processor, "family": family[0], "model": family[1], "machine": platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}


def write_json(path, settings, versions, results, added):
    """`results` replace those of the same case, library and thread count in a file that is added to."""
    def key(result):
        return result["case"], result["library"], result["threads"]

    old = []
    if added and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = json.load(file)["results"]
    new = {key(result) for result in results}
    merged = [result for result in old if key(result) not in new] + results
    limits = [result["limits"] for result in results if "limits" in result]
    document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": machine(),
                "versions": versions, "threads": settings.threads, "limits": driver.medians(limits) if limits else {},
                "results": merged}
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def main(arguments):
    options = parse(arguments)
    build = pathlib.Path(options.build).resolve()
    bench = str(build / "bench/fovea_bench")
    chosen = selected_cases(bench, options.only, options.types)
    if not chosen:
        sys.exit(f"no case matches {options.only!r}; see {bench} --cases")
    home = build.parent / "peers"
    (home / "logs").mkdir(parents=True, exist_ok=True)
    import reference  # needs NumPy, which is in the environment

    os.sched_setaffinity(0, pinned_cores(options.threads))  # handed on to the workers and the probe
    variables = environment.worker_variables(options.threads, home)

    def start(worker, kept=True):
        library, *variants = worker.split()
        plain = {name: value for name, value in variables.items() if kept or not name.startswith("MALLOC_")}
        plain |= dict(variant.split("=", 1) for variant in variants)
        log = home / f"logs/worker-{'-'.join([library, *variants])}{'' if kept else '-memory'}.log"
        return client.Client(worker_command(library, build, options.threads), plain, log)

    settings = driver.Settings(options.threads, options.pairs, options.block, options.leave_out, options.memory,
                               environment.VARIANTS, directory=str(home))
    turns = driver.Turns(settings, start)
    progress = driver.Progress(len(chosen))
    compared = driver.Driver(settings, turns, reference.Checker().error,
                             lambda: numbers(ask(bench, "--limits", str(options.threads))), progress.say)
    try:
        return run(options, compared, chosen, progress, environment.not_installed(home))
    finally:
        turns.close()


def numbers(limits):
    return {name: rate for name, rate in limits.items() if isinstance(rate, float | int) and name != "threads"}


def run(options, compared, chosen, progress, not_installed):
    described = compared.descriptions(["fovea", *options.libraries])
    for name, reason in not_installed.items():
        if "reason" in described.get(name, {}):
            described[name]["reason"] = reason
    if "reason" in described["fovea"]:
        sys.exit(f"fovea: {described['fovea']['reason']}")
    versions = {name: one.get("version") or f"missing: {one['reason']}" for name, one in described.items()}
    print(table.heading(versions, options.threads))
    results = []
    for case in chosen:
        progress.case(case.name)
        libraries = {name: not_taking_part(described[name], case) for name in options.libraries}
        for result in compared.compare(case, libraries):
            progress.clear()
            line = table.line(result)
            if line:
                print(line, flush=True)
            results.append(result)
        if options.json:
            write_json(options.json, options, versions, results, options.add)
    progress.clear()
    print(table.summary(results))
    return 0 if any(result["status"] == "ok" for result in results) else 1


def not_taking_part(description, case):
    if "reason" in description:
        return f"not installed: {description['reason']}"
    if case.dtype in description["types"]:
        return None
    return description["untried"].get(case.dtype, f"not tried with {case.dtype}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
