"""The cases of the benchmark suite: system, size, protocol, potential and ranks, and the variables of their decks."""

import dataclasses
import fnmatch
import functools
import os
import sys

from .. import FILES
from ..model import modelfile
from ..model.lammps import LammpsError, variable

MODELS = os.path.join(FILES, "models")
SIZES = ("small", "medium", "large")
PROTOCOLS = ("nve", "nvt", "npt")
# System: atoms per size, atoms of the unit that is copied for other sizes, elements, reference potentials with their
# rough cost (us per atom and step, for the estimate of time only). The same as the table of in.bench.
SYSTEMS = {
    "water": ((63, 192, 768), 63, "H O", {}),
    "benzene_gas": ((48, 192, 768), 12, "C H", {"airebo": 25}),
    "benzene": ((48, 192, 768), 48, "C H", {"airebo": 25}),
    "silicon": ((64, 216, 512), 8, "Si", {"sw": 0.6, "snap": 60}),
    "gaas": ((64, 216, 512), 8, "Ga As", {}),
    "nacl": ((64, 216, 512), 8, "Na Cl", {}),
    "aluminium": ((32, 256, 864), 4, "Al", {"eam": 1}),
    "copper": ((32, 256, 864), 4, "Cu", {"eam": 1}),
    "iron": ((54, 250, 1024), 2, "Fe", {"eam": 1}),
    "tantalum": ((54, 250, 1024), 2, "Ta", {"snap": 55, "pod": 25}),
}
# System: what `--model teacher` and `--model student` stand for, names of model files in models/
ROLES = {
    "teacher": {
        **dict.fromkeys(("water", "benzene_gas", "benzene"), "ani-2x"),
        **dict.fromkeys(("silicon", "aluminium", "copper", "iron"), "nequix-oam-1-pft"),
        **dict.fromkeys(("gaas", "nacl"), "tensornet-matpes-r2scan"),
    },
    "student": {
        "water": "water-xs",
        "benzene_gas": "water-benzene-student",
        "benzene": "organics-s",
        "silicon": "silicon-m",
        "gaas": "gaas-r2scan-m",
        "aluminium": "aluminium-m",
        "copper": "copper-m",
        "iron": "iron-m",
    },
}
# what a model runs that knows all their elements
MATERIALS = ("benzene", "silicon", "gaas", "nacl", "aluminium", "copper", "iron")
MLFF_COST = {
    "nequip": 400,
    "mace": 500,
    "tensornet": 100,
    "orb": 3000,
    "ani": 60,
}  # us per atom and step of an architecture, else 12; for the estimate of time only


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of a deck. `model` is a path, or None for a reference potential; `copies` replaces the size."""

    system: str
    size: str
    protocol: str
    potential: str
    model: str = None
    ranks: int = 1
    threads: int = 1
    copies: tuple = None
    deck: str = "in.bench"
    side: str = ""  # "A" or "B" of --against
    temperature: float = None  # K, instead of the deck's

    @property
    def n_atoms(self):
        atoms, unit = SYSTEMS[self.system][:2]
        if self.copies:
            return unit * self.copies[0] * self.copies[1] * self.copies[2]
        return atoms[SIZES.index(self.size)]

    @property
    def potential_name(self):
        """What stands for the potential in file names: the model's name or the pair style."""
        return clean(os.path.splitext(os.path.basename(self.model))[0]) if self.model else self.potential

    @property
    def work(self):
        """Name without the potential: cases of equal work are compared with each other."""
        size = f"{self.n_atoms}" if self.copies else self.size
        name = (
            f"replicas-{size}-{self.protocol}"
            if self.deck == "in.replicas"
            else f"{self.system}-{size}-{self.protocol}"
        )
        name += f"-{self.temperature:g}K" if self.temperature else ""
        return name + (f"-r{self.ranks}" if self.ranks > 1 else "") + (f"-t{self.threads}" if self.threads > 1 else "")

    @property
    def name(self):
        return f"{self.work}-{self.potential_name}" + (f"-{self.side}" if self.side else "")

    @property
    def cost(self):
        """Rough microseconds per step, for the estimate of time only."""
        if self.model:
            each = MLFF_COST.get(header(self.model).get("architecture"), 12)
        else:
            each = SYSTEMS[self.system][3][self.potential]
        return self.n_atoms * each / self.ranks

    @property
    def random(self):
        """The note in the model file if the weights are random, else None. Such a model is only timed, with atoms at
        rest."""
        return random_weights(self.model) if self.model else None

    def variables(self):
        """The variables of the deck."""
        values = {"potential": self.potential, "protocol": self.protocol}
        if self.deck == "in.bench":
            values.update(system=self.system, size=self.size)
        if self.copies:
            values.update(zip(("nx", "ny", "nz"), self.copies))
        if self.model:
            values["model"] = variable(self.model)
        if self.random:
            values["frozen"] = next(iter(SYSTEMS[self.system][3]), "yes")
        if self.temperature:
            values["temperature"] = self.temperature
        return values


@functools.cache
def header(model):
    """The model file's YAML."""
    return modelfile.load_yaml(model)


def random_weights(model):
    """The description of a model that was trained on nothing, whose labels are `none: ...`; None of any other."""
    provenance = header(model).get("provenance")
    labels = provenance.get("labels") if isinstance(provenance, dict) else None
    return header(model).get("description") or labels if str(labels).startswith("none:") else None


def student(system):
    """Path of the student of a system in models/, there or not."""
    return os.path.join(MODELS, f"{ROLES['student'][system]}.yaml")


def model_of(system, model):
    """Path of the model that runs a system: the one given if the suite runs the system with it, or for a role of ROLES
    that of the system, there or not; None where there is none."""
    if model in ROLES:
        name = ROLES[model].get(system)
        return name and os.path.join(MODELS, f"{name}.yaml")
    return model if model and covered(system, model) else None


def check_that_it_exists(path, system):
    """LammpsError for a model of ROLES that is not there, with the way to get it."""
    if not os.path.exists(path):
        name = os.path.splitext(os.path.basename(path))[0]
        raise LammpsError(f"{system} needs {path}, which does not exist: {how_to_get(name)}, or leave {system} out")


def how_to_get(name):
    """What makes a model that is not shipped."""
    if name == "ani-2x":
        return "convert it with `mlff convert ani ani-2x.yaml -o models/ani-2x` (docs/teachers/ani-2x.md)"
    if name == "orb-v2":
        return "convert it with `mlff convert orb CHECKPOINT -o models/orb-v2` (docs/teachers/orb-v2.md)"
    if os.path.exists(os.path.join(MODELS, "recipes", f"{name}.yaml")):
        return f"make it with `mlff distill models/recipes/{name}.yaml`"
    return "take it from the source of this release"


def why_missing(name):
    """Why a model has no row: it is not there, or no case ran it."""
    return "its case did not run" if os.path.exists(os.path.join(MODELS, f"{name}.yaml")) else how_to_get(name)


def covered(system, model):
    """Whether the suite runs a system with this model. Universal ones run MATERIALS; others the systems that they are
    named for in ROLES, and those of which they know the elements, but liquid benzene."""
    known, needed = set(header(model).get("elements") or ()), {s: set(SYSTEMS[s][2].split()) for s in SYSTEMS}
    if all(needed[s] <= known for s in MATERIALS):
        return system in MATERIALS
    name = os.path.splitext(os.path.basename(model))[0]
    trained = [s for role in ROLES.values() for s in role if role[s] == name]
    return system in trained or needed[system] <= known and system != "benzene"


def clean(name):
    """A name as it is written in file names of reports: orb-v2 -> orb_v2."""
    return "".join(c if c.isalnum() else "_" for c in name)


def copies_for(system, wanted):
    """Copies (nx, ny, nz) of the system's unit with the number of atoms nearest to `wanted`: halves and doubles, so
    that boxes stay compact. Two copies along each axis at least for crystals, which would be thinner than a cutoff."""
    unit, crystal = SYSTEMS[system][1], system not in ("water", "benzene", "benzene_gas")
    best = None
    for power in range(12):
        copies = [2 ** ((power + 2 - axis) // 3) for axis in range(3)]
        if crystal:
            copies = [max(2, c) for c in sorted(copies)]
        n = unit * copies[0] * copies[1] * copies[2]
        if best is None or abs(n - wanted) < abs(best[0] - wanted):
            best = (n, tuple(copies))
    return best[1]


def protocols_of(system):
    return PROTOCOLS[:2] if system == "benzene_gas" else PROTOCOLS


def full(model):
    """All of the suite for one model (path, role or None): the systems that it runs, and reference potentials."""
    cases = []
    for system, (_, _, _, references) in SYSTEMS.items():
        fast, shipped = [p for p, cost in references.items() if cost < 10], model_of(system, model)
        for size in SIZES:
            for protocol in protocols_of(system):
                if shipped:
                    cases.append(Case(system, size, protocol, "mlff", shipped))
                cases += [Case(system, size, protocol, p) for p in fast]
    cases += [Case("benzene", size, "nvt", "airebo") for size in SIZES[:2]]
    cases += [Case("tantalum", "small", "nvt", "snap"), Case("tantalum", "small", "nvt", "pod")]
    gas = model_of("benzene_gas", model)
    if gas and not (os.path.exists(gas) and random_weights(gas)):  # replicas move
        cases += [
            Case("benzene_gas", "small", "nvt", "mlff", gas, copies=c, deck="in.replicas")
            for c in ((1, 1, 1), (2, 2, 1), (2, 2, 2), (4, 2, 2))
        ]
    return cases


def quick(model):
    """A small part, for CI: seconds per round."""
    cases = [Case("silicon", "small", "nve", "sw"), Case("aluminium", "small", "nvt", "eam")]
    work_list = [("water", "small", "nvt"), ("water", "medium", "nvt"), ("water", "small", "nve")]
    work_list += [(s, "small", "nve") for s in ("benzene_gas", *MATERIALS)]
    return cases + [Case(*work, "mlff", model_of(work[0], model)) for work in work_list if model_of(work[0], model)]


def targets(model):
    """The suite of students, their teachers in the cases that students and teachers are compared by, and Orb-v2, whose
    cost is a target."""
    teachers = [Case(s, "small", "nvt", "mlff", model_of(s, "teacher")) for s in ROLES["teacher"]]
    teachers.append(Case("silicon", "small", "nvt", "mlff", os.path.join(MODELS, "orb-v2.yaml")))
    return full(model) + [c for c in teachers if os.path.exists(c.model)]  # goals.py names what is missing


SUITES = {"full": full, "quick": quick, "targets": targets}


def chosen(args):
    """The cases that the command line asks for, each model in turn; LammpsError when there is none."""
    explicit = args.potential not in (None, "auto")
    models = args.models if args.potential in (None, "auto", "mlff") else []
    cases = []
    if args.system_sizes:
        for system in args.systems or ["water"]:
            for n in args.system_sizes:
                copies = copies_for(system, n)
                made = SYSTEMS[system][1] * copies[0] * copies[1] * copies[2]
                if made != n:
                    print(f"mlff bench: {system} has {made} atoms for --system-sizes {n}", file=sys.stderr)
                for protocol in args.protocols or ["nvt"]:
                    cases += _of(system, "small", protocol, args, models, copies)
    elif explicit:
        for system in args.systems or ["water"]:
            for size in args.sizes or SIZES:
                for protocol in args.protocols or protocols_of(system):
                    cases += _of(system, size, protocol, args, models, None)
    else:
        for k, model in enumerate(models or [None]):
            suite = SUITES[args.suite](model)
            cases += [c for c in suite if c.model or k == 0]
    cases = [c for c in cases if _wanted(c, args)]
    cases = [dataclasses.replace(c, ranks=r, threads=t) for c in cases for r in args.ranks for t in args.threads]
    cases = [dataclasses.replace(c, temperature=t) for c in cases for t in args.temperatures or [None]]
    unique = list(dict.fromkeys(cases))
    for case in unique:
        if case.model:
            check_that_it_exists(case.model, case.system)
    if not unique:
        raise LammpsError("no case fits this choice; `mlff bench --list` shows all names")
    return unique


def _of(system, size, protocol, args, models, copies):
    """Cases of one system, size and protocol with the wanted potential."""
    references = SYSTEMS[system][3]
    if args.potential in (None, "auto", "mlff"):
        chosen = [m if args.potential == "mlff" and m not in ROLES else model_of(system, m) for m in models]
        if any(chosen):
            return [Case(system, size, protocol, "mlff", m, copies=copies) for m in chosen if m]
    if args.potential in references:
        return [Case(system, size, protocol, args.potential, copies=copies)]
    if args.potential in (None, "auto") and references:
        return [Case(system, size, protocol, next(iter(references)), copies=copies)]
    if args.potential in (None, "auto", "mlff"):
        tried = [f"{m} ({ROLES[m].get(system, 'none')})" if m in ROLES else m for m in models]
        raise LammpsError(f"{system}: no model runs it of {', '.join(tried)}: give another one with --model")
    raise LammpsError(f"--potential {args.potential}: for {system} there is {', '.join(['mlff', *references])}")


def _wanted(case, args):
    if args.systems and case.system not in args.systems or args.protocols and case.protocol not in args.protocols:
        return False
    if args.sizes and not case.copies and case.size not in args.sizes:
        return False
    return not args.names or any(fnmatch.fnmatch(case.name, n) or fnmatch.fnmatch(case.work, n) for n in args.names)
