"""Shipped models have no holes: what dynamics seldom visits costs energy there too. What is published of them is of
them."""

import glob
import json
import os
import re
import tempfile
import unittest

import helpers
import numpy as np

from mlff_tools.certify import command as certify
from mlff_tools.convert import command as convert
from mlff_tools.convert import nequip as convert_nequip
from mlff_tools.convert import tensornet as convert_tensornet
from mlff_tools.model import engine, modelfile, reference
from mlff_tools.train import kinds, teachers

FOLDER = os.path.join(helpers.ROOT, "models")
MODELS = sorted(glob.glob(os.path.join(FOLDER, "water-benzene-*.yaml")))
RECIPES = sorted(glob.glob(os.path.join(FOLDER, "recipes", "*.yaml")))
STUDENTS = [p for p in (os.path.join(FOLDER, os.path.basename(r)) for r in RECIPES) if os.path.exists(p)]
UNIVERSAL = os.path.join(FOLDER, "nequix-oam-1-pft")
TENSORNETS = ("tensornet-matpes-r2scan", "tensornet-local-matpes-pbe")
BOND, ANGLE = 0.967, 104.5


def water(angle=ANGLE, bonds=(BOND, BOND)):
    half = np.radians(angle) / 2
    hydrogens = [[s * b * np.sin(half), b * np.cos(half), 0.0] for s, b in zip((1, -1), bonds)]
    return {
        "name": f"{angle} {bonds}",
        "elements": ["O", "H", "H"],
        "positions": np.array([[0.0, 0.0, 0.0], *hydrogens]),
        "cell": None,
    }


def dimer(distance):
    """Two molecules in planes at right angles, a hydrogen of each on the x axis, so far apart in A."""
    unit, along = (
        water()["positions"],
        lambda a: np.array([[np.cos(a), np.sin(a), 0], [-np.sin(a), np.cos(a), 0], [0, 0, 1]]),
    )
    one = unit @ along(np.arctan2(unit[1, 1], unit[1, 0])).T
    two = one[:, [0, 2, 1]] * [-1, 1, 1]
    two = two + one[1] - two[1] + [distance, 0, 0]
    return {"name": f"{distance} A", "elements": ["O", "H", "H"] * 2, "positions": np.vstack([one, two]), "cell": None}


@unittest.skipUnless(helpers.program(), "the program mlff was not built")
class Holes(unittest.TestCase):
    def rises(self, model, structures, at_the_end):
        """Energies rise from structure to structure, from the first one by at least `at_the_end` (eV) in all."""
        found, _ = engine.evaluate(model, structures, "fp64")
        energies = np.array([energy for energy, _, _ in found])
        self.assertTrue((np.diff(energies) > 0).all(), f"{model}: {energies - energies[0]}")
        self.assertGreater(energies[-1] - energies[0], at_the_end, model)

    def test_water(self):
        """ANI-2x: 1.9 eV at 65 degrees, 1.0 eV at 150; 1 to 2 eV for both bonds at 0.8 A or 1.5 for one at 1.25.
        NEP-MB-pol: 1.1 eV at 57 degrees, its maximum; 0.9 at 150; 1.9 for both bonds at 0.8 A, 1.2 for one at 1.25."""
        self.assertEqual(len(MODELS), 3)
        for model in MODELS + [m for m in STUDENTS if os.path.basename(m).startswith("water-")]:
            with self.subTest(model=os.path.basename(model)):
                least, bent = (60, 0.9) if "mbpol" in model else (50, 1.2)
                self.rises(model, [water(a) for a in range(100, least - 1, -5)], bent)
                self.rises(model, [water(a) for a in (110, 115, 120, 130, 140, 150)], 0.4)
                self.rises(model, [water(bonds=(b, b)) for b in (0.95, 0.92, 0.9, 0.88, 0.85, 0.82, 0.8)], 0.7)
                self.rises(model, [water(bonds=(BOND, b)) for b in (0.99, 1.05, 1.1, 1.15, 1.2, 1.25)], 0.7)

    def test_water_dimer(self):
        """Hydrogens of two molecules that point at each other. ANI-2x: 0.3 eV at 1.3 A, 1.0 at 1.0,
        1.6 at 0.9; NEP-MB-pol: 0.4, 0.9 and 0.9, its maximum."""
        for model in [m for m in STUDENTS if os.path.basename(m).startswith("water-")]:
            with self.subTest(model=os.path.basename(model)):
                close = [dimer(d) for d in (1.7, 1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.0, 0.95)]
                self.rises(model, close, 0.7 if "mbpol" in model else 0.8)


class Published(unittest.TestCase):
    """Weights were once exchanged without what is said about them, and the other way round."""

    def test_readme(self):
        with open(os.path.join(helpers.ROOT, "README.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+) meV/A \| ([\d.]+) meV/atom \|$", file.read(), re.M)
        self.assertEqual(len(rows), len(MODELS + STUDENTS))
        for name, forces, energy in rows:
            accuracy = modelfile.load_yaml(os.path.join(helpers.ROOT, "models", f"{name}.yaml"))["accuracy"]
            with self.subTest(model=name):
                self.assertEqual(forces, f"{accuracy['force_rmse_mev_per_ang']:.1f}")
                self.assertEqual(energy, f"{accuracy['energy_rmse_mev_per_atom']:.2f}")

    def test_targets(self):
        """Every model that is shipped and timed in LAMMPS has bars of its own."""
        rules = modelfile.load_yaml(os.path.join(FOLDER, "targets.yaml"))["rules"]
        named = {rule["model"]: rule["below"] for rule in rules if "model" in rule}
        shipped = {os.path.splitext(os.path.basename(path))[0] for path in (*MODELS, *STUDENTS, UNIVERSAL)}
        self.assertEqual(set(named) - {"ani-2x"}, shipped)
        for model in STUDENTS:
            wanted = certificate(model)["bars"]
            speed = [bar["bar"] for bar in wanted if bar["quantity"] == "speed"]
            self.assertEqual(speed, [named[os.path.splitext(os.path.basename(model))[0]]])

    def test_results(self):
        """Reports, stability and validation name the weights that are shipped."""
        shipped = {modelfile.load_yaml(m)["weights"]["sha256"] for m in (*MODELS, f"{UNIVERSAL}.yaml")}
        of_a_model = 0
        for path in glob.glob(os.path.join(helpers.ROOT, "benchmarks", "results", "**", "*.json"), recursive=True):
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            if not isinstance(result, dict):
                continue
            name = str(result.get("model_name") or result.get("model") or "")
            sha256 = result.get("sha256") or result.get("context", {}).get("model_sha256")
            if name.startswith(("water-benzene-", "nequix-oam-1-pft")):
                of_a_model += 1
                with self.subTest(result=os.path.relpath(path, helpers.ROOT)):
                    self.assertIn(sha256, shipped)
        self.assertGreaterEqual(of_a_model, 8)


def certificate(model):
    """The JSON of the certificate of a student."""
    name = os.path.splitext(os.path.basename(model))[0]
    with open(os.path.join(FOLDER, "certificates", f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


class Zoo(unittest.TestCase):
    """A model that is made by a recipe of models/recipes has a certificate of this network, judged by its kind."""

    def test_certificates(self):
        self.assertTrue(STUDENTS)
        for model in STUDENTS:
            path = os.path.join(FOLDER, "recipes", os.path.basename(model))
            name = os.path.splitext(os.path.basename(path))[0]
            with self.subTest(model=name):
                head, found = modelfile.load_yaml(model), certificate(model)
                self.assertEqual(found["model"]["sha256"], teachers.network_digest(head))
                self.assertEqual(found["model"]["weights_sha256"], head["weights"]["sha256"])
                self.assertEqual(found["model"].get("header_sha256", head["header_sha256"]), head["header_sha256"])
                self.assertEqual((found["quick"], found["settings"]["scale"]), (False, 1.0))
                self.assertIn(found["kind"], kinds.KINDS)
                with tempfile.TemporaryDirectory() as place:
                    out = os.path.join(place, "page.html")
                    source = os.path.join(FOLDER, "certificates", f"{name}.json")
                    status = {"PASS": 0, "FAIL": 1, "UNDECIDED": 3}[found["verdict"]]
                    self.assertEqual(certify.main(["--page", source, path, "-o", out]), status)
                    with open(os.path.join(place, "page.json"), encoding="utf-8") as file:
                        again = json.load(file)
                    self.assertEqual((again["verdict_text"], again["bars"]), (found["verdict_text"], found["bars"]))
                    with open(out, encoding="utf-8") as file:
                        self.assertIn(f"<b>{found['verdict_text']}</b>", file.read())

    def test_card(self):
        """The table of models/README.md says what the certificates say."""
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| \[`([\w-]+)`\]\(certificates/(.*) \|$", file.read(), re.M)
        cells = {f"{name}.yaml": [cell.strip() for cell in row.split("|")] for name, row in rows}
        self.assertEqual(sorted(cells), sorted(os.path.basename(m) for m in STUDENTS))
        for model in STUDENTS:
            found, (_, _, _, bars, *numbers) = certificate(model), cells[os.path.basename(model)]
            of = {(r["quantity"], r["group"]): r for m in found["measurements"].values() for r in m["rows"]}
            forces = of["forces", "all"]
            speed, speedup = (next(r["value"] for (q, _), r in of.items() if q == k) for k in ("speed", "speedup"))
            with self.subTest(model=model):
                self.assertIn(bars, found["verdict_text"])
                share = 100 * forces["value"] / forces["scale"]
                text = f"{forces['value']:.1f} meV/A, {share:.1f} %"
                self.assertEqual(numbers, [text, f"{speed:.1f}", f"{speedup:.0f}"])


class Universal(unittest.TestCase):
    """What is shipped of others: the published numbers, their licence, and a self-test that is quick."""

    def test_self_test(self):
        """The package's numbers, those of six elements, are numpy's, at what section `tolerance` allows in double."""
        head, tensors = model = modelfile.read(UNIVERSAL)
        edges, allowed = 0, head["self_test"]["tolerance"]["fp64"]
        self.assertRegex(head["self_test"]["origin"], r"^nequix [0-9.]+, float64; every element: mlff_tools.reference")
        for s in head["self_test"]["structures"]:
            s = {**s, "cell": None if s["cell"] == "none" else s["cell"]}
            energy, forces, virial = reference.evaluate(model, s)
            helpers.assert_near([energy], [s["energy"]], 1e-12, f"{s['name']}: energy")
            helpers.assert_near(forces, s["forces"], 1e-12, f"{s['name']}: forces")
            helpers.assert_near(virial, s["virial"], 1e-12, f"{s['name']}: virial")
            edges += len(reference.neighbours(s["positions"], s["cell"], head["cutoff"])[0])
        self.assertGreater(allowed["forces"], 1e-12)
        tests = [s for s in head["self_test"]["structures"] if "atom_energies" not in s]
        self.assertEqual({e for s in tests for e in s["elements"]}, set("O H Si Na Cl Fe".split()))
        self.assertLess(edges, 600)

    @unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
    def test_published_numbers(self):
        path = os.path.join(helpers.PUBLISHED, "nequix-oam-1-pft.yaml")
        expected, weights = convert_nequip.described_model(*convert.read_description(path, "nequip"), path)
        head, tensors = modelfile.read(UNIVERSAL)
        self.assertEqual(set(tensors), set(weights))
        for name, weight in weights.items():
            self.assertEqual(tensors[name].tobytes(), weight.tobytes(), name)
        for key in ("nequip", "energy_offsets", "elements", "cutoff"):
            self.assertEqual(head[key], expected[key])
        with (
            open(os.path.join(FOLDER, "LICENSE.nequix"), encoding="utf-8") as file,
            open(os.path.join(helpers.PUBLISHED, "LICENSE.nequix"), encoding="utf-8") as original,
        ):
            self.assertEqual(file.read(), original.read())

    def test_domain(self):
        head, _ = modelfile.read(UNIVERSAL)
        self.assertEqual(head["domain"]["elements"], head["elements"])
        self.assertEqual(len(head["elements"]), 89)
        self.assertEqual(head["domain"]["min_distance"], 0.3)
        self.assertNotIn("temperature", head["domain"])

    @unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
    def test_tensornets(self):
        """Every bit of the published weights, their licence, and numpy's numbers for every element."""
        for name in TENSORNETS:
            path = os.path.join(helpers.PUBLISHED, name + ".yaml")
            expected, weights = convert_tensornet.described_model(*convert.read_description(path, "tensornet"), path)
            head, tensors = model = modelfile.read(os.path.join(FOLDER, name))
            self.assertEqual(set(tensors), set(weights))
            for key, weight in weights.items():
                self.assertEqual(tensors[key].tobytes(), weight.tobytes(), key)
            for key in ("tensornet", "energy_offsets", "elements", "cutoff"):
                self.assertEqual(head[key], expected[key])
            self.assertEqual(head["domain"]["elements"], head["elements"])
            tested = set()
            for s in head["self_test"]["structures"]:
                s = {**s, "cell": None if s["cell"] == "none" else s["cell"]}
                tested |= set(s["elements"])
                energy, forces, virial = reference.evaluate(model, s)
                helpers.assert_near([energy], [s["energy"]], 1e-12, f"{s['name']}: energy")
                helpers.assert_near(forces, s["forces"], 1e-12, f"{s['name']}: forces")
                helpers.assert_near(virial, s["virial"], 1e-12, f"{s['name']}: virial")
            self.assertEqual(tested, set(head["elements"]))
        with (
            open(os.path.join(FOLDER, "LICENSE.tensornet"), encoding="utf-8") as file,
            open(os.path.join(helpers.PUBLISHED, "LICENSE.tensornet"), encoding="utf-8") as original,
        ):
            self.assertEqual(file.read(), original.read())

    def test_size(self):
        files = glob.glob(os.path.join(FOLDER, "**"), recursive=True)
        sizes = [os.path.getsize(path) for path in files if os.path.isfile(path)]
        self.assertLess(sum(sizes), 25e6)


if __name__ == "__main__":
    unittest.main()
