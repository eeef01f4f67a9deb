"""The parts of the speed comparison: which cases are timed together, and which ratios they give.

A part is a function of the context that returns a Part, or raises Skip with the reason when something that it needs is
not there.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import yaml

from mlff_tools.model.lammps import LammpsError

from . import ROOT, models, systems
from .cases import LammpsCase, TorchCase, TorchProgram, TwoRuns

# Edges of the water boxes, in molecules, by number of atoms.
WATER = {192: 4, 648: 6, 3000: 10}
# Names of the project's models of water, without their role, best first.
OWN_MODELS = ("water-painn", "water-benzene")
# Largest differences between a PyTorch program and LAMMPS, both in single precision: eV/atom, and share of the largest
# force.
ENERGY_AGREES, FORCES_AGREE = 1.0e-5, 1.0e-3


class Skip(Exception):
    """Why a part cannot run here."""


@dataclass
class Ratio:
    """How many times cheaper `ours` is than the fastest of `theirs`; `value` is what is compared, per step or atom."""

    name: str
    theirs: list
    ours: str
    bar: float = None
    aim: float = None
    per_atom: bool = False


@dataclass
class Part:
    title: str
    cases: list
    ratios: list
    facts: dict = field(default_factory=dict)


def mlff_pair(context, model, elements, kernels=None):
    """Commands that set up pair_style mlff. The self-test runs in `make test`, not in every round."""
    options = f" kernels {kernels}" if kernels else ""
    return [
        f"plugin load {context.plugin}",
        f"pair_style mlff self_test no{options}",
        f"pair_coeff * * {model} {elements}",
    ]


def tools(*arguments):
    """Runs a module of mlff_tools in a process of its own."""
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"))
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LammpsError(f"python -m {' '.join(arguments)}:\n{done.stdout[-2000:]}")


def converted(context, kind, name, *options):
    """Model file made from the published parameters `name` of the shared models."""
    source = os.path.join(context.shared, "models", name + ".yaml")
    if not os.path.exists(source):
        raise Skip(f"{source} is not there (--shared names the folder of the published parameters)")
    result = os.path.join(context.work, name)
    tools("mlff_tools.convert", kind, source, *options, "-o", result)
    return result + ".yaml"


def own_model(context, role):
    """(model file, trained) of the project's water model for `role` teacher or student; random weights without one."""
    for name in OWN_MODELS:
        path = os.path.join(ROOT, "models", f"{name}-{role}.yaml")
        if os.path.exists(path):
            return path, True
    random = os.path.join(context.work, f"random-{role}.yaml")
    models.write(random, role)
    return random, False


def own_case(context, role, atoms, ranks=1, kernels=None):
    """Case of the teacher or student on `atoms` atoms of liquid water."""
    model, trained = own_model(context, role)
    data = systems.water(context.work, context.lmp, WATER[atoms], context.cores[0])
    name = f"{role}-{atoms}" + (f"-{ranks}ranks" if ranks > 1 else "") + (f"-{kernels}" if kernels else "")
    label = f"{role}, {atoms} atoms of water" + (f", {ranks} ranks" if ranks > 1 else "")
    label += (f", kernels {kernels}" if kernels else "") + ("" if trained else " (random weights)")
    deck = systems.water_deck(data, mlff_pair(context, model, "O H", kernels), real=trained)
    if ranks > 1:
        # LAMMPS would cut a cube across z, whose messages also carry the ghosts of x and y (docs/clusters.md); halves
        # of a small box of liquid differ by up to 16 of 192 atoms
        deck = [f"processors {ranks} 1 1", *deck, "fix even all balance 100 1.02 shift x 10 1.01"]
    return LammpsCase(context, name, label, deck, ranks)


def _torch(context):
    if not context.torch_python:
        raise Skip("MLFF_TORCH_PYTHON does not name a Python with PyTorch, TorchANI and SchNetPack")


def _compare(case, reference_energy, reference_forces):
    """Differences between LAMMPS and a PyTorch program on the same structure; LammpsError when they do not agree."""
    energy, forces = case.first_step()
    n = len(forces)
    worst = float(np.max(np.abs(np.array(forces) - np.array(reference_forces))))
    largest = float(np.max(np.abs(reference_forces)))
    difference = abs(energy - reference_energy) / n
    if not (difference <= ENERGY_AGREES and worst <= FORCES_AGREE * largest):
        raise LammpsError(
            f"{case.label}: results differ from PyTorch by {difference:.3g} eV/atom and {worst:.3g} eV/A "
            f"of forces up to {largest:.3g}"
        )
    return {"energy_ev_per_atom": difference, "forces_ev_per_ang": worst, "largest_force_ev_per_ang": largest}


def _self_energies(model, structure):
    """Sum of the energy offsets of a model file over the atoms of a structure, eV."""
    with open(model, encoding="utf-8") as file:
        head = yaml.safe_load(file)
    return head["units"]["energy_in_eV"] * sum(head["energy_offsets"][s] for s in structure["symbols"])


def _torch_part(context, kind, name, label, variants, structure):
    """(cases, energy and forces): each variant of a program with tuned malloc, the first also with the default."""
    cases, energy_forces = [], None
    weights = os.path.join(context.shared, "models", name + ".safetensors")
    for tuned in (True, False):
        program = TorchProgram(context, kind, weights, tuned)
        context.closing.append(program.close)
        answer = program.ask(
            do="system", numbers=structure["numbers"], positions=structure["positions"], cell=structure["cell"]
        )
        for variant in variants if tuned else variants[:1]:
            if tuned and energy_forces is None:
                energy_forces = program.ask(do="check", variant=variant)
            malloc = "tuned" if tuned else "default"
            cases.append(
                TorchCase(
                    context,
                    f"{kind}-torch-{variant.replace('/', '-')}-{malloc}",
                    f"{label} {variant}, malloc {malloc}",
                    program,
                    variant,
                    len(structure["numbers"]),
                )
            )
    context.versions.update(answer["versions"])
    return cases, energy_forces


def _reference_case(context, name, label, model, structure):
    data = os.path.join(context.work, f"{name}.data")
    kinds = [1 if z == 8 else 2 for z in structure["numbers"]]
    systems.write_data(data, kinds, structure["positions"], structure["cell"])
    real = name.startswith("ani")
    deck = systems.water_deck(data, mlff_pair(context, model, "O H"), real=real, velocities=False)
    return LammpsCase(context, name, label, deck)


def ani(context):
    """ANI-2x in LAMMPS against TorchANI."""
    _torch(context)
    model = converted(context, "ani", "ani-2x")
    structure = systems.reference_water(context.shared)
    ours = _reference_case(context, "ani-2x", "ANI-2x, 8 networks, pair_style mlff", model, structure)
    theirs, found = _torch_part(
        context,
        "ani",
        "ani-2x",
        "TorchANI",
        ["infer/cell_list", "infer/verlet_cell_list", "script/cell_list"],
        structure,
    )
    facts = {"agreement": _compare(ours, found["energy"] + _self_energies(model, structure), found["forces"])}
    ratio = Ratio("ANI-2x, 64 waters: TorchANI / mlff", [c.name for c in theirs], ours.name, bar=5.0, aim=10.0)
    return Part("ANI-2x (8 networks), 192 atoms of water", [ours] + theirs, [ratio], facts)


def painn(context):
    """PaiNN with 128 features and 3 layers in LAMMPS against SchNetPack."""
    _torch(context)
    model = converted(context, "painn", "painn_f128_gaussian", "--elements", "H,O")
    structure = systems.reference_water(context.shared)
    ours = _reference_case(context, "painn-f128", "PaiNN F=128 L=3, 20 Gaussians, pair_style mlff", model, structure)
    theirs, found = _torch_part(
        context, "painn", "painn_f128_gaussian", "SchNetPack", ["loaded", "frozen", "script"], structure
    )
    facts = {"agreement": _compare(ours, found["energy"], found["forces"])}
    ratio = Ratio("PaiNN F=128 L=3, 64 waters: SchNetPack / mlff", [c.name for c in theirs], ours.name, bar=6.0)
    return Part("PaiNN (128 features, 3 layers), 192 atoms of water", [ours] + theirs, [ratio], facts)


def orb(context):
    """Orb-v2 of full size with random weights in LAMMPS against orb-models."""
    _torch(context)
    done = subprocess.run([context.torch_python, "-c", "import orb_models"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip("the Python of MLFF_TORCH_PYTHON has no orb-models")
    weights, model = os.path.join(context.work, "orb-random.ckpt"), os.path.join(context.work, "orb-random")
    cases, ratios, facts = [], [], {}
    for structure in (systems.rattled_silicon(), systems.reference_water(context.shared)):
        n, label = len(structure["numbers"]), "64 Si" if structure["numbers"][0] == 14 else "64 waters"
        programs = [TorchProgram(context, "orb", weights, tuned) for tuned in (True, False)]
        theirs, found = [], None
        for program, malloc in zip(programs, ("tuned", "default")):
            context.closing.append(program.close)
            answer = program.ask(do="system", **{k: structure[k] for k in ("numbers", "positions", "cell")})
            found = found or program.ask(do="check", variant="predict")
            theirs.append(
                TorchCase(
                    context, f"orb-torch-{n}-{malloc}", f"orb-models, {label}, malloc {malloc}", program, "predict", n
                )
            )
        context.versions.update(answer["versions"])
        tools("mlff_tools.convert", "orb", weights, "--elements", "H,O,Si", "--no-self-test", "-o", model)
        data = os.path.join(context.work, f"orb-{n}.data")
        types, masses = systems.write_elements(data, structure)
        deck = systems.water_deck(
            data, mlff_pair(context, model + ".yaml", " ".join(types)), real=False, velocities=False
        )
        ours = LammpsCase(context, f"orb-{n}", f"Orb-v2 (random weights), {label}, pair_style mlff", deck, fewest=3)
        facts[label] = _compare(ours, found["energy"], found["forces"])
        cases += [ours, *theirs]
        ratios.append(
            Ratio(f"Orb-v2, {label}: orb-models / mlff", [c.name for c in theirs], ours.name, bar=1.4, aim=1.7)
        )
    return Part("Orb-v2 (15 layers, 25 million parameters, random weights)", cases, ratios, facts)


def student(context):
    """The student against the descriptor potentials of LAMMPS, per atom and step."""
    cases = [own_case(context, "student", 192), own_case(context, "student", 648)]
    ratios = []

    def add(name, label, found, ours, **bars):
        deck, files = found
        missing = [f for f in files if not os.path.exists(f)]
        if missing:
            context.skipped[label] = f"{missing[0]} is not there"
            return
        cases.append(LammpsCase(context, name, label, deck))
        ratios.append(Ratio(f"{label} / student, {ours.split('-')[1]} atoms", [name], ours, per_atom=True, **bars))

    p = context.potentials
    add("pod-128", "POD (Ta), 128 atoms", systems.tantalum_pod(p, 4), "student-192", bar=1.0)
    add("pod-686", "POD (Ta), 686 atoms", systems.tantalum_pod(p, 7), "student-648", bar=1.0)
    add("snap-128", "SNAP 2J=8 (Ta), 128 atoms", systems.tantalum_snap(p, 4), "student-192")
    if context.nep_plugin and context.nep_model:
        nep = systems.lead_telluride_nep(context.nep_plugin, context.nep_model, 3)
        add("nep-216", "NEP (PbTe), 216 atoms", nep, "student-192", aim=2.0)
    else:
        context.skipped["NEP"] = "MLFF_BENCH_NEP_PLUGIN and MLFF_BENCH_NEP_MODEL do not name a plugin and model"
    return Part("Student against descriptor potentials, per atom and step", cases, ratios)


def ranks(context):
    """The student on one and on two ranks."""
    if len(context.cores) < 2:
        raise Skip("two ranks need two cores")
    cases, ratios = [], []
    for atoms in WATER:
        one, two = own_case(context, "student", atoms), own_case(context, "student", atoms, ranks=2)
        both = TwoRuns(context, one)
        cases += [one, two, both]
        ratios.append(
            Ratio(f"student, {atoms} atoms: 1 rank / 2 ranks", [one.name], two.name, bar=1.8 if atoms <= 648 else None)
        )
        ratios.append(Ratio(f"student, {atoms} atoms: two separate runs at once / one", [both.name], one.name))
    return Part("Student on two ranks", cases, ratios)


def teacher(context):
    """Teacher and student on the same deck."""
    cases, ratios = [], []
    for atoms in (192, 648):
        big, small = own_case(context, "teacher", atoms), own_case(context, "student", atoms)
        cases += [big, small]
        ratios.append(Ratio(f"teacher / student, {atoms} atoms", [big.name], small.name, bar=5.0))
    return Part("Teacher against student on the same deck", cases, ratios)


def kernels(context):
    """The student on every kernel path of this processor."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    paths = ["generic"] + (["avx2"] if "avx2" in flags else []) + (["avx512"] if "avx512dq" in flags else [])
    cases = [own_case(context, "student", 192, kernels=k) for k in paths]
    ratios = [
        Ratio(f"student, 192 atoms: kernels {k} / {paths[-1]}", [c.name], cases[-1].name)
        for k, c in zip(paths[:-1], cases[:-1])
    ]
    return Part("Kernel paths", cases, ratios)


PARTS = {
    "ani": ani,
    "painn": painn,
    "orb": orb,
    "student": student,
    "ranks": ranks,
    "teacher": teacher,
    "kernels": kernels,
}
