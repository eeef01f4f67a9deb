"""Random structures of atoms, without a potential: dense ones in periodic cubes, and compact clusters in vacuum.

Distances are shares of the sum of two covalent radii (convert/short_range.py): of the nearest neighbors in aluminium
1.28, in silicon 1.15, in NaCl 1.14. The shortest share of a structure is uniform in `closest`."""

import numpy as np

from ..convert.short_range import RADII
from ..model import reference, structures
from ..model.masses import MASS
from .extxyz import FrameError

ROUNDS, TRIES = 400, 20
SLACK = 0.005  # by which a share may be below the wanted one
PLACES = 20  # among which an atom of a cluster takes that nearest to the others


def _sums(elements):
    """[N, N] sums of two radii, A."""
    radii = np.array([RADII[e] for e in elements])
    return radii[:, None] + radii


def _apart(x, edge, sums, share):
    """x [N, 3] in a periodic cube, moved until no pair is closer than its share; None where that fails."""
    for _ in range(ROUNDS):
        d = x[:, None] - x
        d -= edge * np.round(d / edge)
        r = np.linalg.norm(d, axis=2)
        np.fill_diagonal(r, np.inf)
        if (r / sums).min() > share - SLACK / 2:
            return x
        push = np.maximum(share * sums - r, 0) / np.maximum(r, 1e-6)
        x = x + 0.5 * (push[:, :, None] * d).sum(1)
    return None


def _nearer(x, edge, sums, share):
    """x with the pair of the least share moved to `share`, if it is farther apart."""
    d = x[:, None] - x
    d -= edge * np.round(d / edge)
    r = np.linalg.norm(d, axis=2)
    np.fill_diagonal(r, np.inf)
    i, j = np.unravel_index(np.argmin(r / sums), r.shape)
    move = 0.5 * max(0.0, 1 - share * sums[i, j] / r[i, j]) * d[i, j]
    x[i], x[j] = x[i] - move, x[j] + move
    return x


def shortest_share(frame):
    """The least distance of two atoms over the sum of their radii, periodic images included."""
    sums = _sums(frame["elements"])
    i, j, d = reference.neighbours(frame["positions"], frame["cell"], 1.5 * sums.max())
    return float((np.linalg.norm(d, axis=1) / sums[i, j]).min(initial=np.inf))


def _box(elements, density, share, rng):
    """A cube of the elements at a density, or None."""
    mass, sums = sum(MASS[e] for e in elements), _sums(elements)
    edge = (mass / (density * structures.AVOGADRO_A3)) ** (1 / 3)
    for _ in range(TRIES):
        x = _apart(rng.random((len(elements), 3)) * edge, edge, sums, share)
        if x is None:
            continue
        x = _nearer(x, edge, sums, share)
        frame = {"elements": elements, "positions": np.round(x % edge, 6), "cell": np.eye(3) * edge}
        if abs(shortest_share(frame) - share) < SLACK:
            return frame
    return None


def dense(elements, density, closest, number, seed):
    """`number` cubes of {element: number of atoms} placed at random and pushed apart. density: g/cm3, or a list that
    they take in turn."""
    rng, out = np.random.default_rng(seed), []
    symbols = [e for e, n in elements.items() for _ in range(n)]
    densities = density if isinstance(density, list) else [density]
    for k in range(number):
        share, mine = rng.uniform(*closest), densities[k % len(densities)]
        frame = _box(symbols, mine, share, rng)
        if frame is None:
            what = " and ".join(f"{n} {e}" for e, n in elements.items())
            raise FrameError(
                f"{what} at {mine:g} g/cm3 cannot be packed with distances of {share:.2f} of the sum of two radii; "
                "lower the density or `closest`"
            )
        out.append(frame)
    return out


def _cluster(elements, closest, rng):
    """One cluster: each atom at a share of one before it, the one nearest to the centre of PLACES at random."""
    sums, least = _sums(elements), rng.uniform(*closest)
    x = np.zeros((1, 3))
    for n in range(1, len(elements)):
        share = least if n == 1 else rng.uniform(least, closest[1])
        places = []
        while len(places) < (PLACES if n > 1 else 1):
            k, along = rng.integers(n), rng.normal(size=3)
            place = x[k] + share * sums[n, k] * along / np.linalg.norm(along)
            if (np.linalg.norm(place - x, axis=1) > (least - 1e-9) * sums[n, :n]).all():
                places.append(place)
        x = np.vstack([x, min(places, key=lambda p: np.linalg.norm(p - x.mean(0)))])
    return np.round(x - x.mean(0), 6)


def clusters(elements, closest, number, seed):
    """`number` clusters in vacuum; each has of each element a number of atoms uniform in [least, most], two in all at
    least. The distance of two atoms is uniform."""
    rng, out = np.random.default_rng(seed), []
    while len(out) < number:
        counts = {e: rng.integers(least, most + 1) for e, (least, most) in elements.items()}
        symbols = [e for e, n in counts.items() for _ in range(n)]
        if len(symbols) > 1:
            symbols = [symbols[k] for k in rng.permutation(len(symbols))]
            out.append({"elements": symbols, "positions": _cluster(symbols, closest, rng), "cell": None})
    return out
