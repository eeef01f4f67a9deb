"""mlff scaling: strong and weak scaling of a model over MPI ranks, and replicas in one run: reports with efficiencies.

    mlff scaling strong                                 water with the shipped student on 1 and 2 ranks
    mlff scaling weak --model MODEL.yaml --ranks 1,2,4,8
    mlff scaling strong --box 2x2x2 --box 4x4x4 --check-ranks 4,8
    mlff scaling replicas                               1, 2, 4, 8, 16, 64 and 256 benzene molecules in one run

The deck (benchmarks/decks/in.scaling, in.replicas) is run `--repeats` times in every way, in a new random order each
time. Strong: each --box is one system for all numbers of ranks; weak: each rank gets such a box. A box is so many
copies of 64 molecules of water. --check-ranks (and all timed numbers of ranks) also run a few steps in double
precision, whose energy, pressure and forces are compared with those of one rank: more ranks than processors are good
for that, but not for times, and such rows have no efficiency.

Written to --out: MODEL_scaling_strong.json, _weak.json or _replicas.json (table: `mlff show FILE`), the same as .svg,
and every report in runs/. Exit code: 0 done, 1 a run failed or ranks disagree, 2 wrong usage or missing files.
"""

import argparse
import dataclasses
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

from ..command_line import numbers, one_line, positive, whole
from ..model.files import in_words
from ..model.lammps import (
    LammpsError,
    errors_in,
    find_decks,
    find_lmp,
    find_plugin,
    on_ranks,
    process_options,
    processors,
    variable,
)
from ..model.modelfile import ModelError, find_model
from ..report import style
from . import profiles
from .cases import clean, student
from .publish import rounded
from .results import middle

FORMAT = "mlff-scaling/1"
DECKS = {"strong": "in.scaling", "weak": "in.scaling", "replicas": "in.replicas"}
# Differences from one rank: the order of sums changes, over atoms, edges or both.
TOLERANCES = {"energy_per_atom": 1e-10, "force": 1e-8, "pressure": 1e-3}  # eV, eV/A, bar; in double precision


# ---- running ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to run the deck. `box`: copies of the unit along x, y, z, of the whole or (weak) for each rank."""

    mode: str
    ranks: int
    box: tuple

    @property
    def name(self):
        return f"{self.mode}-{self.box[0]}x{self.box[1]}x{self.box[2]}-r{self.ranks}"

    def variables(self):
        values = dict(zip(("nx", "ny", "nz"), self.box))
        return values if self.mode == "replicas" else {**values, "mode": self.mode}


def doubled(n):
    """n as a product over x, y, z, by doubling these in turn; along x alone unless n is a power of 2: as in.scaling."""
    power = n.bit_length() - 1
    return tuple(2 ** ((power + 2 - axis) // 3) for axis in range(3)) if 2**power == n else (n, 1, 1)


def command(args, case, variables):
    values = {"plugin": variable(args.plugin) if args.plugin else "none"}
    values.update(folder=variable(args.decks), model=variable(args.model))
    values.update(case.variables(), **variables)
    words = [args.lmp, "-in", os.path.join(args.decks, DECKS[case.mode]), "-log", "none", "-nocite"]
    for name, value in values.items():
        words += ["-var", name, str(value)]
    return on_ranks(words, case.ranks, args.lmp)


def launch(args, case, variables, place):
    """Runs the deck in the folder `place`; what LAMMPS said."""
    words = command(args, case, variables)
    done = subprocess.run(words, check=False, **process_options(args.lmp, place))
    if done.returncode:
        log = os.path.join(args.out, "failed.log")
        profiles.write_text(log, " ".join(words) + "\n\n" + done.stdout)
        errors = errors_in(done.stdout)
        why = errors[0] if errors else f"exit code {done.returncode}"
        raise LammpsError(f"{case.name}: LAMMPS failed: {why}\nAll it said is in {log}")
    return done.stdout


def time_once(args, case, repeat):
    """(report, the atoms and ghosts of the ranks as LAMMPS prints them) of a timed run."""
    name = f"{case.name}.{repeat}"
    with tempfile.TemporaryDirectory(prefix="mlff-scaling-") as place:
        report = os.path.join(place, "report.json")
        variables = {key: getattr(args, key) for key in ("steps", "warmup", "equilibrate", "settings")}
        output = launch(args, case, {**variables, "file": report, "name": name}, place)
        profile = profiles.read(report)
    profiles.write_json(os.path.join(args.out, "runs", name + ".json"), profile)
    return profile, per_rank(output)


def per_rank(output):
    """{"Nlocal": (mean, most, least), "Nghost": ...} of the last run in LAMMPS' output."""
    found = {}
    for what, mean, most, least in re.findall(r"^(Nlocal|Nghost):\s+(\S+) ave\s+(\S+) max\s+(\S+) min", output, re.M):
        found[what] = (float(mean), float(most), float(least))
    if len(found) < 2:
        raise LammpsError("LAMMPS did not print Nlocal and Nghost: is its output format another one?")
    return found


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- the same numbers on every number of ranks -----------------------------------------------------------------------


def check_run(args, case, place, settings="precision fp64"):
    """{step: (energy, pressures [6], rows of id, x, y, z, fx, fy, fz)} before and after a few steps."""
    os.makedirs(place, exist_ok=True)
    variables = {"steps": args.check_steps, "warmup": 0, "every": args.check_steps, "settings": settings}
    output = launch(args, case, {**variables, "check": "check"}, place)
    found = {}
    for step, energy, *pressures in (line.split() for line in re.findall(r"^CHECK (.*)$", output, re.M)):
        with open(os.path.join(place, f"check.{step}"), encoding="ascii") as f:
            lines = f.read().splitlines()
        first = next(k for k, line in enumerate(lines) if line.startswith("ITEM: ATOMS"))
        rows = np.array([[float(w) for w in line.split()] for line in lines[first + 1 :]])
        found[int(step)] = (float(energy), np.array(pressures, float), rows)
    return found


def differences(found, expected):
    """Largest differences over the steps: energy (eV/atom), forces (eV/A), pressures (bar)."""
    worst = dict.fromkeys(TOLERANCES, 0.0)
    if sorted(found) != sorted(expected) or not found:
        raise LammpsError(f"checked steps {sorted(found)} instead of {sorted(expected)}")
    for step, (energy, pressures, rows) in found.items():
        energy0, pressures0, rows0 = expected[step]
        if rows.shape != rows0.shape or (rows[:, 0] != rows0[:, 0]).any():
            raise LammpsError("atoms were lost between ranks")
        change = {
            "energy_per_atom": abs(energy - energy0) / len(rows),
            "force": np.abs(rows[:, 4:] - rows0[:, 4:]).max(),
            "pressure": np.abs(pressures - pressures0).max(),
        }
        worst = {key: max(worst[key], float(change[key])) for key in worst}
    return worst


def check_all(args):
    """Differences of the first box on all numbers of ranks from the same atoms on one rank."""
    rows, alone = [], {}
    with tempfile.TemporaryDirectory(prefix="mlff-scaling-") as place:
        for ranks in sorted(set(args.ranks + args.check_ranks) - {1}):
            case, box = Case(args.mode, ranks, args.boxes[0]), args.boxes[0]
            if args.mode == "weak":
                box = tuple(n * k for n, k in zip(box, doubled(ranks)))
            one = Case("strong", 1, box)
            found = check_run(args, case, os.path.join(place, case.name))
            if one not in alone:
                alone[one] = check_run(args, one, os.path.join(place, one.name))
            worst = differences(found, alone[one])
            passed = all(worst[key] <= TOLERANCES[key] for key in TOLERANCES)
            n_atoms = len(next(iter(found.values()))[2])
            rows.append({"ranks": ranks, "n_atoms": n_atoms, "steps": args.check_steps, "passed": passed, **worst})
            say(
                f"check on {ranks} ranks, {n_atoms} atoms, {args.check_steps} steps in double precision: energy "
                f"{worst['energy_per_atom']:.1e} eV/atom, forces {worst['force']:.1e} eV/A, pressure "
                f"{worst['pressure']:.1e} bar: {'same as' if passed else 'DIFFERS FROM'} one rank"
            )
    return rows


# ---- the report ------------------------------------------------------------------------------------------------------


def component(report, name):
    return next((profiles.number(c["mean_ms"]) for c in report.get("components") or [] if c["name"] == name), None)


def summarise(args, case, runs):
    """A row without what compares it with others."""
    medians = [report["median_latency_ms"] for report, _ in runs]
    report, counts = runs[middle(medians)]
    time_ms = median(medians)
    exchange, pair = component(report, "exchange"), component(report, "pair")
    return {
        "box": "{}x{}x{}".format(*case.box),
        "ranks": case.ranks,
        "grid": profiles.get(report, "context", "processor_grid"),
        "n_atoms": report["n_atoms"],
        "atoms_per_rank": counts["Nlocal"][0],
        "ghosts_per_rank": counts["Nghost"][0],
        "ghosts_most": counts["Nghost"][1],
        "oversubscribed": case.ranks > args.processors,
        "medians_ms": medians,
        "median_ms": time_ms,
        "spread": (max(medians) - min(medians)) / time_ms if len(medians) > 1 else None,
        "median_us_per_atom": 1000.0 * time_ms / report["n_atoms"],
        "steps_per_second": 1000.0 / time_ms,
        "evaluate_ms": pair - (exchange or 0.0) if pair is not None else None,
        "exchange_ms": exchange,
        "comm_ms": component(report, "comm"),
        "neigh_ms": component(report, "neigh"),
        "other_ms": component(report, "other"),
    }


def add_efficiencies(mode, rows):
    """Against the run of the same box on the fewest ranks; null where ranks had to share processors."""
    for row in rows:
        base = min((r for r in rows if r["box"] == row["box"]), key=lambda r: r["ranks"])
        row["speedup"] = row["efficiency"] = None
        if mode == "strong" and row["n_atoms"] != base["n_atoms"]:
            raise LammpsError("strong scaling, but the number of atoms differs between ranks")
        if row["oversubscribed"] or base["oversubscribed"]:
            continue
        atoms, times = row["n_atoms"] / base["n_atoms"], base["median_ms"] / row["median_ms"]
        row["speedup"] = atoms * times
        row["efficiency"] = atoms * times * base["ranks"] / row["ranks"]
    return rows


def add_costs(rows):
    """Replicas: steps of all replicas in a second; what one of them costs against one alone, within each round."""
    base = min(rows, key=lambda r: r["n_atoms"])
    for row in rows:
        row["replicas"] = n = row["n_atoms"] // base["n_atoms"]
        row["replica_steps_per_second"] = n * row["steps_per_second"]
        ratios = [t / n / one for t, one in zip(row["medians_ms"], base["medians_ms"])]
        row["cost_against_one"] = median(ratios)
        row["cost_lowest"], row["cost_highest"] = min(ratios), max(ratios)
    return rows


def collect(args):
    """All runs: rows of the report, and one of the profiles."""
    if args.mode == "replicas":
        cases = [Case(args.mode, 1, doubled(n)) for n in sorted({1, *args.replicas})]
    else:
        cases = [Case(args.mode, ranks, box) for box in args.boxes for ranks in args.ranks]
    found = {case: [] for case in cases}
    for repeat in range(1, args.repeats + 1):
        order = list(cases)
        random.Random(1000 * args.seed + repeat).shuffle(order)
        for case in order:
            found[case].append(time_once(args, case, repeat))
            report = found[case][-1][0]
            shared = "" if case.ranks <= args.processors else "   (ranks share processors: no measure of speed)"
            say(
                f"round {repeat}: {report['n_atoms']:7d} atoms on {case.ranks:3d} ranks "
                f"{report['median_latency_ms']:10.3f} ms/step{shared}"
            )
    rows = [summarise(args, case, found[case]) for case in cases]
    rows = add_costs(rows) if args.mode == "replicas" else add_efficiencies(args.mode, rows)
    return rows, found[cases[0]][0][0]


def document(args, rows, checks, profile):
    context = profile["context"]
    keys = ("cpu", "system", "lammps", "plugin", "precision", "kernels", "skin", "timestep", "newton_pair")
    return {
        "format": FORMAT,
        "mode": args.mode,
        "model": profile["model_name"],
        "device": profile["device"],
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S"),
        "processors": args.processors,
        "steps": args.steps,
        "repeats": args.repeats,
        "context": {key: context.get(key) for key in (*keys, "model_sha256")},
        "rows": rounded(rows),
        "checks": [{**row, **rounded({key: row[key] for key in TOLERANCES}, 3)} for row in checks],
        "notes": args.notes,
    }


def plot(report, path):
    """Two charts: time of a step and efficiency over ranks, a line for each box (crosses: ranks that share processors);
    or throughput and cost over replicas."""
    with style.drawing(path, (9, 3.6), columns=2) as axes:
        if report["mode"] == "replicas":
            x, marks = "replicas", plot_replicas(report["rows"], axes)
        else:
            x, marks = "ranks", plot_ranks(report, axes)
        axes[0].set(xscale="log", yscale="log", xlabel=x, title=f"{report['model']}, {report['mode']}")
        axes[1].set(xscale="log", xlabel=x, ylim=(0, 1.15), title=report["context"]["cpu"] or "")
        axes[1].axhline(1.0, color=style.COLOURS["soft"], linewidth=0.8)
        for axis in axes:
            axis.set_xticks(marks, [str(m) for m in marks])
            axis.tick_params(axis="x", which="minor", length=0, labelsize=0)


def plot_replicas(rows, axes):
    marks = [row["replicas"] for row in rows]
    axes[0].plot(marks, [row["replica_steps_per_second"] for row in rows], "o-")
    axes[0].set_ylabel("replica-steps per second")
    axes[1].plot(marks, [row["cost_against_one"] for row in rows], "o-")
    axes[1].set_ylabel("cost of a replica / of one alone")
    return marks


def plot_ranks(report, axes):
    for box in dict.fromkeys(row["box"] for row in report["rows"]):
        rows = sorted((r for r in report["rows"] if r["box"] == box), key=lambda r: r["ranks"])
        label = f"{rows[0]['n_atoms']} atoms" + (" per rank" if report["mode"] == "weak" else "")
        (line,) = axes[0].plot([r["ranks"] for r in rows], [r["median_ms"] for r in rows], label=label)
        for row in rows:
            mark = "x" if row["oversubscribed"] else "o"
            axes[0].plot(row["ranks"], row["median_ms"], mark, color=line.get_color())
        good = [r for r in rows if r["efficiency"] is not None]
        axes[1].plot([r["ranks"] for r in good], [r["efficiency"] for r in good], "o-", color=line.get_color())
    axes[0].set_ylabel("ms per step")
    axes[1].set_ylabel("efficiency")
    axes[0].legend()
    return sorted({row["ranks"] for row in report["rows"]})


# ---- command line ----------------------------------------------------------------------------------------------------


def box_of(word):
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", word)
    if not found:
        raise argparse.ArgumentTypeError(f"'{word}' is not of the form 2x2x2")
    return tuple(int(n) for n in found.groups())


def parser():
    p = argparse.ArgumentParser(
        prog="mlff scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("mode", choices=tuple(DECKS))
    p.add_argument("--model", metavar="FILE", help="of water, or (replicas) of benzene (default: the student)")
    p.add_argument("--replicas", type=numbers, default=[1, 2, 4, 8, 16, 64, 256], help="default 1,2,4,8,16,64,256")
    p.add_argument("--ranks", type=numbers, default=[1, 2], help="to be timed, a list (default 1,2)")
    p.add_argument("--check-ranks", type=numbers, default=[], metavar="N,N", help="to be checked besides")
    p.add_argument("--no-check", action="store_true", help="times only")
    p.add_argument(
        "--box", type=box_of, action="append", dest="boxes", metavar="NxNxN", help="may be repeated (default 2x2x2)"
    )
    p.add_argument("--steps", type=positive, default=200, help="profiled steps, warm-up included (default 200)")
    p.add_argument("--warmup", type=whole(0), default=20, help="of them left out of the statistics (default 20)")
    p.add_argument("--equilibrate", type=whole(0), default=20, help="steps before (default 20)")
    p.add_argument("--check-steps", type=positive, default=5, help="steps of a check (default 5)")
    p.add_argument("--repeats", type=positive, default=3, help="rounds (default 3)")
    p.add_argument("--settings", default="precision fp32", help="of pair_style mlff")
    p.add_argument("--build", help="build folder (default: build here, else the installed plugin)")
    p.add_argument("--lmp", help="the program lmp")
    p.add_argument("--decks", help="folder of the decks")
    p.add_argument("--out", default="scaling-results", help="folder for results (default scaling-results)")
    p.add_argument("--notes", default="", help="text that goes into the report")
    p.add_argument("--seed", type=whole(0), default=1, help="of the order")
    return p


def prepare(args):
    """Completes the arguments; LammpsError for what cannot be."""
    if args.warmup >= args.steps:
        raise LammpsError(f"--warmup {args.warmup} must be below --steps {args.steps}")
    args.boxes = args.boxes or [(2, 2, 2)]
    args.ranks = sorted(set(args.ranks))
    args.decks = find_decks(DECKS[args.mode], args.decks)
    if not args.decks:
        raise LammpsError("the decks were not found: give their folder with --decks (benchmarks/decks of the source)")
    args.model = os.path.abspath(
        find_model(args.model or student("benzene_gas" if args.mode == "replicas" else "water"))
    )
    args.plugin, args.lmp = find_plugin(args.build), find_lmp(args.lmp)
    args.out, args.processors = os.path.abspath(args.out), processors()
    os.makedirs(os.path.join(args.out, "runs"), exist_ok=True)


@one_line("mlff scaling")
def main(argv=None):
    args = parser().parse_args(argv)
    prepare(args)
    try:
        rows, profile = collect(args)
        checks = [] if args.no_check or args.mode == "replicas" else check_all(args)
        report = document(args, rows, checks, profile)
        base = os.path.join(args.out, f"{clean(report['model'])}_scaling_{args.mode}")
        profiles.write_json(base + ".json", report)
        plot(report, base + ".svg")
    except ModelError as e:
        print(f"mlff scaling: error: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"mlff scaling: error: {in_words(e)}", file=sys.stderr)
        return 1
    print(f"{base}.json, .svg; a table: mlff show {base}.json")
    return 0 if all(row["passed"] for row in checks) else 1
