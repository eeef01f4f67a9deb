"""A student and the teacher that labelled it run molecular dynamics in LAMMPS: `make demo` calls this.

Each model runs a deck of examples/lammps_inputs (in.crystal_nvt; in.water_nvt, 64 molecules; 300 K) in the LAMMPS of
.venv, profiled step by step by fix mlffprof. Then both models are evaluated on the same frames of the teacher's
trajectory. Prints the cost of each, how well they agree, and the verdict of the student's certificate. Writes a plot
and the page of `mlff report`. If one model is missing in models/, a line names it and the other one runs alone.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np

from mlff_tools.bench import profiles
from mlff_tools.model.lammps import LammpsError, find_lmp, find_plugin, quoted, variable
from mlff_tools.model.modelfile import ModelError, find_model, load_yaml
from mlff_tools.report import style
from mlff_tools.report.page import Folder, page
from mlff_tools.train.teachers import network_digest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DECKS = os.path.join(ROOT, "examples", "lammps_inputs")
MODELS = os.path.join(ROOT, "models")
ROLES = ("teacher", "student")

CRYSTAL = """lattice {lattice} {edge}
region box block 0 {copies} 0 {copies} 0 {copies}
create_box {types} box
create_atoms 1 box {sites}
{masses}"""
RERUN = """units metal
atom_style atomic
{box}
plugin load {plugin}
pair_style mlff
pair_coeff * * {model} {elements}
neighbor 1.0 bin
thermo_style custom step pe
thermo_modify format float %.12g
thermo 1
dump f all custom {every} {out} id type x y z fx fy fz
dump_modify f sort id format float %.10g
rerun {frames} dump x y z
"""


@dataclasses.dataclass(frozen=True)
class Material:
    """What runs: its deck with variables, the commands that make the same box, the elements of the types."""

    name: str
    text: str
    deck: str
    box: str
    elements: tuple
    timestep: float  # fs, as in the deck
    teacher: str
    student: str
    variables: dict = dataclasses.field(default_factory=dict)
    unit: tuple = ("atom", 1)  # what energies are given for, and its atoms
    seen: str = None  # the element of the radial distribution; None: the only one


def crystal(name, element, text, student, teacher="nequix-oam-1-pft", **variables):
    """student, teacher: names of models."""
    variables["element"] = element
    elements, sites = tuple(element.split()), "basis 5 2 basis 6 2 basis 7 2 basis 8 2" if "mass2" in variables else ""
    masses = "\n".join(f"mass {k + 1} {variables[key]}" for k, key in enumerate(("mass", "mass2")[: len(elements)]))
    box = CRYSTAL.format(**variables, types=len(elements), sites=sites, masses=masses)
    return Material(name, text, "in.crystal_nvt", box, elements, 1.0, teacher, student, variables)


MATERIALS = {
    "water": Material(
        "liquid water",
        "64 water molecules",
        "in.water_nvt",
        "read_data data.water64",
        ("H", "O"),
        0.5,
        "ani-2x",
        "water-xs",
        unit=("molecule", 3),
        seen="O",
    ),
    "Si": crystal(
        "silicon", "Si", "64 atoms of silicon", "silicon-m", mass=28.085, lattice="diamond", edge=5.431, copies=2
    ),
    "GaAs": crystal(
        "gallium arsenide",
        "Ga As",
        "64 atoms of gallium arsenide",
        "gaas-r2scan-m",
        "tensornet-matpes-r2scan",
        mass=69.723,
        mass2=74.922,
        lattice="diamond",
        edge=5.653,
        copies=2,
    ),
    "Al": crystal(
        "aluminium", "Al", "32 atoms of aluminium", "aluminium-m", mass=26.982, lattice="fcc", edge=4.05, copies=2
    ),
    "Fe": crystal("iron", "Fe", "54 atoms of bcc iron", "iron-m", mass=55.845, lattice="bcc", edge=2.87, copies=3),
}


class DemoError(Exception):
    """An error that ends the demo. Its text contains the remedy."""


# ---- running LAMMPS ------------------------------------------------------------------------------------------------


class Progress:
    """One line that shows how far a run is; on a terminal it is rewritten in place, otherwise printed every quarter."""

    def __init__(self, label, steps):
        self.label, self.steps, self.live, self.shown = label, steps, sys.stdout.isatty(), -1
        self.begin = time.monotonic()

    def update(self, step, temperature):
        quarter = 4 * step // self.steps
        text = (
            f"  {self.label:8s} step {step:6d} of {self.steps}   T {temperature:5.1f} K   "
            f"{time.monotonic() - self.begin:6.1f} s"
        )
        if self.live:
            print("\r" + text, end="\n" if step >= self.steps else "", flush=True)
        elif quarter > self.shown:
            print(text, flush=True)
        self.shown = quarter


def lammps(command, log, on_row=None):
    """Runs LAMMPS, gives every line of thermo output to on_row, keeps all in `log`; returns the text."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    lines = []
    with (
        open(log, "w", encoding="utf-8") as f,
        subprocess.Popen(
            command,
            cwd=DECKS,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        for line in process.stdout:
            f.write(line)
            lines.append(line)
            if on_row and re.match(r"\s*\d+(\s+[-+.\deE]+)+\s*$", line):
                on_row(line)
    text = "".join(lines)
    if process.returncode:
        errors = [line.strip() for line in lines if "ERROR" in line] or ["".join(lines[-5:])]
        raise DemoError(f"LAMMPS stopped: {errors[0]}\nAll it said is in {log}")
    return text


def simulate(role, model, args):
    """One NVT run. Returns a dict: thermo [rows, 7], ms per step, n_atoms, the report of fix mlffprof."""
    place = os.path.join(args.out, role)
    os.makedirs(place, exist_ok=True)
    thermo = max(1, args.steps // 100)
    profile = os.path.join(place, "profile.json")
    command = [args.lmp, "-in", args.of.deck, "-log", "none", "-nonbuf", "-var", "profile", variable(profile)]
    for name, value in (
        ("model", variable(model)),
        ("plugin", variable(args.plugin)),
        ("steps", args.steps),
        ("thermo", thermo),
        ("every", args.every),
        ("warmup", min(50, args.steps // 5)),
        ("frames", 1),
        ("dump", variable(os.path.join(place, "frames.dump"))),
        *args.of.variables.items(),
    ):
        command += ["-var", name, str(value)]
    rows, progress = [], Progress(role, args.steps)

    def on_row(line):
        rows.append([float(x) for x in line.split()])
        progress.update(int(rows[-1][0]), rows[-1][2])

    text = lammps(command, os.path.join(place, "log.txt"), on_row)
    loop = re.search(r"Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", text)
    if not loop or not rows:
        raise DemoError(f"LAMMPS ended without its timing line; see {place}/log.txt")
    return {
        "thermo": np.array(rows),
        "n_atoms": int(loop[4]),
        "ms": 1000 * float(loop[1]) / max(1, int(loop[3])),
        "frames": os.path.join(place, "frames.dump"),
        "profile": profiles.read(profile),
    }


def evaluate(role, model, frames, args):
    """Energies [F] and forces [F, N, 3] of a model on the frames of a dump."""
    place = os.path.join(args.out, role)
    deck, out = os.path.join(place, "in.rerun"), os.path.join(place, "forces.dump")
    with open(deck, "w", encoding="utf-8") as f:
        names = " ".join(args.of.elements)
        script = RERUN.format(
            box=args.of.box,
            elements=names,
            plugin=quoted(args.plugin),
            model=quoted(model),
            every=args.every,
            out=quoted(out),
            frames=quoted(frames),
        )
        f.write(script)
    rows = []
    lammps(
        [args.lmp, "-in", deck, "-log", "none"],
        os.path.join(place, "rerun.txt"),
        lambda line: rows.append(line.split()),
    )
    values = read_dump(out)[2][:, :, 3:]
    energies = np.array([float(r[1]) for r in rows])
    if len(energies) != len(values):
        raise DemoError(
            f"the rerun gave {len(energies)} energies and {len(values)} frames of forces; see {place}/rerun.txt"
        )
    return energies, values


def read_dump(path):
    """Cell edge [F] of a cubic box, types [N], values [F, N, columns after id, type and element]."""
    with open(path, encoding="ascii") as f:
        frames = [frame.split("ITEM: ATOMS ") for frame in f.read().split("ITEM: TIMESTEP\n")[1:]]
    names = frames[0][1].split("\n", 1)[0].split()
    kept = [k for k, name in enumerate(names) if name not in ("id", "type", "element")]
    rows = [atoms.split("ITEM:")[0].splitlines()[1:] for _, atoms in frames]
    table = np.array([[row.split() for row in frame] for frame in rows])
    boxes = [head.split("ITEM: BOX BOUNDS")[1].splitlines()[1] for head, _ in frames]
    edges = np.array([np.diff(np.array(box.split(), float))[0] for box in boxes])
    return edges, table[0, :, names.index("type")].astype(int), table[:, :, kept].astype(float)


# ---- results --------------------------------------------------------------------------------------------------------


def rdf(path, kind, bins=80):
    """Radial distribution function of atoms of one type: r [bins], g [bins], up to half the box."""
    edges, types, values = read_dump(path)
    chosen = values[:, types == kind, :3]
    n, limit = chosen.shape[1], edges.min() / 2
    counts, volume = np.zeros(bins), 0.0
    borders = np.linspace(0.0, limit, bins + 1)
    for edge, x in zip(edges, chosen):
        d = x[:, None] - x[None]
        d -= edge * np.round(d / edge)
        counts += np.histogram(np.sqrt((d**2).sum(-1))[np.triu_indices(n, 1)], borders)[0]
        volume += edge**3
    shell = 4 / 3 * np.pi * np.diff(borders**3)
    density = n * (n - 1) / 2 / (volume / len(edges))
    return (borders[1:] + borders[:-1]) / 2, counts / (len(edges) * density * shell)


def tail(run):
    p = run["profile"]
    return " ".join(f"{p[key] / p['mean_latency_ms']:.2f}x" for key in ("p95_latency_ms", "p99_latency_ms"))


def memory(run):
    host = profiles.get(run["profile"], "memory", "host") or {}
    verdict, growth = host.get("verdict"), profiles.number(host.get("delta_bytes"))
    return "not measured" if growth is None else f"{verdict}, {growth / 1e6:.1f} MB"


def drift(run):
    value = profiles.number(run["profile"]["drift"])
    error = profiles.get(run["profile"], "energy", run["profile"]["drift_of"] or "", "drift_error")
    if value is None:
        return "not measured"
    digits = 2 if not error else min(6, max(1, 1 - math.floor(math.log10(1000 * error))))  # two of the error
    spread = "" if error is None else f" +- {1000 * error:.{digits}f}"
    return f"{1000 * value:+.{digits}f}{spread} meV/atom/ps"


def table(runs, agreement, args):
    """The table that the demo prints, as text."""
    rows = [("", *runs), ("model", *[os.path.basename(getattr(args, role)) for role in runs])]

    def row(name, value):
        rows.append((name, *[value(run) for run in runs.values()]))

    row("ms per step", lambda r: f"{r['ms']:.2f}")
    row("us per atom and step", lambda r: f"{1000 * r['ms'] / r['n_atoms']:.1f}")
    row(f"ns per day ({args.of.timestep:g} fs)", lambda r: f"{args.of.timestep * 86.4 / r['ms']:.3f}")
    row("P95 and P99 of a step, over mean", tail)
    row("memory, growth after warm-up", memory)
    row("drift of the conserved quantity", drift)
    if agreement:
        row("speed-up", lambda r: f"{runs['teacher']['ms'] / r['ms']:.1f}x")
    row("mean temperature, K", lambda r: f"{r['thermo'][:, 2].mean():.0f}")
    widths = [max(len(x[k]) for x in rows) for k in range(len(rows[0]))]
    lines = [
        "  " + r[0].ljust(widths[0]) + "   " + "   ".join(x.rjust(w) for x, w in zip(r[1:], widths[1:])) for r in rows
    ]
    if not agreement:
        return "\n".join(lines)
    energy, spread, force, typical = agreement
    lines += [
        "",
        f"  student against teacher on {args.frames} frames of the teacher's trajectory:",
        f"    forces    RMSE {force:.1f} meV/A   (RMS force {typical:.0f} meV/A)",
        f"    energies  mean difference {energy:+.2f} meV/atom, spread around it {spread:.2f} meV/atom",
    ]
    return "\n".join(lines)


def agree(runs, args):
    """Mean and spread of the energy difference (meV/atom), force RMSE and the teacher's RMS force (meV/A); None for a
    teacher alone."""
    if len(runs) < 2:
        return None
    print("  both models on the same frames ...", flush=True)
    teacher, student = [evaluate(role, getattr(args, role), runs["teacher"]["frames"], args) for role in ROLES]
    args.frames = len(teacher[0])
    difference = 1000 * (student[0] - teacher[0]) / runs["teacher"]["n_atoms"]
    return (
        difference.mean(),
        difference.std(),
        1000 * np.sqrt(((student[1] - teacher[1]) ** 2).mean()),
        1000 * np.sqrt((teacher[1] ** 2).mean()),
    )


def plot(runs, of, path):
    """Temperature, energy, cost and structure of the runs in one picture."""
    look = {  # the teacher's line is seen under the student's
        "teacher": {"color": style.TEACHER, "linewidth": 3, "alpha": 0.6},
        "student": {"color": style.STUDENT, "linewidth": 1},
    }
    unit, seen = of.unit, of.seen or of.elements[0]
    with style.drawing(path, (9, 6), 2, 2) as ((a, b), (c, d)):
        for role in runs:
            t = runs[role]["thermo"]
            ps, units = t[:, 1] - t[0, 1], runs[role]["n_atoms"] / unit[1]
            a.plot(ps, t[:, 2], **look[role], label=role)
            b.plot(ps, 1000 * (t[:, 3] - t[0, 3]) / units, **look[role], label=role)
            c.bar(role, runs[role]["ms"], color=look[role]["color"])
            c.text(role, runs[role]["ms"], f"{runs[role]['ms']:.3g} ms", ha="center", va="bottom")
            r, g = rdf(runs[role]["frames"], of.elements.index(seen) + 1)
            d.plot(r, g, **look[role], label=role)
        a.set(title="Temperature", xlabel="time (ps)", ylabel="K")
        b.set(title="Potential energy from the common start", xlabel="time (ps)", ylabel=f"meV per {unit[0]}")
        c.set(title=f"Cost of a step, {runs[role]['n_atoms']} atoms, one core", ylabel="ms")
        c.margins(y=0.15)
        d.set(title=f"{seen}-{seen} radial distribution", xlabel="r (A)", ylabel="g(r)", xlim=(2.0, None))
        for axis in (a, b, d):
            axis.legend()


# ---- program --------------------------------------------------------------------------------------------------------


def choose_models(args):
    """Completes args.teacher and args.student with those of the material; None for one that is not in models/."""
    for role in ROLES:
        given, own = getattr(args, role), os.path.join(MODELS, f"{getattr(args.of, role)}.yaml")
        try:
            path = os.path.abspath(find_model(given)) if given else own if os.path.exists(own) else None
        except ModelError as e:
            raise DemoError(f"{role}: {e}; give one with make demo {role.upper()}=NAME_OR_FILE") from e
        setattr(args, role, path)
    missing = [role for role in ROLES if not getattr(args, role)]
    names = [f"{getattr(args.of, role)} ({role.upper()}=FILE takes yours; docs/teachers)" for role in missing]
    if missing == list(ROLES):
        raise DemoError(f"models/ holds neither {names[0]} nor {names[1]}")
    if missing:
        print(f"models/ does not hold the {missing[0]} {names[0]}: the other one runs alone.")


def certificate(model):
    """The verdict of a model's certificate, certificates/NAME.json, in one line."""
    name = os.path.splitext(os.path.basename(model))[0]
    path = os.path.join(os.path.dirname(model), "certificates", name)
    if not os.path.exists(path + ".json"):
        return f"{name} has no certificate; mlff certify makes one (docs/certificate.md)"
    with open(path + ".json", encoding="utf-8") as f:
        found = json.load(f)
    head = load_yaml(model)
    same_header = found["model"].get("header_sha256") in (None, head.get("header_sha256"))
    if found["model"]["sha256"] != network_digest(head) or not same_header:
        return f"{name}: {path}.json is the certificate of another network"
    return f"certificate of {name}: {found['verdict_text']} ({found['context']['date']}, {path}.json)"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--material", choices=MATERIALS, help="default: the first one of the teacher, else Si")
    parser.add_argument("--teacher", help="name or file of a model (default: the one that labelled the student)")
    parser.add_argument("--student", help="name or file of a model (default: the shipped student of the material)")
    parser.add_argument("--steps", type=int, default=2000, help="MD steps for each (default: 2000)")
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--out", help="directory for results (default: demo in the build directory)")
    args = parser.parse_args()
    if args.steps < 10:
        parser.error("--steps must be 10 or more")
    args.build = os.path.abspath(args.build)
    args.out = os.path.abspath(args.out or os.path.join(args.build, "demo"))
    args.plugin, args.lmp = find_plugin(args.build), find_lmp()
    args.every = max(1, args.steps // 200)
    labelled = [of for of in MATERIALS.values() if of.teacher == args.teacher]
    args.of = MATERIALS[args.material] if args.material else (labelled or [MATERIALS["Si"]])[0]
    choose_models(args)
    return args


def main():
    args = arguments()
    shutil.rmtree(args.out, ignore_errors=True)
    os.makedirs(args.out)
    print(f"{args.of.text}, 300 K, {args.steps} steps of {args.of.timestep:g} fs in LAMMPS, one core:", flush=True)
    runs = {role: simulate(role, getattr(args, role), args) for role in ROLES if getattr(args, role)}
    text = table(runs, agree(runs, args), args)
    print("\n" + text)
    picture = os.path.join(args.out, "demo.png")
    plot(runs, args.of, picture)
    with open(os.path.join(args.out, "demo.txt"), "w", encoding="utf-8") as f:
        f.write(text + "\n")
    report = os.path.join(args.out, "report.html")
    profiles.write_text(report, page(Folder(args.out), f"{' and '.join(runs).capitalize()} on {args.of.name}"))
    print(
        f"\n  plot:  {picture}\n  table: {os.path.join(args.out, 'demo.txt')}\n"
        f"  page:  {report}   (latency, tail, parts of a step, memory, energy)"
    )
    if args.student:
        print(f"\n  {certificate(args.student)}")


if __name__ == "__main__":
    try:
        main()
    except (DemoError, LammpsError, profiles.ProfileError) as e:
        sys.exit(f"demo: {e}")
    except KeyboardInterrupt:
        sys.exit("demo: stopped")
