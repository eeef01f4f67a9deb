"""mlff distill --explore and --continue: a script that the student learns to run, killed loops, and wrong input."""

import filecmp
import json
import os
import random
import shutil
import types

import kills
import nightly
import numpy as np
import pytest
from test_distill import MODELS, SMALL, SW, distill, needs_torch, start, write

from mlff_tools.model import modelfile
from mlff_tools.model.lammps import find_lmp, find_plugin
from mlff_tools.train import (
    copies,
    distilling,
    explore,
    explore_rounds,
    extxyz,
    job,
    labelling,
    labels,
    recipe_rounds,
    rounds,
)
from mlff_tools.train.process import TeacherError
from mlff_tools.train.recipe import RecipeError

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = """variable seed index 1
variable t index 900
units metal
read_data start.data
%s
%s
timestep 0.001
velocity all create $(2*v_t) ${seed}
fix 1 all nve
fix 2 all langevin ${t} ${t} 0.05 ${seed}
dump 1 all custom 100 out/all.dump id x y z
%s
"""
GAAS = os.path.join(MODELS, "gaas-r2scan-m.yaml")
LIMIT = 0.01  # eV/A, below that of all models


def data(elements, constant, n, masses):
    """A data file of the diamond or zinc-blende lattice, n^3 cells."""
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    cells = np.stack(np.meshgrid(*[range(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    rows = [(1 + k % len(elements), c + b + k / 4) for c in cells for b in basis for k in (0, 1)]
    lines = ["start", "", f"{len(rows)} atoms", f"{len(elements)} atom types", ""]
    lines += [f"0.0 {n * constant} {c}lo {c}hi" for c in "xyz"]
    lines += ["", "Masses", "", *(f"{k} {m}" for k, m in enumerate(masses, 1)), "", "Atoms # atomic", ""]
    for k, (kind, x) in enumerate(rows, 1):
        lines.append(f"{k} {kind} " + " ".join(f"{c * constant:.6f}" for c in x))
    return "\n".join(lines) + "\n"


@pytest.fixture
def gaas(tmp_path):
    """Runs a script of GaAs with a low limit."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "out").mkdir()
    (tmp_path / "user" / "start.data").write_text(data(["Ga", "As"], 5.68, 2, [69.723, 74.922]))

    def run(style="pair_style mlff", coeff="pair_coeff * * any.yaml Ga As", end="run 40", most=1000, text=None, **more):
        variables = more.pop("variables", {})
        (tmp_path / "user" / "in.gaas").write_text(text or SCRIPT % (style, coeff, end))
        script = explore.Script(tmp_path / "user" / "in.gaas", variables, 10)
        programs = types.SimpleNamespace(lmp=find_lmp(), plugin=find_plugin())
        return explore.run(script, GAAS, LIMIT, 7, str(tmp_path / "run"), programs, most)

    run.place = tmp_path / "run"
    run.user = tmp_path / "user"
    return run


def test_frames_above_the_limit(gaas):
    """Steps, elements and box of the frames; files of the user stay as they are, keywords of the loop are replaced."""
    found = gaas(style="pair_style mlff domain stop devi_stop 1e-9 out_file mine.out precision fp64")
    assert (found.checks, found.above, found.error) == (5, len(found.frames), None)
    assert [f["step"] for f in found.frames][-3:] == [20, 30, 40] and found.largest > LIMIT
    last = found.frames[-1]
    assert last["elements"][:2] == ["Ga", "As"] and len(last["elements"]) == 64
    assert last["cell"] == pytest.approx(np.diag([11.36] * 3))
    assert sorted(os.listdir(gaas.user)) == ["in.gaas", "out", "start.data"] and not os.listdir(gaas.user / "out")
    assert (gaas.place / "out" / "all.dump").exists() and not (gaas.place / "mine.out").exists()
    assert "precision fp64" in (gaas.place / "in.gaas").read_text()


def test_the_same_in_a_hybrid_style_and_other_units(gaas):
    plain = gaas()
    hybrid = gaas(
        style="pair_style hybrid/overlay zero 4.0 mlff out_freq 3",
        coeff="pair_coeff * * zero\npair_coeff * * mlff ${model} &\n  Ga As",
    )
    assert [f["step"] for f in hybrid.frames] == [f["step"] for f in plain.frames]
    assert np.allclose(hybrid.frames[-1]["positions"], plain.frames[-1]["positions"], atol=1e-4)
    real = (SCRIPT % ("pair_style mlff", "pair_coeff * * a.yaml Ga As", "run 40")).replace("units metal", "units real")
    real = real.replace("timestep 0.001", "timestep 1.0").replace("0.05 ${seed}", "50 ${seed}")
    other = gaas(text=real)
    assert other.largest == pytest.approx(plain.largest, rel=0.05)


def test_several_runs_and_an_end(gaas):
    """Frames of all styles of a loop are kept, and a run ends when it has enough of them."""
    again = SCRIPT % ("label again\nvariable n loop 2\npair_style mlff", "pair_coeff * * a.yaml Ga As", "run 20")
    again += "unfix 1\nunfix 2\nundump 1\nnext n\njump SELF again\n"
    found = gaas(text=again)
    assert found.checks == 6
    few = gaas(end="run 1000000", most=4)
    assert len(few.frames) == 4 and few.above == 4 and few.checks >= 4


def test_a_crash_keeps_its_frames(gaas):
    found = gaas(end="run 40\nrun what")
    assert "ERROR" in found.error and len(found.frames) >= 3


@pytest.mark.parametrize(
    "change, words",
    [
        ({"end": "print done"}, "in.gaas: ended without a step of pair_style mlff: it needs a `run`"),
        ({"end": "frobnicate\nrun 10"}, "in.gaas: LAMMPS: ERROR: Unknown command: frobnicate"),
        ({"style": "pair_style lj/cut 3"}, "in.gaas: has no `pair_style mlff`, which the student needs"),
        ({"style": "pair_style hybrid mlff mlff"}, "has pair_style with mlff twice: explore one model"),
        ({"coeff": "include coeff.in"}, "has no pair_coeff for mlff: write it into the script itself"),
        ({"coeff": "pair_coeff * * a.yaml"}, "must name a model file and the element of each atom type"),
    ],
)
def test_scripts_that_are_wrong(gaas, change, words):
    with pytest.raises(explore.ScriptError, match=words):
        gaas(**change)


def test_types_without_an_element(gaas):
    style = "pair_style hybrid/overlay zero 4.0 mlff"
    with pytest.raises(explore.ScriptError, match="atom type 2 is NULL for mlff: the teacher labels whole frames"):
        gaas(style=style, coeff="pair_coeff * * zero\npair_coeff * * mlff a.yaml Ga NULL")


def test_boxes_that_are_not_periodic():
    x = np.array([[0.0, 0, 1], [1, 1, 5]])
    bounds = ["0 8", "0 8", "1 5"]
    positions, cell = explore.box_of(["ITEM: BOX BOUNDS pp pp mm", *bounds], x)
    assert cell == pytest.approx(np.diag([8, 8, 4 + explore.VACUUM])) and positions[:, 2] == pytest.approx([0, 4])
    assert explore.box_of(["ITEM: BOX BOUNDS ff mm ss", *bounds], x)[1] is None
    tilted = ["0 9 1", "0 8 0", "0 8 0"]
    assert explore.box_of(["ITEM: BOX BOUNDS xy xz yz pp pp pp", *tilted], x)[1][1] == pytest.approx([1, 8, 0])


@pytest.mark.parametrize("words", [["t"], ["2 t", "3"], ["t", ""], ["t", "a\nb"]])
def test_variables_that_are_wrong(words):
    with pytest.raises(explore.ScriptError, match="--var '.*': must be a name and one or more values, as `--var"):
        explore.check_variables([words], "--var")
    with pytest.raises(explore.ScriptError, match="--var t: is given twice"):
        explore.check_variables([["t", "1"], ["t", "2"]], "--var")


@pytest.mark.parametrize(
    "more, words",
    [
        ("rounds: {script: in.none}\n", "15: rounds.script: .*in.none: No such file"),
        ("rounds: {script: in.si, time: 3}\n", "15: rounds.time: is not known; allowed are count, frames"),
        ("rounds: {script: in.si, variables: {t: [[1]]}}\n", "15: rounds.variables: is .*; allowed is a mapping"),
        ("rounds: {script: in.si, passes: 0}\n", "15: rounds.passes: is 0; allowed is a whole number from 1"),
        ("rounds: {script: in.si, variables: {a b: 1}}\n", "15: rounds.script: variables 'a b 1': must be a name"),
    ],
)
def test_recipes_that_are_wrong(tmp_path, more, words):
    (tmp_path / "in.si").write_text("pair_style mlff\npair_coeff * * x Si\n")
    with pytest.raises(RecipeError, match=f"recipe.yaml:{words}"):
        recipe_rounds.read(write(tmp_path, SW + SMALL + more))
    ensemble = SW + "student: {architecture: ani}\nrounds: {script: in.si}\n"
    with pytest.raises(RecipeError, match="student: has 4 members, but a script is explored with one network"):
        recipe_rounds.read(write(tmp_path, ensemble))


def test_commands_that_are_wrong(tmp_path):
    (tmp_path / "in.si").write_text("pair_style mlff\npair_coeff * * x Si\n")
    recipe = write(tmp_path, SW + SMALL)
    said = lambda *words: distill(tmp_path, recipe, *words, code=2)
    assert "--explore and --continue: give one of them" in said("--explore", "in.si", "--continue", "a.xyz")
    assert "--var belongs to --explore" in said("--var", "t", "3")
    assert "--atoms belongs to --explore" in said("--atoms", "3")
    assert "in.none: No such file" in said("--explore", "in.none")
    assert "--var 't': must be a name and one or more values" in said("--explore", "in.si", "--var", "t")
    (tmp_path / "folder").mkdir()
    assert "folder: its recipe is not at None" in distill(tmp_path, "folder", "--explore", "in.si", code=2)
    labelled = write(tmp_path, "name: x\nteacher: {labels: a.xyz}\n", "labels.yaml")
    assert "a file of labels cannot label the frames" in distill(tmp_path, labelled, "--explore", "in.si", code=2)
    assert not (tmp_path / "si").exists()


def frames_at(spread, n=12, seed=1):
    """GaAs crystals with displaced atoms."""
    rng = np.random.default_rng(seed)
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    x = 5.68 * np.concatenate([basis, basis + 0.25])
    elements, out = ["Ga"] * 4 + ["As"] * 4, []
    for k in range(n):
        where = f"{spread} {k}"
        frame = {"elements": elements, "cell": 5.68 * np.eye(3), "source": where, "name": where, "info": {}}
        out.append({**frame, "positions": x + spread * rng.normal(size=x.shape), "columns": {}})
    return out


def test_the_most_different_frames_come_first():
    near, far = frames_at(0.02), frames_at(0.3)
    chosen = rounds.most_different(near + far + far, 14, GAAS)
    names = [f["name"] for f in chosen]
    assert len(set(names)) == len(names)  # none twice
    assert all(name.startswith("0.3") for name in names[:8])
    assert rounds.most_different(near + far, 3, GAAS)[0]["name"] == names[0]
    assert len(rounds.most_different(far, 3, GAAS)) == 3


def test_copies_of_frames_of_another_split_are_left_out():
    (one,) = frames_at(0.1, 1)
    test = {**one, "info": {"split": "test"}, "name": "test"}
    moved = {**one, "positions": one["positions"] + 1.0, "info": {"split": "train"}, "name": "moved"}
    other = {**frames_at(0.1, 1, 2)[0], "info": {"split": "train"}, "name": "other"}
    assert [f["name"] for f in copies.without([moved, other], [test])] == ["other"]


def test_a_student_without_an_uncertainty(tmp_path):
    """Too few labels for one: the loop ends before any run of the script."""
    frames = [{**f, "forces": np.zeros((8, 3))} for f in frames_at(0.1, 2)]
    path = lambda *names: os.path.join(tmp_path, *names)
    run = types.SimpleNamespace(path=path, held=lambda _: frames, folder="si", write=print)
    run.unsure = types.MethodType(distilling.Run.unsure, run)
    with pytest.raises(modelfile.ModelError, match="si: a script cannot be explored without an uncertainty: too few"):
        explore_rounds.student(run, 1, {"models": [GAAS]})


def test_hours_that_are_used_up(tmp_path):
    run = types.SimpleNamespace(path=lambda *names: os.path.join(tmp_path, *names))
    for k, seconds in ((1, 5000.0), (2, 2000.0)):
        os.makedirs(run.path(f"round-{k}"))
        job.write_json(run.path(f"round-{k}", "round.json"), {"core_seconds": seconds})
    assert explore_rounds.is_spent(run, 3, {"first": 1, "hours": 1.9})
    assert not explore_rounds.is_spent(run, 3, {"first": 2, "hours": 1.9})
    assert not explore_rounds.is_spent(run, 3, {"first": 1, "hours": None})


class Teacher:
    """Refuses frames whose first coordinate is negative."""

    identity = {"kind": "ase", "name": "refuses", "sha256": "0", "versions": "1"}
    derivatives = True

    def label(self, frames):
        if any(f["positions"][0, 0] < 0 for f in frames):
            raise TeacherError("it has not converged")
        n = len(frames[0]["elements"])
        return [{"energy": 0.0, "forces": np.zeros((n, 3)), "stress": None, "atom_energies": None} for _ in frames]


def test_refused_frames_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(labelling, "check_first", lambda teacher, frame, *_: (labelling.ask(teacher, [frame])[0], True))
    for check in ("check_stress", "check_scale"):
        monkeypatch.setattr(labelling, check, lambda *_: None)
    frames = frames_at(0.1)
    for k, f in enumerate(frames):
        f["positions"][0, 0] = -1.0 if k in (3, 7, 11) else 0.1
    file, refused, said = labels.LabelFile(str(tmp_path / "l.xyz"), Teacher.identity), [], []
    labelling.label(Teacher(), frames, file, said.append, 0.0, refused)
    file.close()
    assert [f["name"] for f in refused] == ["0.1 3", "0.1 7", "0.1 11"] and len(file.frames) == 9
    assert sum("left out, since the teacher refuses it: 0.1 7: it has not converged" in line for line in said) == 1


# ---- whole loops -----------------------------------------------------------------------------------------------------

LOOP = ("--explore", "in.si", "--var", "t", "1800", "--rounds", "4", "--no-certificate")
TINY = SMALL.replace("steps: 100", "steps: 300") + "rounds: {count: 0, frames: 10, steps: 80}\n"
RECIPE = SW.replace("copies: 20", "copies: 60")


def prepare(folder):
    (folder / "start.data").write_text(data(["Si"], 5.43, 2, [28.0855]))
    (folder / "in.si").write_text(SCRIPT.replace("out/", "") % ("pair_style mlff", "pair_coeff * * x Si", "run 300"))
    return write(folder, RECIPE + TINY)


@needs_torch
def test_a_script_until_it_holds(tmp_path):
    """The script is hotter than the recipe: frames are found, labelled and trained on, until it passes."""
    recipe = prepare(tmp_path)
    said = distill(tmp_path, recipe, *LOOP, "--atoms", "10", code=2)
    assert "in.si: a frame has 64 atoms, and frames of up to 10 are labelled: run a smaller box" in said
    said = distill(tmp_path, recipe, *LOOP)
    entry = json.loads((tmp_path / "si" / "more.json").read_text())[-1]
    k = entry["first"]
    report = json.loads((tmp_path / "si" / f"round-{k}" / "round.json").read_text())
    assert report["found"] > report["frames"] >= 1 and report["before"] > 0 and report["after"] > 0, said
    assert report["core_seconds"] > 0 and f"round {k}: {report['found']} frames found" in said
    assert entry["end"] == "passed" and entry["last"] >= k, said
    held = labels.read_labels(str(tmp_path / "si" / "labels.xyz"))
    mine = [f for f in held if job.round_of(f) == k]
    assert len(mine) == report["frames"] and {extxyz.tag(f, "config_type") for f in mine} == {"in.si"}
    head = modelfile.read_head(str(tmp_path / "si" / "si.yaml"))
    trained = modelfile.read_head(str(tmp_path / "si" / f"round-{entry['last']}" / "si.yaml"))
    assert head["painn"] == trained["painn"] and head["uncertainty"]["limit"] > 0
    before = (tmp_path / "si" / "si.safetensors").read_bytes()
    assert "passed before; nothing is done again" in distill(tmp_path, recipe, *LOOP)
    distill(tmp_path, recipe, "--no-certificate")  # the model of the loop stays
    assert (tmp_path / "si" / "si.safetensors").read_bytes() == before

    # further frames, by the name of the folder
    some = [{**f, "energy": None, "forces": None, "stress": None, "info": {}} for f in held[:5]]
    for k, f in enumerate(some):
        f["positions"] = f["positions"] + 0.05 * np.random.default_rng(k).normal(size=f["positions"].shape)
    (tmp_path / "more.xyz").write_text("".join(map(extxyz.text, some + held[:1])))
    said = distill(tmp_path, "si", "--continue", "more.xyz", "--no-certificate", code=2)
    assert "label all frames, or none" in said
    (tmp_path / "more.xyz").write_text("".join(map(extxyz.text, some)))
    said = distill(tmp_path, "si", "--continue", "more.xyz", "--no-certificate")
    assert "5 labels of " in said and (tmp_path / "si" / "si.safetensors").read_bytes() != before
    new = labels.read_labels(str(tmp_path / "si" / "labels.xyz"))[len(held) :]
    assert len(new) == 5 and {extxyz.tag(f, "config_type") for f in new} == {"more"}
    said = distill(tmp_path, "si", "--continue", "more.xyz", "--no-certificate")
    assert "trained before; nothing is done again" in said
    (tmp_path / "more.xyz").write_text("".join(map(extxyz.text, some[:4])))
    said = distill(tmp_path, "si", "--continue", "more.xyz", code=2)
    assert "all 4 frames are labelled already" in said


@needs_torch
def test_labels_of_another_teacher(tmp_path):
    recipe = prepare(tmp_path)
    distill(tmp_path, recipe, "--no-certificate")
    frames = labels.read_labels(str(tmp_path / "si" / "labels.xyz"))[:6]
    rng, bare = np.random.default_rng(4), []
    for f in frames:
        x = f["positions"] + 0.02 * rng.normal(size=f["positions"].shape)
        bare.append({**f, "positions": x, "info": {}})
    (tmp_path / "wrong.xyz").write_text("".join(map(extxyz.text, bare)))
    said = distill(tmp_path, recipe, "--continue", "wrong.xyz", "--no-certificate", code=2)
    assert "the labels of the file and those of the recipe's teacher differ" in said


@needs_torch
@nightly.only
def test_a_loop_that_is_killed(tmp_path):
    """A loop that is killed ends with the bits of one that was not."""
    recipe = prepare(tmp_path)
    loop = [w if w != "4" else "1" for w in LOOP]
    distill(tmp_path, recipe, "--out", "whole", "--no-certificate")
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    whole, rng, killed = kills.Changes(tmp_path / "whole"), random.Random(5), 0
    process = start(tmp_path, recipe, "--out", "whole", *loop)
    assert kills.kill_when(process.pid, whole) in (0, 1), process.communicate()[0]
    for _ in range(10):
        process = start(tmp_path, recipe, "--out", "killed", *loop)
        changes = kills.Changes(tmp_path / "killed", rng.uniform(0.1, 0.7) * whole.count)
        killed += kills.kill_when(process.pid, changes, rng.uniform(0.0, 0.05)) == kills.KILLED
        process.communicate()
    process = start(tmp_path, recipe, "--out", "killed", *loop)
    assert process.communicate() and process.returncode in (0, 1) and killed
    for name in ("labels.xyz", "si.yaml", "si.safetensors", "round-1/chosen.xyz"):
        assert filecmp.cmp(tmp_path / "whole" / name, tmp_path / "killed" / name, shallow=False), name


@needs_torch
def test_rounds_of_a_recipe_with_a_script(tmp_path):
    """One round is not enough here: the loop says so, and ends with status 1."""
    prepare(tmp_path)
    more = "rounds: {script: in.si, count: 1, variables: {t: 1800}, frames: 3, steps: 5, passes: 3}\n"
    recipe = write(tmp_path, RECIPE + SMALL + more, "script.yaml")
    process = start(tmp_path, recipe, "--no-certificate")
    said = process.communicate()[0]
    assert "round 1: " in said and "frames found, 3 labelled; forces of new frames" in said
    passed = "in.si passed 3 runs: " in said
    assert passed or "in.si still has" in said
    assert process.returncode == (0 if passed else 1)
