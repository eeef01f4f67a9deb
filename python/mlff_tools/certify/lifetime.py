"""Lifetime: the model's own runs at its highest temperature, pressed and stretched, until they fail.

Failures come at random, with a rate in proportion to atoms and time. The atom-picoseconds that n failures took give the
mean one takes; its interval is that of the mean of a Poisson distribution of which n were counted."""

import concurrent.futures
import itertools
import math
import os
import threading
import typing

import numpy as np

from ..ensemble.judge import BOLTZMANN
from ..train import dataset
from ..train.materials import density
from . import lattice, novel, runner
from .job import attempt, word
from .rows import missing, row
from .systems import System, repeated
from .work import NotMeasured

LEAST = 200  # atoms of a box
SEEDS = 4  # runs of a corner without failures
MOST = 30  # failures of a corner: then the rate is known to a third
EVERY = 20  # steps between rows and frames
CHECKED = 10  # every so many frames, distances are checked
SEGMENTS = 10**6  # at most
SHORTEST = 100  # steps of a run
EXPANSION = 10.0  # ps, of the run that finds the volume of a hot crystal
# Shares of the density between the middle and the ends. A hot crystal that is stretched or pressed more may melt or
# transform, and be right.
ENDS = {"crystal": 0.05, "liquid": 0.15}

CLOSEST = 0.8  # of the shortest distance of the training
COLLAPSE = 8.0  # standard deviations of the potential energy
HOT, HOT_ATOMS = 5.0, 50.0  # times the temperature: 5 + 50 / atoms
BROKEN = 2.0  # times the sum of two radii: a bond (novel.BOND at first) that is broken
NONMETALS = set("H B C N O F P S Cl Se Br I".split())
NO_FAILURES = ("end", "time", runner.NO_ANSWER)


class Corner(typing.NamedTuple):
    """group: name of its rows; system: in a box of at least LEAST atoms; given: of the protocol."""

    group: str
    system: System
    given: dict


# ---- corners --------------------------------------------------------------------------------------------------------


def large(system, temperature, share=1.0):
    """The system at a temperature, in a box of at least LEAST atoms whose density is multiplied by `share`."""
    frame = system.frame
    if frame["cell"] is not None:
        frame = repeated(system.unit or frame, LEAST)
        frame = lattice.strained(frame, (share ** (-1 / 3) - 1) * np.eye(3))
    packed = system.packed or (system.kind != "crystal" and share != 1.0)
    return System(system.name, system.kind, frame, temperature, system.pressure, system.high, system.unit, packed)


def hottest(job, system):
    """K: of a crystal its `high`, else the highest of the domain."""
    known = (job.head.get("domain", {}).get("temperature") or [0.0, 0.0])[1]
    return system.high if system.kind == "crystal" else max(float(known), system.temperature)


def _shares(job, system, middle):
    """What the density of the middle is multiplied by at the two ends that the domain has."""
    low, high = job.head.get("domain", {}).get("density") or (0.0, math.inf)
    share = ENDS[system.kind]
    return min(1.0, max(low / middle, 1 - share)), max(1.0, min(high / middle, 1 + share))


def _expanded(job, system):
    """How the density of a crystal changes from its frame to its run at constant pressure."""
    steps = job.steps(system, EXPANSION)
    found, _ = attempt(job.trajectory, job.model, system, "expansion", ensemble="npt", steps=steps)
    volumes = found.column("vol") if found is not None else np.zeros(0)
    if len(volumes) < 5 or not np.isfinite(volumes).all():
        return 1.0
    return abs(np.linalg.det(system.frame["cell"])) / float(np.median(volumes[len(volumes) // 5 :]))


def corners(job, system):
    """Those of a system: hot at its pressure, which is at its density where it is no crystal; pressed; stretched."""
    t = hottest(job, system)
    hot, name = large(system, t), f"{system.name} {t:g} K"
    if system.frame["cell"] is None:
        return [Corner(name, hot, {"ensemble": "nvt"})]
    crystal = system.kind == "crystal"
    middle = _expanded(job, hot) if crystal else 1.0
    low, high = _shares(job, system, middle * density(system.frame))
    out = [Corner(name, hot, {"ensemble": "npt" if crystal else "nvt"})]
    for what, share in (("dense", high), ("stretched", low)):
        out.append(Corner(f"{name} {what}", large(system, t, middle * share), {"ensemble": "nvt"}))
    return out


# ---- failures -------------------------------------------------------------------------------------------------------


class Judge(runner.Judge):
    """What fails in the run of a system at its temperature. closest: {(element, element): shortest distance, A}."""

    def __init__(self, system, closest):
        self.system, self.t, self.n = system, system.temperature, len(system.frame["elements"])
        self.closest = {pair: CLOSEST * r for pair, r in closest.items()}
        self.bonds = _bonds(system) if system.kind != "crystal" else None

    def failure(self, rows, frames):
        """(step, why) of the first failure, or None."""
        found = [self._rows(rows), self._frames(frames)]
        return min((f for f in found if f), default=None)

    def _rows(self, rows):
        step, temperature, energy = rows[:, 0], rows[:, 1], rows[:, 2]
        if not len(rows):
            return None
        bad = ~np.isfinite(rows).all(1)
        if bad.any():
            return step[bad][0], "a number is NaN or infinite"
        hot = temperature > (HOT + HOT_ATOMS / self.n) * self.t
        if hot.any():
            return step[hot][0], f"the temperature is {temperature[hot][0]:.4g} K, not {self.t:g} K"
        first = energy[: max(10, min(len(energy), runner.SEGMENT // EVERY) // 4)]
        middle = np.median(first)
        spread = max(1.4826 * np.median(np.abs(first - middle)), BOLTZMANN * self.t * math.sqrt(1.5 * self.n))
        low = energy < middle - COLLAPSE * spread
        if low.any():
            fallen = middle - energy[low][0]
            return step[low][0], f"the potential energy fell by {fallen:.4g} eV, {fallen / spread:.3g} deviations"
        last = temperature[-runner.SEGMENT // EVERY // 2 :]
        if self.n >= 20 and len(last) >= 20 and not 0.5 * self.t < last.mean() < 1.5 * self.t:
            return step[-len(last)], f"the mean temperature is {last.mean():.4g} K, not {self.t:g} K"
        return None

    def _frames(self, frames):
        steps = sorted(frames)
        for k in [*steps[:-1:CHECKED], *steps[-1:]]:
            x, cell = frames[k]
            why = self._close(x, cell) or self._broken(x, cell)
            if why:
                return k, why
        return None

    def _close(self, x, cell):
        if not self.closest:
            return None
        elements = self.system.frame["elements"]
        one = {"elements": elements, "positions": x, "cell": None if self.system.frame["cell"] is None else cell}
        for pair, r in dataset.shortest_of([one], sorted(set(elements)), max(self.closest.values())).items():
            if r < self.closest.get(pair, 0.0):
                return f"{'-'.join(pair)} distance {r:.4g} A, below {self.closest[pair]:.4g} A"
        return None

    def _broken(self, x, cell):
        if self.bonds is None or not len(self.bonds[0]):
            return None
        i, j, limit = self.bonds
        d = x[j] - x[i]
        if self.system.frame["cell"] is not None:
            d -= np.round(d @ np.linalg.inv(cell)) @ cell
        over = np.linalg.norm(d, axis=1) / limit
        k, names = int(np.argmax(over)), self.system.frame["elements"]
        return f"a bond {names[i[k]]}-{names[j[k]]} is {over[k] * limit[k]:.4g} A long" if over[k] > 1 else None


def _bonds(system):
    """(i, j, longest distance) of bonds, or None where elements are not those of molecules."""
    frame = system.frame
    if not set(frame["elements"]) <= NONMETALS:
        return None
    bonds, sums, _ = novel.bonds(frame)
    i, j = np.nonzero(np.triu(bonds, 1))
    return i, j, BROKEN * sums[i, j]


def shortest(job):
    """{(element, element): shortest distance of the training, A}."""
    said = job.head.get("domain", {}).get("distances") or {}
    return {tuple(sorted(pair.split("-"))): float(r) for pair, r in said.items()}


# ---- runs -----------------------------------------------------------------------------------------------------------


def failed(run):
    return run.ended not in NO_FAILURES


def lived(run):
    """ps, with the dynamics that went before."""
    return run.ps + run.warm_ps


def lives(job, corner, steps, what="lifetime"):
    """Trajectories of a corner with seeds of their own, `steps` together, as far as the time given lets them go: SEEDS
    runs, of which job.jobs at a time, and others one by one until the steps that failures left are used."""
    elements = sorted(set(corner.system.frame["elements"]))
    potential, judge = job.model.potential(elements), Judge(corner.system, shortest(job))
    each, left, spent, out = max(SHORTEST, steps // SEEDS), steps, 0.0, []
    inputs = [job.model.identity["runs"], corner.system.inputs, corner.given, steps]
    p = job.protocol(corner.system, **corner.given, every=EVERY, dump=EVERY, segments=SEGMENTS, dump_warm=True)
    place = job.work.place(f"model-{word(what)}-{word(corner.group)}", [*inputs, p])
    stop = threading.Event()

    def one(k, planned, share):
        folder = os.path.join(place, f"run-{k + 1}")
        if share <= 0 and not os.path.isdir(folder):
            return None
        os.makedirs(folder, exist_ok=True)
        mine = {**p, "steps": planned, "seed": p["seed"] + 1000 * (k + 1)}
        return runner.run(job.lmp, potential, corner.system.frame, mine, folder, max(0.0, share), judge, stop)

    while left >= SHORTEST and (more := MOST - sum(failed(run) for run in out)) > 0:
        k, planned = len(out), min(each, left)
        at_once = max(1, min(job.jobs, SEEDS - k, left // each, more))
        share = (job.seconds() * (steps - left + at_once * planned) / steps - spent) / at_once
        found = _together([(one, n, planned, share) for n in range(k, k + at_once)], stop)
        if None in found:
            found = found[: found.index(None)]
            left = 0  # there is no time left
        for run in found:
            out.append(run)
            spent += run.seconds
            left -= round(run.ps / run.timestep_ps) if failed(run) else planned
    return out


def _together(calls, stop):
    """What the calls (function, arguments) return, each in a thread of its own. The first error, or a signal to this
    process, sets `stop` and is raised."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        try:
            futures = [pool.submit(*call) for call in calls]
            for future in concurrent.futures.as_completed(futures):
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise


def steps_of(job, corner, n_corners):
    """Steps of a corner for its part of the atom-picoseconds that are asked for."""
    ps = job.settings["lifetime"] / n_corners / len(corner.system.frame["elements"])
    return max(SEEDS * SHORTEST, job.steps(corner.system, ps))


def all_corners(job):
    """The corners of all systems."""
    found = [corner for system in job.of_kind("crystal", "liquid", "molecule") for corner in corners(job, system)]
    if not found:
        raise NotMeasured("there is no system")
    return found


# ---- rows -----------------------------------------------------------------------------------------------------------


def _poisson(n, mean):
    """The probability of up to n events."""
    return sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(n + 1))


def _mean_where(n, probability):
    """The mean of the Poisson distribution that has up to n events with this probability."""
    low, high = 1e-9, 10.0 * (n + 2)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _poisson(n, middle) > probability else (low, middle)
    return (low + high) / 2


def mean_time(total, n):
    """(value, low, high): the time a failure takes if n were seen in `total`, with its exact 95 % interval.
    Without a failure there is a lower limit only, which is the value: the rule of three."""
    if n == 0:
        return total / _mean_where(0, 0.05), total / _mean_where(0, 0.05), math.inf
    return total / n, total / _mean_where(n, 0.025), total / _mean_where(n - 1, 0.975)


def _row(group, runs, wanted, **more):
    """runs: [(Corner, Trajectory)]; wanted: atom-ps."""
    total = sum(len(corner.system.frame["elements"]) * lived(run) for corner, run in runs)
    if not total > 0:
        return missing("lifetime", group, "no run has made a step in the time given")
    bad = [(corner, run) for corner, run in runs if failed(run)]
    value, low, high = mean_time(total, len(bad))
    sizes = sorted({len(corner.system.frame["elements"]) for corner, _ in runs})
    atoms = f"{sizes[0]} atoms" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]} atoms"
    number = f"{len(bad)} failure{'s' if len(bad) > 1 else ''}" if bad else "no failure"
    note = f"{number} in {total:.3g} of {wanted:.3g} atom-ps, {len(runs)} runs of {atoms}"
    if bad:
        corner, run = min(bad, key=lambda one: lived(one[1]))
        why = run.ended.partition(";")[0].removeprefix("ERROR: ")
        note += f"; the shortest {lived(run):.3g} ps ({corner.group}): {why}"
    more |= {"low": low, "high": high, "failures": len(bad), "atom_ps": total}
    return row("lifetime", group, value, note=note, **more)


def measure(job):
    """The measurement; see measurements.py."""
    found, runs, wanted = all_corners(job), {}, {}
    for corner in found:
        steps, n = steps_of(job, corner, len(found)), len(corner.system.frame["elements"])
        ps = steps * job.timestep(corner.system) / 1000
        job.write(f"  model: lifetime of {corner.group}, {ps:.4g} ps of {n} atoms")
        runs[corner.group] = [(corner, run) for run in lives(job, corner, steps)]
        wanted[corner.group] = n * ps
    groups = [_row(group, mine, wanted[group]) for group, mine in runs.items()]
    unseen = any(r["value"] is None for r in groups)  # a corner without a run: no failure elsewhere is not enough
    whole = _row("all", list(itertools.chain(*runs.values())), sum(wanted.values()))
    if unseen and not whole.get("failures"):
        whole["enough"] = False
    if whole.get("failures"):  # a corner that fails is not made up for by others that live
        worst = min((r for r in groups if r.get("failures")), key=lambda r: r["value"])
        whole |= {key: worst[key] for key in ("value", "error", "low", "high")}
        whole["note"] += f"; the value is that of {worst['group']}"
    return {"rows": [whole, *groups], "figures": []}
