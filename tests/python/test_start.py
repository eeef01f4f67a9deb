"""From a structure to a recipe: what is recognized, what is written, what is refused."""

import os
import re

import numpy as np
import pytest
import yaml

import mlff
from mlff_tools.model import structures
from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import distill, extxyz, generate, lattices, liquids, materials, recipe_rounds, start
from mlff_tools.train.potentials import Programs

CU = "Cu\n1.0\n0 1.8 1.8\n1.8 0 1.8\n1.8 1.8 0\nCu\n1\nDirect\n0 0 0\n"
SI = "Si\n5.43\n0 0.5 0.5\n0.5 0 0.5\n0.5 0.5 0\nSi\n2\nDirect\n0 0 0\n0.25 0.25 0.25\n"
NACL = "NaCl\n5.64\n0 0.5 0.5\n0.5 0 0.5\n0.5 0.5 0\nNa Cl\n1 1\nDirect\n0 0 0\n0.5 0.5 0.5\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def frame(lattice, elements, constant, cells=(1, 1, 1)):
    return lattices.crystal(lattice, elements, constant, cells)


# ---- what a structure is


@pytest.mark.parametrize("symbol", ["Cu", "Fe", "Mg", "Zn", "Si"])
def test_lattices_of_elements(symbol):
    lattice, constant, melting = materials.ELEMENTS[symbol]
    unit = frame(lattice, [symbol], constant, (2, 1, 1))
    found, elements, near = materials.lattice_of(unit)
    assert (found, elements) == (lattice, [symbol]) and near == pytest.approx(constant, rel=0.02)
    assert materials.melting(unit) == melting


@pytest.mark.parametrize("lattice", materials.SHELLS)
def test_lattices(lattice):
    """Also of a primitive cell's copies and with small displacements; not with large ones, nor stretched."""
    elements = ["Na", "Cl"][: len(lattices.LATTICES[lattice])]
    unit = frame(lattice, elements, [4.0, 6.5] if lattice == "hcp" else 5.0, (2, 1, 2))
    noise = np.random.default_rng(1).normal(size=unit["positions"].shape)
    for width, found in ((0.0, True), (0.01, True), (0.4, False)):
        moved = {**unit, "positions": unit["positions"] + width * noise}
        assert (materials.lattice_of(moved) is not None) == found
        assert not found or materials.lattice_of(moved)[0] == lattice
    assert materials.lattice_of({**unit, "cell": unit["cell"] * [[1.0], [1.0], [1.15]]}) is None


def test_kinds():
    kind = lambda *of: materials.kind(frame(*of))[0]
    assert kind("fcc", ["Cu"], 3.6) == kind("cscl", ["Ni", "Al"], 2.9) == "metal"
    assert kind("diamond", ["Si"], 5.4) == kind("zincblende", ["Ga", "As"], 5.6) == "semiconductor"
    assert kind("rocksalt", ["Na", "Cl"], 5.6) == kind("rocksalt", ["Mg", "O"], 4.2) == "ionic"
    assert materials.kind(liquids.liquid({"water": 8}, 1.0, 1))[0] == "liquid"
    elements, x = structures.molecule("ethanol")
    alone = {"elements": list(elements), "positions": np.array(x), "cell": None}
    assert materials.kind(alone)[0] == "molecule" and materials.formula(alone) == "C2H6O"
    assert materials.formula(frame("rocksalt", ["Mg", "O"], 4.2)) == "MgO"


def test_at_rest():
    """Length and bulk modulus of an energy that is known."""
    unit, b, v0 = frame("fcc", ["Cu"], 3.9), 0.8, 3.6**3

    def ask(frames):
        volumes = [np.linalg.det(f["cell"]) for f in frames]
        return [{"energy": 9 / 8 * b * v0 ** (7 / 3) * (v ** (-2 / 3) - v0 ** (-2 / 3)) ** 2} for v in volumes]

    factor, bulk = start.at_rest(ask, unit)
    assert factor * 3.9 == pytest.approx(3.6, abs=1e-6) and bulk == pytest.approx(b * start.BAR, rel=1e-4)
    with pytest.raises(ModelError, match="finds no volume of least energy"):
        start.at_rest(lambda frames: [{"energy": np.linalg.det(f["cell"])} for f in frames], unit)


def test_other_lattices_are_relaxed_by_the_teacher():
    """hcp iron has 14 % less volume than bcc, far from what strains of 2 % reach."""
    model = mlff.Model("nequix-oam-1-pft", precision="fp64", domain="ignore")

    def ask(frames):
        out = []
        for f in frames:
            found = model.evaluate(f["elements"], f["positions"], f["cell"])
            xx, yy, zz, yz, xz, xy = found.stress
            stress = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            out.append({"energy": found.energy, "forces": found.forces, "stress": stress})
        return out

    unit = frame("bcc", ["Fe"], 2.872)
    found = start._others_at_rest(ask, "bcc", ["Fe"], unit)
    assert set(found) == {"sc", "fcc", "hcp", "diamond"}
    assert found["hcp"] == pytest.approx([2.457, 3.906], abs=0.005) and found["fcc"] == pytest.approx(3.489, abs=0.005)
    for name, constant in found.items():
        for factor in (0.99, 1.01):
            far, near = (frame(name, ["Fe"], np.multiply(constant, k).tolist()) for k in (factor, 1.0))
            far, near = (one["energy"] for one in ask([far, near]))
            assert near < far, name


# ---- the recipe


def written(structure):
    return extxyz.text({**structure, "info": {}, "columns": {}})


def read(path):
    """(recipe, its text, number of frames) of a written recipe."""
    wanted = recipe_rounds.read(path)
    with open(path) as f:
        text = f.read()
    return wanted, text, generate.count(wanted.recipe, wanted.structures, wanted.teacher, Programs()).frames


def kinds_of(wanted):
    return {next(k for k in ("files", *generate.build.KINDS) if k in item) for item in wanted.structures}


def write_only(*words):
    """What is said when a recipe is written, without the plan, which times the teacher."""
    args, lines = distill.arguments().parse_args([*words, "--dry-run"]), []
    assert distill.is_started(args)
    start.recipe(args, distill.programs(args), lines.append)
    return "\n".join(lines)


CRYSTAL = {"crystal", "vacancy", "interstitial", "fault", "surface", "dense", "cluster"}


@pytest.mark.parametrize(
    "name, text, kind, lattice, constant",
    [
        ("Cu", CU, "metal", "fcc", 3.63),
        ("Si", SI, "semiconductor", "diamond", 5.49),
        ("NaCl", NACL, "ionic", "rocksalt", 5.7),
    ],
)
def test_crystals(name, text, kind, lattice, constant, here, capsys):
    """The constant is the teacher's, the highest temperature that of the table."""
    (here / "POSCAR").write_text(text)
    if name == "Cu":
        assert not distill.main(["POSCAR", "--dry-run"])
        said = capsys.readouterr().out
        assert re.search(r"together +about .* of one core", said)
    else:
        said = write_only("POSCAR")
    assert f"{name}: {kind}" in said and "teacher: nequix-oam-1-pft (the best at hand" in said
    wanted, written, frames = read(f"{name}-m.yaml")
    assert written.startswith("# mlff distill POSCAR --size m\n") and wanted.kind == kind and 500 < frames < 2500
    first = wanted.structures[0]["crystal"]
    assert first["lattice"] == lattice and first["constant"] == pytest.approx(constant, abs=0.03)
    assert kinds_of(wanted) == CRYSTAL | ({"stacking"} if lattice != "rocksalt" else set())
    hottest = {"Cu": 1222, "Si": 1518, "NaCl": 967}[name]
    assert wanted.certify["systems"][0]["high"] == pytest.approx(hottest, abs=5) and wanted.rounds["count"] == 2


def test_an_element(here):
    """Files for the surfaces of hcp, whose cell is not cubic; options are in the recipe."""
    words = ["--element", "Mg", "--size", "s", "--temperature", "500", "--teacher", "tensornet-local-matpes-pbe"]
    write_only(*words)
    wanted, text, _ = read("Mg-s.yaml")
    assert text.startswith(
        "# mlff distill --element Mg --teacher tensornet-local-matpes-pbe --size s --temperature 500\n"
    )
    assert (wanted.student["architecture"], wanted.student["size"]) == ("mace", "s") and wanted.certify["systems"][0][
        "high"
    ] == 500
    assert wanted.teacher == {"mlff": "tensornet-local-matpes-pbe"} and os.path.exists("Mg-s-surfaces.xyz")
    assert kinds_of(wanted) == (CRYSTAL | {"stacking", "files"}) - {"surface"}


def test_liquids(here, capsys):
    """A recipe with half the time has half the frames; the same command takes the recipe that is there."""
    distill.main(["--liquid", "water:16", "--dry-run"])
    said = capsys.readouterr().out
    assert "teacher: water-benzene-teacher (an example" in said and "16 water at 0.997 g/cm3 and 300 K (" in said
    wanted, text, frames = read("water-xs.yaml")
    assert wanted.kind == "liquid" and kinds_of(wanted) == {"liquid", "molecule", "dimer"}
    (here / "water-xs.yaml").write_text(text.replace("steps: 36000", "steps: 12000"))
    distill.main(["--liquid", "water:16", "--dry-run"])
    said = capsys.readouterr().out
    assert "the recipe that this command wrote before" in said and "x 12000 steps" in said
    assert distill.main(["--liquid", "water:16", "--temperature", "350", "--dry-run"]) == 2
    assert "water-xs.yaml exists and is not overwritten" in capsys.readouterr().err
    os.rename("water-xs.yaml", "other.yaml")
    distill.main(["--liquid", "water:16", "--hours", "0.1", "--dry-run"])
    assert read("water-xs.yaml")[2] < frames / 2 and "0.1 h of a core" in capsys.readouterr().out
    assert sorted(os.listdir()) == ["other.yaml", "water-xs.yaml"]


def test_a_structure_that_has_changed(here):
    """Is not replaced by the one of an earlier recipe without a word."""
    old = lattices.crystal("fcc", ["Cu"], 3.6)
    (here / "cu.xyz").write_text(written(old))
    write_only("cu.xyz")
    new = lattices.crystal("fcc", ["Cu"], 3.7)
    (here / "cu.xyz").write_text(written(new))
    before = sorted(path.name for path in here.iterdir())
    assert distill.main(["cu.xyz", "--dry-run"]) == 2
    assert sorted(path.name for path in here.iterdir()) == before


def test_boxes_and_molecules_of_files(here):
    """A box of known and unknown molecules; a molecule."""
    (here / "xe.xyz").write_text("2\n\nH 0 0 0\nF 0 0 0.92\n")
    box = liquids.liquid({"water": 6, "xe.xyz": 2}, 0.9, 1)
    (here / "box.xyz").write_text(written(box))
    write_only("box.xyz")
    wanted, _, _ = read("H7O3F-xs.yaml")
    assert wanted.structures[0]["liquid"]["molecules"] == {"water": 6, wanted.name + "-molecule-1.xyz": 2}
    assert {"files", "liquid", "dimer", "molecule"} == kinds_of(wanted)
    _ethanol(here)
    write_only("m.xyz")
    wanted, _, _ = read("C2H6O-xs.yaml")
    assert wanted.kind == "molecule" and kinds_of(wanted) == {"files", "dimer"}


def _ethanol(here):
    elements, x = structures.molecule("ethanol")
    rows = "".join(f"{e} {a} {b} {c}\n" for e, (a, b, c) in zip(elements, x))
    (here / "m.xyz").write_text(f"{len(elements)}\n\n{rows}")


@pytest.mark.parametrize("where", ["plan.teacher_time", "plan.seconds", "recipe_rounds.read", "write_bytes"])
def test_an_interrupted_plan_leaves_nothing(where, here, monkeypatch):
    """Neither its trials nor files of structures without their recipe."""
    _ethanol(here)
    write_bytes, seen = start.write_bytes, []

    def interrupted(*words):
        if where == "write_bytes" and words[0] != "C2H6O-xs.yaml":
            return write_bytes(*words)
        seen.extend(os.listdir())
        raise KeyboardInterrupt

    monkeypatch.setattr("mlff_tools.train.start.plan.teacher_time", lambda *_: (1e-4, {"kind": "mlff", "name": "a"}))
    monkeypatch.setattr(f"mlff_tools.train.start.{where}", interrupted)
    more = [] if where == "write_bytes" else ["--hours", "1"]
    with pytest.raises(KeyboardInterrupt):
        write_only("m.xyz", *more)
    assert len(seen) > 1 and os.listdir() == ["m.xyz"]


def test_files_of_a_killed_plan_are_used(here, monkeypatch):
    """Those with another content are not overwritten."""
    _ethanol(here)
    monkeypatch.setattr("mlff_tools.train.start.plan.teacher_time", lambda *_: (1e-4, {"kind": "mlff", "name": "a"}))
    write_only("m.xyz", "--hours", "1")
    before = (here / "C2H6O-xs-molecule.xyz").read_text()
    assert read("C2H6O-xs.yaml")[0].structures[0]["files"] == ["C2H6O-xs-molecule.xyz"]
    assert sorted(os.listdir()) == ["C2H6O-xs-molecule.xyz", "C2H6O-xs.yaml", "m.xyz"]
    os.remove("C2H6O-xs.yaml")
    write_only("m.xyz")
    assert (here / "C2H6O-xs-molecule.xyz").read_text() == before and os.path.exists("C2H6O-xs.yaml")
    os.remove("C2H6O-xs.yaml")
    (here / "C2H6O-xs-molecule.xyz").write_text("mine\n")
    with pytest.raises(ModelError, match="C2H6O-xs-molecule.xyz exists and is not overwritten"):
        write_only("m.xyz")
    assert (here / "C2H6O-xs-molecule.xyz").read_text() == "mine\n" and len(os.listdir()) == 2


def test_crystals_without_a_lattice(here):
    """Their supercell and defects are files."""
    unit = frame("fcc", ["Cu"], 3.6)
    unit = {
        **unit,
        "elements": ["Cu", "Cu", "Cu", "Au"],
        "cell": unit["cell"] * 1.03,
        "positions": unit["positions"] * 1.03,
    }
    (here / "a.xyz").write_text(written(unit))
    said = write_only("a.xyz", "--teacher", "tensornet-local-matpes-pbe")
    assert "lattice: none of sc, bcc" in said and "the melting point is not in the table: give --temperature" in said
    wanted, _, _ = read("AuCu3-m.yaml")
    assert kinds_of(wanted) == {"files", "dense", "cluster"}
    labels = {item["label"] for item in wanted.structures if "files" in item}
    assert labels == {"strained", "crystal", "large", "pressed", "liquid", "surface", "vacancy", "interstitial"}
    (large,) = (item for item in wanted.structures if item.get("label") == "large")
    assert len(extxyz.read(large["files"][0])[0]["elements"]) >= 200


def test_teachers():
    """The best of those that know the elements; students are not among them."""
    pick = start.teacher
    assert pick(None, {"Cu", "Au"}, "metal")[0] == {"mlff": "nequix-oam-1-pft"}
    section, why = pick(None, {"H", "C", "O"}, "liquid", ["ethanol"])
    assert section == {"mlff": "nequix-oam-1-pft"} and "not made for this kind" in why
    assert pick("ase.calculators.emt:EMT", {"Cu"}, "metal")[0] == {"ase": {"calculator": "ase.calculators.emt:EMT"}}
    with pytest.raises(ModelError, match="--teacher silicon-m: does not know Cu; give another"):
        pick("silicon-m", {"Cu"}, "metal")
    with pytest.raises(ModelError, match="no teacher at hand knows Po: give --teacher"):
        pick(None, {"Po"}, "metal")
    with pytest.raises(ModelError, match="no model copper"):
        pick("copper", {"Cu"}, "metal")


@pytest.mark.parametrize("more", [["--dry-run"], ["--torch-python", "/bin/false"]])
@pytest.mark.parametrize(
    "words, said",
    [
        (["--element", "Xx"], "--element Xx: no crystal of it is known; give a structure file, or one of Ag"),
        (["--element", "Po"], "--element Po: no crystal of it is known"),
        (["none.cif"], "none.cif: there is no such file"),
        (["bad.cif"], "bad.cif: "),
        (["po.xyz"], "no teacher at hand knows Po"),
        (["x.xyz"], "x.xyz:3: 'Xx' is not a chemical symbol"),
        (["--liquid", "water"], '--liquid water: molecules and numbers are expected, as "water:32 ethanol:4"'),
        (["--liquid", "water:667"], "--liquid water:667: 2001 atoms are too many to label thousands of structures"),
        (["big.xyz"], "big.xyz: 864 atoms are too many to label thousands of structures: give the unit cell of a"),
        (
            ["long.xyz"],
            "a supercell at least 7 A wide of the cell 2.7, 2.7, 90 A has 720 atoms: the limit is 500; give",
        ),
        (["--liquid", "wine:3"], "--liquid wine: is not known; allowed are water, "),
        (["--liquid", "water:3", "--element", "Cu"], "--element and --liquid: give one of them"),
        (["--liquid", "water:3", "--teacher", "water-xs"], "--teacher water-xs: is the name of the recipe as well"),
        (["r.yaml", "--element", "Cu"], "--element and r.yaml: give one of them"),
        (["r.yaml", "--size", "s"], "--size belongs to a structure, --element or --liquid"),
        (["r.yaml", "--hours", "1"], "--hours belongs to --explore"),
        (["--element", "Cu", "--rounds", "1"], "--rounds belongs to --explore"),
        (["r.yaml"], "no model m"),
        (["labels.yaml", "--from", "none"], "--from none: is not a folder of mlff distill"),
        (["labels.yaml", "-o", "full"], "full: exists and is not a folder of mlff distill: choose another --out"),
    ],
)
def test_refuses(words, said, more, here, capsys):
    """Also where PyTorch, which a plan does not need, is missing."""
    (here / "bad.cif").write_text("nothing of a structure\n")
    (here / "po.xyz").write_text('1\nLattice="3.3 0 0 0 3.3 0 0 0 3.3"\nPo 0 0 0\n')
    (here / "x.xyz").write_text('1\nLattice="3.3 0 0 0 3.3 0 0 0 3.3"\nXx 0 0 0\n')
    (here / "big.xyz").write_text(written(frame("fcc", ["Cu"], 3.6, (6, 6, 6))))
    long = {"elements": ["Cu"] * 40 + ["Zn"] * 40, "positions": np.outer(np.arange(80), [1.3, 0.7, 1.1])}
    (here / "long.xyz").write_text(written({**long, "cell": np.diag([2.7, 2.7, 90.0])}))
    (here / "full").mkdir()
    (here / "full" / "file").write_text("")
    (here / "labels.yaml").write_text("name: a\nteacher: {labels: big.xyz}\n")
    (here / "r.yaml").write_text("name: a\nstructures:\n  - molecule: water\nteacher: {mlff: m}\n")
    assert distill.main([*words, *more]) == 2
    assert said in capsys.readouterr().err
    assert sorted(os.listdir()) == [
        "bad.cif",
        "big.xyz",
        "full",
        "labels.yaml",
        "long.xyz",
        "po.xyz",
        "r.yaml",
        "x.xyz",
    ]


def test_pytorch_is_looked_for_before_the_teacher_is_asked(here, capsys):
    assert distill.main(["--element", "Cu", "--torch-python", "/bin/false"]) == 2
    said = capsys.readouterr()
    assert "/bin/false has no PyTorch" in said.err and "teacher: nequix" in said.out and "at rest" not in said.out
    assert os.listdir() == []


def test_written_recipes_are_yaml(here):
    """No numpy types, one line a key."""
    text = start._text(
        type(
            "A",
            (),
            dict.fromkeys(("recipe", "liquid", "teacher", "size", "temperature", "hours"), None) | {"element": "Cu"},
        ),
        {
            "name": "a",
            "structures": [{"crystal": {"constant": np.float64(3.5)}, "copies": 5.0}],
            "training": {"steps": 10.0},
        },
        ["x"],
    )
    assert (
        text.startswith("# mlff distill --element Cu\n# x\n")
        and "  - crystal: {constant: 3.5}\n    copies: 5\n" in text
    )
    assert yaml.safe_load(text)["training"] == {"steps": 10}
