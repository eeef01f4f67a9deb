"""The loss of a batch: forces, energies, virials (stress times volume), energies of atoms and Hessian-vector products,
each bounded by Huber's
loss on the root mean square error of a frame. All are in units of the root mean square force of the training set."""

from types import SimpleNamespace

import torch

from . import hessian

TERMS = ("forces", "energy", "stress", "atoms", "hessian")


def bounded(square, limit):
    """Huber's loss from the squares of errors: beyond `limit` it grows with the error itself. limit None: the
    squares."""
    return (
        square
        if limit is None
        else square.clamp_max(limit**2) + 2 * limit * (square.clamp_min(limit**2).sqrt() - limit)
    )


def frame_means(values, batch):
    """Means of values [..., N] over the atoms of each frame [..., B]."""
    total = values.new_zeros(*values.shape[:-1], len(batch.energy))
    return total.index_add(-1, batch.frame, values) / batch.n_atoms


def outputs(energies, forces, virials, nodes):
    """What a network gives: energies [members, B], forces [members, N, 3], virials [members, B, 3, 3] = dE/d(strain),
    nodes [members, N], the energies of atoms."""
    return SimpleNamespace(energies=energies, forces=forces, virials=virials, nodes=nodes)


def square(term, out, batch):
    """Mean squares of the errors of each frame [members, B]: of force components, of the energy per atom, of the nine
    components of the virial per atom, of the energies of atoms, of the components of the Hessian-vector product; zero
    where there is no label."""
    if term == "forces":
        return frame_means((out.forces - batch.forces).square().mean(-1), batch) * batch.has_labels
    if term == "energy":
        return ((out.energies - batch.energy) / batch.n_atoms).square() * batch.has_labels
    if term == "stress":
        virial = (out.virials - batch.virial) / batch.n_atoms[:, None, None]
        return virial.square().mean((-2, -1)) * batch.has_virial
    if term == "atoms":
        return frame_means((out.nodes - batch.atom_energies).square(), batch) * batch.has_atoms
    partner = torch.arange(len(batch.partner), device=batch.partner.device) + batch.partner
    product = (out.forces - out.forces.index_select(1, partner)) / (2 * hessian.STEP)
    return frame_means((product - batch.product).square().mean(-1), batch) * (1 - batch.has_labels)


def loss(out, batch, keep, weights, limits):
    """(sum over the members of the weighted terms, the terms without their weights [5], means over the members).

    keep [members, B]: weights of the frames; weights, limits: {term: number or None}. Forces are a mean over the atoms
    of the batch, the others over its frames."""
    parts, labelled = [], batch.has_labels
    of_frame = {"forces": batch.n_atoms * labelled, "hessian": 1 - labelled}
    for term in TERMS:
        if weights[term] is None:
            parts.append(keep.new_zeros(()))
            continue
        share = of_frame.get(term, labelled)
        values = bounded(square(term, out, batch), limits[term]) * keep
        parts.append((values * share).sum() / (len(keep) * share.sum().clamp_min(1.0)))
    total = sum(len(keep) * weights[t] * p for t, p in zip(TERMS, parts) if weights[t] is not None)
    return total, torch.stack(parts).detach()
