"""The decks of benchmarks/decks in the combinations that their tables promise, and what they refuse."""

import os
import re

import nightly
import numpy as np
import processes
import pytest

from mlff_tools.model.lammps import environment, find_lmp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FOLDER = os.path.join(ROOT, "benchmarks", "decks")
MODELS = os.path.join(ROOT, "models")
UNIVERSAL, MOLECULES = (os.path.join(MODELS, f"{n}.yaml") for n in ("nequix-oam-1-pft", "water-benzene-student"))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
SIZES, PROTOCOLS = ("small", "medium", "large"), ("nve", "nvt", "npt")
MATERIALS = ("benzene", "silicon", "gaas", "nacl", "aluminium", "copper", "iron")


def table():
    """System -> (atoms of each size, student, teacher, reference potentials), from the comment of in.bench."""
    with open(os.path.join(FOLDER, "in.bench"), encoding="utf-8") as f:
        rows = re.findall(
            r"^# \| (\w+) +" + 3 * r"\| (\d+) atoms +" + 2 * r"\| ([\w-]+) +" + r"\|([^|]*)\|$", f.read(), re.M
        )
    potentials = {"sw", "snap", "pod", "eam", "airebo"}
    return {
        r[0]: ([int(n) for n in r[1:4]], r[4], r[5], [w for w in re.findall(r"\w+", r[6]) if w in potentials])
        for r in rows
    }


TABLE = table()
CASES = (
    [(s, "small", p, "auto") for s in TABLE for p in PROTOCOLS if (s, p) != ("benzene_gas", "npt")]
    + [(s, z, "nve", "auto") for s in TABLE for z in SIZES[1:]]
    + [(s, "small", "nve", p) for s in TABLE for p in TABLE[s][3]]
)


def run(deck, place, **variables):
    """(exit code, output) of a deck with 2 steps, run in `place`."""
    variables = {"plugin": PLUGIN, "models": MODELS, "folder": FOLDER, "steps": 2, "equilibrate": 2, **variables}
    command = [find_lmp(), "-in", os.path.join(FOLDER, deck), "-log", "none", "-nocite"]
    for name, value in variables.items():
        command += ["-var", name, str(value)]
    done = processes.merged(command, cwd=place, env=environment(find_lmp()), timeout=300)
    return done.returncode, done.stdout


def test_table():
    names = ["water", "benzene_gas", "benzene", "silicon", "gaas", "nacl", "aluminium", "copper", "iron", "tantalum"]
    assert list(TABLE) == names
    for system, (atoms, *_) in TABLE.items():
        for n, (low, high) in zip(atoms, ((32, 64), (128, 256), (512, 1024))):
            assert low <= n <= high, f"{system}: {n} atoms are not between {low} and {high}"


@pytest.mark.parametrize("system,size,protocol,potential", CASES)
def test_combination(system, size, protocol, potential, tmp_path):
    code, output = run("in.bench", tmp_path, system=system, size=size, protocol=protocol, potential=potential)
    assert code == 0, output[-3000:]
    loops = re.findall(r"Loop time of \S+ on \d+ procs for (\d+) steps with (\d+) atoms", output)
    assert loops[-1] == ("2", str(TABLE[system][0][SIZES.index(size)])), loops
    chosen = re.search(r"benchmark: system (\w+), size (\w+), protocol (\w+), potential (\w+)", output)
    student, references = TABLE[system][1], TABLE[system][3]
    expected = potential if potential != "auto" else references[0] if student == "none" and references else "mlff"
    assert chosen and chosen.groups() == (system, size, protocol, expected), output[:2000]


@pytest.mark.parametrize("system", MATERIALS)
@pytest.mark.parametrize(
    "size,protocol",
    [
        ("small", "nve"),
        ("medium", "npt"),
        *(pytest.param(*row, marks=nightly.only) for row in (("small", "nvt"), ("small", "npt"), ("large", "nve"))),
    ],
)
def test_universal_model(system, size, protocol, tmp_path):
    """The shipped model of 89 elements runs all materials; from the boxes of the decks nothing flies apart."""
    code, output = run(
        "in.bench", tmp_path, system=system, size=size, protocol=protocol, potential="mlff", model=UNIVERSAL, thermo=1
    )
    assert code == 0, output[-3000:]
    loops = re.findall(r"Loop time of \S+ on \d+ procs for (\d+) steps with (\d+) atoms", output)
    assert loops[-1] == ("2", str(TABLE[system][0][SIZES.index(size)])), loops
    kelvin = [float(w.split()[1]) for w in output.splitlines() if re.match(r" +[012] +\d", w)]
    assert len(kelvin) >= 5 and 100 < min(kelvin) <= max(kelvin) < 700, kelvin


def test_lattice_constant(tmp_path):
    code, output = run("in.bench", tmp_path, system="silicon", protocol="nve", lattice=5.5, profile="no")
    assert code == 0, output[-3000:]
    rows = [w.split() for w in output.splitlines() if re.match(r" +[012] +\d", w)]
    assert rows and float(rows[0][-1]) == pytest.approx((2 * 5.5) ** 3), rows


@pytest.mark.parametrize(
    "change,text",
    [
        ({"system": "gold"}, "system is gold"),
        ({"size": "tiny"}, "size is tiny"),
        ({"protocol": "nvx"}, "protocol is nvx"),
        ({"potential": "lj"}, "potential is lj: for water"),
        ({"system": "benzene_gas", "protocol": "npt"}, "benzene_gas has no npt"),
        (
            {"system": "tantalum", "potential": "mlff"},
            f"there is not a model file {MODELS}/none.yaml (student of tantalum: none): give one",
        ),
        ({"model": "none.yaml"}, "there is not a model file none.yaml (student of water: water-xs): give one with"),
    ],
)
def test_refuses(change, text, tmp_path):
    code, output = run("in.bench", tmp_path, **change)
    assert code != 0 and f"ERROR: {text}" in output, output[-2000:]


def replicas(path):
    """Samples of in.replicas' output: step -> rows [replica, potential, kinetic, temperature]."""
    lines = [line.split() for line in open(path, encoding="ascii") if not line.startswith("#")]
    samples, at = {}, 0
    while at < len(lines):
        step, n = map(int, lines[at])
        samples[step] = np.array(lines[at + 1 : at + 1 + n], float)
        at += 1 + n
    return samples


def test_replicas_are_independent(tmp_path):
    """Each replica keeps its own energy, although its kinetic part comes and goes: nothing passes between them."""
    code, output = run(
        "in.replicas",
        tmp_path,
        model=MOLECULES,
        nx=2,
        ny=2,
        nz=2,
        out=tmp_path / "out",
        protocol="nve",
        equilibrate=100,
        steps=400,
        sample=40,
        timestep=0.00025,
    )
    assert code == 0, output[-3000:]
    series = np.array(list(replicas(tmp_path / "out").values()))  # [samples, replicas, columns]
    kinetic, total = series[:, :, 2], series[:, :, 1] + series[:, :, 2]
    assert series.shape == (11, 8, 4)
    assert np.ptp(kinetic, axis=0).min() > 0.05, "eV"
    assert np.ptp(total, axis=0).max() < 0.005, np.ptp(total, axis=0)


def test_replica_energies_add_up(tmp_path):
    """At every step, the first too: each copy has the energy of one molecule, and all have that of the thermo output.
    Sixteen copies are sorted by LAMMPS before a run."""
    code, output = run(
        "in.replicas", tmp_path, model=MOLECULES, out=tmp_path / "out", steps=30, equilibrate=200, sample=1, thermo=1
    )
    assert code == 0, output[-3000:]
    samples = replicas(tmp_path / "out")
    assert list(samples) == list(range(31)) and all(s.shape == (16, 4) for s in samples.values())
    energies = np.array([s[:, 1] for s in samples.values()])
    assert np.ptp(energies) < 2.0, "eV; an atom counted for another copy is 38 eV and more"
    lines = [line.split() for line in output.splitlines() if re.match(r"\s+\d+\s+[\d.]+\s+-\d", line)][-31:]
    thermo = np.array([float(line[2]) for line in lines])
    assert np.abs(energies.sum(1) - thermo).max() < 1e-2, "thermo output has three decimals"
    assert len(np.unique(samples[10][:, 2])) == 16, "replicas with velocities of their own"
