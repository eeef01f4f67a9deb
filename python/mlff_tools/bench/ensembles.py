"""Are the runs of the suite of their ensembles? Verdicts from the reports of fix mlffprof on in.bench and in.replicas.

Every row of suite.json has `ensemble`: the verdict of its report, and the checks behind it. NVE is judged by the drift
that the report has, NVT and NPT by its series; in.bench's own thermostat, barostat and momentum say what to expect.
"""

import math

import numpy as np

from ..ensemble import judge, outside
from . import profiles

NPT_DAMP, NPT_PDAMP = 0.1, 1.0  # ps, of the decks' fix npt


def floats(values):
    """A series of a report as numbers, NaN where it has null."""
    return np.array([math.nan if profiles.number(v) is None else v for v in values or []], float)


def variable(deck, name, default=None):
    """A variable of the deck as a number."""
    try:
        return float(deck[name])
    except (KeyError, TypeError, ValueError):
        return default


def conditions(report):
    """{protocol, temperature, pressure, damp, dof} of a run of the decks; None for any other report."""
    deck = profiles.get(report, "context", "deck")
    energy = report.get("energy")
    if not isinstance(deck, dict) or not energy or energy.get("units") != "metal":
        return None
    ours = deck.get("protocol") in ("nve", "nvt", "npt") and ("system" in deck or "hottest" in deck)
    temperature, damp = variable(deck, "temperature"), variable(deck, "damp")
    if not ours or temperature is None or damp is None or variable(deck, "hottest", 0.0):
        return None
    free = deck["protocol"] == "nvt" and deck.get("zero") == "no"  # the thermostat moves the centre of mass
    copies = 0 if free else 1  # of molecules whose momentum is kept at zero, each by itself
    if "hottest" in deck:
        copies = int(np.prod([variable(deck, name, 1.0) for name in ("nx", "ny", "nz")]))
    return {
        "protocol": deck["protocol"],
        "temperature": temperature,
        "pressure": variable(deck, "pressure", 1.0),
        "damp": damp,
        "dof": 3 * int(report["n_atoms"]) - 3 * copies,
    }


def series(report):
    """{time, kinetic, potential, total, pressure, volume}: arrays of the samples, empty where there are none."""
    found = profiles.get(report, "energy", "series") or {}
    names = ("kinetic", "potential", "total", "pressure", "volume")
    return {"time": floats(found.get("time_ps")), **{name: floats(found.get(name)) for name in names}}


def of_report(report):
    """{ensemble, verdict, checks} of a report; None where nothing says what its ensemble should be."""
    wanted = conditions(report)
    if wanted is None:
        return None
    protocol, energy = wanted["protocol"], report["energy"]
    if energy.get("exploded"):
        found = judge.Estimate(math.inf, math.nan, False)
        note = "a number is NaN or infinite, above 20,000 K, or the energy moved by more than 1 eV/atom"
        return judge.judged(protocol, [judge.check("explosion", found, note=note)])
    if protocol == "nve":
        return _nve(energy, series(report))
    found = series(report)
    if protocol == "nvt":
        checks = judge.nvt(found["time"], found["kinetic"], wanted["dof"], wanted["temperature"], wanted["damp"])
        return judge.judged("nvt", [*checks, *_outside(report, found, wanted, checks)])
    names = ("time", "kinetic", "pressure", "volume")
    target = (wanted["dof"], wanted["temperature"], wanted["pressure"], NPT_DAMP, NPT_PDAMP)
    return judge.judged("npt", judge.npt(tuple(found[name] for name in names), *target))


def _nve(energy, found):
    block = energy.get("conserved") or energy.get("total") or {}
    drift, error = profiles.number(block.get("drift")), profiles.number(block.get("drift_error"))
    known = drift is not None and error is not None
    numbers = (1000 * drift, 1000 * error) if known else (math.nan, math.nan)
    time, total, kinetic = (found[name] for name in ("time", "total", "kinetic"))
    whole = len(time) and len(time) == len(total) == len(kinetic) and np.isfinite(total).all()
    around_trend = judge.relative_fluctuation(*judge.begun(time, total, kinetic)) if whole else None
    return judge.nve(*numbers, energy.get("time_ps") or 0.0, around_trend=around_trend)


def _data(module, report, found, wanted):
    """For physical_validation. The masses do not count in what is asked of it."""
    begun, n = dict(zip(found, judge.begun(*found.values()))), int(report["n_atoms"])
    step = profiles.get(report, "context", "timestep") or 0.001
    return outside.data(module, np.ones(n), wanted["temperature"], step, begun, 3 * n - wanted["dof"])


def _outside(report, found, wanted, checks):
    """The kinetic energies by physical_validation, where it is installed."""
    try:
        module = outside.package()
    except outside.NotThere:
        return []
    long = all(c["verdict"] != judge.SHORT for c in checks)
    try:
        mean, width = outside.kinetic(module, _data(module, report, found, wanted))
    except Exception as e:  # of the package: its words are the reason
        return [outside.check("kinetic energy", None, note=outside.words(e))]
    note = f"mean {mean:.2g}, width {width:.2g} standard errors off"
    return [outside.check("kinetic energy", max(abs(mean), abs(width)), long, note)]


# ---- total energies at two temperatures ----------------------------------------------------------------------------


def pair(first, second):
    """Checks of the total energies of two NVT reports of equal work at two temperatures, lower one first."""
    wanted, found = [conditions(r) for r in (first, second)], [series(r) for r in (first, second)]
    t1, t2 = (w["temperature"] for w in wanted)
    begun = [dict(zip(f, judge.begun(*f.values()))) for f in found]
    long = all(judge.span(o["time"]) >= judge.TIMES * w["damp"] for o, w in zip(begun, wanted))
    checks = [judge.total_energies(begun[0]["total"], t1, begun[1]["total"], t2, long)]
    try:
        module = outside.package()
        data = [_data(module, r, f, w) for r, f, w in zip((first, second), found, wanted)]
        off, note = outside.energies(module, *data, total=True), f"{t1:g} and {t2:g} K"
    except outside.NotThere:
        return checks
    except Exception as e:  # of the package
        off, note = None, outside.words(e)
    return [*checks, outside.check("total energy", off, checks[0]["verdict"] != judge.SHORT, note)]


def with_pairs(rows, reports):
    """Adds the checks of pair() to NVT rows (of results.summarise) that differ in the temperature only. reports: those
    that the rows are about."""
    groups = {}
    for row, report in zip(rows, reports):
        wanted = conditions(report)
        if wanted and wanted["protocol"] == "nvt" and row["ensemble"]:
            key = row["case"].replace(f"-{wanted['temperature']:g}K", "")
            groups.setdefault(key, []).append((wanted["temperature"], row, report))
    for found in groups.values():
        found.sort(key=lambda f: f[0])
        for low, high in zip(found, found[1:]):
            checks = pair(low[2], high[2])
            for row in (low[1], high[1]):
                row["ensemble"] = judge.judged("nvt", [*row["ensemble"]["checks"], *checks])


# ---- words ---------------------------------------------------------------------------------------------------------


def sentence(rows):
    """What the summary says about all rows."""
    said = {}
    for row in rows:
        if row["ensemble"] and row["ensemble"]["verdict"]:
            said.setdefault(row["ensemble"]["verdict"], []).append(row["case"])
    if not said:
        return "Ensembles: not judged."
    counts = ", ".join(f"{len(said[w])} {w}" for w in (judge.PASS, judge.FAIL, judge.SHORT) if w in said)
    failed = said.get(judge.FAIL)
    text = f"Ensembles: {counts}."
    text += f" THESE ARE NOT OF THEIR ENSEMBLE: {', '.join(failed)}." if failed else ""
    if judge.SHORT in said:
        text += " Runs that are too short to say are timings, no physics: give more --steps (docs/statistics.md)."
    return text
