"""`mlff scaling`: the same numbers on any number of ranks, efficiencies from times, reports that `mlff show` prints."""

import glob
import json
import os
import re

import numpy as np
import processes
import pytest

from mlff_tools.bench import profiles, scaling
from mlff_tools.bench import results as bench_results
from mlff_tools.model.lammps import LammpsError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
SHORT = [
    "--box",
    "1x1x1",
    "--steps",
    "4",
    "--warmup",
    "1",
    "--equilibrate",
    "1",
    "--check-steps",
    "2",
    "--build",
    PLUGIN,
]


def run(*arguments):
    try:
        return scaling.main([str(a) for a in arguments])
    except SystemExit as e:
        return e.code


def show(path):
    done = processes.merged([MLFF, "show", path])
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_strong_ranks_agree(tmp_path, capsys):
    """192 atoms on 2, 4 and 8 ranks against one: energy, forces, pressure before and after two steps, in double."""
    code = run("strong", *SHORT, "--repeats", 1, "--check-ranks", "4,8", "--out", tmp_path)
    assert code == 0, capsys.readouterr().err
    path = tmp_path / "water_xs_scaling_strong.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [(c["ranks"], c["n_atoms"], c["passed"]) for c in report["checks"]] == [(n, 192, True) for n in (2, 4, 8)]
    for c in report["checks"]:
        assert 0 < c["force"] < 1e-8 and c["energy_per_atom"] < 1e-10 and c["pressure"] < 1e-3
    one, two = report["rows"]
    assert (one["ranks"], two["ranks"], one["n_atoms"], two["n_atoms"]) == (1, 2, 192, 192)
    assert one["efficiency"] == 1.0 and two["atoms_per_rank"] == 96
    assert one["ghosts_per_rank"] > two["ghosts_per_rank"] > 0
    if not two["oversubscribed"]:
        assert two["efficiency"] == pytest.approx(one["median_ms"] / two["median_ms"] / 2, rel=1e-4)
    assert (tmp_path / "water_xs_scaling_strong.svg").stat().st_size > 5000
    table = show(path)
    assert re.search(r"^strong scaling: water-xs on cpu", table)
    assert len(re.findall("^same", table, re.M)) == 3, table
    assert re.search(r"^ +2 +192 ", table, re.M), table


def test_weak_ranks_agree(tmp_path, capsys):
    """192 atoms on every rank: the box of four ranks is that of one rank with as many copies."""
    code = run("weak", *SHORT, "--ranks", 2, "--repeats", 1, "--check-ranks", 4, "--out", tmp_path)
    assert code == 0, capsys.readouterr().err
    report = json.loads((tmp_path / "water_xs_scaling_weak.json").read_text(encoding="utf-8"))
    assert [(c["ranks"], c["n_atoms"], c["passed"]) for c in report["checks"]] == [(2, 384, True), (4, 768, True)]
    assert report["rows"][0]["n_atoms"] == 384 and report["rows"][0]["atoms_per_rank"] == 192


def test_replicas(tmp_path, capsys):
    short = ["--steps", 6, "--warmup", 2, "--equilibrate", 2, "--repeats", 2, "--build", PLUGIN]
    assert run("replicas", *short, "--replicas", "4", "--out", tmp_path) == 0, capsys.readouterr().err
    path = tmp_path / "water_benzene_student_scaling_replicas.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(r["replicas"], r["n_atoms"]) for r in rows] == [(1, 12), (4, 48)]
    assert rows[1]["replica_steps_per_second"] == pytest.approx(4000 / rows[1]["median_ms"], rel=1e-4)
    ratios = [t / 4 / one for t, one in zip(rows[1]["medians_ms"], rows[0]["medians_ms"])]
    assert rows[1]["cost_against_one"] == pytest.approx(np.median(ratios), rel=1e-4)
    assert rows[0]["cost_against_one"] == 1.0
    assert "one costs" in show(path) and "efficient" not in show(path)


def test_differences_are_found():
    """A force, an energy or a pressure that changes with the ranks is seen, and so is an atom that is lost."""
    rows = np.column_stack([[1, 2], np.zeros((2, 3)), np.ones((2, 3))])
    same = {0: (-3.0, np.zeros(6), rows), 5: (-3.1, np.zeros(6), rows)}
    assert scaling.differences(same, same) == {"energy_per_atom": 0, "force": 0, "pressure": 0}
    moved = rows.copy()
    moved[1, 5] += 2e-6
    found = scaling.differences({**same, 5: (-3.1 + 4e-6, np.full(6, 0.5), moved)}, same)
    assert found == pytest.approx({"energy_per_atom": 2e-6, "force": 2e-6, "pressure": 0.5})
    assert all(found[key] > bound for key, bound in scaling.TOLERANCES.items())
    for wrong in ({**same, 5: (-3.1, np.zeros(6), rows[:1])}, {0: same[0]}):
        with pytest.raises(LammpsError):
            scaling.differences(wrong, same)


def row(ranks, n_atoms, ms, box="2x2x2", shared=False):
    return {"box": box, "ranks": ranks, "n_atoms": n_atoms, "median_ms": ms, "oversubscribed": shared}


def test_efficiencies():
    """Strong: half the time on two ranks is 100 %. Weak: the same time with twice the atoms is. None if ranks share."""
    rows = [row(1, 100, 8.0), row(2, 100, 5.0), row(4, 100, 4.0, shared=True)]
    rows += [row(1, 50, 4.0, "1x1x1"), row(2, 50, 2.0, "1x1x1")]
    found = [(r["speedup"], r["efficiency"]) for r in scaling.add_efficiencies("strong", rows)]
    assert found == [(1, 1), (1.6, 0.8), (None, None), (1, 1), (2, 1)]
    weak = scaling.add_efficiencies("weak", [row(2, 200, 8.0), row(8, 800, 10.0)])
    assert (weak[1]["speedup"], weak[1]["efficiency"]) == (3.2, 0.8)
    with pytest.raises(LammpsError):
        scaling.add_efficiencies("strong", [row(1, 100, 8.0), row(2, 200, 8.0)])


def test_the_suite_leaves_these_files_alone(tmp_path):
    """`mlff bench` removes its own scaling files of an earlier choice from its folder, not those of `mlff scaling`."""
    for name in ("m_scaling_strong.json", "m_scaling_replicas.json", "m_scaling_water_63.json", "m_profile.json"):
        (tmp_path / name).write_text("{}")
    bench_results.remove_old(str(tmp_path))
    assert sorted(p.name for p in tmp_path.glob("*.json")) == ["m_scaling_replicas.json", "m_scaling_strong.json"]


RESULTS = sorted(glob.glob(os.path.join(ROOT, "benchmarks", "results", "*_scaling_*.json")))


def test_published_results():
    """The files in benchmarks/results can be shown, and their checks passed."""
    of_scaling = [path for path in RESULTS if path.endswith(profiles.SCALING_REPORTS)]
    assert len(of_scaling) >= 3, RESULTS
    for path in of_scaling:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        assert "scaling: water-benzene-student on cpu" in show(path) and "host" not in report["context"], path
        assert report["rows"] and all(c["passed"] for c in report["checks"]), path


def test_doubled():
    assert [scaling.doubled(n) for n in (1, 2, 3, 4)] == [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1)]
    assert [scaling.doubled(n) for n in (8, 16, 64)] == [(2, 2, 2), (4, 2, 2), (4, 4, 4)]


@pytest.mark.parametrize(
    "arguments,text",
    [
        (["--box", "2x2"], "not of the form"),
        (["--warmup", "5", "--steps", "5"], "--warmup 5 must be below"),
        (["--model", "none.yaml"], "there is not a model file"),
        (["--build", "nowhere"], "holds no mlffplugin.so"),
    ],
)
def test_refuses(arguments, text, capsys):
    assert run("strong", *arguments) == 2 and text in capsys.readouterr().err
