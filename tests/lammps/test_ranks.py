"""The same numbers on 1 and 4 ranks, nightly on 2 and 3, newton on and off, in every kind of box."""

import pytest
from harness import Case, Failed, System, close, mlff, run, same, water
from models import CONSERVATIVE
from nightly import NIGHTLY

RANKS = (1, 2, 3, 4) if NIGHTLY else (1, 4)
FP64 = "precision fp64"


def corner():
    """Three molecules in a corner of a large box: on 4 ranks most have no atom."""
    small = water((3, 1, 1))
    return System(small.types, small.x, [60.0, 40.0, 40.0], molecule=small.molecule)


def line():
    """20 molecules in a row, 62 A: slabs of 1 to 4 ranks have atoms that have to do with no other rank."""
    return water((20, 1, 1))


def base_cases(zoo):
    """name -> arguments of Case."""
    centroid = {"more": "compute cent all centroid/stress/atom NULL virial", "columns": "c_cent[*]"}
    tilted = water(3, tilt=(2.0, 1.0, -1.5))
    return {
        **{name: {"system": water(3), "pair": mlff(zoo[name], options=FP64), **centroid} for name in CONSERVATIVE},
        "ani": {"system": water(3), "pair": mlff(zoo["ani"], options=FP64), **centroid},
        "tilted": {"system": tilted, "pair": mlff(zoo["gaussian"], options=FP64), **centroid},
        "tiltedani": {"system": tilted, "pair": mlff(zoo["ani"], options=FP64), **centroid},
        "small": {"system": water(2), "pair": mlff(zoo["painn"], options=FP64), **centroid},
        "smallani": {"system": water(2), "pair": mlff(zoo["ani"], options=FP64), **centroid},
        "tiny": {"system": water(1, spacing=3.6), "pair": mlff(zoo["gaussian"], options=FP64), **centroid},
        "flat": {"system": water((2, 3, 1)), "pair": mlff(zoo["painn"], options=FP64), **centroid, "boundary": "s f p"},
        "corner": {
            "system": corner(),
            "pair": mlff(zoo["painn"], options=FP64),
            **centroid,
            "boundary": "f f f",
            "before": "processors * 1 1",
        },
        "line": {"system": line(), "pair": mlff(zoo["painn"], options=FP64), **centroid, "before": "processors * 1 1"},
        "linesingle": {"system": line(), "pair": mlff(zoo["painn"]), **centroid, "before": "processors * 1 1"},
        "tiled": {
            "system": water(3),
            "pair": mlff(zoo["painn"], options=FP64),
            **centroid,
            "after": "comm_style tiled\nbalance 1.0 rcb",
        },
        "single": {"system": water(3), "pair": mlff(zoo["painn"]), **centroid},
    }


def name_of(base, newton):
    return f"{base}_{newton}"


@pytest.fixture(scope="module")
def results(zoo, tmp_path_factory):
    """(ranks) -> results of all cases, or the error that stopped them."""
    cases = [
        Case(name_of(base, newton), newton=newton, **options)
        for base, options in base_cases(zoo).items()
        for newton in ("on", "off")
    ]
    found = {}
    for ranks in RANKS:
        try:
            found[ranks] = run(cases, tmp_path_factory.mktemp(f"ranks{ranks}"), ranks)
        except Failed as error:
            found[ranks] = error
    return found


BASES = list(base_cases(dict.fromkeys(CONSERVATIVE, "")))


def get(results, ranks, name):
    if isinstance(results[ranks], Failed):
        raise results[ranks]
    return results[ranks][name]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("ranks", RANKS)
def test_decomposition(results, base, ranks):
    """Only rounding may differ, because the order of sums does: more so in fp32 ('single', 'linesingle')."""
    expected = get(results, 1, name_of(base, "on"))
    tolerance = {"single": 2.0e-5, "linesingle": 2.0e-5}.get(base, 1.0e-10)
    for newton in ("on", "off"):
        found = get(results, ranks, name_of(base, newton))
        same(found, expected, tolerance, f"{base}, {ranks} ranks, newton {newton}")
        near = 1e7 * tolerance
        close(found.extra, expected.extra, near, f"{base}, {ranks} ranks, newton {newton}: centroid")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("ranks", (1, 4))
def test_sums(results, base, ranks):
    """Per-atom energies sum to the energy, per-atom stress to -PV, and forces to nothing."""
    for newton in ("on", "off"):
        r = get(results, ranks, name_of(base, newton))
        tolerance = 1.0e-4 if base in ("single", "linesingle") else 1.0e-9
        close(r.eatom.sum(), r.energy, tolerance, f"{base}: sum of energies")
        close(-r.stress.sum(axis=0), r.pressure * r.volume, 1e7 * tolerance, f"{base}: sum of stresses")
        close(r.f.sum(axis=0), [0, 0, 0], tolerance, f"{base}: sum of forces")
        if r.extra.size:
            close(
                -r.extra[:, :6].sum(axis=0), r.pressure * r.volume, 1e7 * tolerance, f"{base}: sum of centroid stresses"
            )
        assert abs(r.f).max() > 0.1, "forces are too small to show anything"
