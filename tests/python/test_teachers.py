"""benchmarks/teachers.py: structures, and the rows of the baselines with programs that answer made-up times."""

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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


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


class Table(unittest.TestCase):
    def test_published(self):
        """docs/teachers/README.md has the table of the published results, with both networks at every size."""
        text = teachers.table(os.path.join(ROOT, "benchmarks", "results"))
        with open(os.path.join(ROOT, "docs", "teachers", "README.md"), encoding="utf-8") as file:
            self.assertIn(f"{teachers.BEGIN}\n{text}{teachers.END}\n", file.read())
        for n, _ in [(8 * np.prod(c), c) for c in teachers.SILICON] + [(3 * np.prod(c), c) for c in teachers.WATER]:
            self.assertRegex(text, rf"\| {n} \| [\d.]+ \|")

    def test_marks(self):
        refused = self.assertRaisesRegex(teachers.Skip, "each of these lines once")
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file, refused:
            teachers.write_table(os.path.join(ROOT, "benchmarks", "results"), file.name)


class Teachers(unittest.TestCase):
    def test_structures(self):
        """32 to 1024 atoms of silicon, 36 to 1029 of water, the sizes of the reports among them; no atoms overlap."""
        silicon = [len(teachers.systems.rattled_silicon(c)["numbers"]) for c in teachers.SILICON]
        water = [len(teachers.water(c)["numbers"]) for c in teachers.WATER]
        self.assertEqual(silicon, [32, 64, 128, 256, 512, 1024])
        self.assertEqual((water[0], water[-1]), (36, 1029))
        self.assertIn(teachers.MAIN["orb_v2"], silicon)
        self.assertIn(teachers.MAIN["ani2x"], water)
        for s, least in ((teachers.systems.rattled_silicon((2, 2, 2)), 2.0), (teachers.water((2, 3, 4)), 0.9)):
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
            [("orb-models", 32, 1), ("orb-models", 64, 1), ("orb-models", 32, 2), ("orb-models", 64, 2)],
        )
        for row, expected in zip(found["rows"], (320.0, 640.0, 160.0, 320.0)):
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
                teachers.write_structure(path, teachers.water((1, 1, 1)))
                teachers.time_model(
                    context, teachers.engine.find_program(), "nowhere.yaml", path, "mixed", "generic", 2
                )
        self.assertEqual(
            [(r["model"], r["n_atoms"], r["gain"]) for r in found["rows"]], [("orb_v2", 32, 1.5), ("orb_v2", 64, 1.5)]
        )
        self.assertEqual(found["rows"][0]["kernels"], {"fp32": "avx512", "mixed": "amx"})
        self.assertIn("ani2x", found["skipped"])
        self.assertIn("1.50 times as fast", text.getvalue())


if __name__ == "__main__":
    unittest.main()
