"""Lattices of a crystal's elements: which one a unit cell is, and the energies of the others."""

import itertools

import numpy as np

from ..train import lattices
from ..train.defects import stacking
from . import lattice
from .crystals import both, relaxed
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

REACH = 2.3  # cube roots of the volume per atom: within it all lattices here differ
SAME = 0.01  # of that length: distances in one lattice
KEPT = 0.1  # the same after a relaxation, in which c/a may change
SPLIT = 2e-3  # eV/atom: lattices that the teacher separates by less have no order
TIE = 1e-4  # eV/atom: those that the model separates by less are equal
METALS = ("fcc", "hcp", "dhcp", "bcc", "sc")
SEMICONDUCTORS = ("diamond", "hexagonal diamond", "beta-tin", "sc", "bcc", "fcc")
COMPOUNDS = ("rocksalt", "cscl", "zincblende")
FAMILIES = {"fcc": METALS, "hcp": METALS, "bcc": METALS, "sc": METALS, "diamond": SEMICONDUCTORS}
FAMILIES |= dict.fromkeys(COMPOUNDS, COMPOUNDS)
BETA_TIN = 0.546  # c/a of white tin


def _stacked(lattice, sequence):
    return lambda volume, element: stacking(lattice, [element], lattices.constant_of(lattice, volume), sequence)


def _beta_tin(volume, element):
    a = (4 * volume / BETA_TIN) ** (1 / 3)
    cell = np.diag([a, a, BETA_TIN * a])
    sites = np.array([(0, 0, 0), (0.5, 0, 0.25), (0.5, 0.5, 0.5), (0, 0.5, 0.75)])
    return {"elements": [element] * len(sites), "positions": sites @ cell, "cell": cell}


OWN = {"dhcp": _stacked("fcc", "ABAC"), "hexagonal diamond": _stacked("diamond", "AB"), "beta-tin": _beta_tin}


def made(name, elements, volume):
    """The unit cell of a lattice with this volume per atom, A^3."""
    if name in OWN:
        return OWN[name](volume, elements[0])
    return lattices.crystal(name, elements, lattices.constant_of(name, volume))


def volume_of(frame):
    """A^3 per atom."""
    return abs(np.linalg.det(frame["cell"])) / len(frame["elements"])


def _neighborhoods(frame):
    """[n atoms] of sorted (other element, distance over the cube root of the volume per atom) within REACH."""
    length = volume_of(frame) ** (1 / 3)
    n = [int(np.ceil(REACH * length / w)) + 1 for w in lattice.widths(frame["cell"])]
    shifts = np.array(list(itertools.product(*[range(-k, k + 1) for k in n]))) @ frame["cell"]
    out, x, names = [], frame["positions"], np.array(frame["elements"])
    for k in range(len(x)):
        d = np.linalg.norm((x - x[k])[:, None] + shifts, axis=-1) / length
        near = (d > 1e-6) & (d < REACH)
        other = np.broadcast_to((names != names[k])[:, None], d.shape)
        out.append(sorted(zip(other[near].tolist(), d[near].tolist())))
    return out


def _matches(a, b, tolerance):
    """Whether two neighborhoods are one, up to atoms at the border of REACH."""
    for kind in (False, True):
        mine, theirs = (np.array([d for other, d in n if other == kind]) for n in (a, b))
        shared = min(len(mine), len(theirs))
        rest = np.concatenate([mine[shared:], theirs[shared:]])
        off = np.abs(mine[:shared] - theirs[:shared]).max(initial=0)
        if off > tolerance or rest.min(initial=REACH) < REACH - 2 * tolerance:
            return False
    return True


def alike(frame, other, tolerance=SAME):
    """Whether each atom of either frame has the neighbors of an atom of the other, up to a change of scale."""
    a, b = _neighborhoods(frame), _neighborhoods(other)
    found = np.array([[_matches(x, y, tolerance) for y in b] for x in a])
    return bool(found.any(0).all() and found.any(1).all())


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
    """{lattice: {energy: eV/atom above the crystal, why}}"""
    own, unit, energy = cell_of(job, side, system)
    elements, volume = sorted(set(unit["elements"])), volume_of(unit)
    out = {}
    for name in FAMILIES[own]:
        if name == own:
            continue
        start = made(name, elements, volume)

        def do(evaluate, start=start):
            frame, label = lattice.relax(evaluate, [start], cell=True)[0]
            kept = alike(frame, start, KEPT)
            return {"energy": label["energy"] / len(start["elements"]) - energy, "kept": kept}

        found, why = attempt(job.static, side, system, f"polymorph {name}", do)
        out[name] = {"why": why} if found is None else found
    return out


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


def measure(job):
    rows = []
    for system in job.of_kind("crystal"):
        (mine, why), (theirs, other_why) = both(job, system, _polymorphs)
        if mine is None:
            rows += [missing(name, system.name, why) for name in ("polymorph_energy", "polymorph_order")]
            continue
        for name, found in mine.items():
            group, other = f"{system.name}: {name}", (theirs or {}).get(name, {})
            if "why" in found:
                rows.append(missing("polymorph_energy", group, found["why"]))
                continue
            more = {"teacher_note": other.get("why") or other_why}
            if "energy" in other:
                more["teacher"] = 1000 * other["energy"]
            lost = [who for who, one in (("model", found), ("teacher", other)) if one.get("kept") is False]
            if lost:
                more["note"] = f"became another lattice: {' and '.join(lost)}"
            rows.append(row("polymorph_energy", group, 1000 * found["energy"], **more))
        own, _, _ = cell_of(job, job.model, system)
        rows.append(_order_row(system, own, mine, theirs, other_why))
    return {"rows": rows, "figures": []}
