"""Samples labelled structures with a model's own dynamics: `mlff sample CONFIG.yaml --out FOLDER`.

Every trajectory of the configuration (see models/train/data.yaml) is one LAMMPS run with Langevin dynamics under
`pair_style mlff`; every few steps its positions, energy and forces (those of the model, without the thermostat's) are
kept. Groups with `distort` have molecules of their frames bent and stretched, and labelled anew. Finished trajectories
are kept in FOLDER and not run again; an interrupted one starts over. At the end all are packed into FOLDER/NAME.npz
(dataset.py), a few labels of each trajectory are compared with the float64 numpy evaluation of the model, and
the file's sha256 is printed.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import time

import numpy as np

from ..command_line import one_line, positive, whole
from ..model import engine, files, modelfile, reference
from ..model.lammps import environment, find_lmp, find_plugin, quoted
from ..model.modelfile import ModelError
from ..model.structures import molecule, molecule_box
from . import configuration, dataset
from .lammps_data import data_text

CONTACT = 1.4  # A, between a distorted molecule and others
DEFAULTS = {"density": [None], "seeds": 1, "equilibrate": 4000, "hot": None}


def expand(config):
    """List of trajectories (mappings) of a configuration: the product of temperatures, densities and seeds per
    group."""
    trajectories = []
    for group in config["groups"]:
        g = {**DEFAULTS, **group}
        states = itertools.product(g["temperature"], g["density"], range(g["seeds"]))
        for k, (temperature, density, copy) in enumerate(states):
            place = "vacuum" if density is None else f"{density:.2f}"
            trajectories.append(
                {
                    "name": f"{g['name']}-{temperature}K-{place}-{copy}",
                    "molecule": g["molecule"],
                    "molecules": g.get("molecules", 1),
                    "temperature": float(temperature),
                    "density": density,
                    "seed": int(g["seed"]) + k,
                    "split": g["split"],
                    "frames": int(g["frames"]),
                    "every": int(g["every"]),
                    "equilibrate": int(g["equilibrate"]),
                    "hot": g["hot"],
                    "timestep": float(config["timestep"]),
                    "damp": float(config["damp"]),
                    **({"distort": g["distort"]} if "distort" in g else {}),
                }
            )
    names = [t["name"] for t in trajectories]
    if len(set(names)) != len(names):
        raise ModelError(f"two trajectories have the same name '{[n for n in names if names.count(n) > 1][0]}'")
    if len({t["seed"] for t in trajectories}) != len(trajectories):
        raise ModelError("two trajectories have the same seed: choose the groups' seeds further apart")
    return trajectories


def start(trajectory):
    """Starting structure: molecules randomly turned on a lattice, or one molecule in the middle of nowhere."""
    if trajectory["density"] is None:
        elements, positions = molecule(trajectory["molecule"])
        return {"name": trajectory["name"], "elements": elements, "positions": positions, "cell": None}
    return molecule_box(trajectory["molecule"], trajectory["molecules"], trajectory["density"], trajectory["seed"])


def input_script(trajectory, potential):
    """Text of the LAMMPS input of a trajectory. `potential`: its lines from `plugin load` to `pair_coeff`.

    The forces are kept by fix store/force, which comes before fix langevin and so does not see the thermostat's.
    """
    t, periodic = trajectory, trajectory["density"] is not None
    hot = t["hot"] or t["temperature"]
    seed = t["seed"]
    return "\n".join(
        [
            "units metal",
            "atom_style atomic",
            "atom_modify map array sort 0 0.0",
            "boundary " + ("p p p" if periodic else "m m m"),
            "read_data start.data",
            *potential,
            "neighbor 1.0 bin",
            "neigh_modify every 1 delay 0 check yes",
            "thermo 500",
            "minimize 0.0 0.05 60 300",
            "reset_timestep 0",
            f"timestep {t['timestep'] / 1000!r}",
            f"velocity all create {hot} {seed} mom yes rot yes dist gaussian",
            "fix labels all store/force",
            "fix move all nve",
            f"fix bath all langevin {hot} {t['temperature']} {t['damp'] / 1000!r} {seed + 500000}",
            f"run {t['equilibrate'] // 2}",
            f"fix bath all langevin {t['temperature']} {t['temperature']} {t['damp'] / 1000!r} {seed + 600000}",
            f"run {t['equilibrate'] - t['equilibrate'] // 2}",
            "reset_timestep 0",
            f"dump frames all custom {t['every']} frames.dump id type x y z f_labels[1] f_labels[2] f_labels[3]",
            'dump_modify frames sort id first no format float "%.9f"',
            f'fix energies all print {t["every"]} "$(step) $(pe:%.12g) $(temp:%.6g)" file energies.txt screen no title '
            '""',
            f"run {t['frames'] * t['every']}",
            "",
        ]
    )


def parse_dump(path, n_atoms, n_frames):
    """Steps [F], types [N] and values [F, N, 6] (x y z fx fy fz) of the dump written by input_script."""
    with open(path, encoding="ascii") as f:
        lines = f.read().splitlines()
    size = n_atoms + 9
    frames = [lines[k : k + size] for k in range(0, len(lines), size)]
    if frames and int(frames[0][1]) == 0:
        frames = frames[1:]
    if len(frames) != n_frames or len(frames[-1]) != size:
        raise ModelError(f"{path}: holds {len(frames)} frames, expected {n_frames}")
    table = np.array([[row.split() for row in f[9:]] for f in frames], float)
    return np.array([int(f[1]) for f in frames]), table[0, :, 1].astype(int), table[:, :, 2:]


def distorted_water(positions, cell, wanted, rng):
    """Water with some molecules bent and stretched: new positions [N, 3], atoms as O, H, H, O, H, H, ...

    wanted: `fraction` of the molecules, HOH `angle` (degrees) and OH `bond` (A) as ranges. A molecule that would come
    closer than CONTACT to another one stays as it was.
    """
    x = positions.copy()
    for first in range(0, len(x), 3):
        if rng.random() >= wanted["fraction"]:
            continue
        oh = x[first + 1 : first + 3] - x[first]
        oh -= np.round(oh @ np.linalg.inv(cell)) @ cell
        unit = oh / np.linalg.norm(oh, axis=1)[:, None]
        middle, across = unit[0] + unit[1], unit[0] - unit[1]
        half = np.radians(rng.uniform(*wanted["angle"])) / 2
        new = [
            x[first]
            + rng.uniform(*wanted["bond"])
            * (np.cos(half) * middle / np.linalg.norm(middle) + sign * np.sin(half) * across / np.linalg.norm(across))
            for sign in (1, -1)
        ]
        others = np.delete(x, range(first, first + 3), 0)
        gaps = np.array(new)[:, None] - others
        gaps -= np.round(gaps @ np.linalg.inv(cell)) @ cell
        if np.linalg.norm(gaps, axis=2).min() >= CONTACT:
            x[first + 1 : first + 3] = new
    return x


def distorted(trajectory, structure, positions, seed):
    """Positions [N, 3] of one frame, distorted as the trajectory's group asks: {fraction, angle, bond} for water, or
    {sigma}: normal displacements of all atoms, A, of a width that is drawn for each frame up to sigma."""
    wanted, rng = trajectory["distort"], np.random.default_rng(seed)
    if "sigma" in wanted:
        return positions + rng.uniform(0.2, 1.0) * wanted["sigma"] * rng.normal(size=positions.shape)
    return distorted_water(positions, structure["cell"], wanted, rng)


def relabelled(trajectory, structure, values, steps, label):
    """Values [F, N, 6] and energies by step of a trajectory's frames after distortion. label(structures): [(E, F)]."""
    frames = [
        {**structure, "positions": distorted(trajectory, structure, v[:, :3], [trajectory["seed"], k])}
        for k, v in enumerate(values)
    ]
    labels = label(frames)
    values = np.array([np.concatenate([f["positions"], forces], 1) for f, (_, forces) in zip(frames, labels)])
    return values, {int(s): energy for s, (energy, _) in zip(steps, labels)}


def write_inputs(place, data, script):
    """Writes the data file and the input script of a run."""
    for name, text in (("start.data", data), ("in.lmp", script)):
        files.write_input(os.path.join(place, name), text)


def _lammps(lmp, place, name, running):
    """Runs LAMMPS on the inputs of a folder; the seconds that it took."""
    begin, path = time.monotonic(), os.path.join(place, "screen.txt")
    with files.naming(path), open(path, "w", encoding="utf-8") as screen:
        try:
            process = subprocess.Popen(
                [lmp, "-in", "in.lmp", "-log", "log.lammps"],
                cwd=place,
                stdout=screen,
                stderr=subprocess.STDOUT,
                env=environment(lmp),
            )
        except OSError as e:
            raise ModelError(f"trajectory {name}: {lmp} cannot be started: {e.strerror}") from e
        running.add(process)
        code = process.wait()
        running.discard(process)
    if code != 0:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = [line for line in f if line.strip()] or ["it said nothing"]
        errors = [line for line in lines if "ERROR" in line] or lines
        raise ModelError(f"trajectory {name}: LAMMPS failed ({code}) in {place}: {errors[-1].strip()}")
    return time.monotonic() - begin


def run(trajectory, folder, potential, elements, lmp, label=None, running=None):
    """Runs one trajectory in `folder`/name and writes result.npz there; does nothing if that is there already.

    `potential`: lines of the input and what they depend on, from potential_lines. `label`: gives energies and forces of
    structures, for trajectories with distorted frames. `running`: a set that has the process of LAMMPS meanwhile.
    """
    potential, identity = potential
    place = os.path.join(folder, trajectory["name"])
    result = os.path.join(place, "result.npz")
    stamp = hashlib.sha256(json.dumps([trajectory, identity, elements], sort_keys=True).encode()).hexdigest()
    if os.path.exists(result):
        with np.load(result) as f:
            if str(f["stamp"]) == stamp:
                return result, 0.0
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    structure = start(trajectory)
    write_inputs(place, data_text(structure, elements, title=structure["name"]), input_script(trajectory, potential))
    seconds = _lammps(lmp, place, trajectory["name"], set() if running is None else running)
    steps, types, values = parse_dump(
        os.path.join(place, "frames.dump"), len(structure["elements"]), trajectory["frames"]
    )
    rows = np.loadtxt(os.path.join(place, "energies.txt"), ndmin=2)
    energies = {int(r[0]): r[1] for r in rows}
    missing = [int(s) for s in steps if int(s) not in energies]
    if missing or [elements[k - 1] for k in types] != structure["elements"]:
        raise ModelError(f"trajectory {trajectory['name']}: dump and energies in {place} do not fit together")
    if not np.isfinite(values).all():
        raise ModelError(f"trajectory {trajectory['name']}: NaN or infinity in {place}/frames.dump")
    cell = np.zeros((3, 3)) if structure["cell"] is None else structure["cell"]
    if "distort" in trajectory:
        values, energies = relabelled(trajectory, structure, values, steps, label)
    files.write_npz(
        result,
        stamp=stamp,
        types=types,
        values=values,
        cell=cell,
        seconds=seconds,
        energies=np.array([energies[int(s)] for s in steps]),
        temperature=rows[1:, 2].mean(),
    )
    os.unlink(os.path.join(place, "frames.dump"))
    return result, seconds


def pack(config, trajectories, results, elements, model, info):
    """The arrays of a data set from the trajectories' results."""
    offset = (
        [model[0]["energy_offsets"][e] * model[0]["units"]["energy_in_eV"] for e in elements]
        if model
        else [0.0] * len(elements)
    )
    parts = {
        k: []
        for k in (
            "species",
            "positions",
            "forces",
            "n",
            "cell",
            "energy",
            "trajectory",
            "split",
            "temperature",
            "density",
        )
    }
    for k, (t, path) in enumerate(zip(trajectories, results)):
        with np.load(path) as f:
            values, types, energies, cell = f["values"], f["types"], f["energies"], f["cell"]
        n_frames, n_atoms = values.shape[:2]
        parts["species"].append(np.tile(types - 1, n_frames).astype(np.int8))
        parts["positions"].append(values[..., :3].reshape(-1, 3).astype(np.float32))
        parts["forces"].append(values[..., 3:].reshape(-1, 3).astype(np.float32))
        parts["n"].append(np.full(n_frames, n_atoms))
        parts["cell"].append(np.broadcast_to(cell, (n_frames, 3, 3)))
        parts["energy"].append(energies)
        parts["trajectory"].append(np.full(n_frames, k, np.int32))
        parts["split"].append(np.full(n_frames, dataset.SPLITS.index(t["split"]), np.int8))
        parts["temperature"].append(np.full(n_frames, t["temperature"]))
        parts["density"].append(np.full(n_frames, t["density"] or 0.0))
    joined = {k: np.concatenate(v) for k, v in parts.items()}
    joined["first"] = np.concatenate([[0], np.cumsum(joined.pop("n"))]).astype(np.int64)
    joined.update(
        elements=np.array(elements),
        offset=np.array(offset),
        trajectory_names=np.array([t["name"] for t in trajectories]),
        info=np.array(json.dumps({**info, "config": config, "trajectories": trajectories}, sort_keys=True)),
    )
    return joined


def check_labels(data, model, per_trajectory=1):
    """Largest differences (eV/atom, eV/A) between labels and the numpy evaluation, over some frames per trajectory."""
    worst_energy = worst_force = 0.0
    for k in range(len(data["trajectory_names"])):
        mine = np.nonzero(data["trajectory"] == k)[0]
        for index in mine[:: max(1, len(mine) // per_trajectory)][:per_trajectory]:
            s = dataset.frame(data, index)
            energy, forces, _ = reference.evaluate(model, s)
            worst_energy = max(worst_energy, abs(energy - s["energy"]) / len(forces))
            worst_force = max(worst_force, float(np.abs(forces - s["forces"]).max()))
    return worst_energy, worst_force


def potential_lines(config, args, elements):
    """LAMMPS lines that set the potential: the configuration's own `potential`, or pair_style mlff with the model; and
    what their results depend on: the model file's content, and not the places of model and plugin."""
    if "potential" in config:
        return config["potential"], config["potential"]
    plugin = "" if args.installed else find_plugin(args.plugin)
    if not plugin and not args.installed:
        raise ModelError("mlffplugin.so was not found: build the project, give --plugin, $MLFF_PLUGIN or --installed")
    lines = [f"plugin load {quoted(plugin)}"] if plugin else []
    path = os.path.abspath(args.model)
    style = f"pair_style mlff precision {config.get('precision', 'fp32')}"
    model = modelfile.sha256_of(path)  # the file names the weights by their hash
    return lines + [style, f"pair_coeff * * {quoted(path)} {' '.join(elements)}"], [style, model]


def chosen(trajectories, only):
    """Those whose names match the regular expression `only`, all without one."""
    try:
        found = [t for t in trajectories if re.search(only or "", t["name"])]
    except re.error as e:
        raise ModelError(f"--only {only}: is no regular expression: {e}") from e
    if not found:
        raise ModelError(f"--only {only}: no trajectory has such a name; the first is {trajectories[0]['name']}")
    return found


def _at_once(run_one, trajectories, jobs):
    """The result files of trajectories, so many at a time."""
    results, processes = [None] * len(trajectories), set()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(run_one, t, running=processes): k for k, t in enumerate(trajectories)}
        try:
            for done, future in enumerate(concurrent.futures.as_completed(running), 1):
                k = running[future]
                results[k], seconds = future.result()
                print(
                    f"[{done}/{len(running)}] {trajectories[k]['name']}: {trajectories[k]['frames']} frames, "
                    + (f"{seconds:.1f} s" if seconds else "kept"),
                    flush=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(processes):
                process.kill()
            raise
    return results


def sample(args):
    """Runs what is missing, packs and checks; returns (path of the data set, its sha256, its arrays)."""
    config = configuration.sample(args.config)
    trajectories = chosen(expand(config), args.only)
    known = {e for t in trajectories for e in molecule(t["molecule"])[0]}
    elements = [e for e in config["elements"] if e in known]
    model = None
    if "potential" in config and args.model:
        raise ModelError(f"--model and the potential of {args.config}: leave one of them out")
    if "potential" not in config:
        if not args.model:
            raise ModelError("--model is missing: the model whose energies and forces are the labels")
        args.model = modelfile.find_model(args.model)
        model = modelfile.read(args.model)
        unknown = [e for e in elements if e not in model[0]["elements"]]
        if unknown:
            raise ModelError(f"{args.model}: the model does not know {unknown[0]}, which molecules of the groups have")
    potential = potential_lines(config, args, elements)
    folder, lmp = os.path.join(args.out, config["name"]), find_lmp(args.lmp)
    os.makedirs(folder, exist_ok=True)

    def label(structures):
        found, _ = engine.evaluate(args.model, structures, config.get("precision", "fp32"), args.mlff)
        return [(energy, forces) for energy, forces, _ in found]

    run_one = functools.partial(run, folder=folder, potential=potential, elements=elements, lmp=lmp, label=label)
    results = _at_once(run_one, trajectories, args.jobs)
    info = {
        "labels": model[0]["name"] if model else "stand-in",
        "precision": config.get("precision", "fp32"),
        "model_sha256": model[0]["weights"]["sha256"] if model else "none",
        "config_file": os.path.basename(args.config),
    }
    data = pack(config, trajectories, results, elements, model, info)
    path = os.path.join(args.out, config["name"] + ".npz")
    sha256 = dataset.save(path, data)
    data, _ = dataset.load(path)
    if model and args.check:
        energy, force = check_labels(data, model, args.check)
        print(f"labels against numpy float64: at most {1000 * energy:.2g} meV/atom, {1000 * force:.2g} meV/A")
        if not (energy < 1e-5 and force < 2e-3):
            raise ModelError(
                f"{path}: the labels differ from the numpy evaluation of the model; the data set is not usable"
            )
    return path, sha256, data


def report(path, sha256, data):
    """Prints counts per split and molecule size."""
    sizes = np.diff(data["first"])
    print(f"{path}: sha256 {sha256}, {os.path.getsize(path) / 1e6:.1f} MB")
    for k, split in enumerate(dataset.SPLITS):
        mine = data["split"] == k
        parts = [f"{(mine & (sizes == n)).sum()} frames of {n} atoms" for n in np.unique(sizes[mine])]
        print(f"  {split}: {', '.join(parts) or 'none'}")


@one_line("mlff sample", "stopped; the same command goes on")
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="mlff sample", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="configuration, e.g. models/train/data.yaml")
    parser.add_argument("--model", help="model file whose energies and forces are the labels")
    parser.add_argument("--out", default="work", help="folder for trajectories and the data set (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=positive, default=os.cpu_count(), help="LAMMPS runs at a time (default: all cores)"
    )
    parser.add_argument("--only", metavar="REGEX", help="only trajectories whose name matches (for trials)")
    parser.add_argument("--check", type=whole(0), default=1, metavar="N", help="labels to check per trajectory")
    parser.add_argument("--lmp", help="the LAMMPS program (default: beside this Python, else PATH)")
    parser.add_argument("--mlff", help="the program mlff, for distorted frames (default: $MLFF, build folders, PATH)")
    parser.add_argument("--plugin", help="mlffplugin.so (default: $MLFF_PLUGIN, build folders)")
    parser.add_argument("--installed", action="store_true", help="LAMMPS loads the plugin itself (pip installed)")
    args = parser.parse_args(argv)
    report(*sample(args))
