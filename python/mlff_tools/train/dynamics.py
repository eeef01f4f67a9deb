"""Trajectories: dynamics and rattled, relaxed chains, each run once, several at a time, and kept in a work folder.

A trajectory's file NAME-HASH.npz holds its frames and the hash of all that made them: start, plan, potential and the
program. It is written when the trajectory has ended; one that was interrupted starts over.
"""

import concurrent.futures
import contextlib
import dataclasses
import glob
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import time
import zipfile

import numpy as np

from ..model.files import in_words, write_npz
from ..model.lock import locked
from ..model.modelfile import ModelError
from . import labels
from .build import disturbed, listed
from .extxyz import FrameError
from .potentials import DynamicsError, Programs

FORM = 1  # of the files; another one makes all trajectories run anew
DEFAULTS = {
    "pressure": [None],
    "density": [None],
    "time": 2.0,
    "every": 0.05,
    "timestep": 0.5,
    "equilibrate": 0.5,
    "hot": None,
    "runs": 1,
    "seed": 1,
    "cell": "iso",
    "minimise": True,
    "on_error": "stop",
}


def n_frames(d):
    """Frames of a trajectory of the section `dynamics`."""
    return int(d["time"] / d["every"] + 1e-6)


def _steps(ps, d):
    return round(1000 * ps / d["timestep"])


def n_steps(d):
    return _steps(d["equilibrate"], d) + n_frames(d) * _steps(d["every"], d)


def settings(section):
    """A section `dynamics` with all its keys; temperature, pressure and density are lists."""
    d = {**DEFAULTS, **section}
    return {**d, **{key: listed(d[key]) for key in ("temperature", "pressure", "density")}}


def states(d):
    """[{temperature, pressure, density, run}] of settings."""
    product = itertools.product(d["density"], d["temperature"], d["pressure"], range(1, d["runs"] + 1))
    return [dict(zip(("density", "temperature", "pressure", "run"), values)) for values in product]


def state_name(state):
    """Words for a state, as 300K-1000bar-2."""
    parts = [f"{state['temperature']:g}K"]
    parts += [f"{state['density']:g}gcc"] if state["density"] is not None else []
    parts += [f"{state['pressure']:g}bar"] if state["pressure"] is not None else []
    return "-".join([*parts, str(state["run"])])


def seed_of(*parts):
    """A seed that LAMMPS takes, of anything that JSON can hold."""
    return 1 + int(hashlib.sha256(json.dumps(parts).encode()).hexdigest(), 16) % 800_000_000


def plan(d, state, start):
    """What a trajectory does, in numbers that JSON can hold."""
    temperature, pressure = float(state["temperature"]), state["pressure"]
    if pressure is not None and start["cell"] is None:
        raise FrameError(f"{start['source']}: is not periodic and has no pressure")
    return {
        "kind": "dynamics",
        "temperature": temperature,
        "pressure": None if pressure is None else float(pressure),
        "cell": d["cell"],
        "minimise": d["minimise"],
        "hot": None if d["hot"] is None else float(d["hot"]),
        "timestep": float(d["timestep"]),
        "equilibrate": _steps(d["equilibrate"], d),
        "every": _steps(d["every"], d),
        "frames": n_frames(d),
        "seed": seed_of(d["seed"], temperature, pressure, state["run"]),
    }


@dataclasses.dataclass
class Task:
    """A trajectory. name: of its files; about: what its frames are called in messages; plan: of kind dynamics, or
    {kind: relax, strain, rattle, copies, seed, steps}; keep: whether the frames before an explosion are used."""

    name: str
    about: str
    start: dict
    potential: object
    plan: dict
    keep: bool = False

    def named(self, error):
        """The error with the trajectory's name."""
        text = str(error)
        return type(error)(text if text.startswith(self.about) else f"{self.about}: {text}")

    def stamp(self):
        start = {**self.start, "source": self.about}
        try:
            potential = self.potential.identity(start)
        except ModelError as e:
            raise self.named(e) from e
        parts = [FORM, self.plan, potential, labels.structure_key(start)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _relaxed(task, start, work):
    """Each copy is rattled from the one before it and then relaxed; strains are those of the start's cell."""
    p, out, before = task.plan, [], start["positions"]
    for k in range(p["copies"]):
        now = disturbed({**start, "positions": before}, k, p["strain"], p["rattle"], p["seed"])
        x = task.potential.minimised({**now, "source": start["source"]}, p["steps"], work)
        out.append((k + 1, x, now["cell"]))
        before = x
        if p["strain"]:
            before = x @ np.linalg.inv(now["cell"]) @ start["cell"]
    return out, None


def _write(path, stamp, found, error, n_atoms):
    """Writes the file of a trajectory, which is there as a whole or not at all."""
    arrays = {"steps": np.array([f[0] for f in found], int), "error": error or "", "stamp": stamp}
    arrays["positions"] = np.array([f[1] for f in found]).reshape(-1, n_atoms, 3)
    if found and found[0][2] is not None:
        arrays["cells"] = np.array([f[2] for f in found])
    write_npz(path, **arrays)


def _load(path, stamp):
    """(frames, error) of a file, or None when it is not there, cut off, or another trajectory's."""
    try:
        with np.load(path) as f:
            if str(f["stamp"]) != stamp:
                return None
            cells = f["cells"] if "cells" in f else [None] * len(f["steps"])
            return list(zip(f["steps"].tolist(), f["positions"], cells)), str(f["error"]) or None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _run(task, path, stamp):
    """Runs a trajectory and writes its file; (frames, error)."""
    start, stem = {**task.start, "source": task.about}, path[: -len(".npz")]
    work = None
    try:
        work = tempfile.mkdtemp(prefix=os.path.basename(stem) + ".part-", dir=os.path.dirname(path))
        if task.plan["kind"] == "relax":
            found, error = _relaxed(task, start, work)
        else:
            found, error = task.potential.dynamics(start, task.plan, work)
        if error and not task.keep:
            raise DynamicsError(f"{error} (its files: {work})")
        _write(path, stamp, found, error, len(start["elements"]))
    except (ModelError, OSError) as e:
        text = in_words(e)
        with contextlib.suppress(OSError):  # for the user to look at
            shutil.rmtree(stem + ".failed", ignore_errors=True)
            os.rename(work or "", stem + ".failed")
            text = text.replace(work, stem + ".failed")
        raise task.named((type(e) if isinstance(e, ModelError) else DynamicsError)(text)) from e
    for left in (work, stem + ".failed"):
        shutil.rmtree(left, ignore_errors=True)
    return found, error


def _frames(task, found):
    """Frames of a trajectory, with `step`, and `ps` since its equilibration."""
    out, dt = [], task.plan.get("timestep", 0.0) / 1000
    for step, x, cell in found:
        where = f"{task.about}, step {step}"
        frame = {"elements": task.start["elements"], "positions": x, "cell": cell, "source": where, "name": where}
        out.append({**frame, "info": {}, "columns": {}, "step": step, "ps": round(step * dt, 9)})
    return out


def _paths(tasks, folder):
    """(path, stamp) of each trajectory."""
    out, seen = [], {}
    for task in tasks:
        stamp = task.stamp()
        if stamp in seen:
            raise DynamicsError(f"{task.about} is the same trajectory as {seen[stamp]}: give one of them another seed")
        seen[stamp] = task.about
        out.append((os.path.join(folder, f"{task.name}-{stamp[:12]}.npz"), stamp))
    return out


def run(tasks, folder, programs=None, write=print):
    """Frames of each trajectory, in this order; runs those that the folder does not have. Processes of the potentials
    end with an error and stay otherwise: the caller closes them."""
    if not tasks:
        return []
    folder, jobs = os.path.abspath(folder), (programs or Programs()).jobs
    jobs = jobs or min(task.potential.jobs for task in tasks)
    with locked(folder, "another run is writing to it"):
        here = os.path.join(glob.escape(folder), "")
        for left in glob.glob(here + "*.part*") + glob.glob(here + ".*.part"):
            shutil.rmtree(left, ignore_errors=True) if os.path.isdir(left) else os.unlink(left)
        places = _paths(tasks, folder)
        found = [_load(*place) for place in places]
        # what exploded and was kept is an error where it is not wanted
        todo = [k for k, f in enumerate(found) if f is None or (f[1] and not tasks[k].keep)]
        if len(todo) < len(tasks):
            write(f"{folder} has {len(tasks) - len(todo)} of {len(tasks)} trajectories")
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            begin = time.monotonic()
            running = {pool.submit(_run, tasks[k], *places[k]): k for k in todo}
            try:
                for done, future in enumerate(concurrent.futures.as_completed(running), 1):
                    k = running[future]
                    found[k] = future.result()
                    said = f", ended early: {found[k][1]}" if found[k][1] else ""
                    left = (time.monotonic() - begin) / done * (len(todo) - done)
                    write(f"[{done}/{len(todo)}] {tasks[k].about}: {len(found[k][0])} frames{said}; {left:.0f} s left")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for task in tasks:
                    task.potential.close()
                raise
    return [_frames(task, f) for task, (f, _) in zip(tasks, found)]
