"""The recipe for the CI of others (examples/ci): it passes for the shipped student against the shipped teacher, with
rules that do not depend on the machine, and fails when it must."""

import json
import os
import shutil
import subprocess

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(BUILD, "mlffplugin.so"))
CI = os.path.join(ROOT, "examples", "ci")
STUDENT, TEACHER = (os.path.join(ROOT, "models", f"water-benzene-{role}.yaml") for role in ("student", "teacher"))


def gate(place, *arguments, bench="--steps 220 --every 50 --equilibrate 50"):
    env = {
        **os.environ,
        "MLFF": os.environ.get("MLFF", os.path.join(BUILD, "mlff")),
        "OUT": str(place / "out"),
        "BENCH": f"--build {PLUGIN} --budget 0 {bench}",
        "PYTHONPATH": os.path.join(ROOT, "python"),
    }
    done = processes.merged(["sh", os.path.join(CI, "gate.sh"), *map(str, arguments)], env=env, cwd=place, timeout=600)
    return done.returncode, done.stdout


def test_student_beats_teacher(tmp_path):
    """This project's own gate."""
    code, output = gate(tmp_path, STUDENT, TEACHER)
    assert code == 0, output
    assert "force_rmse" in output and "median_latency_ms" in output, output
    swapped, output = gate(tmp_path, TEACHER, STUDENT)
    assert swapped == 1, f"the teacher is not faster than its student\n{output}"


def faster(value, key="", scale=0.01):
    """A report of a machine that is so much faster: all of its times, which must fit each other."""
    if isinstance(value, dict):
        return {k: faster(v, k, scale) for k, v in value.items()}
    if isinstance(value, list):
        return [faster(v, key, scale) for v in value]
    if isinstance(value, float) and key.endswith(("_ms", "total_time_s")):
        return scale * value
    return value / scale if key == "steps_per_second" else value


def test_baseline(tmp_path):
    """Reports of this machine are stored; doctored ones that were faster, or a case that is gone, break the gate."""
    short = "--steps 60 --equilibrate 5"
    code, output = gate(tmp_path, STUDENT, "--store", "baseline", bench=short)
    assert code == 0, output
    reports = list((tmp_path / "baseline").iterdir())
    assert len(reports) == 2  # water and a gas of benzene
    for report in reports:
        report.write_text(json.dumps(faster(json.loads(report.read_text()))))
    code, output = gate(tmp_path, STUDENT, "--baseline", "baseline", bench=short)
    assert code == 1 and "median_latency_ms" in output, output
    shutil.copy(reports[0], tmp_path / "baseline" / "water-small-nvt-gone.json")
    code, output = gate(tmp_path, STUDENT, "--baseline", "baseline", bench=short)
    assert code == 1 and "did not run it" in output, output


@pytest.mark.parametrize(
    "arguments,text",
    [
        ([], "usage"),
        (["none.yaml", TEACHER], "no model file none.yaml"),
        ([STUDENT, "none.yaml"], "no model file none.yaml"),
        ([STUDENT, "--baseline", "nowhere"], "holds no reports"),
        ([STUDENT, "--store"], "--store needs a folder"),
        ([STUDENT, "--sotre", "base"], "there is no option --sotre"),
        ([STUDENT, "--work"], "--work needs a folder"),
        ([STUDENT, "--previous", "build"], "--previous needs a build and its model file"),
        ([STUDENT, "--previous", "nowhere", TEACHER], "there is no build nowhere"),
        ([STUDENT, "--previous", CI, "none.yaml"], "no model file none.yaml"),
    ],
)
def test_bad_input(arguments, text, tmp_path):
    code, output = gate(tmp_path, *arguments)
    assert code == 2 and text in output, output


def test_rules_can_be_read(tmp_path):
    """Every rule names a metric that exists: a report of one evaluation breaks some rules, but none is refused."""
    mlff = os.environ.get("MLFF", os.path.join(BUILD, "mlff"))
    water = tmp_path / "water.xyz"
    water.write_text("3\n\nO 0 0 0\nH 0.76 0 0.59\nH -0.76 0 0.59\n")
    subprocess.run(
        [mlff, "time", STUDENT, water, "--calls", "20", "--file", tmp_path / "r.json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for rules in sorted(name for name in os.listdir(CI) if name.endswith(".yaml")):
        done = processes.merged(
            [mlff, "compare", tmp_path / "r.json", tmp_path / "r.json", "--gate", os.path.join(CI, rules)]
        )
        timed = rules not in ("work.yaml", "work-ranks.yaml", "previous.yaml")
        assert done.returncode == (rules != "previous-speed.yaml"), done.stdout
        assert done.stdout.count("median_latency_ms") == timed, done.stdout
        assert "not measured" in done.stdout or rules == "previous-speed.yaml", done.stdout
