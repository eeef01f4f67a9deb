"""The programs that write files, on inputs so small that a run takes parts of a second.

Where a command runs LAMMPS, LAMMPS has run once: a script that copies what it wrote then and prints what it said takes
its place."""

import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import yaml
from safetensors.numpy import load

from mlff_tools.train import extxyz

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
LMP = os.environ.get("MLFF_LMP", os.path.join(os.path.dirname(sys.executable), "lmp"))
PROPERTIES = 'Lattice="8 0 0 0 8 0 0 0 8" Properties=species:S:1:pos:R:3'
WATER = "".join(f"3\n{PROPERTIES}{{}}\nO 0 0 0\nH 0.76 {0.59 + 0.01 * k} 0\nH -0.76 0.59 0\n" for k in range(3))
RECIPE = {
    "name": "small",
    "structures": [{"files": "water.xyz"}],
    "teacher": {"mlff": "water-xs"},
    "bars": {"forces": 1000},
}
CASE = ["benzene_gas*", "--size", "small", "--protocol", "nve", "--steps", "60", "--warmup", "10", "--budget", "0"]
RECORD = """#!/bin/sh
# LAMMPS, and what it wrote and said
{lmp} "$@" > {store}/said
status=$?
cat {store}/said
cp -r . {store}/files && rm -f {store}/files/screen.txt
exit $status
"""
REPLAY = """#!/bin/sh
cp -r {store}/files/. . && exec cat {store}/said
"""


@dataclasses.dataclass
class Program:
    """words: the command, `{{in}}` standing for the folder of inputs. same: files that are the same in each run.
    before: a folder that the command finds. passes: exit statuses of a run without faults. goes_on: the same command
    makes good what one that failed has left. grows: by whole pieces, which a command that failed leaves."""

    name: str
    words: list
    files: tuple
    same: tuple = ()
    before: str = ""
    passes: tuple = (0,)
    goes_on: bool = True
    grows: bool = False


def replayed(folder, name):
    """Paths of two programs in the place of LAMMPS: one that runs it, and one that does again what that one did."""
    store = os.path.join(folder, name)
    os.makedirs(store)
    paths = []
    for kind, text in (("record", RECORD), ("replay", REPLAY)):
        paths.append(os.path.join(folder, f"{name}.{kind}"))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.write(text.format(lmp=shlex.quote(LMP), store=shlex.quote(store)))
        os.chmod(paths[-1], 0o755)
    return paths


def run_once(module, words, folder):
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    done = subprocess.run(
        [sys.executable, "-m", "mlff_tools", module, *words], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr


def make_inputs(folder):
    """Files that the commands read, and folders that they find."""
    models = os.path.join(ROOT, "models")
    (folder / "water.xyz").write_text(WATER.format(*[""] * 3))
    tags = [" split=test config_type=a" if k else " split=train config_type=a" for k in range(3)]
    (folder / "tagged.xyz").write_text(WATER.format(*tags))
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    shutil.copytree(os.path.join(ROOT, "benchmarks", "results"), folder / "reports")
    (folder / "model").mkdir()
    for ending in (".yaml", ".safetensors"):
        shutil.copy(os.path.join(models, "water-benzene-student" + ending), folder / "model")
        shutil.copy(os.path.join(models, "water-xs" + ending), folder / ("water-xs" + ending))
    programs = {name: replayed(str(folder), name) for name in ("lmp-validate", "lmp-scaling")}
    run_once("label", ["tagged.xyz", "-o", "labels.xyz", "--mlff", "water-xs"], folder)
    run_once("validate", [*VALIDATE, "--out", "validated", "--lmp", programs["lmp-validate"][0]], folder)
    run_once("bench", [*CASE, "--repeats", "2", "--out", "suite/suite"], folder)
    shutil.rmtree(folder / "suite" / "suite" / "cases")


VALIDATE = ["--steps", "100", "--every", "5", "--half-steps", "no"]
PROGRAMS = [
    Program("check", [MLFF, "check", "--json", "check.json"], ("check.json",)),
    Program(
        "time",
        [
            MLFF,
            "time",
            "{in}/water-xs.yaml",
            "{in}/water.xyz",
            "--calls",
            "9",
            "--file",
            "a.json",
            "--trace",
            "a.trace.json",
        ],
        ("a.json", "a.trace.json"),
    ),
    Program(
        "label",
        ["mlff_tools.train.label", "{in}/tagged.xyz", "-o", "labels.xyz", "--mlff", "water-xs"],
        ("labels.xyz",),
        ("labels.xyz",),
        grows=True,
    ),
    Program(
        "selftest",
        ["mlff_tools.model.selftest", "water-benzene-student.yaml", "{in}/water.xyz", "--origin", "reference"],
        ("water-benzene-student.yaml",),
        ("water-benzene-student.yaml", "water-benzene-student.safetensors"),
        "model",
    ),
    Program(
        "certify",
        ["mlff_tools.certify.command", "{in}/water-xs.yaml", "{in}/recipe.yaml", "--labels", "{in}/labels.xyz"]
        + ["--measure", "errors", "-o", "page.html"],
        ("page.html", "page.json"),
        passes=(0, 1, 3),
    ),
    Program("report", ["mlff_tools.report.page", "{in}/reports", "-o", "page.html"], ("page.html",)),
    Program(
        "bench",
        ["mlff_tools.bench.suite", *CASE, "--repeats", "2", "--out", "suite", "--publish", "public"],
        ("suite/suite.json", "suite/summary.txt", "public/suite.json", "public/summary.txt"),
        before="suite",
    ),
    Program(
        "validate",
        ["mlff_tools.bench.validate", *VALIDATE, "--lmp", "{in}/lmp-validate.replay", "--publish", "public"],
        ("validation/report.txt", "validation/validation.json", "validation/energy.svg", "validation/data.csv")
        + ("public/validation-water-benzene-student.json", "public/validation-water-benzene-student.svg"),
        ("validation/data.csv", "validation/energy.svg"),
        passes=(3,),
    ),
]


# ---- whole files -----------------------------------------------------------------------------------------------------


def is_whole(name, data):
    """Whether a file has its end, by what its name says it is."""
    text = data.decode("utf-8", "replace")
    ending = os.path.splitext(name)[1]
    try:
        if name.endswith(".trace.json"):  # the end of the list is optional
            json.loads(text.rstrip().rstrip("]").rstrip() + "]" if text else "[]")
        elif ending == ".json":
            json.loads(text)
        elif ending in (".html", ".svg"):
            assert text.rstrip().endswith(f"</{ending[1:]}>")
        elif ending == ".xyz":
            assert text.endswith("\n") or not text
            assert all(frame for frame, _ in extxyz.parse(name, data))
        elif ending == ".npz":
            with np.load(io.BytesIO(data)) as f:
                assert all(f[key] is not None for key in f.files)
        elif ending == ".safetensors":
            load(data)
        elif ending == ".yaml":
            assert isinstance(yaml.safe_load(text), dict)
        elif ending in (".csv", ".txt"):
            assert text.endswith("\n") or not text
    except Exception:
        return False
    return True


TEMPORARY = re.compile(r"\.tmp$|\.part|^\.[^/]*\.[^/]*$|/\.[^/]+\.[^/]*$|^tmp/")
