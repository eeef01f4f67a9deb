"""Model files (NAME.yaml + NAME.safetensors): reading, checking and writing. The format is in docs/model_file.md."""

import difflib
import glob
import hashlib
import itertools
import json
import os
import struct
import typing

import numpy as np
import yaml
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from .. import FILES
from . import header
from .files import ModelError, write_bytes

FORMAT = "mlff/1"
ENERGY_UNITS = ("eV", "hartree", "kcal/mol")
# One unit of energy in eV. hartree: CODATA 2014, as used by TorchANI, ASE and FeNNol; kcal/mol: ASE.
ENERGY_IN_EV = {"eV": 1.0, "hartree": 27.211386024367243, "kcal/mol": 1.0 / 23.060548012069496}
SYMBOLS = (
    "X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr "
    "Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu "
    "Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm"
).split()
NUMBERS = {symbol: z for z, symbol in enumerate(SYMBOLS)}
TOLERANCE = {
    "fp64": {"energy": 1.0e-8, "forces": 1.0e-7, "virial": 1.0e-7},
    "fp32": {"energy": 1.0e-5, "forces": 1.0e-3, "virial": 1.0e-3},
}
# The same for `nequip` models and others, whose rounding is known better: numpy in double agrees with the packages to
# 2e-13 eV/A, and they in single precision with themselves in double to 3e-6 eV/atom, 2.1e-5 eV/A and 2.4e-7 eV/A^3.
NEQUIP_TOLERANCE = {
    "fp64": {"energy": 1.0e-12, "forces": 1.0e-11, "virial": 1.0e-11},
    "fp32": {"energy": 5.0e-6, "forces": 5.0e-5, "virial": 5.0e-5},
}


def tolerance(architecture):
    """What self-tests of an architecture are made with: precision -> quantity -> largest difference."""
    found = NEQUIP_TOLERANCE if architecture in ("nequip", "mace", "tensornet") else TOLERANCE
    return {precision: dict(values) for precision, values in found.items()}


def head_keys():
    """Keys of a model file in the order in which they are written; the block named by `architecture` follows
    weights."""
    return [
        "format",
        "name",
        "architecture",
        "description",
        "elements",
        "cutoff",
        "units",
        "energy_offsets",
        "repulsion",
        "uncertainty",
        "weights",
        header.KEY,
        "provenance",
        "domain",
        "accuracy",
        "self_test",
    ]


def n_pairs(n_elements):
    """Unordered pairs of elements, same ones included."""
    return n_elements * (n_elements + 1) // 2


def aev_length(head):
    """Length of an atomic environment vector of an `ani` model."""
    ani, n = head["ani"], len(head["elements"])
    angular = len(ani["angular"]["shifts"]) * len(ani["angular"]["sections"])
    return n * len(ani["radial"]["shifts"]) + n_pairs(n) * angular


def painn_shapes(head):
    """Name -> shape of every tensor of a `painn` model."""
    p = head["painn"]
    f, k, r, kind = p["n_features"], p["radial_basis"]["n"], p["n_readout"], p["radial_basis"]["kind"]
    shapes = {"embedding": (len(head["elements"]), f)}

    def linear(name, n_out, n_in, bias=True):
        shapes[name + ".weight"] = (n_out, n_in)
        if bias:
            shapes[name + ".bias"] = (n_out,)

    for l in range(p["n_interactions"]):
        linear(f"filter.{l}", 3 * f, k, bias=kind != "bspline")
        linear(f"context.{l}.0", f, f)
        linear(f"context.{l}.1", 3 * f, f)
        linear(f"channel_mix.{l}", 2 * f, f, bias=False)
        linear(f"mixing.{l}.0", f, 2 * f)
        linear(f"mixing.{l}.1", 3 * f, f)
    linear("readout.0", r, f)
    linear("readout.1", 1, r)
    for name in {"gaussian": ("offsets", "widths"), "bessel": ("freqs",), "bspline": ()}[kind]:
        shapes["basis." + name] = (k,)
    return shapes


def ani_shapes(head):
    """Name -> shape of every tensor of an `ani` model."""
    shapes, ani, length = {}, head["ani"], aev_length(head)
    for element, dims in ani["dims"].items():
        if dims[0] != length:
            raise ModelError(f"ani.dims.{element}[0] is {dims[0]}, but the constants give an AEV of length {length}")
        for m in range(ani["n_members"]):
            for l, (n_in, n_out) in enumerate(zip(dims[:-1], dims[1:])):
                shapes[f"member.{m}.{element}.{l}.weight"] = (n_out, n_in)
                shapes[f"member.{m}.{element}.{l}.bias"] = (n_out,)
    return shapes


def orb_shapes(head):
    """Name -> shape of every tensor of an `orb` model."""
    p = head["orb"]
    f, hidden = p["n_features"], p["n_hidden"]
    shapes = {"embedding": (len(head["elements"]), f)}

    def mlp(name, widths, norm=True):
        for l, (n_in, n_out) in enumerate(zip(widths[:-1], widths[1:])):
            shapes[f"{name}.{l}.weight"] = (n_out, n_in)
            shapes[f"{name}.{l}.bias"] = (n_out,)
        if norm:
            shapes[name + ".norm.weight"] = shapes[name + ".norm.bias"] = (f,)

    mlp("node_encoder", (f, hidden, hidden, f))
    mlp("edge_encoder", (p["radial_basis"]["n"] + 3, hidden, hidden, f))
    for l in range(p["n_interactions"]):
        mlp(f"layer.{l}.edge", (3 * f, hidden, hidden, f))
        mlp(f"layer.{l}.node", (3 * f, hidden, hidden, f))
        for gate in ("receive", "send"):
            shapes[f"layer.{l}.{gate}.weight"] = (1, f)
            shapes[f"layer.{l}.{gate}.bias"] = (1,)
    for name, n_out in (("energy", 1), ("forces", 3), ("stress", 6)):
        mlp(name, (f, p["n_readout"], n_out), norm=False)
    return shapes


class NequipPath(typing.NamedTuple):
    """A product of features of order l1 with spherical harmonics of order l2 that gives features of order l3."""

    l1: int
    l2: int
    l3: int
    mul: int  # channels of the features
    column: int  # of the first of its radial weights, of which it has `mul`
    row: int  # of its first channel among the inputs of linear_2.l{l3}


class NequipLayer(typing.NamedTuple):
    """A layer of a `nequip` model; orders l are keys, numbers of channels values."""

    inputs: dict
    outputs: dict  # after the gate
    sums: dict  # before it: scalars have the gates of the other orders behind them
    paths: list
    n_weights: int  # radial weights of an edge

    def rows(self, l):
        """Channels of order l that arrive from the neighbors."""
        return sum(p.mul for p in self.paths if p.l3 == l)


def nequip_paths(inputs, orders, lmax, even):
    """Paths from features `inputs` (order -> channels) to `orders`, and how many radial weights they have in all.

    They are sorted by l3, then l1, then l2; with `even` those with an odd sum of orders are left out."""
    paths, column = [], 0
    for l3 in orders:
        row = 0
        for l1, mul in inputs.items():
            for l2 in range(lmax + 1):
                if abs(l1 - l2) <= l3 <= l1 + l2 and not (even and (l1 + l2 + l3) % 2):
                    paths.append(NequipPath(l1, l2, l3, mul, column, row))
                    column, row = column + mul, row + mul
    return paths, column


def nequip_layers(head):
    """The layers of a `nequip` model, as [NequipLayer]."""
    p = head["nequip"]
    channels = dict(enumerate(p["n_channels"]))
    widths = {"one_hot": len(head["elements"]), "linear": channels[0], "element": p.get("n_embedding")}
    inputs, layers = {0: widths[p["embedding"]]}, []
    for t in range(p["n_layers"]):
        outputs = channels if t < p["n_layers"] - 1 else {0: channels[0]}
        paths, n_weights = nequip_paths(inputs, outputs, p["lmax"], p["paths"] == "even")
        sums = {**outputs, 0: channels[0] + sum(n for l, n in outputs.items() if l > 0)}
        layers.append(NequipLayer(inputs, outputs, sums, paths, n_weights))
        unreached = [l for l in outputs if not layers[-1].rows(l)]
        if unreached:
            raise ModelError(
                f"nequip.n_channels has order {unreached[0]}, which no path of layer {t} reaches: lmax is {p['lmax']}"
            )
        inputs = outputs
    return layers


def nequip_shapes(head):
    """Name -> shape of every tensor of a `nequip` model."""
    p, n_elements = head["nequip"], len(head["elements"])
    if len(p["message_divisor"]) != p["n_layers"]:
        raise ModelError(f"nequip.message_divisor has {len(p['message_divisor'])} numbers for {p['n_layers']} layers")
    if len(p.get("neighbor_divisor", head["elements"])) != n_elements:
        raise ModelError(f"nequip.neighbor_divisor has {len(p['neighbor_divisor'])} numbers for {n_elements} elements")
    by_element = p.get("self_connection", "linear") == "element"
    if by_element and p["embedding"] != "element":
        raise ModelError(f"nequip.self_connection is element, embedding is {p['embedding']}: must be element, too")
    shapes = {"energy_scale": (n_elements,)}

    def chain(name, widths):
        for k, (n_in, n_out) in enumerate(zip(widths[:-1], widths[1:])):
            shapes[f"{name}.{k}"] = (n_out, n_in)

    if p["embedding"] == "linear":
        shapes["embedding"] = (p["n_channels"][0], n_elements)
    if p["embedding"] == "element":
        shapes["embedding"] = (p["n_embedding"], n_elements)
    if p["radial_basis"]["kind"] == "trained":
        shapes["radial_frequencies"] = (p["radial_basis"]["n"],)
    for t, layer in enumerate(nequip_layers(head)):
        name = f"layers.{t}."
        chain(name + "radial_mlp", [p["radial_basis"]["n"], *p["radial_network"]["hidden"], layer.n_weights])
        for l, n in layer.inputs.items():
            shapes[f"{name}linear_1.l{l}"] = (n, n)
        for l, n in layer.sums.items():
            shapes[f"{name}linear_2.l{l}"] = (n, layer.rows(l))
            if l in layer.inputs and not by_element:
                shapes[f"{name}skip.l{l}"] = (n, layer.inputs[l])
            elif l in layer.inputs and t > 0:
                shapes[f"{name}skip.l{l}"] = (n, layer.inputs[l], p["n_embedding"])
            if p["norm"]["kind"] == "rms":
                shapes[f"{name}norm.l{l}"] = (n,)
    chain("readout", [p["n_channels"][0], *p["n_readout"], 1])
    return shapes


def nequix_order(head):
    """Names of the tensors of a `nequip` model in the order in which Nequix has them."""
    names = []
    for t in range(head["nequip"]["n_layers"]):
        kinds = [f"layers.{t}.{kind}." for kind in ("radial_mlp", "linear_1", "linear_2", "skip", "norm")]
        names += [name for kind in kinds for name in nequip_shapes(head) if name.startswith(kind)]
    return [*names, "readout.0"]


def mace_edge_channels(p, t):
    """Order -> channels of the features that layer t of a `mace` model sends to neighbors."""
    edges = p.get("nonlinear")
    if t == 0:
        return {0: edges["n_edge_first"] if edges else p["n_channels"]}
    return dict(enumerate(edges["n_edge"] if edges else [p["n_channels"]] * p["n_orders"]))


def _normed_network_shapes(name, widths):
    """Name -> shape of the tensors of a radial network with layer norms."""
    shapes, last = {}, len(widths) - 2
    for k, (n_in, n_out) in enumerate(itertools.pairwise(widths)):
        shapes[f"{name}.{k}"] = (n_out, n_in)
        for part in ("bias", "norm", "norm_bias") if k < last else ("bias",):
            shapes[f"{name}.{k}.{part}"] = (n_out,)
    return shapes


def _mace_radial_shapes(p, t, n_elements, n_weights):
    """Name -> shape of the tensors of layer t that depend on distances, and of what non-linear blocks add."""
    c, n_basis, hidden, extra = p["n_channels"], p["radial_basis"]["n"], p["radial_network"]["hidden"], {}
    name, more = f"layers.{t}.", p.get("nonlinear")
    if more is None:
        for k, (n_in, n_out) in enumerate(itertools.pairwise([n_basis, *hidden, n_weights])):
            extra[f"{name}radial_mlp.{k}"] = (n_out, n_in)
        return {**({f"{name}density": (1, n_basis)} if p["divisor"][t] == "density" else {}), **extra}
    extra[f"{name}source"] = extra[f"{name}target"] = (c, n_elements)
    extra.update(_normed_network_shapes(f"{name}radial_mlp", [n_basis + 2 * c, *hidden, n_weights]))
    extra.update(_normed_network_shapes(f"{name}density", [n_basis + 2 * c, more["n_density"], 1]))
    extra[f"{name}alpha"] = extra[f"{name}beta"] = (1,)
    for l in range(p["lmax"] + 1):
        extra[f"{name}linear_2.l{l}"] = (c, c)
    for l, n in mace_edge_channels(p, t).items():
        extra[f"{name}linear_res.l{l}"] = (c if l else c * (p["lmax"] + 1), n)
    return extra


def mace_shapes(head):
    """Name -> shape of every tensor of a `mace` model."""
    p, n_elements = head["mace"], len(head["elements"])
    c, last, products = p["n_channels"], p["n_layers"] - 1, iter(p["products"])
    n_basis, functions = p["radial_basis"]["n"], {"bessel": "radial_frequencies", "gaussian": "radial_centers"}
    shapes = {"energy_scale": (1,), "embedding": (c, n_elements), functions[p["radial_basis"]["kind"]]: (n_basis,)}
    n_products, is_nonlinear = 1 if p.get("product_weights") == "common" else n_elements, "nonlinear" in p
    if p["distance_transform"]["kind"] != "none":
        shapes["covalent_radii"] = (n_elements,)
    for t in range(p["n_layers"]):
        name, inputs = f"layers.{t}.", mace_edge_channels(p, t)
        paths, n_weights = nequip_paths(inputs, range(p["lmax"] + 1), p["lmax"], True)
        shapes.update(_mace_radial_shapes(p, t, n_elements, n_weights))
        for l, n in inputs.items():
            shapes[f"{name}linear_up.l{l}"] = (n, c)
        for l in range(p["lmax"] + 1):
            n_out = c * (p["lmax"] + 1) if is_nonlinear and l == 0 else c
            shapes[f"{name}linear.l{l}"] = (n_out, sum(path.mul for path in paths if path.l3 == l))
        orders = range(p["n_orders"] if t < last else 1)
        skipped = range(p["lmax"] + 1) if p["skip"][t] == "messages" else [l for l in orders if l in inputs]
        for l in skipped:
            shapes[f"{name}skip.l{l}"] = (c, c) if is_nonlinear else (n_elements, c, c)
        for l in orders:
            shapes[f"{name}product.linear.l{l}"] = (c, c)
            for degree in range(1, p["degree"][t] + 1):
                n_rows, n_weights = next(products, 0), next(products, 0)
                if n_rows:
                    shapes[f"{name}product.l{l}.degree_{degree}.rows"] = (n_rows, degree + 3)
                    shapes[f"{name}product.l{l}.degree_{degree}.weight"] = (n_products, n_weights, c)
        if t == last or p.get("readouts", "all") == "all":
            shapes.update(_mace_readout_shapes(p, t))
    return shapes


def _mace_readout_shapes(p, t):
    n, is_last = p["n_readout"], t == p["n_layers"] - 1
    widths = [p["n_channels"], *([n] * p.get("n_readout_layers", 1) if n and is_last else []), 1]
    shapes = {f"readout.{t}.{k}": (n_out, n_in) for k, (n_in, n_out) in enumerate(itertools.pairwise(widths))}
    return {**shapes, f"readout.{t}.1.bias": (n,)} if len(widths) == 4 else shapes


def tensornet_shapes(head):
    """Name -> shape of every tensor of a `tensornet` model."""
    p, shapes = head["tensornet"], {}
    f, n = p["n_features"], p["radial_basis"]["n"]

    def linear(name, n_out, n_in):
        shapes[name + ".weight"], shapes[name + ".bias"] = (n_out, n_in), (n_out,)

    def norm(name, width):
        shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)

    if p["radial_basis"]["kind"] == "gaussian":
        shapes["radial.centers"] = (n,)
    shapes["embedding.species"] = (len(head["elements"]), f)
    shapes["embedding.pair.center"] = shapes["embedding.pair.neighbor"] = (f, f)
    shapes["embedding.pair.bias"] = (f,)
    for part in "IAS":
        linear("embedding.radial." + part, f, n)
        shapes["embedding.mix." + part] = (f, f)
    norm("embedding.norm", f)
    linear("embedding.scalar.0", 2 * f, f)
    linear("embedding.scalar.1", 3 * f, 2 * f)
    for t in range(p["n_layers"]):
        for k, (n_in, n_out) in enumerate(((n, f), (f, 2 * f), (2 * f, 3 * f))):
            linear(f"layers.{t}.radial.{k}", n_out, n_in)
        for part in "IAS":
            shapes[f"layers.{t}.mix_1.{part}"] = shapes[f"layers.{t}.mix_2.{part}"] = (f, f)
    norm("out.norm", 3 * f)
    linear("out.linear", f, 3 * f)
    for branch in ("value", "gate"):
        for k in range(4):
            linear(f"readout.{branch}.{k}", f if k < 3 else 1, f)
    return shapes


def _sums_of_radii(block, elements, expected):
    """Cutoffs of a `repulsion` of kind mace or clamped, whose keys are `expected`."""
    if set(block) != expected:
        raise ModelError(f"repulsion has the keys {sorted(block)}: kind {block['kind']} has {sorted(expected)}")
    radii = block["radii"]
    if not isinstance(radii, dict) or set(radii) != set(elements):
        raise ModelError(f"repulsion.radii has {sorted(radii)}, elements are {elements}")
    for e, r in radii.items():
        if isinstance(r, bool) or not isinstance(r, (int, float)) or not 0.01 <= r <= 10:
            raise ModelError(f"repulsion.radii.{e} is {r!r}: must be from 0.01 to 10 A")
    return {(a, b): float(radii[a] + radii[b]) for k, a in enumerate(elements) for b in elements[k:]}


def _clamped_cutoffs(block, head):
    """Sums of the radii of a `repulsion` of kind clamped, or its own distances of pairs."""
    found = _sums_of_radii(block, head["elements"], {"kind", "radii"} | (set(block) & {"cutoffs"}))
    for (a, b), cutoff in _listed_cutoffs(block["cutoffs"], head).items() if "cutoffs" in block else ():
        found[(a, b) if (a, b) in found else (b, a)] = cutoff
    pair = max(found, key=found.get)
    if found[pair] > head["cutoff"]:
        raise ModelError(
            f"repulsion has radii of {pair[0]} and {pair[1]} that add up to {found[pair]:g} A: must be up to the "
            f"model's cutoff, {head['cutoff']} A"
        )
    return found


def repulsion_cutoffs(head):
    """The optional block `repulsion` as {(element, element): cutoff in A}, empty without it; ModelError when it is
    wrong."""
    block, elements = head.get("repulsion"), head["elements"]
    if block is None:
        return {}
    if isinstance(block, dict) and block.get("kind") == "mace":
        return _sums_of_radii(block, elements, {"kind", "p", "exponent", "prefactor", "scale", "radii"})
    if isinstance(block, dict) and block.get("kind") == "clamped":
        return _clamped_cutoffs(block, head)
    if isinstance(block, dict) and block.get("kind") == "nequip":
        if set(block) != {"kind", "p"}:
            raise ModelError(f"repulsion has the keys {sorted(block)}: kind nequip has ['kind', 'p']")
        return {(a, b): float(head["cutoff"]) for k, a in enumerate(elements) for b in elements[k:]}
    if not isinstance(block, dict) or set(block) != {"kind", "cutoffs"} or not isinstance(block["cutoffs"], dict):
        raise ModelError(f"repulsion is {block!r}: must be {{kind: zbl, cutoffs: {{H-O: 0.85, ...}}}}")
    if block["kind"] != "zbl":
        raise ModelError(f"repulsion.kind is '{block['kind']}': zbl, clamped, mace and nequip are possible")
    if not block["cutoffs"]:
        raise ModelError("repulsion.cutoffs has no pair: leave the block repulsion out")
    return _listed_cutoffs(block["cutoffs"], head)


def _listed_cutoffs(cutoffs, head):
    """{(element, element): cutoff in A} of a mapping {H-O: 0.85, ...}."""
    elements, found = head["elements"], {}
    for name, cutoff in cutoffs.items():
        where, pair = f"repulsion.cutoffs.{name}", tuple(str(name).split("-"))
        if len(pair) != 2:
            raise ModelError(f"{where}: must be named by two elements, such as H-O")
        strange = [e for e in pair if e not in elements]
        if strange:
            raise ModelError(f"{where}: '{strange[0]}' is not among the model's elements")
        if isinstance(cutoff, bool) or not isinstance(cutoff, (int, float)) or not 0 < cutoff <= head["cutoff"]:
            raise ModelError(
                f"{where} is {cutoff!r}: must be more than 0 and not more than the model's cutoff, {head['cutoff']} A"
            )
        if pair in found or pair[::-1] in found:
            raise ModelError(f"{where} is there twice: it is the same pair as {pair[1]}-{pair[0]}")
        found[pair] = float(cutoff)
    return found


SHAPES = {
    "painn": painn_shapes,
    "ani": ani_shapes,
    "orb": orb_shapes,
    "nequip": nequip_shapes,
    "mace": mace_shapes,
    "tensornet": tensornet_shapes,
}


def uncertainty_shapes(head):
    """Tensors of the optional block `uncertainty`; ModelError when it is wrong."""
    block = head.get("uncertainty")
    if block is None:
        return {}
    keys = {"width", "unit", "limit", "elements"}
    if not isinstance(block, dict) or not keys <= set(block) <= keys | {"description"}:
        raise ModelError(f"uncertainty is {block!r}: must be {{width: , unit: , limit: , elements: [...]}}")
    if block["unit"] not in ("eV/A", "relative"):
        raise ModelError(f"uncertainty.unit is '{block['unit']}': eV/A and relative are possible")
    if not set(block["elements"]) <= set(head["elements"]):
        raise ModelError(f"uncertainty.elements are {block['elements']}, elements of the model are {head['elements']}")
    width = block["width"]
    return {f"uncertainty.{element}": (width + 1, width) for element in block["elements"]}


def check(head, tensors):
    """Raises ModelError unless `tensors` (name -> array) are exactly those that `head` describes, and finite."""
    architecture = head.get("architecture")
    if architecture not in SHAPES:
        raise ModelError(f"architecture '{architecture}' is not known: use one of {', '.join(SHAPES)}")
    elements = head["elements"]
    unknown = [e for e in elements if e not in NUMBERS or e == "X"]
    if unknown or len(set(elements)) != len(elements) or not elements:
        raise ModelError(f"elements {elements}: must be different chemical symbols")
    if set(head["energy_offsets"]) != set(elements):
        raise ModelError(f"energy_offsets has {sorted(head['energy_offsets'])}, elements are {elements}")
    if head["units"]["energy"] not in ENERGY_UNITS:
        raise ModelError(f"units.energy is '{head['units']['energy']}': use one of {', '.join(ENERGY_UNITS)}")
    repulsion_cutoffs(head)
    shapes = {**SHAPES[architecture](head), **uncertainty_shapes(head)}
    for name, shape in shapes.items():
        if name not in tensors:
            raise ModelError(f"tensor '{name}' {list(shape)} is missing")
        tensor = tensors[name]
        if tuple(tensor.shape) != shape:
            raise ModelError(f"tensor '{name}' has shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.dtype not in (np.float32, np.float64):
            raise ModelError(f"tensor '{name}' is {tensor.dtype}: float32 or float64 are possible")
        if not np.isfinite(tensor).all():
            raise ModelError(f"tensor '{name}' holds NaN or infinity")
    extra = sorted(set(tensors) - set(shapes))
    if extra:
        raise ModelError(f"tensor '{extra[0]}' is not part of a {architecture} model ({len(extra)} such)")


def model_paths(name):
    """Paths (yaml, safetensors) of model NAME, NAME.yaml or NAME.safetensors."""
    for suffix in (".yaml", ".safetensors"):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
    return name + ".yaml", name + ".safetensors"


def named_models():
    """{name: path} of the models that can be given by their names alone: of the folders of $LAMMPS_POTENTIALS and
    $MLFF_MODELS, and ours."""
    lists = (os.environ.get(name, "") for name in ("LAMMPS_POTENTIALS", "MLFF_MODELS"))
    places = [place for text in lists for place in text.split(":") if place]
    found = {}
    for place in (*places, os.path.join(FILES, "models")):
        for path in sorted(glob.glob(os.path.join(glob.escape(place), "*.safetensors"))):
            path = model_paths(path)[0]
            if os.path.isfile(path):
                found.setdefault(os.path.splitext(os.path.basename(path))[0], path)
    return found


def find_model(name, folder=""):
    """Path of a model file: `name`, with or without .yaml, relative to a folder, else that of named_models().
    ModelError that says which there are."""
    path = os.path.join(folder, model_paths(name)[0])
    if os.path.isfile(path):
        return path
    named = named_models()
    if name in named:
        return named[name]
    here = f"there is not a model file {path}"
    if os.path.basename(name) != name or name.endswith(".yaml"):
        raise ModelError(here)
    close = difflib.get_close_matches(name, named, 1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise ModelError(f"{here}, and no model {name}; there are: {', '.join(sorted(named)) or 'none'}{hint}")


class _Dumper(yaml.SafeDumper):
    """Writes equal lists out each time: model files have no anchors and aliases."""

    def ignore_aliases(self, _):
        return True


def dump_yaml(value):
    """YAML text, keys in order, short lists on one line, numbers with all their digits."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=118, allow_unicode=False)


def safetensors_bytes(tensors, metadata):
    """A safetensors file of float32 and float64 arrays: names and metadata sorted, so that equal content gives equal
    bytes."""
    header, data = {"__metadata__": {str(k): str(metadata[k]) for k in sorted(metadata)}}, []
    offset = 0
    for name in sorted(tensors, key=lambda n: (-tensors[n].itemsize, n)):
        tensor = tensors[name]
        kind = {4: "F32", 8: "F64"}[tensor.itemsize]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        data.append(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write_head(path, head):
    """Writes the YAML part alone, e.g. with a new self_test block; the weights stay as they are. `head` gets the hash
    of its header."""
    order = head_keys()
    order.insert(order.index(header.KEY) + 1, head["architecture"])
    unknown = sorted(set(head) - set(order))
    if unknown:
        raise ModelError(f"key '{unknown[0]}' is not part of a model file")
    head[header.KEY] = header.parse(dump_yaml(head), path)[1]
    write_bytes(path, dump_yaml({key: head[key] for key in order if key in head}).encode("ascii"))


def write(name, head, tensors, metadata=None):
    """Writes NAME.yaml and NAME.safetensors. `head` needs no `weights`; it is returned complete.

    The weights are put in place first, the YAML (which names their hash) last: whatever interrupts it, a reader finds
    the old model, the new one, or a hash that does not match, never a wrong model.
    """
    yaml_path, weights_path = model_paths(name)
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    check(head, tensors)
    data = safetensors_bytes(tensors, metadata or {})
    head = dict(head)
    head["weights"] = {"file": os.path.basename(weights_path), "sha256": hashlib.sha256(data).hexdigest()}
    write_bytes(weights_path, data)
    write_head(yaml_path, head)
    return head


def read_text(path):
    """The text of the file `path`; ModelError that says why there is none."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ModelError(f"{path}: is not text") from e


def _parse(path):
    """The mapping in the YAML file `path`, and the hash of what it says."""
    value, found = header.parse(read_text(path), path)
    if not isinstance(value, dict):
        raise ModelError(f"{path}: must hold a mapping")
    return value, found


def load_yaml(path):
    """The mapping in the YAML file `path`."""
    return _parse(path)[0]


def read_head(path):
    """The header of a model file. ModelError if it is not one, or if its hash does not match."""
    head, found = _parse(path)
    if "format" not in head:
        raise ModelError(
            f"{path}: is not a model file of mlff: it has no key format; mlff convert makes one from a model of "
            "another package [mlff-23]"
        )
    if head["format"] != FORMAT:
        raise ModelError(f"{path}: is not a model file: format is {head['format']!r}, expected {FORMAT}")
    for key in ("name", "architecture", "elements", "cutoff", "weights", "domain"):
        if key not in head:
            raise ModelError(f"{path}: is an incomplete model file: it has no {key}")
    header.check(head, found, path)
    return head


def load_tensors(path, sha256=None):
    """name -> array from the safetensors file `path`; its hash must be `sha256` unless that is None."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}") from e
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise ModelError(f"{path}: sha256 is {found}, expected {sha256}: the file is damaged or of another model")
    try:
        return load_safetensors(data)
    except SafetensorError as e:
        raise ModelError(f"{path}: not a safetensors file: {e}") from e


def read(name):
    """(head, tensors) of model NAME, checked: format, hash, shapes."""
    yaml_path, _ = model_paths(name)
    head = read_head(yaml_path)
    weights = head["weights"]
    tensors = load_tensors(os.path.join(os.path.dirname(yaml_path), weights["file"]), weights["sha256"])
    try:
        check(head, tensors)
    except (ModelError, KeyError) as e:
        raise ModelError(f"{yaml_path}: {e}") from e
    return head, tensors


def metadata_of(path):
    """Metadata of the safetensors file `path`, {text: text}."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(size)).get("__metadata__", {})


def sha256_of(path):
    """Hex sha256 of a file."""
    with open(path, "rb") as f:
        return (
            hashlib.file_digest(f, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else hashlib.sha256(f.read()).hexdigest()
        )
