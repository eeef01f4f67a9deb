"""benchmarks/gpu/run.sh on the simulated device: that it measures everything, and that nothing which hangs keeps it
from ending in time with what was measured until then."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "benchmarks", "gpu", "run.sh")
SHAPES = os.path.join(ROOT, "benchmarks", "gpu", "shapes.py")
PASSES = 'echo "100%: Checks: 1, Failures: 0, Errors: 0"'
HANGS = "trap '' TERM; while :; do sleep 1; done"
MODELS, ORB = ("random-ani2x-1", "water-benzene-student"), "random-orb-v2"


def write_program(path, text):
    path.write_text("#!/bin/sh\n" + text + "\n", encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def pack(tmp_path):
    """What run.sh --pack makes, with two models; tests may put other programs in the place of these."""
    return make_pack(tmp_path, MODELS)


def make_pack(tmp_path, models):
    """The weights of Orb are left out as run.sh leaves them out."""
    folder = tmp_path / "pack"
    (folder / "tests").mkdir(parents=True)
    subprocess.run([sys.executable, SHAPES, str(folder / "models"), "--small"], check=True, stdin=subprocess.DEVNULL)
    for path in (folder / "models").iterdir():
        if path.stem not in models or path.name == ORB + ".safetensors":
            path.unlink()
    write_program(folder / "mlff", f'exec "{os.environ["MLFF"]}" "$@"')
    write_program(folder / "tests" / "test_op_ops", PASSES)
    return folder


def run(pack, tmp_path, seconds):
    """(exit code, seconds that it took, gpu.json)"""
    out, begin = tmp_path / "out", time.monotonic()
    env = {**os.environ, "MLFF_GPU_PACK": str(pack), "MLFF_GPU_BUILD": str(tmp_path / "build"),
           "PYTHON": sys.executable, "SECONDS_LEFT": str(seconds)}
    done = subprocess.run([RUN, "--simulated", str(out)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    took = time.monotonic() - begin
    print(done.stdout.decode("utf-8", "replace"))
    with open(out / "gpu.json", encoding="utf-8") as f:
        return done.returncode, took, json.load(f)


def test_all_of_it(tmp_path):
    code, _, found = run(make_pack(tmp_path, (*MODELS, ORB)), tmp_path, 300)
    assert code == 0 and found["check"]["cuda"]["n_usable"] == 1
    rows = found["bench"]["rows"]
    assert len(rows) == 8 * len(MODELS) + 5 and {row["model"] for row in rows} == {*MODELS, ORB}
    assert {row["precision"] for row in rows if row["model"] == ORB} == {"fp32", "mixed", "fp64"}
    assert all(row["median_ms"] > 0 and row["n_atoms"] == 24 * row["n_replicas"] for row in rows)
    assert {(row["device"], row["precision"], row["graph"], row["fuse"]) for row in rows} == {
        ("cuda", "fp32", "on", "on"), ("cuda", "mixed", "on", "on"), ("cuda", "fp32", "off", "on"),
        ("cuda", "fp32", "on", "off"), ("cuda", "fp64", "on", "on"), ("cpu", "fp32", "off", "on")}
    assert any("GPU and CPU agree" in line for line in found["summary"]), found["summary"]


def test_a_suite_that_hangs(pack, tmp_path):
    write_program(pack / "tests" / "test_op_ops", HANGS)
    code, took, found = run(pack, tmp_path, 12)
    assert code == 1 and took < 25
    assert "STOPPED: op_ops ran out of time" in found["summary"][-1]
    assert found["check"]["cuda"]["n_usable"] == 1 and found["bench"] is None


def test_a_case_that_hangs(pack, tmp_path):
    write_program(pack / "mlff", f'case "$*" in *time*mixed*) {HANGS} ;; esac\nexec "{os.environ["MLFF"]}" "$@"')
    code, took, found = run(pack, tmp_path, 40)
    rows = found["bench"]["rows"]
    assert code == 1 and took < 55
    assert all(row["median_ms"] > 0 for row in rows[:len(MODELS)]), rows
    assert "took more than" in rows[len(MODELS)]["failed"]
    assert all(row["left_out"] == "time" for row in rows[len(MODELS) + 1:]) and len(rows) == 8 * len(MODELS)


def test_wrong_numbers_stop_it(pack, tmp_path):
    """Nothing is measured when GPU and CPU differ."""
    change = r's/\("energy": -\{0,1\}\)\([0-9]\)/\11\2/'  # a digit in front
    mlff = os.environ["MLFF"]
    write_program(pack / "mlff", f'''case "$*" in
  *evaluate*"fp64 --device cuda"*) "{mlff}" "$@" | sed '{change}'; exit ;;
esac
exec "{mlff}" "$@"''')
    code, _, found = run(pack, tmp_path, 120)
    assert code == 1 and found["bench"] is None
    assert "STOPPED: against_cpu failed" in found["summary"][-1]
    assert "DIFFERENT" in (tmp_path / "out" / "against_cpu.log").read_text(encoding="utf-8")
