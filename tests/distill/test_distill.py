"""mlff distill from a recipe to a certificate, for each kind of teacher; killed runs; recipes that are wrong."""

import filecmp
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import types

import kills
import nightly
import pytest
import random_mace
import random_tensornet
from nightly import NIGHTLY

from mlff_tools.model import modelfile, selftest
from mlff_tools.train import distilling, extxyz, hessian, job, labels, recipe_rounds, rounds
from mlff_tools.train.recipe import RecipeError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "models")
TORCH, ASE = os.environ.get("MLFF_TORCH_PYTHON"), os.environ.get("MLFF_ASE_PYTHON")
needs_torch = pytest.mark.skipif(not TORCH, reason="MLFF_TORCH_PYTHON names no Python with PyTorch")
needs_ase = pytest.mark.skipif(not ASE, reason="MLFF_ASE_PYTHON names no Python with ASE")

SMALL = """
student: {features: 8, layers: 1, cutoff: 4.0, spacing: 0.25}
training: {steps: 100, validate_every: 50}
certify: {quick: true, measure: [errors], minutes: 1}
"""
CRYSTAL = "crystal: {lattice: %s, elements: [%s], constant: %s, supercell: [%d, %d, %d]}"
SW = (
    "name: si\nstructures:\n  - "
    + CRYSTAL % ("diamond", "Si", 5.43, 1, 1, 1)
    + "\n    strain: 0.03\n    rattle: 0.05\n    copies: 20\n  - "
    + CRYSTAL % ("diamond", "Si", 5.43, 2, 2, 2)
    + "\n    dynamics: {temperature: [300, 900], time: 0.5, every: 0.05, timestep: 1, equilibrate: 0.1}\n"
    'teacher:\n  lammps: [pair_style sw, "pair_coeff * * Si.sw ${elements}"]\n'
)
RUNS = "  - %s\n    split: test\n" % (CRYSTAL % ("diamond", "Si", 5.43, 2, 2, 2))
RUNS += "    dynamics: {temperature: 300, time: 0.1, every: 0.05, timestep: 1, runs: %d, seed: 9}\n"
HELD_OUT = SW.replace("teacher:", "  - %s\n    split: test\nteacher:" % (CRYSTAL % ("diamond", "Si", 5.5, 1, 1, 1)))


def write(folder, text, name="recipe.yaml"):
    path = folder / name
    path.write_text(text)
    return str(path)


def start(folder, recipe, *more, **options):
    words = [sys.executable, "-m", "mlff_tools", "distill", recipe, *more]
    return subprocess.Popen(
        words,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def distill(folder, recipe, *more, code=0):
    process = start(folder, recipe, *more)
    said = process.communicate()[0]
    assert process.returncode == code, said
    return said


def certified(folder, name, said):
    """The certificate of a run, whose model is one that the engine takes."""
    place = folder / name
    with open(place / "certificate.json", encoding="utf-8") as f:
        found = json.load(f)
    assert (place / "certificate.html").read_text().startswith("<!")
    assert f"certificate of {name}: QUICK" in said
    head, _ = modelfile.read(str(place / f"{name}.yaml"))
    assert found["model"]["weights_sha256"] == head["weights"]["sha256"]
    subprocess.run([os.environ["MLFF"], "verify", str(place / f"{name}.yaml")], check=True, stdout=subprocess.DEVNULL)
    errors = found["measurements"]["errors"]
    assert errors["rows"], errors
    return found, head


@needs_torch
def test_a_pair_style_with_a_round(tmp_path):
    """Structures are built and moved, the student runs in a round, and a bar that it can meet and one that it cannot
    are told apart."""
    more = "rounds: {count: 1, temperature: [300, 600], time: 0.2, every: 0.02, timestep: 1, frames: 8, committee: 1, "
    more += "steps: 100}\nbars: {energy: 200, forces: 0.001}\n"
    text = SW.replace("teacher:", RUNS % 5 + "teacher:") + SMALL
    recipe = write(tmp_path, text.replace("[errors]", "[errors, nve, speed]") + more)
    said = distill(tmp_path, recipe, code=1)
    found, head = certified(tmp_path, "si", said)
    assert found["measurements"]["nve"] and found["measurements"]["speed"]
    verdicts = {b["quantity"]: b["verdict"] for b in found["bars"]}
    assert len(verdicts) == 2 and verdicts["forces"] != "PASS", verdicts
    assert head["elements"] == ["Si"] and head["repulsion"]["cutoffs"]["Si-Si"] < 2.4
    report = json.loads((tmp_path / "si" / "round-1" / "round.json").read_text())
    assert report["runs"] == 2 and report["frames"] >= 1 and report["after"] > 0
    labels = (tmp_path / "si" / "labels.xyz").read_text()
    assert labels.count(" round=1") == report["frames"]
    assert distill(tmp_path, "recipe.yaml", code=1).count("0 of ") >= 2  # nothing is done again


@needs_torch
@nightly.only
def test_copper_from_one_option_to_pass(tmp_path):
    """One command, nothing else given: a student that meets all criteria of metals, in an hour of two cores."""
    begin = time.monotonic()
    said = distill(tmp_path, "--element", "Cu", "--hours", "0.5", "--jobs", "2")
    minutes = (time.monotonic() - begin) / 60
    assert "certificate of Cu-m: PASS" in said, said[-4000:]
    print(f"{minutes:.1f} minutes")
    assert minutes <= 60 or os.cpu_count() < 2, minutes


@needs_torch
def test_from_an_element(tmp_path):
    """The recipe is written, changed (smaller, without dynamics) and run by the same command: all kinds of structures
    become labels, and the round starts from those that it names."""
    words = ["--teacher", "tensornet-local-matpes-pbe", "--hours", "0.01"]
    said = distill(tmp_path, "--element", "Al", *words, "--dry-run")
    assert "Al-m.yaml is written" in said and "of one core, and the certificate" in said
    text = (tmp_path / "Al-m.yaml").read_text()
    text = re.sub(r"    (dynamics|seed): .*\n", "", text[: text.index("student:")])
    rounds_ = (
        "rounds: {count: 1, from: [vacancy, fault], temperature: [300], time: 0.2, every: 0.05, frames: 4, steps: 20}\n"
    )
    (tmp_path / "Al-m.yaml").write_text(text + SMALL.replace("steps: 100", "steps: 300") + rounds_)
    said = distill(tmp_path, "--element", "Al", *words, "--no-certificate")
    assert "the recipe that this command wrote before" in said
    assert "round 1: 4 labels" in said  # also of frames that are like those in the training set
    found = labels.read_labels(str(tmp_path / "Al-m" / "labels.xyz"))
    kinds = {extxyz.tag(f, "config_type") for f in found}
    assert kinds >= {
        "strained",
        "vacancy",
        "interstitial",
        "stacking",
        "fault",
        "surface",
        "polymorph",
        "dense",
        "cluster",
    }
    assert {extxyz.tag(f, "split") for f in found if extxyz.tag(f, "config_type") == "dense"} == {"train"}
    assert modelfile.read_head(str(tmp_path / "Al-m" / "Al-m.yaml"))["elements"] == ["Al"]


@needs_torch
def test_a_committee(tmp_path, two_runs):
    """Networks of other seeds on the same labels; what is printed is the pair_coeff that compares them. It may be asked
    for afterwards."""
    build, ase = pytest.importorskip("ase.build"), pytest.importorskip("mlff.ase")
    assert two_runs.code == 0 and "committee:" not in two_runs.first
    shutil.copytree(two_runs.folder / "si", tmp_path / "si")
    student = (tmp_path / "si" / "round-0" / "si.safetensors").read_bytes()
    for n in (3, 3):
        said = distill(tmp_path, write(tmp_path, SW + SMALL + f"committee: {n}\n"), "--no-certificate")
        files = ["si.yaml", *(f"si-{k}.yaml" for k in range(2, n + 1))]
        assert f"committee: pair_coeff * * {' '.join(files)} Si" in said
    assert "to do" not in said and (tmp_path / "si" / "round-0" / "si.safetensors").read_bytes() == student
    paths = [str(tmp_path / "si" / file) for file in files]
    assert [modelfile.read_head(path)["name"] for path in paths] == ["si", "si-2", "si-3"]
    atoms = build.bulk("Si", cubic=True) * (2, 2, 2)
    atoms.rattle(0.05)
    atoms.calc = ase.MLFF(paths)
    assert 1e-4 < atoms.calc.get_property("forces_spread", atoms).max() < 10
    assert "committee: is 1; allowed is a whole number from 2 to 16" in distill(
        tmp_path, write(tmp_path, SW + SMALL + "committee: 1\n"), code=2
    )


@needs_torch
def test_a_model_of_ours(tmp_path):
    shutil.copy(os.path.join(MODELS, "water-benzene-student.yaml"), tmp_path)
    shutil.copy(os.path.join(MODELS, "water-benzene-student.safetensors"), tmp_path)
    text = "name: w\nstructures:\n  - liquid: {molecules: {water: 12}, density: 1.0}\n    dynamics: {temperature: 300, "
    text += "time: 1, every: 0.05, equilibrate: 0.2}\n  - molecule: water\n    rattle: 0.05\n    copies: 10\n"
    text += "teacher:\n  mlff: water-benzene-student.yaml\n"
    found, head = certified(tmp_path, "w", distill(tmp_path, write(tmp_path, text + SMALL)))
    assert head["elements"] == ["H", "O"] and found["teacher"]["kind"] == "mlff"
    assert "water-benzene-student" in head["provenance"]["labels"]
    teacher = modelfile.read_head(os.path.join(ROOT, "models", "water-benzene-student.yaml"))["provenance"]
    assert head["provenance"]["license"] == teacher["license"]
    assert head["provenance"]["citation"].endswith("; labels: " + teacher["citation"])


def random_teacher(path, architecture):
    """A random network in a model file with the head of one that comes with the project."""
    head = modelfile.read_head(os.path.join(MODELS, "water-benzene-student.yaml"))
    head = {key: value for key, value in head.items() if key not in ("painn", "repulsion", "weights", "header_sha256")}
    blocks = {
        "mace": lambda: random_mace.block(2, 2, 8, n_basis=6, hidden=[8], avg_num_neighbors=4.0, n_readout=4),
        "tensornet": lambda: random_tensornet.block(8, 2),
    }
    made = {"mace": random_mace, "tensornet": random_tensornet}[architecture]
    head |= {"name": f"random-{architecture}", "architecture": architecture, architecture: blocks[architecture]()}
    head |= {"cutoff": 4.0, "self_test": selftest.empty(architecture)}
    head["provenance"] |= {"license": "ASL", "citation": "the paper"}
    modelfile.write(path, head, made.tensors(head, 1))


@needs_torch
@pytest.mark.parametrize("architecture", ["mace", "tensornet"])
def test_a_model_of_another_architecture(tmp_path, architecture):
    random_teacher(str(tmp_path / "teacher"), architecture)
    text = "name: w\nstructures:\n  - molecule: water\n    rattle: 0.05\n    copies: 40\n"
    text += "teacher:\n  mlff: teacher.yaml\n"
    found, head = certified(tmp_path, "w", distill(tmp_path, write(tmp_path, text + SMALL)))
    assert found["teacher"]["kind"] == "mlff" and f"random-{architecture}" in head["provenance"]["labels"]
    assert head["provenance"]["license"] == "ASL" and head["provenance"]["citation"].endswith("; labels: the paper")


@needs_torch
@needs_ase
def test_a_calculator_of_ase(tmp_path):
    text = (
        "name: cu\nstructures:\n  - " + CRYSTAL % ("fcc", "Cu", 3.6, 2, 2, 2) + "\n    strain: 0.03\n    rattle: 0.05\n"
    )
    text += "    copies: 20\n    dynamics: {temperature: 300, time: 0.2, every: 0.02, timestep: 2, equilibrate: 0.02}\n"
    text += f'teacher:\n  ase: {{python: {ASE}, calculator: "ase.calculators.emt:EMT"}}\n'
    found, _ = certified(tmp_path, "cu", distill(tmp_path, write(tmp_path, text + SMALL)))
    assert found["teacher"]["kind"] == "ase"


@needs_torch
def test_a_file_of_labels(tmp_path):
    made = write(tmp_path, SW, "labels.yaml")
    words = [sys.executable, "-m", "mlff_tools", "label", "--recipe", made, "-o", str(tmp_path / "dft.xyz")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    text = (tmp_path / "dft.xyz").read_text().replace(" energy=", " REF_energy=")
    text = "\n".join(" ".join(w for w in line.split(" ") if "_sha256=" not in w) for line in text.split("\n"))
    (tmp_path / "dft.xyz").write_text(text)
    recipe = "name: d\nteacher: {labels: dft.xyz, keys: {energy: REF_energy}}\n"
    found, _ = certified(tmp_path, "d", distill(tmp_path, write(tmp_path, recipe + SMALL)))
    assert found["teacher"]["kind"] == "labels"


@needs_torch
def test_killed_many_times(tmp_path):
    """A run that is killed at ten random moments, by day at one, ends with the bits of one that was not,
    its inner model too."""
    more = "rounds: {count: 1, temperature: [600], time: 0.2, every: 0.02, timestep: 1, frames: 5, "
    more += "steps: 80}\ninner: {features: 8, steps: 40}\n"
    recipe = write(tmp_path, SW + SMALL.replace("{steps: 100", "{hessian_share: 0.8, steps: 120") + more)
    whole, rng, killed = kills.Changes(tmp_path / "whole"), random.Random(5), 0
    process = start(tmp_path, recipe, "--out", "whole", "--no-certificate")
    assert kills.kill_when(process.pid, whole) == 0, process.communicate()[0]
    for _ in range(10 if NIGHTLY else 1):
        process = start(tmp_path, recipe, "--out", "killed", "--no-certificate")
        changes = kills.Changes(tmp_path / "killed", rng.uniform(0.05, 0.25) * whole.count)
        killed += kills.kill_when(process.pid, changes, rng.uniform(0.0, 0.05)) == kills.KILLED
        process.communicate()
    distill(tmp_path, recipe, "--out", "killed", "--no-certificate")
    assert killed >= (3 if NIGHTLY else 1)
    # frames of both rounds have products: which ones, their bits decide, and these differ between processors
    found = labels.read_labels(str(tmp_path / "whole" / "labels.xyz"))
    assert {job.round_of(f) for f in found if hessian.is_known(f)} == {0, 1}
    for name in (
        "labels.xyz",
        "si.yaml",
        "si.safetensors",
        "si-inner.yaml",
        "si-inner.safetensors",
        "inner/labels.xyz",
        "round-0/si.svg",
        "round-1/chosen.xyz",
        "round-1/round.json",
    ):
        assert filecmp.cmp(tmp_path / "whole" / name, tmp_path / "killed" / name, shallow=False), name


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A finished run, and what a second one in its folder printed meanwhile."""
    folder = tmp_path_factory.mktemp("two")
    recipe = write(folder, SW + SMALL)
    first = start(folder, recipe, "--no-certificate")
    lock = folder / "si" / "run.json"
    while not lock.exists() and first.poll() is None:
        time.sleep(0.05)
    said = distill(folder, recipe, code=2)
    told = first.communicate()[0]
    return types.SimpleNamespace(folder=folder, code=first.returncode, first=told, said=said)


@needs_torch
def test_two_runs_in_one_folder(two_runs):
    assert "another run is at work there" in two_runs.said
    assert two_runs.code == 0


@needs_torch
def test_a_folder_can_be_moved_and_is_of_one_recipe(tmp_path, two_runs):
    recipe = write(tmp_path, SW + SMALL)
    shutil.copytree(two_runs.folder / "si", tmp_path / "si")
    before = (tmp_path / "si" / "si.safetensors").read_bytes()
    os.rename(tmp_path / "si", tmp_path / "elsewhere")
    said = distill(tmp_path, recipe, "--out", "elsewhere", "--no-certificate")
    assert "step" not in said and (tmp_path / "elsewhere" / "si.safetensors").read_bytes() == before
    other = write(tmp_path, SW + SMALL.replace("100", "400", 1), "other.yaml")
    said = distill(tmp_path, other, "--out", "elsewhere", code=2)
    assert "was made with another section training: choose another --out" in said
    other = write(tmp_path, (SW + SMALL).replace("[300, 900]", "[300, 600, 900]"), "other.yaml")
    said = distill(tmp_path, other, "--out", "more", "--from", "elsewhere", "--no-certificate")
    assert "has 2 of 3 trajectories" in said and (tmp_path / "more" / "si.yaml").exists()
    said = distill(tmp_path, other, "--out", "third", "--from", "more/structures", code=2)
    assert "--from more/structures: is not a folder of mlff distill" in said
    n = len(labels.read_labels(str(tmp_path / "elsewhere" / "labels.xyz")))
    said = distill(tmp_path, write(tmp_path, HELD_OUT + SMALL), "--out", "elsewhere", "--no-certificate")
    assert "step" not in said and (tmp_path / "elsewhere" / "si.safetensors").read_bytes() == before
    more = labels.read_labels(str(tmp_path / "elsewhere" / "labels.xyz"))[n:]
    assert [extxyz.tag(f, "split") for f in more] == ["test"]
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("x")
    said = distill(tmp_path, recipe, "--out", "foreign", code=2)
    assert "is not a folder of mlff distill" in said and len(os.listdir(tmp_path / "foreign")) == 1


@pytest.mark.parametrize(
    "more, line, words",
    [
        ("bars: {force: 3}\n", 15, "bars.force: is not known; allowed are energy, forces"),
        ("rounds: {cout: 1}\n", 15, "rounds.cout: is not known; allowed are count, from"),
        ("rounds: {time: 1}\n", 15, "rounds: has no count"),
        ("rounds: {count: 1, every: 9}\n", 15, r"rounds.every: is 9 ps, longer than the 5.0 ps of a run"),
        (
            "rounds:\n  count: 1\n  temperature: 300\n",
            17,
            "temperature: is 300; allowed is a list of temperatures in K",
        ),
        ("inner: {cutof: 3}\n", 15, "inner.cutof: is not known; allowed are features, layers, cutoff"),
        ("inner: 3\n", 15, "inner: is 3; allowed is true, false, or a mapping"),
        ("traning: {}\n", 15, "traning: is not known; allowed are name, kind, structures"),
    ],
)
def test_recipes_that_are_wrong(tmp_path, more, line, words):
    path = write(tmp_path, SW + SMALL + more)
    with pytest.raises(RecipeError, match=rf"recipe.yaml:{line}: .*{words}"):
        recipe_rounds.read(path)
    said = distill(tmp_path, path, code=2)
    assert said.startswith("mlff distill: error: ") and not (tmp_path / "si").exists()


def test_labels_cannot_be_asked_in_rounds(tmp_path):
    text = "name: x\nteacher: {labels: a.xyz}\nrounds: {count: 2}\n"
    with pytest.raises(RecipeError, match="recipe.yaml:3: rounds.count: a file of labels cannot label new frames"):
        recipe_rounds.read(write(tmp_path, text))
    with pytest.raises(RecipeError, match="recipe.yaml:1: name: is 'a b'; allowed is letters, digits"):
        recipe_rounds.read(write(tmp_path, text.replace("name: x", "name: a b")))
    text = "name: x\nteacher: {labels: a.xyz}\nstudent: {size: m}\ntraining: {steps: 9}\n"
    assert recipe_rounds.read(write(tmp_path, text)).hessian_share == 0
    with pytest.raises(RecipeError, match="recipe.yaml:4: training.hessian_share: a file of labels cannot label the"):
        recipe_rounds.read(write(tmp_path, text.replace("steps: 9", "hessian_share: 0.1")))


def test_dry_run(tmp_path):
    more = SMALL.replace("{steps", "{hessian_share: 0.5, steps") + "inner: {steps: 70}\n"
    said = distill(tmp_path, write(tmp_path, SW + more), "--dry-run")
    assert "lammps sw" in said and "42 frames, 1200 steps of dynamics" in said and "1 x 100 steps" in said
    assert "hessian      products of about 17 frames, 34 labels" in said and "inner model  1 x 70 steps: about" in said
    by = SW.replace("equilibrate: 0.1", "equilibrate: 0.1, by: {lammps: [pair_style sw, pair_coeff * * Si.sw Si]}")
    said = distill(tmp_path, write(tmp_path, by + SMALL), "--dry-run")
    assert "1200 steps of dynamics, 1200 of them by other potentials, whose time is left out: about 0 s" in said
    assert os.listdir(tmp_path) == ["recipe.yaml"]
    said = distill(tmp_path, str(tmp_path / "recipe.yaml"), "--dry-run", "--torch-python", "false")
    assert "PyTorch      missing: false has no PyTorch" in said


def test_stop_early_is_asked_for(tmp_path):
    """Only then bars end a training, and only bars of errors over all frames can."""
    text = "name: x\nteacher: {labels: a.xyz}\ntraining: {steps: 9}\nbars: {forces: 3 %}\n"
    asked = text.replace("steps: 9", "steps: 9, stop_early: true")
    for recipe, expected in ((text, None), (asked, {"forces": {"all": "3 %"}})):
        run = types.SimpleNamespace(wanted=recipe_rounds.read(write(tmp_path, recipe)), labels="", path=os.path.join)
        run._inherited, run._repulsion = lambda student: student, lambda: None
        made = distilling.Run._job(run, 0, 0, None, {"steps": 1, "learning_rate": None})
        assert made["stop"] == expected and "stop_early" not in made["training"]
        assert distilling.Run._job(run, 0, 1, None, {"steps": 1, "learning_rate": None})["stop"] is None, "a member"
    with pytest.raises(RecipeError, match="training.stop_early: needs bars of errors, each over all frames"):
        recipe_rounds.read(write(tmp_path, asked.replace("forces: 3 %", "speed: 8")))


def test_dry_run_of_labels(tmp_path):
    """Labels that are there take no time; frames without runs have no held-out trajectories to count."""
    (tmp_path / "labels.xyz").write_text(
        "2\nenergy=-1.0 Properties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 0.1 0 0\nH 0.8 0 0 -0.1 0 0\n"
    )
    said = distill(tmp_path, write(tmp_path, "name: h\nteacher: {labels: labels.xyz}\n" + SMALL), "--dry-run")
    assert "1 frames, 0 steps of dynamics: about 0 s" in said


def test_bars_that_stay_undecided(tmp_path):
    """Are named by the plan and by the run: too few held-out trajectories, of the recipe's bars and of its kind."""
    run = RUNS + "teacher:"
    bars = "bars: {forces: {crystal 300 K: 5 %, crystal 900 K: 5 %}}\n"
    text = SW.replace("teacher:", run % 5) + SMALL + bars
    said = distill(tmp_path, write(tmp_path, text), "--dry-run")
    note = next(line for line in said.splitlines() if "stay undecided" in line)
    assert "stay undecided: forces (crystal 900 K): 0 held-out trajectories. Add dynamics with split: test" in note
    assert "together" in said and os.listdir(tmp_path) == ["recipe.yaml"]
    assert note in distill(tmp_path, write(tmp_path, text), "--torch-python", "/bin/false", code=2).splitlines()
    metal = lambda n: write(tmp_path, SW.replace("teacher:", run % n) + SMALL + "kind: metal\n")
    assert "forces (all): 4 held-out trajectories" in distill(tmp_path, metal(4), "--dry-run")
    assert "stay undecided" not in distill(tmp_path, metal(5), "--dry-run")


@pytest.mark.parametrize("name", ["water", "silicon", "ase", "lammps", "labels"])
def test_examples_are_recipes(tmp_path, name):
    said = subprocess.run(
        [sys.executable, "-m", "mlff_tools", "distill", "--example", name],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    text = said.replace("/path/to/python", sys.executable)
    assert recipe_rounds.read(write(tmp_path, text)).name
    assert "there are ase, labels, lammps, silicon, water" in distill(tmp_path, "--example", "wter", code=2)


def test_sections_may_change_until_their_results_are_there(tmp_path):
    def begin(text):
        distilling.Run(recipe_rounds.read(write(tmp_path, text)), tmp_path / "si", None, None).check_recipe()

    (tmp_path / "si").mkdir()
    begin(SW + SMALL)
    begin(SW + SMALL.replace("100", "400", 1))
    (tmp_path / "si" / "labels.xyz").write_text("")
    begin(SW + SMALL)
    with pytest.raises(modelfile.ModelError, match="another section structures"):
        begin(SW.replace("constant: 5.43", "constant: 5.5") + SMALL)
    with pytest.raises(modelfile.ModelError, match="another section structures"):
        begin(HELD_OUT + SMALL)
    (tmp_path / "si" / "si.yaml").write_text("")
    with pytest.raises(modelfile.ModelError, match="another section structures"):
        begin(HELD_OUT.replace("split: test", "split: train") + SMALL)
    with pytest.raises(modelfile.ModelError, match="another section structures"):
        begin(HELD_OUT.replace("constant: 5.43", "constant: 5.5") + SMALL)
    begin(HELD_OUT + SMALL)
    (tmp_path / "si" / "round-0").mkdir()
    with pytest.raises(modelfile.ModelError, match="another section structures"):
        begin(SW + SMALL)
    begin(HELD_OUT + SMALL)
    with pytest.raises(modelfile.ModelError, match="another section training"):
        begin(HELD_OUT + SMALL.replace("100", "400", 1))


def test_no_process_is_too_few(tmp_path):
    recipe = write(tmp_path, SW + SMALL)
    assert "--jobs: '0' is not a whole number from 1" in distill(tmp_path, recipe, "--jobs", "0", code=2)


def test_without_pytorch(tmp_path):
    recipe = write(tmp_path, SW + SMALL)
    said = distill(tmp_path, recipe, "--torch-python", "/bin/false", code=2)
    assert "/bin/false has no PyTorch, which training needs: pip install torch" in said
    assert not (tmp_path / "si").exists()


def frame(x, elements, cell=None, **info):
    import numpy as np

    where = info.pop("source", "f")
    cell = None if cell is None else np.array(cell, float)
    x = np.array(x, float)
    return {
        "elements": elements,
        "positions": x,
        "cell": cell,
        "info": info,
        "columns": {},
        "source": where,
        "name": where,
    }


def test_choice_of_frames():
    """The most doubtful ones, no more than twice its share of one run; no pair nearer than in the labels."""
    import numpy as np

    runs = [
        [frame([[0, 0, 0], [0, 0, 2 + 0.01 * k]], ["O", "H"], source=f"{r} {k}") for k in range(10)] for r in range(4)
    ]
    spread = lambda frames: np.array([(10 if f["name"][0] == "2" else 0) + f["positions"][1, 2] for f in frames])
    chosen = [f["name"] for f in rounds.most_doubtful(runs, 8, spread)]
    assert [n for n in chosen if n[0] == "2"] == ["2 6", "2 7", "2 8", "2 9"] and len(chosen) == 8
    assert rounds.shortest(runs[0]) == {("H", "O"): 2.0}
    near = frame([[0, 0, 0], [0, 0, 9.0 - 1.8]], ["O", "H"], cell=9 * np.eye(3))
    assert rounds.is_sound(near, {("H", "O"): 2.0}) and not rounds.is_sound(near, {("H", "O"): 2.2})
    assert [f["info"]["split"] for f in rounds.marked(runs[0], 1)] == ["train"] * 8 + ["validation", "test"]
    assert len(rounds.evenly(runs, 7)) == 7


def test_when_training_stops():
    row = {
        "by": "all",
        "force_rmse": 0.040,
        "force_rms": 1.0,
        "energy_rmse": 0.001,
        "stress_rmse": None,
        "stress_rms": None,
    }
    assert job.stop_of({"forces": {"all": 45}, "density": {"all": "1 %"}}) == {"forces": {"all": 45}}
    assert job.stop_of({"forces": {"liquid": 45}}) is None and job.stop_of({"density": {"all": 1}}) is None
    assert job.holds({"forces": {"all": 45}}, [row]) and not job.holds({"forces": {"all": 41}}, [row])
    assert job.holds({"forces": {"all": "4.5 %"}}, [row]) and not job.holds({"forces": {"all": "4.1 %"}}, [row])
    assert not job.holds({"forces": {"all": 45}, "stress": {"all": 1}}, [row])  # not measured
    row = {**row, "stress_rmse": 0.1, "stress_rms": 2.0}
    assert job.holds({"stress": {"all": "5.5 %"}}, [row]) and not job.holds({"stress": {"all": "5.1 %"}}, [row])
