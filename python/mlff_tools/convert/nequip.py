"""The `nequip` part of mlff_tools.convert: networks of the NequIP family from files of Nequix (.nqx), SevenNet (.pth)
and the package nequip (.ckpt, .nequip.zip), or from a description.

An .nqx is one line of JSON and the arrays of the model one after the other, as numpy writes them. Weights keep their
bits; no factor is folded in. Files of SevenNet are read in sevennet.py, those of nequip in
nequip_file.py.
"""

import io
import json
import math

import numpy as np

from ..model import modelfile
from ..model.modelfile import ModelError
from . import nequip_file, nequip_package, sevennet
from .common import head_of, require, require_all, symbols_of

MIN_DISTANCE = 0.6  # A: nearer than any bond, and where training data end
# e3nn_jax.normalize_function(silu) in double; in single precision the package has 0.5964577198: 2e-6 eV/atom apart.
ACTIVATION_NORM = 0.5964586854233045
CITATION = (
    "T. Koker, M. Kotak, T. Smidt, Training a Foundation Model for Materials on a Budget, arXiv:2508.16067 (2025); "
    "T. Koker, A. Gangan, M. Kotak, J. Marian, T. Smidt, PFT: Phonon Fine-tuning for Machine Learned Interatomic "
    "Potentials, arXiv:2601.07742 (2026)"
)
NEEDED = (
    "atomic_numbers hidden_irreps lmax cutoff n_layers radial_basis_size radial_mlp_size radial_mlp_layers "
    "radial_polynomial_p index_weights layer_norm shift scale avg_n_neighbors"
).split()

# sha256 of published files -> what is known about them
_MIT_NEQUIX = "MIT, Copyright (c) 2025 Teddy Koker"
_MIT_SEVENNET = "MIT, Copyright (c) 2024 Yutack Park"
_LICENCES = "MPtrj: MIT; OMat24, sAlex, MDR phonon database: CC-BY-4.0"
_NEQUIX_SOURCE = "github.com/atomicarchitects/nequix @ 0ffdf881603d2c97f9105c64c3ec2df74dc1c224, models/"
_SEVENNET_DATA = "MPtrj (licence of the data: MIT)"
PUBLISHED = {
    "4ce693d68886512aab50c84ea2400efd68163e11155f7c7babe98e695177e809": {
        "model": "nequix-oam-1-pft",
        "source": _NEQUIX_SOURCE + "nequix-oam-1-pft.nqx",
        "license": _MIT_NEQUIX,
        "labels": "PBE and PBE+U",
        "data": f"OMat24, sAlex, MPtrj, MDR phonon database (licences of the data: {_LICENCES})",
    },
    "1647af8e627e1afa11e2bfadeab0797326513a521afd7dd01606a96f56783eee": {
        "model": "nequix-mp-1",
        "source": _NEQUIX_SOURCE + "nequix-mp-1.nqx",
        "license": _MIT_NEQUIX,
        "labels": "PBE and PBE+U",
        "data": "MPtrj (licence of the data: MIT)",
    },
    "7052cb42b7b3be42b40b97fa0d21077a48c54b5548948fc4dcf346629f813c36": {
        "model": "sevennet-0",
        "source": "checkpoint_sevennet_0.pth (11Jul2024) of the PyPI package sevenn 0.13.0",
        "license": _MIT_SEVENNET,
        "labels": "PBE and PBE+U",
        "data": _SEVENNET_DATA,
    },
    "a7ff190d41efe5b8317a03d20a468e4036a1a3e64e0b14fdbab64ac3f4bfc09d": {
        "model": "sevennet-l3i5",
        "source": "checkpoint_l3i5.pth of the PyPI package sevenn 0.13.0",
        "license": _MIT_SEVENNET,
        "labels": "PBE and PBE+U",
        "data": _SEVENNET_DATA,
    },
}


def channels(text, parity, where):
    """Channels of order 0, 1, ... of irreps like '128x0e + 64x1o'.

    parity: 'natural' (-1)^l, or 'even' for networks without parity, which write e throughout."""
    out = []
    for l, part in enumerate(str(text).replace(" ", "").split("+")):
        sign = "eo"[l % 2] if parity == "natural" else "e"
        number, _, order = part.partition("x")
        if order != f"{l}{sign}" or not number.isdigit() or int(number) < 1:
            raise ModelError(
                f"{where}: irreps '{text}' are not supported: possible are orders 0, 1, 2, ... in this order, "
                + ("with parity (-1)^l" if parity == "natural" else "all with parity e")
            )
        out.append(int(number))
    if len(out) > 4:
        raise ModelError(f"{where}: irreps '{text}' have orders above 3, which are not supported")
    return out


def read_nqx(path):
    """(configuration, arrays) of a Nequix file; nothing in it is executed."""
    with open(path, "rb") as f:
        data = f.read()
    line, newline, rest = data.partition(b"\n")
    try:
        configuration = json.loads(line)
        if not isinstance(configuration, dict) or not newline:
            raise ValueError("the first line is not a mapping")
    except ValueError as e:
        raise ModelError(f"{path}: not a Nequix file (.nqx), which begins with one line of JSON: {e}") from e
    file, arrays = io.BytesIO(rest), []
    while rest[file.tell() :].strip():  # nequix-mp-1.nqx ends with a newline
        try:
            arrays.append(np.lib.format.read_array(file, allow_pickle=False))
        except (ValueError, EOFError, SyntaxError) as e:
            raise ModelError(f"{path}: array {len(arrays)} cannot be read; the file is cut off or damaged: {e}") from e
    return configuration, arrays


def _nequix_block(c, n_channels):
    return {
        "n_layers": int(c["n_layers"]),
        "n_channels": n_channels,
        "lmax": int(c["lmax"]),
        "paths": "even",
        "embedding": "one_hot",
        "message_divisor": [math.sqrt(c["avg_n_neighbors"])] * int(c["n_layers"]),
        "radial_basis": {"kind": "bessel", "n": int(c["radial_basis_size"])},
        "cutoff_function": {"kind": "polynomial", "p": float(c["radial_polynomial_p"])},
        "radial_network": {
            "hidden": [int(c["radial_mlp_size"])] * int(c["radial_mlp_layers"]),
            "activation_norm": 1.0,
            "fan_in": "none",
        },
        "norm": {"kind": "rms", "epsilon": 1.0e-12},
        "activation_norm": ACTIVATION_NORM,
        "n_readout": [],
    }


def nequix_model(configuration, arrays, where):
    """(head, tensors) of the `nequip` model in a Nequix file.

    Its arrays have no names: they are those of the layers in the order of the package's tree, matrices as [in, out]."""
    c = configuration
    missing = [key for key in NEEDED if key not in c]
    if missing:
        raise ModelError(f"{where}: the first line lacks '{missing[0]}': not a Nequix file, or of another version")
    require(where, "index_weights", c["index_weights"], False)
    require(where, "layer_norm", c["layer_norm"], True)
    elements = symbols_of(sorted(c["atomic_numbers"]), where)
    head = head_of(elements, c["cutoff"], {}, _nequix_block(c, channels(c["hidden_irreps"], "natural", where)))
    shapes = modelfile.nequip_shapes(head)
    names = ["atom_energies", *modelfile.nequix_order(head)]
    while (
        len(arrays) > len(names) and arrays[-1].ndim == 0
    ):  # nequix-oam-1.nqx ends with 209 numbers that are no weights
        arrays = arrays[:-1]
    if len(arrays) != len(names):
        what = "is cut off" if len(arrays) < len(names) else "is of another network"
        raise ModelError(
            f"{where}: holds {len(arrays)} arrays, and the network of its first line has {len(names)}: it {what}"
        )
    shapes["atom_energies"], tensors = (len(elements),), {}
    for k, (name, array) in enumerate(zip(names, arrays)):
        if array.shape != shapes[name][::-1] or array.dtype not in (np.float32, np.float64):
            raise ModelError(
                f"{where}: array {k} ({name}) is {array.dtype} {list(array.shape)}, expected float32 "
                f"{list(shapes[name][::-1])}"
            )
        tensors[name] = np.ascontiguousarray(array.T)
    energies = tensors.pop("atom_energies")
    head["energy_offsets"] = {e: float(c["shift"]) + float(x) for e, x in zip(elements, energies)}
    tensors["energy_scale"] = np.full(len(elements), float(c["scale"]))
    return head, tensors


# What a description may say; other values are refused.
EXPECTED = {
    "radial_basis.kind": "bessel",
    "radial_mlp.activation": "silu",
    "radial_mlp.bias": False,
    "spherical_harmonics.normalization": "component",
    "tensor_product.kind": "uvu",
    "tensor_product.coefficient": "sqrt(2*l3+1)",
    "tensor_product.cg_norm": 1.0,
    "linear_scale": "1/sqrt(fan_in)",
    "gate.scalar_activation": "silu",
    "gate.gate_activation": "silu",
    "units.energy": "eV",
    "units.length": "angstrom",
}


def _described_block(source, where):
    """The block of a description, whose `variant` says what it has in common with which package."""
    nequix, layers = source["variant"] == "nequix", source["layer"]
    n_channels = [mul for mul, _ in layers[0]["irreps_out"]] if len(layers) > 1 else [layers[0]["irreps_out"][0][0]]
    envelope, mlp, n = source["radial_basis"]["envelope"], source["radial_mlp"], source["radial_basis"]["n"]
    if envelope["kind"] == "polynomial":
        cutoff_function = {"kind": "polynomial", "p": float(envelope["p"])}
    else:
        require(where, "radial_basis.envelope.kind", envelope["kind"], "xplor")
        cutoff_function = {"kind": "xplor", "onset": float(envelope["r_on"])}
    if nequix:
        divisor = [math.sqrt(source["avg_n_neighbors"])] * len(layers)
    else:
        divisor = [float(layer["denominator"]) for layer in layers]
    return {
        "n_layers": len(layers),
        "n_channels": n_channels,
        "lmax": source["lmax"],
        "paths": "even" if nequix else "all",
        "embedding": "one_hot" if nequix else "linear",
        "message_divisor": divisor,
        "radial_basis": {"kind": "bessel" if nequix else "trained", "n": n},
        "cutoff_function": cutoff_function,
        "radial_network": {
            "hidden": mlp["layers"][1:],
            "activation_norm": float(mlp["act_norm"]),
            "fan_in": "sqrt" if mlp.get("linear_scale") == "1/sqrt(fan_in)" else "none",
        },
        "norm": {"kind": "rms", "epsilon": float(source["norm"]["eps"])} if source["norm"] else {"kind": "none"},
        "activation_norm": float(source["gate"]["act_norm"]),
        "n_readout": [],
    }


def described_model(source, tensors, where):
    """(head, tensors) of the `nequip` model that a description and its tensors define."""
    if source.get("variant") == "nequip_package":
        return nequip_package.described_model(source, tensors, where)
    require_all(source, EXPECTED, where)
    if source.get("variant") not in ("nequix", "sevennet"):
        raise ModelError(
            f"{where}: variant is {source.get('variant')!r}: nequix, sevennet and nequip_package are supported"
        )
    out, block = dict(tensors), _described_block(source, where)
    elements = symbols_of(source["atomic_numbers"], where)
    try:
        if source["variant"] == "nequix":
            offsets = source["shift"] + out.pop("atom_energies").astype(np.float64)
            out["energy_scale"], out["readout.0"] = np.full(len(elements), float(source["scale"])), out.pop("readout")
        else:
            offsets, out["energy_scale"] = out.pop("shift"), out.pop("scale").astype(np.float64)
            block["n_readout"] = [len(out[f"readout.{k}"]) for k in range(8) if f"readout.{k + 1}" in out]
    except KeyError as e:
        raise ModelError(f"{where}: the weights have no tensor {e}") from e
    head = head_of(elements, source["cutoff"], {e: float(x) for e, x in zip(elements, offsets)}, block)
    for t, (layer, described) in enumerate(zip(modelfile.nequip_layers(head), source["layer"])):
        if [list(path) for path in layer.paths] != described["paths"]:
            raise ModelError(f"{where}: layer {t} has other paths than l3, l1, l2 in order give")
    return head, out


def read(args, read_description):
    """(source, head, tensors) for the options of the command line."""
    path = args.source
    if path.endswith((".yaml", ".yml")):
        source, tensors = read_description(path, "nequip")
        head, tensors = described_model(source, tensors, path)
        sha256 = source.get("source_sha256")
    else:
        sha256, source = modelfile.sha256_of(path), {}
        if nequip_file.is_file(path):
            source, tensors = nequip_file.read(path)
            head, tensors = described_model(source, tensors, path)
        elif path.endswith((".pth", ".pt")):
            head, tensors = sevennet.model(path, head_of)
        else:
            head, tensors = nequix_model(*read_nqx(path), path)
    published = PUBLISHED.get(sha256, {})
    source = {"license": source.get("license", "unknown: see the source"), **source, **published}
    provenance = {key: published[key] for key in ("labels", "data") if published}
    citations = {"one_hot": CITATION, "linear": sevennet.CITATION, "element": nequip_package.CITATION}
    provenance["citation"] = citations[head["nequip"]["embedding"]]
    provenance["data_sha256"] = "none"
    source["provenance"] = provenance
    source["note"] = f" (sha256 {sha256})" if sha256 else ""
    return source, head, tensors
