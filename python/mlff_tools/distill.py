"""Trains a model on labelled structures: `python -m mlff_tools.distill CONFIG.yaml --data DATA.npz` (needs PyTorch).

Loss: mean over force components of (dF)^2 plus energy_weight times the mean over frames of (dE / n_atoms)^2, in units
of the root mean square force of the training set. Adam or SOAP (soap.py: a few times fewer steps, but no CUDA graph);
learning rate with a warm-up and a cosine to its final value; gradients clipped; a moving average of the weights is what is
validated and exported. Every step takes a fixed number of frames of each kind (sequence of elements), so that all steps
have the same shapes and a GPU can replay one captured graph. On a CPU with a C compiler the costly parts run in C
(cpu.py, cpu_ani.py).

A run stops when its steps are done, or its budget of seconds is spent, or at --max-seconds; it writes a checkpoint and
the model either way, and a later call goes on from the checkpoint. When the validation error jumps (by JUMP), the weights
of the best validation come back and the learning rate is lowered. With --budget-seconds the schedule follows the time
spent instead of the steps, so that the learning rate has always come down at the end.
"""

import argparse
import math
import os
import sys
import time

import numpy as np

from . import dataset, modelfile, selftest
from .modelfile import ModelError

try:
    import torch
    from . import cpu, cpu_ani, frames, soap
    from .networks import ARCHITECTURES, splines_onto
except ImportError:
    torch = None

TRAIN_DEFAULTS = {"seed": 1, "steps": 50000, "learning_rate": 1.0e-3, "final_learning_rate": 1.0e-6, "warmup": 500,
                  "energy_weight": 100.0, "final_energy_weight": None, "ema": 0.999, "clip": 10.0, "validate_every": 1000,
                  "keep": 0.8, "batch": None, "optimizer": "adam", "force_ceiling": None,
                  "force_limit": None, "energy_limit": None}
JUMP, BRAKE = 1.5, 0.7  # of the validation error, that a run does not go on from; of the learning rate afterwards
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


def fit_offsets(data):
    """Energy per element (eV) [n_elements]: the labels' free atoms plus the smallest correction that fits the mean
    energies of the training set (least squares; several compositions may leave it undetermined, hence the smallest)."""
    train = dataset.frames_of(data, "train")
    counts = np.zeros((len(train), len(data["elements"])))
    for row, k in enumerate(train):
        counts[row] = np.bincount(data["species"][data["first"][k]:data["first"][k + 1]], minlength=counts.shape[1])
    residual = data["energy"][train] - counts @ data["offset"]
    n = counts.sum(1, keepdims=True)
    return data["offset"] + np.linalg.lstsq(counts / n, residual / n[:, 0], rcond=1e-8)[0]


class Order:
    """Which frames each step takes: k frames of every class from a permutation of the class, renewed when it is used up.
    A function of (seed, step) alone, so that an interrupted run goes on as if it had not been interrupted."""

    def __init__(self, sizes, counts, seed):
        self.sizes, self.counts, self.seed = sizes, counts, seed
        self.cache = {}

    def _permutation(self, c, epoch):
        if self.cache.get(c, (None,))[0] != epoch:
            rng = np.random.default_rng([self.seed, c, epoch])
            self.cache[c] = (epoch, rng.permutation(self.sizes[c]))
        return self.cache[c][1]

    def steps(self, first, n):
        """For every class an array [n, k] of frame indices for steps first .. first + n - 1."""
        out = []
        for c, (size, k) in enumerate(zip(self.sizes, self.counts)):
            places = np.arange(first * k, (first + n) * k)
            chosen = np.empty(len(places), np.int64)
            for epoch in np.unique(places // size):
                mine = places // size == epoch
                chosen[mine] = self._permutation(c, int(epoch))[places[mine] % size]
            out.append(chosen.reshape(n, k))
        return out


class Trainer:
    """State of one training run; the parameters are views of one flat vector, and so are their moving averages."""

    def __init__(self, config, data, data_sha256, device):
        self.config, self.train, self.device = config, config["train"], device
        self.data, self.data_sha256 = data, data_sha256
        self.network = ARCHITECTURES[config["architecture"]](config["model"], data["elements"])
        train = dataset.frames_of(data, "train")
        atoms = np.concatenate([np.arange(data["first"][k], data["first"][k + 1]) for k in train])
        self.scale = float(np.sqrt(np.mean(data["forces"][atoms].astype(float) ** 2)))
        self.limits = [x and x / self.scale for x in (self.train["force_limit"], self.train["energy_limit"])]
        self.offsets = fit_offsets(data)
        self.classes = frames.classes(data, "train", self.network, device, self.scale, self.offsets)
        self.validation = frames.classes(data, "validation", self.network, device, self.scale, self.offsets)
        self.counts = self._counts()
        self.order = Order([len(c.frames) for c in self.classes], self.counts, self.train["seed"])
        self.fast = None
        if device.type == "cpu" and cpu.available():
            kind = {"painn": cpu.FastPaiNN, "ani": cpu_ani.FastAni}[config["architecture"]]
            self.fast = kind(self.network, os.path.expanduser("~/.cache/mlff"))
            for c in self.classes + self.validation:
                self.fast.prepare(c)
        self._parameters()
        if self.train["optimizer"] not in ("adam", "soap"):
            raise ModelError(f"train.optimizer '{self.train['optimizer']}' is not adam or soap")
        self.soap = soap.Soap(self.shapes, device) if self.train["optimizer"] == "soap" else None
        self.step, self.elapsed, self.history = 0, 0.0, []
        self.brake, self.best, self.best_error = 1.0, None, math.inf
        self.graph = None
        self.controls = torch.zeros(5, device=device)  # rate, Adam's two corrections, energy weight, 1 - ema
        self.index = [torch.zeros(k, dtype=torch.long, device=device) for k in self.counts]
        self.atoms_of = frames.of_element(list(zip(self.classes, self.index)), len(data["elements"]))
        self.losses = torch.zeros(3, device=device)  # sums of energy loss, force loss, number of steps

    def _counts(self):
        """Frames of each class per step, from train.batch: {number of atoms: frames}."""
        wanted = {int(n): int(k) for n, k in (self.train["batch"] or {}).items()}
        sizes = {c.n_atoms for c in self.classes}
        if set(wanted) != sizes or min(wanted.values()) < 1:
            raise ModelError(f"train.batch gives frames per step for {sorted(wanted)} atoms, the training set has frames "
                             f"of {sorted(sizes)} atoms: give at least one frame for each")
        return [min(wanted[c.n_atoms], len(c.frames)) for c in self.classes]

    def _parameters(self):
        generator = torch.Generator().manual_seed(self.train["seed"])
        some = (self.plain_batch(c, torch.arange(a, min(a + 4, len(c.frames)), device=self.device))
                for c in self.classes for a in range(0, len(c.frames), max(4, len(c.frames) // 20)))
        initial = self.network.initial(generator, some)
        self.shapes = {k: v.shape for k, v in initial.items()}
        self.theta = torch.cat([v.flatten() for v in initial.values()]).to(self.device)
        self.ema, self.m, self.v = self.theta.clone(), torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.parameters = {k: p.requires_grad_() for k, p in self.views(self.theta).items()}
        # Weights of the frames in the loss [members, frames of a class]: members of an ensemble leave out some, each others.
        rng = np.random.default_rng([self.train["seed"], 77])
        keep = [rng.random((self.network.n_members, len(c.frames))) < self.train["keep"] for c in self.classes]
        if self.network.n_members == 1:
            keep = [np.ones_like(k) for k in keep]
        self.keep = [torch.as_tensor(k * self._weights(c), dtype=torch.float32, device=self.device)
                     for k, c in zip(keep, self.classes)]

    def _weights(self, frame_class):
        """Weights [frames] (numpy): a frame whose root mean square force f exceeds train.force_ceiling counts by
        (ceiling / f)^2, so that few far distorted frames do not drown all others."""
        ceiling = self.train["force_ceiling"]
        if ceiling is None:
            return np.ones(len(frame_class.frames))
        f = frame_class.forces.square().mean((1, 2)).sqrt().cpu().numpy() * self.scale
        return np.minimum(1.0, (ceiling / f) ** 2)

    def views(self, flat):
        """name -> view of a flat vector."""
        out, at = {}, 0
        for name, shape in self.shapes.items():
            n = math.prod(shape)
            out[name] = flat[at:at + n].view(shape).detach()
            at += n
        return out

    def plain_batch(self, frame_class, index):
        """A batch of frames of one class, of any number."""
        parts = [(frame_class, index)]
        return frames.batch(parts, frames.of_element(parts, len(self.data["elements"])))

    def one_step(self):
        """Gradient and update for the frames in self.index; only device work, nothing that waits for the device."""
        batch = frames.batch(list(zip(self.classes, self.index)), self.atoms_of)
        energies, forces = self.network(self.parameters, batch, training=True)
        keep = torch.cat([k.index_select(1, index) for k, index in zip(self.keep, self.index)], 1)
        n = keep.shape[1] * self.network.n_members
        energy_square = ((energies - batch.energy) / batch.n_atoms).square()
        of_frame = frames.mean_squares(forces - batch.forces, batch)
        share = 3 * batch.n_atoms / forces.numel()
        energy_loss = (frames.bounded(energy_square, self.limits[1]) * keep).sum() / n
        force_loss = (frames.bounded(of_frame, self.limits[0]) * keep * share).sum()
        loss = self.network.n_members * (force_loss + self.controls[3] * energy_loss)
        gradient = torch.autograd.grad(loss, list(self.parameters.values()), materialize_grads=True)
        self.update(gradient, energy_loss, force_loss)

    def one_fast_step(self):
        """The same on a CPU through cpu.py or cpu_ani.py."""
        batch = self.fast.batch(list(zip(self.classes, self.index)))
        keep = torch.cat([k.index_select(1, index) for k, index in zip(self.keep, self.index)], 1)
        self.update(*self.fast.gradient(self.parameters, batch, float(self.controls[3]), keep, self.limits))

    def update(self, gradient, energy_loss, force_loss):
        """Adam or SOAP with clipping, the moving average, and the sums of the losses."""
        with torch.no_grad():
            g = torch.cat([x.flatten() for x in gradient])
            g.mul_((self.train["clip"] / (g.norm() + 1e-12)).clamp_max(1.0))
            if self.soap:
                direction = self.soap.direction(g, self.m, self.v, self.controls)
            else:
                self.m.lerp_(g, 0.1)
                self.v.lerp_(g.square(), 0.001)
                direction = self.controls[1] * self.m / ((self.v * self.controls[2]).sqrt() + 1e-8)
            self.theta.sub_(self.controls[0] * direction)
            self.ema.lerp_(self.theta, self.controls[4])
            self.losses.add_(torch.stack([energy_loss.detach(), force_loss.detach(), torch.ones_like(force_loss)]))

    def set_controls(self, progress):
        """Learning rate and loss weight at `progress` (0 .. 1) of the schedule, to the device."""
        t = self.train
        cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        rate = t["final_learning_rate"] + (t["learning_rate"] - t["final_learning_rate"]) * cosine
        rate *= self.brake * min(1.0, (self.step + 1) / t["warmup"])
        weight = t["energy_weight"]
        if t["final_energy_weight"] is not None:
            weight = weight * (t["final_energy_weight"] / weight) ** min(progress, 1.0)
        n = self.step + 1
        values = [rate, 1 / (1 - 0.9 ** n), 1 / (1 - 0.999 ** n), weight,
                  1 - min(t["ema"], n / (n + 10))]
        self.controls.copy_(torch.tensor(values), non_blocking=True)
        return rate

    def keep_or_return(self, error):
        """Keeps the state when the validation error (eV/A) is the smallest so far; returns to that state when the error has
        jumped. True when it returned."""
        live = (self.theta, self.ema, self.m, self.v)
        if error < self.best_error:
            self.best, self.best_error = [x.clone() for x in live], error
        elif self.best is None:
            raise ModelError(f"the validation error is not finite at step {self.step}: lower train.learning_rate")
        elif not error < JUMP * self.best_error:
            for x, good in zip(live, self.best):
                x.copy_(good)
            self.brake *= BRAKE
            return True
        return False

    def capture(self):
        """Captures one_step as a CUDA graph; the state is as before afterwards. Without a graph if that fails."""
        live = (self.theta, self.ema, self.m, self.v, self.losses)
        state = [x.clone() for x in live]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        try:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.one_step()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph):
                self.one_step()
            self.graph = graph
        except RuntimeError as e:
            print(f"warning: no CUDA graph, steps will be slower: {str(e).splitlines()[0]}", flush=True)
        for x, old in zip(live, state):
            x.copy_(old)

    def evaluate(self, classes, flat):
        """Errors of the parameters `flat` on frames of `classes`: list of mappings, one per class, then the total.

        force_rmse, force_mae: eV/A over all components; energy_rmse: eV/atom; of the mean over an ensemble's members.
        """
        parameters, rows = self.views(flat), []
        for c in classes:
            square = absolute = energy = 0.0
            size = max(1, min(len(c.frames), 3000 // c.n_atoms if self.device.type == "cuda" else 400 // c.n_atoms))
            for a in range(0, len(c.frames), size):
                index = torch.arange(a, min(a + size, len(c.frames)), device=self.device)
                if self.fast:
                    batch = self.fast.batch([(c, index)])
                    energies, forces = self.fast.energies_forces(parameters, batch)
                else:
                    batch = self.plain_batch(c, index)
                    energies, forces = self.network(parameters, batch, training=False)
                error = forces.detach().mean(0).double() - batch.forces.double()
                square += float(error.square().sum())
                absolute += float(error.abs().sum())
                error = (energies.detach().mean(0).double() - batch.energy.double()) / c.n_atoms
                energy += float(error.square().sum())
            rows.append({"n_atoms": c.n_atoms, "frames": len(c.frames), "components": 3 * c.n_atoms * len(c.frames),
                         "square": square, "absolute": absolute, "energy": energy})
        rows.append({"n_atoms": "all", **{k: sum(r[k] for r in rows) for k in
                                          ("frames", "components", "square", "absolute", "energy")}})
        return [{"n_atoms": r["n_atoms"], "frames": r["frames"],
                 "force_rmse": self.scale * math.sqrt(r["square"] / r["components"]),
                 "force_mae": self.scale * r["absolute"] / r["components"],
                 "energy_rmse": self.scale * math.sqrt(r["energy"] / r["frames"])} for r in rows if r["frames"]]

    def state(self):
        return {"config": self.config, "data_sha256": self.data_sha256, "step": self.step, "elapsed": self.elapsed,
                "history": self.history, "brake": self.brake, "soap": self.soap.state() if self.soap else None,
                **{k: getattr(self, k).cpu() for k in ("theta", "ema", "m", "v")}}

    def start(self, state, path):
        """Takes over the averaged weights of another run of the same network, or of one with wider splines or a longer cutoff
        (networks.splines_onto)."""
        mine, theirs = self.config["model"], state["config"]["model"]
        if {**theirs, "cutoff": 0, "radial_basis": 0} != {**mine, "cutoff": 0, "radial_basis": 0} or (
                theirs != mine and any(m["radial_basis"]["kind"] != "bspline" for m in (mine, theirs))):
            raise ModelError(f"{path}: the checkpoint is of another network")
        at = 0
        for name, weight in self.views(self.theta).items():
            splines = theirs != mine and name.startswith("filter.")
            n = theirs["radial_basis"]["n"] if splines else weight.shape[-1]
            size = weight.numel() // weight.shape[-1] * n
            found = state["ema"][at:at + size].view(*weight.shape[:-1], n)
            if splines:
                found = splines_onto(found, theirs["cutoff"], n, weight.shape[-1], mine["cutoff"])
            if found is None:
                raise ModelError(f"{path}: the splines of the checkpoint (cutoff {theirs['cutoff']}, {n}) cannot become those of "
                                 f"this network: their spacing must be the same, twice as wide, ..., and their cutoff not shorter")
            weight.copy_(found)
            at += size
        self.ema.copy_(self.theta)

    def restore(self, state, path):
        if state["config"]["model"] != self.config["model"] or state["data_sha256"] != self.data_sha256:
            raise ModelError(f"{path}: the checkpoint is of another model or data set: remove it to start anew")
        for k in ("theta", "ema", "m", "v"):
            getattr(self, k).copy_(state[k])
        if self.soap and state.get("soap"):
            self.soap.restore(state["soap"])
        self.step, self.elapsed, self.history = state["step"], state["elapsed"], state["history"]
        self.brake = state.get("brake", 1.0)


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
    out = {"text": f"{len(train)} frames from {len(np.unique(data['trajectory'][train]))} trajectories "
                   f"({', '.join(kinds)}), data set '{info['config']['name']}'", "labels": info["labels"],
           "labels_sha256": info["model_sha256"]}
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
    kinds = ", ".join(f"{e['n_atoms']} atoms: {1000 * e['force_rmse']:.1f} meV/A, {1000 * e['energy_rmse']:.2f} meV/atom"
                      for e in errors[:-1])
    domain = config.get("domain", {})
    head = {
        "format": modelfile.FORMAT, "name": config["name"], "architecture": config["architecture"],
        "description": config.get("description", "distilled"), "elements": elements, "cutoff": float(network.cutoff),
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": {e: float(x) for e, x in zip(elements, trainer.offsets)},
        config["architecture"]: network.block(),
        "provenance": {
            "labels": f"{about['labels']} (weights sha256 {about['labels_sha256']})", "data": about["text"],
            "data_sha256": trainer.data_sha256,
            "code": f"mlff_tools.distill, {trainer.step} steps, seed {trainer.train['seed']}, "
                    f"PyTorch {torch.__version__} on {trainer.device.type}",
            "license": config.get("license", "MIT"), "citation": config.get("citation", "none")},
        "domain": {"elements": elements, "min_distance": float(domain.get("min_distance", 0.5)),
                   "temperature": about["temperature"], **({"density": about["density"]} if "density" in about else {}),
                   "description": domain.get("description", about["text"])},
        "accuracy": {"description": f"held-out trajectories against {about['labels']}, PyTorch float32; {kinds}",
                     "force_rmse_mev_per_ang": round(1000 * total["force_rmse"], 3),
                     "energy_rmse_mev_per_atom": round(1000 * total["energy_rmse"], 4)},
        "self_test": selftest.empty()}
    model = (head, tensors)
    head["self_test"] = selftest.block(model, selftest.structures_for(model, [], dataset.seen_together(trainer.data)),
                                       "reference")
    return modelfile.write(name, head, tensors, {"name": config["name"], "license": head["provenance"]["license"]})


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
            n = max(1.0, float(trainer.losses[2]))
            sums = trainer.losses.tolist()
            trainer.losses.zero_()
            row = {"step": trainer.step, "seconds": trainer.elapsed, "learning_rate": rate,
                   "train_force_rmse": trainer.scale * math.sqrt(sums[1] / n),
                   "train_energy_rmse": trainer.scale * math.sqrt(sums[0] / n)}
            for e in trainer.evaluate(trainer.validation, trainer.ema):
                row[f"force_rmse_{e['n_atoms']}"] = e["force_rmse"]
                row[f"energy_rmse_{e['n_atoms']}"] = e["energy_rmse"]
            trainer.history.append(row)
            at_validation = trainer.step
            speed = (trainer.step - first_step) / (time.monotonic() - begin)
            print(f"step {trainer.step} {trainer.elapsed:.0f} s ({speed:.1f} steps/s) lr {rate:.1e} train "
                  f"{1000 * row['train_force_rmse']:.1f} meV/A, validation {1000 * row['force_rmse_all']:.1f} meV/A "
                  f"{1000 * row['energy_rmse_all']:.2f} meV/atom", flush=True)
            if trainer.keep_or_return(row["force_rmse_all"]):
                print(f"the validation error has jumped: back to {1000 * trainer.best_error:.1f} meV/A, learning rate times "
                      f"{trainer.brake:.2f}", flush=True)
                if trainer.brake < 0.05:
                    raise ModelError(f"training diverges again and again (step {trainer.step}): lower train.learning_rate")
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
    device = torch.device("cuda" if args.device == "auto" and torch.cuda.is_available() else
                          "cpu" if args.device == "auto" else args.device)
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
    print(f"{config['name']}: {len(trainer.theta)} parameters, {sum(len(c.frames) for c in trainer.classes)} frames, "
          f"force scale {trainer.scale:.3f} eV/A, {device}, from step {trainer.step}, "
          f"prepared in {time.monotonic() - start:.1f} s", flush=True)
    if device.type == "cuda" and not args.no_graph and trainer.soap is None:
        trainer.capture()
    finished = loop(trainer, args, checkpoint, curve)
    save_checkpoint(checkpoint, trainer)
    test = frames.classes(data, "test", trainer.network, device, trainer.scale, trainer.offsets)
    for c in test if trainer.fast else ():
        trainer.fast.prepare(c)
    errors = trainer.evaluate(test, trainer.ema)
    for e in errors:
        print(f"test, {e['n_atoms']} atoms ({e['frames']} frames): force RMSE {1000 * e['force_rmse']:.2f} meV/A, "
              f"MAE {1000 * e['force_mae']:.2f} meV/A, energy RMSE {1000 * e['energy_rmse']:.3f} meV/atom")
    export(trainer, name, errors)
    print(f"{name}.yaml written, training {'finished' if finished else 'not finished'} at step {trainer.step}")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m mlff_tools.distill", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="configuration, e.g. models/train/water-benzene-student.yaml")
    parser.add_argument("--data", required=True, help="data set made by mlff_tools.sample")
    parser.add_argument("--out", default="work/models", help="folder for the model (default: %(default)s)")
    parser.add_argument("--work", default="work", help="folder for the checkpoint (default: %(default)s)")
    parser.add_argument("--curves", metavar="FOLDER", help="folder for the learning curve (default: that of --work)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads on the CPU")
    parser.add_argument("--start", metavar="CHECKPOINT", help="begin with the weights of another run of this network")
    parser.add_argument("--seed", type=int, help="instead of the configuration's")
    parser.add_argument("--max-seconds", type=float, default=math.inf, metavar="S", help="stop this call after S seconds")
    parser.add_argument("--budget-seconds", type=float, metavar="S",
                        help="let the schedule follow the time, S seconds over all calls together, not the steps")
    parser.add_argument("--no-graph", action="store_true", help="do not use CUDA graphs")
    args = parser.parse_args(argv)
    try:
        distill(args)
    except ModelError as e:
        sys.exit(f"mlff_tools.distill: error: {e}")


if __name__ == "__main__":
    main()
