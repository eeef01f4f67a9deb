"""Structures that recipes build: densities, distances, coordination; how they are dealt out; what is refused."""

import os
import re

import helpers
import numpy as np
import pytest

from mlff_tools.convert import short_range
from mlff_tools.model import masses, modelfile, reference, structures
from mlff_tools.train import (
    build,
    copies,
    extxyz,
    generate,
    job,
    lattices,
    liquids,
    random_structures,
    recipe_structures,
    splits,
)
from mlff_tools.train.extxyz import FrameError
from mlff_tools.train.recipe import RecipeError

TEACHER = "teacher:\n  mlff: m.yaml\n"
LABELS = "teacher:\n  labels: m.xyz\n"


def read(tmp_path, text):
    (tmp_path / "r.yaml").write_text(text)
    return recipe_structures.read(str(tmp_path / "r.yaml"))


def distances(frame, cutoff):
    i, j, d = reference.neighbours(frame["positions"], frame["cell"], cutoff)
    return i, j, np.linalg.norm(d, axis=1)


# ---- molecules -------------------------------------------------------------------------------------------------------

BONDS = {  # between atoms closer than 1.7 A, with H 1.2 A
    "methanol": {"CO": [1.42], "HO": [0.963], "CH": [1.09, 1.095, 1.095]},
    "ethanol": {"CC": [1.512], "CO": [1.431], "HO": [0.971], "CH": [1.09] * 5},
    "acetic_acid": {"CC": [1.507], "CO": [1.208, 1.358], "HO": [0.97], "CH": [1.09] * 3},
    "methylamine": {"CN": [1.471], "HN": [1.01, 1.01], "CH": [1.093] * 3},
    "benzene": {"CC": [1.394] * 6, "CH": [1.086] * 6},
    "water": {"HO": [0.957, 0.957]},
}


@pytest.mark.parametrize("name", BONDS)
def test_molecules(name):
    elements, x = structures.molecule(name)
    found, closest = {}, []
    for i in range(len(elements)):
        for j in range(i):
            r, pair = np.linalg.norm(x[i] - x[j]), "".join(sorted(elements[i] + elements[j]))
            if r < (1.2 if "H" in pair else 1.7):
                found.setdefault(pair, []).append(r)
            else:
                closest.append(r)
    assert found.keys() == BONDS[name].keys()
    for pair, lengths in BONDS[name].items():
        np.testing.assert_allclose(sorted(found[pair]), lengths, atol=0.012)
    assert min(closest) > 1.5  # H-H of water


def test_angles_and_conformers():
    """Methanol is staggered, the hydrogen of acetic acid's OH is on the side of the other oxygen."""
    _, x = structures.molecule("methanol")
    assert angle(x[1], x[0], x[2]) == pytest.approx(108, abs=1) and angle(x[0], x[1], x[3]) == pytest.approx(107, abs=1)
    assert sorted(round(abs(dihedral(x[2], x[0], x[1], x[k]))) for k in (3, 4, 5)) == [62, 62, 180]
    _, x = structures.molecule("acetic_acid")
    assert dihedral(x[4], x[3], x[0], x[2]) == pytest.approx(0, abs=1e-6)
    assert abs(dihedral(x[1], x[0], x[3], x[4])) == pytest.approx(180) and angle(x[2], x[0], x[3]) > 115
    _, x = structures.molecule("methylamine")
    assert angle(x[2], x[0], x[3]) == pytest.approx(107, abs=1.5)


def angle(a, b, c):
    u, v = a - b, c - b
    return np.degrees(np.arccos(u @ v / np.linalg.norm(u) / np.linalg.norm(v)))


def dihedral(a, b, c, d):
    p, q = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return np.degrees(np.arctan2(np.linalg.norm(c - b) * (b - a) @ q, p @ q))


# ---- liquids ---------------------------------------------------------------------------------------------------------

LIQUIDS = [
    ({"water": 32, "ethanol": 4}, 0.997),
    ({"water": 100}, 1.0),
    ({"benzene": 12}, 0.876),
    ({"acetic_acid": 10, "water": 10}, 1.05),
    ({"methylamine": 16}, 0.66),
    ({"methanol": 1}, 0.3),
]


@pytest.mark.parametrize("molecules, density", LIQUIDS)
def test_liquids(molecules, density):
    frame = liquids.liquid(molecules, density, 7)
    edge, n = frame["cell"][0, 0], sum(molecules.values())
    assert (frame["cell"] == np.eye(3) * edge).all()
    mass = sum(masses.MASS[e] for e in frame["elements"]) / 0.602214076
    assert mass / edge**3 == pytest.approx(density, rel=1e-12)
    at, of, angles = 0, [], []
    for name, number in molecules.items():
        elements, unit = structures.molecule(name)
        for _ in range(number):
            x = frame["positions"][at : at + len(unit)]
            assert frame["elements"][at : at + len(unit)] == elements
            inside = np.linalg.norm(x[:, None] - x[None], axis=2)
            np.testing.assert_allclose(inside, np.linalg.norm(unit[:, None] - unit[None], axis=2), atol=1e-5)
            assert (x.mean(0) >= -1e-6).all() and (x.mean(0) <= edge + 1e-6).all()
            volume = np.linalg.det(np.linalg.lstsq(unit - unit.mean(0), x - x.mean(0), rcond=None)[0] + 0)
            assert volume > -1e-6  # turned and not mirrored; flat molecules have 0
            angles.append((x[1] - x[0]) / np.linalg.norm(x[1] - x[0]))
            of += [len(angles)] * len(unit)
            at += len(unit)
    assert at == len(frame["elements"])
    i, j, r = distances(frame, 3.0)
    between = np.array(of)[i] != np.array(of)[j]
    assert r[between].min() > 1.56 if n > 1 else not between.any()
    heavy = np.array(frame["elements"]) != "H"
    if n > 1:
        assert r[between & heavy[i] & heavy[j]].min() > 2.17
        assert len({tuple(np.round(a, 3)) for a in angles}) == n  # no two are turned alike
        assert np.linalg.norm(np.mean(angles, 0)) < 2.5 / np.sqrt(n)


def test_liquids_by_seed():
    a, b, c = (liquids.liquid({"water": 8}, 1.0, seed) for seed in (1, 1, 2))
    assert a["positions"].tobytes() == b["positions"].tobytes() != c["positions"].tobytes()


def test_liquid_of_a_file_and_one_that_cannot_be(tmp_path):
    (tmp_path / "ar.xyz").write_text("1\n\nAr 5 5 5\n")
    (tmp_path / "two.xyz").write_text("1\n\nAr 0 0 0\n" * 2)
    frame = liquids.liquid({"ar.xyz": 20, "water": 3}, 1.4, 1, str(tmp_path))
    assert frame["elements"] == ["Ar"] * 20 + ["O", "H", "H"] * 3
    assert distances(frame, 2.8)[2][distances(frame, 2.8)[2] > 1.6].min() > 1.85
    with pytest.raises(FrameError, match="holds 2 frames"):
        liquids.liquid({"two.xyz": 2}, 1.4, 1, str(tmp_path))
    with pytest.raises(FrameError, match="8 water at 4 g/cm3, in a cube of 3.91 A, cannot be packed without overlaps"):
        liquids.liquid({"water": 8}, 4.0, 1)
    with pytest.raises(FrameError, match="1 benzene at 3 g/cm3"):  # its own image
        liquids.liquid({"benzene": 1}, 3.0, 1)


# ---- surfaces and vacancies ------------------------------------------------------------------------------------------

# Neighbors of an atom of the outermost plane, and in the bulk; nearest distance in units of the constant
SURFACES = {
    ("sc", "100"): 5,
    ("sc", "110"): 4,
    ("sc", "111"): 3,
    ("bcc", "100"): 4,
    ("bcc", "110"): 6,
    ("bcc", "111"): 4,
    ("fcc", "100"): 8,
    ("fcc", "110"): 7,
    ("fcc", "111"): 9,
    ("diamond", "100"): 2,
    ("diamond", "110"): 3,
    ("diamond", "111"): 3,
    ("rocksalt", "100"): 5,
    ("zincblende", "110"): 3,
    ("cscl", "110"): 6,
}
BULK = {"sc": (6, 1.0), "bcc": (8, 0.75**0.5), "fcc": (12, 0.5**0.5), "diamond": (4, 3**0.5 / 4), "rocksalt": (6, 0.5)}
BULK.update(zincblende=BULK["diamond"], cscl=BULK["bcc"])


@pytest.mark.parametrize("lattice, miller", SURFACES)
def test_surfaces(lattice, miller):
    elements = ["Na", "Cl"][: len(lattices.LATTICES[lattice])]
    bulk, distance = BULK[lattice]
    for layers in (8, 9):
        s = lattices.surface(lattice, elements, 4.0, miller, [3, 2, layers], 11.0)
        z, cell = s["positions"][:, 2], s["cell"]
        assert (cell == np.diag(np.diag(cell))).all()
        assert cell[2, 2] - (z.max() - z.min()) == pytest.approx(11.0) and z.min() == pytest.approx(5.5)
        planes = np.unique(np.round(z, 6))
        assert len(planes) == layers
        counts = [(np.abs(z - p) < 1e-5).sum() for p in planes]
        assert set(counts) == {len(z) // layers}
        # as many atoms in a volume as the crystal has
        volume = cell[0, 0] * cell[1, 1] * (planes[-3] - planes[1]) / (layers - 4)
        if lattice not in ("diamond", "zincblende"):  # whose planes are at different distances
            assert counts[0] / volume == pytest.approx(sum(map(len, lattices.LATTICES[lattice])) / 64, rel=1e-6)
        i, j, r = distances(s, 4.0 * distance * 1.01)
        np.testing.assert_allclose(r, 4.0 * distance, rtol=1e-9)
        number = np.bincount(i, minlength=len(z))
        assert set(number[np.abs(z - planes[0]) < 1e-5]) == {SURFACES[lattice, miller]}
        assert number.max() == bulk and set(number[np.abs(z - planes[layers // 2]) < 1e-5]) == {bulk}
        if len(elements) == 2:
            assert all(s["elements"][a] != s["elements"][b] for a, b in zip(i, j))
    even = lattices.surface(lattice, elements, 4.0, miller, [3, 2, 8], 11.0)
    number = np.bincount(distances(even, 4.0 * distance * 1.01)[0])
    top = np.abs(even["positions"][:, 2] - even["positions"][:, 2].max()) < 1e-5
    assert set(number[top]) == {SURFACES[lattice, miller]}


def test_cells_of_surfaces_are_the_smallest_rectangles():
    """fcc as everybody has them: a/sqrt(2) squares on 100, a by a/sqrt(2) on 110, a/sqrt(2) by a sqrt(3/2) on 111."""
    for miller, sides, n in (("100", [0.5**0.5] * 2, 1), ("110", [1, 0.5**0.5], 1), ("111", [0.5**0.5, 1.5**0.5], 2)):
        s = lattices.surface("fcc", ["Al"], 4.05, miller, [1, 1, 5])
        np.testing.assert_allclose(np.diag(s["cell"])[:2], 4.05 * np.array(sides), rtol=1e-12)
        assert len(s["elements"]) == 5 * n


def test_vacancies():
    of = {"lattice": "bcc", "elements": ["Fe"], "constant": 2.86, "supercell": [3, 3, 3]}
    whole = lattices.crystal(**of)
    for remove in (1, 3):
        a, b = (lattices.vacancy(remove=remove, seed=seed, **of) for seed in (1, 2))
        assert len(a["elements"]) == len(a["positions"]) == 54 - remove and (a["cell"] == whole["cell"]).all()
        there = {tuple(x) for x in whole["positions"].tolist()}
        gone = [there - {tuple(x) for x in f["positions"].tolist()} for f in (a, b)]
        assert len(gone[0]) == len(gone[1]) == remove and gone[0] != gone[1]
    i, _, _ = distances(lattices.vacancy(**of), 2.5)
    assert sorted(np.bincount(i).tolist()) == [7] * 8 + [8] * 45
    pair = lattices.vacancy(lattice="rocksalt", elements=["Na", "Cl"], constant=5.64, seed=3)
    assert sorted(map(pair["elements"].count, ("Na", "Cl"))) == [3, 4]


@pytest.mark.parametrize("lattice, elements, constant, near", (
    ("bcc", ["Fe"], 2.86, 2.86 * 0.75**0.5),
    ("hcp", ["Mg"], [3.21, 5.21], 3.21),
    ("rocksalt", ["Na", "Cl"], 5.64, 5.64 / 2**0.5),
))  # fmt: skip
def test_hops_into_a_vacancy(lattice, elements, constant, near):
    """One atom has moved, by the fraction of the distance to the nearest atom of its element, towards the vacancy: all
    the way it leaves a crystal with one vacancy."""
    of = {"lattice": lattice, "elements": elements, "constant": constant, "supercell": [3, 3, 3]}
    for seed in (1, 2, 3):
        still = lattices.vacancy(seed=seed, **of)
        for hop in (0.25, 0.5, 1.0):
            found = lattices.vacancy(seed=seed, hop=hop, **of)
            moves = np.linalg.norm(found["positions"] - still["positions"], axis=1)
            assert found["elements"] == still["elements"] and np.count_nonzero(moves) == 1
            assert abs(moves.max() - hop * near) < 1e-2 * near
        ends = [sorted(np.bincount(distances(f, 1.05 * near)[0]).tolist()) for f in (still, found)]
        assert ends[0] == ends[1]


def test_hops_of_recipes():
    item = {"vacancy": {"lattice": "bcc", "elements": ["Fe"], "constant": 2.86, "supercell": [3, 3, 3]}, "seed": 2}
    assert len(build.MAKERS["vacancy"](item)) == 1
    item["vacancy"]["hop"] = [0.25, 0.5]
    assert [f["elements"] for f in build.MAKERS["vacancy"](item)] == 2 * [["Fe"] * 53]
    with pytest.raises(FrameError, match="no Na is left to hop"):
        lattices.vacancy(
            **{**item["vacancy"], "lattice": "cscl", "elements": ["Na", "Cl"], "supercell": [1, 1, 1]}, seed=1
        )


# ---- splits and tags -------------------------------------------------------------------------------------------------


def test_splits_of_copies():
    assert splits.of_copies(4) == ["train"] * 4
    assert splits.of_copies(5) == ["train"] * 3 + ["validation", "test"]
    assert [splits.of_copies(40).count(name) for name in ("train", "validation", "test")] == [32, 4, 4]


def test_splits_of_trajectories():
    for n in (5, 10, 47, 400):
        found = splits.of_trajectory(n, 0.1)
        assert len(found) == n and found == sorted(found, key=["train", "validation", "test"].index)
        assert found.count("validation") == found.count("test") == max(1, round(n / 10))
    found = splits.of_trajectory(100, 0.02)  # 0.1 ps are five frames: four are left out after each border
    assert found == ["train"] * 80 + ([None] * 4 + ["validation"] * 6) + ([None] * 4 + ["test"] * 6)
    assert splits.of_trajectory(10, 0.001) == ["train"] * 8 + ["validation", "test"]
    assert splits.of_trajectory(4) == ["train"] * 4


@pytest.mark.parametrize("names, closest", [(["water", "water"], [0.45, 0.8]), (["methanol", "benzene"], [0.6, 0.6])])
def test_dimers(names, closest):
    """Two rigid molecules, as close as was asked for, all ways round; the closest pair is of many kinds."""
    made = liquids.dimers(names, closest, 200, 3)
    (first, a), (second, b) = (structures.molecule(name) for name in names)
    radius = np.array([liquids.RADII[e] for e in [*first, *second]])
    n, shares, lines = len(first), [], []
    for frame in made:
        x = frame["positions"]
        assert frame["elements"] == [*first, *second] and frame["cell"] is None
        for unit, part in ((a, x[:n]), (b, x[n:])):
            unit, inside = np.array(unit), np.linalg.norm(part[:, None] - part[None], axis=2)
            np.testing.assert_allclose(inside, np.linalg.norm(unit[:, None] - unit[None], axis=2), atol=1e-5)
        share = np.linalg.norm(x[:n, None] - x[None, n:], axis=2) / (radius[:n, None] + radius[None, n:])
        shares.append(share.min())
        turned = np.linalg.lstsq(np.array(a) - np.mean(a, 0), x[:n] - x[:n].mean(0), rcond=None)[0]
        line = turned @ (x[n:].mean(0) - x[:n].mean(0))
        lines.append(line / np.linalg.norm(line))
    assert min(shares) > closest[0] - 1e-5 and max(shares) < closest[1] + 1e-5
    assert np.mean(shares) == pytest.approx(np.mean(closest), abs=0.03)
    again = liquids.dimers(names, closest, 200, 3)
    assert all((f["positions"] == g["positions"]).all() for f, g in zip(made, again))
    if names[0] == "water":  # flat: no direction out of the plane from lstsq; in it, none is preferred
        assert abs(np.mean(np.array(lines)[:, 0])) < 0.2


ITEMS = """structures:
  - crystal: {lattice: fcc, elements: [Al], constant: 4.05}
    rattle: 0.1
    copies: 10
  - surface: {lattice: fcc, elements: [Al], constant: 4.05, miller: 111, size: [1, 1, 4]}
    label: slab
    split: test
  - vacancy: {lattice: fcc, elements: [Al], constant: 4.05}
  - liquid: {molecules: {water: 4}, density: [0.9, 1.0]}
  - files: [some.xyz, "more*.xyz"]
  - molecule: methanol
  - crystal: {lattice: fcc, elements: [Al], constant: 4.05}
  - dimer: {molecules: [water, methanol], number: 2}
"""


def test_copies_that_are_held_out(tmp_path):
    """Another vacancy of the same crystal is a copy: the held-out one is left out, its disturbed copies are not. The
    recipe of iron has none."""
    modelfile.write(str(tmp_path / "m"), *helpers.painn(elements=("H", "C", "O", "Al")))
    vacancy = "  - vacancy: {lattice: fcc, elements: [Al], constant: 4.05, supercell: [2, 2, 2]}\n    seed: "
    items = f"structures:\n{vacancy}1\n{vacancy}2\n    rattle: 0.1\n    copies: 3\n    split: test\n"
    frames = generate.generate(*read(tmp_path, items + TEACHER), str(tmp_path / "work"))
    assert [extxyz.tag(f, "split") for f in frames] == ["train", "test", "test", "test"]
    recipe = os.path.join(helpers.ROOT, "models", "recipes", "iron-m.yaml")
    found, items, teacher = recipe_structures.read(recipe)
    built = generate._built(generate._items(found, items, teacher, generate.Programs()))
    copies.check_splits([f for one in built for f in one])


def test_tags(tmp_path):
    """Kinds, trajectories and splits. Tags in files are kept. The same crystal twice is one frame."""
    modelfile.write(str(tmp_path / "m"), *helpers.painn(elements=("H", "C", "O", "Al")))
    atom = "1\n%s\nAl 0 0 %s\n"
    (tmp_path / "some.xyz").write_text("".join(atom % ("", k) for k in range(10)))
    tags = 'config_type="two words" trajectory=mine split=validation'
    (tmp_path / "more.a.xyz").write_text(atom % (tags, 10) + atom % ("", 11))
    found, items, teacher = read(tmp_path, ITEMS + TEACHER)
    frames = generate.generate(found, items, teacher, str(tmp_path / "work"))
    info = [tuple(extxyz.plain(f["info"][key]) for key in ("config_type", "trajectory", "split")) for f in frames]
    assert info[0] == ("crystal", "1-crystal", "train")
    assert [s for *_, s in info[1:11]] == ["train"] * 3 + ["validation", "test"] + ["train"] * 5
    assert info[11:15] == [
        ("slab", "2-slab", "test"),
        ("vacancy", "3-vacancy", "train"),
        ("liquid", "4-liquid", "train"),
        ("liquid", "4-liquid", "train"),
    ]
    assert info[15] == ("some", "5-file", "train") and info[18] == ("some", "5-file", "validation")
    assert info[25] == ("two words", "mine", "validation") and info[26][0] == "more"
    assert info[27:] == [("molecule", "6-molecule", "train")] + [("dimer", "8-dimer", "train")] * 2
    assert generate.count(found, items, teacher) == (30, 0, sum(len(f["elements"]) for f in frames), 0, 0)
    again = generate.generate(found, items, teacher, str(tmp_path / "work"))
    assert "".join(map(extxyz.text, again)) == "".join(map(extxyz.text, frames))
    assert not os.path.exists(tmp_path / "work")  # nothing to keep
    text = extxyz.text(frames[25])
    assert 'config_type="two words"' in text and "split=validation" in text


def test_labels_are_structures(tmp_path):
    """A recipe with labels and no structures: frames of the file, dealt out."""
    frame = "1\nProperties=species:S:1:pos:R:3:forces:R:3 E=-%d\nH 0 0 %d 1 2 3\n"
    (tmp_path / "m.xyz").write_text("".join(frame % (k, k) for k in range(20)))
    found, items, teacher = read(tmp_path, LABELS + "  keys: {energy: E}\n")
    frames = generate.generate(found, items, teacher, str(tmp_path / "work"))
    named = [extxyz.plain(f["info"]["split"]) for f in frames]
    assert [named.count(name) for name in ("train", "validation", "test")] == [16, 2, 2]
    assert frames[0]["info"]["config_type"] == "m" and frames[19]["energy"] == -19


@pytest.mark.parametrize("recipe", [LABELS + "  keys: {energy: E}\n", "structures:\n  - files: [m.xyz]\n" + LABELS])
def test_frames_of_rounds_of_another_run_are_used(recipe, tmp_path):
    """Trainings leave out what rounds of their own add later, not what the rounds of another run added."""
    frame = "1\nProperties=species:S:1:pos:R:3:forces:R:3 E=-%d round=%d\nH 0 0 %d 1 2 3\n"
    (tmp_path / "m.xyz").write_text("".join(frame % (k, k // 5, k) for k in range(20)))
    frames = generate.generate(*read(tmp_path, recipe), str(tmp_path / "work"))
    assert len(frames) == 20 == len(job.frames_until(frames, 0))


# ---- what is refused -------------------------------------------------------------------------------------------------

SILICON = "  - crystal: {lattice: diamond, elements: [Si], constant: 5.43}\n"
MD = SILICON + "    dynamics:\n      temperature: 300\n"
SURFACE = "  - surface: {lattice: %s, elements: [Si], constant: 5, miller: %s, size: %s}\n"
DIMER = "  - dimer: {molecules: [water, water], number: 3, %s}\n"
STACKING = "  - stacking: {lattice: fcc, elements: [Al], constant: 4, sequence: %s}\n"
FAULT = "  - fault: {lattice: fcc, elements: [Al], constant: 4, plane: %s, shift: %s, layers: %s}\n"
INTERSTITIAL = "  - interstitial: {lattice: %s, elements: [Si], constant: 5, supercell: [%s, 2, 2], kind: %s}\n"
DENSE = "  - dense: {elements: %s, number: 3, density: %s}\n"
CLUSTER = "  - cluster: {elements: {Si: %s}, number: 3}\n"
WATER = "  - liquid: {molecules: {water: 8}, density: 1}\n"


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("  - liquid: {molecules: water}\n", 2, r"liquid.molecules: must be names or XYZ files and numbers"),
        (
            "  - liquid:\n      molecules: {water: 3, wator: 2}\n",
            3,
            "molecules.wator: is not known; allowed are water,",
        ),
        (
            "  - liquid: {molecules: {water: 0}, density: 1}\n",
            2,
            "molecules.water: is 0; allowed is a number of molecules",
        ),
        (
            "  - dimer: {molecules: [water], number: 3}\n",
            2,
            r"dimer.molecules: is \['water'\]; allowed is a list of two",
        ),
        ("  - dimer: {molecules: [water, wator], number: 3}\n", 2, r"molecules.2.: is not known; allowed are water,"),
        ("  - dimer: {molecules: [water, water]}\n", 2, "dimer: has no number"),
        (DIMER % "closest: [1, 0.5]", 2, r"closest: is \[1, 0.5\]; allowed is \[least, most\], shares of the sum"),
        (DIMER % "closest: 0.5", 2, "closest: is 0.5; allowed is"),
        (DIMER % "" + "    strain: 0.1\n", 3, "strain: a dimer has no cell"),
        ("  - liquid: {molecules: {water: 3}}\n", 2, "liquid.density: is missing: g/cm3, a number or a list"),
        ("  - liquid: {molecules: {water: 3}, density: [1, x]}\n", 2, r"density: is \[1, 'x'\]; allowed is g/cm3"),
        ("  - liquid: {molecules: {water: 3}, density: [1, 1]}\n", 2, "density: is .*; allowed is g/cm3"),
        (WATER + "    dynamics: {temperature: 300, density: 1}\n", 2, "liquid.density: is given in dynamics as well"),
        (WATER + "    rattle: 0.1\n    dynamics: {temperature: 300}\n", 3, "rattle: a liquid with dynamics begins"),
        (SURFACE % ("hcp", 100, [1, 1, 4]), 2, "lattice: is 'hcp'; allowed is one of sc, bcc, fcc, diamond"),
        (SURFACE % ("fcc", 210, [1, 1, 4]), 2, "miller: is '210'; allowed is one of 100, 110, 111"),
        (SURFACE % ("fcc", 110, [1, 1]), 2, r"size: is \[1, 1\]; allowed is \[nx, ny, layers\]"),
        (
            "  - surface: {lattice: fcc, elements: [Si], constant: 5, miller: 111}\n",
            2,
            "surface: has no size; allowed are",
        ),
        ("  - vacancy: {lattice: sc, elements: [Po], constant: 3}\n", 2, "vacancy: has one atom: give it a supercell"),
        (
            "  - vacancy: {lattice: fcc, elements: [Al], constant: 4, remove: 4}\n",
            2,
            "remove: is 4; allowed is a whole number from 1 to 3, of 4 atoms",
        ),
        (
            "  - vacancy: {lattice: fcc, elements: [Al], constant: 4, hop: [0.5, 2]}\n",
            2,
            r"hop: is \[0.5, 2\]; allowed is a number from 0 to 1, or a list of them",
        ),
        (SILICON + "    relax: 3\n", 3, "relax: needs rattle as well"),
        (SILICON + "    seed: 3\n", 3, "seed: needs strain, rattle or dynamics"),
        (SILICON + "    label: two words\n", 3, "label: is 'two words'; allowed is a word"),
        (SILICON + "    split: both\n", 3, "split: is 'both'; allowed is one of train, validation, test"),
        (SILICON + "    dynamics: 300\n", 3, "dynamics: must be a mapping with the keys temperature, pressure"),
        (SILICON + "    dynamics: {time: 1}\n", 3, "dynamics: has no temperature"),
        (MD + "      temperatures: 3\n", 5, "dynamics.temperatures: is not known; allowed are temperature,"),
        (SILICON + "    dynamics:\n      temperature: [300, -1]\n", 4, r"temperature: is \[300, -1\]; allowed is K"),
        (SILICON + "    dynamics:\n      temperature: [300, 300]\n", 4, "temperature: .* list of different ones"),
        (MD + "      pressure: high\n", 5, "pressure: is 'high'; allowed is bar"),
        (MD + "      density: 1\n", 5, "density: belongs to a liquid"),
        (MD + "      every: 0.0007\n", 5, "every 0.0007 ps is not a whole number of time steps of 0.5 fs"),
        (MD + "      timestep: 0.3\n", 5, "every 0.05 ps is not a whole number of time steps of 0.3 fs"),
        (MD + "      time: 0.01\n", 5, "time: no frame: 0.01 ps, one every 0.05 ps"),
        (MD + "      runs: 1.5\n", 5, "runs: is 1.5; allowed is a whole number"),
        (MD + "      cell: tri\n", 5, "cell: needs pressure as well"),
        (MD + "      pressure: 0\n      cell: box\n", 6, "cell: is 'box'; allowed is one of iso, aniso, tri"),
        (MD + "      on_error: go\n", 5, "on_error: is 'go'; allowed is stop or keep"),
        (MD + "      by: sw\n", 5, "dynamics.by: must be a mapping with the keys lammps"),
        (MD + "      by: {labels: a.xyz}\n", 5, "by.labels: is not known; allowed are lammps"),
        (
            MD + "      by: {lammps: [pair_style sw], mlff: m}\n",
            5,
            "must have one of lammps, mlff, ase, and has lammps and",
        ),
        (MD + "      by: {lammps: [run 3]}\n", 5, "by.lammps: 'run 3': run is done by mlff label"),
        (
            MD + "      pressure: 0\n      cell: aniso\n      by: {ase: {calculator: a:b}}\n",
            6,
            "cell: is aniso; allowed with ase are iso, tri",
        ),
        (
            SURFACE % ("fcc", 111, [1, 1, 4]) + "    dynamics: {temperature: 300, pressure: 0}\n",
            3,
            "pressure: would close the vacuum of a slab",
        ),
        ("  - molecule: water\n    dynamics: {temperature: 300, pressure: 0}\n", 3, "pressure: a molecule has no cell"),
        (STACKING % "ABBA", 2, "sequence: is 'ABBA'; allowed is letters A, B and C"),
        (STACKING % "[AB, ABA]", 2, r"sequence: is \['AB', 'ABA'\]; allowed is letters"),
        (STACKING % "AB, size: [2]", 2, r"size: is \[2\]; allowed is \[nx, ny\]"),
        (FAULT % (110, 0.5, 6), 2, "plane: is '110'; allowed is 111, of fcc"),
        (FAULT % (111, "half", 6), 2, "shift: is 'half'; allowed is a number, a list of them, or random"),
        (FAULT % (111, 1, 1), 2, "layers: is 1; allowed is a whole number of lattice planes from 2"),
        (FAULT % (111, 1, "6, number: 3"), 2, "number: belongs to shift: random"),
        (FAULT % (111, "random", "6, number: 0"), 2, "number: is 0; allowed is a number of faults"),
        (FAULT % (111, 1, 6) + "    seed: 3\n", 3, "seed: needs strain, rattle or dynamics"),
        (INTERSTITIAL % ("diamond", 2, "octahedral"), 2, "kind: is 'octahedral'; allowed is one or a list of 100, 110"),
        (INTERSTITIAL % ("fcc", 1, "hole"), 2, r"supercell: is \[1, 2, 2\]; allowed is three whole numbers from 2"),
        (INTERSTITIAL % ("fcc", 2, "[111, 112]"), 2, r"kind: is \['111', '112'\]; allowed is one or a list"),
        (INTERSTITIAL % ("fcc", 2, "hole, add: Xx"), 2, "add: is 'Xx'; allowed is a chemical symbol"),
        (DENSE % ("Si", 32), 2, "elements: must be elements and numbers of atoms, as {Na: 16, Cl: 16}"),
        (DENSE % ("{Si: 0}", 32), 2, "elements.Si: is 0; allowed is a number of atoms from 1"),
        (DENSE % ("{Xx: 2}", 32), 2, "elements.Xx: is not an element with a covalent radius"),
        (DENSE % ("{Si: 1}", 2), 2, "elements: is one atom: two are needed"),
        (DENSE % ("{Si: 8}", "x"), 2, "density: is 'x'; allowed is g/cm3"),
        (DENSE % ("{Si: 8}", "2, closest: [0.9, 0.8]"), 2, r"closest: is \[0.9, 0.8\]; allowed is"),
        (CLUSTER % "12", 2, r"elements.Si: is 12; allowed is \[least, most\] atoms, as \[2, 12\]"),
        (CLUSTER % "[0, 1]", 2, "elements: are never two atoms"),
        (CLUSTER % "[2, 3]" + "    strain: 0.1\n", 3, "strain: a cluster has no cell"),
    ],
)
def test_refuses(text, line, words, tmp_path):
    with pytest.raises(RecipeError, match=words) as e:
        read(tmp_path, "structures:\n" + text + TEACHER)
    assert str(e.value).startswith(f"{tmp_path}/r.yaml:{line}: structures[1]")


@pytest.mark.parametrize("key, more", [("dynamics", MD), ("rattle", SILICON + "    rattle: 0.1\n")])
def test_a_file_of_labels_has_none_for_new_frames(key, more, tmp_path):
    with pytest.raises(RecipeError, match=rf"{key}: makes frames that .* with mlff, lammps or ase, or leave {key} out"):
        read(tmp_path, "structures:\n" + more + LABELS)


NEW_KINDS = """structures:
  - stacking: {lattice: diamond, elements: [Si], constant: 5.4, sequence: [AB, ABCB], size: [1, 2]}
    rattle: 0.05
    copies: 5
  - fault: {lattice: hcp, elements: [Mg], constant: [3.2, 5.2], plane: 0001, shift: [0.5, 1], layers: 3}
    label: basal
  - fault: {lattice: fcc, elements: [Al], constant: 4.05, plane: 111, shift: random, number: 10, layers: 6}
    strain: 0.02
    seed: 4
  - interstitial: {lattice: fcc, elements: [Al], constant: 4.05, supercell: [2, 2, 2], kind: [100, hole], add: Cu}
    rattle: 0.1
    relax: 3
    copies: 2
  - dense: {elements: {Na: 8, Cl: 8}, density: [1.5, 2.0], number: 10}
    dynamics: {temperature: 300, pressure: 1, time: 0.2, every: 0.1}
  - cluster: {elements: {Si: [2, 5]}, number: 20}
    split: test
"""


def test_frames_of_the_new_kinds(tmp_path):
    """Labels, splits and numbers of frames, built and counted."""
    recipe, items, teacher = read(tmp_path, NEW_KINDS + TEACHER)
    found = [generate.Item(recipe, k, item, teacher) for k, item in enumerate(items)]
    frames = [item.frames() for item in found]
    assert [len(f) for f in frames] == [12, 2, 20, 2, 10, 20]
    kinds = [{extxyz.tag(f, "config_type") for f in one} for one in frames]
    assert kinds == [{"stacking"}, {"basal"}, {"fault"}, {"interstitial"}, {"dense"}, {"cluster"}]
    dealt = [[extxyz.tag(f, "split") for f in one].count("test") for one in frames]
    assert dealt == [2, 0, 1, 0, 1, 20]
    assert frames[3][0]["elements"] == ["Al"] * 32 + ["Cu"] and frames[4][0]["elements"] == ["Na"] * 8 + ["Cl"] * 8
    assert {len(f["elements"]) for f in frames[5]} == {2, 3, 4, 5}
    counted = generate.count(recipe, items, teacher)
    # four copies of interstitials after three steps of minimisation; two frames of each run of dense ones
    assert counted.frames == 66 + 4 + 20 and counted.atoms == sum(len(f["elements"]) for one in frames for f in one) + (
        4 * 33 + 20 * 16
    )


@pytest.mark.parametrize("elements", [{"Al": 32}, {"Na": 8, "Cl": 8}])
def test_dense(elements):
    """Shortest shares are uniform in `closest`, periodic images included; another seed, other structures."""
    made = random_structures.dense(elements, [1.5, 2.5], [0.7, 1.0], 30, 5)
    shares = np.array([random_structures.shortest_share(f) for f in made])
    assert (shares > 0.695).all() and (shares < 1.005).all() and abs(shares.mean() - 0.85) < 0.05
    mass = sum(masses.MASS[e] * n for e, n in elements.items())
    for k, f in enumerate(made):
        assert mass / np.linalg.det(f["cell"]) / structures.AVOGADRO_A3 == pytest.approx([1.5, 2.5][k % 2], rel=1e-4)
        i, j, r = distances(f, 4.0)
        radii = np.array([short_range.RADII[e] for e in f["elements"]])
        assert (r / (radii[i] + radii[j])).min() == pytest.approx(shares[k], abs=1e-6)
    again, other = (random_structures.dense(elements, 2.0, [0.7, 1.0], 1, seed) for seed in (5, 6))
    assert not np.allclose(again[0]["positions"], other[0]["positions"])
    with pytest.raises(FrameError, match="32 Cu at 11 g/cm3 cannot be packed with distances of 1.2"):
        random_structures.dense({"Cu": 32}, 11, [1.2, 1.2], 1, 1)


def test_clusters():
    made = random_structures.clusters({"Na": [0, 4], "Cl": [0, 4]}, [0.8, 1.6], 200, 2)
    pairs = [f for f in made if len(f["elements"]) == 2]
    shares = [random_structures.shortest_share(f) for f in made]
    assert all(f["cell"] is None and 2 <= len(f["elements"]) <= 8 for f in made)
    assert {tuple(sorted(f["elements"])) for f in pairs} == {("Cl", "Cl"), ("Cl", "Na"), ("Na", "Na")}
    assert 0.8 - 1e-5 < min(shares) < 0.85 and max(s for s in shares if np.isfinite(s)) < 1.6
    radius = [np.linalg.norm(f["positions"], axis=1).max() for f in made if len(f["elements"]) == 8]
    assert max(radius) < 3 * 2 * short_range.RADII["Na"]  # compact: no chains


def test_documented_keys():
    """docs/distillation.md names every kind of structure and every key of items and dynamics."""
    from mlff_tools.train import recipe_structures as section

    with open(os.path.join(helpers.ROOT, "docs", "distillation.md"), encoding="utf-8") as f:
        text = f.read()
    for key in (*section.ITEM, *section.STATES, *section.DYNAMICS, "by", *structures.MOLECULES):
        assert f"`{key}`" in text, key
    for lattice in lattices.LATTICES:
        assert re.search(rf"`lattice`.*\b{lattice}\b", text), lattice
