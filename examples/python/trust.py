"""
Is a structure within the training of a model?
==============================================

Three checks before a result is used: the training domain, the uncertainty of each atom, and the teacher. The
student *copper-m* meets structures of its training, and others. Needs ``pip install ase
matplotlib``; takes about five seconds on one core.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from ase.build import bulk, fcc111

import mlff
import mlff.ase

student = mlff.ase.MLFF("copper-m", domain="ignore")
teacher = mlff.ase.MLFF("nequix-oam-1-pft", domain="ignore")
rng = np.random.default_rng(1)

# %%
# Structures
# ----------
#
# A hot crystal, a surface and a vacancy occurred in the training. A crystal that is compressed by 30 percent
# did not, nor did one whose atoms are displaced by 0.3 A at random, more than at the melting point.

crystal = bulk("Cu", cubic=True, a=3.63).repeat(3)
vacancy = crystal.copy()
del vacancy[0]
compressed = crystal.copy()
compressed.set_cell(crystal.cell * 0.7 ** (1 / 3), scale_atoms=True)
scrambled = crystal.copy()
scrambled.positions += rng.normal(scale=0.3, size=crystal.positions.shape)
structures = {
    "crystal": crystal,
    "surface (111)": fcc111("Cu", (4, 4, 6), a=3.63, vacuum=6.0, periodic=True),
    "vacancy": vacancy,
    "compressed": compressed,
    "scrambled": scrambled,
}
for atoms in structures.values():
    atoms.positions += rng.normal(scale=0.1, size=atoms.positions.shape)

# %%
# Uncertainty and true error
# --------------------------
#
# *uncertainties* estimates the error of the force on each atom, the teacher gives the true one. The estimate
# finds atoms in unknown surroundings; estimates of their error are right within a factor of two to four.

model = mlff.Model("copper-m")
print(f"uncertainty in {model.uncertainty_unit}")
figure, axes = plt.subplots()
for name, atoms in structures.items():
    atoms.calc = student
    forces, expected = atoms.get_forces(), atoms.calc.get_property("uncertainties", atoms)
    atoms.calc = teacher
    errors = np.linalg.norm(forces - atoms.get_forces(), axis=1)
    print(f"{name:16s} expected {1e3 * expected.mean():6.1f}, true {1e3 * errors.mean():6.1f} meV/A")
    axes.plot(1e3 * expected, 1e3 * errors, ".", label=name)
axes.plot([5, 5000], [5, 5000], color="0.6", lw=0.8)
axes.set(xscale="log", yscale="log", xlabel="expected error of an atom (meV/A)", ylabel="true error (meV/A)")
axes.legend()
plt.show()

# %%
# The training domain
# -------------------
#
# By default each model compares a structure with its training and reports what is outside.

for name, atoms in structures.items():
    atoms.calc = mlff.ase.MLFF("copper-m")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        atoms.get_potential_energy()
    print(f"{name}: {found[0].message if found else 'inside of the training domain'}")
