"""Models for the GPU benchmark, into a folder: the shipped ones, and with random weights networks of the published
shapes of ANI-2x, with 1 and with 8 members, and Orb-v2. Times do not depend on weights.

  shapes.py FOLDER [--small]     --small: a narrow Orb of one layer, for the simulated device

The ANI-2x networks are those of H and O, with the columns of the descriptor that water can reach: leaving the others
out is exact, and the engine does it by itself. Each model has its head as NAME.json too, for torch_bench.py, which
has no YAML.
"""

import glob
import hashlib
import json
import math
import os
import shutil
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import orb_weights  # noqa: E402

from mlff_tools.convert import orb as convert_orb  # noqa: E402
from mlff_tools.model import files, modelfile, selftest  # noqa: E402

HIDDEN = {"H": [256, 192, 160], "O": [192, 160, 128]}


def head_of(name, architecture, elements, cutoff, block):
    return {
        "format": modelfile.FORMAT,
        "name": name,
        "architecture": architecture,
        "description": "random weights, for benchmarks only",
        "elements": list(elements),
        "cutoff": cutoff,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": dict.fromkeys(elements, 0.0),
        architecture: block,
        "provenance": {
            "labels": "none",
            "data": "none",
            "data_sha256": "none",
            "code": "benchmarks/gpu/shapes.py",
            "license": "MIT",
            "citation": "none",
        },
        "domain": {
            "elements": list(elements),
            "min_distance": 0.1,
            "temperature": [0.0, 1000.0],
            "description": "none: random weights",
        },
        "accuracy": {"description": "none: random weights"},
        "self_test": selftest.empty(),
    }


def ani2x(n_members):
    """(head, tensors) with the sizes of J. Chem. Theory Comput. 16, 4192 (2020)."""
    radial = {"cutoff": 5.1, "eta": 19.7, "prefactor": 0.25, "shifts": [0.8 + 0.26875 * k for k in range(16)]}
    angular = {
        "cutoff": 3.5,
        "eta": 12.5,
        "zeta": 14.1,
        "cos_scale": 0.95,
        "prefactor": 2.0,
        "shifts": [0.8 + 0.3375 * k for k in range(8)],
        "sections": [math.pi / 8 * (2 * k + 1) for k in range(4)],
    }
    length = 2 * 16 + 3 * 32
    dims = {e: [length, *hidden, 1] for e, hidden in HIDDEN.items()}
    block = {
        "n_members": n_members,
        "constants": "exact",
        "radial": radial,
        "angular": angular,
        "activation": {"kind": "celu", "alpha": 0.1},
        "dims": dims,
    }
    head = head_of(f"random-ani2x-{n_members}", "ani", HIDDEN, 5.1, block)
    rng = np.random.default_rng(1)
    tensors = {}
    for name, shape in modelfile.ani_shapes(head).items():
        scale = 1 / math.sqrt(shape[-1]) if len(shape) == 2 else 0.1
        tensors[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return head, tensors


def write_orb(folder, is_small):
    """Orb-v2 with 15 layers; weights are those of orb_weights.py."""
    block = convert_orb.random_model(1, 1 if is_small else 15, list(HIDDEN))[0]["orb"]
    if is_small:
        block.update(n_features=16, n_hidden=24, n_readout=8)
    head = head_of("random-orb-v2", "orb", HIDDEN, convert_orb.CUTOFF, block)
    tensors = {name: list(shape) for name, shape in modelfile.orb_shapes(head).items()}
    data = orb_weights.weights(tensors)
    path = os.path.join(folder, head["name"])
    head["weights"] = {"file": head["name"] + ".safetensors", "sha256": hashlib.sha256(data).hexdigest()}
    files.write_bytes(path + ".safetensors", data)
    modelfile.write_head(path + ".yaml", head)
    return {head["name"]: tensors}


def main():
    is_small = sys.argv[2:] == ["--small"]
    if len(sys.argv) != 2 + is_small:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    made_later = write_orb(folder, is_small)
    for n_members in (1, 8):
        head, tensors = ani2x(n_members)
        modelfile.write(os.path.join(folder, head["name"]), head, tensors)
    for weights in glob.glob(os.path.join(ROOT, "models", "*.safetensors")):
        for file in (weights, weights[: -len("safetensors")] + "yaml"):
            shutil.copy(file, folder)
    for path in glob.glob(os.path.join(folder, "*.yaml")):
        head = modelfile.load_yaml(path)
        del head["self_test"]
        if head["name"] in made_later:
            head["tensors"] = made_later[head["name"]]
        with open(path[: -len("yaml")] + "json", "w", encoding="utf-8") as f:
            json.dump(head, f)


if __name__ == "__main__":
    main()
