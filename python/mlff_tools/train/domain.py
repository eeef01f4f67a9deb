"""What labelled structures span: elements, temperatures, densities, and the shortest distance of each pair of elements.

The block `domain` of a model file has that of its training set. A certificate has that of the held-out frames beside
it, and covers what both have. `pair_style mlff` compares runs with the model file (docs/pair_mlff.md).
"""

import math

import numpy as np

from . import dataset

RANGES = {"temperature": "K", "density": "g/cm3"}
SLACK = 0.02  # of a range's ends, as src/pair_mlff/domain_watch.cpp has it


def _ends(values):
    """[lowest, highest] of the values that are known; None of none."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    return [float(values.min()), float(values.max())] if len(values) else None


def spanned(structures, elements, temperature, density, cutoff):
    """elements, temperature (K), density (g/cm3) and distances (A, of pairs within the cutoff) of structures.

    elements: all, in the order of the model; temperature: NaN where it is not known; density: 0 where not periodic. A
    key is missing where nothing is known."""
    structures, density = list(structures), np.asarray(density, float)
    seen = {e for s in structures for e in s["elements"]}
    nearest = dataset.shortest_of(structures, list(elements), cutoff)
    found = {
        "elements": [e for e in elements if e in seen],
        "temperature": _ends(temperature),
        "density": _ends(density[density > 0]),
        "distances": {f"{a}-{b}": r for (a, b), r in nearest.items()},
    }
    return {key: value for key, value in found.items() if key == "elements" or value}


def rounded(found):
    """The same for people to read: ranges outwards to 0.001 K and 0.0001 g/cm3, distances down to 0.001 A."""
    out, same = dict(found), 1e-6  # a number that has no more digits stays what it is
    for key, scale in (("temperature", 1e3), ("density", 1e4)):
        if key in found:
            low, high = found[key]
            out[key] = [math.floor(scale * low + same) / scale, math.ceil(scale * high - same) / scale]
    if "distances" in found:
        out["distances"] = {pair: math.floor(1000 * r + same) / 1000 for pair, r in found["distances"].items()}
    return out


def of_data(data, cutoff):
    """That of the training set (dataset.py)."""
    train = dataset.frames_of(data, "train")
    structures = (dataset.frame(data, k) for k in train)
    return spanned(structures, data["elements"], data["temperature"][train], data["density"][train], cutoff)


def of_frames(frames, elements, cutoff):
    """That of labelled frames (extxyz.py)."""
    others = sorted({e for f in frames for e in f["elements"]} - set(elements))
    return spanned(frames, [*elements, *others], *dataset.states(frames), cutoff)


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
