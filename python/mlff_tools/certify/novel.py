"""Uncertainty: predicted against true force errors on held-out frames, and how well structures unlike those of the
training are found. The teacher labels them: surfaces, defects, other lattices, strain, twice the temperature, clusters,
other molecules."""

import numpy as np

from ..convert.short_range import RADII
from ..model import structures
from ..train import lattices
from ..train.build import disturbed
from ..train.labels import structure_key
from . import lattice, uncertainty
from .correlations import vectors
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

COPIES = 4  # of each structure, rattled
RATTLE = 0.05  # A
STRAIN = 0.05
SLAB = 8.0  # A, at least, of a slab and of its sides
HOT_FRAMES = 12
POINTS = 400  # among which the largest hole of a crystal is found
BOND = 1.45  # times the sum of two radii: a bond, at most
SHELLS = 1.7  # times the nearest distance: fcc has 18 atoms there, hcp 20
CLOSEST = 0.8  # of the shortest distance of the training: closer atoms are seen without an uncertainty
FACES = {"100": np.eye(3), "110": [[0, 0, 1], [1, -1, 0], [1, 1, 0]], "111": [[1, -1, 0], [1, 1, -2], [1, 1, 1]]}


def cut(unit, axes):
    """The crystal in the cell of the rows of `axes`, integers in units of its own cell."""
    axes = np.asarray(axes, float)
    shifts = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3, indexing="ij"), -1).reshape(-1, 3)
    inside = (unit["positions"] @ np.linalg.inv(unit["cell"]))[:, None] + shifts
    inside = inside @ np.linalg.inv(axes)
    found = [x[((x > -1e-6) & (x < 1 - 1e-6)).all(1)] for x in inside]
    elements = [e for e, x in zip(unit["elements"], found) for _ in x]
    cell = axes @ unit["cell"]
    return {"elements": elements, "positions": np.concatenate(found) @ cell, "cell": cell}


def slab(unit, axes):
    """A slab with the third of `axes` out of its plane, and vacuum."""
    once = cut(unit, axes)
    whole = lattice.repeated(once, lattice.times_for(once["cell"], SLAB))
    cell = whole["cell"].copy()
    normal = np.cross(cell[0], cell[1])
    cell[2] += lattices.VACUUM * normal / np.linalg.norm(normal)
    return {**whole, "cell": cell}


def largest_hole(frame, seed=1):
    """The point that is farthest from all atoms, of POINTS random ones."""
    points = np.random.default_rng(seed).random((POINTS, 3)) @ frame["cell"]
    apart = np.linalg.norm(vectors(points, frame["positions"], frame["cell"]), axis=-1).min(1)
    return points[np.argmax(apart)]


def with_atom(frame, element):
    position = largest_hole(frame)
    return {**frame, "elements": [*frame["elements"], element], "positions": np.vstack([frame["positions"], position])}


def without(frame, n):
    return {**frame, "elements": frame["elements"][:-n], "positions": frame["positions"][:-n]}


def _shells(frame):
    """Distance of the nearest neighbor of an atom, and the number of atoms within SHELLS times it."""
    far = lattice.repeated(frame, (2, 2, 2))
    d = np.linalg.norm(vectors(far["positions"][:1], far["positions"][1:], far["cell"]), axis=-1)
    return round(float(d.min()), 3), int((d < SHELLS * d.min()).sum())


def other_lattices(frame):
    """[(name, crystal)] with as much volume for an atom: of one element, or of as many atoms of two."""
    elements = sorted(set(frame["elements"]))
    if len({frame["elements"].count(e) for e in elements}) > 1:
        return []
    volume, out = abs(np.linalg.det(frame["cell"])) / len(frame["elements"]), []
    for name, sites in lattices.LATTICES.items():
        if len(sites) != len(elements):
            continue
        constant = lengths = (volume * sum(map(len, sites))) ** (1 / 3)
        if name == "hcp":  # spheres in contact
            constant = 2 ** (-1 / 6) * constant * np.array([1.0, (8 / 3) ** 0.5])
            lengths = constant[[0, 0, 1]]
        times = np.ceil(SLAB / (lengths * np.ones(3))).astype(int)
        out.append((name, lattices.crystal(name, elements, constant, times)))
    return [(name, other) for name, other in out if _shells(other) != _shells(frame)]


def whole_molecules(frame):
    """The frame in vacuum, its molecules whole."""
    radii = np.array([RADII[e] for e in frame["elements"]])
    apart = vectors(frame["positions"], frame["positions"], frame["cell"])  # [i, j]: from i to j
    bonds = np.linalg.norm(apart, axis=-1) < BOND * (radii[:, None] + radii)
    x, known = frame["positions"].copy(), np.zeros(len(radii), bool)
    for first in range(len(radii)):
        waiting = [] if known[first] else [first]
        known[first] = True
        while waiting:
            i = waiting.pop()
            for j in np.flatnonzero(bonds[i] & ~known):
                x[j], known[j] = x[i] + apart[i, j], True
                waiting.append(int(j))
    return {**frame, "positions": x, "cell": None}


def _strained(frame):
    return [(f"strained {100 * s:+g} %", lattice.strained(frame, s * np.eye(3))) for s in (-STRAIN, STRAIN)]


def of_crystal(system):
    """[(group, structure)] unlike a crystal."""
    frame, elements = system.frame, sorted(set(system.frame["elements"]))
    out = [(f"surface {name}", slab(system.unit, axes)) for name, axes in FACES.items()]
    out += [("vacancy", without(frame, 1)), ("divacancy", without(frame, 2))]
    out += [(f"interstitial {e}", with_atom(frame, e)) for e in elements]
    shear = np.zeros((3, 3))
    shear[0, 1] = shear[1, 0] = STRAIN
    out += [*_strained(frame), (f"sheared {100 * STRAIN:g} %", lattice.strained(frame, shear))]
    return out + other_lattices(frame)


def of_molecules(system, known):
    """[(group, structure)] unlike a liquid or a molecule; known: elements of the model."""
    frame, out = system.frame, []
    if frame["cell"] is not None:
        out = [*_strained(frame), ("cluster in vacuum", whole_molecules(frame))]
    for name in structures.MOLECULES:
        elements, x = structures.molecule(name)
        if set(elements) <= known and name not in system.name:
            out.append((name, {"elements": list(elements), "positions": np.array(x), "cell": None}))
    return out


def _hot(job, system):
    """Frames of the model's own run at twice the highest temperature of its training."""
    highest = (job.head.get("domain", {}).get("temperature") or [0.0, system.temperature])[1]
    steps, t = job.steps(system, job.settings["hot"]), 2.0 * float(highest)
    found, _ = attempt(
        job.trajectory, job.model, system, "twice as hot", ensemble="nvt", temperature=t, steps=steps, dump=1
    )
    if found is None:
        return []
    chosen = np.unique(np.linspace(len(found.positions) // 5, len(found.positions) - 1, HOT_FRAMES).astype(int))
    periodic = system.frame["cell"] is not None
    return [
        (f"{t:g} K", {**system.frame, "positions": found.positions[k], "cell": found.cells[k] if periodic else None})
        for k in chosen[: len(found.positions)]
    ]


def _closest(frame):
    d = np.linalg.norm(vectors(frame["positions"], frame["positions"], frame["cell"]), axis=-1)
    np.fill_diagonal(d, np.inf)
    return float(d.min()) if len(d) > 1 else np.inf


def made(job):
    """Frames with the group in `group`, as the teacher is asked for."""
    known, least = set(job.head["elements"]), CLOSEST * float(job.head.get("domain", {}).get("min_distance") or 0.0)
    out = []
    for system in job.systems:
        found = of_crystal(system) if system.unit else of_molecules(system, known)
        for group, frame in found:
            name = f"{system.name}: {group}"
            out += [{**disturbed({**frame, "source": name}, k, 0.0, RATTLE, 1), "group": name} for k in range(COPIES)]
        out += [{**frame, "group": f"{system.name}: {group}", "name": group} for group, frame in _hot(job, system)]
    return [f for f in out if _closest(f) > least]


def _labels(job, frames):
    """Forces of the teacher, None where it refuses a frame; kept."""

    def do(_):
        found = [attempt(job.teacher.evaluate, [frame]) for frame in frames]
        return {"forces": [None if one is None else one[0]["forces"] for one, _ in found]}

    inputs = [job.teacher.identity["static"], [structure_key(f) for f in frames]]
    return job.work.step("teacher-novel", inputs, do)["forces"]


def _rows(job, frames, forces):
    """Rows as of uncertainty.evaluate: errors and uncertainties of the atoms of each frame."""
    out = []
    for frame, other, mine in zip(frames, forces, job.model.evaluate(frames)):
        if other is not None:
            off = np.sqrt(((mine["forces"] - np.array(other)) ** 2).mean(1))
            out.append({"errors": off, "uncertainties": mine["uncertainties"], "group": frame["group"]})
    return out


def measure(job):
    block = job.head.get("uncertainty")
    if not block or block["unit"] != "eV/A":
        raise NotMeasured(f"the model has no uncertainty of atoms: `mlff uncertainty {job.head['name']} LABELS.xyz`")
    if job.teacher is None:
        raise NotMeasured(job.no_teacher)
    test, frames = [{**f, "group": "held out"} for f in job.held_out()], made(job)
    rows = _rows(job, test, [f["forces"] for f in test])
    others = _rows(job, frames, _labels(job, frames))
    if not others:
        raise NotMeasured("there is no structure unlike those of the training that the teacher evaluates")
    found = uncertainty.judge(float(block["limit"]), rows, others)
    return {"rows": _table(found), "figures": [_figure(found)]}


def share(quantity, group, value, n, factor=1.0, **more):
    """A row of a share of n frames, with Wilson's interval."""
    if value is None or not n:
        return missing(quantity, group, more.get("note") or "there is none")
    z2 = 1.96**2
    middle, half = (value + z2 / 2 / n) / (1 + z2 / n), 1.96 * (value * (1 - value) / n + z2 / 4 / n**2) ** 0.5
    low, high = (factor * (middle + s * half / (1 + z2 / n)) for s in (-1, 1))
    return row(quantity, group, factor * value, (high - low) / 2, low=max(0.0, low), high=min(factor, high), **more)


def _table(found):
    held = sum(g["frames"] for g in found["groups"] if g["kind"] != "other")
    far = f"{found['far']} frames with a force error above {uncertainty.FAR:g} times the held-out one"
    limit = f"limit {1000 * found['limit']:.3g} meV/A"
    out = [
        share("roc_area", "all", found["roc_area"], min(found["far"], found["near"]), note=far),
        share("flagged", "all", found["found"], found["far"], 100.0, note=far),
        share("false_alarms", "held out", found["false_alarms"], held, 100.0, note=limit),
        row("uncertainty_slope", "held out", found["calibration"]["slope"]),
    ]
    for g in found["groups"]:
        if g["kind"] == "other":
            note = f"{g['frames']} frames, error {g['error_ratio']:.3g} times the held-out one, largest uncertainty "
            note += f"{1000 * g['largest']:.3g} meV/A (median)"
            out.append(row("novel_forces", g["group"], 1000 * g["error"], note=note))
            out.append(share("flagged", g["group"], g["flagged"], g["frames"], 100.0))
    return out


def _figure(found):
    x, y = 1000 * np.array(found["calibration"]["curve"]).T
    return {
        "kind": "lines",
        "title": "Expected and true force error of atoms, held out",
        "x_label": "expected (meV/A)",
        "y_label": "true (meV/A)",
        "curves": [{"label": "model", "x": x, "y": y}, {"label": "equal", "x": x, "y": x}],
        "dots": True,
        "log": True,
    }
