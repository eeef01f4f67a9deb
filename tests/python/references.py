"""Published descriptions and the references that their packages made, for the tests of one architecture. A name may be
that of a fixture, or NAME@HEAD for one head of it."""

import json
import os

import helpers
import numpy as np

from mlff_tools.convert import command as convert

PAIRS = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]


def path_of(name):
    return os.path.join(helpers.PUBLISHED, name.partition("@")[0] + ".yaml")


def described(kind, name):
    """(description, tensors)"""
    return convert.read_description(path_of(name), kind)


def references(name, file=None, most=None):
    """(structure, reference) of a model, of at most `most` atoms."""
    path = os.path.join(helpers.PUBLISHED, file or name.partition("@")[0] + "_reference.json")
    with open(path, encoding="utf-8") as f:
        for structure in json.load(f)["structures"].values():
            if name in structure["models"] and (most is None or len(structure["symbols"]) <= most):
                yield structure, structure["models"][name]


def cell_of(structure):
    return np.array(structure["cell"]) if any(structure["pbc"]) else None


def for_numpy(structure):
    """A structure as reference.evaluate takes it; None for cells that are periodic in part."""
    if any(structure["pbc"]) and not all(structure["pbc"]):
        return None
    positions = np.array(structure["positions"])
    return {"elements": structure["symbols"], "positions": positions, "cell": cell_of(structure)}


def stress_error(virial, cell, expected):
    """Largest difference between the stress of a virial (6) and that of a reference, eV/A^3."""
    stress = np.array([expected["stress"][a][b] for a, b in PAIRS])
    return np.abs(-virial / abs(np.linalg.det(cell)) - stress).max()


def converter(kind, folder):
    """name -> path of the model file, which is made once."""

    def make(name):
        path, head = folder / (name + ".yaml"), name.partition("@")[2]
        if not path.exists():
            words = [kind, path_of(name), "-o", str(folder / name), *(["--head", head] if head else [])]
            convert.convert(convert.command_line().parse_args([*words, "--no-self-test", "--min-distance", "0.3"]))
        return str(path)

    return make
