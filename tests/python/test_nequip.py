"""NequIP networks: the numpy evaluation against the published programs, and what the architecture promises.

The known traps of Nequix (N) and SevenNet (S) each make one of these tests, of test_nequip_files.py or of
tests/model/test_nequip.c fail. What only real inputs show is shown by the published references: N1, N2, N3, N5, N6, N9,
N11, N12, N16, N17, N20, S2, S3, S4, S5; derivatives and rotations are in test_reference.py.
"""

import copy
import itertools
import json
import os
import types
import unittest

import helpers
import nightly
import numpy as np
from helpers import assert_near

from mlff_tools.convert import command as convert
from mlff_tools.convert import nequip as convert_nequip
from mlff_tools.model import modelfile, reference, reference_nequip, repulsion, structures
from mlff_tools.model.modelfile import ModelError

TRIPLES = [(a, b, c) for a, b, c in itertools.product(range(4), repeat=3) if abs(a - b) <= c <= a + b]
SIX = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])


def published(name):
    """(head, tensors) of a description in the shared directory."""
    path = os.path.join(helpers.PUBLISHED, name + ".yaml")
    return convert_nequip.described_model(*convert.read_description(path, "nequip"), path)


def references(file):
    """name -> reference structure of the shared directory."""
    with open(os.path.join(helpers.PUBLISHED, file), encoding="utf-8") as f:
        return json.load(f)["structures"]


def structure(d):
    return {"name": "", "elements": d["symbols"], "positions": np.array(d["positions"]), "cell": d["cell"]}


def atomic_energies(model, s, trace=None):
    """Energy of each atom, with offsets (eV)."""
    head, tensors = model
    tensors = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
    species = np.array([head["elements"].index(e) for e in s["elements"]])
    edges = reference.neighbours(s["positions"], s["cell"], head["cutoff"])
    energies, _ = reference_nequip.nequip(head, tensors, species, *edges, trace)
    if "repulsion" in head:
        energies = energies + repulsion.evaluate(head, species, *edges)[0]
    return energies + [head["energy_offsets"][e] for e in s["elements"]]


class Coefficients(unittest.TestCase):
    def test_clebsch_gordan(self):
        """N3: the sum of squares is 1, so (l, 0, l) and (l, l, 0) are the identity divided by sqrt(2l + 1)."""
        for l in range(4):
            identity = np.eye(2 * l + 1) / np.sqrt(2 * l + 1)
            assert_near(reference_nequip.clebsch_gordan(l, 0, l)[:, 0], identity, 1e-15, f"({l}, 0, {l})")
            assert_near(reference_nequip.clebsch_gordan(l, l, 0)[:, :, 0], identity, 1e-15, f"({l}, {l}, 0)")
        for a, b, c in TRIPLES:
            table = reference_nequip.clebsch_gordan(a, b, c)
            assert_near([(table**2).sum()], [1.0], 1e-14, f"({a}, {b}, {c})")
            swapped = reference_nequip.clebsch_gordan(b, a, c).transpose(1, 0, 2)
            assert_near(table, (-1) ** (a + b + c) * swapped, 1e-15, f"S2: ({a}, {b}, {c}), factors exchanged")

    @unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
    def test_published_coefficients(self):
        with open(os.path.join(helpers.PUBLISHED, "cg_real_l3.json"), encoding="utf-8") as f:
            tables = json.load(f)["table"]
        self.assertEqual({tuple(map(int, key.split(","))) for key in tables}, set(TRIPLES))
        for a, b, c in TRIPLES:
            expected = np.zeros((2 * a + 1, 2 * b + 1, 2 * c + 1))
            for i, j, k, value in tables[f"{a},{b},{c}"]:
                expected[i, j, k] = value
            assert_near(reference_nequip.clebsch_gordan(a, b, c), expected, 1e-15, f"({a}, {b}, {c})")

    def test_harmonics(self):
        """N2: order 1 is (x, y, z), and higher ones have y as their polar axis."""
        u = np.random.default_rng(0).normal(size=(5, 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        x, y, z = u.T
        found, slopes = reference_nequip.harmonics(u, 3)
        s = np.sqrt
        expected = [
            [1 + 0 * x],
            [s(3) * x, s(3) * y, s(3) * z],
            s(5)
            * np.array(
                [s(3) * x * z, s(3) * x * y, y * y - (x * x + z * z) / 2, s(3) * y * z, s(0.75) * (z * z - x * x)]
            ),
            s(7)
            * np.array(
                [
                    s(5 / 8) * x * (3 * z * z - x * x),
                    s(15) * x * y * z,
                    s(3 / 8) * x * (4 * y * y - x * x - z * z),
                    y * (2 * y * y - 3 * x * x - 3 * z * z) / 2,
                    s(3 / 8) * z * (4 * y * y - x * x - z * z),
                    s(15) / 2 * y * (z * z - x * x),
                    s(5 / 8) * z * (z * z - 3 * x * x),
                ]
            ),
        ]
        for l in range(4):
            assert_near(found[l], np.array(expected[l]).T, 1e-14, f"order {l}")
            radial = np.einsum("eka,ea->ek", slopes[l], u)  # of homogeneous polynomials
            assert_near(radial, l * found[l], 1e-13, f"order {l}, slope along u")

    def test_cutoff_functions(self):
        """N12, S5: values and slopes; two of the polynomial's derivatives vanish at its end, one of XPLOR's at both."""
        r = np.linspace(0.5, 4.1999, 400)
        for variant in ("nequix", "sevennet"):
            head = helpers.nequip(variant)[0]
            f, slope = reference_nequip.cutoff_function(head, r)
            step = 1e-6
            ahead, behind = (reference_nequip.cutoff_function(head, r + d)[0] for d in (step, -step))
            assert_near(slope, (ahead - behind) / (2 * step), 1e-8, f"{variant}: slope")
            end = reference_nequip.cutoff_function(head, np.array([4.2 - 1e-6, 4.2, 5.0]))
            assert_near(end[0], [0, 0, 0], 1e-9, f"{variant}: end")
            assert_near(end[1], [0, 0, 0], 1e-4, f"{variant}: slope at the end")
        x = r / 4.2
        assert_near(
            reference_nequip.cutoff_function(helpers.nequip()[0], r)[0],
            (1 - x) ** 3 * (1 + 3 * x + 6 * x**2 + 10 * x**3 + 15 * x**4 + 21 * x**5),
            1e-13,
            "polynomial of p = 6 without cancellation",
        )
        onset = reference_nequip.cutoff_function(helpers.nequip("sevennet")[0], np.array([3.3, 3.4 - 1e-9, 3.4 + 1e-9]))
        assert_near(onset[0], [1, 1, 1], 1e-12, "XPLOR at its onset")
        assert_near(onset[1], [0, 0, 0], 1e-7, "XPLOR, slope at its onset")


class Layers(unittest.TestCase):
    def test_paths(self):
        """N4: by l3, then l1, then l2; N19: four paths in the first layer, no gates in the last; S2: odd sums."""
        head = helpers.nequip(n_channels=(12, 6, 3, 2), lmax=3)[0]
        first, middle, last = modelfile.nequip_layers(head)
        self.assertEqual([p[:3] for p in first.paths], [(0, 0, 0), (0, 1, 1), (0, 2, 2), (0, 3, 3)])
        self.assertEqual(
            [p[:3] for p in middle.paths], sorted((p[:3] for p in middle.paths), key=lambda p: (p[2], *p[:2]))
        )
        self.assertEqual((len(middle.paths), middle.n_weights, middle.rows(1)), (23, 117, 32))
        self.assertEqual(middle.paths[5], (1, 0, 1, 6, 35, 12))
        self.assertEqual((middle.sums, last.sums), ({0: 23, 1: 6, 2: 3, 3: 2}, {0: 12}))
        self.assertEqual([p[:3] for p in last.paths], [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0)])
        head["nequip"]["paths"] = "all"
        self.assertEqual(len(modelfile.nequip_layers(head)[1].paths), 34)

    def test_shapes(self):
        for variant in ("nequix", "sevennet"):
            head, tensors = helpers.nequip(variant)
            modelfile.check(head, tensors)
            for name in ("layers.1.skip.l1", "energy_scale", "layers.0.radial_mlp.2", "readout.0"):
                with self.assertRaisesRegex(ModelError, name):
                    modelfile.check(head, {k: v for k, v in tensors.items() if k != name})
            with self.assertRaisesRegex(ModelError, "layers.0.skip.l1"):
                modelfile.check(head, {**tensors, "layers.0.skip.l1": tensors["layers.1.skip.l1"]})
        head, tensors = helpers.nequip()
        head["nequip"]["lmax"] = 1
        with self.assertRaisesRegex(ModelError, "order 2, which no path of layer 0 reaches"):
            modelfile.check(head, tensors)
        head = helpers.nequip()[0]
        head["nequip"]["message_divisor"] = [1.0]
        with self.assertRaisesRegex(ModelError, "message_divisor has 1 numbers for 3 layers"):
            modelfile.nequip_shapes(head)


class Symmetry(unittest.TestCase):
    def test_inversion(self):
        """S7: mirrored structures have the same energy without paths of odd sum, and another one with them."""
        for variant, same in (("nequix", True), ("sevennet", False)):
            model, s = helpers.nequip(variant), structures.self_test_structures(["H", "C", "O"])[-1]
            model[0]["nequip"]["message_divisor"] = [1.5, 1.5, 1.5]
            mirrored = {**s, "positions": -s["positions"], "cell": -s["cell"]}
            found, other = (reference.evaluate(model, x) for x in (s, mirrored))
            if same:
                assert_near([other[0]], [found[0]], 1e-10, "energy")
                assert_near(other[1], -found[1], 1e-10, "forces")
            else:
                self.assertGreater(abs(other[0] - found[0]), 1e-7)

    def test_lone_atoms(self):
        for variant in ("nequix", "sevennet"):
            model = helpers.nequip(variant)
            alone = {"name": "", "elements": ["O"], "positions": np.zeros((1, 3)), "cell": None}
            energy, forces, virial = reference.evaluate(model, alone)
            self.assertTrue(np.isfinite(energy))
            self.assertEqual((np.abs(forces).max(), np.abs(virial).max()), (0.0, 0.0))
            far = {**alone, "elements": ["O", "O"], "positions": np.array([[0, 0, 0], [9.0, 0, 0]])}
            assert_near([reference.evaluate(model, far)[0]], [2 * energy], 1e-12, "two that are far apart")

    def test_vacuum(self):
        """N13: an open molecule, a cell with vacuum around it, and images that overlap nothing are the same."""
        for variant in ("nequix", "sevennet"):
            model, s = helpers.nequip(variant), structures.rattled("ethanol", 3)
            open_, boxed = reference.evaluate(model, s), reference.evaluate(model, {**s, "cell": 20.0 * np.eye(3)})
            for a, b, what in zip(open_, boxed, ("energy", "forces", "virial")):
                assert_near(np.ravel(a), np.ravel(b), 1e-11, what)

    def test_energies_are_extensive_sums(self):
        for variant in ("nequix", "sevennet"):
            model, s = helpers.nequip(variant), structures.rattled("ethanol", 3)
            assert_near([atomic_energies(model, s).sum()], [reference.evaluate(model, s)[0]], 1e-11, "sum over atoms")


@unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
class Published(unittest.TestCase):
    """The published programs in double, which numpy reproduces to 5e-13 eV, 2e-13 eV/A and 6e-16 eV/A^3."""

    MOST = {
        "nequix-oam-1-pft": 33,
        "sevennet-0": 33,
        "nequip_tiny": 64,
        "nequip_tiny7": 64,
        "nequip_pkg_tiny": 64,
    }  # atoms; others: 24

    def compare(self, name, file):
        model, checked = published(name), 0
        for label, d in references(file).items():
            if name not in d["models"] or len(d["symbols"]) > self.MOST.get(name, 24):
                continue
            expected, s = d["models"][name], structure(d)
            energy, forces, virial = reference.evaluate(model, s)
            what = f"{name}, {label}: "
            assert_near([energy], [expected["energy"]], 1e-12, what + "energy")
            assert_near(atomic_energies(model, s), expected["energies"], 1e-13, what + "energies of atoms")
            assert_near(forces, expected["forces"], 5e-13, what + "forces")
            if s["cell"] is not None:
                stress = virial / -abs(np.linalg.det(s["cell"]))
                assert_near(stress, np.array(expected["stress"])[SIX], 3e-15, what + "stress")
            if "n_edges" in expected:
                edges = reference.neighbours(s["positions"], s["cell"], model[0]["cutoff"])[0]
                self.assertEqual(len(edges), expected["n_edges"], what + "N17: own images, several of a neighbor")
            checked += 1
        return checked

    def test_nequip_tiny(self):
        self.assertEqual(self.compare("nequip_tiny", "nequip_tiny_reference.json"), 5)

    def test_nequip_tiny7(self):
        self.assertEqual(self.compare("nequip_tiny7", "nequip_tiny7_reference.json"), 5)

    def test_package(self):
        """Models of the package nequip, whose radial weights have another order in their files."""
        self.assertEqual(self.compare("nequip_pkg_tiny", "nequip_pkg_tiny_reference.json"), 4)

    def test_nequix(self):
        """N10: two models with other constants."""
        self.assertEqual(self.compare("nequix-oam-1-pft", "nequix_reference.json"), 10)
        self.assertEqual(self.compare("nequix-mp-1", "nequix_reference.json"), 3)

    @nightly.only
    def test_sevennet(self):
        self.assertEqual(self.compare("sevennet-0", "sevennet_reference.json"), 9)
        self.assertEqual(self.compare("sevennet-l3i5", "sevennet_reference.json"), 8)

    def test_features(self):
        """N1: channels are outer, components inner; radial functions, harmonics and features after every layer."""
        checked = 0
        for label, d in references("nequix_reference.json").items():
            inner = d["models"]["nequix-oam-1-pft"].get("intermediates")
            if not inner or len(d["symbols"]) > 9:
                continue
            trace, s, model = [], structure(d), published("nequix-oam-1-pft")
            atomic_energies(model, s, trace)
            basis, harmonics, states = trace
            for t, (state, expected) in enumerate(zip(states, inner["layer_outputs"])):
                for l, x in state.items():
                    first = np.ravel(x[0])[:8]
                    assert_near(first, expected[f"l{l}"]["first8_atom0"], 1e-12, f"{label}: layer {t}, order {l}")
                    norm = expected[f"l{l}"]["sum_of_squares"]
                    assert_near([(x**2).sum()], [norm], 1e-12 * max(1, norm), f"{label}: layer {t}, order {l}, squares")
            edge = inner.get("edge0")
            if edge:
                vectors = reference.neighbours(s["positions"], s["cell"], 6.0)[2]
                at = np.abs(vectors - edge["r"]).sum(1).argmin()
                assert_near(basis[at], edge["radial_basis_times_cutoff"], 1e-14, f"{label}: N8, radial functions")
                assert_near(
                    np.concatenate([y[at] for y in harmonics]),
                    edge["spherical_harmonics"],
                    1e-13,
                    f"{label}: harmonics",
                )
            checked += 1
        self.assertGreaterEqual(checked, 5)


def changed(model, **block):
    """The model with other entries of its block; a function is applied to the old value."""
    head, tensors = copy.deepcopy(model)
    for key, value in block.items():
        head["nequip"][key] = value(head["nequip"][key]) if isinstance(value, types.FunctionType) else value
    return head, tensors


def with_tensors(model, pattern, function):
    """The model with function(tensor) instead of the tensors whose names end with `pattern`."""
    head, tensors = model
    return head, {k: function(v) if k.endswith(pattern) else v for k, v in tensors.items()}


@unittest.skipUnless(helpers.HAS_PUBLISHED, helpers.NO_PUBLISHED)
class Sensitivity(unittest.TestCase):
    """The mistakes themselves: each moves the references of a small fixture by much more than they are compared to."""

    def setUp(self):
        self.nequix, self.sevennet = published("nequip_tiny"), published("nequip_tiny7")
        self.package = published("nequip_pkg_tiny")
        self.water = {
            "nequip_tiny": references("nequip_tiny_reference.json")["water24"],
            "nequip_tiny7": references("nequip_tiny7_reference.json")["water24"],
            "nequip_pkg_tiny": references("nequip_pkg_tiny_reference.json")["water24"],
        }

    def moves(self, name, model, what, least=1e-6):
        d = self.water[name]
        forces = reference.evaluate(model, structure(d))[1]
        self.assertGreater(np.abs(forces - d["models"][name]["forces"]).max(), least, what)

    def test_constants(self):
        for norm in (0.5964577198028564, 0.5964692111):
            self.moves("nequip_tiny", changed(self.nequix, activation_norm=norm), "N7: constant of the gate")
        squared = lambda values: [x * x for x in values]
        self.moves("nequip_tiny", changed(self.nequix, message_divisor=squared), "N10: not the square root")
        radial = {"hidden": [16, 16], "activation_norm": 0.5964586854233045, "fan_in": "none"}
        self.moves("nequip_tiny", changed(self.nequix, radial_network=radial), "N8: silu of the radial network")
        radial = {"hidden": [16, 16], "activation_norm": 1.0, "fan_in": "sqrt"}
        self.moves("nequip_tiny", changed(self.nequix, radial_network=radial), "N8: scale of the radial network")
        rooted = lambda values: [np.sqrt(x) for x in values]
        self.moves("nequip_tiny7", changed(self.sevennet, message_divisor=rooted), "S3: the square root")
        polynomial = {"kind": "polynomial", "p": 6.0}
        self.moves("nequip_tiny7", changed(self.sevennet, cutoff_function=polynomial), "S5: another cutoff function")

    def test_orders(self):
        layer = modelfile.nequip_layers(self.nequix[0])[1]
        by_first = sorted(layer.paths)
        column = np.concatenate([np.arange(p.column, p.column + p.mul) for p in by_first])
        wrong = with_tensors(self.nequix, "layers.1.radial_mlp.2", lambda v: v[column])
        self.moves("nequip_tiny", wrong, "N4: radial weights sorted by l1")
        gates_first = np.r_[12:23, 0:12]
        wrong = with_tensors(self.nequix, "layers.1.linear_2.l0", lambda v: v[gates_first])
        self.moves("nequip_tiny", wrong, "N6: gates before the features")
        by_number = np.argsort([14, 1, 8])
        wrong = with_tensors(self.sevennet, "embedding", lambda v: v[:, by_number])
        self.moves("nequip_tiny7", wrong, "S4: elements sorted by number")

    def test_package_options(self):
        for what, block in {
            "average of another type": {"neighbor_divisor": lambda values: values[::-1]},
            "no factor sqrt(2) in the readout": {"readout_activation_norm": 1.0},
            "linear readout": {"readout_activation_norm": None},
        }.items():
            with self.subTest(what):
                self.moves("nequip_pkg_tiny", changed(self.package, **block), what)
        wrong = with_tensors(self.package, "embedding", lambda v: v / np.sqrt(3))
        self.moves("nequip_pkg_tiny", wrong, "a divided embedding")
        layer = modelfile.nequip_layers(self.package[0])[1]
        by_first = np.concatenate([np.arange(p.column, p.column + p.mul) for p in sorted(layer.paths)])
        wrong = with_tensors(self.package, "layers.1.radial_mlp.2", lambda v: v[by_first])
        self.moves("nequip_pkg_tiny", wrong, "radial weights as in the file: sorted by l1", 1e-4)
        wrong = with_tensors(self.package, "layers.1.skip.l1", lambda v: v.transpose(1, 0, 2))
        self.moves("nequip_pkg_tiny", wrong, "a transposed self-connection", 1e-4)
        head, tensors = copy.deepcopy(self.package)
        head["repulsion"]["p"] = 5.0
        self.moves("nequip_pkg_tiny", (head, tensors), "another cutoff function of ZBL")
        del head["repulsion"]
        self.moves("nequip_pkg_tiny", (head, tensors), "no ZBL", 1e-2)

    def test_norm(self):
        good = reference_nequip._Layer._normalise

        def mean_over_channels(layer):
            n = len(layer.z)
            s = sum((z * z).mean(1).sum(1) / (2 * l + 1) / n for l, z in layer.z.items()) + 1e-12
            layer.s = s[:, None, None]
            return {l: layer.w["norm"][l][:, None] * z / np.sqrt(layer.s) for l, z in layer.z.items()}

        self.addCleanup(setattr, reference_nequip._Layer, "_normalise", good)
        reference_nequip._Layer._normalise = mean_over_channels
        self.moves("nequip_tiny", self.nequix, "N5: mean over channels")

    def test_edges(self):
        good = reference.neighbours
        self.addCleanup(setattr, reference, "neighbours", good)
        reference.neighbours = lambda *a: (*good(*a)[:2], -good(*a)[2])
        d = self.water["nequip_tiny"]
        energy = reference.evaluate(self.nequix, structure(d))[0]
        assert_near([energy], [d["models"]["nequip_tiny"]["energy"]], 1e-11, "N16: an energy that is even in u")
        forces = reference.evaluate(self.nequix, structure(d))[1]
        self.assertGreater(np.abs(forces - d["models"]["nequip_tiny"]["forces"]).max(), 1e-3, "N16: edges turned round")
        energy = reference.evaluate(self.sevennet, structure(d))[0]
        other = self.water["nequip_tiny7"]["models"]["nequip_tiny7"]["energy"]
        self.assertGreater(abs(energy - other), 1e-6, "N16: edges turned round, without parity")


if __name__ == "__main__":
    unittest.main()
