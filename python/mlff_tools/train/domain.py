"""What labelled structures span: elements, temperatures, densities, pressures, forces, and how close elements came.

The block `domain` of a model file describes its training set. A certificate also describes the held-out frames, and
covers what both contain. `pair_style mlff` compares runs with the model file (docs/pair_mlff.md).

`python -m mlff_tools.train.domain MODEL LABELS.xyz [--write NOTE]` prints what the training frames of LABELS.xyz span.
With --write it adds the missing keys to the model file, with NOTE in the description.
"""

import argparse
import math
import sys

import numpy as np

from ..model import modelfile
from ..model.files import in_words
from ..model.modelfile import ModelError
from ..model.units import GPA
from . import dataset, labels

RANGES = {"temperature": "K", "density": "g/cm3"}
SLACK = 0.02  # of a range's ends, as src/mlff/model/watch.c has it
SAME = 1e-6  # a number that has no more digits stays what it is when it is rounded


def _ends(values):
    """[lowest, highest] of the values that are known; None of none."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    return [float(values.min()), float(values.max())] if len(values) else None


def spanned(structures, elements, temperature, density, stress, cutoff):
    """elements, temperature (K), density (g/cm3), pressure (GPa, without its kinetic part), max_force (eV/A), distances
    and triples (A, of neighbors within the cutoff) of structures.

    elements: all, in the order of the model; temperature: NaN where it is not known; density: 0 where not periodic;
    stress [F, 3, 3]: eV/A^3, positive when stretched, NaN where there is none. A key is missing where nothing is
    known. Temperatures are of periodic structures, if any is known: a hot molecule is no evidence for a hot liquid."""
    structures, density, temperature = list(structures), np.asarray(density, float), np.asarray(temperature, float)
    if np.isfinite(temperature[density > 0]).any():
        temperature = temperature[density > 0]
    seen = {e for s in structures for e in s["elements"]}
    pairs, triples = dataset.closest_of(structures, list(elements), cutoff)
    forces = [np.square(s["forces"]).sum(1).max() for s in structures if len(s["elements"])]
    found = {
        "elements": [e for e in elements if e in seen],
        "temperature": _ends(temperature),
        "density": _ends(density[density > 0]),
        "pressure": _ends(-GPA * np.trace(np.asarray(stress, float).reshape(-1, 3, 3), axis1=1, axis2=2) / 3),
        "max_force": math.sqrt(max(forces, default=0.0)),
        "distances": {f"{a}-{b}": r for (a, b), r in pairs.items()},
        "triples": {
            centre: {f"{a}-{b}": r for (c, a, b), r in triples.items() if c == centre}
            for centre in dict.fromkeys(c for c, _, _ in triples)
        },
    }
    return {key: value for key, value in found.items() if key == "elements" or value}


def _down(pairs):
    return {pair: math.floor(1000 * r + SAME) / 1000 for pair, r in pairs.items()}


def rounded(found):
    """The same for people to read: ranges outwards to 0.001 K, 0.0001 g/cm3 and 0.01 GPa, forces up to 0.01 eV/A,
    distances down to 0.001 A."""
    out = dict(found)
    for key, scale in (("temperature", 1e3), ("density", 1e4), ("pressure", 1e2)):
        if key in found:
            low, high = found[key]
            out[key] = [math.floor(scale * low + SAME) / scale, math.ceil(scale * high - SAME) / scale]
    if "max_force" in found:
        out["max_force"] = math.ceil(100 * found["max_force"] - SAME) / 100
    if "distances" in found:
        out["distances"] = _down(found["distances"])
    if "triples" in found:
        out["triples"] = {centre: _down(pairs) for centre, pairs in found["triples"].items()}
    return out


def of_data(data, cutoff):
    """That of the training set (dataset.py)."""
    train = dataset.frames_of(data, "train")
    structures = (dataset.frame(data, k) for k in train)
    of_train = [data[key][train] for key in ("temperature", "density", "stress")]
    return spanned(structures, data["elements"], *of_train, cutoff)


def of_frames(frames, elements, cutoff):
    """That of labelled frames (extxyz.py)."""
    others = sorted({e for f in frames for e in f["elements"]} - set(elements))
    stress = [np.full((3, 3), np.nan) if f.get("stress") is None else f["stress"] for f in frames]
    return spanned(frames, [*elements, *others], *dataset.states(frames), stress, cutoff)


def of_model(head):
    """That of a model file, pairs in the order of its elements."""
    said, order = head["domain"], head["elements"].index
    found = {key: said[key] for key in ("elements", *RANGES) if key in said}
    if "distances" in said:
        pairs = {tuple(sorted(pair.split("-"), key=order)): r for pair, r in said["distances"].items()}
        found["distances"] = {
            "-".join(pair): pairs[pair] for pair in sorted(pairs, key=lambda p: [order(e) for e in p])
        }
    return found


def common(one, other):
    """Where both are; a key that one of them lacks is missing."""
    found = {"elements": [e for e in one["elements"] if e in other["elements"]]}
    for key in RANGES:
        if key in one and key in other:
            low, high = max(one[key][0], other[key][0]), min(one[key][1], other[key][1])
            found.update({key: [low, high]} if low <= high else {})
    if "distances" in one and "distances" in other:
        pairs = [pair for pair in one["distances"] if pair in other["distances"]]
        found["distances"] = {pair: max(one["distances"][pair], other["distances"][pair]) for pair in pairs}
    return found


def not_spanned(wanted, found):
    """What of `wanted` is not reached by `found`, as texts."""
    out = [f"element {e}" for e in wanted["elements"] if e not in found["elements"]]
    for key, unit in RANGES.items():
        if key not in wanted:
            continue
        low, high = wanted[key]
        if key not in found:
            out.append(f"{key}: none of {low:g} to {high:g} {unit}")
        elif found[key][0] > low * (1 + SLACK) or found[key][1] < high * (1 - SLACK):
            out.append(f"{key}: {found[key][0]:g} to {found[key][1]:g} of {low:g} to {high:g} {unit}")
    return out + [f"pair {p}" for p in wanted.get("distances", {}) if p not in found.get("distances", {})]


def added(said, found, note):
    """The block `domain` that says `said`, and what of `found` it does not. Triples are not closer than the pairs."""
    keys = ("temperature", "density", "pressure", "max_force", "distances", "triples")
    new = [key for key in keys if key in found and key not in said]
    both = {**said, **{key: found[key] for key in new}}
    out = {key: both[key] for key in ("elements", "min_distance", *keys) if key in both}
    if "triples" in new:
        pairs = {frozenset(pair.split("-")): r for pair, r in out["distances"].items()}
        shortest = lambda centre, ends: [pairs.get(frozenset((centre, end)), 0.0) for end in ends.split("-")]
        out["triples"] = {
            centre: {
                ends: max(r, *shortest(centre, ends)) for ends, r in closest.items() if all(shortest(centre, ends))
            }
            for centre, closest in found["triples"].items()
        }
    return {**out, "description": said["description"] + (f"; {', '.join(new)}: {note}" if new else "")}


def _found(path, head):
    return rounded(of_data(dataset.from_labels(labels.read_labels(path), head["elements"]), head["cutoff"]))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="path of a model file")
    parser.add_argument("data", help="labels in extended XYZ")
    parser.add_argument("--write", metavar="NOTE", help="add what the file does not say; NOTE says what it is of")
    args = parser.parse_args(argv)
    try:
        head = modelfile.read_head(args.model)
        found = _found(args.data, head)
        if args.write is not None:
            modelfile.write_head(args.model, {**head, "domain": added(head["domain"], found, args.write)})
    except (ModelError, OSError) as e:
        print(f"error: {in_words(e)}", file=sys.stderr)
        return 2
    print(modelfile.dump_yaml(found).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
