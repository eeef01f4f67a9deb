"""What a run of LAMMPS leaves: tables of its log, and frames of its dump."""

import dataclasses
import math
import re

import numpy as np

from ..model.modelfile import ModelError
from ..train import extxyz, lammps_data

PS = {"metal": 1.0, "real": 1e-3}  # ps of a unit of time
DEFAULT = {"metal": 0.001, "real": 1.0}  # time step of LAMMPS, in units of time
KEPT = 500  # frames of a trajectory that are used; of longer ones every n-th
NO_THERMO = (
    "no thermodynamic output of dynamics: it needs a table whose first column is Step (thermo_style one or custom; "
    "not multi, yaml, or of a minimization only)"
)


@dataclasses.dataclass
class Log:
    """The thermodynamic output of a log: columns {name: [rows]}, time in ps (None: unknown), units; per_atom: whether
    energies are; error: with which the run ended, or None."""

    columns: dict
    time: np.ndarray
    units: str
    per_atom: bool
    error: str


@dataclasses.dataclass
class Trajectory:
    """positions [frames, atoms, 3] in A, cells [frames, 3, 3], elements or names of types, time in ps (None: unknown),
    step of each frame. whole: whether positions are not wrapped into the cell."""

    positions: np.ndarray
    cells: np.ndarray
    elements: list
    time: np.ndarray
    step: np.ndarray
    whole: bool

    def frames(self, which):
        """The same with some of its frames."""
        time = None if self.time is None else self.time[which]
        parts = self.positions[which], self.cells[which], self.elements, time, self.step[which]
        return Trajectory(*parts, self.whole)


def _tables(text):
    """Tables of thermo output of dynamics: ([names], [rows], time step or None). Lines between rows, as of warnings and
    of fix print, are passed over: they do not go on counting steps."""
    head, rows, step, whole = None, [], None, None
    for line in text.splitlines():
        words = line.split()
        found = re.match(r"timestep\s+([-+.\deE]+)\s*(?:#.*)?$", line) or re.match(r"\s*Time step\s*:\s*(\S+)", line)
        if found:
            step = float(found.group(1))
        if words and words[0] == "Step" and not line.startswith("Step:"):
            yield from filter(None, (whole, (head, rows, step) if rows else None))
            head, rows, whole = words, [], None
        elif line.startswith("Loop time"):
            whole, head, rows = (head, rows, step) if rows else None, None, []
        elif line.startswith("Minimization stats"):
            whole = None
        elif head and len(words) == len(head) and re.fullmatch(r"\d+", words[0]):
            try:
                row = [float(w) for w in words]
            except ValueError:
                continue
            if not rows or row[0] > rows[-1][0]:
                rows.append(row)
    yield from filter(None, (whole, (head, rows, step) if rows else None))


def read_log(path):
    """The log. Runs that continue each other are one; where the columns change or steps are counted anew, the last ones
    are. Tables of minimizations are left out. The time is the column Time where there is one, else the sum over the
    time steps of the runs."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    units = re.findall(r"^\s*Unit style\s*:\s*(\S+)", text, re.M) or re.findall(r"^units\s+(\w+)", text, re.M)
    units = units[-1] if units else "unknown"
    names, table, times = None, [], []
    for head, rows, step in _tables(text):
        if head != names or (table and rows[0][0] != table[-1][0]):
            names, table, times = head, [], []
        for row in rows:
            if table and row[0] <= table[-1][0]:
                continue  # the first row of a run is the last one of the run before
            elapsed = (row[0] - table[-1][0]) * (step or DEFAULT.get(units, 0.0)) if table else 0.0
            times.append((times[-1] if times else 0.0) + elapsed)
            table.append(row)
    if not table:
        raise ModelError(f"{path}: {NO_THERMO}")
    columns = {name: np.array(column) for name, column in zip(names, np.array(table).T)}
    time = columns.get("Time", np.array(times)) * PS[units] if units in PS else None
    if time is None or not np.ptp(time) > 0:
        time = None
    errors = re.findall(r"^ERROR.*$", text, re.M)
    per_atom = bool(re.search(r"^thermo_modify\s.*\bnorm\s+yes", text, re.M))
    return Log(columns, time, units, per_atom, errors[-1].strip() if errors else None)


def _number(kind, text, what, path):
    try:
        return kind(text)
    except ValueError:
        raise ModelError(f"{path}: {what} is '{text.strip()[:40]}'") from None


def _dump_frames(f, path):
    """(step, time in ps or None, bounds, flags, columns, rows of words) of each whole frame."""
    units, line = None, f.readline()
    while line:
        if not line.startswith("ITEM: "):
            raise ModelError(f"{path}: not a dump of LAMMPS: expected `ITEM:`, found '{line.strip()[:40]}'")
        found, flags = {}, []
        while line.startswith("ITEM: ") and not line.startswith("ITEM: ATOMS"):
            key = line[6:].split()[0]
            flags = line.split()[3:] if key == "BOX" else flags
            found[key] = [f.readline() for _ in range(3 if key == "BOX" else 1)]
            line = f.readline()
        if not line.startswith("ITEM: ATOMS"):
            return  # cut off
        if not all(key in found for key in ("TIMESTEP", "NUMBER", "BOX")):
            raise ModelError(f"{path}: a frame lacks TIMESTEP, NUMBER OF ATOMS or BOX BOUNDS")
        units = found["UNITS"][0].strip() if "UNITS" in found else units
        step = _number(int, found["TIMESTEP"][0], "a time step", path)
        n = _number(int, found["NUMBER"][0], "a number of atoms", path)
        if n < 1:
            raise ModelError(f"{path}: step {step} has {n} atoms")
        lines = [f.readline() for _ in range(n)]
        if not lines[-1].endswith("\n"):
            return
        columns, rows = line.split()[2:], [row.split() for row in lines]
        if any(len(row) != len(columns) for row in rows):
            raise ModelError(f"{path}: step {step} has lines of atoms without {len(columns)} columns")
        time = None
        if "TIME" in found and units in PS:
            time = PS[units] * _number(float, found["TIME"][0], "a time", path)
        yield step, time, found["BOX"], flags, columns, rows
        line = f.readline()


def _frame(columns, rows, bounds, path):
    """(order of atoms, positions, cell, whether they are not wrapped)."""
    at = {name: k for k, name in enumerate(columns)}

    def take(names):
        try:
            return np.array([[row[at[name]] for name in names] for row in rows], float)
        except ValueError:
            raise ModelError(f"{path}: a column of {' '.join(names)} has a word that is no number") from None

    try:
        low, cell = lammps_data.dump_box(bounds)
    except (ValueError, IndexError):
        raise ModelError(f"{path}: bounds of the box are no numbers") from None
    if not np.isfinite(cell).all() or not abs(np.linalg.det(cell)) > 0:
        raise ModelError(f"{path}: a box has no volume")
    for suffix, whole in (("u", True), ("", False)):
        plain, scaled = [c + suffix for c in "xyz"], [c + "s" + suffix for c in "xyz"]
        if all(name in at for name in plain):
            x = take(plain)
        elif all(name in at for name in scaled):
            x = low + take(scaled) @ cell
        else:
            continue
        if not whole and all(c in at for c in ("ix", "iy", "iz")):
            x, whole = x + take(("ix", "iy", "iz")) @ cell, True
        if not np.isfinite(x).all():
            raise ModelError(f"{path}: a position is not a finite number")
        order = np.argsort(take(("id",))[:, 0]) if "id" in at else np.arange(len(rows))
        return order, x[order], cell, whole
    raise ModelError(f"{path}: the dump has no positions: it needs the columns x y z or xu yu zu")


def read_dump(path, timestep=None, elements=None):
    """A text dump of a periodic box. timestep: ps, where the dump has no time with units (dump_modify time yes units
    yes). elements: those of the types 1, 2, ..."""
    frames, names = [], None
    with open(path, encoding="utf-8", errors="replace") as f:
        for step, time, bounds, flags, columns, rows in _dump_frames(f, path):
            if any(flag != "pp" for flag in flags if flag not in ("xy", "xz", "yz", "abc", "origin")):
                raise ModelError(f"{path}: the box is not periodic in all directions (BOX BOUNDS {' '.join(flags)})")
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
    if timestep:
        time = steps * timestep
    return _thinned(np.array([f[1] for f in frames]), np.array([f[2] for f in frames]), names, time, steps, whole)


def _elements(columns, rows, given, path):
    if "element" in columns:
        return [row[columns.index("element")] for row in rows]
    if "type" not in columns:
        return ["atom"] * len(rows)
    types = [_number(int, row[columns.index("type")], "a type", path) for row in rows]
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
    steps = np.arange(len(frames), dtype=float)
    x, cells = np.array([f["positions"] for f in frames]), np.array([f["cell"] for f in frames])
    return _thinned(x, cells, list(first["elements"]), steps * timestep if timestep else None, steps, False)


def _thinned(positions, cells, elements, time, steps, whole):
    """Every n-th frame of a long trajectory, unwrapped before."""
    if not whole and len(positions) > 1:
        positions, whole = unwrapped(positions, cells), True
    n = math.ceil(len(positions) / KEPT)
    return Trajectory(positions, cells, elements, time, steps, whole).frames(slice(None, None, n))


def unwrapped(positions, cells):
    """Positions that follow the atoms across faces of the cell: right where none moves by half a cell in a frame."""
    out = positions.copy()
    for k in range(1, len(out)):
        moved = (positions[k] - out[k - 1]) @ np.linalg.inv(cells[k])
        out[k] = positions[k] - np.round(moved) @ cells[k]
    return out
