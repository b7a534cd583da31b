#!/usr/bin/env python3
"""Writes README.md's figures between marks, from the newest of the runs kept as docs/measured/<date>-<machine>.json.

  <!-- measured: begin NAME -->  ...  <!-- measured: end -->

Needs nothing but Python, but for the pictures, so that a test can compare README.md with what would be written.
"""
# SPDX-License-Identifier: Apache-2.0
import io
import json
import re
import textwrap

import cases
import machine

PICTURES = {"shares.png": "sets", "lengths.png": "lengths"}
BENCH_FIELDS = (
    "case",
    "operation",
    "dtype",
    "shape",
    "isa",
    "threads",
    "seconds",
    "rate",
    "rate_unit",
    "share",
    "limit",
    "scaling",
    "workspace",
)
PEER_FIELDS = ("case", "operation", "library", "way", "dtype", "threads", "ratio", "bytes", "status", "reason")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def folder_of(root):
    return root / "docs" / "measured"


def some_of(row, names):
    """Four digits are as many as anything here is good for."""
    kept = {name: row[name] for name in names if name in row}
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in kept.items()}


def plain_version(text):
    """Without what it was built from: "2026.4.1" of "2026.4.1-22982-e213a147257"."""
    return re.match(r"[\d.]*", text)[0] or text


def keep_peers(of_peers, root):
    """Others measured again, in the run that README.md shows."""
    kept, name = newest(root)
    kept["versions"] = of_peers.get("versions", {})
    kept["peers"] = [some_of(row, PEER_FIELDS) for row in of_peers.get("results", ()) if row.get("status") == "ok"]
    (folder_of(root) / name).write_text(line_by_line(kept), encoding="utf-8")


def keep(results, root):
    """What README.md shows of a run, as a file of its own."""
    if results.get("quick"):
        raise SystemExit("a quick run is not kept: ./dev report --chosen --readme measures what README.md shows")
    limits = []
    for threads in sorted({sample["threads"] for sample in results["limits"]}):
        own = [sample for sample in results["limits"] if sample["threads"] == threads]
        limits.append(
            {
                "threads": threads,
                "flops": machine.spread([sample["flops"] for sample in own]),
                "read_bytes": machine.spread([sample["read_bytes"] for sample in own]),
            }
        )
    of_peers = results.get("peers", {})
    kept = {
        "date": results["date"],
        "version": results["version"],
        "isa": results["isa"],
        "machine": results["machine"],
        "limits": limits,
        "bench": [some_of(run, BENCH_FIELDS) for run in results["bench"] if run["case"] in cases.CHOSEN],
        "lengths": [some_of(row, row) for row in results.get("lengths", ())],
        "versions": of_peers.get("versions", {}),
        "peers": [some_of(row, PEER_FIELDS) for row in of_peers.get("results", ()) if row.get("status") == "ok"],
    }
    name = re.sub(
        r"[^a-z0-9]+", "-", f"{machine.kind(results['machine'])} {results['machine']['cores_seen']} cores".lower()
    )
    folder = folder_of(root)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{results['date']}-{name}.json").write_text(line_by_line(kept), encoding="utf-8")


def line_by_line(kept):
    """JSON with a line for each record, so that a change shows what has changed."""
    parts = []
    for name, value in kept.items():
        each = isinstance(value, list) and value
        text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if each else json.dumps(value)
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def newest(root):
    """The run that README.md shows, and the name of its file."""
    files = sorted(folder_of(root).glob("*.json"))
    if not files:
        raise SystemExit(f"no measurements in {folder_of(root)}")
    return json.loads(files[-1].read_text(encoding="utf-8")), files[-1].name


def draw(root):
    """The pictures that README.md shows, of the same run."""
    import figures
    import style
    from PIL import Image  # matplotlib's own

    kept, _ = newest(root)
    for name, figure in PICTURES.items():
        png = style.drawn(lambda how, figure=figure: getattr(figures, figure)(kept, how), form="png", dpi=110)
        if png:
            few_colors = Image.open(io.BytesIO(png)).convert("RGB").quantize(64)  # a third of the bytes
            few_colors.save(root / "docs" / name, optimize=True)


def seconds_text(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def isas_of(kept):
    """From the best to the least."""
    names = {run["isa"] for run in kept["bench"]}
    return sorted(names, key=lambda name: (name != kept["isa"], name))


def count_text(count):
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def machine_line(kept):
    what = kept["machine"]
    caches = ", ".join(f"{machine.bytes_text(cache['bytes'])} of level {cache['level']}" for cache in what["caches"])
    most = kept["limits"][-1]

    def from_to(limit):
        low, median, high = (limit[name] / 1e9 for name in ("low", "median", "high"))
        return f"{low:.0f} to {high:.0f}", f"{median:.0f}"

    flops, usual_flops = from_to(most["flops"])
    read, usual_read = from_to(most["read_bytes"])
    return (
        f"{kept['date']}, {count_text(what['cores_seen'])} cores of {machine.kind(what)}"
        f"{' in a virtual machine' if what['virtual'] else ''} (caches: {caches}), fovea {kept['version']}. Meanwhile "
        f"all cores together reached {flops} GFLOP/s of multiply-adds (median {usual_flops}) and read 32 MB at {read} "
        f"GB/s (median {usual_read})."
    )


def most_threads(kept, case, isa):
    runs = [run for run in kept["bench"] if (run["case"], run["isa"]) == (case, isa) and "seconds" in run]
    return max(runs, key=lambda run: run["threads"], default=None)


def speed(kept):
    """The table of chosen cases: time, rate and share of each instruction set."""
    isas = isas_of(kept)
    lines = [
        *textwrap.wrap(machine_line(kept), 120),
        "",
        "| case | shape | " + " | ".join(f"{isa} | share" for isa in isas) + " |",
        "|---|---|" + "---|---|" * len(isas),
    ]
    for case, (what, shape) in cases.CHOSEN.items():
        cells = []
        for isa in isas:
            run = most_threads(kept, case, isa)
            reads = run and run.get("rate_unit") == "GB/s"
            time = "" if run is None else seconds_text(run["seconds"]) + (f", {run['rate']:.3g} GB/s" if reads else "")
            cells += [time, f"{run['share']:.0%}".replace("%", " %") if run and "share" in run else ""]
        if any(cells):
            lines.append(f"| {what} | {shape} | " + " | ".join(cells) + " |")
    return lines


def best_of(rows):
    return min(rows, key=lambda row: row["ratio"]["median"])


def peers(kept):
    """How many times fovea's time others take, each by its fastest way."""
    by_case = {}
    for row in kept["peers"]:
        if row.get("ratio") and row["dtype"] in ("f32", "float32"):
            by_case.setdefault(row["case"], {}).setdefault(row["library"], []).append(row)
    if not by_case:
        return ["Other libraries were not measured in this run."]
    libraries = list(dict.fromkeys(row["library"] for row in kept["peers"]))
    versions = {name: plain_version(version) for name, version in kept["versions"].items()}
    lines = [
        "| case | shape | " + " | ".join(f"{name} {versions.get(name, '')}".strip() for name in libraries) + " |",
        "|---|---|" + "---|" * len(libraries),
    ]
    for case, rows in by_case.items():
        cells = []
        for library in libraries:
            ratio = best_of(rows[library])["ratio"] if library in rows else None
            cells.append(f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})" if ratio else "")
        what, shape = cases.CHOSEN.get(case, (case, ""))
        lines.append(f"| {what} | {shape} | " + " | ".join(cells) + " |")
    return lines


BLOCKS = {"speed": speed, "peers": peers}
MARKED = re.compile(r"(<!-- measured: begin (\w+) -->\n).*?(<!-- measured: end -->)", re.S)


def rewritten(text, kept):
    """README.md's text with every marked block as `kept` has it."""

    def block(found):
        return found[1] + "\n" + "\n".join(BLOCKS[found[2]](kept)) + "\n\n" + found[3]

    return MARKED.sub(block, text)


def rewrite(root):
    """Writes README.md; the names of what changed."""
    path = root / "README.md"
    text = path.read_text(encoding="utf-8")
    kept, name = newest(root)
    new = rewritten(text, kept)
    path.write_text(new, encoding="utf-8")
    return (
        [f"docs/measured/{name}"] + [f"docs/{picture}" for picture in PICTURES] + (["README.md"] if new != text else [])
    )
