"""benchmarks/speed: reading LAMMPS' timings, forming ratios, writing the document. Nothing is timed here."""

import os
import tempfile
import unittest

from mlff_tools.model.lammps import LammpsError
from speed import measure, report, runs
from speed.parts import Ratio

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

OUTPUT = """\
  model:        water (models/water.yaml), 1234 parameters, sha256 0123456789ab
  computed on:  cpu, fp32, kernels avx2
Per MPI rank memory allocation (min/avg/max) = 3.000 | 3.500 | 4.000 Mbytes
   Step          Temp          PotEng
         0   300           -1.5
Loop time of 9 on 2 procs for 10 steps with 192 atoms
100.0% CPU use with 2 MPI tasks x 1 OpenMP threads
Dangerous builds = 7
Per MPI rank memory allocation (min/avg/max) = 3.000 | 3.500 | 4.000 Mbytes
   Step          Temp          PotEng
         0   300           -1.5
       100   310           -1.25
Loop time of 2 on 2 procs for 100 steps with 192 atoms
97.5% CPU use with 2 MPI tasks x 1 OpenMP threads
Section |  min time  |  avg time  |  max time  |%varavg| %total
Pair    | 1.0        | 1.2        | 1.4        |   0.0 | 60.00
Neigh   | 0.1        | 0.1        | 0.1        |   0.0 |  5.00
Other   |            | 0.3        |            |       | 15.00
Neighbor list builds = 4
Dangerous builds = 0
"""


class Parsing(unittest.TestCase):
    def test_last_run_is_read(self):
        found = runs.parse(OUTPUT)
        self.assertEqual((found["steps"], found["atoms"], found["ranks"]), (100, 192, 2))
        self.assertAlmostEqual(found["seconds"], 0.02)
        self.assertAlmostEqual(found["sections"]["Pair"], 0.012)
        self.assertAlmostEqual(found["sections"]["Other"], 0.003)
        self.assertAlmostEqual(found["cpu"], 0.975)
        self.assertEqual((found["builds"], found["dangerous"]), (4, 0))
        self.assertEqual(found["memory"], 2 * 3.5 * 2**20)

    def test_style_and_thermo(self):
        style = runs.parse_style(OUTPUT)
        self.assertEqual((style["model"], style["parameters"], style["kernels"]), ("water", 1234, "avx2"))
        self.assertEqual(runs.parse_thermo(OUTPUT)["PotEng"], -1.25)

    def test_largest_resident_memory(self):
        text = "Current reserved memory pool size: 19.5 Mbyte\nMaximum resident set size: 91.25 Mbyte\n"
        self.assertEqual(runs.parse_peak(text), 91.25 * 2**20)
        with self.assertRaisesRegex(LammpsError, "info memory"):
            runs.parse_peak(OUTPUT)

    def test_output_without_a_run_is_an_error(self):
        with self.assertRaisesRegex(LammpsError, "loop time"):
            runs.parse("LAMMPS (22 Jul 2025)\n")


def case(seconds, n_atoms, ranks=1):
    """A case as summarise() describes it, measured once per element of `seconds`."""
    return {
        "label": "x",
        "seconds": seconds,
        "cpu_seconds": [0.5 * s for s in seconds],
        "median_s": sorted(seconds)[1],
        "n_atoms": n_atoms,
        "ranks": ranks,
        "us_per_atom": 1.0,
    }


class Ratios(unittest.TestCase):
    def test_the_fastest_of_theirs_counts(self):
        cases = {
            "slow": case([9.0, 9.0, 9.0], 10),
            "fast": case([4.0, 6.0, 2.0], 10),
            "ours": case([1.0, 2.0, 2.0], 10),
        }
        row = measure.ratio_row("part", Ratio("r", ["slow", "fast"], "ours", bar=3.5), cases)
        self.assertEqual((row["theirs"], row["values"], row["median"]), ("fast", [4.0, 3.0, 1.0], 3.0))
        self.assertIs(row["passed"], False)
        self.assertEqual(row["by_cpu_time"], 3.0)

    def test_per_atom(self):
        cases = {"theirs": case([1.0, 1.0, 1.0], 100), "ours": case([1.0, 1.0, 1.0], 200)}
        row = measure.ratio_row("part", Ratio("r", ["theirs"], "ours", bar=2.0, per_atom=True), cases)
        self.assertEqual(row["median"], 2.0)
        self.assertIs(row["passed"], True)

    def test_a_limit_on_the_time_of_a_step(self):
        cases = {"theirs": case([9.0, 9.0, 9.0], 10), "ours": case([1.0, 2.0, 3.0], 10)}
        for bar, most, passed, verdict in (
            (None, 2.0, True, "met (ours <= 2 s), aim 1.5 s not met"),
            (None, 1.9, False, "MISSED (ours <= 1.9 s), aim 1.5 s not met"),
            (4.0, 2.0, True, "met (>= 4), met (ours <= 2 s), aim 1.5 s not met"),
            (5.0, 2.0, False, "MISSED (>= 5), met (ours <= 2 s), aim 1.5 s not met"),
        ):
            ratio = Ratio("r", ["theirs"], "ours", bar=bar, most=most, aim_most=1.5)
            row = measure.ratio_row("part", ratio, cases)
            self.assertIs(row["passed"], passed)
            self.assertEqual(report._verdict(row), verdict)

    def test_a_row_of_an_older_result_has_a_verdict(self):
        self.assertEqual(report._verdict({"bar": 5.0, "aim": None, "median": 6.0}), "met (>= 5)")
        self.assertEqual(report._verdict({"bar": None, "aim": None, "median": 6.0}), "-")

    def test_cpu_times_of_ranks(self):
        """The mean of the ranks, which wait for each other without sleeping."""
        cases = {"one": case([2.0, 2.0, 2.0], 10), "two": case([1.0, 1.0, 1.0], 10, ranks=2)}
        row = measure.ratio_row("part", Ratio("r", ["one"], "two"), cases)
        self.assertEqual(row["by_cpu_time"], 2.0)
        self.assertIsNone(row["passed"])


class Document(unittest.TestCase):
    RESULT = {
        "date": "2026-01-02T03:04:05+00:00",
        "rounds": 9,
        "seconds_per_round": 1.0,
        "parts": {},
        "ratios": [],
        "skipped": {"ani": "no PyTorch"},
        "conditions": {
            "processor": "p",
            "n_processors": 2,
            "cores": [1, 0],
            "load_average_at_start": 0.5,
            "versions": {"lammps": "22 Jul 2025"},
        },
    }

    def test_only_the_marked_part_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "performance.md")
            with open(path, "w", encoding="utf-8") as out:
                out.write(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            for _ in range(2):
                report.write_docs([self.RESULT], ["results/speed.json"], path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        self.assertTrue(text.startswith(f"before\n{report.BEGIN}\n"))
        self.assertTrue(text.endswith(f"{report.END}\nafter\n"))
        self.assertIn("not measured: ani: no PyTorch", text)
        self.assertNotIn("old", text)

    def test_agreement_of_every_structure(self):
        found = {"energy_ev_per_atom": 2e-6, "forces_ev_per_ang": 3e-5, "largest_force_ev_per_ang": 4.0}
        part = {"title": "t", "cases": {}, "facts": {"64 Si": found, "agreement": found}}
        text = report.conditions_list({**self.RESULT, "parts": {"nequix": part}})
        for name in ("nequix, 64 Si", "nequix"):
            self.assertIn(f"- {name}: both programs give the same result for the structure timed, within 2.0e-06", text)

    def test_memory_of_nequix(self):
        memory = {
            "allocations_per_step": {},
            "memory": {"bytes": {}, "bytes_per_atom": {"student": 0.0, "teacher": 0.0, "zero": 0.0}},
        }
        self.assertNotIn("Nequix", report.memory_tables(memory))
        memory["nequix"] = {
            "by_atoms": {1000: {"bytes": 61e6, "peak": 95e6}, 10648: {"bytes": 500e6, "peak": 540e6}},
            "each_further_atom": {"bytes": 45.5e3, "peak": 46e3},
            "passed": False,
            "wanted": {"bytes_per_atom": 60e3, "peak": 1e9},
        }
        text = report.memory_tables(memory)
        self.assertIn("| 10648 atoms | 500.0 MB | 540.0 MB |\n| each further atom | 45.5 kB | 46.0 kB |", text)
        self.assertIn("less than 60 kB per atom, less than 1 GB for the larger crystal: MISSED.", text)

    def test_later_results_replace_parts(self):
        def row(part):
            return {"part": part, "name": f"ratio of {part}"}

        first = {
            **self.RESULT,
            "parts": {"ani": "old", "ranks": "old"},
            "ratios": [row("ani"), row("ranks")],
            "memory": "old",
        }
        second = {**self.RESULT, "parts": {"ranks": "new"}, "ratios": [row("ranks")], "memory": "new"}
        a, b = report._without_later([first, second])
        self.assertEqual((a["parts"], a["ratios"], "memory" in a), ({"ani": "old"}, [row("ani")], False))
        self.assertEqual(b, second)

    def test_the_real_document_has_the_marks(self):
        with open(os.path.join(ROOT, "docs", "performance.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual((text.count(report.BEGIN), text.count(report.END)), (1, 1))


if __name__ == "__main__":
    unittest.main()
