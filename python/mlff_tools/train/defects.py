"""Planar faults, polymorphs and interstitials of crystals, and the largest holes of any structure."""

import numpy as np

from ..model import reference
from .extxyz import FrameError

# Lattice planes of faults, in units of the constant; of hcp in units of a, a and c along its own vectors:
# (first and second vector in the plane, vector to the next plane, the shift 1, [(sublattice, position)] of one plane).
# The shift 1 is the Shockley partial of fcc {111}, diamond {111} (glide set) and hcp (0001), which leads to the
# intrinsic fault; elsewhere it is a lattice vector, and 0.5 is half way.
_ONE, _TWO = [(0, [0, 0, 0])], [(0, [0, 0, 0]), (1, [0.25, 0.25, 0.25])]
_CLOSE_PACKED = ([0.5, -0.5, 0], [0, 0.5, -0.5], [0.5, 0.5, 0], [1 / 6, 1 / 6, -1 / 3])
PLANES = {
    ("fcc", "111"): (*_CLOSE_PACKED, _ONE),
    ("diamond", "111"): (*_CLOSE_PACKED, [(0, x) for _, x in _TWO]),
    ("zincblende", "111"): (*_CLOSE_PACKED, _TWO),
    ("hcp", "0001"): ([1, 0, 0], [0, 1, 0], [0, 0, 1], [-1 / 3, -2 / 3, 0], [*_ONE, (0, [1 / 3, 2 / 3, 0.5])]),
    ("bcc", "110"): ([-0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.5, 0.5, 0.5], [-0.5, 0.5, 0.5], _ONE),
    ("bcc", "112"): ([0.5, 0.5, 0.5], [-1, 1, 0], [0.5, -0.5, 0.5], [0.5, 0.5, 0.5], _ONE),
    ("rocksalt", "100"): ([0.5, 0.5, 0], [-0.5, 0.5, 0], [0.5, 0, 0.5], [0.5, 0.5, 0], [*_ONE, (1, [0.5, 0, 0])]),
    ("rocksalt", "110"): ([-0.5, 0.5, 0], [0, 0, 1], [0.5, 0, 0.5], [-0.5, 0.5, 0], [*_ONE, (1, [0, 0, 0.5])]),
}
STACKED = ("fcc", "hcp", "diamond", "zincblende")
DUMBBELLS = ("100", "110", "111")
INTERSTITIALS = (*DUMBBELLS, "crowdion", "octahedral", "tetrahedral", "hexagonal", "hole")
WITH_HOLES = {"octahedral": ("fcc", "bcc", "hcp"), "tetrahedral": ("fcc", "bcc", "hcp", "diamond", "zincblende")}
WITH_HOLES["hexagonal"] = ("diamond", "zincblende")
SPLIT = 0.8  # of the nearest distance: the least distance at an interstitial or fault, and that in a dumbbell
CLOSE, PUSHES = 0.01, 500  # A, of that distance; steps
SHELL = 1.05  # times a distance: one shell of neighbors
POINTS, ROUNDS = 60, 200  # that move into holes, and their steps
STEPS = 1.6, 0.9  # factors of a step
TOUCHING = 0.02  # A by which distances to the atoms that touch a hole may differ


def area(frame):
    """Area of a planar fault, A^2: that of the first two vectors of the cell."""
    return float(np.linalg.norm(np.cross(frame["cell"][0], frame["cell"][1])))


def _close_packed(lattice, elements, constant):
    """(distance in a close-packed plane, distance of planes, [(element, height)] of one plane), A."""
    if lattice == "hcp":
        return constant[0], constant[1] / 2, [(elements[0], 0.0)]
    side, height = constant / 2**0.5, constant / 3**0.5
    basis = [(elements[0], 0.0)]
    if lattice != "fcc":  # the bond along the normal
        basis.append((elements[-1], 0.75 * height))
    return side, height, basis


def is_sequence(text):
    """Whether planes can be stacked so, again and again: letters A, B and C, never the same one twice in a row."""
    return bool(text) and set(text) <= set("ABC") and all(a != b for a, b in zip(text, text[1:] + text[0]))


def stacking(lattice, elements, constant, sequence, size=(1, 1)):
    """Close-packed planes along z by letters: ABC is fcc (diamond, zincblende), AB hcp (hexagonal diamond, wurtzite).

    lattice: one of STACKED, with its constant (A; of hcp [a, c]); in diamond and zincblende a letter is a double layer.
    size: repeats of the hexagonal cell in the plane. FrameError where equal letters follow each other."""
    if not is_sequence(sequence):
        raise FrameError(f"{sequence}: must be letters A, B and C, also in a circle never the same one twice in a row")
    letters = ["ABC".index(letter) for letter in sequence]
    side, height, basis = _close_packed(lattice, elements, constant)
    vectors = side * np.array([[1, 0], [0.5, 0.75**0.5]])
    cells = np.stack(np.meshgrid(*[np.arange(n) for n in size], indexing="ij"), -1).reshape(-1, 2)
    symbols, sites = [], []
    for k, letter in enumerate(letters):
        plane = (cells + letter / 3) @ vectors
        for element, above in basis:
            symbols += [element] * len(plane)
            sites.append(np.column_stack([plane, np.full(len(plane), k * height + above)]))
    cell = np.diag([0, 0, len(letters) * height])
    cell[:2, :2] = vectors * np.array(size)[:, None]
    return {"elements": symbols, "positions": np.concatenate(sites), "cell": cell}


def twin(lattice, elements, constant, layers, size=(1, 1)):
    """`layers` planes stacked ABC, and as many stacked CBA: two twin boundaries in the cell, as in ABCACB."""
    turns = [*range(layers), *range(layers, 0, -1)]
    return stacking(lattice, elements, constant, "".join("ABC"[k % 3] for k in turns), size)


def _reduced(x, vectors):
    """x [N, 3] moved by multiples of two vectors into the cell around 0 that they span."""
    share = np.linalg.lstsq(np.array(vectors).T, np.atleast_2d(x).T, rcond=None)[0].T
    return x - np.round(share).reshape(*np.shape(x)[:-1], 2) @ vectors


def sheared(lattice, elements, constant, plane, layers, shift, size=(1, 1)):
    """A perfect crystal of `layers` lattice planes, its third cell vector tilted so that one fault is at the border.

    (lattice, plane): one of PLANES; layers counts double layers of diamond, and periods c of hcp. shift: a number, in
    units of the shift 1 of PLANES, or two, along the vectors in the plane. The plane is xy."""
    u, v, w, partial, basis = PLANES[lattice, plane]
    scale = np.eye(3) * constant if lattice != "hcp" else _hexagonal(*constant)
    u, v, w, partial = (np.array(x) @ scale for x in (u, v, w, partial))
    moved = shift * partial if np.ndim(shift) == 0 else shift[0] * u + shift[1] * v
    cells = np.stack(np.meshgrid(*[np.arange(n) for n in (*size, layers)], indexing="ij"), -1).reshape(-1, 3)
    cell = np.array([size[0] * u, size[1] * v, _reduced(layers * w + moved, [size[0] * u, size[1] * v])])
    symbols, sites = [], []
    for sublattice, x in basis:
        symbols += [elements[sublattice]] * len(cells)
        heights = _reduced(cells[:, 2:] * w + np.array(x) @ scale, [u, v])
        sites.append(cells[:, :2] @ np.array([u, v]) + heights)
    x_axis, z_axis = u / np.linalg.norm(u), np.cross(u, v) / np.linalg.norm(np.cross(u, v))
    turn = np.array([x_axis, np.cross(z_axis, x_axis), z_axis]).T
    cell = np.where(np.abs(cell @ turn) < 1e-12, 0.0, cell @ turn)
    return {"elements": symbols, "positions": np.concatenate(sites) @ turn, "cell": cell}


def opened(frame, least):
    """The frame with its third cell vector longer along z, so that atoms on the two sides of its border are `least` A
    apart at least: a shift at constant height lays atoms of diamond's {111} planes on each other."""
    i, j, d = reference.neighbours(frame["positions"], frame["cell"], least)
    up = d[:, 2] - (frame["positions"][j] - frame["positions"][i])[:, 2] > CLOSE  # to an image above
    flat = np.linalg.norm(d[up, :2], axis=1)
    more = np.sqrt(least**2 - flat**2) - d[up, 2]
    cell = frame["cell"].copy()
    cell[2, 2] += more.max(initial=0.0)
    return {**frame, "cell": cell}


def nearest(frame):
    """The shortest distance in a crystal, A."""
    reach = 3 * (abs(np.linalg.det(frame["cell"])) / len(frame["elements"])) ** (1 / 3)
    return float(np.linalg.norm(reference.neighbours(frame["positions"], frame["cell"], reach)[2], axis=1).min())


def _hexagonal(a, c):
    return np.array([[a, 0, 0], [-0.5 * a, 0.75**0.5 * a, 0], [0, 0, c]])


def _to_atoms(frame, points):
    """[P, N, 3] vectors from points to the nearest image of each atom, A."""
    d = frame["positions"] - points[:, None]
    return d - np.round(d @ np.linalg.inv(frame["cell"])) @ frame["cell"]


def _radii(frame, points):
    """Distance of each point to the nearest atom, A."""
    d = _to_atoms(frame, points)
    return np.sqrt((d * d).sum(-1).min(1))


def _far_points(frame, seed):
    """(points that moved away from all atoms, their distances to the nearest atom), the farthest first."""
    rng = np.random.default_rng(seed)
    points = rng.random((POINTS, 3)) @ frame["cell"]
    radii = _radii(frame, points)
    steps = np.full(POINTS, (abs(np.linalg.det(frame["cell"])) / len(frame["elements"])) ** (1 / 3) / 8)
    for _ in range(ROUNDS):  # a random step, longer after success and shorter after failure
        tried = points + steps[:, None] * rng.normal(size=points.shape)
        found = _radii(frame, tried)
        better = found > radii
        points[better], radii[better] = tried[better], found[better]
        steps *= np.where(better, *STEPS)
    order = np.argsort(-radii)
    return points[order], radii[order]


def holes(frame, seed=1):
    """[(radius, position, number of atoms that touch it)] of the points that are farther from all atoms than the points
    around them, each kind once by its radius, the largest first. The cell must be wider than two radii."""
    out = []
    for point, radius in zip(*_far_points(frame, seed)):
        to_atoms = _to_atoms(frame, point[None])[0]
        to_atoms = to_atoms[np.linalg.norm(to_atoms, axis=1) < radius + TOUCHING]
        # otherwise the point has not arrived: fewer atoms touch it, or it can move away from all of them
        surrounded = len(to_atoms) >= 4 and (to_atoms @ to_atoms.mean(0)).min() < TOUCHING
        if surrounded and (not out or out[-1][0] - radius > TOUCHING):
            out.append((float(radius), point, len(to_atoms)))
    return out


def largest_hole(frame, seed=1):
    """The point that is farthest from all atoms."""
    return _far_points(frame, seed)[0][0]


def with_atom(frame, element, position):
    """The frame and one more atom."""
    return {**frame, "elements": [*frame["elements"], element], "positions": np.vstack([frame["positions"], position])}


def _around(frame, site):
    """(vectors to the neighbors of an atom, sorted by length; their lengths), A."""
    reach = 2.5 * (abs(np.linalg.det(frame["cell"])) / len(frame["elements"])) ** (1 / 3)
    i, _, vectors = reference.neighbours(frame["positions"], frame["cell"], reach)
    vectors = vectors[i == site]
    lengths = np.linalg.norm(vectors, axis=1)
    order = np.argsort(lengths, kind="stable")
    return vectors[order], lengths[order]


def _octahedral(frame, site):
    """The middle between an atom and one of the second shell."""
    vectors, lengths = _around(frame, site)
    second = np.flatnonzero(lengths > 1.1 * lengths[0])[0]
    middle = frame["positions"][site] + vectors[second] / 2
    near = np.linalg.norm(middle - frame["positions"][site] - vectors, axis=1)
    touching = 1 + int((near < SHELL * lengths[second] / 2).sum())
    if near.min() < 0.99 * lengths[second] / 2 or touching not in (2, 6):
        raise FrameError("the crystal has no octahedral holes")
    return middle


def _tetrahedral(frame):
    """The hole that four atoms touch."""
    for _, position, touching in holes(frame):
        if touching == 4:
            return position
    raise FrameError("the crystal has no tetrahedral holes")


def pushed_apart(frame, least):
    """The frame with atoms that are closer than `least` A pushed apart, which keeps its symmetry."""
    x = frame["positions"].copy()
    for _ in range(PUSHES):
        i, _, d = reference.neighbours(x, frame["cell"], least)
        r = np.linalg.norm(d, axis=1)
        if r.min(initial=np.inf) > least - CLOSE:
            break
        np.add.at(x, i, -0.5 * d * (least / np.maximum(r, CLOSE) - 1)[:, None])
    return {**frame, "positions": x}


def interstitial(frame, kind, add=None):
    """A crystal and one more atom, of the element `add` (default: that of the first atom).

    Atoms closer than SPLIT of the nearest distance are pushed apart.

    kind: one of INTERSTITIALS. 100, 110, 111: a dumbbell, of an atom and the added one, along a direction of the axes;
    crowdion: between an atom and its nearest neighbor; octahedral, tetrahedral: in such a hole; hexagonal: in a ring of
    six atoms of diamond or zincblende; hole: the largest."""
    element = add or frame["elements"][0]
    site = frame["elements"].index(element) if element in frame["elements"] else 0
    vectors, lengths = _around(frame, site)
    return pushed_apart(_with_interstitial(frame, str(kind), element, site, vectors, lengths), SPLIT * lengths[0])


def _with_interstitial(frame, kind, element, site, vectors, lengths):
    if kind == "hole":
        return with_atom(frame, element, largest_hole(frame))
    if kind == "octahedral":
        return with_atom(frame, element, _octahedral(frame, site))
    if kind == "tetrahedral":
        return with_atom(frame, element, _tetrahedral(frame))
    if kind == "hexagonal":  # the middle of two tetrahedral holes, which is behind the atom, opposite to a bond
        return with_atom(frame, element, frame["positions"][site] - 1.5 * vectors[0])
    if kind == "crowdion":
        return with_atom(frame, element, frame["positions"][site] + vectors[0] / 2)
    if kind not in DUMBBELLS:
        raise FrameError(f"interstitial {kind}: allowed are {', '.join(INTERSTITIALS)}")
    along = np.array([float(c) for c in kind])
    half = 0.5 * SPLIT * lengths[0] * along / np.linalg.norm(along)
    positions = frame["positions"].copy()
    positions[site] -= half
    return with_atom({**frame, "positions": positions}, element, frame["positions"][site] + half)
