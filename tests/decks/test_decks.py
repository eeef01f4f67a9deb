"""Every deck of examples/ and benchmarks/ runs, with few steps, from another folder; so do the demo and the C example.

A deck is a file in.NAME; what may be changed is `variable NAME index VALUE` at its top. `steps` is set to 10, `plugin`
to the one built here, and `folder`, which the other paths begin with, to that of the deck.
"""

import argparse
import json
import os
import re
import shutil
import sys

import processes
import pytest
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lammps"))

import models  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LMP = os.environ.get("MLFF_LMP", os.path.join(os.path.dirname(sys.executable), "lmp"))
MPIEXEC = os.environ.get("MLFF_MPIEXEC", os.path.join(os.path.dirname(sys.executable), "mpiexec"))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
DATA = "${folder}/data.water64"
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(BUILD, "mlffplugin.so"))


def decks():
    found = []
    for top in ("examples", "benchmarks"):
        for place, _, names in os.walk(os.path.join(ROOT, top)):
            found += [os.path.relpath(os.path.join(place, n), ROOT) for n in names if n.startswith("in.")]
    return sorted(found)


def index_variables(path):
    """Names and default values of the `variable NAME index VALUE` lines of a deck."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return re.findall(r"^\s*variable\s+(\S+)\s+index\s+(\S+)", f.read(), re.M)


@pytest.mark.parametrize("deck", decks())
def test_deck(deck, tmp_path):
    path = os.path.join(ROOT, deck)
    folder = os.path.dirname(path)
    variables = dict(index_variables(path))
    assert "steps" in variables, f"{deck} has no `variable steps index N`, so it cannot be run shortly"
    with open(path, encoding="utf-8") as f:
        partition = re.search(r"^#.*mpiexec -n (\d+) lmp -in \S+ -partition (\S+)", f.read(), re.M)
    command = [LMP, "-in", path, "-log", "none", "-var", "steps", "10"]
    if partition:
        command = [MPIEXEC, "-n", partition[1], LMP, "-partition", partition[2], *command[1:]]
    for name, value in variables.items():
        path = value.replace("${folder}", folder)
        if name in ("plugin", "folder"):
            command += ["-var", name, PLUGIN if name == "plugin" else folder]
        elif value.endswith(".yaml") and "${folder}" in value and not os.path.exists(path):
            pytest.skip(f"{deck}: its model {value} is not there")
        elif os.path.exists(os.path.join(ROOT, value)) and "/" in value:
            command += ["-var", name, os.path.join(ROOT, value)]
    done = processes.merged(command, cwd=tmp_path, timeout=300)
    too_short = "ERROR: the liquid is gone at" in done.stdout  # in.coexistence, at the end of its run
    assert done.returncode == 0 or too_short, done.stdout[-3000:]
    output = (tmp_path / "screen.0").read_text(encoding="utf-8") if partition else done.stdout
    assert "Loop time" in output or partition and "Step" in done.stdout, f"{deck} ran no steps\n{done.stdout[-3000:]}"


@pytest.mark.parametrize("deck", [deck for deck in decks() if ("data", DATA) in index_variables(deck)])
def test_missing_data(deck, tmp_path):
    """One sentence says what to do."""
    code, output = run([LMP, "-in", os.path.join(ROOT, deck), "-log", "none", "-var", "plugin", PLUGIN], tmp_path)
    assert code != 0 and "ERROR: there is no ./data.water64: run LAMMPS in the folder of this deck, or" in output


@pytest.mark.parametrize("deck", decks())
def test_deck_comment(deck):
    with open(os.path.join(ROOT, deck), encoding="utf-8") as f:
        head = "".join(line for line in f if line.startswith("#"))[:1500]
    assert re.search(r"\d+ (atoms|molecules)", head), f"{deck}: its first comment does not say how many atoms it has"
    assert "lmp -in" in head, f"{deck}: its first comment does not show the command"


def test_readme():
    """The commands of README.md that run LAMMPS, in order, with fewer steps."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```\w*\n(.*?)^```\n", f.read(), re.M | re.S)
    typed = [block for block in blocks if "lmp -in" in block]
    assert typed, "README.md has no command that runs LAMMPS"
    options = f"-log none -var plugin {PLUGIN} -var steps 10"
    for block in typed:
        code, output = run(["sh", "-ec", re.sub(r"(lmp -in \S+)", rf"\1 {options}", block)], cwd=ROOT)
        assert code == 0 and "Loop time of" in output and "for 10 steps with 64 atoms" in output, output[-2000:]


def run(command, cwd=None):
    done = processes.merged(command, cwd=cwd, timeout=600)
    return done.returncode, done.stdout


def test_demo(tmp_path):
    """The demo's table and picture, for two models with random weights."""
    teacher, student = models.ani(tmp_path / "ani"), models.painn(tmp_path / "painn")
    code, output = run(
        [
            sys.executable,
            os.path.join(ROOT, "scripts", "demo.py"),
            "--build",
            BUILD,
            "--out",
            str(tmp_path / "out"),
            "--material",
            "water",
            "--teacher",
            str(teacher),
            "--student",
            str(student),
            "--steps",
            "20",
        ]
    )
    assert code == 0, output
    assert re.search(r"ms per step +[0-9.]+ +[0-9.]+", output) and "forces    RMSE" in output, output
    assert re.search(r"P95 and P99 of a step, over mean +[0-9.]+x [0-9.]+x +[0-9.]+x", output), output
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10000
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert str(tmp_path / "out" / "report.html") in output and page.count("<details") == 2


def demo_of_silicon(tmp_path, *options):
    demo = [sys.executable, os.path.join(ROOT, "scripts", "demo.py"), "--build", BUILD, "--out", str(tmp_path / "out")]
    code, output = run([*demo, "--material", "Si", "--steps", "10", *options])
    assert code == 0, output
    assert "64 atoms of silicon, 300 K, 10 steps of 1 fs" in output
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10000
    return output, (tmp_path / "out" / "report.html").read_text(encoding="utf-8").count("<details")


def test_demo_of_a_material(tmp_path):
    """The teacher of silicon, and its student with what its certificate says if models/ has one."""
    student = os.path.exists(os.path.join(ROOT, "models", "silicon-m.yaml"))
    output, n_reports = demo_of_silicon(tmp_path)
    assert re.search(r"ms per step +[0-9.]+", output) and n_reports == (2 if student else 1), output
    verdict = r"(PASS|FAIL|UNDECIDED): \d+ of \d+ criteria met.*"
    certified = rf"  certificate of silicon-m: {verdict} \(kind: semiconductor\) \("
    assert re.search(certified if student else "does not hold the student silicon-m", output), output
    assert ("forces    RMSE" in output) == student, output


def test_demo_of_a_material_with_a_student(tmp_path):
    """With a student both run, and both are evaluated on the same frames: of the teacher as its own student the errors
    are what the positions of the dump lose."""
    same = tmp_path / "student.yaml"
    for name in ("nequix-oam-1-pft.yaml", "nequix-oam-1-pft.safetensors"):
        target = same if name.endswith(".yaml") else tmp_path / name
        shutil.copyfile(os.path.join(ROOT, "models", name), target)
    output, n_reports = demo_of_silicon(tmp_path, "--student", str(same))
    assert "student has no certificate; mlff certify makes one" in output and n_reports == 2
    found = re.search(r"RMSE ([0-9.]+) meV/A +\(RMS force (\d+) meV/A\)", output)
    assert found and float(found[1]) < 0.1 and float(found[2]) > 100, output


def test_demo_of_what_is_there(tmp_path, monkeypatch, capsys):
    """A model that is not in models/ leaves the other one alone; a certificate is that of its network."""
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import demo

    monkeypatch.setattr(demo, "MODELS", str(tmp_path))
    chosen = argparse.Namespace(teacher=None, student=None, of=demo.MATERIALS["Si"])
    with pytest.raises(demo.DemoError, match="holds neither nequix-oam-1-pft .* nor silicon-m"):
        demo.choose_models(chosen)
    head = {"weights": {"sha256": "1"}, "architecture": "painn", "painn": {}, "elements": ["Si"]}
    model = tmp_path / "silicon-m.yaml"
    model.write_text(yaml.safe_dump(head), encoding="utf-8")
    demo.choose_models(chosen)
    assert (chosen.teacher, chosen.student) == (None, str(model))
    assert "does not hold the teacher nequix-oam-1-pft" in capsys.readouterr().out
    (tmp_path / "certificates").mkdir()
    says = {"model": {"sha256": demo.network_digest(head)}, "verdict_text": "PASS: 2 of 2 criteria met", "context": {}}
    says["context"]["date"] = "2026-11-23"
    (tmp_path / "certificates" / "silicon-m.json").write_text(json.dumps(says), encoding="utf-8")
    assert "silicon-m: PASS: 2 of 2 criteria met (2026-11-23" in demo.certificate(str(model))
    model.write_text(yaml.safe_dump({**head, "elements": ["Ge"]}), encoding="utf-8")
    assert "certificate of another network" in demo.certificate(str(model))


def test_demo_without_model(tmp_path):
    code, output = run(
        [
            sys.executable,
            os.path.join(ROOT, "scripts", "demo.py"),
            "--build",
            BUILD,
            "--out",
            str(tmp_path / "out"),
            "--teacher",
            "missing.yaml",
        ]
    )
    assert (
        code == 1 and "teacher: there is not a model file missing.yaml" in output and "make demo TEACHER=" in output
    ), output


def test_c_example(tmp_path):
    code, output = run(
        [os.path.join(BUILD, "examples", "c_api", "example_water"), str(models.painn(tmp_path / "painn"))]
    )
    assert code == 0 and "energy" in output.lower(), output
