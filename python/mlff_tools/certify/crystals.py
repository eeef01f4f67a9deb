"""Crystals: lattice constants, equation of state, elastic constants, phonons at band edges, and high temperature."""

import numpy as np

from . import lattice, vibrations
from .job import attempt
from .rows import missing, row
from .work import Failure, NotMeasured

FARTHER = 3.0  # times the displacement of phonons, to see whether they depend on it
HARMONIC = 0.03
SHEARED = 0.2  # degrees: angles of a cell that differ by more are another cell, as lengths by 0.2 %
MELTED = 0.25  # root mean square displacement over the distance of neighbors


def relaxed(job, side, system):
    """The unit cell at zero stress: {frame, energy}. NotMeasured for a cell of more than lattice.UNIT atoms."""
    atoms = len(system.unit["elements"])
    if atoms > lattice.UNIT:
        why = f"{atoms} atoms are too many for the unit cell of a crystal: give one of up to {lattice.UNIT} atoms"
        raise NotMeasured(f"{why} in certify: systems")

    def do(evaluate):
        frame, label = lattice.relax(evaluate, [system.unit], cell=True)[0]
        return {"positions": frame["positions"], "cell": frame["cell"], "energy": label["energy"]}

    found = job.static(side, system, "relax", do)
    frame = {**system.unit, "positions": np.array(found["positions"]), "cell": np.array(found["cell"])}
    return frame, found["energy"]


def equation_of_state(job, side, system):
    """lattice.equation_of_state of the relaxed unit cell."""
    frame, _ = relaxed(job, side, system)
    return job.static(side, system, "eos", lambda evaluate: lattice.equation_of_state(evaluate, frame))


def _cell(job, side, system):
    frame, _ = relaxed(job, side, system)
    eos = equation_of_state(job, side, system)
    lengths = np.linalg.norm(frame["cell"], axis=1) * eos["scale"]
    constants = lambda evaluate: lattice.independent(lattice.elastic_constants(evaluate, frame))
    elastic, why = attempt(job.static, side, system, "elastic", constants)
    return {
        "lengths": lengths,
        "angles": lattice.angles(frame["cell"]),
        "eos": eos,
        "elastic": elastic or {},
        "why": why,
    }


def apart(job, system):
    """Why the crystals of model and teacher cannot be compared: they are different lattices. Else None."""
    if job.teacher is None:
        return None
    (mine, _), (theirs, _) = (attempt(relaxed, job, side, system) for side in job.sides)
    if mine is None or theirs is None or lattice.alike(mine[0], theirs[0], lattice.KEPT):
        return None
    if lattice.alike(system.unit, theirs[0], lattice.KEPT):
        return Failure("the crystal became another lattice, which the teacher's does not")
    return "the teacher's crystal became another lattice: there is nothing to compare"


def both(job, system, do):
    """[(found, why)] of the model and the teacher, whose crystals are one lattice."""
    why = apart(job, system)
    if why:
        return [(None, why), (None, why)]
    out = [attempt(do, job, side, system) for side in job.sides]
    return out if job.teacher else [*out, (None, job.no_teacher)]


def _axes(mine, other):
    """Axes with lengths of their own: one of those that are equal for both sides."""
    out = []
    same = lambda lengths, i, k: abs(lengths[i] - lengths[k]) < 2e-3
    for k in range(3):
        if not any(all(same(found["lengths"], i, k) for found in (mine, other) if found) for i in out):
            out.append(k)
    return out


def _sheared(mine, other):
    """Words on angles of the cell that differ from the teacher's, or None."""
    if other is None or np.abs(mine["angles"] - other["angles"]).max() <= SHEARED:
        return None
    words = lambda found: ", ".join(f"{x:.2f}" for x in found["angles"])
    return f"the angles of the cell are {words(mine)} degrees, the teacher's {words(other)}"


def _constants(system, mine, other, more):
    """Rows of lengths, which fail where the angles of the cell are not the teacher's."""
    why, rows = _sheared(mine, other), []
    wrong = {"failed": True, "note": why} if why else {}
    for k in _axes(mine, other):
        teacher = None if other is None else float(other["lengths"][k])
        value, group = float(mine["lengths"][k]), f"{system.name} {'abc'[k]}"
        rows.append(row("lattice_constant", group, value, teacher=teacher, **more, **wrong))
    return rows


def measure(job):
    rows, figures = [], []
    for system in job.of_kind("crystal"):
        (mine, why), (other, other_why) = both(job, system, _cell)
        if mine is None:
            names = ("lattice_constant", "bulk_modulus", "elastic_constants")
            rows += [missing(name, system.name, why) for name in names]
            continue
        more = {"teacher_note": other_why}
        rows += _constants(system, mine, other, more)
        teacher = None if other is None else other["eos"]["bulk"]
        rows.append(row("bulk_modulus", system.name, mine["eos"]["bulk"], teacher=teacher, **more))
        if mine["why"]:
            rows.append(missing("elastic_constants", system.name, mine["why"]))
        for name, value in mine["elastic"].items():
            teacher = None if other is None else other["elastic"].get(name)
            rows.append(row("elastic_constants", f"{system.name} {name}", value, teacher=teacher, **more))
        figures.append(_eos_figure(system, mine, other))
    return {"rows": rows, "figures": figures}


def _eos_figure(system, mine, other):
    curves = []
    for name, found in (("model", mine), ("teacher", other)):
        if found:
            e = found["eos"]
            y = 1000 * (np.array(e["energies"]) - e["energy"])
            curves.append({"label": name, "x": e["volumes"], "y": y})
    axes = {"x_label": "volume (A^3/atom)", "y_label": "energy - minimum (meV/atom)"}
    return {"kind": "lines", "title": f"{system.name}: energy against volume", "curves": curves, "dots": True, **axes}


def force_constants(job, side, system):
    """vibrations.ForceConstants of the relaxed unit cell."""
    frame, _ = relaxed(job, side, system)
    phi = job.static(side, system, "force constants", lambda evaluate: vibrations.ForceConstants(evaluate, frame).phi)
    return vibrations.ForceConstants(None, frame, phi=np.array(phi))


def _phonons(job, side, system):
    found = force_constants(job, side, system)
    distances, w, ticks = found.path()
    edges = found.edges()
    out = {"edges": edges, "at": distances, "path": w, "ticks": ticks, "times": found.times, "farther": []}
    if side is job.model:

        def do(evaluate):
            farther = vibrations.ForceConstants(evaluate, found.frame, move=FARTHER * vibrations.MOVE)
            return [farther.frequencies(vibrations.points(found.frame)[p]) for p, _, _ in edges]

        out["farther"] = job.static(side, system, "phonons farther", do)
    return out


def _farther(w, there):
    """Words where no frequency of a larger displacement is near: the energy is not quadratic, or has a kink."""
    nearest = min(there, key=lambda x: abs(x - w))
    if abs(nearest - w) < HARMONIC * max(abs(w), 1.0):
        return ""
    return f"; not harmonic: {nearest:.3g} THz with a displacement of {FARTHER * vibrations.MOVE:g} A"


def phonons(job):
    rows, figures = [], []
    for system in job.of_kind("crystal"):
        (mine, why), (other, other_why) = both(job, system, _phonons)
        if mine is None:
            rows.append(missing("phonons", system.name, why))
            continue
        edges = {(p, n): w for p, n, w in other["edges"]} if other else {}
        times = " x ".join(map(str, mine["times"]))
        for k, (point, n, w) in enumerate(mine["edges"]):
            theirs, more = edges.get((point, n)), {"note": f"{times} cells" + _farther(w, mine["farther"][k])}
            if theirs is None:
                more["teacher_note"] = other_why or "the teacher has no such mode"
            rows.append(row("phonons", f"{system.name} {point}{n}", w, teacher=theirs, **more))
        rows += [
            missing("phonons", f"{system.name} {p}{n}", "the model has no such mode")
            for p, n in edges
            if not any(r["group"] == f"{system.name} {p}{n}" for r in rows)
        ]
        curves = [
            {"label": name if k == 0 else "", "side": side, "x": found["at"], "y": branch}
            for side, (name, found) in enumerate((("model", mine), ("teacher", other)))
            if found
            for k, branch in enumerate(np.array(found["path"]).T)
        ]
        axes = {"x_label": "wave vector", "y_label": "frequency (THz)", "ticks": mine["ticks"]}
        figures.append({"kind": "lines", "title": f"{system.name}: phonons", "curves": curves, **axes})
    return {"rows": rows, "figures": figures}


def _displacement(found, frame):
    """Root mean square displacement from the sites over the distance of neighbors at each frame."""
    x = found.positions
    if not len(x):
        return np.zeros(0)
    x = x - x.mean(1, keepdims=True)
    sites = frame["positions"] @ np.linalg.solve(frame["cell"], found.cells[0])
    d = x - (sites - sites.mean(0))
    d -= np.round(d @ np.linalg.inv(found.cells[0])) @ found.cells[0]
    d -= d.mean(1, keepdims=True)
    return np.sqrt((d**2).sum(-1).mean(-1)) / lattice.nearest_distance(frame)


def high_temperature(job):
    rows, figures = [], []
    for system in job.of_kind("crystal"):
        curves, words = [], []
        for side in job.sides:
            hot = {"ensemble": "nvt", "temperature": float(system.high), "dump": 1}
            steps = job.steps(system, job.settings["hot"])
            found, why = attempt(job.trajectory, side, system, "high temperature", steps=steps, **hot)
            if found is None:
                words.append((None, why))
                continue
            word, why = found.stable(system.high)
            moved = _displacement(found, system.frame)
            if len(moved) and moved[-len(moved) // 5 :].mean() > MELTED:
                word, why = "melted", f"atoms are {moved[-len(moved) // 5 :].mean():.2f} neighbor distances away"
            elif len(moved):
                why += f", displacement {moved[len(moved) // 2 :].mean():.3f} of the neighbor distance"
            words.append((word, f"{system.high:g} K, {why}"))
            curves.append({"label": side.name, "x": found.dump_ps * np.arange(len(moved)), "y": moved})
        (word, why), (teacher, other_why) = [*words, (None, job.no_teacher)][:2]
        more = {"teacher": teacher, "teacher_note": other_why, "note": why}
        rows.append(row("high_temperature", system.name, word, **more))
        if curves:
            axes = {"x_label": "time (ps)", "y_label": "displacement / neighbor distance", "zero": True}
            title = f"{system.name} at {system.high:g} K"
            figures.append({"kind": "lines", "title": title, "curves": curves, "bound": (MELTED, "melted"), **axes})
    return {"rows": rows, "figures": figures}
