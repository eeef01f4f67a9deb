"""What a certificate asks of crystals, with potentials whose answers are known: pairs that end before the third shell,
Stillinger-Weber silicon, and the published defects of Mendelev's iron."""

import contextlib

import helpers
import numpy as np
import pytest

from mlff_tools.certify import crystals, defects, faults, job, lattice, neb, polymorphs, surfaces, systems, work
from mlff_tools.certify.rows import NOT, verdict
from mlff_tools.certify.sides import Side
from mlff_tools.model import lammps, modelfile
from mlff_tools.train import lattices
from mlff_tools.train.teacher_lammps import LammpsTeacher
from mlff_tools.train.teachers import digest

SETTINGS = {"temperature": 300.0, "pressure": 1.0, "atoms": 32, "minutes": 10.0}
IRON = ["pair_style eam/fs", "pair_coeff * * Fe_mm.eam.fs Fe"]
THIRD, WIDE = 4.4395, 0.12  # A: from an atom to the third shell of hcp; width of the bump there
SILICON = ["pair_style sw", "pair_coeff * * Si.sw Si"]


class Pairs:
    """Lennard-Jones pairs whose energies and forces vanish smoothly at END, behind the second shell of fcc. With `hcp`
    eV, a bump at the third shell of hcp, where fcc has no atoms: the energy of an atom of hcp above one of fcc."""

    END = 4.2  # A

    def __init__(self, hcp=0.0, epsilon=0.4, sigma=2.5):
        self.hcp, self.epsilon, self.sigma = hcp, epsilon, sigma
        self.end = 4.9 if hcp else self.END
        self.identity = {"kind": "test", "name": "pairs", "sha256": digest(f"{hcp} {epsilon} {sigma}")}

    def _radial(self, r):
        energy, slope = self._short(r)
        x = (r - THIRD) / WIDE
        bump = self.hcp * np.exp(-(x**2))
        return energy + bump, slope - 2 * x / WIDE * bump

    def _short(self, r):
        lj = lambda x: 4 * self.epsilon * ((self.sigma / x) ** 12 - (self.sigma / x) ** 6)
        slope = lambda x: 24 * self.epsilon * (-2 * (self.sigma / x) ** 12 + (self.sigma / x) ** 6) / x
        u = np.minimum(r / self.END, 1.0)
        taper, change = (1 - u**2) ** 2, -4 * u * (1 - u**2) / self.END
        return lj(r) * taper, slope(r) * taper + lj(r) * change

    def label(self, frames):
        return [self._one(f) for f in frames]

    def _one(self, f):
        x, cell = f["positions"], f["cell"]
        n = [int(np.ceil(self.end / w)) for w in lattice.widths(cell)]
        grid = np.stack(np.meshgrid(*[np.arange(-k, k + 1) for k in n], indexing="ij"), -1).reshape(-1, 3) @ cell
        d = x[None, :] - x[:, None]
        d -= np.round(d @ np.linalg.inv(cell)) @ cell
        i, j, s = np.nonzero(np.ones((len(x), len(x), len(grid)), bool))
        vectors = d[i, j] + grid[s]
        r = np.linalg.norm(vectors, axis=1)
        near = (r > 1e-9) & (r < self.end)
        i, vectors, r = i[near], vectors[near], r[near]
        energy, slope = self._radial(r)
        pull = vectors * (slope / r)[:, None]
        forces = np.zeros((len(x), 3))
        np.add.at(forces, i, pull)
        stress = 0.5 * np.einsum("na,nb->ab", pull, vectors) / abs(np.linalg.det(cell))
        return {"energy": 0.5 * float(energy.sum()), "forces": forces, "stress": stress, "atom_energies": None}

    def close(self):
        pass


class Bain(Pairs):
    """Pairs whose bcc cell of two atoms is relaxed at c/a = sqrt(2), where it is fcc."""

    def _one(self, f):
        cell = f["cell"]
        if len(f["elements"]) != 2 or np.abs(cell - np.diag(np.diag(cell))).max() > 0.1:
            return super()._one(f)
        off = np.diag(cell) - 16 ** (1 / 3) * np.array([1.0, 1.0, 2**0.5]) * 2 ** (1 / 3 - 1 / 6)
        stress = np.diag(np.diag(cell) * off) / abs(np.linalg.det(cell))
        return {"energy": 0.5 * float(off @ off), "forces": np.zeros((2, 3)), "stress": stress, "atom_energies": None}


def _lammps(commands, elements):
    try:
        lmp = lammps.find_lmp()
    except modelfile.ModelError:
        pytest.skip("no LAMMPS")
    if not lammps.find_potentials(lmp):
        pytest.skip("no LAMMPS with potential files here")
    return LammpsTeacher(commands, elements, lmp)


@contextlib.contextmanager
def certified(folder, unit, model, teacher=None, name="crystal", **more):
    """A job with one crystal, whose model and teacher are these evaluators."""
    made = [Side(n, "test", e, e, None) for n, e in (("model", model), ("teacher", teacher)) if e]
    system = systems.crystal({"name": name, **more}, unit, SETTINGS, name)
    kept = work.Work(str(folder / "work"), lambda _: None)
    other, why = (made[1], None) if teacher else (None, "the recipe has no teacher")
    try:
        yield job.Job(made[0], other, why, [system], [], [], SETTINGS, kept, None, None)
    finally:
        kept.close()
        for side in made:
            side.close()


def values(found, quantity, key="value"):
    return {r["group"]: r.get(key) for r in found["rows"] if r["quantity"] == quantity}


ONE = ("fcc", "hcp", "bcc", "sc", "diamond", "dhcp", "hexagonal diamond", "beta-tin")


def test_lattices_are_told_apart():
    for mine in ONE:
        unit = polymorphs.made(mine, ["Al"], 16.0)
        helpers.assert_near(lattice.volume_of(unit), 16.0, 1e-9, mine)
        assert [k for k in ONE if lattice.alike(unit, polymorphs.made(k, ["Al"], 20.0))] == [mine]
        assert [k for k in ONE if lattice.alike(unit, polymorphs.made(k, ["Al"], 16.0), lattice.KEPT)] == [mine]
    for mine in polymorphs.COMPOUNDS:
        assert polymorphs.recognized(polymorphs.made(mine, ["Cl", "Na"], 22.0))[0] == mine


def test_a_lattice_is_recognized_in_any_cell():
    unit = lattices.crystal("fcc", ["Al"], 4.05)
    primitive = {"elements": ["Al"], "positions": np.zeros((1, 3)), "cell": (1 - np.eye(3)) * 2.025}
    for frame in (unit, lattice.repeated(unit, (2, 1, 1)), primitive):
        name, cell = polymorphs.recognized(frame)
        assert name == "fcc"
        helpers.assert_near(np.diag(cell["cell"]), np.full(3, 4.05), 1e-9, "constant")
    zinc = lattices.crystal("hcp", ["Zn"], [2.66, 4.95])
    assert polymorphs.recognized(zinc)[0] == "hcp"
    helpers.assert_near(polymorphs.recognized(zinc)[1]["cell"], zinc["cell"], 1e-9, "c/a is kept")
    shaken = {**unit, "positions": unit["positions"] + [[0.2, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]}
    for frame in (shaken, {**unit, "elements": ["Al", "Al", "Al", "Ni"]}):
        with pytest.raises(work.NotMeasured, match="the lattice is not recognized"):
            polymorphs.recognized(frame)


def test_pairs_that_do_not_see_the_third_shell(tmp_path):
    """fcc and hcp have the same energy for them, as for a student that cannot tell the two apart."""
    unit = lattices.crystal("fcc", ["Al"], 4.0)
    with certified(tmp_path, unit, Pairs(), Pairs(0.005)) as made:
        found = polymorphs.measure(made)
    energy, teacher = values(found, "polymorph_energy"), values(found, "polymorph_energy", "teacher")
    helpers.assert_near([energy["crystal: hcp"], energy["crystal: dhcp"]], [0, 0], 0.01, "meV/atom")
    helpers.assert_near([teacher["crystal: hcp"], teacher["crystal: dhcp"]], [5, 2.5], 0.5, "meV/atom")
    assert energy["crystal: bcc"] > 50
    assert values(found, "polymorph_order") == {"crystal": "different"}


@pytest.mark.parametrize("lost", ["model", "teacher", "both"])
def test_a_lattice_that_becomes_another_is_not_compared(lost, tmp_path):
    """A student that loses what its teacher keeps fails; what the teacher loses has no bars."""
    model, teacher = Pairs() if lost == "teacher" else Bain(), Pairs() if lost == "model" else Bain()
    with certified(tmp_path, lattices.crystal("fcc", ["Al"], 4.0), model, teacher) as made:
        rows = {(r["quantity"], r["group"]): r for r in polymorphs.measure(made)["rows"]}
    bcc, order = rows["polymorph_energy", "crystal: bcc"], rows["polymorph_order", "crystal"]
    if lost == "model":
        assert verdict(bcc, 1e9) == ("FAIL", "became another lattice, which the teacher's does not")
        assert verdict(order, "same") == ("FAIL", "bcc: became another lattice, which the teacher's does not")
        return
    assert bcc["value"] is None and bcc["applies"] is False
    assert bcc["note"] == "the teacher's became another lattice: there is nothing to compare"
    assert order["value"] == "same" and "bcc" not in order["note"]


@pytest.mark.parametrize("lost", ["model", "teacher"])
def test_a_crystal_that_becomes_another_lattice_is_not_compared(lost, tmp_path):
    """Its length alone would pass a bar."""
    sides = (Bain(), Pairs()) if lost == "model" else (Pairs(), Bain())
    why = "the crystal became another lattice, which the teacher's does not"
    why = why if lost == "model" else "the teacher's crystal became another lattice: there is nothing to compare"
    with certified(tmp_path, lattices.crystal("bcc", ["Fe"], 3.2), *sides) as made:
        rows = [r for do in (crystals, polymorphs, faults, surfaces) for r in do.measure(made)["rows"]]
        rows += [r for do in (crystals.phonons, defects.vacancy) for r in do(made)["rows"]]
    assert len(rows) == 9
    for r in rows:
        assert r["value"] is None and r["note"] == why
        assert verdict(r, "same" if r["quantity"] == "polymorph_order" else 1e9)[0] == {"model": "FAIL"}.get(lost, NOT)


def test_order_of_lattices():
    teacher = {"fcc": 0.0, "dhcp": 0.001, "hcp": 0.015, "bcc": 0.06}
    assert polymorphs.order({**teacher, "dhcp": -0.001}, teacher)[0] == "same"  # 1 meV/atom does not count
    word, note = polymorphs.order({**teacher, "hcp": -0.0001}, teacher)
    assert word == "different" and "hcp is not above fcc" in note and "teacher: fcc < dhcp < hcp < bcc" in note


def test_lattices_of_stillinger_and_weber(tmp_path):
    """Those of Balamane, Halicioglu, Tiller, Phys. Rev. B 46, 2250 (1992), who scale the potential to 4.63 eV. It knows
    first neighbors only, so that hexagonal diamond has the energy of diamond."""
    with certified(tmp_path, lattices.crystal("diamond", ["Si"], 5.43), _lammps(SILICON, ["Si"])) as made:
        found = polymorphs.measure(made)
    energy, published = values(found, "polymorph_energy"), {"beta-tin": 213, "sc": 293, "bcc": 300, "fcc": 423}
    helpers.assert_near(energy["crystal: hexagonal diamond"], 0.0, 0.01, "meV/atom")
    for name, wanted in published.items():
        helpers.assert_near(energy[f"crystal: {name}"], wanted * 4.3366 / 4.63, 0.5, f"{name}, meV/atom")
    assert values(found, "polymorph_order")["crystal"] is None  # there is no teacher


def test_defects_of_mendelev_s_iron(tmp_path):
    """Vacancy 1.71 eV, its barrier 0.63 eV, <110> interstitial 3.53 eV (Mendelev et al., Phil. Mag. 83, 3977 (2003));
    the teacher is the same potential."""
    unit = lattices.crystal("bcc", ["Fe"], 2.8553)
    potentials = [_lammps(IRON, ["Fe"]) for _ in range(2)]
    with certified(tmp_path, unit, *potentials, name="Fe bcc") as made:
        found, hop = defects.vacancy(made), defects.migration(made)
        row = defects._interstitial_rows(made, made.systems[0], "110")
    helpers.assert_near(values(found, "vacancy_energy")["Fe bcc"], 1.71, 0.02, "vacancy, eV")
    assert values(found, "relaxed_force")["Fe bcc vacancy"] < 2 * lattice.FORCE
    helpers.assert_near(values(hop, "migration_barrier")["Fe bcc"], 0.63, 0.03, "barrier, eV")
    helpers.assert_near(values(hop, "migration_barrier", "teacher")["Fe bcc"], 0.63, 0.03, "barrier, eV")
    helpers.assert_near(row[0]["value"], 3.53, 0.08, "<110>, eV")
    assert row[0]["teacher"] == row[0]["value"] and row[1]["value"] < 2 * defects.FORCE
    assert f"teacher on the model's geometry: {row[0]['value']:.3f} eV" in row[0]["note"]


def test_starts_of_interstitials(monkeypatch):
    """Holes are as far from atoms as in the ideal lattice, dumbbells lie along their directions."""
    far = {"fcc": (0.5, 0.433), "bcc": (0.5, 0.559), "diamond": (0.433, 0.415), "sc": (0.866,)}
    nearest = lambda f: np.linalg.norm(
        defects.vectors(f["positions"][-1:], f["positions"][:-1], f["cell"]), axis=-1
    ).min()
    for name, wanted in far.items():
        unit = lattices.crystal(name, ["Al"], 4.0)
        with monkeypatch.context() as patch:
            patch.setattr(defects.builders, "PUSHES", 0)
            found = dict(defects.interstitials(name, unit))
        assert len(found) == 3 + len(wanted)
        for (key, frame), distance in zip(list(found.items())[3:], wanted):
            helpers.assert_near(nearest(frame) / 4.0, distance, 1e-3, f"{name} {key}")
        near = lattice.nearest_distance(defects.supercell(unit))
        for key, frame in defects.interstitials(name, unit):
            if name != "sc":  # a row of a small cell has no room
                assert nearest(frame) > defects.builders.SPLIT * near - 1.01 * defects.builders.CLOSE, (name, key)
            moved = frame["positions"] - found[key]["positions"]
            helpers.assert_near(moved.sum(0), np.zeros(3), 1e-6, f"{name} {key}")
            if key in ("110", "111"):
                a, b = frame["positions"][[0, -1]]
                along = np.array([float(c) for c in key])
                helpers.assert_near(
                    (b - a) / np.linalg.norm(b - a), along / np.linalg.norm(along), 1e-6, f"{name} {key}"
                )


def test_holes_of_hcp():
    """sqrt(1/2) and sqrt(3/8) of the neighbor distance from six and four atoms."""
    unit = polymorphs.made("hcp", ["Mg"], 23.0)
    big = defects.supercell(unit)
    for (key, fractions), n in zip(defects.HOLES["hcp"].items(), (6, 4)):
        d = defects.vectors(np.array([fractions]) @ unit["cell"], big["positions"], big["cell"])
        d = np.sort(np.linalg.norm(d, axis=-1)[0])
        wanted = lattice.nearest_distance(big) * {6: 0.5**0.5, 4: 0.375**0.5}[n]
        helpers.assert_near(d[:n], np.full(n, wanted), 1e-6, key)
        assert d[n] > 1.2 * wanted
    assert [key for key, _ in defects.interstitials("hcp", unit)] == ["octahedral", "tetrahedral"]


def test_compounds_have_no_defects_of_their_own(tmp_path):
    with certified(tmp_path, lattices.crystal("rocksalt", ["Na", "Cl"], 5.6), Pairs()) as made:
        for do, quantity in (
            (defects.vacancy, "vacancy_energy"),
            (defects.interstitial, "interstitial_energy"),
            (defects.migration, "migration_barrier"),
        ):
            row = next(r for r in do(made)["rows"] if r["quantity"] == quantity)
            assert row["value"] is None and row["note"].startswith("a compound") and row["applies"] is False


def test_band_finds_a_saddle_point():
    """E = (x^2 - 1)^2 + 2 (y - x^2 / 2)^2 for one atom: 1 eV high at (0, 0), a curved path."""

    def evaluate(frames):
        out = []
        for f in frames:
            x, y = f["positions"][0, :2]
            bend = y - x * x / 2
            slope = [4 * x * (x * x - 1) - 4 * bend * x, 4 * bend, 0.0]
            out.append({"energy": (x * x - 1) ** 2 + 2 * bend**2, "forces": -np.array([slope])})
        return out

    ends = [{"elements": ["H"], "positions": np.array([[x, 0.5, 0.0]]), "cell": 9.0 * np.eye(3)} for x in (-1.0, 1.0)]
    images, energies = neb.path(evaluate, *ends)
    assert len(images) == 7
    helpers.assert_near(max(energies), 1.0, 2e-3, "barrier")
    helpers.assert_near(images[int(np.argmax(energies))]["positions"][0], [0, 0, 0], 0.02, "saddle point")
    with pytest.raises(lattice.NotRelaxed, match="the path is not relaxed"):
        neb.STEPS, steps = 3, neb.STEPS
        try:
            neb.path(evaluate, *ends)
        finally:
            neb.STEPS = steps
