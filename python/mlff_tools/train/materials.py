"""What a structure is: its lattice, its kind of material (kinds.py), and what is known of the elements.

Lattices and constants at room temperature: C. Kittel, Introduction to Solid State Physics, 8th edition, chapter 1,
table 3. Melting points at 1 bar: CRC Handbook of Chemistry and Physics, 97th edition, section 4. Densities of
molecular liquids at 293 to 298 K (boiling point, where that is lower): CRC Handbook, section 3."""

import numpy as np

from ..convert.short_range import RADII
from ..model import reference
from ..model.masses import MASS
from . import lattices
from .dataset import AMU_A3

# symbol: (lattice, constant in A or [a, c], melting point in K)
_FCC = (
    "Ca 5.588 1115 Sr 6.084 1050 Al 4.05 933 Ni 3.524 1728 Cu 3.615 1358 Rh 3.804 2237 Pd 3.891 1828 Ag 4.086 1235 "
    "Ir 3.839 2719 Pt 3.924 2041 Au 4.078 1337 Pb 4.951 601 Yb 5.485 1097 Th 5.084 2023"
)
_BCC = (
    "Li 3.51 454 Na 4.291 371 K 5.321 337 Rb 5.585 312 Cs 6.141 302 Ba 5.023 1000 V 3.024 2183 Cr 2.885 2180 "
    "Fe 2.867 1811 Nb 3.3 2750 Mo 3.147 2896 Ta 3.303 3290 W 3.165 3687 Eu 4.58 1095"
)
_HCP = (
    "Be 2.286 3.584 1560 Mg 3.209 5.211 923 Sc 3.309 5.273 1814 Ti 2.951 4.683 1941 Y 3.648 5.732 1795 "
    "Zr 3.232 5.148 2127 Hf 3.195 5.051 2506 Zn 2.665 4.947 693 Cd 2.979 5.617 594 Co 2.507 4.069 1768 "
    "Tc 2.738 4.393 2430 Ru 2.706 4.282 2606 Re 2.761 4.458 3458 Os 2.734 4.32 3306 Tl 3.456 5.525 577 "
    "Gd 3.634 5.781 1586 Tb 3.606 5.697 1632 Dy 3.592 5.65 1685 Ho 3.578 5.618 1745 Er 3.559 5.585 1802 "
    "Tm 3.538 5.554 1818 Lu 3.505 5.549 1936"
)
_DIAMOND = "Si 5.431 1687 Ge 5.658 1211"
# Compounds: melting points alone
MELTING = {"LiF": 1121, "NaF": 1269, "LiCl": 883, "NaCl": 1074, "KCl": 1044, "KBr": 1007, "CsCl": 918, "MgO": 3098}
MELTING.update({"CaO": 2886, "GaAs": 1511, "GaP": 1730, "InP": 1335, "InAs": 1215, "AlAs": 2013, "SiO2": 1986})
LIQUIDS = {"water": 0.997, "ethanol": 0.785, "methanol": 0.787, "benzene": 0.874, "acetic_acid": 1.044}
LIQUIDS.update({"methylamine": 0.69, "ammonia": 0.68, "hydrogen_sulfide": 0.95})
NOT_METALS = "H He B C N O F Ne Si P S Cl Ar Ge As Se Br Kr Sb Te I Xe At Rn".split()
ORDER = "B Si C Ge Sb As P N H Te Se S At I Br Cl O F".split()  # IUPAC's, of formulas
ORGANIC = "H C N O F P S Cl Br I".split()
ANIONS = "F Cl Br I O".split()
BOND = 1.3  # times the sum of two radii: a bond, at most
# Times the nearest distance, within which lattices are compared: behind a shell that the others do not have
SHELLS = {"sc": 1.57, "bcc": 1.4, "fcc": 1.87, "hcp": 1.82, "diamond": 1.77, "rocksalt": 1.57, "zincblende": 1.77}
SHELLS["cscl"] = 1.4
ALIKE = 0.04  # of a distance: thermal motion is larger, and such a crystal is not recognized


def _table():
    out = {}
    for lattice, text in (("fcc", _FCC), ("bcc", _BCC), ("diamond", _DIAMOND)):
        words = text.split()
        for symbol, a, t in zip(words[::3], words[1::3], words[2::3]):
            out[symbol] = (lattice, float(a), float(t))
    words = _HCP.split()
    for symbol, a, c, t in zip(words[::4], words[1::4], words[2::4], words[3::4]):
        out[symbol] = ("hcp", [float(a), float(c)], float(t))
    return out


ELEMENTS = _table()


def counts(frame):
    """{element: number}, in the order of the frame."""
    return {e: frame["elements"].count(e) for e in dict.fromkeys(frame["elements"])}


def formula(frame):
    """As SiO2, of the smallest unit; metals first, then by electronegativity as in ORDER; with carbon as C2H6O."""
    numbers = counts(frame)
    unit = int(np.gcd.reduce(list(numbers.values()))) if frame["cell"] is not None else 1
    order = sorted(numbers, key=lambda e: (ORDER.index(e) if e in ORDER else -1, e))
    if "C" in numbers and "H" in numbers:
        order = ["C", "H", *sorted(set(numbers) - {"C", "H"})]
    return "".join(f"{e}{numbers[e] // unit if numbers[e] > unit else ''}" for e in order)


def density(frame):
    """g/cm3"""
    return sum(MASS[e] for e in frame["elements"]) / abs(np.linalg.det(frame["cell"])) / AMU_A3


def melting(frame):
    """Melting point in K, or None where it is not in the tables."""
    name = formula(frame)
    return ELEMENTS[name][2] if name in ELEMENTS else MELTING.get(name)


def molecules(frame):
    """Lists of atoms that bonds connect, and whether none of them is connected to its own image."""
    radii = np.array([RADII[e] for e in frame["elements"]])
    i, j, d = reference.neighbours(frame["positions"], frame["cell"], 2 * BOND * radii.max())
    bonded = np.linalg.norm(d, axis=1) < BOND * (radii[i] + radii[j])
    i, j, d = i[bonded], j[bonded], d[bonded]
    places, out, finite = np.full((len(radii), 3), np.nan), [], True
    for first in range(len(radii)):
        if np.isfinite(places[first, 0]):
            continue
        places[first], mine = frame["positions"][first], [first]
        for atom in mine:
            for other, vector in zip(j[i == atom], d[i == atom]):
                there = places[atom] + vector
                if np.isnan(places[other, 0]):
                    places[other] = there
                    mine.append(int(other))
                elif np.abs(places[other] - there).max() > 1e-3:
                    finite = False
        out.append(mine)
    return out, places, finite


def kind(frame):
    """(kind of material, reason in words)"""
    elements = set(frame["elements"])
    if frame["cell"] is None:
        return "molecule", "it has no cell"
    if elements <= set(ORGANIC) and molecules(frame)[2]:
        return "liquid", "it consists of molecules"
    if not elements & set(NOT_METALS):
        return "metal", "all elements are metals"
    if elements & set(ANIONS) and elements - set(NOT_METALS):
        return "ionic", f"it has a metal and {' '.join(e for e in ANIONS if e in elements)}"
    return "semiconductor", f"it has {' '.join(sorted(elements & set(NOT_METALS)))} and is a crystal"


def _environments(frame, reach):
    """For each atom [distances of the atoms of the same element around it, those of the others], sorted."""
    i, j, d = reference.neighbours(frame["positions"], frame["cell"], reach)
    elements, r, out = np.array(frame["elements"]), np.linalg.norm(d, axis=1), []
    for atom, element in enumerate(frame["elements"]):
        mine = i == atom
        same = elements[j[mine]] == element
        out.append([np.sort(r[mine][same]), np.sort(r[mine][~same])])
    return out


def _deviation(frame, lattice, elements, constant):
    """The largest relative difference of the distances around each atom from those of a lattice."""
    unit, worst = lattices.crystal(lattice, elements, constant), 0.0
    nearest = np.linalg.norm(reference.neighbours(unit["positions"], unit["cell"], 1.1 * np.max(constant))[2], axis=1)
    reach = SHELLS[lattice] * nearest.min()
    wanted = dict(zip(unit["elements"], _environments(unit, reach)))
    for element, environment in zip(frame["elements"], _environments(frame, 1.1 * reach)):
        for mine, other in zip(environment, wanted[element]):
            if len(mine) < len(other):
                return np.inf
            worst = max(worst, np.abs(mine[: len(other)] / other - 1).max(initial=0.0))
    return worst


def _constants(lattice, volume):
    """Constants of a lattice with a volume for an atom, A^3; of hcp a few ratios."""
    if lattice != "hcp":
        return [lattices.constant_of(lattice, volume)]
    ratios = np.arange(1.54, 1.92, 0.01)
    sides = (2 * volume / (0.75**0.5 * ratios)) ** (1 / 3)
    return [[float(a), float(a * ratio)] for a, ratio in zip(sides, ratios)]


def lattice_of(frame):
    """(lattice, elements, constant) of a crystal that is one of SHELLS at rest, or None."""
    numbers = counts(frame)
    if len(set(numbers.values())) > 1 or frame["cell"] is None:
        return None
    elements = sorted(numbers, key=lambda e: e in NOT_METALS)
    volume = abs(np.linalg.det(frame["cell"])) / len(frame["elements"])
    matching = [lattice for lattice in SHELLS if len(lattices.LATTICES[lattice]) == len(elements)]
    tried = [(lattice, constant) for lattice in matching for constant in _constants(lattice, volume)]
    found = [_deviation(frame, lattice, elements, constant) for lattice, constant in tried]
    best = int(np.argmin(found))
    if found[best] > ALIKE:
        return None
    lattice, constant = tried[best]
    return lattice, elements, [round(x, 4) for x in constant] if lattice == "hcp" else round(float(constant), 4)
