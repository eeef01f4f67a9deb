"""LAMMPS' own tests of force styles (unittest/force-styles of its sources, unmodified): test_pair_style for pair_style
mlff and mlff/kk with references in numpy, and test_fix_timestep for fix mlffprof with LAMMPS' own references.

test_pair_style has newton on and off, restart files, data files, per-atom energies, four steps of dynamics, and what
`pair_modify nofdotr`, run_style respa and Kokkos change.
"""

import json
import os
import re

import models
import numpy as np
import pytest
from harness import MASSES, water
from testers import start

from mlff_tools.model import modelfile, reference

TESTERS, TREE = "/opt/lammps/testers", "/opt/lammps/tree/unittest/force-styles/tests"
FTM2V = 1 / 1.0364269e-4  # of units metal, as LAMMPS has it
DT, STEPS = 1e-4, 4  # ps; those of the tester
INPUT = """variable newton_pair index on
variable newton_bond index on
variable input_dir   index .
variable data_file   index ${input_dir}/data.water
variable pair_style  index 'zero 8.0'
units                metal
atom_style           atomic
atom_modify          map array
newton               ${newton_pair} ${newton_bond}
timestep             1e-4
pair_style           ${pair_style}
read_data            ${data_file}
"""

pytestmark = pytest.mark.skipif(
    not os.path.isdir(TESTERS), reason=f"{TESTERS} is not there: scripts/kokkos_root.sh make"
)


def numbers(*rows):
    return "".join("  " + " ".join(f"{x:.16e}" for x in row) + "\n" for row in rows)


def block(text):
    return "! |2\n" + "".join(f"  {line}\n" for line in text.splitlines()) if text else '! ""\n'


def dynamics(path, system, velocities):
    """Energy, forces and virial at the start and after four steps of velocity Verlet, all in numpy."""
    model, x, v = modelfile.read(path), system.x.copy(), velocities.copy()
    point = lambda: reference.evaluate(model, {"elements": system.symbols, "positions": x, "cell": system.cell})
    kick = 0.5 * DT * FTM2V / np.array([MASSES[e] for e in system.symbols])[:, None]
    found = [point()]
    for _ in range(STEPS):
        v += kick * found[-1][1]
        x += DT * v
        found.append(point())
        v += kick * found[-1][1]
    return found[0], found[-1]


def results(tester, name, folder, tests="*"):
    """{test: (status, failures)} of a tester of LAMMPS."""
    words = [os.path.join(TESTERS, tester), name, "-d", str(folder), "-v"]
    done = start(words, folder, GTEST_OUTPUT=f"json:{folder}/found.json", GTEST_FILTER=tests)
    with open(folder / "found.json", encoding="utf-8") as f:
        (suite,) = json.load(f)["testsuites"]
    found = {t["name"]: (t["result"], [x["failure"] for x in t.get("failures", ())]) for t in suite["testsuite"]}
    assert (done.returncode == 0) == all(not failed for _, failed in found.values()), done.stdout[-3000:]
    return found


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))


# A test of the tester, keywords of pair_style, tests that are left out. The first ends with run_style respa, which
# needs an inner model; Kokkos has none.
TESTS = {"plain": ("inner {local}", "kokkos_omp"), "kokkos_omp": ("", "plain")}


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("name", models.CONSERVATIVE)  # the tester asks for energies of atoms, which Orb has not
def test_pair_style(name, test, zoo, tmp_path):
    keywords, other = TESTS[test]
    system = water(2, tilt=(1.0, 0.7, -0.9))
    velocities = 5.0 * np.random.default_rng(3).standard_normal(system.x.shape)  # A/ps
    lines = [f"{k + 1} " + " ".join(f"{x:.17g}" for x in v) for k, v in enumerate(velocities)]
    (tmp_path / "data.water").write_text(system.data() + "\nVelocities\n\n" + "\n".join(lines) + "\n")
    (tmp_path / "in.water").write_text(INPUT)
    begin, end = dynamics(zoo[name], system, velocities)
    text = f"---\nlammps_version: any\ntags:\ndate_generated: today\nepsilon: 1e-9\nskip_tests: {other}\n"
    text += "prerequisites: " + block("pair mlff")
    text += 'pre_commands: ! ""\npost_commands: ! ""\ninput_file: in.water\n'
    text += f"pair_style: mlff precision fp64 {keywords.format(**zoo)}\n"
    text += f"pair_coeff: {block(f'* * {zoo[name]} O H')}"
    text += f'extract: ! ""\nnatoms: {len(system.x)}\n'
    for state, (energy, forces, virial) in (("init", begin), ("run", end)):
        text += f"{state}_vdwl: {energy:.16e}\n{state}_coul: 0\n{state}_stress: {block(numbers(virial))}"
        text += f"{state}_forces: " + block("".join(f"{k + 1} {numbers(f)}" for k, f in enumerate(forces)))
    (tmp_path / "pair.yaml").write_text(text + "...\n")
    found = results("test_pair_style", "pair.yaml", tmp_path)
    assert found[test] == ("COMPLETED", []), "\n".join(found[test][1])
    assert not any(failed for _, failed in found.values()), found


@pytest.mark.parametrize("of", ("nve", "nvt", "npt_iso", "nph"))
def test_fix_timestep(of, tmp_path):
    """Trajectories stored by the LAMMPS developers are reproduced to all digits with fix mlffprof. The Kokkos case is
    left out: it crashes without the fix too, because bonds have no Kokkos variants in this LAMMPS."""
    with open(os.path.join(TREE, f"fix-timestep-{of}.yaml"), encoding="utf-8") as f:
        text = f.read()
    text, n = re.subn(r"(post_commands: ! \|\n)", r"\1  fix prof all mlffprof 1 warmup 0 file prof.json\n", text)
    assert n == 1
    (tmp_path / "fix.yaml").write_text(text)
    for name in os.listdir(TREE):
        if name.endswith((".fourmol", ".metal")):
            os.symlink(os.path.join(TREE, name), tmp_path / name)
    found = results("test_fix_timestep", "fix.yaml", tmp_path, "*.plain")
    assert found["plain"] == ("COMPLETED", []), "\n".join(found["plain"][1])
    assert not any(failed for _, failed in found.values()), found
    assert json.loads((tmp_path / "prof.json").read_text())["n_steps"] >= 1
