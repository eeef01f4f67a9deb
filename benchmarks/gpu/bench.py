"""Compares GPU and CPU, and measures force evaluations on a GPU, with the program `mlff`. Called by run.sh; needs no
packages.

  bench.py compare --mlff PROGRAM --models FOLDER                              fails when energies or forces differ
  bench.py water   --structures FOLDER                                         writes the boxes of water
  bench.py time    --mlff PROGRAM --models FOLDER --structures FOLDER --seconds N --out FILE.json
  bench.py join    PART.json ... [--summary FILE] --out FILE.json              all results in one file

A time is that of mlff_model_evaluate, the C API that pair_style mlff calls, copies of positions and forces included;
steps of LAMMPS itself are not in it, as LAMMPS need not be on the machine.
"""

import argparse
import glob
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

# molecules along the edges: 24, 72, 192, 1029, 10k, 98k, 986k atoms
BOXES = ((2, 2, 2), (2, 3, 4), (4, 4, 4), (7, 7, 7), (15, 15, 15), (32, 32, 32), (69, 69, 69))
REPLICAS = (16, 256)  # of the two smallest
MOST_CPU, MOST_FP64 = 1100, 11000  # atoms
MOST_CALLS, MOST_SECONDS = 500, 90  # of one case
# What is measured, the most telling first, each for all sizes and models:
# (device, precision, graph, fuse, replicas, most atoms)
ROUNDS = (("cuda", "fp32", "on", "on", 1, None), ("cuda", "mixed", "on", "on", 1, None),
          ("cuda", "fp32", "off", "on", 1, None), *(("cuda", "fp32", "on", "on", n, 100) for n in REPLICAS),
          ("cuda", "fp32", "on", "off", 1, None),
          ("cuda", "fp64", "on", "on", 1, MOST_FP64), ("cpu", "fp32", "on", "on", 1, MOST_CPU))
FIRST = ("water-benzene-student", "random-ani2x-8", "water-benzene-teacher", "random-ani2x-1")  # then the others
# Orb takes so many times longer per atom than the others, and is measured up to so many atoms, on GPU and CPU. Its
# fused operations are the same as plain ones, and its energy is of one system.
ORB, ORB_WORK, ORB_MOST = "random-orb-v2", 50, {"cuda": 11000, "cpu": 100}
EDGE = 3.104  # A, of a molecule's share of liquid water at 0.1 atoms per A^3
TOLERANCE = {"fp64": (1e-8, 1e-7), "fp32": (1e-5, 1e-3)}  # eV/atom, eV/A: see compare()
MOST_MIXED = 1e-4  # of the root mean square force


def water(path, sides, seed=1):
    """Water molecules on a lattice, each turned at random, as extended XYZ."""
    rng = random.Random(seed)
    (x, y, z), (a, b, c) = sides, (EDGE * n for n in sides)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{3 * x * y * z}\nLattice="{a} 0 0 0 {b} 0 0 0 {c}" pbc="T T T" '
                'Properties=species:S:1:pos:R:3\n')
        for n in range(x * y * z):
            at = [(k + 0.5) * EDGE for k in (n % x, n // x % y, n // x // y)]
            u, v = unit(rng), unit(rng)
            dot = sum(a * b for a, b in zip(u, v))
            w = [b - dot * a for a, b in zip(u, v)]
            size = math.sqrt(sum(x * x for x in w))
            half = math.radians(104.5 / 2)
            for name, sign in (("O", None), ("H", 1), ("H", -1)):
                r = at if sign is None else [
                    c + 0.96 * (math.cos(half) * a + sign * math.sin(half) * b / size) for c, a, b in zip(at, u, w)]
                f.write(f"{name} {r[0]:.6f} {r[1]:.6f} {r[2]:.6f}\n")


def unit(rng):
    while True:
        x = [rng.uniform(-1, 1) for _ in range(3)]
        size = math.sqrt(sum(c * c for c in x))
        if 0.1 < size < 1:
            return [c / size for c in x]


class Failed(Exception):
    """A call of the program that failed or took too long; the text is what it said."""


def call(arguments, seconds=None):
    """Standard output as JSON."""
    try:
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {seconds:.0f} s") from None
    if done.returncode:
        raise Failed(done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}")
    return json.loads(done.stdout)


def models(folder):
    """Model files, the most telling first."""
    def place(path):
        name = os.path.splitext(os.path.basename(path))[0]
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)
    return sorted(glob.glob(os.path.join(folder, "*.yaml")), key=place)


def is_orb(path):
    return os.path.splitext(os.path.basename(path))[0] == ORB


def is_left_out(case, n_all, model):
    """Whether a case tells nothing about this model, or takes too long."""
    device, _, _, fuse, n_replicas, _ = case
    return is_orb(model) and (fuse == "off" or n_replicas > 1 or n_all > ORB_MOST[device])


def compare(args, folder):
    """Every model and precision; the tolerances are those of the self-tests of the shipped models."""
    for side in args.sides:
        path = os.path.join(folder, f"water{side}.xyz")
        water(path, (side, side, side))
        for model in models(args.models):
            if is_orb(model) and side > min(args.sides):
                continue  # the CPU takes too long
            base = [args.mlff, "evaluate", model, path, "--json", "--forces", "--precision"]
            name = os.path.basename(model)
            for precision, (energy_tolerance, force_tolerance) in TOLERANCE.items():
                cpu = call([*base, precision, "--device", "cpu"])["structures"][0]
                gpu = call([*base, precision, "--device", "cuda"])["structures"][0]
                n = len(cpu["forces"])
                energy = abs(gpu["energy"] - cpu["energy"]) / n
                force = max(abs(a - b) for a, b in components(gpu, cpu))
                good = energy <= energy_tolerance and force <= force_tolerance
                print(f"{name} {precision} {n} atoms: energy {energy:.2e} eV/atom, forces {force:.2e} eV/A: "
                      f"{'ok' if good else 'DIFFERENT'}", flush=True)
                if not good:
                    sys.exit(1)
            plain = call([*base, "fp32", "--device", "cuda", "--fuse", "off", "--graph", "off"])["structures"][0]
            near_plain(call([*base, "fp32", "--device", "cuda"])["structures"][0], plain, name)
            near_single(call([*base, "mixed", "--device", "cuda"])["structures"][0], plain, name)


def components(a, b):
    """Pairs of the components of the forces."""
    return [(p, q) for x, y in zip(a["forces"], b["forces"]) for p, q in zip(x, y)]


def near_plain(fused, plain, name):
    """With and without fused operations: on the simulated device the same bits; on a real one compilers may round
    elsewhere."""
    if fused["energy"] == plain["energy"] and fused["forces"] == plain["forces"]:
        print(f"{name} fused: same bits", flush=True)
        return
    energy = abs(fused["energy"] - plain["energy"]) / len(plain["forces"])
    force = max(abs(p - q) for p, q in components(fused, plain))
    good = energy <= TOLERANCE["fp32"][0] and force <= TOLERANCE["fp32"][1]
    print(f"{name} fused: other bits, energy {energy:.2e} eV/atom, forces {force:.2e} eV/A: "
          f"{'ok' if good else 'DIFFERENT'}", flush=True)
    if not good:
        sys.exit(1)


def near_single(mixed, single, name):
    apart = sum((p - q) ** 2 for p, q in components(mixed, single))
    part = math.sqrt(apart / sum(q ** 2 for _, q in components(mixed, single)))
    print(f"{name} mixed: forces {part:.1e} from fp32: {'ok' if part <= MOST_MIXED else 'TOO FAR'}", flush=True)
    if not part <= MOST_MIXED:
        sys.exit(1)


def write_structures(folder, n_boxes):
    os.makedirs(folder, exist_ok=True)
    for sides in BOXES[:n_boxes]:
        path = os.path.join(folder, f"water{3 * sides[0] * sides[1] * sides[2]}.xyz")
        if not os.path.exists(path):
            water(path, sides)


def atoms_of(path):
    with open(path, encoding="utf-8") as f:
        return int(f.readline())


class Bench:
    """Cases one after another until the time is over. A case that fails, or that there was no time for, is a row that
    says so."""

    def __init__(self, args):
        self.args, self.end, self.rows = args, time.monotonic() + args.seconds, []
        self.seconds_per_atom = {}  # of a model's last case, all of it: the program's start and its list, too

    def run(self):
        paths = glob.glob(os.path.join(self.args.structures, "water*.xyz"))
        structures = sorted((atoms_of(path), path) for path in paths)
        for case in ROUNDS:
            most_atoms = case[-1]
            for n_atoms, path in structures:
                if most_atoms is None or n_atoms <= most_atoms:
                    for model in models(self.args.models):
                        self.measure(case, n_atoms, path, model)

    def measure(self, case, n_atoms, path, model):
        device, precision, graph, fuse, n_replicas, _ = case
        n_replicas = min(n_replicas, 2) if self.args.small else n_replicas
        n_all, most_calls = n_atoms * n_replicas, 3 if self.args.small else MOST_CALLS
        if is_left_out(case, n_all, model):
            return
        work = n_all * (ORB_WORK if is_orb(model) else 1)
        n_calls = max(min(10, most_calls), min(most_calls, 600000 // work))
        if is_orb(model) and device == "cpu":
            n_calls = min(n_calls, 10)
        row = {"model": os.path.splitext(os.path.basename(model))[0], "device": device, "precision": precision,
               "n_atoms": n_all, "n_replicas": n_replicas, "graph": graph, "fuse": fuse}
        left, begin = self.end - time.monotonic(), time.monotonic()
        if left < 1 + n_all * self.seconds_per_atom.get(row["model"], 0):
            row["left_out"] = "time"
        else:
            try:
                row.update(call([self.args.mlff, "time", model, path, "--json", "--device", device,
                                 "--precision", precision, "--graph", graph, "--fuse", fuse,
                                 "--replicas", str(n_replicas), "--calls", str(n_calls)], min(left, MOST_SECONDS)))
            except Failed as e:
                row["failed"] = str(e)[-500:]
            if n_all > 5000:
                self.seconds_per_atom[row["model"]] = (time.monotonic() - begin) / n_all
        self.rows.append(row)
        save(self.args.out, {"host": os.uname().nodename, "unix_time": time.time(), "rows": self.rows})
        show(row)


def show(row):
    result = row.get("failed", "left out: no time").splitlines()[0]
    if "median_ms" in row:
        result = f"median {row['median_ms']:9.4f} ms  {row['us_per_atom']:9.4f} us/atom"
    print(f"{row['n_atoms']:8d} atoms  {row['model']:24s} {row['device']:4s} {row['precision']:5s} "
          f"graph {row['graph']:3s} fuse {row['fuse']:3s} replicas {row['n_replicas']:3d}  {result}", flush=True)


def save(path, value):
    """Whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
    os.replace(path + ".new", path)


def join(args):
    """One file of parts named check.json, bench.json, torch.json; those that are missing are null."""
    out = {"mlff_time_is": "mlff_model_evaluate through the C API, with copies; no step of LAMMPS"}
    if args.summary:
        with open(args.summary, encoding="utf-8") as f:
            out["summary"] = f.read().splitlines()
    for path in args.parts:
        name = os.path.splitext(os.path.basename(path))[0]
        out[name] = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                out[name] = json.load(f)
    save(args.out, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("compare", "water", "time", "join"))
    parser.add_argument("parts", nargs="*", help="join: results to put into one file")
    parser.add_argument("--mlff", help="the program")
    parser.add_argument("--models", help="folder")
    parser.add_argument("--structures", help="folder")
    parser.add_argument("--small", action="store_true",
                        help="the smallest size, two replicas, few evaluations: for the simulated device")
    parser.add_argument("--summary", help="join: text whose lines are put into the result")
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 7], help="compare: molecules along an edge")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--out", default="gpu.json")
    args = parser.parse_args()
    if args.what == "compare":
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(args, folder)
            except Failed as e:
                sys.exit(str(e))
    elif args.what == "water":
        write_structures(args.structures, 1 if args.small else len(BOXES))
    elif args.what == "time":
        bench = Bench(args)
        bench.run()
        sys.exit(any("failed" in row for row in bench.rows))
    else:
        join(args)


if __name__ == "__main__":
    main()
