"""Planar faults and surfaces of certificates, with potentials whose answers are known or published."""

import helpers
import numpy as np
import pytest
from test_certify_defects import SILICON, Pairs, _lammps, certified, values

from mlff_tools.certify import faults, lattice, polymorphs, surfaces
from mlff_tools.train import lattices
from mlff_tools.train.process import TeacherError

COPPER = ["pair_style eam/alloy", "pair_coeff * * Cu_mishin1.eam.alloy Cu"]


def test_faults_of_pairs_that_do_not_see_the_third_shell(tmp_path):
    """None for the model. An intrinsic fault has two pairs of planes as in hcp, a twin boundary one; the teacher gives
    each 5 meV for an atom of a plane."""
    unit = lattices.crystal("fcc", ["Al"], 3.85)
    with certified(tmp_path, unit, Pairs(), Pairs(0.005), name="Al fcc") as made:
        found = faults.measure(made)
        constant = polymorphs.cell_of(made, made.model, made.systems[0])[1]["cell"][0, 0]
    mine, theirs = values(found, "fault_energy"), values(found, "fault_energy", "teacher")
    helpers.assert_near([mine["Al fcc intrinsic"], mine["Al fcc twin"]], [0, 0], 0.1, "mJ/m2")
    unit_of = 1000 * faults.J_PER_M2 * 0.005 / (constant**2 * 3**0.5 / 4)
    helpers.assert_near([theirs["Al fcc intrinsic"], theirs["Al fcc twin"]], [2 * unit_of, unit_of], 1.5, "mJ/m2")
    assert mine["Al fcc unstable"] > 50
    assert [c["label"] for c in found["figures"][0]["curves"]] == ["model", "teacher"]


def test_copper_of_mishin(tmp_path):
    """Mishin et al., Phys. Rev. B 63, 224106 (2001): 44.4, 22.2, 158 mJ/m2; 1.345, 1.475, 1.239 J/m2."""
    unit = lattices.crystal("fcc", ["Cu"], 3.62)
    with certified(tmp_path, unit, *(_lammps(COPPER, ["Cu"]) for _ in range(2)), name="Cu fcc") as made:
        found, slabs = faults.measure(made), surfaces.measure(made)
    energy = values(found, "fault_energy")
    helpers.assert_near([energy["Cu fcc intrinsic"], energy["Cu fcc twin"]], [44.4, 22.2], 0.1, "mJ/m2")
    helpers.assert_near(energy["Cu fcc unstable"], 160, 4, "mJ/m2")
    assert energy == values(found, "fault_energy", "teacher")
    for name, wanted in {"100": 1.345, "110": 1.475, "111": 1.239}.items():
        helpers.assert_near(values(slabs, "surface_energy")[f"Cu fcc {name}"], wanted, 1.5e-3, f"{name}, J/m2")
        helpers.assert_near(values(slabs, "surface_energy", "teacher")[f"Cu fcc {name}"], wanted, 1.5e-3, name)
        assert values(slabs, "relaxed_force")[f"Cu fcc surface {name}"] < 3e-3


def test_faults_and_surfaces_of_stillinger_and_weber(tmp_path):
    """First neighbors only: no stacking fault. The ideal surfaces break bonds of 2.1683 eV: 1 of 4 on (111) double
    layers, 2 on (100), 1 for each of two atoms on (110)."""
    with certified(tmp_path, lattices.crystal("diamond", ["Si"], 5.43), _lammps(SILICON, ["Si"]), name="Si") as made:
        found, slabs = faults.measure(made), surfaces.measure(made)
    energy = values(found, "fault_energy")
    helpers.assert_near([energy["Si intrinsic"], energy["Si twin"]], [0, 0], 0.01, "mJ/m2")
    assert energy["Si unstable"] > 2000
    a, bond = 5.431, 4.3366 / 2
    areas = {"111": 3**0.5 / 4 * a**2, "100": a**2 / 4, "110": a**2 / 2**1.5}
    for name, area in areas.items():
        wanted = surfaces.J_PER_M2 * bond / 2 / area
        assert 0.97 * wanted < values(slabs, "surface_energy")[f"Si {name}"] <= wanted + 1e-3, name


def test_highest_of_a_curve():
    x = np.linspace(0, 1, 7)
    helpers.assert_near(faults.highest(3 - (x - 0.43) ** 2), 3.0, 1e-12, "parabola")
    assert faults.highest([0.0, -1.0, -2.0]) == 0.0


@pytest.mark.parametrize("name, words", [("hcp", ["0001"]), ("bcc", ["110", "112"])])
def test_planes_of_lattices(name, words):
    """The last crystal of the path has the nearest distance of the perfect one."""
    unit = polymorphs.made(name, ["Al"], 16.0)
    for plane in words:
        frames = faults.path(name, unit, plane)
        assert len(frames) == 6 and 8 < len(frames[0]["elements"]) < 25 and frames[0]["cell"][2, 2] > faults.HEIGHT
        near = lattice._neighborhoods
        helpers.assert_near(near(frames[-1])[0][0][1], near(unit)[0][0][1], 1e-6, f"{name} {plane}")


def test_surfaces_of_compounds():
    """Only planes without a charge; both sides of a slab are alike."""
    wanted = {"rocksalt": ["100", "110"], "cscl": ["110"], "zincblende": ["110"], "diamond": ["100", "110", "111"]}
    for name, faces in wanted.items():
        elements = ["Si"] if name == "diamond" else ["Cl", "Na"]
        found = surfaces.slabs(name, polymorphs.made(name, elements, 20.0))
        assert [miller for miller, _ in found] == faces
        for miller, slab in found:
            z = slab["positions"][:, 2]
            heights = np.unique((z - z.min()).round(6))
            helpers.assert_near(np.diff(heights), np.diff(heights)[::-1], 1e-5, f"{name} {miller}")
            assert len({slab["elements"].count(e) for e in elements}) == 1


def test_lattices_without_a_common_fault(tmp_path):
    with certified(tmp_path, lattices.crystal("sc", ["Po"], 2.75), Pairs(), name="Po sc") as made:
        (row,) = faults.measure(made)["rows"]
    assert row["note"] == "sc has no common fault" and row["applies"] is False
    with certified(tmp_path, lattices.crystal("fcc", ["Al"], 3.85), Pairs(), name="Al") as made:
        made.systems[0].unit["elements"] = ["Al", "Al", "Al", "Ni"]
        (row,) = faults.measure(made)["rows"]
    assert row["note"].startswith("the lattice is not recognized") and "applies" not in row


def test_a_model_that_refuses_structures(tmp_path):
    """The rows that it cannot give say why, the others are there."""

    class Refuses(Pairs):
        def label(self, frames):
            if any(len(f["elements"]) in (2, 12) for f in frames):  # hcp, bcc; twins
                raise TeacherError("atoms are too close")
            return super().label(frames)

    with certified(tmp_path, lattices.crystal("fcc", ["Al"], 3.85), Refuses(), Pairs(), name="Al") as made:
        found, others = faults.measure(made), polymorphs.measure(made)
    notes = {**values(found, "fault_energy", "note"), **values(others, "polymorph_energy", "note")}
    assert notes["Al twin"] == notes["Al: hcp"] == notes["Al: bcc"] == "atoms are too close"
    assert values(found, "fault_energy")["Al unstable"] > 50 and values(others, "polymorph_energy")["Al: sc"] > 100
    order = values(others, "polymorph_order", "note")["Al"]
    assert order == "hcp: atoms are too close"
