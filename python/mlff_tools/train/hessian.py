"""Hessian-vector products as labels: how the forces change when all atoms move along a random direction.

A frame that has them has the columns hessian_direction v [N, 3] (normal deviates, no unit) and hessian_product [N, 3] =
(F(x + h v) - F(x - h v)) / 2h in eV/A^2, where h is STEP, from two more labels of the teacher. The student is compared
with the same difference (frames.Pairs), so that what is left out is the same.

Which frames have them, and their directions, are drawn by the hash of each structure: they are the same in any order of
the frames, and in a run that was stopped and went on.
"""

import hashlib

import numpy as np

from .extxyz import FrameError, structure_key, tag

STEP = 0.01  # A
COLUMNS = ("hessian_direction", "hessian_product")


def _drawn(frame, what):
    """A whole number below 2^256 for each structure and purpose."""
    return int(hashlib.sha256(f"{what} {structure_key(frame)}".encode()).hexdigest(), 16)


def is_chosen(frame, share):
    """Whether a frame is one of this share of the training set that have a product."""
    return tag(frame, "split", "train") == "train" and _drawn(frame, "share") < share * 2**256


def direction(frame):
    """[N, 3] normal deviates."""
    return np.random.default_rng(_drawn(frame, "direction")).normal(size=(len(frame["elements"]), 3))


def probes(frames):
    """Two structures to be labelled for each of `frames`, x + h v and x - h v."""
    out = []
    for frame in frames:
        for sign, name in ((1.0, "forward"), (-1.0, "back")):
            out.append(
                {
                    **frame,
                    "positions": frame["positions"] + sign * STEP * direction(frame),
                    **dict.fromkeys(("energy", "forces", "stress", "atom_energies")),
                    "name": f"{frame['name']}, {name}",
                    "source": f"{frame['source']}, {name}",
                }
            )
    return out


def joined(frames, labelled):
    """`frames` with the two columns, from their labelled probes in the same order."""
    out = []
    for frame, forward, back in zip(frames, labelled[0::2], labelled[1::2]):
        values = zip(COLUMNS, (direction(frame), (forward["forces"] - back["forces"]) / (2 * STEP)))
        columns = {name: ("R", [" ".join(repr(float(x)) for x in row) for row in v]) for name, v in values}
        out.append({**frame, "columns": {**frame["columns"], **columns}})
    return out


def strip_products(frame):
    """The frame without products, which another teacher may have made."""
    return {**frame, "columns": {name: v for name, v in frame["columns"].items() if name not in COLUMNS}}


def is_known(frame):
    """Whether a frame has a product, or says so."""
    return any(name in frame.get("columns", {}) for name in COLUMNS)


def columns_of(frame):
    """[direction [N, 3], product [N, 3]] of a frame; NaN without them."""
    n, out = len(frame["elements"]), []
    if not is_known(frame):
        return [np.full((n, 3), np.nan) for _ in COLUMNS]
    for name in COLUMNS:
        _, texts = frame["columns"].get(name, (None, ()))
        try:
            values = np.array([[float(x) for x in text.split()] for text in texts])
        except ValueError:
            values = np.zeros(0)
        if values.shape != (n, 3) or not np.isfinite(values).all():
            raise FrameError(f"{frame['source']}: {name} is not three numbers for each atom")
        out.append(values)
    return out
