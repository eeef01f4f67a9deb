"""
What does a step cost?
======================

A student, its teacher and a classical potential on the same atoms, with intervals. Needs ``pip install ase
matplotlib``; takes about ten seconds on one core.
"""

import matplotlib.pyplot as plt
from ase.build import bulk
from ase.calculators.emt import EMT

import mlff

# %%
# Profiles
# --------
#
# Each step asks for energy and forces of atoms that move a little, as in dynamics. The first steps are left
# out. A report of LAMMPS, by *fix mlffprof*, has the same form.

crystal = bulk("Cu", cubic=True, a=3.63).repeat(3)
calculators = {"EMT of ASE": EMT(), "copper-m": "copper-m", "nequix-oam-1-pft": "nequix-oam-1-pft"}
reports = [mlff.profile(c, crystal, steps=60, warmup=5, name=name) for name, c in calculators.items()]
print(reports[1].summary())

# %%
# Ranking
# -------
#
# The fastest is first; ratios are against the first of the list, with intervals of 95 percent.

print(mlff.compare(reports))

# %%
# Times of all steps
# ------------------

figure, axes = plt.subplots()
for report in reports:
    axes.plot(report.latencies, label=report["name"])
axes.set(yscale="log", xlabel="step", ylabel="time (ms)")
axes.legend()
plt.show()
