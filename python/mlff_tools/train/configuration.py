"""The configurations of `mlff sample` and `mlff train`, checked as recipes are: an error names file, line, key and what
is allowed, before anything is done."""

import math

from ..model.structures import MOLECULES
from . import recipe_training
from .dataset import SPLITS
from .recipe import NAME, PRECISIONS, Recipe, count, elements, number, texts

EXAMPLES = "the folder models/train has examples"

_text = (lambda v: isinstance(v, str) and bool(v.strip()), "a text")
_whole = (count(1), "a whole number from 1")


def _numbers(good, n=None):
    return lambda v: isinstance(v, list) and bool(v) and n in (None, len(v)) and all(map(good, v))


def _range(low, high):
    return lambda v: _numbers(number(low, high), 2)(v) and v[0] <= v[1]


# ---- of mlff sample --------------------------------------------------------------------------------------------------

SAMPLE = {
    "name": NAME,
    "elements": (elements, "a list of chemical symbols"),
    "timestep": (number(0, 20), "a time in fs up to 20"),
    "damp": (number(0, 1e6), "a time in fs"),
    "precision": (lambda v: v in PRECISIONS, "one of " + ", ".join(PRECISIONS)),
    "potential": (texts, "a list of commands, as [pair_style sw, 'pair_coeff * * Si.sw Si']"),
    "groups": (lambda v: isinstance(v, list) and bool(v), "a list of groups"),
}
GROUP = {
    "name": NAME,
    "molecule": (lambda v: v in MOLECULES, "one of " + ", ".join(MOLECULES)),
    "molecules": (count(1, 10**6), "a whole number from 1"),
    "temperature": (_numbers(number(0, 1e5)), "a list of temperatures in K, as [300, 350]"),
    "density": (_numbers(lambda v: v is None or number(0, 30)(v)), "a list of densities in g/cm3 up to 30, as [1.0]"),
    "seed": (count(1, 10**8), "a whole number from 1 to 100000000"),
    "seeds": (count(1, 10**4), "a whole number from 1 to 10000"),
    "split": (lambda v: v in SPLITS, "one of " + ", ".join(SPLITS)),
    "frames": _whole,
    "every": _whole,
    "equilibrate": (count(0), "a whole number of steps from 0"),
    "hot": (lambda v: v is None or number(0, 1e5)(v), "a temperature in K"),
    "distort": (lambda v: isinstance(v, dict), "{sigma: A}, or for water {fraction: F, angle: [A, B], bond: [A, B]}"),
}
NEEDED = ("name", "molecule", "temperature", "seed", "split", "frames", "every")
SIGMA = {"sigma": (number(0, 2), "a length in A up to 2")}
BENT = {
    "fraction": (number(0, 1), "a share above 0 and up to 1"),
    "angle": (_range(0, 180), "two angles in degrees, as [50, 150]"),
    "bond": (_range(0, 5), "two lengths in A, as [0.82, 1.25]"),
}


def _group(recipe, at):
    group = recipe.checked(at, GROUP, NEEDED)
    periodic = [d is not None for d in group.get("density", [None])]
    if "molecules" in group and not all(periodic):
        recipe.fail((*at, "molecules"), "several molecules are in a box: give its density, as [1.0]")
    if "distort" in group:
        bent = "sigma" not in group["distort"]
        table = BENT if bent else SIGMA
        recipe.checked((*at, "distort"), table, tuple(table))
        if bent and (group["molecule"] != "water" or not all(periodic)):
            recipe.fail((*at, "distort"), "angle and bond are those of water in a box; allowed here is {sigma: A}")


def sample(path):
    """The configuration of `mlff sample`, as in models/train/data.yaml."""
    recipe = Recipe(path, EXAMPLES)
    value = recipe.checked((), SAMPLE, ("name", "timestep", "damp", "groups"))
    for k in range(len(value["groups"])):
        _group(recipe, ("groups", k))
    wanted = {e for group in value["groups"] for e in MOLECULES[group["molecule"]]()[0]}
    lacking = sorted(wanted - set(value.setdefault("elements", ["H", "C", "O"])))
    if lacking:
        recipe.fail(("elements",), f"has no {lacking[0]}, which molecules of the groups have")
    return value


# ---- of mlff train ---------------------------------------------------------------------------------------------------

_CUTOFF = (number(0.5, 20), "a length in A above 0.5 and up to 20")
_positive = (number(0, 1e6), "a number above 0")
_lengths = (_numbers(number(0, 20)), "a list of lengths in A")
RADIAL = {"cutoff": _CUTOFF, "eta": _positive, "prefactor": _positive, "shifts": _lengths}
NETWORKS = {
    "painn": {
        "n_features": (count(4, 512), "a whole number from 4 to 512"),
        "n_interactions": (count(1, 8), "a whole number from 1 to 8"),
        "n_readout": (count(1, 512), "a whole number from 1 to 512"),
        "radial_basis": {"kind": (lambda v: v == "bspline", "bspline"), "n": (count(4, 1000), "a whole number from 4")},
        "cutoff": _CUTOFF,
        "epsilon": (number(0, 1), "a number above 0"),
    },
    "ani": {
        "n_members": (count(1, 16), "a whole number from 1 to 16"),
        "radial": RADIAL,
        "angular": {
            **RADIAL,
            "zeta": _positive,
            "cos_scale": (number(0, 1), "a number above 0 and up to 1"),
            "sections": (_numbers(number(0, math.pi)), "a list of angles in radians"),
        },
        "activation": {"kind": (lambda v: v == "celu", "celu"), "alpha": _positive},
        "hidden": (
            lambda v: isinstance(v, dict) and all(map(_numbers(count(1, 1024)), v.values())) and elements(list(v)),
            "widths of the hidden layers for each element, as {H: [64, 48, 32]}",
        ),
    },
}
OPTIONAL = ("epsilon",)
TRAIN = {
    "name": NAME,
    "architecture": (lambda v: v in NETWORKS, "one of " + ", ".join(NETWORKS)),
    "model": (lambda v: isinstance(v, dict), "a mapping, that of the network"),
    "train": (lambda v: isinstance(v, dict), "a mapping, that of the training"),
    "data_sha256": _text,
    "domain": {"min_distance": _positive, "description": _text},
    "repulsion": recipe_training.REPULSION,
    **recipe_training.TEXTS,
}
_BATCH = "atoms per step, a whole number, or frames by number of atoms, as {12: 4, 96: 2}"


def _network(recipe, at, table):
    """The mapping there and those in it, with all their keys."""
    own = {key: rule for key, rule in table.items() if not isinstance(rule, dict)}
    inner = {key: (lambda v: isinstance(v, dict), "a mapping") for key in table if key not in own}
    recipe.checked(at, {**own, **inner}, [key for key in table if key not in OPTIONAL])
    for key in inner:
        _network(recipe, (*at, key), table[key])


def _training(recipe, at, defaults):
    """The mapping `train` with the defaults of what it does not say; frames by number of atoms as whole numbers."""
    value = recipe.get(at)
    by_size = isinstance(value.get("batch"), dict)
    rules = {key: rule for key, rule in recipe_training.TRAINING.items() if key in defaults}
    rules = {key: (lambda v, g=good: v is None or g(v), allowed) for key, (good, allowed) in rules.items()}
    rules |= {key: rule for key, rule in recipe_training.TRAINING.items() if defaults.get(key) is not None}
    if by_size:
        good = lambda v: bool(v) and all(k.isdigit() and count(1)(n) for k, n in v.items())
        rules["batch"] = (good, _BATCH)
    else:
        rules["batch"] = (rules["batch"][0], _BATCH)
    value = {**defaults, **recipe.checked(at, rules)}
    if by_size:
        value["batch"] = {int(n): frames for n, frames in value["batch"].items()}
    if not value["force_weight"] and not value["energy_weight"]:
        recipe.fail(at, "force_weight and energy_weight are both 0: nothing would be trained")
    return value


def train(path, defaults):
    """The configuration of `mlff train`, as in models/train/water-benzene-student.yaml, with the defaults of its
    mapping `train` filled in."""
    recipe = Recipe(path, EXAMPLES)
    domain = {"domain": (lambda v: isinstance(v, dict), "a mapping")}
    value = recipe.checked((), {**TRAIN, **domain}, ("name", "architecture", "model", "train"))
    if "domain" in value:
        recipe.checked(("domain",), TRAIN["domain"])
    _network(recipe, ("model",), NETWORKS[value["architecture"]])
    return {**value, "train": _training(recipe, ("train",), defaults)}
