"""Rounds of a script of the user (explore.py): it is run with the student; frames above the limit of the uncertainty
are thinned, labelled and trained on; and it is run again, until it passes.

FOLDER/round-K/
  script/student.yaml   the student with its uncertainty
  script/run-1/, ...    runs of the script, the next one after one without a frame above the limit
  chosen.xyz            frames that the round labels, empty if the script passed
  round.json            checks, frames found, errors before and after training, core time
"""

import dataclasses
import os

from ..model.files import write_bytes
from ..model.modelfile import ModelError, read_head
from . import copies, explore, extxyz, job, rounds
from .job import read_json, write_json

ENOUGH = 20  # times the frames of a round: a run that has written so many is ended


def core_time():
    """Seconds of this process and of the children that have ended."""
    return sum(os.times()[:4])


def student(run, k, before):
    """(path, limit in eV/A) of the student that a script runs in round k, with its uncertainty."""
    path = run.path(f"round-{k}", "script", "student.yaml")
    if not os.path.exists(path):
        try:
            run.unsure(before["models"][0], path, run.held(k))
        except ModelError as e:
            raise ModelError(f"{run.folder}: a script cannot be explored without an uncertainty: {e}") from e
    return path, read_head(path)["uncertainty"]["limit"]


def run_script(run, k, before, section):
    """Runs the script of round k until one run has frames above the limit, or `passes` runs have none. Returns
    (frames, {checks, runs, largest, limit, found, error})."""
    path, limit = student(run, k, before)
    script, most = section["script"], ENOUGH * section["frames"]
    for number in range(1, section["passes"] + 1):
        place = run.path(f"round-{k}", "script", f"run-{number}")
        done = read_json(os.path.join(place, "passed.json"))
        if done is None or done["script"] != script.digest():
            seed = 1000 * k + number
            run.write(f"round {k}: {script.name}, run {number} of {section['passes']} (seed {seed})")
            found = explore.run(script, path, limit, seed, place, run.programs, most)
            if found.error and len(found.frames) < section["frames"] and script.every > 1:
                run.write(f"round {k}: LAMMPS ended with {found.error}; again, with a check in every step")
                often = dataclasses.replace(script, every=1)
                found = explore.run(often, path, limit, seed, place, run.programs, most)
            done = {"checks": found.checks, "largest": found.largest, "error": found.error, "script": script.digest()}
            if found.frames:
                if found.error:
                    run.write(f"round {k}: LAMMPS ended with {found.error}; the frames before are used")
                return found.frames, {**done, "runs": number, "limit": limit, "found": len(found.frames)}
            if found.error or found.above:
                why = f"LAMMPS: {found.error}" if found.error else "positions are NaN or infinite"
                raise explore.ScriptError(
                    f"{script.path}: {why} (log: {place}/log.lammps); no finite frame before it was above the limit of "
                    "the uncertainty"
                )
            write_json(os.path.join(place, "passed.json"), done)
        if number < section["passes"]:
            run.write(f"round {k}: {script.name} passed run {number} of {section['passes']}")
    return [], {**done, "runs": section["passes"], "limit": limit, "found": 0}


def _thinned(run, k, before, section, frames, found):
    """The frames that round k labels, out of those that its run gave; adds to the report `found`."""
    script, held, largest = section["script"], run.held(k), max(len(f["elements"]) for f in frames)
    if largest > section["atoms"]:
        raise explore.ScriptError(
            f"{script.path}: a frame has {largest} atoms, and frames of up to {section['atoms']} are labelled: run a "
            "smaller box, or set rounds.atoms (--atoms)"
        )
    (sound,) = rounds.candidates([frames], held)
    chosen, tags = [], {"config_type": extxyz.quoted(script.name), "trajectory": extxyz.quoted(script.name)}
    different = rounds.most_different(sound, section["frames"], student(run, k, before)[0]) if sound else []
    for number, f in enumerate(different, 1):
        tags["name"] = extxyz.quoted(f"round {k}, frame {number}, {f['name']}")
        chosen.append({**f, "info": {**f["info"], **tags}})
    chosen = copies.without(rounds.marked(chosen, k), held)
    if not chosen:
        raise explore.ScriptError(
            f"{script.path}: each of {len(frames)} frames above the limit is labelled already, or has atoms closer "
            f"than {rounds.NEAREST} of the shortest labelled distance: start from a better structure"
        )
    found |= {"absurd": len(frames) - len(sound), "chosen": len(chosen)}
    text = f"round {k}: {len(frames)} frames above {found['limit']:.3g} eV/A, largest {found['largest']:.3g} eV/A"
    text += f"; {found['absurd']} are known or have atoms too close" if found["absurd"] else ""
    run.write(f"{text}; {len(chosen)} are labelled, of {largest} atoms")
    return chosen


def _chosen(run, k, before, section):
    """The frames that round k labels, and its report; no frame if the script passed."""
    place = run.path(f"round-{k}")
    path, report = os.path.join(place, "chosen.xyz"), os.path.join(place, "round.json")
    if os.path.exists(path):
        return (extxyz.read(path) if os.path.getsize(path) else []), read_json(report)
    os.makedirs(place, exist_ok=True)
    frames, found = run_script(run, k, before, section)
    if frames:
        frames = _thinned(run, k, before, section, frames, found)
    write_json(report, found)
    write_bytes(path, "".join(map(extxyz.text, frames)).encode())
    return (extxyz.read(path) if frames else []), found


def _labelled(run, k, chosen, report):
    """Labels of the frames that the teacher does not refuse; refused ones are written down in the report."""
    refused, known = [], set(report.get("refused", []))
    asked = [f for f in chosen if f["name"] not in known]
    now = run.label(asked, refused) if asked else []
    if refused:
        report["refused"] = sorted(known | {f["name"] for f in refused})
        write_json(run.path(f"round-{k}", "round.json"), report)
    now = [f for f in now if job.round_of(f) == k]
    if not now:
        raise ModelError(f"round {k}: the teacher refuses all {len(chosen)} frames")
    return now


def is_spent(run, k, section):
    """Whether the core time of the rounds before k is used up."""
    if section["hours"] is None:
        return False
    before = (read_json(run.path(f"round-{n}", "round.json")) or {} for n in range(section["first"], k))
    return sum(report.get("core_seconds", 0.0) for report in before) >= 3600 * section["hours"]


def one_round(run, k, before, section):
    """Round k of a script; what train returns. None: the script passed, or the core time is used up."""
    begin = core_time()
    if is_spent(run, k, section):
        run.write(f"round {k}: the {section['hours']:g} hours of core time are used up")
        last_run(run, k, before, section)
        return None
    chosen, report = _chosen(run, k, before, section)
    if not chosen:
        passed(run, k, report, section)
        return None
    now = _labelled(run, k, chosen, report)
    if "before" not in report:
        report |= {"frames": len(now), "before": rounds.force_error(now, before["models"][0])}
        write_json(run.path(f"round-{k}", "round.json"), report)
    found = run.train(k, before, section)
    run.close()  # the time of the teacher counts when it has ended
    report = run.gained(k, report, now, before, found)
    if "core_seconds" not in report:
        report["core_seconds"] = round(core_time() - begin, 1)
        write_json(run.path(f"round-{k}", "round.json"), report)
    run.write(
        f"round {k}: {report['found']} frames found, {report['frames']} labelled; {run.errors_of(report)}; "
        f"{report['core_seconds']:.0f} s of core time"
    )
    return found


def passed(run, k, report, section):
    runs = "1 run" if report["runs"] == 1 else f"{report['runs']} runs"
    run.write(
        f"round {k}: {section['script'].name} passed {runs}: {report['checks']} checks in the last one, none above "
        f"{report['limit']:.3g} eV/A, largest {report['largest']:.3g} eV/A"
    )


def last_run(run, k, before, section):
    """The script once more after the last round; run.failed when it has frames above the limit."""
    path = run.path(f"round-{k}", "last.json")
    report = read_json(path)
    if report is None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        report = run_script(run, k, before, section)[1]
        write_json(path, report)
    if not report["found"]:
        passed(run, k, report, section)
        return
    run.failed = (
        f"{section['script'].name} still has {report['found']} frames above the limit of {report['limit']:.3g} eV/A, "
        f"largest {report['largest']:.3g} eV/A: the rounds are used up"
    )
    run.write(run.failed)
