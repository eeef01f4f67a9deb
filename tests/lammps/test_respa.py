"""run_style respa: a cheap model inside, the wanted one minus the cheap one outside."""

import json
import os
import re

import nightly
import numpy as np
import pytest
import thermo
from harness import PLUGIN, Case, System, close, fails, launch, mlff, read_dump, run, same, water

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUDENT = os.path.join(ROOT, "models", "water-benzene-student.yaml")
TEACHER = os.path.join(ROOT, "models", "water-benzene-teacher.yaml")
WATER64 = os.path.join(ROOT, "examples", "lammps_inputs", "data.water64")
BOX = 12.417126704414091
FP64 = "precision fp64"
END = "write_dump all custom {}.dump id x y z vx vy vz fx fy fz modify sort id format float %.17g\n"


def respa(n):
    return f"run_style respa 2 {n} inner 1 0 0 outer 2"


def counts(output):
    """(evaluations of the inner model, of the outer one) of each run."""
    found = re.findall(r"(\d+) evaluations of \S+ \(inner\), (\d+) of \S+ \(outer\)", output)
    return [tuple(map(int, pair)) for pair in found]


def dynamics(name, n, steps, dt, options=FP64, wanted=TEACHER, inner=STUDENT, more="", newton="on"):
    """NVE of the 64 molecules of the example with outer steps of n * dt; positions and velocities at the end."""
    cheap = f"inner {inner}" if inner else ""
    style = respa(n) if n else "run_style verlet"
    return f"""
clear
plugin load {PLUGIN}
units metal
newton {newton}
read_data {WATER64}
pair_style mlff {options} {cheap}
pair_coeff * * {wanted} H O
neighbor 1.0 bin
timestep {dt * max(n, 1)}
fix move all nve
{style}
thermo_style custom step pe etotal press
thermo_modify format float %.12g
{more}
run {steps}
{END.format(name)}"""


def final(folder, name):
    return read_dump(os.path.join(str(folder), f"{name}.dump"))[:, 1:]


def around(a, b, box=BOX):
    """Differences of positions, of nearest images."""
    d = a[:, :3] - b[:, :3]
    return d - box * np.round(d / box)


def apart(a, b):
    return np.abs(around(a, b)).max()


# ---- forces ---------------------------------------------------------------------------------------------------------

PAIRS = (("painn", "ani"), ("ani", "painn"), ("nequix", "painn"), ("orb", "painn"), ("painn", "orb"))


@pytest.mark.parametrize("ranks,newton", ((1, "off"), (2, "on"), (3, "off")))
def test_set_up(zoo, tmp_path, ranks, newton):
    """Forces of both levels add up to those of the wanted model, energies, stress and pressure are its own; the inner
    model may have the longer cutoff, forces without an energy, or members."""
    system, cases = water(3), []
    for wanted, inner in PAIRS:
        for kind, style in (("verlet", "run_style verlet"), ("respa", respa(4))):
            options = f"{FP64} inner {zoo[inner]}"
            pair = mlff(zoo[wanted], options=options)
            more = {"newton": newton, "after": style, "per_atom": wanted != "orb"}
            cases.append(Case(f"{kind}_{wanted}_{inner}", system, pair, **more))
    real = mlff(zoo["painn"], options=f"{FP64} inner {zoo['ani']}")
    cases += [
        Case(f"{kind}_real", system, real, units="real", newton=newton, after=style)
        for kind, style in (("verlet", "run_style verlet"), ("respa", respa(2)))
    ]
    r = run(cases, tmp_path, ranks)
    for name in [f"{a}_{b}" for a, b in PAIRS] + ["real"]:
        same(r[f"respa_{name}"], r[f"verlet_{name}"], 1e-9, name, pressure=1e-3)


def test_verlet_knows_nothing_of_it(zoo, tmp_path):
    """With run_style verlet and minimisers the keyword changes no bit."""
    system = water(3)
    cases = [
        Case(name, system, mlff(zoo["painn"], options=options), after="minimize 0 0 3 30")
        for name, options in (("without", FP64), ("with", f"{FP64} inner {zoo['ani']}"))
    ]
    r = run(cases, tmp_path)
    assert np.array_equal(r["with"].f, r["without"].f) and r["with"].energy == r["without"].energy
    assert np.array_equal(r["with"].x, r["without"].x)


def test_hybrid(zoo, tmp_path):
    """Two of them overlaid, each with an inner model of its own."""
    system, painn, ani = water(3), zoo["painn"], zoo["ani"]
    pair = f"""pair_style hybrid/overlay mlff {FP64} inner {painn} mlff {FP64} inner {ani}
pair_coeff * * mlff 1 {ani} O H
pair_coeff * * mlff 2 {painn} O H"""
    cases = [Case(name, system, pair, after=style) for name, style in (("a", respa(4)), ("b", ""))]
    for ranks in (1, 2):
        r = run(cases, tmp_path, ranks)
        same(r["a"], r["b"], 1e-9, f"overlay on {ranks} ranks")


def test_rerun(zoo, tmp_path):
    """rerun sets up every frame: the numbers are those of the wanted model."""
    text = ""
    for name, style in (("verlet", "run_style verlet"), ("respa", respa(4))):
        case = Case(name, water(3), mlff(zoo["painn"], options=f"{FP64} inner {zoo['ani']}"))
        text += case.text(str(tmp_path), single_point=False)
        if name == "verlet":
            text += "fix 1 all nve\ntimestep 1e-4\ndump d all custom 2 frames.dump id type x y z\n"
            text += "dump_modify d format float %.17g\nrun 6\nundump d\n"
        text += f"velocity all set 0 0 0\n{style}\nthermo 2\nthermo_style custom step pe press\n"
        text += "thermo_modify format float %.12g\n"
        text += f"print BEGIN_{name}\nrerun frames.dump dump x y z\nprint END_{name}\n"
    output = launch(text, str(tmp_path))
    tables = []
    for name in ("verlet", "respa"):
        part = re.search(rf"^BEGIN_{name}$(.*)^END_{name}$", output, re.M | re.S)[1]
        tables.append(thermo.table(part))
    assert len(tables[0]["Step"]) == 4
    close(tables[1]["PotEng"], tables[0]["PotEng"], 1e-8, "energies of frames")
    close(tables[1]["Press"], tables[0]["Press"], 1e-2, "pressures of frames")


# ---- dynamics -------------------------------------------------------------------------------------------------------


def test_same_model(tmp_path):
    """With one model on both levels the outer force vanishes: the run is velocity Verlet with the inner step, and every
    model is evaluated once for each of its steps and once before the first."""
    output = launch(
        dynamics("verlet", 0, 80, 0.0005, wanted=STUDENT, inner=None)
        + dynamics("respa", 4, 20, 0.0005, wanted=STUDENT, inner=STUDENT),
        str(tmp_path),
    )
    a, b = final(tmp_path, "verlet"), final(tmp_path, "respa")
    assert apart(a, b) < 1e-9
    close(b[:, 3:6], a[:, 3:6], 1e-8, "velocities")
    close(b[:, 6:], a[:, 6:], 1e-7, "forces")
    assert counts(output) == [(81, 21)]


@pytest.mark.parametrize("newton", ("on", "off"))
def test_ranks(zoo, tmp_path, newton):
    """Trajectories with a new list in every step, atoms that change their rank, on one rank and on several: the same,
    and no evaluation is repeated."""
    ends, box = {}, np.array([4, 2, 2]) * 3.1
    for ranks in (1, 2, 4) if nightly.NIGHTLY else (1, 4):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        random = Case("r", water((4, 2, 2)), mlff(zoo["nequix"], options=f"{FP64} inner {zoo['painn']}"), newton=newton)
        text = random.text(str(folder), single_point=False) + "velocity all create 900 4711 loop all\n"
        text += f"fix 1 all nve\ntimestep 1e-4\n{respa(4)}\nneigh_modify every 1 delay 0 check no\nrun 10\n"
        text += END.format("random")
        text += dynamics("water", 4, 16, 0.0005, more="neigh_modify every 1 delay 0 check no", newton=newton)
        output = launch(text, str(folder), ranks)
        assert counts(output) == [(41, 11), (65, 17)]
        assert re.findall(r"Neighbor list builds = (\d+)", output) == ["10", "16"]
        for name, size in (("random", box), ("water", BOX)):
            end = ends[ranks, name] = final(folder, name)
            moved = around(end, ends[1, name], size)
            close(moved, 0.0 * moved, 1e-8, f"{name} on {ranks} ranks: positions")
            close(end[:, 6:], ends[1, name][:, 6:], 1e-6, f"{name} on {ranks} ranks: forces")


def test_lists_reach_far_enough(zoo, tmp_path):
    """Atoms move between the making of a list and its first evaluation. Two atoms on springs, four outer steps to a
    period, are 4.6 A apart when the list of step 5 is made (cutoff 4 A, skin 1 A), at its first outer evaluation 5.4 A,
    at its third 3.8 A."""
    pair = System([1, 1], [[5.0, 5.0, 5.0], [9.6, 5.0, 5.0]], [24.0, 24.0, 24.0])
    step, amplitude = 0.002, 0.4
    omega = 2.0 * np.pi / (4 * step)
    spring = 15.999 * 1.0364269e-4 * omega**2
    case = Case("end", pair, mlff(zoo["painn"], options=f"{FP64} inner {zoo['painn']}"), before="atom_modify map yes")
    text = case.text(str(tmp_path), single_point=False)
    text += f"""neighbor 1.0 bin
neigh_modify every 5 delay 0 check no
group left id 1
group right id 2
velocity left set {-amplitude * omega} 0 0
velocity right set {amplitude * omega} 0 0
fix 1 all nve
fix 2 all spring/self {spring}
fix_modify 2 respa 1
compute apart all reduce max x
{respa(8)}
timestep {step}
thermo 1
thermo_style custom step c_apart pe
thermo_modify format float %.12g
run 7
"""
    output = launch(f"{text}print BEGIN\nrun 0\n", str(tmp_path))
    old, new = thermo.tables(output)
    assert "Neighbor list builds = 1" in output and list(old["Step"]) == [*range(8)] and list(new["Step"]) == [7]
    x = 2.0 * (old["c_apart"] - 7.3)  # distance; the centre is at rest
    assert abs(x[4] - 4.6) < 0.05 and x[5] > 5.3 and x[7] < 3.9, x
    energy = old["PotEng"]
    assert abs(energy[7] - energy[0]) > 1e-6, "the atoms do not feel each other"
    close(energy[7], new["PotEng"][0], 1e-11, "energy with the old list and with a new one")


@pytest.mark.parametrize("ranks", (1, 2))
def test_moved_between_levels(tmp_path, ranks):
    """Atoms that a fix moves between the levels: the inner model is evaluated again for the outer level. With one model
    on both, the outer force vanishes there, too, and forces are those at the positions before the move."""
    nudge = os.path.join(os.path.dirname(os.path.abspath(PLUGIN)), "tests", "nudge.so")
    more = f"plugin load {nudge}\nfix n all nudge 4"
    deck = dynamics("end", 4, 5, 0.0005, wanted=STUDENT, inner=STUDENT, more=more)
    deck += "unfix n\ngroup one id 1\ndisplace_atoms one move 0 -0.001 0\nrun 0\n" + END.format("before")
    output = launch(deck, str(tmp_path), ranks)
    assert counts(output) == [(1 + 5 * 5, 6), (1, 1)]
    close(final(tmp_path, "end")[:, 6:], final(tmp_path, "before")[:, 6:], 1e-9, "force")


def test_restart(tmp_path):
    """A run that went on from a restart file is the one that was not interrupted."""
    launch(dynamics("whole", 4, 20, 0.0005, more="restart 10 half.restart"), str(tmp_path))
    launch(
        f"""
read_restart half.restart.10
pair_style mlff {FP64} inner {STUDENT}
pair_coeff * * {TEACHER} H O
neighbor 1.0 bin
fix move all nve
timestep 0.002
{respa(4)}
run 10
{END.format("parts")}""",
        str(tmp_path),
    )
    assert apart(final(tmp_path, "whole"), final(tmp_path, "parts")) < 1e-9


def test_reversible(tmp_path):
    """Back to where it came from when velocities are turned round."""
    turn = """
variable vx atom -vx
variable vy atom -vy
variable vz atom -vz
velocity all set v_vx v_vy v_vz
run 30
"""
    start = END.format("start")
    launch(dynamics("there", 4, 30, 0.0005, more=start) + turn + END.format("back"), str(tmp_path))
    there, back, start = (final(tmp_path, name) for name in ("there", "back", "start"))
    assert apart(there, start) > 0.1
    assert apart(back, start) < 1e-8
    close(back[:, 3:6], -start[:, 3:6], 1e-7, "velocities")


def test_second_order(tmp_path):
    """Half the steps, a quarter of the error: positions after 32 fs."""
    steps = (0.001, 0.0005, 0.00025)
    launch("".join(dynamics(f"dt{k}", 4, round(0.032 / (4 * dt)), dt) for k, dt in enumerate(steps)), str(tmp_path))
    ends = [final(tmp_path, f"dt{k}")[:, :3] for k in range(3)]
    changes = [np.sqrt((around(a, b) ** 2).mean()) for a, b in zip(ends, ends[1:])]
    assert changes[0] > 1e-4 and 3.7 < changes[0] / changes[1] < 4.3, changes


@nightly.only
def test_energy(tmp_path):
    """NVE of water, the shipped student inside and the shipped teacher outside, inner steps of 0.5 fs. One inner step
    is the teacher alone; outer steps of 1 and 2 fs keep the energy as well, and up to 4 fs, where resonance with the
    stretching of O-H (9 fs) has begun, it does not run away."""
    sample = "variable total equal etotal\nfix e all ave/time 1 1 1 v_total file {}.txt format ' %.12g'\n"
    deck = dynamics("verlet", 0, 240, 0.0005, options="", inner=None, more=sample.format("verlet"))
    for n in (1, 2, 4, 6, 8):
        deck += dynamics(f"n{n}", n, 240 // n, 0.0005, options="", more=sample.format(f"n{n}"))
    launch(deck, str(tmp_path))
    spread = {}  # standard deviation of the total energy, meV per atom
    for name in ("verlet", "n1", "n2", "n4", "n6", "n8"):
        spread[name] = np.loadtxt(tmp_path / f"{name}.txt")[:, 1].std() / 192 * 1e3
    alone = spread["verlet"]
    assert 0.01 < alone < 0.1, spread
    assert spread["n1"] == pytest.approx(alone, rel=1e-3), spread
    assert spread["n2"] < 1.1 * alone and spread["n4"] < 1.5 * alone, spread
    assert spread["n6"] < 10.0 * alone and spread["n8"] < 10.0 * alone, spread


# ---- profile --------------------------------------------------------------------------------------------------------


def test_profile(tmp_path):
    """fix mlffprof counts outer steps; the time step of its speed is the outer one."""
    with_fix = "fix prof all mlffprof 5 file r.json warmup 0 table no"
    output = launch(dynamics("end", 4, 20, 0.0005, options="", more=with_fix), str(tmp_path))
    with open(tmp_path / "r.json", encoding="utf-8") as f:
        report = json.load(f)
    assert report["n_steps"] == 20 and counts(output) == [(81, 21)]
    speed = 0.002e-3 * 86400.0 / (report["mean_latency_ms"] * 1e-3)
    assert report["ns_per_day"] == pytest.approx(speed, rel=1e-6)
    pair = next(c for c in report["components"] if c["name"] == "pair")
    assert 0.8 * report["mean_latency_ms"] < pair["mean_ms"] <= report["mean_latency_ms"]


# ---- what is refused ------------------------------------------------------------------------------------------------

WRONG = (
    ("no_inner", "", respa(4), ("needs a second model for the inner level", "pair_style mlff inner MODEL.yaml")),
    ("pair", "inner PAINN", "run_style respa 2 4 pair 2", ("levels `inner` and `outer`", "not `pair` or `hybrid`")),
    ("plain", "inner PAINN", "run_style respa 2 4", ("levels `inner` and `outer`", "remove the keyword `inner`")),
    ("middle", "inner PAINN", "run_style respa 3 2 2 inner 1 0 0 middle 2 0 0 outer 3", ("no level `middle`",)),
    ("no_file", "inner", "", ("keyword 'inner' has no value",)),
    ("missing", "inner missing.yaml", "", ("inner model", "missing.yaml")),
)


@pytest.mark.parametrize("wrong", WRONG, ids=[w[0] for w in WRONG])
def test_refused(zoo, tmp_path, wrong):
    _, options, after, parts = wrong
    pair = mlff(zoo["ani"], options=options.replace("PAINN", zoo["painn"]))
    deck = Case("bad", water(2), pair, after=after).text(str(tmp_path), single_point=False)
    for ranks in (1, 2):
        text = " ".join(fails(f"{deck}fix 1 all nve\nrun 2\n", tmp_path, ranks).split())
        for part in parts:
            assert part in text, text


def test_refused_elements(zoo, tmp_path):
    """The inner model has to know the elements, and to have been trained on them."""
    silicon = System([1, 1], [[0.5, 0.5, 0.5], [2.9, 0.5, 0.5]], [9.0, 9.0, 9.0], elements=["Si"])
    pair = mlff(os.path.join(ROOT, "models", "nequix-oam-1-pft.yaml"), "Si", f"self_test no inner {zoo['painn']}")
    deck = Case("bad", silicon, pair).text(str(tmp_path), single_point=False)
    text = " ".join(fails(deck, tmp_path).split())
    assert "inner model" in text and "Si" in text, text


def test_refused_in_scaled(zoo, tmp_path):
    """hybrid/scaled scales the outer level only."""
    pair = f"pair_style hybrid/scaled 0.5 mlff inner {zoo['ani']}\npair_coeff * * mlff {zoo['painn']} O H"
    deck = Case("bad", water(2), pair, after=respa(2)).text(str(tmp_path), single_point=False)
    assert "hybrid/scaled" in fails(f"{deck}run 0\n", tmp_path)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("levels", ("pair 2", "inner 1 0 0 outer 2"))
def test_lists_that_the_inner_steps_outrun(tmp_path, levels, ranks):
    """LAMMPS makes the list before the inner steps, and the outer level evaluates after them."""
    inner = f"inner {STUDENT}" if "inner" in levels else ""
    deck = f"""
plugin load {PLUGIN}
units metal
read_data {WATER64}
pair_style mlff {FP64} domain ignore {inner}
pair_coeff * * {STUDENT} H O
neighbor 0.02 bin
velocity all create 300 4711
run_style respa 2 4 {levels}
timestep 0.002
fix n all nve
run 60
"""
    text = fails(deck, tmp_path, ranks)
    assert re.search(r"atom \d+ has moved \S+ A since .* the neighbor list lacks pairs", " ".join(text.split())), text
