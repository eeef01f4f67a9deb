"""Compares GPU and CPU, and measures force evaluations on a GPU, with the program `mlff`. Called by run.sh; needs no
packages.

  bench.py compare --mlff PROGRAM --models FOLDER                              fails when energies or forces differ
  bench.py time    --mlff PROGRAM --models FOLDER --seconds N --out FILE.json  times, sizes from 24 to a million atoms
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

SIDES = (2, 3, 4, 7, 15, 32, 69)  # molecules along an edge: 24, 81, 192, 1029, 10k, 98k, 986k atoms
EDGE = 3.104  # A, of a molecule's share of liquid water at 0.1 atoms per A^3
TOLERANCE = {"fp64": (1e-8, 1e-7), "fp32": (1e-5, 1e-3)}  # eV/atom, eV/A: see compare()


def water(path, side, seed=1):
    """side^3 water molecules on a lattice, each turned at random, as extended XYZ."""
    rng = random.Random(seed)
    box = side * EDGE
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{3 * side ** 3}\nLattice="{box} 0 0 0 {box} 0 0 0 {box}" pbc="T T T" '
                'Properties=species:S:1:pos:R:3\n')
        for n in range(side ** 3):
            at = [(k + 0.5) * EDGE for k in (n % side, n // side % side, n // side ** 2)]
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
        water(path, side)
        for model in models(args.models):
            for precision, (energy_tolerance, force_tolerance) in TOLERANCE.items():
                base = [args.mlff, "evaluate", model, path, "--json", "--forces", "--precision", precision]
                gpu = call(base + ["--device", "cuda"])["structures"][0]
                cpu = call(base + ["--device", "cpu"])["structures"][0]
                n = len(cpu["forces"])
                energy = abs(gpu["energy"] - cpu["energy"]) / n
                force = max(abs(a - b) for x, y in zip(gpu["forces"], cpu["forces"]) for a, b in zip(x, y))
                good = energy <= energy_tolerance and force <= force_tolerance
                print(f"{os.path.basename(model)} {precision} {n} atoms: energy {energy:.2e} eV/atom, forces "
                      f"{force:.2e} eV/A: {'ok' if good else 'DIFFERENT'}", flush=True)
                if not good:
                    sys.exit(1)


def measure(args, folder):
    """From small to large systems until the time is over; each case is a line of the result."""
    end, rows = time.monotonic() + args.seconds, []
    for side in SIDES:
        path = os.path.join(folder, f"water{side}.xyz")
        water(path, side)
        for model in models(args.models):
            for device, precision in (("cuda", "fp32"), ("cuda", "fp64"), ("cpu", "fp32")):
                if (device == "cpu" and side > 15) or time.monotonic() > end - 20:
                    continue
                calls = str(max(10, min(500, 200000 // side ** 3)))
                row = call([args.mlff, "time", model, path, "--json", "--device", device, "--precision", precision,
                            "--calls", calls])
                rows.append(row)
                print(f"{row['n_atoms']:8d} atoms  {row['model']:28s} {device} {precision}  "
                      f"median {row['median_ms']:9.4f} ms  {row['us_per_atom']:9.4f} us/atom", flush=True)
                with open(args.out, "w", encoding="utf-8") as f:
                    json.dump({"host": os.uname().nodename, "unix_time": time.time(), "rows": rows}, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("compare", "time"))
    parser.add_argument("--mlff", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 7], help="compare: molecules along an edge")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--out", default="gpu.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (compare if args.what == "compare" else measure)(args, folder)


if __name__ == "__main__":
    main()
