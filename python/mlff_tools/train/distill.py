"""Trains a model on labelled structures: `python -m mlff_tools.distill CONFIG.yaml --data DATA.npz` (needs PyTorch).

Loss: mean over force components of (dF)^2 plus energy_weight times the mean over frames of (dE / n_atoms)^2, in units
of the root mean square force of the training set. Adam or SOAP (fast/soap.py: a few times fewer steps, but no CUDA
graph); learning rate with a warm-up and a cosine to its final value; gradients clipped; a moving average of the weights
is what is validated and exported. Every step takes a fixed number of frames of each kind (sequence of elements), so
that all steps have the same shapes and a GPU can replay one captured graph. On a CPU with a C compiler the costly parts
run in C (fast/).

A run stops when its steps are done, or its budget of seconds is spent, or at --max-seconds; it writes a checkpoint and
the model either way, and a later call goes on from the checkpoint. When the validation error jumps (by trainer.JUMP),
the weights of the best validation come back and the learning rate is lowered. With --budget-seconds the schedule
follows the time spent instead of the steps, so that the learning rate has always come down at the end.
"""

import argparse
import math
import os
import sys
import time

import numpy as np

from ..model import modelfile, selftest
from ..model.modelfile import ModelError
from . import dataset
from .trainer import Trainer

try:
    import torch

    from . import frames
    from .networks import ARCHITECTURES
except ImportError:
    torch = None

TRAIN_DEFAULTS = {
    "seed": 1,
    "steps": 50000,
    "learning_rate": 1.0e-3,
    "final_learning_rate": 1.0e-6,
    "warmup": 500,
    "energy_weight": 100.0,
    "final_energy_weight": None,
    "ema": 0.999,
    "clip": 10.0,
    "validate_every": 1000,
    "keep": 0.8,
    "batch": None,
    "optimizer": "adam",
    "force_ceiling": None,
    "force_limit": None,
    "energy_limit": None,
}
CHUNK = 256  # steps whose frame indices are drawn and moved to the device at once


def read_config(path):
    """The configuration with defaults filled in."""
    config = modelfile.load_yaml(path)
    for key in ("name", "architecture", "model", "train"):
        if key not in config:
            raise ModelError(f"{path}: key '{key}' is missing")
    if config["architecture"] not in ARCHITECTURES:
        raise ModelError(f"{path}: architecture '{config['architecture']}' is not one of {', '.join(ARCHITECTURES)}")
    unknown = set(config["train"]) - set(TRAIN_DEFAULTS)
    if unknown:
        raise ModelError(f"{path}: train.{sorted(unknown)[0]} is not known")
    config["train"] = {**TRAIN_DEFAULTS, **config["train"]}
    return config


def save_checkpoint(path, trainer):
    """Atomic: an interrupted write leaves the old checkpoint."""
    temporary = f"{path}.{os.getpid()}.part"
    torch.save(trainer.state(), temporary)
    os.replace(temporary, path)


def write_curve(path, history):
    """The learning curve as CSV."""
    if not history:
        return
    lines = [",".join(history[0])]
    lines += [",".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()) for row in history]
    modelfile.write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))


def describe(data):
    """Text and ranges of the structures in the training set, for provenance and domain."""
    train = dataset.frames_of(data, "train")
    sizes = np.diff(data["first"])[train]
    periodic = data["density"][train] > 0
    info = dataset.info(data)
    kinds = [f"{int((sizes == n).sum())} of {n} atoms" for n in np.unique(sizes)]
    out = {
        "text": f"{len(train)} frames from {len(np.unique(data['trajectory'][train]))} trajectories "
        f"({', '.join(kinds)}), data set '{info['config']['name']}'",
        "labels": info["labels"],
        "labels_sha256": info["model_sha256"],
    }
    temperature = data["temperature"][train]
    out["temperature"] = [float(temperature.min()), float(temperature.max())]
    if periodic.any():
        density = data["density"][train][periodic]
        out["density"] = [float(density.min()), float(density.max())]
    return out


def export(trainer, name, errors):
    """Writes the model NAME (averaged weights) with provenance, domain, accuracy and self-test; returns its head."""
    config, about = trainer.config, describe(trainer.data)
    elements = trainer.data["elements"]
    network, total = trainer.network, errors[-1]
    tensors = network.export(trainer.views(trainer.ema), trainer.scale)
    kinds = ", ".join(
        f"{e['n_atoms']} atoms: {1000 * e['force_rmse']:.1f} meV/A, {1000 * e['energy_rmse']:.2f} meV/atom"
        for e in errors[:-1]
    )
    domain = config.get("domain", {})
    head = {
        "format": modelfile.FORMAT,
        "name": config["name"],
        "architecture": config["architecture"],
        "description": config.get("description", "distilled"),
        "elements": elements,
        "cutoff": float(network.cutoff),
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {e: float(x) for e, x in zip(elements, trainer.offsets)},
        config["architecture"]: network.block(),
        "provenance": {
            "labels": f"{about['labels']} (weights sha256 {about['labels_sha256']})",
            "data": about["text"],
            "data_sha256": trainer.data_sha256,
            "code": f"mlff_tools.distill, {trainer.step} steps, seed {trainer.train['seed']}, "
            f"PyTorch {torch.__version__} on {trainer.device.type}",
            "license": config.get("license", "MIT"),
            "citation": config.get("citation", "none"),
        },
        "domain": {
            "elements": elements,
            "min_distance": float(domain.get("min_distance", 0.5)),
            "temperature": about["temperature"],
            **({"density": about["density"]} if "density" in about else {}),
            "description": domain.get("description", about["text"]),
        },
        "accuracy": {
            "description": f"held-out trajectories against {about['labels']}, PyTorch float32; {kinds}",
            "force_rmse_mev_per_ang": round(1000 * total["force_rmse"], 3),
            "energy_rmse_mev_per_atom": round(1000 * total["energy_rmse"], 4),
        },
        "self_test": selftest.empty(),
    }
    model = (head, tensors)
    head["self_test"] = selftest.block(
        model, selftest.structures_for(model, [], dataset.seen_together(trainer.data)), "reference"
    )
    return modelfile.write(name, head, tensors, {"name": config["name"], "license": head["provenance"]["license"]})


def validated(trainer, rate):
    """A row of the learning curve: mean errors in training since the last one, and those of the validation set now."""
    n = max(1.0, float(trainer.losses[2]))
    sums = trainer.losses.tolist()
    trainer.losses.zero_()
    row = {
        "step": trainer.step,
        "seconds": trainer.elapsed,
        "learning_rate": rate,
        "train_force_rmse": trainer.scale * math.sqrt(sums[1] / n),
        "train_energy_rmse": trainer.scale * math.sqrt(sums[0] / n),
    }
    for e in trainer.evaluate(trainer.validation, trainer.ema):
        row[f"force_rmse_{e['n_atoms']}"] = e["force_rmse"]
        row[f"energy_rmse_{e['n_atoms']}"] = e["energy_rmse"]
    return row


def loop(trainer, args, checkpoint, curve):
    """Trains until the schedule ends or the time of this call is over."""
    t, begin, before = trainer.train, time.monotonic(), trainer.elapsed
    save_at, at_validation, first_step, chunk = begin + 60, trainer.step, trainer.step, None

    def progress():
        if args.budget_seconds:
            return trainer.elapsed / args.budget_seconds
        return trainer.step / t["steps"]

    while progress() < 1.0 and (trainer.elapsed - before < args.max_seconds):
        place = trainer.step % CHUNK
        if chunk is None or place == 0:
            drawn = trainer.order.steps(trainer.step - place, CHUNK)
            chunk = [torch.as_tensor(x).to(trainer.device) for x in drawn]
        for buffer, rows in zip(trainer.index, chunk):
            buffer.copy_(rows[place])
        rate = trainer.set_controls(progress())
        if trainer.graph is not None:
            trainer.graph.replay()
        elif trainer.fast:
            trainer.one_fast_step()
        else:
            trainer.one_step()
        trainer.step += 1
        if trainer.device.type == "cuda" and trainer.step % 20 == 0:
            torch.cuda.synchronize()  # keeps the clock honest; the queue is never long
        trainer.elapsed = before + time.monotonic() - begin
        if trainer.step - at_validation >= t["validate_every"] or progress() >= 1.0:
            row = validated(trainer, rate)
            trainer.history.append(row)
            at_validation = trainer.step
            speed = (trainer.step - first_step) / (time.monotonic() - begin)
            print(
                f"step {trainer.step} {trainer.elapsed:.0f} s ({speed:.1f} steps/s) lr {rate:.1e} train "
                f"{1000 * row['train_force_rmse']:.1f} meV/A, validation {1000 * row['force_rmse_all']:.1f} meV/A "
                f"{1000 * row['energy_rmse_all']:.2f} meV/atom",
                flush=True,
            )
            if trainer.keep_or_return(row["force_rmse_all"]):
                print(
                    f"the validation error has jumped: back to {1000 * trainer.best_error:.1f} meV/A, learning rate "
                    f"times {trainer.brake:.2f}",
                    flush=True,
                )
                if trainer.brake < 0.05:
                    raise ModelError(
                        f"training diverges again and again (step {trainer.step}): lower train.learning_rate"
                    )
            write_curve(curve, trainer.history)
            if time.monotonic() > save_at:
                save_checkpoint(checkpoint, trainer)
                save_at = time.monotonic() + 60
    return progress() >= 1.0


def distill(args):
    """Trains as the command line says and writes model, curve and checkpoint."""
    if torch is None:
        raise ModelError("PyTorch is missing in this Python: pip install torch")
    config = read_config(args.config)
    if args.seed is not None:
        config["train"]["seed"] = args.seed
    device = torch.device(
        "cuda"
        if args.device == "auto" and torch.cuda.is_available()
        else "cpu"
        if args.device == "auto"
        else args.device
    )
    torch.set_float32_matmul_precision("highest")
    if device.type == "cpu" and args.threads:
        torch.set_num_threads(args.threads)
    data, sha256 = dataset.load(args.data)
    if config.get("data_sha256") and config["data_sha256"] != sha256:
        raise ModelError(f"{args.data}: sha256 is {sha256}, {args.config} expects {config['data_sha256']}")
    os.makedirs(args.work, exist_ok=True)
    os.makedirs(args.out, exist_ok=True)
    name = os.path.join(args.out, config["name"])
    checkpoint = os.path.join(args.work, config["name"] + ".checkpoint")
    curve = os.path.join(args.curves or args.work, config["name"] + ".csv")
    start = time.monotonic()
    trainer = Trainer(config, data, sha256, device)
    if os.path.exists(checkpoint):
        trainer.restore(torch.load(checkpoint, map_location="cpu", weights_only=True), checkpoint)
    elif args.start:
        trainer.start(torch.load(args.start, map_location="cpu", weights_only=True), args.start)
    print(
        f"{config['name']}: {len(trainer.theta)} parameters, {sum(len(c.frames) for c in trainer.classes)} frames, "
        f"force scale {trainer.scale:.3f} eV/A, {device}, from step {trainer.step}, "
        f"prepared in {time.monotonic() - start:.1f} s",
        flush=True,
    )
    if device.type == "cuda" and not args.no_graph and trainer.soap is None:
        trainer.capture()
    finished = loop(trainer, args, checkpoint, curve)
    save_checkpoint(checkpoint, trainer)
    test = frames.classes(data, "test", trainer.network, device, trainer.scale, trainer.offsets)
    for c in test if trainer.fast else ():
        trainer.fast.prepare(c)
    errors = trainer.evaluate(test, trainer.ema)
    for e in errors:
        print(
            f"test, {e['n_atoms']} atoms ({e['frames']} frames): force RMSE {1000 * e['force_rmse']:.2f} meV/A, "
            f"MAE {1000 * e['force_mae']:.2f} meV/A, energy RMSE {1000 * e['energy_rmse']:.3f} meV/atom"
        )
    export(trainer, name, errors)
    print(f"{name}.yaml written, training {'finished' if finished else 'not finished'} at step {trainer.step}")


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m mlff_tools.distill", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="configuration, e.g. models/train/water-benzene-student.yaml")
    parser.add_argument("--data", required=True, help="data set made by mlff_tools.sample")
    parser.add_argument("--out", default="work/models", help="folder for the model (default: %(default)s)")
    parser.add_argument("--work", default="work", help="folder for the checkpoint (default: %(default)s)")
    parser.add_argument("--curves", metavar="FOLDER", help="folder for the learning curve (default: that of --work)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads on the CPU")
    parser.add_argument("--start", metavar="CHECKPOINT", help="begin with the weights of another run of this network")
    parser.add_argument("--seed", type=int, help="instead of the configuration's")
    parser.add_argument(
        "--max-seconds", type=float, default=math.inf, metavar="S", help="stop this call after S seconds"
    )
    parser.add_argument(
        "--budget-seconds",
        type=float,
        metavar="S",
        help="let the schedule follow the time, S seconds over all calls together, not the steps",
    )
    parser.add_argument("--no-graph", action="store_true", help="do not use CUDA graphs")
    args = parser.parse_args(argv)
    try:
        distill(args)
    except ModelError as e:
        sys.exit(f"mlff_tools.distill: error: {e}")
