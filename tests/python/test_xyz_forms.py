"""One reader of extended XYZ, for the program and for Python: what ASE writes and reads, and what is refused."""

import ctypes
import glob
import io
import os
import random
import subprocess

import numpy as np
import pytest

from mlff_tools.train import extxyz
from mlff_tools.train.extxyz import FrameError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEDS = sorted(glob.glob(os.path.join(ROOT, "tests", "fuzz", "seeds", "xyz", "*-form-*")))
BEYOND_ASE = ("fort", "nestedbrackets")  # ASE refuses Fortran's exponents and brackets within brackets
MLFF = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
NUMBERS = "5.7 0 0 2.8 4.9 0 0 0 6.0"


def read_by_engine(data):
    """(atomic numbers, positions, cell, pbc, {key: text}) of the first frame."""
    frames = extxyz.parsed_frames("x.xyz", data)  # which hold the memory of a frame
    frame = next(frames)
    n = frame.n_atoms
    numbers = np.frombuffer(ctypes.string_at(frame.numbers, 4 * n), np.int32).tolist()
    positions = np.frombuffer(ctypes.string_at(frame.positions, 24 * n)).reshape(n, 3)
    keys = {key.name.decode(): key.text and key.text.decode() for key in frame.keys[: frame.n_keys]}
    return numbers, positions.tolist(), np.array(frame.cell).tolist(), [bool(p) for p in frame.pbc], keys


def read_by_ase(text):
    """The same without keys; an error of any kind where ASE has one."""
    read_xyz = pytest.importorskip("ase.io.extxyz").read_xyz
    (atoms,) = read_xyz(io.StringIO(text), 0)
    return atoms.numbers.tolist(), atoms.positions.tolist(), atoms.cell.array.tolist(), atoms.pbc.tolist()


@pytest.mark.parametrize("path", SEEDS, ids=os.path.basename)
def test_file_is_read_as_ase_does_or_refused(path):
    with open(path, "rb") as f:
        data = f.read()
    if os.path.basename(path).startswith("bad"):
        with pytest.raises(FrameError, match=r"^x.xyz:\d+: [^\n]+$"):
            read_by_engine(data)
        return
    found = read_by_engine(data)[:4]
    if path.endswith(BEYOND_ASE):
        data = data.replace(b"D+", b"E+").replace(b"D-", b"E-").replace(b"[[", b"[").replace(b"],[", b",")
        data = data.replace(b"]]", b"]")
    assert found == read_by_ase(data.decode("utf-8-sig"))


def test_all_forms_of_the_review_are_here():
    assert len(SEEDS) == 29


LATTICES = [f'Lattice="{NUMBERS}"'] * 3 + [f"Lattice='{NUMBERS}'", f"Lattice={{{NUMBERS}}}", f"Lattice=[{NUMBERS}]"]
LATTICES += [f'Lattice = "{NUMBERS}"', f'Lattice ="{NUMBERS}"', f'"Lattice"="{NUMBERS}"', f'lattice="{NUMBERS}"', ""]
PBCS = ['pbc="T T F"', "pbc='T F T'", "pbc=[T, T, F]", "pbc={T T F}", 'pbc = "F F F"', "pbc=T", "pbc=TTF", "", "pbc"]
PBCS += ['pbc="1 1 0"', 'PBC="T T F"', 'pbc="true True FALSE"', 'pbc="t t f"', 'pbc="T T"', 'pbc="{T T F"']
PROPERTIES = [
    "Properties=species:S:1:pos:R:3",
    "",
    "Properties = species:S:1:pos:R:3",
    "properties=species:S:1:pos:R:3",
]
OTHERS = [r'note="a \" b"', "note=", "x=1", "a=b=c", "a = b = c", "a=b=", "free", '"free text"', "it's", "b=3]", 'c="x']
OTHERS += ['d=x"y', "e={1 {2} 3}", "f=[[1,2],[3,4]]", r'h="_JSON {\"a\": 1}"', r"i=a\ b", "k=(a b)", "l=(a", "s=f{x"]
OTHERS += ['m="Lattice = 3"', "Lattice constant", "n=pbc", "o==p", "=q", "r=C[13]", "t=}", "\\", "u='a \"b\" c'", "é=ü"]


def random_line(rng):
    items = [rng.choice(LATTICES), rng.choice(PBCS), rng.choice(PROPERTIES)]
    items += [rng.choice(OTHERS) for _ in range(rng.randint(0, 3))]
    rng.shuffle(items)
    line = "".join(item + rng.choice((" ", "  ", "\t")) for item in items if item)
    if rng.random() < 0.2:
        k = rng.randrange(len(line) + 1)
        line = line[:k] + rng.choice(("", '"', "'", "[", "}", "=", " ", "\\")) + line[k + rng.randint(0, 1) :]
    return line


def test_no_line_is_read_in_another_way_than_by_ase():
    rng, n_read = random.Random(4711), 0
    for _ in range(4000):
        text = f"2\n{random_line(rng)}\nAl 0.5 0.25 -1e0\nO 1 2 3\n"
        try:
            found = read_by_engine(text.encode())[:4]
        except FrameError:
            continue
        try:
            wanted = read_by_ase(text)
        except pytest.skip.Exception:
            raise
        except Exception:
            continue  # ASE refuses
        assert found == wanted, text
        n_read += 1
    assert n_read > 400


def test_what_ase_writes(tmp_path):
    """Texts with quotes, brackets, backslashes and names of keys, before and after pbc, and arrays of all kinds."""
    ase = pytest.importorskip("ase")
    rng = random.Random(7)
    letters = ["a", " ", '"', "'", "{", "}", "[", "]", "(", ")", "=", ",", "\\x", "Lattice", "pbc", "T", "1", "é", ":"]
    n_read = 0
    for k in range(300):
        pbc = [rng.random() < 0.5 for _ in range(3)]
        atoms = ase.Atoms("AlO", [[0, 0, 0], [1, 2, 3]], cell=[4, 5, 6], pbc=pbc)
        atoms.new_array("tag", np.array([3, -4]))
        atoms.new_array("move", np.array([True, False]))
        atoms.new_array("spin", np.array([[0.5, -1e-9], [1e300, 2.0]]))
        for name in rng.sample(["note", "a", "zz"], 2):
            atoms.info[name] = "".join(rng.choice(letters) for _ in range(rng.randint(1, 6)))
        atoms.info["list"] = np.arange(3)
        path = tmp_path / f"{k}.xyz"
        atoms.write(str(path), format="extxyz")
        try:
            found = read_by_engine(path.read_bytes())
        except FrameError as e:
            assert "the comment line cannot be read" in str(e)
            continue
        n_read += 1
        assert found[:3] == (atoms.numbers.tolist(), atoms.positions.tolist(), atoms.cell.array.tolist())
        assert found[3] == pbc, path.read_text()
    assert n_read > 200


def test_program_and_python_say_the_same(tmp_path):
    """The same text, with the same line, from `mlff evaluate` and from the reader of labels."""
    for k, text in enumerate(
        ("1\nLattice = 4\nH 0 0 0\n", '1\npbc="T T T"\nH 0 0 0\n', "2\n\nH 0 0 0\n", "1\n\nQq 0 0 0\n")
    ):
        path = tmp_path / f"{k}.xyz"
        path.write_text(text)
        done = subprocess.run([MLFF, "evaluate", "water-xs", str(path)], capture_output=True, text=True, check=False)
        with pytest.raises(FrameError) as e:
            extxyz.read(str(path))
        assert done.returncode == 2 and done.stderr.strip() == f"mlff: {e.value}"


def test_line_ends_of_any_system():
    one = read_by_engine(b"1\nname=a\nH 0 0 0\n")
    for end in (b"\r\n", b"\r"):
        assert read_by_engine(b"\xef\xbb\xbf1\nname=a\nH 0 0 0\n".replace(b"\n", end)) == one


def test_cut_is_told_from_other_errors():
    with pytest.raises(extxyz.Cut):
        list(extxyz.parse("x", b"1\n\nH 0 0 0\n2\n\nH 0 0 0\n"))
    with pytest.raises(extxyz.NotRead) as e:
        list(extxyz.parse("x", b"1\n\nH 0 0\n"))
    assert not isinstance(e.value, extxyz.Cut)


def test_texts_that_read_like_keys_are_not_written():
    assert extxyz.quoted("pbc") == '"pbc"'
    with pytest.raises(FrameError, match="cannot be written into the comment line"):
        extxyz.quoted('pbc = "T T T"')
    with pytest.raises(FrameError, match="it has a line break"):
        extxyz.quoted("a\nb")
