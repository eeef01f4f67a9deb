"""benchmarks/hessian.py: frequencies that are known."""

import numpy as np
from helpers import assert_near

import hessian
from mlff_tools.model.masses import MASS


def triangle(frames):
    """Three atoms, each pair on a spring of 1.2 A and 30 eV/A^2."""
    out = []
    for frame in frames:
        x, energy, forces = frame["positions"], 0.0, np.zeros((3, 3))
        for a, b in ((0, 1), (0, 2), (1, 2)):
            d = x[b] - x[a]
            r = np.linalg.norm(d)
            energy += 15.0 * (r - 1.2) ** 2
            forces[a] += 30.0 * (r - 1.2) * d / r
            forces[b] -= 30.0 * (r - 1.2) * d / r
        out.append({"energy": energy, "forces": forces})
    return out


def test_frequencies_of_a_triangle():
    """sqrt(3 k / 2 m) twice and sqrt(3 k / m), from a start that is not at rest."""
    start = {"elements": ["O"] * 3, "positions": np.array([[0, 0, 0], [1.3, 0.1, 0], [0.5, 1.0, 0.2]]), "cell": None}
    unit = np.sqrt(30.0 * 1.602176634e-19 / 1e-20 / (MASS["O"] * 1.66053907e-27)) / (2e12 * np.pi)
    wanted = unit * np.sqrt([1.5, 1.5, 3.0])
    assert_near(hessian.of_molecule(triangle, start), wanted, 1e-3 * unit, "frequencies")
