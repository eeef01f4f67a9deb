"""Verdicts of certificates on bars, and the sections bars and certify of recipes."""

import math
import os
import types

import helpers
import numpy as np
import pytest

from mlff_tools.certify import command, errors, lattice, polymorphs, rows
from mlff_tools.certify.rows import FAIL, NOT, PASS, SHORT, row, verdict
from mlff_tools.certify.work import CertifyError, Failure
from mlff_tools.ensemble.statistics import Estimate
from mlff_tools.train import kinds, recipe, recipe_certify
from mlff_tools.train.recipe import RecipeError


@pytest.mark.parametrize(
    "r, bar, wanted",
    [
        (row("forces", "all", 40.0, 2.0), 45, PASS),
        (row("forces", "all", 50.0, 2.0), 45, FAIL),
        (row("forces", "all", 44.0, 2.0), 45, SHORT),  # the interval holds the bar
        (row("forces", "all", 40.0, 2.0, enough=False), 45, SHORT),
        (row("forces", "all", 80.0, 2.0, enough=False), 45, SHORT),
        (row("forces", "all", 40.0, math.nan, enough=False), 45, SHORT),
        (row("forces", "all", None, note="no frames"), 45, NOT),
        (row("forces", "all", math.nan), 45, NOT),
        (row("forces", "all", 40.0, 2.0, scale=1000.0), "5 %", PASS),
        (row("forces", "all", 40.0, 2.0, scale=500.0), "5 %", FAIL),
        (row("forces", "all", 40.0, 2.0), "5 %", NOT),  # of what?
        (row("lattice_constant", "Si a", 5.435, teacher=5.431), "0.1 %", PASS),
        (row("lattice_constant", "Si a", 5.437, teacher=5.431), "0.1 %", FAIL),
        (row("lattice_constant", "Si a", 5.437, teacher=5.431), 0.01, PASS),
        (row("lattice_constant", "Si a", 5.437, teacher_note="there is no teacher"), 0.01, NOT),
        (row("density", "water", 1.00, 0.003, 1.01, 0.004), "2 %", PASS),
        (row("density", "water", 1.00, 0.03, 1.01, 0.004), "2 %", SHORT),
        (row("density", "water", 1.00, 0.003, 1.10, 0.004), "2 %", FAIL),
        (row("density", "water", 1.00, 0.003, 1.01, 0.03), "2 %", SHORT),  # the teacher's is not known well enough
        (row("rdf", "water O-O", 6.0, 3.0, low=0.0, high=6.0), "10 %", PASS),
        (row("rdf", "water O-O", 16.0, 3.0, low=6.0, high=16.0), 10, SHORT),
        (row("timestep_slope", "water", 2.1, 0.05), 0.2, PASS),
        (row("timestep_slope", "water", 1.1, 0.05), 0.2, FAIL),
        (row("speedup", "water", 11.7, 0.7), 9, PASS),
        (row("speedup", "water", 11.7, 0.7), 13, FAIL),
        (row("speedup", "water", 11.7, 0.7), 12, SHORT),
        (row("nvt", "water", "stable"), "stable", PASS),
        (row("nvt", "water", "unstable"), "stable", FAIL),
        (row("nvt", "water", "too short"), "stable", SHORT),
        (row("nvt", "water", None, note="LAMMPS could not run it"), "stable", NOT),
    ],
)
def test_verdicts(r, bar, wanted):
    assert verdict(r, bar)[0] == wanted, verdict(r, bar)


def test_rows_of_estimates():
    r = rows.of_estimate("density", "water", Estimate(1.0, 0.01, True), Estimate(1.0, 0.01, False))
    assert verdict(r, 0.1)[0] == SHORT  # of the teacher's run
    r = rows.of_estimate("density", "water", Estimate(1.0, 0.01, True), Estimate(1.0, 0.01, True))
    assert verdict(r, 0.1) == (PASS, "0 g/cm3, 95 % interval 0 to 0.01414")


def test_bars_of_groups():
    found = [
        row("forces", "all", 40.0, 1.0, also=["liquid"]),
        row("forces", "300 K", 30.0, 1.0, also=["liquid 300 K"]),
        row("forces", "element O", 60.0, 1.0),
        row("elastic_constants", "Si diamond C11", 150.0, teacher=151.0),
        row("elastic_constants", "Si diamond C44", 50.0, teacher=57.0),
    ]
    bars = {
        "forces": {"all": 45, "liquid 300 K": 35, "element O": 45, "crystal": 45},
        "elastic_constants": {"all": "5 %", "C11": "5 %"},
        "nve_drift": {"all": 0.1},
        "phonons": {"all": "3 %"},
    }
    judged = rows.judge(found, bars, {"nve": "LAMMPS was not found"})
    said = [(b["quantity"], b["group"], b["verdict"]) for b in judged]
    assert said == [
        ("forces", "all", PASS),
        ("forces", "liquid 300 K", PASS),
        ("forces", "element O", FAIL),
        ("forces", "crystal", NOT),
        ("elastic_constants", "Si diamond C11", PASS),
        ("elastic_constants", "Si diamond C44", FAIL),
        ("elastic_constants", "Si diamond C11", PASS),
        ("nve_drift", "all", NOT),
        ("phonons", "all", NOT),
    ]
    assert "there are 300 K, all, element O" in judged[3]["text"]
    assert judged[7]["text"] == "LAMMPS was not found" and judged[8]["text"] == "nothing to measure it with"
    assert rows.overall(judged) == FAIL and rows.overall(judged[:2]) == PASS and rows.overall([]) == "NO BARS"
    assert rows.overall(judged[:1] + judged[7:8]) == "UNDECIDED"  # not measured is not met


def write(tmp_path, text):
    (tmp_path / "r.yaml").write_text(text)
    return recipe.Recipe(str(tmp_path / "r.yaml"))


def test_sections(tmp_path):
    text = "bars:\n  forces: {all: 45, crystal 300 K: 2.5 %}\n  nvt: stable\n  rdf: 5 %\ncertify:\n  quick: true\n"
    found = write(tmp_path, text)
    assert recipe_certify.bars(found) == {
        "forces": {"all": 45, "crystal 300 K": "2.5 %"},
        "rdf": {"all": "5 %"},
        "nvt": {"all": "stable"},
    }
    settings = recipe_certify.certify(found)
    assert settings["quick"] and settings["scale"] == recipe_certify.QUICK and settings["minutes"] == 60
    full = recipe_certify.certify(write(tmp_path, "bars: {forces: 1}\n"))
    assert not full["quick"] and full["nvt"] == 500 and full["nve"] == 100
    assert recipe_certify.certify(write(tmp_path, "certify: {scale: 0.5}\n"))["quick"]
    assert recipe_certify.limit("2.5 %", recipe_certify.QUANTITIES["forces"]) == (2.5, True)
    assert recipe_certify.limit("5 %", recipe_certify.QUANTITIES["rdf"]) == (5.0, False)


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("bars: 45\n", 1, "bars: must be a mapping with the keys energy, forces"),
        ("bars:\n  force: 45\n", 2, "bars.force: is not known; allowed are energy, forces"),
        ("bars:\n  forces: -1\n", 2, r"allowed is a number \(meV/A\) from 0, or a percentage"),
        ("bars:\n  forces: much\n", 2, "is 'much'"),
        ("bars:\n  energy: 5 %\n", 2, r"is '5 %'; allowed is a number \(meV/atom\) from 0, or groups"),
        ("bars:\n  nvt: 500\n", 2, "is 500; allowed is stable"),
        ("bars:\n  forces: {}\n", 2, "names no group"),
        ("bars:\n  forces:\n    all: 45\n    300 K: x\n", 4, "bars.forces.300 K: is 'x'"),
        ("bars:\n  forces: true\n", 2, "is True"),
        ("certify: full\n", 1, "certify: must be a mapping"),
        ("certify:\n  minute: 5\n", 2, "minute: is not known; allowed are minutes, scale, quick"),
        ("certify:\n  minutes: 0\n", 2, "is 0; allowed is minutes for each measurement"),
        ("certify:\n  quick: yes please\n", 2, "allowed is true or false"),
        ("certify:\n  quick: true\n  scale: 0.1\n", 2, "conflicts with scale"),
        ("certify:\n  measure: [errors, speeds]\n", 2, "allowed is a list of errors, seeds"),
        ("certify:\n  systems: []\n", 2, "must be a list of structures"),
        (
            "certify:\n  systems:\n    - {files: a.xyz, kind: gas}\n",
            3,
            r"systems\[1\].kind: is 'gas'; allowed is one of",
        ),
        ("certify:\n  systems:\n    - [a.xyz]\n", 3, "must be a mapping"),
    ],
)
def test_errors_name_the_line(tmp_path, text, line, words):
    found = write(tmp_path, text)
    with pytest.raises(RecipeError, match=words) as e:
        recipe_certify.bars(found)
        recipe_certify.certify(found)
    assert f"r.yaml:{line}: " in str(e.value)


def test_every_quantity_is_of_a_measurement():
    from mlff_tools.certify import measurements

    assert set(recipe_certify.MEASUREMENTS) == set(measurements.ALL)
    for name, quantity in recipe_certify.QUANTITIES.items():
        assert quantity.kind in ("most", "near", "least", "to", "word"), name
        assert (quantity.target is not None) == (quantity.kind in ("to", "word")), name


def test_the_kind_judges_in_addition_to_the_recipe():
    """Bars of the kind stay where the recipe has none, or a looser one, which is counted; a tighter one is one more."""
    found = [
        row("forces", "all", 40.0, 1.0, scale=500.0),
        row("lattice_constant", "Al fcc a", 4.04, teacher=4.03),
        row("vacancy_energy", "Al fcc", 0.65, teacher=0.60),
        row("vacancy_energy", "NaCl rocksalt", None, applies=False),
        row("roc_area", "all", 0.97, 0.01),
    ]
    bars = {"forces": {"all": "12 %"}, "lattice_constant": {"all": "0.1 %"}, "roc_area": {"all": 0.9}}
    judged = rows.judge(found, bars, {}, "metal")
    said = {(b["quantity"], b["from"]): (b["verdict"], b["looser"]) for b in judged}
    assert said["forces", "metal"] == (PASS, None) and said["forces", "recipe"] == (PASS, "10 %")
    assert said["lattice_constant", "metal"] == (FAIL, None) and said["lattice_constant", "recipe"] == (FAIL, None)
    assert said["roc_area", "metal"] == (PASS, None) and said["roc_area", "recipe"] == (PASS, 0.95)
    assert said["nve_drift", "metal"] == (NOT, None)  # it was not measured, and the kind asks
    assert [b["group"] for b in judged if b["quantity"] == "vacancy_energy"] == ["Al fcc"]
    assert ", 2 loosened by the recipe (kind: metal)" in rows.summary(judged, "metal")
    assert "no kind: bars of the recipe only" in rows.summary(rows.judge(found, bars, {}), None)
    assert rows.overall(judged) == FAIL
    liquid = [row("forces", "all", 40.0, 1.0, scale=500.0), row("forces", "liquid", 60.0, 1.0, scale=500.0)]
    judged_liquid = rows.judge(liquid, {"forces": {"liquid": "13 %"}}, {}, "metal")
    assert [b["looser"] for b in judged_liquid if b["group"] == "liquid"] == [None]  # the kind asks nothing of it
    at_300 = [row("thermal_expansion", "Al fcc 300 K", 30.0, teacher=31.0)]
    judged_expansion = rows.judge(at_300, {"thermal_expansion": {"300 K": "90 %"}}, {}, "metal")
    assert [b["looser"] for b in judged_expansion if b["from"] == "recipe"] == ["10 %"]
    assert rows.overall([b for b in judged if b["verdict"] != FAIL]) == "UNDECIDED"


def test_a_model_that_collapses_misses_the_bar():
    """A bar is missed, not undecided, where a surface falls apart. That of a teacher is undecided."""
    gone = rows.missing("surface_energy", "Si diamond 100", Failure("a force of 80 eV/A is left"))
    assert verdict(gone, "5 %") == (FAIL, "a force of 80 eV/A is left") and gone["failed"] is True
    assert verdict(rows.missing("surface_energy", "Si diamond 100", "no time left"), "5 %")[0] == NOT

    def tears(frames):
        return [
            {"energy": -(f["positions"][0, 0] ** 2), "forces": 2.0 * f["positions"], "stress": None} for f in frames
        ]

    frame = {"elements": ["Si"], "positions": np.array([[0.6, 0.0, 0.0]]), "cell": np.eye(3)}
    with pytest.raises(lattice.NotRelaxed) as failed:
        lattice.relax(tears, [frame], steps=20)
    assert failed.value.collapsed


def test_what_would_decide():
    """A bar within the interval: how many times as many data, where the value stays."""
    assert verdict(row("forces", "all", 44.0, 2.0), 45) == (
        SHORT,
        "44 meV/A, 95 % interval 42 to 46: about 4 times as many data would decide",
    )
    assert "would decide" not in verdict(row("forces", "all", 45.0, 2.0), 45)[1]


def test_a_kind_has_bars_that_exist():
    for name, bars in kinds.KINDS.items():
        quantities = [b.quantity for b in bars]
        assert len(set(quantities)) == len(quantities), name
        for b in bars:
            assert recipe_certify.limit(b.value, recipe_certify.QUANTITIES[b.quantity]) is not None, (name, b)


def test_the_page_of_kinds_is_true():
    """docs/certificate.md: the table of the bars of each kind."""
    with open(os.path.join(helpers.ROOT, "docs", "certificate.md"), encoding="utf-8") as f:
        text = f.read()
    table = [[c.strip() for c in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("|")]
    first = next(k for k, cells in enumerate(table) if cells[1:-1] == list(kinds.KINDS))
    wanted = {}
    for column, bars in enumerate(kinds.KINDS.values(), 1):
        for b in bars:
            cells = wanted.setdefault(
                b.quantity,
                [f"`{b.quantity}`" + (f", {b.group}" if b.group != "all" else ""), "", "", "", "", "", b.reason],
            )
            cells[column] = str(b.value)
    assert table[first + 2 : first + 2 + len(wanted)] == list(wanted.values())


def _frame(trajectory, kind="liquid", error=0.02):
    frame = {"info": {"trajectory": trajectory, "config_type": kind}, "cell": None}
    return {"frame": frame, "forces": np.full((2, 3), error)}


def test_held_out_means_other_trajectories():
    """Ends of training trajectories have no interval; where five others are there, they do not count."""
    tails = [_frame(f"3-liquid-{t}K-1", error=0.01) for t in (300, 400) for _ in range(10)]
    trained = {"3-liquid-300K-1", "3-liquid-400K-1"}
    mine, why = errors.independent(tails, trained)
    assert mine == tails and why.startswith("0 of 5 trajectories that the training has not seen")
    others = [_frame(f"4-liquid-300K-{k}") for k in range(5)]
    assert errors.independent([*tails, *others[:4]], trained)[1].startswith("4 of 5")
    assert errors.independent([*tails, *others], trained) == (others, "")
    worse = [_frame("3-liquid-300K-1", error=0.5)]  # what is worse is not left out
    assert errors.independent([*worse, *others], trained) == ([*worse, *others], "")
    copies = [_frame("1-strained", "strained") for _ in range(4)]
    assert errors.independent(copies, {"3-liquid-300K-1"}) == (copies, "")
    assert errors.run_of(copies[0]["frame"]) is None and errors.run_of(tails[0]["frame"]) == "3-liquid-300K-1"
    r = row("forces", "liquid", 40.0, 0.1, enough=False, lacks="0 of 5 trajectories")
    assert verdict(r, 45) == (SHORT, "40 meV/A, 95 % interval 39.9 to 40.1: 0 of 5 trajectories")


def test_a_kind_is_of_its_systems_and_whole():
    """Bars of another kind are refused, and runs shorter than a kind asks are no PASS."""
    crystal, liquid = {"name": "Si diamond", "kind": "crystal"}, {"name": "water", "kind": "liquid"}
    command.check_kind("metal", [crystal, liquid])
    for kind, systems in (("molecule", [crystal]), ("metal", [liquid]), ("liquid", [liquid, crystal])):
        with pytest.raises(CertifyError, match=f"kind: {kind} has bars of a "):
            command.check_kind(kind, systems)
    found = {"nvt": {"rows": [row("nvt", "w", "stable")]}}
    whole = {**recipe_certify.DEFAULTS, "quick": False}
    bars = (kinds.Bar("nvt", "all", "stable", ""),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kinds.KINDS, "liquid", bars)
        assert command._judged(found, {}, "liquid", whole)["verdict"] == PASS
        short = command._judged(found, {}, "liquid", {**whole, "nvt": 0.001})
        assert short["verdict"] == "UNDECIDED" and "shorter than a kind asks: nvt 0.001 of 500" in short["verdict_text"]
        assert command._judged(found, {"nvt": {"all": "stable"}}, None, {**whole, "nvt": 0.001})["verdict"] == PASS


def test_an_order_of_nothing_is_undecided():
    system = types.SimpleNamespace(name="Al fcc")
    lost = polymorphs._order_row(system, "fcc", {"hcp": {"energy": 0.01}}, {"hcp": {"why": "no time left"}}, None)
    assert lost["value"] is None
    one = {"hcp": {"energy": 0.01}, "bcc": {"energy": 0.1}}
    lost = polymorphs._order_row(system, "fcc", one, {**one, "bcc": {"why": "no time left"}}, None)
    assert lost["value"] is None and "bcc: no time left" in lost["note"]
    assert polymorphs._order_row(system, "fcc", one, one, None)["value"] == "same"
