"""The part of against.py that knows the package nequip (PyTorch, e3nn)."""

import importlib.metadata
import re

import numpy as np

from ..convert.nequip_file import BUFFER, CONSTANTS, PARITY, TABLE
from ..convert.nequip_package import GAIN
from .against_base import Unsupported, edges, refuse, six
from .modelfile import nequip_layers
from .reference_nequip import clebsch_gordan

CONV = "layer{}_convnet.conv."
READOUT = "per_atom_energy_readout.mlp_module.mlp."


def version():
    """(major, minor) of the package that is installed."""
    return tuple(int(x) for x in re.findall(r"\d+", importlib.metadata.version("nequip"))[:2])


def _check(p):
    """Refuses what the package's constructor cannot make."""
    n_orders = 1 if p["n_layers"] == 1 else p["lmax"] + 1
    refuse(
        "nequip",
        {
            "paths": (p["paths"], "even" if version() >= PARITY else "all"),
            "embedding": (p["embedding"], "element"),
            "self_connection": (p.get("self_connection", "linear"), "element"),
            "norm": (p["norm"], {"kind": "none"}),
            "radial_basis": (p["radial_basis"]["kind"], "trained"),
            "cutoff_function": (p["cutoff_function"]["kind"], "polynomial"),
            "radial_network.fan_in": (p["radial_network"]["fan_in"], "sqrt"),
            "radial_network.activation_norm": (p["radial_network"]["activation_norm"], GAIN),
            "activation_norm": (p["activation_norm"], CONSTANTS["activation_norm"]),
            "readout_activation_norm": (p.get("readout_activation_norm", GAIN), GAIN),
            "number of orders": (len(p["n_channels"]), n_orders),
            "number of widths of the radial network": (len(set(p["radial_network"]["hidden"])), 1),
            "number of values of message_divisor": (len(set(p["message_divisor"])), 1),
            "number of widths of the readout": (len({*p["n_readout"]}), min(1, len(p["n_readout"]))),
        },
    )


def _options(head):
    """Arguments of NequIPGNNModel."""
    p, elements = head["nequip"], list(head["elements"])
    average = p["message_divisor"][0] ** 2
    if "neighbor_divisor" in p:
        average = {e: average * x**2 for e, x in zip(elements, p["neighbor_divisor"])}
    potential, readout = None, {}
    if p["n_readout"]:
        readout = {
            "readout_mlp_hidden_layers_depth": len(p["n_readout"]),
            "readout_mlp_hidden_layers_width": p["n_readout"][0],
            "readout_mlp_nonlinearity": "silu" if "readout_activation_norm" in p else None,
        }
    if "repulsion" in head:
        potential = {"_target_": "nequip.nn.pair_potential.ZBL", "units": "metal", "chemical_species": elements}
        if head["repulsion"]["p"] != 6:  # which is the only one before nequip 0.17
            potential["polynomial_cutoff_p"] = head["repulsion"]["p"]
    widths = (p["n_channels"] + [1] * p["lmax"])[: p["lmax"] + 1]
    return {
        "seed": 0,
        "model_dtype": "float64",
        "r_max": head["cutoff"],
        "type_names": elements,
        "num_layers": p["n_layers"],
        "l_max": p["lmax"],
        "parity": False,
        # the first versions have one number, also for the embedding
        "num_features": widths if len(set(widths)) > 1 else widths[0],
        **({"type_embed_num_features": p["n_embedding"]} if p["n_embedding"] != widths[0] else {}),
        "radial_mlp_depth": len(p["radial_network"]["hidden"]),
        "radial_mlp_width": p["radial_network"]["hidden"][0],
        **readout,
        "num_bessels": p["radial_basis"]["n"],
        "bessel_trainable": True,
        "polynomial_cutoff_p": p["cutoff_function"]["p"],
        "avg_num_neighbors": average,
        # trainable ones are by type in all versions
        **{f"per_type_energy_{kind}": 1.0 for kind in ("scales", "shifts")},
        **{f"per_type_energy_{kind}_trainable": True for kind in ("scales", "shifts")},
        "pair_potential": potential,
    }


def _radial(weight, paths, tables):
    """The last matrix of a radial network [columns, in] in the package's order and with the signs of its tables."""
    first = np.cumsum([0, *(path.mul for path in paths)])
    parts = {path[:3]: weight[a : a + path.mul] for path, a in zip(paths, first)}
    for key, table in tables.items():
        ours = clebsch_gordan(*key)
        sign = next((s for s in (1, -1) if np.abs(table - s * ours).max() < 1e-12), None)
        if sign is None:
            raise Unsupported(f"nequip has other coupling coefficients of orders {key}: is this version supported?")
        parts[key] = sign * parts[key]
    return np.concatenate([parts[key] for key in sorted(parts)])


def _values(head, tensors, tables):
    """Tensors of the file under the package's names. tables: layer -> orders -> coupling coefficients."""
    p = head["nequip"]
    out = {
        "type_embed.embed_module.weight": tensors["embedding"].T,
        "bessel_encode.bessel_weights": tensors["radial_frequencies"] * (head["cutoff"] / np.pi),
        "per_type_energy_scale_shift.scales": tensors["energy_scale"],
        "per_type_energy_scale_shift.shifts": np.array([head["energy_offsets"][e] for e in head["elements"]]),
    }
    last = len(p["radial_network"]["hidden"])
    for t, layer in enumerate(nequip_layers(head)):
        conv, name = CONV.format(t), f"layers.{t}."
        row = lambda kind, axes, t=t: np.concatenate(
            [np.transpose(tensors[k], axes).ravel() for k in sorted(tensors) if k.startswith(f"layers.{t}.{kind}.l")]
        )
        out[conv + "linear_1.weight"], out[conv + "linear_2.weight"] = row("linear_1", (1, 0)), row("linear_2", (1, 0))
        if t > 0:
            out[conv + "sc.weight"] = row("skip", (1, 2, 0))
        for k in range(last + 1):
            matrix = tensors[f"{name}radial_mlp.{k}"]
            matrix = _radial(matrix, layer.paths, tables.get(t, {})) if k == last else matrix
            out[f"{conv}edge_mlp.mlp.{2 * k}.weight"] = matrix.T
    readout = "weights.{}" if p["n_readout"] and "readout_activation_norm" not in p else "{}.weight"
    step = 1 if readout.startswith("weights") else 2
    for k in range(len(p["n_readout"]) + 1):
        out[READOUT + readout.format(step * k)] = tensors[f"readout.{k}"].T
    return out


class NequIP:
    """A network built by nequip in double."""

    def __init__(self, head, tensors):
        import torch
        from nequip.model import NequIPGNNModel
        from nequip.utils.global_state import set_global_state

        self.torch, self.cutoff = torch, head["cutoff"]
        _check(head["nequip"])
        set_global_state()
        torch.set_default_dtype(torch.float64)
        try:
            self.model = NequIPGNNModel(**_options(head)).eval()
        except (TypeError, ValueError) as e:
            found = importlib.metadata.version("nequip")
            raise Unsupported(f"nequip {found} cannot build this network, a newer one may: {e}") from e
        self.elements = {e: k for k, e in enumerate(head["elements"])}
        self._fill(head, tensors)

    def _fill(self, head, tensors):
        """Every parameter must have its value."""
        state = self.model.state_dict()
        place = "type_embed.embed_module.weight"
        prefix = next(name[: -len(place)] for name in state if name.endswith(place))
        tables = {}
        for name, value in state.items():
            found = re.search(CONV.format(r"(\d+)"), name)
            if found and TABLE.search(name):
                orders = tuple(int(l) for l in TABLE.search(name).groups())
                tables.setdefault(int(found[1]), {})[orders] = value.numpy()
        values = {prefix + name: value for name, value in _values(head, tensors, tables).items()}
        wanted = {name for name, value in state.items() if value.numel() and not BUFFER.search("." + name)}
        strange = sorted(wanted ^ set(values))
        if strange:
            raise Unsupported(f"nequip and the model file differ in '{strange[0]}': is this version supported?")
        for name, value in values.items():
            state[name] = self.torch.tensor(np.asarray(value, np.float64)).reshape(state[name].shape)
        self.model.load_state_dict(state)

    def evaluate(self, s):
        torch, periodic = self.torch, s["cell"] is not None
        torch.set_default_dtype(torch.float64)
        i, j, shifts, cell = edges(s, self.cutoff)
        real = lambda values: torch.tensor(np.asarray(values, np.float64))
        data = {
            "pos": real(s["positions"]),
            "atom_types": torch.tensor([self.elements[e] for e in s["elements"]]),
            "edge_index": torch.tensor(np.stack([i, j])),
            "num_nodes": torch.tensor([len(s["elements"])]),
        }
        if periodic:
            data.update(cell=real(cell)[None], edge_cell_shift=real(shifts))
        out = self.model(data)
        virial = None
        if periodic:
            virial = -six(out["stress"].detach().numpy().reshape(3, 3)) * abs(np.linalg.det(cell))
        return float(out["total_energy"].detach()), out["forces"].detach().numpy(), virial
