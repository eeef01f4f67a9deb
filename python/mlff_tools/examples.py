"""mlff examples: lists the example input scripts of LAMMPS, and copies them.

    mlff examples                       names and what they compute
    mlff examples in.eos in.water_nvt   copies of them, with the data that they read, in this folder
    mlff examples elastic -o runs       `in.` may be left out

A copy needs no other file: run `lmp -in NAME` where it is. Variables at its top can be set with -var.
"""

import argparse
import glob
import os
import re

from . import FILES
from .command_line import one_line
from .model.files import write_bytes
from .model.lammps import find_plugin
from .model.modelfile import ModelError, read_text

FOLDER = os.path.join(FILES, "examples", "lammps_inputs")
# Lines of a script that find the plugin and the data from another folder
PLACES = re.compile(
    r"^variable +(?:folder|plugin|built) .*\n(?:if \"\$\{built\} == 1\" then \"plugin load \$\{plugin\}\"\n)?", re.M
)


def scripts():
    """{name: path} of the scripts."""
    return {os.path.basename(path): path for path in sorted(glob.glob(os.path.join(FOLDER, "in.*")))}


def summary(text):
    """The first sentence of a script's first comment, at most 100 characters."""
    comment = " ".join(line.lstrip("# ").rstrip() for line in text.split("\n\n", 1)[0].splitlines() if line[0] == "#")
    sentence = comment.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= 100 else sentence[:97].rsplit(" ", 1)[0] + " ..."


def alone(text, plugin):
    """A script without the lines that find the plugin and the data of another folder. plugin: path, empty where LAMMPS
    finds it by itself."""
    text = text.replace(", or add -var folder PATH", "").replace("${folder}/", "")
    load = f'plugin          load "{plugin}"\n\n' if plugin else ""
    if re.search(r'["$&#\n]', plugin):
        raise ModelError(f"{plugin}: LAMMPS cannot read this path: move the plugin to one without quotes, $, & and #")
    if not PLACES.search(text):
        raise ModelError("this script has no variables folder and plugin")
    text = re.sub(r"\n{3,}", "\n\n", PLACES.sub("", text))
    return re.sub(r"^(?=units )", lambda _: load, text, count=1, flags=re.M)


def files_of(name, plugin):
    """{file name: text} of a script and its data."""
    known = scripts()
    path = known.get(name) or known.get(f"in.{name}")
    if not path:
        raise ModelError(f"there is no example '{name}'; known: {', '.join(known)}")
    text = read_text(path)
    data = [d for d in os.listdir(FOLDER) if d.startswith(("data.", "mol.")) and d in text]
    return {os.path.basename(path): alone(text, plugin), **{d: read_text(os.path.join(FOLDER, d)) for d in data}}


@one_line("mlff examples")
def main(argv=None):
    p = argparse.ArgumentParser(
        prog="mlff examples", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", metavar="NAME", help="scripts to copy")
    p.add_argument("-o", "--out", default=".", metavar="DIR", help="folder for copies (default: this folder)")
    p.add_argument("--force", action="store_true", help="replace files that exist")
    args = p.parse_args(argv)
    if not args.names:
        for name, path in scripts().items():
            print(f"{name:16s}{summary(read_text(path))}")
        return 0
    plugin, made = find_plugin(), {}
    for name in args.names:
        made.update(files_of(name, plugin))
    there = [name for name in made if os.path.exists(os.path.join(args.out, name))]
    if there and not args.force:
        raise ModelError(f"{os.path.join(args.out, there[0])} exists: move it, or replace it with --force")
    os.makedirs(args.out, exist_ok=True)
    for name, text in made.items():
        write_bytes(os.path.join(args.out, name), text.encode())
        print(os.path.join(args.out, name))
    return 0
