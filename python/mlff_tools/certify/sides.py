"""The model and its teacher: each evaluates structures, and some LAMMPS can run."""

import numpy as np

from ..model import lammps, modelfile
from ..train import label, labelling, labels
from ..train.extxyz import tag
from ..train.teacher_lammps import LammpsTeacher, absolute, types_of
from ..train.teachers import TIMEOUT, ModelTeacher
from . import runner
from .work import CertifyError, NotMeasured

AT_ONCE = 32  # structures of a call
SAME = 1e-3  # eV/A and, for an atom, eV: potentials that differ by more are not one


class Side:
    """name: model or teacher; kind: mlff, lammps, ase or labels; identity: what results depend on.

    static: evaluates structures, in double precision where it is a model. in_runs: as runs do."""

    def __init__(self, name, kind, static, in_runs, potential):
        self.name, self.kind, self.static, self.in_runs, self.made = name, kind, static, in_runs, potential
        self.identity = {"static": static.identity, "runs": in_runs.identity}

    def evaluate(self, frames, as_in_runs=False):
        """Labels of frames, as train/teachers.py has them."""
        if self.kind == "labels":
            raise NotMeasured("the teacher is a file of labels, which knows no other structures")
        frames = [{"source": f.get("name") or "a structure", **f} for f in frames]
        teacher, out = self.in_runs if as_in_runs else self.static, []
        for k in range(0, len(frames), AT_ONCE):
            out += teacher.label(frames[k : k + AT_ONCE])
        return out

    def potential(self, elements):
        """What LAMMPS runs, with these elements as types."""
        if self.made is None:
            raise runner.no_dynamics(self.kind)
        return self.made(elements)

    def close(self):
        self.static.close()
        if self.in_runs is not self.static:
            self.in_runs.close()


def of_model(name, path, precision, program, plugin, timeout=TIMEOUT):
    """A model file. LammpsError for one with a name that no script can have."""
    lammps.quoted(modelfile.model_paths(path)[0])
    static = ModelTeacher(path, "fp64", program, timeout)
    in_runs = ModelTeacher(path, precision, program, timeout)
    plugin = lammps.find_plugin(plugin)
    return Side(name, "mlff", static, in_runs, lambda elements: runner.of_model(path, elements, precision, plugin))


def _by_lammps(commands, types, place):
    """What LAMMPS runs for commands whose files are relative to the folder `place`."""
    return lambda _: runner.of_commands(absolute(commands, place), types)


def _runs_by(by, place, frames, teacher, args):
    """(potential, identity) of the pair style that runs a calculator of ASE. CertifyError where it is another one."""
    types = types_of(by["lammps"], by.get("types"), frames)
    other = LammpsTeacher(by["lammps"], types, args.lmp, place)
    try:
        asked = [f for f in frames if f["cell"] is not None][-3:]
        asked = [{"source": f.get("name") or "a structure", **f} for f in asked]
        for f, mine, its in zip(asked, teacher.label(asked), other.label(asked)):
            off = [
                abs(mine["energy"] - its["energy"]) / len(f["elements"]),
                np.abs(mine["forces"] - its["forces"]).max(),
            ]
            if not max(off) <= SAME:
                raise CertifyError(
                    f"certify.by: {f['source']}: the pair style differs from the teacher by {off[0]:.2g} eV/atom and "
                    f"{off[1]:.2g} eV/A: give commands of the same potential"
                )
    finally:
        other.close()
    return _by_lammps(by["lammps"], types, place), other.identity


def of_recipe(wanted, place, frames, args, by=None):
    """The teacher of a recipe's section, whose files are relative to the folder `place`. by: section certify.by."""
    if "mlff" in wanted:
        path = modelfile.find_model(wanted["mlff"], place)
        timeout = wanted.get("timeout", TIMEOUT)
        return of_model("teacher", path, wanted.get("precision", "fp32"), args.program, args.plugin, timeout)
    teacher = label.make_teacher(wanted, frames, place, args)
    kind = next(k for k in ("lammps", "ase", "labels") if k in wanted)
    potential = _by_lammps(wanted["lammps"], teacher.types, place) if kind == "lammps" else None
    side = Side("teacher", kind, teacher, teacher, potential)
    if by and kind == "ase":
        try:
            side.made, side.identity["runs"] = _runs_by(by, place, frames, teacher, args)
        except BaseException:
            side.close()
            raise
    return side


def held_out(path, names=None, limit=None):
    """(frames of the split test of a file of labels, all of them, notes on what could not be checked)"""
    notes = []
    frames = labels.read_labels(path, names, limit, notes)
    return [f for f in frames if tag(f, "split") == "test"], frames, notes


def check_labels(teacher, frames, test):
    """CertifyError unless the frames are labels of the teacher: those that name a teacher name it, and it gives a few
    of them again. An imported file of labels can only be recognized by its values."""
    who = teacher.in_runs.identity
    for frame in frames:
        found = dict(labels.teacher_of(frame))
        kind, name, sha = (found.get(f"teacher_{key}") for key in ("kind", "name", "sha256"))
        if kind is None or sha == who["sha256"] or (kind == "labels" and who["kind"] != "labels"):
            continue
        raise CertifyError(
            f"{frame['source']}: was labelled by {kind} {name} (sha256 {sha[:12]}), and the teacher of the recipe is "
            f"{who['kind']} {who['name']} (sha256 {who['sha256'][:12]}): name that teacher, or label again"
        )
    mine = test or frames
    if mine and who["kind"] != "labels":
        labelling.check_again(teacher.in_runs, mine, "not the labels of the recipe's teacher", labelling.ELSEWHERE)


def number(frame, key):
    """A number of a frame's info, or None."""
    try:
        return float(tag(frame, key))
    except (TypeError, ValueError):
        return None


def elements_of(path):
    """The elements of a model."""
    return modelfile.load_yaml(modelfile.model_paths(path)[0])["elements"]
