"""Labels frames by a teacher: checks what it answers and adds it to a file, which a later call goes on with."""

import time

import numpy as np

from . import hessian, labels
from .process import Died, TeacherError

LONGEST = 8.0  # s: a batch is made as large as fits into this; each opens the model anew, which can take a second
LARGEST = 256  # frames of a batch
STEP = 0.01  # A by which the first frame is moved, all atoms together
RATTLE = 0.05  # A, of a first frame without forces
SAME_FORCE = 2e-3  # eV/A by which two calls may differ; of energies: labels.SAME_ENERGY


def _finite(value, shape, what, frame):
    value = np.asarray(value, float)
    if value.shape != shape:
        raise TeacherError(f"{frame['source']}: the teacher's {what} have shape {list(value.shape)}, not {list(shape)}")
    if not np.isfinite(value).all():
        raise TeacherError(f"{frame['source']}: the teacher's {what} hold NaN or infinity")
    return value


def ask(teacher, frames):
    """Labelled copies of frames, checked."""
    out = []
    answers = teacher.label(frames)
    if len(answers) != len(frames):
        raise TeacherError(f"{frames[0]['source']}: the teacher answered {len(answers)} of {len(frames)} frames")
    for frame, answer in zip(frames, answers):
        n = len(frame["elements"])
        shapes = {"energy": (), "forces": (n, 3), "stress": (3, 3), "atom_energies": (n,)}
        new = {
            key: None if answer[key] is None else _finite(answer[key], shape, key.replace("_", " "), frame)
            for key, shape in shapes.items()
        }
        if new["energy"] is None or new["forces"] is None:
            raise TeacherError(f"{frame['source']}: the teacher gave no energy or no forces")
        new["energy"] = float(new["energy"])
        parts = new["atom_energies"]
        if parts is not None and abs(parts.sum() - new["energy"]) > labels.SAME_ENERGY * n:
            new["atom_energies"] = None  # parts of something else
        out.append({**frame, **new})
    return out


def ask_more(teacher, frames, share):
    """As ask, and the Hessian-vector products of this share of the training frames (hessian.is_chosen)."""
    found = ask(teacher, frames)
    mine = [k for k, frame in enumerate(found) if hessian.is_chosen(frame, share)]
    if not mine:
        return found
    probes = hessian.probes([found[k] for k in mine])
    if len(frames) > 1:
        moved = ask(teacher, probes)
    else:  # one by one a teacher that dies is started again
        moved = [answer for probe in probes for answer in ask(teacher, [probe])]
    for k, frame in zip(mine, hessian.joined([found[k] for k in mine], moved)):
        found[k] = frame
    return found


def check_same(a, b, what):
    """TeacherError unless two labels of one frame agree. Rounding and self-consistency leave differences."""
    n = len(a["elements"])
    energy, force = abs(a["energy"] - b["energy"]), float(np.abs(a["forces"] - b["forces"]).max())
    largest = max(1.0, float(np.abs(a["forces"]).max()))
    if energy > labels.SAME_ENERGY * n + 1e-7 * abs(a["energy"]) or force > SAME_FORCE * largest:
        raise TeacherError(
            f"{a['source']}: {what}: energies {a['energy']!r} and {b['energy']!r} eV, forces differ by up to "
            f"{force:.3g} eV/A"
        )


def slope_ratio(teacher, frame):
    """Difference of energies over the work of the forces, when all atoms are moved along their forces; 1 for
    derivatives. None where the forces are too small to tell."""
    size = float(np.linalg.norm(frame["forces"]))
    resolution = 1e-6 + 2e-7 * abs(frame["energy"])  # of energies in single precision
    if 2 * STEP * size < 50 * resolution:
        return None
    way = STEP * frame["forces"] / size
    moved = [{**frame, "positions": frame["positions"] + sign * way} for sign in (1, -1)]
    ahead, behind = ask(teacher, moved)
    return (behind["energy"] - ahead["energy"]) / (2 * STEP * size)


def check_derivatives(teacher, frame):
    """Whether the forces are derivatives of the energy, or None, and words about it; TeacherError when their units or
    signs differ."""
    ratio = slope_ratio(teacher, frame)
    if ratio is None:  # at rest: elsewhere
        moved = RATTLE * np.random.default_rng(1).normal(size=frame["positions"].shape)
        ratio = slope_ratio(teacher, ask(teacher, [{**frame, "positions": frame["positions"] + moved}])[0])
    if ratio is None:
        return None, "forces near the first frame are too small to compare with energies"
    if not 0.5 < ratio < 2.0:
        raise TeacherError(
            f"{frame['source']}: moved along its forces by {STEP} A, the energy changes by {ratio:.4g} times their "
            "work, which should be 1: are energies in eV and forces in eV/A, and are the forces those of this energy? "
            "[mlff-51]"
        )
    fits = abs(ratio - 1) < 0.02
    return fits, f"near the first frame the energy changes by {ratio:.4f} times the work of the forces" + (
        "" if fits else ": they are not its derivatives"
    )


def check_first(teacher, frame, write, share=0.0):
    """(labels of the first frame, asked for twice; whether forces are derivatives of the energy, None: not known)"""
    first, again = ask_more(teacher, [frame], share)[0], ask(teacher, [frame])[0]
    check_same(first, again, "two calls of the teacher differ")
    if teacher.identity["kind"] == "labels":
        return first, None
    found, about = check_derivatives(teacher, first)
    write(about)
    return first, found if teacher.derivatives is None else teacher.derivatives


class Progress:
    """Prints a line now and then: how many, how fast, how long still."""

    def __init__(self, total, write, every=10.0):
        self.total, self.done, self.begin, self.write, self.every = total, 0, time.monotonic(), write, every
        self.next = self.begin + min(every, 2.0)

    def add(self, n):
        self.done += n
        now = time.monotonic()
        if now < self.next and self.done < self.total:
            return
        self.next = now + self.every
        each = (now - self.begin) / self.done
        left = each * (self.total - self.done)
        text = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.1f} h"
        self.write(f"{self.done} of {self.total} frames, {each:.3g} s each, {text} left")


def _asked(teacher, frames, share):
    """Labels of as many of the frames as there are: one by one when the teacher fails with several, so that what is
    good is kept. Returns (labelled frames, error or None)."""
    try:
        return ask_more(teacher, frames, share), None
    except TeacherError as e:
        if len(frames) == 1:
            return [], named(e, frames[0])
    good = []
    for frame in frames:
        try:
            good += ask_more(teacher, [frame], share)
        except TeacherError as e:
            return good, named(e, frame)
    return good, None


def named(error, frame):
    """The error with its frame's name."""
    text = str(error)
    return error if frame["source"] in text else type(error)(f"{frame['source']}: {text}")


def _to_do(teacher, frames, file, write, share):
    """The frames that the file does not hold yet."""
    held = {labels.structure_key(f): f for f in file.frames}
    todo = [f for f in frames if labels.structure_key(f) not in held]
    if held:
        write(f"{file.path} holds {len(held)} frames; {len(todo)} of {len(frames)} are to be labelled")
    bare = sum(hessian.is_chosen(f, share) and not hessian.is_known(f) for f in held.values())
    if bare:
        write(f"{bare} of its frames stay without Hessian-vector products: label into another file to have them")
    return todo if teacher.identity["kind"] == "labels" else [hessian.without(f) for f in todo]


def label(teacher, frames, file, write, share=0.0):
    """Labels what `file` (labels.LabelFile) does not hold yet and adds it, in this order. write: prints a line; share:
    of the training frames, which have Hessian-vector products."""
    todo = _to_do(teacher, frames, file, write, share)
    if not todo:
        return
    if file.frames:
        old = file.frames[0]
        try:
            check_same(old, ask(teacher, [old])[0], "the teacher does not give the labels of the file any more")
        except Died as e:
            raise named(e, old) from e
    else:
        try:
            first, file.derivatives = check_first(teacher, todo[0], write, share)
        except TeacherError as e:
            raise named(e, todo[0]) from e
        file.append([first])
        todo = todo[1:]
    progress, size, at = Progress(len(todo), write), 1, 0
    while at < len(todo):
        batch, begin = todo[at : at + size], time.monotonic()
        good, error = _asked(teacher, batch, share)
        if good:
            file.append(good)
        if error:
            kept = len(file.frames)
            raise type(error)(f"{error}\n{kept} frames are in {file.path}: the same command goes on after them")
        at += len(batch)
        progress.add(len(batch))
        if time.monotonic() - begin < LONGEST / 2:
            size = min(LARGEST, 2 * size)
        elif time.monotonic() - begin > LONGEST:
            size = max(1, size // 2)
