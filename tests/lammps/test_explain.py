"""mlff explain: causes that are planted in a run of water are named first, and by how much they slow it down; a run
without one has nothing to gain. Runs on one rank, and the speed of a core, are timed by the clock of the processor, so
that other programs change nothing."""

import json
import os
import subprocess

import pytest
from harness import PLUGIN, cpu_clock, launch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("MLFF") or os.path.join(os.path.dirname(PLUGIN), "mlff")
DECK = """
units metal
atom_style atomic
{before}
read_data {root}/benchmarks/decks/data.water64
{after}
mass 1 1.008
mass 2 15.999
pair_style mlff {options}
pair_coeff * * {root}/models/water-xs.yaml H O
neighbor {skin} bin
neigh_modify {lists}
timestep 0.0002
velocity all create 300 77
fix move all nve
{more}
fix prof all mlffprof 10 file r.json warmup 20 memory no energy no
run {steps}
"""


def explained(folder, ranks=1, options="", skin=1.0, lists="every 10 delay 0 check yes", more="", **rest):
    """What mlff explain says of a run."""
    texts = {"before": "", "after": "", "steps": 600, **rest}
    deck = DECK.format(root=ROOT, options=options, skin=skin, lists=lists, more=more, **texts)
    launch(deck, str(folder), ranks, env=cpu_clock() if ranks == 1 else None)
    words = [PROGRAM, "explain", os.path.join(str(folder), "r.json"), "--json"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **cpu_clock()})
    return json.loads(done.stdout)


def causes(found):
    """What would make the run faster, without the spread of steps."""
    return [loss for loss in found["losses"] if loss["component"] != "spread"]


def test_nothing_to_gain(tmp_path):
    """Nothing is advised, and the parts of a step have rates."""
    found = explained(tmp_path)
    assert causes(found) == []
    parts = {one["name"]: one for one in found["parts"]}
    assert found["core_gflops"] > 1 and found["core_cache_gbs"] > found["core_memory_gbs"] > 0, found
    for name in ("edges", "descriptor", "message", "dense", "message_backward", "dense_backward", "forces"):
        assert parts[name]["share_of_core"] > 0 and parts[name]["gflops"] > 0, (name, parts[name])
    assert parts["neigh"]["share_of_core"] is None, parts["neigh"]
    said = subprocess.run([PROGRAM, "explain", str(tmp_path / "r.json")], check=True, stdout=subprocess.PIPE, text=True)
    assert "measured now" in said.stdout and "possible speed-ups" in said.stdout, said.stdout


RDF = "\n".join(f"compute {x} all rdf 200\nfix {x} all ave/time 1 1 1 c_{x}[*] mode vector" for x in "ghijklmn")
PLANTED = {
    "kernels": ("pair", "kernels generic", 2.0, {"options": "kernels generic"}),
    "precision": ("pair", "double precision", 1.5, {"options": "precision fp64"}),
    "lists": ("neigh", "100 % of the steps", 1.1, {"lists": "every 1 delay 0 check no"}),
    "output": (
        "output",
        "100 % of the steps",
        1.1,
        {"more": "dump d all custom 1 d.txt id type x y z vx vy vz fx fy fz"},
    ),
    "fixes": ("modify", "fixes and computes", 1.1, {"more": RDF}),
    "skin": ("edges", "smaller neighbor skin", 1.1, {"skin": 8.0}),
}


@pytest.mark.parametrize("cause", PLANTED)
def test_planted_causes_are_named_first(cause, tmp_path):
    component, words, gain, changed = PLANTED[cause]
    first = causes(explained(tmp_path, **changed))[0]
    assert first["component"] == component and words in first["advice"] and first["gain"] > gain, first


def test_uneven_ranks(tmp_path):
    """All water on one of two ranks: the report counts it, and has the time of a message. Its advice depends on how
    long ranks wait, so it is tested without a clock, in tests/unit/test_prof_recorder.c."""
    found = explained(
        tmp_path, 2, before="processors 2 1 1", after="replicate 1 2 2\nchange_box all x final 0 40.0", steps=150
    )
    assert found["message_us"] > 0 and found["message_share_of_comm"] > 0, found
    with open(tmp_path / "r.json", encoding="utf-8") as f:
        assert json.load(f)["balance"]["atoms_imbalance"] > 1.9


def test_rates_of_another_computer(tmp_path):
    """--roof FILE: of the report's processor, kernels and precision, or an error that says what does not fit."""
    first = explained(tmp_path)
    roof, other, none = (str(tmp_path / name) for name in ("roof.json", "other.json", "none.json"))
    assert subprocess.run([PROGRAM, "check", "--roof", "--json", roof], stdout=subprocess.PIPE).returncode in (0, 3)
    with open(roof, encoding="utf-8") as f:
        data = json.load(f)
    assert {(r["kernels"], r["precision"]) for r in data["roofs"]} >= {("generic", "fp32"), ("generic", "fp64")}, data
    for path, changed in ((other, {"cpu": "another one"}), (none, {"roofs": []})):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**data, **changed}, f)

    def explain(path, code=0):
        words = [PROGRAM, "explain", str(tmp_path / "r.json"), "--json", "--roof", path]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert (done.returncode != 0) == bool(code), done
        return done.stderr if code else json.loads(done.stdout)

    again = explain(roof)
    rates = {(r["kernels"], r["precision"]): r["gflops"] for r in data["roofs"]}
    with open(tmp_path / "r.json", encoding="utf-8") as f:
        assert again["core_gflops"] == rates[json.load(f)["context"]["kernels"], "fp32"] and first["core_gflops"] > 0
    assert "was measured on processor 'another one'" in explain(other, 1)
    assert "write it by mlff check --roof --json FILE" in explain(none, 1)
    assert "No such file" in explain(str(tmp_path / "nowhere.json"), 1)
