"""Runs of all systems: drift of the energy in NVE, stability in NVT and NPT, the fluctuation against the time step."""

import numpy as np

from ..ensemble import judge, statistics
from .job import attempt
from .rows import missing, of_estimate, row
from .work import Failure

TIMESTEPS = (1.0, 1.5, 2.0, 3.0)  # of the system's, over two
TIMESTEP_PS = 2.0
SHOWN = 400  # points of a curve


def thinned(x, y):
    """At most so many points."""
    every = max(1, len(x) // SHOWN)
    return np.asarray(x)[::every], np.asarray(y)[::every]


def systems(job):
    if not job.systems:
        job.of_kind("liquid", "crystal", "molecule")  # says that there is none
    return job.systems


def _steps(job, side, system, name):
    """Steps of a run. The teacher's is compared in liquids, and elsewhere shows that it runs: it may be slow."""
    ps = job.settings[name]
    return job.steps(system, ps if side is job.model or system.kind == "liquid" else min(ps, job.settings["hot"]))


def _drift(found):
    atoms = len(found.elements)
    return statistics.drift(found.time, 1000 * found.column("etotal") / atoms)


def nve(job):
    rows, figures = [], []
    for system in systems(job):
        curves, found_rows = [], []
        for side in job.sides:
            found, why = attempt(job.trajectory, side, system, "nve", steps=_steps(job, side, system, "nve"))
            found_rows.append((found, why))
            if found is None or not len(found.rows):
                continue
            y = 1000 * (found.column("etotal") - found.column("etotal")[0]) / len(found.elements)
            x, y = thinned(found.time, y)
            curves.append({"label": side.name, "x": x, "y": y})
        (mine, why), (other, other_why) = [*found_rows, (None, job.no_teacher)][:2]
        if mine is None or mine.stable()[0] == "unstable":
            rows.append(missing("nve_drift", system.name, why or Failure(mine.stable()[1])))
        else:
            rows.append(_drift_row(system, mine, other, other_why))
        if curves:
            axes = {"x_label": "time (ps)", "y_label": "total energy - begin (meV/atom)"}
            figures.append({"kind": "lines", "title": f"{system.name}: total energy in NVE", "curves": curves, **axes})
    return {"rows": rows, "figures": figures}


def _drift_row(system, mine, other, other_why):
    found = _drift(mine)
    value = abs(found.value)
    low, high = max(0.0, value - found.error), value + found.error
    note = f"{mine.ps:.4g} ps of {mine.wanted_ps:g}, {mine.timestep_ps * 1000:g} fs, {len(mine.elements)} atoms"
    more = {"signed": found.value, "low": low, "high": high, "enough": found.enough and mine.whole, "note": note}
    teacher = None
    if other is not None:
        there = _drift(other)
        teacher, more["teacher_error"] = abs(there.value), there.error
        more["teacher_note"] = f"{other.ps:.4g} ps"
    else:
        more["teacher_note"] = other_why
    return {**row("nve_drift", system.name, value, found.error, teacher), **more}


def run(job, side, system, ensemble):
    """The long run of a side: nvt or npt."""
    steps, dump = _steps(job, side, system, ensemble), ensemble == "nvt"
    return job.trajectory(side, system, ensemble, ensemble=ensemble, steps=steps, dump=dump)


def _stability(job, ensemble):
    rows, figures = [], []
    for system in systems(job):
        if ensemble == "npt" and system.frame["cell"] is None:
            continue
        words, curves = [], []
        for side in job.sides:
            found, why = attempt(run, job, side, system, ensemble)
            if found is None:
                words.append((None, why))
                continue
            word, why = found.stable(system.temperature)
            if len(found.rows):
                hot = statistics.mean(found.column("temp")[len(found.rows) // 5 :])
                why += f", {hot.value:.4g} K"
                x, y = thinned(found.time, found.column("temp" if ensemble == "nvt" else "vol"))
                curves.append({"label": side.name, "x": x, "y": y})
            words.append((word, why))
        (word, why), (teacher, other_why) = [*words, (None, job.no_teacher)][:2]
        rows.append(row(ensemble, system.name, word, teacher=teacher, teacher_note=other_why, note=why))
        if curves:
            label = "temperature (K)" if ensemble == "nvt" else "volume (A^3)"
            axes = {"x_label": "time (ps)", "y_label": label}
            title = f"{system.name}: {ensemble.upper()} at {system.temperature:g} K"
            figures.append({"kind": "lines", "title": title, "curves": curves, **axes})
    return {"rows": rows, "figures": figures}


def nvt(job):
    return _stability(job, "nvt")


def npt(job):
    return _stability(job, "npt")


def _with_timesteps(job, system, steps, ps):
    """NVE runs of the model from one state."""
    first = job.trajectory(job.model, system, "start", steps=100)
    runs = [(dt, max(50, round(1000 * ps / dt))) for dt in steps]
    return [job.trajectory(job.model, system, f"timestep {dt:g}", start=first, timestep=dt, steps=n) for dt, n in runs]


def timestep(job):
    rows, figures = [], []
    for system in systems(job):
        base = job.timestep(system)
        steps = [base * f / 2 for f in TIMESTEPS]
        ps = max(0.2, TIMESTEP_PS * job.settings["scale"])

        found, why = attempt(_with_timesteps, job, system, steps, ps)
        bad = found and next((f for f in found if f.ended != "end"), None)
        if found is None or bad:
            rows.append(missing("timestep_slope", system.name, why or bad.stable()[1]))
            continue
        sizes = [judge.fluctuation(f.time, f.column("etotal")) for f in found]
        slope = statistics.power_law(steps, sizes)
        note = f"{', '.join(f'{s:g}' for s in steps)} fs, {ps:g} ps each, {len(found[0].elements)} atoms"
        rows.append(of_estimate("timestep_slope", system.name, slope, note=note))
        y = [1000 * s / len(found[0].elements) for s in sizes]
        guide = [y[0] * (s / steps[0]) ** 2 for s in steps]
        curves = [{"label": "model", "x": steps, "y": y}, {"label": "square", "x": steps, "y": guide}]
        axes = {"x_label": "time step (fs)", "y_label": "fluctuation (meV/atom)", "log": True, "dots": True}
        figures.append({"kind": "lines", "title": f"{system.name}: energy against time step", "curves": curves, **axes})
    return {"rows": rows, "figures": figures}
