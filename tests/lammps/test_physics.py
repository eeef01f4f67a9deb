"""LAMMPS in double precision against an independent implementation and derivatives of the energy."""

import json
import os
import re
import subprocess

import numpy as np
import pytest
from harness import Case, close, launch, mlff, run, same, water
from models import CONSERVATIVE as NAMES

from mlff_tools.model import modelfile, reference

FP64 = "precision fp64"
BAR = 1.6021765e6  # 1 eV/A^3 as LAMMPS has it in units metal


def test_reference(zoo, tmp_path):
    """Energy, forces and virial of a tilted box and of a cluster are those of the numpy implementation."""
    systems = {"tilted": (water(2, tilt=(1.0, 0.7, -0.9)), "p p p"), "cluster": (water((2, 2, 1)), "f f f")}
    cases = [
        Case(f"{model}_{name}", system, mlff(zoo[model], options=FP64), boundary=boundary)
        for model in NAMES
        for name, (system, boundary) in systems.items()
    ]
    results = run(cases, tmp_path)
    for model in NAMES:
        contents = modelfile.read(zoo[model])
        for name, (system, boundary) in systems.items():
            energy, forces, virial = reference.evaluate(
                contents,
                {
                    "elements": system.symbols,
                    "positions": system.x,
                    "cell": system.cell if boundary[0] == "p" else None,
                },
            )
            r, what = results[f"{model}_{name}"], f"{model}, {name}"
            close(r.energy, energy, 1e-8, f"{what}: energy")
            close(r.f, forces, 1e-8, f"{what}: force")
            close(r.pressure * r.volume / BAR, virial, 1e-7, f"{what}: virial")


def test_images(zoo, tmp_path):
    """A box smaller than the cutoff is a crystal: 27 copies of it have 27 times the energy and the same forces."""
    cell = water(1, spacing=3.6)
    for model in NAMES:
        pair = mlff(zoo[model], options=FP64)
        r = run([Case("one", cell, pair), Case("many", cell, pair, after="replicate 3 3 3")], tmp_path)
        close(r["many"].energy, 27 * r["one"].energy, 1e-8, f"{model}: energy of 27 cells")
        close(r["many"].f, np.tile(r["one"].f, (27, 1)), 1e-9, f"{model}: force")
        close(r["many"].pressure, r["one"].pressure, 1e-3, f"{model}: pressure")


def energies(case, steps, folder):
    """Energies at the start and after each of `steps`, groups of lines of a script."""
    text = case.text(str(folder), single_point=False)
    point = 'run 0 post no\nprint "ENERGY $(pe:%.17g)"\n'
    output = launch(text + point + "".join(lines + "\n" + point for lines in steps), str(folder))
    found = [float(x) for x in re.findall(r"^ENERGY (\S+)", output, re.M)]
    assert len(found) == len(steps) + 1
    return np.array(found)


@pytest.mark.parametrize("units, factor", (("metal", 1.0), ("real", 23.060549)))
@pytest.mark.parametrize("model", NAMES)
def test_forces_by_differences(zoo, tmp_path, model, units, factor):
    """Forces are the negative gradient of the energy that LAMMPS prints."""
    system, h = water(2, tilt=(0.5, -0.5, 1.0)), 3.0e-5
    case = Case("fd", system, mlff(zoo[model], options=FP64), units=units)
    analytic = run([case], tmp_path)["fd"].f
    steps, moved = [], [(atom, d) for atom in (0, 7, 14) for d in range(3)]
    for atom, d in moved:
        for distance in (h, -2 * h, h):
            shift = ["0", "0", "0"]
            shift[d] = f"{distance:.17g}"
            steps.append(
                f"group one id {atom + 1}\ndisplace_atoms one move {' '.join(shift)} units box\ngroup one delete"
            )
    e = energies(case, steps, tmp_path)
    for k, (atom, d) in enumerate(moved):
        numeric = -(e[3 * k + 1] - e[3 * k + 2]) / (2 * h)
        close(numeric, analytic[atom, d], 5e-7 * factor, f"{model}, {units}: force on atom {atom + 1}, direction {d}")


@pytest.mark.parametrize("model", NAMES)
def test_virial_by_differences(zoo, tmp_path, model):
    """The pressure tensor is the derivative of the energy with respect to strain, in a tilted box smaller than 2
    r_c."""
    system, h = water(2, tilt=(1.0, 0.7, -0.9)), 1.0e-5
    case = Case("fd", system, mlff(zoo[model], options=FP64))
    r = run([case], tmp_path)["fd"]

    def strained(component, amount):
        """change_box to the cell with (1 + strain) applied, in LAMMPS' lower triangular form."""
        strain = np.eye(3)
        strain[[0, 1, 2, 0, 0, 1][component], [0, 1, 2, 1, 2, 2][component]] += amount
        cell = system.cell @ strain.T
        words = [f"{axis} final 0 {cell[k, k]:.17g}" for k, axis in enumerate("xyz")]
        words += [f"xy final {cell[1, 0]:.17g} xz final {cell[2, 0]:.17g} yz final {cell[2, 1]:.17g}"]
        return f"change_box all {' '.join(words)} remap units box"

    e = energies(case, [strained(c, sign * h) for c in range(6) for sign in (1, -1)], tmp_path)
    for c in range(6):
        numeric = -(e[2 * c + 1] - e[2 * c + 2]) / (2 * h)
        close(numeric, r.pressure[c] * r.volume / BAR, 2e-6 * max(1, abs(numeric)), f"{model}: virial component {c}")


def test_precision_and_kernels(zoo, tmp_path):
    """fp32 agrees with fp64, and all kernel paths of this processor agree."""
    system = water(3)
    subprocess.run([os.environ["MLFF"], "check", "--json", "check.json"], cwd=tmp_path, check=True, capture_output=True)
    with open(tmp_path / "check.json", encoding="utf-8") as f:
        paths = json.load(f)["kernels"].split()
    for model in ("painn", "ani"):
        cases = [Case("fp64", system, mlff(zoo[model], options=FP64))]
        cases += [Case(path, system, mlff(zoo[model], options=f"kernels {path} device cpu")) for path in paths]
        results = run(cases, tmp_path)
        for path in paths:
            same(results[path], results["fp64"], 2e-5, f"{model}, {path}")


def test_mixed(zoo, tmp_path):
    """Products in bf16 without instructions for them, named as such: near fp64, not the numbers of fp32, on any number
    of ranks."""
    system = water(3)
    for model in ("painn", "ani"):
        pairs = {
            "fp64": FP64,
            "fp32": "device cpu kernels generic",
            "mixed": "device cpu precision mixed kernels generic",
        }
        cases = [Case(name, system, mlff(zoo[model], options=options)) for name, options in pairs.items()]
        results = run(cases, tmp_path)
        assert np.abs(results["mixed"].f - results["fp32"].f).max() > 1e-7
        results["mixed on two ranks"] = run(cases[2:], tmp_path, ranks=2)["mixed"]
        for name in ("mixed", "mixed on two ranks"):
            near, exact = results[name], results["fp64"]
            assert np.linalg.norm(near.f - exact.f) <= 1e-4 * np.linalg.norm(exact.f), f"{model}, {name}"
            close(near.energy, exact.energy, 1e-4 * len(exact.f), f"{model}, {name}: energy")
            close(near.eatom.sum(), near.energy, 1e-5 * len(exact.f), f"{model}, {name}: energies of atoms")
