"""Labelled structures as arrays: from_labels.

Arrays (F frames, A atoms of all frames, S elements):
  elements [S] text                 species s is the index in this list
  offset [S] float64                energy of a free atom in the labels' model, eV
  species [A] int8                  positions [A, 3] float64 A         forces [A, 3] float64 eV/A
  first [F + 1] int64               frame k owns the atoms first[k] .. first[k+1]-1
  cell [F, 3, 3] float64            A, rows are the vectors; zero: not periodic
  energy [F] float64                eV
  stress [F, 3, 3] float64          eV/A^3, positive under tension; NaN: no label
  atom_energies [A] float64         eV; NaN: no label
  hessian_direction, hessian_product [A, 3] float64, see hessian.py; NaN: no label
  trajectory [F] int32              index in trajectory_names; all frames of a trajectory are in one split
  trajectory_names [n] text
  config_type [F] text              kind of structure
  split [F] int8                    0 train, 1 validation, 2 test
  temperature [F], density [F]      K, NaN: unknown; g/cm3, zero: not periodic
  info, sha256                      JSON text with the teacher; hash of all labels
The atoms of a frame are sorted by element, so that frames of one composition have the same species.
"""

import hashlib
import json

import numpy as np

from ..model.masses import MASS
from ..model.modelfile import NUMBERS, ModelError
from . import copies, extxyz, hessian, labels

SPLITS = ("train", "validation", "test")
AMU_A3 = 0.602214076  # 1 g/cm3 in atomic mass units per A^3


def _number(frame, key):
    text = extxyz.tag(frame, key)
    try:
        return float("nan") if text is None else float(text)
    except ValueError as e:
        raise ModelError(f"{frame['source']}: {key} is '{text}', not a number") from e


PERIOD, VALIDATED, TESTED = 10, 4, 9  # of ten frames or trajectories in turn, one is validated on and one tested with


def _deal(frames, kinds, trajectories):
    """The split [F] of each frame: what it says itself; else whole trajectories of a kind in turn where it has ten of
    them, and frames in turn where it has fewer, copies of one structure together."""
    split = np.full(len(frames), -1, np.int8)
    for k, frame in enumerate(frames):
        said = extxyz.tag(frame, "split")
        if said is not None and said not in SPLITS:
            raise ModelError(f"{frame['source']}: split is '{said}', not one of {', '.join(SPLITS)}")
        if said is not None:
            split[k] = SPLITS.index(said)
    of_place = {VALIDATED: 1, TESTED: 2}
    for kind in dict.fromkeys(kinds):
        mine = [k for k in range(len(frames)) if kinds[k] == kind and split[k] < 0]
        runs = list(dict.fromkeys(trajectories[k] for k in mine))
        for place, k in enumerate(mine):
            if len(runs) >= PERIOD:
                place = runs.index(trajectories[k])
            split[k] = of_place.get(place % PERIOD, 0)
    copies.keep_together(frames, split, [extxyz.tag(f, "split") is not None for f in frames])
    train = np.nonzero(split == 0)[0]
    if len(train) < 2:
        raise ModelError(f"{len(train)} of {len(frames)} labelled frames are for training: at least 2 are needed")
    if not (split == 1).any():
        split[train[VALIDATED::PERIOD] if len(train) > VALIDATED else train[-1:]] = 1
    return split


def _teacher(frames):
    """(name, hash) of the teachers of frames, for the provenance of a model."""
    said = list(dict.fromkeys(tuple(text for _, text in labels.teacher_of(f)) for f in frames))
    if said in ([()], []):
        return "labels of unknown origin", "unknown"
    names = ", ".join(f"{t[1]} ({t[0]}, {t[3]})" if t else "unknown" for t in said)
    return names, ", ".join(t[2] if t else "unknown" for t in said)


def _volume(frame):
    return 0.0 if frame["cell"] is None else abs(np.linalg.det(frame["cell"]))


def states(frames):
    """temperature [F], K, NaN where a frame does not say, and density [F], g/cm3, 0 where it is not periodic.

    Where the teacher ran some, temperatures of what other potentials ran (tag `by`) are NaN: theirs are not its."""
    mass, volume = [sum(MASS[e] for e in f["elements"]) for f in frames], [_volume(f) for f in frames]
    density = [m / v / AMU_A3 if v else 0.0 for m, v in zip(mass, volume)]
    temperature = np.array([_number(f, "temperature") for f in frames])
    others = np.array(["by" in f["info"] for f in frames], bool)
    if np.isfinite(temperature[~others]).any():
        temperature[others] = np.nan
    return temperature, np.array(density)


def _offsets(species, atom_energies, n_elements):
    """Mean energy [n_elements] of the atoms of each element, eV; zero where no frame says."""
    out, known = np.zeros(n_elements), np.isfinite(atom_energies)
    for s in range(n_elements):
        mine = known & (species == s)
        if mine.any():
            out[s] = atom_energies[mine].mean()
    return out


def _elements(frames, wanted):
    """The elements of the frames by their numbers, or `wanted`, which must have them all."""
    found = sorted({e for f in frames for e in f["elements"]}, key=NUMBERS.get)
    strange = [e for e in found if e not in (wanted or found)]
    if strange:
        raise ModelError(f"the labels have {', '.join(strange)}; the student's elements are {', '.join(wanted)}")
    return list(wanted or found)


def _atoms(frames, elements):
    """The arrays of all atoms."""
    number = {e: s for s, e in enumerate(elements)}
    species = [np.array([number[e] for e in f["elements"]], np.int8) for f in frames]
    order = [np.argsort(s, kind="stable") for s in species]
    none = [np.full(len(o), np.nan) for o in order]
    energies = [n if f.get("atom_energies") is None else f["atom_energies"] for f, n in zip(frames, none)]
    together = lambda values: np.concatenate([np.asarray(v)[o] for v, o in zip(values, order)])
    products = [hessian.columns_of(f) for f in frames]
    return {
        **{name: together([p[k] for p in products]) for k, name in enumerate(hessian.COLUMNS)},
        "species": together(species),
        "positions": together([f["positions"] for f in frames]).astype(float),
        "forces": together([f["forces"] for f in frames]).astype(float),
        "atom_energies": together(energies).astype(float),
        "first": np.concatenate([[0], np.cumsum([len(o) for o in order])]),
    }


def from_labels(frames, elements=None, name="labels"):
    """The arrays above from labelled frames (extxyz.py, labels.read_labels), which need an energy and forces.

    elements: the student's, if it is to know more than there are, or those of an earlier round."""
    if not frames:
        raise ModelError("no labelled frames")
    for frame in frames:
        for key in ("energy", "forces"):
            if frame.get(key) is None:
                raise ModelError(f"{frame.get('source', frame['name'])}: has no {key}")
    elements, nan = _elements(frames, elements), np.full((3, 3), np.nan)
    kinds = [extxyz.tag(f, "config_type", "frames") for f in frames]
    trajectories = [extxyz.tag(f, "trajectory", kind) for f, kind in zip(frames, kinds)]
    names = list(dict.fromkeys(trajectories))
    temperature, density = states(frames)
    arrays = {
        "elements": elements,
        **_atoms(frames, elements),
        "cell": np.array([np.zeros((3, 3)) if f["cell"] is None else f["cell"] for f in frames], float),
        "energy": np.array([float(f["energy"]) for f in frames]),
        "stress": np.array([nan if f.get("stress") is None else f["stress"] for f in frames], float),
        "trajectory": np.array([names.index(t) for t in trajectories], np.int32),
        "trajectory_names": np.array(names),
        "config_type": np.array(kinds),
        "temperature": temperature,
        "density": density,
        "split": _deal(frames, kinds, trajectories),
    }
    for key in ("positions", "forces", "energy", "cell"):
        if not np.isfinite(arrays[key]).all():
            raise ModelError(f"the labels hold NaN or infinity ({key})")
    arrays["offset"] = _offsets(arrays["species"], arrays["atom_energies"], len(elements))
    teacher, sha256 = _teacher(frames)
    made = {"config": {"name": name}, "labels": teacher, "model_sha256": sha256}
    made["derivatives"] = not any(extxyz.tag(f, "teacher_derivatives") == "F" for f in frames)
    arrays["info"] = np.array(json.dumps(made))
    products = hashlib.sha256(arrays["hessian_direction"].tobytes() + arrays["hessian_product"].tobytes()).hexdigest()
    parts = [labels.file_hash(frames), products, *elements, *arrays["split"].astype(str), *kinds, *trajectories]
    arrays["sha256"] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return arrays


def info(data):
    """What made the data, as a mapping."""
    return json.loads(str(data["info"]))


def frame(data, k):
    """Frame k as a structure (see structures.py) with its labels: energy (eV) and forces [N, 3] (eV/A)."""
    a, b = data["first"][k], data["first"][k + 1]
    cell = data["cell"][k] if data["cell"][k].any() else None
    name = str(data["trajectory_names"][data["trajectory"][k]])
    return {
        "name": f"{name}:{k}",
        "elements": [data["elements"][s] for s in data["species"][a:b]],
        "positions": data["positions"][a:b].astype(float),
        "cell": cell,
        "energy": float(data["energy"][k]),
        "forces": data["forces"][a:b].astype(float),
    }


def frames_of(data, split):
    """Indices of the frames of a split."""
    if split not in SPLITS:
        raise ModelError(f"split '{split}' is not one of {', '.join(SPLITS)}")
    return np.nonzero(data["split"] == SPLITS.index(split))[0]


def force_rms(data, frames):
    """Root mean square force of each of `frames`, eV/A over all components."""
    bounds, square = data["first"], data["forces"].astype(float) ** 2
    return np.array([np.sqrt(square[bounds[k] : bounds[k + 1]].mean()) for k in frames])


def seen_together(data):
    """The sets of elements that occur in one frame of the training set, each once."""
    found = {
        tuple(np.unique(data["species"][data["first"][k] : data["first"][k + 1]])) for k in frames_of(data, "train")
    }
    return [{data["elements"][i] for i in indices} for indices in sorted(found)]


def shortest_distances(data, cutoff=5.0):
    """{(element, element): shortest distance in A} of the pairs within `cutoff` in the training set."""
    return shortest_of((frame(data, k) for k in frames_of(data, "train")), data["elements"], cutoff)


def shortest_of(structures, elements, cutoff=5.0):
    """{(element, element): shortest distance in A} of the pairs within `cutoff`, elements in the order given."""
    return closest_of(structures, elements, cutoff)[0]


def closest_of(structures, elements, cutoff=5.0):
    """({(element, element): shortest distance in A} of the pairs within `cutoff`, {(centre, element, element): the
    smallest distance in A within which an atom had both neighbors}), elements in the order given."""
    n, index = len(elements), {e: k for k, e in enumerate(elements)}
    pairs, triples = np.full((n, n), np.inf), np.full((n, n, n), np.inf)
    for s in structures:
        species = np.array([index[e] for e in s["elements"]])
        nearest = _nearest(s["positions"], species, s["cell"], n, cutoff)
        np.minimum.at(pairs, species, nearest[:, :, 0])
        met = np.nonzero(np.isfinite(nearest[:, :, 0]).any(0))[0]
        for t in met:
            for u in met[met >= t]:
                both = nearest[:, t, 1] if t == u else np.maximum(nearest[:, t, 0], nearest[:, u, 0])
                np.minimum.at(triples[:, t, u], species, both)
    names = lambda *indices: tuple(elements[k] for k in indices)
    return (
        {names(s, t): float(pairs[s, t]) for s in range(n) for t in range(s, n) if np.isfinite(pairs[s, t])},
        {names(*k): float(triples[tuple(k)]) for k in np.argwhere(np.isfinite(triples)).tolist()},
    )


def _nearest(x, species, cell, n, cutoff):
    """[N, n, 2] distances of the two nearest neighbors of each atom of each of n elements; infinity beyond cutoff."""
    owner, away = np.arange(len(x)), x
    if cell is not None:
        inverse = np.linalg.inv(cell)
        x = (x @ inverse % 1.0) @ cell
        reach = np.floor(cutoff * np.linalg.norm(inverse, axis=0)).astype(int) + 1
        grid = np.meshgrid(*[np.arange(-m, m + 1) for m in reach], indexing="ij")
        away = (np.stack(grid, -1).reshape(-1, 1, 3) @ cell + x).reshape(-1, 3)
        kept = ((away > x.min(0) - cutoff) & (away < x.max(0) + cutoff)).all(1)
        owner, away = np.tile(owner, len(kept) // len(x))[kept], away[kept]
    square = (x**2).sum(1)[:, None] + (away**2).sum(1) - 2 * x @ away.T
    square[(square >= cutoff**2) | (square <= 1e-6)] = np.inf
    out = np.full((len(x), n, 2), np.inf)
    for t in np.unique(species):
        to_species = square[:, species[owner] == t]
        if to_species.shape[1] > 1:
            out[:, t] = np.sort(np.partition(to_species, 1, axis=1)[:, :2], axis=1)
        else:
            out[:, t, :1] = to_species
    return np.sqrt(out)
