"""An outside judge of energies at constant temperature: the package physical_validation, where it is installed."""

import contextlib
import importlib
import io
import logging
import math

import numpy as np

from ..model.modelfile import ModelError
from .judge import BOLTZMANN, FAIL, NOT, PASS, SHORT

PACKAGE = "physical_validation"
BAR = 3.0  # standard errors


class NotThere(ModelError):
    """The package is not installed."""


def package():
    logging.getLogger("pymbar").setLevel(logging.ERROR)  # it warns on import of what nobody here asked for
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as e:
        raise NotThere(f"{PACKAGE} is not installed: pip install {PACKAGE}") from e


def data(module, masses, temperature, timestep_ps, series, fixed=3):
    """The package's SimulationData of an NVT run of atoms with these masses (g/mol), of which so many degrees of
    freedom are fixed. series: {kinetic, potential, total: eV, volume: A^3}, arrays without the run's begin."""
    n = len(masses)
    units = module.data.UnitData(
        kb=BOLTZMANN,
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
    )
    volume = np.asarray(series["volume"], float)
    return module.data.SimulationData(
        units=units,
        dt=timestep_ps,
        ensemble=module.data.EnsembleData("NVT", natoms=n, volume=float(volume.mean()), temperature=temperature),
        system=module.data.SystemData(
            natoms=n, nconstraints=0, ndof_reduction_tra=fixed, ndof_reduction_rot=0, mass=np.asarray(masses, float)
        ),
        observables=module.data.ObservableData(
            kinetic_energy=series["kinetic"],
            potential_energy=series["potential"],
            total_energy=series["total"],
            volume=volume,
        ),
    )


def kinetic(module, found):
    """(mean, width) of the kinetic energies, standard errors off the canonical ones."""
    with contextlib.redirect_stdout(io.StringIO()):
        mean, width = module.kinetic_energy.distribution(found, strict=False, verbosity=0)
    return float(mean), float(width)


def energies(module, first, second, total=False):
    """Standard errors between the ratio of two distributions of potential (or total) energies and the wanted one; an
    error of the package says what it cannot do."""
    with contextlib.redirect_stdout(io.StringIO()):
        off = module.ensemble.check(first, second, total_energy=total, verbosity=0)
    return max(abs(float(x)) for x in np.ravel(off))


def words(error):
    """What an error of the package says, in one line."""
    return " ".join(str(error.args[-1] if error.args else error).split())


def check(name, off, long=True, note=""):
    """A check, as those of judge: standard errors off, at most three of them."""
    known = off is not None and math.isfinite(off)
    said = NOT if not known else SHORT if not long else PASS if off <= BAR else FAIL
    numbers = {"value": off if known else None, "error": None, "target": 0.0, "bar": BAR, "unit": "standard errors"}
    return {"name": f"{name}, {PACKAGE}", **numbers, "verdict": said, "note": note}
