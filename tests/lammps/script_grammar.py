"""LAMMPS scripts at random, valid and not, around pair_style mlff: script(seed) -> (ranks, lines).

A script makes a small box, chooses a force field of models.py, and then does what may come between runs in any order.
Most of it is valid; some scripts are mutilated at the end. Files are called out.*; script_worker.py says what WATCH is.
The same seed gives the same script.
"""

import itertools
import random

from script_commands import Commands
from script_worker import WATCH

MASSES = (15.999, 1.008, 39.95)
ELEMENTS = ("O", "H")
MODELS = {
    "painn": 8, "local": 4, "ani": 6, "gaussian": 2, "nequix": 2, "sevennet": 1, "nequip": 1, "orb": 3, "repelling": 2,
    "repelling_orb": 1, "mace": 2, "mace_mpa": 2, "mace_mh": 2, "tensornet": 2, "local_tensornet": 1,
}  # fmt: skip
RANKS = (1, 1, 1, 1, 1, 1, 2, 2, 2, 3)
TIMESTEPS = {"metal": 0.0002, "real": 0.2}


def ranks_of(seed):
    return random.Random(seed).choice(RANKS)


def script(seed):
    maker = Maker(seed)
    lines = maker.make()
    rng = random.Random(f"mutilate {seed}")
    if rng.random() < 0.15:
        lines = mutilate(rng, lines, maker.first_action)
    tame(lines)
    return ranks_of(seed), lines


def mutilate(rng, lines, first):
    """Takes a line away, says it twice or elsewhere, or spoils a word."""
    lines = list(lines)
    for _ in range(rng.randint(1, 2)):
        k = rng.randrange(first) if rng.random() < 0.5 else rng.randrange(len(lines))
        line, kind = lines[k], rng.randrange(4)
        if line == WATCH or "single" in line:
            continue
        words = line.split()
        if kind == 0:
            del lines[k]
        elif kind == 1:
            lines.insert(rng.randrange(len(lines)), line)
        elif kind == 2:
            lines.insert(rng.randrange(len(lines)), lines.pop(k))
        elif len(words) > 1:
            # 1e30 for an energy of lj/cut would leave forces that are rounding errors alone
            huge = "1e9" if "lj/cut" in words else "1e30"
            words[rng.randrange(1, len(words))] = rng.choice(["", "0", "-1", huge, "all", "NULL", "x y"])
            lines[k] = " ".join(words)
        if not lines:
            return [line]
    return lines


NOT_READY = ("clear", "read_restart", "run_style", "dump ", "unfix", "balance", "pair_modify")


def tame(lines):
    """Takes `pre no` away where LAMMPS (22Jul2025) fails with any pair style: where no run has come before, but perhaps
    a minimisation, it computes no forces; after a new dump its error is that of rank 0, and the others wait; after
    unfix, balance and `neighbor multi` it uses what is gone. And `pair_modify compute` is heard at set-ups."""
    ready = False
    for k, line in enumerate(lines):
        if line.startswith(NOT_READY) or line.startswith("neighbor") and "multi" in line:
            ready = False
        if not ready:
            lines[k] = line.replace(" pre no", "")
        ready = ready or line.startswith(("run ", "rerun "))


class Maker(Commands):
    def __init__(self, seed):
        self.rng = random.Random(f"script {seed}")
        self.lines, self.names, self.first_action = [], itertools.count(1), 0
        self.runs = self.has_dump = False
        self.fixes = []

    def add(self, *lines):
        self.lines += lines

    def pick(self, *values):
        return self.rng.choice(values)

    def chance(self, p):
        return self.rng.random() < p

    def number(self, low, high):
        return f"{self.rng.uniform(low, high):.4g}"

    def seed(self):
        return self.rng.randrange(1, 100000)

    def weighted(self, table):
        return self.rng.choices(list(table), list(table.values()))[0]

    def make(self):
        self.system()
        self.first_action = len(self.lines)
        for _ in range(self.rng.randint(2, 8)):
            getattr(self, self.weighted(ACTIONS))()
        self.run()
        return self.lines

    # ---- box and atoms ----------------------------------------------------------------------------------------------

    def system(self):
        """From nothing, or after `clear`, to a force field that is watched."""
        self.runs, self.has_dump, self.fixes, self.respa = False, False, [], False
        self.header()
        self.box()
        for t in range(self.n_types):
            self.add(f"mass {t + 1} {MASSES[t]}")
        self.atoms()
        self.add("group some id 1:3", "group one type 1")
        self.force_field()
        self.add(WATCH)
        self.add(f"thermo {self.pick(1, 1, 1, 3, 10)}", f"timestep {TIMESTEPS[self.units]}")
        self.add("variable one atom 1+id%2")
        if self.chance(0.3):  # no energies: LAMMPS accepts more before `run N pre no`
            self.add("thermo_style custom step temp")
        elif self.chance(0.4) and not any("orb" in line for line in self.lines):
            self.add(
                "compute e all pe/atom", "compute sum all reduce sum c_e", "thermo_style custom step pe c_sum press"
            )
        if self.chance(0.7):
            self.integrator()

    def header(self):
        self.units = self.pick("metal", "metal", "metal", "real")
        self.style = self.pick("atomic", "atomic", "atomic", "charge", "molecular", "full")
        self.boundary = self.pick(*["p p p"] * 8, "f f f", "s s s", "m m m", "p p f", "p f p", "f p s", "p s p")
        self.add(f"units {self.units}", f"atom_style {self.style}")
        if self.chance(0.6):
            self.add(f"newton {self.pick('on', 'on', 'off', 'off', 'on off', 'off on')}")
        self.add(f"boundary {self.boundary}")
        if self.chance(0.25):
            self.add(
                f"atom_modify {self.pick('map array', 'map hash', 'map yes', 'sort 0 0.0', 'sort 0 0.0', 'sort 1 2.0')}"
            )
        if self.chance(0.25):
            self.add(f"processors {self.pick('* * 1', '1 * *', '* 1 *', '1 1 *', '* * * grid numa')}")
        self.tiled = self.chance(0.1)
        if self.tiled:
            self.add("comm_style tiled")
        self.omp = self.chance(0.1)
        if self.omp:
            self.add("package omp 1", "suffix omp")

    def box(self):
        self.n_types = self.pick(2, 2, 2, 3)
        self.size = [self.rng.choice([self.rng.uniform(2.4, 4.5), self.rng.uniform(4.0, 9.0)]) for _ in range(3)]
        if self.tiled:  # which wants more than a cutoff
            self.size = [self.rng.uniform(6.5, 10.0) for _ in range(3)]
        self.tilted = self.chance(0.25)
        self.bonded = self.style in ("molecular", "full") and self.chance(0.6)
        low = [self.rng.choice([0.0, 0.0, -1.3]) for _ in range(3)]
        edges = " ".join(f"{a:.6g} {a + s:.6g}" for a, s in zip(low, self.size))
        self.low = low
        if self.tilted:
            factors = [self.rng.uniform(-0.45, 0.45) for _ in range(3)]
            tilt = [factors[0] * self.size[0], factors[1] * self.size[0], factors[2] * self.size[1]]
            # a tilt needs its second direction to be periodic
            words = self.boundary.split()
            tilt = [t if words[d] == "p" else 0.0 for t, d in zip(tilt, (1, 2, 2))]
            self.add(f"region box prism {edges} {' '.join(f'{t:.6g}' for t in tilt)}")
        else:
            self.add(f"region box block {edges}")
        extra = " bond/types 1 extra/bond/per/atom 3 extra/special/per/atom 8" if self.bonded else ""
        self.add(f"create_box {self.n_types} box{extra}")

    def atoms(self):
        """Points that keep a distance in the plain box, at most 24."""
        wanted = min(24, max(1, int(self.size[0] * self.size[1] * self.size[2] * self.rng.uniform(0.02, 0.09))))
        least, points = 1.0, []
        for _ in range(40 * wanted):
            point = [self.rng.uniform(0.02, 0.98) * s for s in self.size]
            if all(self.apart(point, other) > least for other in points):
                points.append(point)
            if len(points) == wanted:
                break
        for point in points:
            t = self.rng.choice((1, 2, 2) if self.n_types == 2 else (1, 2, 2, 3))
            at = " ".join(f"{a + p:.6g}" for a, p in zip(self.low, point))
            self.add(f"create_atoms {t} single {at}")
        self.n = len(points)
        if self.style in ("molecular", "full") and self.chance(0.6):
            for k in range(0, self.n - 2, 3):
                self.add(f"set atom {k + 1}*{k + 3} mol {k // 3 + 1}")
        if self.bonded:
            self.add("bond_style zero", "bond_coeff *")
            for k in range(1, min(self.n, 7), 3):
                self.add(f"create_bonds single/bond 1 {k} {k + 1}")

    def apart(self, a, b):
        d = [(p - q + 0.5 * s) % s - 0.5 * s for p, q, s in zip(a, b, self.size)]
        return sum(x * x for x in d) ** 0.5

    # ---- force field ------------------------------------------------------------------------------------------------

    def force_field(self):
        kind = self.weighted({"plain": 10, "hybrid": 4, "overlay": 4, "scaled": 1, "respa": 2})
        if kind == "scaled" and self.omp:
            kind = "overlay"
        if self.bonded:
            few = self.pick("lj/coul 1 1 1", "lj/coul 1e-50 1 1", "amber") if kind == "plain" else "lj/coul 1 1 1"
            self.add(f"special_bonds {few if self.chance(0.3) else 'lj/coul 1 1 1'}")
        if kind in ("plain", "respa"):
            self.plain(kind == "respa")
        else:
            self.hybrid(kind)

    def options(self):
        words = ["precision fp64"]
        for option, p in (
            ("self_test no", 0.1), ("masses no", 0.1), ("domain ignore", 0.3), ("node_memory no", 0.2),
            ("kernels generic", 0.1), ("domain stop", 0.05), ("device cpu", 0.1),
        ):  # fmt: skip
            if self.chance(p):
                words.append(option)
        return " ".join(words)

    def model(self):
        name = self.weighted(MODELS)
        if "orb" in name and self.boundary not in ("p p p", "f f f") and self.chance(0.9):
            name = "ani"
        return name + ".yaml"

    def elements(self, null=0.0):
        """The elements of all types. Argon has none; others may be NULL."""
        words = [e if not self.chance(null) else "NULL" for e in ELEMENTS]
        if words == ["NULL", "NULL"] and self.chance(0.9):
            words[0] = "O"
        if self.chance(0.03):
            words.reverse()
        return " ".join([*words, "NULL"][: self.n_types])

    def plain(self, respa):
        self.hybrid_names = None
        self.respa = respa
        options = self.options()
        inner = f" inner {self.pick('painn', 'local', 'ani')}.yaml" if respa else ""
        if self.n_types == 3:
            # plain styles need an element for each type
            self.add(f"pair_style mlff {options} masses no domain ignore{inner}")
            self.add(f"pair_coeff * * {self.model()} O H {self.pick('C', 'O', 'O', 'O')}")
        else:
            model = self.model()
            members = " members 0,1" if model == "ani.yaml" and self.chance(0.2) else ""
            self.add(f"pair_style mlff {options}{members}{inner}", f"pair_coeff * * {model} {self.elements()}")
        if respa:
            self.add(f"run_style respa 2 {self.pick(2, 3)} inner 1 {self.pick('0 0', '2.0 3.0')} outer 2")
        elif self.chance(0.05):
            self.add(f"run_style respa 2 2 pair {self.pick(1, 2)}")

    def hybrid(self, kind):
        overlay = kind != "hybrid"
        second = self.pick("zero", "lj/cut", "mlff", "lj/cut", None if overlay else "zero")
        if self.n_types == 3 and second in ("mlff", None):
            second = "zero"
        words = {"zero": "zero 4.0", "lj/cut": "lj/cut 5.0", "mlff": "mlff " + self.options(), None: ""}[second]
        if second == "mlff" and not overlay:
            words += " zero 4.0"
        scale = [self.number(0.2, 1.5) + " " if kind == "scaled" else "" for _ in range(2)]
        style = {"hybrid": "hybrid", "overlay": "hybrid/overlay", "scaled": "hybrid/scaled"}[kind]
        self.hybrid_names = (overlay, second)
        self.add(f"pair_style {style} {scale[0]}mlff {self.options()} {scale[1] if second else ''}{words}")
        self.coefficients()

    def coefficients(self):
        overlay, second = self.hybrid_names
        number = "1 " if second == "mlff" else ""
        first = self.elements()
        if second in ("zero", "lj/cut"):
            self.others(second, overlay)
        if not overlay and self.chance(0.95):
            # each sub-style must have some pairs
            self.add(*["pair_coeff * * zero"] if second == "mlff" else [])
            if self.n_types == 2:
                first = self.pick("O NULL", "NULL H") if second != "mlff" else "O NULL"
        self.add(f"pair_coeff * * mlff {number}{self.model()} {first}")
        if second == "mlff":
            self.add(f"pair_coeff * * mlff 2 {self.model()} {'NULL H' if not overlay else self.elements(0.3)}")
        if self.chance(0.05):
            self.others(second, overlay)

    def others(self, style, overlay):
        """Coefficients of a second style for all pairs, or those with argon."""
        if style not in ("zero", "lj/cut"):
            return
        first = self.n_types if overlay and self.chance(0.5) else 1
        for i in range(1, self.n_types + 1):
            for j in range(max(i, first), self.n_types + 1):
                values = f" {self.number(0.001, 0.02)} {self.number(1.0, 2.2)}" if style == "lj/cut" else ""
                self.add(f"pair_coeff {i} {j} {style}{values}")

    # ---- fixes ------------------------------------------------------------------------------------------------------

    def fix(self, text, group="all"):
        name = f"f{next(self.names)}"
        self.fixes.append(name)
        self.add(f"fix {name} {group} {text}")
        return name

    def integrator(self):
        n = self.seed()
        t = "300 300 " + ("0.05" if self.units == "metal" else "50.0")
        p = self.coupling("0.5" if self.units == "metal" else "500.0")
        kind = self.weighted(
            {"nve": 8, "nvt": 3, "npt": 4, "langevin": 2, "limit": 2, "nph": 1, "rigid": 2, "berendsen": 1, "move": 1}
        )
        if "p" not in self.boundary and kind in ("npt", "nph", "berendsen") or self.tilted and kind == "berendsen":
            kind = "nve" if self.chance(0.9) else kind
        if kind == "rigid":
            molecules = self.style in ("molecular", "full")
            body = self.pick("single", "group 1 some") if not molecules or self.chance(0.3) else "molecule"
            style = (
                "rigid/small"
                if body == "molecule" and self.chance(0.5)
                else self.pick("rigid", "rigid/nve", "rigid/nvt")
            )
            more = f" temp {t}" if style == "rigid/nvt" else ""
            self.fix(f"{style} {body}{more}", "some" if "some" in body else "all")
            return
        texts = {
            "nve": ["nve"], "nvt": [f"nvt temp {t}"], "npt": [f"npt temp {t} {p}"],
            "langevin": ["nve", f"langevin {t} {n}"], "limit": ["nve/limit 0.05"], "nph": [f"nph {p}"],
            "berendsen": ["nve", f"press/berendsen {p}"],
            "move": [f"move linear {self.number(-3, 3)} {self.number(-3, 3)} 0"],
        }[kind]  # fmt: skip
        for text in texts:
            self.fix(text)

    def coupling(self, damp):
        """The barostat keywords for directions that may be coupled, usually."""
        words = self.boundary.split()
        if words == ["p"] * 3:
            return f"{self.pick('iso', 'aniso', 'tri' if self.tilted else 'aniso')} 1 1 {damp}"
        free = [d for d, word in zip("xyz", words) if word == "p"]
        return f"{self.pick(*free)} 1 1 {damp}" if free else f"iso 1 1 {damp}"

    def unfix(self):
        if self.fixes:
            self.add(f"unfix {self.fixes.pop(self.rng.randrange(len(self.fixes)))}")

    # ---- what may come between --------------------------------------------------------------------------------------

    def run(self):
        n = self.pick(0, 0, 1, 2, 5, 10, 20)
        options = [""]
        if self.runs and not self.respa:
            options += [" pre no", " pre no post no"]
        options += [" post no", f" every {max(1, n // 2)} NULL", f' every {max(1, n // 3)} "{self.command()}"']
        options += [f' pre no every {max(1, n // 3)} "{self.command()}"'] if self.runs and not self.respa else []
        self.add(f"run {n}{self.rng.choices(options, [6] + [2] * (len(options) - 1))[0]}")
        self.runs = True

    def command(self):
        """Between the parts of a run."""
        atom = f"set atom {self.rng.randrange(1, self.n + 1)}"
        return self.pick(
            "neigh_modify delay 0", "neigh_modify delay 0", f"{atom} type {self.pick(1, 2)}",
            f"velocity all create 3000 {self.seed()} loop geom",
            f"{atom} x {self.number(0, 4)}", f"displace_atoms all move {self.number(-3, 3)} 0 0", "comm_style tiled",
            f"change_box all x scale {self.number(0.9, 1.1)} remap", "neighbor 0.2 bin", "comm_modify vel yes",
            f"create_atoms 1 random 1 {self.seed()} NULL overlap 0.8 maxtry 30", "atom_modify sort 1 1.0",
        )  # fmt: skip

    def minimise(self):
        if self.respa and self.chance(0.7):
            return
        if self.chance(0.7):
            self.add(f"min_style {self.pick('cg', 'sd', 'fire', 'quickmin', 'hftn')}")
        self.add(f"minimize {self.pick('0 0', '0 1e-3', '1e-4 1e-2')} {self.pick(1, 3, 8)} {self.pick(10, 30)}")
        self.runs = True

    def rerun(self):
        if not self.has_dump:
            columns = self.pick("id type x y z", "id type x y z ix iy iz", "id type xu yu zu")
            self.add(f"dump d all custom {self.pick(1, 2)} out.dump {columns}", "dump_modify d format float %.17g")
            self.columns, self.has_dump = " ".join(columns.split()[2:5]), True
            return
        self.add(
            "undump d",
            f"rerun out.dump dump {self.columns.replace('u', '')}{self.pick(' box yes', ' box no', '')}"
            f"{' wrapped no' if 'u' in self.columns else ''}{self.pick('', ' replace yes', ' add yes purge yes')}",
        )
        self.has_dump, self.runs = False, True

    def restart(self):
        """By a restart file or a data file, in a new LAMMPS."""
        if self.chance(0.6):
            again, self.lines_before = [], None
            self.add("write_restart out.restart", "clear", "read_restart out.restart")
            style, coefficients = self.force_field_lines()
            again += style if self.chance(0.6) or len(coefficients) != 1 else []
            self.add(*again, *coefficients)
        else:
            nocoeff = self.pick(" nocoeff", " nocoeff", "")
            self.add(f"write_data out.data{nocoeff}", "clear", f"units {self.units}", f"atom_style {self.style}")
            self.add(f"newton {self.pick('on', 'off')}", f"boundary {self.boundary}")
            bonds = ["bond_style zero"] if self.bonded else []
            self.add(*bonds, "read_data out.data", *(["bond_coeff *"] if self.bonded else []))
            style, coefficients = self.force_field_lines()
            self.add(*(["special_bonds lj/coul 1 1 1"] if self.bonded else []), *style, *coefficients)
        self.add(WATCH, f"timestep {TIMESTEPS[self.units]}", "thermo 1")
        self.fixes, self.runs, self.has_dump = [], False, False
        if self.chance(0.7):
            self.integrator()

    def force_field_lines(self):
        """The last pair_style and the pair_coeff after it."""
        at = max(k for k, line in enumerate(self.lines) if line.startswith("pair_style"))
        return [self.lines[at]], [line for line in self.lines[at:] if line.startswith("pair_coeff")]

    def again(self):
        """Other models, or another force field."""
        if self.chance(0.3):
            self.force_field()
        elif self.hybrid_names:
            self.coefficients()
        else:
            self.add(f"pair_coeff * * {self.model()} {self.elements(0.05)}")

    def clear(self):
        self.add("clear")
        self.system()


ACTIONS = {
    "run": 10, "minimise": 3, "rerun": 3, "restart": 2, "again": 2, "clear": 1, "change_atoms": 7, "change_box": 4,
    "neighbors": 9, "other_fix": 7, "monte_carlo": 4, "by_variable": 1, "late_exclusion": 1, "bonds": 2,
    "continued": 4, "files_between": 2, "integrator": 2, "unfix": 2, "others_between": 2,
}  # fmt: skip
