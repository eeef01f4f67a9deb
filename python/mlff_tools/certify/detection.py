"""Uncertainty: predicted against true force errors on held-out frames, how well structures unlike those of the training
are found (novel.py; the teacher labels them), and how often the model's own runs in its domain are flagged."""

import numpy as np

from ..ensemble import statistics
from ..train import dataset
from ..train.labels import structure_key
from . import novel, own_runs, uncertainty
from .errors import run_of
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

IN_A_STATE = 200  # frames of own runs


def _closest(frame):
    """The shortest distance, A; infinite beyond that of dataset.shortest_of."""
    return min(dataset.shortest_of([frame], sorted(set(frame["elements"]))).values(), default=np.inf)


def _lost(frames, close, refused):
    """{group: words on its frames that are not measured, and whether there are none left}."""
    out = {}
    groups = [f["group"] for f in frames]
    for group in dict.fromkeys(groups):
        n, parts, left = groups.count(group), [], groups.count(group)
        for gone, why in ((close, "atoms too close"), (refused, "refused by the teacher")):
            k = sum(f["group"] == group for f in gone)
            parts, left = parts + ([f"{k} of {n} frames: {why}"] if k else []), left - k
        if parts:
            out[group] = ", ".join(parts), not left
    return out


def _labels(job, frames):
    """Forces of the teacher, None where it refuses a frame; kept."""

    def do(_):
        found = [attempt(job.teacher.evaluate, [frame]) for frame in frames]
        return {"forces": [None if one is None else one[0]["forces"] for one, _ in found]}

    inputs = [job.teacher.identity["static"], [structure_key(f) for f in frames]]
    return job.work.step("teacher-novel", inputs, do)["forces"]


def _rows(job, frames, forces):
    """Rows as of uncertainty.evaluate: errors and uncertainties of the atoms of each frame."""
    out = []
    for frame, other, mine in zip(frames, forces, job.model.evaluate(frames)):
        if other is not None:
            off = uncertainty.force_errors(mine["forces"], np.array(other))
            more = {"group": frame["group"], "trajectory": frame.get("run") or run_of(frame)}
            out.append({"errors": off, "uncertainties": mine["uncertainties"], **more})
    return out


def measure(job):
    block, name = job.head.get("uncertainty"), job.head["name"]
    if not block:
        raise NotMeasured(f"the model has no uncertainty of atoms: `mlff uncertainty {name} LABELS.xyz` [mlff-44]")
    if block["unit"] != "eV/A":
        raise NotMeasured(
            f"the uncertainty is relative: give labels with forces to `mlff uncertainty {name} LABELS.xyz`"
        )
    if job.teacher is None:
        raise NotMeasured(job.no_teacher)
    if job.teacher.kind == "labels":
        raise NotMeasured("a file of labels cannot evaluate new structures")
    test = [{**f, "group": "held out"} for f in job.held_out()]
    frames, gone = novel.made(job)
    least = float(job.head.get("domain", {}).get("min_distance") or 0.0)  # closer atoms are an error
    is_close = [_closest(f) <= least for f in frames]
    close, asked = ([f for f, yes in zip(frames, is_close) if yes == wanted] for wanted in (True, False))
    forces = _labels(job, asked)
    others = _rows(job, asked, forces)
    if not others:
        raise NotMeasured("there is no structure unlike those of the training that the teacher evaluates")
    rows = _rows(job, test, [f["forces"] for f in test])
    found = uncertainty.judge(float(block["limit"]), rows, others)
    lost = _lost(frames, close, [f for f, one in zip(asked, forces) if one is None])
    gone += [missing("novel_forces", group, why) for group, (why, none_left) in lost.items() if none_left]
    alarms = [("held out", found["false_alarms"], found["different"]["held"])]
    alarms += _own_runs(job, found["limit"])
    return {"rows": _alarms(alarms, found["limit"]) + _table(found, lost) + gone, "figures": [_figure(found)]}


def _own_runs(job, limit):
    """[(state, share of flagged frames, frames that do not depend on each other)] of the model's own runs, where those
    are measured. The teacher does not label them, so that each alarm counts as a false one."""
    measured = job.settings["measure"]
    if measured is not None and not {"lifetime", "own_runs"} & set(measured):
        return []
    out = []
    for corner, found in own_runs.all_runs(job):
        frames = own_runs.chosen(corner, found, IN_A_STATE)
        if not frames:
            continue
        largest = np.array([r["uncertainties"].max() for r in job.model.evaluate(frames)])
        run = np.array([f["run"] for f in frames])
        n = sum((run == k).sum() / statistics.inefficiency(largest[run == k]) for k in np.unique(run))
        out.append((corner.group, float((largest > limit).mean()), n))
    return out


def _alarms(alarms, limit):
    """Rows of shares of flagged frames of the domain, and of all of them; alarms: [(group, share, number)]."""
    note, total = f"limit {1000 * limit:.3g} meV/A", sum(n for _, _, n in alarms)
    pooled = sum(value * n for _, value, n in alarms) / total if total else None
    of_all = share("false_alarms", "all", pooled, total, 100.0, note=f"{total:.0f} independent frames; {note}")
    return [
        of_all,
        *(row("false_alarms", group, 100 * value, note=f"{n:.0f} independent frames") for group, value, n in alarms),
    ]


def share(quantity, group, value, n, factor=1.0, **more):
    """A row of a share of n frames that do not depend on each other, with Wilson's interval."""
    if value is None or not n:
        return missing(quantity, group, more.get("note") or "there is none")
    z2 = 1.96**2
    middle, half = (value + z2 / 2 / n) / (1 + z2 / n), 1.96 * (value * (1 - value) / n + z2 / 4 / n**2) ** 0.5
    low, high = (factor * (middle + s * half / (1 + z2 / n)) for s in (-1, 1))
    return row(quantity, group, factor * value, (high - low) / 2, low=max(0.0, low), high=min(factor, high), **more)


def _spread(area, far, near):
    """Standard deviation of an area under the ROC curve of so many frames, where scores are exponentially distributed
    (Hanley and McNeil, Radiology 143, 29 (1982), with Newcombe's mean number)."""
    more = (far + near) / 2 - 1
    return (area * (1 - area) * (1 + more * ((1 - area) / (2 - area) + area / (1 + area))) / (far * near)) ** 0.5


def area_limits(area, far, near):
    """(low, high), 95 %, of an area under the ROC curve of `far` and `near` frames that do not depend on each other:
    method 5 of Newcombe, Statistics in Medicine 25, 559 (2006), the areas that are 1.96 of their own standard
    deviations from it."""

    def solved(end):
        inside, outside = area, end
        for _ in range(60):
            middle = (inside + outside) / 2
            is_near = abs(area - middle) < 1.96 * _spread(middle, far, near)
            inside, outside = (middle, outside) if is_near else (inside, middle)
        return outside

    return solved(0.0), solved(1.0)


def _area(found, note):
    area, n = found["roc_area"], found["different"]
    if area is None or not n["far"] or not n["near"]:
        return missing("roc_area", "all", note)
    low, high = area_limits(area, n["far"], n["near"])
    return row("roc_area", "all", area, (high - low) / 2, low=low, high=high, note=note)


def _table(found, lost):
    """lost: as of _lost."""
    n = found["different"]
    far = f"{found['far']} frames with a force error above {uncertainty.FAR:g} times the held-out one"
    out = [
        _area(found, far),
        share("flagged", "all", found["found"], n["far"], 100.0, note=far),
        row("uncertainty_slope", "held out", found["calibration"]["slope"]),
    ]
    for g in found["groups"]:
        if g["kind"] == "other":
            note = f"{g['frames']} frames, error {g['error_ratio']:.3g} times the held-out one, largest uncertainty "
            note += f"{1000 * g['largest']:.3g} meV/A (median)"
            note += f"; {lost[g['group']][0]}" if g["group"] in lost else ""
            out.append(row("novel_forces", g["group"], 1000 * g["error"], note=note))
            out.append(row("flagged", g["group"], 100 * g["flagged"]))
    return out


def _figure(found):
    x, y = 1000 * np.reshape(found["calibration"]["curve"], (-1, 2)).T
    return {
        "kind": "lines",
        "title": "Expected and true force error of atoms, held out",
        "x_label": "expected (meV/A)",
        "y_label": "true (meV/A)",
        "curves": [{"label": "model", "x": x, "y": y}, {"label": "equal", "x": x, "y": x}],
        "dots": True,
        "log": True,
    }
