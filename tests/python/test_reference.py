"""The numpy evaluation: derivatives by finite differences, symmetries, and the published references."""

import json
import os
import unittest

import helpers
import numpy as np
from helpers import assert_near

from mlff_tools.convert import command as convert
from mlff_tools.model import modelfile, reference, structures

MODELS = {
    "bspline": helpers.painn(),
    "gaussian": helpers.painn("gaussian"),
    "bessel": helpers.painn("bessel"),
    "one layer": helpers.painn(n_interactions=1),
    "ani": helpers.ani(),
    "nequix": helpers.nequip(),
    "sevennet": helpers.nequip("sevennet"),
    "mace": helpers.mace(),
    "mace with non-linear blocks": helpers.mace(nonlinear=True),
    "tensornet": helpers.tensornet(),
    "tensornet of the center": helpers.tensornet(kind="gaussian", message_from="center", group="so3"),
}


def molecule():
    return structures.rattled("ethanol", 3)


def box():
    return structures.self_test_structures(["H", "C", "O"])[-1]  # ethanol in a triclinic cell smaller than the cutoff


class Tables(unittest.TestCase):
    def test_every_architecture_has_a_reference_that_is_tested(self):
        """Those whose forces are outputs have a test of their own."""
        self.assertEqual(set(modelfile.SHAPES), set(reference.CONSERVATIVE) | set(reference.DIRECT))
        self.assertEqual({head["architecture"] for head, _ in MODELS.values()}, set(reference.CONSERVATIVE))


class Derivatives(unittest.TestCase):
    def test_forces(self):
        step = 1e-4
        for name, model in MODELS.items():
            for s in (molecule(), box()):
                forces = reference.evaluate(model, s)[1]
                for atom, axis in ((0, 0), (2, 1), (5, 2)):
                    e = []
                    for sign in (1, -1):
                        x = s["positions"].copy()
                        x[atom, axis] += sign * step
                        e.append(reference.evaluate(model, {**s, "positions": x})[0])
                    assert_near(
                        [forces[atom, axis]], [-(e[0] - e[1]) / (2 * step)], 2e-6, f"{name}, {s['name']}, force"
                    )

    def test_virial(self):
        step = 1e-5
        for name, model in MODELS.items():
            for s in (molecule(), box()):
                virial = reference.evaluate(model, s)[2]
                for k, (a, b) in enumerate(((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))):
                    e = []
                    for sign in (1, -1):
                        strain = np.eye(3)
                        strain[a, b] += 0.5 * sign * step
                        strain[b, a] += 0.5 * sign * step
                        cell = None if s["cell"] is None else s["cell"] @ strain
                        e.append(
                            reference.evaluate(model, {**s, "positions": s["positions"] @ strain, "cell": cell})[0]
                        )
                    assert_near([virial[k]], [-(e[0] - e[1]) / (2 * step)], 1e-5, f"{name}, {s['name']}, virial")

    def test_bspline(self):
        n, cutoff, step = 10, 4.0, 1e-5
        r = np.linspace(0.05, 4.2, 97)
        phi, slope = reference.bspline(r, n, cutoff)
        numeric = (reference.bspline(r + step, n, cutoff)[0] - reference.bspline(r - step, n, cutoff)[0]) / (2 * step)
        assert_near(slope, numeric, 1e-7, "slope")
        inside = r < cutoff * (n - 3) / n
        assert_near(phi[inside].sum(1), np.ones(inside.sum()), 1e-12, "sum of all functions")
        self.assertTrue((phi[r >= cutoff] == 0).all() and (slope[r >= cutoff] == 0).all())
        self.assertEqual((phi > 0).sum(1).max(), 4)


class Symmetry(unittest.TestCase):
    def test_rotation_permutation_supercell(self):
        rng = np.random.default_rng(5)
        turn, order = structures.random_rotation(rng), rng.permutation(9)
        for name, model in MODELS.items():
            s = box()
            energy, forces, _ = reference.evaluate(model, s)
            moved = {
                "name": "moved",
                "elements": [s["elements"][k] for k in order],
                "positions": (s["positions"][order] + [7.0, -3.0, 1.0]) @ turn.T,
                "cell": s["cell"] @ turn.T,
            }
            e, f, _ = reference.evaluate(model, moved)
            assert_near([e], [energy], 1e-9, f"{name}: energy of the moved structure")
            assert_near(f, forces[order] @ turn.T, 1e-9, f"{name}: forces of the moved structure")
            double = {
                "name": "double",
                "elements": s["elements"] * 2,
                "cell": s["cell"] * [[2.0], [1.0], [1.0]],
                "positions": np.concatenate([s["positions"], s["positions"] + s["cell"][0]]),
            }
            e, f, _ = reference.evaluate(model, double)
            assert_near([e], [2 * energy], 1e-9, f"{name}: energy of two cells")
            assert_near(f, np.concatenate([forces, forces]), 1e-9, f"{name}: forces of two cells")


@unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
class Published(unittest.TestCase):
    def structure(self, d):
        return {
            "name": "",
            "elements": d["symbols"],
            "positions": d["positions"],
            "cell": d["cell"] if d["pbc"] else None,
        }

    def load(self, name):
        with open(os.path.join(helpers.PUBLISHED, name), encoding="utf-8") as f:
            return json.load(f)

    def test_ani_2x(self):
        path = os.path.join(helpers.PUBLISHED, "ani-2x.yaml")
        source, tensors = convert.read_description(path, "ani")
        hartree = modelfile.ENERGY_IN_EV["hartree"]
        models = {c: convert.ani_model(source, tensors, c, path) for c in ("float32-rounded", "exact")}
        checked = 0
        for name, d in self.load("ani2x_reference.json")["structures"].items():
            energy, forces, virial = reference.evaluate(models["float32-rounded"], self.structure(d))
            assert_near([energy / hartree], [d["energy_hartree"]], 1e-11, f"{name}: energy")
            assert_near(forces / hartree, d["forces_hartree_per_ang"], 1e-12, f"{name}: forces")
            if d["pbc"]:
                expected = -np.array(d["virial_hartree"])[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
                assert_near(virial / hartree, expected, 1e-11, f"{name}: virial")
            if len(d["symbols"]) < 30:
                model = models["exact"]
                energy, forces, _ = reference.evaluate(model, self.structure(d))
                own = sum(model[0]["energy_offsets"][e] for e in d["symbols"])
                assert_near(
                    [energy / hartree - own], [d["energy_nn_nominal_constants_hartree"]], 1e-11, f"{name}: exact"
                )
                assert_near(forces / hartree, d["forces_nominal_hartree_per_ang"], 1e-12, f"{name}: exact, forces")
            checked += 1
        self.assertGreaterEqual(checked, 5)

    def test_painn(self):
        checked = 0
        for file in ("painn_reference.json", "painn_real_reference.json"):
            for name, m in self.load(file)["models"].items():
                path = os.path.join(helpers.PUBLISHED, m["yaml"])
                source, tensors = convert.read_description(path, "painn")
                for label, d in m["structures"].items():
                    model = convert.painn_model(source, tensors, sorted(set(d["symbols"])), path)
                    energy, forces, virial = reference.evaluate(model, self.structure(d))
                    unit = model[0]["units"]["energy_in_eV"]
                    assert_near([energy / unit], [d["energy"]], 1e-9, f"{name}, {label}: energy")
                    assert_near(forces / unit, d["forces"], 1e-11, f"{name}, {label}: forces")
                    if d["pbc"]:
                        volume = abs(np.linalg.det(d["cell"]))
                        expected = -volume * np.array(d["stress"])[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
                        assert_near(virial / unit, expected, 1e-10, f"{name}, {label}: virial")
                    checked += 1
        self.assertGreaterEqual(checked, 8)


if __name__ == "__main__":
    unittest.main()
