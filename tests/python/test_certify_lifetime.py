"""mlff certify: how long the model's own runs live, what a failure is, and the limits of its rate."""

import glob
import json
import math
import os
import signal
import subprocess
import sys
import types

import helpers
import kills
import numpy as np
import pytest
import yaml
from nightly import only

from mlff_tools.certify import command, job, lifetime, rows, runner
from mlff_tools.certify.systems import System, repeated
from mlff_tools.model import lammps
from mlff_tools.train import lattices

MODELS = os.path.join(helpers.ROOT, "models")
SILICON = {"lattice": "diamond", "elements": ["Si"], "constant": 5.47}
ALUMINIUM = {"lattice": "fcc", "elements": ["Al"], "constant": 4.03}
# Exact 95 % limits of the mean of a Poisson distribution (F. Garwood, Biometrika 28, 437, 1936)
GARWOOD = {1: (0.0253, 5.5716), 2: (0.2422, 7.2247), 3: (0.6187, 8.7673), 10: (4.7954, 18.3904), 30: (20.2409, 42.8269)}


runs = helpers.needs_lammps


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_limits():
    for n, (low, high) in GARWOOD.items():
        value, shortest, longest = lifetime.mean_time(1000.0, n)
        assert value == 1000 / n
        assert abs(1000 / longest - low) < 1e-4 and abs(1000 / shortest - high) < 1e-4, n
    value, low, high = lifetime.mean_time(1e6, 0)
    assert value == low and abs(1e6 / low - 2.9957) < 1e-4 and high == math.inf


def test_limits_hold_what_is_true():
    """In runs of one length with a known rate, 95 % of the intervals or more contain it."""
    counts, true = np.random.default_rng(1).poisson(4.0, 400), 25.0
    found = [lifetime.mean_time(100.0, int(n))[1:] for n in counts]
    assert np.mean([low <= true <= high for low, high in found]) >= 0.95


@pytest.mark.parametrize(
    ("atom_ps", "failures", "verdict"),
    [(1e6, 0, "PASS"), (8e5, 0, "too short to say"), (1e6, 3, "too short to say"), (1e6, 9, "FAIL"), (1e7, 9, "PASS")],
)
def test_bar(atom_ps, failures, verdict):
    value, low, high = lifetime.mean_time(atom_ps, failures)
    r = rows.plain(rows.row("lifetime", "all", value, low=low, high=high))  # as in JSON
    assert rows.verdict(r, 300000)[0] == verdict


def test_a_corner_that_fails_is_not_made_up_for(monkeypatch):
    """Others that live long do not hide it: the row `all` has the value of the worst corner."""
    system = System("Al", "crystal", lattices.crystal(**ALUMINIUM), 300, 1)
    corners = [lifetime.Corner(name, system, {}) for name in ("cold", "hot")]
    run = lambda ps, ended: types.SimpleNamespace(ps=ps, warm_ps=0.0, ended=ended)
    found = {"cold": [run(1e6, "end")] * 5, "hot": [run(2500.0, "ERROR: Lost atoms")] * 8}
    monkeypatch.setattr(lifetime, "all_corners", lambda _: corners)
    monkeypatch.setattr(lifetime, "steps_of", lambda *_: 10**9)
    monkeypatch.setattr(lifetime, "lives", lambda _, corner, __: found[corner.group])
    fake = types.SimpleNamespace(timestep=lambda _: 1.0, write=lambda _: None)
    whole, _, hot = lifetime.measure(fake)["rows"]
    assert whole["group"] == "all" and whole["value"] == hot["value"] == 10000.0
    assert rows.verdict(whole, 3e5)[0] == rows.FAIL and "the value is that of hot" in whole["note"]
    found["hot"] = [run(1e6, "end")]
    whole = lifetime.measure(fake)["rows"][0]
    assert rows.verdict(whole, 3e5)[0] == rows.PASS


def test_powers_of_ten(tmp_path):
    """Are numbers, as in YAML 1.2."""
    (tmp_path / "r.yaml").write_text("certify: {lifetime: 1e6}\nbars: {lifetime: 3E5}\n")
    _, bars, settings, *_ = command.read_recipe(str(tmp_path / "r.yaml"))
    assert settings["lifetime"] == 1e6 and bars == {"lifetime": {"all": 3e5}}


# ---- failures -------------------------------------------------------------------------------------------------------


def crystal(t=1000.0, crystal=ALUMINIUM):
    unit = lattices.crystal(**crystal)
    return System("X", "crystal", repeated(unit, 200), t, 1.0, t, unit)


def series(system, seed=1):
    """Rows of a canonical run of harmonic atoms."""
    rng, n, kt = np.random.default_rng(seed), len(system.frame["elements"]), lifetime.BOLTZMANN * system.temperature
    out = np.ones((1000, 7))
    out[:, 0] = lifetime.EVERY * np.arange(1000)
    out[:, 1] = system.temperature * (1 + math.sqrt(2 / (3 * n)) * rng.normal(size=1000))
    out[:, 2] = -3.0 * n + math.sqrt(1.5 * n) * kt * rng.normal(size=1000)
    return out


def test_fluctuations_are_no_failure():
    system = crystal()
    judge = lifetime.Judge(system, {("Al", "Al"): 2.4})
    frames = {20 * k: (system.frame["positions"], system.frame["cell"]) for k in range(40)}
    for seed in range(50):
        assert judge.failure(series(system, seed), frames) is None
    expands = series(system)  # as it melts: the energy rises
    expands[500:, 2] += 30.0
    assert judge.failure(expands, frames) is None


def test_failures():
    system = crystal()
    judge, n = lifetime.Judge(system, {("Al", "Al"): 2.4}), len(system.frame["elements"])
    frame = (system.frame["positions"], system.frame["cell"])
    for column, k, value, words in (
        (1, 300, (5 + 50 / n) * 1000 + 10, "the temperature is"),
        (2, 400, -3.0 * n - 30, "the potential energy fell by"),
        (6, 50, np.nan, "a number is NaN"),
        (1, slice(500, None), 300.0, "the mean temperature is 300 K, not 1000 K"),
    ):
        bad = series(system)
        bad[k, column] = value
        step, why = judge.failure(bad, {0: frame})
        assert why.startswith(words)
        assert step == lifetime.EVERY * (k if isinstance(k, int) else 500)
    close = system.frame["positions"].copy()
    close[1] = close[0] + [1.9, 0, 0]
    assert judge.failure(series(system), {0: frame, 20: (close, frame[1])}) == (
        20,
        "Al-Al distance 1.9 A, below 1.92 A",
    )
    close[1] = close[0] + [1.93, 0, 0]
    assert judge.failure(series(system), {0: frame, 20: (close, frame[1])}) is None
    assert lifetime.Judge(system, {}).failure(series(system), {0: (0 * close, frame[1])}) is None  # nothing is known


def test_broken_bonds():
    x = np.array([[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0], [4.0, 4, 4], [4.96, 4, 4], [3.76, 4.93, 4]])
    frame = {"elements": ["O", "H", "H"] * 2, "positions": x, "cell": 8.0 * np.eye(3)}
    system = System("water", "liquid", frame, 300, 1.0)
    judge, rest = lifetime.Judge(system, {}), np.zeros((0, 7))
    moved = x + [[0, 0, 0], [0.2, 0, 0], [0, 0, 0], [8, 0, 0], [8.1, 0, 0], [0, 8, 0]]  # images of bonded atoms
    assert judge.failure(rest, {0: (x, frame["cell"]), 20: (moved, frame["cell"])}) is None
    moved[1, 0] += 1.2
    step, why = judge.failure(rest, {0: (x, frame["cell"]), 20: (moved, frame["cell"])})
    assert step == 20 and why == "a bond O-H is 2.36 A long"
    assert lifetime.Judge(crystal(), {}).bonds is None


# ---- corners --------------------------------------------------------------------------------------------------------


class FakeJob:
    """What lifetime.corners asks for; the hot crystal has 6 % more volume."""

    def __init__(self, **domain):
        self.head, self.model, self.settings = {"domain": domain}, None, {"scale": 1.0, "timestep": 1.0}

    steps, timestep = job.Job.steps, job.Job.timestep

    def trajectory(self, side, system, *_, **given):
        assert given["ensemble"] == "npt" and system.temperature == 1000
        table = np.ones((100, 7))
        table[:, runner.COLUMNS.index("vol")] = 1.06 * abs(np.linalg.det(system.frame["cell"]))
        return runner.Trajectory(table, None, None, system.frame["elements"], runner.protocol(), "end", None)


def densities(found):
    return [lifetime.density(c.system.frame) for c in found]


def test_corners_of_a_crystal():
    unit = lattices.crystal(**ALUMINIUM)
    system = System("Al", "crystal", repeated(unit, 32), 300, 1.0, 1000, unit)
    cold = lifetime.density(unit)
    found = lifetime.corners(FakeJob(density=[1.0, 4.0]), system)
    assert [c.group for c in found] == ["Al 1000 K", "Al 1000 K dense", "Al 1000 K stretched"]
    assert [c.given["ensemble"] for c in found] == ["npt", "nvt", "nvt"]
    assert all(c.system.temperature == 1000 and len(c.system.frame["elements"]) == 256 for c in found)
    assert np.allclose(densities(found), [cold, cold / 1.06 * 1.05, cold / 1.06 * 0.95])
    bounded = lifetime.corners(FakeJob(density=[0.99 * cold / 1.06, 1.02 * cold / 1.06]), system)
    assert np.allclose(densities(bounded), [cold, cold / 1.06 * 1.02, cold / 1.06 * 0.99])


def test_corners_of_a_liquid_and_a_molecule():
    x = np.array([[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    frame = {"elements": ["O", "H", "H"], "positions": x, "cell": 3.1 * np.eye(3)}
    made = FakeJob(density=[0.9, 3.0], temperature=[280, 700])
    found = lifetime.corners(made, System("liquid", "liquid", frame, 300, 1.0))
    assert [c.group for c in found] == ["liquid 700 K", "liquid 700 K dense", "liquid 700 K stretched"]
    mine = lifetime.density(frame)
    assert np.allclose(densities(found), [mine, 1.15 * mine, max(0.9, 0.85 * mine)])
    assert [c.given["ensemble"] for c in found] == ["nvt"] * 3 and [c.system.packed for c in found] == [
        False,
        True,
        True,
    ]
    (alone,) = lifetime.corners(made, System("water", "molecule", {**frame, "cell": None}, 300, 1.0))
    assert alone.group == "water 700 K" and len(alone.system.frame["elements"]) == 3


# ---- runs -----------------------------------------------------------------------------------------------------------


def recipe(folder, crystal, high, **certify):
    item = {"crystal": crystal, "name": "X", "temperature": 300, "high": high}
    value = {"kind": "metal", "certify": {"systems": [item], "measure": ["lifetime"], **certify}}
    (folder / "r.yaml").write_text(yaml.safe_dump(value))
    return ["r.yaml", "-o", "c.html"]


def certify(model, words):
    command.main([os.path.join(MODELS, model), *words])
    with open("c.json", encoding="utf-8") as f:
        found = json.load(f)
    bar = next(b for b in found["bars"] if b["quantity"] == "lifetime")
    return {r["group"]: r for r in found["measurements"]["lifetime"]["rows"]}, bar["verdict"]


class Stub(runner.Judge):
    def failure(self, rows, frames):
        late = [k for k in rows[:, 0] if k >= 240]
        assert late or sorted(frames) == list(range(0, 201, 20))  # all frames of the segment
        return (late[0], "it fell") if late else None


@runs
def test_a_judge_ends_a_run(tmp_path, monkeypatch):
    """Where it says so: later rows and frames are dropped, four frames stay of a segment that is right."""
    monkeypatch.setattr(runner, "SEGMENT", 200)
    potential = runner.of_model(os.path.join(MODELS, "aluminium-m.yaml"), ["Al"], "fp32", lammps.find_plugin())
    p = runner.protocol(steps=600, warm=100, every=20, dump=20, dump_warm=True)
    frame = repeated(lattices.crystal(**ALUMINIUM), 32)
    for _ in range(2):  # the second time nothing is run
        found = runner.run(lammps.find_lmp(), potential, frame, p, str(tmp_path), 600, Stub())
        assert found.ended == "it fell" and lifetime.failed(found)
        assert abs(found.ps - 0.24) < 1e-9 and abs(found.warm_ps - 0.1) < 1e-9 and found.rows[-1, 0] == 240
        assert np.allclose(1000 * found.frame_ps, [40, 100, 140, 200, 220, 240]) and len(found.positions) == 6
        assert len(json.loads((tmp_path / "segments.json").read_text())) == 2
    assert not runner._frames(str(tmp_path / "warm.0"))


@runs
def test_a_model_that_explodes(tmp_path, monkeypatch):
    """Silicon at 3000 K with a time step of 12 fs: failures with their frames, after each another run, FAIL."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lifetime, "LEAST", 64)
    monkeypatch.setattr(lifetime, "MOST", 3)
    monkeypatch.setattr(lifetime, "EVERY", 5)  # it fails within a hundred steps
    found, verdict = certify(
        "silicon-m.yaml", [*recipe(tmp_path, SILICON, 3000, lifetime=3e4, timestep=12), "--jobs", "2"]
    )
    assert verdict == "FAIL" and list(found) == ["all", "X 3000 K", "X 3000 K dense", "X 3000 K stretched"]
    r = found["X 3000 K"]
    assert r["failures"] == 3 and r["high"] < 3e5 and "3 failures in" in r["note"] and "[mlff-41]" not in r["note"]
    assert r["value"] == r["atom_ps"] / 3 and 0 < r["atom_ps"] < 1e4
    (place,) = glob.glob("*.work/model-lifetime-X_3000_K-*")
    seeds = {open(path, encoding="utf-8").read() for path in glob.glob(f"{place}/run-*/in.0")}
    assert len(seeds) == 3
    for k in (1, 2, 3):  # the frames before the failure
        frames = {**runner._frames(f"{place}/run-{k}/warm.0"), **runner._frames(f"{place}/run-{k}/frames.0")}
        assert len(frames) >= 5 and set(np.diff(sorted(frames))) == {lifetime.EVERY}


@runs
def test_a_model_that_lives(tmp_path, monkeypatch):
    """aluminium-m at 300 K has no failure; a third of its atom-picoseconds is the value. Killed, it continues: the
    same with any number of runs at a time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lifetime, "LEAST", 32)
    words = recipe(tmp_path, ALUMINIUM, 301, lifetime=300.0, scale=0.1)
    found, verdict = certify("aluminium-m.yaml", [*words, "--jobs", "1"])
    assert verdict == "too short to say"
    assert all(r["failures"] == 0 and abs(r["atom_ps"] / r["value"] - 2.9957) < 1e-3 for r in found.values())
    assert "no failure in" in found["all"]["note"] and "12 runs of 32 atoms" in found["all"]["note"]
    steps = 3 * 4 * (100 + 500)  # warm ones count
    assert abs(found["all"]["atom_ps"] - 32 * steps / 1000) < 1e-6
    for kill in ("run-1/segments.json", "run-3/segments.json"):
        given = [os.path.join(MODELS, "aluminium-m.yaml"), *words, "--work", "k", "--jobs", "3"]
        script = f"from mlff_tools.certify import command, lifetime\nlifetime.LEAST = 32\ncommand.main({given!r})"
        env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
        words_of = [sys.executable, "-c", script]
        with subprocess.Popen(words_of, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            seen = lambda kill=kill: bool(glob.glob(f"k/model-lifetime-X_301_K-*/{kill}"))
            assert kills.kill_when(process.pid, seen, 0.01) == kills.KILLED
    again, _ = certify("aluminium-m.yaml", [*words, "--work", "k", "--jobs", "4"])
    assert again == found


class Run:
    """A run of `ps` that ended so after `seconds` of a core."""

    def __init__(self, ps, ended, seconds):
        self.ps, self.ended, self.seconds, self.timestep_ps = ps, ended, seconds, 1e-3


def test_runs_at_the_same_time_in_too_little_time(tmp_path, monkeypatch):
    """Each run has the same time, all that ran count, and a failure is found with any number of runs at a time."""
    frame = lattices.crystal(**ALUMINIUM)
    corner = lifetime.Corner("X", System("X", "crystal", frame, 300, 1.0), {})

    def run(lmp, potential, frame, p, place, share, judge, stop):
        k, ps = int(place[-1]), min(50.0, share)  # a second for a ps
        return Run(10.0, "it fell", 10.0) if k == 4 else Run(ps, "end" if ps == 50 else "time", ps)

    monkeypatch.setattr(lifetime.runner, "run", run)
    model = types.SimpleNamespace(potential=lambda elements: None, identity={"runs": "x"})
    work_of = types.SimpleNamespace(place=lambda name, inputs: str(tmp_path))
    found = {}
    for jobs in (1, 2, 3, 4, 8):
        one = types.SimpleNamespace(
            model=model,
            head={},
            work=work_of,
            lmp="lmp",
            jobs=jobs,
            seconds=lambda: 100.0,
            protocol=lambda *_, **__: {"seed": 1},
        )
        runs_of = lifetime.lives(one, corner, 200000)
        found[jobs] = [(round(r.ps), r.ended) for r in runs_of]
        assert (10, "it fell") in found[jobs] and sum(r.seconds for r in runs_of) <= 101, found
    assert found[1][:4] == found[2][:4] == found[4][:4] == found[8][:4] == [(25, "time")] * 3 + [(10, "it fell")]


@runs
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_signal_to_the_process_alone(jobs, tmp_path, monkeypatch):
    """SIGTERM, as from a batch system, ends it and its runs at once, and the same command continues."""
    monkeypatch.chdir(tmp_path)
    words = [*recipe(tmp_path, ALUMINIUM, 301, lifetime=1e6), "--work", "k", "--jobs", jobs]
    given = [os.path.join(MODELS, "aluminium-m.yaml"), *words]
    script = f"import sys\nfrom mlff_tools.certify import command\nsys.exit(command.main({given!r}))"
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    with open("said", "w", encoding="utf-8") as said:
        process = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.DEVNULL, stderr=said)
    seen = lambda: bool(glob.glob("k/model-lifetime-X_301_K-*/run-1/log.0"))
    assert kills.kill_when(process.pid, seen, how=signal.SIGTERM) == 2
    text = (tmp_path / "said").read_text()
    assert text.rstrip().endswith("stopped; run the same command to continue (SIGTERM)")
    assert not glob.glob("k/model-lifetime-X_301_K-*/run-*/segments.json")


@only
@runs
def test_silicon_at_the_top_of_its_domain(tmp_path, monkeypatch):
    """silicon-m with 216 atoms at 1520 K has no failure; the student before it had 54 in 6.4e4 atom-ps."""
    monkeypatch.chdir(tmp_path)
    found, _ = certify("silicon-m.yaml", recipe(tmp_path, SILICON, 1520, lifetime=1e5, minutes=20))
    assert found["all"]["failures"] == 0 and found["all"]["atom_ps"] >= 1e5
