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


def transformed(transform, radii, r):
    """What radial functions take instead of the distance r [E, 1], and its derivative. radii: R_i + R_j [E, 1]."""
    if transform["kind"] == "none":
        return r, np.ones_like(r)
    if transform["kind"] == "soft":
        low, high = 0.75 * radii, 4 / 3 * radii
        scale = transform["a"] / (high - low)
        step = np.tanh(scale * (r - 0.5 * (low + high)))
        return low + 0.5 * (r - low) * (1 + step), 0.5 * (1 + step) + 0.5 * (r - low) * (1 - step**2) * scale
    a, p, q = (transform[key] for key in "apq")
    x = 2 * r / radii
    n, m = x**q, 1 + x ** (q - p)
    t = 1 / (1 + a * n / m)
    slope = q * x ** (q - 1) / m - n * (q - p) * x ** (q - p - 1) / m**2
    return t, -(t**2) * a * slope * 2 / radii


def radial_basis(head, tensors, r, radii):
    """Radial functions times the cutoff function [E, n], and their derivatives. radii: sums of covalent radii [E]."""
    cutoff, r, p = head["cutoff"], r[:, None], head["mace"]
    f, df = polynomial_cutoff(p["cutoff_function"]["p"], cutoff, r)
    t, dt = transformed(p["distance_transform"], radii[:, None], r)
    if p["radial_basis"]["kind"] == "gaussian":
        x, c = t - tensors["radial_centers"], p["radial_basis"]["coefficient"]
        b = np.exp(c * x * x)
        return b * f, 2 * c * x * b * dt * f + b * df
    b, db = bessel(sqrt(2 / cutoff), tensors["radial_frequencies"], t, np.ones_like(t), np.zeros_like(t))
    return b * f, db * dt * f + b * df


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
        self.activation = (np.tanh, lambda v: 1 - np.tanh(v) ** 2) if p["activation"] == "tanh" else (silu, dsilu)
        self.act_norm, self.is_last = p["activation_norm"], t == p["n_layers"] - 1
        self.radial = RadialNetwork(p["radial_network"], tensors, f"layers.{t}.radial_mlp")
        self.orders = range(1 if self.is_last else p["n_orders"])
        inputs = dict.fromkeys(range(p["n_orders"] if t else 1), p["n_channels"])
        paths, _ = nequip_paths(inputs, range(p["lmax"] + 1), p["lmax"], True)
        self.has_density, self.center = p["divisor"][t] == "density", edges[0]
        self.messages = Messages(paths, 1.0 if self.has_density else p["avg_num_neighbors"][t], edges)
        if self.has_density:
            self.w_density = tensors[f"layers.{t}.density"][0] / sqrt(tensors[f"layers.{t}.density"].shape[1])
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
        if self.has_density:
            self.v = basis @ self.w_density
            self.density = np.ones((len(self.species), 1, 1))
            np.add.at(self.density[:, 0, 0], self.center, np.tanh(self.v**2))
            z = {l: v / self.density for l, v in z.items()}
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
        return linear(self.readout[1], self.activation[0](self.hidden) / self.act_norm)[:, 0, 0]

    def _read_back(self, scale):
        g = np.full((len(self.species), 1, 1), scale)
        if len(self.readout) == 2:
            g = linear_back(self.readout[1], g) * self.activation[1](self.hidden) / self.act_norm
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
        gbasis = self._density_back(ga, gz) if self.has_density else 0
        gsums = {l: linear_back(self.w["linear"][l], g) for l, g in gz.items()}
        gmixed, gweights = self.messages.backward(gsums, gy)
        for l, g in gmixed.items():
            gin[l] += linear_back(self.w["linear_up"][l], g)
        return gin, self.radial.backward(gweights) + gbasis

    def _density_back(self, ga, gz):
        """Divides gz by the density. ga: gradient of A, which is linear in what was divided."""
        g = -(ga * self.a).sum((1, 2)) / self.density[:, 0, 0]
        for l in gz:
            gz[l] = gz[l] / self.density
        slope = 2 * self.v * (1 - np.tanh(self.v**2) ** 2)
        return (g[self.center] * slope)[:, None] * self.w_density


def mace(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a `mace` model, in the file's energy unit, without offsets."""
    p = head["mace"]
    r = np.linalg.norm(vectors, axis=1)
    u = -vectors / r[:, None]
    y, dy = harmonics(u, p["lmax"])
    radii = tensors["covalent_radii"] if "covalent_radii" in tensors else np.ones(len(head["elements"]))
    basis, dbasis = radial_basis(head, tensors, r, radii[species[i]] + radii[species[j]])
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
