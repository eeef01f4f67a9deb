"""The short-range repulsion of model files: against LAMMPS' own pair_style zbl, and on ranks where forces of the
network are outputs. What is conservative is in test_ranks.py and test_physics.py (model `repelling`)."""

import models
import numpy as np
import pytest
from harness import Case, System, close, mlff, run, same, water

FP64 = "precision fp64"
NUMBERS = {"H": 1, "O": 8}
ZBL = "pair_style zbl 30.0 31.0\npair_coeff 1 1 8 8\npair_coeff 1 2 8 1\npair_coeff 2 2 1 1"


def switch(x):
    """What a model file multiplies ZBL's energy by, and its derivative by x = r/cutoff."""
    return (1 - x) ** 3 * (1 + 3 * x + 6 * x * x), -30 * x * x * (1 - x) ** 2


@pytest.mark.parametrize("units", ("metal", "real"))
def test_is_that_of_pair_style_zbl(tmp_path, units):
    """Dimers: what the block adds to energy, forces and pressure is LAMMPS' times the switch. That of LAMMPS ends at 31
    A, where nothing is left of it."""
    with_block = models.painn(tmp_path / "with", repulsion=models.REPULSION)
    without = models.painn(tmp_path / "without")
    cutoffs = models.REPULSION["cutoffs"]
    pairs = {"H-O": [1, 2], "H-H": [2, 2], "O-O": [1, 1]}
    direction = np.array([0.6, -0.48, 0.64])
    cases, places = [], {}
    for pair, types in pairs.items():
        for k, x in enumerate((0.4, 0.7, 0.95, 1.05)):
            name = f"{pair.replace('-', '')}{k}"
            places[name] = (pair, x * cutoffs[pair])
            two = System(types, [[40.0] * 3, 40.0 + x * cutoffs[pair] * direction], [80.0] * 3)
            for kind, style in (("w", mlff(with_block, options=FP64)), ("o", mlff(without, options=FP64)), ("z", ZBL)):
                cases.append(Case(name + kind, two, style, units=units, boundary="f f f"))
    found = run(cases, tmp_path)
    for name, (pair, r) in places.items():
        w, o, z = (found[name + kind] for kind in "woz")
        s, slope = switch(r / cutoffs[pair]) if r < cutoffs[pair] else (0.0, 0.0)
        force = z.f[1] * s - z.energy * slope / cutoffs[pair] * direction
        size = max(1.0, abs(z.energy))
        # 23.06 kcal/mol per eV and the digits of both constants in units real: 1e-6 apart in LAMMPS
        near = (1e-9 if units == "metal" else 3e-6) * size
        close(w.energy - o.energy, z.energy * s, near, f"{name}: energy")
        close(w.f - o.f, np.array([-force, force]), 3 * near, f"{name}: force")
        close(w.eatom - o.eatom, np.full(2, 0.5 * z.energy * s), near, f"{name}: energies of atoms")
        close(w.f.sum(0), np.zeros(3), 1e-9 * size, f"{name}: sum of forces")
        assert (abs(w.energy - o.energy) > 1e-6) == (r < cutoffs[pair]), name


def test_direct_forces_on_ranks(zoo, tmp_path):
    """Pairs of two ranks are counted once, newton on or off."""
    cases = [
        Case(f"{model}_{newton}", water(3), mlff(zoo[model], options=FP64), newton=newton, per_atom=False)
        for model in ("orb", "repelling_orb")
        for newton in ("on", "off")
    ]
    one = run(cases, tmp_path)
    for ranks in (2, 3):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        found = run(cases, folder, ranks)
        for case in cases:
            same(found[case.name], one["repelling_orb_on" if "repelling" in case.name else "orb_on"], 1e-8, case.name)


def test_direct_forces(tmp_path):
    """What is added to a network whose forces are outputs is what is added to one whose forces are derivatives."""
    cases = []
    for name, make in (("orb", models.orb), ("painn", models.painn)):
        for kind, more in (("w", {"repulsion": models.REPULSION}), ("o", {})):
            path = make(tmp_path / (name + kind), **more)
            cases.append(Case(name + kind, water(3), mlff(path, options=FP64), per_atom=False))
    found = run(cases, tmp_path)
    added = [
        (found[n + "w"].energy - found[n + "o"].energy, found[n + "w"].f - found[n + "o"].f,
         found[n + "w"].pressure - found[n + "o"].pressure)
        for n in ("orb", "painn")
    ]  # fmt: skip
    assert added[0][0] > 1.0 and np.abs(added[0][1]).max() > 1.0
    close(added[0][0], added[1][0], 1e-8, "energy")
    close(added[0][1], added[1][1], 1e-8, "forces")
    close(added[0][2], added[1][2], 1e-3, "pressure")
