"""Errors of networks of other seeds, NAME-2, NAME-3, ... next to the model (key `committee` of a recipe), on the frames
that the model itself is tested on: how much of an error is the luck of one training."""

import glob
import os
import re

import numpy as np

from ..model import modelfile
from ..train.teachers import network_digest
from . import errors, sides
from .rows import row
from .work import NotMeasured


def found(path):
    """Paths of the networks of other seeds next to a model file."""
    stem = os.path.splitext(modelfile.model_paths(path)[0])[0]
    number = lambda other: re.fullmatch(re.escape(stem) + r"-(\d+)\.yaml", other)
    others = [other for other in glob.glob(glob.escape(stem) + "-*.yaml") if number(other)]
    return sorted(others, key=lambda other: int(number(other)[1]))


def digests(job):
    return [network_digest(modelfile.read_head(path)) for path in found(job.path)]


def _errors(compared):
    """(force error in meV/A, energy error in meV/atom) over all frames."""
    return [1000 * errors.rms(r[key] for r in compared) for key in ("forces", "energy")]


def measure(job):
    """The measurement; see measurements.py."""
    frames, others = job.held_out(), found(job.path)
    if not others:
        raise NotMeasured("there are no networks of other seeds: committee: 3 in the recipe")
    scale = 1000 * errors.rms(f["forces"] for f in frames)
    all_errors, rows = [_errors(errors.compare(frames, job.model.evaluate(frames, as_in_runs=True)))], []
    for path in others:
        side = sides.of_model("seed", path, job.settings["precision"], *job.programs.values())
        try:
            all_errors.append(_errors(errors.compare(frames, side.evaluate(frames, as_in_runs=True))))
        finally:
            side.close()
        name, note = os.path.basename(os.path.splitext(path)[0]), f"{len(frames)} frames"
        rows.append(row("seed_forces", name, all_errors[-1][0], scale=scale, note=note))
        rows.append(row("seed_energy", name, all_errors[-1][1], note=note))
    spread = np.std(all_errors, axis=0, ddof=1)
    note = f"standard deviation of {len(all_errors)} networks"
    rows.append(row("seed_forces", "spread", float(spread[0]), scale=scale, note=note))
    rows.append(row("seed_energy", "spread", float(spread[1]), note=note))
    return {"rows": rows, "figures": []}
