"""The loss of a batch: forces, energies, virials (stress times volume) and energies of atoms, each bounded by Huber's
loss on the root mean square error of a frame. All are in units of the root mean square force of the training set."""

from types import SimpleNamespace

import torch

TERMS = ("forces", "energy", "stress", "atoms")


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


def squares(out, batch):
    """{term: mean squares of the errors of each frame [members, B]}: of force components, of the energy per atom, of
    the nine components of the virial per atom, of the energies of atoms; zero where there is no label."""
    per_atom = batch.n_atoms[:, None, None]
    virial = ((out.virials - batch.virial) / per_atom).square().mean((-2, -1))
    return {
        "forces": frame_means((out.forces - batch.forces).square().mean(-1), batch),
        "energy": ((out.energies - batch.energy) / batch.n_atoms).square(),
        "stress": virial * batch.has_virial,
        "atoms": frame_means((out.nodes - batch.atom_energies).square(), batch) * batch.has_atoms,
    }


def loss(out, batch, keep, weights, limits):
    """(sum over the members of the weighted terms, the terms without their weights [4], means over the members).

    keep [members, B]: weights of the frames; weights, limits: {term: number or None}. Forces are a mean over the atoms
    of the batch, the others over its frames."""
    of_frame, parts = squares(out, batch), []
    for term in TERMS:
        if weights[term] is None:
            parts.append(keep.new_zeros(()))
            continue
        values = bounded(of_frame[term], limits[term]) * keep
        if term == "forces":
            parts.append((values * (batch.n_atoms / batch.n_atoms.sum())).sum() / len(keep))
        else:
            parts.append(values.sum() / keep.numel())
    total = sum(len(keep) * weights[t] * p for t, p in zip(TERMS, parts) if weights[t] is not None)
    return total, torch.stack(parts).detach()
