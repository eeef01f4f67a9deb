"""Rounds that are added to a run after those of its recipe: of a script (--explore) or of given frames (--continue).

FOLDER/more.json: [{digest, about, first, last, end}] in their order. first, last: numbers of the first round and of the
last one that was trained; end: null while it is not finished, else passed, failed or trained. The same command goes on
with one that is not finished. Each begins with the student of the one before.
"""

import glob
import hashlib
import json
import os
import re

from ..model.modelfile import ModelError
from . import copies, extxyz, job, labels, rounds
from .job import read_json, write_json


class Added:
    """Rounds that a command adds. digest: hash of what they are; about: words for it."""

    def __init__(self, digest, about):
        self.digest, self.about = digest, about

    def __call__(self, run, first, done):
        """Works rounds from number `first` on off, after `done`; (what train gave for the last one, end)."""
        raise NotImplementedError


class Explore(Added):
    """Rounds of a script. section: recipe_rounds.of_command."""

    def __init__(self, section):
        values = {key: value for key, value in section.items() if key != "script"}
        words = json.dumps(values, sort_keys=True) + section["script"].digest()
        super().__init__(hashlib.sha256(words.encode()).hexdigest(), section["script"].path)
        self.section = section

    def __call__(self, run, first, done):
        run.failed = None  # that of the recipe's own script
        done = run.all_rounds(first, self.section, done)
        return done, "failed" if run.failed else "passed"


class Continue(Added):
    """One round of given frames. path: extended XYZ; section: steps and learning_rate."""

    def __init__(self, path, section):
        self.frames, self.section = extxyz.read(path), {**section, "count": 0, "committee": 0}
        keys = "".join(labels.structure_key(f) + str(f["energy"]) for f in self.frames)
        words = json.dumps([section["steps"], section["learning_rate"]]) + keys
        super().__init__(hashlib.sha256(words.encode()).hexdigest(), os.path.abspath(path))
        labelled = [f["energy"] is not None and f["forces"] is not None for f in self.frames]
        if any(labelled) and not all(labelled):
            bad = self.frames[labelled.index(False)]
            raise ModelError(f"{bad['source']}: has no energy and forces, as others have: label all frames, or none")
        self.labelled = all(labelled)
        for f in self.frames if self.labelled else ():
            labels.check_hash(f)

    def marked(self, run, k):
        """The frames as those of round k, without those that are labelled already."""
        known = set(map(labels.structure_key, run.held(k)))
        fresh = [f for f in self.frames if labels.structure_key(f) not in known]
        if not fresh:
            raise ModelError(f"{self.about}: all {len(self.frames)} frames are labelled already")
        if len(fresh) < len(self.frames):
            run.write(f"{len(self.frames) - len(fresh)} of {len(self.frames)} frames are labelled already")
        name = re.sub(r"\.(ext)?xyz$", "", os.path.basename(self.about))
        out = []
        for old, new in zip(fresh, rounds.marked(fresh, k)):
            kind = {"config_type": extxyz.quoted(extxyz.tag(old, "config_type") or name)}
            kind |= {"split": old["info"]["split"]} if "split" in old["info"] else {}
            values = {key: old[key] for key in extxyz.LABELS} if self.labelled else {}
            out.append({**new, **values, "info": {**new["info"], **kind}})
        return out

    def __call__(self, run, first, done):
        report = read_json(run.path(f"round-{first}", "round.json")) or {}
        if "frames" not in report:
            os.makedirs(run.path(f"round-{first}"), exist_ok=True)
            frames, refused = copies.without(self.marked(run, first), run.held(first)), []
            if self.labelled:
                run.take_labels(frames)
            else:
                run.label(frames, refused)
            report = {"given": len(frames), "refused": [f["name"] for f in refused]}
        now = [f for f in run.held(first + 1) if job.round_of(f) == first]
        if not now:
            raise ModelError(f"{self.about}: the teacher refuses all frames")
        if "before" not in report:
            report |= {"frames": len(now), "before": rounds.force_error(now, done["models"][0])}
            write_json(run.path(f"round-{first}", "round.json"), report)
        found = run.train(first, done, self.section)
        report = run.gained(first, report, now, done, found)
        run.write(f"round {first}: {report['frames']} labels of {self.about}; {run.errors_of(report)}")
        return found, "trained"


def next_round(run):
    """The first number that no round has yet."""
    found = [os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(run.folder), "round-*"))]
    return 1 + max((int(name[6:]) for name in found if name[6:].isdigit()), default=0)


def rounds_after(run, added, done):
    """Rounds after those of the recipe: those of commands before, which are done, and `added`, None or an Added. done:
    what train gave for the last round of the recipe; the same of the last one of all."""
    path = run.path("more.json")
    known = read_json(path) or []
    last = known[-1] if known else None
    mine = last if added and last and last["digest"] == added.digest and last["end"] != "failed" else None
    ends = [one["first"] for one in known[1:]] + [next_round(run)]
    trained = [_last(run, one["first"], end) for one, end in zip(known, ends)][: len(known) - bool(mine)]
    done = next((run.trained(k) for k in reversed(trained) if k is not None), done)
    if mine and mine["end"]:
        run.write(f"{added.about}: {mine['end']} before; nothing is done again")
        return run.trained(mine["last"]) if mine["last"] is not None else done
    if not added:
        return done
    if mine is None:
        mine = {"digest": added.digest, "about": added.about, "first": next_round(run), "last": None, "end": None}
        known.append(mine)
        write_json(path, known)
    begin = done["round"]
    done, mine["end"] = added(run, mine["first"], done)
    mine["last"] = done["round"] if done["round"] != begin else None
    write_json(path, known)
    return done


def _last(run, first, end):
    """The last round from `first` on, before `end`, that was trained; None without one."""
    done = [k for k in range(first, end) if os.path.exists(run.path(f"round-{k}", "result.json"))]
    return done[-1] if done else None
