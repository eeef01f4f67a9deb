"""mlff.profile and mlff.compare: calculators of ASE in the format of fix mlffprof."""

import os
import subprocess
import time

import helpers
import numpy as np
import pytest

import mlff

pytest.importorskip("ase")
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import Calculator, all_changes


class Slow(Calculator):
    """Sleeps in every calculation, and counts them."""

    implemented_properties = ("energy", "forces")

    def __init__(self, seconds, fails_at=None, keeps=0):
        super().__init__()
        self.seconds, self.fails_at, self.keeps, self.n, self.kept = seconds, fails_at, keeps, 0, []

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.n += 1
        if self.n == self.fails_at:
            raise ValueError("it fell")
        if self.keeps:
            self.kept.append(np.ones(self.keeps))
        time.sleep(self.seconds)
        self.results = {"energy": 0.0, "forces": np.zeros((len(atoms), 3))}


CRYSTAL = bulk("Al", cubic=True).repeat(2)


def test_times_and_counts(tmp_path):
    """One calculation in each step, energy and forces together; the steps of the warm-up are left out; the file is one
    that the program reads."""
    slow, path = Slow(0.002), tmp_path / "slow.json"
    before = CRYSTAL.get_positions()
    report = mlff.profile(slow, CRYSTAL, steps=30, warmup=5, name="mine", file=path)
    assert slow.n == 35 and (CRYSTAL.get_positions() == before).all() and CRYSTAL.calc is None
    assert (report["n_steps"], report["n_atoms"], report["name"], report["model_name"]) == (30, 32, "mine", "Slow")
    assert 2.0 <= report["median_latency_ms"] < 4.0 and len(report.latencies) == 30
    assert report["context"]["calculator"] == "test_api_profile.Slow"
    program = helpers.program()
    if program:
        text = subprocess.run([program, "show", str(path)], check=True, capture_output=True, text=True).stdout
        assert "mine: Slow" in text and "32 atoms" in text


def test_models_and_trajectories():
    frames = [CRYSTAL.copy() for _ in range(3)]
    for k, frame in enumerate(frames):
        frame.rattle(0.02, seed=k)
    report = mlff.profile("iron-m", [Atoms("Fe2", [[0, 0, 0], [0, 0, 2.4 + 0.1 * k]]) for k in range(3)], steps=20)
    assert report["n_atoms"] == 2 and report["model_name"] == "iron-m" and report["median_latency_ms"] < 5
    slow = Slow(0.0)
    mlff.profile(slow, frames, steps=10, warmup=2)
    assert slow.n == 12, "frames in turn, none of which is the one before"


def test_growth_of_memory_is_seen():
    report = mlff.profile(Slow(0.0, keeps=250_000), CRYSTAL, steps=200, warmup=20)
    assert report["memory"]["verdict"] == "leak" and report.memory_stable is False


def test_ranking():
    quick, slow = (mlff.profile(Slow(s), CRYSTAL, steps=60, warmup=5, name=n) for n, s in (("a", 0.001), ("b", 0.004)))
    small = mlff.profile(Slow(0.001), CRYSTAL[:8], steps=60, warmup=5, name="c")
    rows = mlff.compare([slow, quick, small])
    assert [row["name"] for row in rows] == ["a", "b", "c"], "per atom, c is as slow as b, with its overhead"
    a, b, _ = rows
    assert b["speed_up"] == 1 and 2.5 < a["low"] <= a["speed_up"] <= a["high"] < 4.5
    assert str(rows).splitlines()[1].split()[:2] == ["a", "32"]


@pytest.mark.parametrize(
    "words,text",
    [
        ({"calculator": 3}, "3 is neither an ASE calculator nor a model"),
        ({"calculator": "nothing"}, "no model nothing"),
        ({"atoms": []}, "expected an ase.Atoms with atoms"),
        ({"atoms": Atoms()}, "expected an ase.Atoms with atoms"),
        ({"steps": 0}, "0 steps"),
        ({"memory_every": -1}, "memory every -1"),
        ({"file": os.path.join("none", "r.json")}, "none"),
    ],
)
def test_refused(words, text):
    with pytest.raises(mlff.Error, match=text):
        mlff.profile(**{"calculator": Slow(0.0), "atoms": CRYSTAL, "steps": 3, **words})


def test_errors_of_calculators_pass():
    with pytest.raises(ValueError, match="it fell"):
        mlff.profile(Slow(0.0, fails_at=4), CRYSTAL, steps=10, warmup=0)
    with pytest.raises(mlff.Error, match="no reports"):
        mlff.compare([])
