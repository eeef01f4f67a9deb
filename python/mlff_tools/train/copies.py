"""Copies of a structure: equal but for wrapping, a shift as a whole, the order of the atoms, rotation, reflection, the
choice of the lattice vectors, and displacements below MOVED. The training set must not contain copies of test frames.

None of these changes the distances between atoms of two elements, each to the nearest image: sorted lists of them
differ by no more than the distances do. Their means over quarters select candidates, whose whole lists are compared.
"""

import numpy as np

from .extxyz import FrameError, tag

MOVED = 1e-3  # A by which distances of copies differ at most; a step of 1 fs at 300 K moves silicon by 5e-3
EQUAL = 1e-5  # A, of up to three atoms, of which any two frames can be alike by chance
FEW = 8  # atoms of the rarest element whose distances among themselves select candidates; of fewer those to all atoms
QUARTERS = 4
AT_ONCE = 2**17  # distances


def reduced(cell):
    """Short vectors of the same lattice."""
    cell = np.array(cell, float)
    for _ in range(50):
        before = cell.copy()
        for i in range(3):
            for j in range(3):
                if i != j:
                    cell[i] -= np.round(cell[i] @ cell[j] / (cell[j] @ cell[j])) * cell[j]
        if (cell == before).all():
            break
    return cell


def _grid(n):
    return np.stack(np.meshgrid(*[np.arange(-n, n + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)


def _distances(apart, cell):
    """[n] lengths of the nearest images of vectors [n, 3], A. cell: reduced, or None."""
    if cell is None:
        return np.linalg.norm(apart, axis=1)
    apart = apart - np.round(apart @ np.linalg.inv(cell)) @ cell
    shifts = _grid(1) @ cell
    # |a + s|^2 = |a|^2 + 2 a.s + |s|^2
    return np.sqrt(np.maximum((apart**2).sum(1) + (2 * apart @ shifts.T + (shifts**2).sum(1)).min(1), 0))


def _sorted(frame, cell, first, second):
    """Sorted distances between atoms of two elements."""
    names = np.array(frame["elements"])
    x, y = frame["positions"][names == first], frame["positions"][names == second]
    i, j = np.triu_indices(len(x), 1) if first == second else np.indices((len(x), len(y))).reshape(2, -1)
    parts = [slice(k, k + AT_ONCE) for k in range(0, max(1, len(i)), AT_ONCE)]
    return np.sort(np.concatenate([_distances(y[j[part]] - x[i[part]], cell) for part in parts]))


def _cell(frame):
    return None if frame["cell"] is None else reduced(frame["cell"])


def _lattice(cell):
    """Lengths of the shortest vectors of the lattice; nothing without one."""
    return np.zeros(0) if cell is None else np.sort(np.linalg.norm(_grid(2) @ cell, axis=1))[1:27:2]


def signature(frame):
    """All sorted distances, A: of every pair of elements, and of the lattice."""
    names, cell = sorted(set(frame["elements"])), _cell(frame)
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k:]]
    return np.concatenate([*(_sorted(frame, cell, a, b) for a, b in pairs), _lattice(cell)])


def _features(frame):
    """A few numbers that differ by no more than the distances of copies do, A."""
    names, cell = sorted(set(frame["elements"])), _cell(frame)
    rare = min(names, key=frame["elements"].count)
    others = [rare] if frame["elements"].count(rare) >= FEW else names
    lists = [_sorted(frame, cell, rare, other) for other in others]
    means = [part.mean() for one in lists for part in np.array_split(one, QUARTERS) if len(part)]
    return np.array([*means, *_lattice(cell)[:3]])


def _tolerance(frame):
    return EQUAL if frame["cell"] is None and len(frame["elements"]) < 4 else MOVED


def find(frames, chosen):
    """[(i, j)]: frame i, which is one of `chosen` [F], is a copy of j, which is not. Single atoms do not count."""
    groups = {}
    for k, frame in enumerate(frames):
        if len(frame["elements"]) > 1 or frame["cell"] is not None:
            groups.setdefault((tuple(sorted(frame["elements"])), frame["cell"] is None), []).append(k)
    out, lists = [], {}

    def whole(k):
        if k not in lists:
            lists[k] = signature(frames[k])
        return lists[k]

    for mine in groups.values():
        inside, outside = [k for k in mine if chosen[k]], [k for k in mine if not chosen[k]]
        if not inside or not outside:
            continue
        off, features = _tolerance(frames[mine[0]]), np.array([_features(frames[k]) for k in outside])
        for i in inside:
            similar = np.nonzero((np.abs(features - _features(frames[i])) <= off).all(1))[0]
            out += [(i, outside[n]) for n in similar if np.abs(whole(i) - whole(outside[n])).max(initial=0) <= off]
    return out


def without(frames, others):
    """The frames without those that have a copy, among them and `others`, on the other side of split=test."""
    both = [*others, *frames]
    bad = {k for pair in find(both, [tag(f, "split") == "test" for f in both]) for k in pair}
    return [f for k, f in enumerate(frames, len(others)) if k not in bad]


def error(frames, pairs):
    """What pairs of copies on both sides are, as a FrameError."""
    (i, j), more = pairs[0], len({i for i, _ in pairs}) - 1
    also = f" (and {more} more)" if more else ""
    return FrameError(
        f"{frames[i]['source']}, for the test, is a copy of {frames[j]['source']}, which is not{also}: their atoms "
        "differ by wrapping, a shift, order, rotation, reflection or less than 0.001 A. Give both the same split, or "
        "take one of them out"
    )


def check_splits(frames):
    """FrameError when a frame with split=test is a copy of one that may be trained on."""
    test = [tag(frame, "split") == "test" for frame in frames]
    found = find(frames, test) if any(test) and not all(test) else []
    if found:
        raise error(frames, found)


def keep_together(frames, split, said):
    """Changes split [F], 2 for the test, so that copies are on one side. said [F]: whether a frame's split is its own,
    which stays; FrameError where that cannot be."""
    test = split == 2
    found = find(frames, test) if test.any() and not test.all() else []
    bad = [(i, j) for i, j in found if said[i] and said[j]]
    if bad:
        raise error(frames, bad)
    for i, j in found:
        if said[i]:
            split[j] = 2
        else:
            split[i] = split[j]
