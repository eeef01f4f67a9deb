"""Labelled frames as extended XYZ: exact round trips, what others write, and what is refused."""

import re

import numpy as np
import pytest

from mlff_tools.train import extxyz, labels
from mlff_tools.train.extxyz import FrameError

RNG = np.random.default_rng(5)
ODD = 'Lattice="4.4 0 0 .5 4.1 0 -.3 .6 4e0" Properties=species:S:1:pos:R:3:magmom:R:1:move:L:3:forces:R:3:tag:I:1 '
ODD += 'energy=-1.5 pbc="T T T" config_type=slab note="a \\"b\\" c=d" flag list=[1, 2] old={3 4} '
ODD += 'virial="1 .5 0 .5 2 0 0 0 3"'


def frame(n=4, cell=True, **more):
    out = {
        "elements": ["H", "O", "Si", "Cl"][:n],
        "positions": RNG.normal(size=(n, 3)) * 10.0 ** RNG.integers(-12, 12, (n, 3)),
        "cell": RNG.normal(size=(3, 3)) * 5 if cell else None,
        "energy": -2061.9139954290754,
        "forces": RNG.normal(size=(n, 3)) / 3,
        "stress": None,
        "atom_energies": RNG.normal(size=n),
        "info": {"name": '"a frame"', "flag": None, "t": "300"},
        "columns": {"tag": ("I", [str(k) for k in range(n)])},
        "source": "here",
    }
    if cell:
        s = RNG.normal(size=(3, 3))
        out["stress"] = s + s.T
    return {**out, **more}


def read(text, tmp_path, names=None):
    path = tmp_path / "frames.xyz"
    path.write_text(text)
    return extxyz.read(str(path), names)


@pytest.mark.parametrize("cell", [True, False])
def test_comes_back_bit_for_bit(cell, tmp_path):
    frames = [frame(n, cell) for n in (1, 2, 4)]
    text = "".join(map(extxyz.text, frames))
    found = read(text, tmp_path)
    assert len(found) == 3
    for a, b in zip(frames, found):
        for key in ("positions", "cell", "energy", "forces", "stress", "atom_energies"):
            assert (a[key] is None) == (b[key] is None), key
            if a[key] is not None:
                assert np.asarray(a[key]).tobytes() == np.asarray(b[key]).tobytes(), key
        assert (a["elements"], a["info"], a["columns"]) == (b["elements"], b["info"], b["columns"])
        assert b["name"] == "a frame"
    assert "".join(map(extxyz.text, found)) == text


def test_what_others_write(tmp_path):
    rows = "H 0 0 1e-3 0.5 T F T 1 2 3 7\nO 0 1 2 -.5 T T T -1 -2 -3 8\n"
    (f,) = read(f"2\n{ODD}\n{rows}\n\n", tmp_path)
    assert f["energy"] == -1.5 and f["forces"].tolist() == [[1, 2, 3], [-1, -2, -3]]
    volume = abs(np.linalg.det(f["cell"]))
    np.testing.assert_allclose(f["stress"], -np.array([[1, 0.5, 0], [0.5, 2, 0], [0, 0, 3]]) / volume, rtol=1e-15)
    assert f["columns"]["move"] == ("L", ["T F T", "T T T"])
    assert extxyz.plain(f["info"]["note"]) == 'a "b" c=d'
    assert (f["info"]["flag"], f["info"]["list"], f["info"]["old"]) == (None, "[1, 2]", "{3 4}")
    (again,) = read(extxyz.text(f), tmp_path)
    assert (again["info"], again["columns"]) == (f["info"], f["columns"])
    np.testing.assert_array_equal(again["stress"], f["stress"])


def test_stress_of_six_numbers_is_in_the_order_of_ase(tmp_path):
    (f,) = read('1\nLattice="3 0 0 0 3 0 0 0 3" stress="1 2 3 4 5 6"\nH 0 0 0\n', tmp_path)
    assert f["stress"].tolist() == [[1, 6, 5], [6, 2, 4], [5, 4, 3]]


def test_plain_xyz_and_boxes_around_molecules(tmp_path):
    a, b = read('1\n i = 3, E = -17.2 it"s\nH 0 0 0\n1\nLattice="9 0 0 0 9 0 0 0 9" pbc="F F F"\nH 0 0 0\n', tmp_path)
    assert a["energy"] is None and a["cell"] is None and b["cell"] is None
    assert b["info"]["Lattice"] == '"9 0 0 0 9 0 0 0 9"' and ' Lattice="9 0' in extxyz.text(b)
    assert read(extxyz.text(a) + extxyz.text(b), tmp_path)[1]["info"] == b["info"]


def test_labels_under_other_names(tmp_path):
    text = "1\nProperties=species:S:1:pos:R:3:forces:R:3:REF_forces:R:3 energy=1 REF_energy=2\nH 0 0 0 1 1 1 2 2 2\n"
    (f,) = read(text, tmp_path, {"energy": "REF_energy", "forces": "REF_forces"})
    assert f["energy"] == 2.0 and f["forces"].tolist() == [[2, 2, 2]]
    (again,) = read(extxyz.text(f), tmp_path)
    assert again["energy"] == 2.0 and again["forces"].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "holds no frame"),
        ("two\n\nH 0 0 0\n", "number of atoms"),
        ("0\n\n", "number of atoms"),
        ("2\n\nH 0 0 0\n", "ends after 1 of 2"),
        ("1\n\nH 0 0\n", "3 of 4 columns"),
        ("1\n\nQq 0 0 0\n", "'Qq' is not a chemical symbol"),
        ("1\n\nH 0 nan 0\n", "pos of atom 1 is 'nan', not a finite number"),
        ("1\n\nH 0 1,5 0\n", "not a number"),
        ("1\nenergy=inf\nH 0 0 0\n", "energy holds NaN or infinity"),
        ("1\nenergy=-1 energy=-1\nH 0 0 0\n", "this key occurs twice"),
        ('1\nenergy="-1\nH 0 0 0\n', "comment line cannot be read"),
        ('1\npbc="T T F" Lattice="9 0 0 0 9 0 0 0 9"\nH 0 0 0\n', "periodic in all directions or in none"),
        ('1\npbc="T T T"\nH 0 0 0\n', "pbc without Lattice"),
        ('1\nLattice="9 0 0 0 9 0"\nH 0 0 0\n', "must be nine numbers"),
        ('1\nLattice="9 0 0 0 9 0 9 9 0"\nH 0 0 0\n', "span no volume"),
        ('1\nLattice="9 0 0 0 9 0 0 0 9" stress="1 2 3 4 5 6 7 8 9"\nH 0 0 0\n', "not symmetric"),
        ('1\nLattice="9 0 0 0 9 0 0 0 9" virial="1 2 3 4 5 6"\nH 0 0 0\n', "6 numbers instead of 9"),
        (
            '1\nLattice="1 0 0 0 1 0 0 0 2" stress="1 0 0 0 1 0 0 0 1" virial="1 0 0 0 1 0 0 0 1"\nH 0 0 0\n',
            "contradict",
        ),
        ("1\nProperties=species:S:1:pos:R:3:forces:R:2\nH 0 0 0 1 1\n", "forces has 2 columns of R instead of 3 of R"),
        ("1\nProperties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 1 1\n", "6 of 7 columns"),
        ("1\nProperties=species:S:1:pos:R\nH 0 0 0\n", "triples"),
    ],
)
def test_refuses(text, words, tmp_path):
    before = "1\n\nH 0 0 9\n" if text else ""
    with pytest.raises(FrameError, match=words) as e:
        read(before + text, tmp_path)
    assert not text or re.search(r"frames.xyz:[456]: ", str(e.value))


def test_refuses_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(FrameError, match="No such file"):
        extxyz.read(str(tmp_path / "none.xyz"))
    (tmp_path / "b.xyz").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FrameError, match="the file is not text"):
        extxyz.read(str(tmp_path / "b.xyz"))


# ---- what is wrong with labels as a whole ----------------------------------------------------------------------------


def water(k=0, energy=-1.0):
    x = np.array([[0, 0, 0.12], [0, 0.763, -0.477], [0, -0.763, -0.477]]) + 0.1 * k
    f = {"elements": ["O", "H", "H"], "positions": x, "cell": None, "energy": energy, "forces": np.zeros((3, 3))}
    return {**f, "stress": None, "atom_energies": None, "info": {}, "columns": {}, "source": f"a, frame {k + 1}"}


def test_duplicates_and_contradictions():
    labels.check_structures([water(0), water(1)])
    with pytest.raises(FrameError, match="b, frame 7 is the same structure as a, frame 1: take one"):
        labels.check_structures([water(), water(1), {**water(), "source": "b, frame 7"}])
    with pytest.raises(FrameError, match="with another energy"):
        labels.check_structures([water(), water(energy=-1.1)])
    near = water()
    near["positions"] = near["positions"] + 1e-9
    with pytest.raises(FrameError, match="same structure"):
        labels.check_structures([water(), near])
    with pytest.raises(FrameError, match="a, frame 1: element H is not one of C O"):
        labels.check_structures([water()], ["C", "O"])


def test_labels_must_be_there(tmp_path):
    (tmp_path / "a.xyz").write_text("1\nREF_energy=2 Properties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 1 1 1\n")
    with pytest.raises(FrameError, match="frame 1: has no energy; there is REF_energy: name it"):
        labels.read_labels(str(tmp_path / "a.xyz"))
    (tmp_path / "a.xyz").write_text("1\nenergy=2\nH 0 0 0\n")
    with pytest.raises(FrameError, match="has no forces"):
        labels.read_labels(str(tmp_path / "a.xyz"))
