"""Rounds of distillation: the student runs, and frames on which a committee of students disagrees get labels.

The runs of round k start from labelled frames of each config_type, at the temperatures and pressures of the section
rounds. Frames with a pair of atoms closer than NEAREST times the shortest distance of the labels are dropped. With a
committee, the frames with the largest disagreement are chosen, at most SHARE times the even share of a run. Without
one, frames are chosen at equal intervals.
"""

import numpy as np

from ..model import engine
from . import dataset, extxyz, labels
from .extxyz import quoted, tag

NEAREST = 0.85
SHARE = 2.0


def shortest(frames):
    """{(element, element): shortest distance, A} over frames; each pair in alphabetical order."""
    return dataset.shortest_of(frames, sorted({e for frame in frames for e in frame["elements"]}))


def is_sound(frame, limits):
    """Whether no pair of atoms is nearer than NEAREST times the shortest distance of the labels."""
    distances = shortest([frame])
    return all(r >= NEAREST * limits.get(pair, 0.0) for pair, r in distances.items())


def starts(frames, kinds):
    """One frame of each config_type, the last one of the training set, which runs start from. kinds: None for all."""
    found = {}
    for frame in frames:
        kind = tag(frame, "config_type", "")
        if tag(frame, "split", "train") == "train" and (kinds is None or kind in kinds):
            found[kind] = frame
    return found


def disagreement(frames, models, program=None):
    """[F] largest over the atoms of the standard deviation of their forces over models, eV/A."""
    forces = []
    for model in models:
        found, _ = engine.evaluate(model, frames, "fp32", program)
        forces.append([f for _, f, _ in found])
    out = []
    for k in range(len(frames)):
        spread = np.array([f[k] for f in forces])
        out.append(float(np.sqrt(((spread - spread.mean(0)) ** 2).sum(2).mean(0)).max()))
    return np.array(out)


def evenly(runs, n):
    """n frames at equal intervals out of the frames of all runs."""
    frames = [frame for run in runs for frame in run]
    places = np.unique(np.linspace(0, len(frames) - 1, min(n, len(frames))).round().astype(int)) if frames else []
    return [frames[k] for k in places]


def most_doubtful(runs, n, spread_of):
    """n frames with the largest disagreement, at most SHARE times the even share of a run; in the order of the runs.
    spread_of(frames): [F]."""
    frames = [(k, frame) for k, run in enumerate(runs) for frame in run]
    if not frames:
        return []
    spread, most = spread_of([frame for _, frame in frames]), max(1, int(np.ceil(SHARE * n / len(runs))))
    taken, chosen = [0] * len(runs), []
    for place in np.argsort(-spread, kind="stable"):
        k = frames[place][0]
        if taken[k] < most and len(chosen) < n:
            taken[k] += 1
            chosen.append(place)
    return [frames[place][1] for place in sorted(chosen)]


def marked(frames, k):
    """The frames as those of round k: one of ten is for validation and one for the test."""
    out = []
    for number, frame in enumerate(frames):
        split = {8: "validation", 9: "test"}.get(number % 10, "train")
        info = {**frame["info"], "round": str(k), "split": split}
        info["trajectory"] = quoted(f"round {k}, {tag(frame, 'trajectory', '')}")
        clean = {key: value for key, value in frame.items() if key not in extxyz.LABELS}
        out.append({**clean, "info": info, "columns": {}})
    return out


def candidates(runs, held):
    """The frames of each run that can be labelled: not among `held`, and no pair too near (is_sound)."""
    known, limits = {labels.structure_key(frame) for frame in held}, shortest(held)
    return [[f for f in run if is_sound(f, limits) and labels.structure_key(f) not in known] for run in runs]


def force_error(frames, model, program=None):
    """Root mean square error of a model's forces on labelled frames, eV/A."""
    found, _ = engine.evaluate(model, frames, "fp32", program)
    wrong = [np.ravel(f - frame["forces"]) for (_, f, _), frame in zip(found, frames)]
    return float(np.sqrt(np.mean(np.concatenate(wrong) ** 2)))
