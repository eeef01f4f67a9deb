"""Turns published parameters into model files.

  mlff convert ani   ani-2x.yaml     -o NAME    a description with safetensors weights
  mlff convert ani   state_dict.pt   -o NAME    a TorchANI state dict (old files need PyTorch)
  mlff convert ani   FOLDER|NAME.info -o NAME   NeuroChem files, as ANI-1x, -1ccx and -2x were published
  mlff convert fennol FILE.fnx|FOLDER -o NAME   ANI in a model of FeNNol, or a folder of single members
  mlff convert painn painn.yaml      -o NAME    a description with safetensors weights
  mlff convert painn best_model      -o NAME    a SchNetPack model (needs PyTorch and SchNetPack)
  mlff convert orb   orb-v2.ckpt     -o NAME    a checkpoint of orb-models (Orb-v2 and its variants)
  mlff convert orb   orb.yaml        -o NAME    a description with safetensors weights
  mlff convert orb   --random SEED   -o NAME    a full-size Orb-v2 with random weights
  mlff convert nequip FILE.nqx       -o NAME    a network of Nequix
  mlff convert nequip FILE.pth       -o NAME    a checkpoint of SevenNet (SevenNet-0, SevenNet-l3i5)
  mlff convert nequip FILE.ckpt      -o NAME    a checkpoint of the package nequip, or its .nequip.zip
  mlff convert nequip nequix.yaml    -o NAME    a description with safetensors weights
  mlff convert mace   FILE.model     -o NAME    a model of mace-torch (MACE-MP-0 and later)
  mlff convert mace   mace.yaml      -o NAME    a description with safetensors weights
  mlff convert tensornet FOLDER      -o NAME    a network of matgl: model.json and state.pt
  mlff convert tensornet tensornet.yaml -o NAME a description with safetensors weights

  mlff convert nequip|mace|tensornet ... --repulsion    adds a repulsion below bond lengths (docs/model_file.md)

Writes NAME.yaml and NAME.safetensors, or nothing. Whatever an option of the source asks for that the engine does not
have is refused by name.
"""

import argparse
import contextlib
import os
import re
import typing

import numpy as np

from ..command_line import above_zero, one_line
from ..model import modelfile, selftest
from ..model.modelfile import ModelError
from . import checkpoints, fennol, neurochem, short_range
from . import mace as convert_mace
from . import nequip as convert_nequip
from . import orb as convert_orb
from . import tensornet as convert_tensornet

CITATIONS = {
    "ani-2x": "C. Devereux et al., J. Chem. Theory Comput. 16, 4192 (2020), doi:10.1021/acs.jctc.0c00121",
    "ani-1ccx": "J. S. Smith et al., Nat. Commun. 10, 2903 (2019), doi:10.1038/s41467-019-10827-4",
    "ani-1x": "J. S. Smith et al., J. Chem. Phys. 148, 241733 (2018), doi:10.1063/1.5023802",
    "ani": "J. S. Smith, O. Isayev, A. E. Roitberg, Chem. Sci. 8, 3192 (2017), doi:10.1039/C6SC05720A",
    "painn": "K. T. Schuett, O. T. Unke, M. Gastegger, ICML 2021, PMLR 139, 9377, arXiv:2102.03150",
    "orb": convert_orb.CITATION,
    "nequip": convert_nequip.CITATION,
    "mace": convert_mace.CITATION,
    "tensornet": convert_tensornet.CITATION,
}
# Elements of the molecules of the (r)MD17 sets, whose PaiNN models have untrained embeddings for all others.
MD17_ELEMENTS = {
    "ethanol": "HCO",
    "aspirin": "HCO",
    "malonaldehyde": "HCO",
    "salicylic": "HCO",
    "benzene": "HC",
    "toluene": "HC",
    "naphthalene": "HC",
    "azobenzene": "HCN",
    "paracetamol": "HCNO",
    "uracil": "HCNO",
}


def _get(mapping, path, where):
    """Value at the dotted `path` of nested mappings; ModelError that names it when it is missing."""
    value = mapping
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            raise ModelError(f"{where}: key '{path}' is missing")
        value = value[key]
    return value


def _require(where, name, value, allowed):
    """Refuses an option that the engine does not have."""
    if value not in allowed:
        raise ModelError(
            f"{where}: {name} is {value!r}, which is not supported (possible: {', '.join(repr(a) for a in allowed)})"
        )


def _units(energy):
    if energy not in modelfile.ENERGY_UNITS:
        raise ModelError(f"energy unit '{energy}' is not known: use one of {', '.join(modelfile.ENERGY_UNITS)}")
    return {"length": "angstrom", "energy": energy, "energy_in_eV": modelfile.ENERGY_IN_EV[energy]}


def _unit_note(energy):
    return {
        "eV": "",
        "hartree": "; 1 hartree = 27.211386024367243 eV (CODATA 2014, as TorchANI and ASE)",
        "kcal/mol": "; 1 eV = 23.060548012069496 kcal/mol (as ASE)",
    }[energy]


def read_description(path, architecture):
    """(description mapping, tensors) of published parameters as a pair of YAML and safetensors; checks the hash."""
    description = modelfile.load_yaml(path)
    _require(path, "architecture", description.get("architecture"), (architecture,))
    weights = os.path.join(os.path.dirname(path), _get(description, "weights.file", path))
    return description, modelfile.load_tensors(weights, _get(description, "weights.sha256", path))


def exact_sections(sections):
    """Odd multiples of pi/2n in full; the published files print them with eight digits."""
    exact = (2 * np.arange(len(sections)) + 1) * np.pi / (2 * len(sections))
    return exact.tolist() if np.allclose(sections, exact, rtol=0, atol=1e-7) else sections


def ani_model(source, tensors, constants, where):
    """(head, tensors) of the `ani` model that a description like ani-2x.yaml and its tensors define.

    constants: 'float32-rounded' (the numbers that TorchANI computes with) or 'exact' (the published decimals and exact
    fractions of pi, as FeNNol).
    """
    get = lambda path: _get(source, path, where)
    suffix = "_f32" if constants == "float32-rounded" else ""
    _require(where, "aev.cutoff_function", get("aev.cutoff_function"), ("cosine",))
    _require(where, "networks.activation", get("networks.activation"), ("celu",))
    _require(where, "networks.last_activation", get("networks.last_activation"), ("identity",))
    _require(where, "ensemble_reduction", get("ensemble_reduction"), ("mean",))
    unit, elements, dims = get("units.energy"), get("species"), get("networks.dims")
    n_members = int(get("ensemble_size"))
    out = {}
    for m in range(n_members):
        for e in elements:
            for l in range(len(dims[e]) - 1):
                for kind in ("weight", "bias"):
                    name = f"ensemble.{m}.{e}.{l}.{kind}"
                    if name not in tensors:
                        raise ModelError(f"{where}: the weights have no tensor '{name}'")
                    out[f"member.{m}.{e}.{l}.{kind}"] = tensors[name]
    if len(out) != len(tensors):
        raise ModelError(f"{where}: the weights hold {len(tensors)} tensors, the description explains {len(out)}")
    head = {
        "elements": elements,
        "cutoff": float(get("aev.radial.cutoff")),
        "units": _units(unit),
        "energy_offsets": {e: float(get("self_energies." + e)) for e in elements},
        "architecture": "ani",
        "ani": {
            "n_members": n_members,
            "constants": constants,
            "radial": {
                "cutoff": float(get("aev.radial.cutoff")),
                "eta": get("aev.radial.eta" + suffix),
                "prefactor": get("aev.radial.prefactor"),
                "shifts": get("aev.radial.shifts" + suffix),
            },
            "angular": {
                "cutoff": float(get("aev.angular.cutoff")),
                "eta": get("aev.angular.eta" + suffix),
                "zeta": get("aev.angular.zeta" + suffix),
                "cos_scale": get("aev.angular.cos_scale"),
                "prefactor": get("aev.angular.prefactor"),
                "shifts": get("aev.angular.shifts" + suffix),
                "sections": get("aev.angular.sections_f32") if suffix else exact_sections(get("aev.angular.sections")),
            },
            "activation": {"kind": "celu", "alpha": get("networks.alpha")},
            "dims": {e: dims[e] for e in elements},
        },
    }
    return head, out


def _supported_painn(get, where):
    """(kind of radial basis, layers of the readout) of a description; ModelError for what the engine does not have."""
    kind = get("radial_basis.kind")
    _require(where, "radial_basis.kind", kind, ("gaussian", "bessel"))
    _require(where, "cutoff.kind", get("cutoff.kind"), ("cosine",))
    _require(where, "activation", get("activation"), ("silu",))
    _require(where, "readout.activation", get("readout.activation"), ("silu",))
    _require(where, "readout.aggregation", get("readout.aggregation"), ("sum",))
    _require(where, "shared_interactions", get("shared_interactions"), (False,))
    _require(where, "shared_filters", get("shared_filters"), (False,))
    layers = get("readout.layers")
    if len(layers) != 3 or layers[-1] != 1:
        raise ModelError(f"{where}: readout.layers is {layers}: one hidden layer and one output are supported")
    return kind, layers


def painn_model(source, tensors, elements, where):
    """(head, tensors) of the `painn` model that a description and tensors with SchNetPack's names define."""
    get = lambda path: _get(source, path, where)
    kind, layers = _supported_painn(get, where)
    f, n_interactions, unit = get("n_atom_basis"), get("n_interactions"), source.get("units", {}).get("energy", "eV")
    left = dict(tensors)

    def take(name):
        if name not in left:
            raise ModelError(f"{where}: the weights have no tensor '{name}'")
        return left.pop(name)

    embedding = take("representation.embedding.weight")
    numbers = [modelfile.NUMBERS[e] for e in elements]
    if max(numbers) >= len(embedding):
        raise ModelError(
            f"{where}: the embedding has {len(embedding)} rows, none for {elements[int(np.argmax(numbers))]}"
        )
    out = {"embedding": embedding[numbers]}
    weight, bias = take("representation.filter_net.weight"), take("representation.filter_net.bias")
    for l in range(n_interactions):
        out[f"filter.{l}.weight"] = weight[3 * f * l : 3 * f * (l + 1)]
        out[f"filter.{l}.bias"] = bias[3 * f * l : 3 * f * (l + 1)]
        for k in ("0.weight", "0.bias", "1.weight", "1.bias"):
            out[f"context.{l}.{k}"] = take(f"representation.interactions.{l}.interatomic_context_net.{k}")
            out[f"mixing.{l}.{k}"] = take(f"representation.mixing.{l}.intraatomic_context_net.{k}")
        out[f"channel_mix.{l}.weight"] = take(f"representation.mixing.{l}.mu_channel_mix.weight")
    for k in ("0.weight", "0.bias", "1.weight", "1.bias"):
        out["readout." + k] = take("output_modules.0.outnet." + k)
    for k in ("offsets", "widths") if kind == "gaussian" else ("freqs",):
        out["basis." + k] = take("representation.radial_basis." + k)
    cutoff = float(take("representation.cutoff_fn.cutoff")[0])
    if left:
        raise ModelError(f"{where}: nothing explains tensor '{sorted(left)[0]}'")
    mean, atomref = (
        float(source.get("offsets", {}).get("mean_per_atom") or 0.0),
        source.get("offsets", {}).get("atomref"),
    )
    head = {
        "architecture": "painn",
        "elements": elements,
        "cutoff": cutoff,
        "units": _units(unit),
        "energy_offsets": {
            e: mean + (float(np.ravel(atomref)[z]) if atomref else 0.0) for e, z in zip(elements, numbers)
        },
        "painn": {
            "n_features": f,
            "n_interactions": n_interactions,
            "n_readout": layers[1],
            "radial_basis": {"kind": kind, "n": get("radial_basis.n_rbf")},
            "cutoff_function": "cosine",
            "epsilon": float(get("epsilon")),
        },
    }
    return head, out


def painn_elements(source, asked, where):
    """Elements of a PaiNN file: those asked for, else those of the training set as far as the file's names tell."""
    if asked:
        return asked
    words = re.split(r"[^a-z]+", f"{source.get('model', '')} {source.get('source', '')}".lower())
    for word in words:
        if word in MD17_ELEMENTS:
            return list(MD17_ELEMENTS[word])
    raise ModelError(f"{where}: does not say which elements the model was trained on: give them as --elements H,C,O")


def read_ani(args):
    """(description, tensors) of ANI networks, from any of the kinds of input."""
    path = args.source
    if args.kind == "fennol":
        return fennol.read(path)
    if os.path.isdir(path) or path.endswith(".info"):
        return neurochem.read(path)
    if path.endswith((".yaml", ".yml")):
        return read_description(path, "ani")
    if path.endswith(".fnx"):
        raise ModelError(f"{path}: is a model of FeNNol: say `convert fennol`")
    return checkpoints.read_torchani(path, args.alpha, args.cutoffs)


def published_name(source):
    """Which published ANI a description is, by its elements, constants and self energies; its own name otherwise."""
    if source.get("architecture") != "ani":
        return str(source.get("model", "")).lower()
    elements, zeta = list(source["species"]), float(source["aev"]["angular"]["zeta_f32"])
    carbon = source["self_energies"].get("C", 0.0)
    for name, symbols, z, energy in (
        ("ani-2x", "H C N O S F Cl", 14.1, -38.08933878),
        ("ani-1x", "H C N O", 32.0, -38.08316124),
        ("ani-1ccx", "H C N O", 32.0, -38.03750806),
    ):
        if elements == symbols.split() and abs(zeta - z) < 1e-5 and abs(carbon - energy) < 1e-5:
            return name
    return str(source.get("model", "")).lower()


LABELS = {
    "ani-2x": "wB97X/6-31G(d) (ANI-2x training set)",
    "ani-1x": "wB97X/6-31G(d) (ANI-1x training set)",
    "ani-1ccx": "CCSD(T)*/CBS after wB97X/6-31G(d) (ANI-1ccx training set)",
}


def _provenance(source, where, architecture, unit, extra):
    origin = source.get("source") or os.path.basename(where)
    name = published_name(source)
    labels = LABELS.get(name, "see the source")
    return {
        "labels": labels,
        "data": "see the citation and the source",
        "data_sha256": "none",
        "code": f"converted by mlff_tools.convert from {origin}{extra}{_unit_note(unit)}",
        "license": source.get("license", "unknown: see the source"),
        "citation": CITATIONS.get(name, CITATIONS[architecture]),
        **source.get("provenance", {}),
    }


def _read_orb(args):
    source, head, out = convert_orb.read(args, read_description)
    return source, head, out, [e for e in head["elements"] if e in convert_orb.TRAINED], ""


def _read_ani(args):
    source, tensors = read_ani(args)
    head, out = ani_model(source, tensors, args.constants, args.source)
    extra = f" with {args.constants} constants"
    if not any(head["energy_offsets"].values()):
        extra += "; energies are without self energies, as the source has them"
    return source, head, out, head["elements"], extra


def _read_painn(args):
    path = args.source
    described = path.endswith((".yaml", ".yml"))
    source, tensors = read_description(path, "painn") if described else checkpoints.read_schnetpack(path)
    if args.energy_unit:
        source.setdefault("units", {})["energy"] = args.energy_unit
    trained = painn_elements(source, args.elements, path)
    head, out = painn_model(source, tensors, trained, path)
    extra = "" if "energy" in source.get("units", {}) else "; the source names no energy unit: eV is assumed"
    return source, head, out, trained, extra


@contextlib.contextmanager
def _described(path):
    """ModelError for a description that lacks a key, or has one of another type."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as e:
        if not str(path).endswith((".yaml", ".yml")):
            raise
        what = f"key {e} is missing" if isinstance(e, KeyError) else str(e)
        raise ModelError(f"{path}: is not a complete description: {what}") from e


def add_repulsion(args, head):
    """Adds the block of --repulsion to the head, if it is asked for; returns the note for the provenance."""
    frames = getattr(args, "repulsion", None)
    if frames is None:
        return ""
    head["repulsion"] = short_range.block(head, frames)
    return f", --repulsion {os.path.basename(frames)}".rstrip()


def nearest_distance(args, head):
    """domain.min_distance of the options."""
    repelled = getattr(args, "repulsion", None) is not None
    distance = args.min_distance or (short_range.MIN_DISTANCE if repelled else KINDS[args.kind].min_distance)
    if repelled:
        short_range.check_distance(head, distance)
    return distance


def convert(args):
    """Converts the source of the command line. Returns (yaml path, complete head)."""
    path = args.source
    if path is None and getattr(args, "random", None) is None:
        raise ModelError("no IN given: name a checkpoint or a description, or say --random SEED")
    if path is not None and not os.path.exists(path):
        raise ModelError(f"{path}: no such file")
    if path is not None and os.path.isdir(path) and args.kind not in ("ani", "fennol", "tensornet"):
        raise ModelError(f"{path}: is a folder; a file is expected")
    with _described(path):
        source, head, out, trained, extra = KINDS[args.kind].read(args)
    extra += add_repulsion(args, head)
    path = path or source["source"]
    name, random = re.sub(r"\.(yaml|safetensors)$", "", args.output), source.get("random")
    head.update(
        format=modelfile.FORMAT,
        name=os.path.basename(name),
        description=random or f"{source.get('model', os.path.basename(path))}, converted from published parameters",
        provenance=_provenance(source, path, head["architecture"], head["units"]["energy"], extra),
        domain={
            "elements": list(trained),
            "min_distance": nearest_distance(args, head),
            "description": "none: random weights" if random else "as the source: see the citation",
        },
        accuracy={"description": "none: random weights" if random else "as published: see the citation"},
        self_test=selftest.empty(head["architecture"]),
    )
    modelfile.check(head, out)
    if not args.no_self_test:
        structures = selftest.structures_for((head, out), args.structures)
        if args.origin != "mlff":
            head["self_test"] = selftest.block((head, out), structures, args.origin)
    head = modelfile.write(name, head, out, {"name": head["name"], "license": head["provenance"]["license"]})
    if not args.no_self_test and args.origin == "mlff":
        head["self_test"] = selftest.block((head, out), structures, "mlff", name + ".yaml", args.mlff)
        modelfile.write_head(name + ".yaml", head)
    return name + ".yaml", head


def add_common(p, kind):
    """What all commands take."""
    p.add_argument("source", nargs=None if kind.source_needed else "?", help="description (.yaml) or checkpoint")
    p.add_argument("-o", "--output", required=True, metavar="NAME", help="writes NAME.yaml and NAME.safetensors")
    p.add_argument(
        "--min-distance",
        type=above_zero,
        metavar="A",
        help=f"atoms closer than this are an error at run time (default: {kind.min_distance} A"
        + (f", with --repulsion {short_range.MIN_DISTANCE} A)" if kind.may_repel else ")"),
    )
    if kind.may_repel:
        p.add_argument(
            "--repulsion",
            nargs="?",
            const="",
            metavar="XYZ",
            help="add a short-range repulsion, which ends below bond lengths and below the shortest distances in the "
            "frames of XYZ",
        )
    p.add_argument("--no-self-test", action="store_true", help="write no self-test structures")
    p.add_argument("--structures", nargs="+", default=[], metavar="XYZ", help="self-test structures of your own")
    p.add_argument(
        "--origin",
        choices=selftest.ORIGINS,
        default="auto",
        help="what computes the self-test in double: the package that the network is of, numpy, or the program mlff "
        "(default: the first, or the second where it is not installed)",
    )
    p.add_argument("--mlff", metavar="PATH", help="the program mlff (else $MLFF, build folders, PATH)")


def _ani_arguments(parser):
    parser.add_argument(
        "--constants",
        choices=("float32-rounded", "exact"),
        default="float32-rounded",
        help="AEV constants: rounded to float32 as TorchANI computes (default), or the published decimals",
    )
    parser.add_argument(
        "--cutoffs",
        type=above_zero,
        nargs=2,
        metavar=("RADIAL", "ANGULAR"),
        help="cutoffs (A) of the AEV, which "
        "a state dict may lack (default: those of ANI-1x, -1ccx and -2x, told by their eta and zeta)",
    )
    parser.add_argument(
        "--alpha",
        type=above_zero,
        default=0.1,
        help="alpha of CELU, which a state dict does not hold (default: %(default)s)",
    )


def _fennol_arguments(parser):
    parser.add_argument(
        "--constants",
        choices=("float32-rounded", "exact"),
        default="exact",
        help="AEV constants: the decimals that FeNNol computes with in double (default), or rounded as TorchANI",
    )


def _painn_arguments(parser):
    parser.add_argument(
        "--elements",
        type=lambda text: text.split(","),
        metavar="H,C,O",
        help="elements to keep (default: those of the training set, if the file tells)",
    )
    parser.add_argument(
        "--energy-unit",
        choices=modelfile.ENERGY_UNITS,
        help="unit of the model's energies (default: that of the file, else eV)",
    )


def _read_nequip(args):
    source, head, out = convert_nequip.read(args, read_description)
    return source, head, out, head["elements"], source["note"]


def _read_mace(args):
    source, head, out = convert_mace.read(args, read_description)
    return source, head, out, head["elements"], source["note"]


def _read_tensornet(args):
    source, head, out = convert_tensornet.read(args, read_description)
    return source, head, out, head["elements"], ""


class Kind(typing.NamedTuple):
    """A kind of source, which is a command. read(args) gives (source, head, tensors, trained elements, a note
    for the provenance)."""

    help: str
    read: typing.Callable
    add_arguments: typing.Callable = None
    source_needed: bool = True
    min_distance: float = 0.5
    may_repel: bool = False


KINDS = {
    "ani": Kind("ANI networks: NeuroChem files, a TorchANI state dict, ani-2x.yaml", _read_ani, _ani_arguments),
    "fennol": Kind("ANI networks in a model file of FeNNol", _read_ani, _fennol_arguments),
    "painn": Kind("SchNetPack's PaiNN: a description or a best_model file", _read_painn, _painn_arguments),
    "orb": Kind(
        "Orb-v2: a checkpoint of orb-models, a description, or random weights",
        _read_orb,
        convert_orb.add_arguments,
        source_needed=False,
    ),
    "nequip": Kind(
        "Nequix (.nqx), SevenNet (.pth), nequip (.ckpt, .nequip.zip), or a description",
        _read_nequip,
        min_distance=convert_nequip.MIN_DISTANCE,
        may_repel=True,
    ),
    "mace": Kind(
        "MACE: a .model file of mace-torch, or a description",
        _read_mace,
        convert_mace.add_arguments,
        min_distance=convert_mace.MIN_DISTANCE,
        may_repel=True,
    ),
    "tensornet": Kind(
        "TensorNet: a folder of matgl, or a description",
        _read_tensornet,
        min_distance=convert_tensornet.MIN_DISTANCE,
        may_repel=True,
    ),
}


def command_line():
    """The command line: one command for each kind of source."""
    parser = argparse.ArgumentParser(
        prog="mlff convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="kind", required=True, metavar="|".join(KINDS))
    for name, kind in KINDS.items():
        command = commands.add_parser(name, help=kind.help)
        if kind.add_arguments:
            kind.add_arguments(command)
        add_common(command, kind)
    return parser


@one_line("mlff convert")
def main(argv=None):
    args = command_line().parse_args(argv)
    path, head = convert(args)
    print(
        f"{path}: {head['architecture']} model '{head['name']}' for {', '.join(head['elements'])}, "
        f"{len(head['self_test']['structures'])} self-test structures"
        + (f" from {head['self_test']['origin']}" if head["self_test"]["structures"] else "")
    )
