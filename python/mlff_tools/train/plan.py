"""The plan of mlff distill --dry-run: structures, labels and steps, and about how long each part takes.

The teacher labels a structure once, and then so many times in one call that the call itself is not most of it; the
difference, of the shortest of REPEATS each, is taken for all structures by their numbers of atoms. Training is
estimated from TRAINING, which cores of 2020 to 2025 keep to within a factor of two.
"""

import time

from ..certify.errors import INDEPENDENT
from . import generate, labelling, recipe_training, students
from .kinds import KINDS
from .label import make_teacher
from .recipe_certify import QUANTITIES
from .trainer import BATCH

MORE = 5
REPEATS = 3
LONG = 2.0  # s: a call that is not timed with more structures
TRAIN = 0.8  # of the frames are for training (splits.py)
TRAINING = {32: 120.0, 64: 250.0, 128: 900.0}  # us of an atom and step of training by features, two layers, one core
MACE, CHANNEL = 28.0, 0.1  # the same: moments of the neighbors, each channel
PRODUCTS = 2.5  # times as long with Hessian-vector products of half of the frames (inner_labels.py)


def span(seconds):
    """A time in words."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _asked(teacher, frame, n):
    """Seconds of the labels of n frames in one call, the shortest of REPEATS."""
    times = []
    for _ in range(REPEATS):
        begin = time.monotonic()
        labelling.ask(teacher, [frame] * n)
        times.append(time.monotonic() - begin)
    return min(times)


def teacher_time(wanted, programs):
    """(seconds that the teacher takes for an atom, its identity), of the first structure of the recipe; none for labels
    that are there."""
    frame = generate.first(wanted.recipe, wanted.structures, wanted.teacher, programs)
    teacher = make_teacher(wanted.teacher, [frame], wanted.recipe.folder, programs)
    try:
        if "labels" in wanted.teacher:
            return 0.0, teacher.identity
        labelling.ask(teacher, [frame])  # starts the teacher
        alone, more = _asked(teacher, frame, 1), MORE
        while (together := _asked(teacher, frame, 1 + more)) < min(2 * alone, LONG):
            more *= 2
        return (together - alone) / (more * len(frame["elements"])), teacher.identity
    finally:
        teacher.close()


def training_time(student, training, steps):
    """Seconds of so many steps of a training, of sections of a recipe; one core."""
    settings = students.filled(student)
    features = settings.get("features", 64 * settings.get("members", 1))
    nearest = min(TRAINING, key=lambda f: abs(f - features))
    each = TRAINING[nearest] * features / nearest * settings.get("layers", 2) / 2
    if "channels" in settings:
        each = MACE + CHANNEL * settings["channels"]
    return 1e-6 * each * (training.get("batch") or BATCH) * steps


def _steps(student, training):
    return recipe_training.config("plan", student, training, ["H"])["train"]["steps"]


def undecidable(wanted, programs):
    """[words] on bars of errors that the held-out trajectories of the recipe cannot decide."""
    test, others = generate.held_out(wanted.recipe, wanted.structures, wanted.teacher, programs)
    out, errors = [], [q for q, quantity in QUANTITIES.items() if quantity.measured_by == "errors"]
    bars = [(b.quantity, b.group) for b in KINDS.get(wanted.kind, ())]
    bars += [(quantity, group) for quantity, groups in wanted.bars.items() for group in groups]
    for quantity, group in dict.fromkeys(bars):
        words = set() if group == "all" or group.startswith("element ") else set(group.split())
        of_bar = lambda runs, words=words: sum(words <= {label, f"{t:g}", "K"} for label, t in runs)
        if quantity in errors and of_bar([*test, *others]) and of_bar(test) < INDEPENDENT:
            out.append(f"{quantity} ({group}): {of_bar(test)} held-out trajectories")
    return out


def rows(wanted, programs, timed=None):
    """[(name, text, seconds of one core or None)] of the parts of a run. timed: what teacher_time gave."""
    counts, rounds = generate.count(wanted.recipe, wanted.structures, wanted.teacher, programs), wanted.rounds
    each, who = timed or teacher_time(wanted, programs)
    steps = _steps(wanted.student, wanted.training)
    members = 1 + (rounds["committee"] if rounds["count"] else 0)
    cost = 1 + 2 * wanted.hessian_share  # a product costs as much as two frames
    train = cost * training_time(wanted.student, wanted.training, steps)
    more = rounds["count"] * members * cost * training_time(wanted.student, wanted.training, rounds["steps"])
    added = rounds["count"] * rounds["frames"]
    atoms = counts.atoms / max(1, counts.frames)
    inner = []
    if wanted.inner:
        n = _steps(*wanted.inner)
        inner = [("inner model", f"1 x {n} steps", PRODUCTS * training_time(*wanted.inner, n))]
    others = f", {counts.other_steps} of them by other potentials, whose time is left out" if counts.other_steps else ""
    products = round(TRAIN * wanted.hessian_share * (counts.frames + added))
    bars = len(KINDS.get(wanted.kind, ())) + len(wanted.bars)
    found = [
        ("teacher", f"{who['kind']} {who['name']}, {1e6 * each:.3g} us for an atom", None),
        ("structures", f"{counts.frames} frames, {counts.steps} steps of dynamics{others}", each * counts.atom_steps),
        ("labels", f"{counts.frames} and up to {added} of rounds", each * (counts.atoms + added * atoms)),
        ("hessian", f"products of about {products} frames, {2 * products} labels", each * 2 * products * atoms),
        ("training", f"{members} x {steps} steps", members * train),
        ("rounds", f"up to {rounds['count']}, each {members} x {rounds['steps']} steps of training", more),
        *inner,
        ("committee", f"{wanted.committee - 1} x {steps} steps", (wanted.committee - 1) * train),
        ("certificate", f"{bars} bars; up to {wanted.certify['minutes']:g} min for each run", None),
    ]
    left_out = {"rounds": rounds["count"], "hessian": products, "committee": wanted.committee - 1}
    return [row for row in found if left_out.get(row[0], True)]


def seconds(wanted, programs, timed=None):
    """Estimated time of one core, without the certificate. timed: as of rows."""
    return sum(spent for _, _, spent in rows(wanted, programs, timed) if spent)


def show(wanted, programs, write):
    """Prints the plan."""
    parts = rows(wanted, programs)
    for name, text, spent in parts:
        write(f"  {name:<12} {text}" + ("" if spent is None else f": about {span(spent)}"))
    total = sum(spent for _, _, spent in parts if spent)
    write(f"  {'together':<12} about {span(total)} of one core, and the certificate")


def warn(wanted, programs, write):
    """Prints which bars the held-out trajectories of the recipe cannot decide."""
    few = undecidable(wanted, programs)
    if few:
        write(
            f"{wanted.recipe.path}: bars that need {INDEPENDENT} held-out trajectories stay undecided: "
            f"{', '.join(few)}. Add dynamics with split: test, of other seeds than those of the training"
        )
