"""Which liquids and crystals a certificate measures."""

import helpers
import numpy as np
import pytest

from mlff_tools.certify import novel, reality, size, systems
from mlff_tools.certify.work import CertifyError
from mlff_tools.model import structures
from mlff_tools.train import build, lattices
from mlff_tools.train.recipe_certify import DEFAULTS

SETTINGS = {**DEFAULTS, "timestep": None}
SI = {"lattice": "diamond", "elements": ["Si"], "constant": 5.4}


def labelled(kind, temperature, x, cell=12.0):
    info = {"config_type": kind, "temperature": str(temperature)}
    return {"elements": ["Si"], "positions": np.array([[x, 0.0, 0.0]]), "cell": np.eye(3) * cell, "info": info}


def of_recipe(items, frames=(), **settings):
    named = [(f"structures[{k + 1}]", item) for k, item in enumerate(items)]
    return systems.of_recipe(named, {**SETTINGS, **settings}, list(frames), ".", None)


def test_one_crystal_of_many_items():
    """Strained copies, dynamics and supercells of one unit cell are one crystal; another constant is another one."""
    items = [
        {"crystal": {**SI, "supercell": [2, 2, 2]}, "label": "strained", "strain": 0.06},
        {"crystal": SI, "dynamics": {"temperature": [350, 900, 1500]}},
        {"vacancy": SI, "dynamics": {"temperature": 900}},
        {"surface": {**SI, "miller": "100"}},
        {"molecule": "water"},
        {"crystal": {**SI, "constant": 5.5}},
    ]
    found = of_recipe(items)
    assert [(s.name, s.kind) for s in found] == [("Si diamond (1)", "crystal"), ("Si diamond (2)", "crystal")]
    assert len(found[0].unit["elements"]) == 8 and len(found[0].frame["elements"]) == 64
    assert found[0].temperature == 350 and found[0].high == 1500 and found[1].high == 450
    frames = [labelled("crystal", 1800, 0), labelled("liquid", 2500, 0), labelled("dense", 4000, 0)]
    assert of_recipe(items[5:], frames)[0].high == 1800
    dense = {"crystal": SI, "label": "dense", "dynamics": {"temperature": [4000], "by": {"lammps": ["pair_style sw"]}}}
    assert of_recipe([items[1], dense], frames)[0].high == 1800  # another potential's temperature is not the teacher's
    assert of_recipe([dense], frames)[0].high == 1.5 * 4000
    helpers.assert_near(found[0].frame["cell"], 10.8 * np.eye(3), 1e-9, "supercell")
    assert len(of_recipe(items[:1], atoms=100)[0].frame["elements"]) == 144


def test_liquids_begin_with_labelled_frames():
    """A liquid that was molten from a crystal is what the labels have, not the crystal."""
    items = [{"crystal": SI, "label": "liquid", "dynamics": {"temperature": [1700, 2200]}}]
    assert of_recipe(items) == []
    frames = [labelled("liquid", t, k) for k, t in enumerate((1700, 2200, 1700, 2200))]
    (found,) = of_recipe(items, frames)
    assert (found.name, found.kind, found.temperature, found.unit) == ("liquid", "liquid", 1700, None)
    assert found.frame["positions"][0, 0] == 2 and not found.packed  # the last one at that temperature


def test_packed_liquids():
    items = [
        {"liquid": {"molecules": {"water": 8}, "density": [0.9, 1.0, 1.1]}, "dynamics": {"temperature": [280, 310]}}
    ]
    (found,) = of_recipe(items)
    assert found.packed and found.temperature == 310 and len(found.frame["elements"]) == 24
    volume = 8 * 18.015 * 1.66053907
    helpers.assert_near(np.linalg.det(found.frame["cell"]), volume, 0.01 * volume, "density 1")


def test_a_molecule_where_there_is_nothing_else():
    (found,) = of_recipe([{"molecule": "water", "rattle": 0.1, "copies": 3}])
    assert found.kind == "molecule" and found.frame["cell"] is None
    assert of_recipe([]) == []


def test_labels_alone():
    frames = [labelled("liquid", 300, 0), labelled("crystal", 300, 1), labelled("liquid", 350, 2)]
    (found,) = systems.of_labels(SETTINGS, frames)
    assert found.name == "liquid" and found.temperature == 350 and found.frame["positions"][0, 0] == 2


def test_chosen_ones_must_say_what_they_are():
    with pytest.raises(CertifyError, match="give kind|Give kind"):
        systems.chosen([("systems[1]", {"surface": SI})], SETTINGS, ".", None)
    (found,) = systems.chosen([("systems[1]", {"crystal": SI, "temperature": 500, "high": 900})], SETTINGS, ".", None)
    assert (found.temperature, found.high, found.kind) == (500, 900, "crystal")


def test_chosen_by_name():
    """A word is a system of the recipe; the others are left out."""
    water = {"molecules": {"water": 8}, "density": 1.0}
    made = of_recipe(
        [{"liquid": water, "dynamics": {"temperature": t}, "label": n} for n, t in (("a", 300), ("b", 500))]
    )
    known = {s.name: s for s in made}
    assert list(known) == ["a", "b"]
    wanted = [("systems[1]", "b"), ("systems[2]", {"crystal": SI})]
    assert [s.name for s in systems.chosen(wanted, SETTINGS, ".", None, known)] == ["b", "Si diamond"]
    with pytest.raises(CertifyError, match=r"systems\[1\]: the section structures has no 'c', but a, b"):
        systems.chosen([("systems[1]", "c")], SETTINGS, ".", None, known)


def test_cells_up_to_a_size():
    found = size.cells(64, 10000)
    assert found[0] == (1, 1, 1) and (2, 2, 2) in found
    assert 64 * np.prod(found[-1]) <= 10000 < 64 * np.prod(np.array(found[-1]) + (1, 0, 0)) * 1.3
    assert size.cells(64, 100) == [(1, 1, 1)]


def test_published_values():
    """Stand with the rows of their material: of the longest name that a group begins with."""
    al = systems.System("Al", "crystal", lattices.crystal("fcc", ["Al"], 4.03), 300, 1, phase="Al fcc")
    rows = [
        {"quantity": "lattice_constant", "group": "Al a"},
        {"quantity": "lattice_constant", "group": "Al fcc a"},
        {"quantity": "bulk_modulus", "group": "Al"},
    ]
    reality.add(rows, [al])
    assert [round(e["value"], 2) for e in rows[0]["published"] if e["kind"] == "experiment"][:1] == [4.05]
    assert "published" not in rows[1]
    water = systems.System("w", "liquid", build.build({"molecule": "water"}, "x", ".", None)[0], 300, 1)
    assert reality.material(water) == "water liquid" and reality.material(al) == "Al fcc"


METHYL = [("H", 0, 1.09, 1, 109.5, 2, turn) for turn in (180.0, 60.0, -60.0)]
ISOMERS = {
    "dimethyl ether": [("C",), ("O", 0, 1.41), ("C", 1, 1.41, 0, 111.7), *METHYL]
    + [("H", 2, 1.09, 1, 109.5, 0, turn) for turn in (180.0, 60.0, -60.0)],
    "methyl formate": [("C",), ("O", 0, 1.44), ("C", 1, 1.34, 0, 114.8), *METHYL]
    + [("O", 2, 1.2, 1, 125.9, 0, 0.0), ("H", 2, 1.1, 1, 109.0, 0, 180.0)],
}


def _alone(elements, x):
    return {"elements": list(elements), "positions": np.array(x), "cell": None}


@pytest.mark.parametrize("name, other", [("ethanol", "dimethyl ether"), ("acetic_acid", "methyl formate")])
def test_isomers_are_other_molecules(name, other):
    """They have no published values of each other, are a mixture together, and are novel to each other."""
    one, isomer = _alone(*structures.molecule(name)), _alone(*structures._from_internal(ISOMERS[other]))
    assert systems.formula(one) == systems.formula(isomer)
    of = lambda frame: reality.material(systems.System("l", "liquid", frame, 300, 1))
    assert of(one) == f"{name} liquid" and of(one) in reality.published() and of(isomer) is None
    turned = {**one, "elements": one["elements"][::-1], "positions": one["positions"][::-1]}
    assert novel.structural_formulas([turned]) == novel.structural_formulas([one])
    both = _alone(one["elements"] + isomer["elements"], np.vstack([one["positions"], isomer["positions"] + 9.0]))
    assert len(novel.structural_formulas([both])) == 2 and of(both) is None
    groups = [g for g, _ in novel.of_molecules({"C", "H", "O"}, novel.structural_formulas([isomer]))]
    assert f"molecule {name}" in groups
