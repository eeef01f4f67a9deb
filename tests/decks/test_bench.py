"""The suite runner `mlff bench`, with real but short runs of LAMMPS."""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import processes
import pytest

from mlff_tools.bench import cases as bench_cases
from mlff_tools.bench import noise, profiles
from mlff_tools.bench import publish as bench_publish
from mlff_tools.bench import results as bench_results
from mlff_tools.bench import suite as bench
from mlff_tools.bench.cases import Case
from mlff_tools.model.lammps import environment, find_lmp
from mlff_tools.report import page as report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
STUDENT = os.path.join(ROOT, "models", "water-benzene-student.yaml")
SHORT = ["--steps", "30", "--warmup", "5", "--equilibrate", "2", "--budget", "0", "--build", PLUGIN]


def run(*arguments):
    """Exit code of `mlff bench`."""
    try:
        return bench.main([str(a) for a in arguments])
    except SystemExit as e:
        return e.code


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_suite_is_written_and_goes_on(tmp_path, capsys):
    """A suite of two rounds; a lost run is made again and nothing else; the page shows one report of each case."""
    out = tmp_path / "out"
    choice = [
        "silicon-small-nve-sw",
        "aluminium-small-nvt-eam",
        "water-small-nvt-*",
        "--repeats",
        2,
        "--out",
        out,
        *SHORT,
    ]
    assert run(*choice) == 0, capsys.readouterr().err
    runs = sorted(p.name for p in (out / "runs").iterdir())
    assert len(runs) == 6 and all(re.search(r"\.r[12]\.json$", n) for n in runs), runs
    suite = read(out / "suite.json")
    row = next(r for r in suite["cases"] if r["case"].startswith("silicon"))
    medians = [read(out / "runs" / f"silicon-small-nve-sw.r{k}.json")["median_latency_ms"] for k in (1, 2)]
    assert (
        row["medians_ms"] == medians and row["n_atoms"] == 64 and row["median_ms"] == pytest.approx(np.median(medians))
    )
    assert row["spread"] == pytest.approx((max(medians) - min(medians)) / np.median(medians))
    assert read(out / "water_xs_profile.json")["n_steps"] == 25
    bars = {t["metric"]: t["bound"] for t in read(out / "water_xs_profile.json")["targets"]}
    assert bars["us_per_atom"] == 4.2 and bars["cv"] == 0.2, bars
    assert "us_per_atom" not in {t["metric"] for t in read(out / "sw_profile.json")["targets"]}, "of another model"
    assert run(*choice, "--targets", "none.yaml") == 2
    assert "there is no file of targets none.yaml" in capsys.readouterr().err
    assert {r["ensemble"]["verdict"] for r in suite["cases"]} == {"too short to say"}, "of 15 fs"
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert "Ensembles: 3 too short to say." in summary
    # one average in a row: 1 fs is 0.0864 ns/day at one step in a second
    ms, us, ns = (float(x) for x in re.search(r"silicon-small-nve-sw +64 +(\S+) +(\S+) +(\S+)", summary).groups())
    assert us == pytest.approx(1000 * ms / 64, rel=0.006) and ns == pytest.approx(86.4 / ms, rel=0.006)
    times = {p: p.stat().st_mtime_ns for p in (out / "runs").iterdir()}
    lost = out / "runs" / runs[2]
    lost.unlink()
    assert run(*choice) == 0
    assert {p for p in times if p.stat().st_mtime_ns != times[p]} == {lost}
    assert run(*choice, "--steps", 40) == 2, "runs of other settings must not be mixed"
    assert "holds runs with steps = 30" in capsys.readouterr().err
    assert report.main([str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    checks = 8 if importlib.util.find_spec("physical_validation") else 6  # which judges kinetic energies, too
    assert page.count("<details") == 3 and page.count(">too short to say</span>") == 3 + checks, "rows and checks"
    check_publication(tmp_path, out, choice, capsys)


def check_publication(tmp_path, out, choice, capsys):
    """--publish: the same numbers in small files without places and host, replaced by the next one, and nothing else
    touched."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine_profile.json").write_text("mine")
    seconds = read(out / "suite.json")["seconds"]
    assert run(*choice, "--publish", kept) == 0, capsys.readouterr().err
    assert read(out / "suite.json")["seconds"] >= seconds > 0.5, "runs that were there already keep their time"
    files = {p.relative_to(kept).as_posix(): p for p in kept.rglob("*.json")}
    reports = {"water_xs_profile.json", "sw_profile.json", "eam_profile.json"}
    assert set(files) == {*reports, "suite.json", "mine_profile.json"}, "the reports of single cases stay in DIR/cases"
    rows = read(files["suite.json"])["cases"]
    assert {row["file"] for row in rows} == reports and all(read(files[r["file"]])["name"] == r["case"] for r in rows)
    for name, path in files.items():
        text = path.read_text(encoding="utf-8")
        assert (
            len(text) < 60000
            and str(tmp_path) not in text
            and ROOT not in text
            and os.uname().nodename + '"' not in text
        ), name
        if name in reports:
            small, full = json.loads(text), read(out / name)
            for key in (
                "median_latency_ms",
                "p99_latency_ms",
                "drift",
                "n_steps",
                "components",
                "memory_peak_gb",
                "slow_steps",
            ):
                assert small[key] == full[key], (name, key)
            assert small["energy"]["series"]["total"] == pytest.approx(full["energy"]["series"]["total"], rel=1e-11)
    program = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
    shown = [program, "show", files["sw_profile.json"], files["water_xs_profile.json"]]
    table = subprocess.run(shown, stdout=subprocess.PIPE, check=False, text=True)
    assert table.returncode == 0 and "silicon-small-nve-sw" in table.stdout, table
    assert report.main([str(kept), "-o", str(tmp_path / "kept.html")]) == 0
    assert (tmp_path / "kept.html").read_text(encoding="utf-8").count("<details") == 3
    assert run("silicon-small-nve-sw", *choice[3:], "--publish", kept) == 0
    left = {p.relative_to(kept).as_posix() for p in kept.rglob("*.json")}
    assert left == {"suite.json", "sw_profile.json", "mine_profile.json"}, left
    assert run("silicon-small-nve-sw", *choice[3:], "--publish", out) == 1
    assert "use another folder" in capsys.readouterr().err


def test_ensembles_are_judged(tmp_path, capsys):
    """Aluminium by a reference potential: 300 ps of NVT at two temperatures are of their ensembles; of others they are
    not, and the exit code says so."""
    out, long = tmp_path / "out", ["--steps", 300000, "--warmup", 5, "--equilibrate", 500, "--repeats", 1]
    choice = ["aluminium-small-nvt-eam", "--var", "damp=0.2", "--build", PLUGIN, *long]
    assert run(*choice, "--temperature", "300,340", "--out", out) == 0, capsys.readouterr()
    rows = read(out / "suite.json")["cases"]
    assert sorted(r["case"] for r in rows) == [f"aluminium-small-nvt-{t}K-eam" for t in (300, 340)]
    for row in rows:
        checks = {c["name"]: c["verdict"] for c in row["ensemble"]["checks"]}
        assert set(checks.values()) <= {"PASS", "too short to say"}, (row["case"], row["ensemble"])
        assert checks["kinetic energy, mean"] == "PASS" and "total energy, two temperatures" in checks, checks
    for path in (out / "runs").iterdir():  # as if these runs had been meant for 20 % more
        value = read(path)
        value["context"]["deck"]["temperature"] = str(1.2 * float(value["context"]["deck"]["temperature"]))
        path.write_text(json.dumps(value))
    assert run(*choice, "--temperature", "300,340", "--out", out) == 3
    assert "2 FAIL. THESE ARE NOT OF THEIR ENSEMBLE: aluminium-small-nvt-300K-eam" in capsys.readouterr().out
    assert report.main([str(out)]) == 0
    assert "NOT OF THEIR ENSEMBLE" in (out / "report.html").read_text(encoding="utf-8")


def test_publication_is_brief():
    """Long series keep every k-th value and record the stride. A variable of the deck loses its folders, not its
    words."""
    n = 10000
    numbers = [1.0 + 1e-9 * k for k in range(n)]
    series = {"stride": 4, "step": list(range(n)), "total": numbers, "conserved": None}
    value = {
        "latencies_ms": numbers,
        "latencies_stride": 2,
        "memory_per_step_gb": None,
        "energy": {"mean": 1 / 3, "series": series},
        "context": {
            "host": "h",
            "cpu": "c",
            "deck": {"plugin": "/a/b.so", "options": "compare /x/y/teacher.yaml every 100"},
        },
    }
    small = bench_publish.brief(value)
    assert len(small["latencies_ms"]) == 250 and small["latencies_stride"] == 2 * 40
    block = small["energy"]["series"]
    assert block["step"] == list(range(0, n, 200)) and block["stride"] == 800 and block["conserved"] is None
    assert block["total"] == pytest.approx(numbers[::200], rel=1e-11) and small["energy"]["mean"] == 1 / 3
    assert small["context"] == {"cpu": "c", "deck": {"options": "compare teacher.yaml every 100"}}


def test_batches():
    """Replicas against one by one: 4 copies in 2 ms, where one takes 1 ms, are twice as fast."""
    rows = [
        {"case": f"replicas-{n}-nvt-m", "work": f"replicas-{n}-nvt", "potential": "m", "n_atoms": n, "median_ms": t}
        for n, t in ((48, 2.0), (12, 1.0))
    ] + [{"case": "water-small-nvt-m", "work": "water-small-nvt", "potential": "m", "n_atoms": 63, "median_ms": 1.0}]
    assert bench_results.batches(rows) == [{"potential": "m", "n_atoms": 48, "copies": 4, "speedup": 2.0}]
    assert "4 replicas in one run: 2.00x" in bench_results.batches_text(bench_results.batches(rows))
    assert bench_results.batches(rows[1:]) == [] and bench_results.batches_text([]) == ""


def test_against_is_interleaved(tmp_path, capsys):
    """The same build as A and B: both sides run in every round, and their ratio is reported for each case."""
    out = tmp_path / "out"
    assert run("benzene_gas-small-nve-*", "--against", PLUGIN, "--repeats", 2, "--out", out, *SHORT) == 0, (
        capsys.readouterr().err
    )
    comparison = read(out / "comparison_A_vs_B.json")
    assert [c["rounds"] for c in comparison["cases"]] == [2] and comparison["cases"][0]["n_atoms"] == 48
    case = comparison["cases"][0]
    files = [
        [read(out / "runs" / f"benzene_gas-small-nve-water_benzene_student-{s}.r{k}.json") for k in (1, 2)]
        for s in "AB"
    ]
    ratios = [b[case["by"]] / a[case["by"]] for a, b in zip(*files)]
    assert case["ratio"] == pytest.approx(np.median(ratios)) and case["ratio_min"] == min(ratios)


def test_ratios_of_disturbed_runs_are_of_processor_times():
    """Wall times of B are eight times as long as those of the processor, because other programs had it."""

    def row(wall, cpu, disturbed):
        return {
            **{"work": "w", "n_atoms": 10, "file": "f", "median_ms": wall, "medians_ms": [wall, wall, wall]},
            **{"cpus_ms": [cpu, cpu, cpu], "disturbed": disturbed},
        }

    (case,) = bench_results.compare([row(4.0, 3.9, 0)], [row(8.0, 1.0, 2)], "a", "b")["cases"]
    assert (case["by"], case["wall_ratio"], case["disturbed"]) == ("cpu_ms", 2.0, 2)
    assert case["speedup"] == pytest.approx(3.9)
    text = bench_results.comparison_text({"a": "a", "b": "b", "cases": [case]})
    assert "speed-up 3.90x   DISTURBED in 2 runs: by processor time; wall 0.50x" in text
    (case,) = bench_results.compare([row(4.0, 3.9, 0)], [row(2.0, 1.9, 0)], "a", "b")["cases"]
    assert (case["by"], case["speedup"]) == ("median_latency_ms", 2.0)
    (case,) = bench_results.compare([row(4.0, None, 1)], [row(2.0, 1.9, 0)], "a", "b")["cases"]
    assert (case["by"], case["cpu_ratio"]) == ("median_latency_ms", None)
    assert "in doubt" in bench_results.comparison_text({"a": "a", "b": "b", "cases": [case]})


def test_a_failing_run_is_one_error(tmp_path, capsys):
    iron = ["--system", "iron", "--potential", "mlff", "--size", "small", "--protocol", "nve"]
    assert run(*iron, "--model", STUDENT, "--out", tmp_path, *SHORT) == 1
    error = capsys.readouterr().err
    assert "LAMMPS failed" in error and "failed.log" in error and "Traceback" not in error
    assert not list((tmp_path / "runs").iterdir()) and (tmp_path / "failed.log").exists()


@pytest.mark.parametrize(
    "arguments,text",
    [
        (["--system", "gold"], "--system gold: there are water"),
        (["--size", "tiny"], "--size tiny"),
        (["--protocol", "nvx"], "--protocol nvx"),
        (["--model", "none.yaml"], "not a model file none.yaml"),
        (["--against", "nowhere"], "--against nowhere"),
        (["--build", "nowhere"], "nowhere holds no mlffplugin.so"),
        (["--steps", "10", "--warmup", "10"], "--warmup 10 must be below"),
        (["--steps", "0"], "'0' is not a whole number from 1"),
        (["--system-sizes", "32,x"], "'32,x' is not a list of whole numbers"),
        (["no-such-case"], "no case fits"),
        (["--potential", "sw"], "for water there is mlff"),
        (["--var", "x"], "use NAME=VALUE"),
        (["--temperature", "300,x"], "'300,x' is not a list of temperatures"),
        (["--system", "benzene_gas", "--protocol", "npt"], "benzene_gas has no npt"),
        (["--decks", "nowhere"], "the decks were not found"),
        (["--lmp", "nowhere"], "no such program"),
    ],
)
def test_bad_input_is_one_error(arguments, text, tmp_path, capsys):
    assert run(*arguments, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert text in error and "Traceback" not in error, error
    assert not (tmp_path / "out").exists(), "nothing half-written"


def works(out):
    """Names without the potential of the cases that run with a model."""
    names = [line.split()[0] for line in out.splitlines()]
    return sorted(n.rpartition("-")[0] for n in names if not n.endswith(("-sw", "-snap", "-eam", "-airebo", "-pod")))


def test_models_run_the_systems_that_they_know(tmp_path, capsys):
    """A shipped model is found by its name. One of all elements runs the four materials in all sizes and protocols, one
    of a single element its crystal, and models of molecules water and the gas, not liquid benzene."""
    assert run("--model", "nequix-oam-1-pft", "--list") == 0
    materials = ("benzene", "silicon", "gaas", "nacl", "aluminium", "copper", "iron")
    every = [f"{s}-{z}-{p}" for s in materials for z in bench_cases.SIZES for p in bench_cases.PROTOCOLS]
    assert works(capsys.readouterr().out) == sorted(every)
    assert run("--model", "nequix-oam-1-pft", "--suite", "quick", "--list") == 0
    assert works(capsys.readouterr().out) == sorted(f"{s}-small-nve" for s in materials)
    iron = tmp_path / "iron.yaml"
    iron.write_text("elements: [Fe]\narchitecture: painn\n")
    assert run("--model", iron, "--size", "large", "--list") == 0
    assert works(capsys.readouterr().out) == sorted(f"iron-large-{p}" for p in bench_cases.PROTOCOLS)
    of_molecules = ["--model", "water-benzene-teacher", "--size", "small", "--protocol", "nve", "--list"]
    assert run(*of_molecules, "--system", "water,benzene_gas,benzene,iron") == 0
    assert works(capsys.readouterr().out) == ["benzene_gas-small-nve", "water-small-nve"]
    broken = tmp_path / "broken.yaml"
    broken.write_text("[]")
    assert run("--model", broken, "--list") == 2 and "must hold a mapping" in capsys.readouterr().err


def test_roles(capsys):
    """`--model student`, the default, and `--model teacher` stand for those of each system."""
    nve = ["--size", "small", "--protocol", "nve", "--list"]
    assert run(*nve) == 0
    default = capsys.readouterr().out
    for system, name in bench_cases.ROLES["student"].items():
        assert f"{system}-small-nve-{bench_cases.clean(name)} " in default
    assert run("--system", "tantalum", "--potential", "mlff", *nve) == 2
    assert "tantalum: no model runs it of student (none): give another one with --model" in capsys.readouterr().err
    assert run("--system", "silicon", "--model", "student", "--model", "teacher", *nve) == 0
    found = {line.split()[0].rpartition("-")[2] for line in capsys.readouterr().out.splitlines()}
    assert found == {bench_cases.clean(of.get("silicon", "sw")) for of in bench_cases.ROLES.values()} | {"sw"}


def test_foreign_folders_are_left_alone(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine.json").write_text("{}")
    assert run("silicon-small-nve-sw", "--out", tmp_path, *SHORT) == 2
    assert "holds runs but no suite.json" in capsys.readouterr().err
    (tmp_path / "suite.json").write_text("{")
    assert run("silicon-small-nve-sw", "--out", tmp_path, *SHORT) == 2
    assert "is damaged" in capsys.readouterr().err and (tmp_path / "runs" / "mine.json").exists()


def test_cases_agree_with_the_deck():
    """Numbers of atoms, models and reference potentials of the suite are those of in.bench's table."""
    from test_bench_decks import TABLE

    for system, (atoms, _, _, references) in bench_cases.SYSTEMS.items():
        models = [bench_cases.ROLES[role].get(system, "none") for role in ("student", "teacher")]
        assert (list(atoms), *models, sorted(references)) == (*TABLE[system][:3], sorted(TABLE[system][3]))


@pytest.mark.parametrize("system", bench_cases.SYSTEMS)
def test_system_sizes_are_the_nearest(system):
    unit = bench_cases.SYSTEMS[system][1]
    for wanted in (32, 64, 128, 256, 1024):
        copies = bench_cases.copies_for(system, wanted)
        n = unit * int(np.prod(copies))
        assert max(wanted, unit) / 2 <= n <= max(wanted, unit) * 2 or n == 8 * unit, (wanted, n)
        assert max(copies) <= 4 * min(copies)


def test_other_sizes_are_said(tmp_path, capsys):
    """Two sizes that are one box; and the names of shipped models stand for the second side, too."""
    run("--system", "silicon", "--system-sizes", "32,64", "--against", "iron-m", "--list", "--out", tmp_path)
    said = capsys.readouterr()
    assert said.err == "mlff bench: silicon has 64 atoms for --system-sizes 32\n" and "error" not in said.out


def test_order_is_shuffled_in_rounds():
    """Every round has every case once; rounds differ in order, a seed repeats it; sides of a pair stand together."""
    cases = [
        bench_cases.Case("water", s, p, "mlff", STUDENT, side=x)
        for s in bench_cases.SIZES
        for p in bench_cases.PROTOCOLS
        for x in "AB"
    ]
    args = argparse.Namespace(repeats=3, seed=1, by_build=True)
    order = [(case, k) for k in (1, 2, 3) for case in bench.round_of(cases, args, k)]
    rounds = [[c for c, r in order if r == k] for k in (1, 2, 3)]
    assert all(sorted(c.name for c in r) == sorted(c.name for c in cases) for r in rounds)
    assert rounds[0] != rounds[1] and order == [(case, k) for k in (1, 2, 3) for case in bench.round_of(cases, args, k)]
    for r in rounds:
        assert all(r[k].work == r[k + 1].work for k in range(0, len(r), 2))


def test_noise_is_said():
    """How well the mean of each case is known, how often it ran, and what disturbed it."""
    quiet = {"repeats": 3, "others": 0.0, "stolen": 0.0}
    rows = [{"case": "a", "interval": 0.01, **quiet}, {"case": "b", "interval": 0.049, **quiet}]
    assert noise.sentence(rows, 10) == (
        True,
        "Noise: the mean of each case is known to within 4.9 % (95 %; worst: b; 3 repeats).",
    )
    wide = {"case": "c", "interval": 0.07, "repeats": 9, "others": 1.2, "stolen": 0.3}
    good, text = noise.sentence([*rows, wide], 10)
    assert good is False and "TOO NOISY: the means of 1 of 3 cases are not known to 5 %" in text
    assert "worst: c, 7 %; 3 to 9 repeats; the 10 min for more repeats are spent" in text
    assert "Other programs took 0.4 processors on average, at most 1.2; other machines (steal time) took" in text
    assert "No other program took time" in noise.sentence([{**wide, "others": 0.0, "stolen": 0.0}], 0)[1]
    assert noise.sentence([{"case": "a", "interval": None, **quiet}], 10)[0] is None


def test_interval():
    """Half-widths from a table of Student's t: 4.303 for three values, 2.262 for ten."""
    assert noise.interval([1.0]) is None
    assert noise.interval([0.9, 1.0, 1.1]) == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)
    ten = [1.0, 1.02] * 5
    assert noise.interval(ten) == pytest.approx(2.262 * np.std(ten, ddof=1) / 10**0.5 / 1.01, rel=1e-3)


def test_others_are_seen():
    """A program that is not ours and works for half a second; one that is ours does not count."""
    busy = [sys.executable, "-c", "import time\nend = time.time() + 0.7\nwhile time.time() < end: pass"]
    watch = noise.Watch()
    subprocess.run(busy, check=True)
    alone = watch.seen()
    watch, other = noise.Watch(), subprocess.Popen(["setsid", *busy])
    time.sleep(0.6)
    seen = watch.seen()
    other.wait()
    assert set(alone) == set(seen) == {"others", "stolen"}
    assert seen["others"] > 0.2 or seen["stolen"] > 0.2, (alone, seen)


def test_repeats_until_it_is_known(tmp_path, monkeypatch):
    """Beyond --repeats only the noisy case, and what it is compared with, runs again; until it is known or the budget
    is spent; reports that are there are read."""
    cases = [Case("water", "small", "nve", "mlff", "a"), Case("silicon", "small", "nve", "sw")]
    ran, clock = [], [0.0]

    def fake(case, args, repeat, path):
        ran.append((case.system, repeat))
        clock[0] += 20.0
        value = 1.0 + (0.2 * (-1) ** repeat if case.system == "water" and repeat < args.calm else 0.001 * repeat)
        profiles.write_json(path, {"median_latency_ms": value})
        return {"median_latency_ms": value}

    monkeypatch.setattr(bench, "run_case", fake)
    monkeypatch.setattr(bench.profiles, "read", lambda path: read(pathlib.Path(path)))
    monkeypatch.setattr(bench.time, "monotonic", lambda: clock[0])
    args = argparse.Namespace(repeats=3, seed=1, by_build=False, budget=6.0, out=str(tmp_path), seconds_before=0.0)
    args.steps = args.equilibrate = args.calm = 100
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(Case, "cost", 1.0)
    results = bench.run_all(cases, args)
    assert [len(results[case]) for case in cases] == [16, 3], "6 min, of which 2 for the first three rounds"
    assert len(ran) == 19 and set(ran[6:]) == {("water", k) for k in range(4, 17)}
    args.seconds_before = clock[0]
    assert [len(of) for of in bench.run_all(cases, args).values()] == [16, 3] and len(ran) == 19
    args.calm, args.seconds_before, args.out = 2, 0.0, str(tmp_path / "calm")
    (tmp_path / "calm" / "runs").mkdir(parents=True)
    calm = bench.run_all(cases, args)[cases[0]]
    assert 3 < len(calm) < 16 and noise.interval([r["median_latency_ms"] for r in calm]) <= noise.NARROW
    args.budget, args.repeats, args.out = 0.0, 2, str(tmp_path / "other")
    (tmp_path / "other" / "runs").mkdir(parents=True)
    assert [len(of) for of in bench.run_all(cases, args).values()] == [2, 2]


def test_files_are_whole_or_absent(tmp_path):
    profiles.write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError):
        profiles.write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read(tmp_path / "a.json") == {"x": 1} and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_numbers_as_keys_become_text():
    block = {f"field_{k}": 1.0 / (k + 3) for k in range(20)}
    assert json.loads(profiles.dumps({"by_atoms": {192: block, 648: block}})) == {
        "by_atoms": {"192": block, "648": block}
    }


def test_json_has_few_lines():
    """Nothing is lost; a field of the outermost block and a block in a list have lines of their own, fields within fill
    lines, and long ones are lists of plain values."""
    block = {f"field_{k}": 1.0 / (k + 3) for k in range(20)}
    value = {"a": 1, "b": None, "numbers": list(range(100)), "rows": [block, {}], "inner": {"s": "x", "block": block}}
    text = profiles.dumps(value)
    assert json.loads(text) == value
    lines = text.split("\n")
    assert [line.split(":")[0] for line in lines[1:5]] == [' "a"', ' "b"', ' "numbers"', ' "rows"']
    assert lines[5] == "  " + json.dumps(block) + "," and lines[6] == "  {}" and lines[9] == '  "s": "x",'
    assert lines[10] == '  "block": {' and all(80 < len(line) <= 120 for line in lines[11:16]) and len(lines) == 20


def test_program_finds_the_suite():
    """`mlff bench` and `mlff report` of the C program are these."""
    program = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
    for name in ("bench", "report", "validate"):
        done = processes.merged([program, name, "--help"], env=environment(find_lmp()))
        assert done.returncode == 0 and f"usage: mlff {name}" in done.stdout, done.stdout
