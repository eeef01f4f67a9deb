"""Structures: small molecules and boxes for self-tests and starting points, and reading of extended XYZ files.

A structure is a dict: name, elements [N] symbols, positions [N, 3] in A, cell None or [3, 3] in A (rows are the
vectors; all three directions are periodic then).
"""

import re

import numpy as np

from .files import write_input
from .masses import MASS
from .modelfile import NUMBERS, ModelError

AVOGADRO_A3 = 0.602214076  # (mol/cm3) in molecules/A3


def _tetrahedron(length):
    """Four positions at `length` A from the origin in tetrahedral directions."""
    return length / np.sqrt(3.0) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)


def _water():
    half, bond = np.radians(104.52 / 2), 0.9572
    return ["O", "H", "H"], bond * np.array(
        [[0, 0, 0], [np.sin(half), 0, np.cos(half)], [-np.sin(half), 0, np.cos(half)]]
    )


def _benzene():
    angle = np.arange(6) * np.pi / 3
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    return ["C"] * 6 + ["H"] * 6, np.concatenate([1.394 * ring, 2.480 * ring])


def _ethanol():
    return ["C", "C", "O", "H", "H", "H", "H", "H", "H"], np.array(
        [
            [1.1879, -0.3829, 0.0],
            [0.0, 0.5526, 0.0],
            [-1.1867, -0.2472, 0.0],
            [-1.9237, 0.3850, 0.0],
            [2.0985, 0.2306, 0.0],
            [1.1184, -1.0093, 0.8869],
            [1.1184, -1.0093, -0.8869],
            [-0.0227, 1.1812, 0.8852],
            [-0.0227, 1.1812, -0.8852],
        ]
    )


def _from_internal(rows):
    """Elements and positions of rows (element, bonded to, length A, angle with, degrees, dihedral with, degrees), whose
    numbers are those of earlier rows. The first three rows have fewer entries."""
    x = np.zeros((len(rows), 3))
    for k, (_, *inner) in enumerate(rows[1:], 1):
        bonded, length = inner[:2]
        angle = np.radians(inner[3]) if k > 1 else np.pi
        axis, side = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
        if k > 1:
            axis = (x[bonded] - x[inner[2]]) / np.linalg.norm(x[bonded] - x[inner[2]])
        if k > 2:
            turn, back = np.radians(inner[5]), x[inner[2]] - x[inner[4]]
            normal = np.cross(back, axis) / np.linalg.norm(np.cross(back, axis))
            side = np.cos(turn) * np.cross(normal, axis) + np.sin(turn) * normal
        x[k] = x[bonded] + length * (-np.cos(angle) * axis + np.sin(angle) * side)
    return [row[0] for row in rows], x


def _methanol():
    rows = [("O",), ("C", 0, 1.421), ("H", 0, 0.963, 1, 108.0), ("H", 1, 1.090, 0, 107.0, 2, 180.0)]
    return _from_internal([*rows, *(("H", 1, 1.095, 0, 111.9, 2, turn) for turn in (61.5, -61.5))])


def _methylamine():
    rows = [("N",), ("C", 0, 1.471), ("H", 0, 1.010, 1, 110.3), ("H", 0, 1.010, 1, 110.3, 2, 118.6)]
    return _from_internal([*rows, *(("H", 1, 1.093, 0, 110.3, 2, turn) for turn in (59.3, 179.3, -60.7))])


def _acetic_acid():
    """The conformer whose hydrogen of OH is on the side of the other oxygen."""
    rows = [("C",), ("C", 0, 1.507), ("O", 0, 1.208, 1, 125.8), ("O", 0, 1.358, 1, 111.5, 2, 180.0)]
    rows += [("H", 3, 0.970, 0, 106.0, 2, 0.0)]
    return _from_internal([*rows, *(("H", 1, 1.090, 0, 109.6, 2, turn) for turn in (0.0, 120.5, -120.5))])


def _methane_like(centre, outer, length):
    return [centre] + outer, np.concatenate(
        [np.zeros((1, 3)), _tetrahedron(1.0)[: len(outer)] * np.array(length)[:, None]]
    )


MOLECULES = {
    "water": _water,
    "benzene": _benzene,
    "ethanol": _ethanol,
    "methanol": _methanol,
    "acetic_acid": _acetic_acid,
    "methylamine": _methylamine,
    "ammonia": lambda: _methane_like("N", ["H"] * 3, [1.012] * 3),
    "hydrogen_sulfide": lambda: _methane_like("S", ["H"] * 2, [1.336] * 2),
    "fluorochloromethane": lambda: _methane_like("C", ["F", "Cl", "H", "H"], [1.36, 1.76, 1.09, 1.09]),
}


def molecule(name):
    """Elements and positions [N, 3] (A) of a molecule of MOLECULES, near its equilibrium."""
    return MOLECULES[name]()


def random_rotation(rng):
    """A uniformly distributed rotation matrix."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else -q


def molecule_box(name, n_molecules, density, seed):
    """n_molecules of `name`, randomly turned, on a cubic lattice in a cubic box of `density` g/cm3."""
    rng = np.random.default_rng(seed)
    elements, unit = molecule(name)
    unit = unit - unit.mean(0)
    mass = sum(MASS[e] for e in elements)
    edge = (n_molecules * mass / (density * AVOGADRO_A3)) ** (1 / 3)
    side = int(np.ceil(n_molecules ** (1 / 3) - 1e-9))
    sites = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    sites = sites[np.sort(rng.permutation(len(sites))[:n_molecules])] * (edge / side)
    positions = np.concatenate([unit @ random_rotation(rng).T + s for s in sites])
    return {
        "name": f"{name}{n_molecules}",
        "elements": elements * n_molecules,
        "positions": positions,
        "cell": np.eye(3) * edge,
    }


def rattled(name, seed, amplitude=0.05):
    """A molecule with every coordinate moved by a normal deviate of `amplitude` A, so that no force vanishes by
    symmetry."""
    elements, positions = molecule(name)
    rng = np.random.default_rng(seed)
    return {
        "name": name,
        "elements": elements,
        "positions": positions + amplitude * rng.normal(size=positions.shape),
        "cell": None,
    }


def _mix7():
    """One molecule of each kind, 4.2 A apart on a square: all seven elements of ANI-2x."""
    elements, positions = [], []
    for k, name in enumerate(["water", "ammonia", "hydrogen_sulfide", "fluorochloromethane"]):
        s = rattled(name, 11 + k)
        elements += s["elements"]
        positions.append(s["positions"] + 4.2 * np.array([k % 2, k // 2, 0.0]))
    return {"name": "seven elements", "elements": elements, "positions": np.concatenate(positions), "cell": None}


def _triclinic(name, cell, seed):
    """One molecule in a triclinic cell smaller than the cutoffs: its own images are its neighbors."""
    s = rattled(name, seed)
    s.update(name=name + " in a triclinic cell", cell=np.array(cell, float))
    return s


def self_test_structures(elements):
    """Structures of at most 24 atoms for a self-test, those made of `elements` only; positions rounded to 1e-6 A."""
    box = molecule_box("water", 8, 0.95, 3)
    box.update(name="8 waters, periodic")
    water = _triclinic("water", [[4.4, 0, 0], [0.5, 4.1, 0], [-0.3, 0.6, 4.0]], 6)
    candidates = [
        rattled("water", 1),
        box,
        water,
        rattled("benzene", 2),
        rattled("ethanol", 4),
        _triclinic("ethanol", [[6.1, 0, 0], [0.7, 5.4, 0], [-0.4, 0.9, 5.2]], 5),
        _mix7(),
    ]
    chosen = [s for s in candidates if set(s["elements"]) <= set(elements)]
    for s in chosen:
        s["positions"] = np.round(s["positions"], 6)
        s["cell"] = None if s["cell"] is None else np.round(s["cell"], 6)
    return chosen


def _crystal(name, elements, cell, fractions, seed):
    """A cell whose atoms were moved by about 0.1 A each; positions and cell rounded to 1e-6 A."""
    cell = np.array(cell, float)
    x = np.array(fractions, float) @ cell + 0.06 * np.random.default_rng(seed).normal(size=(len(elements), 3))
    return {"name": name, "elements": elements, "positions": np.round(x, 6), "cell": np.round(cell, 6)}


def small_structures(elements):
    """Structures of two or three atoms, at most 130 edges at a cutoff of 6 A, for self-tests of models of materials.

    Those made of `elements` only. None has a symmetry, so that no component of a force or of the virial vanishes."""
    fcc, shear = (
        np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        np.eye(3) + [[0.02, 0.05, -0.03], [0, -0.01, 0.04], [0, 0, 0.01]],
    )
    candidates = [
        rattled("water", 1),
        _triclinic("water", [[4.4, 0, 0], [0.5, 4.1, 0], [-0.3, 0.6, 4.0]], 6),
        _crystal("silicon", ["Si", "Si"], 2.73 * fcc, [[0, 0, 0], [0.25, 0.25, 0.25]], 1),
        _crystal("rock salt, sheared", ["Na", "Cl"], 2.82 * fcc @ shear, [[0, 0, 0], [0.5, 0.5, 0.5]], 2),
        _crystal("iron", ["Fe", "Fe"], 2.85 * np.eye(3), [[0, 0, 0], [0.5, 0.5, 0.5]], 3),
    ]
    chosen = [s for s in candidates if set(s["elements"]) <= set(elements)]
    for s in chosen:
        s["positions"] = np.round(s["positions"], 6)
    return chosen


def read_xyz(path):
    """All frames of an (extended) XYZ file: species and positions in the first four columns, Lattice="..." if
    periodic."""
    frames = []
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}") from e
    k = 0
    while k < len(lines) and lines[k].strip():
        try:
            n = int(lines[k])
            rows = [line.split() for line in lines[k + 2 : k + 2 + n]]
            elements = [row[0] for row in rows]
            positions = np.array([[float(x) for x in row[1:4]] for row in rows])
            if len(rows) != n or positions.shape != (n, 3) or any(e not in NUMBERS for e in elements):
                raise ValueError
        except (ValueError, IndexError) as e:
            raise ModelError(f"{path}:{k + 1}: not an XYZ frame (atom count, comment, then symbol x y z)") from e
        comment = lines[k + 1]
        lattice = re.search(r'Lattice="([^"]*)"', comment)
        properties = re.search(r"Properties=(\S+)", comment)
        if properties and not properties[1].startswith("species:S:1:pos:R:3"):
            raise ModelError(f"{path}:{k + 2}: Properties must begin with species:S:1:pos:R:3")
        cell = None
        if lattice:
            cell = np.array([float(x) for x in lattice[1].split()]).reshape(3, 3)
            pbc = re.search(r'pbc="([^"]*)"', comment)
            if pbc and set(pbc[1].split()) - {"T", "1", "True"}:
                raise ModelError(
                    f'{path}:{k + 2}: pbc="{pbc[1]}": a structure is periodic in all directions or in none'
                )
        frames.append({"name": f"{path}:{len(frames)}", "elements": elements, "positions": positions, "cell": cell})
        k += n + 2
    if not frames:
        raise ModelError(f"{path}: holds no frame")
    return frames


def write_xyz(path, structures):
    """Extended XYZ with 17 significant digits: positions come back bit for bit."""
    lines = []
    for s in structures:
        comment = f'Properties=species:S:1:pos:R:3 pbc="{"F F F" if s["cell"] is None else "T T T"}"'
        if s["cell"] is not None:
            comment = 'Lattice="' + " ".join(repr(float(x)) for x in np.ravel(s["cell"])) + '" ' + comment
        lines += [str(len(s["elements"])), comment]
        lines += [e + " " + " ".join(repr(float(x)) for x in p) for e, p in zip(s["elements"], s["positions"])]
    write_input(path, "\n".join(lines) + "\n")
