"""The sections student, training and inner of a recipe, checked, and the configuration of a training run that they
make.

student: {size: xs}              # xs, s, m or inner; or of your own: features, layers, cutoff, readout, spacing
student: {architecture: ani, members: 4}
student: {architecture: mace, channels: 16, lmax: 3, correlation: 3, cutoff: 4.8}
training: {steps: 20000, seed: 1}
inner: true                      # or {cutoff: 3.0, steps: 10000}: keys of a student of our own, and steps
"""

import re

from . import students


def _number(low, high, zero=False):
    above = (lambda v: v >= low) if zero else (lambda v: v > low)
    return lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and above(v) and v <= high


def _count(low, high):
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _text(v):
    return isinstance(v, str) and bool(v.strip())


_FEATURES = (_count(4, 512), "a whole number from 4 to 512")
_CUTOFF = (_number(1, 10), "a length in A from 1 to 10")
REPULSION = (lambda v: isinstance(v, bool), "true or false")
TEXTS = dict.fromkeys(("description", "license", "citation"), (_text, "a text"))
PAINN = {
    "size": (lambda v: v in students.SIZES, "one of " + ", ".join(students.SIZES)),
    "architecture": (lambda v: v in ("painn", "ani", "mace"), "painn, ani or mace"),
    "features": _FEATURES,
    "layers": (_count(1, 8), "a whole number from 1 to 8"),
    "cutoff": _CUTOFF,
    "readout": _FEATURES,
    "repulsion": REPULSION,
    "spacing": (_number(0.02, 1), "a length in A up to 1, as 0.125"),
}
ANI = {
    "architecture": PAINN["architecture"],
    "members": (_count(1, 16), "a whole number from 1 to 16"),
    "hidden": (
        lambda v: isinstance(v, list) and bool(v) and all(map(_count(1, 1024), v)),
        "widths of the hidden layers, as [64, 48, 32]",
    ),
    "cutoff": _CUTOFF,
    "angular_cutoff": _CUTOFF,
    "nearest": (_number(0.1, 10), "a length in A"),
    **dict.fromkeys(("radial", "angular", "sections"), (_count(2, 64), "a whole number from 2 to 64")),
    "repulsion": REPULSION,
}
MACE = {
    "size": (lambda v: v in students.MACE_SIZES, "one of " + ", ".join(students.MACE_SIZES)),
    "architecture": PAINN["architecture"],
    "channels": (_count(4, 256), "a whole number from 4 to 256"),
    "layers": (lambda v: v == 1 and _count(1, 1)(v), "1: students have one layer"),
    "lmax": (_count(1, 3), "1, 2 or 3"),
    "correlation": (_count(2, 3), "2 or 3"),
    "cutoff": _CUTOFF,
    "radial": (_count(2, 64), "a whole number from 2 to 64"),
    "readout": (_count(1, 64), "a whole number from 1 to 64"),
    "repulsion": REPULSION,
}
KEYS = {"ani": ANI, "mace": MACE}
_STEPS = (_count(1, 10**8), "a whole number from 1")
_WEIGHT = (_number(0, 1e6, zero=True), "a number from 0")
_RATE = (_number(0, 1), "a number above 0 and up to 1")


def _limit(unit):
    return (lambda v: v is None or _number(0, 1e6)(v), f"a number in {unit}, or null for none")


TRAINING = {
    "steps": _STEPS,
    "seed": (_count(0, 2**31), "a whole number from 0"),
    "optimizer": (lambda v: v in ("soap", "adam"), "soap or adam"),
    "learning_rate": _RATE,
    "final_learning_rate": _RATE,
    "warmup": _STEPS,
    "force_weight": _WEIGHT,
    "energy_weight": _WEIGHT,
    "final_energy_weight": _WEIGHT,
    "stress_weight": _WEIGHT,
    "atom_weight": _WEIGHT,
    "hessian_weight": _WEIGHT,
    "hessian_share": (_number(0, 1, zero=True), "a share of the training frames, from 0 to 1"),
    "force_ceiling": (lambda v: v in (None, "auto") or _number(0, 1e6)(v), "a number in eV/A, auto, or null for none"),
    "force_limit": _limit("eV/A"),
    "energy_limit": _limit("eV/atom"),
    "stress_limit": _limit("eV/atom (stress times volume)"),
    "atom_limit": _limit("eV"),
    "ema": (_number(0, 0.999999), "a number above 0 and below 1"),
    "clip": (_number(0, 1e9), "a number"),
    "keep": _RATE,
    "batch": (_count(1, 10**6), "atoms per step, a whole number"),
    "validate_every": _STEPS,
    "threads": (_count(1, 1024), "a whole number from 1"),
    "stop_early": REPULSION,
    "device": (lambda v: isinstance(v, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", v), "auto, cpu, cuda or cuda:N"),
}
INNER = {key: PAINN[key] for key in ("features", "layers", "cutoff", "readout", "repulsion", "spacing")}
INNER["steps"] = _STEPS
# of MACE: with 64 channels its energies are about as good as those of PaiNN, its stress two to three times better
OF_MACE = {"final_energy_weight": 300.0, "stress_weight": 10.0}
_HESSIAN = ("hessian_weight", "hessian_share")
# Features from which on Hessian-vector products count, their weight, and how many of the training frames have one
HESSIAN_FROM, HESSIAN_WEIGHT, HESSIAN_SHARE = 128, 1.0e-3, 0.25
INNER_HESSIAN = 0.1  # of inner models: with less, the slow forces that these cannot know outweigh the stiffness
DEFAULTS = {
    "seed": 1,
    "optimizer": "soap",
    "learning_rate": 4.0e-3,
    "final_learning_rate": 1.0e-6,
    "warmup": 100,
    "force_weight": 1.0,
    "energy_weight": 3.0,
    "final_energy_weight": 30.0,
    "stress_weight": 1.0,
    "atom_weight": 0.1,
    "force_ceiling": "auto",
    "force_limit": None,
    "energy_limit": None,
    "stress_limit": None,
    "atom_limit": None,
    "ema": 0.998,
    "clip": 5.0,
    "keep": 0.8,
    "batch": None,
    "threads": 1,
    "device": "cpu",
}


def student(recipe, key_path=("student",)):
    """The section student, checked; {} (xs) when the recipe has none."""
    if key_path[-1] not in (recipe.value or {}):
        return {}
    section = recipe.get(key_path)
    architecture = section.get("architecture") if isinstance(section, dict) else None
    value = recipe.checked(key_path, {**(KEYS.get(architecture, PAINN) if _text(architecture) else PAINN), **TEXTS})
    _check_network(recipe, key_path, value)
    return value


def _check_network(recipe, key_path, value):
    wanted = students.filled(value)
    if wanted.get("architecture") == "mace":
        return
    ani = wanted.get("architecture") == "ani"
    if ani and wanted["angular_cutoff"] > wanted["cutoff"]:
        key = "angular_cutoff" if "angular_cutoff" in value else "cutoff"
        recipe.fail((*key_path, key), f"angular_cutoff {wanted['angular_cutoff']} is beyond cutoff {wanted['cutoff']}")
    if ani and wanted["nearest"] >= wanted["angular_cutoff"]:
        recipe.fail(
            (*key_path, "nearest"), f"is {wanted['nearest']}, not below angular_cutoff {wanted['angular_cutoff']}"
        )
    if not ani and round(wanted["cutoff"] / wanted["spacing"]) < 4:
        key = "spacing" if "spacing" in value else "cutoff"
        recipe.fail((*key_path, key), f"leaves less than 4 splines up to the cutoff of {wanted['cutoff']} A")


def training(recipe, key_path=("training",)):
    """The section training, checked; {} when the recipe has none."""
    if key_path[-1] not in (recipe.value or {}):
        return {}
    value = recipe.checked(key_path, TRAINING)
    weights = {**DEFAULTS, **value}
    if not weights["force_weight"] and not weights["energy_weight"]:
        recipe.fail(key_path, "force_weight and energy_weight are both 0: nothing would be trained")
    return {key: v for key, v in value.items() if key != "stop_early"}  # recipe_rounds.stop


def inner(recipe, key_path=("inner",)):
    """(student, training) of the section inner, the model of the inner steps of run_style respa; None without it.

    The section training holds for it, but what belongs to the student's own size."""
    value = (recipe.value or {}).get(key_path[-1], False)
    if value is False:
        return None
    if value is True:
        value = {}
    elif not isinstance(value, dict):
        recipe.fail(key_path, f"is {value!r}; allowed is true, false, or a mapping with the keys {', '.join(INNER)}")
    else:
        value = recipe.checked(key_path, INNER)
    name, texts = recipe.value.get("name"), ("license", "citation", "repulsion")
    made = {"size": "inner", "description": f"inner steps of run_style respa with {name}"}
    made |= {key: v for key, v in student(recipe).items() if key in texts}
    made |= {key: v for key, v in value.items() if key != "steps"}
    _check_network(recipe, key_path, made)
    train = {key: v for key, v in training(recipe).items() if key not in ("steps", *_HESSIAN)}
    train |= {"hessian_weight": INNER_HESSIAN, **{key: v for key, v in value.items() if key == "steps"}}
    return made, train


def hessian(student, training):
    """(weight of Hessian-vector products in the loss, share of the training frames that they are labelled for)"""
    wanted = students.filled(student).get("features", 0) >= HESSIAN_FROM or training.get("hessian_share")
    weight = training.get("hessian_weight", HESSIAN_WEIGHT if wanted else 0)
    return weight, training.get("hessian_share", HESSIAN_SHARE if weight else 0)


def hessian_share(recipe, student, training, teacher):
    """The share of the training frames that the teacher labels with Hessian-vector products, checked."""
    if "labels" not in teacher:
        return hessian(student, training)[1]
    if training.get("hessian_share"):
        key_path = ("training", "hessian_share")
        recipe.fail(key_path, "a file of labels cannot label the displaced structures that this needs; allowed is 0")
    return 0


def inherited(student, provenance):
    """The section student with the licence and the citation of the model that labels, of its block provenance."""
    made, theirs = dict(student), provenance["license"]
    own = student.get("citation", students.CITATIONS[students.network(student, ["H"])["architecture"]])
    made["citation"] = f"{own}; labels: {provenance['citation']}"
    made["license"] = student.get("license", theirs)
    if made["license"] != theirs:
        made["license"] += f"; labels: {theirs}"
    return made


def config(name, student, training, elements):
    """The configuration (training.py) of the sections student and training for these elements."""
    made = students.network(student, elements)
    steps = training.get("steps") or students.filled(student)["steps"]
    of = OF_MACE if made["architecture"] == "mace" else {}
    train = {"validate_every": max(1, min(500, steps // 20)), **DEFAULTS, **of, "steps": steps, **training}
    weight = hessian(student, training)[0]
    if weight:
        train["hessian_weight"] = weight
    train.pop("hessian_share", None)
    if "energy_weight" in training and "final_energy_weight" not in training:
        train["final_energy_weight"] = training["energy_weight"]
    train["warmup"] = min(train["warmup"], max(1, steps // 10))
    texts = {key: student[key] for key in TEXTS if key in student}
    texts["repulsion"] = "clamped" if student.get("repulsion", True) else None
    return {"name": name, "citation": students.CITATIONS[made["architecture"]], **texts, **made, "train": train}
