"""Fills the self_test block of a model file: `python -m mlff_tools selftest MODEL.yaml [STRUCTURES.xyz ...]`,
and renews header_sha256, the hash of its header.

After the given structures, or the standard ones, come those that touch every element and every pair with a repulsion.
--keep leaves the structures and numbers of the file and renews these alone. --header renews header_sha256 and nothing
else, after a deliberate edit of the file; `mlff verify` then shows whether the self-test still passes.

The numbers come from the package that the network is of (TorchANI, orb-models, SchNetPack, Nequix, SevenNet, nequip,
MACE, matgl) in double where this Python has it, else from the float64 numpy evaluation of mlff_tools.reference; both
are independent of the engine that will have to reproduce them. --origin chooses: package, reference, or mlff, the
program in double precision. The block says which it was.
"""

import argparse
import importlib.metadata
import importlib.util
import sys
import warnings

import numpy as np

from ..command_line import one_line
from . import against, coverage, engine, header, modelfile, reference
from .files import write_bytes
from .modelfile import ModelError
from .structures import read_xyz, self_test_structures, small_structures

ORIGINS = ("auto", "package", "reference", "mlff")
NUMPY = "mlff_tools.reference, numpy float64"
COVERED = f"; every element: {NUMPY}"


def _package_of(head):
    """The package that a network is of (a key of against.PACKAGES), or None."""
    if head["architecture"] == "painn" and head["painn"]["radial_basis"]["kind"] == "bspline":
        return None
    if head["architecture"] == "nequip":
        return {"one_hot": "nequix", "linear": "sevenn", "element": "nequip"}[head["nequip"]["embedding"]]
    return next((p for p, architecture in against.ARCHITECTURES.items() if architecture == head["architecture"]), None)


def _from_package(package, model, structures, numpy_results):
    """Energies, forces and virials of the package, and its name and version. What it has no virial for is numpy's. An
    error when both differ by more than `mlff verify --against` allows."""
    head = model[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        original = against.build(package, head, model[1])
        found = [original.evaluate(s) for s in structures]
    results = []
    for s, theirs, ours in zip(structures, found, numpy_results):
        apart = against.differences(s, theirs, ours)
        if not against.within(apart, against.LIMITS[package]):
            raise ModelError(
                f"structure '{s['name']}': {package} and mlff_tools.reference differ by %.2e eV/atom, %.2e eV/A and "
                "%.2e eV/A^3: is this version of the package supported? --origin reference does without it"
                % (*apart[:2], apart[2] or 0.0)
            )
        results.append((*theirs[:2], ours[2] if apart[2] is None else theirs[2]))
    name = against.DISTRIBUTIONS[package]
    text = f"{name} {importlib.metadata.version(name)}, float64"
    if head.get("repulsion", {}).get("kind") == "zbl":  # which no package has
        text += f"; repulsion: {NUMPY}"
    return results, text


def _results(model, structures, origin):
    """Energies, forces and virials of the structures, and what they are from. `auto`: without the package, the next
    best."""
    results, text = [reference.evaluate(model, s) for s in structures], NUMPY
    package = _package_of(model[0])
    here = package and importlib.util.find_spec(against.MODULES[package])
    if origin == "package" and not here:
        why = (
            f"{package} is not installed in {sys.executable}: pip install {against.DISTRIBUTIONS[package]}"
            if package
            else "no package has this network"
        )
        raise ModelError(f"--origin package: {why}, or take --origin reference")
    if origin == "reference" or not here:
        return results, text
    try:
        return _from_package(package, model, structures, results)
    except (against.Unsupported, ImportError) as e:
        if origin == "package":
            raise
        return results, f"{text} ({e})"


def _line(s, energy, forces, virial, energies=None):
    """A structure of a self_test block; energies: of its atoms."""
    if not (np.isfinite(energy) and np.isfinite(forces).all() and np.isfinite(virial).all()):
        raise ModelError(f"structure '{s['name']}': energy, forces or virial are not finite")
    line = {
        "name": s["name"],
        "elements": list(s["elements"]),
        "positions": np.asarray(s["positions"]).tolist(),
        "cell": "none" if s["cell"] is None else np.asarray(s["cell"]).tolist(),
        "energy": float(energy),
        "forces": np.asarray(forces).tolist(),
        "virial": np.asarray(virial).tolist(),
    }
    return line if energies is None else {**line, "atom_energies": np.asarray(energies).tolist()}


def coverage_lines(model):
    """The structures of coverage.py with numpy's numbers."""
    return [
        _line(s, *reference.evaluate(model, s), reference.atom_energies(model, s) if s["cell"] is None else None)
        for s in coverage.structures(model)
    ]


def block(model, structures, origin="auto", yaml_path=None, program=None):
    """The self_test mapping of a model file for `structures` and those of coverage.py, whose numbers are always
    numpy's; `origin` is one of ORIGINS."""
    if not structures:
        results, text = [], NUMPY
    elif origin == "mlff":
        results, text = engine.evaluate(yaml_path, structures, precision="fp64", program=program)
    else:
        results, text = _results(model, structures, origin)
    lines = [_line(s, *result) for s, result in zip(structures, results)]
    return _whole(model, text, lines)


def _whole(model, text, lines):
    """The block of structures whose numbers are from `text`, and those of coverage.py."""
    if not text.startswith(NUMPY) and not text.endswith(COVERED):
        text += COVERED
    return {
        "origin": text,
        "tolerance": modelfile.tolerance(model[0]["architecture"]),
        "structures": lines + coverage_lines(model),
    }


def kept(model):
    """The self_test mapping of a model with its structures and numbers, and those of coverage.py made anew."""
    old = model[0]["self_test"]
    lines = [s for s in old["structures"] if not coverage.is_coverage(s)]
    made = _whole(model, old["origin"] if lines else NUMPY, lines)
    return {**made, "tolerance": old["tolerance"]}


def renew_header(path):
    """Puts the right header_sha256 into a model file, whose comments and layout stay; returns it."""
    text, right = header.renewed(modelfile.read_text(path), path)
    write_bytes(path, text.encode())
    return right


def empty(architecture="painn"):
    """A self_test block without structures."""
    return {"origin": "none", "tolerance": modelfile.tolerance(architecture), "structures": []}


def structures_for(model, paths, seen=None):
    """Structures from the files `paths`, or standard ones made of the model's elements.

    seen: sets of elements that were trained together. Standard structures of other combinations are left out: a model
    may give any forces there, of 1e4 eV/A for example, which single precision cannot reproduce to the tolerance."""
    elements = model[0]["elements"]
    if not paths:
        trained = model[0]["domain"]["elements"]
        standard = self_test_structures(trained)
        if model[0]["architecture"] in ("nequip", "tensornet"):  # for crystals
            standard = small_structures(trained) or standard
        found = [s for s in standard if seen is None or any(set(s["elements"]) <= x for x in seen)]
        return found
    found = [s for path in paths for s in read_xyz(path)]
    for s in found:
        strange = set(s["elements"]) - set(elements)
        if strange:
            raise ModelError(f"structure '{s['name']}' has {sorted(strange)}, the model has {elements}")
    return found


@one_line("mlff_tools.selftest")
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m mlff_tools selftest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="model file, NAME.yaml")
    parser.add_argument("structures", nargs="*", help="XYZ files; without any: standard molecules and boxes")
    parser.add_argument(
        "--origin",
        choices=ORIGINS,
        default="auto",
        help="what computes the numbers (default: the "
        "package that the network is of if this Python has it, else numpy)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the structures of the file; renew those of elements")
    parser.add_argument("--header", action="store_true", help="renew header_sha256 alone, after a deliberate edit")
    parser.add_argument("--mlff", metavar="PATH", help="the program mlff (else $MLFF, build folders, PATH)")
    args = parser.parse_args(argv)
    path = modelfile.model_paths(args.model)[0]
    if args.header:
        print(f"{path}: {header.KEY} is {renew_header(path)}")
        return
    model = modelfile.read(args.model)
    head = dict(model[0])
    if args.keep:
        head["self_test"] = kept(model)
    else:
        head["self_test"] = block(model, structures_for(model, args.structures), args.origin, path, args.mlff)
    modelfile.write_head(path, head)
    made = head["self_test"]
    print(f"{path}: self-test of {len(made['structures'])} structures from {made['origin']}")
