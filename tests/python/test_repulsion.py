"""The short-range repulsion of model files: numpy against numbers made by hand and differences, the engine against
numpy for every architecture, and what is refused."""

import os
import tempfile
import unittest
import unittest.mock

import helpers
import numpy as np
from helpers import assert_near

from mlff_tools.model import against, engine, modelfile, reference, repulsion, structures
from mlff_tools.model.modelfile import ModelError

CUTOFFS = {"H-H": 1.9, "O-H": 1.2, "C-H": 1.3, "C-C": 1.8}
MODELS = {
    "painn": helpers.painn(),
    "ani": helpers.ani(),
    "orb": helpers.orb(),
    "nequix": helpers.nequip(),
    "sevennet": helpers.nequip("sevennet"),
}


def repelling(model, cutoffs=None, unit="eV"):
    head, tensors = model
    block = {"kind": "zbl", "cutoffs": dict(CUTOFFS if cutoffs is None else cutoffs)}
    units = {**head["units"], "energy": unit, "energy_in_eV": modelfile.ENERGY_IN_EV[unit]}
    return {**head, "units": units, "repulsion": block}, tensors


def molecule():
    return structures.rattled("ethanol", 3)


def box():
    return structures.self_test_structures(["H", "C", "O"])[-1]


def alone(model, s):
    """What the block adds."""
    plain = {k: v for k, v in model[0].items() if k != "repulsion"}
    return [a - b for a, b in zip(reference.evaluate(model, s), reference.evaluate((plain, model[1]), s))]


class Formula(unittest.TestCase):
    def test_one_number_by_hand(self):
        """O and H, 0.7 A apart, cutoff 0.85: a = 0.46850/(8^0.23 + 1), x = r/a."""
        x = 0.7 / (0.46850 / 2.6132835)
        phi = 0.18175 * np.exp(-3.1998 * x) + 0.50986 * np.exp(-0.94229 * x)
        phi += 0.28022 * np.exp(-0.4029 * x) + 0.02817 * np.exp(-0.20162 * x)
        y = 0.7 / 0.85
        expected = 14.399645 * 8 / 0.7 * phi * (1 - 10 * y**3 + 15 * y**4 - 6 * y**5)
        assert_near(repulsion.zbl(8, 1, 0.85, 0.7)[0], expected, 1e-5, "energy")

    def test_slope_and_end(self):
        r, h = np.linspace(0.3, 2.19, 40), 1e-4
        e = [repulsion.zbl(8, 6, 2.2, r + k * h)[0] for k in (-2, -1, 1, 2)]
        assert_near(repulsion.zbl(8, 6, 2.2, r)[1], (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h), 1e-6, "slope")
        near = [repulsion.zbl(8, 6, 2.2, 2.2 - d) for d in (2e-3, 1e-3)]
        assert_near(near[0][0] / near[1][0], 8.0, 0.1, "third power")
        assert_near(near[0][1] / near[1][1], 4.0, 0.05, "second power")
        assert_near(repulsion.zbl(8, 6, 2.2, np.array([2.2, 2.5, 9.0])), np.zeros((2, 3)), 0.0, "beyond")

    def test_derivatives(self):
        model, h = repelling(MODELS["painn"]), 1e-4
        factors = ((-2, 1), (-1, -8), (1, 8), (2, -1))
        for s in (molecule(), box()):
            _, forces, virial = alone(model, s)
            self.assertGreater(np.abs(forces).max(), 1.0)
            for atom in range(len(forces)):
                for axis in range(3):
                    slope = 0.0
                    for k, factor in factors:
                        x = s["positions"].copy()
                        x[atom, axis] += k * h
                        slope += factor * alone(model, {**s, "positions": x})[0] / (12 * h)
                    assert_near([forces[atom, axis]], [-slope], 1e-6, f"{s['name']}, force")
            for k, (a, b) in enumerate(((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))):
                slope = 0.0
                for step, factor in factors:
                    strain = np.eye(3)
                    strain[a, b] += 0.5 * step * h
                    strain[b, a] += 0.5 * step * h
                    cell = None if s["cell"] is None else s["cell"] @ strain
                    moved = {**s, "positions": s["positions"] @ strain, "cell": cell}
                    slope += factor * alone(model, moved)[0] / (12 * h)
                assert_near([virial[k]], [-slope], 1e-6, f"{s['name']}, virial")

    def test_it_does_not_depend_on_the_unit(self):
        e = [alone(repelling(MODELS["ani"], unit=unit), molecule())[0] for unit in modelfile.ENERGY_UNITS]
        assert_near(e, np.full(3, e[0]), 1e-9 * abs(e[0]), "energies")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.name = os.path.join(self.folder.name, "m")

    def test_round_trip(self):
        head, tensors = repelling(MODELS["painn"])
        modelfile.write(self.name, head, tensors)
        found = modelfile.read(self.name)[0]
        self.assertEqual(found["repulsion"], {"kind": "zbl", "cutoffs": CUTOFFS})
        self.assertEqual(modelfile.repulsion_cutoffs(found)["O", "H"], 1.2)
        self.assertEqual(modelfile.repulsion_cutoffs(MODELS["painn"][0]), {})

    def test_what_is_refused(self):
        for block, text in (
            ("zbl", "must be"),
            ({"kind": "zbl"}, "must be"),
            ({"kind": "zbl", "cutoffs": [1.0]}, "must be"),
            ({"kind": "zbl", "cutoffs": {"H-O": 1.0}, "unit": "nm"}, "must be"),
            ({"kind": "born", "cutoffs": {"H-O": 1.0}}, "'born': zbl"),
            ({"kind": "zbl", "cutoffs": {}}, "no pair"),
            ({"kind": "zbl", "cutoffs": {"HO": 1.0}}, "HO: must be named"),
            ({"kind": "zbl", "cutoffs": {"H-N": 1.0}}, "'N' is not among"),
            ({"kind": "zbl", "cutoffs": {"H-O": 0}}, "H-O is 0: must be more than 0"),
            ({"kind": "zbl", "cutoffs": {"H-O": "1"}}, "must be more than 0"),
            ({"kind": "zbl", "cutoffs": {"H-O": True}}, "must be more than 0"),
            ({"kind": "zbl", "cutoffs": {"H-O": float("nan")}}, "must be more than 0"),
            ({"kind": "zbl", "cutoffs": {"H-O": 4.01}}, "cutoff, 4.0 A"),
            ({"kind": "zbl", "cutoffs": {"H-O": 1.0, "O-H": 1.0}}, "O-H is there twice"),
        ):
            head, tensors = repelling(MODELS["painn"])
            with self.assertRaisesRegex(ModelError, text):
                modelfile.write(self.name, {**head, "repulsion": block}, tensors)

    def test_packages(self):
        """Packages do not have kind zbl, which is added to their results; what they cannot have is refused."""
        model = repelling(MODELS["ani"])
        plain = {k: v for k, v in model[0].items() if k != "repulsion"}, model[1]

        class Network:
            def __init__(self, head, tensors):
                del head, tensors

            def evaluate(self, s):
                return reference.evaluate(plain, s)

        with unittest.mock.patch.dict(against.PACKAGES, torchani=Network):
            original = against.build("torchani", *model)
            for s in (molecule(), box()):
                for found, expected in zip(original.evaluate(s), reference.evaluate(model, s)):
                    assert_near(found, expected, 0.0, s["name"])
            head = {**model[0], "repulsion": {"kind": "mace"}}
            with self.assertRaisesRegex(against.Unsupported, "kind mace, which torchani does not compute"):
                against.build("torchani", head, model[1])


@unittest.skipUnless(helpers.program(), "the program mlff has not been built")
class Engine(unittest.TestCase):
    def test_engine_is_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, plain in MODELS.items():
                model = repelling(plain, unit="hartree" if name == "ani" else "eV")
                path = os.path.join(folder, name)
                modelfile.write(path, *model)
                found, _ = engine.evaluate(path + ".yaml", [molecule(), box()], "fp64")
                for s, (energy, forces, virial) in zip((molecule(), box()), found):
                    self.assertGreater(alone(model, s)[0], 0.1)
                    expected = reference.evaluate(model, s)
                    size = max(1.0, np.abs(expected[1]).max())
                    assert_near(energy, expected[0], 1e-10 * abs(expected[0]), f"{name}, {s['name']}, energy")
                    assert_near(forces, expected[1], 1e-9 * size, f"{name}, {s['name']}, forces")
                    assert_near(virial, expected[2], 1e-8 * size, f"{name}, {s['name']}, virial")


if __name__ == "__main__":
    unittest.main()
