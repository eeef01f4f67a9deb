"""Radial and angular distribution functions and mean square displacements of trajectories, in numpy."""

import numpy as np

BLOCKS = 5
BIN = 0.05  # A
FARTHEST = 8.0  # A
ANGLES = 60  # bins
PEAK = 7  # bins
AT_ONCE = 1_000_000  # distances in memory


def vectors(x, y, cell):
    """Nearest-image vectors [n, m, 3] from x to y. Exact up to half of the cell's width."""
    d = y[None] - x[:, None]
    if cell is not None:
        d -= np.round(d @ np.linalg.inv(cell)) @ cell
    return d


def reach(cells):
    """Up to which distance nearest images are all there are."""
    return float(min(FARTHEST, min(0.5 / np.linalg.norm(np.linalg.inv(c), axis=0).max() for c in cells)))


def rdf(positions, cells, elements, blocks=BLOCKS):
    """{pair: [blocks, bins]} and the middles of the bins: g(r) of each pair of elements in blocks of frames."""
    names, r_max = np.array(elements), reach(cells)
    edges = np.linspace(0, r_max, max(2, int(r_max / BIN)) + 1)
    kinds = sorted(set(elements))
    pairs = [(a, b) for k, a in enumerate(kinds) for b in kinds[k:]]
    out = {f"{a}-{b}": [] for a, b in pairs}
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    for frames in np.array_split(np.arange(len(positions)), blocks):
        sums = {pair: np.zeros(len(shells)) for pair in pairs}
        for k in frames:
            volume = abs(np.linalg.det(cells[k]))
            for a, b in pairs:
                x, y = positions[k][names == a], positions[k][names == b]
                n = len(x) * (len(y) - (a == b))
                if n:
                    sums[a, b] += _counts(x, y, cells[k], a == b, edges) * volume / (n * shells)
        for a, b in pairs:
            out[f"{a}-{b}"].append(sums[a, b] / max(1, len(frames)))
    return {pair: np.array(g) for pair, g in out.items()}, (edges[1:] + edges[:-1]) / 2


def _counts(x, y, cell, are_same, edges):
    """Histogram of the distances from x to y, without those of an atom to itself; a part of x at a time."""
    found, part = np.zeros(len(edges) - 1), max(1, AT_ONCE // len(y))
    for begin in range(0, len(x), part):
        r = np.linalg.norm(vectors(x[begin : begin + part], y, cell), axis=-1)
        if are_same:
            rows = np.arange(len(r))
            r[rows, begin + rows] = np.inf
        found += np.histogram(r, edges)[0]
    return found


def first_minimum(g, r):
    """The distance of the first minimum of g(r) after its first peak; None where there is none."""
    smooth = np.convolve(np.pad(g, 2, "edge"), np.ones(5) / 5, "valid")
    above = np.flatnonzero(smooth > 1.0)
    if not len(above):
        return None
    k = above[0]
    while k + 1 < len(r) and smooth[k + 1] >= smooth[k]:
        k += 1
    low = k
    for j in range(k, len(r)):
        if smooth[j] < smooth[low]:
            low = j
        if smooth[j] > smooth[low] + 0.1 * max(0.5, smooth[k]) or r[j] > r[k] + 2.5:
            break
    return float(r[low]) if low > k else None


def first_peak(g, r):
    """(positions in A, heights) of the first peak of each block of g(r) [blocks, bins]: a parabola through PEAK bins
    around the largest of the first peak of all blocks. None where there is none."""
    mean = g.mean(0)
    above = np.flatnonzero(mean > 1.0)
    if not len(above):
        return None
    k = above[0]
    while k + 1 < len(r) and mean[k + 1 : k + 4].max() > mean[k]:
        k += 1
    bins = slice(k - PEAK // 2, k + PEAK // 2 + 1)
    if bins.start < 0 or bins.stop > len(r):
        return None
    found = []
    for block in g:
        a, b, c = np.polyfit(r[bins] - r[k], block[bins], 2)
        if a >= 0:
            return None
        found.append((r[k] - b / (2 * a), c - b * b / (4 * a)))
    return tuple(np.array(found).T)


def adf(positions, cells, elements, outer, centre, cutoff, blocks=BLOCKS):
    """[blocks, bins] and the middles of the bins (degrees): distribution of the angles outer-centre-outer of neighbors
    within the cutoff, of integral 1 over degrees."""
    names = np.array(elements)
    edges = np.linspace(0, 180, ANGLES + 1)
    out = []
    for frames in np.array_split(np.arange(len(positions)), blocks):
        counts = np.zeros(ANGLES)
        for k in frames:
            x, y = positions[k][names == centre], positions[k][names == outer]
            d = vectors(x, y, cells[k])
            r = np.linalg.norm(d, axis=-1)
            for i in range(len(x)):
                neighbors = np.flatnonzero((r[i] < cutoff) & (r[i] > 1e-6))
                if len(neighbors) < 2:
                    continue
                u = d[i, neighbors] / r[i, neighbors, None]
                cos = (u @ u.T)[np.triu_indices(len(neighbors), 1)]
                counts += np.histogram(np.degrees(np.arccos(np.clip(cos, -1, 1))), edges)[0]
        out.append(counts / max(1.0, counts.sum()) / np.diff(edges))
    return np.array(out), (edges[1:] + edges[:-1]) / 2


def diffusion(positions, step, blocks=BLOCKS, masks=None):
    """(coefficients of the blocks in A^2/ps, lags in ps, MSD): the slope of the MSD over the second half of lags up to
    half a block, over 6. masks: which atoms count (all displacements are relative to the whole)."""
    x = positions - positions.mean(1, keepdims=True)
    x = x if masks is None else x[:, masks]
    size = len(x) // blocks
    lags = np.unique(np.linspace(1, max(1, size // 2), min(24, max(1, size // 2))).astype(int))
    square = lambda part: np.array([((part[lag:] - part[:-lag]) ** 2).sum(-1).mean() for lag in lags])
    found = []
    fit = lags >= lags[-1] / 2
    for part in (x[k * size : (k + 1) * size] for k in range(blocks)):
        if len(part) > 4 and fit.sum() > 1:
            found.append(np.polyfit(lags[fit] * step, square(part)[fit], 1)[0] / 6)
    return np.array(found), lags * step, square(x) if len(x) > lags[-1] else np.zeros(len(lags))
