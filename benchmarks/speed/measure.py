"""Speed of pair_style mlff against other programs, as ratios measured in one interleaved run on one pinned core.

  benchmarks/speed [options] all | PART ...      measures, writes results/speed-DATE.json and .md
  benchmarks/speed --write-docs FILE.json ...    fills docs/performance.md from results
  benchmarks/speed --show FILE.json ...          prints all tables of results
  benchmarks/speed --list

Parts: ani (TorchANI; students of ANI-2x), painn (SchNetPack), orb (orb-models), nequix (its package in JAX),
sevennet (its package in PyTorch), mace (mace-torch, symmetrix-xl), tensornet (matgl), student (LAMMPS' own POD and
SNAP), ranks, nequix-ranks, tensornet-ranks and mace-ranks (two MPI ranks), students (of ANI-2x and Nequix, against
these), kernels (generic, AVX2, AVX-512), memory (allocations and bytes per atom).

Each round times every case once, in turn, so that the two sides of a ratio are measured within the same seconds; a
ratio is the median over the rounds, its spread the quartiles. Timings only mean something on a machine with nothing
else to do. The load by other programs is recorded with them.
"""

import argparse
import datetime
import os
import sys
import time

import numpy as np

from mlff_tools.bench import profiles
from mlff_tools.model.lammps import LammpsError, find_lmp, find_plugin, find_potentials

from . import ROOT, memory, report
from .conditions import choose_cores, cpu_times, describe, others_since
from .parts import PARTS, Skip

FORMAT = "mlff-speed/1"


class Context:
    """What the parts need to know: programs, folders, cores, and lists that they add to."""

    def __init__(self, args):
        self.lmp = find_lmp(args.lmp)
        self.plugin = find_plugin(args.build)
        self.work = os.path.abspath(args.work)
        self.shared = os.path.abspath(args.shared)
        self.torch_python = os.environ.get("MLFF_TORCH_PYTHON", "")
        self.nep_plugin = os.environ.get("MLFF_BENCH_NEP_PLUGIN", "")
        self.nep_model = os.environ.get("MLFF_BENCH_NEP_MODEL", "")
        self.potentials = find_potentials(self.lmp)
        self.cores = choose_cores(args.core)
        self.seconds = args.seconds
        self.skipped, self.closing, self.versions = {}, [], {}
        os.makedirs(self.work, exist_ok=True)


def collect(context, names):
    """Parts that can run here, by name; what cannot is noted in context.skipped."""
    parts = {}
    for name in names:
        if name == "memory":
            continue
        try:
            parts[name] = PARTS[name](context)
        except Skip as reason:
            context.skipped[name] = str(reason)
            print(f"skipped: {name}: {reason}", flush=True)
    return parts


def prepare(parts):
    for name, part in parts.items():
        for case in part.cases:
            case.prepare()
            print(f"ready: {name}: {case.label}", flush=True)


def one_round(parts, results):
    """Times every case once and adds what was found to `results`[part][case]."""
    for name, part in parts.items():
        for case in part.cases:
            before = cpu_times()
            found = case.measure()
            found["others"] = others_since(before, found["cpu"], case.ranks)
            results[name].setdefault(case.name, []).append(found)


def summarise(case, rounds):
    """Medians and quartiles of one case over the rounds."""
    seconds = np.array([r["seconds"] for r in rounds])
    cpu_seconds = seconds * np.array([r["cpu"] for r in rounds])
    low, middle, high = np.percentile(seconds, (25, 50, 75))
    row = {
        **case.describe(),
        "seconds": seconds.tolist(),
        "cpu_seconds": cpu_seconds.tolist(),
        "median_s": float(middle),
        "q25_s": float(low),
        "q75_s": float(high),
        "cpu_median_s": float(np.median(cpu_seconds)),
        "us_per_atom": float(1e6 * middle / case.n_atoms),
        "lowest_cpu_share": float(min(r["cpu"] for r in rounds)),
        "others_cores": float(np.median([r["others"] for r in rounds])),
    }
    if "sections" in rounds[0]:
        row["sections_s"] = {
            key: float(np.median([r["sections"].get(key, 0.0) for r in rounds])) for key in rounds[0]["sections"]
        }
        row["builds_per_1000_steps"] = float(np.median([1000.0 * r["builds"] / r["steps"] for r in rounds]))
        row["dangerous_builds"] = int(max(r["dangerous"] for r in rounds))
    return row


def ratio_row(part, ratio, cases):
    """One ratio, of the fastest of `theirs` to ours: median and quartiles over the rounds."""
    fastest = min(ratio.theirs, key=lambda name: cases[name]["median_s"])
    theirs, ours = cases[fastest], cases[ratio.ours]
    scale = ours["n_atoms"] / theirs["n_atoms"] if ratio.per_atom else 1.0
    values = scale * np.array(theirs["seconds"]) / np.array(ours["seconds"])
    low, middle, high = (float(x) for x in np.percentile(values, (25, 50, 75)))
    # per rank: MPI waits without sleeping, so that a rank that waits for the other takes as much CPU time
    by_cpu = float(np.median(scale * np.array(theirs["cpu_seconds"]) / np.array(ours["cpu_seconds"])))
    bars = [middle >= ratio.bar] if ratio.bar is not None else []
    bars += [ours["median_s"] <= ratio.most] if ratio.most is not None else []
    return {
        "part": part,
        "name": ratio.name,
        "theirs": fastest,
        "ours": ratio.ours,
        "per_atom": ratio.per_atom,
        "values": values.tolist(),
        "median": middle,
        "q25": low,
        "q75": high,
        "by_cpu_time": by_cpu,
        "bar": ratio.bar,
        "aim": ratio.aim,
        "most": ratio.most,
        "aim_most": ratio.aim_most,
        "ours_s": ours["median_s"],
        "passed": bool(all(bars)) if bars else None,
    }


def measure(context, args, names):
    """The whole result as it is written to JSON."""
    parts = collect(context, names)
    prepare(parts)
    results = {name: {} for name in parts}
    conditions = describe(context)
    loads = []
    for k in range(args.rounds):
        start = time.monotonic()
        loads.append(os.getloadavg()[0])
        one_round(parts, results)
        print(
            f"round {k + 1} of {args.rounds}: {time.monotonic() - start:.0f} s, load {os.getloadavg()[0]:.2f}",
            flush=True,
        )
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    result = {
        "format": FORMAT,
        "date": now,
        "rounds": args.rounds,
        "seconds_per_round": context.seconds,
        "conditions": conditions,
        "parts": {},
        "ratios": [],
        "skipped": context.skipped,
    }
    for name, part in parts.items():
        cases = {case.name: summarise(case, results[name][case.name]) for case in part.cases}
        result["parts"][name] = {"title": part.title, "cases": cases, "facts": part.facts}
        result["ratios"] += [ratio_row(name, ratio, cases) for ratio in part.ratios]
    if "memory" in names:
        try:
            result["memory"] = memory.measure(context)
        except Skip as reason:
            context.skipped["memory"] = str(reason)
    conditions["load_average_of_rounds"] = loads
    conditions["versions"].update(context.versions)
    return result


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="benchmarks/speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="all, or any of: " + ", ".join([*PARTS, "memory"]))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (default: build)")
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of the interleaved run (default 9)")
    parser.add_argument("--seconds", type=float, default=1.0, help="wanted length of one measurement (default 1)")
    parser.add_argument("--core", type=int, help="core to pin to (default: the last); ranks also use the one before")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "speed"), help="folder of decks and structures")
    parser.add_argument(
        "--shared",
        default=os.environ.get("MLFF_SHARED_DIR", os.path.join(ROOT, "..", "shared")),
        help="folder with the published parameters (default: $MLFF_SHARED_DIR, ../shared)",
    )
    parser.add_argument("--out", default=os.path.join(ROOT, "benchmarks", "results"), help="folder of the results")
    parser.add_argument("--list", action="store_true", help="print the parts and end")
    parser.add_argument(
        "--write-docs",
        nargs="+",
        metavar="FILE",
        help="fill docs/performance.md from results, in which later files replace parts of earlier ones, and end",
    )
    parser.add_argument("--show", nargs="+", metavar="FILE", help="print all tables of results, and end")
    args = parser.parse_args(argv)
    unknown = [p for p in args.parts if p not in ("all", "memory", *PARTS)]
    if unknown:
        parser.error(f"part '{unknown[0]}' is not known: use all, {', '.join(PARTS)} or memory")
    if not (args.parts or args.list or args.write_docs or args.show):
        parser.error("name the parts to measure, or all")
    if args.rounds < 1 or args.seconds <= 0.0:
        parser.error("--rounds and --seconds must be positive")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    if args.list:
        for name in PARTS:
            print(f"{name:14s}{PARTS[name].__doc__}")
        print(f"{'memory':14s}{memory.__doc__}")
        return 0
    if args.write_docs:
        results = [profiles.read_json(path) for path in args.write_docs]
        report.write_docs(results, args.write_docs, os.path.join(ROOT, "docs", "performance.md"))
        return 0
    if args.show:
        print("\n".join(report.markdown(profiles.read_json(path)) for path in args.show))
        return 0
    names = [*PARTS, "memory"] if "all" in args.parts else args.parts
    context = None
    try:
        context = Context(args)
        result = measure(context, args, names)
    except LammpsError as problem:
        print(f"benchmarks/speed: error: {problem}", file=sys.stderr)
        return 1
    finally:
        for close in context.closing if context else []:
            close()
    if not result["parts"] and "memory" not in result:
        print(
            "benchmarks/speed: error: nothing could be measured: " + "; ".join(context.skipped.values()),
            file=sys.stderr,
        )
        return 1
    paths = report.write(result, args.out)
    with open(paths[1], encoding="utf-8") as file:
        print(file.read())
    print("written: " + ", ".join(os.path.relpath(p) for p in paths))
    return 0
