"""Reports of the profiler library against docs/profile.schema.json, by a validator that knows nothing of the
library."""

import glob
import json
import math
import os
import subprocess

import numpy as np
import pytest

from mlff_tools.bench import publish as bench_publish

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: scripts/setup.sh test")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
WRITER = os.path.join(BUILD, "tests", "write_profile_sample")
SCHEMA_WRITER = os.path.join(BUILD, "tests", "write_profile_schema")
PUBLISHED = sorted(glob.glob(os.path.join(ROOT, "benchmarks", "results", "**", "*.json"), recursive=True))


def schema():
    with open(os.path.join(ROOT, "docs", "profile.schema.json"), encoding="utf-8") as f:
        return json.load(f)


def strict(node):
    """The schema with no field allowed beyond those it names: what the library writes must all be described."""
    if isinstance(node, list):
        return [strict(x) for x in node]
    if not isinstance(node, dict):
        return node
    out = {key: strict(value) for key, value in node.items()}
    if "properties" in out and "additionalProperties" not in out:
        out["additionalProperties"] = False
    return out


def sample(tmp_path, n):
    """The report of n steps; json.load refuses nothing here: NaN is caught by parse_constant."""
    path = tmp_path / "sample.json"
    assert os.path.exists(WRITER), f"{WRITER} is not built (MLFF_BUILD_TESTS=ON)"
    subprocess.run([WRITER, str(n), str(path)], check=True)
    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_schema_is_that_of_the_table():
    """docs/profile.schema.json says what the library's table of fields says, field by field."""
    assert os.path.exists(SCHEMA_WRITER), f"{SCHEMA_WRITER} is not built (MLFF_BUILD_TESTS=ON)"
    made = subprocess.run([SCHEMA_WRITER], check=True, capture_output=True, encoding="utf-8").stdout
    with open(os.path.join(ROOT, "docs", "profile.schema.json"), encoding="utf-8") as f:
        assert f.read() == made, "build/tests/write_profile_schema > docs/profile.schema.json"


def test_reports_of_earlier_versions_fit():
    """A field that was added later is never required: reports of the measurements that are published stay reports."""
    reports = []
    for path in PUBLISHED:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        if "latencies_ms" in report:
            reports.append((path, report))
    assert len(reports) >= 2
    validator = jsonschema.Draft202012Validator(schema())
    errors = [
        f"{os.path.basename(path)}: {list(e.absolute_path)}: {e.message[:200]}"
        for path, report in reports
        for e in validator.iter_errors(report)
    ]
    assert not errors, "\n".join(errors[:10])


@pytest.mark.parametrize("n", [0, 1, 2, 11, 500, 30000])
def test_reports_fit(tmp_path, n):
    errors = list(jsonschema.Draft202012Validator(strict(schema())).iter_errors(sample(tmp_path, n)))
    assert not errors, "\n".join(f"{list(e.absolute_path)}: {e.message[:200]}" for e in errors[:10])


@pytest.mark.parametrize("n", [0, 500, 30000])
def test_published_reports_fit(tmp_path, n):
    """What `mlff bench --publish` keeps of a report is a report."""
    errors = list(
        jsonschema.Draft202012Validator(strict(schema())).iter_errors(bench_publish.brief(sample(tmp_path, n)))
    )
    assert not errors, "\n".join(f"{list(e.absolute_path)}: {e.message[:200]}" for e in errors[:10])


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"n_steps": -1},
        {"cv": "0.1"},
        {"latencies_ms": None},
        {"context": []},
        {"targets": [{}]},
        {
            "slow_steps": [
                {"step": 1, "latency_ms": 1, "times_median": 1, "tags": ["unknown_tag"], "slowest_rank": None}
            ]
        },
    ],
)
def test_schema_refuses(tmp_path, change):
    """A schema that accepts everything would prove nothing."""
    report = sample(tmp_path, 100)
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors({**report, **change}))


def test_statistics_are_numpys(tmp_path):
    """Quantiles and moments of the latencies in the file are what numpy makes of them."""
    report = sample(tmp_path, 5000)
    ms = np.array(report["latencies_ms"])
    assert report["latencies_stride"] == 1 and len(ms) == report["n_steps"] == 4990
    for name, value in (
        ("mean", ms.mean()),
        ("median", np.median(ms)),
        ("std", ms.std(ddof=1)),
        ("min", ms.min()),
        ("max", ms.max()),
        ("p95", np.percentile(ms, 95)),
        ("p99", np.percentile(ms, 99)),
    ):
        assert math.isclose(report[f"{name}_latency_ms"], value, rel_tol=1e-8), name
    assert math.isclose(report["total_time_s"], ms.sum() / 1e3, rel_tol=1e-8)
    series = report["energy"]["series"]
    time, energy = np.array(series["time_ps"]), np.array(series["conserved"])
    slope = np.polyfit(time - time.mean(), energy - energy.mean(), 1)[0] / report["n_atoms"]  # centred: polyfit cancels
    assert math.isclose(report["drift"], slope, rel_tol=1e-8)
