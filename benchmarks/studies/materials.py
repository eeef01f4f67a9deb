"""Does a universal model keep energy and density? Silicon, aluminium, iron and liquid benzene, 32 to 64 atoms each.

    .venv/bin/python benchmarks/studies/materials.py nequix-oam-1-pft

All runs are those of benchmarks/decks/in.bench in single precision, by `mlff bench`, and what --work holds is not run
again:

  steps    0.5 ps of NVE at 0.5, 1 and 2 fs from one start: the standard deviation of the total energy
  nve      20 ps of NVE at 1 fs: the same, and the drift by linear regression with the half-width of its 95 % interval
  static   the crystal at rest, in double precision: lattice constant and bulk modulus at the minimum of E(V)
  npt      20 ps of NPT at 300 K and 1 bar from that lattice constant: the mean of its last three quarters, with the
           half-width of the 95 % interval from ten blocks. It is held against what the mean pressure of the NVE run
           says: the thermal pressure at 300 K moves the minimum of E(V) there.

Writes benchmarks/results/materials-MODEL.json and .txt. The bar is |drift| < 0.1 meV/atom/ps; exit code 0 = all below
it, 1 = not, 2 = could not be run. It takes about an hour with nequix-oam-1-pft on one core.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys

import numpy as np

from mlff_tools.bench import profiles, suite
from mlff_tools.bench.cases import MATERIALS, Case
from mlff_tools.bench.validate import weights_hash
from mlff_tools.model.lammps import LammpsError, cpu_name, find_decks, find_lmp, find_plugin, process_options, variable
from mlff_tools.model.modelfile import ModelError, find_model, sha256_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAR = 0.1  # meV/atom/ps
CUBIC = {"silicon": 5.431, "gaas": 5.653, "nacl": 5.64, "aluminium": 4.05, "iron": 2.855}  # A, those of in.bench
STRAINS = np.linspace(-0.02, 0.03, 11)
BAR_IN_EV = 1 / 1602176.634  # eV/A^3
T95 = 2.262  # Student's t for 95 % of ten blocks


def bench(args, system, protocol, folder, steps, equilibrate, **variables):
    """The report of one run by `mlff bench`, which is left alone if it is there."""
    words = ["--model", args.model, "--potential", "mlff", "--system", system, "--size", "small"]
    words += ["--protocol", protocol, "--repeats", 1, "--steps", steps, "--equilibrate", equilibrate]
    words += ["--out", os.path.join(args.work, folder), "--decks", args.decks, "--lmp", args.lmp]
    words += ["--build", args.plugin] if args.plugin else []
    for name, value in variables.items():
        words += ["--var", f"{name}={value}"]
    if suite.main([str(w) for w in words]) not in (0, 3):  # 3: not of its ensemble, which is judged below
        raise LammpsError(f"{system}, {folder}: the run failed")
    case = Case(system, "small", protocol, "mlff", args.model)
    return profiles.read(os.path.join(args.work, folder, "runs", f"{case.name}.r1.json"))


def conservation(report):
    """Drift and fluctuation of the total energy, in meV/atom and meV/atom/ps."""
    total = report["energy"]["total"]
    return {
        "timestep_fs": 1000 * report["context"]["timestep"],
        "picoseconds": report["energy"]["time_ps"],
        "drift": 1000 * total["drift"],
        "drift_error": 1000 * total["drift_error"],
        "fluctuation": 1000 * total["std"] / report["n_atoms"],
        "temperature_K": report["energy"]["temperature"]["mean"],
        "pressure_bar": report["energy"]["pressure"]["mean"],
    }


def energy_at(args, system, edge):
    """Energy and volume of the unit cell of a crystal at rest."""
    values = {"system": system, "potential": "mlff", "model": variable(args.model)}
    values.update(settings="precision fp64", folder=variable(args.decks), protocol="nve", steps=0, equilibrate=0)
    values.update(profile="no", lattice=edge, nx=1, ny=1, nz=1)
    values["plugin"] = variable(args.plugin) if args.plugin else "none"
    words = [args.lmp, "-in", os.path.join(args.decks, "in.bench"), "-log", "none", "-nocite"]
    for name, value in values.items():
        words += ["-var", name, str(value)]
    done = subprocess.run(words, check=False, **process_options(args.lmp, args.work))
    row = re.search(r"^ +Step .*PotEng.*\n +0 +\S+ +(\S+) +\S+ +\S+ +\S+ +(\S+)", done.stdout, re.M)
    if done.returncode or not row:
        raise LammpsError(f"{system} at {edge} A: LAMMPS failed: {done.stdout[-300:]}")
    return float(row[1]), float(row[2])


def at_rest(args, system):
    """E(V) of a crystal as a polynomial: its minimum, the bulk modulus there, and the pressure as a function."""
    edges = CUBIC[system] * (1 + STRAINS)
    energies, volumes = np.transpose([energy_at(args, system, edge) for edge in edges])
    fit = np.polynomial.Polynomial.fit(volumes, energies, 5)
    slope, inside = fit.deriv(), [min(volumes), max(volumes)]
    roots = [r.real for r in slope.roots() if abs(r.imag) < 1e-9 and inside[0] < r.real < inside[1]]
    roots = [r for r in roots if fit.deriv(2)(r) > 0]
    if len(roots) != 1:
        raise LammpsError(f"{system}: E(V) has {len(roots)} minima between {edges[0]:.3f} and {edges[-1]:.3f} A")
    row = {
        "lattice_A": float(np.cbrt(roots[0])),
        "bulk_modulus_GPa": float(1e-4 * roots[0] * fit.deriv(2)(roots[0]) / BAR_IN_EV),
    }
    return row, lambda v: -slope(v) / BAR_IN_EV, volumes


def mean_edge(report, cells):
    """Mean lattice constant of the last three quarters of an NPT run, and the half-width of its 95 % interval."""
    volumes = np.array(report["energy"]["series"]["volume"])
    edges = np.cbrt(volumes[len(volumes) // 4 :] / cells)
    blocks = np.array([b.mean() for b in np.array_split(edges, 10)])
    return float(edges.mean()), float(T95 * blocks.std(ddof=1) / np.sqrt(len(blocks)))


def expected_edge(pressure, volumes, nve, cell):
    """Where the static pressure and the thermal pressure of the NVE run, brought to 300 K, add up to 1 bar."""
    thermal = (nve["pressure_bar"] - pressure(cell)) * 300 / nve["temperature_K"]
    low, high = min(volumes), max(volumes)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if pressure(middle) + thermal > 1 else (low, middle)
    return middle ** (1 / 3)


def crystal(args, system, nve):
    """Lattice constants of a crystal at rest and at 300 K; without NPT the latter as expected only."""
    row, pressure, volumes = at_rest(args, system)
    copies = 3 if system == "iron" else 2
    row["expected_300K_A"] = expected_edge(pressure, volumes, nve, CUBIC[system] ** 3)
    row["expected_300K_expansion_percent"] = 100 * (row["expected_300K_A"] / row["lattice_A"] - 1)
    if system not in args.npt:
        return row
    start = f"{row['lattice_A']:.4f}"
    report = bench(args, system, "npt", f"npt-{system}", args.npt_steps, 1000, timestep=0.001, lattice=start)
    row["lattice_300K_A"], row["lattice_300K_error_A"] = mean_edge(report, copies**3)
    row["lattice_300K_expansion_percent"] = 100 * (row["lattice_300K_A"] / row["lattice_A"] - 1)
    row["picoseconds"], row["temperature_K"] = report["energy"]["time_ps"], report["energy"]["temperature"]["mean"]
    return row


def measure(args, system):
    same = []  # the velocities of the deck's seed, and no thermostat before: the step alone is different
    for fs in (0.5, 1, 2):
        n = round(500 / fs)
        report = bench(args, system, "nve", f"nve-{fs}fs", n, 0, timestep=fs / 1000, every=n // 125)
        same.append(conservation(report))
    long = bench(args, system, "nve", "nve", 20000, 1000, timestep=0.001)
    row = {"system": system, "n_atoms": long["n_atoms"], "steps": same, "nve": conservation(long)}
    if system in CUBIC:
        row["crystal"] = crystal(args, system, row["nve"])
    return row


def text_of(report):
    """The report as two tables."""
    c = report["context"]
    lines = [
        f"{report['model']} (weights {report['sha256'][:16]}), precision fp32, {c['cpu']}, {c['date']}",
        "",
        "NVE: fluctuation (standard deviation of the total energy, meV/atom) of 0.5 ps from one start, and of 20 ps;",
        "drift of the latter +- 95 % (meV/atom/ps)",
        "",
        "system     atoms    0.5 fs      1 fs      2 fs   1/0.5   2/1      20 ps   drift                     K   kbar",
    ]
    for row in report["systems"]:
        half, one, two = (step["fluctuation"] for step in row["steps"])
        nve = row["nve"]
        lines.append(
            f"{row['system']:9s} {row['n_atoms']:6d} {half:9.5f} {one:9.5f} {two:9.5f} "
            f"{one / half:7.2f} {two / one:5.2f} {nve['fluctuation']:10.5f}   "
            f"{nve['drift']:+.5f} +- {nve['drift_error']:.5f} {nve['temperature_K']:8.0f} "
            f"{nve['pressure_bar'] / 1000:6.1f}"
        )
    crystals = [(row["system"], row["crystal"]) for row in report["systems"] if "crystal" in row]
    if crystals:
        lines += [
            "",
            "Lattice constants (A): minimum of E(V); NPT at 300 K, +- 95 %; expected from the thermal pressure",
            "",
            "system       E(V)   B, GPa   NPT, 300 K        expansion         expected   expansion",
        ]
    for name, row in crystals:
        npt = f"{'not run':33s}"
        if "lattice_300K_A" in row:
            npt = f"{row['lattice_300K_A']:.4f} +- {row['lattice_300K_error_A']:.4f}"
            npt += f" {row['lattice_300K_expansion_percent']:6.2f} % {row['picoseconds']:5.0f} ps"
        lines.append(
            f"{name:9s} {row['lattice_A']:7.4f} {row['bulk_modulus_GPa']:8.1f}   {npt} "
            f"{row['expected_300K_A']:10.4f} {row['expected_300K_expansion_percent']:9.2f} %"
        )
    verdict = "PASSED" if report["passed"] else f"FAILED: a drift is not below {BAR} meV/atom/ps"
    return "\n".join([*lines, "", verdict, ""])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model file, or the name of a shipped model")
    parser.add_argument("--systems", default=",".join(MATERIALS), help=f"of {', '.join(MATERIALS)}")
    parser.add_argument("--build", help="build folder or plugin (default: build)")
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--decks", help="folder of in.bench")
    parser.add_argument("--npt", default=",".join(CUBIC), help="crystals that run NPT, or none (default: all)")
    parser.add_argument("--npt-steps", type=int, default=20000, help="of 1 fs (default 20000)")
    parser.add_argument("--work", default=os.path.join(ROOT, "work", "materials"), help="folder for the runs")
    parser.add_argument("--results", default=os.path.join(ROOT, "benchmarks", "results"))
    args = parser.parse_args()
    args.systems, args.npt = args.systems.split(","), args.npt.split(",")
    unknown = [s for s in args.systems if s not in MATERIALS]
    if unknown:
        parser.error(f"--systems {unknown[0]}: there are {', '.join(MATERIALS)}")
    return args


def main():
    args = arguments()
    try:
        args.model = os.path.abspath(find_model(args.model))
        args.lmp, args.plugin = find_lmp(args.lmp), find_plugin(args.build)
        args.decks = find_decks("in.bench", args.decks)
        args.work = os.path.join(os.path.abspath(args.work), f"{sha256_of(args.model)[:10]}")
        os.makedirs(args.work, exist_ok=True)
        systems = [measure(args, system) for system in args.systems]
    except ModelError as problem:
        print(f"materials.py: error: {problem}", file=sys.stderr)
        return 2
    name = os.path.splitext(os.path.basename(args.model))[0]
    passed = all(abs(row["nve"]["drift"]) < BAR for row in systems)
    weights = weights_hash(args.model)
    context = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "settings": "precision fp32"}
    report = {"model": name, "sha256": weights, "passed": passed, "systems": systems, "context": context}
    profiles.write_json(os.path.join(args.results, f"materials-{name}.json"), report)
    profiles.write_text(os.path.join(args.results, f"materials-{name}.txt"), text_of(report))
    print(text_of(report))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
