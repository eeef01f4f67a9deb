"""benchmarks/gpu/measure.py and pack.sh: calls on the simulated device, cases that fail, and calls that are killed."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time

import nightly
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = os.path.join(ROOT, "benchmarks", "gpu")
sys.path.insert(0, GPU)

import measure  # noqa: E402

MLFF, PLUGIN = os.path.abspath(os.environ.get("MLFF", "mlff")), os.environ["MLFF_PLUGIN"]
STUDENTS = ("water-xs", "silicon-m", "organics-s")
SYSTEM = r"linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|z)\.so"
FAKE = """#!/bin/sh
if [ "$1" = check ]; then echo '{{"cpu": "a processor", "devices": [{{"name": "a GPU"}}]}}' >"$3"; exit; fi
{behavior}
echo '{{"median_ms": 1.0, "n_kernels": 3}}'
"""
PASSED = "#!/bin/sh\necho '100%: Checks: 3, Failures: 0, Errors: 0'\n"
FAILED = """#!/bin/sh
echo '50%: Checks: 2, Failures: 1, Errors: 0'
echo 'file.c:7:F:core:test_sum:0: 3 is not 4'
exit 1
"""


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)


def start(call, build, out, *more, **options):
    words = [sys.executable, os.path.join(GPU, "measure.py"), call, "--build", str(build), "--out", str(out), *more]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(words, **pipes, **options)


def finish(process, out, call):
    """(exit code, results, output)"""
    output = process.communicate(timeout=300)[0].decode()
    return process.returncode, read(out, call), output


def read(out, call="times"):
    with open(os.path.join(out, call + ".json"), encoding="utf-8") as f:
        return json.load(f)


@pytest.fixture(name="fake")
def write_fake(tmp_path):
    """A build with a stand-in for `mlff` that runs these lines of shell."""

    def make(behavior=""):
        write_program(tmp_path / "build" / "mlff", FAKE.format(behavior=behavior))
        write_program(tmp_path / "build" / "lmp", "#!/bin/sh\nexit 1\n")
        return tmp_path / "build"

    return make


@pytest.fixture(name="build", scope="module")
def link_build(tmp_path_factory):
    """The simulated device, with small networks of random weights."""
    folder = tmp_path_factory.mktemp("build")
    for path in (MLFF, PLUGIN):
        os.symlink(path, folder / os.path.basename(path))
    measure.random_models(str(folder / "models"), True)
    return folder


# ---- on the simulated device ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "models",
    (("water-xs", "silicon-m", "random-ani2x"), pytest.param((*STUDENTS, "random-orb-v2"), marks=nightly.only)),
)
def test_times(build, tmp_path, models):
    """Evaluations are compared with the CPU and timed, batches and small systems with and without CUDA graph; LAMMPS
    runs whole steps."""
    code, found, output = finish(start("times", build, tmp_path, "--quick", "--models", *models), tmp_path, "times")
    assert code == 0 and found["state"] == "complete" and found["format"] == measure.FORMAT, output
    assert found["machine"]["cuda"]["n_usable"] == 1
    rows = [row for row in found["rows"] if "precision" in row]
    for model in models:
        ways = {(r["precision"], r["replay"], r["replicas"]) for r in rows if r["model"] == model}
        batched = {("fp32", "yes", 2), ("fp32", "no", 2)} if model in measure.BATCHED else set()
        assert ways == {("fp32", "yes", 1), ("fp32", "no", 1), ("mixed", "yes", 1)} | batched
    for row in rows:
        assert row["median_ms"] > 0 and (row["n_kernels"] > 0) == (row["replay"] == "yes"), row
        assert row["replicas"] > 1 or row["force_difference"] < 1e-3, row
    steps = [row for row in found["rows"] if "steps" in row]
    assert {row["model"] for row in steps} == {"water-xs", "silicon-m"}
    assert all(row["mean_ms"] > 0 and row["device"].startswith("cuda") for row in steps)
    text = (tmp_path / "times.txt").read_text(encoding="utf-8")
    assert text.startswith("times: complete") and len(text.splitlines()) == len(found["rows"]) + 2


@nightly.only
def test_targets(build, tmp_path):
    """The table of targets on the simulated device: rows that need a GPU have values."""
    code, found, output = finish(start("targets", build, tmp_path, "--quick"), tmp_path, "targets")
    assert code == 0 and found["rows"][0]["checks"] > 20, (found, output)
    with open(tmp_path / "targets" / "targets.json", encoding="utf-8") as f:
        values = {r["target"]: r["value"] for r in json.load(f)["rows"]}
    assert values["captured and fused / plain"] > 0 and values["mean step"] > 0


def test_pack(build, tmp_path):
    """A pack has all libraries but those of glibc, gcc and zlib, and measures with an empty environment."""
    settings = {"BUILD": str(build), "PYTHON": sys.executable, "MLFF_SHARED_DIR": str(tmp_path)}
    file = str(tmp_path / "pack.tar")
    subprocess.run([os.path.join(GPU, "pack.sh"), file], env={**os.environ, **settings}, check=True)
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    pack = tmp_path / "gpu-pack"
    library = str(pack / "build-gpu" / "lib")
    for name in ("mlff", "mlffplugin.so", "lmp", "mpiexec.hydra"):
        words = ["ldd", str(pack / "build-gpu" / name)]
        done = subprocess.run(words, env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": library}, capture_output=True)
        lines = [line for line in done.stdout.decode().splitlines() if not re.search(SYSTEM, line)]
        assert done.returncode == 0 and all(library in line for line in lines), lines
    words = [sys.executable, str(pack / "benchmarks" / "gpu" / "measure.py"), "times", "--quick"]
    words += ["--models", "water-xs", "--out", str(tmp_path)]
    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True)
    found = read(tmp_path)
    assert done.returncode == 0 and found["commit"] and "steps" in found["rows"][-1], done.stdout.decode()


# ---- without a device ----------------------------------------------------------------------------------------------


def test_wrong_forces_are_not_timed(fake, tmp_path):
    """A network that disagrees with the CPU in a precision is timed at no size in it; its other rows are."""
    build = fake('case "$*" in *mixed*) echo "too far from fp64 on the CPU"; exit 1 ;; esac')
    code, found, output = finish(start("times", build, tmp_path, "--models", "silicon-m"), tmp_path, "times")
    mixed = [row for row in found["rows"] if row.get("precision") == "mixed"]
    assert code == 1 and len(mixed) == 3 and not any("median_ms" in row for row in mixed), output
    assert "too far" in mixed[0]["failed"] and all("not timed" in row["failed"] for row in mixed[1:])
    assert all(row["median_ms"] == 1 for row in found["rows"] if row.get("precision") in ("fp32", "fp64"))
    batches = [row for row in found["rows"] if row.get("replicas") == 16]
    assert [row["replay"] for row in batches] == ["yes", "no"]


def test_limit_of_a_call(fake, tmp_path):
    """What finds no time is a row that says so, and the call ends in time."""
    begin = time.monotonic()
    process = start("times", fake("sleep 1"), tmp_path, "--seconds", str(measure.CLOSING + 4))
    code, found, _ = finish(process, tmp_path, "times")
    assert code == 1 and found["state"] == "complete" and time.monotonic() - begin < 30
    assert "median_ms" in found["rows"][0] and found["rows"][-1]["failed"] == "no time left"


def test_programs_end_with_what_they_started(tmp_path):
    begin, path = time.monotonic(), tmp_path / "late"
    assert measure.run(["sh", "-c", f"(sleep 3; touch {path}) & sleep 60"], 0.5)[0] is None
    time.sleep(max(0, 4 - (time.monotonic() - begin)))
    assert not path.exists()


@pytest.mark.parametrize("number,state", ((signal.SIGKILL, "running"), (signal.SIGTERM, "stopped")))
def test_a_call_that_is_killed(fake, tmp_path, number, state):
    """Results can be read at any moment, and have the rows until then."""
    with start("times", fake("sleep 0.05"), tmp_path) as process:
        n_rows, n_reads = 0, 0
        while n_rows < 5 and process.poll() is None:
            if (tmp_path / "times.json").exists():
                n_rows, n_reads = len(read(tmp_path)["rows"]), n_reads + 1
        process.send_signal(number)
        process.communicate()
    found = read(tmp_path)
    assert process.returncode != 0 and n_reads > 5 and len(found["rows"]) >= 5 and found["state"] == state
    assert all(row["median_ms"] == 1 for row in found["rows"])


@pytest.mark.parametrize("errors", (0, 2))
def test_tests(fake, tmp_path, monkeypatch, errors):
    """Programs that pass, fail or die; findings of compute-sanitizer."""
    build = fake()
    for name in measure.HOT_PROGRAMS:
        write_program(build / "tests" / f"test_op_{name}", PASSED)
    write_program(build / "tests" / "test_model_one", FAILED)
    write_program(build / "tests" / "test_cuda_two", "#!/bin/sh\nkill -9 $$\n")
    sanitizer = f'#!/bin/sh\necho "========= ERROR SUMMARY: {errors} errors"\n'
    write_program(tmp_path / "bin" / "compute-sanitizer", sanitizer)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    code, found, output = finish(start("tests", build, tmp_path), tmp_path, "tests")
    programs = {row["program"]: row for row in found["rows"] if "tool" not in row}
    assert code == 1 and len(programs) == 10, output
    assert programs["test_op_ops"]["checks"] == 3 and "3 is not 4" in programs["test_model_one"]["failed"]
    assert "exit code -9" in programs["test_cuda_two"]["failed"]
    runs = [row for row in found["rows"] if "tool" in row and row["program"] != "random-ani2x"]
    assert len(runs) == 4 * (8 + 3) and {row["tool"] for row in runs} == set(measure.TOOLS)
    assert all((row.get("findings") == 0) if not errors else row["failed"].startswith("2 findings") for row in runs)


def test_build(tmp_path, monkeypatch):
    """A build configures CMake for a GPU, also for the architecture that is named, and has random models."""
    write_program(tmp_path / "bin" / "cmake", f'#!/bin/sh\necho "$@" >>{tmp_path}/words\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    words = ["build", "--quick", "--build", str(tmp_path / "build"), "--architectures", "90-real"]
    subprocess.run([sys.executable, os.path.join(GPU, "measure.py"), *words], check=True)
    configure, make = (tmp_path / "words").read_text(encoding="utf-8").splitlines()
    assert {"-DMLFF_CUDA=ON", "-DMLFF_CUDA_ARCHITECTURES=90-real", "-DMLFF_BUILD_PLUGIN=ON"} <= set(configure.split())
    assert make.startswith("--build") and (tmp_path / "build" / "models" / "random-orb-v2.yaml").exists()


def test_structures():
    """Every size exists; copies keep the density, and atoms keep their distance."""
    for material, sizes, _ in measure.MODELS.values():
        assert all(measure.unit(material, n) for n in sizes)
    edges, atoms = measure.structure("water", 1152)
    assert len(atoms) == 1152 and sum(kind == 2 for kind, *_ in atoms) == 384 and edges[0] * 3 == edges[2] * 1
    edges, atoms = measure.structure("silicon", 64)
    (_, *a), others = atoms[0], atoms[1:]
    squares = [sum(((x - y + e / 2) % e - e / 2) ** 2 for x, y, e in zip(b, a, edges)) for _, *b in others]
    assert sorted(squares)[3] < 2.7**2 < sorted(squares)[4] and min(squares) > 2.0**2
    with pytest.raises(measure.Failed, match="100 atoms"):
        measure.structure("water", 100)
