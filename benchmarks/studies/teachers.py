"""Cost of the published teachers over system size, in their own packages and in LAMMPS.

  benchmarks/studies/teachers.py baselines [options]   writes results/teacher-baselines.json
  benchmarks/studies/teachers.py precisions [options]  writes results/teacher-precisions.json
  benchmarks/studies/teachers.py table                 writes suites and baselines into docs/teachers/README.md

The times in LAMMPS are those of `mlff bench`: Orb-v2 on silicon, ANI-2x on water (commands in results/README.md).
Orb-v2 has random weights of full size; the published ones do not come with this project, and the cost does not depend
on them.

baselines: orb-models, TorchANI and SchNetPack in the Python that MLFF_TORCH_PYTHON names, on structures of the sizes of
benchmarks/decks/in.bench (rattled silicon, and its boxes of water), with one and two threads, in turn, with glibc told
to keep large buffers (its default costs PyTorch up to half of its time).

precisions: `mlff time` of both with precision fp32 and mixed, in turn, on one core of a CPU that has AMX or AVX512-BF16
(an error elsewhere; with --kernels generic, avx2 or avx512 the slow form of mixed that needs neither).

Timings only mean something on a machine with nothing else to do.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

import numpy as np

from mlff_tools.bench import profiles
from mlff_tools.convert.orb import RANDOM
from mlff_tools.model import engine
from mlff_tools.model import structures as xyz
from mlff_tools.model.lammps import LammpsError
from mlff_tools.train.lammps_data import read_data

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from speed import ROOT, systems  # noqa: E402
from speed.cases import TorchProgram  # noqa: E402
from speed.conditions import describe  # noqa: E402
from speed.measure import Context  # noqa: E402
from speed.parts import Skip, converted, tools  # noqa: E402

# The small, medium and large systems of in.bench: cells of silicon; boxes of water, with their copies along x and y.
SILICON = ((2, 2, 2), (3, 3, 3), (4, 4, 4))
WATER = (("data.water21", 1), ("data.water64", 1), ("data.water64", 2))
NUMBERS = {"H": 1, "O": 8}


def water(box):
    """A box of water of in.bench, equilibrated at 300 K."""
    name, n = box
    one = read_data(os.path.join(ROOT, "benchmarks", "decks", name))
    corners = [i * one["cell"][0] + j * one["cell"][1] for i in range(n) for j in range(n)]
    return {
        "numbers": [NUMBERS[e] for e in one["elements"]] * n**2,
        "positions": np.concatenate([one["positions"] + corner for corner in corners]).tolist(),
        "cell": (np.array([[n], [n], [1]]) * one["cell"]).tolist(),
    }


# ---- baselines -----------------------------------------------------------------------------------------------------

PACKAGES = (
    ("orb", "orb_models", "orb-models", "predict", systems.rattled_silicon, SILICON),
    ("ani", "torchani", "TorchANI", "infer/cell_list", water, WATER),
    ("painn", "schnetpack", "SchNetPack", "frozen", water, WATER),
)
WEIGHTS = {"ani": "ani-2x.safetensors", "painn": "painn_f128_gaussian.safetensors"}


class BaselineCase:
    """One structure in a program that evaluates many; a round is the median of some evaluations after one to warm
    up."""

    def __init__(self, context, label, program, variant, structure, threads):
        self.context, self.label, self.program, self.variant = context, label, program, variant
        self.structure, self.threads, self.n_atoms = structure, threads, len(structure["numbers"])
        self.rounds = []

    def measure(self):
        versions = self.program.ask(do="system", **self.structure)["versions"]
        first = self.program.ask(do="time", variant=self.variant, n=1)["seconds"][0]
        count = max(2, min(200, round(self.context.seconds / first)))
        reply = self.program.ask(do="time", variant=self.variant, n=count)
        seconds, cpu = reply["seconds"], reply["cpu_seconds"]
        self.rounds.append({"seconds": statistics.median(seconds), "cpu": sum(cpu) / sum(seconds)})
        return versions

    def row(self):
        low, middle, high = np.percentile([1000.0 * r["seconds"] for r in self.rounds], (25, 50, 75))
        return {
            "package": self.label,
            "n_atoms": self.n_atoms,
            "threads": self.threads,
            "median_ms": float(middle),
            "q25_ms": float(low),
            "q75_ms": float(high),
            "lowest_cpu_share": float(min(r["cpu"] for r in self.rounds) / self.threads),
        }


def baseline_cases(context, args):
    """Cases of every package, size and number of threads that can run here, and what cannot and why."""
    cases, skipped = [], {}
    for kind, module, label, variant, make, sizes in PACKAGES:
        weights = (
            os.path.join(context.shared, "models", WEIGHTS[kind])
            if kind in WEIGHTS
            else os.path.join(context.work, "orb-random.ckpt")
        )
        look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
        found = subprocess.run([context.torch_python, "-c", look], capture_output=True, check=False)
        if found.returncode or kind in WEIGHTS and not os.path.exists(weights):
            skipped[label] = f"{weights} is not there" if not found.returncode else "not installed in MLFF_TORCH_PYTHON"
            continue
        for threads in (1, 2)[: len(context.cores)]:
            program = TorchProgram(context, kind, weights, True, threads)
            context.closing.append(program.close)
            for counts in sizes[: args.sizes] if args.sizes else sizes:
                cases.append(BaselineCase(context, label, program, variant, make(counts), threads))
    return cases, skipped


def run_baselines(context, args):
    if not context.torch_python:
        raise Skip("MLFF_TORCH_PYTHON does not name a Python with orb-models, TorchANI or SchNetPack")
    cases, skipped = baseline_cases(context, args)
    if not cases:
        raise Skip("nothing to measure: " + "; ".join(f"{k}: {v}" for k, v in skipped.items()))
    versions = {}
    for k in range(args.rounds):
        for case in cases:
            versions.update(case.measure())
        print(f"round {k + 1} of {args.rounds}", flush=True)
    rows = [case.row() for case in cases]
    for row in rows:
        print(f"{row['package']:12s}{row['n_atoms']:6d} atoms {row['threads']} threads {row['median_ms']:10.2f} ms")
    conditions = describe(context)
    conditions["versions"].update(versions)
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    notes = {
        "orb-models": f"Orb-v2 on silicon: graph, energy, forces, stress; {RANDOM}",
        "TorchANI": "ANI-2x, 8 networks, on water: neighbors, energy, forces",
        "malloc": "tuned",
        "SchNetPack": "PaiNN, 128 features, 3 layers, random weights, on water: energy, forces, without neighbors",
    }
    path = os.path.join(args.out, "teacher-baselines.json")
    profiles.write_json(
        path,
        {
            "format": "mlff-baselines/1",
            "date": now,
            "rounds": args.rounds,
            "notes": notes,
            "conditions": conditions,
            "rows": rows,
            "skipped": skipped,
        },
    )
    print("written: " + path + "".join(f"\nskipped: {k}: {v}" for k, v in skipped.items()))


# ---- precisions ----------------------------------------------------------------------------------------------------

SYMBOLS = {1: "H", 8: "O", 14: "Si"}
PRECISIONS = ("fp32", "mixed")


def write_structure(path, structure):
    xyz.write_xyz(
        path,
        [
            {
                "name": "timed",
                "elements": [SYMBOLS[z] for z in structure["numbers"]],
                "positions": np.array(structure["positions"]),
                "cell": np.array(structure["cell"]),
            }
        ],
    )


def time_model(context, program, model, structure, precision, kernels, calls):
    """What `mlff time --json` says of one model on one core."""
    command = [
        "taskset",
        "-c",
        str(context.cores[0]),
        program,
        "time",
        model,
        structure,
        "--device",
        "cpu",
        "--json",
        "--precision",
        precision,
        "--kernels",
        kernels if precision == "mixed" else "auto",
        "--calls",
        str(calls),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LammpsError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def compare_precisions(context, program, name, model, structure, args):
    """A row: medians over rounds of the medians of both precisions, measured in turn."""
    path = os.path.join(context.work, f"{name}-{len(structure['numbers'])}.xyz")
    write_structure(path, structure)
    found = {p: time_model(context, program, model, path, p, args.kernels, 2) for p in PRECISIONS}
    calls = max(2, round(1000.0 * context.seconds / found["fp32"]["median_ms"]))
    medians = {p: [] for p in PRECISIONS}
    for _ in range(args.rounds):
        for p in PRECISIONS:
            found[p] = time_model(context, program, model, path, p, args.kernels, calls)
            medians[p].append(found[p]["median_ms"])
    middle = {p: statistics.median(medians[p]) for p in PRECISIONS}
    ratios = [a / b for a, b in zip(medians["fp32"], medians["mixed"])]
    return {
        "model": name,
        "n_atoms": len(structure["numbers"]),
        "calls": calls,
        "rounds": args.rounds,
        "kernels": {p: found[p]["kernels"] for p in PRECISIONS},
        "median_ms": middle,
        "gain": statistics.median(ratios),
        "gain_lowest": min(ratios),
        "gain_highest": max(ratios),
    }


def run_precisions(context, args):
    program = engine.find_program(
        os.path.join(args.build, "mlff") if os.path.exists(os.path.join(args.build, "mlff")) else None
    )
    orb = os.path.join(context.work, "orb-v2-random")
    tools("mlff_tools", "convert", "orb", "--random", "1", "--elements", "H,O,Si", "--no-self-test", "-o", orb)
    models, skipped = [("orb_v2", orb + ".yaml", systems.rattled_silicon, SILICON)], {}
    try:
        models.append(("ani2x", converted(context, "ani", "ani-2x"), water, WATER))
    except Skip as reason:
        skipped["ani2x"] = str(reason)
    rows = []
    for name, model, make, sizes in models:
        structures = [make(c) for c in sizes[: args.sizes]] if args.sizes else [make(c) for c in sizes]
        for structure in structures:
            row = compare_precisions(context, program, name, model, structure, args)
            rows.append(row)
            print(
                f"{name:8s}{row['n_atoms']:6d} atoms: fp32 ({row['kernels']['fp32']}) {row['median_ms']['fp32']:10.2f} "
                "ms, mixed "
                f"({row['kernels']['mixed']}) {row['median_ms']['mixed']:10.2f} ms: {row['gain']:.2f} times as fast "
                f"({row['gain_lowest']:.2f} to {row['gain_highest']:.2f})",
                flush=True,
            )
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    path = os.path.join(args.out, "teacher-precisions.json")
    profiles.write_json(
        path,
        {
            "format": "mlff-precisions/1",
            "date": now,
            "notes": {"orb_v2": RANDOM},
            "conditions": describe(context),
            "rows": rows,
            "skipped": skipped,
        },
    )
    print("written: " + path + "".join(f"\nskipped: {k}: {v}" for k, v in skipped.items()))


PARTS = {"baselines": run_baselines, "precisions": run_precisions}


# ---- table -----------------------------------------------------------------------------------------------------------

BEGIN = "<!-- begin: written by benchmarks/studies/teachers.py table -->"
END = "<!-- end: written by benchmarks/studies/teachers.py table -->"
SUITES = {
    "orb-models": ("Orb-v2, silicon", "orb_v2"),
    "TorchANI": ("ANI-2x, 8 networks, water", "fennol_ani2x"),
    "SchNetPack": ("PaiNN 128/3, water", None),
}


def rows_of(results, name):
    """Date and {atoms: row} of the network NAME in suite-NAME.json, which `mlff bench` has published."""
    path = os.path.join(results, f"suite-{name}.json")
    if not os.path.exists(path):
        raise Skip(f"{path} is missing: run `mlff bench` as results/README.md says")
    suite = profiles.read_json(path)
    return suite["date"], {r["n_atoms"]: r for r in suite["cases"] if r["potential"] == name}


def table(results):
    """Markdown: times of this package in LAMMPS (suites) and of the packages (baselines) by network and size."""
    baselines = profiles.read_json(results, "teacher-baselines.json")
    lines = [
        "| network | atoms | this package, 1 core, ms | package | 1 thread, ms | 2 threads, ms |",
        "|---|---:|---:|---|---:|---:|",
    ]
    times = {(r["package"], r["n_atoms"], r["threads"]): r["median_ms"] for r in baselines["rows"]}
    measured = []
    for package, (network, name) in SUITES.items():
        date, own = rows_of(results, name) if name else (None, {})
        measured += [f"{network} {date[:10]}"] if own else []
        network += " (random weights)" if any(r["notes"] for r in own.values()) else ""
        for n in sorted({n for name, n, _ in times if name == package} | set(own)):
            cells = [
                network,
                str(n),
                f"{own[n]['median_ms']:.4g}" if n in own else "-",
                package,
                *(f"{times[package, n, t]:.4g}" if (package, n, t) in times else "-" for t in (1, 2)),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    conditions = baselines["conditions"]
    versions = conditions["versions"]
    names = ", ".join(
        f"{name} {versions[name]}" for name in ("torch", "orb-models", "torchani", "schnetpack") if name in versions
    )
    missing = "".join(f" {name}: {why}." for name, why in baselines["skipped"].items())
    head = (
        f"Median time of a step on {conditions['processor']} with {conditions['n_processors']} cores.\n"
        f"Packages: {baselines['date'][:10]} ({names}). This package, by `mlff bench`: {'; '.join(measured)}.\n"
        "The weights of Orb-v2 are random on both sides; its cost does not depend on them.\n"
        "The two sides ran one after the other, not alternately: read ratios to 20 %. "
        f"[performance.md](../performance.md) has ratios of interleaved runs.{missing}"
    )
    return head + "\n\n" + "\n".join(lines) + "\n"


def write_table(results, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Skip(f"{path} must have each of these lines once: {BEGIN} and {END}")
    profiles.write_text(path, text[: text.index(BEGIN)] + f"{BEGIN}\n{table(results)}" + text[text.index(END) :])


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="teachers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=(*PARTS, "table"))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (default: build)")
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of baselines and precisions (default 3)")
    parser.add_argument(
        "--kernels", default="auto", help="kernel path of precision mixed in precisions (default: auto)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="wanted length of one measurement (default 5)")
    parser.add_argument("--sizes", type=int, help="only the smallest sizes, so many (default: all)")
    parser.add_argument(
        "--core", type=int, help="core to pin to (default: the last); two threads also use the one before"
    )
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "speed"), help="folder of decks and models")
    parser.add_argument(
        "--shared",
        default=os.environ.get("MLFF_SHARED_DIR", os.path.join(ROOT, "..", "shared")),
        help="folder with the published parameters (default: $MLFF_SHARED_DIR, ../shared)",
    )
    parser.add_argument("--out", default=os.path.join(ROOT, "benchmarks", "results"), help="folder of the results")
    args = parser.parse_args(argv)
    if args.rounds < 1 or args.seconds <= 0.0 or args.sizes is not None and args.sizes < 2:
        parser.error("--rounds and --seconds must be positive, --sizes at least 2")
    context = None
    try:
        if args.what == "table":
            write_table(args.out, os.path.join(ROOT, "docs", "teachers", "README.md"))
            return 0
        context = Context(args)
        PARTS[args.what](context, args)
    except (profiles.ProfileError, engine.ModelError, Skip) as problem:
        print(f"teachers.py: error: {problem}", file=sys.stderr)
        return 1
    finally:
        for close in context.closing if context else []:
            close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
