"""Common parts of the LAMMPS tests: water boxes, decks, running `lmp` on several ranks, reading its output.

A deck is made of cases. Each case starts with CLEAR, and ends with a single point whose energy, pressure tensor,
forces and per-atom quantities are written with all digits. Several cases run in one LAMMPS, since starting processes
is what costs time here.

From the environment: MLFF_PLUGIN, the plugin to test; MLFF_LMP, an `lmp` to use instead of the one of this Python.
"""

import atexit
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.dirname(sys.executable)
LMP = os.environ.get("MLFF_LMP", os.path.join(BIN, "lmp"))
MPIEXEC = os.environ.get("MLFF_MPIEXEC", os.path.join(BIN, "mpiexec"))
PLUGIN = os.environ.get("MLFF_PLUGIN", "")
# A new start within a deck. LAMMPS 29Aug2024 unloads plugins at `clear`; newer ones keep them and ignore the second
# load.
CLEAR = f"clear\nplugin load {os.path.abspath(PLUGIN)}\n"
TIMEOUT = 900  # seconds of one LAMMPS; minutes only where many share few cores
MASSES = {
    "H": 1.008,
    "C": 12.011,
    "O": 15.999,
    "Na": 22.99,
    "Al": 26.982,
    "Si": 28.085,
    "Cl": 35.45,
    "Ar": 39.95,
    "Fe": 55.845,
}


def with_libraries(**extra):
    """The environment for a Python that loads LAMMPS as a library, with the MPI of the Python package."""
    folders = [os.path.join(sys.prefix, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(x for x in folders if x), **extra}


class Failed(Exception):
    """LAMMPS ended with an error; the text is its output."""


# ---- systems --------------------------------------------------------------------------------------------------------


class System:
    """types [n] from 1, x [n, 3], box [3] (lower corner 0), tilt (xy, xz, yz), molecule [n]."""

    def __init__(self, types, x, box, tilt=(0.0, 0.0, 0.0), molecule=None, elements=("O", "H")):
        self.types, self.x, self.box = np.asarray(types), np.asarray(x, float), np.asarray(box, float)
        self.tilt, self.elements = tilt, list(elements)
        self.molecule = np.asarray(molecule if molecule is not None else np.ones(len(self.types)), int)

    @property
    def cell(self):
        xy, xz, yz = self.tilt
        return np.array([[self.box[0], 0, 0], [xy, self.box[1], 0], [xz, yz, self.box[2]]])

    @property
    def symbols(self):
        return [self.elements[t - 1] for t in self.types]

    def only(self, types):
        """The atoms of some types, same box."""
        keep = np.isin(self.types, types)
        return System(self.types[keep], self.x[keep], self.box, self.tilt, self.molecule[keep], self.elements)

    def data(self, style="atomic", bonds=False):
        """Text of a data file."""
        line = {
            "atomic": "{id} {type} {xyz}",
            "charge": "{id} {type} 0.0 {xyz}",
            "molecular": "{id} {mol} {type} {xyz}",
            "full": "{id} {mol} {type} 0.0 {xyz}",
        }[style]
        text = ["water", "", f"{len(self.types)} atoms", f"{len(self.elements)} atom types"]
        pairs = [(i + 1, i + k + 1) for i in np.nonzero(self.types == 1)[0] for k in (1, 2)] if bonds else []
        if bonds:
            text += [f"{len(pairs)} bonds", "1 bond types", "2 extra bond per atom", "4 extra special per atom"]
        for k, axis in enumerate("xyz"):
            text.append(f"0.0 {self.box[k]:.17g} {axis}lo {axis}hi")
        if any(self.tilt):
            text.append("{:.17g} {:.17g} {:.17g} xy xz yz".format(*self.tilt))
        text += ["", "Masses", ""] + [f"{t + 1} {MASSES[e]}" for t, e in enumerate(self.elements)]
        text += ["", f"Atoms # {style}", ""]
        for k, (t, r, m) in enumerate(zip(self.types, self.x, self.molecule)):
            text.append(line.format(id=k + 1, type=t, mol=m, xyz="{:.17g} {:.17g} {:.17g}".format(*r)))
        if pairs:
            text += ["", "Bonds", ""] + [f"{k + 1} 1 {i} {j}" for k, (i, j) in enumerate(pairs)]
        return "\n".join(text) + "\n"


def water(n, spacing=3.1, seed=5, tilt=(0.0, 0.0, 0.0)):
    """nx x ny x nz molecules of water on a grid, randomly rotated; oxygen is type 1, hydrogen 2."""
    rng = np.random.default_rng(seed)
    n = (n, n, n) if np.isscalar(n) else n
    shape = np.array([[0.0, 0.0, 0.0], [0.9572, 0.0, 0.0], [-0.24, 0.9266, 0.0]])
    box = np.array(n) * spacing
    x, molecule = [], []
    for k, corner in enumerate(itertools.product(*map(range, n))):
        q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        x.append((np.array(corner) + 0.5) * spacing + shape @ q + 0.05 * rng.standard_normal((3, 3)))
        molecule += [k + 1] * 3
    system = System([1, 2, 2] * len(x), np.concatenate(x), box, tilt, molecule)
    system.x = (system.x / box) @ system.cell
    return system


def crystal(n=2):
    """Perfect diamond: the 20th neighbor is in a shell of 12 at the same distance."""
    unit = np.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0], [1, 1, 1], [1, 3, 3], [3, 1, 3], [3, 3, 1]]) * 5.43 / 4
    corners = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3) * 5.43
    x = (unit[None] + corners[:, None] + 0.4).reshape(-1, 3)
    return System(np.ones(len(x), int), x, [5.43 * n] * 3)


# ---- decks ----------------------------------------------------------------------------------------------------------

# Models without per-atom energies and stress get zeros in these columns.
PER_ATOM = "compute pe_{name} all pe/atom\ncompute stress_{name} all stress/atom NULL virial\n"
NO_PER_ATOM = "variable zero_{name} atom 0.0\n"
SINGLE_POINT = """
{per_atom}compute press_{name} all pressure NULL virial
{more}
thermo_style custom step pe c_press_{name}[*] atoms
thermo_modify format float %.16e
run 0 post no
write_dump all custom {name}.dump id type x y z fx fy fz {atom_columns} {columns} &
  modify sort id format float %.17g
print "RESULT {name} $(pe:%.17g) $(c_press_{name}[1]:%.17g) $(c_press_{name}[2]:%.17g) $(c_press_{name}[3]:%.17g) &
 $(c_press_{name}[4]:%.17g) $(c_press_{name}[5]:%.17g) $(c_press_{name}[6]:%.17g) $(vol:%.17g)"
"""


class Result:
    """energy, pressure [6], volume; per atom in order of the IDs: x, f [n, 3], eatom [n], stress [n, 6], extra [n,
    m]."""

    def __init__(self, numbers, dump):
        self.energy, self.pressure, self.volume = numbers[0], np.array(numbers[1:7]), numbers[7]
        self.id, self.types = dump[:, 0].astype(int), dump[:, 1].astype(int)
        self.x, self.f, self.eatom, self.stress, self.extra = (
            dump[:, 2:5],
            dump[:, 5:8],
            dump[:, 8],
            dump[:, 9:15],
            dump[:, 15:],
        )


def read_dump(path):
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("ITEM: ATOMS"))
    rows = [[float(word) for word in line.split()] for line in lines[first + 1 :]]
    return np.array(rows) if rows else np.zeros((0, len(lines[first].split()) - 2))


class Case:
    """One single point. `pair` are the lines of pair_style and pair_coeff, `before` and `after` lines around them."""

    def __init__(
        self,
        name,
        system,
        pair,
        units="metal",
        style="atomic",
        newton="on",
        boundary="p p p",
        before="",
        after="",
        columns="",
        more="",
        bonds=False,
        per_atom=True,
    ):
        self.name, self.system, self.pair, self.units, self.style, self.newton = (
            name,
            system,
            pair,
            units,
            style,
            newton,
        )
        self.boundary, self.before, self.after, self.columns, self.more = boundary, before, after, columns, more
        self.bonds, self.per_atom = bonds, per_atom

    def text(self, folder, single_point=True):
        data = f"{self.name}.data"
        with open(os.path.join(folder, data), "w", encoding="utf-8") as f:
            f.write(self.system.data(self.style, self.bonds))
        bond_style = "bond_style zero\n" if self.bonds else ""
        more = "bond_coeff *\n" if self.bonds else ""
        lines = (
            f"{CLEAR}units {self.units}\natom_style {self.style}\nnewton {self.newton}\nboundary {self.boundary}\n"
            f"{bond_style}{self.before}\nread_data {data}\n{more}{self.pair}\n{self.after}\n"
        )
        if single_point:
            columns = "c_pe_{name} c_stress_{name}[*]" if self.per_atom else " ".join(["v_zero_{name}"] * 7)
            per_atom = (PER_ATOM if self.per_atom else NO_PER_ATOM).format(name=self.name)
            lines += SINGLE_POINT.format(
                name=self.name,
                columns=self.columns,
                more=self.more,
                per_atom=per_atom,
                atom_columns=columns.format(name=self.name),
            )
        return lines


def mlff(model, elements="O H", options="", style="mlff"):
    """pair_style and pair_coeff for a plain run."""
    return f"pair_style {style} {options}\npair_coeff * * {model} {elements}"


# ---- running --------------------------------------------------------------------------------------------------------


@functools.cache
def preload(name):
    """The variable that preloads NAME.c of this folder into LAMMPS, after the libraries of AddressSanitizer."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    library, source = os.path.join(folder, f"{name}.so"), os.path.join(HERE, f"{name}.c")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return {"LD_PRELOAD": " ".join([*os.environ.get("MLFF_PRELOAD", "").split(), library])}


def cpu_clock():
    """Variables that make times those of the processor (cpu_clock.c), so that other programs do not change them."""
    return preload("cpu_clock")


# Writes the output of each rank to a file of its own: mpiexec may lose the last lines of ranks that abort.
BY_RANK = ["sh", "-c", 'exec "$0" "$@" > "output.${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}" 2>&1']


def output_by_rank(folder):
    names = sorted(name for name in os.listdir(folder) if name.startswith("output."))
    texts = []
    for name in names:
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8", errors="replace") as f:
            texts.append(f.read())
        os.remove(path)
    return "".join(texts)


def launch(deck, folder, ranks=1, arguments=(), load=True, check=True, env=None, by_rank=False):
    """Runs a deck in `folder` and returns the output of LAMMPS, by_rank: rank after rank. Raises Failed after an
    error."""
    if not os.path.exists(PLUGIN):
        raise RuntimeError(f"MLFF_PLUGIN='{PLUGIN}' is not there: set it to mlffplugin.so")
    with open(os.path.join(folder, "in.test"), "w", encoding="utf-8") as f:
        f.write((f"plugin load {PLUGIN}\n" if load else "") + deck)
    command = [LMP, "-in", "in.test", "-nocite", "-log", "log.lammps", *arguments]
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), *(BY_RANK if by_rank else []), *command]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, **(env or {})},
    )
    output = (output_by_rank(folder) if by_rank and ranks > 1 else "") + done.stdout.decode("utf-8", "replace")
    if check and (done.returncode or re.search("^ERROR", output, re.M)):  # MPI libraries have ERRORs of their own
        raise Failed(output[-4000:])
    return output


def run(cases, folder, ranks=1, arguments=()):
    """name -> Result of every case."""
    folder = str(folder)
    output = launch("\n".join(case.text(folder) for case in cases), folder, ranks, arguments)
    results = {}
    for line in re.findall(r"^RESULT (.*)$", output, re.M):
        name, *numbers = line.split()
        results[name] = Result([float(x) for x in numbers], read_dump(os.path.join(folder, name + ".dump")))
    missing = [case.name for case in cases if case.name not in results]
    if missing:
        raise Failed(f"no result of {missing}\n{output[-4000:]}")
    return results


def fails(deck, folder, ranks=1, **options):
    """Runs a deck that must end with an error, and returns its text."""
    output = launch(deck, str(folder), ranks, check=False, by_rank=True, **options)
    wanted = re.compile(r"^ERROR.*?(?=^Last (?:input|command)|\Z)", re.M | re.S)
    error = wanted.search(output)
    assert error, f"no error came from this deck:\n{output[-3000:]}"
    return error.group(0)


# ---- comparing ------------------------------------------------------------------------------------------------------


def close(a, b, tolerance, what):
    """|a - b| <= tolerance everywhere; NaN fails. Names the first bad index and both values."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}"
    bad = ~(np.abs(a - b) <= tolerance)
    if bad.any():
        k = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))
        av, bv = np.atleast_1d(a)[k], np.atleast_1d(b)[k]
        raise AssertionError(
            f"{what}{list(k)}: {av:.12g} against {bv:.12g}, difference {abs(av - bv):.3g} > {tolerance:g}"
        )


def same(a, b, tolerance, what, pressure=None):
    """Two results agree: energies, forces, per-atom energies to `tolerance`, stress to `pressure` (tolerance * 1e6)."""
    pressure = tolerance * 1.0e6 if pressure is None else pressure
    close(a.energy, b.energy, tolerance * max(1, len(a.f)), f"{what}: energy")
    close(a.f, b.f, tolerance, f"{what}: force")
    close(a.eatom, b.eatom, tolerance, f"{what}: energy of atom")
    close(a.pressure, b.pressure, pressure, f"{what}: pressure")
    close(a.stress, b.stress, pressure * a.volume / max(1, len(a.f)), f"{what}: stress of atom")
