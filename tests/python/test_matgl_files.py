"""Published folders of matgl: all conventions, which are written here from the descriptions of the fixtures, and what
is refused."""

import json
import os

import helpers
import numpy as np
import pytest
import torch_files
from references import described
from torch_files import save_checkpoint, save_module

from mlff_tools.convert import command as convert
from mlff_tools.convert import matgl
from mlff_tools.convert import tensornet as convert_tensornet
from mlff_tools.model import modelfile, reference

NAMES = ("tensornet_tiny5", "tensornet_tiny5c", "tensornet_tiny7", "tensornet_tiny7n", "tensornet-local-matpes-pbe")
THEIRS = {"silu": "swish", "o3": "O(3)", "so3": "SO(3)"}
pytestmark = pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)


def state_of(source, tensors):
    """Names and values of the package."""
    p, convention = source["tensornet"], source["convention"]
    linear, matrices = matgl.layer_names(p["n_layers"])
    state = {f"model.{b}.{kind}": tensors[f"{a}.{kind}"] for a, b in linear for kind in ("weight", "bias")}
    state |= {f"model.{b}.weight": tensors[a] for a, b in matrices}
    halves = [tensors["embedding.pair.neighbour"], tensors["embedding.pair.centre"]]
    if convention == "2025.2":
        halves = halves[::-1]
    else:
        for kind in ("weight", "bias"):
            state[f"model.tensor_embedding.distance_proj2.{kind}"] = -tensors[f"embedding.radial.A.{kind}"]
    state["model.tensor_embedding.emb2.weight"] = np.concatenate(halves, 1)
    state["model.tensor_embedding.emb2.bias"] = tensors["embedding.pair.bias"]
    state["model.bond_expansion.rbf.cutoff"] = np.float32([source["cutoff"]])
    if "radial.centers" in tensors:
        state["model.bond_expansion.rbf.centers"] = tensors["radial.centers"]
    state["data_mean"] = np.zeros((), np.float32)
    state["data_std"] = np.array(p["energy_scale"], np.float32)
    state["element_refs.property_offset"] = tensors["energy_offsets"]
    return state


def configuration_of(source):
    p, convention = source["tensornet"], source["convention"]
    basis = p["radial_basis"]
    args = {
        "element_types": source["elements"],
        "units": p["n_features"],
        "nblocks": p["n_layers"],
        "num_rbf": basis["n"],
        "max_n": basis["n"],
        "width": basis.get("exponent", 0.5),
        "rbf_type": "Gaussian" if basis["kind"] == "gaussian" else "SphericalBessel",
        "use_smooth": True,
        "activation_type": THEIRS.get(p["activation"], p["activation"]),
        "equivariance_invariance_group": THEIRS[p["group"]],
        "cutoff": source["cutoff"],
        "include_state": False,
        "is_intensive": False,
        "ntargets": 1,
        "task_type": "regression",
    }
    model = {
        "@class": "TensorNet",
        "@module": "matgl.models._tensornet_" + convention.split("-", maxsplit=1)[0],
        "@model_version": 2 if convention == "2025.2" else 1,
        "init_args": args,
    }
    return {"kwargs": {"model": model, "calc_repuls": False, "calc_magmom": False}}


def written(folder, name="tensornet_tiny5", change=lambda configuration, state: None):
    source, tensors = described("tensornet", name)
    configuration, state = configuration_of(source), state_of(source, tensors)
    change(configuration, state)
    folder = folder / "published"
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_text(json.dumps(configuration))
    save_checkpoint(str(folder / "state.pt"), state)
    return str(folder)


def pair_of(head):
    elements = head["elements"][:2]
    return {"elements": elements, "positions": np.array([[0.0, 0, 0], [0, 0.3, 1.9]]), "cell": None}


@pytest.mark.parametrize("name", NAMES)
def test_published(tmp_path, monkeypatch, name):
    """The model of a folder is that of its description, to the bit, wherever its storages were."""
    monkeypatch.setattr(torch_files, "DEVICE", "cuda:0")
    folder = written(tmp_path, name)
    arguments = convert.command_line().parse_args(["tensornet", folder, "-o", str(tmp_path / "out"), "--no-self-test"])
    convert.convert(arguments)
    head, tensors = modelfile.read(str(tmp_path / "out"))
    source, weights = described("tensornet", name)
    expected, weights = convert_tensornet.described_model(source, weights, name)
    assert {key: tensor.tobytes() for key, tensor in tensors.items()} == {k: w.tobytes() for k, w in weights.items()}
    for key in ("tensornet", "energy_offsets", "elements", "cutoff"):
        assert head[key] == expected[key]
    assert head["provenance"]["license"] == matgl.LICENSE
    assert np.isfinite(reference.evaluate((head, tensors), pair_of(head))[0])


def args_of(configuration):
    return configuration["kwargs"]["model"]["init_args"]


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda c, s: args_of(c).update(include_state=True), "include_state is True, which is not supported"),
        (lambda c, s: args_of(c).update(use_smooth=False), "use_smooth is False"),
        (lambda c, s: args_of(c).update(rbf_type="ExpNorm"), "rbf_type is 'ExpNorm'"),
        (lambda c, s: args_of(c).update(activation_type="relu"), "activation_type is 'relu'"),
        (lambda c, s: args_of(c).pop("units"), "'units' is missing"),
        (lambda c, s: c["kwargs"].update(calc_repuls=True), "calc_repuls is True"),
        (lambda c, s: c["kwargs"]["model"].update({"@class": "M3GNet"}), "@class is 'M3GNet'"),
        (lambda c, s: c["kwargs"]["model"].update({"@module": "x.y"}), "@module is 'y'"),
        (lambda c, s: c.pop("kwargs"), "is not a model.json of matgl"),
        (lambda c, s: s.update(data_mean=np.ones((), np.float32)), "data_mean is 1.0, only 0 is supported"),
        (lambda c, s: s.pop("model.linear.bias"), "the weights have no tensor 'model.linear.bias'"),
        (lambda c, s: s.update({"model.more": np.zeros(1, np.float32)}), "nothing explains tensor 'model.more'"),
        (lambda c, s: s.pop("element_refs.property_offset"), "no tensor 'element_refs.property_offset'"),
    ],
)
def test_refused(tmp_path, change, text):
    found = helpers.refusal(convert.main, ["tensornet", written(tmp_path, change=change), "-o", str(tmp_path / "out")])
    assert text in found and found.count("\n") == 1
    assert not (tmp_path / "out.yaml").exists()


def test_damaged(tmp_path):
    folder = written(tmp_path)
    command = ["tensornet", folder, "-o", str(tmp_path / "out")]
    state, model = os.path.join(folder, "state.pt"), os.path.join(folder, "model.json")
    with open(state, "rb") as f:
        data = f.read()
    for n in (0, 3, 40, len(data) // 2, len(data) - 1):
        with open(state, "wb") as f:
            f.write(data[:n])
        assert f"mlff convert: error: {state}: " in helpers.refusal(convert.main, command)
    save_module(state, os.system, {})
    assert "is needed, which is not part of a state dict and is not run" in helpers.refusal(convert.main, command)
    os.unlink(state)
    assert "state.pt: no such file" in helpers.refusal(convert.main, command)
    with open(model, "w", encoding="utf-8") as f:
        f.write("[1")
    assert "is not a model.json of matgl" in helpers.refusal(convert.main, command)
    os.unlink(model)
    assert "expected a folder of matgl" in helpers.refusal(convert.main, command)
