"""Energy, forces and virial of a model file in float64 with numpy alone: slow, plain, independent of the engine.

It is where the numbers of a self-test come from, and what the engine and the training code are tested against. The
mathematics of all architectures is that of docs/model_file.md. Symbols: i centre, j neighbor, r_ij = x_j + S - x_i.
"""

import numpy as np

from . import reference_orb, repulsion
from .reference_mace import mace
from .reference_nequip import nequip
from .reference_tensornet import tensornet


def neighbours(positions, cell, cutoff):
    """Full list of pairs closer than `cutoff` A, all periodic images included, an atom's own images too.

    Returns i [E], j [E], vectors [E, 3] = x_j + S - x_i in A, ordered by i.
    """
    x = np.asarray(positions, float)
    shifts = np.zeros((1, 3))
    if cell is not None:
        cell = np.asarray(cell, float)
        inverse = np.linalg.inv(cell)
        x = (x @ inverse % 1.0) @ cell
        n = np.floor(cutoff * np.linalg.norm(inverse, axis=0)).astype(int) + 1
        grid = np.meshgrid(*[np.arange(-k, k + 1) for k in n], indexing="ij")
        shifts = np.stack(grid, -1).reshape(-1, 3) @ cell
    i, j, vectors = [], [], []
    for centre in range(len(x)):
        d = x[None] + shifts[:, None] - x[centre]
        r2 = (d * d).sum(-1)
        image, neighbour = np.nonzero((r2 < cutoff * cutoff) & (r2 > 1e-18))
        i.append(np.full(len(neighbour), centre))
        j.append(neighbour)
        vectors.append(d[image, neighbour])
    return np.concatenate(i), np.concatenate(j), np.concatenate(vectors)


def _silu(x):
    return x * 0.5 * (1 + np.tanh(0.5 * x))


def _dsilu(x):
    s = 0.5 * (1 + np.tanh(0.5 * x))
    return s * (1 + x * (1 - s))


def _cosine_cutoff(r, cutoff):
    """fc(r) = (1 + cos(pi r / cutoff)) / 2 for r < cutoff, and its derivative."""
    x = np.pi * np.minimum(r, cutoff) / cutoff
    return 0.5 * (1 + np.cos(x)), -0.5 * np.pi / cutoff * np.sin(x)


def bspline(r, n, cutoff):
    """Cubic B-splines phi_k(r) = B(r/h - (k - 3)), h = cutoff/n, and d phi/dr: [E, n] each.

    B is the uniform cubic B-spline on [0, 4] (knots 0..4, values 1/6, 4/6, 1/6); all have ended at r = cutoff.
    """
    h = cutoff / n
    t = r[:, None] / h - (np.arange(n) - 3)
    value, slope = np.zeros_like(t), np.zeros_like(t)
    for sign, knot in ((1, 0), (-4, 1), (6, 2), (-4, 3), (1, 4)):
        u = np.maximum(t - knot, 0.0)
        value += sign * u**3 / 6
        slope += sign * u**2 / 2
    inside = (t > 0) & (t < 4)
    return np.where(inside, value, 0.0), np.where(inside, slope / h, 0.0)


def _radial_basis(head, tensors, r):
    """Radial functions times cutoff [E, K], cutoff [E] (it multiplies the bias), and both derivatives."""
    basis, cutoff = head["painn"]["radial_basis"], head["cutoff"]
    if basis["kind"] == "bspline":
        phi, dphi = bspline(r, basis["n"], cutoff)
        return phi, dphi, np.zeros_like(r), np.zeros_like(r)
    if basis["kind"] == "gaussian":
        x, w2 = r[:, None] - tensors["basis.offsets"], tensors["basis.widths"] ** 2
        phi = np.exp(-0.5 * x * x / w2)
        dphi = -x / w2 * phi
    else:
        k = tensors["basis.freqs"]
        phi = np.sin(k * r[:, None]) / r[:, None]
        dphi = (k * np.cos(k * r[:, None]) - phi) / r[:, None]
    fc, dfc = _cosine_cutoff(r, cutoff)
    return phi * fc[:, None], dphi * fc[:, None] + phi * dfc[:, None], fc, dfc


def painn(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3] of a PaiNN, in the file's energy unit, without offsets."""
    p, t, n_atoms = head["painn"], tensors, len(species)
    f, eps = p["n_features"], p["epsilon"]

    def linear(name, x):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0.0)

    r = np.linalg.norm(vectors, axis=1)
    u = vectors / r[:, None]
    phi, dphi, fc, dfc = _radial_basis(head, t, r)
    q, mu, tape = t["embedding"][species], np.zeros((n_atoms, 3, f)), []
    for l in range(p["n_interactions"]):
        bias = t.get(f"filter.{l}.bias", np.zeros(3 * f))
        w = phi @ t[f"filter.{l}.weight"].T + fc[:, None] * bias
        h1 = linear(f"context.{l}.0", q)
        x = linear(f"context.{l}.1", _silu(h1))
        a, b, c = np.split(w * x[j], 3, axis=1)
        mu_in, q, mu = mu, q.copy(), mu.copy()
        np.add.at(q, i, a)
        np.add.at(mu, i, b[:, None] * u[:, :, None] + c[:, None] * mu_in[j])
        v, m = np.split(linear(f"channel_mix.{l}", mu), 2, axis=-1)
        norm = np.sqrt((v * v).sum(1) + eps)
        h2 = linear(f"mixing.{l}.0", np.concatenate([q, norm], 1))
        s, g, k = np.split(linear(f"mixing.{l}.1", _silu(h2)), 3, axis=1)
        dot = (v * m).sum(1)
        tape.append((w, h1, x, b, c, mu_in, v, m, norm, h2, g, k, dot))
        q = q + s + k * dot
        mu = mu + g[:, None] * m
    h = linear("readout.0", q)
    energy = linear("readout.1", _silu(h))[:, 0]

    gq = (t["readout.1.weight"] * _dsilu(h)) @ t["readout.0.weight"]
    gmu, gr, gu = np.zeros_like(mu), np.zeros_like(r), np.zeros_like(u)
    for l in reversed(range(p["n_interactions"])):
        w, h1, x, b, c, mu_in, v, m, norm, h2, g, k, dot = tape[l]
        gy = np.concatenate([gq, (gmu * m).sum(1), gq * dot], 1)
        gm = gmu * g[:, None] + (gq * k)[:, None] * v
        gin = ((gy @ t[f"mixing.{l}.1.weight"]) * _dsilu(h2)) @ t[f"mixing.{l}.0.weight"]
        gv = (gq * k)[:, None] * m + (gin[:, f:] / norm)[:, None] * v
        gq = gq + gin[:, :f]
        gmu = gmu + np.concatenate([gv, gm], -1) @ t[f"channel_mix.{l}.weight"]
        gi = gmu[i]
        g3 = np.concatenate([gq[i], (gi * u[:, :, None]).sum(1), (gi * mu_in[j]).sum(1)], 1)
        gw = g3 * x[j]
        gr += ((gw @ t[f"filter.{l}.weight"]) * dphi).sum(1) + dfc * (gw @ t.get(f"filter.{l}.bias", np.zeros(3 * f)))
        gu += (gi * b[:, None]).sum(2)
        gx, gmu = np.zeros_like(x), gmu.copy()
        np.add.at(gx, j, g3 * w)
        np.add.at(gmu, j, gi * c[:, None])
        gq = gq + ((gx @ t[f"context.{l}.1.weight"]) * _dsilu(h1)) @ t[f"context.{l}.0.weight"]
    return energy, gr[:, None] * u + (gu - u * (u * gu).sum(1, keepdims=True)) / r[:, None]


def _pair_index(n):
    """[n, n] index of an unordered pair of species in the upper triangle, row by row."""
    index = np.zeros((n, n), int)
    upper = np.triu_indices(n)
    index[upper] = np.arange(len(upper[0]))
    return np.maximum(index, index.T)


def _triples(i, r, cutoff):
    """Edges (a, b), a < b, of one centre that both are shorter than `cutoff`: every unordered pair of neighbors
    once."""
    edges_within = np.nonzero(r < cutoff)[0]
    firsts, seconds = [], []
    for centre in np.unique(i[edges_within]):
        edges = edges_within[i[edges_within] == centre]
        x, y = np.triu_indices(len(edges), 1)
        firsts.append(edges[x])
        seconds.append(edges[y])
    if not firsts:
        return np.zeros(0, int), np.zeros(0, int)
    return np.concatenate(firsts), np.concatenate(seconds)


class _Aev:
    """Atomic environment vectors and their reverse pass for one list of edges."""

    def __init__(self, head, species, i, j, vectors):
        radial, angular, n = head["ani"]["radial"], head["ani"]["angular"], len(head["elements"])
        self.i, self.vectors, self.r = i, vectors, np.linalg.norm(vectors, axis=1)
        self.n_radial, self.n_shells = n * len(radial["shifts"]), len(radial["shifts"])
        self.n_angular = len(angular["shifts"]) * len(angular["sections"])
        self.n_angular_blocks = n * (n + 1) // 2
        self._radial(radial, species[j])
        self._angular(angular, species[j], _pair_index(n))
        self.values = np.zeros((len(species), self.n_radial + self.n_angular_blocks * self.n_angular))
        blocks = self.values[:, : self.n_radial].reshape(len(species), n, self.n_shells)
        np.add.at(blocks, (i, species[j]), self.g)
        blocks = self.values[:, self.n_radial :].reshape(len(species), self.n_angular_blocks, self.n_angular)
        if len(self.a):
            np.add.at(
                blocks,
                (i[self.a], self.pair),
                (self.f2[:, :, None] * self.f1[:, None] * (self.ca * self.cb)[:, None, None]).reshape(len(self.a), -1),
            )

    def _radial(self, radial, neighbour_species):
        x = self.r[:, None] - np.array(radial["shifts"])
        fc, dfc = _cosine_cutoff(self.r, radial["cutoff"])
        gauss = radial["prefactor"] * np.exp(-radial["eta"] * x * x)
        self.g = gauss * fc[:, None]
        self.dg = gauss * (dfc[:, None] - 2 * radial["eta"] * x * fc[:, None])
        self.t = neighbour_species

    def _angular(self, angular, neighbour_species, pair_index):
        self.a, self.b = a, b = _triples(self.i, self.r, angular["cutoff"])
        self.pair = pair_index[neighbour_species[a], neighbour_species[b]]
        ra, rb, zeta = self.r[a], self.r[b], angular["zeta"]
        self.cos = (self.vectors[a] * self.vectors[b]).sum(1) / (ra * rb)
        scaled = angular["cos_scale"] * self.cos
        theta = np.arccos(scaled)[:, None] - np.array(angular["sections"])
        half = 0.5 * (1 + np.cos(theta))
        self.f1 = angular["prefactor"] * half**zeta
        dtheta = -0.5 * angular["prefactor"] * zeta * half ** (zeta - 1) * np.sin(theta)
        self.df1 = dtheta * (-angular["cos_scale"] / np.sqrt(1 - scaled * scaled))[:, None]  # d f1 / d cos
        x = 0.5 * (ra + rb)[:, None] - np.array(angular["shifts"])
        self.f2 = np.exp(-angular["eta"] * x * x)
        self.df2 = -angular["eta"] * x * self.f2  # d f2 / d ra = d f2 / d rb
        self.ca, self.dca = _cosine_cutoff(ra, angular["cutoff"])
        self.cb, self.dcb = _cosine_cutoff(rb, angular["cutoff"])

    def edge_gradient(self, gradient):
        """dE/d r_ij [E, 3] from dE/dAEV [N, length]."""
        n = len(gradient)
        blocks = gradient[:, : self.n_radial].reshape(n, -1, self.n_shells)
        dr = (blocks[self.i, self.t] * self.dg).sum(1)
        d = np.zeros_like(self.vectors)
        if len(self.a):
            a, b = self.a, self.b
            g = gradient[:, self.n_radial :].reshape(n, self.n_angular_blocks, self.f2.shape[1], self.f1.shape[1])
            g = g[self.i[a], self.pair]
            value = np.einsum("tsz,ts,tz->t", g, self.f2, self.f1)
            slope_r = np.einsum("tsz,ts,tz->t", g, self.df2, self.f1) * self.ca * self.cb
            slope_cos = np.einsum("tsz,ts,tz->t", g, self.f2, self.df1) * self.ca * self.cb
            np.add.at(dr, a, slope_r + value * self.dca * self.cb)
            np.add.at(dr, b, slope_r + value * self.ca * self.dcb)
            ua, ub = self.vectors[a] / self.r[a, None], self.vectors[b] / self.r[b, None]
            np.add.at(d, a, (slope_cos / self.r[a])[:, None] * (ub - self.cos[:, None] * ua))
            np.add.at(d, b, (slope_cos / self.r[b])[:, None] * (ua - self.cos[:, None] * ub))
        return d + (dr / self.r)[:, None] * self.vectors


def _mlp(tensors, prefix, n_layers, x, alpha):
    """Value [N] and gradient with respect to x [N, length] of a network with CELU(alpha) between its layers."""
    slopes = []
    for l in range(n_layers):
        x = x @ tensors[f"{prefix}.{l}.weight"].T + tensors[f"{prefix}.{l}.bias"]
        if l < n_layers - 1:
            low = np.exp(np.minimum(x, 0) / alpha)
            slopes.append(np.where(x > 0, 1.0, low))
            x = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))
    gradient = np.broadcast_to(tensors[f"{prefix}.{n_layers - 1}.weight"], (len(x), slopes[-1].shape[1]))
    for l in reversed(range(n_layers - 1)):
        gradient = (gradient * slopes[l]) @ tensors[f"{prefix}.{l}.weight"]
    return x[:, 0], gradient


def ani(head, tensors, species, i, j, vectors):
    """Energy of each atom [N] and dE/d r_ij [E, 3], mean over the members, in the file's energy unit, without
    offsets."""
    spec = head["ani"]
    aev = _Aev(head, species, i, j, vectors)
    energy, gradient = np.zeros(len(species)), np.zeros_like(aev.values)
    for s, element in enumerate(head["elements"]):
        mine = np.nonzero(species == s)[0]
        for m in range(spec["n_members"] if len(mine) else 0):
            e, g = _mlp(
                tensors,
                f"member.{m}.{element}",
                len(spec["dims"][element]) - 1,
                aev.values[mine],
                spec["activation"]["alpha"],
            )
            energy[mine] += e / spec["n_members"]
            gradient[mine] += g / spec["n_members"]
    return energy, aev.edge_gradient(gradient)


# architecture -> function of energies of atoms and their gradients by the vectors of pairs
CONSERVATIVE = {"painn": painn, "ani": ani, "nequip": nequip, "mace": mace, "tensornet": tensornet}
# architecture whose forces are outputs -> function of energy, forces and virial
DIRECT = {"orb": reference_orb.evaluate}


def _forces_and_virial(n_atoms, i, j, vectors, gradient):
    """Forces [N, 3] and virial [6] of gradients dE/d r_ij [E, 3]."""
    forces = np.zeros((n_atoms, 3))
    np.add.at(forces, i, gradient)
    np.add.at(forces, j, -gradient)
    w = -vectors.T @ gradient
    w = 0.5 * (w + w.T)
    return forces, w[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


def _network(head, tensors, species, structure):
    """Energy without offsets, forces and virial of the network, in the file's energy unit."""
    positions, cell = structure["positions"], structure["cell"]
    if head["architecture"] in DIRECT:
        return DIRECT[head["architecture"]](head, tensors, species, positions, cell)
    i, j, vectors = neighbours(positions, cell, head["cutoff"])
    seen, own = repulsion.clamped(head, species, i, j, vectors)
    energies, gradient = CONSERVATIVE[head["architecture"]](head, tensors, species, i, j, seen)
    gradient = own(gradient)
    return energies.sum(), *_forces_and_virial(len(species), i, j, vectors, gradient)


def atom_energies(model, structure):
    """Energies of atoms [N], eV, of an architecture of CONSERVATIVE; they sum to the energy of evaluate."""
    head, tensors = model
    tensors = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
    index = {e: k for k, e in enumerate(head["elements"])}
    species = np.array([index[e] for e in structure["elements"]])
    positions, cell = structure["positions"], structure["cell"]
    i, j, vectors = neighbours(positions, cell, head["cutoff"])
    seen, _ = repulsion.clamped(head, species, i, j, vectors)
    energies = CONSERVATIVE[head["architecture"]](head, tensors, species, i, j, seen)[0]
    energies = (energies + [head["energy_offsets"][e] for e in structure["elements"]]) * head["units"]["energy_in_eV"]
    if "repulsion" in head:
        i, j, vectors = neighbours(positions, cell, min(repulsion.reach(head), head["cutoff"]))
        energies = energies + repulsion.evaluate(head, species, i, j, vectors)[0]
    return energies


def evaluate(model, structure):
    """Energy (eV), forces [N, 3] (eV/A) and virial [6] (eV; xx yy zz xy xz yz, positive = repulsive) of a structure.

    model: (head, tensors) as from modelfile.read; structure: a dict as in structures.py.
    """
    head, tensors = model
    tensors = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
    index = {e: k for k, e in enumerate(head["elements"])}
    species = np.array([index[e] for e in structure["elements"]])
    scale = head["units"]["energy_in_eV"]
    offsets = sum(head["energy_offsets"][e] for e in structure["elements"])
    energy, forces, virial = _network(head, tensors, species, structure)
    results = (energy + offsets) * scale, forces * scale, virial * scale
    return with_repulsion(head, structure, results) if "repulsion" in head else results


def _repulsion(head, structure):
    """(i, j, vectors, energy of each atom, dE/d r_ij) of the repulsion, over pairs within its reach."""
    index = {e: k for k, e in enumerate(head["elements"])}
    species = np.array([index[e] for e in structure["elements"]])
    pairs = neighbours(structure["positions"], structure["cell"], min(repulsion.reach(head), head["cutoff"]))
    return (*pairs, *repulsion.evaluate(head, species, *pairs))


def is_repelled(head, structure):
    """Whether two atoms of the structure are within the repulsion of their elements."""
    return bool(_repulsion(head, structure)[-1].any())


def with_repulsion(head, structure, results):
    """(energy, forces, virial) of a network with the repulsion of its file added; a virial of None stays."""
    i, j, vectors, energies, gradient = _repulsion(head, structure)
    forces, virial = _forces_and_virial(len(energies), i, j, vectors, gradient)
    energy = results[0] + energies.sum()
    return energy, results[1] + forces, None if results[2] is None else results[2] + virial
