"""Runs outside the domain of their model: one warning with the right numbers, an error, or nothing.

Temperatures are those of velocities that nothing changes (fix nve/noforce, tiny steps), so that they are known to the
last digit; only the test of fluctuations has dynamics."""

import json
import os
import re
import shutil

import models
import nightly
import numpy as np
import pytest
from harness import Case, fails, launch, mlff, water

from mlff_tools.model import modelfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUDENT = os.path.join(ROOT, "models", "water-benzene-student")
CHECKED = 1000  # steps until the first mean of ten checks
HOLD = "fix hold all nve/noforce\ntimestep 1.0e-12\nthermo 1000\n"
WIDE = {"temperature": [0, 1.0e6], "density": [0, 100]}


def painn(folder, name="model", **domain):
    """A small random model of H and O with a domain."""
    domain = {"elements": ["H", "O"], "min_distance": 0.3, **domain, "description": "random weights"}
    return models.painn(folder / name, domain=domain)


def deck(folder, model, more, options="", system=None, **kwargs):
    case = Case("box", system or water(2), mlff(model, options=options), **kwargs)
    return case.text(str(folder), single_point=False) + more


def hot(kelvin, steps=CHECKED):
    return f"velocity all create {kelvin} 4928459\n{HOLD}run {steps}\n"


def warnings(output):
    """Warnings about the domain, without the source line."""
    return re.findall(r"^WARNING: (pair_style mlff: in step .*) \(.*domain_watch\.cpp:\d+\)$", output, re.M)


def kinds(output):
    """[`STEP KIND`] of the warnings."""
    return [re.search(r"in step (\d+ \S+)", text).group(1) for text in warnings(output)]


def shortest(system):
    """{(type, type): (distance, ID, ID)}"""
    d = system.x[:, None] - system.x[None]
    r = np.linalg.norm(d - system.box * np.round(d / system.box), axis=-1)
    out = {}
    for i in range(len(r)):
        for j in range(i):
            pair = tuple(sorted((system.types[i], system.types[j])))
            out[pair] = min(out.get(pair, (np.inf,)), (float(r[i, j]), j + 1, i + 1))
    return out


DENSITY = 1.66053907 * 8 * (15.999 + 2 * 1.008) / 6.2**3  # of water(2)


def test_temperature(tmp_path):
    """One warning per run, from the tenth check on, the same on two ranks."""
    model = painn(tmp_path, temperature=[280, 350])
    one, two = (
        warnings(launch(deck(tmp_path, model, hot(1812, steps)), str(tmp_path), ranks))
        for steps, ranks in ((2 * CHECKED, 1), (CHECKED, 2))
    )
    assert one == two
    assert one == [
        "pair_style mlff: in step 1000 temperature 1812 K (mean of 10 checks, every 100 steps) is outside of 280 to "
        "350 K in the training of random-painn. The results may be wrong: use a model that was trained on such "
        "structures, or set `pair_style mlff domain ignore` if this is intended [mlff-42]"
    ]
    again = warnings(launch(deck(tmp_path, model, hot(30) + f"run {CHECKED}\nrun {CHECKED} pre no\n"), str(tmp_path)))
    assert [re.search(r"in step (\d+) temperature 30 K", s).group(1) for s in again] == ["1000", "2000"]


def test_temperature_that_is_inside_or_none(tmp_path):
    """No warning within the margin of 24 atoms, in short runs, for atoms at rest, for ring polymers."""
    model = painn(tmp_path, temperature=[280, 350])
    margin = 0.02 + 4 * np.sqrt(2 / 69 / 5)
    for more, expected in (
        (hot(0.99 * 350 * (1 + margin)), 0),
        (hot(1.01 * 350 * (1 + margin)), 1),
        (hot(1.01 * 280 * (1 - margin)), 0),
        (hot(0.99 * 280 * (1 - margin)), 1),
        (hot(1812, CHECKED - 1), 0),
        (hot(0.5), 0),
        (f"{HOLD}run {CHECKED}\n", 0),
    ):
        assert len(warnings(launch(deck(tmp_path, model, more), str(tmp_path)))) == expected, more


def test_temperature_of_a_thermostat(tmp_path):
    """64 harmonic atoms at 1500 K, the border, have no warning in 100 ps; at 1700 K they have one within 30 ps."""
    system = water(1)
    at = 5.5 * np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)  # no neighbors within the cutoff
    system.x, system.types, system.molecule = at, np.ones(64, int), np.ones(64, int)
    system.box = np.array([22.0, 22, 22])
    model = painn(tmp_path, temperature=[80, 1500])
    run = "velocity all create {0} 11 mom yes\nfix spring all spring/self 10\nfix move all nve\n"
    run += "fix heat all langevin {0} {0} 0.1 7 zero yes\ntimestep 0.001\nrun {1}\n"
    for kelvin, steps, expected in ((1500, 100000, 0), (1700, 30000, 1)):
        said = warnings(launch(deck(tmp_path, model, run.format(kelvin, steps), system=system), str(tmp_path)))
        assert len(said) == expected and all("is outside of 80 to 1500 K" in s for s in said), said


def test_temperature_of_what_moves(tmp_path):
    """Fixed atoms, the motion of the center of mass and rigid bonds do not contribute to the temperature."""
    model = painn(tmp_path, temperature=[1, 2])
    halves = "group a id 1:12\ngroup b id 13:24\nvelocity a create 700 11 mom yes\nvelocity b set 0 0 0\n"
    drift = "velocity all create 700 11\nvelocity all set 5 0 0 sum yes units box\n"
    for start in (halves, drift):
        (text,) = warnings(launch(deck(tmp_path, model, f"{start}{HOLD}run {CHECKED}\n"), str(tmp_path)))
        assert "temperature 700 K" in text
    rigid = "velocity all create 700 11\nfix hold all rigid/small molecule\ntimestep 1.0e-9\nrun 1000\n"
    output = launch(deck(tmp_path, model, rigid + 'print "IS $(temp:%.4g)"\n', style="molecular"), str(tmp_path))
    (text,) = warnings(output)
    printed, said = re.search("IS (.*)", output).group(1), re.search(r"temperature (\S+) K", text).group(1)
    assert float(printed) > 700 and abs(float(said) / float(printed) - 1) < 1e-3  # of `temp`, and the mean


def test_density(tmp_path):
    """At once in a box that stays, as a mean in one that changes, by the masses of the elements, and of nothing with a
    surface."""
    model = painn(tmp_path, density=[0.5, 0.8])
    expected = f"in step 0 density {DENSITY:.4g} g/cm3 is outside of 0.5 to 0.8 g/cm3 in the training of random-painn"
    for ranks in (1, 2):
        (text,) = warnings(launch(deck(tmp_path, model, "run 0\n"), str(tmp_path), ranks))
        assert expected in text
    (text,) = warnings(launch(deck(tmp_path, model, "mass 2 2.014\nrun 0\n"), str(tmp_path)))
    assert expected in text
    assert not warnings(launch(deck(tmp_path, model, "run 0\n", boundary="p p f"), str(tmp_path)))
    press = "fix press all deform 1 x scale 0.5 remap x\n"
    for near, factor in (("in", 0.99), ("out", 0.97)):
        model = painn(tmp_path, near, density=[0.1, factor * DENSITY])
        assert len(warnings(launch(deck(tmp_path, model, "run 0\n"), str(tmp_path)))) == (near == "out")
    model = painn(tmp_path, density=[0.5, 1.1 * DENSITY])
    (text,) = warnings(launch(deck(tmp_path, model, f"{HOLD}{press}run {3 * CHECKED}\n"), str(tmp_path)))
    step = int(re.search(r"in step (\d+) density .* \(mean of 10 checks, every 100 steps\)", text).group(1))
    mean = np.mean(DENSITY / (1 - 0.5 * np.arange(step - 900, step + 1, 100) / (3 * CHECKED)))
    assert f"density {mean:.4g} g/cm3" in text and mean > 1.02 * 1.1 * DENSITY


def test_distances(tmp_path):
    """The pair farthest below its limit is named. 5 % below is inside. Pairs that were never trained are outside."""
    system = water(2)
    found = shortest(system)
    names = {(1, 1): "O-O", (1, 2): "H-O", (2, 2): "H-H"}
    limits = {names[pair]: r[0] for pair, r in found.items()}
    r, i, j = found[(1, 2)]
    if system.types[i - 1] == 1:
        i, j = j, i  # H before O, as in the model file
    for ranks in (1, 2):
        model = painn(tmp_path, distances={**limits, "H-O": r / 0.94})
        (text,) = warnings(launch(deck(tmp_path, model, "run 0\n", system=system), str(tmp_path), ranks))
        assert (
            f"in step 0 H-O distance {r:.4g} A (atom {i}, atom {j}) is below {r / 0.94:.4g} A, the shortest one in the "
            "training of random-painn" in text
        )
    model = painn(tmp_path, distances={**limits, "H-O": r / 0.96})
    assert not warnings(launch(deck(tmp_path, model, "run 0\n", system=system), str(tmp_path)))


NEAREST = {f"{'OH'[s - 1]}-{'OH'[t - 1]}": at[0] for (s, t), at in shortest(water(2)).items()}


@pytest.mark.parametrize("ranks", (1, 2))
def test_what_no_run_begins_with(tmp_path, ranks):
    """Untrained pairs of elements, also in minimizations, and far too short distances; `ignore` skips the check."""
    r, i, j = shortest(water(2))[(1, 1)]
    strange = painn(tmp_path, "strange", distances={k: v for k, v in NEAREST.items() if k != "O-O"})
    close, k, m = shortest(water(2))[(2, 2)]
    short = painn(tmp_path, "short", distances={**NEAREST, "H-H": close / 0.74})
    pair = f"in step 0 O-O distance {r:.4g} A (atom {i}, atom {j}) is below 4 A, the cutoff, within which there was no"
    near = f"in step 0 H-H distance {close:.4g} A (atom {k}, atom {m}) is below {close / 0.74:.4g} A, the shortest one"
    for model, more, part in (
        (strange, "run 0\n", pair),
        (strange, "minimize 0 0 1 1\n", pair),
        (short, "run 0\n", near),
    ):
        text = fails(deck(tmp_path, model, more), tmp_path, ranks)
        assert part in text and text.count("ERROR") == 1 and "the run would start there" in text, text
    output = launch(deck(tmp_path, strange, "run 0\nminimize 0 0 1 1\n", "domain ignore"), str(tmp_path), ranks)
    assert "in the training of" not in output
    (text,) = warnings(launch(deck(tmp_path, short, "minimize 0 0 1 1\n", "domain stop"), str(tmp_path), ranks))
    assert "in step 1 H-H distance" in text, text
    near = painn(tmp_path, "near", distances={**NEAREST, "H-H": close / 0.76})
    (text,) = warnings(launch(deck(tmp_path, near, "run 0\n"), str(tmp_path), ranks))
    assert "H-H distance" in text


def test_elements_that_meet_in_a_run(tmp_path):
    """They give a warning there and do not stop the next run."""
    system = water(2)
    system.x, system.types, system.molecule = np.array([[0, 0, 0], [4.5, 0, 0.0]]), np.array([1, 2]), np.array([1, 2])
    system.box = np.array([30.0, 30, 30])
    model = painn(tmp_path, distances={"H-H": 1, "O-O": 1})
    fly = "velocity all set 0 0 0\ngroup h id 2\nvelocity h set -10 0 0\nfix 1 all nve/noforce\nrun 200\nrun 0\n"
    texts = warnings(launch(deck(tmp_path, model, fly, system=system), str(tmp_path)))
    assert [re.search(r"in step (\d+) H-O distance (\S+) A", s).groups() for s in texts] == [
        ("100", "3.5"),
        ("200", "2.5"),
    ]


def test_triples_and_forces(tmp_path):
    """The triple farthest below its limit and the atom with the largest force are named, on any rank."""
    system = water(2)
    d = system.x[:, None] - system.x[None]
    r = np.linalg.norm(d - system.box * np.round(d / system.box), axis=-1) + 99 * np.eye(24)
    hydrogen = system.types == 2
    near = np.sort(r[:, hydrogen][~hydrogen], axis=1)[:, 1]  # the second hydrogen of each oxygen
    centre = np.flatnonzero(~hydrogen)[near.argmin()] + 1
    pair = lambda one, other: NEAREST.get(f"{one}-{other}") or NEAREST[f"{other}-{one}"]
    triples = {
        c: {f"{a}-{b}": max(pair(c, a), pair(c, b)) for a, b in (("H", "H"), ("H", "O"), ("O", "O"))} for c in "HO"
    }
    triples["O"]["H-H"] = float(near.min() / 0.9)
    model = painn(tmp_path, distances=NEAREST, triples=triples)
    for ranks in (1, 2):
        (text,) = warnings(launch(deck(tmp_path, model, "run 0\n", system=system), str(tmp_path), ranks))
        assert (
            f"in step 0 H-O-H with both ends within {near.min():.4g} A (center atom {centre}, ends atom " in text
            and f"is below {near.min() / 0.9:.4g} A, the smallest one in the training of" in text
        )
    forces = "compute f all property/atom fx fy fz\ndump d all custom 1 f.dump id fx fy fz\nrun 0\n"
    launch(deck(tmp_path, painn(tmp_path, "plain"), forces, system=system), str(tmp_path))
    rows = np.loadtxt(tmp_path / "f.dump", skiprows=9)
    size = np.linalg.norm(rows[:, 1:], axis=1)
    largest, atom = size.max(), int(rows[size.argmax(), 0])
    for factor, expected in ((1.3, 1), (1.2, 0)):
        model = painn(tmp_path, f"force{expected}", max_force=float(largest / factor))
        for ranks, newton in ((1, "on"), (2, "on"), (2, "off")):
            text = deck(tmp_path, model, "run 0\n", system=system, newton=newton)
            said = warnings(launch(text, str(tmp_path), ranks))
            assert len(said) == expected, said
            if expected:
                assert f"in step 0 force {largest:.3g}" in said[0] and f" on atom {atom} (" in said[0]


def test_pressure(tmp_path):
    """Mean of ten checks, without the kinetic part, the same on two ranks."""
    press = f'{HOLD}compute p all pressure NULL virial\nvariable p equal c_p\nrun {CHECKED}\nprint "P $(c_p)"\n'
    known = launch(deck(tmp_path, painn(tmp_path, "plain"), press), str(tmp_path))
    gpa = 1e-4 * float(re.search(r"^P (\S+)", known, re.M).group(1))
    off = 0.1 + 0.1 * abs(gpa)
    for low, high, expected in ((gpa - 1, gpa + 1, 0), (gpa + off, gpa + 2 * off, 1), (gpa - 2 * off, gpa - off, 1)):
        model = painn(tmp_path, f"p{low:.3f}{high:.3f}", pressure=[low, high])
        texts = [warnings(launch(deck(tmp_path, model, f"{HOLD}run {CHECKED}\n"), str(tmp_path), n)) for n in (1, 2)]
        assert len(texts[0]) == expected and texts[0] == texts[1]
        if expected:
            said = re.search(r"in step 1000 pressure (\S+) GPa without its kinetic part \(mean of 10", texts[0][0])
            assert abs(float(said.group(1)) - gpa) < 1e-3 * abs(gpa) + 1e-4


def test_what_the_file_does_not_say(tmp_path):
    model = painn(tmp_path, temperature=[280, 350], distances=NEAREST)
    output = launch(deck(tmp_path, model, "run 0\n"), str(tmp_path))
    assert (
        "  trained on:   280 to 350 K, 3 pairs of elements; not known: density, pressure, largest force, triples\n"
        in output
    )


def test_profile_counts(tmp_path):
    """Structures outside the domain are counted in every check but printed once."""
    prof = f"fix prof all mlffprof 100 file {tmp_path}/p.json\n"
    model = painn(tmp_path, **OUTSIDE)
    output = launch(deck(tmp_path, model, prof + hot(700, 2 * CHECKED)), str(tmp_path))
    outside = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["outside"]
    expected = {"n_looks": 21, "temperature": 11, "density": 21, "distance": 21}
    assert outside == {**dict.fromkeys(outside, 0), **expected}
    line = "outside the training domain, of 21 checks: temperature in 11, density in 21, distance in 21\n"
    assert line in output
    again = deck(tmp_path, model, prof + f"{HOLD}run 0\n", "domain ignore")
    launch(again, str(tmp_path))
    assert json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["outside"] is None


OUTSIDE = {"temperature": [1, 2], "density": [0.1, 0.2], "distances": {**NEAREST, "O-H": NEAREST["O-H"] / 0.9}}


def test_each_kind_once(tmp_path):
    output = launch(deck(tmp_path, painn(tmp_path, **OUTSIDE), hot(700, 2 * CHECKED)), str(tmp_path))
    assert kinds(output) == ["0 density", "0 H-O", "1000 temperature"]


def test_silence(tmp_path):
    """No warning inside, without the keys, with `ignore`, and in steps between two checks."""
    outside = painn(tmp_path, **OUTSIDE)
    inside = painn(tmp_path, "inside", **{**WIDE, "distances": {"H-H": 0.5, "H-O": 0.5, "O-O": 0.5}})
    for model, options, more in (
        (inside, "domain stop", hot(700)),
        (painn(tmp_path, "none"), "domain stop", hot(700)),
        (outside, "domain ignore", hot(700)),
        (outside, "domain no", hot(700)),
        (outside, "domain ignore", "minimize 0 0 3 3\nmin_style fire\nminimize 0 0 3 3\n"),
    ):
        output = launch(deck(tmp_path, model, more, options), str(tmp_path))
        assert "in the training of" not in output, (options, more)


@pytest.mark.parametrize("ranks", (1, 2))
def test_end_of_a_minimization(tmp_path, ranks):
    """Is checked, and gives a warning even if a run would stop; velocities of an earlier run do not count."""
    model = painn(tmp_path, **OUTSIDE)
    more = "velocity all create 700 7\nminimize 0 0 3 3\nmin_style fire\nminimize 0 0 3 3\n"
    output = launch(deck(tmp_path, model, more, "domain stop"), str(tmp_path), ranks)
    assert kinds(output)[:2] == ["3 density", "3 H-O"], kinds(output)
    assert not any("temperature" in kind for kind in kinds(output))


@pytest.mark.parametrize("ranks", (1, 2))
def test_stop(tmp_path, ranks):
    for keys, more, part in (
        (["temperature"], hot(700, 2 * CHECKED), "in step 1000 temperature 700 K"),
        (["density"], "run 0\n", f"in step 0 density {DENSITY:.4g}"),
        (["distances"], "run 0\n", "in step 0 H-O distance"),
    ):
        model = painn(tmp_path, **{key: OUTSIDE[key] for key in keys})
        text = fails(deck(tmp_path, model, more, "domain stop"), tmp_path, ranks)
        assert part in text and text.count("ERROR") == 1 and "domain ignore" in text, text


def frame(step, system):
    bounds = "".join(f"0 {length:.17g}\n" for length in system.box)
    atoms = "".join(
        f"{k + 1} {t} {x:.17g} {y:.17g} {z:.17g}\n" for k, (t, (x, y, z)) in enumerate(zip(system.types, system.x))
    )
    return (
        f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(system.x)}\nITEM: BOX BOUNDS pp pp pp\n{bounds}"
        f"ITEM: ATOMS id type x y z\n{atoms}"
    )


def test_rerun(tmp_path):
    """Every frame is checked without velocities, and gives one warning in total."""
    system, pressed = water(2), water(2)
    r, i, j = shortest(system)[(1, 2)]
    pressed.x[i - 1] = pressed.x[j - 1] + 0.9 * (pressed.x[i - 1] - pressed.x[j - 1])
    frames = [frame(0, system), frame(150, pressed), frame(250, pressed)]
    (tmp_path / "r.dump").write_text("".join(frames), encoding="utf-8")
    model = painn(tmp_path, temperature=[1, 2], distances={"H-H": 0.5, "H-O": r, "O-O": 0.5})
    more = "velocity all create 700 11\nrerun r.dump dump x y z\n"
    (text,) = warnings(launch(deck(tmp_path, model, more), str(tmp_path)))
    assert f"in step 150 H-O distance {0.9 * r:.4g} A" in text


def test_hybrid_and_respa(tmp_path):
    """With other styles the density is not checked. With run_style respa only the outer model is checked."""
    outside, wide = painn(tmp_path, **OUTSIDE), painn(tmp_path, "wide", **WIDE)
    system = water(2)
    system.types[21:] = 3  # another style's
    system.elements.append("Ar")
    pair = (
        f"pair_style hybrid mlff lj/cut 3.0\npair_coeff * * mlff {outside} O H NULL\npair_coeff 1*3 3 lj/cut 1e-9 1.0\n"
    )
    text = Case("both", system, pair).text(str(tmp_path), single_point=False) + hot(700)
    assert kinds(launch(text, str(tmp_path), 2)) == ["0 H-O", "1000 temperature"]
    for model, inner, expected in ((outside, wide, 3), (wide, outside, 0)):
        more = "run_style respa 2 2 inner 1 0 0 outer 2\n" + hot(700)
        output = launch(deck(tmp_path, model, more, f"inner {inner}"), str(tmp_path))
        assert len(warnings(output)) == expected, output


@nightly.only
def test_fluctuations_are_no_warning(tmp_path):
    """63 atoms at the limit fluctuate by 31 K without a warning; 200 K beyond the limit there is one."""
    system = water((3, 7, 1), spacing=3.11)
    head = modelfile.load_yaml(f"{STUDENT}.yaml")
    shutil.copy(f"{STUDENT}.safetensors", tmp_path)
    md = "minimize 0 0.1 200 200\nvelocity all create {0} 11\nfix t all langevin {0} {0} 0.1 7\nfix m all nve\n"
    md += "timestep 0.0005\nrun 6000\n"
    for (low, high), kelvin, expected in (((200, 300), 300, 0), ((300, 400), 300, 0), ((200, 300), 500, 1)):
        head["domain"] = {**head["domain"], "temperature": [low, high], "density": [0.1, 2.0]}
        modelfile.write_head(str(tmp_path / "water-benzene-student.yaml"), head)
        text = deck(tmp_path, tmp_path / "water-benzene-student.yaml", md.format(kelvin), system=system)
        said = warnings(launch(text, str(tmp_path)))
        assert len(said) == expected and all("temperature" in s for s in said), said


ETHANOL = """C -0.748 0.015 0.024 C 0.558 0.420 -0.278 O 1.293 -0.202 -1.201 H -1.263 0.754 0.600 H -1.210 -0.200 -0.910
H -0.650 -0.900 0.600 H 1.000 0.900 0.570 H 0.500 1.200 -1.050 H 2.150 0.100 -1.300""".split()


def test_ethanol_does_not_begin(tmp_path):
    """With the models of water and of benzene, which have all of its elements."""
    elements, x = ETHANOL[::4], np.array([ETHANOL[k::4] for k in (1, 2, 3)], float).T + 15.0
    system = water(2)
    system.types, system.x, system.molecule = np.array(["HCO".index(e) + 1 for e in elements]), x, np.ones(9, int)
    system.box, system.elements = np.array([30.0, 30, 30]), ["H", "C", "O"]
    for name in ("student", "ensemble"):
        model = os.path.join(ROOT, "models", f"water-benzene-{name}.yaml")
        case = Case("ethanol", system, mlff(model, "H C O"), boundary="f f f").text(str(tmp_path), single_point=False)
        text = fails(case + "run 0\n", tmp_path)
        assert re.search(r"in step 0 C-O distance 1\.\d+ A \(atom 2, atom 3\) is below \S+ A, the cutoff", text), text
