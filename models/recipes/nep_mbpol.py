"""ASE calculator of a NEP potential: needs ase and nep-adapters 1.0.3 (PyPI). make(path) of the recipe's teacher.

nep-adapters evaluates periodic structures only: a free molecule or cluster gets a cubic cell, wide enough that its
images do not interact."""

import numpy as np
from ase.calculators.calculator import Calculator, all_changes
from ase.stress import full_3x3_to_voigt_6_stress
from nep_adapters import NEPCalculator

ROOM = 20.0  # A around a molecule: more than the largest cutoff


class NEP(Calculator):
    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, path):
        super().__init__()
        self.nep = NEPCalculator(path)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        boxed, periodic = atoms.copy(), atoms.pbc.all()
        if not periodic:
            boxed.set_cell(np.ptp(atoms.positions, axis=0) + ROOM)
            boxed.pbc = True
        found = self.nep.predict_structures([boxed])
        self.results = {"energy": float(np.ravel(found.energy)[0]), "forces": np.reshape(found.forces, (-1, 3))}
        if periodic:
            virial = np.reshape(np.sum(found.virials, axis=0), (3, 3))
            self.results["stress"] = full_3x3_to_voigt_6_stress(-virial / atoms.get_volume())


def make(path):
    return NEP(path)
