"""Verdicts on runs at constant energy, temperature and pressure, from series of what thermo prints.

A check compares a value, which has a 95 % interval, with its target. With a bar: PASS when the whole interval lies
within the bar around the target, FAIL when all of it lies outside, else `too short to say`. Without one: PASS when the
target lies within the 99 % interval, else FAIL. A series that is too short for an interval, or a run that is too short
for its thermostat or barostat, is always `too short to say`. A run has the worst verdict of its checks.
"""

import math

import numpy as np

from . import statistics
from .statistics import Estimate

PASS, FAIL, SHORT, NOT = "PASS", "FAIL", "too short to say", "not measured"
BOLTZMANN = 8.617333262e-5  # eV/K
BAR = 6.241509e-7  # eV/A^3
NVE_PS = 100.0  # a shorter run conserves no energy
TIMES = 40.0  # time constants of thermostat and barostat that a run must have
SURE = 1.44  # 99 % interval over the 95 % one, Student's t of ten blocks
DRIFT = 0.05  # bar, meV/atom/ps
TEMPERATURE, WIDTH, RESPONSE = 0.02, 0.2, 0.5  # bars, each a share of its target
FLUCTUATION = 0.5  # bar on the total energy around its trend at constant energy, % of the thermal energy
STILL = 0.05  # of the fluctuation of the volume: below it over TIMES time constants, the barostat holds it still
EXPONENT = 0.5  # bar on the exponent of the energy's fluctuation over the time step, whose target is 2


def check(name, found, target=0.0, bar=None, unit="", long=True, slack=0.0, note=""):
    """One check of an Estimate as a dictionary. slack: widens the interval of a check without a bar. long: whether the
    run is long enough."""
    off = abs(found.value - target)
    if math.isinf(found.value):
        said = FAIL
    elif not (long and found.enough and math.isfinite(off) and math.isfinite(found.error)):
        said = SHORT
    elif bar is None:
        said = PASS if off <= SURE * found.error + slack else FAIL
    else:
        said = PASS if off + found.error <= bar else FAIL if off - found.error > bar else SHORT
    number = lambda x: float(x) if math.isfinite(x) else None
    return {
        "name": name,
        "value": number(found.value),
        "error": number(found.error),
        "target": target,
        "bar": bar,
        "unit": unit,
        "verdict": said,
        "note": note,
    }


def verdict(checks):
    """The worst one of checks; None where there are none."""
    said = {c["verdict"] for c in checks} - {NOT}
    return next((word for word in (FAIL, SHORT, PASS) if word in said), None)


def judged(ensemble, checks):
    return {"ensemble": ensemble, "verdict": verdict(checks), "checks": checks}


def begun(*series):
    """Series without their first fifth, in which a run settles."""
    return [np.asarray(s, float)[len(s) // 5 :] for s in series]


def span(time):
    return float(time[-1] - time[0]) if len(time) > 1 else 0.0


def variance(values):
    """That of a series, corrected for what its own mean takes away, with its error from blocks."""
    values = np.asarray(values, float)
    if len(values) < 2 * statistics.BLOCKS or not np.isfinite(values).all():
        return statistics.NOTHING
    share = statistics.inefficiency(values) / len(values)
    found = statistics.mean((values - values.mean()) ** 2)
    scale = 1 / max(1 - share, 0.5)
    return Estimate(scale * found.value, scale * found.error, found.enough and share * statistics.LENGTHS <= 1)


# ---- ensembles -----------------------------------------------------------------------------------------------------


def nve(drift, error, ps, n_bad=0, around_trend=None):
    """The drift of the total energy, meV/atom/ps, with half of its 95 % interval, over so many ps. around_trend: an
    Estimate of the standard deviation of the total energy around its trend, % of the thermal energy."""
    long = ps >= NVE_PS * (1 - 1e-9)
    note = "" if long else f"{ps:.4g} ps; it needs {NVE_PS:g} ps"
    found = Estimate(drift, error, True) if not n_bad else Estimate(math.inf, math.nan, False)
    checks = [check("drift", found, 0.0, DRIFT, "meV/atom/ps", long, note=note)]
    if around_trend is not None:
        checks.append(check("fluctuation", around_trend, 0.0, FLUCTUATION, "% of the thermal energy", long, note=note))
    return judged("nve", checks)


def kinetic(energies, dof, temperature, long=True, note=""):
    """Checks of kinetic energies (eV) against the canonical distribution, Gamma(dof / 2, kT): mean and width."""
    energies, kt = np.asarray(energies, float), BOLTZMANN * temperature
    if not np.isfinite(energies).all():
        found = Estimate(math.inf, math.nan, False)
        return [check("kinetic energy, mean", found, 1.0, TEMPERATURE, note="a number is NaN or infinite")]
    mean, square = statistics.mean(energies), variance(energies)
    half, root = dof / 2 * kt, math.sqrt(dof / 2) * kt
    mean = Estimate(mean.value / half, mean.error / half, mean.enough)
    width = math.sqrt(max(square.value, 0.0)) / root
    width = Estimate(width, square.error / (2 * width * root**2) if width > 0 else math.nan, square.enough)
    return [
        check("kinetic energy, mean", mean, 1.0, TEMPERATURE, long=long, note=note),
        check("kinetic energy, width", width, 1.0, WIDTH, long=long, note=note),
    ]


def _long(time, constant, what):
    """(whether a run lasts as many time constants as it needs, why not)"""
    ps, least = span(time), TIMES * constant
    return ps >= least, "" if ps >= least else f"{ps:.4g} ps after its first fifth; the {what} needs {least:g} ps"


def nvt(time, energies, dof, temperature, damp):
    """Checks of an NVT run whose thermostat has the time constant `damp`, ps."""
    time, energies = begun(time, energies)
    return kinetic(energies, dof, temperature, *_long(time, damp, "thermostat"))


def stationary(time, values):
    """Slope of a series: the widest interval for several block counts, because blocks may be correlated."""
    found = [statistics.slope(time, values, blocks) for blocks in (20, 10)]
    return max(found, key=lambda e: e.error if math.isfinite(e.error) else math.inf)


def npt(series, dof, temperature, pressure, damp, pdamp):
    """Checks of an NPT run. series: (time ps, kinetic energies eV, pressures bar, volumes A^3). In equilibrium the
    volume's fluctuation is that of the compressibility which the pressure shows as it follows the volume: their
    covariance is -kT, whatever the material is. kT/V, what one degree of freedom presses with, is left to the mean
    pressure, since conserved momenta take as much."""
    time, energies, p, v = begun(*series)
    kt, (long, note) = BOLTZMANN * temperature, _long(time, pdamp, "barostat")
    checks = kinetic(energies, dof, temperature, *_long(time, damp, "thermostat"))
    if not (np.isfinite(p).all() and np.isfinite(v).all() and len(v)):
        found = Estimate(math.inf, math.nan, False)
        return [*checks, check("pressure", found, pressure, None, "bar", note="a number is NaN or infinite")]
    slack = kt / v.mean() / BAR
    checks.append(check("pressure", statistics.mean(p), pressure, None, "bar", long, slack, note))
    drift = stationary(time, 100 * v / v.mean())
    checks.append(check("volume, drift", drift, 0.0, None, "%/ps", long, note=note))
    product = statistics.mean((v - v.mean()) * (p - p.mean()))
    value, error = -product.value * BAR / kt, product.error * BAR / kt
    # a volume that is held still never has independent samples
    enough = product.enough and statistics.mean(v).enough or value + error < STILL
    found = Estimate(value, error, enough)
    checks.append(check("volume, fluctuation", found, 1.0, RESPONSE, long=long, note=note))
    return checks


def two_temperatures(first, t1, second, t2):
    """Total (or potential) energies at two temperatures of one volume: the logarithm of the ratio of their
    distributions has the slope 1/kT1 - 1/kT2. Returns the slope found over that one (by maximum likelihood), with its
    error by leaving out blocks, and whether the series are long enough and overlap."""
    first, second = (np.asarray(x, float) for x in (first, second))
    both = np.concatenate([first, second])
    wanted = (1 / t1 - 1 / t2) / BOLTZMANN
    if min(len(first), len(second)) < 2 * statistics.BLOCKS or not np.isfinite(both).all() or t1 == t2:
        return statistics.NOTHING
    middle, scale = both.mean(), both.std()
    a, b = (first - middle) / scale, (second - middle) / scale
    value = _logistic(a, b) / scale / wanted
    parts = [np.array_split(x, statistics.BLOCKS) for x in (a, b)]
    drop_block = lambda x, k: np.concatenate([y for i, y in enumerate(x) if i != k])
    left = np.array([_logistic(drop_block(parts[0], k), drop_block(parts[1], k)) for k in range(statistics.BLOCKS)])
    n = statistics.BLOCKS
    error = statistics.student(n - 1) * math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    enough = all(len(x) / statistics.inefficiency(x) >= statistics.LENGTHS for x in (first, second))
    apart = abs(float(b.mean() - a.mean())) / max(1e-300, float(a.std() + b.std()))
    return Estimate(value, abs(error / scale / wanted), enough and 0.25 < apart < 2.5)


def _logistic(a, b):
    """Slope s of P(b | x) = 1 / (1 + exp(-c - s x)) by maximum likelihood (Newton)."""
    x, y = np.concatenate([a, b]), np.concatenate([np.zeros(len(a)), np.ones(len(b))])
    design, w = np.stack([np.ones(len(x)), x]), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(w @ design, -50, 50)))
        hessian = (design * (p * (1 - p) + 1e-12)) @ design.T
        step = np.linalg.solve(hessian, design @ (y - p))
        w = w + step * min(1.0, 5.0 / max(1e-300, float(np.abs(step).max())))
        if np.abs(step).max() < 1e-10:
            break
    return float(w[1])


def total_energies(first, t1, second, t2, long=True, note=""):
    found = two_temperatures(first, t1, second, t2)
    words = f"{t1:g} and {t2:g} K" + (f"; {note}" if note else "")
    return check("total energy, two temperatures", found, 1.0, WIDTH, long=long, note=words)


def exponent(whole, half):
    """Exponent of the fluctuation of the total energy over the time step. whole: energies around their trend in steps
    of one size, half: those of the same path in the same direction in steps of half that size. Its error comes from
    leaving out blocks in turn."""
    n = statistics.BLOCKS
    a, b = (np.array([x.sum() for x in np.array_split(np.asarray(e, float) ** 2, n)]) for e in (whole, half))
    if min(len(whole), len(half)) < 5 * n or not (np.isfinite(a).all() and np.isfinite(b).all() and b.sum() > 0):
        return statistics.NOTHING
    log_ratio = lambda x, y: 0.5 * math.log2(x / y)
    left = np.array([log_ratio(a.sum() - a[k], b.sum() - b[k]) for k in range(n)])
    error = statistics.student(n - 1) * math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    return Estimate(log_ratio(a.sum(), b.sum()), error, True)


def around(time, energies):
    """Energies less their trend."""
    time, energies = np.asarray(time, float), np.asarray(energies, float)
    return energies - np.polyval(np.polyfit(time, energies, 1), time)


def relative_fluctuation(time, total, kinetic):
    """Standard deviation of the total energy around its trend, % of the thermal energy, which is twice the kinetic one:
    an Estimate."""
    found, thermal = variance(around(time, total)), 2 * float(np.mean(kinetic))
    root = math.sqrt(found.value) if found.value > 0 else 0.0
    error = found.error / (2 * root) if root else 0.0
    return Estimate(100 * root / thermal, 100 * error / thermal, math.isfinite(found.value) and thermal > 0)


def fluctuation(time, energies):
    """Standard deviation of the total energy around its trend."""
    return float(np.std(around(time, energies)))
