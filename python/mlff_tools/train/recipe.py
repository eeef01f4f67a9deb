"""Recipes: YAML whose errors name file, line, key and what is allowed. The section teacher; recipe_structures.py has
that of structures.

teacher:
  lammps: [pair_style sw, "pair_coeff * * Si.sw Si"]
"""

import os
import re
import shutil

import yaml

from ..model.modelfile import NUMBERS, ModelError
from .process import TeacherError
from .teacher_lammps import split_commands

MOST_VALUES, MOST_DEPTH = 100_000, 50  # of a recipe; anchors and aliases can make few lines mean very many
# What YAML's own conversions raise, as of the number in `!!int x` or of the date 2026-13-01.
CONVERSION = (yaml.YAMLError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError)


class Loader(yaml.SafeLoader):
    """That of YAML 1.1, for which 1e6 is a number, as in YAML 1.2."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


class RecipeError(ModelError):
    """A recipe that cannot be used."""


EXAMPLE = "mlff distill --example NAME prints one to start from"


class Recipe:
    """What a YAML file holds, and the lines of its keys. Attributes: path, folder, value. missing: what to do when
    there is no such file."""

    def __init__(self, path, missing=""):
        self.path, self.folder, self.lines = path, os.path.dirname(os.path.abspath(path)), {}
        try:
            with open(path, encoding="utf-8") as f:
                node = yaml.compose(f, Loader=Loader)
        except OSError as e:
            hint = f"; {missing}" if missing and isinstance(e, FileNotFoundError) else ""
            raise RecipeError(f"{path}: {e.strerror}{hint}") from e
        except yaml.YAMLError as e:
            mark = getattr(e, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            raise RecipeError(f"{path}{line}: not valid YAML: {getattr(e, 'problem', None) or e}") from e
        except UnicodeDecodeError as e:
            raise RecipeError(f"{path}: is not text") from e
        except RecursionError as e:
            raise RecipeError(f"{path}: is nested more than {MOST_DEPTH} levels deep") from e
        self.value = None if node is None else self._plain(node, ())

    def _plain(self, node, key_path):
        self.lines.setdefault(key_path, node.start_mark.line + 1)
        if len(key_path) > MOST_DEPTH:
            self.fail(key_path[:1], f"is nested more than {MOST_DEPTH} levels deep")
        if len(self.lines) > MOST_VALUES:
            self.fail(key_path[:1], f"makes more than {MOST_VALUES} values")
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(child, (*key_path, k)) for k, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            out = {}
            for key, child in node.value:
                name = str(key.value)
                self.lines.setdefault((*key_path, name), key.start_mark.line + 1)
                if name in out:
                    self.lines[(*key_path, name)] = key.start_mark.line + 1
                    self.fail((*key_path, name), "duplicate key")
                out[name] = self._plain(child, (*key_path, name))
            return out
        loader = Loader("")
        try:
            return loader.construct_object(node, deep=True)
        except CONVERSION:
            return self.fail(
                key_path, f"{node.value!r} cannot be read as {node.tag.rpartition(':')[2]}; quote it if it is a text"
            )
        finally:
            loader.dispose()

    def fail(self, key_path, text):
        """Raises a RecipeError about the key `at`, a tuple of keys and indices."""
        name = "".join(f"[{k + 1}]" if isinstance(k, int) else f".{k}" for k in key_path).lstrip(".")
        line = self.lines.get(key_path) or self.lines.get(key_path[:-1]) or 1
        raise RecipeError(f"{self.path}:{line}: {name + ': ' if name else ''}{text}")

    def get(self, key_path):
        value = self.value
        for key in key_path:
            value = value[key]
        return value

    def mapping(self, key_path, allowed, needed=()):
        """The mapping there; its keys must be among `allowed`, with all of `needed`."""
        value, text = self.get(key_path), ", ".join(allowed)
        if not isinstance(value, dict):
            self.fail(key_path, f"must be a mapping with the keys {text}")
        for key in value:
            if key not in allowed:
                self.fail((*key_path, key), f"is not known; allowed are {text}")
        for key in needed:
            if key not in value:
                self.fail(key_path, f"has no {key}; allowed are {text}")
        return value

    def check(self, key_path, good, allowed):
        """Fails unless good(value) holds; allowed: words for what is."""
        value = self.get(key_path)
        try:
            is_good = good(value)
        except TypeError:  # of a kind that cannot be asked this, as a list where a word belongs
            is_good = False
        if not is_good:
            self.fail(key_path, f"is {shown(value)}; allowed is {allowed}")

    def checked(self, key_path, table, needed=()):
        """The mapping there, whose keys are those of `table`, {key: (good, allowed)}, with all of `needed`."""
        value = self.mapping(key_path, tuple(table), needed)
        for key in value:
            self.check((*key_path, key), *table[key])
        return value

    def one_of(self, key_path, names):
        self.check(key_path, lambda v: v in names, "one of " + ", ".join(names))


NAME = (
    lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", v),
    "letters, digits, '.', '_' and '-'",
)


def shown(value):
    """A value in an error, which says no more of it than fits."""
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + " ..."


def number(low, high):
    """Whether a value is a number above low and up to high."""
    return lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and low < v <= high


def count(low, high=10**9):
    """Whether a value is a whole number from low to high."""
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def texts(v):
    return isinstance(v, list) and bool(v) and all(isinstance(x, str) and x.strip() for x in v)


def elements(v):
    return texts(v) and all(x in NUMBERS and x != "X" for x in v)


SECTIONS = ("name", "kind", "structures", "teacher", "student", "training", "inner", "rounds", "committee")
SECTIONS += ("bars", "certify")
TEACHERS = {
    "mlff": ("mlff", "precision"),
    "lammps": ("lammps", "types"),
    "ase": ("ase",),
    "labels": ("labels", "keys", "stress_limit"),
}
LABEL_KEYS = ("energy", "forces", "stress", "virial", "energies")
PRECISIONS = ("fp32", "fp64", "mixed")


def _ase(recipe, key_path):
    value = recipe.mapping(key_path, ("python", "calculator", "arguments"), ("calculator",))
    good = lambda v: isinstance(v, str) and all(v.partition(":")[::2])
    recipe.check((*key_path, "calculator"), good, "module:function, as ase.calculators.emt:EMT")
    if "python" in value:
        good = lambda v: isinstance(v, str) and shutil.which(os.path.join(recipe.folder, v) if "/" in v else v)
        recipe.check((*key_path, "python"), good, "the path of a Python, relative to the recipe: there is none")
    if "arguments" in value:
        recipe.check((*key_path, "arguments"), lambda v: isinstance(v, dict), "a mapping of names and values")


def _commands(recipe, key_path):
    recipe.check(key_path, texts, "a list of commands, as [pair_style sw, 'pair_coeff * * Si.sw Si']")
    try:
        split_commands(recipe.get(key_path))
    except TeacherError as e:
        recipe.fail(key_path, str(e))


def check_potential(recipe, key_path, kinds, more=()):
    """A section that names what gives forces: one of `kinds` of TEACHERS with what belongs to it."""
    allowed = tuple(dict.fromkeys(key for kind in kinds for key in TEACHERS[kind])) + ("timeout", *more)
    value = recipe.mapping(key_path, allowed)
    found = [kind for kind in kinds if kind in value]
    if len(found) != 1:
        recipe.fail(key_path, f"must have one of {', '.join(kinds)}, and has {' and '.join(found) or 'none'}")
    recipe.mapping(key_path, (*TEACHERS[found[0]], "timeout", *more))
    text = lambda v: isinstance(v, str) and v.strip()
    if found[0] == "lammps":
        _commands(recipe, (*key_path, "lammps"))
    elif found[0] == "ase":
        _ase(recipe, (*key_path, "ase"))
    else:
        recipe.check((*key_path, found[0]), text, "the name of a file")
    if "precision" in value:
        recipe.one_of((*key_path, "precision"), PRECISIONS)
    if "types" in value:
        recipe.check((*key_path, "types"), elements, "a list of chemical symbols")
    if "keys" in value:
        for key in recipe.mapping((*key_path, "keys"), LABEL_KEYS):
            recipe.check((*key_path, "keys", key), text, "a name")
    if "stress_limit" in value:
        recipe.check((*key_path, "stress_limit"), number(0, 1e7), "GPa, up to which the stress of the labels is right")
    if "timeout" in value:
        recipe.check((*key_path, "timeout"), number(0, 1e7), "seconds for one structure")
    return value


def teacher(recipe):
    """The section teacher, checked: one of mlff, lammps, ase and labels with what belongs to it."""
    return check_potential(recipe, ("teacher",), tuple(TEACHERS))
