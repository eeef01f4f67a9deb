"""A teacher that is a pair style of LAMMPS: one process of lmp, which is given one structure after another.

Its commands are those that follow the structure in an input script: pair_style, pair_coeff and their settings.
units (metal or real), atom_style, newton, package, suffix and plugin are moved before the structure.
${elements} stands for the elements in the order of LAMMPS' types.
"""

import os
import re
import tempfile
import time

import numpy as np

from ..model import lammps, modelfile
from ..model.files import write_input
from ..model.masses import MASS
from .lammps_data import ATOM_STYLES, box, data_text, dump_text
from .process import Died, Program, TeacherError
from .teachers import TIMEOUT, digest

FIRST = ("units", "atom_style", "newton", "package", "suffix", "plugin", "processors")  # before there is a box
OURS = "boundary read_data create_box create_atoms clear run minimize rerun thermo_style thermo_modify quit".split()
# eV of a unit of energy; LAMMPS' own factor between p V and energy
UNITS = {"metal": (1.0, 1.6021765e6), "real": (1 / 23.060549, 68568.415)}
DONE = "mlff-label-done"


def split_commands(commands):
    """(commands before the box, commands after it, units, atom style); TeacherError for those that are not possible."""
    before, after, units, style = [], [], "metal", "atomic"
    for command in commands:
        word, *rest = command.split()
        if word in OURS:
            raise TeacherError(f"'{command}': {word} is done by mlff label; give only commands that set the pair style")
        if word == "units":
            units = " ".join(rest)
        elif word == "atom_style":
            style = " ".join(rest)
        else:
            (before if word in FIRST else after).append(command)
    if units not in UNITS:
        raise TeacherError(f"units {units}: the commands of a teacher must have units metal or real")
    if style not in ATOM_STYLES:
        raise TeacherError(f"atom_style {style}: {', '.join(ATOM_STYLES)} are possible")
    if not any(command.startswith("pair_style") for command in after):
        raise TeacherError("there is no pair_style among the commands of LAMMPS")
    return before, after, units, style


def read_commands(path):
    """The commands of a file: without comments, continued lines joined."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except OSError as e:
        raise TeacherError(f"{path}: {e.strerror}") from e
    lines = (re.sub(r"#.*", "", line).strip() for line in re.sub(r"&[ \t]*\n", " ", text).splitlines())
    return [line for line in lines if line]


def commands_digest(commands, types, place, lmp):
    """Hash of commands, of the files that they name, and of the elements of the types."""
    parts = [" ".join(c.split()) for c in commands] + [" ".join(types)]
    folders = [place, lammps.find_potentials(lmp)]
    for word in (w for c in commands for w in c.split()):
        paths = (os.path.join(folder, word) for folder in folders if folder)
        found = next(filter(os.path.isfile, paths), None)
        parts += [("file", found)] if found else []
    return digest(*parts)


def absolute(commands, place):
    """The commands with absolute paths of the files in the folder `place` that they name, to be run elsewhere."""
    path = lambda word: os.path.abspath(os.path.join(place, word))
    found = lambda word: lammps.quoted(path(word)) if os.path.isfile(path(word)) else word
    return [" ".join(map(found, command.split())) for command in commands]


def version(lmp):
    """What LAMMPS calls itself."""
    process = Program([lmp, "-h"], "lmp -h", env=lammps.environment(lmp))
    deadline = time.monotonic() + 60
    line = process.line(deadline)
    while "Large-scale" not in line:
        line = process.line(deadline)
    process.stop()
    return "LAMMPS " + line.split(" - ", 1)[1].strip()


class LammpsTeacher:
    """Commands of LAMMPS, run in the folder `place`. types: the elements of types 1, 2, ..."""

    derivatives = None

    def __init__(self, commands, types, lmp=None, place=".", timeout=TIMEOUT):
        self.lmp, self.place, self.timeout, self.types = lammps.find_lmp(lmp), place, timeout, list(types)
        self.before, self.after, self.units, self.style = split_commands(commands)
        unknown = [e for e in self.types if e not in MASS]
        if unknown or not self.types or len(set(self.types)) < len(self.types):
            raise TeacherError(f"types {' '.join(self.types)}: must be different chemical elements")
        self.folder = tempfile.TemporaryDirectory(prefix="mlff-label-")
        self.process, self.present, self.per_atom = None, None, None
        styles = [c.split(None, 1)[1] for c in self.after if c.startswith("pair_style")]
        self.identity = {
            "kind": "lammps",
            "name": "; ".join(styles),
            "sha256": commands_digest(commands, self.types, place, self.lmp),
            "versions": version(self.lmp),
        }

    def _path(self, name):
        return os.path.join(self.folder.name, name)

    def _setup(self, frame):
        """Commands for structures with these elements in this order, of this kind."""
        write_input(
            self._path("start.data"), data_text(frame, self.types, self.style, tilted=frame["cell"] is not None)
        )
        boundary = "f f f" if frame["cell"] is None else "p p p"
        thermo = "step pe" + (" pxx pyy pzz pxy pxz pyz" if frame["cell"] is not None else "")
        sums = ["compute mlff_pe all pe/atom", "compute mlff_sum all reduce sum c_mlff_pe"] if self.per_atom else []
        return [
            "clear",
            f"units {self.units}",
            f"atom_style {self.style}",
            "atom_modify map array sort 0 0.0",
            *self.before,
            f"boundary {boundary}",
            f"read_data {lammps.quoted(self._path('start.data'))}",
            f'variable elements string "{" ".join(self.types)}"',
            *self.after,
            *sums,
            f"thermo_style custom {thermo}" + (" c_mlff_sum" if sums else ""),
            "thermo_modify norm no",
        ]

    def _commands(self, frame):
        kind = frame["elements"], frame["cell"] is None
        setup = [] if kind == self.present else self._setup(frame)
        self.present = kind
        write_input(self._path("next.dump"), dump_text(frame))
        values = "$(pe:%.17g)" + "".join(
            f" $(p{c}:%.17g)" for c in "xx yy zz xy xz yz".split() if frame["cell"] is not None
        )
        out = lammps.quoted(self._path("out.dump"))
        columns = "id fx fy fz" + (" c_mlff_pe" if self.per_atom else "")
        return [
            *setup,
            f"read_dump {lammps.quoted(self._path('next.dump'))} 0 x y z box yes replace yes format native",
            "run 0 post no",
            f"write_dump all custom {out} {columns} modify sort id format float %.17g",
            f'print "{DONE} {values}"',
        ]

    def _run(self, frame):
        """The numbers of the line after DONE."""
        if self.process is None:
            self.present = None
            words = [self.lmp, "-log", "none", "-nocite", "-nonbuf", "-echo", "none"]
            env = lammps.environment(self.lmp)
            self.process = Program(words, "LAMMPS", cwd=self.place, env=env)
        self.process.send("\n".join(self._commands(frame)) + "\n")
        deadline, wrong, line = time.monotonic() + self.timeout, [], ""
        try:
            while not line.startswith(DONE):
                line = self.process.line(deadline)
                wrong += [line] if "ERROR" in line else []
        except Died as e:
            self.process = None
            if wrong or lammps.errors_in("\n".join(e.args[0].splitlines())):
                text = (wrong or lammps.errors_in(e.args[0]))[0].strip()
                raise TeacherError(f"{frame['source']}: LAMMPS: {text}") from e
            raise
        return [float(x) for x in line.split()[1:]]

    def _first(self, frame):
        """Finds out whether this pair style has energies of atoms that add up to the energy."""
        self.per_atom = True
        try:
            one = self._one(frame)
            with np.errstate(invalid="ignore"):
                self.per_atom = abs(one["atom_energies"].sum() - one["energy"]) < 1e-6 * len(frame["elements"])
        except TeacherError:
            self.per_atom = False
        self.present = None

    def _one(self, frame):
        energy, *pressure = self._run(frame)
        n, scale, nktv2p = len(frame["elements"]), *UNITS[self.units]
        with open(self._path("out.dump"), encoding="ascii") as f:
            table = np.array([line.split() for line in f.read().splitlines()[9:]], float)
        if len(table) != n:
            raise TeacherError(f"{frame['source']}: LAMMPS has {len(table)} of {n} atoms")
        *_, q = box(frame)
        stress = None
        if pressure:
            xx, yy, zz, xy, xz, yz = pressure
            stress = -scale / nktv2p * q @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ q.T
        return {
            "energy": scale * energy,
            "forces": scale * table[:, 1:4] @ q.T,
            "stress": stress,
            "atom_energies": scale * table[:, 4] if self.per_atom else None,
        }

    def label(self, frames):
        for frame in frames:
            unknown = sorted(set(frame["elements"]) - set(self.types))
            if unknown:
                raise TeacherError(f"{frame['source']}: element {unknown[0]} is not one of {' '.join(self.types)}")
        if self.per_atom is None:
            self._first(frames[0])
        return [self._one(frame) for frame in frames]

    def close(self):
        if self.process:
            self.process.stop()
        self.process = None
        self.folder.cleanup()


def types_of(commands, given, frames):
    """The elements of types 1, 2, ...: as given, or in alphabetical order where the commands have ${elements}."""
    found = sorted({e for f in frames for e in f["elements"]})
    if given:
        return given
    if len(found) > 1 and not any("${elements}" in c for c in commands):
        raise TeacherError(
            f"the structures hold {' '.join(found)}: which type is which? Write ${{elements}} instead of the elements "
            "in pair_coeff, or give types"
        )
    unknown = [e for e in found if e not in modelfile.NUMBERS]
    if unknown:
        raise TeacherError(f"'{unknown[0]}' is not a chemical element")
    return found
