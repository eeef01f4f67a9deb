"""Training: the PyTorch networks against the numpy evaluation, the data order, resuming, and that a small model learns.

Runs where PyTorch is; elsewhere in the Python that MLFF_TORCH_PYTHON names, if it does.
"""

import os
import tempfile
import unittest
import unittest.mock

import helpers
import numpy as np
from helpers import assert_near

from mlff_tools.model import engine, modelfile, reference, repulsion, structures
from mlff_tools.train import dataset

try:
    import torch

    from mlff_tools.train import errors, export, frames, hessian, losses, networks, short_range, training
    from mlff_tools.train.fast import cpu, soap
    from mlff_tools.train.trainer import BRAKE, Order, Trainer, fit_offsets
except ImportError:
    torch = None

TORCH_PYTHON = os.environ.get("MLFF_TORCH_PYTHON")
PAINN = {
    "n_features": 8,
    "n_interactions": 2,
    "n_readout": 4,
    "radial_basis": {"kind": "bspline", "n": 12},
    "cutoff": 4.0,
}
ANI = {
    "n_members": 2,
    "hidden": {"H": [8, 6], "C": [8, 6], "O": [8, 6]},
    "activation": {"kind": "celu", "alpha": 0.1},
    "radial": {"cutoff": 4.0, "eta": 6.0, "prefactor": 0.25, "shifts": [0.8, 1.6, 2.4]},
    "angular": {
        "cutoff": 3.2,
        "eta": 4.0,
        "zeta": 8.0,
        "cos_scale": 0.95,
        "prefactor": 2.0,
        "shifts": [0.9, 1.8],
        "sections": [0.5, 1.6, 2.7],
    },
}
MACE = {
    "channels": 6,
    "lmax": 3,
    "correlation": 3,
    "readout": 5,
    "radial_basis": {"kind": "bessel", "n": 6},
    "cutoff": 4.0,
}
MODELS = {"painn": PAINN, "ani": ANI, "mace": MACE}


def make_data():
    """A small data set: rattled molecules and boxes, labelled by a random PaiNN."""
    model, out = helpers.painn(seed=3), []
    splits = ("train", "train", "train", "train", "validation", "validation", "test", "test")
    for k in range(12):
        box = structures.molecule_box("water", 4, 0.9, 100 + k)
        box["positions"] = box["positions"] + 0.05 * np.random.default_rng(k).normal(size=(12, 3))
        for kind, s in (("benzene", structures.rattled("benzene", k, 0.1)), ("water", box)):
            energy, forces, _ = reference.evaluate(model, s)
            info = {"config_type": kind, "trajectory": f"t{len(out)}", "split": splits[len(out) % 8]}
            info["temperature"] = "300"
            out.append({**s, "energy": energy, "forces": forces, "info": info, "columns": {}, "source": kind})
    return dataset.from_labels(out, model[0]["elements"])


class Elsewhere(unittest.TestCase):
    @unittest.skipUnless(
        torch or TORCH_PYTHON, "PyTorch is not installed here and MLFF_TORCH_PYTHON names no Python that has it"
    )
    def test_in_the_python_with_torch(self):
        if torch is None:
            helpers.run_elsewhere(TORCH_PYTHON, "test_training", "test_training_runs", "test_convert")


@unittest.skipUnless(torch, "PyTorch is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)")
class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = make_data()
        # long cutoffs of the repulsion, so that it has a part in most forces
        cls.enterClassContext(unittest.mock.patch.object(short_range, "SEEN", 0.7))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def repulsion_of(self, trainer, k):
        """Energy, forces and virial of the repulsion of a trainer in frame k, from the labels and in numpy."""
        s, learnt = dataset.frame(self.data, k), dataset.frame(trainer.learnt, k)
        head = {"elements": trainer.data["elements"], "cutoff": 4.0, "repulsion": trainer.repulsion}
        species = np.array([head["elements"].index(e) for e in s["elements"]])
        i, j, vectors = reference.neighbours(s["positions"], s["cell"], 4.0)
        v = vectors.T @ repulsion.evaluate(head, species, i, j, vectors)[1]
        energy, forces = s["energy"] - learnt["energy"], s["forces"] - learnt["forces"]
        return energy, forces, -np.array([v[a, b] for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))])

    def config(self, architecture="painn", **train):
        return {
            "name": f"small-{architecture}",
            "architecture": architecture,
            "model": MODELS[architecture],
            "repulsion": True,
            "train": {
                **training.TRAIN_DEFAULTS,
                "steps": 60,
                "warmup": 5,
                "learning_rate": 0.005,
                "validate_every": 20,
                "energy_weight": 10.0,
                "ema": 0.9,
                "batch": 48,
                **train,
            },
        }

    def trainer(self, architecture="painn", **train):
        return self.of(self.config(architecture, **train))

    def of(self, config, data=None):
        return Trainer(config, data or self.data, self.data["sha256"], torch.device("cpu"))

    def test_a_jump_of_the_error_is_taken_back(self):
        trainer = self.trainer()
        good = trainer.theta.clone()
        self.assertFalse(trainer.keep_or_return(0.030))
        trainer.theta.add_(1.0)
        self.assertFalse(trainer.keep_or_return(0.040))
        self.assertTrue(trainer.keep_or_return(0.050))
        self.assertTrue(torch.equal(trainer.theta, good))
        self.assertEqual(trainer.brake, BRAKE)
        trainer.theta.add_(1.0)
        self.assertTrue(trainer.keep_or_return(float("nan")))
        self.assertTrue(torch.equal(trainer.theta, good))
        with self.assertRaisesRegex(modelfile.ModelError, "not finite at step 0: lower train.learning_rate"):
            self.trainer().keep_or_return(float("nan"))

    def test_distorted_frames_do_not_decide(self):
        """Which weights are the best is said by the error with the frames' weights in training."""
        trainer = self.trainer(force_ceiling=2.0)
        of_frames = {
            "n_atoms": np.array([4, 4]),
            "learnt_square": np.array([12.0, 48e4]),
            "square": np.array([0.12, 48e2]),
        }
        weight = (2.0 / 200.0) ** 2
        wanted = np.sqrt((0.12 + weight * 48e2) / (12 * (1 + weight)))
        self.assertAlmostEqual(trainer.weighted_error(of_frames), wanted, places=12)

    def test_soap_steps_are_bounded(self):
        optimizer = soap.Soap({"weight": (4, 3)}, torch.device("cpu"))
        m, v, controls = torch.zeros(12), torch.zeros(12), torch.tensor([0.0, 0.0, 1.0])
        generator = torch.Generator().manual_seed(0)
        for k in range(60):  # tiny gradients of one direction, then a large one of another: moments that do not fit
            g = (
                1e-6 * torch.outer(torch.arange(1.0, 5.0), torch.ones(3)).flatten()
                if k < 50
                else torch.randn(12, generator=generator)
            )
            step = optimizer.direction(g, m, v, controls)
            self.assertLessEqual(float(step.norm()), soap.LARGEST * 12**0.5 * 1.001)
        self.assertGreater(float(step.norm()), 0.0)

    def variant(self, n, cutoff, kind="bspline"):
        config = self.config()
        config["model"] = {**PAINN, "cutoff": cutoff, "radial_basis": {"kind": kind, "n": n}}
        return self.of(config)

    def test_finer_splines_make_the_same_function(self):
        weight = torch.randn(3, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        r = torch.linspace(0.01, 4.2, 97, dtype=torch.float64)
        expected = networks.bspline(r, 12, 4.0)[0] @ weight.T
        for n in (12, 24, 48):
            assert_near(
                networks.bspline(r, n, 4.0)[0] @ networks.splines_onto(weight, 4.0, 12, n, 4.0).T, expected, 1e-13, n
            )
        inner = r < 2.0  # the splines that end at 3.0 or before are all there is below 2.0 for spacing 1/3
        assert_near(
            (networks.bspline(r, 18, 3.0)[0] @ networks.splines_onto(weight, 4.0, 12, 18, 3.0).T)[inner],
            expected[inner],
            1e-13,
            "cutoff 3",
        )
        for n, cutoff in ((13, 4.0), (6, 4.0), (15, 5.0)):
            self.assertIsNone(networks.splines_onto(weight, 4.0, 12, n, cutoff))

    def test_start_from_wider_splines_and_a_longer_cutoff(self):
        long = self.trainer()
        finer = self.variant(24, 4.0)
        finer.start(long.state(), "long")
        for a, b in zip(long.evaluate(long.validation, long.ema), finer.evaluate(finer.validation, finer.ema)):
            assert_near(b["force_rmse"], a["force_rmse"], 1e-5, "the same network")
        short = self.variant(9, 3.0)
        short.start(long.state(), "long")
        a, b = long.views(long.theta), short.views(short.ema)
        for name in a:
            self.assertTrue(torch.equal(a[name][..., :9] if name.startswith("filter.") else a[name], b[name]), name)
        for other, message in (
            (self.variant(9, 3.5), "cannot become"),
            (self.variant(12, 4.0, "gaussian"), "another network"),
        ):
            with self.assertRaisesRegex(modelfile.ModelError, message):
                other.start(long.state(), "long")

    def test_splines(self):
        r = np.linspace(0.1, 4.3, 50)
        phi, slope = networks.bspline(torch.tensor(r), 12, 4.0)
        expected, expected_slope = reference.bspline(r, 12, 4.0)
        assert_near(phi, expected, 1e-12, "phi")
        assert_near(slope, expected_slope, 1e-12, "slope")

    def test_lists(self):
        for k in (0, 1):
            s = dataset.frame(self.data, k)
            cell = np.zeros((3, 3)) if s["cell"] is None else s["cell"]
            i, j, vectors = frames.edges(s["positions"], cell, 4.0, torch.device("cpu"))
            vectors = vectors.float()
            ei, ej, ev = reference.neighbours(s["positions"], s["cell"], 4.0)
            found = sorted(zip(i.tolist(), j.tolist(), np.round(vectors.numpy(), 4).tolist()))
            expected = sorted(zip(ei.tolist(), ej.tolist(), np.round(ev.astype(np.float32), 4).tolist()))
            self.assertEqual(len(found), len(expected))
            for f, e in zip(found, expected):
                self.assertEqual(f[:2], e[:2])
            a, b = frames.triples(i, vectors, len(s["elements"]), 3.0)
            near = np.linalg.norm(vectors.numpy(), axis=1) < 3.0
            counts = np.bincount(i.numpy()[near], minlength=len(s["elements"]))
            self.assertEqual(len(a), int((counts * (counts - 1) // 2).sum()))
            self.assertTrue((i[a.long()] == i[b.long()]).all() and (a != b).all())

    def test_networks_and_export_agree_with_numpy(self):
        for architecture in MODELS:
            t = self.trainer(architecture)
            t.theta += 0.05 * torch.randn(t.theta.shape, generator=torch.Generator().manual_seed(1))
            t.ema.copy_(t.theta)
            name = os.path.join(self.folder.name, "exported")
            export.export(t, name, errors.table(t.errors(t.validation, t.ema), t.data))
            model = modelfile.read(name)
            for c in t.classes:
                index = torch.arange(2)
                out = t.network(t.views(t.ema), t.plain_batch(c, index), training=False)
                energies, forces, virials = out.energies, out.forces, out.virials
                for k in range(2):
                    s = dataset.frame(self.data, c.frames[k])
                    energy, expected, virial = reference.evaluate(model, s)
                    of_pairs = self.repulsion_of(t, c.frames[k])
                    energy, expected, virial = (x - y for x, y in zip((energy, expected, np.asarray(virial)), of_pairs))
                    self.assertGreater(np.abs(of_pairs[1]).max(), 0.1)
                    tolerance = 2e-5 * max(1.0, np.abs(expected).max())
                    offsets = t.offsets[[self.data["elements"].index(e) for e in s["elements"]]].sum()
                    assert_near(
                        [float(energies.mean(0)[k].detach()) * t.scale],
                        [energy - offsets],
                        tolerance,
                        architecture + ": energy",
                    )
                    mine = forces.detach().mean(0)[k * c.n_atoms : (k + 1) * c.n_atoms] * t.scale
                    assert_near(mine, expected, tolerance, architecture + ": forces")
                    found = virials.detach().mean(0)[k] * t.scale
                    found = [-float(found[a, b]) for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
                    assert_near(found, virial, 10 * tolerance, architecture + ": virial")

    def test_mace_in_the_engine(self):
        """The engine in double, and PyTorch in single precision with the same weights; smaller networks too."""
        if not helpers.program():
            self.skipTest("the program mlff is not built")
        for keys in ({}, {"lmax": 1, "correlation": 2}, {"lmax": 2, "channels": 17}):
            config = self.config("mace")
            config["model"] = {**MACE, **keys}
            with unittest.mock.patch.object(short_range, "SEEN", 0.95):
                t = self.of(config)
            name = os.path.join(self.folder.name, "engine")
            export.export(t, name, errors.table(t.errors(t.validation, t.ema), t.data))
            for c in t.classes:
                s = dataset.frame(self.data, c.frames[0])
                ((energy, forces, _),), _ = engine.evaluate(name + ".yaml", [s], "fp64")
                energy, forces = (x - y for x, y in zip((energy, forces), self.repulsion_of(t, c.frames[0])))
                offsets = t.offsets[[self.data["elements"].index(e) for e in s["elements"]]].sum()
                batch = t.plain_batch(c, torch.arange(1))
                batch.vectors = batch.vectors.double()
                p = {k: v.double() for k, v in t.views(t.ema).items()}
                out = t.network(p, batch, training=False)
                mine = out.forces.detach().numpy()[0] * t.scale
                assert_near(mine, forces, 1e-5 * np.abs(mine).max(), f"forces {keys}")
                value = float(out.energies.detach()) * t.scale
                assert_near(value, energy - offsets, 1e-5 * max(1.0, abs(value)), f"energy {keys}")

    def test_padding_changes_nothing(self):
        for architecture in MODELS:
            t = self.trainer(architecture)
            parameters = t.views(t.theta)
            parts = [(c, torch.tensor([1, 0])) for c in t.classes]
            both = t.network(parameters, frames.batch(parts, frames.of_element(parts, 3)), training=False)
            at = frame = 0
            for c, index in parts:
                for k in index:
                    one = t.network(parameters, t.plain_batch(c, k.view(1)), training=False)
                    assert_near(both.energies[:, frame].detach(), one.energies[:, 0].detach(), 1e-5, "energy")
                    assert_near(both.forces[:, at : at + c.n_atoms].detach(), one.forces.detach(), 1e-5, "forces")
                    assert_near(both.virials[:, frame].detach(), one.virials[:, 0].detach(), 1e-4, "virials")
                    at, frame = at + c.n_atoms, frame + 1

    def test_order_is_a_function_of_seed_and_step(self):
        order = Order([5, 7], [2, 3], 9)
        all_at_once = order.steps(0, 40)
        for first in (0, 7, 23):
            again = Order([5, 7], [2, 3], 9).steps(first, 4)
            for a, b in zip(all_at_once, again):
                np.testing.assert_array_equal(a[first : first + 4], b)
        for rows, size in zip(all_at_once, (5, 7)):
            flat = rows.ravel()
            for a in range(0, len(flat) - size + 1, size):
                self.assertEqual(sorted(flat[a : a + size]), list(range(size)))

    def test_tolerances_grow_with_steep_forces_alone(self):
        usual = modelfile.TOLERANCE["fp32"]
        forces = lambda *largest: [{"forces": np.diag([1.0, -f, 0.5])} for f in largest]
        self.assertEqual(export._single(forces(2.0, 299.0)), usual)
        self.assertEqual(export._single(forces(2.0, 900.0)), {name: 3 * value for name, value in usual.items()})

    def test_offsets_fit(self):
        offsets = fit_offsets(self.data)
        train = dataset.frames_of(self.data, "train")
        sums = [offsets[self.data["species"][self.data["first"][k] : self.data["first"][k + 1]]].sum() for k in train]
        rest = self.data["energy"][train] - sums
        for name in ("benzene", "water"):
            self.assertLess(abs(rest[self.data["config_type"][train] == name].mean()), 1e-6)

    def labelled(self, seed=5):
        """The data set with stress, energies of atoms and Hessian-vector products, which some frames do not have."""
        rng, data = np.random.default_rng(seed), dict(self.data)
        n, stress = len(data["energy"]), rng.normal(size=(len(data["energy"]), 3, 3)) * 0.01
        data["stress"] = 0.5 * (stress + stress.transpose(0, 2, 1))
        data["stress"][~data["cell"].any((1, 2))] = np.nan
        data["atom_energies"] = rng.normal(size=len(data["species"]))
        for name in ("hessian_direction", "hessian_product"):
            data[name] = rng.normal(size=(len(data["species"]), 3))
            data[name][data["first"][4] :] = np.nan
        for k in range(0, n, 5):
            data["stress"][k] = np.nan
            data["atom_energies"][data["first"][k + 1] - 1] = np.nan
        return data

    def test_cutoffs_of_the_repulsion(self):
        """Those of the shortest labels, however close, at least those of the model that labelled, at most that of the
        student; pairs that no frame has take covalent radii."""
        shortest, seen = dataset.shortest_distances(self.data, 4.0), short_range.SEEN
        head = {"elements": self.data["elements"], "cutoff": 4.0}
        cutoffs = lambda block, cutoff=4.0: modelfile.repulsion_cutoffs({**head, "cutoff": cutoff, "repulsion": block})
        for pair, r in cutoffs(short_range.block(self.data, 4.0)).items():
            if pair in shortest:
                self.assertTrue(0 <= shortest[pair] / seen - r < 1.001e-3, pair)
        close = {**self.data, "positions": self.data["positions"] * 0.5}
        found = cutoffs(short_range.block(close, 4.0))
        self.assertLess(found["O", "H"] if ("O", "H") in found else found["H", "O"], 0.8 * (0.32 + 0.53))
        theirs = {"kind": "clamped", "radii": {"H": 0.4, "C": 0.9, "O": 0.8, "Fe": 1.0}, "cutoffs": {"H-Fe": 0.1}}
        for pair, r in cutoffs(short_range.block(close, 4.0, theirs)).items():
            self.assertGreaterEqual(r + 1.001e-3, sum(theirs["radii"][e] for e in pair))
        self.assertEqual(short_range.block(close, 4.0, {"kind": "zbl", "cutoffs": {}}), short_range.block(close, 4.0))
        self.assertLessEqual(max(cutoffs(short_range.block(self.data, 0.9), 0.9).values()), 0.9)
        with self.assertRaisesRegex(modelfile.ModelError, "radius of Bk is known: set student.repulsion to false"):
            short_range.block({**self.data, "elements": ["Bk"]}, 4.0)

    def test_a_teacher_that_only_repels_leaves_nothing_to_learn(self):
        """Labels of all kinds of a model whose network is zero are those of its repulsion."""
        head, tensors = helpers.painn(seed=3)
        tensors = {k: 0 * v if k.startswith("readout.1") else v for k, v in tensors.items()}
        head = {**head, "repulsion": short_range.block(self.data, head["cutoff"])}
        head["energy_offsets"], made = dict.fromkeys(head["elements"], 0.0), []
        for k in range(len(self.data["energy"])):
            s = dataset.frame(self.data, k)
            moved = np.random.default_rng(k).normal(size=s["positions"].shape)
            ends = [
                reference.evaluate((head, tensors), {**s, "positions": s["positions"] + x * moved})
                for x in (0.0, hessian.STEP, -hessian.STEP)
            ]
            info = {"config_type": "all", "trajectory": f"t{k}", "split": "train"}
            frame = {**s, "energy": ends[0][0], "forces": ends[0][1], "info": info, "columns": {}, "source": "test"}
            if s["cell"] is not None:
                xx, yy, zz, xy, xz, yz = -np.asarray(ends[0][2]) / abs(np.linalg.det(s["cell"]))
                frame["stress"] = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            values = (moved, (ends[1][1] - ends[2][1]) / (2 * hessian.STEP))
            for name, v in zip(hessian.COLUMNS, values):
                frame["columns"][name] = ("R:3", [" ".join(map(repr, row)) for row in v.tolist()])
            made.append(frame)
        data = dataset.from_labels(made, head["elements"])
        left = short_range.without(data, head)
        for key in ("energy", "forces", "stress", "hessian_product"):
            known = np.isfinite(data[key])
            self.assertEqual(known.any() and known.all(), key != "stress", key)
            size = np.abs(data[key][known]).max()
            self.assertGreater(size, 1e-3, key)
            assert_near(left[key][known], np.zeros(known.sum()), 1e-9 * size, key)

    def test_compiled_for_the_processor(self):
        """A home folder may be shared by nodes of several kinds: each compiles its own, and once."""
        if not cpu.available():
            self.skipTest("there is no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("one", "two", "one"):
                with unittest.mock.patch.object(cpu, "processor", lambda kind=kind: kind):
                    cpu.library("message.c", {"F": 32}, folder)
            self.assertEqual(len(os.listdir(folder)), 2)
        self.assertIn("\n", cpu.processor())

    def test_fast_gradients(self):
        bound = {"force_limit": 0.05, "energy_limit": 0.001, "stress_limit": 0.02, "atom_limit": 0.5}
        for architecture, allowed, limits in (
            ("painn", 3e-4, {}),
            ("ani", 1e-5, {}),
            ("painn", 3e-4, bound),
            ("ani", 1e-5, bound),
            ("mace", 1e-4, {}),
            ("mace", 1e-4, bound),
        ):
            ceiling = 0.8 * float(self.data["forces"].std())
            weights = {"stress_weight": 30.0, "atom_weight": 2.0, "hessian_weight": 1e-4}
            config = self.config(architecture, force_ceiling=ceiling, batch=96, **weights, **limits)
            t = self.of(config, self.labelled())
            self.assertLess(min(float(k[k > 0].min()) for k in t.keep), 0.9)
            self.assertEqual([c.n_atoms for c in t.classes], [12, 12, 24, 24])
            if t.fast is None:
                self.skipTest("no C compiler (cc)")
            t.theta += 0.1 * torch.randn(t.theta.shape, generator=torch.Generator().manual_seed(2))
            t.set_controls(0.0)
            parts, found = [(c, torch.arange(2)) for c in t.classes], []
            t.update = lambda gradient, terms, found=found: found.append(
                (torch.cat([x.flatten() for x in gradient]), terms)
            )
            t.one_step(parts)
            t.one_fast_step(parts)
            (slow, terms), (fast, fast_terms) = found
            self.assertGreater(float(terms.min()), 0.0)
            assert_near(fast_terms, terms, 1e-5 * float(terms.sum()), architecture + ": terms of the loss")
            assert_near(fast, slow, allowed * float(slow.norm()), architecture + ": gradient")

    def test_gradient_of_each_term(self):
        """The fast path against central differences of the loss of the plain one in double, along random directions."""
        for architecture in MODELS:
            t = self.of(self.config(architecture, batch=96, hessian_weight=1.0), self.labelled())
            if t.fast is None:
                self.skipTest("no C compiler (cc)")
            t.theta += 0.1 * torch.randn(t.theta.shape, generator=torch.Generator().manual_seed(2))
            parts = [(c, torch.arange(2)) for c in t.classes]
            batch, keep = t.fast.batch(parts), t._keep(parts)
            plain = frames.batch(parts, frames.of_element(parts, 3))
            for name, x in vars(plain).items():
                if isinstance(x, torch.Tensor) and x.is_floating_point():
                    setattr(plain, name, x.double())
            for term in losses.TERMS:
                weights = {x: 1.0 if x == term else None for x in losses.TERMS}
                limits = dict.fromkeys(losses.TERMS, 20.0 if term == "hessian" else 0.5)
                gradient, _ = t.fast.gradient(t.parameters, batch, keep, weights, limits)
                gradient = torch.cat([x.flatten() for x in gradient]).double()

                def loss(theta, weights=weights, limits=limits, t=t, plain=plain, keep=keep):
                    out = t.network(t.views(theta), plain, training=False)
                    return float(losses.loss(out, plain, keep.double(), weights, limits)[0].detach())

                along = gradient / gradient.norm()
                theta, h = t.theta.double(), 1e-4
                slope = (loss(theta + h * along) - loss(theta - h * along)) / (2 * h)
                assert_near([float(gradient @ along)], [slope], 2e-3 * abs(slope), f"{architecture}: {term}")

    def test_soap_does_not_depend_on_the_basis(self):
        rng = np.random.default_rng(8)
        u, w = (torch.tensor(np.linalg.qr(rng.normal(size=(n, n)))[0]) for n in (4, 4))
        spread = torch.tensor(10.0 ** np.linspace(0, -2, 16).reshape(4, 4))
        steps = []
        for turned in (False, True):
            s = soap.Soap({"a.weight": (4, 4)}, torch.device("cpu"))
            for store in (s.left, s.right):
                store[0] = store[0].double()
            m, v = torch.zeros(16, dtype=torch.float64), torch.zeros(16, dtype=torch.float64)
            draw = np.random.default_rng(9)
            for n in range(1, 3 * soap.PERIOD):
                g = spread * torch.tensor(draw.normal(size=(4, 4)))
                g = u @ g @ w.T if turned else g
                step = s.direction(g.flatten(), m, v, [None, None, 1 / (1 - 0.999**n)]).view(4, 4)
            steps.append(u.T @ step @ w if turned else step)
        assert_near(steps[1], steps[0], 1e-6 * float(steps[0].norm()), "direction")

    def test_checkpoint_of_other_data_is_refused(self):
        t = self.trainer()
        with self.assertRaisesRegex(modelfile.ModelError, "checkpoint"):
            t.restore({**t.state(), "data_sha256": "other"}, "file")

    def test_absent_devices_are_refused(self):
        n = torch.cuda.device_count()
        for name, text in (("gpu", "'gpu': auto, cpu, cuda and cuda:N"), (f"cuda:{n}", "PyTorch finds")):
            with self.assertRaisesRegex(modelfile.ModelError, text):
                training.device_of(name)
        self.assertEqual(training.device_of("cpu").type, "cpu")


if __name__ == "__main__":
    unittest.main()
