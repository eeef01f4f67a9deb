"""One training, in a Python that has PyTorch: `python -m mlff_tools.train.job JOB.json`. Started by mlff distill.

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

from .. import PACKAGE
from ..model.files import in_words, write_bytes
from ..model.modelfile import ModelError
from . import labels, recipe_certify
from .extxyz import tag
from .process import TeacherError

# bar -> (key of a row, units of the bar in one of the row, key of what a percentage is of)
MEASURED = {
    "forces": ("force_rmse", 1000.0, "force_rms"),
    "energy": ("energy_rmse", 1000.0, None),
    "stress": ("stress_rmse", 1.0, "stress_rms"),
}
MARGIN = 0.95  # of a bar, since other frames are held against it afterwards


def write_json(path, value):
    write_bytes(path, (json.dumps(value, indent=1) + "\n").encode())


def read_json(path):
    """The content of a JSON file, or None without one."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def stop_of(bars):
    """The bars that end a training: those of errors, where all of them are about all frames; else None."""
    found = {name: groups for name, groups in bars.items() if name in MEASURED}
    return found if found and all(list(groups) == ["all"] for groups in found.values()) else None


def round_of(frame):
    """The round in which a frame was added, 0 for those of the recipe's structures."""
    return int(tag(frame, "round", "0"))


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
    found = read_json(os.path.join(job["folder"], "result.json"))
    return found if found and found["job"] == digest(job) else None


def find_python(given=None, device=None):
    """A Python with PyTorch, and the device cuda or cuda:N where that is wanted: the given one, $MLFF_TORCH_PYTHON, or
    this one."""
    n_wanted = 1 + int(device.partition(":")[2] or 0) if (device or "").startswith("cuda") else 0
    program = "import torch, numpy, yaml; print(torch.cuda.device_count())" if n_wanted else "import torch, numpy, yaml"
    for python in (given, os.environ.get("MLFF_TORCH_PYTHON"), sys.executable):
        if not python:
            continue
        try:
            found = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
        except OSError as e:
            raise ModelError(f"{python}: cannot be run: {e.strerror}") from e
        if found.returncode == 0:
            n = int(found.stdout.split()[-1]) if n_wanted else 0
            if n < n_wanted:
                raise ModelError(f"training.device is {device}, and PyTorch of {python} finds {n or 'no'} GPU here")
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
    write_json(path, job)
    places = [os.path.dirname(PACKAGE), os.environ.get("PYTHONPATH")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
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
        raise TeacherError(
            f"the training in {job['folder']} was killed by signal {-code}: run the same command to continue"
        )
    done = result(job)
    if code or done is None:
        raise ModelError(f"the training in {job['folder']} failed: {' / '.join(last[-2:]) or f'status {code}'}")
    return done


def limit(name, bar, rms):
    """The bar of an error in the units of a row (errors.py); rms: of the labels, which a percentage is of."""
    value, relative = recipe_certify.limit(bar, recipe_certify.QUANTITIES[name])
    return value / 100 * rms if relative else value / MEASURED[name][1]


def holds(stop, rows):
    """Whether the bars of the errors, each of all frames, hold for rows (errors.table) with MARGIN."""
    row = next(r for r in rows if r["by"] == "all")
    for name, groups in stop.items():
        key, _, rms = MEASURED[name]
        if row[key] is None or not row[key] <= MARGIN * limit(name, groups["all"], rms and row[rms]):
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
        config["repulsion_of_labels"] = job["repulsion"]
        stop = job["stop"] and (lambda rows: holds(job["stop"], rows))
        found = training.train(config, data, job["folder"], stop=stop, start=job["start"])
        done = {
            "job": digest(job),
            **{key: os.path.basename(getattr(found, key)) for key in ("model", "checkpoint", "curve", "picture")},
            **{key: getattr(found, key) for key in ("step", "stopped", "errors", "validation")},
        }
        write_json(os.path.join(job["folder"], "result.json"), done)
    except (ModelError, OSError) as e:
        sys.exit(f"error: {in_words(e)}")


if __name__ == "__main__":
    main()
