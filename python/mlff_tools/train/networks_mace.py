"""The architecture `mace` with one layer in PyTorch, for training only.

    D_i[s, n, lm] = sum over neighbors j of element s of phi_n(r_ij) Y_lm(u_ij)
    A_i[c, lm] = sum over s, n of W_l[c, s, n] D_i[s, n, lm],   less its mean for lm = 00
    P_i[c] = sum over invariants I_p of A_i[c, :] of w[element, p, c] I_p,   up to the degree `correlation`
    E_i = readout.1 silu(readout.0 (P_i + constant[element]))

phi are Bessel functions with the polynomial cutoff, made orthonormal over the edges of the training set. Where there
are several elements, W_l[c, s, n] = sum over c' of mix_l[c, c'] embedding[c', s] radial_l[c', n].
The model file stores phi and the means as they are published: a radial network with one hidden layer is a linear map of
the Bessel functions, because silu(x) - silu(-x) = x.
"""

import itertools
import math

import numpy as np
import torch
from torch.nn.functional import silu

from ..model.reference_nequip import clebsch_gordan, harmonics
from .networks import PaiNN, clamp

CUTOFF_POWER = 5.0
NOISE = 1.0e-2  # of the largest variance of radial functions: what smaller variances count as


def invariants(lmax, degree):
    """Independent rotation invariants of one channel: for each degree up to `degree` (rows, number of invariants).

    A row is a monomial: the indices l^2 + l + m of its factors in ascending order, the invariant, and its value."""
    first = [l * l for l in range(lmax + 1)]
    out = [([(0, 0, 1.0)], 1)]
    if degree > 1:
        rows = [(k, k, l, 1 / math.sqrt(2 * l + 1)) for l in range(lmax + 1) for k in range(l * l, (l + 1) ** 2)]
        out.append((rows, lmax + 1))
    if degree > 2:
        rows, triples = [], cubic(lmax)
        for p, orders in enumerate(triples):
            c, found = clebsch_gordan(*orders), {}
            for m in itertools.product(*(range(2 * l + 1) for l in orders)):
                key = tuple(sorted(first[l] + k for l, k in zip(orders, m)))
                found[key] = found.get(key, 0.0) + c[m]
            rows += [(*key, p, value) for key, value in sorted(found.items()) if abs(value) > 1e-12]
        out.append((rows, len(triples)))
    return out


def cubic(lmax):
    """Orders (l1, l2, l3) of the invariants of degree 3, of even sum."""
    ascending = itertools.combinations_with_replacement(range(lmax + 1), 3)
    return [t for t in ascending if t[2] <= t[0] + t[1] and sum(t) % 2 == 0]


class Mace(PaiNN):
    """MACE with one layer; forces by the gradient that PaiNN takes."""

    def __init__(self, spec, elements):
        self.spec, self.n_elements = spec, len(elements)
        self.cutoff, self.lmax, self.n_channels = spec["cutoff"], spec["lmax"], spec["channels"]
        self.n_basis, self.n_readout = spec["radial_basis"]["n"], spec["readout"]
        self.frequency = math.pi / self.cutoff * torch.arange(1, self.n_basis + 1, dtype=torch.float64)
        self.invariants = invariants(self.lmax, spec["correlation"])
        self.n_components = (self.lmax + 1) ** 2
        self.order = [math.isqrt(k) for k in range(self.n_components)]
        # Index of the factors and of the invariant, and value of each monomial; a missing factor has n_components.
        self.terms, self.values, before = [], [], 0
        for degree, (rows, n) in enumerate(self.invariants, 1):
            for row in rows:
                self.terms.append([*row[:degree], *[self.n_components] * (3 - degree), before + row[degree]])
                self.values.append(row[degree + 1])
            before += n
        self.n_invariants = before
        self.transform = torch.eye(self.n_basis)  # [n, k]: phi_n from the Bessel functions
        self.mean = torch.zeros(self.n_elements, self.n_elements * self.n_basis)  # of D[.., 00] of each element
        self._constants = {}

    def block(self):
        """The `mace` block of a model file."""
        return {
            "n_layers": 1,
            "lmax": self.lmax,
            "n_orders": 1,
            "n_channels": self.n_channels,
            "degree": [len(self.invariants)],
            "skip": ["features"],
            "products": [n for rows, n_weights in self.invariants for n in (len(rows), n_weights)],
            "divisor": ["average"],
            "avg_num_neighbors": [1.0],
            "radial_basis": {"kind": "bessel", "n": self.n_basis},
            "distance_transform": {"kind": "none"},
            "cutoff_function": {"kind": "polynomial", "p": CUTOFF_POWER},
            "radial_network": {"hidden": [2 * self.n_basis], "activation_norm": 1.0, "fan_in": "none"},
            "n_readout": self.n_readout,
            "activation": "silu",
            "activation_norm": 1.0,
        }

    def initial(self, generator, batches):
        """name -> initial parameter; also makes the radial functions orthonormal over `batches`."""
        self._normalise(batches)
        c, k, s, out = self.n_channels, self.n_basis, self.n_elements, {}
        normal = lambda *shape: torch.randn(*shape, generator=generator)
        if s > 1:
            out["embedding"] = normal(c, s)
        for l in range(self.lmax + 1):
            out[f"radial.{l}"] = normal(c, k) / math.sqrt(k)
            if s > 1:
                out[f"mix.{l}"] = normal(c, c) / math.sqrt(c)
        out["product"] = normal(s, self.n_invariants, c) / math.sqrt(self.n_invariants)
        out["constant.bias"] = 0.5 * normal(s, c)
        out["readout.0"] = normal(self.n_readout, c) / math.sqrt(c)
        out["readout.1"] = normal(1, self.n_readout) / math.sqrt(self.n_readout)
        return out

    def _normalise(self, batches):
        s, k = self.n_elements, self.n_basis
        square, n_atoms = torch.zeros(k, k, dtype=torch.float64), 0
        total, count = torch.zeros(s, s * k, dtype=torch.float64), torch.zeros(s, 1, dtype=torch.float64)
        for batch in batches:
            clamp(self, batch)
            phi = self.bessel(batch.seen.double().cpu().norm(dim=1))[0]
            species, i, j = batch.species.long().cpu(), batch.i.cpu(), batch.j.cpu()
            square += phi.T @ phi
            n_atoms += len(species)
            sums = phi.new_zeros(len(species) * s, k).index_add(0, i * s + species[j], phi).view(-1, s * k)
            total.index_add_(0, species, sums)
            count.index_add_(0, species, torch.ones(len(species), 1, dtype=torch.float64))
        values, vectors = torch.linalg.eigh(square / max(1, n_atoms))
        inverse = 1 / (values + NOISE * values.max().clamp_min(1e-12)).sqrt()
        self.transform = ((vectors * inverse) @ vectors.T).float()
        mean = (total / count.clamp_min(1)).view(s, s, k) @ self.transform.double().T
        self.mean, self._constants = mean.reshape(s, s * k).float(), {}

    def state(self):
        """What initial() took from the data."""
        return {"transform": self.transform, "mean": self.mean}

    def restore(self, state):
        self.transform, self.mean, self._constants = state["transform"], state["mean"], {}

    def bessel(self, r):
        """The Bessel functions of the model file times the cutoff function, and their slopes, of r [E] (float64) in
        A."""
        p, x = CUTOFF_POWER, (r / self.cutoff).clamp(1e-9, 1.0).unsqueeze(1)
        f = 1 - x**p * (0.5 * (p + 1) * (p + 2) - x * (p * (p + 2) - 0.5 * x * p * (p + 1)))
        df = -0.5 * p * (p + 1) * (p + 2) * x ** (p - 1) * (1 - x) ** 2 / self.cutoff
        r, k = x * self.cutoff, self.constants(r.device)["frequency"]
        b = math.sqrt(2 / self.cutoff) * torch.sin(k * r) / r
        db = math.sqrt(2 / self.cutoff) * k * torch.cos(k * r) / r - b / r
        inside = x < 1
        return inside * b * f, inside * (db * f + b * df)

    def radial(self, r):
        """phi [E, n] and their slopes of r [E] (float64)."""
        return tuple(x @ self.constants(r.device)["transform"].T for x in self.bessel(r))

    def constants(self, device):
        """Tensors that never change, on `device`; moved there once."""
        if device not in self._constants:
            powers = [harmonic_polynomial(l, self.lmax) for l in range(self.lmax + 1)]
            values = {
                "mean": self.mean,
                "transform": self.transform.double(),
                "frequency": self.frequency,
                "order": torch.tensor(self.order),
                "terms": torch.tensor(self.terms).T.contiguous(),
                "values": torch.tensor(self.values),
                "harmonics": torch.tensor(np.concatenate(powers), dtype=torch.float32),
            }
            self._constants[device] = {k: v.to(device) for k, v in values.items()}
        return self._constants[device]

    def prepare(self, batch):
        """Constant data of a batch: radial functions, their slopes and unit vectors of its edges."""
        clamp(self, batch)
        r = batch.seen.norm(dim=1)
        phi, slope = (x.to(r.dtype) for x in self.radial(r.double()))
        return r, phi, slope, batch.seen / r.unsqueeze(1)

    def node_energies(self, p, batch, phi, u):
        """Energy of each atom [N] from radial functions phi [E, K] and unit vectors u [E, 3]."""
        n, species = self.n_elements, batch.species.long()
        powers = monomials(u, self.lmax)
        y = powers @ self.constants(u.device)["harmonics"].to(u.dtype).T
        values = phi.unsqueeze(2) * y.unsqueeze(1)
        moments = phi.new_zeros(len(species) * n, *values.shape[1:])
        moments = moments.index_add(0, batch.i * n + species[batch.j], values)
        a = self.channels(p, moments.view(len(species), -1, self.n_components), species)
        return self.readout(p, self.product(a, p["product"], species), species)

    def weights(self, p):
        """W_l [C, elements * K] of each order."""
        c = self.n_channels
        for l in range(self.lmax + 1):
            w = p[f"radial.{l}"]
            if self.n_elements > 1:
                w = p["embedding"].unsqueeze(2) * w.unsqueeze(1)
                w = (p[f"mix.{l}"] @ w.view(c, -1)).view(c, -1)
            yield w

    def channels(self, p, moments, species, shift=True):
        """A [components, N, C] of moments D [N, elements * K, components]; shift: less the mean."""
        constant, weights = self.constants(moments.device), torch.stack(list(self.weights(p)))
        w = weights.index_select(0, constant["order"])
        a = torch.bmm(moments.permute(2, 0, 1), w.transpose(1, 2))
        if not shift:
            return a
        mean = (constant["mean"].to(a.dtype) @ weights[0].T).index_select(0, species)
        return torch.cat([a[:1] - mean, a[1:]])

    def product(self, a, weight, species):
        """P [N, C] of A [components, N, C] and the weights of the invariants."""
        constant = self.constants(a.device)
        i, j, k, p = constant["terms"]
        a = torch.cat([a, torch.ones_like(a[:1])])
        values = constant["values"].to(a.dtype)[:, None, None] * a[i] * a[j] * a[k]
        found = values.new_zeros(self.n_invariants, *values.shape[1:]).index_add(0, p, values)
        return (found * weight.index_select(0, species).transpose(0, 1)).sum(0)

    def readout(self, p, products, species):
        """Energy of each atom [N] of its products [N, C]."""
        hidden = (products + p["constant.bias"].index_select(0, species)) @ p["readout.0"].T
        return (silu(hidden) @ p["readout.1"].T).squeeze(1)

    def export(self, p, scale):
        """Tensors of a model file; `scale` (eV) multiplies the energies of training."""
        p = {k: v.double().cpu() for k, v in p.items()}
        c, s, k = self.n_channels, self.n_elements, self.n_basis
        root, eye = math.sqrt(c), torch.eye(c, dtype=torch.float64)
        embedding = p.get("embedding", torch.ones(c, s, dtype=torch.float64))
        product, constant = self._unshifted(p)
        constant = constant + p["constant.bias"]
        eye_basis = torch.eye(k, dtype=torch.float64)
        radial = torch.cat([p[f"radial.{l}"] for l in range(self.lmax + 1)]) @ self.transform.double()
        skip = constant.unsqueeze(2) * (embedding / embedding.square().sum(0)).T.unsqueeze(1)
        out = {
            "energy_scale": torch.ones(1),
            "embedding": math.sqrt(s) * embedding,
            "radial_frequencies": self.frequency,
            "layers.0.radial_mlp.0": torch.cat([eye_basis, -eye_basis]),
            "layers.0.radial_mlp.1": torch.cat([radial, -radial], 1),
            "layers.0.linear_up.l0": root * eye,
            "layers.0.skip.l0": math.sqrt(c * s) * skip,
            "layers.0.product.linear.l0": root * eye,
            "readout.0.0": root * p["readout.0"],
            "readout.0.1": math.sqrt(self.n_readout) * scale * p["readout.1"],
        }
        for l in range(self.lmax + 1):
            out[f"layers.0.linear.l{l}"] = root * p.get(f"mix.{l}", eye)
        before = 0
        for degree, (rows, n) in enumerate(self.invariants, 1):
            name = f"layers.0.product.l0.degree_{degree}."
            out[name + "rows"] = torch.tensor([[0.0, *row] for row in rows], dtype=torch.float64)
            out[name + "weight"] = product[:, before : before + n]
            before += n
        doubles = ("rows", "radial_frequencies")
        return {k: (v.double() if k.endswith(doubles) else v.float()).cpu().numpy() for k, v in out.items()}

    def _unshifted(self, p):
        """Weights of the invariants of A itself and the constant [elements, C], from those of A less its mean."""
        w = p["product"].clone()
        a = self.mean.double() @ next(self.weights(p)).T
        linear, square, degree = w[:, 0].clone(), w[:, 1 : self.lmax + 2].clone(), len(self.invariants)
        with_l = [cubic(self.lmax).index((0, l, l)) for l in range(self.lmax + 1)] if degree > 2 else []
        third = torch.stack([w[:, self.lmax + 2 + q] for q in with_l], 1) if with_l else torch.zeros_like(square)
        w[:, 0] = linear - 2 * a * square[:, 0] + 3 * a**2 * third[:, 0]
        w[:, 1] = square[:, 0] - 3 * a * third[:, 0]
        for l in range(1, self.lmax + 1):
            w[:, 1 + l] = square[:, l] - a * third[:, l]
        return w, -a * linear + a**2 * square[:, 0] - a**3 * third[:, 0]


def exponents(lmax):
    """Exponents of x, y, z in the monomials up to degree lmax."""
    return [e for e in itertools.product(range(lmax + 1), repeat=3) if sum(e) <= lmax]


def monomials(u, lmax):
    """The monomials of exponents() [E, n] of unit vectors u [E, 3]."""
    powers = [torch.ones_like(u)]
    for _ in range(lmax):
        powers.append(powers[-1] * u)
    return torch.stack([powers[a][:, 0] * powers[b][:, 1] * powers[c][:, 2] for a, b, c in exponents(lmax)], 1)


def harmonic_polynomial(l, lmax):
    """Coefficients [2l+1, n] of the harmonics of order l in the monomials of exponents(lmax) of their own degree."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(64, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    mine = [k for k, e in enumerate(exponents(lmax)) if sum(e) == l]
    values = np.stack([np.prod(u ** np.array(e), axis=1) for e in exponents(lmax)], 1)
    out = np.zeros((2 * l + 1, values.shape[1]))
    out[:, mine] = np.linalg.lstsq(values[:, mine], harmonics(u, lmax)[0][l], rcond=None)[0].T
    return out
