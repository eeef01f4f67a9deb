"""Speed and memory of model and teacher, by turns: evaluations of one structure on one core."""

import json
import os
import subprocess
import tempfile
import time

import numpy as np

from ..model.structures import write_xyz
from . import runner
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

ROUNDS, QUICK = 25, 9
ROUND = 0.5  # s of calls in a round, about
LAMMPS_STEPS = 20  # of a round of a LAMMPS teacher, at least


def _model(side, system, place, program, precision):
    """One round of `mlff time`: (us per atom, bytes)."""
    path = os.path.join(place, "structure.xyz")
    write_xyz(path, [{**system.frame, "name": system.name}])
    report, n = os.path.join(place, "report.json"), {"calls": 1}

    def round_of():
        words = [program, "time", side.static.path, path, "--device", "cpu", "--precision", precision]
        words += ["--calls", str(n["calls"]), "--file", report]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise NotMeasured(f"mlff time failed: {done.stderr.strip() or done.stdout.strip()}")
        with open(report, encoding="utf-8") as f:
            found = json.load(f)
        ms = found["median_latency_ms"]
        n["calls"] = max(5, min(1000, int(1000 * ROUND / ms)))
        return 1000 * ms / found["n_atoms"], 1e9 * found["memory_peak_gb"]

    return round_of


def _lammps(side, system, place, lmp):
    """One round of NVE by LAMMPS: its `Loop time` for so many steps; without memory."""
    potential, n = side.potential(sorted(set(system.frame["elements"]))), {"steps": LAMMPS_STEPS, "k": 0}

    def round_of():
        n["k"] += 1
        here = os.path.join(place, f"lammps-{n['k']}")
        os.makedirs(here, exist_ok=True)
        p = runner.protocol(steps=n["steps"], temperature=float(system.temperature), timestep=0.5, every=n["steps"])
        runner.run(lmp, potential, system.frame, p, here, 600)
        with open(os.path.join(here, "log.0"), encoding="utf-8", errors="replace") as f:
            loop = [line.split() for line in f if line.startswith("Loop time of")][-1]
        seconds = float(loop[3])
        us = 1e6 * seconds / n["steps"] / len(system.frame["elements"])
        n["steps"] = max(LAMMPS_STEPS, int(ROUND * n["steps"] / max(seconds, 1e-6)))
        return us, None

    return round_of


def _ase(side, system):
    """One round of calls through the pipe to the calculator's process, whose atoms move in between."""
    n, rng = {"calls": 1}, np.random.default_rng(1)

    def round_of():
        moved = [
            {
                **system.frame,
                "positions": system.frame["positions"] + 1e-3 * rng.normal(size=(len(system.frame["elements"]), 3)),
            }
            for _ in range(n["calls"])
        ]
        begin = time.perf_counter()
        for frame in moved:
            side.evaluate([frame])
        seconds = (time.perf_counter() - begin) / len(moved)
        n["calls"] = max(1, min(50, int(ROUND / seconds)))
        return 1e6 * seconds / len(system.frame["elements"]), None

    return round_of


def _rounds(job, side, system, place):
    here = os.path.join(place, side.name)
    os.makedirs(here, exist_ok=True)
    if side.kind == "mlff":
        precision = side.in_runs.precision
        return _model(side, system, here, job.programs["mlff"], precision)
    if side.kind == "lammps":
        return _lammps(side, system, here, job.lmp)
    if side.kind == "ase":
        return _ase(side, system)
    raise NotMeasured("the teacher is a file of labels, which has no speed")


def spread(values):
    """(median, half of the range of the middle of the rounds): an interval of 95 % of the median."""
    ordered = np.sort(values)
    k = max(0, int(np.floor((len(ordered) - 1.96 * np.sqrt(len(ordered))) / 2)))
    return float(np.median(ordered)), float(ordered[-1 - k] - ordered[k]) / 2


def measure(job):
    if not job.systems:
        job.of_kind("liquid", "crystal", "molecule")
    rows, figures = [], []
    for system in job.systems:
        with tempfile.TemporaryDirectory(prefix="mlff-certify-") as place:
            _by_turns(job, system, place, rows, figures)
    return {"rows": rows, "figures": figures}


def _by_turns(job, system, place, rows, figures):
    """Rounds of all sides of one system."""
    makers = [attempt(_rounds, job, side, system, place) for side in job.sides]
    times, memory = [[] for _ in makers], [[] for _ in makers]
    whys = [why for _, why in makers]
    rounds = QUICK if job.settings["quick"] else ROUNDS
    for k in range(rounds + 1):  # the first finds out how many calls a round has
        for s, (round_of, _) in enumerate(makers):
            found, why = (None, None) if round_of is None or whys[s] else attempt(round_of)
            whys[s] = whys[s] or why
            if found and k:
                times[s].append(found[0])
                memory[s] += [found[1]] if found[1] else []
    rows += _rows(job, system, times, memory, whys, rounds)
    curves = [{"label": s.name, "x": list(range(1, len(t) + 1)), "y": t} for s, t in zip(job.sides, times) if t]
    if len(curves) > 1:
        axes = {"x_label": "round", "y_label": "us per atom and step", "dots": True, "zero": True}
        figures.append({"kind": "lines", "title": f"{system.name}: by turns", "curves": curves, **axes})


def _rows(job, system, times, memory, whys, rounds):
    names = ("speed", "speedup", "memory")
    if whys[0]:
        return [missing(name, system.name, whys[0]) for name in names]
    value, error = spread(times[0])
    teacher = times[1] if len(times) > 1 and len(times[1]) == rounds else None
    why = job.no_teacher if len(times) < 2 else whys[1]
    note = f"{len(system.frame['elements'])} atoms, one core, {rounds} rounds"
    there = spread(teacher) if teacher else (None, 0.0)
    rows = [row("speed", system.name, value, error, *there, note=note, teacher_note=why)]
    if teacher:
        ratio, error = spread(np.array(teacher) / np.array(times[0]))
        rows.append(row("speedup", system.name, ratio, error, note=note))
    else:
        rows.append(missing("speedup", system.name, why))
    other = [1e-6 * float(np.median(m)) if m else None for m in memory]
    if other[0] is None:
        return [*rows, missing("memory", system.name, "mlff time did not say")]
    return [*rows, row("memory", system.name, other[0], teacher=other[1] if len(other) > 1 else None, teacher_note=why)]
