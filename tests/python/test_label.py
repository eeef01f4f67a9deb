"""mlff label: the command from structures to a file of labels, and how it goes on after it was stopped."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time

import helpers
import kills
import numpy as np
import pytest

from mlff_tools.model import lammps
from mlff_tools.train import extxyz, hessian, label, labels

STUDENT = os.path.join(helpers.ROOT, "models", "water-benzene-student.yaml")
SPRINGS = '''
import os, time

class Springs:
    """Atoms on springs. An environment variable names a file that says how it is to behave."""
    implemented_properties = ["energy", "forces"]
    def __init__(self, k=2.0, slow=0.0): self.k, self.slow = k, slow
'''
ASE = """
import os, time
class Atoms:
    def __init__(self, symbols, positions, **more): self.positions, self.calc = positions, None
    def get_potential_energy(self):
        time.sleep(self.calc.slow)
        if os.path.exists("die") and self.positions[0][0] > 8: os._exit(9)
        k = self.calc.k * (1.1 if os.path.exists("changed") else 1.0)
        return k / 2 * sum(x * x for p in self.positions for x in p)
    def get_forces(self): return [[-self.calc.k * x for x in p] for p in self.positions]
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with eleven structures of two atoms, and a calculator of springs."""
    (tmp_path / "springs.py").write_text(SPRINGS)
    (tmp_path / "ase.py").write_text(ASE)
    x = np.random.default_rng(4).normal(size=(11, 2, 3))
    x[:, 0, 0] = np.arange(11)
    frames = [{"elements": ["H", "O"], "positions": p, "cell": None, "info": {"step": str(k)}} for k, p in enumerate(x)]
    (tmp_path / "s.xyz").write_text("".join(map(extxyz.text, frames)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ["s.xyz", "--ase", "springs:Springs", "-o", "out.xyz"]


def run(words, **options):
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    words = [sys.executable, "-m", "mlff_tools", "label", *map(str, words)]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, **options)


def good(words, **options):
    done = run(words, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(words, text, **options):
    done = run(words, **options)
    assert done.returncode == 2 and 'Traceback (most recent call last)\n  File "/' not in done.stderr, done.stderr
    assert done.stderr.startswith("mlff label: error: ") and text in done.stderr, done.stderr
    return done.stderr


def whole(place, words=WORDS, name="whole.xyz"):
    """The bytes of an undisturbed run."""
    good([*words[:-1], name])
    return (place / name).read_bytes()


def test_labels_of_a_command(place):
    text = good(WORDS)
    for words in (
        "11 structures, 22 atoms",
        "teacher: ase springs:Springs",
        "changes by 1.0000 times",
        "frames             11",
    ):
        assert words in text
    frames = labels.read_labels("out.xyz")
    assert [f["info"]["step"] for f in frames] == [str(k) for k in range(11)]
    given = extxyz.read("s.xyz")
    for f, g in zip(frames, given):
        np.testing.assert_array_equal(f["positions"], g["positions"])
        np.testing.assert_array_equal(f["forces"], -2.0 * g["positions"])
        assert f["info"]["teacher_kind"] == "ase" and f["info"]["teacher_derivatives"] == "T"
        assert extxyz.plain(f["info"]["units"]) == labels.UNITS
    assert f"sha256 of its frames {labels.file_hash(frames)}" in text


def test_goes_on_where_it_was_killed(place):
    """Killed at moments of its own and ours, with a frame half written: the same bytes in the end."""
    wanted = whole(place, [*WORDS[:3], "--arguments", '{"slow": 0.05}', *WORDS[3:]])
    words = [sys.executable, "-m", "mlff_tools", "label", *WORDS[:3], "--arguments", '{"slow": 0.05}', *WORDS[3:]]
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    sizes = []
    for part in (0.01, 0.2, 0.4, 0.6, 0.8):
        with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL) as process:
            written = lambda part=part: os.path.exists("out.xyz") and os.path.getsize("out.xyz") >= part * len(wanted)
            kills.kill_when(process.pid, written, 0.05 * part)
        sizes.append(os.path.getsize("out.xyz") if os.path.exists("out.xyz") else 0)
    text = good(words[4:])
    assert (place / "out.xyz").read_bytes() == wanted
    assert any(0 < size < len(wanted) for size in sizes) and "holds" in text, sizes
    for cut in range(1, len(wanted), 173):
        (place / "out.xyz").write_bytes(wanted[:cut])
        file = labels.LabelFile("out.xyz", identity("whole.xyz"))
        file.close()
        content = (place / "out.xyz").read_bytes() if file.frames else b""
        assert bool(file.frames) == os.path.exists("out.xyz")
        assert wanted.startswith(content) and content.count(b"\n") == 4 * len(file.frames)
        assert len(file.frames) == wanted[:cut].count(b"\n") // 4 and content[-1:] in (b"", b"\n")
    (place / "out.xyz").write_bytes(wanted[: len(wanted) // 2])
    good(words[4:])
    assert (place / "out.xyz").read_bytes() == wanted


def identity(path):
    return {key[8:]: text for key, text in labels.teacher_of(extxyz.read(path)[0])}


def test_more_structures_go_behind(place):
    wanted = whole(place)
    frames = extxyz.read("s.xyz")
    (place / "few.xyz").write_text("".join(map(extxyz.text, frames[:4])))
    good(["few.xyz", *WORDS[1:]])
    assert "out.xyz holds 4 frames; 7 of 11 are to be labelled" in good(WORDS)
    assert (place / "out.xyz").read_bytes() == wanted
    assert "0 of 11 are to be labelled" in good(WORDS)
    assert "7 frames of the file are not among these structures" in good(["few.xyz", *WORDS[1:]])


def test_a_teacher_that_dies_loses_nothing(place):
    wanted = whole(place)
    (place / "die").write_text("")
    text = refused(WORDS, "s.xyz, frame 10: the calculator springs:Springs has ended with status 9")
    assert "9 frames are in out.xyz: run the same command to continue after them" in text
    assert wanted.startswith((place / "out.xyz").read_bytes())
    (place / "die").unlink()
    good(WORDS)
    assert (place / "out.xyz").read_bytes() == wanted


def test_hessian_products_of_a_command(place):
    """Products for a share of the training frames: exact for springs, independent of the order of frames and of a
    restart after the teacher died, and covered by the hash of the frame."""
    frames = extxyz.read("s.xyz")
    frames[3]["info"]["split"], frames[5]["info"]["split"] = "test", "train"
    (place / "s.xyz").write_text("".join(map(extxyz.text, frames)))
    (place / "back.xyz").write_text("".join(map(extxyz.text, frames[::-1])))
    words = ["s.xyz", "--hessian", "1", *WORDS[1:]]
    wanted = whole(place, words)
    found = labels.read_labels("whole.xyz")
    assert [hessian.is_known(f) for f in found] == [k != 3 for k in range(11)]
    v, product = np.array([hessian.columns_of(f) for k, f in enumerate(found) if k != 3]).swapaxes(0, 1)
    np.testing.assert_allclose(product, -2.0 * v, atol=1e-11)
    assert 0.8 < v.std() < 1.2 and len(np.unique(v)) == v.size
    (place / "die").write_text("")  # of frame 9 only one of the displaced structures is beyond 8 A
    text = refused(words, "the calculator springs:Springs has ended with status 9 (tried, 4 times)")
    assert "s.xyz, frame 9, " in text and "8 frames are in out.xyz" in text
    (place / "die").unlink()
    good(words)
    assert (place / "out.xyz").read_bytes() == wanted
    some = ["back.xyz", "--hessian", "0.5", *WORDS[1:-1], "some.xyz"]
    assert "Hessian products" in good(some)
    mine = {labels.structure_key(f): f["columns"] for f in labels.read_labels("some.xyz") if hessian.is_known(f)}
    assert 1 < len(mine) < 10 and mine.items() <= {labels.structure_key(f): f["columns"] for f in found}.items()
    assert f"{10 - len(mine)} of its frames stay without" in good([*some[:2], "1", *some[3:]])


def test_whose_hessian_products(place):
    """They belong to the labels of a frame: its hash, a teacher that is a file, and no other teacher."""
    content = whole(place, ["s.xyz", "--hessian", "0.5", *WORDS[1:]]).decode()
    known = [hessian.is_known(f) for f in labels.read_labels("whole.xyz")]
    good(["--labels", "whole.xyz", "-o", "b.xyz"])
    assert [hessian.is_known(f) for f in labels.read_labels("b.xyz")] == known and any(known)
    good(["whole.xyz", *WORDS[1:3], "--arguments", '{"k": 3}', *WORDS[3:]])
    assert not any(map(hessian.is_known, labels.read_labels("out.xyz")))
    first = extxyz.read("whole.xyz")[known.index(True)]
    text = first["columns"]["hessian_product"][1][1]
    (place / "whole.xyz").write_text(content.replace(text, text.replace(".", ".5", 1)))
    refused(["--labels", "whole.xyz", "-o", "c.xyz"], f"frame {known.index(True) + 1}: the frame is not what was")
    words = ["--labels", "b.xyz", "--hessian", "0.1", "-o", "c.xyz"]
    refused(words, "--hessian: a file of labels cannot label the displaced structures that this needs")


def test_a_teacher_that_has_changed(place):
    frames = extxyz.read("s.xyz")
    (place / "few.xyz").write_text("".join(map(extxyz.text, frames[:4])))
    good(["few.xyz", *WORDS[1:]])
    before = (place / "out.xyz").read_bytes()
    (place / "changed").write_text("")
    refused(WORDS, "the teacher does not give the labels of the file any more")
    refused([*WORDS[:3], "--arguments", '{"k": 3}', *WORDS[3:]], "was labelled by another teacher: teacher_sha256 is")
    (place / "changed").unlink()
    with open("springs.py", "a") as f:
        f.write("# another version\n")
    refused(WORDS, "was labelled by another teacher: teacher_sha256 is")
    assert (place / "out.xyz").read_bytes() == before


def test_a_frame_that_was_changed(place):
    content = whole(place)
    lines = content.decode().split("\n")
    lines[6] = lines[6].replace("0.", "1.", 1)
    (place / "out.xyz").write_text("\n".join(lines))
    refused(WORDS, "out.xyz, frame 2: the frame is not what was labelled")
    refused(["--labels", "out.xyz", "-o", "b.xyz"], "out.xyz, frame 2: the frame is not what was labelled")


def test_files_that_are_something_else(place):
    before = (place / "s.xyz").read_bytes()
    refused([*WORDS[:-1], "s.xyz"], "s.xyz, frame 1: does not say who labelled it")
    assert (place / "s.xyz").read_bytes() == before
    for content in ("notes of mine, precious and long\n", "notes of mine, precious and long", "3\n\nH 0 0 0\n"):
        (place / "notes").write_text(content)
        refused([*WORDS[:-1], "notes"], "notes")
        assert (place / "notes").read_text() == content
    refused([*WORDS[:-1], "none/out.xyz"], "none/out.xyz: No such file or directory")


def test_two_runs_at_once(place):
    with open("out.xyz", "ab") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        refused(WORDS, "out.xyz: another run is writing to it")
    good(WORDS)


def test_a_full_disk(place):
    wanted = whole(place)
    limit = len(wanted) * 2 // 3
    text = refused(
        WORDS, "File too large", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    assert "it keeps the" in text
    kept = (place / "out.xyz").read_bytes()
    assert kept and wanted.startswith(kept) and len(extxyz.read("out.xyz")) == wanted[: len(kept)].count(b"\n") // 4
    good(WORDS)
    assert (place / "out.xyz").read_bytes() == wanted


def test_import_of_labels(place):
    """A file of labels by itself: its units are looked at, and it gets an identity."""
    whole(place)
    (place / "dft.xyz").write_text(
        "".join(
            extxyz.text({**f, "info": {"REF_energy": repr(f["energy"])}, "energy": None})
            for f in extxyz.read("whole.xyz")
        )
    )
    refused(["--labels", "dft.xyz", "-o", "b.xyz"], "dft.xyz, frame 1: has no energy; there is REF_energy: name it")
    text = good(["--labels", "dft.xyz", "--keys", "energy=REF_energy", "-o", "b.xyz"])
    assert "teacher: labels dft.xyz" in text
    assert text.count("note: ") == text.count("note: no two frames are close to each other: energies, forces and") == 1
    a, b = labels.read_labels("whole.xyz"), labels.read_labels("b.xyz")
    assert [f["energy"] for f in a] == [f["energy"] for f in b] and b[0]["info"]["teacher_kind"] == "labels"
    good(["--labels", "whole.xyz", "-o", "c.xyz"])
    assert "labelled by ase springs:Springs" in extxyz.plain(extxyz.read("c.xyz")[0]["info"]["teacher_name"])


@pytest.mark.parametrize(
    "words, text",
    [
        (["s.xyz", "-o", "o"], "no teacher: give one of"),
        (["s.xyz", "--mlff", "a", "--ase", "b:c", "-o", "o"], "--mlff and --ase: give one teacher"),
        (["s.xyz", "--mlff", STUDENT, "--types", "H", "-o", "o"], "--types belongs to --lammps"),
        (["s.xyz", "--mlff", STUDENT, "--stress-limit", "9", "-o", "o"], "--stress-limit belongs to --labels"),
        (["none.xyz", "--mlff", STUDENT, "-o", "o"], "none.xyz: there is no such file"),
        (["--mlff", STUDENT, "-o", "o"], "no structures"),
        (["s.xyz", "--mlff", "none", "-o", "o"], "none.yaml, and no model none; there are: "),
        (
            ["s.xyz", "s.xyz", "--mlff", STUDENT, "--elements", "H", "-o", "o"],
            "s.xyz, frame 1: element O is not one of H",
        ),
        (["s.xyz", "t.xyz", "--mlff", STUDENT, "-o", "o"], "t.xyz, frame 1 is the same structure as s.xyz, frame 1"),
        (["empty.xyz", "--mlff", STUDENT, "-o", "o"], "empty.xyz: is empty"),
        (["s.xyz", "--ase", "springs:Springs", "--arguments", "{k: 1}", "-o", "o"], "is not JSON"),
        (["s.xyz", "--ase", "springs:Springs", "--arguments", "[1]", "-o", "o"], "must be names and values"),
        (["--labels", "s.xyz", "--keys", "energie=x", "-o", "o"], "NAME=KEY is expected"),
        (["--labels", "s.xyz", "-o", "o"], "s.xyz, frame 1: has no energy"),
        (["--labels", "high.xyz", "-o", "o"], "high.xyz, frame 1: a stress of 160.2 GPa"),
        (["s.xyz", "copy.xyz", "--mlff", STUDENT, "-o", "o"], "copy.xyz, frame 1, for the test, is a copy of s.xyz"),
        (["site.xyz", "--mlff", STUDENT, "-o", "o"], "site.xyz, frame 1: sites are partly occupied (occupancy 0.5)"),
        (["s.xyz", "--lammps", "none", "-o", "o"], "none: No such file"),
    ],
)
def test_refuses(words, text, place):
    (place / "t.xyz").write_text((place / "s.xyz").read_text())
    (place / "empty.xyz").write_text("")
    columns = "Properties=species:S:1:pos:R:3:"
    cell = 'Lattice="9 0 0 0 9 0 0 0 9" '
    (place / "high.xyz").write_text(f'1\n{cell}{columns}forces:R:3 energy=1 stress="1 0 0 1 0 1"\nH 0 0 0 0 0 0\n')
    (place / "site.xyz").write_text(f"1\n{columns}occupancy:R:1\nH 0 0 0 0.5\n")
    shifted = {**extxyz.read("s.xyz")[4], "info": {"split": "test"}}
    shifted["positions"] = shifted["positions"][:, [2, 0, 1]] + 3.0
    (place / "copy.xyz").write_text(extxyz.text(shifted))
    refused(words, text)
    assert not os.path.exists("o")


def test_help_names_every_option():
    text = label.arguments().format_help()
    for name in ("--mlff", "--lammps", "--ase", "--labels", "--recipe", "--types", "--keys", "examples:"):
        assert name in text


def test_stopped_by_ctrl_c(place):
    words = [sys.executable, "-m", "mlff_tools", "label", *WORDS[:3], "--arguments", '{"slow": 1.0}', *WORDS[3:]]
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # what runs in the background ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=env, preexec_fn=heard, **pipes) as process:
        while not os.path.exists("out.xyz") or not os.path.getsize("out.xyz"):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
    assert process.returncode == 1 and "stopped: " in errors and "run the same command to continue" in errors
    assert len(extxyz.read("out.xyz")) >= 1


def lmp():
    try:
        return lammps.find_lmp()
    except lammps.LammpsError:
        return None


@pytest.mark.skipif(not lmp(), reason="the program lmp was not found")
def test_lammps_on_the_command_line(place):
    """Commands of a file, with comments and units real."""
    (place / "lj").write_text(
        "units real # not metal\npair_style lj/cut 9\npair_coeff * * 0.1 3.1\npair_coeff 1 1 0.2 2.5\n"
    )
    refused(["s.xyz", "--lammps", "lj", "-o", "a.xyz"], "the structures hold H O: which type is which?")
    for name, types in (("a.xyz", "H,O"), ("b.xyz", "O,H")):
        text = good(["s.xyz", "--lammps", "lj", "--types", types, "-o", name])
        assert "teacher: lammps lj/cut 9 (LAMMPS" in text and "frames             11" in text
    a, b = (labels.read_labels(name) for name in ("a.xyz", "b.xyz"))
    assert [f["energy"] for f in a] == pytest.approx([f["energy"] for f in b], rel=1e-12)  # one pair of unlike atoms
    assert a[0]["info"]["teacher_sha256"] != b[0]["info"]["teacher_sha256"]


@pytest.mark.skipif(not helpers.program(), reason="the program mlff was not found")
def test_a_recipe(place):
    (place / "sub").mkdir()
    (place / "sub" / "r.yaml").write_text(
        "structures:\n"
        "  - molecule: water\n    rattle: 0.05\n    copies: 3\n"
        "  - {files: ../s.xyz, every: 5}\n"
        f"teacher:\n  mlff: {STUDENT}\n  precision: fp64\n"
    )
    text = good(["--recipe", "sub/r.yaml", "-o", "out.xyz"])
    assert "7 structures, 18 atoms" in text and "precision fp64" in text
    again = good(["--recipe", "sub/r.yaml", "-o", "out.xyz"])
    assert "0 of 7 are to be labelled" in again
    frames = labels.read_labels("out.xyz")
    assert [len(f["elements"]) for f in frames] == [3] * 4 + [2] * 3
    assert all(f["atom_energies"] is not None and f["info"]["teacher_derivatives"] == "T" for f in frames)
