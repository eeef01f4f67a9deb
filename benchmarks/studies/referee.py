#!/usr/bin/env python3
"""Checks the claims of students as a referee would: by ASE and LAMMPS alone, without the code of certificates.

example: referee.py aluminium models/aluminium-m.yaml models/nequix-oam-1-pft.yaml

A line for each check: the student's value, the teacher's (or that of experiments, for water), what was allowed, and
BLOCKER where it is exceeded. Exit status 1 with a blocker. Energies in eV, lengths in A. Limits are arguments of
Report.near and Report.least; they were written before the students that they judge (2026-11-29).
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
from ase import Atoms, units
from ase.build import bulk, fcc110, make_supercell
from ase.filters import FrechetCellFilter
from ase.io import read, write
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.optimize import FIRE

import mlff.ase

PER_M2 = 16021.766  # mJ/m2 of 1 eV/A2


class Report:
    """The lines of a material, and how many of them are blockers."""

    def __init__(self, material):
        self.material, self.blockers = material, 0
        print(f"\n{material}\n{'check':<46}{'student':>12}{'other':>12}{'allowed':>12}")

    def line(self, what, value, other, allowed, good):
        self.blockers += not good
        number = lambda x: x if isinstance(x, str) else f"{x:.4g}"
        print(f"{what:<46}{number(value):>12}{number(other):>12}{allowed:>12}{'' if good else '  BLOCKER'}", flush=True)

    def near(self, what, value, other, most):
        self.line(what, value, other, f"+-{most:.3g}", abs(value - other) <= most)

    def least(self, what, value, least):
        self.line(what, value, "", f">={least:.3g}", value >= least)


def models(args):
    """Calculators of the student and its teacher."""
    return [mlff.ase.MLFF(path, precision="fp64", domain="ignore") for path in (args.model, args.teacher)]


def energy(atoms, calculator):
    atoms = atoms.copy()
    atoms.calc = calculator
    return atoms.get_potential_energy()


def relaxed(atoms, calculator, cell=False, steps=300, fmax=0.01):
    atoms = atoms.copy()
    atoms.calc = calculator
    FIRE(FrechetCellFilter(atoms) if cell else atoms, logfile=None).run(fmax=fmax, steps=steps)
    return atoms


def constants(report, unit, student, teacher, most):
    """{calculator: lattice constant} of a cubic crystal, A, which are compared."""
    a = {c: relaxed(unit, c, cell=True, fmax=1e-3).cell.lengths()[0] for c in (student, teacher)}
    report.near("lattice constant, A", a[student], a[teacher], most)
    return a


def force_error(frames, student, teacher):
    """Root mean square error of forces over the root mean square of the teacher's, %."""
    off, scale = [], []
    for frame in frames:
        both = []
        for calculator in (student, teacher):
            one = frame.copy()
            one.calc = calculator
            both.append(one.get_forces())
        off.append(both[0] - both[1])
        scale.append(both[1])
    return 100 * float(np.sqrt(np.mean(np.square(off)) / np.mean(np.square(scale))))


def own_frames(atoms, student, temperature, n, seed):
    """n frames of the student's own run in the canonical ensemble."""
    atoms = atoms.copy()
    atoms.calc = student
    rng = np.random.default_rng(seed)
    MaxwellBoltzmannDistribution(atoms, temperature_K=2 * temperature, rng=rng)
    run = Langevin(atoms, 2 * units.fs, temperature_K=temperature, friction=0.01 / units.fs, rng=rng)
    run.run(500)
    out = []
    for _ in range(n):
        run.run(100)
        out.append(atoms.copy())
    return out


# ---- planes and defects


def layers(element, a, sequence):
    """Close-packed planes of one atom in the hexagonal cell, in the order of the letters."""
    nearest = a / np.sqrt(2)
    cell = np.array(
        [[nearest, 0, 0], [nearest / 2, nearest * np.sqrt(3) / 2, 0], [0, 0, len(sequence) * a / np.sqrt(3)]]
    )
    shift = {"A": 0, "B": 1, "C": 2}
    x = [shift[s] / 3 * (cell[0] + cell[1]) + [0, 0, k * a / np.sqrt(3)] for k, s in enumerate(sequence)]
    return Atoms([element] * len(sequence), positions=x, cell=cell, pbc=True)


def dumbbell(unit, times, direction, apart):
    """A supercell whose first atom is split into two along a direction."""
    atoms = make_supercell(unit, np.diag([times] * 3))
    step = apart / 2 * np.array(direction) / np.linalg.norm(direction)
    x = atoms.positions[0].copy()
    atoms.positions[0] = x + step
    return atoms + Atoms(atoms.symbols[0], positions=[x - step])


def formation(defect, perfect, calculator):
    """(energy above that of as many atoms of the crystal, relaxed structure)"""
    atoms = relaxed(defect, calculator)
    return atoms.get_potential_energy() - len(atoms) * energy(perfect, calculator) / len(perfect), atoms


def interstitials(report, unit, times, kinds, apart, student, teacher, most):
    """Each dumbbell relaxed by the student and by the teacher; the teacher's force where the student ends."""
    for name, direction in kinds.items():
        start = dumbbell(unit, times, direction, apart)
        mine, ended = formation(start, unit, student)
        theirs, _ = formation(start, unit, teacher)
        report.near(f"dumbbell <{name}>, eV", mine, theirs, most)
        ended.calc = teacher
        force = float(np.linalg.norm(ended.get_forces(), axis=1).max())
        report.near("  the teacher's force at its end, eV/A", force, 0.0, 0.3)


def lives(report, model, start, temperature, ps, seeds, commands="fix run all npt temp {t} {t} 0.1 iso 0 0 1"):
    """LAMMPS runs of a student, none of which may fail."""
    lived, failures, n = 0.0, 0, len(start)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            write(os.path.join(folder, "data"), start, format="lammps-data", masses=True)
            script = f"""units metal
boundary p p p
read_data data
plugin load {os.environ["MLFF_PLUGIN"]}
pair_style mlff
pair_coeff * * {os.path.abspath(model)} {" ".join(sorted(set(start.symbols)))}
velocity all create {2 * temperature} {seed} mom yes
timestep 0.001
thermo 100
{commands.format(t=temperature)}
run {round(1000 * ps)}
"""
            with open(os.path.join(folder, "in.run"), "w", encoding="utf-8") as f:
                f.write(script)
            done = subprocess.run(
                ["lmp", "-in", "in.run", "-log", "log"],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with open(os.path.join(folder, "log"), encoding="utf-8") as f:
                rows = [line.split() for line in f if line.split() and line.split()[0].isdigit()]
        failures += done.returncode != 0
        lived += n * (ps if not done.returncode else 0.001 * int(rows[-1][0]) if rows else 0.0)
    report.least(
        f"{temperature} K: atom-ps without a failure ({failures} failed)",
        0.0 if failures else lived,
        len(start) * ps * len(seeds) * 0.99,
    )


# ---- materials


def aluminium(report, args):
    close_packed(report, args, "Al", 4.03, 4.1, 900)


def copper(report, args):
    close_packed(report, args, "Cu", 3.63, 3.7, 1300)


def close_packed(report, args, element, constant, hot_constant, kelvin):
    """A metal with an fcc lattice of this constant, A, and of another one near its melting point."""
    student, teacher = models(args)
    a = constants(report, bulk(element, "fcc", a=constant, cubic=True), student, teacher, 0.008)
    sequences = ("ABC", "AB", "ABAC", "ABCABCABCAB")
    each = {(c, s): energy(layers(element, a[c], s), c) / len(s) for c in a for s in sequences}
    above = lambda c, s: 1000 * (each[c, s] - each[c, "ABC"])
    report.near("E(hcp) - E(fcc), meV/atom", above(student, "AB"), above(teacher, "AB"), 3)
    report.near("E(dhcp) - E(fcc), meV/atom", above(student, "ABAC"), above(teacher, "ABAC"), 3)
    area = lambda c: np.sqrt(3) / 4 * a[c] ** 2
    fault = lambda c: PER_M2 * 11 * (each[c, "ABCABCABCAB"] - each[c, "ABC"]) / area(c)
    report.near("intrinsic stacking fault, mJ/m2", fault(student), fault(teacher), 0.1 * fault(teacher))
    slab = fcc110(element, size=(2, 2, 9), a=a[student], vacuum=8, orthogonal=True)
    slab.pbc = True
    mine = relaxed(slab, student)
    surface = lambda c: (energy(mine, c) - len(slab) * each[c, "ABC"]) / (2 * slab.cell.areas()[2]) * PER_M2 / 1000
    report.near("(110) surface, J/m2", surface(student), surface(teacher), 0.05 * surface(teacher))
    unit = bulk(element, "fcc", a=a[student], cubic=True)
    interstitials(report, unit, 3, {"100": (1, 0, 0)}, 0.77 * constant / np.sqrt(2), student, teacher, 0.2)
    hcp = bulk(element, "hcp", a=a[student] / np.sqrt(2), c=a[student] * 2 / np.sqrt(3), orthorhombic=True) * (2, 2, 2)
    report.near(
        "hcp 300 K, own run: force error, %",
        force_error(own_frames(hcp, student, 300, 5, 1), student, teacher),
        0.0,
        10,
    )
    hot = make_supercell(bulk(element, "fcc", a=hot_constant, cubic=True), np.diag([4, 4, 4]))
    lives(report, args.model, hot, kelvin, 2 if args.quick else 100, (11, 12, 13))


def silicon(report, args):
    student, teacher = models(args)
    a = constants(report, bulk("Si", "diamond", a=5.47, cubic=True), student, teacher, 0.011)
    unit = bulk("Si", "diamond", a=a[student], cubic=True)

    def hexagonal(c):
        short = a[c] / np.sqrt(2)
        height, x = (
            short * np.sqrt(8 / 3),
            np.array([[1 / 3, 2 / 3, 1 / 16], [2 / 3, 1 / 3, 9 / 16], [1 / 3, 2 / 3, 7 / 16], [2 / 3, 1 / 3, 15 / 16]]),
        )
        cell = [short, short, height, 90, 90, 120]
        return (
            relaxed(
                Atoms("Si4", scaled_positions=x, cell=cell, pbc=True), c, cell=True, fmax=1e-3
            ).get_potential_energy()
            / 4
        )

    above = {c: 1000 * (hexagonal(c) - energy(bulk("Si", "diamond", a=a[c]), c) / 2) for c in a}
    report.near("hexagonal diamond, meV/atom", above[student], above[teacher], 5)
    interstitials(report, unit, 2, {"110": (1, 1, 0)}, 2.3, student, teacher, 0.3)
    rng, box = np.random.default_rng(1), make_supercell(unit, np.diag([2, 2, 2]))
    for share in (-0.05, 0.05):
        frames = []
        for _ in range(4):
            one = box.copy()
            one.set_cell(box.cell * (1 + share), scale_atoms=True)
            one.positions += 0.08 * rng.normal(size=one.positions.shape)
            frames.append(one)
        report.near(
            f"strained {100 * share:+g} %, rattled 0.08 A: force error, %",
            force_error(frames, student, teacher),
            0.0,
            10,
        )
    hot = make_supercell(bulk("Si", "diamond", a=5.5, cubic=True), np.diag([3, 3, 3]))
    lives(report, args.model, hot, 1500, 2 if args.quick else 40, (11, 12, 31, 41))


def iron(report, args):
    student, teacher = models(args)
    a = constants(report, bulk("Fe", "bcc", a=2.87, cubic=True), student, teacher, 0.006)
    unit = bulk("Fe", "bcc", a=a[student], cubic=True)
    kinds = {"110": (1, 1, 0), "111": (1, 1, 1), "100": (1, 0, 0)}
    interstitials(report, unit, 4, kinds, 2.0, student, teacher, 0.2)
    fcc = {c: 1000 * (energy(bulk("Fe", "fcc", a=3.45), c) - energy(bulk("Fe", "bcc", a=a[c]), c)) for c in a}
    report.near("fcc, a = 3.45 A, meV/atom", fcc[student], fcc[teacher], 10)
    hot = make_supercell(bulk("Fe", "bcc", a=2.95, cubic=True), np.diag([5, 5, 5]))
    lives(report, args.model, hot, 1600, 2 if args.quick else 100, (11, 12, 13))


STYLE = """plugin load {plugin}
pair_style mlff
pair_coeff * * {model} H O
timestep 0.0005
"""
LIQUID = """minimize 0 1e-2 100 1000
velocity all create 300 7 mom yes
"""
WATER = f"""{STYLE}{LIQUID}thermo 200
thermo_style custom step temp density vol
fix run all npt temp 300 300 0.1 iso 1 1 1
run 20000
print "production"
run {{steps}}
unfix run
fix run all nvt temp 300 300 1
dump frames all custom 200 dump id element xu yu zu
dump_modify frames sort id element H O
run {{steps}}
"""
ICE = f"""{STYLE}velocity all create 400 7 mom yes
thermo 1000
group oxygen type 2
compute away oxygen msd com yes
fix run all npt temp 200 200 0.1 aniso 1 1 1
thermo_style custom step temp density c_away[4]
run {{steps}}
"""
# A molecule that leaves the slab has no neighbors but its own two atoms.
SLAB = f"""replicate 1 1 2
change_box all z delta -20 20
{STYLE}{LIQUID}thermo 100
fix run all nvt temp 300 300 0.1
run 20000
compute near all coord/atom cutoff 4.0
variable alone atom c_near<3
compute alone all reduce sum v_alone
variable tension equal lz/2*(pzz-(pxx+pyy)/2)*0.01
thermo_style custom step press c_alone v_tension
print "production"
run {{steps}}
"""


def table(commands, start, folder, model, steps):
    """Rows of four columns of the thermodynamic output of LAMMPS, after the word production if it is there."""
    words = {"start": os.path.abspath(start), "model": os.path.abspath(model), "steps": steps}
    script = "units metal\nboundary p p p\nread_data {start}\n" + commands
    with open(os.path.join(folder, "in.run"), "w", encoding="utf-8") as f:
        f.write(script.format(plugin=os.environ["MLFF_PLUGIN"], **words))
    subprocess.run(["lmp", "-in", "in.run", "-log", "log"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "log"), encoding="utf-8") as f:
        rows = [line.split() for line in f.read().split("\nproduction")[-1].splitlines()]
    return np.array([r for r in rows if len(r) == 4 and r[0].isdigit()], float)


def ice_and_slab(report, args):
    """Ice Ih at 200 K stays ice; a slab of 128 molecules at 300 K stays together."""
    with tempfile.TemporaryDirectory() as folder:
        start = os.path.join(folder, "data")
        write(start, read(args.ice) * (1, 2, 2), format="lammps-data", masses=True, specorder=["H", "O"])
        rows = table(ICE, start, folder, args.model, 2000 if args.quick else 40000)
    report.near("ice Ih, 200 K: mean square displacement, A2", rows[-1, 3], 0.0, 0.5)
    report.near("  density, g/cm3 (experiment 0.927)", rows[len(rows) // 2 :, 2].mean(), 0.927, 0.03)
    with tempfile.TemporaryDirectory() as folder:
        rows = table(SLAB, args.start, folder, args.model, 2000 if args.quick else 200000)
    # at the vapour pressure of water 0.1 of the molecules of such a surface evaporates in 100 ps
    report.near("slab, 300 K: molecules outside it, mean", rows[:, 2].mean() / 3, 0.0, 1.0)
    blocks = [b[:, 3].mean() for b in np.array_split(rows, 5)]
    error = 2.8 * np.std(blocks, ddof=1) / np.sqrt(5)
    print(f"  surface tension {np.mean(blocks):.0f} +- {error:.0f} mN/m (experiment 72; without a bar)")


def water_run(args, ps):
    """(densities of the NPT run, positions of oxygen [frames each 0.1 ps, n, 3], box [3]) at 300 K and 1 bar."""
    with tempfile.TemporaryDirectory() as folder:
        rows = table(WATER, args.start, folder, args.model, 2000 * ps)
        frames = read(os.path.join(folder, "dump"), index=":", format="lammps-dump-text")
    x = np.array([f.positions[[s == "O" for s in f.symbols]] for f in frames])
    return rows[: 10 * ps, 2], x - x.mean(1, keepdims=True), frames[-1].cell.lengths()


def water(report, args):
    """Against experiment; the teacher is not asked."""
    density, x, box = water_run(args, 5 if args.quick else 100)
    report.near("density, 300 K, 1 bar, g/cm3", density.mean(), 0.9965, 0.01)
    lags = np.arange(10, len(x) // 4)
    square = [((x[lag:] - x[:-lag]) ** 2).sum(-1).mean() for lag in lags]
    slope = 10 * np.polyfit(0.1 * lags, square, 1)[0] / 6
    # Yeh and Hummer, J. Phys. Chem. B 108, 15873 (2004), with the viscosity of water
    finite = 2.837297 * units.kB * 300 * units._e / (6 * np.pi * 0.854e-3 * box[0] * 1e-10) * 1e9
    report.near("D(O), finite-size correction included, 1e-9 m2/s", slope + finite, 2.41, 0.2 * 2.41)
    n, edges = x.shape[1], np.arange(81) * 0.05
    counts = np.zeros(80)
    for one in x[::5]:
        d = one[:, None] - one[None]
        d -= np.round(d / box) * box
        counts += np.histogram(np.linalg.norm(d, axis=-1)[np.triu_indices(n, 1)], edges)[0]
    g = counts / (4 / 3 * np.pi * np.diff(edges**3) * n * (n - 1) / 2 / np.prod(box) * len(x[::5]))
    first = g[40:64].argmax() + 40
    report.near("first peak of g(O-O), A", (edges[first] + edges[first + 1]) / 2, 2.80, 0.05)
    report.near("its height", g[first], 2.57, 0.257)
    ice_and_slab(report, args)


MATERIALS = {"aluminium": aluminium, "copper": copper, "silicon": silicon, "iron": iron, "water": water}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("material", choices=MATERIALS)
    parser.add_argument("model")
    parser.add_argument("teacher", nargs="?", help="none for water")
    parser.add_argument("--quick", action="store_true", help="short runs: whether everything works")
    parser.add_argument("--start", default="examples/lammps_inputs/data.water64", help="water: a data file, H and O")
    parser.add_argument("--ice", default="models/recipes/ice-ih.xyz", help="water: ice Ih, extended XYZ")
    args = parser.parse_args()
    report = Report(args.material)
    MATERIALS[args.material](report, args)
    print(f"{args.material}: {report.blockers} blockers")
    return 1 if report.blockers else 0


if __name__ == "__main__":
    sys.exit(main())
