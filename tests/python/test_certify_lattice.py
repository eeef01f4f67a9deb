"""Crystals of certificates: relaxation, equation of state, elastic constants and phonons, against analytic answers and
the published ones of Stillinger-Weber silicon."""

import helpers
import numpy as np
import pytest
from test_certify_defects import certified

from mlff_tools.certify import crystals, defects, lattice, polymorphs, rows, thermal, vibrations, work
from mlff_tools.model import lammps
from mlff_tools.model.masses import MASS
from mlff_tools.train import lattices
from mlff_tools.train.teacher_lammps import LammpsTeacher

K, A = 1.7, 4.0  # eV/A^2, and the lattice constant whose neighbors are at the springs' length


def springs(frames):
    """Springs between nearest neighbors of an fcc crystal of constant A."""
    out, r0 = [], A / np.sqrt(2)
    for f in frames:
        x, cell = f["positions"], f["cell"]
        shifts = np.array([(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]) @ cell
        d = x[None, :, None] - x[:, None, None] + shifts
        r = np.linalg.norm(d, axis=-1)
        bond = (r > 0.5 * r0) & (r < 1.2 * r0)
        safe = np.where(bond, r, 1.0)
        pull = np.where(bond, K * (safe - r0) / safe, 0.0)
        forces = (pull[..., None] * d).sum((1, 2))
        stress = 0.5 * np.einsum("ijs,ijsa,ijsb->ab", pull, d, d) / abs(np.linalg.det(cell))
        energy = 0.25 * K * float((np.where(bond, r - r0, 0.0) ** 2).sum())
        out.append({"energy": energy, "forces": forces, "stress": stress, "atom_energies": None})
    return out


def fcc(constant):
    return lattices.crystal("fcc", ["Al"], constant, (2, 2, 2))


def test_relaxes_cell_and_atoms():
    f = fcc(A)
    rng = np.random.default_rng(1)
    strain = 0.02 * rng.normal(size=(3, 3))
    bent = lattice.strained(f, (strain + strain.T) / 2)
    bent["positions"] = bent["positions"] + 0.05 * rng.normal(size=bent["positions"].shape)
    (found, label), (again, _) = lattice.relax(springs, [bent, fcc(1.02 * A)], cell=True)
    helpers.assert_near(label["energy"], 0.0, 1e-6, "energy")
    helpers.assert_near(np.linalg.norm(found["cell"], axis=1), np.full(3, 2 * A), 1e-4, "lengths")
    helpers.assert_near(np.linalg.norm(again["cell"], axis=1), np.full(3, 2 * A), 1e-4, "lengths")
    with pytest.raises(lattice.NotRelaxed, match="after 2 steps: a force of"):
        lattice.relax(springs, [bent], cell=True, steps=2)


def test_relaxes_where_the_energy_has_a_kink():
    """A force of 0.01 eV/A that changes its sign at the minimum: no force gets small, the energy does."""

    def kinked(frames):
        out = springs(frames)
        for f, label in zip(frames, out):
            u = f["positions"] - fcc(A)["positions"]
            u = u - u.mean(0)
            r = np.linalg.norm(u, axis=1, keepdims=True)
            label["energy"] += 0.01 * float(r.sum())
            label["forces"] = label["forces"] - 0.01 * u / np.maximum(r, 1e-12)
        return out

    f = fcc(A)
    f["positions"] = f["positions"] + 0.02 * np.random.default_rng(1).normal(size=f["positions"].shape)
    ((_, label),) = lattice.relax(kinked, [f])
    assert 0 <= label["energy"] < 2e-3 and np.abs(label["forces"]).max() > lattice.FORCE


def test_elastic_constants_and_bulk_modulus_of_springs():
    """C11 = 2 C12 = 2 C44 = sqrt(2) k / r0."""
    c = lattice.independent(lattice.elastic_constants(springs, fcc(A)))
    wanted = lattice.GPA * np.sqrt(2) * K / (A / np.sqrt(2))
    for name, factor in (("C11", 1.0), ("C12", 0.5), ("C44", 0.5)):
        helpers.assert_near(c[name], factor * wanted, 0.01 * wanted, name)
    found = lattice.equation_of_state(springs, fcc(1.004 * A))
    helpers.assert_near(found["scale"] * 1.004 * A, A, 1e-4 * A, "lattice constant")
    helpers.assert_near(found["bulk"], 2 / 3 * wanted, 0.02 * wanted, "bulk modulus")


class Cell:
    """A crystal whose energy is least in the cell with these vectors."""

    def __init__(self, cell):
        self.metric = np.array(cell, float) @ np.transpose(cell)
        self.identity = {"kind": "test", "metric": self.metric.tolist()}

    def label(self, frames):
        return [self._one(f["elements"], f["cell"]) for f in frames]

    def _one(self, elements, cell):
        off = cell @ cell.T - self.metric
        stress = 4 * cell.T @ off @ cell / abs(np.linalg.det(cell))
        forces = np.zeros((len(elements), 3))
        return {"energy": float((off**2).sum()), "forces": forces, "stress": stress, "atom_energies": None}

    def close(self):
        pass


def test_large_cells_are_refused_before_any_work(tmp_path):
    """As are supercells of cells that are thin and long, or flat."""
    unit = lattices.crystal("sc", ["Po"], 3.3, (8, 8, 8))
    with certified(tmp_path, unit, Cell(unit["cell"])) as made:
        for do in (crystals.measure, crystals.phonons, polymorphs.measure, defects.vacancy, thermal.thermal):
            found = do(made)["rows"]
            assert {r["value"] for r in found} == {None}
            assert {r["note"].partition(":")[0] for r in found} == {
                "512 atoms are too many for the unit cell of a crystal"
            }
    for cell, n in (([2.5, 2.5, 250], 100), ([0.5, 20, 20], 30)):
        frame = {"elements": ["Po"] * n, "positions": np.zeros((n, 3)), "cell": np.diag(cell)}
        for make in (defects.supercell, lambda f: vibrations.ForceConstants(None, f)):
            with pytest.raises(
                work.NotMeasured, match="a supercell at least 10 A wide of the cell .* the limit is 2000"
            ):
                make(frame)
    assert lattice.times_for(lattices.crystal("fcc", ["Cu"], 3.6), 10.0) == [3, 3, 3]


SHEAR = [[4, 0, 0], [0.04, 4, 0], [0, 0, 4]]  # 0.57 degrees


@pytest.mark.parametrize(
    "model, teacher, said",
    [
        (4 * np.eye(3), 4 * np.eye(3), {"a": "PASS"}),
        (SHEAR, 4 * np.eye(3), {"a": "FAIL"}),
        (4 * np.eye(3), SHEAR, {"a": "FAIL"}),
        (SHEAR, SHEAR, {"a": "PASS"}),
        (4 * np.eye(3), np.diag([4, 4.05, 4]), {"a": "PASS", "b": "FAIL"}),
        (np.diag([4, 4, 4.05]), 4 * np.eye(3), {"a": "PASS", "c": "FAIL"}),
    ],
)
def test_angles_and_all_lengths_of_cells_are_compared(model, teacher, said, tmp_path):
    """Equal lengths of one side may differ on the other one."""
    with certified(tmp_path, lattices.crystal("sc", ["Po"], 4.02), Cell(model), Cell(teacher)) as made:
        found = [r for r in crystals.measure(made)["rows"] if r["quantity"] == "lattice_constant"]
    assert {r["group"].split()[1]: rows.verdict(r, "0.2 %")[0] for r in found} == said
    assert ("the angles of the cell are" in str(found[0].get("note"))) == (said["a"] == "FAIL")


def test_phonons_of_springs():
    """At X: sqrt(8 k / m), sqrt(4 k / m) twice; at L: sqrt(8 k / m), sqrt(2 k / m) twice; sound has no gap."""
    unit = lattices.crystal("fcc", ["Al"], A)
    found = vibrations.ForceConstants(springs, unit)
    assert found.atoms == [0] and vibrations.centring(unit) == "F"
    unit_of = vibrations.THZ * np.sqrt(K / MASS["Al"])
    for q, factors in (((1, 0, 0), (4, 4, 8)), ((0.5, 0.5, 0.5), (2, 2, 8)), ((0, 0, 0), (0, 0, 0))):
        helpers.assert_near(found.frequencies(q), unit_of * np.sqrt(factors), 2e-3 * unit_of, f"q = {q}")
    edges = [(p, n) for p, n, _ in found.edges()]
    assert [e for e in edges if e[0] in "GXL"] == [("X", 1), ("X", 2), ("L", 1), ("L", 2)]
    at, w, ticks = found.path(4)
    assert len(at) == len(w) and ticks[0][1] == "G" and w.shape[1] == 3
    # a wave vector that fits into no supercell, by hand
    q = np.array([0.31, 0.12, 0.07])
    r = A / 2 * np.array([(i, j, 0) for i in (1, -1) for j in (1, -1)])
    r = np.concatenate([np.roll(r, k, axis=1) for k in range(3)])
    n = r / np.linalg.norm(r, axis=1)[:, None]
    d = np.einsum("r,ra,rb->ab", 1 - np.cos(2 * np.pi / A * r @ q), n, n)
    helpers.assert_near(found.frequencies(q), unit_of * np.sqrt(np.linalg.eigvalsh(d)), 2e-3 * unit_of, "anywhere")


def test_frequencies_that_depend_on_the_displacement():
    assert crystals._farther(5.0, [4.95, 12.0]) == "" and crystals._farther(0.01, [-0.01]) == ""
    assert "not harmonic: -3 THz with a displacement of 0.03 A" in crystals._farther(-9.6, [-3.0, 12.0])


def test_phonons_against_phonopy():
    """Two atoms in the primitive cell, any wave vector: the same frequencies as phonopy's from the same forces."""
    phonopy = pytest.importorskip("phonopy")
    from phonopy.structure.atoms import PhonopyAtoms

    teacher = _teacher()
    if teacher is None:
        pytest.skip("no LAMMPS with potential files here")
    try:
        evaluate = lambda frames: teacher.label([{"source": "silicon", **f} for f in frames])
        unit = lattices.crystal("diamond", ["Si"], 5.431)
        mine = vibrations.ForceConstants(evaluate, unit, (2, 2, 2))
        atoms = PhonopyAtoms(unit["elements"], cell=unit["cell"], positions=unit["positions"])
        theirs = phonopy.Phonopy(atoms, np.diag([2, 2, 2]), primitive_matrix="F")
        theirs.generate_displacements(distance=vibrations.MOVE, is_plusminus=True)
        moved = theirs.supercells_with_displacements
        frames = [{"elements": list(c.symbols), "positions": c.positions, "cell": c.cell} for c in moved]
        theirs.forces = np.array([label["forces"] for label in evaluate(frames)])
        theirs.produce_force_constants()
        theirs.symmetrize_force_constants()
        for q in ((0, 0, 0), (1, 0, 0), (0.5, 0.5, 0.5), (0.23, -0.1, 0.41)):
            there = np.asarray(q) @ np.linalg.inv(unit["cell"]).T @ theirs.primitive.cell.T
            theirs.run_qpoints([there])
            wanted = theirs.get_qpoints_dict()["frequencies"][0] * np.sqrt(28.0855 / MASS["Si"])
            helpers.assert_near(mine.frequencies(q), wanted, 0.02, f"q = {q}, THz")
    finally:
        teacher.close()


@pytest.mark.parametrize(
    "kind, elements, constant, n, centring, atoms",
    [
        ("sc", ["Po"], 3.3, 1, "P", 1),
        ("bcc", ["Fe"], 2.9, 2, "I", 1),
        ("diamond", ["Si"], 5.4, 4, "F", 2),
        ("rocksalt", ["Na", "Cl"], 5.6, 4, "F", 2),
        ("cscl", ["Cs", "Cl"], 4.1, 1, "P", 2),
        ("hcp", ["Mg"], [3.2, 5.2], 1, "hexagonal", 2),
    ],
)
def test_primitive_cells(kind, elements, constant, n, centring, atoms):
    f = lattices.crystal(kind, elements, constant)
    assert len(lattice.centrings(f)) == n and vibrations.centring(f) == centring
    assert len(lattice.primitive_atoms(f)) == atoms


def test_births_of_an_equation_of_state():
    """A curve of Birch and Murnaghan is found again."""
    v0, e0, b0, b1 = 18.0, -5.0, 0.6, 4.7
    v = v0 * np.linspace(0.94, 1.06, 9)
    x = (v0 / v) ** (2 / 3)
    e = e0 + 9 * v0 * b0 / 16 * ((x - 1) ** 3 * b1 + (x - 1) ** 2 * (6 - 4 * x))
    helpers.assert_near(lattice.birch_murnaghan(v, e), (v0, e0, b0), 1e-6, "fit")
    with pytest.raises(lattice.NotRelaxed, match="no minimum"):
        lattice.birch_murnaghan(v, -v)


def _teacher():
    try:
        lmp = lammps.find_lmp()
    except lammps.LammpsError:
        return None
    return (
        LammpsTeacher(["pair_style sw", "pair_coeff * * Si.sw Si"], ["Si"], lmp)
        if lammps.find_potentials(lmp)
        else None
    )


def test_silicon_of_stillinger_and_weber():
    """a = 5.431 A, E = -4.3366 eV, C11 = 151.4, C12 = 76.4, C44 = 56.4 GPa with ions relaxed (Balamane, Halicioglu,
    Tiller, Phys. Rev. B 46, 2250 (1992))."""
    teacher = _teacher()
    if teacher is None:
        pytest.skip("no LAMMPS with potential files here")
    try:
        evaluate = lambda frames: teacher.label([{"source": "silicon", **f} for f in frames])
        unit = lattices.crystal("diamond", ["Si"], 5.5)
        frame, label = lattice.relax(evaluate, [unit], cell=True)[0]
        helpers.assert_near(np.linalg.norm(frame["cell"], axis=1), np.full(3, 5.431), 1e-3, "lattice constant")
        helpers.assert_near(label["energy"] / 8, -4.3366, 1e-4, "energy")
        c = lattice.independent(lattice.elastic_constants(evaluate, frame))
        helpers.assert_near([c["C11"], c["C12"], c["C44"]], [151.4, 76.4, 56.4], 0.15, "elastic constants")
        bulk = lattice.equation_of_state(evaluate, frame)["bulk"]
        helpers.assert_near(bulk, 101.4, 0.2, "bulk modulus")
    finally:
        teacher.close()
