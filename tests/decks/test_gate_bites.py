"""Regressions that are planted break the rule of examples/ci that is about them, and the build as it is breaks none.
The others of planted.py take longer: `.venv/bin/python tests/decks/planted.py`."""

import os
import shutil
import subprocess

import nightly
import planted
import pytest

from mlff_tools.bench import profiles, work
from mlff_tools.model.lammps import LammpsError, find_lmp

SLOW = ("an extra copy of 800 kB", "no memory shared by ranks", "ghosts farther than needed")
QUICK = [plant for plant in planted.PLANTS if plant.name not in SLOW]
COMPILER = "12.2.0"  # with which examples/ci/counts was stored


def needs(how):
    """Skips what cannot be counted here."""
    if how == "instructions" and not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed, which counts instructions")
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        if how == "instructions" and "avx2" not in f.read():
            pytest.skip("examples/ci/counts has the work of processors with AVX2")


def test_slow_ones_are_there():
    assert all(name in [plant.name for plant in planted.PLANTS] for name in SLOW)


@pytest.mark.parametrize(
    "plant",
    [pytest.param(p, id=p.name, marks=[nightly.only] if p.how in ("instructions", "speed") else []) for p in QUICK],
)
def test_caught(plant):
    needs(plant.how)
    found = planted.catch(plant)
    assert plant.metric in found, f"{plant.metric} does not catch {plant.name}; broken: {found}"


CASES = [(system, model) for system, models in planted.COUNTED.items() for model in models]
SHORT = ("water-xs", "nvt")  # of make test


def counted_here(plant):
    """Skips where counts differ for another reason than a change of mlff."""
    needs(plant.how)
    stored = profiles.read(os.path.join(planted.COUNTS, f"{plant.case}.json"))
    help_text = subprocess.run([find_lmp(), "-help"], capture_output=True, text=True, check=False).stdout
    if stored["context"]["lammps"] not in help_text:
        pytest.skip(f"examples/ci/counts was stored with LAMMPS {stored['context']['lammps']}")
    version = subprocess.run(["cc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    if plant.how == "instructions" and version != COMPILER:
        pytest.skip(f"examples/ci/counts was stored with gcc {COMPILER}, here is {version}")
    return planted.catch(plant)


@pytest.mark.parametrize("how", ["plain", "ranks", "instructions"])
@pytest.mark.parametrize("protocol", ["nve", "nvt", "npt"])
@pytest.mark.parametrize("system, model", CASES)
def test_this_build(system, model, protocol, how):
    """The gate of this project: a step of a shipped model does no more work than examples/ci/counts says. What needs
    more renews it: examples/ci/gate.sh models/NAME.yaml --store-work examples/ci/counts."""
    if not nightly.NIGHTLY and ((model, protocol) != SHORT or how == "instructions"):
        pytest.skip(nightly.REASON)
    found = counted_here(planted.Plant("nothing", how, "", model=model, system=system, protocol=protocol))
    assert not found, f"a step does more work than was stored: {found}"


@nightly.only
@pytest.mark.parametrize("protocol", ["nve", "npt"])
@pytest.mark.parametrize("system, model", CASES)
def test_slower_steps_are_caught(system, model, protocol):
    """Scalar kernels on one rank and more ghost atoms on two, with each shipped model."""
    for how, metric, words in (
        ("instructions", "instructions_per_atom", planted.GENERIC),
        ("ranks", "message_bytes_per_step", ("--var", "ghosts=12")),
    ):
        plant = planted.Plant(metric, how, metric, words, model=model, system=system, protocol=protocol)
        assert metric in counted_here(plant), plant


def test_every_shipped_student_is_counted():
    shipped = {name.removesuffix(".yaml") for name in os.listdir(planted.cases.MODELS) if name.endswith(".yaml")}
    others = {"targets", *(f"water-benzene-{role}" for role in ("student", "teacher", "ensemble"))}  # and examples
    others |= {"nequix-oam-1-pft", "tensornet-matpes-r2scan", "tensornet-local-matpes-pbe"}
    assert {model for _, model in CASES} == shipped - others


def test_self_test_refuses_wrong_forces(tmp_path):
    """Forces 1 % too large do not pass the self-test of the right ones, with which every run begins."""
    path = planted.model(str(tmp_path), 1.01)
    head, tensors = planted.modelfile.read(path)
    head["self_test"] = planted.modelfile.load_yaml(planted.STUDENT)["self_test"]
    planted.modelfile.write(path.removesuffix(".yaml"), head, tensors)
    done = subprocess.run([planted.MLFF, "verify", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "0 of 4 passed" in done.stdout, done.stdout


def test_counts(tmp_path):
    """What the library counts: allocations, their bytes, what is not freed; and texts that are no counts."""
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdlib.h>\nint main(void)\n{\n  void *volatile kept = malloc(1000);\n"
        "  for (int k = 0; k < 10; k++) { void *volatile p = calloc(k + 1, 100); free((void *) p); }\n"
        "  void *volatile moved = realloc(malloc(10), 2000);\n  return !kept || !moved;\n}\n"
    )
    subprocess.run(["cc", "-O0", source, "-o", tmp_path / "program"], check=True)
    environment = {**os.environ, "LD_PRELOAD": work.library(str(tmp_path))}
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True, text=True, check=True)
    found = work.counted(done.stderr, "program")
    assert found["allocations"] == 13 and found["allocated_bytes"] == 1000 + 5500 + 10 + 2000, found
    assert 3000 <= found["leaked_bytes"] < 3100 and found["messages"] == 0, found
    with pytest.raises(LammpsError, match="did not count"):
        work.counted("nothing", "program")


def test_what_mpi_allocates_is_not_counted(tmp_path):
    """Room that MPI makes for messages that come early is left out, as it is a matter of timing."""
    library, program = tmp_path / "libearly.so", tmp_path / "program"
    room = "void *volatile room = malloc(1 << 20); return !room;"
    (tmp_path / "early.c").write_text(
        "#include <stdlib.h>\n#include <stdint.h>\ntypedef uintptr_t w;\n"
        "int MPI_Type_size(w t, int *size) { *size = 8; return 0; }\n"
        f"int MPI_Recv(w a, int n, w t, w f, w g, w c, w s) {{ {room} }}\n"
        f"int MPI_Send(w a, int n, w t, w f, w g, w c) {{ {room} }}\n"
    )
    (tmp_path / "program.c").write_text(
        "#include <stdlib.h>\n#include <stdint.h>\ntypedef uintptr_t w;\n"
        "int MPI_Recv(w, int, w, w, w, w, w), MPI_Send(w, int, w, w, w, w);\n"
        "int main(void)\n{\n  void *volatile kept = malloc(1000);\n"
        "  return !kept || MPI_Recv(0, 1, 0, 0, 0, 0, 0) || MPI_Send(0, 3, 0, 0, 0, 0);\n}\n"
    )
    subprocess.run(["cc", "-O0", "-shared", "-fPIC", tmp_path / "early.c", "-o", library], check=True)
    words = ["cc", "-O0", tmp_path / "program.c", "-o", program, library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(words, check=True)
    environment = {**os.environ, "LD_PRELOAD": work.library(str(tmp_path))}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    found = work.counted(done.stderr, "program")
    assert found["allocations"] == 1 and found["allocated_bytes"] == 1000 and found["leaked_bytes"] < 1100, found
    assert found["messages"] == 1 and found["message_bytes"] == 24, found


def test_bytes_of_lackey():
    text = "==1== guest instrs:  1,200\n==1==    I8   10    5   3\n==1==    V256   2    1    7\n==1==  D64  0  0  0\n"
    assert work.moved(text) == (1200, 15 + 3 * 32)
    with pytest.raises(LammpsError, match="did not count"):
        work.moved("==1== nothing")
