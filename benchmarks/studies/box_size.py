#!/usr/bin/env python3
"""Whether the energy of a student is right in boxes larger than those that it was trained on.

example: box_size.py models/aluminium-m.yaml models/nequix-oam-1-pft.yaml Al fcc 4.033 840 2 3 4

The student runs at constant pressure in boxes of so many unit cells along each side. The teacher labels frames. Printed
is the mean of E(student) - E(teacher), less that of the perfect crystal, in meV/atom, with its standard error from the
means of four runs.
"""

import argparse
import os
import subprocess
import tempfile

import numpy as np
from ase.build import bulk
from ase.io import read, write

import mlff.ase

RUNS, FRAMES = 4, 5  # and frames of each
SCRIPT = """
units metal
plugin load {plugin}
read_data {folder}/crystal.data
pair_style mlff
pair_coeff * * {model} {element}
velocity all create {twice} {seed} loop geom
timestep 0.002
fix 1 all npt temp {temperature} {temperature} 0.1 iso 0 0 1
run 2500
reset_timestep 0
dump 1 all custom 250 {folder}/dump id type x y z
dump_modify 1 sort id first no
run {steps}
"""


def frames_of(crystal, args, seed):
    """Frames of a run of the student, without its start."""
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/crystal.data", crystal, format="lammps-data", masses=True)
        text = SCRIPT.format(
            plugin=os.environ.get("MLFF_PLUGIN", "build/mlffplugin.so"),
            folder=folder,
            model=os.path.abspath(args.model),
            element=args.element,
            temperature=args.temperature,
            twice=2 * args.temperature,
            seed=seed,
            steps=250 * FRAMES,
        )
        with open(f"{folder}/in.run", "w", encoding="utf-8") as f:
            f.write(text)
        words = ["lmp", "-in", f"{folder}/in.run", "-log", "none"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        found = read(f"{folder}/dump", index=":", format="lammps-dump-text")[1:]
    for frame in found:
        frame.set_chemical_symbols([args.element] * len(frame))
    return found


def difference(frame, models):
    """E(student) - E(teacher), meV/atom."""
    energies = []
    for model in models:
        frame.calc = model
        energies.append(frame.get_potential_energy())
    return 1000 * (energies[0] - energies[1]) / len(frame)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("teacher")
    parser.add_argument("element")
    parser.add_argument("lattice", choices=("fcc", "bcc", "diamond"))
    parser.add_argument("constant", type=float, help="A")
    parser.add_argument("temperature", type=float, help="K")
    parser.add_argument("cells", type=int, nargs="+", help="of a box, along each side")
    args = parser.parse_args()
    models = [mlff.ase.MLFF(path, precision="fp32", domain="ignore") for path in (args.model, args.teacher)]
    print(f"{os.path.basename(args.model)}, {args.temperature:g} K: {RUNS} runs of {FRAMES} frames")
    print(f"{'atoms':>6}{'meV/atom':>10}{'+-':>7}")
    for n in args.cells:
        crystal = bulk(args.element, args.lattice, a=args.constant, cubic=True).repeat((n, n, n))
        still = difference(crystal.copy(), models)
        runs = [frames_of(crystal, args, seed) for seed in range(1, RUNS + 1)]
        means = [np.mean([difference(f, models) - still for f in run]) for run in runs]
        error = np.std(means, ddof=1) / RUNS**0.5
        print(f"{len(crystal):>6}{np.mean(means):>10.2f}{error:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
