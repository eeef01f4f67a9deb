"""LAMMPS' own regression tester (tools/regression-tests of its sources) runs the benchmark decks under valgrind: no use
of memory that is not there or was never written, nothing lost, and the numbers of runs without valgrind."""

import os
import re

import pytest
from harness import LMP
from testers import start

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTER = "/opt/lammps/tree/tools/regression-tests/run_tests.py"
DECKS = {  # variables of in.bench
    "water_npt": {"protocol": "npt"},
    "water_compared": {
        "protocol": "nve",
        "ghosts": 6,
        "options": "table no compare {models}/water-benzene-student.yaml every 3",
    },
    "silicon_nvt": {"system": "silicon"},
    "benzene_ensemble": {
        "system": "benzene",
        "protocol": "nve",
        "potential": "mlff",
        "model": "{models}/water-benzene-ensemble.yaml",
    },
}
FOR_ALL = {
    **{"steps": 6, "warmup": 2, "equilibrate": 3, "thermo": 2, "settings": "precision fp64"},
    "options": "table no",  # the tester takes lines with as many words as columns for rows of thermo
}
TOLERANCE = "{abs: 1.0e-9, rel: 1.0e-9}"
CONFIG = """---
  lmp_binary: ""
  nprocs: "1"
  args: "-cite none"
  mpiexec: >-
    valgrind -q --log-file={folder}/valgrind.%p --leak-check=full --show-leak-kinds=definite --suppressions={folder}/mpi
  mpiexec_numproc_flag: ""
  tolerance: {{PotEng: {one}, TotEng: {one}, Press: {one}, Temp: {one}}}
  nugget: 1.0
  epsilon: 1e-16
"""
OF_MPI = """{
   lost by MPI_Init
   Memcheck:Leak
   match-leak-kinds: definite
   fun:malloc
   ...
   fun:PMPI_Init
}
{
   a probe of UCX
   Memcheck:Param
   process_vm_readv(lvec[...])
   fun:process_vm_readv
}
"""

pytestmark = pytest.mark.skipif(
    not os.path.exists(TESTER), reason=f"{TESTER} is not there: scripts/kokkos_root.sh make"
)


def launched(words, folder):
    done = start(words, folder)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_decks(tmp_path):
    models, decks = os.path.join(ROOT, "models"), os.path.join(ROOT, "benchmarks", "decks")
    more = {"folder": decks, "plugin": os.environ["MLFF_PLUGIN"]}
    for name, variables in DECKS.items():
        chosen = {**FOR_ALL, **more, **variables}
        lines = [f'variable {key} index "{str(value).format(models=models)}"' for key, value in chosen.items()]
        (tmp_path / f"in.{name}").write_text("\n".join([*lines, f"include {decks}/in.bench", ""]))
        launched([LMP, "-in", f"in.{name}", "-cite", "none", "-log", f"log.1Jan26.{name}.g++.1"], tmp_path)
    (tmp_path / "mpi").write_text(OF_MPI)
    (tmp_path / "config.yaml").write_text(CONFIG.format(folder=tmp_path, one=TOLERANCE))
    (tmp_path / "list").write_text("".join(f"{tmp_path}/in.{name}\n" for name in DECKS))
    files = (f"--lmp-bin={LMP}", f"--config-file={tmp_path}/config.yaml", f"--list-input={tmp_path}/list")
    output = launched(["python3", TESTER, *files], tmp_path)
    assert re.search(rf"numerical tests passed.*: {len(DECKS)}\b", output), output[-3000:]
    found = [path.read_text() for path in tmp_path.glob("valgrind.*")]  # of errors alone
    assert len(found) == len(DECKS) and not any(found), "\n".join(found)
