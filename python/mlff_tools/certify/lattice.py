"""Crystals at 0 K for anything that evaluates structures: relaxation, equation of state, elastic constants."""

import itertools
import math

import numpy as np

from ..model.units import GPA
from .work import NotMeasured

FORCE = 1e-4  # eV/A: relaxed
STRESS = 2e-5  # eV/A^3
STEPS = 300
# A force that never gets so small, where the energy has a kink: relaxed when so many steps in a row have won less than
# FLAT eV, and forces are below KINK eV/A (networks that take norms of vectors have kinks where these vanish)
STALLED, FLAT, KINK = 20, 1e-5, 0.05
LONGEST = 0.1  # A, of one step of an atom
COLLAPSED = 1.0  # eV/A, left after all steps
STIFF, SOFTEST = 20.0, 0.01  # eV/A^2: where the Hessian begins, and the least that divides a force

REACH = 2.3  # cube roots of the volume per atom: within it common lattices differ
SAME = 0.01  # of that length: distances in one lattice
KEPT = 0.1  # the same after a relaxation, in which c/a may change
UNIT, SUPERCELL = 500, 2000  # atoms, at most, of a unit cell and of what is made of it


class NotRelaxed(Exception):
    """A relaxation that did not converge. The text contains its state. collapsed: whether forces are left that no
    structure near a minimum has."""

    def __init__(self, text, collapsed=False):
        super().__init__(text)
        self.collapsed = collapsed


def strained(frame, strain):
    """The frame with cell and positions multiplied by 1 + strain [3, 3]."""
    f = np.eye(3) + np.asarray(strain)
    return {**frame, "cell": frame["cell"] @ f, "positions": frame["positions"] @ f}


def repeated(frame, times):
    """A supercell; the atoms of the first cell stand first."""
    cells = np.stack(np.meshgrid(*[np.arange(n) for n in times], indexing="ij"), -1).reshape(-1, 3)
    x = (cells[:, None] @ frame["cell"] + frame["positions"][None]).reshape(-1, 3)
    cell = frame["cell"] * np.asarray(times, float)[:, None]
    return {**frame, "elements": list(frame["elements"]) * len(cells), "positions": x, "cell": cell}


def widths(cell):
    """Distances between opposite faces of the cell, A."""
    return 1 / np.linalg.norm(np.linalg.inv(cell), axis=0)


def times_to(unit, least):
    """How often a unit cell is repeated, the shortest side first, until it has so many atoms."""
    times = [1, 1, 1]
    while len(unit["elements"]) * int(np.prod(times)) < least:
        times[int(np.argmin(widths(unit["cell"]) * times))] += 1
    return times


def angles(cell):
    """alpha, beta and gamma of a cell, degrees."""
    unit = cell / np.linalg.norm(cell, axis=1)[:, None]
    return np.degrees(np.arccos(np.clip([unit[1] @ unit[2], unit[0] @ unit[2], unit[0] @ unit[1]], -1, 1)))


def times_for(frame, width, least=1, most=SUPERCELL):
    """How often a crystal must be repeated to be so wide in each direction, at least `least` times; NotMeasured for a
    supercell of more than `most` atoms."""
    times = [max(least, int(np.ceil(width / w - 1e-6))) for w in widths(frame["cell"])]
    atoms = len(frame["elements"]) * math.prod(times)
    if atoms > most:
        lengths = ", ".join(f"{x:.3g}" for x in np.linalg.norm(frame["cell"], axis=1))
        raise NotMeasured(
            f"a supercell at least {width:g} A wide of the cell {lengths} A has {atoms} atoms: the limit is {most}; "
            "give the smallest unit cell"
        )
    return times


def nearest_distance(frame):
    """The shortest distance from the first atom to another, A; not to its own images."""
    d = frame["positions"][1:] - frame["positions"][0]
    d -= np.round(d @ np.linalg.inv(frame["cell"])) @ frame["cell"]
    return float(np.linalg.norm(d, axis=1).min())


def volume_of(frame):
    """A^3 per atom."""
    return abs(np.linalg.det(frame["cell"])) / len(frame["elements"])


def _neighborhoods(frame):
    """[n atoms] of sorted (other element, distance over the cube root of the volume per atom) within REACH."""
    length = volume_of(frame) ** (1 / 3)
    n = [int(np.ceil(REACH * length / w)) + 1 for w in widths(frame["cell"])]
    shifts = np.array(list(itertools.product(*[range(-k, k + 1) for k in n]))) @ frame["cell"]
    out, x, names = [], frame["positions"], np.array(frame["elements"])
    for k in range(len(x)):
        d = np.linalg.norm((x - x[k])[:, None] + shifts, axis=-1) / length
        near = (d > 1e-6) & (d < REACH)
        other = np.broadcast_to((names != names[k])[:, None], d.shape)
        out.append(sorted(zip(other[near].tolist(), d[near].tolist())))
    return out


def _matches(a, b, tolerance):
    """Whether two neighborhoods are one, up to atoms at the border of REACH."""
    for kind in (False, True):
        mine, theirs = (np.array([d for other, d in n if other == kind]) for n in (a, b))
        shared = min(len(mine), len(theirs))
        rest = np.concatenate([mine[shared:], theirs[shared:]])
        off = np.abs(mine[:shared] - theirs[:shared]).max(initial=0)
        if off > tolerance or rest.min(initial=REACH) < REACH - 2 * tolerance:
            return False
    return True


def alike(frame, other, tolerance=SAME):
    """Whether each atom of either frame has the neighbors of an atom of the other, up to a change of scale."""
    a, b = _neighborhoods(frame), _neighborhoods(other)
    inside = lambda one, two: all(any(_matches(x, y, tolerance) for y in two) for x in one)
    return inside(a, b) and inside(b, a)


class _Descent:
    """Quasi-Newton descent (BFGS) of one structure in the positions and, with `cell`, the strain."""

    def __init__(self, frame, cell, force):
        self.start, self.cell, self.force = frame, cell, force
        n = 3 * len(frame["elements"])
        self.n, self.x = n, np.zeros(n + (9 if cell else 0))
        atoms = len(frame["elements"])
        self.scale = np.sqrt(atoms) * abs(np.linalg.det(frame["cell"]) / atoms) ** (1 / 3) if cell else 1.0
        self.hessian = STIFF * np.eye(len(self.x))
        self.last = self.label = None
        self.best, self.stalled = (np.inf, None, None), 0

    @property
    def frame(self):
        """The structure now: strain, then displacements."""
        base = strained(self.start, self.x[self.n :].reshape(3, 3) / self.scale) if self.cell else self.start
        return {**base, "positions": base["positions"] + self.x[: self.n].reshape(-1, 3)}

    def take(self, label):
        """Takes the labels of the structure now; True when it is relaxed."""
        self.label = label
        rest = np.abs(label["forces"]).max()
        gradient = -np.ravel(label["forces"])
        if self.cell:
            f = np.eye(3) + self.x[self.n :].reshape(3, 3) / self.scale
            volume = abs(np.linalg.det(self.frame["cell"]))
            strain = volume * np.linalg.solve(f, label["stress"])
            strain = (strain + strain.T) / 2  # no rotations
            gradient = np.concatenate([gradient, np.ravel(strain) / self.scale])
        if rest < self.force and (not self.cell or np.abs(label["stress"]).max() < STRESS):
            return True
        if self._stalled(rest):
            _, self.x, self.label = self.best
            return True
        self._step(gradient)
        return False

    def _stalled(self, rest):
        """Keeps the best structure; True when nothing is won any more although forces are small."""
        energy = self.label["energy"]
        self.stalled = 0 if energy < self.best[0] - FLAT else self.stalled + 1
        if energy < self.best[0]:
            self.best = energy, self.x.copy(), self.label
        return self.stalled >= STALLED and rest < KINK

    def _step(self, gradient):
        """A step of BFGS; directions of negative curvature are gone down as well."""
        if self.last is not None:
            s, y = self.x - self.last[0], gradient - self.last[1]
            sy, hs = float(s @ y), self.hessian @ s
            if abs(sy) > 1e-14:
                self.hessian += np.outer(y, y) / sy - np.outer(hs, hs) / float(s @ hs)
        values, vectors = np.linalg.eigh(self.hessian)
        step = -vectors @ (vectors.T @ gradient / np.maximum(np.abs(values), SOFTEST))
        longest = np.abs(step).max()
        self.last = self.x.copy(), gradient
        self.x = self.x + step * min(1.0, LONGEST / longest)


def relax(evaluate, frames, cell=False, steps=STEPS, force=FORCE):
    """[(relaxed frame, its labels)] of structures that are relaxed side by side; with `cell`, to zero stress, too.

    force: the largest that is left, eV/A. NotRelaxed after so many steps."""
    runs = [_Descent(f, cell, force) for f in frames]
    waiting = list(range(len(runs)))
    for _ in range(steps):
        labels = evaluate([runs[k].frame for k in waiting])
        waiting = [k for k, label in zip(waiting, labels) if not runs[k].take(label)]
        if not waiting:
            return [(r.frame, r.label) for r in runs]
    worst = max(float(np.abs(runs[k].label["forces"]).max()) for k in waiting)
    raise NotRelaxed(f"not relaxed after {steps} steps: a force of {worst:.3g} eV/A is left", worst > COLLAPSED)


def birch_murnaghan(volumes, energies):
    """(volume, energy, bulk modulus eV/A^3) of the minimum: the energy is a cubic polynomial of V^(-2/3)."""
    x = np.asarray(volumes, float) ** (-2 / 3)
    middle, width = x.mean(), np.ptp(x) / 2
    c = np.polyfit((x - middle) / width, np.asarray(energies) - energies[0], 3)
    roots = np.roots(np.polyder(c))
    roots = [r.real for r in roots if abs(r.imag) < 1e-9 and np.polyval(np.polyder(c, 2), r.real) > 0 and abs(r) <= 1]
    if not roots:
        raise NotRelaxed("no minimum of the energy among the volumes")
    u = min(roots, key=abs)
    v = (middle + width * u) ** -1.5
    # V d2E/dV2 where dE/dV = 0, with dx/dV = -2/3 V^(-5/3)
    second = np.polyval(np.polyder(c, 2), u) / width**2 * (2 / 3 * v ** (-5 / 3)) ** 2
    return v, float(np.polyval(c, u)) + energies[0], v * second


def equation_of_state(evaluate, frame, largest=0.02, n=9):
    """{volumes, energies per atom; a0 scale, energy, bulk GPa} around a relaxed structure: isotropic strains, ions
    relaxed."""
    strains = np.linspace(-largest, largest, n)
    relaxed = relax(evaluate, [strained(frame, s * np.eye(3)) for s in strains])
    atoms = len(frame["elements"])
    volumes = [abs(np.linalg.det(f["cell"])) / atoms for f, _ in relaxed]
    energies = [label["energy"] / atoms for _, label in relaxed]
    volume, energy, bulk = birch_murnaghan(volumes, energies)
    scale = (volume * atoms / abs(np.linalg.det(frame["cell"]))) ** (1 / 3)
    return {"volumes": volumes, "energies": energies, "volume": volume, "energy": energy, "scale": scale} | {
        "bulk": GPA * bulk
    }


VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))


def elastic_constants(evaluate, frame, size=0.005):
    """[6, 6] GPa in Voigt's order xx yy zz yz xz xy: the stress of strains of both signs, ions relaxed."""
    frames = []
    for i, j in VOIGT:
        for sign in (1, -1):
            e = np.zeros((3, 3))
            e[i, j] += sign * size / 2
            e[j, i] += sign * size / 2
            frames.append(strained(frame, e))
    labels = [label for _, label in relax(evaluate, frames)]
    stress = np.array([[label["stress"][i, j] for i, j in VOIGT] for label in labels])
    c = GPA * (stress[0::2] - stress[1::2]).T / (2 * size)
    return (c + c.T) / 2


def independent(c):
    """{name: GPa} of the elastic constants of a cubic, hexagonal or other cell, those that are zero left out."""
    scale = np.abs(c).max()
    same = lambda *v: np.ptp(v) < 0.02 * scale
    rest = [c[i, j] for i in range(3) for j in range(3, 6)] + [c[3, 4], c[3, 5], c[4, 5]]
    plain = np.abs(rest).max() < 0.02 * scale
    if (
        plain
        and same(c[0, 0], c[1, 1], c[2, 2])
        and same(c[0, 1], c[0, 2], c[1, 2])
        and same(c[3, 3], c[4, 4], c[5, 5])
    ):
        mean = lambda *v: float(np.mean(v))
        return {
            "C11": mean(c[0, 0], c[1, 1], c[2, 2]),
            "C12": mean(c[0, 1], c[0, 2], c[1, 2]),
            "C44": mean(c[3, 3], c[4, 4], c[5, 5]),
        }
    out = {}
    for i in range(6):
        for j in range(i, 6):
            if abs(c[i, j]) > 0.02 * scale:
                out[f"C{i + 1}{j + 1}"] = float(c[i, j])
    return out


def centrings(frame):
    """Translations [n, 3] (fractions of the cell) that map the crystal onto itself, the zero one first."""
    s = np.linalg.solve(frame["cell"].T, frame["positions"].T).T
    names = np.array(frame["elements"])
    first = np.flatnonzero(names == min(set(frame["elements"]), key=frame["elements"].count))
    out = []
    for k in first:
        t = s[k] - s[first[0]]
        t = t - np.floor(t + 1e-9)
        moved, good = s + t, True
        for e in set(frame["elements"]):
            d = moved[names == e][:, None] - s[names == e][None]
            d -= np.round(d)
            good &= bool((np.abs(d @ frame["cell"]).max(-1).min(1) < 1e-4).all())
        if good:
            out.append(t)
    return np.array(sorted(out, key=lambda t: tuple(np.round(t, 6))))


def primitive_atoms(frame):
    """One atom of each class of atoms that the centrings map onto each other: those of a primitive cell."""
    s, ts = np.linalg.solve(frame["cell"].T, frame["positions"].T).T, centrings(frame)
    taken, out = set(), []
    for k in range(len(s)):
        if k in taken:
            continue
        out.append(k)
        for t in ts:
            d = s[k] + t - s
            d -= np.round(d)
            taken |= set(np.flatnonzero(np.abs(d @ frame["cell"]).max(-1) < 1e-4).tolist())
    return out


def primitive_vectors(frame):
    """[3, 3] rows: the shortest periods of the crystal that span its primitive cell, A."""
    ts = centrings(frame)
    shifts = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3, indexing="ij"), -1).reshape(-1, 3)
    found = (ts[:, None] + shifts).reshape(-1, 3) @ frame["cell"]
    found = found[np.argsort(np.linalg.norm(found, axis=1).round(6), kind="stable")][1:]
    volume = abs(np.linalg.det(frame["cell"])) / len(ts)
    for i, j, k in itertools.combinations(range(len(found)), 3):
        if abs(abs(np.linalg.det(found[[i, j, k]])) - volume) < 1e-4 * volume:
            return found[[i, j, k]]
    raise NotRelaxed("the crystal has no primitive cell")
