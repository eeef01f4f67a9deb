"""The state of a training run and its steps. training.py describes loss, schedule and optimizer."""

import math
import os

import numpy as np

from ..model import repulsion
from ..model.modelfile import ModelError
from . import dataset

try:
    import torch

    from . import errors, frames, losses, short_range
    from .fast import cpu, cpu_ani, cpu_mace, soap
    from .networks import Ani, PaiNN, splines_onto
    from .networks_mace import Mace

    # The network, and its training on a CPU with a C compiler
    ARCHITECTURES = {"painn": (PaiNN, cpu.FastPaiNN), "ani": (Ani, cpu_ani.FastAni), "mace": (Mace, cpu_mace.FastMace)}
except ImportError:
    torch = None

CHUNK = 256  # steps whose frame indices are drawn and moved to the device at once
BATCH = 256  # atoms per step
CEILING = 2.0  # medians of the frames' root mean square forces: force_ceiling "auto"
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


class Mixed:
    """Which frames each step takes when there are too many classes for some of each: all frames in the order of a
    permutation, renewed when it is used up, cut into steps of about `n_atoms` atoms. A function of (seed, step)."""

    def __init__(self, sizes, atoms, n_atoms, seed):
        self.of_class = np.concatenate([np.full(n, c) for c, n in enumerate(sizes)])
        self.index = np.concatenate([np.arange(n) for n in sizes])
        self.atoms, self.seed = np.array(atoms, float)[self.of_class], seed
        # Steps are no smaller than the largest frame, so that each has the middle of at least one frame.
        self.per_epoch = max(1, int(self.atoms.sum() / max(n_atoms, self.atoms.max())))
        self.epoch, self.permutation, self.bounds = None, None, None

    def parts(self, step):
        """[(class, indices of its frames)] of a step."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.epoch = epoch
            self.permutation = np.random.default_rng([self.seed, epoch]).permutation(len(self.index))
            atoms = self.atoms[self.permutation]
            middle = np.cumsum(atoms) - 0.5 * atoms
            edges = atoms.sum() / self.per_epoch * np.arange(self.per_epoch + 1)
            self.bounds = np.searchsorted(middle, edges)
        mine = np.sort(self.permutation[self.bounds[place] : self.bounds[place + 1]])
        return [(int(c), self.index[mine[self.of_class[mine] == c]]) for c in np.unique(self.of_class[mine])]


class Trainer:
    """State of one training run; the parameters are views of one flat vector, and so are their moving averages.

    base: state() of this run or of one to start from, whose energy scale and offsets are kept."""

    def __init__(self, config, data, data_sha256, device, base=None):
        self.config, self.train, self.device = config, config["train"], device
        self.data, self.data_sha256 = data, data_sha256
        network, fast = ARCHITECTURES[config["architecture"]]
        self.network = network(config["model"], data["elements"])
        self._repulsion()
        self._scale(base)
        self.classes = self.of_split("train")
        if self.weights["hessian"]:
            self.classes += frames.pairs(self.learnt, "train", self.network, device, self.scale, self.offsets)
        self.validation = self.of_split("validation")
        self.fast = None
        if device.type == "cpu" and cpu.available():
            self.fast = fast(self.network, os.path.expanduser("~/.cache/mlff"))
        self._parameters(base)
        for c in self.classes + self.validation if self.fast else ():
            self.fast.prepare(c)
        if self.train["optimizer"] not in ("adam", "soap"):
            raise ModelError(f"train.optimizer '{self.train['optimizer']}' is not adam or soap")
        self.soap = soap.Soap(self.shapes, device) if self.train["optimizer"] == "soap" else None
        self.step, self.history, self.stopped = 0, [], False
        self.brake, self.best, self.best_soap, self.best_error = 1.0, None, None, math.inf
        self.graph = None
        self.controls = torch.zeros(5, device=device)  # rate, Adam's two corrections, energy weight, 1 - ema
        self.losses = torch.zeros(len(losses.TERMS) + 1, device=device)  # sums of the terms, number of steps
        self._order()

    def _repulsion(self):
        """The block repulsion of the model or None, and the data with labels less it: what the network learns."""
        self.repulsion, self.learnt = None, self.data
        if not self.config.get("repulsion"):
            return
        self.repulsion = short_range.block(self.data, self.network.cutoff, self.config.get("repulsion_of_labels"))
        head = {"elements": self.data["elements"], "cutoff": self.network.cutoff, "repulsion": self.repulsion}
        self.network.clamps = torch.tensor(repulsion.cutoffs(head), device=self.device)
        self.learnt = short_range.without(self.data, head)

    def of_split(self, split):
        """frames.classes of a split."""
        return frames.classes(self.learnt, split, self.network, self.device, self.scale, self.offsets)

    def _scale(self, base):
        """Unit of energy in eV (times A: of forces), offsets of the elements, and the limits of errors in this unit."""
        data, t = self.learnt, self.train
        train = dataset.frames_of(data, "train")
        of_frame = dataset.force_rms(data, train)
        if base and base.get("scale") and base["elements"] == data["elements"]:
            self.scale, self.offsets = base["scale"], np.array(base["offsets"])
        else:
            sizes = np.diff(data["first"])[train]
            self.scale = float(np.sqrt((of_frame**2 * sizes).sum() / sizes.sum()))
            self.offsets = fit_offsets(data)
        if not self.scale > 0:
            raise ModelError("the forces of the training set are all zero: there is nothing to learn")
        self.ceiling = t["force_ceiling"]
        if self.ceiling == "auto":
            self.ceiling = CEILING * float(np.median(of_frame))
        names = {"forces": "force_limit", "energy": "energy_limit", "stress": "stress_limit", "atoms": "atom_limit"}
        self.limits = {term: t[name] and t[name] / self.scale for term, name in names.items()}
        self.limits["hessian"] = None
        labelled = {"stress": "stress", "atoms": "atom_energies", "hessian": "hessian_product"}
        names = {"stress": "stress_weight", "atoms": "atom_weight", "hessian": "hessian_weight"}
        self.weights = {"forces": t["force_weight"] or None, "energy": t["energy_weight"] or None}
        for term, key in labelled.items():
            there = key in data and np.isfinite(data[key]).any()
            self.weights[term] = (there and t[names[term]]) or None

    def _order(self):
        """Frames of each class per step where there are few classes, else any frames (self.counts is None)."""
        sizes = [len(c.frames) for c in self.classes]
        self.counts = self._shares(sizes)
        self.chunk, self.chunk_at = None, None
        if self.counts is None:
            atoms = [c.n_atoms for c in self.classes]
            self.order = Mixed(sizes, atoms, self._batch(), self.train["seed"])
            return
        self.order = Order(sizes, self.counts, self.train["seed"])
        self.index = [torch.zeros(k, dtype=torch.long, device=self.device) for k in self.counts]
        self.atoms_of = frames.of_element(list(zip(self.classes, self.index)), len(self.data["elements"]))

    def _batch(self):
        """Atoms of a step: train.batch for frames, with the Hessian-vector products of as many frames on top."""
        atoms = [len(c.frames) * c.n_atoms for c in self.classes]
        of_frames = sum(n for n, c in zip(atoms, self.classes) if not isinstance(c, frames.Pairs))
        return (self.train["batch"] or BATCH) * sum(atoms) / of_frames

    def _shares(self, sizes):
        """Frames of each class per step of about train.batch atoms, all classes in proportion; None when a class would
        come in fewer than all steps."""
        share = self._batch() / sum(n * c.n_atoms for n, c in zip(sizes, self.classes))
        if len(sizes) > 1 and min(sizes) * share < 0.75:
            return None
        return [min(n, max(1, round(n * share))) for n in sizes]

    def choose(self):
        """The frames of the next step: [(class, indices)], in self.index if each step takes the same number of each."""
        if self.counts is None:
            parts = self.order.parts(self.step)
            return [(self.classes[c], torch.as_tensor(i).to(self.device)) for c, i in parts]
        place = self.step % CHUNK
        if self.chunk_at != self.step - place:
            self.chunk_at = self.step - place
            self.chunk = [torch.as_tensor(x).to(self.device) for x in self.order.steps(self.chunk_at, CHUNK)]
        for buffer, rows in zip(self.index, self.chunk):
            buffer.copy_(rows[place])
        return list(zip(self.classes, self.index))

    def _parameters(self, base):
        generator = torch.Generator().manual_seed(self.train["seed"])
        some = (
            self.plain_batch(c, torch.arange(a, min(a + 4, len(c.frames)), device=self.device))
            for c in self.classes
            for a in range(0, len(c.frames), max(4, len(c.frames) // 20))
        )
        initial = self.network.initial(generator, some)
        if base and base.get("network"):
            self.network.restore(base["network"])
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
            torch.as_tensor(k * self._weights(c.rms), dtype=torch.float32, device=self.device)
            for k, c in zip(keep, self.classes)
        ]

    def _weights(self, rms):
        """Weights [frames] (numpy) of frames with these root mean square forces f [frames] in eV/A: one whose f exceeds
        train.force_ceiling counts by (ceiling / f)^2, so that few far distorted frames do not drown all others."""
        if self.ceiling is None:
            return np.ones(len(rms))
        return np.minimum(1.0, (self.ceiling / np.maximum(rms, 1e-12)) ** 2)

    def weighted_error(self, of_frames):
        """Root mean square error of force components (eV/A) of errors(), with the frames' weights in training."""
        components = 3 * of_frames["n_atoms"]
        weights = self._weights(np.sqrt(of_frames["learnt_square"] / components))
        return float(np.sqrt((weights * of_frames["square"]).sum() / (weights * components).sum()))

    def views(self, flat):
        """name -> view of a flat vector."""
        out, offset = {}, 0
        for name, shape in self.shapes.items():
            n = math.prod(shape)
            out[name] = flat[offset : offset + n].view(shape).detach()
            offset += n
        return out

    def plain_batch(self, frame_class, index):
        """A batch of frames of one class, of any number."""
        parts = [(frame_class, index)]
        return frames.batch(parts, frames.of_element(parts, len(self.data["elements"])))

    def _keep(self, parts):
        """Weights [members, B] of the frames of parts."""
        places = {id(c): k for c, k in zip(self.classes, self.keep)}
        return torch.cat([places[id(c)].index_select(1, index) for c, index in parts], 1)

    def _now(self):
        """The weights of the loss at this step."""
        return {**self.weights, "energy": self.weights["energy"] and self.controls[3]}

    def one_step(self, parts=None):
        """Gradient and update for the frames of parts, default those in self.index; only device work, nothing that
        waits for the device."""
        atoms_of = self.atoms_of if parts is None else frames.of_element(parts, len(self.data["elements"]))
        parts = list(zip(self.classes, self.index)) if parts is None else parts
        batch = frames.batch(parts, atoms_of)
        out = self.network(self.parameters, batch, training=True)
        loss, terms = losses.loss(out, batch, self._keep(parts), self._now(), self.limits)
        gradient = torch.autograd.grad(loss, list(self.parameters.values()), materialize_grads=True)
        self.update(gradient, terms)

    def one_fast_step(self, parts):
        """The same on a CPU through fast/."""
        batch = self.fast.batch(parts)
        self.update(*self.fast.gradient(self.parameters, batch, self._keep(parts), self._now(), self.limits))

    def update(self, gradient, terms):
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
            self.losses.add_(torch.cat([terms, torch.ones_like(terms[:1])]))

    def set_controls(self, progress):
        """Learning rate and loss weight at `progress` (0 .. 1) of the schedule, to the device."""
        t = self.train
        cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        rate = t["final_learning_rate"] + (t["learning_rate"] - t["final_learning_rate"]) * cosine
        rate *= self.brake * min(1.0, (self.step + 1) / t["warmup"])
        weight = t["energy_weight"]
        if t["final_energy_weight"] and weight:
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
            self.best_soap = self.soap.state() if self.soap else None
        elif self.best is None:
            raise ModelError(f"the validation error is not finite at step {self.step}: lower train.learning_rate")
        elif not error < JUMP * self.best_error:
            for x, good in zip(live, self.best):
                x.copy_(good)
            if self.soap:  # it may hold NaN by now
                self.soap.restore(self.best_soap)
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

    def errors(self, classes, flat):
        """Errors of the parameters `flat` on each frame of `classes` (mapping of arrays, see errors.py); of the mean
        over an ensemble's members."""
        parameters, found = self.views(flat), []
        room = 3000 if self.device.type == "cuda" else 400
        for c in classes:
            size = max(1, min(len(c.frames), room // c.n_atoms))
            for a in range(0, len(c.frames), size):
                index = torch.arange(a, min(a + size, len(c.frames)), device=self.device)
                if self.fast:
                    batch = self.fast.batch([(c, index)])
                    out = self.fast.evaluate(parameters, batch)
                else:
                    batch = self.plain_batch(c, index)
                    out = self.network(parameters, batch, training=False)
                found.append(errors.of_batch(out, batch, c, index, self.scale, self.data))
        return errors.together(found)

    def evaluate(self, classes, flat):
        """Rows of errors.by_size, the last one over all frames."""
        return errors.by_size(self.errors(classes, flat))

    def state(self):
        """All that a run needs to go on as if it had not been stopped."""
        return {
            "config": self.config,
            "data_sha256": self.data_sha256,
            "elements": list(self.data["elements"]),
            "scale": self.scale,
            "offsets": self.offsets.tolist(),
            "network": self.network.state(),
            "step": self.step,
            "history": self.history,
            "stopped": self.stopped,
            "brake": self.brake,
            "best_error": self.best_error,
            "best": None if self.best is None else [x.cpu() for x in self.best],
            "best_soap": self.best_soap,
            "soap": self.soap.state() if self.soap else None,
            **{k: getattr(self, k).cpu() for k in ("theta", "ema", "m", "v", "losses")},
        }

    def start(self, state, path):
        """Takes over the averaged weights of another run of the same network, or of one with wider splines or a longer
        cutoff (networks.splines_onto)."""
        mine, theirs = self.config["model"], state["config"]["model"]
        if {**theirs, "cutoff": 0, "radial_basis": 0} != {**mine, "cutoff": 0, "radial_basis": 0} or (
            theirs != mine and any(m["radial_basis"]["kind"] != "bspline" for m in (mine, theirs))
        ):
            raise ModelError(f"{path}: the checkpoint is of another network")
        offset = 0
        for name, weight in self.views(self.theta).items():
            splines = theirs != mine and name.startswith("filter.")
            n = theirs["radial_basis"]["n"] if splines else weight.shape[-1]
            size = weight.numel() // weight.shape[-1] * n
            found = state["ema"][offset : offset + size].view(*weight.shape[:-1], n)
            if splines:
                found = splines_onto(found, theirs["cutoff"], n, weight.shape[-1], mine["cutoff"])
            if found is None:
                raise ModelError(
                    f"{path}: the splines of the checkpoint (cutoff {theirs['cutoff']}, {n}) cannot become those of "
                    "this network: their spacing must be the same, twice as wide, ..., and their cutoff not shorter"
                )
            weight.copy_(found)
            offset += size
        self.ema.copy_(self.theta)

    def restore(self, state, path):
        """Goes on from state()."""
        if state["config"]["model"] != self.config["model"] or state["data_sha256"] != self.data_sha256:
            raise ModelError(f"{path}: the checkpoint is of another model or data set: remove it to start over")
        for k in ("theta", "ema", "m", "v"):
            getattr(self, k).copy_(state[k])
        if self.soap and state.get("soap"):
            self.soap.restore(state["soap"])
        if "losses" in state:  # checkpoints of older versions have none
            self.losses.copy_(state["losses"])
        if state.get("best") is not None:
            self.best = [x.to(self.device) for x in state["best"]]
            self.best_soap, self.best_error = state["best_soap"], state["best_error"]
        self.step, self.history = state["step"], state["history"]
        self.brake, self.stopped = state.get("brake", 1.0), state.get("stopped", False)
