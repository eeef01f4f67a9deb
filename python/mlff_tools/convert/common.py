"""What converters of networks in eV share: their heads, and refusals by name."""

from ..model.modelfile import SYMBOLS, ModelError


def require(where, name, value, expected):
    """Refuses, by name, an option that the engine does not have."""
    if value != expected:
        raise ModelError(f"{where}: {name} is {value!r}, which is not supported (possible: {expected!r})")


def require_all(source, wanted, where):
    """Refuses other values than those of wanted, a mapping of dotted keys."""
    for path, expected in wanted.items():
        value = source
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        require(where, path, value, expected)


def head_of(elements, cutoff, offsets, block, architecture="nequip"):
    """What all heads of published networks in eV contain."""
    return {
        "architecture": architecture,
        "elements": elements,
        "cutoff": float(cutoff),
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "energy_offsets": offsets,
        architecture: block,
    }


def symbols_of(numbers, where):
    unknown = [z for z in numbers if not isinstance(z, int) or not 0 < z < len(SYMBOLS)]
    if unknown or len(set(numbers)) != len(numbers):
        raise ModelError(f"{where}: atomic numbers {numbers}: must be different numbers from 1 to {len(SYMBOLS) - 1}")
    return [SYMBOLS[z] for z in numbers]
