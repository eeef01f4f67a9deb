"""The sections name and rounds of a recipe, and a whole recipe at once.

rounds:
  count: 2                     # at most
  from: [crystal, liquid]      # config_types that runs start from; default: all
  temperature: [300, 900]      # K
  pressure: [0]                # bar, by NPT; default: none, NVT in the cell of the start
  time: 5                      # ps of each run
  every: 0.1                   # ps between the frames that are looked at
  timestep: 0.5                # fs
  frames: 50                   # labels of a round
  committee: 2                 # additional students; 0: frames at equal intervals
  steps: 4000                  # of training after a round
  learning_rate: 1.0e-3        # its highest; default: that of training
"""

from types import SimpleNamespace

from . import recipe as recipes
from . import recipe_certify, recipe_structures, recipe_training
from .recipe import count, number

DEFAULTS = {
    "count": 0,
    "from": None,
    "temperature": [300],
    "pressure": None,
    "time": 5.0,
    "every": 0.1,
    "timestep": 0.5,
    "frames": 50,
    "committee": 2,
    "steps": 4000,
    "learning_rate": None,
}


def _list_of(good):
    return lambda v: isinstance(v, list) and bool(v) and all(map(good, v))


CHECKS = {
    "count": (count(0, 100), "a whole number from 0 to 100"),
    "from": (_list_of(lambda v: isinstance(v, str) and v), "a list of config_types"),
    "temperature": (_list_of(number(0, 1e5)), "a list of temperatures in K"),
    "pressure": (_list_of(number(-1e7, 1e7)), "a list of pressures in bar"),
    "time": (number(0, 1e5), "a time in ps"),
    "every": (number(0, 1e5), "a time in ps"),
    "timestep": (number(0, 20), "a time in fs up to 20"),
    "frames": (count(1, 10**6), "a whole number from 1"),
    "committee": (count(0, 16), "a whole number from 0 to 16"),
    "steps": (count(1, 10**8), "a whole number from 1"),
    "learning_rate": (number(0, 1), "a number above 0 and up to 1"),
}


def rounds(recipe):
    """The section rounds with its defaults, checked; of a recipe without it, no rounds."""
    key_path = ("rounds",)
    if "rounds" not in recipe.value:
        return dict(DEFAULTS)
    value = {**DEFAULTS, **recipe.checked(key_path, CHECKS, ("count",))}
    if value["every"] > value["time"]:
        recipe.fail((*key_path, "every"), f"is {value['every']} ps, longer than the {value['time']} ps of a run")
    if value["count"] and "labels" in recipe.value["teacher"]:
        recipe.fail((*key_path, "count"), "a file of labels cannot label new frames; allowed is 0")
    return value


def read(path):
    """A whole recipe, checked: recipe, name, structures, teacher, student, training, hessian_share (of the frames for
    training), inner, rounds, bars, certify."""
    recipe, items, teacher = recipe_structures.read(path)
    recipe.mapping((), recipes.SECTIONS, ("name", "teacher"))
    recipe.check(("name",), *recipes.NAME)
    student, training = recipe_training.student(recipe), recipe_training.training(recipe)
    return SimpleNamespace(
        recipe=recipe,
        name=recipe.value["name"],
        structures=items,
        teacher=teacher,
        student=student,
        training=training,
        hessian_share=recipe_training.hessian_share(recipe, student, training, teacher),
        inner=recipe_training.inner(recipe),
        rounds=rounds(recipe),
        bars=recipe_certify.bars(recipe),
        certify=recipe_certify.certify(recipe),
    )
