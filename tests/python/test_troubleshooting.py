"""docs/troubleshooting.md quotes messages as the sources have them, and its links lead somewhere."""

import glob
import os
import re
import unittest

import helpers

PAGE = os.path.join(helpers.ROOT, "docs", "troubleshooting.md")
CODE = re.compile(r"\[mlff-\d\d\]")
# Lines of the log, and the beginning of several errors.
TABLES = (
    "type -> element (mass of the type, mass of the element)",
    "plugin mlff was not loaded",
    "near the first frame the energy changes by",
)
# Messages of LAMMPS and of its thermo output.
OTHERS = ("Unrecognized pair style 'mlff'", "Lost atoms", "Out of range atoms")


def sources():
    """All string literals of the programs, those that follow each other joined, without backquotes."""
    text = ""
    for pattern in ("src/**/*.c", "src/**/*.cpp", "src/**/*.h", "include/mlff/*.h", "python/mlff_tools/**/*.py"):
        for path in glob.glob(os.path.join(helpers.ROOT, pattern), recursive=True):
            with open(path, encoding="utf-8") as f:
                text += re.sub(r'"\s*\n\s*f?"', "", f.read())
    return text.replace("`", "")


class Page(unittest.TestCase):
    def test_messages(self):
        with open(PAGE, encoding="utf-8") as f:
            rows = [line.split("|")[1] for line in f if line.startswith("| ")]
        quoted = [q for row in rows for q in re.findall(r"`([^`]+)`", row) if len(q.split()) > 2]
        self.assertGreater(len(quoted), 20)
        known = sources()
        for message in quoted:
            with self.subTest(message=message):
                self.assertTrue(message in OTHERS or message in known or message.startswith("mpiexec"))
        self.assertNotIn("no message says this", known)

    def test_codes(self):
        """Each code of a message has one row, which quotes that message, and each row's code a message."""
        with open(PAGE, encoding="utf-8") as f:
            rows = [line.split("|")[1] for line in f if line.startswith("| [mlff-")]
        known = sources()
        codes = [CODE.search(row).group() for row in rows]
        self.assertEqual(sorted(codes), sorted(set(CODE.findall(known))))
        for row, code in zip(rows, codes):
            messages = [known[max(0, at.start() - 600) : at.start()] for at in re.finditer(re.escape(code), known)]
            for message in messages:
                with self.subTest(code=code):
                    self.assertTrue(any(q in message for q in re.findall(r"`([^`]+)`", row)))
            for quoted in set(re.findall(r"`([^`]+)`", row)) - set(TABLES):  # and each such message has its code
                for at in re.finditer(re.escape(quoted), known):
                    with self.subTest(code=code, message=quoted):
                        self.assertIn(code, known[at.start() : at.start() + 600])
