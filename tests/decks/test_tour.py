"""The decks of crystals on cells of a few atoms."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import processes
import pytest
import thermo

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DECKS = os.path.join(ROOT, "examples", "lammps_inputs")
MODEL = os.path.join(ROOT, "models", "nequix-oam-1-pft.yaml")
RESULTS = os.path.join(ROOT, "benchmarks", "results", "nequix-oam-1-pft-lattice-constants.txt")
LMP = os.environ.get("MLFF_LMP", os.path.join(os.path.dirname(sys.executable), "lmp"))
MPIEXEC = os.environ.get("MLFF_MPIEXEC", os.path.join(os.path.dirname(sys.executable), "mpiexec"))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(ROOT, "build", "mlffplugin.so"))


def run(deck, place, check=True, images=1, **variables):
    """What LAMMPS printed; with several images, ranks of which each is a partition, and log.lammps in `place`."""
    command = [LMP, "-in", os.path.join(DECKS, deck), "-nocite", *(() if images > 1 else ("-log", "none"))]
    if images > 1:
        command = [MPIEXEC, "-n", str(images), *command, "-partition", f"{images}x1"]
    for name, value in {"plugin": PLUGIN, "model": MODEL, **variables}.items():
        command += ["-var", name, str(value)]
    done = processes.merged(command, cwd=place, timeout=300)
    assert not check or done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def row(solid):
    """(lattice constant, bulk modulus) of a crystal in the file of results."""
    with open(RESULTS, encoding="utf-8") as f:
        words = next(line for line in f if line.split()[0] == solid).split()
    return float(words[2]), float(words[8])


def number(pattern, text):
    return float(re.search(pattern, text)[1])


def test_eos(tmp_path):
    """The fit does not depend on where it starts, and pressure vanishes where the energy is lowest. A start too far
    off is an error."""
    for a in (3.85, 4.2):
        output = run("in.eos", tmp_path, crystal="fcc", elements="Al", a=a)
        assert number(r"Al fcc: a = (\S+) A", output) == pytest.approx(row("Al")[0], abs=2e-4)
        found = np.loadtxt(tmp_path / "eos.txt")
        assert len(found) == 9 and abs(found[found[:, 2].argmin(), 3]) < 0.02, "GPa"
    output = run("in.eos", tmp_path, check=False, crystal="fcc", elements="Al", a=6.5)
    assert "ERROR" in output and "GPa" not in output.splitlines()[-2], output[-500:]


def test_elastic(tmp_path):
    """The bulk modulus is that of the equation of state; the primitive cell from a file, which lies askew, has the same
    averages."""
    run("in.elastic", tmp_path, crystal="fcc", elements="Al", a=4.033)
    c = np.loadtxt(tmp_path / "elastic.txt")
    text = (tmp_path / "elastic.txt").read_text(encoding="ascii")
    bulk, shear = number("bulk modulus (\\S+)", text), number("shear modulus (\\S+)", text)
    assert c.shape == (6, 6) and abs(c - c.T).max() < 0.1 and np.linalg.eigvalsh(c).min() > 10
    assert np.ptp(np.diag(c)[:3]) < 0.1 and np.ptp(np.diag(c)[3:]) < 0.1 and abs(c[:3, 3:]).max() < 0.1, c
    assert bulk == pytest.approx(row("Al")[1], rel=0.01)
    b = 4.033 / np.sqrt(2)
    (tmp_path / "data.al").write_text(
        f"fcc\n\n1 atoms\n1 atom types\n\n0 {b} xlo xhi\n0 {b * 0.75**0.5} ylo yhi\n0 {b * (2 / 3) ** 0.5} zlo zhi\n"
        f"{b / 2} {b / 2} {b / np.sqrt(12)} xy xz yz\n\nMasses\n\n1 26.982\n\nAtoms # atomic\n\n1 1 0 0 0\n"
    )
    run("in.elastic", tmp_path, crystal="data", data="data.al", elements="Al")
    text = (tmp_path / "elastic.txt").read_text(encoding="ascii")
    assert number("bulk modulus (\\S+)", text) == pytest.approx(bulk, rel=0.002)
    assert number("shear modulus (\\S+)", text) == pytest.approx(shear, rel=0.005)


def test_phonons(tmp_path):
    """One cell of silicon: three translations cost nothing, the optical modes at Gamma are the highest (PBE: about 15
    THz), and the lines of Python at the deck's top print them."""
    run("in.phonons", tmp_path, cells=1)
    with open(os.path.join(DECKS, "in.phonons"), encoding="utf-8") as f:
        lines = re.findall(r"^# +(import numpy.*|w = np.*)$", f.read(), re.M)
    assert len(lines) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    w = np.array(done.stdout.strip("[] \n").split(), float)
    assert len(w) == 24 and abs(w[:3]).max() < 0.05 and w[3] > 3, w
    assert np.ptp(w[-3:]) < 0.01 and 14 < w[-1] < 16, w


def test_slab(tmp_path):
    """Close-packed surfaces cost least, relaxation lowers the energy, and a slab is thick enough."""
    energies = {}
    for surface, nz in (("111", 3), ("111", 4), ("100", 5)):
        output = run("in.slab", tmp_path, surface=surface, nz=nz)
        energies[surface, nz] = number(r"eV/A\^2 = (\S+) J/m\^2", output)
        assert energies[surface, nz] < number(r"before relaxation (\S+) J", output)
    assert energies["111", 3] == pytest.approx(energies["111", 4], abs=0.01)
    assert 0.5 < energies["111", 4] < energies["100", 5] < 1.5, energies
    assert "use fcc with" in run("in.slab", tmp_path, check=False, crystal="bcc", surface="111")


def test_adsorption(tmp_path):
    """CO binds to copper by its carbon, and its bond is longer than that of the molecule."""
    output = run("in.adsorption", tmp_path, nx=2, ny=1, layers=3, fixed=1)
    assert "1 molecule for 4 surface atoms" in output
    slab, both, molecule = (
        number(pattern, output) for pattern in (r"slab (-\S+)", r"e (-\S+) eV, mol", r"molecule (-\S+) eV\n")
    )
    found = number(r"adsorption energy (\S+) eV", output)
    assert found == pytest.approx(both - slab - molecule, abs=2e-3) and -2 < found < -0.3, output[-400:]
    assert number(r"C-O (\S+) A", output) > number(r"free (\S+) A", output) + 0.005 > 1.1


def test_layers(tmp_path):
    """Graphite: dispersion pulls layers together that Nequix hardly binds, and adds to its energy, no more."""
    found = {}
    for d3 in ("yes", "no"):
        output = run("in.layers", tmp_path, d3=d3, n=2, steps=80, range=14.0)
        found[d3] = [number(p, output) for p in (r"layers (\S+) A", r" a (\S+) A", r"energy (\S+) meV/atom\n")]
    with_d3, without = found["yes"], found["no"]
    assert 3.25 < with_d3[0] < 3.5 < 3.8 < without[0] and 45 < with_d3[2] < 80 and without[2] < 25, found
    assert 2.44 < with_d3[1] < 2.49
    assert "ERROR: d3 is Yes: use yes or no" in run("in.layers", tmp_path, check=False, d3="Yes")
    parts = "compute one all pair mlff\ncompute two all pair dispersion/d3\n"
    parts += "thermo_style custom step pe c_one c_two\nrun 0\n"
    (tmp_path / "in.parts").write_text(f"include {DECKS}/in.layers\n{parts}", encoding="utf-8")
    both, one, two = list(thermo.table(run(str(tmp_path / "in.parts"), tmp_path, n=2, steps=1), -1).values())[1:]
    assert both[0] == pytest.approx(one[0] + two[0], abs=1e-4) and two[0] < -0.5


def test_melt(tmp_path):
    """Hot enough, the crystal is gone after some steps: atoms have moved, the order has."""
    run("in.melt", tmp_path, cells=2, cold=3000, hot=6000, steps=80, hold=40, thermo=20)
    trace = np.loadtxt(tmp_path / "melt.txt")
    assert trace[:, 0].tolist() == [20, 40, 60, 80, 100, 120]
    assert trace[-1, 4] > 0.5 and trace[-1, 5] < 0.45 and trace[-1, 2] > trace[0, 2], trace
    assert number(r"diffusion coefficient (\S+) A", (tmp_path / "melt.txt").read_text(encoding="ascii")) > 0


def test_conductivity(tmp_path):
    """The integral of the correlation functions that are written; mean and standard error of the blocks."""
    model = os.path.join(ROOT, "models", "silicon-m.yaml")
    output = run("in.conductivity", tmp_path, model=model, n=1, steps=400, blocks=3, length=0.25)
    blocks = np.array([float(x) for x in re.findall(r"^block \d: (\S+) W", output, re.M)])
    text = (tmp_path / "correlation.txt").read_text(encoding="ascii")
    rows = [line.split() for line in text[text.index("\n400 21\n") :].splitlines()[2:]]
    flux = np.array(rows, float)[:, 3:6].mean(1)
    assert len(flux) == 21 and flux[0] > 0
    kappa = 1602.1766 * 0.005 * (flux[1:-1].sum() + (flux[0] + flux[-1]) / 2) / (5.494**3 * 8.617333e-5 * 1000**2)
    assert blocks[-1] == pytest.approx(kappa, abs=0.01)
    mean, error = (float(x) for x in re.search(r"conductivity (\S+) \+- (\S+) W", output).groups())
    assert mean == pytest.approx(blocks.mean(), abs=0.06)
    assert error == pytest.approx(blocks.std(ddof=1) / np.sqrt(3), abs=0.06)
    assert "ERROR: blocks is 1" in run("in.conductivity", tmp_path, check=False, model=model, blocks=1)


def test_vacancy_path(tmp_path):
    """The barrier of the certificate, which comes from forces alone and not from LAMMPS; the path is symmetric."""
    with open(os.path.join(ROOT, "models", "certificates", "copper-m.json"), encoding="utf-8") as f:
        rows = [bar["row"] for bar in json.load(f)["bars"] if bar["quantity"] == "migration_barrier"]
    run("in.neb", tmp_path, images=7, model=os.path.join(ROOT, "models", "copper-m.yaml"))
    last = (tmp_path / "log.lammps").read_text(encoding="utf-8").split("\n")[-2].split()
    forward, backward, path = float(last[6]), float(last[7]), np.array(last[9:], float)
    assert forward == pytest.approx(backward, abs=1e-4)
    assert forward == pytest.approx(rows[0]["value"], abs=0.005)
    assert path[0::2] == pytest.approx(1 - path[0::2][::-1], abs=0.005), "distances along the path"
    assert sorted(p.name for p in tmp_path.glob("neb.*.dump")) == [f"neb.{k:02d}.dump" for k in range(1, 8)]


def test_coexistence(tmp_path):
    """The temperature of two phases is that of the trace; a phase that is gone is an error without a result."""
    small = {"model": os.path.join(ROOT, "models", "aluminium-m.yaml"), "n": 3, "nz": 8, "steps": 1500}
    output = run("in.coexistence", tmp_path, **small)
    found = number(r"melting point (\S+) \+-", output)
    trace = np.loadtxt(tmp_path / "temperature.txt")
    assert len(trace) == 50 and found == pytest.approx(trace[25:, 1].mean(), abs=1.5) and 600 < found < 1200
    assert number(r"displacement (\S+) A", output) < 2 < number(r"crystal, (\S+) A", output)
    (tmp_path / "coexistence.txt").unlink()
    output = run("in.coexistence", tmp_path, check=False, guess=2000, **small)
    assert "ERROR: the crystal is gone at" in output and not (tmp_path / "coexistence.txt").exists(), output[-500:]


def test_viscosity(tmp_path):
    """The integral of the correlation functions that are written, the correction for the size, means and errors."""
    model = os.path.join(ROOT, "models", "water-mbpol-xs.yaml")
    output = run("in.viscosity", tmp_path, model=model, folder=DECKS, steps=800, blocks=2, length=0.25)
    found = re.findall(r"^block \d: (\S+) mPa s, \S+ with half of the length, diffusion (\S+)e-9", output, re.M)
    eta, diffusion = np.array(found, float).T
    text = (tmp_path / "correlation.txt").read_text(encoding="ascii")
    rows = [line.split() for line in text[text.index("\n800 41\n") :].splitlines()[2:]]
    stress = np.array(rows, float)[:, 3:8].mean(1)
    volume = 12.417126704414091**3
    integral = 0.0025 * (stress[1:-1].sum() + (stress[0] + stress[-1]) / 2)  # bar^2 ps
    assert len(stress) == 41 and stress[0] > 0
    assert eta[-1] == pytest.approx(integral * 1e10 * 1e-12 * volume * 1e-30 / (1.380649e-23 * 300) * 1e3, abs=2e-3)
    text = (tmp_path / "viscosity.txt").read_text(encoding="ascii")
    assert number(r"viscosity (\S+) \+-", text) == pytest.approx(eta.mean(), abs=2e-3)
    d, shift = number(r"diffusion (\S+) \+-", text), number(r"and (\S+) for the size", text)
    assert d == pytest.approx(diffusion.mean(), abs=0.02)
    assert number(r"of the box: (\S+)e-9", text) == pytest.approx(d + shift, abs=0.02)
    size = 2.837297 * 1.380649e-23 * 300 / (6 * np.pi * eta.mean() * 1e-3 * volume ** (1 / 3) * 1e-10) * 1e9
    assert shift == pytest.approx(size, rel=0.02, abs=0.01)
