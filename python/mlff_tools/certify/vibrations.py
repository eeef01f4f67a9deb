"""Phonons by finite displacements: force constants of a supercell, frequencies at wave vectors."""

import numpy as np

from ..model.masses import MASS
from . import lattice

MOVE = 0.01  # A
# sqrt(eV / (A^2 g/mol)) in rad/ps, over 2 pi: THz
THZ = np.sqrt(1.602176634e-19 / (1e-20 * 1.66053907e-27)) * 1e-12 / (2 * np.pi)
WIDTH = 10.0  # A, of the supercell
MESH = 6  # wave vectors along each reciprocal vector of the primitive cell
# High-symmetry points in units of the reciprocal vectors of the conventional cell, with the path between them
POINTS = {
    "F": {"G": (0, 0, 0), "X": (1, 0, 0), "W": (1, 0.5, 0), "L": (0.5, 0.5, 0.5)},
    "I": {"G": (0, 0, 0), "H": (1, 0, 0), "N": (0.5, 0.5, 0), "P": (0.5, 0.5, 0.5)},
    "P": {"G": (0, 0, 0), "X": (0.5, 0, 0), "M": (0.5, 0.5, 0), "R": (0.5, 0.5, 0.5)},
    "hexagonal": {"G": (0, 0, 0), "M": (0.5, 0, 0), "K": (1 / 3, 1 / 3, 0), "A": (0, 0, 0.5)},
}


def centring(frame):
    """P, I or F of a conventional cell, or hexagonal; others count as P."""
    n = len(lattice.centrings(frame))
    lengths = np.linalg.norm(frame["cell"], axis=1)
    if n == 1 and abs(lengths[0] - lengths[1]) < 1e-3 and abs(frame["cell"][0] @ frame["cell"][1]) > 0.1:
        return "hexagonal"
    return {1: "P", 2: "I", 4: "F"}.get(n, "P")


def points(frame):
    """{name: wave vector} of the high-symmetry points of a crystal."""
    return POINTS[centring(frame)]


class ForceConstants:
    """Force constants of a relaxed unit cell. evaluate: returns forces of structures; times: the supercell, or None to
    choose one; move: the displacement, A; phi: force constants that are known, for which nothing is evaluated."""

    def __init__(self, evaluate, frame, times=None, move=MOVE, phi=None):
        self.frame = frame
        self.times = list(times or lattice.times_for(frame, WIDTH, 2))
        big = lattice.repeated(frame, self.times)
        self.atoms = lattice.primitive_atoms(frame)
        self.phi = self._evaluated(evaluate, big, move) if phi is None else phi
        self.big = big
        self._images()

    def _evaluated(self, evaluate, big, move):
        """[primitive atom, axis, atom of the supercell, axis], eV/A^2"""
        moved = []
        for k in self.atoms:
            for axis in range(3):
                for sign in (1, -1):
                    x = big["positions"].copy()
                    x[k, axis] += sign * move
                    moved.append({**big, "positions": x})
        forces = np.array([label["forces"] for label in evaluate(moved)])
        phi = -(forces[0::2] - forces[1::2]).reshape(len(self.atoms), 3, len(big["elements"]), 3) / (2 * move)
        return phi - phi.mean(2, keepdims=True)  # a crystal that is moved as a whole feels no force

    def _images(self):
        """For each primitive atom and atom of the supercell: which primitive atom it is, and the shortest vectors."""
        x, cell = self.big["positions"], self.big["cell"]
        s = np.linalg.solve(self.frame["cell"].T, self.frame["positions"].T).T
        ts = lattice.centrings(self.frame)
        primitive = np.empty(len(s), int)
        for a, k in enumerate(self.atoms):
            for t in ts:
                d = s[k] + t - s
                d -= np.round(d)
                primitive[np.abs(d @ self.frame["cell"]).max(-1) < 1e-4] = a
        self.primitive = np.tile(primitive, len(x) // len(s))
        shifts = np.array([(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]) @ cell
        inverse = np.linalg.inv(cell)
        self.vectors = []
        for k in self.atoms:
            d = x - x[k]
            d -= np.round(d @ inverse) @ cell
            all_images = d[:, None] + shifts
            r = np.linalg.norm(all_images, axis=-1)
            images = r < r.min(1, keepdims=True) + 1e-3
            self.vectors.append((all_images, images / images.sum(1, keepdims=True)))

    def frequencies(self, q):
        """Frequencies in THz at the wave vector q (reciprocal vectors of the unit cell), imaginary ones negative."""
        wave = 2 * np.pi * np.asarray(q, float) @ np.linalg.inv(self.frame["cell"]).T
        n = len(self.atoms)
        mass = np.array([MASS[self.frame["elements"][k]] for k in self.atoms])
        d = np.zeros((n, 3, n, 3), complex)
        for a in range(n):
            vectors, weights = self.vectors[a]
            phase = (weights * np.exp(1j * vectors @ wave)).sum(1)
            for b in range(n):
                mine = self.primitive == b
                d[a, :, b] = np.einsum("j,ijk->ik", phase[mine], self.phi[a][:, mine]) / np.sqrt(mass[a] * mass[b])
        d = d.reshape(3 * n, 3 * n)
        w = np.linalg.eigvalsh((d + d.conj().T) / 2)
        return THZ * np.sign(w) * np.sqrt(np.abs(w))

    def mesh(self, n=MESH):
        """Frequencies [wave vectors, modes] in THz on a mesh of the primitive cell's Brillouin zone, half a step off
        its center; one of each wave vector and its opposite."""
        t = (np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3) + 0.5) / n
        waves = t[t[:, 0] < 0.5] @ np.linalg.inv(lattice.primitive_vectors(self.frame)).T
        return np.array([self.frequencies(q) for q in waves @ self.frame["cell"].T])

    def path(self, n=20):
        """(positions along the path, frequencies [n, modes], [(position, name)]) through the points of its lattice."""
        ends = list(points(self.frame).items())
        ends = [*ends[1:], ends[0]] if len(ends) > 2 else ends
        ends = [ends[-1], *ends[:-1], ends[-1]]
        reciprocal = np.linalg.inv(self.frame["cell"]).T
        distances, out, ticks, where = [], [], [], 0.0
        for (name, a), (_, b) in zip(ends, ends[1:]):
            ticks.append((where, name))
            length = float(np.linalg.norm((np.array(b) - a) @ reciprocal))
            for t in np.arange(n) / n:
                distances.append(where + t * length)
                out.append(self.frequencies(np.array(a) + t * (np.array(b) - np.array(a))))
            where += length
        ticks.append((where, ends[-1][0]))
        return [*distances, where], np.array([*out, self.frequencies(ends[-1][1])]), ticks

    def edges(self):
        """[(point, number of the mode from 1, THz)] at the points of its lattice, degenerate modes once, without the
        three that move the crystal as a whole."""
        out = []
        for name, q in points(self.frame).items():
            w = self.frequencies(q)
            if name == "G":
                w = np.sort(w[np.argsort(np.abs(w))[3:]])
            last = None
            for value in w:
                if last is None or value - last > 0.02 + 1e-3 * abs(value):
                    out.append((name, value))
                last = value
        counts = {}
        numbered = []
        for name, value in out:
            counts[name] = counts.get(name, 0) + 1
            numbered.append((name, counts[name], float(value)))
        return numbered
