"""mlff distill RECIPE.yaml: from structures and a teacher to a trained and certified model.

Sections of the recipe: name, structures, teacher, student, and optionally training, inner, rounds, bars and certify
(docs/distillation.md). All files are in one folder, NAME by default. The same command continues a stopped run, with the
same result.
"""

import argparse
import os
import sys
from types import SimpleNamespace

from ..command_line import add_programs, one_line, positive
from ..model.lammps import find_lmp, find_plugin
from ..model.modelfile import ModelError
from . import distilling, job, plan, recipe_rounds
from .label import python_path
from .recipe import EXAMPLE

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE_FOLDER = os.path.join(HERE, "examples")
EPILOG = """examples:
  mlff distill --example water > water.yaml
  mlff distill water.yaml --dry-run
  mlff distill water.yaml
"""


def examples():
    """Names of the recipes to start from."""
    return sorted(name[:-5] for name in os.listdir(EXAMPLE_FOLDER) if name.endswith(".yaml"))


def show_example(name):
    if name not in examples():
        raise ModelError(f"--example {name}: there are {', '.join(examples())}")
    with open(os.path.join(EXAMPLE_FOLDER, name + ".yaml"), encoding="utf-8") as f:
        sys.stdout.write(f.read())


def programs(args, wanted):
    """Where the programs are; ModelError without one that is named."""
    python = (wanted.teacher.get("ase") or {}).get("python") or args.python
    return SimpleNamespace(
        lmp=find_lmp(args.lmp),
        plugin=find_plugin(args.plugin),
        mlff=args.program,
        program=args.program,
        python=python_path(python, wanted.recipe.folder),
        torch_python=None if args.dry_run else job.find_python(args.torch_python, wanted.training.get("device")),
        jobs=args.jobs,
    )


def run(args):
    if args.example:
        return show_example(args.example)
    if not args.recipe:
        raise ModelError(f"a recipe is required: {EXAMPLE}")
    wanted = recipe_rounds.read(args.recipe)
    write = lambda text: print(text, flush=True)
    if args.dry_run:
        return plan.show(wanted, programs(args, wanted), write)
    folder, found = args.out or wanted.name, programs(args, wanted)
    with distilling.claim(folder):
        work = distilling.Run(wanted, folder, found, write)
        work.check_recipe()
        if args.other:
            work.take(args.other)
        try:
            model = work.everything()
            write(f"{os.path.relpath(model)} is written")
            return None if args.no_certificate else work.certificate(model)
        finally:
            work.close()


def arguments():
    parser = argparse.ArgumentParser(
        prog="mlff distill", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("recipe", nargs="?", metavar="RECIPE.yaml", help="the recipe")
    add("-o", "--out", metavar="FOLDER", help="folder of the run (default: the recipe's name)")
    add("--from", dest="other", metavar="FOLDER", help="reuse trajectories of another run that are in this recipe")
    add("--dry-run", action="store_true", help="print numbers of labels and estimated times, run nothing")
    add("--example", metavar="NAME", help=f"print an example recipe: {', '.join(examples())}")
    add("--jobs", type=positive, default=os.cpu_count(), metavar="N", help="parallel processes (default: all cores)")
    add("--no-certificate", action="store_true", help="write only the model; mlff certify makes the certificate")
    add_programs(parser)
    add("--python", metavar="PATH", help="the Python that has ASE (default: that of the recipe, or this one)")
    add("--torch-python", metavar="PATH", help="the Python that has PyTorch (default: $MLFF_TORCH_PYTHON, or this one)")
    return parser


@one_line("mlff distill", "stopped; run the same command to continue")
def main(argv=None):
    args = arguments().parse_args(argv)
    return run(args)
