"""Reader of ANI networks in NeuroChem's files, as they were published (ANI-1x, -1ccx, -2x): numpy only.

A folder holds NAME.info (constants file, self energies file, prefix of the members' folders, their number; one a line),
or these files themselves; each member has PREFIX{k}/networks/ANN-ELEMENT.nnf with its weights next to it. An .nnf is a
line of text, a byte, and bz2-compressed text.
"""

import bz2
import contextlib
import os
import re

import numpy as np

from ..model.modelfile import ModelError

CELU, IDENTITY = 9, 6  # numbers of activations
ALPHA = 0.1  # of NeuroChem's CELU


def _text(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as e:
        raise ModelError(f"{path}: cannot be read: {e}") from e


def _constants(path):
    """name -> number, list of numbers or list of symbols."""
    out = {}
    for line in _text(path).splitlines():
        name, found, value = (part.strip() for part in line.partition("="))
        if not found:
            continue
        items = [item.strip() for item in value.strip("[]").split(",")]
        with contextlib.suppress(ValueError):
            items = [float(item) for item in items]
        out[name] = items
    missing = [k for k in ("Rcr", "Rca", "EtaR", "ShfR", "EtaA", "Zeta", "ShfA", "ShfZ", "Atyp") if k not in out]
    if missing:
        raise ModelError(f"{path}: no '{missing[0]} =': not a constants file of NeuroChem")
    for name in ("EtaR", "EtaA", "Zeta"):
        if len(out[name]) != 1:
            raise ModelError(f"{path}: {name} has {len(out[name])} values: one is supported")
    return out


def _self_energies(path, elements):
    found = {m[1]: float(m[2]) for m in re.finditer(r"^\s*(\w+)\s*,\s*\d+\s*=\s*(\S+)", _text(path), re.MULTILINE)}
    missing = [e for e in elements if e not in found]
    if missing:
        raise ModelError(f"{path}: no self energy of {missing[0]}")
    return {e: found[e] for e in elements}


def _layers(path):
    """The layers of an .nnf: dicts of nodes, blocksize, activation, weights and biases (file, number of values)."""
    try:
        with open(path, "rb") as f:
            data = f.read()
        text = bz2.decompress(data[data.index(b"=") + 2 :]).decode("ascii", "replace")
    except (OSError, ValueError) as e:
        raise ModelError(f"{path}: cannot be read as a network of NeuroChem: {e}") from e
    layers = []
    for block in re.findall(r"layer \[(.*?)\n\s*\]", text, re.DOTALL):
        layer = {}
        for key in ("nodes", "blocksize", "activation"):
            match = re.search(rf"\b{key}=(-?\d+)", block)
            layer[key] = int(match[1]) if match else None
        for key in ("weights", "biases"):
            match = re.search(rf"\b{key}=FILE:([^\s\[]+)\[(\d+)\]", block)
            layer[key] = (match[1], int(match[2])) if match else None
        if None in layer.values():
            raise ModelError(f"{path}: a layer has no '{next(k for k, v in layer.items() if v is None)}'")
        layers.append(layer)
    if not layers:
        raise ModelError(f"{path}: no layers found")
    return layers


def _values(folder, name, n, path):
    if os.path.basename(name) != name:
        raise ModelError(f"{path}: parameter file '{name}' is missing in its folder")
    try:
        values = np.fromfile(os.path.join(folder, name), "<f4")
    except OSError as e:
        raise ModelError(f"{path}: parameter file {name}: {e.strerror}") from e
    if len(values) != n:
        raise ModelError(f"{os.path.join(folder, name)}: {len(values)} numbers, {path} says {n}")
    return values


def _network(folder, element):
    """(widths, [(weight, bias), ...]) of one element's network."""
    path = os.path.join(folder, f"ANN-{element}.nnf")
    layers, widths, out = _layers(path), [], []
    for l, layer in enumerate(layers):
        wanted = IDENTITY if l == len(layers) - 1 else CELU
        if layer["activation"] != wanted:
            raise ModelError(
                f"{path}: activation {layer['activation']} of layer {l} is not supported (possible: {CELU}, "
                f"CELU, and {IDENTITY}, none, in the last layer)"
            )
        n_in, n_out = layer["blocksize"], layer["nodes"]
        if widths and widths[-1] != n_in or n_in * n_out != layer["weights"][1] or n_out != layer["biases"][1]:
            raise ModelError(
                f"{path}: layer {l} of {n_in} x {n_out} does not fit the layer before or its parameter files"
            )
        widths = (widths or [n_in]) + [n_out]
        out.append(
            (_values(folder, *layer["weights"], path).reshape(n_out, n_in), _values(folder, *layer["biases"], path))
        )
    return widths, out


def _one_file(folder, ending, what):
    found = sorted(name for name in os.listdir(folder) if name.endswith(ending))
    if len(found) != 1:
        raise ModelError(
            f"{folder}: {len(found)} files *{ending}, expected one with the {what}: give a folder of NeuroChem "
            "files, or its .info file"
        )
    return os.path.join(folder, found[0])


def _parts(path):
    """(constants file, self energies file, prefix of members, their number) of a folder or .info file."""
    if os.path.isdir(path):
        infos = sorted(name for name in os.listdir(path) if name.endswith(".info"))
        if len(infos) == 1:
            return _parts(os.path.join(path, infos[0]))
        constants = _one_file(path, ".params", "constants")
        energies = [name for name in os.listdir(path) if "sae" in name.lower() and name.endswith(".dat")]
        if len(energies) != 1:
            raise ModelError(f"{path}: {len(energies)} files *sae*.dat, expected one with the self energies")
        prefix = os.path.join(path, "train")
        n = 0
        while os.path.isdir(f"{prefix}{n}"):
            n += 1
        return constants, os.path.join(path, energies[0]), prefix, n
    lines = [line.strip() for line in _text(path).splitlines() if line.strip()]
    if len(lines) < 4 or not lines[3].isdigit():
        raise ModelError(
            f"{path}: not an .info file of NeuroChem: constants, self energies, prefix and number of members "
            "are expected, one a line"
        )
    return *(os.path.join(os.path.dirname(path), name) for name in lines[:3]), int(lines[3])


def read(path):
    """(description, tensors) as published parameters in convert.py."""
    constants_path, energies_path, prefix, n_members = _parts(path)
    if n_members < 1:
        raise ModelError(f"{path}: no members: folders {os.path.basename(prefix)}0, ... are expected")
    c = _constants(constants_path)
    elements, tensors, dims = c["Atyp"], {}, {}
    self_energies = _self_energies(energies_path, elements)
    for m in range(n_members):
        for e in elements:
            widths, layers = _network(os.path.join(f"{prefix}{m}", "networks"), e)
            if dims.setdefault(e, widths) != widths:
                raise ModelError(f"{prefix}{m}: the network of {e} has widths {widths}, member 0 has {dims[e]}")
            for l, (weight, bias) in enumerate(layers):
                tensors[f"ensemble.{m}.{e}.{l}.weight"], tensors[f"ensemble.{m}.{e}.{l}.bias"] = weight, bias

    def rounded(values):
        return [float(np.float32(x)) for x in values]

    return {
        "architecture": "ani",
        "model": os.path.splitext(os.path.basename(path.rstrip(os.sep)))[0],
        "source": f"NeuroChem files {path}",
        "units": {"energy": "hartree"},
        "species": elements,
        "ensemble_size": n_members,
        "ensemble_reduction": "mean",
        "self_energies": self_energies,
        "aev": {
            "cutoff_function": "cosine",
            "radial": {
                "cutoff": c["Rcr"][0],
                "prefactor": 0.25,
                "eta": c["EtaR"][0],
                "eta_f32": rounded(c["EtaR"])[0],
                "shifts": c["ShfR"],
                "shifts_f32": rounded(c["ShfR"]),
            },
            "angular": {
                "cutoff": c["Rca"][0],
                "prefactor": 2.0,
                "cos_scale": 0.95,
                "eta": c["EtaA"][0],
                "eta_f32": rounded(c["EtaA"])[0],
                "zeta": c["Zeta"][0],
                "zeta_f32": rounded(c["Zeta"])[0],
                "shifts": c["ShfA"],
                "shifts_f32": rounded(c["ShfA"]),
                "sections": c["ShfZ"],
                "sections_f32": rounded(c["ShfZ"]),
            },
        },
        "networks": {"activation": "celu", "alpha": ALPHA, "last_activation": "identity", "dims": dims},
    }, tensors
