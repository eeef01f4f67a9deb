"""benchmarks/teachers.py: structures, the rows of the baselines with programs that answer made-up times, the table; and
what the published profiles of teachers must be."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np

import teachers
from mlff_tools.bench import profiles
from mlff_tools.bench.cases import SYSTEMS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join(ROOT, "benchmarks", "results")


class Program:
    """Answers like torch_programs.py: ten milliseconds for each atom, shared by its threads."""

    def __init__(self, context, kind, weights, tuned, threads=1):
        self.kind, self.threads, self.n = kind, threads, 0

    def ask(self, do, variant=None, n=0, numbers=(), **_):
        if do == "system":
            self.n = len(numbers)
            return {"versions": {self.kind: "1.0"}}
        seconds = [0.01 * self.n / self.threads] * n
        return {"seconds": seconds, "cpu_seconds": [s * self.threads for s in seconds]}

    def close(self):
        pass


SIZES = {"orb_v2": (64, 216, 512), "fennol_ani2x": (63, 192, 768)}


class Published(unittest.TestCase):
    """Orb-v2 and ANI-2x in benchmarks/results: suites of `mlff bench` on the systems of in.bench, 1000 steps."""

    def rows(self, name):
        _, rows = teachers.rows_of(RESULTS, name)
        self.assertEqual(tuple(sorted(rows)), SIZES[name])
        settings = profiles.read_json(RESULTS, f"suite-{name}.json")["settings"]
        self.assertGreaterEqual(settings["steps"] - settings["warmup"], 1000)
        self.assertGreaterEqual(settings["warmup"], 20)
        return rows.values()

    def test_orb(self):
        for r in self.rows("orb_v2"):
            self.assertIn(teachers.RANDOM, r["notes"])
            self.assertIsNone(r["drift"])

    def test_ani(self):
        """Its atoms move: 1000 steps of half a femtosecond, at the temperature of its thermostat."""
        for r in self.rows("fennol_ani2x"):
            self.assertIsNone(r["notes"])
            self.assertIsNotNone(r["drift"])
        r = profiles.read(os.path.join(RESULTS, "fennol_ani2x_profile.json"))
        self.assertGreaterEqual(r["n_steps"], 1000)
        self.assertGreaterEqual(r["energy"]["time_ps"], 0.4999)
        self.assertAlmostEqual(r["energy"]["temperature"]["mean"], 300.0, delta=60.0)
        self.assertGreater(r["energy"]["potential"]["std"], 0.1)

    def test_comparison(self):
        made = profiles.read_json(RESULTS, "comparison_fennol_ani2x_vs_water_xs.json")
        self.assertEqual({c["n_atoms"] for c in made["cases"]}, {63, 192, 768})
        self.assertTrue(all(c["speedup"] > 1 for c in made["cases"]))

    def test_table(self):
        """docs/teachers/README.md has their table, with both networks at every size."""
        text = teachers.table(RESULTS)
        with open(os.path.join(ROOT, "docs", "teachers", "README.md"), encoding="utf-8") as file:
            self.assertIn(f"{teachers.BEGIN}\n{text}{teachers.END}\n", file.read())
        for n in sum(SIZES.values(), ()):
            self.assertRegex(text, rf"\| {n} \| [\d.]+ \|")


def suite(potential, sizes, notes=None):
    """As much of a suite as is needed: two milliseconds for each atom."""
    rows = [{"potential": potential, "n_atoms": n, "median_ms": 2.0 * n, "notes": notes} for n in sizes]
    return {"date": "2026-11-26 00:00:00", "cases": rows}


class Table(unittest.TestCase):
    def test_rows(self):
        """Times of this package over size, those of packages in the same rows; random weights are named."""
        with tempfile.TemporaryDirectory() as folder:
            rows = [{"package": "orb-models", "n_atoms": n, "threads": 1, "median_ms": 4.0 * n} for n in (64, 512)]
            conditions = {"processor": "P", "n_processors": 2, "versions": {"torch": "2.0"}}
            about = {"date": "2026-11-01", "conditions": conditions, "skipped": {"SchNetPack": "not installed"}}
            profiles.write_json(os.path.join(folder, "teacher-baselines.json"), {**about, "rows": rows})
            orb = suite("orb_v2", (512, 64, 216), f"Orb-v2, {teachers.RANDOM}")
            profiles.write_json(os.path.join(folder, "suite-orb_v2.json"), orb)
            with self.assertRaisesRegex(teachers.Skip, "suite-fennol_ani2x.json is missing: run `mlff bench`"):
                teachers.table(folder)
            ani = suite("fennol_ani2x", (192,))
            ani["cases"] += suite("water_xs", (192,))["cases"]
            profiles.write_json(os.path.join(folder, "suite-fennol_ani2x.json"), ani)
            text = teachers.table(folder)
        lines = text.split("\n")
        self.assertIn("Orb-v2, silicon 2026-11-26; ANI-2x, 8 networks, water 2026-11-26.", text)
        self.assertIn("SchNetPack: not installed.", text)
        self.assertEqual(
            lines[-5:-1],
            [
                "| Orb-v2, silicon (random weights) | 64 | 128 | orb-models | 256 | - |",
                "| Orb-v2, silicon (random weights) | 216 | 432 | orb-models | - | - |",
                "| Orb-v2, silicon (random weights) | 512 | 1024 | orb-models | 2048 | - |",
                "| ANI-2x, 8 networks, water | 192 | 384 | TorchANI | - | - |",
            ],
        )

    def test_marks(self):
        refused = self.assertRaisesRegex(teachers.Skip, "each of these lines once")
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file, refused:
            teachers.write_table(RESULTS, file.name)


class Teachers(unittest.TestCase):
    def test_structures(self):
        """The sizes of in.bench; water of its density; no atoms overlap."""
        silicon = [len(teachers.systems.rattled_silicon(c)["numbers"]) for c in teachers.SILICON]
        water = [teachers.water(c) for c in teachers.WATER]
        self.assertEqual(tuple(silicon), SYSTEMS["silicon"][0])
        self.assertEqual(tuple(len(w["numbers"]) for w in water), SYSTEMS["water"][0])
        for w in water:
            self.assertEqual(w["numbers"].count(1), 2 * w["numbers"].count(8))
            self.assertAlmostEqual(len(w["numbers"]) / 3 * 29.915 / np.linalg.det(w["cell"]), 1.0, delta=0.05)
        for s, least in ((teachers.systems.rattled_silicon((2, 2, 2)), 2.0), (water[0], 0.8), (water[2], 0.8)):
            x, cell = np.array(s["positions"]), np.diag(s["cell"])
            d = x[:, None] - x[None]
            d -= cell * np.round(d / cell)
            r = np.linalg.norm(d, axis=-1)[~np.eye(len(x), dtype=bool)]
            self.assertGreater(r.min(), least)

    def test_baselines(self):
        with tempfile.TemporaryDirectory() as folder:
            context = types.SimpleNamespace(
                torch_python=sys.executable,
                shared=folder,
                work=folder,
                cores=[1, 0],
                seconds=0.5,
                closing=[],
                lmp="lmp",
                plugin=os.path.join(folder, "mlffplugin.so"),
            )
            args = types.SimpleNamespace(sizes=2, rounds=2, out=folder)
            packages = [(kind, "json", *rest[1:]) for kind, *rest in teachers.PACKAGES]
            with (
                unittest.mock.patch.multiple(teachers, TorchProgram=Program, PACKAGES=packages),
                unittest.mock.patch.object(teachers, "describe", lambda c: {"versions": {}}),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                teachers.run_baselines(context, args)
            with open(os.path.join(folder, "teacher-baselines.json"), encoding="utf-8") as f:
                found = json.load(f)
        self.assertEqual(sorted(found["skipped"]), ["SchNetPack", "TorchANI"])  # their weights are not there
        self.assertEqual(
            [(r["package"], r["n_atoms"], r["threads"]) for r in found["rows"]],
            [("orb-models", 64, 1), ("orb-models", 216, 1), ("orb-models", 64, 2), ("orb-models", 216, 2)],
        )
        for row, expected in zip(found["rows"], (640.0, 2160.0, 320.0, 1080.0)):
            self.assertAlmostEqual(row["median_ms"], expected)
            self.assertAlmostEqual(row["lowest_cpu_share"], 1.0)
        self.assertEqual(found["conditions"]["versions"], {"orb": "1.0"})
        self.assertIn("random weights", found["notes"]["orb-models"])

    def test_precisions(self):
        """Rows of precisions with a program that takes three milliseconds in fp32 and two in mixed; and its
        refusals."""

        def answer(context, program, model, structure, precision, kernels, calls):
            self.assertTrue(os.path.exists(structure) and calls >= 2 and kernels == "amx")
            return {
                "median_ms": {"fp32": 3.0, "mixed": 2.0}[precision],
                "kernels": {"fp32": "avx512", "mixed": "amx"}[precision],
            }

        with tempfile.TemporaryDirectory() as folder:
            context = types.SimpleNamespace(shared=folder, work=folder, cores=[0], seconds=0.1)
            args = types.SimpleNamespace(sizes=2, rounds=3, out=folder, kernels="amx", build=folder)
            with (
                unittest.mock.patch.multiple(teachers, time_model=answer, tools=lambda *a: None),
                unittest.mock.patch.object(teachers.engine, "find_program", lambda path: "mlff"),
                unittest.mock.patch.object(teachers, "describe", lambda c: {"versions": {}}),
                contextlib.redirect_stdout(io.StringIO()) as text,
            ):
                teachers.run_precisions(context, args)
            with open(os.path.join(folder, "teacher-precisions.json"), encoding="utf-8") as f:
                found = json.load(f)
            with self.assertRaisesRegex(teachers.LammpsError, "nowhere.yaml"):
                path = os.path.join(folder, "water.xyz")
                teachers.write_structure(path, teachers.water(teachers.WATER[0]))
                teachers.time_model(
                    context, teachers.engine.find_program(), "nowhere.yaml", path, "mixed", "generic", 2
                )
        self.assertEqual(
            [(r["model"], r["n_atoms"], r["gain"]) for r in found["rows"]], [("orb_v2", 64, 1.5), ("orb_v2", 216, 1.5)]
        )
        self.assertEqual(found["rows"][0]["kernels"], {"fp32": "avx512", "mixed": "amx"})
        self.assertIn("ani2x", found["skipped"])
        self.assertIn("1.50 times as fast", text.getvalue())


if __name__ == "__main__":
    unittest.main()
