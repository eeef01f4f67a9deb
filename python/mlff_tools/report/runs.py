"""What a run of LAMMPS leaves: tables of its log, and frames of its dump."""

import dataclasses
import re

import numpy as np

from ..model.modelfile import ModelError
from ..train import extxyz, lammps_data

PS = {"metal": 1.0, "real": 1e-3}  # ps of a unit of time
DEFAULT = {"metal": 0.001, "real": 1.0}  # time step of LAMMPS, in units of time
KEPT = 500  # frames of a trajectory that are used; of longer ones every n-th


@dataclasses.dataclass
class Log:
    """The thermodynamic output of a log: columns {name: [rows]}, time in ps (None: unknown), units, atoms."""

    columns: dict
    time: np.ndarray
    units: str
    atoms: int


@dataclasses.dataclass
class Trajectory:
    """positions [frames, atoms, 3] in A, cells [frames, 3, 3], elements or names of types, time in ps (None: unknown).
    whole: whether positions are not wrapped into the cell."""

    positions: np.ndarray
    cells: np.ndarray
    elements: list
    time: np.ndarray
    whole: bool


def _rows(lines):
    """Tables of thermo output: ([names], [rows], time step). Columns of text and lines of warnings are passed over."""
    head, rows, step = None, [], None
    for line in lines:
        words = line.split()
        found = re.match(r"timestep\s+([-+.\deE]+)\s*(?:#.*)?$", line) or re.match(r"\s*Time step\s*:\s*(\S+)", line)
        if found:
            step = float(found.group(1))
        if words and words[0] == "Step" and not line.startswith("Step:"):
            if rows:
                yield head, rows, step
            head, rows = words, []
        elif line.startswith("Loop time"):
            if rows:
                yield head, rows, step
            head, rows = None, []
        elif head and len(words) == len(head):
            try:
                rows.append([float(w) for w in words])
            except ValueError:
                continue
    if rows:
        yield head, rows, step


def read_log(path):
    """The log. Runs that continue each other are one; where columns or the count of steps change, the last ones are."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    units = re.findall(r"^\s*Unit style\s*:\s*(\S+)", text, re.M) or re.findall(r"^units\s+(\w+)", text, re.M)
    units = units[-1] if units else "unknown"
    names, table, times = None, [], []
    for head, rows, step in _rows(text.splitlines()):
        if head != names or (table and rows[0][0] < table[-1][0]):
            names, table, times = head, [], []
        for row in rows:
            if table and row[0] <= table[-1][0]:
                continue  # the first row of a run is the last one of the run before
            last = (times[-1] if times else 0.0, table[-1][0] if table else row[0])
            times.append(last[0] + (row[0] - last[1]) * (step or DEFAULT.get(units, 0.0)))
            table.append(row)
    if not table:
        raise ModelError(f"{path}: no thermodynamic output: it needs lines below one that begins with `Step`")
    atoms = re.findall(r"^Loop time of .* with (\d+) atoms", text, re.M)
    known = units in PS and np.ptp(times) > 0
    time = np.array(times) * PS[units] if known else None
    columns = {name: np.array(column) for name, column in zip(names, np.array(table).T)}
    return Log(columns, time, units, int(atoms[-1]) if atoms else None)


def _dump_frames(f, path):
    """(step, time or None, bounds, columns, table of words) of each whole frame."""
    line = f.readline()
    while line:
        if not line.startswith("ITEM: "):
            raise ModelError(f"{path}: no dump of LAMMPS: expected `ITEM:`, found '{line.strip()[:40]}'")
        found = {}
        while line.startswith("ITEM: ") and not line.startswith("ITEM: ATOMS"):
            key = line[6:].split()[0]
            count = 3 if key == "BOX" else 1
            found[key] = [f.readline() for _ in range(count)]
            line = f.readline()
        if not line.startswith("ITEM: ATOMS"):
            return  # cut off
        n = int(found["NUMBER"][0])
        lines = [f.readline() for _ in range(n)]
        if n and not lines[-1].endswith("\n"):
            return
        time = float(found["TIME"][0]) if "TIME" in found else None
        yield int(found["TIMESTEP"][0]), time, found["BOX"], line.split()[2:], [row.split() for row in lines]
        line = f.readline()


def _frame(columns, rows, bounds, path):
    """(order of atoms, positions, cell, whether they are not wrapped)."""
    low, cell = lammps_data.dump_box(bounds)
    at = {name: k for k, name in enumerate(columns)}
    take = lambda names: np.array([[row[at[name]] for name in names] for row in rows], float)
    for prefix, suffix, whole in (("", "u", True), ("", "", False)):
        plain = [prefix + c + suffix for c in "xyz"]
        scaled = [c + "s" + suffix for c in "xyz"]
        if all(name in at for name in plain):
            x = take(plain)
        elif all(name in at for name in scaled):
            x = low + take(scaled) @ cell
        else:
            continue
        if not whole and all(c in at for c in ("ix", "iy", "iz")):
            x, whole = x + take(("ix", "iy", "iz")) @ cell, True
        order = np.argsort(take(("id",))[:, 0]) if "id" in at else np.arange(len(rows))
        return order, x[order], cell, whole
    raise ModelError(f"{path}: the dump has no positions: it needs the columns x y z or xu yu zu")


def read_dump(path, timestep=None, elements=None):
    """A text dump. timestep: ps, where the dump has no `ITEM: TIME`. elements: those of the types 1, 2, ..."""
    frames, names = [], None
    with open(path, encoding="utf-8", errors="replace") as f:
        for step, time, bounds, columns, rows in _dump_frames(f, path):
            order, x, cell, whole = _frame(columns, rows, bounds, path)
            if frames and x.shape != frames[0][1].shape:
                raise ModelError(f"{path}: step {step} has {len(x)} atoms, the first frame {len(frames[0][1])}")
            if names is None:
                names = _elements(columns, [rows[k] for k in order], elements, path)
            frames.append((step, x, cell, time))
    if not frames:
        raise ModelError(f"{path}: the dump has no whole frame")
    steps, times = np.array([f[0] for f in frames], float), [f[3] for f in frames]
    time = None if None in times else np.array(times, float)
    if time is None and timestep:
        time = steps * timestep
    return _thinned(Trajectory(np.array([f[1] for f in frames]), np.array([f[2] for f in frames]), names, time, whole))


def _elements(columns, rows, given, path):
    if "element" in columns:
        return [row[columns.index("element")] for row in rows]
    if "type" not in columns:
        return ["atom"] * len(rows)
    types = [int(row[columns.index("type")]) for row in rows]
    if given and max(types) > len(given):
        raise ModelError(f"{path}: type {max(types)} has no element in --elements {' '.join(given)}")
    return [given[t - 1] if given else f"type {t}" for t in types]


def read_xyz(path, timestep=None):
    """An extended XYZ file, whose frames are `timestep` ps apart."""
    frames = extxyz.read(path)
    first = frames[0]
    for k, f in enumerate(frames):
        if f["cell"] is None:
            raise ModelError(f"{path}, frame {k + 1}: has no cell, and a radial distribution needs one")
        if f["elements"] != first["elements"]:
            raise ModelError(f"{path}, frame {k + 1}: has other atoms than the first frame")
    time = np.arange(len(frames)) * timestep if timestep else None
    x, cells = np.array([f["positions"] for f in frames]), np.array([f["cell"] for f in frames])
    return _thinned(Trajectory(x, cells, list(first["elements"]), time, False))


def _thinned(t):
    """Every n-th frame of a long one, unwrapped before."""
    if not t.whole and len(t.positions) > 1:
        t = dataclasses.replace(t, positions=unwrapped(t.positions, t.cells), whole=True)
    n = -(-len(t.positions) // KEPT)
    time = None if t.time is None else t.time[::n]
    return dataclasses.replace(t, positions=t.positions[::n], cells=t.cells[::n], time=time)


def unwrapped(positions, cells):
    """Positions that follow the atoms across faces of the cell: right where none moves by half a cell in a frame."""
    out = positions.copy()
    for k in range(1, len(out)):
        inverse = np.linalg.inv(cells[k])
        moved = (positions[k] - out[k - 1]) @ inverse
        out[k] = positions[k] - np.round(moved) @ cells[k]
    return out
