"""Monte Carlo fixes: ensembles whose averages are known.

Atoms that are too far apart to feel one another are an ideal gas: in the grand-canonical ensemble their mean number is
z V exp(-E1 / kT), E1 being the model's energy of one atom. The number is Poisson distributed; one trial in two inserts,
so that it forgets its value within twice the mean of trials, which gives the error of the average.
"""

import os
import re

import nightly
import numpy as np
import pytest
from harness import fails, launch

import mlff

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS, DECKS = os.path.join(ROOT, "models"), os.path.join(ROOT, "benchmarks", "decks")
KB, NKTV2P = 8.617343e-5, 1.6021765e6  # eV/K, bar A^3/eV, as LAMMPS has them
MASSES = {"Al": 26.982, "O": 15.999, "H": 1.008}
SIDE = 300.0  # A: pairs are rare
GAS = """
units metal
atom_style atomic
atom_modify map yes
boundary p p p
neighbor 2.0 bin
neigh_modify binsize 30.0
region b block 0 {side} 0 {side} 0 {side}
create_box {n_types} b
create_atoms 1 random {n} 4711 NULL overlap 12.0 maxtry 1000
{masses}
pair_style mlff precision fp64 domain ignore
pair_coeff * * {model} {elements}
compute_modify thermo_temp dynamic/dof yes
"""


def gas(model, elements, n, side=SIDE):
    masses = "\n".join(f"mass {k + 1} {MASSES[e]}" for k, e in enumerate(elements))
    return GAS.format(model=model, elements=" ".join(elements), n=n, side=side, masses=masses, n_types=len(elements))


def energy_of_atom(model, element):
    return mlff.Model(model, precision="fp64", domain="ignore").evaluate([element], [[0.0, 0.0, 0.0]]).energy


def values(output, name="RESULT"):
    return [[float(x) for x in line.split()] for line in re.findall(rf"^{name} (.*)$", output, re.M)]


def mean_number(model, element, temperature, folder, trials, ranks=1, ideal=4.0):
    """Mean of fix gcmc, expected value, error of the mean. ideal: z V."""
    kt = KB * temperature
    wanted = ideal * np.exp(-energy_of_atom(model, element) / kt)
    deck = gas(model, [element], round(wanted))
    deck += f"""
fix g all gcmc 1 20 0 1 29494 {temperature} 0.0 0.5 pressure {ideal * kt / SIDE**3 * NKTV2P:.12g} overlap_cutoff 1.0 &
  full_energy
variable n equal count(all)
fix av all ave/time 1 1 1 v_n ave running start {max(1, round(2 * wanted) // 20)}
run {trials // 20} post no
print "RESULT $(f_av)"
"""
    found = values(launch(deck, str(folder), ranks))[0][0]
    return found, wanted, np.sqrt(wanted * 4.0 * wanted / trials)


ALUMINIUM = (f"{MODELS}/aluminium-m.yaml", "Al", 8000.0)
NEQUIX = (f"{MODELS}/nequix-oam-1-pft.yaml", "Al", 8000.0)
GASES = ("painn", "local", "ani", "nequix", "sevennet", "repelling")


def check_ideal_gas(model, element, temperature, folder, trials, ranks=1):
    found, wanted, error = mean_number(model, element, temperature, folder, trials, ranks)
    assert abs(found - wanted) < 4.0 * error, f"{found:.2f} atoms instead of {wanted:.2f} +- {error:.2f}"


@pytest.mark.parametrize("ranks", (1, 2))
def test_ideal_gas(tmp_path, ranks):
    """30.1 atoms; energies that keep E0 of deleted atoms give 12, nine errors below what passes."""
    check_ideal_gas(*ALUMINIUM, tmp_path, 2500, ranks)


@pytest.mark.parametrize(
    "name", [name if name in ("ani", "nequix") else pytest.param(name, marks=nightly.only) for name in GASES]
)
def test_ideal_gas_of_every_architecture(zoo, tmp_path, name):
    """Random models, at a temperature that makes exp(-E1 / kT) 5."""
    energies = {element: energy_of_atom(zoo[name], element) for element in ("H", "O")}
    element = min(energies, key=energies.get)
    temperature = -energies[element] / KB / np.log(5.0)
    assert temperature > 0.0, "this model has no atom that is bound to itself"
    check_ideal_gas(zoo[name], element, temperature, tmp_path, 30000 if nightly.NIGHTLY else 2500)


@nightly.only
@pytest.mark.parametrize("ranks", (1, 2))
def test_ideal_gas_of_nequix(tmp_path, ranks):
    """8.69 atoms; energies that keep E0 of deleted atoms give 6.4."""
    check_ideal_gas(*NEQUIX, tmp_path, 8000, ranks)


@nightly.only
@pytest.mark.parametrize("ranks", (1, 2))
def test_ideal_gas_within_two_percent(tmp_path, ranks):
    """In a box of 300 A, where atoms attract each other by 0.02 %; in that of 60 A they are 2.4 % more (30.8)."""
    found, wanted, error = mean_number(*ALUMINIUM, tmp_path, 60000, ranks)
    assert error < 0.01 * wanted and abs(found / wanted - 1.0) < 0.02, f"{found:.2f} instead of {wanted:.2f}"


WATER = """
units metal
atom_style full
atom_modify map yes
boundary p p p
region b block 0 {side} 0 {side} 0 {side}
create_box 2 b
mass 1 1.008
mass 2 15.999
molecule water water.mol
create_atoms 0 random {n} 4711 NULL mol water 4711 overlap 2.2 maxtry 5000
pair_style mlff precision fp64 domain ignore
pair_coeff * * {models}/water-xs.yaml H O
velocity all create 300 4711 loop geom
timestep 0.0005
compute_modify thermo_temp dynamic/dof yes
"""
MOLECULE = """water, H H O

3 atoms

Coords

1 0.9572 0.0 0.0
2 -0.24 0.9266 0.0
3 0.0 0.0 0.0

Types

1 1
2 1
3 2
"""


def water_molecules(folder, n, side):
    with open(os.path.join(folder, "water.mol"), "w", encoding="utf-8") as f:
        f.write(MOLECULE)
    return WATER.format(n=n, side=side, models=MODELS)


@pytest.mark.parametrize("ranks", (1, 2))
def test_water_stays(tmp_path, ranks):
    """At mu = +5 eV a deletion costs at least 5 eV: none is accepted. With E0 of what is deleted, a third$
    is."""
    model = mlff.Model(f"{MODELS}/water-xs.yaml", precision="fp64", domain="ignore")
    molecule = model.evaluate(["H", "H", "O"], [[0.9572, 0, 0], [-0.24, 0.9266, 0], [0, 0, 0]]).energy
    deck = water_molecules(tmp_path, 12, 8.5)
    deck += f"""
minimize 0 0.1 50 100
fix g all gcmc 2 5 0 0 29494 300 5.0 0.3 mol water intra_energy {molecule:.10f} overlap_cutoff 1.2 full_energy
fix 1 all nve
run 24 post no
print "RESULT $(f_g[5]) $(f_g[6])"
"""
    tried, accepted = values(launch(deck, str(tmp_path), ranks))[0]
    assert tried > 15 and accepted == 0, f"{accepted:.0f} of {tried:.0f} deletions"


@pytest.mark.parametrize("ranks", (1, 2))
def test_swaps(zoo, tmp_path, ranks):
    """Semi-grand swaps of distant atoms: each has its type with the probability of that type's energy alone."""
    energies = np.array([energy_of_atom(zoo["painn"], element) for element in ("O", "H")])
    temperature = abs(energies[1] - energies[0]) / KB
    share = 1.0 / (1.0 + np.exp((energies[1] - energies[0]) / KB / temperature))
    n, trials = 16, 2000
    deck = gas(zoo["painn"], ["O", "H"], n)
    deck += f"""
create_atoms 2 single 1 1 1
delete_atoms overlap 5.0 all all
fix s all atom/swap 1 20 29494 {temperature} types 1 2 ke no semi-grand yes mu 0.0 0.0
group second type 2
variable n equal count(all)
variable second atom type==2
compute n all reduce sum v_second
fix av all ave/time 1 1 1 c_n ave running start 10
thermo_style custom step atoms pe c_n
run {trials // 20} post no
print "RESULT $(f_av) $(v_n)"
"""
    found, n = values(launch(deck, str(tmp_path), ranks))[0]
    error = np.sqrt(n * share * (1.0 - share) * 4.0 * n / trials)  # an atom forgets its type within 2 n trials
    assert abs(found - n * share) < 4.0 * error, f"{found:.2f} of type 2 instead of {n * share:.2f} +- {error:.2f}"


@pytest.mark.parametrize("ranks", (1, 2))
def test_widom_of_a_gas(zoo, tmp_path, ranks):
    """The excess chemical potential in nearly empty space is the energy of the atom."""
    deck = gas(zoo["nequix"], ["O", "H"], 2)
    deck += 'fix w all widom 1 10 2 29494 3000\nrun 3 post no\nprint "RESULT $(f_w[1]:%.12g)"\n'
    found = values(launch(deck, str(tmp_path), ranks))[0][0]
    wanted = energy_of_atom(zoo["nequix"], "H")
    assert abs(found - wanted) < 1e-5 * abs(wanted), f"{found} instead of {wanted}"


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("fix", ("widom 1 100 2 1234 300", "gcmc 1 100 0 2 1234 300 {mu} 0.5 full_energy"))
def test_overlaps_are_improbable(tmp_path, fix, ranks):
    """Insertions on top of atoms, without `overlap_cutoff`, fail as trials and do not stop the run."""
    model = f"{MODELS}/water-xs.yaml"
    deck = f"""
units metal
atom_style atomic
atom_modify map yes
read_data {DECKS}/data.water21
pair_style mlff precision fp64 domain ignore
pair_coeff * * {model} H O
compute_modify thermo_temp dynamic/dof yes
group gas empty
fix t gas {fix.format(mu=energy_of_atom(model, "O") - 20.0)}
run 5 post no
print "RESULT $(atoms) $(pe)"
"""
    atoms, energy = values(launch(deck, str(tmp_path), ranks))[0]
    assert atoms == 63 and np.isfinite(energy)


@pytest.mark.parametrize("ranks", (1, 2))
def test_overlap_of_the_run_is_no_trial(zoo, tmp_path, ranks):
    """Two atoms collide in the dynamics, in the step of a fix gcmc whose displacements would resolve it."""
    deck = gas(zoo["painn"], ["H", "O"], 0, side=20.0)
    deck = re.sub(r"create_atoms.*", "create_atoms 2 single 9.75 10 10\ncreate_atoms 2 single 10.25 10 10", deck)
    deck += """
group l id 1
group r id 2
velocity l set 200 0 0
velocity r set -200 0 0
timestep 0.0002
fix n all nve
run 2
fix g all gcmc 1 0 20 2 123 300 0 0.5 full_energy
run 4
"""
    text = fails(deck, tmp_path, ranks)
    assert "in step 3" in text and "0.2600 A apart" in text, text
