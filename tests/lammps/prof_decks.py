"""Decks with fix mlffprof, and readers of its reports and of what LAMMPS prints."""

import json
import os
import re
import sys

import processes
from harness import with_libraries

ARGON = """
units {units}
atom_style atomic
lattice fcc {spacing}
region box block 0 {n} 0 {n} 0 {n}
create_box 1 box
create_atoms 1 box
mass 1 39.95
pair_style lj/cut {cutoff}
pair_coeff 1 1 {epsilon} 3.4
velocity all create {temperature} 12345
timestep {timestep}
neighbor 1.0 bin
"""
THERMO = """
thermo_style custom step temp pe ke etotal press vol econserve {more}
thermo_modify format float %.15g
thermo {every}
"""


def argon(fix="", run="run 100", thermo=10, more="", n=3, timestep=0.002, temperature=90.0, units="metal", before=""):
    epsilon = 0.0104 if units == "metal" else 0.0104 * 23.060549
    head = ARGON.format(
        units=units,
        spacing=5.4,
        n=n,
        cutoff=6.0,
        epsilon=epsilon,
        temperature=temperature,
        timestep=timestep if units == "metal" else 1000 * timestep,
    )
    return f"{head}{THERMO.format(every=thermo, more=more)}{before}\n{fix}\n{run}\n"


def prof(keywords="", every=10, move="fix move all nve"):
    return f"{move}\nfix prof all mlffprof {every} {keywords}"


def load(folder, name="r.json"):
    """The report; NaN and Infinity are not valid JSON and fail."""

    def refuse(text):
        raise ValueError(f"{name} has {text}")

    with open(os.path.join(str(folder), name), encoding="utf-8") as f:
        return json.load(f, parse_constant=refuse)


def breakdown(output):
    """Average seconds of LAMMPS' own timing table, by section."""
    found = re.findall(r"^(\w+) +\| [0-9.e+-]+ +\| ([0-9.e+-]+) +\|", output, re.M)
    return {name.lower(): float(value) for name, value in found}


def components(report):
    return {c["name"]: c for c in report["components"]}


def tags(report):
    return {t["name"]: t["n_steps"] for t in report["tags"]}


def pair_deck(system, folder, pair, units="metal", newton="on", name="w.data"):
    with open(os.path.join(str(folder), name), "w", encoding="utf-8") as f:
        f.write(system.data())
    step = 0.0002 if units == "metal" else 0.2
    return (
        f"units {units}\nnewton {newton}\nread_data {name}\n{pair}\nneighbor 1.0 bin\ntimestep {step}\n"
        "velocity all create 100 77\n"
    )


def run_python(folder, code, *arguments, **extra):
    """Output of a Python program with LAMMPS as a library; extra: of its environment."""
    (folder / "program.py").write_text(code)
    done = processes.merged(
        [sys.executable, "program.py", *arguments], cwd=folder, env=with_libraries(**extra), timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout
