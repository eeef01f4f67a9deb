"""The `mace` part of mlff_tools.convert: MACE networks from a description with safetensors weights.

Weights keep their bits; no factor is folded in.
"""

import os

import numpy as np

from ..model import modelfile, repulsion
from ..model.modelfile import ModelError
from . import mace_file
from .common import head_of, require, require_all, symbols_of
from .mace_file import CITATION

MIN_DISTANCE = 0.6  # A: nearer than any bond
# Kind of the blocks -> cutoff_applied_to, radial_mlp.kind, what the skips of a description are in a model file.
KINDS = {
    "plain": ("basis", "scaled", {"message": "messages", "species": "features"}),
    "nonlinear": ("weights", "layer_norm", {"linear": "features"}),
}
# What a description may say; other values are refused.
EXPECTED = {
    "cutoff_function.kind": "polynomial",
    "radial_mlp.activation": "silu",
    "spherical_harmonics.normalization": "component",
    "tensor_product.kind": "uvu",
    "tensor_product.coefficient": "sqrt(2*l3+1)",
    "tensor_product.cg_norm": 1.0,
    "linear_scale": "1/sqrt(fan_in)",
    "selector_scale": "1/sqrt(fan_in * n_elements)",
    "units.energy": "eV",
    "units.length": "angstrom",
}


def _check(source, where):
    require_all(source, EXPECTED, where)
    layers, kind = source["layer"], source["layer"][0]["kind"]
    if kind not in KINDS:
        raise ModelError(f"{where}: layer 0: kind is {kind!r}, which is not supported")
    cutoff_applied_to, network, skips = KINDS[kind]
    require(where, "cutoff_applied_to", source["cutoff_applied_to"], cutoff_applied_to)
    require(where, "radial_mlp.kind", source["radial_mlp"]["kind"], network)
    for t, layer in enumerate(layers):
        require(where, f"layer {t}: kind", layer["kind"], kind)
        require(where, f"layer {t}: agnostic_product", layer["agnostic_product"], layers[0]["agnostic_product"])
        if layer["skip"] not in skips:
            raise ModelError(f"{where}: layer {t}: skip is {layer['skip']!r}, which is not supported")
        if kind == "nonlinear":
            require(where, f"layer {t}: gate", layer["gate"], layers[0]["gate"])
            require(where, f"layer {t}: gate.scalar_activation", layer["gate"]["scalar_activation"], "silu")
            require(where, f"layer {t}: gate.gate_activation", layer["gate"]["gate_activation"], "sigmoid")
    last = len(layers) - 1
    for readout in source["readout"]:
        if readout["kind"] != "linear":
            if readout["kind"] not in ("mlp", "bias_mlp") or readout["layer"] != last:
                raise ModelError(f"{where}: readout {readout['layer']}: {readout['kind']!r} is not supported there")
            if readout["activation"] not in ("silu", "tanh"):
                raise ModelError(f"{where}: readout: activation is {readout['activation']!r}: use silu or tanh")
    found = [r["layer"] for r in source["readout"]]
    if found != [last]:
        require(where, "layers with a readout", found, list(range(last + 1)))


def _head_of(source, name, where):
    """Index of the head of a multi-head model."""
    heads, wanted = source["heads"], name or source["default_head"]
    if wanted is None:
        raise ModelError(f"{where}: has the heads {', '.join(heads)}: choose one by --head NAME")
    if wanted not in heads:
        raise ModelError(f"{where}: has no head '{wanted}': use one of {', '.join(heads)}")
    return heads.index(wanted)


def _products(source, tensors, out):
    """[rows, weights, ...] of each layer, order and degree; their tensors go to `out`."""
    numbers = []
    for t, layer in enumerate(source["layer"]):
        orders = range(1) if t == len(source["layer"]) - 1 else range(len(layer["irreps_out"]))
        for l in orders:
            for degree in range(1, _degree(layer) + 1):
                name = f"layers.{t}.product.L{l}.nu{degree}."
                if name + "index" not in tensors:
                    numbers += [0, 0]
                    continue
                index = tensors[name + "index"].astype(np.float64)
                value, weight = tensors[name + "value"].astype(np.float64), tensors[name + "weight"]
                target = f"layers.{t}.product.l{l}.degree_{degree}."
                out[target + "rows"] = np.concatenate([index, value[:, None]], 1)
                out[target + "weight"] = weight
                numbers += [len(value), weight.shape[1]]
    return numbers


def _radial_basis(source):
    basis = source["radial_basis"]
    if basis["kind"] not in ("bessel", "gaussian"):
        raise ModelError(f"radial_basis.kind is {basis['kind']!r}, which is not supported")
    found = {"kind": basis["kind"], "n": basis["n"]}
    return {**found, "coefficient": float(basis["coefficient"])} if basis["kind"] == "gaussian" else found


def _transform(source):
    transform = source["distance_transform"]
    if transform["kind"] == "agnesi":
        return {"kind": "agnesi", **{key: float(transform[key]) for key in "apq"}}
    if transform["kind"] == "soft":
        return {"kind": "soft", "a": float(transform["alpha"])}
    if transform["kind"] != "none":
        raise ModelError(f"distance_transform.kind is {transform['kind']!r}, which is not supported")
    return {"kind": "none"}


def _repulsion(source, elements, scale, where):
    """Block `repulsion`, or nothing."""
    zbl = source.get("pair_repulsion")
    if zbl is None:
        return {}
    require(where, "pair_repulsion.kind", zbl["kind"], "zbl")
    require(where, "pair_repulsion.c", zbl["c"], [c for c, _ in repulsion.MACE_TERMS])
    block = {
        "kind": "mace",
        "p": float(zbl["p"]),
        "exponent": float(zbl["a_exp"]),
        "prefactor": float(zbl["a_prefactor"]),
        "scale": float(scale) if source["pair_repulsion_scaled"] else 1.0,
        "radii": {e: float(radius) for e, radius in zip(elements, source["covalent_radii"])},
    }
    return {"repulsion": block}


def _degree(layer):
    return max(max(degrees, default=1) for degrees in layer["product"].values())


def _nonlinear(source, tensors):
    """What the blocks have beyond plain ones."""
    layers, gate = source["layer"], source["layer"][0]["gate"]
    widths = [[n for n, _ in layer["irreps_edge"]] for layer in layers]
    densities = {len(tensors[f"layers.{t}.density.0"]) for t in range(len(layers))}
    if any(width != widths[1] for width in widths[2:]) or len(densities) > 1:
        raise ModelError(
            f"edges with {widths} channels, densities with {sorted(densities)} units: layers must be alike"
        )
    return {
        "n_edge_first": widths[0][0],
        "n_edge": widths[-1],
        "n_density": densities.pop(),
        "norm_epsilon": float(source["radial_mlp"]["norm_epsilon"]),
        "activation_norm": float(gate["act_norm"]),
        "gate_norm": float(gate["gate_norm"]),
    }


def _block(source, tensors, out):
    layers, n_channels = source["layer"], source["layer"][0]["irreps_message"][0][0]
    nonlinear = layers[0]["kind"] == "nonlinear"
    keys = ("irreps_in", "irreps_message", "irreps_out") + (() if nonlinear else ("irreps_edge",))
    widths = {n for layer in layers for key in keys for n, _ in layer[key]}
    if widths != {n_channels}:
        raise ModelError(f"features with {sorted(widths)} channels: different numbers are not supported")
    readout = source["readout"][-1]
    block = {
        "n_layers": len(layers),
        "lmax": source["lmax"],
        "n_orders": len(layers[0]["irreps_out"]) if len(layers) > 1 else 1,
        "n_channels": n_channels,
        "degree": [_degree(layer) for layer in layers],
        "skip": [KINDS[layer["kind"]][2][layer["skip"]] for layer in layers],
        "products": _products(source, tensors, out),
        "divisor": ["density" if layer["density"] else "average" for layer in layers],
        "avg_num_neighbors": [float(layer["avg_num_neighbors"] or 1.0) for layer in layers],
        "radial_basis": _radial_basis(source),
        "distance_transform": _transform(source),
        "cutoff_function": {"kind": "polynomial", "p": float(source["cutoff_function"]["p"])},
        "radial_network": {
            "hidden": source["radial_mlp"]["layers"][1:],
            "activation_norm": 1.0 if nonlinear else float(source["radial_mlp"]["act_norm"]),
            "fan_in": "none" if nonlinear else "sqrt",
        },
        "n_readout": readout.get("width", 0),
        "activation": readout.get("activation", "silu"),
        "activation_norm": float(readout.get("act_norm", 1.0)),
    }
    if nonlinear:
        block["nonlinear"] = _nonlinear(source, tensors)
    if layers[0]["agnostic_product"]:
        block["product_weights"] = "common"
    if len(source["readout"]) < len(layers):
        block["readouts"] = "last"
    if readout["kind"] == "bias_mlp":
        block["n_readout_layers"] = 2
    return block


def _readout(source, tensors, head, out):
    """Rows of the readouts that belong to one head; returns the bias of its energy."""
    n_heads = len(source["heads"])
    for readout in source["readout"]:
        t = readout["layer"]
        if readout["kind"] == "linear":
            out[f"readout.{t}.0"] = tensors[f"readout.{t}.0"][head : head + 1]
            continue
        mine = slice(head * readout["width"], (head + 1) * readout["width"])
        out[f"readout.{t}.0"] = tensors[f"readout.{t}.0"][mine]
        if readout["kind"] == "mlp":
            out[f"readout.{t}.1"] = tensors[f"readout.{t}.1"][head : head + 1, mine] / np.sqrt(n_heads)
            continue
        out[f"readout.{t}.1"] = tensors[f"readout.{t}.1"][mine, mine] / np.sqrt(n_heads)
        out[f"readout.{t}.1.bias"] = tensors[f"readout.{t}.1.bias"][mine]
        out[f"readout.{t}.2"] = tensors[f"readout.{t}.2"][head : head + 1, mine] / np.sqrt(n_heads)
        return float(tensors[f"readout.{t}.2.bias"][head])
    return 0.0


def described_model(source, tensors, head_name, where):
    """(head, tensors) of the `mace` model that a description and its tensors define."""
    _check(source, where)
    head, out = _head_of(source, head_name, where), {}
    block = _block(source, tensors, out)
    try:
        bias = _readout(source, tensors, head, out)
        out["energy_scale"] = tensors["scale"][head : head + 1].astype(np.float64)
        shift = float(tensors["shift"][head]) + float(out["energy_scale"][0]) * bias
        offsets = tensors["atomic_energies"][head].astype(np.float64) + shift
        elements = symbols_of(source["atomic_numbers"], where)
        made = head_of(elements, source["cutoff"], {e: float(x) for e, x in zip(elements, offsets)}, block, "mace")
        made.update(_repulsion(source, elements, out["energy_scale"][0], where))
        if block["distance_transform"]["kind"] != "none":
            out["covalent_radii"] = np.array(source["covalent_radii"], dtype=np.float64)
        for t, layer in enumerate(source["layer"]):
            if layer["density"] and layer["kind"] == "plain":
                out[f"layers.{t}.density"] = tensors[f"layers.{t}.density.0"]
        for name in modelfile.mace_shapes(made):
            if name not in out:
                out[name] = tensors[name]
    except KeyError as e:
        raise ModelError(f"{where}: the weights have no tensor {e}") from e
    return made, out


def add_arguments(parser):
    parser.add_argument("--head", metavar="NAME", help="head of a model that has several (default: that of the file)")


def read(args, read_description):
    """(source, head, tensors) for the options of the command line."""
    described = args.source.endswith((".yaml", ".yml"))
    source, tensors = read_description(args.source, "mace") if described else mace_file.read(args.source)
    head, tensors = described_model(source, tensors, args.head, args.source)
    heads = source["heads"]
    if len(heads) > 1:
        name = f"{source.get('model', os.path.basename(args.source))}, head {heads[_head_of(source, args.head, '')]}"
        source["model"] = f"{name} of {', '.join(heads)}"
    provenance = {"citation": CITATION, "data_sha256": "none", **source.get("provenance", {})}
    return {"license": "unknown: see the source", "note": "", **source, "provenance": provenance}, head, tensors
