"""Energy conservation of every shipped model: 100 ps of NVE of its medium system in the suite, one table.

    python benchmarks/studies/validations.py [MODEL...] > benchmarks/results/validations.txt

Each line is one `mlff validate NAME STRUCTURE`: 20 ps of Langevin thermostat at 300 K, then NVE in single precision
with 0.5 fs (with hydrogen) or 1 fs. 192 to 256 atoms. About half an hour on one core for all students; universal models
run their small system. Needs LAMMPS with the plugin."""

import json
import os
import subprocess
import sys
import tempfile

from mlff_tools.bench import cases, implementations
from mlff_tools.model.lammps import cpu_name, find_decks
from mlff_tools.train import extxyz

LARGE = ("nequix-oam-1-pft", "tensornet-matpes-r2scan", "tensornet-local-matpes-pbe")
OTHERS = {"water-s": "water", "water-mbpol-xs": "water", "nequix-oam-1-pft": "copper"}
OTHERS |= {"tensornet-matpes-r2scan": "nacl", "tensornet-local-matpes-pbe": "nacl"}
SYSTEMS = {name: system for system, name in cases.ROLES["student"].items() if system != "benzene_gas"} | OTHERS


def structure_file(name, folder):
    """Path of the extended XYZ file of a model's system of the suite."""
    decks = find_decks("in.bench", None)
    frame = implementations.structure(SYSTEMS[name], decks, "small" if name in LARGE else "medium")
    path = os.path.join(folder, f"{name}.xyz")
    with open(path, "w", encoding="utf-8") as f:
        f.write(extxyz.text(frame))
    return path


def validated(name, folder):
    """The result of one model."""
    path = structure_file(name, folder)
    out = os.path.join(folder, name)
    words = [sys.executable, "-m", "mlff_tools", "validate", name, path, "--out", out, "--equilibrate", "20"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{name}: {done.stdout}")
    with open(os.path.join(out, "validation.json"), encoding="utf-8") as f:
        return json.load(f)


def main():
    names = sys.argv[1:] or list(SYSTEMS)
    print("# python benchmarks/studies/validations.py")
    print(f"# {cpu_name()}; NVE of 100 ps at 300 K, single precision; half of a 95 % interval after +-")
    print(
        f"{'model':28s}{'system':11s}{'atoms':>6s}{'fs':>5s}{'T (K)':>8s}{'drift (meV/atom/ps)':>28s}"
        f"{'fluctuation (%)':>17s}{'exponent':>10s}  verdict"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            r = validated(name, folder)
            exponent, fluctuation = r["timestep_exponent"], r["fluctuation_percent_of_thermal"]
            drift = f"{r['drift_meV_per_atom_per_ps']:.2g} +- {r['drift_error_meV_per_atom_per_ps']:.2g}"
            print(
                f"{name:28s}{SYSTEMS[name]:11s}{r['n_atoms']:6d}{r['timestep_fs']:5g}{r['temperature_mean_K']:8.1f}"
                f"{drift:>28s}{fluctuation:17.3f}{exponent:10.2f}  {r['verdict']}",
                flush=True,
            )
    print("# fluctuation: standard deviation around the drift, of the thermal energy (limit 0.5); exponent: 2 is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
