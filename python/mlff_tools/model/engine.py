"""Finding and running the program `mlff`, which evaluates structures with the C engine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from .. import SOURCE
from .modelfile import ModelError
from .structures import write_xyz


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find_program(path=None):
    """Path of `mlff`: `path`, $MLFF, build folders of this checkout, folder of this Python, PATH; ModelError when there
    is none."""
    for name, wanted in (("the option", path), ("$MLFF", os.environ.get("MLFF"))):
        if wanted:
            if _is_program(wanted):
                return os.path.abspath(wanted)
            raise ModelError(f"{name} for the program mlff is '{wanted}', which does not exist or cannot be used")
    folders = [os.path.join(SOURCE, f) for f in ("build", "build/release")]
    if sys.executable:  # empty where Python is part of another program
        folders.append(os.path.dirname(sys.executable))
    built = (os.path.join(folder, "mlff") for folder in folders)
    found = next(filter(_is_program, built), None) or shutil.which("mlff")
    if not found:
        raise ModelError("the program mlff was not found: build the project, or give --mlff PATH or $MLFF")
    return found


def evaluate(model_path, structures, precision="fp64", program=None, options=()):
    """Runs `mlff evaluate` with more options; returns ([(energy eV, forces [N, 3] eV/A, virial [6] eV), ...], text that
    says what ran)."""
    program = find_program(program)
    with tempfile.TemporaryDirectory() as folder:
        xyz = os.path.join(folder, "structures.xyz")
        write_xyz(xyz, structures)
        command = [program, "evaluate", model_path, xyz, "--precision", precision, *options, "--json"]
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
