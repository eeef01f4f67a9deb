"""What labels prove of themselves: energies against the work of forces and stress, scales, keys, copies, sites."""

import functools
import time

import numpy as np
import pytest

from mlff_tools.model.units import GPA
from mlff_tools.train import consistency, copies, dataset, extxyz, labelling, labels
from mlff_tools.train.extxyz import FrameError
from mlff_tools.train.process import TeacherError

DEPTH, WIDTH, REST, REACH = 0.4, 1.6, 2.7, 4.4  # of a Morse potential: eV, 1/A, A, A
FCC = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
GRID = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3)
NEAR = GRID[(np.abs(GRID) < 2).all(1)]  # images that a cell of 6 A and more needs


def morse(x, cell, elements=None):
    """A frame with energy, forces and stress of pairs within REACH, shifted to end there smoothly."""
    shifts = np.zeros((1, 3)) if cell is None else (NEAR if np.linalg.det(cell) > 216 else GRID) @ cell
    v = x[None, :, None] + shifts - x[:, None, None]
    r = np.linalg.norm(v, axis=-1)
    near = (r > 1e-6) & (r < REACH)
    r = np.where(near, r, 1.0)
    e, end = np.exp(-WIDTH * (r - REST)), (1 - (r / REACH) ** 2) ** 2
    pair, slope = DEPTH * (e * e - 2 * e), 2 * DEPTH * WIDTH * (e - e * e)
    slope = np.where(near, slope * end + pair * 2 * (1 - (r / REACH) ** 2) * -2 * r / REACH**2, 0.0)
    forces = (slope / r)[..., None] * v
    virial = 0.5 * np.einsum("ijk,ijka,ijkb->ab", slope / r, v, v)
    found = {"elements": elements or ["Cu"] * len(x), "positions": x, "cell": cell, "atom_energies": None}
    found |= {"energy": -1000.0 + float(0.5 * (pair * end)[near].sum()), "forces": forces.sum((1, 2))}
    found |= {"stress": None if cell is None else virial / abs(np.linalg.det(cell)), "info": {}, "columns": {}}
    return found


def sourced(frames):
    for k, frame in enumerate(frames):
        frame["name"] = frame["source"] = f"a.xyz, frame {k + 1}"
    return frames


def copied(make):
    """make(...) is computed once, and each caller gets frames of its own."""
    made = functools.lru_cache(None)(make)
    fresh = lambda f: {**f, "info": dict(f["info"]), "columns": dict(f["columns"])}
    return functools.wraps(make)(lambda *args, **options: [fresh(f) for f in made(*args, **options)])


@copied
def crystal(n=40, rattle=0.04, strain=0.0, seed=1, size=2):
    """Strained and rattled copies of fcc."""
    rng, out = np.random.default_rng(seed), []
    sites = (np.stack(np.meshgrid(*[np.arange(size)] * 3), -1).reshape(-1, 1, 3) + FCC).reshape(-1, 3) / size
    for _ in range(n):
        e = strain * rng.uniform(-1, 1, (3, 3))
        cell = 3.75 * size * np.eye(3) @ (np.eye(3) + (e + e.T) / 2)
        out.append(morse(sites @ cell + rattle * rng.normal(size=sites.shape), cell))
    return sourced(out)


@copied
def cluster(n=30, rattle=0.04, seed=2):
    rng, x = np.random.default_rng(seed), 2.7 / np.sqrt(2) * np.array([*np.eye(3), *-np.eye(3), [2, 1, 0]])
    return sourced([morse(x + rattle * rng.normal(size=x.shape), None) for _ in range(n)])


def test_the_potential_of_these_tests():
    """Forces and stress are derivatives of its energy."""
    (f,) = crystal(1, 0.1, 0.05, size=1)
    x, cell, h = f["positions"], f["cell"], 1e-5
    for i, a in ((0, 0), (3, 2)):
        move = np.zeros_like(x)
        move[i, a] = h
        slope = (morse(x + move, cell)["energy"] - morse(x - move, cell)["energy"]) / (2 * h)
        assert abs(slope + f["forces"][i, a]) < 1e-6
    for a, b in ((0, 0), (1, 2)):
        e = np.zeros((3, 3))
        e[a, b] = h
        up, down = (morse(x @ (np.eye(3) + s * e), cell @ (np.eye(3) + s * e))["energy"] for s in (1, -1))
        assert abs((up - down) / (2 * h) / abs(np.linalg.det(cell)) - f["stress"][a, b]) < 1e-7


# ---- energies, forces ------------------------------------------------------------------------------------------------

GOOD = {
    "crystal": crystal,
    "with all cells": lambda: crystal(strain=0.02),
    "cells alone": lambda: crystal(rattle=0.0, strain=0.02, size=1),
    "molecule": cluster,
    "several systems": lambda: sourced(crystal(12) + cluster(12) + crystal(12, size=1)),
    "shuffled": lambda: np.random.default_rng(3).permutation(crystal(60)).tolist(),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_labels_pass(name):
    notes = consistency.check(GOOD[name]())
    assert len(notes) <= 1 and all("the stress was not compared" in note for note in notes)
    assert notes == [] or name not in ("cells alone", "molecule")


def test_nearly_conservative_forces_pass():
    """Direct forces: 10 % of noise."""
    frames, rng = crystal(), np.random.default_rng(4)
    for f in frames:
        f["forces"] = f["forces"] + 0.1 * f["forces"].std() * rng.normal(size=f["forces"].shape)
    consistency.check(frames)


RNG = np.random.default_rng(5)
WRONG = {
    "permuted": lambda f: {"forces": RNG.permutation(f["forces"])},
    "rolled": lambda f: {"forces": np.roll(f["forces"], 1, 0)},
    "zero": lambda f: {"forces": 0 * f["forces"]},
    "random": lambda f: {"forces": f["forces"].std() * RNG.normal(size=f["forces"].shape)},
    "shifted": lambda f: {"energy": f["energy"] + 5 * RNG.normal()},
    "both signs": lambda f: {"energy": -f["energy"], "forces": -f["forces"], "stress": None},
    "sign": lambda f: {"forces": -f["forces"]},
    "hartree": lambda f: {"energy": f["energy"] / 27.2114},
    "kcal/mol": lambda f: {"energy": f["energy"] * 23.06},
    "hartree/bohr": lambda f: {"energy": f["energy"] / 27.2114, "forces": f["forces"] / 51.422},
}


@pytest.mark.parametrize("name", ["crystal", "with all cells", "molecule", "several systems"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_energies_and_forces_are_an_error(wrong, name):
    """Also where they fit worst, which no slope shows."""
    frames = [{**f, **WRONG[wrong](f)} for f in GOOD[name]()]
    if name == "with all cells" and wrong == "both signs":
        frames = [{**f, "stress": -g["stress"]} for f, g in zip(frames, GOOD[name]())]
    with pytest.raises(FrameError) as e:
        consistency.check(frames)
    words = {"sign": "wrong sign -1", "both signs": "both have the wrong sign", "hartree": "energies must be in eV"}
    assert words.get(wrong, "a.xyz, frame ") in str(e.value), e.value


def test_both_signs_of_a_path_over_a_saddle_point():
    """Scans along one line have a negative curvature where they may."""
    frames = sourced([morse(np.array([[0, 0, 0], [r, 0, 0]]), None) for r in np.arange(3.3, 3.9, 0.05)])
    assert consistency.pairs(frames).curvature.max() < 0
    assert consistency.check(frames) == []


@pytest.mark.parametrize("frames", [crystal(3), crystal(10, rattle=0.25), cluster(10, rattle=0.5), []])
def test_what_cannot_be_decided_is_said(frames):
    """Too few frames, or frames too far apart."""
    (note,) = consistency.check(frames) if frames else consistency.check_work(frames)[0]
    assert "energies, forces and stress were not compared (5 pairs decide)" in note


# ---- stress ----------------------------------------------------------------------------------------------------------

ORDER = np.array([[0, 1, 2], [1, 0, 2], [0, 2, 1]])
STRESS = {
    "sign": lambda s, v: -s,
    "GPa": lambda s, v: s * GPA,
    "kbar": lambda s, v: -s * GPA * 10,
    "virial": lambda s, v: -s * v,
    "axes": lambda s, v: s[[1, 2, 0]][:, [1, 2, 0]],
    "xy xz yz": lambda s, v: np.array(
        [[s[0, 0], s[1, 2], s[0, 2]], [s[1, 2], s[1, 1], s[0, 1]], [*s[[0, 1], [2, 1]], s[2, 2]]]
    ),
    "zero": lambda s, v: 0 * s,
}


@pytest.mark.parametrize("rattle", [0.0, 0.02])
@pytest.mark.parametrize("wrong", STRESS)
def test_wrong_stress_is_an_error(wrong, rattle):
    frames = crystal(60, rattle, strain=0.03)
    assert consistency.check(frames) == []
    frames = [{**f, "stress": STRESS[wrong](f["stress"], abs(np.linalg.det(f["cell"])))} for f in frames]
    with pytest.raises(FrameError, match="stress"):
        consistency.check(frames)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_force_constants_that_change_with_the_volume_are_no_error(seed):
    """The trapezoidal rule leaves a share of this coupling open, here as large as the work of the stress."""
    frames = crystal(60, 0.1, strain=0.02, seed=seed)
    (_, volume, *_), (_, error, *_) = consistency.factors(consistency.pairs(frames))
    assert abs(volume - 1) < 0.15 and error < consistency.DECIDED
    assert consistency.check(frames) == consistency.check(crystal(60, 0.1, strain=0.02))


@pytest.mark.parametrize(
    "rattle, factor", [(0.1, -1.0), (0.1, 4.0), (0.1, GPA), (0.05, -1.0), (0.05, 2.0), (0.05, 0.5)]
)
def test_wrong_stress_of_rattled_crystals_is_an_error(rattle, factor):
    frames = [{**f, "stress": factor * f["stress"]} for f in crystal(60, rattle, strain=0.02)]
    with pytest.raises(FrameError, match="with the volume of the cell, the energy changes by"):
        consistency.check(frames)


class Volume:
    """The energy A (x^2 / 2 - 10 x^3) of x = ln(V / V0) alone; stress times `factor`."""

    A, identity = 1000.0, {"kind": "test", "name": "volume"}

    def __init__(self, volume, factor=1.0):
        self.volume, self.factor = volume, factor

    def label(self, frames):
        out = []
        for f in frames:
            x = np.log(np.linalg.det(f["cell"]) / self.volume)
            stress = self.factor * self.A * (x - 30 * x * x) * np.eye(3) / np.linalg.det(f["cell"])
            energy = self.A * (x * x / 2 - 10 * x**3)
            forces = np.zeros((len(f["elements"]), 3))
            out.append({"energy": energy, "forces": forces, "stress": stress, "atom_energies": None})
        return out


def test_stress_near_the_volume_of_least_energy():
    """Its work is that of a path, not of the middle, where the stress may vanish. A wrong one is an error there too."""
    f, said = {"elements": ["Al"], "positions": np.zeros((1, 3)), "cell": 4.0 * np.eye(3), "source": "a"}, []
    volume = np.linalg.det(f["cell"] @ (np.eye(3) + labelling.STRAINED))
    for x in (0.0, 1e-4, -1e-4, 3e-4, 0.02):
        near = volume * np.exp(-x)
        assert labelling.stress_ratios(Volume(near), f)[0] == pytest.approx(1.0, abs=1e-3)
        for wrong in (-1.0, 2.5, GPA):
            with pytest.raises(TeacherError, match="times the work of the stress, which should be 1"):
                labelling.check_stress(Volume(near, wrong), [f], said.append)
    assert said == []


def write(path, frames):
    path.write_text("".join(map(extxyz.text, frames)))
    return str(path)


def test_a_stress_beyond_100_gpa_is_confirmed(tmp_path):
    """By the caller, by a key of the frames, which files of labels carry on, or by energies."""
    frames = crystal(3)
    for f in frames:
        f["stress"] = np.eye(3) * 150 / GPA
    path = write(tmp_path / "a.xyz", frames)
    with pytest.raises(FrameError, match="frame 1: a stress of 150 GPa: is it in eV/A.*stress_limit 150"):
        labels.read_labels(path)
    with pytest.raises(FrameError, match="a stress of 150 GPa"):
        labels.read_labels(path, limit=149.0)
    labels.read_labels(path, limit=151.0)
    file = labels.LabelFile(str(tmp_path / "b.xyz"), dict.fromkeys(("kind", "name", "sha256", "versions"), "x"))
    file.append(labels.read_labels(path, limit=151.0))
    file.close()
    assert labels.read_labels(str(tmp_path / "b.xyz"))[0]["info"]["stress_limit"] in ("150", "151")
    pressed = crystal(20, 0.0, 0.02, size=1)
    dense = sourced([morse(0.7 * f["positions"], 0.7 * f["cell"]) for f in pressed])
    assert GPA * np.abs(dense[0]["stress"]).max() > 100
    assert consistency.check(dense) == []


# ---- scales and keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, size", [("hartree", 1.0), ("kcal/mol", 627.51), ("eV", 27.2114), ("eV", 1.0)])
def test_energies_of_all_electrons_tell_their_unit(unit, size):
    """Water in hartree or kcal/mol, with forces of the same unit; eV, and energies relative to something, pass."""
    rng, frames = np.random.default_rng(1), []
    x = np.array([[0, 0, 0.12], [0, 0.763, -0.477], [0, -0.763, -0.477]])
    for k in range(3):
        f = morse(x + 0.01 * rng.normal(size=x.shape), None, ["O", "H", "H"])
        frames.append({**f, "energy": (-76.4 if (unit, size) != ("eV", 1.0) else -0.5) * size - 1e-3 * k})
    if unit == "eV":
        assert len(consistency.check(sourced(frames))) == 1
    else:
        with pytest.raises(FrameError, match=f"all electrons in {unit}: energies must be in eV"):
            consistency.check(sourced(frames))


def test_energies_of_elements_of_several_formulas():
    free = {"C": -37.8, "H": -0.49}
    frames = [
        {"elements": ["C"] * c + ["H"] * h, "energy": free["C"] * c + free["H"] * h - 0.2} for c, h in ((1, 4), (2, 6))
    ]
    with pytest.raises(FrameError, match="an atom of C .* all its electrons in hartree"):
        consistency.check_sums(sourced(frames))
    consistency.check_sums(sourced([{**f, "energy": 27.2114 * f["energy"]} for f in frames]))


def test_keys_that_look_like_labels_are_named(tmp_path):
    frames = crystal(2)
    for f in frames:
        f["info"] = {"virials": '"1 0 0 0 1 0 0 0 1"', "REF_energy": "-1", "config_type": "a", "stress_limit": "5"}
        f["columns"] = {"dft_forces": ("R", ["1 2 3"] * 32), "move": ("L", ["T"] * 32)}
    notes = []
    labels.read_labels(write(tmp_path / "a.xyz", frames), notes=notes)
    assert "not used, though named like labels: virials, REF_energy, dft_forces (--keys" in notes[0] and len(notes) == 2


# ---- copies ----------------------------------------------------------------------------------------------------------


def turned(rng):
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return q * np.sign(np.linalg.det(q))


def permuted(f, rng):
    order = rng.permutation(len(f["elements"]))
    return {"positions": f["positions"][order], "elements": [f["elements"][k] for k in order]}


CHANGES = {
    "wrapped": lambda f, rng: {"positions": f["positions"] + rng.integers(-2, 3, f["positions"].shape) @ f["cell"]},
    "shifted": lambda f, rng: {"positions": f["positions"] + [7.3, -1.1, 0.4]},
    "permuted": permuted,
    "rotated": lambda f, rng: (lambda q: {"positions": f["positions"] @ q, "cell": f["cell"] @ q})(turned(rng)),
    "mirrored": lambda f, rng: {"positions": -f["positions"], "cell": -f["cell"]},
    "moved": lambda f, rng: {"positions": f["positions"] + 1e-4 * rng.normal(size=f["positions"].shape)},
    "other vectors": lambda f, rng: {"cell": np.array([[1, 0, 0], [2, 1, 0], [-1, 1, 1]]) @ f["cell"]},
}


def of_two_elements(n=12, strain=0.03):
    frames = crystal(n, 0.05, strain)
    return [
        {**f, "elements": ["Cu", "Au"] * 16, "info": {"split": "test" if k == 7 else "train"}}
        for k, f in enumerate(frames)
    ]


@pytest.mark.parametrize("change", [*CHANGES, "all"])
def test_a_copy_in_the_test_set_is_an_error(change, tmp_path):
    rng, frames = np.random.default_rng(8), of_two_elements()
    labels.check_structures(frames)
    copy = frames[2]
    for one in CHANGES.values() if change == "all" else [CHANGES[change]]:
        copy = {**copy, **one(copy, rng)}
    copy = {**copy, "info": {"split": "test"}, "source": "b.xyz, frame 1"}
    with pytest.raises(FrameError, match="b.xyz, frame 1, for the test, is a copy of a.xyz, frame 3"):
        labels.check_structures([*frames, copy])
    labels.check_structures([*frames, {**copy, "info": {"split": "train"}}])


def test_copies_of_molecules():
    rng, frames = np.random.default_rng(8), cluster(20)
    frames = [{**f, "elements": ["C", "C", "H", "H", "H", "N", "O"], "info": {}} for f in frames]
    q = turned(rng)
    copy = {**frames[4], "positions": frames[4]["positions"] @ q + 9.0, "info": {"split": "test"}, "source": "b"}
    with pytest.raises(FrameError, match="b, for the test, is a copy of a.xyz, frame 5"):
        labels.check_structures([*frames, copy])


def test_neighbours_in_time_are_no_copies():
    """Steps of 1 fs at 100 K: 2e-3 A an atom."""
    rng, f = np.random.default_rng(9), of_two_elements(1)[0]
    speed = 2e-3 * rng.normal(size=f["positions"].shape)
    frames = [{**f, "positions": f["positions"] + k * speed} for k in range(20)]
    assert copies.find(frames, [k % 2 == 0 for k in range(20)]) == []
    dimers = [
        {**f, "cell": None, "elements": ["H"] * 2, "positions": np.array([[0, 0, 0], [0.7 + 1e-4 * k, 0, 0]])}
        for k in range(9)
    ]
    assert copies.find(dimers, [k % 2 == 0 for k in range(9)]) == []


def test_copies_are_dealt_out_together():
    """Frames without a split: those that are copies of each other come to one side."""
    frames = of_two_elements(30)
    for f in frames:
        f["info"] = {}
    frames[9] = {**frames[0], "positions": frames[0]["positions"] + 1.0, "source": "b"}  # the tenth is for the test
    data = dataset.from_labels(frames)
    assert dataset.frames_of(data, "test").tolist() == [19, 29]
    frames[0]["info"], frames[9]["info"] = {"split": "train"}, {"split": "test"}
    with pytest.raises(FrameError, match="b, for the test, is a copy of a.xyz, frame 1"):
        dataset.from_labels(frames)


def test_copies_among_thousands_are_found_fast():
    """1000 frames of 32 atoms with one pair: seconds."""
    rng, base = np.random.default_rng(1), crystal(1, 0.05)[0]
    frames = [{**base, "positions": base["positions"] + 0.1 * rng.normal(size=(32, 3))} for _ in range(1000)]
    frames[999] = {**frames[77], **permuted(frames[77], rng)}
    begin = time.process_time()
    assert copies.find(frames, [k >= 700 for k in range(1000)]) == [(999, 77)]
    assert time.process_time() - begin < 10


# ---- what structures say besides -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, good",
    [('{"0": {"Al": 0.5, "Ni": 0.5}}', False), ('{"0": {"Al": 0.9}}', False), ('{"0": {"Al": 1.0}}', True)],
)
def test_sites_that_are_partly_occupied(text, good):
    frames = crystal(1)
    frames[0]["info"]["occupancy"] = extxyz.quoted(text)
    if good:
        labels.check_structures(frames)
    else:
        with pytest.raises(FrameError, match="frame 1: sites are partly occupied"):
            labels.check_structures(frames)


def test_charges_and_moments_are_found():
    frames = crystal(3, size=1)
    assert labels.states(frames) == {}
    frames[0]["columns"]["initial_magmoms"] = ("R", ["0.0"] * 4)
    frames[1]["columns"]["initial_charges"] = ("R", ["0", "0", "-1.5", "0"])
    frames[2]["info"]["charge"] = "1"
    assert {name: f["source"][-1] for name, f in labels.states(frames).items()} == {
        "initial_charges": "2",
        "charge": "3",
    }
