"""Errors of a student on labelled frames, and their tables: by size, by kind, by temperature.

A row has: by ("size", "config_type", "temperature", "all"), value, n_atoms, frames, force_rmse and force_mae (eV/A over
all components), energy_rmse (eV/atom), and where the labels have stress stress_rmse and stress_mae (GPa over all nine
components), else None; force_rms and stress_rms are those of the labels themselves, with the repulsion of the student.
"""

import numpy as np

from ..model.units import GPA

KEYS = (
    "frame",
    "n_atoms",
    "square",
    "absolute",
    "learnt_square",
    "label_square",
    "energy",
    "has_stress",
    "stress_square",
    "stress_absolute",
    "stress_label_square",
)
BINS = 50.0  # K: temperatures are rounded to a multiple of it


def of_batch(out, batch, frame_class, index, scale, data):
    """Errors of each frame of a batch of one class: {name of KEYS: [k]}, in eV and A; sums over components. data: the
    labels; the batch has those less the repulsion of the student."""
    k, n = len(index), frame_class.n_atoms
    numpy = lambda x: x.detach().double().cpu().numpy()
    off = scale * numpy(out.forces.mean(0) - batch.forces).reshape(k, -1)
    volume, has_stress = frame_class.volume[index.cpu().numpy()], numpy(batch.has_virial) > 0
    per_volume = scale / np.where(has_stress, volume, 1.0)[:, None]
    stress = per_volume * numpy(out.virials.mean(0) - batch.virial).reshape(k, 9)
    chosen = frame_class.frames[index.cpu().numpy()]
    forces = [data["forces"][data["first"][f] : data["first"][f + 1]] for f in chosen]
    labelled = np.nan_to_num(data["stress"][chosen].reshape(k, 9)) if "stress" in data else np.zeros((k, 9))
    return {
        "frame": chosen,
        "n_atoms": np.full(k, n),
        "square": (off**2).sum(1),
        "absolute": np.abs(off).sum(1),
        "learnt_square": (scale * numpy(batch.forces).reshape(k, -1)) ** 2 @ np.ones(3 * n),
        "label_square": np.array([(f.astype(float) ** 2).sum() for f in forces]),
        "energy": scale * numpy(out.energies.mean(0) - batch.energy) / n,
        "has_stress": has_stress,
        "stress_square": (stress**2).sum(1),
        "stress_absolute": np.abs(stress).sum(1),
        "stress_label_square": has_stress * (labelled**2).sum(1),
    }


def together(found):
    """The frames of several batches."""
    return {key: np.concatenate([f[key] for f in found]) if found else np.zeros(0) for key in KEYS}


def row(of_frames, mine, group, value):
    """The row of the frames chosen by `mine` [frames]."""
    e = {key: x[mine] for key, x in of_frames.items()}
    components, stress = 3 * e["n_atoms"].sum(), e["has_stress"].astype(bool)
    n_stress = 9 * stress.sum()
    rms = lambda key: GPA * float(np.sqrt(e[key][stress].sum() / n_stress)) if n_stress else None
    return {
        "by": group,
        "value": value,
        "n_atoms": value if group in ("size", "all") else "any",
        "frames": int(mine.sum()),
        "force_rmse": float(np.sqrt(e["square"].sum() / components)),
        "force_mae": float(e["absolute"].sum() / components),
        "force_rms": float(np.sqrt(e["label_square"].sum() / components)),
        "energy_rmse": float(np.sqrt((e["energy"] ** 2).mean())),
        "stress_rmse": rms("stress_square"),
        "stress_mae": GPA * float(e["stress_absolute"][stress].sum() / n_stress) if n_stress else None,
        "stress_rms": rms("stress_label_square"),
    }


def _groups(of_frames, group, values):
    return [row(of_frames, values == v, group, v.item()) for v in np.unique(values)]


def by_size(of_frames):
    """Rows by the number of atoms, then that of all frames."""
    if not len(of_frames["frame"]):
        return []
    everything = row(of_frames, np.ones(len(of_frames["frame"]), bool), "all", "all")
    return [*_groups(of_frames, "size", of_frames["n_atoms"]), everything]


def table(of_frames, data):
    """All rows: by size, config_type and temperature (rounded to 50 K) where they are known, and of all frames."""
    rows = by_size(of_frames)
    if not rows:
        return rows
    frame, more = of_frames["frame"], []
    if "config_type" in data:
        more += _groups(of_frames, "config_type", data["config_type"][frame])
    temperature = np.round(data["temperature"][frame].astype(float) / BINS) * BINS
    more += [row(of_frames, temperature == t, "temperature", float(t)) for t in np.unique(temperature[temperature > 0])]
    return [*rows[:-1], *more, rows[-1]]


def text(r):
    """A row in words."""
    what = {"size": f"{r['value']} atoms", "temperature": f"{r['value']} K"}.get(r["by"], str(r["value"]))
    stress = "" if r["stress_rmse"] is None else f", stress RMSE {r['stress_rmse']:.3f} GPa"
    return (
        f"{what} ({r['frames']} frames): force RMSE {1000 * r['force_rmse']:.2f} meV/A "
        f"({100 * r['force_rmse'] / max(r['force_rms'], 1e-12):.1f} %), MAE {1000 * r['force_mae']:.2f} meV/A, "
        f"energy RMSE {1000 * r['energy_rmse']:.3f} meV/atom{stress}"
    )
