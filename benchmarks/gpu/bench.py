"""Compares GPU and CPU, and measures force evaluations on a GPU, with the program `mlff`. Called by run.sh; needs no
packages.

  bench.py compare --mlff PROGRAM --models FOLDER                              fails when energies or forces differ
  bench.py water   --structures FOLDER                                         writes the boxes of water
  bench.py time    --mlff PROGRAM --models FOLDER --structures FOLDER --seconds N --out FILE.json
  bench.py join    PART.json ... --out FILE.json                               all results in one file

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
EDGE = 3.104  # A, of a molecule's share of liquid water at 0.1 atoms per A^3
TOLERANCE = {"fp64": (1e-8, 1e-7), "fp32": (1e-5, 1e-3)}  # eV/atom, eV/A: see compare()
MOST_MIXED = 0.01  # of the root mean square force


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
                x = at if sign is None else [
                    c + 0.96 * (math.cos(half) * a + sign * math.sin(half) * b / size) for c, a, b in zip(at, u, w)]
                f.write(f"{name} {x[0]:.6f} {x[1]:.6f} {x[2]:.6f}\n")


def unit(rng):
    while True:
        x = [rng.uniform(-1, 1) for _ in range(3)]
        size = math.sqrt(sum(c * c for c in x))
        if 0.1 < size < 1:
            return [c / size for c in x]


def call(arguments):
    """Standard output as JSON; ends the program with the error when there is one."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}\n{done.stderr.decode('utf-8', 'replace')}")
    return json.loads(done.stdout)


def models(folder):
    return sorted(glob.glob(os.path.join(folder, "*.yaml")))


def compare(args, folder):
    """Every model and precision; the tolerances are those of the self-tests of the shipped models."""
    for side in args.sides:
        path = os.path.join(folder, f"water{side}.xyz")
        water(path, (side, side, side))
        for model in models(args.models):
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
            same_bits(call([*base, "fp32", "--device", "cuda"])["structures"][0], plain, name)
            near_single(call([*base, "mixed", "--device", "cuda"])["structures"][0], plain, name)


def components(a, b):
    """Pairs of the components of the forces."""
    return [(p, q) for x, y in zip(a["forces"], b["forces"]) for p, q in zip(x, y)]


def same_bits(fused, plain, name):
    """With and without fused operations and recorded steps."""
    if fused["energy"] != plain["energy"] or fused["forces"] != plain["forces"]:
        sys.exit(f"{name}: fused operations give other bits than plain ones")


def near_single(mixed, single, name):
    apart = sum((p - q) ** 2 for p, q in components(mixed, single))
    part = math.sqrt(apart / sum(q ** 2 for _, q in components(mixed, single)))
    print(f"{name} mixed: forces {100 * part:.3f} % from fp32: {'ok' if part <= MOST_MIXED else 'TOO FAR'}", flush=True)
    if not part <= MOST_MIXED:
        sys.exit(1)


def cases(n_atoms):
    """(device, precision, graph, fuse, replicas) for a structure."""
    out = [("cuda", "fp32", "on", "on", 1), ("cuda", "mixed", "on", "on", 1), ("cuda", "fp32", "off", "on", 1),
           ("cuda", "fp32", "on", "off", 1)]
    if n_atoms <= MOST_FP64:
        out.append(("cuda", "fp64", "on", "on", 1))
    if n_atoms <= MOST_CPU:
        out.append(("cpu", "fp32", "on", "on", 1))
    if n_atoms < 100:
        out += [("cuda", "fp32", "on", "on", n) for n in REPLICAS]
    return out


def write_structures(folder, n_boxes):
    os.makedirs(folder, exist_ok=True)
    for sides in BOXES[:n_boxes]:
        path = os.path.join(folder, f"water{3 * sides[0] * sides[1] * sides[2]}.xyz")
        if not os.path.exists(path):
            water(path, sides)


def measure(args):
    """From small to large systems until the time is over; each case is a row of the result."""
    end, rows = time.monotonic() + args.seconds, []
    for path in sorted(glob.glob(os.path.join(args.structures, "water*.xyz")), key=os.path.getsize):
        with open(path, encoding="utf-8") as f:
            n_atoms = int(f.readline())
        for model in models(args.models):
            for device, precision, graph, fuse, n_replicas in cases(n_atoms):
                if time.monotonic() > end - min(60, 5e-5 * n_atoms * n_replicas):
                    rows.append({"n_atoms": n_atoms, "model": os.path.basename(model), "left_out": "time"})
                    continue
                n_calls = max(10, min(args.calls, 600000 // (n_atoms * n_replicas)))
                row = call([args.mlff, "time", model, path, "--json", "--device", device, "--precision", precision,
                            "--graph", graph, "--fuse", fuse, "--replicas", str(n_replicas), "--calls", str(n_calls)])
                rows.append({**row, "fuse": fuse})
                print(f"{row['n_atoms']:8d} atoms  {row['model']:24s} {device:4s} {precision:5s} graph {row['graph']:3s} "
                      f"fuse {fuse:3s} replicas {n_replicas:3d}  median {row['median_ms']:9.4f} ms  "
                      f"{row['us_per_atom']:9.4f} us/atom", flush=True)
                save(args.out, {"host": os.uname().nodename, "unix_time": time.time(), "rows": rows})


def save(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)


def join(args):
    """One file of parts named check.json, bench.json, torch.json; those that are missing are null."""
    out = {"mlff_time_is": "mlff_model_evaluate through the C API, with copies; no step of LAMMPS"}
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
    parser.add_argument("--boxes", type=int, default=len(BOXES), help="water: how many of the sizes, from the smallest")
    parser.add_argument("--calls", type=int, default=500, help="time: evaluations of a case, at most")
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 7], help="compare: molecules along an edge")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--out", default="gpu.json")
    args = parser.parse_args()
    if args.what == "compare":
        with tempfile.TemporaryDirectory() as folder:
            compare(args, folder)
    elif args.what == "water":
        write_structures(args.structures, args.boxes)
    elif args.what == "time":
        measure(args)
    else:
        join(args)


if __name__ == "__main__":
    main()
