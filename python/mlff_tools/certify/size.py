"""Size transfer: energy per atom and pressure of repeated cells, and a run of the largest."""

import numpy as np

from ..model.units import BAR
from . import lattice
from .job import attempt
from .rows import missing, row
from .systems import System

RUN = 20  # steps of the largest cell


def cells(n_atoms, largest):
    """[(nx, ny, nz)]: repeats of a cell, up to so many atoms."""
    out, times = [(1, 1, 1)], [1, 1, 1]
    while True:
        times[int(np.argmin(times))] += 1
        if n_atoms * int(np.prod(times)) > largest:
            return out
        if len(set(times)) == 1 or n_atoms * int(np.prod(times)) * 8 / 7 > largest:
            out.append(tuple(times))


def _shaken(frame, seed):
    """Atoms off their sites, so that forces and pressure are not those of symmetry alone."""
    moved = 0.02 * np.random.default_rng(seed).normal(size=frame["positions"].shape)
    return {**frame, "positions": frame["positions"] + moved}


def measure(job):
    rows, figures = [], []
    for system in job.of_kind("liquid", "crystal"):
        unit = _shaken(system.frame, job.settings["seed"])
        energies, pressures, sizes, why = [], [], [], None
        for times in cells(len(unit["elements"]), job.settings["size"]):
            big = lattice.repeated(unit, times)
            found, why = attempt(job.model.evaluate, [big], as_in_runs=True)
            if found is None:
                break
            sizes.append(len(big["elements"]))
            found = found[0]
            energies.append(1000 * found["energy"] / sizes[-1])
            pressures.append(-BAR * float(np.trace(found["stress"])) / 3)
        if why or len(sizes) < 2:
            why = why or f"{len(unit['elements'])} atoms cannot be repeated within {job.settings['size']} atoms"
            rows += [missing(name, system.name, why) for name in ("size_energy", "size_pressure", "size_run")]
            continue
        off, off_p = np.abs(np.array(energies) - energies[0]), np.abs(np.array(pressures) - pressures[0])
        note = f"{sizes[0]} to {sizes[-1]} atoms"
        rows.append(row("size_energy", system.name, float(off.max()), note=note))
        rows.append(row("size_pressure", system.name, float(off_p.max()), note=note))
        big = {**lattice.repeated(system.frame, times), "name": system.name}
        large = System(
            f"{system.name} {sizes[-1]} atoms", system.kind, big, system.temperature, 1.0, packed=system.packed
        )
        found, why = attempt(job.trajectory, job.model, large, "large", steps=RUN, warm=RUN)
        word, why = (None, why) if found is None else found.stable()
        rows.append(row("size_run", system.name, word, note=f"{sizes[-1]} atoms, {why}"))
    return {"rows": rows, "figures": figures}
