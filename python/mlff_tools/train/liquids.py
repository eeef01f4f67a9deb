"""Liquids and mixtures: molecules packed at random into a periodic cubic box, without overlaps. Dimers: two molecules
pressed together."""

import os

import numpy as np

from ..model import reference, structures
from ..model.masses import MASS
from . import extxyz
from .extxyz import FrameError

# Van der Waals radii, A (Bondi 1964; H: Rowland and Taylor 1996); of other elements OTHER
RADII = {"H": 1.1, "C": 1.7, "N": 1.55, "O": 1.52, "F": 1.47, "P": 1.8, "S": 1.8, "Cl": 1.75, "Br": 1.85, "I": 1.98}
OTHER = 2.0
CLOSEST = 0.80  # of the sum of two radii: O-O 2.43 A, O-H 2.10 A, H-H 1.76 A
SLACK = 0.01  # A by which two atoms may be closer than that
ROUNDS, TRIES = 600, 4
SKIN = 1.5  # A, of the list of pairs


def read_molecule(name, place="."):
    """(elements, positions [N, 3] around their centre) of a molecule that structures.py knows, or of an XYZ file."""
    if name in structures.MOLECULES:
        elements, x = structures.molecule(name)
    else:
        frames = extxyz.read(os.path.join(place, name))
        if len(frames) > 1:
            raise FrameError(f"{name}: holds {len(frames)} frames; expected one molecule")
        elements, x = frames[0]["elements"], frames[0]["positions"]
    return list(elements), np.array(x, float) - np.mean(x, 0)


def edge_of(molecules, density):
    """Edge in A of the cube in which [(elements, positions, number)] have `density` g/cm3."""
    mass = sum(n * sum(MASS[e] for e in elements) for elements, _, n in molecules)
    return (mass / (density * structures.AVOGADRO_A3)) ** (1 / 3)


class Packing:
    """Rigid molecules in a cube that move apart until no two atoms of different molecules overlap.

    Each overlapping pair is pushed apart, then each molecule is laid through its moved atoms (the rotation of least
    squares), again and again."""

    def __init__(self, molecules, edge, rng):
        units = [unit for elements, unit, n in molecules for _ in range(n)]
        self.edge, self.units = edge, units
        self.elements = [e for elements, _, n in molecules for _ in range(n) for e in elements]
        sizes = np.array([len(u) for u in units])
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.unit_of_atom = np.repeat(np.arange(len(units)), sizes)
        self.sizes, self.rest = sizes, np.concatenate(units)
        self.radius = CLOSEST * np.array([RADII.get(e, OTHER) for e in self.elements])
        side = int(np.ceil(len(units) ** (1 / 3) - 1e-9))
        sites = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
        sites = sites[rng.permutation(len(sites))[: len(units)]] * (edge / side)
        self.x = np.concatenate([u @ structures.random_rotation(rng).T + s for u, s in zip(units, sites)])
        self.listed = None

    def _pairs(self):
        """Atoms i, j of different molecules that may come to overlap before the list is made again."""
        if self.listed is None or np.linalg.norm(self.x - self.listed, axis=1).max() > SKIN / 2:
            self.listed, parts = self.x.copy(), []
            reach = 2 * self.radius.max() + SKIN
            for i in range(len(self.x)):
                d = self.x[i + 1 :] - self.x[i]
                d -= self.edge * np.round(d / self.edge)
                close = (
                    i
                    + 1
                    + np.nonzero(
                        ((d * d).sum(1) < reach * reach) & (self.unit_of_atom[i + 1 :] != self.unit_of_atom[i])
                    )[0]
                )
                parts.append(np.stack([np.full(len(close), i), close]))
            self.i, self.j = np.concatenate(parts, 1)
        return self.i, self.j

    def relax(self):
        """Whether the overlaps are gone after ROUNDS."""
        for _ in range(ROUNDS):
            i, j = self._pairs()
            d = self.x[i] - self.x[j]
            d -= self.edge * np.round(d / self.edge)
            r = np.maximum(np.linalg.norm(d, axis=1), 1e-6)
            overlap = self.radius[i] + self.radius[j] - r
            close = overlap > 0
            if not close.any() or overlap.max() < SLACK / 2:
                return True
            push = (overlap[close] / r[close])[:, None] * d[close]
            self._move(i[close], j[close], push)
        return False

    def _move(self, i, j, push):
        n, moved = len(self.x), np.empty_like(self.x)
        for a in range(3):
            moved[:, a] = np.bincount(i, push[:, a], n) - np.bincount(j, push[:, a], n)
        pushed = np.bincount(self.unit_of_atom, np.bincount(i, minlength=n) + np.bincount(j, minlength=n) > 0)
        # a molecule moves by the mean over its atoms: as far as those that are pushed should
        moved *= (0.5 * self.sizes / np.maximum(pushed, 1))[self.unit_of_atom][:, None]
        target = self.x + moved
        centre = np.add.reduceat(target, self.first) / self.sizes[:, None]
        products = self.rest[:, :, None] * (target - centre[self.unit_of_atom])[:, None, :]
        u, _, v = np.linalg.svd(np.add.reduceat(products, self.first))
        u[:, :, 2] *= np.sign(np.linalg.det(u @ v))[:, None]
        self.x = (self.rest[:, None, :] @ (u @ v)[self.unit_of_atom])[:, 0] + centre[self.unit_of_atom]

    def whole(self):
        """Positions with the centres of all molecules in the cube, rounded to 1e-6 A."""
        centre = np.add.reduceat(self.x, self.first) / self.sizes[:, None]
        return np.round(self.x - (self.edge * np.floor(centre / self.edge))[self.unit_of_atom], 6)

    def overlaps(self, x):
        """Whether two atoms of different molecules, or of a molecule and its image, are too close."""
        i, j, d = reference.neighbours(x, np.eye(3) * self.edge, 2 * self.radius.max())
        image = np.linalg.norm(d - (x[j] - x[i]), axis=1) > 1e-6
        other = (self.unit_of_atom[i] != self.unit_of_atom[j]) | image
        return bool((np.linalg.norm(d, axis=1)[other] < (self.radius[i] + self.radius[j])[other] - SLACK).any())


def liquid(molecules, density, seed, place="."):
    """A box of {name: number} molecules at `density` g/cm3. seed: a number, or a list of numbers."""
    made = [(*read_molecule(name, place), n) for name, n in molecules.items()]
    edge = edge_of(made, density)
    rng = np.random.default_rng(seed)
    for _ in range(TRIES):
        packing = Packing(made, edge, rng)
        x = packing.whole() if packing.relax() else None
        if x is not None and not packing.overlaps(x):
            return {"elements": packing.elements, "positions": x, "cell": np.eye(3) * edge}
    what = " and ".join(f"{n} {name}" for name, n in molecules.items())
    raise FrameError(f"{what} at {density:g} g/cm3, in a cube of {edge:.2f} A, cannot be packed without overlaps")


def dimers(molecules, closest, number, seed, place="."):
    """Pairs of the two `molecules` (names), turned at random and brought together along a line at random until the
    closest two atoms of different molecules are at a share of the sum of their radii that is uniform in `closest`."""
    (first, a), (second, b) = (read_molecule(name, place) for name in molecules)
    sums = np.add.outer([RADII.get(e, OTHER) for e in first], [RADII.get(e, OTHER) for e in second])
    rng, out = np.random.default_rng(seed), []
    while len(out) < number:
        x, y = a @ structures.random_rotation(rng).T, b @ structures.random_rotation(rng).T
        reach, d = rng.uniform(*closest) * sums, x[:, None] - y[None]
        square = reach**2 - d[..., 0] ** 2 - d[..., 1] ** 2  # both are turned at random: the line is z
        if (square <= 0).all():
            continue  # one would pass through the other, a ring, without coming so close
        distance = (d[..., 2] + np.sqrt(np.maximum(square, 0.0)))[square > 0].max()
        y = y + [0.0, 0.0, distance]
        out.append({"elements": first + second, "positions": np.round(np.concatenate([x, y]), 6), "cell": None})
    return out
