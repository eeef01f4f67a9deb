"""Kinds of materials: the bars that every certificate of a kind is judged by.

They were written down before the students that they judge were trained (docs/certificate.md has the reasons). A recipe
names its kind; its own bars are judged in addition."""

import typing


class Bar(typing.NamedTuple):
    """A bar of a kind: of a quantity (recipe_certify.QUANTITIES) and a group of its rows."""

    quantity: str
    group: str
    value: typing.Any
    reason: str


def _bars(*rows):
    """Rows of quantity, value, reason and, for one group alone, the group."""
    return tuple(Bar(quantity, *(group or ["all"]), value, reason) for quantity, value, reason, *group in rows)


ALWAYS = _bars(
    ("lifetime", 300000, "atom-ps between failures, at 95 %: none in 10^6 (rule of three)"),
    ("nve_drift", 0.01, "4 K in 100 ps without a thermostat"),
    ("nvt", "stable", "a run as long as a user's must complete"),
    (
        "roc_area",
        0.95,
        "of a frame with a large error and another frame, the first has the larger uncertainty in 19 of 20 pairs",
    ),
    ("false_alarms", "1 %", "more are ignored by users"),
)
PERIODIC = _bars(("npt", "stable", "a run as long as a user's must complete"))
CRYSTAL = _bars(
    (
        "forces",
        "10 %",
        "of their root mean square, over all held-out frames; forces of single atoms average out in what follows",
    ),
    ("run_forces", "10 %", "the same in the student's own runs, in each state"),
    ("run_bias", 1, "meV/atom: 4 % of kT at 300 K; phases differ by 5 to 20"),
    ("run_pressure", 1000, "bar: lengths within 0.05 % at a bulk modulus of 75 GPa"),
    ("lattice_constant", "0.2 %", "functionals differ by 1 % and more"),
    ("bulk_modulus", "5 %", "functionals differ by 10 % and more"),
    ("elastic_constants", "5 %", "functionals differ by 10 % and more"),
    ("phonons", "5 %", "at the band edges; functionals differ as much"),
    ("phonon_mesh", "5 %", "an instability may lie between the band edges"),
    ("thermal_expansion", "10 %", "third derivatives of the energy; quasi-harmonic, so not near melting", "300 K"),
    ("heat_capacity", "2 %", "follows from the phonons", "300 K"),
    ("rattled_forces", "10 %", "pressed or stretched, and hot: what shocks and defects visit"),
    ("pressed", "repulsive", "atoms that a cascade or an overlap brings together must part"),
    ("high_temperature", "stable", "the crystal neither melts nor fails at the stated limit"),
    ("polymorph_order", "same", "phases that grow must be the teacher's"),
    ("vacancy_energy", 0.1, "eV: a concentration within a factor of 4 at 800 K"),
    ("migration_barrier", 0.1, "eV: a rate within a factor of 4 at 800 K"),
    ("relaxed_force", 0.3, "eV/A: a defect that the teacher would move on is a false minimum"),
)
METAL = _bars(
    ("polymorph_energy", 5, "meV/atom: a quarter of what separates fcc from hcp in aluminium"),
    ("fault_energy", "10 %", "the width of a dislocation is inverse to it"),
    ("interstitial_energy", 0.2, "eV: dumbbells of iron differ by 0.5"),
    ("surface_energy", "5 %", "the shape of a particle follows from ratios that differ by 10 to 20 %"),
)
COVALENT = _bars(
    ("polymorph_energy", 10, "meV/atom: diamond and hexagonal diamond differ by 9 in silicon"),
    ("fault_energy", "20 %", "small energies, of third neighbors"),
    ("interstitial_energy", 0.3, "eV: of 3 to 4, with several minima"),
    ("surface_energy", "10 %", "broken bonds that later reconstruct"),
)
IONIC = _bars(("polymorph_energy", 10, "meV/atom"), ("surface_energy", "10 %", "of neutral faces"))
LIQUID = _bars(
    ("forces", "6 %", "of their root mean square, over all held-out frames: about 50 meV/A in water"),
    ("run_forces", "6 %", "the same in the student's own runs, in each state"),
    ("run_bias", 0.5, "meV/atom: 0.15 kJ/mol of a molecule of water"),
    ("run_pressure", 300, "bar: 1.4 % of the density of water"),
    ("density", "1.5 %", "as the bar of the pressure"),
    ("diffusion", "20 %", "of the teacher's value; a run of 100 ps does not resolve it better"),
    ("rdf", 5, "%: peaks within the differences of good functionals"),
    ("heat_of_vaporisation", "5 %", "2 kJ/mol in water; the energy of the liquid against its molecules"),
)
MOLECULE = _bars(
    ("forces", "6 %", "of their root mean square, over all held-out frames"),
    ("run_forces", "6 %", "the same in the student's own runs, in each state"),
    ("run_bias", 1, "meV/atom: 0.3 kcal/mol of a molecule of 12 atoms"),
)
KINDS = {
    "metal": (*CRYSTAL, *METAL, *PERIODIC, *ALWAYS),
    "semiconductor": (*CRYSTAL, *COVALENT, *PERIODIC, *ALWAYS),
    "ionic": (*CRYSTAL, *IONIC, *PERIODIC, *ALWAYS),
    "liquid": (*LIQUID, *PERIODIC, *ALWAYS),
    "molecule": (*MOLECULE, *ALWAYS),
}
