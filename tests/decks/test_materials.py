"""benchmarks/materials.py: lattice constants from energies, volumes and pressures whose answer is known; the table."""

import argparse
import os
import sys

import numpy as np
import pytest

from mlff_tools.model.lammps import find_decks, find_lmp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import materials  # noqa: E402

EDGE, MODULUS, SLOPE = 5.47, 90.0, 4.2  # A, GPa, dB/dP: of an equation of state by Birch and Murnaghan


def energy(edge):
    x = (EDGE / edge) ** 2
    scale = 9 * EDGE**3 * MODULUS * 1e4 * materials.BAR_IN_EV / 16
    return scale * ((x - 1) ** 3 * SLOPE + (x - 1) ** 2 * (6 - 4 * x)) - 43.0


def pressure(edge):
    """Of that equation of state, in bar."""
    x = EDGE / edge
    return 1e4 * 1.5 * MODULUS * (x**7 - x**5) * (1 + 0.75 * (SLOPE - 4) * (x**2 - 1))


@pytest.fixture
def rest(monkeypatch):
    monkeypatch.setattr(materials, "energy_at", lambda args, system, edge: (round(energy(edge), 6), edge**3))
    return materials.at_rest(None, "silicon")


def test_minimum_of_the_energy(rest):
    row, static, volumes = rest
    assert row["lattice_A"] == pytest.approx(EDGE, abs=2e-4) and row["bulk_modulus_GPa"] == pytest.approx(90, abs=0.5)
    for edge in (5.431, 5.5):
        assert static(edge**3) == pytest.approx(pressure(edge), abs=200), "bar"
    assert min(volumes) < EDGE**3 < max(volumes)


def test_minimum_that_is_not_there(monkeypatch):
    monkeypatch.setattr(materials, "energy_at", lambda args, system, edge: (energy(edge * 1.05), edge**3))
    with pytest.raises(materials.LammpsError, match="E.V. has 0 minima between 5.322 and 5.594 A"):
        materials.at_rest(None, "silicon")


def test_thermal_pressure_moves_the_minimum(rest):
    """2000 bar at 300 K, seen at another density and at 330 K, open the crystal to where its static pressure is -2000
    bar."""
    nve = {"pressure_bar": pressure(5.431) + 2200.0, "temperature_K": 330.0}
    edge = materials.expected_edge(*rest[1:], nve, 5.431**3)
    assert pressure(edge) == pytest.approx(-1999, abs=200) and edge > EDGE + 0.003


def test_mean_of_a_run():
    """The first quarter is left out; the interval of uncorrelated numbers is 2.26 times their standard error."""
    edges = 5.5 + 0.01 * np.random.default_rng(1).standard_normal(4000)
    edges[:1000] = 5.4
    mean, error = materials.mean_edge({"energy": {"series": {"volume": list(8 * edges**3)}}}, 8)
    assert mean == pytest.approx(edges[1000:].mean(), abs=1e-6)
    assert 0.3 < error / (2.262 * 0.01 / np.sqrt(3000)) < 2


def test_energies_are_those_of_a_crystal_at_rest(tmp_path):
    """The deck gives the unit cell of 8 atoms, and the energies have no kinetic part."""
    args = argparse.Namespace(
        model=os.path.join(ROOT, "models", "nequix-oam-1-pft.yaml"),
        plugin=PLUGIN,
        lmp=find_lmp(),
        decks=find_decks("in.bench"),
        work=str(tmp_path),
    )
    (low, v), (high, w) = (materials.energy_at(args, "silicon", edge) for edge in (5.48, 5.30))
    assert v == pytest.approx(5.48**3) and w == pytest.approx(5.30**3)
    assert low == pytest.approx(-43.2604, abs=1e-3) and low + 0.1 < high < low + 1


def test_table():
    """Units, and the verdict by the drift of the longest run."""

    def report(drift, pressure_bar):
        total = {"drift": drift, "drift_error": 2e-6, "std": 0.064}
        energy = {"total": total, "time_ps": 20, "temperature": {"mean": 301}, "pressure": {"mean": pressure_bar}}
        return {"energy": energy, "n_atoms": 64, "context": {"timestep": 0.001}}

    row = materials.conservation(report(5e-6, 3e4))
    assert row["drift"] == pytest.approx(0.005) and row["drift_error"] == pytest.approx(0.002)
    assert row["fluctuation"] == pytest.approx(1.0) and row["timestep_fs"] == 1
    crystal = {"lattice_A": 5.48, "bulk_modulus_GPa": 88, "lattice_300K_A": 5.49, "lattice_300K_error_A": 0.001}
    crystal |= {
        "picoseconds": 20,
        "lattice_300K_expansion_percent": 0.18,
        "expected_300K_A": 5.49,
        "expected_300K_expansion_percent": 0.18,
    }
    whole = {"model": "m", "sha256": "f" * 64, "passed": True, "context": {"cpu": "c", "date": "d"}}
    whole["systems"] = [{"system": "silicon", "n_atoms": 64, "steps": [row] * 3, "nve": row, "crystal": crystal}]
    text = materials.text_of(whole)
    assert "+0.00500 +- 0.00200" in text and "5.4900 +- 0.0010" in text and text.endswith("PASSED\n")
