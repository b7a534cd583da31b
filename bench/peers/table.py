"""Formats the tables that are shown on the console. Standard library only."""
import collections
import math


def duration(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            break
    return f"{seconds * factor:.3g} {unit}"


def heading(versions, threads):
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    columns = f"{'case':34} {'library':12} {'its time':>9} {'fovea':>9} {'ratio':>6}  {'95 % of medians':15}  its way"
    return f"{listed}; {threads} threads\n\n{columns}"


def line(result):
    """One result; None where there is none, which the summary tells."""
    if result["status"] != "ok":
        return None
    named = f"{result['case']:34} {result['library']:12} {duration(result['seconds']):>9}"
    if "ratio" not in result:
        return f"{named} {'':33}  {result['way']}"
    ratio = result["ratio"]
    interval = f"{ratio['low']:.3g} to {ratio['high']:.3g}"
    note = "" if result["fovea_dtype"] == result["dtype"] else f" (fovea in {result['fovea_dtype']})"
    return (f"{named} {duration(result['fovea_seconds']):>9} {ratio['median']:>6.3g}  {interval:15}  "
            f"{result['way']}{note}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(results):
    """Where a peer is faster, and what could not run, by reason."""
    lines = []
    measured = [result for result in results if "ratio" in result]
    for library in dict.fromkeys(result["library"] for result in measured):
        medians = [result["ratio"]["median"] for result in measured if result["library"] == library]
        ahead = sum(median > 1 for median in medians)
        lines.append(f"{library}: fovea faster in {ahead} of {len(medians)}, geometric mean of the ratios "
                     f"{geometric_mean(medians):.3g}")
    reasons = collections.defaultdict(list)
    for result in results:
        if result["status"] != "ok":
            reasons[result["library"], result["status"], result["reason"]].append(result["case"])
    for (library, status, reason), names in reasons.items():
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"{library}, {status}: {shown}: {reason}")
    return "\n" + "\n".join(lines)
