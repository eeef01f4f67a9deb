"""Vibrations of crystals on a mesh of wave vectors, the thermal expansion and heat capacity that follow from them, and
forces in strained crystals whose atoms are displaced as at high temperature."""

import contextlib
import math

import numpy as np

from ..ensemble.judge import BOLTZMANN
from ..model.units import GPA, KJ_PER_MOL
from . import lattice, systems, vibrations
from .crystals import both, equation_of_state, force_constants, relaxed
from .job import attempt
from .rows import missing, row
from .work import NotMeasured

PLANCK = 4.135667696e-3  # eV/THz
ROOM = 300.0  # K
STEP = 10.0  # K, of differences of the temperature
VOLUMES = 5
GRUNEISEN = 2.0  # parameter by which the largest volume is chosen
MARGIN, SMALLEST, LARGEST = 2.0, -0.005, 0.06  # factor of its strain of lengths; the least and the largest strain
AROUND = 0.01  # strain around that of a temperature
STRAINS = (-0.05, -0.03, 0.03, 0.05)  # of lengths
COPIES = 4  # of each strained crystal


def _mesh(job, side, system):
    return force_constants(job, side, system).mesh()


def phonon_mesh(job):
    rows = []
    for system in job.of_kind("crystal"):
        (mine, why), (theirs, other_why) = both(job, system, _mesh)
        for name, do in (("largest", np.max), ("mean", np.mean)):
            group = f"{system.name} {name}"
            if mine is None or theirs is None:
                rows.append(missing("phonon_mesh", group, why or other_why))
            elif mine.shape != theirs.shape:
                rows.append(missing("phonon_mesh", group, "the teacher's crystal has another primitive cell"))
            else:
                note = f"{len(mine)} wave vectors, frequencies of the teacher up to {theirs.max():.3g} THz"
                value = float(do(np.abs(mine - theirs)))
                rows.append(row("phonon_mesh", group, value, scale=float(theirs.max()), note=note))
    return {"rows": rows, "figures": []}


def free_energy(w, temperature):
    """Free energy of vibrations [wave vectors, modes] in THz, eV for each atom."""
    e, kt = PLANCK * w, BOLTZMANN * temperature
    return 3 * float((e / 2 + kt * np.log(-np.expm1(-e / kt))).mean())


class QuasiHarmonic:
    """volumes (A^3/atom), energies (eV/atom) and frequencies [volume][wave vector, mode] (THz) of a crystal."""

    def __init__(self, volumes, energies, frequencies):
        self.volumes, self.energies, self.frequencies = volumes, np.array(energies), frequencies

    def minimum(self, temperature):
        """(volume, free energy) of an atom without pressure. NotRelaxed where it is outside of the volumes."""
        f = self.energies + [free_energy(w, temperature) for w in self.frequencies]
        try:
            volume, energy, _ = lattice.birch_murnaghan(self.volumes, f)
        except lattice.NotRelaxed as e:
            words = f"volumes from {min(self.volumes):.2f} to {max(self.volumes):.2f} A^3/atom"
            raise lattice.NotRelaxed(f"no minimum of the free energy at {temperature:g} K among {words}") from e
        return volume, energy

    def at(self, temperature):
        """(linear thermal expansion in 1e-6/K, heat capacity at constant pressure in J/mol/K of atoms)"""
        step = min(STEP, temperature / 10)
        (v0, g0), (v1, g1), (v2, g2) = (self.minimum(temperature + k * step) for k in (-1, 0, 1))
        expansion = 1e6 * (v2 - v0) / (2 * step) / (3 * v1)
        return expansion, -1000 * KJ_PER_MOL * temperature * (g2 + g0 - 2 * g1) / step**2


def _volumes(evaluate, frame, strains):
    """QuasiHarmonic of a crystal with these strains of lengths, ions relaxed. NotRelaxed for imaginary frequencies."""
    volumes, energies, frequencies = [], [], []
    for s, (found, label) in zip(
        strains, lattice.relax(evaluate, [lattice.strained(frame, s * np.eye(3)) for s in strains])
    ):
        w = vibrations.ForceConstants(evaluate, found).mesh()
        if w.min() <= 0:
            raise lattice.NotRelaxed(
                f"imaginary frequency of {-w.min():.3g} THz at lengths strained by {100 * s:.2g} %"
            )
        volumes.append(abs(np.linalg.det(found["cell"])) / len(found["elements"]))
        energies.append(label["energy"] / len(found["elements"]))
        frequencies.append(w)
    return QuasiHarmonic(volumes, energies, frequencies)


def _largest(eos, temperature):
    """A strain of lengths that the expansion up to a temperature is below."""
    expected = GRUNEISEN * BOLTZMANN * temperature / (eos["bulk"] / GPA * eos["volume"])
    return min(LARGEST, MARGIN * expected - SMALLEST)


def _near(evaluate, frame, eos, temperature, guess=None):
    """[strain of lengths, expansion, heat capacity] from volumes around that of a temperature. guess: that strain;
    without one, or where it is wrong, a wider range of volumes gives it."""
    volume = abs(np.linalg.det(frame["cell"])) / len(frame["elements"])
    strain_of = lambda found: (found.minimum(temperature)[0] / volume) ** (1 / 3) - 1

    def around(middle):
        found = _volumes(evaluate, frame, middle + np.linspace(-AROUND, AROUND, VOLUMES))
        return [strain_of(found), *found.at(temperature)]

    if guess is not None:
        with contextlib.suppress(lattice.NotRelaxed):
            return around(guess)
    wide = np.linspace(SMALLEST, _largest(eos, temperature), VOLUMES)
    return around(strain_of(_volumes(evaluate, frame, wide)))


def _formula_atoms(elements):
    """Number of atoms of a formula unit: 2 for NaCl, 1 for one element."""
    return len(elements) // math.gcd(*(elements.count(e) for e in set(elements)))


def _thermal(job, side, system, temperature):
    """[strain of lengths, expansion, heat capacity of a mole of formula units]"""
    frame, _ = relaxed(job, side, system)
    eos = equation_of_state(job, side, system)
    guess = None
    if side is job.teacher:
        found, _ = attempt(_thermal, job, job.model, system, temperature)
        guess = None if found is None else round(found[0], 3)
    do = lambda evaluate: _near(evaluate, frame, eos, temperature, guess)
    strain, expansion, heat = job.static(side, system, "quasi-harmonic", do, temperature, guess)
    return [strain, expansion, heat * _formula_atoms(frame["elements"])]


def thermal(job):
    rows = []
    for system in job.of_kind("crystal"):
        for temperature in sorted({ROOM, system.high}):
            (mine, why), (theirs, other_why) = both(job, system, lambda *words, t=temperature: _thermal(*words, t))
            for k, name in enumerate(("thermal_expansion", "heat_capacity"), 1):
                group = f"{system.name} {temperature:g} K"
                if mine is None:
                    rows.append(missing(name, group, why))
                    continue
                note = f"lengths {100 * mine[0]:.2f} % above those at rest"
                more = {"teacher": theirs and theirs[k], "teacher_note": other_why, "note": note}
                rows.append(row(name, group, mine[k], **more))
    return {"rows": rows, "figures": []}


def _amplitudes(job, system):
    """Displacement of each coordinate of the atoms of the relaxed unit cell, A: the classical energy at `high`, were
    all other atoms at rest."""
    found = force_constants(job, job.model, system)
    stiffness = np.array([np.trace(found.phi[a, :, k]) / 3 for a, k in enumerate(found.atoms)])
    if stiffness.min() <= 0:
        raise NotMeasured("an atom of the model's crystal is at a maximum of the energy")
    n = len(found.frame["elements"])
    return found.frame, np.sqrt(BOLTZMANN * system.high / stiffness)[found.primitive[:n]]


def rattled(frame, amplitudes, strain, seed):
    """The crystal with lengths strained, and atoms displaced; amplitudes: of the atoms, A."""
    frame = lattice.strained(frame, strain * np.eye(3))
    moves = np.random.default_rng(seed).normal(size=frame["positions"].shape)
    return {**frame, "positions": frame["positions"] + np.asarray(amplitudes)[:, None] * moves}


def _rattled_row(job, system, frame, amplitudes, strain):
    group = f"{system.name} {100 * strain:+g} %"
    frames = [rattled(frame, amplitudes, strain, seed) for seed in range(COPIES)]
    forces = []
    for side in job.sides:
        do = lambda evaluate: [label["forces"] for label in evaluate(frames)]
        found, why = attempt(job.static, side, system, "rattled", do, strain, system.high)
        if found is None:
            return missing("rattled_forces", group, why)
        forces.append(np.array(found))
    if job.teacher is None:
        return missing("rattled_forces", group, job.no_teacher)
    mine, theirs = forces
    rms = float(np.sqrt((theirs**2).mean()))
    note = f"{COPIES} x {len(amplitudes)} atoms, displaced by {np.mean(amplitudes):.3f} A, forces {rms:.2f} eV/A"
    return row("rattled_forces", group, 100 * float(np.sqrt(((mine - theirs) ** 2).mean())) / rms, note=note)


def rattled_forces(job):
    rows = []
    for system in job.of_kind("crystal"):
        found, why = attempt(_amplitudes, job, system)
        if found is None:
            rows.append(missing("rattled_forces", system.name, why))
            continue
        unit, amplitudes = found
        frame = systems.repeated(unit, job.settings["atoms"])
        amplitudes = np.tile(amplitudes, len(frame["elements"]) // len(amplitudes))
        rows += [_rattled_row(job, system, frame, amplitudes, strain) for strain in STRAINS]
    return {"rows": rows, "figures": []}
