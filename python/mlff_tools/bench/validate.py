"""mlff validate: does a model conserve energy? NVE of a structure, judged: PASS, FAIL or too short to say.

    mlff validate                               a benzene molecule with the shipped student: 100 ps, 200,000 steps
    mlff validate MODEL.yaml STRUCTURE.xyz      any model and any structure, periodic or not
    mlff validate water-xs data.water64 --picoseconds 200 --timestep 0.25

MODEL is a file or the name of a shipped model. STRUCTURE is extended XYZ, the first frame counts (pbc="T T T" or
"F F F"), or a LAMMPS data file (other names than *.xyz; elements are those of the masses; periodic, or --open). It runs
benchmarks/decks/in.validate and writes into --out: report.txt, validation.json, energy.svg and data.csv (step, time,
temperature, energies). PASS needs all of
  - 100 ps or more, all steps done, no number NaN or infinite, no explosion;
  - mean temperature within a fifteenth of the target (20 K of 300 K), or, after a thermostat, two standard deviations
    of the temperature of so many atoms where that is more;
  - |E_end - E_0| / |E_0| < 1 %, and the standard deviation of the total energy / |mean| < 0.5 %;
  - |drift| < 0.05 meV/atom/ps, by linear regression, with its 95 % interval;
  - standard deviation of the total energy around that line < 0.5 % of the thermal energy, twice the mean kinetic one;
  - the energy's fluctuation falls with the time step to the power 2 within 0.5 (2 ps, and back in half steps).
A run of less than 100 ps never says PASS: its verdict is `too short to say`.
Exit code: 0 PASS, 1 FAIL, 2 could not be run, 3 too short to say.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

from ..command_line import above_zero, number, one_line, positive
from ..ensemble import judge
from ..model.lammps import LammpsError, errors_in, find_decks, find_lmp, find_plugin, process_options, variable
from ..model.modelfile import find_model, read_head, sha256_of
from ..model.reference import DIRECT
from ..train import extxyz, lammps_data
from . import profiles, validation
from .cases import student
from .validation import COLUMNS

EXIT = {judge.PASS: 0, judge.FAIL: 1, judge.SHORT: 3}
BENZENE = {"data": "data.benzene1", "elements": ["C", "H"], "n_atoms": 12, "fixed": 6, "periodic": True}
EQUILIBRATE, HALVES = 10.0, 2.0  # ps, before the run of a structure; of the comparison of time steps
HOT = 0.5  # fs, time step with hydrogen; 1 without


# ---- structures ----------------------------------------------------------------------------------------------------


def fixed_modes(frame):
    """Degrees of freedom without motion: the momentum's, and the rotations of a structure in empty space."""
    if frame["cell"] is not None:
        return 3
    x = frame["positions"] - frame["positions"].mean(0)
    extent = np.linalg.svd(x, compute_uv=False)
    return 5 if len(x) == 2 or extent[1] < 1e-3 * extent[0] else 6


def read_structure(path, is_open):
    """The first structure of a file."""
    if not os.path.isfile(path):
        raise LammpsError(f"there is no structure {path}")
    if path.lower().endswith((".xyz", ".extxyz")):
        if is_open:
            raise LammpsError('--open is for data files of LAMMPS: set pbc="F F F" in an extended XYZ file')
        frames = extxyz.read(path)
        if not frames:
            raise LammpsError(f"{path}: holds no structure")
        return frames[0]
    return lammps_data.read_data(path, not is_open)


def structure(args):
    """The variables of the deck for the structure; the data file of a given structure is text."""
    if args.structure is None:
        return {**BENZENE, "text": None, "label": "a benzene molecule"}
    frame = read_structure(args.structure, args.open)
    n, elements = len(frame["elements"]), list(dict.fromkeys(frame["elements"]))
    if n < 2:
        raise LammpsError(f"{args.structure}: one atom has no energy to exchange: give two or more")
    periodic = frame["cell"] is not None
    return {
        "data": "start.data",
        "elements": elements,
        "n_atoms": n,
        "fixed": fixed_modes(frame),
        "periodic": periodic,
        "text": lammps_data.data_text(frame, elements, title="mlff validate"),
        "label": f"{os.path.basename(args.structure)} ({n} atoms, {'periodic' if periodic else 'in empty space'})",
    }


def check_model(path, elements, source):
    """An error for a model that cannot be validated with these elements."""
    head = read_head(path)
    name, known = os.path.basename(path), head["elements"]
    unknown = [e for e in elements if e not in known]
    if head["architecture"] in DIRECT:
        raise LammpsError(
            f"{name} (architecture {head['architecture']}) has forces of its own, not the gradient of its energy: it "
            "conserves no energy, and there is nothing to validate. Give a conservative model"
        )
    if unknown:
        raise LammpsError(
            f"{source} has {', '.join(unknown)}, which {name} does not know: its elements are {', '.join(known)}. Give "
            "a model that knows them, or another structure"
        )


# ---- running -------------------------------------------------------------------------------------------------------


def words_of(args, place):
    """The command that runs the deck."""
    structure, dt = args.found, args.timestep / 1000
    values = {
        "model": variable(args.model),
        "plugin": variable(args.plugin) if args.plugin else "none",
        "folder": variable(place if structure["text"] else args.decks),
        "data": structure["data"],
        "elements": " ".join(structure["elements"]),
        "boundary": "p p p" if structure["periodic"] else "f f f",
        "fixed": structure["fixed"],
        "steps": args.steps,
        "every": args.every,
        "temperature": args.temperature,
        "timestep": dt,
        "equilibrate": round(args.equilibrate / dt),
        "halves": round(HALVES / dt / args.every) * args.every if args.half_steps == "yes" else 0,
        "seed": args.seed,
        "settings": args.settings,
    }
    words = [args.lmp, "-in", os.path.join(args.decks, "in.validate"), "-log", "none", "-nocite"]
    for name, value in values.items():
        words += ["-var", name, str(value)]
    return words


def simulate(args, place):
    """Runs the deck. Returns rows [n, 6] (COLUMNS), those in whole and in half steps or None, the energy of the
    minimum, and what LAMMPS said was wrong."""
    if args.found["text"]:
        profiles.write_text(os.path.join(place, "start.data"), args.found["text"])
    parts, part, minimum, text, begin = {"begin": [], "whole": [], "half": []}, None, None, [], time.monotonic()
    with subprocess.Popen(words_of(args, place), **process_options(args.lmp, place)) as process:
        for line in process.stdout:
            words = line.split()
            if line.startswith("validate: energy of the minimum"):
                minimum = float(words[-1])
            elif line.startswith("validate: "):
                part = parts.get(words[1])
            elif part is not None and len(words) == len(COLUMNS) and re.fullmatch(r"\d+", words[0]):
                part.append([float(w) for w in words])
                progress(args, int(words[0]), begin)
            else:
                text.append(line)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    errors = errors_in("".join(text))
    if not parts["begin"] or minimum is None:
        raise LammpsError(f"LAMMPS did not run: {errors[0] if errors else ''.join(text[-5:]).strip()}")
    halves = [np.array(parts[name]) for name in ("whole", "half")] if parts["half"] else None
    return np.array(parts["begin"]), halves, minimum, errors


def progress(args, step, begin):
    if sys.stderr.isatty() and step % max(args.every, args.steps // 200 // args.every * args.every) == 0:
        print(f"\r  step {step} of {args.steps}, {time.monotonic() - begin:.0f} s", end="", file=sys.stderr, flush=True)


# ---- the command ---------------------------------------------------------------------------------------------------


def arguments(argv):
    p = argparse.ArgumentParser(
        prog="mlff validate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", nargs="?", default=student("benzene_gas"), help="default: water-benzene-student")
    p.add_argument("structure", nargs="?", help="extended XYZ or LAMMPS data; default: a benzene molecule")
    p.add_argument("--out", default="validation", help="folder (default validation)")
    p.add_argument("--publish", metavar="DIR", help="keep report, JSON, picture and data there too, as validation-*")
    p.add_argument("--picoseconds", type=above_zero, default=judge.NVE_PS, help="of the run (default 100)")
    p.add_argument("--steps", type=positive, help="of the run, instead of --picoseconds")
    p.add_argument("--every", type=positive, default=10, help="steps between records")
    p.add_argument("--timestep", type=above_zero, help="fs (default 0.5 with hydrogen, else 1)")
    p.add_argument("--temperature", type=above_zero, default=300.0, help="K")
    p.add_argument(
        "--equilibrate",
        type=number(0, 1e9, "a time from 0"),
        help="ps with a thermostat before (default 10 for a structure, 0 for benzene)",
    )
    p.add_argument("--half-steps", choices=("yes", "no"), default="yes", help="compare with half the time step")
    p.add_argument("--open", action="store_true", help="the structure of a LAMMPS data file is not periodic")
    p.add_argument("--seed", type=positive, default=4711)
    p.add_argument("--settings", default="precision fp32", help="of pair_style mlff")
    p.add_argument("--build", help="build folder (default: build here, else the installed plugin)")
    p.add_argument("--lmp")
    p.add_argument("--decks", help="folder of in.validate")
    return p.parse_args(argv)


def prepare(args):
    """Finds all files and completes the arguments; ModelError says what is missing."""
    args.model = os.path.abspath(find_model(args.model))
    args.decks = find_decks("in.validate", args.decks)
    if not args.decks:
        raise LammpsError("in.validate was not found: give the folder benchmarks/decks of the source with --decks")
    args.found = structure(args)
    args.n_atoms = args.found["n_atoms"]
    args.dof = 3 * args.n_atoms - args.found["fixed"]
    check_model(args.model, args.found["elements"], args.structure or "benzene")
    args.timestep = args.timestep or (HOT if "H" in args.found["elements"] else 2 * HOT)
    if args.equilibrate is None:
        args.equilibrate = EQUILIBRATE if args.structure else 0.0
    args.steps = args.steps if args.steps is not None else round(1000 * args.picoseconds / args.timestep)
    if args.steps < 100 or args.steps // args.every < 20:
        raise LammpsError("--steps must be at least 100, and 20 times --every")
    args.out = os.path.abspath(args.out)
    args.plugin, args.lmp = find_plugin(args.build), find_lmp(args.lmp)
    for folder in filter(None, (args.publish, args.out)):
        os.makedirs(folder, exist_ok=True)


def weights_hash(path):
    with open(path, encoding="utf-8") as f:
        found = re.search(r"(?<!_)sha256: *([0-9a-f]{64})", f.read())
    return found[1] if found else sha256_of(path)


def validate(args):
    """Runs, judges and writes; returns the result."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mlff-validate-") as place:
        rows, halves, minimum, errors = simulate(args, place)
    result = validation.judged(rows, halves, args)
    result["failures"] += errors
    if errors:
        result.update(verdict=judge.FAIL, passed=False)
    result.update(
        minimum_eV=minimum,
        model=os.path.basename(args.model),
        structure=args.found["label"],
        structure_file=args.structure and os.path.basename(args.structure),
        elements=args.found["elements"],
        sha256=weights_hash(args.model),
        temperature_K=args.temperature,
        timestep_fs=args.timestep,
        equilibrate_ps=args.equilibrate,
        seed=args.seed,
        settings=args.settings,
        seconds=round(time.monotonic() - begin, 1),
    )
    profiles.write_text(os.path.join(args.out, "data.csv"), validation.csv_text(rows))
    profiles.write_json(os.path.join(args.out, "validation.json"), result)
    profiles.write_text(os.path.join(args.out, "report.txt"), validation.report_text(result))
    validation.plot(rows, minimum, os.path.join(args.out, "energy.svg"))
    if args.publish:
        validation.publish(args.publish, args.out, result, rows)
    return result


@one_line("mlff validate")
def main(argv=None):
    args = arguments(argv)
    prepare(args)
    try:
        result = validate(args)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(args.out)  # unless it has results
        raise
    print(validation.report_text(result))
    print(f"written to {args.out}: report.txt, validation.json, energy.svg, data.csv")
    if args.publish:
        print(f"published in {os.path.abspath(args.publish)}")
    return EXIT[result["verdict"]]
