"""The table of targets, mlff bench --suite targets: planted misses, missing models, and a short real run."""

import json
import os

import pytest
from test_bench import SHORT, run

from mlff_tools.bench import cases, goals, implementations

STUDENT, TEACHER = "silicon-m", "nequix-oam-1-pft"
GOOD = {
    "n_atoms": 64,
    "mean_latency_ms": 0.4,
    "us_per_atom": 6.0,
    "p95_latency_ms": 0.5,
    "p99_latency_ms": 0.6,
    "cv": 0.05,
    "memory": {"host": {"delta_bytes": 1e5}, "device": None},
    "memory_peak_gb": 0.05,
}


def rows_of(tmp_path, disturbed=0, **changes):
    """Rows of silicon's student, whose report is GOOD with changes, of its ratio to the teacher, and of teachers."""
    (tmp_path / "run.json").write_text(json.dumps({**GOOD, **changes}))
    summary = {"work": "silicon-small-nvt", "size": "small", "potential": "silicon_m", "file": "run.json"}
    return goals.of_reports([{**summary, "disturbed": disturbed}], str(tmp_path), [], ["silicon"])


def verdicts(rows):
    return {r["target"]: r["verdict"] for r in rows}


@pytest.mark.parametrize(
    "changes, missed",
    [
        ({}, None),
        ({"mean_latency_ms": 1.2, "p95_latency_ms": 1.3, "p99_latency_ms": 1.4}, "mean step"),
        ({"us_per_atom": 10.0}, "time per atom"),
        ({"p95_latency_ms": 0.9}, "P95 / mean"),
        ({"p99_latency_ms": 1.3}, "P99 / mean"),
        ({"cv": 0.21}, "CV of steps"),
        ({"memory": {"host": {"delta_bytes": 1.2e7}, "device": None}}, "memory growth"),
        ({"memory": {"host": {"delta_bytes": 0}, "device": {"delta_bytes": 1.2e7}}}, "memory growth"),
        ({"memory_peak_gb": 1.1}, "memory peak"),
    ],
)
def test_a_planted_miss_fails_its_row(changes, missed, tmp_path):
    found = verdicts(rows_of(tmp_path, **changes)[: len(goals.STUDENT)])
    assert {target for target, verdict in found.items() if verdict != goals.PASS} == ({missed} if missed else set())
    assert missed is None or found[missed] == goals.FAIL


def test_what_is_not_there_keeps_its_row(tmp_path):
    """A null in a report, a teacher that did not run, and a student that did not run."""
    rows = rows_of(tmp_path, disturbed=1, cv=None)
    assert verdicts(rows)["CV of steps"] == goals.MISSING and verdicts(rows)["teacher / student"] == goals.MISSING
    assert sum("DISTURBED" in r["note"] for r in rows[: len(goals.STUDENT)]) == len(goals.STUDENT) - 1
    assert {r["note"] for r in rows if r["target"] == "CV of steps"} == {"not in the report"}
    (ratio,) = [r for r in rows if r["target"] == "teacher / student"]
    assert ratio["note"] == "its case did not run", "the teacher is there"
    (ani,) = [r for r in rows if r["of"] == "ani-2x"]
    assert ani["verdict"] == goals.MISSING and "mlff convert ani" in ani["note"]
    rows = goals.of_reports([], str(tmp_path), [], ["silicon"])
    assert {r["verdict"] for r in rows} == {goals.MISSING} and len(rows) == len(goals.STUDENT) + 1 + len(goals.TEACHERS)


@pytest.mark.parametrize("ratio, a, b", [(0.1, TEACHER, STUDENT), (10.0, STUDENT, TEACHER)])
def test_speed_up_does_not_depend_on_the_order(ratio, a, b):
    """Both say that the student is ten times as fast; the same ratio the other way round is a miss."""
    case = {"work": "silicon-small-nvt", "rounds": 3, "disturbed": 0, "by": "median_latency_ms"}
    case.update(ratio=ratio, ratio_min=ratio * 0.8, ratio_max=ratio * 1.25)
    for names, verdict in (((a, b), goals.PASS), ((b, a), goals.FAIL)):
        comparison = {"a": cases.clean(names[0]), "b": cases.clean(names[1]), "cases": [case]}
        row = goals.of_reports([], "", [comparison], ["silicon"])[len(goals.STUDENT)]
        assert row["verdict"] == verdict and row["value"] == pytest.approx(10 if verdict == goals.PASS else 0.1)
        assert row["note"] == ("3 rounds, 8 to 12.5" if verdict == goals.PASS else "3 rounds, 0.08 to 0.125")


def test_gains_are_those_of_the_same_rounds():
    """Planted times of a GPU: a copy in a batch takes a tenth, mixed precision half, a captured step two thirds."""
    times = {"1": [1.0, 4.0, 2.0]}  # ms, rounds of a machine that changes
    times["1 plain"] = [1.5 * t for t in times["1"]]
    times["1 mixed"] = [0.5 * t for t in times["1"]]
    for n in goals.COPIES:
        times[f"{n}"] = [0.1 * n * t for t in times["1"]]
    times["16 plain"], times["16 mixed"] = times["16"], [0.5 * t for t in times["16"]]
    times["256 mixed"] = [0.5 * t for t in times["256"]]
    rows = goals.of_engine("planted", times, {"mixed: force RMSE": 2.0}, "cuda")
    values = {r["target"]: (r["value"] and round(r["value"], 9), r["verdict"]) for r in rows}
    assert values["captured and fused / plain"] == (1.5, goals.PASS)
    assert values["captured and fused / plain, batch of 16"] == (1.0, goals.FAIL)
    assert values["mixed / fp32"] == values["mixed / fp32, batch of 16"] == (2.0, goals.PASS)
    assert values["captured, fused and mixed / plain"] == (3.0, goals.PASS)
    assert values["256 copies at once / one by one"] == (10.0, goals.NO_LIMIT)
    assert values["256 copies, captured, fused and mixed / one, plain"] == (30.0, goals.FAIL)
    assert values["mixed: force RMSE"] == (2.0, goals.FAIL) and values["mixed: energy error"] == (None, goals.MISSING)
    on_cpu = verdicts(goals.of_engine("planted", {"1": [1.0]}, {}, "cpu"))
    assert set(on_cpu.values()) == {goals.MISSING} and len(on_cpu) == len(rows), "each target keeps its row"


def test_time_and_spread_of_the_suite():
    report = {"context": {"run_s": 400.0}}
    time_row, spread = goals.of_suite([{"spread": 0.01}, {"spread": 0.06}, {"spread": None}], 2 * [report], True)
    assert (time_row["value"], time_row["verdict"]) == (800.0, goals.FAIL)
    assert (spread["value"], spread["verdict"]) == (6.0, goals.FAIL) and "1 cases above" in spread["note"]
    assert goals.of_suite([], [report], True)[0]["verdict"] == goals.PASS
    assert goals.of_suite([], [report], False)[0]["verdict"] == goals.MISSING, "a part of the suite"


@pytest.mark.parametrize(
    "options",
    [["--model", STUDENT], ["--against", STUDENT], ["--potential", "sw"], ["--ranks", "2"], ["--temperature", "500"]],
)
def test_its_cases_are_fixed(options, capsys):
    assert run("--suite", "targets", *options, "--list") == 2
    assert f"leave out {options[0]}" in capsys.readouterr().err


def test_a_missing_model_is_an_error(tmp_path, monkeypatch, capsys):
    """Never fewer rows: a role whose model is not there ends the suite before it begins, and says how to get it."""
    monkeypatch.setattr(cases, "MODELS", str(tmp_path))
    for system, role, how in (
        ("water", "teacher", "mlff convert ani"),
        ("silicon", "student", "take it from the source"),
    ):
        assert run("--model", "nequix-oam-1-pft", "--model", role, "--system", f"{system},iron", "--list") == 2
        error = capsys.readouterr().err
        assert how in error and "does not exist" in error and f"leave {system} out" in error


def test_real_runs_fill_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(goals, "ROUNDS", 2)
    monkeypatch.setattr(implementations, "SECONDS", 0.02)
    out = tmp_path / "out"
    words = ["--suite", "targets", "silicon-small-nvt-*", "--system", "silicon", "--repeats", 2, "--out", out, *SHORT]
    assert run(*words) == 0, capsys.readouterr().err
    table = json.loads((out / "targets.json").read_text(encoding="utf-8"))
    found = {r["target"]: r for r in table["rows"]}
    assert found["teacher / student"]["value"] > 3 and "2 rounds" in found["teacher / student"]["note"]
    assert all(found[target]["value"] is not None for target, *_ in goals.STUDENT), "their values are in real reports"
    assert 0.02 < found["mean step"]["value"] < 50 and found["mean step"]["of"] == "silicon-m, 64 atoms"
    assert found["captured and fused / plain"]["note"].startswith("GPU: not measured with this code")
    assert 0.3 < found["4 copies at once / one by one"]["value"] < 3
    assert found["suite of students, all runs"]["verdict"] == goals.MISSING
    (commit,) = table["commits"]
    text = (out / "targets.txt").read_text(encoding="utf-8")
    assert commit in text.splitlines()[0] and text in (out / "summary.txt").read_text(encoding="utf-8")
    kept = tmp_path / "kept"
    assert run(*words, "--publish", kept) == 0
    assert {"targets.json", "targets.txt"} <= set(os.listdir(kept))
