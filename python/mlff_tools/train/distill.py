"""mlff distill RECIPE.yaml: from structures and a teacher to a trained and certified model.

mlff distill POSCAR, or another structure, --element Cu or --liquid "water:32 ethanol:4" writes the recipe of its kind
of material first, NAME.yaml, with the best teacher at hand, and prints the plan.

Sections of the recipe: name, structures, teacher, student, and optionally training, inner, rounds, committee, bars and
certify (docs/distillation.md). All files are in one folder, NAME by default. The same command continues a stopped run,
with the same result.

--explore runs a LAMMPS script of yours with the student. Frames whose uncertainty is above its limit are labelled and
trained on, and the script is run again until it has none. --continue trains on frames that you give. RECIPE.yaml may
be the folder of the run.
"""

import argparse
import functools
import os
import sys
from types import SimpleNamespace

from ..command_line import FAILED, above_zero, add_programs, one_line, positive
from ..model.lammps import find_lmp, find_plugin, processors
from ..model.modelfile import ModelError, find_model
from . import distilling, job, more, plan, recipe_rounds, start
from .label import python_path
from .recipe import EXAMPLE

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE_FOLDER = os.path.join(HERE, "examples")
EPILOG = """examples:
  mlff distill --element Cu
  mlff distill POSCAR --teacher nequix-oam-1-pft --temperature 900 --dry-run
  mlff distill --liquid "water:32 ethanol:4" --hours 2
  mlff distill --example water > water.yaml
  mlff distill water.yaml --dry-run
  mlff distill water.yaml
  mlff distill water.yaml --explore in.my_run --var t 350
  mlff distill water-xs --continue frames.xyz
"""


def examples():
    """Names of the recipes to start from."""
    return sorted(name[:-5] for name in os.listdir(EXAMPLE_FOLDER) if name.endswith(".yaml"))


def show_example(name):
    if name not in examples():
        raise ModelError(f"--example {name}: there are {', '.join(examples())}")
    with open(os.path.join(EXAMPLE_FOLDER, name + ".yaml"), encoding="utf-8") as f:
        sys.stdout.write(f.read())


def programs(args, wanted=None):
    """Where the programs are; ModelError without one that is named. wanted: the recipe, if there is one."""
    ase = (wanted.teacher.get("ase") or {}) if wanted else {}
    return SimpleNamespace(
        lmp=find_lmp(args.lmp),
        plugin=find_plugin(args.plugin),
        mlff=args.program,
        program=args.program,
        python=python_path(ase.get("python") or args.python, wanted.recipe.folder if wanted else ""),
        jobs=args.jobs,
    )


@functools.cache
def find_torch(given, device=None):
    """The Python with PyTorch, which is looked for after all input was checked."""
    return job.find_python(given, device)


def is_started(args):
    """Whether the recipe is to be written first, from a structure."""
    sources = {"--element": args.element, "--liquid": args.liquid, "a structure": not start.is_recipe(args.recipe)}
    given = [name for name, value in sources.items() if value]
    if len(given) > 1 or (given and args.recipe and start.is_recipe(args.recipe)):
        raise ModelError(f"{' and '.join(given if len(given) > 1 else [*given, args.recipe])}: give one of them")
    if given:
        return True
    wrong = [name for name in ("teacher", "size", "temperature") if getattr(args, name)]
    if wrong:
        raise ModelError(f"--{wrong[0]} belongs to a structure, --element or --liquid; a recipe has keys for it")
    return False


def recipe_of(args):
    """(path of the recipe, folder of the run or None) of the argument, which may be the folder."""
    if not args.recipe:
        raise ModelError(f"a recipe or a structure is required: {EXAMPLE}")
    if not os.path.isdir(args.recipe):
        return args.recipe, args.out
    path = (job.read_json(os.path.join(args.recipe, "run.json")) or {}).get("path")
    if path is None or not os.path.exists(path):
        raise ModelError(f"{args.recipe}: its recipe is not at {path}: give RECIPE.yaml --out {args.recipe}")
    return path, args.out or args.recipe


def check_added(args, started):
    """ModelError for options of --explore and --continue that do not fit each other."""
    if args.explore and args.frames:
        raise ModelError("--explore and --continue: give one of them")
    if not args.explore:
        given = {"--var": args.var, "--rounds": args.rounds, "--passes": args.passes}
        given["--hours"] = None if started else args.hours
        wrong = [name for name, value in given.items() if value]
        if wrong or args.atoms:
            raise ModelError(f"{(wrong or ['--atoms'])[0]} belongs to --explore")


def added(args, wanted):
    """Rounds that --explore or --continue adds, or None."""
    if args.explore:
        options = {"count": args.rounds, "passes": args.passes, "hours": args.hours, "atoms": args.atoms}
        return more.Explore(recipe_rounds.of_command(wanted.recipe, args.explore, args.var, options))
    return more.Continue(args.frames, wanted.rounds) if args.frames else None


def run(args):
    if args.example:
        return show_example(args.example)
    write = lambda text: print(text, flush=True)
    started = is_started(args)
    check_added(args, started)
    torch = lambda device=None: None if args.dry_run else find_torch(args.torch_python, device)
    path, folder = (start.recipe(args, programs(args), write, torch), args.out) if started else recipe_of(args)
    wanted = recipe_rounds.read(path)
    further = added(args, wanted)
    found, folder = programs(args, wanted), folder or wanted.name
    if "mlff" in wanted.teacher:
        find_model(wanted.teacher["mlff"], wanted.recipe.folder)
    distilling.check_folders(folder, args.other)
    if args.dry_run or started:
        plan.show(wanted, found, write)
    plan.warn(wanted, found, write)
    if args.dry_run:
        try:
            write(f"  {'PyTorch':<12} of {find_torch(args.torch_python, wanted.training.get('device'))}")
        except ModelError as e:
            write(f"  {'PyTorch':<12} missing: {e}")
        return None
    found.torch_python = torch(wanted.training.get("device"))
    with distilling.claim(folder):
        work = distilling.Run(wanted, folder, found, write)
        work.check_recipe()
        if args.other:
            work.take(args.other)
        try:
            model = work.everything(lambda done: more.rounds_after(work, further, done))
            write(f"{os.path.relpath(model)} is written")
            status = 0 if args.no_certificate else work.certificate(model)
            if work.failed:
                write(work.failed)
            return status or (FAILED if work.failed else 0)
        finally:
            work.close()


def arguments():
    parser = argparse.ArgumentParser(
        prog="mlff distill", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("recipe", nargs="?", metavar="RECIPE.yaml", help="the recipe, or a structure: POSCAR, CIF, data file, XYZ")
    add("-o", "--out", metavar="FOLDER", help="folder of the run (default: the recipe's name)")
    add("--from", dest="other", metavar="FOLDER", help="reuse trajectories of another run that are in this recipe")
    add("--dry-run", action="store_true", help="print numbers of labels and estimated times, run nothing")
    add("--example", metavar="NAME", help=f"print an example recipe: {', '.join(examples())}")
    add("--jobs", type=positive, default=processors(), metavar="N", help="parallel processes (default: all cores)")
    add("--no-certificate", action="store_true", help="write only the model; mlff certify makes the certificate")
    new = parser.add_argument_group("from a structure, whose recipe is written").add_argument
    new("--element", metavar="SYMBOL", help="the crystal of an element")
    new("--liquid", metavar="MOLECULES", help='a liquid of molecules or XYZ files, as "water:32 ethanol:4"')
    new("--teacher", metavar="MODEL", help="a model, or module:function of an ASE calculator (default: best at hand)")
    new("--size", choices=("xs", "s", "m"), help="of the student (default: m for crystals, else xs)")
    new(
        "--temperature",
        type=above_zero,
        metavar="K",
        help="highest of a crystal (default: 0.9 of melting); of a liquid",
    )
    loop = parser.add_argument_group("a script of yours, until the student knows it").add_argument
    loop("--explore", metavar="SCRIPT", help="LAMMPS script with pair_style mlff, which the student learns to run")
    words = {"nargs": "+", "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    loop("--var", **words, help="variable of the script, as -var of LAMMPS; `seed` differs in each run unless set")
    loop("--rounds", type=positive, metavar="N", help="largest number of rounds (default: 5, or that of the recipe)")
    loop("--passes", type=positive, metavar="N", help="runs in a row without a flag that end the rounds (default: 1)")
    hours = "core time after which no round begins (default: no limit); of a structure: of its labels and training"
    loop("--hours", type=above_zero, metavar="H", help=hours)
    loop("--atoms", type=positive, metavar="N", help="largest frame that is labelled (default: 2000)")
    loop("--continue", dest="frames", metavar="FRAMES.xyz", help="train on these frames, labelled or not, as well")
    add_programs(parser)
    add("--python", metavar="PATH", help="the Python that has ASE (default: that of the recipe, or this one)")
    add("--torch-python", metavar="PATH", help="the Python that has PyTorch (default: $MLFF_TORCH_PYTHON, or this one)")
    return parser


@one_line("mlff distill", "stopped; run the same command to continue")
def main(argv=None):
    args = arguments().parse_args(argv)
    return run(args)
