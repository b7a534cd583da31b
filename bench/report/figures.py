"""The pictures of the report. Each takes the results and a Style and gives a figure, or None where its part was not
measured."""
# SPDX-License-Identifier: Apache-2.0
import matplotlib.ticker as ticker

import machine
from cases import CHOSEN
from style import short

ISA_ORDER = ("base", "avx2", "avx512", "amx")


def seconds_text(seconds, _=None):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def bytes_text(count, _=None):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def best_runs(results, threads=None):
    """Runs of the best instruction set on the most threads."""
    threads = threads or results["machine"]["cores_seen"]
    return [run for run in results.get("bench", ()) if run["isa"] == results["isa"] and run["threads"] == threads]


def lengths(results, style):
    """Time of a call over the number of keys."""
    rows = results.get("lengths")
    if not rows:
        return None
    most = max(row["threads"] for row in rows)
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    figure, ((axes,),) = style.figure(4.6, narrow_height=4.6)
    for number, operation in enumerate(operations):
        for threads, line in {1: "--", most: "-"}.items():
            points = [
                (row["length"], row["seconds"])
                for row in rows
                if row["operation"] == operation and row["threads"] == threads
            ]
            plural = "s" if threads > 1 else ""
            axes.plot(*zip(*points), line, **style.look(number), label=f"{operation}, {threads} thread{plural}")
    axes.set(xscale="log", yscale="log", xlabel="keys", ylabel="time of a call")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=2, numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.tick_params(axis="x", labelrotation=45 if style.narrow else 0)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(seconds_text))
    style.legend_below(figure, axes, 2, 1)
    return figure


def intensity(run, about):
    """Flops per byte, and flops a second: None for what is bound by neither, has another peak, or the bench does not tell."""
    case = about.get(run["case"], {})
    if run["dtype"] != "f32" or case.get("bound") not in ("flops", "bytes") or not case["flops"] or not case["bytes"] or "seconds" not in run:
        return None
    return case["flops"] / case["bytes"], case["flops"] / run["seconds"]


def roofs(results, threads):
    """Multiply-adds a second, and [(name, bytes a second)]."""
    samples = [sample for sample in results["limits"] if sample["threads"] == threads]
    flops = machine.spread([sample["flops"] for sample in samples])["median"]
    slopes = [("last-level cache", machine.spread([sample["read_bytes"] for sample in samples])["median"])]
    cold = [
        run["limit"] * 1e9
        for run in best_runs(results, threads)
        if run["case"].endswith("/decode_cold") and "limit" in run
    ]
    return flops, slopes + [("memory", cold[0])] if cold else slopes


def roofline(results, style):
    """Operations a second over operations a byte, under what the machine allows."""
    about = results.get("cases") or {}
    threads = results["machine"]["cores_seen"]
    points = [(run, intensity(run, about)) for run in best_runs(results)]
    points = [(run, point) for run, point in points if point]
    if not points:
        return None
    flops, slopes = roofs(results, threads)
    figure, ((axes,),) = style.figure(5.0, narrow_height=5.2)
    operations = list(dict.fromkeys(run["operation"] for run, _ in points))
    for number, operation in enumerate(operations):
        own = [point for run, point in points if run["operation"] == operation]
        axes.plot(*zip(*own), linestyle="", alpha=0.85, label=operation, **style.look(number))
    left = min(point[0] for _, point in points) / 2
    right = max(point[0] for _, point in points) * 2
    for (name, rate), line in zip(slopes, ("-", "--")):
        label = f"{name}: {rate / 1e9:.0f} GB/s"
        roof = [left * rate, flops, flops]
        axes.plot([left, flops / rate, right], roof, line, color=style.soft, linewidth=1.2, label=label)
    text = f"multiply-adds: {flops / 1e9:.0f} GFLOP/s"
    axes.annotate(text, (right, flops), (0, 4), textcoords="offset points", ha="right", color=style.soft)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=style.label("floating-point operations for each byte that must be moved"),
        ylabel="operations a second",
    )
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value / 1e9:g} G"))
    style.legend_below(figure, axes)
    return figure


def threads(results, style):
    """How many times faster than one thread: measured, and what the model says of more."""
    fitted = results.get("model")
    if not fitted:
        return None
    figure, (panels) = style.figure(4.4, 2, narrow_height=3.9)
    axes, beyond = panels.flat
    for number, row in enumerate(results["threads"]):
        counts = sorted(int(count) for count in row["seconds"])
        one = row["seconds"]["1"]
        axes.plot(
            counts, [one / row["seconds"][str(count)] for count in counts], label=row["name"], **style.look(number)
        )
    most = max(counts)
    axes.plot([1, most], [1, most], ":", color=style.soft, label="as many times as threads")
    axes.set(xlabel="threads, measured", ylabel="times as fast as one thread", xticks=counts, ylim=(0.8, most * 1.08))
    names = [each["name"] for each in fitted["predictions"][0]["machines"]]
    for number, row in enumerate(fitted["predictions"]):
        values = [each["as_is"] for each in row["machines"]]
        beyond.plot(range(len(values)), values, label=row["case"], **style.look(number))
    beyond.plot(range(len(names)), [int(name.split()[0]) for name in names], ":", color=style.soft)
    beyond.set(yscale="log", xticks=range(len(names)), xlabel="cores, as the model says")
    beyond.set_xticklabels([name.replace(", ", ",\n") for name in names])
    beyond.yaxis.set_major_locator(ticker.LogLocator(base=2, numticks=20))
    beyond.yaxis.set_minor_locator(ticker.NullLocator())
    beyond.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    style.legend_below(figure, axes, 3, 1)
    return figure


def shown_cases(results):
    """The chosen cases that have a share, else the first thirty."""
    threads = results["machine"]["cores_seen"]
    have = {run["case"] for run in results.get("bench", ()) if "share" in run and run["threads"] == threads}
    return [case for case in CHOSEN if case in have] or sorted(have)[:30]


def sets(results, style):
    """The share of the machine's limit, instruction sets and element types side by side."""
    threads = results["machine"]["cores_seen"]
    names = shown_cases(results)
    if not names:
        return None
    shares = {}
    for run in results["bench"]:
        if run["threads"] == threads and "share" in run and run["case"] in names:
            shares.setdefault((run["isa"], run["dtype"]), {})[run["case"]] = run["share"]
    ways = sorted(shares, key=lambda way: (ISA_ORDER.index(way[0]) if way[0] in ISA_ORDER else 9, way[1]))
    height = 0.8 / len(ways)
    figure, ((axes,),) = style.figure(1.6 + 0.38 * len(names), narrow_height=1.6 + 0.42 * len(names))
    for i, way in enumerate(ways):
        places = [row + (i - (len(ways) - 1) / 2) * height for row in range(len(names))]
        values = [shares[way].get(name, 0) for name in names]
        bars = axes.barh(places, values, height, label=" ".join(way), color=style.colors[i])
        axes.bar_label(bars, [f"{value:.0%}" if value else "" for value in values], padding=2, fontsize=6.5)
    axes.axvline(1, color=style.soft, linewidth=1)
    axes.set_yticks(range(len(names)), [short(name, style.narrow) for name in names], fontsize="small")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    axes.set(
        xlabel=style.label(f"share of the machine's limit of the moment, {threads} threads"),
        xlim=(0, 1.12 * max(1.0, max(max(row.values()) for row in shares.values()))),
    )
    style.legend_below(figure, axes)
    return figure


def best_peers(results):
    """{case: {library: result of its fastest way}}, of those that are right."""
    best = {}
    for row in results.get("peers", {}).get("results", ()):
        ratio = row.get("ratio") or {}
        if row.get("status") != "ok" or not ratio.get("median"):
            continue
        own = best.setdefault((row["case"], row["dtype"]), {})
        if row["library"] not in own or ratio["median"] < own[row["library"]]["ratio"]["median"]:
            own[row["library"]] = row
    return best


def peers(results, style):
    """How many times fovea's time others take, each library by its fastest way."""
    best = best_peers(results)
    if not best:
        return None
    libraries = list(dict.fromkeys(library for rows in best.values() for library in rows))
    names = sorted(best, key=lambda case: min(row["ratio"]["median"] for row in best[case].values()))
    figure, ((axes,),) = style.figure(1.6 + 0.3 * len(names), narrow_height=1.8 + 0.32 * len(names))
    for number, library in enumerate(libraries):
        places = [i for i, name in enumerate(names) if library in best[name]]
        rows = [best[names[i]][library]["ratio"] for i in places]
        middle = [row["median"] for row in rows]
        reach = [
            [max(0, row["median"] - row["low"]) for row in rows],
            [max(0, row["high"] - row["median"]) for row in rows],
        ]
        shift = (number - (len(libraries) - 1) / 2) * 0.18
        axes.errorbar(
            middle,
            [place + shift for place in places],
            xerr=reach,
            linestyle="",
            label=library,
            capsize=2,
            elinewidth=1,
            **style.look(number),
        )
    axes.axvline(1, color=style.soft, linewidth=1)
    labels = [short(case if dtype == "f32" else f"{case} {dtype}", style.narrow) for case, dtype in names]
    axes.set_yticks(range(len(names)), labels, fontsize="small")
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set(xscale="log", xlabel=style.label("their time over fovea's: right of 1, fovea is faster"))
    axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(0.5, 1, 2, 5), numticks=20))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    style.legend_below(figure, axes)
    return figure


def errors(results, style):
    """Largest error against float64 over the number of keys."""
    rows = results.get("errors")
    if not rows:
        return None
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = style.figure(3.8, len(operations), narrow_height=3.2)
    for axes, operation in zip(panels.flat, operations):
        for number, way in enumerate(ways):
            points = [
                (row["keys"], row["error"]) for row in rows if row["operation"] == operation and row["way"] == way
            ]
            dashed = way == "plain float32"
            look = {"color": style.soft, "marker": "x"} if dashed else style.look(number)
            axes.plot(*zip(*points), "--" if dashed else "-", label=way, **look)
        axes.set(xscale="log", xlabel="keys", title=operation, ylim=(0, None))
        axes.xaxis.set_major_locator(ticker.FixedLocator(sorted({row["keys"] for row in rows})))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.0f}"))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.1e}" if value else "0"))
    panels.flat[0].set_ylabel("largest error / largest output")
    style.legend_below(figure, panels.flat[0])
    return figure


def memory(results, style):
    """Scratch memory of a call beside the tensor that the formula written down would make."""
    rows = results.get("lengths")
    if not rows:
        return None
    most = max(row["threads"] for row in rows)
    shown = ("attention", "additive attention")
    figure, ((axes,),) = style.figure(4.2, narrow_height=4.6)
    for number, operation in enumerate(shown):
        own = [row for row in rows if row["operation"] == operation and row["threads"] == most]
        if not own:
            continue
        keys = [row["length"] for row in own]
        axes.plot(
            keys,
            [row["tensor_bytes"] for row in own],
            "--",
            **style.look(number),
            label=f"{operation}: a tensor of all pairs{' and units' if 'additive' in operation else ''}",
        )
        axes.plot(
            keys, [row["workspace"] for row in own], "-", **style.look(number), label=f"{operation}: fovea's scratch"
        )
    axes.set(xscale="log", yscale="log", xlabel="queries and keys", ylabel="memory beside inputs and outputs")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=2, numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.tick_params(axis="x", labelrotation=45 if style.narrow else 0)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(bytes_text))
    style.legend_below(figure, axes, 2, 1)
    return figure


def limits(results, style):
    """Every measurement of the machine's limits in this run."""
    samples = results.get("limits")
    if not samples:
        return None
    counts = sorted({sample["threads"] for sample in samples})
    figure, panels = style.figure(2.6, 2, narrow_height=2.2)
    for axes, (name, title) in zip(
        panels.flat, (("flops", "multiply-adds, GFLOP/s"), ("read_bytes", "reading 32 MB, GB/s"))
    ):
        for number, threads_ in enumerate(counts):
            values = [sample[name] / 1e9 for sample in samples if sample["threads"] == threads_]
            axes.plot(values, [number] * len(values), linestyle="", alpha=0.6, **style.look(number))
        axes.set_yticks(range(len(counts)), [f"{count} thread{'s' if count > 1 else ''}" for count in counts])
        axes.set(xlabel=title, ylim=(-0.6, len(counts) - 0.4), xlim=(0, None))
        axes.grid(axis="y", visible=False)
    return figure
