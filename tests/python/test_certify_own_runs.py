"""mlff certify: errors on frames of the model's own runs, and the teacher's run from the same start."""

import json
import os
import shutil

import helpers
import numpy as np
import yaml

from mlff_tools.certify import command, lifetime, own_runs, rows, runner
from mlff_tools.certify.systems import System
from mlff_tools.model import modelfile

MODELS = os.path.join(helpers.ROOT, "models")
CELL = 4.0 * np.eye(3)


def compared(per_run, runs=4, bias=0.002, spread=0.0005, pressure=1e-4, seed=1):
    """Differences of frames of runs: mean and spread by run (eV/atom), forces off by 0.1 of 1 eV/A."""
    rng, out = np.random.default_rng(seed), []
    for k, mine in enumerate(bias + spread * rng.normal(size=runs)):
        for _ in range(per_run):
            frame = {"run": k, "forces": np.ones((2, 3)), "elements": ["Al", "Al"]}
            stress = -pressure * np.eye(3)
            out.append({"frame": frame, "energy": mine, "forces": 0.1 * rng.normal(size=(2, 3)), "stress": stress})
    return out


def test_rows_of_a_state():
    """A shift of all energies is a bias and an error; forces and pressure have the right units."""
    found = {r["quantity"]: r for r in own_runs.rows_of("Al 300 K", compared(200, spread=0.0))}
    assert set(found) == {"run_energy", "run_bias", "run_forces", "run_pressure"}
    assert abs(found["run_energy"]["value"] - 2) < 1e-9 and abs(found["run_bias"]["value"] - 2) < 1e-9
    assert abs(found["run_forces"]["value"] - 100) < 3 and abs(found["run_forces"]["scale"] - 1000) < 1e-9
    assert abs(found["run_pressure"]["value"] - 1e-4 * 1602176.634) < 1e-3
    said = {q: rows.verdict(r, bar)[0] for (q, r), bar in zip(found.items(), (2.1, 1.0, "12 %", 200))}
    assert said == {"run_energy": "PASS", "run_bias": "FAIL", "run_forces": "PASS", "run_pressure": "PASS"}
    negative = own_runs.rows_of("Al 300 K", compared(3, bias=-0.002, spread=0.0))[1]
    assert abs(negative["value"] + 2) < 1e-9 and rows.verdict(negative, 1.0)[0] == "FAIL"


def test_intervals_are_those_of_runs():
    """Frames of one run count as one: 50 times as many of them leave the interval as it is."""
    few, many = (own_runs.rows_of("x", compared(n))[1] for n in (1, 50))
    assert abs(few["error"] / many["error"] - 1) < 1e-9 and many["error"] > 0.2
    hits = [own_runs.rows_of("x", compared(3, seed=k))[1] for k in range(300)]
    covered = np.mean([abs(r["value"] - 2) <= r["error"] for r in hits])
    assert 0.9 < covered < 0.99
    alone = own_runs.rows_of("x", compared(12, runs=1))
    assert all(r["enough"] is False for r in alone) and alone[0]["lacks"] == "1 of 4 runs"
    assert rows.verdict(alone[1], 1.0)[0] == "too short to say"


def test_frames_before_a_failure():
    """Are left out for half a picosecond; others are taken evenly from all runs."""
    frame = {"elements": ["Al"], "positions": np.zeros((1, 3)), "cell": CELL}
    corner = lifetime.Corner("Al", System("Al", "crystal", frame, 300, 1.0, 400, frame), {})
    found = []
    for ended, ps in (("end", 5.0), ("an error", 3.0), ("an error", 0.4), ("end", 5.0)):
        table = np.ones((10, 7))
        table[:, 0] = np.linspace(0, 1000 * ps, 10)
        times = np.arange(0, 1 + round(10 * ps)) / 10
        x = times[:, None, None] * np.ones((1, 1, 3))
        made = runner.Trajectory(table, x, np.tile(CELL, (len(x), 1, 1)), ["Al"], runner.protocol(), ended, None)
        made.frame_ps = times
        found.append(made)
    frames = own_runs.chosen(corner, found)
    assert len(frames) == own_runs.FRAMES
    by_run = {k: [f["positions"][0, 0] for f in frames if f["run"] == k] for k in range(4)}
    assert not by_run[2] and max(by_run[1]) <= 2.5 and max(by_run[0]) > 4 and max(by_run[3]) == 5.0
    assert all(t > 0 for times in by_run.values() for t in times)
    assert own_runs.chosen(corner, found[2:3]) == []


@helpers.needs_lammps
def test_own_runs(tmp_path, monkeypatch):
    """aluminium-m against itself with 2 meV/atom more: this is the bias, and all else is right."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lifetime, "LEAST", 32)
    shutil.copy(os.path.join(MODELS, "aluminium-m.safetensors"), tmp_path)
    head = modelfile.load_yaml(os.path.join(MODELS, "aluminium-m.yaml"))
    head["energy_offsets"]["Al"] += 0.002
    for structure in head["self_test"]["structures"]:
        structure["energy"] += 0.002 * len(structure["elements"])
        if "atom_energies" in structure:
            structure["atom_energies"] = [e + 0.002 for e in structure["atom_energies"]]
    modelfile.write_head("shifted.yaml", head)
    item = {"crystal": {"lattice": "fcc", "elements": ["Al"], "constant": 4.03}, "name": "Al", "temperature": 300}
    value = {"teacher": {"mlff": "shifted"}, "bars": {"run_bias": 1.0, "run_forces": 1.0}}
    value["certify"] = {"systems": [{**item, "high": 600}], "measure": ["own_runs"], "scale": 0.001}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(value))
    command.main([os.path.join(MODELS, "aluminium-m.yaml"), "r.yaml", "-o", "c.html"])
    with open("c.json", encoding="utf-8") as f:
        found = json.load(f)
    states = ["Al 300 K", "Al 600 K", "Al 600 K dense", "Al 600 K stretched"]
    of = lambda q: {r["group"]: r for r in found["measurements"]["own_runs"]["rows"] if r["quantity"] == q}
    assert list(of("run_bias")) == states
    for group in states:
        assert abs(of("run_bias")[group]["value"] + 2) < 0.05 and abs(of("run_energy")[group]["value"] - 2) < 0.05
        assert of("run_forces")[group]["value"] < 0.1 < of("run_forces")[group]["scale"]
        assert abs(of("run_pressure")[group]["value"]) < 1
        assert of("run_bias")[group]["note"] == "12 frames of 4 runs"
    assert {b["verdict"] for b in found["bars"] if b["quantity"] == "run_bias"} == {"FAIL"}
    assert {b["verdict"] for b in found["bars"] if b["quantity"] == "run_forces"} == {"PASS"}
    thirds = of("teacher_run_pressure")
    assert list(thirds) == [f"Al {third} third" for third in own_runs.THIRDS]
    for r in (*thirds.values(), *of("teacher_run_temperature").values()):
        assert abs(r["value"] - r["teacher"]) < 1e-3 * abs(r["teacher"])
    page = (tmp_path / "c.html").read_text()
    assert "own runs: error by state" in page and "mean error of energies in own runs" in page
