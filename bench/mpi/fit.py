"""Fits the model's speeds to measured runs, and predicts those that were held out.

Held out are lengths between the fitted ones, one link of the three, and of runs of more ranks than cores those with fewer heads
of keys. A machine that others use too is not always as fast; every run has the time of one job that is the same in all, before and
after it. First the speeds of computing are fitted to what ranks computed over shared memory; then, with those fixed, the networks
to whole calls: shared memory by itself, and all links together, which differ in nothing but their rate; and last what ranks lose
that take turns on a core.
"""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
import statistics
import typing

from scipy import optimize

import model

HELD_LENGTHS = (1024, 4096)
HELD_LINKS = ("2.5gbit",)
BURST = 2**20  # bytes: tools/two_machines.sh


@dataclasses.dataclass
class Fitted:
    machine: model.Machine
    memory: model.Network
    tcp: model.Network  # bandwidth: the share of a link's rate that arrives
    cores: int
    crowded: float = 1.0  # the part of its speed that a rank keeps beside others on its core


@dataclasses.dataclass
class Compared:
    name: str
    case: model.Case
    link: typing.Optional[str]
    held: bool
    measured: float
    predicted: float

    @property
    def off(self):
        return model.off(self.predicted, self.measured)


def case_of(figures):
    names = [field.name for field in dataclasses.fields(model.Case)]
    return model.Case(**{name: figures[name] for name in names})


def is_held(figures, cores):
    crowd = figures["ranks"] > cores and figures["kv_heads"] < figures["heads"]
    return figures["length"] in HELD_LENGTHS or figures["link"] in HELD_LINKS or crowd


def rate_of(link):
    """Bytes a second."""
    return float(link.removesuffix("gbit")) * 1e9 / 8


def at_pace(machine, case, cores, pace):
    """A rank's speeds, of which it has a part where ranks share cores."""
    return model.Machine(
        {element: flops * pace for element, flops in machine.flops.items()},
        machine.state_bytes * pace,
        machine.call_seconds / pace,
        machine.pack_bytes * pace,
        cores,
        machine.alone,
    )


def network_of(fitted, link):
    if link is None:
        return fitted.memory
    return dataclasses.replace(fitted.tcp, bandwidth=fitted.tcp.bandwidth * rate_of(link))


def by_logarithms(function, start):
    """Positive numbers for which a function is least."""
    at = [math.log(x) for x in start]
    for _ in range(2):  # Nelder and Mead's simplex, begun again where it ended
        simplex = [at] + [[x + 0.7 * (i == j) for j, x in enumerate(at)] for i in range(len(at))]
        found = optimize.minimize(
            lambda logs: function([math.exp(x) for x in logs]),
            at,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "maxiter": 600, "xatol": 1e-5, "fatol": 1e-6},
        )
        at = list(found.x)
    return [math.exp(x) for x in at]


def fit_machine(runs, cores):
    rings = [(case_of(figures), figures) for figures in runs if figures["call"] == "ring"]

    def machine(numbers):
        return model.Machine({"f32": numbers[0], "bf16": numbers[1]}, numbers[2], numbers[3], 5e9, cores, numbers[4])

    def error(numbers):
        off = 0.0
        for case, figures in rings:
            speeds = at_pace(machine(numbers), case, cores, figures["pace"])
            steps = [model.step_seconds(case, speeds, works) for works, _ in model.ring_plan(case)]
            for rank, of_rank in enumerate(figures["of_ranks"]):
                off += model.off(sum(step[rank] for step in steps), of_rank["computing"])
        return off

    return machine(by_logarithms(error, [5e10, 1e11, 1e10, 1e-5, 1.1]))


def fit_networks(runs, machine, cores):
    memory = [figures for figures in runs if figures["link"] is None]
    tcp = [figures for figures in runs if figures["link"] is not None]

    def built(numbers):
        packing = dataclasses.replace(machine, pack_bytes=numbers[0])
        of_memory = model.Network(numbers[1], min(1e11, numbers[2]))  # where it hides, its speed is not seen
        of_tcp = model.Network(numbers[3], min(1.0, numbers[4]), numbers[5], numbers[6], BURST)
        return Fitted(packing, of_memory, of_tcp, cores)

    def error(numbers, some):
        fitted = built(numbers)
        return sum(model.off(predicted(figures, fitted), figures["seconds"]) for figures in some)

    start = [5e9, 5e-6, 5e9, 5e-5, 0.9, 2e-10, 1e6]
    # What shared memory shows is fixed before TCP is looked at.
    first = by_logarithms(lambda numbers: error(numbers + start[3:], memory), start[:3])
    return built(first + by_logarithms(lambda numbers: error(first + numbers, tcp), start[3:]))


def fit_crowd(runs, fitted):
    crowds = [figures for figures in runs if figures["ranks"] > fitted.cores]

    def with_part(part):
        return dataclasses.replace(fitted, crowded=part)

    def error(numbers):
        return sum(model.off(predicted(figures, with_part(numbers[0])), figures["seconds"]) for figures in crowds)

    return with_part(by_logarithms(error, [1.0])[0]) if crowds else fitted


def predicted(figures, fitted):
    case = case_of(figures)
    pace = figures["pace"] * (fitted.crowded if case.ranks > fitted.cores else 1.0)
    machine = at_pace(fitted.machine, case, fitted.cores, pace)
    return model.time_of(case, machine, network_of(fitted, figures["link"])).total


def set_pace(kept):
    """How fast a rank was at each run, by the job that all ranks did before and after it: 1 is usual with a core for each."""
    usual = statistics.median(figures["probe"] for figures in kept["runs"] if figures["ranks"] <= kept["cores"])
    for figures in kept["runs"]:
        figures["pace"] = usual / figures["probe"]


def fit(kept):
    set_pace(kept)
    runs = [figures for figures in kept["runs"] if not is_held(figures, kept["cores"])]
    for figures in kept["runs"]:
        case = case_of(figures)
        for rank, of_rank in enumerate(figures["of_ranks"]):
            if model.bytes_sent(case, rank) != of_rank["bytes_sent"]:
                counted = model.bytes_sent(case, rank)
                raise SystemExit(f"rank {rank} sent {of_rank['bytes_sent']}, the model counts {counted}: {case}")
    few = [figures for figures in runs if figures["ranks"] <= kept["cores"]]
    machine = fit_machine([figures for figures in few if figures["link"] is None], kept["cores"])
    return fit_crowd(runs, fit_networks(few, machine, kept["cores"]))


def compared(kept, fitted):
    for figures in kept["runs"]:
        case = case_of(figures)
        name = f"{case.call} {case.length} {case.heads}/{case.kv_heads} {case.order} {case.mask} {case.type} {case.transport}"
        held = is_held(figures, kept["cores"])
        yield Compared(name, case, figures["link"], held, figures["seconds"], predicted(figures, fitted))


def described(fitted):
    machine, memory, tcp = fitted.machine, fitted.memory, fitted.tcp
    speeds = ", ".join(f"{element} {flops / 1e9:.1f} GFLOP/s" for element, flops in machine.flops.items())
    return (
        f"a rank: {speeds}, states {machine.state_bytes / 1e9:.1f} GB/s, {machine.call_seconds * 1e6:.1f} us a call, "
        f"packing {machine.pack_bytes / 1e9:.1f} GB/s, {machine.alone:.2f} times as fast alone\n"
        f"shared memory: {memory.latency * 1e6:.1f} us, {memory.bandwidth / 1e9:.2f} GB/s\n"
        f"ranks that take turns on a core: {fitted.crowded:.0%} of the speed\n"
        f"TCP: {tcp.latency * 1e6:.0f} us, {tcp.bandwidth:.0%} of the rate, {tcp.core_seconds * 1e9:.2f} ns a byte of a core, "
        f"{tcp.window / 1e6:.2f} MB between calls"
    )
