"""Names of files and folders with characters that LAMMPS or a shell give a meaning: they work, or are refused in one
line, and nothing in them is run."""

import os
import re
import shutil
import subprocess
import sys

import helpers
import numpy as np
import pytest
import yaml
from nightly import NIGHTLY

from mlff_tools.model import lammps, modelfile
from mlff_tools.train import extxyz

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "water-xs.yaml")
WATER = "O 0 0 0.119262\nH 0 0.763239 -0.477047\nH 0 -0.763239 -0.477047\n"
# What a folder may be called
NAMES = [
    "with blank",
    "a#b",
    "a&b",
    "a&",
    "a$b",
    "a${x}b",
    "$(1)",
    "it's",
    'a"b',
    "a\"b'c",
    '"',
    '"\'"',
    '"""',
    "new\nline",
]
NAMES += ["tab\tbed", "Jos\u00e9", "a\u00a0b", "a\u2019b", "\u4e2d", "a\\b", "*", "50%", "; touch ran", "`touch ran`"]
NAMES += [
    "w H O\nshell touch ran\n#",
    "$(touch ran)",
    "{x}",
    "[1]",
    "-var",
    b"caf\xe9".decode("utf-8", "surrogateescape"),
]
SCRIPT = """clear
units metal
boundary f f f
region box block -9 9 -9 9 -9 9
create_box 2 box
create_atoms 1 single 0 0 0.119262
create_atoms 2 single 0 0.763239 -0.477047
create_atoms 2 single 0 -0.763239 -0.477047
mass 1 15.999
mass 2 1.008
pair_style mlff precision fp64 domain ignore
pair_coeff * * {model} O H
run 0 post no
print "energy: $(pe:%.10f)"
write_dump all custom {out} id modify sort id
"""


def needs_lammps(function):
    """For tests that run LAMMPS with the plugin."""
    try:
        there = bool(lammps.find_lmp() and lammps.find_plugin() and helpers.program())
    except modelfile.ModelError:
        there = False
    return pytest.mark.skipif(not there, reason="no LAMMPS, plugin or program mlff")(function)


def folder_of(place, name):
    """A folder of this name with a model in it."""
    folder = os.path.join(place, name)
    os.mkdir(folder)
    for path in modelfile.model_paths(MODEL):
        os.symlink(path, os.path.join(folder, os.path.basename(path)))
    return folder


def run_lammps(place, text, *words):
    plugin = f"plugin load {lammps.quoted(lammps.find_plugin())}\n"
    with open(os.path.join(place, "in.lmp"), "w", encoding="ascii") as f:
        f.write(plugin + text)
    lmp = lammps.find_lmp()
    command = [lmp, "-in", "in.lmp", "-log", "none", "-nocite", *words]
    return subprocess.run(command, check=False, **lammps.process_options(lmp, str(place)))


@needs_lammps
def test_lammps_reads_and_writes_in_all_folders(tmp_path):
    """As words of a script, and as variables; the plugin takes such names in pair_coeff."""
    text, words, outs = "", [], []
    for k, name in enumerate(NAMES):
        folder = folder_of(tmp_path, name)
        for quote, how in ((lammps.quoted, "q"), (lammps.variable, "v")):
            model, out = quote(os.path.join(folder, "water-xs.yaml")), quote(os.path.join(folder, how))
            if how == "v":
                words += ["-var", f"model{k}", model, "-var", f"out{k}", out]
                model, out = f"${{model{k}}}", f"${{out{k}}}"
            text += SCRIPT.format(model=model, out=out)
            outs.append(os.path.join(folder, how))
    done = run_lammps(tmp_path, text, *words)
    energies = re.findall(r"^energy: (.*)$", done.stdout, re.M)
    assert len(energies) == 2 * len(NAMES), done.stdout[-2000:]
    assert len(set(energies)) == 1 and all(map(os.path.isfile, outs))
    assert not any("ran" in names for _, _, names in os.walk(tmp_path))


def test_quotes_of_lammps(tmp_path):
    """A blank by itself: the words that LAMMPS documents; no link where quotes do."""
    assert lammps.quoted("/a/b.yaml") == '"/a/b.yaml"' and lammps.quoted("/a b/c's") == '"/a b/c\'s"'
    assert lammps.quoted('/a"b') == "'/a\"b'" and lammps.quoted("/a\"b'c") == '"""/a"b\'c"""'
    assert lammps.variable("/a/b-1.yaml") == "/a/b-1.yaml"
    for name in ("\u00e9.yaml", "a\nb.yaml", "a*.yaml"):
        with pytest.raises(lammps.LammpsError, match=r"the file name '.*' has characters .*: rename the file$"):
            lammps.quoted(str(tmp_path / name))
    with pytest.raises(lammps.LammpsError, match="rename the file"):
        lammps.variable(str(tmp_path / "my model.yaml"))


TEACHERS = [
    "w.yaml H O\nshell touch ran\n#.yaml",
    "w H O #.yaml",
    "Jos\u00e9 b/w.yaml",
    "x H O\nshell touch ran\n#/w.yaml",
]


@needs_lammps
@pytest.mark.parametrize("name", TEACHERS if NIGHTLY else TEACHERS[:1])
def test_a_teacher_runs_nothing_by_its_file_name(name, tmp_path):
    """mlff certify wrote the name of the recipe's teacher into a script as it was."""
    frames = [yaml.safe_load(yaml.safe_dump(s)) for s in modelfile.load_yaml(MODEL)["self_test"]["structures"]]
    s = next(s for s in frames if s["name"].startswith("8 waters"))
    frame = {"elements": s["elements"], "positions": np.array(s["positions"]), "cell": np.array(s["cell"])}
    frame.update(energy=s["energy"], forces=np.array(s["forces"]), info={"split": "test"})
    (tmp_path / "water.xyz").write_text(extxyz.text(frame))
    yaml_path, weights = modelfile.model_paths(MODEL)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.copy(yaml_path, tmp_path / name)
    shutil.copy(weights, (tmp_path / name).parent)
    shutil.copy(yaml_path, (tmp_path / name).parent / "w.yaml")  # so that a script with the name as it is goes on
    system = {"files": "water.xyz", "kind": "liquid", "temperature": 300}
    recipe = {"teacher": {"mlff": name}, "bars": {"nvt": "stable"}, "certify": {"minutes": 1, "systems": [system]}}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    words = ["certify", MODEL, "r.yaml", "--labels", "water.xyz", "--measure", "nvt", "--quick", "-o", "c.html"]
    done = command(words, tmp_path)
    assert not any("ran" in names for _, _, names in os.walk(tmp_path)), done
    assert "Traceback" not in done.stderr and "SyntaxError" not in done.stderr
    if "\n" in os.path.basename(name):
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "has characters that input scripts of LAMMPS cannot have" in done.stderr
    else:
        assert done.returncode == 0, done


def command(words, place):
    """A command of Python in a process of its own, in the folder `place`."""
    words = [sys.executable, "-m", "mlff_tools", *words]
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "PYTHONIOENCODING": "utf-8"}
    options = {"encoding": "utf-8", "errors": "replace", "stdin": subprocess.DEVNULL, "env": env, "cwd": place}
    return subprocess.run(words, capture_output=True, check=False, **options)


BENCH = ["--model", "{f}/water-xs.yaml", "--steps", "20", "--warmup", "2", "--repeats", "1"]
COMMANDS = {
    "label": ["label", "{f}/w.xyz", "-o", "{f}/l.xyz", "--mlff", "{f}/water-xs"],
    "validate": ["validate", "{f}/water-xs.yaml", "{f}/w.xyz", "--steps", "200", "--every", "5", "--out", "{f}/v"],
    "bench": ["bench", "water-small-nve", *BENCH, "--equilibrate", "2", "--out", "{f}/b"],
    "scaling": ["scaling", "strong", "--ranks", "1", *BENCH, "--out", "{f}/sc"],
}
FEW = ("with blank", "w H O\nshell touch ran\n#", NAMES[-1])


@needs_lammps
@pytest.mark.parametrize("name", NAMES if NIGHTLY else FEW, ids=ascii)
@pytest.mark.parametrize("which", list(COMMANDS) if NIGHTLY else ["label"])
def test_commands_in_all_folders(which, name, tmp_path):
    """They end well, or with one line; never with a traceback or another file than theirs."""
    folder = folder_of(tmp_path, name)
    with open(os.path.join(folder, "w.xyz"), "w", encoding="ascii") as f:
        f.write("3\n\n" + WATER)
    done = command([w.replace("{f}", folder) for w in COMMANDS[which]], tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    assert not any("ran" in names for _, _, names in os.walk(tmp_path))
    if done.returncode not in (0, 3):  # 3: too short to say
        errors = [line for line in done.stderr.strip().splitlines() if "error" in line]
        assert len(errors) == 1, done.stderr
        assert done.returncode == 2
    assert os.listdir(tmp_path) == [name]
