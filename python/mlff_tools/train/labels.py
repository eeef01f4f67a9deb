"""Files of labels: extended XYZ (extxyz.py) whose frames say which teacher labelled them, in which units, and a hash.

Keys of each frame: teacher_kind, teacher_name, teacher_sha256, teacher_versions, units, and frame_sha256 over the
structure, its labels and the teacher. Frames are added in the order of the structures; a file that a killed run has
left is gone on with.
"""

import collections
import contextlib
import fcntl
import hashlib
import os
import re

import numpy as np

from ..model.modelfile import ModelError
from ..model.units import GPA
from . import consistency, copies, extxyz, hessian
from .extxyz import FrameError, as_bytes, structure_key

UNITS = "length A, energy eV, forces eV/A, stress eV/A^3"
SAME = 1e-6  # A: structures whose positions differ by less are one
SAME_ENERGY = 1e-5  # eV/atom
LABEL_LIKE = re.compile("energ|force|stress|virial", re.IGNORECASE)
OWN_KEYS = ("stress_limit",)
STATE_COLUMNS = ("initial_charges", "initial_magmoms")
STATE_KEYS = ("charge", "total_charge", "spin", "magmom")


def frame_hash(frame, teacher):
    """Hash of a structure, its labels and the teacher [(key, text)]."""
    parts = [structure_key(frame).encode(), *(as_bytes(frame.get(key)) for key in extxyz.LABELS)]
    parts += [as_bytes(values) for values in hessian.columns_of(frame)] if hessian.is_known(frame) else []
    parts += [str(text).encode() for _, text in teacher]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def teacher_keys(identity):
    """[(key, text)] of a teacher's identity, for a frame."""
    return [(f"teacher_{key}", str(identity[key])) for key in ("kind", "name", "sha256", "versions")]


def teacher_of(frame):
    """[(key, text)] of the teacher that a frame names, or []."""
    found = [(key, frame["info"].get(key)) for key, _ in teacher_keys(collections.defaultdict(str))]
    return [] if any(text is None for _, text in found) else [(key, extxyz.plain(text)) for key, text in found]


def check_hash(frame):
    """FrameError when a frame has a hash that is not its own."""
    wanted = frame["info"].get("frame_sha256")
    if wanted is not None and extxyz.plain(wanted) != frame_hash(frame, teacher_of(frame)):
        raise FrameError(
            f"{frame['source']}: the frame is not what was labelled (frame_sha256 does not fit): changed by hand, or "
            "rounded by a program that rewrote the file; label it again, or take frame_sha256 off"
        )


def read_labels(path, names=None, limit=None, notes=None):
    """Frames of a file that have energies and forces, checked; see extxyz.read. limit: of the stress, GPa; notes: a
    list that what could not be checked is added to."""
    frames = extxyz.read(path, names)
    for frame in frames:
        check_hash(frame)
        for key in ("energy", "forces"):
            if frame[key] is None:
                like = [name for name in (*frame["info"], *frame["columns"]) if key[:5] in name.lower()]
                hint = f"; there is {', '.join(like)}: name it" if like else ""
                raise FrameError(f"{frame['source']}: has no {key}{hint}")
    check_structures(frames)
    found = unused_keys(frames) + consistency.check(frames, limit)
    if notes is not None:
        notes += found
    return frames


def unused_keys(frames):
    """A note on keys and columns that are named as labels are and are not used; [] without any."""
    named = dict.fromkeys(key for f in frames for key in (*f["info"], *f["columns"]) if LABEL_LIKE.search(key))
    unused = [key for key in named if key not in OWN_KEYS]
    if not unused:
        return []
    return [f"not used, though named like labels: {', '.join(unused)} (--keys NAME=KEY, or keys of a recipe's teacher)"]


def check_occupancy(frames):
    """FrameError for sites that are partly occupied, as of a CIF: a structure has whole atoms."""
    for frame in frames:
        text = extxyz.tag(frame, "occupancy") or ""
        shares = re.findall(r":\s*([-+.\deE]+)", text)  # {site: {element: share}}, as ASE has it
        if "occupancy" in frame["columns"]:
            shares = frame["columns"]["occupancy"][1]
            text = ", ".join(shares)
        if any(abs(float(x) - 1) > 1e-3 for x in shares):
            raise FrameError(
                f"{frame['source']}: sites are partly occupied (occupancy {text[:80]}): give structures with whole "
                "atoms, as of one arrangement in a supercell"
            )


def states(frames):
    """Names of the columns and keys by which structures say that atoms have charges or magnetic moments."""
    found = {}
    for frame in frames:
        for name in (*STATE_COLUMNS, *STATE_KEYS):
            if name in found:
                continue
            text = " ".join(frame["columns"][name][1]) if name in frame["columns"] else extxyz.tag(frame, name, "")
            if any(re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", w) and float(w) for w in text.split()):
                found[name] = frame
    return found


def check_structures(frames, elements=None):
    """FrameError for a duplicate structure, an element that the student does not have, or sites that
    are partly occupied, or is a copy of one of another split."""
    seen = {}
    check_occupancy(frames)
    for frame in frames:
        unknown = sorted(set(frame["elements"]) - set(elements or frame["elements"]))
        if unknown:
            raise FrameError(f"{frame['source']}: element {unknown[0]} is not one of {' '.join(elements)}")
        if not np.isfinite(frame["positions"]).all():
            raise FrameError(f"{frame['source']}: a position is NaN or infinite")
        cell = np.zeros(9) if frame["cell"] is None else np.ravel(frame["cell"])
        rounded = np.round(np.concatenate([cell, frame["positions"].ravel()]) / SAME) + 0.0
        key = " ".join(frame["elements"]), rounded.tobytes()
        other = seen.setdefault(key, frame)
        if other is frame:
            continue
        text = f"{frame['source']} is the same structure as {other['source']}"
        energies = [f.get("energy") for f in (other, frame)]
        if None not in energies and abs(energies[1] - energies[0]) > SAME_ENERGY * len(frame["elements"]):
            raise FrameError(f"{text}, with another energy: {energies[1]!r} and {energies[0]!r} eV")
        raise FrameError(f"{text}: take one of them out")
    copies.check_splits(frames)


def summary(frames):
    """A table of what the labels are, as text."""
    sizes = [len(f["elements"]) for f in frames]
    per_atom = [f["energy"] / n for f, n in zip(frames, sizes)]
    largest = max(float(np.linalg.norm(f["forces"], axis=1).max()) for f in frames)
    stress = [f["stress"] for f in frames if f["stress"] is not None]
    pressures = [-float(np.trace(s)) / 3 for s in stress]
    rows = [
        ("frames", str(len(frames))),
        ("atoms per frame", f"{min(sizes)} to {max(sizes)}"),
        ("elements", " ".join(sorted({e for f in frames for e in f["elements"]}))),
        ("energy per atom", f"{min(per_atom):.6f} to {max(per_atom):.6f} eV"),
        ("largest force", f"{largest:.4f} eV/A"),
        ("stress", f"{len(stress)} frames" if stress else "none"),
        ("energies of atoms", f"{sum(f['atom_energies'] is not None for f in frames)} frames"),
        ("Hessian products", f"{sum(map(hessian.is_known, frames))} frames"),
    ]
    if stress:
        low, high = min(s.min() for s in stress), max(s.max() for s in stress)
        rows[5] = ("stress", f"{low:.6f} to {high:.6f} eV/A^3, {len(stress)} frames")
        gpa = [GPA * p for p in (min(pressures), max(pressures))]
        rows.insert(6, ("pressure", f"{gpa[0]:.4f} to {gpa[1]:.4f} GPa"))
    return "".join(f"  {name:<18} {text}\n" for name, text in rows)


def file_hash(frames):
    """Hash of all frames of a file, by their own."""
    return hashlib.sha256("".join(frame_hash(f, teacher_of(f)) for f in frames).encode()).hexdigest()


class LabelFile:
    """A file of labels of one teacher that frames are added to; nothing else can write to it meanwhile.

    Attributes: frames, those that it holds; derivatives, whether the teacher's forces are derivatives of its energy,
    which is written with each frame."""

    def __init__(self, path, identity):
        self.path, self.teacher, self.derivatives = path, teacher_keys(identity), None
        try:
            self.file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as e:
            raise ModelError(f"{path}: {e.strerror}") from e
        try:
            self._lock()
            self.frames = self._read()
        except BaseException:
            self.file.close()
            raise

    def _lock(self):
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise ModelError(f"{self.path}: another run is writing to it") from e
        except OSError:
            pass  # a file system without locks

    def _read(self):
        """The frames that are there; what a killed run has left of the next one is cut off."""
        self.file.seek(0)
        content, frames, self.end = self.file.read(), [], 0
        try:
            for frame, end in extxyz.parse(self.path, content[: content.rfind(b"\n") + 1]):
                self._check(frame)
                frames.append(frame)
                self.end = end
        except extxyz.Cut:
            pass
        except extxyz.NotRead:
            self._check_rest(content[self.end :])
            raise
        self._check_rest(content[self.end :])
        self.file.truncate(self.end)
        if frames:
            said = frames[0]["info"].get("teacher_derivatives", "unknown")
            self.derivatives = {"T": True, "F": False}.get(said)
        return frames

    def _check_rest(self, rest):
        """FrameError unless this is the begin of a frame of ours, which may be cut off."""
        lines = rest.split(b"\n")
        if (lines[0] and not lines[0].isdigit()) or (len(lines) > 2 and b"teacher_kind=" not in lines[1]):
            raise FrameError(f"{self.path}: exists and is not a file of labels: choose another one, or remove it")

    def _check(self, frame):
        found = teacher_of(frame)
        if not found:
            raise FrameError(f"{frame['source']}: does not say who labelled it: choose another file to write to")
        check_hash(frame)
        for (key, mine), (_, there) in zip(self.teacher, found):
            if mine != there:
                raise FrameError(
                    f"{frame['source']}: was labelled by another teacher: {key} is {there}, not {mine}; choose another "
                    "file to write to"
                )

    def append(self, frames):
        """Adds labelled frames; when the disk is full, the file is as it was before."""
        texts = []
        for frame in frames:
            extra = [*self.teacher, ("teacher_derivatives", {True: "T", False: "F"}.get(self.derivatives, "unknown"))]
            extra += [("units", UNITS), ("frame_sha256", frame_hash(frame, self.teacher))]
            extra += consistency.confirmed_limit(frame)
            frame["info"] = {**frame["info"], **{key: extxyz.quoted(value) for key, value in extra}}
            texts.append(extxyz.text(frame))
        data = "".join(texts).encode("utf-8")
        try:
            rest = memoryview(data)
            while len(rest):
                rest = rest[self.file.write(rest) :]
            os.fsync(self.file.fileno())
        except OSError as e:
            os.ftruncate(self.file.fileno(), self.end)
            raise ModelError(f"{self.path}: {e.strerror}; it keeps the {len(self.frames)} frames before") from e
        self.end += len(data)
        self.frames += frames

    def close(self):
        """Gives the file up; one without frames is removed."""
        with contextlib.suppress(OSError):  # said by append
            if not self.end:
                os.unlink(self.path)
            self.file.close()
