"""Runs of LAMMPS with planted faults, and right ones, each judged by `mlff bench`: docs/statistics.md, Ensembles.

A fault is a change of the input script in.bench, so that thermostat, barostat, integrator and series are real. The
potentials are those of LAMMPS, for speed.
"""

import json
import os
import shutil

import nightly
import pytest
from test_bench import PLUGIN, ROOT, run

DECKS = os.path.join(ROOT, "benchmarks", "decks")
SILICON, ALUMINIUM = "silicon-small-{}-sw", "aluminium-small-{}-eam"
LANGEVIN = '"fix bath all langevin ${temperature} ${temperature} ${damp} ${seed} zero ${zero} tally yes"'
BAROSTAT = '"fix move all npt temp ${temperature} ${temperature} 0.1 iso ${pressure} ${pressure} 1.0"'
NVE = '"fix move all nve"\nif "${protocol} == nvt" then &'
LAST = "run         ${steps}"
PROFILE = 'if "${profile} == yes"'
# name: (case, ps, change of the script, check that must fail)
FAULTS = {
    "Berendsen thermostat": (
        SILICON.format("nvt"),
        200,
        {LANGEVIN: '"fix bath all temp/berendsen ${temperature} ${temperature} ${damp}"'},
        "kinetic energy, width",
    ),
    "Berendsen barostat": (
        SILICON.format("npt"),
        100,
        {
            BAROSTAT: '"fix move all nvt temp ${temperature} ${temperature} 0.1" '
            '"fix still all press/berendsen iso ${pressure} ${pressure} 1.0 modulus 1e6"'
        },
        "volume, fluctuation",
    ),
    "3 % too hot": (
        SILICON.format("nvt"),
        600,
        {LANGEVIN: LANGEVIN.replace("${temperature}", "$(1.03*v_temperature)")},
        "kinetic energy, mean",
    ),
    "3 % too cold": (
        SILICON.format("nvt"),
        600,
        {LANGEVIN: LANGEVIN.replace("${temperature}", "$(0.97*v_temperature)")},
        "kinetic energy, mean",
    ),
    "flying ice cube": (
        SILICON.format("nvt"),
        200,
        {
            LANGEVIN: '"fix bath all temp/berendsen ${temperature} ${temperature} 0.1"',
            PROFILE: "velocity all set 2 0 0 sum yes\n" + PROFILE,
        },
        "kinetic energy, width",
    ),
    "too long a step": (SILICON.format("nve"), 200, {PROFILE: "timestep 0.01\n" + PROFILE}, "fluctuation"),
    "frozen atoms": (
        SILICON.format("nvt"),
        200,
        {PROFILE: "group left id 1:16\nvelocity left set 0 0 0\nfix hold left setforce 0 0 0\n" + PROFILE},
        "kinetic energy, mean",
    ),
}
NOSE_HOOVER = '"unfix move" "fix move all nvt temp ${temperature} ${temperature} 0.1"'
RESCALED = '"fix bath all temp/csvr ${temperature} ${temperature} ${damp} ${seed}"'
RIGHT = {
    "NVT": (SILICON.format("nvt"), 300, {}, []),
    "NVT, aluminium": (ALUMINIUM.format("nvt"), 600, {}, []),
    "NVT, 900 K": (SILICON.format("nvt"), 300, {}, ["--temperature", "900"]),
    "NVT, another seed": (SILICON.format("nvt"), 300, {}, ["--var", "seed=99"]),
    "NVT, Nose-Hoover": (SILICON.format("nvt"), 300, {LANGEVIN: NOSE_HOOVER}, ["--var", "zero=yes"]),
    "NVT, rescaled": (SILICON.format("nvt"), 300, {LANGEVIN: RESCALED}, ["--var", "zero=yes"]),
    "NVE": (SILICON.format("nve"), 200, {}, []),
    "NVE, aluminium": (ALUMINIUM.format("nve"), 200, {}, []),
    "NPT": (SILICON.format("npt"), 300, {}, []),
    "NPT, aluminium": (ALUMINIUM.format("npt"), 600, {}, []),
}
SHORT = ("Berendsen barostat", "frozen atoms")  # of make test


def judged(folder, case, ps, changes, more=()):
    """(exit code, {check: verdict}) of a case of the suite, whose script is changed."""
    decks = folder / "decks"
    shutil.copytree(DECKS, decks)
    script = decks / "in.bench"
    text = script.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    script.write_text(text)
    steps = [*("--steps", 1000 * ps), *("--warmup", 100), *("--equilibrate", 2000), *("--repeats", 1)]
    words = [case, *steps, "--var", "damp=0.1", *more, "--decks", decks, "--build", PLUGIN, "--out", folder / "out"]
    code = run(*words)
    with open(folder / "out" / "suite.json", encoding="utf-8") as f:
        (row,) = json.load(f)["cases"]
    print(case, row["ensemble"])
    return code, {c["name"]: c["verdict"] for c in row["ensemble"]["checks"]}


@pytest.mark.parametrize("name", [n if n in SHORT else pytest.param(n, marks=nightly.only) for n in FAULTS])
def test_a_planted_fault_fails(name, tmp_path):
    case, ps, changes, check = FAULTS[name]
    code, found = judged(tmp_path, case, ps, changes)
    assert code == 3 and found[check] == "FAIL", found


@nightly.only
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_run_passes(name, tmp_path):
    case, ps, changes, more = RIGHT[name]
    code, found = judged(tmp_path, case, ps, changes, more)
    assert code == 0 and set(found.values()) == {"PASS"}, found
