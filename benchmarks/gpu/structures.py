"""Boxes of water for the GPU benchmark: the equilibrated ones of benchmarks/decks, repeated along the edges, so that
distances and numbers of neighbours are those of dynamics; and silicon, whose atoms are moved off their places."""

import os

import steps

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DECKS = os.path.join(ROOT, "benchmarks", "decks")
FACES = ((0.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.5, 0.5, 0.0))  # of a cubic cell
SMALLEST = 24  # atoms: 8 molecules that are cut out of the box of 21 keep no density, so these stand on a lattice
GEOMETRY = ((0.0, 0.0, 0.0), (0.96, 0.0, 0.0), (-0.24, 0.93, 0.0))  # O, H, H; A


def read_box(name):
    """(length of the edge in A, [(element, x, y, z)]) of a data file of the decks."""
    with open(os.path.join(DECKS, name), encoding="utf-8") as f:
        lines = f.read().splitlines()
    length = next(float(line.split()[1]) for line in lines if line.endswith("xlo xhi"))
    begin = next(k for k, line in enumerate(lines) if line.startswith("Atoms")) + 2
    atoms = []
    for line in lines[begin:]:
        words = line.split()
        if not words:
            break
        atoms.append(("HO"[int(words[1]) - 1], *(float(x) for x in words[2:5])))
    return length, atoms


def lattice():
    """8 molecules, alike and turned by the axes, at 0.1 atoms per A^3."""
    edge, atoms = 3.104, []
    for n in range(8):
        at = [(n >> k & 1) * edge + 0.5 * edge for k in range(3)]
        for name, r in zip("OHH", GEOMETRY):
            turned = r[n % 3 :] + r[: n % 3]
            atoms.append((name, *(a + (-1) ** (n >> 1) * b for a, b in zip(at, turned))))
    return 2 * edge, atoms


def silicon(n_atoms):
    """A cube of diamond cells, one after another: 8 n^3 atoms, each within 0.1 A of its place."""
    n, edge, random_number = round((n_atoms / 8) ** (1 / 3)), 5.469, 1
    if 8 * n**3 != n_atoms:
        raise ValueError(f"{n_atoms} atoms are no cube of cells of 8")
    cell = [(0.25 * q + x, 0.25 * q + y, 0.25 * q + z) for q in (0, 1) for x, y, z in FACES]
    atoms = []
    for place in range(n**3):
        corner = (place // n**2, place // n % n, place % n)
        for inside in cell:
            at = []
            for c in range(3):
                random_number = random_number * 1103515245 + 12345 & 0x7FFFFFFF
                at.append(edge * (corner[c] + inside[c]) + 0.2 * (random_number / 0x7FFFFFFF - 0.5))
            atoms.append(("Si", *at))
    return n * edge, atoms


def write(path, n_atoms, material):
    """Extended XYZ of so many atoms: of water SMALLEST, or what steps.box has."""
    if material == "silicon":
        (length, atoms), copies = silicon(n_atoms), (1, 1, 1)
    elif n_atoms == SMALLEST:
        (length, atoms), copies = lattice(), (1, 1, 1)
    else:
        name, copies = steps.box(n_atoms)
        length, atoms = read_box(name)
    a, b, c = (n * length for n in copies)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(f'{n_atoms}\nLattice="{a} 0 0 0 {b} 0 0 0 {c}" pbc="T T T" Properties=species:S:1:pos:R:3\n')
        for i in range(copies[0]):
            for j in range(copies[1]):
                for k in range(copies[2]):
                    dx, dy, dz = i * length, j * length, k * length
                    f.write("".join(f"{e} {x + dx:.6f} {y + dy:.6f} {z + dz:.6f}\n" for e, x, y, z in atoms))
    os.replace(path + ".new", path)


def path_of(folder, n_atoms, material="water"):
    """The file of this size, which is written when it is first asked for."""
    path = os.path.join(folder, f"{material}{n_atoms}.xyz")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        write(path, n_atoms, material)
    return path
