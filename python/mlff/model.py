"""A model and the results of its evaluations."""

from __future__ import annotations

import ctypes
import os
import threading
import typing
import warnings
import weakref

import numpy as np

from mlff_tools.model import modelfile
from mlff_tools.model.masses import MASS

from . import library
from .domain import Domain, DomainError
from .library import Error, ModelWarning

SYMBOLS = ["X", *MASS]  # of the atomic numbers
NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS)}
NINE = np.array([0, 3, 4, 6, 1, 5, 7, 8, 2])  # xx xy xz yx yy yz zx zy zz of the engine's xx yy zz xy xz yz yx zx zy
VOIGT = np.array([0, 1, 2, 5, 4, 3])  # xx yy zz yz xz xy of the engine's xx yy zz xy xz yz


class Result(typing.NamedTuple):
    """Result of one evaluation of n atoms. Unavailable fields are None. The caller owns the arrays."""

    energy: float  # eV
    forces: np.ndarray  # [n, 3] eV/A
    virial: np.ndarray  # [6] xx yy zz xy xz yz, eV, the sign of LAMMPS
    stress: np.ndarray | None  # [6] xx yy zz yz xz xy, eV/A^3, the sign of ASE; in periodic directions
    energies: np.ndarray | None  # [n] eV of the atoms, sums to energy
    member_energies: np.ndarray | None  # [n_members] eV, of an ensemble
    energies_spread: np.ndarray | None  # [n] eV, standard deviation (n-1) over the members
    member_forces: np.ndarray | None  # [n_members, n, 3] eV/A, on request
    uncertainties: np.ndarray | None  # [n] Model.uncertainty_unit, where the model has them
    features: np.ndarray | None  # [n, width] of the last layer, on request
    centroid_virials: np.ndarray | None  # [n, 3, 3] eV: W_j = sum_i (x_i - x_j) de_i/dx_j, on request
    n_edges: int  # neighbors within the cutoff, of all atoms
    min_distance: float  # A, of two neighbors; infinity without any

    @property
    def forces_spread(self) -> np.ndarray | None:
        """[n] eV/A: sqrt(<|f_k - <f>|^2>) over the members k, as by pair_style mlff; None without member_forces."""
        return None if self.member_forces is None else forces_spread(self.member_forces)


def forces_spread(forces: np.ndarray) -> np.ndarray:
    """[n] sqrt(<|f_k - <f>|^2>) of forces [n_members, n, 3]."""
    off = forces - forces.mean(0)
    return np.sqrt((off * off).sum(2).mean(0))


def model_names() -> list[str]:
    """Names that Model takes: of the models in the folders of $MLFF_MODELS, and of those that are shipped."""
    return sorted(modelfile.named_models())


def find_model(model: str | os.PathLike) -> str:
    """Path of a model file: `model` where it is one, with or without .yaml, else the model of this name in a folder of
    $MLFF_MODELS (with colons between) or among the shipped ones. Error with the names that there are."""
    try:
        return os.path.abspath(modelfile.find_model(os.fspath(model)))
    except modelfile.ModelError as e:
        raise Error(str(e)) from None


def _unmasked(array, what):
    if np.ma.is_masked(array):
        raise Error(f"{what}: some values are masked: fill them in, or leave these atoms out")
    return np.asarray(array)


def stress_of(virial, cell, pbc):
    """[6] of a virial in the engine's order, in a cell (bytes). Along directions that are not periodic it is zero, so
    that filters of ASE relax the cell of a slab or a wire in the others. None: nothing is periodic, or a vector that is
    not periodic is zero, so that there is no volume."""
    vectors = np.frombuffer(cell).reshape(3, 3)
    volume = abs(np.linalg.det(vectors))
    if all(pbc):
        return virial[VOIGT] / -volume
    if not any(pbc) or not volume > 1e-6 * np.prod(np.linalg.norm(vectors, axis=1)):
        return None
    span = np.linalg.qr(vectors[list(pbc)].T)[0]
    xx, yy, zz, xy, xz, yz = virial
    onto = span @ span.T
    return (onto @ [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]] @ onto)[(0, 1, 2, 1, 0, 0), (0, 1, 2, 2, 2, 1)] / -volume


def _numbers(symbols):
    """Atomic numbers [n] of symbols or of atomic numbers."""
    array = _unmasked(symbols, "symbols")
    if array.ndim != 1:
        raise Error(f"symbols have shape {list(array.shape)}, expected [n]: element symbols or atomic numbers")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    try:
        return np.array([NUMBERS[str(s)] for s in array], np.int64)
    except KeyError as e:
        raise Error(f"{e.args[0]!r} is not an element") from None


def _doubles(array, shape, what):
    try:
        array = _unmasked(array, what)
        if array.dtype.kind not in "fiu":  # complex numbers would lose a part, texts would be read
            raise Error(f"{what}: real numbers are expected, not {array.dtype.name}")
        array = array.astype(float, copy=False)
    except (TypeError, ValueError) as e:
        raise Error(f"{what}: not numbers: {e}") from e
    if array.shape != shape:
        raise Error(f"{what} have shape {list(array.shape)}, expected {list(shape)}")
    return array


def _periodic(pbc, has_cell):
    """Three booleans. Only booleans, 0 and 1 are taken: any text, and NaN, would count as true."""
    if pbc is None:
        return (has_cell,) * 3
    try:
        array = _unmasked(pbc, "pbc")
    except ValueError as e:  # of parts of different lengths
        raise Error(f"pbc is {pbc!r}, expected one boolean or three") from e
    if array.shape not in ((), (3,)):
        raise Error(f"pbc has {array.size} values, expected one boolean or three")
    if array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
        raise Error(f"pbc is {pbc!r}, expected booleans, as pbc=[True, True, False]")
    return tuple(bool(p) for p in np.broadcast_to(array, 3))


class _Arrays:
    """What the engine writes for n atoms, and the structure that points there."""

    def __init__(self, n, n_members, has_energies, has_uncertainty):
        self.c = library.CResult()
        self.virial = np.ctypeslib.as_array(self.c.virial)
        self.n_members, self.n = n_members, n
        self.forces = self._new("forces", (n, 3))
        self.energies = self._new("atom_energy", (n,)) if has_energies else None
        self.member_energies = self._new("member_energy", (n_members,)) if n_members > 1 else None
        self.spread = self._new("atom_spread", (n,)) if n_members > 1 and has_energies else None
        self.uncertainties = self._new("atom_uncertainty", (n,)) if has_uncertainty else None
        self.member_forces = self.features = self.centroid_virials = None

    def _new(self, name, shape):
        array = np.zeros(shape)
        setattr(self.c, name, array.ctypes.data)
        return array

    def want(self, name, field, wanted, *shape):
        """An array that is made on request, new each time: attribute `name`, `field` of the structure."""
        if wanted:
            setattr(self, name, self._new(field, shape))
        elif getattr(self, name) is not None:
            setattr(self, name, None)
            setattr(self.c, field, None)

    def result(self, stress):
        """stress: [6], or None."""
        return Result(
            self.c.energy,
            self.forces.copy(),
            self.virial.copy(),
            stress,
            None if self.energies is None else self.energies.copy(),
            None if self.member_energies is None else self.member_energies.copy(),
            None if self.spread is None else self.spread.copy(),
            self.member_forces,
            None if self.uncertainties is None else self.uncertainties.copy(),
            self.features,
            None if self.centroid_virials is None else self.centroid_virials[:, NINE].reshape(-1, 3, 3),
            self.c.n_edges,
            self.c.min_distance,
        )


class _Files:
    """Both files of a model in memory, as they were checked: what happens to those on disk later does not matter."""

    def __init__(self, engine, path):
        self.yaml, self.weights, error = ctypes.c_void_p(), ctypes.c_void_p(), library.CError()
        self.yaml_size, self.weights_size = ctypes.c_size_t(), ctypes.c_size_t()
        wanted = (self.yaml, self.yaml_size, self.weights, self.weights_size)
        if engine.mlff_model_read(os.fsencode(path), *wanted, error):
            raise Error(error.text.decode("utf-8", "replace"))
        free = ctypes.CDLL(None).free
        free.argtypes, free.restype = (ctypes.c_void_p,), None
        for memory in (self.yaml, self.weights):
            weakref.finalize(self, free, memory.value)


class Model:
    """A model, opened and checked.

    model:     name (see model_names) or path of the YAML file; its weights are in the same folder
    device:    "cpu", "cuda", "cuda:N", or "auto": a GPU that can be used, else the CPU
    precision: "fp32", "fp64" or "mixed"
    self_test: whether the reference results in the file are checked when opening
    domain:    "warn" (DomainWarning), "stop" (DomainError) or "ignore", for structures unlike those of the training
    skin:      A, range of the neighbor list beyond the cutoff; it is rebuilt when an atom has moved half of
               that
    options:   members, kernels, radial_intervals, replay, fuse, e0: words, as of pair_style mlff

    Error when the file, the options or the device are wrong. One model may be used from several threads, one at a time;
    models of their own run at once. An open model keeps its content when the file changes. A copy (copy.copy,
    pickle, another process) opens the file again, and Error when another model is there now. ModelWarning when the file
    has no self-test structures.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        device: str = "cpu",
        precision: str = "fp32",
        *,
        self_test: bool = True,
        domain: str = "warn",
        skin: float = 2.0,
        **options: str,
    ):
        if domain not in ("warn", "stop", "ignore"):
            raise Error(f"domain is {domain!r}, expected 'warn', 'stop' or 'ignore'")
        if not (isinstance(skin, (int, float)) and 0 <= skin <= 100):
            raise Error(f"skin is {skin!r}, expected a number from 0 to 100, in A")
        self._arguments = {
            "device": device,
            "precision": precision,
            "self_test": self_test,
            "domain": domain,
            "skin": skin,
            **options,
        }
        self.path: str = find_model(model)
        self._words = {"device": device, "precision": precision, **options}
        self._self_test, self._skin = bool(self_test), float(skin)
        self._lock, self._library, self._error = threading.Lock(), library.library(), library.CError()
        self._stale = ctypes.c_int()
        self._handle = self._system = self._close = None
        self._files = _Files(self._library, self.path)
        self._open(None)
        if self._self_test and not self._library.mlff_model_info(self._handle).contents.n_self_tests:
            why = f"model {self.name} ({self.path}) has no self-test structures: nothing checks what it computes"
            warnings.warn(why, ModelWarning, stacklevel=2)
        if self.caution:
            warnings.warn(
                f"model {self.name} has a known failure: {self.caution} [mlff-45]", ModelWarning, stacklevel=2
            )
        self._species_of = np.full(len(SYMBOLS), -1, np.int32)
        self._species_of[[NUMBERS[e] for e in self.elements]] = np.arange(len(self.elements))

    def __reduce__(self):
        return _reopen, (self.path, self._arguments, self._identity)

    def __repr__(self) -> str:
        return f"<mlff.Model {self.name} ({self.architecture}) on {self.device}, {self.precision}>"

    @property
    def _identity(self):
        return self.sha256, self.header_sha256

    # ---- opening -----------------------------------------------------------------------------------------------------

    def _check(self, status):
        if status:
            raise Error(self._error.text.decode("utf-8", "replace"))

    def _open(self, elements):
        """elements: that may occur, None: all, and the self-test is run. The engine leaves out the rest, which is exact
        and faster."""
        options, handle = library.COptions(), ctypes.c_void_p()
        words = [(str(name).encode(), str(value).encode()) for name, value in self._words.items()]
        for name, value in words:
            self._check(self._library.mlff_options_set(options, name, value, self._error))
        if elements is not None:
            options.elements = (ctypes.c_char_p * len(elements))(*(e.encode() for e in elements))
            options.n_elements = len(elements)
        options.skip_self_test = elements is not None or not self._self_test
        f, path = self._files, os.fsencode(self.path)
        self._check(
            self._library.mlff_model_open_memory(
                path, f.yaml, f.yaml_size, f.weights, f.weights_size, options, handle, self._error
            )
        )
        self._forget_system()
        if self._close:
            self._close()
        self._handle = handle.value
        self._close = weakref.finalize(self, self._library.mlff_model_close, handle.value)
        self._opened_for = set(elements or ())
        info = self._library.mlff_model_info(handle.value).contents
        self._read_info(info)
        trained = [bool(info.trained[k]) for k in range(info.n_elements)]
        self._domain = Domain(info, self.name, self.elements, trained, self._arguments["domain"])

    def _read_info(self, info):
        text = lambda value: (value or b"").decode("utf-8", "replace")
        n = info.n_elements
        self.name: str = text(info.name)
        self.architecture: str = text(info.architecture)
        self.citation: str = text(info.citation)  # of the architecture
        self.model_citation: str = text(info.model_citation)
        self.license: str = text(info.license)
        self.sha256: str = text(info.sha256)  # of the weights
        self.header_sha256: str = text(info.header_sha256)  # of all that results depend on, weights included
        self.header_is_hashed: bool = bool(
            info.header_is_hashed
        )  # the file states it; False: from before there was one
        self.caution: str | None = text(info.caution) or None  # known failures
        self.device: str = text(info.device) + (f":{info.device_number}" if info.device_number >= 0 else "")
        self.device_why: str = text(info.device_why)  # why "auto" did not take a GPU
        self.precision: str = text(info.precision)
        self.kernels: str = text(info.kernels)
        self.traits: frozenset[str] = frozenset(k for k, bit in library.TRAITS.items() if info.traits & bit)
        self.cutoff: float = info.cutoff
        self.elements: list[str] = [text(info.elements[k]) for k in range(n)]
        self.n_members: int = info.n_members
        self.n_parameters: int = info.n_parameters
        self.n_features: int = info.n_features  # of an atom in the last layer; 0: none
        self.uncertainty_unit: str | None = text(info.uncertainty_unit) or None  # "eV/A" or "relative"
        self.uncertainty_why: str = text(info.uncertainty_why)  # why there is none
        self.uncertainty_limit: float | None = info.uncertainty_limit or None  # above: unlike those of the training
        pair = lambda p: (p[0], p[1]) if p else None
        self.temperature: tuple[float, float] | None = pair(info.temperature)
        self.density: tuple[float, float] | None = pair(info.density)
        self.pressure: tuple[float, float] | None = pair(info.pressure)
        self.max_force: float | None = info.max_force or None

    @property
    def bibtex(self) -> str:
        """BibTeX of mlff, of the architecture and of the publications of this model."""
        citation = f"{self.citation}; {self.model_citation}".encode()
        size = self._library.mlff_bibtex(citation, None, 0) + 1
        buffer = ctypes.create_string_buffer(size)
        self._library.mlff_bibtex(citation, buffer, size)
        return buffer.value.decode("utf-8", "replace")

    @property
    def is_conservative(self) -> bool:
        """Whether forces are the negative gradient of the energy. If not, NVE drifts and minimisers may not end."""
        return "conservative" in self.traits

    # ---- structures --------------------------------------------------------------------------------------------------

    def _forget_system(self):
        if self._system is not None:
            self._system.detach()
            self._library.mlff_system_free(self._system_handle)
        self._system, self._system_handle = None, None

    def _set_atoms(self, numbers):
        """Another composition, or atoms in another order. numbers: bytes of [n] int64."""
        found = np.frombuffer(numbers, np.int64)
        if not found.size:
            raise Error("the structure has no atoms")
        if not (found.min() >= 0 and found.max() < len(SYMBOLS)):
            raise Error(f"atomic numbers are from {found.min()} to {found.max()}, and elements from 1 to 118")
        species = self._species_of[found]
        if species.min() < 0:
            k = int(np.argmin(species))
            element, known = SYMBOLS[found[k]], " ".join(self.elements)
            raise Error(
                f"model {self.name} does not know element {element} of atom {k + 1} counted from 1; it knows: {known}"
            )
        occurring = np.unique(species)
        self._domain.check_elements(occurring)
        wanted = {self.elements[s] for s in occurring}
        if not wanted <= self._opened_for:
            self._open(sorted(wanted | self._opened_for))
        self._numbers, self._species = numbers, species.tobytes()
        self._mass = float(sum(MASS[SYMBOLS[z]] for z in found))
        self._arrays = _Arrays(len(found), self.n_members, "node_energies" in self.traits, self.uncertainty_unit)

    def _make_system(self, positions, cell, pbc):
        self._forget_system()
        handle, periodic = ctypes.c_void_p(), np.array(pbc, np.int32).tobytes()
        status = self._library.mlff_system_create(
            self._arrays.n,
            self._species,
            positions,
            cell if any(pbc) else None,
            periodic,
            self.cutoff + self._skin,
            handle,
            self._error,
        )
        self._check(status)
        self._system_handle = handle.value
        self._system = weakref.finalize(self, self._library.mlff_system_free, handle.value)
        self._graph = self._library.mlff_system_graph(handle.value).contents
        self._made_at, self._pbc = positions, pbc

    def _follow(self, numbers, positions, cell, pbc):
        """Updates the neighbor list; True for a new structure, False for a moved one."""
        if self._system is None or numbers != self._numbers or pbc != self._pbc:
            self._forget_system()
            self._set_atoms(numbers)
            self._make_system(positions, cell, pbc)
            return True
        box = cell if any(pbc) else None
        self._check(
            self._library.mlff_system_move(self._system_handle, positions, box, self.cutoff, self._stale, self._error)
        )
        if not self._stale.value:
            return False
        moved = np.frombuffer(positions) - np.frombuffer(self._made_at)
        self._make_system(positions, cell, pbc)
        return not np.abs(moved).max() <= max(1.0, self._skin)

    def evaluate(
        self,
        symbols: typing.Sequence,
        positions: np.ndarray,
        cell: np.ndarray | None = None,
        pbc: bool | typing.Sequence[bool] | None = None,
        *,
        member_forces: bool = False,
        features: bool = False,
        centroid_virials: bool = False,
    ) -> Result:
        """Energy, forces and what else the model has.

        symbols:       [n] element symbols or atomic numbers
        positions:     [n, 3] A, inside or outside of the cell
        cell:          [3, 3] A, rows are the cell vectors; None: nothing is periodic
        pbc:           which vectors are periodic, one or three; None: all three with a cell
        member_forces: of an ensemble, forces of every member, too: its networks run once more
        features:      those of the last layer, too
        centroid_virials: of the atoms, for the heat flux J = sum_j e_j v_j + W_j v_j (A eV per time), exact for
                       networks with messages as well, which are evaluated four times more

        Repeated calls with atoms that have moved little, in a cell that has changed little, keep the neighbor list.
        Error: no atoms, unknown elements, positions that are not finite, atoms closer than the model allows, cells that
        are flat or too small, what the architecture cannot do (Orb: one or two periodic directions), NaN as a result.
        """
        numbers = _numbers(symbols)
        positions = _doubles(positions, (len(numbers), 3), "positions")
        box = np.zeros((3, 3)) if cell is None else _doubles(cell, (3, 3), "cell vectors")
        periodic = _periodic(pbc, cell is not None)
        wanted = {"member_forces": member_forces, "features": features, "centroid_virials": centroid_virials}
        return self._evaluate(numbers.tobytes(), positions.tobytes(), box.tobytes(), periodic, **wanted)

    def _evaluate(self, numbers, positions, cell, pbc, member_forces=False, features=False, centroid_virials=False):
        """The same of bytes: numbers of int64, positions and cell of double; pbc is a tuple of bool."""
        if member_forces and self.n_members < 2:
            raise Error(f"model {self.name} is not an ensemble: there are no forces of members")
        if features and not self.n_features:
            raise Error(f"{self.architecture} models have no features of a last layer")
        if len(positions) != 3 * len(numbers):
            raise Error(f"{len(numbers) // 8} elements, but positions of {len(positions) / 24:g} atoms")
        with self._lock:
            if self._follow(numbers, positions, cell, pbc):
                self._domain.begin(cell)
            arrays, graph = self._arrays, self._graph
            arrays.want("member_forces", "member_forces", member_forces, self.n_members, arrays.n, 3)
            arrays.want("features", "atom_features", features, arrays.n, self.n_features)
            arrays.want("centroid_virials", "atom_centroid", centroid_virials, arrays.n, 9)
            self._check(self._library.mlff_model_evaluate(self._handle, graph, None, arrays.c, self._error))
            if self._domain.is_due(positions, cell):
                try:
                    self._domain.look(graph, arrays.c, self._mass, cell)
                except DomainError:
                    self._forget_system()  # the same structure is looked at again
                    raise
            return arrays.result(stress_of(arrays.virial, cell, pbc))


def _reopen(path, arguments, identity=None):
    """identity: of the model that was copied; None in pickles of releases that did not have it."""
    model = Model(path, **arguments)
    if identity not in (None, model._identity):
        ours, theirs = (
            f"sha256 {weights[:12]}, header {header[:12]}" for weights, header in (identity, model._identity)
        )
        raise Error(
            f"{path}: has changed: it is a model of {theirs}, and the copied one was of {ours}. Open the new one with "
            "mlff.Model, or put the old one back"
        )
    return model
