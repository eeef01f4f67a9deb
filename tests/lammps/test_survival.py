"""Long runs survive: killed at random moments and continued, files that are never half-written, full disks, other
models."""

import contextlib
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import time

import models
import numpy as np
import processes
import pytest
from harness import CLEAR, LMP, MPIEXEC, Case, close, fails, launch, mlff, read_dump, water
from test_runs import FP64

from mlff_tools.model import modelfile

EVERY = 20  # steps between restarts
AFTER = 60  # steps that are compared after a restart
MD = (
    f"timestep 0.0002\nfix 1 all nve\nrestart {EVERY} md.*.restart\n"
    f"dump d all custom {EVERY} {{0}}.*.dump id type x y z fx fy fz\n"
    "dump_modify d sort id format float %.17g\nthermo 1000\n"
)
# A trained model: dynamics of a random one ends after about 170 steps, which may be before the signal.
STUDENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "water-benzene-student.yaml")
PAIR = mlff(STUDENT, options=FP64)
PROF = "fix prof all mlffprof 2 file report.json warmup 0 compare {0} every 3 dump hard.xyz above 1e-9\n"


def begin(zoo, folder, name):
    case = Case("md", water(3), PAIR)
    return (
        case.text(str(folder), single_point=False)
        + "velocity all create 300.0 4711 loop geom\n"
        + MD.format(name)
        + PROF.format(zoo["gaussian"])
    )


def go_on(name, restart):
    return CLEAR + f"read_restart {restart}\n" + PAIR + "\n" + MD.format(name)


def family(pid):
    """A process and all processes below it."""
    parents = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="ascii", errors="replace") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.split("/")[2]))
        except OSError:
            continue
    found = [pid]
    for member in found:
        found += parents.get(member, [])
    return found


def run_and_kill(deck, folder, how):
    """Starts a deck on two ranks and ends it at a random moment after its first restart file. Returns all its
    processes' end."""
    with open(os.path.join(folder, "in.killed"), "w", encoding="utf-8") as f:
        f.write(deck)
    with open(os.path.join(folder, "killed.log"), "wb") as log:
        process = subprocess.Popen(
            [MPIEXEC, "-n", "2", LMP, "-in", "in.killed", "-nocite", "-log", "none"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        limit = time.monotonic() + 120
        while (
            not glob.glob(os.path.join(folder, "md.*.restart")) and process.poll() is None and time.monotonic() < limit
        ):
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.4))
        assert process.poll() is None, open(log.name, encoding="utf-8", errors="replace").read()[-3000:]
        members = family(process.pid)
        for pid in members if how == signal.SIGKILL else members[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        process.wait(60)
        while any(os.path.exists(f"/proc/{pid}") for pid in members[1:]) and time.monotonic() < limit:
            time.sleep(0.01)


def check_files(folder):
    """The report is a whole one, and so is every frame of the comparison."""
    done = processes.merged([os.environ["MLFF"], "show", "report.json"], cwd=folder)
    assert done.returncode == 0, done.stdout.decode()
    lines = open(os.path.join(folder, "hard.xyz"), encoding="utf-8").read()
    assert lines.endswith("\n")
    lines, at, n_frames = lines.splitlines(), 0, 0
    while at < len(lines):
        n = int(lines[at])
        assert n == 81 and "Properties=" in lines[at + 1] and len(lines) >= at + 2 + n, f"frame {n_frames} is not whole"
        assert all(len(line.split()) == 8 for line in lines[at + 2 : at + 2 + n])
        at, n_frames = at + 2 + n, n_frames + 1
    assert n_frames > 3


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_killed_and_continued(zoo, tmp_path, how):
    """A run continues from the last readable restart file with the same results."""
    folder = str(tmp_path)
    run_and_kill(begin(zoo, folder, "killed") + "run 1000000\n", folder, how)
    check_files(folder)
    steps = sorted(
        (int(re.search(r"md\.(\d+)\.restart", path).group(1)) for path in glob.glob(folder + "/md.*.restart")),
        reverse=True,
    )
    for step in steps[:2]:  # the newest may have been cut while it was written
        output = launch(go_on("again", f"md.{step}.restart") + f"run {AFTER}\n", folder, 2, check=False)
        if "ERROR" not in output:
            break
    else:
        raise AssertionError(f"neither of the restarts of steps {steps[:2]} can be read:\n{output[-2000:]}")
    whole = begin(zoo, folder, "whole").replace(PROF.format(zoo["gaussian"]), "")
    launch(whole + f"run {step + AFTER}\n", folder, 2)
    for k in range(0, AFTER + 1, EVERY):
        a, b = (read_dump(f"{folder}/{name}.{step + k}.dump") for name in ("again", "whole"))
        close(a, b, 1e-8, f"{k} steps after the restart of step {step}")
    killed = read_dump(f"{folder}/killed.{step}.dump")
    close(killed, read_dump(f"{folder}/whole.{step}.dump"), 1e-8, f"step {step} of the killed run")
    assert np.ptp(a[:, 2:5] - read_dump(f"{folder}/whole.0.dump")[:, 2:5]) > 1e-3, "nothing moved"


def test_another_model_at_a_restart(zoo, tmp_path):
    """A model file that is gone, one with other weights, no pair_coeff, and a file without keywords, as older releases
    wrote them, are one clear error each."""
    for suffix in (".yaml", ".safetensors"):
        shutil.copy(zoo["painn"].replace(".yaml", suffix), tmp_path / ("painn" + suffix))
    case = Case("first", water(2), mlff("painn.yaml", options=FP64))
    launch(
        case.text(str(tmp_path), single_point=False) + "fix 1 all nve\nrun 2\nwrite_restart a.restart\n",
        str(tmp_path),
        2,
    )
    again = CLEAR + "read_restart a.restart\n{}\nfix 1 all nve\nrun 1\n"
    for ranks in (1, 2):
        launch(again.format(mlff("painn.yaml", options=FP64)), str(tmp_path), ranks)
    data = (tmp_path / "a.restart").read_bytes()
    words = b"precision\0fp64\0"
    assert data.count(words) == 1
    at = data.index(words)
    old = data[: at - 4] + bytes(4) + data[at + len(words) :]
    (tmp_path / "old.restart").write_bytes(old)
    text = fails(again.format("pair_coeff * * painn.yaml O H").replace("a.restart", "old.restart"), tmp_path)
    assert (
        "keywords after read_restart, because the restart file was written by a release that did not store them" in text
    ), text
    launch(again.format(mlff("painn.yaml", options=FP64)).replace("a.restart", "old.restart"), str(tmp_path))
    text = fails(again.format(""), tmp_path)
    assert "All pair coeffs are not set" in text, text
    models.painn(str(tmp_path / "painn"), seed=77)
    text = fails(again.format(mlff("painn.yaml", options=FP64)), tmp_path, 2)
    assert re.search(
        r"was written with model random-painn \(sha256 \w{12}, header \w{12}\), but painn.yaml is random-painn "
        r"\(sha256 \w{12}, header \w{12}\)",
        text,
    ), text
    assert "pair_style none" in text
    launch(again.format("pair_style none\n" + mlff("painn.yaml", options=FP64)), str(tmp_path), 2)
    os.remove(tmp_path / "painn.safetensors")
    assert "painn.safetensors: cannot be opened" in fails(again.format(mlff("painn.yaml", options=FP64)), tmp_path, 2)
    os.remove(tmp_path / "painn.yaml")
    assert "cannot read model file 'painn.yaml'" in fails(again.format(mlff("painn.yaml", options=FP64)), tmp_path, 2)


def test_another_header_at_a_restart(zoo, tmp_path):
    """The same weights with other offsets are another model, but for files of releases that wrote no hash of it; other
    words about a model are not."""
    for suffix in (".yaml", ".safetensors"):
        shutil.copy(zoo["painn"].replace(".yaml", suffix), tmp_path / ("painn" + suffix))
    case = Case("first", water(2), mlff("painn.yaml", options=FP64))
    launch(case.text(str(tmp_path), single_point=False) + "fix 1 all nve\nwrite_restart a.restart\n", str(tmp_path))
    again = CLEAR + f"read_restart a.restart\n{mlff('painn.yaml', options=FP64)}\nfix 1 all nve\nrun 0\n"
    path = str(tmp_path / "painn.yaml")
    head = modelfile.read_head(path)
    modelfile.write_head(path, {**head, "description": "other words"})
    launch(again, str(tmp_path))
    stated = head["header_sha256"].encode()
    modelfile.write_head(path, {**head, "energy_offsets": dict.fromkeys(head["elements"], 1.0)})
    text = fails(again, tmp_path, 2)
    assert re.search(
        r"header " + stated[:12].decode() + r"\), but painn.yaml is .*, header \w{12}\)\. Use the same", text
    ), text
    data = (tmp_path / "a.restart").read_bytes()
    assert data.count(stated) == 1
    (tmp_path / "a.restart").write_bytes(data.replace(stated, bytes(64)))
    launch(again, str(tmp_path), 2)


def test_nothing_can_be_written(zoo, tmp_path):
    """A report that cannot be written is an error at the start; frames that cannot are said once, and the run goes
    on."""
    case = (
        Case("md", water(2), mlff(zoo["painn"])).text(str(tmp_path), single_point=False)
        + "fix 1 all nve\ntimestep 0.0002\n"
    )
    text = fails(case + "fix prof all mlffprof 1 file /dev/full\nrun 5\n", tmp_path)
    assert "No space left on device" in text, text
    frames = f"fix prof all mlffprof 1 warmup 0 compare {zoo['gaussian']} every 1 dump /dev/full above 1e-9\nrun 9\n"
    output = launch(case + frames + 'print "WENT ON $(step)"\n', str(tmp_path), 2)
    assert output.count("cannot write /dev/full: No space left on device") == 1 and "WENT ON 9" in output, output[
        -3000:
    ]


def test_full_disk(zoo, tmp_path):
    """A disk that becomes full: report and earlier frames stay complete, and the run continues."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = processes.merged(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)])
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here: " + done.stdout.decode().strip())
    try:
        case = (
            Case("md", water(2), mlff(zoo["painn"])).text(str(tmp_path), single_point=False)
            + "fix 1 all nve\ntimestep 0.0002\n"
        )
        prof = (
            f"fix prof all mlffprof 1 warmup 0 file disk/r.json compare {zoo['gaussian']} every 1 dump "
            "disk/hard.xyz above 1e-9\n"
        )
        output = launch(case + prof + 'run 60\nprint "WENT ON $(step)"\n', str(tmp_path), 2)
        assert "cannot write disk/hard.xyz: No space left on device; no more frames are written" in output, output[
            -3000:
        ]
        assert output.count("disk/r.json: cannot be written: No space left on device (reported once") == 1, output[
            -3000:
        ]
        assert "an older report is in disk/r.json" in output
        assert "WENT ON 60" in output
        lines = (disk / "hard.xyz").read_text().splitlines()
        assert len(lines) % 26 == 0 and 5 * 26 < len(lines) < 60 * 26
        assert (
            subprocess.run(
                [os.environ["MLFF"], "show", str(disk / "r.json")], stdout=subprocess.PIPE, check=False
            ).returncode
            == 0
        )
        assert sorted(os.listdir(disk)) == ["hard.xyz", "r.json"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
