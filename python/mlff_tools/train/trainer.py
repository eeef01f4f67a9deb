"""The state of a training run and its steps; what a loss, a schedule and an optimiser are here stands in distill.py."""

import math
import os

import numpy as np

from ..model.modelfile import ModelError
from . import dataset

try:
    import torch

    from . import frames
    from .fast import cpu, cpu_ani, soap
    from .networks import ARCHITECTURES, splines_onto
except ImportError:
    torch = None

JUMP, BRAKE = 1.5, 0.7  # of the validation error, that a run does not go on from; of the learning rate afterwards


def fit_offsets(data):
    """Energy per element (eV) [n_elements]: the labels' free atoms plus the smallest correction that fits the mean
    energies of the training set (least squares; several compositions may leave it undetermined, hence the smallest)."""
    train = dataset.frames_of(data, "train")
    counts = np.zeros((len(train), len(data["elements"])))
    for row, k in enumerate(train):
        counts[row] = np.bincount(data["species"][data["first"][k] : data["first"][k + 1]], minlength=counts.shape[1])
    residual = data["energy"][train] - counts @ data["offset"]
    n = counts.sum(1, keepdims=True)
    return data["offset"] + np.linalg.lstsq(counts / n, residual / n[:, 0], rcond=1e-8)[0]


class Order:
    """Which frames each step takes: k frames of every class from a permutation of the class, renewed when it is used
    up. A function of (seed, step) alone, so that an interrupted run goes on as if it had not been interrupted."""

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
            raise ModelError(
                f"train.batch gives frames per step for {sorted(wanted)} atoms, the training set has frames "
                f"of {sorted(sizes)} atoms: give at least one frame for each"
            )
        return [min(wanted[c.n_atoms], len(c.frames)) for c in self.classes]

    def _parameters(self):
        generator = torch.Generator().manual_seed(self.train["seed"])
        some = (
            self.plain_batch(c, torch.arange(a, min(a + 4, len(c.frames)), device=self.device))
            for c in self.classes
            for a in range(0, len(c.frames), max(4, len(c.frames) // 20))
        )
        initial = self.network.initial(generator, some)
        self.shapes = {k: v.shape for k, v in initial.items()}
        self.theta = torch.cat([v.flatten() for v in initial.values()]).to(self.device)
        self.ema, self.m, self.v = self.theta.clone(), torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.parameters = {k: p.requires_grad_() for k, p in self.views(self.theta).items()}
        # Weights of the frames in the loss [members, frames of a class]: members of an ensemble leave out some, each
        # others.
        rng = np.random.default_rng([self.train["seed"], 77])
        keep = [rng.random((self.network.n_members, len(c.frames))) < self.train["keep"] for c in self.classes]
        if self.network.n_members == 1:
            keep = [np.ones_like(k) for k in keep]
        self.keep = [
            torch.as_tensor(k * self._weights(c), dtype=torch.float32, device=self.device)
            for k, c in zip(keep, self.classes)
        ]

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
            out[name] = flat[at : at + n].view(shape).detach()
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
        """The same on a CPU through fast/."""
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
        values = [rate, 1 / (1 - 0.9**n), 1 / (1 - 0.999**n), weight, 1 - min(t["ema"], n / (n + 10))]
        self.controls.copy_(torch.tensor(values), non_blocking=True)
        return rate

    def keep_or_return(self, error):
        """Keeps the state when the validation error (eV/A) is the smallest so far; returns to that state when the error
        has jumped. True when it returned."""
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
            rows.append(
                {
                    "n_atoms": c.n_atoms,
                    "frames": len(c.frames),
                    "components": 3 * c.n_atoms * len(c.frames),
                    "square": square,
                    "absolute": absolute,
                    "energy": energy,
                }
            )
        rows.append(
            {
                "n_atoms": "all",
                **{k: sum(r[k] for r in rows) for k in ("frames", "components", "square", "absolute", "energy")},
            }
        )
        return [
            {
                "n_atoms": r["n_atoms"],
                "frames": r["frames"],
                "force_rmse": self.scale * math.sqrt(r["square"] / r["components"]),
                "force_mae": self.scale * r["absolute"] / r["components"],
                "energy_rmse": self.scale * math.sqrt(r["energy"] / r["frames"]),
            }
            for r in rows
            if r["frames"]
        ]

    def state(self):
        return {
            "config": self.config,
            "data_sha256": self.data_sha256,
            "step": self.step,
            "elapsed": self.elapsed,
            "history": self.history,
            "brake": self.brake,
            "soap": self.soap.state() if self.soap else None,
            **{k: getattr(self, k).cpu() for k in ("theta", "ema", "m", "v")},
        }

    def start(self, state, path):
        """Takes over the averaged weights of another run of the same network, or of one with wider splines or a longer
        cutoff (networks.splines_onto)."""
        mine, theirs = self.config["model"], state["config"]["model"]
        if {**theirs, "cutoff": 0, "radial_basis": 0} != {**mine, "cutoff": 0, "radial_basis": 0} or (
            theirs != mine and any(m["radial_basis"]["kind"] != "bspline" for m in (mine, theirs))
        ):
            raise ModelError(f"{path}: the checkpoint is of another network")
        at = 0
        for name, weight in self.views(self.theta).items():
            splines = theirs != mine and name.startswith("filter.")
            n = theirs["radial_basis"]["n"] if splines else weight.shape[-1]
            size = weight.numel() // weight.shape[-1] * n
            found = state["ema"][at : at + size].view(*weight.shape[:-1], n)
            if splines:
                found = splines_onto(found, theirs["cutoff"], n, weight.shape[-1], mine["cutoff"])
            if found is None:
                raise ModelError(
                    f"{path}: the splines of the checkpoint (cutoff {theirs['cutoff']}, {n}) cannot become those of "
                    "this network: their spacing must be the same, twice as wide, ..., and their cutoff not shorter"
                )
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
