"""Finding and running the program `mlff`, which evaluates structures with the C engine."""

import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

from .modelfile import ModelError
from .structures import write_xyz

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def find_program(path=None):
    """Path of `mlff`: `path`, $MLFF, build folders of this checkout, PATH; ModelError when there is none."""
    for name, wanted in (("--mlff", path), ("$MLFF", os.environ.get("MLFF"))):
        if wanted:
            if os.path.isfile(wanted) and os.access(wanted, os.X_OK):
                return wanted
            raise ModelError(f"{name} is '{wanted}', which is not a program")
    for folder in ("build", "build/release", "build/default"):
        for sub in ("", "bin", "src/cli"):
            candidate = os.path.join(ROOT, folder, sub, "mlff")
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate
    found = shutil.which("mlff")
    if found:
        return found
    raise ModelError("the program mlff was not found: build the project, or give --mlff PATH or $MLFF")


def evaluate(model_path, structures, precision="fp64", program=None):
    """Runs `mlff evaluate`; returns ([(energy eV, forces [N, 3] eV/A, virial [6] eV), ...], text that says what ran)."""
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
        results = [(float(r["energy"]), np.array(r["forces"], float).reshape(-1, 3), np.array(r["virial"], float))
                   for r in answer["structures"]]
    except (ValueError, KeyError, TypeError) as e:
        raise ModelError(f"'{' '.join(command)}' wrote something that is not its JSON: {e!r}") from e
    if len(results) != len(structures):
        raise ModelError(f"'{' '.join(command)}' answered {len(results)} of {len(structures)} structures")
    return results, answer.get("origin", f"mlff, precision {precision}")
