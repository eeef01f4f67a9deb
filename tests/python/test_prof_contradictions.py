"""`mlff show`, `compare`, the gate and the readers in Python refuse reports whose summaries contradict their samples.
They accept what our programs write, at any length, and the reports of the repository."""

import copy
import glob
import json
import os
import subprocess

import helpers
import pytest

import mlff as package
from mlff_tools.bench import profiles
from mlff_tools.report import page

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
SAMPLE = os.path.join(BUILD, "tests", "write_profile_sample")

pytestmark = pytest.mark.skipif(
    not (helpers.program() and os.path.exists(SAMPLE)), reason="no program mlff or write_profile_sample"
)


def mlff(*words):
    return subprocess.run([helpers.program(), *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A report of 400 steps with all blocks, whose series are stored in full."""
    path = tmp_path_factory.mktemp("sample") / "a.json"
    subprocess.run([SAMPLE, "400", str(path)], check=True)
    return json.loads(path.read_text())


@pytest.mark.parametrize("n", [1, 2, 3, 37, 400, 12000, 130000])
def test_what_the_library_writes(n, tmp_path):
    path = str(tmp_path / "a.json")
    subprocess.run([SAMPLE, str(n), path], check=True)
    done = mlff("show", path)
    assert done.returncode == 0, done.stderr
    profiles.read(path)


def test_reports_of_the_repository():
    paths = glob.glob(os.path.join(ROOT, "benchmarks", "results", "*.json"))
    paths += glob.glob(os.path.join(ROOT, "examples", "ci", "counts", "*", "*.json"))
    reports = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            reports += [path] if "latencies_ms" in json.load(f) else []
    assert len(reports) >= 4
    done = mlff("show", *reports)
    assert done.returncode == 0, done.stderr
    for path in reports:
        profiles.read(path)


def test_traces_among_reports(tmp_path):
    """`mlff show reports/*.json`, where a job has left its trace as well."""
    report, trace = os.path.join(ROOT, "benchmarks", "results", "water_xs_profile.json"), tmp_path / "s.trace.json"
    trace.write_text('[\n{"name": "pair", "ph": "X"}\n]\n')
    done, alone = mlff("show", str(trace), report), mlff("show", report)
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    assert done.stderr == f"mlff: {trace}: a trace, no report; ui.perfetto.dev shows it\n"
    nothing = mlff("show", str(trace))
    assert nothing.returncode == 2 and "no report among these files" in nothing.stderr
    trace.write_text("[1, 2]")
    assert mlff("show", str(trace)).returncode == 2


def place(report, key):
    block = report
    *blocks, name = key.split(".")
    for part in blocks:
        block = block[int(part) if part.isdigit() else part]
    return block, int(name) if name.isdigit() else name


# What follows from stored samples, or from other numbers
EXACT = [f"{name}_latency_ms" for name in ("mean", "median", "std", "min", "max", "p95", "p99")]
EXACT += ["cv", "total_time_s", "steps_per_second", "n_steps", "accuracy.energy_mae", "accuracy.energy_rmse"]
EXACT += [f"energy.potential.{name}" for name in ("initial", "final", "mean", "min", "max")]
EXACT += ["latencies_ms.0", "energy.series.potential.3", "memory.host.delta_bytes"]


def refused(report, path):
    """Whether `mlff show` refuses a report; the reader in Python must agree."""
    path.write_text(json.dumps(report))
    done = mlff("show", str(path))
    try:
        profiles.read(str(path))
        found = None
    except profiles.ProfileError as e:
        found = str(e)
        assert "contradicts itself" in found, found
    assert (found is not None) == (done.returncode == 2), (found, done.stderr)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.count("\n") == 1 and ("contradicts itself" in done.stderr or "negative" in done.stderr)
    return done.returncode == 2


@pytest.mark.parametrize("key", EXACT)
@pytest.mark.parametrize("factor", [0.0, 0.98, 3.0])
def test_numbers_that_follow_from_others(key, factor, sample, tmp_path):
    report = copy.deepcopy(sample)
    block, name = place(report, key)
    before = block[name]
    block[name] = int(before * factor) if key == "n_steps" else before * factor
    if block[name] != before:
        assert refused(report, tmp_path / "a.json"), (key, before, block[name])


SIGNED = ["latencies_ms.0", "mean_latency_ms", "median_latency_ms", "std_latency_ms", "min_latency_ms", "total_time_s"]
SIGNED += ["us_per_atom", "ns_per_day", "components.0.mean_ms", "slow_steps.0.latency_ms", "accuracy.force_rmse"]
SIGNED += ["warmup.mean_latency_ms", "memory.host.initial_bytes"]


@pytest.mark.parametrize("key", SIGNED)
def test_negative_times(key, sample, tmp_path):
    report = copy.deepcopy(sample)
    block, name = place(report, key)
    block[name] = -abs(block[name] or 1.0)
    assert refused(report, tmp_path / "a.json")


def test_the_gate_and_compare_refuse(sample, tmp_path):
    """A median of a thousandth of the samples passed every rule."""
    good, bad, rules = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "rules.yaml"
    good.write_text(json.dumps(sample))
    bad.write_text(json.dumps({**sample, "median_latency_ms": 1e-3 * sample["median_latency_ms"]}))
    rules.write_text("rules: [{metric: median_latency_ms, below: 1000}]\n")
    assert mlff("compare", str(good), str(good), "--gate", str(rules)).returncode == 0
    for words in ((good, bad), (bad, good)):
        for gate in ((), ("--gate", str(rules))):
            done = mlff("compare", *map(str, words), *gate)
            assert done.returncode not in (0, None) and "contradicts itself" in done.stderr, done


def test_long_runs_are_held_to_their_bounds(tmp_path):
    """In a run of 130000 steps every 16th is stored and quantiles come from a sketch: orders and counts hold."""
    path = tmp_path / "a.json"
    subprocess.run([SAMPLE, "130000", str(path)], check=True)
    report = json.loads(path.read_text())
    assert report["latencies_stride"] > 1 and not report["quantiles"]["exact"]
    for change in (
        {"min_latency_ms": 2 * min(report["latencies_ms"])},
        {"max_latency_ms": 0.9 * max(report["latencies_ms"])},
        {"p95_latency_ms": 0.9 * report["median_latency_ms"]},
        {"latencies_stride": 2 * report["latencies_stride"]},
        {"latencies_ms": report["latencies_ms"][:-1]},
    ):
        assert refused({**report, **change}, path), change
    assert not refused(report, path)


def test_pages_and_reports_refuse(sample, tmp_path, capsys):
    """`mlff report` and mlff.Report take no report that contradicts itself."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**sample, "median_latency_ms": 1e-3 * sample["median_latency_ms"]}))
    with pytest.raises(package.Error, match="contradicts itself"):
        package.Report.load(path)
    assert page.main([str(tmp_path)]) == 2 and "contradicts itself" in capsys.readouterr().err
    (tmp_path / "good.json").write_text(json.dumps(sample))
    assert page.main([str(tmp_path)]) == 0 and "bad.json: min_latency_ms" in capsys.readouterr().err
