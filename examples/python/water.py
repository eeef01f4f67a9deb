"""
Water with mlff and ASE
=======================

A molecule and a box of liquid water with the shipped model *water-mbpol-xs*, without LAMMPS. Needs ``pip
install ase matplotlib``; takes about five seconds on one core.
"""

import matplotlib.pyplot as plt
import numpy as np
from ase import Atoms, units
from ase.build import molecule
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution, Stationary
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS

import mlff.ase

# %%
# A model, and one evaluation without ASE
# ---------------------------------------

model = mlff.Model("water-mbpol-xs")
print(model, "elements", model.elements, "cutoff", model.cutoff, "A, density in training", model.density, "g/cm3")

water = molecule("H2O")
result = model.evaluate(water.get_chemical_symbols(), water.positions)
print(f"energy {result.energy:.4f} eV, largest force {np.abs(result.forces).max():.3f} eV/A")

# %%
# Relaxing the molecule
# ---------------------

water.calc = mlff.ase.MLFF("water-mbpol-xs", precision="fp64")
BFGS(water, logfile=None).run(fmax=1e-4)
print(f"O-H {water.get_distance(0, 1):.4f} A, H-O-H {water.get_angle(1, 0, 2):.1f} degrees")

# %%
# 64 molecules at 1 g/cm3: relaxed a little, 0.5 ps with a thermostat at 300 K, 0.5 ps without
# --------------------------------------------------------------------------------------------
#
# Molecules on a lattice, turned at random. The neighbor list is kept from step to step.

rng = np.random.default_rng(1)
edge = (64 * 18.015 / (1.0 * 0.602214)) ** (1 / 3)
box = Atoms(cell=[edge] * 3, pbc=True)
for site in np.ndindex(4, 4, 4):
    one = water.copy()
    one.rotate(360 * rng.random(), rng.normal(size=3), center="COM")
    one.translate(edge / 4 * (np.array(site) + 0.5) - one.get_center_of_mass())
    box += one

box.calc = mlff.ase.MLFF("water-mbpol-xs")
BFGS(box, logfile=None).run(fmax=1.0, steps=30)
MaxwellBoltzmannDistribution(box, temperature_K=300, rng=rng)
Stationary(box)

Langevin(box, 0.5 * units.fs, temperature_K=300, friction=0.05 / units.fs, rng=rng).run(1000)

times, totals, temperatures = [], [], []
dynamics = VelocityVerlet(box, 0.5 * units.fs)


def record():
    times.append(dynamics.get_time() / units.fs * 1e-3)
    totals.append(box.get_total_energy() / len(box))
    temperatures.append(box.get_temperature())


dynamics.attach(record, interval=10)
dynamics.run(1000)
spread = 1e3 * np.std(totals)
print(f"{len(box)} atoms: total energy within {spread:.3f} meV/atom, temperature {np.mean(temperatures):.0f} K")

# %%
# Temperature
# -----------

figure, axes = plt.subplots()
axes.plot(times, temperatures)
axes.set(xlabel="time (ps)", ylabel="temperature (K)")
plt.show()
