"""The table of known traps in tests/README.md names tests that exist, for every trap."""

import os
import re
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTS = {"A": 10, "M": 25, "N": 20, "O": 17, "P": 9, "S": 7, "T": 20}
TRAPS = [f"{letter}{k}" for letter, n in COUNTS.items() for k in range(1, n + 1) if f"{letter}{k}" != "M19"]


def table():
    """trap -> [(file, [names of tests])]"""
    with open(os.path.join(TESTS, "README.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([A-Z]\d+) [^|]*\|([^|]*)\|$", f.read(), re.MULTILINE)
    out = {}
    for trap, cell in rows:
        found = re.findall(r"`([\w/.]+)` ([\w, ]+)", cell)
        out[trap] = [(path, [name for name in re.split(r"[, ]+", names) if name]) for path, names in found]
    return out


class Traps(unittest.TestCase):
    def test_every_trap_has_its_tests(self):
        rows = table()
        self.assertEqual(sorted(rows), sorted(TRAPS))
        for trap, places in rows.items():
            self.assertTrue(places, f"{trap} names no test")
            for path, names in places:
                with open(os.path.join(TESTS, path), encoding="utf-8") as f:
                    text = f.read()
                for name in names:
                    start = rf"START_TEST\({name}\)" if path.endswith(".c") else rf"def {name}\("
                    self.assertTrue(re.search(start, text), f"{trap}: {path} has no test {name}")


if __name__ == "__main__":
    unittest.main()
