"""Reader of files of the package `nequip`: checkpoints of its training (.ckpt) and packaged models (.nequip.zip), by
numpy only; no code in the file is executed.

read() gives the description and tensors that nequip_package.py reads from a .yaml. Options that the engine does not
have are refused by name.
"""

import re

import numpy as np

from ..model.modelfile import NUMBERS, ModelError
from ..model.reference_nequip import clebsch_gordan
from . import checkpoints
from .common import require

VERSIONS = ((0, 7), (0, 19))  # first and last that were compared
PARITY = (0, 16)  # first whose networks without parity have no paths with an odd sum of orders
# Defaults of NequIPGNNModel; options without an effect on a trained model are None.
DEFAULTS = {
    "num_layers": 4,
    "l_max": 1,
    "parity": True,
    "num_features": 32,
    "type_embed_num_features": None,
    "radial_mlp_depth": 1,
    "radial_mlp_width": 128,
    "readout_mlp_hidden_layers_depth": 0,
    "readout_mlp_hidden_layers_width": None,
    "readout_mlp_nonlinearity": "silu",
    "num_bessels": 8,
    "bessel_trainable": False,
    "polynomial_cutoff_p": 6,
    "avg_num_neighbors": None,
    "per_type_energy_scales_trainable": False,
    "per_type_energy_shifts_trainable": False,
    "pair_potential": None,
}
IGNORED = ("_target_", "seed", "model_dtype", "compile_mode", "do_derivatives", "preset", "per_type_energy_scales")
IGNORED += ("per_type_energy_shifts",)
# Other options, and the only value that is possible.
FIXED = {
    "per_edge_type_cutoff": None,
    "categorical_graph_field_embed": None,
    "convnet_sc": True,
    "learnable_shift": False,
    "convnet_resnet": False,
    "convnet_nonlinearity_type": "gate",
    "convnet_nonlinearity_scalars": {"e": "silu", "o": "tanh"},
    "convnet_nonlinearity_gates": {"e": "silu", "o": "tanh"},
}
PRESET = {"parity": False, "type_embed_num_features": 32, "radial_mlp_depth": 1, "radial_mlp_width": 128}
PRESETS = {
    "S": {"num_layers": 2, "l_max": 1, "num_features": [128, 64]},
    "M": {"num_layers": 4, "l_max": 2, "num_features": [128, 64, 32]},
    "L": {"num_layers": 6, "l_max": 3, "num_features": [128, 64, 32, 32]},
    "XL": {"num_layers": 6, "l_max": 4, "num_features": [320, 96, 64, 32, 32]},
}
CONSTANTS = {
    "variant": "nequip_package",
    "units": {"energy": "eV", "length": "angstrom"},
    "activation_norm": 0.595529907587252,  # e3nn's normalize2mom of silu
}
# Constants of a state, which follow from the options. Packages have more of them than checkpoints.
BUFFER = re.compile(r"\.(output_mask|_empty|_rmax_recip|_w3j_\d_\d_\d|atomic_numbers|_qqr2exesquare|alpha|norm_const)$")
TABLE = re.compile(r"\._w3j_(\d)_(\d)_(\d)$")
SOLE = "sole_model"


def _mapping(value, key, where):
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise ModelError(f"{where}: has no {key}: not a file of nequip 0.7 to 0.19")
    return found


def _version(versions, where):
    """(major, minor) of the package that wrote the file."""
    text = str(versions.get("nequip"))
    found = re.match(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if not VERSIONS[0] <= version <= VERSIONS[1]:
        raise ModelError(f"{where}: was written by nequip {text}: versions 0.7 to 0.19 are supported")
    return version


def _options(config, where):
    """All options of the model, defaults included."""
    target, options = str(config.get("_target_")), dict(DEFAULTS)
    if target.endswith(".modify"):
        return _options(_unmodified(config, where), where)
    name = target.rpartition(".")[2]
    if not target.startswith("nequip.") or name not in ("NequIPGNNModel", "PresetNequIPGNNModel"):
        raise ModelError(
            f"{where}: the model is {target}, which is not supported (possible: NequIPGNNModel, PresetNequIPGNNModel)"
        )
    if name == "PresetNequIPGNNModel":
        preset = str(config.get("preset")).upper()
        if preset not in PRESETS:
            raise ModelError(f"{where}: preset is {preset!r}, which is not supported (possible: {', '.join(PRESETS)})")
        options.update({**PRESET, **PRESETS[preset]})
    for key, value in config.items():
        if key in FIXED:
            require(where, key, value, FIXED[key])
        elif key in DEFAULTS or key in ("type_names", "r_max"):
            options[key] = value
        elif key not in IGNORED:
            raise ModelError(f"{where}: option {key} of the model is not supported")
    require(where, "parity", options["parity"], False)
    if not isinstance(options["l_max"], int) or not 0 <= options["l_max"] <= 3:
        raise ModelError(f"{where}: l_max is {options['l_max']!r}, which is not supported (possible: 0 to 3)")
    return options


def _unmodified(config, where):
    """The model inside of nequip.model.modify, whose modifiers only choose kernels."""
    for modifier in config.get("modifiers") or []:
        name = modifier.get("modifier") if isinstance(modifier, dict) else modifier
        if not str(name).startswith("enable_"):
            raise ModelError(f"{where}: modifier {name} is not supported: package the model (nequip-package build)")
    return _mapping(config, "model", where)


def _type_names(options, where):
    names = options.get("type_names")
    if not isinstance(names, list) or not names or any(name not in NUMBERS for name in names):
        raise ModelError(f"{where}: type_names are {names}: must be chemical symbols")
    return names


def _pair_potential(options, names, where):
    potential = options["pair_potential"]
    if potential is None:
        return None
    target = str(potential.get("_target_")).rpartition(".")[2] if isinstance(potential, dict) else str(potential)
    require(where, "pair_potential", target, "ZBL")
    require(where, "pair_potential.units", potential.get("units"), "metal")
    require(where, "pair_potential.chemical_species", potential.get("chemical_species"), names)
    return {"kind": "zbl", "p": float(potential.get("polynomial_cutoff_p", 6.0))}


def _average(options, names, where):
    found = options["avg_num_neighbors"]
    values = [found.get(name) for name in names] if isinstance(found, dict) else [found]
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) or not x > 0 for x in values):
        raise ModelError(f"{where}: avg_num_neighbors is {found!r}: must be a positive number, or one for each type")
    return np.array(values, np.float64)


def _layers(options, even, where):
    """Layers as a description has them; paths are [l1, l2, l3, channels, column, row]. even: without an odd sum of
    orders."""
    l_max, n_layers, features = options["l_max"], options["num_layers"], options["num_features"]
    features = features if isinstance(features, list) else [features] * (l_max + 1)
    if len(features) != l_max + 1 or not all(isinstance(n, int) and n > 0 for n in [*features, n_layers]):
        raise ModelError(f"{where}: num_features {features} and num_layers {n_layers}: must be positive integers")
    inputs, layers = [options["type_embed_num_features"] or features[0]], []
    for t in range(n_layers):
        outputs, paths, column = features if t < n_layers - 1 else features[:1], [], 0
        for l1, n in enumerate(inputs):
            for l2 in range(l_max + 1):
                for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                    if l3 < len(outputs) and not (even and (l1 + l2 + l3) % 2):
                        row = sum(path[3] for path in paths if path[2] == l3)
                        paths.append([l1, l2, l3, n, column, row])
                        column += n
        orders = lambda channels: [[n, l] for l, n in enumerate(channels)]
        layers.append({"irreps_in": orders(inputs), "irreps_out": orders(outputs), "paths": paths})
        inputs = outputs
    return layers


class _State:
    """Tensors of a model, taken one by one until none but constants are left."""

    def __init__(self, tensors, where):
        self.left, self.where = dict(tensors), where

    def take(self, name, *shape):
        found = self.left.pop(name, None)
        if not isinstance(found, np.ndarray):
            raise ModelError(f"{self.where}: the weights have no tensor '{name}'")
        if shape and found.shape != shape:
            raise ModelError(f"{self.where}: tensor '{name}' has shape {list(found.shape)}, expected {list(shape)}")
        return found

    def blocks(self, name, shapes):
        """Parts of a row of weights, of these shapes one after the other."""
        flat, out = self.take(name, sum(int(np.prod(shape)) for shape in shapes)), []
        for shape in shapes:
            n = int(np.prod(shape))
            out.append(flat[:n].reshape(shape))
            flat = flat[n:]
        return out

    def network(self, name, step):
        """Matrices [out, in] of name.0, name.{step}, ..."""
        out, k = [], 0
        while f"{name}.{k}" in self.left or f"{name}.{k}.weight" in self.left:
            out.append(self.take(f"{name}.{k}.weight" if f"{name}.{k}.weight" in self.left else f"{name}.{k}").T)
            k += step
        return out

    def finish(self):
        strange = [name for name, value in self.left.items() if not BUFFER.search("." + name) and np.size(value)]
        if strange:
            raise ModelError(f"{self.where}: nothing explains tensor '{strange[0]}': a layer that is not supported")


def _with_sign(weight, layer, tables, where):
    """Radial weights [columns, in] with the sign of our coupling coefficients; tables: of the file, by orders."""
    out = weight.copy()
    for l1, l2, l3, n, column, _ in layer["paths"]:
        if (l1, l2, l3) not in tables:
            continue
        table, ours = tables[l1, l2, l3], clebsch_gordan(l1, l2, l3)
        sign = next((s for s in (1, -1) if table.shape == ours.shape and np.abs(table - s * ours).max() < 1e-5), None)
        if sign is None:
            raise ModelError(f"{where}: the coupling coefficients of orders {l1}, {l2}, {l3} are not e3nn's")
        out[column : column + n] *= sign
    return out


def _layer_tensors(state, t, layer, out):
    prefix, where = f"layer{t}_convnet.conv.", f"{state.where}: layer {t}"
    inputs, outputs = ([n for n, _ in layer[key]] for key in ("irreps_in", "irreps_out"))
    before = [sum(outputs), *outputs[1:]]
    rows = [sum(path[3] for path in layer["paths"] if path[2] == l) for l in range(len(outputs))]
    if 0 in rows:
        raise ModelError(f"{where}: order {rows.index(0)} of num_features is not reached by l_max")
    tables = {}
    for name in [name for name in state.left if name.startswith(prefix + "tp_scatter.") and TABLE.search(name)]:
        tables[tuple(int(l) for l in TABLE.search(name).groups())] = state.take(name)
    parts = {"linear_1": [(n, n) for n in inputs], "linear_2": list(zip(rows, before))}
    for kind, shapes in parts.items():
        for l, matrix in enumerate(state.blocks(f"{prefix}{kind}.weight", shapes)):
            out[f"layers.{t}.{kind}.l{l}"] = matrix.T
    if t > 0:
        n_embedding = out["type_embedding"].shape[1]
        shapes = [(n, n_embedding, m) for n, m in zip(inputs, before)]
        for l, cube in enumerate(state.blocks(f"{prefix}sc.weight", shapes)):
            out[f"layers.{t}.skip.l{l}"] = cube.transpose(2, 0, 1)
    network = state.network(f"{prefix}edge_mlp.mlp", 2)
    if len(network) < 2 or len(network[-1]) != sum(path[3] for path in layer["paths"]):
        raise ModelError(f"{where}: its radial network is not supported: expected hidden layers and one weight a path")
    network[-1] = _with_sign(network[-1], layer, tables, where)
    out.update({f"layers.{t}.radial_mlp.{k}": matrix for k, matrix in enumerate(network)})


def _per_type(state, name, n_types, otherwise):
    """[n_types] scales or shifts; a file has one, one for each type, or none."""
    found = state.take(f"per_type_energy_scale_shift.{name}").ravel().astype(np.float64)
    if found.size not in (0, 1, n_types):
        raise ModelError(f"{state.where}: has {found.size} {name} for {n_types} types")
    return np.broadcast_to(found if found.size else np.array([otherwise]), (n_types,)).copy()


def described(config, tensors, version, where):
    """(description, tensors) of a model from its options and its state."""
    options = _options(config, where)
    names, state, out = _type_names(options, where), _State(tensors, where), {}
    layers = _layers(options, version >= PARITY, where)
    out["type_embedding"] = state.take("type_embed.embed_module.weight", len(names), layers[0]["irreps_in"][0][0])
    out["bessel_weights"] = state.take("bessel_encode.bessel_weights").ravel()
    out["avg_num_neighbors"] = _average(options, names, where)
    for t, layer in enumerate(layers):
        _layer_tensors(state, t, layer, out)
    readout = "per_atom_energy_readout.mlp_module.mlp"
    network = state.network(readout, 2) or state.network(readout + ".weights", 1)
    out.update({f"readout.{k}": matrix for k, matrix in enumerate(network)})
    out["scale"], out["shift"] = (
        _per_type(state, "scales", len(names), 1.0),
        _per_type(state, "shifts", len(names), 0.0),
    )
    state.finish()
    activation = options["readout_mlp_nonlinearity"]
    if activation in ("None", "null"):  # as text it has the gain of silu from the second layer on, unlike None
        out["scale"] *= 2 ** ((len(network) - 1) / 2)
    source = {
        **CONSTANTS,
        "atomic_numbers": [NUMBERS[name] for name in names],
        "cutoff": float(options["r_max"]),
        "lmax": options["l_max"],
        "paths": "even" if version >= PARITY else "all",
        "cutoff_function": {"kind": "polynomial", "p": float(options["polynomial_cutoff_p"])},
        "radial_mlp": {
            "activation": "silu",
            "gain": "sqrt(2) from the second layer on",
            "linear_scale": "1/sqrt(fan_in)",
        },
        "readout_activation": "none" if activation in (None, "None", "null") else activation,
        "pair_potential": _pair_potential(options, names, where),
        "layer": layers,
    }
    return source, {name: np.ascontiguousarray(value) for name, value in out.items()}


def _averaged(state, model, options):
    """The parameters of `model` (name -> tensor), or their moving averages if the file has those: nequip uses them."""
    averages = {name: value for name, value in state.items() if name.startswith("ema.ema_weight_")}
    extra = state.get("ema._extra_state")
    if not averages or (isinstance(extra, dict) and extra.get("is_holding_ema_weights") is False):
        return model, True
    fixed = {
        "bessel_encode.bessel_weights": options["bessel_trainable"],
        "per_type_energy_scale_shift.scales": options["per_type_energy_scales_trainable"],
        "per_type_energy_scale_shift.shifts": options["per_type_energy_shifts_trainable"],
    }
    names = [n for n, v in model.items() if np.size(v) and not BUFFER.search("." + n) and fixed.get(n, True)]
    found = [averages.get(f"ema.ema_weight_{k}") for k in range(len(names))]
    fits = len(averages) == len(names) and all(
        isinstance(value, np.ndarray) and value.shape == model[name].shape for name, value in zip(names, found)
    )
    return {**model, **dict(zip(names, found))}, fits


def _read_checkpoint(path):
    found = checkpoints.read_checkpoint(path)
    hyper = _mapping(found, "hyper_parameters", path)
    info, state = _mapping(hyper, "info_dict", path), _mapping(found, "state_dict", path)
    version = _version(_mapping(info, "versions", path), path)
    config = _mapping(_mapping(info, "training_module", path), "model", path)
    options = _options(config, path)
    place = "type_embed.embed_module.weight"
    prefix = next((n[: -len(place)] for n in state if n.startswith("model.") and n.endswith(place)), None)
    if prefix is None or not prefix.startswith(f"model.{SOLE}."):
        raise ModelError(f"{path}: has no tensor 'model.{SOLE}...{place}': not a checkpoint with one NequIP model")
    model = {n[len(prefix) :]: v for n, v in state.items() if n.startswith(prefix)}
    model, fits = _averaged(state, model, options)
    if not fits:
        raise ModelError(f"{path}: its moving averages (ema) do not fit its parameters")
    return described(config, model, version, path)


def _tensors_of(module, prefix, out):
    """Parameters and buffers of a recorded module and those inside, by the names that a state dict has."""
    state = module.state if isinstance(getattr(module, "state", None), dict) else {}
    for kind in ("_parameters", "_buffers"):
        for name, value in (state.get(kind) or {}).items():
            if isinstance(value, np.ndarray):
                out[prefix + name] = value
    for name, child in (state.get("_modules") or {}).items():
        _tensors_of(child, f"{prefix}{name}.", out)
    return out


def _read_package(path):
    root, config, metadata = checkpoints.read_package(path)
    version = _version(_mapping(metadata, "versions", path), path)
    tensors, place = _tensors_of(root, "", {}), "type_embed.embed_module.weight"
    prefix = next((n[: -len(place)] for n in tensors if n.endswith(place)), None)
    if prefix is None or not prefix.startswith(f"{SOLE}."):
        raise ModelError(f"{path}: has no tensor '{SOLE}...{place}': not a package with one NequIP model")
    model = {n[len(prefix) :]: v for n, v in tensors.items() if n.startswith(prefix)}
    return described(_mapping(_mapping(config, "training_module", path), "model", path), model, version, path)


def is_file(path):
    """Whether the name is that of a file of the package nequip."""
    return path.endswith((".ckpt", ".zip", ".nequip.pth", ".nequip.pt2", ".pt2"))


def read(path):
    """(description, tensors) of a .ckpt or .nequip.zip."""
    if path.endswith((".pth", ".pt2")):
        raise ModelError(f"{path}: is a compiled model: convert the .ckpt or .nequip.zip that it was made from")
    return _read_checkpoint(path) if path.endswith(".ckpt") else _read_package(path)
