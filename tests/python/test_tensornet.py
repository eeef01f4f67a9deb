"""TensorNet: numpy and the engine against matgl in float64, and what the converter refuses.

Traps of TensorNet (reference numbers fail where one falls into them): T1 whose features a message carries, T2 halves of
the embedding of pairs, T3 sign of the antisymmetric part, T4 squared norms without a root, T5 skip from normalised
features, T6 order of scalars, T7 activation of every layer, T8 biases of the embedding, T9 cutoff function, T10 four
layers of the readout, T12 offsets, T17 images, T18 weights of squares, T19 terms of the backward pass.
"""

import json
import os

import helpers
import numpy as np
import pytest

import mlff
from mlff_tools.convert import command as convert
from mlff_tools.convert import tensornet as convert_tensornet
from mlff_tools.model import modelfile, reference
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
