"""Structures for a self-test that depend on all elements and pairs of a model file.

Models with energies of atoms have dimers, whose atoms' energies are compared one by one, so that no two elements can be
exchanged: all in one structure, so far apart that none sees another, or of many elements in a structure each, of which
the engine takes those that a run needs. Other models (Orb) have a small periodic cell for each element.
"""

import numpy as np

from . import reference
from .modelfile import NUMBERS, repulsion_cutoffs

NAME = "every element and pair"
MOST_PAIRED = 10  # elements all of whose pairs are there; of more, each element is in one pair
INSIDE = (0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.85, 0.9, 0.95)  # of the cutoff of a repulsion, the best first
APART = (1.2, 1.35, 1.5, 1.75, 2.0)  # of the shortest distance of the training, likewise
HALF_DIGIT = 2.0**-24  # relative rounding of single precision
# What a dimer may lose to it, eV of an atom and eV/A: a network far outside of its training multiplies rounding
LOSS = (1e-6, 3e-5)
N_ROUNDED = 4
STEP = 1e-6  # of a length, to see what its rounding does


def _dimer(a, b, r):
    return {"name": "", "elements": [a, b], "positions": np.array([[0, 0, 0], [0, 0, r]], float), "cell": None}


class _Rounding:
    """How much single precision loses of a model's numbers: they are compared with those of networks whose weights
    differ by as much as it rounds."""

    def __init__(self, model):
        self.model, self.rounded = model, []
        for seed in range(N_ROUNDED):
            rng = np.random.default_rng(seed)
            spread = {k: 1 + HALF_DIGIT * rng.uniform(-1, 1, np.shape(v)) for k, v in model[1].items()}
            self.rounded.append((model[0], {k: np.asarray(v, float) * spread[k] for k, v in model[1].items()}))

    def loss(self, a, b, r):
        """That of a dimer, whose length is rounded as well, as parts of LOSS, the larger."""
        energy, forces, _ = reference.evaluate(self.model, _dimer(a, b, r))
        found = [(1.0, reference.evaluate(m, _dimer(a, b, r))) for m in self.rounded]
        found.append((HALF_DIGIT / STEP, reference.evaluate(self.model, _dimer(a, b, r * (1 + STEP)))))
        off = [(share * abs(e - energy) / 2, share * np.abs(f - forces).max()) for share, (e, f, _) in found]
        largest = np.max(np.array(off) / LOSS)
        return largest if np.isfinite(largest) else np.inf


def _distance(rounding, a, b, candidates, needed):
    """The first distance that single precision computes well; without any the best one if that is needed, else None."""
    found = []
    for r in candidates:
        found.append((rounding.loss(a, b, r), r))
        if found[-1][0] <= 1:
            return r
    return min(found)[1] if found and needed else None


def _network_distances(head, a, b):
    """Candidates of the distance of a dimer that the training had; none for a pair that it had not."""
    cutoff, shortest = head["cutoff"], head["domain"].get("distances")
    if shortest is None:
        return [share * cutoff for share in (0.45, 0.6, 0.75)]
    nearest = shortest.get(f"{a}-{b}", shortest.get(f"{b}-{a}"))
    return [] if nearest is None else [min(share * nearest, 0.9 * cutoff) for share in APART]


def _pairs(elements):
    if len(elements) <= MOST_PAIRED:
        return [(a, b) for k, a in enumerate(elements) for b in elements[k:]]
    return [(a, elements[(k + 1) % len(elements)]) for k, a in enumerate(elements) if k % 2 == 0]


def _repelled(head, trained):
    """(element, element, cutoff) of the pairs with a dimer within it. The kinds mace and nequip are a part of the
    network, at its pairs."""
    kind, cutoffs = head.get("repulsion", {}).get("kind"), repulsion_cutoffs(head)
    if kind == "clamped":
        return [(a, b, cutoffs[(a, b) if (a, b) in cutoffs else (b, a)]) for a, b in _pairs(trained)]
    return [(a, b, reach) for (a, b), reach in sorted(cutoffs.items())] if kind == "zbl" else []


def _dimers(model):
    """(element, element, distance) of all dimers."""
    head = model[0]
    trained = [e for e in head["elements"] if e in head["domain"]["elements"]]
    nearest = 1.02 * head["domain"]["min_distance"]
    wanted = [(a, b, _network_distances(head, a, b), False) for a, b in _pairs(trained)]
    for a, b, reach in _repelled(head, trained):
        inside = [max(share * reach, nearest) for share in INSIDE]
        wanted.append((a, b, [r for r in inside if r < reach], True))
    rounding = _Rounding(model)
    found = [(a, b, _distance(rounding, a, b, *how)) for a, b, *how in wanted]
    return [(a, b, r) for a, b, r in found if r is not None]


def _turned(r, rng):
    """A vector of length r with three components that are not small."""
    u = rng.choice([-1, 1], 3) * rng.uniform(0.4, 1.0, 3)
    return r * u / np.linalg.norm(u)


def _apart(head, name, groups):
    """Dimers (element, element, distance) and atoms (element,) as one structure: on a grid, two cutoffs apart,
    positions rounded to 1e-3 A."""
    rng, elements, positions = np.random.default_rng(1), [], []
    side = int(np.ceil(len(groups) ** (1 / 3)))
    for k, group in enumerate(groups):
        site = (2 * head["cutoff"] + 1) * np.array([k % side, k // side % side, k // side**2])
        elements += group[:2]
        positions += [site] if len(group) == 1 else [site, site + _turned(group[2], rng)]
    return {"name": name, "elements": elements, "positions": np.round(positions, 3) + 0.0, "cell": None}


def _cell_of(element):
    """Two atoms in a triclinic cell."""
    return {
        "name": f"every element: {element}",
        "elements": [element, element],
        "positions": np.array([[0.1, 0.2, 0.3], [1.9, 2.3, 1.4]]),
        "cell": np.array([[4.4, 0.0, 0.0], [0.5, 4.1, 0.0], [-0.3, 0.6, 4.0]]),
    }


def is_coverage(structure):
    """Whether a structure of a self-test is one of these."""
    return structure["name"].startswith("every element")


def structures(model):
    """The structures of a model (head, tensors)."""
    head = model[0]
    if head["architecture"] not in reference.CONSERVATIVE:
        return [_cell_of(e) for e in sorted(head["elements"], key=NUMBERS.get)]
    groups = _dimers(model)
    groups += [(e,) for e in head["elements"] if not any(e in g[:2] for g in groups)]
    if len(head["elements"]) <= MOST_PAIRED:
        return [_apart(head, NAME, groups)]
    return [_apart(head, f"every element: {' '.join(g[:2])}", [g]) for g in groups]
