"""What a certificate is about, and what all measurements need: systems, lengths, runs and static results that are
kept."""

import os
import re
import time

import numpy as np

from ..model.modelfile import ModelError
from ..train import build, labels, lattices
from ..train.extxyz import FrameError
from . import lattice, runner
from .sides import number, word
from .work import CertifyError, NotMeasured, digest

WARM = 5.0  # ps of Langevin dynamics before a run
ROWS = 2000  # of the thermodynamic output of a run
DUMPED = 1000  # frames of a run
LABELLED = ("crystal", "liquid", "molecule")  # words of config_type that say what a system is


class System:
    """A structure that is measured. kind: liquid, crystal or molecule; unit: the unit cell of a crystal, else None;
    frame: what runs."""

    def __init__(self, name, kind, frame, unit, temperature, pressure, high):
        self.name, self.kind, self.frame, self.unit = name, kind, frame, unit
        self.temperature, self.pressure, self.high = temperature, pressure, high

    @property
    def inputs(self):
        """What results depend on."""
        return [labels.structure_key(self.frame), self.unit and labels.structure_key(self.unit)]


def bare(frame):
    """The structure without labels."""
    return {key: frame[key] for key in ("elements", "positions", "cell")}


def _kind(item, frame):
    """What a structure of a recipe is: as it says, or by its kind or label; None where that is open."""
    said = item.get("kind") or item.get("label") or word(frame, "config_type")
    if said in LABELLED:
        return said
    return next((key for key in LABELLED if key in item), None)


def _system(item, frame, where, settings, hottest):
    kind = _kind(item, frame) or ("molecule" if frame["cell"] is None else None)
    if kind is None:
        return None
    unit, frame_of = None, bare(frame)
    if kind == "crystal":
        if frame["cell"] is None:
            raise CertifyError(f"{where}: a crystal must be periodic")
        unit = frame_of
        if "crystal" in item:
            plain = {key: value for key, value in item["crystal"].items() if key != "supercell"}
            unit = bare(lattices.crystal(**plain))
        times, least = [1, 1, 1], settings["atoms"]
        frame_of = unit if "crystal" not in item or "supercell" not in item["crystal"] else frame_of
        while len(frame_of["elements"]) * int(np.prod(times)) < least:
            widths = lattice.widths(frame_of["cell"]) * times
            times[int(np.argmin(widths))] += 1
        frame_of = lattice.repeated(frame_of, times)
    name = item.get("name") or item.get("label") or _name(item, frame, kind)
    temperature = item.get("temperature") or number(frame, "temperature") or settings["temperature"]
    if isinstance(temperature, (list, tuple)):
        temperature = temperature[0]
    high = item.get("high") or max(hottest.get(item.get("label") or kind, 0), 1.5 * temperature)
    pressure = item.get("pressure", settings["pressure"])
    pressure = pressure[0] if isinstance(pressure, (list, tuple)) else pressure
    return System(name, kind, {**frame_of, "name": name}, unit and {**unit, "name": name}, temperature, pressure, high)


def _name(item, frame, kind):
    if "crystal" in item:
        return f"{''.join(item['crystal']['elements'])} {item['crystal']['lattice']}"
    if isinstance(item.get("files"), list) and len(item["files"]) == 1:
        return os.path.splitext(os.path.basename(item["files"][0]))[0]
    return word(frame, "config_type") or f"{formula(frame)} {kind}"


def formula(frame):
    """As SiO2, of the whole structure."""
    names = sorted(set(frame["elements"]))
    return "".join(f"{e}{n if n > 1 else ''}" for e, n in ((e, frame["elements"].count(e)) for e in names))


def systems_of(items, settings, frames, place, python, chosen):
    """[System] of items [(where, item)] of a recipe, and without any of labelled frames: the last one of each type.

    chosen: whether the items were named for the certificate, so that one that cannot be placed is an error."""
    hottest, out = {}, []
    for f in frames:
        kind, hot = word(f, "config_type"), number(f, "temperature")
        if kind and hot:
            hottest[kind] = max(hot, hottest.get(kind, 0))
    for where, item in items:
        plain = {k: v for k, v in item.items() if k not in ("name", "kind", "temperature", "pressure", "high")}
        if not chosen:
            if _kind(item, {"cell": np.eye(3)}) is None:
                continue
            plain = {k: v for k, v in plain.items() if k not in ("strain", "rattle", "copies", "seed", "dynamics")}
        made = build.build(plain, where, place, python)
        if not made:
            raise FrameError(f"{where}: holds no structure")
        found = _system(item, made[-1], where, settings, hottest)
        if found is None:
            raise CertifyError(f"{where}: what is it? Give kind: liquid, crystal or molecule")
        out.append(found)
    if not items:
        last = {word(f, "config_type") or ("molecule" if f["cell"] is None else "liquid"): f for f in frames}
        for kind, frame in last.items():
            kind = kind if kind in LABELLED else "molecule" if frame["cell"] is None else "liquid"
            if kind != "crystal":  # a frame of a run is no unit cell
                out.append(_system({"kind": kind}, frame, "labels", settings, hottest))
    names = [s.name for s in out]
    for k, s in enumerate(out):
        if names.count(s.name) > 1:
            s.name = f"{s.name} ({names[: k + 1].count(s.name)})"
    return out


class Job:
    """model, teacher (or None, with `no_teacher` saying why): sides.py. systems; frames: labelled, test: held out.
    settings: the section certify. lmp: the program; write: takes lines for the user."""

    def __init__(self, model, teacher, no_teacher, systems, frames, test, settings, work, lmp, programs):
        self.model, self.teacher, self.no_teacher, self.systems = model, teacher, no_teacher, systems
        self.frames, self.test, self.settings, self.work, self.lmp = frames, test, settings, work, lmp
        self.programs, self.write = programs, work.write

    @property
    def sides(self):
        return [self.model] + ([self.teacher] if self.teacher else [])

    def held_out(self):
        if not self.frames:
            raise NotMeasured("there are no labelled frames: give --labels, or a recipe whose run has some")
        if not self.test:
            raise NotMeasured("no labelled frame has split=test")
        return self.test

    def of_kind(self, *kinds):
        found = [s for s in self.systems if s.kind in kinds]
        if not found:
            raise NotMeasured(f"there is no {' or '.join(kinds)} among the systems")
        return found

    def timestep(self, system):
        """fs: as set, else 0.5 with hydrogen and 1 without."""
        return self.settings["timestep"] or (0.5 if "H" in system.frame["elements"] else 1.0)

    def steps(self, system, ps):
        """Steps of a run whose full length is `ps`, scaled; at least 100."""
        return max(100, round(1000 * ps * self.settings["scale"] / self.timestep(system)))

    def seconds(self):
        return 60.0 * self.settings["minutes"]

    def static(self, side, system, what, do, *more):
        """What do(evaluate) gave for a side and a system; kept, NotMeasured where it failed or takes too long."""
        deadline, asked = time.monotonic() + self.seconds(), [0]

        def evaluate(frames):
            if time.monotonic() > deadline:
                raise NotMeasured(f"{asked[0]} structures were evaluated in {self.settings['minutes']:g} minutes")
            asked[0] += len(frames)
            return side.evaluate(frames)

        def again(_):
            try:
                return {"value": do(evaluate)}
            except (lattice.NotRelaxed, np.linalg.LinAlgError) as e:
                return {"why": str(e)}

        inputs = [side.identity["static"], system.inputs, what, more]
        found = self.work.step(f"{side.name}-{_word(what)}-{_word(system.name)}", inputs, again)
        if "why" in found:
            raise NotMeasured(found["why"])
        return found["value"]

    def trajectory(self, side, system, what, start=None, **given):
        """The run `what` of a side and a system, as far as the time given lets it go; kept. start: a trajectory whose
        last state it begins with."""
        frame = system.frame
        if what == "npt" and frame["cell"] is None:
            raise NotMeasured("it is not periodic")
        potential = side.potential(sorted(set(frame["elements"])))
        dt = self.timestep(system)
        p = {"temperature": float(system.temperature), "pressure": float(system.pressure), "timestep": dt}
        p |= {"seed": self.settings["seed"], "warm": 0 if start else max(200, self.steps(system, WARM))}
        p = runner.protocol(**{**p, **given})
        p["every"] = max(1, p["steps"] // ROWS)
        p["dump"] = max(1, p["steps"] // DUMPED) if p["dump"] else 0
        inputs = [side.identity["runs"], system.inputs, p, self.settings["minutes"], start and start.inputs]
        place = self.work.place(f"{side.name}-{_word(what)}-{_word(system.name)}", inputs)
        p["start"] = start and start.last
        if not os.path.exists(os.path.join(place, "segments.json")):
            self.write(f"  {side.name}: {what} of {system.name}, {p['steps'] * p['timestep'] / 1000:g} ps")
        found = runner.run(self.lmp, potential, frame, p, place, self.seconds())
        found.inputs, found.last = digest(inputs), os.path.join(place, f"restart.{len(runner.ends(p)) - 1}")
        return found


def _word(text):
    return re.sub(r"[^\w.-]+", "_", text)


def attempt(do, *args, **options):
    """(what do(...) returned, None), or (None, why it could not be measured)."""
    try:
        return do(*args, **options), None
    except ModelError as e:
        if isinstance(e, CertifyError) and not isinstance(e, NotMeasured):
            raise  # a full disk, for one
        return None, str(e)
