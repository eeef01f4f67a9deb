"""Trains a student on labelled structures, for `mlff distill`. Needs PyTorch.

Loss: force_weight * mean(dF^2) + energy_weight * mean((dE / n_atoms)^2) + stress_weight * mean((dstress * volume /
n_atoms)^2) + atom_weight * mean(de_i^2) + hessian_weight * mean((dHv)^2), in units of the RMS force of the training
set. dF: force components; de_i: energies of atoms; Hv: Hessian-vector products (hessian.py). The error of each frame
is bounded (losses.py).

Optimizer: Adam or SOAP (fast/soap.py). SOAP needs fewer steps but cannot use a CUDA graph. The learning rate has a
warm-up and a cosine decay, gradients are clipped, and an exponential moving average of the weights is validated and
exported. With few compositions, every step takes a fixed number of frames of each, so that a GPU can replay one
captured graph. On a CPU with a C compiler, the expensive parts run in C (fast/).

When the validation error jumps by a factor of trainer.JUMP, the weights of the best validation are restored and the
learning rate is lowered.
"""

import io
import json
import math
import os
import re
import sys
import time
from types import SimpleNamespace

from ..model import files
from ..model.lock import locked
from ..model.modelfile import ModelError
from . import curve, dataset
from .trainer import Trainer

try:
    import torch

    from . import errors, export, losses
except ImportError:
    torch = None

TRAIN_DEFAULTS = {
    "seed": 1,
    "steps": 50000,
    "learning_rate": 1.0e-3,
    "final_learning_rate": 1.0e-6,
    "warmup": 500,
    "force_weight": 1.0,
    "energy_weight": 100.0,
    "final_energy_weight": None,
    "stress_weight": 10.0,
    "atom_weight": 0.1,
    "hessian_weight": None,
    "ema": 0.999,
    "clip": 10.0,
    "validate_every": 1000,
    "keep": 0.8,
    "batch": None,  # atoms per step
    "optimizer": "adam",
    "force_ceiling": None,
    "force_limit": None,
    "energy_limit": None,
    "stress_limit": None,
    "atom_limit": None,
    "threads": None,
    "device": "auto",
}
# What all rounds of a student must have in common; lengths and rates may differ
METHOD = ["repulsion", "optimizer", "force_ceiling"]
METHOD += [key for key in TRAIN_DEFAULTS if key.endswith(("_weight", "_limit"))]
PROGRESS_SECONDS = 30.0  # between two lines of progress


def _fresh(value):
    """Nested lists and mappings in which equal texts are one object and nothing else is shared: pickle writes equal
    values as equal bytes then, whether they were made here or read."""
    if isinstance(value, dict):
        return {_fresh(k): _fresh(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fresh(v) for v in value]
    return sys.intern(value) if type(value) is str else value


def save_checkpoint(path, trainer):
    """Atomic: an interrupted write leaves the old checkpoint."""
    buffer = io.BytesIO()
    torch.save(_fresh(trainer.state()), buffer)
    try:
        files.write_bytes(path, buffer.getvalue())
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}; the checkpoint before is kept") from e


def load_checkpoint(path):
    """What save_checkpoint wrote."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        raise ModelError(f"{path}: {e.strerror}") from e
    except Exception as e:  # torch raises many kinds for a file that is none of its own
        raise ModelError(f"{path}: is not a checkpoint of a training run ({str(e).splitlines()[0][:100]})") from e


def validated(trainer, rate):
    """A row of the learning curve: mean errors in training since the last one, and those of the validation set now; the
    table of the latter (errors.table); and the error that says which weights are the best."""
    sums = trainer.losses.tolist()
    n = max(1.0, sums[-1])
    trainer.losses.zero_()
    row = {"step": trainer.step, "learning_rate": rate}
    for term, name in (("forces", "force"), ("energy", "energy")):
        row[f"train_{name}_rmse"] = trainer.scale * math.sqrt(sums[losses.TERMS.index(term)] / n)
    of_frames = trainer.errors(trainer.validation, trainer.ema)
    table = errors.table(of_frames, trainer.data)
    kinds = [r for r in table if r["by"] == "config_type"] or [r for r in table if r["by"] == "size"]
    for r in [*(kinds if len(kinds) <= 12 else []), table[-1]]:
        row[f"force_rmse_{r['value']}"] = r["force_rmse"]
        row[f"energy_rmse_{r['value']}"] = r["energy_rmse"]
    if table[-1]["stress_rmse"] is not None:
        row["stress_rmse_all"] = table[-1]["stress_rmse"]
    return row, table, trainer.weighted_error(of_frames)


class Loop:
    """Trains until the schedule ends or `stop` returns true.

    checkpoint, curve_path: files; write: called with each line of progress; stop: called with errors.table of the
    validation set; save_every: seconds between checkpoints."""

    def __init__(self, trainer, checkpoint, curve_path, write, stop=None, save_every=60.0):
        self.trainer, self.checkpoint, self.curve_path, self.write = trainer, checkpoint, curve_path, write
        self.stop, self.save_every = stop, save_every
        self.begin, self.first_step = time.monotonic(), trainer.step
        self.saved_at = self.printed_at = self.begin

    def progress(self):
        """0 .. 1 of the schedule."""
        return self.trainer.step / self.trainer.train["steps"]

    def left(self):
        """Words for the speed and the time left."""
        spent = time.monotonic() - self.begin
        speed = (self.trainer.step - self.first_step) / max(spent, 1e-9)
        seconds = (self.trainer.train["steps"] - self.trainer.step) / max(speed, 1e-9)
        return f"{speed:.1f} steps/s, {max(0.0, seconds):.0f} s left"

    def one(self):
        """One step; the learning rate."""
        trainer = self.trainer
        parts, rate = trainer.choose(), trainer.set_controls(self.progress())
        if trainer.graph is not None:
            trainer.graph.replay()
        elif trainer.fast:
            trainer.one_fast_step(parts)
        else:
            trainer.one_step(parts)
        trainer.step += 1
        if trainer.device.type == "cuda" and trainer.step % 20 == 0:
            torch.cuda.synchronize()  # keeps the clock honest; the queue is never long
        return rate

    def validate(self, rate):
        """Errors of the validation set, the learning curve, and what follows from them."""
        trainer = self.trainer
        row, table, error = validated(trainer, rate)
        trainer.history.append(row)
        self.printed_at = time.monotonic()
        stress = f" {row['stress_rmse_all']:.3f} GPa" if "stress_rmse_all" in row else ""
        self.write(
            f"step {trainer.step} of {trainer.train['steps']} ({self.left()}) lr {rate:.1e} train "
            f"{1000 * row['train_force_rmse']:.1f} meV/A, validation {1000 * row['force_rmse_all']:.1f} meV/A "
            f"{1000 * row['energy_rmse_all']:.2f} meV/atom{stress}"
        )
        if trainer.keep_or_return(error):
            self.write(
                f"the validation error has jumped: back to {1000 * trainer.best_error:.1f} meV/A, learning rate "
                f"times {trainer.brake:.2f}"
            )
            if trainer.brake < 0.05:
                raise ModelError(f"training diverges again and again (step {trainer.step}): lower learning_rate")
        elif self.stop and self.stop(table):
            trainer.stopped = True
            self.write(f"stopped at step {trainer.step}: the errors are small enough")
        curve.write(self.curve_path, trainer.history)

    def run(self):
        """Trains to the end and saves the checkpoint."""
        trainer, every = self.trainer, self.trainer.train["validate_every"]
        while self.progress() < 1.0 and not trainer.stopped:
            rate = self.one()
            if trainer.step % every == 0 or self.progress() >= 1.0:
                self.validate(rate)
            now = time.monotonic()
            if now - self.printed_at > PROGRESS_SECONDS:
                self.write(f"step {trainer.step} of {trainer.train['steps']} ({self.left()})")
                self.printed_at = now
            if now - self.saved_at >= self.save_every:
                save_checkpoint(self.checkpoint, trainer)
                self.saved_at = time.monotonic()
        save_checkpoint(self.checkpoint, trainer)


def device_of(wanted):
    """The device of that name: auto, cpu, cuda or cuda:N. ModelError when it is not here."""
    n = torch.cuda.device_count()
    if wanted == "auto":
        return torch.device("cuda" if n else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", wanted):
        raise ModelError(f"device '{wanted}': auto, cpu, cuda and cuda:N are possible")
    if wanted != "cpu" and int(wanted.partition(":")[2] or 0) >= n:
        here = f"{n} GPUs, cuda:0 to cuda:{n - 1}" if n else "no GPU, so only cpu is possible here"
        raise ModelError(f"device {wanted}: PyTorch finds {here}")
    return torch.device(wanted)


def make_trainer(config, data, checkpoint, start, write):
    """The Trainer of a run: new, with the weights of the checkpoint `start`, or where `checkpoint` was left."""
    if torch is None:
        raise ModelError("PyTorch is missing in this Python: pip install torch")
    t = config["train"]
    device = device_of(t["device"])
    torch.set_float32_matmul_precision("highest")
    if device.type == "cpu" and t["threads"]:
        torch.set_num_threads(t["threads"])
    begin, there = time.monotonic(), os.path.exists(checkpoint)
    base = load_checkpoint(checkpoint) if there else load_checkpoint(start) if start else None
    trainer = Trainer(config, data, data["sha256"], device, base)
    if there:
        trainer.restore(base, checkpoint)
    elif start:
        _check_same(base, config, start, METHOD)
        trainer.start(base, start)
    write(
        f"{config['name']}: {len(trainer.theta)} parameters, {sum(len(c.frames) for c in trainer.classes)} frames of "
        f"{len(trainer.classes)} compositions, force scale {trainer.scale:.3f} eV/A, {device}, "
        f"{torch.get_num_threads()} thread(s), from step {trainer.step}, prepared in {time.monotonic() - begin:.1f} s"
    )
    return trainer


def held_out(trainer):
    """errors.table of the test set, or without one of the validation set."""
    test = trainer.of_split("test")
    for c in test if trainer.fast else ():
        trainer.fast.prepare(c)
    return errors.table(trainer.errors(test or trainer.validation, trainer.ema), trainer.data)


def _print(text):
    print(text, flush=True)


def _check_same(state, config, checkpoint, keys=None):
    """ModelError when a checkpoint was made with other settings (`keys` of train, default all): what it goes on with
    would be neither's result. Defaults of another version are other settings too."""
    flat = lambda c: {**c["train"], "repulsion": c.get("repulsion") or None}
    theirs, mine = flat(state["config"]), flat(config)
    for key in keys or mine:
        if theirs.get(key) != mine[key]:
            raise ModelError(
                f"{checkpoint}: was made with {key} {theirs.get(key)}, not {mine[key]}: choose another folder (--from "
                "takes over its trajectories), or remove it to start anew"
            )


def train(config, data, folder, write=_print, stop=None, start=None, save_every=60.0):
    """Trains the student of a configuration (recipe_training.config) on the arrays of dataset.from_labels.

    Writes into the folder: NAME.checkpoint, NAME.csv and NAME.svg (learning curve), NAME.errors.json, and the model
    NAME.yaml with NAME.safetensors. A killed run continues when it is called again, and gives the same bits as an
    uninterrupted one on the same machine with the same packages.

    write: called with each line of progress; stop: called with errors.table of the validation set, true ends the
    training; start: checkpoint of the same network with the initial weights; save_every: seconds between checkpoints.
    Returns a namespace: model (path of NAME.yaml), checkpoint, curve, picture (paths), step, stopped (by `stop`),
    errors (errors.table of held-out frames), validation (the same of the validation set), history (rows of the curve).
    """
    config = {**config, "train": {**TRAIN_DEFAULTS, "threads": 1, **config["train"]}}
    name = os.path.join(folder, config["name"])
    checkpoint = name + ".checkpoint"
    with locked(folder, "another run is training in this folder"):
        if torch and os.path.exists(checkpoint):
            _check_same(load_checkpoint(checkpoint), config, checkpoint)
        trainer = make_trainer(config, data, checkpoint, start, write)
        if trainer.weights["energy"] and not dataset.info(data).get("derivatives", True):
            write(
                "warning: the teacher's forces are not derivatives of its energy: with energy_weight: 0 and "
                "stress_weight: 0 the student learns the forces alone"
            )
        try:
            rows = _run(trainer, name, checkpoint, write, stop, save_every)
        except OSError as e:
            raise ModelError(f"{folder}: {e.strerror or e}; run the same command to continue from {checkpoint}") from e
        return SimpleNamespace(
            model=name + ".yaml",
            checkpoint=checkpoint,
            curve=name + ".csv",
            picture=name + ".svg",
            step=trainer.step,
            stopped=trainer.stopped,
            errors=rows,
            validation=errors.table(trainer.errors(trainer.validation, trainer.ema), trainer.data),
            history=trainer.history,
        )


def _run(trainer, name, checkpoint, write, stop, save_every):
    """Trains to the end and writes what train() says; errors.table of held-out frames."""
    if trainer.device.type == "cuda" and trainer.soap is None and trainer.counts is not None:
        trainer.capture()
    Loop(trainer, checkpoint, name, write, stop=stop, save_every=save_every).run()
    curve.write(name, trainer.history)
    rows = held_out(trainer)
    for r in rows:
        write(errors.text(r))
    files.write_bytes(name + ".errors.json", (json.dumps(rows, indent=1) + "\n").encode("ascii"))
    export.export(trainer, name, rows)
    write(f"{name}.yaml written, step {trainer.step}")
    return rows
