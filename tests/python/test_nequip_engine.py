"""The engine against the published programs: every network of the shared directory, from its description to forces.

Numbers are those of nequix and sevenn in double; in single precision twice what the packages themselves round.
"""

import json
import os

import helpers
import nightly
import numpy as np
import pytest

from mlff_tools.convert import command as convert
from mlff_tools.model import engine

MODELS = {
    "nequip_tiny": "nequip_tiny",
    "nequip_tiny7": "nequip_tiny7",
    "nequip_pkg_tiny": "nequip_pkg_tiny",
    "nequix-mp-1": "nequix",
    "nequix-oam-1-pft": "nequix",
    "sevennet-0": "sevennet",
    "sevennet-l3i5": "sevennet",
}
# eV/atom, eV/A, eV/A^3
TOLERANCE = {"fp64": (1e-12, 1e-11, 1e-13), "fp32": (5e-6, 5e-5, 5e-7)}


def reference(name):
    """(structures, results) of a network; structures that are periodic in some directions only are LAMMPS' to test."""
    with open(os.path.join(helpers.PUBLISHED, MODELS[name] + "_reference.json"), encoding="utf-8") as f:
        all_structures = json.load(f)["structures"]
    found = [s for s in all_structures.values() if name in s["models"] and len(set(s["pbc"])) == 1]
    return [
        {"name": "", "elements": s["symbols"], "positions": np.array(s["positions"]), "cell": s["cell"]} for s in found
    ], [s["models"][name] for s in found]


def stress(structure, virial):
    """[3, 3] in eV/A^3, tension positive."""
    xx, yy, zz, xy, xz, yz = -np.array(virial) / abs(np.linalg.det(structure["cell"]))
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


@pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)
@pytest.mark.parametrize("precision", list(TOLERANCE))
@pytest.mark.parametrize("name", [pytest.param(n, marks=nightly.only) if n == "sevennet-l3i5" else n for n in MODELS])
def test_published(name, precision, tmp_path):
    program = helpers.program()
    if not program:
        pytest.skip("the program mlff is not built")
    energy, force, pressure = TOLERANCE[precision]
    source, out = os.path.join(helpers.PUBLISHED, name + ".yaml"), str(tmp_path / name)
    convert.main(["nequip", source, "-o", out, "--no-self-test"])
    structures, expected = reference(name)
    assert len(structures) >= 3
    results, _ = engine.evaluate(out + ".yaml", structures, precision, program)
    for s, e, (total, forces, virial) in zip(structures, expected, results):
        assert abs(total - e["energy"]) <= energy * len(s["elements"])
        assert np.abs(forces - np.array(e["forces"])).max() <= force
        if s["cell"] is not None:
            assert np.abs(stress(s, virial) - np.array(e["stress"])).max() <= pressure
