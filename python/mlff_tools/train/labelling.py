"""Labels frames by a teacher: checks what it answers and adds it to a file, which a later call goes on with."""

import time

import numpy as np

from . import consistency, hessian, labels
from .extxyz import FrameError
from .process import Died, TeacherError

LONGEST = 8.0  # s: a batch is made as large as fits into this; each opens the model anew, which can take a second
LARGEST = 256  # frames of a batch
STEP = 0.01  # A by which the first frame is moved, all atoms together
RATTLE = 0.05  # A, of a first frame without forces
SAME_FORCE = 2e-3  # eV/A by which two calls may differ; of energies: labels.SAME_ENERGY
SAME_STRESS = 1e-4  # eV/A^3
RECHECKED = 3  # frames of a file that the teacher labels again
ELSEWHERE = 5.0  # times as much may labels differ that were made elsewhere, by other versions or in another precision
# Strain of the structure that stress is compared in, so that it has one, with six different components; and of the step
STRAINED = np.array([[0.02, 0.004, -0.02], [0.004, -0.005, 0.012], [-0.02, 0.012, -0.015]])
STRAIN = 0.003
BOUND = 20.0  # eV: no matter is bound by more, for an atom


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


def check_same(a, b, what, times=1.0):
    """TeacherError unless two labels of one frame agree. Rounding and self-consistency leave differences, of which
    `times` as many are allowed."""
    n = len(a["elements"])
    energy, force = abs(a["energy"] - b["energy"]), float(np.abs(a["forces"] - b["forces"]).max())
    largest = max(1.0, float(np.abs(a["forces"]).max()))
    apart = energy > times * (labels.SAME_ENERGY * n + 1e-7 * abs(a["energy"])) or force > times * SAME_FORCE * largest
    text = ""
    if a.get("stress") is not None and b.get("stress") is not None:
        stress = float(np.abs(a["stress"] - b["stress"]).max())
        apart = apart or stress > times * (SAME_STRESS + SAME_FORCE * float(np.abs(a["stress"]).max()))
        text = f", stresses by up to {stress:.3g} eV/A^3"
    if apart:
        raise TeacherError(
            f"{a['source']}: {what}: energies {a['energy']!r} and {b['energy']!r} eV, forces differ by up to "
            f"{force:.3g} eV/A{text}{_factor(a['forces'], b['forces'])}"
        )


def _factor(a, b):
    """Words for forces that differ by a factor alone."""
    square, product = float((b**2).sum()), float((a * b).sum())
    if not square or abs(product) < 0.99 * np.sqrt(square * (a**2).sum()) or 0.9 < product / square < 1.1:
        return ""
    return f"; the first forces are {product / square:.4g} times the second (kcal/mol gives 23.1, hartree 0.0367)"


def check_again(teacher, frames, what, times=1.0):
    """TeacherError unless the teacher gives a few of these frames the labels that they have."""
    for k in dict.fromkeys(np.linspace(0, len(frames) - 1, RECHECKED).round().astype(int).tolist()):
        try:
            check_same(frames[k], ask(teacher, [frames[k]])[0], what, times)
        except Died as e:
            raise named(e, frames[k]) from e


def unused_states(teacher, frames):
    """Notes on charges and magnetic moments of structures that this teacher does not see; TeacherError where it could
    use them, and does not get them."""
    found = labels.states(frames)
    if not found:
        return []
    name, frame = next(iter(found.items()))
    if teacher.identity["kind"] == "ase":
        raise TeacherError(
            f"{frame['source']}: has {' and '.join(found)}, which mlff does not hand to a calculator of ASE: let its "
            "function set them, and take the keys or columns off"
        )
    return [f"{frame['source']} has {' and '.join(found)}, which neither the teacher nor a student uses"]


def _resolution(frame):
    """Rounding error of energies in single precision, eV."""
    return 1e-6 + 2e-7 * abs(frame["energy"])


def slope_ratio(teacher, frame):
    """Difference of energies over the work of the forces, when all atoms are moved along their forces; 1 for
    derivatives. None where the forces are too small to tell."""
    size = float(np.linalg.norm(frame["forces"]))
    if 2 * STEP * size < 50 * _resolution(frame):
        return None
    way = STEP * frame["forces"] / size
    moved = [{**frame, "positions": frame["positions"] + sign * way} for sign in (1, -1)]
    forward, backward = ask(teacher, moved)
    return (backward["energy"] - forward["energy"]) / (2 * STEP * size)


def check_derivatives(teacher, frame):
    """Whether the forces are derivatives of the energy, or None, and words about it; TeacherError when their units or
    signs differ."""
    ratio = slope_ratio(teacher, frame)
    if ratio is None:  # at rest: elsewhere
        moved = RATTLE * np.random.default_rng(1).normal(size=frame["positions"].shape)
        (elsewhere,) = ask(teacher, [{**frame, "positions": frame["positions"] + moved}])
        ratio, change = slope_ratio(teacher, elsewhere), abs(elsewhere["energy"] - frame["energy"])
        if not elsewhere["forces"].any() and change > 50 * _resolution(frame):
            raise TeacherError(
                f"{frame['source']}: moved by {RATTLE} A, the energy changes by {change:.4g} eV, "
                "and all forces are zero"
            )
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


def _strained(frame, strain):
    """The frame under a symmetric strain [3, 3]."""
    deformation = np.eye(3) + strain
    return {**frame, "positions": frame["positions"] @ deformation, "cell": frame["cell"] @ deformation}


def _stress_along(frame, way, size):
    """dE/ds, eV, of a labelled frame that is strained by s times `way`, at s = size."""
    change = way @ np.linalg.inv(np.eye(3) + size * way)
    return abs(np.linalg.det(frame["cell"])) * float((frame["stress"] * change).sum())


def stress_ratios(teacher, frame):
    """Differences of energies over the work of the stress: under a change of volume and along the rest of the stress;
    1 for derivatives. None where the stress is too small to tell; no list without a stress."""
    (base,) = ask(teacher, [_strained(frame, STRAINED)])
    if base["stress"] is None:
        return None
    rest = base["stress"] - np.eye(3) * np.trace(base["stress"]) / 3
    ways = [np.eye(3) / np.sqrt(3), rest / max(np.linalg.norm(rest), 1e-300)]
    out = []
    for way in ways:
        forward, backward = ask(teacher, [_strained(base, sign * STRAIN * way) for sign in (1, -1)])
        slopes = [_stress_along(f, way, s) for f, s in ((backward, -STRAIN), (base, 0.0), (forward, STRAIN))]
        work = STRAIN * (slopes[0] + 4 * slopes[1] + slopes[2]) / 3  # Simpson: the stress may vanish in the middle
        small = abs(work) < 50 * _resolution(base)
        out.append(None if small else (forward["energy"] - backward["energy"]) / work)
    return out


def check_stress(teacher, frames, write):
    """Compares the stress with energies in the first periodic frame; TeacherError when units, sign or order differ."""
    frame = next((f for f in frames if f["cell"] is not None), None)
    ratios = frame and stress_ratios(teacher, frame)
    if not ratios:
        return
    found = [r for r in ratios if r is not None]
    if not found:
        write(f"{frame['source']}: the stress is too small to compare it with energies")
        return
    wrong = [r for r in found if not 0.5 < r < 2.0]
    if wrong:
        raise TeacherError(
            f"{frame['source']}: strained by {100 * STRAIN:g} %, the energy changes by {wrong[0]:.4g} times the work "
            "of the stress, which should be 1 (GPa gives 0.00624, kbar -0.000624, the wrong sign -1): "
            + consistency.STRESS
        )
    words = " and ".join(f"{r:.4f}" for r in found)
    write(f"under strain the energy changes by {words} times the work of the stress")


def check_scale(teacher, frame, write):
    """TeacherError when energies of a calculator of ASE are in other units than eV, by those of free atoms."""
    free, tries, teacher.tries = {}, teacher.tries, 0
    try:
        for e in sorted(set(frame["elements"])):
            atom = {"elements": [e], "positions": np.zeros((1, 3)), "cell": None, "source": f"an atom of {e}"}
            free[e] = ask(teacher, [{**atom, "name": atom["source"], "info": {}, "columns": {}}])[0]["energy"]
    except TeacherError as e:
        write(f"note: the teacher has no free atoms to compare energies with ({str(e).strip().splitlines()[-1]})")
        return
    finally:
        teacher.tries = tries
    try:
        consistency.check_scale(free, f"the teacher {teacher.identity['name']}")
    except FrameError as e:
        raise TeacherError(str(e)) from e
    bound = (sum(free[e] for e in frame["elements"]) - frame["energy"]) / len(frame["elements"])
    if bound > BOUND:
        raise TeacherError(
            f"{frame['source']}: the energy is {bound:.4g} below that of free atoms, for each atom, where matter is "
            "bound by up to 10 eV: energies must be in eV and forces in eV/A (kcal/mol gives 23.1 times as much)"
        )


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
    return todo if teacher.identity["kind"] == "labels" else [hessian.strip_products(f) for f in todo]


def label(teacher, frames, file, write, share=0.0, refused=None):
    """Labels what `file` (labels.LabelFile) does not hold yet and adds it, in this order. write: prints a line; share:
    of the training frames, which have Hessian-vector products; refused: a list that frames which the teacher cannot
    label are added to, None: they are an error."""
    todo = _to_do(teacher, frames, file, write, share)
    if not todo:
        return
    if file.frames:
        check_again(teacher, file.frames, "the teacher does not give the labels of the file any more")
    else:
        try:
            first, file.derivatives = check_first(teacher, todo[0], write, share)
            if teacher.identity["kind"] != "labels":
                check_stress(teacher, todo, write)
            if teacher.identity["kind"] == "ase":
                check_scale(teacher, first, write)
        except TeacherError as e:
            raise named(e, todo[0]) from e
        file.append([first])
        todo = todo[1:]
    progress, size, start = Progress(len(todo), write), 1, 0
    while start < len(todo):
        batch, begin = todo[start : start + size], time.monotonic()
        good, error = _asked(teacher, batch, share)
        if good:
            file.append(good)
        if error and refused is not None:
            bad = batch[len(good)]
            write(f"left out, since the teacher refuses it: {error}")
            refused.append(bad)
            start, size = start + len(good) + 1, 1
            progress.add(len(good) + 1)
            continue
        if error:
            kept = len(file.frames)
            raise type(error)(f"{error}\n{kept} frames are in {file.path}: run the same command to continue after them")
        start += len(batch)
        progress.add(len(batch))
        if time.monotonic() - begin < LONGEST / 2:
            size = min(LARGEST, 2 * size)
        elif time.monotonic() - begin > LONGEST:
            size = max(1, size // 2)
