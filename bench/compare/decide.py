"""Decides from ratios whether a case is the same, faster or slower.

One number per round, the logarithm of new over old time; a round is a fresh pair of processes, so that rounds are
independent of each other where turns within one are not: they share a layout of memory. Nothing is assumed about how
the numbers are distributed.

  estimate   their median
  spread     an interval for the median from order statistics: a value lies below it with probability 1/2
  test       Wilcoxon's signed-rank test (1945), two-sided, its distribution counted out. Old and new of one round are
             neighbours in time; Mann and Whitney's test, which would compare all of the old with all of the new, takes
             the machine's changes of speed for noise. With equal builds and the order of each round drawn by lot the
             signs are coin tosses, whatever the machine does: the test is exact.
  many       Holm's rule (1979): the probability of even one false alarm in the whole run stays below alpha
  size       a difference that is no larger than the limit is none

Only where test and size agree is anything called faster or slower.
"""
import math

ALPHA = 0.01


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def lower_quartile(values):
    return sorted(values)[len(values) // 4]


def interval(values, confidence=0.95):
    """The narrowest pair of order statistics that hold the median with that confidence; the extremes if none do."""
    ordered = sorted(values)
    n = len(ordered)
    cut, below = 0, 0.0  # below: the probability that at most `cut` of n values lie below the median
    while cut < n // 2:
        below += math.comb(n, cut) * 0.5**n
        if 2 * below > 1 - confidence:
            break
        cut += 1
    cut = max(cut, 1)
    return ordered[cut - 1], ordered[n - cut]


def doubled_ranks(magnitudes):
    """Twice the rank of each, which is whole where ties share the mean of theirs."""
    order = sorted(range(len(magnitudes)), key=magnitudes.__getitem__)
    ranks = [0] * len(magnitudes)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and magnitudes[order[end]] == magnitudes[order[begin]]:
            end += 1
        for place in order[begin:end]:
            ranks[place] = begin + end + 1
        begin = end
    return ranks


def signed_rank_p(values):
    """The probability of a rank sum at least as far from its mean if every sign were a coin toss."""
    values = [value for value in values if value != 0]
    if not values:
        return 1.0
    ranks = doubled_ranks([abs(value) for value in values])
    positive = sum(rank for rank, value in zip(ranks, values) if value > 0)
    smaller = min(positive, sum(ranks) - positive)
    # In how many of the 2^n choices of signs the positive ranks sum to 0, 1, 2, ...: fields of one long number.
    width = len(values) + 1
    ways = 1
    for rank in ranks:
        ways += ways << rank * width
    at_most = ways & (1 << (smaller + 1) * width) - 1
    return min(1.0, 2 * (at_most % ((1 << width) - 1)) / 2 ** len(values))  # the remainder is the sum of the fields


def rounds_needed(count, alpha=ALPHA):
    """So many that one difference among count cases could be found, even if two small rounds speak against it."""
    return math.ceil(1 + math.log2(max(count, 1) / alpha)) + 2


def holm(probabilities):
    """Adjusted for how many there are, in the order given."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    adjusted = [0.0] * len(probabilities)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * probabilities[index]))
        adjusted[index] = largest
    return adjusted


def suspicious(values, limit):
    """Whether a first look leaves room for a difference beyond the limit: half of it is seen, or the spread is wide.

    Leaves a case that differs out only if its median is within half of the limit and all but one of six within it.
    """
    ordered = sorted(values)
    bound = math.log1p(limit)
    inner = ordered[1:-1] if len(ordered) > 3 else ordered
    return abs(median(ordered)) > bound / 2 or inner[0] < -bound or inner[-1] > bound


def answer(values, adjusted_p, limit, alpha=ALPHA):
    """same, faster or slower"""
    if adjusted_p >= alpha or abs(median(values)) <= math.log1p(limit):
        return "same"
    return "slower" if median(values) > 0 else "faster"


def too_noisy(values, limit):
    """Whether a difference as large as the limit would not have been noticed."""
    low, high = interval(values)
    return low < -math.log1p(limit) or high > math.log1p(limit)
