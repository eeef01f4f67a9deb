"""Reader of published TensorNet networks of matgl: a folder with model.json and state.pt. No code in the files is
executed.

Weights keep their bits. Two things differ between versions of the package, and are made alike: halves of the embedding
of pairs get names, and radial.A changes its sign where vectors point from the neighbor to the center.
"""

import hashlib
import json
import os

import numpy as np

from ..model.modelfile import ModelError
from .checkpoints import read_state_dict

LICENSE = "BSD-3-Clause, Copyright (c) 2022, Materials Virtual Lab"
# What defines the numbers -> (whose features a message carries, whether the neighbor comes first in the embedding of
# pairs, sign of vectors).
CONVENTIONS = {
    "pyg-2025.1": ("neighbour", True, -1),
    "dgl-2025.1": ("centre", True, -1),
    "2025.2": ("neighbour", False, 1),
}
MODULES = {"_tensornet_pyg": "pyg-2025.1", "_tensornet_dgl": "dgl-2025.1"}
ACTIVATIONS = {"swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "softplus2": "softplus2"}
GROUPS = {"O(3)": "o3", "SO(3)": "so3"}
EXPECTED = {"include_state": False, "is_intensive": False, "ntargets": 1, "task_type": "regression"}
# Not used in an evaluation, or defined by the keys of model.json.
UNUSED = {
    "bond_expansion.rbf.cutoff",
    "bond_expansion.rbf.width",
    "tensor_embedding.emb3.weight",
    "tensor_embedding.emb3.bias",
}


def _require(where, name, value, allowed):
    if value not in allowed:
        raise ModelError(
            f"{where}: {name} is {value!r}, which is not supported (possible: {', '.join(map(repr, allowed))})"
        )


def _configuration(path):
    try:
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
        kwargs = found["kwargs"]
        return kwargs, kwargs["model"]
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}: expected a folder of matgl with model.json and state.pt") from e
    except (ValueError, KeyError, TypeError) as e:
        raise ModelError(f"{path}: is not a model.json of matgl: {e}") from e


def _convention(where, model):
    """A key of CONVENTIONS."""
    _require(where, "@class", model.get("@class"), ("TensorNet",))
    if model["@model_version"] >= 2:
        return "2025.2"
    module = str(model["@module"]).rsplit(".", maxsplit=1)[-1]
    _require(where, "@module", module, tuple(MODULES))
    return MODULES[module]


def layer_names(n_layers):
    """(name of ours, name of theirs) of linear layers with bias, of matrices."""
    linear = [(f"embedding.radial.{p}", f"tensor_embedding.distance_proj{k + 1}") for k, p in enumerate("IAS")]
    linear += [(f"embedding.scalar.{k}", f"tensor_embedding.linears_scalar.{k}") for k in range(2)]
    linear += [("embedding.norm", "tensor_embedding.init_norm"), ("out.norm", "out_norm"), ("out.linear", "linear")]
    matrices = [("embedding.species", "tensor_embedding.emb")]
    matrices += [(f"embedding.mix.{p}", f"tensor_embedding.linears_tensor.{k}") for k, p in enumerate("IAS")]
    for t in range(n_layers):
        linear += [(f"layers.{t}.radial.{k}", f"layers.{t}.linears_scalar.{k}") for k in range(3)]
        for n in (1, 2):
            names = [f"layers.{t}.linears_tensor.{k + 3 * n - 3}" for k in range(3)]
            matrices += [(f"layers.{t}.mix_{n}.{p}", name) for p, name in zip("IAS", names)]
    for ours, theirs in (("value", "layers"), ("gate", "gates")):
        linear += [(f"readout.{ours}.{k}", f"final_layer.gated.{theirs}.{2 * k}") for k in range(4)]
    return linear, matrices


def _tensors(where, state, n_layers, convention):
    """The tensors of a description."""
    _, neighbor_first, sign = CONVENTIONS[convention]
    left = {k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")}

    def take(name):
        if name not in left:
            raise ModelError(f"{where}: the weights have no tensor 'model.{name}'")
        return left.pop(name)

    linear, matrices = layer_names(n_layers)
    out = {f"{ours}.{kind}": take(f"{theirs}.{kind}") for ours, theirs in linear for kind in ("weight", "bias")}
    out |= {ours: take(theirs + ".weight") for ours, theirs in matrices}
    for kind in ("weight", "bias"):
        out[f"embedding.radial.A.{kind}"] = sign * out[f"embedding.radial.A.{kind}"]
    pair, n = take("tensor_embedding.emb2.weight"), out["embedding.species"].shape[1]
    halves = [np.ascontiguousarray(pair[:, :n]), np.ascontiguousarray(pair[:, n:])]
    out["embedding.pair.neighbour"], out["embedding.pair.centre"] = halves if neighbor_first else halves[::-1]
    out["embedding.pair.bias"] = take("tensor_embedding.emb2.bias")
    if "bond_expansion.rbf.centers" in left:
        out["radial.centers"] = take("bond_expansion.rbf.centers")
    strange = sorted(set(left) - UNUSED)
    if strange:
        raise ModelError(f"{where}: nothing explains tensor 'model.{strange[0]}'")
    if "element_refs.property_offset" not in state:
        raise ModelError(f"{where}: the weights have no tensor 'element_refs.property_offset'")
    out["energy_offsets"] = state["element_refs.property_offset"].astype(np.float64)
    return out


def _basis(where, args):
    _require(where, "rbf_type", args["rbf_type"], ("SphericalBessel", "Gaussian"))
    if args["rbf_type"] == "Gaussian":
        return {"kind": "gaussian", "n": args["num_rbf"], "exponent": float(args["width"])}
    _require(where, "use_smooth", args["use_smooth"], (True,))
    return {"kind": "bessel_smooth", "n": args["max_n"]}


def _sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def read(folder):
    """(description, tensors) of a published folder."""
    where = os.path.join(folder, "model.json")
    kwargs, model = _configuration(where)
    try:
        convention, args = _convention(where, model), model["init_args"]
        for key, value in EXPECTED.items():
            _require(where, key, args[key], (value,))
        for key in ("calc_repuls", "calc_magmom"):
            _require(where, key, kwargs[key], (False,))
        _require(where, "activation_type", args["activation_type"], tuple(ACTIVATIONS))
        _require(where, "equivariance_invariance_group", args["equivariance_invariance_group"], tuple(GROUPS))
        state_path = os.path.join(folder, "state.pt")
        if not os.path.isfile(state_path):
            raise ModelError(f"{state_path}: no such file: expected a folder of matgl with model.json and state.pt")
        state = read_state_dict(state_path)
        if float(state["data_mean"]) != 0:
            raise ModelError(f"{state_path}: data_mean is {float(state['data_mean'])}, only 0 is supported")
        block = {
            "n_features": args["units"],
            "n_layers": args["nblocks"],
            "radial_basis": _basis(where, args),
            "cutoff_function": "cosine",
            "activation": ACTIVATIONS[args["activation_type"]],
            "group": GROUPS[args["equivariance_invariance_group"]],
            "message_from": CONVENTIONS[convention][0],
            "norm_epsilon": 1.0e-5,
            "energy_scale": float(state["data_std"]),
            "edge_vector": " - ".join(("neighbour", "centre")),
            "scalars_order": "3*channel + (0: I, 1: A, 2: S)",
        }
        source = {
            "architecture": "tensornet",
            "model": os.path.basename(os.path.normpath(folder)),
            "license": LICENSE,
            "source_sha256": {"state.pt": _sha256(state_path)},
            "units": {"energy": "eV", "length": "angstrom"},
            "elements": list(args["element_types"]),
            "cutoff": float(args["cutoff"]),
            "tensornet": block,
        }
        return source, _tensors(state_path, state, args["nblocks"], convention)
    except (KeyError, TypeError) as e:
        raise ModelError(f"{where}: is not a complete model of matgl: {e} is missing or of another type") from e
