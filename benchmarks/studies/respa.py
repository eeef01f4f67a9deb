"""Multiple time steps of liquid water: what longer outer steps cost in accuracy, and what they gain.

    .venv/bin/python benchmarks/studies/respa.py --picoseconds 100

64 molecules, NVE with examples/lammps_inputs/in.respa from one state: the wanted model alone with the inner step, and
outer steps of 1, 2, 4, 6 and 8 inner ones. For each run: drift of the total energy by linear regression, its
fluctuation about that line, temperatures by kind of motion and of both elements, radial distributions, diffusion of
oxygen. Errors are standard errors of the means of blocks of time (of molecules for diffusion). Then speed: short runs
of all of them in turn, `--rounds` times; ns/day are per day of processor time, which other jobs of the machine disturb
less than the clock, and gains are formed within a round.

Writes benchmarks/results/respa-WANTED-INNER.json and .txt. Exit code 0 = all runs were done, 2 = one could not be.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys

import numpy as np
from stability import regression

from mlff_tools.bench import profiles
from mlff_tools.model.lammps import LammpsError, cpu_name, find_lmp, find_plugin, process_options, variable
from mlff_tools.model.modelfile import sha256_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DECK = os.path.join(ROOT, "examples", "lammps_inputs", "in.respa")
FS = 0.5  # inner step
FRAME = 48  # inner steps between frames: a multiple of all outer steps
BLOCKS = 5
MASS = np.array([15.999, 1.008, 1.008])  # of O, H, H
KINETIC = 1.0364269e-4 / 8.617333262e-5  # of amu A^2/ps^2 in K, times k_B
MOTIONS = ("translation", "rotation", "vibration", "O", "H", "all")
NUMBER = r"-?[\d.]+(?:e[-+]\d+)?"
EDGES = np.linspace(0.0, 6.0, 121)


def lammps(args, place, outer, steps, frames, every=FRAME):
    """The log of a run of `steps` outer steps; outer = 0 is the wanted model alone. frames: whether to write them, each
    `every` inner steps."""
    command = [args.lmp, "-in", DECK, "-nocite", "-log", "none"]
    for name, value in {
        "model": variable(args.wanted),
        "inner": variable(args.inner),
        "data": variable(args.data),
        "plugin": variable(args.plugin) if args.plugin else "none",
        "outer": outer,
        "timestep": FS / 1000,
        "steps": steps,
        "damp": 0,
        "frames": int(frames),
        "every": every // max(outer, 1),
        "thermo": FRAME // max(outer, 1) if frames else steps,
        "settings": args.settings,
    }.items():
        command += ["-var", name, str(value)]
    done = subprocess.run(command, check=False, **process_options(args.lmp, place))
    if done.returncode or "Loop time" not in done.stdout:
        raise LammpsError(f"the run with outer step {outer} failed:\n{done.stdout[-2000:]}")
    return done.stdout


# ---- what a trajectory says -----------------------------------------------------------------------------------------


def read_frames(path, n_atoms):
    """Positions and velocities [frames, molecules, 3 atoms, 3]; atoms 3k+1 to 3k+3 are O, H, H of a molecule."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    size = n_atoms + 9
    rows = np.array([line.split() for k, line in enumerate(lines) if k % size >= 9], float).reshape(-1, n_atoms, 8)
    if list(rows[0, :3, 1]) != [2, 1, 1]:
        raise LammpsError(f"{path}: atoms 1 to 3 are not O, H, H")
    return (rows[:, :, first : first + 3].reshape(len(rows), -1, 3, 3) for first in (2, 5))


def mean_of_blocks(values):
    """Mean over frames (axis 0) and its standard error."""
    means = np.array([block.mean(axis=0) for block in np.array_split(np.asarray(values), BLOCKS)])
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(BLOCKS)


def temperatures(x, v):
    """Kinetic temperature of each kind of motion in each frame, K [frames, 6]. A molecule turns as a rigid body of its
    present shape; what is left vibrates."""
    m = MASS[:, None]
    center, velocity = ((m * a).sum(axis=2) / MASS.sum() for a in (x, v))
    r, u = x - center[:, :, None], v - velocity[:, :, None]
    momentum = (m * np.cross(r, u)).sum(axis=2)
    inertia = np.einsum("a,fmai,fmai->fm", MASS, r, r)[..., None, None] * np.eye(3)
    inertia = inertia - np.einsum("a,fmai,fmaj->fmij", MASS, r, r)
    omega = np.linalg.solve(inertia, momentum[..., None])[..., 0]
    whole = (MASS * (v**2).sum(axis=-1)).sum(axis=-1)
    moving = MASS.sum() * (velocity**2).sum(axis=-1)
    turning = (omega * momentum).sum(axis=-1)
    oxygen = MASS[0] * (v[:, :, 0] ** 2).sum(axis=-1)
    n = x.shape[1]
    # of nine degrees of freedom three each; the box's own motion is taken off
    freedom = np.array([3 * n - 3, 3 * n, 3 * n, 3 * n - 1, 6 * n - 2, 9 * n - 3])
    parts = (moving, turning, whole - moving - turning, oxygen, whole - oxygen, whole)
    return KINETIC * np.stack([p.sum(axis=1) for p in parts], axis=1) / freedom


def radial(x, box):
    """g(r) of O-O, O-H and H-H of different molecules in each frame [frames, 3, bins]."""
    n = x.shape[1]
    shells = 4 / 3 * np.pi * np.diff(EDGES**3) / box**3
    kinds = (((0,), (0,)), ((0,), (1, 2)), ((1, 2), (1, 2)))
    upper = ~np.eye(n, dtype=bool)
    result = np.zeros((len(x), 3, len(EDGES) - 1))
    for k, (first, second) in enumerate(kinds):
        for f, frame in enumerate(x):
            for a in first:
                for b in second:
                    d = frame[:, None, a] - frame[None, :, b]
                    d -= box * np.round(d / box)
                    result[f, k] += np.histogram(np.sqrt((d[upper] ** 2).sum(axis=-1)), EDGES)[0]
        result[:, k] /= shells * n * (n - 1) * len(first) * len(second)
    return result


def diffusion(x, ps):
    """Diffusion of oxygen, 1e-9 m^2/s, and its standard error over blocks of molecules: the slope of the mean square
    displacement between 1/8 and 1/4 of the run, over all origins, without the motion of the center of mass."""
    x = x[:, :, 0] - np.einsum("a,fmai->fi", MASS, x)[:, None] / (MASS.sum() * x.shape[1])
    lags = np.unique(np.linspace(len(x) // 8, len(x) // 4, 12).astype(int))
    squares = np.array([((x[lag:] - x[:-lag]) ** 2).sum(axis=-1).mean(axis=0) for lag in lags])
    slopes = np.polyfit(lags * ps, squares, 1)[0] / 6.0 * 10.0
    return mean_of_blocks(slopes)


def judge(log, place, outer):
    """Numbers of one run."""
    rows = re.findall(rf"^ +(\d+) +({NUMBER}) (?: *{NUMBER}){{3}} +({NUMBER}) +{NUMBER} *$", log, re.M)
    time, total = (np.array([float(row[k]) for row in rows]) for k in (1, 2))
    n_atoms = int(re.search(r"with (\d+) atoms", log)[1])
    box = float(re.search(r"orthogonal box = \(\S+ \S+ \S+\) to \((\S+)", log)[1])
    slope, error = (1000 * value / n_atoms for value in regression(time, total))
    line = np.polyval(np.polyfit(time, total, 1), time)
    x, v = read_frames(os.path.join(place, "water.dump"), n_atoms)
    skip = len(x) // 10
    kinetic, kinetic_error = mean_of_blocks(temperatures(x[skip:], v[skip:]))
    g, g_error = mean_of_blocks(radial(x[skip:], box))
    d, d_error = diffusion(x[skip:], FRAME * FS / 1000)
    return {
        "outer_steps": outer,
        "outer_fs": max(outer, 1) * FS,
        "picoseconds": float(time[-1] - time[0]),
        "drift_mev_per_atom_per_ps": slope,
        "drift_error": error,
        "fluctuation_mev_per_atom": float(1000 * (total - line).std() / n_atoms),
        "temperature_K": {name: float(kinetic[k]) for k, name in enumerate(MOTIONS)},
        "temperature_error_K": {name: float(kinetic_error[k]) for k, name in enumerate(MOTIONS)},
        "diffusion_1e-9_m2_per_s": float(d),
        "diffusion_error": float(d_error),
        "g": {name: [round(float(w), 4) for w in g[k]] for k, name in enumerate(("OO", "OH", "HH"))},
        "g_error": {name: [round(float(w), 4) for w in g_error[k]] for k, name in enumerate(("OO", "OH", "HH"))},
    }


# ---- speed ----------------------------------------------------------------------------------------------------------


def speeds(args, place, kinds):
    """ns per day of processor time [rounds, kinds], one short run of each in every round."""
    table = []
    for _ in range(args.rounds):
        row = []
        for outer in kinds:
            log = lammps(args, place, outer, args.timing_steps // max(outer, 1), False)
            used = float(re.search(r"^(\S+)% CPU use", log, re.M)[1])
            row.append(float(re.search(r"^Performance: (\S+) ns/day", log, re.M)[1]) * 100.0 / used)
        table.append(row)
    return np.array(table)


# ---- report ---------------------------------------------------------------------------------------------------------


def text_of(report):
    """The table that is printed."""
    c = report["context"]
    lines = [
        f"# {c['wanted']} with {c['inner']} inside, 64 molecules of water, NVE, inner step {FS} fs, "
        f"{report['runs'][0]['picoseconds']:.3g} ps for each row",
        f"# {c['date']}, {c['cpu']}, one core, load {c['load']:.1f}; by benchmarks/studies/respa.py",
        "# drift and fluctuation of the total energy: meV/atom/ps, meV/atom; temperatures in K; D in 1e-9 m2/s;",
        "# g: largest difference of the three radial distributions from the first row, in brackets its standard error",
        f"{'outer fs':>9} {'drift':>16} {'fluct.':>7} {'translation':>14} {'rotation':>14} {'vibration':>14} "
        f"{'T of O':>14} {'T of H':>14} {'g':>13} {'D':>13} {'ns/day':>7} {'gain':>12}",
    ]
    for r in report["runs"]:
        name = "alone" if r["outer_steps"] == 0 else f"{r['outer_fs']:g}"
        parts = [f"{name:>9}", f"{r['drift_mev_per_atom_per_ps']:8.3f} ± {r['drift_error']:5.3f}"]
        parts.append(f"{r['fluctuation_mev_per_atom']:7.3f}")
        for motion in MOTIONS[:5]:
            parts.append(f"{r['temperature_K'][motion]:7.1f} ± {r['temperature_error_K'][motion]:4.1f}")
        parts.append(f"{r['g_difference']:5.3f} ({r['g_difference_error']:5.3f})")
        parts.append(f"{r['diffusion_1e-9_m2_per_s']:5.2f} ± {r['diffusion_error']:4.2f} ")
        parts.append(f"{r['ns_per_day']:7.2f} {r['gain']:5.2f} ± {r['gain_spread']:4.2f}")
        lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"


def compare(runs):
    """Adds how far the radial distributions of a run are from those of the first one."""
    for run in runs:
        differences = []
        for name in ("OO", "OH", "HH"):
            d = np.abs(np.array(run["g"][name]) - runs[0]["g"][name])
            k = int(d.argmax())
            differences.append((float(d[k]), float(np.hypot(run["g_error"][name][k], runs[0]["g_error"][name][k]))))
        run["g_difference"], run["g_difference_error"] = max(differences)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = os.path.join(ROOT, "models")
    parser.add_argument("--wanted", default=os.path.join(models, "water-benzene-teacher.yaml"), help="model file")
    parser.add_argument("--inner", default=os.path.join(models, "water-benzene-student.yaml"), help="cheap model")
    parser.add_argument("--data", default=os.path.join(ROOT, "examples", "lammps_inputs", "data.water64"))
    parser.add_argument("--outer", type=int, nargs="+", default=[1, 2, 4, 6, 8], help="inner steps per outer one")
    parser.add_argument("--picoseconds", type=float, default=20.0, help="of each run (default: 20)")
    parser.add_argument("--rounds", type=int, default=5, help="of timings (default: 5)")
    parser.add_argument("--timing-steps", type=int, default=480, help="inner steps of a timing (default: 480)")
    parser.add_argument("--settings", default="device cpu", help="of pair_style mlff")
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--plugin", help="mlffplugin.so or its folder (default: build)")
    parser.add_argument("--work", default=os.path.join(ROOT, "work", "respa"), help="folder for trajectories")
    parser.add_argument("--results", default=os.path.join(ROOT, "benchmarks", "results"))
    args = parser.parse_args(arguments)
    wrong = [n for n in args.outer if n < 1 or FRAME % n]
    if wrong:
        parser.error(f"--outer {wrong[0]}: steps are divisors of {FRAME}")
    names = [os.path.splitext(os.path.basename(path))[0] for path in (args.wanted, args.inner)]
    place = os.path.join(args.work, "-".join(names))
    os.makedirs(place, exist_ok=True)
    kinds, runs = [0, *args.outer], []
    try:
        args.lmp, args.plugin = find_lmp(args.lmp), find_plugin(args.plugin)
        load = os.getloadavg()[0]
        for outer in kinds:
            frames = max(40, round(args.picoseconds * 1000 / FS / FRAME))
            runs.append(judge(lammps(args, place, outer, frames * FRAME // max(outer, 1), True), place, outer))
            print(f"outer {outer}: drift {runs[-1]['drift_mev_per_atom_per_ps']:.3f} meV/atom/ps", flush=True)
        table = speeds(args, place, kinds)
    except (LammpsError, OSError) as problem:
        print(f"respa.py: error: {problem}", file=sys.stderr)
        return 2
    gains = table / table[:, :1]
    for k, run in enumerate(runs):
        run["ns_per_day"], run["gain"] = float(np.median(table[:, k])), float(np.median(gains[:, k]))
        run["gain_spread"] = float(gains[:, k].std(ddof=1)) if args.rounds > 1 else 0.0
    compare(runs)
    context = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "load": load, "settings": args.settings}
    context.update(wanted=names[0], wanted_sha256=sha256_of(args.wanted))
    context.update(inner=names[1], inner_sha256=sha256_of(args.inner), rounds=args.rounds)
    report = {"inner_fs": FS, "r_of_g": [float(r) for r in EDGES], "context": context, "runs": runs}
    stem = os.path.join(args.results, f"respa-{names[0]}-{names[1]}")
    profiles.write_json(f"{stem}.json", report)
    with open(f"{stem}.txt", "w", encoding="utf-8") as f:
        f.write(text_of(report))
    print(text_of(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
