"""Whether structures are like those that a model was trained on, by the rules of pair_style mlff (docs/pair_mlff.md).

Looked at are new structures and every hundredth evaluation. Temperatures are left to whoever runs the dynamics.
"""

from __future__ import annotations

import collections
import ctypes
import warnings

import numpy as np

from .library import library

EVERY, LOOKS = 100, 10
SLACK, CLOSER = 0.02, 0.95  # what is still inside, of densities and distances
GRAMS_PER_CM3 = 1.66053906660  # of 1 atomic mass unit per A^3


class DomainWarning(UserWarning):
    """A structure is outside of what the model was trained on: its results may be wrong."""


class DomainError(RuntimeError):
    """The same with domain="stop", and elements that did not occur in training."""


class Domain:
    """What one model was trained on. elements [n_elements]; trained [n_elements] bool; density (low, high) in g/cm3 or
    None; distances [n_elements, n_elements] in A, 0: no such pair within the cutoff, or None; what: warn, stop or
    ignore."""

    def __init__(self, name, elements, trained, density, distances, cutoff, what):
        self.name, self.elements, self.trained = name, elements, trained
        self.density, self.distances, self.what = density, distances, what
        if distances is not None:
            self.limits = np.where(distances > 0, distances, cutoff)
            known = trained[:, None] & trained[None, :]
            self.scale = np.where(known, self.limits**-2.0, np.inf)
        self.begin()

    def begin(self, cell=None):
        """A new structure: what was said before is forgotten. cell: bytes."""
        self.n_evaluations, self.said, self.cell, self.box_changes = 0, set(), cell, False
        self.densities = collections.deque(maxlen=LOOKS)

    def check_elements(self, species):
        """Refuses elements that the model knows but was not trained on. species: indices into the elements."""
        unknown = [self.elements[s] for s in species if not self.trained[s]]
        if unknown and self.what != "ignore":
            raise DomainError(
                f"model {self.name} knows element {unknown[0]}, but it did not occur in training. Use another model, "
                'or say domain="ignore" if it is meant'
            )

    def is_due(self):
        """Whether this evaluation is looked at; counts them."""
        self.n_evaluations += 1
        return self.what != "ignore" and (self.n_evaluations - 1) % EVERY == 0

    def look(self, graph, mass, cell):
        """graph: a CGraph on the host; mass: of all atoms, g/mol. Densities of boxes that change are means."""
        self.box_changes |= cell != self.cell
        if self.density is not None and graph.volume > 0 and "density" not in self.said:
            self._look_at_density(GRAMS_PER_CM3 * mass / graph.volume)
        if self.distances is not None and graph.n_pairs and "distance" not in self.said:
            self._look_at_distances(graph)

    def _look_at_density(self, now):
        self.densities.append(now)
        value, (low, high) = np.mean(self.densities), self.density
        is_inside = low * (1 - SLACK) <= value <= high * (1 + SLACK)
        if is_inside or (self.box_changes and len(self.densities) < LOOKS):
            return
        mean = f" (mean of {LOOKS} looks, every {EVERY} evaluations)" if self.box_changes else ""
        self._say("density", f"density {value:.4g} g/cm3{mean} is outside of {low:g} to {high:g} g/cm3")

    def _look_at_distances(self, graph):
        i, j = ctypes.c_int32(), ctypes.c_int32()
        scale = self.scale.ctypes.data
        square = library().mlff_graph_closest(graph, len(self.elements), scale, i, j)
        if not square < CLOSER * CLOSER:
            return
        a, b = sorted((i.value, graph.node[j.value]))
        s, t = graph.species[a], graph.species[b]
        limit = self.limits[s, t]
        why = "the shortest one" if self.distances[s, t] > 0 else "the cutoff, within which there was no such pair"
        self._say(
            "distance",
            f"{self.elements[s]}-{self.elements[t]} distance {np.sqrt(square) * limit:.4g} A (atoms {a} and {b}, "
            f"counted from 0) is below {limit:.4g} A, {why}",
        )

    def _say(self, kind, what):
        self.said.add(kind)
        text = (
            f"mlff: {what} in the training of {self.name}, so results may be wrong: use a model that was trained on "
            'such structures, or say domain="ignore" if it is meant'
        )
        if self.what == "stop":
            raise DomainError(text)
        warnings.warn(text, DomainWarning, stacklevel=5)
