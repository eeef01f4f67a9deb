"""Structures of a recipe: read from files and built, and strained and rattled copies of them."""

import glob
import os

import numpy as np

from ..model import structures
from . import defects, extxyz, labels
from .extxyz import FrameError
from .lattices import crystal, surface, vacancy
from .liquids import dimers, liquid
from .random_structures import clusters, dense

MOLECULES = tuple(structures.MOLECULES)


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


def _molecule(item):
    elements, positions = structures.molecule(item["molecule"])
    return [{"elements": elements, "positions": np.array(positions, float), "cell": None}]


def listed(value):
    """A list of what is one value or a list of them."""
    return value if isinstance(value, list) else [value]


def _stackings(item):
    keys = {"size": (2, 2), **item["stacking"]}
    return [defects.stacking(sequence=sequence, **keys) for sequence in listed(keys.pop("sequence"))]


def _faults(item):
    keys = {"size": (2, 2), **item["fault"]}
    shifts, number = listed(keys.pop("shift")), keys.pop("number", 1)
    if shifts == ["random"]:  # everywhere in the plane
        shifts = np.random.default_rng(item.get("seed", 1)).random((number, 2))
    least = defects.SPLIT * defects.nearest(defects.sheared(shift=0.0, **keys))
    return [defects.opened(defects.sheared(shift=shift, **keys), least) for shift in shifts]


def _interstitials(item):
    keys = dict(item["interstitial"])
    kinds, add = keys.pop("kind"), keys.pop("add", None)
    whole = crystal(**keys)
    return [defects.interstitial(whole, kind, add) for kind in listed(kinds)]


def _vacancies(item):
    keys = dict(item["vacancy"])
    return [vacancy(hop=hop, seed=item.get("seed", 1), **keys) for hop in listed(keys.pop("hop", 0.0))]


MAKERS = {
    "molecule": _molecule,
    "crystal": lambda item: [crystal(**item["crystal"])],
    "surface": lambda item: [surface(**item["surface"])],
    "vacancy": _vacancies,
    "stacking": _stackings,
    "fault": _faults,
    "interstitial": _interstitials,
    "dense": lambda item: dense(**item["dense"], seed=item.get("seed", 1)),
    "cluster": lambda item: clusters(**item["cluster"], seed=item.get("seed", 1)),
}
KINDS = ("molecule", "dimer", "crystal", "liquid", "surface", "vacancy")
KINDS += tuple(kind for kind in MAKERS if kind not in KINDS)


def is_random(item):
    """Whether the seed draws the structures of an item, many of a kind that are held out as copies are."""
    return "dense" in item or "cluster" in item or item.get("fault", {}).get("shift") == "random"


def bases(item, where, place=".", python=None):
    """Frames that an item of `structures:`, which recipe_structures.py has checked, begins with."""
    if "files" in item:
        frames = [f for path in find_files(item["files"], place) for f in read_file(path, python)]
    elif "liquid" in item:
        frames = [packed(item, density, k, place) for k, density in enumerate(listed(item["liquid"]["density"]))]
    elif "dimer" in item:
        frames = dimers(**item["dimer"], seed=item.get("seed", 1), place=place)
    else:
        frames = next(make(item) for kind, make in MAKERS.items() if kind in item)
    return filled(frames[:: item.get("every", 1)], where)


def packed(item, density, number, place="."):
    """One of the boxes of an item `liquid`; another one for each number."""
    return liquid(item["liquid"]["molecules"], density, [item.get("seed", 1), number], place)


def build(item, where, place=".", python=None):
    """Frames of an item, and its strained and rattled copies."""
    return copies(bases(item, where, place, python), item, where)
