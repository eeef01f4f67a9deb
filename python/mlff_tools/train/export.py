"""The model file of a trained student: provenance, domain, accuracy and self-test."""

import numpy as np

from ..model import modelfile, reference, selftest
from ..model.modelfile import ModelError
from . import dataset, domain

try:
    import torch
except ImportError:
    torch = None

# Fractions of the shortest distance in the training set: closer atoms stop a run, without and with a repulsion; with
# one also of its shortest cutoff
NEAREST, NEAREST_REPELLED = 0.75, 0.4
CLUSTER, SMALL = 12, 216  # atoms of a self-test's cluster, and of the largest periodic frame in one
STEEP = 300.0  # eV/A in a self-test, of two atoms that repel each other: above it the tolerance grows as the forces do
MOST_FORCE = 30.0  # eV/A in a self-test: single precision cannot keep to the tolerance where a cut makes larger ones


def describe(data, cutoff):
    """Text of the structures in the training set and what they span, for provenance and domain."""
    train = dataset.frames_of(data, "train")
    sizes = np.diff(data["first"])[train]
    info = dataset.info(data)
    kinds = [f"{int((sizes == n).sum())} of {n} atoms" for n in np.unique(sizes)]
    if len(kinds) > 8:
        kinds = [f"{sizes.min()} to {sizes.max()} atoms"]
    return {
        "text": f"{len(train)} frames from {len(np.unique(data['trajectory'][train]))} trajectories "
        f"({', '.join(kinds)}), data set '{info['config']['name']}'",
        "labels": info["labels"],
        "labels_sha256": info["model_sha256"],
        "spanned": domain.of_data(data, cutoff),
    }


def _domain(config, about, clamps):
    """The block domain. clamps: cutoffs of the repulsion, A, or None."""
    wanted, spanned = config.get("domain", {}), domain.rounded(about["spanned"])
    nearest = min(about["spanned"].get("distances", {}).values(), default=1.0)
    least = NEAREST * nearest
    if clamps is not None:
        least = min(NEAREST_REPELLED * nearest, NEAREST * float(clamps.min()))
    return {
        "elements": spanned.pop("elements"),
        "min_distance": float(wanted.get("min_distance", np.floor(100 * least) / 100)),
        **spanned,
        "description": wanted.get("description", about["text"]),
    }


def _provenance(trainer, about):
    config = trainer.config
    return {
        "labels": f"{about['labels']} (network digest {about['labels_sha256']})",
        "data": about["text"],
        "data_sha256": trainer.data_sha256,
        "code": f"mlff_tools.train, {trainer.step} steps, seed {trainer.train['seed']}, "
        f"PyTorch {torch.__version__} on {trainer.device.type}",
        "license": config.get("license", "not stated"),
        "citation": config.get("citation", "none"),
    }


def _accuracy(rows, about):
    """rows: errors.table of held-out frames."""
    kinds = [r for r in rows if r["by"] == "config_type"] or [r for r in rows if r["by"] == "size"]
    name = lambda r: f"{r['value']} atoms" if r["by"] == "size" else r["value"]
    text = ", ".join(
        f"{name(r)}: {1000 * r['force_rmse']:.1f} meV/A, {1000 * r['energy_rmse']:.2f} meV/atom" for r in kinds[:12]
    )
    total = rows[-1]
    stress = "" if total["stress_rmse"] is None else f"; stress: {total['stress_rmse']:.3f} GPa"
    return {
        "description": f"held-out trajectories against {about['labels']}, PyTorch float32; {text}{stress}",
        "force_rmse_mev_per_ang": round(1000 * total["force_rmse"], 3),
        "energy_rmse_mev_per_atom": round(1000 * total["energy_rmse"], 4),
    }


def _cluster(frame, n_atoms):
    """The n_atoms atoms nearest to one in the middle of a frame, without a cell."""
    x, elements, owner = frame["positions"], np.array(frame["elements"]), np.arange(len(frame["elements"]))
    centre = int(np.argmin(((x - x.mean(0)) ** 2).sum(1)))
    if frame["cell"] is not None:
        grid = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3)
        x, owner = np.concatenate([x + s @ frame["cell"] for s in grid]), np.tile(owner, len(grid))
    r = np.linalg.norm(x - frame["positions"][centre], axis=1)
    nearest = np.argsort(r, kind="stable")[:n_atoms]
    return {
        "name": f"{n_atoms} atoms of a training frame",
        "elements": [str(e) for e in elements[owner[nearest]]],
        "positions": np.round(x[nearest] - frame["positions"][centre], 6),
        "cell": None,
    }


def _rounded(frame, name, strain):
    """A frame with its positions and cell strained, and rounded to 1e-6 A."""
    deform = np.eye(3) + strain
    cell = None if frame["cell"] is None else np.round(frame["cell"] @ deform, 6)
    positions = np.round(frame["positions"] @ deform, 6)
    return {"name": name, "elements": [str(e) for e in frame["elements"]], "positions": positions, "cell": cell}


def cut_structures(data):
    """Structures for a self-test out of the training set: of each combination of elements, up to four, the smallest
    frame as it is, the same sheared, and a cluster."""
    train, first = dataset.frames_of(data, "train"), data["first"]
    smallest = {}
    for k in sorted(train, key=lambda k: (first[k + 1] - first[k], k)):
        smallest.setdefault(tuple(np.unique(data["species"][first[k] : first[k + 1]])), int(k))
    out = []
    for k in sorted(smallest.values(), key=lambda k: (first[k] - first[k + 1], k))[:4]:
        frame, shear = dataset.frame(data, k), np.array([[0.0, 0.02, 0.0], [0.0, 0.01, -0.015], [0.01, 0.0, 0.0]])
        if len(frame["elements"]) <= SMALL:
            out.append(_rounded(frame, f"training frame {k}", 0 * shear))
            if frame["cell"] is not None:
                out.append(_rounded(frame, f"training frame {k}, sheared", shear))
        if len(frame["elements"]) > 1:
            out.append(_cluster(frame, min(CLUSTER, len(frame["elements"]))))
    return out


def _single(structures):
    """The tolerance of the structures of a self-test in single precision."""
    # Published MACE models have a smaller one, which forces of MOST_FORCE miss.
    usual = modelfile.tolerance("painn")["fp32"]
    steep = max(1.0, max(float(np.abs(s["forces"]).max()) for s in structures) / STEEP)
    return {name: value * steep for name, value in usual.items()}


def self_test(model, data):
    """The self_test block of a student: standard structures that were seen, and those out of the training set where
    these are few."""
    structures = selftest.structures_for(model, [], dataset.seen_together(data))
    if len(structures) < 3:
        nearest = model[0]["domain"]["min_distance"]
        for s in cut_structures(data):
            _, _, vectors = reference.neighbours(s["positions"], s["cell"], max(nearest, 1e-3))
            if len(vectors):
                continue
            if np.abs(reference.evaluate(model, s)[1]).max() < MOST_FORCE:
                structures.append(s)
    if not structures:
        raise ModelError(
            "no structure for a self-test: on all frames of the training set that are small enough the student's "
            f"forces exceed {MOST_FORCE} eV/A: train longer, or with other data"
        )
    made = selftest.block(model, structures, "reference")
    made["tolerance"]["fp32"] = _single(made["structures"])
    return made


def export(trainer, name, rows):
    """Writes the model NAME (averaged weights) with provenance, domain, accuracy and self-test; returns its head.

    rows: errors.table of held-out frames."""
    config, elements, network = trainer.config, trainer.data["elements"], trainer.network
    about = describe(trainer.data, float(network.cutoff))
    tensors = network.export(trainer.views(trainer.ema), trainer.scale)
    head = {
        "format": modelfile.FORMAT,
        "name": config["name"],
        "architecture": config["architecture"],
        "description": config.get("description", f"student of {about['labels']}"),
        "elements": elements,
        "cutoff": float(network.cutoff),
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {e: float(x) for e, x in zip(elements, trainer.offsets)},
        config["architecture"]: network.block(),
        **({"repulsion": trainer.repulsion} if trainer.repulsion else {}),
        "provenance": _provenance(trainer, about),
        "domain": _domain(config, about, network.clamps),
        "accuracy": _accuracy(rows, about),
        "self_test": selftest.empty(config["architecture"]),
    }
    head["self_test"] = self_test((head, tensors), trainer.data)
    return modelfile.write(name, head, tensors, {"name": config["name"], "license": head["provenance"]["license"]})
