"""Shared by the Python tests: random models, places of things, comparisons that fail on NaN."""

import contextlib
import io
import os
import subprocess

import numpy as np
import pytest
import random_mace
import random_tensornet

from mlff_tools.convert import orb as convert_orb
from mlff_tools.model import engine, lammps, modelfile, selftest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SHARED = os.environ.get("MLFF_SHARED_DIR", os.path.join(os.path.dirname(ROOT), "shared"))
PUBLISHED = os.path.join(SHARED, "models")
HAS_PUBLISHED = os.path.exists(os.path.join(PUBLISHED, "ani-2x.yaml"))
NO_PUBLISHED = f"no published parameters in {PUBLISHED} (MLFF_SHARED_DIR)"


def program():
    """The program mlff, or None."""
    try:
        return engine.find_program()
    except modelfile.ModelError:
        return None


def can_run():
    """Whether LAMMPS, the plugin and the program mlff are there."""
    try:
        lammps.find_lmp()
        return bool(lammps.find_plugin() and program())
    except modelfile.ModelError:
        return False


needs_lammps = pytest.mark.skipif(not can_run(), reason="no LAMMPS, plugin or program mlff")


def refusal(main, words):
    """What main(words) of a command says on standard error when it cannot use what it is given."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(words)
    assert status == 2, f"exit status {status}: {said.getvalue()}"
    return said.getvalue()


def run_elsewhere(python, *modules):
    """Runs test modules of this folder in another Python; an assertion with what it says when they do not pass."""
    words, here = [python, "-W", "ignore", "-m", "unittest", *modules], os.path.dirname(os.path.abspath(__file__))
    paths = os.pathsep.join(os.path.join(ROOT, name) for name in ("python", "tests/support"))
    env = {**os.environ, "PYTHONPATH": paths, "MLFF_TORCH_PYTHON": ""}  # it does not ask another
    done = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def assert_near(actual, expected, tolerance, what):
    """max |actual - expected| <= tolerance; NaN fails; names the worst index."""
    a, b = np.asarray(actual, float), np.asarray(expected, float)
    assert a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}"
    if a.size == 0:
        raise AssertionError(f"{what}: nothing to compare")
    difference = np.abs(a - b)
    bad = ~(difference <= tolerance)
    if bad.any():
        k = np.unravel_index(np.argmax(np.where(np.isnan(difference), np.inf, difference)), a.shape)
        raise AssertionError(f"{what}{list(map(int, k))}: {a[k]!r}, expected {b[k]!r} (allowed difference {tolerance})")


def common_head(name, architecture, elements, cutoff):
    """Everything of a model file that is not about the network."""
    return {
        "format": modelfile.FORMAT,
        "name": name,
        "architecture": architecture,
        "elements": elements,
        "cutoff": cutoff,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {e: -1.5 - k for k, e in enumerate(elements)},
        "provenance": {
            "labels": "random",
            "data": "none",
            "data_sha256": "none",
            "code": "tests",
            "license": "MIT",
            "citation": "none",
        },
        "domain": {"elements": elements, "min_distance": 0.1, "description": "random weights"},
        "accuracy": {"description": "random weights"},
        "self_test": selftest.empty(),
    }


def random_tensors(head, seed):
    """Weights of moderate size for a head with its architecture's block."""
    rng = np.random.default_rng(seed)
    shapes = modelfile.SHAPES[head["architecture"]](head)
    out = {}
    for name, shape in shapes.items():
        scale = 1.0 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.1
        out[name] = (scale * rng.normal(size=shape)).astype(np.float32)
    cutoff = head["cutoff"]
    k = head.get("painn", {}).get("radial_basis", {}).get("n")
    if "basis.offsets" in out:
        out["basis.offsets"] = np.linspace(0, cutoff, k, dtype=np.float32)
        out["basis.widths"] = np.full(k, cutoff / (k - 1), np.float32)
    if "basis.freqs" in out:
        out["basis.freqs"] = (np.arange(1, k + 1) * np.pi / cutoff).astype(np.float32)
    return out


def painn(kind="bspline", n_features=8, n_interactions=2, elements=("H", "C", "O"), cutoff=4.0, seed=0):
    """A random PaiNN as (head, tensors)."""
    head = common_head(f"random-painn-{kind}", "painn", list(elements), cutoff)
    head["painn"] = {
        "n_features": n_features,
        "n_interactions": n_interactions,
        "n_readout": 4,
        "radial_basis": {"kind": kind, "n": 10},
        "cutoff_function": "none" if kind == "bspline" else "cosine",
        "epsilon": 1e-8,
    }
    return head, random_tensors(head, seed)


def ani(n_members=2, elements=("H", "C", "O"), seed=0):
    """A random ensemble of ANI networks as (head, tensors)."""
    head = common_head("random-ani", "ani", list(elements), 4.5)
    head["ani"] = {
        "n_members": n_members,
        "constants": "exact",
        "radial": {"cutoff": 4.5, "eta": 6.0, "prefactor": 0.25, "shifts": [0.8, 1.6, 2.4, 3.2]},
        "angular": {
            "cutoff": 3.2,
            "eta": 4.0,
            "zeta": 8.0,
            "cos_scale": 0.95,
            "prefactor": 2.0,
            "shifts": [0.9, 1.8],
            "sections": [0.5, 1.6, 2.7],
        },
        "activation": {"kind": "celu", "alpha": 0.1},
        "dims": {},
    }
    head["ani"]["dims"] = {e: [modelfile.aev_length(head), 12, 8, 1] for e in elements}
    return head, random_tensors(head, seed)


def orb(n_features=12, n_hidden=20, n_interactions=2, elements=("H", "C", "O"), cutoff=6.0, n_neighbours=20, seed=0):
    """A random Orb-v2, narrow, as (head, tensors)."""
    head = common_head("random-orb", "orb", list(elements), cutoff)
    head["orb"] = {
        "n_features": n_features,
        "n_hidden": n_hidden,
        "n_interactions": n_interactions,
        "n_readout": 10,
        "n_neighbours": n_neighbours,
        "radial_basis": {"kind": "gaussian", "n": 20, "radius": 10.0},
        "norm_epsilon": 1e-5,
        "normalizers": {"energy": [-0.37, 1.9], "forces": [0.0125, 0.61], "stress": [-0.0031, 0.0144]},
    }
    return head, convert_orb.random_tensors(head, seed)


def nequip(variant="nequix", seed=0, cutoff=4.2, elements=("H", "C", "O"), n_channels=(6, 3, 2), lmax=2, n_layers=3):
    """A random NequIP network as (head, tensors): that of Nequix or of SevenNet, with small odd widths."""
    nequix, head = variant == "nequix", common_head(f"random-{variant}", "nequip", list(elements), cutoff)
    head["nequip"] = {
        "n_layers": n_layers,
        "n_channels": list(n_channels),
        "lmax": lmax,
        "paths": "even" if nequix else "all",
        "embedding": "one_hot" if nequix else "linear",
        "message_divisor": [np.sqrt(11.3).item() if nequix else 5.25] * n_layers,
        "radial_basis": {"kind": "bessel" if nequix else "trained", "n": 5},
        "cutoff_function": {"kind": "polynomial", "p": 6.0} if nequix else {"kind": "xplor", "onset": 3.4},
        "radial_network": {
            "hidden": [7, 7],
            "activation_norm": 1.0 if nequix else 0.595529907587252,
            "fan_in": "none" if nequix else "sqrt",
        },
        "norm": {"kind": "rms", "epsilon": 1.0e-12} if nequix else {"kind": "none"},
        "activation_norm": 0.5964586854233045 if nequix else 0.595529907587252,
        "n_readout": [] if nequix else [n_channels[0] // 2],
    }
    rng, tensors = np.random.default_rng(seed), {}
    for name, shape in modelfile.nequip_shapes(head).items():
        values = rng.normal(size=shape)
        if ".norm." in name or name == "energy_scale":
            values = rng.uniform(0.6, 1.4, shape)
        elif nequix and "radial_mlp" in name:
            values *= 1.5 / np.sqrt(shape[1])
        elif name == "radial_frequencies":
            values = np.pi / cutoff * np.arange(1, 6) * rng.uniform(0.9, 1.1, 5)
        tensors[name] = values.astype(np.float32)
    tensors["energy_scale"] = tensors["energy_scale"].astype(np.float64)
    if nequix:
        tensors["energy_scale"][:] = 0.75
    return head, tensors


def nequip_package(seed=0, n_layers=3, n_channels=(6, 3, 2), n_readout=(4,), has_activation=True, **more):
    """A random network of the package nequip, with self-connections by element. more: keys of its block."""
    head, _ = nequip("sevennet", n_layers=n_layers, n_channels=n_channels)
    head["nequip"].update(
        paths="even",
        embedding="element",
        n_embedding=5,
        self_connection="element",
        cutoff_function={"kind": "polynomial", "p": 6.0},
        message_divisor=[np.sqrt(11.3).item()] * n_layers,
        radial_network={"hidden": [7, 7], "activation_norm": 0.7071067811865475, "fan_in": "sqrt"},
        n_readout=list(n_readout),
        **({"readout_activation_norm": 0.7071067811865475} if has_activation else {}),
        **more,
    )
    rng, tensors = np.random.default_rng(seed), {}
    for name, shape in modelfile.nequip_shapes(head).items():
        tensors[name] = rng.normal(size=shape)
    tensors["energy_scale"] = rng.uniform(0.6, 1.4, len(head["elements"]))
    tensors["radial_frequencies"] = np.pi / head["cutoff"] * np.arange(1, 6) * rng.uniform(0.9, 1.1, 5)
    return head, tensors


def mace(seed=0, cutoff=4.2, elements=("H", "C", "O"), n_channels=5, lmax=2, n_layers=2, nonlinear=False):
    """A random MACE network as (head, tensors)."""
    head = common_head("random-mace", "mace", list(elements), cutoff)
    block = random_mace.block(n_layers, lmax, n_channels, n_basis=5, hidden=[7, 7], avg_num_neighbors=11.3, n_readout=4)
    head["mace"] = random_mace.nonlinear(block) if nonlinear else block
    return head, random_mace.tensors(head, seed)


def tensornet(seed=0, cutoff=4.2, elements=("H", "C", "O"), n_features=5, n_layers=2, **more):
    """A random TensorNet as (head, tensors)."""
    head = common_head("random-tensornet", "tensornet", list(elements), cutoff)
    head["tensornet"] = random_tensornet.block(n_features, n_layers, **more)
    return head, random_tensornet.tensors(head, seed)
