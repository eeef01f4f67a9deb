"""Errors of the model on frames of its own runs, which the teacher labels, and the teacher's own run next to it.

The runs have other seeds, boxes and states than the training. An error that the model walks into is seen here and not
on held-out frames of the teacher's runs."""

import time

import numpy as np

from ..ensemble import statistics
from ..model.units import BAR
from ..train.labels import structure_key
from . import lifetime
from .errors import compare, rms
from .job import attempt, word
from .rows import missing, of_estimate
from .systems import System
from .work import Failure, NotMeasured

FRAMES = 12  # of a state
LENGTH = 40.0  # ps, of all runs of a state that the lifetime does not have
BEFORE = 0.5  # ps before a failure, from which on frames are left out
RUNS = 4  # that an interval needs
START = 1.0  # ps, of the model's run that both runs start from
LEAST = 30  # rows of each of them
THIRDS = ("first", "second", "last")


def states(job):
    """[(Corner, its trajectories are those of the lifetime)] of all systems: at their temperature and pressure, and the
    corners of the lifetime."""
    out = []
    for system in job.of_kind("crystal", "liquid", "molecule"):
        corners = lifetime.corners(job, system)
        group = f"{system.name} {system.temperature:g} K"
        if group != corners[0].group:
            ensemble = "nvt" if system.frame["cell"] is None else "npt"
            large = lifetime.large(system, system.temperature)
            out.append((lifetime.Corner(group, large, {"ensemble": ensemble}), False))
        out += [(corner, True) for corner in corners]
    return out


def runs(job, corner, of_lifetime, n_corners):
    """Trajectories of a state: those of the lifetime where it is measured."""
    measured = job.settings["measure"]
    if of_lifetime and (measured is None or "lifetime" in measured):
        return lifetime.lives(job, corner, lifetime.steps_of(job, corner, n_corners))
    steps = max(lifetime.SEEDS * lifetime.SHORTEST, job.steps(corner.system, LENGTH))
    job.write(f"  model: own runs, {corner.group}, {steps * job.timestep(corner.system) / 1000:.4g} ps")
    return lifetime.lives(job, corner, steps, "own runs")


def all_runs(job):
    """(Corner, its trajectories) of each state."""
    found = states(job)
    n_corners = sum(of_lifetime for _, of_lifetime in found)
    for corner, of_lifetime in found:
        yield corner, runs(job, corner, of_lifetime, n_corners)


def chosen(corner, runs, number=FRAMES):
    """Frames of runs, evenly, with the index of the run in `run`; none of the time right before a failure."""
    found = []
    for k, run in enumerate(runs):
        end = run.ps - BEFORE if lifetime.failed(run) else np.inf
        found += [(k, n) for n in np.flatnonzero((run.frame_ps > 0) & (run.frame_ps <= end))]
    out, frame = [], corner.system.frame
    for n in np.unique(np.linspace(0, len(found) - 1, number).round().astype(int)) if found else ():
        k, m = found[n]
        cell = None if frame["cell"] is None else runs[k].cells[m]
        name = f"{corner.group}, run {k + 1}, {runs[k].frame_ps[m]:g} ps"
        out.append({**frame, "positions": runs[k].positions[m], "cell": cell, "name": name, "run": k})
    return out


def _labels(job, corner, frames):
    """(labels of the teacher, None where there is none; why there is none); kept if there was time for all."""

    def do(_):
        deadline, out, why = time.monotonic() + job.seconds(), [], None
        for frame in frames:
            if time.monotonic() > deadline:
                return {"labels": out + [None] * (len(frames) - len(out)), "why": "no time left", "whole": False}
            found, refused = attempt(job.teacher.evaluate, [frame])
            keys = ("energy", "forces", "stress")
            out.append(None if found is None else {key: found[0].get(key) for key in keys})
            why = why or refused
        return {"labels": out, "why": why, "whole": True}

    inputs = [job.teacher.identity["static"], [structure_key(f) for f in frames]]
    found = job.work.step(f"teacher-own_runs-{word(corner.group)}", inputs, do, lambda r: r["whole"])
    arrays = lambda label: {key: v if key == "energy" or v is None else np.array(v) for key, v in label.items()}
    return [None if label is None else arrays(label) for label in found["labels"]], found["why"]


def _mean(values, runs):
    """The Estimate of a mean, with an error by the means of independent runs."""
    values, runs = np.asarray(values, float), np.asarray(runs)
    found = statistics.of_blocks([values[runs == k].mean() for k in np.unique(runs)])
    return statistics.Estimate(float(values.mean()), found.error, found.enough)


def _rms(parts, runs, factor):
    squares = [(float((np.asarray(p) ** 2).sum()), np.size(p)) for p in parts]
    found = statistics.root_mean_square(squares, runs, RUNS)
    return statistics.Estimate(factor * found.value, factor * found.error, found.enough and len(set(runs)) >= RUNS)


def rows_of(group, compared):
    """Rows of a state; compared: as of errors.compare, with frames that have their `run`."""
    runs = [r["frame"]["run"] for r in compared]
    n = len(set(runs))
    more = {"note": f"{len(compared)} frames of {n} runs", "lacks": None if n >= RUNS else f"{n} of {RUNS} runs"}
    scale = 1000 * rms(r["frame"]["forces"] for r in compared)
    energies = [r["energy"] for r in compared]
    out = [
        of_estimate("run_energy", group, _rms(energies, runs, 1000), **more),
        of_estimate("run_bias", group, _mean([1000 * e for e in energies], runs), **more),
        of_estimate("run_forces", group, _rms([r["forces"] for r in compared], runs, 1000), scale=scale, **more),
    ]
    if all(r["stress"] is not None for r in compared):
        off = [-BAR * np.trace(r["stress"]) / 3 for r in compared]
        out.append(of_estimate("run_pressure", group, _mean(off, runs), **more))
    return out


def _missing(corner, why):
    return [missing(name, corner.group, why) for name in ("run_energy", "run_bias", "run_forces", "run_pressure")]


def _state(job, corner, found):
    """Rows of a state from its trajectories."""
    frames = chosen(corner, found)
    if not frames:
        return _missing(corner, Failure("the runs have no frame before they fail"))
    labels, why = _labels(job, corner, frames)
    known = [{**f, **label} for f, label in zip(frames, labels) if label is not None]
    if not known:
        return _missing(corner, why)
    if len(known) < len(frames):
        job.write(f"  own runs, {corner.group}: the teacher refuses {len(frames) - len(known)} frames: {why}")
    return rows_of(corner.group, compare(known, job.model.evaluate(known, as_in_runs=True)))


# ---- the teacher's own run ------------------------------------------------------------------------------------------


def _start(job, system):
    """The system with the last structure of a run of the model."""
    steps = job.steps(system, START)
    run = job.trajectory(job.model, system, "start", ensemble="nvt", steps=steps, dump=1)
    if not len(run.positions):
        raise NotMeasured(f"the model's run ended before its start: {run.ended}")
    cell = None if system.frame["cell"] is None else run.cells[-1]
    frame = {**system.frame, "positions": run.positions[-1], "cell": cell}
    return System(system.name, system.kind, frame, system.temperature, system.pressure, system.high)


def _thirds(job, system):
    """Rows of temperature and pressure in thirds of runs of model and teacher from one start."""
    what, found = {"ensemble": "nvt", "steps": job.steps(system, job.settings["hot"]), "warm": 0}, []
    start, why = attempt(_start, job, system)
    for side in (job.model, job.teacher) if start else ():
        run, why = attempt(job.trajectory, side, start, "next to each other", **what)
        found += [run] if run is not None and len(run.rows) >= LEAST else []
        why = why or f"{side.name}: {run.ps:g} ps in the time given"
    if len(found) < 2:
        return [missing("teacher_run_pressure", system.name, why)]
    n = min(len(run.rows) for run in found)
    out = []
    for name, column, unit in (("temperature", "temp", "K"), ("pressure", "press", "bar")):
        if column == "press" and system.frame["cell"] is None:
            continue
        thirds = zip(*(np.array_split(run.column(column)[:n], 3) for run in found))
        for third, (mine, other) in zip(THIRDS, thirds):
            mine, other = statistics.mean(mine), statistics.mean(other)
            note = f"{found[0].time[n - 1] / 3:.3g} ps each, {len(system.frame['elements'])} atoms, NVT, {unit}"
            out.append(of_estimate(f"teacher_run_{name}", f"{system.name} {third} third", mine, other, note=note))
    return out


def measure(job):
    """The measurement; see measurements.py."""
    if job.teacher is None:
        raise NotMeasured(job.no_teacher)
    if job.teacher.kind == "labels":
        raise NotMeasured("a file of labels cannot evaluate new structures")
    rows = []
    for corner, found in all_runs(job):
        rows += _state(job, corner, found)
    forces = [(r["group"], r["value"], r["error"]) for r in rows if r["quantity"] == "run_forces" and r["value"]]
    for system in job.systems:
        rows += _thirds(job, system)
    title = "Forces in the model's own runs: error by state"
    return {"rows": rows, "figures": [{"kind": "bars", "title": title, "y_label": "RMSE (meV/A)", "bars": forces}]}
