"""LAMMPS data files as structures of the program mlff."""

import json
import os
import subprocess

import numpy as np
import pytest

from mlff_tools.model.structures import write_xyz
from mlff_tools.train import lammps_data

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
MODEL = os.path.join(ROOT, "models", "water-benzene-student.yaml")
DATA = os.path.join(ROOT, "benchmarks", "decks", "data.water21")
SMALL = """title

2 atoms
2 atom types
0.0 20.0 xlo xhi
-5.0 15.0 ylo yhi
0.0 20.0 zlo zhi

Masses

1 1.008
2 15.999 # oxygen

Atoms # charge

7 2 -0.8 1.0 2.0 3.0
3 1 0.4 1.0 2.0 3.97
"""


def mlff(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def evaluate(path):
    code, out, error = mlff("evaluate", MODEL, path, "--precision", "fp64", "--json")
    assert code == 0, error
    (found,) = json.loads(out)["structures"]
    return found["energy"], np.array(found["forces"]), np.array(found["virial"])


@pytest.mark.parametrize("style", lammps_data.ATOM_STYLES)
@pytest.mark.parametrize("tilt", [0.0, 1.5])
def test_same_as_xyz(style, tilt, tmp_path):
    """Energy, forces and virial of a box, orthogonal and tilted, with lines of atoms in any order, in each style."""
    frame = lammps_data.read_data(DATA)
    frame["cell"] = frame["cell"] + [[0, 0, 0], [tilt, 0, 0], [-0.5 * tilt, 0.7 * tilt, 0]]
    write_xyz(str(tmp_path / "a.xyz"), [frame])
    head, lines = lammps_data.data_text(frame, ["O", "H"], style).split("Atoms")
    atoms = lines.splitlines()
    shuffled = [*atoms[:2], *np.random.default_rng(1).permutation(atoms[2:])]
    (tmp_path / "data.water").write_text(head + "Atoms" + "\n".join(shuffled) + "\n\nVelocities\n\n1 0 0 0\n")
    for a, b in zip(evaluate(tmp_path / "a.xyz"), evaluate(tmp_path / "data.water")):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_shipped_file_and_low_corner(tmp_path):
    """The deck's file, and a box that does not begin at zero."""
    write_xyz(str(tmp_path / "a.xyz"), [lammps_data.read_data(DATA)])
    assert evaluate(DATA)[0] == pytest.approx(evaluate(tmp_path / "a.xyz")[0], abs=1e-9)
    (tmp_path / "small").write_text(SMALL)
    energy, forces, _ = evaluate(tmp_path / "small")
    assert forces[0, 2] == pytest.approx(-forces[1, 2]) and abs(forces[0, 2]) > 0.1 and np.isfinite(energy)
    code, out, _ = mlff("time", MODEL, tmp_path / "small", "--calls", "2", "--json")
    assert code == 0 and json.loads(out)["n_atoms"] == 2


def test_xyz_that_resembles_it(tmp_path):
    """Comments of XYZ that look like a header, and a data file with a number as its title and many comments."""
    for comment in ("2 atoms of a molecule", "2 atoms", "2 atom types"):
        (tmp_path / "a.xyz").write_text(f"2\n{comment}\nO 0 0 0\nH 0 0 0.97\n")
        assert evaluate(tmp_path / "a.xyz")[1].shape == (2, 3)
    (tmp_path / "small").write_text("24\n" + 30 * "# comment\n" + SMALL.split("title")[1])
    assert evaluate(tmp_path / "small")[1].shape == (2, 3)


def test_structures_from_a_pipe(tmp_path):
    """A pipe is read once: a second frame that begins at a buffer's border is not the first."""
    atoms = "O 0 0 0\nH 0 0 0.97\n"
    first = f"2\nname=first {'x' * 5000}=1\n{atoms}"
    text = (
        first[: first.index("x")]
        + "x" * (4096 - len(first) + 5000)
        + first[first.index("=1\n") :]
        + f"2\nname=second\n{atoms}"
    )
    assert text.index("2\nname=second") == 4096
    words = [PROGRAM, "evaluate", MODEL, "/dev/stdin", "--json"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert [s["name"] for s in json.loads(done.stdout)["structures"]] == ["first", "second"], done


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("title", "made by write_data, units = lj", "units are neither metal nor real"),
        ("2 atom types", "0 atom types", "line 4: a positive number"),
        ("0.0 20.0 zlo zhi", "", "line 9: the header needs"),
        ("0.0 20.0 zlo zhi", "20.0 0.0 zlo zhi", "line 7: bounds of the box"),
        ("0.0 20.0 zlo zhi", "0 20 zlo zhi\n1 0 0 avec", "general triclinic"),
        ("1 1.008", "1 5.0", "line 11: no element has this mass"),
        ("1 1.008", "H 1.008", "line 11: type labels are not supported: write the file with `write_data"),
        ("7 2 -0.8", "7 O -0.8", "type labels are not supported: write the file with"),
        ("2 15.999 # oxygen", "", "line 16: the type has no mass"),
        ("# charge", "# sphere", "the atom style is none of atomic, charge, molecular, full"),
        ("# charge", "", "line 16: the line does not fit atom style atomic"),
        ("7 2 -0.8", "3 2 -0.8", "two atoms have the same ID"),
        ("7 2 -0.8 1.0", "7 2 -0.8 nan", "the line does not fit atom style charge"),
        ("3 1 0.4 1.0 2.0 3.97\n", "", "the file ends before the last atom"),
        ("3 1 0.4 1.0 2.0 3.97\n", "3 1 0.4 1.0 2.0 3.97\n4 1 0.4 1.0 2.0 5.0\n", "more atoms than in the header"),
        ("Masses\n\n1 1.008\n2 15.999 # oxygen\n", "", "Masses must come before Atoms"),
    ],
)
def test_bad_files_are_one_error(old, new, error, tmp_path):
    assert SMALL.count(old) >= 1
    (tmp_path / "small").write_text(SMALL.replace(old, new, 1))
    code, out, text = mlff("evaluate", MODEL, tmp_path / "small")
    assert code == 2 and not out and error in text and text.count("\n") == 1 and str(tmp_path) in text, text
