"""Does a model conserve energy? 100 ps of NVE of a benzene molecule, judged: PASS or FAIL.

    python -m mlff_tools.validate [MODEL.yaml] [--out DIR]

Runs benchmarks/decks/in.validate (12 atoms, 0.5 fs, 200,000 steps, 300 K, every tenth recorded) and writes into --out:
report.txt, validation.json, energy.svg and data.csv (step, time, temperature, energies). PASS needs all of
  - all steps done, and no number NaN or infinite;
  - |E_end - E_0| / |E_0| < 1 %, and the standard deviation of the total energy / |mean| < 0.5 %;
  - mean temperature within 20 K of the target;
  - |drift| < 0.05 meV/atom/ps, by linear regression (the bar of benchmarks/stability.py);
  - standard deviation of the total energy around that line < 0.5 % of the thermal energy, the mean of E - E_min.
E is the total energy as LAMMPS prints it, with the energies of free atoms that the model contains: -6318 eV for
benzene. 1 % of that is more than the molecule survives, and what is left without them depends on how a model was fitted
(0.2 eV for the shipped student). The second bar alone could hardly fail; the last two are those that can. The thermal
energy, 0.8 eV, counts from the molecule at rest in its minimum and is the same for every model.
Exit code: 0 pass, 1 fail, 2 could not be run.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

from ..model.lammps import LammpsError, errors_in, find_decks, find_lmp, find_plugin, process_options
from ..model.modelfile import sha256_of
from . import profiles
from .cases import student

CHANGE, FLUCTUATION, KELVIN, DRIFT = 1.0, 0.5, 20.0, 0.05  # bounds: percent, percent, K, meV/atom/ps
N_ATOMS = 12
COLUMNS = ["step", "time_ps", "temperature_K", "potential_eV", "kinetic_eV", "total_eV"]


def simulate(args, place):
    """Runs the deck. Returns rows [n, 6] (COLUMNS), the energy of the minimum, and what LAMMPS said."""
    words = [args.lmp, "-in", os.path.join(args.decks, "in.validate"), "-log", "none", "-nocite"]
    values = {
        "model": args.model,
        "plugin": args.plugin or "none",
        "folder": args.decks,
        "steps": args.steps,
        "every": args.every,
        "temperature": args.temperature,
        "timestep": args.timestep / 1000,
        "seed": args.seed,
        "settings": args.settings,
    }
    for name, value in values.items():
        words += ["-var", name, str(value)]
    rows, begun, minimum, text, begin = [], False, None, [], time.monotonic()
    with subprocess.Popen(words, **process_options(args.lmp, place)) as process:
        for line in process.stdout:
            parts = line.split()
            if line.startswith("validate: energy of the minimum"):
                minimum = float(parts[-1])
            elif line.startswith("validate: begin"):
                begun = True
            elif begun and len(parts) == 6 and re.fullmatch(r"\d+", parts[0]):
                rows.append([float(w) for w in parts])
                progress(args, int(parts[0]), begin)
            else:
                text.append(line)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    errors = errors_in("".join(text))
    if not rows or minimum is None:
        raise LammpsError(f"LAMMPS did not run: {errors[0] if errors else ''.join(text[-5:]).strip()}")
    return np.array(rows), minimum, errors


def progress(args, step, begin):
    if sys.stderr.isatty() and step % max(args.every, args.steps // 200 // args.every * args.every) == 0:
        print(f"\r  step {step} of {args.steps}, {time.monotonic() - begin:.0f} s", end="", file=sys.stderr, flush=True)


def judge(rows, minimum, args):
    """Numbers and failures. `rows` as simulate returns them."""
    t, kelvin, total = rows[:, 1], rows[:, 2], rows[:, 5]
    result = {
        "steps_wanted": args.steps,
        "steps_done": int(rows[-1, 0]),
        "records": len(rows),
        "picoseconds": float(t[-1]),
        "target_K": args.temperature,
        "minimum_eV": minimum,
        "failures": [],
    }
    fail = result["failures"].append
    if result["steps_done"] < args.steps:
        fail(f"{result['steps_done']} of {args.steps} steps done")
    if not np.isfinite(rows).all():
        fail("a recorded number is NaN or infinite")
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in result.items()}
    thermal = float((total - minimum).mean())
    slope, begin = (float(x) for x in np.polyfit(t, total - total[0], 1))
    around = float((total - total[0] - begin - slope * t).std())
    span = float(t[-1] - t[0])
    result.update(
        {
            "temperature_mean_K": float(kelvin.mean()),
            "temperature_std_K": float(kelvin.std()),
            "thermal_energy_eV": thermal,
            "change_percent": 100 * float(total[-1] - total[0]) / abs(float(total[0])),
            "fluctuation_percent": 100 * float(total.std()) / abs(float(total.mean())),
            "drift_meV_per_atom_per_ps": 1000 * slope / N_ATOMS,
            "fluctuation_percent_of_thermal": 100 * around / thermal,
            "drift_percent_of_thermal": 100 * slope * span / thermal,
            "largest_excursion_meV_per_atom": 1000 * float(np.abs(total - total[0]).max()) / N_ATOMS,
        }
    )
    for key, bound in (
        ("change_percent", CHANGE),
        ("fluctuation_percent", FLUCTUATION),
        ("drift_meV_per_atom_per_ps", DRIFT),
        ("fluctuation_percent_of_thermal", FLUCTUATION),
    ):
        if not abs(result[key]) < bound:
            fail(f"{key} is {result[key]:.3g}, and must be below {bound:g}")
    if not abs(result["temperature_mean_K"] - args.temperature) < KELVIN:
        fail(
            f"the mean temperature is {result['temperature_mean_K']:.1f} K, and must be within {KELVIN:g} K of "
            f"{args.temperature:g} K"
        )
    return result


def report_text(result):
    """The report as text; the verdict stands first."""
    lines = [f"{'PASS' if result['passed'] else 'FAIL'}: NVE of a benzene molecule with {result['model']}", ""]
    lines += [f"  failed: {text}" for text in result["failures"]] + ([""] if result["failures"] else [])

    def row(label, value, unit, bound=""):
        lines.append(
            f"  {label:44s} {'not measured' if value is None else f'{value:.6g}':>14s} {unit:11s} {bound}".rstrip()
        )

    row("steps done", result["steps_done"], "", f"of {result['steps_wanted']}")
    row("simulated time", result["picoseconds"], "ps")
    row("mean temperature", result.get("temperature_mean_K"), "K", f"within {KELVIN:g} K of {result['target_K']:g}")
    row("standard deviation of the temperature", result.get("temperature_std_K"), "K")
    row("(E_end - E_0) / |E_0|", result.get("change_percent"), "%", f"|.| < {CHANGE:g}")
    row("standard deviation of E / |mean|", result.get("fluctuation_percent"), "%", f"< {FLUCTUATION:g}")
    row("drift by regression", result.get("drift_meV_per_atom_per_ps"), "meV/atom/ps", f"|.| < {DRIFT:g}")
    row(
        "standard deviation around it, of E - E_min",
        result.get("fluctuation_percent_of_thermal"),
        "%",
        f"< {FLUCTUATION:g}",
    )
    lines += ["", "  Without a bar:"]
    row("thermal energy, mean of E - E_min", result.get("thermal_energy_eV"), "eV")
    row("drift over the run, of the thermal energy", result.get("drift_percent_of_thermal"), "%")
    row("largest excursion of E", result.get("largest_excursion_meV_per_atom"), "meV/atom")
    lines += [
        "",
        f"  {result['timestep_fs']:g} fs, seed {result['seed']}, {result['settings']}, weights sha256 "
        f"{result['sha256'][:16]}, "
        f"{result['seconds']:.0f} s",
    ]
    return "\n".join(lines) + "\n"


def plot(rows, minimum, path):
    """Energies above the minimum, their deviation, and the temperature."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    step = max(1, len(rows) // 2000)
    thin = rows[::step]
    t, total = thin[:, 1], thin[:, 5]
    figure, (a, b, c) = plt.subplots(3, 1, figsize=(8, 7), sharex=True, constrained_layout=True)
    a.plot(t, thin[:, 3] - minimum, color="#9a6a2f", lw=0.5, label="potential - minimum")
    a.plot(t, thin[:, 4], color="#5b7fa6", lw=0.5, label="kinetic")
    a.plot(t, total - minimum, color="#222222", lw=1.2, label="total - minimum")
    a.set(ylabel="energy (eV)")
    a.legend(frameon=False, ncols=3, loc="upper right")
    b.plot(t, 1000 * (total - rows[0, 5]), color="#222222", lw=0.5)
    b.set(ylabel="total energy - first (meV)")
    c.plot(t, thin[:, 2], color="#b2541a", lw=0.5)
    c.set(ylabel="temperature (K)", xlabel="time (ps)")
    for axis in (a, b, c):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)


def arguments(argv):
    p = argparse.ArgumentParser(
        prog="python -m mlff_tools.validate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", nargs="?", default=student("benzene_gas"), help="default: the shipped student")
    p.add_argument("--out", default="validation", help="folder (default validation)")
    p.add_argument("--steps", type=int, default=200000)
    p.add_argument("--every", type=int, default=10, help="steps between records")
    p.add_argument("--timestep", type=float, default=0.5, help="fs")
    p.add_argument("--temperature", type=float, default=300.0, help="K")
    p.add_argument("--seed", type=int, default=4711)
    p.add_argument("--settings", default="precision fp32", help="of pair_style mlff")
    p.add_argument("--build", help="build folder (default: build here, else the installed plugin)")
    p.add_argument("--lmp")
    p.add_argument("--decks", default=find_decks("in.validate"), help="folder of in.validate")
    args = p.parse_args(argv)
    if args.steps < 100 or args.every < 1 or args.steps // args.every < 20:
        p.error("--steps must be at least 100, and 20 times --every")
    if args.timestep <= 0 or args.temperature <= 0:
        p.error("--timestep and --temperature must be positive")
    return args


def prepare(args):
    """Finds all files; LammpsError says what is missing."""
    if not os.path.isfile(args.model):
        raise LammpsError(f"there is no model file {args.model}")
    if not os.path.isfile(os.path.join(args.decks, "in.validate")):
        raise LammpsError(
            f"{args.decks} has no in.validate: give the folder benchmarks/decks of the source with --decks"
        )
    args.model, args.decks, args.out = (os.path.abspath(p) for p in (args.model, args.decks, args.out))
    args.plugin, args.lmp = find_plugin(args.build), find_lmp(args.lmp)
    os.makedirs(args.out, exist_ok=True)


def weights_hash(path):
    with open(path, encoding="utf-8") as f:
        found = re.search(r"sha256: *([0-9a-f]{64})", f.read())
    return found[1] if found else sha256_of(path)


def main(argv=None):
    args = arguments(argv)
    begin = time.monotonic()
    try:
        prepare(args)
        with tempfile.TemporaryDirectory(prefix="mlff-validate-") as place:
            rows, minimum, errors = simulate(args, place)
        result = judge(rows, minimum, args)
        result["failures"] += errors
        result.update(
            passed=not result["failures"],
            model=os.path.basename(args.model),
            sha256=weights_hash(args.model),
            timestep_fs=args.timestep,
            seed=args.seed,
            settings=args.settings,
            seconds=round(time.monotonic() - begin, 1),
        )
        csv = (
            ",".join(COLUMNS)
            + "\n"
            + "\n".join(f"{int(r[0])}," + ",".join(f"{x:.10g}" for x in r[1:]) for r in rows)
            + "\n"
        )
        profiles.write_text(os.path.join(args.out, "data.csv"), csv)
        profiles.write_json(os.path.join(args.out, "validation.json"), result)
        profiles.write_text(os.path.join(args.out, "report.txt"), report_text(result))
        plot(rows, minimum, os.path.join(args.out, "energy.svg"))
    except LammpsError as e:
        print(f"validate: error: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"validate: error: {e.filename}: {e.strerror}", file=sys.stderr)
        return 2
    print(report_text(result) + f"\nwritten to {args.out}: report.txt, validation.json, energy.svg, data.csv")
    return 0 if result["passed"] else 1
