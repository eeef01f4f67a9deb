"""mlff uncertainty: adds the uncertainty of atoms to a model, and tests it.

    mlff uncertainty MODEL FRAMES.xyz                    writes the block `uncertainty` into MODEL
    mlff uncertainty MODEL FRAMES.xyz -o NEW             writes a copy, NEW.yaml and NEW.safetensors
    mlff uncertainty MODEL FRAMES.xyz --judge OTHER.xyz  also tests it on frames unlike those of the training

FRAMES are those that the model was trained on, or of dynamics that it runs: extended XYZ. With forces of a teacher the
uncertainty of an atom is an expected force error in eV/A, else it is relative to its limit. Frames with the key
`split` are divided by it, others in time: the last fifth of a trajectory (or file) is held out. With frames of the
split validation, those of the split test do not calibrate: --judge tests with them.

u = |A (f - m)|: the Mahalanobis distance of the features f of an atom in the last layer from those of atoms of its
element in the training set, times a factor that the errors of held-out frames determine (decision 16).
"""

import argparse
import json
import os
import re
import sys

import numpy as np

from mlff import Error
from mlff.model import Model

from ..bench import profiles
from ..command_line import one_line
from ..model import modelfile
from ..model.modelfile import ModelError
from ..train import extxyz
from ..train.teachers import network_digest
from .work import plain

RIDGE = 1e-6  # of the mean variance of a feature, added to each
ROUNDING = 1e-5  # of the largest feature: smaller differences are those of single precision
QUANTILE = 0.99  # of the largest uncertainties of held-out frames; times MARGIN it is the limit
MARGIN = 1.25
FEWEST = 30  # atoms of an element that has a factor of its own; and atoms, besides two per feature, for a matrix
FAR = 2.0  # times the held-out force error: frames that must be found
BINS = 10  # of the calibration curve
SPLITS = ("train", "validation", "test")


def split_frames(frames):
    """(training frames, held-out frames that calibrate, test frames that do not)."""
    marked = [extxyz.tag(f, "split") for f in frames]
    if any(marked) and not all(marked):
        source = frames[marked.index(None)].get("source", "a frame")
        raise ModelError(f"{source}: has no key split, which other frames have: give it to all or to none")
    if all(marked):
        of = {name: [] for name in SPLITS}
        for f, name in zip(frames, marked):
            if name not in of:
                raise ModelError(f"{f.get('source', 'a frame')}: split is '{name}', not one of {', '.join(SPLITS)}")
            of[name].append(f)
        train, validation, test = of.values()
        return (train, validation, test) if validation else (train, test, [])
    groups = {}
    for f in frames:
        groups.setdefault(extxyz.tag(f, "trajectory"), []).append(f)
    train, held = [], []
    for group in groups.values():
        n = max(1, (4 * len(group) + 4) // 5) if len(group) > 4 else len(group)
        train, held = train + group[:n], held + group[n:]
    return train, held, []


def force_errors(forces, labels):
    """[n] root mean square over the components of each atom."""
    return np.sqrt(((forces - labels) ** 2).mean(1))


def evaluate(model, frames, features=True):
    """One dict for each frame: elements [n]; features [n, width]; errors [n] eV/A, root mean square over components, or
    None without forces; uncertainties [n] or None; names of its group and its trajectory."""
    rows = []
    for f in frames:
        try:
            result = model.evaluate(f["elements"], f["positions"], f["cell"], features=features)
        except Error as e:
            raise ModelError(f"{f.get('source', 'a frame')}: {e}") from e
        off = None if f["forces"] is None else force_errors(result.forces, f["forces"])
        rows.append(
            {
                "elements": np.array(f["elements"]),
                "features": result.features,
                "errors": off,
                "uncertainties": result.uncertainties,
                "group": extxyz.tag(f, "config_type", "frames"),
                "trajectory": extxyz.tag(f, "trajectory"),
            }
        )
    return rows


def _of_element(rows, element, key):
    return np.concatenate([r[key][r["elements"] == element] for r in rows])


def whiten(features):
    """Matrix [width + 1, width] of the distance |A (f - m)| of features [n, width]: A transposed, then -A m."""
    mean = features.mean(0)
    covariance = np.cov(features, rowvar=False, ddof=0).reshape(features.shape[1], -1)
    ridge = max(RIDGE * np.trace(covariance) / len(covariance), (ROUNDING * np.abs(features).max()) ** 2, 1e-300)
    # P = L L^T with P the inverse of the covariance: |L^T (f - m)|^2 = (f - m)^T P (f - m)
    lower = np.linalg.cholesky(np.linalg.inv(covariance + ridge * np.eye(len(covariance))))
    return np.vstack([lower, -mean @ lower])


def whitened(matrix, features):
    """A (f - m) of features [n, width]: points whose lengths are the distances."""
    return features @ matrix[:-1] + matrix[-1]


def distance(matrix, features):
    return np.linalg.norm(whitened(matrix, features), axis=1)


def _matrices(train):
    """({element: matrix of `whiten`}, ["element atoms"] of those with too few). ModelError where all have too few."""
    matrices, few = {}, []
    for element in sorted({str(e) for r in train for e in r["elements"]}):
        features = _of_element(train, element, "features")
        if len(features) < 2 * features.shape[1] + FEWEST:
            few.append(f"{element} {len(features)}")
            continue
        matrices[element] = whiten(features)
    if not matrices:
        width = train[0]["features"].shape[1]
        raise ModelError(
            f"too few atoms for {width} features: {', '.join(few)}, at least {2 * width + FEWEST} of an element are "
            "needed: give more frames"
        )
    return matrices, few


def _factors(matrices, held, has_errors):
    """{element: factor of its matrix}: the root mean square of the force errors, or 1, over that of the distances."""
    factors = {}
    for element, matrix in matrices.items():
        of = [r for r in held if element in r["elements"]]
        if not all((distance(matrix, _of_element([r], element, "features")) > 0).all() for r in of):
            raise ModelError(f"{element} atoms of the frames are all alike: give frames of dynamics, or rattled ones")
        enough = sum((r["elements"] == element).sum() for r in of) >= FEWEST
        chosen, names = (of, [element]) if enough else (held, list(matrices))
        apart = np.concatenate([distance(matrices[e], _of_element(chosen, e, "features")) for e in names])
        errors = np.concatenate([_of_element(chosen, e, "errors") for e in names]) if has_errors else np.ones(1)
        factors[element] = np.sqrt((errors**2).mean() / (apart**2).mean())
    return factors


def fit(train, held):
    """Block `uncertainty` of the header and its tensors, from rows of `evaluate`. ModelError for too few atoms."""
    matrices, few = _matrices(train)
    held = [r for r in held if set(r["elements"]) <= set(matrices)]
    if len(held) < 5:
        raise ModelError(
            f"{len(held)} held-out frames: at least 5 are needed: give more frames (of the split validation, of test "
            "if there are none, or more than four of a trajectory)"
        )
    has_errors = all(r["errors"] is not None for r in held)
    factors = _factors(matrices, held, has_errors)
    matrices = {e: factors[e] * m for e, m in matrices.items()}
    known = held
    if has_errors:
        reference = _error(held)
        known = [r for r in held if not _is_far(r, reference)]
    limit = MARGIN * np.quantile([largest(r, matrices) for r in known], QUANTILE)
    if not has_errors:
        matrices = {e: m / limit for e, m in matrices.items()}
        limit = 1.0
    block = {
        "width": train[0]["features"].shape[1],
        "unit": "eV/A" if has_errors else "relative",
        "limit": float(f"{limit:.6g}"),
        "elements": sorted(matrices),
        "description": f"{len(train)} frames, calibrated on {len(held)} others",
    }
    return block, {f"uncertainty.{e}": m.astype(np.float32) for e, m in matrices.items()}, few


def _error(rows):
    """The root mean square of the force errors of all atoms, eV/A."""
    return float(np.sqrt(np.concatenate([r["errors"] ** 2 for r in rows]).mean()))


def _is_far(row, reference):
    """Whether a frame is to be flagged: its error is above FAR times that of all held-out frames, eV/A."""
    return _error([row]) > FAR * reference


def largest(row, matrices):
    """The largest uncertainty of an atom of a frame."""
    return max(float(distance(matrices[e], _of_element([row], e, "features")).max()) for e in set(row["elements"]))


# ---- tests -----------------------------------------------------------------------------------------------------------


def roc_area(positive, negative):
    """Area under the ROC curve: the chance that one of `positive` lies above one of `negative`."""
    if not len(positive) or not len(negative):
        return None
    below = np.searchsorted(np.sort(negative), positive, "left"), np.searchsorted(np.sort(negative), positive, "right")
    return float((below[0] + below[1]).mean() / 2 / len(negative))


def calibration(rows):
    """Predicted and true force error, root mean squares over BINS bins of atoms, and the slope of the true over the
    predicted one, both logarithmic."""
    u = np.concatenate([r["uncertainties"] for r in rows])
    e = np.concatenate([r["errors"] for r in rows])
    u, e = u[np.isfinite(u)], e[np.isfinite(u)]
    order = np.array_split(np.argsort(u), BINS)
    curve = [[float(np.sqrt((x[k] ** 2).mean())) for x in (u, e)] for k in order if len(k)]
    x, y = np.log(np.maximum(np.reshape(curve, (-1, 2)).T, 1e-12))
    slope = float(np.polyfit(x, y, 1)[0]) if len(curve) > 2 and np.ptp(x) > 0 else None
    return {"curve": curve, "slope": slope}


def different(held, others):
    """Number of frames that do not depend on each other, of the kinds that there are: one of each trajectory, and those
    without one."""
    return len({r.get("trajectory") or id(r) for r in held + others})


def judge(limit, held, others):
    """Table of groups of frames, and how well frames with large force errors are found. Rows of `evaluate` of a model
    with uncertainties."""
    most = lambda rows: np.array([r["uncertainties"].max() for r in rows])
    reference = _error(held)
    groups = {}
    for kind, rows in (("held out", held), ("other", others)):
        for r in rows:
            groups.setdefault((kind, r["group"]), []).append(r)
    table = [
        {
            "kind": kind,
            "group": name,
            "frames": len(rows),
            "error": _error(rows),
            "error_ratio": _error(rows) / reference,
            "largest": float(np.median(most(rows))),
            "flagged": float((most(rows) > limit).mean()),
        }
        for (kind, name), rows in groups.items()
    ]
    far, near = (
        [[r for r in rows if _is_far(r, reference) == is_far] for rows in (held, others)] for is_far in (True, False)
    )
    quiet = near[0] or held
    counts = {"far": different(*far), "near": different(*near), "held": different(quiet, [])}
    far, near = sum(far, []), sum(near, [])
    return {
        "error": reference,
        "limit": limit,
        "groups": table,
        "far": len(far),
        "near": len(near),
        "different": counts,
        "roc_area": roc_area(most(far), most(near)) if far and near else None,
        "false_alarms": float((most(quiet) > limit).mean()),
        "found": float((most(far) > limit).mean()) if far else None,
        "calibration": calibration(held),
    }


def text_of(found):
    """The table of `judge` as text."""
    lines = [f"{'group':34s} frames  force RMSE   x held out  largest u   flagged"]
    for r in found["groups"]:
        name = r["group"] if r["kind"] == "other" else f"{r['group']} (held out)"
        lines.append(
            f"{name[:34]:34s} {r['frames']:6d} {1000 * r['error']:7.1f} meV/A {r['error_ratio']:8.2f} "
            f"{1000 * r['largest']:9.1f} {100 * r['flagged']:9.1f} %"
        )
    slope = found["calibration"]["slope"]
    lines.append("")
    lines.append(f"limit                             {1000 * found['limit']:.1f} meV/A")
    lines.append(f"flagged of held-out frames        {100 * found['false_alarms']:.1f} %")
    if found["roc_area"] is not None:
        lines.append(f"frames above {FAR:g} x held out        {found['far']}, flagged {100 * found['found']:.1f} %")
        lines.append(f"area under the ROC curve          {found['roc_area']:.3f}")
    lines.append(f"slope of true over expected error {'-' if slope is None else format(slope, '.2f')}")
    return "\n".join(lines)


# ---- program ---------------------------------------------------------------------------------------------------------


def renew_certificate(path, before, after):
    """Puts the hashes of the changed model file into its certificate, certificates/NAME.json: the network is
    the same. Leaves certificates of other networks alone; returns the path of a renewed one."""
    place = os.path.join(os.path.dirname(path), "certificates", f"{before['name']}.json")
    if not os.path.exists(place):
        return None
    with open(place, encoding="utf-8") as f:
        found = json.load(f)
    if found["model"]["sha256"] != network_digest(before):
        return None
    found["model"].update(
        sha256=network_digest(after),
        weights_sha256=after["weights"]["sha256"],
        header_sha256=after[modelfile.header.KEY],
    )
    profiles.write_json(place, found)
    return place


def add(path, frames, out=None):
    """Writes the model file `path` with the block of `frames` to `out` (default: `path`). Returns the new header, and a
    list of notes. ModelError where the model or the frames do not allow it."""
    model = Model(path, precision="fp64", domain="ignore", self_test=False)
    if not model.n_features:
        raise ModelError(f"{path}: {model.architecture} models have no features of a last layer")
    before, network = modelfile.read(path)
    train, held = (evaluate(model, part) for part in split_frames(frames)[:2])
    if not train:
        raise ModelError("no frames to train on: give frames without the key split, or with split=train")
    block, tensors, few = fit(train, held)
    network = {k: v for k, v in network.items() if not k.startswith("uncertainty.")}
    metadata = modelfile.metadata_of(os.path.join(os.path.dirname(path), before["weights"]["file"]))
    is_new = out not in (None, path)
    if is_new:
        before = {**before, "name": os.path.basename(out)[: -len(".yaml")]}
    after = modelfile.write(
        (out or path)[: -len(".yaml")], {**before, "uncertainty": block}, {**network, **tensors}, metadata
    )
    renewed = None if is_new else renew_certificate(path, before, after)
    notes = [f"too few atoms, whose uncertainty is infinite: {', '.join(few)}"] if few else []
    return after, notes + ([f"{renewed} has the new hashes of the same network"] if renewed else [])


def arguments(argv):
    parser = argparse.ArgumentParser(prog="mlff uncertainty", description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="name or file of a model")
    parser.add_argument("frames", help="extended XYZ: what the model was trained on, or dynamics that it ran")
    parser.add_argument("-o", "--out", help="name of the new model (default: MODEL itself)")
    parser.add_argument(
        "--judge", action="append", default=[], metavar="OTHER.xyz", help="labelled frames to test with"
    )
    parser.add_argument("--json", action="store_true", help="print the results of the test as JSON")
    return parser.parse_args(argv)


def new_model(name, path):
    """Path of the file of -o NAME. ModelError where that, or the file of its weights, is another one than `path`."""
    out = os.path.abspath(modelfile.model_paths(name)[0])
    if re.search(r"\.[A-Za-z]\w*$", os.path.basename(out)[: -len(".yaml")]):
        raise ModelError(f"-o {name}: is not the name of a model file: end it in .yaml, or give it no ending")
    there = next((p for p in modelfile.model_paths(out) if os.path.exists(p)), None)
    if out != path and there:
        raise ModelError(f"-o {name}: {there} exists: give another name, or remove it")
    return out


@one_line("mlff uncertainty")
def main(argv=None):
    args = arguments(argv)
    path = os.path.abspath(modelfile.find_model(args.model))
    out = new_model(args.out, path) if args.out else path
    frames, others = extxyz.read(args.frames), [f for name in args.judge for f in extxyz.read(name)]
    if args.judge and any(f["forces"] is None for f in frames + others):
        raise ModelError("--judge needs forces in all frames, also those of FRAMES")
    unknown = {e for f in others for e in f["elements"]} - set(modelfile.read_head(path)["elements"])
    if unknown:
        raise ModelError(f"--judge: {', '.join(sorted(unknown))} is not in the model {path}")
    after, notes = add(path, frames, out)
    block = after["uncertainty"]
    for note in notes:
        print(f"mlff uncertainty: {note}", file=sys.stderr)
    print(f"{after['name']}: {block['description']}; limit {block['limit']:g} {block['unit']}", file=sys.stderr)
    if args.judge:
        _, held, test = split_frames(frames)
        judged = Model(out, precision="fp32", domain="ignore")
        found = judge(block["limit"], evaluate(judged, test or held, False), evaluate(judged, others, False))
        print(json.dumps(plain(found), indent=1, allow_nan=False) if args.json else text_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
