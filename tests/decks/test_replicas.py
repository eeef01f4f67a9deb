"""Replicas: in one run with thermostats of their own, on a band (neb), and exchanging temperatures (temper)."""

import os
import re

import numpy as np
import processes

from mlff_tools.model.lammps import environment, find_lmp, find_mpiexec

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FOLDER = os.path.join(ROOT, "benchmarks", "decks")
MODEL = os.path.join(ROOT, "models", "water-benzene-student.yaml")
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))


def run(deck, place, partitions, **variables):
    """(exit code, what was printed for all partitions together) of a deck with one rank for each partition."""
    words = [find_lmp(), "-in", os.path.join(FOLDER, deck), "-nocite"]
    if partitions > 1:
        words = [find_mpiexec(find_lmp()), "-n", str(partitions), *words, "-partition", f"{partitions}x1"]
    for name, value in {"plugin": PLUGIN, "model": MODEL, "folder": FOLDER, **variables}.items():
        words += ["-var", name, str(value)]
    done = processes.merged(words, cwd=place, env=environment(find_lmp()), timeout=300)
    return done.returncode, done.stdout


def numbers(text):
    """The numbers of the table in `text`."""
    lines = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s", line)]
    return [[float(word) for word in line] for line in lines]


def test_neb_finds_the_barrier(tmp_path):
    """Half a turn of a water molecule: the ends are the same but for the names of two hydrogens, so both barriers
    are."""
    code, output = run("in.neb", tmp_path, 3, steps=20, relax=100)
    assert code == 0, output[-3000:]
    rows = numbers(output)
    first, last = rows[0], rows[-1]
    forward, back = last[6], last[7]
    assert 0.2 < forward < first[6], "eV; the band relaxes"
    assert abs(forward - back) < 0.02 * forward, (forward, back)
    energies = np.array(last[10::2])
    assert len(energies) == 3 and abs(energies[1] - energies[0] - forward) < 2e-3, last
    assert all((tmp_path / f"path.{k}.lammpstrj").exists() for k in (1, 2, 3))


def test_temper_exchanges(tmp_path):
    """Each attempt leaves every temperature with one replica; some succeed; energies are those of the model."""
    code, output = run("in.temper", tmp_path, 3, steps=200, swap=20)
    assert code == 0, output[-3000:]
    rows = np.array(numbers(output))
    assert rows[:, 0].tolist() == list(range(0, 201, 20))
    assert (np.sort(rows[:, 1:], axis=1) == np.arange(3)).all(), "a temperature was lost"
    assert (rows[1:, 1:] != rows[:-1, 1:]).any(), "no exchange was accepted"
    text = (tmp_path / "log.lammps.1").read_text(encoding="utf-8")
    energies = [float(line.split()[2]) for line in text.splitlines() if re.match(r"\s+\d+\s+[\d.]+\s+-63\d\d\.", line)]
    assert len(energies) >= 11 and np.ptp(energies) > 0.01, text[-2000:]


def test_one_partition_is_refused(tmp_path):
    for deck, text in (("in.neb", "there are 1 replicas"), ("in.temper", "there is one replica")):
        code, output = run(deck, tmp_path, 1)
        assert code != 0 and text in output, output[-2000:]


def test_replicas_have_thermostats_of_their_own(tmp_path):
    """Eight molecules in one run, from 150 to 850 K: each follows its own temperature."""
    code, output = run(
        "in.replicas",
        tmp_path,
        1,
        nx=2,
        ny=2,
        nz=2,
        temperature=150,
        hottest=850,
        damp=0.02,
        steps=400,
        equilibrate=100,
        sample=5,
        out=tmp_path / "out",
        timestep=0.00025,
    )
    assert code == 0, output[-3000:]
    lines = (tmp_path / "out").read_text(encoding="ascii").splitlines()
    rows = np.array([line.split() for line in lines if len(line.split()) == 4 and line[0] != "#"], float)
    measured = rows[:, 3].reshape(-1, 8)[20:].mean(axis=0)
    wanted = np.linspace(150, 850, 8)
    assert np.corrcoef(measured, wanted)[0, 1] > 0.9, measured
    assert measured[0] < 300 < 600 < measured[-1], measured
    code, output = run("in.replicas", tmp_path, 1, hottest=600, protocol="nve")
    assert code != 0 and "temperatures need protocol nvt" in output
