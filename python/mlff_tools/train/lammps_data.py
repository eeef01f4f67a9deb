"""Structures as LAMMPS has them: cells below the diagonal, data files, dumps."""

import re

import numpy as np

from ..model.masses import MASS
from .extxyz import FrameError

ATOM_STYLES = {"atomic": "{i} {t} {x}", "charge": "{i} {t} 0.0 {x}", "molecular": "{i} 0 {t} {x}"}
ATOM_STYLES["full"] = "{i} 0 {t} 0.0 {x}"
TYPE_COLUMN = {"atomic": 1, "charge": 1, "molecular": 2, "full": 2}  # of the type in a line of a data file
MARGIN = 10.0  # A around a structure that is not periodic


def restricted(cell):
    """LAMMPS' cell [3, 3] (a along x, b in the plane xy, tilts as small as possible) and the rotation Q [3, 3], for
    which x Q are positions in it."""
    cell = cell if np.linalg.det(cell) > 0 else cell * [[1], [1], [-1]]  # the same lattice, right-handed
    q, r = np.linalg.qr(cell.T)
    sign = np.sign(np.diag(r))
    q, lower = q * sign, (r * sign[:, None]).T.copy()
    for row, column in ((2, 1), (2, 0), (1, 0)):
        lower[row] -= np.round(lower[row, column] / lower[column, column]) * lower[column]
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


def dump_box(lines):
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
        low, cell = dump_box(lines[k + 5 : k + 8])
        x = table[:, 1:] if change is None else (table[:, 1:] - low) @ q.T
        out.append((int(lines[k + 1]), x, None if change is None else change @ cell @ q.T))
    return out


def element_of(mass):
    """The element of a mass in g/mol; FrameError for one that no element has."""
    found = min(MASS, key=lambda e: abs(MASS[e] - mass))
    if abs(MASS[found] - mass) > 0.02 * MASS[found] + 0.01:
        raise FrameError(f"no element has the mass {mass:g} g/mol")
    return found


def _data_cell(header):
    """(low [3], cell) of the header of a data file."""
    bounds = [re.search(rf"^\s*(\S+)\s+(\S+)\s+{c}lo\s+{c}hi", header, re.M) for c in "xyz"]
    if not all(bounds):
        raise FrameError("it has no box (lines such as `0.0 20.0 xlo xhi`)")
    low, high = (np.array([float(b[k]) for b in bounds]) for k in (1, 2))
    cell, tilts = np.diag(high - low), re.search(r"^\s*(\S+)\s+(\S+)\s+(\S+)\s+xy\s+xz\s+yz", header, re.M)
    if tilts:
        cell[1, 0], cell[2, 0], cell[2, 1] = (float(tilts[k]) for k in (1, 2, 3))
    return low, cell


def _section(text, name):
    """(the comment after the name, the lines) of a section of a data file."""
    found = re.search(rf"^{name}[ \t]*(?:#[ \t]*(\S*).*)?\n((?:[ \t]*\n|[ \t]*[-\d].*\n?)*)", text, re.M)
    if not found:
        raise FrameError(f"it has no section {name}")
    return found[1] or "", [line.split("#")[0].split() for line in found[2].splitlines() if line.strip()]


def parse_data(text, periodic=True):
    """The structure of a data file with the atom style atomic, charge, molecular or full (`Atoms # STYLE`; atomic
    by default), ordered by atom ID. Elements are those of the masses."""
    units = re.search(r"units = (\w+)", text.partition("\n")[0])  # in the title that write_data makes
    if units and units[1] not in ("metal", "real"):
        raise FrameError(f"its units are {units[1]}, so lengths are not in A: write the file with `units metal`")
    low, cell = _data_cell(text.split("\nMasses")[0])
    elements = {row[0]: element_of(float(row[1])) for row in _section(text, "Masses")[1]}
    style, rows = _section(text, "Atoms")
    style = style or "atomic"
    if style not in TYPE_COLUMN:
        raise FrameError(f"its atom style is {style}: use {', '.join(TYPE_COLUMN)}")
    first = len(ATOM_STYLES[style].split()) - 1
    if any(len(row) not in (first + 3, first + 6) for row in rows) or not rows:
        raise FrameError(f"its lines of Atoms are not those of the atom style {style}: write `Atoms # STYLE`")
    rows.sort(key=lambda row: int(row[0]))
    unknown = next((row for row in rows if row[TYPE_COLUMN[style]] not in elements), None)
    if unknown:
        raise FrameError(f"the type {unknown[TYPE_COLUMN[style]]} of atom {unknown[0]} has no mass")
    x = np.array([[float(word) for word in row[first : first + 3]] for row in rows])
    if not periodic:  # an image flag says how often a molecule was folded
        flags = [[float(word) for word in row[first + 3 :]] or [0.0] * 3 for row in rows]
        x = x + np.array(flags) @ cell
    names = [elements[row[TYPE_COLUMN[style]]] for row in rows]
    return {"elements": names, "positions": x - low * periodic, "cell": cell if periodic else None}


def read_data(path, periodic=True):
    """The structure of a data file."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    try:
        return {**parse_data(text, periodic), "name": path, "source": path}
    except ValueError as e:
        raise FrameError(f"{path}: not a data file of LAMMPS: {e}") from e
    except FrameError as e:
        raise FrameError(f"{path}: {e}") from e
