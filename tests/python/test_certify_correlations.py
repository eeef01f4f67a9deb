"""Distribution functions and diffusion of certificates, on trajectories whose answers are known."""

import helpers
import numpy as np

from mlff_tools.certify import correlations


def test_ideal_gas_in_a_skewed_cell():
    """g(r) of points without order is 1, within what counting allows."""
    rng, n = np.random.default_rng(1), 60
    cell = np.array([[11.0, 0, 0], [2.0, 10.0, 0], [-1.5, 1.0, 12.0]])
    x = rng.uniform(size=(200, n, 3)) @ cell
    elements = ["H"] * 40 + ["O"] * 20
    g, r = correlations.rdf(x, np.array([cell] * 200), elements)
    assert set(g) == {"H-H", "H-O", "O-O"} and r[-1] < 0.5 / np.linalg.norm(np.linalg.inv(cell), axis=0).max()
    for pair, count in (("H-H", 40 * 39 / 2), ("H-O", 800), ("O-O", 190)):
        blocks = g[pair]
        assert blocks.shape[0] == correlations.BLOCKS
        expected = 4 * np.pi * r**2 * (r[1] - r[0]) / abs(np.linalg.det(cell)) * count * 200
        off = (blocks.mean(0) - 1) * np.sqrt(expected)
        assert np.abs(off).max() < 4.5 and 0.75 < off.std() < 1.25, (pair, off)


def test_crystal():
    """Peaks of a simple cubic crystal: 6 neighbors at a, 12 at sqrt(2) a."""
    a, n = 3.0, 6
    cells = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    x, cell = a * cells + 0.1, np.eye(3) * a * n
    g, r = correlations.rdf(np.array([x] * 5), np.array([cell] * 5), ["Po"] * len(x))
    shell = 4 * np.pi / 3 * ((r + 0.5 * (r[1] - r[0])) ** 3 - (r - 0.5 * (r[1] - r[0])) ** 3)
    count = g["Po-Po"].mean(0) * shell / a**3
    helpers.assert_near(count[(r > 2.9) & (r < 3.1)].sum(), 6.0, 0.2, "first shell")
    helpers.assert_near(count[(r > 4.1) & (r < 4.4)].sum(), 12.0, 0.4, "second shell")
    angles, degrees = correlations.adf(np.array([x] * 5), np.array([cell] * 5), ["Po"] * len(x), "Po", "Po", 3.5)
    width = degrees[1] - degrees[0]
    near = lambda at: float(angles.mean(0)[np.abs(degrees - at) <= width].sum() * width)
    helpers.assert_near(near(90), 12 / 15, 1e-9, "right angles")
    helpers.assert_near(near(180), 3 / 15, 1e-9, "straight ones")


def test_first_minimum():
    r = np.arange(0.025, 8, 0.05)
    g = np.where(r < 2.4, 0, 1 + 2 * np.exp(-(((r - 2.75) / 0.15) ** 2)) - 0.4 * np.exp(-(((r - 3.4) / 0.3) ** 2)))
    helpers.assert_near(correlations.first_minimum(g, r), 3.4, 0.1, "first minimum")
    assert correlations.first_minimum(np.zeros_like(r), r) is None


def test_diffusion_of_a_random_walk():
    """Steps of variance s^2 per coordinate and time t: D = s^2 / (2 t). All walkers drift together, which is no
    diffusion."""
    rng, step, t = np.random.default_rng(2), 0.08, 0.05
    moves = step * rng.normal(size=(2000, 150, 3)) + np.array([0.02, 0, -0.01])
    x = np.cumsum(moves, axis=0)
    values, lags, square = correlations.diffusion(x, t)
    wanted = step**2 / (2 * t)
    assert len(values) == correlations.BLOCKS
    error = 4 * values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - wanted) < max(error, 0.03 * wanted), (values, wanted)
    np.testing.assert_allclose(square, 6 * wanted * lags, rtol=0.1)


def test_no_diffusion_of_vibrations():
    rng = np.random.default_rng(3)
    x = 0.1 * rng.normal(size=(2000, 50, 3)) + rng.uniform(size=(50, 3)) * 10
    values, _, square = correlations.diffusion(x, 0.05)
    assert np.abs(values).max() < 1e-4 and abs(square[-1] - 6 * 0.01) < 0.005


def test_the_first_peak():
    """Position and height of a known one, with noise; the bond of a molecule before it is another peak."""
    r, rng = np.arange(0.025, 8, 0.05), np.random.default_rng(1)
    g = 1.0 / (1 + np.exp(-(r - 2.55) / 0.05)) + 1.6 * np.exp(-((r - 2.81) ** 2) / (2 * 0.14**2))
    blocks = g + 0.02 * rng.normal(size=(5, len(r))) * (r > 2.4)
    at, height = correlations.first_peak(blocks, r)
    top = np.linspace(2.5, 3.2, 7001)
    exact = 1.0 / (1 + np.exp(-(top - 2.55) / 0.05)) + 1.6 * np.exp(-((top - 2.81) ** 2) / (2 * 0.14**2))
    assert abs(at.mean() - top[exact.argmax()]) < 0.01 and abs(height.mean() - exact.max()) < 0.05
    assert correlations.first_peak(np.zeros((5, len(r))), r) is None
