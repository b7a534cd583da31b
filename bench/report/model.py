"""A small model of how calls scale, fitted to one and two threads of this machine, asked about machines with more.

  time(p) = way_in + wake * rounds(p) + max(arithmetic(p), memory(p))

  arithmetic(p)  time(1) * inflation(p) * waves(p) / p * sharing
  memory(p)      what is read, over the bandwidth of the caches and the memory that p workers have
  rounds(p)      ceil(log2 p): oneTBB's threads wake one another by halving the range of workers
  inflation(p)   how much more one core has to do for all of a call once it is cut up for p workers: measured here, by a
                 parallel loop that runs p workers one after the other
  waves(p)       ceil(tasks / p) * p / tasks: what is lost when tasks, as the plan counts them, do not come out even
  sharing        what a second busy core costs the first (clock, hypervisor): the median of what is left at two threads,
                 taken to be the same for more
  bandwidth(p)   p b / (1 + c (p - 1)) of cores that share a last-level cache, b and c from one and two threads; the sum
                 of these groups, at most what the memory assumed has

What is fitted: wake, sharing, and b and c for the last-level cache and for memory: from two points each, so nothing
here has seen a whole socket. The machine that is asked about is made of this one's cores; the rest of it is assumed.
"""
# SPDX-License-Identifier: Apache-2.0
import math
import statistics

# What cannot be seen from two cores. Zen 4 servers: eight cores to a last-level cache of 32 MB, twelve channels of
# DDR5-4800 to a socket (460.8 GB/s), of which four fifths are taken to be usable. A last-level cache is taken to give
# its eight cores at most six times what it gives one.
ASSUMED = {
    "cores_per_socket": 64,
    "cores_per_cache": 8,
    "cache_bytes": 32 << 20,
    "socket_bandwidth": 0.8 * 460.8e9,
    "cache_speed_up": 6.0,
}
MACHINES = (
    {"name": "16 cores", "workers": 16, "sockets": 1},
    {"name": "64 cores", "workers": 64, "sockets": 1},
    {"name": "128 cores, two sockets", "workers": 128, "sockets": 2},
)


def contention(one, two):
    """c of bandwidth(p), from the rates of one and of two threads."""
    return max(0.0, 2 * one / two - 1)


def saturating(one, c, threads):
    return threads * one / (1 + c * (threads - 1))


def waves(tasks, workers):
    """The longest share of the work, times the workers: 1 when tasks come out even."""
    return math.ceil(tasks / workers) * workers / tasks if tasks > workers else workers / max(1, tasks)


class Bandwidth:
    """Bytes a second that `workers` cores get, all reading."""

    def __init__(self, rates, assumed=None):
        self.rates, self.assumed = rates, assumed or ASSUMED
        self.c = {level: contention(rates[level][0], rates[level][1]) for level in rates}

    def of_groups(self, level, workers, most):
        """Cores that share a last-level cache share their way to it and to memory, each group its own."""
        each = self.assumed["cores_per_cache"]
        one = self.rates[level][0]

        def of_one(count):
            return min(saturating(one, self.c[level], count), most)

        return workers // each * of_one(each) + (of_one(workers % each) if workers % each else 0)

    def of_cache(self, workers):
        return self.of_groups("cache", workers, self.rates["cache"][0] * self.assumed["cache_speed_up"])

    def of_memory(self, workers, sockets):
        """sockets: of how many the memory is that holds the data."""
        return min(self.of_groups("memory", workers, math.inf), sockets * self.assumed["socket_bandwidth"])


def cache_count(workers, assumed):
    return math.ceil(workers / assumed["cores_per_cache"])


def reading_seconds(case, fit, workers, sockets, local):
    """Of a call that is bound by reading. local: what is asked for lies in the caches and the memory of the cores that
    ask, call after call; as it is, a range of work goes to whichever thread comes first."""
    bandwidth = fit["bandwidth"]
    active = min(workers, case["tasks"][workers])
    caches = cache_count(workers, bandwidth.assumed)
    fits = case["warm"] and case["bytes"] <= caches * bandwidth.assumed["cache_bytes"] * 1.1
    if fits and (caches == 1 or local):
        rate = bandwidth.of_cache(workers if local else active)
    else:
        rate = bandwidth.of_memory(workers if local else active, sockets if local else 1)
    return case["bytes"] / (case["efficiency"] * rate)


def feeding_seconds(case, fit, workers, sockets, local):
    """Of keys and values that arithmetic needs: each task reads its own from a last-level cache, which reads them from
    memory; a head's as often as it has blocks of rows, as these go to any core, or once where heads keep to a cache."""
    bandwidth = fit["bandwidth"]
    blocks = case["traffic"][workers] / case["bytes"]
    copies = 1 if local else min(blocks, cache_count(workers, bandwidth.assumed))
    return max(
        case["traffic"][workers] / bandwidth.of_cache(workers),
        copies * case["bytes"] / bandwidth.of_memory(workers, sockets if local else 1),
    )


def arithmetic_seconds(case, fit, workers, even):
    in_core = max(0.0, case["seconds"][1] - fit["way_in"])
    lost = 1.0 if even else waves(case["tasks"][workers], workers)
    sharing = fit["sharing"] if workers > 1 else 1.0
    return in_core * (1.0 if even else case["inflation"][workers]) * lost / workers * sharing


def predict(case, fit, workers, sockets=1, changed=False):
    """Seconds. changed: with tasks that come out even, and data where it is asked for."""
    rounds = math.ceil(math.log2(workers)) if workers > 1 else 0
    if case["bound"] == "bytes":
        work = reading_seconds(case, fit, workers, sockets, changed)
    else:
        work = max(
            arithmetic_seconds(case, fit, workers, changed), feeding_seconds(case, fit, workers, sockets, changed)
        )
    return fit["way_in"] + fit["wake"] * rounds + work


def fit(cases, rates, way_in, woken):
    """cases: [{"seconds": {1:, 2:}, "tasks", "inflation", "traffic", "bound", "bytes", "warm"}]; way_in: seconds of a
    call too small to share; woken: [(seconds of one thread, of two)] of calls just large enough to share."""
    bandwidth = Bandwidth(rates)
    fitted = {
        "way_in": way_in,
        "sharing": 1.0,
        "bandwidth": bandwidth,
        "wake": max(0.0, statistics.median(two - one / 2 for one, two in woken)) if woken else 0.0,
    }
    for case in cases:
        level = "cache" if case["warm"] else "memory"
        case["efficiency"] = 1.0
        if case["bound"] == "bytes":
            case["efficiency"] = case["bytes"] / rates[level][0] / max(1e-9, case["seconds"][1] - way_in)
    left = [
        (case["seconds"][2] - way_in - fitted["wake"]) / arithmetic_seconds(case, fitted, 2, False)
        for case in cases
        if case["bound"] == "flops"
    ]
    fitted["sharing"] = max(1.0, statistics.median(left)) if left else 1.0
    return fitted


def predictions(cases, fitted):
    """Rows: how well two threads are met, and what each machine would take, as fovea is and changed."""
    rows = []
    for case in cases:
        one = case["seconds"][1]
        row = {
            "case": case["name"],
            "seconds": one,
            "measured_two": one / case["seconds"][2],
            "fitted_two": one / predict(case, fitted, 2),
            "machines": [],
        }
        for machine in MACHINES:
            as_is = predict(case, fitted, machine["workers"], machine["sockets"])
            changed = predict(case, fitted, machine["workers"], machine["sockets"], changed=True)
            row["machines"].append(
                {
                    "name": machine["name"],
                    "tasks": case["tasks"][machine["workers"]],
                    "as_is": one / as_is,
                    "changed": one / changed,
                }
            )
        rows.append(row)
    return rows
