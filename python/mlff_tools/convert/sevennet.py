"""Reader of SevenNet checkpoints (.pth of sevenn 0.9 to 0.13): numpy only, and no code in the file is executed.

Networks with plain self connections and without parity are supported: SevenNet-0 and SevenNet-l3i5 are. Their flat
weights are cut into one matrix per order; nothing is folded in.
"""

import re

import numpy as np

from ..model import modelfile
from ..model.modelfile import SYMBOLS, ModelError
from ..model.reference_nequip import clebsch_gordan
from . import checkpoints

CITATION = "Y. Park, J. Kim, S. Hwang, S. Han, J. Chem. Theory Comput. 20, 4857 (2024), doi:10.1021/acs.jctc.4c00190"
# 1 / e3nn.math.normalize2mom(silu): a mean over a million fixed random numbers, not the exact 0.5964692.
ACTIVATION_NORM = 0.595529907587252
NEWEST = (0, 13)
# Required settings of a checkpoint: (value, default of the package).
EXPECTED = {
    "is_parity": (False, False),
    "interaction_type": ("nequip", "nequip"),
    "radial_basis.radial_basis_name": ("bessel", "bessel"),
    "act_radial": ("silu", "silu"),
    "act_scalar.e": ("silu", "silu"),
    "act_gate.e": ("silu", "silu"),
    "use_bias_in_linear": (False, False),
    "use_modality": (False, False),
    "readout_as_fcn": (False, False),
    "optimize_by_reduce": (True, True),
}
# Constants of e3nn among the tensors, which the network itself defines.
CONSTANT = re.compile(r"(output_mask|linear\.bias|convolution\.weight|gate\.mul\.weight|_w3j_\d_\d_\d)$")


def _version(config, where):
    """(release as three numbers, whether radial weights are in the order and with the signs of sevenn before 0.11)."""
    text = str(config.get("version", ""))
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(.*)$", text)
    if not match:
        raise ModelError(f"{where}: its configuration has no version of sevenn, only {text!r}")
    release = tuple(int(x or 0) for x in match.groups()[:3])
    if release[:2] > NEWEST:
        raise ModelError(
            f"{where}: was written by sevenn {text}: versions up to {NEWEST[0]}.{NEWEST[1]} have been checked. "
            "If a newer one loads it with the same energies, save it with an older one"
        )
    return release, release < (0, 11, 0) or (release == (0, 11, 0) and "dev0" in match[4])


def _check(config, release, where):
    """Refuses, by name, what the engine does not have."""
    for path, (expected, standard) in EXPECTED.items():
        value = config
        for key in path.split("."):
            value = value.get(key, standard) if isinstance(value, dict) else standard
        if value != expected:
            raise ModelError(f"{where}: {path} is {value!r}, which is not supported (possible: {expected!r})")
    kinds = config.get("self_connection_type", "nequip")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind != "linear":
            raise ModelError(f"{where}: self_connection_type is {kind!r}, which is not supported (possible: 'linear')")
    if not config.get("_normalize_sph", release >= (0, 10, 0)):
        raise ModelError(f"{where}: _normalize_sph is False (harmonics times r^l), which is not supported")


def _channels(config, where):
    """Channels of order 0, 1, ... of every layer's output, from that of the embedding on."""
    n_layers, manual = int(config["num_convolution_layer"]), config.get("irreps_manual", False)
    if manual is False:
        node = config["lmax_node"] if config.get("lmax_node", -1) > 0 else config["lmax"]
        one = [int(config["channel"])]
        return [one] + [one * (node + 1)] * (n_layers - 1) + [one]
    out = []
    for text in manual:
        parts = [re.match(r"(\d+)x(\d)e$", part) for part in str(text).replace(" ", "").split("+")]
        if not all(parts) or [int(m[2]) for m in parts] != list(range(len(parts))) or len(parts) > 4:
            raise ModelError(
                f"{where}: irreps '{text}' are not supported: possible are orders 0 to 3 in this order, all of parity e"
            )
        out.append([int(m[1]) for m in parts])
    if len(out) != n_layers + 1:
        raise ModelError(f"{where}: irreps_manual has {len(out)} entries for {n_layers} layers")
    inner = out[1:-1] or [out[0]]
    if len(out[0]) != 1 or len(out[-1]) != 1 or out[0] != out[-1] or any(o != inner[0] for o in inner):
        raise ModelError(f"{where}: irreps_manual {manual}: layers of different widths are not supported")
    if inner[0][0] != out[0][0]:
        raise ModelError(f"{where}: irreps_manual {manual}: another number of scalars at both ends is not supported")
    return out


def _cutoff_function(config, where):
    function = config["cutoff_function"]
    kind = function.get("cutoff_function_name", "poly_cut")
    if kind == "poly_cut":
        return {"kind": "polynomial", "p": float(function.get("poly_cut_p_value", 6))}
    if kind != "XPLOR":
        raise ModelError(f"{where}: cutoff function {kind!r} is not supported (possible: 'poly_cut', 'XPLOR')")
    return {"kind": "xplor", "onset": float(function["cutoff_on"])}


class _State:
    """Tensors of a checkpoint, taken one by one until nothing is left."""

    def __init__(self, tensors, where):
        self.left, self.where = dict(tensors), where

    def take(self, name, shape=None):
        tensor = self.left.pop(name, None)
        if not isinstance(tensor, np.ndarray):
            raise ModelError(f"{self.where}: the weights have no tensor '{name}'")
        if shape is not None and tensor.shape != tuple(shape):
            raise ModelError(f"{self.where}: tensor '{name}' has shape {list(tensor.shape)}, expected {list(shape)}")
        return tensor

    def linear(self, name, inputs, outputs):
        """{order: [out, in]} of a linear layer of e3nn, whose weights are one row of matrices [in, out]."""
        orders = [l for l in inputs if l in outputs]
        flat, out, first = self.take(name + ".linear.weight"), {}, 0
        if flat.size != sum(inputs[l] * outputs[l] for l in orders):
            raise ModelError(f"{self.where}: tensor '{name}.linear.weight' has {flat.size} numbers, which do not fit")
        for l in orders:
            n = inputs[l] * outputs[l]
            out[l] = flat.ravel()[first : first + n].reshape(inputs[l], outputs[l]).T
            first += n
        return out

    def finish(self):
        strange = sorted(name for name in self.left if not CONSTANT.search(name))
        if strange:
            raise ModelError(f"{self.where}: nothing explains tensor '{strange[0]}': a layer that is not supported")


def repaired(weight, paths, table, where):
    """Radial weights [n, in] of sevenn before 0.11 as later ones have them.

    There they are in the order l1, l2, l3, and some of e3nn's tables, which `table`(l1, l2, l3) gives as the file has
    them, have the other sign."""
    out, first = np.empty_like(weight), 0
    for path in sorted(paths, key=lambda p: p[:3]):
        rows, sign = weight[first : first + path.mul], 1
        if min(path[:3]) > 0:
            old, new = table(*path[:3]), clebsch_gordan(*path[:3])
            sign = next((s for s in (1, -1) if np.shape(old) == new.shape and np.abs(old - s * new).max() < 1e-5), 0)
            if not sign:
                raise ModelError(
                    f"{where}: the table of orders {path[:3]} is none of e3nn's, and weights of sevenn before 0.11 "
                    "cannot be understood without it"
                )
        out[path.column : path.column + path.mul] = sign * rows
        first += path.mul
    return out


def _layer(state, config, t, shape, old):
    """Tensors of layer t under the names of model files, and what it divides messages by."""
    out, name, n_hidden = {}, f"layers.{t}.", len(config["weight_nn_hidden_neurons"])
    for k in range(n_hidden + 1):
        out[f"{name}radial_mlp.{k}"] = state.take(f"{t}_convolution.weight_nn.layer{k}.weight").T
    last = out[f"{name}radial_mlp.{n_hidden}"]
    if len(last) != shape.n_weights:
        raise ModelError(f"{state.where}: layer {t} has {len(last)} radial weights, its irreps {shape.n_weights}")
    if old:
        prefix = f"{t}_convolution.convolution._compiled_main_left_right._w3j"
        table = lambda *l: state.left.get("_".join([prefix, *map(str, l)]))
        out[f"{name}radial_mlp.{n_hidden}"] = repaired(last, shape.paths, table, state.where)
    rows = {l: shape.rows(l) for l in shape.sums}
    for ours, theirs, inputs, outputs in (
        ("linear_1", "self_interaction_1", shape.inputs, shape.inputs),
        ("linear_2", "self_interaction_2", rows, shape.sums),
        ("skip", "self_connection_intro", shape.inputs, shape.sums),
    ):
        for l, weight in state.linear(f"{t}_{theirs}", inputs, outputs).items():
            out[f"{name}{ours}.l{l}"] = weight
    return out, float(state.take(f"{t}_convolution.denominator").ravel()[0])


def _species(config, where):
    """Elements in the order of the weights."""
    index = config.get("_type_map")
    if not isinstance(index, dict) or sorted(index.values()) != list(range(len(index))):
        raise ModelError(f"{where}: its configuration has no _type_map of atomic numbers")
    return [SYMBOLS[z] for z, _ in sorted(index.items(), key=lambda item: item[1])]


def _block(config, channels, n_functions, where):
    return {
        "n_layers": int(config["num_convolution_layer"]),
        "n_channels": (channels[1:-1] or channels)[0],
        "lmax": int(config["lmax_edge"] if config.get("lmax_edge", -1) > 0 else config["lmax"]),
        "paths": "all",
        "embedding": "linear",
        "message_divisor": [1.0] * int(config["num_convolution_layer"]),
        "radial_basis": {"kind": "trained", "n": n_functions},
        "cutoff_function": _cutoff_function(config, where),
        "radial_network": {
            "hidden": [int(n) for n in config["weight_nn_hidden_neurons"]],
            "activation_norm": ACTIVATION_NORM,
            "fan_in": "sqrt",
        },
        "norm": {"kind": "none"},
        "activation_norm": ACTIVATION_NORM,
        "n_readout": [channels[-1][0] // 2],
    }


def _checkpoint(path):
    """(configuration, tensors) of the file."""
    checkpoint = checkpoints.read_checkpoint(path)
    parts = [checkpoint.get(k) for k in ("config", "model_state_dict")] if isinstance(checkpoint, dict) else [None]
    if not all(isinstance(part, dict) for part in parts):
        raise ModelError(f"{path}: not a checkpoint of SevenNet: it has no config and model_state_dict")
    return parts


def model(path, make_head):
    """(head, tensors) of the `nequip` model in a checkpoint; make_head(elements, cutoff, offsets, block)."""
    config, tensors = _checkpoint(path)
    release, old = _version(config, path)
    _check(config, release, path)
    state, elements, channels = _State(tensors, path), _species(config, path), _channels(config, path)
    frequencies = state.take("edge_embedding.basis_function.coeffs")
    block, n = _block(config, channels, len(frequencies), path), len(elements)
    out = {"radial_frequencies": frequencies}
    out["embedding"] = state.linear("onehot_to_feature_x", {0: n}, {0: channels[0][0]})[0]
    head = make_head(elements, config["cutoff"], {}, block)
    for t, shape in enumerate(modelfile.nequip_layers(head)):
        more, block["message_divisor"][t] = _layer(state, config, t, shape, old)
        out.update(more)
    widths = [channels[-1][0], block["n_readout"][0], 1]
    for k, name in enumerate(("reduce_input_to_hidden", "reduce_hidden_to_energy")):
        out[f"readout.{k}"] = state.linear(name, {0: widths[k]}, {0: widths[k + 1]})[0]
    scale, shift = (np.ravel(state.take(f"rescale_atomic_energy.{k}")) for k in ("scale", "shift"))
    if len(scale) not in (1, n) or len(shift) not in (1, n):
        raise ModelError(f"{path}: scale and shift have {len(scale)} and {len(shift)} numbers for {n} elements")
    out["energy_scale"] = np.broadcast_to(scale, n).astype(np.float64)
    head["energy_offsets"] = {e: float(x) for e, x in zip(elements, np.broadcast_to(shift, n))}
    state.finish()
    return head, {name: np.ascontiguousarray(tensor) for name, tensor in out.items()}
