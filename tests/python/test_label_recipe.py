"""Recipes: structures that are built, and errors that name file, line, key and what is allowed."""

import re

import numpy as np
import pytest

from mlff_tools.model import reference
from mlff_tools.train import build, lattices, recipe_structures
from mlff_tools.train.recipe import RecipeError

TEACHER = "teacher:\n  mlff: m.yaml\n"
CRYSTAL = "structures:\n  - crystal: {lattice: %s, elements: %s, constant: %s}\n" + TEACHER


def write(tmp_path, text):
    (tmp_path / "r.yaml").write_text(text)
    return str(tmp_path / "r.yaml")


def test_reads(tmp_path):
    text = (
        "structures:\n- files: a.xyz\n- crystal: {lattice: hcp, elements: [Mg], constant: [3.2, 5.2]}\n  rattle: 0.1\n"
    )
    found, items, teacher = recipe_structures.read(
        write(tmp_path, text + "teacher:\n  lammps: [pair_style sw]\n  types: [Mg]\n")
    )
    assert items[0] == {"files": ["a.xyz"]} and teacher == {"lammps": ["pair_style sw"], "types": ["Mg"]}
    assert found.folder == str(tmp_path) and found.lines[("structures", 1, "rattle")] == 4


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("", None, "is empty"),
        ("a: [1\n", 2, "not valid YAML"),
        ("structures:\n  - molecule: water\n", 1, "has no teacher; allowed are name, kind, structures, teacher"),
        (TEACHER, 1, "has no structures"),
        ("studnt: s\n" + TEACHER, 1, "studnt: is not known; allowed are name, kind, structures, teacher"),
        (TEACHER + TEACHER, 3, "teacher: duplicate key"),
        ("- a\n", 1, "must be a mapping"),
        ("structures: water\n" + TEACHER, 1, "structures: must be a list"),
        ("structures:\n  - water\n" + TEACHER, 2, r"structures\[1\]: must be a mapping"),
        ("structures:\n  - molecule: wator\n" + TEACHER, 2, r"molecule: is 'wator'; allowed is one of water, benzene"),
        (
            "structures:\n  - molecule: water\n  - liquid: {}\n" + TEACHER,
            3,
            r"structures\[2\].liquid: has no molecules; allowed are molecules, density",
        ),
        (
            "structures:\n  - molecul: water\n" + TEACHER,
            2,
            "molecul: is not known; allowed are files, molecule, dimer, crystal",
        ),
        (
            "structures:\n  - rattle: 0.1\n" + TEACHER,
            2,
            "must have one of files, molecule, dimer, crystal, .*, dense, cluster, and has none",
        ),
        ("structures:\n  - molecule: water\n    files: a\n" + TEACHER, 2, "and has files and molecule"),
        ("structures:\n  - files: []\n" + TEACHER, 2, "files: is .*; allowed is a name or a list of names"),
        ("structures:\n  - molecule: water\n    rattle: -1\n" + TEACHER, 3, "rattle: is -1; allowed is a width"),
        ("structures:\n  - molecule: water\n    strain: 0.1\n" + TEACHER, 3, "strain: a molecule has no cell"),
        ("structures:\n  - molecule: water\n    copies: 3\n" + TEACHER, 3, "copies: needs strain or rattle"),
        (
            "structures:\n  - files: a\n    rattle: 0.1\n    copies: 1.5\n" + TEACHER,
            4,
            "copies: is 1.5; allowed is a whole",
        ),
        (CRYSTAL % ("fcd", "[Si]", 5), 2, "lattice: is 'fcd'; allowed is one of sc, bcc, fcc"),
        (CRYSTAL % ("fcc", "[Si, C]", 5), 2, r"elements: is \['Si', 'C'\]; allowed is a list of 1 chemical"),
        (CRYSTAL % ("rocksalt", "[Na, Kl]", 5), 2, "elements: .* list of 2 chemical"),
        (CRYSTAL % ("fcc", "[Si]", "a"), 2, "constant: is 'a'; allowed is a length"),
        (CRYSTAL % ("hcp", "[Mg]", 3.2), 2, r"constant: is 3.2; allowed is \[a, c\]"),
        ("structures:\n  - crystal: {lattice: fcc}\n" + TEACHER, 2, r"structures\[1\].crystal: has no elements"),
        ("structures:\n  - molecule: water\nteacher: m.yaml\n", 3, "teacher: must be a mapping"),
        (
            "teacher:\n  labels: a.xyz\n  stress_limit: high\n",
            3,
            "teacher.stress_limit: is 'high'; allowed is GPa, up to which the stress of the labels is right",
        ),
        ("structures:\n  - molecule: water\nteacher: {}\n", 3, "must have one of mlff, lammps, ase, labels"),
        (
            "structures:\n  - molecule: water\nteacher:\n  mlff: m\n  types: [H]\n",
            5,
            "types: is not known; allowed are mlff",
        ),
        ("structures:\n  - molecule: water\nteacher:\n  lammps: pair_style sw\n", 4, "lammps: .* a list of commands"),
        ("structures:\n  - molecule: water\nteacher:\n  mlff: m\n  precision: half\n", 5, "one of fp32, fp64, mixed"),
        ("structures:\n  - molecule: water\nteacher:\n  ase: {calculator: mace}\n", 4, "module:function"),
        (
            "structures:\n  - molecule: water\nteacher:\n  ase:\n    calculator: a:b\n    python: none/py\n",
            6,
            "path of a Python",
        ),
        (
            "structures:\n  - molecule: water\nteacher:\n  labels: a\n  keys: {energi: E}\n",
            5,
            "keys.energi: is not known",
        ),
    ],
)
def test_refuses(text, line, words, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError, match=words) as e:
        recipe_structures.read(path)
    assert str(e.value).startswith(f"{path}:{line}: " if line else f"{path}: ")


# Distance of nearest neighbors in units of the constant, their number, and atoms of a cell
SHAPES = {
    "sc": (1.0, 6, 1),
    "bcc": (0.75**0.5, 8, 2),
    "fcc": (0.5**0.5, 12, 4),
    "hcp": (1.0, 12, 2),
    "diamond": (3**0.5 / 4, 4, 8),
    "rocksalt": (0.5, 6, 8),
    "zincblende": (3**0.5 / 4, 4, 8),
    "cscl": (0.75**0.5, 8, 2),
    "beta-tin": ((0.25 + 0.546**2 / 16) ** 0.5, 4, 4),
}


@pytest.mark.parametrize("lattice", lattices.LATTICES)
def test_crystals(lattice):
    distance, number, n_atoms = SHAPES[lattice]
    elements = ["Na", "Cl"][: len(lattices.LATTICES[lattice])]
    constant = [4.0, 4.0 * lattices.C_OVER_A[lattice]] if lattice in lattices.C_OVER_A else 4.0
    s = lattices.crystal(lattice, elements, constant, [2, 1, 3])
    assert len(s["elements"]) == len(s["positions"]) == 6 * n_atoms
    assert all(s["elements"].count(e) == 6 * n_atoms // len(elements) for e in elements)
    i, j, vectors = reference.neighbours(s["positions"], s["cell"], 4.0 * distance + 0.01)
    assert np.bincount(i).tolist() == [number] * len(s["positions"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 4.0 * distance, rtol=1e-12)
    if len(elements) == 2:
        assert all(s["elements"][a] != s["elements"][b] for a, b in zip(i, j))


def test_strained_and_rattled_copies():
    item = {"crystal": {"lattice": "fcc", "elements": ["Al"], "constant": 4.0}, "strain": 0.1, "copies": 40, "seed": 3}
    first, *others = build.build(item, "r, structures[1]")
    assert len(others) == 40
    for f in others:
        strain = np.linalg.inv(first["cell"]) @ f["cell"] - np.eye(3)
        np.testing.assert_allclose(strain, strain.T, atol=1e-14)
        assert 0.005 < np.abs(strain.diagonal()).max() < 0.1 and np.abs(2 * strain[0, 1]) < 0.1
        np.testing.assert_allclose(f["positions"], first["positions"] @ (np.eye(3) + strain), atol=1e-13)
    again = build.build(item, "elsewhere")
    assert all((a["positions"] == b["positions"]).all() for a, b in zip([first, *others], again))
    rattled = build.build({**item, "strain": 0.0, "rattle": 0.2}, "r")[1:]
    moved = np.array([f["positions"] - first["positions"] for f in rattled])
    assert abs(moved.std() - 0.2) < 0.03 and (rattled[0]["cell"] == first["cell"]).all()
    assert len(np.unique(np.round(moved.ravel(), 9))) == moved.size


def test_files_by_pattern_each_once(tmp_path):
    for name in ("b.xyz", "a.xyz", "c.txt"):
        (tmp_path / name).write_text(f"1\nx={name}\nH 0 0 0\n1\n\nH 0 0 1\n")
    names = [re.sub(".*/", "", f["source"]) for f in build.build({"files": ["b.xyz", "*.xyz"]}, "r", str(tmp_path))]
    assert names == ["b.xyz, frame 1", "b.xyz, frame 2", "a.xyz, frame 1", "a.xyz, frame 2"]
    found = build.build({"files": ["b.xyz"], "every": 2}, "r", str(tmp_path))
    assert len(found) == 1
    with pytest.raises(build.FrameError, match="none.*: there is no such file"):
        build.build({"files": ["none*"]}, "r", str(tmp_path))
    with pytest.raises(build.FrameError, match="b.xyz, frame 1 is not periodic and cannot be strained"):
        build.build({"files": ["b.xyz"], "strain": 0.1}, "r", str(tmp_path))
