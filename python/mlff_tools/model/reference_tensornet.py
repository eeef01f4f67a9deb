"""TensorNet in float64 with numpy alone: the part of reference.py that evaluates `tensornet` models.

The mathematics is that of docs/model_file.md. A feature X is an array [atoms, channels, 3, 3], the sum of three
orthogonal parts: I (trace), A (antisymmetric) and S (symmetric without trace). Gradients of the energy are called as
the value, with a g before.
"""

import numpy as np

PARTS = "IAS"
EYE = np.eye(3)


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def _silu(x):
    return x * _sigmoid(x)


def _dsilu(x):
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


# kind -> function and derivative
ACTIVATIONS = {
    "silu": (_silu, _dsilu),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x))),
    "softplus": (lambda x: np.logaddexp(0, x) - np.log(2.0), _sigmoid),
}


def smooth_bessel_matrix(n, cutoff):
    """M [n, n + 1] with basis_k(r) = sum_m M[k, m] sin(f_m r)/(f_m r), f_m = (m + 1) pi/cutoff."""
    m, k = np.zeros((n, n + 1)), np.arange(n)
    e = k**2 * (k + 2) ** 2 / (4.0 * (k + 1) ** 4 + 1)
    f = (-1.0) ** k * np.sqrt(2) * np.pi / cutoff**1.5 * (k + 1) * (k + 2) / np.sqrt((k + 1) ** 2 + (k + 2) ** 2)
    d = 1.0
    for q in range(n):
        before, d = d, 1 - e[q] / d
        m[q, q] = m[q, q + 1] = f[q]
        if q:
            m[q] += np.sqrt(e[q] / before) * m[q - 1]
        m[q] /= np.sqrt(d)
    return m


def radial_basis(head, tensors, r):
    """Radial functions [E, n] and the cutoff function [E], each with its derivative."""
    cutoff, p = head["cutoff"], head["tensornet"]["radial_basis"]
    fc, dfc = 0.5 * (np.cos(np.pi * r / cutoff) + 1), -0.5 * np.pi / cutoff * np.sin(np.pi * r / cutoff)
    x = r[:, None]
    if p["kind"] == "gaussian":
        x = x - tensors["radial.centers"]
        g = np.exp(-p["exponent"] * x * x)
        return g, -2 * p["exponent"] * x * g, fc, dfc
    k, m = np.arange(1, p["n"] + 2) * np.pi / cutoff, smooth_bessel_matrix(p["n"], cutoff).T
    s = np.sin(k * x) / (k * x)
    return s @ m, (np.cos(k * x) - s) / x @ m, fc, dfc


def _sum(index, values, n):
    out = np.zeros((n, *values.shape[1:]))
    np.add.at(out, index, values)
    return out


def _transposed(x):
    return np.swapaxes(x, -1, -2)


def _parts(x):
    scalar = np.trace(x, axis1=-2, axis2=-1)[..., None, None] / 3 * EYE
    skew = 0.5 * (x - _transposed(x))
    return scalar, skew, x - skew - scalar


def _dot(x, y):
    return (x * y).sum((-2, -1))


def _wide(x):
    return x[..., None, None]


def _skew(u):
    """[u]x: the matrix of the cross product with u."""
    x, y, z = u.T
    return np.array([[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]]).transpose(2, 0, 1)


class _Weights:
    """The linear maps of a model, forward and back."""

    def __init__(self, tensors):
        self.t = tensors

    def linear(self, name, x):
        return x @ self.t[name + ".weight"].T + self.t[name + ".bias"]

    def linear_back(self, name, g):
        return g @ self.t[name + ".weight"]

    def mix(self, name, x):
        return sum(np.einsum("oc,ncab->noab", self.t[f"{name}.{k}"], p) for k, p in zip(PARTS, _parts(x)))

    def mix_back(self, name, g):
        return sum(np.einsum("oc,noab->ncab", self.t[f"{name}.{k}"], p) for k, p in zip(PARTS, _parts(g)))

    def norm(self, name, x, epsilon):
        x = x - x.mean(1, keepdims=True)
        s = 1 / np.sqrt((x * x).mean(1, keepdims=True) + epsilon)
        return x * s * self.t[name + ".weight"] + self.t[name + ".bias"], (x * s, s)

    def norm_back(self, name, kept, g):
        h, s = kept
        v = g * self.t[name + ".weight"]
        return s * (v - v.mean(1, keepdims=True) - h * (v * h).mean(1, keepdims=True))


class _Mlp:
    """n linear layers; `act` follows each, the last one only with last=True."""

    def __init__(self, weights, name, n, act, last):
        self.w, self.names, (self.act, self.dact), self.last = weights, [f"{name}.{k}" for k in range(n)], act, last

    def _is_activated(self, k):
        return self.last or k < len(self.names) - 1

    def forward(self, x):
        self.before = []
        for k, name in enumerate(self.names):
            self.before.append(self.w.linear(name, x))
            x = self.act(self.before[-1]) if self._is_activated(k) else self.before[-1]
        return x

    def backward(self, g):
        for k, name in reversed(list(enumerate(self.names))):
            g = self.w.linear_back(name, g * self.dact(self.before[k]) if self._is_activated(k) else g)
        return g


class _Embedding:
    """X [N, F, 3, 3] of the species and the vectors of pairs."""

    def __init__(self, p, weights, species, edges):
        self.p, self.w, self.species, self.edges = p, weights, species, edges
        self.mlp = _Mlp(weights, "embedding.scalar", 2, ACTIVATIONS[p["activation"]], True)

    def forward(self):
        w, t, (i, j, u, g, dg, fc, dfc) = self.w, self.w.t, self.edges
        names = [f"embedding.radial.{k}" for k in PARTS]
        self.f = [w.linear(name, g) * fc[:, None] for name in names]
        self.df = [dg @ t[n + ".weight"].T * fc[:, None] + w.linear(n, g) * dfc[:, None] for n in names]
        em = t["embedding.species"][self.species]
        self.z = (em @ t["embedding.pair.center"].T)[i] + (em @ t["embedding.pair.neighbor"].T)[j]
        self.z = self.z + t["embedding.pair.bias"]
        self.matrices = (np.broadcast_to(EYE, (len(i), 3, 3)), _skew(u), u[:, :, None] * u[:, None, :] - EYE / 3)
        n_atoms = len(self.species)
        self.x = sum(_sum(i, _wide(self.z * f) * m[:, None], n_atoms) for f, m in zip(self.f, self.matrices))
        h, self.kept = w.norm("embedding.norm", _dot(self.x, self.x), self.p["norm_epsilon"])
        self.s = self.mlp.forward(h).reshape(n_atoms, -1, 3)
        self.mixed = _parts(w.mix("embedding.mix", self.x))
        return sum(_wide(self.s[:, :, k]) * m for k, m in enumerate(self.mixed))

    def backward(self, gx):
        """dE/dr [E] and dE/du [E, 3] of the pairs."""
        i, u, parts = self.edges[0], self.edges[2], _parts(gx)
        gs = np.stack([_dot(g, m) for g, m in zip(parts, self.mixed)], 2).reshape(len(gx), -1)
        gn = self.w.norm_back("embedding.norm", self.kept, self.mlp.backward(gs))
        back = self.w.mix_back("embedding.mix", sum(_wide(self.s[:, :, k]) * g for k, g in enumerate(parts)))
        gt = (back + 2 * _wide(gn) * self.x)[i]
        gr = sum((np.einsum("ecab,eab->ec", gt, m) * self.z * df).sum(1) for m, df in zip(self.matrices, self.df))
        a = np.einsum("ec,ecab->eab", self.z * self.f[1], gt)
        s = np.einsum("ec,ecab->eab", self.z * self.f[2], gt)
        gu = np.stack([a[:, 2, 1] - a[:, 1, 2], a[:, 0, 2] - a[:, 2, 0], a[:, 1, 0] - a[:, 0, 1]], 1)
        return gr, gu + np.einsum("eab,eb->ea", s + _transposed(s), u)


class _Layer:
    """One layer: forward keeps what backward needs."""

    def __init__(self, p, weights, t, edges):
        self.p, self.w, self.name, self.edges = p, weights, f"layers.{t}.", edges
        self.mlp = _Mlp(weights, self.name + "radial", 3, ACTIVATIONS[p["activation"]], True)

    def _sums(self, values, parts, to, source, n):
        """sum over pairs of the radial weights times the parts of the other atom, or of the same one."""
        if self.p["message_from"] == "center":
            sums = _sum(self.edges[0], values, n)
            return sum(_wide(sums[:, :, k]) * part for k, part in enumerate(parts))
        return sum(_sum(to, _wide(values[:, :, k]) * part[source], n) for k, part in enumerate(parts))

    def forward(self, x):
        i, j, _, g, _, fc, _ = self.edges
        self.x, self.n = x, _wide(_dot(x, x) + 1)
        xn = x / self.n
        self.y = self.w.mix(self.name + "mix_1", xn)
        self.f = self.mlp.forward(g)
        self.q = (self.f * fc[:, None]).reshape(len(i), x.shape[1], 3)
        self.m = self._sums(self.q, _parts(self.y), i, j, len(x))
        self.product = self.m @ self.y + self.y @ self.m if self.p["group"] == "o3" else 2 * self.y @ self.m
        self.scale = _wide(_dot(self.product, self.product) + 1)
        self.d = self.w.mix(self.name + "mix_2", self.product / self.scale)
        return xn + self.d + self.d @ self.d

    def backward(self, g):
        """Gradients of x and of the radial functions [E, n], and dE/dr through the cutoff function."""
        i, j, _, _, _, fc, dfc = self.edges
        gd = g + g @ _transposed(self.d) + _transposed(self.d) @ g
        gq = self.w.mix_back(self.name + "mix_2", gd)
        gq = gq / self.scale - 2 * self.product * _wide(_dot(gq, self.product)) / self.scale**2
        yt, mt = _transposed(self.y), _transposed(self.m)
        if self.p["group"] == "o3":
            gm, gy = gq @ yt + yt @ gq, mt @ gq + gq @ mt
        else:
            gm, gy = 2 * yt @ gq, 2 * gq @ mt
        parts, source = _parts(gm), i if self.p["message_from"] == "center" else j
        gw = np.stack([_dot(a[i], b[source]) for a, b in zip(parts, _parts(self.y))], 2).reshape(len(i), 3 * g.shape[1])
        gy = gy + self._sums(self.q, parts, j, i, len(g))
        gxn = g + self.w.mix_back(self.name + "mix_1", gy)
        gx = gxn / self.n - 2 * self.x * _wide(_dot(gxn, self.x)) / self.n**2
        return gx, self.mlp.backward(gw * fc[:, None]), (gw * self.f).sum(1) * dfc


def _readout(p, weights, x):
    """Energies [N] and dE/dX."""
    parts = _parts(x)
    h, kept = weights.norm("out.norm", np.concatenate([_dot(k, k) for k in parts], 1), p["norm_epsilon"])
    z = weights.linear("out.linear", h)
    value, gate = (_Mlp(weights, "readout." + k, 4, ACTIVATIONS["silu"], False) for k in ("value", "gate"))
    a, b = value.forward(z), _sigmoid(gate.forward(z))
    scale = p["energy_scale"]
    gz = value.backward(scale * b) + gate.backward(scale * a * b * (1 - b))
    gx = weights.norm_back("out.norm", kept, weights.linear_back("out.linear", gz))
    g = sum(2 * _wide(part) * k for part, k in zip(np.split(gx, 3, axis=1), parts))
    return scale * (a * b)[:, 0], g


def tensornet(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a `tensornet` model, in the file's energy unit, without
    offsets."""
    p, weights = head["tensornet"], _Weights(tensors)
    r = np.linalg.norm(vectors, axis=1)
    u = vectors / r[:, None]
    g, dg, fc, dfc = radial_basis(head, tensors, r)
    edges = (i, j, u, g, dg, fc, dfc)
    embedding = _Embedding(p, weights, species, edges)
    layers = [_Layer(p, weights, t, edges) for t in range(p["n_layers"])]
    x = embedding.forward()
    for layer in layers:
        x = layer.forward(x)
    energy, gx = _readout(p, weights, x)

    gr = np.zeros_like(r)
    for layer in reversed(layers):
        gx, gg, more = layer.backward(gx)
        gr += (gg * dg).sum(1) + more
    more, gu = embedding.backward(gx)
    gr += more
    return energy, gr[:, None] * u + (gu - u * (u * gu).sum(1, keepdims=True)) / r[:, None]
