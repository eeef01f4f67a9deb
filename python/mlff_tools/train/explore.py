"""Runs the user's own LAMMPS script with a student, and reads the frames whose uncertainty is above its limit.

A copy of the script is run in a folder of its own, with copies of the files that the script names. In the copy
  pair_style mlff  writes frames above the limit and a table of all checks; keywords of OWN are left out
  pair_coeff       names the student's file
Everything else is as the user wrote it.
"""

import dataclasses
import glob
import json
import os
import re
import shutil

import numpy as np

from ..model import lammps
from ..model.files import write_input
from ..model.modelfile import NUMBERS, ModelError
from .lammps_data import dump_box
from .teachers import digest

OWN = ("domain", "out_file", "out_freq", "devi_warn", "devi_dump", "devi_stop", "dump_file")
FOLDER = "mlff-explore"  # in that of the run: N.dump, N.out and N.types of the N-th pair_style
VACUUM = 20.0  # A, in directions that are not periodic, for labels of boxes that are
PER_EV = {"metal": 1.0, "real": 23.060549}
NAME = re.compile(r"\w+", re.A)


class ScriptError(ModelError):
    """A script that cannot be explored."""


def check_variables(given, where):
    """{name: [values]} of lists of words, name first; ScriptError for other ones."""
    out = {}
    for words in given:
        if len(words) < 2 or not NAME.fullmatch(words[0]) or any(not word or "\n" in word for word in words):
            raise ScriptError(f"{where} {' '.join(words)!r}: must be a name and one or more values, as `{where} t 300`")
        if words[0] in out:
            raise ScriptError(f"{where} {words[0]}: is given twice")
        out[words[0]] = words[1:]
    return out


def commands(text):
    """[(words, lines)] of the commands of a script; words are without comments and line ends (&)."""
    out, lines = [], []
    for line in text.split("\n"):
        lines.append(line)
        if not line.rstrip().endswith("&"):
            whole = " ".join(part.rstrip().removesuffix("&") for part in lines)
            out.append((whole.split("#")[0].split(), lines))
            lines = []
    return out + ([([], lines)] if lines else [])


def is_mlff(word):
    return word in ("mlff", "mlff/kk", "mlff/kk/host", "mlff/kk/device")


@dataclasses.dataclass
class Script:
    """A script, its variables {name: [values]} of the command line, and the steps between two checks."""

    path: str
    variables: dict
    every: int

    def __post_init__(self):
        self.path = os.path.abspath(self.path)
        self.folder, self.name = os.path.split(self.path)
        self.text = read_script(self.path)
        styles = [words for words, _ in commands(self.text) if words[:1] == ["pair_style"] and any(map(is_mlff, words))]
        if not styles:
            raise ScriptError(
                f"{self.path}: has no `pair_style mlff`, which the student needs: write it, and its pair_coeff, into "
                "the script itself"
            )
        if any(sum(map(is_mlff, words)) > 1 for words in styles):
            raise ScriptError(f"{self.path}: has pair_style with mlff twice: explore one model")
        self.student_text("student.yaml", 1.0, "")  # fails early

    def digest(self):
        """Hash of the script and its variables."""
        return digest(self.text, json.dumps(self.variables, sort_keys=True), str(self.every))

    def files(self):
        """(paths, relative to the script's folder, of files that the script or its variables name; its units)."""
        known = {name: values[0] for name, values in self.variables.items()}
        found, units, queue = {self.name: None}, "metal", [self.text]
        queue.append(" ".join(word for values in self.variables.values() for word in values))
        while queue:
            for words, _ in commands(queue.pop()):
                if words[:1] == ["variable"] and len(words) > 3 and words[2] in ("index", "string"):
                    known.setdefault(words[1], words[3].strip("\"'"))
                units = words[1] if words[:1] == ["units"] and len(words) > 1 else units
                for word in words:
                    path = os.path.normpath(_expanded(word.strip("\"'"), known))
                    whole = os.path.join(self.folder, path)
                    if os.path.isabs(path) or path.startswith("..") or path in found or not os.path.isfile(whole):
                        continue
                    found[path] = None
                    if words[0] in ("include", "jump"):
                        queue.append(read_script(whole))
        return list(found), units

    def student_text(self, model, limit, plugin):
        """The copy of the script that runs the student. limit: in units of the script."""
        head = [] if "mlffplugin" in self.text or not plugin else [f"plugin load {lammps.quoted(plugin)}"]
        out, is_alone, n_changed = [*head, "variable mlff_part loop 1000000"], False, 0
        for words, lines in commands(self._absolute(self.text)):
            if words[:1] == ["pair_style"]:
                is_alone = len(words) > 1 and is_mlff(words[1])
                if any(map(is_mlff, words)):
                    lines = ["next mlff_part", " ".join(self._style(words, limit))]
            elif words[:1] == ["pair_coeff"] and (is_alone or any(map(is_mlff, words[3:4]))):
                lines, n_changed = _coefficients(words, 3 if is_alone else 4, model, self.path), n_changed + 1
            out += lines
        if not n_changed:
            raise ScriptError(f"{self.path}: has no pair_coeff for mlff: write it into the script itself")
        return "\n".join(out) + "\n"

    def _absolute(self, text):
        """The text with paths that lead out of the script's folder as absolute ones."""

        def whole(found):
            path = os.path.normpath(os.path.join(self.folder, found[0]))
            return path if os.path.exists(path) else found[0]

        return re.sub(r"(?<![^\s\"'])\.\./[^\s\"']+", whole, text)

    def _style(self, words, limit):
        place = next(k for k, word in enumerate(words) if is_mlff(word))
        file = FOLDER + "/${mlff_part}"
        new = ["out_file", file + ".out", "dump_file", file + ".dump", "devi_dump", f"{limit:.6g}"]
        kept, rest = [], words[place + 1 :]
        while rest:
            if rest[0] in OWN:
                rest = rest[2:]
            else:
                kept, rest = [*kept, rest[0]], rest[1:]
        return [*words[: place + 1], *new, "out_freq", str(self.every), *kept]


def read_script(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError as e:
        raise ScriptError(f"{path}: {e.strerror}") from e


def _expanded(word, known):
    """A word with the variables that are known."""
    return re.sub(r"\$\{(\w+)\}|\$(\w)", lambda m: known.get(m[1] or m[2], m[0]), word)


def _coefficients(words, place, model, path):
    """Lines for pair_coeff, with the model file words[place] replaced."""
    if len(words) <= place + 1:
        raise ScriptError(f"{path}: `{' '.join(words)}` must name a model file and the element of each atom type")
    types = " ".join(words[place + 1 :])
    new = " ".join([*words[:place], lammps.quoted(model), types])
    return [new, f'print "{types}" file {FOLDER}/${{mlff_part}}.types screen no']


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Found:
    """What a run gave. frames: those above the limit, in order; checks: how often the uncertainty was compared with
    it; above: how often it was larger or NaN; largest: of all checks, eV/A; error: of LAMMPS, or None."""

    frames: list
    checks: int
    above: int
    largest: float
    error: str | None


class _Count:
    """Counts the frames of growing dumps."""

    def __init__(self, folder):
        self.folder, self.read, self.count = folder, {}, 0

    def __call__(self):
        for path in glob.glob(os.path.join(glob.escape(self.folder), "*.dump")):
            with open(path, "rb") as f:
                f.seek(self.read.get(path, 0))
                whole = f.read().rpartition(b"ITEM: ATOMS")
                self.read[path] = self.read.get(path, 0) + len(whole[0]) + len(whole[1])
                self.count += (whole[0] + whole[1]).count(b"ITEM: ATOMS")
        return self.count


def _copy_files(script, names, place):
    for name in names:
        target = os.path.join(place, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(script.folder, name), target)
    with os.scandir(script.folder) as entries:  # output of the script may go into its folders
        for folder in [entry.name for entry in entries if entry.is_dir()]:
            if re.search(rf"(?<![\w/.-]){re.escape(folder)}/", script.text):
                os.makedirs(os.path.join(place, folder), exist_ok=True)


def _lammps(script, variables, place, programs, most):
    """Runs the copy until it ends, or has written more than `most` frames. Its exit status, None when it was ended, and
    its output."""
    words = [programs.lmp, "-in", script.name, "-log", "log.lammps", "-nocite"]
    for name, values in variables.items():
        words += ["-var", name, *values]
    count = _Count(os.path.join(place, FOLDER))
    return lammps.watched(words, lambda: count() > most, **lammps.process_options(programs.lmp, place))


def run(script, student, limit, seed, place, programs, most):
    """Found of a run of the script. student: path of a model file with uncertainties; limit: eV/A; seed: value of the
    variable `seed` unless the user set it; most: frames after which the run is ended. ScriptError when LAMMPS fails
    without any check."""
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.join(place, FOLDER))
    names, units = script.files()
    _copy_files(script, names, place)
    scale = PER_EV.get(units, 1.0)  # other units are an error of the pair style
    write_input(os.path.join(place, script.name), script.student_text(student, limit * scale, programs.plugin))
    variables = {"seed": [str(seed)], **script.variables}
    status, text = _lammps(script, variables, place, programs, most)
    log = os.path.join(place, "log.lammps")
    error = None
    if status:
        errors = lammps.errors_in(text)
        error = errors[0] if errors else f"ended with status {status}"
    table = [row for path in _parts(place, "out") for row in _table(path)]
    if not table and error:
        raise ScriptError(f"{script.path}: LAMMPS: {error} (log: {log})")
    if not table:
        raise ScriptError(f"{script.path}: ended without a step of pair_style mlff: it needs a `run` (log: {log})")
    frames = [frame for path in _parts(place, "dump") for frame in _frames(path, script)][:most]
    table = np.array(table) / scale
    above = np.flatnonzero(~(table <= limit * (1 + 1e-5)))  # the limit is written with six digits
    if status is None:  # the same rows, whenever it was ended
        table, above = table[: above[most - 1] + 1], above[:most]
    return Found(frames, len(table), len(above), float(np.nanmax(table)), error)


def _parts(place, ending):
    found = glob.glob(os.path.join(glob.escape(place), FOLDER, f"*.{ending}"))
    return sorted(found, key=lambda path: int(os.path.basename(path).split(".")[0]))


def _table(path):
    """Largest uncertainty of each check of an out_file."""
    with open(path, encoding="ascii", errors="replace") as f:
        rows = [line.split() for line in f.read().split("\n")[:-1] if not line.startswith("#")]
    return [float(row[4]) for row in rows if len(row) == 7]


def _elements(path, script):
    """Elements of the atom types of a dump."""
    with open(path.removesuffix("dump") + "types", encoding="utf-8") as f:
        types = f.read().split()
    for number, element in enumerate(types, 1):
        if element not in NUMBERS:
            raise ScriptError(
                f"{script.path}: atom type {number} is {element} for mlff: the teacher labels whole frames, so all "
                "types need an element"
            )
    return types


def _frames(path, script):
    """Frames of a dump of pair_style mlff; one that is not whole ends it, one that is not finite is left out."""
    with open(path, encoding="ascii", errors="replace") as f:
        lines, types, out, k = f.read().split("\n")[:-1], _elements(path, script), [], 0
    while k + 9 <= len(lines):
        n = int(lines[k + 3])
        rows = [line.split() for line in lines[k + 9 : k + 9 + n]]
        if len(rows) < n or any(len(row) != 6 for row in rows):
            break
        table = np.array(rows, float).reshape(-1, 6)
        if n and np.isfinite(table[:, :5]).all():
            where = f"{script.name}, step {lines[k + 1]}"
            positions, cell = box_of(lines[k + 4 : k + 8], table[:, 2:5])
            elements = [types[int(t) - 1] for t in table[:, 1]]
            frame = {"elements": elements, "positions": positions, "cell": cell, "source": where, "name": where}
            out.append({**frame, "info": {}, "columns": {}, "step": int(lines[k + 1])})
        k += 9 + n
    return out


def box_of(lines, positions):
    """(positions, cell) of the lines of the box in a dump. Boxes that are periodic in some directions only have
    VACUUM in the others."""
    periodic = [word.startswith("p") for word in lines[0].split()[-3:]]
    if not any(periodic):
        return positions, None
    low, cell = dump_box(lines[1:])
    for d in range(3):
        if not periodic[d]:
            low[d] = positions[:, d].min()
            cell[d, d] = positions[:, d].max() + VACUUM - low[d]
    return positions - low, cell
