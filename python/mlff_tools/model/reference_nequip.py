"""NequIP networks (Nequix, SevenNet) in float64 with numpy alone: the part of reference.py that evaluates `nequip`
models.

The mathematics is that of docs/model_file.md. Features of order l are x[l], arrays [atoms, channels, 2l + 1]; those of
edges have the edge first. Gradients of the energy are called as the value, with a g before.
"""

import functools
from fractions import Fraction
from math import factorial, sqrt

import numpy as np

from .modelfile import nequip_layers


def _complex_coefficient(j1, m1, j2, m2, j):
    """<j1 m1 j2 m2 | j m1+m2> with the signs of Condon and Shortley, by van der Waerden's formula."""
    m = m1 + m2
    if abs(m) > j:
        return 0.0
    f = factorial
    squared = Fraction((2 * j + 1) * f(j1 + j2 - j) * f(j1 - j2 + j) * f(j2 - j1 + j), f(j1 + j2 + j + 1))
    for a, b in ((j1, m1), (j2, m2), (j, m)):
        squared *= f(a + b) * f(a - b)
    total = Fraction(0)
    for k in range(j1 + j2 - j + 1):
        below = (k, j1 + j2 - j - k, j1 - m1 - k, j2 + m2 - k, j - j2 + m1 + k, j - j1 - m2 + k)
        if min(below) >= 0:
            total += Fraction((-1) ** k, functools.reduce(lambda a, b: a * f(b), below, 1))
    return sqrt(squared) * float(total)


def _real_basis(l):
    """[2l+1, 2l+1]: rows are complex harmonics m = -l..l, columns real ones: sines of l..1, 0, cosines of 1..l.

    With polar axis y the real ones of order 1 are (x, y, z). The factor (-i)^l makes the coefficients below real."""
    q = np.zeros((2 * l + 1, 2 * l + 1), complex)
    q[l, l] = 1.0
    for m in range(1, l + 1):
        q[l - m, l + m], q[l - m, l - m] = sqrt(0.5), -1j * sqrt(0.5)
        q[l + m, l + m], q[l + m, l - m] = (-1) ** m * sqrt(0.5), 1j * (-1) ** m * sqrt(0.5)
    return (-1j) ** l * q


@functools.cache
def clebsch_gordan(l1, l2, l3):
    """Real Clebsch-Gordan coefficients [2l1+1, 2l2+1, 2l3+1] of e3nn's basis; the sum of their squares is 1."""
    c = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(-l2, l2 + 1):
            if abs(m1 + m2) <= l3:
                c[l1 + m1, l2 + m2, l3 + m1 + m2] = _complex_coefficient(l1, m1, l2, m2, l3)
    real = np.einsum("ai,bj,ck,abc->ijk", _real_basis(l1), _real_basis(l2), _real_basis(l3).conj(), c)
    return real.real / sqrt(2 * l3 + 1)


def harmonics(u, lmax):
    """Real spherical harmonics of unit vectors u [E, 3], [E, 2l+1] for every l, sum of squares 2l + 1.

    Also their derivatives [E, 2l+1, 3] as polynomials of x, y, z. Order l + 1 is the product of order l with u."""
    y, dy = [np.ones((len(u), 1))], [np.zeros((len(u), 1, 3))]
    pole = [np.ones(1)]  # the same at (0, 1, 0), for the normalisation
    for l in range(lmax):
        c = clebsch_gordan(l, 1, l + 1)
        at_pole = pole[l] @ c[:, 1]
        c = c * (sqrt(2 * l + 3) / np.linalg.norm(at_pole))
        pole.append(pole[l] @ c[:, 1])
        y.append(np.einsum("ei,ea,iak->ek", y[l], u, c, optimize=True))
        dy.append(
            np.einsum("eib,ea,iak->ekb", dy[l], u, c, optimize=True) + np.einsum("ei,ibk->ekb", y[l], c, optimize=True)
        )
    return y, dy


def polynomial_cutoff(p, rc, r):
    """1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2) of x = r/rc, zero beyond rc, and its derivative."""
    x = r / rc
    a, b, c = (p + 1) * (p + 2) / 2, p * (p + 2), p * (p + 1) / 2
    f = 1 - a * x**p + b * x ** (p + 1) - c * x ** (p + 2)
    df = -p * a * x ** (p - 1) * (1 - x) ** 2 / rc
    return np.where(r < rc, f, 0.0), np.where(r < rc, df, 0.0)


def cutoff_function(head, r):
    """f(r) [E], which ends at the cutoff, and its derivative."""
    kind, rc = head["nequip"]["cutoff_function"], head["cutoff"]
    if kind["kind"] == "polynomial":
        return polynomial_cutoff(kind["p"], rc, r)
    on, r2 = kind["onset"], r * r
    h = (rc**2 - on**2) ** 3
    f = np.where(r < on, 1.0, (rc**2 - r2) ** 2 * (rc**2 + 2 * r2 - 3 * on**2) / h)
    df = np.where(r < on, 0.0, 12 * r * (rc**2 - r2) * (on**2 - r2) / h)
    return np.where(r < rc, f, 0.0), np.where(r < rc, df, 0.0)


def radial_basis(head, tensors, r):
    """Radial functions times the cutoff function [E, n], and their derivatives."""
    basis, rc, r = head["nequip"]["radial_basis"], head["cutoff"], r[:, None]
    k = tensors["radial_frequencies"] if basis["kind"] == "trained" else np.pi * np.arange(1, basis["n"] + 1) / rc
    return bessel(2 / rc, k, r, *cutoff_function(head, r))


def bessel(factor, k, r, f, df):
    """factor sin(k r)/r f(r) [E, n] and its derivative; r, f and its derivative df are [E, 1]."""
    phi = factor * np.sin(k * r) / r
    dphi = (factor * k * np.cos(k * r) - phi) / r
    return phi * f, dphi * f + phi * df


def silu(x):
    return x * 0.5 * (1 + np.tanh(0.5 * x))


def dsilu(x):
    s = 0.5 * (1 + np.tanh(0.5 * x))
    return s * (1 + x * (1 - s))


def linear(weight, x):
    """Channels mixed component by component: [N, n_in, 2l+1] -> [N, n_out, 2l+1], divided by sqrt(n_in). weight: one
    matrix, or one for each atom."""
    return np.matmul(weight / sqrt(weight.shape[-1]), x)


def linear_back(weight, g):
    return np.matmul(np.swapaxes(weight, -1, -2) / sqrt(weight.shape[-1]), g)


def sum_by(index, values, n):
    """[n, ...]: rows of `values` [E, ...] added up by `index` [E]."""
    out = np.zeros((n, *values.shape[1:]))
    np.add.at(out, index, values)
    return out


class RadialNetwork:
    """Weights of the edges from the radial functions: silu(.)/activation_norm between layers without bias."""

    def __init__(self, p, tensors, name):
        self.norm, count = p["activation_norm"], len(p["hidden"]) + 1
        self.layers = [tensors[f"{name}.{k}"] for k in range(count)]
        if p["fan_in"] == "sqrt":
            self.layers = [w / sqrt(w.shape[1]) for w in self.layers]

    def forward(self, b):
        self.hidden, x = [], b
        for k, w in enumerate(self.layers):
            if k:
                self.hidden.append(x)
                x = silu(x) / self.norm
            x = x @ w.T
        return x

    def backward(self, g):
        for k in reversed(range(len(self.layers))):
            g = g @ self.layers[k]
            if k:
                g = g * dsilu(self.hidden[k - 1]) / self.norm
        return g


class Messages:
    """Sums over the neighbors of an atom of their features, by paths: forward keeps what backward needs.

    edges: center i and neighbor j [E], harmonics y[l] [E, 2l+1], number of atoms."""

    def __init__(self, paths, divisor, edges):
        self.paths, self.divisor = paths, divisor
        self.i, self.j, self.y, self.n_atoms = edges

    def _coefficients(self, path):
        return clebsch_gordan(path.l1, path.l2, path.l3) * (sqrt(2 * path.l3 + 1) / self.divisor)

    def _coupling(self, path):
        """[E, 2l1+1, 2l3+1]: what a feature of the neighbor becomes at the centre, but for the radial weight."""
        return np.einsum("ej,ijk->eik", self.y[path.l2], self._coefficients(path), optimize=True)

    def _parts(self, path):
        return slice(path.column, path.column + path.mul), slice(path.row, path.row + path.mul)

    def forward(self, features, weights, n_rows):
        """Sums [N, n_rows[l], 2l+1] of each order l, from features of all atoms and weights [E, columns]."""
        self.features, self.weights = features, weights
        sums = {l: np.zeros((self.n_atoms, n, 2 * l + 1)) for l, n in n_rows.items()}
        for path in self.paths:
            columns, rows = self._parts(path)
            message = np.matmul(features[path.l1][self.j], self._coupling(path))
            sums[path.l3][:, rows] += sum_by(self.i, message * weights[:, columns, None], self.n_atoms)
        return sums

    def backward(self, gsums, gy):
        """Gradients of features and weights; adds to gy[l], [E, 2l+1]."""
        gfeatures = {l: np.zeros_like(v) for l, v in self.features.items()}
        gweights = np.zeros_like(self.weights)
        for path in self.paths:
            columns, rows = self._parts(path)
            g, w, there = gsums[path.l3][self.i, rows], self.weights[:, columns, None], self.features[path.l1][self.j]
            back = np.matmul(g, self._coupling(path).transpose(0, 2, 1))
            gweights[:, columns] = (back * there).sum(2)
            gfeatures[path.l1] += sum_by(self.j, back * w, self.n_atoms)
            gcoupling = np.matmul((there * w).transpose(0, 2, 1), g)
            gy[path.l2] += np.einsum("eik,ijk->ej", gcoupling, self._coefficients(path), optimize=True)
        return gfeatures, gweights


def _matrices(weight, embedding):
    """[S, n_out, n_in]: the matrix of each element, sum_v weight[.., v] embedding[v] / sqrt(n_embedding)."""
    return np.einsum("wuv,vs->swu", weight, embedding) / sqrt(weight.shape[2])


class _Readout:
    """The energy of each atom from its scalars: linear layers, between them silu(.)/readout_activation_norm if the
    block has that."""

    def __init__(self, head, tensors):
        self.norm = head["nequip"].get("readout_activation_norm")
        self.layers = [tensors[f"readout.{k}"] for k in range(len(head["nequip"]["n_readout"]) + 1)]

    def forward(self, x):
        self.hidden = []
        for k, w in enumerate(self.layers):
            if k and self.norm:
                self.hidden.append(x)
                x = silu(x) / self.norm
            x = linear(w, x)
        return x

    def backward(self, g):
        for k in reversed(range(len(self.layers))):
            g = linear_back(self.layers[k], g)
            if k and self.norm:
                g = g * dsilu(self.hidden[k - 1]) / self.norm
        return g


class _Layer:
    """One layer: forward keeps what backward needs."""

    def __init__(self, head, tensors, t, shape, species, edges):
        p = head["nequip"]
        self.shape, self.act_norm, self.norm = shape, p["activation_norm"], p["norm"]
        self.messages = Messages(shape.paths, p["message_divisor"][t], edges)
        self.radial = RadialNetwork(p["radial_network"], tensors, f"layers.{t}.radial_mlp")
        self.divisor = np.array(p.get("neighbor_divisor", np.ones(len(head["elements"]))))[species][:, None, None]
        self.w = {
            kind: {l: tensors[f"layers.{t}.{kind}.l{l}"] for l in range(4) if f"layers.{t}.{kind}.l{l}" in tensors}
            for kind in ("linear_1", "linear_2", "skip", "norm")
        }
        if p.get("self_connection", "linear") == "element":
            self.w["skip"] = {l: _matrices(w, tensors["embedding"])[species] for l, w in self.w["skip"].items()}

    def forward(self, x, basis):
        mixed = {l: linear(self.w["linear_1"][l], v) / self.divisor for l, v in x.items()}
        n_rows = {l: self.shape.rows(l) for l in self.shape.sums}
        sums = self.messages.forward(mixed, self.radial.forward(basis), n_rows)
        self.z = {l: linear(self.w["linear_2"][l], v) for l, v in sums.items()}
        for l in self.w["skip"]:
            self.z[l] += linear(self.w["skip"][l], x[l])
        return self._gate(self._normalise())

    def _normalise(self):
        """One number for the whole atom: sum over channels, mean over components and orders."""
        if self.norm["kind"] != "rms":
            return self.z
        n = len(self.z)
        s = sum((z * z).sum((1, 2)) / ((2 * l + 1) ** 2 * n) for l, z in self.z.items()) + self.norm["epsilon"]
        self.s = s[:, None, None]
        return {l: self.w["norm"][l][:, None] * z / np.sqrt(self.s) for l, z in self.z.items()}

    def _normalise_back(self, gq):
        if self.norm["kind"] != "rms":
            return gq
        n, v = len(self.z), {l: self.w["norm"][l][:, None] * g for l, g in gq.items()}
        dot = sum((v[l] * z).sum((1, 2)) for l, z in self.z.items())[:, None, None]
        return {l: v[l] / np.sqrt(self.s) - z * dot * self.s**-1.5 / ((2 * l + 1) ** 2 * n) for l, z in self.z.items()}

    def _gates(self):
        """l -> which of the scalars gate the channels of order l: the last ones, in the order of l."""
        first, out = self.shape.outputs[0], {}
        for l, n in self.shape.outputs.items():
            if l:
                out[l], first = slice(first, first + n), first + n
        return out

    def _gate(self, q):
        self.q, n = q, self.shape.outputs[0]
        out = {0: silu(q[0][:, :n]) / self.act_norm}
        for l, gate in self._gates().items():
            out[l] = q[l] * silu(q[0][:, gate]) / self.act_norm
        return out

    def _gate_back(self, gx):
        q, n = self.q, self.shape.outputs[0]
        gq = {0: np.zeros_like(q[0])}
        gq[0][:, :n] = gx[0] * dsilu(q[0][:, :n]) / self.act_norm
        for l, gate in self._gates().items():
            gq[l] = gx[l] * silu(q[0][:, gate]) / self.act_norm
            gq[0][:, gate] = (gx[l] * q[l]).sum(2, keepdims=True) * dsilu(q[0][:, gate]) / self.act_norm
        return gq

    def backward(self, gx, gy):
        """Gradients of the inputs and of the radial functions from that of the outputs; adds to gy[l], [E, 2l+1]."""
        gz = self._normalise_back(self._gate_back(gx))
        gsums = {l: linear_back(self.w["linear_2"][l], g) for l, g in gz.items()}
        gmixed, gweights = self.messages.backward(gsums, gy)
        gin = {l: linear_back(self.w["linear_1"][l], g / self.divisor) for l, g in gmixed.items()}
        for l, w in self.w["skip"].items():
            gin[l] += linear_back(w, gz[l])
        return gin, self.radial.backward(gweights)


def _first_features(head, tensors, species):
    """x of layer 0: one channel per element, or the embedding of the element."""
    n_elements = len(head["elements"])
    if head["nequip"]["embedding"] == "one_hot":
        return {0: np.eye(n_elements)[species][:, :, None]}
    divisor = sqrt(n_elements) if head["nequip"]["embedding"] == "linear" else 1.0
    return {0: tensors["embedding"].T[species][:, :, None] / divisor}


def nequip(head, tensors, species, i, j, vectors, trace=None):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a `nequip` model, in the file's energy unit, without offsets.

    trace: a list that gets the radial functions [E, n], the harmonics, and the features after each layer."""
    p = head["nequip"]
    r = np.linalg.norm(vectors, axis=1)
    u = vectors / r[:, None]
    y, dy = harmonics(u, p["lmax"])
    basis, dbasis = radial_basis(head, tensors, r)
    edges = i, j, y, len(species)
    layers = [_Layer(head, tensors, t, shape, species, edges) for t, shape in enumerate(nequip_layers(head))]
    x, states = _first_features(head, tensors, species), []
    for layer in layers:
        x = layer.forward(x, basis)
        states.append(x)
    if trace is not None:
        trace += [basis, y, states]
    readout, scale = _Readout(head, tensors), tensors["energy_scale"][species]
    energy = readout.forward(x[0])

    g = readout.backward(scale[:, None, None])
    gx, gy, gbasis = {0: g}, [np.zeros_like(v) for v in y], np.zeros_like(basis)
    for layer in reversed(layers):
        gx, more = layer.backward(gx, gy)
        gbasis += more
    gr = (gbasis * dbasis).sum(1)
    gu = sum(np.einsum("ek,eka->ea", g, d) for g, d in zip(gy, dy))
    return scale * energy[:, 0, 0], gr[:, None] * u + (gu - u * (u * gu).sum(1, keepdims=True)) / r[:, None]
