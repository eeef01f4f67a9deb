"""The repulsion of `mlff convert --repulsion` (kind clamped): its distances, the dimers of the shipped universal
models, the engine against numpy, and what is refused."""

import csv
import os
import re

import helpers
import numpy as np
import pytest
from nightly import NIGHTLY
from references import described

import mlff
from mlff_tools.convert import command as convert
from mlff_tools.convert import short_range
from mlff_tools.model import modelfile, reference, repulsion, selftest, structures

FOLDER = os.path.join(helpers.ROOT, "models")
# Dimers that attract between 0.9 of their cutoff and the cutoff, of 4005.
UNIVERSAL = {"nequix-oam-1-pft": 7, "tensornet-matpes-r2scan": 62, "tensornet-local-matpes-pbe": 45}
# Bond lengths of diatomic molecules, A, and nearest neighbors of crystals, A.
BONDS = """H-H 0.741 N-N 1.098 C-O 1.128 N-O 1.151 O-O 1.208 H-F 0.917 H-O 0.970 H-C 1.06 H-Li 1.595 H-B 1.232 F-F 1.412
    Li-F 1.564 Na-F 1.926 K-F 2.171 Rb-F 2.270 Cs-F 2.345 Li-Li 2.673 Cr-Cr 1.679 Mo-Mo 1.94 V-V 1.77 Nb-Nb 2.078
    Be-O 1.331 Mg-O 1.749 Al-O 1.618 Ti-O 1.620 S-O 1.43 Cl-O 1.40 H-Cl 1.275 C-N 1.16 Ca-O 1.822 U-O 1.75
    P-O 1.43 Si-O 1.510"""
CRYSTALS = """Al-Al 2.856 Cu-Cu 2.553 Ni-Ni 2.486 Pt-Pt 2.772 Li-Li 2.98 Na-Na 3.63 K-K 4.58 Rb-Rb 4.91 Cs-Cs 5.31
    Fe-Fe 2.453 W-W 2.741 C-C 1.545 Si-Si 2.352 Si-C 1.888 Ga-As 2.448 B-N 1.565 Li-F 2.01 Na-Cl 2.82
    Mg-O 2.106 Ca-O 2.405 Ti-N 2.12 Ba-Ba 4.35 Pb-Pb 3.50 U-O 2.37 Be-Be 2.23 V-V 2.60"""


def cutoffs_of(elements):
    head = {"elements": elements, "cutoff": 6.0}
    cutoffs = modelfile.repulsion_cutoffs({**head, "repulsion": short_range.block(head)})
    return {**cutoffs, **{(b, a): r for (a, b), r in cutoffs.items()}}


@pytest.mark.parametrize("text, shorter", ((BONDS, 1.0), (CRYSTALS, 0.87)))
def test_no_bond_is_within(text, shorter):
    """Also crystals whose lattice constant is 13 % shorter, as iron's at 250 and aluminium's at 150 GPa."""
    words = text.split()
    cutoffs = cutoffs_of(sorted({e for pair in words[::2] for e in pair.split("-")}))
    for pair, r in zip(words[::2], map(float, words[1::2])):
        assert shorter * r > cutoffs[tuple(pair.split("-"))], pair


@pytest.mark.parametrize("name", UNIVERSAL)
def test_dimers_push_apart(name):
    """Dimers (a sample of pairs, nightly all): they push apart at and below 0.9 of the cutoff; few attract above."""
    path = os.path.join(FOLDER, name + ".yaml")
    head = modelfile.read_head(path)
    model = mlff.Model(path, self_test=False, domain="ignore", skin=0.1)
    cutoffs = modelfile.repulsion_cutoffs(head)
    pairs = [p for k, p in enumerate(cutoffs) if NIGHTLY or k % 29 == 0]
    reach, n = np.array([cutoffs[p] for p in pairs]), len(pairs)
    side = int(np.ceil(n ** (1 / 3)))
    k = np.arange(n)
    x = np.repeat((model.cutoff + 8.0) * np.stack([k % side, k // side % side, k // side**2], 1), 2, 0)
    u = np.array([0.6, -0.48, 0.64])
    attracts = np.zeros(n, bool)
    for share in (0.0, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, *np.linspace(0.91, 0.995, 11 if NIGHTLY else 3)):
        r = np.maximum(share * reach, 0.301)
        x[1::2] = x[::2] + r[:, None] * u
        force = model.evaluate([e for p in pairs for e in p], x).forces[1::2] @ u
        assert np.isfinite(force).all()
        assert share > 0.9 or (force > 0).all(), [pairs[i] for i in np.nonzero(force <= 0)[0]]
        attracts |= force <= 0
    assert attracts.sum() <= (UNIVERSAL[name] if NIGHTLY else 0.05 * n)


# Fractional coordinates of the cubic cells of the card, by element.
FCC = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
CELLS = {
    "fcc": (FCC,),
    "bcc": (np.array([[0, 0, 0], [0.5, 0.5, 0.5]]),),
    "diamond": (np.concatenate([FCC, FCC + 0.25]),),
    "zincblende": (FCC, FCC + 0.25),
    "rocksalt": (FCC, FCC + 0.5),
    "cscl": (np.zeros((1, 3)), np.full((1, 3), 0.5)),
}


def crystals_of_the_card():
    """(name, elements, positions, cell) of 59 crystals at 0.9, 1 and 1.1 of their lattice constants, displaced."""
    rng = np.random.default_rng(6)
    with open(os.path.join(helpers.ROOT, "benchmarks", "studies", "lattice_constants_pbe.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    for row in rows[:: 1 if NIGHTLY else 4]:
        symbols, parts = re.findall("[A-Z][a-z]?", row["solid"]), CELLS[row["structure"]]
        elements = [e for e, part in zip(symbols, parts) for _ in part]
        for scale in (0.9, 1.0, 1.1):
            a = scale * float(row["haas"])
            x = a * np.concatenate(parts) + 0.03 * rng.standard_normal((len(elements), 3))
            yield row["solid"], elements, x, a * np.eye(3)


@pytest.mark.parametrize("name", UNIVERSAL)
def test_crystals_keep_their_bits(tmp_path, name):
    """Energies, forces and stress with and without the block."""
    head, tensors = modelfile.read(os.path.join(FOLDER, name))
    bare = {key: value for key, value in head.items() if key != "repulsion"}
    modelfile.write(str(tmp_path / "bare"), {**bare, "self_test": selftest.empty(head["architecture"])}, tensors)
    options = {"self_test": False, "domain": "ignore", "precision": "fp64" if NIGHTLY else "fp32"}
    models = [mlff.Model(p, **options) for p in (os.path.join(FOLDER, name + ".yaml"), str(tmp_path / "bare.yaml"))]
    for solid, *structure in crystals_of_the_card():
        with_block, without = (m.evaluate(*structure) for m in models)
        assert with_block.energy == without.energy, solid
        assert with_block.forces.tobytes() == without.forces.tobytes(), solid
        assert with_block.stress.tobytes() == without.stress.tobytes(), solid


def test_clamped_distance():
    r = np.linspace(0.5, 2.5, 401)
    clamped, slope = repulsion.clamp(2.0, r)
    helpers.assert_near(np.gradient(clamped, r)[1:-1], slope[1:-1], 1e-2, "slope")
    assert clamped.min() == 1.9 and (np.diff(clamped) >= 0).all() and (clamped[r >= 2.0] == r[r >= 2.0]).all()


@pytest.mark.parametrize("make", (helpers.tensornet, helpers.nequip, helpers.mace, helpers.painn, helpers.ani))
def test_engine_is_numpy(tmp_path, make):
    """Energies and forces of molecules and boxes with close pairs, and finite differences of numpy's."""
    head, tensors = make()
    head["repulsion"] = {"kind": "clamped", "radii": {"H": 0.9, "C": 0.8, "O": 0.7}, "cutoffs": {"H-O": 1.2}}
    modelfile.write(str(tmp_path / "m"), head, tensors)
    model = mlff.Model(str(tmp_path / "m.yaml"), precision="fp64", self_test=False, domain="ignore")
    for s in (structures.rattled("ethanol", 3), structures.self_test_structures(["H", "C", "O"])[-1]):
        energy, forces, _ = reference.evaluate((head, tensors), s)
        assert reference.is_repelled(head, s)
        found = model.evaluate(s["elements"], s["positions"], s["cell"])
        size = 1 + np.abs(forces).max()
        helpers.assert_near(found.energy, energy, 1e-9 * size, "energy")
        helpers.assert_near(found.forces, forces, 1e-9 * size, "forces")
        x, h = s["positions"], 1e-4
        moved = [reference.evaluate((head, tensors), {**s, "positions": x + np.eye(len(x))[0][:, None] * d})[0]
                 for d in (np.array([h, 0, 0]), np.array([-h, 0, 0]))]  # fmt: skip
        helpers.assert_near((moved[1] - moved[0]) / (2 * h), forces[0, 0], 1e-4 * size, "difference")


# ---- the converter ---------------------------------------------------------------------------------------------------


def source(tmp_path):
    """A description of the shared fixtures."""
    return os.path.join(helpers.PUBLISHED, "tensornet_tiny5.yaml")


def converted(tmp_path, *words):
    path = str(tmp_path / "out")
    arguments = ["tensornet", source(tmp_path), "-o", path, "--no-self-test", *words]
    convert.convert(convert.command_line().parse_args(arguments))
    return modelfile.read_head(path + ".yaml")


published = pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)


@published
def test_converts(tmp_path):
    head = converted(tmp_path, "--repulsion")
    assert head["domain"]["min_distance"] == 0.3 and head["repulsion"]["kind"] == "clamped"
    assert set(head["repulsion"]) == {"kind", "radii"}
    cutoffs = modelfile.repulsion_cutoffs(head)
    assert cutoffs[head["elements"][0], head["elements"][0]] == 2 * head["repulsion"]["radii"][head["elements"][0]]
    assert "--repulsion" in head["provenance"]["code"]
    assert "repulsion" not in converted(tmp_path)


@published
def test_frames(tmp_path):
    """Pairs that are closer in the frames end below their shortest distance; others stay."""
    elements = described("tensornet", "tensornet_tiny5")[0]["elements"]
    a, b = elements[:2]
    reach = cutoffs_of(elements)[a, b]
    near = round(0.7 * reach, 3)
    frames = tmp_path / "frames.xyz"
    frames.write_text(f"2\nfirst\n{a} 0 0 0\n{b} 0 0 {near}\n2\nsecond\n{a} 0 0 0\n{a} 0 0 3.9\n")
    head = converted(tmp_path, "--repulsion", str(frames))
    cutoff = head["repulsion"]["cutoffs"].popitem()[1]
    assert not head["repulsion"]["cutoffs"] and near * 0.98 - 0.001 < cutoff <= near * 0.98
    assert "frames.xyz" in head["provenance"]["code"]


@published
@pytest.mark.parametrize(
    "words, text",
    (
        (["--repulsion", "FRAMES"], "no two atoms of the model's elements are within"),
        (["--repulsion", "none.xyz"], "none.xyz: No such file"),
        (["--repulsion", "--min-distance", "2.0"], "and would never act; use a shorter distance"),
    ),
)
def test_refused(tmp_path, words, text):
    frames = tmp_path / "frames.xyz"
    frames.write_text("2\nfar\nXe 0 0 0\nXe 0 0 3\n")
    words = [str(frames) if w == "FRAMES" else w for w in words]
    found = helpers.refusal(convert.main, ["tensornet", source(tmp_path), "-o", str(tmp_path / "out"), *words])
    assert text in found and found.count("\n") == 1, found
    assert not (tmp_path / "out.yaml").exists()


def test_no_second_one():
    head = {"elements": ["H"], "cutoff": 5.0, "repulsion": {"kind": "nequip", "p": 6.0}}
    with pytest.raises(modelfile.ModelError, match="the model has a repulsion of kind nequip; convert without it"):
        short_range.block(head)
    with pytest.raises(modelfile.ModelError, match="no covalent radius of Cf"):
        short_range.block({"elements": ["H", "Cf"], "cutoff": 5.0})


@pytest.mark.parametrize(
    "block, text",
    (
        ({"radii": {"H": 0.5}}, r"radii has \['H'\], elements are"),
        ({"radii": {"H": 0.5, "C": 0.5, "O": "x"}}, "radii.O is 'x': must be from 0.01 to 10 A"),
        ({"radii": {"H": 0.5, "C": 0.5, "O": 3.0}}, "that add up to 6 A"),
        ({"radii": {"H": 0.5, "C": 0.5, "O": 0.5}, "p": 6}, "repulsion has the keys"),
        ({"radii": {"H": 0.5, "C": 0.5, "O": 0.5}, "cutoffs": {"H-N": 1.0}}, "'N' is not among"),
    ),
)
def test_hostile_blocks(block, text):
    with pytest.raises(modelfile.ModelError, match=text):
        modelfile.repulsion_cutoffs(
            {"elements": ["H", "C", "O"], "cutoff": 4.0, "repulsion": {"kind": "clamped", **block}}
        )
