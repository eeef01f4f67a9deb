"""Labels structures with a teacher: `mlff label STRUCTURES... TEACHER -o LABELS.xyz`.

The teacher is one of
  --mlff MODEL            a model file, or the name of a model, including direct ones (Orb)
  --lammps COMMANDS       a file with the commands of a pair style, as after the structure in an input script, with
                          ${elements} for the elements in the order of the types; units metal or real
  --ase MODULE:FUNCTION   an ASE calculator, in a process of --python
  --labels FILE.xyz       existing labels, for example from DFT
STRUCTURES are extended XYZ files. ASE reads other formats (CIF, POSCAR, LAMMPS data, ...), in --python or this Python.
Each frame of LABELS.xyz has energy (eV), forces (eV/A), stress (eV/A^3, if periodic), the energies of atoms if the
teacher provides them, and the name of the teacher. The same command continues a stopped run.
docs/distillation.md describes the details.
"""

import argparse
import json
import os

from ..command_line import Stopped, above_zero, add_programs, number, one_line, positive
from ..model.modelfile import find_model
from . import build, consistency, generate, labelling, labels, recipe, recipe_structures
from .extxyz import FrameError
from .potentials import Programs
from .process import TeacherError
from .teacher_ase import AseTeacher
from .teacher_lammps import LammpsTeacher, read_commands, types_of
from .teachers import TIMEOUT, FileTeacher, ModelTeacher

EXAMPLES = """examples:
  mlff label water.xyz --mlff models/water-benzene-teacher.yaml -o labels.xyz
  mlff label silicon.xyz --lammps sw.in -o labels.xyz          where sw.in has  pair_style sw
                                                                               pair_coeff * * Si.sw ${elements}
  mlff label POSCAR --ase ase.calculators.emt:EMT --python ~/venv/bin/python -o labels.xyz
  mlff label a.xyz b.xyz --ase mace.calculators:mace_mp --arguments '{"model": "small"}' -o labels.xyz
  mlff label --labels dft.xyz --keys energy=REF_energy,forces=REF_forces -o labels.xyz
  mlff label --recipe recipe.yaml --hessian 0.25 -o labels.xyz
"""


def make_teacher(wanted, frames, place, args):
    """The teacher of a recipe's section, whose files are relative to the folder `place`."""
    timeout = wanted.get("timeout", TIMEOUT)
    if "mlff" in wanted:
        model = find_model(wanted["mlff"], place)
        return ModelTeacher(model, wanted.get("precision", "fp32"), args.program, timeout)
    if "lammps" in wanted:
        commands = wanted["lammps"]
        types = types_of(commands, wanted.get("types"), frames)
        return LammpsTeacher(commands, types, args.lmp, place, timeout)
    if "ase" in wanted:
        ase = wanted["ase"]
        python = python_path(ase.get("python") or args.python, place)
        return AseTeacher(ase["calculator"], ase.get("arguments"), python, place, timeout)
    return FileTeacher(os.path.join(place, wanted["labels"]), wanted.get("keys"), wanted.get("stress_limit"))


def present(teacher, frames, write):
    """Prints who the teacher is, and what of its labels or of the structures nothing checks or uses."""
    who = teacher.identity
    write(f"teacher: {who['kind']} {who['name']} ({who['versions']}), sha256 {who['sha256'][:12]}")
    for note in (*getattr(teacher, "notes", ()), *labelling.unused_states(teacher, frames)):
        write(f"note: {note}")


def python_path(path, place):
    """The path of a Python, which may be relative to the folder `place`; None without one."""
    path = os.path.expanduser(path) if path else None
    return os.path.abspath(os.path.join(place, path)) if path and "/" in path else path


def _arguments(text):
    try:
        value = json.loads(text)
    except ValueError as e:
        raise TeacherError(f"--arguments {text}: is not JSON ({e}): '{{\"name\": value}}' is expected") from e
    if not isinstance(value, dict):
        raise TeacherError(f"--arguments {text}: must be names and values, as '{{\"name\": value}}'")
    return value


def _keys(text):
    pairs = [word.partition("=")[::2] for word in text.split(",")]
    for name, value in pairs:
        if name not in recipe.LABEL_KEYS or not value:
            raise TeacherError(f"--keys {text}: NAME=KEY is expected, with {', '.join(recipe.LABEL_KEYS)} for NAME")
    return dict(pairs)


def wanted_teacher(args):
    """The section teacher of a recipe from command line options; None without a teacher."""
    kinds = [kind for kind in recipe.TEACHERS if getattr(args, kind)]
    if len(kinds) > 1 or (kinds and args.recipe):
        both = " and ".join(f"--{kind}" for kind in [*kinds, *(["recipe"] if args.recipe else [])])
        raise TeacherError(f"{both}: give one teacher")
    wanted = {kind: getattr(args, kind) for kind in kinds}
    options = (("precision", "mlff"), ("types", "lammps"), ("arguments", "ase"), ("keys", "labels"))
    for option, kind in (*options, ("stress_limit", "labels")):
        if getattr(args, option) and kind not in wanted:
            raise TeacherError(f"--{option.replace('_', '-')} belongs to --{kind}")
    if args.types:
        wanted["types"] = args.types.replace(",", " ").split()
    if args.lammps:
        wanted["lammps"] = read_commands(args.lammps)
    if args.ase:
        wanted["ase"] = {"calculator": args.ase, "arguments": _arguments(args.arguments or "{}")}
    if args.keys:
        wanted["keys"] = _keys(args.keys)
    if args.stress_limit:
        wanted["stress_limit"] = args.stress_limit
    if args.precision:
        wanted["precision"] = args.precision
    if args.timeout:
        wanted["timeout"] = args.timeout
    return wanted if kinds else None


def read_input(args):
    """(frames, the section teacher, the folder that its files are relative to)"""
    wanted, place, frames = wanted_teacher(args), os.getcwd(), []
    python = python_path(args.python, place)
    if args.recipe:
        found, items, wanted = recipe_structures.read(args.recipe)
        place = found.folder
        python = python_path((wanted.get("ase") or {}).get("python"), place) or python
        programs = Programs(args.lmp, args.program, args.plugin, python, args.jobs)
        frames = generate.generate(found, items, wanted, args.work or f"{args.out}.work", programs, say)
    elif wanted is None:
        raise TeacherError("no teacher: give one of --mlff, --lammps, --ase, --labels and --recipe")
    if "labels" in wanted and args.hessian:
        raise TeacherError("--hessian: a file of labels cannot label the displaced structures that this needs")
    frames += [f for path in build.find_files(args.structures, ".") for f in build.read_file(path, python)]
    if not frames and "labels" in wanted:
        path, limit = os.path.join(place, wanted["labels"]), wanted.get("stress_limit")
        frames = labels.read_labels(path, wanted.get("keys"), limit)
    if not frames:
        raise FrameError("no structures: name files of them, or give a recipe that has some")
    labels.check_structures(unlabelled(frames), args.elements.replace(",", " ").split() if args.elements else None)
    return frames, wanted, place


def unlabelled(frames):
    """Their energies do not count: the teacher gives new ones."""
    return [{**frame, "energy": None} for frame in frames]


def say(text):
    print(text, flush=True)


def run(args):
    """Labels the structures of the command line and prints a summary of the file."""
    frames, wanted, place = read_input(args)
    n_atoms = sum(len(f["elements"]) for f in frames)
    say(f"{len(frames)} structures, {n_atoms} atoms")
    teacher = make_teacher(wanted, frames, place, args)
    try:
        present(teacher, frames, say)
        file = labels.LabelFile(args.out, teacher.identity)
        try:
            labelling.label(teacher, frames, file, say, args.hessian)
            beside = len(file.frames) - len(frames)
            say(f"{args.out}: sha256 of its frames {labels.file_hash(file.frames)}")
            if beside:
                say(f"{beside} frames of the file are not among these structures")
            print(labels.summary(file.frames), end="")
        except KeyboardInterrupt:
            raise Stopped(
                f"stopped: {len(file.frames)} frames are in {args.out}; run the same command to continue"
            ) from None
        finally:
            file.close()
    finally:
        teacher.close()


def arguments():
    parser = argparse.ArgumentParser(
        prog="mlff label", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("structures", nargs="*", metavar="STRUCTURES", help="structure files")
    add("-o", "--out", required=True, metavar="LABELS.xyz", help="file of labels; existing labels are kept")
    add("--recipe", metavar="RECIPE.yaml", help="structures and teacher from the sections of a recipe")
    add("--work", metavar="FOLDER", help="folder of a recipe's trajectories (default: LABELS.xyz.work)")
    add(
        "--jobs",
        type=positive,
        metavar="N",
        help="trajectories of a recipe to run in parallel (default: all cores; 1 with ASE)",
    )
    add("--elements", metavar="H,O", help="the student's elements: a structure with another one is an error")
    add("--timeout", type=above_zero, metavar="S", help=f"time for one structure, seconds (default: {TIMEOUT:.0f})")
    more = "fraction of the training frames with a Hessian-vector product, two labels each (default: 0)"
    add("--hessian", type=number(0, 1, "a share from 0 to 1"), default=0.0, metavar="SHARE", help=more)
    teacher = parser.add_argument_group("teacher")
    add = teacher.add_argument
    add("--mlff", metavar="MODEL", help="a model file, or the name of a model")
    add("--precision", choices=recipe.PRECISIONS, help="precision of --mlff (default: fp32)")
    add("--lammps", metavar="COMMANDS", help="file of LAMMPS commands")
    add("--types", metavar="Si,C", help="elements of LAMMPS' types 1, 2, ... (default: alphabetical, see ${elements})")
    add("--ase", metavar="MODULE:FUNCTION", help="function or class that returns an ASE calculator")
    add("--arguments", metavar="JSON", help="arguments of the function, as '{\"name\": value}'")
    add("--python", metavar="PATH", help="the Python that has ASE and the calculator (default: this one)")
    add("--labels", metavar="FILE.xyz", help="a file of labels, extended XYZ")
    add("--keys", metavar="NAME=KEY,...", help="keys of the labels in --labels, as energy=REF_energy")
    largest = f"accept stresses of --labels up to this value in GPa (default: {consistency.LIMIT:.0f})"
    add("--stress-limit", type=above_zero, metavar="GPA", help=largest)
    add_programs(parser.add_argument_group("programs"))
    return parser


@one_line("mlff label")
def main(argv=None):
    args = arguments().parse_args(argv)
    run(args)
