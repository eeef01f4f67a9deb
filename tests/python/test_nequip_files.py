"""Files of Nequix and SevenNet: what the converter makes of them, and what it refuses.

The published files are not at hand everywhere: small ones in the same formats are written here. Traps: N7 and N10
constants, N18 what is odd about .nqx files, S1 checkpoints of sevenn before 0.11, S4 order of the elements.
"""

import contextlib
import copy
import io
import json
import os
import tempfile
import unittest

import helpers
import numpy as np
from helpers import assert_near
from torch_files import save_checkpoint

from mlff_tools.convert import checkpoints, sevennet
from mlff_tools.convert import command as convert
from mlff_tools.convert import nequip as convert_nequip
from mlff_tools.model import modelfile, reference, reference_nequip, structures
from mlff_tools.model.against_nequip import SevenNet
from mlff_tools.model.modelfile import ModelError

ENERGIES = np.array([-0.5, -38.25, -75.125], np.float32)
# The first line: elements in any order, free atoms that the arrays supersede, and much that is not used.
CONFIGURATION = {
    "atomic_numbers": [8, 1, 6],
    "atom_energies": {"1": 7.0, "6": 7.0, "8": 7.0},
    "hidden_irreps": "6x0e + 3x1o + 2x2e",
    "lmax": 2,
    "cutoff": 4.2,
    "n_layers": 3,
    "radial_basis_size": 5,
    "radial_mlp_size": 7,
    "radial_mlp_layers": 2,
    "radial_polynomial_p": 6.0,
    "mlp_init_scale": 4.0,
    "index_weights": False,
    "layer_norm": True,
    "shift": -0.125,
    "scale": 0.75,
    "avg_n_neighbors": 11.3,
    "optimizer": "muon",
}


def same_bits(actual, expected):
    """Whether two sets of tensors have the same names, types, shapes and bits."""
    return set(actual) == set(expected) and all(
        actual[k].dtype == v.dtype and actual[k].shape == v.shape and actual[k].tobytes() == v.tobytes()
        for k, v in expected.items()
    )


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def convert(self, path, *arguments):
        """Runs the command; returns the model that it wrote."""
        name = os.path.join(self.folder, "out")
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main(["nequip", path, *arguments, "-o", name])
        return modelfile.read(name)

    def refused(self, text, path):
        """The command ends with an error that holds `text` and the path, and writes nothing."""
        said = helpers.refusal(convert.main, ["nequip", path, "--no-self-test", "-o", os.path.join(self.folder, "out")])
        self.assertIn(text, said)
        self.assertIn(path, said)
        self.assertEqual(os.listdir(self.folder), [os.path.basename(path)])


class Nequix(Files):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "small.nqx")
        self.head, self.tensors = helpers.nequip()
        self.arrays = [ENERGIES, *(self.tensors[name].T for name in modelfile.nequix_order(self.head))]

    def write(self, configuration=None, arrays=None, end=b""):
        data = io.BytesIO()
        data.write((json.dumps({**CONFIGURATION, **(configuration or {})}) + "\n").encode())
        for array in self.arrays if arrays is None else arrays:
            np.save(data, array)
        with open(self.path, "wb") as f:
            f.write(data.getvalue() + end)
        return data.getvalue()

    def test_reads(self):
        """N7, N10: constants are those of the file, and of the package in double; no bit of a weight changes."""
        self.write()
        head, tensors = self.convert(self.path)
        self.assertTrue(same_bits(tensors, self.tensors))
        self.assertEqual(head["nequip"], self.head["nequip"])
        self.assertEqual(head["elements"], ["H", "C", "O"])  # by atomic number, whatever the order of the file
        expected = {e: -0.125 + float(x) for e, x in zip("HCO", ENERGIES)}
        self.assertEqual(head["energy_offsets"], expected, "N18: the array, not the first line")
        self.assertEqual((head["cutoff"], head["domain"]["min_distance"]), (4.2, 0.6))
        self.assertIn(modelfile.sha256_of(self.path), head["provenance"]["code"])
        self.assertIn("unknown", head["provenance"]["license"])
        self.assertIn("2508.16067", head["provenance"]["citation"])
        names = [s["name"] for s in head["self_test"]["structures"]]
        self.assertEqual(names, ["water", "water in a triclinic cell", "every element and pair"])
        self.assertEqual(head["self_test"]["tolerance"], modelfile.NEQUIP_TOLERANCE)
        for s in head["self_test"]["structures"]:
            s = {**s, "cell": None if s["cell"] == "none" else s["cell"]}
            assert_near([reference.evaluate((head, tensors), s)[0]], [s["energy"]], 1e-11, "energy")

    def test_oddities(self):
        """N18: nequix-mp-1.nqx ends with a newline, nequix-oam-1.nqx with numbers that are no weights."""
        for arrays, end in ((self.arrays, b"\n"), ([*self.arrays, np.float64(1.0), np.float64(2.0)], b"")):
            self.write(arrays=arrays, end=end)
            self.assertTrue(same_bits(self.convert(self.path, "--no-self-test")[1], self.tensors))

    def test_cut_off(self):
        data = self.write()
        first = data.index(b"\n") + 1
        ends = [first - 1, first + 3, first + 60, first + 135, len(data) // 2, len(data) - 1]
        ends += [data.rindex(b"\x93NUMPY"), data.rindex(b"\x93NUMPY") + 20]
        for end in ends:
            with open(self.path, "wb") as f:
                f.write(data[:end])
            self.refused("not a Nequix file" if end < first else "cut off", self.path)

    def test_refuses(self):
        for configuration, text in (
            ({"index_weights": True}, "index_weights is True"),
            ({"layer_norm": False}, "layer_norm is False"),
            ({"hidden_irreps": "6x0e + 3x1e + 2x2e"}, "irreps"),
            ({"hidden_irreps": "6x0e + 2x2e"}, "irreps"),
            ({"hidden_irreps": "6x0e + 3x1o + 2x2e + 2x3o + 2x4e"}, "orders above 3"),
            ({"atomic_numbers": [8, 1, 1]}, "atomic numbers"),
            ({"atomic_numbers": [8, 1]}, "array 0 (atom_energies)"),
            ({"n_layers": 2}, "holds 37 arrays, and the network of its first line has 22"),
        ):
            self.write(configuration)
            self.refused(text, self.path)
        self.write(arrays=[*self.arrays, np.zeros(3, np.float32)])
        self.refused("of another network", self.path)
        self.write(arrays=[*self.arrays[:5], self.arrays[5].T[:2], *self.arrays[6:]])
        self.refused("array 5 (layers.0.linear_2.l0)", self.path)
        self.write(arrays=[np.zeros(3, np.int32), *self.arrays[1:]])
        self.refused("array 0 (atom_energies) is int32", self.path)
        self.write(end=b"more")
        self.refused("array 37 cannot be read", self.path)
        for text in (b"\x00\x01", b"[1]\n", b"{}\n", b""):
            with open(self.path, "wb") as f:
                f.write(text)
            self.refused("ot a Nequix file", self.path)

    def test_no_code_runs(self):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (os.path.join(folder, "run"),)

        folder = self.folder
        self.write(arrays=[np.array([Evil()], object)])
        self.refused("array 0 cannot be read", self.path)


def checkpoint_of(model, version="0.12.1"):
    """(configuration, tensors) of a SevenNet checkpoint with the weights of a `nequip` model."""
    head, tensors = model
    p, elements = head["nequip"], head["elements"]
    width = p["n_channels"][0]
    between = "+".join(f"{n}x{l}e" for l, n in enumerate(p["n_channels"]))
    config = {
        "version": version,
        "_type_map": {modelfile.NUMBERS[e]: k for k, e in enumerate(elements)},
        "irreps_manual": [f"{width}x0e", *[between] * (p["n_layers"] - 1), f"{width}x0e"],
        "channel": width,
        "lmax": p["lmax"],
        "lmax_edge": -1,
        "lmax_node": -1,
        "is_parity": False,
        "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": 5},
        "cutoff_function": {"cutoff_function_name": "XPLOR", "cutoff_on": p["cutoff_function"].get("onset")},
        "cutoff": head["cutoff"],
        "num_convolution_layer": p["n_layers"],
        "weight_nn_hidden_neurons": p["radial_network"]["hidden"],
        "act_radial": "silu",
        "act_scalar": {"e": "silu", "o": "tanh"},
        "act_gate": {"e": "silu", "o": "tanh"},
        "use_bias_in_linear": False,
        "self_connection_type": "linear",
        "_normalize_sph": True,
    }
    state = {k: np.asarray(v, np.float32) for k, v in SevenNet._names(head, tensors).items()}
    state["rescale_atomic_energy.shift"] = ENERGIES
    state["0_convolution.convolution.weight"] = np.zeros(0, np.float32)
    state["0_self_interaction_1.linear.output_mask"] = np.ones(6, np.float32)
    return config, state


FLIPPED = {(1, 2, 2), (2, 1, 2), (2, 2, 1)}  # as in SevenNet-0


def aged(config, state, layers):
    """The same as sevenn 0.9 wrote it: radial weights in the order l1, l2, l3, some tables with the other sign."""
    state = dict(state)
    for t, layer in enumerate(layers):
        name, parts = f"{t}_convolution.weight_nn.layer2.weight", []
        for path in sorted(layer.paths):
            l = path[:3]
            sign = -1 if l in FLIPPED else 1
            parts.append(sign * state[name][:, path.column : path.column + path.mul])
            if min(l) > 0:
                table = (sign * reference_nequip.clebsch_gordan(*l)).astype(np.float32)
                state["{}_convolution.convolution._compiled_main_left_right._w3j_{}_{}_{}".format(t, *l)] = table
        state[name] = np.concatenate(parts, axis=1)
    return {**config, "version": "0.9.1", "optimize_by_reduce": True}, state


class SevenNetFiles(Files):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "small.pth")
        self.head, self.tensors = helpers.nequip("sevennet", elements=("O", "H", "C"))
        self.tensors["energy_scale"] = self.tensors["energy_scale"].astype(np.float32).astype(np.float64)
        self.config, self.state = checkpoint_of((self.head, self.tensors))

    def write(self, config=None, state=None, **changes):
        """changes: entries of the configuration."""
        config = {**(self.config if config is None else config), **changes}
        wrap = lambda tensors: {"model_state_dict": tensors, "optimizer_state_dict": {}, "config": config, "epoch": 600}
        save_checkpoint(self.path, self.state if state is None else state, wrap)

    def test_reads(self):
        """S3: the denominator is divided by as it is; S4: elements in the order of the weights."""
        self.write()
        head, tensors = self.convert(self.path)
        self.assertTrue(same_bits(tensors, self.tensors))
        self.assertEqual(head["nequip"], self.head["nequip"])
        self.assertEqual(head["elements"], ["O", "H", "C"])
        self.assertEqual(head["energy_offsets"], {e: float(x) for e, x in zip("OHC", ENERGIES)})
        self.assertIn("10.1021/acs.jctc.4c00190", head["provenance"]["citation"])
        self.write(config={k: v for k, v in self.config.items() if k != "irreps_manual"}, irreps_manual=False)
        self.refused("tensor '0_self_interaction_2.linear.weight' has 96 numbers", self.with_only_the_file())

    def with_only_the_file(self):
        for name in os.listdir(self.folder):
            if not name.endswith(".pth"):
                os.unlink(os.path.join(self.folder, name))
        return self.path

    def test_widths_of_the_package(self):
        """Without irreps_manual every order has `channel` channels."""
        model = helpers.nequip("sevennet", n_channels=(4, 4, 4))
        model[0]["nequip"]["cutoff_function"] = {"kind": "polynomial", "p": 6.0}
        config, state = checkpoint_of(model)
        self.write(config, state, irreps_manual=False, cutoff_function={"cutoff_function_name": "poly_cut"})
        head, tensors = self.convert(self.path, "--no-self-test")
        self.assertTrue(same_bits(tensors, model[1]))
        self.assertEqual(head["nequip"], model[0]["nequip"])

    def test_old(self):
        """S1: order and signs of radial weights before 0.11 are repaired; without its tables such a file is refused."""
        layers = modelfile.nequip_layers(self.head)
        config, state = aged(self.config, self.state, layers)
        for version in ("0.9.1", "0.10.3", "0.11.0.dev0"):
            self.write(config, state, version=version)
            self.assertTrue(same_bits(self.convert(self.path, "--no-self-test")[1], self.tensors), version)
        self.write(config, state, version="0.11.0")  # what falls into the trap has other forces
        wrong = self.convert(self.path, "--no-self-test")
        s = structures.rattled("ethanol", 3)
        apart = reference.evaluate(wrong, s)[1] - reference.evaluate((self.head, self.tensors), s)[1]
        self.assertGreater(np.abs(apart).max(), 1e-4)
        table = "1_convolution.convolution._compiled_main_left_right._w3j_1_2_2"
        for changed in ({k: v for k, v in state.items() if k != table}, {**state, table: 1.1 * state[table]}):
            self.write(config, changed)
            self.refused("none of e3nn's", self.with_only_the_file())

    def test_refuses(self):
        for changes, text in (
            ({"version": "0.14.0"}, "sevenn 0.14.0: versions up to 0.13"),
            ({"version": "1.0"}, "sevenn 1.0"),
            ({"version": None}, "no version"),
            ({"is_parity": True}, "is_parity is True"),
            ({"self_connection_type": "nequip"}, "self_connection_type is 'nequip'"),
            ({"self_connection_type": ["linear", "nequip", "linear"]}, "self_connection_type is 'nequip'"),
            ({"use_bias_in_linear": True}, "use_bias_in_linear"),
            ({"use_modality": True}, "use_modality"),
            ({"readout_as_fcn": True}, "readout_as_fcn"),
            ({"act_radial": "relu"}, "act_radial is 'relu'"),
            ({"act_gate": {"e": "tanh"}}, "act_gate.e is 'tanh'"),
            ({"interaction_type": "mace"}, "interaction_type"),
            ({"_normalize_sph": False}, "_normalize_sph"),
            ({"cutoff_function": {"cutoff_function_name": "cosine"}}, "cutoff function 'cosine'"),
            ({"_type_map": {8: 0, 1: 2}}, "_type_map"),
            ({"irreps_manual": ["6x0e", "6x0e+3x1o+2x2e", "6x0e+3x1e+2x2e", "6x0e"]}, "irreps '6x0e+3x1o+2x2e'"),
            ({"irreps_manual": ["6x0e", "6x0e+3x1e", "6x0e+3x1e+2x2e", "6x0e"]}, "layers of different widths"),
            ({"irreps_manual": ["6x0e", "6x0e"]}, "2 entries for 3 layers"),
        ):
            self.write(**changes)
            self.refused(text, self.path)
        self.write(state={**self.state, "0_extra.weight": np.zeros(2, np.float32)})
        self.refused("nothing explains tensor '0_extra.weight'", self.path)
        self.write(state={k: v for k, v in self.state.items() if "self_connection" not in k})
        self.refused("no tensor '0_self_connection_intro.linear.weight'", self.path)
        self.write(state={**self.state, "readout": np.zeros(2, np.float32)})
        self.refused("nothing explains tensor 'readout'", self.path)
        save_checkpoint(self.path, self.state)
        self.refused("not a checkpoint of SevenNet", self.path)
        with open(self.path, "wb") as f:
            f.write(b"no zip")
        self.refused("is not a checkpoint of PyTorch 1.6 or newer: expected a checkpoint", self.path)

    def test_no_code_runs(self):
        """Whatever is not a tensor or a plain container is replaced by something that does nothing."""

        class Evil:
            def __reduce__(self):
                return os.mkdir, (os.path.join(folder, "run"),), {"a": 1}, iter([1, 2]), iter([("a", 1)])

        folder = self.folder
        self.write(optimizer=Evil())
        self.assertTrue(same_bits(self.convert(self.path, "--no-self-test")[1], self.tensors))
        self.assertIsInstance(checkpoints.read_checkpoint(self.path)["config"]["optimizer"], checkpoints.Inert)
        self.write(config={**self.config, "cutoff": 4.2}, state={**self.state, "0_convolution.denominator": Evil()})
        self.refused("no tensor '0_convolution.denominator'", self.with_only_the_file())
        self.assertNotIn("run", os.listdir(folder))


@unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
class Descriptions(Files):
    NAMES = ("nequix-oam-1-pft", "nequix-mp-1", "sevennet-0", "sevennet-l3i5", "nequip_tiny", "nequip_tiny7")

    def test_published(self):
        for name in self.NAMES:
            path = os.path.join(helpers.PUBLISHED, name + ".yaml")
            head, tensors = self.convert(path, "--no-self-test")
            source, original = convert.read_description(path, "nequip")
            self.assertEqual(head["elements"], source["elements"])
            for key, tensor in original.items():
                key = {"readout": "readout.0"}.get(key, key)
                if key in tensors:
                    self.assertEqual(tensors[key].tobytes(), tensor.tobytes(), f"{name}: {key}")
            self.assertEqual(head["provenance"]["license"].startswith("MIT"), name != "nequip_tiny7")
            if name in ("nequix-mp-1", "nequix-oam-1-pft"):
                energy = head["energy_offsets"]["Fe"]
                self.assertEqual(energy, source["shift"] + float(original["atom_energies"][25]))
            if name in ("sevennet-0", "sevennet-l3i5"):
                self.assertIn("MPtrj", head["provenance"]["data"])

    def test_refuses(self):
        path = os.path.join(helpers.PUBLISHED, "nequip_tiny.yaml")
        source, tensors = convert.read_description(path, "nequip")
        for place, value in (
            ("radial_mlp.activation", "relu"),
            ("radial_mlp.bias", True),
            ("gate.gate_activation", "sigmoid"),
            ("tensor_product.kind", "uuu"),
            ("spherical_harmonics.normalization", "norm"),
            ("linear_scale", "none"),
            ("radial_basis.kind", "gaussian"),
            ("variant", "mace"),
            ("radial_basis.envelope.kind", "cosine"),
        ):
            changed = copy.deepcopy(source)
            *keys, last = place.split(".")
            target = changed
            for key in keys:
                target = target[key]
            target[last] = value
            with self.assertRaisesRegex(ModelError, place):
                convert_nequip.described_model(changed, tensors, "file")
        changed = copy.deepcopy(source)
        changed["layer"][1]["paths"].reverse()
        with self.assertRaisesRegex(ModelError, "layer 1 has other paths"):
            convert_nequip.described_model(changed, tensors, "file")
        with self.assertRaisesRegex(ModelError, "no tensor 'readout'"):
            convert_nequip.described_model(source, {k: v for k, v in tensors.items() if k != "readout"}, "file")


class Constants(unittest.TestCase):
    def test_activation_norms(self):
        """N7: constants near, but not equal to, the root mean square of silu for normal numbers, 0.5964692111."""
        x = np.linspace(-12, 12, 200001)
        silu = x * 0.5 * (1 + np.tanh(0.5 * x))
        exact = np.sqrt((silu**2 * np.exp(-0.5 * x * x)).sum() / np.exp(-0.5 * x * x).sum())
        assert_near([exact], [0.5964692111], 1e-10, "exact")
        assert_near([convert_nequip.ACTIVATION_NORM], [exact], 2e-5, "Nequix: a million quantiles")
        assert_near([sevennet.ACTIVATION_NORM], [exact], 1e-3, "SevenNet: a million random numbers")


if __name__ == "__main__":
    unittest.main()
