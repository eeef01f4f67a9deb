"""Labelled frames as extended XYZ, in A, eV, eV/A and eV/A^3.

A frame is a structure (model/structures.py) with labels:
  name, elements [N], positions [N, 3] A, cell None or [3, 3] A (periodic in all directions or in none)
  energy eV, forces [N, 3] eV/A, stress [3, 3] eV/A^3 (positive when stretched, as in ASE), atom_energies [N] eV;
  what is not known is None
  info {key: text}, columns {name: (kind, [N] texts)}: what else the file has, as it stands there
In the file they are the keys energy and stress (or virial = -stress * volume) and the columns forces and energies.
Numbers are written with all their digits and free keys as they were read, so that frames come back as they were.
"""

import hashlib
import re

import numpy as np

from ..model.modelfile import NUMBERS, ModelError

LABELS = ("energy", "forces", "stress", "atom_energies")
# A key, then nothing, or = and a text in quotes, in brackets, or without blanks
_ENTRY = re.compile(r'([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^\]]*\]|[^\s"]*))?(?=\s|$)')
_TRUE, _FALSE = {"t", "true", "1"}, {"f", "false", "0"}


class FrameError(ModelError):
    """A frame that cannot be used."""


class Cut(FrameError):
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
    if len(text) > 1 and text[0] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def tag(frame, key, default=None):
    """The text of a key of a frame's info, without its quotes."""
    text = frame.get("info", {}).get(key)
    return default if text is None else plain(text)


def quoted(text):
    """A value as it is written: in quotes where it must be."""
    if re.fullmatch(r'[^\s"\\={}\[\]]+', text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def parse_comment(line):
    """{key: text as it stands there, None for a lone word} of the second line of a frame."""
    found, at = {}, 0
    line = line.strip()
    while at < len(line):
        entry = _ENTRY.match(line, at)
        if not entry:
            raise FrameError(
                f"the comment line cannot be read from '{line[at : at + 30]}' on (key=value, or key=\"...\")"
            )
        if entry[1] in found and entry[2] is not None:
            raise FrameError(f"the key {entry[1]} stands twice in the comment line")
        found.setdefault(entry[1], entry[2])
        at = entry.end()
        while at < len(line) and line[at].isspace():
            at += 1
    return found


def _comment(line):
    """As parse_comment; a line that is only meant for people is kept as the key comment."""
    try:
        return parse_comment(line)
    except FrameError:
        if re.search(r"(^|\s)(Lattice|Properties|pbc|energy)=", line):
            raise
        return {"comment": quoted(line.strip())}


def _numbers(text, what, counts):
    try:
        values = np.array([float(word) for word in re.sub(r"[\[\]{},]", " ", plain(text)).split()])
    except ValueError as e:
        raise FrameError(f"{what} is {text}, which are not numbers") from e
    if len(values) not in counts:
        raise FrameError(f"{what} has {len(values)} numbers instead of {' or '.join(map(str, counts))}")
    if not np.isfinite(values).all():
        raise FrameError(f"{what} holds NaN or infinity")
    return values


def _cell(info):
    """cell or None; takes Lattice and pbc from info, unless the Lattice of an open structure, which stays there."""
    pbc, lattice = info.pop("pbc", None), info.get("Lattice")
    directions = None
    if pbc is not None:
        words = re.sub(r"[\[\]{},]", " ", plain(pbc)).lower().split()
        if len(words) != 3 or not all(word in _TRUE | _FALSE for word in words):
            raise FrameError(f'pbc is {pbc}: three of T and F are expected, as in pbc="T T T"')
        directions = [word in _TRUE for word in words]
        if len(set(directions)) > 1:
            raise FrameError(
                f"pbc is {pbc}: a structure must be periodic in all directions or in none; give slabs and wires a "
                'vacuum and pbc="T T T"'
            )
    if lattice is None:
        if directions and directions[0]:
            raise FrameError(f"pbc is {pbc}, but there is no Lattice")
        return None
    cell = _numbers(lattice, "Lattice", (9,)).reshape(3, 3)
    if directions and not directions[0]:
        return None
    del info["Lattice"]
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


def _stress(info, cell, names):
    """The stress of the keys stress or virial, which are taken from info; None without a cell, where they stay."""
    if cell is None:
        return None
    volume, found = abs(np.linalg.det(cell)), []
    stress, virial = info.pop(names["stress"], None), info.pop(names["virial"], None)
    if stress is not None:
        found.append(_tensor(_numbers(stress, "stress", (6, 9)), "the stress"))
    if virial is not None:  # six numbers are in other orders elsewhere
        found.append(-_tensor(_numbers(virial, "virial", (9,)), "the virial") / volume)
    if len(found) == 2 and np.abs(found[0] - found[1]).max() > 1e-6 * max(1e-3, np.abs(found[0]).max()):
        raise FrameError("stress and virial contradict each other: virial = -stress * volume")
    return found[0] if found else None


def _split_columns(properties):
    """[(name, kind, first, count)] of Properties."""
    words = plain(properties).split(":")
    if len(words) % 3:
        raise FrameError(f"Properties={properties} are not triples of name, kind and number of columns")
    columns, at = [], 0
    for name, kind, count in zip(words[::3], words[1::3], words[2::3]):
        if kind not in "SRIL" or not count.isdigit() or int(count) < 1:
            raise FrameError(f"Properties={properties}: {name}:{kind}:{count} is not understood")
        columns.append((name, kind, at, int(count)))
        at += int(count)
    wanted = {(name, count) for name, _, _, count in columns}
    if ("species", 1) not in wanted or ("pos", 3) not in wanted:
        raise FrameError(f"Properties={properties}: species:S:1 and pos:R:3 are needed")
    return columns, at


def _table(rows, first, count, what):
    try:
        values = np.array([[float(x) for x in row[first : first + count]] for row in rows])
    except ValueError as e:
        raise FrameError(f"a value in the column {what} is not a number: {e}") from e
    bad = np.nonzero(~np.isfinite(values).all(1))[0]
    if len(bad):
        raise FrameError(f"{what} of atom {bad[0] + 1} is NaN or infinite")
    return values


def _columns(rows, columns, names):
    """elements, positions, forces, energies of atoms, and the columns that are none of these."""
    out, free = {"forces": None, "energies": None}, {}
    known = {names["forces"]: ("forces", 3), names["energies"]: ("energies", 1), "pos": ("pos", 3)}
    for name, kind, first, count in columns:
        if name == "species":
            out["species"] = [row[first] for row in rows]
        elif name in known:
            if count != known[name][1]:
                raise FrameError(f"Properties: {name} has {count} columns instead of {known[name][1]}")
            out[known[name][0]] = _table(rows, first, count, name)
        else:
            free[name] = (kind, [" ".join(row[first : first + count]) for row in rows])
    unknown = [e for e in out["species"] if e not in NUMBERS or e == "X"]
    if unknown:
        raise FrameError(f"'{unknown[0]}' is not a chemical symbol")
    energies = None if out["energies"] is None else out["energies"][:, 0]
    return out["species"], out["pos"], out["forces"], energies, free


WRITTEN = {"energy": "energy", "forces": "forces", "energies": "atom_energies", "stress": "stress", "virial": "stress"}
STANDARD = {"energy": "energy", "forces": "forces", "stress": "stress", "virial": "virial", "energies": "energies"}


def parse_frame(lines, k, names=STANDARD):
    """(frame, line after it) from the lines of a file, from line k on. names: what the labels are called there."""
    count = lines[k].strip()
    if not count.isdigit() or int(count) < 1:
        raise FrameError(f"the number of atoms is expected, not '{count[:40]}'")
    n = int(count)
    if len(lines) < k + 2 + n:
        raise Cut(f"the file ends after {max(0, len(lines) - k - 2)} of {n} atoms")
    info = _comment(lines[k + 1])
    columns, width = _split_columns(info.pop("Properties", None) or "species:S:1:pos:R:3")
    rows = [line.split() for line in lines[k + 2 : k + 2 + n]]
    for i, row in enumerate(rows):
        if len(row) < width:
            raise FrameError(f"atom {i + 1} has {len(row)} of {width} columns: '{lines[k + 2 + i][:60]}'")
    cell = _cell(info)
    elements, positions, forces, energies, free = _columns(rows, columns, names)
    energy = info.pop(names["energy"], None)
    frame = {"elements": elements, "positions": positions, "cell": cell, "forces": forces, "atom_energies": energies}
    frame["energy"] = None if energy is None else float(_numbers(energy, names["energy"], (1,))[0])
    frame["stress"] = _stress(info, cell, names)
    frame.update(name=plain(info.get("name") or "") or None, info=info, columns=free)
    return frame, k + 2 + n


def read(path, names=None):
    """All frames of an extended XYZ file. names: what the labels are called there, where it is not as in STANDARD."""
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except OSError as e:
        raise FrameError(f"{path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise FrameError(f"{path}: is not text") from e
    frames, k = [], 0
    while k < len(lines):
        if not lines[k].strip():
            k += 1
            continue
        try:
            frame, k = parse_frame(lines, k, {**STANDARD, **(names or {})})
        except FrameError as e:
            raise type(e)(f"{path}, frame {len(frames) + 1} (line {k + 1}): {e}") from e
        frame["name"] = frame["name"] or f"{path}, frame {len(frames) + 1}"
        frame["source"] = f"{path}, frame {len(frames) + 1}"
        frames.append(frame)
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
    entries += [key if value is None else f"{key}={value}" for key, value in free.items()]
    return "\n".join([str(len(frame["elements"])), " ".join(entries), *map(" ".join, zip(*parts))]) + "\n"
