"""Training runs on files of labels: killed and gone on with, stopped, locked, warm started; many compositions; the
model of elements that no standard structure has. Runs where PyTorch is, see test_training.py."""

import errno
import filecmp
import json
import os
import random
import sys
import tempfile
import unittest
from unittest import mock

import helpers
import kills
import numpy as np

from mlff_tools.model import lock, modelfile, reference
from mlff_tools.train import dataset, extxyz, hessian, recipe_training, students

try:
    import torch

    from mlff_tools.train import frames, losses, training
    from mlff_tools.train.trainer import Mixed, Trainer
except ImportError:
    torch = None

NIGHTLY = bool(os.environ.get("NIGHTLY"))  # support/nightly.py wants pytest, which the Python with PyTorch lacks
ELEMENTS = ("Al", "Cu")
STUDENT = {"features": 8, "layers": 2, "cutoff": 3.5, "spacing": 0.35}
FILES = (".checkpoint", ".csv", ".svg", ".errors.json", ".yaml", ".safetensors")


def teacher():
    """A random PaiNN, as smooth as a student can be."""
    head, tensors = helpers.painn(elements=ELEMENTS, seed=3)
    head["painn"]["epsilon"] = students.EPSILON
    return head, tensors


def labelled(n, seed=0, compositions=1):
    """n rattled fcc cells of Al and Cu, labelled by a random PaiNN: energies of atoms and stress with all but one."""
    model, rng, out = teacher(), np.random.default_rng(seed), []
    for k in range(n):
        cell = (3.7 + 0.2 * rng.random()) * np.eye(3) + 0.05 * rng.normal(size=(3, 3))
        x = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]]) @ cell + 0.1 * rng.normal(size=(4, 3))
        elements = ["Al"] * (1 + k % compositions % 4) + ["Cu"] * 4
        elements = elements[:4]
        size = 4 - (k % compositions) // 4
        structure = {"elements": elements[:size], "positions": x[:size], "cell": cell}
        energy, forces, virial = reference.evaluate(model, structure)
        xx, yy, zz, xy, xz, yz = -np.asarray(virial) / abs(np.linalg.det(cell))
        out.append(
            {
                **structure,
                "name": f"f{k}",
                "source": f"frame {k}",
                "energy": float(energy),
                "forces": forces,
                "stress": np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) if k else None,
                "atom_energies": None,
                "info": {"config_type": "crystal" if k % 2 else "hot", "temperature": str(300 + 300 * (k % 2))},
                "columns": {},
            }
        )
    return out


def config(steps=60, student=None, **training_keys):
    keys = {"steps": steps, "validate_every": 10, "learning_rate": 0.005, "batch": 16, **training_keys}
    return recipe_training.config("small", student or STUDENT, keys, list(ELEMENTS))


def quiet(_):
    pass


@unittest.skipUnless(torch, "PyTorch is not installed in this Python (MLFF_TORCH_PYTHON runs these tests elsewhere)")
class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.data = dataset.from_labels(labelled(40))
        cls.mixed = dataset.from_labels(labelled(60, compositions=12))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def train(self, folder, data=None, settings=None, **options):
        return training.train(settings or config(), data or self.data, self.path(folder), quiet, **options)

    def assert_same_files(self, one, two):
        for suffix in FILES:
            a, b = (os.path.join(self.path(x), "small" + suffix) for x in (one, two))
            self.assertTrue(filecmp.cmp(a, b, shallow=False), f"{suffix} differs")

    def killed(self, folder, data, settings, moments):
        """Trains in processes that are killed after so many changes of their files each, then to the end; how many were
        killed."""
        count = 0
        for moment in [*moments, float("inf")]:
            changes = kills.Changes(self.path(folder), moment)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    training.train(settings, data, self.path(folder), quiet, save_every=0.0)
                    status = 0
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            code = kills.kill_when(child, changes, random.uniform(0.0, 0.01))
            count += code == kills.KILLED
        self.assertEqual(code, 0)
        return count

    def test_killed_and_gone_on_with(self):
        draw = random.Random(20)
        moments = [draw.randint(1, 25) for _ in range(10 if NIGHTLY else 3)]
        variants = [(self.data, {}), (self.mixed, {"optimizer": "adam"}), (self.mixed, {})]
        for k, (data, keys) in enumerate(variants if NIGHTLY else variants[:2]):
            settings = config(steps=80, **keys)
            self.train(f"whole{k}", data, settings)
            killed = self.killed(f"parts{k}", data, settings, moments)
            self.assertGreaterEqual(killed, 3 if NIGHTLY else 2)
            self.assert_same_files(f"whole{k}", f"parts{k}")

    def test_jumps_survive_a_kill(self):
        """The best weights and the brake are in the checkpoint: with this learning rate the error jumps many times."""
        settings = config(steps=80, learning_rate=0.1, warmup=1, validate_every=4, clip=1e6, ema=0.01)
        said = []
        training.train(settings, self.data, self.path("whole"), said.append)
        self.assertTrue([line for line in said if "has jumped" in line], "the test needs a jump")
        self.killed("parts", self.data, settings, [5, 10, 20, 30])
        self.assert_same_files("whole", "parts")

    def test_stops_when_told(self):
        seen = []

        def enough(rows):
            seen.append(rows)
            return len(seen) == 3

        done = self.train("a", stop=enough)
        self.assertTrue(done.stopped)
        self.assertEqual((done.step, len(done.history)), (30, 3))
        self.assertEqual({r["by"] for r in seen[0]}, {"size", "config_type", "temperature", "all"})
        again = self.train("a", stop=lambda rows: self.fail("it is finished"))
        self.assertEqual((again.step, again.stopped, again.errors), (30, True, done.errors))

    def test_result(self):
        done = self.train("a", settings=config(steps=200))
        head, _ = modelfile.read(done.model)
        self.assertEqual(head["domain"]["elements"], list(ELEMENTS))
        self.assertEqual(
            (head["domain"]["temperature"], head["provenance"]["data_sha256"]), ([300, 600], self.data["sha256"])
        )
        distances = dataset.shortest_distances(self.data, head["cutoff"])
        self.assertEqual({tuple(p.split("-")) for p in head["domain"]["distances"]}, set(distances))
        for pair, r in head["domain"]["distances"].items():
            self.assertTrue(0 <= distances[tuple(pair.split("-"))] - r < 1.001e-3, pair)
        density = self.data["density"][dataset.frames_of(self.data, "train")]
        helpers.assert_near(head["domain"]["density"], [density.min(), density.max()], 1.01e-4, "density")
        nearest, cutoffs = min(distances.values()), modelfile.repulsion_cutoffs(head)
        self.assertLess(head["domain"]["min_distance"], 0.5 * nearest)
        self.assertGreater(head["domain"]["min_distance"], 0.3 * nearest)
        for pair, shortest in distances.items():
            self.assertTrue(0 <= shortest - 0.95 * cutoffs[pair] < 1.001e-3, pair)
        self.assertGreaterEqual(len(head["self_test"]["structures"]), 3)
        for s in head["self_test"]["structures"]:
            self.assertLess(np.abs(s["forces"]).max(), 30)
        with open(os.path.join(self.path("a"), "small.errors.json"), encoding="ascii") as f:
            self.assertEqual(json.load(f), done.errors)
        first, last = done.history[0], done.history[-1]
        for key in ("force_rmse_all", "stress_rmse_all", "energy_rmse_all", "force_rmse_hot"):
            self.assertLess(last[key], 0.6 * first[key], key)
        total = done.errors[-1]
        labels = {r["by"]: r for r in done.errors}
        self.assertEqual(set(labels), {"size", "config_type", "temperature", "all"})
        self.assertLess(total["force_rmse"], 0.5 * total["force_rms"])

    def test_stress_errors_are_those_of_the_model(self):
        """The row of the table against the exported model in numpy."""
        done = self.train("a")
        model, square = modelfile.read(done.model), []
        for k in dataset.frames_of(self.data, "test"):
            s = dataset.frame(self.data, k)
            xx, yy, zz, xy, xz, yz = -np.asarray(reference.evaluate(model, s)[2]) / abs(np.linalg.det(s["cell"]))
            found = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            square.append(((found - self.data["stress"][k]) ** 2).mean())
        helpers.assert_near([done.errors[-1]["stress_rmse"]], [160.21766208 * np.sqrt(np.mean(square))], 1e-4, "GPa")

    def test_each_term_is_learnt(self):
        """Without its weight the stress is worse: the term does what it says."""
        with_stress, without = (
            self.train(f"w{w}", settings=config(steps=150, stress_weight=w)).errors[-1] for w in (30.0, 0)
        )
        self.assertLess(with_stress["stress_rmse"], 0.8 * without["stress_rmse"])

    @unittest.skipUnless(NIGHTLY, "long: make nightly")
    def test_hessian_products_are_learnt(self):
        """Labels from two more labels of the teacher each, through a file; held-out products are better with them."""
        made, model = labelled(80), teacher()
        probes = hessian.probes(made)
        for probe in probes:
            probe["forces"] = reference.evaluate(model, probe)[1]
        path = self.path("l.xyz")
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(extxyz.text(frame) for frame in hessian.joined(made, probes)))
        data, found = dataset.from_labels(extxyz.read(path)), []
        for k, weight in enumerate((0, 1.0)):
            settings = config(steps=450, hessian_weight=weight)
            done = self.train(f"w{k}", data, settings)
            state = training.load_checkpoint(done.checkpoint)
            t = Trainer(state["config"], data, data["sha256"], torch.device("cpu"), state)
            t.restore(state, done.checkpoint)
            self.assertEqual(t._batch(), 48 if weight else 16, "each frame with two of its size on top")
            (pair,) = frames.pairs(data, "test", t.network, t.device, t.scale, t.offsets)
            batch = t.plain_batch(pair, torch.arange(len(pair.frames)))
            out = t.network(t.views(t.ema), batch, training=False)
            found.append(float(losses.square("hessian", out, batch).mean().detach()))
            label = pair.product[0].reshape(2, 4, 3)
            k = int(np.nonzero(data["split"] == 2)[0][0])
            h, x = 0.01 * data["hessian_direction"][4 * k : 4 * k + 4], dataset.frame(data, k)
            forces = [reference.evaluate(model, {**x, "positions": x["positions"] + s * h})[1] for s in (1, -1)]
            helpers.assert_near(label[0], (forces[0] - forces[1]) / 0.02 / t.scale, 1e-4, "product")
            helpers.assert_near(label[1], -label[0], 0.0, "the other half")
        self.assertLess(found[1], 0.6 * found[0])

    def test_another_run_in_the_folder(self):
        with lock.locked(self.path("a"), ""), self.assertRaisesRegex(modelfile.ModelError, "another run is training"):
            self.train("a")

    def test_full_disk(self):
        """One sentence, and what was there goes on to the same end."""
        self.train("whole")
        real, written = modelfile.write_bytes, []

        def full(path, content):
            if path.endswith(".csv") and len(written) == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written.append(path)
            real(path, content)

        patch, text = mock.patch("mlff_tools.train.curve.write_bytes", full), "No space left on device; run the same"
        with patch, self.assertRaisesRegex(modelfile.ModelError, text):
            self.train("parts", save_every=0.0)
        self.assertTrue(written)
        self.train("parts")
        self.assert_same_files("whole", "parts")

    def test_forces_that_are_no_derivatives(self):
        made, said = labelled(20), []
        for frame in made:
            frame["info"]["teacher_derivatives"] = "F"
        data = dataset.from_labels(made)
        training.train(config(steps=1), data, self.path("a"), said.append)
        self.assertTrue([line for line in said if "not derivatives of its energy" in line])
        said.clear()
        forces = config(steps=1, energy_weight=0, stress_weight=0)
        training.train(forces, data, self.path("b"), said.append)
        self.assertFalse([line for line in said if "not derivatives" in line])

    def test_other_settings_are_refused(self):
        self.train("a", settings=config(steps=10))
        with self.assertRaisesRegex(modelfile.ModelError, "was made with steps 10, not 20"):
            self.train("a", settings=config(steps=20))
        with self.assertRaisesRegex(modelfile.ModelError, "of another model or data set"):
            self.train("a", self.mixed, config(steps=10))
        with open(os.path.join(self.path("a"), "small.checkpoint"), "wb") as f:
            f.write(b"nothing")
        with self.assertRaisesRegex(modelfile.ModelError, "is not a checkpoint of a training run"):
            self.train("a", settings=config(steps=10))

    def test_warm_start_on_other_data(self):
        """The next round: the same network on more labels goes on with the same weights, also where the mean of
        the labels changes; with another method it does not."""
        first = self.train("a", settings=config(steps=200))
        more = labelled(40)
        for k, frame in enumerate(labelled(20, seed=9)):
            frame["positions"] = frame["positions"] * 0.97
            more.append({**frame, "name": f"g{k}", "source": f"more {k}"})
        data = dataset.from_labels(more, list(ELEMENTS))
        same = self.train(
            "b", data, config(steps=1, learning_rate=1e-9, final_learning_rate=1e-9), start=first.checkpoint
        )
        old, new = (modelfile.read(x.model) for x in (first, same))
        self.assertEqual(old[0]["energy_offsets"], new[0]["energy_offsets"])
        for key, weight in old[1].items():
            helpers.assert_near(new[1][key], weight, 1e-6, key)
        for changed in (config(steps=1, stress_weight=7.0), {**config(steps=1), "repulsion": None}):
            with self.assertRaisesRegex(modelfile.ModelError, "was made with (stress_weight|repulsion) .*, not "):
                self.train("c", data, changed, start=first.checkpoint)

    def test_steps_of_many_compositions(self):
        sizes, atoms = [5, 1, 30, 2], [4, 40, 2, 9]
        order = Mixed(sizes, atoms, 50, 7)
        epoch = [order.parts(s) for s in range(order.per_epoch)]
        seen = sorted((c, int(i)) for parts in epoch for c, index in parts for i in index)
        self.assertEqual(seen, [(c, i) for c, n in enumerate(sizes) for i in range(n)], "each frame once an epoch")
        self.assertGreater(order.per_epoch, 1)
        for parts in epoch:
            self.assertTrue(0 < sum(atoms[c] * len(index) for c, index in parts) <= 50 + 2 * 40)
        later = order.per_epoch + 1
        again = Mixed(sizes, atoms, 50, 7).parts(later)
        for (c, i), (d, j) in zip(order.parts(later), again):
            self.assertEqual((c, i.tolist()), (d, j.tolist()))
        self.assertNotEqual([p[1].tolist() for p in epoch[1]], [p[1].tolist() for p in again])

    def test_plain_path_with_many_compositions(self):
        """What a GPU does: the same steps without fast/."""
        settings = config(steps=1)
        settings["train"] = {**training.TRAIN_DEFAULTS, **settings["train"]}
        t = Trainer(settings, self.mixed, "x", torch.device("cpu"))
        self.assertIsNone(t.counts)
        if t.fast is None:
            self.skipTest("no C compiler (cc)")
        t.set_controls(0.5)
        found, parts = [], t.choose()
        t.update = lambda gradient, terms: found.append(torch.cat([x.flatten() for x in gradient]))
        t.one_step(parts)
        t.one_fast_step(parts)
        helpers.assert_near(found[1], found[0], 1e-3 * float(found[0].norm()), "gradient")

    def test_ensemble(self):
        """An ANI ensemble learns stress too."""
        student = {"architecture": "ani", "members": 2, "hidden": [8, 6], "cutoff": 3.6, "angular_cutoff": 3.0}
        done = self.train("a", settings=config(steps=100, student=student))
        self.assertLess(done.history[-1]["stress_rmse_all"], 0.8 * done.history[0]["stress_rmse_all"])
        modelfile.read(done.model)

    def test_mace(self):
        """A MACE student learns, and starts where another one has ended."""
        student = {"architecture": "mace", "channels": 4, "lmax": 2, "cutoff": 3.6, "radial": 6}
        done = self.train("m", settings=config(steps=100, stress_weight=1.0, student=student))
        self.assertLess(done.history[-1]["force_rmse_all"], 0.8 * done.history[0]["force_rmse_all"])
        again = self.train("m2", settings=config(steps=20, stress_weight=1.0, student=student), start=done.checkpoint)
        self.assertLess(again.history[0]["force_rmse_all"], 1.5 * done.history[-1]["force_rmse_all"])
        self.assertEqual(modelfile.read(done.model)[0]["architecture"], "mace")


if __name__ == "__main__":
    unittest.main()
