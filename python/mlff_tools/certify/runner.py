"""Molecular dynamics by LAMMPS for certificates: a potential, a structure and a protocol give a trajectory.

A run is made of segments, each a process of lmp that goes on from the restart file of the one before. What is done is
kept, and a run that the time given has cut off goes on when more is given. All numbers are in A, ps, eV, bar, K and
g/mol, whatever the units of the potential are.
"""

import json
import os
import re
import signal
import time

import numpy as np

from ..model import lammps, modelfile
from ..model.files import write_input
from ..model.lammps import LammpsError
from ..model.masses import MASS
from ..train import lammps_data, teacher_lammps
from ..train.dataset import AMU_A3
from .work import NotMeasured, write_whole

SEGMENT = 20000  # steps that are worth a restart file of their own
COLUMNS = "step temp pe ke etotal press vol".split()
# units: (time unit in ps, energy unit in eV, pressure unit in bar)
UNITS = {"metal": (1.0, 1.0, 1.0), "real": (1e-3, 1 / 23.060549, 1.01325)}
BEGIN = "mlff-certify-begin"
NO_ANSWER = "LAMMPS did not answer"


class Potential:
    """Commands of LAMMPS for one side: before the box, after it; with elements of the types in order."""

    def __init__(self, before, after, units, style, types):
        self.before, self.after, self.units, self.style, self.types = before, after, units, style, types


def of_model(path, elements, precision, plugin):
    """pair_style mlff with a model file."""
    before = [f"plugin load {lammps.quoted(plugin)}"] if plugin else []
    after = [f"pair_style mlff precision {precision} domain ignore"]  # measured are also places beyond it
    after.append(f"pair_coeff * * {lammps.quoted(modelfile.model_paths(path)[0])} {' '.join(elements)}")
    return Potential(before, after, "metal", "atomic", list(elements))


def of_commands(commands, types):
    """A teacher's commands."""
    before, after, units, style = teacher_lammps.split_commands(commands)
    after = [f'variable elements string "{" ".join(types)}"', *after]
    return Potential(before, after, units, style, types)


class Trajectory:
    """rows [n, 7] of COLUMNS, one every `every` steps; positions [m, N, 3] and cells [m, 3, 3] of dumped frames, which
    are `dump_ps` apart, at `frame_ps` where some were dropped; elements [N]. ended: end, time, an error of LAMMPS, or
    what a judge said. ps: how far it went, after warm_ps of Langevin dynamics, in `seconds`. last: the restart
    file of its end."""

    def __init__(self, rows, positions, cells, elements, protocol, ended, last):
        self.rows, self.positions, self.cells, self.elements, self.ended = rows, positions, cells, elements, ended
        self.last, self.warm_ps, self.frame_ps, self.seconds = last, 0.0, np.zeros(0), 0.0
        self.timestep_ps = protocol["timestep"] / 1000
        self.wanted_ps = protocol["steps"] * self.timestep_ps
        self.dump_ps = protocol["dump"] * self.timestep_ps
        self.ps = float(rows[-1, 0] * self.timestep_ps) if len(rows) else 0.0
        self.mass = sum(MASS[e] for e in elements)

    def column(self, name):
        return self.rows[:, COLUMNS.index(name)]

    @property
    def time(self):
        return self.column("step") * self.timestep_ps

    def density(self):
        """g/cm3 at each row."""
        return self.mass / AMU_A3 / self.column("vol")

    @property
    def whole(self):
        return self.ended == "end"

    def stable(self, temperature=None):
        """(stable, unstable or `too short`; why). Temperatures may leave the wanted one by half of it."""
        if not np.isfinite(self.rows).all():
            return "unstable", f"a number is NaN or infinite after {self.ps:g} ps"
        if self.ended not in ("end", "time"):
            return "unstable", f"after {self.ps:.4g} ps: {self.ended}"
        found = self.column("temp")[len(self.rows) // 5 :]
        large = len(self.elements) >= 20  # the temperature of few atoms fluctuates too much
        if temperature and large and len(found) and not 0.5 * temperature < float(found.mean()) < 1.5 * temperature:
            return "unstable", f"the mean temperature is {found.mean():.4g} K, not {temperature:g} K"
        if self.ended == "time":
            return "too short", f"{self.ps:.4g} of {self.wanted_ps:g} ps in the time given"
        return "stable", f"{self.ps:.4g} ps"


def protocol(**given):
    """What is run: ensemble nve, nvt or npt; temperature; pressure; timestep (fs); steps; warm: steps of Langevin
    dynamics before; every: steps between rows; dump: between frames (0: none); seed; start: a restart file; segments:
    whether there may be more than one, or the largest number of them; dump_warm: whether the steps before are dumped,
    too, as warm.0."""
    out = {"ensemble": "nve", "temperature": 300.0, "pressure": 1.0, "timestep": 1.0, "steps": 1000, "warm": 0}
    return {**out, "every": 10, "dump": 0, "seed": 1, "start": None, "segments": True, "minimize": False, **given}


def _setup(potential, p, k, first):
    """Commands of segment k up to the potential; first: it begins the run."""
    read = f"read_restart restart.{k - 1}" if not first else "read_data start.data"
    if first and p["start"]:
        read = f"read_restart {lammps.quoted(p['start'])}"
    return [
        f"units {potential.units}",
        f"atom_style {potential.style}",
        *potential.before,
        *([f"boundary {p['boundary']}"] if read.startswith("read_data") else []),
        read,
        *potential.after,
        "neighbor 1.0 bin",
        "neigh_modify every 1 delay 0 check yes",
        f"timestep {p['timestep'] / 1000 / UNITS[potential.units][0]!r}",
        f"thermo_style custom {' '.join(COLUMNS)}",
        "thermo_modify norm no format float %.12g flush yes lost error",
        f"thermo {p['every']}",
    ]


def _ensemble(potential, p):
    unit, _, bar = UNITS[potential.units]
    heat = f"{p['temperature']!r} {p['temperature']!r} {0.1 / unit!r}"
    if p["ensemble"] == "nve":
        return ["fix integrate all nve"]
    if p["ensemble"] == "nvt":
        return [f"fix integrate all nvt temp {heat}"]
    return [f"fix integrate all npt temp {heat} iso {p['pressure'] / bar!r} {p['pressure'] / bar!r} {1.0 / unit!r}"]


def _dump(p, name, k):
    return [
        f"dump {name} all custom {p['dump']} {name}.{k} id xu yu zu",
        f"dump_modify {name} sort id format float %.6f",
    ]


def _script(potential, p, k, first, last, seconds):
    """The input of segment k, which ends at step `last` and leaves restart.k; first: it begins the run."""
    unit, t, whole = UNITS[potential.units][0], p["temperature"], int(seconds) + 1
    timer = f"timer timeout {whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d} every 10"
    lines = [*_setup(potential, p, k, first), timer]
    if first:
        if p["minimize"] and not p["start"]:
            lines += ["minimize 0 1e-3 200 2000"]
        if not p["start"]:
            lines += [f"velocity all create {t!r} {p['seed'] + 4711} mom yes rot yes dist gaussian"]
        if p["warm"]:
            lines += _dump(p, "warm", k) if p.get("dump_warm") else []
            lines += [
                "fix warm all nve",
                f"fix heat all langevin {t!r} {t!r} {0.1 / unit!r} {p['seed'] + 90411} zero yes",
                f"run {p['warm']}",
                "unfix heat",
                "unfix warm",
                "velocity all zero linear",
                *(["undump warm"] if p.get("dump_warm") else []),
            ]
        lines += ["reset_timestep 0"]
    lines += _ensemble(potential, p)
    if p["dump"]:
        lines += _dump(p, "frames", k)
    return "\n".join([*lines, f'print "{BEGIN}"', f"run {last} upto", f"write_restart restart.{k}", ""])


def _read(path):
    """The text of a log; empty where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def _rows(path, potential):
    """Rows [n, 7] that the log has after the begin of production, in our units."""
    text = _read(path)
    return _table(text[text.rfind("\n" + BEGIN) :] if "\n" + BEGIN in text else "", potential)


def _table(text, potential):
    """Rows [n, 7] of the thermodynamic output in a text, in our units."""
    rows, inside, n = [], False, len(COLUMNS)
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["Step", "Temp"]:
            inside = True
        elif inside and len(words) == n and re.match(r"\d+$", words[0]):
            rows.append([float(w) for w in words])
        elif line.startswith("Loop time"):
            inside = False
    _, energy, bar = UNITS[potential.units]
    return np.array(rows, float).reshape(-1, n) * np.array([1, 1, energy, energy, energy, bar, 1])


def _frames(path):
    """{step: (positions [N, 3], cell [3, 3])} of a dump; a frame that is cut off is left out."""
    out = {}
    if not os.path.exists(path):
        return out
    with open(path, encoding="ascii") as f:
        while f.readline().startswith("ITEM: TIMESTEP"):
            step = int(f.readline())
            f.readline()
            n, _ = int(f.readline()), f.readline()
            _, cell = lammps_data.dump_box([f.readline() for _ in range(3)])
            f.readline()
            lines = [f.readline() for _ in range(n)]
            if not lines[-1].endswith("\n"):
                break
            x = np.array([line.split()[1:4] for line in lines], float)
            out[step] = x, cell
    return out


def _thin(path, number, last, until):
    """Drops frames of a dump after step `until`, and of the others all but `number` and the last `last`."""
    items = [item for item in _read(path).split("ITEM: TIMESTEP\n")[1:] if item.endswith("\n")]
    items = [item for item in items if int(item.partition("\n")[0]) <= until]
    kept = {int(k) for k in np.linspace(0, len(items) - 1, number + 1)[1:]} if items else set()
    kept |= set(range(max(0, len(items) - last), len(items)))
    write_whole(path, "".join("ITEM: TIMESTEP\n" + items[k] for k in sorted(kept)))


def ends(p):
    """Last steps of the segments."""
    most = 20 if p["segments"] is True else int(p["segments"])
    n = max(1, min(most, p["steps"] // SEGMENT))
    return [p["steps"] * (k + 1) // n for k in range(n)]


def _segment(lmp, potential, p, place, k, first, last, deadline, stop):
    """Runs segment k; how it ended: end, time, or the error of LAMMPS. LammpsError where something killed LAMMPS."""
    write_input(
        os.path.join(place, f"in.{k}"), _script(potential, p, k, first, last, max(1.0, deadline - time.monotonic()))
    )
    words = [lmp, "-in", f"in.{k}", "-log", f"log.{k}", "-screen", "none", "-nocite"]
    latest = max(time.monotonic() + 30, deadline + 120)

    def over():
        if stop is not None and stop.is_set():
            raise LammpsError("stopped: run the same command to continue")
        return time.monotonic() > latest

    status, said = lammps.watched(words, over, **lammps.process_options(lmp, place))
    if status is None:
        return NO_ANSWER
    text = _read(os.path.join(place, f"log.{k}"))
    if -status in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        raise LammpsError(f"{signal.Signals(-status).name} ended LAMMPS: run the same command to continue")
    if status:
        errors = [e for e in lammps.errors_in(text) if "units" not in e.split()] or lammps.errors_in(said)
        return (errors or [f"LAMMPS ended with status {status}"])[0]
    rows = _rows(os.path.join(place, f"log.{k}"), potential)
    return "end" if len(rows) and rows[-1, 0] == last else "time"


class Judge:
    """Says of each segment whether the run has failed there, and which frames are kept: `number` of each segment, and
    the last `last` of the one that failed."""

    number, last = 4, 100

    def failure(self, rows, frames):
        """(step, why) or None. rows [n, 7] of the run so far, frames {step: (positions, cell)} of the segment."""
        raise NotImplementedError


def _judged(judge, potential, place, k, ended):
    """{ended, step where it failed}: what is kept of a segment."""
    rows = np.concatenate([_rows(os.path.join(place, f"log.{n}"), potential) for n in range(k + 1)])
    found = judge.failure(rows, _frames(os.path.join(place, f"frames.{k}")))
    failed = found is not None or ended not in ("end", "time")
    step = found[0] if found else float("inf")
    _thin(os.path.join(place, f"frames.{k}"), judge.number, judge.last if failed else 0, step)
    warm = os.path.join(place, f"warm.{k}")
    if os.path.exists(warm):
        _thin(warm, 0, judge.last if failed and not len(rows) else 0, step)
    return {"ended": found[1], "step": int(step)} if found else {"ended": ended}


def run(lmp, potential, frame, p, place, seconds, judge=None, stop=None):
    """The trajectory of protocol p from a frame, as far as it goes in so many seconds; kept in the folder `place`. It
    ends where the judge says that it failed. stop: an event that another thread sets to end it with LammpsError."""
    place, p = os.path.abspath(place), {**p, "boundary": "f f f" if frame["cell"] is None else "p p p"}
    write_input(os.path.join(place, "start.data"), lammps_data.data_text(frame, potential.types, potential.style))
    state = os.path.join(place, "segments.json")
    done = []
    if os.path.exists(state):
        with open(state, encoding="utf-8") as f:
            done = json.load(f)
    begun = any(_produced(place, k) for k in range(len(done)))
    spent = sum(s["seconds"] for s in done)
    deadline = time.monotonic() + seconds - (spent if begun or spent >= seconds else 0.0)
    for last in ends(p)[sum(s["ended"] == "end" for s in done) :]:
        now, k = time.monotonic(), len(done)
        if now > deadline or (done and done[-1]["ended"] not in ("end", "time")):
            break
        found = {"ended": _segment(lmp, potential, p, place, k, not begun, last, deadline, stop)}
        if judge:
            found = _judged(judge, potential, place, k, found["ended"])
        done.append({**found, "seconds": time.monotonic() - now})
        write_whole(state, json.dumps(done))
        begun = True
    return _collect(potential, frame, p, place, done)


def _produced(place, k):
    """Whether segment k, which ended, came beyond what goes before the run."""
    return "\n   Step" in _read(os.path.join(place, f"log.{k}")).partition("\n" + BEGIN)[2]


def _moved(log):
    """Whether atoms had begun to move, before what ended the run."""
    return any(line.split()[:2] == ["Step", "Temp"] for line in _read(log).splitlines())


def _collect(potential, frame, p, place, done):
    rows, frames = {}, {}
    for k in range(len(done)):
        rows.update({int(r[0]): r for r in _rows(os.path.join(place, f"log.{k}"), potential)})
        frames.update(_frames(os.path.join(place, f"frames.{k}")))
    ended = done[-1]["ended"] if done else "time"
    if ended == "end" and len([s for s in done if s["ended"] == "end"]) < len(ends(p)):
        ended = "time"
    if not rows and ended not in ("end", "time") and not _moved(os.path.join(place, "log.0")):
        os.remove(os.path.join(place, "segments.json"))  # another time it may work
        raise LammpsError(f"LAMMPS could not run it: {ended}")
    until = min([s["step"] for s in done if "step" in s], default=float("inf"))
    table = np.array([rows[k] for k in sorted(rows) if k <= until]).reshape(-1, len(COLUMNS))
    dumped = [frames[k] for k in sorted(frames)]
    positions = np.array([x for x, _ in dumped]).reshape(-1, len(frame["elements"]), 3)
    found = positions, np.array([cell for _, cell in dumped]).reshape(-1, 3, 3)
    last = os.path.join(place, f"restart.{len(done) - 1}")
    made = Trajectory(table, *found, frame["elements"], p, ended, last)
    made.seconds = sum(s["seconds"] for s in done)
    made.frame_ps = np.array(sorted(frames), float) * made.timestep_ps
    made.warm_ps = _warm_steps(place, potential, len(done)) * made.timestep_ps
    return made


def _warm_steps(place, potential, n):
    """Steps of the warm dynamics that went before the run, which the last of n segments that began it has done."""
    for k in reversed(range(n)):
        text = _read(os.path.join(place, f"log.{k}")).partition("\n" + BEGIN)[0]
        text = text[text.find("fix heat all langevin") :] if "fix heat all langevin" in text else ""
        found = _table(text, potential)
        if len(found):
            return int(found[-1, 0] - found[0, 0])
    return 0


def no_dynamics(kind):
    """NotMeasured for a teacher that LAMMPS cannot run."""
    text = {"ase": "a calculator of ASE", "labels": "a file of labels"}.get(kind, kind)
    return NotMeasured(f"the teacher is {text}, which LAMMPS cannot run")
