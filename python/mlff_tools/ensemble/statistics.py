"""Means, slopes and errors of correlated data, each with its 95 % interval and whether the data are enough for one."""

import math
import typing

import numpy as np

BLOCKS = 10
LENGTHS = 20  # correlation lengths that a series must have
DRIFT_BLOCKS = 20
RATIOS = (0.0, *10.0 ** np.linspace(-4, 4, 33))  # of the variances of walk and noise per block


class Estimate(typing.NamedTuple):
    """value +- error (half of a 95 % interval). enough: whether the data are long enough for that error."""

    value: float
    error: float
    enough: bool


NOTHING = Estimate(math.nan, math.nan, False)


def student(n):
    """Quantile of Student's t for a two-sided 95 % interval with n degrees of freedom (below 1e-3 off)."""
    if n < 1:
        return math.inf
    if n <= 3:
        return (12.706205, 4.302653, 3.182446)[int(n) - 1]
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (k + 1) for k, term in enumerate(terms))


def inefficiency(values):
    """How many values in a row count as one: 1 + 2 sum of the autocorrelation up to its first zero."""
    x = np.asarray(values, float) - np.mean(values)
    n = len(x)
    if n < 4 or not np.isfinite(x).all() or not np.any(np.abs(x) > 1e-14 * np.abs(values).max()):
        return 1.0 if n >= 4 else float(max(n, 1))
    size = 1 << (2 * n - 1).bit_length()
    power = np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[:n] / np.arange(n, 0, -1)
    correlation = power / power[0]
    zero = np.flatnonzero(correlation <= 0)
    end = int(zero[0]) if len(zero) else n
    return float(max(1.0, 1 + 2 * correlation[1:end].sum()))


def mean(values, blocks=BLOCKS):
    """The mean of a series with its error from the means of blocks."""
    values = np.asarray(values, float)
    if len(values) < blocks or not np.isfinite(values).all():
        return NOTHING if not len(values) else Estimate(float(np.mean(values)), math.nan, False)
    means = np.array([b.mean() for b in np.array_split(values, blocks)])
    error = student(blocks - 1) * means.std(ddof=1) / math.sqrt(blocks)
    return Estimate(float(values.mean()), float(error), len(values) / inefficiency(values) >= LENGTHS)


def of_blocks(values):
    """The mean of values that are independent of each other, as those of blocks."""
    values = np.asarray(values, float)
    if len(values) < 2 or not np.isfinite(values).all():
        return NOTHING if not len(values) else Estimate(float(values.mean()), math.nan, False)
    error = student(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return Estimate(float(values.mean()), float(error), len(values) >= 4)


def band(blocks):
    """(mean [n], error [n], half of a 95 % interval) of a curve from its blocks [blocks, n]."""
    error = student(len(blocks) - 1) * blocks.std(0, ddof=1) / math.sqrt(len(blocks))
    return blocks.mean(0), error


def _means(values, n):
    """Means of n blocks of values in a row, as equal as can be."""
    values = np.asarray(values, float)
    return np.array([values[len(values) * k // n : len(values) * (k + 1) // n].mean() for k in range(n)])


def slope(x, y, blocks=20):
    """Slope of y over x by linear regression over means of blocks, whose errors are nearly independent."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    blocks = min(blocks, len(x))
    if blocks < 3 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return NOTHING
    bx, dy = _means(x, blocks), _means(y, blocks)
    dx = bx - bx.mean()
    square = float((dx * dx).sum())
    if not square > 0:
        return NOTHING
    value = float((dx * dy).sum()) / square
    residual = dy - dy.mean() - value * dx
    error = student(blocks - 2) * math.sqrt(float((residual**2).sum()) / (blocks - 2) / square)
    return Estimate(value, error, blocks >= 10)


def drift(x, y):
    """Slope of y over x by linear regression, with an interval that holds where y is a random walk, as the energy of
    NVE, or noise, or the sum of both.

    Increments of the means of DRIFT_BLOCKS blocks have the covariance noise (2, -1 next to the diagonal) + walk, which
    sines diagonalise. The interval is that of the mixture over all ratios of walk and noise, weighted by their
    restricted likelihood. Twin: mlffprof_drift."""
    found = slope(x, y, DRIFT_BLOCKS)
    n = min(DRIFT_BLOCKS, len(x))
    if n < DRIFT_BLOCKS or not math.isfinite(found.value):
        return found._replace(error=math.nan, enough=False)
    times, m = _means(x, n), n - 1
    increments = np.diff(_means(y, n) - found.value * times)
    spacing, k = abs(times[-1] - times[0]) / m, np.arange(1, m + 1)
    sines = math.sqrt(2 / n) * np.sin(np.pi * np.outer(k, k) / n)
    noise = 2 - 2 * np.cos(np.pi * k / n)
    walk = 1 - noise / 6  # of means over blocks of a walk
    z, ones, weights = sines @ increments, sines @ np.ones(m), sines @ (6 * k * (n - k) / (n * (n * n - 1.0)))
    logs, deviations = [], []
    for ratio in RATIOS:
        v = noise + ratio * walk
        information = (ones**2 / v).sum()
        square = ((z - ones * (ones * z / v).sum() / information) ** 2 / v).sum() / (m - 1)
        if not square > 0:
            return found._replace(error=0.0)
        logs.append(-0.5 * (np.log(v).sum() + (m - 1) * math.log(square) + math.log(information)))
        deviations.append(student(m - 1) / student(10**9) * math.sqrt(square * (weights**2 * v).sum()))
    shares = np.exp(np.array(logs) - max(logs))
    low, high = 0.0, 10 * max(deviations)
    for _ in range(50):
        middle = 0.5 * (low + high)
        inside = sum(s * math.erf(middle / (math.sqrt(2) * d)) for s, d in zip(shares, deviations))
        low, high = (middle, high) if inside < 0.95 * shares.sum() else (low, middle)
    return found._replace(error=high / spacing)


def root_mean_square(squares, groups, least=5):
    """Root of a mean of squares, with its error by leaving out one group after the other (jackknife).

    squares: [(sum, count)] of each frame; groups: a name for each, those of one trajectory being one. Where there are
    fewer than `least` of them, frames in a row form ten groups."""
    sums = np.array([s for s, _ in squares], float)
    counts = np.array([c for _, c in squares], float)
    if not counts.sum():
        return NOTHING
    value = math.sqrt(sums.sum() / counts.sum())
    names = list(dict.fromkeys(groups))
    index = np.array([names.index(g) for g in groups])
    if len(names) < least:
        index = np.arange(len(sums)) * min(BLOCKS, len(sums)) // len(sums)
    n = int(index.max()) + 1
    if n < 2:
        return Estimate(value, math.nan, False)
    s, c = np.bincount(index, sums, n), np.bincount(index, counts, n)
    others = np.sqrt((sums.sum() - s) / np.maximum(counts.sum() - c, 1e-300))
    error = student(n - 1) * math.sqrt((n - 1) / n * float(((others - others.mean()) ** 2).sum()))
    return Estimate(value, error, n >= least)


def power_law(x, y):
    """Exponent of y ~ x^p by regression of the logarithms."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 3 or not (y > 0).all():
        return NOTHING
    found = slope(np.log(x), np.log(y), len(x))
    return Estimate(found.value, found.error, True)
