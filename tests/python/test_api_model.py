"""mlff.Model: against the program mlff, lists that are kept against fresh ones, refusals, threads, copies."""

import copy
import os
import pickle
import threading
import warnings

import helpers
import numpy as np
import pytest

import mlff
from mlff_tools.model import engine, modelfile, structures

WATER = structures.molecule_box("water", 8, 0.95, 3)
SILICON = structures.small_structures(["Si"])[0]


@pytest.fixture(autouse=True)
def quiet():
    """Structures of tests are no trained ones; tests of the domain say what they expect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mlff.DomainWarning)
        yield


def evaluate(model, s, **options):
    return model.evaluate(s["elements"], s["positions"], s["cell"], **options)


CRYSTAL = {
    "name": "crystal",
    "cell": np.array([[2.85, 0.0, 0.0], [0.05, 2.87, 0.0], [0.1, -0.07, 4.03]]),
    "positions": np.array([[0.0, 0.0, 0.0], [1.5, 1.35, 2.1]]),
}


def structures_for(elements):
    known = set(elements)
    chosen = [*structures.self_test_structures(elements), *structures.small_structures(elements)]
    chosen.append({**CRYSTAL, "elements": [elements[0], elements[-1]]})
    return [s for s in chosen if set(s["elements"]) <= known]


@pytest.mark.parametrize("name", mlff.model_names())
def test_shipped_models_against_the_program(name):
    """Energies, forces and virials of molecules, boxes, and crystals smaller than the cutoff."""
    model = mlff.Model(name, precision="fp64", domain="ignore")
    chosen = structures_for(model.elements)
    assert len(chosen) > 0
    expected, _ = engine.evaluate(model.path, chosen)
    for s, (energy, forces, virial) in zip(chosen, expected):
        got = evaluate(model, s)
        scale = 1e-11 * max(1.0, np.abs(forces).max())
        helpers.assert_near(got.energy, energy, 1e-9 * max(1.0, abs(energy) * 1e-3), f"energy of {s['name']}")
        helpers.assert_near(got.forces, forces, 100 * scale, f"forces of {s['name']}")
        helpers.assert_near(got.virial, virial, 1000 * scale, f"virial of {s['name']}")
        assert (got.stress is None) == (s["cell"] is None)
        if got.stress is not None:
            volume = abs(np.linalg.det(s["cell"]))
            helpers.assert_near(got.stress, -got.virial[[0, 1, 2, 5, 4, 3]] / volume, scale, "stress")
        helpers.assert_near(got.energies.sum(), got.energy, 1e-9 * max(1.0, abs(energy)), "sum of energies")


def test_what_a_model_says_of_itself():
    model = mlff.Model("water-benzene-ensemble")
    assert (model.architecture, model.n_members, model.device, model.precision) == ("ani", 4, "cpu", "fp32")
    assert model.is_conservative and {"node_energies", "strictly_local"} <= model.traits
    assert model.elements == ["H", "C", "O"] and model.cutoff > 4 and len(model.sha256) == 64
    assert repr(model) == "<mlff.Model water-benzene-ensemble (ani) on cpu, fp32>"


def test_ensemble():
    """Spreads by their formulas, and that the mean is what is asked for without members."""
    model = mlff.Model("water-benzene-ensemble", precision="fp64")
    plain, got = evaluate(model, WATER), evaluate(model, WATER, member_forces=True)
    assert plain.member_forces is None and plain.forces_spread is None
    helpers.assert_near(got.member_energies.mean(), got.energy, 1e-8, "mean energy")
    helpers.assert_near(got.member_forces.mean(0), plain.forces, 1e-10, "mean forces")
    off = np.linalg.norm(got.member_forces - plain.forces, axis=2)
    helpers.assert_near(got.forces_spread, np.sqrt((off**2).mean(0)), 1e-10, "spread of forces")
    ones = [evaluate(mlff.Model("water-benzene-ensemble", precision="fp64", members=str(k)), WATER) for k in range(4)]
    energies = np.array([one.energies for one in ones])
    helpers.assert_near(got.energies_spread, energies.std(0, ddof=1), 1e-9, "spread of energies")
    helpers.assert_near(got.member_energies, energies.sum(1), 1e-8, "members")
    assert evaluate(model, WATER).member_forces is None
    helpers.assert_near(ones[2].forces, got.member_forces[2], 1e-10, "forces of one")


@pytest.mark.parametrize("name", ("water-mbpol-xs", "silicon-m", "water-s"))
def test_centroid_virials(name):
    """Row a, column b of W_j is sum_i (x_i - x_j)_a de_i/dx_j_b, here of an open cluster, for the atom 1; in a box they
    sum to the virial. They are there on request only."""
    model = mlff.Model(name, precision="fp64", domain="ignore")
    s = SILICON if model.elements == ["Si"] else WATER
    n, j, h = min(9, len(s["elements"])), 1, 1e-4
    rng = np.random.default_rng(1)
    symbols, x = s["elements"][:n], np.array(s["positions"][:n]) + rng.uniform(-0.05, 0.05, (n, 3))
    found = model.evaluate(symbols, x, centroid_virials=True).centroid_virials
    expected = np.zeros((3, 3))
    for b in range(3):
        shift = np.zeros((n, 3))
        shift[j, b] = h
        slope = (model.evaluate(symbols, x + shift).energies - model.evaluate(symbols, x - shift).energies) / (2 * h)
        expected[:, b] = (x - x[j]).T @ slope
    assert found.shape == (n, 3, 3) and found[j] == pytest.approx(expected, abs=1e-6)
    assert n == 2 or np.abs(found[j] - found[j].T).max() > 1e-3, "a transposed one would pass"
    whole = evaluate(model, s, centroid_virials=True)
    xx, yy, zz, xy, xz, yz = whole.virial
    total = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    assert whole.centroid_virials.sum(0) == pytest.approx(np.array(total), abs=1e-8)
    assert evaluate(model, s).centroid_virials is None


@pytest.mark.parametrize("name", ("water-benzene-ensemble", "water-xs"))
def test_free_atoms(name):
    """Option e0: energies of atoms, members and the system without those of free atoms; forces are the same."""
    model = mlff.Model(name, precision="fp64")
    with_atoms = evaluate(model, WATER)
    without = evaluate(mlff.Model(name, precision="fp64", e0="no"), WATER)
    offsets = modelfile.read(model.path)[0]["energy_offsets"]
    expected = np.array([offsets[symbol] for symbol in WATER["elements"]])
    helpers.assert_near(with_atoms.energies - without.energies, expected, 1e-9, "energies of atoms")
    helpers.assert_near(with_atoms.energy - without.energy, expected.sum(), 1e-7, "energy")
    helpers.assert_near(with_atoms.forces, without.forces, 1e-12, "forces")
    if with_atoms.member_energies is not None:
        helpers.assert_near(
            with_atoms.member_energies - without.member_energies, np.full(4, expected.sum()), 1e-7, "members"
        )


BOXES = {
    "open": (False, False, False),
    "wire": (False, True, False),
    "slab": (True, False, True),
    "bulk": (True, True, True),
}


@pytest.mark.parametrize("box", BOXES)
def test_kept_lists_are_like_fresh_ones(box):
    """A walk of atoms and cell in a triclinic box smaller than the cutoff, atoms wrapped now and then."""
    rng, pbc = np.random.default_rng(5), BOXES[box]
    model = mlff.Model("water-xs", precision="fp64", skin=0.3, domain="ignore")
    s = structures._triclinic("water", [[4.4, 0, 0], [0.5, 4.1, 0], [-0.3, 0.6, 4.0]], 6)
    x, cell, made = s["positions"].copy(), s["cell"].copy(), []
    make = model._make_system
    model._make_system = lambda *arguments: (made.append(1), make(*arguments))
    for step in range(40):
        x += 0.02 * rng.normal(size=x.shape)
        if step % 4 == 0:
            strain = np.eye(3) + 0.002 * rng.normal(size=(3, 3))
            x, cell = x @ strain, cell @ strain
        if step % 10 == 5:
            k = int(np.argmax(pbc))
            x[step % 3] += cell[k] * (1 if pbc[k] else 0)
        got = model.evaluate(s["elements"], x, cell, pbc)
        if step % 5 and step > 30:
            continue
        fresh = mlff.Model("water-xs", precision="fp64", domain="ignore", self_test=False)
        expected = fresh.evaluate(s["elements"], x, cell, pbc)
        helpers.assert_near(got.energy, expected.energy, 1e-9, f"energy in step {step}")
        helpers.assert_near(got.forces, expected.forces, 1e-9, f"forces in step {step}")
        helpers.assert_near(got.virial, expected.virial, 1e-8, f"virial in step {step}")
        assert got.n_edges == expected.n_edges and (got.stress is None) == (box == "open")
    assert 2 <= len(made) < 30


def test_other_atoms_in_turn():
    """Number, order and elements of atoms, cell and periodicity change between calls; lists are never mixed up."""
    model = mlff.Model("water-benzene-student", precision="fp64", domain="ignore")
    swapped = {**WATER, "elements": WATER["elements"][::-1], "positions": WATER["positions"][::-1]}
    water = structures.rattled("water", 1)
    benzene = structures.rattled("benzene", 2)
    calls = [WATER, water, benzene, swapped, {**WATER, "cell": None}, WATER, {**WATER, "cell": WATER["cell"] * 1.3}]
    expected, _ = engine.evaluate(model.path, calls)
    for s, (energy, forces, _) in zip(calls, expected):
        got = evaluate(model, s)
        helpers.assert_near(got.energy, energy, 1e-8, "energy")
        helpers.assert_near(got.forces, forces, 1e-9, "forces")


def test_atomic_numbers_and_symbols():
    model = mlff.Model("water-xs")
    one, other = (model.evaluate(what, WATER["positions"]) for what in (WATER["elements"], [8, 1, 1] * 8))
    assert one.energy == other.energy


def test_results_are_the_callers():
    model = mlff.Model("water-xs", domain="ignore")
    first = evaluate(model, WATER)
    forces = first.forces.copy()
    evaluate(model, {**WATER, "positions": WATER["positions"] * 1.01})
    assert np.array_equal(first.forces, forces)


# ---- refusals --------------------------------------------------------------------------------------------------------


def moved(k, value):
    x = WATER["positions"].copy()
    x[k] = value
    return {**WATER, "positions": x}


REFUSED = {
    "is not finite": moved(4, np.nan),
    r"finite: \(inf": moved(0, np.inf),
    "atom 1 counted from 1|atom 2 counted from 1": moved(0, WATER["positions"][1] + 1e-3),
    "no atoms": {"elements": [], "positions": np.zeros((0, 3)), "cell": None},
    "does not know element He of atom 3 counted from 1; it knows: H O": {
        "elements": ["O", "H", "He"],
        "positions": np.eye(3),
        "cell": None,
    },
    "'Xx' is not an element": {"elements": ["Xx"], "positions": np.zeros((1, 3)), "cell": None},
    "atomic numbers are from -1 to 8": {"elements": [8, -1], "positions": np.eye(3)[:2], "cell": None},
    r"positions have shape \[2, 3\], expected \[3, 3\]": {**WATER, "elements": [8, 1, 1], "positions": np.eye(3)[:2]},
    "real numbers are expected, not str": {**WATER, "positions": "abc"},
    "dependent": {**WATER, "cell": np.ones((3, 3))},
    "use a larger cell": {**WATER, "cell": np.eye(3) * 0.01},
    r"cell vectors have shape \[3\]": {**WATER, "cell": np.ones(3)},
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_one_sentence(what):
    """Before and after a structure that is right, which is then evaluated as before."""
    model = mlff.Model("water-xs", domain="ignore")
    for _ in range(2):
        with pytest.raises(mlff.Error, match=what):
            evaluate(model, REFUSED[what])
        again = evaluate(model, WATER)
    expected = evaluate(mlff.Model("water-xs"), WATER)
    helpers.assert_near(again.forces, expected.forces, 1e-5, "forces")


def test_bad_arguments():
    model = mlff.Model("water-xs")
    with pytest.raises(mlff.Error, match="pbc has 2 values"):
        model.evaluate(WATER["elements"], WATER["positions"], WATER["cell"], [True, True])
    with pytest.raises(mlff.Error, match="is not an ensemble"):
        evaluate(model, WATER, member_forces=True)
    with pytest.raises(mlff.Error, match="precision.*fp16|fp16.*precision"):
        mlff.Model("water-xs", precision="fp16")
    with pytest.raises(mlff.Error, match="abc"):
        mlff.Model("water-xs", abc="1")
    with pytest.raises(mlff.Error, match="domain is 'maybe'"):
        mlff.Model("water-xs", domain="maybe")
    with pytest.raises(mlff.Error, match="skin is -1"):
        mlff.Model("water-xs", skin=-1)


@pytest.mark.parametrize(
    "change, what",
    [
        ({"pbc": "FFF"}, "pbc is 'FFF', expected booleans"),
        ({"pbc": ["F", "F", "F"]}, "expected booleans"),
        ({"pbc": np.nan}, "pbc is nan, expected booleans"),
        ({"pbc": [1.0, 0.0, 1.0]}, "expected booleans"),
        ({"pbc": [2, 0, 1]}, "expected booleans"),
        ({"pbc": [True, [True], False]}, "expected one boolean or three"),
        ({"pbc": np.ma.array([True] * 3, mask=[0, 1, 0])}, "pbc: some values are masked"),
        ({"positions": np.array(WATER["positions"]) + 1e-3j}, "positions: real numbers are expected, not complex128"),
        ({"positions": np.array(WATER["positions"]).astype(str)}, "positions: real numbers are expected, not str"),
        ({"positions": np.ma.masked_less(WATER["positions"], 1.0)}, "positions: some values are masked"),
        ({"cell": np.eye(3) * 9j}, "cell vectors: real numbers are expected"),
        ({"cell": np.diag([9.0, 9.0, 1e15])}, "cell vector c is 1e.15 A long"),
        (
            {"positions": np.array(WATER["positions"]) + [0, 0, 1e12]},
            "atom 1 counted from 1 is 1e.12 A .* away from the cell",
        ),
        ({"symbols": np.ma.array([8, 1, 1], mask=[0, 0, 1])}, "symbols: some values are masked"),
    ],
)
def test_values_that_would_be_read_in_another_way(change, what):
    model = mlff.Model("water-xs", domain="ignore")
    three = {"symbols": ["O", "H", "H"], "positions": [[0, 0, 0.119], [0, 0.763, -0.477], [0, -0.763, -0.477]]}
    given = {**three, "cell": np.eye(3) * 9, "pbc": True}
    if "positions" in change:
        change = {"positions": change["positions"][:3]}  # of WATER
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(mlff.Error, match=what):
            model.evaluate(*{**given, **change}.values())
        expected = model.evaluate(*given.values())
        for pbc in (np.bool_(True), [1, 1, 1], np.ones(3, np.int8), np.ma.array([True] * 3)):
            assert model.evaluate(*{**given, "pbc": pbc}.values()).energy == expected.energy


def test_names(monkeypatch, tmp_path):
    """Current folder first, then $MLFF_MODELS, then shipped ones; unknown names say which there are."""
    assert {"water-xs", "silicon-m", "nequix-oam-1-pft"} <= set(mlff.model_names())
    assert "targets" not in mlff.model_names()
    with pytest.raises(mlff.Error, match="no model watre; there are: .*silicon-m.*water-xs; did you mean 'water-s'"):
        mlff.Model("watre")
    with pytest.raises(mlff.Error, match="there is not a model file none/water-xs"):
        mlff.Model("none/water-xs")
    head, tensors = helpers.painn()
    modelfile.write(str(tmp_path / "mine.yaml"), head, tensors)
    monkeypatch.setenv("MLFF_MODELS", f"{tmp_path}/nothing:{tmp_path}")
    assert mlff.find_model("mine") == str(tmp_path / "mine.yaml")
    assert "mine" in mlff.model_names()
    monkeypatch.chdir(tmp_path)
    os.rename("mine.yaml", "water-xs.yaml")
    assert mlff.find_model("water-xs") == str(tmp_path / "water-xs.yaml")


# ---- domain ----------------------------------------------------------------------------------------------------------


def test_domain():
    thin = {**WATER, "cell": WATER["cell"] * 1.2}
    squeezed = moved(1, WATER["positions"][0] + 0.7 * (WATER["positions"][1] - WATER["positions"][0]))
    for s, what in (
        (thin, "density 0.5.* g/cm3 is outside of"),
        (squeezed, "H-O distance 0.6.*atom 2 counted from 1, atom 1 counted from 1"),
    ):
        with pytest.warns(mlff.DomainWarning, match=what):
            evaluate(mlff.Model("water-xs"), s)
        strict = mlff.Model("water-xs", domain="stop")
        for _ in range(2):
            with pytest.raises(mlff.DomainError, match=what):
                evaluate(strict, s)
        with warnings.catch_warnings():
            warnings.simplefilter("error", mlff.DomainWarning)
            evaluate(mlff.Model("water-xs", domain="ignore"), s)


def test_what_no_structure_begins_with():
    """Elements that never met, and far too short distances: errors without domain="stop"; warnings once it moves."""
    methanol = (list("COHHHH"), np.array([[0, 0, 0], [1.4, 0, 0], [1.8, 0.9, 0], [-0.4, 1, 0], [-0.4, -0.5, 0.9]]))
    methanol = (methanol[0], np.vstack([methanol[1], [[-0.4, -0.5, -0.9]]]))
    model = mlff.Model("water-benzene-student")
    for _ in range(2):
        with pytest.raises(mlff.DomainError, match="C-O distance 1.4 A .* within which there was no such pair"):
            model.evaluate(*methanol)
    squeezed = moved(1, WATER["positions"][0] + 0.5 * (WATER["positions"][1] - WATER["positions"][0]))
    with pytest.raises(mlff.DomainError, match="H-O distance 0.4.* check the structure"):
        evaluate(mlff.Model("water-xs"), squeezed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mlff.Model("water-benzene-student", domain="ignore").evaluate(*methanol)


def test_domain_is_looked_at_in_runs():
    """The hundredth evaluation, of atoms that crept there; once."""
    model, x = mlff.Model("water-xs"), WATER["positions"].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            model.evaluate(WATER["elements"], x, WATER["cell"])
    x[1] += 0.3 * (x[0] - x[1])
    with pytest.warns(mlff.DomainWarning, match="H-O distance"):
        model.evaluate(WATER["elements"], x, WATER["cell"])


def test_domain_is_checked_after_jumps():
    """A scan with one model warns at the first structure outside the domain that is 0.5 A from the last check."""
    model, x = mlff.Model("water-xs"), WATER["positions"].copy()
    bond = x[1] - x[0]
    lengths = np.arange(1.0, 0.3, -0.1)  # of the bond, relative
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", mlff.DomainWarning)
        for length in lengths:
            x[1] = x[0] + length * bond
            model.evaluate(WATER["elements"], x, WATER["cell"])
    assert any("H-O distance" in str(w.message) for w in found), [str(w.message) for w in found]
    model, water = mlff.Model("water-xs"), (WATER["elements"][:3], WATER["positions"][:3])
    model.evaluate(*water, 3.105 * np.eye(3))
    with pytest.warns(mlff.DomainWarning, match="density 0.1385"):  # of this structure, and no mean
        model.evaluate(*water, 6.0 * np.eye(3))
    domain, seen, x = model._domain, [], np.zeros((2, 3))
    domain.begin(b"")
    for x[1, 0] in 0.125 * np.arange(10):
        seen.append(domain.is_due(x.tobytes(), np.zeros(9).tobytes()))
    assert [k for k, due in enumerate(seen) if due] == [0, 4, 8]
    assert domain.is_due(x.tobytes(), np.full(9, 0.6).tobytes())


def test_untrained_elements_are_refused(tmp_path):
    head, tensors = helpers.painn()
    head["domain"]["elements"] = ["H", "O"]
    modelfile.write(str(tmp_path / "m.yaml"), head, tensors)
    s = structures.rattled("ethanol", 1)
    with pytest.raises(mlff.DomainError, match="knows element C, but it did not occur in training"):
        evaluate(mlff.Model(tmp_path / "m.yaml"), s)
    assert np.isfinite(evaluate(mlff.Model(tmp_path / "m.yaml", domain="ignore"), s).energy)


# ---- models with outputs instead of gradients ------------------------------------------------------------------------


def test_orb(tmp_path):
    """No energies of atoms, stress as an output, no slabs."""
    head, tensors = helpers.orb()
    modelfile.write(str(tmp_path / "orb.yaml"), head, tensors)
    model = mlff.Model(tmp_path / "orb.yaml", precision="fp64")
    assert not model.is_conservative
    got = evaluate(model, WATER)
    (energy, forces, virial), *_ = engine.evaluate(str(tmp_path / "orb.yaml"), [WATER])[0]
    helpers.assert_near(got.energy, energy, 1e-9, "energy")
    helpers.assert_near(got.forces, forces, 1e-9, "forces")
    helpers.assert_near(got.virial, virial, 1e-8, "virial")
    assert got.energies is None and got.stress is not None
    with pytest.raises(mlff.Error, match="require three periodic directions or none"):
        evaluate(model, WATER, pbc=[True, True, False])


# ---- threads, copies -------------------------------------------------------------------------------------------------


def shaken(seed):
    return WATER["positions"] + 0.05 * np.random.default_rng(seed).normal(size=WATER["positions"].shape)


@pytest.mark.parametrize("shared", [False, True], ids=["a model each", "one model"])
def test_threads(shared):
    def energies(model, seeds):
        return [model.evaluate(WATER["elements"], shaken(s), WATER["cell"]).energy for s in seeds]

    expected = [energies(mlff.Model("water-xs", domain="ignore"), range(60 * k, 60 * k + 60)) for k in range(3)]
    found, one = [None] * 3, mlff.Model("water-xs", domain="ignore")
    models = [one if shared else mlff.Model("water-xs", domain="ignore") for _ in range(3)]

    def work(k):
        found[k] = energies(models[k], range(60 * k, 60 * k + 60))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for got, wanted in zip(found, expected):
        helpers.assert_near(got, wanted, 1e-3 if shared else 2e-4, "energies")  # lists, and so sums, in other orders


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(how):
    model = mlff.Model("water-xs", precision="fp64", skin=1.0)
    energy = evaluate(model, WATER).energy
    other = how(model)
    del model
    assert other.precision == "fp64" and evaluate(other, WATER).energy == energy


def resident():
    """MB of this process now."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_models_are_closed():
    """Structures in turn, and models that go, leave no memory behind: 400 lists or 20 models would be 20 MB."""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc/self/statm here")
    model, sizes = mlff.Model("water-xs", domain="ignore", self_test=False), []
    for k in range(1200):
        evaluate(model, {**WATER, "positions": shaken(k), "cell": WATER["cell"] * (1 + 0.3 * (k % 2))})
        if k % 20 == 0:
            evaluate(mlff.Model("water-xs", domain="ignore", self_test=False), WATER)
        sizes.append(resident())
    assert sizes[-1] - sizes[400] < 4, (sizes[400], sizes[-1])
