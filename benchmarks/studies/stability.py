"""Long runs of liquid water with one model: does it survive, and does it conserve energy?

    .venv/bin/python benchmarks/studies/stability.py models/water-benzene-student.yaml

100 ps of Langevin NVT at 300 K, then 20 ps of NVE from its last state, both at 0.5 fs with in.stability. Interrupted
runs go on from their last restart file (every 5000 steps). The verdict, with its numbers, is written to
benchmarks/results/stability-MODEL.json; exit code 0 = passed, 1 = failed, 2 = could not be run.

Passed means: all steps done; no number in the thermo output is NaN or infinite; the mean temperature of NVT is within
10 K of 300 K; the drift of the total energy in NVE, by linear regression, is below 0.05 meV/atom/ps.
"""

import argparse
import datetime
import math
import os
import re
import subprocess
import sys
import time

import numpy as np

from mlff_tools.bench import profiles
from mlff_tools.model.lammps import LammpsError, cpu_name, find_lmp, find_plugin, on_ranks, variable
from mlff_tools.model.modelfile import sha256_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DECK = os.path.join(ROOT, "benchmarks", "studies", "in.stability")
COLUMNS = ["Step", "Time", "Temp", "PotEng", "TotEng", "Press", "Density"]


def read_thermo(path):
    """Rows [n, 7] of a LAMMPS log and its number of atoms; rows of several runs in one log follow each other."""
    rows, inside, n_atoms = [], False, 0
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            words = line.split()
            if words == COLUMNS:
                inside = True
            elif inside and len(words) == len(COLUMNS):
                try:
                    rows.append([float(w) for w in words])
                except ValueError:
                    inside = False
            elif inside and line.startswith("Loop time"):
                inside = False
            match = re.search(r"with (\d+) atoms|^ *(\d+) atoms$", line)
            if match:
                n_atoms = int(match.group(1) or match.group(2))
    return np.array(rows).reshape(-1, len(COLUMNS)), n_atoms


def all_thermo(folder, protocol):
    """Thermo rows of all parts of a run, each step once, the latest part's word counting."""
    rows, n_atoms, part = {}, 0, 0
    while os.path.exists(log := os.path.join(folder, f"log.{protocol}.{part}")):
        part_rows, n = read_thermo(log)
        n_atoms = n or n_atoms
        rows.update({int(r[0]): r for r in part_rows})
        part += 1
    return np.array([rows[k] for k in sorted(rows)]).reshape(-1, len(COLUMNS)), n_atoms, part


def newest_restart(folder, protocol):
    """Latest complete restart file of a protocol, or None. LAMMPS writes the two in turn."""
    files = [os.path.join(folder, f"{protocol}.restart.{k}") for k in (1, 2)]
    files = [f for f in files if os.path.exists(f)]
    return max(files, key=os.path.getmtime) if files else None


def run(args, folder, protocol, steps, start):
    """Runs or continues a protocol up to `steps` steps after `start` (a restart file or None). Returns the exit
    code."""
    end = os.path.join(folder, f"{protocol}.end")
    if os.path.exists(end):
        return 0
    part = all_thermo(folder, protocol)[2]
    restart = newest_restart(folder, protocol) or start
    command = [args.lmp, "-in", DECK, "-log", os.path.join(folder, f"log.{protocol}.{part}"), "-screen", "none"]
    for name, value in (
        ("model", variable(args.model)),
        ("protocol", protocol),
        ("steps", steps),
        ("out", variable(os.path.join(folder, protocol))),
        ("restart", variable(restart) if restart else "none"),
        ("data", variable(args.data)),
        ("plugin", variable(args.plugin) if args.plugin else "none"),
        ("settings", args.settings),
    ):
        command += ["-var", name, str(value)]
    return subprocess.call(on_ranks(command, args.ranks, args.lmp), stdin=subprocess.DEVNULL)


def regression(x, y):
    """Slope of y over x and its standard error, from the means of 20 blocks, whose errors are nearly independent."""
    blocks = min(20, len(x))
    bx = np.array([b.mean() for b in np.array_split(x, blocks)])
    by = np.array([b.mean() for b in np.array_split(y, blocks)])
    dx = bx - bx.mean()
    slope = float((dx * by).sum() / (dx * dx).sum())
    residual = by - by.mean() - slope * dx
    error = math.sqrt(float((residual**2).sum()) / max(1, blocks - 2) / float((dx * dx).sum()))
    return slope, error


def judge(args, folder):
    """The report: numbers of both protocols and the verdict."""
    report = {"model": os.path.basename(args.model), "timestep_fs": 0.5, "failures": []}
    with open(args.model, encoding="utf-8") as f:
        report["sha256"] = re.search(r"(?<!_)sha256: *([0-9a-f]{64})", f.read()).group(1)
    for protocol, steps in (("nvt", args.nvt_steps), ("nve", args.nve_steps)):
        rows, n_atoms, parts = all_thermo(folder, protocol)
        first = 0 if protocol == "nvt" else args.nvt_steps
        done = int(rows[-1, 0]) - first if len(rows) else 0
        part = {"steps": done, "picoseconds": done * 0.0005, "atoms": n_atoms, "parts": parts}
        if done < steps or not os.path.exists(os.path.join(folder, f"{protocol}.end")):
            report["failures"].append(f"{protocol}: {done} of {steps} steps done")
        if len(rows) == 0 or not np.isfinite(rows).all():
            report["failures"].append(f"{protocol}: thermo output is missing, NaN or infinite")
        elif len(rows) > 20:
            tail = rows[len(rows) // 10 :]
            part["temperature_mean_K"], part["temperature_std_K"] = float(tail[:, 2].mean()), float(tail[:, 2].std())
            part["pressure_mean_bar"] = float(tail[:, 5].mean())
            if protocol == "nve":
                slope, error = regression(rows[:, 1], rows[:, 4])
                part["drift_mev_per_atom_per_ps"] = 1000 * slope / n_atoms
                part["drift_error"] = 1000 * error / n_atoms
                part["largest_excursion_mev_per_atom"] = float(1000 * np.abs(rows[:, 4] - rows[0, 4]).max() / n_atoms)
                if not abs(part["drift_mev_per_atom_per_ps"]) < 0.05:
                    report["failures"].append("nve: the drift is not below 0.05 meV/atom/ps")
            elif not abs(part["temperature_mean_K"] - 300) < 10:
                report["failures"].append("nvt: the mean temperature is not within 10 K of 300 K")
        report[protocol] = part
    report["passed"] = not report["failures"]
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model file (YAML)")
    parser.add_argument("--data", default=os.path.join(ROOT, "examples", "lammps_inputs", "data.water64"))
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--plugin", help="mlffplugin.so (default: build), or none")
    parser.add_argument("--ranks", type=int, default=1, help="MPI ranks (default: 1)")
    parser.add_argument("--settings", default="device cpu precision fp32", help="of pair_style mlff")
    parser.add_argument("--nvt-steps", type=int, default=200000)
    parser.add_argument("--nve-steps", type=int, default=40000)
    parser.add_argument("--work", default=os.path.join(ROOT, "work", "stability"), help="folder for logs and restarts")
    parser.add_argument("--results", default=os.path.join(ROOT, "benchmarks", "results"))
    args = parser.parse_args()
    try:
        args.lmp = find_lmp(args.lmp)
        args.plugin = "" if args.plugin == "none" else find_plugin(args.plugin)
        for path in (args.model, args.data):
            if not os.path.exists(path):
                raise LammpsError(f"{path} does not exist")
    except LammpsError as problem:
        print(f"stability.py: error: {problem}", file=sys.stderr)
        return 2
    key = sha256_of(args.model)[:10]  # another model never continues this one's run
    name = os.path.splitext(os.path.basename(args.model))[0]
    folder = os.path.join(args.work, f"{name}-{key}-{args.nvt_steps}")
    os.makedirs(folder, exist_ok=True)
    begin = time.monotonic()
    if run(args, folder, "nvt", args.nvt_steps, None) == 0:
        run(args, folder, "nve", args.nvt_steps + args.nve_steps, os.path.join(folder, "nvt.end"))
    report = judge(args, folder)
    report["context"] = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "settings": args.settings,
        "ranks": args.ranks,
        "seconds_of_this_call": round(time.monotonic() - begin, 1),
    }
    profiles.write_json(os.path.join(args.results, f"stability-{name}.json"), report)
    print(profiles.dumps(report))
    print("PASSED" if report["passed"] else "FAILED: " + "; ".join(report["failures"]))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
