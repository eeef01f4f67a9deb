"""mlff uncertainty: fit, calibration and tests against made-up numbers whose answer is known; files and bad input."""

import json
import os
import shutil

import helpers
import numpy as np
import pytest

import mlff
from mlff_tools.bench import profiles
from mlff_tools.certify import uncertainty
from mlff_tools.model import modelfile
from mlff_tools.train import teachers

WIDTH, ATOMS = 6, 20


def rows_of(n, scale=1.0, seed=0, error=0.02, element="Al", shift=0.0):
    """Frames with correlated features, whose force errors are `error` times the true distance, with noise of a normal
    deviate."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(WIDTH, WIDTH))
    rows = []
    for _ in range(n):
        hidden = scale * rng.normal(size=(ATOMS, WIDTH)) + shift
        off = error * np.linalg.norm(hidden, axis=1) * np.sqrt((rng.normal(size=(ATOMS, 3)) ** 2).mean(1))
        features = hidden @ mixing + 3.0
        rows.append({"elements": np.array([element] * ATOMS), "features": features, "errors": off, "group": "made up"})
    return rows


def with_uncertainties(rows, tensors):
    for r in rows:
        r["uncertainties"] = uncertainty.distance(tensors["uncertainty.Al"].astype(float), r["features"])
    return rows


def test_fit_finds_the_error():
    """The factor is the ratio of errors to distances, for any linear map of the features."""
    block, tensors, few = uncertainty.fit(rows_of(400), rows_of(100, seed=1))
    far = with_uncertainties(rows_of(50, 4.0, seed=2), tensors)
    predicted = np.concatenate([r["uncertainties"] for r in far])
    true = np.concatenate([r["errors"] for r in far])
    assert np.sqrt((predicted**2).mean()) == pytest.approx(np.sqrt((true**2).mean()), rel=0.05)
    assert (block["unit"], block["width"], block["elements"], few) == ("eV/A", WIDTH, ["Al"], [])
    held = with_uncertainties(rows_of(200, seed=3), tensors)
    found = uncertainty.judge(block["limit"], held, far)
    assert found["calibration"]["slope"] == pytest.approx(1, abs=0.1)
    assert found["roc_area"] > 0.99 and found["false_alarms"] < 0.01 and found["far"] == 50


def test_judge_sees_faults():
    """Uncertainties without information, or with the opposite, are found out."""
    block, tensors, _ = uncertainty.fit(rows_of(400), rows_of(100, seed=1))
    held, far = (with_uncertainties(rows_of(100, s, seed=4), tensors) for s in (1.0, 4.0))
    rng = np.random.default_rng(5)
    for r in held + far:
        r["uncertainties"] = rng.uniform(0, 1, ATOMS)
    found = uncertainty.judge(block["limit"], held, far)
    assert 0.35 < found["roc_area"] < 0.65 and abs(found["calibration"]["slope"]) < 0.3
    for r in held + far:
        r["uncertainties"] = 1 / np.maximum(r["errors"], 1e-9)
    found = uncertainty.judge(block["limit"], held, far)
    assert found["roc_area"] < 0.1 and found["calibration"]["slope"] < 0


def test_relative_without_errors():
    """Without labels the limit is 1, and most held-out frames are below."""
    train, held = rows_of(400), rows_of(100, seed=1)
    for r in train + held:
        r["errors"] = None
    block, tensors, _ = uncertainty.fit(train, held)
    assert (block["unit"], block["limit"]) == ("relative", 1.0)
    most = [r["uncertainties"].max() for r in with_uncertainties(rows_of(100, seed=6), tensors)]
    assert np.mean(np.array(most) > 1) < 0.03 and np.median(most) > 0.4
    assert min(r["uncertainties"].max() for r in with_uncertainties(rows_of(20, seed=7, shift=8.0), tensors)) > 1


def test_elements_with_few_atoms():
    """They have no matrix, and their frames do not count."""
    rare = rows_of(1, element="Cu")
    block, tensors, few = uncertainty.fit(rows_of(400) + rare, rows_of(100, seed=1) + rare)
    assert block["elements"] == ["Al"] and list(tensors) == ["uncertainty.Al"] and few == [f"Cu {ATOMS}"]
    with pytest.raises(modelfile.ModelError, match="too few atoms for 6 features: Cu 20, at least 42"):
        uncertainty.fit(rare, rare)
    with pytest.raises(modelfile.ModelError, match="0 held-out frames: at least 5"):
        uncertainty.fit(rows_of(400), rare)


def test_factor_of_few_held_out_atoms():
    """An element with few held-out atoms has the factor of all, which is that of distances without factors."""
    both, held = [rows_of(400, element=e, seed=k) for k, e in enumerate(("Al", "Cu"))], rows_of(100, seed=2)
    alone = {k: v[:10] if isinstance(v, np.ndarray) else v for k, v in rows_of(1, element="Cu", seed=3)[0].items()}
    _, tensors, _ = uncertainty.fit(both[0] + both[1], [*held, alone])
    aluminium, copper = (np.linalg.norm(tensors[f"uncertainty.{e}"][:-1]) for e in ("Al", "Cu"))
    assert copper == pytest.approx(aluminium, rel=0.2)


def test_factor_makes_mean_squares_equal():
    train, held = rows_of(400), rows_of(100, seed=1)
    for r in held[:50]:
        r["errors"] = r["errors"] * 0 + 0.3  # errors that do not follow the distance
    _, tensors, _ = uncertainty.fit(train, held)
    u, e = (np.concatenate([r[k] for r in with_uncertainties(held, tensors)]) for k in ("uncertainties", "errors"))
    assert (u**2).mean() == pytest.approx((e**2).mean(), rel=1e-4)


def test_split():
    frame = lambda **info: {"info": {k: str(v) for k, v in info.items()}}
    marked = [frame(split=s) for s in ("train", "test", "validation", "train")]
    assert [len(part) for part in uncertainty.split_frames(marked)] == [2, 1, 1]
    assert uncertainty.split_frames(marked)[1] == [marked[2]]
    assert uncertainty.split_frames(marked[:2]) == (marked[:1], marked[1:2], [])
    with pytest.raises(modelfile.ModelError, match="a.xyz, frame 5: split is 'valid', not one of train, validation, t"):
        uncertainty.split_frames([*marked, {**frame(split="valid"), "source": "a.xyz, frame 5"}])
    with pytest.raises(modelfile.ModelError, match="a frame: has no key split, which other frames have"):
        uncertainty.split_frames([*marked, frame(trajectory="a")])
    runs = [frame(trajectory=t, step=k) for k in range(10) for t in "ab"]
    train, held, _ = uncertainty.split_frames(runs)
    assert (len(train), len(held)) == (16, 4) and {f["info"]["step"] for f in held} == {"8", "9"}


def test_limit_of_an_outlier():
    """A held-out frame with a large error is to be flagged, and does not raise the limit; nor is it a false alarm."""
    held = rows_of(100, seed=1)
    block, tensors, _ = uncertainty.fit(rows_of(400), held)
    worst = {**held[0], "features": 30 * held[0]["features"], "errors": 30 * held[0]["errors"]}
    other, its, _ = uncertainty.fit(rows_of(400), [*held, worst])
    assert other["limit"] == pytest.approx(
        block["limit"] * its["uncertainty.Al"][0, 0] / tensors["uncertainty.Al"][0, 0], rel=0.05
    )
    judged = uncertainty.judge(other["limit"], [with_uncertainties([r], its)[0] for r in [*held, worst]], [])
    assert judged["far"] == 1 and judged["found"] == 1.0 and judged["false_alarms"] == 0.0


def test_frames_that_depend_on_each_other():
    """Those of a trajectory count once."""
    block, tensors, _ = uncertainty.fit(rows_of(400), rows_of(100, seed=1))
    held, far = (with_uncertainties(rows_of(20, s, seed=4), tensors) for s in (1.0, 4.0))
    assert uncertainty.judge(block["limit"], held, far)["different"] == {"far": 20, "near": 20, "held": 20}
    run = [{**r, "trajectory": "hot"} for r in far]
    assert uncertainty.judge(block["limit"], held, run)["different"]["far"] == 1
    for k, r in enumerate(held):
        r["trajectory"] = f"run {k % 3}"
    assert uncertainty.judge(block["limit"], held, far)["different"] == {"far": 20, "near": 3, "held": 3}


# ---- files -----------------------------------------------------------------------------------------------------------

MODEL = os.path.join(helpers.ROOT, "models", "aluminium-m")


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Frames of rattled aluminium, labelled by the model itself with an error: paths of near and of strained ones."""
    folder, rng = tmp_path_factory.mktemp("frames"), np.random.default_rng(3)
    unit = 4.05 * np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    model, paths = mlff.Model(MODEL, precision="fp64", domain="ignore"), []
    corners = 4.05 * np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    for name, n, stretch, rattle in (("near", 40, 1.0, 0.05), ("far", 6, 0.88, 0.15)):
        text = ""
        for _ in range(n):
            x = stretch * (corners[:, None] + unit).reshape(-1, 3)
            x, cell = x + rattle * rng.normal(size=x.shape), stretch * 8.1 * np.eye(3)
            forces = model.evaluate(["Al"] * 32, x, cell).forces + rattle**2 * rng.normal(size=x.shape)
            keys = f"Properties=species:S:1:pos:R:3:forces:R:3 config_type={name}"
            text += f'32\nLattice="{" ".join(map(str, cell.ravel()))}" {keys}\n'
            text += "".join(f"Al {' '.join(map(repr, map(float, (*a, *f))))}\n" for a, f in zip(x, forces))
        paths.append(folder / f"{name}.xyz")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def copy_model(folder):
    for end in (".yaml", ".safetensors"):
        shutil.copyfile(MODEL + end, folder / f"aluminium-m{end}")
    return folder / "aluminium-m.yaml"


def test_command(frames, tmp_path, capsys):
    """A new model has the block and passes its self-test; the old one is as it was; the table finds strained frames."""
    near, far = frames
    before = (tmp_path / "x").parent
    model = copy_model(tmp_path)
    bytes_before = model.read_bytes()
    assert uncertainty.main([str(model), str(near), "-o", str(tmp_path / "sure"), "--judge", str(far), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["roc_area"] == 1.0 and found["false_alarms"] < 0.2 and model.read_bytes() == bytes_before
    sure = mlff.Model(tmp_path / "sure.yaml", domain="warn")
    assert sure.uncertainty_unit == "eV/A" and sure.uncertainty_limit == pytest.approx(found["limit"], rel=1e-5)
    assert before.exists() and sure.n_parameters == mlff.Model(MODEL).n_parameters
    assert sure.name == "sure"
    again = (tmp_path / "sure.safetensors").read_bytes()
    assert uncertainty.main([str(model), str(near), "-o", str(tmp_path / "sure")]) == 2
    assert "sure.yaml exists: give another name, or remove it" in capsys.readouterr().err
    (tmp_path / "half.safetensors").write_bytes(b"")
    for name, text in (
        ("half", "half.safetensors exists: give another name, or remove it"),
        ("new.yml", "new.yml: is not the name of a model file: end it in .yaml, or give it no ending"),
    ):
        assert uncertainty.main([str(model), str(near), "-o", str(tmp_path / name)]) == 2
        assert text in capsys.readouterr().err and not (tmp_path / f"{name}.yaml").exists()
    assert uncertainty.main([str(tmp_path / "sure"), str(near)]) == 0
    assert (tmp_path / "sure.safetensors").read_bytes() == again
    capsys.readouterr()


WATER = np.array([[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])


def of_water(folder):
    """Path of organics-s with an uncertainty of the atoms of water alone."""
    path, rng = str(folder / "m.yaml"), np.random.default_rng(8)
    oxide = lambda: {
        "elements": ["O", "H", "H"] * 8,
        "positions": np.concatenate([WATER + 3.5 * np.array([a, b, c]) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
        + 0.05 * rng.normal(size=(24, 3)),
        "cell": None,
        "forces": None,
        "info": {},
    }
    uncertainty.add(os.path.join(helpers.ROOT, "models", "organics-s.yaml"), [oxide() for _ in range(60)], path)
    return path


def test_judge_with_test_frames(frames, tmp_path, capsys):
    """They are the held-out frames of the table, and do not calibrate."""
    names = iter(["train"] * 20 + ["validation"] * 12 + ["test"] * 8)
    lines = frames[0].read_text(encoding="utf-8").split("\n")
    marked, none = tmp_path / "marked.xyz", tmp_path / "none.xyz"
    text = "\n".join(f"{line} split={next(names)}" if "Lattice" in line else line for line in lines)
    marked.write_text(text, encoding="utf-8")
    words = [str(copy_model(tmp_path)), str(marked), "-o", str(tmp_path / "new"), "--judge", str(frames[1]), "--json"]
    assert uncertainty.main(words) == 0
    said = capsys.readouterr()
    assert [g["frames"] for g in json.loads(said.out)["groups"]] == [8, 6]
    assert "20 frames, calibrated on 12 others" in said.err
    none.write_text(text.replace("split=train", "split=none", 1), encoding="utf-8")
    assert uncertainty.main([words[0], str(none)]) == 2
    assert "none.xyz, frame 1: split is 'none', not one of train" in capsys.readouterr().err


@pytest.mark.skipif(not helpers.program(), reason="the program mlff was not found")
def test_infinite_uncertainties_of_a_teacher(tmp_path):
    """The program writes null for them."""
    path = of_water(tmp_path)
    teacher = teachers.ModelTeacher(path)
    frame = {"elements": ["C", "O"], "positions": WATER[:2] * 1.3, "cell": None, "source": "CO"}
    (found,) = teacher.label([frame])
    teacher.close()
    assert found["uncertainties"][0] == np.inf and np.isfinite(found["uncertainties"][1])


def test_json_of_infinite_numbers(frames, tmp_path, capsys, monkeypatch):
    """They are null in the output, and no part of the calibration."""
    rows = [{"uncertainties": np.array([1.0, 2.0, np.inf]), "errors": np.array([1.0, 2.0, 3.0])}] * 20
    found = uncertainty.calibration(rows)
    assert found["slope"] == pytest.approx(1) and np.isfinite(found["curve"]).all()
    monkeypatch.setattr(uncertainty, "judge", lambda *_: {"largest": np.inf})
    assert uncertainty.main([str(copy_model(tmp_path)), str(frames[0]), "--judge", str(frames[1]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"largest": None}


def test_certificate_follows(frames, tmp_path):
    """In place, the certificate keeps belonging to the network; those of other networks are left alone."""
    model = copy_model(tmp_path)
    head = modelfile.read_head(model)
    (tmp_path / "certificates").mkdir()
    place = tmp_path / "certificates" / "aluminium-m.json"
    place.write_text(
        json.dumps({"model": {"sha256": teachers.network_digest(head)}, "verdict": "PASS"}), encoding="utf-8"
    )
    assert uncertainty.main([str(model), str(frames[0])]) == 0
    after, found = modelfile.read_head(model), json.loads(place.read_text(encoding="utf-8"))
    assert found["model"]["sha256"] == teachers.network_digest(after) != teachers.network_digest(head)
    assert found["verdict"] == "PASS" and found["model"]["weights_sha256"] == after["weights"]["sha256"]
    assert place.read_text(encoding="utf-8") == profiles.dumps(found) + "\n"  # the lines of all certificates
    other = copy_model(tmp_path)
    place.write_text(json.dumps({"model": {"sha256": "of another network"}}), encoding="utf-8")
    assert uncertainty.main([str(other), str(frames[0])]) == 0
    assert json.loads(place.read_text(encoding="utf-8")) == {"model": {"sha256": "of another network"}}


def test_elements_without_a_matrix(tmp_path):
    """Their atoms have an infinite uncertainty. Earlier evaluations change nothing."""
    path, water = of_water(tmp_path), WATER
    model, first = mlff.Model(path, domain="ignore"), None
    for symbols, positions in ((["O", "H", "H"], water), (["C", "O"], water[:2] * 1.3), (["O", "H", "H"], water)):
        found = model.evaluate(symbols, positions).uncertainties
        assert np.isinf(found).tolist() == [e == "C" for e in symbols]
        first = found if first is None else first
    assert found == pytest.approx(first, rel=1e-4) and model.uncertainty_unit == "relative"


def test_frames_of_one_structure():
    """Without any motion the distances have a floor, that of single precision."""
    rows = rows_of(40)
    for r in rows:
        r["features"], r["errors"] = 3 + 1e-7 * r["features"], None
    _, tensors, _ = uncertainty.fit(rows[:30], rows[30:])
    assert np.abs(tensors["uncertainty.Al"]).max() < 1e7  # of rounding errors of 1e-7 this makes 1
    for r in rows:
        r["features"] = np.ones((ATOMS, WIDTH))
    with pytest.raises(modelfile.ModelError, match="atoms of the frames are all alike"):
        uncertainty.fit(rows[:30], rows[30:])


@pytest.mark.parametrize(
    "change,text",
    [
        ({"width": 65}, "shape [65, 64], expected [66, 65]"),
        ({"width": 8}, "but the last layer of this mace model has 64 features"),
        ({"width": 0}, "width"),
        ({"unit": "meV"}, "unit"),
        ({"limit": -1.0}, "limit"),
        ({"limit": float("nan")}, "limit"),
        ({"elements": ["Cu"]}, "'Cu' is not an element of the model"),
        ({"elements": ["Al", "Al"]}, "listed twice"),
        ({"elements": []}, "tensor 'uncertainty.Al' is not"),
        ({"more": 1}, "more"),
    ],
)
def test_bad_blocks(frames, tmp_path, change, text):
    """The engine refuses them with one error that names the key."""
    model = copy_model(tmp_path)
    uncertainty.add(str(model), uncertainty.extxyz.read(frames[0]), str(tmp_path / "sure.yaml"))
    head = modelfile.read_head(tmp_path / "sure.yaml")
    head["uncertainty"].update(change)
    modelfile.write_head(tmp_path / "sure.yaml", head)
    with pytest.raises(mlff.Error) as caught:
        mlff.Model(tmp_path / "sure.yaml")
    assert text in str(caught.value) and "sure" in str(caught.value), caught.value


def test_refused(frames, tmp_path, capsys):
    model = copy_model(tmp_path)
    foreign = tmp_path / "other.xyz"
    foreign.write_text("1\nProperties=species:S:1:pos:R:3\nCu 0 0 0\n", encoding="utf-8")
    few = tmp_path / "few.xyz"
    few.write_text("\n".join(frames[0].read_text(encoding="utf-8").split("\n")[:34]) + "\n", encoding="utf-8")
    for words, text in (
        ([str(model), str(tmp_path / "none.xyz")], "none.xyz"),
        ([str(model), str(foreign)], "does not know element Cu"),
        ([str(model), str(few)], "too few atoms for 64 features: Al 32"),
        ([str(tmp_path / "no-model"), str(few)], "there is not a model file"),
    ):
        before = model.read_bytes()
        assert uncertainty.main(words) == 2
        said = capsys.readouterr().err
        assert text in said and said.count("\n") == 1 and model.read_bytes() == before
