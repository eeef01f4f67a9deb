"""What `mlff validate` makes of a run: numbers, bars, the verdict, the report, the picture, what is published."""

import math
import os

import numpy as np

from ..ensemble import judge, statistics
from ..ensemble.statistics import Estimate
from ..report import style
from . import profiles
from .publish import rounded

FORMAT = "mlff-validation/1"
CHANGE, FLUCTUATION, KELVIN = 1.0, 0.5, 1 / 15  # bars: percent, percent, share of the target
PUBLISHED_ROWS, SHOWN = 2001, 1000
COLUMNS = ["step", "time_ps", "temperature_K", "potential_eV", "kinetic_eV", "total_eV"]
# What a check is about: its key in the JSON, and its label in the report
CHECKS = {
    "temperature_mean_K": "mean temperature",
    "change_percent": "(E_end - E_0) / |E_0|",
    "fluctuation_percent": "standard deviation of E / |mean|",
    "drift_meV_per_atom_per_ps": "drift by regression",
    "fluctuation_percent_of_thermal": "standard deviation around it, of 2 K",
    "timestep_exponent": "exponent of the fluctuation over the time step",
}


def _broken(rows, wanted, n_atoms):
    """Why a run cannot be judged at all, or None."""
    done = int(rows[-1, 0])
    if not np.isfinite(rows).all():
        return "a recorded number is NaN or infinite"
    moved = float(np.abs(rows[:, 5] - rows[0, 5]).max()) / n_atoms
    if moved > 1.0:
        return f"the total energy moved by {moved:.3g} eV/atom: the structure exploded"
    return f"{done} of {wanted} steps done" if done < wanted else None


def judged(rows, halves, args):
    """Numbers and checks. `rows` and `halves` as validate.simulate returns them; args: steps, temperature, equilibrate,
    n_atoms, dof."""
    result = {
        "format": FORMAT,
        "steps_wanted": args.steps,
        "steps_done": int(rows[-1, 0]),
        "records": len(rows),
        "picoseconds": float(rows[-1, 1]),
        "target_K": args.temperature,
        "n_atoms": args.n_atoms,
        "failures": [],
        "checks": [],
    }
    broken = _broken(rows, args.steps, args.n_atoms)
    if broken:
        result["failures"].append(broken)
    if np.isfinite(rows).all():
        _numbers(result, rows)
        result["checks"] = _checks(result, rows, halves, args)
    result = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in result.items()}
    return finish(result)


def finish(result):
    """Adds the verdict, and what failed in words."""
    said = judge.verdict(result["checks"]) or judge.SHORT
    result["failures"] += [_words(c) for c in result["checks"] if c["verdict"] == judge.FAIL]
    result["verdict"] = judge.FAIL if result["failures"] else said
    result["passed"] = result["verdict"] == judge.PASS
    return result


def kelvin_bar(args):
    """How far the mean temperature may be off, K. After a thermostat the energy is one of the canonical ensemble's, and
    the temperatures of few atoms spread: two standard deviations of theirs."""
    spread = math.sqrt(2 / max(1, args.dof)) if args.equilibrate > 0 else 0.0
    return args.temperature * max(KELVIN, 2 * spread)


def _words(check):
    limit = f"within {check['bar']:.3g} of {check['target']:g}" if check["target"] else f"below {check['bar']:g}"
    return f"{check['name']} is {check['value']:.3g}, and must be {limit}{' ' + check['unit'] if check['unit'] else ''}"


def _numbers(result, rows):
    t, total, n_atoms = rows[:, 1], rows[:, 5], result["n_atoms"]
    thermal = 2 * float(rows[:, 4].mean())
    scale = max(abs(float(total[0])), thermal)  # energies of free atoms may be left out of the model's
    slope = float(np.polyfit(t, total - total[0], 1)[0])
    result.update(
        {
            "temperature_mean_K": float(rows[:, 2].mean()),
            "temperature_std_K": float(rows[:, 2].std()),
            "thermal_energy_eV": thermal,
            "change_percent": 100 * float(total[-1] - total[0]) / scale,
            "fluctuation_percent": 100 * float(total.std()) / scale,
            "drift_meV_per_atom_per_ps": 1000 * slope / n_atoms,
            "fluctuation_percent_of_thermal": 100 * judge.fluctuation(t, total - total[0]) / thermal,
            "drift_percent_of_thermal": 100 * slope * float(t[-1] - t[0]) / thermal,
            "largest_excursion_meV_per_atom": 1000 * float(np.abs(total - total[0]).max()) / n_atoms,
        }
    )


def _checks(result, rows, halves, args):
    """The bars. A run of less than 100 ps is too short to say."""
    long = result["picoseconds"] >= judge.NVE_PS * (1 - 1e-9)
    drift = statistics.drift(rows[:, 1], 1000 * (rows[:, 5] - rows[0, 5]) / result["n_atoms"])
    kelvin = statistics.mean(rows[:, 2])
    result.update(drift_error_meV_per_atom_per_ps=drift.error, temperature_error_K=kelvin.error)
    sure = lambda key: Estimate(result[key], 0.0, True)
    drift = drift._replace(value=result["drift_meV_per_atom_per_ps"])
    found = {
        "temperature_mean_K": (kelvin, args.temperature, kelvin_bar(args), "K"),
        "change_percent": (sure("change_percent"), 0.0, CHANGE, "%"),
        "fluctuation_percent": (sure("fluctuation_percent"), 0.0, FLUCTUATION, "%"),
        "drift_meV_per_atom_per_ps": (drift, 0.0, judge.DRIFT, "meV/atom/ps"),
        "fluctuation_percent_of_thermal": (sure("fluctuation_percent_of_thermal"), 0.0, FLUCTUATION, "%"),
    }
    if halves is not None:
        slope = exponent(*halves)
        result["timestep_exponent"] = slope.value
        found["timestep_exponent"] = (slope, 2.0, judge.EXPONENT, "")
    return [judge.check(key, *values, long=long) for key, values in found.items()]


def exponent(whole, half):
    """The exponent of the energy error, from a path in whole steps and the reverse path in half steps."""
    a, b = whole, half[::-1]
    if not (np.isfinite(a).all() and np.isfinite(b).all()) or min(len(a), len(b)) < 10:
        return statistics.NOTHING
    return judge.exponent(*(judge.around(np.arange(len(x)), x[:, 5] - x[0, 5]) for x in (a, b)))


# ---- report --------------------------------------------------------------------------------------------------------


def _line(label, value, unit="", bar=""):
    number = "not measured" if value is None else f"{value:.6g}"
    return f"  {label:48s} {number:>14s} {unit:11s} {bar}".rstrip()


def _check_line(check):
    bar = f"|.| < {check['bar']:g}" if not check["target"] else f"within {check['bar']:.3g} of {check['target']:g}"
    error = f" +- {check['error']:.2g}" if check["error"] else ""
    said = "" if check["verdict"] == judge.PASS else f"  {check['verdict']}"
    return _line(
        CHECKS[check["name"]], check["value"], check["unit"], bar + (f"  ({error.strip()})" * bool(error)) + said
    )


def report_text(result):
    """The report as text; the verdict stands first."""
    lines = [f"{result['verdict']}: NVE of {result['structure']} with {result['model']}", ""]
    lines += [f"  failed: {text}" for text in result["failures"]] + ([""] if result["failures"] else [])
    if result["verdict"] == judge.SHORT and result["picoseconds"] < judge.NVE_PS:
        lines += [f"  {result['picoseconds']:g} ps; PASS needs {judge.NVE_PS:g} ps or more", ""]
    lines += [
        _line("atoms", result["n_atoms"]),
        _line("steps done", result["steps_done"], "", f"of {result['steps_wanted']}"),
        _line("simulated time", result["picoseconds"], "ps", f">= {judge.NVE_PS:g}"),
        *(_check_line(check) for check in result["checks"]),
        "",
        "  Without a bar:",
        _line("standard deviation of the temperature", result.get("temperature_std_K"), "K"),
        _line("thermal energy, twice the mean kinetic", result.get("thermal_energy_eV"), "eV"),
        _line("drift over the run, of the thermal energy", result.get("drift_percent_of_thermal"), "%"),
        _line("largest excursion of E", result.get("largest_excursion_meV_per_atom"), "meV/atom"),
        "",
        f"  {result['timestep_fs']:g} fs, seed {result['seed']}, {result['settings']}, weights sha256 "
        f"{result['sha256'][:16]}, {result['seconds']:.0f} s",
    ]
    return "\n".join(lines) + "\n"


def csv_text(rows):
    body = (f"{int(r[0])}," + ",".join(f"{x:.10g}" for x in r[1:]) for r in rows)
    return ",".join(COLUMNS) + "\n" + "\n".join(body) + "\n"


def plot(rows, minimum, path):
    """Energies above the minimum, their deviation, and the temperature."""
    thin = rows[:: max(1, len(rows) // SHOWN)]
    t, total = thin[:, 1], thin[:, 5]
    ink, (kinetic, potential) = style.COLOURS["ink"], style.CURVES[:2]
    with style.drawing(path, (8, 7), rows=3, sharex=True) as (a, b, c):
        a.plot(t, thin[:, 3] - minimum, color=potential, lw=0.5, label="potential - minimum")
        a.plot(t, thin[:, 4], color=kinetic, lw=0.5, label="kinetic")
        a.plot(t, total - minimum, color=ink, lw=1.2, label="total - minimum")
        a.set(ylabel="energy (eV)")
        a.legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
        b.plot(t, 1000 * (total - rows[0, 5]), color=ink, lw=0.5)
        b.set(ylabel="total energy - first (meV)")
        c.plot(t, thin[:, 2], color=potential, lw=0.5)
        c.set(ylabel="temperature (K)", xlabel="time (ps)")


def publish(folder, out, result, rows):
    """report, JSON, picture and data as validation-NAME.* of a folder that is kept; of the data at most 2001 rows."""
    name = os.path.splitext(result["model"])[0]
    if result["structure_file"]:
        name += "-" + os.path.splitext(os.path.basename(result["structure_file"]))[0].removeprefix("data.")
    every = -(-len(rows) // PUBLISHED_ROWS)
    stem = os.path.join(folder, f"validation-{name}")
    profiles.write_text(f"{stem}.txt", report_text(result))
    profiles.write_json(f"{stem}.json", {**rounded(result, 12), "csv_stride": every})
    profiles.write_text(f"{stem}.csv", csv_text(rows[::every]))
    with open(os.path.join(out, "energy.svg"), encoding="utf-8") as f:
        profiles.write_text(f"{stem}.svg", f.read())
    return [f"{stem}.{kind}" for kind in ("txt", "json", "csv", "svg")]
