"""Rounds of distillation: the student runs, and frames that are unlike the training set get labels.

The runs of round k start from labelled frames of each config_type, at the temperatures and pressures of the section
rounds. Frames with a pair of atoms closer than NEAREST times the shortest distance of the labels are dropped. The most
different frames are chosen by the uncertainty of the student. With a committee, the frames with the largest
disagreement are chosen, at most SHARE times the even share of a run. A script of the user (explore.py) may take the
place of the runs.
"""

import numpy as np

from mlff.model import Model

from ..certify import uncertainty
from ..model import engine, modelfile
from . import dataset, extxyz, labels
from .extxyz import quoted, tag

NEAREST = 0.85
SHARE = 2.0
ALIKE = 0.5  # times the limit of the uncertainty: frames whose atoms are all closer to those of another are not chosen
ATOMS = 64  # of a frame, the most uncertain ones, that frames are compared by


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


def _environments(frames, path, tensors):
    """{element: (points [A, width], frame [A])} of the ATOMS most uncertain atoms of each frame. The length of a
    point is the uncertainty of the atom, eV/A. tensors: of the model file `path`."""
    model, prefix, found = Model(path, domain="ignore", self_test=False), "uncertainty.", {}
    known = {k[len(prefix) :]: np.asarray(v, float) for k, v in tensors.items() if k.startswith(prefix)}
    for k, row in enumerate(uncertainty.evaluate(model, [{**f, "forces": None} for f in frames])):
        most = np.argsort(-row["uncertainties"], kind="stable")[:ATOMS]
        for element in sorted({str(e) for e in row["elements"][most]} & set(known)):
            mine = most[row["elements"][most] == element]
            points = uncertainty.whitened(known[element], row["features"][mine])
            found.setdefault(element, []).append((points, np.full(len(mine), k)))
    return {e: tuple(map(np.concatenate, zip(*parts))) for e, parts in found.items()}


def most_different(frames, n, path):
    """Up to n frames, the most different first: each has the atom that is farthest from the training set and from the
    frames before it, in the units of the uncertainty of the model file `path`. The last ones are not alike (ALIKE)."""
    head, tensors = modelfile.read(path)
    limit, chosen, environments = head["uncertainty"]["limit"], [], _environments(frames, path, tensors)
    apart = {e: np.linalg.norm(points, axis=1) for e, (points, _) in environments.items()}
    while len(chosen) < min(n, len(frames)):
        largest = np.zeros(len(frames))
        for e, (_, owner) in environments.items():
            np.maximum.at(largest, owner, apart[e])
        k = int(largest.argmax())
        if largest[k] < ALIKE * limit:
            break
        chosen.append(k)
        for e, (points, owner) in environments.items():
            mine = points[owner == k]
            if len(mine):  # |a - b|^2 = |a|^2 - 2 a.b + |b|^2
                square = ((points**2).sum(1)[:, None] - 2 * points @ mine.T + (mine**2).sum(1)).min(1)
                apart[e] = np.where(owner == k, 0.0, np.minimum(apart[e], np.sqrt(np.maximum(square, 0.0))))
    return [frames[k] for k in chosen] or evenly([frames], n)  # elements that are too rare for an uncertainty


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
