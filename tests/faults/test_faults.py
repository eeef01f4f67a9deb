"""Disks that are full, broken or not ours: each file of each program is whole, as it was before, or absent; the error
says which file and why; the exit status is true.

FAULTS=all in the environment takes all positions of all calls."""

import fnmatch
import os
import shutil

import programs
import pytest
from injection import ERRORS, KINDS, Fault, Faults, content
from programs import PROGRAMS

EVERYTHING = os.environ.get("FAULTS") == "all"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    programs.make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    folder, scratch = (tmp_path_factory.mktemp(name) for name in ("written", "scratch"))
    made = Faults(str(folder), str(scratch))
    made.env["TMPDIR"] = made.fresh("tmp")
    yield made
    made.close()


def begin(faults, program, inputs):
    faults.fresh("tmp")
    return faults.fresh("place", program.before and str(inputs / program.before))


def run(faults, program, inputs, **more):
    """A run in a new folder: what it ended with, and what is there then."""
    place = begin(faults, program, inputs)
    words = [word.replace("{in}", str(inputs)) for word in program.words]
    done = faults.run(words, place, **more)
    return done, content(place)


def positions(n):
    """First, last, and some between them."""
    return range(1, n + 1) if EVERYTHING or n < 5 else sorted({1, 1 + n // 3, 1 + 2 * n // 3, n})


def all_faults(counts):
    """One fault for each position, the errors taking turns; writes also fail for good."""
    found = []
    for kind in KINDS:
        for k, position in enumerate(positions(counts[kind])):
            errors = ERRORS[kind] if EVERYTHING else [ERRORS[kind][k % len(ERRORS[kind])]]
            found += [Fault(kind, position, error) for error in errors]
            if kind == "write" and (EVERYTHING or k % 2 == 0):
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
        said = [line for line in done.text.splitlines() if reason in line]
        if not said:
            wrong.append(f"does not say '{reason}'")
        elif not any(part in line for line in said for f in [*files, *good] for part in [*f.split("/"), faults.folder]):
            wrong.append("does not say which file")
    return wrong


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_files(program, faults, inputs):
    """Each call of each kind fails once."""
    before = content(begin(faults, program, inputs))
    clean, good = run(faults, program, inputs)
    assert clean.status in program.passes, str(clean)
    assert all(fnmatch.filter(good, f) for f in program.files), sorted(good)
    assert all(programs.is_whole(name, data) for name, data in good.items())
    found = []
    todo = all_faults(clean.counts)
    for fault in todo:
        done, files = run(faults, program, inputs, fault=fault)
        files.update({f"tmp/{name}": data for name, data in content(os.path.join(faults.folder, "tmp")).items()})
        wrong = judge(program, faults, done, files, good, before, os.strerror(fault.error))
        if program.goes_on and done.status not in program.passes:
            words = [word.replace("{in}", str(inputs)) for word in program.words]
            place = os.path.join(faults.folder, "place")
            again = faults.run(words, place)
            then = content(place)
            if again.status not in program.passes:
                wrong.append(f"does not go on: {again}")
            wrong += [f"{f} is another one afterwards" for f in program.same if then.get(f) != good[f]]
            wrong += [f"{f} is left afterwards" for f in then if programs.TEMPORARY.search(f)]
        if wrong:
            found.append(f"{fault}: {'; '.join(wrong)}\n    {done.text.strip()[-400:]}")
    assert not found, f"{len(found)} of {len(todo)}:\n" + "\n".join(found)
    shutil.rmtree(os.path.join(faults.folder, "place"))
