"""Training on files of labels, without PyTorch: the arrays, the sections of a recipe, errors and the learning curve."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from helpers import assert_near

from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import curve, dataset, domain, errors, extxyz, recipe_training, students
from mlff_tools.train.recipe import Recipe, RecipeError


def frames(n=12, **info):
    """Frames of Cu3Al in a cell, with all labels."""
    rng, out = np.random.default_rng(1), []
    for k in range(n):
        out.append(
            {
                "name": f"f{k}",
                "source": f"labels.xyz, frame {k + 1}",
                "elements": ["Cu", "Al", "Cu", "Cu"],
                "positions": np.array([[0, 0, 0], [0, 1.8, 1.8], [1.8, 0, 1.8], [1.8, 1.8, 0]]) + 0.01 * k,
                "cell": 3.6 * np.eye(3),
                "energy": -10.0 - k,
                "forces": rng.normal(size=(4, 3)),
                "stress": np.eye(3) * 0.01 * k,
                "atom_energies": np.array([-1.0, -5.0, -2.0, -3.0]),
                "info": dict(info),
                "columns": {},
            }
        )
    return out


def distinct(made):
    """The frames with an atom moved by more in each, so that none is a copy of another."""
    for k, frame in enumerate(made):
        frame["positions"][0, 0] += 0.02 * k
    return made


def test_arrays():
    made = frames(config_type="crystal", temperature="300", trajectory='"a run"')
    data = dataset.from_labels(made)
    assert data["elements"] == ["Al", "Cu"] and list(data["species"][:4]) == [0, 1, 1, 1]
    back = dataset.frame(data, 3)
    order = [1, 0, 2, 3]
    np.testing.assert_array_equal(back["positions"], made[3]["positions"][order])
    np.testing.assert_array_equal(back["forces"], made[3]["forces"][order])
    np.testing.assert_array_equal(data["atom_energies"][:4], [-5.0, -1.0, -2.0, -3.0])
    np.testing.assert_array_equal(data["stress"][3], made[3]["stress"])
    np.testing.assert_array_equal(data["offset"], [-5.0, -2.0])
    assert list(data["config_type"][:1]) == ["crystal"] and data["temperature"][0] == 300
    assert list(data["trajectory_names"]) == ["a run"]
    assert_near([data["density"][0]], [(3 * 63.546 + 26.982) / 3.6**3 / 0.602214076], 1e-9, "density")
    assert dataset.seen_together(data) == [{"Al", "Cu"}]


def test_labels_that_are_not_there():
    made = frames(2)
    made[0].update(stress=None, atom_energies=None)
    made[1].update(cell=None, stress=None)
    data = dataset.from_labels(made, elements=["Al", "Si", "Cu"])
    assert np.isnan(data["stress"]).all() and np.isnan(data["atom_energies"][:4]).all()
    assert not np.isnan(data["atom_energies"][4:]).any() and list(data["offset"]) == [-5.0, 0.0, -2.0]
    assert data["density"][0] > 0 and data["density"][1] == 0 and np.isnan(data["temperature"]).all()
    assert data["species"].tolist() == [0, 2, 2, 2] * 2


def test_hash_is_of_everything():
    hashes = {dataset.from_labels(frames())["sha256"], dataset.from_labels(frames(config_type="x"))["sha256"]}
    moved = frames()
    moved[5]["forces"][0, 0] += 1e-9
    hashes |= {dataset.from_labels(moved)["sha256"], dataset.from_labels(frames(), ["Al", "Cu", "Zn"])["sha256"]}
    assert len(hashes) == 4 and dataset.from_labels(frames())["sha256"] in hashes


def test_split():
    made = distinct(frames(30))
    for k, frame in enumerate(made):
        frame["info"]["trajectory"] = f"t{k // 3}"
    data = dataset.from_labels(made)
    for split, runs in (("validation", ["t4"]), ("test", ["t9"])):
        mine = data["trajectory"][dataset.frames_of(data, split)]
        assert sorted({str(data["trajectory_names"][t]) for t in mine}) == runs, "whole trajectories"
    data = dataset.from_labels(distinct(frames(30)))
    assert dataset.frames_of(data, "validation").tolist() == [4, 14, 24]
    assert dataset.frames_of(data, "test").tolist() == [9, 19, 29]
    made = distinct(frames(30, split="train"))
    made[7]["info"]["split"] = "test"
    data = dataset.from_labels(made)
    assert dataset.frames_of(data, "test").tolist() == [7] and len(dataset.frames_of(data, "validation")) == 3
    assert len(dataset.frames_of(dataset.from_labels(frames(2)), "validation")) == 1


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda f: f[2].update(energy=None), "labels.xyz, frame 3: has no energy"),
        (lambda f: f[2]["info"].update(split="hold"), "labels.xyz, frame 3: split is 'hold', not one of train"),
        (lambda f: f[2]["info"].update(temperature="hot"), "labels.xyz, frame 3: temperature is 'hot', not a number"),
        (lambda f: [x["info"].update(split="test") for x in f[:-1]], "1 of 12 labelled frames are for training"),
        (lambda f: f.clear(), "no labelled frames"),
        (
            lambda f: f[2]["columns"].update(
                hessian_direction=("R", ["1 2 3"] * 4), hessian_product=("R", ["1 2"] * 4)
            ),
            "labels.xyz, frame 3: hessian_product is not three numbers for each atom",
        ),
        (
            lambda f: f[2]["columns"].update(hessian_product=("R", ["1 2 3"] * 4)),
            "labels.xyz, frame 3: hessian_direction is not three numbers for each atom",
        ),
        (lambda f: f[2]["forces"].fill(np.nan), "NaN or infinity"),
    ],
)
def test_bad_labels(change, words):
    made = distinct(frames())
    change(made)
    with pytest.raises(ModelError, match=words):
        dataset.from_labels(made)


def test_strange_elements():
    with pytest.raises(ModelError, match="the labels have Al; the student's elements are Cu, Zn"):
        dataset.from_labels(frames(), ["Cu", "Zn"])


def test_shortest_distances():
    made = frames(3, split="train")
    made[1]["positions"] = made[1]["positions"] + np.array([[0, 0, 0], [0, 0.3, 0], [0, 0, 0], [0, 0, 0]])
    made[2]["info"]["split"] = "test"
    made[2]["positions"] = 0.5 * made[2]["positions"]
    made.append({**made[0], "cell": None, "positions": 20.0 * made[0]["positions"], "source": "x"})
    found = dataset.shortest_distances(dataset.from_labels(made))
    assert set(found) == {("Al", "Al"), ("Al", "Cu"), ("Cu", "Cu")}
    assert_near([found["Al", "Al"]], [3.6], 1e-12, "its own image")
    assert_near([found["Cu", "Cu"]], [1.8 * 2**0.5], 1e-12, "Cu-Cu")
    assert_near([found["Al", "Cu"]], [(1.5**2 + 1.8**2) ** 0.5], 1e-12, "Al-Cu")


def test_domain():
    """The domain of a training set: temperatures and densities of periodic frames, pairs within the cutoff."""
    made = frames(5, split="train", temperature="300")
    made[4]["info"].update(split="validation", temperature="1000")
    made[1]["info"]["temperature"] = "512.25"
    made[1]["cell"] = 1.1 * made[1]["cell"]
    made[2]["info"].update(split="test", temperature="900")
    made[2]["positions"] = 0.5 * made[2]["positions"]
    made[3] = {**made[3], "cell": None, "stress": None, "info": {"split": "train", "temperature": "2000"}}
    made[3]["positions"] = np.array([[0, 0, 0], [0, 0, 2.0], [9, 0, 0], [0, 9, 0]])
    data = dataset.from_labels(made, ["Al", "Si", "Cu"])
    found = domain.of_data(data, 3.0)
    dense = (3 * 63.546 + 26.982) / 3.6**3 / 0.602214076
    assert found["elements"] == ["Al", "Cu"] and found["temperature"] == [300, 512.25]
    assert_near(found["density"], [dense / 1.1**3, dense], 1e-9, "density")
    assert set(found["distances"]) == {"Al-Cu", "Cu-Cu"}  # Al-Al is at 3.6 A
    assert_near([found["distances"]["Al-Cu"]], [2.0], 1e-9, "of the molecule")
    assert_near(found["pressure"], [-1.602176634, 0], 1e-12, "of frames 0 and 1")
    assert_near([found["max_force"] ** 2], [max((made[k]["forces"] ** 2).sum(1).max() for k in (0, 1, 3))], 1e-5, "F")
    triples = {(centre, ends): r for centre, of in found["triples"].items() for ends, r in of.items()}
    assert set(triples) == {("Cu", "Al-Al"), ("Cu", "Al-Cu"), ("Cu", "Cu-Cu"), ("Al", "Cu-Cu")}  # not the molecule's
    assert_near(list(triples.values()), 4 * [1.8 * 2**0.5], 1e-9, "neighbors of fcc")
    assert domain.of_frames([made[k] for k in (0, 1, 3)], data["elements"], 3.0) == found
    unstressed = domain.of_data({**data, "stress": np.full_like(data["stress"], np.nan)}, 3.0)
    assert unstressed == {key: value for key, value in found.items() if key != "pressure"}
    bare = [{**f, "cell": None, "stress": None, "info": {"split": "train"}} for f in made]
    cold = domain.of_data(dataset.from_labels(bare), 3.0)
    assert set(cold) == {"elements", "distances", "triples", "max_force"}
    bare[0]["info"]["temperature"] = "700"
    assert domain.of_data(dataset.from_labels(bare), 3.0) == {**cold, "temperature": [700, 700]}
    assert domain.of_frames([], ["Al"], 3.0) == {"elements": []}
    bare[1]["info"].update(temperature="4000", by="lammps")
    assert domain.of_data(dataset.from_labels(bare), 3.0) == {**cold, "temperature": [700, 700]}
    del bare[0]["info"]["temperature"]
    assert domain.of_data(dataset.from_labels(bare), 3.0) == {**cold, "temperature": [4000, 4000]}


def test_triples():
    """Against a count over all pairs of neighbors, in a small oblique cell with its images."""
    rng, elements = np.random.default_rng(5), ["H", "C", "O"]
    cell = np.array([[5.0, 0, 0], [1.0, 4.5, 0], [-0.5, 0.7, 5.5]])
    s = {"elements": [elements[k] for k in rng.integers(0, 3, 9)], "positions": rng.random((9, 3)) @ cell, "cell": cell}
    images = np.array([[i, j, k] for i in range(-3, 4) for j in range(-3, 4) for k in range(-3, 4)]) @ cell
    expected = {}
    for x, centre in zip(s["positions"], s["elements"]):
        near = []
        for y, other in zip(s["positions"], s["elements"]):
            distances = np.linalg.norm(y + images - x, axis=1)
            near += [(elements.index(other), r) for r in distances[(distances > 1e-3) & (distances < 4.0)]]
        for k, (t, one) in enumerate(near):
            for u, other in near[:k]:
                key = (centre, elements[min(t, u)], elements[max(t, u)])
                expected[key] = min(expected.get(key, np.inf), max(one, other))
    pairs, found = dataset.closest_of([s], elements, 4.0)
    assert set(found) == set(expected) and len(found) > 12
    assert_near([found[key] for key in sorted(found)], [expected[key] for key in sorted(found)], 1e-6, "triples")
    assert all(
        r >= max(pairs[tuple(sorted((c, e), key=elements.index))] for e in ends) for (c, *ends), r in found.items()
    )


def test_domain_is_added(tmp_path):
    """What a model file does not say comes from labels; what it says stays; triples agree with the pairs it has."""
    said = {
        "elements": ["Al", "Cu"],
        "min_distance": 1.0,
        "temperature": [1, 2],
        "distances": {"Cu-Cu": 2.7, "Al-Cu": 2.5},
    }
    made = domain.added(
        {**said, "description": "x"}, domain.rounded(domain.of_frames(frames(2), ["Al", "Cu"], 3.0)), "seen"
    )
    assert {key: made[key] for key in said} == said and "density" in made
    assert made["triples"] == {"Al": {"Cu-Cu": 2.545}, "Cu": {"Al-Al": 2.545, "Al-Cu": 2.7, "Cu-Cu": 2.7}}
    assert made["description"] == "x; density, pressure, max_force, triples: seen"
    assert domain.added(made, made, "again") == made
    text = tmp_path / "a.yaml"
    text.write_text("elements: [Al, Cu]\ncutoff: 3.0\n", encoding="utf-8")
    assert domain.main([str(text), str(tmp_path / "nothing.xyz")]) == 2


def test_domain_is_rounded_outwards():
    made = {"elements": ["H"], "temperature": [299.9996, 300], "density": [0.95, 0.99704], "distances": {"H-H": 1.2349}}
    found = domain.rounded(made)
    assert found == {**made, "temperature": [299.999, 300], "density": [0.95, 0.9971], "distances": {"H-H": 1.234}}
    assert domain.rounded({"elements": []}) == {"elements": []}


def test_what_two_domains_have():
    head = {"elements": ["H", "C", "O"]}
    head["domain"] = {"elements": ["H", "O"], "min_distance": 0.5, "description": "x", "temperature": [200, 400]}
    head["domain"].update(density=[0.9, 1.1], distances={"O-H": 0.8, "H-H": 1.3, "O-O": 2.2})
    one = domain.of_model(head)
    assert list(one) == ["elements", "temperature", "density", "distances"]
    assert list(one["distances"].items()) == [("H-H", 1.3), ("H-O", 0.8), ("O-O", 2.2)]
    two = {"elements": ["H", "C", "O"], "temperature": [203, 350], "density": [1.2, 1.3]}
    two["distances"] = {"H-H": 1.2, "H-O": 0.85, "C-O": 1.1}
    both = {"elements": ["H", "O"], "temperature": [203, 350], "distances": {"H-H": 1.3, "H-O": 0.85}}
    assert domain.common(one, two) == domain.common(two, {**one, "distances": one["distances"]}) == both
    assert domain.not_spanned(one, two) == [
        "temperature: 203 to 350 of 200 to 400 K",
        "density: 1.2 to 1.3 of 0.9 to 1.1 g/cm3",
        "pair O-O",
    ]
    assert domain.not_spanned(one, one) == [] and domain.common(one, one) == one
    nothing = domain.not_spanned(one, {"elements": []})
    assert nothing[:3] == ["element H", "element O", "temperature: none of 200 to 400 K"]
    assert domain.common(one, {"elements": []}) == {"elements": []}


def write(tmp_path, text):
    (tmp_path / "r.yaml").write_text(text)
    return Recipe(str(tmp_path / "r.yaml"))


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("student: xs\n", 1, "student: must be a mapping with the keys size"),
        ("student:\n  size: xl\n", 2, "student.size: is 'xl'; allowed is one of inner, xs, s, m"),
        ("student:\n  members: 4\n", 2, "student.members: is not known; allowed are size, architecture"),
        ("student: {architecture: ani, features: 4}\n", 1, "student.features: is not known; allowed are architecture"),
        ("student: {architecture: schnet}\n", 1, "student.architecture: is 'schnet'; allowed is painn, ani or mace"),
        (
            "student: {architecture: mace, layers: 2}\n",
            1,
            "student.layers: is 2; allowed is 1: students have one layer",
        ),
        ("student: {architecture: mace, features: 4}\n", 1, "student.features: is not known; allowed are size"),
        ("student: {architecture: mace, lmax: 4}\n", 1, "student.lmax: is 4; allowed is 1, 2 or 3"),
        ("student:\n  cutoff: 0.5\n", 2, "student.cutoff: is 0.5; allowed is a length in A from 1 to 10"),
        ("student:\n  cutoff: 2\n  spacing: 0.6\n", 3, "student.spacing: leaves less than 4 splines"),
        ("student: {architecture: ani, cutoff: 3}\n", 1, "student.cutoff: angular_cutoff 3.5 is beyond cutoff 3"),
        ("student: {architecture: ani, nearest: 3.5}\n", 1, "student.nearest: is 3.5, not below angular_cutoff 3.5"),
        ("training:\n  steps: 0\n", 2, "training.steps: is 0; allowed is a whole number from 1"),
        ("training:\n  optimizer: sgd\n", 2, "training.optimizer: is 'sgd'; allowed is soap or adam"),
        ("training:\n  stress: 1\n", 2, "training.stress: is not known; allowed are steps, seed"),
        ("training:\n  hessian_share: 2\n", 2, "training.hessian_share: is 2; allowed is a share of the training"),
        ("training:\n  energy_weight: -1\n", 2, "training.energy_weight: is -1; allowed is a number from 0"),
        ("training:\n  force_limit: yes\n", 2, "training.force_limit: is True; allowed is a number in eV/A, or null"),
        ("training: {force_weight: 0, energy_weight: 0}\n", 1, "training: force_weight and energy_weight are both 0"),
    ],
)
def test_recipe_errors(tmp_path, text, line, words):
    recipe = write(tmp_path, text)
    with pytest.raises(RecipeError) as e:
        recipe_training.student(recipe)
        recipe_training.training(recipe)
    assert str(e.value).startswith(f"{recipe.path}:{line}: {words}")


def test_configurations(tmp_path):
    recipe = write(tmp_path, "student: {size: s, cutoff: 5.0, license: CC0-1.0}\ntraining: {steps: 700, batch: 128}\n")
    student, training = recipe_training.student(recipe), recipe_training.training(recipe)
    config = recipe_training.config("name", student, training, ["Si"])
    assert config["architecture"] == "painn" and config["license"] == "CC0-1.0" and config["name"] == "name"
    assert (config["model"]["n_features"], config["model"]["n_interactions"], config["model"]["n_readout"]) == (
        64,
        2,
        32,
    )
    assert config["model"]["radial_basis"] == {"kind": "bspline", "n": 40}
    train = config["train"]
    assert (train["steps"], train["batch"], train["optimizer"], train["threads"]) == (700, 128, "soap", 1)
    assert recipe_training.student(write(tmp_path, "name: x\n")) == {}
    for size, wanted in students.SIZES.items():
        config = recipe_training.config("n", {"size": size}, {}, ["Si"])
        assert config["train"]["steps"] == wanted["steps"] and config["model"]["cutoff"] == wanted["cutoff"]
    config = recipe_training.config("n", {"architecture": "ani", "members": 2, "cutoff": 6}, {}, ["H", "O"])
    assert config["model"]["n_members"] == 2 and set(config["model"]["hidden"]) == {"H", "O"}
    assert config["model"]["radial"]["cutoff"] == 6.0 > max(config["model"]["radial"]["shifts"])
    angular = recipe_training.config(
        "n", {"architecture": "ani", "sections": 8, "nearest": 1.5, "angular": 5}, {}, ["Si"]
    )
    angular = angular["model"]["angular"]
    assert angular["shifts"] == [1.5, 1.9, 2.3, 2.7, 3.1] and len(angular["sections"]) == 8
    assert angular["zeta"] == pytest.approx(32.0, abs=0.5)  # of ANI-1x
    student = {"architecture": "mace", "channels": 8, "layers": 1, "correlation": 2, "cutoff": 4.8}
    config = recipe_training.config("n", student, {}, ["Al"])
    assert config["model"] == {
        "channels": 8,
        "lmax": 3,
        "correlation": 2,
        "readout": 16,
        "radial_basis": {"kind": "bessel", "n": 10},
        "cutoff": 4.8,
    }
    assert "2206.07697" in config["citation"]
    weights = recipe_training.config("n", {}, {"energy_weight": 0}, ["Si"])["train"]
    assert weights["energy_weight"] == weights["final_energy_weight"] == 0


@pytest.mark.parametrize(
    "student, training, weight, share",
    [
        ({"size": "m"}, {}, recipe_training.HESSIAN_WEIGHT, recipe_training.HESSIAN_SHARE),
        ({"size": "m"}, {"hessian_weight": 0}, 0, 0),
        ({"size": "m"}, {"hessian_share": 0}, recipe_training.HESSIAN_WEIGHT, 0),
        ({"size": "s"}, {}, 0, 0),
        ({"size": "s"}, {"hessian_share": 0.5}, recipe_training.HESSIAN_WEIGHT, 0.5),
        ({"size": "s"}, {"hessian_weight": 0.1}, 0.1, recipe_training.HESSIAN_SHARE),
        ({"architecture": "ani"}, {}, 0, 0),
    ],
)
def test_when_hessian_products_are_made(student, training, weight, share):
    assert recipe_training.hessian(student, training) == (weight, share)
    made = recipe_training.config("n", student, training, ["H"])["train"]
    assert made.get("hessian_weight", 0) == weight and "hessian_share" not in made


def test_error_rows():
    data = {"config_type": np.array(["a", "b", "a"]), "temperature": np.array([301.0, np.nan, 1490.0])}
    found = {
        "frame": np.array([0, 1, 2]),
        "n_atoms": np.array([2, 1, 2]),
        "square": np.array([6.0, 3.0, 12.0]),
        "absolute": np.array([6.0, 3.0, 6.0]),
        "label_square": np.array([600.0, 300.0, 600.0]),
        "energy": np.array([0.3, 0.0, -0.4]),
        "has_stress": np.array([True, False, True]),
        "stress_square": np.array([9.0, 7.0, 36.0]),
        "stress_absolute": np.array([9.0, 7.0, 18.0]),
        "stress_label_square": np.array([90.0, 7.0, 72.0]),
    }
    rows = {(r["by"], r["value"]): r for r in errors.table(found, data)}
    assert list(rows) == [
        ("size", 1),
        ("size", 2),
        ("config_type", "a"),
        ("config_type", "b"),
        ("temperature", 300.0),
        ("temperature", 1500.0),
        ("all", "all"),
    ]
    total, b = rows["all", "all"], rows["config_type", "b"]
    assert_near([total["force_rmse"], total["force_mae"]], [1.4**0.5, 1.0], 1e-12, "forces")
    assert_near([total["energy_rmse"], total["force_rms"]], [(0.25 / 3) ** 0.5, 10.0], 1e-12, "energies")
    assert_near([total["stress_rmse"], total["stress_mae"]], [errors.GPA * 2.5**0.5, errors.GPA * 1.5], 1e-9, "stress")
    assert_near(total["stress_rms"], 3 * errors.GPA, 1e-9, "stress of the labels")
    assert (
        b["stress_rms"] is None
        and b["stress_rmse"] is None
        and b["frames"] == 1
        and "GPa" not in errors.text(b)
        and "GPa" in errors.text(total)
    )
    assert [r["by"] for r in errors.by_size(found)] == ["size", "size", "all"] and errors.table(
        errors.together([]), data
    ) == []


def test_learning_curve(tmp_path):
    row = lambda step, error: {
        "step": step,
        "train_force_rmse": error,
        "force_rmse_all": 2 * error,
        "train_energy_rmse": 0.0,
        "energy_rmse_all": error,
    }
    curve.write(str(tmp_path / "c"), [row(10, 0.1), row(15, float("inf")), row(20, 0.05)])
    assert (tmp_path / "c.csv").read_text().splitlines()[1] == "10,0.1,0.2,0,0.1"
    picture = ET.parse(tmp_path / "c.svg").getroot()
    lines = picture.findall(".//{*}polyline")
    assert len(picture.findall("{*}g")) == 2 and len(lines) == 3, "forces twice, energies once: a zero has no logarithm"
    y = [[float(p.split(",")[1]) for p in line.get("points").split()] for line in lines]
    assert all(first < last for first, last in y), "errors fall, downwards is larger"
    curve.write(str(tmp_path / "d"), [row(10, 0.1)])
    assert (tmp_path / "d.csv").exists() and not (tmp_path / "d.svg").exists()
    curve.write(str(tmp_path / "e"), [])
    assert not (tmp_path / "e.csv").exists()


def test_reads_what_label_wrote(tmp_path):
    made = frames(4, config_type="crystal", split="train")
    (tmp_path / "l.xyz").write_text("".join(extxyz.text(f) for f in made))
    a, b = dataset.from_labels(made), dataset.from_labels(extxyz.read(str(tmp_path / "l.xyz")))
    for key in ("positions", "forces", "energy", "stress", "atom_energies", "cell", "split", "config_type"):
        np.testing.assert_array_equal(a[key], b[key], key)
