"""How well the repeats of a case agree, and what else the machine did meanwhile."""

import os
import resource
import time
from statistics import mean, stdev

from ..ensemble import statistics

NARROW = 0.05  # half-width of the 95 % interval of a mean, relative, up to which a case counts as quiet
BUSY = 0.1  # processors' worth of work by others that is worth a word


def interval(values):
    """Relative half-width of the 95 % interval of the mean (Student's t); None for a single value."""
    if len(values) < 2 or mean(values) <= 0:
        return None
    return statistics.student(len(values) - 1) * stdev(values) / len(values) ** 0.5 / mean(values)


def ticks():
    """(seconds that all processors were busy, seconds that other machines took from them) since the start; None where
    the system does not tell."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            n = [int(x) for x in f.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    tick, stolen = os.sysconf("SC_CLK_TCK"), n[7] if len(n) > 7 else 0
    return (sum(n[:8]) - n[3] - n[4] - stolen) / tick, stolen / tick


def _own():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Watch:
    """What others do while this program and those it waits for work."""

    def __init__(self):
        self.clock, self.ticks, self.own_seconds = time.monotonic(), ticks(), _own()

    def seen(self):
        """{others, stolen}: processors' worth of work by other programs, and by other machines; empty if unknown."""
        now, elapsed = ticks(), time.monotonic() - self.clock
        if now is None or self.ticks is None or elapsed <= 0:
            return {}
        busy, stolen = (b - a for a, b in zip(self.ticks, now))
        return {
            "others": max(0.0, (busy - (_own() - self.own_seconds)) / elapsed),
            "stolen": max(0.0, stolen / elapsed),
        }


def sentence(rows, budget):
    """(quiet or not or None, what to say about the repeats of all cases)."""
    known = [(row["interval"], row["case"]) for row in rows if row["interval"] is not None]
    if not known:
        return None, "Noise: not measured, because each case ran once; use --repeats 3."
    wide, (worst, name) = [one for one in known if one[0] > NARROW], max(known)
    rounds = sorted({row["repeats"] for row in rows})
    ran = f"{rounds[0]} to {rounds[-1]} repeats" if len(rounds) > 1 else f"{rounds[0]} repeats"
    if not wide:
        return (
            True,
            f"Noise: the mean of each case is known to within {100 * worst:.1f} % (95 %; worst: {name}; {ran}).",
        )
    ended = f"; the {budget:g} min for more repeats are spent" if budget else ""
    return False, (
        f"THE MACHINE WAS TOO NOISY: the means of {len(wide)} of {len(known)} cases are not known to "
        f"{100 * NARROW:.0f} % (95 %; worst: {name}, {100 * worst:.0f} %; {ran}{ended}). {_disturbed(rows)}"
        "Do not quote these numbers; run again on a quiet machine."
    )


def _disturbed(rows):
    words = []
    for key, cause in (("others", "other programs took"), ("stolen", "other machines (steal time) took")):
        seen = [row[key] for row in rows if row[key] is not None]
        if seen and max(seen) > BUSY:
            words.append(f"{cause} {mean(seen):.1f} processors on average, at most {max(seen):.1f}")
    return (
        f"{'; '.join(words).capitalize()}. " if words else "No other program took time: a clock that changes, perhaps. "
    )
