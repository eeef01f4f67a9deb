"""Orb-v2 in float64 with numpy alone: the part of reference.py that evaluates `orb` models.

The mathematics is that of docs/model_file.md. Unlike the other architectures its forces and stress are outputs of the
network and no derivatives. Symbols: s sender, r receiver of an edge, L = n_features.
"""

import numpy as np

TIE = 1e-9  # A: neighbors are equally far when their distances differ by less


def _images(positions, cell, cutoff):
    """Positions wrapped into the cell, and the lattice vectors within reach of the cutoff."""
    x = np.asarray(positions, float)
    if cell is None:
        return x, np.zeros((1, 3))
    cell = np.asarray(cell, float)
    inverse = np.linalg.inv(cell)
    x = (x @ inverse % 1.0) @ cell
    n = np.floor(cutoff * np.linalg.norm(inverse, axis=0)).astype(int) + 1
    grid = np.meshgrid(*[np.arange(-k, k + 1) for k in n], indexing="ij")
    return x, np.stack(grid, -1).reshape(-1, 3) @ cell


def _choose(d, j, vectors, n_neighbours):
    """Indices of the nearest `n_neighbours`; of those as far as the last one, lower atoms and then lower images
    first."""
    if len(d) <= n_neighbours:
        return np.arange(len(d))
    limit = np.sort(d)[n_neighbours - 1]
    nearer = np.nonzero(d < limit - TIE)[0]
    tied = np.nonzero(np.abs(d - limit) <= TIE)[0]
    grid = np.round(vectors[tied] / 1e-6)  # images of one atom differ by lattice vectors: compared in x, then y, then z
    order = np.lexsort((grid[:, 2], grid[:, 1], grid[:, 0], j[tied]))
    return np.concatenate([nearer, tied[order[: n_neighbours - len(nearer)]]])


def graph(positions, cell, cutoff, n_neighbours):
    """The directed graph: senders s [E], receivers r [E], vectors [E, 3] = x_r + S - x_s, ordered by s.

    Every atom sends to its `n_neighbours` nearest atoms or images closer than `cutoff`, own images included.
    """
    x, shifts = _images(positions, cell, cutoff)
    s, r, vectors = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros((0, 3))]
    for centre in range(len(x)):
        d = x[None] + shifts[:, None] - x[centre]
        length = np.linalg.norm(d, axis=-1)
        image, j = np.nonzero((length < cutoff) & (length > 1e-9))
        chosen = _choose(length[image, j], j, d[image, j], n_neighbours)
        s.append(np.full(len(chosen), centre))
        r.append(j[chosen])
        vectors.append(d[image, j][chosen])
    return np.concatenate(s), np.concatenate(r), np.concatenate(vectors)


def _ssp(x):
    """softplus(x) - ln 2, where softplus is x itself above 20 as in PyTorch."""
    return np.where(x > 20.0, x, np.log1p(np.exp(np.minimum(x, 20.0)))) - np.log(2.0)


def _linear(t, name, x):
    return x @ t[name + ".weight"].T + t[name + ".bias"]


def _mlp(t, name, n_layers, x):
    for l in range(n_layers):
        x = _linear(t, f"{name}.{l}", _ssp(x) if l else x)
    return x


def _mlp_norm(t, name, x, epsilon):
    x = _mlp(t, name, 3, x)
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * t[name + ".norm.weight"] + t[name + ".norm.bias"]


def edge_input(vectors, basis):
    """[E, n + 3]: Gaussians of the distance, and the unit vector."""
    d = np.linalg.norm(vectors, axis=1)
    centres = np.arange(basis["n"]) * (basis["radius"] / basis["n"])
    return np.concatenate([np.exp(-((d[:, None] - centres) ** 2)), vectors / np.maximum(d, 1e-12)[:, None]], 1)


def features(head, tensors, species, positions, cell):
    """Node features [N, L] after the last layer."""
    p, t = head["orb"], tensors
    s, r, vectors = graph(positions, cell, head["cutoff"], p["n_neighbours"])
    x = np.linalg.norm(vectors, axis=1) / head["cutoff"]
    envelope = np.where(x < 1, 1 - 15 * x**4 + 24 * x**5 - 10 * x**6, 0.0)[:, None]
    h = _mlp_norm(t, "node_encoder", t["embedding"][species], p["norm_epsilon"])
    e = _mlp_norm(t, "edge_encoder", edge_input(vectors, p["radial_basis"]), p["norm_epsilon"])
    for l in range(p["n_interactions"]):
        name = f"layer.{l}."
        receive, send = (envelope / (1 + np.exp(-_linear(t, name + k, e))) for k in ("receive", "send"))
        m = _mlp_norm(t, name + "edge", np.concatenate([e, h[s], h[r]], 1), p["norm_epsilon"])
        sent, received = np.zeros_like(h), np.zeros_like(h)
        np.add.at(sent, s, m * send)
        np.add.at(received, r, m * receive)
        h = h + _mlp_norm(t, name + "node", np.concatenate([h, received, sent], 1), p["norm_epsilon"])
        e = e + m
    return h


def without_torque(forces, positions):
    """forces plus the rigid rotation field about the centroid that cancels their torque."""
    q = positions - positions.mean(0)
    inertia = (q * q).sum() * np.eye(3) - q.T @ q
    return forces + np.cross(q, np.linalg.pinv(inertia, rcond=1e-12, hermitian=True) @ np.cross(q, forces).sum(0))


def evaluate(head, tensors, species, positions, cell):
    """Energy without offsets, forces [N, 3] and virial [6] (xx yy zz xy xz yz), in the file's units.

    Periodic: virial = -stress * volume. Open: torque is removed, and the virial is that of the forces, sum q_i f_i.
    """
    x = np.asarray(positions, float)
    h = features(head, tensors, species, x, cell)

    def physical(output, name):
        mean, variance = head["orb"]["normalizers"][name]
        return output * np.sqrt(variance) + mean

    g = h.mean(0)
    energy = len(species) * physical(_mlp(tensors, "energy", 2, g)[0], "energy")
    forces = _mlp(tensors, "forces", 2, h)
    forces = forces - forces.mean(0)
    if cell is None:
        forces = physical(without_torque(forces, x), "forces")
        w = (x - x.mean(0)).T @ forces
        w = 0.5 * (w + w.T)
        return energy, forces, w[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    stress = physical(_mlp(tensors, "stress", 2, g), "stress")  # xx yy zz yz xz xy
    return energy, physical(forces, "forces"), -abs(np.linalg.det(cell)) * stress[[0, 1, 2, 5, 4, 3]]
