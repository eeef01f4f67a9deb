"""Nequix, SevenNet and nequip themselves against the numpy evaluation and the engine, and the files that they write.

Runs where these packages are installed; elsewhere in the Python that MLFF_TORCH_PYTHON names, if that has them.
"""

import copy
import importlib
import importlib.util
import os
import subprocess
import tempfile
import unittest
import unittest.mock
import warnings

import helpers
import numpy as np
from helpers import assert_near
from test_nequip_files import CONFIGURATION, same_bits

from mlff_tools.convert import nequip as convert_nequip
from mlff_tools.convert import nequip_file, nequip_package, sevennet
from mlff_tools.model import against, against_nequip_package, modelfile, reference, selftest, structures

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
PACKAGES = ("nequix", "sevenn", "nequip")
HERE = {package: bool(importlib.util.find_spec(package)) for package in PACKAGES}
MISSING = "{} is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)"


def elsewhere():
    """Whether MLFF_TORCH_PYTHON can import one of the packages."""
    if not TORCH_PYTHON:
        return False
    commands = [[TORCH_PYTHON, "-c", f"import {package}"] for package in PACKAGES]
    return any(subprocess.run(c, capture_output=True, check=False).returncode == 0 for c in commands)


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        any(HERE.values()) or elsewhere(),
        "nequix, sevenn and nequip are not installed here, and MLFF_TORCH_PYTHON names no Python that has one of them",
    )
    def test_in_the_python_with_packages(self):
        if not any(HERE.values()):
            helpers.run_elsewhere(TORCH_PYTHON, "test_nequip_packages")


def systems():
    alone = {"name": "atom", "elements": ["O"], "positions": np.zeros((1, 3)), "cell": None}
    return [structures.rattled("ethanol", 5), structures.self_test_structures(["H", "C", "O"])[-1], alone]


class Package(unittest.TestCase):
    def agrees(self, package, model):
        """N13, N14, N15, S6: padded graphs, double throughout, open structures without a cell."""
        original = against.PACKAGES[package](*model)
        for s in systems():
            found = against.differences(s, reference.evaluate(model, s), original.evaluate(s))
            self.assertTrue(against.within(found, against.LIMITS[package]), (s["name"], found))
            self.assertEqual(found[2] is None, s["cell"] is None)

    def self_tests(self, package, model):
        some = selftest.structures_for(model, [])
        self.assertRegex(selftest.block(model, some)["origin"], rf"^{package} [0-9.]+, float64(; every element: |$)")

    def verify(self, package, model, some):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            modelfile.write(path, *model)
            return against.table(against.compare(path, package, some), against.LIMITS[package])

    def verifies(self, package, model):
        text, good = self.verify(package, model, systems())
        self.assertTrue(good, text)

    @unittest.skipUnless(HERE["nequix"], MISSING.format("nequix"))
    def test_nequix(self):
        self.agrees("nequix", helpers.nequip())
        self.self_tests("nequix", helpers.nequip())
        head, tensors = helpers.nequip()
        head["nequip"]["activation_norm"] = 0.5964692111
        with self.assertRaisesRegex(against.Unsupported, "activation_norm"):
            against.Nequix(head, tensors)
        with self.assertRaisesRegex(against.Unsupported, "paths even; the file has all"):
            against.Nequix(*helpers.nequip("sevennet"))

    @unittest.skipUnless(HERE["sevenn"], MISSING.format("sevenn"))
    def test_sevennet(self):
        self.agrees("sevenn", helpers.nequip("sevennet"))
        self.self_tests("sevenn", helpers.nequip("sevennet"))
        with self.assertRaisesRegex(against.Unsupported, "paths all; the file has even"):
            against.SevenNet(*helpers.nequip())

    @unittest.skipUnless(HERE["nequip"], MISSING.format("nequip"))
    def test_nequip(self):
        """Divisors by element, readouts, one layer, higher orders, the package's repulsion."""
        for options in (
            {},
            {"neighbor_divisor": [2.5, 3.0, 3.5], "n_readout": (5, 5), "has_activation": False},
            {"n_layers": 2, "n_readout": (), "has_activation": False},
            {"n_layers": 1, "n_channels": (6,)},
        ):
            self.agrees("nequip", helpers.nequip_package(**options))
        head, tensors = helpers.nequip_package()
        self.self_tests("nequip", (head, tensors))
        self.agrees("nequip", ({**head, "repulsion": {"kind": "nequip", "p": 5.0}}, tensors))
        head["nequip"]["activation_norm"] = 0.5964692111
        with self.assertRaisesRegex(against.Unsupported, "activation_norm"):
            against.NequIP(head, tensors)
        with self.assertRaisesRegex(against.Unsupported, "paths even; the file has all"):
            against.NequIP(*helpers.nequip("sevennet"))

    @unittest.skipUnless(HERE["nequip"] and helpers.program(), "nequip or the program mlff is not installed")
    def test_engine_against_nequip(self):
        head, tensors = helpers.nequip_package()
        self.verifies("nequip", (head, tensors))
        self.verifies("nequip", ({**head, "repulsion": {"kind": "nequip", "p": 6.0}}, tensors))

    @unittest.skipUnless(HERE["nequip"] and helpers.program(), "nequip or the program mlff is not installed")
    def test_faults_against_nequip(self):
        """A weight of a self-connection, the sign of a path, the cutoff, the power of the repulsion."""
        head, tensors = helpers.nequip_package()
        head["repulsion"] = {"kind": "nequip", "p": 6.0}
        weight, path = (copy.deepcopy(tensors) for _ in range(2))
        weight["layers.1.skip.l1"][0, 0, 0] += 1e-3
        path["layers.1.radial_mlp.2"][-2:] *= -1
        for given in (
            (head, weight),
            (head, path),
            ({**head, "cutoff": head["cutoff"] + 1e-6}, tensors),
            ({**head, "repulsion": {"kind": "nequip", "p": 6.5}}, tensors),
        ):
            changed = lambda *_, given=given: against.NequIP(*given)
            with unittest.mock.patch.dict(against.PACKAGES, nequip=changed):
                text, good = self.verify("nequip", (head, tensors), systems()[:2])
            self.assertFalse(good, text)
            self.assertEqual(text.count("DIFFERS"), 2, text)

    @unittest.skipUnless(HERE["nequix"] and helpers.program(), "nequix or the program mlff is not installed")
    def test_engine_against_nequix(self):
        self.verifies("nequix", helpers.nequip())

    @unittest.skipUnless(HERE["sevenn"] and helpers.program(), "sevenn or the program mlff is not installed")
    def test_engine_against_sevennet(self):
        self.verifies("sevenn", helpers.nequip("sevennet"))


@unittest.skipUnless(HERE["nequip"], MISSING.format("nequip"))
class Readouts(unittest.TestCase):
    """Networks that nequip builds with their own readouts."""

    def test_activations(self):
        for activation in ("silu", None, "None"):
            head, tensors = helpers.nequip_package(n_readout=(5, 5), has_activation=False)
            original = against.NequIP(head, tensors)
            options = {**against_nequip_package._options(head), "readout_mlp_nonlinearity": activation}
            options["readout_mlp_hidden_layers_depth"] = 1 if activation == "silu" else 2
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                original.model = importlib.import_module("nequip.model").NequIPGNNModel(**options).eval()
            state = {k.removeprefix("model.func."): v.numpy() for k, v in original.model.state_dict().items()}
            config = {**options, "_target_": "nequip.model.NequIPGNNModel"}
            described = nequip_file.described(config, state, against_nequip_package.version(), "the network")
            model = nequip_package.described_model(*described, "the network")
            for s in systems():
                found = against.differences(s, reference.evaluate(model, s), original.evaluate(s))
                self.assertTrue(against.within(found, against.LIMITS["nequip"]), (activation, s["name"], found))


class Written(unittest.TestCase):
    """Files that the packages write."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    @unittest.skipUnless(HERE["nequix"], MISSING.format("nequix"))
    def test_nequix(self):
        import jax
        from nequix.model import Nequix, save_model

        used = {k: v for k, v in CONFIGURATION.items() if k not in ("atomic_numbers", "atom_energies", "optimizer")}
        network = Nequix(key=jax.random.key(3), n_species=3, atom_energies=[-0.5, -38.25, -75.125], **used)
        network = jax.tree.map(lambda x: x.astype("float32") if hasattr(x, "astype") else x, network)
        path = os.path.join(self.folder, "written.nqx")
        save_model(path, network, CONFIGURATION)
        head, tensors = convert_nequip.nequix_model(*convert_nequip.read_nqx(path), path)
        self.assertEqual(head["energy_offsets"], {"H": -0.625, "C": -38.375, "O": -75.25})
        weights = [np.asarray(x) for x in jax.tree.leaves(network) if hasattr(x, "shape")][1:]
        names = modelfile.nequix_order(head)
        self.assertEqual(len(weights), len(names))
        for name, weight in zip(names, weights):
            assert_near(tensors[name], weight.T, 0.0, name)

    @unittest.skipUnless(HERE["sevenn"], MISSING.format("sevenn"))
    def test_sevennet(self):
        """A checkpoint of this version, with what SevenNet adds to the configuration; N8: trained wave numbers."""
        import torch
        from sevenn._const import DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG
        from sevenn.checkpoint import SevenNetCheckpoint
        from sevenn.model_build import build_E3_equivariant_model

        torch.set_default_dtype(torch.float32)
        torch.manual_seed(1)
        config = {
            **DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG,
            "version": importlib.metadata.version("sevenn"),
            "channel": 4,
            "lmax": 2,
            "is_parity": False,
            "self_connection_type": "linear",
            "conv_denominator": [3.5, 4.5, 5.5],
            "weight_nn_hidden_neurons": [7, 7],
            "shift": [-1.5, -2.5, -3.5],
            "scale": [1.25, 0.75, 1.5],
            "_number_of_species": 3,
            "_type_map": {8: 0, 1: 1, 6: 2},
            "device": torch.device("cpu"),
        }
        network, path = build_E3_equivariant_model(config), os.path.join(self.folder, "written.pth")
        torch.save({"config": config, "model_state_dict": network.state_dict(), "optimizer_state_dict": {}}, path)
        head, tensors = sevennet.model(path, convert_nequip.head_of)
        self.assertEqual((head["elements"], head["energy_offsets"]["C"]), (["O", "H", "C"], -3.5))
        self.assertEqual(head["nequip"]["message_divisor"], [3.5, 4.5, 5.5])
        self.assertTrue(
            same_bits({"energy_scale": tensors["energy_scale"]}, {"energy_scale": np.array([1.25, 0.75, 1.5])})
        )
        loaded = SevenNetCheckpoint(path).build_model()
        original = against.SevenNet(head, tensors)
        ours = dict(original.model.named_parameters())
        for name, parameter in loaded.named_parameters():
            if not name.endswith("energy.shift") and parameter.numel():
                assert_near(ours[name].detach().numpy(), parameter.detach().numpy(), 0.0, name)
        for s in systems():
            found = against.differences(s, reference.evaluate((head, tensors), s), original.evaluate(s))
            self.assertTrue(against.within(found, against.LIMITS["sevenn"]), (s["name"], found))


if __name__ == "__main__":
    unittest.main()
