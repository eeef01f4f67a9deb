"""Uncertainties of atoms from the features of the last layer: every architecture, ranks, fix pair, thresholds, domain.

What they must be follows from the features that the Python package gives and from numpy."""

import json

import numpy as np
import pytest
from harness import Case, close, fails, launch, mlff, read_dump, water

from mlff import Model
from mlff_tools.certify import uncertainty
from mlff_tools.model import modelfile

KINDS = ("painn", "gaussian", "ani", "nequix", "sevennet", "nequip", "mace", "mace_mpa", "tensornet", "local_tensornet")
N_FRAMES = 40


def box(seed=5, spacing=3.1):
    return water((2, 2, 3), seed=seed, spacing=spacing, tilt=(0.4, -0.3, 0.5))


def elements(system):
    return ["OH"[t - 1] for t in system.types]


def frame(seed):
    system = box(seed, 3.0 + 0.005 * seed)
    cell = np.array(system.cell)
    return {"elements": elements(system), "positions": system.x, "cell": cell, "forces": None, "info": {}}


@pytest.fixture(scope="module")
def sure(zoo, tmp_path_factory):
    """kind -> path of the same model with a block uncertainty."""
    folder, made = tmp_path_factory.mktemp("sure"), {}

    def get(kind):
        if kind not in made:
            made[kind] = str(folder / f"{kind}.yaml")
            uncertainty.add(zoo[kind], [frame(k) for k in range(N_FRAMES)], made[kind])
        return made[kind]

    return get


def expected(path, system):
    """Uncertainties from features and matrices, by numpy."""
    found = Model(path, precision="fp64", domain="ignore", self_test=False)
    rows = found.evaluate(elements(system), system.x, np.array(system.cell), features=True)
    tensors = modelfile.read(path)[1]
    matrices = {e: tensors[f"uncertainty.{e}"].astype(float) for e in "HO"}
    each = [uncertainty.distance(matrices[e], f[None])[0] for e, f in zip(elements(system), rows.features)]
    values = np.array(each)
    close(rows.uncertainties, values, 1e-9 * values.max(), "uncertainties in Python")
    return values


def deck(folder, path, more, options="precision fp64", system=None):
    return Case("deck", system or box(), mlff(path, options=options)).text(str(folder), single_point=False) + more


EACH = """
fix each all pair 1 mlff uncertainty 1
run 0
write_dump all custom each.dump id f_each modify sort id format float %.15g
"""


@pytest.mark.parametrize("kind", KINDS)
def test_each_atom(sure, tmp_path, kind):
    """One, two and four ranks give the numbers of Python; so do single and mixed precision."""
    values = expected(sure(kind), box())
    for ranks, options, bar in ((1, "fp64", 1e-8), (2, "fp64", 1e-8), (4, "fp64", 1e-8), (2, "fp32", 2e-3)):
        launch(deck(tmp_path, sure(kind), EACH, f"precision {options}"), str(tmp_path), ranks)
        close(read_dump(tmp_path / "each.dump")[:, 1], values, bar * values.max(), f"{ranks} ranks, {options}")


def test_forces_are_unchanged(zoo, sure):
    """The block adds nothing to energies and forces."""
    system = box()
    for kind in ("painn", "ani", "tensornet"):
        a, b = (
            Model(p, self_test=False, domain="ignore").evaluate(elements(system), system.x, np.array(system.cell))
            for p in (zoo[kind], sure(kind))
        )
        assert a.energy == b.energy and (a.forces == b.forces).all() and a.uncertainties is None


def test_thresholds(sure, tmp_path):
    """The keywords of the model deviation apply to the uncertainty of one network."""
    values = expected(sure("painn"), box())
    most, worst = values.max(), int(values.argmax()) + 1
    below, above = 0.99 * most, 1.01 * most
    options = "precision fp64 out_file u.out devi_warn {0} devi_dump {0} dump_file u.dump"
    quiet = launch(deck(tmp_path, sure("painn"), "run 0\n", options.format(above)), str(tmp_path))
    assert "uncertainty of atom" not in quiet and not (tmp_path / "u.dump").exists()
    said = launch(deck(tmp_path, sure("painn"), "run 0\n", options.format(below)), str(tmp_path), 2)
    assert f"WARNING: pair_style mlff: in step 0 the uncertainty of atom {worst} is" in said
    row = np.loadtxt(tmp_path / "u.out")
    assert (row[1:4] == 0).all()
    close(row[4:7], [values.max(), values.min(), values.mean()], 1e-6 * most, "u.out")
    close(read_dump(tmp_path / "u.dump")[:, 5], values, 1e-6 * most, "u.dump")
    for ranks in (1, 2):
        error = fails(deck(tmp_path, sure("painn"), "run 0\n", f"precision fp64 devi_stop {below}"), tmp_path, ranks)
        assert f"uncertainty of atom {worst} is" in error and "devi_stop" in error


def test_domain(sure, tmp_path):
    """`domain warn` and `domain stop` use the limit of the block; frames like those of the block are inside."""
    far = box(spacing=2.2)
    values = expected(sure("painn"), far)
    assert values.max() > 1.5
    run = f"fix prof all mlffprof 100 file {tmp_path}/p.json\nrun 0\n"
    reported = lambda: json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["outside"]["uncertainty"]
    inside = launch(deck(tmp_path, sure("painn"), run, system=box(3, 3.03)), str(tmp_path))
    assert "uncertainty in" not in inside and "(relative)" not in inside and reported() == 0
    said = launch(deck(tmp_path, sure("painn"), run, system=far), str(tmp_path), 2)
    assert (
        f"uncertainty {values.max():.4g} (relative) of atom {int(values.argmax()) + 1}" in said and "[mlff-42]" in said
    )
    assert reported() == 1
    assert "uncertainty" in fails(deck(tmp_path, sure("painn"), run, "domain stop", far), tmp_path)


def test_atoms_of_other_styles(sure, tmp_path):
    """In hybrid, thresholds and file count the atoms of the model alone, in the same way on several ranks."""
    rows = []
    for ranks in (1, 2, 4):
        path = sure("tensornet")
        style = "pair_style hybrid mlff precision fp64 out_file u.out domain ignore lj/cut 2.0\n"
        style += f"pair_coeff * * mlff {path} O H NULL\npair_coeff * 3 lj/cut 0.0 1.0"
        system = box()
        system.types, system.elements = np.where(np.arange(36) % 5 == 1, 3, system.types), ["O", "H", "H"]
        launch(Case("deck", system, style).text(str(tmp_path), single_point=False) + "run 0\n", str(tmp_path), ranks)
        rows.append(np.loadtxt(tmp_path / "u.out"))
    assert rows[0][5] > 0
    close(rows[1][4:], rows[0][4:], 1e-6 * rows[0][4], "two ranks")
    close(rows[2][4:], rows[0][4:], 1e-6 * rows[0][4], "four ranks")


def test_minimized(sure, tmp_path):
    """The last structure of a minimization is checked."""
    far = box(spacing=2.6)
    text = deck(tmp_path, sure("painn"), "min_style sd\nminimize 0 1e-9 3 3\n", system=far)
    said = launch(text, str(tmp_path))
    assert "uncertainty" in said.split("Step")[-1]


def test_refused(zoo, sure, tmp_path):
    error = fails(deck(tmp_path, zoo["painn"], "run 0\n", "devi_warn 1"), tmp_path)
    assert "has no uncertainty: the file has no block uncertainty" in error and "[mlff-44]" in error
    error = fails(deck(tmp_path, zoo["painn"], EACH), tmp_path)
    assert "uncertainty" in error
    error = fails(deck(tmp_path, sure("ani"), EACH, "members 0:1"), tmp_path)
    assert "uncertainty" in error
