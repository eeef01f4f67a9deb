"""Cost of the ASE calculator mlff.ase.MLFF relative to `mlff time`: energy and forces after every move, with one list.

    taskset -c 1 .venv/bin/python benchmarks/studies/ase_calculator.py

201 atoms of water and 216 of silicon; half a minute.

Rounds of both in turns; printed are the medians of 15 rounds, and of their ratios with the smallest and the largest.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time

import ase
import ase.build
import numpy as np

import mlff
import mlff.ase
from mlff_tools.model import engine, structures

CALLS, ROUNDS, STEP = 60, 15, 1e-4  # A, of dynamics' size


def water():
    """(model, 201 atoms) of liquid water."""
    s = structures.molecule_box("water", 67, 1.0, 3)
    return "water-xs", ase.Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=True)


def silicon():
    """(model, 216 atoms) of diamond."""
    return "silicon-m", ase.build.bulk("Si", cubic=True) * (3, 3, 3)


class Pair:
    """The calculator and the program on the same atoms. Each call returns ms of a median evaluation."""

    def __init__(self, model, atoms, folder, program):
        self.atoms, self.rng, self.model, self.program = atoms, np.random.default_rng(1), model, program
        self.xyz = os.path.join(folder, f"{model}.xyz")
        cell, positions = atoms.cell.array.tolist(), atoms.positions.tolist()
        elements = atoms.get_chemical_symbols()
        structures.write_xyz(self.xyz, [{"elements": elements, "positions": positions, "cell": cell, "name": model}])
        atoms.calc = mlff.ase.MLFF(model, domain="ignore")
        self.calculator()

    def calculator(self):
        times = []
        for _ in range(CALLS):
            self.atoms.positions += STEP * self.rng.normal(size=self.atoms.positions.shape)
            begin = time.perf_counter()
            self.atoms.get_forces()
            times.append(time.perf_counter() - begin)
        return 1e3 * statistics.median(times)

    def of_program(self):
        words = [self.program, "time", mlff.find_model(self.model), self.xyz, "--calls", str(CALLS), "--json"]
        return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["median_ms"]

    def rounds(self, n):
        """[(ms of the calculator, ms of the program)] of n rounds."""
        return [(self.calculator(), self.of_program()) for _ in range(n)]


def main():
    program = engine.find_program()
    print(f"{'model':12s}{'atoms':>7s}{'calculator':>12s}{'mlff time':>12s}{'ratio':>8s}   smallest to largest")
    with tempfile.TemporaryDirectory() as folder:
        for make in (water, silicon):
            pair = Pair(*make(), folder, program)
            found = pair.rounds(ROUNDS)
            ours, theirs = (statistics.median(column) for column in zip(*found))
            ratios = sorted(a / b for a, b in found)
            print(
                f"{pair.model:12s}{len(pair.atoms):7d}{ours:9.3f} ms{theirs:9.3f} ms{statistics.median(ratios):8.3f}"
                f"   {ratios[0]:.3f} to {ratios[-1]:.3f}"
            )


if __name__ == "__main__":
    main()
