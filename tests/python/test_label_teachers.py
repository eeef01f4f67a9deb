"""Teachers: what they answer, in which units and axes, and how they fail."""

import json
import os
import sys

import helpers
import numpy as np
import pytest
from helpers import assert_near

from mlff_tools.model import lammps, modelfile, reference, structures
from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import build, hessian, labelling, labels, lammps_data, lattices, teacher_lammps
from mlff_tools.train.extxyz import FrameError
from mlff_tools.train.process import Died, TeacherError
from mlff_tools.train.teacher_ase import AseTeacher, read_by_ase
from mlff_tools.train.teacher_lammps import LammpsTeacher
from mlff_tools.train.teachers import FileTeacher, ModelTeacher

STUDENT = os.path.join(helpers.ROOT, "models", "water-benzene-student.yaml")
TRICLINIC = np.array([[5.2, 0.3, -0.8], [-1.9, 4.9, 0.6], [2.0, -2.4, 5.1]])
ASE_PYTHON = os.environ.get("MLFF_ASE_PYTHON", "")


def lmp():
    try:
        return lammps.find_lmp()
    except ModelError:
        return None


needs_lmp = pytest.mark.skipif(not lmp(), reason="the program lmp was not found")
needs_mlff = pytest.mark.skipif(not helpers.program(), reason="the program mlff was not found")


def frame(elements, positions, cell, source="a.xyz, frame 1"):
    out = {"elements": list(elements), "positions": np.array(positions, float), "cell": cell, "source": source}
    return {**out, "name": source, "info": {}, "columns": {}}


def silicon(k=0, cell=None, seed=2):
    """Eight atoms, some outside of their cell, which may be any."""
    unit = lattices.crystal("diamond", ["Si"], 5.43)
    fractions = unit["positions"] / 5.43 + 0.02 * np.random.default_rng([seed, k]).normal(size=(8, 3))
    cell = unit["cell"] if cell is None else cell
    return frame(unit["elements"], (fractions + [k, -1, 0]) @ cell, cell, f"a.xyz, frame {k + 1}")


def water(k=0, cell=None):
    s = structures.rattled("water", k + 1)
    return frame(s["elements"], s["positions"], cell, f"a.xyz, frame {k + 1}")


CELLS = {
    "cubic": None,
    "tilted": [[9, 0, 0], [4, 8, 0], [4.2, 3, 7]],
    "tilted back": [[9, 0, 0], [-4, 8, 0], [-4.2, -3, 7]],
    "triclinic": TRICLINIC,
    "left-handed": TRICLINIC[[1, 0, 2]],
    "flat": [[9, 0, 0], [8, 5, 0], [0, 9, 6]],
}


def sw(types=("Si",), more=(), **options):
    commands = ["pair_style sw", "pair_coeff * * Si.sw ${elements}", *more]
    return LammpsTeacher(commands, types, **options)


@pytest.fixture
def closing():
    made = []
    yield lambda teacher: made.append(teacher) or teacher
    for teacher in made:
        teacher.close()


# ---- LAMMPS ----------------------------------------------------------------------------------------------------------


@needs_lmp
@pytest.mark.parametrize("name", CELLS)
def test_lammps_forces_and_stress_are_derivatives_in_our_axes(name, closing):
    """In any cell: forces by moving an atom, stress by straining all, both by differences of the energy."""
    cell = CELLS[name] if CELLS[name] is None else np.array(CELLS[name], float)
    teacher, s, h = closing(sw()), silicon(1, cell), 1e-4
    moves = [(i, a) for i in (0, 5) for a in range(3)]
    frames = [s]
    for i, a in moves:
        for sign in (1, -1):
            x = s["positions"].copy()
            x[i, a] += sign * h
            frames.append({**s, "positions": x})
    pairs = [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]
    for a, b in pairs:
        for sign in (1, -1):
            f = np.eye(3)
            f[a, b] += sign * h
            frames.append({**s, "positions": s["positions"] @ f, "cell": s["cell"] @ f})
    out = teacher.label(frames)
    energy = np.array([r["energy"] for r in out])
    slopes = (energy[1::2] - energy[2::2]) / (2 * h)
    assert np.abs(out[0]["forces"]).max() > 0.1
    assert_near([out[0]["forces"][i, a] for i, a in moves], -slopes[:6], 2e-6, "forces")
    volume = abs(np.linalg.det(s["cell"]))
    assert_near([out[0]["stress"][a, b] for a, b in pairs], slopes[6:] / volume, 1e-7, "stress")
    assert_near(out[0]["atom_energies"].sum(), out[0]["energy"], 1e-9, "energies of atoms")


@pytest.mark.parametrize("name", [name for name in CELLS if CELLS[name] is not None])
def test_cells_of_lammps(name):
    """The same lattice, turned and not mirrored: below the diagonal, with small tilts."""
    cell = np.array(CELLS[name], float)
    lower, q = lammps_data.restricted(cell)
    assert_near(q @ q.T, np.eye(3), 1e-14, "rotation")
    assert np.linalg.det(q) > 0 and (np.diag(lower) > 0).all() and (lower == np.tril(lower)).all()
    for row, by in ((1, 0), (2, 0), (2, 1)):
        assert abs(lower[row, by]) <= 0.5 * lower[by, by] * (1 + 1e-12)
    whole = lower @ q.T @ np.linalg.inv(cell)
    assert_near(whole, np.round(whole), 1e-12, "vectors of the lattice")
    assert abs(abs(np.linalg.det(whole)) - 1) < 1e-12


@needs_lmp
def test_lammps_answers_do_not_depend_on_what_came_before(closing):
    """One process for frames of other sizes, cells and kinds; each as from a process of its own, to the bit."""
    cluster = frame(["Si"] * 3, [[0, 0, 0], [2.3, 0, 0], [0.4, 2.2, 0.1]], None)
    frames = [
        silicon(0),
        silicon(1, TRICLINIC),
        cluster,
        silicon(2),
        {**cluster, "positions": cluster["positions"] + 40},
    ]
    teacher = closing(sw())
    together = teacher.label(frames) + teacher.label(frames[:1])
    for f, a in zip([*frames, frames[0]], together):
        (b,) = closing(sw()).label([f])
        assert a["energy"] == b["energy"]
        np.testing.assert_array_equal(a["forces"], b["forces"])
        assert (a["stress"] is None) == (f["cell"] is None)
    assert_near(together[2]["forces"], together[4]["forces"], 1e-9, "a cluster far from the origin")


@needs_lmp
def test_hessian_products_are_second_derivatives_of_the_energy(closing):
    """Along other directions, by differences of the energy alone; and the same whether frames come alone or not."""
    teacher, frames = closing(sw()), [silicon(k, TRICLINIC) for k in range(3)]
    found = labelling.ask_more(teacher, frames, 1.0)
    (alone,) = labelling.ask_more(teacher, frames[2:], 1.0)
    assert alone["columns"] == found[2]["columns"] and not labelling.ask_more(teacher, frames, 0.0)[2]["columns"]
    v, product = hessian.columns_of(alone)
    rng, h = np.random.default_rng(3), 1e-4
    for w in rng.normal(size=(4, 8, 3)):
        x, corners = alone["positions"], [(a, b) for a in (hessian.STEP, -hessian.STEP) for b in (h, -h)]
        moved = [{**alone, "positions": x + a * v + b * w} for a, b in corners]
        energy = [r["energy"] for r in teacher.label(moved)]
        second = (energy[0] - energy[1] - energy[2] + energy[3]) / (4 * hessian.STEP * h)
        assert_near((w * product).sum(), -second, 1e-5 * np.linalg.norm(product), "second derivative")


@needs_lmp
def test_lammps_units_real_and_atom_style(closing):
    """Lennard-Jones with numbers that are the same in both units."""
    s = frame(["Ar"] * 2, [[0, 0, 0], [3.9, 0.2, 0]], np.eye(3) * 12.0)
    scale = 23.060549
    metal = ["pair_style lj/cut 5.9", "pair_coeff * * 0.0104 3.4"]
    real = ["units real", "atom_style charge", "pair_style lj/cut 5.9", f"pair_coeff * * {0.0104 * scale!r} 3.4"]
    (a,), (b,) = (closing(LammpsTeacher(c, ["Ar"])).label([s]) for c in (metal, real))
    r = np.linalg.norm(s["positions"][1])
    x = (3.4 / r) ** 6
    assert_near(a["energy"], 4 * 0.0104 * (x * x - x), 1e-12, "energy")
    slope = 4 * 0.0104 * (6 * x - 12 * x * x) / r
    assert_near(a["stress"][0, 0], slope * s["positions"][1][0] ** 2 / r / 1728, 1e-12, "stress")
    for key in ("energy", "forces", "stress", "atom_energies"):
        assert_near(b[key], a[key], 1e-8 * np.abs(a[key]).max(), key)


@needs_lmp
def test_lammps_types_follow_the_elements(closing):
    """eam/alloy of two elements: the same crystal with types in either order."""
    s = lattices.crystal("cscl", ["Al", "Cu"], 3.0, [2, 2, 2])
    s = frame(s["elements"], s["positions"] + 0.05 * np.random.default_rng(1).normal(size=(16, 3)), s["cell"])
    commands = ["pair_style eam/alloy", "pair_coeff * * AlCu.eam.alloy ${elements}"]
    assert teacher_lammps.types_of(commands, None, [s]) == ["Al", "Cu"]
    (a,), (b,) = (closing(LammpsTeacher(commands, t)).label([s]) for t in (["Al", "Cu"], ["Cu", "Al"]))
    assert_near(b["forces"], a["forces"], 1e-10, "forces")
    fixed = ["pair_style eam/alloy", "pair_coeff * * AlCu.eam.alloy Al Cu"]
    with pytest.raises(TeacherError, match="which type is which"):
        teacher_lammps.types_of(fixed, None, [s])
    with pytest.raises(TeacherError, match="frame 1: element Cu is not one of Al"):
        closing(LammpsTeacher(fixed, ["Al"])).label([s])


@needs_lmp
def test_lammps_energies_of_atoms_only_where_there_are_some(closing):
    """A fix adds to the energy what no atom has."""
    more = ["fix mlff_add all addforce 0 0 0.01", "fix_modify mlff_add energy yes"]
    (a,) = closing(sw(more=more)).label([silicon()])
    assert a["atom_energies"] is None


@needs_lmp
@pytest.mark.parametrize(
    "commands, words",
    [
        (["pair_coeff * * Si.sw Si"], "no pair_style"),
        (["units lj", "pair_style sw"], "units metal or real"),
        (["atom_style ellipsoid", "pair_style sw"], "atom_style ellipsoid"),
        (["pair_style sw", "run 0"], "'run 0': run is done by mlff label"),
    ],
)
def test_lammps_commands_that_are_not_possible(commands, words):
    with pytest.raises(TeacherError, match=words):
        LammpsTeacher(commands, ["Si"])


@needs_lmp
def test_lammps_errors_name_the_frame_and_the_next_frame_works(closing):
    for commands, words in (
        (["pair_style none_such"], "frame 1: LAMMPS: ERROR: Unrecognized pair style 'none_such'"),
        (["pair_style sw", "pair_coeff * * none.sw Si"], "frame 1: LAMMPS: ERROR.*none.sw"),
    ):
        with pytest.raises(TeacherError, match=words):
            closing(LammpsTeacher(commands, ["Si"])).label([silicon()])
    teacher = closing(LammpsTeacher(["pair_style lj/cut 5", "pair_coeff * * 1e-3 2.1"], ["Si"]))
    bad = silicon(1)
    bad["positions"] = bad["positions"].copy()
    bad["positions"][1] = bad["positions"][0]
    with pytest.raises(TeacherError, match="a.xyz, frame 2: the teacher's energy hold NaN or infinity"):
        labelling.ask(teacher, [bad])
    assert np.isfinite(teacher.label([silicon()])[0]["energy"])


@needs_lmp
def test_lammps_identity_is_that_of_commands_and_potential(closing, tmp_path):
    (tmp_path / "my.sw").write_text(open(os.path.join(lammps.find_potentials(lmp()), "Si.sw")).read())
    commands = ["pair_style sw", "pair_coeff * * my.sw Si"]
    hashes = [closing(LammpsTeacher(commands, ["Si"], place=str(tmp_path))).identity["sha256"] for _ in range(2)]
    with open(tmp_path / "my.sw", "a") as f:
        f.write("# another\n")
    teacher = closing(LammpsTeacher(commands, ["Si"], place=str(tmp_path)))
    assert hashes[0] == hashes[1] != teacher.identity["sha256"]
    assert teacher.identity["versions"].startswith("LAMMPS ") and teacher.identity["name"] == "sw"
    assert np.isfinite(teacher.label([silicon()])[0]["energy"])


def test_commands_of_a_file(tmp_path):
    (tmp_path / "c").write_text("# sw\npair_style sw  # the usual\n\npair_coeff * * &\n   Si.sw Si\n")
    commands = teacher_lammps.read_commands(str(tmp_path / "c"))
    assert [c.split() for c in commands] == [["pair_style", "sw"], ["pair_coeff", "*", "*", "Si.sw", "Si"]]


# ---- our models ------------------------------------------------------------------------------------------------------


@needs_mlff
@pytest.mark.parametrize("make", [helpers.painn, helpers.ani, helpers.orb, helpers.nequip])
def test_models_against_numpy(make, closing, tmp_path):
    model = make()
    modelfile.write(str(tmp_path / "m"), *model)
    teacher = closing(ModelTeacher(str(tmp_path / "m.yaml"), "fp64"))
    assert teacher.derivatives == (model[0]["architecture"] != "orb")
    frames = [water(0), water(1, TRICLINIC), water(2)]
    out = teacher.label(frames[:2]) + teacher.label(frames[2:])
    for f, r in zip(frames, out):
        energy, forces, virial = reference.evaluate(model, f)
        assert_near(r["energy"], energy, 1e-8, "energy")
        assert_near(r["forces"], forces, 1e-7, "forces")
        if f["cell"] is None:
            assert r["stress"] is None
        else:
            xx, yy, zz, xy, xz, yz = -np.array(virial) / abs(np.linalg.det(f["cell"]))
            assert_near(r["stress"], [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], 1e-8, "stress")
        if r["atom_energies"] is not None:
            assert_near(r["atom_energies"].sum(), energy, 1e-8, "energies of atoms")
    assert (out[0]["atom_energies"] is None) == (model[0]["architecture"] == "orb")


@needs_mlff
def test_model_errors(closing, tmp_path):
    teacher = closing(ModelTeacher(STUDENT))
    with pytest.raises(TeacherError, match="a.xyz, frame 1: element Si is unknown to the model water-benzene-student"):
        teacher.label([silicon()])
    near = water()
    near["positions"] = near["positions"] * 0.01
    with pytest.raises(TeacherError, match="closer"):
        teacher.label([near])
    assert np.isfinite(teacher.label([water()])[0]["energy"])
    (tmp_path / "m.yaml").write_text("a: 1\n")
    with pytest.raises(ModelError, match="is not a model file"):
        ModelTeacher(str(tmp_path / "m.yaml"))


# ---- ASE: a stand-in for it in another process, and itself -----------------------------------------------------------

FAKE_ASE = '''
class Atoms:
    """As little of ase.Atoms as a calculator needs."""
    def __init__(self, symbols, positions, pbc=False, cell=None):
        self.symbols, self.positions, self.pbc, self.cell, self.calc = symbols, positions, pbc, cell, None
    def get_potential_energy(self): return self.calc.of(self)["energy"]
    def get_forces(self): return self.calc.of(self)["forces"]
    def get_stress(self, voigt=True):
        if self.calc.does == "nostress": raise self.calc.Missing("no stress, though it was said")
        if self.calc.does == "badstress": raise ValueError("no stress for another reason")
        return list(self.calc.of(self)["stress"])
    def get_potential_energies(self): return self.calc.of(self)["energies"]
'''
FAKE_CALCULATOR = '''
import os, sys, time
print("module printed this")
os.system("echo a process printed this")

class PropertyNotImplementedError(NotImplementedError): pass

class Calculator:
    """Atoms on springs to the origin: E = k/2 sum x^2."""
    implemented_properties = ["energy", "forces", "energies", "stress"]
    Missing = PropertyNotImplementedError
    def __init__(self, k=2.0, does="", lacks=(), log=None):
        self.k, self.does, self.calls, self.log = k, does, 0, log
        self.implemented_properties = [p for p in Calculator.implemented_properties if p not in lacks]
    def of(self, atoms):
        print("calculating")
        self.calls += 1
        x = atoms.positions
        if x[0][0] > 50: self.misbehave(self.does)
        k = self.k * (1 + 0.1 * self.calls) if self.does == "drift" else self.k
        e = [k / 2 * sum(c * c for c in p) for p in x]
        out = {"energy": sum(e), "energies": e, "forces": [[-k * c for c in p] for p in x], "stress": range(1, 7)}
        if self.does == "hartree": out["energy"] /= 27.2114
        if self.does == "shape": out["forces"] = out["forces"][1:]
        return out
    def misbehave(self, does):
        if does == "die": sys.stderr.write("Segmentation fault, so to say\\n"); os._exit(3)
        if does == "sleep": time.sleep(60)
        if does == "raise": raise ValueError("SCF did not converge")
        if does == "nan": self.k = float("nan")
        if does == "once":
            if not os.path.exists(self.log): open(self.log, "w").close(); os._exit(4)
'''


@pytest.fixture
def fake(tmp_path, closing, monkeypatch):
    """A teacher of the calculator above, run in a Python that finds this `ase` and nothing of ours."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "ase.py").write_text(FAKE_ASE)
    (place / "springs.py").write_text(FAKE_CALCULATOR)
    monkeypatch.setenv("PYTHONPATH", os.path.join(helpers.ROOT, "python"))

    def make(timeout=20.0, **arguments):
        return closing(AseTeacher("springs:Calculator", arguments, sys.executable, str(place), timeout))

    return make


FAR = frame("HH", [[51.0, 0, 0], [1, 2, 3]], None, "a.xyz, frame 7")


def test_ase_labels_and_prints_do_not_disturb(fake):
    teacher = fake(k=3.0)
    a, b = teacher.label([water(0), water(1, TRICLINIC)])
    x = water(0)["positions"]
    assert a["energy"] == pytest.approx(1.5 * (x**2).sum(), rel=1e-14)
    np.testing.assert_array_equal(a["forces"], -3.0 * x)
    assert a["stress"] is None
    np.testing.assert_array_equal(b["stress"], [[1, 6, 5], [6, 2, 4], [5, 4, 3]])
    assert a["atom_energies"].sum() == pytest.approx(a["energy"])
    assert teacher.identity["kind"] == "ase" and "python " in teacher.identity["versions"]
    assert fake(k=3.1).identity["sha256"] != teacher.identity["sha256"] == fake(k=3.0).identity["sha256"]


def test_ase_asks_only_for_what_there_is(fake):
    (a,) = fake(lacks=["stress", "energies"]).label([water(0, TRICLINIC)])
    assert a["stress"] is None and a["atom_energies"] is None


def test_ase_worker_knows_nothing_of_ours(fake, tmp_path):
    (tmp_path / "place" / "nosy.py").write_text(
        "import springs\ndef make():\n    import trainer\n    return springs.Calculator()\n"
    )
    with pytest.raises(TeacherError, match="No module named 'trainer'"):
        AseTeacher("nosy:make", {}, sys.executable, str(tmp_path / "place"))
    (tmp_path / "place" / "nosy.py").write_text("import mlff_tools.train\n")
    with pytest.raises(TeacherError, match="nosy:make in .* failed"):
        AseTeacher("nosy:make", {}, sys.executable, str(tmp_path / "place"))


def test_ase_that_dies_is_tried_again_and_then_given_up(fake, tmp_path):
    (a,) = fake(does="once", log=str(tmp_path / "log")).label([FAR])
    assert a["forces"][0][0] == -102.0
    teacher = fake(does="die")
    with pytest.raises(Died, match=r"(?s)frame 7.*with status 3.*Segmentation fault, so to say.*tried, 4 times"):
        teacher.label([FAR])
    assert np.isfinite(teacher.label([water()])[0]["energy"])


def test_ase_that_answers_late(fake):
    with pytest.raises(Died, match="has not answered in time"):
        teacher = fake(does="sleep", timeout=2.0)
        teacher.tries = 0
        teacher.label([FAR])


@pytest.mark.parametrize(
    "does, words",
    [
        ("raise", "SCF did not converge"),
        ("nan", "frame 7: the teacher's energy hold NaN or infinity"),
        ("shape", r"forces have shape \[1, 3\], not \[2, 3\]"),
    ],
)
def test_ase_wrong_answers(fake, does, words):
    with pytest.raises(TeacherError, match=words):
        labelling.ask(fake(does=does), [FAR])


def test_ase_stress_that_is_announced_and_not_there(fake):
    (a,) = fake(does="nostress").label([water(0, TRICLINIC)])
    assert a["stress"] is None and a["energy"] > 0
    with pytest.raises(TeacherError, match="no stress for another reason"):
        fake(does="badstress").label([water(0, TRICLINIC)])


def test_ase_calculators_that_are_not_there(fake, tmp_path):
    for calculator, words in (
        ("springs", "module:function is expected"),
        ("none_such:x", "No module named 'none_such'"),
        ("springs:none", "has no attribute 'none'"),
    ):
        with pytest.raises(TeacherError, match=words):
            AseTeacher(calculator, {}, sys.executable, str(tmp_path / "place"))
    with pytest.raises(TeacherError, match="cannot be run"):
        AseTeacher("springs:Calculator", {}, str(tmp_path / "no-python"))
    with pytest.raises(TeacherError, match="unexpected keyword argument 'colour'"):
        fake(colour="red")


def test_first_frame_is_asked_twice_and_its_forces_are_compared(fake):
    quiet = lambda text: None
    first, derivatives = labelling.check_first(fake(), water(), quiet)
    assert derivatives is True and first["energy"] > 0
    with pytest.raises(TeacherError, match="frame 1: two calls of the teacher differ"):
        labelling.check_first(fake(does="drift"), water(), quiet)
    with pytest.raises(TeacherError, match=r"changes by 0.0367\d* times"):
        labelling.check_first(fake(does="hartree"), water(), quiet)


CACHING = """
import random

class Calculator:
    '''Keeps its last results, as those of ASE, and has noise of 0.05 eV/A.'''
    implemented_properties = ["energy", "forces"]
    def __init__(self): self.results, self.atoms, self.calls = {}, None, 0
    def of(self, atoms):
        x = [list(p) for p in atoms.positions]
        if self.atoms != x:
            self.atoms, self.calls = x, self.calls + 1
            forces = [[-2 * c + random.gauss(0, 0.05) for c in p] for p in x]
            self.results = {"energy": sum(c * c for p in x for c in p), "forces": forces}
        return self.results

class WithReset(Calculator):
    def reset(self): self.atoms, self.results = None, {}

class Sum:
    '''A sum of calculators, as SumCalculator: the noise is that of a part.'''
    implemented_properties = ["energy", "forces"]
    def __init__(self): self.results, self.atoms, self.mixer = {}, None, Mixer()
    def of(self, atoms): return self.mixer.calcs[0].of(atoms)
    def reset(self): self.atoms, self.results = None, {}

class Mixer:
    def __init__(self): self.calcs = [Calculator()]
"""


@pytest.mark.parametrize("name", ["Calculator", "WithReset", "Sum"])
def test_ase_results_that_are_kept_do_not_pass_for_a_second_answer(name, fake, closing, tmp_path):
    (tmp_path / "place" / "caching.py").write_text(CACHING)
    teacher = closing(AseTeacher(f"caching:{name}", {}, sys.executable, str(tmp_path / "place")))
    with pytest.raises(TeacherError, match="two calls of the teacher differ"):
        labelling.check_first(teacher, water(), lambda text: None)
    forces = [a["forces"].tobytes() for a in teacher.label([water()] * 4)]
    assert len(set(forces)) == 4, "each is computed, which is what --dry-run times"


@pytest.mark.skipif(not ASE_PYTHON, reason="MLFF_ASE_PYTHON names no Python with ASE")
def test_noise_of_a_calculator_of_real_ase(closing, tmp_path):
    (tmp_path / "noisy.py").write_text(
        "import numpy as np\nfrom ase.calculators.emt import EMT\nfrom ase.calculators.mixing import SumCalculator\n"
        "class Noisy(EMT):\n    def calculate(self, *a, **b):\n        super().calculate(*a, **b)\n"
        "        self.results['forces'] = self.results['forces'] + 0.05 * np.random.normal(size=(2, 3))\n"
        "def summed(): return SumCalculator([Noisy(), EMT()])\n"
    )
    dimer = frame(["Cu", "Cu"], [[0, 0, 0], [2.3, 0.1, 0]], None)
    for name in ("Noisy", "summed"):
        teacher = closing(AseTeacher(f"noisy:{name}", {}, ASE_PYTHON, str(tmp_path)))
        with pytest.raises(TeacherError, match="two calls of the teacher differ"):
            labelling.check_first(teacher, dimer, lambda text: None)


class Stub:
    """A teacher by another one, whose answers are changed."""

    tries, derivatives = 0, None

    def __init__(self, teacher, change, kind="lammps"):
        self.teacher, self.change, self.identity = teacher, change, {**teacher.identity, "kind": kind}

    def label(self, frames):
        return [{**a, **self.change(a, f)} for a, f in zip(self.teacher.label(frames), frames)]


def turned_stress(s):
    return s[[1, 2, 0]][:, [1, 2, 0]]


@needs_lmp
def test_stress_of_a_teacher_is_compared_under_strain(closing):
    """At rest, under pressure, tilted; sign, units and order of components."""
    said = []
    teacher = closing(sw())
    rest = frame(
        lattices.crystal("diamond", ["Si"], 5.431)["elements"],
        *[lattices.crystal("diamond", ["Si"], 5.431)[k] for k in ("positions", "cell")],
    )
    for f in (rest, silicon(1), silicon(2, TRICLINIC * 0.95)):
        labelling.check_stress(teacher, [water(), f], said.append)
    assert len(said) == 3 and all("changes by 1.0" in text or "changes by 0.99" in text for text in said), said
    wrong = {
        "sign": lambda a, f: {"stress": -a["stress"]},
        "GPa": lambda a, f: {"stress": 160.2 * a["stress"]},
        "kbar": lambda a, f: {"stress": -1602.0 * a["stress"]},
        "axes": lambda a, f: {"stress": turned_stress(a["stress"])},
        "virial": lambda a, f: {"stress": a["stress"] * abs(np.linalg.det(f["cell"]))},
    }
    for name, change in wrong.items():
        for f in (rest, silicon(1)):
            with pytest.raises(TeacherError, match="times the work of the stress, which should be 1"):
                labelling.check_stress(Stub(teacher, change), [f], said.append)
                raise AssertionError(name)
    labelling.check_stress(Stub(teacher, lambda a, f: {"stress": None}), [rest], said.append)
    assert len(said) == 3


@needs_lmp
def test_forces_that_are_all_zero(closing):
    """At rest they may be; where the energy changes with the positions they may not."""
    teacher, said = closing(sw()), []
    zero = lambda a, f: {"forces": 0 * a["forces"]}
    with pytest.raises(TeacherError, match="the energy changes by .* eV, and all forces are zero"):
        labelling.check_first(Stub(teacher, zero), silicon(), said.append)
    still = lambda a, f: {"forces": 0 * a["forces"], "energy": -1.0}
    labelling.check_first(Stub(teacher, still), silicon(), said.append)
    assert "too small to compare" in said[0]


@needs_lmp
def test_scale_of_a_calculator_by_free_atoms(closing):
    """Energies and forces both in kcal/mol: nothing is bound by 100 eV an atom; all-electron energies in hartree."""
    teacher, said = closing(sw()), []
    good = labelling.ask(teacher, [silicon()])[0]
    labelling.check_scale(Stub(teacher, lambda a, f: {}, "ase"), good, said.append)
    scaled = lambda a, f: {key: 23.06 * a[key] for key in ("energy", "forces")}
    with pytest.raises(TeacherError, match="below that of free atoms.*must be in eV.*kcal/mol"):
        labelling.check_scale(Stub(teacher, scaled, "ase"), {**good, "energy": 23.06 * good["energy"]}, said.append)
    hartree = lambda a, f: {"energy": a["energy"] / 27.2114 - 289.4 * len(f["elements"])}
    with pytest.raises(TeacherError, match="an atom of Si has an energy of -289.4, .* all its electrons in hartree"):
        labelling.check_scale(Stub(teacher, hartree, "ase"), good, said.append)
    assert said == []

    def fails(a, f):
        raise TeacherError("a cell is needed")

    labelling.check_scale(Stub(teacher, fails, "ase"), good, said.append)
    assert "no free atoms to compare energies with (a cell is needed)" in said[0]


@needs_lmp
def test_labels_of_a_file_are_given_again(closing):
    """The first, middle and last ones; a factor is named, and stress counts."""
    teacher = closing(sw())
    frames = labelling.ask(teacher, [silicon(k) for k in range(9)])
    labelling.check_again(teacher, frames, "other labels")
    for k, change in ((8, {"energy": frames[8]["energy"] + 1e-3}), (4, {"stress": -frames[4]["stress"]})):
        wrong = [{**f, **change} if n == k else f for n, f in enumerate(frames)]
        with pytest.raises(TeacherError, match=f"frame {k + 1}: other labels: energies"):
            labelling.check_again(teacher, wrong, "other labels")
    wrong = [{**f, "forces": 23.06 * f["forces"], "energy": 23.06 * f["energy"]} for f in frames]
    with pytest.raises(TeacherError, match="the first forces are 23.06 times the second"):
        labelling.check_again(teacher, wrong, "other labels")


@needs_mlff
def test_charges_and_moments_that_a_teacher_does_not_get(fake, closing):
    """A model does not use them, which is noted; a calculator could, which is an error."""
    magnetic = {**water(), "columns": {"initial_magmoms": ("R", ["0", "1.0", "0"])}}
    model = closing(ModelTeacher(STUDENT))
    assert labelling.unused_states(model, [water()]) == []
    (note,) = labelling.unused_states(model, [water(), magnetic])
    assert note == "a.xyz, frame 1 has initial_magmoms, which neither the teacher nor a student uses"
    with pytest.raises(TeacherError, match="has initial_magmoms, which mlff does not hand to a calculator of ASE"):
        labelling.unused_states(fake(), [magnetic])


CIF = """data_x
_cell_length_a 4
_cell_length_b 4
_cell_length_c 4
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M 'P 1'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_occupancy
Al1 Al 0.5 0.5 0.0 1.0
Al2 Al 0.0 0.0 0.0 0.5
Ni1 Ni 0.0 0.0 0.0 0.5
"""


@pytest.mark.skipif(not ASE_PYTHON, reason="MLFF_ASE_PYTHON names no Python with ASE")
def test_partial_occupancy_and_moments_of_other_formats(tmp_path):
    (tmp_path / "a.cif").write_text(CIF)
    with pytest.raises(FrameError, match="a.cif, frame 1: sites are partly occupied"):
        build.read_file(str(tmp_path / "a.cif"), ASE_PYTHON)
    array = lambda values, kind: {"__ndarray__": [list(np.shape(values)), kind, np.ravel(values).tolist()]}
    atoms = {"numbers": array([26, 8], "int64"), "positions": array([[0.0] * 3, [1.5] * 3], "float64")}
    atoms |= {"cell": {"array": array(3.0 * np.eye(3), "float64"), "__ase_objtype__": "cell"}}
    atoms |= {"pbc": array([True] * 3, "bool"), "initial_magmoms": array([2.0, 0.0], "float64"), "unique_id": "a"}
    (tmp_path / "a.json").write_text(
        json.dumps({"1": {**atoms, "ctime": 0, "mtime": 0, "user": "a"}, "ids": [1], "nextid": 2})
    )
    (f,) = build.read_file(str(tmp_path / "a.json"), ASE_PYTHON)
    assert list(labels.states([f])) == ["initial_magmoms"]


@pytest.mark.skipif(not ASE_PYTHON, reason="MLFF_ASE_PYTHON names no Python with ASE")
def test_real_ase(closing, tmp_path):
    """EMT of ASE: stress in the right components, by differences; files that ASE reads."""
    s = lattices.crystal("fcc", ["Cu"], 3.6)
    s = frame(s["elements"], s["positions"] + 0.1 * np.random.default_rng(3).normal(size=(4, 3)), s["cell"] * 1.02)
    s["cell"] = s["cell"] + 0.1 * np.random.default_rng(4).normal(size=(3, 3))
    teacher = closing(AseTeacher("ase.calculators.emt:EMT", {}, ASE_PYTHON))
    first, derivatives = labelling.check_first(teacher, s, lambda text: None)
    assert derivatives is True and "ase 3" in teacher.identity["versions"]
    for a, b in ((0, 0), (1, 2), (0, 2), (0, 1)):
        energies = []
        for sign in (1, -1):
            f = np.eye(3)
            f[a, b] += sign * 1e-4
            energies.append(teacher.label([{**s, "positions": s["positions"] @ f, "cell": s["cell"] @ f}])[0]["energy"])
        slope = (energies[0] - energies[1]) / 2e-4 / abs(np.linalg.det(s["cell"]))
        assert_near(first["stress"][a, b], slope, 1e-6, f"stress {a}{b}")
    (tmp_path / "POSCAR").write_text("Cu\n1.0\n3.6 0 0\n0 3.6 0\n0 0 3.6\nCu O\n1 1\nDirect\n0 0 0\n.5 .5 .25\n")
    (tmp_path / "data.x").write_text(
        "x\n\n2 atoms\n2 atom types\n0 4 xlo xhi\n0 5 ylo yhi\n0 6 zlo zhi\n\nMasses\n\n1 15.999\n2 1.008\n\n"
        "Atoms # atomic\n\n2 2 1 1 2\n1 1 1 1 1\n"
    )
    (poscar,), (data,) = (read_by_ase(str(tmp_path / name), ASE_PYTHON) for name in ("POSCAR", "data.x"))
    assert poscar["elements"] == ["Cu", "O"]
    np.testing.assert_allclose(poscar["positions"][1], [1.8, 1.8, 0.9])
    assert data["elements"] == ["O", "H"] and data["cell"].diagonal().tolist() == [4, 5, 6]


def test_other_formats_without_ase(tmp_path):
    (tmp_path / "POSCAR").write_text("Cu\n")
    (tmp_path / "noase").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    os.chmod(tmp_path / "noase", 0o755)
    with pytest.raises(
        TeacherError, match=r"POSCAR: only extended XYZ is read without ASE: .*noase -m pip install ase"
    ):
        read_by_ase(str(tmp_path / "POSCAR"), str(tmp_path / "noase"))


# ---- a file of labels ------------------------------------------------------------------------------------------------


def test_file_of_labels(tmp_path):
    path = tmp_path / "dft.xyz"
    path.write_text(
        "1\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-1\nH 0 0 0 1 2 3\n"
        "1\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-2\nO 0 0 0 3 2 1\n"
    )
    teacher = FileTeacher(str(path))
    (a,) = teacher.label([frame("O", [[0, 0, 0]], None)])
    assert a["energy"] == -2 and a["forces"].tolist() == [[3, 2, 1]] and a["stress"] is None
    assert teacher.identity["name"] == "dft.xyz" and teacher.identity["kind"] == "labels"
    with pytest.raises(TeacherError, match="frame 1: dft.xyz has no labels of this structure"):
        teacher.label([frame("O", [[0, 0, 1]], None)])
