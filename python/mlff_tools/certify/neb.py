"""Nudged elastic band with a climbing image, relaxed by FIRE.

G. Henkelman, B. P. Uberuaga, H. Jonsson, J. Chem. Phys. 113, 9901 (2000); G. Henkelman, H. Jonsson, ibid. 9978;
E. Bitzek et al., Phys. Rev. Lett. 97, 170201 (2006)."""

import numpy as np

from . import lattice

IMAGES = 5  # between the end points
SPRING = 1.0  # eV/A^2
CLIMB = 0.3  # eV/A: the highest image climbs once no force is larger
FORCE = 0.02  # eV/A: relaxed
STEPS = 500
LONGEST = 0.1  # A, of one step of a coordinate


class _Fire:
    """Steps of FIRE for coordinates of any shape, with unit masses."""

    def __init__(self, shape):
        self.v, self.dt, self.alpha, self.downhill = np.zeros(shape), 0.1, 0.1, 0

    def step(self, force):
        power = float((force * self.v).sum())
        if power > 0:
            mixed = np.linalg.norm(self.v) / max(np.linalg.norm(force), 1e-12)
            self.v = (1 - self.alpha) * self.v + self.alpha * mixed * force
            self.downhill += 1
            if self.downhill > 5:
                self.dt, self.alpha = min(1.1 * self.dt, 0.5), 0.99 * self.alpha
        else:
            self.v, self.dt, self.alpha, self.downhill = 0.0 * force, 0.5 * self.dt, 0.1, 0
        self.v = self.v + self.dt * force
        move = self.dt * self.v
        return move * min(1.0, LONGEST / max(np.abs(move).max(), 1e-12))


def _tangents(x, energies):
    """Unit tangents at the inner images: towards the higher neighbor."""
    out = []
    for k in range(1, len(x) - 1):
        ahead, behind = x[k + 1] - x[k], x[k] - x[k - 1]
        up, down = energies[k + 1] - energies[k], energies[k - 1] - energies[k]
        if (up > 0) != (down > 0):
            t = ahead if up > down else behind
        else:
            large, small = max(abs(up), abs(down)), min(abs(up), abs(down))
            a, b = (large, small) if up > down else (small, large)
            t = a * ahead + b * behind
        out.append(t / max(np.linalg.norm(t), 1e-12))
    return out


def _forces(x, energies, true, climbing):
    """Forces on the inner images, and whether the highest climbs."""
    out, top = [], int(np.argmax(energies[1:-1])) + 1
    for k, t in enumerate(_tangents(x, energies), 1):
        along = float((true[k - 1] * t).sum())
        if climbing and k == top:
            out.append(true[k - 1] - 2 * along * t)
            continue
        stretch = np.linalg.norm(x[k + 1] - x[k]) - np.linalg.norm(x[k] - x[k - 1])
        out.append(true[k - 1] - along * t + SPRING * stretch * t)
    return np.array(out)


def path(evaluate, start, end, n=IMAGES):
    """(images with the end points, their energies) of the lowest path between two relaxed structures in one cell.

    NotRelaxed after STEPS steps."""
    apart = end["positions"] - start["positions"]
    apart -= np.round(apart @ np.linalg.inv(start["cell"])) @ start["cell"]
    x = start["positions"] + np.linspace(0, 1, n + 2)[:, None, None] * apart
    frames = lambda inner: [{**start, "positions": p} for p in inner]
    ends = [label["energy"] for label in evaluate(frames(x[[0, -1]]))]
    fire, climbing = _Fire(x[1:-1].shape), False
    for _ in range(STEPS):
        labels = evaluate(frames(x[1:-1]))
        energies = np.array([ends[0], *(label["energy"] for label in labels), ends[1]])
        force = _forces(x, energies, [label["forces"] for label in labels], climbing)
        largest = np.abs(force).max()
        if climbing and largest < FORCE:
            return frames(x), energies.tolist()
        climbing = climbing or largest < CLIMB
        x[1:-1] += fire.step(force)
    raise lattice.NotRelaxed(f"the path is not relaxed after {STEPS} steps: a force of {largest:.3g} eV/A is left")
