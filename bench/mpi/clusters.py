"""What attention of one layer would take on clusters, by the model: tables and a picture for docs/beyond-one-machine.md.

The page's marked blocks are rewritten:  <!-- costs: begin NAME -->  ...  <!-- costs: end -->
"""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
import pathlib
import re
import statistics
import sys

import fit
import model

SHAPE = model.Case("ring", 0, 32, 8, 128, threads=128)  # of a model of 8 billion weights; causal, zigzag, bfloat16
NODES = (16, 32, 64, 128, 256, 512, 1024)
SHOWN = (16, 64, 256, 1024)  # in tables
LENGTHS = {"128 K": 131072, "512 K": 524288, "1 M": 1048576, "4 M": 4194304, "10 M": 10485760}
NETWORKS = {"100 Gbit/s": 100e9 / 8, "400 Gbit/s": 400e9 / 8}
SPEEDS = {"5 TFLOP/s": 5e12, "50 TFLOP/s": 50e12}
GROUPS = (1, 2, 4, 8, 16, 32)
# What a call of the core costs by itself, with the waking of so many threads; and the rest that is assumed of a node.
CALL_SECONDS, LATENCY, ARRIVES, STATE_BYTES, PACK_BYTES = 50e-6, 20e-6, 0.9, 200e9, 100e9


def machine_of(speed):
    return model.Machine({"bf16": speed}, STATE_BYTES, CALL_SECONDS, PACK_BYTES)


def network_of(rate):
    return model.Network(LATENCY, rate * ARRIVES)


@dataclasses.dataclass
class Ring:
    total: float
    sending_bounds: bool  # at most steps


def even_ring(case, machine, network):
    """ring_time of a zigzag, where all ranks do the same: of one of them alone."""
    rank = case.ranks // 2
    positions = sum(run.count for run in model.share(case.order, case.length, case.ranks, rank))
    total = model.agreeing(case, network)
    total += positions * (model.row_bytes(case, case.type) + model.row_bytes(case, case.transport)) / machine.pack_bytes
    total += positions * case.heads * case.dim * (4 + model.BYTES[case.type]) / machine.pack_bytes
    bound = 0
    for step in range(case.ranks):
        work = model.ring_work(case, rank, (rank - step) % case.ranks)
        seconds = model.computing(case, machine, work)
        sends = positions * model.row_bytes(case, case.transport) if step + 1 < case.ranks else 0
        arrived = model.transfer_end(0.0, seconds, work.calls, network, sends)
        bound += arrived > seconds
        total += max(seconds, arrived)
    return Ring(total, bound > case.ranks / 2)


def grid(length, nodes, within, machine, network):
    """Groups of so many nodes by heads, a ring between them; with groups of one the ring alone, with one group by heads alone."""
    case = dataclasses.replace(
        SHAPE, length=length, ranks=nodes // within, heads=SHAPE.heads // within, kv_heads=max(1, SHAPE.kv_heads // within)
    )
    ring = even_ring(case, machine, network)
    if within == 1:
        return ring
    element = model.BYTES[SHAPE.type]
    kept = 2 * (SHAPE.heads + within * case.kv_heads) * SHAPE.dim * element * length / nodes  # queries, results, keys, values
    moved = kept * (within - 1) / within
    exchange = moved / network.bandwidth + 2 * (within - 1) * network.latency + 2 * kept / machine.pack_bytes
    return Ring(ring.total + exchange, ring.sending_bounds)


def best(length, nodes, machine, network):
    """The least time of all groups, and how many nodes a group has."""
    possible = [within for within in GROUPS if nodes % within == 0 and nodes // within > 1]
    return min((grid(length, nodes, within, machine, network).total, within) for within in possible)


def ideal(length, nodes, speed):
    return 2.0 * length * length * SHAPE.heads * SHAPE.dim / nodes / speed


def bound_positions(speed, rate):
    """With fewer positions a node sending takes longer than computing."""
    return SHAPE.kv_heads / SHAPE.heads * model.BYTES[SHAPE.transport] * speed / (rate * ARRIVES)


def of_cells():
    for speed_name, speed in SPEEDS.items():
        for network_name, rate in NETWORKS.items():
            machine, network = machine_of(speed), network_of(rate)
            for length_name, length in LENGTHS.items():
                for nodes in NODES:
                    ring = grid(length, nodes, 1, machine, network)
                    yield (speed_name, network_name, length_name, nodes), (
                        ring,
                        best(length, nodes, machine, network),
                        ideal(length, nodes, speed),
                    )


def seconds(value):
    for unit, size in (("h", 3600), ("min", 60), ("s", 1), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def table(cells, speed, network):
    lines = ["| prompt | " + " | ".join(f"{nodes} nodes" for nodes in SHOWN) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for length in LENGTHS:
        row = []
        for nodes in SHOWN:
            ring, (least, within), ideally = cells[speed, network, length, nodes]
            text = f"{seconds(ring.total)}, {ideally / ring.total:.0%}"
            if ring.sending_bounds:
                text = f"**{text}**"
            if least < 0.95 * ring.total:
                text += f"; W {within}: {ideally / least:.0%}"
            row.append(text)
        lines.append(f"| {length} | " + " | ".join(row) + " |")
    return lines


def clusters_block(cells):
    lines = []
    for speed in SPEEDS:
        for network in NETWORKS:
            least = bound_positions(SPEEDS[speed], NETWORKS[network])
            bound = f"sending bounds below {least:.0f} positions a node:"
            lines += [f"A node computes {speed}, the network carries {network}; {bound}", ""]
            lines += table(cells, speed, network) + [""]
    bound = sum(ring.sending_bounds for ring, _, _ in cells.values())
    lines += [
        f"Sending bounds the ring in {bound} of {len(cells)} cases (all lengths, nodes and networks of the picture); in the others it is",
        "arithmetic first, then merging and calls.",
        "",
        f"All of this is assumed: the speeds of nodes, {CALL_SECONDS * 1e6:.0f} us for a call of the core on {SHAPE.threads} "
        f"threads, {LATENCY * 1e6:.0f} us for a",
        f"message, {ARRIVES:.0%} of the network's rate, {STATE_BYTES / 1e9:.0f} GB/s where results are merged, "
        f"{PACK_BYTES / 1e9:.0f} GB/s where blocks are packed, and",
        "a network that moves messages while the processor computes. Nothing here was run on a cluster.",
    ]
    return lines


def kind(one):
    where = "shared memory" if one.link is None else one.link.replace("gbit", " Gbit/s")
    return f"{'ring' if one.case.call == 'ring' else 'by heads'}, {one.case.ranks} ranks, {where}"


def measured_block(kept, fitted):
    compared = list(fit.compared(kept, fitted))
    lines = ["| runs | fitted, off by | held out, off by | nine in ten held out within |", "|---|---|---|---|"]
    for name in sorted({kind(one) for one in compared}):
        some = [one for one in compared if kind(one) == name]
        seen, held = ([one.off for one in some if one.held == held] for held in (False, True))
        most = sorted(held)[math.ceil(0.9 * len(held)) - 1] if held else None
        cells = [f"{statistics.median(errors):.1%}" if errors else "" for errors in (seen, held)]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {'' if most is None else f'{most:.1%}'} |")
    held = [one.off for one in compared if one.held]
    lines += [
        "",
        f"{len(compared)} runs of {kept['date']} on {kept['cores']} cores ({kept['processor']}), {len(held)} of them held out: "
        f"{sum(off <= 0.1 for off in held) / len(held):.0%} of these",
        "are predicted within 10 %. The first two columns of the table are medians. What was fitted:",
        "",
        "```text",
        fit.described(fitted),
        "```",
    ]
    return lines


def draw(cells, path):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
    import style

    look = style.Style()
    panels = [("5 TFLOP/s", "100 Gbit/s"), ("50 TFLOP/s", "100 Gbit/s"), ("50 TFLOP/s", "400 Gbit/s")]
    with style.plt.rc_context(look.parameters()):
        figure, axes = look.figure(3.9, len(panels))
        for panel, (speed, network) in zip(axes[0], panels):
            for color, marker, length in zip(style.COLORS, style.MARKERS, LENGTHS):
                ring = [100 * cells[speed, network, length, n][2] / cells[speed, network, length, n][0].total for n in NODES]
                least = [100 * cells[speed, network, length, n][2] / cells[speed, network, length, n][1][0] for n in NODES]
                panel.plot(NODES, ring, color=color, marker=marker, label=length)
                panel.plot(NODES, least, color=color, linestyle=":")
            panel.set_xscale("log", base=2)
            panel.set_xticks(NODES, [str(n) for n in NODES], fontsize=8)
            panel.minorticks_off()
            panel.set_ylim(0, 104)
            panel.set_title(f"nodes of {speed}, {network}", fontsize=9.5)
            panel.set_xlabel("nodes")
        axes[0][0].set_ylabel("share of the nodes' speed, %")
        axes[0][0].legend(title="prompt, tokens", loc="lower left", fontsize=8)
        figure.suptitle("One layer's causal attention: the ring (lines), the best grid of heads and ring (dots)", fontsize=10)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        style.plt.close(figure)


MARKED = re.compile(r"(<!-- costs: begin (\w+) -->\n).*?(<!-- costs: end -->)", re.S)


def write(root, kept, fitted):
    cells = dict(of_cells())
    blocks = {"clusters": clusters_block(cells), "measured": measured_block(kept, fitted)}
    page = root / "docs/beyond-one-machine.md"
    text = page.read_text(encoding="utf-8")
    names = [found[2] for found in MARKED.finditer(text)]
    if sorted(names) != sorted(blocks):
        raise SystemExit(f"{page} has the marked blocks {names}, expected {sorted(blocks)}")
    text = MARKED.sub(lambda found: found[1] + "\n" + "\n".join(blocks[found[2]]) + "\n\n" + found[3], text)
    page.write_text(text, encoding="utf-8")
    draw(cells, root / "docs/costs.png")
