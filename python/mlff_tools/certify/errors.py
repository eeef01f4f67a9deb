"""Errors of energy, forces and stress on held-out labels, by type, temperature, element and size."""

import numpy as np

from ..ensemble import statistics
from ..model.units import BAR, GPA
from ..train.extxyz import tag
from .rows import of_estimate, row
from .sides import number

LEAST = 5  # frames of a group that has a row of its own


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
    names = [tag(r["frame"], "trajectory") or f"frame {k}" for k, r in enumerate(rows_of)]
    parts = [r["forces"][m] for r, m in zip(rows_of, masks)]
    scale = 1000 * float(
        np.sqrt(np.mean(np.concatenate([r["frame"]["forces"][m].ravel() for r, m in zip(rows_of, masks)]) ** 2))
    )
    found = _rms(parts, names, 1000)
    more = {
        "scale": scale,
        "frames": len(rows_of),
        "largest": 1000 * max(float(np.abs(p).max(initial=0)) for p in parts),
    }
    return of_estimate("forces", group, found, note=f"{len(rows_of)} frames", **more)


def rows_of_group(mine, group):
    """Rows of energy, forces, stress and pressure of some frames."""
    names = [tag(r["frame"], "trajectory") or f"frame {k}" for k, r in enumerate(mine)]
    note = f"{len(mine)} frames"
    out = [
        of_estimate("energy", group, _rms([r["energy"] for r in mine], names, 1000), note=note),
        _forces(mine, group),
    ]
    pressed = [(r, n) for r, n in zip(mine, names) if r["stress"] is not None]
    if pressed:
        names = [n for _, n in pressed]
        labels = np.array([r["frame"]["stress"] for r, _ in pressed])
        found = _rms([r["stress"] for r, _ in pressed], names, GPA)
        note = f"{len(pressed)} frames"
        out.append(of_estimate("stress", group, found, scale=GPA * float(np.sqrt((labels**2).mean())), note=note))
        off = np.array([-BAR * np.trace(r["stress"]) / 3 for r, _ in pressed])
        blocks = [off[[k for k, n in enumerate(names) if n == name]].mean() for name in dict.fromkeys(names)]
        found = statistics.of_blocks(blocks if len(blocks) >= 4 else off)
        value, low, high = abs(off.mean()), abs(off.mean()) - found.error, abs(off.mean()) + found.error
        more = {"low": max(0.0, low), "high": high, "enough": found.enough, "note": note}
        out.append(row("pressure", group, value, found.error, signed=float(off.mean()), **more))
    return out


def measure(job):
    """The measurement; see measurements.py."""
    frames = job.held_out()
    compared = compare(frames, job.model.evaluate(frames, as_in_runs=True))
    chosen = {}
    for r in compared:
        for group in groups(r["frame"]):
            chosen.setdefault(group, []).append(r)
    chosen = {g: mine for g, mine in chosen.items() if g == "all" or len(mine) >= LEAST}
    rows, names = [], {}
    for group, mine in chosen.items():  # groups of the same frames are one, with several names
        names.setdefault(tuple(id(r) for r in mine), []).append(group)
    for group, *also in names.values():
        rows += [{**r, "also": also} for r in rows_of_group(chosen[group], group)]
    for e in sorted({e for f in frames for e in f["elements"]}):
        mine = [r for r in compared if e in r["frame"]["elements"]]
        rows.append(_forces(mine, f"element {e}", [np.array(r["frame"]["elements"]) == e for r in mine]))
    return {"rows": rows, "figures": _figures(compared, rows), "far": f"{len(frames)} held-out frames"}


def _figures(compared, rows):
    rng = np.random.default_rng(1)
    labels = np.concatenate([r["frame"]["forces"].ravel() for r in compared])
    off = np.concatenate([r["forces"].ravel() for r in compared])
    shown = rng.permutation(len(off))[:500]
    forces = [r for r in rows if r["quantity"] == "forces"]
    out = [
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
            "bars": [(r["group"], r["value"], r["error"]) for r in forces],
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
