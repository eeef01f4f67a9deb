"""Structures as LAMMPS has them: cells below the diagonal, data files, dumps."""

import numpy as np

from .extxyz import FrameError
from .masses import MASS

ATOM_STYLES = {"atomic": "{i} {t} {x}", "charge": "{i} {t} 0.0 {x}", "molecular": "{i} 0 {t} {x}"}
ATOM_STYLES["full"] = "{i} 0 {t} 0.0 {x}"
MARGIN = 10.0  # A around a structure that is not periodic


def restricted(cell):
    """LAMMPS' cell [3, 3] (a along x, b in the plane xy, tilts as small as possible) and the rotation Q [3, 3], for
    which x Q are positions in it."""
    cell = cell if np.linalg.det(cell) > 0 else cell * [[1], [1], [-1]]  # the same lattice, right-handed
    q, r = np.linalg.qr(cell.T)
    sign = np.sign(np.diag(r))
    q, lower = q * sign, (r * sign[:, None]).T.copy()
    for row, by in ((2, 1), (2, 0), (1, 0)):
        lower[row] -= np.round(lower[row, by] / lower[by, by]) * lower[by]
    return np.tril(lower), q


def box(frame):
    """(low [3], high [3], cell, positions, rotation) as LAMMPS has them."""
    x = frame["positions"]
    if frame["cell"] is None:
        low, high = x.min(0) - MARGIN, x.max(0) + MARGIN
        return low, high, np.diag(high - low), x, np.eye(3)
    cell, q = restricted(frame["cell"])
    return np.zeros(3), np.diag(cell), cell, x @ q, q


def tilts_of(cell):
    """xy, xz, yz of a cell of LAMMPS."""
    return cell[1, 0], cell[2, 0], cell[2, 1]


def data_text(frame, types, style="atomic", title="mlff label", tilted=None):
    """Text of a data file; type k is types[k-1]. tilted: whether the box may tilt; None: where it does."""
    low, high, cell, x, _ = box(frame)
    tilted = any(tilts_of(cell)) if tilted is None else tilted
    lines = [title, "", f"{len(x)} atoms", f"{len(types)} atom types", ""]
    lines += [f"{float(a)!r} {float(b)!r} {c}lo {c}hi" for a, b, c in zip(low, high, "xyz")]
    lines += [" ".join(repr(float(t)) for t in tilts_of(cell)) + " xy xz yz"] if tilted else []
    lines += ["", "Masses", "", *(f"{k + 1} {MASS[e]}" for k, e in enumerate(types)), "", f"Atoms # {style}", ""]
    for i, (e, p) in enumerate(zip(frame["elements"], x.tolist()), 1):
        lines.append(ATOM_STYLES[style].format(i=i, t=types.index(e) + 1, x=" ".join(map(repr, p))))
    return "\n".join(lines) + "\n"


def dump_text(frame):
    """Text of a dump that read_dump of LAMMPS takes over, box and all."""
    low, high, cell, x, _ = box(frame)
    xy, xz, yz = tilts_of(cell)
    if frame["cell"] is None:
        head = "ITEM: BOX BOUNDS ff ff ff"
        rows = list(zip(low, high))
    else:
        head = "ITEM: BOX BOUNDS xy xz yz pp pp pp"
        rows = [
            (low[0] + min(0, xy, xz, xy + xz), high[0] + max(0, xy, xz, xy + xz), xy),
            (low[1] + min(0, yz), high[1] + max(0, yz), xz),
            (low[2], high[2], yz),
        ]
    lines = ["ITEM: TIMESTEP", "0", "ITEM: NUMBER OF ATOMS", str(len(x)), head]
    lines += [" ".join(repr(float(v)) for v in row) for row in rows]
    lines += ["ITEM: ATOMS id x y z", *(f"{i} {a!r} {b!r} {c!r}" for i, (a, b, c) in enumerate(x.tolist(), 1))]
    return "\n".join(lines) + "\n"


def _dump_box(lines):
    """(low [3], cell) of the three lines of bounds in a dump."""
    rows = np.array([[float(word) for word in line.split()] for line in lines])
    xy, xz, yz = rows[:, 2] if rows.shape[1] == 3 else (0.0, 0.0, 0.0)
    low = rows[:, 0] - [min(0, xy, xz, xy + xz), min(0, yz), 0]
    high = rows[:, 1] - [max(0, xy, xz, xy + xz), max(0, yz), 0]
    cell = np.diag(high - low)
    cell[1, 0], cell[2, 0], cell[2, 1] = xy, xz, yz
    return low, cell


def parse_dump(text, frame):
    """[(step, positions, cell)] of a dump with the columns id x y z in this order, in the axes of the structure that
    the run began with; a frame that is not whole or lacks atoms
    ends it."""
    _, _, start, _, q = box(frame)
    # the vectors of the frame's cell in those of LAMMPS: other vectors of the same lattice
    change = None if frame["cell"] is None else np.round(frame["cell"] @ q @ np.linalg.inv(start))
    n, lines, out = len(frame["elements"]), text.split("\n")[:-1], []
    for k in range(0, len(lines) - n - 8, n + 9):
        rows = [line.split() for line in lines[k + 9 : k + 9 + n]]
        if lines[k + 3] != str(n) or any(len(row) != 4 for row in rows):  # atoms were lost
            break
        table = np.array(rows, float)
        if (table[:, 0] != np.arange(1, n + 1)).any():
            raise FrameError(f"{frame['source']}: a dump of LAMMPS has other atoms than the structure")
        low, cell = _dump_box(lines[k + 5 : k + 8])
        x = table[:, 1:] if change is None else (table[:, 1:] - low) @ q.T
        out.append((int(lines[k + 1]), x, None if change is None else change @ cell @ q.T))
    return out
