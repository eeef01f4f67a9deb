"""matgl itself against the numpy evaluation and the engine.

Runs where matgl is installed; elsewhere in the Python that MLFF_TORCH_PYTHON names, if that has it. Messages from the
center need DGL.
"""

import copy
import importlib.util
import os
import subprocess
import tempfile
import unittest
import unittest.mock

import helpers
import numpy as np

from mlff_tools.model import against, modelfile, reference, selftest, structures

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
HERE, DGL = (bool(importlib.util.find_spec(module)) for module in ("matgl", "dgl"))
MISSING = "matgl is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)"
MESSAGES = ("neighbor", "center") if DGL else ("neighbor",)


def elsewhere():
    """Whether MLFF_TORCH_PYTHON can import the package."""
    command = [TORCH_PYTHON, "-c", "import matgl"]
    return bool(TORCH_PYTHON) and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        HERE or elsewhere(), "matgl is not installed here, and MLFF_TORCH_PYTHON names no Python that has it"
    )
    def test_in_the_python_with_the_package(self):
        if not HERE:
            helpers.run_elsewhere(TORCH_PYTHON, "test_matgl_packages")


def systems():
    alone = {"name": "atom", "elements": ["O"], "positions": np.zeros((1, 3)), "cell": None}
    return [structures.rattled("ethanol", 5), structures.self_test_structures(["H", "C", "O"])[-1], alone]


def apart(distance, cell=None):
    return {"name": "pair", "elements": ["C", "O"], "positions": np.array([[0, 0, 0], [0, 0, distance]]), "cell": cell}


@unittest.skipUnless(HERE, MISSING)
class Package(unittest.TestCase):
    def agrees(self, model):
        original = against.TensorNet(*model)
        for s in systems():
            found = against.differences(s, reference.evaluate(model, s), original.evaluate(s))
            self.assertTrue(against.within(found, against.LIMITS["matgl"]), (s["name"], found))
            self.assertEqual(found[2] is None, s["cell"] is None)

    def test_numpy(self):
        """T1 to T10: bases, groups, activations and kinds of message."""
        for message in MESSAGES:
            self.agrees(helpers.tensornet(message_from=message))
            self.agrees(helpers.tensornet(message_from=message, kind="gaussian", group="so3", n_layers=3))
        for activation in ("tanh", "sigmoid", "softplus"):
            head, tensors = helpers.tensornet()
            head["tensornet"]["activation"] = activation
            self.agrees((head, tensors))

    def test_self_tests(self):
        model = helpers.tensornet()
        some = systems()
        self.assertRegex(selftest.block(model, some)["origin"], r"^matgl [0-9.]+, float64")
        model[0]["repulsion"] = {"kind": "zbl", "cutoffs": {"C-H": 1.4}}
        self.assertRegex(selftest.block(model, some)["origin"], r"^matgl [0-9.]+, float64; repulsion: mlff_tools")

    def test_refused(self):
        head, tensors = helpers.tensornet()
        head["tensornet"]["norm_epsilon"] = 1e-6
        with self.assertRaisesRegex(against.Unsupported, "norm_epsilon 1e-05; the file has 1e-06"):
            against.TensorNet(head, tensors)

    @unittest.skipIf(DGL, "DGL is installed")
    def test_without_dgl(self):
        with self.assertRaisesRegex(against.Unsupported, "messages from the center with DGL only"):
            against.TensorNet(*helpers.tensornet(message_from="center"))


@unittest.skipUnless(HERE and helpers.program(), "matgl or the program mlff is not installed")
class Engine(unittest.TestCase):
    def verify(self, model, some, change=lambda head, tensors: None):
        """(whether the engine agrees with the package, which gets a changed model; the table)"""
        given = copy.deepcopy(model)
        change(*given)
        with (
            tempfile.TemporaryDirectory() as folder,
            unittest.mock.patch.dict(against.PACKAGES, matgl=lambda head, tensors: against.TensorNet(*given)),
        ):
            path = os.path.join(folder, "model")
            modelfile.write(path, *model)
            text, good = against.table(against.compare(path, "matgl", some), against.LIMITS["matgl"])
        return good, text

    def test_agrees(self):
        for message in MESSAGES:
            good, text = self.verify(helpers.tensornet(message_from=message), systems())
            self.assertTrue(good, text)

    def test_faults(self):
        """A weight, the sign of the antisymmetric part, the cutoff, the order of a pair, the kind of message."""

        def weight(head, tensors):
            del head
            tensors["layers.1.mix_2.A"][2, 1] += 1e-6

        def sign(head, tensors):
            del head
            for kind in ("weight", "bias"):
                tensors[f"embedding.radial.A.{kind}"] *= -1

        def cutoff(head, tensors):
            del tensors
            head["cutoff"] += 1e-6

        def order(head, tensors):
            del head
            a, b = (f"embedding.pair.{end}" for end in ("center", "neighbor"))
            tensors[a], tensors[b] = tensors[b], tensors[a]

        def message(head, tensors):
            del tensors
            head["tensornet"]["message_from"] = "center"

        for change in (weight, sign, cutoff, order, *([message] if DGL else [])):
            good, text = self.verify(helpers.tensornet(group="so3"), systems()[:2], change)
            self.assertFalse(good, (change.__name__, text))
            self.assertEqual(text.count("DIFFERS"), 2, (change.__name__, text))

    def test_repulsion(self):
        """Within the cutoff of a pair the repulsion counts, beyond it only the network."""
        model = helpers.tensornet()
        plain = copy.deepcopy(model)
        model[0]["repulsion"] = {"kind": "zbl", "cutoffs": {"C-O": 1.3}}
        cell = np.diag([5.0, 6.0, 7.0])
        near, far = [apart(1.1), apart(1.1, cell)], [apart(1.31), apart(1.31, cell)]
        good, text = self.verify(model, near + far)
        self.assertTrue(good, text)
        original = against.build("matgl", *model)
        for s, least in [(s, 0.1) for s in near] + [(s, 0.0) for s in far]:
            added = original.evaluate(s)[0] - against.TensorNet(*plain).evaluate(s)[0]
            self.assertTrue(added > least if least else added == 0.0, added)
        clamped = {**plain[0], "repulsion": {"kind": "clamped", "radii": {"H": 0.4, "C": 0.7, "O": 0.6}}}, plain[1]
        good, text = self.verify(clamped, near + far)
        self.assertTrue(good, text)
        self.assertEqual((text.count("not compared"), text.count(" ok")), (2, 2), text)
        build, other = against.build, {"kind": "zbl", "cutoffs": {"C-O": 1.3 + 1e-6}}
        changed = lambda package, head, tensors: build(package, {**head, "repulsion": other}, tensors)
        with unittest.mock.patch.object(against, "build", changed):
            self.assertFalse(self.verify(model, near)[0])


if __name__ == "__main__":
    unittest.main()
