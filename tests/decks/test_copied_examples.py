"""mlff examples: the list, and copies that run in another folder."""

import re
import subprocess

import pytest

from mlff_tools import examples
from mlff_tools.model.lammps import environment, find_lmp

LMP = find_lmp()


def test_list(capsys):
    assert examples.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(examples.scripts()) and len(lines) >= 10
    assert all(16 + 20 < len(line) <= 16 + 101 for line in lines), "each says what it computes"


@pytest.mark.parametrize("name", examples.scripts())
def test_copies_stand_alone(name):
    """No path to another folder is left, every variable that is used is defined, and the plugin is loaded once."""
    made = examples.files_of(name, "/place/mlffplugin.so")
    text = made.pop(name)
    assert "${folder}" not in text and "${plugin}" not in text and "../" not in re.sub("(?m)^#.*", "", text)
    assert text.count('plugin          load "/place/mlffplugin.so"\n\nunits ') == 1
    assert "plugin " not in re.sub("(?m)^#.*", "", examples.files_of(name, "")[name])
    assert set(made) == set(re.findall(r"\b(?:data\.water\d+|mol\.\w+)\b", text))


@pytest.mark.parametrize(
    "name, options", [("water_nvt", ["-var", "steps", "5"]), ("in.elastic", ["-var", "steps", "2"])]
)
def test_copies_run(name, options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert examples.main([name, "-o", "runs"]) == 0, capsys.readouterr().err
    script = "in." + name.removeprefix("in.")
    words = [LMP, "-in", script, "-log", "none", *options]
    done = subprocess.run(words, cwd="runs", env=environment(LMP), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Total wall time" in done.stdout, done.stdout[-2000:]


def test_bad_input_is_one_error(tmp_path, monkeypatch, capsys):
    """Nothing is overwritten or half-written: a file that exists is found before the first is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.eos").write_text("mine")
    assert examples.main(["water_nvt", "eos"]) == 2
    assert "in.eos exists: move it, or replace it with --force" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["in.eos"] and (tmp_path / "in.eos").read_text() == "mine"
    assert examples.main(["eos", "--force"]) == 0 and "units" in (tmp_path / "in.eos").read_text()
    assert examples.main(["nothing"]) == 2
    assert "there is no example 'nothing'; known: in.adsorption, " in capsys.readouterr().err
