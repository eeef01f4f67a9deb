"""Point defects of crystals of one element: a vacancy, self-interstitials, and the hop of an atom into a vacancy.

The model relaxes each structure. The teacher relaxes it from the same start, and evaluates the model's geometry, where
its largest force tells whether the model is in a minimum of its own."""

import numpy as np

from ..train import defects as builders
from ..train.labels import structure_key
from . import lattice, neb, novel
from .correlations import vectors
from .crystals import both, relaxed
from .job import attempt
from .polymorphs import cell_of
from .rows import missing, row
from .work import NotMeasured

WIDTH = 10.0  # A, of the supercell
FORCE = 2e-3  # eV/A: relaxed, within 0.1 meV
RATTLE = 0.05  # A, of each coordinate before a vacancy is relaxed
# Holes in units of the cubic cell: the centers of the octahedra and of the tetrahedra of atoms
HOLES = {
    "fcc": {"octahedral": (0.5, 0.5, 0.5), "tetrahedral": (0.25, 0.25, 0.25)},
    "bcc": {"octahedral": (0.5, 0.5, 0.0), "tetrahedral": (0.5, 0.25, 0.0)},
    "diamond": {"tetrahedral": (0.5, 0.5, 0.5), "hexagonal": (0.625, 0.625, 0.625)},
    "sc": {"cubic": (0.5, 0.5, 0.5)},
    "hcp": {"octahedral": (2 / 3, 1 / 3, 0.25), "tetrahedral": (0.0, 0.0, 0.375)},
}
FALLS = 0.02  # eV: end points of a hop that differ by more are not one vacancy


def _compounds(job, quantity):
    """(crystals of one element, rows of the others)"""
    crystals = job.of_kind("crystal")
    others = [s for s in crystals if len(set(s.unit["elements"])) > 1]
    why = "a compound: the energy of a defect depends on chemical potentials"
    rows = [missing(quantity, s.name, why, applies=False) for s in others]
    return [s for s in crystals if s not in others], rows


def supercell(unit):
    """The unit cell repeated to WIDTH, at least twice."""
    return lattice.repeated(unit, lattice.times_for(unit, WIDTH, 2))


def judged(job, system, frame):
    """(energy, largest force in eV/A) of the teacher for a structure; kept."""
    if job.teacher is None:
        raise NotMeasured(job.no_teacher)

    def do(evaluate):
        label = evaluate([frame])[0]
        return [label["energy"], float(np.abs(label["forces"]).max())]

    return job.static(job.teacher, system, "model's geometry", do, structure_key(frame))


def force_row(job, system, group, frame):
    """(row `relaxed_force` of a structure that the model relaxed; the teacher's energy for it, or None)"""
    found, why = attempt(judged, job, system, frame)
    if found is None:
        return missing("relaxed_force", group, why), None
    return row("relaxed_force", group, found[1]), found[0]


def relaxed_defect(job, side, system, what, frame, force=FORCE):
    """{frame, energy} of a structure that the side relaxes in a fixed cell."""

    def do(evaluate):
        found, label = lattice.relax(evaluate, [frame], force=force)[0]
        return {"positions": found["positions"], "energy": label["energy"]}

    found = job.static(side, system, what, do)
    return {"frame": {**frame, "positions": np.array(found["positions"])}, "energy": found["energy"]}


def shaken(frame):
    """Off the symmetric saddle point."""
    return {
        **frame,
        "positions": frame["positions"] + RATTLE * np.random.default_rng(1).normal(size=(len(frame["elements"]), 3)),
    }


def _vacancy(job, side, system):
    unit, energy = relaxed(job, side, system)
    big = supercell(unit)
    hole = novel.without(big, 0)
    found = relaxed_defect(job, side, system, "vacancy relaxed", shaken(hole), lattice.FORCE)
    bulk = len(hole["elements"]) * energy / len(unit["elements"])
    return {**found, "formation": found["energy"] - bulk, "atoms": len(hole["elements"])}


def vacancy(job):
    systems, rows = _compounds(job, "vacancy_energy")
    for system in systems:
        (mine, why), (other, other_why) = both(job, system, _vacancy)
        if mine is None:
            rows.append(missing("vacancy_energy", system.name, why))
            continue
        more = {"teacher": other and other["formation"], "teacher_note": other_why, "note": f"{mine['atoms']} atoms"}
        rows.append(row("vacancy_energy", system.name, mine["formation"], **more))
        rows.append(force_row(job, system, f"{system.name} vacancy", mine["frame"])[0])
    return {"rows": rows, "figures": []}


def interstitials(name, unit):
    """[(name, supercell with one atom more)] of a lattice and its unit cell of one element."""
    big, out = supercell(unit), []
    if name != "hcp":
        out += [(key, builders.interstitial(big, key)) for key in builders.DUMBBELLS]
    for key, fractions in HOLES[name].items():
        site = np.asarray(fractions) @ unit["cell"]
        out.append((key, builders.with_atom(big, big["elements"][0], site)))
    least = builders.SPLIT * lattice.nearest_distance(big)
    return [(key, builders.pushed_apart(frame, least)) for key, frame in out]


def _interstitial(job, side, system, which):
    name, unit, energy = cell_of(job, side, system)
    start = dict(interstitials(name, unit))[which]
    found = relaxed_defect(job, side, system, f"interstitial {which}", start)
    n = len(start["elements"])
    return {**found, "formation": found["energy"] - n * energy, "atoms": n, "bulk": n * energy}


def _interstitial_rows(job, system, which):
    group = f"{system.name} {which}"
    (mine, why), (other, other_why) = both(job, system, lambda *words: _interstitial(*words, which))
    if mine is None:
        return [missing("interstitial_energy", group, why)]
    force, energy = force_row(job, system, f"{system.name} interstitial {which}", mine["frame"])
    note = f"{mine['atoms']} atoms"
    if energy is not None:
        _, _, bulk = cell_of(job, job.teacher, system)
        note += f"; teacher on the model's geometry: {energy - mine['atoms'] * bulk:.3f} eV"
    more = {"teacher": other and other["formation"], "teacher_note": other_why, "note": note}
    return [row("interstitial_energy", group, mine["formation"], **more), force]


def interstitial(job):
    systems, rows = _compounds(job, "interstitial_energy")
    for system in systems:
        found, why = attempt(cell_of, job, job.model, system)
        if found is None:
            rows.append(missing("interstitial_energy", system.name, why))
            continue
        for which, _ in interstitials(*found[:2]):
            rows += _interstitial_rows(job, system, which)
    return {"rows": rows, "figures": []}


def _hop(job, system):
    """{positions of the images, energies} of the model for the hop of a neighbor into the vacancy."""
    start = _vacancy(job, job.model, system)["frame"]
    unit, _ = relaxed(job, job.model, system)
    big = supercell(unit)
    site = big["positions"][0]
    away = np.linalg.norm(vectors(site[None], big["positions"][1:], big["cell"])[0], axis=-1)
    k = int(np.argmin(away))
    moved = big["positions"][1:].copy()
    moved[k] += vectors(moved[k][None], site[None], big["cell"])[0, 0]
    end = relaxed_defect(job, job.model, system, "vacancy after a hop", shaken({**start, "positions": moved}))

    def do(evaluate):
        images, energies = neb.path(evaluate, start, end["frame"])
        return {"positions": [f["positions"] for f in images], "energies": energies}

    found = job.static(job.model, system, "hop", do)
    return [{**start, "positions": np.array(x)} for x in found["positions"]], np.array(found["energies"])


def _teacher_on(job, system, images):
    """Energies of the teacher for the model's images."""
    if job.teacher is None:
        raise NotMeasured(job.no_teacher)
    do = lambda evaluate: [label["energy"] for label in evaluate(images)]
    return np.array(job.static(job.teacher, system, "model's hop", do, [structure_key(f) for f in images]))


def migration(job):
    (systems, rows), figures = _compounds(job, "migration_barrier"), []
    for system in systems:
        found, why = attempt(_hop, job, system)
        if found is None:
            rows.append(missing("migration_barrier", system.name, why))
            continue
        images, mine = found
        theirs, other_why = attempt(_teacher_on, job, system, images)
        note = f"{len(images[0]['elements'])} atoms, {len(images)} images of the model's path"
        if abs(mine[-1] - mine[0]) > FALLS:
            note += f"; the path ends {mine[-1] - mine[0]:+.3f} eV from its begin"
        more = {"teacher": None if theirs is None else theirs.max() - theirs[0], "teacher_note": other_why}
        rows.append(row("migration_barrier", system.name, mine.max() - mine[0], note=note, **more))
        x = np.arange(len(images)) / (len(images) - 1)
        curves = [
            {"label": n, "x": x, "y": e - e[0]} for n, e in (("model", mine), ("teacher", theirs)) if e is not None
        ]
        axes = {"x_label": "image / last image", "y_label": "energy - begin (eV)", "dots": True}
        figures.append({"kind": "lines", "title": f"{system.name}: hop into a vacancy", "curves": curves, **axes})
    return {"rows": rows, "figures": figures}
