"""Crystals, surfaces and vacancies: structures made of a lattice, chemical elements and a lattice constant."""

import numpy as np

from .extxyz import FrameError

# Conventional cells: sublattice -> positions in units of their sides.
_FCC = [(0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)]


def _moved(sites, shift):
    return [tuple((x + b) % 1.0 for x, b in zip(site, shift)) for site in sites]


LATTICES = {
    "sc": [[(0, 0, 0)]],
    "bcc": [[(0, 0, 0), (0.5, 0.5, 0.5)]],
    "fcc": [_FCC],
    "hcp": [[(0, 0, 0), (1 / 3, 2 / 3, 0.5)]],
    "diamond": [_FCC + _moved(_FCC, (0.25, 0.25, 0.25))],
    "rocksalt": [_FCC, _moved(_FCC, (0.5, 0.5, 0.5))],
    "zincblende": [_FCC, _moved(_FCC, (0.25, 0.25, 0.25))],
    "cscl": [[(0, 0, 0)], [(0.5, 0.5, 0.5)]],
    "beta-tin": [[(0, 0, 0), (0.5, 0, 0.25), (0.5, 0.5, 0.5), (0, 0.5, 0.75)]],
}
C_OVER_A = {"hcp": (8 / 3) ** 0.5, "beta-tin": 0.546}  # of spheres in contact, of white tin; their constant is [a, c]
CUBIC = tuple(name for name in LATTICES if name not in C_OVER_A)
# Two orthogonal vectors in the surface and its normal, right-handed; each is halved where that is a lattice vector
MILLER = {
    "100": ([1, 0, 0], [0, 1, 0], [0, 0, 1]),
    "110": ([0, 0, 1], [1, -1, 0], [1, 1, 0]),
    "111": ([1, -1, 0], [1, 1, -2], [1, 1, 1]),
}
VACUUM = 12.0  # A
SAME = 1e-6  # of the lattice constant


def constant_of(lattice, volume):
    """The constant of a lattice with a volume for an atom, A^3: A, or [a, c] of those in C_OVER_A."""
    cell, ratio = volume * sum(map(len, LATTICES[lattice])), C_OVER_A.get(lattice, 1.0)
    a = (cell / ratio / (0.75**0.5 if lattice == "hcp" else 1.0)) ** (1 / 3)
    return np.array([a, ratio * a]) if lattice in C_OVER_A else a


def constant_in(lattice, cell, digits):
    """The rounded constant of a lattice whose conventional cell this is, as constant_of."""
    a, _, c = (round(float(x), digits) for x in np.linalg.norm(cell, axis=1))
    return [a, c] if lattice in C_OVER_A else a


def crystal(lattice, elements, constant, supercell=(1, 1, 1)):
    """A supercell of the conventional cell; of hcp that with two atoms."""
    sublattices = LATTICES[lattice]
    a, c = constant if lattice in C_OVER_A else (constant, constant)
    cell = np.diag([float(a), float(a), float(c)])
    if lattice == "hcp":
        cell[1] = [-0.5 * a, 0.75**0.5 * a, 0.0]
    cells = np.stack(np.meshgrid(*[np.arange(n) for n in supercell], indexing="ij"), -1).reshape(-1, 3)
    symbols, sites = [], []
    for element, fractions in zip(elements, sublattices):
        sites.append((cells[:, None] + np.array(fractions)).reshape(-1, 3) @ cell)
        symbols += [element] * len(sites[-1])
    return {"elements": symbols, "positions": np.concatenate(sites), "cell": cell * np.array(supercell)[:, None]}


def _is_period(vector, sublattices):
    """Whether the lattice is the same when it is moved by `vector`, in units of the constant."""
    for sites in sublattices:
        sites = np.array(sites, float)
        gaps = sites[:, None] + vector - sites[None]
        if not (np.abs(gaps - np.round(gaps)).max(2) < SAME).any(1).all():
            return False
    return True


def _axes(miller, sublattices):
    """Rows: the shortest periods along the two directions of the surface and its normal, in units of the constant."""
    axes = [np.array(v, float) for v in MILLER[miller]]
    if miller == "100" and _is_period(np.array([0.5, 0.5, 0]), sublattices):
        axes[:2] = np.array([0.5, 0.5, 0]), np.array([-0.5, 0.5, 0])
    return np.array([v / 2 if _is_period(v / 2, sublattices) else v for v in axes])


def _planes(axes, sublattices):
    """(height in units of the normal's period, [(sublattice, along the first axis, along the second)]) of each atomic
    plane of one period, the first one that above the largest gap."""
    shifts = np.stack(np.meshgrid(*[np.arange(-4, 5)] * 3, indexing="ij"), -1).reshape(-1, 3)
    planes = {}
    for k, sites in enumerate(sublattices):
        inside = (shifts[:, None] + np.array(sites)).reshape(-1, 3) @ np.linalg.inv(axes) + SAME
        inside = inside[((inside >= 0) & (inside < 1)).all(1)] - SAME
        for u, v, height in inside:
            planes.setdefault(round(height, 5) + 0.0, []).append((k, u, v, height))
    planes = {atoms[0][3]: sorted(atom[:3] for atom in atoms) for _, atoms in sorted(planes.items())}
    heights = list(planes)
    gaps = [b - a for a, b in zip([heights[-1] - 1, *heights], heights)]
    first = next(k for k, gap in enumerate(gaps) if gap > max(gaps) - SAME)
    order = [(k % len(heights), k // len(heights)) for k in range(first, first + len(heights))]
    return [(heights[k] + period, planes[heights[k]]) for k, period in order]


def surface(lattice, elements, constant, miller, size, vacuum=VACUUM):
    """A slab of size[2] atomic planes with its normal along z, and `vacuum` A between it and its image.

    size[0] and size[1] count the smallest rectangular cells of the surface. If planes are
    unevenly spaced, the slab begins with one that is far from the next below it (diamond 111: double layers)."""
    sublattices, (nx, ny, layers) = LATTICES[lattice], size
    axes = _axes(miller, sublattices)
    planes, lengths = _planes(axes, sublattices), constant * np.linalg.norm(axes, axis=1)
    symbols, sites = [], []
    for k in range(layers):
        height, atoms = planes[k % len(planes)]
        height += k // len(planes) - planes[0][0]
        for s, u, v in atoms:
            for i, j in np.ndindex(nx, ny):
                symbols.append(elements[s])
                sites.append((u + i, v + j, height))
    positions = np.array(sites) * lengths
    thick = positions[:, 2].max() + vacuum
    positions[:, 2] += vacuum / 2
    return {"elements": symbols, "positions": positions, "cell": np.diag([nx * lengths[0], ny * lengths[1], thick])}


def vacancy(remove=1, seed=1, hop=0.0, **crystal_keys):
    """A crystal without `remove` of its atoms, drawn by the seed. hop: how far the nearest atom of the same element has
    moved into the first vacancy, as a fraction of the straight way."""
    whole = crystal(**crystal_keys)
    n = len(whole["elements"])
    if remove >= n:
        raise FrameError(f"{remove} of {n} atoms are to be removed: none would be left")
    gone = np.random.default_rng(seed).permutation(n)[:remove].tolist()
    kept = [k for k in range(n) if k not in gone]
    elements, positions = [whole["elements"][k] for k in kept], whole["positions"][kept]
    if hop:
        same = [k for k, element in enumerate(elements) if element == whole["elements"][gone[0]]]
        if not same:
            raise FrameError(f"no {whole['elements'][gone[0]]} is left to hop: a larger supercell is needed")
        images = (np.array(list(np.ndindex(3, 3, 3))) - 1) @ whole["cell"]
        ways = whole["positions"][gone[0]] + images - positions[same, None]
        k, image = np.unravel_index(np.argmin(np.linalg.norm(ways, axis=2)), ways.shape[:2])
        positions[same[k]] += hop * ways[k, image]
    return {"elements": elements, "positions": positions, "cell": whole["cell"]}
