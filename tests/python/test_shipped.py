"""Shipped models have no holes: what dynamics seldom visits costs energy there too."""

import glob
import os
import unittest

import numpy as np

import helpers
from mlff_tools import engine
from mlff_tools.modelfile import ModelError

MODELS = sorted(glob.glob(os.path.join(helpers.ROOT, "models", "*.yaml")))
BOND, ANGLE = 0.967, 104.5


def program():
    try:
        return engine.find_program()
    except ModelError:
        return None


def water(angle=ANGLE, bonds=(BOND, BOND)):
    half = np.radians(angle) / 2
    hydrogens = [[s * b * np.sin(half), b * np.cos(half), 0.0] for s, b in zip((1, -1), bonds)]
    return {"name": f"{angle} {bonds}", "elements": ["O", "H", "H"], "positions": np.array([[0.0, 0.0, 0.0], *hydrogens]),
            "cell": None}


@unittest.skipUnless(program(), "the program mlff was not built")
class Holes(unittest.TestCase):
    def rises(self, model, structures, at_the_end):
        """Energies rise from structure to structure, from the first one by at least `at_the_end` (eV) in all."""
        found, _ = engine.evaluate(model, structures, "fp64")
        energies = np.array([energy for energy, _, _ in found])
        self.assertTrue((np.diff(energies) > 0).all(), f"{model}: {energies - energies[0]}")
        self.assertGreater(energies[-1] - energies[0], at_the_end, model)

    def test_water(self):
        """ANI-2x: 1.9 eV at 65 degrees, 1.0 eV at 150; 1 to 2 eV for both bonds at 0.8 A or 1.5 for one at 1.25."""
        self.assertEqual(len(MODELS), 3)
        for model in MODELS:
            with self.subTest(model=os.path.basename(model)):
                self.rises(model, [water(a) for a in (100, 95, 90, 85, 80, 75, 70, 65, 60, 55, 50)], 1.2)
                self.rises(model, [water(a) for a in (110, 115, 120, 130, 140, 150)], 0.4)
                self.rises(model, [water(bonds=(b, b)) for b in (0.95, 0.92, 0.9, 0.88, 0.85, 0.82, 0.8)], 0.7)
                self.rises(model, [water(bonds=(BOND, b)) for b in (0.99, 1.05, 1.1, 1.15, 1.2, 1.25)], 0.7)


if __name__ == "__main__":
    unittest.main()
