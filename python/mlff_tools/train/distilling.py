"""Works a recipe off in a folder: structures, labels, training, rounds, certificate. What is done is not done again.

FOLDER/
  recipe.yaml        the recipe as it was read; run.json has the hashes of its sections
  structures/        trajectories and other structures before they are labelled
  labels.xyz         all labels; those of round k have the key round=k
  round-0/           the first training: checkpoint, learning curve, model, result.json; member-1, ... of the committee
  round-1/ ...       runs/, chosen.xyz (what the round labels), round.json (what it gained), then as round-0
                     of a script of the user: script/ instead of runs/ (explore_rounds.py)
  more.json          rounds after those of the recipe (more.py)
                     after the last round committee-2/, ...: the other networks of the committee
  inner/             labels.xyz with Hessian-vector products, and the training of the inner model, as round-0
  NAME.yaml, NAME.safetensors and those of NAME-inner, NAME-2, ...; certificate.html, .json, .work/
"""

import glob
import hashlib
import json
import os
import shutil

import numpy as np

from ..certify import command, uncertainty
from ..model import files
from ..model.files import write_bytes
from ..model.lock import NAME, locked
from ..model.modelfile import ModelError, find_model, read_head
from . import dynamics, explore_rounds, extxyz, generate, inner_labels, job, labelling, labels, recipe_training, rounds
from .job import read_json, write_json
from .label import make_teacher, present

# Section: from which result on it must stay as it is. Trajectories carry the hash of what made them (generate.py), so
# that those of changed structures are run again, and the others not. inner, committee, bars and certify may change
# at any time.
FIXED = {
    "name": "run.json",
    "structures": "labels.xyz",
    "teacher": "labels.xyz",
    "student": "round-0",
    "training": "round-0",
    "rounds": "round-0",
}


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def check_folders(folder, other=None):
    """ModelError where the folder is not one of mlff distill, or the one that trajectories are taken from is not."""
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.exists(os.path.join(folder, NAME)):
        raise ModelError(f"{folder}: exists and is not a folder of mlff distill: choose another --out")
    if other and not os.path.exists(os.path.join(other, "run.json")):
        raise ModelError(f"--from {other}: is not a folder of mlff distill")
    if other and os.path.realpath(other) == os.path.realpath(folder):
        raise ModelError(f"--from {other}: is the folder of this run")


def claim(folder):
    """The folder for this process alone; ModelError where it is another's."""
    check_folders(folder)
    return locked(folder, "another run is at work there")


class Run:
    """wanted: a recipe as of recipe_rounds.read; programs: lmp, plugin, program, python, torch_python, jobs."""

    def __init__(self, wanted, folder, programs, write):
        self.wanted, self.folder, self.programs, self.write = wanted, os.path.abspath(folder), programs, write
        self.place = wanted.recipe.folder
        self.labels = self.path("labels.xyz")
        self.teacher = None
        self.failed = None  # why the script of the user was not passed

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def check_recipe(self):
        """Writes down which recipe the folder is of; ModelError when it is of another one."""
        value = self.wanted.recipe.value
        mine, there = {key: _digest(value.get(key)) for key in FIXED}, read_json(self.path("run.json"))
        mine["structures"] = list(map(_digest, self._structures()))
        kept = [key for key, result in FIXED.items() if there and os.path.exists(self.path(result))]
        changed = [key for key in kept if there["sections"].get(key) != mine[key]]
        if changed == ["structures"] and self._has_more_held_out(there["sections"]["structures"], mine["structures"]):
            changed = []
        if changed:
            raise ModelError(
                f"{self.folder}: was made with another section {changed[0]}: choose another --out, with --from "
                f"{os.path.relpath(self.folder)} to take over the trajectories that still fit, or remove the folder"
            )
        files.copy(self.wanted.recipe.path, self.path("recipe.yaml"))
        now = {"recipe": self.wanted.name, "path": os.path.abspath(self.wanted.recipe.path), "sections": mine}
        if there != now:
            write_json(self.path("run.json"), now)

    def _structures(self):
        """The items of the recipe's section; a file of labels has none."""
        return self.wanted.recipe.value.get("structures") or []

    def _has_more_held_out(self, there, mine):
        """Whether hashes of structures are those that are there and, of a model that is trained, held-out ones more."""
        more = self._structures()[len(there) :]
        trained = os.path.exists(self.path(self.wanted.name + ".yaml"))
        return trained and mine[: len(there)] == there and all(item.get("split") == "test" for item in more)

    def take(self, other):
        """Copies trajectories, and what the teacher has run for the certificate, from the folder of another run. They
        carry hashes of all that made them: what does not fit this recipe is not used."""
        try:
            for part, names in (("structures", "*.npz"), ("certificate.work", "teacher-*")):
                place = os.path.join(other, part)
                if os.path.isdir(place):
                    os.makedirs(self.path(part), exist_ok=True)
                    with locked(place, "another run is at work there: wait until it ends"):
                        for source in glob.glob(os.path.join(glob.escape(place), names)):
                            self._copy(source, self.path(part, os.path.basename(source)))
        except OSError as e:
            raise ModelError(f"--from {other}: {e.filename or self.folder}: {e.strerror}") from e

    @staticmethod
    def _copy(source, target):
        """A file or folder as a whole or not at all; what is there stays."""
        if source.endswith(".part") or os.path.exists(target):
            return
        shutil.rmtree(target + ".part", ignore_errors=True)
        copy = shutil.copytree if os.path.isdir(source) else shutil.copyfile
        copy(source, target + ".part")
        os.rename(target + ".part", target)

    def everything(self, more=None):
        """Returns the path of the model. What ends it early leaves a folder that can be gone on with. more: called with
        what train gave for the last round of the recipe, for further rounds."""
        frames = self.structures()
        self.label(frames)
        done = self.all_rounds(1, self.wanted.rounds, self.train(0, None, self.wanted.rounds))
        last = done["round"]
        done = more(done) if more else done
        if self.wanted.inner:  # rounds after those of the recipe have an inner model of their own
            folder = "inner" if done["round"] == last else f"inner-{done['round']}"
            self.inner(done["round"], done["models"][0], self.path(folder))
        others = self.committee(done["round"])
        model = self.finish(done["models"][0], self.wanted.name)
        self.uncertain(model)
        if others:
            names = " ".join(os.path.basename(path) for path in [model, *others])
            self.write(f"committee: pair_coeff * * {names} {' '.join(read_head(model)['elements'])}")
        return model

    # ---- structures and labels

    def structures(self):
        """Frames of the section structures; without it, those of a file of labels."""
        wanted, folder = self.wanted, self.path("structures")
        self.write("structures")
        return generate.generate(wanted.recipe, wanted.structures, wanted.teacher, folder, self.programs, self.write)

    def _teacher(self, frames):
        if self.teacher is None:
            self.teacher = make_teacher(self.wanted.teacher, frames, self.place, self.programs)
            present(self.teacher, frames, self.write)
        return self.teacher

    def label(self, frames, refused=None):
        """Labels frames that the file does not have yet; all frames of the file. refused: as of labelling.label."""
        labels.check_structures([{**f, "energy": None} for f in frames])
        teacher = self._teacher(frames)
        file = labels.LabelFile(self.labels, teacher.identity)
        try:
            labelling.label(teacher, frames, file, self.write, self.wanted.hessian_share, refused)
        finally:
            file.close()
        if file.derivatives is False and "energy_weight" not in self.wanted.training:
            raise ModelError(
                f"{self.wanted.recipe.path}: the teacher's forces are not derivatives of its energy, and a student's "
                "always are: say by training: {energy_weight: 0} that the forces count, or by a number that both do"
            )
        return file.frames

    def take_labels(self, frames):
        """Adds frames that have labels of the recipe's teacher to the file. TeacherError if they are others."""
        teacher = self._teacher(frames)
        for f in frames:
            said = labels.teacher_of(f)
            if said and said != labels.teacher_keys(teacher.identity):
                raise ModelError(f"{f['source']}: was labelled by {said[1][1]}, not by the teacher of the recipe")
        if teacher.identity["kind"] != "labels":
            labelling.check_again(teacher, frames, "the labels of the file and those of the recipe's teacher differ")
        own = [key for key, _ in labels.teacher_keys(teacher.identity)]
        own += ["teacher_derivatives", "units", "frame_sha256"]
        file = labels.LabelFile(self.labels, teacher.identity)
        try:
            known = set(map(labels.structure_key, file.frames))
            bare = [extxyz.without(f, *own) for f in frames]
            file.append([f for f in bare if labels.structure_key(f) not in known])
        finally:
            file.close()

    def close(self):
        if self.teacher:
            self.teacher.close()
        self.teacher = None

    # ---- training

    def _inherited(self, student):
        """The section student with licence and citation of a teacher that is a model file."""
        model = self.wanted.teacher.get("mlff")
        if model is None:
            return student
        return recipe_training.inherited(student, read_head(find_model(model, self.place))["provenance"])

    def _repulsion(self):
        """The block repulsion of a teacher that is a model file, or None."""
        model = self.wanted.teacher.get("mlff")
        return None if model is None else read_head(find_model(model, self.place)).get("repulsion")

    def _job(self, k, member, start, section):
        wanted = self.wanted
        name = f"member-{member}" if member else "."
        training = dict(wanted.training)
        training["seed"] = training.get("seed", recipe_training.DEFAULTS["seed"]) + 1000 * member
        if k:
            training["steps"] = section["steps"]
            if section["learning_rate"] is not None:
                training["learning_rate"] = section["learning_rate"]
        return {
            "name": wanted.name,
            "folder": os.path.normpath(self.path(f"round-{k}", name)),
            "labels": self.labels,
            "rounds": k,
            "student": self._inherited(wanted.student),
            "repulsion": self._repulsion(),
            "training": training,
            "start": start,
            "stop": None if member else wanted.stop,
        }

    def train(self, k, before, section):
        """Student and, where another round of the section `rounds` may follow, committee of round k. before: what train
        gave for the last round. Returns {"round": k, "models": [paths], "checkpoints": [paths]}, the student first."""
        members = range(section["committee"] + 1 if k < section["count"] else 1)
        jobs = [self._job(k, m, before and before["checkpoints"][m], section) for m in members]
        self._all(jobs, f"training, round {k}")
        return self._trained(k, [j["folder"] for j in jobs])

    def _all(self, jobs, about):
        """Runs the trainings that are not done."""
        todo = [j for j in jobs if job.result(j) is None]
        if todo:
            self.write(f"{about}: {len(todo)} to do")
        for first in range(0, len(todo), self.programs.jobs):
            self._at_once(todo[first : first + self.programs.jobs])

    def trained(self, k):
        """What train gave for round k, the student alone."""
        return self._trained(k, [self.path(f"round-{k}")])

    @staticmethod
    def _trained(k, folders):
        results = [read_json(os.path.join(folder, "result.json")) for folder in folders]
        of = lambda key: [os.path.join(folder, r[key]) for folder, r in zip(folders, results)]
        return {"round": k, "models": of("model"), "checkpoints": of("checkpoint")}

    def _at_once(self, jobs):
        """Runs trainings at the same time; the lines of the first one are shown."""
        running = [(j, job.start(j, self.programs.torch_python)) for j in jobs]
        try:
            for number, (j, process) in enumerate(running):
                job.finish(j, process, self.write if number == 0 else (lambda _: None))
        finally:
            for _, process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    # ---- rounds

    def all_rounds(self, first, section, done):
        """Rounds of a section `rounds` from number `first` on. done: what train gave for the round before; the same of
        the last one."""
        one = explore_rounds.one_round if section["script"] else Run.one_round
        section = {**section, "first": first}
        for k in range(first, first + section["count"]):
            found = one(self, k, done, section)
            if found is None:
                return done
            done = found
        if section["script"]:
            explore_rounds.last_run(self, first + section["count"], done, section)
        return done

    def held(self, k):
        """The labels of the rounds before k."""
        return [f for f in labels.read_labels(self.labels) if job.round_of(f) < k]

    def one_round(self, k, before, section):
        """Runs of the student, labels and training of round k; what train returns. None: nothing is left to do."""
        chosen = self._chosen(k, before, section)
        if not chosen:
            self.write(f"round {k}: the runs gave no new frame; the rounds end")
            return None
        now = [f for f in self.label(chosen) if job.round_of(f) == k]
        path = self.path(f"round-{k}", "round.json")
        report = read_json(path) or {}
        if "before" not in report:
            report = {**report, "frames": len(now), "before": rounds.force_error(now, before["models"][0])}
            write_json(path, report)
        if not report["exploded"] and self._within(now, report["before"]):
            self.write(f"round {k}: forces of the new frames are within the bar; the rounds end")
            return None
        found = self.train(k, before, section)
        report = self.gained(k, report, now, before, found)
        self.write(
            f"round {k}: {report['frames']} labels; {self.errors_of(report)}; "
            f"{report['exploded']} of {report['runs']} runs had exploded"
        )
        return found

    def gained(self, k, report, now, before, found):
        """The report of round k, completed with the errors on its held-out frames before and after training."""
        if "after" not in report:
            test = [f for f in now if extxyz.tag(f, "split") != "train"] or now
            report["after"] = rounds.force_error(test, found["models"][0])
            report["before_held_out"] = rounds.force_error(test, before["models"][0])
            write_json(self.path(f"round-{k}", "round.json"), report)
        return report

    @staticmethod
    def errors_of(report):
        return (
            f"forces of new frames {1000 * report['before']:.1f} meV/A, of those held out "
            f"{1000 * report['before_held_out']:.1f} before and {1000 * report['after']:.1f} after training"
        )

    def _within(self, frames, error):
        """Whether the bar of forces of all frames holds for an error, eV/A."""
        bar = self.wanted.bars.get("forces", {}).get("all")
        if bar is None:
            return False
        rms = float(np.sqrt(np.mean(np.concatenate([f["forces"].ravel() for f in frames]) ** 2)))
        return error <= job.limit("forces", bar, rms)

    def _chosen(self, k, before, section):
        """The structures that round k labels."""
        place, held = self.path(f"round-{k}"), self.held(k)
        path = os.path.join(place, "chosen.xyz")
        if os.path.exists(path):
            return extxyz.read(path) if os.path.getsize(path) else []
        os.makedirs(place, exist_ok=True)
        runs, exploded = self._runs(k, before["models"][0], held)
        sound = rounds.candidates(runs, held)
        if section["committee"]:
            spread = lambda frames: rounds.disagreement(frames, before["models"], self.programs.program)
            chosen = rounds.most_doubtful(sound, section["frames"], spread)
        else:
            chosen = self._most_different(k, before["models"][0], sound, held)
        chosen = rounds.marked(chosen, k)
        write_json(os.path.join(place, "round.json"), {"runs": len(runs), "exploded": exploded})
        write_bytes(path, "".join(extxyz.text(f) for f in chosen).encode())
        return extxyz.read(path) if chosen else []

    def _most_different(self, k, model, runs, held):
        """The frames that are the least like the training set and each other, by the uncertainty of the student, and
        frames at equal intervals, so that there are as many as a round labels: energies of own runs are off where no
        atom is uncertain. For a network without an uncertainty, only those."""
        n, path = self.wanted.rounds["frames"], self.path(f"round-{k}", "student.yaml")
        try:
            self.unsure(model, path, held)
        except ModelError as e:
            self.write(f"round {k}: frames at equal intervals are chosen, since there is no uncertainty of atoms: {e}")
            return rounds.evenly(runs, n)
        frames = [frame for run in runs for frame in run]
        chosen = rounds.most_different(frames, n, path)
        taken = {id(frame) for frame in chosen}
        return chosen + rounds.evenly([[f for f in frames if id(f) not in taken]], n - len(chosen))

    def _runs(self, k, model, held):
        """(frames of each run of the student, number of runs that exploded)"""
        section = self.wanted.rounds
        begin = rounds.starts(held, section["from"])
        if not begin:
            kinds = sorted({extxyz.tag(f, "config_type", "") for f in held})
            raise ModelError(f"rounds.from: no labelled frame has config_type {section['from']}; there are {kinds}")
        wanted = {key: section[key] for key in ("temperature", "time", "every", "timestep")}
        wanted |= {"equilibrate": 0.0, "minimise": False, "seed": k, "on_error": "keep"}
        found = []
        place = self.path(f"round-{k}", "runs")
        for periodic in (True, False):  # only what is periodic has a pressure
            frames = [f for f in begin.values() if (f["cell"] is not None) == periodic]
            more = {"pressure": section["pressure"]} if periodic and section["pressure"] else {}
            options = {"programs": self.programs, "write": self.write}
            found += generate.from_frames(f"round-{k}", frames, {"mlff": model}, {**wanted, **more}, place, **options)
        return found, sum(len(run) < dynamics.n_frames(section) for run in found)

    # ---- the end

    def inner(self, k, model, folder):
        """The inner model for run_style respa, of the labels that the student (`model`, of round k) has seen."""
        student, training = self.wanted.inner
        student = self._inherited(student)
        name = f"{self.wanted.name}-inner"
        wanted = {"name": name, "folder": folder, "rounds": k, "student": student, "repulsion": self._repulsion()}
        wanted |= {"labels": os.path.join(folder, "labels.xyz"), "training": training, "start": None, "stop": None}
        before = read_json(os.path.join(folder, "job.json"))
        if before and job.digest(before) != job.digest(wanted):
            raise ModelError(f"{folder}: was made with another section inner: remove it to train again")
        if not os.path.exists(wanted["labels"]):
            self.write("Hessian-vector products for the inner model")
            frames = job.frames_until(labels.read_labels(self.labels), k)
            inner_labels.write_labels(wanted["labels"], frames, model, self.programs.program)
        if job.result(wanted) is None:
            self.write("training of the inner model")
            self._at_once([wanted])
        self.finish(os.path.join(folder, job.result(wanted)["model"]), name)

    def committee(self, k):
        """The other networks of the committee, from other seeds, on all labels up to round k; their paths."""
        jobs = []
        for number in range(2, self.wanted.committee + 1):
            name, folder = f"{self.wanted.name}-{number}", self.path(f"round-{k}", f"committee-{number}")
            wanted = self._job(0, number - 1, None, self.wanted.rounds)
            jobs.append({**wanted, "name": name, "folder": folder, "rounds": k})
        self._all(jobs, "training of the committee")
        return [self.finish(os.path.join(j["folder"], job.result(j)["model"]), j["name"]) for j in jobs]

    def finish(self, path, name):
        """A trained model as a file NAME in the folder itself; its path."""
        for ending in (".safetensors", ".yaml"):
            files.copy(os.path.splitext(path)[0] + ending, self.path(name + ending))
        return self.path(name + ".yaml")

    def unsure(self, model, path, frames):
        """Writes a model with the uncertainty of atoms, from labels that it was trained on; the head of the file."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        seen = [f for f in frames if extxyz.tag(f, "split") != "test"]  # test frames may be added later
        after, notes = uncertainty.add(model, seen, path)
        for note in notes:
            self.write(f"uncertainty of atoms: {note}")
        return after

    def uncertain(self, model):
        """Adds the uncertainty of atoms to the finished model."""
        try:
            block = self.unsure(model, model, labels.read_labels(self.labels))["uncertainty"]
        except ModelError as e:
            self.write(f"no uncertainty of atoms: {e}")
            return
        self.write(f"uncertainty of atoms: {block['description']}; limit {block['limit']:g} {block['unit']}")

    def certificate(self, model):
        """Makes the certificate; its exit status."""
        p, words = self.programs, [model, self.wanted.recipe.path, "--labels", self.labels]
        words += ["--out", self.path("certificate"), "--work", self.path("certificate.work"), "--jobs", str(p.jobs)]
        for name in ("lmp", "plugin", "program", "python"):
            words += [f"--{name}", getattr(p, name)] if getattr(p, name) else []
        return command.main(words)
