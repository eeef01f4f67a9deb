"""Sampling: the list of trajectories, the LAMMPS input, and a short run of LAMMPS with a stand-in for the model."""

import argparse
import contextlib
import io
import os
import tempfile
import unittest

import helpers
import numpy as np
import yaml
from helpers import assert_near
from sampling import CONFIG

from mlff_tools.model import lammps, modelfile, structures
from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import dataset, sample


def lmp():
    """The LAMMPS program, or None."""
    try:
        return lammps.find_lmp()
    except ModelError:
        return None


class Lists(unittest.TestCase):
    def test_expand(self):
        found = sample.expand(CONFIG)
        self.assertEqual([t["name"] for t in found], ["w-300K-1.00-0", "w-350K-1.00-0", "b-300K-vacuum-0"])
        self.assertEqual([t["seed"] for t in found], [10, 11, 20])

    def test_refuses(self):
        for change, text in (({"seed": 20}, "seed"), ({"name": "b", "molecule": "benzene", "density": [None]}, "name")):
            config = {**CONFIG, "groups": [{**CONFIG["groups"][0], **change}, CONFIG["groups"][1]]}
            with self.assertRaisesRegex(ModelError, f"same {text}"):
                sample.expand(config)

    def test_shipped_configuration(self):
        with open(os.path.join(helpers.ROOT, "models", "train", "data.yaml"), encoding="utf-8") as f:
            found = sample.expand(yaml.safe_load(f))
        states = {
            split: {
                (t["molecule"], t["molecules"], t["temperature"], t["density"]) for t in found if t["split"] == split
            }
            for split in dataset.SPLITS
        }
        self.assertEqual(
            states["train"] & states["test"], {("water", 64, 300.0, 1.0)}
        )  # models/README.md says what it matters
        self.assertFalse(states["train"] & states["validation"])

    def test_forces_are_kept_before_the_thermostat(self):
        text = sample.input_script(sample.expand(CONFIG)[0], ["pair_style none"])
        self.assertLess(text.index("store/force"), text.index("langevin"))

    def test_places_do_not_count(self):
        """What trajectories depend on is the model's content, and not where the plugin and the model's file lie."""
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for place, seed in (("a", 1), ("b", 1), ("c", 2)):
                os.mkdir(os.path.join(folder, place))
                model, plugin = os.path.join(folder, place, "m"), os.path.join(folder, place, "mlffplugin.so")
                modelfile.write(model, *helpers.ani(seed=seed))
                open(plugin, "wb").close()
                args = argparse.Namespace(installed=False, plugin=plugin, model=model + ".yaml")
                found.append(sample.potential_lines({}, args, ["H", "O"]))
        lines, identity = zip(*found)
        self.assertIn(os.path.join("a", "mlffplugin.so"), lines[0][0])
        self.assertNotEqual(lines[0], lines[1])
        self.assertEqual(identity[0], identity[1])
        self.assertNotEqual(identity[0], identity[2])

    def test_distorted_water(self):
        """Only inner coordinates change, within what was asked for; no molecule comes too close to another one."""
        box = structures.molecule_box("water", 32, 1.0, 5)
        x, cell = box["positions"], box["cell"]
        wanted = {"fraction": 0.5, "angle": [40, 150], "bond": [0.78, 1.3]}
        new = sample.distorted_water(x, cell, wanted, np.random.default_rng(1))
        oh = new.reshape(-1, 3, 3)[:, 1:] - new.reshape(-1, 3, 3)[:, :1]
        bonds = np.linalg.norm(oh, axis=2)
        angles = np.degrees(np.arccos((oh[:, 0] * oh[:, 1]).sum(1) / bonds.prod(1)))
        changed = np.abs(new - x).reshape(-1, 9).max(1) > 0
        self.assertTrue(5 < changed.sum() < 27)
        np.testing.assert_array_equal(new[::3], x[::3])
        self.assertTrue((angles[changed] >= 40).all() and (angles[changed] <= 150).all())
        self.assertTrue((bonds[changed] >= 0.78).all() and (bonds[changed] <= 1.3).all())
        self.assertLess(angles[changed].min(), 70)
        gaps = new[:, None] - new
        gaps -= np.round(gaps @ np.linalg.inv(cell)) @ cell
        gaps = np.linalg.norm(gaps, axis=2)
        apart = np.arange(96)[:, None] // 3 != np.arange(96) // 3
        moved = np.repeat(changed, 3)[:, None] & (np.arange(96) % 3 > 0)[:, None] & apart
        self.assertGreaterEqual(gaps[moved].min(), min(sample.CONTACT, gaps[~moved & apart].min()))
        none = sample.distorted_water(x, cell, {**wanted, "fraction": 0.0}, np.random.default_rng(1))
        np.testing.assert_array_equal(none, x)

    def test_distorted_frames_are_labelled_anew(self):
        trajectory = {"seed": 4, "distort": {"sigma": 0.1}}
        structure = {"elements": ["H", "H"], "positions": np.zeros((2, 3)), "cell": None}
        values = np.zeros((3, 2, 6))
        values[:, :, :3] = np.arange(18).reshape(3, 2, 3)

        def label(frames):
            return [(f["positions"].sum(), 2 * f["positions"]) for f in frames]

        new, energies = sample.relabelled(trajectory, structure, values, [10, 20, 30], label)
        np.testing.assert_array_equal(new[..., 3:], 2 * new[..., :3])
        for k, step in enumerate((10, 20, 30)):
            self.assertEqual(energies[step], new[k, :, :3].sum())
        moved = np.abs(new[..., :3] - values[..., :3])
        self.assertTrue(0.0 < moved.max() < 0.6)

    def test_start(self):
        t = sample.expand(CONFIG)[0]
        s = sample.start(t)
        mass = 8 * (15.999 + 2 * 1.008)
        self.assertAlmostEqual(mass / np.linalg.det(s["cell"]) / structures.AVOGADRO_A3, 1.0, 9)
        again = sample.start(t)
        np.testing.assert_array_equal(s["positions"], again["positions"])


@unittest.skipUnless(lmp(), "the program lmp was not found")
class Runs(unittest.TestCase):
    def test_run_pack_resume(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.yaml")
            with open(path, "w", encoding="ascii") as f:
                yaml.safe_dump(CONFIG, f)
            texts = []
            for _ in range(2):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    sample.main([path, "--out", folder, "--jobs", "1"])
                texts.append(out.getvalue())
            self.assertNotIn("kept", texts[0])
            self.assertEqual(texts[1].count("kept"), 3)
            moved = (["# another place", *CONFIG["potential"]], CONFIG["potential"])
            elements, results = CONFIG["elements"], os.path.join(folder, CONFIG["name"])
            _, seconds = sample.run(sample.expand(CONFIG)[0], results, moved, elements, lmp())
            self.assertEqual(seconds, 0.0)
            data, sha256 = dataset.load(os.path.join(folder, "trial.npz"))
            self.assertIn(sha256, texts[0])
            self.assertIn(sha256, texts[1])
        self.assertEqual(len(data["energy"]), 10)
        self.assertEqual(len(dataset.frames_of(data, "test")), 4)
        for k in (0, 5, 9):
            self.check_labels(dataset.frame(data, k))

    def check_labels(self, s):
        """Energy and forces of the stand-in: E = sum over pairs of 200 exp(-r / 0.3), r < 4."""
        x, shifts = s["positions"], np.zeros((1, 3))
        if s["cell"] is not None:
            grid = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), -1).reshape(-1, 3)
            shifts = grid @ s["cell"]
        d = x[None, :, None] + shifts - x[:, None, None]
        r = np.sqrt((d**2).sum(-1))
        near = (r > 1e-6) & (r < 4.0)
        e = np.where(near, 200.0 * np.exp(-r / 0.3), 0.0)
        forces = -(e / 0.3 / np.where(near, r, 1.0))[..., None] * d
        assert_near([s["energy"]], [0.5 * e.sum()], 2e-5, s["name"] + ": energy")
        assert_near(s["forces"], forces.sum((1, 2)), 2e-4, s["name"] + ": forces")


if __name__ == "__main__":
    unittest.main()
