"""Medians of paired measurements and how sure they are. Standard library only."""
import math
import statistics

CONFIDENCE = 0.95


def interval_rank(count):
    """The largest r such that the r-th smallest and the r-th largest of `count` enclose the median at CONFIDENCE.

    A value lies below the median with probability 1/2, so the number below is binomial, whatever the distribution; of
    fewer than six values not even the smallest and the largest enclose it that surely, and they have to do.
    """
    rank, below = 0, 0.0
    while rank < count // 2:
        below += math.comb(count, rank) * 0.5**count
        if 2 * below > 1 - CONFIDENCE:
            break
        rank += 1
    return max(1, rank)


def median_and_interval(values):
    """{"median", "low", "high"}: the median and its confidence interval."""
    ordered = sorted(values)
    rank = interval_rank(len(ordered))
    return {"median": statistics.median(ordered), "low": ordered[rank - 1], "high": ordered[-rank]}
