"""Random MACE networks: block and tensors of model files. Polynomials are sums of A_00 and of squares of each order."""

import numpy as np

from mlff_tools.model import modelfile

TRANSFORMS = {
    "none": {"kind": "none"},
    "agnesi": {"kind": "agnesi", "a": 1.0805, "p": 4.5791, "q": 0.9183},
    "soft": {"kind": "soft", "a": 4.0},
}
RADII = {"H": 0.31, "C": 0.76, "O": 0.66}


def block(
    n_layers, lmax, n_channels, n_basis, hidden, avg_num_neighbors, n_readout, divisor="average", transform="none"
):
    """Layer 0 has matrices of the element on messages, the others on features."""
    return {
        "n_layers": n_layers,
        "lmax": lmax,
        "n_orders": 1,
        "n_channels": n_channels,
        "degree": [2] * n_layers,
        "skip": ["messages"] + ["features"] * (n_layers - 1),
        "products": [1, 1, (lmax + 1) ** 2, lmax + 1] * n_layers,
        "divisor": [divisor] * n_layers,
        "avg_num_neighbors": [avg_num_neighbors] * n_layers,
        "radial_basis": {"kind": "bessel", "n": n_basis},
        "distance_transform": TRANSFORMS[transform],
        "cutoff_function": {"kind": "polynomial", "p": 5.0},
        "radial_network": {"hidden": hidden, "activation_norm": 0.595529907587252, "fan_in": "sqrt"},
        "n_readout": n_readout,
        "activation": "silu",
        "activation_norm": 0.595529907587252,
    }


def nonlinear(block):
    """The same with non-linear blocks, and all that models with them have in common."""
    n, n_layers, orders = block["n_channels"], block["n_layers"], range(block["n_orders"])
    return {
        **block,
        "skip": ["features"] * n_layers,
        "divisor": ["density"] * n_layers,
        "product_weights": "common",
        "readouts": "last",
        "n_readout_layers": 2,
        "radial_network": {**block["radial_network"], "activation_norm": 1.0, "fan_in": "none"},
        "nonlinear": {
            "n_edge_first": max(n - 1, 1),
            "n_edge": [max(n - 2 - l, 1) for l in orders],
            "n_density": 9,
            "norm_epsilon": 1e-5,
            "activation_norm": 0.595529907587252,
            "gate_norm": 0.5415048482132931,
        },
    }


def tensors(head, seed):
    """Normally distributed weights, frequencies near those of Bessel functions."""
    p, rng, found = head["mace"], np.random.default_rng(seed), {}
    orders = [l for l in range(p["lmax"] + 1) for _ in range(2 * l + 1)]
    for name, shape in modelfile.mace_shapes(head).items():
        found[name] = rng.standard_normal(shape)
        if name.endswith("alpha"):
            found[name] = 3.0 + 0.1 * found[name]
        elif "nonlinear" in p and len(shape) == 2 and ("radial_mlp" in name or "density" in name):
            found[name] /= np.sqrt(shape[1])
        elif "linear_2" in name or "linear_res" in name:
            found[name] *= 0.7
        if name == "covalent_radii":
            found[name] = np.array([RADII.get(e, 1.0) for e in head["elements"]])
        elif name == "radial_frequencies":
            found[name] = np.pi / head["cutoff"] * (np.arange(p["radial_basis"]["n"]) + 1) + 0.05 * found[name]
        elif name.endswith("degree_1.rows"):
            found[name] = np.array([[0.0, 0.0, 0.0, 1.0]])
        elif name.endswith("degree_2.rows"):
            found[name] = np.array([[0.0, i, i, l, 1 / np.sqrt(2 * l + 1)] for i, l in enumerate(orders)])
    return found


def repulsion(elements):
    """The block `repulsion` of a model like MPA-0."""
    radii = {e: RADII[e] for e in elements}
    return {"kind": "mace", "p": 5.0, "exponent": 0.3, "prefactor": 0.4543, "scale": 0.2, "radii": radii}
