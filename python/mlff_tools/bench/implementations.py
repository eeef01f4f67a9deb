"""One model in all implementations that are here, interleaved: mlff bench --compare-all.

Rows: the network of the training in PyTorch, eager and compiled (PaiNN, where MLFF_TORCH_PYTHON or this Python has
PyTorch), and this engine on one core in double precision, on each kernel path in single precision, and mixed; on a GPU
where there is one. All evaluate energy and forces of one structure; lists of pairs are made before and are not timed.
Each round times every row once, in turn.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np

from .. import PACKAGE
from ..model import engine, modelfile
from ..model.lammps import cpu_name
from ..model.modelfile import ModelError
from ..model.structures import write_xyz
from ..train import build, job
from ..train.lammps_data import read_data
from ..train.process import Program
from . import profiles
from .cases import SYSTEMS, model_of

FORMAT, ROUNDS, SECONDS, PATIENCE = "mlff-implementations/1", 9, 0.3, 600.0
VARIANTS = ("eager", "compiled")  # of PyTorch
ENERGY, FORCES = 1e-5, 1e-3  # eV/atom and eV/A by which single precision may differ from double
# Small and medium sizes of in.bench: data files in its folder, or lattice, constant in A, cells along each edge
STRUCTURES = {
    "water": ("data.water21", "data.water64"),
    "benzene": ("data.benzene4", "data.benzene16"),
    "silicon": ("diamond", 5.431, (2, 3)),
    "gaas": ("zincblende", 5.653, (2, 3)),
    "nacl": ("rocksalt", 5.64, (2, 3)),
    "aluminium": ("fcc", 4.05, (2, 4)),
    "copper": ("fcc", 3.615, (2, 4)),
    "iron": ("bcc", 2.855, (3, 5)),
}
RATTLE = 0.05  # A, of crystals


def structure(system, decks, size="medium"):
    """Elements, positions and cell of a system of in.bench at its small or medium size."""
    made, which = STRUCTURES[system], ("small", "medium").index(size)
    if len(made) == 2:
        return read_data(os.path.join(decks, made[which]))
    lattice, constant, cells = made
    n = cells[which]
    crystal = {"lattice": lattice, "elements": SYSTEMS[system][2].split(), "constant": constant, "supercell": [n] * 3}
    (frame,) = build.bases({"crystal": crystal}, system)
    return build.disturbed(frame, 0, 0.0, RATTLE, 1)


class Row:
    """An implementation. `timed(n)` gives the median time in ms of n evaluations."""

    def __init__(self, name, timed):
        self.name, self.timed, self.rounds, self.calls = name, timed, [], 1

    def warm_up(self):
        first = self.timed(2)
        self.calls = max(2, min(2000, round(1000.0 * SECONDS / first)))

    def measure(self):
        self.rounds.append(self.timed(self.calls))


class Ours:
    """The rows of this engine, which one process of `mlff batch` evaluates. answers: {row: what it printed last}"""

    def __init__(self, program, model, xyz):
        self.model, self.xyz, self.program = model, xyz, Program([program, "batch"], "mlff batch")
        self.answers = {}
        path = os.path.join(os.path.dirname(xyz), "check.json")
        subprocess.run([program, "check", "--json", path], stdout=subprocess.DEVNULL, check=False)
        with open(path, encoding="utf-8") as f:
            self.machine = json.load(f)

    def rows(self, skipped):
        """The rows that this processor and its GPU have; skipped[name] says why there is no other."""
        paths = self.machine["kernels"].split()
        wanted = [("fp64", "auto"), *(("fp32", path) for path in paths), ("mixed", "auto")]
        if " yes" not in self.machine["mixed"]:
            wanted.pop()
            skipped["mlff, mixed"] = self.machine["mixed"]
        out = [self.row(f"mlff, {p}, {k}" if k != "auto" else f"mlff, {p}", "cpu", p, k) for p, k in wanted]
        if self.machine["cuda"]["n_usable"]:
            out += [self.row(f"mlff, {p}, GPU", "cuda", p, "auto") for p in ("fp32", "mixed")]
        return out

    def row(self, name, device, precision="fp32", kernels="auto", more=""):
        """A row of `mlff time`. more: further options."""
        words = f'time "{self.model}" "{self.xyz}" --device {device} --precision {precision} --kernels {kernels} {more}'

        def timed(n):
            self.answers[name] = self.ask(f"{words} --json --calls {n}")
            return self.answers[name]["median_ms"]

        return Row(name, timed)

    def ask(self, words):
        """The JSON of a command; ModelError with what it says when it fails."""
        lines, end = self.program.batch(words, time_limit())
        if end["status"]:
            raise ModelError(end["error"])
        return json.loads(lines[0])


def time_limit():
    return time.monotonic() + PATIENCE


class Torch:
    """A row of PyTorch, a process of its own."""

    def __init__(self, python, model, xyz, variant):
        words = [python, "-m", "mlff_tools.train.torch_painn", model, xyz, variant]
        places = [os.path.dirname(PACKAGE), os.environ.get("PYTHONPATH")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), "OMP_NUM_THREADS": "1"}
        self.program = Program(words, f"PyTorch, {variant}", env=env)
        self.first = json.loads(self.program.line(time_limit()))

    def timed(self, n):
        self.program.send(f"{n}\n")
        return 1000.0 * statistics.median(json.loads(self.program.line(time_limit()))["seconds"])


def agrees(head, frame, first, ours):
    """ModelError where PyTorch and this engine compute different networks."""
    energy, forces, _ = ours
    offsets = sum(head["energy_offsets"][e] for e in frame["elements"])
    off = abs(first["energy"] + offsets - energy) / len(frame["elements"])
    worst = float(np.abs(np.array(first["forces"]) - forces).max())
    if not (off < ENERGY and worst < FORCES):
        raise ModelError(f"PyTorch and this engine differ by {off:.2g} eV/atom and {worst:.2g} eV/A")


def measure(model, frame, program=None, python=None, write=print):
    """What was measured, a mapping. model: path; frame: elements, positions, cell."""
    program, head, skipped, version = engine.find_program(program), modelfile.load_yaml(model), {}, None
    started = []
    with tempfile.TemporaryDirectory(prefix="mlff-compare-") as place:
        xyz = os.path.join(place, "structure.xyz")
        write_xyz(xyz, [frame])
        try:
            ours = Ours(program, os.path.abspath(model), xyz)
            started.append(ours.program)
            (reference,), _ = engine.evaluate(model, [frame], "fp64", program)
            rows = []
            for variant in VARIANTS:
                try:
                    other = Torch(job.find_python(python), os.path.abspath(model), xyz, variant)
                    started.append(other.program)
                    agrees(head, frame, other.first, reference)
                    version = other.first["torch"]
                    rows.append(Row(f"PyTorch {version}, {variant}", other.timed))
                except ModelError as e:
                    skipped[f"PyTorch, {variant}"] = str(e).strip().splitlines()[-1].split("Error: ")[-1]
            rows += ours.rows(skipped)
            for row in rows:
                row.warm_up()
            for k in range(ROUNDS):
                for row in rows:
                    row.measure()
                write(f"round {k + 1} of {ROUNDS}")
        finally:
            for one in started:
                one.stop()
    return {"rows": [described(row, rows[0], len(frame["elements"])) for row in rows], "skipped": skipped}


def described(row, first, n_atoms):
    low, middle, high = np.percentile(row.rounds, (25, 50, 75))
    ratios = [a / b for a, b in zip(first.rounds, row.rounds)]
    q = np.percentile(ratios, (25, 50, 75))
    return {
        "implementation": row.name,
        "median_ms": float(middle),
        "q25_ms": float(low),
        "q75_ms": float(high),
        "median_us_per_atom": float(1000 * middle / n_atoms),
        "speed_up": float(q[1]),
        "speed_up_q25": float(q[0]),
        "speed_up_q75": float(q[2]),
    }


def table(found):
    """Text of what measure() gives."""
    width = 2 + max(len(row["implementation"]) for row in found["rows"])
    lines = [f"{'':{width}s}{'median, ms':>12s}{'us/atom':>10s}{'speed-up':>10s}   quartiles"]
    for row in found["rows"]:
        quartiles = f"{row['speed_up_q25']:.3g} to {row['speed_up_q75']:.3g}"
        lines.append(
            f"{row['implementation']:{width}s}{row['median_ms']:12.4g}{row['median_us_per_atom']:10.4g}"
            f"{row['speed_up']:10.3g}   {quartiles}"
        )
    lines += [f"not measured: {name}: {why}" for name, why in found["skipped"].items()]
    return "\n".join(lines)


def main(models, systems, decks, out, python=None, write=print):
    """Measures each model in the first system that it covers, prints the tables and writes OUT/implementations.json."""
    found = []
    for model in models:
        covered = ((s, model_of(s, model)) for s in STRUCTURES if not systems or s in systems)
        system, path = next(((s, path) for s, path in covered if path and os.path.exists(path)), (None, None))
        if not path:
            raise ModelError(f"{model}: none of {', '.join(systems or STRUCTURES)} is a system of this model")
        frame = structure(system, decks)
        name = os.path.splitext(os.path.basename(path))[0]
        write(f"{name}, {len(frame['elements'])} atoms of {system}, {ROUNDS} rounds")
        measured = measure(path, frame, python=python, write=write)
        write(table(measured))
        found.append(
            {"model": name, "sha256": modelfile.load_yaml(path)["weights"]["sha256"], "system": system, **measured}
        )
        found[-1]["n_atoms"] = len(frame["elements"])
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "implementations.json")
    profiles.write_json(path, {"format": FORMAT, "processor": cpu_name(), "rounds": ROUNDS, "models": found})
    write(f"written: {path}")
    return 0
