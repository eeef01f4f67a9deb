"""Liquids: radial and angular distribution functions, density under NPT, diffusion and heat of vaporisation, of model
and teacher."""

import numpy as np

from ..ensemble import statistics
from ..ensemble.judge import BOLTZMANN
from ..model.units import KJ_PER_MOL
from . import correlations, dynamics, lattice, novel
from .job import attempt
from .rows import missing, of_estimate, row
from .work import NotMeasured

WARM = 0.2  # of a run that is left out
LEAST = 20  # frames
PLAIN = 1.0  # A^2: a mean square displacement below is no diffusion


def _frames(found):
    """(positions, cells) of the frames after the first part of the run."""
    first = int(WARM * len(found.positions))
    return found.positions[first:], found.cells[first:]


def _checked(job, side, system, ensemble):
    """The run of a side. NotMeasured where it ended with an error."""
    run = dynamics.run(job, side, system, ensemble)
    if run.ended not in ("end", "time"):
        raise NotMeasured(f"the run failed after {run.ps:.4g} ps: {run.ended}")
    return run


def _structure(found):
    """What one run gives: g(r) of pairs, angles, diffusion; all in blocks."""
    x, cells = _frames(found)
    if len(x) < LEAST:
        return None
    g, r = correlations.rdf(x, cells, found.elements)
    return {"g": g, "r": r, "x": x, "cells": cells}


def _angles(parts, elements):
    """{A-B-A: [(distribution, angles) of each side]}, within the first minimum of the model's g(r)."""
    g, r = parts[0]["g"], parts[0]["r"]
    out, kinds = {}, sorted(set(elements))
    for centre in (e for e in kinds if e != "H" or kinds == ["H"]):
        for outer in kinds:
            cutoff = correlations.first_minimum(g["-".join(sorted((outer, centre)))].mean(0), r)
            if cutoff is None:
                continue
            name = f"{outer}-{centre}-{outer}"
            every = max(1, len(parts[0]["x"]) // 200)
            found = [
                correlations.adf(p["x"][::every], p["cells"][::every], elements, outer, centre, cutoff) for p in parts
            ]
            if all(f[0].sum() > 0 for f in found):
                out[name] = found, cutoff
    return out


def compare(quantity, group, mine, other, weights, why):
    """A row of how far two curves [blocks, bins] differ: the integral of |difference| over that of the teacher's, %.

    Noise makes it larger: the upper end of the interval is with noise, and the value without."""
    if other is None:
        return row(quantity, group, None, note=why or "the teacher's run is too short")
    a, b = mine.mean(0), other.mean(0)
    area = float((np.abs(b) * weights).sum())
    whole = 100 * float((np.abs(a - b) * weights).sum()) / area
    error = np.sqrt(mine.var(0, ddof=1) / len(mine) + other.var(0, ddof=1) / len(other))
    noise = 100 * float((error * weights).sum()) / area
    more = {"low": max(0.0, whole - 2 * noise), "high": whole, "noise": noise}
    value = max(0.0, whole**2 - noise**2) ** 0.5
    return row(quantity, group, value, noise, note=f"{whole:.3g} % with noise of {noise:.2g} %", enough=True, **more)


def _curves(x, sides):
    """Curves of a figure with 95 % bands."""
    out = []
    for name, blocks in sides:
        y, error = statistics.band(blocks)
        out.append({"label": name, "x": x, "y": y, "low": y - error, "high": y + error})
    return out


def _sides(parts):
    return [name for name, part in zip(("model", "teacher"), parts) if part is not None]


def _structures(job, system, rows, figures):
    """Rows and figures of one liquid's NVT runs."""
    runs = [attempt(_checked, job, side, system, "nvt") for side in job.sides]
    parts = [None if run is None else _structure(run) for run, _ in runs]
    if parts[0] is None:
        why = runs[0][1] or f"the NVT run has {len(runs[0][0].positions)} frames, and {LEAST} are needed"
        rows += [missing(name, system.name, why) for name in ("rdf", "adf", "diffusion")]
        return
    why = job.no_teacher if len(runs) < 2 else runs[1][1]
    good = [p for p in parts if p]
    r = parts[0]["r"]
    for pair, g in parts[0]["g"].items():
        other = good[1]["g"][pair] if len(good) > 1 else None
        other = None if other is None else other[:, : len(r)]
        rows.append(compare("rdf", f"{system.name} {pair}", g, other, r**2, why))
        rows += _peaks(system, pair, g, other, r, why)
        axes = {"x_label": "r (A)", "y_label": "g(r)", "y_range": [0, min(6.0, 1.15 * float(g.mean(0).max()) + 0.1)]}
        sides = [(name, p["g"][pair][:, : len(r)]) for name, p in zip(_sides(parts), good)]
        figures.append({"kind": "lines", "title": f"{system.name}: {pair}", "curves": _curves(r, sides), **axes})
    for name, (found, cutoff) in _angles(good, system.frame["elements"]).items():
        degrees = found[0][1]
        other = found[1][0] if len(found) > 1 else None
        rows.append(compare("adf", f"{system.name} {name}", found[0][0], other, np.ones(len(degrees)), why))
        axes = {"x_label": "angle (degrees)", "y_label": "probability per degree", "zero": True}
        title = f"{system.name}: {name} within {cutoff:.2f} A"
        curves = _curves(degrees, [(s, f[0]) for s, f in zip(_sides(parts), found)])
        figures.append({"kind": "lines", "title": title, "curves": curves, **axes})
    _diffusion(system, runs, parts, rows, figures, why)


def _peaks(system, pair, mine, other, r, why):
    """Rows of the first peak of g(r) of a pair of elements that no molecule has."""
    atoms = [system.frame["elements"][k] for k in novel.molecules(system.frame)[0]]
    a, b = pair.split("-")
    if a in atoms and b in atoms and (a != b or atoms.count(a) > 1):
        return []
    found = [None if g is None else correlations.first_peak(g, r) for g in (mine, other)]
    if found[0] is None:
        return []
    out = []
    for k, name in enumerate(("rdf_peak", "rdf_height")):
        estimates = [None if f is None else statistics.of_blocks(f[k]) for f in found]
        out.append(of_estimate(name, f"{system.name} {pair}", *estimates, teacher_note=why))
    return out


def _diffusion(system, runs, parts, rows, figures, why):
    names = np.array(system.frame["elements"])
    for e in sorted(set(names)):
        found, curves = [], []
        for side, (run, _), part in zip(("model", "teacher"), runs, parts):
            if part is None:
                found.append(None)
                continue
            values, lags, square = correlations.diffusion(part["x"], run.dump_ps, masks=names == e)
            estimate = statistics.of_blocks(10 * values)  # A^2/ps to 1e-9 m2/s
            found.append(estimate._replace(enough=bool(estimate.enough and square[-1] > PLAIN and run.whole)))
            curves.append({"label": side, "x": lags, "y": square})
        other = found[1] if len(found) > 1 else None
        note = f"mean square displacement up to {curves[0]['y'][-1]:.3g} A^2"
        note += "" if found[0].enough else ": too short for diffusion"
        rows.append(of_estimate("diffusion", f"{system.name} {e}", found[0], other, note=note, teacher_note=why))
        axes = {"x_label": "time (ps)", "y_label": "MSD (A^2)", "zero": True}
        figures.append({"kind": "lines", "title": f"{system.name}: displacement of {e}", "curves": curves, **axes})


def _density(job, system, rows, figures):
    found, curves, whys = [], [], []
    for side in job.sides:
        run, why = attempt(_checked, job, side, system, "npt")
        whys.append(why)
        if run is None or len(run.rows) < 20 or not np.isfinite(run.rows).all():
            found.append(None)
            continue
        values = run.density()
        found.append(statistics.mean(values[int(WARM * len(values)) :]))
        x, y = dynamics.thinned(run.time, values)
        curves.append({"label": side.name, "x": x, "y": y})
    if found[0] is None:
        rows.append(missing("density", system.name, whys[0] or "the NPT run ended at its begin"))
        return
    other = found[1] if len(found) > 1 else None
    why = job.no_teacher if len(found) < 2 else whys[1]
    note = f"{system.temperature:g} K, {system.pressure:g} bar" + ("" if found[0].enough else ": too short to say")
    rows.append(of_estimate("density", system.name, found[0], other, note=note, teacher_note=why))
    axes = {"x_label": "time (ps)", "y_label": "density (g/cm3)"}
    figures.append({"kind": "lines", "title": f"{system.name}: density under NPT", "curves": curves, **axes})


def _gas(job, side, system, molecule):
    """Mean potential energy of a molecule of the gas, eV: relaxed, with kT/2 for each vibration."""
    symbols = [system.frame["elements"][k] for k in molecule]
    x = novel.whole_molecules(system.frame)["positions"][molecule]
    frame = {"elements": symbols, "positions": x, "cell": None, "name": "a molecule of the gas"}
    energy = job.static(side, system, "gas", lambda evaluate: lattice.relax(evaluate, [frame])[0][1]["energy"])
    return energy + max(0, 3 * len(symbols) - 6) / 2 * BOLTZMANN * system.temperature


def _heat(job, side, system):
    """Heat of vaporisation of a side, kJ/mol, as an Estimate."""
    molecules = novel.molecules(system.frame)
    run = _checked(job, side, system, "npt")
    if len(run.rows) < 20 or not np.isfinite(run.rows).all():
        raise NotMeasured("the NPT run ended at its begin")
    liquid = statistics.mean(run.column("pe")[int(WARM * len(run.rows)) :] / len(molecules))
    gas = _gas(job, side, system, molecules[0]) + BOLTZMANN * system.temperature
    return liquid._replace(value=KJ_PER_MOL * (gas - liquid.value), error=KJ_PER_MOL * liquid.error)


def _vaporisation(job, system, rows):
    if len(novel.structural_formulas([system.frame])) > 1:
        rows.append(missing("heat_of_vaporisation", system.name, "a mixture", applies=False))
        return
    found = [attempt(_heat, job, side, system) for side in job.sides]
    (mine, why), (other, other_why) = [*found, (None, job.no_teacher)][:2]
    if mine is None:
        rows.append(missing("heat_of_vaporisation", system.name, why))
    else:
        rows.append(of_estimate("heat_of_vaporisation", system.name, mine, other, teacher_note=other_why))


def measure(job):
    rows, figures = [], []
    for system in job.of_kind("liquid"):
        _structures(job, system, rows, figures)
        _density(job, system, rows, figures)
        _vaporisation(job, system, rows)
    return {"rows": rows, "figures": figures}
