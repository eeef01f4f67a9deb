"""The section `structures` of recipes, checked; generate.py makes it.

structures:
  - files: [water.xyz, "relaxed/*.cif"]          # every: 10 takes each tenth frame
  - crystal: {lattice: diamond, elements: [Si], constant: 5.43, supercell: [2, 2, 2]}
    strain: 0.03                                 # each strain within +-0.03; then
    rattle: 0.1                                  # each coordinate by a normal deviate of 0.1 A
    copies: 20                                   # in addition to the crystal
    relax: 5                                     # each copy from the one before it, and then minimised by 5 steps
    seed: 1
    dynamics: {temperature: [300, 600], pressure: [0, 10000], time: 2.0, every: 0.05}
  - liquid: {molecules: {water: 32, ethanol: 4}, density: [0.95, 1.0]}
    dynamics: {temperature: 300, by: {mlff: student.yaml}}
  - surface: {lattice: fcc, elements: [Al], constant: 4.05, miller: 111, size: [2, 2, 6], vacuum: 12}
  - vacancy: {lattice: bcc, elements: [Fe], constant: 2.86, supercell: [3, 3, 3], remove: 1}
  - molecule: water
  - dimer: {molecules: [water, methanol], closest: [0.45, 0.8], number: 50}
  - stacking: {lattice: fcc, elements: [Al], constant: 4.05, sequence: [AB, ABAC], size: [2, 2]}
  - fault: {lattice: fcc, elements: [Al], constant: 4.05, plane: 111, shift: [0.5, 1], layers: 9, size: [2, 2]}
  - interstitial: {lattice: bcc, elements: [Fe], constant: 2.86, supercell: [3, 3, 3], kind: [110, 111, hole]}
  - dense: {elements: {Si: 32}, density: [2.0, 2.5], closest: [0.8, 1.0], number: 50}
  - cluster: {elements: {Si: [2, 12]}, closest: [0.8, 1.6], number: 40}
"""

import os
import re

from ..convert.short_range import RADII
from . import build, defects, lattices
from .dataset import SPLITS
from .dynamics import DEFAULTS, n_frames
from .recipe import EXAMPLE, SECTIONS, Recipe, RecipeError, check_potential, count, elements, number, texts
from .recipe import teacher as read_teacher

KINDS = ("files", *build.KINDS)
COPIES = {
    "every": (count(1), "a whole number from 1"),
    "strain": (number(0, 0.3), "a number up to 0.3"),
    "rattle": (number(0, 2), "a width in A up to 2"),
    "copies": (count(1, 10**6), "a whole number from 1"),
    "relax": (count(1, 10**4), "steps of minimisation, a whole number from 1"),
    "seed": (count(0), "a whole number from 0"),
    "label": (lambda v: isinstance(v, str) and re.fullmatch(r"[\w.+-]+", v), "a word"),
    "split": (lambda v: v in SPLITS, "one of " + ", ".join(SPLITS)),
}
ITEM = (*KINDS, *COPIES, "dynamics")
IN_VACUUM = ("cluster", "dimer", "molecule")
LATTICE = ("lattice", "elements", "constant")


def _one_or_more(recipe, key_path, good, allowed):
    def all_good(v):
        v = build.listed(v)
        return bool(v) and all(map(good, v)) and len(set(v)) == len(v)

    recipe.check(key_path, all_good, allowed)


def _lattice(recipe, key_path, lattices_, more=(), needed=()):
    value = recipe.mapping(key_path, (*LATTICE, *more), (*LATTICE, *needed))
    recipe.one_of((*key_path, "lattice"), tuple(lattices_))
    n = len(lattices.LATTICES[value["lattice"]])
    recipe.check((*key_path, "elements"), lambda v: elements(v) and len(v) == n, f"a list of {n} chemical symbol(s)")
    length = number(0.5, 100)
    if value["lattice"] in lattices.C_OVER_A:
        good = lambda v: isinstance(v, list) and len(v) == 2 and all(map(length, v))
        recipe.check((*key_path, "constant"), good, "[a, c] in A")
    else:
        recipe.check((*key_path, "constant"), length, "a length in A from 0.5 to 100")
    if "supercell" in value:
        good = lambda v: isinstance(v, list) and len(v) == 3 and all(map(count(1, 1000), v))
        recipe.check((*key_path, "supercell"), good, "three whole numbers from 1, as [2, 2, 2]")
    return value


def _crystal(recipe, key_path):
    _lattice(recipe, key_path, lattices.LATTICES, ("supercell",))


def _vacancy(recipe, key_path):
    value = _lattice(recipe, key_path, lattices.LATTICES, ("supercell", "remove", "hop"))
    cells = value.get("supercell", [1, 1, 1])
    n = sum(map(len, lattices.LATTICES[value["lattice"]])) * cells[0] * cells[1] * cells[2]
    if "remove" in value:
        recipe.check((*key_path, "remove"), count(1, n - 1), f"a whole number from 1 to {n - 1}, of {n} atoms")
    elif n < 2:
        recipe.fail(key_path, "has one atom: give it a supercell")
    if "hop" in value:
        _one_or_more(recipe, (*key_path, "hop"), number(0, 1), "a number from 0 to 1, or a list of them")


def _surface(recipe, key_path):
    value = _lattice(recipe, key_path, lattices.CUBIC, ("miller", "size", "vacuum"), ("miller", "size"))
    value["miller"] = str(value["miller"])
    recipe.one_of((*key_path, "miller"), tuple(lattices.MILLER))
    good = lambda v: isinstance(v, list) and len(v) == 3 and all(map(count(1, 1000), v))
    recipe.check((*key_path, "size"), good, "[nx, ny, layers], whole numbers from 1")
    if "vacuum" in value:
        recipe.check((*key_path, "vacuum"), number(0, 1000), "a length in A")


def _known(recipe, key_path, name):
    if name not in build.MOLECULES and not os.path.isfile(os.path.join(recipe.folder, name)):
        known = ", ".join(build.MOLECULES)
        recipe.fail(key_path, f"is not known; allowed are {known}, or an XYZ file of one molecule")


def _dimer(recipe, key_path):
    value = recipe.mapping(key_path, ("molecules", "closest", "number"), ("molecules", "number"))
    recipe.check((*key_path, "molecules"), lambda v: texts(v) and len(v) == 2, "a list of two names or XYZ files")
    for k, name in enumerate(value["molecules"]):
        _known(recipe, (*key_path, "molecules", k), name)
    value.setdefault("closest", [0.45, 0.8])
    share = number(0.1, 2)
    good = lambda v: isinstance(v, list) and len(v) == 2 and all(map(share, v)) and v[0] <= v[1]
    recipe.check(
        (*key_path, "closest"), good, "[least, most], shares of the sum of two van der Waals radii from 0.1 to 2"
    )
    recipe.check((*key_path, "number"), count(1, 10**6), "a number of dimers from 1")


def _liquid(recipe, key_path, densities_elsewhere):
    value = recipe.mapping(key_path, ("molecules", "density"), ("molecules",))
    inner = (*key_path, "molecules")
    if not isinstance(value["molecules"], dict) or not value["molecules"]:
        recipe.fail(inner, "must be names or XYZ files and numbers of molecules, as {water: 32, ethanol: 4}")
    for name in value["molecules"]:
        _known(recipe, (*inner, name), name)
        recipe.check((*inner, name), count(1, 10**6), "a number of molecules from 1")
    if ("density" in value) == densities_elsewhere:
        where = "is given in dynamics as well" if densities_elsewhere else "is missing: g/cm3, a number or a list"
        recipe.fail((*key_path, "density"), where)
    if "density" in value:
        _one_or_more(recipe, (*key_path, "density"), number(0, 30), "g/cm3, a number or a list of them")


def _in_plane(recipe, key_path, value):
    if "size" in value:
        good = lambda v: isinstance(v, list) and len(v) == 2 and all(map(count(1, 1000), v))
        recipe.check((*key_path, "size"), good, "[nx, ny], whole numbers from 1")


def _stacking(recipe, key_path):
    value = _lattice(recipe, key_path, defects.STACKED, ("sequence", "size"), ("sequence",))
    _one_or_more(
        recipe,
        (*key_path, "sequence"),
        lambda v: isinstance(v, str) and len(v) <= 1000 and defects.is_sequence(v),
        "letters A, B and C, also in a circle never the same one twice in a row, as ABAC; or a list of them",
    )
    _in_plane(recipe, key_path, value)


def _fault(recipe, key_path):
    names = tuple(dict.fromkeys(lattice for lattice, _ in defects.PLANES))
    more = ("plane", "shift", "layers", "size", "number")
    value = _lattice(recipe, key_path, names, more, ("plane", "shift", "layers"))
    value["plane"] = str(value["plane"]).zfill(4 if value["lattice"] == "hcp" else 3)  # 0001 is a number in YAML
    planes = tuple(plane for lattice, plane in defects.PLANES if lattice == value["lattice"])
    recipe.check((*key_path, "plane"), lambda v: v in planes, f"{' or '.join(planes)}, of {value['lattice']}")
    recipe.check((*key_path, "layers"), count(2, 1000), "a whole number of lattice planes from 2")
    if value["shift"] == "random":
        value.setdefault("number", 20)
        recipe.check((*key_path, "number"), count(1, 10**6), "a number of faults from 1")
    elif "number" in value:
        recipe.fail((*key_path, "number"), "belongs to shift: random")
    else:
        _one_or_more(recipe, (*key_path, "shift"), number(-10, 10), "a number, a list of them, or random")
    _in_plane(recipe, key_path, value)


def _interstitial(recipe, key_path):
    more = ("supercell", "kind", "add")
    value = _lattice(recipe, key_path, lattices.LATTICES, more, ("supercell", "kind"))
    recipe.check((*key_path, "supercell"), lambda v: min(v) >= 2, "three whole numbers from 2, as [2, 2, 2]")
    kinds = [str(k) for k in value["kind"]] if isinstance(value["kind"], list) else str(value["kind"])
    value["kind"] = kinds
    allowed = [k for k in defects.INTERSTITIALS if value["lattice"] in defects.WITH_HOLES.get(k, lattices.LATTICES)]
    _one_or_more(recipe, (*key_path, "kind"), lambda v: v in allowed, f"one or a list of {', '.join(allowed)}")
    if "add" in value:
        recipe.check((*key_path, "add"), lambda v: elements([v]), "a chemical symbol")


def _range(recipe, key_path, low, high, default):
    """A section's key `closest`, which is filled in."""
    recipe.get(key_path).setdefault("closest", default)
    share = number(low, high)
    good = lambda v: isinstance(v, list) and len(v) == 2 and all(map(share, v)) and v[0] <= v[1]
    allowed = f"[least, most], shares of the sum of two covalent radii above {low:g} and up to {high:g}"
    recipe.check((*key_path, "closest"), good, allowed)


def _atoms(recipe, key_path, good, example):
    value = recipe.get(key_path)
    if not isinstance(value, dict) or not value:
        recipe.fail(key_path, f"must be elements and numbers of atoms, as {example}")
    for element in value:
        if element not in RADII:
            recipe.fail((*key_path, element), "is not an element with a covalent radius")
        recipe.check((*key_path, element), *good)
    return value


def _dense(recipe, key_path):
    recipe.mapping(key_path, ("elements", "density", "closest", "number"), ("elements", "density", "number"))
    atoms = _atoms(recipe, (*key_path, "elements"), (count(1, 10**4), "a number of atoms from 1"), "{Na: 16, Cl: 16}")
    if sum(atoms.values()) < 2:
        recipe.fail((*key_path, "elements"), "is one atom: two are needed")
    _one_or_more(recipe, (*key_path, "density"), number(0, 50), "g/cm3, a number or a list of them")
    recipe.check((*key_path, "number"), count(1, 10**6), "a number of structures from 1")
    _range(recipe, key_path, 0.3, 1.5, [0.8, 1.0])


def _cluster(recipe, key_path):
    recipe.mapping(key_path, ("elements", "closest", "number"), ("elements", "number"))
    pair = lambda v: isinstance(v, list) and len(v) == 2 and all(map(count(0, 1000), v)) and v[0] <= v[1]
    atoms = _atoms(recipe, (*key_path, "elements"), (pair, "[least, most] atoms, as [2, 12]"), "{Si: [2, 12]}")
    if sum(most for _, most in atoms.values()) < 2:
        recipe.fail((*key_path, "elements"), "are never two atoms")
    recipe.check((*key_path, "number"), count(1, 10**6), "a number of clusters from 1")
    _range(recipe, key_path, 0.3, 3.0, [0.8, 1.6])


DYNAMICS = {
    "time": (number(0, 1e7), "ps"),
    "every": (number(0, 1e4), "ps"),
    "timestep": (number(0, 100), "fs"),
    "equilibrate": (number(-1e-9, 1e7), "ps"),
    "hot": (number(0, 1e5), "K"),
    "runs": (count(1, 10**5), "a whole number from 1"),
    "seed": COPIES["seed"],
    "cell": (lambda v: v in ("iso", "aniso", "tri"), "one of iso, aniso, tri"),
    "minimise": (lambda v: isinstance(v, bool), "true or false"),
    "on_error": (lambda v: v in ("stop", "keep"), "stop or keep"),
}
STATES = ("temperature", "pressure", "density")


def check_dynamics(recipe, key_path, more=("by",)):
    """A section `dynamics`. more: keys of it that are checked elsewhere."""
    value = recipe.mapping(key_path, (*STATES, *DYNAMICS, *more), ("temperature",))
    _one_or_more(recipe, (*key_path, "temperature"), number(0, 1e5), "K, a number or a list of different ones")
    if "pressure" in value:
        _one_or_more(recipe, (*key_path, "pressure"), number(-1e7, 1e7), "bar, a number or a list of different ones")
    if "density" in value:
        _one_or_more(recipe, (*key_path, "density"), number(0, 30), "g/cm3, a number or a list of different ones")
    for key, (good, allowed) in DYNAMICS.items():
        if key in value:
            recipe.check((*key_path, key), good, allowed)
    d = {**DEFAULTS, **value}
    steps = 1000 * d["every"] / d["timestep"]
    if abs(steps - round(steps)) > 1e-6 or round(steps) < 1:
        key = "every" if "every" in value else "timestep" if "timestep" in value else "temperature"
        recipe.fail(
            (*key_path, key), f"every {d['every']} ps is not a whole number of time steps of {d['timestep']} fs"
        )
    if n_frames(d) < 1:
        recipe.fail(
            (*key_path, "time" if "time" in value else "every"), f"no frame: {d['time']} ps, one every {d['every']} ps"
        )
    if "cell" in value and "pressure" not in value:
        recipe.fail((*key_path, "cell"), "needs pressure as well")


def _moved_by(recipe, key_path, item, teacher):
    """Checks what moves the atoms of an item, and returns its section."""
    section = item.get("dynamics", {})
    if "by" not in section:
        return teacher
    if section["by"] == "teacher":
        del section["by"]
        return teacher
    return check_potential(recipe, (*key_path, "dynamics", "by"), ("lammps", "mlff", "ase"))


CHECKS = {
    "crystal": _crystal,
    "dimer": _dimer,
    "surface": _surface,
    "vacancy": _vacancy,
    "stacking": _stacking,
    "fault": _fault,
    "interstitial": _interstitial,
    "dense": _dense,
    "cluster": _cluster,
}


def _kind(recipe, key_path, item):
    kinds = [kind for kind in KINDS if kind in item]
    if len(kinds) != 1:
        recipe.fail(key_path, f"must have one of {', '.join(KINDS)}, and has {' and '.join(kinds) or 'none'}")
    kind, dynamics = kinds[0], item.get("dynamics")
    if kind == "files":
        if isinstance(item["files"], str):
            item["files"] = [item["files"]]
        recipe.check((*key_path, "files"), texts, "a name or a list of names of files")
    elif kind == "molecule":
        recipe.one_of((*key_path, "molecule"), build.MOLECULES)
    elif kind == "liquid":
        _liquid(recipe, (*key_path, "liquid"), isinstance(dynamics, dict) and "density" in dynamics)
    else:
        CHECKS[kind](recipe, (*key_path, kind))
    return kind


def _copies(recipe, key_path, item, kind):
    for key, (good, allowed) in COPIES.items():
        if key in item:
            recipe.check((*key_path, key), good, allowed)
    moved = "strain" in item or "rattle" in item
    if "copies" in item and not moved:
        recipe.fail((*key_path, "copies"), "needs strain or rattle as well")
    drawn = kind in ("dimer", "liquid", "vacancy") or build.is_random(item)
    if "seed" in item and not moved and not drawn and "dynamics" not in item:
        recipe.fail((*key_path, "seed"), "needs strain, rattle or dynamics as well")
    if "strain" in item and kind in IN_VACUUM:
        recipe.fail((*key_path, "strain"), f"a {kind} has no cell to strain")
    if "relax" in item and "rattle" not in item:
        recipe.fail((*key_path, "relax"), "needs rattle as well")
    if moved and kind == "liquid" and "dynamics" in item:
        key = "strain" if "strain" in item else "rattle"
        recipe.fail(
            (*key_path, key), "a liquid with dynamics begins each run with a box of its own: make copies another item"
        )


def structures(recipe, teacher):
    """The items of the section structures, checked. teacher: the section of this name, checked."""
    if not isinstance(recipe.get(("structures",)), list) or not recipe.get(("structures",)):
        recipe.fail(("structures",), f"must be a list of items, each with one of {', '.join(KINDS)}")
    for k in range(len(recipe.get(("structures",)))):
        key_path = ("structures", k)
        item = recipe.mapping(key_path, ITEM)
        kind = _kind(recipe, key_path, item)
        _copies(recipe, key_path, item, kind)
        if "dynamics" in item:
            check_dynamics(recipe, (*key_path, "dynamics"))
            if kind in IN_VACUUM and "pressure" in item["dynamics"]:
                recipe.fail((*key_path, "dynamics", "pressure"), f"a {kind} has no cell")
            if kind == "surface" and "pressure" in item["dynamics"]:
                recipe.fail((*key_path, "dynamics", "pressure"), "would close the vacuum of a slab: leave it out")
            if kind != "liquid" and "density" in item["dynamics"]:
                recipe.fail((*key_path, "dynamics", "density"), "belongs to a liquid")
        new = [key for key in ("strain", "rattle", "dynamics") if key in item]
        if new and "labels" in teacher:
            said = "makes frames that a file of labels has no labels for: give a teacher with mlff, lammps or ase"
            recipe.fail((*key_path, new[0]), f"{said}, or leave {new[0]} out")
        if "dynamics" in item:
            mover = _moved_by(recipe, key_path, item, teacher)
            if "ase" in mover and item["dynamics"].get("cell") == "aniso":
                recipe.fail((*key_path, "dynamics", "cell"), "is aniso; allowed with ase are iso, tri")
    return recipe.get(("structures",))


def read(path):
    """(Recipe, items of structures, teacher), checked. Other sections are ignored."""
    recipe = Recipe(path, EXAMPLE)
    if recipe.value is None:
        raise RecipeError(f"{path}: is empty; allowed are {', '.join(SECTIONS)}")
    recipe.mapping((), SECTIONS, ("teacher",))
    made_of = read_teacher(recipe)
    if "structures" not in recipe.value and "labels" not in made_of:
        recipe.fail((), f"has no structures; allowed are {', '.join(SECTIONS)}")
    return recipe, structures(recipe, made_of) if "structures" in recipe.value else [], made_of
