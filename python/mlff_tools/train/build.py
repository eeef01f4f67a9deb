"""Structures of a recipe: read from files and built, and strained and rattled copies of them."""

import glob
import os

import numpy as np

from ..model import structures
from . import extxyz, labels
from .extxyz import FrameError
from .lattices import crystal, surface, vacancy
from .liquids import dimers, liquid

MOLECULES = tuple(structures.MOLECULES)
KINDS = ("molecule", "dimer", "crystal", "liquid", "surface", "vacancy")


def disturbed(frame, k, strain, rattle, seed):
    """Copy k of a structure: each of the six strains uniform within +-strain, then each coordinate moved by a normal
    deviate of width `rattle`, A."""
    rng = np.random.default_rng([seed, k])
    x, cell = frame["positions"], frame["cell"]
    if strain:
        e = rng.uniform(-strain, strain, 6)
        f = np.eye(3) + np.array([[e[0], e[5] / 2, e[4] / 2], [e[5] / 2, e[1], e[3] / 2], [e[4] / 2, e[3] / 2, e[2]]])
        x, cell = x @ f, cell @ f
    if rattle:
        x = x + rattle * rng.normal(size=x.shape)
    what = f"{frame['source']}, copy {k + 1}"
    return {**frame, "positions": x, "cell": cell, "source": what, "name": what, "info": {}, "columns": {}}


def copies(frames, item, where):
    """The frames and, after them, the disturbed copies that an item of a recipe asks for."""
    strain, rattle = item.get("strain", 0.0), item.get("rattle", 0.0)
    if not strain and not rattle:
        return frames
    out = list(frames)
    for number, frame in enumerate(frames):
        if strain and frame["cell"] is None:
            raise FrameError(f"{where}: {frame['source']} is not periodic and cannot be strained")
        clean = {key: value for key, value in frame.items() if key not in extxyz.LABELS}
        first = number * item.get("copies", 1)
        out += [disturbed(clean, first + k, strain, rattle, item.get("seed", 1)) for k in range(item.get("copies", 1))]
    return out


def _is_xyz(path):
    return path.lower().endswith((".xyz", ".extxyz"))


def read_file(path, python=None, names=None):
    """Structures of one file; other formats than XYZ by ASE."""
    from .teacher_ase import read_by_ase  # not needed where all is XYZ

    if not os.path.isfile(path):
        raise FrameError(f"{path}: there is no such file")
    if os.path.getsize(path) == 0:
        raise FrameError(f"{path}: is empty")
    frames = extxyz.read(path, names) if _is_xyz(path) else read_by_ase(path, python)
    labels.check_occupancy(frames)
    return frames


def find_files(patterns, place):
    """Paths of files given by name or pattern, relative to the folder `place`; in the order given, each once."""
    out = []
    for pattern in patterns:
        full = os.path.normpath(os.path.join(place, pattern))
        found = [full] if os.path.isfile(full) else sorted(glob.glob(full))
        if not found:
            raise FrameError(f"{pattern}: there is no such file")
        out += [path for path in found if path not in out]
    return out


def filled(frames, where):
    """The frames with all keys that a frame has."""
    for frame in frames:
        frame.setdefault("source", where)
        frame.setdefault("name", where)
        frame.setdefault("info", {})
        frame.setdefault("columns", {})
    return list(frames)


def bases(item, where, place=".", python=None):
    """Frames that an item of `structures:`, which recipe_structures.py has checked, begins with."""
    if "files" in item:
        frames = [f for path in find_files(item["files"], place) for f in read_file(path, python)]
    elif "molecule" in item:
        elements, positions = structures.molecule(item["molecule"])
        frames = [{"elements": elements, "positions": np.array(positions, float), "cell": None}]
    elif "liquid" in item:
        liquid = item["liquid"]
        densities = liquid["density"] if isinstance(liquid["density"], list) else [liquid["density"]]
        frames = [packed(item, density, k, place) for k, density in enumerate(densities)]
    elif "dimer" in item:
        frames = dimers(**item["dimer"], seed=item.get("seed", 1), place=place)
    elif "surface" in item:
        frames = [surface(**item["surface"])]
    elif "vacancy" in item:
        frames = [vacancy(**item["vacancy"], seed=item.get("seed", 1))]
    else:
        frames = [crystal(**item["crystal"])]
    return filled(frames[:: item.get("every", 1)], where)


def packed(item, density, number, place="."):
    """One of the boxes of an item `liquid`; another one for each number."""
    return liquid(item["liquid"]["molecules"], density, [item.get("seed", 1), number], place)


def build(item, where, place=".", python=None):
    """Frames of an item, and its strained and rattled copies."""
    return copies(bases(item, where, place, python), item, where)
