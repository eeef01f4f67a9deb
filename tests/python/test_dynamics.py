"""Dynamics of recipes: what LAMMPS and ASE sample, in which units and cells; what is kept, gone on with and refused."""

import os
import shutil
import subprocess
import sys
import time

import helpers
import kills
import nightly
import numpy as np
import pytest
from helpers import assert_near

from mlff_tools.model import lammps, lock, modelfile
from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import dynamics, extxyz, generate, lammps_data, lattices, potentials, recipe_structures
from mlff_tools.train.potentials import DynamicsError, Programs
from mlff_tools.train.teacher_lammps import LammpsTeacher

BOLTZMANN = 8.617333e-5  # eV/K
ASE_PYTHON = os.environ.get("MLFF_ASE_PYTHON", "")
SW = ["pair_style sw", "pair_coeff * * Si.sw ${elements}"]
QUIET = lambda text: None
TRICLINIC = np.array([[1.0, 1.0, 0.0], [-1.0, 2.0, 1.0], [0.0, 1.0, -2.0]])  # of the cubic cell; left-handed


def has(find):
    try:
        return bool(find())
    except ModelError:
        return False


needs_lmp = pytest.mark.skipif(not has(lammps.find_lmp), reason="the program lmp was not found")
needs_plugin = pytest.mark.skipif(
    not (has(lammps.find_lmp) and has(lammps.find_plugin)), reason="lmp or mlffplugin.so was not found"
)
needs_ase = pytest.mark.skipif(not ASE_PYTHON, reason="MLFF_ASE_PYTHON names no Python with ASE")


def frame(s, source="here"):
    return {**s, "source": source, "name": source, "info": {}, "columns": {}}


def silicon(n=2, turned=False):
    """A crystal; turned: the same in a left-handed triclinic cell along no axis."""
    s = lattices.crystal("diamond", ["Si"], 5.431, [n, n, n])
    if turned:
        assert np.linalg.det(TRICLINIC) < 0
        q, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
        cell = lattices.crystal("diamond", ["Si"], 5.431)["cell"]
        big = lattices.crystal("diamond", ["Si"], 5.431, [9, 9, 9])
        inner = (big["positions"] - 4 * 5.431) @ np.linalg.inv(TRICLINIC @ cell) + 1e-9
        kept = ((inner >= 0) & (inner < 1)).all(1)
        assert kept.sum() == round(abs(np.linalg.det(TRICLINIC))) * 8
        x = (big["positions"][kept] - 4 * 5.431) @ q
        s = {"elements": ["Si"] * len(x), "positions": x, "cell": TRICLINIC @ cell @ q}
    return frame(s)


def sampled(start, wanted, tmp_path, section=None, **programs):
    ((found),) = generate.from_frames(
        "t", [start], section or {"lammps": SW}, wanted, str(tmp_path / "w"), programs=Programs(**programs), write=QUIET
    )
    return found


def energies(frames):
    teacher = LammpsTeacher(SW, ["Si"])
    try:
        return np.array([r["energy"] for r in teacher.label(frames)])
    finally:
        teacher.close()


# ---- LAMMPS ----------------------------------------------------------------------------------------------------------


@needs_lmp
@pytest.mark.parametrize("turned", [False, True])
def test_temperature_of_the_frames(turned, tmp_path):
    """Equipartition: the potential energy above that of the crystal is 3/2 kT per atom, and a little less harmonic."""
    start = silicon(2, turned)
    wanted = {"temperature": 300, "time": 3.0, "every": 0.1, "timestep": 2.0, "equilibrate": 1.0}
    found = sampled(start, wanted, tmp_path)
    assert len(found) == 30 and [f["step"] for f in found[:2]] == [50, 100]
    assert all((f["cell"] == start["cell"]).all() for f in found)
    rise = (energies(found) - energies([start])).mean() / len(start["elements"])
    # 30 frames of N atoms: 3 % of statistics
    assert rise == pytest.approx(1.5 * BOLTZMANN * 300, rel=0.15)
    assert found[2]["info"] == {"trajectory": "t-1-300K-1", "temperature": "300", "time": "0.3"}


@needs_lmp
@pytest.mark.parametrize(
    "cell, turned", [("iso", False), ("aniso", False), pytest.param("tri", False, marks=nightly.only), ("tri", True)]
)
def test_pressure_makes_volumes(cell, turned, tmp_path):
    """Under 3 GPa silicon of Stillinger and Weber (bulk modulus 101 GPa) is smaller by 2.9 %, in any cell."""
    start, volumes = silicon(2, turned), []
    wanted = {"temperature": 50, "pressure": [0, 30000], "cell": cell, "time": 2.0, "every": 0.1, "timestep": 2.5}
    zero, high = generate.from_frames(
        "t", [start], {"lammps": SW}, {**wanted, "equilibrate": 3.0}, str(tmp_path), write=QUIET
    )
    for found in (zero, high):
        volumes.append(np.mean([np.linalg.det(f["cell"]) for f in found]))
        rise = (energies(found) - energies([start])).mean() / len(start["elements"])
        assert -0.001 < rise < 0.02  # positions and cells fit together
    assert np.sign(volumes[0]) == np.sign(np.linalg.det(start["cell"]))
    assert volumes[1] / volumes[0] == pytest.approx(1 - 0.0285, abs=0.006)
    shapes = np.array([f["cell"] @ np.linalg.inv(start["cell"]) for f in high])
    off = np.abs(shapes - shapes.trace(axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)).max()
    assert off < 1e-6 if cell == "iso" else off > 1e-4
    assert high[0]["info"]["pressure"] == "30000" and high[0]["info"]["trajectory"] == "t-1-50K-30000bar-1"


@needs_lmp
@pytest.mark.parametrize("pressure", [None, 500])
def test_units_real(pressure, tmp_path):
    """Argon in metal and in real units: the same trajectory."""
    start, scale = frame(lattices.crystal("fcc", ["Ar"], 5.3, [3, 3, 3])), 23.060549
    lj = "pair_style lj/cut 7.0"
    sections = [
        {"lammps": [lj, "pair_coeff * * 0.0104 3.4"]},
        {"lammps": ["units real", "atom_style charge", lj, f"pair_coeff * * {0.0104 * scale!r} 3.4"]},
    ]
    wanted = {"temperature": 40, "hot": 60, "time": 0.4, "every": 0.1, "timestep": 2, "equilibrate": 0.2}
    wanted["pressure"] = pressure
    a, b = (sampled(start, wanted, tmp_path, section) for section in sections)
    moved = np.abs(a[-1]["positions"] - start["positions"]).max()
    assert moved > 0.3
    assert_near(b[-1]["positions"], a[-1]["positions"], 2e-3, "positions")
    assert_near(b[-1]["cell"], a[-1]["cell"], 1e-3, "cell")
    assert (np.abs(a[-1]["cell"] - start["cell"]).max() > 1e-3) == (pressure is not None)


@needs_lmp
def test_relaxed_chain(tmp_path):
    """Each copy is rattled from the one before and then relaxed: low energies, and what is left of it."""
    text = f"""structures:
  - crystal: {{lattice: diamond, elements: [Si], constant: 5.431, supercell: [2, 2, 2]}}
    rattle: 0.1
    relax: 2
    copies: 5
    %s
teacher:
  lammps: {SW}
"""
    found = {}
    for strain in ("seed: 1", "strain: 0.04"):
        (tmp_path / "r.yaml").write_text((text % strain).replace("'", '"'))
        frames = generate.generate(*recipe_structures.read(str(tmp_path / "r.yaml")), str(tmp_path / "w"), write=QUIET)
        start, *chain = frames
        assert len(chain) == 5 and [f["info"]["split"] for f in chain] == ["train"] * 3 + ["validation", "test"]
        assert chain[0]["info"]["trajectory"] == "1-crystal-relaxed" and "temperature" not in chain[0]["info"]
        walk = 0.1 * np.random.default_rng(1).normal(size=(5, 64, 3)).cumsum(0)
        rise = energies(chain) - energies([start])
        high = energies([{**frame(start), "positions": start["positions"] + x} for x in walk]) - energies([start])
        assert (rise > 0.05).all() and (rise < 0.6 * high + (4.0 if "strain" in strain else 0)).all()
        found[strain] = chain
    moved = [(f["positions"] - start["positions"]).ravel() for f in found["seed: 1"]]
    assert np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(moved, moved[1:])]) > 0.2
    strains = np.array([np.linalg.inv(start["cell"]) @ f["cell"] - np.eye(3) for f in found["strain: 0.04"]])
    assert 0.02 < np.abs(strains).max() < 0.04 and np.abs(strains.mean(0)).max() < 0.02


@needs_lmp
@needs_plugin
def test_a_model_moves_a_molecule(tmp_path):
    """One of our models by pair_style mlff, not periodic; another state, another trajectory."""
    model = os.path.join(helpers.ROOT, "models", "water-benzene-student.yaml")
    (tmp_path / "r.yaml").write_text(
        "structures:\n  - molecule: water\n    dynamics:\n"
        "      {temperature: [300, 600], time: 0.5, equilibrate: 0.2, runs: 2, seed: 5}\n"
        f"teacher:\n  mlff: {model}\n"
    )
    found, items, teacher = recipe_structures.read(str(tmp_path / "r.yaml"))
    water, *frames = generate.generate(found, items, teacher, str(tmp_path / "w"), write=QUIET)
    assert len(frames) == 40 == generate.count(found, items, teacher).frames - 1
    assert [f["info"]["temperature"] for f in frames] == ["300"] * 20 + ["600"] * 20
    names = [f["info"]["trajectory"] for f in frames[::10]]
    assert names == [f"1-molecule-{t}K-{run}" for t in (300, 600) for run in (1, 2)]
    bonds = np.array([np.linalg.norm(f["positions"][1] - f["positions"][0]) for f in frames])
    assert abs(bonds.mean() - 0.97) < 0.03 and 0.005 < bonds.std() < 0.1
    assert len(set(np.round(bonds, 9))) == 40 and all(f["cell"] is None for f in frames)
    assert [f["info"]["split"] for f in frames[:10]] == ["train"] * 8 + ["validation", "test"]
    assert not any("by" in f["info"] for f in frames)


@needs_plugin
def test_liquids_are_packed_anew_for_each_run(tmp_path):
    model = os.path.join(helpers.ROOT, "models", "water-benzene-student.yaml")
    (tmp_path / "r.yaml").write_text(
        "structures:\n  - liquid: {molecules: {water: 8}}\n    dynamics:\n"
        "      {temperature: 300, density: [0.9, 1.0], time: 0.05, equilibrate: 0.05, runs: 2, by: {mlff: "
        + model
        + "}}\n"
        f"teacher:\n  mlff: {os.path.join(helpers.ROOT, 'models', 'water-xs.yaml')}\n"
    )
    frames = generate.generate(*recipe_structures.read(str(tmp_path / "r.yaml")), str(tmp_path / "w"), write=QUIET)
    assert [f["info"]["trajectory"] for f in frames] == [
        f"1-liquid-300K-{rho}gcc-{run}" for rho in ("0.9", "1") for run in (1, 2)
    ]
    assert all(f["info"]["by"] == "mlff" for f in frames)  # not by the teacher
    edges = [f["cell"][0, 0] for f in frames]
    assert edges[0] == edges[1] and (edges[0] / edges[2]) ** 3 == pytest.approx(1 / 0.9)
    oxygens = [f["positions"][::3] / f["cell"][0, 0] for f in frames]
    assert all(np.abs(a - b).max() > 0.05 for k, a in enumerate(oxygens) for b in oxygens[:k])


def test_dumps_are_read_as_they_were_written():
    """Positions, box and all, in any cell: what dump_text has written comes back; a frame that is cut off does not."""
    for turned in (False, True):
        s = silicon(1, turned)
        text = lammps_data.dump_text(s)
        ((step, x, cell),) = lammps_data.parse_dump(text, s)
        assert step == 0
        assert_near(x, s["positions"], 1e-12, "positions")
        assert_near(cell, s["cell"], 1e-12, "cell")
        assert len(lammps_data.parse_dump(text + text[: len(text) // 2], s)) == 1
    text = lammps_data.data_text(s, ["C", "Si"])
    assert " xy xz yz" in text and "1 2 " in text and " xy " not in lammps_data.data_text(silicon(1), ["Si"])


# ---- ASE -------------------------------------------------------------------------------------------------------------

COPPER = """structures:
  - crystal: {lattice: fcc, elements: [Cu], constant: 3.61, supercell: [2, 2, 2]}
    dynamics: {temperature: 300, pressure: %s, time: 0.5, every: 0.05, timestep: 5, equilibrate: 0.5, hot: 500}
    rattle: 0.2
    relax: 4
    copies: 2
teacher:
  ase: {calculator: "ase.calculators.emt:EMT", python: %s}
"""


@needs_ase
def test_ase(tmp_path):
    """EMT of copper: temperature by equipartition, volume by pressure (bulk modulus 134 GPa or so), relaxation."""
    volumes, runs = [], []
    for pressure in ("[0, 30000]", "[]"):
        text = (COPPER % (pressure, ASE_PYTHON)).replace("pressure: [], ", "")
        (tmp_path / "r.yaml").write_text(text)
        found, items, teacher = recipe_structures.read(str(tmp_path / "r.yaml"))
        frames = generate.generate(found, items, teacher, str(tmp_path / "w"), write=QUIET)
        assert len(frames) == generate.count(found, items, teacher).frames
        runs.append(frames)
    start, *chain = runs[0][:3]
    volumes = [np.mean([np.linalg.det(f["cell"]) for f in part]) for part in (runs[0][3:13], runs[0][13:])]
    assert volumes[1] / volumes[0] == pytest.approx(1 - 3 / 134 * 0.95, abs=0.01)
    assert chain[0]["positions"].tobytes() == runs[1][1]["positions"].tobytes()  # kept, or the same again
    hot = runs[1][3:]
    assert all((f["cell"] == start["cell"]).all() for f in hot)
    from mlff_tools.train.teacher_ase import AseTeacher

    emt = AseTeacher("ase.calculators.emt:EMT", {}, ASE_PYTHON)
    e = [r["energy"] for r in emt.label([start, *chain, *hot])]
    emt.close()
    rise = (np.array(e) - e[0]) / 32
    assert rise[3:].mean() == pytest.approx(1.5 * BOLTZMANN * 300, rel=0.2)
    assert (rise[1:3] > 0.002).all() and (rise[1:3] < 0.25).all()


@needs_ase
def test_ase_without_stress_has_no_pressure(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ase.calculators.emt import EMT\nclass Mine(EMT):\n    implemented_properties = ['energy', 'forces']\n"
    )
    text = (COPPER % ("0", ASE_PYTHON)).replace("ase.calculators.emt:EMT", "mine:Mine")
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(ModelError, match="crystal-300K-0bar-1.*\n(.*\n)*.*has no stress, which a pressure needs"):
        generate.generate(*recipe_structures.read(str(tmp_path / "r.yaml")), str(tmp_path / "w"), write=QUIET)


# ---- what is kept ----------------------------------------------------------------------------------------------------

RUNS = f"""structures:
  - crystal: {{lattice: diamond, elements: [Si], constant: 5.431, supercell: [2, 2, 2]}}
    rattle: 0.1
    relax: 2
    copies: 4
    dynamics: {{temperature: [300, 600, 900], time: 0.5, every: 0.1, timestep: 0.2, equilibrate: 0.1}}
teacher:
  lammps: {SW}
""".replace("'", '"')


def label(place, *more):
    return [sys.executable, "-m", "mlff_tools", "label", "--recipe", str(place / "r.yaml"), "-o", "out.xyz", *more]


def environment():
    return {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}


def contents(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder)) if name.endswith(".npz")}


def children_of(place):
    """Processes of LAMMPS that write there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            continue
        if str(place).encode() in words and b"lmp" in words:
            found.append(pid)
    return found


@needs_lmp
def test_goes_on_after_kills(tmp_path):
    """Killed again and again, the command ends with the same bytes as one that was not; LAMMPS does not outlive it."""
    whole, other = tmp_path / "whole", tmp_path / "other"
    for place in (whole, other):
        place.mkdir()
        (place / "r.yaml").write_text(RUNS)
    done = subprocess.run(label(whole, "--jobs", "2"), cwd=whole, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    work, kept = other / "out.xyz.work", []
    for k in range(4):
        words = label(other, "--jobs", "2")
        with subprocess.Popen(words, cwd=other, env=environment(), stdout=subprocess.DEVNULL) as process:
            made = lambda k=k: work.exists() and len(contents(work)) >= k
            assert kills.kill_when(process.pid, made, 0.05 * k) == kills.KILLED
        kept.append(len(contents(work)))
    deadline = time.monotonic() + 30
    while children_of(other) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children_of(other)
    done = subprocess.run(label(other), cwd=other, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert kept[-1] > 0 and kept == sorted(kept), kept
    assert (other / "out.xyz").read_bytes() == (whole / "out.xyz").read_bytes()
    assert (
        contents(other / "out.xyz.work") == contents(whole / "out.xyz.work")
        and len(contents(other / "out.xyz.work")) == 4
    )
    assert [n for n in os.listdir(other / "out.xyz.work") if not n.endswith(".npz")] == [lock.NAME]


@needs_lmp
def test_what_is_there_is_not_run_again(tmp_path):
    """Other seeds, states and potentials are other trajectories; a file that is not whole is run again."""
    said, start = [], silicon(1)
    wanted = {"temperature": [300, 400], "time": 0.02, "every": 0.01, "equilibrate": 0.01, "timestep": 1}

    def again(section=None, start=start, **more):
        said.clear()
        section = section or {"lammps": SW}
        found = generate.from_frames("t", [start], section, {**wanted, **more}, str(tmp_path / "w"), write=said.append)
        return [f["positions"].tobytes() for one in found for f in one], sum(s.startswith("[") for s in said)

    first, ran = again()
    path = sorted(contents(tmp_path / "w"))[0]
    assert ran == 2 and len(set(first)) == 4
    assert again() == (first, 0) and said == [f"{tmp_path}/w has 2 of 2 trajectories"]
    assert again(temperature=[400]) == (first[2:], 0)
    assert again(temperature=[300, 500])[1] == 1
    for more in ({"seed": 2}, {"hot": 500}, {"equilibrate": 0.02}, {"timestep": 0.5}):
        assert again(**more)[1] == 2, more
    assert again({"lammps": ["pair_style sw", "pair_coeff * * Si.sw Si"]})[1] == 2
    moved = {**start, "positions": start["positions"] + 1e-9}
    assert again(start=moved)[1] == 2
    content = (tmp_path / "w" / path).read_bytes()
    (tmp_path / "w" / path).write_bytes(content[: len(content) // 2])
    shutil.copytree(tmp_path / "w", tmp_path / "elsewhere")  # a folder that was moved
    assert again(temperature=[300, 400, 500])[1] == 1
    assert (tmp_path / "w" / path).read_bytes() == content


@needs_lmp
def test_two_runs_in_one_folder(tmp_path):
    with lock.locked(str(tmp_path / "w"), ""), pytest.raises(ModelError, match="w: another run is writing to it"):
        sampled(silicon(1), {"temperature": 300}, tmp_path)
    with pytest.raises(
        DynamicsError, match="t-1-300K-1 is the same trajectory as t-1-300K-1: give one of them another"
    ):
        task = dynamics.Task(
            "a", "t-1-300K-1", silicon(1), potentials.LammpsPotential(SW), dynamics.plan(*state({"temperature": 300}))
        )
        dynamics.run([task, task], str(tmp_path / "w"), write=QUIET)


def state(wanted):
    d = dynamics.settings(wanted)
    return d, dynamics.states(d)[0], silicon(1)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@needs_lmp
def test_an_explosion(tmp_path):
    """A time step that is too long: one error with state and folder; with on_error: keep the frames before it."""
    wanted = {"temperature": 2000, "timestep": 25, "every": 0.025, "time": 5, "equilibrate": 0, "minimise": False}
    with pytest.raises(DynamicsError, match="^t-1-2000K-1: (the temperature rose above|ERROR).*files: .*failed") as e:
        sampled(silicon(2), wanted, tmp_path)
    folder = str(e.value).split("files: ")[1].rstrip(")")
    assert os.path.isfile(os.path.join(folder, "in.lmp")) and os.path.isfile(os.path.join(folder, "log.lammps"))
    assert not contents(tmp_path / "w")
    found = sampled(silicon(2), {**wanted, "on_error": "keep"}, tmp_path)
    assert 0 < len(found) < 200 and all(np.isfinite(f["positions"]).all() for f in found)
    assert len(sampled(silicon(2), {**wanted, "on_error": "keep"}, tmp_path)) == len(found)  # from its file
    with pytest.raises(DynamicsError, match="2000K"):
        sampled(silicon(2), wanted, tmp_path)


@needs_lmp
def test_errors_before_the_dynamics_are_errors_always(tmp_path):
    wanted = {"temperature": 300, "on_error": "keep"}
    for commands, words in (
        (["pair_style none_such"], "t-1-300K-1: LAMMPS: ERROR: Unrecognized pair style 'none_such'"),
        (["pair_style sw", "pair_coeff * * none.sw Si"], "t-1-300K-1: LAMMPS: ERROR.*none.sw.*log.lammps"),
    ):
        with pytest.raises(DynamicsError, match=words):
            sampled(silicon(1), wanted, tmp_path, {"lammps": commands})
    mixed = frame(lattices.crystal("zincblende", ["Si", "C"], 4.36))
    with pytest.raises(ModelError, match="t-1-300K-1: the structures hold C Si: which type is which"):
        sampled(mixed, wanted, tmp_path, {"lammps": ["pair_style sw", "pair_coeff * * Si.sw Si C"]})
    with pytest.raises(DynamicsError, match="t-1-300K-1: element C is not one of Si"):
        sampled(mixed, wanted, tmp_path, {"lammps": SW, "types": ["Si"]})
    molecule = frame({"elements": ["Si"], "positions": np.zeros((1, 3)), "cell": None})
    with pytest.raises(ModelError, match="here: is not periodic and has no pressure"):
        sampled(molecule, {**wanted, "pressure": 0}, tmp_path)


@needs_plugin
def test_errors_of_models(tmp_path):
    modelfile.write(str(tmp_path / "m"), *helpers.painn())
    with pytest.raises(DynamicsError, match="t-1-300K-1: element Si is unknown to the model random-painn"):
        sampled(silicon(1), {"temperature": 300}, tmp_path, {"mlff": str(tmp_path / "m.yaml")})
    with pytest.raises(ModelError, match=r"none\.yaml"):
        sampled(silicon(1), {"temperature": 300}, tmp_path, {"mlff": str(tmp_path / "none.yaml")})


@needs_lmp
def test_teachers_are_looked_at_before_the_dynamics(tmp_path):
    text = "structures:\n  - crystal: {lattice: zincblende, elements: [Si, C], constant: 4.36}\n    dynamics:\n"
    text += "      {temperature: 300, by: {lammps: [pair_style sw, 'pair_coeff * * SiC.sw ${elements}']}}\nteacher:\n"
    modelfile.write(str(tmp_path / "m"), *helpers.painn(elements=("H", "Si")))
    for teacher, words in (
        ("lammps: [pair_style sw, 'pair_coeff * * SiC.sw Si C']", "the structures hold C Si: which type is which"),
        ("mlff: m.yaml", r"structures\[1\]: the teacher knows no C: it has H Si"),
    ):
        (tmp_path / "r.yaml").write_text(f"{text}  {teacher}\n")
        with pytest.raises(ModelError, match=words):
            generate.generate(*recipe_structures.read(str(tmp_path / "r.yaml")), str(tmp_path / "w"), write=QUIET)
        assert not os.path.exists(tmp_path / "w")


@needs_lmp
def test_labels_of_a_recipe_with_dynamics(tmp_path):
    """mlff label: frames of all kinds in one file, with the forces of the potential and not of the thermostat."""
    (tmp_path / "r.yaml").write_text(RUNS.replace("timestep: 0.2", "timestep: 1.0"))
    done = subprocess.run(label(tmp_path), cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    frames = extxyz.read(str(tmp_path / "out.xyz"))
    assert len(frames) == 1 + 4 + 3 * 5 and frames[-1]["info"]["temperature"] == "900"
    teacher = LammpsTeacher(SW, ["Si"])
    (again,) = teacher.label(frames[-1:])
    teacher.close()
    assert_near(frames[-1]["forces"], again["forces"], 1e-9, "forces")
    assert sum(extxyz.plain(f["info"]["split"]) == "test" for f in frames) == 3
