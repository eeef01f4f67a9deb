"""Teachers: what gives energies, forces and stress of structures. teacher_lammps.py and teacher_ase.py have two more.

A teacher has
  identity      {kind, name, sha256 (of the model, the commands, ...), versions}, known before anything is labelled
  derivatives   whether forces are derivatives of the energy; None: not known
  label(frames) for each frame {energy eV, forces [N, 3] eV/A, stress [3, 3] eV/A^3 or None, atom_energies [N] or None}
  close()       ends its process
"""

import hashlib
import json
import os
import tempfile
import time

import numpy as np

from ..model import engine, modelfile, reference
from ..model.structures import write_xyz
from . import labels
from .process import Died, Program, TeacherError

TIMEOUT = 600.0  # s for one structure


def digest(*parts):
    """Hash of texts and of the content of files that are given as ("file", path)."""
    total = hashlib.sha256()
    for part in parts:
        text = modelfile.sha256_of(part[1]) if isinstance(part, tuple) else part
        total.update(text.encode() + b"\0")
    return total.hexdigest()


def network_digest(head):
    """Hash of what a model file computes: it names the weights by their hash, and what it says of itself may change."""
    keys = ("weights", head["architecture"], "elements", "repulsion")
    network = json.dumps({key: head[key] for key in keys if key in head})
    return digest(network, json.dumps(head.get("energy_offsets"), sort_keys=True))


class ModelTeacher:
    """A model file, evaluated by one process of the program mlff."""

    def __init__(self, model, precision="fp32", program=None, timeout=TIMEOUT):
        self.path = os.path.abspath(modelfile.model_paths(model)[0])
        head = modelfile.read_head(self.path)
        if precision not in ("fp32", "fp64", "mixed"):
            raise TeacherError(f"precision {precision}: fp32, fp64 or mixed are possible")
        self.precision, self.timeout, self.program = precision, timeout, engine.find_program(program)
        self.elements = head["elements"]
        self.derivatives = head["architecture"] not in reference.DIRECT
        self.process, self.folder = None, tempfile.TemporaryDirectory(prefix="mlff-label-")
        self.structures = os.path.join(self.folder.name, "structures.xyz")
        self.identity = {
            "kind": "mlff",
            "name": head["name"],
            "sha256": network_digest(head),
            "versions": f"{self._version()}, precision {precision}",
        }

    def _version(self):
        process = Program([self.program, "--version"], "mlff --version")
        version = process.line(time.monotonic() + 60)
        process.stop()
        return version

    def label(self, frames):
        for frame in frames:
            unknown = sorted(set(frame["elements"]) - set(self.elements))
            if unknown:
                raise TeacherError(
                    f"{frame['source']}: element {unknown[0]} is unknown to the model {self.identity['name']}, which "
                    f"has {' '.join(self.elements)}"
                )
        if self.process is None:
            self.process = Program([self.program, "batch"], "mlff batch")
        write_xyz(self.structures, frames)
        command = f'evaluate "{self.path}" "{self.structures}" --precision {self.precision} --json'
        try:
            lines, end = self.process.batch(command, time.monotonic() + self.timeout * len(frames))
        except Died:
            self.process = None
            raise
        if end["status"]:
            raise TeacherError(end["error"].replace(self.structures + ", ", ""))
        return [self._one(r, f) for r, f in zip(json.loads("".join(lines))["structures"], frames)]

    def _one(self, r, frame):
        xx, yy, zz, xy, xz, yz = r["virial"]
        unsure = r.get("atom_uncertainties")  # null: infinite
        virial = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return {
            "energy": r["energy"],
            "forces": np.array(r["forces"], float).reshape(-1, 3),
            "stress": None if frame["cell"] is None else -virial / abs(np.linalg.det(frame["cell"])),
            "atom_energies": np.array(r["atom_energies"], float) if "atom_energies" in r else None,
            "uncertainties": None if unsure is None else np.array([np.inf if u is None else u for u in unsure], float),
        }

    def close(self):
        if self.process:
            self.process.stop()
        self.process = None
        self.folder.cleanup()


class FileTeacher:
    """A file of labels that somebody else has made. names: what they are called there (extxyz.STANDARD); limit: of the
    stress, GPa. Attribute: notes, on what could not be checked."""

    derivatives = None

    def __init__(self, path, names=None, limit=None):
        self.notes = []
        self.frames = labels.read_labels(path, names, limit, self.notes)
        self.found = {labels.structure_key(f): f for f in self.frames}
        makers = {tuple(text for _, text in labels.teacher_of(f)[:2]) for f in self.frames} - {()}
        makers_text = ", labelled by " + " and ".join(sorted(" ".join(m) for m in makers)) if makers else ""
        self.identity = {
            "kind": "labels",
            "name": os.path.basename(path) + makers_text,
            "sha256": modelfile.sha256_of(path),
            "versions": "none",
        }

    def label(self, frames):
        out = []
        for frame in frames:
            mine = self.found.get(labels.structure_key(frame))
            if mine is None:
                raise TeacherError(f"{frame['source']}: {self.identity['name']} has no labels of this structure")
            out.append({key: mine[key] for key in ("energy", "forces", "stress", "atom_energies")})
        return out

    def close(self):
        pass
