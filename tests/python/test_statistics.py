"""Means, slopes and errors of correlated data, on data whose answers are known."""

import helpers
import numpy as np
import pytest

from mlff_tools.ensemble import statistics


def correlated(n, memory, rng):
    """A series of mean 0, standard deviation 1 and correlation memory^k."""
    noise = rng.normal(size=n) * np.sqrt(1 - memory**2)
    out = np.empty(n)
    out[0] = rng.normal()
    for k in range(1, n):
        out[k] = memory * out[k - 1] + noise[k]
    return out


@pytest.mark.parametrize("n, quantile", [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_quantiles_of_student(n, quantile):
    helpers.assert_near(statistics.student(n), quantile, 3e-3, f"t of {n}")


def test_inefficiency_of_a_correlated_series():
    """A series of memory m has the inefficiency (1 + m) / (1 - m)."""
    rng = np.random.default_rng(1)
    for memory in (0.0, 0.5, 0.9):
        found = np.mean([statistics.inefficiency(correlated(20000, memory, rng)) for _ in range(5)])
        wanted = (1 + memory) / (1 - memory)
        assert abs(found / wanted - 1) < 0.15, (memory, found, wanted)


@pytest.mark.parametrize("memory", [0.0, 0.95])
def test_intervals_of_a_mean_hold_it(memory):
    """95 of 100 intervals hold the mean; with a naive error of correlated data it would be about 25 of 100."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        found = statistics.mean(correlated(2000, memory, rng))
        assert found.enough == (memory == 0.0 or found.enough)
        inside += abs(found.value) <= found.error
    assert 0.91 * 300 <= inside <= 0.985 * 300, inside


def test_too_short_for_a_mean():
    rng = np.random.default_rng(3)
    assert statistics.mean(correlated(4000, 0.9, rng)).enough
    assert not statistics.mean(correlated(200, 0.99, rng)).enough
    assert not statistics.mean(np.ones(5)).enough
    assert not statistics.mean([]).enough
    bad = statistics.mean([1.0] * 30 + [np.nan])
    assert not bad.enough


def test_slope_and_its_interval():
    rng, inside = np.random.default_rng(4), 0
    x = np.linspace(0, 10, 2000)
    for _ in range(200):
        found = statistics.slope(x, 0.3 * x + 2 + rng.normal(size=len(x)))
        inside += abs(found.value - 0.3) <= found.error
    assert 180 <= inside <= 198, inside
    assert not statistics.slope([0, 1], [0, 1]).enough and not statistics.slope([0, 1, 2], [0, np.nan, 1]).enough


def test_interval_of_a_root_mean_square():
    """Frames of one trajectory are alike: leaving out trajectories sees that."""
    rng, inside, n = np.random.default_rng(5), 0, 200
    for _ in range(n):
        widths = rng.uniform(0.8, 1.2, 12)
        squares = [((rng.normal(size=300) * w) ** 2).sum() for w in widths for _ in range(5)]
        found = statistics.root_mean_square([(s, 300) for s in squares], [f"t{k // 5}" for k in range(60)])
        wanted = np.sqrt(1.0 + 0.4**2 / 12)
        inside += abs(found.value - wanted) <= found.error
    assert 0.88 * n <= inside <= 0.99 * n, inside
    assert not statistics.root_mean_square([(1.0, 3)], ["a"]).enough
    assert statistics.root_mean_square([(12.0, 3)], ["a"]).value == 2.0


def test_power_law():
    x = np.array([0.25, 0.375, 0.5, 0.75])
    found = statistics.power_law(x, 3 * x**2)
    helpers.assert_near(found.value, 2.0, 1e-12, "exponent")
    assert found.error < 1e-9
    assert not statistics.power_law(x, [0.0, 1, 2, 3]).enough
