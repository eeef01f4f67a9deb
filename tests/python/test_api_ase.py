"""mlff.ase.MLFF with ASE's own tools: derivatives, optimisers, vibrations, phonons, dynamics, elasticity, speed."""

import copy
import json
import os
import threading
import warnings

import helpers
import numpy as np
import pytest

import mlff
from mlff_tools.model import modelfile, structures

ase = pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")

from ase import units  # noqa: E402
from ase.build import bulk, fcc111, molecule  # noqa: E402
from ase.calculators.calculator import PropertyNotImplementedError  # noqa: E402
from ase.filters import FrechetCellFilter  # noqa: E402
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution, Stationary  # noqa: E402
from ase.md.verlet import VelocityVerlet  # noqa: E402
from ase.optimize import BFGS, FIRE  # noqa: E402
from ase.vibrations import Vibrations  # noqa: E402

THREE = "xx yy zz yz xz xy".split()


def certificate(quantity):
    """Values of silicon-m by group."""
    with open(os.path.join(helpers.ROOT, "models", "certificates", "silicon-m.json"), encoding="utf-8") as f:
        rows = [bar["row"] for bar in json.load(f)["bars"] if bar["quantity"] == quantity]
    return {row["group"]: row["value"] for row in rows}


def water_box(n=8, density=0.95, seed=3):
    s = structures.molecule_box("water", n, density, seed)
    return ase.Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=True)


def silicon(**options):
    atoms = bulk("Si", "diamond", a=certificate("lattice_constant")["Si a"], cubic=True)
    atoms.calc = mlff.ase.MLFF("silicon-m", precision="fp64", **options)
    return atoms


def shear(atoms):
    atoms.set_cell(atoms.cell @ (np.eye(3) + [[0.02, 0.05, -0.03], [0, -0.01, 0.04], [0, 0, 0.01]]), scale_atoms=True)
    return atoms


# ---- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pbc", [False, (True, False, True), True], ids=["open", "slab", "bulk"])
def test_forces_are_derivatives(pbc):
    atoms = shear(water_box(2, 0.9))
    atoms.pbc = pbc
    atoms.calc = mlff.ase.MLFF("water-xs", precision="fp64", domain="ignore")
    forces, h = atoms.get_forces(), 1e-4
    for i, c in ((0, 0), (1, 2), (5, 1)):
        energies = []
        for step in (h, -h):
            moved = atoms.copy()
            moved.calc = atoms.calc
            moved.positions[i, c] += step
            energies.append(moved.get_potential_energy())
        helpers.assert_near((energies[1] - energies[0]) / (2 * h), forces[i, c], 1e-5, f"force {i} {c}")


def test_stress_is_the_derivative():
    """All six components, their order and their sign."""
    atoms, h = shear(water_box(4, 0.9)), 1e-5
    atoms.calc = mlff.ase.MLFF("water-xs", precision="fp64", domain="ignore")
    stress, volume = atoms.get_stress(), atoms.get_volume()
    for k, name in enumerate(THREE):
        a, b = ("xyz".index(c) for c in name)
        energies = []
        for step in (h, -h):
            strain = np.zeros((3, 3))
            strain[a, b] += step / 2
            strain[b, a] += step / 2
            moved = atoms.copy()
            moved.set_cell(moved.cell @ (np.eye(3) + strain), scale_atoms=True)
            moved.calc = atoms.calc
            energies.append(moved.get_potential_energy())
        slope = (energies[0] - energies[1]) / (2 * h * volume)
        helpers.assert_near(slope, stress[k], 1e-6 * np.abs(stress).max(), f"stress {name}")


@pytest.mark.parametrize("pbc", [(True, True, False), (False, True, True), (False, True, False)])
def test_stress_of_slabs_and_wires(pbc):
    """The derivative of the energy by strains of the periodic directions, in a turned cell; zero in the others."""
    atoms, h = shear(water_box(3, 0.9)), 1e-5
    atoms.rotate(37, (1, 2, 3), rotate_cell=True)
    atoms.pbc = pbc
    open_to = [k for k in range(3) if not pbc[k]]
    cell = atoms.cell.array.copy()
    cell[open_to] *= 3.0
    atoms.set_cell(cell)
    atoms.calc = mlff.ase.MLFF("water-xs", precision="fp64", domain="ignore")
    stress = atoms.get_stress(voigt=False)
    span = np.linalg.qr(cell[list(pbc)].T)[0]
    onto = span @ span.T
    helpers.assert_near(onto @ stress @ onto, stress, 1e-12, "stress out of the periodic directions")
    for name in THREE:
        a, b = ("xyz".index(c) for c in name)
        strain = np.zeros((3, 3))
        strain[a, b] += 0.5
        strain[b, a] += 0.5
        strain = onto @ strain @ onto
        energies = []
        for step in (h, -h):
            moved = atoms.copy()
            moved.set_cell(moved.cell @ (np.eye(3) + step * strain), scale_atoms=True)
            moved.calc = atoms.calc
            energies.append(moved.get_potential_energy())
        slope = (energies[0] - energies[1]) / (2 * h * atoms.get_volume())
        helpers.assert_near(slope, (stress * strain).sum(), 1e-6 * np.abs(stress).max(), f"stress {name}")


def test_cells_of_slabs_relax():
    """FrechetCellFilter leaves the vacuum as it is, and ends without stress in the plane."""
    atoms = fcc111("Al", (2, 2, 4), a=4.2, vacuum=6.0)
    atoms.rattle(0.02, seed=1)
    before = atoms.cell.array.copy()
    atoms.calc = mlff.ase.MLFF("aluminium-m", precision="fp64", domain="ignore")
    strained = np.abs(atoms.get_stress()).max()
    assert BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=0.005, steps=300)
    assert np.allclose(atoms.cell[2], before[2]) and atoms.cell[0, 0] < before[0, 0] - 0.1
    assert np.abs(atoms.get_stress()).max() < 0.01 * strained


def test_no_stress_without_a_volume():
    atoms = bulk("Si", "diamond", 5.4, cubic=True)
    atoms.pbc = (True, True, False)
    atoms.cell[2] = 0
    atoms.calc = mlff.ase.MLFF("silicon-m", domain="ignore")
    assert np.isfinite(atoms.get_forces()).all()
    with pytest.raises(PropertyNotImplementedError, match="span a volume"):
        atoms.get_stress()


def test_energies_sum_and_stress_of_molecules():
    atoms = molecule("H2O")
    atoms.calc = mlff.ase.MLFF("water-xs", domain="ignore")
    assert abs(atoms.get_potential_energies().sum() - atoms.get_potential_energy()) < 1e-6
    assert atoms.get_potential_energy() == atoms.get_potential_energy(force_consistent=True)
    with pytest.raises(PropertyNotImplementedError, match="stress needs a periodic direction"):
        atoms.get_stress()
    assert np.isfinite(atoms.get_forces()).all()
    with pytest.raises(PropertyNotImplementedError, match="no dipole"):
        atoms.get_dipole_moment()


# ---- what ASE does with it -------------------------------------------------------------------------------------------


def test_relaxation_of_cell_and_atoms():
    """Silicon from a strained cell back to the lattice constant of its certificate."""
    atoms = silicon(domain="ignore")
    cell = atoms.cell.array.copy()
    shear(atoms)
    atoms.rattle(0.05, seed=1)
    assert BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=2e-3, steps=100)
    helpers.assert_near(np.sort(atoms.cell.lengths()), np.diag(cell), 2e-3 * cell[0, 0], "lattice constant")
    helpers.assert_near(atoms.cell.angles(), [90, 90, 90], 0.3, "angles")


def test_vibrations_of_water(tmp_path):
    """Three modes of water where they are expected of this model's teacher, and six that are none."""
    atoms = molecule("H2O")
    atoms.calc = mlff.ase.MLFF("water-xs", precision="fp64", domain="ignore")
    assert FIRE(atoms, logfile=None).run(fmax=1e-4, steps=300)
    vibrations = Vibrations(atoms, name=str(tmp_path / "vib"), delta=1e-3)
    vibrations.run()
    waves = vibrations.get_frequencies()
    assert np.abs(waves[:6]).max() < 60, waves
    bend, symmetric, asymmetric = waves[6:].real
    assert 1400 < bend < 1900 and 3400 < symmetric < asymmetric < 4300, waves


def test_phonons():
    """phonopy's frequencies at zone boundaries are those of the certificate, which another code has made."""
    phonopy = pytest.importorskip("phonopy", reason="phonopy is not installed: pip install phonopy")
    from phonopy.structure.atoms import PhonopyAtoms

    atoms, wanted = silicon(), certificate("phonons")
    cell = PhonopyAtoms(symbols=atoms.get_chemical_symbols(), cell=atoms.cell.array, positions=atoms.positions)
    phonon = phonopy.Phonopy(cell, np.eye(3, dtype=int) * 2, primitive_matrix="F", log_level=0)
    phonon.generate_displacements(distance=0.01)
    forces = []
    for displaced in phonon.supercells_with_displacements:
        one = ase.Atoms(displaced.symbols, displaced.positions, cell=displaced.cell, pbc=True, calculator=atoms.calc)
        forces.append(one.get_forces())
    phonon.forces = forces
    phonon.produce_force_constants()
    for point, q in (("G", [0, 0, 0]), ("X", [0.5, 0, 0.5]), ("L", [0.5, 0.5, 0.5])):
        phonon.run_qpoints([q])
        found = phonon.qpoints.frequencies[0]
        for name, value in wanted.items():
            if name.split()[-1][0] == point:
                helpers.assert_near(min(found, key=lambda f: abs(f - value)), value, 1e-4 * value, name)


def test_elastic_constants():
    """Central differences of ASE's stress, clamped and relaxed ions, against the certificate."""
    wanted, volume_strain = certificate("elastic_constants"), 2e-3
    found = {}
    for name, strain in (("1", [1, 0, 0, 0, 0, 0]), ("4", [0, 0, 0, 1, 0, 0])):
        stresses = []
        for sign in (1, -1):
            atoms = silicon()
            xx, yy, zz, yz, xz, xy = np.array(strain) * sign * volume_strain
            e = np.array([[xx, xy / 2, xz / 2], [xy / 2, yy, yz / 2], [xz / 2, yz / 2, zz]])
            atoms.set_cell(atoms.cell @ (np.eye(3) + e), scale_atoms=True)
            assert BFGS(atoms, logfile=None).run(fmax=1e-4, steps=100)
            stresses.append(atoms.get_stress())
        found[name] = (stresses[0] - stresses[1]) / (2 * volume_strain) / units.GPa
    for group, value in (("C11", found["1"][0]), ("C12", found["1"][1]), ("C44", found["4"][3])):
        helpers.assert_near(value, wanted[f"Si {group}"], 0.003 * value, group)


def test_dynamics_conserves_energy():
    """NVE at 600 K in fp32: lists are kept, and the energy has no drift that could be seen."""
    atoms = silicon()
    atoms.calc = mlff.ase.MLFF("silicon-m")
    atoms *= (2, 2, 2)
    atoms.calc = mlff.ase.MLFF("silicon-m")
    rng = np.random.default_rng(7)
    MaxwellBoltzmannDistribution(atoms, temperature_K=600, rng=rng)
    Stationary(atoms)
    totals, dynamics = [], VelocityVerlet(atoms, 1.0 * units.fs)
    dynamics.attach(lambda: totals.append(atoms.get_total_energy()))
    dynamics.run(1000)
    totals = np.array(totals[100:]) / len(atoms)
    drift = np.polyfit(np.arange(len(totals)) * 1e-3, totals, 1)[0]
    assert abs(drift) < 1e-4, f"{drift} eV/atom/ps"
    assert totals.std() < 2e-4, totals.std()


# ---- cache, copies, errors, threads ----------------------------------------------------------------------------------


def counted(calc):
    """A list that grows with every evaluation of the model."""
    calls, evaluate = [], calc.model._evaluate
    calc.model._evaluate = lambda *arguments: (calls.append(1), evaluate(*arguments))[1]
    return calls


def test_equal_calls_are_cached():
    atoms = water_box()
    atoms.calc = mlff.ase.MLFF("water-xs")
    calls = counted(atoms.calc)
    forces = atoms.get_forces()
    forces[:] = 0  # the caller's own
    for _ in range(3):
        assert np.abs(atoms.get_forces()).max() > 0 and len(atoms.get_stress()) == 6
        atoms.get_potential_energy()
    atoms.set_initial_charges(np.ones(len(atoms)))
    atoms.set_velocities(np.ones((len(atoms), 3)))
    atoms.get_potential_energy()
    assert len(calls) == 1 and atoms.calc.check_state(atoms) == []
    assert not atoms.calc.calculation_required(atoms, ["energy", "forces"])
    for change in (
        lambda: atoms.positions.__setitem__((0, 0), atoms.positions[0, 0] + 1e-9),
        lambda: atoms.set_cell(atoms.cell * 1.001),
        lambda: atoms.set_pbc((True, True, False)),
        lambda: atoms.numbers.__setitem__(0, 1),
    ):
        n = len(calls)
        change()
        assert len(atoms.calc.check_state(atoms)) == 1
        atoms.get_potential_energy()
        assert len(calls) == n + 1
    assert len(atoms.calc.atoms) == len(atoms) and np.array_equal(atoms.calc.atoms.positions, atoms.positions)


def test_ensemble():
    atoms = water_box()
    calc = atoms.calc = mlff.ase.MLFF("water-benzene-ensemble")
    energy = atoms.get_potential_energy()
    assert "forces_spread" not in calc.results
    assert abs(calc.get_property("member_energies", atoms).mean() - energy) < 1e-4
    assert calc.get_property("energies_spread", atoms).shape == (len(atoms),)
    assert (calc.get_property("forces_spread", atoms) > 0).all()
    with pytest.raises(PropertyNotImplementedError, match="no forces_spread"):
        mlff.ase.MLFF("water-xs").get_property("forces_spread", atoms)


def test_committee():
    """The first model gives all properties, and forces_spread is that of all, also of copies."""
    names = ["water-xs", "water-s", mlff.Model("organics-s", domain="ignore")]
    atoms = water_box()
    calc = atoms.calc = mlff.ase.MLFF([mlff.Model("water-xs"), *names[1:]])
    alone = [mlff.ase.MLFF(name) for name in names]
    assert np.array_equal(atoms.get_forces(), alone[0].get_forces(atoms)) and "forces_spread" not in calc.results
    forces = np.array([one.get_forces(atoms) for one in alone])
    expected = np.sqrt(((forces - forces.mean(0)) ** 2).sum(2).mean(0))
    for one in (calc, copy.deepcopy(calc), mlff.ase.MLFF(("water-xs", "water-s", "organics-s"), domain="ignore")):
        helpers.assert_near(one.get_property("forces_spread", atoms), expected, 1e-9, "forces_spread")
        assert np.array_equal(one.get_forces(atoms), forces[0])
    assert expected.min() > 0
    for wrong, why in (
        (["water-xs", "water-s", "water-xs"], "given twice"),
        (["water-xs"] * 17, "17 models"),
        ([], "0 models"),
    ):
        with pytest.raises(mlff.Error, match=why):
            mlff.ase.MLFF(wrong)
    atoms.calc = mlff.ase.MLFF(["water-xs", "silicon-m"])
    with pytest.raises(mlff.Error, match="silicon-m does not know element"):
        atoms.calc.get_property("forces_spread", atoms)


def test_errors_are_one_sentence():
    calc = mlff.ase.MLFF("water-xs", domain="ignore")
    with pytest.raises(mlff.Error, match="has not seen atoms"):
        calc.get_potential_energy()
    for atoms, what in (
        (ase.Atoms(), "no atoms"),
        (ase.Atoms("OHe", [[0, 0, 0], [1, 0, 0]]), "does not know element He of atom 2"),
        (ase.Atoms("OH", [[0, 0, 0], [np.nan, 0, 0]]), "position of atom 2 counted from 1 is not finite"),
        (ase.Atoms("OH", [[0, 0, 0], [1, 0, 0]], pbc=True), "zero or .*dependent"),
        (ase.Atoms("X", [[0, 0, 0]]), "does not know element X"),
    ):
        for _ in range(2):
            with pytest.raises(mlff.Error, match=what):
                calc.get_potential_energy(atoms)
    complex_numbers = ase.Atoms("OH", [[0, 0, 0], [1, 0, 0]])
    complex_numbers.arrays["positions"] = complex_numbers.positions + 1e-3j
    with pytest.raises(mlff.Error, match="positions: real numbers are expected"):
        calc.get_potential_energy(complex_numbers)
    with pytest.raises(mlff.Error, match="precision: a calculator cannot be changed"):
        calc.set(precision="fp64")
    with pytest.raises(mlff.Error, match="opened already"):
        mlff.ase.MLFF(calc.model, precision="fp64")
    with pytest.warns(mlff.DomainWarning, match="density"):
        mlff.ase.MLFF("water-xs").get_potential_energy(water_box(8, 0.5))
    assert np.isfinite(calc.get_potential_energy(water_box()))


def test_copies_and_a_model_for_two():
    atoms = water_box()
    calc = mlff.ase.MLFF("water-xs", precision="fp64")
    energy = calc.get_potential_energy(atoms)
    other = copy.deepcopy(calc)
    assert other.model is not calc.model and other.get_potential_energy(atoms) == energy
    shared = mlff.ase.MLFF(calc.model)
    assert shared.model is calc.model and shared.get_potential_energy(atoms) == energy
    assert calc.todict()["precision"] == "fp64"


def test_not_conservative(tmp_path):
    """Forces and stress that are outputs, without energies of atoms."""
    head, tensors = helpers.orb()
    modelfile.write(str(tmp_path / "orb.yaml"), head, tensors)
    atoms = water_box()
    atoms.calc = mlff.ase.MLFF(tmp_path / "orb.yaml")
    assert atoms.get_stress().shape == (6,) and not atoms.calc.model.is_conservative
    with pytest.raises(PropertyNotImplementedError, match="no energies"):
        atoms.get_potential_energies()


def run_dynamics(atoms, calc, out, k):
    atoms.calc = calc
    VelocityVerlet(atoms, 1.0 * units.fs).run(60)
    out[k] = atoms.positions.copy()


def test_threads():
    """Calculators of their own in threads follow the same trajectories, to the bit, as one after another."""
    systems = [water_box(8, 0.95, seed) for seed in range(4)]
    serial, found = [None] * 4, [None] * 4
    calc = lambda: mlff.ase.MLFF("water-xs", domain="ignore")
    for k, atoms in enumerate(systems):
        run_dynamics(atoms.copy(), calc(), serial, k)
    threads = [threading.Thread(target=run_dynamics, args=(a.copy(), calc(), found, k)) for k, a in enumerate(systems)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        assert np.array_equal(serial[k], found[k])


def test_warnings_are_not_hidden():
    """Nothing in a run that is inside of the domain."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", mlff.DomainWarning)
        atoms = silicon()
        atoms.get_forces()
