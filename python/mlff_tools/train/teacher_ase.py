"""A teacher that is a calculator of ASE, in a Python of its own (ase_worker.py), and reading of files by ASE there."""

import json
import os
import sys
import time

import numpy as np

from .. import SOURCE
from .extxyz import quoted
from .process import Died, Program, TeacherError
from .teachers import TIMEOUT, digest

TRIES = 3
HERE = os.path.dirname(os.path.abspath(__file__))
WORKER, READER = os.path.join(HERE, "ase_worker.py"), os.path.join(HERE, "ase_reader.py")


def _environment():
    """The environment of the other Python, without this package, which the program mlff may have added to its path."""
    env, ours = dict(os.environ), os.path.join(SOURCE, "python")
    places = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and os.path.abspath(p) != ours]
    env.pop("PYTHONPATH", None)
    return {**env, "PYTHONPATH": os.pathsep.join(places)} if places else env


class AseTeacher:
    """calculator: "module:function", which is called with `arguments` and returns a calculator of ASE."""

    derivatives = None

    def __init__(self, calculator, arguments=None, python=None, place=".", timeout=TIMEOUT, tries=TRIES):
        module, _, function = calculator.partition(":")
        if not module or not function:
            raise TeacherError(
                f"the calculator is '{calculator}': module:function is expected, as ase.calculators.emt:EMT"
            )
        self.calculator, self.arguments, self.place = calculator, dict(arguments or {}), place
        self.python, self.timeout, self.tries, self.process = python or sys.executable, timeout, tries, None
        about = self._start()
        files = [str(v) for v in self.arguments.values() if isinstance(v, str)]
        files = [p for p in (os.path.join(place, f) for f in files) if os.path.isfile(p)]
        files += [about["file"]] if about["file"] and os.path.isfile(about["file"]) else []
        self.identity = {
            "kind": "ase",
            "name": calculator,
            "sha256": digest(calculator, json.dumps(self.arguments, sort_keys=True), *(("file", f) for f in files)),
            "versions": ", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items())),
        }

    def _start(self):
        words = [self.python, WORKER]
        self.process = Program(words, f"the calculator {self.calculator}", cwd=self.place, env=_environment())
        return self._ask({"calculator": self.calculator, "arguments": self.arguments}, self.timeout)

    def _ask(self, question, seconds):
        self.process.send(json.dumps(question) + "\n")
        return self._answer(seconds)

    def _answer(self, seconds):
        try:
            line = self.process.line(time.monotonic() + seconds)
        except Died:
            self.process = None
            raise
        answer = json.loads(line)
        if "error" in answer:
            raise TeacherError(f"{self.process.name} in {self.python} failed: {answer['error']}")
        return answer

    def label(self, frames):
        question = {"frames": [self._question(f) for f in frames]}
        for k in range(self.tries + 1):
            try:
                if self.process is None:
                    self._start()
                answer = self._ask(question, self.timeout * len(frames))
                break
            except Died as e:
                if k == self.tries or len(frames) > 1:  # one by one they are asked again
                    often = f", {k + 1} times" if k else ""
                    raise Died(f"{frames[0]['source']}: {e}{often and ' (tried' + often + ')'}") from e
        return [self._one(r) for r in answer["results"]]

    def follow(self, frame, question, steps):
        """Answers to a question about a frame, up to that with the key `exploded`; each takes at most so many steps."""
        if self.process is None:
            self._start()
        answers = [self._ask({**question, "frame": self._question(frame)}, self.timeout * steps)]
        while "exploded" not in answers[-1]:
            answers.append(self._answer(self.timeout * steps))
        return answers

    def _question(self, frame):
        cell = None if frame["cell"] is None else frame["cell"].tolist()
        return {"elements": frame["elements"], "positions": frame["positions"].tolist(), "cell": cell}

    def _one(self, r):
        stress = None
        if r["stress"] is not None:
            xx, yy, zz, yz, xz, xy = r["stress"]
            stress = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        energies = None if r["energies"] is None else np.array(r["energies"])
        return {"energy": r["energy"], "forces": np.array(r["forces"]), "stress": stress, "atom_energies": energies}

    def close(self):
        if self.process:
            self.process.stop()
        self.process = None


def read_by_ase(path, python=None):
    """Structures of a file in any format that ASE reads, by the ASE of `python` (default: this one)."""
    python = python or sys.executable
    process = Program([python, READER, os.path.abspath(path)], "ASE", env=_environment())
    answer = json.loads(process.line(time.monotonic() + 600))
    process.stop()
    if answer.get("missing"):
        raise TeacherError(
            f"{path}: only extended XYZ is read without ASE: {python} -m pip install ase, or --python PATH of a Python "
            "that has it"
        )
    if "error" in answer:
        raise TeacherError(f"{path}: ASE cannot read it: {answer['error']}")
    frames = []
    for k, f in enumerate(answer["frames"], 1):
        source = f"{path}, frame {k}"
        if len(set(f["pbc"])) > 1:
            raise TeacherError(
                f"{source}: pbc is {f['pbc']}: a structure must be periodic in all directions or in none"
            )
        if not f["elements"]:
            raise TeacherError(f"{source}: holds no atom")
        cell = np.array(f["cell"], float) if f["pbc"][0] else None
        if cell is not None and abs(np.linalg.det(cell)) < 1e-6:
            raise TeacherError(f"{source}: the vectors of the cell span no volume")
        frames.append({"elements": f["elements"], "positions": np.array(f["positions"], float), "cell": cell})
        rows = {name: [" ".join(map(str, np.ravel(x))) for x in values] for name, values in f["columns"].items()}
        info = {"occupancy": quoted(f["occupancy"])} if f["occupancy"] else {}
        frames[-1].update(name=source, source=source, info=info, columns={n: ("R", r) for n, r in rows.items()})
    if not frames:
        raise TeacherError(f"{path}: holds no frame")
    return frames
