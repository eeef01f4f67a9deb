"""The short-range repulsion of a model file (block `repulsion`) in float64 with numpy alone: the part of reference.py
that is the same for all architectures. The mathematics is that of docs/model_file.md.
"""

import numpy as np

from .modelfile import NUMBERS, repulsion_cutoffs

COULOMB = 14.399645  # e^2/(4 pi epsilon_0), eV A
SCREENING, EXPONENT = 0.46850, 0.23  # A; both of Ziegler, Biersack and Littmark
TERMS = ((0.18175, 3.19980), (0.50986, 0.94229), (0.28022, 0.40290), (0.02817, 0.20162))
CLAMPED = 0.1  # w of docs/model_file.md
# The same in MACE, whose exponent and a factor of the screening length are in its files.
MACE_COULOMB, MACE_SCREENING = 14.3996, 0.529
MACE_TERMS = ((0.1818, 3.2), (0.5099, 0.9423), (0.2802, 0.4028), (0.02817, 0.2016))


def zbl(z_i, z_j, cutoff, r, block=None):
    """Energy (eV) of pairs r A apart, and its derivative by r; both are 0 from the cutoff on. Arrays or numbers.
    block: `repulsion` of kind mace or nequip."""
    mace = block if block and block["kind"] == "mace" else None
    z_i, z_j, cutoff, r = np.broadcast_arrays(*(np.asarray(x, float) for x in (z_i, z_j, cutoff, r)))
    close = r < cutoff
    x = np.where(close, r, 0.5) / np.where(close, cutoff, 1.0)
    power, length = (mace["exponent"], mace["prefactor"] * MACE_SCREENING) if mace else (EXPONENT, SCREENING)
    terms, coulomb = (MACE_TERMS, MACE_COULOMB * mace["scale"]) if mace else (TERMS, COULOMB)
    p = block["p"] if block else 3
    inverse = (z_i**power + z_j**power) / length
    phi = sum(c * np.exp(-b * inverse * r) for c, b in terms)
    dphi = sum(-b * inverse * c * np.exp(-b * inverse * r) for c, b in terms)
    switch = 1 - x**p * ((p + 1) * (p + 2) / 2 - p * (p + 2) * x + p * (p + 1) / 2 * x * x)
    dswitch = -p * (p + 1) * (p + 2) / 2 * x ** (p - 1) * (1 - x) ** 2 / np.where(close, cutoff, 1.0)
    energy = coulomb * z_i * z_j / r
    slope = energy * (dphi * switch + phi * dswitch - phi * switch / r)
    return np.where(close, energy * phi * switch, 0.0), np.where(close, slope, 0.0)


def reach(head):
    """The longest cutoff of a pair in A, 0 for a model without the block."""
    return max(repulsion_cutoffs(head).values(), default=0.0)


def cutoffs(head):
    """[n_elements, n_elements], A, 0 without a repulsion."""
    n, index = len(head["elements"]), {e: k for k, e in enumerate(head["elements"])}
    table = np.zeros((n, n))
    for (a, b), cutoff in repulsion_cutoffs(head).items():
        table[index[a], index[b]] = table[index[b], index[a]] = cutoff
    return table


def clamp(cutoff, r):
    """Distance (A) that the network gets of pairs r A apart (kind clamped), and its derivative by r."""
    cutoff, r = np.broadcast_arrays(np.asarray(cutoff, float), np.asarray(r, float))
    close = r < cutoff
    t = np.minimum((1 - np.where(close, r / np.where(close, cutoff, 1.0), 1.0)) / CLAMPED, 1.0)
    clamped = cutoff * (1 - CLAMPED * (t - t**3 + t**4 / 2))
    return np.where(close, clamped, r), np.where(close, (1 - t) ** 2 * (1 + 2 * t), 1.0)


def clamped(head, species, i, j, vectors):
    """Vectors r_ij [E, 3] that the network gets, and the function that turns dE by them into dE/d r_ij."""
    if head.get("repulsion", {}).get("kind") != "clamped":
        return vectors, lambda gradient: gradient
    r = np.linalg.norm(vectors, axis=1)
    length, slope = clamp(cutoffs(head)[species[i], species[j]], r)
    scale, unit = (length / r)[:, None], vectors / r[:, None]

    def own(gradient):
        along = (unit * gradient).sum(1)[:, None] * unit
        return scale * (gradient - along) + slope[:, None] * along

    return scale * vectors, own


def evaluate(head, species, i, j, vectors):
    """Energy of each atom [N] in eV, half of a pair's to each, and dE/d r_ij [E, 3] in eV/A of a full list of pairs."""
    z, table = np.array([NUMBERS[e] for e in head["elements"]], float), cutoffs(head)
    r = np.linalg.norm(vectors, axis=1)
    s, t = species[i], species[j]
    block = head["repulsion"]
    energy, slope = zbl(z[s], z[t], table[s, t], r, block if block["kind"] in ("mace", "nequip") else None)
    energies = np.zeros(len(species))
    np.add.at(energies, i, 0.5 * energy)
    return energies, (0.5 * slope / r)[:, None] * vectors
