"""MACE networks in float64 with numpy alone: the part of reference.py that evaluates `mace` models.

The mathematics is that of docs/model_file.md. Features of order l are x[l], arrays [atoms, channels, 2l + 1]. Vectors
point from the neighbor to the center. Gradients of the energy are called as the value, with a g before.
"""

from math import sqrt

import numpy as np

from .modelfile import mace_edge_channels, nequip_paths
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


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


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
    """Radial functions times the cutoff function [E, n], and their derivatives. radii: sums of covalent radii [E].
    Non-linear blocks: the functions themselves, and the cutoff function in the last column."""
    cutoff, r, p = head["cutoff"], r[:, None], head["mace"]
    f, df = polynomial_cutoff(p["cutoff_function"]["p"], cutoff, r)
    t, dt = transformed(p["distance_transform"], radii[:, None], r)
    if p["radial_basis"]["kind"] == "gaussian":
        x, c = t - tensors["radial_centers"], p["radial_basis"]["coefficient"]
        b = np.exp(c * x * x)
        db = 2 * c * x * b * dt
    else:
        b, db = bessel(sqrt(2 / cutoff), tensors["radial_frequencies"], t, np.ones_like(t), np.zeros_like(t))
        db = db * dt
    if "nonlinear" in p:
        return np.concatenate([b, f], 1), np.concatenate([db, df], 1)
    return b * f, db * f + b * df


class _NormedNetwork:
    """Radial network with biases and layer norms, of radial functions and of what depends on the elements of a pair,
    times the cutoff function. Densities: tanh(v^2) of its only output v."""

    def __init__(self, tensors, name, epsilon, elements, is_density=False):
        self.epsilon, self.elements, self.is_density = epsilon, elements, is_density
        count = sum(f"{name}.{k}" in tensors for k in range(9))
        parts = ("", ".bias", ".norm", ".norm_bias")
        self.layers = [[tensors.get(f"{name}.{k}{part}") for part in parts] for k in range(count)]

    def forward(self, basis):
        self.tape, self.f, x = [], basis[:, -1:], np.concatenate([basis[:, :-1], self.elements], 1)
        for w, bias, norm, norm_bias in self.layers[:-1]:
            a = x @ w.T + bias
            a = a - a.mean(1, keepdims=True)
            scale = 1 / np.sqrt((a * a).mean(1, keepdims=True) + self.epsilon)
            h = a * scale
            v = h * norm + norm_bias
            self.tape.append((h, scale, v))
            x = silu(v)
        self.v = x @ self.layers[-1][0].T + self.layers[-1][1]
        self.out = np.tanh(self.v**2) if self.is_density else self.v
        return self.out * self.f

    def backward(self, g):
        gf = (g * self.out).sum(1, keepdims=True)
        g = g * self.f * (2 * self.v * (1 - self.out**2) if self.is_density else 1.0)
        g = g @ self.layers[-1][0]
        for (w, _, norm, _), (h, scale, v) in zip(self.layers[-2::-1], self.tape[::-1]):
            q = g * dsilu(v) * norm
            g = scale * (q - q.mean(1, keepdims=True) - h * (q * h).mean(1, keepdims=True)) @ w
        return np.concatenate([g[:, : g.shape[1] - self.elements.shape[1]], gf], 1)


class _Polynomial:
    """P [N, C, 2l+1] of A [N, C, (lmax+1)^2], and its reverse."""

    def __init__(self, tensors, name, degree, l, species):
        self.l, self.parts = l, []
        for d in range(1, degree + 1):
            if f"{name}.degree_{d}.rows" not in tensors:
                continue
            rows, weight = tensors[f"{name}.degree_{d}.rows"], tensors[f"{name}.degree_{d}.weight"]
            index, value = rows[:, :-1].astype(int), rows[:, -1]
            weight = weight[species if len(weight) > 1 else np.zeros_like(species)]
            self.parts += [(q[0], q[1:-1], v * weight[:, q[-1]]) for q, v in zip(index, value)]

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
        self.act_norm, self.edges = p["activation_norm"], edges
        self.orders = range(1 if t == p["n_layers"] - 1 else p["n_orders"])
        paths, _ = nequip_paths(mace_edge_channels(p, t), range(p["lmax"] + 1), p["lmax"], True)
        self.has_density, self.center = p["divisor"][t] == "density", edges[0]
        self.messages = Messages(paths, 1.0 if self.has_density else p["avg_num_neighbors"][t], edges)
        self.w = {
            kind: {l: tensors[f"layers.{t}.{kind}.l{l}"] for l in range(4) if f"layers.{t}.{kind}.l{l}" in tensors}
            for kind in ("linear_up", "linear", "linear_2", "linear_res", "skip", "product.linear")
        }
        self.products = [
            _Polynomial(tensors, f"layers.{t}.product.l{l}", p["degree"][t], l, species) for l in self.orders
        ]
        self.readout = [tensors[f"readout.{t}.{k}"] for k in range(3) if f"readout.{t}.{k}" in tensors]
        self.readout_bias = tensors.get(f"readout.{t}.1.bias", np.zeros(1))[:, None]
        self._read_networks(p, tensors, t)

    def _read_networks(self, p, tensors, t):
        self.radial = RadialNetwork(p["radial_network"], tensors, f"layers.{t}.radial_mlp")
        if self.has_density:
            self.w_density = tensors[f"layers.{t}.density"][0] / sqrt(tensors[f"layers.{t}.density"].shape[1])

    def forward(self, x, basis):
        """Features after the layer, and what its readout gives, [N]."""
        self.x = x
        self.mixed = {l: linear(self.w["linear_up"][l], v) for l, v in x.items()}
        n_rows = {l: w.shape[1] for l, w in self.w["linear"].items()}
        sums = self.messages.forward(self.mixed, self.radial.forward(basis), n_rows)
        z = self._update({l: linear(self.w["linear"][l], v) for l, v in sums.items()}, basis)
        self.a = np.concatenate([z[l] for l in range(self.lmax + 1)], 2)
        out = {l: linear(self.w["product.linear"][l], p.forward(self.a)) for l, p in zip(self.orders, self.products)}
        if self.skip == "features":
            for l in self.w["skip"]:
                out[l] = out[l] + self._select(self.w["skip"][l], x[l])
        return out, self._read(out[0])

    def _select(self, weight, x):
        """A matrix for each element: [S, n_out, n_in], [N, n_in, 2l+1] -> [N, n_out, 2l+1]."""
        return np.matmul(weight[self.species] / sqrt(weight.shape[0] * weight.shape[2]), x)

    def _select_back(self, weight, g):
        return np.matmul(weight[self.species].transpose(0, 2, 1) / sqrt(weight.shape[0] * weight.shape[2]), g)

    def _update(self, z, basis):
        """Components of A by order, from the sums z of messages and the features y of the atom itself."""
        if self.has_density:
            self.v = basis @ self.w_density
            self.density = np.ones((len(self.species), 1, 1))
            np.add.at(self.density[:, 0, 0], self.center, np.tanh(self.v**2))
            z = {l: v / self.density for l, v in z.items()}
        if self.skip == "messages":
            z = {l: self._select(self.w["skip"][l], v) for l, v in z.items()}
        return z

    def _update_back(self, gz):
        """Gradients of z, of y and of the radial functions."""
        ga = np.concatenate([gz[l] for l in range(self.lmax + 1)], 2)
        if self.skip == "messages":
            gz = {l: self._select_back(self.w["skip"][l], g) for l, g in gz.items()}
        if not self.has_density:
            return gz, {}, 0
        # A is linear in what was divided.
        g = -(ga * self.a).sum((1, 2)) / self.density[:, 0, 0]
        slope = 2 * self.v * (1 - np.tanh(self.v**2) ** 2)
        gz = {l: v / self.density for l, v in gz.items()}
        return gz, {}, (g[self.center] * slope)[:, None] * self.w_density

    def _read(self, x):
        self.hidden = []
        for k, w in enumerate(self.readout):
            if k:
                self.hidden.append(x)
                x = self.activation[0](x) / self.act_norm
            x = linear(w, x) + (self.readout_bias if k == 1 and len(self.readout) == 3 else 0)
        return x[:, 0, 0] if self.readout else 0.0

    def _read_back(self, scale):
        g = np.full((len(self.species), 1, 1), scale)
        for k in reversed(range(len(self.readout))):
            g = linear_back(self.readout[k], g)
            if k:
                g = g * self.activation[1](self.hidden[k - 1]) / self.act_norm
        return g if self.readout else 0

    def backward(self, gx, gy, scale):
        """Gradients of the inputs and of the radial functions from that of the outputs; adds to gy[l], [E, 2l+1]."""
        gx = {**gx, 0: gx.get(0, 0) + self._read_back(scale)}
        gin = {l: np.zeros_like(v) for l, v in self.x.items()}
        ga = np.zeros_like(self.a)
        for l, p in zip(self.orders, self.products):
            ga += p.backward(self.a, linear_back(self.w["product.linear"][l], gx[l]))
        if self.skip == "features":
            for l, w in self.w["skip"].items():
                gin[l] += self._select_back(w, gx[l])
        gz, gown, gbasis = self._update_back({l: ga[:, :, l * l : (l + 1) ** 2] for l in range(self.lmax + 1)})
        gsums = {l: linear_back(self.w["linear"][l], g) for l, g in gz.items()}
        gmixed, gweights = self.messages.backward(gsums, gy)
        for l, g in gmixed.items():
            gin[l] += linear_back(self.w["linear_up"][l], g + gown.get(l, 0))
        return gin, self.radial.backward(gweights) + gbasis


class _NonlinearLayer(_Layer):
    """RealAgnosticResidualNonLinearInteractionBlock."""

    def _read_networks(self, p, tensors, t):
        name, (i, j, *_), self.norms = f"layers.{t}.", self.edges, p["nonlinear"]
        source, target = (tensors[name + part].T / sqrt(tensors[name + part].shape[1]) for part in ("source", "target"))
        elements = np.concatenate([source[self.species[j]], target[self.species[i]]], 1)
        self.radial = _NormedNetwork(tensors, f"{name}radial_mlp", self.norms["norm_epsilon"], elements)
        self.density = _NormedNetwork(tensors, f"{name}density", self.norms["norm_epsilon"], elements, True)
        self.alpha, self.beta = (float(tensors[name + part][0]) for part in ("alpha", "beta"))

    def _select(self, weight, x):
        return linear(weight, x)

    def _select_back(self, weight, g):
        return linear_back(weight, g)

    def _gates(self, l):
        """The scalars that gate order l."""
        c = self.w["linear_2"][0].shape[0]
        return self.q[0][:, l * c : (l + 1) * c]

    def _update(self, z, basis):
        sums = np.zeros((len(self.species), 1, 1))
        np.add.at(sums[:, 0, 0], self.center, self.density.forward(basis)[:, 0])
        self.z, self.divisor = z, self.alpha + self.beta * sums
        self.q = {l: v / self.divisor for l, v in z.items()}
        for l, w in self.w["linear_res"].items():
            self.q[l] = self.q[l] + linear(w, self.mixed[l])
        gated = {0: silu(self._gates(0)) / self.norms["activation_norm"]}
        for l in range(1, self.lmax + 1):
            gated[l] = self.q[l] * sigmoid(self._gates(l)) / self.norms["gate_norm"]
        return {l: linear(self.w["linear_2"][l], v) for l, v in gated.items()}

    def _update_back(self, gz):
        g = {l: linear_back(self.w["linear_2"][l], v) for l, v in gz.items()}
        scalars, gq = [g[0] * dsilu(self._gates(0)) / self.norms["activation_norm"]], {}
        for l in range(1, self.lmax + 1):
            s = sigmoid(self._gates(l))
            gq[l] = g[l] * s / self.norms["gate_norm"]
            scalars.append((g[l] * self.q[l]).sum(2, keepdims=True) * s * (1 - s) / self.norms["gate_norm"])
        gq[0] = np.concatenate(scalars, 1)
        gown = {l: linear_back(w, gq[l]) for l, w in self.w["linear_res"].items()}
        gdivisor = -sum((gq[l] * z).sum((1, 2)) for l, z in self.z.items()) / self.divisor[:, 0, 0] ** 2
        gz = {l: v / self.divisor for l, v in gq.items()}
        return gz, gown, self.density.backward(self.beta * gdivisor[self.center][:, None])


def mace(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a `mace` model, in the file's energy unit, without offsets."""
    p = head["mace"]
    r = np.linalg.norm(vectors, axis=1)
    u = -vectors / r[:, None]
    y, dy = harmonics(u, p["lmax"])
    radii = tensors["covalent_radii"] if "covalent_radii" in tensors else np.ones(len(head["elements"]))
    basis, dbasis = radial_basis(head, tensors, r, radii[species[i]] + radii[species[j]])
    kind = _NonlinearLayer if "nonlinear" in p else _Layer
    layers = [kind(head, tensors, t, species, (i, j, y, len(species))) for t in range(p["n_layers"])]
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
