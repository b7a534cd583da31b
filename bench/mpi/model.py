"""A model of what calls over MPI cost: work and bytes of each rank and step, counted; speeds, fitted; time, simulated.

The ring, at each of its steps: a rank attends the block that it has and meanwhile passes it on,
    step = max(computing, latency + bytes / bandwidth)
computing is arithmetic, what each call of the core costs, states read and written when results are merged, and the network's own
work on the rank's cores, by bytes. MPI moves messages only while it is called, so that between two calls of the core no more than
a window of bytes travels; what is left then follows at the network's speed. Before and after, blocks are packed, outputs written,
and the ranks agree.
"""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import functools
import math

PIECE = 512  # queries that the ring attends at once
OPERATIONS_PER_CALL = 2.5e8  # of a thread: src/mpi/state.cpp
BYTES = {"f32": 4, "bf16": 2, "i8": 1}
AGREEMENTS = 6  # collectives of a call


@dataclasses.dataclass(frozen=True)
class Case:
    call: str  # ring or ulysses
    length: int
    heads: int
    kv_heads: int
    dim: int
    order: str = "zigzag"
    mask: str = "causal"
    type: str = "bf16"
    transport: str = "bf16"
    threads: int = 1
    ranks: int = 2


@dataclasses.dataclass
class Machine:
    """Of a rank."""

    flops: dict  # by element type, a second
    state_bytes: float = 1e10  # merged a second: states of queries
    call_seconds: float = 1e-5  # of a call of the core
    pack_bytes: float = 5e9  # packed or written a second
    cores: int = 0  # that all ranks share; 0: each has a machine of its own
    alone: float = 1.0  # how much faster a core is while no other computes


@dataclasses.dataclass
class Network:
    latency: float  # of a message, seconds
    bandwidth: float  # bytes a second in each direction
    core_seconds: float = 0.0  # of a rank's cores for a byte that it sends or receives
    window: float = math.inf  # bytes between two calls of MPI
    burst: float = 0.0  # bytes of a message that a link takes at once, whatever its rate


# ---- work -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run:
    first: int
    step: int
    count: int


def chunk(length, count, index):
    least, longer = divmod(length, count)
    return Run(index * least + min(index, longer), 1, least + (index < longer))


def share(order, length, ranks, rank):
    """A rank's runs of positions."""
    if order == "striped":
        return (Run(rank, ranks, max(0, -(-(length - rank) // ranks))),)
    if order == "contiguous":
        return (chunk(length, ranks, rank),)
    return (chunk(length, 2 * ranks, rank), chunk(length, 2 * ranks, 2 * ranks - 1 - rank))


def pairs(mask, queries, keys):
    """Query-key pairs of two runs that are attended."""
    if mask == "full":
        return queries.count * keys.count
    # Query i attends keys 0 to i + d: none at first, then one more each, then all.
    d = (queries.first - keys.first) // keys.step
    begin = min(max(0, -d), queries.count)
    full = min(max(begin, keys.count - 1 - d), queries.count)
    rising = full - begin
    return rising * (begin + d + 1) + rising * (rising - 1) // 2 + (queries.count - full) * keys.count


@dataclasses.dataclass
class Work:
    """What a rank computes at a step."""

    pairs: int = 0
    rows: int = 0  # of states that are read or written, by query head
    calls: int = 0

    def add(self, other):
        self.pairs += other.pairs
        self.rows += other.rows
        self.calls += other.calls


@functools.lru_cache(maxsize=None)
def meeting(case, queries, keys):
    work = Work()
    for at in range(0, queries.count, PIECE):
        piece = Run(queries.first + at * queries.step, queries.step, min(PIECE, queries.count - at))
        met = pairs(case.mask, piece, keys)
        if met == 0:
            continue
        operations = 4 * (case.heads // case.kv_heads) * piece.count * keys.count * case.dim
        together = min(case.kv_heads, math.ceil(OPERATIONS_PER_CALL * case.threads / operations))
        work.add(Work(met, piece.count * case.heads, math.ceil(case.kv_heads / together)))
    return work


def ring_work(case, rank, owner):
    work = Work()
    for queries in share(case.order, case.length, case.ranks, rank):
        for keys in share(case.order, case.length, case.ranks, owner):
            if queries.count and keys.count:
                work.add(meeting(case, queries, keys))
    return work


@functools.lru_cache(maxsize=None)
def last_step(case, owner, run):
    """How far round a run of keys goes."""
    keys = share(case.order, case.length, case.ranks, owner)[run]
    for step in range(case.ranks - 1, 0, -1):
        for queries in share(case.order, case.length, case.ranks, (owner + step) % case.ranks):
            if pairs(case.mask, queries, keys):
                return step
    return 0


def row_bytes(case, element):
    """Of the keys and values of one position."""
    return 2 * case.kv_heads * case.dim * BYTES[element]


@functools.lru_cache(maxsize=None)
def ring_plan(case):
    """Of every step what each rank computes, and the bytes that it sends on."""
    ranks = range(case.ranks)
    return [
        (
            [ring_work(case, rank, (rank - step) % case.ranks) for rank in ranks],
            [ring_bytes(case, rank, step) if step + 1 < case.ranks else 0 for rank in ranks],
        )
        for step in ranks
    ]


def ring_bytes(case, rank, step):
    owner = (rank - step) % case.ranks
    runs = share(case.order, case.length, case.ranks, owner)
    rows = sum(run.count for at, run in enumerate(runs) if step < last_step(case, owner, at))
    return rows * row_bytes(case, case.transport)


def bytes_sent(case, rank):
    if case.call == "ring":
        return sum(ring_bytes(case, rank, step) for step in range(case.ranks))
    return sum(sum(parcels(case, rank, other)) for other in range(case.ranks) if other != rank)


def parcels(case, rank, other):
    """Attention by heads: bytes that a rank sends to another, first of inputs, then of results."""
    def count(of):
        return sum(run.count for run in share(case.order, case.length, case.ranks, of))

    element = BYTES[case.type]
    heads, kv_heads = case.heads // case.ranks, max(1, case.kv_heads // case.ranks)
    return count(rank) * (heads + 2 * kv_heads) * case.dim * element, count(other) * heads * case.dim * element


# ---- time -------------------------------------------------------------------------------------------------------------


def computing(case, machine, work):
    flops = 4.0 * work.pairs * case.heads * case.dim
    return (
        flops / machine.flops[case.type]
        + work.calls * machine.call_seconds
        + work.rows * (case.dim + 1) * 12.0 / machine.state_bytes  # two states are read, one is written
    )


def transfer_end(begin, free, calls, network, count):
    """When a message is there that may travel from `begin` on, beside computing until `free`, with so many calls."""
    if count == 0:
        return begin
    count = max(0.0, count - network.burst)
    overlap = max(0.0, free - begin)
    rate = network.bandwidth
    if overlap > 0:
        rate = min(rate, network.window * max(1, calls) / overlap)
    if count <= rate * overlap:
        return begin + network.latency + count / rate
    return begin + overlap + network.latency + (count - rate * overlap) / network.bandwidth


@dataclasses.dataclass
class Time:
    total: float
    computing: list  # of each rank


def agreeing(case, network):
    return AGREEMENTS * math.ceil(math.log2(case.ranks)) * network.latency


def faster(case, machine, active):
    """How much faster ranks are while so many compute than while all do."""
    if machine.cores == 0:
        return 1.0

    def speed(ranks):
        return min(1.0, machine.cores / ranks) * (machine.alone if ranks == 1 else 1.0)

    return speed(active) / speed(case.ranks)


def step_seconds(case, machine, works):
    """How long each rank computes at a step. Who has less to do leaves the cores to the others."""
    seconds = [computing(case, machine, work) for work in works]
    ends = list(seconds)
    end = before = 0.0
    for done, rank in enumerate(sorted(range(case.ranks), key=seconds.__getitem__)):
        end += (seconds[rank] - before) / faster(case, machine, case.ranks - done)
        before, ends[rank] = seconds[rank], end
    return ends


def ring_time(case, machine, network):
    ranks = range(case.ranks)
    positions = [sum(run.count for run in share(case.order, case.length, case.ranks, rank)) for rank in ranks]
    packed = [count * (row_bytes(case, case.type) + row_bytes(case, case.transport)) for count in positions]
    begin = [agreeing(case, network) / 2 + bytes_ / machine.pack_bytes for bytes_ in packed]
    busy = [0.0] * case.ranks
    for works, sends in ring_plan(case):
        free = []
        for rank, seconds in enumerate(step_seconds(case, machine, works)):
            if works[rank].calls:
                seconds += (sends[rank] + sends[rank - 1]) * network.core_seconds
            busy[rank] += seconds
            free.append(begin[rank] + seconds)
        arrived = []  # from each rank at the next one
        for rank in ranks:
            other = (rank + 1) % case.ranks
            slower = rank if free[rank] >= free[other] else other
            start = max(begin[rank], begin[other])
            arrived.append(transfer_end(start, free[slower], works[slower].calls, network, sends[rank]))
        begin = [max(free[rank], arrived[rank], arrived[rank - 1]) for rank in ranks]
    written = max(positions) * case.heads * case.dim * (4 + BYTES[case.type]) / machine.pack_bytes
    return Time(max(begin) + agreeing(case, network) / 2 + written, busy)


@functools.lru_cache(maxsize=None)
def ulysses_bytes(case):
    """The most that a rank sends or receives, of inputs and of results."""
    ranks = range(case.ranks)
    away = [[parcels(case, rank, other) if other != rank else (0, 0) for other in ranks] for rank in ranks]
    return [
        max(
            max(sum(away[rank][other][phase] for other in ranks), sum(away[other][rank][phase] for other in ranks))
            for rank in ranks
        )
        for phase in (0, 1)
    ]


def ulysses_time(case, machine, network):
    ranks = range(case.ranks)
    total, moved = agreeing(case, network), 0
    for most in ulysses_bytes(case):
        total += network.latency * (case.ranks - 1) + max(0.0, most - network.burst) / network.bandwidth
        moved += 2 * most * case.ranks / max(1, case.ranks - 1)  # packed on one side, put in place on the other
    whole = Run(0, 1, case.length)
    work = Work(pairs(case.mask, whole, whole) // case.ranks, 0, 1)
    seconds = computing(case, machine, work)
    return Time(total + moved / machine.pack_bytes + seconds, [seconds] * case.ranks)


def time_of(case, machine, network):
    return (ring_time if case.call == "ring" else ulysses_time)(case, machine, network)


def off(predicted, measured):
    """How far a prediction is off, both ways alike."""
    return abs(math.log(predicted / measured))
