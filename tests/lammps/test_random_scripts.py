"""Random scripts (random_scripts.py): 200 with fixed seeds, and those that have found faults."""

import glob
import os

import numpy as np
import pytest
import random_scripts
import script_grammar
import script_oracle

SEEDS = range(200)
FINDS = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", "*.lmp")))


def test_seeds(court):
    """Every script gives the results of the reference or one error, and many give results."""
    verdicts = court.judge_seeds(SEEDS)
    failures = [f"seed {seed}: {v.kind}: {v.text}" for seed, v in verdicts.items() if v.failed]
    assert not failures, "\n".join([*failures, "python tests/lammps/random_scripts.py --shrink SEED shows why"])
    assert sum(v.kind == random_scripts.OK for v in verdicts.values()) > len(SEEDS) // 4
    assert sum(v.n_checked for v in verdicts.values()) > 3 * len(SEEDS)


@pytest.mark.parametrize("path", FINDS, ids=[os.path.basename(path) for path in FINDS])
def test_finds(court, path):
    """Scripts that found faults give right results, or the error of their second line."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    ranks, lines = random_scripts.parse(text)
    verdict = court.batch([lines], ranks)[0]
    if random_scripts.NO_OPENMP in verdict.text:
        pytest.skip(random_scripts.NO_OPENMP)
    assert not verdict.failed and verdict.n_checked, verdict.text
    wanted = text.splitlines()[1].removeprefix("# ")
    assert verdict.kind == random_scripts.OK if wanted == "right" else wanted in verdict.text, verdict.text


WATCHED = """# ranks 2
units metal
newton off
region box block 0 5 0 6 0 5.5
create_box 2 box
mass 1 15.999
mass 2 1.008
create_atoms 1 single 1 1 1
create_atoms 2 single 2 1 1
create_atoms 2 single 4.5 1 1
create_atoms 1 single 3 4 5
pair_style hybrid/overlay mlff precision fp64 lj/cut 5.0
pair_coeff * * lj/cut 0.01 1.5
pair_coeff * * mlff painn.yaml O H
#watch
fix 1 all nve
run 3"""


@pytest.mark.parametrize("change", ("", "energy", "force", "lj", "image"))
def test_the_oracle_notices(court, monkeypatch, change):
    """A small difference in any part of the reference is a failure."""
    evaluate, lj = script_oracle.Oracle.evaluate, script_oracle.lj

    def other(self, *state):
        energy, forces, virial, atoms = evaluate(self, *state)
        forces[-1, 2] += 1e-6 * (change == "force")
        return energy + 1e-6 * (change == "energy"), forces, virial, atoms

    def other_lj(pair, types, x, cell, pbc):
        return lj(pair, types, x, cell, pbc if change == "lj" else [False] * 3)

    if change in ("energy", "force"):
        monkeypatch.setattr(script_oracle.Oracle, "evaluate", other)
    if change in ("lj", "image"):
        monkeypatch.setattr(script_oracle, "lj", other_lj)
    verdict = court.batch([random_scripts.parse(WATCHED)[1]], 2)[0]
    assert verdict.failed == (change in ("energy", "force", "image")), verdict.text
    assert verdict.failed or verdict.n_checked == 4, verdict.n_checked


TRIALS = """units metal
atom_modify map yes
region box block 0 9 0 9 0 9
create_box 2 box
mass 1 15.999
mass 2 1.008
create_atoms 1 single 1 1 1
create_atoms 2 single 2 1 1
create_atoms 2 single 4.5 1 1
create_atoms 2 single 3 4 5
pair_style mlff precision fp64
pair_coeff * * painn.yaml O H
#watch
fix g all gcmc 1 6 3 2 1234 3000 -2.0 0.5 overlap_cutoff 0.8 full_energy
run 5"""


@pytest.mark.parametrize("change", ("", "energy", "excluded"))
def test_the_oracle_judges_trials(court, monkeypatch, change):
    """Energies of Monte Carlo trials are compared, and atoms that trials exclude count zero."""
    evaluate = script_oracle.Oracle.evaluate

    def other(self, pair, types, x, kept, cell, pbc):
        energy, *more = evaluate(self, pair, types, x, kept | (change == "excluded"), cell, pbc)
        return energy + 1e-6 * (change == "energy" and not kept.all()), *more

    monkeypatch.setattr(script_oracle.Oracle, "evaluate", other)
    verdict = court.batch([TRIALS.splitlines()], 1)[0]
    assert verdict.failed == bool(change), verdict.text
    assert "in a trial" in verdict.text if change else verdict.n_checked > 50, verdict.text


@pytest.mark.parametrize(
    "trial, energy, fails",
    ((True, 1e9, False), (True, 5.0, True), (True, np.inf, True), (True, np.nan, True), (False, 1e9, True)),
)
def test_overlaps(court, trial, energy, fails):
    """Overlapping atoms have a large finite energy in a trial, and are an error elsewhere."""
    check = script_oracle.Check(court.oracle, ["pair_style mlff", "pair_coeff * * painn.yaml O H", "run 0"], [])
    check.follow(1)
    box = ((0.0, 0.0, 0.0), (9.0, 9.0, 9.0), 0.0, 0.0, 0.0)
    x = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.05]])
    seen = {"box": box, "periodic": (1, 1, 1), "type": np.array([1, 2]), "excluded": np.zeros(2, int)}
    seen |= {"x": x, "f": np.zeros((2, 3)), "pe": energy, "trial": trial}
    if fails:
        with pytest.raises(script_oracle.Wrong):
            check.compare(seen, "line")
    else:
        assert check.compare(seen, "line") is None


def test_same_seed_same_script():
    assert script_grammar.script(17) == script_grammar.script(17) != script_grammar.script(18)


def test_crashes_and_hangs_are_failures(court, monkeypatch):
    """A process that dies is the script's that it was in, and the others are judged in a new one."""
    monkeypatch.setattr(random_scripts, "HANG", 2.0)
    good = random_scripts.parse(WATCHED)[1]
    # LAMMPS' own without a line that names mlffprof
    kill, sleep = (
        [*good, 'shell "true mlffprof ; kill -KILL $PPID"', "run 1"],
        [*good, 'shell "true mlffprof ; sleep 60"'],
    )
    verdicts = court.judge([good, kill, good, sleep, good], 1)
    assert [v.kind for v in verdicts] == ["ok", "crash", "ok", "hung", "ok"], [v.text for v in verdicts]
