"""Planar faults of crystals: along the path of a rigid shift of one half over the other, and twin boundaries.

The shift stays, atoms and the height of the cell relax along the normal, so that points of the path that are no minima
have an energy. docs/certificate.md names the planes."""

import numpy as np

from ..model.units import J_PER_M2
from ..train import defects as builders
from . import lattice
from .crystals import both
from .job import attempt
from .polymorphs import cell_of
from .rows import missing, row

HEIGHT = 20.0  # A, between a fault and its image
TWINS = 12.0  # A, between two twin boundaries
SHIFTS = np.arange(1, 7) / 6  # of the shift 1 of builders.PLANES
# Lattice -> [(words before the name of a row, plane, whether the shift 1 ends in a stacking fault)]
PATHS = {
    "fcc": [("", "111", True)],
    "diamond": [("", "111", True)],
    "zincblende": [("", "111", True)],
    "hcp": [("", "0001", True)],
    "bcc": [("110 ", "110", False), ("112 ", "112", False)],
    "rocksalt": [("110 ", "110", False)],
}
TWINNED = ("fcc", "diamond", "zincblende")


def along_normal(evaluate):
    """An evaluator whose forces and stress along x and y vanish."""

    def do(frames):
        out = []
        for label in evaluate(frames):
            stress = np.zeros((3, 3))
            stress[2, 2] = label["stress"][2][2]
            out.append({**label, "forces": label["forces"] * [0.0, 0.0, 1.0], "stress": stress})
        return out

    return do


def _constant(name, unit):
    lengths = np.linalg.norm(unit["cell"], axis=1)
    return [lengths[0], lengths[2]] if name == "hcp" else float(lengths[0])


def _elements(unit):
    return list(dict.fromkeys(unit["elements"]))


def path(name, unit, plane):
    """Crystals with one fault each, of SHIFTS."""
    given = name, _elements(unit), _constant(name, unit), plane
    layers = int(np.ceil(HEIGHT / builders.sheared(*given, 1, 0.0)["cell"][2, 2]))
    return [builders.sheared(*given, layers, shift) for shift in SHIFTS]


def twins(name, unit):
    """A crystal with two twin boundaries."""
    given = name, _elements(unit), _constant(name, unit)
    height = builders.stacking(*given, "ABC")["cell"][2, 2] / 3
    return builders.twin(*given, int(np.ceil(TWINS / height)))


def highest(energies):
    """The maximum of energies at equal distances, by the parabola through the largest and its neighbors."""
    k = int(np.clip(np.argmax(energies), 1, len(energies) - 2))
    left, top, right = energies[k - 1 : k + 2]
    bend = left + right - 2 * top
    return float(top - (right - left) ** 2 / (8 * bend)) if bend < 0 else float(max(energies))


def _relaxed(evaluate, frames, energy, faults):
    """mJ/m2 of one of `faults` in each frame; energy: of an atom of the crystal."""
    out = []
    for frame, label in lattice.relax(along_normal(evaluate), frames, cell=True):
        excess = label["energy"] - len(frame["elements"]) * energy
        out.append(1000 * J_PER_M2 * excess / (faults * builders.area(frame)))
    return out


def _faults(job, side, system):
    """{name: mJ/m2 or the reason that there is none}, and the paths {plane: energies of 0 and SHIFTS}."""
    name, unit, energy = cell_of(job, side, system)
    found, curves = {}, {}
    for words, plane, stacked in PATHS[name]:
        do = lambda evaluate, plane=plane: _relaxed(evaluate, path(name, unit, plane), energy, 1)
        energies, why = attempt(job.static, side, system, f"fault {plane}", do)
        if energies:
            curves[plane] = [0.0, *energies]
        found[f"{words}unstable"] = highest(curves[plane]) if energies else why
        if stacked:
            found[f"{words}intrinsic"] = energies[-1] if energies else why
    if name in TWINNED:
        do = lambda evaluate: _relaxed(evaluate, [twins(name, unit)], energy, 2)[0]
        value, why = attempt(job.static, side, system, "twin", do)
        found["twin"] = why if value is None else value
    return found, curves


def measure(job):
    rows, figures = [], []
    for system in job.of_kind("crystal"):
        found, _ = attempt(cell_of, job, job.model, system)
        if found and found[0] not in PATHS:
            rows.append(missing("fault_energy", system.name, f"{found[0]} has no common fault", applies=False))
            continue
        (mine, why), (theirs, other_why) = both(job, system, _faults)
        if mine is None:
            rows.append(missing("fault_energy", system.name, why))
            continue
        for name, value in mine[0].items():
            group, other = f"{system.name} {name}", theirs and theirs[0].get(name)
            if isinstance(value, str):
                rows.append(missing("fault_energy", group, value))
                continue
            more = {"teacher": None, "teacher_note": other} if isinstance(other, str) else {"teacher": other}
            rows.append(row("fault_energy", group, value, **{"teacher_note": other_why, **more}))
        for plane, energies in mine[1].items():
            curves = [("model", energies), ("teacher", theirs and theirs[1].get(plane))]
            curves = [{"label": n, "x": [0.0, *SHIFTS], "y": y} for n, y in curves if y]
            axes = {"x_label": "shift / last shift", "y_label": "energy (mJ/m2)", "dots": True}
            figures.append(
                {"kind": "lines", "title": f"{system.name}: shift of a ({plane}) plane", "curves": curves, **axes}
            )
    return {"rows": rows, "figures": figures}
