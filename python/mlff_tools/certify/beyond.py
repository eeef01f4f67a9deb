"""Beyond the domain: pairs of atoms pressed together, atoms in vacuum, and a run at twice the temperature."""

import numpy as np

from ..train import dataset
from ..train.labels import structure_key
from . import dynamics
from .correlations import vectors
from .job import attempt
from .rows import missing, row

POINTS = 80
PRESSED = 30
SMALLEST = 0.3  # A, where the model names no smallest distance
FARTHEST = 6.0  # A
SAME = 1e-3  # eV: a step of the energy that is none
SHOWN = 30.0  # eV, of the curves


def _energies(job, side, name, frames):
    """Energies of frames one by one, None where the side refuses one; kept."""

    def do(_):
        out = [attempt(side.evaluate, [frame]) for frame in frames]
        return {"energies": [None if found is None else found[0]["energy"] for found, _ in out], "whys": out[0][1]}

    inputs = [side.identity["static"], [structure_key(f) for f in frames]]
    found = job.work.step(f"{side.name}-{name}", inputs, do)
    return np.array([np.nan if e is None else e for e in found["energies"]]), found["whys"]


def inward(r, energies, below):
    """The largest distance below `below` where the energy falls when the atoms approach, or None. r ascends."""
    falls = np.flatnonzero((np.diff(energies) > SAME) & (r[1:] <= below))
    return float(r[falls[-1] + 1]) if len(falls) else None


def _elements(job):
    """Elements of the systems, else of the labels."""
    found = {e for s in job.systems for e in s.frame["elements"]} or {e for f in job.frames for e in f["elements"]}
    return sorted(found) if found else job.of_kind("liquid", "crystal", "molecule")  # says that there is none


def _near(job):
    """The smallest distance that is evaluated, A."""
    return 1.001 * float(job.head.get("domain", {}).get("min_distance") or SMALLEST)


def _curve(job, quantity, group, name, r, frames, below, rows, figures, title):
    """The row and the figure of structures that differ in one distance r; `below`: (distance, words)."""
    curves, mine = [], None
    for side in job.sides:
        y, why = _energies(job, side, name, frames)
        known = np.isfinite(y)
        if side is job.model:
            mine = (y, known, why)
        if known.any():
            curves.append({"label": side.name, "x": r[known], "y": y[known] - y[known][-1]})
    y, known, why = mine
    if known.sum() < 3:
        rows.append(missing(quantity, group, why or "nothing to evaluate"))
        return
    start = below[0] or float(r[known][int(np.argmin(y[known]))])
    r_falls = inward(r[known], y[known], start)
    note = f"from {start:.3g} A, {below[1] if below[0] else 'the minimum'}, to {r[known][0]:.3g} A"
    if r_falls is not None:
        e, x = y[known], r[known]
        wall = float(e[(x >= r_falls) & (x <= start)].max() - e[np.argmin(np.abs(x - start))])
        note += f": the energy falls again at {r_falls:.3g} A, behind a barrier of {max(0.0, wall):.2g} eV"
    rows.append(row(quantity, group, "repulsive" if r_falls is None else "attractive", note=note))
    axes = {"x_label": "distance (A)", "y_label": "energy (eV)"}
    low = max(-SHOWN, min(float(np.min(c["y"])) for c in curves) - 0.5)
    top = min(SHOWN, max(float(np.max(c["y"])) for c in curves) + 0.5)
    figures.append({"kind": "lines", "title": title, "curves": curves, "y_range": [low, top], **axes})


def _dimers(job, pairs, rows, figures):
    nearest, farthest = _near(job), max(FARTHEST, job.head["cutoff"])
    r = np.round(nearest * (farthest / nearest) ** (np.arange(POINTS) / (POINTS - 1)), 6)
    elements = sorted({e for f in job.frames for e in f["elements"]})
    sampled = {"-".join(pair): r_min for pair, r_min in dataset.shortest_of(job.frames, elements, farthest).items()}
    for pair in pairs:
        name = "-".join(pair)
        apart = lambda x: np.array([[0.0, 0, 0], [float(x), 0, 0]])
        frames = [{"elements": list(pair), "positions": apart(x), "cell": None, "name": f"{name} at {x} A"} for x in r]
        below = sampled.get(name), "the shortest of the labels"
        _curve(job, "dimers", name, f"dimer-{name}", r, frames, below, rows, figures, f"{name} in vacuum")


def nearest(frame, pair):
    """(i, j, vector from i to j) of the pair of atoms that are nearest, or None."""
    names = np.array(frame["elements"])
    i, j = np.flatnonzero(names == pair[0]), np.flatnonzero(names == pair[1])
    d = vectors(frame["positions"][i], frame["positions"][j], frame["cell"])
    r = np.linalg.norm(d, axis=-1)
    r[i[:, None] == j[None]] = np.inf
    if not r.size or not np.isfinite(r.min()):
        return None
    a, b = np.unravel_index(np.argmin(r), r.shape)
    return int(i[a]), int(j[b]), d[a, b]


def _pressed(job, pairs, rows, figures):
    """Two neighbors of each pair pressed together in each system, all other atoms where they are."""
    for system in job.systems:
        for pair in pairs:
            found = nearest(system.frame, pair)
            if found is None:
                continue
            i, j, d = found
            length = float(np.linalg.norm(d))
            r = np.round(np.linspace(min(_near(job), 0.9 * length), length, PRESSED), 6)
            frames = []
            for x in r:
                moved = system.frame["positions"].copy()
                moved[i] += d / 2 * (1 - x / length)
                moved[j] -= d / 2 * (1 - x / length)
                frames.append({**system.frame, "positions": moved, "name": f"{'-'.join(pair)} at {x} A"})
            name, below = f"{system.name} {'-'.join(pair)}", (length, "where they are")
            title = f"{name}, pressed together"
            _curve(job, "pressed", name, f"pressed-{'-'.join(pair)}", r, frames, below, rows, figures, title)


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
    known = set(job.head["elements"])
    kinds = [e for e in _elements(job) if e in known]
    pairs = [(a, b) for k, a in enumerate(kinds) for b in kinds[k:]]
    rows, figures = [], []
    _pressed(job, pairs, rows, figures)
    _dimers(job, pairs, rows, figures)
    _vacuum(job, kinds, rows)
    _hot(job, rows, figures)
    return {"rows": rows, "figures": figures}
