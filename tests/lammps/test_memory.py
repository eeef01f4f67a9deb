"""The memory forecast against the accounting of LAMMPS and the process, and its errors."""

import re

import harness
import models
import pytest
from harness import LMP, Case, fails, launch, mlff, water

MIB = 2.0**20 / 1.0e6  # LAMMPS prints MB of 2^20 bytes


def dynamics(name, folder, pair, n, run):
    """A deck of 3 n^3 atoms that prints the memory of the process before and after `run`."""
    case = Case(
        name,
        water(n),
        pair,
        after="info memory\nvelocity all create 300 1\nfix 1 all nve\ntimestep 2e-5\n"
        f"neighbor 1.0 bin\nneigh_modify every 4 delay 0 check no\nrun {run}\ninfo memory\n",
    )
    return case.text(str(folder), single_point=False)


def numbers(output):
    """MB: (LAMMPS, style first, style later) of the largest rank, accounted, growth of the resident set."""
    lammps = re.search(r"LAMMPS now: +(?:[\d.]+ to )?([\d.]+) ", output)
    style = re.search(
        r"this style: +(?:[\d.]+ to )?([\d.]+) after the first step, (?:[\d.]+ to )?([\d.]+) when", output
    )
    assert lammps and style, output[-3000:]
    accounted = float(re.search(r"Per MPI rank memory allocation .* \| ([\d.]+) Mbytes", output).group(1)) * MIB
    resident = [float(x) * MIB for x in re.findall(r"Maximum resident set size: ([\d.]+)", output)]
    return float(lammps.group(1)), float(style.group(1)), float(style.group(2)), accounted, resident[-1] - resident[0]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Models as wide as real ones, so that their arrays dominate the memory."""
    folder = tmp_path_factory.mktemp("wide")
    return {
        "painn": models.painn(str(folder / "painn"), n_features=64),
        "deep": models.painn(str(folder / "deep"), n_features=32, n_interactions=3, kind="gaussian"),
        "ani": models.ani(str(folder / "ani")),
    }


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ["painn", "deep", "ani"])
def test_forecast(wide, tmp_path, name, ranks):
    """Within 15 % of the accounting of LAMMPS after the first step, and never less than the process uses."""
    output = launch(dynamics(name, tmp_path, mlff(wide[name], options="device cpu"), 11, 0), str(tmp_path), ranks)
    lammps, first, later, accounted, resident = numbers(output)
    print(name, ranks, lammps, first, later, accounted, resident)
    assert abs(lammps + first - accounted) <= 0.15 * accounted
    assert first <= later <= 1.25 * first
    assert resident <= 1.15 * (lammps + first)
    assert output.count("memory forecast") == 1


def test_forecast_of_a_run(wide, tmp_path):
    """After new neighbor lists the style uses the memory that was forecast for grown arrays."""
    output = launch(
        dynamics("run", tmp_path, mlff(wide["painn"], options="device cpu"), 8, 12) + "run 0\n", str(tmp_path)
    )
    builds = sum(int(n) for n in re.findall(r"Neighbor list builds = (\d+)", output))
    assert builds >= 3, output[-2000:]
    lammps, first, later, _, _ = numbers(output)
    accounted = [float(x) * MIB for x in re.findall(r"memory allocation .* \| ([\d.]+) Mbytes", output)]
    assert abs(lammps + first - accounted[0]) <= 0.15 * accounted[0]
    assert abs(lammps + later - accounted[1]) <= 0.15 * accounted[1]


def test_precision(wide, tmp_path):
    """The forecast for fp64 is larger than that for fp32."""
    first = {}
    for precision in ("fp32", "fp64"):
        pair = mlff(wide["painn"], options=f"device cpu precision {precision}")
        first[precision] = numbers(launch(dynamics("p", tmp_path, pair, 6, 0), str(tmp_path)))[1]
    assert 1.5 * first["fp32"] < first["fp64"] < 2.1 * first["fp32"]


def limit(folder, monkeypatch, kilobytes):
    """Limits the address space of later LAMMPS processes."""
    script = folder / "limited.sh"
    script.write_text(f'#!/bin/sh\nulimit -v {kilobytes} && exec {LMP} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(harness, "LMP", str(script))


@pytest.mark.parametrize("ranks, n, kilobytes", [(1, 18, 400000), (2, 22, 500000)])
def test_refusal(tmp_path, monkeypatch, ranks, n, kilobytes):
    """A system that does not fit is an error before the first step, with the size that fits, which runs."""
    limit(tmp_path, monkeypatch, kilobytes)
    model = models.painn(str(tmp_path / "huge"), n_features=256)
    text = fails(dynamics("large", tmp_path, mlff(model, options="device cpu"), n, 0), tmp_path, ranks)
    found = re.search(
        r"not enough memory for one rank: its (\d+) atoms need [\d.]+ MB more, but [\d.]+ MB are free "
        r"\(the limit of address space \(ulimit -v\)\)\. About (\d+) atoms fit there",
        text,
    )
    assert found, text
    atoms, fit = int(found.group(1)), int(found.group(2))
    assert abs(atoms - 3 * n**3 / ranks) < 0.02 * atoms and 0 < fit < atoms
    if ranks == 1:
        side = int((fit / 3) ** (1 / 3))
        launch(dynamics("fits", tmp_path, mlff(model, options="device cpu"), side, 0), str(tmp_path))


def test_empty_ranks(wide, tmp_path):
    """A rank without atoms has a forecast too."""
    system = water((6, 1, 1))
    system.box[0] *= 3.0
    case = Case("empty", system, mlff(wide["painn"]), before="processors 2 1 1", after="run 0\n")
    output = launch(case.text(str(tmp_path), single_point=False), str(tmp_path), 2)
    assert re.search(r"memory forecast for 18 atoms on 2 ranks", output)
