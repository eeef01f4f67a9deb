"""MACE networks in float64 with numpy alone: the part of reference.py that evaluates `mace` models.

The mathematics is that of docs/model_file.md. Features of order l are x[l], arrays [atoms, channels, 2l + 1]. Vectors
point from the neighbor to the center. Gradients of the energy are called as the value, with a g before.
"""

from math import sqrt

import numpy as np

from .modelfile import nequip_paths
from .reference_nequip import (
    Messages,
    RadialNetwork,
    bessel,
    dsilu,
    harmonics,
    linear,
    linear_back,
    polynomial_cutoff,
    silu,
)


def radial_basis(head, tensors, r):
    """Radial functions times the cutoff function [E, n], and their derivatives."""
    cutoff, r = head["cutoff"], r[:, None]
    f, df = polynomial_cutoff(head["mace"]["cutoff_function"]["p"], cutoff, r)
    return bessel(sqrt(2 / cutoff), tensors["radial_frequencies"], r, f, df)


def _select(weight, species, x):
    """A matrix for each element: [S, n_out, n_in], [N, n_in, 2l+1] -> [N, n_out, 2l+1]."""
    return np.matmul(weight[species] / sqrt(weight.shape[0] * weight.shape[2]), x)


def _select_back(weight, species, g):
    return np.matmul(weight[species].transpose(0, 2, 1) / sqrt(weight.shape[0] * weight.shape[2]), g)


class _Polynomial:
    """P [N, C, 2l+1] of A [N, C, (lmax+1)^2], and its reverse."""

    def __init__(self, tensors, name, degree, l, species):
        self.l, self.parts = l, []
        for d in range(1, degree + 1):
            if f"{name}.degree_{d}.rows" not in tensors:
                continue
            rows, weight = tensors[f"{name}.degree_{d}.rows"], tensors[f"{name}.degree_{d}.weight"]
            index, value = rows[:, :-1].astype(int), rows[:, -1]
            self.parts += [(q[0], q[1:-1], v * weight[species, q[-1]]) for q, v in zip(index, value)]

    def forward(self, a):
        out = np.zeros((*a.shape[:2], 2 * self.l + 1))
        for m, index, c in self.parts:
            out[:, :, m] += c * np.prod(a[:, :, index], axis=2)
        return out

    def backward(self, a, g):
        ga = np.zeros_like(a)
        for m, index, c in self.parts:
            for q, i in enumerate(index):
                ga[:, :, i] += c * g[:, :, m] * np.prod(a[:, :, np.delete(index, q)], axis=2)
        return ga


class _Layer:
    """One layer: forward keeps what backward needs."""

    def __init__(self, head, tensors, t, species, edges):
        p = head["mace"]
        self.species, self.lmax, self.skip = species, p["lmax"], p["skip"][t]
        self.act_norm, self.is_last = p["activation_norm"], t == p["n_layers"] - 1
        self.radial = RadialNetwork(p["radial_network"], tensors, f"layers.{t}.radial_mlp")
        self.orders = range(1 if self.is_last else p["n_orders"])
        inputs = dict.fromkeys(range(p["n_orders"] if t else 1), p["n_channels"])
        paths, _ = nequip_paths(inputs, range(p["lmax"] + 1), p["lmax"], True)
        self.messages = Messages(paths, p["avg_num_neighbors"][t], edges)
        self.w = {
            kind: {l: tensors[f"layers.{t}.{kind}.l{l}"] for l in range(4) if f"layers.{t}.{kind}.l{l}" in tensors}
            for kind in ("linear_up", "linear", "skip", "product.linear")
        }
        self.products = [
            _Polynomial(tensors, f"layers.{t}.product.l{l}", p["degree"][t], l, species) for l in self.orders
        ]
        self.readout = [tensors[f"readout.{t}.{k}"] for k in range(2) if f"readout.{t}.{k}" in tensors]

    def forward(self, x, basis):
        """Features after the layer, and what its readout gives, [N]."""
        self.x = x
        mixed = {l: linear(self.w["linear_up"][l], v) for l, v in x.items()}
        n_rows = {l: w.shape[1] for l, w in self.w["linear"].items()}
        sums = self.messages.forward(mixed, self.radial.forward(basis), n_rows)
        z = {l: linear(self.w["linear"][l], v) for l, v in sums.items()}
        if self.skip == "messages":
            z = {l: _select(self.w["skip"][l], self.species, v) for l, v in z.items()}
        self.a = np.concatenate([z[l] for l in range(self.lmax + 1)], 2)
        out = {l: linear(self.w["product.linear"][l], p.forward(self.a)) for l, p in zip(self.orders, self.products)}
        if self.skip == "features":
            for l in self.w["skip"]:
                out[l] = out[l] + _select(self.w["skip"][l], self.species, x[l])
        return out, self._read(out[0])

    def _read(self, x):
        self.hidden = linear(self.readout[0], x)
        if len(self.readout) == 1:
            return self.hidden[:, 0, 0]
        return linear(self.readout[1], silu(self.hidden) / self.act_norm)[:, 0, 0]

    def _read_back(self, scale):
        g = np.full((len(self.species), 1, 1), scale)
        if len(self.readout) == 2:
            g = linear_back(self.readout[1], g) * dsilu(self.hidden) / self.act_norm
        return linear_back(self.readout[0], g)

    def backward(self, gx, gy, scale):
        """Gradients of the inputs and of the radial functions from that of the outputs; adds to gy[l], [E, 2l+1]."""
        gx = {**gx, 0: gx.get(0, 0) + self._read_back(scale)}
        gin = {l: np.zeros_like(v) for l, v in self.x.items()}
        ga = np.zeros_like(self.a)
        for l, p in zip(self.orders, self.products):
            ga += p.backward(self.a, linear_back(self.w["product.linear"][l], gx[l]))
        gz = {l: ga[:, :, l * l : (l + 1) ** 2] for l in range(self.lmax + 1)}
        for l, w in self.w["skip"].items():
            if self.skip == "messages":
                gz[l] = _select_back(w, self.species, gz[l])
            else:
                gin[l] += _select_back(w, self.species, gx[l])
        gsums = {l: linear_back(self.w["linear"][l], g) for l, g in gz.items()}
        gmixed, gweights = self.messages.backward(gsums, gy)
        for l, g in gmixed.items():
            gin[l] += linear_back(self.w["linear_up"][l], g)
        return gin, self.radial.backward(gweights)


def mace(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a `mace` model, in the file's energy unit, without offsets."""
    p = head["mace"]
    r = np.linalg.norm(vectors, axis=1)
    u = -vectors / r[:, None]
    y, dy = harmonics(u, p["lmax"])
    basis, dbasis = radial_basis(head, tensors, r)
    layers = [_Layer(head, tensors, t, species, (i, j, y, len(species))) for t in range(p["n_layers"])]
    x, energy = {0: tensors["embedding"].T[species][:, :, None] / sqrt(len(head["elements"]))}, np.zeros(len(species))
    scale = float(tensors["energy_scale"][0])
    for layer in layers:
        x, more = layer.forward(x, basis)
        energy += scale * more

    gx, gy, gbasis = {}, [np.zeros_like(v) for v in y], np.zeros_like(basis)
    for layer in reversed(layers):
        gx, more = layer.backward(gx, gy, scale)
        gbasis += more
    gr = (gbasis * dbasis).sum(1)
    gu = sum(np.einsum("ek,eka->ea", g, d) for g, d in zip(gy, dy))
    return energy, -(gr[:, None] * u + (gu - u * (u * gu).sum(1, keepdims=True)) / r[:, None])
