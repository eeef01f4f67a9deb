"""Orb in LAMMPS: results of the numpy reference, the same on any number of ranks, and errors with their reasons.

Traps of models.md that show here: O3 ties, O4 edges that cross ranks, O5 sums over all atoms, O6 net force, O7 torque
of open systems only, O9 order of the stress, O16 atoms without neighbors.
"""

import re

import numpy as np
import pytest
from harness import CLEAR, Case, System, close, crystal, fails, launch, mlff, run, same, water
from nightly import NIGHTLY

from mlff_tools.model import modelfile, reference

FP64 = "precision fp64"
BAR = 1.6021765e6  # 1 eV/A^3 as LAMMPS has it in units metal
RANKS = (1, 2, 3, 4) if NIGHTLY else (1, 3)


def corner():
    """Three molecules in a corner of a large box, two beyond the cutoff: on 4 ranks most have no atom."""
    small = water((3, 1, 1), spacing=7.5)
    return System(small.types, small.x, [60.0, 40.0, 40.0], molecule=small.molecule)


def lone_atoms():
    """Molecules, and two atoms without any neighbor."""
    box = water(2)
    return System(
        [*box.types, 1, 2], np.concatenate([box.x, [[20.0, 20.0, 3.0], [3.0, 13.0, 30.0]]]), [40.0, 40.0, 40.0]
    )


def cases_of(zoo):
    pair = mlff(zoo["orb"], options=FP64)
    return {
        "periodic": {"system": water(3), "pair": pair},
        "tilted": {"system": water(3, tilt=(2.0, 1.0, -1.5)), "pair": pair},
        "small": {"system": water(2), "pair": pair},
        "tiny": {"system": water(1, spacing=3.6), "pair": pair},
        "crystal": {"system": crystal(), "pair": pair},
        "lone": {"system": lone_atoms(), "pair": pair},
        "open": {"system": water((3, 2, 2)), "pair": pair, "boundary": "f s m"},
        "corner": {"system": corner(), "pair": pair, "boundary": "f f f", "before": "processors * 1 1"},
        "tiled": {"system": water(3), "pair": pair, "after": "comm_style tiled\nbalance 1.0 rcb"},
        "hybrid": {
            "system": water(3),
            "pair": f"pair_style hybrid zero 5.0 nocoeff mlff {FP64}\npair_coeff * * zero\n"
            f"pair_coeff * * mlff {zoo['orb']} O NULL",
        },
        "single": {"system": water(3), "pair": mlff(zoo["orb"])},
    }


BASES = list(cases_of({"orb": ""}))


def newtons(base):
    return ("on", "off") if base in ("periodic", "open", "hybrid", "tiled") else ("on",)


@pytest.fixture(scope="module")
def results(zoo, tmp_path_factory):
    """ranks -> results of all cases, computed on first use."""
    found = {}

    def on(ranks):
        if ranks not in found:
            cases = [
                Case(f"{base}_{newton}", newton=newton, per_atom=False, **options)
                for base, options in cases_of(zoo).items()
                for newton in newtons(base)
            ]
            found[ranks] = run(cases, tmp_path_factory.mktemp(f"orb{ranks}"), ranks)
        return found[ranks]

    return on


@pytest.mark.parametrize("base", [base for base in BASES if base != "single"])
def test_reference(zoo, results, base):
    case, r = cases_of(zoo)[base], results(1)[f"{base}_on"]
    system = case["system"].only([1]) if base == "hybrid" else case["system"]
    cell = system.cell if case.get("boundary", "p")[0] == "p" else None
    energy, forces, virial = reference.evaluate(
        modelfile.read(zoo["orb"]), {"elements": system.symbols, "positions": system.x, "cell": cell}
    )
    close(r.energy, energy, 1e-9, f"{base}: energy")
    close(r.f[case["system"].types == 1] if base == "hybrid" else r.f, forces, 1e-10, f"{base}: force")
    close(r.pressure * r.volume / BAR, virial, 1e-6 if cell is None else 1e-8, f"{base}: virial")
    assert abs(forces - 0.0125).max() > 0.02 and abs(virial).max() > 0.1, "too small to show anything"
    if cell is not None:
        close(forces.sum(0), [0.0125 * len(forces)] * 3, 1e-10, f"{base}: net force")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("ranks", RANKS)
def test_ranks(results, base, ranks):
    """Only rounding may differ, because the order of sums does."""
    expected, tolerance = results(1)[f"{base}_on"], 2.0e-5 if base == "single" else 1.0e-10
    for newton in newtons(base):
        same(results(ranks)[f"{base}_{newton}"], expected, tolerance, f"{base}, {ranks} ranks, newton {newton}")


def test_single_precision(results):
    same(results(1)["single_on"], results(1)["periodic_on"], 2e-5, "fp32 against fp64")


def start(zoo, folder, system=None, more="", pair=None, **options):
    case = Case("start", system or water(2), pair or mlff(zoo["orb"]), per_atom=False, **options)
    return case.text(str(folder), single_point=False) + "timestep 0.0002\nvelocity all create 300 5\n" + more


def test_npt_on_ranks(zoo, tmp_path):
    """The pressure of the model's stress moves the box, along the same trajectory on 1 and 3 ranks, with new lists."""
    ends = {}
    for ranks in (1, 3):
        deck = start(zoo, tmp_path, water(3), pair=mlff(zoo["orb"], options=FP64)) + (
            "neighbor 0.3 bin\nneigh_modify every 1 delay 0 check yes\nvelocity all scale 1500\n"
            "fix 1 all npt temp 1500 1500 0.02 iso 1.0 1.0 0.2\nthermo_style custom step pe press vol\nrun 25 post no\n"
            'print "END $(pe:%.17g) $(press:%.17g) $(vol:%.17g) $(nbuild)"\n'
        )
        ends[ranks] = [
            float(x) for x in re.search(r"^END (.*)$", launch(deck, str(tmp_path), ranks), re.M).group(1).split()
        ]
        assert ends[ranks][3] > 1 and abs(ends[ranks][2] - 9.3**3) > 1e-3, ends
    close(ends[3][0], ends[1][0], 1e-6, "energy after 25 steps")
    close(ends[3][2], ends[1][2], 1e-6, "volume after 25 steps")


@pytest.mark.parametrize("teacher", ("orb", "ani"))
def test_multiple_time_steps(zoo, tmp_path, teacher):
    """The other way of respa.md: the student inside, teacher - student outside. With one inner step it is the
    teacher."""
    pair = f"pair_style hybrid/scaled 1.0 mlff {FP64} 1.0 mlff {FP64} -1.0 mlff {FP64}\n" + "\n".join(
        f"pair_coeff * * mlff {k} {zoo[model]} O H" for k, model in ((1, "painn"), (2, teacher), (3, "painn"))
    )
    ends = {}
    for name, lines, style in (
        ("teacher", mlff(zoo[teacher], options=FP64), ""),
        ("one", pair, "run_style respa 2 1 hybrid 1 2 2"),
        ("four", pair, "run_style respa 2 4 hybrid 1 2 2"),
    ):
        deck = start(zoo, tmp_path, pair=lines) + (
            f"{style}\ntimestep 0.0001\nfix 1 all nve\nthermo_style custom step pe press\n"
            'run 20 post no\nprint "END $(pe:%.17g) $(press:%.17g)"\n'
        )
        ends[name] = [float(x) for x in re.search(r"^END (.*)$", launch(deck, str(tmp_path)), re.M).group(1).split()]
    close(ends["one"][0], ends["teacher"][0], 1e-8, "energy with one inner step")
    close(ends["one"][1], ends["teacher"][1], 1e-2, "pressure with one inner step")
    close(ends["four"][0], ends["teacher"][0], 0.01, "energy with four inner steps")
    assert ends["four"][0] != ends["one"][0], "the inner steps make no difference"


def test_minimizers(zoo, tmp_path):
    """fire and quickmin work; cg, sd and hftn, which need the gradient of the energy, are errors."""
    for style in ("fire", "quickmin"):
        output = launch(
            start(zoo, tmp_path) + f'min_style {style}\nminimize 0 1e-4 3 10\nprint "DONE $(pe)"\n', str(tmp_path)
        )
        assert np.isfinite(float(re.search(r"^DONE (\S+)", output, re.M).group(1)))
    for style in ("cg", "sd", "hftn"):
        error = fails(start(zoo, tmp_path) + f"min_style {style}\nminimize 0 1e-4 3 10\n", tmp_path)
        assert "not the gradient" in error and "min_style fire" in error, error


def test_refusals(zoo, tmp_path):
    run_with = "{}\nthermo_style custom step pe {}\nrun 0\n"
    for compute, text in (
        ("compute 1 all pe/atom\ncompute 2 all reduce sum c_1", "no per-atom energies"),
        ("compute 1 all stress/atom NULL\ncompute 2 all reduce sum c_1[1]", "no per-atom stress"),
    ):
        error = fails(start(zoo, tmp_path) + run_with.format(compute, "c_2"), tmp_path, ranks=2)
        assert text in error, error
    error = fails(start(zoo, tmp_path, boundary="p p f") + "run 0\n", tmp_path)
    assert "three directions or in none" in error and "vacuum" in error, error
    no_ids = (
        CLEAR + "units metal\natom_modify id no\nregion 1 block 0 9 0 9 0 9\ncreate_box 2 1\nmass 1 15.999\n"
        "mass 2 1.008\ncreate_atoms 1 single 1 1 1\ncreate_atoms 2 single 2 1 1\n"
    )
    error = fails(no_ids + mlff(zoo["orb"]) + "\nrun 0\n", tmp_path)
    assert "atom IDs" in error, error


def test_log_says_what_it_is(zoo, tmp_path):
    assert "not conservative" in launch(start(zoo, tmp_path) + "run 0\n", str(tmp_path))


def test_unstable(zoo, tmp_path):
    """A NaN position stops all ranks with one error that names the atom."""
    deck = start(zoo, tmp_path, water(3)) + 'fix 1 all nve\nvariable bad atom "(id == 7) / (id != 7)"\n'
    error = fails(deck + "fix 2 all addforce v_bad 0 0\nrun 10\n", tmp_path, ranks=3)
    assert error.count("ERROR") == 1, error
