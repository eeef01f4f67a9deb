"""Heap allocations per step, and memory per atom. Measured once, not in rounds: neither depends on the load."""

import os

from mlff_tools.bench import work
from mlff_tools.model.lammps import LammpsError

from . import runs, systems
from .parts import WATER, Skip, mlff_pair, own_model, silicon_deck

STEPS = 100
# Steps of real dynamics whose allocations are counted, after as many that let the buffers settle.
LIQUID_STEPS = 2000
# Edges of the silicon crystals of Nequix, in cubic cells of 8 atoms: 1000 and 10,648 atoms.
CELLS = (5, 11)
# What it may take: bytes per atom, and in all for the larger one.
NEQUIX_PER_ATOM, NEQUIX_PEAK = 60e3, 1e9


def _run(context, name, lines, environment=None):
    path = os.path.join(context.work, f"in.{name}")
    with open(path, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")
    return runs.run(context.lmp, path, context.cores, 1, environment)


def _allocations_per_step(context, counter, deck, first, steps):
    """(allocations, neighbor lists built) per step: the difference of runs of first + steps and of first steps."""
    counts, builds = [], []
    for n in (first, first + steps):
        text = _run(context, "allocations", deck + [f"run {n}"], {"LD_PRELOAD": counter})
        counts.append(work.counted(text, "lmp")["allocations"])
        builds.append(runs.parse(text)["builds"])
    return (counts[1] - counts[0]) / steps, (builds[1] - builds[0]) / steps


def _decks(context, pair):
    """Decks of 192 atoms by name: atoms at rest without and with neighbor lists, to which nothing should be added."""
    data = systems.water(context.work, context.lmp, 4, context.cores[0])
    deck = systems.water_deck(data, pair, real=False)
    once = [line.replace("every 20 delay 0 check no", "every 1000000 delay 0 check no") for line in deck]
    often = [line.replace("every 20 delay 0 check no", "every 5 delay 0 check no") for line in deck]
    return {"no new neighbor lists": once, "a new neighbor list every 5 steps": often}


def allocations(context):
    """Allocations per step of pair_style mlff, and of LAMMPS with lj/cut in the same decks."""
    try:
        counter = work.library(context.work)
    except LammpsError as e:
        raise Skip(str(e)) from e
    model, trained = own_model(context, "student")
    ours = mlff_pair(context, model, "O H")
    stock = ["pair_style lj/cut 5.0", "pair_coeff * * 0.0 1.0"]
    found = {}
    # what certainly allocates must be seen, or the zeros below would mean nothing
    control = _decks(context, stock)["no new neighbor lists"] + ['fix control all print 1 "$(step)" screen no']
    if not _allocations_per_step(context, counter, control, 50, STEPS)[0] >= 1.0:
        raise LammpsError("the allocations of `fix print` in every step were not counted")
    mlff, plain = _decks(context, ours), _decks(context, stock)
    for name in mlff:
        found[name] = {"mlff": _allocations_per_step(context, counter, mlff[name], 50, STEPS)[0]}
        found[name]["lj/cut"], lists = _allocations_per_step(context, counter, plain[name], 50, STEPS)
    if trained:
        data = systems.water(context.work, context.lmp, 4, context.cores[0])
        deck = systems.water_deck(data, ours)
        per_list = found[name]["lj/cut"] / lists
        count, lists = _allocations_per_step(context, counter, deck, LIQUID_STEPS, LIQUID_STEPS)
        found["dynamics of the liquid"] = {"mlff": count, "lj/cut": per_list * lists}
    return found


def per_atom(context):
    """Bytes that LAMMPS accounts for with pair_style mlff and, for comparison, with pair_style zero; by atoms."""
    rows = {}
    for atoms, n in WATER.items():
        data = systems.water(context.work, context.lmp, n, context.cores[0])
        row = {}
        for role in ("student", "teacher"):
            model, _ = own_model(context, role)
            deck = systems.water_deck(data, mlff_pair(context, model, "O H"), real=False)
            row[role] = runs.parse(_run(context, "memory", deck + ["run 2", "run 2"]))["memory"]
        stock = systems.water_deck(data, ["pair_style zero 5.0", "pair_coeff * *"], real=False)
        row["zero"] = runs.parse(_run(context, "memory", stock + ["run 2", "run 2"]))["memory"]
        rows[atoms] = row
    small, large = min(rows), max(rows)
    slope = {key: (rows[large][key] - rows[small][key]) / (large - small) for key in rows[small]}
    return {"bytes": rows, "bytes_per_atom": slope}


def nequix(context):
    """Memory of the universal force field on one rank: what LAMMPS accounts for, and the most that the process held."""
    rows = {}
    for cells in CELLS:
        text = _run(context, "memory", silicon_deck(context, cells) + ["run 2", "info memory"])
        found = runs.parse(text)
        rows[found["atoms"]] = {"bytes": found["memory"], "peak": runs.parse_peak(text)}
    small, large = min(rows), max(rows)
    slope = {key: (rows[large][key] - rows[small][key]) / (large - small) for key in rows[small]}
    worst = max(slope["peak"], rows[large]["bytes"] / large)
    return {
        "by_atoms": rows,
        "each_further_atom": slope,
        "passed": bool(worst < NEQUIX_PER_ATOM and rows[large]["peak"] < NEQUIX_PEAK),
        "wanted": {"bytes_per_atom": NEQUIX_PER_ATOM, "peak": NEQUIX_PEAK},
    }


def measure(context):
    return {"allocations_per_step": allocations(context), "memory": per_atom(context), "nequix": nequix(context)}
