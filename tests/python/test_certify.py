"""mlff certify: the command, from a model and a recipe to a page and JSON; what it keeps, what it cannot measure."""

import glob
import json
import os
import subprocess
import sys
import types

import helpers
import kills
import numpy as np
import pytest
import yaml
from nightly import NIGHTLY, only

from mlff_tools.certify import command, lifetime, runner, speed
from mlff_tools.model import lammps, modelfile
from mlff_tools.train import extxyz
from mlff_tools.train.recipe_certify import MEASUREMENTS

STUDENT = os.path.join(helpers.ROOT, "models", "water-benzene-student.yaml")
TEACHER = os.path.join(helpers.ROOT, "models", "water-benzene-teacher.yaml")
NEQUIX = os.path.join(helpers.ROOT, "models", "nequix-oam-1-pft.yaml")


pytestmark = helpers.needs_lammps


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with eight waters, and labels of them by the student; in noisy.xyz forces are off by 30 meV/A."""
    s = next(s for s in modelfile.load_yaml(STUDENT)["self_test"]["structures"] if s["name"].startswith("8 waters"))
    x, cell, rng = np.array(s["positions"]), np.array(s["cell"]), np.random.default_rng(1)
    frame = {"elements": s["elements"], "positions": x, "cell": cell, "name": "water", "info": {}, "columns": {}}
    (tmp_path / "water.xyz").write_text(extxyz.text(frame))
    frames = []
    for k in range(16):
        info = {"split": "test" if k < 12 else "train", "trajectory": f"t{k // 2}", "config_type": "liquid"}
        info["temperature"] = "300" if k % 2 else "400"
        frames.append({**frame, "positions": x + 0.03 * rng.normal(size=x.shape), "info": info, "name": f"f{k}"})
    found, _ = helpers.engine.evaluate(STUDENT, frames, "fp64")
    for f, (energy, forces, virial) in zip(frames, found):
        f["energy"], f["forces"] = energy, forces
        xx, yy, zz, xy, xz, yz = -virial / abs(np.linalg.det(cell))
        f["stress"] = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    (tmp_path / "labels.xyz").write_text("".join(map(extxyz.text, frames)))
    noisy = [{**f, "forces": f["forces"] + 0.03 * rng.normal(size=f["forces"].shape)} for f in frames]
    (tmp_path / "noisy.xyz").write_text("".join(map(extxyz.text, noisy)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(speed, "ROUND", 0.01)
    monkeypatch.setattr(lifetime, "LEAST", 24)
    return tmp_path


def recipe(place, bars=None, teacher=None, **certify):
    certify = {"scale": 1e-5, "size": 200, **certify}
    certify.setdefault("systems", [{"files": "water.xyz", "kind": "liquid", "temperature": 300}])
    value = {"bars": bars or {}, "certify": certify}
    (place / "r.yaml").write_text(yaml.safe_dump({**value, **({"teacher": teacher} if teacher else {})}))
    return ["r.yaml", "--labels", "labels.xyz" if teacher else "noisy.xyz", "-o", "c.html"]


def certify(words, model=STUDENT):
    """(exit status, the JSON)"""
    status = command.main([model, *words])
    with open("c.json", encoding="utf-8") as f:
        return status, json.load(f)


def rows_of(found, quantity):
    return {r["group"]: r for m in found["measurements"].values() for r in m["rows"] if r["quantity"] == quantity}


def verdicts(found):
    return {f"{b['quantity']} {b['group']}": b["verdict"] for b in found["bars"]}


def test_the_kind_of_material(place, capsys):
    """Its bars judge in addition to looser ones of the recipe, which are red. What is not measured is undecided."""
    words = recipe(place, {"forces": "9 %"}, {"mlff": STUDENT})
    text = (place / "r.yaml").read_text()
    (place / "r.yaml").write_text(text + "kind: liquid\n")
    status, found = certify([*words, "--measure", "errors"])
    assert status == 3 and found["verdict"] == "UNDECIDED" and found["kind"] == "liquid"
    assert [(b["from"], b["verdict"]) for b in found["bars"] if b["quantity"] == "forces"] == [
        ("liquid", "PASS"),
        ("recipe", "PASS"),
    ]
    assert verdicts(found)["density all"] == "not measured"
    assert "undecided, 1 loosened by the recipe (kind: liquid)" in found["verdict_text"]
    assert "forces (all): the recipe's bar 9 % is looser than the kind's 6 %" in capsys.readouterr().out
    assert '<span class="fail">loosened: 6 %</span>' in (place / "c.html").read_text()
    (place / "r.yaml").write_text(text.replace("9 %", "1.0e-9") + "kind: liquid\n")
    assert command.main(["--page", "c.json", "r.yaml", "-o", "d.html"]) == 1  # judged again, nothing is measured
    assert json.loads((place / "d.json").read_text())["measurements"] == found["measurements"]
    assert "FAIL: 1 of" in capsys.readouterr().out and "<b>QUICK FAIL" in (place / "d.html").read_text()
    assert command.main(["--page", "c.json", "-o", "c.json"]) == 2  # the certificate itself
    (place / "e.json").write_text('{"format": "mlff-certificate/1"}')
    assert command.main(["--page", "e.json"]) == 2 and json.loads((place / "c.json").read_text()) == found
    (place / "r.yaml").write_text(text + "kind: gas\n")
    assert command.main([STUDENT, *words]) == 2
    assert "kind: is 'gas'; allowed is one of metal" in capsys.readouterr().err


def test_hashes_of_frames(place):
    """The order of the frames does not matter. One frame without a hash gives null."""
    frames = extxyz.read("labels.xyz")
    for k, f in enumerate(frames):
        f["info"]["frame_sha256"] = f"{k:064x}"
    made = types.SimpleNamespace(frames=frames, test=frames[:2])
    found = command._frames(made)
    assert found["held_out"] == ["0" * 12] * 2
    made.frames = frames[::-1]
    assert command._frames(made) == found
    made.frames = frames[1:]
    assert command._frames(made)["sha256"] != found["sha256"]
    del frames[3]["info"]["frame_sha256"]
    assert command._frames(made) is None


def test_other_seeds(place):
    """A network next to the model is tested on the same frames; the same network has no spread, another one has."""
    for name, source in (("s", STUDENT), ("s-2", STUDENT), ("s-3", TEACHER), ("s-inner", STUDENT)):
        head, tensors = modelfile.read(source)
        modelfile.write(str(place / name), {**head, "name": name}, tensors)
    words = [*recipe(place, {}, {"mlff": STUDENT}), "--measure", "errors,seeds"]
    _, found = certify(words, "s.yaml")
    rows, mine = rows_of(found, "seed_forces"), rows_of(found, "forces")["all"]["value"]
    assert list(rows) == ["s-2", "s-3", "spread"] and rows["s-2"]["value"] == pytest.approx(mine, abs=1e-6)
    assert rows["spread"]["value"] == pytest.approx(np.std([mine, mine, rows["s-3"]["value"]], ddof=1)) and mine >= 0
    (place / "s-3.yaml").unlink()
    _, found = certify(words, "s.yaml")
    assert rows_of(found, "seed_forces")["spread"]["value"] == pytest.approx(0, abs=1e-6)


def test_what_a_model_does_not_say():
    """Is null in the certificate."""
    head = {"elements": ["H", "O"], "cutoff": 4.0, "domain": {"elements": ["H", "O"], "temperature": [200, 400]}}
    spans = command._domain(head, [])
    assert spans["model"] == {"elements": ["H", "O"], "temperature": [200, 400], "density": None, "distances": None}
    assert spans["held_out"] == spans["covered"] == {**dict.fromkeys(spans["model"]), "elements": []}


def test_everything_of_a_liquid(place, capsys):
    """Every measurement, against a teacher that is the same model: all comparisons are exact, and all is said."""
    bars = {
        "forces": {"all": 45, "300 K": 45, "element O": 1e-9},
        "density": "1 %",
        "size_energy": 0.01,
        "nvt": "stable",
    }
    bars |= {"pressed": "repulsive", "lattice_constant": "1 %", "vacuum": 1e-9, "size_run": "stable", "speedup": 0.01}
    status, found = certify(recipe(place, bars, {"mlff": STUDENT}))
    assert status == 1 and found["verdict"] == "FAIL" and found["quick"]
    assert found["verdict_text"].startswith("QUICK FAIL: ")
    said = verdicts(found)
    assert said["forces all"] == said["forces 300 K"] == said["nvt water"] == said["size_run water"] == "PASS"
    assert said["forces element O"] == "FAIL" and said["lattice_constant all"] == "not measured"
    assert said["density water"] == "too short to say" and said["speedup water"] == "PASS"
    assert said["vacuum H"] == said["size_energy water"] == "PASS"
    assert said["pressed water H-O"] == "FAIL"  # a network without a repulsion of its own
    assert "the energy falls again at 0." in rows_of(found, "pressed")["water H-O"]["note"]
    heat = rows_of(found, "heat_of_vaporisation")["water"]
    assert heat["value"] == heat["teacher"] and not heat["enough"] and 5 < heat["value"] < 100, heat
    why = next(b["text"] for b in found["bars"] if b["quantity"] == "lattice_constant")
    assert why == "there is no crystal among the systems"
    forces = rows_of(found, "forces")["all"]
    assert 0 < forces["value"] < 0.1 and forces["scale"] > 500  # single precision
    for pair, r in rows_of(found, "rdf").items():
        assert r["value"] == 0.0, pair  # the same run of the same model
    for r in rows_of(found, "nve_drift").values():
        assert r["value"] == r["teacher"]
    slope = rows_of(found, "timestep_slope")["water"]
    assert 1.7 < slope["value"] < 2.3
    spans = found["domain"]
    assert spans["held_out"]["temperature"] == spans["covered"]["temperature"] == [300, 400]
    assert spans["model"]["temperature"] == [200, 1000] and spans["model"]["distances"]["H-O"] == 0.82
    assert 0.82 < spans["covered"]["distances"]["H-O"] == spans["held_out"]["distances"]["H-O"] < 1.0
    assert set(spans["covered"]["distances"]) == {"H-H", "H-O", "O-O"} and "pair C-C" in spans["not_spanned"]
    assert spans["model"]["elements"] == ["H", "C", "O"] and spans["covered"]["elements"] == ["H", "O"]
    assert spans["not_spanned"][:2] == ["element C", "temperature: 300 to 400 of 200 to 1000 K"]
    page = (place / "c.html").read_text()
    assert "QUICK FAIL" in page and "<script" not in page and "http" not in page and "not measured" in page
    assert "temperature: 300 to 400 of 200 to 1000 K" in page
    for title in ("Errors", "Liquids", "Time step", "Speed and memory", "physical_validation"):
        assert title in page
    out = capsys.readouterr().out
    assert out.strip().splitlines()[-1].startswith("certificate of water-benzene-student: QUICK FAIL: ")
    # again: nothing is run
    again_status, again = certify(recipe(place, bars, {"mlff": STUDENT}))
    keep = ("errors", "nve", "timestep", "nvt", "npt", "size", "beyond", "speed")
    assert again_status == 1 and all(again["measurements"][k] == found["measurements"][k] for k in keep)
    assert " water, " not in capsys.readouterr().out


def test_passes_and_has_no_bars(place, capsys):
    words = [*recipe(place, {"forces": {"all": 45, "liquid 400 K": "10 %"}, "stress": 0.1}), "--measure", "errors"]
    status, found = certify(words)
    assert (
        status == 0
        and found["verdict"] == "PASS"
        and found["teacher"]["text"] == "no teacher: the recipe has no teacher"
    )
    assert found["measurements"]["nve"]["why"] == "left out by `measure`"
    forces = rows_of(found, "forces")["all"]
    assert abs(forces["value"] - 30) < 3 and forces["error"] < 5
    assert set(found["measurements"]) == set(MEASUREMENTS)
    status, found = certify([*recipe(place), "--measure", "errors"])
    assert status == 0 and found["verdict"] == "NO BARS" and "NO BARS" in capsys.readouterr().out
    (place / "noisy.xyz").write_text((place / "noisy.xyz").read_text().replace("split=test", "split=train"))
    os.remove("c.html")
    assert command.main([STUDENT, *recipe(place), "--measure", "errors", "--work", "new.work"]) == 2
    assert "nothing could be measured: errors: no labelled frame has split=test" in capsys.readouterr().err
    assert not os.path.exists("c.html") and not os.path.exists("new.work")


@only
def test_goes_on_after_kills(place):
    """Killed at moments of its own: the same numbers in the end, and what was done is not done again."""
    words = [*recipe(place, {"nve_drift": 1.0}, {"mlff": STUDENT}), "--measure", "errors,nve,timestep,beyond"]
    _, wanted = certify([*words, "--work", "whole"])
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    process_words = [sys.executable, "-m", "mlff_tools", "certify", STUDENT, *words, "--work", "killed"]
    done = lambda: len(glob.glob("killed/*/result.json"))
    for k in range(3) if NIGHTLY else (2,):
        with subprocess.Popen(process_words, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            seen = lambda k=k: os.path.exists("killed") and done() >= k
            assert kills.kill_when(process.pid, seen, 0.05) == kills.KILLED
    left = done()
    _, found = certify([*words, "--work", "killed"])
    assert left > 0
    for name in ("errors", "nve", "timestep", "beyond"):
        assert found["measurements"][name]["rows"] == wanted["measurements"][name]["rows"], name
        assert found["measurements"][name]["figures"] == wanted["measurements"][name]["figures"], name
    with open("c.html", encoding="utf-8") as f:
        assert "Conservation of energy" in f.read()


def test_a_run_in_segments_is_one_run(place, monkeypatch):
    """Restart files between the segments change no row but by rounding; each goes on from the one before."""
    frame = extxyz.read("water.xyz")[0]
    potential = runner.of_model(STUDENT, ["H", "O"], "fp64", lammps.find_plugin())
    p = runner.protocol(timestep=0.5, steps=400, warm=100, every=20, dump=40)
    os.mkdir("one"), os.mkdir("four")
    one = runner.run(lammps.find_lmp(), potential, frame, p, "one", 600)
    monkeypatch.setattr(runner, "SEGMENT", 100)
    four = runner.run(lammps.find_lmp(), potential, frame, p, "four", 600)
    assert len(json.loads((place / "four" / "segments.json").read_text())) == 4
    assert one.ended == four.ended == "end" and len(four.rows) == 21 and len(four.positions) == len(one.positions) == 11
    helpers.assert_near(four.column("step"), np.arange(0, 401, 20), 0, "steps")
    helpers.assert_near(four.column("etotal"), one.column("etotal"), 1e-4, "energies")
    helpers.assert_near(four.positions, one.positions, 1e-3, "positions")


def test_a_run_that_is_given_more_time_goes_on(place, monkeypatch):
    """Cut off before production, in it, and given the time it needs: one whole run. No more time, nothing is done."""
    frame = extxyz.read("water.xyz")[0]
    potential = runner.of_model(STUDENT, ["H", "O"], "fp64", lammps.find_plugin())
    lmp = lammps.find_lmp()
    p = runner.protocol(timestep=0.5, steps=3000, warm=1000, every=30, dump=60)
    os.mkdir("run")
    script = runner._script

    def before(run, *commands):
        """These commands go before the run."""
        new = "\n".join((*commands, run))
        monkeypatch.setattr(runner, "_script", lambda *words: script(*words).replace(run, new))

    before("run 1000\n", "timer timeout 0:00:00 every 10")
    found = runner.run(lmp, potential, frame, p, "run", 60)
    assert (found.ended, found.ps) == ("time", 0.0)
    before("run 3000 upto", "variable now equal step", "fix cut all halt 10 v_now >= 1010 error continue")
    found = runner.run(lmp, potential, frame, p, "run", 60)
    assert (found.ended, found.ps) == ("time", 0.495)
    monkeypatch.setattr(runner, "_script", script)
    found = runner.run(lmp, potential, frame, p, "run", 1e-3)
    assert (found.ended, found.ps) == ("time", 0.495) and os.path.exists(found.last)
    found = runner.run(lmp, potential, frame, p, "run", 600)
    assert found.ended == "end" and found.ps == 1.5 and found.last.endswith("restart.2")
    assert set(found.column("step")) == {*range(0, 3001, 30), 1010} and len(found.positions) == 51
    os.mkdir("whole")
    whole = runner.run(lmp, potential, frame, p, "whole", 600)
    helpers.assert_near(found.column("etotal")[-1], whole.column("etotal")[-1], 1e-4, "energies")


def test_limits_of_time_and_failures_are_said(place):
    frame = extxyz.read("water.xyz")[0]
    potential = runner.of_model(STUDENT, ["H", "O"], "fp32", lammps.find_plugin())
    lmp = lammps.find_lmp()
    os.mkdir("late")
    found = runner.run(
        lmp, potential, frame, runner.protocol(timestep=0.5, steps=10**7, every=100, segments=False), "late", 1
    )
    assert found.ended == "time" and 0 < found.ps < found.wanted_ps
    assert found.stable()[0] == "too short" and f"of {found.wanted_ps:g} ps" in found.stable()[1]
    os.mkdir("wild")
    wild = runner.protocol(timestep=15.0, steps=2000, every=1, temperature=3000.0)
    found = runner.run(lmp, potential, frame, wild, "wild", 60)
    assert found.stable()[0] == "unstable" and "ERROR" in found.stable()[1]
    os.mkdir("warm")  # it fails before the run itself begins
    found = runner.run(lmp, potential, frame, {**wild, "warm": 2000}, "warm", 60)
    assert found.stable()[0] == "unstable" and found.ps == 0 and not len(found.rows)
    os.mkdir("wrong")
    potential.after[0] = "pair_style nosuch"
    with pytest.raises(lammps.LammpsError, match="could not run it: ERROR: Unrecognized pair style"):
        runner.run(lmp, potential, frame, runner.protocol(steps=100), "wrong", 60)
    assert not os.path.exists("wrong/segments.json")  # another time it may work


def test_a_teacher_that_cannot_run(place):
    """With a file of labels only errors are measured. Other rows state why they are not."""
    bars = {"forces": 45, "density": "2 %", "speedup": 5}
    words = recipe(place, bars, {"labels": "labels.xyz"})
    status, found = certify([words[0], "-o", "c.html", "--measure", "errors,liquids,speed,beyond"])
    said = verdicts(found)
    assert status == 3 and said["forces all"] == "PASS" and said["speedup water"] == "not measured"
    assert said["density water"] == "not measured"
    assert "which LAMMPS cannot run" in rows_of(found, "density")["water"]["teacher_note"]
    assert "file of labels" in rows_of(found, "speedup")["water"]["note"]
    assert rows_of(found, "vacuum")["O"]["teacher"] is None


def refused(words, capsys, *texts):
    assert command.main([STUDENT, *words]) == 2
    said = capsys.readouterr().err
    assert all(text in said for text in texts), said
    assert not os.path.exists("c.html")


def test_labels_of_another_teacher(place, capsys):
    """By the numbers that it gives, and by its name and hash in the frames."""
    words = [*recipe(place, {"forces": 45}, {"mlff": TEACHER}), "--measure", "errors"]
    refused(words, capsys, "not the labels of the recipe's teacher: energies", "labels.xyz, frame 1")
    words = [*recipe(place, {"forces": 45}, {"mlff": STUDENT}), "--measure", "errors"]
    refused([*words, "--labels", "noisy.xyz"], capsys, "not the labels of the recipe's teacher")
    scaled = [{**f, "energy": 23.06 * f["energy"], "forces": 23.06 * f["forces"]} for f in extxyz.read("labels.xyz")]
    (place / "kcal.xyz").write_text("".join(extxyz.text({**f, "stress": None}) for f in scaled))
    refused([*words, "--labels", "kcal.xyz"], capsys, "is that of all electrons in kcal/mol: energies must be in eV")
    assert command.main([STUDENT, *words]) == 0
    os.remove("c.html")
    made = [sys.executable, "-m", "mlff_tools", "label", "labels.xyz", "--mlff", STUDENT, "-o", "s.xyz"]
    env = {**os.environ, "PYTHONPATH": os.path.join(helpers.ROOT, "python")}
    subprocess.run(made, env=env, check=True, stdout=subprocess.DEVNULL)
    assert command.main([STUDENT, *words, "--labels", "s.xyz"]) == 0
    os.remove("c.html")
    words = [*recipe(place, {"forces": 1e5}, {"mlff": TEACHER}), "--measure", "errors", "--labels", "s.xyz"]
    who = "was labelled by mlff water-benzene-student"
    refused(words, capsys, "s.xyz, frame 1: " + who, "the teacher of the recipe is mlff water-benzene-teacher")


def test_wrong_labels_have_no_certificate(place, capsys):
    """Forces of other atoms, and copies of training frames that are held out."""
    frames, words = extxyz.read("labels.xyz"), [*recipe(place), "--measure", "errors", "--labels", "wrong.xyz"]
    copy = {**frames[14], "positions": frames[14]["positions"] + [0.5, 0, 0], "info": {"split": "test"}}
    (place / "wrong.xyz").write_text("".join(map(extxyz.text, [*frames, copy])))
    refused(words, capsys, "wrong.xyz, frame 17, for the test, is a copy of wrong.xyz, frame 15")
    rolled = [{**f, "forces": np.roll(f["forces"], 1, 0)} for f in frames]
    (place / "wrong.xyz").write_text("".join(map(extxyz.text, rolled)))
    refused(words, capsys, "the forces are not those of these energies")


def test_what_of_labels_nothing_checks_is_said(place, capsys):
    status, found = certify([*recipe(place, {"forces": 45}), "--measure", "errors"])
    assert status == 0 and "the stress was not compared" in found["context"]["labels_notes"]
    assert capsys.readouterr().out.count("note: noisy.xyz: too few close frames differ in the volume") == 1


CALCULATOR = """
class Springs:
    implemented_properties = ["energy", "forces"]
"""
ASE = """
class Atoms:
    def __init__(self, symbols, positions, **more): self.positions, self.calc = positions, None
    def get_potential_energy(self): return sum(x * x for p in self.positions for x in p)
    def get_forces(self): return [[-2 * x for x in p] for p in self.positions]
"""


def test_a_calculator_of_ase(place):
    (place / "springs.py").write_text(CALCULATOR)
    (place / "ase.py").write_text(ASE)
    teacher = {"ase": {"python": sys.executable, "calculator": "springs:Springs"}}
    words = ["r.yaml", "-o", "c.html", "--measure", "beyond,nvt,speed"]
    recipe(place, {"vacuum": 1e9, "nvt": "stable"}, teacher)
    _, found = certify(words)
    assert rows_of(found, "vacuum")["O"]["teacher"] == 0.0
    assert rows_of(found, "nvt")["water"]["value"] == "stable"
    assert "a calculator of ASE, which LAMMPS cannot run" in rows_of(found, "nvt")["water"]["teacher_note"]
    assert rows_of(found, "speedup")["water"]["value"] > 0 and rows_of(found, "speed")["water"]["teacher"] > 0


def test_a_pair_style_runs_a_calculator(place, capsys):
    """Its dynamics is that of the pair style, whose file is next to the recipe; another potential is refused."""
    (place / "springs.py").write_text(CALCULATOR)
    nothing = ASE.replace("sum(x * x for p in self.positions for x in p)", "0.0").replace("-2 * x", "0.0")
    rows = "".join(f"{k + 1} {0.001 + k} 0.0 0.0\n" for k in range(5))
    (place / "zero.table").write_text(f"ZERO\nN 5 R 0.001 4.001\n\n{rows}")
    commands = ["pair_style table linear 100", "pair_coeff * * zero.table ZERO 4.0"]
    for text, status in ((nothing, 0), (ASE, 2)):
        (place / "ase.py").write_text(text)
        teacher = {"ase": {"python": sys.executable, "calculator": "springs:Springs"}}
        recipe(place, {"nvt": "stable"}, teacher, by={"lammps": commands, "types": ["H", "O"]})
        assert command.main([STUDENT, "r.yaml", "-o", f"c{status}", "--measure", "nvt,liquids"]) == status
    assert "certify.by: water" in capsys.readouterr().err
    with open("c0.json", encoding="utf-8") as f:
        found = json.load(f)
    row = rows_of(found, "density")["water"]
    assert row["teacher"] is not None and row["teacher"] != row["value"], row
    recipe(place, {}, {"mlff": STUDENT}, by={"lammps": commands, "types": ["H", "O"]})
    assert command.main([STUDENT, "r.yaml", "-o", "d"]) == 2
    assert "certify.by: is for a teacher that is a calculator of ASE" in capsys.readouterr().err


def test_crystal_against_a_pair_style(place):
    """Silicon: Nequix against Stillinger and Weber; published constants of both are what is compared."""
    teacher = {"lammps": ["pair_style sw", "pair_coeff * * Si.sw ${elements}"]}
    systems = [
        {"crystal": {"lattice": "diamond", "elements": ["Si"], "constant": 5.45}, "name": "Si", "temperature": 300}
    ]
    bars = {"lattice_constant": {"Si a": "2 %"}, "elastic_constants": {"C11": "5 %", "C12": "5 %"}, "phonons": "3 %"}
    words = recipe(place, bars, teacher, systems=systems, atoms=8)
    status, found = certify([words[0], "-o", "c.html", "--measure", "crystals"], NEQUIX)
    a = rows_of(found, "lattice_constant")["Si a"]
    helpers.assert_near([a["value"], a["teacher"]], [5.487, 5.431], 1e-3, "lattice constants")
    assert verdicts(found) == {
        "lattice_constant Si a": "PASS",
        "elastic_constants Si C11": "PASS",
        "elastic_constants Si C12": "FAIL",
        "phonons all": "not measured",
    }
    assert status == 1


@pytest.mark.parametrize(
    "text, words",
    [
        ("bars: {force: 45}\n", "r.yaml:1: bars.force: is not known"),
        ("certify:\n  systems: [{files: nosuch.xyz, kind: liquid}]\n", "nosuch.xyz: there is no such file"),
        ("certify:\n  systems: [{files: water.xyz}]\n", "what is it? Give kind: liquid, crystal or molecule"),
        ("certify:\n  systems: [{molecul: water, kind: molecule}]\n", "r.yaml:2: structures[1].molecul: is not known"),
        ("certify:\n  systems: [water, {molecul: water, kind: molecule}]\n", "r.yaml:2: structures[1].molecul: is not"),
        ("certify:\n  systems: [water]\n", "systems[1]: the section structures has no 'water', but none"),
        ("certify:\n  systems: [{crystal: {lattice: fcc, elements: [Al], constant: 4}}]\n", "does not know Al"),
        ("- a\n", "must be a mapping"),
    ],
)
def test_wrong_recipes(place, capsys, text, words):
    (place / "r.yaml").write_text(text)
    assert command.main([STUDENT, "r.yaml", "-o", "c.html"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("mlff certify: error: ") and words in said, said
    assert not os.path.exists("c.html")


def test_one_at_a_time(place, capsys):
    words = [*recipe(place), "--measure", "errors", "--work", "w"]
    from mlff_tools.certify.work import Work

    held = Work("w")
    assert command.main([STUDENT, *words]) == 2
    assert "another certificate is being made there" in capsys.readouterr().err
    held.close()
    assert command.main([STUDENT, *words]) == 0
    assert command.main([STUDENT, "--measure", "nothing"]) == 2
    assert "there are errors, seeds" in capsys.readouterr().err
