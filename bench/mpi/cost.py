#!/usr/bin/env python3
"""What attention over MPI costs: measures calls on this machine, fits the model to some of them, predicts the others.

  cost.py measure BUILD FILE [--quick]   runs cases over shared memory and over links of some Gbit/s; FILE gets their figures
  cost.py fit FILE                       fits, predicts what was held out, and prints how far off that is
  cost.py write FILE                     that, and what clusters would take, to docs/beyond-one-machine.md and its picture

BUILD is a build folder with benchmarks and -Dmpi=enabled, as build/release. FILE is to be kept in docs/measured/mpi.
"""
# SPDX-License-Identifier: Apache-2.0
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

import fit
import model

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINKS = ("1gbit", "2.5gbit", "10gbit")
HEADS = ((8, 8), (8, 2))
# As many ranks as an ordinary user may start, and as root in a container.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


def cases(quick):
    """As measure.cpp reads them."""
    lengths = (512, 1024, 2048) if quick else (512, 1024, 2048, 4096, 6144)
    for heads, kv_heads in HEADS:
        for length in lengths:
            sizes = f"{length} {heads} {kv_heads} 128"
            for order, mask in (("zigzag", "causal"), ("contiguous", "full"), ("contiguous", "causal")):
                if length == 6144 and mask == "full":
                    continue  # as long as all the others
                for element, transport in (("f32", "f32"), ("f32", "bf16"), ("bf16", "bf16")):
                    if (order, mask) == ("contiguous", "causal") and transport != "f32":
                        continue
                    yield f"ring {sizes} {order} {mask} {element} {transport} 1"
            yield f"ulysses {sizes} zigzag causal f32 f32 1"


def run(link, ranks, build, repeats, chosen):
    """The figures of the cases; link: None for shared memory."""
    program = str(pathlib.Path(build).resolve() / "bench/mpi/mpi_measure")
    command = ["mpirun", "-n", str(ranks), program]
    if link:
        command = [str(ROOT / "tools/two_machines.sh"), "--rate", link, "mpirun", str(ranks), program]
    done = subprocess.run(
        command + [str(repeats)] + chosen, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ends with {done.returncode}: {done.stdout[-500:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for figures in lines:
        figures["link"] = link
    return lines


def measure(build, file, quick):
    chosen = list(cases(quick))
    figures = []
    for link in (None,) + LINKS:
        print(f"{len(chosen)} cases over {link or 'shared memory'}", file=sys.stderr)
        figures += run(link, 2, build, 1 if quick else 3, chosen)
    # Twice as many ranks, on as many cores.
    few = [case for case in chosen if " 2048 " in case]
    for link in (None, LINKS[0]):
        figures += run(link, 4, build, 1 if quick else 3, few)
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        processor = next((line.split(":", 1)[1].strip() for line in text if line.startswith("model name")), "unknown")
    kept = {
        "date": datetime.date.today().isoformat(),
        "processor": processor,
        "cores": os.cpu_count(),
        "runs": figures,
    }
    lines = json.dumps({**kept, "runs": []})[:-2] + "\n" + ",\n".join(json.dumps(one) for one in figures) + "\n]}\n"
    pathlib.Path(file).write_text(lines, encoding="utf-8")


def report(kept, fitted):
    print(fit.described(fitted))
    print(f"{'':44}{'ranks':>6}{'link':>10}{'measured':>11}{'predicted':>11}{'off':>7}")
    for one in fit.compared(kept, fitted):
        mark = "held out" if one.held else ""
        times = f"{one.measured * 1e3:9.2f}ms{one.predicted * 1e3:9.2f}ms"
        print(f"{one.name:44}{one.case.ranks:6}{one.link or 'memory':>10}{times}{one.off:7.1%} {mark}")
    for held in (False, True):
        errors = [one.off for one in fit.compared(kept, fitted) if one.held == held]
        print(f"{'held out' if held else 'fitted'}: {len(errors)} runs, off by {statistics.median(errors):.1%} (median), "
              f"{sorted(errors)[int(0.9 * (len(errors) - 1))]:.1%} (nine in ten), {max(errors):.1%} (most)")  # fmt: skip


def main(arguments):
    quick = "--quick" in arguments
    arguments = [argument for argument in arguments if argument != "--quick"]
    if len(arguments) == 3 and arguments[0] == "measure":
        return measure(arguments[1], arguments[2], quick)
    if len(arguments) != 2 or arguments[0] not in ("fit", "write") or quick:
        sys.exit(__doc__)
    kept = json.loads(pathlib.Path(arguments[1]).read_text(encoding="utf-8"))
    fitted = fit.fit(kept)
    report(kept, fitted)
    if arguments[0] == "write":
        import clusters

        clusters.write(ROOT, kept, fitted)


if __name__ == "__main__":
    main(sys.argv[1:])
