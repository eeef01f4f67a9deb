"""mlff batch: commands from standard input in one process, with the results that they have by themselves."""

import json
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MLFF = os.environ.get("MLFF", "mlff")
MODEL = os.path.join(ROOT, "models", "water-benzene-student.yaml")
WATER = """3
Lattice="9 0 0 0 9 0 0 0 9" pbc="T T T"
O 0.0 0.0 {z}
H 0.0 0.763 -0.477
H 0.0 -0.763 -0.477
"""


def run(arguments, text=""):
    done = subprocess.run([MLFF, *arguments], input=text.encode(), capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def batch(*lines):
    """(exit status, what each command printed, the line of JSON after each, errors)."""
    code, output, errors = run(["batch"], "".join(line + "\n" for line in lines))
    printed, ends = [""], []
    for line in output.splitlines():
        if line.startswith('{"batch": '):
            ends.append(json.loads(line))
            printed.append("")
        else:
            printed[-1] += line + "\n"
    assert printed.pop() == "", output
    assert [end["batch"] for end in ends] == list(range(1, len(ends) + 1)), output
    return code, printed, ends, errors


class Batch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.xyz = os.path.join(self.folder.name, "a box.xyz")
        self.write(0.12)

    def write(self, z):
        with open(self.xyz, "w", encoding="utf-8") as f:
            f.write(WATER.format(z=z))

    def test_error_within_the_output(self):
        """A structure that cannot be evaluated, behind one that can: the line of JSON is a line of its own."""
        with open(self.xyz, encoding="utf-8") as f:
            good = f.read()
        lines = good.splitlines(True)
        with open(self.xyz, "w", encoding="utf-8") as f:
            f.write(good + "".join([*lines[:3], lines[2], *lines[4:]]))  # two atoms at one place
        code, printed, ends, errors = batch(f'evaluate {MODEL} "{self.xyz}" --json', "--version")
        self.assertEqual((code, ends[0]["status"]), (1, 1))
        self.assertIn('"energy": ', printed[0])
        self.assertIn("structure 2", errors)

    def test_as_by_themselves(self):
        commands = [
            ["evaluate", MODEL, self.xyz, "--json", "--precision", "fp64"],
            ["evaluate", MODEL, self.xyz, "--forces"],
            ["info", MODEL],
            ["--version"],
            ["--help"],
            ["time", "--help"],
            ["evaluate", MODEL, self.xyz, "--json"],
        ]
        code, printed, ends, errors = batch(
            "# twice", "", *[" ".join(f'"{word}"' for word in words) for words in commands], "  \t"
        )
        self.assertEqual((code, errors, len(ends)), (0, "", len(commands)))
        for words, text, end in zip(commands, printed, ends):
            self.assertEqual(text, run(words)[1])
            self.assertEqual((end["status"], end["error"]), (0, ""))
            self.assertGreaterEqual(end["seconds"], 0)

    def test_words(self):
        name = self.xyz.replace("a box", 'a" "box')
        code, printed, _, _ = batch(f"\ttime  {MODEL} {name}\t--calls=2 --json --replicas 3 \r")
        self.assertEqual(code, 0)
        self.assertEqual((json.loads(printed[0])["n_calls"], json.loads(printed[0])["n_atoms"]), (2, 9))

    def test_errors_do_not_end_it(self):
        wrong = [
            ("boil", 2, "unknown command 'boil'"),
            ("info none.yaml", 2, "none.yaml: cannot be opened"),
            ("time a", 2, "missing arguments"),
            ("time a b --calls 0", 2, "invalid value '0' of --calls"),
            ("compare a", 2, "expected two reports"),
            (f'evaluate {MODEL} "{self.xyz}', 2, "a double quote is not closed"),
            ("info " + 9000 * "x", 2, "longer than 8192 characters"),
            ("info" + 200 * " x", 2, "more than 128 words"),
            ("info a\0b", 2, "it contains a NUL character"),
            ("batch", 2, "a batch cannot run a batch"),
            ("bench --help", 2, "replaces the process"),
            ("scaling", 2, "replaces the process"),
            ("report x", 2, "replaces the process"),
            (f"verify {MODEL} --against x", 2, "replaces the process"),
        ]
        code, printed, ends, errors = batch(*[line for line, _, _ in wrong], "--version")
        self.assertEqual((code, len(ends)), (2, len(wrong) + 1))
        for (line, status, part), text, end in zip(wrong, printed, ends):
            self.assertEqual((end["status"], text), (status, ""), line)
            self.assertIn(part, end["error"])
            self.assertIn(end["error"], errors)
        self.assertIn("mlff ", printed[-1])
        self.assertEqual(batch("info none.yaml", "--version")[0], 2)

    def test_end_of_input(self):
        self.assertEqual(run(["batch"]), (0, "", ""))
        code, output, _ = run(["batch"], "# no end of line")
        self.assertEqual((code, output), (0, ""))
        code, output, _ = run(["batch"], "--version")
        self.assertEqual((code, output.count("\n")), (0, 2))
        self.assertEqual(run(["batch", "x"])[0], 2)

    def test_answers_at_once_and_sees_a_new_file(self):
        """One command after another to a process that waits: a structure that changes between them is read again."""
        with subprocess.Popen([MLFF, "batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            energies = []
            for z in (0.12, 0.12, 0.15):
                if z != 0.12:
                    self.write(z)
                process.stdin.write(f'evaluate {MODEL} "{self.xyz}" --json\n'.encode())
                process.stdin.flush()
                lines = []
                while not lines or not lines[-1].startswith(b'{"batch"'):
                    lines.append(process.stdout.readline())
                energies.append(json.loads(b"".join(lines[:-1]))["structures"][0]["energy"])
            process.stdin.close()
            self.assertEqual(process.wait(), 0)
        self.assertEqual(energies[0], energies[1])
        self.assertGreater(abs(energies[2] - energies[0]), 1e-3)


if __name__ == "__main__":
    unittest.main()
