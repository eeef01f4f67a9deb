"""mlff plot: pictures and numbers of logs, dumps, extended XYZ, reports and certificates."""

import json
import os

import numpy as np
import pytest

from mlff_tools.certify import correlations
from mlff_tools.report import plot, runs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CERTIFICATE = os.path.join(ROOT, "models", "certificates", "copper-m.json")
HEAD = "   Step          Temp          TotEng         Econserve      Press          Density\n"


def log_text(rows, units="metal", timestep="0.002", head=HEAD):
    """A log as LAMMPS writes it, in two runs that continue each other."""
    half = len(rows) // 2
    lines = lambda part: "".join(" ".join(f"{v:.8g}" for v in row) + "\n" for row in part)
    tail = "Loop time of 1.0 on 1 procs for 100 steps with 64 atoms\n\n"
    return (
        f"units           {units}\ntimestep        ${{dt}}\ntimestep        {timestep}\n"
        f"{head}{lines(rows[: half + 1])}{tail}{head}{lines(rows[half:])}{tail}"
    )


def thermo(n=400, seed=1):
    rng = np.random.default_rng(seed)
    steps = 10 * np.arange(n + 1)
    noise = rng.normal(size=(3, n + 1))
    rows = [
        steps,
        300 + 10 * noise[0],
        -100 + noise[1],
        -90 + 0.002 * steps * 0.5 + 0.01 * noise[2],
        0 * steps,
        0 * steps + 1,
    ]
    return np.array(rows).T


def run(*words):
    return plot.main([str(w) for w in words])


def test_a_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = thermo()
    (tmp_path / "log.lammps").write_text(log_text(rows))
    assert run("log.lammps", "-o", "x.npz") == 0
    found = np.load("x.npz")
    assert np.allclose(found["Temperature | x"], 0.002 * rows[:, 0])  # ps; the row at the seam counts once
    assert np.allclose(found["Temperature | y"], rows[:, 1], rtol=1e-6)
    assert np.allclose(found["Conserved quantity - begin | y"], rows[:, 3] - rows[0, 3], atol=1e-5)
    assert run("log.lammps") == 0 and (tmp_path / "log.lammps.png").read_bytes().startswith(b"\x89PNG")
    assert "5 panels: Temperature;" in capsys.readouterr().out


def label_of(panels, title):
    (panel,) = [p for p in panels if p["title"] == title]
    return panel["curves"][0]["label"]


def test_means_and_drift_have_intervals(tmp_path):
    path = tmp_path / "log.lammps"
    path.write_text(log_text(thermo()))
    panels = plot.of_log(str(path), "", 0.0)
    value, error = label_of(panels, "Temperature").split(" K")[0].split(" $\\pm$ ")
    assert abs(float(value) - 300) < 2 * float(error) < 5
    drift, error = (
        label_of(panels, "Conserved quantity - begin").removeprefix("drift ").split(" eV")[0].split(" $\\pm$ ")
    )
    assert float(drift) == pytest.approx(0.5, abs=2 * float(error)) and float(error) < 0.05  # eV/ps planted
    assert label_of(panels, "Total energy - begin").startswith("slope ")  # in NVT it is no drift


def test_a_short_run_has_no_interval(tmp_path):
    path = tmp_path / "log.lammps"
    path.write_text(log_text(thermo(6)))
    assert "too short for an interval" in label_of(plot.of_log(str(path), "", 0.0), "Temperature")


def test_the_begin_is_left_out(tmp_path):
    rows = thermo()
    rows[:200, 1] = 1000.0
    path = tmp_path / "log.lammps"
    path.write_text(log_text(rows))
    panels = plot.of_log(str(path), "", 4.0)
    assert float(label_of(panels, "Temperature").split(" ")[0]) == pytest.approx(300, abs=2)
    assert panels[0]["begin"] == 4.0


@pytest.mark.parametrize(
    "units, timestep, ps",
    [("metal", "0.001", 0.001), ("real", "2.0", 0.002), ("real", "${dt}", 0.001), ("lj", "0.005", None)],
)
def test_time_of_units(units, timestep, ps, tmp_path):
    path = tmp_path / "log.lammps"
    path.write_text(log_text(thermo(20), units, timestep))
    time = runs.read_log(str(path)).time
    assert time is None if ps is None else time[-1] == pytest.approx(200 * ps)


def joined(*parts, head=HEAD):
    """A log of runs with their own text before and after."""
    out = "units metal\n"
    for before, rows, after in parts:
        lines = "".join(" ".join(f"{v:.8g}" for v in row) + "\n" for row in rows)
        out += f"{before}\n{head}{lines}Loop time of 1.0 on 1 procs for 100 steps with 64 atoms\n{after}\n"
    return out


def test_a_gap_in_the_count_of_steps_is_no_time(tmp_path):
    rows = thermo(40)
    later = rows.copy()
    later[:, 0] += 100000
    path = tmp_path / "log.lammps"
    path.write_text(joined(("timestep 0.001", rows, ""), ("reset_timestep 100000", later, "")))
    assert runs.read_log(str(path)).time[-1] == pytest.approx(0.4)


def test_minimizations_are_no_dynamics(tmp_path):
    rows, relaxed = thermo(40), thermo(20)
    relaxed[:, 1] = 0.0
    path = tmp_path / "log.lammps"
    path.write_text(joined(("minimize 0 0 10 10", relaxed, "Minimization stats:"), ("run 400", rows, "")))
    log = runs.read_log(str(path))
    assert len(log.time) == 41 and log.columns["Temp"].min() > 200


def test_the_column_of_time_counts(tmp_path):
    """As of fix dt/reset, whose time step changes."""
    rows = thermo(40)
    rows[:, 1] = 0.01 * rows[:, 0] ** 1.5
    path = tmp_path / "log.lammps"
    path.write_text(joined(("timestep 0.001", rows, ""), head=HEAD.replace("Temp", "Time")))
    assert np.allclose(runs.read_log(str(path)).time, 0.01 * rows[:, 0] ** 1.5)


def test_other_lines_of_numbers_are_no_rows(tmp_path):
    """As fix print writes them."""
    rows = thermo(40)
    text = joined(("timestep 0.001", rows, "")).replace("\n100 ", "\n90 9 9 9 9 9\n-1 2 3 4 5 6\n100 ")
    path = tmp_path / "log.lammps"
    path.write_text(text)
    assert len(runs.read_log(str(path)).time) == 41


def test_a_run_that_failed_is_said(tmp_path, capsys):
    rows = thermo(40)
    path = tmp_path / "log.lammps"
    path.write_text(joined(("timestep 0.001", rows, "")).split("Loop time")[0] + "ERROR: Lost atoms: original 64\n")
    assert len(plot.of_log(str(path), "", 0.0)) == 5
    assert "warning: " in (said := capsys.readouterr().err) and "the run ended with ERROR: Lost atoms" in said


def test_a_log_with_another_count_of_steps(tmp_path):
    """reset_timestep, other columns: the last run is plotted. Warnings between rows are passed over."""
    rows = thermo(20)
    text = log_text(rows) + log_text(rows[:11])
    path = tmp_path / "log.lammps"
    path.write_text(text.replace("\n100 ", "\nWARNING: atoms are hot (src/x.cpp:1)\n100 "))
    assert len(runs.read_log(str(path)).time) == 11


def dump_text(frames, cell, elements, columns="x y z", time=None, units="metal", flags="pp pp pp"):
    out = []
    for k, x in enumerate(frames):
        out += ["ITEM: UNITS", units] if units and not k else []
        out += ["ITEM: TIME", f"{k * time}"] if time else []
        out += ["ITEM: TIMESTEP", f"{100 * k}", "ITEM: NUMBER OF ATOMS", f"{len(x)}", f"ITEM: BOX BOUNDS {flags}"]
        out += [f"0.0 {length}" for length in np.diag(cell)]
        out.append(f"ITEM: ATOMS id type element {columns}")
        order = np.random.default_rng(k).permutation(len(x))  # LAMMPS does not sort
        out += [f"{i + 1} 1 {elements[i]} {' '.join(map(repr, x[i].tolist()))}" for i in order]
    return "\n".join(out) + "\n"


def walk(n_frames, n=60, length=12.0, d=1.0, dt=0.1, seed=2):
    """Random walks of coefficient d, A^2/ps, in a box, wrapped."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_frames, n, 3)) * np.sqrt(2 * d * dt)
    return rng.uniform(0, length, (n, 3)) + np.cumsum(steps, 0), np.eye(3) * length


def test_radial_distribution_and_diffusion(tmp_path):
    """Random walkers, wrapped into their box: g(r) = 1 of an ideal gas, and the coefficient that was planted."""
    x, cell = walk(400)
    path = tmp_path / "dump.gas"
    path.write_text(dump_text(x % 12.0, cell, ["Ar"] * 60, time=0.1))
    panels = plot.of_trajectory(runs.read_dump(str(path)), "", 0.0, None, "dump.gas")
    g, msd = panels
    y = np.array(g["curves"][0]["y"])[20:]
    assert g["title"] == "Ar-Ar: radial distribution" and abs(y.mean() - 1) < 0.02
    value, error = msd["curves"][0]["label"].removeprefix("D = ").split(" 1e-9")[0].split(" $\\pm$ ")
    assert abs(float(value) - 10) < 2 * float(error) < 8  # 1 A^2/ps are 10e-9 m2/s


@pytest.mark.parametrize("units, ps", [("metal", 0.1), ("real", 1e-4), ("lj", None), (None, None)])
def test_time_of_a_dump_has_its_units(units, ps, tmp_path):
    x, cell = walk(12)
    path = tmp_path / "dump.gas"
    path.write_text(dump_text(x % 12.0, cell, ["Ar"] * 60, time=0.1, units=units))
    time = runs.read_dump(str(path)).time
    assert time is None if ps is None else np.allclose(time, ps * np.arange(12))


def test_begin_of_a_dump_without_time(tmp_path, capsys):
    """--from counts steps there, and the missing panels are explained."""
    x, cell = walk(12)
    path = tmp_path / "dump.gas"
    path.write_text(dump_text(x % 12.0, cell, ["Ar"] * 60))
    panels = [plot.of_trajectory(runs.read_dump(str(path)), "", begin, None, "dump.gas") for begin in (0, 500)]
    assert panels[0][0]["curves"][0]["y"] != panels[1][0]["curves"][0]["y"] and len(panels[0]) == 1
    assert "no mean square displacement: no time: give --timestep" in capsys.readouterr().err


def test_radial_distribution_in_parts(monkeypatch):
    """Distances of a part of the atoms at a time give the same counts."""
    x, cell = walk(3)
    cells, names = np.array([cell] * 3), ["O"] * 20 + ["H"] * 40
    whole = correlations.rdf(x, cells, names, 3)[0]
    monkeypatch.setattr(correlations, "AT_ONCE", 100)
    parts = correlations.rdf(x, cells, names, 3)[0]
    assert all(np.array_equal(whole[pair], parts[pair]) for pair in whole)


@pytest.mark.parametrize("columns", ["x y z", "xs ys zs", "xu yu zu", "x y z ix iy iz"])
def test_columns_of_a_dump(columns, tmp_path):
    x, cell = walk(12)
    wrapped, images = x % 12.0, np.floor(x / 12.0)
    data = {
        "x y z": wrapped,
        "xs ys zs": wrapped / 12.0,
        "xu yu zu": x,
        "x y z ix iy iz": np.concatenate([wrapped, images], -1),
    }[columns]
    path = tmp_path / "dump.gas"
    path.write_text(dump_text(data, cell, ["Ar"] * 60, columns))
    t = runs.read_dump(str(path), timestep=0.001)
    assert np.allclose(t.positions - t.positions[0], x - x[0]) and np.allclose(t.time, 0.1 * np.arange(12))


def test_no_coefficient_of_a_crystal(tmp_path):
    """Atoms that vibrate, and a run that ends in their cage: a displacement, no coefficient."""
    rng = np.random.default_rng(3)
    sites = np.array([[i, j, k] for i in range(4) for j in range(4) for k in range(4)]) * 3.0
    x = sites + 0.1 * rng.normal(size=(100, 64, 3))
    path = tmp_path / "dump.crystal"
    path.write_text(dump_text(x, np.eye(3) * 12.0, ["Al"] * 64, time=0.1))
    panels = plot.of_trajectory(runs.read_dump(str(path)), "", 0.0, None, "dump.crystal")
    assert panels[-1]["curves"][0]["label"] == "too short for a diffusion coefficient"


def test_several_files_and_forms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("log.a", 1), ("log.b", 2)):
        (tmp_path / name).write_text(log_text(thermo(seed=seed)))
    magic = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for end, begin in magic.items():
        assert run("log.a", "log.b", "-o", f"both.{end}") == 0
        first = (tmp_path / f"both.{end}").read_bytes()
        assert first.startswith(begin)
        assert run("log.a", "log.b", "-o", f"both.{end}") == 0 and (tmp_path / f"both.{end}").read_bytes() == first
    assert run("log.a", "log.b", "-o", "both.npz") == 0
    found = np.load("both.npz")
    assert len(found["Temperature | log.a | y"]) == len(found["Temperature | log.b | y"]) == 401
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "both.npz",
        "both.pdf",
        "both.png",
        "both.svg",
        "log.a",
        "log.b",
    ]


def test_certificates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(CERTIFICATE, "-o", "all.png") == 0 and run(CERTIFICATE, "--figure", "phonons", "-o", "one.npz") == 0
    with open(CERTIFICATE, encoding="utf-8") as f:
        (figure,) = json.load(f)["measurements"]["phonons"]["figures"]
    found = np.load("one.npz")
    assert sum(key.endswith("| y") for key in found.files) == len(figure["curves"])
    assert np.array_equal(found["Cu: phonons | model | y"], np.array(figure["curves"][0]["y"], float), equal_nan=True)


def test_tables(tmp_path, monkeypatch, capsys):
    """Columns over the time, as mlff validate writes them; a missing value is a gap."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("step,time (ps),temperature (K)\n0,0,300\n10,0.01,\n20,0.02,310\n")
    assert run("data.csv", "-o", "x.npz") == 0
    found = np.load("x.npz")
    assert found.files == ["temperature (K) | x", "temperature (K) | y"]
    assert np.array_equal(found["temperature (K) | y"], [300, np.nan, 310], equal_nan=True)
    (tmp_path / "data.csv").write_text("a,b\n1,2\n1,2,3\n")
    assert run("data.csv") == 2 and "data.csv: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, error",
    [
        (["nowhere"], "nowhere: No such file or directory"),
        (["text"], "text: no thermodynamic output of dynamics: it needs a table whose first column is Step"),
        (["log", "-o", "x.gif"], "x.gif: the end of the name must be one of .png, .pdf, .svg, .npz"),
        (["log", "./log"], "the same file is given twice"),
        (["log", "--from", "1e6"], "log: less than two rows lie after --from 1e+06: the run has 8"),
        (["cut"], "cut: the dump has no whole frame"),
        (["flat"], "flat: the dump has no positions: it needs the columns x y z or xu yu zu"),
        (["dump", "--pair", "O-H"], "dump: has no pair O-H; there are: Ar-Ar"),
        (["open"], "open: the box is not periodic in all directions (BOX BOUNDS pp pp ff)"),
        (["short"], "short: step 0 has lines of atoms without 6 columns"),
        (["none"], "none: step 0 has 0 atoms"),
        (["words"], "words: a time step is 'zero'"),
        (["nan"], "nan: a position is not a finite number"),
        (["flat box"], "flat box: a box has no volume"),
        (["dump", "--from", "250"], "dump: 0 frames after --from 250: three or more are needed"),
        (["empty.csv"], "empty.csv: its rows do not have the 1 columns of the first line"),
        (["strange.json"], "strange.json: not a certificate of mlff certify"),
        (["other.json"], "other.json: "),
        (["half.json"], "half.json: is no JSON: "),
        ([CERTIFICATE, "--figure", "melting"], "no figure has these words in its title; there are: Error of force"),
    ],
)
def test_bad_input(words, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, cell = walk(3, n=4)
    dump = dump_text(x, cell, ["Ar"] * 4)
    files = {"text": "hello\n", "log": log_text(thermo()), "dump": dump, "cut": dump[:150], "other.json": '{"a": 1}'}
    files |= {"open": dump_text(x, cell, ["Ar"] * 4, flags="pp pp ff"), "short": dump.replace(" 1 Ar ", " Ar ")}
    files |= {"none": dump.replace("ATOMS\n4", "ATOMS\n0"), "words": dump.replace("STEP\n0", "STEP\nzero")}
    files |= {"nan": dump.replace(repr(x[0, 0, 0].item()), "nan"), "flat box": dump.replace("0.0 12.0", "0.0 0.0")}
    files |= {"empty.csv": "", "strange.json": '{"measurements": {"a": 1}}'}
    files |= {"half.json": '{"a": ', "flat": dump.replace(" x y z", " vx vy vz")}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run(*words) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"mlff plot: error: {error}") and said.err.count("\n") == 1 and not said.out
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(files)


def test_without_matplotlib(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text(log_text(thermo()))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert run("log") == 2 and "pip install matplotlib; -o NAME.npz needs none" in capsys.readouterr().err
    assert run("log", "-o", "x.npz") == 0
