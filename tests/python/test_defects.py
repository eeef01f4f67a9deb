"""Stackings, planar faults, interstitials and holes of crystals: coordination, volume, distances."""

import numpy as np
import pytest

from mlff_tools.model import reference
from mlff_tools.train import build, defects, lattices
from mlff_tools.train.extxyz import FrameError

A = 4.0
HCP = [A, A * (8 / 3) ** 0.5]
NEAREST = {"fcc": 0.5**0.5, "hcp": 1.0, "bcc": 0.75**0.5, "diamond": 3**0.5 / 4, "zincblende": 3**0.5 / 4}
NEAREST["rocksalt"] = 0.5
BULK = {"fcc": 12, "hcp": 12, "bcc": 8, "diamond": 4, "zincblende": 4, "rocksalt": 6}


def of(lattice):
    """(elements, constant)"""
    return ["Na", "Cl"][: len(lattices.LATTICES[lattice])], HCP if lattice == "hcp" else A


def neighbors(frame, cutoff):
    """[N] numbers of neighbors, and all distances."""
    i, _, d = reference.neighbours(frame["positions"], frame["cell"], cutoff)
    return np.bincount(i, minlength=len(frame["elements"])), np.linalg.norm(d, axis=1)


def per_atom(frame):
    return abs(np.linalg.det(frame["cell"])) / len(frame["elements"])


def crystal(lattice, n=3):
    return lattices.crystal(lattice, *of(lattice), (n, n, n))


@pytest.mark.parametrize("lattice", defects.STACKED)
@pytest.mark.parametrize("sequence", ["AB", "ABC", "ABAC", "ABCABCBACB"])
def test_stackings(lattice, sequence):
    """The first shell of a perfect crystal; atoms at sqrt(8/3) of the distance only next to hexagonal planes."""
    elements, constant = of(lattice)
    f = defects.stacking(lattice, elements, constant, sequence, (2, 3))
    near = NEAREST[lattice] * A
    double = lattice in ("diamond", "zincblende")
    assert len(f["elements"]) == 6 * len(sequence) * (1 + double)
    assert per_atom(f) == pytest.approx(per_atom(lattices.crystal(lattice, elements, constant)))
    numbers, distances = neighbors(f, 1.01 * near)
    assert set(numbers) == {BULK[lattice]} and distances == pytest.approx(near)
    hexagonal = sum(sequence[k - 1] == sequence[(k + 1) % len(sequence)] for k in range(len(sequence)))
    planes = near if not double else near * (8 / 3) ** 0.5
    numbers, distances = neighbors(f, 1.01 * planes * (8 / 3) ** 0.5)
    apart = np.abs(distances - planes * (8 / 3) ** 0.5) < 1e-6
    assert apart.sum() == 2 * 6 * hexagonal * (1 + double)


def test_sequences_that_are_none():
    for sequence in ("", "A", "ABA", "ABBA", "ABX"):
        with pytest.raises(FrameError, match="must be letters A, B and C"):
            defects.stacking("fcc", ["Al"], A, sequence)


def test_twins():
    a, b = defects.twin("fcc", ["Al"], A, 3), defects.stacking("fcc", ["Al"], A, "ABCACB")
    assert (a["positions"] == b["positions"]).all() and (a["cell"] == b["cell"]).all()


@pytest.mark.parametrize("lattice, plane", defects.PLANES)
def test_faults(lattice, plane):
    """A lattice vector leaves the crystal perfect, a Shockley partial its first shell; other shifts change it."""
    elements, constant = of(lattice)
    perfect, near = lattices.crystal(lattice, elements, constant), NEAREST[lattice] * A
    for shift in (0, 1, 0.5, [0.3, 0.2], [1, -1]):
        f = defects.sheared(lattice, elements, constant, plane, 6, shift, (2, 3))
        assert per_atom(f) == pytest.approx(per_atom(perfect)) and f["cell"][0, 1] == f["cell"][1, 2] == 0
        one = defects.sheared(lattice, elements, constant, plane, 6, shift)
        assert defects.area(f) == pytest.approx(6 * defects.area(one))
        height = per_atom(f) * len(one["elements"]) / 6 / defects.area(one)
        assert f["cell"][2, 2] == pytest.approx(6 * height)
        numbers, distances = neighbors(f, 1.01 * near)
        is_first = distances.min() == pytest.approx(near) and set(numbers) == {BULK[lattice]}
        assert is_first == (shift in (0, 1, [1, -1])) or (lattice, plane) == ("rocksalt", "100")


@pytest.mark.parametrize("lattice, plane", defects.PLANES)
def test_faults_to_label_keep_a_distance(lattice, plane):
    """Shifts that lay atoms on each other open the crystal along the normal, by no more than is needed."""
    elements, constant = of(lattice)
    given = {"lattice": lattice, "elements": elements, "constant": constant, "plane": plane, "layers": 6}
    item = {"fault": {**given, "shift": "random", "number": 40}, "seed": 3}
    least, opened = 0.8 * NEAREST[lattice] * A, 0
    for f, shift in zip(build.MAKERS["fault"](item), np.random.default_rng(3).random((40, 2)), strict=True):
        rigid = defects.sheared(shift=shift, size=(2, 2), **given)
        was, now = (neighbors(frame, 2 * least)[1].min() for frame in (rigid, f))
        assert (f["positions"] == rigid["positions"]).all() and (f["cell"][:2] == rigid["cell"][:2]).all()
        assert now == pytest.approx(max(was, least)) and (f["cell"][2] >= rigid["cell"][2]).all()
        opened += was < least
    assert opened >= (lattice in ("diamond", "zincblende"))


@pytest.mark.parametrize(
    "lattice, plane, layers, sequence",
    [
        ("fcc", "111", 6, "ABCABCBCABCACABCAB"),
        ("diamond", "111", 6, "ABCABCBCABCACABCAB"),
        ("hcp", "0001", 3, "ABABABCACACABCBCBC"),
    ],
)
def test_intrinsic_faults_are_sequences(lattice, plane, layers, sequence):
    """ABCABC and its copies moved by a partial: BCABCA, CABCAB."""
    elements, constant = of(lattice)
    a = defects.sheared(lattice, elements, constant, plane, layers, 1)
    b = defects.stacking(lattice, elements, constant, sequence)
    shell = lambda f: np.sort(neighbors(f, 6.0)[1])
    np.testing.assert_allclose(np.sort(np.tile(shell(a), 3)), shell(b), atol=1e-9)


def test_holes():
    """Radii in units of the constant, and the atoms that touch the hole."""
    known = {"fcc": [(0.5, 6), (0.433, 4)], "bcc": [(0.559, 4)], "hcp": [(0.7071, 6), (0.6124, 4)]}
    for lattice, wanted in known.items():
        found = defects.holes(crystal(lattice))
        assert [n for _, _, n in found] == [n for _, n in wanted]
        assert [r / A for r, _, _ in found] == pytest.approx([r for r, _ in wanted], abs=2e-4)
    assert defects.holes(crystal("diamond"))[0][0] == pytest.approx(0.433 * A, abs=1e-3)
    open_one = crystal("fcc")
    open_one = {**open_one, "elements": open_one["elements"][1:], "positions": open_one["positions"][1:]}
    x = defects.largest_hole(open_one)
    assert np.linalg.norm(x - np.round(x / (3 * A)) * 3 * A) < 0.01  # the vacancy at the origin


def test_interstitials(monkeypatch):
    """Distance of the two atoms of dumbbells and crowdions, and of atoms in holes to their neighbors."""
    for lattice in ("fcc", "bcc", "diamond"):
        for kind in (*defects.DUMBBELLS, "crowdion", "hole"):
            pushed = neighbors(defects.interstitial(crystal(lattice), kind), A)[1].min()
            assert pushed > defects.SPLIT * NEAREST[lattice] * A - 1.01 * defects.CLOSE, (lattice, kind)
    monkeypatch.setattr(defects, "PUSHES", 0)
    for lattice in ("fcc", "bcc", "diamond"):
        whole, near = crystal(lattice), NEAREST[lattice] * A
        for kind in defects.DUMBBELLS:
            f = defects.interstitial(whole, kind)
            middle = (f["positions"][0] + f["positions"][-1]) / 2
            apart = f["positions"][-1] - f["positions"][0]
            assert len(f["elements"]) == len(whole["elements"]) + 1 == len(f["positions"])
            np.testing.assert_allclose(middle, whole["positions"][0], atol=1e-12)
            np.testing.assert_allclose(
                apart, defects.SPLIT * near * np.array([*map(int, kind)]) / sum(map(int, kind)) ** 0.5
            )
        assert neighbors(defects.interstitial(whole, "crowdion"), near)[1].min() == pytest.approx(near / 2)
    radii = {("fcc", "octahedral"): 0.5, ("fcc", "tetrahedral"): 0.433, ("bcc", "octahedral"): 0.5}
    radii.update({("bcc", "tetrahedral"): 0.559, ("diamond", "tetrahedral"): 0.433, ("bcc", "hole"): 0.559})
    radii["diamond", "hexagonal"] = 11**0.5 / 8
    for (lattice, kind), radius in radii.items():
        assert neighbors(defects.interstitial(crystal(lattice), kind), A)[1].min() / A == pytest.approx(
            radius, abs=1e-3
        )
    with pytest.raises(FrameError, match="no octahedral holes"):
        defects.interstitial(crystal("diamond"), "octahedral")
    with pytest.raises(FrameError, match="allowed are 100, 110"):
        defects.interstitial(crystal("diamond"), "112")


def test_interstitials_of_other_elements():
    salt = crystal("rocksalt", 2)
    f = defects.interstitial(salt, "111", "Cl")
    assert f["elements"].count("Cl") == 33 and f["elements"][-1] == "Cl"
    moved = np.flatnonzero(np.linalg.norm(f["positions"][:-1] - salt["positions"], axis=1))
    assert [salt["elements"][k] for k in moved] == ["Cl"]
    assert defects.interstitial(crystal("bcc"), "octahedral", "C")["elements"][-1] == "C"
