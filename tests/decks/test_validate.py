"""`mlff validate`: verdicts on made-up runs, bars where they are, structures of all kinds, and short real runs."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest

from mlff_tools.bench import validate, validation
from mlff_tools.ensemble.judge import FAIL, PASS, SHORT
from mlff_tools.train import lammps_data

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
DECKS = os.path.join(ROOT, "benchmarks", "decks")
STUDENT, WATER, SILICON = (
    os.path.join(ROOT, "models", f"{name}.yaml") for name in ("water-benzene-student", "water-xs", "silicon-m")
)


def main(*arguments):
    """Exit code of `mlff validate`."""
    try:
        return validate.main([str(a) for a in arguments])
    except SystemExit as e:
        return e.code


def trajectory(drift=0.0, wave=0.0, kelvin=300.0, n=20001, ps=100.0, free=-6318.0):
    """Rows of a run of benzene: `drift` eV/ps, `wave` eV."""
    t = np.linspace(0, ps, n)
    total = free + 0.8 + drift * t + wave * np.sin(40 * t)
    return np.stack([np.arange(n) * 10, t, np.full(n, kelvin), total - 0.4, np.full(n, 0.4), total], 1)


def judged(rows, halves=None, **more):
    args = {"steps": 200000, "temperature": 300.0, "equilibrate": 0.0, "n_atoms": 12, "dof": 30, **more}
    return validation.judged(rows, halves, SimpleNamespace(**args))


def halves(power):
    """A path in whole steps, and back in half ones, with a fluctuation that falls with this power."""
    wave = np.sin(0.7 * np.arange(401)) + np.sin(0.31 * np.arange(401))
    rows = [np.zeros((401, 6)), np.zeros((401, 6))]
    rows[0][:, 5], rows[1][:, 5] = 1e-3 * wave, 1e-3 * 0.5**power * wave[::-1]
    return rows


@pytest.mark.parametrize(
    "change,failure",
    [
        ({}, None),
        ({"drift": 5e-4}, None),
        ({"drift": 7e-4}, "drift_meV"),
        ({"wave": 0.005}, None),
        ({"wave": 0.006}, "fluctuation_percent_of_thermal"),
        ({"kelvin": 319.0}, None),
        ({"kelvin": 321.0}, "temperature_mean_K is 321, and must be within 20 of 300 K"),
        ({"n": 20000}, "steps done"),
        ({"kelvin": np.nan}, "NaN"),
        ({"drift": 0.7}, "change_percent"),
        ({"drift": 7.0}, "exploded"),
        ({"wave": 8.0, "free": 0.0}, "fluctuation_percent is"),
    ],
)
def test_verdict(change, failure):
    """Bars hold where they are: 0.05 meV/atom/ps, 0.5 % of the thermal energy, 20 K of 300 K, 1 % and 0.5 % of the
    total energy, or of the thermal one where the model leaves out the energies of free atoms."""
    result = judged(trajectory(**change))
    assert result["verdict"] == (FAIL if failure else PASS) and result["passed"] == (failure is None)
    assert any(failure in f for f in result["failures"]) if failure else not result["failures"], result
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("power,verdict", [(2, PASS), (1, FAIL), (0, FAIL)])
def test_time_step(power, verdict):
    result = judged(trajectory(), halves(power))
    assert result["verdict"] == verdict and result["timestep_exponent"] == pytest.approx(power, abs=1e-6)


def test_temperature_after_a_thermostat():
    """With few atoms it may be two standard deviations off, 2 * 300 K * sqrt(2 / dof); with many, 1/15 of it."""
    for dof, good, bad in ((186, 361.0, 363.0), (2000, 319.0, 321.0)):
        said = [judged(trajectory(kelvin=k), equilibrate=10.0, dof=dof)["verdict"] for k in (good, bad)]
        assert said == [PASS, FAIL], dof


def test_short_runs_never_pass():
    """Less than 100 ps: too short to say, whatever they look like, unless they broke."""
    for change in ({}, {"drift": 7e-4}):
        assert judged(trajectory(ps=99.0, **change))["verdict"] == SHORT
    assert judged(trajectory(ps=99.0, drift=7.0))["verdict"] == FAIL
    assert judged(trajectory(ps=99.0, n=100))["verdict"] == FAIL, "steps are missing"
    assert "PASS needs 100 ps" in validation.report_text(
        {**judged(trajectory(ps=99.0)), **dict.fromkeys(("structure", "model", "settings", "sha256"), "")}
        | {"timestep_fs": 0.5, "seed": 1, "seconds": 1.0}
    )


def test_drift_is_measured():
    result = judged(trajectory(drift=3e-4, wave=1e-3))
    assert result["drift_meV_per_atom_per_ps"] == pytest.approx(1000 * 3e-4 / 12, rel=0.01)
    assert result["fluctuation_percent_of_thermal"] == pytest.approx(100 * 1e-3 / np.sqrt(2) / 0.8, rel=0.01)


def test_benzene_runs(tmp_path, capsys):
    """The default, in short: too short to say, four files, and four in brief."""
    out, kept = tmp_path / "out", tmp_path / "kept"
    assert main(STUDENT, "--build", PLUGIN, "--out", out, "--steps", 4000, "--publish", kept) == 3
    assert capsys.readouterr().out.startswith("too short to say: NVE of a benzene molecule")
    result = json.loads((out / "validation.json").read_text())
    assert result["steps_done"] == 4000 and result["records"] == 401 and result["n_atoms"] == 12
    assert 1.0 < result["timestep_exponent"] < 3.0
    rows = np.loadtxt(out / "data.csv", delimiter=",", skiprows=1)
    assert rows.shape == (401, 6) and np.allclose(rows[:, 3] + rows[:, 4], rows[:, 5], atol=1e-5)
    assert rows[0, 2] == pytest.approx(600, abs=0.1), "starts with twice the temperature, in 30 degrees of freedom"
    assert rows[0, 4] == pytest.approx(15 * 8.617333e-5 * 600, rel=1e-3)
    assert (out / "energy.svg").stat().st_size > 10000 and "steps done" in (out / "report.txt").read_text()
    names = sorted(p.name for p in kept.iterdir())
    assert names == [f"validation-water-benzene-student.{kind}" for kind in ("csv", "json", "svg", "txt")]
    assert (kept / names[0]).read_text() == (out / "data.csv").read_text() and (kept / names[2]).stat().st_size > 10000


WATERS = """6
pbc="F F F" two molecules in empty space
O 0.0 0.0 0.0
H 0.96 0.0 0.0
H -0.24 0.93 0.0
O 0.0 0.0 2.9
H 0.0 0.76 3.49
H 0.0 -0.76 3.49
"""


def test_structures_run(tmp_path):
    """Open and periodic ones, XYZ and LAMMPS data; nothing is lost, and the temperature begins near the target."""
    (tmp_path / "waters.xyz").write_text(WATERS)
    a, x = 5.431, np.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0]]) / 4
    sites = "\n".join(f"Si {p} {q} {r}" for p, q, r in (a * np.concatenate([x, x + 0.25])).tolist())
    (tmp_path / "si.extxyz").write_text(
        f'8\nLattice="{a} 0 0 0 {a} 0 0 0 {a}" Properties=species:S:1:pos:R:3\n{sites}\n'
    )
    cases = [(WATER, tmp_path / "waters.xyz", 6, 0.5), (SILICON, tmp_path / "si.extxyz", 8, 1.0)]
    for model, path, n, step in [*cases, (WATER, os.path.join(DECKS, "data.water21"), 63, 0.5)]:
        words = [
            "--build",
            PLUGIN,
            "--out",
            tmp_path / "out",
            "--steps",
            1000,
            "--equilibrate",
            1,
            "--half-steps",
            "no",
        ]
        assert main(model, path, *words) == 3, path
        result = json.loads((tmp_path / "out" / "validation.json").read_text())
        assert (result["n_atoms"], result["timestep_fs"], result["steps_done"]) == (n, step, 1000), result
        assert 120 < result["temperature_mean_K"] < 600 and "timestep_exponent" not in result, (path, result)


def frame(cell, positions):
    return {"cell": cell, "positions": np.array(positions, float), "elements": ["H"] * len(positions)}


def test_fixed_modes():
    """Three of a periodic system; those of a molecule, of a line, and of two atoms."""
    bent, line = [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert [validate.fixed_modes(frame(None, x)) for x in (bent, line, bent[:2])] == [6, 5, 5]
    assert validate.fixed_modes(frame(np.eye(3), bent)) == 3


@pytest.mark.parametrize(
    "words,text",
    [
        (["none.yaml"], "there is not a model file none.yaml"),
        ([STUDENT, "none.xyz"], "there is no structure none.xyz"),
        ([SILICON, os.path.join(DECKS, "data.water21")], "data.water21 has O, H, which silicon-m.yaml does not know"),
        ([SILICON], "benzene has C, H, which silicon-m.yaml does not know: its elements are Si. Give a model"),
        (["direct.yaml"], "(architecture orb) has forces of its own, not the gradient of its energy"),
        ([WATER, "waters.xyz", "--open"], "--open is for data files of LAMMPS"),
        ([WATER, "one.xyz"], "one atom has no energy to exchange"),
        ([WATER, "slab.xyz"], "pbc without Lattice"),
        ([WATER, "bad.data"], "bad.data: it has no box"),
        ([STUDENT, "--steps", 50], "--steps must be at least 100"),
        ([STUDENT, "--timestep", 0], "--timestep: '0' is not a number above 0"),
        ([STUDENT, "--decks", "nowhere"], "in.validate was not found"),
    ],
)
def test_bad_input_is_one_error(words, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = "format: mlff/1\nname: direct\narchitecture: orb\nelements: [C, H, O]\ncutoff: 6\nweights: {}\ndomain: {}\n"
    (tmp_path / "direct.yaml").write_text(head)
    (tmp_path / "waters.xyz").write_text(WATERS)
    (tmp_path / "one.xyz").write_text("1\n\nO 0 0 0\n")
    (tmp_path / "slab.xyz").write_text(WATERS.replace("F F F", "T T F"))
    (tmp_path / "bad.data").write_text("nothing\n")
    assert main(*words, "--build", PLUGIN, "--out", "out") == 2
    error = capsys.readouterr().err
    assert text in error and "Traceback" not in error, error
    assert not (tmp_path / "out").exists()


def test_what_lammps_refuses_is_one_error(tmp_path, capsys):
    words = [STUDENT, "--build", PLUGIN, "--out", tmp_path / "out", "--steps", "400", "--settings", "precision fp8"]
    assert main(*words) == 2
    assert "LAMMPS did not run" in capsys.readouterr().err and not os.path.exists(tmp_path / "out")


# ---- data files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", lammps_data.ATOM_STYLES)
def test_data_files_come_back(style):
    """What data_text writes, in every atom style and with a tilted cell, in the order of the numbers."""
    rng = np.random.default_rng(1)
    cell = np.array([[5.0, 0, 0], [1.5, 6, 0], [-0.7, 0.9, 7]])
    wanted = {"elements": ["O", "H", "Si", "H"], "positions": rng.uniform(0, 5, (4, 3)), "cell": cell}
    text = lammps_data.data_text(wanted, ["H", "Si", "O"], style)
    head, lines = text.split(f"Atoms # {style}\n\n")
    text = f"{head}Atoms # {style}\n\n" + "\n".join(reversed(lines.splitlines())) + "\n\nVelocities\n\n1 0 0 0\n"
    found = lammps_data.parse_data(text)
    assert found["elements"] == wanted["elements"]
    np.testing.assert_allclose(found["positions"], wanted["positions"], atol=1e-12)
    np.testing.assert_allclose(found["cell"], cell, atol=1e-12)


DATA = "title\n\n2 atoms\n1 atom types\n\n1 6 xlo xhi\n1 6 ylo yhi\n1 6 zlo zhi\n\nMasses\n\n1 15.9994\n\nAtoms{}\n\n"


def test_data_files_with_flags_and_without_a_style():
    rows = "1 1 1.0 2.0 3.0 0 0 1\n2 1 4.0 2.0 3.0 0 0 0\n"
    assert lammps_data.parse_data(DATA.format("") + rows)["positions"].tolist() == [[0, 1, 2], [3, 1, 2]]
    opened = lammps_data.parse_data(DATA.format("  # atomic") + rows, periodic=False)
    assert opened["cell"] is None and opened["positions"].tolist() == [[1, 2, 8], [4, 2, 3]]
    for text, why in (
        (DATA.replace("title", "write_data, units = lj").format("") + rows, "its units are lj"),
        (DATA.format(" # sphere") + rows, "its atom style is sphere"),
        (DATA.format(" # full") + rows, "not those of the atom style full"),
        (DATA.format("").replace("Masses", "Weights") + rows, "no section Masses"),
        (DATA.format("") + rows.replace("1 1 1.0", "1 2 1.0"), "the type 2 of atom 1 has no mass"),
    ):
        with pytest.raises(lammps_data.FrameError, match=why):
            lammps_data.parse_data(text)
    with pytest.raises(lammps_data.FrameError, match="no element has the mass 5 g/mol"):
        lammps_data.element_of(5.0)
