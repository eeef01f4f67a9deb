"""Reader of MACE's own files (.model, which torch.save writes): numpy only, and no code in the file is executed.

read() gives the description and tensors that convert/mace.py reads from a .yaml. Numbers keep the precision of the
file and no factor is folded in. Matrices are [out, in], one per order.
"""

import os
import re

import numpy as np

from ..model import modelfile
from ..model.modelfile import SYMBOLS, ModelError
from . import checkpoints
from .checkpoints import Recorded
from .mace_modules import (
    ELSEWHERE,
    LMAX,
    Module,
    is_close,
    read_activation,
    read_linear,
    read_normed_network,
    read_scaled_network,
    read_selector,
)

# Class of an interaction -> (density, what the skip acts on).
INTERACTIONS = {
    "RealAgnosticInteractionBlock": (False, "message"),
    "RealAgnosticResidualInteractionBlock": (False, "species"),
    "RealAgnosticDensityInteractionBlock": (True, "message"),
    "RealAgnosticDensityResidualInteractionBlock": (True, "species"),
    "RealAgnosticResidualNonLinearInteractionBlock": (True, "linear"),
}
MODELS = ("MACE", "ScaleShiftMACE")
READOUTS = ("LinearReadoutBlock", "NonLinearReadoutBlock", "NonLinearBiasReadoutBlock")
NEGLIGIBLE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-9}  # couplings that are zero but for rounding
CONSTANTS = {
    "units": {"energy": "eV", "length": "angstrom", "stress": "eV/A^3"},
    "spherical_harmonics": {"normalization": "component"},
    "tensor_product": {"kind": "uvu", "coefficient": "sqrt(2*l3+1)", "cg_norm": 1.0},
    "linear_scale": "1/sqrt(fan_in)",
    "selector_scale": "1/sqrt(fan_in * n_elements)",
}
CITATION = (
    "I. Batatia, D. P. Kovacs, G. N. C. Simm, C. Ortner, G. Csanyi, MACE: Higher Order Equivariant Message Passing "
    "Neural Networks for Fast and Accurate Force Fields, NeurIPS 2022, arXiv:2206.07697"
)
_MP = "; I. Batatia et al., A foundation model for atomistic materials chemistry, arXiv:2401.00096 (2023)"
_OFF = (
    "; D. P. Kovacs et al., MACE-OFF: Short Range Transferable Machine Learning Force Fields, arXiv:2312.15211 (2023)"
)
_MH = "; arXiv:2510.25380 (2025)"
_ANICC = "; D. P. Kovacs et al., J. Chem. Phys. 159, 044118 (2023), doi:10.1063/5.0155322"
_ASL = "Academic Software License (ASL): academic, non-commercial use only"
# Family of released models -> (licence, paper besides CITATION, labels, data), as their authors publish them.
FAMILIES = {
    "mp": ("MIT", _MP, "PBE and PBE+U", "MPtrj"),
    "mpa": ("MIT", _MP, "PBE and PBE+U", "MPtrj, sAlex"),
    "omat": (_ASL, _MP, "PBE and PBE+U (VASP 54)", "OMat24"),
    "matpes-pbe": (_ASL, _MP, "PBE", "MatPES-PBE, after OMat24"),
    "matpes-r2scan": (_ASL, _MP, "r2SCAN", "MatPES-r2SCAN, after OMat24"),
    "mh": (_ASL, _MP + _MH, "PBE, r2SCAN and wB97M-VV10, by head", "OMat24, OMol25, OC20, MatPES"),
    "off": (_ASL, _OFF, "wB97M-D3(BJ)", "SPICE"),
    "anicc": ("MIT", _ANICC, "coupled cluster, see the citation", "ANI data, see the citation"),
}
# Names of published files, letters and digits alone as mace-torch caches them -> (name of the model, family).
RELEASED = {
    "20231210mace128l0energyepoch249": ("mace-mp-0-small", "mp"),
    "20231203mace128l1epoch199": ("mace-mp-0-medium", "mp"),
    "20240107mace128l2epoch199": ("mace-mp-0-large", "mp"),
    "macemptrj20229": ("mace-mp-0-large", "mp"),
    "maceagnesismall": ("mace-mp-0b-small", "mp"),
    "maceagnesimedium": ("mace-mp-0b-medium", "mp"),
    "macesmalldensityagnesistress": ("mace-mp-0b2-small", "mp"),
    "macemediumdensityagnesistress": ("mace-mp-0b2-medium", "mp"),
    "macelargedensityagnesistress": ("mace-mp-0b2-large", "mp"),
    "macemp0b3medium": ("mace-mp-0b3-medium", "mp"),
    "macempa0medium": ("mace-mpa-0-medium", "mpa"),
    "maceomat0small": ("mace-omat-0-small", "omat"),
    "maceomat0medium": ("mace-omat-0-medium", "omat"),
    "macematpespbeomatft": ("mace-matpes-pbe-0", "matpes-pbe"),
    "macematpesr2scanomatft": ("mace-matpes-r2scan-0", "matpes-r2scan"),
    "macemh0": ("mace-mh-0", "mh"),
    "macemh1": ("mace-mh-1", "mh"),
    "maceoff23small": ("mace-off23-small", "off"),
    "maceoff23medium": ("mace-off23-medium", "off"),
    "maceoff23large": ("mace-off23-large", "off"),
    "maceoff23bmedium": ("mace-off23b-medium", "off"),
    "maceoff24medium": ("mace-off24-medium", "off"),
    "ani500klargecc": ("mace-ani-cc", "anicc"),
}


def _polynomials(contraction, tensors, prefix, order, n):
    """Rows (M, i_1 <= .. <= i_nu, k) and values of the polynomials of one order, permutations summed; their degrees."""
    degrees, largest = [], int(contraction.number("correlation"))
    for degree in range(1, largest + 1):
        couplings = contraction.array(f"U_matrix_{degree}")
        couplings = couplings.reshape((2 * order + 1,) + (n,) * degree + (-1,))
        negligible, sums = NEGLIGIBLE[couplings.dtype], {}
        places = np.argwhere(np.abs(couplings) > negligible)
        for (m, *components, k), value in zip(places.tolist(), couplings[tuple(places.T)].tolist()):
            row = (m, *sorted(components), k)
            sums[row] = sums.get(row, 0.0) + value
        rows = sorted(row for row, value in sums.items() if abs(value) > negligible)
        if not rows:
            continue  # the weight of such a degree is a dummy
        weight = contraction.array("weights_max" if degree == largest else f"weights.{largest - 1 - degree}")
        if weight.ndim != 3 or weight.shape[1] != couplings.shape[-1]:
            contraction.fail(f"has weights of shape {list(weight.shape)} for {couplings.shape[-1]} couplings")
        name = f"{prefix}L{order}.nu{degree}."
        tensors[name + "index"] = np.array(rows, np.int32)
        tensors[name + "value"] = np.array([sums[row] for row in rows])
        tensors[name + "weight"] = weight
        degrees.append(degree)
    return degrees


def _paths(module, name):
    """([l1, l2, l3, channels, column, row] of the paths of a message, number of radial weights, lmax)."""
    product = module.need(name).expect("e3nn", "TensorProduct", hint=ELSEWHERE)
    inputs, harmonics, sums = (product.irreps(f"irreps_{part}") for part in ("in1", "in2", "out"))
    if harmonics != [(1, l) for l in range(len(harmonics))]:
        product.fail(f"has harmonics {harmonics}: expected each order once")
    paths, column = [], 0
    for i, j, k, mode, weighted, factor, _ in product.instructions():
        (n, l1), l2, l3 = inputs[i], harmonics[j][1], sums[k][1]
        if (mode, weighted) != ("uvu", True) or not is_close(factor**2, 2 * l3 + 1):
            product.fail(f"has a path {l1}, {l2}, {l3} of another form than uvu with the factor sqrt(2 l3 + 1)")
        paths.append([l1, l2, l3, n, column, sum(m for m, l in sums[:k] if l == l3)])
        column += n
    return paths, column, len(harmonics) - 1


def _gate(module):
    """Activations of the gates of a non-linear block; older files have e3nn's class."""
    gate = module.need("equivariant_nonlin")
    if gate.kind == "Gate":
        gate.expect("e3nn", "Gate")
        scalars, gates = (read_activation(gate, f"{part}.acts.0") for part in ("act_scalars", "act_gates"))
    else:
        gate.expect("mace", "GatedEquivariantBlock", "Gate")
        if gate.get("_layout_is_ir_mul"):
            gate.fail("has the layout of cuequivariance, which is not supported" + ELSEWHERE)
        names = (read_activation(gate, f"_act_{part}")[0] for part in ("scalar", "gate"))
        scalars, gates = zip(names, (1.0 / gate.number(f"_{part}_cst") for part in ("scalar", "gate")))
    return {"scalar_activation": scalars[0], "gate_activation": gates[0], "act_norm": scalars[1], "gate_norm": gates[1]}


def _nonlinear(block, tensors, prefix):
    """(widths, radial network, gate) of a non-linear block."""
    widths, epsilon = read_normed_network(block, "conv_tp_weights", tensors, f"{prefix}radial_mlp.")
    read_normed_network(block, "density_fn", tensors, f"{prefix}density.")
    for part in ("source", "target"):
        tensors[prefix + part] = read_linear(block, f"{part}_embedding")[0]
    for part in ("alpha", "beta"):
        tensors[prefix + part] = block.array(part)
    for part in ("linear_res", "linear_2"):
        for l, weight in read_linear(block, part).items():
            tensors[f"{prefix}{part}.l{l}"] = weight
    return widths, {"norm_epsilon": epsilon, "kind": "layer_norm", "activation": "silu"}, _gate(block)


def _plain(block, tensors, prefix, density):
    """(widths, radial network, no gate) of a plain block."""
    widths, (activation, divisor) = read_scaled_network(block, "conv_tp_weights", tensors, f"{prefix}radial_mlp.")
    if density:
        read_scaled_network(block, "density_fn", tensors, f"{prefix}density.")
    return widths, {"kind": "scaled", "activation": activation, "act_norm": divisor}, None


def _layer(block, product, tensors, t, n_elements):
    """(layer of the description, radial network) of an interaction and its product basis."""
    prefix = f"layers.{t}."
    density, skip = INTERACTIONS[block.expect("mace", *INTERACTIONS).kind]
    product.expect("mace", "EquivariantProductBasisBlock")
    nonlinear = skip == "linear"
    paths, n_weights, lmax = _paths(block, "conv_tp")
    parts = _nonlinear(block, tensors, prefix) if nonlinear else _plain(block, tensors, prefix, density)
    widths, network, gate = parts
    if widths[-1] != n_weights:
        block.fail(f"has {widths[-1]} radial weights, its paths {n_weights}")
    for name, source in (("linear_up", "linear_up"), ("linear", "linear_1" if nonlinear else "linear")):
        for l, weight in read_linear(block, source).items():
            tensors[f"{prefix}{name}.l{l}"] = weight
    if skip != "message" and not product.get("use_sc"):
        skip = "none"
    else:
        skips = read_linear(block, "skip_tp") if nonlinear else read_selector(block, "skip_tp", n_elements)
        tensors.update({f"{prefix}skip.l{l}": weight for l, weight in skips.items()})
    orders = product.orders("linear.irreps_out")
    contraction = product.need("symmetric_contractions").expect("mace", "SymmetricContraction", hint=ELSEWHERE)
    contractions = contraction.children("contractions")
    degrees = {
        f"L{l}": _polynomials(part, tensors, f"{prefix}product.", l, (lmax + 1) ** 2)
        for part, (_, l) in zip(contractions, orders, strict=True)
    }
    for l, weight in read_linear(product, "linear").items():
        tensors[f"{prefix}product.linear.l{l}"] = weight
    return {
        "block": block.kind,
        "kind": "nonlinear" if nonlinear else "plain",
        "density": density,
        "skip": skip,
        "irreps_in": block.orders("node_feats_irreps"),
        "irreps_edge": block.orders("linear_up.irreps_out"),
        "irreps_message": block.orders("target_irreps"),
        "irreps_out": orders,
        "n_radial_weights": n_weights,
        "avg_num_neighbors": None if density else block.number("avg_num_neighbors"),
        "gate": gate,
        "agnostic_product": bool(product.get("use_agnostic_product")),
        "product": degrees,
        "paths": paths,
    }, {"layers": widths[:-1], **network}


def _readout(module, tensors, t, n_heads):
    """Readout of the description; tensors go to `tensors`."""
    module.expect("mace", *READOUTS)
    if module.kind == "LinearReadoutBlock":
        tensors[f"readout.{t}.0"] = read_linear(module, "linear")[0]
        return {"layer": t, "kind": "linear"}
    activation, divisor = read_activation(module, "non_linearity.acts.0")
    tensors[f"readout.{t}.0"] = read_linear(module, "linear_1")[0]
    out = {"layer": t, "kind": "mlp", "width": len(tensors[f"readout.{t}.0"]) // n_heads}
    if module.kind == "NonLinearReadoutBlock":
        tensors[f"readout.{t}.1"] = read_linear(module, "linear_2")[0]
    else:
        out["kind"] = "bias_mlp"
        for k, name in enumerate(("linear_mid", "linear_2"), 1):
            tensors[f"readout.{t}.{k}"] = read_linear(module, name, bias=True)[0]
            tensors[f"readout.{t}.{k}.bias"] = module.array(f"{name}.bias")
    return {**out, "activation": activation, "act_norm": divisor}


def _radial(model, tensors, cutoff):
    """Parts of the description about radial functions, cutoff and transform of distances."""
    radial = model.need("radial_embedding").expect("mace", "RadialEmbeddingBlock")
    basis = radial.need("bessel_fn").expect("mace", "BesselBasis", "GaussianBasis")
    if basis.kind == "BesselBasis":
        tensors["radial_frequencies"] = basis.array("bessel_weights")
        described = {"kind": "bessel", "n": basis.array("bessel_weights").size, "prefactor": basis.number("prefactor")}
        if not is_close(described["prefactor"], np.sqrt(2.0 / cutoff)):
            basis.fail(f"has the prefactor {described['prefactor']:g}, expected sqrt(2 / cutoff)")
    else:
        tensors["radial_centers"] = basis.array("gaussian_weights")
        described = {
            "kind": "gaussian",
            "n": basis.array("gaussian_weights").size,
            "coefficient": basis.number("coeff"),
        }
    function = radial.need("cutoff_fn").expect("mace", "PolynomialCutoff")
    if function.number("r_max") != cutoff:
        function.fail(f"has the cutoff {function.number('r_max'):g}, the model {cutoff:g}")
    transform, distances = radial.get("distance_transform"), {"kind": "none"}
    if transform is not None:
        transform.expect("mace", "AgnesiTransform", "SoftTransform")
        names = ("q", "p", "a") if transform.kind == "AgnesiTransform" else ("alpha",)
        distances = {"kind": transform.kind[: -len("Transform")].lower(), **{k: transform.number(k) for k in names}}
    return {
        "radial_basis": described,
        "cutoff_function": {"kind": "polynomial", "p": function.number("p")},
        "cutoff_applied_to": "weights" if radial.get("apply_cutoff") is False else "basis",
        "distance_transform": distances,
    }


def _pairs(model, numbers):
    """Parts of the description that depend on pairs of elements: repulsion and covalent radii."""
    repulsion, transform = model.get("pair_repulsion_fn"), model.get("radial_embedding.distance_transform")
    described = None
    if repulsion is not None:
        repulsion.expect("mace", "ZBLBasis")
        described = {"kind": "zbl", **{k: repulsion.number(k) for k in ("p", "a_exp", "a_prefactor")}}
        described["c"] = [float(str(x)) for x in repulsion.array("c", 4)]  # decimals, also of single precision
    sources = [module.array("covalent_radii") for module in (repulsion, transform) if module is not None]
    if len(sources) == 2 and not np.array_equal(*sources):
        repulsion.fail("has other covalent radii than the transform of distances, which is not supported")
    radii = [float(sources[0][z]) for z in numbers] if sources else None
    return {
        "covalent_radii": radii,
        "pair_repulsion": described,
        "pair_repulsion_scaled": model.kind == "ScaleShiftMACE",
    }


def _numbers(model):
    """Atomic numbers in the order of the weights; files of 2022 have a table of them."""
    found = model.need("atomic_numbers")
    numbers = found.need("zs") if isinstance(found, Module) else found
    out = [int(z) for z in np.ravel(numbers)]
    if not out or any(not 0 < z < len(SYMBOLS) for z in out) or len(set(out)) != len(out):
        model.fail(f"has the atomic numbers {out}: must be different numbers from 1 to {len(SYMBOLS) - 1}")
    return out


def _energies(model, tensors, n_heads, n_elements):
    energies = np.atleast_2d(model.array("atomic_energies_fn.atomic_energies"))
    if energies.shape != (n_heads, n_elements):
        model.fail(f"has atomic energies of shape {list(energies.shape)}, expected {[n_heads, n_elements]}")
    tensors["atomic_energies"] = energies
    for name, default in (("scale", 1.0), ("shift", 0.0)):
        scaled = model.kind == "ScaleShiftMACE"
        values = np.ravel(model.array(f"scale_shift.{name}")) if scaled else np.array([default], energies.dtype)
        tensors[name] = np.ascontiguousarray(np.broadcast_to(values, n_heads))


def _check_model(model):
    """Refuses, by name, models with more than the network of a MACE."""
    model.expect("mace", *MODELS)
    for part, what in (
        ("joint_embedding", "embeddings of charge or spin (embedding_specs)"),
        ("embedding_readout", "embeddings of charge or spin (embedding_specs)"),
        ("les", "long-range electrostatics (LES)"),
    ):
        if model.get(part) is not None:
            model.fail(f"has {what}, which are not supported")
    if model.get("use_so3"):
        model.fail("has harmonics without parity (use_so3), which are not supported")
    harmonics = model.need("spherical_harmonics").expect("e3nn", "SphericalHarmonics")
    if harmonics.orders("irreps_out")[-1][1] > LMAX or not harmonics.get("normalize"):
        harmonics.fail("are not normalized, which is not supported")
    if harmonics.need("normalization") != "component":
        harmonics.fail(f"have the normalization {harmonics.need('normalization')!r}, expected 'component'")


def _describe(model):
    """(description, tensors) of a module."""
    _check_model(model)
    numbers, cutoff, tensors = _numbers(model), model.number("r_max"), {}
    heads = [str(head) for head in model.get("heads") or ["Default"]]
    n_heads, n_elements = len(heads), len(numbers)
    tensors["embedding"] = read_linear(model, "node_embedding.linear")[0]
    radial = _radial(model, tensors, cutoff)
    interactions, products = model.children("interactions"), model.children("products")
    layers = [
        _layer(block, product, tensors, t, n_elements)
        for t, (block, product) in enumerate(zip(interactions, products, strict=True))
    ]
    networks = [network for _, network in layers]
    if any(network != networks[0] for network in networks):
        model.fail("has radial networks of different widths or activations, which are not supported")
    modules = model.children("readouts")
    first = len(layers) - 1 if len(modules) == 1 else 0
    readouts = [_readout(module, tensors, t, n_heads) for t, module in enumerate(modules, first)]
    _energies(model, tensors, n_heads, n_elements)
    default = heads[0] if n_heads == 1 else next((head for head in heads if head.lower() == "default"), None)
    description = {
        "architecture": "mace",
        "elements": [SYMBOLS[z] for z in numbers],
        "atomic_numbers": numbers,
        "cutoff": cutoff,
        "lmax": len(model.irreps("spherical_harmonics.irreps_out")) - 1,
        "n_layers": len(layers),
        "heads": heads,
        "default_head": default,
        **radial,
        **_pairs(model, numbers),
        "radial_mlp": networks[0],
        "layer": [layer for layer, _ in layers],
        "readout": readouts,
        **CONSTANTS,
    }
    return description, {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def released(path):
    """Name, licence and provenance of a released model, which its file name tells; {} for other files."""
    name = re.sub("[^a-z0-9]", "", os.path.basename(path).lower()).removesuffix("model")
    if name not in RELEASED:
        return {}
    model, family = RELEASED[name]
    licence, paper, labels, data = FAMILIES[family]
    provenance = {"labels": labels, "data": data, "citation": CITATION + paper}
    return {"model": model, "license": f"{licence} ({model}, recognized by the file name)", "provenance": provenance}


def read(path):
    """(description, tensors) of a .model file, with what is known about it."""
    found = checkpoints.read_module(path, "model of mace-torch")
    if not isinstance(found, Recorded):
        raise ModelError(
            f"{path}: contains no model but a {type(found).__name__}: a state dict or a checkpoint has no "
            "hyper-parameters, use the .model file of the same training"
        )
    try:
        description, tensors = _describe(Module(found, "the model", path))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise ModelError(f"{path}: is damaged, or of a version of mace-torch that is not supported: {e}") from e
    return {**description, **released(path), "note": f" (sha256 {modelfile.sha256_of(path)})"}, tensors
