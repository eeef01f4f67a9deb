"""Models for the GPU benchmark, into a folder: the shipped ones, and networks of ANI-2x's published shape with random weights,
with 1 and with 8 members. Times do not depend on weights.

  shapes.py FOLDER

The ANI-2x networks are those of H and O, with the columns of the descriptor that water can reach: leaving the others out is
exact, and the engine does it by itself. Each model has its head as NAME.json too, for torch_bench.py, which has no YAML.
"""

import glob
import json
import math
import os
import shutil
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from mlff_tools import modelfile, selftest  # noqa: E402

HIDDEN = {"H": [256, 192, 160], "O": [192, 160, 128]}


def ani2x(n_members):
    """(head, tensors) with the sizes of J. Chem. Theory Comput. 16, 4192 (2020)."""
    radial = {"cutoff": 5.1, "eta": 19.7, "prefactor": 0.25, "shifts": [0.8 + 0.26875 * k for k in range(16)]}
    angular = {"cutoff": 3.5, "eta": 12.5, "zeta": 14.1, "cos_scale": 0.95, "prefactor": 2.0,
               "shifts": [0.8 + 0.3375 * k for k in range(8)],
               "sections": [math.pi / 8 * (2 * k + 1) for k in range(4)]}
    length = 2 * 16 + 3 * 32
    dims = {e: [length, *hidden, 1] for e, hidden in HIDDEN.items()}
    block = {"n_members": n_members, "constants": "exact", "radial": radial, "angular": angular,
             "activation": {"kind": "celu", "alpha": 0.1}, "dims": dims}
    head = {
        "format": modelfile.FORMAT, "name": f"random-ani2x-{n_members}", "architecture": "ani",
        "description": "random weights, for benchmarks only", "elements": list(HIDDEN), "cutoff": 5.1,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {e: 0.0 for e in HIDDEN}, "ani": block,
        "provenance": {"labels": "none", "data": "none", "data_sha256": "none", "code": "benchmarks/gpu/shapes.py",
                       "license": "MIT", "citation": "none"},
        "domain": {"elements": list(HIDDEN), "min_distance": 0.1, "temperature": [0.0, 1000.0],
                   "description": "none: random weights"},
        "accuracy": {"description": "none: random weights"}, "self_test": selftest.empty()}
    rng = np.random.default_rng(1)
    tensors = {}
    for name, shape in modelfile.ani_shapes(head).items():
        scale = 1 / math.sqrt(shape[-1]) if len(shape) == 2 else 0.1
        tensors[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return head, tensors


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for n_members in (1, 8):
        head, tensors = ani2x(n_members)
        modelfile.write(os.path.join(folder, head["name"]), head, tensors)
    for path in glob.glob(os.path.join(ROOT, "models", "*.yaml")):
        for file in (path, path[:-len("yaml")] + "safetensors"):
            shutil.copy(file, folder)
    for path in glob.glob(os.path.join(folder, "*.yaml")):
        head = modelfile.load_yaml(path)
        del head["self_test"]
        with open(path[:-len("yaml")] + "json", "w", encoding="utf-8") as f:
            json.dump(head, f)


if __name__ == "__main__":
    main()
