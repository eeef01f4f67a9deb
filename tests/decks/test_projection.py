"""The cost model of benchmarks/projection.py: geometry against LAMMPS' own, planted constants, published runs."""

import dataclasses
import json
import math
import os
import re
import subprocess

import numpy as np
import pytest

import projection
from mlff_tools.model import modelfile
from mlff_tools.model.lammps import environment, find_lmp, find_mpiexec

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DECKS = os.path.join(ROOT, "benchmarks", "decks")
MODEL = os.path.join(ROOT, "models", "water-benzene-student.yaml")
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
GAS = """units metal
region all block 0 {box[0]} 0 {box[1]} 0 {box[2]}
create_box 1 all
create_atoms 1 random {n} 4711 NULL
mass 1 1.0
pair_style zero 5.0
pair_coeff * *
neighbor 1.5 bin
run 0
"""


def lammps(place, ranks, *arguments):
    """(grid, mean number of ghosts of a rank) that LAMMPS prints."""
    words = [find_lmp(), "-log", "none", "-nocite", *map(str, arguments)]
    words = [find_mpiexec(find_lmp()), "-n", str(ranks), *words] if ranks > 1 else words
    done = subprocess.run(
        words,
        cwd=place,
        env=environment(find_lmp()),
        stdin=subprocess.DEVNULL,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    grid = re.findall(r"(\d+) by (\d+) by (\d+) MPI processor grid", done.stdout)[-1]
    return tuple(map(int, grid)), float(re.findall(r"^Nghost:\s+(\S+) ave", done.stdout, re.M)[-1])


@pytest.mark.parametrize("ranks,box", [(1, (60, 40, 30)), (2, (60, 40, 30)), (4, (40, 40, 40)), (8, (70, 30, 12))])
def test_geometry_of_a_gas(ranks, box, tmp_path):
    """The grid that LAMMPS chooses, and its ghosts: of random atoms, whose number scatters; thin boxes, too."""
    n = 4000
    (tmp_path / "in.gas").write_text(GAS.format(box=box, n=n), encoding="ascii")
    grid, found = lammps(tmp_path, ranks, "-in", "in.gas")
    assert projection.grid_of(ranks, box) == grid
    expected = projection.ghosts([b / k for b, k in zip(box, grid)], n / math.prod(box), 6.5)
    assert abs(found - expected) < 4 * math.sqrt(expected / ranks) + 0.01 * expected, (found, expected)


@pytest.mark.parametrize("ranks", (1, 2))
def test_geometry_of_the_deck(ranks, tmp_path):
    """1536 atoms of water: the walls of the unit of which they are copies run through few atoms, so 8 % are missing."""
    values = {"steps": 1, "equilibrate": 0, "warmup": 0, "folder": DECKS, "model": MODEL, "plugin": PLUGIN}
    words = [w for name, value in values.items() for w in ("-var", name, value)]
    grid, found = lammps(tmp_path, ranks, "-in", os.path.join(DECKS, "in.scaling"), *words)
    box = [2 * projection.UNIT] * 3
    assert projection.grid_of(ranks, box) == grid
    expected = projection.ghosts(
        [b / k for b, k in zip(box, grid)], 1536 / math.prod(box), modelfile.load_yaml(MODEL)["cutoff"] + 1.0
    )
    assert found == pytest.approx(expected, rel=0.10)


def test_messages():
    """Undivided directions need none; a rank thinner than the reach hears from neighbours of neighbours."""
    assert projection.halo((10, 10, 10), (1, 1, 1), 6) == (0, 0)
    assert projection.halo((10, 10, 10), (2, 1, 1), 6) == (2 * 6 * 100, 2)
    assert projection.halo((10, 10, 4), (1, 1, 4), 6) == (2 * 6 * 22 * 22, 4)
    volume, messages = projection.halo((10, 12, 14), (2, 2, 2), 3)
    assert messages == 6 and volume == pytest.approx(16 * 18 * 20 - 10 * 12 * 14)


def test_what_is_sent():
    """For each layer but the first 6 F numbers forward and 4 F back; of an atom with several images once."""
    assert projection.Pattern.painn(64, 2, 4.5, 1.0).features == (1536, 1024)
    assert projection.Pattern.painn(64, 1, 4.5, 1.0).features == ()
    assert sum(projection.Pattern.painn(64, 3, 4.5, 1.0, bytes_per_number=2).features) == 2 * 1280
    assert projection.others((10, 10, 5), (10, 10, 10), (1, 1, 2), 6) == 10 * 10 * 5
    assert projection.others((10, 10, 5), (10, 20, 20), (1, 2, 4), 3) == 10 * 16 * 11 - 500


PLANTED = projection.Machine(overhead=3e-4, atom=1.2e-5, ghost=4e-7, latency=2.5e-5, byte=1 / 8e9)
RUNS = [(192 * c**3 * k, p) for c in (2, 4, 8) for p, k in ((1, 1), (2, 1), (8, 1), (64, 2), (512, 3))]


def test_fit_finds_planted_constants():
    """Without noise to rounding, with 2 % of noise within some percent of what matters."""
    pattern = projection.Pattern.painn(64, 2, 4.5, 1.0)
    rows = [projection.terms(pattern, n, p) for n, p in RUNS]
    exact = [projection.step_seconds(PLANTED, pattern, n, p) for n, p in RUNS]
    for name, value in dataclasses.asdict(projection.fit(rows, exact)).items():
        assert value == pytest.approx(getattr(PLANTED, name), rel=1e-6), name
    noisy = np.array(exact) * (1 + 0.02 * np.random.default_rng(3).standard_normal(len(exact)))
    found = projection.fit(rows, noisy)
    assert found.atom == pytest.approx(PLANTED.atom, rel=0.05)
    for n, p in ((1e6, 64), (1e7, 1024)):
        truth = projection.step_seconds(PLANTED, pattern, n, p)
        assert projection.step_seconds(found, pattern, n, p) == pytest.approx(truth, rel=0.1)


def test_fit_leaves_out_what_is_not_there():
    """A machine whose messages cost nothing, and none of whose constants may become negative."""
    pattern = projection.Pattern.painn(64, 2, 4.5, 1.0)
    free = dataclasses.replace(PLANTED, latency=0.0, byte=0.0)
    rows = [projection.terms(pattern, n, p) for n, p in RUNS]
    found = projection.fit(rows, [projection.step_seconds(free, pattern, n, p) for n, p in RUNS])
    assert found.latency < 1e-3 * PLANTED.latency and found.byte < 1e-3 * PLANTED.byte
    assert found.atom == pytest.approx(free.atom, rel=1e-6)


@pytest.mark.parametrize("data,bound", [(projection.LAMMPS_ANI, 0.17), (projection.ALLEGRO, 0.22)])
def test_published_runs(data, bound):
    """Runs that were not fitted come out within what docs/clusters.md says."""
    rows = projection.deviations(data, projection.fit_published(data))
    checked = [abs(off) for *_, off, fitted in rows if not fitted]
    assert len(checked) >= 2 and max(checked) < bound, rows
    assert len([r for r in rows if r[5]]) >= 3


def test_projection():
    """More GPUs are faster and less efficient; what does not fit has no number."""
    machine = projection.fit_published(projection.LAMMPS_ANI)
    rows = projection.project(machine, projection.LAMMPS_ANI["pattern"], 1.25e6, (1e8, 1e9), (8, 128, 1024, 10000))
    cells = {(n, p): (rate, e) for n, p, rate, e in rows}
    assert cells[1e8, 8] == cells[1e9, 128] == (None, None) and cells[1e9, 1024][1] == 1.0
    assert cells[1e9, 10000][0] > 7 * cells[1e9, 1024][0] and cells[1e8, 10000][1] < cells[1e8, 1024][1] < 1


def test_program(tmp_path, capsys):
    """Assumptions come first; numbers of one's own replace them; the picture is there."""
    assert projection.main(["--us-per-atom", "2", "--plot", str(tmp_path / "p.svg")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Assumptions") and "given on the command line" in text and "was not fitted: " in text
    assert (tmp_path / "p.svg").stat().st_size > 10000
    with pytest.raises(SystemExit, match="--bandwidth must be positive"):
        projection.main(["--bandwidth", "0"])


def test_measured_reports(tmp_path, capsys):
    """Reports of `mlff scaling` made from planted constants give these back; ranks that share processors are out."""
    pattern = projection.Pattern.painn(64, 2, 4.5, 1.0)
    rows = []
    for copies in (1, 2, 4, 8):
        for ranks in (1, 2):
            box = [projection.UNIT * copies] * 3
            ms = 1e3 * projection.step_seconds(PLANTED, pattern, 192 * copies**3, ranks, box)
            rows.append(
                {
                    "box": f"{copies}x{copies}x{copies}",
                    "ranks": ranks,
                    "grid": f"1 x 1 x {ranks}",
                    "n_atoms": 192 * copies**3,
                    "median_ms": ms,
                    "oversubscribed": False,
                }
            )
    rows.append({**rows[-1], "ranks": 8, "median_ms": 1e6, "oversubscribed": True})
    report = {
        "format": "mlff-scaling/1",
        "mode": "strong",
        "model": "water-benzene-student",
        "context": {"skin": 1.0},
        "rows": rows,
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    assert projection.main(["--measured", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Assumptions") and "Fitted to 8 runs" in text and "12 us per atom" in text
    assert len(re.findall(r" [+-]0\.0 %", text)) == 8, text
    path.write_text(json.dumps({**report, "rows": rows[:3]}), encoding="utf-8")
    with pytest.raises(SystemExit, match="3 runs are too few"):
        projection.main(["--measured", str(path)])
