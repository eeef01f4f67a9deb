"""Published values, of experiments and of quantum chemistry, next to those of the model and its teacher.

reality.yaml has them by material: a list of {quantity, group, value, temperature, kind, source} for "Al fcc" or
"water liquid". `kind` is experiment or the functional; `group` is what follows the name of the system in a row."""

import functools
import os

from ..model import modelfile, structures
from . import novel

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reality.yaml")


@functools.cache
def published():
    """{material: entries}"""
    return modelfile.load_yaml(PATH)


def material(system):
    """The key of a system in reality.yaml: `Al fcc`, or `water liquid` where all molecules are alike and one of
    structures.MOLECULES; else None. Isomers are told apart by their bonds."""
    if system.kind != "liquid":
        return system.phase
    found = novel.structural_formulas([system.frame])
    names = [f"{name} liquid" for name in structures.MOLECULES if found == {novel.of_molecule(name)}]
    return names[0] if names else None


def _group(row, name):
    """What follows the name of a system in the group of a row; None where the row is of another one."""
    if row["group"] != name and not row["group"].startswith((f"{name} ", f"{name}:")):
        return None
    return row["group"][len(name) :].lstrip(": ")


def add(rows, systems):
    """Adds the key `published` to rows that have published values."""
    for system in sorted(systems, key=lambda s: len(s.name)):  # of `Al` and `Al fcc` the longer name comes last
        entries = published().get(material(system)) or ()
        for row in rows:
            group = _group(row, system.name)
            mine = [e for e in entries if e["quantity"] == row["quantity"] and str(e.get("group", "")) == group]
            if group is not None and mine:
                row["published"] = mine
