"""Recipes: YAML whose errors name file, line, key and what is allowed. The sections structures and teacher.

structures:
  - files: [water.xyz, "relaxed/*.cif"]          # every: 10 takes each tenth frame
  - crystal: {lattice: diamond, elements: [Si], constant: 5.43, supercell: [2, 2, 2]}
    strain: 0.03                                 # each strain within +-0.03; then
    rattle: 0.1                                  # each coordinate by a normal deviate of 0.1 A
    copies: 20                                   # beside the crystal itself
    seed: 1
  - molecule: water
teacher:
  lammps: [pair_style sw, "pair_coeff * * Si.sw Si"]
"""

import os
import shutil

import yaml

from ..model.modelfile import NUMBERS, ModelError
from . import build


class RecipeError(ModelError):
    """A recipe that cannot be used."""


class Recipe:
    """What a YAML file holds, and the lines of its keys. Attributes: path, folder, value."""

    def __init__(self, path):
        self.path, self.folder, self.lines = path, os.path.dirname(os.path.abspath(path)), {}
        try:
            with open(path, encoding="utf-8") as f:
                node = yaml.compose(f, Loader=yaml.SafeLoader)
        except OSError as e:
            raise RecipeError(f"{path}: {e.strerror}") from e
        except yaml.YAMLError as e:
            mark = getattr(e, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            raise RecipeError(f"{path}{line}: not valid YAML: {getattr(e, 'problem', None) or e}") from e
        except UnicodeDecodeError as e:
            raise RecipeError(f"{path}: is not text") from e
        self.value = None if node is None else self._plain(node, ())

    def _plain(self, node, at):
        self.lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(child, (*at, k)) for k, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            out = {}
            for key, child in node.value:
                name = str(key.value)
                self.lines.setdefault((*at, name), key.start_mark.line + 1)
                if name in out:
                    self.lines[(*at, name)] = key.start_mark.line + 1
                    self.fail((*at, name), "stands there twice")
                out[name] = self._plain(child, (*at, name))
            return out
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        finally:
            loader.dispose()

    def fail(self, at, text):
        """Raises a RecipeError about the key `at`, a tuple of keys and indices."""
        name = "".join(f"[{k + 1}]" if isinstance(k, int) else f".{k}" for k in at).lstrip(".")
        line = self.lines.get(at) or self.lines.get(at[:-1]) or 1
        raise RecipeError(f"{self.path}:{line}: {name + ': ' if name else ''}{text}")

    def get(self, at):
        value = self.value
        for key in at:
            value = value[key]
        return value

    def mapping(self, at, allowed, needed=()):
        """The mapping there; its keys must be among `allowed`, with all of `needed`."""
        value, text = self.get(at), ", ".join(allowed)
        if not isinstance(value, dict):
            self.fail(at, f"must be a mapping with the keys {text}")
        for key in value:
            if key not in allowed:
                self.fail((*at, key), f"is not known; allowed are {text}")
        for key in needed:
            if key not in value:
                self.fail(at, f"has no {key}; allowed are {text}")
        return value

    def check(self, at, good, allowed):
        """Fails unless good(value) holds; allowed: words for what is."""
        value = self.get(at)
        if not good(value):
            self.fail(at, f"is {value!r}; allowed is {allowed}")

    def one_of(self, at, names):
        self.check(at, lambda v: v in names, "one of " + ", ".join(names))


def _number(low, high):
    return lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and low < v <= high


def _count(low, high=10**9):
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _texts(v):
    return isinstance(v, list) and bool(v) and all(isinstance(x, str) and x.strip() for x in v)


def _elements(v):
    return _texts(v) and all(x in NUMBERS and x != "X" for x in v)


KINDS = ("files", "molecule", "crystal")
LATER = ("liquid", "surface", "vacancy", "dynamics")
COPIES = {
    "every": (_count(1), "a whole number from 1"),
    "strain": (_number(0, 0.3), "a number up to 0.3"),
    "rattle": (_number(0, 2), "a width in A up to 2"),
    "copies": (_count(1, 10**6), "a whole number from 1"),
    "seed": (_count(0), "a whole number from 0"),
}


def _crystal(recipe, at):
    value = recipe.mapping(at, ("lattice", "elements", "constant", "supercell"), ("lattice", "elements", "constant"))
    recipe.one_of((*at, "lattice"), tuple(build.LATTICES))
    n = len(build.LATTICES[value["lattice"]])
    recipe.check((*at, "elements"), lambda v: _elements(v) and len(v) == n, f"a list of {n} chemical symbol(s)")
    length = _number(0.5, 100)
    if value["lattice"] == "hcp":
        good = lambda v: isinstance(v, list) and len(v) == 2 and all(map(length, v))
        recipe.check((*at, "constant"), good, "[a, c] in A")
    else:
        recipe.check((*at, "constant"), length, "a length in A from 0.5 to 100")
    if "supercell" in value:
        good = lambda v: isinstance(v, list) and len(v) == 3 and all(map(_count(1, 1000), v))
        recipe.check((*at, "supercell"), good, "three whole numbers from 1, as [2, 2, 2]")


def structures(recipe):
    """The items of the section structures, checked."""
    if not isinstance(recipe.get(("structures",)), list) or not recipe.get(("structures",)):
        recipe.fail(("structures",), f"must be a list of items, each with one of {', '.join(KINDS)}")
    for k in range(len(recipe.get(("structures",)))):
        at = ("structures", k)
        if isinstance(recipe.get(at), dict):
            for key in recipe.get(at):
                if key in LATER:
                    recipe.fail((*at, key), f"is not there yet; allowed are {', '.join(KINDS)}")
        item = recipe.mapping(at, (*KINDS, *COPIES))
        kinds = [kind for kind in KINDS if kind in item]
        if len(kinds) != 1:
            recipe.fail(at, f"must have one of {', '.join(KINDS)}, and has {' and '.join(kinds) or 'none'}")
        if "files" in item:
            if isinstance(item["files"], str):
                item["files"] = [item["files"]]
            recipe.check((*at, "files"), _texts, "a name or a list of names of files")
        elif "molecule" in item:
            recipe.one_of((*at, "molecule"), build.MOLECULES)
        else:
            _crystal(recipe, (*at, "crystal"))
        for key, (good, allowed) in COPIES.items():
            if key in item:
                recipe.check((*at, key), good, allowed)
        for key in ("copies", "seed"):
            if key in item and "strain" not in item and "rattle" not in item:
                recipe.fail((*at, key), "needs strain or rattle beside it")
        if "strain" in item and "molecule" in item:
            recipe.fail((*at, "strain"), "a molecule has no cell to strain")
    return recipe.get(("structures",))


TEACHERS = {"mlff": ("mlff", "precision"), "lammps": ("lammps", "types"), "ase": ("ase",), "labels": ("labels", "keys")}
LABEL_KEYS = ("energy", "forces", "stress", "virial", "energies")
PRECISIONS = ("fp32", "fp64", "mixed")


def _ase(recipe, at):
    value = recipe.mapping(at, ("python", "calculator", "arguments"), ("calculator",))
    good = lambda v: isinstance(v, str) and all(v.partition(":")[::2])
    recipe.check((*at, "calculator"), good, "module:function, as ase.calculators.emt:EMT")
    if "python" in value:
        good = lambda v: isinstance(v, str) and shutil.which(os.path.join(recipe.folder, v) if "/" in v else v)
        recipe.check((*at, "python"), good, "the path of a Python")
    if "arguments" in value:
        recipe.check((*at, "arguments"), lambda v: isinstance(v, dict), "a mapping of names and values")


def teacher(recipe):
    """The section teacher, checked: one of mlff, lammps, ase and labels with what belongs to it."""
    at = ("teacher",)
    allowed = tuple(dict.fromkeys(key for keys in TEACHERS.values() for key in keys)) + ("timeout",)
    value = recipe.mapping(at, allowed)
    kinds = [kind for kind in TEACHERS if kind in value]
    if len(kinds) != 1:
        recipe.fail(at, f"must have one of {', '.join(TEACHERS)}, and has {' and '.join(kinds) or 'none'}")
    recipe.mapping(at, (*TEACHERS[kinds[0]], "timeout"))
    text = lambda v: isinstance(v, str) and v.strip()
    if kinds[0] == "lammps":
        recipe.check((*at, "lammps"), _texts, "a list of commands, as [pair_style sw, 'pair_coeff * * Si.sw Si']")
    elif kinds[0] == "ase":
        _ase(recipe, (*at, "ase"))
    else:
        recipe.check((*at, kinds[0]), text, "the name of a file")
    if "precision" in value:
        recipe.one_of((*at, "precision"), PRECISIONS)
    if "types" in value:
        recipe.check((*at, "types"), _elements, "a list of chemical symbols")
    if "keys" in value:
        for key in recipe.mapping((*at, "keys"), LABEL_KEYS):
            recipe.check((*at, "keys", key), text, "a name")
    if "timeout" in value:
        recipe.check((*at, "timeout"), _number(0, 1e7), "seconds for one structure")
    return value


def read(path):
    """(Recipe, items of structures, teacher), checked before anything is done."""
    recipe = Recipe(path)
    if recipe.value is None:
        raise RecipeError(f"{path}: is empty; allowed are structures, teacher")
    recipe.mapping((), ("structures", "teacher"), ("teacher",))
    if "structures" not in recipe.value and "labels" not in (recipe.value["teacher"] or {}):
        recipe.fail((), "has no structures; allowed are structures, teacher")
    made_of = teacher(recipe)
    return recipe, structures(recipe) if "structures" in recipe.value else [], made_of
