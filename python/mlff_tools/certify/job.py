"""What all measurements of a certificate need: its systems, lengths, runs and static results that are kept."""

import os
import re
import time

import numpy as np

from ..model.modelfile import ModelError
from ..train.process import TeacherError
from . import lattice, runner
from .work import CertifyError, Failed, Failure, NotMeasured, digest

WARM = 5.0  # ps of Langevin dynamics before a run
ROWS = 2000  # of the thermodynamic output of a run
DUMPED = 1000  # frames of a run


class Job:
    """model, teacher (or None, with `no_teacher` saying why): sides.py. systems; frames: labelled, test: held out.
    settings: the section certify. lmp: the program; write: takes lines for the user. jobs: runs at a time."""

    def __init__(self, model, teacher, no_teacher, systems, frames, test, settings, work, lmp, programs, jobs=1):
        self.model, self.teacher, self.no_teacher, self.systems = model, teacher, no_teacher, systems
        self.frames, self.test, self.settings, self.work, self.lmp = frames, test, settings, work, lmp
        self.programs, self.write, self.jobs = programs, work.write, jobs

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
            try:
                return side.evaluate(frames)
            except TeacherError as e:
                if side is self.model and asked[0] > len(frames):  # it has taken the structure that this one came from
                    raise lattice.NotRelaxed(str(e), collapsed=True) from e
                raise

        def again(_):
            try:
                return {"value": do(evaluate)}
            except (lattice.NotRelaxed, np.linalg.LinAlgError) as e:
                return {"why": str(e), "failed": side is self.model and getattr(e, "collapsed", False)}

        inputs = [side.identity["static"], system.inputs, what, more]
        found = self.work.step(f"{side.name}-{word(what)}-{word(system.name)}", inputs, again, lambda r: "value" in r)
        if "why" in found:
            raise (Failed if found["failed"] else NotMeasured)(found["why"])
        return found["value"]

    def protocol(self, system, start=None, **given):
        """That of a run (runner.protocol) at the temperature and pressure of the system. start: a trajectory that it
        continues."""
        p = {"temperature": float(system.temperature), "pressure": float(system.pressure)}
        p |= {"timestep": self.timestep(system), "seed": self.settings["seed"], "minimize": system.packed}
        p["warm"] = 0 if start else max(200, self.steps(system, WARM))
        p = runner.protocol(**{**p, **given})
        p["every"] = given.get("every") or max(1, p["steps"] // ROWS)
        return p

    def trajectory(self, side, system, what, start=None, **given):
        """The run `what` of a side and a system, as far as the time given lets it go; kept. start: a trajectory whose
        last state it begins with."""
        frame = system.frame
        if what == "npt" and frame["cell"] is None:
            raise NotMeasured("it is not periodic")
        potential = side.potential(sorted(set(frame["elements"])))
        p = self.protocol(system, start, **given)
        p["dump"] = max(1, p["steps"] // DUMPED) if p["dump"] else 0
        inputs = [side.identity["runs"], system.inputs, p, start and [start.inputs, start.ps]]
        place = self.work.place(f"{side.name}-{word(what)}-{word(system.name)}", inputs)
        p["start"] = start and start.last
        if not os.path.exists(os.path.join(place, "segments.json")):
            self.write(f"  {side.name}: {what} of {system.name}, {p['steps'] * p['timestep'] / 1000:g} ps")
        found = runner.run(self.lmp, potential, frame, p, place, self.seconds())
        found.inputs = digest(inputs)
        return found


def word(text):
    """A text as part of a file name."""
    return re.sub(r"[^\w.-]+", "_", text)


def attempt(do, *args, **options):
    """(what do(...) returned, None), or (None, why it could not be measured)."""
    try:
        return do(*args, **options), None
    except ModelError as e:
        if isinstance(e, CertifyError) and not isinstance(e, NotMeasured):
            raise  # a full disk, for one
        return None, Failure(e) if isinstance(e, Failed) else str(e)
