"""pair_style mlff/kk: the numbers of pair_style mlff, whoever has the atoms and builds the lists."""

import os
import re
import subprocess

import models
import numpy as np
import pytest
from harness import LMP, Case, Failed, System, close, fails, launch, mlff, read_dump, run, same, water
from test_domain import OUTSIDE, painn, warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUDENT = os.path.join(ROOT, "models", "water-benzene-student.yaml")
FP64, DOUBLE, SINGLE = "precision fp64", 1.0e-10, 2.0e-5
CENTROID = {"more": "compute cent all centroid/stress/atom NULL virial", "columns": "c_cent[*]"}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))


def kokkos(threads=1, package=()):
    """Arguments of an lmp that takes all styles from Kokkos."""
    return ["-k", "on", "t", str(threads), "-sf", "kk", *(["-pk", "kokkos", *package] if package else [])]


FULL = ("neigh", "full", "newton", "off")
# name -> ranks, threads, package options, newton settings
PLACES = {f"{ranks}r{threads}t": (ranks, threads, (), ("on", "off")) for ranks in (1, 2, 4) for threads in (1, 2)}
PLACES.update({f"{ranks}r2t_full": (ranks, 2, FULL, ("off",)) for ranks in (1, 2, 4)})
PLACES["2r1t_legacy_comm"] = (2, 1, ("comm", "no"), ("on", "off"))


def argon():
    """27 molecules of water of which seven became argon, type 3."""
    box = water(3)
    replaced = np.isin(box.molecule, (2, 6, 11, 15, 19, 22, 26))
    keep = ~(replaced & (box.types == 2))
    types = np.where(replaced, 3, box.types)
    return System(types[keep], box.x[keep], box.box, molecule=box.molecule[keep], elements=("O", "H", "Ar"))


BASES = {  # name -> arguments of Case, tolerance
    **{
        name: ({"system": water(3), "pair": (name, FP64), "per_atom": name in models.CONSERVATIVE}, DOUBLE)
        for name in models.ARCHITECTURES
    },
    "repelling": ({"system": water(3), "pair": ("repelling", FP64)}, DOUBLE),
    "painn_fp32": ({"system": water(3), "pair": ("painn", "")}, SINGLE),
    "ani": ({"system": water(3), "pair": ("ani", FP64), **CENTROID}, DOUBLE),
    "ani_fp32": ({"system": water(3), "pair": ("ani", "")}, SINGLE),
    "tilted": ({"system": water(3, tilt=(2.0, 1.0, -1.5)), "pair": ("gaussian", FP64)}, DOUBLE),
    "tiny": ({"system": water(1, spacing=3.6), "pair": ("gaussian", FP64)}, DOUBLE),
    "flat": ({"system": water((2, 3, 1)), "pair": ("painn", FP64), "boundary": "s f p"}, DOUBLE),
    "tiled": ({"system": water(3), "pair": ("painn", FP64), "after": "comm_style tiled\nbalance 1.0 rcb"}, DOUBLE),
    "bonds": (
        {
            "system": water(3),
            "pair": ("painn", FP64),
            "style": "full",
            "bonds": True,
            "before": "special_bonds lj/coul 1e-50 1e-50 1e-50",
        },
        DOUBLE,
    ),
    "hybrid": (
        {
            "system": argon(),
            "pair": "pair_style hybrid mlff precision fp64 lj/cut 6.0\n"
            "pair_coeff * * mlff {painn} O H NULL\npair_coeff * 3 lj/cut 0.01 3.3",
        },
        DOUBLE,
    ),
    "overlay": (
        {
            "system": argon(),
            "pair": "pair_style hybrid/overlay lj/cut 6.0 mlff precision fp64\n"
            "pair_coeff * * lj/cut 0.002 2.5\npair_coeff * * mlff {ani} O H NULL",
        },
        DOUBLE,
    ),
}


def cases(zoo, newtons):
    made = []
    for base, (options, _) in BASES.items():
        pair = options["pair"]
        lines = pair.format(**zoo) if isinstance(pair, str) else mlff(zoo[pair[0]], options=pair[1])
        made += [Case(f"{base}_{newton}", newton=newton, **{**options, "pair": lines}) for newton in newtons]
    return made


@pytest.fixture(scope="module")
def plain(zoo, tmp_path_factory):
    """Results of pair_style mlff without Kokkos, on one rank."""
    return run(cases(zoo, ("on",)), tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def places(zoo, tmp_path_factory):
    """place -> its results, or the error that stopped it; each is run when it is first asked for."""
    found = {}

    def get(place):
        if place not in found:
            ranks, threads, package, newtons = PLACES[place]
            try:
                found[place] = run(cases(zoo, newtons), tmp_path_factory.mktemp(place), ranks, kokkos(threads, package))
            except Failed as error:
                found[place] = error
        if isinstance(found[place], Failed):
            raise found[place]
        return found[place]

    return get


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("place", PLACES)
def test_same_numbers(places, plain, place, base):
    """Energy, forces, pressure, energies and stresses of atoms; rounding alone may differ."""
    expected, tolerance = plain[f"{base}_on"], BASES[base][1]
    assert abs(expected.f).max() > 0.1, "forces are too small to show anything"
    for newton in PLACES[place][3]:
        found = places(place)[f"{base}_{newton}"]
        same(found, expected, tolerance, f"{base} on {place}, newton {newton}")
        close(found.extra, expected.extra, 1e-3, f"{base} on {place}, newton {newton}: centroid")


@pytest.mark.parametrize("style", ("mlff", "mlff/kk", "mlff/kk/host", "mlff/kk/device"))
def test_names(zoo, tmp_path, style):
    """All names are Kokkos' style here, and its list is one of Kokkos."""
    case = Case("names", water(2), mlff(zoo["painn"], style=style))
    deck = case.text(str(tmp_path), single_point=False) + "run 0 post no\n"
    output = launch(deck, str(tmp_path), arguments=kokkos())
    lists = re.search(r"\(1\) pair (mlff\S*), perpetual\s+attributes: (.*)", output)
    assert lists and lists.group(1) == (style if "/" in style else "mlff/kk"), output[-3000:]
    assert "full" in lists.group(2) and "kokkos_device" in lists.group(2), lists.group(0)


def test_without_kokkos(zoo, tmp_path):
    """Without `-k on` the plain style is there, and the other says what is missing."""
    deck = Case("off", water(2), mlff(zoo["painn"])).text(str(tmp_path), single_point=False) + "run 0 post no\n"
    assert "(1) pair mlff, perpetual" in launch(deck, str(tmp_path))
    error = fails(deck.replace("pair_style mlff", "pair_style mlff/kk"), tmp_path)
    assert "without enabling KOKKOS" in error, error


def test_plain_style_beside_kokkos(zoo, plain, tmp_path):
    """`suffix off` takes the plain style in the middle of a run with Kokkos, with the same numbers."""
    case = Case("plainly", water(3), "suffix off\n" + mlff(zoo["painn"], options=FP64) + "\nsuffix on")
    same(run([case], tmp_path, 2, kokkos(2))["plainly"], plain["painn_on"], DOUBLE, "plain style")


def test_errors(zoo, tmp_path):
    """Multiple time steps and committees are refused, and what the plain style refuses: bonded neighbors that are not
    in the list, bad positions."""
    case = Case("inner", water(2), mlff(zoo["painn"], options=f"inner {zoo['ani']}"))
    error = fails(case.text(str(tmp_path), single_point=False), tmp_path, 2, arguments=kokkos(2))
    assert "mlff/kk does not support keyword `inner`" in error, error
    case = Case("committee", water(2), mlff(f"{zoo['painn']} {zoo['ani']}"))
    error = fails(case.text(str(tmp_path), single_point=False), tmp_path, 2, arguments=kokkos(2))
    assert "mlff/kk supports one model, not a committee of 2" in error, error
    case = Case("special", water(2), mlff(zoo["painn"]), style="full", bonds=True)
    error = fails(case.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path, 2, arguments=kokkos(2))
    assert "special_bonds removes the 1-2 neighbor" in error, error
    case = Case(
        "close", water(2), mlff(zoo["painn"]), after="set atom 1 x 1.0 y 1.0 z 1.0\nset atom 4 x 1.1 y 1.0 z 1.0"
    )
    error = fails(case.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path, 2, arguments=kokkos(2))
    assert "closer than the 0.3 A" in error, error


# ---- dynamics -------------------------------------------------------------------------------------------------------

STEPS = 300
MD = """timestep 0.0005
neighbor 0.3 bin
neigh_modify every 1 delay 0 check yes
fix 1 all nve
compute pea all pe/atom
compute str all stress/atom NULL virial
compute spe all reduce sum c_pea
compute sst all reduce sum c_str[1] c_str[4]
thermo 20
thermo_style custom step etotal pe ke pxx pxy c_spe c_sst[*]
thermo_modify format float %.15g
"""
DUMP = "write_dump all custom {}.dump id type x y z vx vy vz fx fy fz modify sort id format float %.17g\n"
ANI = os.path.join(ROOT, "models", "water-benzene-ensemble.yaml")
PAIRS = {  # PaiNN alone; ANI as a part of hybrid/overlay
    "painn": mlff(STUDENT, options=FP64),
    "ani": f"pair_style hybrid/overlay mlff {FP64} members 0 zbl 0.5 0.9\npair_coeff * * mlff {ANI} O H\n"
    "pair_coeff * * zbl 8 8",
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A data file of warm water, moved by the student that is shipped."""
    folder = tmp_path_factory.mktemp("start")
    case = Case("start", water(3), mlff(STUDENT))
    launch(
        case.text(str(folder), single_point=False) + "velocity all create 300.0 4711 loop geom\ntimestep 0.0005\n"
        "fix 1 all nve/limit 0.02\nfix 2 all langevin 300 300 0.02 99\nrun 300 post no\n"
        "write_data warm.data nocoeff\n",
        str(folder),
    )
    return str(folder / "warm.data")


def trajectory(pair, start, folder, ranks=1, arguments=()):
    """(thermo table, last frame, number of lists built) of STEPS steps of NVE."""
    folder.mkdir()
    deck = (
        f"units metal\natom_style atomic\nread_data {start}\n{pair}\n{MD}run {STEPS} post no\n"
        'print "REBUILDS $(nbuild)"\n' + DUMP.format("end")
    )
    output = launch(deck, str(folder), ranks, arguments)
    rows = [line.split() for line in output.splitlines() if re.match(r"^\s+\d+(\s+[-+0-9.e]+)+\s*$", line)]
    table = np.array([row for row in rows if len(row) == 9], float)
    assert len(table) == STEPS // 20 + 1
    return table, read_dump(str(folder / "end.dump")), float(re.search(r"^REBUILDS (\S+)", output, re.M).group(1))


@pytest.mark.parametrize("model", PAIRS)
def test_dynamics(start, tmp_path, model):
    """Hundreds of steps with new lists and atoms that change ranks: the same trajectory, energy conserved."""
    pair = PAIRS[model]
    table, end, rebuilds = trajectory(pair, start, tmp_path / "plain")
    assert rebuilds > 3, f"{rebuilds} lists were built"
    assert np.ptp(table[:, 1]) < 0.05 * np.ptp(table[:, 3]), f"energy is not conserved: {table[:, 1]}"
    for name, ranks, arguments in (("1r2t", 1, kokkos(2)), ("2r2t_full", 2, kokkos(2, FULL))):
        found, last, n = trajectory(pair, start, tmp_path / name, ranks, arguments)
        assert n == rebuilds, f"{name}: {n} lists were built, and {rebuilds} without Kokkos"
        # rounding grows with time: the first tenth is held to less
        early = STEPS // 200 + 1
        close(found[:early, 1:4], table[:early, 1:4], 1e-9, f"{model} {name}: energies of the first steps")
        close(found[:, 1:4], table[:, 1:4], 1e-6, f"{model} {name}: energies")
        close(found[:, 6], table[:, 6], 1e-6, f"{model} {name}: sum of the atoms' energies")
        close(found[:, 4:6], table[:, 4:6], 1e-1, f"{model} {name}: pressure")
        close(found[:, 7:], table[:, 7:], 1e2, f"{model} {name}: sum of the atoms' stresses")
        close(last[:, 2:5], end[:, 2:5], 1e-6, f"{model} {name}: last positions")
        close(last[:, 8:], end[:, 8:], 1e-4, f"{model} {name}: last forces")


def test_domain(tmp_path):
    """Velocities that Kokkos' integrator has moved are those that are watched: the same warnings."""
    model = painn(tmp_path, **OUTSIDE)
    text = Case("watched", water(2), mlff(model)).text(str(tmp_path), single_point=False)
    text += "velocity all create 700.0 4711\ntimestep 1.0e-9\nfix 1 all nve\nrun 1000\n"
    plain = warnings(launch(text, str(tmp_path)))
    assert len(plain) == 3 and "temperature 700 K" in plain[2]
    for ranks in (1, 2):
        assert warnings(launch(text, str(tmp_path), ranks, kokkos(2))) == plain


def test_profiler(zoo, tmp_path):
    """fix mlffprof finds the engine behind the Kokkos style and compares it with a second model: itself."""
    text = Case("prof", water(2), mlff(zoo["painn"], options=FP64)).text(str(tmp_path), single_point=False)
    text += (
        "velocity all create 300.0 4711\ntimestep 0.0002\nfix 1 all nve\n"
        f"fix prof all mlffprof 10 file prof.json compare {zoo['painn']} every 10 precision fp64\nrun 40\n"
    )
    output = launch(text, str(tmp_path), 2, kokkos(2))
    assert "message" in output, output[-3000:]
    assert (tmp_path / "prof.json").exists()


def test_program_has_kokkos():
    """What the rest of this file rests on."""
    done = subprocess.run([LMP, "-h"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    assert "KOKKOS package API: OpenMP" in done.stdout
