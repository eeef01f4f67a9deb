"""Structures unlike those of a training, and the table of a certificate about them."""

import statistics
import types

import numpy as np
import pytest

from mlff_tools.certify import detection, novel, own_runs, systems, uncertainty
from mlff_tools.certify.work import NotMeasured
from mlff_tools.train import lattices
from mlff_tools.train.build import build

SETTINGS = {"temperature": 300.0, "pressure": 1.0, "atoms": 64}


def crystal(**keys):
    return systems.crystal({}, lattices.crystal(**keys), SETTINGS, "crystal")


def per_atom(frame):
    return abs(np.linalg.det(frame["cell"])) / len(frame["elements"])


def neighbors(frame):
    """Numbers of neighbors of each atom at the shortest distance, which no cell here halves."""
    d = np.linalg.norm(novel.vectors(frame["positions"], frame["positions"], frame["cell"]), axis=-1)
    np.fill_diagonal(d, np.inf)
    return (d < 1.01 * d.min()).sum(1)


def test_surfaces():
    """Neighbors that atoms of the two outer layers of fcc lack: 4 at (100), 3 at (111), 5 and one below at (110)."""
    unit = lattices.crystal("fcc", ["Al"], 4.05)
    for name, lacking in (("100", [4]), ("111", [3]), ("110", [5, 1])):
        slab = novel.slab(unit, novel.FACES[name])
        found = 12 - neighbors(slab)
        assert sorted({*found.tolist()} - {0}) == sorted(lacking), name
        assert (found == lacking[0]).sum() * 2 <= len(found) and np.linalg.norm(slab["cell"][2]) > 19
    assert len(novel.cut(unit, novel.FACES["111"])["elements"]) == 4 * 6
    with_vacuum = novel.slab(lattices.crystal("hcp", ["Mg"], [3.2, 5.2]), novel.FACES["110"])
    assert detection._closest(with_vacuum) == pytest.approx(3.1896, abs=1e-3)


def test_other_lattices():
    """Each has the volume of the crystal, and the crystal itself is not among them."""
    aluminium = crystal(lattice="fcc", elements=["Al"], constant=4.05)
    found = dict(novel.other_lattices(aluminium.frame))
    assert list(found) == ["sc", "bcc", "hcp", "diamond", "beta-tin"]
    assert all(per_atom(f) == pytest.approx(per_atom(aluminium.frame)) for f in found.values())
    assert set(neighbors(found["hcp"])) == {12}
    salt = crystal(lattice="rocksalt", elements=["Na", "Cl"], constant=5.64)
    assert [name for name, _ in novel.other_lattices(salt.frame)] == ["zincblende", "cscl"]
    assert novel.other_lattices({**salt.frame, "elements": ["Na"] * 63 + ["Cl"]}) == []
    for ratio, near in ((1.623, True), (1.886, False)):  # Mg; Cd, whose nearest neighbors are 6
        metal = crystal(lattice="hcp", elements=["Mg"], constant=[3.21, ratio * 3.21])
        assert ("hcp" not in dict(novel.other_lattices(metal.frame))) == near


def test_names_of_surfaces():
    """Cubic indices only where the cell is cubic."""
    names = lambda unit: [name for name, _ in novel.surfaces(unit)]
    assert names(lattices.crystal("fcc", ["Al"], 4.05)) == ["surface 100", "surface 110", "surface 111"]
    own = [f"surface ({k}) of the cell" for k in ("0 0 1", "1 1 0", "1 1 1")]
    assert names(lattices.crystal("hcp", ["Mg"], [3.21, 5.21])) == own
    long = lattices.crystal("fcc", ["Al"], 4.05)
    assert names({**long, "cell": long["cell"] * [[1.0], [1.0], [1.02]]}) == own


def test_large_slabs_are_left_out():
    """Those of a cell of 500 atoms have more than 2000."""
    unit = lattices.crystal("fcc", ["Al"], 4.05, (5, 5, 5))
    assert [name for name, _ in novel.surfaces(unit)] == ["surface 100", "surface 110"]
    assert novel.surfaces(unit, most=499) == []


def test_defects():
    found = dict(novel.of_crystal(crystal(lattice="fcc", elements=["Al"], constant=4.05)))
    whole = len(found["strained +5 %"]["elements"])
    assert [len(found[k]["elements"]) - whole for k in ("vacancy", "divacancy", "interstitial Al")] == [-1, -2, 1]
    lattice_frame = crystal(lattice="fcc", elements=["Al"], constant=4.05).frame
    left = {tuple(x) for x in found["divacancy"]["positions"].round(3)}
    gone = np.array([x for x in lattice_frame["positions"].round(3) if tuple(x) not in left])
    apart = np.linalg.norm(novel.vectors(gone[:1], gone[1:], lattice_frame["cell"]))
    assert apart == pytest.approx(4.05 / 2**0.5, abs=0.01)
    salt = dict(novel.vacancies(crystal(lattice="rocksalt", elements=["Na", "Cl"], constant=5.64).frame))
    assert list(salt) == ["vacancy Cl", "vacancy Na", "divacancy"]
    counts = {name: [f["elements"].count(e) for e in ("Na", "Cl")] for name, f in salt.items()}
    (n, m), whole = counts["vacancy Na"], counts["vacancy Cl"][0]
    assert (n, m) == (whole - 1, whole) and counts["divacancy"] == [whole - 1, whole - 1]
    hole = detection._closest(found["interstitial Al"])
    assert 1.7 < hole <= 4.05 / 2  # the octahedral hole
    assert per_atom(found["strained +5 %"]) / per_atom(found["strained -5 %"]) == pytest.approx((1.05 / 0.95) ** 3)


def test_molecules_are_whole():
    """Also where the periodic boundary cuts them; and molecules of other elements are left out."""
    frame = build({"liquid": {"molecules": {"water": 8}, "density": 1.0}, "seed": 1}, "here")[0]
    inside = frame["positions"] @ np.linalg.inv(frame["cell"])
    cut = {**frame, "positions": (inside - np.floor(inside)) @ frame["cell"]}
    assert np.abs(cut["positions"] - frame["positions"]).max() > 1
    found = dict(novel.of_liquid(systems.System("water", "liquid", cut, 300, 1)))
    assert list(found) == ["strained -5 %", "strained +5 %", "cluster in vacuum"]
    vacuum = found["cluster in vacuum"]
    bonds = np.linalg.norm(vacuum["positions"][1:] - vacuum["positions"][:-1], axis=1)
    assert vacuum["cell"] is None and np.array(frame["elements"])[:3].tolist() == ["O", "H", "H"]
    assert (bonds[::3] < 1.1).all()  # O and its first H
    assert novel.structural_formulas([cut]) == {novel.of_molecule("water")}


def test_molecules_of_the_training():
    """They are not novel under any name of a system; others appear once, not once for each system."""
    water = build({"liquid": {"molecules": {"water": 8}, "density": 1.0}, "seed": 1}, "here")[0]
    labelled = build({"liquid": {"molecules": {"methanol": 4}, "density": 0.8}, "seed": 1}, "here")[0]
    made_of = systems.System("liquid", "liquid", water, 300, 1), systems.System("another", "liquid", water, 300, 1)
    wanted = job(Side())
    wanted.systems, wanted.head["elements"] = list(made_of), ["H", "C", "O"]
    wanted.frames = [{**labelled, "info": {"config_type": "methanol"}}]
    groups = [f["group"] for f in novel.made(wanted)[0]]
    molecules = sorted(g for g in groups if g.startswith("molecule "))
    assert molecules == [f"molecule {name}" for name in ("acetic_acid", "benzene", "ethanol") for _ in range(24)]
    assert "liquid: strained +5 %" in groups and "another: cluster in vacuum" in groups


class Side:
    """Forces with an error of `off` eV/A for novel frames and 0.01 for others; uncertainties as `sure` says."""

    identity, kind = {"static": "fake"}, "ase"

    def __init__(self, off=0.0, sure=None):
        self.off, self.sure = off, sure

    def evaluate(self, frames):
        out = []
        for f in frames:
            n, rng = len(f["elements"]), np.random.default_rng(len(f["elements"]))
            error = (self.off if f["group"] != "held out" else 0.01) * rng.uniform(0.8, 1.2, (n, 1))
            u = error[:, 0] if self.sure is None else np.full(n, self.sure)
            out.append({"forces": np.broadcast_to(error, (n, 3)), "uncertainties": u})
        return out


def job(model, teacher=None, unit="eV/A"):
    aluminium = crystal(lattice="fcc", elements=["Al"], constant=4.05)
    rattled = lambda k: np.random.default_rng(k).normal(size=aluminium.frame["positions"].shape)
    held = [{**aluminium.frame, "positions": aluminium.frame["positions"] + 0.1 * rattled(k)} for k in range(20)]
    keep = types.SimpleNamespace(step=lambda name, inputs, do: do(None))
    head = {"name": "al", "elements": ["Al"], "uncertainty": {"unit": unit, "limit": 0.02}}

    def trajectory(*_, **__):
        raise NotMeasured("LAMMPS is not there")

    return types.SimpleNamespace(
        head=head,
        model=model,
        teacher=teacher or Side(0.0),
        systems=[aluminium],
        frames=[],
        work=keep,
        trajectory=trajectory,
        steps=lambda system, ps: 100,
        settings={"hot": 1.0, "measure": ["uncertainty"]},
        no_teacher="no teacher",
        held_out=lambda: [{**f, "forces": np.zeros((len(f["elements"]), 3))} for f in held],
    )


def rows(found):
    return {(r["quantity"], r["group"]): r for r in found["rows"]}


def test_table():
    """An uncertainty that is the error finds all; one that is the same everywhere finds nothing."""
    found = rows(detection.measure(job(Side(0.1))))
    area, flagged = found["roc_area", "all"], found["flagged", "all"]
    assert area["value"] == 1.0 and area["high"] == 1.0
    assert flagged["value"] == 100.0 and found["false_alarms", "held out"]["value"] == 0.0
    assert found["uncertainty_slope", "held out"]["value"] == pytest.approx(1.0, abs=0.05)
    assert found["novel_forces", "crystal: surface 110"]["value"] == pytest.approx(100, rel=0.05)
    blind = rows(detection.measure(job(Side(0.1, sure=0.01))))
    assert blind["roc_area", "all"]["value"] == 0.5 and blind["flagged", "all"]["value"] == 0.0
    afraid = rows(detection.measure(job(Side(0.1, sure=0.03))))
    assert afraid["false_alarms", "held out"]["value"] == 100.0
    good = rows(detection.measure(job(Side(0.01))))  # no frame has a large error
    assert good["roc_area", "all"]["value"] is None and good["flagged", "crystal: bcc"]["value"] == 0.0


def test_limits_of_an_area_hold():
    """19 of 20 intervals contain the true area; those of few frames, or of an area of 1, are not empty."""
    rng, z = np.random.default_rng(3), statistics.NormalDist()
    for far, near, true in ((40, 200, 0.97), (150, 300, 0.95), (30, 30, 0.8)):
        apart = 2**0.5 * z.inv_cdf(true)
        areas = [uncertainty.roc_area(apart + rng.normal(size=far), rng.normal(size=near)) for _ in range(1500)]
        limits = np.array([detection.area_limits(area, far, near) for area in areas])
        held = ((limits[:, 0] < true) & (true < limits[:, 1])).mean()
        assert 0.93 < held < 0.985, (far, near, true, held)
    assert detection.area_limits(1.0, 40, 200) == (pytest.approx(0.9706, abs=1e-4), 1.0)
    assert detection.area_limits(1.0, 1, 1)[0] < 0.3 and detection.area_limits(0.0, 40, 200)[1] < 0.03


def test_intervals_of_different_frames():
    """Copies of a structure count each, frames of one held-out run once."""
    found = rows(detection.measure(job(Side(0.1))))
    kinds = [group for quantity, group in found if quantity == "flagged" and group != "all"]
    z2, n = 1.96**2, 24 * len(kinds)
    assert found["roc_area", "all"]["low"] == pytest.approx(detection.area_limits(1.0, n, 20)[0])
    assert found["flagged", "all"]["low"] == pytest.approx(100 / (1 + z2 / n))
    assert all("low" not in found["flagged", group] for group in kinds)
    assert found["false_alarms", "all"]["high"] == pytest.approx(100 * z2 / 20 / (1 + z2 / 20))
    one = job(Side(0.1))
    held = one.held_out()
    one.held_out = lambda: [{**f, "info": {"trajectory": f"run {k % 2}"}} for k, f in enumerate(held)]
    alarms = rows(detection.measure(one))["false_alarms", "all"]
    assert alarms["high"] == pytest.approx(100 * z2 / 2 / (1 + z2 / 2))
    copies = job(Side(0.1))  # of an item of a recipe: structures of their own
    more = {"info": {"trajectory": "3-strained", "config_type": "strained"}}
    copies.held_out = lambda: [{**f, **more} for f in held]
    alarms = rows(detection.measure(copies))["false_alarms", "all"]
    assert alarms["high"] == pytest.approx(100 * z2 / 20 / (1 + z2 / 20))


def test_alarms_of_own_runs(monkeypatch):
    """They count as many frames as do not depend on each other; an alarm in every tenth of them is seen."""
    wanted = job(Side(0.0))
    wanted.settings = {"hot": 1.0, "measure": None}
    frame = wanted.systems[0].frame

    class Known(Side):  # the uncertainty of a frame is its key `u`
        def evaluate(self, frames):
            found = super().evaluate(frames)
            return [{**r, "uncertainties": np.full(len(r["forces"]), f.get("u", 0.001))} for r, f in zip(found, frames)]

    def states(u):
        corner = types.SimpleNamespace(group="Al 840 K")
        frames = [{**frame, "group": "own", "run": k % 4, "u": x} for k, x in enumerate(u)]
        monkeypatch.setattr(own_runs, "states", lambda job: [(corner, True)])
        monkeypatch.setattr(own_runs, "runs", lambda *_: None)
        monkeypatch.setattr(own_runs, "chosen", lambda *_: frames)
        return rows(detection.measure(wanted))

    wanted.model = Known(0.1)
    rng = np.random.default_rng(1)
    quiet = states(rng.uniform(0.001, 0.01, 800))["false_alarms", "all"]
    assert quiet["value"] == 0.0 and quiet["high"] < 1.0
    loud = states(np.where(np.arange(800) % 10 == 3, 0.1, rng.uniform(0.001, 0.01, 800)))
    assert loud["false_alarms", "Al 840 K"]["value"] == pytest.approx(10.0) and loud["false_alarms", "all"]["low"] > 5.0
    slow = states(np.repeat(rng.uniform(0.001, 0.01, 8), 100))["false_alarms", "all"]  # a frame counts once
    assert slow["value"] == 0.0 and slow["high"] > 5.0


def test_hot_runs():
    """A run that fails, or that has no frame, is a row that says why."""
    found = rows(detection.measure(job(Side(0.1))))
    assert found["novel_forces", "crystal: 600 K"]["note"] == "LAMMPS is not there"
    frame = job(Side()).systems[0].frame
    for n, note in ((0, "the run has no frame"), (30, "12 frames, error")):
        run = job(Side(0.1))
        x = np.repeat(frame["positions"][None], n, 0)
        found = types.SimpleNamespace(positions=x, cells=np.repeat(frame["cell"][None], n, 0))
        run.trajectory = lambda *_, found=found, **__: found
        assert rows(detection.measure(run))["novel_forces", "crystal: 600 K"]["note"].startswith(note)


def test_lost_frames():
    """Frames with atoms too close, or that the teacher refuses, are counted."""
    close = job(Side(0.1))
    close.head["domain"] = {"min_distance": 2.56}

    class Refusing(Side):
        def evaluate(self, frames):
            if any(f["group"] == "crystal: bcc" and f["source"].endswith("copy 1") for f in frames):
                raise NotMeasured("no")
            return super().evaluate(frames)

    close.teacher = Refusing(0.0)
    found = rows(detection.measure(close))
    assert found["novel_forces", "crystal: bcc"]["note"].endswith(", 1 of 24 frames: refused by the teacher")
    hole = found["novel_forces", "crystal: interstitial Al"]
    assert hole["value"] is None and hole["note"] == "24 of 24 frames: atoms too close"


def test_what_cannot_be_measured():
    for unit, text in (
        ("relative", "the uncertainty is relative: give labels with forces to `mlff uncertainty al LABELS.xyz`"),
        (None, "the model has no uncertainty of atoms: `mlff uncertainty al LABELS.xyz`"),
    ):
        wanted = job(Side(0.1), unit=unit)
        if unit is None:
            del wanted.head["uncertainty"]
        with pytest.raises(NotMeasured, match=text):
            detection.measure(wanted)
    of_file = Side(0.0)
    of_file.kind = "labels"
    with pytest.raises(NotMeasured, match="a file of labels cannot evaluate new structures"):
        detection.measure(job(Side(0.1), of_file))

    class Refusing(Side):
        def evaluate(self, frames):
            if any(" surface" in f["group"] for f in frames):
                raise NotMeasured("no surfaces")
            return super().evaluate(frames)

    found = rows(detection.measure(job(Side(0.1), Refusing(0.0))))
    values = {group: r["value"] for (quantity, group), r in found.items() if quantity == "novel_forces"}
    assert values["crystal: bcc"] and values["crystal: surface 110"] is None
    assert found["novel_forces", "crystal: surface 110"]["note"] == "24 of 24 frames: refused by the teacher"
    with pytest.raises(NotMeasured, match="no structure unlike those of the training that the teacher evaluates"):
        refuse = Side(0.0)
        refuse.evaluate = lambda frames: (_ for _ in ()).throw(NotMeasured("no"))
        detection.measure(job(Side(0.1), refuse))
