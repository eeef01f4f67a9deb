"""Labelled structures in one .npz file.

Arrays (n_frames F, n_atoms over all frames A):
  elements [n_elements] text        species s = index here
  offset [n_elements] float64       energy of a free atom in the labels' model, eV
  species [A] int8                  positions [A, 3] float32 A         forces [A, 3] float32 eV/A
  first [F + 1] int64               frame k owns atoms first[k] .. first[k+1]-1
  cell [F, 3, 3] float64            A, rows are the vectors; zero = not periodic
  energy [F] float64                eV
  trajectory [F] int32              index into trajectory_names; all frames of a trajectory are in one split
  split [F] int8                    0 train, 1 validation, 2 test
  temperature [F], density [F]      K and g/cm3 (zero = not periodic), of the trajectory
  trajectory_names [n] text         info: JSON text with everything that made the data
"""

import io
import json

import numpy as np

from ..model.modelfile import ModelError, sha256_of, write_bytes

SPLITS = ("train", "validation", "test")
ARRAYS = (
    "elements",
    "offset",
    "species",
    "positions",
    "forces",
    "first",
    "cell",
    "energy",
    "trajectory",
    "split",
    "temperature",
    "density",
    "trajectory_names",
    "info",
)


def save(path, arrays):
    """Writes the arrays above; equal arrays give equal files. Returns the sha256."""
    missing = set(ARRAYS) - set(arrays)
    if missing:
        raise ModelError(f"data set without {sorted(missing)}")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{k: arrays[k] for k in ARRAYS})
    write_bytes(path, buffer.getvalue())
    return sha256_of(path)


def load(path):
    """(arrays as a dict, sha256 of the file), checked for shapes and finite numbers."""
    try:
        with np.load(path, allow_pickle=False) as f:
            data = {k: f[k] for k in f.files}
    except (OSError, ValueError) as e:
        raise ModelError(f"{path}: not a readable data set: {e}") from e
    missing = set(ARRAYS) - set(data)
    if missing:
        raise ModelError(f"{path}: the data set has no {sorted(missing)}")
    n_atoms, n_frames = len(data["species"]), len(data["energy"])
    if (
        data["positions"].shape != (n_atoms, 3)
        or data["forces"].shape != (n_atoms, 3)
        or data["first"].shape != (n_frames + 1,)
        or data["first"][-1] != n_atoms
        or data["cell"].shape != (n_frames, 3, 3)
    ):
        raise ModelError(f"{path}: the arrays of the data set do not fit together")
    for name in ("positions", "forces", "energy", "cell"):
        if not np.isfinite(data[name]).all():
            raise ModelError(f"{path}: {name} holds NaN or infinity")
    data["elements"] = [str(e) for e in data["elements"]]
    return data, sha256_of(path)


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


def seen_together(data):
    """The sets of elements that occur in one frame of the training set, each once."""
    found = {
        tuple(np.unique(data["species"][data["first"][k] : data["first"][k + 1]])) for k in frames_of(data, "train")
    }
    return [{data["elements"][i] for i in indices} for indices in sorted(found)]
