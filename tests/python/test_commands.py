"""The commands of mlff_tools start as the documentation writes them, from any folder and with nothing else than
.venv."""

import json
import os
import re
import subprocess
import sys

import processes
import pytest

from mlff_tools.__main__ import COMMANDS
from mlff_tools.convert import command as convert
from mlff_tools.model.modelfile import ModelError, find_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = os.path.join(ROOT, "README.md")
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))


def run(words, folder):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = processes.merged(words, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="scripts/setup.sh has made no .venv here")
@pytest.mark.parametrize("name", COMMANDS)
def test_in_the_environment(name, tmp_path):
    assert "usage: " in run([PYTHON, "-m", "mlff_tools", name, "--help"], tmp_path)
    place = run([PYTHON, "-c", "import mlff_tools; print(mlff_tools.__file__)"], tmp_path)
    assert place.startswith(os.path.join(ROOT, "python")), f"{PYTHON} finds {place}"


@pytest.mark.parametrize("name", [c for c in COMMANDS if c not in ("against", "selftest")])
def test_nothing_of_the_current_folder_is_run(name, tmp_path):
    """Modules with the names of what the commands import lie in the folder that `mlff` is called in."""
    for module in ("numpy", "runpy", "argparse", "json", "mlff_tools"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('{module}.py of the current folder was run')\n")
    assert f"usage: mlff {name}" in run([MLFF, name, "--help"], tmp_path)


def test_all_kinds_of_sources_are_named():
    with open(README, encoding="utf-8") as f:
        assert "mlff convert " + "|".join(convert.KINDS) + " INPUT" in f.read()
    assert all(f"mlff convert {kind}" in convert.__doc__ for kind in convert.KINDS)


def mlff(*words, status=0, **environment):
    done = subprocess.run(
        [MLFF, *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_all_commands_are_in_the_help():
    text = mlff("--help")
    assert all(f"\n  mlff {name} " in text for name in COMMANDS if name not in ("against", "selftest"))
    assert "compare with torchani" in mlff("verify", "--help")


def commands():
    return re.findall(r"^  mlff ([a-z]+) ", mlff("--help"), re.M)


@pytest.mark.parametrize("words", (["--no-such-option"], ["no-such-input", "no-such-input"]))
def test_wrong_usage_is_status_2(words, tmp_path):
    """Commands of C and of Python say one thing and write nothing."""
    assert len(commands()) > 20
    for name in commands():
        done = subprocess.run(
            [MLFF, name, *words], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, (name, done)
        assert f"mlff {name}: " in done.stderr or "mlff: no-such-input" in done.stderr, (name, done.stderr)
        assert not done.stdout and not os.listdir(tmp_path), (name, done.stdout)


@pytest.mark.parametrize(
    "words, meant",
    [
        (["inof"], "'info'"),
        (["distil"], "'distill'"),
        (["validade"], "'validate'"),
        (["time", "--calss", "3"], "'--calls'"),
        (["check", "--jsn"], "'--json'"),
    ],
)
def test_a_wrong_word_suggests_the_right_one(words, meant):
    assert f"; did you mean {meant}?" in mlff(*words, status=2)


def test_a_word_far_from_all_suggests_none():
    for words in (["completely"], ["xy"], ["show", "--" + "x" * 30]):
        assert "did you mean" not in mlff(*words, status=2)


def test_models_have_names(tmp_path):
    """One of this project, one of $MLFF_MODELS, which goes before it, and one that there is not; in C and in Python."""
    shipped = os.path.join(ROOT, "models")
    assert mlff("info", "water-xs") == mlff("info", os.path.join(shipped, "water-xs.yaml"))
    assert find_model("water-xs") == os.path.join(shipped, "water-xs.yaml")
    os.symlink(
        os.path.join(shipped, "silicon-m.safetensors"), tmp_path / "silicon-m.safetensors"
    )  # the name in its header
    for suffix in (".yaml", ".safetensors"):
        os.symlink(os.path.join(shipped, "silicon-m" + suffix), tmp_path / ("water-xs" + suffix))
        os.symlink(os.path.join(shipped, "silicon-m" + suffix), tmp_path / ("mine" + suffix))
    known = {"MLFF_MODELS": f"/nowhere:{tmp_path}"}
    assert "silicon" in mlff("info", "water-xs", **known) and "silicon" in mlff("info", "mine", **known)
    table = {line.split()[0]: line.split()[-1] for line in mlff("info", **known).splitlines()[1:]}
    assert table["mine"] == str(tmp_path / "mine.yaml") and table["water-xs"] == str(tmp_path / "water-xs.yaml")
    assert table["silicon-m"] == os.path.join(shipped, "silicon-m.yaml")
    many = {"MLFF_MODELS": ":".join(f"/nowhere/{k}" for k in range(500)) + f":{shipped}:{shipped}"}
    assert "liquid water" in mlff("info", "water-xs", **many)
    names = mlff("info", "--names", **many).split()
    assert "water-xs" in names and len(names) == len(set(names))
    for text in (mlff("info", "silicon-sx", status=2), mlff("time", "silicon-sx", "none.xyz", status=2)):
        assert "there is no model 'silicon-sx'" in text and text.endswith("did you mean 'silicon-m'?\n")
    with pytest.raises(ModelError, match="no model silicon-sx; there are: .*silicon-m"):
        find_model("silicon-sx")
    assert "cannot be opened" in mlff("info", "silicon-sx.yaml", status=2)


def test_a_folder_is_no_model(tmp_path):
    """`mlff distill` makes a folder of the student's name."""
    (tmp_path / "water-xs").mkdir()
    done = subprocess.run([MLFF, "info", "water-xs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "liquid water" in done.stdout, done.stderr


def test_certificates_of_named_models_are_written_here(tmp_path):
    shipped = set(os.listdir(os.path.join(ROOT, "models")))
    recipe = os.path.join(ROOT, "models", "recipes", "silicon-m.yaml")
    words = [MLFF, "certify", "silicon-m", recipe, "--measure", "crystals", "--quick"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "silicon-m-certificate.html").exists(), done.stderr
    assert set(os.listdir(os.path.join(ROOT, "models"))) == shipped


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("mlff di", "distill"),
        ("mlff info silicon", "silicon-m"),
        ("mlff certify silicon", "silicon-m"),
        ("mlff time water-xs x.xyz --ca", "--calls"),
        ("mlff distill --dry", "--dry-run"),
        ("mlff show repo", ""),
    ],
)
def test_completion(typed, offered):
    script = (
        f'PATH="{os.path.dirname(os.path.abspath(MLFF))}:$PATH"; eval "$(mlff --completion)"; COMP_WORDS=({typed}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mlff; echo "${COMPREPLY[0]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (offered, "")


def roofs(core):
    """Multiply-adds per second of each kernel path and precision, measured on one core."""
    words = [MLFF, "check", "--roof", "--json", "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    text = done.stdout.decode()
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])["roofs"]
    return {(r["kernels"], r["precision"]): r["gflops"] for r in found}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be kept on a core here")
def test_roofs_of_a_busy_core():
    """Two other processes on the same core take two thirds of its time, and nothing off its peak rates."""
    core = min(os.sched_getaffinity(0))
    spin = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    quiet = roofs(core)
    others = [subprocess.Popen(spin) for _ in range(2)]
    try:
        busy = roofs(core)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert busy.keys() == quiet.keys() and len(busy) >= 2
    for key, value in busy.items():
        assert value > 0.6 * quiet[key], (key, value, quiet[key])


@pytest.mark.parametrize("word", ["--version", "--completion"])
def test_words_without_arguments(word):
    assert f"mlff {word}: takes no argument, and got 'fish'" in mlff(word, "fish", status=2)


@pytest.mark.parametrize(
    "words",
    [
        "info nowhere",
        "info bad.yaml",
        "verify bad.yaml",
        "evaluate silicon-m bad.xyz",
        "time silicon-m nowhere.xyz",
        "show bad.yaml",
        "explain nowhere.json",
        "compare --gate bad.yaml bad.yaml",
        "bench --model nowhere",
        "report bad.yaml",
        "certify nowhere bad.yaml",
        "distill nowhere.yaml",
        "validate nowhere",
        "label nowhere bad.xyz -o out.xyz",
        "cite nowhere",
        "methods nowhere",
    ],
)
def test_wrong_input_ends_with_2_in_c_and_python(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bad.yaml", "bad.xyz"):
        (tmp_path / name).write_text("[\n")
    mlff(*words.split(), status=2)
