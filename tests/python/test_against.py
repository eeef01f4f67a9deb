"""`mlff verify MODEL --against PACKAGE`: where the packages are installed, agreement and disagreement; refusals
everywhere."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

import helpers
import numpy as np

from mlff_tools.model import against, modelfile, selftest, structures
from mlff_tools.model.modelfile import ModelError

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
HERE = bool(importlib.util.find_spec("torchani") and importlib.util.find_spec("schnetpack"))


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        HERE or TORCH_PYTHON, "TorchANI and SchNetPack are not installed here, and MLFF_TORCH_PYTHON names no Python"
    )
    def test_in_the_python_with_packages(self):
        """What needs the original packages runs in the Python that has them: converters and comparisons."""
        if not HERE:
            helpers.run_elsewhere(TORCH_PYTHON, "test_against", "test_ani_files", "test_ani_1ccx", "test_convert")


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model")

    def write(self, model, paths=()):
        head, tensors = model
        head["self_test"] = selftest.block(model, selftest.structures_for(model, list(paths)))
        modelfile.write(self.path, head, tensors)

    def verify(self, *arguments):
        """(exit status, what was printed)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = against.main([self.path + ".yaml", *arguments])
        return status, printed.getvalue()

    def agrees(self, package):
        status, text = self.verify("--against", package)
        self.assertEqual(status, 0, text)
        self.assertGreaterEqual(text.count(" ok"), 2, text)
        xyz = self.path + ".xyz"
        structures.write_xyz(xyz, [structures.rattled("ethanol", 5)])
        status, text = self.verify("--against", package, xyz)
        self.assertEqual((status, text.count(" ok")), (0, 1), text)

    @unittest.skipUnless(
        importlib.util.find_spec("torchani") and helpers.program(), "TorchANI or the program mlff is not installed"
    )
    def test_torchani(self):
        for constants in ("exact", "float32-rounded"):
            head, tensors = helpers.ani()
            a = head["ani"]
            a["constants"] = constants
            if constants != "exact":
                for part in (a["radial"], a["angular"]):
                    for key in ("eta", "zeta", "shifts", "sections"):
                        if key in part:
                            part[key] = np.float32(part[key]).astype(float).tolist()
            self.write((head, tensors))
            self.agrees("torchani")

    @unittest.skipUnless(
        importlib.util.find_spec("schnetpack") and helpers.program(), "SchNetPack or the program mlff is not installed"
    )
    def test_schnetpack(self):
        for kind in ("gaussian", "bessel"):
            self.write(helpers.painn(kind))
            self.agrees("schnetpack")

    @unittest.skipUnless(
        importlib.util.find_spec("schnetpack") and helpers.program(), "SchNetPack or the program mlff is not installed"
    )
    def test_differences_are_found(self):
        self.write(helpers.painn("gaussian"))
        good = against.SchNetPack.evaluate
        self.addCleanup(setattr, against.SchNetPack, "evaluate", good)
        against.SchNetPack.evaluate = lambda original, s: (good(original, s)[0] + 1e-6, *good(original, s)[1:])
        status, text = self.verify("--against", "schnetpack")
        self.assertEqual(status, 1)
        self.assertIn("DIFFERS", text)

    @unittest.skipUnless(importlib.util.find_spec("torchani"), "TorchANI is not installed")
    def test_self_tests_come_from_the_package(self):
        model = helpers.ani()
        model[0]["ani"]["constants"] = "exact"
        some = selftest.structures_for(model, [])
        block = selftest.block(model, some)
        self.assertRegex(block["origin"], r"^torchani [0-9.]+, float64$")
        own = selftest.block(model, some, "reference")
        self.assertIn("numpy", own["origin"])
        self.assertNotEqual(block["structures"][0]["forces"], own["structures"][0]["forces"])
        for a, b in zip(block["structures"], own["structures"]):
            helpers.assert_near(a["forces"], b["forces"], 1e-7, "forces")
            helpers.assert_near(a["virial"], b["virial"], 1e-6, "virial")
        good = against.TorchANI.evaluate
        self.addCleanup(setattr, against.TorchANI, "evaluate", good)
        against.TorchANI.evaluate = lambda original, s: (good(original, s)[0] + 1e-5, *good(original, s)[1:])
        with self.assertRaisesRegex(ModelError, "torchani and mlff_tools.reference differ"):
            selftest.block(model, some)

    def test_self_tests_without_the_package(self):
        model = helpers.painn("gaussian")
        some = selftest.structures_for(model, [])[:1]
        with unittest.mock.patch("importlib.util.find_spec", return_value=None):
            self.assertIn("numpy", selftest.block(model, some)["origin"])
            with self.assertRaisesRegex(ModelError, "schnetpack is not installed.*--origin reference"):
                selftest.block(model, some, "package")
        splines = helpers.painn("bspline")
        self.assertIn("numpy", selftest.block(splines, some)["origin"])
        with self.assertRaisesRegex(ModelError, "no package has this network"):
            selftest.block(splines, some, "package")

    def test_table(self):
        rows = [("a", 3, 1e-10, 1e-9, None), ("b", 3, 1e-10, 1e-9, 1e-7)]
        self.assertEqual(against.table(rows, (1e-9, 1e-8, 1e-6))[1], True)
        for limits in ((1e-11, 1e-8, 1e-6), (1e-9, 1e-10, 1e-6), (1e-9, 1e-8, 1e-8)):
            self.assertEqual(against.table(rows, limits)[1], False)
        self.assertEqual(against.table([("a", 3, float("nan"), 0.0, 0.0)], (1.0, 1.0, 1.0))[1], False)
        skipped = ("c", 2, "not compared: why")
        text, good = against.table([*rows, skipped], (1e-9, 1e-8, 1e-6))
        self.assertTrue(good and "not compared: why" in text)
        self.assertEqual(against.table([skipped], (1.0, 1.0, 1.0))[1], False)

    def test_refused(self):
        self.write(helpers.painn("bspline"))
        missing = next((p for p, module in against.MODULES.items() if not importlib.util.find_spec(module)), None)
        if missing:
            with unittest.mock.patch.dict(os.environ, {"MLFF_TORCH_PYTHON": ""}):
                said = helpers.refusal(against.main, [self.path + ".yaml", "--against", missing])
            self.assertIn(f"pip install {missing}", said)
            with unittest.mock.patch.dict(os.environ, {"MLFF_TORCH_PYTHON": sys.executable}):
                self.assertEqual(self.verify("--against", missing)[0], 2)
        with self.assertRaisesRegex(ModelError, "architecture 'painn', and torchani has 'ani'"):
            against.compare(self.path + ".yaml", "torchani", [])


if __name__ == "__main__":
    unittest.main()
