"""Machine-learned force fields from Python, without LAMMPS and without PyTorch.

    model = mlff.Model("water-mbpol-xs")                   a model by its name or file
    result = model.evaluate(symbols, positions, cell)      energy, forces, stress, ...
    atoms.calc = mlff.ase.MLFF("water-mbpol-xs")           an ASE calculator (import mlff.ase)
    report = mlff.Report.load("profile.json")              a report of fix mlffprof
    report = mlff.profile(calculator, atoms)               the same of an ASE calculator

Units: Angstrom, eV, eV/Angstrom. docs/python.md has examples, accuracy and limits.
"""

import importlib

from .domain import DomainError, DomainWarning
from .library import Error, ModelWarning
from .model import Model, Result, find_model, model_names
from .profiling import compare, profile
from .report import Report

__version__ = "0.1.0"
__all__ = [
    "DomainError",
    "DomainWarning",
    "Error",
    "Model",
    "ModelWarning",
    "Report",
    "Result",
    "compare",
    "find_model",
    "model_names",
    "profile",
]


def __getattr__(name):
    if name == "ase":  # needs ASE, which nothing else does
        return importlib.import_module("mlff.ase")
    raise AttributeError(f"module 'mlff' has no attribute '{name}'")
