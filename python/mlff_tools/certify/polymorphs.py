"""Lattices of a crystal's elements: which one a unit cell is, and the energies of the others."""

import itertools

import numpy as np

from ..train import lattices
from ..train.defects import stacking
from . import lattice
from .crystals import both, relaxed
from .job import attempt
from .lattice import KEPT, alike, volume_of
from .rows import missing, row
from .work import Failure, NotMeasured

SPLIT = 2e-3  # eV/atom: lattices that the teacher separates by less have no order
TIE = 1e-4  # eV/atom: those that the model separates by less are equal
METALS = ("fcc", "hcp", "dhcp", "bcc", "sc")
SEMICONDUCTORS = ("diamond", "hexagonal diamond", "beta-tin", "sc", "bcc", "fcc")
COMPOUNDS = ("rocksalt", "cscl", "zincblende")
FAMILIES = {"fcc": METALS, "hcp": METALS, "bcc": METALS, "sc": METALS, "diamond": SEMICONDUCTORS}
FAMILIES |= dict.fromkeys(COMPOUNDS, COMPOUNDS)


def _stacked(lattice, sequence):
    return lambda volume, element: stacking(lattice, [element], lattices.constant_of(lattice, volume), sequence)


OWN = {"dhcp": _stacked("fcc", "ABAC"), "hexagonal diamond": _stacked("diamond", "AB")}


def made(name, elements, volume):
    """The unit cell of a lattice with this volume per atom, A^3."""
    if name in OWN:
        return OWN[name](volume, elements[0])
    return lattices.crystal(name, elements, lattices.constant_of(name, volume))


def recognized(frame):
    """(lattice, its unit cell [as lattices.crystal has it] with the frame's volume) of a crystal; NotMeasured for
    others. hcp keeps its c/a only if the frame is its cell of two atoms."""
    elements = sorted(set(frame["elements"]))
    if len({frame["elements"].count(e) for e in elements}) > 1:
        raise NotMeasured("the lattice is not recognized: it has not as many atoms of each element")
    for name in FAMILIES:
        if len(lattices.LATTICES[name]) != len(elements):
            continue
        unit = made(name, elements, volume_of(frame))
        if name == "hcp" and len(frame["elements"]) == 2:
            unit = lattices.crystal(name, elements, np.linalg.norm(frame["cell"], axis=1)[[0, 2]])
        if alike(frame, unit):
            return name, unit
    raise NotMeasured("the lattice is not recognized: there are " + ", ".join(FAMILIES))


def cell_of(job, side, system):
    """(lattice, unit cell relaxed by the side, energy per atom) of a crystal."""
    frame, energy = relaxed(job, side, system)
    name, unit = recognized(frame)
    return name, unit, energy / len(frame["elements"])


def _polymorphs(job, side, system):
    """{lattice: {energy: eV/atom above the crystal, frame, kept: whether it stayed this lattice} or {why}}"""
    own, unit, energy = cell_of(job, side, system)
    elements, volume = sorted(set(unit["elements"])), volume_of(unit)
    out = {}
    for name in FAMILIES[own]:
        if name == own:
            continue
        start = made(name, elements, volume)

        def do(evaluate, start=start):
            frame, label = lattice.relax(evaluate, [start], cell=True)[0]
            return {"energy": label["energy"], "positions": frame["positions"], "cell": frame["cell"]}

        found, why = attempt(job.static, side, system, f"lattice {name}", do)
        if found is None:
            out[name] = {"why": why}
            continue
        frame = {**start, "positions": np.array(found["positions"]), "cell": np.array(found["cell"])}
        above = found["energy"] / len(start["elements"]) - energy
        out[name] = {"energy": above, "frame": frame, "kept": alike(frame, start, KEPT)}
    return out


def _apart(mine, other):
    """(why two relaxed lattices have no energies to compare or None, whether bars apply)"""
    if other.get("kept") is False:
        return "the teacher's became another lattice: there is nothing to compare", False
    if "why" in mine:
        return mine["why"], True
    if "energy" in other and not alike(mine["frame"], other["frame"], KEPT):
        return Failure("became another lattice, which the teacher's does not"), True
    if "energy" not in other and not mine["kept"]:
        return "became another lattice", True
    return None, True


def order(mine, theirs):
    """(same or different, words) of the order of lattices by energies {lattice: eV/atom}; pairs that the teacher
    separates by less than SPLIT do not count."""
    wrong = []
    for a, b in itertools.combinations(sorted(theirs, key=theirs.get), 2):
        if theirs[b] - theirs[a] >= SPLIT and mine[b] - mine[a] < TIE:
            wrong.append(f"{b} is not above {a}")
    line = lambda energies: " < ".join(sorted(energies, key=energies.get))
    return ("different" if wrong else "same"), "; ".join([*wrong, f"teacher: {line(theirs)}"])


def _order_row(system, own, mine, theirs, why):
    if theirs is None:
        return missing("polymorph_order", system.name, why)
    shared = [name for name in theirs if "energy" in theirs[name] and "energy" in mine.get(name, {})]
    pick = lambda found: {own: 0.0, **{name: found[name]["energy"] for name in shared}}
    if not shared:
        return missing("polymorph_order", system.name, "no other lattice has an energy of both sides")
    word, note = order(pick(mine), pick(theirs))
    lost = [f"{name}: {found['why']}" for side in (mine, theirs) for name, found in side.items() if "why" in found]
    if lost and word == "same":
        return missing("polymorph_order", system.name, lost[0])
    return row("polymorph_order", system.name, word, teacher="same", note=note)


def _rows(system, own, mine, theirs, other_why):
    """Energies of the lattices, then their order."""
    rows, lost = [], [name for name, other in (theirs or {}).items() if other.get("kept") is False]
    failed = None
    for name, found in mine.items():
        group, other = f"{system.name}: {name}", (theirs or {}).get(name, {})
        why, applies = _apart(found, other)
        if why:
            rows.append(missing("polymorph_energy", group, why, applies=applies))
            failed = failed or (Failure(f"{name}: {why}") if isinstance(why, Failure) else None)
            continue
        more = {"teacher_note": other.get("why") or other_why}
        if "energy" in other:
            more["teacher"] = 1000 * other["energy"]
        rows.append(row("polymorph_energy", group, 1000 * found["energy"], **more))
    if failed:
        return [*rows, missing("polymorph_order", system.name, failed)]
    if theirs and len(lost) == len(theirs):
        why = "the teacher keeps none of the other lattices"
        return [*rows, missing("polymorph_order", system.name, why, applies=False)]
    pick = lambda found: found and {name: one for name, one in found.items() if name not in lost}
    return [*rows, _order_row(system, own, pick(mine), pick(theirs), other_why)]


def measure(job):
    rows = []
    for system in job.of_kind("crystal"):
        (mine, why), (theirs, other_why) = both(job, system, _polymorphs)
        if mine is None:
            rows += [missing(name, system.name, why) for name in ("polymorph_energy", "polymorph_order")]
            continue
        own, _, _ = cell_of(job, job.model, system)
        rows += _rows(system, own, mine, theirs, other_why)
    return {"rows": rows, "figures": []}
