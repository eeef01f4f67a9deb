"""One training, in a Python that has PyTorch: `python -m mlff_tools.train.job JOB.json`. Of mlff distill.

JOB.json has
  name, folder   of the model; where checkpoint, learning curve and model go
  labels         file of labels; rounds: its frames up to this round are taken
  student, training   sections of the recipe
  start          checkpoint to begin with, or null
  stop           bars (recipe_certify.bars) at which training ends when they hold for the validation set, or null
FOLDER/result.json tells the model and its errors once training is finished, and the hash of the job.
"""

import hashlib
import json
import os
import subprocess
import sys

from .. import SOURCE
from ..model.modelfile import ModelError, write_bytes
from . import labels, recipe_certify
from .process import TeacherError

# bar -> (key of a row, units of the bar in one of the row, key of what a percentage is of)
MEASURED = {
    "forces": ("force_rmse", 1000.0, "force_rms"),
    "energy": ("energy_rmse", 1000.0, None),
    "stress": ("stress_rmse", 1.0, "stress_rms"),
}
MARGIN = 0.95  # of a bar, since other frames are held against it afterwards


def stop_of(bars):
    """The bars that end a training: those of errors, where all of them are about all frames; else None."""
    found = {name: groups for name, groups in bars.items() if name in MEASURED}
    return found if found and all(list(groups) == ["all"] for groups in found.values()) else None


def round_of(frame):
    """The round in which a frame was added, 0 for those of the recipe's structures."""
    return int(frame["info"].get("round", "0"))


def frames_until(frames, last):
    """Those of a file of labels that were there after round `last`."""
    return [frame for frame in frames if round_of(frame) <= last]


def digest(job):
    """Hash of all that a job's result depends on; its folder may move."""
    text = {key: value for key, value in job.items() if key not in ("folder", "labels", "start")}
    text["start"] = job["start"] and os.path.basename(os.path.dirname(job["start"]))
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()


def result(job):
    """What a finished job left, or None."""
    path = os.path.join(job["folder"], "result.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        found = json.load(f)
    return found if found["job"] == digest(job) else None


def find_python(given=None):
    """A Python with PyTorch: the given one, $MLFF_TORCH_PYTHON, or this one."""
    for python in (given, os.environ.get("MLFF_TORCH_PYTHON"), sys.executable):
        if not python:
            continue
        try:
            found = subprocess.run([python, "-c", "import torch, numpy, yaml"], capture_output=True, check=False)
        except OSError as e:
            raise ModelError(f"{python}: cannot be run: {e.strerror}") from e
        if found.returncode == 0:
            return python
        if python == given:
            break
    raise ModelError(
        f"{given or sys.executable} has no PyTorch, which training needs: pip install torch PyYAML safetensors there, "
        "or name a Python that has it by --torch-python or $MLFF_TORCH_PYTHON"
    )


def start(job, python):
    """A process that does the job; its lines are those of the training."""
    path = os.path.join(job["folder"], "job.json")
    os.makedirs(job["folder"], exist_ok=True)
    write_bytes(path, (json.dumps(job, indent=1) + "\n").encode())
    places = [os.path.join(SOURCE, "python"), os.environ.get("PYTHONPATH", "")]
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *filter(None, places)])}
    words = [python, "-m", "mlff_tools.train.job", path]
    return subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(job, process, write):
    """Waits for a process, hands its lines on, and returns the result."""
    last = []
    for line in process.stdout:
        last = [*last[-5:], line.rstrip("\n")]
        write(last[-1])
    code = process.wait()
    if code < 0:
        raise TeacherError(f"the training in {job['folder']} was killed by signal {-code}: the same command goes on")
    done = result(job)
    if code or done is None:
        raise ModelError(f"the training in {job['folder']} failed: {' / '.join(last[-2:]) or f'status {code}'}")
    return done


def holds(stop, rows):
    """Whether the bars of the errors, each of all frames, hold for rows (errors.table) with MARGIN."""
    row = next(r for r in rows if r["by"] == "all")
    for name, (key, per, rms) in MEASURED.items():
        if name in stop:
            value, relative = recipe_certify.limit(stop[name]["all"], recipe_certify.QUANTITIES[name])
            limit = value / 100 * row[rms] if relative and rms else value / per
            if row[key] is None or not row[key] <= MARGIN * limit:
                return False
    return True


def main(argv=None):
    from . import dataset, recipe_training, training

    (path,) = sys.argv[1:] if argv is None else argv
    with open(path, encoding="utf-8") as f:
        job = json.load(f)
    try:
        frames = frames_until(labels.read_labels(job["labels"]), job["rounds"])
        data = dataset.from_labels(frames, name=job["name"])
        config = recipe_training.config(job["name"], job["student"], job["training"], data["elements"])
        stop = job["stop"] and (lambda rows: holds(job["stop"], rows))
        found = training.train(config, data, job["folder"], stop=stop, start=job["start"])
        done = {
            "job": digest(job),
            **{key: os.path.basename(getattr(found, key)) for key in ("model", "checkpoint", "curve", "picture")},
            **{key: getattr(found, key) for key in ("step", "stopped", "errors", "validation")},
        }
        write_bytes(os.path.join(job["folder"], "result.json"), (json.dumps(done, indent=1) + "\n").encode())
    except ModelError as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
