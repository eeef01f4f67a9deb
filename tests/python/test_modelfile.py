"""Model files: what is written is read back, damage is found, a failed write leaves the old model."""

import os
import tempfile
import unittest
from unittest import mock

import helpers
import numpy as np

from mlff_tools.model import modelfile
from mlff_tools.model.modelfile import ModelError


class ModelFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.name = os.path.join(self.folder.name, "m")

    def test_round_trip(self):
        for head, tensors in (helpers.painn(), helpers.painn("gaussian"), helpers.painn("bessel"), helpers.ani()):
            written = modelfile.write(self.name, head, tensors)
            found, weights = modelfile.read(self.name)
            self.assertEqual(found, written)
            self.assertEqual(set(weights), set(tensors))
            for key in tensors:
                np.testing.assert_array_equal(weights[key], tensors[key])

    def test_same_content_same_bytes(self):
        head, tensors = helpers.painn()
        one = modelfile.write(self.name, head, tensors, {"b": 1, "a": 2})["weights"]["sha256"]
        two = modelfile.write(self.name, head, dict(reversed(tensors.items())), {"a": 2, "b": 1})["weights"]["sha256"]
        self.assertEqual(one, two)

    def test_numbers_keep_their_digits(self):
        head, tensors = helpers.painn()
        head["energy_offsets"]["H"] = -0.1 - 1e-16
        modelfile.write(self.name, head, tensors)
        self.assertEqual(modelfile.read(self.name)[0]["energy_offsets"]["H"], head["energy_offsets"]["H"])

    def test_no_anchors(self):
        head, tensors = helpers.painn()
        shared = ["H", "C", "O"]
        head["elements"] = head["domain"]["elements"] = shared
        modelfile.write(self.name, head, tensors)
        with open(self.name + ".yaml", encoding="ascii") as f:
            text = f.read()
        self.assertNotIn("&id", text)
        self.assertNotIn("*id", text)

    def test_damaged_weights(self):
        modelfile.write(self.name, *helpers.painn())
        with open(self.name + ".safetensors", "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last[0] ^ 1]))
        with self.assertRaisesRegex(ModelError, "sha256"):
            modelfile.read(self.name)

    def test_wrong_tensors(self):
        def broken(change):
            head, tensors = helpers.painn()
            change(tensors)
            modelfile.write(self.name, head, tensors)

        with self.assertRaisesRegex(ModelError, "'readout.0.bias'.*missing"):
            broken(lambda t: t.pop("readout.0.bias"))
        with self.assertRaisesRegex(ModelError, "'extra'"):
            broken(lambda t: t.update(extra=np.zeros(1, np.float32)))
        with self.assertRaisesRegex(ModelError, "'embedding' has shape"):
            broken(lambda t: t.update(embedding=np.zeros((2, 2), np.float32)))
        with self.assertRaisesRegex(ModelError, "NaN"):
            broken(lambda t: t["embedding"].__setitem__((0, 0), np.nan))
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_interrupted_write_keeps_the_old_model(self):
        modelfile.write(self.name, *helpers.painn(seed=1))
        before = {f: modelfile.sha256_of(os.path.join(self.folder.name, f)) for f in os.listdir(self.folder.name)}
        with mock.patch("os.replace", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            modelfile.write(self.name, *helpers.painn(seed=2))
        after = {f: modelfile.sha256_of(os.path.join(self.folder.name, f)) for f in os.listdir(self.folder.name)}
        self.assertEqual(before, after)


if __name__ == "__main__":
    unittest.main()
