"""Labelled frames as extended XYZ, in A, eV, eV/A and eV/A^3.

A frame is a structure (model/structures.py) with labels:
  name, elements [N], positions [N, 3] A, cell None or [3, 3] A (periodic in all directions or in none)
  energy eV, forces [N, 3] eV/A, stress [3, 3] eV/A^3 (positive when stretched, as in ASE), atom_energies [N] eV;
  what is not known is None
  info {key: text}, columns {name: (kind, [N] texts)}: all other contents of the file, unchanged
In the file they are the keys energy and stress (or virial = -stress * volume) and the columns forces and energies.
Numbers are written with all their digits and free keys as they were read, so that frames come back as they were.
"""

import ctypes
import hashlib
import os
import re

import numpy as np

from mlff import library

from ..model.modelfile import SYMBOLS, ModelError

LABELS = ("energy", "forces", "stress", "atom_energies")
# Words that the reader takes for nothing but keys
_SPECIAL = re.compile(r"(?<!\w)(?:Lattice|pbc|Properties)(?!\w)(\s*=)?", re.I | re.A)
_PLAIN = r'[^\s"\'\\={}\[\]]+'  # a word that needs no quotes


class FrameError(ModelError):
    """A frame that cannot be used."""


class NotRead(FrameError):
    """A frame that is no extended XYZ."""


class Cut(NotRead):
    """The file ends within a frame."""


def as_bytes(values):
    """Numbers as their bits, for a hash."""
    return b"-" if values is None else np.ascontiguousarray(values, "<f8").tobytes()


def structure_key(frame):
    """Hash of elements, cell and positions, bit for bit."""
    parts = [" ".join(frame["elements"]).encode(), as_bytes(frame["cell"]), as_bytes(frame["positions"])]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def plain(text):
    """The value of a key without its quotes."""
    if len(text) > 1 and text[0] in "\"'":
        text = text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)


def tag(frame, key, default=None):
    """The text of a key of a frame's info, without its quotes."""
    text = frame.get("info", {}).get(key)
    return default if text is None else plain(text)


def without(frame, *keys):
    """The frame without these keys of its info."""
    return {**frame, "info": {key: value for key, value in frame["info"].items() if key not in keys}}


def quoted(text):
    """A value as it is written: in quotes where it must be. FrameError for one that reads like a key of its own."""
    if re.search(r"[\x00-\x08\x0a-\x1f]", text):
        raise FrameError(f"{text[:60]!r} cannot be written into the comment line of an XYZ file: it has a line break")
    special = _SPECIAL.search(text)
    if special and any(found[1] for found in _SPECIAL.finditer(text)):
        raise FrameError(
            f"'{text[:60]}' cannot be written into the comment line of an XYZ file: leave '{special[0]}' out"
        )
    if not special and re.fullmatch(_PLAIN, text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _numbers(key, what, counts):
    """Values of a key of the file."""
    raw = key.raw.decode() if key.raw else "a word without a value"
    if key.kind not in (b"R", b"I"):
        raise FrameError(f"{what} is {raw}, which are not numbers")
    if key.n_values not in counts:
        raise FrameError(f"{what} has {key.n_values} numbers instead of {' or '.join(map(str, counts))}")
    values = np.array(key.values[: key.n_values])
    if not np.isfinite(values).all():
        raise FrameError(f"{what} holds NaN or infinity")
    return values


def _cell(parsed, info):
    """cell or None; takes Lattice and pbc from info, unless the Lattice of an open structure, which stays there."""
    pbc, periodic = info.pop("pbc", None), list(parsed.pbc)
    if not any(periodic):
        return None
    if not all(periodic):
        raise FrameError(
            f"pbc is {pbc}: a structure must be periodic in all directions or in none; give slabs and wires a "
            'vacuum and pbc="T T T"'
        )
    cell, lattice = np.array(parsed.cell), info.pop("Lattice")
    if abs(np.linalg.det(cell)) < 1e-6:
        raise FrameError(f"the vectors of the Lattice {lattice} span no volume")
    return cell


def _tensor(values, what):
    """[3, 3] of nine numbers, or of six in the order xx yy zz yz xz xy."""
    if len(values) == 6:
        xx, yy, zz, yz, xz, xy = values
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    tensor = values.reshape(3, 3)
    if np.abs(tensor - tensor.T).max() > 1e-6 * max(1e-3, np.abs(tensor).max()):
        raise FrameError(f"{what} is not symmetric")
    return tensor


def _stress(labels, info, cell):
    """The stress of the keys stress or virial, which are taken from info; None without a cell, where they stay."""
    if cell is None:
        return None
    volume, found = abs(np.linalg.det(cell)), []
    if "stress" in labels:
        found.append(_tensor(_numbers(labels["stress"], "stress", (6, 9)), "the stress"))
    if "virial" in labels:  # six numbers are in other orders elsewhere
        found.append(-_tensor(_numbers(labels["virial"], "virial", (9,)), "the virial") / volume)
    if len(found) == 2 and np.abs(found[0] - found[1]).max() > 1e-6 * max(1e-3, np.abs(found[0]).max()):
        raise FrameError("stress and virial contradict each other: virial = -stress * volume")
    for label in ("stress", "virial"):
        if label in labels:
            del info[labels[label].name.decode()]
    return found[0] if found else None


def _doubles(address, shape):
    size = 8 * int(np.prod(shape))
    return np.frombuffer(bytearray(ctypes.string_at(address, size))).reshape(shape)


def _labels_of_atoms(column, n, what, width):
    """[n, width] of a column."""
    if column.width != width or column.kind not in (b"R", b"I"):
        raise FrameError(
            f"Properties: {what} has {column.width} columns of {column.kind.decode()} instead of {width} of R"
        )
    values = _doubles(column.values, (n, width))
    bad = np.nonzero(~np.isfinite(values).all(1))[0]
    if len(bad):
        raise FrameError(f"{what} of atom {bad[0] + 1} is NaN or infinite")
    return values


def _columns(parsed, names):
    """forces, energies of atoms, and the columns that are no labels."""
    columns = {column.name.decode(): column for column in parsed.columns[: parsed.n_columns]}
    found, n = {"forces": None, "energies": None}, parsed.n_atoms
    for label, width in (("forces", 3), ("energies", 1)):
        if names[label] in columns:
            found[label] = _labels_of_atoms(columns.pop(names[label]), n, names[label], width)
    del columns["pos"]
    if columns.pop("species", None) is None:
        del columns["Z"]
    text = lambda column: ctypes.string_at(column.text, column.text_size).decode()
    free = {name: (column.kind.decode(), text(column).split("\n")) for name, column in columns.items()}
    energies = None if found["energies"] is None else found["energies"][:, 0]
    return found["forces"], energies, free


WRITTEN = {"energy": "energy", "forces": "forces", "energies": "atom_energies", "stress": "stress", "virial": "stress"}
STANDARD = {"energy": "energy", "forces": "forces", "stress": "stress", "virial": "virial", "energies": "energies"}


def _info(parsed, names):
    """info of a frame, and {label: its key} of the labels that the comment line has."""
    if parsed.comment is None:
        keys = parsed.keys[: parsed.n_keys]
        info = {key.name.decode(): None if key.raw is None else key.raw.decode() for key in keys}
        by_name = {key.name.decode(): key for key in keys}
        found = {label: by_name[name] for label, name in names.items() if name in by_name}
        return info, {label: found[label] for label in ("energy", "stress", "virial") if label in found}
    comment = parsed.comment.decode()
    for name in names.values():
        if re.search(rf"(^|\W){re.escape(name)}\s*=", comment):
            raise FrameError(f"the comment line cannot be read, and has a key {name}: {parsed.why.decode()}")
    return {"comment": quoted(comment)}, {}


def _frame(parsed, names):
    n = parsed.n_atoms
    numbers = np.frombuffer(ctypes.string_at(parsed.numbers, 4 * n), np.int32).tolist()
    if max(numbers) >= len(SYMBOLS):
        raise FrameError(f"the structure has atomic number {max(numbers)}, and here elements end at {len(SYMBOLS) - 1}")
    frame = {"elements": [SYMBOLS[z] for z in numbers], "positions": _doubles(parsed.positions, (n, 3))}
    info, labels = _info(parsed, names)
    info.pop("Properties", None)
    frame["cell"] = _cell(parsed, info)
    frame["forces"], frame["atom_energies"], free = _columns(parsed, names)
    frame["energy"] = frame["stress"] = None
    if "energy" in labels:
        frame["energy"] = float(_numbers(labels["energy"], names["energy"], (1,))[0])
        del info[names["energy"]]
    frame["stress"] = _stress(labels, info, frame["cell"])
    frame.update(name=plain(info.get("name") or "") or None, info=info, columns=free)
    return frame


def parsed_frames(path, data=None):
    """Yields each frame as the engine reads it (mlff_xyz_frame of mlff_xyz.h), valid until the next one."""
    c, file, error = library.library(), ctypes.c_void_p(), library.CError()
    frame = ctypes.POINTER(library.CXyzFrame)()
    if c.mlff_xyz_open(os.fsencode(path), data, len(data or b""), file, error):
        raise FrameError(error.text.decode("utf-8", "replace"))
    try:
        while True:
            if c.mlff_xyz_next(file, frame, error):
                raise (Cut if c.mlff_xyz_is_cut(file) else NotRead)(error.text.decode("utf-8", "replace"))
            if not frame:
                return
            yield frame.contents
    finally:
        c.mlff_xyz_close(file)


def parse(path, data=None, names=None):
    """Yields (frame, bytes of the file up to its end) of a file, or of its content in memory.

    The engine reads, as for `mlff evaluate`. FrameError with file and line: NotRead when it is of the format, and Cut
    when the file ends within a frame.
    names: what the labels are called there, where it is not as in STANDARD.
    """
    names, path = {**STANDARD, **(names or {})}, os.fspath(path)
    for number, parsed in enumerate(parsed_frames(path, data), 1):
        try:
            frame = _frame(parsed, names)
        except FrameError as e:
            raise FrameError(f"{path}:{parsed.line + 1}: {e}") from e
        frame["source"] = f"{path}, frame {number}"
        frame["name"] = frame["name"] or frame["source"]
        yield frame, parsed.end


def read(path, names=None):
    """All frames of an extended XYZ file; see parse."""
    frames = [frame for frame, _ in parse(path, None, names)]
    if not frames:
        raise FrameError(f"{path}: holds no frame")
    return frames


def _words(values):
    return " ".join(repr(float(x)) for x in np.ravel(values))


def text(frame, extra=()):
    """A frame as text. extra: (key, value) pairs that replace those of the same name in its info."""
    entries, free = [], {**frame.get("info", {}), **{key: quoted(str(value)) for key, value in extra}}
    if frame["cell"] is not None:
        entries.append(f'Lattice="{_words(frame["cell"])}"')
    properties, parts = "species:S:1:pos:R:3", [frame["elements"], [_words(x) for x in frame["positions"]]]
    for name, key, count in (("forces", "forces", 3), ("energies", "atom_energies", 1)):
        if frame.get(key) is not None:
            properties += f":{name}:R:{count}"
            parts.append([_words(x) for x in frame[key]])
    written = {name for name, key in WRITTEN.items() if frame.get(key) is not None}
    for name, (kind, texts) in frame.get("columns", {}).items():
        if name in written:
            continue
        properties += f":{name}:{kind}:{len(texts[0].split())}"
        parts.append(texts)
    entries += [f"Properties={properties}", f'pbc="{"F F F" if frame["cell"] is None else "T T T"}"']
    if frame.get("energy") is not None:
        entries.append(f"energy={float(frame['energy'])!r}")
    if frame.get("stress") is not None:
        entries.append(f'stress="{_words(frame["stress"])}"')
    free = {key: value for key, value in free.items() if key not in written}
    for key, value in free.items():
        name = key if re.fullmatch(_PLAIN, key) else quoted(key)
        entries.append(name if value is None else f"{name}={value}")
    return "\n".join([str(len(frame["elements"])), " ".join(entries), *map(" ".join, zip(*parts))]) + "\n"
