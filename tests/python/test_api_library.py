"""The shared library and its binding in Python: what it exports, layouts of structures, versions, where it is found."""

import os
import re
import shutil
import subprocess
import sys

import pytest

import mlff
from mlff import library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = [os.path.join(ROOT, "include", "mlff", name) for name in ("mlff.h", "mlff_watch.h", "mlff_xyz.h")]
PROFILES = os.path.join(ROOT, "include", "mlff", "mlffprof.h")


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def compiled(tmp_path, body):
    """What a C program with the public header prints."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler (cc)")
    source, program = tmp_path / "print.c", tmp_path / "print"
    source.write_text(
        '#include "mlff/mlff_watch.h"\n#include "mlff/mlff_xyz.h"\n#include "mlff/mlffprof.h"\nint main(void)\n{\n'
        + body
        + "  return 0;\n}\n"
    )
    include = os.path.join(ROOT, "include")
    subprocess.run(["cc", "-std=c11", f"-I{include}", str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("name", {**library.STRUCTURES, **library.PROFILE_STRUCTURES})
def test_layout(name, tmp_path):
    """Sizes and places of all fields are those of the compiler, and no field is missing."""
    structure = {**library.STRUCTURES, **library.PROFILE_STRUCTURES}[name]
    fields = [field for field, _ in structure._fields_]
    print_all = f'  printf("%zu\\n", sizeof({name}));\n'
    for field in fields:
        print_all += f'  printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *) 0)->{field}));\n'
    size, *rest = map(int, compiled(tmp_path, print_all))
    here = [(getattr(structure, field).offset, getattr(structure, field).size) for field in fields]
    assert list(zip(rest[::2], rest[1::2])) == here
    assert size == __import__("ctypes").sizeof(structure)
    declared = re.search(
        rf"typedef struct {name} \{{(.*?)\n\}} {name};", "".join(map(text_of, [*HEADERS, PROFILES])), re.S
    )[1]
    declared = re.sub(r"/\*.*?\*/", "", declared, flags=re.S)
    declared = re.sub(r"\([^()]*,[^()]*\)", "()", declared)  # of functions
    assert sum(len(line.split(",")) for line in declared.split(";") if line.strip()) == len(fields)


def test_constants(tmp_path):
    names = [f"MLFF_{name.upper()}" for name in library.TRAITS]
    names += ["MLFF_BOUNDARY_PERIODIC", "MLFF_N_WATCHED", "MLFF_VERDICT_STOP"]
    values = compiled(tmp_path, "".join(f'  printf("%d\\n", (int) {name});\n' for name in names))
    others = [library.PERIODIC, library.N_WATCHED, library.VERDICT_STOP]
    assert list(map(int, values)) == [*library.TRAITS.values(), *others]


def test_versions_agree():
    header = re.search(r'#define MLFF_VERSION "(.*)"', text_of(HEADERS[0]))[1]
    package = re.search(r'^version = "(.*)"', text_of("pyproject.toml"), re.M)[1]
    assert mlff.__version__ == header == package


def test_only_the_api_shows():
    path = library.find_library()
    done = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True)
    found = {line.split()[-1] for line in done.stdout.splitlines() if line.strip()}
    declared = set(re.findall(r"^MLFF_API [^;(]*?(mlff_\w+)\(", "".join(map(text_of, HEADERS)), re.M))
    profiles = set(re.findall(r"^MLFFPROF_API [^;(]*?(mlffprof_\w+)\(", text_of(PROFILES), re.M))
    others = {"mlffprof_host_memory", "mlffprof_compare_latency"}
    assert found == declared | {f for f in profiles if re.match("mlffprof_(report|recorder)_", f)} | others
    assert len(found) > 30


OTHER = """
#include "mlff/mlff.h"
const char *mlff_version(void) {{ return "{version}"; }}
size_t mlff_size_of(const char *type) {{ return type[5] == 'g' ? 8 : {size}; }}
"""


@pytest.fixture
def other(tmp_path):
    """Makes a library of another version, or one whose structures differ."""

    def make(version, size):
        source, path = tmp_path / "other.c", tmp_path / "libother.so"
        rest = (name for name in library.FUNCTIONS if name not in ("mlff_version", "mlff_size_of"))
        source.write_text(
            OTHER.format(version=version, size=size).replace('#include "mlff/mlff.h"', "#include <stddef.h>")
            + "".join(f"void {name}(void) {{}}\n" for name in rest)
        )
        subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
        return str(path)

    if not shutil.which("cc"):
        pytest.skip("no C compiler (cc)")
    return make


def test_other_version_is_refused(other):
    with pytest.raises(mlff.Error, match=r"is of mlff 9.9.9, and this Python package of 0.1.0: install or build them"):
        library.load(other("9.9.9", 0), "0.1.0")


def test_other_structures_are_refused(other):
    with pytest.raises(mlff.Error, match=r"mlff_error has 12 bytes, and 1028 in this .*: build it again"):
        library.load(other("0.1.0", 12), "0.1.0")


def test_what_is_no_library_is_refused(tmp_path):
    path = tmp_path / "libmlff.so"
    path.write_text("text")
    with pytest.raises(mlff.Error, match="libmlff.so: is not the library of mlff 0.1.0.*make build"):
        library.load(str(path), "0.1.0")
    plain = subprocess.run(["cc", "-shared", "-x", "c", os.devnull, "-o", str(path)], check=False)
    if plain.returncode == 0:
        with pytest.raises(mlff.Error, match="undefined symbol"):
            library.load(str(path), "0.1.0")


def test_where_it_is_found(monkeypatch, tmp_path):
    there = library.find_library()
    monkeypatch.setenv("MLFF_LIBRARY", there)
    assert library.find_library() == there
    monkeypatch.setenv("MLFF_LIBRARY", str(tmp_path / "no.so"))
    with pytest.raises(mlff.Error, match=r"\$MLFF_LIBRARY is '.*no.so', which is not a file"):
        library.find_library()
    monkeypatch.delenv("MLFF_LIBRARY")
    monkeypatch.setattr(library, "PACKAGE", str(tmp_path))
    monkeypatch.setattr(library, "SOURCE", str(tmp_path))
    with pytest.raises(mlff.Error, match=r"libmlff.so was not found: `pip install .` or `make build`"):
        library.find_library()


def test_import_needs_neither_lammps_nor_torch_nor_ase():
    code = (
        "import sys, mlff\nmlff.Model('water-xs')\n"
        "print([name for name in ('lammps', 'torch', 'ase', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
