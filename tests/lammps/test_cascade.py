"""Collision cascades with the repulsion of a shipped universal model, and the same without it."""

import os

import numpy as np
import pytest
import thermo
from harness import Case, System, fails, launch, mlff
from nightly import NIGHTLY

from mlff_tools.model import modelfile

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models")
TENSORNET = os.path.join(MODELS, "tensornet-matpes-r2scan.yaml")
MASS, ENERGY = 26.98, 200.0  # u, eV


def without_repulsion(folder):
    """The model with the same limits and no block."""
    head, tensors = modelfile.read(TENSORNET)
    head = {key: value for key, value in head.items() if key not in ("repulsion", "self_test")}
    head["self_test"] = {"origin": "none", "tolerance": modelfile.tolerance("tensornet"), "structures": []}
    modelfile.write(str(folder / "bare"), head, tensors)
    return str(folder / "bare.yaml")


def cascade(model, folder, steps=600):
    """[steps, 5] time (ps), time step, energies and the shortest distance of 108 atoms of aluminium at 600 K, of which
    one gets 200 eV. A step moves no atom by more than 0.01 A or gives it more than 1 eV."""
    direction = np.array([1.0, 0.37, 0.19])
    v = direction / np.linalg.norm(direction) * np.sqrt(2 * ENERGY / (MASS * 1.0364269e-4))
    out = launch(
        "units metal\natom_modify map yes\nlattice fcc 4.04\nregion box block 0 3 0 3 0 3\ncreate_box 1 box\n"
        f"create_atoms 1 box\nmass 1 {MASS}\n{mlff(model, 'Al', 'precision fp32')}\n"
        "velocity all create 600 1 loop geom\ngroup hit id 1\n"
        f"velocity hit set {v[0]} {v[1]} {v[2]} units box\nneighbor 1.0 bin\nneigh_modify every 1 delay 0 check yes\n"
        "fix 1 all nve\nfix 2 all dt/reset 1 1e-7 0.001 0.01 emax 1.0\ncompute pairs all pair/local dist\n"
        "compute near all reduce min c_pairs inputs local\nthermo_style custom step time dt pe etotal c_near\n"
        f"thermo_modify format float %.10g lost error\nthermo 1\nrun {steps}\n",
        str(folder),
    )
    rows = np.transpose(list(thermo.table(out).values())[1:])
    assert len(rows) == steps + 1
    return rows, out


def test_a_cascade_conserves_its_energy(tmp_path):
    """0.05 eV of 200 eV, also in collisions closer than 1 A; the log warns of these once."""
    found, out = cascade(TENSORNET, tmp_path, 2000 if NIGHTLY else 600)
    assert np.isfinite(found).all()
    assert 0.5 < found[:, 4].min() < 1.0
    assert np.abs(found[:, 3] - found[0, 3]).max() < (0.3 if NIGHTLY else 0.1)
    assert found[:, 2].min() > found[0, 2] - 5.0  # no well is deeper than the crystal
    assert out.count("the cutoff of the repulsion, which replaces the pairs that are missing") == 1


def test_without_the_repulsion_atoms_fall_into_wells(tmp_path):
    """In the same cascade the network pulls atoms together, in wells that no time step of this size follows."""
    found, _ = cascade(without_repulsion(tmp_path), tmp_path)
    assert np.abs(found[:, 3] - found[0, 3]).max() > 1.0


def aluminium_dimer(model, r, options, **more):
    system = System([1, 1], [[10.0, 10.0, 10.0], [10.0 + r, 10.0, 10.0]], [20.0] * 3, elements=["Al"])
    return Case("pair", system, mlff(model, "Al", "precision fp64 " + options), boundary="f f f", **more)


@pytest.mark.parametrize("r", (1.06, 1.3, 1.6))
def test_no_run_starts_inside_the_repulsion(tmp_path, r):
    """Below three quarters of the cutoff, 1.776 A; nearer ones only warn."""
    deck = aluminium_dimer(TENSORNET, r, "").text(str(tmp_path), single_point=False) + "run 0\n"
    if r < 0.75 * 1.776:
        text = fails(deck, tmp_path)
        assert f"Al-Al distance {r:g} A" in text and "below 1.776 A, the cutoff of the repulsion" in text, text
    else:
        assert launch(deck, str(tmp_path)).count("WARNING: pair_style mlff: in step 0 Al-Al distance") == 1
    launch(deck.replace("precision fp64", "precision fp64 domain ignore"), str(tmp_path))
