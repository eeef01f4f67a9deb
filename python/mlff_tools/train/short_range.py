"""The short-range repulsion of a student: block `repulsion` of kind clamped, a part of the model in training too.

A network knows no distance below the shortest one of its labels and may attract there by 10^5 eV. With clamped
distances it never gets one: the cutoff of a pair is so far above its shortest distance that the network sees nothing
below about that. Where the labels are of a model with a repulsion of this kind, the cutoff is at least that of the
model: its labels then are the repulsion and what its network gives for the same clamped distances, at any distance.
"""

import itertools

import numpy as np
import torch

from ..convert.short_range import RADII, SHARE
from ..model import modelfile, repulsion
from ..model.modelfile import ModelError
from . import dataset, frames, hessian

SEEN = 1 - repulsion.CLAMPED / 2  # the least distance that the network gets, of the cutoff


def block(data, cutoff, of_labels=None):
    """The block of a student of the training set `data` with this cutoff, A. of_labels: the block `repulsion` of the
    model that labelled, if it has one."""
    strange = [e for e in data["elements"] if e not in RADII]
    if strange:
        raise ModelError(f"no covalent radius of {', '.join(strange)} is known: set student.repulsion to false")
    radii, cutoffs = {e: min(round(SHARE * RADII[e], 4), cutoff / 2) for e in data["elements"]}, {}
    theirs, labelled = _cutoffs_of(of_labels, data["elements"], cutoff), dataset.shortest_distances(data, cutoff)
    for a, b in itertools.combinations_with_replacement(data["elements"], 2):
        usual = radii[a] + radii[b]
        least = theirs.get((a, b), 0.0 if (a, b) in labelled else usual)
        length = min(max(labelled.get((a, b), 0.0) / SEEN, least), cutoff)
        if abs(length - usual) > 1e-3:
            cutoffs[f"{a}-{b}"] = float(np.floor(1000 * length) / 1000)
    return {"kind": "clamped", "radii": radii, **({"cutoffs": cutoffs} if cutoffs else {})}


def _cutoffs_of(repulsion_block, elements, cutoff):
    """{(element, element): A} of a block of kind clamped for these elements; empty for others."""
    if not repulsion_block or repulsion_block["kind"] != "clamped":
        return {}
    inside = lambda pair: all(e in elements for e in pair.split("-"))
    mine = {**repulsion_block, "radii": {e: r for e, r in repulsion_block["radii"].items() if e in elements}}
    mine["cutoffs"] = {pair: r for pair, r in repulsion_block.get("cutoffs", {}).items() if inside(pair)}
    if set(mine["radii"]) != set(elements):
        return {}
    return modelfile.repulsion_cutoffs(
        {"elements": list(elements), "cutoff": 2 * max(mine["radii"].values()) + cutoff, "repulsion": mine}
    )


def _of_atoms(head, species, positions, cell):
    """Energies [N] (eV), forces [N, 3] and dE/d(strain) [3, 3] of the repulsion, or None where no pair is close."""
    found = frames.edges(positions, cell, repulsion.reach(head), torch.device("cpu"))
    if not len(found[0]):
        return None
    i, j, vectors = (x.numpy() for x in found)
    energies, gradient = repulsion.evaluate(head, species, i, j, vectors)
    forces = np.zeros((len(species), 3))
    np.add.at(forces, i, gradient)
    np.add.at(forces, j, -gradient)
    return energies, forces, vectors.T @ gradient


def without(data, head):
    """The data with labels less the repulsion of `head` (elements, cutoff, repulsion): what the network is to learn."""
    out, first = dict(data), data["first"]
    for key in ("energy", "forces", "stress", "atom_energies", "hessian_product"):
        if key in data:
            out[key] = np.array(data[key], float)
    for k in range(len(first) - 1):
        mine, cell = slice(first[k], first[k + 1]), data["cell"][k]
        species, x = data["species"][mine].astype(int), data["positions"][mine]
        found = _of_atoms(head, species, x, cell)
        if found is None:
            continue
        energies, forces, virial = found
        out["energy"][k] -= energies.sum()
        out["forces"][mine] -= forces
        if "stress" in out and cell.any():
            out["stress"][k] -= virial / abs(np.linalg.det(cell))
        if "atom_energies" in out:
            out["atom_energies"][mine] -= energies
        if "hessian_product" in out and np.isfinite(out["hessian_product"][mine]).all():
            moved = hessian.STEP * data["hessian_direction"][mine]
            ends = [_of_atoms(head, species, x + s * moved, cell) for s in (1, -1)]
            one, two = (0.0 if end is None else end[1] for end in ends)
            out["hessian_product"][mine] -= (one - two) / (2 * hessian.STEP)
    return out
