"""What an inner model leaves to the outer level of run_style respa: spectra of the difference of the forces.

    .venv/bin/python benchmarks/studies/respa_residual.py --inner A.yaml B.yaml

Liquid water, 64 molecules, NVE with the wanted model (examples/lammps_inputs/in.respa, outer 0), a frame each fs; then
the forces of all models on these frames (rerun). A part of the difference that follows fast motions limits the outer
step, a slow part does not, however large it is: hence the root mean square in bands of wavenumber, of forces divided by
the square root of the mass (relative to that of hydrogen), and without this factor.

Writes benchmarks/results/respa-residual-WANTED.txt. Exit code 0 = done, 2 = a run failed.
"""

import argparse
import datetime
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import respa

from mlff_tools.model.lammps import LammpsError, cpu_name, find_lmp, find_plugin, process_options, quoted
from mlff_tools.model.modelfile import sha256_of

EVERY = 2  # steps between frames
CM = 1.0e12 / 2.99792458e10  # 1/cm for a frequency of 1/ps
BANDS = (0, 300, 1200, 2600, 5000, 17000)  # 1/cm: translation, libration, bending, stretching, what is beyond
RERUN = """{load}
units metal
atom_style atomic
boundary p p p
read_data {data}
pair_style mlff {settings}
pair_coeff * * {model} H O
neighbor 1.0 bin
dump f all custom 1 forces.dump id type fx fy fz
dump_modify f sort id format float %.8g
rerun water.dump dump x y z box yes
"""


def forces(args, place, model):
    """Forces of a model on the frames of the trajectory [frames, atoms, 3], eV/A, and the masses of the atoms."""
    load = f"plugin load {quoted(args.plugin)}" if args.plugin else ""
    text = RERUN.format(load=load, data=quoted(args.data), settings=args.settings, model=quoted(model))
    with open(os.path.join(place, "in.rerun"), "w", encoding="utf-8") as f:
        f.write(text)
    command = [args.lmp, "-in", "in.rerun", "-nocite", "-log", "none"]
    done = subprocess.run(command, check=False, **process_options(args.lmp, place))
    if done.returncode:
        raise LammpsError(f"the forces of {model} failed:\n{done.stdout[-2000:]}")
    with open(os.path.join(place, "forces.dump"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    n_atoms = int(lines[3])
    rows = [line.split() for k, line in enumerate(lines) if k % (n_atoms + 9) >= 9]
    values = np.array(rows, float).reshape(-1, n_atoms, 5)
    return values[:, :, 2:], np.where(values[0, :, 1] == 2, respa.MASS[0], respa.MASS[1])


def bands(force, mass, ps):
    """Root mean square of mass-weighted forces [frames, atoms, 3] in each of BANDS; ps between frames."""
    scaled = force * np.sqrt(respa.MASS[1] / mass)[:, None]
    n = len(force)
    window = np.hanning(n)[:, None, None]
    power = np.abs(np.fft.rfft((scaled - scaled.mean(axis=0)) * window, axis=0)) ** 2
    power = 2.0 * power.mean(axis=(1, 2)) / (n * (window**2).sum())
    wave = CM * np.fft.rfftfreq(n, ps)
    return np.array([np.sqrt(power[(wave >= a) & (wave < b)].sum()) for a, b in zip(BANDS, BANDS[1:])])


def text_of(args, rows):
    names = "".join(f"{f'{a}-{b}':>12}" for a, b in zip(BANDS, BANDS[1:]))
    lines = [
        f"# what inner models leave of the forces of {args.names[0]}; 64 molecules of water, NVE, {args.frames} fs",
        f"# {datetime.date.today().isoformat()}, {cpu_name()}; by benchmarks/studies/respa_residual.py",
        "# root mean square, meV/A: plain, and mass-weighted in bands of wavenumber, 1/cm",
        f"{'':<32}{'plain':>8}{names}  sha256",
    ]
    for name, digest, plain, parts in rows:
        lines.append(f"{name:<32}{plain:8.1f}" + "".join(f"{x:12.2f}" for x in parts) + f"  {digest[:12]}")
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = os.path.join(respa.ROOT, "models")
    parser.add_argument("--wanted", default=os.path.join(models, "water-benzene-teacher.yaml"), help="model file")
    parser.add_argument("--inner", nargs="+", default=[os.path.join(models, "water-benzene-student.yaml")])
    parser.add_argument("--data", default=os.path.join(respa.ROOT, "examples", "lammps_inputs", "data.water64"))
    parser.add_argument("--frames", type=int, default=1024, help="of the trajectory, 1 fs apart (default: 1024)")
    parser.add_argument("--settings", default="device cpu", help="of pair_style mlff")
    parser.add_argument("--lmp", help="LAMMPS program (default: that of this Python)")
    parser.add_argument("--plugin", help="mlffplugin.so or its folder (default: build)")
    parser.add_argument("--work", default=os.path.join(respa.ROOT, "work", "respa"), help="folder for trajectories")
    parser.add_argument("--results", default=os.path.join(respa.ROOT, "benchmarks", "results"))
    args = parser.parse_args(arguments)
    paths = [os.path.abspath(path) for path in (args.wanted, *args.inner)]
    args.names = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    place = os.path.join(args.work, f"residual-{args.names[0]}")
    os.makedirs(place, exist_ok=True)
    run = SimpleNamespace(**{**vars(args), "inner": paths[1]})
    try:
        run.lmp, run.plugin = find_lmp(args.lmp), find_plugin(args.plugin)
        respa.lammps(run, place, 0, EVERY * (args.frames - 1), True, EVERY)
        wanted, mass = forces(run, place, paths[0])
        rows = []
        for k, (path, name) in enumerate(zip(paths, args.names)):
            left = wanted - forces(run, place, path)[0] if k else wanted
            plain = np.sqrt((left**2).mean())
            parts = bands(left, mass, EVERY * respa.FS / 1000)
            rows.append((name, sha256_of(path), 1000 * plain, 1000 * parts))
    except (LammpsError, OSError) as problem:
        print(f"respa_residual.py: error: {problem}", file=sys.stderr)
        return 2
    text = text_of(args, rows)
    with open(os.path.join(args.results, f"respa-residual-{args.names[0]}.txt"), "w", encoding="utf-8") as f:
        f.write(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
