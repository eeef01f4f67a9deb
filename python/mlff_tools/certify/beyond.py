"""Beyond the domain: pairs of atoms pressed together, atoms in vacuum, and a run at twice the temperature."""

import numpy as np

from ..model import modelfile
from . import dynamics, errors
from .job import attempt
from .rows import missing, row

POINTS = 80
SMALLEST = 0.3  # A, where the model names no smallest distance
FARTHEST = 6.0  # A
SAME = 1e-3  # eV: a step of the energy that is none
SHOWN = 30.0  # eV, of the curves


def _dimer(job, side, pair, r):
    """Energies of two atoms at distances r, minus that at the largest; NaN where the side refuses one."""
    frame = lambda x: {
        "elements": list(pair),
        "positions": np.array([[0.0, 0, 0], [float(x), 0, 0]]),
        "cell": None,
        "name": f"{pair[0]}-{pair[1]} at {x:.3f} A",
    }

    def do(_):
        found, why = attempt(side.evaluate, [frame(x) for x in r])
        if found is None:
            return {"why": why}
        return {"energies": [label["energy"] for label in found]}

    inputs = [side.identity["static"], pair, list(r)]
    return job.work.step(f"{side.name}-dimer-{'-'.join(pair)}", inputs, do)


def inward(r, energies, below):
    """The largest distance below `below` where the energy falls when the atoms approach, or None. r ascends."""
    falls = np.flatnonzero((np.diff(energies) > SAME) & (r[1:] <= below))
    return float(r[falls[-1] + 1]) if len(falls) else None


def _pairs(job):
    """Pairs of the elements of the systems, else of the labels."""
    elements = {e for s in job.systems for e in s.frame["elements"]} or {e for f in job.frames for e in f["elements"]}
    if not elements:
        job.of_kind("liquid", "crystal", "molecule")
    kinds = sorted(elements)
    return kinds, [(a, b) for k, a in enumerate(kinds) for b in kinds[k:]]


def _dimers(job, pairs, rows, figures):
    head = job.head
    near = 1.001 * float(head.get("domain", {}).get("min_distance") or SMALLEST)
    r = np.round(near * (max(FARTHEST, head["cutoff"]) / near) ** (np.arange(POINTS) / (POINTS - 1)), 6)
    sampled = errors.shortest(job.frames) if job.frames else {}
    for pair in pairs:
        name, curves = "-".join(pair), []
        for side in job.sides:
            found = _dimer(job, side, pair, r)
            if side is job.model:
                mine = found
            if "energies" in found:
                curves.append({"label": side.name, "x": r, "y": np.array(found["energies"]) - found["energies"][-1]})
        if "energies" not in mine:
            rows.append(missing("dimers", name, mine["why"]))
            continue
        y = np.array(mine["energies"])
        below = sampled.get(name) or float(r[int(np.argmin(y[r > 0.5 * r[-1] / 6]) + (r <= 0.5 * r[-1] / 6).sum())])
        at = inward(r, y, below)
        word = "repulsive" if at is None else "attractive"
        of = "the shortest of the labels" if name in sampled else "the minimum"
        start = f"below {below:.3g} A, {of}, to {near:.3g} A"
        note = start if at is None else f"{start}: the energy falls again at {at:.3g} A"
        rows.append(row("dimers", name, word, note=note))
        axes = {"x_label": "distance (A)", "y_label": "energy (eV)"}
        low = max(-SHOWN, min(float(np.min(c["y"])) for c in curves) - 0.5)
        figures.append(
            {"kind": "lines", "title": f"{name} in vacuum", "curves": curves, "y_range": [low, SHOWN], **axes}
        )


def _vacuum(job, kinds, rows):
    for e in kinds:
        values = []
        for side in job.sides:
            frame = {"elements": [e], "positions": np.zeros((1, 3)), "cell": None, "name": f"one atom of {e}"}
            found, why = attempt(side.evaluate, [frame])
            values.append((None if found is None else found[0]["energy"], why))
        (mine, why), (other, other_why) = [*values, (None, job.no_teacher)][:2]
        rows.append(row("vacuum", e, mine, teacher=other, teacher_note=other_why, note=why))


def _hot(job, rows, figures):
    for system in job.systems:
        t, words, curves = 2.0 * system.temperature, [], []
        for side in job.sides:
            steps = job.steps(system, job.settings["hot"])
            found, why = attempt(job.trajectory, side, system, "hot", ensemble="nvt", temperature=t, steps=steps)
            if found is None:
                words.append((None, why))
                continue
            words.append(found.stable(t))
            if len(found.rows):
                y = (found.column("pe") - found.column("pe")[0]) / len(found.elements)
                x, y = dynamics.thinned(found.time, y)
                curves.append({"label": side.name, "x": x, "y": y})
        (word, why), (teacher, other_why) = [*words, (None, job.no_teacher)][:2]
        rows.append(row("hot", system.name, word, teacher=teacher, teacher_note=other_why, note=f"{t:g} K, {why}"))
        if curves:
            axes = {"x_label": "time (ps)", "y_label": "potential energy - begin (eV/atom)"}
            figures.append({"kind": "lines", "title": f"{system.name} at {t:g} K", "curves": curves, **axes})


def measure(job):
    kinds, pairs = _pairs(job)
    known = set(modelfile.load_yaml(modelfile.model_paths(job.path)[0])["elements"])
    rows, figures = [], []
    _dimers(job, [p for p in pairs if set(p) <= known], rows, figures)
    _vacuum(job, [e for e in kinds if e in known], rows)
    _hot(job, rows, figures)
    return {"rows": rows, "figures": figures}
