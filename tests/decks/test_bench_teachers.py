"""`mlff bench` with teachers: one with random weights is timed on atoms that stay where they are, without energies;
ANI-2x moves them. Suites of both are published side by side."""

import os

import numpy as np
import pytest
import thermo
from test_bench_decks import run as deck

from mlff_tools.bench import suite as bench
from mlff_tools.bench.profiles import read_json
from mlff_tools.convert import command as convert
from mlff_tools.convert.orb import RANDOM
from mlff_tools.report import page

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
SHARED = os.environ.get("MLFF_SHARED_DIR", os.path.join(os.path.dirname(ROOT), "shared"))
ANI = os.path.join(SHARED, "models", "ani-2x.yaml")
SHORT = ("--warmup", 5, "--repeats", 1, "--budget", 0, "--build", PLUGIN)


def run(*arguments):
    return bench.main([str(a) for a in arguments])


@pytest.fixture(scope="module")
def orb(tmp_path_factory):
    """A model file with random weights: Orb-v2, with one of its layers."""
    name = str(tmp_path_factory.mktemp("orb") / "orb_v2")
    convert.main(["orb", "--random", "1", "--layers", "1", "--elements", "H,O,Si", "--no-self-test", "-o", name])
    return name + ".yaml"


def test_random_weights(orb, tmp_path, capsys):
    """Silicon that a reference potential has moved for 40 steps, and water as it lies there: then the atoms stay."""
    out, kept = tmp_path / "out", tmp_path / "kept"
    kept.mkdir()
    (kept / "suite.json").write_text("of another suite")
    choice = ("silicon-small-nvt-orb_v2", "silicon-medium-nvt-orb_v2", "water-small-nvt-orb_v2", "--model", orb)
    options = ("--steps", 15, "--equilibrate", 40, "--out", out, "--publish", kept, "--publish-as", "orb_v2", *SHORT)
    assert run(*choice, *options) == 0, capsys.readouterr().err
    for folder in (out, kept):
        names = ["silicon-small-nvt-orb_v2", "silicon-medium-nvt-orb_v2", "water-small-nvt-orb_v2"]
        reports = [read_json(folder, f"orb_v2_scaling_silicon_{n}.json") for n in (64, 216)]
        reports.append(read_json(folder, "orb_v2_profile.json"))
        assert [r["name"] for r in reports] == names
        for r in reports:
            assert r["notes"] == f"Orb-v2, 1 layers, {RANDOM}" and r["n_steps"] == 10
            assert r["drift"] is None and r["drift_of"] is None and r["energy"] is None and r["ns_per_day"] is None
            assert r["context"]["timestep"] == 1e-9 and r["context"]["pair_style"] == "mlff"
            assert r["context"]["deck"]["frozen"] == ("sw" if r["name"].startswith("silicon") else "yes")
    assert {p.name for p in kept.glob("s*")} == {"suite.json", "suite-orb_v2.json", "summary-orb_v2.txt"}
    assert (kept / "suite.json").read_text() == "of another suite"
    rows = read_json(kept, "suite-orb_v2.json")["cases"]
    assert len(rows) == 3 and all(r["drift"] is None and r["ensemble"] is None for r in rows)
    text = (kept / "summary-orb_v2.txt").read_text(encoding="utf-8")
    assert f"orb_v2: Orb-v2, 1 layers, {RANDOM}." in text and "Ensembles: not judged." in text
    (kept / "suite.json").unlink()
    assert page.main([str(kept), "-o", str(tmp_path / "page.html")]) == 0
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert RANDOM in html and "Ensembles: not judged." in html and "silicon-medium-nvt-orb_v2" in html


def energies(orb, place, frozen):
    """Potential energies, eV, before and in the profiled steps of in.bench; all others start from the same seed."""
    values = {"system": "silicon", "potential": "mlff", "model": orb, "frozen": frozen}
    code, output = deck("in.bench", place, **values, steps=10, equilibrate=40, thermo=5, warmup=2)
    assert code == 0, output[-3000:]
    return [run["PotEng"] for run in thermo.tables(output)]


def test_atoms_stay(orb, tmp_path):
    """Stillinger-Weber moves silicon from its minimum in the steps before; then the model's energy stays; without a
    reference potential nothing moves at all. Ties of the perfect crystal change that by 0.01 eV."""
    before, after = energies(orb, tmp_path, "sw")
    assert len(before) == 9 and before[0] == pytest.approx(64 * -4.336, abs=0.1) and before[-1] > before[0] + 1.0
    still, same = energies(orb, tmp_path, "yes")
    assert len(after) == len(same) == 3 and np.ptp(after) < 1e-3 and np.ptp([*still, *same]) < 0.05
    assert abs(np.mean(after) - np.mean(same)) > 0.1, "the atoms were somewhere else"
    assert np.ptp(energies(orb, tmp_path, "no")[1]) > 0.05, "without `frozen` atoms move"


@pytest.mark.skipif(not os.path.exists(ANI), reason="no published parameters (MLFF_SHARED_DIR)")
def test_ani_moves(tmp_path, capsys):
    """ANI-2x under the name that its results have: real dynamics at 300 K, and a comparison with its student."""
    name, out = str(tmp_path / "fennol_ani2x"), tmp_path / "out"
    convert.main(["ani", ANI, "--constants", "exact", "--no-self-test", "-o", name])
    choice = ("water-*-nvt-*", "--model", name + ".yaml", "--model", "water-xs", "--size", "small,medium")
    assert run(*choice, "--steps", 45, "--equilibrate", 20, "--out", out, *SHORT) == 0, capsys.readouterr().err
    for n, file in ((63, "fennol_ani2x_scaling_water_63.json"), (192, "fennol_ani2x_profile.json")):
        r = read_json(out, file)
        assert r["n_atoms"] == n and r["n_steps"] == 40 and r["context"]["timestep"] == 0.0005
        assert r["notes"] is None and r["drift"] is not None and r["drift_of"] == "conserved"
        assert 200 < r["energy"]["temperature"]["mean"] < 400 and r["energy"]["potential"]["std"] > 0.01
        assert r["energy"]["time_ps"] == pytest.approx(45 * 0.0005)
    made = read_json(out, "comparison_fennol_ani2x_vs_water_xs.json")
    assert {c["work"] for c in made["cases"]} == {"water-small-nvt", "water-medium-nvt"}
    assert all(c["speedup"] > 1 for c in made["cases"])


def test_refused(tmp_path, capsys):
    """Names that would not be names of files, and a name without a folder; atoms stay of models only."""
    for words in (("--publish", tmp_path, "--publish-as", "a/b"), ("--publish-as", "orb")):
        assert run("--list", *words) == 2
        assert "use letters, digits and _, and name the folder with --publish" in capsys.readouterr().err
    code, output = deck("in.bench", tmp_path, system="silicon", potential="sw", frozen="yes")
    assert code != 0 and "ERROR: frozen is yes, which is for models: add -var potential mlff" in output
    code, output = deck("in.bench", tmp_path, potential="mlff", frozen="lj")
    assert code != 0 and "ERROR: potential is lj: for water see the table" in output
