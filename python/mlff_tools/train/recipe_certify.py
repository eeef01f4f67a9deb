"""The sections `kind`, `bars` and `certify` of recipes: what a certificate holds the model against, what it measures.

kind: metal                          # bars of the kind (kinds.py); those of the recipe in addition
bars:
  forces: 45                         # meV/A, over all held-out frames
  forces: 2.5 %                      # of the root mean square of the teacher's forces
  forces: {all: 45, crystal 300 K: 2.5 %, element O: 60}     # of groups of frames, as the certificate names them
  lattice_constant: 0.1 %            # from the teacher's
  nvt: stable
certify:
  minutes: 60                        # for each measurement
  quick: true                        # all lengths times 0.01
"""

import re
import typing

from . import kinds
from .recipe import PRECISIONS, check_potential, count, number


class Quantity(typing.NamedTuple):
    """What a bar can be about."""

    unit: str
    kind: str  # most: up to the bar; near: that far from the teacher; least: from the bar on; to: from `target`; word
    measured_by: str  # the measurement
    meaning: str
    target: typing.Any = None  # of kind `to` a number, of kind `word` the word
    percent: bool = False  # whether a bar can be a percentage (of the teacher's, or of the row's scale)


QUANTITIES = {
    "energy": Quantity("meV/atom", "most", "errors", "error of energies, root mean square"),
    "forces": Quantity("meV/A", "most", "errors", "error of force components, root mean square", percent=True),
    "stress": Quantity("GPa", "most", "errors", "error of stress components, root mean square", percent=True),
    "pressure": Quantity("bar", "most", "errors", "mean error of the pressure"),
    "seed_forces": Quantity("meV/A", "most", "seeds", "error of forces of networks of other seeds", percent=True),
    "seed_energy": Quantity("meV/atom", "most", "seeds", "error of energies of networks of other seeds"),
    "lattice_constant": Quantity("A", "near", "crystals", "lattice constants at 0 K", percent=True),
    "bulk_modulus": Quantity("GPa", "near", "crystals", "bulk modulus from E(V)", percent=True),
    "elastic_constants": Quantity("GPa", "near", "crystals", "elastic constants, ions relaxed", percent=True),
    "phonons": Quantity("THz", "near", "phonons", "frequencies at band edges", percent=True),
    "phonon_mesh": Quantity("THz", "most", "phonon_mesh", "difference of frequencies on a mesh", percent=True),
    "thermal_expansion": Quantity("1e-6/K", "near", "thermal", "linear thermal expansion", percent=True),
    "heat_capacity": Quantity("J/mol/K", "near", "thermal", "heat capacity at constant pressure", percent=True),
    "rattled_forces": Quantity("%", "most", "rattled", "error of forces in strained and displaced crystals"),
    "polymorph_energy": Quantity(
        "meV/atom", "near", "polymorphs", "energy of another lattice above the crystal", percent=True
    ),
    "polymorph_order": Quantity("", "word", "polymorphs", "order of the lattices by energy", "same"),
    "fault_energy": Quantity("mJ/m2", "near", "faults", "energy of a planar fault", percent=True),
    "surface_energy": Quantity("J/m2", "near", "surfaces", "energy of a surface that the model relaxed", percent=True),
    "vacancy_energy": Quantity("eV", "near", "vacancy", "formation energy of a vacancy, relaxed", percent=True),
    "interstitial_energy": Quantity(
        "eV", "near", "interstitials", "formation energy of an interstitial, relaxed", percent=True
    ),
    "relaxed_force": Quantity(
        "eV/A", "most", "interstitials", "largest force of the teacher on a geometry that the model relaxed"
    ),
    "migration_barrier": Quantity(
        "eV", "near", "migration", "barrier of the hop of an atom into a vacancy", percent=True
    ),
    "high_temperature": Quantity("", "word", "high_temperature", "the crystal at high temperature", "stable"),
    "rdf": Quantity("%", "most", "liquids", "difference of radial distribution functions from the teacher's"),
    "adf": Quantity("%", "most", "liquids", "difference of angular distributions from the teacher's"),
    "density": Quantity("g/cm3", "near", "liquids", "density under NPT", percent=True),
    "diffusion": Quantity("1e-9 m2/s", "near", "liquids", "diffusion coefficient", percent=True),
    "rdf_peak": Quantity("A", "near", "liquids", "first peak of g(r)", percent=True),
    "rdf_height": Quantity("", "near", "liquids", "height of the first peak of g(r)", percent=True),
    "heat_of_vaporisation": Quantity("kJ/mol", "near", "liquids", "heat of vaporisation", percent=True),
    "nve_drift": Quantity("meV/atom/ps", "most", "nve", "drift of the total energy"),
    "nvt": Quantity("", "word", "nvt", "the NVT run", "stable"),
    "npt": Quantity("", "word", "npt", "the NPT run", "stable"),
    "timestep_slope": Quantity("", "to", "timestep", "exponent of the fluctuation of energy over the time step", 2.0),
    "kinetic_energy": Quantity("sigma", "most", "distributions", "kinetic energies, physical_validation"),
    "potential_energy": Quantity("sigma", "most", "distributions", "potential energies, physical_validation"),
    "pressed": Quantity("", "word", "beyond", "neighbors that are pressed together", "repulsive"),
    "dimers": Quantity("", "word", "beyond", "pairs of atoms in vacuum", "repulsive"),
    "hot": Quantity("", "word", "beyond", "the run at twice the temperature", "stable"),
    "vacuum": Quantity("eV", "near", "beyond", "energy of an atom in vacuum"),
    "roc_area": Quantity("", "least", "uncertainty", "area under the ROC curve of frames with large force errors"),
    "false_alarms": Quantity("%", "most", "uncertainty", "held-out frames above the limit of the uncertainty"),
    "flagged": Quantity("%", "least", "uncertainty", "frames above the limit of the uncertainty"),
    "uncertainty_slope": Quantity("", "to", "uncertainty", "slope of true over expected force errors", 1.0),
    "novel_forces": Quantity("meV/A", "most", "uncertainty", "error of forces on structures unlike the training"),
    "lifetime": Quantity("atom-ps", "least", "lifetime", "mean time of an atom to a failure of the model's own runs"),
    "run_energy": Quantity("meV/atom", "most", "own_runs", "error of energies in own runs, root mean square"),
    "run_bias": Quantity("meV/atom", "to", "own_runs", "mean error of energies in own runs", 0.0),
    "run_forces": Quantity("meV/A", "most", "own_runs", "error of force components in own runs", percent=True),
    "run_pressure": Quantity("bar", "to", "own_runs", "mean error of the pressure in own runs", 0.0),
    "teacher_run_temperature": Quantity("K", "near", "own_runs", "temperature of a run from one start", percent=True),
    "teacher_run_pressure": Quantity("bar", "near", "own_runs", "pressure of a run from one start"),
    "size_energy": Quantity("meV/atom", "most", "size", "change of the energy with the number of cells"),
    "size_pressure": Quantity("bar", "most", "size", "change of the pressure with the number of cells"),
    "size_run": Quantity("", "word", "size", "a run of the largest cell", "stable"),
    "speed": Quantity("us/atom", "most", "speed", "time of an atom and step"),
    "speedup": Quantity("times", "least", "speed", "speed over the teacher's"),
    "memory": Quantity("MB", "most", "speed", "memory of the process"),
}
MEASUREMENTS = tuple(dict.fromkeys(q.measured_by for q in QUANTITIES.values()))
KINDS = ("liquid", "crystal", "molecule")
DEFAULTS = {
    "minutes": 60.0,
    "scale": 1.0,
    "temperature": 300.0,
    "pressure": 1.0,
    "precision": "fp32",
    "nve": 100.0,
    "nvt": 500.0,
    "npt": 500.0,
    "hot": 20.0,
    "lifetime": 1e6,
    "atoms": 64,
    "size": 10000,
    "seed": 1,
}
QUICK = 0.01
_flag = lambda v: isinstance(v, bool)
_text = lambda v: isinstance(v, str) and bool(v.strip())
KEYS = {
    "minutes": (number(0, 1e5), "minutes for each measurement"),
    "scale": (number(0, 10), "a factor of all lengths, up to 10"),
    "quick": (_flag, f"true or false: true stands for scale: {QUICK}"),
    "temperature": (number(0, 1e5), "K, of structures without one of their own"),
    "pressure": (lambda v: number(-1e7, 1e7)(v), "bar"),
    "timestep": (number(0, 20), "fs"),
    "precision": (lambda v: v in PRECISIONS, "one of " + ", ".join(PRECISIONS)),
    "nve": (number(0, 1e6), "ps"),
    "nvt": (number(0, 1e6), "ps"),
    "npt": (number(0, 1e6), "ps"),
    "hot": (number(0, 1e6), "ps"),
    "lifetime": (number(0, 1e12), "atom-ps of runs without a failure"),
    "atoms": (count(1, 10**6), "a whole number: crystals are repeated until they have so many"),
    "size": (count(2, 10**7), "a whole number of atoms, of the largest cell"),
    "seed": (count(0), "a whole number from 0"),
    "measure": (
        lambda v: isinstance(v, list) and v and all(x in MEASUREMENTS for x in v),
        "a list of " + ", ".join(MEASUREMENTS),
    ),
}
SYSTEM = {
    "name": (lambda v: _text(v) and v != "all", "a name, other than all"),
    "kind": (lambda v: v in KINDS, "one of " + ", ".join(KINDS)),
    "temperature": KEYS["temperature"],
    "pressure": KEYS["pressure"],
    "high": (number(0, 1e5), "K, of the crystal at high temperature"),
}


def limit(value, quantity):
    """(number, whether it is a percentage) of a bar; a word for those of kind word; None when it is neither."""
    if quantity.kind == "word":
        return (value, False) if value == quantity.target else None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([-+.\deE]+)\s*%\s*", value)
        if not found or not (quantity.percent or quantity.unit == "%"):
            return None
        try:
            size = float(found[1])
        except ValueError:
            return None
        return (size, quantity.unit != "%") if 0 <= size < 1e300 else None
    return (float(value), False) if number(-1e-300, 1e300)(value) else None


def _allowed(quantity):
    if quantity.kind == "word":
        return quantity.target
    words = "a number" + (f" ({quantity.unit})" if quantity.unit else "") + " from 0"
    return words + (", or a percentage as 2.5 %" if quantity.percent or quantity.unit == "%" else "")


def kind(recipe):
    """The kind of material of a recipe, checked, or None."""
    if "kind" in recipe.value:
        recipe.one_of(("kind",), tuple(kinds.KINDS))
    return recipe.value.get("kind")


def looser(value, than, quantity):
    """Whether a bar lets more pass than another one of the same quantity; False where one of them is a percentage."""
    (mine, percent), (other, other_percent) = limit(value, quantity), limit(than, quantity)
    if quantity.kind == "word" or percent != other_percent:
        return False
    return mine < other if quantity.kind == "least" else mine > other


def bars(recipe):
    """{quantity: {group: value}} of the section bars, checked; a bar without a group is that of the group all."""
    if "bars" not in recipe.value:
        return {}
    value, out = recipe.mapping(("bars",), tuple(QUANTITIES)), {}
    for name, quantity in QUANTITIES.items():
        if name not in value:
            continue
        key_path, given = ("bars", name), value[name]
        if isinstance(given, dict):
            if not given:
                recipe.fail(key_path, "names no group")
            for group in given:
                recipe.check((*key_path, group), lambda v, q=quantity: limit(v, q) is not None, _allowed(quantity))
            out[name] = dict(given)
            continue
        text = _allowed(quantity) + ", or groups with one each, as {all: ...}"
        recipe.check(key_path, lambda v, q=quantity: limit(v, q) is not None, text)
        out[name] = {"all": given}
    return out


def certify(recipe):
    """The section certify, checked, with its defaults; `systems` are items that the caller checks as structures."""
    value = recipe.value.get("certify")
    if "certify" in recipe.value:
        value = recipe.mapping(("certify",), (*KEYS, "systems", "by"))
        if "by" in value:
            check_potential(recipe, ("certify", "by"), ("lammps",))
            if "ase" not in (recipe.value.get("teacher") or {}):
                recipe.fail(("certify", "by"), "is for a teacher that is a calculator of ASE")
        for key, (good, allowed) in KEYS.items():
            if key in value:
                recipe.check(("certify", key), good, allowed)
        if value.get("quick") and "scale" in value:
            recipe.fail(("certify", "quick"), f"conflicts with scale: it means scale: {QUICK}")
        for k, _ in enumerate(_systems(recipe, value)):
            _system(recipe, ("certify", "systems", k))
    value = dict(value or {})
    quick = bool(value.pop("quick", False))
    if quick:
        value["scale"] = QUICK
    out = {**DEFAULTS, "timestep": None, "measure": None, "systems": None, "by": None, **value}
    return {**out, "quick": quick or out["scale"] < 1}


def _systems(recipe, value):
    if "systems" in value and not (isinstance(value["systems"], list) and value["systems"]):
        what = "must be a list of structures, each with kind, temperature, ..., or of names of systems"
        recipe.fail(("certify", "systems"), what)
    return value.get("systems", ())


def _system(recipe, key_path):
    if _text(recipe.get(key_path)):
        return
    if not isinstance(recipe.get(key_path), dict):
        what = "a structure as in the section structures, with kind, temperature, ..., or the name of a system"
        recipe.fail(key_path, f"must be a mapping: {what}")
    for key, (good, allowed) in SYSTEM.items():
        if key in recipe.get(key_path):
            recipe.check((*key_path, key), good, allowed)
