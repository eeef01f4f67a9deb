#!/usr/bin/env python3
"""Whether the 95 % interval of an energy drift holds the drift, in NVE runs of 20 ps with other velocities each.

example: drift.py 40

The runs are those of `mlff validate` with one benzene molecule, whose forces are derivatives of an energy and whose
time step is short: the true drift is taken to be zero, and the mean over all runs with its standard error is printed
next to it. A drift planted by adding a line is held as often; printed is how often it differs from zero. The control
is the interval of a regression on blocks, which takes noise for all there is.
"""

import argparse
import os
import subprocess
import tempfile

import numpy as np

from mlff_tools.ensemble import statistics

PICOSECONDS, PLANTED = 20, 0.2  # meV/atom/ps


def energies(seed, folder):
    """Time, ps, and total energy, meV/atom, of a run."""
    words = ["mlff", "validate", "--picoseconds", str(PICOSECONDS), "--seed", str(seed), "--out", folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not os.path.exists(os.path.join(folder, "data.csv")):
        raise SystemExit(f"seed {seed}: {done.stderr or done.stdout}")
    rows = np.genfromtxt(os.path.join(folder, "data.csv"), delimiter=",", names=True)
    return rows["time_ps"], 1000 * rows["total_eV"] / 12


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int)
    args = parser.parse_args()
    values, held, control, found = [], 0, 0, 0
    print("seed  drift +- half of its interval; of the regression, meV/atom/ps")
    for seed in range(1, args.runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            time, energy = energies(seed, folder)
        drift, simple = statistics.drift(time, energy), statistics.slope(time, energy)
        planted = statistics.drift(time, energy + PLANTED * time)
        values.append(drift.value)
        held += abs(drift.value) <= drift.error
        control += abs(simple.value) <= simple.error
        found += planted.value > planted.error
        print(f"{seed:4d}  {drift.value:8.4f} +- {drift.error:.4f}; {simple.error:.4f}", flush=True)
    scatter = np.std(values, ddof=1)
    error = scatter / np.sqrt(len(values))
    print(f"mean of the drifts {np.mean(values):.4f} +- {error:.4f} (standard error), scatter {scatter:.4f}")
    print(f"zero is in {held} of {args.runs} intervals; in {control} of those of the regression")
    print(f"a drift of {PLANTED} more differs from zero in {found}")


if __name__ == "__main__":
    main()
