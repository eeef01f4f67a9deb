"""Distributions of kinetic and potential energies, by an outside judge: the package physical_validation."""

import math

import numpy as np

from ..ensemble import outside
from ..ensemble.judge import BOLTZMANN
from ..ensemble.outside import PACKAGE
from ..model.masses import MASS
from . import dynamics, runner
from .job import attempt
from .rows import missing, row
from .work import NotMeasured


def _package():
    try:
        return outside.package()
    except outside.NotThere as e:
        raise NotMeasured(str(e)) from e


def _data(package, found, temperature):
    """The package's SimulationData of an NVT run, without its begin."""
    rows = found.rows[len(found.rows) // 5 :]
    names = {"kinetic": "ke", "potential": "pe", "total": "etotal", "volume": "vol"}
    series = {key: rows[:, runner.COLUMNS.index(column)] for key, column in names.items()}
    return outside.data(package, [MASS[e] for e in found.elements], temperature, found.timestep_ps, series)


def apart(found, temperature):
    """K between the two temperatures whose potential energies overlap well: two standard deviations of the energy."""
    energies = found.column("pe")[len(found.rows) // 5 :]
    return 2 * BOLTZMANN * temperature**2 / float(np.std(energies))


def measure(job):
    package, rows = _package(), []
    for system in dynamics.systems(job):
        t = float(system.temperature)
        found, why = attempt(dynamics.run, job, job.model, system, "nvt")
        if found is None or found.stable(t)[0] == "unstable":
            rows += [
                missing(name, system.name, why or found.stable(t)[1]) for name in ("kinetic_energy", "potential_energy")
            ]
            continue
        hot = round(t + apart(found, t), 1)
        steps = job.steps(system, job.settings["nvt"])
        hotter = {"ensemble": "nvt", "temperature": hot, "steps": steps}
        other, why = attempt(job.trajectory, job.model, system, "nvt hotter", **hotter)
        rows += _judge(package, system, found, other, hot, why)
    return {"rows": rows, "figures": []}


def _judge(package, system, found, other, hot, why):
    t = float(system.temperature)
    first = _data(package, found, t)
    kinetic = outside.kinetic(package, first)
    worst = max(abs(x) for x in kinetic)
    note = f"mean {kinetic[0]:.2g}, width {kinetic[1]:.2g} standard errors off"
    enough = found.whole and math.isfinite(worst)
    rows = [row("kinetic_energy", system.name, worst, note=note, enough=enough)]
    if other is None or other.stable(hot)[0] == "unstable":
        return [*rows, missing("potential_energy", system.name, why or other.stable(hot)[1])]
    try:
        worst = outside.energies(package, first, _data(package, other, hot))
    except Exception as e:  # of the package: its words are the reason
        return [*rows, missing("potential_energy", system.name, f"{PACKAGE}: {outside.words(e)}")]
    note = f"{t:g} and {hot:g} K"
    return [*rows, row("potential_energy", system.name, worst, note=note, enough=found.whole and other.whole)]
