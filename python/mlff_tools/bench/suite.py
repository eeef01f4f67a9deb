"""mlff bench: runs the benchmark suite, benchmarks/decks in its combinations, and writes a folder of reports.

    mlff bench                                          the whole suite, each system with its shipped student
    mlff bench --model student --model teacher --system water --protocol nvt
    mlff bench --model nequix-oam-1-pft --steps 100     a universal model: crystals and liquid benzene
    mlff bench --system water --system-sizes 32,64,128,256
    mlff bench --suite quick --against OTHER_BUILD      two builds, or models by name or file, interleaved
    mlff bench --suite targets [--device cuda]          students and teachers, and each target of the documents
    mlff bench --compare-all --model student            PyTorch eager and compiled, this engine by precision and kernels
    mlff bench --list

Every case runs `--repeats` times. Each round runs all cases in a new random order, so that a slow minute of the machine
affects different ones. Until --budget is spent, cases with a mean not known to 5 % run again. The same command with the
same --out continues an interrupted suite. The output folder contains runs/CASE.rN.json, cases/CASE.json (the median
repeat), MODEL_profile.json, MODEL_scaling_*.json, comparison_*.json, suite.json and summary.txt; `mlff report DIR`
makes a page of them. --publish also writes brief copies to another folder.

Every case is judged: energy conservation (NVE), ensemble (NVT, NPT); PASS, FAIL or `too short to say`. Atoms of a model
with random weights do not move, and only times are reported. docs/benchmarks.md explains the numbers.
Exit code: 0 success, 1 a run failed, 2 wrong usage or missing files, 3 a run does not sample its ensemble.
"""

import argparse
import dataclasses
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from ..command_line import number, numbers, one_line, positive, temperatures, whole
from ..model import modelfile
from ..model.files import in_words
from ..model.lammps import (
    LammpsError,
    errors_in,
    find_decks,
    find_lmp,
    find_plugin,
    find_targets,
    on_ranks,
    process_options,
    variable,
)
from . import goals, implementations, noise, profiles, publish, results, work
from .cases import PROTOCOLS, ROLES, SIZES, SUITES, SYSTEMS, chosen, clean
from .results import side_of

FORMAT = "mlff-bench/1"


class Progress:
    """A bar on a terminal, one line per run elsewhere; the time left follows from the cost of what is left."""

    def __init__(self, total_cost, n_runs):
        self.left, self.done, self.n_runs, self.n_done = total_cost, 0.0, n_runs, 0
        self.live, self.begin = sys.stderr.isatty(), time.monotonic()

    def show(self, name, text=""):
        spent = time.monotonic() - self.begin
        eta = f"{spent / self.done * self.left:5.0f} s left" if self.done > 0 else ""
        if self.live:
            filled = round(24 * self.done / max(self.done + self.left, 1e-9))
            bar = "=" * filled + " " * (24 - filled)
            print(f"\r\033[K[{bar}] {self.n_done:3d}/{self.n_runs}  {eta}  {name}", end="", file=sys.stderr, flush=True)
        elif text:
            print(f"{self.n_done:3d}/{self.n_runs}  {name:58s} {text}", file=sys.stderr, flush=True)

    def advance(self, name, cost, text):
        self.n_done, self.done, self.left = self.n_done + 1, self.done + cost, self.left - cost
        self.show(name, text)

    def end(self):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# ---- running -------------------------------------------------------------------------------------------------------


def command(case, args, report, repeat):
    """Argument list that runs a case and writes its report."""
    options = ["components yes"] + ([f"targets {variable(args.targets)}"] if args.targets else [])
    ghosts = {}
    if args.reference and case.model and case.model != args.reference:
        options.append(f"compare {variable(args.reference)} every {args.every}")
        ghosts = {"ghosts": modelfile.load_yaml(args.reference)["cutoff"] + 1.0}  # the decks' skin
    plugin = args.sides[case.side]["plugin"]
    values = {
        **case.variables(),
        "plugin": variable(plugin) if plugin else "none",
        "folder": variable(args.decks),
        "steps": args.steps,
        "warmup": args.warmup,
        "equilibrate": args.equilibrate,
        "file": variable(report),
        "name": case.name,
        "thermo": max(1, args.steps // 10),
        "settings": args.settings,
        "seed": 4711 + repeat,
        "options": " ".join(options),
        **ghosts,
        **args.variables,
    }
    words = [args.lmp, "-in", os.path.join(args.decks, case.deck), "-log", "none", "-nocite", "-screen", "log.txt"]
    for name, value in values.items():
        words += ["-var", name, str(value)]
    return on_ranks(words, case.ranks, args.lmp)


def run_case(case, args, repeat, target):
    """Runs a case once; its report arrives at `target` only when it is complete. Returns the report."""
    with tempfile.TemporaryDirectory(prefix="mlff-bench-") as place:
        report = os.path.join(place, "report.json")
        words, watch = command(case, args, report, repeat), noise.Watch()
        begin = time.monotonic()
        done = subprocess.run(words, check=False, **process_options(args.lmp, place, case.threads))
        seconds, seen = time.monotonic() - begin, watch.seen()
        log = os.path.join(place, "log.txt")
        text = done.stdout
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                text += f.read()
        if done.returncode or not os.path.exists(report):
            profiles.write_text(os.path.join(args.out, "failed.log"), " ".join(words) + "\n\n" + text)
            errors = errors_in(text)
            why = errors[0] if errors else "it wrote no report; does the plugin have fix mlffprof?"
            raise LammpsError(
                f"{case.name}: LAMMPS failed: {why}\nAll it said is in {os.path.join(args.out, 'failed.log')}"
            )
        profile = profiles.read(report)
        expected = args.steps - args.warmup
        if profile["n_steps"] < expected:
            raise LammpsError(f"{case.name}: the report has {profile['n_steps']} steps instead of {expected}")
        profile["context"].update(seen, run_s=seconds)
        if case.random:
            profile.update(notes=case.random, ns_per_day=None)  # the time step means nothing
        profiles.write_json(target, profile)
    return profile


def round_of(cases, args, repeat):
    """The cases in the order of round `repeat`: shuffled again, the sides of a pair next to each other."""
    generator, works, order = random.Random(1000 * args.seed + repeat), {}, []
    for case in cases:
        works.setdefault((case.work, case.potential_name if args.by_build else ""), []).append(case)
    groups = list(works.values())
    generator.shuffle(groups)
    for group in groups:
        generator.shuffle(group)
        order += group
    return order


def path_of(case, args, repeat):
    return os.path.join(args.out, "runs", f"{case.name}.r{repeat}.json")


def still_wide(results, args, repeat):
    """Cases that want another round: those whose mean is not known well enough, and what is compared with them; those
    that have its report already, too."""
    wide = {case.work for case, reports in results.items() if (noise.interval(medians(reports)) or 0) > noise.NARROW}
    return [case for case in results if case.work in wide or os.path.exists(path_of(case, args, repeat))]


def medians(reports):
    return [r["median_latency_ms"] for r in reports]


def run_all(cases, args):
    """Runs the missing cases: --repeats rounds of all cases, then, until --budget is spent, rounds of those that
    are not known well enough. Returns case -> [report of each repeat]."""
    results, begin = {case: [] for case in cases}, time.monotonic()
    first = [(case, k) for k in range(1, args.repeats + 1) for case in round_of(cases, args, k)]
    run_these(first, args, results)
    repeat = args.repeats
    while args.budget and args.repeats > 1:
        repeat += 1
        more = round_of(still_wide(results, args, repeat), args, repeat)
        there = all(os.path.exists(path_of(case, args, repeat)) for case in more)
        if not more or not there and args.seconds_before + time.monotonic() - begin > 60 * args.budget:
            break
        run_these([(case, repeat) for case in more], args, results)
    return results


def run_these(order, args, results):
    """Runs [(case, repeat)], or reads what is there, and adds the reports to the results."""
    missing = [one for one in order if not os.path.exists(path_of(one[0], args, one[1]))]
    if len(missing) < len(order):
        print(
            f"{len(order) - len(missing)} of {len(order)} runs are there already, {len(missing)} to go", file=sys.stderr
        )

    def cost(case):
        return 0.5 + 1e-6 * case.cost * (args.steps + args.equilibrate)

    progress = Progress(sum(cost(case) for case, _ in missing), len(missing))
    for case, repeat in order:
        path = path_of(case, args, repeat)
        if (case, repeat) not in missing:
            results[case].append(profiles.read(path))
            continue
        progress.show(f"{case.name} r{repeat}")
        profile = run_case(case, args, repeat, path)
        results[case].append(profile)
        progress.advance(f"{case.name} r{repeat}", cost(case), f"{profile['median_latency_ms']:9.4f} ms/step")
    progress.end()


# ---- command line ------------------------------------------------------------------------------------


def settings(cases, args):
    """What must be the same for runs to belong to one suite."""
    files = {c.model for c in cases if c.model} | {s["plugin"] for s in args.sides.values() if s["plugin"]}
    files |= {path for path in (args.reference, args.targets) if path}
    files |= {os.path.join(args.decks, c.deck) for c in cases}
    return {
        "steps": args.steps,
        "warmup": args.warmup,
        "equilibrate": args.equilibrate,
        "pair_settings": args.settings,
        "variables": args.variables,
        "lmp": args.lmp,
        "reference": args.reference,
        "every": args.every,
        "sha256": {os.path.basename(p) + " " + side_of(p, args): modelfile.sha256_of(p) for p in sorted(files)},
    }


def open_folder(cases, args):
    """Makes or re-opens --out; an error when it belongs to other settings."""
    path, mine = os.path.join(args.out, "suite.json"), settings(cases, args)
    args.seconds_before = 0.0
    if args.fresh:
        for name in ("runs", "work", "suite.json", "summary.txt", "targets.json", "targets.txt"):
            place = os.path.join(args.out, name)
            if os.path.isdir(place):
                shutil.rmtree(place)
            elif os.path.exists(place):
                os.remove(place)
    if os.path.exists(path):
        try:
            before = profiles.read_json(path)
            found, args.seconds_before = before.get("settings", {}), before.get("seconds", 0.0)
        except ValueError as e:
            raise LammpsError(f"{path} is damaged ({e}): use another --out, or --fresh to start over") from e
        for key, value in mine.items():
            if key != "sha256" and found.get(key) != value:
                raise LammpsError(
                    f"{args.out} holds runs with {key} = {found.get(key)!r}, and now it is {value!r}: use another "
                    "--out, or --fresh to start over"
                )
        for name, value in mine["sha256"].items():
            if found["sha256"].get(name, value) != value:
                raise LammpsError(
                    f"{args.out} holds runs with another {name.strip()}: use another --out, or --fresh to start over"
                )
        mine["sha256"] = {**found["sha256"], **mine["sha256"]}
    elif os.path.isdir(os.path.join(args.out, "runs")) and os.listdir(os.path.join(args.out, "runs")):
        raise LammpsError(f"{args.out} holds runs but no suite.json: use another --out, or --fresh to start over")
    os.makedirs(os.path.join(args.out, "runs"), exist_ok=True)
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    args.record = {"format": FORMAT, "settings": mine, "date": date, "seconds": args.seconds_before}
    profiles.write_json(path, args.record)


def words(text):
    return [w for w in text.split(",") if w]


def _add_choice(p):
    """Options that choose the cases."""
    p.add_argument("names", nargs="*", help="cases by name, * and ? allowed, for example 'water-*-nvt*'")
    p.add_argument("--suite", choices=tuple(SUITES), default="full")
    p.add_argument(
        "--model",
        action="append",
        dest="models",
        metavar="FILE",
        help="model file, the name of a shipped one, or student or teacher: that of the system; may be repeated "
        "(default: student)",
    )
    p.add_argument("--system", type=words, dest="systems", help=", ".join(SYSTEMS))
    p.add_argument("--size", type=words, dest="sizes", help="small, medium, large")
    p.add_argument("--protocol", type=words, dest="protocols", help="nve, nvt, npt")
    p.add_argument(
        "--potential",
        help="mlff or a reference potential, instead of those of the suite: sw snap eam pod airebo; mlff also "
        "where the suite does not run the system with a model",
    )
    p.add_argument(
        "--system-sizes", type=numbers, metavar="N,N", help="scaling: the nearest sizes that the system's unit allows"
    )
    p.add_argument(
        "--temperature",
        type=temperatures,
        dest="temperatures",
        metavar="T,T",
        help="K, a list: every case at each of them (default: 300); two or more let total energies of NVT be judged",
    )


def _add_results(p):
    p.add_argument("--out", default="bench-results", help="folder for results (default bench-results)")
    p.add_argument(
        "--publish",
        metavar="DIR",
        help="write the results there too, in brief: without most of the raw series, host and paths",
    )
    p.add_argument(
        "--publish-as",
        metavar="NAME",
        help="name of the published files: suite-NAME.json and summary-NAME.txt; other suites in the folder are kept",
    )


def parser():
    p = argparse.ArgumentParser(
        prog="mlff bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_choice(p)
    p.add_argument("--ranks", type=numbers, default=[1], help="MPI ranks, a list (default 1)")
    p.add_argument("--threads", type=numbers, default=[1], help="OMP_NUM_THREADS, a list (default 1)")
    p.add_argument(
        "--steps", type=positive, default=goals.STEPS, help="profiled steps, warm-up included (default 1020)"
    )
    p.add_argument("--warmup", type=whole(0), default=20, help="of them left out of the statistics (default 20)")
    p.add_argument("--equilibrate", type=whole(0), default=100, help="steps before (default 100)")
    p.add_argument("--repeats", type=positive, default=goals.REPEATS, help="rounds of all cases (default 3)")
    p.add_argument(
        "--budget",
        type=number(0, 1e6, "minutes from 0"),
        default=10.0,
        metavar="MIN",
        help="minutes of the suite up to which cases run again whose mean is not known to 5 %% (default 10; 0: "
        "no more rounds)",
    )
    p.add_argument(
        "--against",
        metavar="BUILD|MODEL",
        help="run every case twice, interleaved: this build folder, plugin or model as B",
    )
    p.add_argument(
        "--reference", metavar="FILE", help="evaluate this model on the same positions every --every steps (accuracy)"
    )
    p.add_argument(
        "--targets", metavar="FILE", help="rules that every report is compared with (default: models/targets.yaml)"
    )
    p.add_argument("--every", type=positive, default=100, help="see --reference (default 100)")
    p.add_argument(
        "--count", action="store_true", help="count instructions, allocations, messages, lists of a step as well"
    )
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of mlff (default cpu)")
    p.add_argument("--settings", default="precision fp32", help="more of pair_style mlff")
    p.add_argument("--var", action="append", default=[], metavar="NAME=VALUE", help="another variable of the deck")
    p.add_argument("--build", help="build folder (default: build here, else the installed plugin)")
    p.add_argument("--lmp", help="the program lmp")
    p.add_argument("--decks", help="folder of the decks")
    _add_results(p)
    p.add_argument("--seed", type=whole(0), default=1, help="of the order")
    p.add_argument("--fresh", action="store_true", help="forget the runs that --out holds")
    p.add_argument(
        "--compare-all",
        action="store_true",
        help="no suite: each model in all implementations that are here, interleaved, with speed-ups against the "
        "first; writes implementations.json into --out",
    )
    p.add_argument("--list", action="store_true", help="print the names of the cases and end")
    return p


def _check_targets(args):
    """--suite targets has models and conditions of its own."""
    options = dict.fromkeys(("against", "potential", "system_sizes", "compare_all", "ranks", "threads"))
    for name, option in {"models": "model", "temperatures": "temperature", **options}.items():
        if getattr(args, name) not in (None, False, [1]):
            option = option or name.replace("_", "-")
            raise LammpsError(f"--suite targets runs shipped students and teachers on one core: leave out --{option}")


def check(args):
    """Completes the arguments; LammpsError for what cannot be."""
    known = (("systems", SYSTEMS), ("sizes", SIZES), ("protocols", PROTOCOLS))
    for what, values in known:
        for word in getattr(args, what) or []:
            if word not in values:
                raise LammpsError(f"--{what[:-1]} {word}: there are {', '.join(values)}")
    if "benzene_gas" in (args.systems or []) and args.protocols == ["npt"]:
        raise LammpsError("benzene_gas has no npt: its molecules are apart and have no pressure to couple to")
    if args.warmup >= args.steps:
        raise LammpsError(f"--warmup {args.warmup} must be below --steps {args.steps}")
    if args.publish_as and (not args.publish or clean(args.publish_as) != args.publish_as):
        raise LammpsError(
            f"--publish-as {args.publish_as}: use letters, digits and _, and name the folder with --publish"
        )
    args.variables = dict(v.partition("=")[::2] for v in args.var)
    if any("=" not in v for v in args.var):
        raise LammpsError(f"--var {[v for v in args.var if '=' not in v][0]}: use NAME=VALUE")
    args.decks = find_decks("in.bench", args.decks)
    if not args.decks:
        raise LammpsError("the decks were not found: give their folder with --decks (benchmarks/decks of the source)")
    if args.suite == "targets":
        _check_targets(args)
    if args.device != "cpu":
        args.settings = f"device {args.device} {args.settings}"
    if not args.models:
        args.models = ["student"]
    args.models = [m if m in ROLES else os.path.abspath(modelfile.find_model(m)) for m in args.models]
    args.reference = os.path.abspath(modelfile.find_model(args.reference)) if args.reference else None
    args.targets = find_targets(args.targets)
    args.out = os.path.abspath(args.out)
    args.lmp = find_lmp(args.lmp)
    args.sides = {"": {"plugin": find_plugin(args.build), "label": "A"}}
    _check_against(args)


def _check_against(args):
    args.by_build = False
    if not args.against:
        return
    holds_plugin = os.path.isfile(args.against) or os.path.isfile(os.path.join(args.against, "mlffplugin.so"))
    if not holds_plugin and (not os.path.isdir(args.against) or args.against in modelfile.named_models()):
        try:
            args.against = modelfile.find_model(args.against)
        except modelfile.ModelError as e:
            raise LammpsError(f"--against {args.against}: no build folder, plugin or model: {e}") from e
    plugin = args.sides[""]["plugin"]
    if args.against.endswith((".yaml", ".yml")):
        args.models.append(os.path.abspath(args.against))
    else:
        args.by_build = True
        args.sides.update(A={"plugin": plugin}, B={"plugin": find_plugin(args.against)})


@one_line("mlff bench")
def main(argv=None):
    p = parser()
    args = p.parse_args(argv)
    check(args)
    if args.compare_all:
        return implementations.main(args.models, args.systems, args.decks, args.out)
    cases = chosen(args)
    if args.by_build:
        cases = [dataclasses.replace(c, side=s) for c in cases if c.model for s in "AB"]
    if args.list:
        print("\n".join(f"{c.name:60s} {c.n_atoms:6d} atoms" for c in cases))
        return 0
    open_folder(cases, args)
    begin = time.monotonic()
    try:
        reports = run_all(cases, args)
        counts = work.count(reports, args, command) if args.count else ""
        text, passed = results.write(reports, args, args.seconds_before + time.monotonic() - begin)
        print(text + counts)
        if args.publish:
            n_files = publish.publish(args.out, args.publish, args.publish_as)
            print(f"{n_files} files in brief: {args.publish}")
    except modelfile.ModelError as e:
        print(f"\nmlff bench: error: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"\nmlff bench: error: {in_words(e)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nmlff bench: stopped; run the same command to continue with what {args.out} holds", file=sys.stderr)
        return 1
    return 0 if passed else 3
