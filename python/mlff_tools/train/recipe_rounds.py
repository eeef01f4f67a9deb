"""The sections name, rounds and committee of a recipe, and a whole recipe at once.

rounds:
  count: 2                     # at most
  from: [crystal, liquid]      # config_types that runs start from; default: all
  temperature: [300, 900]      # K
  pressure: [0]                # bar, by NPT; default: none, NVT in the cell of the start
  time: 5                      # ps of each run
  every: 0.1                   # ps between the frames that are looked at
  timestep: 0.5                # fs
  frames: 50                   # labels of a round
  committee: 2                 # additional students, whose disagreement chooses frames; default: the uncertainty
  steps: 4000                  # of training after a round
  learning_rate: 1.0e-3        # its highest; default: that of training

With a script of the user instead of these runs (explore.py): count, frames, steps and learning_rate as above, and
  script: in.my_run            # relative to the recipe
  variables: {t: 300}          # of the command line of LAMMPS
  passes: 1                    # runs without a flag that end the rounds
  check_every: 10              # steps between two checks
  atoms: 2000                  # of a frame, at most
  hours: 2                     # of core time, after which no round begins; default: no limit

committee: 4                   # networks, with the student; default: the student alone
"""

import os
from types import SimpleNamespace

from ..model.modelfile import ModelError
from . import explore, job, recipe_certify, recipe_structures, recipe_training, students
from . import recipe as recipes
from .recipe import count, number

NO_TEACHER = "a file of labels cannot label the frames of a script: give a teacher that can"
DEFAULTS = {
    "count": 0,
    "from": None,
    "temperature": [300],
    "pressure": None,
    "time": 5.0,
    "every": 0.1,
    "timestep": 0.5,
    "frames": 50,
    "committee": 0,
    "steps": 4000,
    "learning_rate": None,
    "script": None,
}
SCRIPT = {
    **{key: DEFAULTS[key] for key in ("frames", "steps", "learning_rate", "script")},
    "count": 5,
    "variables": {},
    "passes": 1,
    "check_every": 10,
    "atoms": 2000,
    "hours": None,
    "committee": 0,
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


def _is_value(v):
    return isinstance(v, (str, int, float)) and not isinstance(v, bool) and str(v) != ""


def _are_values(v):
    return all(map(_is_value, v)) and bool(v) if isinstance(v, list) else _is_value(v)


def _values(v):
    return list(map(str, v if isinstance(v, list) else [v]))


CHECKS_SCRIPT = {
    **{key: CHECKS[key] for key in ("count", "frames", "steps", "learning_rate")},
    "script": (lambda v: isinstance(v, str) and v, "the name of a LAMMPS script"),
    "variables": (lambda v: isinstance(v, dict) and all(map(_are_values, v.values())), "a mapping of names and values"),
    "passes": (count(1, 1000), "a whole number from 1 to 1000"),
    "check_every": (count(1, 10**9), "a whole number of steps from 1"),
    "atoms": (count(1, 10**7), "a whole number from 1"),
    "hours": (number(0, 1e5), "a time in hours"),
}


def rounds(recipe):
    """The section rounds with its defaults, checked; of a recipe without it, no rounds."""
    key_path = ("rounds",)
    if "rounds" not in recipe.value:
        return dict(DEFAULTS)
    if isinstance(recipe.value["rounds"], dict) and "script" in recipe.value["rounds"]:
        return _of_script(recipe, key_path)
    value = {**DEFAULTS, **recipe.checked(key_path, CHECKS, ("count",))}
    if value["every"] > value["time"]:
        recipe.fail((*key_path, "every"), f"is {value['every']} ps, longer than the {value['time']} ps of a run")
    if value["count"] and "labels" in recipe.value["teacher"]:
        recipe.fail((*key_path, "count"), "a file of labels cannot label new frames; allowed is 0")
    return value


def _check_student(recipe):
    """A script is explored by the uncertainty of one network."""
    members = students.filled(recipe_training.student(recipe)).get("members", 1)
    if members > 1:
        recipe.fail(("student",), f"has {members} members, but a script is explored with one network; give members: 1")


def _of_script(recipe, key_path):
    value = {**SCRIPT, **recipe.checked(key_path, CHECKS_SCRIPT)}
    _check_student(recipe)
    if "labels" in recipe.value["teacher"]:
        recipe.fail((*key_path, "script"), NO_TEACHER)
    words = [[name, *_values(values)] for name, values in value["variables"].items()]
    try:
        script = explore.Script(
            os.path.join(recipe.folder, value["script"]),
            explore.check_variables(words, "variables"),
            value["check_every"],
        )
    except explore.ScriptError as e:
        recipe.fail((*key_path, "script"), str(e))
    return {**value, "script": script}


def of_command(recipe, path, words, more):
    """The section rounds of --explore: a script, words of --var, and {key: value} of other options. frames, steps and
    learning_rate are those of the recipe's section."""
    if "labels" in recipe.value["teacher"]:
        raise ModelError(f"{recipe.path}: {NO_TEACHER}")
    _check_student(recipe)
    there = recipe.value.get("rounds", {})
    keys = SCRIPT if "script" in there else ("frames", "steps", "learning_rate")
    value = {**SCRIPT, **{key: there[key] for key in keys if key in there}}
    value |= {key: v for key, v in more.items() if v is not None}
    return {**value, "script": explore.Script(path, explore.check_variables(words, "--var"), value["check_every"])}


def committee(recipe):
    """How many networks a recipe asks for, the student included."""
    if "committee" in recipe.value:
        recipe.check(("committee",), count(2, 16), "a whole number from 2 to 16")
    return recipe.value.get("committee", 1)


def stop(recipe, bars):
    """The bars that end the training of the student, with training.stop_early; else None."""
    if not (recipe.value.get("training") or {}).get("stop_early"):
        return None
    found = job.stop_of(bars)
    if not found:
        key_path = ("training", "stop_early")
        recipe.fail(key_path, "needs bars of errors, each over all frames, as bars: {forces: 3 %}")
    return found


def read(path):
    """A whole recipe, checked: recipe, name, structures, teacher, student, training, stop, hessian_share (of the frames
    for training), inner, rounds, committee, kind, bars, certify."""
    recipe, items, teacher = recipe_structures.read(path)
    recipe.mapping((), recipes.SECTIONS, ("name", "teacher"))
    recipe.check(("name",), *recipes.NAME)
    student, training = recipe_training.student(recipe), recipe_training.training(recipe)
    bars = recipe_certify.bars(recipe)
    return SimpleNamespace(
        recipe=recipe,
        name=recipe.value["name"],
        structures=items,
        teacher=teacher,
        student=student,
        training=training,
        stop=stop(recipe, bars),
        hessian_share=recipe_training.hessian_share(recipe, student, training, teacher),
        inner=recipe_training.inner(recipe),
        rounds=rounds(recipe),
        committee=committee(recipe),
        kind=recipe_certify.kind(recipe),
        bars=bars,
        certify=recipe_certify.certify(recipe),
    )
