# SPDX-License-Identifier: Apache-2.0
"""Written dates and their ISO forms, made by a seed: ("Tuesday 5 July 1988", "1988-07-05").

Numbers with slashes and dots have the day first. Two digits of a year stand for 1950 to 2049, which is when all dates are. The
dates that are held out are written in no training pair, in whatever form.
"""
import datetime
import random

FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
CHARACTERS = "0123456789 ,./-'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ISO_CHARACTERS = "0123456789-"
ISO_LENGTH = 10
TRAINING, HELD_OUT = 20000, 1000


def ordinal(day):
    return f"{day}{'th' if 10 < day < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


FORMS = [
    lambda d: f"the {ordinal(d.day)} of {d:%B}, {d.year}",
    lambda d: f"the {ordinal(d.day)} of {d:%B %Y}",
    lambda d: f"{d:%A} {d.day} {d:%B %Y}",
    lambda d: f"{d:%A}, {d:%B} {ordinal(d.day)}, {d.year}",
    lambda d: f"{d:%B} {d.day}, {d.year}",
    lambda d: f"{d:%b} {d.day}, {d.year}",
    lambda d: f"{d.day} {d:%b %Y}",
    lambda d: f"{d.day} {d:%b} '{d:%y}",
    lambda d: f"{d:%a}, {d:%d %b %Y}",
    lambda d: f"{d.year}, {d.day} {d:%B}",
    lambda d: f"{d:%d/%m/%Y}",
    lambda d: f"{d.day}/{d.month}/{d:%y}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d:%Y%m%d}",
]


def pairs(training, held_out, seed=0):
    """Two lists of pairs (written, ISO), of that many."""
    draw = random.Random(seed)
    days = [FIRST + datetime.timedelta(n) for n in range((LAST - FIRST).days + 1)]
    draw.shuffle(days)

    def written(choices, count):
        chosen = [draw.choice(choices) for _ in range(count)]
        return [(draw.choice(FORMS)(day), day.isoformat()) for day in chosen]

    return written(days[held_out:], training), written(days[:held_out], held_out)
