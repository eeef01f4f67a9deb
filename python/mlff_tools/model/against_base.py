"""What against.py and its parts share."""

import numpy as np

from .modelfile import ModelError


class Unsupported(ModelError):
    """The package has no such network."""


def six(m):
    """xx yy zz xy xz yz of a symmetric matrix."""
    return np.array([m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]])


def edges(s, cutoff):
    """Centres, neighbors, lattice shifts [E, 3] and cell of a structure, by ASE; an open one has a cell of zeros."""
    from ase import Atoms
    from ase.neighborlist import neighbor_list

    atoms = Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=s["cell"] is not None)
    return (*neighbor_list("ijS", atoms, cutoff), np.array(atoms.cell))


def refuse(package, checks):
    """Unsupported for the first difference. checks: what -> (value in the file, the package's)."""
    for what, (value, theirs) in checks.items():
        if value != theirs:
            raise Unsupported(f"{package} has {what} {theirs}; the file has {value}")


def fill(torch, module, values):
    """Puts name -> array into the parameters and buffers of a module; every one of both must have its match."""
    state = module.state_dict()
    missing, strange = set(state) - set(values), set(values) - set(state)
    if missing or strange:
        raise ModelError(f"the package's network and the model file differ: {sorted(missing | strange)[0]}")
    module.load_state_dict(
        {k: torch.tensor(np.asarray(v)).reshape(state[k].shape).to(state[k].dtype) for k, v in values.items()}
    )
