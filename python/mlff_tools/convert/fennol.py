"""Reader of ANI networks in FeNNol's model files (.fnx): numpy only.

An .fnx is MessagePack: options of the modules and their parameters, arrays being of extension type 1 (shape, type,
bytes), as flax writes them. Supported are ANI_AEV descriptors with SPECIES_INDEX_NET networks: single members, with
their self energies, and ensembles (FeNNol's ANI-2x, whose energies leave the self energies out). A folder of .fnx files
of single members becomes one ensemble. Pickled models (.pkl) are refused: reading them runs code.
"""

import os
import re
import struct

import numpy as np

from ..model.modelfile import ModelError

DEEPEST = 64


class _MessagePack:
    """Values of a MessagePack document, in memory."""

    def __init__(self, data):
        self.data, self.position, self.depth = data, 0, 0

    def take(self, n):
        part = self.data[self.position : self.position + n]
        if len(part) != n:
            raise ValueError("the file ends too soon")
        self.position += n
        return part

    def number(self, code):
        return struct.unpack(">" + code, self.take(struct.calcsize(code)))[0]

    def extension(self, n):
        kind, body = self.number("b"), self.take(n)
        if kind not in (1, 3):
            raise ValueError(f"extension type {kind} is not an array")
        shape, dtype, raw = _MessagePack(body).value()
        if dtype not in ("float32", "float64", "int32", "int64", "bool"):
            raise ValueError(f"arrays of {dtype} are not supported")
        return np.frombuffer(raw, dtype).reshape(shape)

    def items(self, n, pairs):
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        if pairs:
            out = {}
            for _ in range(n):
                key = self.value()
                out[key] = self.value()
        else:
            out = [self.value() for _ in range(n)]
        self.depth -= 1
        return out

    def value(self):
        code = self.take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 256
        if code < 0xA0:
            return self.items(code & 15, code < 0x90)
        if code < 0xC0:
            return self.take(code & 31).decode()
        if code in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        if 0xC4 <= code <= 0xC6:
            return self.take(self.number("BHI"[code - 0xC4]))
        if 0xC7 <= code <= 0xC9:
            return self.extension(self.number("BHI"[code - 0xC7]))
        if 0xCA <= code <= 0xD3:
            return self.number("fdBHIQbhiq"[code - 0xCA])
        if 0xD4 <= code <= 0xD8:
            return self.extension(1 << (code - 0xD4))
        if 0xD9 <= code <= 0xDB:
            return self.take(self.number("BHI"[code - 0xD9])).decode()
        if 0xDC <= code <= 0xDF:
            return self.items(self.number("HI"[code & 1]), code >= 0xDE)
        raise ValueError(f"byte {code:#x} means nothing")


def unpack(path):
    """The document in an .fnx file."""
    try:
        with open(path, "rb") as f:
            document = _MessagePack(f.read()).value()
    except (OSError, ValueError, TypeError, RecursionError) as e:
        raise ModelError(f"{path}: cannot be read as a model of FeNNol (.fnx): {e}") from e
    if not isinstance(document, dict) or not {"modules", "variables"} <= set(document):
        raise ModelError(f"{path}: not a model of FeNNol (.fnx): it has no modules and variables")
    return document


def _named(value):
    """Modules are written as lists of (name, options)."""
    return dict(value) if isinstance(value, list) else value


def _one(modules, kind, path):
    found = [(name, m) for name, m in modules.items() if str(m.get("module_name", m.get("FID", ""))).upper() == kind]
    if len(found) != 1:
        raise ModelError(f"{path}: {len(found)} modules {kind}: exactly one is supported")
    return found[0][1]


def _option(options, name, default, path):
    value = options.get(name, default)
    if value is None:
        raise ModelError(f"{path}: option '{name}' is missing")
    return value


def _angular_cutoff(document, path):
    for step in _named(document.get("preprocessing", {})).values():
        if isinstance(step, dict) and step.get("graph_key") == "graph_angle" and "cutoff" in step:
            return float(step["cutoff"])
    raise ModelError(f"{path}: no graph_filter with graph_key graph_angle, so no angular cutoff")


def _aev(document, modules, path):
    """The `aev` part of a description; shifts as FeNNol makes them, in full."""
    o = _one(modules, "ANI_AEV", path)
    cutoff, angular = float(document["cutoff"]), _angular_cutoff(document, path)
    n = {
        k: int(_option(o, k, d, path))
        for k, d in (("radial_dist_divisions", 16), ("angular_dist_divisions", 4), ("angle_sections", 4))
    }
    start = {k: float(_option(o, k, 0.8, path)) for k in ("radial_start", "angular_start")}
    grid = lambda first, last, k: np.linspace(first, last, k + 1)[:-1].tolist()
    sections = [(2 * k + 1) * np.pi / (2 * n["angle_sections"]) for k in range(n["angle_sections"])]
    parts = {
        "radial": {
            "eta": float(_option(o, "radial_eta", 16.0, path)),
            "shifts": grid(start["radial_start"], cutoff, n["radial_dist_divisions"]),
        },
        "angular": {
            "eta": float(_option(o, "angular_eta", 8.0, path)),
            "zeta": float(_option(o, "zeta", 32.0, path)),
            "shifts": grid(start["angular_start"], angular, n["angular_dist_divisions"]),
            "sections": sections,
        },
    }
    for part in parts.values():
        for key in list(part):
            value = part[key]
            part[key + "_f32"] = (
                [float(np.float32(x)) for x in value] if isinstance(value, list) else float(np.float32(value))
            )
    parts["radial"].update(cutoff=cutoff, prefactor=0.25)
    parts["angular"].update(cutoff=angular, prefactor=2.0, cos_scale=0.95)
    elements = o["species_order"]
    elements = [e.strip() for e in elements.split(",")] if isinstance(elements, str) else list(elements)
    return {"cutoff_function": "cosine", **parts}, elements


def _alpha(text, path):
    match = re.fullmatch(r"\s*partial\(\s*(?:\w+\.)*celu\s*,\s*alpha\s*=\s*([0-9.eE+-]+)\s*\)\s*|\s*celu\s*", str(text))
    if not match:
        raise ModelError(f"{path}: activation is '{text}': only CELU, as in 'partial(celu, alpha=0.1)', is supported")
    return float(match[1] or 1.0)


def _networks(document, modules, elements, path):
    """[(network of every element: [(weight, bias), ...]) of every member], and alpha."""
    names = sorted(
        (name for name, m in modules.items() if m.get("module_name") == "SPECIES_INDEX_NET"),
        key=lambda name: (len(name), name),
    )
    if not names:
        raise ModelError(f"{path}: no module SPECIES_INDEX_NET: only ANI networks are supported")
    parameters, members, alphas = document["variables"].get("params", {}), [], set()
    for name in names:
        alphas.add(_alpha(modules[name].get("activation"), path))
        member = {}
        for e in elements:
            layers = parameters.get(name, {}).get(e)
            if not isinstance(layers, dict) or not all({"kernel", "bias"} == set(layer) for layer in layers.values()):
                raise ModelError(f"{path}: network '{name}' of {e} is missing, or a layer of it has no kernel and bias")
            order = sorted(layers, key=lambda key: int(key.rpartition("_")[2]))
            member[e] = [(np.ascontiguousarray(layers[k]["kernel"].T), np.array(layers[k]["bias"])) for k in order]
        members.append(member)
    if len(alphas) != 1:
        raise ModelError(f"{path}: networks with several alphas of CELU: {sorted(alphas)}")
    return members, alphas.pop()


def _self_energies(document, modules, elements, path):
    """Decimals of the file where its parameters are those rounded to float32, else the parameters; zeros without
    them."""
    if "self_energy" not in document.get("energy_terms", []):
        return dict.fromkeys(elements, 0.0)
    from ..model.modelfile import NUMBERS

    written = _one(modules, "CHEMICAL_CONSTANT", path).get("value", {})
    stored = document["variables"].get("params", {}).get("self_energy", {}).get("constant")
    out = {}
    for e in elements:
        value = written.get(e) if isinstance(written, dict) else None
        parameter = None if stored is None else np.ravel(stored)[NUMBERS[e]]
        if value is None and parameter is None:
            raise ModelError(f"{path}: no self energy of {e}")
        rounded = value is not None and (parameter is None or np.float32(value) == np.float32(parameter))
        out[e] = float(value) if rounded else float(parameter)
    return out


def _read_file(path):
    """(common part of a description, members) of one file."""
    document = unpack(path)
    modules = _named(document["modules"])
    unit = {"ha": "hartree", "hartree": "hartree", "ev": "eV", "kcal/mol": "kcal/mol", "kcalpermol": "kcal/mol"}.get(
        str(document.get("energy_unit", "Ha")).lower()
    )
    if unit is None:
        raise ModelError(f"{path}: energy unit '{document.get('energy_unit')}' is not supported")
    unknown = set(document.get("energy_terms", [])) - {"energy", "self_energy"}
    if unknown:
        raise ModelError(
            f"{path}: energy term '{sorted(unknown)[0]}' is not supported: only networks and self energies are"
        )
    aev, elements = _aev(document, modules, path)
    members, alpha = _networks(document, modules, elements, path)
    return {
        "units": {"energy": unit},
        "species": elements,
        "aev": aev,
        "alpha": alpha,
        "self_energies": _self_energies(document, modules, elements, path),
    }, members


def read(path):
    """(description, tensors) as published parameters in convert.py, of a file or a folder of files."""
    paths = [path]
    if os.path.isdir(path):
        paths = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".fnx"))
    if not paths:
        raise ModelError(f"{path}: the folder has no .fnx files")
    if path.endswith((".pkl", ".pickle")):
        raise ModelError(
            f"{path}: pickled models are not read, because that runs code from them: save it as .fnx with FeNNol"
        )
    common, members = _read_file(paths[0])
    for other in paths[1:]:
        more, found = _read_file(other)
        if more != common:
            part = next(k for k in common if more[k] != common[k])
            raise ModelError(f"{other}: {part} is not that of {paths[0]}: the files are not members of one ensemble")
        members += found
    tensors, dims = {}, {}
    for m, member in enumerate(members):
        for e, layers in member.items():
            widths = [layers[0][0].shape[1]] + [weight.shape[0] for weight, _ in layers]
            if dims.setdefault(e, widths) != widths:
                raise ModelError(f"{path}: member {m} has other layers for {e} than the others: {widths}, {dims[e]}")
            for l, (weight, bias) in enumerate(layers):
                tensors[f"ensemble.{m}.{e}.{l}.weight"], tensors[f"ensemble.{m}.{e}.{l}.bias"] = weight, bias
    alpha = common.pop("alpha")
    return {
        "architecture": "ani",
        "model": os.path.splitext(os.path.basename(path.rstrip(os.sep)))[0],
        "source": f"FeNNol model {path}",
        "ensemble_size": len(members),
        "ensemble_reduction": "mean",
        **common,
        "networks": {"activation": "celu", "alpha": alpha, "last_activation": "identity", "dims": dims},
    }, tensors
