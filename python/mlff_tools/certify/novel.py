"""Structures unlike those of the training: surfaces, defects, other lattices, strain, twice the temperature, clusters,
other molecules."""

import contextlib
import hashlib

import numpy as np

from ..convert.short_range import RADII
from ..model import structures
from ..train import defects, lattices
from ..train.build import disturbed
from ..train.extxyz import tag
from . import lattice, polymorphs
from .correlations import vectors
from .job import attempt
from .rows import missing
from .systems import formula
from .work import NotMeasured

RATTLES = (0.05, 0.1, 0.2, 0.3)  # A, of the copies of each structure
COPIES = 6  # of each structure and rattle: with 110 frames of both kinds an area of 0.98 is above 0.95
STRAIN = 0.05
SLAB = 8.0  # A, at least, of a slab and of its sides
HOT_FRAMES = 12
BOND = 1.45  # times the sum of two radii: a bond, at most
SHELLS = 1.7  # times the nearest distance: fcc has 18 atoms there, hcp 20
ALIKE = 0.03  # of the nearest distance: lattices that differ by less are one
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


def slab(unit, axes, most=lattice.SUPERCELL):
    """A slab with the third of `axes` out of its plane, and vacuum; NotMeasured for more than `most` atoms."""
    once = cut(unit, axes)
    whole = lattice.repeated(once, lattice.times_for(once, SLAB, most=most))
    cell = whole["cell"].copy()
    normal = np.cross(cell[0], cell[1])
    cell[2] += lattices.VACUUM * normal / np.linalg.norm(normal)
    return {**whole, "cell": cell}


def without(frame, *gone):
    """The frame without the atoms of these indices."""
    kept = np.setdiff1d(np.arange(len(frame["elements"])), gone)
    return {**frame, "elements": [frame["elements"][k] for k in kept], "positions": frame["positions"][kept]}


def vacancies(frame):
    """[(group, structure)]: without one atom of each element, and without an atom and its nearest neighbor."""
    elements = sorted(set(frame["elements"]))
    last = {e: max(k for k, other in enumerate(frame["elements"]) if other == e) for e in elements}
    out = [(f"vacancy {e}" if len(elements) > 1 else "vacancy", without(frame, k)) for e, k in last.items()]
    first = len(frame["elements"]) - 1
    apart = np.linalg.norm(vectors(frame["positions"][first:], frame["positions"], frame["cell"])[0], axis=-1)
    apart[first] = np.inf
    return [*out, ("divacancy", without(frame, first, int(np.argmin(apart))))]


def surfaces(unit, most=lattice.SUPERCELL):
    """[(group, structure)], without slabs of more than `most` atoms. The names are cubic indices in a cubic cell, else
    those of its own vectors."""
    lengths = np.linalg.norm(unit["cell"], axis=1)
    product = (unit["cell"] / lengths[:, None]) @ (unit["cell"] / lengths[:, None]).T
    cubic = np.allclose(product, np.eye(3), atol=1e-3) and np.allclose(lengths, lengths[0], rtol=1e-3)
    own = lambda axes: f"({' '.join(str(k) for k in axes[2])}) of the cell"
    axes = {name: np.asarray(rows, int) for name, rows in FACES.items()}
    out = []
    for name, rows in axes.items():
        with contextlib.suppress(NotMeasured):
            out.append((f"surface {name if cubic else own(rows)}", slab(unit, rows, most)))
    return out


def _shells(frame):
    """Distance of the nearest neighbor of an atom, and the number of atoms within SHELLS times it."""
    far = lattice.repeated(frame, (2, 2, 2))
    d = np.linalg.norm(vectors(far["positions"][:1], far["positions"][1:], far["cell"]), axis=-1)
    return float(d.min()), int((d < SHELLS * d.min()).sum())


def _alike(a, b):
    (near, n), (other, m) = _shells(a), _shells(b)
    return abs(near - other) < ALIKE * near and n == m


def other_lattices(frame):
    """[(name, crystal)] with as much volume for an atom: of one element, or of as many atoms of two."""
    elements = sorted(set(frame["elements"]))
    if len({frame["elements"].count(e) for e in elements}) > 1:
        return []
    volume, out = abs(np.linalg.det(frame["cell"])) / len(frame["elements"]), []
    for name, sites in lattices.LATTICES.items():
        if len(sites) != len(elements):
            continue
        unit = polymorphs.made(name, elements, volume)
        out.append((name, lattice.repeated(unit, lattice.times_for(unit, SLAB))))
    return [(name, other) for name, other in out if not _alike(frame, other)]


def bonds(frame):
    """[i, j] of each pair of atoms: whether it is a bond, the sum of two radii, the vector from i to j (A)."""
    radii = np.array([RADII[e] for e in frame["elements"]])
    sums = radii[:, None] + radii
    apart = vectors(frame["positions"], frame["positions"], frame["cell"])
    return np.linalg.norm(apart, axis=-1) < BOND * sums, sums, apart


def _bonded(frame):
    """(positions with whole molecules, indices of the atoms of each molecule)."""
    bonded, _, apart = bonds(frame)
    x, known, molecules = frame["positions"].copy(), np.zeros(len(bonded), bool), []
    for first in range(len(bonded)):
        if known[first]:
            continue
        molecule, known[first] = [first], True
        for i in molecule:
            for j in np.flatnonzero(bonded[i] & ~known):
                x[j], known[j] = x[i] + apart[i, j], True
                molecule.append(int(j))
        molecules.append(molecule)
    return x, molecules


def molecules(frame):
    """Indices of the atoms of each molecule."""
    return _bonded(frame)[1]


def whole_molecules(frame):
    """The frame in vacuum, its molecules whole."""
    return {**frame, "positions": _bonded(frame)[0], "cell": None}


def structural_formula(elements, bonded):
    """What molecules with the same bonds share and isomers do not: the formula and a hash. bonded: [n, n], of the atoms
    of a molecule.

    Atoms are named by their elements, then again and again by their own name and those of their neighbors, until no
    more of them differ."""
    names, kinds = list(elements), 0
    while kinds < len(set(names)):
        kinds = len(set(names))
        around = [sorted(names[j] for j in np.flatnonzero(row)) for row in bonded]
        names = [hashlib.sha256(repr(one).encode()).hexdigest() for one in zip(names, around)]
    return f"{formula({'elements': list(elements)})} {hashlib.sha256(repr(sorted(names)).encode()).hexdigest()[:12]}"


def structural_formulas(frames):
    """Those of the molecules of frames."""
    found = set()
    for frame in frames:
        elements, (bonded, _, _) = np.array(frame["elements"]), bonds(frame)
        bonded = bonded & ~np.eye(len(elements), dtype=bool)
        for one in molecules(frame):
            found.add(structural_formula(elements[one].tolist(), bonded[np.ix_(one, one)]))
    return found


def of_molecule(name):
    """The structural formula of one of structures.MOLECULES."""
    elements, x = structures.molecule(name)
    return structural_formulas([{"elements": list(elements), "positions": np.array(x), "cell": None}]).pop()


def known_molecules(job):
    """Structural formulas of the molecules of the systems, and of one labelled frame of each type and composition."""
    kinds = {(tag(f, "config_type"), formula({"elements": list(f["elements"])})): f for f in job.frames or []}
    return structural_formulas([*(s.frame for s in job.systems), *kinds.values()])


def _strained(frame):
    return [(f"strained {100 * s:+g} %", lattice.strained(frame, s * np.eye(3))) for s in (-STRAIN, STRAIN)]


def of_crystal(system):
    """[(group, structure)] unlike a crystal."""
    frame, elements = system.frame, sorted(set(system.frame["elements"]))
    out = surfaces(system.unit) + vacancies(frame)
    hole = defects.largest_hole(frame)
    out += [(f"interstitial {e}", defects.with_atom(frame, e, hole)) for e in elements]
    shear = np.zeros((3, 3))
    shear[0, 1] = shear[1, 0] = STRAIN
    out += [*_strained(frame), (f"sheared {100 * STRAIN:g} %", lattice.strained(frame, shear))]
    return out + other_lattices(frame)


def of_liquid(system):
    """[(group, structure)] unlike a liquid."""
    if system.frame["cell"] is None:
        return []
    return [*_strained(system.frame), ("cluster in vacuum", whole_molecules(system.frame))]


def of_molecules(elements, known):
    """[(group, structure)] of molecules of these elements whose structural formulas are not among `known`."""
    out = []
    for name in structures.MOLECULES:
        symbols, x = structures.molecule(name)
        if set(symbols) <= elements and of_molecule(name) not in known:
            out.append((f"molecule {name}", {"elements": list(symbols), "positions": np.array(x), "cell": None}))
    return out


def _hot(job, system):
    """(frames, row of what is missing or None) of the model's run at twice the highest temperature of its training."""
    highest = (job.head.get("domain", {}).get("temperature") or [0.0, system.temperature])[1]
    steps, t = job.steps(system, job.settings["hot"]), 2.0 * float(highest)
    group = f"{system.name}: {t:g} K"
    found, why = attempt(
        job.trajectory, job.model, system, "twice as hot", ensemble="nvt", temperature=t, steps=steps, dump=1
    )
    if found is None or not len(found.positions):
        return [], missing("novel_forces", group, why or "the run has no frame")
    chosen = np.unique(np.linspace(len(found.positions) // 5, len(found.positions) - 1, HOT_FRAMES).astype(int))
    cells = found.cells if system.frame["cell"] is not None else [None] * len(found.positions)
    hot = {**system.frame, "group": group, "name": f"{t:g} K", "run": group}
    return [{**hot, "positions": found.positions[k], "cell": cells[k]} for k in chosen], None


def made(job):
    """(frames with the group in `group`, as the teacher is asked for; rows of what is missing)."""
    structures_of, hot = [], [_hot(job, system) for system in job.systems]
    for system in job.systems:
        found = of_crystal(system) if system.unit else of_liquid(system)
        structures_of += [(f"{system.name}: {group}", frame) for group, frame in found]
    if not all(system.unit for system in job.systems):
        structures_of += of_molecules(set(job.head["elements"]), known_molecules(job))
    out = []
    for name, frame in structures_of:
        for k, rattle in enumerate(np.repeat(RATTLES, COPIES)):
            out.append({**disturbed({**frame, "source": name}, k, 0.0, rattle, 1), "group": name})
    return out + [f for frames, _ in hot for f in frames], [gone for _, gone in hot if gone]
