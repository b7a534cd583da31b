"""Writes the report's page: one HTML file that loads nothing, with its pictures in it, for light and dark, wide and
narrow screens."""
# SPDX-License-Identifier: Apache-2.0
import base64
import html

import figures
import machine
import style

# A browser is told to load nothing, whatever the page might ask for.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)

CSS = """
:root { color-scheme: light dark; --ink: #1c2126; --paper: #ffffff; --soft: #5b6670; --lines: #d5dade; --band: #f3f5f6;
  --link: #0060a0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --paper: #14181c; --soft: #9aa5b1; --lines: #3a424a;
  --band: #1c2126; --link: #6cb6f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; padding-top: 1.2rem; border-top: 1px solid var(--lines); }
p { max-width: 46rem; margin: .5rem 0; }
a { color: var(--link); }
.soft { color: var(--soft); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; padding: 0; margin: 1rem 0 0; }
figure { margin: 1rem 0; }
img { display: block; width: 100%; height: auto; }
.box { overflow-x: auto; margin: 1rem 0; border: 1px solid var(--lines); border-radius: 6px; }
.box:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.text, th.text { text-align: left; white-space: normal; min-width: 12rem; }
thead th { border-bottom: 1px solid var(--lines); }
tbody tr:nth-child(even) { background: var(--band); }
summary { cursor: pointer; color: var(--link); margin: 1rem 0; }
.facts th { text-align: left; font-weight: 600; }
.facts td { text-align: left; white-space: normal; }
"""


def escape(text):
    return html.escape(str(text), quote=True)


def data_uri(svg):
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def picture(draw, results, alt):
    """<figure> with four drawings, of which the browser takes the one that fits; empty if there is nothing to draw."""
    made = style.variants(lambda how: draw(results, how))
    if made is None:
        return ""
    narrow, dark = "(max-width: 700px)", "(prefers-color-scheme: dark)"
    sources = [(f"{narrow} and {dark}", made[True, True]), (narrow, made[False, True]), (dark, made[True, False])]
    lines = [f'<source media="{media}" srcset="{data_uri(svg)}">' for media, svg in sources]
    return '<figure><picture>{}<img src="{}" alt="{}"></picture></figure>'.format(
        "".join(lines), data_uri(made[False, False]), escape(alt)
    )


def table(head, rows, label, text_columns=()):
    """A table that scrolls inside its box."""

    def cells(tag, row):
        marks = [' class="text"' if i in text_columns else "" for i in range(len(row))]
        return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{escape(label)}"><table><thead><tr>'
        f"{cells('th', head)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def folded(summary, content):
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def facts(rows, label):
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{escape(label)}"><table class="facts"><tbody>'
        f"{body}</tbody></table></div>"
    )


def share_text(run):
    return f"{run['share']:.0%}" if "share" in run else ""


def rate_text(run):
    return f"{run['rate']:.3g} {run['rate_unit']}" if "rate" in run else ""


def case_table(results):
    """Every case: for each instruction set and number of threads its time, the rate and share of the best."""
    runs = [run for run in results["bench"] if "seconds" in run]
    ways = sorted(
        {(run["isa"], run["threads"]) for run in runs},
        key=lambda way: (figures.ISA_ORDER.index(way[0]) if way[0] in figures.ISA_ORDER else 9, way[1]),
    )
    by_case = {}
    for run in runs:
        by_case.setdefault(run["case"], {})[run["isa"], run["threads"]] = run
    rows = []
    for case, own in by_case.items():
        best = own.get((results["isa"], results["machine"]["cores_seen"])) or list(own.values())[-1]
        times = [figures.seconds_text(own[way]["seconds"]) if way in own else "" for way in ways]
        scaling = f"{best['scaling']:.2f}" if best.get("scaling") else ""
        rows.append((case, rate_text(best), share_text(best), scaling, *times))
    head = ("case", "rate of the best", "share", "scaling", *(f"{isa}, {threads} t" for isa, threads in ways))
    return table(head, rows, "all cases")


def limit_rows(results):
    rows = []
    for threads in sorted({sample["threads"] for sample in results["limits"]}):
        for name, what, unit in (
            ("flops", "multiply-adds in registers", "GFLOP/s"),
            ("read_bytes", "reading a region of 32 MB", "GB/s"),
        ):
            values = [sample[name] / 1e9 for sample in results["limits"] if sample["threads"] == threads]
            all_of = machine.spread(values)
            rows.append(
                (
                    what,
                    threads,
                    f"{all_of['low']:.3g}",
                    f"{all_of['median']:.3g}",
                    f"{all_of['high']:.3g}",
                    unit,
                    all_of["count"],
                )
            )
    return rows


def busy_note(results):
    """A warning where the limits changed so much that times are those of a busy machine."""
    most = max(sample["threads"] for sample in results["limits"])
    all_of = machine.spread([sample["flops"] for sample in results["limits"] if sample["threads"] == most])
    if all_of["low"] > 0.7 * all_of["high"]:
        return ""
    return (
        f"<p><strong>Other work shared these cores</strong>: their multiply-adds went from {all_of['low'] / 1e9:.0f} "
        f"to {all_of['high'] / 1e9:.0f} GFLOP/s in this run. Shares and ratios, which compare neighbouring moments, "
        "bear that better than times and rates do.</p>"
    )


def prediction_table(fitted):
    names = [each["name"] for each in fitted["predictions"][0]["machines"]]
    rows = []
    for row in fitted["predictions"]:
        cells = [f"{each['as_is']:.3g} → {each['changed']:.3g}" for each in row["machines"]]
        tasks = " / ".join(str(each["tasks"]) for each in row["machines"])
        rows.append((row["case"], f"{row['measured_two']:.2f}", f"{row['fitted_two']:.2f}", *cells, tasks))
    machines = (f"{name}: as is → changed" for name in names)
    head = ("call", "2 threads, measured", "2, by the model", *machines, "tasks")
    return table(head, rows, "the model's predictions")


def peer_table(results):
    rows = []
    for row in results["peers"].get("results", ()):
        ratio = row.get("ratio") or {}
        times = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})" if ratio.get("median") else ""
        memory = figures.bytes_text(row["bytes"]) if row.get("bytes") else ""
        error = f"{row['error']:.1e}" if isinstance(row.get("error"), float) else ""
        own = f"{row['fovea_error']:.1e}" if isinstance(row.get("fovea_error"), float) else ""
        rows.append(
            (
                row["case"],
                row["library"],
                row.get("way", ""),
                row["dtype"],
                times,
                error,
                own,
                memory,
                row["status"] if row["status"] == "ok" else f"{row['status']}: {row.get('reason', '')}",
            )
        )
    return table(
        ("case", "library", "way", "type", "time over fovea's", "its error", "fovea's error", "memory", "how it went"),
        rows,
        "all that was measured of others",
        (8,),
    )


def sections(results):
    """(anchor, heading, sentence, HTML) of what was measured."""
    what = results["machine"]
    threads = what["cores_seen"]
    yield (
        "machine",
        "The machine",
        "What ran this, and what it can do at best, measured again and again during the run: "
        "each dot is one measurement, and their spread is how much the machine itself changed.",
        facts(machine.rows(what), "the machine")
        + picture(
            figures.limits, results, "Measurements of the multiply-add peak and of reading, one dot each, by threads."
        )
        + table(
            ("limit", "threads", "least", "median", "most", "unit", "times"), limit_rows(results), "limits as measured"
        )
        + busy_note(results),
    )
    yield (
        "sets",
        "How near to the limit",
        f"The share of what {threads} cores could do at that moment, for each instruction "
        "set and element type: multiply-adds for what computes, bytes for what reads.",
        picture(figures.sets, results, "Bars: for each case the share of the machine's limit, by instruction set."),
    )
    yield (
        "roofline",
        "What bounds a call",
        "Each dot is a case: the further right, the more it computes with each byte it has "
        "to move; the lines are what memory and arithmetic allow.",
        picture(figures.roofline, results, "Operations a second over operations per byte, under the measured roofs."),
    )
    yield (
        "length",
        "Time over sequence length",
        "Attention of all to all takes four times as long for twice the length, one "
        "query over stored keys twice as long.",
        picture(figures.lengths, results, "Time of a call over the number of keys, for several kinds of attention."),
    )
    yield (
        "memory",
        "Memory",
        "Solid lines are the scratch memory that fovea asks for, dashed ones the tensor of all pairs that "
        "the formula written down would make.",
        picture(
            figures.memory,
            results,
            "Scratch memory over length: nearly flat for fovea, growing with the square otherwise.",
        ),
    )
    yield (
        "errors",
        "Errors against float64",
        "The largest difference from the formula in float64: a plain float32 evaluation of "
        "it, dashed, is what fovea is judged by; twice that is allowed.",
        picture(
            figures.errors, results, "Largest error over the number of keys, by instruction set, beside plain float32."
        ),
    )
    yield ("peers", "Beside other libraries", *peer_section(results))
    yield ("threads", "More threads", *model_section(results))
    if results.get("bench"):
        yield (
            "all",
            "All cases",
            "Time of one run; share of the machine's limit and scaling (one thread's time over that of all) "
            "are those of the best instruction set on all threads.",
            case_table(results),
        )


def peer_section(results):
    of_peers = results.get("peers") or {"missing": "they were not measured"}
    if "missing" in of_peers:
        return f"Others were not measured in this run: {of_peers['missing']}.", "<p></p>"
    versions = ", ".join(f"{name} {version}" for name, version in of_peers.get("versions", {}).items())
    return (
        f"How many times fovea's time others take for the same call, by their fastest way, in turns on the same cores "
        f"({versions}); bars are the spread.",
        picture(figures.peers, results, "Ratios of times for each case and library; right of 1 fovea is faster.")
        + folded("All that was measured of others, and what failed", peer_table(results)),
    )


def model_section(results):
    fitted = results.get("model")
    if not fitted:
        return "Scaling was not measured in this run.", ""
    assumed = fitted["assumed"]
    more = (
        f"<p class=\"soft\">Fitted: {fitted['way_in'] * 1e6:.1f} µs on the way in, {fitted['wake'] * 1e6:.1f} µs for "
        f"each round of waking, {fitted['sharing'] - 1:.0%} lost to a busy neighbour; reading by one thread and two "
        f"{fitted['rates']['cache'][0] / 1e9:.0f} and {fitted['rates']['cache'][1] / 1e9:.0f} GB/s from the last-level "
        f"cache, {fitted['rates']['memory'][0] / 1e9:.0f} and {fitted['rates']['memory'][1] / 1e9:.0f} from memory. "
        f"Assumed of the larger machines: {assumed['cores_per_cache']} cores to a last-level cache of "
        f"{assumed['cache_bytes'] >> 20} MB, {assumed['cores_per_socket']} cores and "
        f"{assumed['socket_bandwidth'] / 1e9:.0f} GB/s to a socket. Nothing here has seen such a machine: two points "
        "say little about a hundred.</p>"
    )
    return (
        "Left, how many times faster than one thread this machine is. Right and below, what a small model fitted to "
        "one and two threads says of larger ones: as fovea is now, and with tasks that come out even and data that "
        "stays near the cores that read it.",
        picture(figures.threads, results, "Speed-up over threads, measured, and predicted for 16, 64 and 128 cores.")
        + prediction_table(fitted)
        + more,
    )


def write(results, folder):
    """report.html and the pictures as PNG."""
    parts = [part for part in sections(results) if part[3]]
    links = "".join(f'<li><a href="#{anchor}">{escape(heading)}</a></li>' for anchor, heading, _, _ in parts)
    body = "".join(
        f'<section id="{anchor}"><h2>{escape(heading)}</h2><p>{escape(sentence)}</p>{content}</section>'
        for anchor, heading, sentence, content in parts
    )
    extent = "a quick run of a few cases" if results.get("quick") else "a run"
    what = results["machine"]
    run = f"{results['date']}, {machine.kind(what)}, {extent} on {what['cores_seen']} cores."
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>fovea, measured</title>'
        f"{POLICY}"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head><body>'
        f'<header><h1>fovea {escape(results["version"])}, measured</h1><p class="soft">{escape(run)} '
        f"The same numbers are in results.json and results.csv beside this page.</p></header>"
        f'<nav aria-label="contents"><ul>{links}</ul></nav><main>{body}</main></body></html>\n'
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    for draw in (
        figures.limits,
        figures.sets,
        figures.roofline,
        figures.lengths,
        figures.memory,
        figures.errors,
        figures.peers,
        figures.threads,
    ):
        png = style.drawn(lambda how, draw=draw: draw(results, how), form="png")
        if png:
            (folder / f"{draw.__name__}.png").write_bytes(png)
