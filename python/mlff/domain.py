"""Whether structures are like those that a model was trained on, by the rules of pair_style mlff (docs/pair_mlff.md).

The engine compares (include/mlff/mlff_watch.h). Checked are new structures, those in which an atom or cell vector has
moved by JUMP since the last check, and every hundredth evaluation.
Temperatures are left to whoever runs the dynamics.
"""

from __future__ import annotations

import ctypes
import math
import warnings
import weakref

import numpy as np

from . import library

EVERY = 100
JUMP = 0.5  # A
GRAMS_PER_CM3 = 1.66053906660  # of 1 atomic mass unit per A^3
GPA = 160.2176634  # of 1 eV/A^3


class DomainWarning(UserWarning):
    """A structure is outside of what the model was trained on: its results may be wrong."""


class DomainError(RuntimeError):
    """The same with domain="stop"; also elements that did not occur in training, and structures that begin with pairs
    of elements that never met there, or with far too short distances."""


class Domain:
    """What one model was trained on. info: a CInfo, of a model that is open as long; trained [n_elements]: bool; what:
    warn, stop or ignore."""

    def __init__(self, info, name, elements, trained, what):
        self.name, self.elements, self.trained, self.what = name, elements, trained, what
        self.library, self.found = library.library(), (library.CFinding * library.N_WATCHED)()
        handle, error = ctypes.c_void_p(), library.CError()
        if self.library.mlff_watch_create(info, EVERY, b"evaluations", handle, error):
            raise library.Error(error.text.decode("utf-8", "replace"))
        self.watch = handle.value
        weakref.finalize(self, self.library.mlff_watch_free, handle.value)
        self.begin()

    def begin(self, cell=None):
        """A new structure: what was said before is forgotten. cell: bytes."""
        self.n_evaluations, self.cell, self.box_changes, self.checked = 0, cell, False, None
        self.other_cell = False  # of the last check, by a jump: its density is not one of a fluctuation
        self.library.mlff_watch_begin(self.watch)

    def check_elements(self, species):
        """Refuses elements of the model that it was not trained on. species: indices into the elements."""
        unknown = [self.elements[s] for s in species if not self.trained[s]]
        if unknown and self.what != "ignore":
            raise DomainError(
                f"model {self.name} knows element {unknown[0]}, but it did not occur in training. Use another model, "
                'or say domain="ignore" if it is meant'
            )

    def is_due(self, positions, cell):
        """Whether this evaluation is checked; counts them. positions, cell: bytes of doubles, A."""
        self.n_evaluations += 1
        if self.what == "ignore":
            return False
        now = np.frombuffer(positions + cell).reshape(-1, 3)
        if self.checked is not None:
            moves = ((now - self.checked) ** 2).sum(1)
            if (self.n_evaluations - 1) % EVERY and moves.max() < JUMP**2:
                return False
            self.other_cell = moves[-3:].max() >= JUMP**2
        self.checked = now
        return True

    def look(self, graph, result, mass, cell):
        """graph: a CGraph on the host; result: its CResult; mass: of all atoms, g/mol; cell: bytes."""
        self.box_changes |= cell != self.cell
        fluctuates = self.box_changes and not self.other_cell
        system = library.CWatchSystem(math.nan, 1, math.nan, math.nan, fluctuates)
        if graph.boundary == library.PERIODIC:
            system.density = GRAMS_PER_CM3 * mass / graph.volume
            system.pressure = GPA * sum(result.virial[:3]) / (3 * graph.volume)
        self.library.mlff_watch_atoms(self.watch, graph, result.forces, result.atom_uncertainty, self.found)
        self.library.mlff_watch_state(self.watch, system, self.found)
        self.library.mlff_watch_judge(self.watch, self.n_evaluations == 1, self.found)
        for finding in self.found:
            if finding.verdict:
                self._say(finding.text.decode("utf-8", "replace"), finding.verdict == library.VERDICT_STOP)

    def _say(self, what, is_grave):
        advice = 'use a model that was trained on such structures, or say domain="ignore" if it is meant'
        if is_grave:
            raise DomainError(
                f"mlff: {what} in the training of {self.name}: check the structure and its elements, {advice}"
            )
        text = f"mlff: {what} in the training of {self.name}, so results may be wrong: {advice}"
        if self.what == "stop":
            raise DomainError(text)
        warnings.warn(text, DomainWarning, stacklevel=5)
