"""Models with random weights in the shapes of the teacher and the student, for timing before there are trained ones."""

import numpy as np

from mlff_tools.model import modelfile, selftest

SHAPES = {"teacher": (128, 3), "student": (64, 2)}
ELEMENTS = ["H", "C", "O"]


def write(path, role, seed=1):
    """Writes the model file `path`: PaiNN for H, C, O with 20 B-splines and a cutoff of 5 A."""
    n_features, n_interactions = SHAPES[role]
    rng = np.random.default_rng(seed)
    head = {
        "format": modelfile.FORMAT,
        "name": f"random-{role}",
        "architecture": "painn",
        "elements": ELEMENTS,
        "cutoff": 5.0,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": dict.fromkeys(ELEMENTS, 0.0),
        "painn": {
            "n_features": n_features,
            "n_interactions": n_interactions,
            "n_readout": n_features // 2,
            "radial_basis": {"kind": "bspline", "n": 20},
            "cutoff_function": "none",
            "epsilon": 1.0e-8,
        },
        "provenance": {
            "labels": "none: random weights",
            "data": "none",
            "data_sha256": "none",
            "code": "benchmarks/speed/models.py",
            "license": "MIT",
            "citation": "none",
        },
        "domain": {"elements": ELEMENTS, "min_distance": 0.1, "description": "none: random weights, for timing only"},
        "accuracy": {"description": "none: random weights"},
        "self_test": selftest.empty(),
    }
    tensors = {
        name: (rng.normal(size=shape) * (0.3 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.1)).astype(np.float32)
        for name, shape in modelfile.painn_shapes(head).items()
    }
    modelfile.write(path, head, tensors)
