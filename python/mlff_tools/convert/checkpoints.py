"""Readers of PyTorch checkpoints. No code from a pickle is ever run: PyTorch loads with weights_only=True, and the
readers that do without PyTorch know tensors and dictionaries. They refuse all else, or replace it by inert objects.

read_schnetpack and read_torchani return (description, tensors) in the form of the published parameters that convert.py
reads, read_state_dict the tensors.
"""

import collections
import io
import math
import os
import pickle
import pickletools
import re
import struct
import typing
import zipfile
import zlib

import numpy as np
import yaml

from ..model.modelfile import NUMBERS, SYMBOLS, ModelError


def _import_torch(what):
    try:
        import torch
    except ImportError as e:
        raise ModelError(
            f"reading {what} needs PyTorch, which this Python lacks: pip install torch (pytorch.org says how to "
            "get it without CUDA, 200 MB), or convert on a machine that has it"
        ) from e
    return torch


def _check_torch_file(path, what):
    """ModelError for a file that torch.save cannot have written, before PyTorch is asked for."""
    with open(path, "rb") as f:
        begin = f.read(2)
    if begin not in (b"PK", b"\x80\x02"):  # a zip archive; a pickle, before PyTorch 1.6
        raise ModelError(f"{path}: is not a PyTorch checkpoint: expected {what}")


def _load(torch, path):
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # torch raises many kinds; all mean that the file is not what we can read
        first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise ModelError(f"{path}: cannot be loaded without running code from it: {first}") from e


def _schnetpack():
    try:
        import torch.utils.data.dataloader as dataloader

        if not hasattr(dataloader, "T_co"):  # a private name that schnetpack.data imports and newer PyTorch dropped
            dataloader.T_co = typing.TypeVar("T_co", covariant=True)
        import schnetpack
        import schnetpack.transform
    except ImportError as e:
        raise ModelError("reading a SchNetPack model needs the schnetpack package: pip install schnetpack") from e
    return schnetpack


def _allow_schnetpack(torch, spk):
    """Classes and functions that a PaiNN model of SchNetPack is made of; anything else in the file is refused."""
    nn, transform = torch.nn, spk.transform
    torch.serialization.add_safe_globals(
        [
            set,
            spk.model.NeuralNetworkPotential,
            spk.representation.PaiNN,
            spk.representation.painn.PaiNNInteraction,
            spk.representation.painn.PaiNNMixing,
            spk.atomistic.Atomwise,
            spk.atomistic.PairwiseDistances,
            spk.atomistic.Forces,
            spk.atomistic.Strain,
            spk.nn.Dense,
            spk.nn.CosineCutoff,
            spk.nn.GaussianRBF,
            spk.nn.BesselRBF,
            transform.AddOffsets,
            transform.CastTo64,
            transform.CastTo32,
            nn.functional.silu,
            nn.init.xavier_uniform_,
            nn.init.zeros_,
            nn.ModuleList,
            nn.Sequential,
            nn.Identity,
            nn.Embedding,
        ]
    )


def _activation_name(torch, function):
    if function is torch.nn.functional.silu or isinstance(function, torch.nn.SiLU):
        return "silu"
    return getattr(function, "__name__", type(function).__name__)


def read_schnetpack(path):
    """(description, tensors) of a PaiNN in a SchNetPack `best_model` file."""
    _check_torch_file(path, "a SchNetPack model")
    torch = _import_torch("a SchNetPack model")
    spk = _schnetpack()
    _allow_schnetpack(torch, spk)
    model = _load(torch, path)
    rep = getattr(model, "representation", None)
    if not isinstance(rep, spk.representation.PaiNN):
        raise ModelError(f"{path}: representation is {type(rep).__name__}: only PaiNN is supported")
    heads = [m for m in model.output_modules if isinstance(m, spk.atomistic.Atomwise)]
    if len(heads) != 1 or not isinstance(model.output_modules[0], spk.atomistic.Atomwise):
        raise ModelError(f"{path}: {len(heads)} Atomwise output modules: exactly one, the first module, is supported")
    if not isinstance(rep.cutoff_fn, spk.nn.CosineCutoff):
        raise ModelError(f"{path}: cutoff function {type(rep.cutoff_fn).__name__}: only CosineCutoff is supported")
    basis = {spk.nn.GaussianRBF: "gaussian", spk.nn.BesselRBF: "bessel"}.get(type(rep.radial_basis))
    if basis is None:
        raise ModelError(
            f"{path}: radial basis {type(rep.radial_basis).__name__}: only Gaussian and Bessel are supported"
        )
    for name in ("nuclear_embedding", "electronic_embeddings"):
        if getattr(rep, name, None):
            raise ModelError(f"{path}: {name} is not supported")
    tensors = {k: v.detach().numpy() for k, v in model.state_dict().items() if not k.startswith("postprocessors")}
    dense = [m for m in heads[0].outnet if isinstance(m, spk.nn.Dense)]
    offsets = [p for p in model.postprocessors if isinstance(p, spk.transform.AddOffsets)]
    activations = {
        _activation_name(torch, d.activation)
        for block in [x.interatomic_context_net for x in rep.interactions]
        + [x.intraatomic_context_net for x in rep.mixing]
        for d in block[:1]
    }
    cutoff = float(rep.cutoff_fn.cutoff[0])
    return {
        "architecture": "painn",
        "model": os.path.basename(os.path.dirname(os.path.abspath(path))),
        "source": f"SchNetPack model {path}",
        "n_atom_basis": rep.n_atom_basis,
        "n_interactions": rep.n_interactions,
        "radial_basis": {"kind": basis, "n_rbf": rep.radial_basis.n_rbf},
        "cutoff": {"kind": "cosine", "r": cutoff},
        "activation": activations.pop() if len(activations) == 1 else sorted(activations),
        "epsilon": float(rep.mixing[0].epsilon),
        "shared_interactions": len({id(x) for x in rep.interactions}) < rep.n_interactions,
        "shared_filters": bool(rep.share_filters),
        "readout": {
            "layers": [dense[0].in_features] + [d.out_features for d in dense],
            "activation": _activation_name(torch, dense[0].activation),
            "aggregation": heads[0].aggregation_mode,
        },
        "offsets": _offsets(path, offsets),
    }, tensors


def _offsets(path, offsets):
    """mean_per_atom and atomref of SchNetPack's AddOffsets postprocessor."""
    if len(offsets) > 1:
        raise ModelError(f"{path}: {len(offsets)} AddOffsets postprocessors: one is supported")
    if not offsets:
        return {"mean_per_atom": 0.0, "atomref": None}
    o = offsets[0]
    if not o.is_extensive:
        raise ModelError(f"{path}: AddOffsets with is_extensive=False is not supported")
    return {
        "mean_per_atom": float(o.mean) if o.add_mean else 0.0,
        "atomref": np.ravel(o.atomref.numpy()).tolist() if o.add_atomrefs else None,
    }


# Radial and angular cutoff of the published AEVs by (eta radial, eta angular, zeta).
PUBLISHED_CUTOFFS = {(16.0, 8.0, 32.0): (5.2, 3.5), (19.7, 12.5, 14.1): (5.1, 3.5)}


def _cutoffs(path, constants, cutoffs):
    """(radial, angular) in A: as given, else those of the published model with these constants."""
    found = tuple(float(str(np.float32(x))) for x in constants)
    if cutoffs:
        return tuple(cutoffs)
    if found not in PUBLISHED_CUTOFFS:
        raise ModelError(
            f"{path}: holds no cutoffs, and eta {found[0]:g} and {found[1]:g} with zeta {found[2]:g} are of no "
            "published ANI: give them as --cutoffs RADIAL ANGULAR"
        )
    return PUBLISHED_CUTOFFS[found]


def _torchani_constants(path, state, cutoffs):
    """The aev part of the description from a state dict, old or new names."""

    def find(*names):
        for key, value in state.items():
            if key.endswith(names):
                return np.asarray(value, np.float32).ravel().astype(float)
        raise ModelError(f"{path}: no '{names[0]}' in the state dict: it must hold the AEV constants too")

    radial = {"eta": find("radial.eta", "EtaR"), "shifts": find("radial.shifts", "ShfR")}
    angular = {
        "eta": find("angular.eta", "EtaA"),
        "zeta": find("angular.zeta", "Zeta"),
        "shifts": find("angular.shifts", "ShfA"),
        "sections": find("angular.sections", "ShfZ"),
    }
    for name, value in (("radial.eta", radial["eta"]), ("angular.eta", angular["eta"]), ("zeta", angular["zeta"])):
        if value.size != 1:
            raise ModelError(f"{path}: {name} has {value.size} values: one is supported")

    def pair(value):  # the float32 number, and the short decimal that rounds to it
        values = [float(str(np.float32(x))) for x in value]
        return (values, [float(x) for x in value]) if len(value) > 1 else (values[0], float(value[0]))

    out = {"cutoff_function": "cosine", "radial": {"prefactor": 0.25}, "angular": {"prefactor": 2.0, "cos_scale": 0.95}}
    for part, source in (("radial", radial), ("angular", angular)):
        for key, value in source.items():
            out[part][key], out[part][key + "_f32"] = pair(value)
    out["radial"]["shifts"] = [float(x) for x in np.atleast_1d(out["radial"]["shifts"])]
    stored = [
        next((float(str(np.float32(v))) for k, v in state.items() if k.endswith(names)), None)
        for names in (("radial.cutoff", "Rcr"), ("angular.cutoff", "Rca"))
    ]
    if None in stored:
        stored = _cutoffs(path, (radial["eta"][0], angular["eta"][0], angular["zeta"][0]), cutoffs)
    out["radial"]["cutoff"], out["angular"]["cutoff"] = stored
    return out


def _torchani_state(path):
    """name -> array. Files of PyTorch before 1.6, which are no zip archives, need PyTorch."""
    if zipfile.is_zipfile(path):
        return read_state_dict(path)
    _check_torch_file(path, "a TorchANI state dict")
    torch = _import_torch("a TorchANI state dict of PyTorch before 1.6")
    state = _load(torch, path)
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(hasattr(v, "shape") for v in state.values()):
        raise ModelError(f"{path}: not a state dict (a mapping of names to tensors): save model.state_dict()")
    return {k: v.detach().numpy() for k, v in state.items()}


# Self energies (hartree) of the published models, which TorchANI keeps rounded to float32: up to 3e-5 hartree each.
PUBLISHED_SELF_ENERGIES = {
    ("H", -0.5978583943827134),
    ("C", -38.08933878049795),
    ("N", -54.711968298621066),
    ("O", -75.19106774742086),
    ("S", -398.1577125334925),
    ("F", -99.80348506781634),
    ("Cl", -460.1681939421027),
    ("H", -0.60095298),
    ("C", -38.08316124),
    ("N", -54.7077577),
    ("O", -75.19446356),
    ("H", -0.5991501324919538),
    ("C", -38.03750806057356),
    ("N", -54.67448347695333),
    ("O", -75.16043537275567),
}


def unrounded_self_energy(element, value):
    """The published number if `value` is that rounded to float32, else the value."""
    for symbol, published in PUBLISHED_SELF_ENERGIES:
        if symbol == element and np.float32(published) == value:
            return published
    return float(value)


def read_torchani(path, alpha, cutoffs=None):
    """(description, tensors) of a TorchANI ensemble saved as a state dict (2.2 and 2.7+ names).

    A state dict tells neither the activation nor the prefactors and cutoff function of the AEV: those of ANI-1x, -1ccx
    and -2x are taken (CELU, cosine). Where it has no AEV cutoffs, they are told by the published model's constants."""
    state = _torchani_state(path)
    networks = {}  # (member, element) -> {order of the layer: {weight, bias}}
    pattern = re.compile(
        r"neural_networks\.(?:members\.)?(\d+)\.(?:atomics\.)?([A-Z][a-z]?)\."
        r"(?:layers\.)?(\d+|final_layer)\.(weight|bias)$"
    )
    for key, value in state.items():
        match = pattern.search(key)
        if match:
            order = 10**6 if match[3] == "final_layer" else int(match[3])
            networks.setdefault((int(match[1]), match[2]), {}).setdefault(order, {})[match[4]] = value.astype(
                np.float32
            )
    if not networks:
        raise ModelError(f"{path}: no tensors neural_networks.MEMBER.ELEMENT...: not a TorchANI ensemble")
    elements = list(dict.fromkeys(e for _, e in networks))
    numbers = next(
        (np.asarray(v, int) for k, v in state.items() if k.endswith(("atomic_numbers", "species_ref"))), None
    )
    if numbers is not None and sorted(NUMBERS[e] for e in elements) == sorted(numbers):
        elements = [SYMBOLS[z] for z in numbers]
    n_members = 1 + max(m for m, _ in networks)
    tensors, dims = {}, {}
    for (m, e), layers in networks.items():
        widths = [layers[min(layers)]["weight"].shape[1]]
        for l, order in enumerate(sorted(layers)):
            if set(layers[order]) != {"weight", "bias"}:
                raise ModelError(
                    f"{path}: a layer of {e} has no bias: only networks with CELU and biases, like ANI-1x, -1ccx "
                    "and -2x, are supported"
                )
            tensors[f"ensemble.{m}.{e}.{l}.weight"] = layers[order]["weight"]
            tensors[f"ensemble.{m}.{e}.{l}.bias"] = layers[order]["bias"]
            widths.append(layers[order]["weight"].shape[0])
        if dims.setdefault(e, widths) != widths:
            raise ModelError(f"{path}: member {m} has other layers for {e} than the others: {widths}, {dims[e]}")
    energies = next((v.ravel() for k, v in state.items() if k.endswith("self_energies")), None)
    if energies is None or len(energies) != len(elements):
        raise ModelError(f"{path}: no self_energies for {elements} in the state dict")
    return {
        "architecture": "ani",
        "model": "ani-2x" if n_members == 8 and len(elements) == 7 else "TorchANI ensemble",
        "source": f"TorchANI state dict {path}",
        "units": {"energy": "hartree"},
        "species": elements,
        "ensemble_size": n_members,
        "ensemble_reduction": "mean",
        "aev": _torchani_constants(path, state, cutoffs),
        "self_energies": {e: unrounded_self_energy(e, x) for e, x in zip(elements, energies)},
        "networks": {"activation": "celu", "alpha": alpha, "last_activation": "identity", "dims": dims},
    }, tensors


STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


LARGEST_REPEATED = 1 << 20  # values in a tensor that repeats those of its storage


class _StateDictReader(pickle.Unpickler):
    """Unpickles what a state dict is made of; every other name in the file is an error before anything is called."""

    storage = "{folder}/data/{key}"  # where the values of a tensor are

    def __init__(self, file, archive, folder):
        super().__init__(file)
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise ModelError(
            f"'{module}.{name}' is needed, which is not part of a state dict and is not run: save the "
            "model with torch.save(model.state_dict(), FILE)"
        )

    def persistent_load(self, pid):
        kind, dtype, key, _, size = pid
        data = np.frombuffer(self.archive.read(self.storage.format(folder=self.folder, key=key)), dtype)
        if kind != "storage" or len(data) < size:
            raise ModelError(f"storage {key} holds {len(data)} numbers, expected {size}")
        return data

    @staticmethod
    def tensor(storage, offset, size, stride, *_):
        last = offset + sum((n - 1) * step for n, step in zip(size, stride))
        if (
            min(size, default=1) < 0
            or min(stride, default=0) < 0
            or offset < 0
            or (0 not in size and last >= len(storage))
            or math.prod(size) > max(len(storage), LARGEST_REPEATED)
        ):
            raise ModelError(f"a tensor of shape {list(size)} reaches beyond its storage")
        strides = [step * storage.itemsize for step in stride]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[offset:], size, strides)).reshape(size)


class Inert:
    """Placeholder for an object of an unknown class: accepts all calls and does nothing."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return Inert()

    def __setitem__(self, key, value):
        pass

    def __setstate__(self, state):
        pass

    def append(self, value):
        pass

    def extend(self, values):
        pass

    update = append


class Recorded(Inert):
    """Inert that keeps the name of the class and module, the arguments and the state of an object."""

    def __new__(cls, *arguments, **_):  # pickles of protocol 2 call no __init__
        self = super().__new__(cls)
        self.arguments, self.state = arguments, None
        return self

    def __setstate__(self, state):
        self.state = state


class _CheckpointReader(_StateDictReader):
    """As above, but what is not known becomes an Inert, so that one part of a checkpoint can be read without the
    others."""

    placeholder = Inert

    def find_class(self, module, name):
        try:
            return super().find_class(module, name)
        except ModelError:
            return type(name, (self.placeholder,), {"__module__": module})

    def persistent_load(self, pid):
        known = isinstance(pid[1], type) and issubclass(pid[1], np.generic)
        return super().persistent_load(pid) if known else Inert()

    @staticmethod
    def tensor(storage, *arguments):
        return Inert() if isinstance(storage, Inert) else _StateDictReader.tensor(storage, *arguments)


def _numpy_scalar(dtype, data):
    """A number that numpy wrote; an Inert for what is none."""
    kind = dtype.arguments[0] if isinstance(dtype, Recorded) and dtype.arguments else None
    return np.frombuffer(data, "<" + kind)[0].item() if kind in ("f8", "f4", "i8", "i4", "u8") else Inert()


def _encode(text, codec):
    """Bytes as pickles of protocol 2 contain them."""
    if codec != "latin1":
        raise ModelError(f"text in {codec!r}, expected latin1")
    return text.encode("latin1")


class _ModuleReader(_CheckpointReader):
    """Reads a whole module: what is not known becomes a Recorded."""

    placeholder = Recorded
    KNOWN: typing.ClassVar[dict] = {
        ("torch._utils", "_rebuild_parameter_with_state"): lambda tensor, *_: tensor,
        ("numpy.core.multiarray", "scalar"): _numpy_scalar,
        ("numpy._core.multiarray", "scalar"): _numpy_scalar,
        ("_codecs", "encode"): _encode,
    }

    def find_class(self, module, name):
        return self.KNOWN.get((module, name)) or super().find_class(module, name)


class _PackageReader(_ModuleReader):
    """Reads a module that torch.package wrote."""

    storage = "{folder}/.data/{key}.storage"


# What a damaged or hostile file can raise.
UNREADABLE = (
    ModelError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    yaml.YAMLError,
)


def _check_memo(text):
    """ValueError for a pickle with an index that is larger than the pickle: the unpickler would allocate as much."""
    for opcode, argument, _ in pickletools.genops(text):
        if opcode.name in ("PUT", "LONG_BINPUT") and argument > len(text):
            raise ValueError(f"it contains the index {argument}, more than its length")


def _open_archive(path, what):
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as e:
        with open(path, "rb") as f:
            if f.read(2) == b"PK":
                raise ModelError(f"{path}: is cut off or damaged: expected a {what}") from e
        raise ModelError(f"{path}: is not a checkpoint of PyTorch 1.6 or newer: expected a {what}") from e


def _unpickle(path, reader, what, pickled="data.pkl", others=()):
    """What PyTorch (1.6 or newer) saved, by one of the readers above; `what` is for the message.

    pickled: name of the pickle inside the folder of the archive; others: of YAML files next to it, whose values
    follow that of the pickle in a list."""
    with _open_archive(path, what) as archive:
        try:
            found = [n for n in archive.namelist() if n.partition("/")[2] == pickled]
            if len(found) != 1:
                raise ModelError("it is not a PyTorch file")
            folder = found[0].split("/")[0]
            if f"{folder}/constants.pkl" in archive.namelist():
                raise ModelError("it is a compiled TorchScript model, use the file that it was made from")
            order = f"{folder}/byteorder"
            if order in archive.namelist() and archive.read(order) != b"little":
                raise ModelError("its numbers are not little-endian")
            if any(entry.file_size > os.path.getsize(path) for entry in archive.infolist()):
                raise ModelError("it is compressed, which files of PyTorch are not")
            text = archive.read(found[0])
            _check_memo(text)
            value = reader(io.BytesIO(text), archive, folder).load()
            beside = [yaml.safe_load(archive.read(f"{folder}/{name}")) for name in others]
            return [value, *beside] if others else value
        except UNREADABLE as e:
            raise ModelError(f"{path}: cannot be read as a {what}: {str(e) or type(e).__name__}") from e


def read_checkpoint(path):
    """What a checkpoint holds, tensors as arrays; without PyTorch, and without running its code."""
    return _unpickle(path, _CheckpointReader, "checkpoint")


def read_module(path, what):
    """The module that torch.save wrote as Recorded objects, tensors as arrays; without PyTorch, and without running its
    code. `what` is for messages."""
    return _unpickle(path, _ModuleReader, what)


def read_package(path):
    """(module, configuration, metadata) of a model that nequip-package wrote, the module as read_module gives it."""
    others = ("model/config.yaml", "model/package_metadata.txt")
    return _unpickle(path, _PackageReader, "packaged model", "model/eager_model.pkl", others)


def read_state_dict(path):
    """name -> array of a state dict that PyTorch (1.6 or newer) saved; without PyTorch, and without running its
    code."""
    state = _unpickle(path, _StateDictReader, "state dict")
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(v, np.ndarray) for v in state.values()):
        raise ModelError(f"{path}: not a state dict (a mapping of names to tensors): save model.state_dict()")
    return {str(name): value for name, value in state.items()}
