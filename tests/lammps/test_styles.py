"""Hybrid styles, atom styles, units, and the spread of an ensemble."""

import os
import re

import models
import numpy as np
import pytest
import thermo
from harness import Case, Failed, System, close, launch, mlff, read_dump, run, same, water

from mlff_tools.model import modelfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FP64 = "precision fp64"
FACTOR = 23.060549
NO_LJ = "pair_coeff 1*2 1*2 lj/cut 0.0 1.0"


def with_argon():
    """27 molecules of water of which seven became argon, type 3."""
    box = water(3)
    replaced = np.isin(box.molecule, (2, 6, 11, 15, 19, 22, 26))
    keep = ~(replaced & (box.types == 2))
    types = np.where(replaced, 3, box.types)
    return System(types[keep], box.x[keep], box.box, molecule=box.molecule[keep], elements=("O", "H", "Ar"))


def four_types():
    """Water whose second half has types 3 and 4."""
    box = water(3)
    return System(
        np.where(box.molecule > 13, box.types + 2, box.types),
        box.x,
        box.box,
        molecule=box.molecule,
        elements=("O", "H", "O", "H"),
    )


def add(*results):
    """Sum of energies, forces and stresses of several results of the same atoms."""
    total = results[0]
    for r in results[1:]:
        total.energy, total.pressure = total.energy + r.energy, total.pressure + r.pressure
        total.f, total.eatom, total.stress = total.f + r.f, total.eatom + r.eatom, total.stress + r.stress
    return total


def spread_over(result, system, types):
    """A result of some atoms of `system`, as one of all of them: zeros for the others."""
    keep = np.isin(system.types, types)
    for name in ("f", "eatom", "stress"):
        values = getattr(result, name)
        full = np.zeros((len(keep),) + values.shape[1:])
        full[keep] = values
        setattr(result, name, full)
    return result


@pytest.mark.parametrize("ranks", (1, 2))
def test_centroid_virials_in_hybrid(zoo, tmp_path, ranks):
    """Those of the sub-styles add up; atoms of other styles and pair_style zero have none of mlff; Orb refuses."""
    mixed, whole = with_argon(), water(3)
    painn, ani = zoo["painn"], zoo["ani"]
    centroid = {"more": "compute cent all centroid/stress/atom NULL virial", "columns": "c_cent[*]"}
    overlay = f"pair_style hybrid/overlay mlff {FP64} mlff {FP64}\npair_coeff * * mlff 1 {painn} O H\n"
    zero = f"pair_style hybrid/overlay mlff {FP64} zero 4.0\npair_coeff * * zero\npair_coeff * * mlff {painn} O H NULL"
    cases = [
        Case("first", whole, mlff(painn, options=FP64), **centroid),
        Case("second", whole, mlff(ani, options=FP64), **centroid),
        Case("two", whole, overlay + f"pair_coeff * * mlff 2 {ani} O H", **centroid),
        Case("water", mixed.only([1, 2]), mlff(painn, "O H O", FP64 + " masses ignore"), **centroid),
        Case("zero", mixed, zero, **centroid),
    ]
    r = run(cases, tmp_path, ranks)
    assert np.abs(r["first"].extra).max() > 1e4
    close(r["two"].extra, r["first"].extra + r["second"].extra, 1e-3, "two sub-styles")
    is_water = np.isin(mixed.types, [1, 2])
    close(r["zero"].extra[is_water], r["water"].extra, 1e-3, "atoms of the model")
    close(r["zero"].extra[~is_water], np.zeros_like(r["zero"].extra[~is_water]), 1e-9, "other atoms")
    pair = f"pair_style hybrid/overlay mlff {FP64} zero 4.0\npair_coeff * * zero\npair_coeff * * mlff {zoo['orb']} O H"
    with pytest.raises(Failed, match="centroid/stress/atom"):
        run([Case("orb", whole, pair, **centroid)], tmp_path, ranks)


@pytest.mark.parametrize("ranks", (1, 3))
def test_hybrid(zoo, tmp_path, ranks):
    """mlff for water and lj/cut for argon add up to what each gives alone; overlay with NULL; two mlff sub-styles."""
    mixed, split, whole = with_argon(), four_types(), water(3)
    painn, ani = zoo["painn"], zoo["ani"]
    lj = "pair_coeff * 3 lj/cut 0.01 3.3"
    both = f"mlff {FP64} mlff {FP64}"
    cases = [
        # three types although argon is gone; its mass does not matter
        Case("water", mixed.only([1, 2]), mlff(painn, "O H O", FP64 + " masses ignore")),
        Case("argon", mixed, f"pair_style hybrid lj/cut 6.0\n{NO_LJ}\n{lj}"),
        Case("everywhere", mixed, "pair_style hybrid lj/cut 6.0\npair_coeff * * lj/cut 0.002 2.5"),
        Case("hybrid", mixed, f"pair_style hybrid mlff {FP64} lj/cut 6.0\npair_coeff * * mlff {painn} O H NULL\n{lj}"),
        Case(
            "overlay",
            mixed,
            f"pair_style hybrid/overlay lj/cut 6.0 mlff {FP64}\npair_coeff * * lj/cut 0.002 2.5\n"
            f"pair_coeff * * mlff {painn} O H NULL",
        ),
        Case("first", whole, mlff(painn, options=FP64)),
        Case("second", whole, mlff(ani, options=FP64)),
        Case(
            "two",
            whole,
            f"pair_style hybrid/overlay {both}\npair_coeff * * mlff 1 {painn} O H\npair_coeff * * mlff 2 {ani} O H",
        ),
        Case("half1", split.only([1, 2]), mlff(painn, "O H O H", FP64)),
        Case("half2", split.only([3, 4]), mlff(ani, "O H O H", FP64)),
        Case(
            "halves",
            split,
            f"pair_style hybrid {both}\npair_coeff * * mlff 1 {painn} O H NULL NULL\n"
            f"pair_coeff * * mlff 2 {ani} NULL NULL O H\npair_coeff 1*2 3*4 none",
        ),
    ]
    for case in cases:
        case.newton = "off" if ranks == 3 else "on"
    r = run(cases, tmp_path, ranks)
    pure = spread_over(r["water"], mixed, [1, 2])
    same(r["hybrid"], add(r["argon"], pure), 1e-9, "hybrid")
    same(r["overlay"], add(r["everywhere"], pure), 1e-9, "overlay with NULL")
    same(r["two"], add(r["first"], r["second"]), 1e-9, "two sub-styles overlaid")
    halves = add(spread_over(r["half1"], split, [1, 2]), spread_over(r["half2"], split, [3, 4]))
    same(r["halves"], halves, 1e-9, "two sub-styles side by side")


def test_atom_styles(zoo, tmp_path):
    """The atom style does not matter; bonded neighbors are there when special_bonds keeps them in the list."""
    system, pair = water(3), mlff(zoo["painn"], options=FP64)
    cases = [Case(style, system, pair, style=style) for style in ("atomic", "charge", "molecular", "full")]
    cases += [
        Case("kept", system, pair, style="molecular", bonds=True, before="special_bonds lj/coul 1 1 1"),
        Case("tiny", system, pair, style="full", bonds=True, before="special_bonds lj/coul 1e-50 1e-50 1e-50"),
    ]
    r = run(cases, tmp_path)
    for case in cases[1:]:
        same(r[case.name], r["atomic"], 1e-11, case.name)


def test_units(zoo, tmp_path):
    """units real is units metal in kcal/mol."""
    system = water(3)
    r = run(
        [Case(units, system, mlff(zoo["painn"], options=FP64), units=units) for units in ("metal", "real")], tmp_path
    )
    metal, real = r["metal"], r["real"]
    close(real.energy, FACTOR * metal.energy, 1e-7, "energy")
    close(real.f, FACTOR * metal.f, 1e-9, "force")
    close(real.eatom, FACTOR * metal.eatom, 1e-9, "energy of atom")
    pressure = FACTOR * 68568.415 / 1.6021765e6  # nktv2p of both unit styles
    close(real.pressure, pressure * metal.pressure, 1e-2, "pressure")
    close(real.stress, pressure * metal.stress, 1e-1, "stress of atom")


@pytest.mark.parametrize("name", ("painn", "ani"))
def test_free_atoms(zoo, tmp_path, name):
    """Keyword e0: total and atomic energies without those of free atoms; everything else is the same."""
    system = water(3)
    cases = [Case(e0, system, mlff(zoo[name], options=f"{FP64} e0 {e0}")) for e0 in ("yes", "no")]
    with_atoms, without = run(cases, tmp_path).values()
    offsets = modelfile.read(zoo[name])[0]["energy_offsets"]
    expected = np.array([offsets[symbol] for symbol in system.symbols])
    assert np.abs(expected).min() > 0.0
    close(with_atoms.eatom - without.eatom, expected, 1e-9, "energies of atoms")
    close(with_atoms.energy - without.energy, expected.sum(), 1e-7, "energy")
    close(with_atoms.f, without.f, 1e-12, "forces")
    close(with_atoms.pressure, without.pressure, 1e-6, "pressure")


def test_minimize_without_free_atoms(tmp_path):
    """LAMMPS' energy tolerance is relative to the total energy, which for water is nearly all of free atoms."""
    model = os.path.join(ROOT, "models", "water-xs.yaml")
    forces = {}
    for e0 in ("yes", "no"):
        case = Case(e0, water(3), mlff(model, options=f"{FP64} domain ignore e0 {e0}"))
        text = case.text(str(tmp_path), single_point=False)
        text += "thermo_style custom step pe fmax\nminimize 1e-6 1e-8 300 3000\nprint 'FMAX $(fmax)'\n"
        forces[e0] = float(re.search(r"^FMAX (\S+)", launch(text, str(tmp_path)), re.M).group(1))
    assert forces["no"] < 0.2 * forces["yes"], forces


def test_fewer_elements(zoo, tmp_path):
    """A type of its own for every element, in any order, and elements of the model that do not occur."""
    system = water(3)
    swapped = System(3 - system.types, system.x, system.box, elements=("H", "O"))
    only_o = system.only([1])
    r = run(
        [
            Case("first", system, mlff(zoo["painn"], options=FP64)),
            Case("swapped", swapped, mlff(zoo["painn"], "H O", FP64)),
            Case("oxygen", only_o, mlff(zoo["painn"], "O H", FP64)),
            Case(
                "alone",
                System([1] * len(only_o.x), only_o.x, only_o.box, elements=("O",)),
                mlff(zoo["painn"], "O", FP64),
            ),
        ],
        tmp_path,
    )
    same(r["swapped"], r["first"], 1e-12, "types in another order")
    same(r["alone"], r["oxygen"], 1e-12, "without hydrogen")


# ---- spread of an ensemble ------------------------------------------------------------------------------------------


def members(zoo, folder):
    """Models of one member each, made from those of the ensemble."""
    head, tensors = modelfile.read(zoo["ani"])
    n, paths = head["ani"]["n_members"], []
    for m in range(n):
        one = {**head, "ani": {**head["ani"], "n_members": 1}}
        own = {k.replace(f"member.{m}.", "member.0."): v for k, v in tensors.items() if k.startswith(f"member.{m}.")}
        paths.append(models.write(folder / f"member{m}", one, own))
    return paths


@pytest.mark.parametrize("units, factor", (("metal", 1.0), ("real", FACTOR)))
@pytest.mark.parametrize("ranks", (1, 2))
def test_spread(zoo, tmp_path, units, factor, ranks):
    """compute pair and fix pair give the standard deviation over members that members run alone give."""
    system, paths = water(2), members(zoo, tmp_path)
    alone = run([Case(f"m{k}", system, mlff(path, options=FP64)) for k, path in enumerate(paths)], tmp_path)
    totals = np.array([alone[f"m{k}"].energy for k in range(len(paths))])
    atoms = np.array([alone[f"m{k}"].eatom for k in range(len(paths))]).std(axis=0, ddof=1)
    more = (
        "compute spread all pair mlff\nfix spread all pair 1 mlff spread 0\n"
        "fix trigger all pair 1 mlff spread 1\nthermo_style custom step c_spread[*]"
    )
    case = Case(
        "ensemble", system, mlff(zoo["ani"], options=FP64), units=units, more=more, columns="f_spread f_trigger"
    )
    text = case.text(str(tmp_path)).replace(
        "thermo_style custom step pe c_press", "thermo_style custom step c_spread[*] pe c_press"
    )
    text += 'print "SPREAD $(c_spread[1]:%.17g) $(c_spread[2]:%.17g) $(c_spread[3]:%.17g)"\n'
    output = launch(text, str(tmp_path), ranks)
    three = [float(x) for x in re.search(r"^SPREAD (.*)$", output, re.M).group(1).split()]
    dump = read_dump(str(tmp_path / "ensemble.dump"))
    close(
        three,
        factor * np.array([totals.std(ddof=1), np.sqrt((atoms**2).mean()), atoms.max()]),
        1e-9 * factor,
        "spread of the energy, rms and largest of an atom's",
    )
    close(dump[:, 15], factor * atoms, 1e-9 * factor, "spread of atom")
    close(dump[:, 16], factor * atoms, 1e-9 * factor, "spread of atom, triggered")


@pytest.mark.parametrize("ranks", (1, 2))
def test_scaled_by_a_variable(zoo, tmp_path, ranks):
    """hybrid/scaled with a factor that changes every step scales energy and pressure of each step."""
    pair = f"pair_style hybrid/scaled v_f mlff {FP64} domain ignore 1.0 zero 4.0\npair_coeff * * zero\n"
    case = Case(
        "scaled", water(2), pair + f"pair_coeff * * mlff {zoo['painn']} O H", before="variable f equal 0.1*step"
    )
    deck = case.text(str(tmp_path), single_point=False)
    deck += (
        "compute one all pair mlff\nthermo_style custom step v_f c_one pe\nthermo 1\nthermo_modify format float %.16g\n"
    )
    output = launch(deck + "fix 1 all nve\ntimestep 0.0001\nrun 3\n", str(tmp_path), ranks)
    step, factor, one, energy = thermo.table(output).values()
    close(factor, 0.1 * step, 1e-12, "factor")
    close(energy, factor * one, 1e-9, "energy")
