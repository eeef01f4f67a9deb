"""The part of against.py that knows matgl (PyTorch with PyTorch Geometric or DGL)."""

import importlib
import importlib.metadata
import os

import numpy as np

from ..convert.matgl import ACTIVATIONS, CONVENTIONS, GROUPS, UNUSED, layer_names
from .against_base import Unsupported, edges, fill, refuse, six

GPA = 160.21766208  # in 1 eV/A^3, as matgl has it
# Backend -> modules of the potential and the network, and the convention of their weights, newest last.
MODULES = {
    "DGL": [("matgl.apps._pes_dgl", "matgl.models._tensornet_dgl", "dgl-2025.1")],
    "PYG": [
        ("matgl.apps._pes_pyg", "matgl.models._tensornet_pyg", "pyg-2025.1"),
        ("matgl.apps.pes", "matgl.models._tensornet", "2025.2"),
    ],
}
MISSING = {
    "DGL": "computes messages from the center with DGL only: install matgl 2.0 to 2.2 and dgl",
    "PYG": "has no TensorNet for PyTorch Geometric: install matgl 2.0 or newer and torch-geometric",
}


def _package(message_from):
    """(backend, class of the potential, class of the network, convention) for a kind of message."""
    backend = "DGL" if message_from == "center" else "PYG"
    os.environ["MATGL_BACKEND"] = backend
    for potential, network, convention in MODULES[backend]:
        try:
            modules = [importlib.import_module(name) for name in (potential, network)]
        except ImportError:
            continue
        return backend, modules[0].Potential, modules[1].TensorNet, convention
    raise Unsupported(f"matgl {importlib.metadata.version('matgl')} {MISSING[backend]}")


def arguments(head):
    """Those of matgl's TensorNet."""
    p, names = head["tensornet"], {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    basis = p["radial_basis"]
    return {
        "element_types": list(head["elements"]),
        "units": p["n_features"],
        "nblocks": p["n_layers"],
        "num_rbf": basis["n"],
        "max_n": basis["n"],
        "rbf_type": "Gaussian" if basis["kind"] == "gaussian" else "SphericalBessel",
        "width": basis.get("exponent", 0.5),
        "use_smooth": True,
        "activation_type": {**names, "softplus": "softplus2"}[p["activation"]],
        "cutoff": head["cutoff"],
        "equivariance_invariance_group": {ours: theirs for theirs, ours in GROUPS.items()}[p["group"]],
        "is_intensive": False,
    }


def state(head, tensors, convention):
    """Tensors of the file under the names of matgl's network, in its convention."""
    linear, matrices = layer_names(head["tensornet"]["n_layers"])
    out = {f"{theirs}.{kind}": tensors[f"{ours}.{kind}"] for ours, theirs in linear for kind in ("weight", "bias")}
    out |= {theirs + ".weight": tensors[ours] for ours, theirs in matrices}
    _, neighbor_first, sign = CONVENTIONS[convention]
    for kind in ("weight", "bias"):
        out[f"tensor_embedding.distance_proj2.{kind}"] = sign * tensors[f"embedding.radial.A.{kind}"]
    halves = [tensors[f"embedding.pair.{end}"] for end in ("neighbor", "center")]
    out["tensor_embedding.emb2.weight"] = np.concatenate(halves if neighbor_first else halves[::-1], axis=1)
    out["tensor_embedding.emb2.bias"] = tensors["embedding.pair.bias"]
    if "radial.centers" in tensors:
        out["bond_expansion.rbf.centers"] = tensors["radial.centers"]
    return out


class TensorNet:
    """A network built by matgl, in double from the start: else constants of its radial functions are rounded."""

    def __init__(self, head, tensors):
        import torch

        p, self.torch, self.cutoff, self.elements = head["tensornet"], torch, head["cutoff"], list(head["elements"])
        refuse("matgl", {"norm_epsilon": (p["norm_epsilon"], 1e-5)})
        self.backend, potential, network, convention = _package(p["message_from"])
        import matgl

        matgl.set_default_dtype("float", 64)
        model = network(**arguments(head), dtype=torch.float64)
        kept = {name: value.numpy() for name, value in model.state_dict().items() if name in UNUSED}
        fill(torch, model, {**kept, **state(head, tensors, convention)})
        offsets = torch.tensor([head["energy_offsets"][e] for e in self.elements])
        self.model = potential(model, data_std=p["energy_scale"], element_refs=offsets).eval()

    def _graph(self, s, i, j, shifts, cell):
        torch, real = self.torch, lambda values: self.torch.tensor(np.asarray(values, np.float64))
        kinds = torch.tensor([self.elements.index(e) for e in s["elements"]])
        fractions = real(np.asarray(s["positions"], float) @ np.linalg.inv(cell))
        if self.backend == "DGL":
            import dgl

            graph = dgl.graph((torch.tensor(i), torch.tensor(j)), num_nodes=len(kinds))
            graph.edata["pbc_offset"] = real(shifts)
            graph.ndata["node_type"], graph.ndata["frac_coords"] = kinds, fractions
            return graph
        from torch_geometric.data import Data

        graph = Data(num_nodes=len(kinds), edge_index=torch.tensor(np.stack([i, j])))
        graph.pbc_offset, graph.node_type, graph.frac_coords = real(shifts), kinds, fractions
        return graph

    def evaluate(self, s):
        import matgl

        matgl.set_default_dtype("float", 64)
        i, j, shifts, cell = edges(s, self.cutoff)
        cell = np.eye(3) if s["cell"] is None else cell
        lattice = self.torch.tensor(cell)[None]
        energy, forces, stress, _ = self.model(self._graph(s, i, j, shifts, cell), lattice)
        virial = None
        if s["cell"] is not None:
            virial = -six(stress.detach().numpy().reshape(3, 3)) * abs(np.linalg.det(cell)) / GPA
        return float(energy.detach()), forces.detach().numpy(), virial
