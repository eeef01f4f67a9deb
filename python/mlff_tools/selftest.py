"""Fills the self_test block of a model file: `python -m mlff_tools.selftest MODEL.yaml [STRUCTURES.xyz ...]`.

The numbers come from the float64 numpy evaluation of mlff_tools.reference (independent of the engine that will have to
reproduce them), or with --origin mlff from the program `mlff` in double precision.
"""

import argparse
import sys

import numpy as np

from . import engine, modelfile, reference
from .modelfile import ModelError
from .structures import read_xyz, self_test_structures


def block(model, structures, origin="reference", yaml_path=None, program=None):
    """The self_test mapping of a model file for `structures`."""
    lines = []
    if origin == "mlff":
        results, text = engine.evaluate(yaml_path, structures, precision="fp64", program=program)
    else:
        results = [reference.evaluate(model, s) for s in structures]
        text = "mlff_tools.reference, numpy float64"
    for s, (energy, forces, virial) in zip(structures, results):
        if not (np.isfinite(energy) and np.isfinite(forces).all() and np.isfinite(virial).all()):
            raise ModelError(f"structure '{s['name']}': energy, forces or virial are not finite")
        lines.append({
            "name": s["name"], "elements": list(s["elements"]), "positions": np.asarray(s["positions"]).tolist(),
            "cell": "none" if s["cell"] is None else np.asarray(s["cell"]).tolist(),
            "energy": float(energy), "forces": np.asarray(forces).tolist(), "virial": np.asarray(virial).tolist()})
    return {"origin": text, "tolerance": {k: dict(v) for k, v in modelfile.TOLERANCE.items()}, "structures": lines}


def empty():
    """A self_test block without structures."""
    return {"origin": "none", "tolerance": {k: dict(v) for k, v in modelfile.TOLERANCE.items()}, "structures": []}


def structures_for(model, paths, seen=None):
    """Structures from the files `paths`, or standard ones made of the model's elements.

    seen: sets of elements that were trained together. Standard structures of other combinations are left out: a model may
    give any forces there, of 1e4 eV/A for example, which single precision cannot reproduce to the tolerance."""
    elements = model[0]["elements"]
    if not paths:
        trained = model[0]["domain"]["elements"]
        found = [s for s in self_test_structures(trained) if seen is None or any(set(s["elements"]) <= x for x in seen)]
        if not found:
            raise ModelError(f"no standard structure is made of {', '.join(trained)}: give structures as XYZ files")
        return found
    found = [s for path in paths for s in read_xyz(path)]
    for s in found:
        strange = set(s["elements"]) - set(elements)
        if strange:
            raise ModelError(f"structure '{s['name']}' has {sorted(strange)}, the model knows {elements}")
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m mlff_tools.selftest", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model file, NAME.yaml")
    parser.add_argument("structures", nargs="*", help="XYZ files; without any: standard molecules and boxes")
    parser.add_argument("--origin", choices=("reference", "mlff"), default="reference", help="what computes the numbers")
    parser.add_argument("--mlff", metavar="PATH", help="the program mlff (else $MLFF, build folders, PATH)")
    args = parser.parse_args(argv)
    try:
        model = modelfile.read(args.model)
        structures = structures_for(model, args.structures)
        path = modelfile.model_paths(args.model)[0]
        head = dict(model[0])
        head["self_test"] = block(model, structures, args.origin, path, args.mlff)
        modelfile.write_head(path, head)
    except ModelError as e:
        sys.exit(f"mlff_tools.selftest: error: {e}")
    print(f"{path}: self-test of {len(structures)} structures from {head['self_test']['origin']}")


if __name__ == "__main__":
    main()
