"""Objects of a .model file of mace-torch, and the layers of e3nn in it. The file is read by checkpoints.read_module."""

import itertools
import re

import numpy as np

from ..model.modelfile import ModelError
from .checkpoints import Recorded

LMAX = 3
ELSEWHERE = "; convert it to the layout of e3nn with mace-torch first"


class Module:
    """An object of the file, with its attributes, buffers, parameters and submodules by dotted names."""

    def __init__(self, recorded, name, where):
        self.recorded, self.name, self.where = recorded, name, where
        self.kind, self.package = type(recorded).__name__, type(recorded).__module__

    def fail(self, text):
        raise ModelError(f"{self.where}: {self.name} {text}")

    def expect(self, package, *kinds, hint=""):
        """Refuses, by name, other classes."""
        if self.kind not in kinds or not f"{self.package}.".startswith(package + "."):
            self.fail(f"is a {self.package}.{self.kind}, which is not supported (possible: {', '.join(kinds)}){hint}")
        return self

    def _entry(self, key):
        state = self.recorded.state if isinstance(self.recorded.state, dict) else {}
        for part in (*(state.get(k) for k in ("_parameters", "_buffers", "_modules")), state):
            if isinstance(part, dict) and part.get(key) is not None:
                value = part[key]
                name = key if self.name == "the model" else f"{self.name}.{key}"
                return Module(value, name, self.where) if isinstance(value, Recorded) else value
        return None

    def get(self, name):
        """What a dotted name stands for; None when it is missing."""
        found = self
        for key in name.split("."):
            found = found._entry(key) if isinstance(found, Module) else None
        return found

    def need(self, name):
        found = self.get(name)
        if found is None:
            self.fail(f"has no {name}: its version of mace-torch is not supported")
        return found

    def array(self, name, *shape):
        found = self.need(name)
        if not isinstance(found, np.ndarray):
            self.fail(f"has a {name} that is no tensor")
        if shape and found.shape != shape:
            self.fail(f"has a {name} of shape {list(found.shape)}, expected {list(shape)}")
        return found

    def number(self, name):
        found = np.ravel(self.need(name))
        if found.size != 1 or found.dtype.kind not in "fiu" or not np.isfinite(found[0]):
            self.fail(f"has a {name} that is no number")
        return float(found[0])

    def children(self, name):
        modules = self.need(name)._entry("_modules") or {}
        children = [self.need(f"{name}.{key}") for key in modules]
        if not all(isinstance(child, Module) for child in children):
            self.fail(f"has {name} that are no modules")
        return children

    def irreps(self, name):
        """[(channels, order)] of irreps, whose parity must be (-1)^l."""
        found = self.need(name)
        if isinstance(found, str):
            parts = [re.fullmatch(r"(\d+)x(\d+)([eo])", part) for part in found.replace(" ", "").split("+")]
            irreps = [(int(part[1]), int(part[2]), 1 if part[3] == "e" else -1) for part in parts]
        else:
            parts = [part.arguments[0] for part in found.recorded.arguments[0]]
            irreps = [(n, *irrep.arguments[0]) for n, irrep in parts]
        text = " + ".join(f"{n}x{l}{'e' if p == 1 else 'o'}" for n, l, p in irreps)
        if any(p != (-1) ** l for _, l, p in irreps):
            self.fail(f"has {name} '{text}': other parities than (-1)^l are not supported")
        if any(l > LMAX for _, l, _ in irreps):
            self.fail(f"has {name} '{text}': orders above {LMAX} are not supported")
        return [(n, l) for n, l, _ in irreps]

    def orders(self, name):
        """[[channels, order]] of irreps with one entry for each order 0, 1, ..."""
        irreps = self.irreps(name)
        if [l for _, l in irreps] != list(range(len(irreps))):
            self.fail(f"has {name} {irreps}: expected each of the orders 0, 1, ... once, in this order")
        return [list(entry) for entry in irreps]

    def instructions(self):
        return [instruction.arguments for instruction in self.need("instructions")]


def read_activation(module, name):
    """(name, divisor) of an activation: a function, or one that e3nn has normalised."""
    found = module.get(name)
    if isinstance(found, Module) and found.kind == "normalize2mom":
        return read_activation(found, "f")[0], 1.0 / found.number("cst")
    if found is None:
        return "none", 1.0
    if isinstance(found, Module):
        kind = found.recorded.arguments[1] if found.kind == "getattr" else found.kind
    else:
        kind = found.__name__ if isinstance(found, type) else type(found).__name__
    return str(kind).lower(), 1.0


def is_close(value, expected):
    return abs(value / expected - 1.0) < 1e-6


def read_linear(module, name, bias=False):
    """{order: [out, in]} of a linear layer of e3nn, whose weights are one row of matrices [in, out]."""
    layer = module.need(name).expect("e3nn", "Linear", hint=ELSEWHERE)
    inputs, outputs, flat, out, first = (
        layer.irreps("irreps_in"),
        layer.irreps("irreps_out"),
        layer.array("weight"),
        {},
        0,
    )
    fan_in = {l: sum(n for n, k in inputs if k == l) for _, l in inputs}
    pairs = [(i, j) for i, (_, l) in enumerate(inputs) for j, (_, k) in enumerate(outputs) if l == k]
    found = [entry for entry in layer.instructions() if entry[0] >= 0]
    usual = [(i, j) for i, j, *_ in found] == pairs and len({l for _, l in outputs}) == len(outputs)
    if not usual or not all(is_close(entry[3] ** 2 * fan_in[inputs[entry[0]][1]], 1.0) for entry in found):
        layer.fail("is a linear layer of another form than 1/sqrt(inputs) of each order")
    if flat.shape != (sum(inputs[i][0] * outputs[j][0] for i, j in pairs),):
        layer.fail(f"has {flat.size} weights, which do not fit its irreps")
    if not bias and layer.get("bias") is not None and layer.array("bias").size:
        layer.fail("has a bias, which is not supported")
    for i, j in pairs:
        n, m = inputs[i][0], outputs[j][0]
        out.setdefault(inputs[i][1], []).append(flat[first : first + n * m].reshape(n, m).T)
        first += n * m
    return {l: np.concatenate(blocks, 1) for l, blocks in out.items()}


def read_selector(module, name, n_elements):
    """{order: [elements, out, in]} of the product with the element, whose weights are matrices [in, elements, out]."""
    layer = module.need(name).expect("e3nn", "FullyConnectedTensorProduct", hint=ELSEWHERE)
    inputs, outputs, flat, out, first = (
        layer.orders("irreps_in1"),
        layer.orders("irreps_out"),
        layer.array("weight"),
        {},
        0,
    )
    layer.irreps("irreps_in2") == [(n_elements, 0)] or layer.fail("is a product with something else than the elements")
    for (n, l), (m, _), (i, _, k, mode, weighted, factor, _) in zip(
        inputs, outputs, layer.instructions(), strict=False
    ):
        if (i, k, mode, weighted) != (l, l, "uvw", True) or not is_close(factor**2 * n * n_elements, 2 * l + 1):
            layer.fail("is a product of another form than 1/sqrt(inputs * elements)")
        count = n * n_elements * m
        out[l] = flat[first : first + count].reshape(n, n_elements, m).transpose(1, 2, 0)
        first += count
    if first != flat.size or len(out) != min(len(inputs), len(outputs)):
        layer.fail(f"has {flat.size} weights, which do not fit its irreps")
    return out


def read_scaled_network(module, name, tensors, prefix):
    """Layers of e3nn's network without biases; returns (widths, (activation, divisor))."""
    network = module.need(name).expect("e3nn", "FullyConnectedNet")
    widths, activations = [int(n) for n in network.need("hs")], set()
    for k, shape in enumerate(itertools.pairwise(widths)):
        layer = network.need(f"layer{k}")
        if (layer.number("var_in"), layer.number("var_out")) != (1.0, 1.0):
            layer.fail("has other variances than 1, which are not supported")
        tensors[f"{prefix}{k}"] = layer.array("weight", *shape).T
        activations.add(read_activation(layer, "act") if k < len(widths) - 2 else ("none", 1.0))
        if k == len(widths) - 2 and layer.get("act") is not None:
            layer.fail("has an activation, which the last layer must not have")
    activations.discard(("none", 1.0))
    if len(activations) > 1:
        network.fail("has several activations, which is not supported")
    return widths, activations.pop() if activations else ("none", 1.0)


def read_normed_network(module, name, tensors, prefix):
    """Layers of mace-torch's network with biases and layer norms; returns (widths, epsilon)."""
    network = module.need(name).expect("mace", "RadialMLP")
    widths, epsilons = [int(n) for n in network.need("hs")], set()
    parts = network.children("net")
    kinds = ["Linear", *["LayerNorm", "SiLU", "Linear"] * (len(widths) - 2)]
    if [part.kind for part in parts] != kinds:
        network.fail(f"has the layers {', '.join(part.kind for part in parts)}, expected {', '.join(kinds)}")
    for k, (n, m) in enumerate(itertools.pairwise(widths)):
        linear = parts[3 * k]
        tensors[f"{prefix}{k}"], tensors[f"{prefix}{k}.bias"] = linear.array("weight", m, n), linear.array("bias", m)
        if k < len(widths) - 2:
            norm = parts[3 * k + 1]
            tensors[f"{prefix}{k}.norm"], tensors[f"{prefix}{k}.norm_bias"] = (
                norm.array("weight", m),
                norm.array("bias", m),
            )
            epsilons.add(norm.number("eps"))
    if len(epsilons) > 1:
        network.fail("has several epsilons, which is not supported")
    return widths, epsilons.pop() if epsilons else 0.0
