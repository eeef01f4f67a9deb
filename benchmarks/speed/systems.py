"""Systems and decks of the speed comparison: liquid water, and the metals that LAMMPS' own potentials describe."""

import json
import os

import numpy as np

from mlff_tools.model.lammps import LammpsError, quoted

from . import runs

# 64 molecules in a cube of this edge: the density of the published reference box, 1.0 g/cm3.
EDGE_64 = 12.42
MASSES = {"H": 1.008, "O": 15.999}

# A flexible three-site water (charges and Lennard-Jones of SPC/Fw, with the bond and angle of the ANI-2x molecule).
# It only prepares liquid structures; nothing is timed with it.
EQUILIBRATION = """\
units real
atom_style full
read_data {data}
pair_style lj/cut/coul/dsf 0.2 6.0
pair_coeff * * 0.0 1.0
pair_coeff 1 1 0.1554253 3.165492
bond_style harmonic
bond_coeff 1 529.581 0.967
angle_style harmonic
angle_coeff 1 37.95 105.0
special_bonds lj/coul 0.0 0.0 0.0
neighbor 1.5 bin
minimize 0.0 1.0e-3 200 2000
velocity all create 300.0 4711 mom yes rot no dist gaussian
fix 1 all nve
fix 2 all langevin 300.0 300.0 200.0 815
timestep 0.5
thermo 1000
run {steps}
write_dump all custom {out} id type x y z vx vy vz modify sort id format float %.10g
"""


def _random_rotation(rng):
    q = rng.normal(size=4)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _write_full_data(path, n, edge, seed):
    """n^3 molecules on a lattice, turned at random, as atom_style full."""
    rng, spacing = np.random.default_rng(seed), edge / n
    molecule = np.array([[0.0, 0.0, 0.0], [0.7675, 0.589, 0.0], [-0.7675, 0.589, 0.0]])
    count = n**3
    lines = [
        "water",
        "",
        f"{3 * count} atoms",
        f"{2 * count} bonds",
        f"{count} angles",
        "2 atom types",
        "1 bond types",
        "1 angle types",
        "",
    ] + [f"0 {edge:.6f} {c}lo {c}hi" for c in "xyz"]
    lines += ["", "Masses", "", f"1 {MASSES['O']}", f"2 {MASSES['H']}", "", "Atoms # full", ""]
    for m in range(count):
        centre = (np.array([m // (n * n), m // n % n, m % n]) + 0.5) * spacing
        for k, p in enumerate(molecule @ _random_rotation(rng).T + centre):
            kind, charge = (1, -0.82) if k == 0 else (2, 0.41)
            lines.append(f"{3 * m + k + 1} {m + 1} {kind} {charge} {p[0]:.8f} {p[1]:.8f} {p[2]:.8f}")
    lines += ["", "Bonds", ""]
    for m in range(count):
        lines += [f"{2 * m + k} 1 {3 * m + 1} {3 * m + 1 + k}" for k in (1, 2)]
    lines += ["", "Angles", ""] + [f"{m + 1} 1 {3 * m + 2} {3 * m + 1} {3 * m + 3}" for m in range(count)]
    with open(path, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


def write_data(path, kinds, positions, cell, velocities=None):
    """LAMMPS data file, atom_style atomic, metal units, orthogonal cell; types 1 = O, 2 = H."""
    cell = np.asarray(cell)
    if not np.allclose(cell, np.diag(np.diag(cell))):
        raise ValueError(f"{path}: the cell is not orthogonal")
    lines = ["water", "", f"{len(kinds)} atoms", "2 atom types", ""]
    lines += [f"0 {cell[k, k]:.15g} {c}lo {c}hi" for k, c in enumerate("xyz")]
    lines += ["", "Masses", "", f"1 {MASSES['O']}", f"2 {MASSES['H']}", "", "Atoms # atomic", ""]
    for i, (kind, p) in enumerate(zip(kinds, np.asarray(positions))):
        lines.append(f"{i + 1} {kind} {p[0]:.15g} {p[1]:.15g} {p[2]:.15g}")
    if velocities is not None:
        lines += ["", "Velocities", ""]
        lines += [f"{i + 1} {v[0]:.10g} {v[1]:.10g} {v[2]:.10g}" for i, v in enumerate(np.asarray(velocities))]
    with open(path, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


def water(work, lmp, n, core, steps=6000):
    """Data file of n^3 water molecules at 300 K and 1 g/cm3, made once and kept in the folder `work`."""
    path = os.path.join(work, f"water-{3 * n**3}.data")
    if os.path.exists(path):
        return path
    edge = EDGE_64 * n / 4
    start, deck, dump = (os.path.join(work, f"prepare-{n}.{end}") for end in ("data", "in", "dump"))
    _write_full_data(start, n, edge, seed=20 + n)
    with open(deck, "w", encoding="ascii") as out:
        out.write(EQUILIBRATION.format(data=start, out=dump, steps=steps))
    runs.run(lmp, deck, [core])
    with open(dump, encoding="ascii") as lines:
        table = np.array(
            [line.split() for line in lines.read().split("vx vy vz")[1].splitlines() if line.strip()], dtype=float
        )
    if not np.array_equal(table[:, 0], np.arange(1, 3 * n**3 + 1)):
        raise LammpsError(f"{dump}: atoms were lost while the liquid was prepared")
    temporary = path + ".part"
    # velocities: A/fs of real units to A/ps of metal units
    write_data(temporary, table[:, 1].astype(int), table[:, 2:5], np.diag([edge] * 3), 1000.0 * table[:, 5:8])
    os.replace(temporary, path)
    return path


def reference_water(shared):
    """The published 64-molecule structure with its ANI-2x energy and forces, as a dictionary."""
    with open(os.path.join(shared, "models", "ani2x_reference.json"), encoding="utf-8") as file:
        return json.load(file)["structures"]["water64"]


def nequix_reference(shared, name):
    """A structure of the reference values of Nequix, in the form of reference_water."""
    with open(os.path.join(shared, "models", "nequix_reference.json"), encoding="utf-8") as file:
        return json.load(file)["structures"][name]


def rattled_silicon(cells=(2, 2, 2), seed=3):
    """Diamond cubic silicon of so many cubic cells, 8 atoms each, rattled by 0.05 A, in the form of reference_water."""
    unit = np.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0], [1, 1, 1], [1, 3, 3], [3, 1, 3], [3, 3, 1]]) * 5.43 / 4
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in cells], indexing="ij"), -1).reshape(-1, 3) * 5.43
    x = (unit[None] + grid[:, None]).reshape(-1, 3)
    x = x + 0.05 * np.random.default_rng(seed).normal(size=x.shape)
    return {"numbers": [14] * len(x), "positions": x.tolist(), "cell": np.diag(5.43 * np.array(cells)).tolist()}


def write_elements(path, structure):
    """LAMMPS data file of a structure of H, O and Si in metal units; (elements of the types, their masses)."""
    symbols, masses = {1: "H", 8: "O", 14: "Si"}, {"H": 1.008, "O": 15.999, "Si": 28.085}
    present = sorted(set(structure["numbers"]))
    types = [symbols[z] for z in present]
    lines = ["structure", "", f"{len(structure['numbers'])} atoms", f"{len(types)} atom types", ""]
    lines += [f"0 {structure['cell'][k][k]:.15g} {c}lo {c}hi" for k, c in enumerate("xyz")]
    lines += ["", "Masses", ""] + [f"{k + 1} {masses[e]}" for k, e in enumerate(types)] + ["", "Atoms # atomic", ""]
    for i, (z, p) in enumerate(zip(structure["numbers"], structure["positions"])):
        lines.append(f"{i + 1} {present.index(z) + 1} {p[0]:.15g} {p[1]:.15g} {p[2]:.15g}")
    with open(path, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")
    return types, [masses[e] for e in types]


def water_deck(data, pair, real=True, velocities=True):
    """NVE of the water in `data`.

    real: a trained potential at a time step of 0.5 fs, neighbor lists rebuilt when an atom has moved half the skin.
    Otherwise, for networks with random weights, whose forces mean nothing: the atoms stay where they are (a time step
    of 1e-9 ps) and the list is rebuilt every 20 steps all the same.
    """
    lines = ["units metal", "atom_style atomic", f"read_data {data}"]
    if not velocities:
        lines.append("velocity all create 300.0 4711 mom yes rot no dist gaussian")
    lines += pair + ["neighbor 1.0 bin"]
    lines.append("neigh_modify every 1 delay 0 check yes" if real else "neigh_modify every 20 delay 0 check no")
    lines += [f"timestep {0.0005 if real else 1.0e-9}", "fix 1 all nve", "thermo 1000000000"]
    return lines


def crystal_deck(lattice, size, masses, basis, pair):
    """NVE of a crystal at 300 K."""
    lines = [
        "units metal",
        "atom_style atomic",
        f"lattice {lattice}",
        f"region box block 0 {size} 0 {size} 0 {size}",
        f"create_box {len(masses)} box",
        f"create_atoms 1 box {basis}".rstrip(),
    ]
    lines += [f"mass {k + 1} {m}" for k, m in enumerate(masses)]
    lines += ["velocity all create 300.0 4711 mom yes rot no dist gaussian"] + pair
    lines += [
        "neighbor 1.0 bin",
        "neigh_modify every 1 delay 0 check yes",
        "timestep 0.0005",
        "fix 1 all nve",
        "thermo 1000000000",
    ]
    return lines


def tantalum_pod(potentials, size):
    """128 (size 4) or 686 (size 7) atoms of tantalum with LAMMPS' POD potential."""
    files = [os.path.join(potentials, name) for name in ("Ta_param.pod", "Ta_coeff.pod")]
    return crystal_deck(
        "bcc 3.316", size, [180.88], "", ["pair_style pod", f"pair_coeff * * {files[0]} {files[1]} Ta"]
    ), files


def tantalum_snap(potentials, size):
    """The same with SNAP (twojmax 8), as the file Ta06A.snap of LAMMPS sets it up."""
    files = [os.path.join(potentials, name) for name in ("Ta06A.snapcoeff", "Ta06A.snapparam")]
    return crystal_deck(
        "bcc 3.316",
        size,
        [180.88],
        "",
        [
            "pair_style hybrid/overlay zbl 4.0 4.8 snap",
            "pair_coeff 1 1 zbl 73 73",
            f"pair_coeff * * snap {files[0]} {files[1]} Ta",
        ],
    ), files


def lead_telluride_nep(plugin, model, size):
    """216 atoms (size 3) of PbTe with a NEP potential, from a plugin that the user has built."""
    basis = " ".join(f"basis {k} {1 if k <= 4 else 2}" for k in range(1, 9))
    rock_salt = (
        "custom 6.46 a1 1 0 0 a2 0 1 0 a3 0 0 1 basis 0 0 0 basis 0 0.5 0.5 basis 0.5 0 0.5 basis 0.5 0.5 0 "
        "basis 0.5 0.5 0.5 basis 0.5 0 0 basis 0 0.5 0 basis 0 0 0.5"
    )
    return crystal_deck(
        rock_salt,
        size,
        [207.2, 127.6],
        basis,
        [f"plugin load {quoted(plugin)}", "pair_style nep", f"pair_coeff * * {quoted(model)} Pb Te"],
    ), [plugin, model]
