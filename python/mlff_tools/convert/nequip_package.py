"""The part of mlff_tools.convert for models of the package `nequip` (github.com/mir-group/nequip), from a description
with safetensors weights. Checkpoints are read in nequip_file.py.

Weights keep their bits, but radial weights are sorted and wave numbers are 1/A.
"""

import math

import numpy as np

from ..model import modelfile
from ..model.modelfile import ModelError
from .common import head_of, require, require_all, symbols_of

CITATION = (
    "S. Batzner, A. Musaelian, L. Sun, M. Geiger, J. P. Mailoa, M. Kornbluth, N. Molinari, T. E. Smidt, B. Kozinsky, "
    "E(3)-equivariant graph neural networks for data-efficient and accurate interatomic potentials, Nature "
    "Communications 13, 2453 (2022), doi:10.1038/s41467-022-29939-5; C. W. Tan et al., High-performance training and "
    "inference for deep equivariant interatomic potentials, arXiv:2504.16068 (2025)"
)
# What a description may say; other values are refused.
EXPECTED = {
    "cutoff_function.kind": "polynomial",
    "radial_mlp.activation": "silu",
    "radial_mlp.gain": "sqrt(2) from the second layer on",
    "radial_mlp.linear_scale": "1/sqrt(fan_in)",
    "units.energy": "eV",
    "units.length": "angstrom",
}
GAIN = 1 / math.sqrt(2)  # as a divisor of silu
MOST_UNITS = 64  # of the readout


def _chain(tensors, name):
    """Outputs of the layers name.0, name.1, ..."""
    widths = []
    while f"{name}.{len(widths)}" in tensors:
        widths.append(len(tensors[f"{name}.{len(widths)}"]))
    return widths


def _channels(layers, where):
    """Channels of each order, the same in all layers."""
    hidden = layers[0]["irreps_out"] if len(layers) > 1 else layers[0]["irreps_out"][:1]
    for t, layer in enumerate(layers):
        inputs, outputs = layer["irreps_in"], hidden if t < len(layers) - 1 else hidden[:1]
        if layer["irreps_out"] != outputs or (t and inputs != hidden):
            raise ModelError(f"{where}: layer {t} has other features than layer 0, which is not supported")
    if [l for _, l in hidden] != list(range(len(hidden))):
        raise ModelError(f"{where}: features of orders {[l for _, l in hidden]}: expected 0, 1, 2, ...")
    return [mul for mul, _ in hidden]


def _block(source, tensors, where):
    layers = source["layer"]
    average = np.atleast_1d(tensors["avg_num_neighbors"]).astype(np.float64)
    readout = _chain(tensors, "readout")[:-1]
    activation = source.get("readout_activation", "silu")
    if readout and activation not in ("silu", "none"):
        raise ModelError(f"{where}: readout activation {activation!r} is not supported (possible: silu, none)")
    if activation == "silu" and (len(readout) > 1 or max(readout, default=0) > MOST_UNITS):
        raise ModelError(
            f"{where}: a readout with hidden layers of {readout} units is not supported: expected one of at most "
            f"{MOST_UNITS}"
        )
    block = {
        "n_layers": len(layers),
        "n_channels": _channels(layers, where),
        "lmax": source["lmax"],
        "paths": source.get("paths", "even"),
        "embedding": "element",
        "n_embedding": tensors["type_embedding"].shape[1],
        "self_connection": "element",
        "message_divisor": [math.sqrt(average[0]) if len(average) == 1 else 1.0] * len(layers),
        "radial_basis": {"kind": "trained", "n": len(tensors["bessel_weights"])},
        "cutoff_function": {"kind": "polynomial", "p": float(source["cutoff_function"]["p"])},
        "radial_network": {
            "hidden": _chain(tensors, "layers.0.radial_mlp")[:-1],
            "activation_norm": GAIN,
            "fan_in": "sqrt",
        },
        "norm": {"kind": "none"},
        "activation_norm": float(source["activation_norm"]),
        "n_readout": readout,
    }
    if readout and activation == "silu":
        block["readout_activation_norm"] = GAIN
    if len(average) > 1:
        block["neighbor_divisor"] = [math.sqrt(x) for x in average]
    return block


def _columns(layer, described, where):
    """Positions in the file of the radial weights of a layer in our order."""
    files = {tuple(path[:3]): path[3:] for path in described["paths"]}
    ours = {path[:3]: path for path in layer.paths}
    if set(files) != set(ours) or any(files[key][0] != ours[key].mul for key in ours):
        raise ModelError(f"{where}: has other paths than its features give")
    return np.concatenate([np.arange(files[p[:3]][1], files[p[:3]][1] + p.mul) for p in layer.paths])


def described_model(source, tensors, where):
    """(head, tensors) of the `nequip` model that a description and its tensors define."""
    require_all(source, EXPECTED, where)
    potential, out = source.get("pair_potential"), dict(tensors)
    try:
        block = _block(source, tensors, where)
        elements = symbols_of(source["atomic_numbers"], where)
        offsets = out.pop("shift").astype(np.float64)
        head = head_of(elements, source["cutoff"], {e: float(x) for e, x in zip(elements, offsets)}, block)
        if potential:
            require(where, "pair_potential.kind", potential["kind"], "zbl")
            head["repulsion"] = {"kind": "nequip", "p": float(potential["p"])}
        out["energy_scale"] = out.pop("scale").astype(np.float64)
        out["embedding"] = np.ascontiguousarray(out.pop("type_embedding").T)
        out["radial_frequencies"] = out.pop("bessel_weights").astype(np.float64) * (np.pi / source["cutoff"])
        del out["avg_num_neighbors"]
        last = len(block["radial_network"]["hidden"])
        for t, (layer, described) in enumerate(zip(modelfile.nequip_layers(head), source["layer"])):
            columns = _columns(layer, described, f"{where}: layer {t}")
            out[f"layers.{t}.radial_mlp.{last}"] = out[f"layers.{t}.radial_mlp.{last}"][columns]
    except KeyError as e:
        raise ModelError(f"{where}: the weights have no tensor {e}") from e
    return head, out
