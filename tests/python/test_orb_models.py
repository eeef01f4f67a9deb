"""A full-size Orb-v2 with random weights: orb-models itself against the engine, through a checkpoint that PyTorch
wrote.

Runs where orb-models is installed; elsewhere in the Python that MLFF_TORCH_PYTHON names, if that has it.
"""

import contextlib
import importlib.util
import io
import os
import subprocess
import tempfile
import unittest

import helpers
import numpy as np
from helpers import assert_near
from test_orb import silicon

from mlff_tools.convert import command as convert
from mlff_tools.model import against, engine, modelfile, reference, structures

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
HERE = bool(importlib.util.find_spec("orb_models") and importlib.util.find_spec("torch"))


def elsewhere():
    """Whether MLFF_TORCH_PYTHON can import orb-models."""
    return (
        bool(TORCH_PYTHON)
        and subprocess.run([TORCH_PYTHON, "-c", "import orb_models"], capture_output=True, check=False).returncode == 0
    )


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        HERE or elsewhere(), "orb-models is not installed here, and MLFF_TORCH_PYTHON names no Python that has it"
    )
    def test_in_the_python_with_orb_models(self):
        if not HERE:
            helpers.run_elsewhere(TORCH_PYTHON, "test_orb_models")


@unittest.skipUnless(HERE, "orb-models is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)")
class FullSize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch
        from orb_models.forcefield.atomic_system import SystemConfig
        from orb_models.forcefield.pretrained import orb_v2_architecture

        torch.set_num_threads(1)
        torch.manual_seed(3)
        cls.torch, cls.config = torch, SystemConfig(radius=6.0, max_num_neighbors=20)
        cls.original = orb_v2_architecture(system_config=cls.config, device="cpu").eval()
        for head, mean, variance in (("energy", -0.37, 1.9), ("forces", 0.0125, 0.61), ("stress", -0.0031, 0.0144)):
            bn = cls.original.heads[head].normalizer.bn
            bn.running_mean, bn.running_var = torch.tensor([mean]), torch.tensor([variance])
        cls.folder = tempfile.TemporaryDirectory()
        checkpoint, cls.path = (os.path.join(cls.folder.name, n) for n in ("orb.ckpt", "orb"))
        torch.save(cls.original.state_dict(), checkpoint)
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main(["orb", checkpoint, "-o", cls.path, "--elements", "H,C,O,Si", "--no-self-test"])
        box = structures.molecule_box("water", 8, 0.95, 3)
        cls.systems = [silicon(1), silicon(2, size=2), box, structures.rattled("ethanol", 4)]

    @classmethod
    def tearDownClass(cls):
        cls.torch.set_default_dtype(cls.torch.float32)
        cls.folder.cleanup()

    def published(self, s, dtype):
        """Energy, forces and stress (xx yy zz xy xz yz) of orb-models."""
        from ase import Atoms
        from orb_models.forcefield.atomic_system import ase_atoms_to_atom_graphs

        self.torch.set_default_dtype(dtype)
        atoms = Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=s["cell"] is not None)
        graph = ase_atoms_to_atom_graphs(
            atoms, system_config=self.config, device=self.torch.device("cpu"), edge_method="knn_scipy"
        )
        with self.torch.no_grad():
            out = self.original.to(dtype).predict(graph)
        stress = out["stress"][0].double().numpy()[[0, 1, 2, 5, 4, 3]]
        return float(out["energy"][0]), out["forces"].double().numpy(), stress

    def compare(self, results, energy, forces, stress):
        for s, (e, f, w) in zip(self.systems, results):
            expected = self.published(s, self.torch.float64)
            assert_near([e], [expected[0]], energy, f"{s['name']}: energy")
            assert_near(f, expected[1], forces, f"{s['name']}: forces")
            if s["cell"] is not None:
                volume = abs(np.linalg.det(s["cell"]))
                assert_near(w / -volume, expected[2], stress, f"{s['name']}: stress")

    def test_numpy(self):
        model = modelfile.read(self.path)
        self.compare([reference.evaluate(model, s) for s in self.systems], 1e-10, 1e-11, 1e-12)

    @unittest.skipUnless(helpers.program(), "the program mlff was not found ($MLFF)")
    def test_engine(self):
        self.compare(engine.evaluate(self.path + ".yaml", self.systems, "fp64")[0], 1e-10, 1e-11, 1e-12)

    @unittest.skipUnless(helpers.program(), "the program mlff was not found ($MLFF)")
    def test_verify_against(self):
        rows = against.compare(self.path, "orb-models", self.systems[1:])
        self.torch.set_default_dtype(self.torch.float32)
        text, good = against.table(rows, against.LIMITS["orb-models"])
        self.assertTrue(good, text)

    @unittest.skipUnless(helpers.program(), "the program mlff was not found ($MLFF)")
    def test_engine_in_single_precision(self):
        """Bounds: what orb-models in float32 was measured to be off itself on 64 silicon atoms."""
        self.compare(engine.evaluate(self.path + ".yaml", self.systems, "fp32")[0], 9e-6, 1.6e-6, 1e-7)


if __name__ == "__main__":
    unittest.main()
