"""Distributions of energies by physical_validation, on energies that are drawn from the canonical ensemble."""

import numpy as np
import pytest

from mlff_tools.certify import distributions, runner
from mlff_tools.certify.rows import FAIL, NOT, PASS, verdict
from mlff_tools.ensemble import judge as of_ensemble
from mlff_tools.ensemble import outside

N, T = 64, 300.0


def trajectory(temperature, stiffness, n=4000, seed=1):
    """Harmonic atoms: kinetic and potential energies of so many degrees of freedom at a temperature."""
    rng, kt = np.random.default_rng(seed), of_ensemble.BOLTZMANN * temperature
    kinetic = rng.gamma((3 * N - 3) / 2, kt, n)
    potential = rng.gamma((3 * N - 3) / 2, kt, n) * stiffness
    step = np.arange(n)
    table = np.stack([step, 2 * kinetic / (3 * N - 3) / of_ensemble.BOLTZMANN, potential, kinetic], 1)
    table = np.concatenate([table, (kinetic + potential)[:, None], np.zeros((n, 1)), np.full((n, 1), 1000.0)], 1)
    p = runner.protocol(steps=n - 1, every=1)
    return runner.Trajectory(table, np.zeros((0, N, 3)), np.zeros((0, 3, 3)), ["Si"] * N, p, "end", None)


class System:
    name, temperature = "springs", T


def judge(first, second, hot):
    package = pytest.importorskip("physical_validation")
    found = distributions._judge(package, System, first, second, hot, None)
    return {r["quantity"]: verdict(r, 3.0)[0] for r in found}, found


def test_canonical_energies_pass():
    hot = T + distributions.apart(trajectory(T, 1.0), T)
    said, found = judge(trajectory(T, 1.0), trajectory(hot, 1.0, seed=2), hot)
    assert said == {"kinetic_energy": PASS, "potential_energy": PASS}, found


def test_others_fail():
    """Kinetic energies of another temperature; potential energies that fluctuate too much."""
    hot = T + distributions.apart(trajectory(T, 1.0), T)
    said, found = judge(trajectory(1.03 * T, 1.0), trajectory(1.03 * hot, 1.0, seed=2), hot)
    assert said["kinetic_energy"] == FAIL, found
    said, found = judge(trajectory(T, 2.0), trajectory(hot, 2.0, seed=2), hot)
    assert said["potential_energy"] == FAIL, found


def test_runs_that_do_not_overlap_are_not_measured():
    said, found = judge(trajectory(T, 1.0), trajectory(3 * T, 1.0, seed=2), 3 * T)
    assert said["potential_energy"] == NOT and "physical_validation: " in found[1]["note"]


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(outside, "PACKAGE", "no_such_package")
    with pytest.raises(distributions.NotMeasured, match="no_such_package is not installed: pip install"):
        distributions._package()
