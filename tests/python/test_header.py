"""The hash of a model file's header, and what its self-test touches: the files of review A1, A2, A3, A13."""

import copy
import ctypes
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import helpers
import mutations
import numpy as np
import pytest
from nightly import only

import mlff
from mlff_tools.model import coverage, header, modelfile, reference, selftest
from mlff_tools.model.modelfile import ModelError

FOLDER = Path(helpers.ROOT) / "models"
SHIPPED = sorted(p for p in FOLDER.glob("*.yaml") if p.name != "targets.yaml")
REPELLED = [p for p in SHIPPED if "\nrepulsion:" in p.read_text()]
ids = lambda path: path.stem


def place(path, folder, change=lambda text: text, way="stated"):
    """A model in a folder, its text changed; header_sha256 stated as before, left out (none) or made right
    (renewed)."""
    text = change(path.read_text())
    if way == "none":
        text = re.sub(r"(?m)^header_sha256: .*\n", "", text)
    if way == "renewed":
        text = header.renewed(text, path.name)[0]
    (folder / path.name).write_text(text)
    if not (folder / (path.stem + ".safetensors")).exists():
        shutil.copy(path.with_suffix(".safetensors"), folder)
    return str(folder / path.name)


def command(*words):
    done = subprocess.run([helpers.program(), *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# ---- the hash --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_shipped_headers_are_hashed(path):
    stated = modelfile.read_head(str(path))[header.KEY]
    model = mlff.Model(path, self_test=False)
    assert model.header_is_hashed and model.header_sha256 == stated == header.parse(path.read_text(), "")[1]


def test_layout_does_not_matter(tmp_path):
    """Comments, order of keys, quotes, digits, and texts that no result depends on; by C and by Python."""
    path = FOLDER / "water-xs.yaml"
    head = modelfile.read_head(str(path))
    stated = head[header.KEY]
    texts = [
        "# a comment\n" + path.read_text(),
        modelfile.dump_yaml({k: head[k] for k in sorted(head)}),
        path.read_text().replace("epsilon: 0.01", "epsilon: +1.00e-2").replace("cutoff: 4.0", "cutoff: 4"),
        path.read_text().replace("kind: zbl", "kind: 'zbl'").replace("[O, H]", '["O", H]'),
        path.read_text().replace("name: water-xs", "name: renamed").replace("license: MIT", "license: mine"),
    ]
    for text in texts:
        assert text != path.read_text() and header.parse(text, "")[1] == stated
        assert mlff.Model(place(path, tmp_path, lambda _, new=text: new)).header_sha256 == stated


def test_odd_texts_hash_alike(tmp_path):
    """What is a number and what is a text, escapes, and nesting: the engine computes what Python does."""
    odd = (
        'odd: {a: .5, b: 5., c: 01, d: "1", e: 1e400, f: -0.0, g: "q\\"b\\\\", h: [], "": {}, i: [1e-300, [~]], ä: ü}\n'
    )
    text = (FOLDER / "water-xs.yaml").read_text().replace("header_sha256", odd + "header_sha256")
    path = place(FOLDER / "water-xs.yaml", tmp_path, lambda _: text)
    with pytest.raises(mlff.Error) as caught:
        mlff.Model(path)
    assert f"but the header has hash {header.parse(text, '')[1]}" in str(caught.value)


def test_a_wrong_hash_is_one_error(tmp_path):
    """It names the value, the line and the command that renews it, which keeps comments; weights belong to it."""
    path = place(
        FOLDER / "water-xs.yaml", tmp_path, lambda t: "# mine\n" + t.replace("density: [0.85", "density: [0.65")
    )
    renew = (
        rf"water-xs.yaml:14: header_sha256: is {'[0-9a-f]' * 64}, but .* run `python -m mlff_tools selftest {path} --h"
    )
    with pytest.raises(mlff.Error, match=renew):
        mlff.Model(path)
    with pytest.raises(ModelError, match=f"run `python -m mlff_tools selftest {path} --header`"):
        modelfile.read(path)
    selftest.main([path, "--header"])
    text = Path(path).read_text()
    assert text.startswith("# mine\nformat: ") and "density: [0.65" in text
    assert mlff.Model(path).header_is_hashed
    Path(path).write_text(re.sub(r"(sha256: )[0-9a-f]{8}", r"\g<1>00000000", text, count=1))
    with pytest.raises(mlff.Error, match="damaged, truncated or from another model"):
        mlff.Model(path)


def test_files_without_a_hash(tmp_path):
    """Those of earlier releases open, and everything says so; --header adds the hash."""
    path = place(FOLDER / "water-xs.yaml", tmp_path, way="none")
    model = mlff.Model(path)
    assert not model.header_is_hashed and model.header_sha256 == mlff.Model("water-xs").header_sha256
    assert "header not hashed" in command("info", path)[1] and ", header not hashed, on" in command("verify", path)[1]
    selftest.main([path, "--header"])
    assert mlff.Model(path).header_is_hashed and Path(path).read_text() == (FOLDER / "water-xs.yaml").read_text()


def test_writers_write_it(tmp_path):
    head = modelfile.write(str(tmp_path / "m"), *helpers.painn())
    assert modelfile.read_head(str(tmp_path / "m.yaml")) == head and len(head[header.KEY]) == 64
    modelfile.write_head(str(tmp_path / "m.yaml"), {**head, "cutoff": head["cutoff"] - 0.1})
    assert modelfile.read_head(str(tmp_path / "m.yaml"))[header.KEY] != head[header.KEY]


# ---- what self-tests touch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_all_is_touched(path):
    """Every element in the network with energies of its atoms, every pair within its repulsion (kind clamped: every
    element), and the numbers are those of the reference."""
    model = modelfile.read(str(path))
    head = model[0]
    covered = [s for s in head["self_test"]["structures"] if coverage.is_coverage(s)]
    assert covered
    seen, repelled = set(), set()
    cutoffs = {frozenset(pair): reach for pair, reach in modelfile.repulsion_cutoffs(head).items()}
    for s in covered:
        elements, x = s["elements"], np.array(s["positions"])
        seen |= set(elements)
        assert len(s["atom_energies"]) == len(elements)
        for k in range(len(x) - 1):
            pair, r = frozenset(elements[k : k + 2]), np.linalg.norm(x[k + 1] - x[k])
            if r < cutoffs.get(pair, 0.0):
                repelled.add(pair)
    assert seen == set(head["elements"])
    if head.get("repulsion", {}).get("kind") == "clamped":
        assert set().union(*repelled) == seen
    else:
        assert repelled == set(cutoffs)
    s = {**covered[-1], "cell": None}
    helpers.assert_near(reference.atom_energies(model, s), s["atom_energies"], 1e-9, "energies of atoms")
    helpers.assert_near(sum(s["atom_energies"]), s["energy"], 1e-8, "their sum")


def fails_its_test(path, tmp_path, change, **options):
    """Both without the hash and with a new one the self-test refuses the file; with the old hash that does."""
    for way in ("none", "renewed"):
        with pytest.raises(mlff.Error, match=r"self-test '.*' failed"):
            mlff.Model(place(path, tmp_path, change, way), **options)
    with pytest.raises(mlff.Error, match="header_sha256: is"):
        mlff.Model(place(path, tmp_path, change), **options)


@pytest.mark.parametrize("path", REPELLED, ids=ids)
def test_repulsion_is_tested(path, tmp_path):
    assert len(REPELLED) == 12
    fails_its_test(path, tmp_path, lambda t: re.sub(r"repulsion:\n(  .*\n)+", "", t))
    if "kind: clamped" in path.read_text():
        longer = lambda found: f"{found[1]}{1.3 * float(found[2]):.3f}}}"
        return fails_its_test(path, tmp_path, lambda t: re.sub(r"(radii: \{[^}]*: )([0-9.]+)\}", longer, t))
    pair, reach = re.search(r"cutoffs: \{.*?([A-Z][a-z]?-[A-Z][a-z]?): ([0-9.]+)\}", path.read_text()).groups()
    longer = f"{pair}: {min(1.5 * float(reach), 4.0):.3f}"
    fails_its_test(path, tmp_path, lambda t: t.replace(f"{pair}: {reach}}}", longer + "}", 1))


@pytest.mark.parametrize("new", ["0.0", "{}", "-9{}"])
def test_offsets_are_tested(new, tmp_path):
    old = re.search(r"N: (-[0-9.]+)", (FOLDER / "organics-s.yaml").read_text())[1]
    fails_its_test(FOLDER / "organics-s.yaml", tmp_path, lambda t: t.replace(old, new.format(old[1:]), 1))


def reversed_elements(text):
    """The 83 elements of the universal model that are in no structure of a crystal."""
    known = ["H", "O", "Si", "Na", "Cl", "Fe"]
    line = re.search(r"(?ms)^elements: \[(.*?)\]", text)
    elements = re.split(r",\s+", line[1])
    others = [e for e in elements if e not in known]
    turned = iter(others[::-1])
    new = ", ".join(e if e in known else next(turned) for e in elements)
    return text[: line.start(1)] + new + text[line.end(1) :]


def test_elements_are_tested(tmp_path):
    path = FOLDER / "nequix-oam-1-pft.yaml"
    assert reversed_elements(path.read_text()) != path.read_text()
    with pytest.raises(mlff.Error, match="self-test 'every element: .*' failed"):
        mlff.Model(place(path, tmp_path, reversed_elements, "renewed"))


def test_orb_has_a_cell_for_each_element(tmp_path):
    """Without energies of atoms; offsets of any two elements exchanged are noticed, as is the key atom_energies."""
    head, tensors = helpers.orb()
    head["self_test"] = selftest.block((head, tensors), [])
    assert [s["elements"][0] for s in head["self_test"]["structures"]] == sorted(
        head["elements"], key=modelfile.NUMBERS.get
    )
    path = tmp_path / "orb.yaml"
    head = modelfile.write(str(path), head, tensors)
    mlff.Model(path, precision="fp64")
    a, b, *_ = head["elements"]
    offsets = {**head["energy_offsets"], a: head["energy_offsets"][b] + 0.5, b: head["energy_offsets"][a]}
    modelfile.write_head(str(path), {**head, "energy_offsets": offsets})
    with pytest.raises(mlff.Error, match="self-test 'every element: .*' failed"):
        mlff.Model(path, precision="fp64")
    head["self_test"]["structures"][0]["atom_energies"] = [0.0, 0.0]
    modelfile.write_head(str(path), head)
    with pytest.raises(mlff.Error, match="atom_energies: orb models have no per-atom energies; remove the key"):
        mlff.Model(path, precision="fp64")


def test_elements_of_a_run_are_tested():
    """A model of many elements that is opened for a few is not tested on others alone."""
    model = mlff.Model("nequix-oam-1-pft", self_test=False)
    options, handle, f = mlff.library.COptions(), ctypes.c_void_p(), model._files
    words = (ctypes.c_char_p * 1)(b"Al")
    options.elements, options.n_elements = words, 1
    arguments = (b"m", f.yaml, f.yaml_size, f.weights, f.weights_size, options, handle, model._error)
    assert not model._library.mlff_model_open_memory(*arguments), model._error.text
    info = model._library.mlff_model_info(handle).contents
    assert (info.n_self_tests, info.n_self_tests_passed) == (95, 7)
    model._library.mlff_model_close(handle)


# ---- an open model stays what it is ----------------------------------------------------------------------------------

WATER = (["O", "H", "H"], np.array([[0, 0, 0.119], [0, 0.763, -0.477], [0, -0.763, -0.477]]))


def random_model(folder, elements, seed):
    modelfile.write(str(folder / "m"), *helpers.painn(elements=elements, seed=seed))
    return str(folder / "m.yaml")


def energy(model):
    return model.evaluate(*WATER).energy


@pytest.mark.filterwarnings("ignore::mlff.ModelWarning")
@pytest.mark.parametrize("elements", [("H", "C", "O"), ("O", "C", "H")])
def test_a_replaced_file(elements, tmp_path):
    """An open model goes on as it was; copies, pickles and new processes say that the file has changed."""
    path = random_model(tmp_path, ("H", "C", "O"), 1)
    model, wanted = mlff.Model(path, precision="fp64"), energy(mlff.Model(path, precision="fp64"))
    model.evaluate(["H"], np.zeros((1, 3)))
    kept = pickle.dumps(model)
    assert energy(copy.deepcopy(model)) == energy(pickle.loads(kept)) == wanted
    random_model(tmp_path, elements, 2)
    assert energy(model) == wanted != energy(mlff.Model(path, precision="fp64"))
    for copied in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda _: pickle.loads(kept)):
        with pytest.raises(mlff.Error, match=r"m.yaml: has changed: .*Open the new one with mlff.Model"):
            copied(model)
    os.remove(path)
    assert energy(model) == wanted
    with pytest.raises(mlff.Error, match=r"m.yaml"):
        copy.copy(model)


@pytest.mark.filterwarnings("ignore::mlff.ModelWarning")
def test_an_edited_header(tmp_path):
    path = random_model(tmp_path, ("H", "C", "O"), 1)
    model = mlff.Model(path)
    head = modelfile.read_head(path)
    modelfile.write_head(path, {**head, "description": "other words"})
    copy.copy(model)
    modelfile.write_head(path, {**head, "energy_offsets": {"H": 1.0, "C": 2.0, "O": 3.0}})
    with pytest.raises(mlff.Error, match="has changed"):
        copy.copy(model)


def answer(model, queue):
    queue.put(energy(model))


@pytest.mark.filterwarnings("ignore::mlff.ModelWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_new_processes(method, tmp_path):
    """A forked process has the model itself; a spawned one opens it again, and says when it has changed."""
    path = random_model(tmp_path, ("H", "C", "O"), 1)
    model = mlff.Model(path, precision="fp64")
    wanted = energy(mlff.Model(path, precision="fp64"))
    context = multiprocessing.get_context(method)
    for replaced in (False, True):
        if replaced:
            random_model(tmp_path, ("O", "C", "H"), 2)
        queue = context.Queue()
        process = context.Process(target=answer, args=(model, queue))
        process.start()
        process.join(120)
        assert process.exitcode == (1 if replaced and method == "spawn" else 0)
        if not process.exitcode:
            assert queue.get(timeout=10) == wanted


# ---- no self-test ----------------------------------------------------------------------------------------------------


def test_caution_is_said_aloud(tmp_path):
    """A known failure is a warning in Python and of the program, and in what `mlff info` prints."""
    path = place(
        FOLDER / "water-benzene-student.yaml",
        tmp_path,
        lambda t: t.replace("accuracy: {", "accuracy: {caution: ice melts, "),
    )
    with pytest.warns(
        mlff.ModelWarning, match=r"model water-benzene-student has a known failure: ice melts \[mlff-45\]"
    ):
        assert mlff.Model(path).caution == "ice melts"
    (tmp_path / "w.xyz").write_text("3\n\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n")
    code, _, said = command("evaluate", path, str(tmp_path / "w.xyz"))
    assert (
        code == 0 and said.count("warning: model water-benzene-student has a known failure: ice melts [mlff-45]") == 1
    )
    assert "  caution      ice melts\n" in command("info", path)[1]


def test_no_structures_is_said_aloud(tmp_path):
    path = place(
        FOLDER / "water-benzene-student.yaml", tmp_path, lambda t: t[: t.index("  structures:")] + "  structures: []\n"
    )
    with pytest.warns(
        mlff.ModelWarning, match=r"model water-benzene-student \(.*\) has no self-test structures: nothing checks"
    ):
        model = mlff.Model(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", mlff.ModelWarning)
        energy(model)
        mlff.Model(path, self_test=False)
    (tmp_path / "w.xyz").write_text("3\n\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n")
    code, out, said = command("evaluate", path, str(tmp_path / "w.xyz"))
    assert code == 0 and "energy" in out
    text = "warning: model water-benzene-student has no self-test structures, so its results are not checked"
    assert said.count(f"mlff evaluate: {text}") == 1
    assert "self-test      none: the file has no structures, and nothing checks" in command("info", path)[1]
    code, out, _ = command("verify", path)
    assert code == 1 and "nothing was verified" in out


# ---- mutations -------------------------------------------------------------------------------------------------------

# `make nightly` makes all changes, `make test` a sample. Models of 89 elements take a second or two to open: nightly
# changes their whole header and a sample of their self-test.
SLOW = ("nequix-oam-1-pft", "tensornet-matpes-r2scan", "tensornet-local-matpes-pbe")
SAMPLE = {**dict.fromkeys(SLOW, 2), "water-benzene-teacher": 10}


@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_a_sample_of_changes(path, tmp_path):
    """No change of a number, key, word, order or line changes energies, with the hash or with the self-test alone."""
    sample = SAMPLE.get(path.stem, 40)
    counts, silent = mutations.run(path, tmp_path, sample=sample)
    assert not silent, "\n".join(silent)
    assert sum(counts.values()) == 2 * sample and counts["refused"] >= sample, counts


@only
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_all_changes(path, tmp_path):
    counts, silent = mutations.run(path, tmp_path, header_only=path.stem in SLOW)
    if path.stem in SLOW:
        silent += mutations.run(path, tmp_path, sample=200, seed=1)[1]
    assert not silent, "\n".join(silent)
    assert counts["refused"] > 600, counts
