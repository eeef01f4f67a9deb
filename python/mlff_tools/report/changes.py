"""Where a series of measurements changed its level for good, and by how much: change points that know their noise.

Steps, on logarithms, so that noise and changes are relative:

1. Noise s: from the differences of neighbours (1.4826 times their median size, over sqrt 2), which a step does not
   widen; at least what the repeats of a measurement say of themselves.
2. A measurement that lies more than 3 s off the median of itself and its four neighbours (two at the ends) is moved to
   there: an outlier makes no level.
3. Levels of two measurements or more at both ends, of four between: the division with the least sum of squares, plus a
   penalty for each change (optimal partitioning: Jackson and others, IEEE Signal Process. Lett. 12, 105, 2005).
4. A change stays when both levels differ by more than the wanted share and by more than the noise,
   t s sqrt(1/n + 1/m); s is now at least the deviation from these levels, with its autocorrelation. Otherwise the
   levels become one, those that differ least first.

t = 4 + 12 / n of n measurements: tests/python/test_history.py counts the false alarms.
"""

import math
import typing

import numpy as np

from ..ensemble import statistics

OUTLIER = 3.0  # distance from the neighbours, in s, that a measurement keeps at most
FEWEST, LASTING = 2, 4  # measurements of the first and the last level, and of one between others
TOLD_APART = 7.35  # 2 log of the likelihood ratio that leaves out a place of the change, 95 %


class Change(typing.NamedTuple):
    """From measurement `at` on. It may as well be any from `first` to `last`. Levels in the unit of the values; ratio
    of both with the half-width of its 95 % interval; n_before and n_after measurements."""

    at: int
    first: int
    last: int
    before: float
    after: float
    ratio: float
    error: float
    n_before: int
    n_after: int


class Found(typing.NamedTuple):
    """noise: relative standard deviation of a measurement, None without enough of them; levels: [(first measurement,
    one past the last, value)]; changes: [Change]; suspect: ratio of the newest measurement to the level, where one
    more is needed to say whether it is a change, else None."""

    noise: float
    levels: list
    changes: list
    suspect: float


def between_neighbours(x):
    """Standard deviation of x [n], n > 1, from differences of neighbours."""
    return 1.4826 * float(np.median(np.abs(np.diff(x)))) / math.sqrt(2)


def without_outliers(x, s):
    """x [n], n > 3, within OUTLIER s of the median of five neighbours, at the ends of three."""
    n = len(x)
    windows = [
        (k - 2, k + 3) if 2 <= k < n - 2 else (min(max(k - 1, 0), n - 3), max(min(k + 2, n), 3)) for k in range(n)
    ]
    middle = np.array([np.median(x[a:b]) for a, b in windows])
    return np.clip(x, middle - OUTLIER * s, middle + OUTLIER * s)


def partition(y, allowed, penalty):
    """Beginnings of the levels of y [n]; one may begin at k where allowed[k]."""
    n = len(y)
    ones, twos = np.concatenate([[0], np.cumsum(y)]), np.concatenate([[0], np.cumsum(y * y)])
    best, back = np.full(n + 1, np.inf), np.zeros(n + 1, int)
    best[0] = -penalty
    starts = np.flatnonzero(allowed)
    for end in range(FEWEST, n + 1):
        if end < n and not allowed[end]:
            continue
        k = starts[starts <= end - FEWEST]
        k = k if end == n else k[(k == 0) | (k <= end - LASTING)]
        cost = best[k] + penalty + twos[end] - twos[k] - (ones[end] - ones[k]) ** 2 / (end - k)
        least = int(np.argmin(cost))
        best[end], back[end] = cost[least], k[least]
    found, end = [], n
    while end:
        end = int(back[end])
        found.append(end)
    return found[::-1]


def _noise(y, starts, s):
    """s, or the deviation from the levels if that is more, as of independent measurements."""
    parts = np.split(y, starts[1:])
    off = np.concatenate([p - p.mean() for p in parts])
    spread = math.sqrt(float((off * off).sum()) / max(1, len(y) - len(parts)))
    return max(s, spread) * math.sqrt(statistics.inefficiency(off))


def _merge(y, starts, s, t, share):
    """Takes away changes that are within the noise or the share, the weakest first."""
    while len(starts) > 1:
        ends = [*starts[1:], len(y)]
        strength = []
        for a, k, b in zip(starts, starts[1:], ends[1:]):
            delta = abs(y[k:b].mean() - y[a:k].mean())
            noise = _noise(y[a:b], [0, k - a], s) * math.sqrt(1 / (k - a) + 1 / (b - k))
            strength.append(delta / max(t * noise, math.log1p(share)))
        weakest = int(np.argmin(strength))
        if strength[weakest] > 1:
            break
        starts = starts[: weakest + 1] + starts[weakest + 2 :]
    return starts


def _change(y, allowed, bounds, s):
    """The change at k between levels [a, k) and [k, b)."""
    a, k, b = bounds
    s = _noise(y[a:b], [0, k - a], s)

    def cost(at):
        return sum(float(((p - p.mean()) ** 2).sum()) for p in (y[a:at], y[at:b]))

    places = [j for j in range(a + FEWEST, b - FEWEST + 1) if allowed[j]]
    near = [j for j in places if cost(j) - cost(k) < TOLD_APART * s * s] + [k]
    before, after = float(y[a:k].mean()), float(y[k:b].mean())
    ratio = math.exp(after - before)
    error = ratio * 1.96 * s * math.sqrt(1 / (k - a) + 1 / (b - k))
    return Change(k, min(near), max(near), math.exp(before), math.exp(after), ratio, error, k - a, b - k)


def find(values, allowed, share, errors=()):
    """Changes of the level of `values` [n] > 0, in order of the commits. allowed [n]: whether another level may begin
    at a measurement: not within a commit, nor where two commits were measured with one build. share: relative size
    that a change has at least. errors: relative standard errors of measurements by their own repeats."""
    n = len(values)
    allowed = np.array([k == 0 or bool(a) for k, a in enumerate(allowed)])
    if n < 2 * FEWEST:
        return Found(None, [(0, n, float(np.median(values)))] if n else [], [], None)
    x = np.log(np.asarray(values, float))
    s = max(between_neighbours(x), float(np.median(errors)) if len(errors) else 0.0, share / 30)
    t, y = 4 + 12 / n, without_outliers(x, s)
    starts = _merge(y, partition(y, allowed, (t * s) ** 2), s, t, share)
    ends = [*starts[1:], n]
    levels = [(a, b, math.exp(float(y[a:b].mean()))) for a, b in zip(starts, ends)]
    changes = [_change(y, allowed, (a, k, b), s) for a, k, b in zip(starts, starts[1:], ends[1:])]
    noise, suspect, begin = _noise(y, starts, s), None, starts[-1]
    if allowed[-1] and n - begin > FEWEST:
        level = float(y[begin:-1].mean())
        off = abs(x[-1] - level)
        if off > max(math.log1p(share), t * noise * math.sqrt(1 + 1 / (n - 1 - begin))):
            suspect = math.exp(x[-1] - level)
    return Found(noise, levels, changes, suspect)
