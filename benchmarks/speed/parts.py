"""The parts of the speed comparison: which cases are timed together, and which ratios they give.

A part is a function of the context that returns a Part, or raises Skip with the reason when something that it needs is
not there.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import yaml

from mlff_tools.model import against_matgl, modelfile
from mlff_tools.model.lammps import LammpsError, quoted

from . import ROOT, models, systems
from .cases import LammpsCase, TorchCase, TorchProgram, TwoRuns

# Edges of the water boxes, in molecules, by number of atoms.
WATER = {192: 4, 648: 6, 3000: 10}
# Names of the project's models of water, without their role, best first.
OWN_MODELS = ("water-painn", "water-benzene")
# The universal force field that comes with the project.
NEQUIX = "nequix-oam-1-pft"
# Students of it: lattice, cells along each axis, mass, element; and of ANI-2x.
CRYSTALS = {
    "silicon-m": ("diamond 5.4868", 2, 28.085, "Si"),
    "aluminium-m": ("fcc 4.0328", 3, 26.982, "Al"),
    "iron-m": ("bcc 2.8720", 3, 55.845, "Fe"),
}
LIQUIDS = ("water-xs", "water-s", "water-benzene-student")
# Largest differences between another program and LAMMPS, both in single precision: eV/atom, and share of the largest
# force.
ENERGY_AGREES, FORCES_AGREE = 1.0e-5, 1.0e-3


class Skip(Exception):
    """Why a part cannot run here."""


@dataclass
class Ratio:
    """How many times cheaper `ours` is than the fastest of `theirs`, per step or atom, and what is wanted: of the ratio
    at least `bar`, of a step of ours at most `most` seconds."""

    name: str
    theirs: list
    ours: str
    bar: float = None
    aim: float = None
    most: float = None
    aim_most: float = None
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
        f"plugin load {quoted(context.plugin)}",
        f"pair_style mlff self_test no{options}",
        f"pair_coeff * * {quoted(model)} {elements}",
    ]


def tools(*arguments):
    """Runs a command of mlff_tools in a process of its own."""
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


def published(context, name):
    """Path of a file of the shared models."""
    path = os.path.join(context.shared, "models", name)
    if not os.path.exists(path):
        raise Skip(f"{path} is not there (--shared names the folder of the published parameters)")
    return path


def shipped(name):
    """Path of a model file of models/."""
    path = os.path.join(ROOT, "models", name + ".yaml")
    if not os.path.exists(path):
        raise Skip(f"models/{name}.yaml is not there")
    return path


def converted(context, kind, name, *options):
    """Model file made from the published parameters `name` of the shared models."""
    source = published(context, name + ".yaml")
    result = os.path.join(context.work, name)
    tools("mlff_tools", "convert", kind, source, *options, "-o", result)
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


def parallel(deck, ranks):
    """`deck` for so many ranks."""
    if ranks == 1:
        return deck
    # LAMMPS would cut a cube across z, whose messages also carry the ghosts of x and y (docs/clusters.md); halves of a
    # small box of liquid differ by up to 16 of 192 atoms
    return [f"processors {ranks} 1 1", *deck, "fix even all balance 100 1.02 shift x 10 1.01"]


def own_case(context, role, atoms, ranks=1, kernels=None):
    """Case of the teacher or student on `atoms` atoms of liquid water."""
    model, trained = own_model(context, role)
    data = systems.water(context.work, context.lmp, WATER[atoms], context.cores[0])
    name = f"{role}-{atoms}" + (f"-{ranks}ranks" if ranks > 1 else "") + (f"-{kernels}" if kernels else "")
    label = f"{role}, {atoms} atoms of water" + (f", {ranks} ranks" if ranks > 1 else "")
    label += (f", kernels {kernels}" if kernels else "") + ("" if trained else " (random weights)")
    deck = systems.water_deck(data, mlff_pair(context, model, "O H", kernels), real=trained)
    return LammpsCase(context, name, label, parallel(deck, ranks), ranks)


def _torch(context, *modules):
    """Raises Skip unless there is a Python for the packages, which can import `modules`."""
    if not context.torch_python:
        raise Skip("MLFF_TORCH_PYTHON does not name a Python with PyTorch and the packages to compare with")
    for module in modules:
        done = subprocess.run([context.torch_python, "-c", f"import {module}"], capture_output=True, check=False)
        if done.returncode != 0:
            raise Skip(f"the Python of MLFF_TORCH_PYTHON has no {module}")


def _compare(case, reference_energy, reference_forces):
    """Differences between LAMMPS and another program on the same structure; LammpsError when they do not agree."""
    energy, forces = case.first_step()
    n = len(forces)
    worst = float(np.max(np.abs(np.array(forces) - np.array(reference_forces))))
    largest = float(np.max(np.abs(reference_forces)))
    difference = abs(energy - reference_energy) / n
    if not (difference <= ENERGY_AGREES and worst <= FORCES_AGREE * largest):
        raise LammpsError(
            f"{case.label}: results differ from the other program's by {difference:.3g} eV/atom and {worst:.3g} eV/A "
            f"of forces up to {largest:.3g}"
        )
    return {"energy_ev_per_atom": difference, "forces_ev_per_ang": worst, "largest_force_ev_per_ang": largest}


def _self_energies(model, structure):
    """Sum of the energy offsets of a model file over the atoms of a structure, eV."""
    with open(model, encoding="utf-8") as file:
        head = yaml.safe_load(file)
    return head["units"]["energy_in_eV"] * sum(head["energy_offsets"][s] for s in structure["symbols"])


def _torch_part(context, kind, weights, label, variants, structure, where="", fewest=3):
    """(cases, energy and forces): each variant of a program with tuned malloc, the first also with the default."""
    cases, energy_forces, n = [], None, len(structure["numbers"])
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
                    f"{kind}-torch-{n}-{variant.replace('/', '-')}-{malloc}",
                    f"{label} {variant}{where}, malloc {malloc}",
                    program,
                    variant,
                    n,
                    fewest,
                )
            )
    context.versions.update(answer["versions"])
    return cases, energy_forces


def _reference_case(context, name, label, model, structure):
    data = os.path.join(context.work, f"{name}.data")
    kinds = [1 if z == 8 else 2 for z in structure["numbers"]]
    systems.write_data(data, kinds, structure["positions"], structure["cell"])
    real = name != "painn-f128"
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
        published(context, "ani-2x.safetensors"),
        "TorchANI",
        ["infer/cell_list", "infer/verlet_cell_list", "script/cell_list"],
        structure,
    )
    facts = {"agreement": _compare(ours, found["energy"] + _self_energies(model, structure), found["forces"])}
    package = [c.name for c in theirs]
    ratios = [Ratio("ANI-2x, 64 waters: TorchANI / mlff", package, ours.name, bar=5.0, aim=10.0)]
    students = [_reference_case(context, n, f"{n}, pair_style mlff", shipped(n), structure) for n in LIQUIDS]
    ratios += [Ratio(f"{s.name}, 64 waters: TorchANI / student", package, s.name) for s in students]
    return Part("ANI-2x (8 networks) and its students, 192 atoms of water", [ours, *students, *theirs], ratios, facts)


def painn(context):
    """PaiNN with 128 features and 3 layers in LAMMPS against SchNetPack."""
    _torch(context)
    model = converted(context, "painn", "painn_f128_gaussian", "--elements", "H,O")
    structure = systems.reference_water(context.shared)
    ours = _reference_case(context, "painn-f128", "PaiNN F=128 L=3, 20 Gaussians, pair_style mlff", model, structure)
    weights = published(context, "painn_f128_gaussian.safetensors")
    theirs, found = _torch_part(context, "painn", weights, "SchNetPack", ["loaded", "frozen", "script"], structure)
    facts = {"agreement": _compare(ours, found["energy"], found["forces"])}
    ratio = Ratio("PaiNN F=128 L=3, 64 waters: SchNetPack / mlff", [c.name for c in theirs], ours.name, bar=6.0)
    return Part("PaiNN (128 features, 3 layers), 192 atoms of water", [ours] + theirs, [ratio], facts)


def orb(context):
    """Orb-v2 of full size with random weights in LAMMPS against orb-models."""
    _torch(context, "orb_models")
    weights, model = os.path.join(context.work, "orb-random.ckpt"), os.path.join(context.work, "orb-random")
    cases, ratios, facts = [], [], {}
    for structure in (systems.rattled_silicon(), systems.reference_water(context.shared)):
        n, label = len(structure["numbers"]), "64 Si" if structure["numbers"][0] == 14 else "64 waters"
        theirs, found = _torch_part(context, "orb", weights, "orb-models", ["predict"], structure, f", {label}")
        tools("mlff_tools", "convert", "orb", weights, "--elements", "H,O,Si", "--no-self-test", "-o", model)
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


def _against_package(context, kind, label, package, model, weights, wanted, name=None):
    """(cases, ratios, facts) of a universal force field in LAMMPS and in its own package, on silicon and on water.

    wanted: the arguments of the two ratios; name: of the cases, else kind. The packages always give the stress, so
    LAMMPS computes it in every step.
    """
    cases, ratios, facts = [], [], {}
    stress = ["compute stress all pressure NULL virial", "fix stress all ave/time 1 1 1 c_stress"]
    for (system, where), bars in zip((("si64_rattled", "64 Si"), ("water192", "64 waters")), wanted):
        structure = systems.nequix_reference(context.shared, system)
        n = len(structure["numbers"])
        # the packages take seconds for the water
        theirs, found = _torch_part(
            context, kind, weights, package, ["calculator"], structure, f", {where}", fewest=3 if n < 100 else 1
        )
        for case in theirs if name else []:
            case.name = f"{name}-{case.name}"
        data = os.path.join(context.work, f"{name or kind}-{n}.data")
        types, _ = systems.write_elements(data, structure)
        deck = systems.water_deck(data, mlff_pair(context, model, " ".join(types)), velocities=False) + stress
        ours = LammpsCase(context, f"{name or kind}-{n}", f"{label}, {where}, pair_style mlff", deck, fewest=3)
        facts[where] = _compare(ours, found["energy"], found["forces"])
        cases += [ours, *theirs]
        ratios.append(Ratio(f"{label}, {where}: {package} / mlff", [c.name for c in theirs], ours.name, **bars))
    return cases, ratios, facts


def nequix(context):
    """Nequix (OAM, PFT) in LAMMPS against its package in JAX."""
    _torch(context, "nequix.calculator")
    published(context, "nequix_reference.json")
    published(context, NEQUIX + ".yaml")
    weights, model = published(context, NEQUIX + ".safetensors"), os.path.join(ROOT, "models", NEQUIX + ".yaml")
    wanted = [{"most": 0.060, "aim_most": 0.030}, {"most": 0.300, "aim_most": 0.150}]
    cases, ratios, facts = _against_package(context, "nequix", "Nequix", "nequix", model, weights, wanted)
    return Part("Nequix OAM PFT (4 layers, orders to 3, 0.7 million parameters)", cases, ratios, facts)


def sevennet(context):
    """SevenNet-0 in LAMMPS against its package in PyTorch."""
    _torch(context, "sevenn.calculator")
    published(context, "nequix_reference.json")
    model, wanted = converted(context, "nequip", "sevennet-0"), [{"bar": 8.0}, {"bar": 8.0}]
    found = _against_package(context, "sevennet", "SevenNet-0", "sevenn", model, "7net-0", wanted)
    return Part("SevenNet-0 (5 layers, orders to 2, 0.8 million parameters)", *found)


# Shipped TensorNet models: label, and milliseconds that a step of 64 Si and of 64 waters should take and may take.
TENSORNETS = (
    ("tensornet-matpes-r2scan", "TensorNet (r2SCAN)", ((5, 7), (14, 20))),
    ("tensornet-local-matpes-pbe", "TensorNet (local, PBE)", ((4.5, 6.5), (12, 18))),
)


def _matgl_weights(context, name):
    """Path of the weights of a shipped model as torch_programs.py reads them."""
    head, tensors = modelfile.read(shipped(name))
    p, backend = head["tensornet"], "DGL" if head["tensornet"]["message_from"] == "center" else "PYG"
    options = {
        "backend": backend,
        "arguments": against_matgl.arguments(head),
        "energy_scale": p["energy_scale"],
        "energy_offsets": list(head["energy_offsets"].values()),
    }
    path = os.path.join(context.work, name + ".npz")
    state = against_matgl.state(head, tensors, backend.lower() + "-2025.1")
    np.savez(path, options=json.dumps(options), **state)
    return path


def tensornet(context):
    """The shipped TensorNet models in LAMMPS against matgl (2.0 or 2.1, with DGL for the local one)."""
    _torch(context, "matgl", "dgl")
    published(context, "nequix_reference.json")
    cases, ratios, facts = [], [], {}
    for name, label, limits in TENSORNETS:
        wanted = [{"bar": 15, "aim_most": aim / 1000, "most": most / 1000} for aim, most in limits]
        weights, model = _matgl_weights(context, name), shipped(name)
        more = _against_package(context, "tensornet", label, "matgl", model, weights, wanted, name)
        cases, ratios = cases + more[0], ratios + more[1]
        facts |= {f"{label}, {where}": found for where, found in more[2].items()}
    return Part("TensorNet (2 layers, 0.8 million parameters)", cases, ratios, facts)


# Published sizes of MACE: structures, milliseconds that a step should take and may take, least ratio to mace-torch.
MACE_SIZES = (
    ("mp-small", "MACE-MP-0 small", {"si64_rattled": (8, 12.8, 25), "water192": (40, 64, 25)}),
    ("mp-medium", "MACE-MP-0 medium", {"si64_rattled": (21, 33.6, 20), "water192": (105, 168, 20)}),
    ("off23-small", "MACE-OFF23 small", {"water192": (15, 24, 25)}),
)


def mace(context):
    """MACE of published sizes with random weights in LAMMPS against mace-torch and symmetrix-xl."""
    _torch(context, "mace")
    published(context, "nequix_reference.json")
    variants = ["mace-torch"]
    try:
        _torch(context, "symmetrix")
        variants.append("symmetrix-xl")
    except Skip as reason:
        context.skipped["symmetrix-xl"] = str(reason)
    cases, ratios, facts = [], [], {}
    stress = ["compute stress all pressure NULL virial", "fix stress all ave/time 1 1 1 c_stress"]
    for size, label, structures in MACE_SIZES:
        weights, model = os.path.join(context.work, size + ".model"), os.path.join(context.work, size)
        for name, (aim, most, bar) in structures.items():
            structure = systems.nequix_reference(context.shared, name)
            n, where = len(structure["numbers"]), "64 Si" if name.startswith("si") else "64 waters"
            theirs, found = _torch_part(
                context, "mace", weights, f"{label} size,", variants, structure, f", {where}", fewest=1
            )
            for case in theirs:
                case.name = f"{size}-{case.name}"
            tools("mlff_tools", "convert", "mace", weights, "--no-self-test", "-o", model)
            data = os.path.join(context.work, f"{size}-{n}.data")
            types, _ = systems.write_elements(data, structure)
            pair = mlff_pair(context, model + ".yaml", " ".join(types))
            deck = systems.water_deck(data, pair, velocities=False) + stress
            ours = LammpsCase(context, f"{size}-{n}", f"{label} size, {where}, pair_style mlff", deck, fewest=3)
            facts[f"{label}, {where}"] = _compare(ours, found["energy"], found["forces"])
            cases += [ours, *theirs]
            for variant in variants:
                package = [c.name for c in theirs if c.variant == variant]
                limits = (
                    {"bar": bar, "most": most / 1000, "aim_most": aim / 1000} if variant == "mace-torch" else {"bar": 1}
                )
                ratios.append(Ratio(f"{label} size, {where}: {variant} / mlff", package, ours.name, **limits))
    return Part("MACE of published sizes (random weights)", cases, ratios, facts)


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


def silicon_deck(context, cells, ranks=1, model=None):
    """Deck of a model, of Nequix without one, on so many cubic cells of rattled silicon in each direction."""
    data = os.path.join(context.work, f"silicon-{8 * cells**3}.data")
    systems.write_elements(data, systems.rattled_silicon((cells, cells, cells)))
    pair = mlff_pair(context, model or shipped(NEQUIX), "Si")
    return parallel(systems.water_deck(data, pair, velocities=False), ranks)


def _on_two_ranks(context, name, label, model, bar):
    """(cases, ratios) of a model on 1000 Si on one and on two ranks."""
    if len(context.cores) < 2:
        raise Skip("two ranks need two cores")
    one, two = (
        LammpsCase(
            context,
            f"{name}-1000-{n}ranks",
            f"{label}, 1000 Si, {n} rank{'s' if n > 1 else ''}",
            silicon_deck(context, 5, n, model),
            ranks=n,
            fewest=3,
        )
        for n in (1, 2)
    )
    both = TwoRuns(context, one)
    return [one, two, both], [
        Ratio(f"{label}, 1000 Si: 1 rank / 2 ranks", [one.name], two.name, bar=bar),
        Ratio(f"{label}, 1000 Si: two separate runs at once / one", [both.name], one.name),
    ]


def nequix_ranks(context):
    """Nequix on one and on two ranks."""
    return Part("Nequix on two ranks", *_on_two_ranks(context, "nequix", "Nequix", None, 1.8))


def tensornet_ranks(context):
    """The shipped TensorNet models on one and on two ranks."""
    cases, ratios = [], []
    for name, label, _ in TENSORNETS:
        more = _on_two_ranks(context, name, label, shipped(name), 1.9 if "local" in name else 1.8)
        cases, ratios = cases + more[0], ratios + more[1]
    return Part("TensorNet on two ranks", cases, ratios)


def mace_ranks(context):
    """MACE of MP-0 small's size with random weights on one and on two ranks."""
    size, label, _ = MACE_SIZES[0]
    weights, model = os.path.join(context.work, size + ".model"), os.path.join(context.work, size)
    if not os.path.exists(weights):
        _torch(context, "mace")
        program = TorchProgram(context, "mace", weights, True)
        context.closing.append(program.close)
        silicon = systems.rattled_silicon()
        program.ask(do="system", numbers=silicon["numbers"], positions=silicon["positions"], cell=silicon["cell"])
    tools("mlff_tools", "convert", "mace", weights, "--no-self-test", "-o", model)
    return Part("MACE on two ranks", *_on_two_ranks(context, "mace", f"{label} size", model + ".yaml", 1.8))


def students(context):
    """The students of the universal force field and, where its parameters are there, of ANI-2x, in this engine."""
    cases, ratios = [], []
    try:
        teacher, structure = converted(context, "ani", "ani-2x"), systems.reference_water(context.shared)
        water = (("ani-2x", teacher), *((n, shipped(n)) for n in LIQUIDS))
        cases = [_reference_case(context, f"{n}-water", f"{n}, 64 waters", model, structure) for n, model in water]
        for name, case in zip(LIQUIDS, cases[1:]):
            bar = 9.0 if name == "water-xs" else None
            ratios.append(Ratio(f"{name}, 64 waters: ANI-2x / student", [cases[0].name], case.name, bar=bar))
    except Skip as reason:
        context.skipped["students of ANI-2x"] = str(reason)
    for name, (lattice, size, mass, element) in CRYSTALS.items():
        pair = []
        for model, fewest in ((NEQUIX, 3), (name, 10)):
            deck = systems.crystal_deck(lattice, size, [mass], "", mlff_pair(context, shipped(model), element))
            pair.append(LammpsCase(context, f"{model}-{element}", f"{model}, {element}", deck, fewest=fewest))
        cases += pair
        ratios.append(Ratio(f"{name}: Nequix / student", [pair[0].name], pair[1].name, bar=50.0))
    return Part("Students against the teacher that labelled them", cases, ratios)


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
    "nequix": nequix,
    "mace": mace,
    "sevennet": sevennet,
    "tensornet": tensornet,
    "student": student,
    "ranks": ranks,
    "nequix-ranks": nequix_ranks,
    "tensornet-ranks": tensornet_ranks,
    "mace-ranks": mace_ranks,
    "students": students,
    "kernels": kernels,
}
