"""First contact with a GPU: what is right on it, how fast it is, and why. See run.sh, which calls this."""

import argparse
import os
import shutil
import signal
import subprocess
import sys

import cases
import orb_weights
import pack
import parts
import session as session_module
import steps
import summary

ROOT = pack.ROOT
LIMIT = 570  # s of a call; SECONDS_LEFT changes it


class Place:
    """Where programs and models are: in a pack, or built here."""

    def __init__(self, folder, manifest, programs=None):
        self.manifest, self.models = manifest, os.path.join(folder, "models")
        self.mlff = os.path.join(programs or folder, "mlff")
        self.tests, self.test_folder = os.path.join(programs or folder, "tests"), os.path.join(ROOT, "tests")
        self.lammps = None if programs else os.path.join(folder, "lammps")  # with the plugin
        path = [os.path.join(folder, "deps", "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        self.env = {
            "LD_LIBRARY_PATH": ":".join(p for p in path if p),
            "MLFF_SHARED_DIR": os.path.join(folder, "shared"),
            "MLFF_TEST_SOURCE_DIR": ROOT,
        }


def prepare(session, args):
    """The programs of the pack; where there is none, where it was made from other sources or does not start, what is
    built here."""
    folder, manifest, why = None, None, f"there is no {args.pack_file}"
    if os.path.exists(args.pack_file):
        folder, manifest = pack.unpack(args.pack_file, os.path.join(args.work, "unpacked"))
        place = Place(folder, manifest)
        if manifest["sources"] != pack.source_hash():
            why = "the pack was made from other sources than these"
        else:
            done = session.run("start", [place.mlff, "--version"], 30, place.env)
            why = "" if done.code == 0 else f"the pack's programs do not start here: {done.why()}"
    if why:
        session.note(why + ": building")
        place = build(session, args, folder)
    weights = os.path.join(place.models, pack.ORB + ".json")
    if os.path.exists(weights):
        orb_weights.make(weights)
    return place


def build(session, args, folder):
    """Without a LAMMPS; libyaml, Check and models are the pack's where there is one."""
    where = os.path.join(args.work, "simulated" if args.simulated else "cuda")
    prefix = os.path.join(folder, "deps") if folder else None
    if not args.simulated:
        os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    configure = pack.configure(where, args.simulated, None, prefix, "native")
    jobs = str(max(2, os.cpu_count() or 2))
    make = ["cmake", "--build", where, "-j", jobs, *pack.targets(args.simulated, False)]
    for name, command in (("configure", configure), ("build", make)):
        done = session.run(name, command, cases.PREPARE.limit)
        if done.code != 0:
            raise RuntimeError(f"{name} failed: {done.why()}; its log is in logs")
    if not folder:
        folder = os.path.join(where, "pack")
        small = ["--small"] if args.simulated else []
        done = session.run(
            "models", [sys.executable, os.path.join(pack.HERE, "shapes.py"), os.path.join(folder, "models"), *small], 60
        )
        if done.code != 0:
            raise RuntimeError(f"models could not be made: {done.why()}; `run.sh --pack` on another machine makes them")
    return Place(folder, {"suites": pack.suites(args.simulated)}, where)


def functions(call):
    """What makes each part but the first, which finds the programs."""

    def measure(part, table):
        wanted = list(cases.small(part.cases)) if call.simulated else part.cases
        return lambda: parts.measure_cases(call, wanted, table)

    return {
        cases.DEVICE: lambda: parts.device(call),
        cases.FIRST: measure(cases.FIRST, "cases"),
        cases.STEPS: lambda: parts.whole_steps(call),
        cases.EAGER: lambda: parts.torch(call, "eager", cases.EAGER.limit),
        cases.KERNELS: lambda: parts.profile_kernels(call),
        cases.TRACES: lambda: parts.traces(call),
        cases.SECOND: measure(cases.SECOND, "cases_2"),
        cases.COMPILED: lambda: parts.torch(call, "compiled", cases.COMPILED.limit),
        cases.SUITES: lambda: parts.suites(call),
        cases.SANITIZERS: lambda: parts.sanitizers(call),
    }


def one_call(kind, args):
    """A call of --time or --check; True when every part was done."""
    work = os.path.join(args.work, "work-" + kind)
    for name in ("logs", "profiles"):
        shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    session = session_module.Session(kind, args.out, work, args.seconds)
    session.summarise = summary.lines
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by a signal"))
    state = "stopped"
    try:
        found = []
        prepared, *others = cases.PLAN[kind]
        if args.only:
            others = [part for part in others if part.name in args.only]
        session.part(prepared, lambda: found.append(prepare(session, args)))
        if found:
            made_by = functions(parts.Call(session, found[0], args.simulated))
            for part in others:
                session.part(part, made_by[part])
        state = "complete" if found else "stopped: no programs"
    finally:
        session.close(state)
    print(f"results: {args.out}", flush=True)
    return state == "complete" and not any(part["status"].startswith("failed") for part in session.mine["parts"])


def make_pack(args):
    print("building", flush=True)
    python = os.path.join(ROOT, ".venv", "bin", "python")
    size, own = pack.make(
        args.pack_file,
        os.path.join(args.work, "simulated" if args.simulated else "cuda"),
        args.simulated,
        python if os.path.exists(python) else sys.executable,
        args.preset,
        args.architectures,
    )
    print(f"{args.pack_file}: {size / 1e6:.1f} MB; with the repository's files {(size + own) / 1e6:.1f} MB travel")


def print_plan():
    for kind, plan in cases.PLAN.items():
        print(f"{'--' + kind:32s} cases  estimated s (H100)")
        for part in plan:
            print(f"  {part.name:30s} {len(part.cases) or '':>5}  {part.estimate():6.0f}")
        print(f"  {'together':30s} {'':5}  {sum(part.estimate() for part in plan):6.0f}  of {LIMIT}")


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    parser.add_argument("out", nargs="?", help="folder for the results")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--time", action="store_true", help="measurements alone")
    what.add_argument("--check", action="store_true", help="suites and compute-sanitizer alone")
    what.add_argument("--pack", action="store_true", help="make the pack, and stop")
    what.add_argument("--plan", action="store_true", help="print what is done, and about how long it takes")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts to do, by their names in --plan")
    parser.add_argument("--simulated", action="store_true", help="everything with the simulated device, small")
    parser.add_argument(
        "--seconds", type=float, default=float(os.environ.get("SECONDS_LEFT", LIMIT)), help="limit of a call (570)"
    )
    parser.add_argument("--pack-file", default=os.environ.get("MLFF_GPU_PACK", os.path.join(ROOT, "gpu-pack.tar.xz")))
    parser.add_argument(
        "--work", default=os.environ.get("MLFF_GPU_WORK", os.path.join(ROOT, "build-gpu")), help="for everything else"
    )
    parser.add_argument(
        "--preset", type=int, default=8, help="of xz, for the pack; below 7 it does not see that the programs are alike"
    )
    parser.add_argument(
        "--architectures", help="of the pack's GPU code, as CMake has them (80-real;90a-real;90-virtual)"
    )
    args = parser.parse_args()
    if args.plan:
        print_plan()
        return 0
    kinds = ["time"] if args.time else ["check"] if args.check else ["time", "check"]
    names = [part.name for kind in kinds for part in cases.PLAN[kind][1:]]
    for name in args.only or ():
        if name not in names:
            parser.error(f"--only: there is no part '{name}' in this call; there are " + "; ".join(names))
    if not args.pack and not args.out:
        parser.error("a folder for the results is missing")
    try:
        if args.pack:
            make_pack(args)
            return 0
        args.out = os.path.abspath(args.out)
        well = [one_call(kind, args) for kind in kinds]  # the second also where the first did not go well
        return 0 if all(well) else 1
    except (steps.Failed, subprocess.SubprocessError, OSError) as e:
        print(f"run.sh: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
