"""Errors of energy, forces and stress on held-out labels, by type, temperature, element and size.

Held out are trajectories that the training has not seen; the ends of training trajectories have no interval."""

import re

import numpy as np

from ..ensemble import statistics
from ..model.units import BAR, GPA
from ..train.extxyz import tag
from .rows import of_estimate, row
from .sides import number

LEAST = 5  # frames of a group that has a row of its own
INDEPENDENT = 5  # held-out trajectories that an interval needs


def kind(frame):
    """The word for what a frame is."""
    return tag(frame, "config_type") or ("periodic" if frame["cell"] is not None else "molecule")


def temperature(frame):
    """`300 K`, or None."""
    value = number(frame, "temperature")
    return None if value is None else f"{value:g} K"


def groups(frame):
    """Names of the groups that a frame belongs to."""
    mine = ["all", kind(frame), f"{len(frame['elements'])} atoms"]
    if temperature(frame):
        mine += [temperature(frame), f"{kind(frame)} {temperature(frame)}"]
    return list(dict.fromkeys(mine))


def run_of(frame):
    """The trajectory of a frame; None for a structure of its own, as the copies of an item of a recipe are."""
    name = tag(frame, "trajectory")
    return None if name is None or re.fullmatch(r"\d+-" + re.escape(kind(frame)), name) else name


def _names(rows_of):
    """What the error of a mean counts once: a trajectory, or a structure of its own."""
    return [run_of(r["frame"]) or f"frame {k}" for k, r in enumerate(rows_of)]


def independent(mine, trained):
    """(rows, words): those of trajectories without a frame of the training, and of structures of their own, where
    INDEPENDENT trajectories are among them; else all rows, and why their interval is none. Ends of training
    trajectories are left out only where errors of forces there are smaller."""
    runs = [run_of(r["frame"]) for r in mine]
    others = {name for name in runs if name is not None and name not in trained}
    if not any(runs):
        return mine, ""
    if len(others) < INDEPENDENT:
        why = (
            f"{len(others)} of {INDEPENDENT} trajectories that the training has not seen: add dynamics with split: test"
        )
        return mine, why
    unseen = [r for r, name in zip(mine, runs) if name not in trained]
    return max(unseen, mine, key=lambda found: rms(r["forces"] for r in found)), ""


def rms(arrays):
    """The root mean square of all numbers of arrays."""
    return float(np.sqrt(np.mean(np.concatenate([np.ravel(x) for x in arrays]) ** 2)))


def mae(arrays):
    """The mean absolute value of all numbers of arrays."""
    return float(np.mean(np.abs(np.concatenate([np.ravel(x) for x in arrays]))))


def compare(frames, found):
    """Differences of each frame: dicts with energy (eV/atom), forces [N, 3], stress [3, 3] or None; and the labels."""
    out = []
    for f, g in zip(frames, found):
        stress = None
        if f["stress"] is not None and g["stress"] is not None:
            stress = np.asarray(g["stress"]) - f["stress"]
        n = len(f["elements"])
        out.append({"frame": f, "energy": (g["energy"] - f["energy"]) / n, "forces": g["forces"] - f["forces"]})
        out[-1]["stress"] = stress
    return out


def _rms(parts, names, factor):
    """An Estimate of a root mean square over arrays of differences, one for each frame."""
    squares = [((np.asarray(p) ** 2).sum(), np.size(p)) for p in parts]
    found = statistics.root_mean_square(squares, names)
    return statistics.Estimate(factor * found.value, factor * found.error, found.enough)


def _forces(rows_of, group, masks=None):
    """The row of forces of a group; masks: which atoms count."""
    masks = masks or [slice(None)] * len(rows_of)
    names = _names(rows_of)
    parts = [r["forces"][m] for r, m in zip(rows_of, masks)]
    scale = 1000 * rms(r["frame"]["forces"][m] for r, m in zip(rows_of, masks))
    found = _rms(parts, names, 1000)
    more = {
        "scale": scale,
        "mae": 1000 * mae(parts),
        "frames": len(rows_of),
        "largest": 1000 * max(float(np.abs(p).max(initial=0)) for p in parts),
    }
    return of_estimate("forces", group, found, note=f"{len(rows_of)} frames", **more)


def rows_of_group(mine, group):
    """Rows of energy, forces, stress and pressure of some frames."""
    names = _names(mine)
    note = f"{len(mine)} frames"
    off = [r["energy"] for r in mine]
    out = [of_estimate("energy", group, _rms(off, names, 1000), note=note, mae=1000 * mae(off)), _forces(mine, group)]
    pressed = [(r, n) for r, n in zip(mine, names) if r["stress"] is not None]
    if pressed:
        names = [n for _, n in pressed]
        labels = np.array([r["frame"]["stress"] for r, _ in pressed])
        off = [r["stress"] for r, _ in pressed]
        found = _rms(off, names, GPA)
        more = {"scale": GPA * float(np.sqrt((labels**2).mean())), "mae": GPA * mae(off)}
        note = f"{len(pressed)} frames"
        out.append(of_estimate("stress", group, found, note=note, **more))
        off = np.array([-BAR * np.trace(r["stress"]) / 3 for r, _ in pressed])
        blocks = [off[[k for k, n in enumerate(names) if n == name]].mean() for name in dict.fromkeys(names)]
        found = statistics.of_blocks(blocks if len(blocks) >= 4 else off)
        value, low, high = abs(off.mean()), abs(off.mean()) - found.error, abs(off.mean()) + found.error
        more = {"low": max(0.0, low), "high": high, "enough": found.enough, "note": note}
        out.append(row("pressure", group, value, found.error, signed=float(off.mean()), **more))
    return out


def _judged(r, why):
    """The row; with `why`, one whose interval is not known."""
    return {**r, "enough": False, "lacks": why} if why else r


def measure(job):
    """The measurement; see measurements.py."""
    frames = job.held_out()
    compared = compare(frames, job.model.evaluate(frames, as_in_runs=True))
    trained = {run_of(f) for f in job.frames if tag(f, "split") != "test"} - {None}
    chosen = {}
    for r in compared:
        for group in groups(r["frame"]):
            chosen.setdefault(group, []).append(r)
    chosen = {g: mine for g, mine in chosen.items() if g == "all" or len(mine) >= LEAST}
    rows, names = [], {}
    for group, mine in chosen.items():  # groups of the same frames are one, with several names
        names.setdefault(tuple(id(r) for r in mine), []).append(group)
    for group, *also in names.values():
        mine, why = independent(chosen[group], trained)
        rows += [_judged({**r, "also": also}, why) for r in rows_of_group(mine, group)]
    for e in sorted({e for f in frames for e in f["elements"]}):
        mine, why = independent([r for r in compared if e in r["frame"]["elements"]], trained)
        of_element = [np.array(r["frame"]["elements"]) == e for r in mine]
        rows.append(_judged(_forces(mine, f"element {e}", of_element), why))
    return {"rows": rows, "figures": _figures(compared, rows), "far": f"{len(frames)} held-out frames"}


def _figures(compared, rows):
    rng = np.random.default_rng(1)
    labels = np.concatenate([r["frame"]["forces"].ravel() for r in compared])
    off = np.concatenate([r["forces"].ravel() for r in compared])
    shown = rng.permutation(len(off))[:500]
    forces = [r for r in rows if r["quantity"] == "forces"]
    energies = np.array([r["frame"]["energy"] / len(r["frame"]["elements"]) for r in compared])
    some = rng.permutation(len(energies))[:500]
    out = [
        {
            "kind": "dots",
            "title": "Error of energies",
            "x_label": "the teacher's (eV/atom)",
            "y_label": "difference (meV/atom)",
            "curves": [{"label": "", "x": energies[some], "y": 1000 * np.array([r["energy"] for r in compared])[some]}],
        },
        {
            "kind": "dots",
            "title": "Error of force components",
            "x_label": "the teacher's (eV/A)",
            "y_label": "difference (meV/A)",
            "curves": [{"label": "", "x": labels[shown], "y": 1000 * off[shown]}],
        },
        {
            "kind": "bars",
            "title": "Forces: error by group",
            "y_label": "RMSE (meV/A)",
            "bars": [(r["group"], r["value"], None if r.get("lacks") else r["error"]) for r in forces],
        },
    ]
    hot = [(number(r["frame"], "temperature"), float((r["forces"] ** 2).mean())) for r in compared]
    hot = [(t, s) for t, s in hot if t is not None]
    if len({t for t, _ in hot}) > 1:
        ts = sorted({t for t, _ in hot})
        ys = [1000 * np.sqrt(np.mean([s for t, s in hot if t == x])) for x in ts]
        out.append(
            {
                "kind": "lines",
                "title": "Forces: error by temperature",
                "x_label": "temperature (K)",
                "y_label": "RMSE (meV/A)",
                "curves": [{"label": "model", "x": ts, "y": ys}],
                "dots": True,
                "zero": True,
            }
        )
    return out
