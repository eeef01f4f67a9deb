"""
A crystal: lattice, bulk modulus, elastic constants
===================================================

Silicon with the student *silicon-m* and with its teacher *nequix-oam-1-pft*. Needs ``pip install ase
matplotlib``; takes about five seconds on one core.
"""

import matplotlib.pyplot as plt
import numpy as np
from ase.build import bulk
from ase.eos import EquationOfState
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from ase.units import GPa

import mlff.ase

MODELS = ("silicon-m", "nequix-oam-1-pft")

# %%
# The cell at rest
# ----------------
#
# Cell and atoms are relaxed together. Double precision resolves the small differences of elastic constants.

cells = {}
for name in MODELS:
    atoms = bulk("Si", cubic=True)
    atoms.calc = mlff.ase.MLFF(name, precision="fp64")
    BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=1e-4)
    cells[name] = atoms
    print(f"{name}: lattice constant {atoms.cell[0, 0]:.4f} A, {atoms.get_potential_energy() / len(atoms):.4f} eV/atom")

# %%
# Energy against volume
# ---------------------

figure, axes = plt.subplots()
for name, atoms in cells.items():
    volumes, energies = [], []
    for strain in np.linspace(-0.02, 0.02, 9):
        strained = atoms.copy()
        strained.set_cell(atoms.cell * (1 + strain), scale_atoms=True)
        strained.calc = atoms.calc
        volumes.append(strained.get_volume() / len(atoms))
        energies.append(strained.get_potential_energy() / len(atoms))
    volume, energy, modulus = EquationOfState(volumes, energies, eos="birchmurnaghan").fit()
    print(f"{name}: {volume:.3f} A^3/atom, bulk modulus {modulus / GPa:.1f} GPa")
    axes.plot(volumes, 1e3 * (np.array(energies) - energy), "o-", label=name)
axes.set(xlabel="volume (A^3/atom)", ylabel="energy - minimum (meV/atom)")
axes.legend()
plt.show()

# %%
# Elastic constants
# -----------------
#
# Stresses of small strains, with the atoms relaxed in the strained cell: C11, C12 and C44 of a cubic crystal.


def stress(atoms, strain):
    """Stress in GPa in Voigt order, atoms relaxed."""
    strained = atoms.copy()
    strained.set_cell(atoms.cell @ (np.eye(3) + strain), scale_atoms=True)
    strained.calc = atoms.calc
    BFGS(strained, logfile=None).run(fmax=1e-4)
    return strained.get_stress() / GPa


for name, atoms in cells.items():
    size, along, shear = 0.002, np.zeros((3, 3)), np.zeros((3, 3))
    along[0, 0] = size
    shear[1, 2] = shear[2, 1] = size / 2
    plus, minus = stress(atoms, along), stress(atoms, -along)
    c11, c12 = (plus - minus)[:2] / (2 * size)
    c44 = (stress(atoms, shear) - stress(atoms, -shear))[3] / (2 * size)
    print(f"{name}: C11 {c11:.1f}, C12 {c12:.1f}, C44 {c44:.1f} GPa")
