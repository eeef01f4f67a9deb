"""All frames of the section `structures` of a recipe: built ones, their copies, and dynamics from them.

generate() gives the same frames in the same order for the same recipe. Each has in its info config_type, trajectory,
split, and where dynamics made it temperature (K), pressure (bar) and time (ps).
"""

import itertools
import json
import os
import re
import typing

from ..model.modelfile import find_model, read_head
from . import build, copies, dynamics, labels, splits
from .extxyz import FrameError, plain, quoted, tag, without
from .liquids import read_molecule
from .potentials import Programs, potential
from .teacher_lammps import types_of


class Count(typing.NamedTuple):
    """What a recipe asks for: frames, steps of dynamics, both times their numbers of atoms, the latter of the teacher
    alone, and steps of other potentials (key `by`)."""

    frames: int
    steps: int
    atoms: int
    atom_steps: int
    other_steps: int


def label_of(item):
    """config_type of an item's frames; None for those of files, which have that of their file."""
    kind = next((k for k in build.KINDS if k in item), None)
    return item.get("label", kind)


def tagged(frame, **tags):
    """The frame with tags in its info; those that are None stay as they are."""
    found = {key: quoted(str(value)) for key, value in tags.items() if value is not None}
    return {**frame, "info": {**frame["info"], **found}}


def _stem(frame):
    """The name of the file that a frame is from, without what follows its first dot."""
    path = frame["source"].rsplit(", frame ", 1)[0]
    return os.path.basename(path).split(".")[0] or "file"


class Item:
    """An item of `structures:`, its frames that are built, and its trajectories."""

    def __init__(self, recipe, k, item, teacher, python=None, frames=None):
        self.number, self.item, self.where = k + 1, item, f"{recipe.path}, structures[{k + 1}]"
        self.place, self.label = recipe.folder, label_of(item)
        self.dynamics = dynamics.settings(item["dynamics"]) if "dynamics" in item else None
        self.mover = (item.get("dynamics") or {}).get("by", teacher)
        self.by_teacher = self.mover == teacher
        if self.dynamics and "seed" not in item["dynamics"]:
            self.dynamics["seed"] = item.get("seed", 1)
        self.packs = "liquid" in item and bool(self.dynamics)  # each trajectory begins with a box of its own
        bases = [] if self.packs else frames or build.bases(item, self.where, self.place, python)
        self.bases = [without(frame, "round") for frame in bases]  # of another run: the first training uses them

    def states(self):
        d = self.dynamics
        if d is None:
            return []
        if self.packs and "density" in self.item["liquid"]:
            d = {**d, "density": build.listed(self.item["liquid"]["density"])}
        return dynamics.states(d)

    def trajectory(self, *words):
        """The text of `trajectory`, other than that of all other items."""
        return "-".join([str(self.number), self.label or "file", *map(str, words)])

    def _of_file(self, frame, k):
        """The trajectory of the k-th frame that is there: frames of a file may follow each other in time, but for those
        that say their split. Without words a label would make it that of copies (certify/errors.py)."""
        words = [f"frame{k}"] if tag(frame, "split") else ["frames"] if self.label else []
        return self.trajectory(*(words if "files" in self.item else []))

    def _label(self, frame):
        return self.label or tag(frame, "config_type") or _stem(frame)

    def _static(self):
        """Frames that are there without a potential: (frame, split, trajectory)."""
        n, out = self.item.get("copies", 1), []
        wanted = self.item if "relax" not in self.item else {}
        frames = build.copies(self.bases, wanted, self.where)
        rest = frames[len(self.bases) :]
        alone = "files" not in self.item or len(self.bases) < splits.FEWEST
        dealt = ["train"] * len(self.bases) if alone else self._of_files()
        if build.is_random(self.item):
            dealt = splits.of_copies(len(self.bases))
        for k, (frame, split) in enumerate(zip(self.bases, dealt), 1):
            out.append((frame, split, frame["info"].get("trajectory") or self._of_file(frame, k)))
        for k, frame in enumerate(rest):
            out.append((frame, splits.of_copies(n)[k % n], self.trajectory()))
        return out

    def _of_files(self):
        """Splits of the frames of files: as they say; else frames of a trajectory are cut in time, others dealt out."""
        named, out = {}, [None] * len(self.bases)
        for k, frame in enumerate(self.bases):
            named.setdefault(frame["info"].get("trajectory"), []).append(k)
        for name, mine in named.items():
            rule = splits.of_copies if name is None else splits.of_trajectory
            for k, split in zip(mine, rule(len(mine))):
                out[k] = split
        return [tag(f, "split") or split for f, split in zip(self.bases, out)]

    def frames(self):
        """The built frames, tagged."""
        out, forced = [], self.item.get("split")
        for frame, split, trajectory in self._static():
            tags = {"config_type": self._label(frame), "split": forced or split}
            out.append(tagged(frame, **tags, trajectory=plain(trajectory)))
        return out

    def tasks(self, moved_by):
        """[(task, split of each frame, tags)] of the trajectories. moved_by: gives the potential of a section."""
        out = []
        if "relax" in self.item:
            out += [self._chain(k, base, moved_by(self.mover)) for k, base in enumerate(self.bases)]
        for number, state in enumerate(self.states()):
            starts = self.bases
            if self.packs:
                starts = build.filled([build.packed(self.item, state["density"], number, self.place)], self.where)
            out += [self._run(k, start, state, moved_by(self.mover)) for k, start in enumerate(starts)]
        return out

    def _task(self, start, words, plan, moved_by):
        name = re.sub(r"[^\w.+-]", "_", "-".join([self._label(start), *words]))
        about = f"{self.where}, {name}"
        start = {**start, "source": about}
        keep = bool(self.dynamics) and self.dynamics["on_error"] == "keep"
        return dynamics.Task(name, about, start, moved_by, plan, keep)

    def _words(self, k, words):
        return [*words, f"from{k + 1}"] if len(self.bases) > 1 else words

    def _chain(self, k, base, moved_by):
        item, words = self.item, self._words(k, ["relaxed"])
        plan = {"kind": "relax", "steps": item["relax"], "rattle": item["rattle"], "strain": item.get("strain", 0.0)}
        plan.update(copies=item.get("copies", 1), seed=item.get("seed", 1))
        tags = {"config_type": self._label(base), "trajectory": self.trajectory(*words)}
        return self._task(base, words, plan, moved_by), splits.of_trajectory(plan["copies"]), tags

    def _run(self, k, start, state, moved_by):
        words = self._words(k, [dynamics.state_name(state)])
        plan = dynamics.plan(self.dynamics, state, start)
        tags = {"config_type": self._label(start), "trajectory": self.trajectory(*words)}
        tags.update(temperature=f"{state['temperature']:g}")
        tags.update(pressure=None if state["pressure"] is None else f"{state['pressure']:g}")
        tags.update(by=None if self.by_teacher else next(iter(self.mover)))
        dealt = splits.of_trajectory(plan["frames"], self.dynamics["every"])
        return self._task(start, words, plan, moved_by), dealt, tags


class Potentials:
    """Potentials by their sections, each made once."""

    def __init__(self, place, programs):
        self.place, self.programs, self.made = place, programs, {}

    def __call__(self, section):
        key = json.dumps(section, sort_keys=True, default=str)
        if key not in self.made:
            self.made[key] = potential(section, self.place, self.programs)
        return self.made[key]

    def close(self):
        for one in self.made.values():
            one.close()


def _finished(frames, dealt, tags, forced):
    """Frames of a trajectory, tagged; without those between two parts."""
    out = []
    for k, frame in enumerate(frames):
        split = forced or dealt[k]
        if split:
            moment = f"{frame['ps']:g}" if "temperature" in tags else None
            out.append(tagged(frame, **tags, split=split, time=moment))
    return out


def _items(recipe, items, teacher, programs):
    if items:
        return [Item(recipe, k, item, teacher, programs.python) for k, item in enumerate(items)]
    # the structures are those of the labels
    path, limit = os.path.join(recipe.folder, teacher["labels"]), teacher.get("stress_limit")
    found = labels.read_labels(path, teacher.get("keys"), limit)
    return [Item(recipe, 0, {"files": [teacher["labels"]]}, teacher, frames=found)]


def _built(made):
    """Built frames of each item; a structure that an item before has, too, as the crystal of two items, is left out."""
    seen, out = set(), []
    for item in made:
        frames = [(labels.structure_key(f), f) for f in item.frames()]
        mine = [f for key, f in frames if key not in seen or "files" in item.item]
        if item.item.get("split") == "test" and "files" not in item.item:  # as another vacancy of a crystal
            mine = copies.without(mine, list(itertools.chain(*out)))
        out.append(mine)
        seen |= {key for key, _ in frames}
    return out


def check_elements(teacher, frames, place):
    """Fails for structures whose elements the teacher does not have, before dynamics is run."""
    if "lammps" in teacher:
        types = types_of(teacher["lammps"], teacher.get("types"), frames)
    elif "mlff" in teacher:
        types = read_head(find_model(teacher["mlff"], place))["elements"]
    else:
        return
    for frame in frames:
        unknown = sorted(set(frame["elements"]) - set(types))
        if unknown:
            raise FrameError(f"{frame['source']}: the teacher knows no {unknown[0]}: it has {' '.join(types)}")


def generate(recipe, items, teacher, folder, programs=None, write=print):
    """Frames of all items of a checked recipe; its trajectories are kept in `folder`. write: prints a line."""
    programs = programs or Programs()
    made = _items(recipe, items, teacher, programs)
    built = _built(made)
    labels.check_structures([{**f, "energy": None} for frames in built for f in frames])
    moved_by = Potentials(recipe.folder, programs)
    try:
        wanted = [item.tasks(moved_by) for item in made]
        tasks = [task for mine in wanted for task, _, _ in mine]
        check_elements(teacher, [*itertools.chain(*built), *(task.start for task in tasks)], recipe.folder)
        found = iter(dynamics.run(tasks, folder, programs, write))
    finally:
        moved_by.close()
    out = []
    for item, frames, mine in zip(made, built, wanted):
        out += frames
        for _, dealt, tags in mine:
            out += _finished(next(found), dealt, tags, item.item.get("split"))
    return out


def count(recipe, items, teacher, programs=None):
    """Count of what a recipe asks for. Files are read and structures built; nothing is run."""
    total = Count(0, 0, 0, 0, 0)
    made = _items(recipe, items, teacher, programs or Programs())
    for item, built in zip(made, _built(made)):
        parts = [(1, 0, len(f["elements"])) for f in built]  # frames, steps, atoms
        sizes = [len(f["elements"]) for f in item.bases]
        if item.packs:
            molecules = item.item["liquid"]["molecules"]
            sizes = [sum(n * len(read_molecule(name, item.place)[0]) for name, n in molecules.items())]
        if "relax" in item.item:
            dealt = splits.of_trajectory(item.item.get("copies", 1))
            parts += [(_used(dealt, item), item.item["relax"] * len(dealt), n) for n in sizes]
        for _ in item.states():
            d = item.dynamics
            dealt = splits.of_trajectory(dynamics.n_frames(d), d["every"])
            parts += [(_used(dealt, item), dynamics.n_steps(d), n) for n in sizes]
        frames, steps = sum(p[0] for p in parts), sum(p[1] for p in parts)
        atoms, atom_steps = (sum(p[k] * p[2] for p in parts) for k in (0, 1))
        mine = (frames, steps, atoms, atom_steps, 0) if item.by_teacher else (frames, steps, atoms, 0, steps)
        total = Count(*(a + b for a, b in zip(total, mine)))
    return total


def held_out(recipe, items, teacher, programs=None):
    """[(config_type, temperature in K)] of the trajectories that are held out as a whole, and of all others."""
    out = [], []
    for item in _items(recipe, items, teacher, programs or Programs()):
        runs = [(item.label or item._label(f), s) for f in item.bases or [None] for s in item.states()]
        out[item.item.get("split") != "test"].extend((label, s["temperature"]) for label, s in runs)
    return out


def _used(dealt, item):
    return len(dealt) if item.item.get("split") else sum(split is not None for split in dealt)


def from_frames(name, frames, section, wanted, folder, place=".", programs=None, write=print):
    """Trajectories from given frames: for each frame and state a list of frames, with `step` and tags without split.

    name: of the trajectories; section: the potential, as in `teacher`, its files relative to `place`; wanted: as the
    section `dynamics`. With on_error: keep a run that explodes has the frames before."""
    d, programs, tasks, tags = dynamics.settings(wanted), programs or Programs(), [], []
    moved_by = Potentials(place, programs)
    try:
        for k, start in enumerate(frames):
            for state in dynamics.states(d):
                words = f"{name}-{k + 1}-{dynamics.state_name(state)}"
                plan = dynamics.plan(d, state, start)
                tasks.append(dynamics.Task(words, words, start, moved_by(section), plan, d["on_error"] == "keep"))
                row = {"config_type": tag(start, "config_type") or None, "trajectory": words}
                row.update(temperature=f"{state['temperature']:g}")
                row.update(pressure=None if state["pressure"] is None else f"{state['pressure']:g}")
                tags.append(row)
        found = dynamics.run(tasks, folder, programs, write)
    finally:
        moved_by.close()
    return [[tagged(f, **row, time=f"{f['ps']:g}") for f in one] for one, row in zip(found, tags)]


def first(recipe, items, teacher, programs):
    """The first structure that a recipe builds, moved a little."""
    item = _items(recipe, items, teacher, programs)[0]
    if item.packs:
        return build.filled([build.packed(item.item, item.states()[0]["density"], 0, item.place)], item.where)[0]
    return build.disturbed(item.bases[0], 0, 0.0, 0.01, 1)
