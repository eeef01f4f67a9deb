"""All measurements of a certificate, in the order of its page.

A measurement is a function of a Job (job.py) that returns {rows, figures}: rows.py has rows; a figure is what page.py
draws. What it cannot measure it says with NotMeasured, or in the row."""

import typing

from ..model.modelfile import ModelError
from ..train.labels import file_hash
from . import (
    beyond,
    crystals,
    defects,
    detection,
    distributions,
    dynamics,
    errors,
    faults,
    lifetime,
    liquids,
    novel,
    own_runs,
    polymorphs,
    seeds,
    size,
    speed,
    surfaces,
    thermal,
)
from .work import CertifyError, NotMeasured, plain


class Measurement(typing.NamedTuple):
    title: str
    lead: str
    do: typing.Callable
    settings: tuple  # of the section certify, that it depends on
    others: typing.Optional[typing.Callable] = None  # what else it depends on, of a Job


LENGTHS = ("minutes", "scale", "seed", "timestep", "atoms", "temperature", "pressure")
ALL = {
    "errors": Measurement(
        "Errors",
        "On held-out frames (split test), as runs compute them. Percentages are of the root mean square of the "
        "teacher's forces or stress.",
        errors.measure,
        (),
    ),
    "seeds": Measurement(
        "Other seeds",
        "Networks of other seeds on the held-out frames of the model.",
        seeds.measure,
        ("precision",),
        seeds.digests,
    ),
    "liquids": Measurement(
        "Liquids",
        "Distribution functions and diffusion from the NVT runs, density from the NPT runs.",
        liquids.measure,
        (*LENGTHS, "nvt", "npt"),
    ),
    "crystals": Measurement(
        "Crystals at 0 K",
        "Cell and ions relaxed; energies of nine volumes; stress of strains of 0.5 %, ions relaxed.",
        crystals.measure,
        ("minutes",),
    ),
    "phonons": Measurement(
        "Phonons",
        "Displacements of 0.01 A in a supercell; frequencies at the band edges, numbered from the lowest.",
        crystals.phonons,
        ("minutes",),
    ),
    "phonon_mesh": Measurement(
        "Phonons on a mesh",
        "Differences of frequencies from the teacher's at the same wave vectors in units of the reciprocal cell.",
        thermal.phonon_mesh,
        ("minutes",),
    ),
    "thermal": Measurement(
        "Thermal expansion and heat capacity",
        "Quasi-harmonic approximation over five volumes, of model and teacher alike.",
        thermal.thermal,
        ("minutes",),
    ),
    "rattled": Measurement(
        "Strained and displaced crystals",
        "Lengths strained by 3 and 5 %, atoms displaced as at high temperature: error of forces.",
        thermal.rattled_forces,
        ("minutes", "atoms"),
    ),
    "polymorphs": Measurement(
        "Other lattices",
        "Cell and ions of each relaxed by either side: energies above the crystal.",
        polymorphs.measure,
        ("minutes",),
    ),
    "faults": Measurement(
        "Planar faults",
        "Crystals shifted along a plane, and twins, relaxed along the normal of the plane.",
        faults.measure,
        ("minutes",),
    ),
    "surfaces": Measurement(
        "Surfaces",
        "Slabs shaken by 0.05 A and relaxed by the model; the teacher evaluates the same geometry.",
        surfaces.measure,
        ("minutes",),
    ),
    "vacancy": Measurement(
        "Vacancy",
        "One atom less in a supercell, ions shaken by 0.05 A and relaxed, cell fixed.",
        defects.vacancy,
        ("minutes",),
    ),
    "interstitials": Measurement(
        "Self-interstitials",
        "One atom more in a supercell, ions relaxed from the same starts, cell fixed.",
        defects.interstitial,
        ("minutes",),
    ),
    "migration": Measurement(
        "Migration of a vacancy",
        "Nudged elastic band of the model with a climbing image; the teacher evaluates its images.",
        defects.migration,
        ("minutes",),
    ),
    "high_temperature": Measurement(
        "Crystals at high temperature",
        "NVT; a crystal whose atoms are a quarter of the neighbor distance away from their sites has melted.",
        crystals.high_temperature,
        (*LENGTHS, "hot"),
    ),
    "nve": Measurement(
        "Conservation of energy", "Slope of the total energy over the NVE run.", dynamics.nve, (*LENGTHS, "nve", "hot")
    ),
    "timestep": Measurement(
        "Time step",
        "Fluctuation of the total energy in NVE runs from one state; its exponent over the time step is 2 for forces "
        "that are smooth derivatives of the energy.",
        dynamics.timestep,
        LENGTHS,
    ),
    "nvt": Measurement("NVT", "Nose-Hoover, 0.1 ps.", dynamics.nvt, (*LENGTHS, "nvt", "hot")),
    "npt": Measurement("NPT", "Nose-Hoover, 0.1 ps; isotropic barostat, 1 ps.", dynamics.npt, (*LENGTHS, "npt", "hot")),
    "distributions": Measurement(
        "Distributions of energies",
        "The NVT run, judged by physical_validation: kinetic energies against those of the canonical ensemble, and "
        "potential energies at two temperatures against each other.",
        distributions.measure,
        (*LENGTHS, "nvt"),
    ),
    "beyond": Measurement(
        "Beyond the domain",
        "Neighbors pressed together where they are, pairs and atoms in vacuum, and a run at twice the temperature.",
        beyond.measure,
        (*LENGTHS, "hot"),
    ),
    "lifetime": Measurement(
        "Lifetime",
        "Runs of the model at the highest temperature: at the pressure of the system, pressed and stretched. A failure "
        "is an error of LAMMPS, a temperature far from that of the thermostat, atoms too close, a collapse of the "
        "potential energy, or a broken bond. Exact limits of Poisson.",
        lifetime.measure,
        (*LENGTHS, "lifetime"),
    ),
    "own_runs": Measurement(
        "The model's own runs",
        "Frames of runs of the model with other seeds, boxes and states than the training, labelled by the teacher. "
        "Intervals by independent runs. Runs of model and teacher from one start, in thirds.",
        own_runs.measure,
        (*LENGTHS, "lifetime", "hot", "measure"),
    ),
    "uncertainty": Measurement(
        "Uncertainty",
        "Of held-out frames, of structures unlike those of the training, labelled by the teacher, and of own runs.",
        detection.measure,
        (*LENGTHS, "lifetime", "hot", "measure"),
        lambda _: ["area_limits", novel.COPIES],  # what changed since the first certificates
    ),
    "size": Measurement(
        "Size",
        "Repeated cells: energy per atom and pressure stay, and the largest runs.",
        size.measure,
        (*LENGTHS, "size"),
    ),
    "speed": Measurement(
        "Speed and memory",
        "Model and teacher by turns on one core; medians of the rounds.",
        speed.measure,
        ("seed", "precision"),
    ),
}


def rounded(value):
    """Six digits of all numbers: of pictures."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _inputs(job, measurement):
    found = {"model": job.model.identity, "teacher": job.teacher and job.teacher.identity, "why": job.no_teacher}
    found["settings"] = [(key, job.settings[key]) for key in measurement.settings]
    found["systems"] = [(s.name, s.kind, s.temperature, s.pressure, s.high, s.inputs) for s in job.systems]
    found["labels"] = file_hash(job.frames) if job.frames else None
    found["test"] = len(job.test)
    if measurement.others:
        found["others"] = measurement.others(job)
    return found


def run(job, names):
    """{name: {state, why, seconds, rows, figures}} of the measurements named; others say that they were left out."""
    out = {}
    for name, measurement in ALL.items():
        if name not in names:
            out[name] = {"state": "not measured", "why": "left out by `measure`", "rows": [], "figures": []}
            continue
        job.write(f"{measurement.title} ...")
        out[name] = _one(job, name, measurement)
        job.write(f"{measurement.title}: {out[name].get('why') or out[name]['state']}")
    return out


def _one(job, name, measurement):
    def do(_):
        found = measurement.do(job)
        state = "measured" if any(r["value"] is not None for r in found["rows"]) else "not measured"
        why = (
            None if state == "measured" else next((r.get("note") for r in found["rows"]), "there is nothing to measure")
        )
        found["figures"] = rounded(plain(found["figures"]))
        return {"state": state, "why": why, **found}

    try:
        whole = lambda found: all(r["value"] is not None for r in found["rows"])
        return job.work.step(name, _inputs(job, measurement), do, whole)  # what failed may work another time
    except ModelError as e:
        if isinstance(e, CertifyError) and not isinstance(e, NotMeasured):
            raise
        return plain({"state": "not measured", "why": str(e), "rows": [], "figures": []})
