"""Distributions of kinetic and potential energies, by an outside judge: the package physical_validation."""

import contextlib
import importlib
import io
import math

import numpy as np

from . import dynamics, runner
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

PACKAGE = "physical_validation"


def _package():
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as e:
        raise NotMeasured(f"{PACKAGE} is not installed: pip install {PACKAGE}") from e


def _data(package, found, temperature):
    """The package's SimulationData of an NVT run, without its begin; units are ours."""
    n, rows = len(found.elements), found.rows[len(found.rows) // 5 :]
    column = lambda name: rows[:, runner.COLUMNS.index(name)]
    return package.data.SimulationData(
        units=package.data.UnitData(
            kb=runner.BOLTZMANN,
            energy_str="eV",
            energy_conversion=96.48533212,
            length_str="A",
            length_conversion=0.1,
            volume_str="A^3",
            volume_conversion=1e-3,
            temperature_str="K",
            temperature_conversion=1,
            pressure_str="bar",
            pressure_conversion=1,
            time_str="ps",
            time_conversion=1,
        ),
        dt=found.timestep_ps,
        ensemble=package.data.EnsembleData(
            "NVT", natoms=n, volume=float(column("vol").mean()), temperature=temperature
        ),
        system=package.data.SystemData(
            natoms=n, nconstraints=0, ndof_reduction_tra=3, ndof_reduction_rot=0, mass=_masses(found.elements)
        ),
        observables=package.data.ObservableData(
            kinetic_energy=column("ke"),
            potential_energy=column("pe"),
            total_energy=column("etotal"),
            volume=column("vol"),
        ),
    )


def _masses(elements):
    from ..train.masses import MASS

    return np.array([MASS[e] for e in elements])


def apart(found, temperature):
    """K between the two temperatures whose potential energies overlap well: two standard deviations of the energy."""
    energies = found.column("pe")[len(found.rows) // 5 :]
    return 2 * runner.BOLTZMANN * temperature**2 / float(np.std(energies))


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


def _words(error):
    """What an error of the package says, in one line."""
    return " ".join(str(error.args[-1] if error.args else error).split())


def _judge(package, system, found, other, hot, why):
    t = float(system.temperature)
    first = _data(package, found, t)
    with contextlib.redirect_stdout(io.StringIO()):
        kinetic = package.kinetic_energy.distribution(first, strict=False, verbosity=0)
    worst = max(abs(float(x)) for x in kinetic)
    note = f"mean {float(kinetic[0]):.2g}, width {float(kinetic[1]):.2g} standard errors off"
    enough = found.whole and math.isfinite(worst)
    rows = [row("kinetic_energy", system.name, worst, note=note, enough=enough)]
    if other is None or other.stable(hot)[0] == "unstable":
        return [*rows, missing("potential_energy", system.name, why or other.stable(hot)[1])]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            off = package.ensemble.check(first, _data(package, other, hot), total_energy=False, verbosity=0)
    except Exception as e:  # of the package: its words are the reason
        return [*rows, missing("potential_energy", system.name, f"{PACKAGE}: {_words(e)}")]
    worst = max(abs(float(x)) for x in np.ravel(off))
    note = f"{t:g} and {hot:g} K"
    return [*rows, row("potential_energy", system.name, worst, note=note, enough=found.whole and other.whole)]
