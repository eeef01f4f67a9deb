"""Recipes of `mlff distill`, changed at random: each must be read, or refused by one error that names the file.

    python recipes.py [SECONDS [SEED]]        2, 1

Seeds are the recipes that mlff_tools ships and those of seeds/recipes. Half of the changes are made in the tree of
values (a value becomes an odd one, a key is lost, misspelt, or taken from another recipe), half in the text. Prints how
many recipes were tried and which checks none failed. tests/python/test_recipes.py runs it for some seconds, `make fuzz`
for longer.
"""

import copy
import glob
import os
import random
import re
import sys
import tempfile
import time

import yaml

from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import recipe as recipes
from mlff_tools.train import recipe_certify, recipe_rounds, recipe_structures, recipe_training

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = (recipes, recipe_certify, recipe_rounds, recipe_structures, recipe_training)
PLACES = (os.path.join(os.path.dirname(recipes.__file__), "examples"), os.path.join(HERE, "seeds", "recipes"))
CHECK = re.compile(r"\brecipe\.(?:fail|check|mapping|one_of)\(")
ODD = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    0.5,
    1e9,
    -1e300,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "5 %",
    "H",
    "X",
    "a:b",
]
ODD += [
    [],
    {},
    [[]],
    [None],
    ["H", "H"],
    [1, 2, 3],
    [0],
    {"x": 1},
    {"all": 1},
    10**30,
    "\u00e9",
    "spce",
    "1e3",
    "*",
    "teacher",
]
TEXTS = [
    "\n",
    "  ",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a",
    "*a",
    "!!int ",
    '"',
    "\t",
    "#",
    "nan",
    "1e400",
    "\x00",
    "&a [*a]",
]


class Find(Exception):
    """A recipe that was neither read nor refused as it should be."""


def good_recipes():
    found = {}
    for place in PLACES:
        for path in sorted(glob.glob(os.path.join(place, "*.yaml"))):
            with open(path, encoding="utf-8") as f:
                found[os.path.basename(path)] = f.read()
    return found


# ---- changes ---------------------------------------------------------------------------------------------------------


def places(value, at=()):
    """All tuples of keys and indices of a tree."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += places(child, (*at, key))
    return found


def parent_of(tree, at):
    for key in at[:-1]:
        tree = tree[key]
    return tree


def change_tree(rng, tree, other):
    """Changes one place of a tree; `other` is the tree of another recipe."""
    at = rng.choice(places(tree) or [()])
    if not at:
        return
    parent, key = parent_of(tree, at), at[-1]
    what = rng.randrange(6)
    if what < 3:
        parent[key] = copy.deepcopy(rng.choice(ODD))
    elif what == 3:
        del parent[key]
    elif what == 4 and isinstance(parent, dict):
        parent[rng.choice([key + "s", *other])] = parent.pop(key)
    else:
        from_ = rng.choice(places(other))
        parent[key] = copy.deepcopy(parent_of(other, from_)[from_[-1]])
        if isinstance(parent, dict) and isinstance(from_[-1], str):
            parent[from_[-1]] = parent[key]


def change_text(rng, text):
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.randrange(12))
    return text[:at] + rng.choice([*TEXTS, "", text[at:end] * 2, chr(rng.randrange(1, 0x250))]) + text[end:]


def mutant(rng, texts):
    text, other = rng.choice(texts), rng.choice(texts)
    if rng.random() < 0.5:
        for _ in range(rng.randrange(1, 4)):
            text = change_text(rng, text)
        return text
    tree, more = yaml.safe_load(text), yaml.safe_load(other)
    for _ in range(rng.randrange(1, 4)):
        change_tree(rng, tree, more)
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False)


# ---- reading ---------------------------------------------------------------------------------------------------------


class Watch:
    """Counts the places of checks that refused a recipe."""

    def __init__(self):
        self.failed = set()
        self.fail = recipes.Recipe.fail

    def __enter__(self):
        def fail(recipe, at, text):
            frame = sys._getframe(1)
            while frame.f_code.co_name in ("check", "mapping", "one_of"):
                frame = frame.f_back
            self.failed.add((os.path.basename(frame.f_code.co_filename), frame.f_lineno))
            self.fail(recipe, at, text)

        recipes.Recipe.fail = fail
        return self

    def __exit__(self, *_):
        recipes.Recipe.fail = self.fail

    def never(self):
        """Places of checks that nothing failed."""
        missed = []
        for module in MODULES:
            with open(module.__file__, encoding="utf-8") as f:
                lines = list(enumerate(f, 1))
            name = os.path.basename(module.__file__)
            missed += [
                f"{name}:{k}: {line.strip()}"
                for k, line in lines
                if CHECK.search(line) and (name, k) not in self.failed
            ]
        return missed


def read(path):
    """1: read; 0: refused. Raises Find for anything else."""
    try:
        found = recipe_rounds.read(path)
        recipe_training.config(found.name, found.student, found.training, ["H", "O"])
        if found.inner:
            recipe_training.config(found.name, *found.inner, ["H", "O"])
        return 1
    except ModelError as e:
        said = str(e)
        if not said.startswith(path) or len(said) < len(path) + 5 or len(said) > 4000:
            raise Find(f"an error that does not say where: {said[:500]!r}") from e
        return 0
    except Exception as e:
        raise Find(f"{type(e).__name__}: {e}") from e


def fuzz(seconds, seed, folder):
    """(recipes tried, how many were read, checks that nothing failed)"""
    rng, path, n, n_read = random.Random(seed), os.path.join(folder, "r.yaml"), 0, 0
    good = good_recipes()
    with Watch() as watch:
        for name, text in good.items():
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            if read(path) == name.startswith("bad") and name != "ase.yaml":  # which names a Python that is nowhere
                raise Find(f"{name} did not end as its name says")
        begin = time.monotonic()
        while time.monotonic() - begin < seconds or n < 100:
            text = mutant(rng, [text for name, text in good.items() if not name.startswith("bad")])
            with open(path, "w", encoding="utf-8", errors="replace") as f:
                f.write(text)
            try:
                n_read += read(path)
            except Find as e:
                raise Find(f"{e}\nseed {seed}, recipe {n}:\n{text}") from e
            n += 1
        return n, n_read, watch.never()


def main():
    seconds, seed = (
        (float(x) for x in [*sys.argv[1:3], "2", "1"][:2]) if len(sys.argv) != 2 else (float(sys.argv[1]), 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        n, n_read, never = fuzz(seconds, int(seed), folder)
    print(f"{n} recipes, {n_read} read; checks that nothing failed: {len(never)}")
    for place in never:
        print("  " + place)


if __name__ == "__main__":
    main()
