"""benchmarks/respa.py: what it takes from a trajectory, and a short run."""

import json
import os
import sys

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import respa  # noqa: E402
import respa_residual as residual  # noqa: E402

STUDENT = os.path.join(ROOT, "models", "water-benzene-student.yaml")
SHAPE = np.array([[0.0, 0.0, 0.0], [0.9572, 0.0, 0.0], [-0.24, 0.9266, 0.0]])


def waters(n=400):
    """One frame of molecules [1, n, 3, 3], turned at random in a box of 40 A, and the generator."""
    rng = np.random.default_rng(3)
    turns = np.linalg.qr(rng.standard_normal((n, 3, 3)))[0]
    return (rng.uniform(0, 40, (n, 1, 3)) + np.einsum("ai,mij->maj", SHAPE, turns))[None], rng


def test_temperatures():
    """Velocities of one temperature have it in every kind of motion; rigid motions are recognised as what they are."""
    x, rng = waters()
    sigma = np.sqrt(300.0 / respa.KINETIC / respa.MASS)[:, None]
    v = sigma * rng.standard_normal(x.shape)
    found = dict(zip(respa.MOTIONS, respa.temperatures(x, v)[0]))
    assert all(abs(t - 300.0) < 300.0 * 4 * np.sqrt(2 / 1200) for t in found.values()), found
    center = (respa.MASS[:, None] * x).sum(axis=2, keepdims=True) / respa.MASS.sum()
    spin = np.cross(rng.standard_normal((1, 400, 1, 3)), x - center)
    stretch = np.zeros_like(x)
    stretch[:, :, 1] = x[:, :, 1] - x[:, :, 0]
    stretch[:, :, 0] = -stretch[:, :, 1] * respa.MASS[1] / respa.MASS[0]
    for name, motion in (("translation", np.ones_like(x)), ("rotation", spin)):
        found = dict(zip(respa.MOTIONS, respa.temperatures(x, motion)[0]))
        others = [found[k] for k in ("translation", "rotation", "vibration") if k != name]
        assert found[name] > 1e-3 and np.abs(others).max() < 1e-9 * found[name], (name, found)
    found = dict(zip(respa.MOTIONS, respa.temperatures(x, stretch)[0]))
    assert found["vibration"] > 10 * found["rotation"] and abs(found["translation"]) < 1e-9, found


def test_radial_and_diffusion():
    """Points at random have g = 1; a random walk of known step has its diffusion coefficient."""
    rng = np.random.default_rng(4)
    g = respa.radial(rng.uniform(0, 12.0, (40, 64, 3, 3)), 12.0).mean(axis=0)
    # bins from 3 A on have more than 500 pairs each
    assert np.abs(g[:, 60:] - 1.0).max() < 0.25 and np.abs(g[:, 60:].mean(axis=1) - 1.0).max() < 0.02, g
    steps = np.repeat(0.1 * rng.standard_normal((400, 200, 1, 3)), 3, axis=2)
    d, error = respa.diffusion(np.cumsum(steps, axis=0), ps=0.024)
    expected = 0.1**2 / (2 * 0.024) * 10.0
    assert 0.0 < error < 0.1 * expected and abs(d - expected) < 4 * error, (d, error, expected)


def test_run(tmp_path, capsys):
    """The same model on both levels: no difference but speed."""
    options = ["--wanted", STUDENT, "--inner", STUDENT, "--outer", "4", "--picoseconds", "0.1", "--rounds", "2"]
    options += ["--timing-steps", "48", "--work", str(tmp_path), "--results", str(tmp_path)]
    assert respa.main(options) == 0, capsys.readouterr().err
    stem = tmp_path / "respa-water-benzene-student-water-benzene-student"
    with open(f"{stem}.json", encoding="utf-8") as f:
        report = json.load(f)
    alone, four = report["runs"]
    assert (alone["outer_steps"], four["outer_steps"], four["outer_fs"]) == (0, 4, 2.0)
    assert four["drift_mev_per_atom_per_ps"] == pytest.approx(alone["drift_mev_per_atom_per_ps"], abs=0.05)
    assert 250 < alone["temperature_K"]["all"] < 350 and 0.2 < four["gain"] < 1.0
    assert max(alone["g"]["OO"]) > 2.0 and max(alone["g"]["OO"][:40]) < 0.1
    with open(f"{stem}.txt", encoding="utf-8") as f:
        assert len(f.read().splitlines()) == 7
    with pytest.raises(SystemExit):
        respa.main(["--outer", "5"])


def test_residual(tmp_path, capsys):
    """A force of one frequency is in its band with its root mean square; of a model's own forces nothing is left."""
    t = np.arange(1000)[:, None, None] * 0.001
    wave = np.cos(2 * np.pi * 3700.0 / residual.CM * t) * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = residual.bands(wave, respa.MASS[[1, 1]], 0.001)
    assert found[3] == pytest.approx(np.sqrt(1 / 6), rel=0.01) and np.delete(found, 3).max() < 1e-3, found
    assert residual.bands(wave, 4 * respa.MASS[[1, 1]], 0.001) == pytest.approx(found / 2)
    options = ["--wanted", STUDENT, "--inner", STUDENT, "--frames", "40"]
    options += ["--work", str(tmp_path), "--results", str(tmp_path)]
    assert residual.main(options) == 0, capsys.readouterr().err
    rows = (tmp_path / "respa-residual-water-benzene-student.txt").read_text().splitlines()[-2:]
    assert 500 < float(rows[0].split()[1]) < 1500 and float(rows[1].split()[1]) < 1e-3, rows
