"""LAMMPS with pair_style mlff and fix mlffprof while disks are full or broken: the run goes on with a warning for each
file, and each file has whole pieces only."""

import json
import os
import re
import signal
import struct
import sys

import pytest
from injection import ERRORS, HEAD, KINDS, Fault, content
from nightly import NIGHTLY
from programs import ROOT, is_whole

sys.path.insert(0, os.path.join(ROOT, "tests", "lammps"))
import models  # noqa: E402

LMP = os.environ.get("MLFF_LMP", os.path.join(os.path.dirname(sys.executable), "lmp"))
MPIEXEC = os.environ.get("MLFF_MPIEXEC", os.path.join(os.path.dirname(LMP), "mpiexec"))
PLUGIN = os.path.abspath(os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so")))
STEPS = 8
# Files of a case: what warnings call them is their name, too.
FILES = ("report.json", "spans.trace.json", "frames.xyz", "deviation.out", "deviation.dump")
CASE = f"""
shell dd if={{states}}/none of={{state}} conv=notrunc status=none
clear
units metal
read_data {{data}}
pair_style mlff out_file {{k}}.deviation.out out_freq 1 devi_dump 1.0e-9 dump_file {{k}}.deviation.dump
pair_coeff * * {{models}}/ani.yaml O H
fix move all nve
timestep 0.0002
thermo 1000
fix prof all mlffprof 1 warmup 0 file {{k}}.report.json trace {{k}}.spans.trace.json table no &
  compare {{models}}/gaussian.yaml every 1 dump {{k}}.frames.xyz above 1.0e-9
shell dd if={{states}}/{{k}} of={{state}} conv=notrunc status=none
{{limit}}
run {STEPS} post no
unfix prof
pair_style none
print "CASE {{k}} WENT ON $(step)"
"""


def data_text():
    """Eight molecules of water."""
    lines = ["water", "", "24 atoms", "2 atom types", "", *(f"0.0 6.4 {a}lo {a}hi" for a in "xyz"), ""]
    lines += ["Masses", "", "1 15.999", "2 1.008", "", "Atoms # atomic", ""]
    for k in range(8):
        corner = [0.4 + 3.2 * (k >> axis & 1) for axis in range(3)]
        for n, (kind, x) in enumerate(((1, (0, 0, 0)), (2, (0.96, 0, 0)), (2, (-0.24, 0.93, 0)))):
            lines.append(f"{3 * k + n + 1} {kind} " + " ".join(str(c + d + 0.01 * k) for c, d in zip(corner, x)))
    return "\n".join(lines) + "\n"


class Deck:
    """Cases in one LAMMPS: each sets a fault when it begins, and so becomes a run of its own to faults.c."""

    def __init__(self, faults, folder, ranks):
        self.faults, self.folder, self.ranks = faults, folder, ranks
        (folder / "states").mkdir(exist_ok=True)
        (folder / "data.water").write_text(data_text())
        models.ani(folder / "ani")
        models.painn(folder / "gaussian", kind="gaussian")

    def run(self, cases, limit="", **more):
        """What LAMMPS ended with and {case: what it said}, for the faults of the cases. limit: a command before the
        run."""
        text = f"plugin load {PLUGIN}\n"
        for k, fault in cases.items():
            values = [KINDS.index(fault.kind), fault.position, fault.error, fault.lasts] if fault else [0] * 4
            data = struct.pack(f"{HEAD + len(KINDS)}q", *values, *[0] * (2 + len(KINDS)))
            (self.folder / "states" / str(k)).write_bytes(data)
            (self.folder / "states" / "none").write_bytes(bytes(len(data)))
            names = {"data": self.folder / "data.water", "states": self.folder / "states", "models": self.folder}
            names["limit"] = limit
            text += CASE.format(k=k, state=self.faults.state, **names)
        (self.folder / "in.cases").write_text(text)
        words = [LMP, "-in", str(self.folder / "in.cases"), "-nocite", "-log", str(self.folder / "log")]
        words = words if self.ranks == 1 else [MPIEXEC, "-n", str(self.ranks), *words]
        place = self.faults.fresh("place")
        done = self.faults.run(words, place, **more)
        if "ERROR" not in done.text:  # mpiexec may lose the last lines of ranks that abort
            done.text = (self.folder / "log").read_text()
        said, start = {}, 0
        for found in re.finditer(r"^CASE (\d+) WENT ON (\d+)$", done.text, re.M):
            assert found[2] == str(STEPS)
            said[int(found[1])] = done.text[start : found.start()]
            start = found.end()
        return done, said, content(place)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_run_goes_on(faults, tmp_path, ranks):
    deck = Deck(faults, tmp_path, ranks)
    clean, said, good = deck.run({0: None})
    assert clean.status == 0 and 0 in said and "WARNING: fix mlffprof" not in said[0], str(clean)
    assert sorted(good) == sorted(f"0.{name}" for name in FILES), sorted(good)
    assert all(is_whole(name, data) for name, data in good.items())
    counts, todo = clean.counts, []  # those after the setup
    for kind in KINDS:
        for k in range(1, counts[kind] + 1):
            error = ERRORS[kind][k % len(ERRORS[kind])]
            todo.append(Fault(kind, k, error))
            if kind == "write" and k % 3 == 1:
                todo.append(Fault(kind, k, error, lasts=True))
    if not NIGHTLY:
        todo = todo[:: 2 if ranks == 1 else 9]
    wrong = []
    rest = dict(enumerate(todo, 1))
    # a report that cannot be begun stops LAMMPS: the cases after it are run by another one
    while rest:
        done, said, files = deck.run(rest)
        stopped = next((k for k in rest if k not in said), None)
        for k, fault in list(rest.items()):
            if k == stopped:
                if done.status == 0 or not re.search(rf"ERROR.*{os.strerror(fault.error)}", done.text):
                    wrong.append(f"{fault}: stopped without a reason: {done}")
                rest.pop(k)
                break
            wrong += [f"{fault}: {text}" for text in judge(k, fault, said[k], files, good)]
            rest.pop(k)
        if stopped is None:
            assert done.status == 0, str(done)
    assert not wrong, f"{len(wrong)} of {len(todo)} faults:\n" + "\n".join(wrong)


def judge(k, fault, text, files, good):
    """What is wrong with a case."""
    found = []
    warnings = [line for line in text.splitlines() if line.startswith("WARNING")]
    mine = {name.partition(".")[2]: data for name, data in files.items() if name.startswith(f"{k}.")}
    found += [f"{name} was left" for name in mine if name not in FILES]
    for name in FILES:
        about = [line for line in warnings if f"{k}.{name}" in line and os.strerror(fault.error) in line]
        data, whole = mine.get(name), good[f"0.{name}"]
        if data is not None and not is_whole(name, data):
            found.append(f"{name} is not whole")
        if len(about) > 1:
            found.append(f"{name}: {len(about)} warnings")
        if name in ("frames.xyz", "deviation.out", "deviation.dump") and data != whole:
            if not whole.startswith(data or b""):
                found.append(f"{name} is another one")
            if not about:
                found.append(f"{name} is cut short and nothing says so: {warnings}")
    return found


def test_a_rank_is_killed(faults, tmp_path):
    """The other one ends as well, with an exit status that says so."""
    deck = Deck(faults, tmp_path, 2)
    for position in (5, 30):
        done, _, files = deck.run({0: Fault("write", position, -signal.SIGKILL)})
        assert done.status != 0, str(done)
        for name, data in files.items():
            assert name.endswith(".tmp") or is_whole(name, data), name


@pytest.mark.parametrize("most", [600, 4000, 20000])
def test_file_size_limit(faults, tmp_path, most):
    """ulimit -f, as quotas; set when MPI has made its own files."""
    limit = f"shell 'prlimit --pid $PPID --fsize={most}:unlimited'"
    done, said, files = Deck(faults, tmp_path, 1).run({0: None}, limit)
    assert all(is_whole(name, data) and len(data) <= most for name, data in files.items())
    assert not [name for name in files if name.endswith(".tmp")]
    if done.status:
        assert re.search("ERROR.*report.json.*File too large", done.text), str(done)
    else:
        assert 0 in said and "File too large" in said[0], str(done)


def test_clock_jumps(faults, tmp_path):
    """Times of reports and spans are those of a clock that does not jump."""
    done, said, files = Deck(faults, tmp_path, 1).run({0: None}, jump=7200)
    assert done.status == 0 and 0 in said
    report, spans = (json.loads(files[f"0.{name}"]) for name in FILES[:2])
    assert len(report["latencies_ms"]) == STEPS and all(0 < t < 60000 for t in report["latencies_ms"])
    spans = [s for s in spans if s["ph"] == "X"]
    assert spans and all(0 <= s["dur"] < 6e7 and -6e7 < s["ts"] < 6e7 for s in spans)
