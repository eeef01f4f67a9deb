"""The shipped universal model (nequix-oam-1-pft) in LAMMPS: numbers of its package, every kind of box, on 1 to 4 ranks.

Double precision but where said otherwise. Where both sides are computed here, rounding alone may differ.
"""

import json
import os
import re

import numpy as np
import pytest
import thermo
from harness import Case, System, close, fails, launch, mlff, run, same
from nightly import NIGHTLY

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "nequix-oam-1-pft.yaml")
SHARED = os.environ.get("MLFF_SHARED_DIR", os.path.join(os.path.dirname(ROOT), "shared"))
REFERENCE = os.path.join(SHARED, "models", "nequix_reference.json")
FP64 = "precision fp64"
BAR = 1.6021765e6  # 1 eV/A^3 as LAMMPS has it in units metal
ROUNDING = 1.0e-10


def universal(elements, options=FP64):
    return mlff(MODEL, elements, options)


def case(name, system, options=FP64, **more):
    return Case(name, system, universal(" ".join(system.elements), options), **more)


# ---- systems --------------------------------------------------------------------------------------------------------

FCC = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])


def aluminium(n=(1, 1, 1), move=0.0, vacuum=(0.0, 0.0, 0.0)):
    """Cells of fcc aluminium, atoms moved at random by `move` A (one sigma), vacuum added to the box."""
    corners = np.stack(np.meshgrid(*map(np.arange, n), indexing="ij"), -1).reshape(-1, 1, 3)
    x = 4.04 * (FCC + corners).reshape(-1, 3) + 1.0
    x += move * np.random.default_rng(11).standard_normal(x.shape)
    return System(np.ones(len(x), int), x, 4.04 * np.array(n) + vacuum, elements=["Al"])


def salt(move=0.1, tilt=(0.4, -0.3, 0.5)):
    """One sheared cell of rock salt, 8 atoms."""
    box = np.array([5.7, 5.6, 5.8])
    system = System([1] * 4 + [2] * 4, np.concatenate([FCC, FCC + 0.5]), box, tilt, elements=["Na", "Cl"])
    system.x = system.x @ system.cell + move * np.random.default_rng(12).standard_normal((8, 3))
    return system


def corner():
    """Five atoms of salt in a corner of a large open box: of four ranks three have none."""
    near = salt(tilt=(0, 0, 0))
    return System(near.types[:5], near.x[:5] + 1.0, [80.0, 80.0, 80.0], elements=near.elements)


# ---- the package ----------------------------------------------------------------------------------------------------


def as_lammps(cell, positions):
    """(system's box, tilt, positions, rotation): LAMMPS has a along x and b in the xy plane. No cell: a large box."""
    if cell is None:
        return np.full(3, 60.0), (0.0, 0.0, 0.0), positions - positions.mean(axis=0) + 30.0, np.eye(3)
    q, r = np.linalg.qr(np.array(cell).T)
    sign = np.sign(np.diag(r))
    turn, lower = (q * sign).T, (r * sign[:, None]).T
    return np.diag(lower), (lower[1, 0], lower[2, 0], lower[2, 1]), positions @ turn.T, turn


@pytest.mark.skipif(not os.path.exists(REFERENCE), reason=f"the package's numbers are not there: {REFERENCE}")
@pytest.mark.parametrize("ranks", (1, 4))
def test_reference(tmp_path, ranks):
    """Energies of atoms, forces and stress of the package in double: crystals, own images, triclinic, molecules, an
    atom; on four ranks some have no atoms."""
    with open(REFERENCE, encoding="utf-8") as f:
        structures = json.load(f)["structures"]
    cases, expected = [], {}
    for name, s in structures.items():
        if len(s["symbols"]) > (32 if ranks == 1 else 16):
            continue
        elements = sorted(set(s["symbols"]))
        box, tilt, x, turn = as_lammps(s["cell"], np.array(s["positions"]))
        system = System([elements.index(e) + 1 for e in s["symbols"]], x, box, tilt, elements=elements)
        cases.append(case(name, system, boundary="p p p" if all(s["pbc"]) else "f f f"))
        expected[name] = (s["models"]["nequix-oam-1-pft"], turn)
    assert len(cases) >= 8
    results = run(cases, tmp_path, ranks)
    for name, (numbers, turn) in expected.items():
        r = results[name]
        close(r.energy, numbers["energy"], 1e-9 * len(r.f), f"{name}: energy")
        close(r.eatom, numbers["energies"], 1e-9, f"{name}: energies of atoms")
        close(r.f @ turn, numbers["forces"], 1e-9, f"{name}: forces")
        if numbers["stress"]:
            stress = turn @ np.array(numbers["stress"]) @ turn.T  # of tension; LAMMPS: xx yy zz xy xz yz
            close(-r.pressure / BAR, stress[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]], 1e-10, f"{name}: stress")


# ---- boxes and ranks ------------------------------------------------------------------------------------------------


def test_one_atom(tmp_path):
    """The primitive cell of fcc has one atom, whose neighbors are its own images: energy and stress of the cubic cell
    and of 27 primitive ones, on one rank and where most have no atom."""
    half = 4.04 / np.sqrt(2)
    box, tilt = half * np.array([1, np.sqrt(3) / 2, np.sqrt(2 / 3)]), half * np.array([0.5, 0.5, np.sqrt(1 / 12)])
    primitive = System([1], [[0.3, 0.2, 0.1]], box, tuple(tilt), elements=["Al"])
    cases = [case("one", primitive), case("many", primitive, after="replicate 3 3 3"), case("cubic", aluminium())]
    for ranks in (1, 4):
        r = run(cases, tmp_path, ranks)
        for name, n in (("many", 27), ("cubic", 4)):
            close(r[name].energy / n, r["one"].energy, ROUNDING, f"{name}, {ranks} ranks: energy per atom")
            close(r[name].pressure[:3], r["one"].pressure[:3], 1e-4, f"{name}, {ranks} ranks: pressure")
        assert abs(r["one"].pressure[0]) > 100, "bar; a cell without stress would show nothing"
        close(r["one"].f, np.zeros((1, 3)), ROUNDING, "force on an atom and its images")


def test_vacuum(tmp_path):
    """A slab, a wire and a cluster are what they are in a periodic box with more vacuum than the cutoff."""
    cases = []
    for name, boundary, axes in (("slab", "p p f", [2]), ("wire", "p s s", [1, 2]), ("cluster", "f f f", [0, 1, 2])):
        vacuum = np.zeros(3)
        vacuum[axes] = 8.0
        system = aluminium((1, 1, 2), move=0.15, vacuum=vacuum)
        cases += [case(name, system, boundary=boundary), case(name + "_3d", system)]
    r = run(cases, tmp_path)
    for name in ("slab", "wire", "cluster"):
        close(r[name].energy, r[name + "_3d"].energy, 8 * ROUNDING, f"{name}: energy")
        close(r[name].f, r[name + "_3d"].f, ROUNDING, f"{name}: forces")
    different = [r[a].energy - r[b].energy for a, b in (("slab", "wire"), ("wire", "cluster"))]
    assert min(np.abs(different)) > 0.1, "eV; the surfaces cost nothing"


SYSTEMS = {
    "salt": (salt, "p p p"),
    "slab": (lambda: aluminium((1, 1, 2), 0.15, (0, 0, 10.0)), "p p f"),
    "wire": (lambda: aluminium((2, 1, 1), 0.15, (0, 10.0, 10.0)), "p f f"),
    "corner": (corner, "f f f"),
}


@pytest.fixture(scope="module")
def on_one(tmp_path_factory):
    cases = [case(name, make(), boundary=boundary) for name, (make, boundary) in SYSTEMS.items()]
    return run(cases, tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("newton", ("on", "off"))
@pytest.mark.parametrize("ranks", (1, 2, 3, 4) if NIGHTLY else (1, 3))
def test_ranks(on_one, tmp_path, ranks, newton):
    """Energies and stress of atoms too; they sum to those of the system, forces to nothing."""
    cases = [case(name, make(), boundary=boundary, newton=newton) for name, (make, boundary) in SYSTEMS.items()]
    for name, r in run(cases, tmp_path, ranks).items():
        same(r, on_one[name], ROUNDING, f"{name}, {ranks} ranks, newton {newton}")
        close(r.eatom.sum(), r.energy, 1e-9, f"{name}: sum of energies")
        close(-r.stress.sum(axis=0), r.pressure * r.volume, 1e-2, f"{name}: sum of stresses")
        close(r.f.sum(axis=0), [0, 0, 0], 1e-9, f"{name}: sum of forces")
        assert abs(r.f).max() > 0.1, f"{name}: forces are too small to show anything"


@pytest.mark.parametrize("ranks", (1, 2))
def test_hybrid(tmp_path, ranks):
    """Salt by the model and argon by lj/cut in one box, NULL for argon: the sum of what each gives alone."""
    both = salt()
    both = System([*both.types, 3], [*both.x, [2.8, 2.8, 12.0]], both.box + [0, 0, 12], elements=["Na", "Cl", "Ar"])
    lj = "pair_coeff * 3 lj/cut 0.01 3.3"
    cases = [
        Case("salt", both.only([1, 2]), universal("Na Cl Na", FP64 + " masses no")),
        Case("argon", both, f"pair_style hybrid lj/cut 8.0\npair_coeff 1*2 1*2 none\n{lj}"),
        Case("hybrid", both, f"pair_style hybrid mlff {FP64} lj/cut 8.0\npair_coeff * * mlff {MODEL} Na Cl NULL\n{lj}"),
    ]
    r = run(cases, tmp_path, ranks)
    close(r["hybrid"].energy, r["salt"].energy + r["argon"].energy, 1e-9, "energy")
    forces = r["argon"].f.copy()
    assert abs(forces).max() > 1e-3, "argon does not feel the salt"
    forces[:8] += r["salt"].f
    close(r["hybrid"].f, forces, 1e-9, "forces")
    close(r["hybrid"].pressure, r["salt"].pressure + r["argon"].pressure, 1e-4, "pressure")


# ---- runs -----------------------------------------------------------------------------------------------------------


def silicon(tilt=(0.0, 0.0, 0.0)):
    """Eight atoms of diamond, stretched by 1 %."""
    x = np.concatenate([FCC, FCC + 0.25])
    system = System(np.ones(8, int), x, np.full(3, 5.487 * 1.01), tilt, elements=["Si"])
    system.x = system.x @ system.cell
    return system


@pytest.mark.parametrize("relax", ("iso", "tri"))
def test_box_relax(tmp_path, relax):
    """Minimising with the cell, from stretched and sheared ones, finds the minimum of the energy over volume."""
    tilt = (0.1, -0.05, 0.08) if relax == "tri" else (0.0, 0.0, 0.0)
    deck = case("si", silicon(tilt)).text(str(tmp_path), single_point=False)
    deck += (
        f"fix cell all box/relax {relax} 0.0 vmax 0.002\nminimize 0 1e-6 300 3000\nunfix cell\nrun 0\n"
        'print "END $(press:%.8g) $(vol/atoms:%.10g) $(pe:%.12g) $(abs(pxy)+abs(pxz)+abs(pyz):%.8g)"\n'
    )
    for factor in (0.995, 1.005):
        scaled = " ".join(f"{axis} scale {factor}" for axis in "xyz")
        deck += f'change_box all {scaled} remap\nrun 0\nprint "NEAR $(pe:%.12g)"\n'
        deck += f"change_box all {' '.join(f'{axis} scale $(1/{factor})' for axis in 'xyz')} remap\n"
    output = launch(deck, str(tmp_path))
    pressure, volume, energy, shear = map(float, re.search(r"^END (.*)$", output, re.M)[1].split())
    near = [float(x) for x in re.findall(r"^NEAR (\S+)", output, re.M)]
    assert abs(pressure) < 20 and shear < 20, f"bar: {pressure}, {shear}"
    assert len(near) == 2 and min(near) > energy + 1e-3, f"{near} {energy}"
    # benchmarks/studies/lattice_constants.py, from energies alone
    close((8 * volume) ** (1 / 3), published("Si"), 1e-3, "lattice constant")


def published(solid):
    """Lattice constant in benchmarks/results."""
    with open(os.path.join(ROOT, "benchmarks", "results", "nequix-oam-1-pft-lattice-constants.txt")) as f:
        return float(re.search(rf"^{solid} +\w+ +(\S+)", f.read(), re.M)[1])


def test_npt(tmp_path):
    """A few steps of a hot triclinic cell that changes its shape, in single precision, on two ranks: what is conserved
    is, although energy and volume move."""
    deck = case("salt", salt(move=0.02, tilt=(0.2, -0.1, 0.2)), options="").text(str(tmp_path), single_point=False)
    deck += (
        "replicate 2 1 1\nvelocity all create 600 4711\ntimestep 0.001\nfix 1 all npt temp 300 300 0.1 tri 0 0 0.5\n"
        "thermo_style custom step pe vol econserve\nthermo_modify format float %.12g\nthermo 1\nrun 25\n"
    )
    output = launch(deck, str(tmp_path), ranks=2)
    step, energy, volume, conserved = thermo.table(output).values()
    assert step.tolist() == list(range(26))
    assert np.ptp(energy) > 0.1 and np.ptp(volume) > 0.1, "nothing moved"
    assert np.ptp(conserved) < 0.02 * np.ptp(energy), f"{np.ptp(conserved)} of {np.ptp(energy)} eV"


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ("Po", "At", "Rn", "Fr", "Ra", "Am", "Og"))
def test_unknown_elements(tmp_path, element):
    """Between and beyond the 89."""
    text = fails("units metal\nregion b block 0 4 0 4 0 4\ncreate_box 1 b\nmass 1 1.0\n" + universal(element), tmp_path)
    assert f"element '{element}' is not in the model" in text and " Bi Ac Th " in text, text


@pytest.mark.parametrize("ranks", (1, 2))
def test_too_close(tmp_path, ranks):
    """The file's smallest distance, 0.3 A: one error with both atoms, in any step."""
    pair = System([1, 1], [[10.0, 10.0, 10.0], [12.5, 10.0, 10.0]], [20.0] * 3, elements=["Al"])
    deck = case("pair", pair, boundary="f f f").text(str(tmp_path), single_point=False)
    launch(deck + "run 0\n", str(tmp_path), ranks)
    text = fails(
        deck + "velocity all set 0 0 0\ngroup one id 1\nvelocity one set 2300 0 0\nfix 1 all nve\nrun 1\n",
        tmp_path,
        ranks,
    )
    assert (
        "closer than the 0.3 A" in text and "domain.min_distance" in text and "atom 1 (Al) and atom 2 (Al)" in text
    ), text
    assert text.count("ERROR") == 1, text
