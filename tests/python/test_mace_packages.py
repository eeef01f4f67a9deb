"""mace-torch itself against the numpy evaluation and the engine, and the files that it writes.

Runs where mace-torch is installed; elsewhere in the Python that MLFF_TORCH_PYTHON names, if that has it.
"""

import importlib.util
import os
import subprocess
import tempfile
import unittest

import helpers
import numpy as np

from mlff_tools.convert import mace as convert_mace
from mlff_tools.convert import mace_file
from mlff_tools.model import against, modelfile, reference, selftest, structures

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
AGNESI = {"distance_transform": "Agnesi", "pair_repulsion": True, "num_polynomial_cutoff": 6}
SOFT = {"distance_transform": "Soft", "radial_type": "gaussian", "pair_repulsion": True, "correlation": [3, 2]}
BLOCKS_OF_MH = {
    "apply_cutoff": False,
    "use_agnostic_product": True,
    "use_last_readout_only": True,
    "readout_cls": "NonLinearBiasReadoutBlock",
    "edge_irreps": "4x0e+3x1o",
    "correlation": 2,
}
HERE = bool(importlib.util.find_spec("mace"))
MISSING = "mace-torch is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)"


def elsewhere():
    """Whether MLFF_TORCH_PYTHON can import the package."""
    command = [TORCH_PYTHON, "-c", "import mace"]
    return bool(TORCH_PYTHON) and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        HERE or elsewhere(), "mace-torch is not installed here, and MLFF_TORCH_PYTHON names no Python that has it"
    )
    def test_in_the_python_with_the_package(self):
        if not HERE:
            helpers.run_elsewhere(TORCH_PYTHON, "test_mace_packages")


def systems():
    alone = {"name": "atom", "elements": ["O"], "positions": np.zeros((1, 3)), "cell": None}
    return [structures.rattled("ethanol", 5), structures.self_test_structures(["H", "C", "O"])[-1], alone]


def network(first, rest, hidden, n_layers=2, scaled=True, seed=1, **options):
    """A model of mace-torch with random weights, in double."""
    import torch
    from mace.modules import blocks
    from mace.modules.models import MACE, ScaleShiftMACE, o3

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    chosen = {
        "r_max": 4.2,
        "num_bessel": 7,
        "num_polynomial_cutoff": 5,
        "max_ell": 2,
        "interaction_cls": getattr(blocks, f"RealAgnostic{rest}InteractionBlock"),
        "interaction_cls_first": getattr(blocks, f"RealAgnostic{first}InteractionBlock"),
        "num_interactions": n_layers,
        "num_elements": 3,
        "hidden_irreps": o3.Irreps(hidden),
        "MLP_irreps": o3.Irreps("5x0e"),
        "atomic_energies": np.array([-0.5, -38.25, -75.125]),
        "avg_num_neighbors": 9.7,
        "atomic_numbers": [1, 6, 8],
        "correlation": 3,
        "gate": torch.nn.functional.silu,
        "use_reduced_cg": False,
        "radial_MLP": [10, 9],
        **options,
    }
    if "edge_irreps" in options:
        chosen["edge_irreps"] = o3.Irreps(options["edge_irreps"])
        chosen["readout_cls"] = getattr(blocks, options["readout_cls"])
    scale = {"atomic_inter_scale": 0.75, "atomic_inter_shift": 0.125} if scaled else {}
    model = (ScaleShiftMACE if scaled else MACE)(**scale, **chosen)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, parameter in model.named_parameters():  # which the package starts at values that hide them
        if name.endswith(("alpha", "beta")):
            parameter.fill_({"alpha": 6.3, "beta": 1.7}[name.rpartition(".")[2]])
        elif "_embedding.weight" in name or name.endswith(("linear_mid.bias", "linear_2.bias")):
            parameter.normal_()
    return model.eval()


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def described(self, model, head=None):
        """(description, (head, tensors)) of the file that torch.save writes."""
        import torch

        path = os.path.join(self.folder, "written.model")
        torch.save(model, path)
        description, tensors = mace_file.read(path)
        return description, convert_mace.described_model(description, tensors, head, path)

    def agrees(self, first, second):
        for s in systems():
            found = against.differences(s, first(s), second(s))
            self.assertTrue(against.within(found, against.LIMITS["mace"]), (s["name"], found))
            self.assertEqual(found[2] is None, s["cell"] is None)

    @unittest.skipUnless(HERE, MISSING)
    def test_written(self):
        """M1 to M12: the numpy evaluation of a file gives what the network that was saved gives."""
        for arguments in (
            {"first": "Residual", "rest": "Residual", "hidden": "6x0e+6x1o"},
            {"first": "", "rest": "Residual", "hidden": "5x0e", "max_ell": 3},
            {"first": "", "rest": "Residual", "hidden": "4x0e+4x1o+4x2e", "correlation": 2, "n_layers": 3},
            {"first": "", "rest": "", "hidden": "5x0e", "n_layers": 1, "max_ell": 1},
            {"first": "Residual", "rest": "Residual", "hidden": "5x0e", "scaled": False},
            {"first": "Density", "rest": "DensityResidual", "hidden": "5x0e+5x1o", **AGNESI},
            {"first": "Residual", "rest": "DensityResidual", "hidden": "5x0e", "scaled": False, **SOFT},
            {"first": "ResidualNonLinear", "rest": "ResidualNonLinear", "hidden": "6x0e+6x1o", **BLOCKS_OF_MH},
            {
                "first": "ResidualNonLinear",
                "rest": "ResidualNonLinear",
                "hidden": "6x0e+6x1o",
                "n_layers": 3,
                **BLOCKS_OF_MH,
                "use_edge_irreps_first": True,
                "use_last_readout_only": False,
                "use_agnostic_product": False,
            },
        ):
            saved = network(**arguments)
            model = self.described(saved)[1]
            original = against.MACE(*model)
            self.agrees(lambda s, model=model: reference.evaluate(model, s), original.evaluate)
            original.model = saved
            self.agrees(lambda s, model=model: reference.evaluate(model, s), original.evaluate)

    @unittest.skipUnless(HERE, MISSING)
    def test_self_tests(self):
        model = self.described(network("", "Residual", "5x0e"))[1]
        head = helpers.common_head("small", "mace", model[0]["elements"], model[0]["cutoff"])
        model = ({**head, **model[0]}, model[1])
        block = selftest.block(model, selftest.structures_for(model, []))
        self.assertRegex(block["origin"], r"^mace-torch [0-9.]+, float64")

    @unittest.skipUnless(HERE and helpers.program(), "mace-torch or the program mlff is not installed")
    def test_engine(self):
        model = self.described(network("Residual", "Residual", "6x0e+6x1o"))[1]
        head = helpers.common_head("small", "mace", model[0]["elements"], model[0]["cutoff"])
        path = os.path.join(self.folder, "model")
        modelfile.write(path, {**head, **model[0]}, model[1])
        text, good = against.table(against.compare(path, "mace", systems()), against.LIMITS["mace"])
        self.assertTrue(good, text)

    @unittest.skipUnless(HERE, MISSING)
    def test_refused(self):
        head, tensors = self.described(network("", "Residual", "5x0e"))[1]
        other = {**head, "mace": {**head["mace"], "activation_norm": 0.5964692111}}
        with self.assertRaisesRegex(against.Unsupported, "activation_norm"):
            against.MACE(other, tensors)


if __name__ == "__main__":
    unittest.main()
