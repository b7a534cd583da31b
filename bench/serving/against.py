#!/usr/bin/env python3
"""fovea's schedules and another server of the same cases in turns: medians and their ratio, case by case.

    bench/serving/against.py build/release/bench/fovea_bench 'PYTHON bench/serving/vllm_server.py' [CASE...]
"""
import pathlib
import shlex
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "compare"))
from server import Refused, Server  # noqa: E402

CASES = ["step_4096", "steps_16x1024", "steps_32", "drafts_4x4", "steps_one_row", "prompt_2048", "mixed", "prompts_64", "shared_16"]
SECONDS, TURNS = 0.15, 9


def measure(servers, name):
    """The median seconds of a run of each, which take turns."""
    for server in servers:
        server.ask(f"prepare {name}")
    counts = [max(1, int(server.numbers(f"time {SECONDS}")[1])) for server in servers]
    taken = [[] for _ in servers]
    for _ in range(TURNS):
        for server, count, times in zip(servers, counts, taken):
            times += server.numbers(f"runs {count}")
    for server in servers:
        server.ask("free")
    return [statistics.median(times) for times in taken]


def main(program, other, wanted):
    with Server([program, "--serve"]) as fovea, Server(shlex.split(other)) as peer:
        print(f"{'case':28} {'fovea ms':>10} {'peer ms':>10} {'ratio':>7}")
        for dtype in ("bf16", "f32"):
            for case in wanted or CASES:
                name = f"ragged/{dtype}/{case}"
                try:
                    ours, theirs = measure([fovea, peer], name)
                    print(f"{name:28} {ours * 1e3:10.3f} {theirs * 1e3:10.3f} {theirs / ours:7.2f}", flush=True)
                except Refused as why:
                    print(f"{name:28} {why}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
