"""Vibrations of certificates on a mesh, thermal expansion and heat capacity, and forces in displaced crystals."""

import helpers
import numpy as np
import pytest
from test_certify_defects import Pairs, certified, values
from test_certify_lattice import A, K, springs

from mlff_tools.certify import lattice, thermal, vibrations
from mlff_tools.certify.work import NotMeasured
from mlff_tools.model.masses import MASS
from mlff_tools.train import lattices

R = 1000 * thermal.KJ_PER_MOL * thermal.BOLTZMANN


@pytest.mark.parametrize("name, atoms", [("sc", 1), ("bcc", 1), ("fcc", 1), ("diamond", 2)])
def test_primitive_vectors(name, atoms):
    """Those of a primitive cell, also from a supercell."""
    for times in ((1, 1, 1), (2, 1, 1)):
        unit = lattices.crystal(name, ["Si"], 4.0, times)
        volume = 4.0**3 * np.prod(times) * atoms / len(unit["elements"])
        helpers.assert_near(abs(np.linalg.det(lattice.primitive_vectors(unit))), volume, 1e-6, name)


def test_mesh_of_springs():
    """The mean square frequency is the trace of the force constants of an atom: 4 k / m for each coordinate."""
    found = vibrations.ForceConstants(springs, lattices.crystal("fcc", ["Al"], A)).mesh()
    assert found.shape == (108, 3) and found.min() > 0
    helpers.assert_near((found**2).mean(), 4 * K / MASS["Al"] * vibrations.THZ**2, 1e-3, "THz^2")


def test_free_energy_of_oscillators():
    w = np.full((4, 3), 6.0)
    e = thermal.PLANCK * 6.0
    helpers.assert_near(thermal.free_energy(w, 1.0), 1.5 * e, 1e-9, "zero point")
    kt = thermal.BOLTZMANN * 3000
    helpers.assert_near(thermal.free_energy(w, 3000), 3 * kt * np.log(e / kt), 1e-3, "classical")


def test_expansion_of_a_solid_of_gruneisen():
    """E = B V0 / 2 (V / V0 - 1)^2 and frequencies as V^-g: 3 alpha = g C / (B V0), up to terms of the order of the
    expansion."""
    v0, b, g = 16.0, 5.0, 2.0
    volumes = v0 * np.linspace(0.99, 1.02, 5)
    frequencies = [np.full((1, 3), 2.0) * (v / v0) ** -g for v in volumes]
    found = thermal.QuasiHarmonic(volumes, b * v0 / 2 * (volumes / v0 - 1) ** 2, frequencies)
    expansion, heat = found.at(300.0)
    assert found.minimum(300.0)[0] > v0
    x = thermal.PLANCK * 2.0 / (thermal.BOLTZMANN * 300) / 2
    quantum = (x / np.sinh(x)) ** 2
    helpers.assert_near(expansion, quantum * 1e6 * g * thermal.BOLTZMANN / (b * v0), 0.03, "1e-6/K")
    c = 3 * quantum * thermal.BOLTZMANN  # at constant volume
    helpers.assert_near(heat, 1000 * thermal.KJ_PER_MOL * (c + 300 * (g * c) ** 2 / (b * v0)), 0.02, "J/mol/K")
    with pytest.raises(lattice.NotRelaxed, match="no minimum of the free energy at 30000 K among volumes from 15.84"):
        found.minimum(30000.0)


def test_vibrations_of_two_crystals(tmp_path):
    """The teacher's epsilon is 1.21 times the model's: its frequencies are 1.1 times as high, forces differ by
    0.21 / 1.21, and the thermal expansion is that of the model at a 1.21 times lower temperature."""
    unit = lattices.crystal("fcc", ["Al"], 3.85)
    with certified(tmp_path, unit, Pairs(), Pairs(epsilon=1.21 * 0.4), name="Al fcc", high=400) as made:
        found, mesh, hot = thermal.thermal(made), thermal.phonon_mesh(made), thermal.rattled_forces(made)
        largest = thermal._mesh(made, made.model, made.systems[0]).max()
    rows = {r["group"]: r for r in mesh["rows"]}
    helpers.assert_near(rows["Al fcc largest"]["value"], 0.1 * largest, 1e-3, "THz")
    helpers.assert_near(rows["Al fcc largest"]["scale"], 1.1 * largest, 1e-3, "THz")
    assert 0.4 < rows["Al fcc mean"]["value"] / rows["Al fcc largest"]["value"] < 0.9
    forces = values(hot, "rattled_forces")
    assert list(forces) == [f"Al fcc {s} %" for s in ("-5", "-3", "+3", "+5")]
    helpers.assert_near(list(forces.values()), np.full(4, 100 * 0.21 / 1.21), 1e-6, "%")
    mine, theirs = values(found, "thermal_expansion"), values(found, "thermal_expansion", "teacher")
    assert 10 < theirs["Al fcc 300 K"] < mine["Al fcc 300 K"] < mine["Al fcc 400 K"] < 200
    for value in values(found, "heat_capacity").values():
        assert 2.8 * R < value < 3.6 * R


def test_soft_crystals_have_no_thermal_expansion(tmp_path):
    """A square lattice of pairs is not stable: it has imaginary frequencies."""
    with certified(tmp_path, lattices.crystal("sc", ["Al"], 2.75), Pairs(), high=400) as made:
        found = thermal.thermal(made)["rows"]
        with pytest.raises(NotMeasured, match="imaginary frequency of"):
            thermal._thermal(made, made.model, made.systems[0], 300.0)
    assert all(r["value"] is None and "imaginary frequency of" in r["note"] for r in found)


def test_atoms_of_a_formula():
    for name, elements, n in (("fcc", ["Al"], 1), ("rocksalt", ["Na", "Cl"], 2)):
        assert thermal._formula_atoms(lattices.crystal(name, elements, 5.0)["elements"]) == n
    assert thermal._formula_atoms(["Si"] * 3 + ["O"] * 6) == 3
