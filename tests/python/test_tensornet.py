"""TensorNet: numpy and the engine against matgl in float64, and what the converter refuses. Mistakes that give
plausible results (the traps T of tests/README.md) show in these references.
"""

import json
import os

import helpers
import numpy as np
import pytest

import mlff
from mlff_tools.convert import command as convert
from mlff_tools.convert import tensornet as convert_tensornet
from mlff_tools.model import modelfile, reference, reference_tensornet
from mlff_tools.model.modelfile import ModelError

TINY = ("tensornet_tiny5", "tensornet_tiny5c", "tensornet_tiny7", "tensornet_tiny7n")
REAL = (
    "tensornet-matpes-pbe",
    "tensornet-matpes-r2scan",
    "tensornet-local-matpes-pbe",
    "tensornet-local-matpes-r2scan",
)
PAIRS = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
published = pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)


def described(name):
    path = os.path.join(helpers.PUBLISHED, name + ".yaml")
    return convert.read_description(path, "tensornet")


def references(name, most):
    """(structure, reference) of a model, of at most `most` atoms."""
    file = name + "_reference.json" if name in TINY else "tensornet_reference.json"
    with open(os.path.join(helpers.PUBLISHED, file), encoding="utf-8") as f:
        for structure in json.load(f)["structures"].values():
            if name in structure["models"] and len(structure["symbols"]) <= most:
                yield structure, structure["models"][name]


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """name -> path of the model file."""

    def make(name):
        path = folder / (name + ".yaml")
        if not path.exists():
            words = ["tensornet", os.path.join(helpers.PUBLISHED, name + ".yaml"), "-o", str(folder / name)]
            arguments = convert.command_line().parse_args([*words, "--no-self-test", "--min-distance", "0.3"])
            convert.convert(arguments)
        return str(path)

    folder = tmp_path_factory.mktemp("tensornet")
    return make


def stress_of(virial, cell):
    return -virial / abs(np.linalg.det(cell))


@published
@pytest.mark.parametrize("name", TINY + REAL)
def test_numpy(name):
    source, tensors = described(name)
    model = convert_tensornet.described_model(source, tensors, name)
    modelfile.check(*model)
    for key, tensor in model[1].items():
        assert tensor.tobytes() == tensors[convert_tensornet.RENAMED.get(key, key)].tobytes()
    n = 0
    for s, expected in references(name, 24):
        if any(s["pbc"]) and not all(s["pbc"]):
            continue
        cell = np.array(s["cell"]) if any(s["pbc"]) else None
        structure = {"elements": s["symbols"], "positions": np.array(s["positions"]), "cell": cell}
        energy, forces, virial = reference.evaluate(model, structure)
        assert abs(energy - expected["energy"]) <= 1e-12 * max(1.0, abs(expected["energy"]))
        assert np.abs(forces - np.reshape(expected["forces"], (-1, 3))).max() <= 1e-11
        if cell is not None:
            stress = np.array([expected["stress"][a][b] for a, b in PAIRS])
            assert np.abs(stress_of(virial, cell) - stress).max() <= 1e-13
        n += 1
    assert n > 3


def permuted(tensors, name):
    """[F][3] as [3][F]."""
    for kind in ("weight", "bias"):
        t = tensors[f"{name}.{kind}"]
        tensors[f"{name}.{kind}"] = t.reshape(-1, 3, *t.shape[1:]).swapaxes(0, 1).reshape(t.shape)


def exchanged(tensors, one, other):
    tensors[one], tensors[other] = tensors[other], tensors[one]


def without_last(monkeypatch):
    init = reference_tensornet._Mlp.__init__
    monkeypatch.setattr(reference_tensornet._Mlp, "__init__", lambda s, w, n, k, act, _: init(s, w, n, k, act, False))


def shorter_readout(monkeypatch):
    init = reference_tensornet._Mlp.__init__
    wrong = lambda s, w, name, n, act, last: init(s, w, name, 3 if name.startswith("readout") else n, act, last)
    monkeypatch.setattr(reference_tensornet._Mlp, "__init__", wrong)


def linear_of(monkeypatch, wrong):
    monkeypatch.setattr(reference_tensornet._Weights, "linear", wrong)


def plain_linear(weights, name, x):
    bias = 0.0 if name.startswith("embedding.radial") else weights.t[name + ".bias"]
    return x @ weights.t[name + ".weight"].T + bias


def cutoff_of(monkeypatch, value):
    basis = reference_tensornet.radial_basis

    def wrong(*args):
        g, dg, fc, dfc = basis(*args)
        return g, dg, value(fc), dfc

    monkeypatch.setattr(reference_tensornet, "radial_basis", wrong)


def rooted(monkeypatch):
    dot = reference_tensornet._dot
    wrong = lambda x, y: np.sqrt(dot(x, y)) if x is y else dot(x, y)
    monkeypatch.setattr(reference_tensornet, "_dot", wrong)


def unnormalized_skip(monkeypatch):
    forward = reference_tensornet._Layer.forward
    monkeypatch.setattr(reference_tensornet._Layer, "forward", lambda s, x: forward(s, x) + x - x / s.n)


# trap: fixture, the mistake
MISTAKES = {
    "T1": ("tensornet_tiny5", lambda h, t, m: h["tensornet"].update(message_from="center")),
    "T1 reversed": ("tensornet_tiny5c", lambda h, t, m: h["tensornet"].update(message_from="neighbor")),
    "T2": ("tensornet_tiny5", lambda h, t, m: exchanged(t, "embedding.pair.center", "embedding.pair.neighbor")),
    "T3": ("tensornet_tiny7", lambda h, t, m: t.update({k: -v for k, v in t.items() if "radial.A" in k})),
    "T4": ("tensornet_tiny5", lambda h, t, m: rooted(m)),
    "T5": ("tensornet_tiny5", lambda h, t, m: unnormalized_skip(m)),
    "T6": ("tensornet_tiny5", lambda h, t, m: permuted(t, "embedding.scalar.1")),
    "T6 of messages": ("tensornet_tiny5", lambda h, t, m: permuted(t, "layers.1.radial.2")),
    "T7": ("tensornet_tiny5", lambda h, t, m: without_last(m)),
    "T8": ("tensornet_tiny5", lambda h, t, m: linear_of(m, plain_linear)),
    "T9": ("tensornet_tiny5", lambda h, t, m: cutoff_of(m, np.ones_like)),
    "T10": ("tensornet_tiny5", lambda h, t, m: shorter_readout(m)),
    "T13": ("tensornet_tiny5", lambda h, t, m: h.update(cutoff=float(np.float32(h["cutoff"])))),
    "group": ("tensornet_tiny7", lambda h, t, m: h["tensornet"].update(group="o3")),
}


@published
@pytest.mark.parametrize("trap", MISTAKES)
def test_mistake(monkeypatch, trap):
    """The references show each of these."""
    name, mistake = MISTAKES[trap]
    source, tensors = described(name)
    model = convert_tensornet.described_model(source, tensors, name)
    mistake(*model, monkeypatch)
    largest = 0.0
    for s, expected in references(name, 24):
        if all(s["pbc"]) or not any(s["pbc"]):
            cell = np.array(s["cell"]) if any(s["pbc"]) else None
            structure = {"elements": s["symbols"], "positions": np.array(s["positions"]), "cell": cell}
            energy = reference.evaluate(model, structure)[0]
            largest = max(largest, abs(energy - expected["energy"]) / len(s["symbols"]))
    assert largest > 1e-9


@published
@pytest.mark.parametrize("precision, energy, force", [("fp64", 1e-12, 1e-11), ("fp32", 5e-6, 5e-5)])
@pytest.mark.parametrize("name", TINY + REAL)
def test_engine(converted, name, precision, energy, force):
    model = mlff.Model(converted(name), device="cpu", precision=precision, domain="ignore")
    n = 0
    for s, expected in references(name, 24 if precision == "fp64" else 192):
        cell = np.array(s["cell"]) if any(s["pbc"]) else None
        found = model.evaluate(s["symbols"], np.array(s["positions"]), cell, s["pbc"])
        largest = max(1.0, np.abs(expected["energies"]).max()) if precision == "fp64" else 1.0
        assert np.abs(found.energies - expected["energies"]).max() <= energy * largest
        assert np.abs(found.forces - np.reshape(expected["forces"], (-1, 3))).max() <= force
        if cell is not None and all(s["pbc"]):
            stress = np.array([expected["stress"][a][b] for a, b in PAIRS])
            tolerance = 1e-13 if precision == "fp64" else 1e-6
            assert np.abs(stress_of(found.virial, cell) - stress).max() <= tolerance
        n += 1
    assert n > 3


@published
@pytest.mark.parametrize(
    "change, text",
    [
        ({"activation": "relu"}, "tensornet.activation is 'relu', which is not supported"),
        ({"group": "o2"}, "tensornet.group is 'o2'"),
        ({"message_from": "both"}, "tensornet.message_from is 'both'"),
        ({"cutoff_function": "polynomial"}, "tensornet.cutoff_function is 'polynomial'"),
        ({"edge_vector": "i - j"}, "tensornet.edge_vector is 'i - j'"),
        ({"radial_basis": {"kind": "expnorm", "n": 3}}, "tensornet.radial_basis.kind is 'expnorm'"),
        ({"n_layers": 2}, "nothing explains tensor 'layers.2"),
        ({"n_layers": 4}, "the weights have no tensor 'layers.3"),
    ],
)
def test_refused(change, text):
    source, tensors = described("tensornet_tiny5")
    source["tensornet"].update(change)
    with pytest.raises(ModelError, match=text):
        convert_tensornet.described_model(source, tensors, "file")


@published
@pytest.mark.parametrize("name", ["tensornet_tiny5c", "tensornet-local-matpes-pbe"])
def test_local(converted, name):
    """T1: messages of the center reach no further than the cutoff; those of the neighbor do."""
    far = mlff.Model(converted(name.replace("local-", "").replace("5c", "5")), precision="fp64", domain="ignore")
    near = mlff.Model(converted(name), precision="fp64", domain="ignore")
    energies = {}
    for model in (near, far):
        for z in (6.2, 6.9):
            positions = np.array([[0, 0, 0], [0, 0, 2.9], [0, 0.3, z]], float)
            energies[model, z] = model.evaluate(["Si", "O", "Si"], positions).energies[0]
    assert energies[near, 6.2] == energies[near, 6.9]
    assert abs(energies[far, 6.2] - energies[far, 6.9]) > 1e-9


@published
@pytest.mark.parametrize("name", ["tensornet_tiny5", "tensornet_tiny5c"])
def test_vacuum(converted, name):
    """A wire and a slab are the limits of boxes with vacuum."""
    model = mlff.Model(converted(name), precision="fp64", domain="ignore")
    positions, cell = np.array([[0.1, 0.2, 0.3], [1.9, 0.4, 0.1], [0.9, 1.8, 0.6]]), np.diag([3.9, 4.3, 40.0])
    for pbc in ((True, True, False), (True, False, False)):
        wide = np.where(pbc, np.diag(cell), 40.0)
        found = model.evaluate(["Si", "O", "H"], positions, cell, pbc)
        expected = model.evaluate(["Si", "O", "H"], positions, np.diag(wide), (True, True, True))
        assert np.abs(found.energies - expected.energies).max() <= 1e-12
        assert np.abs(found.forces - expected.forces).max() <= 1e-11


@published
def test_elements(converted):
    with pytest.raises(mlff.Error, match="Po"):
        mlff.Model(converted("tensornet-matpes-pbe"), domain="ignore").evaluate(["Po"], np.zeros((1, 3)))
