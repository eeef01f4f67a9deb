"""The command `python -m mlff_tools.convert`: what it writes, and what it refuses."""

import contextlib
import copy
import io
import os
import tempfile
import unittest

import helpers
from mlff_tools import checkpoints, convert, engine, modelfile, reference, selftest
from mlff_tools.modelfile import ModelError

try:
    import torch
except ImportError:
    torch = None


def published(name):
    return os.path.join(helpers.PUBLISHED, name)


def program():
    """The program mlff, or None."""
    try:
        return engine.find_program()
    except ModelError:
        return None


@unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
class Convert(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def convert(self, *arguments):
        """Runs the command; returns the model that it wrote."""
        name = os.path.join(self.folder.name, "out")
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main([*arguments, "-o", name])
        return modelfile.read(name)

    def refused(self, text, *arguments):
        """The command ends with an error that holds `text`, and writes nothing."""
        with self.assertRaises(SystemExit) as caught:
            self.convert(*arguments)
        self.assertIn(text, str(caught.exception))
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_ani(self):
        head, tensors = self.convert("ani", published("ani-2x.yaml"))
        self.assertEqual(head["elements"], ["H", "C", "N", "O", "S", "F", "Cl"])
        self.assertEqual(len(tensors), 448)
        self.assertEqual(head["ani"]["radial"]["eta"], 19.700000762939453)
        self.assertEqual(head["energy_offsets"]["Cl"], -460.1681939421027)
        self.assertEqual({e for s in head["self_test"]["structures"] for e in s["elements"]}, set(head["elements"]))
        self.assertEqual(self.convert("ani", published("ani-2x.yaml"), "--constants", "exact")[0]["ani"]["angular"]["zeta"],
                         14.1)

    def test_painn(self):
        head, tensors = self.convert("painn", published("painn_ethanol_1.yaml"))
        self.assertEqual(head["elements"], ["H", "C", "O"])
        self.assertEqual(tensors["embedding"].shape, (3, 128))
        self.assertEqual(head["energy_offsets"]["H"], -10786.226809289834)
        self.assertEqual(head["units"]["energy"], "kcal/mol")
        head, _ = self.convert("painn", published("painn_tiny_bessel.yaml"), "--elements", "O,H")
        self.assertEqual(head["elements"], ["O", "H"])
        self.assertEqual(head["cutoff"], 5.199999809265137)

    def test_self_test_holds(self):
        head, tensors = self.convert("painn", published("painn_md_ethanol.yaml"))
        self.assertGreaterEqual(len(head["self_test"]["structures"]), 3)
        for s in head["self_test"]["structures"]:
            cell = None if s["cell"] == "none" else s["cell"]
            energy, forces, virial = reference.evaluate((head, tensors), {**s, "cell": cell})
            helpers.assert_near([energy], [s["energy"]], 1e-9, "energy")
            helpers.assert_near(forces, s["forces"], 1e-11, "forces")
            helpers.assert_near(virial, s["virial"], 1e-10, "virial")

    def test_refuses(self):
        self.refused("no such file", "painn", "nowhere.yaml")
        self.refused("architecture", "ani", published("painn_ethanol_1.yaml"))
        self.refused("--elements", "painn", published("painn_tiny_gaussian.yaml"))
        source, tensors = convert.read_description(published("painn_ethanol_1.yaml"), "painn")
        for path, value in (("shared_filters", True), ("shared_interactions", True), ("activation", "shifted_softplus"),
                            ("readout.aggregation", "avg"), ("cutoff.kind", "mollifier"), ("radial_basis.kind", "bernstein"),
                            ("readout.activation", "tanh")):
            changed = copy.deepcopy(source)
            target = changed
            for key in path.split(".")[:-1]:
                target = target[key]
            target[path.split(".")[-1]] = value
            with self.assertRaisesRegex(ModelError, path):
                convert.painn_model(changed, tensors, ["H"], "file")
        with self.assertRaisesRegex(ModelError, "embedding"):
            convert.painn_model(source, tensors, ["Fm"], "file")
        with self.assertRaisesRegex(ModelError, "filter_net"):
            convert.painn_model(source, {k: v for k, v in tensors.items() if "filter_net" not in k}, ["H"], "file")

    @unittest.skipUnless(program(), "the program mlff was not found ($MLFF)")
    def test_engine_agrees(self):
        name = os.path.join(self.folder.name, "out")
        model = self.convert("painn", published("painn_md_ethanol.yaml"))
        structures = selftest.structures_for(model, [])
        block = selftest.block(model, structures, "mlff", name + ".yaml")
        self.assertIn("mlff", block["origin"])
        for own, engines in zip(model[0]["self_test"]["structures"], block["structures"]):
            helpers.assert_near([engines["energy"]], [own["energy"]], 1e-8, "energy")
            helpers.assert_near(engines["forces"], own["forces"], 1e-9, "forces")
            helpers.assert_near(engines["virial"], own["virial"], 1e-9, "virial")


@unittest.skipUnless(torch, "PyTorch is not installed in this Python")
class Checkpoints(unittest.TestCase):
    def test_refuses_code(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "evil.pt")
            torch.save({"x": os.system}, path)
            with self.assertRaisesRegex(ModelError, "without running code"):
                checkpoints.read_torchani(path, 0.1)

    def test_state_dict(self):
        head, tensors = helpers.ani(elements=("H", "O"))
        state = {}
        for name, value in tensors.items():
            _, m, element, layer, kind = name.split(".")
            state[f"neural_networks.{m}.{element}.{2 * int(layer)}.{kind}"] = torch.tensor(value)
        r, a = head["ani"]["radial"], head["ani"]["angular"]
        for key, value in (("EtaR", [r["eta"]]), ("ShfR", r["shifts"]), ("EtaA", [a["eta"]]), ("Zeta", [a["zeta"]]),
                           ("ShfA", a["shifts"]), ("ShfZ", a["sections"])):
            state["aev_computer." + key] = torch.tensor(value)
        state["energy_shifter.self_energies"] = torch.tensor([-0.5, -75.0], dtype=torch.float64)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.pt")
            torch.save(state, path)
            source, found = checkpoints.read_torchani(path, 0.1)
        converted, out = convert.ani_model(source, found, "exact", path)
        self.assertEqual(converted["ani"]["angular"]["sections"], a["sections"])
        self.assertEqual(converted["energy_offsets"], {"H": -0.5, "O": -75.0})
        for key, value in tensors.items():
            helpers.assert_near(out[key], value, 0.0, key)


@unittest.skipIf(torch, "PyTorch is installed in this Python")
class NoTorch(unittest.TestCase):
    def test_says_what_is_missing(self):
        with self.assertRaisesRegex(ModelError, "pip install torch"):
            checkpoints.read_schnetpack("best_model")


if __name__ == "__main__":
    unittest.main()
