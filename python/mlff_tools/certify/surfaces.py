"""Surface energies: slabs that the model relaxes, and what the teacher says of the same geometry."""

import numpy as np

from ..model.units import J_PER_M2
from ..train import lattices
from ..train.defects import area as area_of
from . import novel
from .crystals import apart, relaxed
from .defects import force_row, relaxed_defect, shaken
from .job import attempt
from .polymorphs import cell_of
from .rows import missing, row

THICK = 12.0  # A, of a slab
WIDE = 5.0  # A, of its sides
HEXAGONAL = {"0001": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "10-10": [[0, 1, 0], [0, 0, 1], [1, 0, 0]]}


def _cubic(name, elements, constant, miller):
    """A slab with an even number of planes, so that both sides of diamond (111) are alike; None where planes are
    charged: their energy depends on the number of planes."""
    layer = lattices.surface(name, elements, constant, miller, (1, 1, 1))
    if len({layer["elements"].count(e) for e in elements}) > 1:
        return None
    times = [int(np.ceil(WIDE / w - 1e-6)) for w in np.diag(layer["cell"])[:2]]
    planes = 2
    while True:
        slab = lattices.surface(name, elements, constant, miller, (*times, planes))
        if np.ptp(slab["positions"][:, 2]) > THICK:
            return slab
        planes += 2


def slabs(name, unit):
    """[(surface, slab)] of a lattice and its unit cell."""
    if name == "hcp":
        return [(key, novel.slab(unit, axes)) for key, axes in HEXAGONAL.items()]
    elements, constant = list(dict.fromkeys(unit["elements"])), float(unit["cell"][0, 0])
    out = [(miller, _cubic(name, elements, constant, miller)) for miller in lattices.MILLER]
    return [(miller, slab) for miller, slab in out if slab]


def _rows(job, system, miller, start, energy):
    """energy: of an atom of the crystal, by the model."""
    group = f"{system.name} {miller}"
    mine, why = attempt(relaxed_defect, job, job.model, system, f"surface {miller}", shaken(start))
    if mine is None:
        return [missing("surface_energy", group, why)]
    n, area = len(start["elements"]), 2 * area_of(start)  # of both sides
    force, there = force_row(job, system, f"{system.name} surface {miller}", mine["frame"])
    more = {"note": f"{n} atoms", "teacher_note": force.get("note")}
    if there is not None:
        found, bulk_why = attempt(relaxed, job, job.teacher, system)
        if found is None:
            more["teacher_note"] = bulk_why
        else:
            more["teacher"] = J_PER_M2 * (there - n * found[1] / len(system.unit["elements"])) / area
    return [row("surface_energy", group, J_PER_M2 * (mine["energy"] - n * energy) / area, **more), force]


def measure(job):
    rows = []
    for system in job.of_kind("crystal"):
        why = apart(job, system)
        found, why = (None, why) if why else attempt(cell_of, job, job.model, system)
        made = slabs(*found[:2]) if found else []
        if found is None:
            rows.append(missing("surface_energy", system.name, why))
        elif not made:
            why = "all planes of the surfaces are charged"
            rows.append(missing("surface_energy", system.name, why, applies=False))
        for miller, start in made:
            rows += _rows(job, system, miller, start, found[2])
    return {"rows": rows, "figures": []}
