"""examples/slurm on a real Slurm: a run that is preempted and told to stop loses no steps; an array fills one table."""

import glob
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pages
import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.dirname(sys.executable)
PLUGIN = os.path.abspath(os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so")))
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
STEPS, SAVE, SAMPLE = 300, 20, 20
SETTINGS = {"LMP": os.path.join(BIN, "lmp"), "PLUGIN": PLUGIN, "OMP_NUM_THREADS": "1"}
MPIEXEC = os.path.join(BIN, "mpiexec") + " -launcher fork -n 2"


@pytest.fixture
def work(tmp_path):
    """A copy of the examples next to the models, as a user has it."""
    for name in ("slurm", "lammps_inputs"):
        shutil.copytree(os.path.join(ROOT, "examples", name), tmp_path / "examples" / name)
    os.symlink(os.path.join(ROOT, "models"), tmp_path / "models")
    return tmp_path / "examples" / "slurm"


def frames(folder):
    """step -> numbers of the last frame of that step; incomplete frames of killed pieces are left out."""
    found = {}
    for path in sorted(glob.glob(str(folder / "water.*.lammpstrj")), key=lambda p: int(p.split(".")[-2])):
        with open(path, encoding="ascii", errors="replace") as f:
            for block in f.read().split("ITEM: TIMESTEP\n")[1:]:
                lines = block.splitlines()
                rows = [[float(x) for x in line.split()] for line in lines[8:] if len(line.split()) == 8]
                if len(lines) >= 3 and len(rows) == int(lines[2]):
                    found[int(lines[0])] = np.array(rows)
    return found


def waits(slurm, job):
    """The job is back in the queue, from which it starts again after the lifetime of its credential."""
    slurm.wait(lambda: slurm.states().get(job) == "PENDING", 60, "the job did not go back into the queue")


def steps_of(path):
    text = path.read_text(errors="replace") if path.exists() else ""
    numbers = re.findall(r"^ +(\d+) +[-\d.]", text, re.M)
    return int(numbers[-1]) if numbers else -1


def run_whole(work, options):
    """The same deck without a batch system, uninterrupted; its folder."""
    whole = work.parent / "whole"
    shutil.copytree(work, whole, ignore=shutil.ignore_patterns("water.*"))
    subprocess.run(
        [
            SETTINGS["LMP"],
            "-in",
            "in.long",
            "-log",
            "none",
            "-screen",
            "none",
            "-nocite",
            "-var",
            "plugin",
            PLUGIN,
            *options.split(),
        ],
        cwd=whole,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return whole


def test_long_run(slurm, work):
    """Requeued by the controller as after preemption, then told to stop as before a time limit: the same trajectory."""
    deck = (work / "in.long").read_text().replace('"precision fp32"', '"precision fp64 device cpu"')
    (work / "in.long").write_text(deck)
    options = f"-var steps {STEPS} -var save {SAVE} -var sample {SAMPLE}"
    out = slurm.run("sbatch", "--parsable", "long.sbatch", cwd=work, LAUNCH=MPIEXEC, OPTIONS=options, **SETTINGS)
    job = out.strip()
    assert job.isdigit(), out
    said = work / "mlff-long.out"

    def problem():
        return said.read_text() if said.exists() else "no output"

    slurm.wait(
        lambda: steps_of(work / f"water.{job}.0.log") >= 2 * SAVE or "ended" in problem(), 120, "no steps: " + problem()
    )
    slurm.run("scontrol", "requeue", job)
    waits(slurm, job)
    slurm.wait(
        lambda: steps_of(work / f"water.{job}.1.log") >= 6 * SAVE or problem().count("ended") > 1,
        120,
        "no steps: " + problem(),
    )
    slurm.run("scancel", "--batch", "--signal=TERM", job)
    waits(slurm, job)
    slurm.wait(lambda: job not in slurm.states(), 180, "the job does not end: " + problem())
    text = problem()
    assert "start 0: from the beginning" in text and re.search(r"start 1: from water\.[12]\.restart", text), text
    assert (
        "ended with code 10" in text and "start 2: from water.stopped.restart" in text and "ended with code 0" in text
    ), text
    assert (work / "water.done.restart").exists() and not (work / "water.stop").exists()

    whole = run_whole(work, options)
    pieces, expected = frames(work), frames(whole)
    assert sorted(pieces) == sorted(expected) == list(range(0, STEPS + 1, SAMPLE))
    for step, frame in expected.items():
        assert np.abs(pieces[step] - frame).max() < 1e-6, (
            f"step {step} differs by {np.abs(pieces[step] - frame).max():g}"
        )
    assert np.abs(expected[STEPS][:, 5:8] - expected[0][:, 5:8]).max() > 1.0, "nothing moved"
    reports = sorted(glob.glob(str(work / "water.*.json")))
    shown = processes.merged([MLFF, "show", *reports])
    assert len(reports) == 3 and shown.returncode == 0, shown.stdout


def test_array(slurm, work):
    """Every line of cases.txt becomes a report; `mlff show` puts them into one table."""
    (work / "cases.txt").write_text(
        "\n".join(
            line + ("" if line.startswith("#") else " -var steps 20")
            for line in (work / "cases.txt").read_text().splitlines()
        )
        + "\n"
    )
    cases = [line.split()[0] for line in (work / "cases.txt").read_text().splitlines() if not line.startswith("#")]
    out = slurm.run(
        "sbatch",
        "--parsable",
        f"--array=1-{len(cases) + 1}",
        "array.sbatch",
        cwd=work,
        LAUNCH=os.path.join(BIN, "mpiexec") + " -launcher fork -n 1",
        **SETTINGS,
    )
    job = out.strip()
    assert job.isdigit(), out
    slurm.wait(lambda: not any(name.startswith(job) for name in slurm.states()), 180, "the array does not end")
    said = "".join(open(path, encoding="utf-8").read() for path in glob.glob(str(work / "mlff-cases.*.out")))
    reports = [str(work / "reports" / f"{name}.json") for name in cases]
    assert reports and all(os.path.exists(path) for path in reports), said
    assert f"cases.txt has no line {len(cases) + 1}" in said
    shown = processes.merged([MLFF, "show", *reports])
    assert shown.returncode == 0 and all(name in shown.stdout for name in cases), shown.stdout


def test_tutorial(slurm, work):
    """The batch job of docs/tutorials/cluster.md, typed as it stands; tests/decks types the rest of the page."""
    outputs = pages.type_page(
        "tutorials/cluster.md",
        work,
        replace=[
            ("mpiexec -n 2", MPIEXEC),
            ("-var steps 20000", "-var steps 20"),
            ("sbatch long", "sbatch --wait long"),
        ],
        skip=["mlff check", "-var steps 0", "mlff scaling"],
        env={"SLURM_CONF": slurm.env["SLURM_CONF"], **SETTINGS},
    )
    assert "10 steps measured" in outputs[-1], outputs[-1]
