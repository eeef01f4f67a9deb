"""Fast training of `mace` on a CPU: moments of the neighbors and polynomials of them in C (moments.c), the dense parts
in PyTorch, one core.

Forces and virials are a linear map of g = dE/dD, F = J^T g, and J depends on the positions alone. So the gradient of
the loss by g is D' = J applied to its gradient by forces and virials, and the gradient of the loss by the weights is
that of sum a_i E_i(D) + dE(D + t D')/dt, a function that is differentiated once.
"""

import ctypes
import functools

import torch
from torch.nn.functional import silu

from .. import losses
from ..networks import edge_forces, edge_virials
from . import cpu

KNOTS = 768  # of the tables of radial functions


class _Edges(ctypes.Structure):
    _fields_ = [
        *((k, ctypes.c_int64) for k in ("n_atoms", "n_species", "n_knots")),
        *((k, ctypes.c_void_p) for k in ("row", "nbr", "species", "vector", "table")),
        ("spacing", ctypes.c_float),
    ]


class _Terms(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int64), ("index", ctypes.c_void_p), ("value", ctypes.c_void_p)]


def _pointer(tensor):
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


class Product(torch.autograd.Function):
    """P [N, C] of A [components, N, C], and its change along the change A' of A; without A' both are P."""

    @staticmethod
    def forward(ctx, a, change, weight, species, fast):
        a, weight = a.contiguous(), weight.contiguous()
        change = None if change is None else change.contiguous()
        out = a.new_empty(a.shape[1:])
        out_change = out if change is None else torch.empty_like(out)
        n = ctypes.c_int64(len(species))
        arrays = (_pointer(species), _pointer(a), _pointer(change), _pointer(weight))
        fast.lib.product(ctypes.byref(fast.terms), n, *arrays, _pointer(out), _pointer(out_change))
        ctx.save_for_backward(a, weight, species, *([] if change is None else [change]))
        ctx.fast = fast
        return out, None if change is None else out_change

    @staticmethod
    def backward(ctx, g, g_change):
        a, weight, species, *rest = ctx.saved_tensors
        change = rest[0] if rest else None
        g = g.contiguous()
        g_change = g_change.contiguous() if rest else None
        g_a, g_a_change = torch.empty_like(a), torch.empty_like(change) if rest else None
        g_weight = torch.zeros_like(weight) if ctx.needs_input_grad[2] else None
        ctx.fast.lib.product_backward(
            ctypes.byref(ctx.fast.terms),
            ctypes.c_int64(len(species)),
            *(_pointer(x) for x in (species, a, change, weight, g, g_change, g_a, g_a_change, g_weight)),
        )
        return g_a, g_a_change, g_weight, None, None


class FastMace:
    """The network of networks_mace.Mace, with the same parameters."""

    def __init__(self, network, folder):
        self.network, self.batch, self._table = network, functools.partial(cpu.Batch, network), None
        sizes = {"K": network.n_basis, "M": network.n_components, "C": network.n_channels, "P": network.n_invariants}
        self.lib = cpu.library("moments.c", sizes, folder, ["-ffast-math"])
        self._index = torch.tensor(network.terms, dtype=torch.int32)
        self._value = torch.tensor(network.values, dtype=torch.float32)
        self.terms = _Terms(len(self._value), self._index.data_ptr(), self._value.data_ptr())

    def table(self):
        """Values and slopes of the radial functions at the knots [knots, 2, K]; made once they are orthonormal."""
        if self._table is None or self._table[0] is not self.network.transform:
            spacing = self.network.cutoff / KNOTS
            value, slope = self.network.radial(spacing * torch.arange(KNOTS + 1, dtype=torch.float64))
            self._table = (self.network.transform, torch.stack([value, spacing * slope], 1).float())
        return self._table[1]

    def prepare(self, frame_class):
        """Adds to a frames.FrameClass what a step needs."""
        cpu.prepare(frame_class, self.network.cutoff)

    def _edges(self, batch):
        arrays = (batch.row, batch.nbr, batch.species, batch.seen, self.table())
        return _Edges(
            len(batch.species),
            self.network.n_elements,
            KNOTS,
            *(x.data_ptr() for x in arrays),
            self.network.cutoff / KNOTS,
        )

    def _moments(self, batch, edges, change=None):
        """D [N, elements * K, components], or its change when the vectors of edges change [E, 3]."""
        net = self.network
        out = torch.zeros(len(batch.species), net.n_elements * net.n_basis, net.n_components)
        if change is None:
            self.lib.moments(ctypes.byref(edges), _pointer(out))
        else:
            self.lib.push(ctypes.byref(edges), _pointer(change), _pointer(out))
        return out

    def _evaluate(self, p, batch, edges, moments):
        net, p = self.network, {k: v.detach() for k, v in p.items()}
        moments = moments.requires_grad_()
        a = net.channels(p, moments, batch.species)
        products, _ = Product.apply(a, None, p["product"], batch.species, self)
        nodes = net.readout(p, products, batch.species)
        (g,) = torch.autograd.grad(nodes.sum(), moments)
        g, gradient, nodes = g.contiguous(), torch.empty(len(batch.nbr), 3), nodes.detach()
        self.lib.pull(ctypes.byref(edges), _pointer(g), _pointer(gradient))
        energies = torch.zeros(len(batch.energy)).index_add(0, batch.frame, nodes)
        gradient = batch.own(gradient)
        forces = edge_forces(gradient, batch.centre, batch.nbr.long(), len(nodes))
        virials = edge_virials(gradient, batch.vectors, batch.frame[batch.centre], len(energies))
        return losses.outputs(*(x.unsqueeze(0) for x in (energies, forces, virials, nodes)))

    def evaluate(self, p, batch):
        """losses.outputs of a batch, without weights in the graph."""
        edges = self._edges(batch)
        return self._evaluate(p, batch, edges, self._moments(batch, edges))

    def gradient(self, p, batch, keep, weights, limits):
        """Gradient of losses.loss by each parameter (list), and its terms."""
        net, species, edges = self.network, batch.species, self._edges(batch)
        moments = self._moments(batch, edges)
        out = self._evaluate(p, batch, edges, moments)
        slopes, terms = cpu.gradients(out, batch, keep, weights, limits)
        by_forces, by_virials = slopes.forces[0], 0.5 * (slopes.virials[0] + slopes.virials[0].mT)
        change = by_forces[batch.centre] - by_forces[batch.nbr.long()]
        change += (batch.vectors.unsqueeze(1) @ by_virials[batch.frame[batch.centre]]).squeeze(1)
        change = self._moments(batch, edges, batch.own(change))
        a, a_change = net.channels(p, moments.detach(), species), net.channels(p, change, species, shift=False)
        products, products_change = Product.apply(a, a_change, p["product"], species, self)
        hidden = (products + p["constant.bias"].index_select(0, species)) @ p["readout.0"].T
        sigmoid = torch.sigmoid(hidden)
        slope = sigmoid * (1 + hidden * (1 - sigmoid))
        last = p["readout.1"].T
        nodes = (silu(hidden) @ last).squeeze(1)
        nodes_change = (slope * (products_change @ p["readout.0"].T)) @ last
        by_node = slopes.nodes[0] + slopes.energies[0][batch.frame]
        total = (nodes * by_node).sum() + nodes_change.sum()
        return torch.autograd.grad(total, list(p.values()), materialize_grads=True), terms
