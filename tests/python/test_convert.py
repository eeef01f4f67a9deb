"""The command `python -m mlff_tools convert`: what it writes, and what it refuses."""

import contextlib
import copy
import importlib.util
import io
import os
import tempfile
import unittest

import helpers

from mlff_tools.convert import checkpoints
from mlff_tools.convert import command as convert
from mlff_tools.model import modelfile, reference, selftest, structures
from mlff_tools.model.modelfile import ModelError

try:
    import torch
except ImportError:
    torch = None


def published(name):
    return os.path.join(helpers.PUBLISHED, name)


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
        said = helpers.refusal(convert.main, [*arguments, "-o", os.path.join(self.folder.name, "out")])
        self.assertIn(text, said)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_ani(self):
        head, tensors = self.convert("ani", published("ani-2x.yaml"))
        self.assertEqual(head["elements"], ["H", "C", "N", "O", "S", "F", "Cl"])
        self.assertEqual(len(tensors), 448)
        self.assertEqual(head["ani"]["radial"]["eta"], 19.700000762939453)
        self.assertEqual(head["energy_offsets"]["Cl"], -460.1681939421027)
        self.assertEqual({e for s in head["self_test"]["structures"] for e in s["elements"]}, set(head["elements"]))
        self.assertEqual(
            self.convert("ani", published("ani-2x.yaml"), "--constants", "exact")[0]["ani"]["angular"]["zeta"], 14.1
        )

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
        words = ["painn", published("painn_ethanol_1.yaml"), "-o", os.path.join(self.folder.name, "none", "x")]
        self.assertIn("is not a writable folder", helpers.refusal(convert.main, words))
        source, tensors = convert.read_description(published("painn_ethanol_1.yaml"), "painn")
        for path, value in (
            ("shared_filters", True),
            ("shared_interactions", True),
            ("activation", "shifted_softplus"),
            ("readout.aggregation", "avg"),
            ("cutoff.kind", "mollifier"),
            ("radial_basis.kind", "bernstein"),
            ("readout.activation", "tanh"),
        ):
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

    @unittest.skipUnless(helpers.program(), "the program mlff was not found ($MLFF)")
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
            with self.assertRaisesRegex(ModelError, "is not run"):
                checkpoints.read_torchani(path, 0.1)

    def test_state_dict(self):
        head, tensors = helpers.ani(elements=("H", "O"))
        state = {}
        for name, value in tensors.items():
            _, m, element, layer, kind = name.split(".")
            state[f"neural_networks.{m}.{element}.{2 * int(layer)}.{kind}"] = torch.tensor(value)
        r, a = head["ani"]["radial"], head["ani"]["angular"]
        for key, value in (
            ("EtaR", [r["eta"]]),
            ("ShfR", r["shifts"]),
            ("EtaA", [a["eta"]]),
            ("Zeta", [a["zeta"]]),
            ("ShfA", a["shifts"]),
            ("ShfZ", a["sections"]),
        ):
            state["aev_computer." + key] = torch.tensor(value)
        state["energy_shifter.self_energies"] = torch.tensor([-0.5, -75.0], dtype=torch.float64)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.pt")
            torch.save(state, path)
            source, found = checkpoints.read_torchani(path, 0.1, (4.5, 3.2))
        converted, out = convert.ani_model(source, found, "exact", path)
        self.assertEqual(converted["ani"]["angular"]["sections"], a["sections"])
        self.assertEqual(converted["energy_offsets"], {"H": -0.5, "O": -75.0})
        for key, value in tensors.items():
            helpers.assert_near(out[key], value, 0.0, key)


def package(name):
    """Whether a package can be imported here."""
    return importlib.util.find_spec(name) is not None


@unittest.skipUnless(package("schnetpack"), "SchNetPack is not installed in this Python")
class SchNetPack(unittest.TestCase):
    def model(self, spk, **options):
        torch.manual_seed(0)
        representation = spk.representation.PaiNN(
            n_atom_basis=16,
            n_interactions=2,
            radial_basis=spk.nn.GaussianRBF(n_rbf=8, cutoff=4.2),
            cutoff_fn=spk.nn.CosineCutoff(4.2),
            **options,
        )
        offsets = spk.transform.AddOffsets("energy", add_mean=True, add_atomrefs=True)
        offsets.mean = torch.tensor([-3.25], dtype=torch.float64)
        offsets.atomref = -1.5 * torch.arange(100, dtype=torch.float64)
        return spk.model.NeuralNetworkPotential(
            representation=representation,
            input_modules=[spk.atomistic.PairwiseDistances()],
            output_modules=[spk.atomistic.Atomwise(n_in=16, output_key="energy"), spk.atomistic.Forces()],
            postprocessors=[spk.transform.CastTo64(), offsets],
        )

    def evaluate(self, model, s):
        import schnetpack.properties as names

        x = torch.tensor(s["positions"])
        distance, n = torch.cdist(x, x), len(x)
        i, j = torch.nonzero((distance < 4.2) & (distance > 0), as_tuple=True)
        out = model.double()(
            {
                names.Z: torch.tensor([modelfile.NUMBERS[e] for e in s["elements"]]),
                names.R: x,
                names.idx_i: i,
                names.idx_j: j,
                names.cell: torch.zeros(1, 3, 3, dtype=torch.float64),
                names.pbc: torch.zeros(1, 3, dtype=torch.bool),
                names.idx_m: torch.zeros(n, dtype=torch.long),
                names.n_atoms: torch.tensor([n]),
                names.offsets: torch.zeros(len(i), 3, dtype=torch.float64),
            }
        )
        return float(out["energy"].detach()), out["forces"].detach().numpy()

    def test_best_model(self):
        spk = checkpoints._schnetpack(torch)
        original, s = self.model(spk), structures.rattled("ethanol", 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "best_model")
            torch.save(original, path)
            source, tensors = checkpoints.read_schnetpack(path)
        model = convert.painn_model(source, tensors, ["H", "C", "O"], path)
        energy, forces = self.evaluate(original, s)
        found = reference.evaluate(model, s)
        helpers.assert_near([found[0]], [energy], 1e-10, "energy")
        helpers.assert_near(found[1], forces, 1e-12, "forces")

    def test_shared_filters_are_refused(self):
        spk = checkpoints._schnetpack(torch)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "best_model")
            torch.save(self.model(spk, shared_filters=True), path)
            source, tensors = checkpoints.read_schnetpack(path)
        with self.assertRaisesRegex(ModelError, "shared_filters"):
            convert.painn_model(source, tensors, ["H", "C", "O"], path)


@unittest.skipUnless(package("torchani"), "TorchANI is not installed in this Python")
class TorchAni(unittest.TestCase):
    def test_state_dict(self):
        import torchani

        symbols, s = ("H", "C", "O"), structures.rattled("ethanol", 1)
        aev = torchani.aev.AEVComputer.like_2x(num_species=3)
        torch.manual_seed(1)
        networks = [
            torchani.nn.ANINetworks(
                {
                    e: torchani.nn.AtomicNetwork(
                        (aev.out_dim, 16, 12, 1), activation=torchani.nn.TightCELU(), bias=True
                    )
                    for e in symbols
                }
            )
            for _ in range(2)
        ]
        original = torchani.arch.ANI(
            symbols, aev, torchani.nn.Ensemble(networks), torchani.sae.SelfEnergy(symbols, [-0.5, -38.0, -75.0])
        )
        with tempfile.TemporaryDirectory() as folder:
            path, name = os.path.join(folder, "state.pt"), os.path.join(folder, "out")
            torch.save(original.state_dict(), path)
            with contextlib.redirect_stdout(io.StringIO()):
                convert.main(["ani", path, "-o", name])
            model = modelfile.read(name)
        x = torch.tensor(s["positions"])[None].requires_grad_()
        numbers = torch.tensor([modelfile.NUMBERS[e] for e in s["elements"]])[None]
        energy = original.double()((numbers, x)).energies.sum()
        forces = -torch.autograd.grad(energy, x)[0][0].numpy()
        found, hartree = reference.evaluate(model, s), modelfile.ENERGY_IN_EV["hartree"]
        helpers.assert_near([found[0] / hartree], [float(energy.detach())], 1e-10, "energy")
        helpers.assert_near(found[1] / hartree, forces, 5e-9, "forces (TorchANI's CELU is exact to 1e-9 only)")


@unittest.skipIf(torch, "PyTorch is installed in this Python")
class NoTorch(unittest.TestCase):
    def test_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "best_model")
            for begin, text in (
                (b"\x80\x02}", "pip install torch .*without CUDA"),
                (b"3\n\nO 0", "is not a PyTorch checkpoint"),
            ):
                with open(path, "wb") as f:
                    f.write(begin)
                with self.assertRaisesRegex(ModelError, text):
                    checkpoints.read_schnetpack(path)


if __name__ == "__main__":
    unittest.main()
