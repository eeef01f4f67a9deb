"""Files of the package nequip (.ckpt, .nequip.zip): what the converter makes of them, and what it refuses.

Files in the same format are written here, from the published description. Checkpoints of the training of nequip 0.7.0,
0.9.1, 0.11.0, 0.13.0, 0.15.0, 0.16.2, 0.17.0, 0.18.0 and 0.19.1 were converted, and packages of the last three. In
double they agree with its ASE calculator to 3e-14 eV/A.
"""

import collections
import copy
import io
import os
import re
import sys
import types
import unittest.mock
import zipfile

import helpers
import numpy as np
import pytest
import torch_files
import yaml

from mlff_tools.convert import command as convert
from mlff_tools.convert import nequip as convert_nequip
from mlff_tools.convert import nequip_file
from mlff_tools.model import modelfile
from mlff_tools.model.reference_nequip import clebsch_gordan

PATH = os.path.join(helpers.PUBLISHED, "nequip_pkg_tiny.yaml")
NAMES = ["H", "O", "Si"]
PREFIX = "model.sole_model.model.func."
pytestmark = pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)


def described():
    return convert.read_description(PATH, "nequip")


def options():
    """Those of the fixture, as a configuration has them."""
    _, tensors = described()
    return {
        "_target_": "nequip.model.NequIPGNNModel",
        "seed": 1,
        "model_dtype": "float32",
        "type_names": NAMES,
        "r_max": 4.3,
        "num_layers": 3,
        "l_max": 2,
        "parity": False,
        "num_features": [10, 6, 3],
        "type_embed_num_features": 5,
        "radial_mlp_depth": 2,
        "radial_mlp_width": 9,
        "readout_mlp_hidden_layers_depth": 1,
        "readout_mlp_hidden_layers_width": 6,
        "num_bessels": 7,
        "bessel_trainable": True,
        "polynomial_cutoff_p": 6,
        "avg_num_neighbors": dict(zip(NAMES, tensors["avg_num_neighbors"].tolist())),
        "per_type_energy_scales": 1.0,
        "per_type_energy_shifts": 0.0,
        "pair_potential": {"_target_": "nequip.nn.pair_potential.ZBL", "units": "metal", "chemical_species": NAMES},
    }


def flat(tensors, name, axes):
    """name.l0, name.l1, ... in one row, as e3nn has them."""
    return np.concatenate([tensors[n].transpose(axes).ravel() for n in sorted(tensors) if n.startswith(name + ".l")])


def state(sign=1):
    """The tensors of the fixture with the names and shapes of nequip, in the order of its modules. sign: of a table of
    coupling coefficients, and of what multiplies it."""
    source, t = described()
    out = collections.OrderedDict()
    out["type_embed.embed_module.weight"] = t["type_embedding"]
    out["edge_norm._rmax_recip"] = np.array(1 / 4.3)
    out["bessel_encode.bessel_weights"] = t["bessel_weights"][None]
    for k, layer in enumerate(source["layer"]):
        conv, name = f"layer{k}_convnet.conv.", f"layers.{k}."
        out[conv + "linear_1.weight"] = flat(t, name + "linear_1", (1, 0))
        out[conv + "linear_1.output_mask"] = np.ones(3, np.float32)
        out[conv + "tp_scatter.tp.weight"] = np.zeros(0, np.float32)
        last = t[name + "radial_mlp.2"].copy()
        for l1, l2, l3, n, column, _ in layer["paths"]:
            if min(l1, l2, l3) > 0:
                table = clebsch_gordan(l1, l2, l3) * sign
                out[f"{conv}tp_scatter.tp._compiled_main_left_right._w3j_{l1}_{l2}_{l3}"] = table
                last[column : column + n] *= sign
        for j, matrix in enumerate((t[name + "radial_mlp.0"], t[name + "radial_mlp.1"], last)):
            out[f"{conv}edge_mlp.mlp.{2 * j}.weight"] = matrix.T
        out[conv + "linear_2.weight"] = flat(t, name + "linear_2", (1, 0))
        if k:
            out[conv + "sc.weight"] = flat(t, name + "skip", (1, 2, 0))
    readout = "per_atom_energy_readout.mlp_module.mlp."
    out[readout + "0.weight"], out[readout + "2.weight"] = t["readout.0"].T, t["readout.1"].T
    out["per_type_energy_scale_shift.scales"] = t["scale"][:, None]
    out["per_type_energy_scale_shift.shifts"] = t["shift"][:, None]
    return out


def checkpoint(path, config=None, tensors=None, version="0.19.1", **more):
    """Writes a checkpoint as Lightning does; more: entries of its state."""
    config = config or options()
    info = {"versions": {"nequip": version, "torch": "2.9"}, "training_module": {"model": config}, "runs": ["train"]}
    tensors = state() if tensors is None else tensors
    whole = {
        "epoch": 3,
        "state_dict": {"run_stage": np.zeros(1), **{PREFIX + k: v for k, v in tensors.items()}, **more},
        "hyper_parameters": {"model": config, "info_dict": info},
    }
    torch_files.save_checkpoint(path, {}, lambda _: whole)
    return str(path)


class Modules:
    """Makes recorded modules whose classes have the names of nequip's."""

    def __init__(self):
        self.package = types.ModuleType("nequip.nn")
        self.kind = type("GraphModel", (), {"__module__": "nequip.nn"})
        self.package.GraphModel = self.kind

    def tree(self, tensors):
        """A module with these tensors, by dotted names, as parameters."""
        module, children = self.kind(), collections.defaultdict(dict)
        module.__dict__ = {"_parameters": {}, "_buffers": {}, "_modules": {}}
        for name, value in tensors.items():
            head, _, rest = name.partition(".")
            if rest:
                children[head][rest] = value
            else:
                module._parameters[head] = value
        module._modules = {name: self.tree(rest) for name, rest in children.items()}
        return module


def package(path, config=None, version="0.19.1"):
    """Writes a file as nequip-package does."""
    modules, storages, text = Modules(), [], io.BytesIO()
    root = modules.tree({"sole_model.model.func." + k: v for k, v in state().items()})
    torch, names = torch_files.fake_torch()
    with unittest.mock.patch.dict(
        sys.modules, {**names, "nequip": types.ModuleType("nequip"), "nequip.nn": modules.package}
    ):
        torch_files._Pickler(text, torch, storages).dump(root)
    whole = {"training_module": {"model": config or options()}, "runs": ["train"]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/model/eager_model.pkl", text.getvalue())
        archive.writestr("m/model/config.yaml", yaml.safe_dump(whole))
        archive.writestr("m/model/package_metadata.txt", yaml.safe_dump({"versions": {"nequip": version}}))
        archive.writestr("m/byteorder", "little")
        for k, data in enumerate(storages):
            archive.writestr(f"m/.data/{k}.storage", data)
    return str(path)


def converted(path):
    source, tensors = nequip_file.read(path)
    return convert_nequip.described_model(source, tensors, path)


def check_same(model, expected):
    assert model[0] == expected[0]
    assert set(model[1]) == set(expected[1])
    for name, value in expected[1].items():
        assert model[1][name].dtype == value.dtype, name
        assert np.array_equal(model[1][name], value), name
    modelfile.check(*model)


def fixture():
    return convert_nequip.described_model(*described(), PATH)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("write", [checkpoint, package])
def test_same_model(write, sign, tmp_path, monkeypatch):
    """The bits of the description, also from files whose coupling coefficients have the other sign."""
    flipped = state(sign)
    monkeypatch.setattr(sys.modules[__name__], "state", lambda: flipped)
    check_same(converted(write(tmp_path / ("m.ckpt" if write is checkpoint else "m.nequip.zip"))), fixture())


def test_command(tmp_path):
    convert.main(["nequip", checkpoint(tmp_path / "m.ckpt"), "-o", str(tmp_path / "out"), "--no-self-test"])
    head, _ = modelfile.read(str(tmp_path / "out"))
    assert head["nequip"]["self_connection"] == "element" and head["repulsion"] == {"kind": "nequip", "p": 6.0}
    assert "Batzner" in head["provenance"]["citation"]


def test_moving_averages(tmp_path):
    """They replace parameters, not buffers; files whose model has them already are used as they are."""
    tensors, expected = state(), state()
    fixed = re.compile(r"(output_mask|_rmax_recip|_w3j_\d_\d_\d|scales|shifts)$")
    names = [name for name, value in tensors.items() if value.size and not fixed.search(name)]
    for name in names:
        tensors[name] = tensors[name] + np.float32(0.25)
    averages = {f"ema.ema_weight_{k}": expected[name] for k, name in enumerate(names)}
    holding = {"ema._extra_state": {"is_holding_ema_weights": True}}
    check_same(converted(checkpoint(tmp_path / "a.ckpt", tensors=tensors, **averages, **holding)), fixture())
    swapped = {f"ema.ema_weight_{k}": tensors[name] for k, name in enumerate(names)}
    other = {"ema._extra_state": {"is_holding_ema_weights": False}}
    check_same(converted(checkpoint(tmp_path / "b.ckpt", **swapped, **other)), fixture())
    averages.popitem()
    refused(checkpoint(tmp_path / "c.ckpt", tensors=tensors, **averages), "its moving averages (ema) do not fit")


def test_options(tmp_path):
    """One average, one scale, a linear readout, a choice of kernels."""
    config, tensors = options(), state()
    config.update(avg_num_neighbors=9, pair_potential=None, readout_mlp_hidden_layers_depth=0)
    tensors["per_type_energy_scale_shift.scales"] = np.array([[1.5]])
    tensors["per_type_energy_scale_shift.shifts"] = np.zeros(0)
    readout = "per_atom_energy_readout.mlp_module.mlp."
    del tensors[readout + "2.weight"]
    tensors[readout + "0.weight"] = np.ones((10, 1), np.float32)
    config = {"_target_": "nequip.model.modify", "modifiers": [{"modifier": "enable_CuEquivariance"}], "model": config}
    head, found = converted(checkpoint(tmp_path / "m.ckpt", config, tensors))
    block = head["nequip"]
    assert block["message_divisor"] == [3.0, 3.0, 3.0] and "neighbor_divisor" not in block
    assert block["n_readout"] == [] and "readout_activation_norm" not in block and "repulsion" not in head
    assert found["energy_scale"].tolist() == [1.5] * 3 and set(head["energy_offsets"].values()) == {0.0}
    modelfile.check(head, found)


def test_readout_without_activation(tmp_path):
    """The option as text leaves the gain of silu, sqrt(2) from the second layer on, in the package's network."""
    for text, gain in (("None", np.sqrt(2)), ("null", np.sqrt(2)), (None, 1.0)):
        config = {**options(), "readout_mlp_nonlinearity": text}
        head, found = converted(checkpoint(tmp_path / "m.ckpt", config))
        assert head["nequip"]["n_readout"] == [6] and "readout_activation_norm" not in head["nequip"]
        helpers.assert_near(found["energy_scale"], gain * fixture()[1]["energy_scale"], 1e-15, str(text))


def test_all_paths(tmp_path):
    """nequip before 0.16 couples all orders in networks without parity; radial weights are in the order l1, l2, l3."""
    config = {**options(), "num_layers": 2, "num_features": 4, "pair_potential": None}
    tensors = state()
    triples = [(a, b, c) for a in range(3) for b in range(3) for c in range(abs(a - b), min(a + b, 2) + 1)]
    for t, inputs, outputs in ((0, [5], [12, 4, 4]), (1, [4, 4, 4], [4])):
        conv = f"layer{t}_convnet.conv."
        paths = [p for p in triples if p[0] < len(inputs) and p[2] < len(outputs)]
        rows = [sum(inputs[p[0]] for p in paths if p[2] == l) for l in range(len(outputs))]
        shapes = {
            "linear_1.weight": sum(n * n for n in inputs),
            "linear_2.weight": sum(n * m for n, m in zip(rows, outputs)),
            "sc.weight": 5 * sum(n * m for n, m in zip(inputs, outputs)),
        }
        tensors.update({conv + name: np.ones(n, np.float32) for name, n in shapes.items() if t or name[0] == "l"})
        values = np.concatenate([np.full(inputs[p[0]], 100 * p[0] + 10 * p[1] + p[2], np.float32) for p in paths])
        tensors[conv + "edge_mlp.mlp.4.weight"] = np.tile(values, (9, 1))
    tensors = {name: value for name, value in tensors.items() if not name.startswith("layer2")}
    tensors["per_atom_energy_readout.mlp_module.mlp.0.weight"] = np.ones((4, 6), np.float32)
    head, found = converted(checkpoint(tmp_path / "m.ckpt", config, tensors, version="0.15.0"))
    assert head["nequip"]["paths"] == "all"
    for t, layer in enumerate(modelfile.nequip_layers(head)):
        for path in layer.paths:
            part = found[f"layers.{t}.radial_mlp.2"][path.column : path.column + path.mul]
            assert (np.abs(part) == 100 * path.l1 + 10 * path.l2 + path.l3).all()
    modelfile.check(head, found)


def refused(path, *texts):
    line = helpers.refusal(convert.main, ["nequip", path, "--no-self-test", "-o", path + ".out"])
    for text in (*texts, path):
        assert text in line
    assert line.startswith("mlff convert: error: ") and line.count("\n") == 1
    assert not os.path.exists(path + ".out.yaml")


ZBL = {"_target_": "nequip.nn.pair_potential.ZBL", "units": "real", "chemical_species": NAMES}
LENNARD_JONES = {"_target_": "nequip.nn.pair_potential.LennardJones"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"parity": True}, "parity is True, which is not supported"),
        ({"l_max": 4}, "l_max is 4, which is not supported"),
        ({"pair_potential": LENNARD_JONES}, "pair_potential is 'LennardJones'"),
        ({"pair_potential": ZBL}, "pair_potential.units is 'real'"),
        ({"per_edge_type_cutoff": {"H": 3.0}}, "per_edge_type_cutoff is {'H': 3.0}"),
        ({"categorical_graph_field_embed": [{"field": "charge"}]}, "categorical_graph_field_embed is"),
        ({"convnet_resnet": True}, "convnet_resnet is True"),
        ({"convnet_nonlinearity_type": "norm"}, "convnet_nonlinearity_type is 'norm'"),
        ({"learnable_shift": True}, "learnable_shift is True"),
        ({"convnet_sc": False}, "convnet_sc is False"),
        ({"readout_mlp_nonlinearity": "mish"}, "readout activation 'mish' is not supported"),
        ({"type_names": ["H", "O", "Type3"]}, "must be chemical symbols"),
        ({"avg_num_neighbors": None}, "avg_num_neighbors is None"),
        ({"avg_num_neighbors": {"H": 1.0, "O": -2.0, "Si": 1.0}}, "must be a positive number"),
        ({"frobnicate": 1}, "option frobnicate of the model is not supported"),
        ({"_target_": "nequip.model.FullNequIPGNNModel"}, "the model is nequip.model.FullNequIPGNNModel"),
        ({"_target_": "allegro.model.AllegroModel"}, "the model is allegro.model.AllegroModel"),
        ({"_target_": "nequip.model.PresetNequIPGNNModel", "preset": "tiny"}, "preset is 'TINY'"),
        ({"num_features": [10, 6]}, "num_features [10, 6]"),
        ({"num_layers": 2}, "has shape"),
    ],
)
def test_refused_options(change, text, tmp_path):
    refused(checkpoint(tmp_path / "m.ckpt", {**options(), **change}), text)


def test_refused_modifier(tmp_path):
    config = {"_target_": "nequip.model.modify", "modifiers": [{"modifier": "add_lora"}], "model": options()}
    refused(checkpoint(tmp_path / "m.ckpt", config), "modifier add_lora is not supported")


@pytest.mark.parametrize("version", ["0.6.1", "0.20.0", "1.0", None])
def test_refused_versions(version, tmp_path):
    for write, name in ((checkpoint, "m.ckpt"), (package, "m.nequip.zip")):
        refused(write(tmp_path / name, version=version), f"was written by nequip {version}", "0.7 to 0.19")


def test_refused_states(tmp_path):
    tensors = state()
    del tensors["layer1_convnet.conv.sc.weight"]
    path = checkpoint(tmp_path / "a.ckpt", tensors=tensors)
    refused(path, "the weights have no tensor 'layer1_convnet.conv.sc.weight'")
    tensors = {**state(), "layer1_convnet.other.weight": np.ones(3, np.float32)}
    path = checkpoint(tmp_path / "b.ckpt", tensors=tensors)
    refused(path, "nothing explains tensor 'layer1_convnet.other.weight'")
    tensors = copy.deepcopy(state())
    tensors["layer1_convnet.conv.tp_scatter.tp._compiled_main_left_right._w3j_1_1_2"] *= 0.5
    path = checkpoint(tmp_path / "c.ckpt", tensors=tensors)
    refused(path, "layer 1: the coupling coefficients of orders 1, 1, 2 are not e3nn's")


def test_refused_files(tmp_path):
    for name in ("m.nequip.pth", "m.nequip.pt2"):
        (tmp_path / name).write_bytes(b"PK")
        refused(str(tmp_path / name), "is a compiled model: convert the .ckpt or .nequip.zip")
    path = tmp_path / "m.ckpt"
    torch_files.save_checkpoint(path, {"a": np.ones(3)})
    refused(str(path), "has no hyper_parameters: not a file of nequip")
    good = open(checkpoint(path), "rb").read()
    path.write_bytes(good[: len(good) // 2])
    refused(str(path), "is cut off or damaged")
    refused(checkpoint(tmp_path / "m.nequip.zip"), "cannot be read as a packaged model")


def test_nothing_is_executed(tmp_path):
    """An object of the file that would write a file when it is unpickled becomes an inert one."""
    target = tmp_path / "written"

    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(target),)

    config = {**options(), "frobnicate": Bad()}
    refused(checkpoint(tmp_path / "m.ckpt", config), "option frobnicate")
    assert not target.exists()
