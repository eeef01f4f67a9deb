"""The `tensornet` part of mlff_tools.convert: TensorNet networks of matgl from a published folder (matgl.py), or from a
description with safetensors weights.

Weights keep their bits; no factor is folded in. Descriptions have one convention for all versions of the package:
vectors point from the center to the neighbor.
"""

import os

from ..model import modelfile
from ..model.modelfile import ModelError
from . import matgl
from .common import head_of, require_all

MIN_DISTANCE = 0.6  # A: nearer than any bond
CITATION = (
    "A. D. Kaplan et al., A Foundational Potential Energy Surface Dataset for Materials, arXiv:2503.04070 (MatPES); "
    "G. Simeon, G. De Fabritiis, TensorNet, NeurIPS 2023, arXiv:2306.06482; "
    "T. W. Ko et al., npj Comput. Mater. 11, 253 (2025), doi:10.1038/s41524-025-01742-y (MatGL)"
)
# What a description may say; other values are refused.
EXPECTED = {
    "tensornet.cutoff_function": "cosine",
    "tensornet.edge_vector": " - ".join(("neighbour", "centre")),
    "tensornet.scalars_order": "3*channel + (0: I, 1: A, 2: S)",
    "units.energy": "eV",
    "units.length": "angstrom",
}
# Words of a description and those of a model file.
CHOICES = {
    "activation": {"silu": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "softplus2": "softplus"},
    "group": {"o3": "o3", "so3": "so3"},
    "message_from": {"neighbour": "neighbor", "centre": "center"},
}
# sha256 of published state.pt -> what is known about the model: functional, and errors of its card
PUBLISHED = {
    "d2dfa51a65d23a47fd935eb0628177d2a1088584562091ef3350ce3a002fce6a": ("PBE", "42 meV/atom, 146 meV/A, 0.627 GPa"),
    "b1f87297bac09ada6f0e2f41d362d784f894ff0f1f031478187c55ec661b71ba": ("r2SCAN", "41 meV/atom, 148 meV/A, 0.680 GPa"),
    "6cac801fb5c537a3a2d48ce49724766f7bd2ddd1f762796351a4d72cbe83d487": ("PBE", "36 meV/atom, 148 meV/A, 0.700 GPa"),
    "ecbf1f8225d70c28dfd9ca809d5c254c312b46c114457f7558611cae32a0e73e": ("r2SCAN", "34 meV/atom, 163 meV/A, 0.754 GPa"),
}
BASES = {"bessel_smooth": ("kind", "n"), "gaussian": ("kind", "n", "exponent")}
RENAMED = {"embedding.pair.center": "embedding.pair.centre", "embedding.pair.neighbor": "embedding.pair.neighbour"}


def _block(source, where):
    p, words = source["tensornet"], {}
    for key, known in CHOICES.items():
        if p[key] not in known:
            raise ModelError(
                f"{where}: tensornet.{key} is {p[key]!r}, which is not supported (possible: {', '.join(known)})"
            )
        words[key] = known[p[key]]
    basis = p["radial_basis"]
    if basis["kind"] not in BASES:
        raise ModelError(
            f"{where}: tensornet.radial_basis.kind is {basis['kind']!r}, which is not supported "
            f"(possible: {', '.join(BASES)})"
        )
    return {
        "n_features": int(p["n_features"]),
        "n_layers": int(p["n_layers"]),
        "radial_basis": {key: basis[key] for key in BASES[basis["kind"]]},
        **words,
        "norm_epsilon": float(p["norm_epsilon"]),
        "energy_scale": float(p["energy_scale"]),
    }


def described_model(source, tensors, where):
    """(head, tensors) of the `tensornet` model that a description and its tensors define."""
    require_all(source, EXPECTED, where)
    block, elements, left = _block(source, where), list(source["elements"]), dict(tensors)
    offsets = left.pop("energy_offsets", None)
    if offsets is None or offsets.shape != (len(elements),):
        raise ModelError(f"{where}: the weights have no tensor 'energy_offsets' [{len(elements)}]")
    head = head_of(elements, source["cutoff"], {e: float(x) for e, x in zip(elements, offsets)}, block, "tensornet")
    out = {}
    for name in modelfile.tensornet_shapes(head):
        if RENAMED.get(name, name) not in left:
            raise ModelError(f"{where}: the weights have no tensor '{RENAMED.get(name, name)}'")
        out[name] = left.pop(RENAMED.get(name, name))
    if left:
        raise ModelError(f"{where}: nothing explains tensor '{sorted(left)[0]}'")
    return head, out


def read(args, read_description):
    """(source, head, tensors) for the options of the command line."""
    if os.path.isdir(args.source):
        source, tensors = matgl.read(args.source)
    elif args.source.endswith((".yaml", ".yml")):
        source, tensors = read_description(args.source, "tensornet")
    else:
        raise ModelError(f"{args.source}: expected a folder with model.json and state.pt, or a description (.yaml)")
    head, tensors = described_model(source, tensors, args.source)
    source = {"license": "unknown: see the source", **source}
    source["provenance"] = {"citation": CITATION, "data_sha256": "none"}
    functional, _ = PUBLISHED.get(source.get("source_sha256", {}).get("state.pt"), (None, None))
    if functional:
        source["provenance"].update(labels=functional, data="MatPES v2025.1, see the citation")
    return source, head, tensors
