"""Disks that are full, broken or not ours: each file of each program is whole, as it was before, or absent; the error
says which file and why; the exit status is true.

`make nightly` takes all positions of all calls."""

import fnmatch
import os
import re
import signal

import programs
import pytest
from injection import ERRORS, KINDS, Fault, content
from nightly import NIGHTLY
from programs import PROGRAMS

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL, signal.SIGUSR2)
NO_ROOM = "No usable temporary directory found"  # Python's words


def begin(faults, program, inputs):
    faults.fresh("tmp")
    return faults.fresh("place", program.before and str(inputs / program.before))


def words_of(words, inputs):
    return [word.replace("{in}", str(inputs)) for word in words]


def run(faults, program, inputs, **more):
    """A run in a new folder: what it ended with, and what is there then."""
    place = begin(faults, program, inputs)
    done = faults.run(words_of(program.words, inputs), place, **more)
    return done, content(place)


def positions(n):
    """First, last, and some between them."""
    return range(1, n + 1) if NIGHTLY or n < 4 else sorted({1, 1 + n // 2, n})


def all_faults(counts):
    """One fault for each position, the errors taking turns; writes also fail for good."""
    found = []
    for kind in KINDS:
        for k, position in enumerate(positions(counts[kind])):
            errors = ERRORS[kind] if NIGHTLY else [ERRORS[kind][k % len(ERRORS[kind])]]
            found += [Fault(kind, position, error) for error in errors]
            if kind == "write" and (NIGHTLY or k % 2 == 0):
                found.append(Fault(kind, position, ERRORS[kind][0], lasts=True))
    return found


def judge(program, faults, done, files, good, before, reason):
    """What is wrong with a run whose files are `files`, as lines; good: those of a run without fault."""
    wrong = []
    if "Traceback" in done.text or "Error:" in done.text.replace("OSError:", ""):
        wrong.append("a traceback")
    if done.status < 0 or done.status > 3:
        wrong.append(f"ended with {done.status}")
    for name, data in files.items():
        if programs.TEMPORARY.search(name):
            wrong.append(f"{name} was left")
        elif data in (before.get(name), good.get(name)):
            continue
        elif not programs.is_whole(name, data) or (
            name in program.same and not (program.grows and good[name].startswith(data))
        ):
            wrong.append(f"{name} is not whole")
    missing = [f for f in program.files if not fnmatch.filter(files, f)]
    old = [f for f in program.same if f in files and files[f] != good[f]]
    if done.status in program.passes and (missing or old) and not (1 in program.passes and "error:" in done.text):
        wrong.append(f"exit status {done.status} without {missing + old}")
    if done.status not in program.passes:
        said = [line for line in done.text.splitlines() if reason in line or NO_ROOM in line]
        if not said:
            wrong.append(f"does not say '{reason}'")
        elif not any(part in line for line in said for f in [*files, *good] for part in [*f.split("/"), faults.folder]):
            wrong.append("does not say which file")
    return wrong


def clean_run(program, faults, inputs):
    """A run without fault, and what was there before it."""
    before = content(begin(faults, program, inputs))
    clean, good = run(faults, program, inputs)
    assert clean.status in program.passes, str(clean)
    assert all(fnmatch.filter(good, f) for f in program.files), sorted(good)
    assert all(programs.is_whole(name, data) for name, data in good.items())
    return clean, good, before


def goes_on(program, faults, inputs, good, leaves=False):
    """What is wrong after the same command has run again. leaves: a killed run has left its temporary files."""
    place = os.path.join(faults.folder, "place")
    again = faults.run(words_of(program.words, inputs), place)
    then = content(place)
    wrong = [] if again.status in program.passes else [f"does not go on: {again}"]
    wrong += [f"{f} is another one afterwards" for f in program.same if then.get(f) != good[f]]
    if not leaves:
        wrong += [f"{f} is left afterwards" for f in then if programs.TEMPORARY.search(f)]
    return wrong


ALL = pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])


@ALL
def test_errors(program, faults, inputs):
    """Calls of each kind fail, one in each run, or all from one on."""
    clean, good, before = clean_run(program, faults, inputs)
    found, todo = [], all_faults(clean.counts)
    for k, fault in enumerate(todo):
        done, files = run(faults, program, inputs, fault=fault)
        files.update({f"tmp/{name}": data for name, data in content(os.path.join(faults.folder, "tmp")).items()})
        wrong = judge(program, faults, done, files, good, before, os.strerror(fault.error))
        if done.status not in program.passes and (NIGHTLY or k % 3 == 0):
            wrong += goes_on(program, faults, inputs, good)
        if wrong:
            found.append(f"{fault}: {'; '.join(wrong)}\n    {done.text.strip()[-400:]}")
    assert not found, f"{len(found)} of {len(todo)}:\n" + "\n".join(found)


@ALL
@pytest.mark.parametrize("most", [0, 100, 5000])
def test_file_size_limit(program, faults, inputs, most):
    """ulimit -f, as a quota: the kernel itself refuses."""
    clean, good, before = clean_run(program, faults, inputs)
    done, files = run(faults, program, inputs, limits=[("RLIMIT_FSIZE", most)])
    wrong = judge(program, faults, done, files, good, before, "File too large")
    if done.status not in program.passes:
        wrong += goes_on(program, faults, inputs, good)
    assert not wrong, f"{wrong}\n{done}"


@ALL
def test_signals(program, faults, inputs):
    """Signals of batch systems and of the user, at calls that write: an exit status that says so, files that are whole
    or absent, and a run that goes on."""
    clean, good, before = clean_run(program, faults, inputs)
    found, k = [], 0
    for kind in ("open", "write", "fsync", "rename"):
        for position in positions(clean.counts[kind]):
            number = SIGNALS[k % len(SIGNALS)]
            k += 1
            done, files = run(faults, program, inputs, fault=Fault(kind, position, -number))
            wrong = [] if done.status not in program.passes or done.status == 1 else ["exit status of success"]
            killed = number == signal.SIGKILL or done.status == -number
            left = [name for name in files if programs.TEMPORARY.search(name)]
            if "Traceback" in done.text:
                wrong.append("a traceback")
            if left and not (killed or "LAMMPS failed" in done.text):
                wrong.append(f"{left} were left")
            for name, data in files.items():
                whole = data in (before.get(name), good.get(name)) or programs.is_whole(name, data)
                if name not in left and fnmatch.filter(program.files, name) and not whole:
                    wrong.append(f"{name} is not whole")
            wrong += goes_on(program, faults, inputs, good, leaves=bool(left))
            if wrong:
                found.append(f"{signal.Signals(number).name} at {kind} {position}: {wrong} {done}")
    assert not found, "\n".join(found)


@ALL
def test_clock_jumps(program, faults, inputs):
    """With a clock of the day that jumps by hours the run takes as long and writes the same."""
    _, good, _ = clean_run(program, faults, inputs)
    done, files = run(faults, program, inputs, jump=7200)
    assert done.status in program.passes, str(done)
    assert all(files[name] == good[name] for name in program.same)
    said = done.text + "".join(
        files[n].decode() for n in files if n.endswith((".json", ".txt", ".html")) and n not in good
    )
    times = [float(t) for t in re.findall(r'(-?[0-9.]+) s\b|"(?:\w*_)?seconds": (-?[0-9.]+)', said) for t in t if t]
    assert all(0 <= t < 600 for t in times), times


MEMORY = [
    ("evaluate", [programs.MLFF, "evaluate", "{in}/water-xs.yaml", "{in}/many.xyz"]),
    ("time", [programs.MLFF, "time", "{in}/water-xs.yaml", "{in}/water.xyz", "--calls", "9", "--file", "a.json"]),
    ("replicas", [programs.MLFF, "time", "{in}/water-xs.yaml", "{in}/water.xyz", "--replicas", "1000", "--calls", "1"]),
]


@pytest.mark.parametrize("words", [w for _, w in MEMORY], ids=[n for n, _ in MEMORY])
def test_little_memory(words, faults, inputs):
    """ulimit -v: an error that says memory, or a run that has enough; no crash at any limit."""
    many = inputs / "many.xyz"
    many.write_text(programs.WATER.format(*[""] * 3) * 2000)
    words = words_of(words, inputs)
    ended = []
    for megabytes in (*range(6, 24), 32, 48, 64, 128, 512):
        place = faults.fresh("place")
        done = faults.run(words, place, limits=[("RLIMIT_AS", megabytes << 20)])
        if "shared object" in done.text or "error while loading" in done.text:
            continue  # not even the program itself
        assert done.status in (0, 1), f"{megabytes} MB: {done}"
        assert done.status == 0 or "memory" in done.text, f"{megabytes} MB: {done}"
        assert all(programs.is_whole(name, data) for name, data in content(place).items())
        ended.append(done.status)
    assert 0 in ended and 1 in ended, ended
