"""ANI-1ccx in its two layouts, with random weights: the published parameters are not at hand.

Files, names, shapes, constants and self energies are those of the published model: eight members, H C N O, 384 columns
within 5.2 and 3.5 A, three hidden layers. The converter's result is evaluated by numpy, by the engine, and by TorchANI
where it is.
"""

import importlib.util
import subprocess
import unittest
import unittest.mock
import warnings

import helpers
import numpy as np
import test_ani_files

from mlff_tools.convert import command as convert
from mlff_tools.model import engine, modelfile, reference, structures

SELF_ENERGIES = {"H": -0.5991501324919538, "C": -38.03750806057356, "N": -54.67448347695333, "O": -75.16043537275567}
WIDTHS = {
    "H": (384, 160, 128, 96, 1),
    "C": (384, 144, 112, 96, 1),
    "N": (384, 128, 112, 96, 1),
    "O": (384, 128, 112, 96, 1),
}
HARTREE = modelfile.ENERGY_IN_EV["hartree"]
TORCHANI = importlib.util.find_spec("torchani")


def write_folder(folder):
    """Names as published; returns {(member, element): [(weight, bias), ...]}."""
    return test_ani_files.write_neurochem(
        folder, 8, "ani-1ccx_8x.info", constants="rHCNO-5.2R_16-3.5A_a4-8.params", energies=SELF_ENERGIES, widths=WIDTHS
    )


def molecules():
    """All four elements, one of the structures in a cell smaller than the cutoff."""
    mix = structures.rattled("ethanol", 1)
    elements, positions = structures.molecule("ammonia")
    mix["elements"] = mix["elements"] + elements
    mix["positions"] = np.concatenate([mix["positions"], positions + 3.1])
    box = structures.rattled("water", 6)
    return [
        mix,
        structures.rattled("benzene", 2),
        dict(box, cell=np.array([[4.4, 0, 0], [0.5, 4.1, 0], [-0.3, 0.6, 4.0]])),
    ]


class Layouts(test_ani_files.Folder):
    def is_1ccx(self, head):
        self.assertEqual(head["elements"], ["H", "C", "N", "O"])
        self.assertEqual(head["energy_offsets"], SELF_ENERGIES)
        self.assertEqual({e: tuple(w) for e, w in head["ani"]["dims"].items()}, WIDTHS)
        self.assertEqual((head["cutoff"], head["ani"]["angular"]["cutoff"], head["ani"]["n_members"]), (5.2, 3.5, 8))
        self.assertIn("ANI-1ccx", head["provenance"]["labels"])
        self.assertIn("10.1038/s41467-019-10827-4", head["provenance"]["citation"])

    def test_neurochem(self):
        """Every number arrives; the engine agrees with numpy in double, and the file's self-test passes in float."""
        made = write_folder(self.folder)
        model = self.convert("ani", self.path("ani-1ccx_8x.info"))
        self.is_1ccx(model[0])
        self.assertEqual(len(model[1]), 8 * 4 * 4 * 2)
        for (m, e), layers in made.items():
            for l, (weight, bias) in enumerate(layers):
                helpers.assert_near(model[1][f"member.{m}.{e}.{l}.weight"], weight, 0.0, f"weight {m} {e} {l}")
                helpers.assert_near(model[1][f"member.{m}.{e}.{l}.bias"], bias, 0.0, f"bias {m} {e} {l}")
        if not helpers.program():
            self.skipTest("the program mlff is not built")
        for s, (energy, forces, virial) in zip(molecules(), engine.evaluate(self.out + ".yaml", molecules())[0]):
            expected = reference.evaluate(model, s)
            helpers.assert_near([energy], [expected[0]], 1e-9 * len(s["elements"]), f"{s['name']}: energy")
            helpers.assert_near(forces, expected[1], 1e-10, f"{s['name']}: forces")
            helpers.assert_near(virial, expected[2], 1e-9, f"{s['name']}: virial")
            self.assertGreater(np.abs(forces).max(), 0.01)
        done = subprocess.run(
            [helpers.program(), "verify", self.out + ".yaml"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def near_torchani(self, original, model):
        """Energies in hartree without self energies, which TorchANI rounds to float32, and forces, on molecules."""
        import torch

        for s in molecules()[:2]:
            x = torch.tensor(s["positions"])[None].requires_grad_()
            energy = original((torch.tensor([[modelfile.NUMBERS[e] for e in s["elements"]]]), x)).energies.sum()
            forces = -torch.autograd.grad(energy, x)[0][0].numpy()
            rounded = sum(float(np.float32(SELF_ENERGIES[e])) - SELF_ENERGIES[e] for e in s["elements"])
            found = reference.evaluate(model, s)
            helpers.assert_near([found[0] / HARTREE], [float(energy.detach()) - rounded], 1e-9, "energy")
            helpers.assert_near(found[1] / HARTREE, forces, 5e-9, "forces (TorchANI's CELU is exact to 1e-9 only)")

    @unittest.skipUnless(TORCHANI, "TorchANI is not installed in this Python")
    def test_torchani_reads_the_same_folder(self):
        warnings.filterwarnings("ignore")
        from torchani import arch, neurochem

        write_folder(self.folder)
        aev, symbols = neurochem.load_aev_computer_and_symbols(self.path("rHCNO-5.2R_16-3.5A_a4-8.params"))
        original = arch.ANI(
            symbols,
            aev,
            neurochem.load_ensemble(symbols, self.path("train"), 8),
            neurochem.load_sae(self.path("sae_linfit.dat")),
        ).double()
        self.near_torchani(original, self.convert("ani", self.folder))

    @unittest.skipUnless(TORCHANI, "TorchANI is not installed in this Python")
    def test_state_dict_of_torchani(self):
        """torchani.models.ANI1ccx(), given random weights in the place of those that it would download."""
        warnings.filterwarnings("ignore")
        import torch
        from torchani import models

        def random_state(*_, **__):
            generator = torch.Generator().manual_seed(3)
            state = self.made.state_dict()
            for key, value in state.items():
                if key.endswith(("weight", "bias")):
                    value.copy_(
                        torch.randn(value.shape, generator=generator)
                        / (value.shape[-1] ** 0.5 if value.dim() > 1 else 10)
                    )
                elif key.endswith("self_energies"):
                    value.copy_(torch.tensor([SELF_ENERGIES[e] for e in "HCNO"]))
            return state

        def keep(asm, n):
            self.made = assemble(asm, n)
            return self.made

        assemble = models.Assembler.assemble
        with (
            unittest.mock.patch.object(models, "_fetch_state_dict", random_state),
            unittest.mock.patch.object(models.Assembler, "assemble", keep),
        ):
            original = models.ANI1ccx()
        torch.save(original.state_dict(), self.path("ani-1ccx.pt"))
        model = self.convert("ani", self.path("ani-1ccx.pt"))
        self.is_1ccx(model[0])
        self.near_torchani(original.double(), model)


class SelfEnergies(unittest.TestCase):
    def test_are_not_rounded(self):
        """TorchANI keeps them as float32; the converter puts the published numbers back."""
        for e, x in SELF_ENERGIES.items():
            self.assertNotEqual(float(np.float32(x)), x)
            self.assertEqual(convert.checkpoints.unrounded_self_energy(e, np.float32(x)), x)


if __name__ == "__main__":
    unittest.main()
