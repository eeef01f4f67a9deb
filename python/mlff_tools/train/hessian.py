"""Hessian-vector products as labels: how the forces change when all atoms move along a random direction.

A frame that has them has the columns hessian_direction v [N, 3] (normal deviates, no unit) and hessian_product [N, 3] =
(F(x + h v) - F(x - h v)) / 2h in eV/A^2, where h is STEP, from two more labels of the teacher. The student is compared
with the same difference (frames.Pairs), so that what is left out is the same.
"""

import numpy as np

from .extxyz import FrameError

STEP = 0.01  # A
COLUMNS = ("hessian_direction", "hessian_product")


def probes(frames, seed):
    """Two structures to be labelled for each of `frames`, x + h v and x - h v, each with its direction."""
    out = []
    for k, frame in enumerate(frames):
        direction = np.random.default_rng([seed, k]).normal(size=(len(frame["elements"]), 3))
        for sign, name in ((1.0, "forward"), (-1.0, "back")):
            out.append(
                {
                    **frame,
                    "positions": frame["positions"] + sign * STEP * direction,
                    **dict.fromkeys(("energy", "forces", "stress", "atom_energies")),
                    "name": f"{frame['name']}, {name}",
                    "source": f"{frame['source']}, {name}",
                    "direction": direction,
                }
            )
    return out


def joined(frames, labelled):
    """`frames` with the two columns, from their labelled probes in the same order."""
    out = []
    for k, frame in enumerate(frames):
        forward, back = labelled[2 * k : 2 * k + 2]
        product = (forward["forces"] - back["forces"]) / (2 * STEP)
        values = zip(COLUMNS, (forward["direction"], product))
        columns = {name: ("R", [" ".join(repr(float(x)) for x in row) for row in v]) for name, v in values}
        out.append({**frame, "columns": {**frame["columns"], **columns}})
    return out


def columns_of(frame):
    """[direction [N, 3], product [N, 3]] of a frame; NaN without them."""
    out = []
    for name in COLUMNS:
        _, texts = frame.get("columns", {}).get(name, (None, None))
        if texts is None:
            out.append(np.full((len(frame["elements"]), 3), np.nan))
            continue
        try:
            values = np.array([[float(x) for x in text.split()] for text in texts])
        except ValueError:
            values = np.zeros(0)
        if values.shape != (len(frame["elements"]), 3) or not np.isfinite(values).all():
            raise FrameError(f"{frame['source']}: {name} is not three numbers for each atom")
        out.append(values)
    return out
