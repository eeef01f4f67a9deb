"""An ASE calculator: energies, forces and stress of an mlff model in ASE's optimisers, dynamics and tools.

import mlff.ase
atoms.calc = mlff.ase.MLFF("water-mbpol-xs")
"""

from __future__ import annotations

import os
import typing

import numpy as np

try:
    from ase import Atoms
    from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
except ImportError as e:
    raise ImportError("mlff.ase needs ASE: pip install ase") from e

from .library import Error
from .model import Model, _doubles, _numbers, forces_spread


class MLFF(Calculator):
    """ASE calculator with a model of its own.

    model:     name or path of a model, or an mlff.Model; or a list of them, a committee: the first one
               gives all properties but forces_spread, which is that of all models
    device, precision, and further keywords: as of mlff.Model

    Properties: energy and free_energy (eV), forces [n, 3] (eV/A), stress [6] (Voigt, eV/A^3; of slabs and wires in the
    periodic directions and zero in the others, which need cell vectors as well), energies [n] (eV) where the model has
    energies of atoms; of an ensemble also energies_spread [n] (eV), member_energies [n_members] (eV), and forces_spread
    [n] (eV/A), which runs the networks once more; of a committee forces_spread, which runs the other models; of a model
    with uncertainties, uncertainties [n] (Model.uncertainty_unit). All are computed when positions, elements, cell or
    periodicity have changed, else returned as they were.

    Calculators may run at the same time in threads of their own. copy.deepcopy opens the model again.
    """

    name = "mlff"
    ignored_changes = frozenset({"initial_charges", "initial_magmoms"})

    def __init__(
        self,
        model: str | os.PathLike | Model | typing.Sequence[str | os.PathLike | Model],
        device: str = "cpu",
        precision: str = "fp32",
        **options: typing.Any,
    ):
        self.model: Model | None = None  # set() asks
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        if any(isinstance(m, Model) for m in models) and (device, precision, options) != ("cpu", "fp32", {}):
            raise Error("options belong to mlff.Model, which was opened already")
        opened, *others = _open(models, device, precision, options)
        named = {"device": device, "precision": precision, **options}
        super().__init__(model=opened.path, **(opened._arguments if isinstance(models[0], Model) else named))
        self.model, self._others = opened, others
        self._of_model = ["energies"] if "node_energies" in opened.traits else []
        self.implemented_properties = ["energy", "free_energy", "forces", "stress"]
        if opened.n_members > 1:
            self._of_model += ["energies_spread", "member_energies"]
        if opened.n_members > 1 or others:
            self.implemented_properties.append("forces_spread")
        if opened.uncertainty_unit:
            self._of_model.append("uncertainties")
        self.implemented_properties += self._of_model

    def __repr__(self) -> str:
        return " + ".join(repr(m) for m in (self.model, *self._others)).replace("mlff.Model", "mlff.ase.MLFF", 1)

    def set(self, **changes: typing.Any) -> dict:
        """Refused: make another calculator."""
        if self.model is not None and changes:
            raise Error(f"{', '.join(changes)}: a calculator cannot be changed: make another one")
        return super().set(**changes)

    @property
    def atoms(self):
        """The structure of the last calculation, or None; elements, positions, cell and periodicity only."""
        if self._last is None:
            return None
        numbers, positions, cell, pbc = self._last
        numbers, positions = np.frombuffer(numbers, np.int64), np.frombuffer(positions).reshape(-1, 3)
        return Atoms(numbers, positions, cell=np.frombuffer(cell).reshape(3, 3), pbc=pbc)

    @atoms.setter
    def atoms(self, atoms):
        self._last = None if atoms is None else _structure(atoms)

    def check_state(self, atoms, tol: float = 0.0) -> list[str]:  # noqa: ARG002
        """What has changed since the last calculation, to the bit."""
        if self._last is None:
            return list(all_changes)
        both = zip(("numbers", "positions", "cell", "pbc"), self._last, _structure(atoms))
        return [name for name, before, now in both if before != now]

    def get_property(self, name: str, atoms=None, allow_calculation: bool = True):
        """As ASE's, without copies of atoms in every step of dynamics."""
        if name not in self.implemented_properties:
            raise PropertyNotImplementedError(f"model {self.model.name} has no {name}")
        structure = self._last if atoms is None else _structure(atoms)
        if structure is None:
            raise Error(f"{name}: this calculator has not seen atoms yet")
        if structure != self._last or name not in self.results:
            if not allow_calculation:
                return None
            self._calculate(structure, (name,))
        value = self.results[name]
        return value.copy() if isinstance(value, np.ndarray) else value

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):  # noqa: ARG002
        """Fills self.results. Error or DomainError when the model refuses; PropertyNotImplementedError for the stress
        of atoms without a periodic direction or a volume."""
        if atoms is not None:
            self._calculate(_structure(atoms), properties)
        elif self._last is not None:
            self._calculate(self._last, properties)
        else:
            raise Error("this calculator has not seen atoms yet")

    def _calculate(self, structure, properties):
        self._last, self.results = None, {}
        wants_spread = "forces_spread" in properties
        result = self.model._evaluate(*structure, wants_spread and not self._others)
        self._last = structure
        self.results = {"energy": result.energy, "free_energy": result.energy, "forces": result.forces}
        if result.stress is not None:
            self.results["stress"] = result.stress
        elif "stress" in properties:
            raise PropertyNotImplementedError(
                "stress needs a periodic direction, and three cell vectors that span a volume"
            )
        for name in self._of_model:
            self.results[name] = getattr(result, name)
        if wants_spread and self._others:
            forces = [result.forces, *(other._evaluate(*structure).forces for other in self._others)]
            self.results["forces_spread"] = forces_spread(np.array(forces))
        elif wants_spread:
            self.results["forces_spread"] = result.forces_spread


def _open(models, device, precision, options):
    """An mlff.Model of each. `members` is for the first one."""
    if not 1 <= len(models) <= 16:
        raise Error(f"{len(models)} models: a committee has at most 16, and at least one")
    opened = []
    for model in models:
        more = {k: v for k, v in options.items() if k != "members"} if opened else options
        opened.append(model if isinstance(model, Model) else Model(model, device, precision, **more))
        if any(other._identity == opened[-1]._identity for other in opened[:-1]):
            raise Error(f"{opened[-1].path} is given twice: the deviation of a model from itself is zero")
    return opened


def _structure(atoms):
    """Everything that results depend on: what Model._evaluate takes."""
    numbers, positions = atoms.arrays["numbers"], atoms.arrays["positions"]
    if type(positions) is not np.ndarray or positions.dtype != np.float64:
        positions = _doubles(positions, (len(numbers), 3), "positions")
    if type(numbers) is not np.ndarray or numbers.dtype != np.int64:
        numbers = _numbers(numbers)
    return numbers.tobytes(), positions.tobytes(), atoms.cell.array.tobytes(), tuple(atoms.pbc.tolist())
