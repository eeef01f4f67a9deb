"""The commands of mlff_tools start as the documentation writes them, from any folder and with nothing else than
.venv."""

import os
import subprocess

import pytest

from mlff_tools.convert import command as convert

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = os.path.join(ROOT, "README.md")
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
COMMANDS = "convert sample train accuracy against selftest validate bench scaling report label".split()


def run(words, folder):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="scripts/setup.sh has made no .venv here")
@pytest.mark.parametrize("name", COMMANDS)
def test_in_the_environment(name, tmp_path):
    assert "usage: " in run([PYTHON, "-m", f"mlff_tools.{name}", "--help"], tmp_path)
    place = run([PYTHON, "-c", "import mlff_tools; print(mlff_tools.__file__)"], tmp_path)
    assert place.startswith(os.path.join(ROOT, "python")), f"{PYTHON} finds {place}"


@pytest.mark.parametrize("name", ["convert", "bench", "scaling", "validate", "report", "label", "certify"])
def test_nothing_of_the_current_folder_is_run(name, tmp_path):
    """Modules with the names of what the commands import lie in the folder that `mlff` is called in."""
    for module in ("numpy", "runpy", "argparse", "json", "mlff_tools"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('{module}.py of the current folder was run')\n")
    assert f"usage: mlff {name}" in run([MLFF, name, "--help"], tmp_path)


def test_all_kinds_of_sources_are_named():
    with open(README, encoding="utf-8") as f:
        assert "mlff convert " + "|".join(convert.KINDS) + " INPUT" in f.read()
    assert all(f"mlff convert {kind}" in convert.__doc__ for kind in convert.KINDS)
