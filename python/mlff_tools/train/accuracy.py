"""Errors of a model on a held-out split: `mlff accuracy MODEL DATA.npz [--split test] [--write]`.

The structures are evaluated by the engine (`mlff evaluate`), not by the training code. --write puts the numbers into
the accuracy block of the model file.
"""

import argparse
import json
import sys

import numpy as np

from ..command_line import one_line, positive
from ..model import engine, files, modelfile
from ..model.modelfile import ModelError
from . import dataset

AT_ONCE = 50  # frames per call of the program


def kind_of(structure):
    """A word for the structure: water, benzene or its formula."""
    counts = {e: structure["elements"].count(e) for e in sorted(set(structure["elements"]))}
    if set(counts) == {"H", "O"} and counts["H"] == 2 * counts["O"]:
        return f"water, {counts['O']} molecules"
    if counts == {"C": 6, "H": 6}:
        return "benzene"
    return "".join(f"{e}{n}" for e, n in counts.items())


def errors(model_path, data, frames, precision="fp32", program=None):
    """Differences between model and labels over `frames`: list of (structure, energy difference in eV, force
    differences [N, 3] in eV/A)."""
    out = []
    for a in range(0, len(frames), AT_ONCE):
        structures = [dataset.frame(data, k) for k in frames[a : a + AT_ONCE]]
        results, _ = engine.evaluate(model_path, structures, precision, program)
        for s, (energy, forces, _) in zip(structures, results):
            out.append((s, energy - s["energy"], forces - s["forces"]))
    return out


def _row(rows):
    force = np.concatenate([f.ravel() for _, _, f in rows])
    energy = np.array([e / len(s["elements"]) for s, e, _ in rows])
    return {
        "frames": len(rows),
        "force_rmse": 1000 * float(np.sqrt(np.mean(force**2))),
        "force_mae": 1000 * float(np.mean(np.abs(force))),
        "force_max": 1000 * float(np.abs(force).max()),
        "energy_rmse": 1000 * float(np.sqrt(np.mean(energy**2))),
        "energy_mean": 1000 * float(np.mean(energy)),
    }


def summary(rows):
    """Errors in total, per kind of structure and per element; meV/A and meV/atom. rows: as from errors()."""
    kinds = {}
    for row in rows:
        kinds.setdefault(kind_of(row[0]), []).append(row)
    elements = {}
    for s, _, f in rows:
        for e in set(s["elements"]):
            elements.setdefault(e, []).append(f[np.array(s["elements"]) == e].ravel())
    joined = {e: np.concatenate(v) for e, v in sorted(elements.items())}
    return {
        "total": _row(rows),
        "kinds": {k: _row(v) for k, v in sorted(kinds.items())},
        "elements": {
            e: {"force_rmse": 1000 * float(np.sqrt(np.mean(v**2))), "force_mae": 1000 * float(np.mean(np.abs(v)))}
            for e, v in joined.items()
        },
    }


def block(result, data, split, origin):
    """The accuracy mapping of a model file."""
    kinds = "; ".join(
        f"{k}: {r['force_rmse']:.1f} meV/A, {r['energy_rmse']:.2f} meV/atom" for k, r in result["kinds"].items()
    )
    total = result["total"]
    labels = dataset.info(data)["labels"]
    return {
        "description": f"{total['frames']} frames of held-out trajectories (split {split}) against {labels}, {origin}; "
        + kinds,
        "force_rmse_mev_per_ang": round(total["force_rmse"], 3),
        "energy_rmse_mev_per_atom": round(total["energy_rmse"], 4),
    }


def table(result):
    """The summary as text."""
    lines = [
        f"{'':24s} {'frames':>6s} {'force RMSE':>11s} {'MAE':>8s} {'largest':>9s} {'energy RMSE':>12s} {'mean':>8s}",
        f"{'':24s} {'':>6s} {'meV/A':>11s} {'meV/A':>8s} {'meV/A':>9s} {'meV/atom':>12s} {'meV/atom':>8s}",
    ]
    for name, r in [*result["kinds"].items(), ("all", result["total"])]:
        lines.append(
            f"{name:24s} {r['frames']:6d} {r['force_rmse']:11.2f} {r['force_mae']:8.2f} {r['force_max']:9.1f} "
            f"{r['energy_rmse']:12.3f} {r['energy_mean']:8.3f}"
        )
    for e, r in result["elements"].items():
        lines.append(f"{'forces on ' + e:24s} {'':6s} {r['force_rmse']:11.2f} {r['force_mae']:8.2f}")
    return "\n".join(lines)


def accuracy(args):
    """Evaluates as the command line says; returns the summary."""
    data, sha256 = dataset.load(args.data)
    path = modelfile.find_model(args.model)
    if args.write and path != modelfile.model_paths(args.model)[0]:
        raise ModelError(f"--write changes the model file: give its path, {path}, if that is meant")
    head, _ = modelfile.read(path)
    missing = set(data["elements"]) - set(head["elements"])
    if missing:
        raise ModelError(f"{path}: the model does not know {sorted(missing)} of the data set")
    frames = dataset.frames_of(data, args.split)
    if args.every > 1:
        frames = frames[:: args.every]
    if len(frames) == 0:
        raise ModelError(f"{args.data}: split '{args.split}' holds no frame")
    if args.split != "train" and head["provenance"]["data_sha256"] not in ("none", sha256):
        print(
            f"note: the model was trained on another data set ({head['provenance']['data_sha256'][:12]}..., this is "
            f"{sha256[:12]}...): frames of this split may have been in its training set",
            file=sys.stderr,
        )
    result = summary(errors(path, data, frames, args.precision, args.mlff))
    if args.write:
        head = dict(head)
        head["accuracy"] = block(result, data, args.split, f"engine, {args.precision}")
        modelfile.write_head(path, head)
    return result


@one_line("mlff accuracy")
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="mlff accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="model file, or the name of a model")
    parser.add_argument("data", help="data set made by mlff_tools.sample")
    parser.add_argument("--split", choices=dataset.SPLITS, default="test", help="which frames (default: %(default)s)")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="only every N-th frame")
    parser.add_argument("--precision", choices=("fp32", "fp64", "mixed"), default="fp32", help="(default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the accuracy block of the model file")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE")
    parser.add_argument("--mlff", metavar="PATH", help="the program mlff (else $MLFF, build folders, PATH)")
    args = parser.parse_args(argv)
    result = accuracy(args)
    if args.json:
        files.write_bytes(args.json, (json.dumps(result, indent=1) + "\n").encode("ascii"))
    print(table(result))
