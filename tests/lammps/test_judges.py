"""Dynamics judged by others: the same trajectory by ASE, and by physical_validation the order of the integrator and the
distributions of energies at constant temperature."""

import os

import harness
import numpy as np
import pytest

from mlff_tools.ensemble import outside

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models")
# amu (A/ps)^2 in eV, as LAMMPS has it; ASE's unit of time is then this number's root, in ps.
MVV2E = 1.0364269e-4
RUN = """
{velocity}
timestep {dt}
thermo {every}
thermo_style custom step pe ke etotal
thermo_modify format float %.17g
dump all all custom {steps} {name}.dump id type xu yu zu vx vy vz
dump_modify all sort id format float %.17g
{fixes}
run {steps}
"""


def water():
    return harness.water(2)


def silicon():
    system = harness.crystal(1)
    system.elements = ["Si"]
    return system


def dynamics(name, system, model, folder, dt, steps, fixes, velocity, every=1):
    """(columns step, pe, ke, etotal of each `every`-th step; positions and velocities at the first and at the last)"""
    pair = harness.mlff(os.path.join(MODELS, model), " ".join(system.elements), "precision fp64")
    case = harness.Case(name, system, pair)
    text = case.text(str(folder), single_point=False)
    words = {"name": name, "dt": dt, "steps": steps, "fixes": fixes, "velocity": velocity, "every": every}
    output = harness.launch(text + RUN.format(**words), str(folder))
    rows = [line.split() for line in output.splitlines()]
    rows = [
        [float(x) for x in row] for row in rows if len(row) == 4 and row[0].isdigit() and row[1][0] in "-0123456789"
    ]
    assert [row[0] for row in rows] == list(range(0, steps + 1, every))
    with open(os.path.join(str(folder), name + ".dump"), encoding="utf-8") as f:
        frames = f.read().split("ITEM: ATOMS")[1:]
    frames = [
        np.array([line.split() for line in frame.splitlines()[1 : len(system.types) + 1]], float) for frame in frames
    ]
    return np.array(rows), frames[0][:, 2:], frames[-1][:, 2:]


@pytest.mark.parametrize("make, model, dt", [(water, "water-xs.yaml", 0.0005), (silicon, "silicon-m.yaml", 0.001)])
def test_same_trajectory_as_ase(tmp_path, make, model, dt):
    """100 steps of velocity Verlet by LAMMPS and by ASE, whose lists, forces and integrator are other code: the same
    positions, velocities and energies. Rounding grows from 1e-16 by a factor of less than 1e4 in so few steps."""
    ase = pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")
    from ase.md.verlet import VelocityVerlet

    import mlff

    system, steps, scale = make(), 100, MVV2E**0.5
    rows, first, last = dynamics("t", system, model, tmp_path, dt, steps, "fix 1 all nve", "velocity all create 500 7")
    masses = [harness.MASSES[symbol] for symbol in system.symbols]
    atoms = ase.Atoms(system.symbols, first[:, :3], cell=system.cell, pbc=True, masses=masses)
    atoms.set_velocities(first[:, 3:] * scale)
    atoms.calc = mlff.ase.MLFF(os.path.join(MODELS, model), precision="fp64")
    found, verlet = [], VelocityVerlet(atoms, dt / scale)
    verlet.attach(lambda: found.append([atoms.get_potential_energy(), atoms.get_kinetic_energy()]))
    verlet.run(steps)
    assert np.abs(last[:, :3] - first[:, :3]).max() > 0.05, "nothing moved"
    harness.close(atoms.positions, last[:, :3], 1e-10, "position")
    harness.close(atoms.get_velocities() / scale, last[:, 3:], 1e-7, "velocity")
    harness.close(np.array(found), rows[:, 1:3], 1e-9 * len(atoms), "energy")


# ---- physical_validation ---------------------------------------------------------------------------------------------


@pytest.fixture
def judge():
    return pytest.importorskip(
        outside.PACKAGE, reason=f"{outside.PACKAGE} is not installed: pip install {outside.PACKAGE}"
    )


def simulation(judge, dt, temperature, rows, system):
    """What the package wants to know of a run."""
    masses = [harness.MASSES[symbol] for symbol in system.symbols]
    series = {"kinetic": rows[:, 2], "potential": rows[:, 1], "total": rows[:, 3]}
    series["volume"] = np.full(len(rows), np.prod(system.box))
    found = outside.data(judge, masses, temperature, dt, series)
    found.observables.constant_of_motion = rows[:, 3]
    return found


def test_order_of_the_integrator(judge, tmp_path):
    """The total energy of NVE runs of five time steps fluctuates in proportion to the square of the step: forces are
    derivatives of the energy, everywhere on the way. The package's measure is the largest deviation of a ratio of two
    fluctuations from that of the squares; a run that has the wrong one is found."""
    system = silicon()
    start = "velocity all create 600 7 loop geom\nvelocity all zero linear"
    runs = []
    for dt in (4.0, 2.8, 2.0, 1.4, 1.0):
        steps = round(2000 / dt)
        rows, _, _ = dynamics("t", system, "silicon-m.yaml", tmp_path, dt * 1e-3, steps, "fix 1 all nve", start)
        runs.append(simulation(judge, dt * 1e-3, 300, rows, system))
    assert judge.integrator.convergence(runs) < 0.1
    wrong = np.resize(runs[-2].observables.constant_of_motion, len(rows))  # as of the time step before
    runs[-1].observables.constant_of_motion = wrong
    assert judge.integrator.convergence(runs) > 0.3


def test_energies_at_constant_temperature(judge, tmp_path):
    """Kinetic energies of two NVT runs, and total energies of one against the other, are canonical; so they are not
    where another temperature is claimed."""
    system, found = silicon(), {}
    for kelvin in (300, 360):
        start = f"velocity all create {2 * kelvin} 7 loop geom\nvelocity all zero linear"
        fixes = f"fix 1 all nve\nfix 2 all temp/csvr {kelvin} {kelvin} 0.01 {kelvin}"
        rows, _, _ = dynamics("t", system, "silicon-m.yaml", tmp_path, 0.001, 12000, fixes, start, 10)
        found[kelvin] = rows[100:]
    runs = {kelvin: simulation(judge, 0.01, kelvin, rows, system) for kelvin, rows in found.items()}
    for kelvin, run in runs.items():
        assert max(map(abs, outside.kinetic(judge, run))) < outside.BAR, kelvin
    assert outside.energies(judge, runs[300], runs[360], total=True) < outside.BAR
    wrong = simulation(judge, 0.01, 330, found[300], system)
    assert max(map(abs, outside.kinetic(judge, wrong))) > outside.BAR
    assert outside.energies(judge, wrong, runs[360], total=True) > outside.BAR
