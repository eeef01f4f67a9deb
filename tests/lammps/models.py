"""Small random models for the LAMMPS tests, with all shapes of real ones and weights from a fixed seed.

Weights are small enough that forces on water are a few eV/A and large enough that every part of a network matters.
H, O and C are known; C did not occur in "training", which the tests of `domain` use.
"""

import os
import sys

import numpy as np

from mlff_tools.convert import orb as convert_orb
from mlff_tools.model import modelfile, reference

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))  # without pytest
import random_mace  # noqa: E402
import random_tensornet  # noqa: E402

ELEMENTS = ["H", "C", "O"]
# Short-range repulsion that acts in water: on bonds, on hydrogens of a molecule and on some oxygens.
REPULSION = {"kind": "zbl", "cutoffs": {"H-O": 1.2, "H-H": 1.9, "O-O": 3.1}}


def zoo(folder):
    """name -> path of a model file, one of each kind, written into `folder`."""
    return {name: make(folder / name, **options) for name, (make, options) in KINDS.items()}


def head(name, architecture, cutoff, block):
    return {
        "format": "mlff/1",
        "name": name,
        "architecture": architecture,
        "elements": ELEMENTS,
        "cutoff": cutoff,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {"H": -1.25, "C": -3.5, "O": -4.75},
        architecture: block,
        "provenance": {
            "labels": "none",
            "data": "none",
            "data_sha256": "none",
            "code": "tests/lammps/models.py",
            "license": "MIT",
            "citation": "none",
        },
        "domain": {"elements": ["H", "O"], "min_distance": 0.3, "description": "random weights"},
        "accuracy": {"description": "random weights"},
        "self_test": {"origin": "none", "tolerance": modelfile.TOLERANCE, "structures": []},
    }


def random_tensors(shapes, seed, scale):
    """Normally distributed values of variance scale^2 / fan-in; small biases."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for key in sorted(shapes):
        shape = shapes[key]
        fan_in = shape[1] if len(shape) == 2 and key != "embedding" else 1
        size = 0.1 if len(shape) == 1 else scale / np.sqrt(fan_in)
        tensors[key] = size * rng.standard_normal(shape)
    return tensors


def painn(path, seed=1, kind="bspline", n_interactions=2, cutoff=4.0, n_features=16, n_basis=10, scale=1.0, **more):
    h = head(
        "random-painn",
        "painn",
        cutoff,
        {
            "n_features": n_features,
            "n_interactions": n_interactions,
            "n_readout": 8,
            "radial_basis": {"kind": kind, "n": n_basis},
            "cutoff_function": "none" if kind == "bspline" else "cosine",
            "epsilon": 1.0e-8,
        },
    )
    h.update(more)
    tensors = random_tensors(modelfile.painn_shapes(h), seed, scale)
    if kind == "gaussian":
        tensors["basis.offsets"] = np.linspace(0.0, cutoff, n_basis)
        tensors["basis.widths"] = np.full(n_basis, cutoff / (n_basis - 1))
    if kind == "bessel":
        tensors["basis.freqs"] = np.arange(1, n_basis + 1) * np.pi / cutoff
    return write(path, h, tensors)


def ani(path, seed=2, n_members=3, cutoff=4.2, scale=3.0):
    h = head(
        "random-ani",
        "ani",
        cutoff,
        {
            "n_members": n_members,
            "constants": "exact",
            "radial": {"cutoff": cutoff, "eta": 8.0, "prefactor": 0.25, "shifts": np.linspace(0.8, 3.6, 6).tolist()},
            "angular": {
                "cutoff": 3.2,
                "eta": 6.0,
                "zeta": 8.0,
                "cos_scale": 0.95,
                "prefactor": 2.0,
                "shifts": [0.9, 1.6, 2.3],
                "sections": ((np.arange(4) + 0.5) * np.pi / 4).tolist(),
            },
            "activation": {"kind": "celu", "alpha": 0.1},
            "dims": {},
        },
    )
    h["ani"]["dims"] = {e: [modelfile.aev_length(h), 24, 16, 1] for e in ELEMENTS}
    return write(path, h, random_tensors(modelfile.ani_shapes(h), seed, scale))


def orb(path, seed=5, n_features=12, n_interactions=3, n_neighbors=20, cutoff=6.0, **more):
    h = head(
        "random-orb",
        "orb",
        cutoff,
        {
            "n_features": n_features,
            "n_hidden": 24,
            "n_interactions": n_interactions,
            "n_readout": 10,
            "n_neighbours": n_neighbors,
            "radial_basis": {"kind": "gaussian", "n": 20, "radius": 10.0},
            "norm_epsilon": 1.0e-5,
            "normalizers": {"energy": [-0.37, 1.9], "forces": [0.0125, 0.61], "stress": [-0.0031, 0.0144]},
        },
    )
    h.update(more)
    return write(path, h, convert_orb.random_tensors(h, seed))


def nequip(path, seed=6, variant="nequix", n_layers=3, cutoff=3.8):
    """Like Nequix (one-hot species, norm, even paths), SevenNet, or models of the package nequip; features of orders 0
    to 2."""
    nequix, package = variant == "nequix", variant == "package"
    h = head(
        f"random-{variant}",
        "nequip",
        cutoff,
        {
            "n_layers": n_layers,
            "n_channels": [9, 5, 3],
            "lmax": 2,
            "paths": "even" if nequix else "all",
            "embedding": "one_hot" if nequix else "linear",
            "message_divisor": [4.0 if nequix else 8.0] * n_layers,
            "radial_basis": {"kind": "bessel" if nequix else "trained", "n": 6},
            "cutoff_function": {"kind": "polynomial", "p": 6.0} if nequix else {"kind": "xplor", "onset": 3.0},
            "radial_network": {
                "hidden": [12, 12],
                "activation_norm": 1.0 if nequix else 0.5955,
                "fan_in": "none" if nequix else "sqrt",
            },
            "norm": {"kind": "rms", "epsilon": 1.0e-12} if nequix else {"kind": "none"},
            "activation_norm": 0.5964,
            "n_readout": [] if nequix else [7],
        },
    )
    if package:
        h["nequip"].update(embedding="element", n_embedding=4, self_connection="element")
        h["nequip"].update(paths="even", readout_activation_norm=0.7, neighbor_divisor=[0.9, 1.0, 1.2])
        h["repulsion"] = {"kind": "nequip", "p": 6.0}
    rng, tensors = np.random.default_rng(seed), {}
    for name, shape in modelfile.nequip_shapes(h).items():
        tensors[name] = rng.standard_normal(shape)
        if nequix and "radial_mlp" in name:
            tensors[name] *= 2.0 / np.sqrt(shape[1])
        elif name == "radial_frequencies":
            tensors[name] = np.pi / cutoff * (np.arange(6) + 1) + 0.05 * tensors[name]
        elif name == "energy_scale":
            tensors[name] *= 10.0
    return write(path, h, tensors)


def mace(path, seed=10, n_layers=2, cutoff=3.8, lmax=2, n_channels=8, like_mpa=False, nonlinear=False):
    kind = {"divisor": "density", "transform": "agnesi"} if like_mpa else {}
    block = random_mace.block(
        n_layers, lmax, n_channels, n_basis=6, hidden=[12, 12], avg_num_neighbors=4.0, n_readout=6, **kind
    )
    h = head("random-mace", "mace", cutoff, random_mace.nonlinear(block) if nonlinear else block)
    if like_mpa:
        h["repulsion"] = random_mace.repulsion(ELEMENTS)
    return write(path, h, random_mace.tensors(h, seed))


def tensornet(path, seed=12, n_features=8, n_layers=2, cutoff=3.8, **more):
    h = head("random-tensornet", "tensornet", cutoff, random_tensornet.block(n_features, n_layers, **more))
    return write(path, h, random_tensornet.tensors(h, seed))


def write(path, h, tensors):
    """Writes PATH.yaml and PATH.safetensors and returns the path of the YAML."""
    h["self_test"]["structures"] = []
    modelfile.write(str(path), h, {k: np.ascontiguousarray(v) for k, v in tensors.items()})
    return str(path) + ".yaml"


# name -> function named as the architecture, and its options
KINDS = {
    "painn": (painn, {}),
    "gaussian": (painn, {"seed": 3, "kind": "gaussian", "n_interactions": 3}),
    "local": (painn, {"seed": 4, "n_interactions": 1}),
    "ani": (ani, {}),
    "orb": (orb, {}),
    "nequix": (nequip, {}),
    "sevennet": (nequip, {"seed": 7, "variant": "sevennet"}),
    "nequip": (nequip, {"seed": 15, "variant": "package"}),
    "mace": (mace, {}),
    "mace_mpa": (mace, {"seed": 14, "like_mpa": True}),
    "mace_mh": (mace, {"seed": 16, "nonlinear": True}),
    "tensornet": (tensornet, {}),
    "local_tensornet": (tensornet, {"seed": 13, "kind": "gaussian", "message_from": "center", "group": "so3"}),
    "repelling": (painn, {"seed": 8, "repulsion": REPULSION}),
    "repelling_orb": (orb, {"seed": 9, "repulsion": REPULSION}),
}
# One of each architecture; those with per-atom energies and stress and conservative forces.
ARCHITECTURES = tuple({make: name for name, (make, _) in reversed(KINDS.items())}.values())[::-1]
CONSERVATIVE = tuple(name for name, (make, _) in KINDS.items() if make.__name__ in reference.CONSERVATIVE)
