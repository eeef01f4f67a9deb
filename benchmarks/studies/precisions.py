"""Errors of single precision and of `precision mixed` against double precision, for every shipped model on its system
of the suite: a table and a picture.

    python benchmarks/studies/precisions.py benchmarks/results/precisions

writes precisions.txt and precisions.svg. Processors without AMX and AVX-512 BF16 compute `mixed` by the portable
kernels, which round alike. Crystals are displaced by 0.05 A. A minute on one core."""

import json
import subprocess
import sys
import tempfile
import time

import numpy as np
from validations import SYSTEMS, structure_file

from mlff_tools.bench import profiles
from mlff_tools.model.engine import find_program
from mlff_tools.model.lammps import cpu_name
from mlff_tools.report import plot

PRECISIONS = ("fp64", "fp32", "mixed")


def evaluated(name, path, precision):
    """(energy in eV, forces [n, 3] in eV/A, kernels)"""
    words = [find_program(), "evaluate", name, path, "--forces", "--json", "--precision", precision]
    for more in ([], ["--kernels", "generic"]):
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
        if not done.returncode:
            found = json.loads(done.stdout)
            (s,) = found["structures"]
            return s["energy"], np.array(s["forces"]), found["origin"].rpartition(" ")[2]
    raise SystemExit(f"{name}: {done.stderr}")


def compared(name, folder):
    """[model, system, atoms, RMS force, RMS, largest force and energy error of fp32 and of mixed, kernels]"""
    path = structure_file(name, folder)
    found = {p: evaluated(name, path, p) for p in PRECISIONS}
    energy, forces, _ = found["fp64"]
    n, row = len(forces), []
    rms = lambda x: float(np.sqrt((x**2).mean()))
    for p in PRECISIONS[1:]:
        off = found[p][1] - forces
        row += [rms(off) / rms(forces), float(np.abs(off).max()), abs(found[p][0] - energy) / n]
    return [name, SYSTEMS[name], n, rms(forces), *row, found["mixed"][2]]


def main():
    stem = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        rows = [compared(name, folder) for name in SYSTEMS]
    today = time.strftime("%Y-%m-%d")
    lines = [
        f"# python benchmarks/studies/precisions.py {stem}",
        f"# {cpu_name()}, {today}. Differences from double precision: root mean square of the force",
        "# components over that of the forces, largest component (eV/A), energy (eV/atom). Kernels: of mixed.",
        f"{'':28s}{'':10s}{'':>6s}{'force':>8s}{'fp32':>10s}{'':>10s}{'':>10s}{'mixed':>10s}",
        f"{'model':28s}{'system':10s}{'atoms':>6s}{'eV/A':>8s}"
        + 2 * f"{'RMS':>10s}{'largest':>10s}{'energy':>10s}"
        + "  kernels",
    ]
    for name, system, n, force, *errors, kernels in rows:
        lines.append(
            f"{name:28s}{system:10s}{n:6d}{force:8.3f}" + "".join(f"{x:10.1e}" for x in errors) + f"  {kernels}"
        )
    profiles.write_text(f"{stem}.txt", "\n".join(lines) + "\n")
    panel = lambda title, unit, k: {
        "kind": "bars",
        "title": title,
        "y_label": unit,
        "bars": [(f"{row[0]}: {p}", 1e6 * row[k + 3 * j], None) for row in rows for j, p in enumerate(PRECISIONS[1:])],
    }
    force = panel("Forces: difference from double precision", "RMS, 1e-6 of the forces", 4)
    energy = panel("Energies: difference from double precision", "ueV/atom", 6)
    plot.draw([force, energy], f"{stem}.svg", width=4.5, height=4.0)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
