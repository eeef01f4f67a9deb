"""Random TensorNet networks: block and tensors of model files."""

import numpy as np

from mlff_tools.model import modelfile


def block(n_features, n_layers, kind="bessel_smooth", message_from="neighbor", group="o3"):
    return {
        "n_features": n_features,
        "n_layers": n_layers,
        "radial_basis": {"kind": kind, "n": 3} if kind == "bessel_smooth" else {"kind": kind, "n": 5, "exponent": 0.7},
        "activation": "silu",
        "group": group,
        "message_from": message_from,
        "norm_epsilon": 1.0e-5,
        "energy_scale": 1.7,
    }


def tensors(head, seed):
    """Normally distributed weights of variance 1.2^2/fan-in, small biases, gains of norms near 1."""
    rng, found = np.random.default_rng(seed), {}
    for name, shape in modelfile.tensornet_shapes(head).items():
        size = 0.1 if len(shape) == 1 else 1.0 if name == "embedding.species" else 1.2 / np.sqrt(shape[1])
        found[name] = size * rng.standard_normal(shape)
        if name.endswith("norm.weight"):
            found[name] += 1.0
        elif name == "radial.centers":
            found[name] += np.linspace(0.0, head["cutoff"] + 1.0, shape[0])
    return found
