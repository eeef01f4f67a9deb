"""From a structure to the recipe of its kind: mlff distill POSCAR, --element Cu, --liquid "water:32 ethanol:4".

The kind of material is recognized (materials.py), the best teacher at hand is chosen, and the recipe is written
(default_recipe.py), with structures that it reads from files. What exists is never overwritten."""

import contextlib
import fnmatch
import os
import shlex

import numpy as np
import yaml

from ..certify import lattice as cells
from ..certify import novel
from ..model import structures
from ..model.files import write_bytes
from ..model.masses import MASS
from ..model.modelfile import NUMBERS, ModelError, find_model, named_models, read_head, sha256_of
from ..model.units import BAR
from . import build, default_recipe, defects, extxyz, labelling, lattices, liquids, materials, plan, recipe_rounds
from .label import make_teacher

# Names of teachers, the best first. Crystals: by their errors in Matbench Discovery (arXiv:2308.14920); molecules:
# those trained on molecules.
BEST = {
    "crystal": ("nequix-oam*", "mace-omat*", "mace-mpa*", "orb*", "sevennet-l3i5*", "nequix-mp*", "sevennet-0*"),
    "molecule": ("mace*off*", "ani-2x*", "ani-1ccx*"),
}
BEST["crystal"] += ("tensornet-matpes-r2scan*", "tensornet*")
EXAMPLE = ("water-benzene-teacher", {"water", "benzene"})  # of this repository, for these molecules alone
OF_OURS = ("mlff_tools.train", "mlff_tools.distill")  # in the provenance: a student, which teaches nobody
CRYSTALS = ("metal", "semiconductor", "ionic")  # kinds of materials
HOT = 0.9  # of melting: the highest temperature of a crystal
UNKNOWN = 1000.0  # K, of a crystal whose melting point is not known
SCALES = np.linspace(-0.03, 0.03, 7)  # of the length, in which the energy of a crystal is fitted
FORCE = 0.01  # eV/A, left in a relaxed crystal
SUPERCELL = 7.0  # A, at least, of the width of a crystal without a lattice
RECIPES = (".yaml", ".yml")


def is_recipe(path):
    """Whether the argument of mlff distill is a recipe or the folder of a run, not a structure."""
    return path is None or os.path.isdir(path) or path.lower().endswith(RECIPES)


def command(args):
    """The command that a recipe is written by, without options that do not change it."""
    words = ["mlff", "distill", *([args.recipe] if args.recipe else [])]
    for name in ("element", "liquid", "teacher", "size", "temperature", "hours"):
        value = getattr(args, name)
        words += [f"--{name}", f"{value:g}" if isinstance(value, float) else value] if value else []
    return shlex.join(words)


# ---- the teacher


def _models():
    """[(name, path, header)] of the models that may teach: not those that were taught."""
    out = []
    for name, path in named_models().items():
        head = read_head(path)
        if not str(head.get("provenance", {}).get("code", "")).startswith(OF_OURS):
            out.append((name, path, head))
    return out


def _rank(name, patterns):
    return next((k for k, pattern in enumerate(patterns) if fnmatch.fnmatch(name.lower(), pattern)), len(patterns))


def teacher(given, elements, kind, names=()):
    """(section teacher, words why). given: --teacher; names: of the molecules of a liquid."""
    if given and ":" in given and not os.path.exists(given):
        return {"ase": {"calculator": given}}, "as given"
    if given:
        path = find_model(given)
        unknown = sorted(set(elements) - set(read_head(path)["elements"]))
        if unknown:
            raise ModelError(f"--teacher {given}: does not know {' '.join(unknown)}; give another one")
        return {"mlff": given}, "as given"
    known = [(name, head) for name, _, head in _models() if set(elements) <= set(head["elements"])]
    patterns = BEST["crystal" if kind in CRYSTALS else "molecule"]
    known.sort(key=lambda one: (_rank(one[0], patterns), -len(one[1]["elements"]), one[0]))
    others = ", ".join(name for name, _ in known[1:])
    if known and _rank(known[0][0], patterns) < len(patterns):
        return {"mlff": known[0][0]}, "the best at hand" + (f"; others: {others}" if others else "")
    if names and set(names) <= EXAMPLE[1] and EXAMPLE[0] in named_models():
        return {"mlff": EXAMPLE[0]}, "an example, trained on ANI-2x; give a better one with --teacher"
    if known:
        return {"mlff": known[0][0]}, "not made for this kind of material; give a better one with --teacher"
    raise ModelError(
        f"no teacher at hand knows {' '.join(sorted(elements))}: give --teacher MODEL or --teacher module:function of "
        "an ASE calculator, or put a model into a folder of $MLFF_MODELS"
    )


# ---- the structure


def read(path, python):
    """The last structure of a file, of which the elements are known."""
    frames = build.read_file(path, python)
    if not frames:
        raise ModelError(f"{path}: has no structure")
    frame = build.filled([frames[-1]], path)[0]
    strange = sorted({e for e in frame["elements"] if e not in NUMBERS or e == "X"})
    if strange:
        raise ModelError(f"{path}: {' '.join(strange)} is not an element")
    return frame


def of_element(symbol):
    """The crystal of an element."""
    if symbol not in materials.ELEMENTS:
        known = " ".join(sorted(materials.ELEMENTS))
        raise ModelError(f"--element {symbol}: no crystal of it is known; give a structure file, or one of {known}")
    lattice, constant, _ = materials.ELEMENTS[symbol]
    return lattices.crystal(lattice, [symbol], constant)


def _scaled(frame, factor):
    return {**frame, "positions": frame["positions"] * factor, "cell": frame["cell"] * factor}


def at_rest(ask, frame):
    """(factor of all lengths, bulk modulus in bar) where the energy of a crystal is least."""
    center = 1.0
    for _ in range(5):
        factors = center * (1 + SCALES)
        energy = [one["energy"] for one in ask([_scaled(frame, f) for f in factors])]
        k = int(np.argmin(energy))
        if 0 < k < len(factors) - 1:
            break
        center = factors[k]
    else:
        raise ModelError("the teacher finds no volume of least energy near that of the structure; give a relaxed one")
    volumes = abs(np.linalg.det(frame["cell"])) * factors**3
    volume, _, bulk = cells.birch_murnaghan(volumes, energy)
    return float((volume / abs(np.linalg.det(frame["cell"]))) ** (1 / 3)), float(bulk * BAR)


def relaxed(ask, frame):
    """The crystal with cell and atoms relaxed by the teacher; as it is where that does not converge."""
    try:
        found = cells.relax(ask, [frame], True, force=FORCE)[0][0]
        return {**frame, "cell": found["cell"], "positions": found["positions"]}
    except cells.NotRelaxed:
        return frame


# ---- what is written


class Files:
    """Files of a recipe, which are written together with it, none over another."""

    def __init__(self, name):
        self.name, self.texts = name, {}

    def structures(self, what, frames):
        """The name of a file of structures [frame]."""
        path = f"{self.name}-{what}.xyz"
        self.texts[path] = "".join(extxyz.text(f) for f in build.filled(frames, path))
        return path

    def check(self):
        """ModelError where another file has the name of one of these."""
        for path, text in self.texts.items():
            if os.path.exists(path):
                with open(path, "rb") as f:
                    if f.read() != text.encode():
                        raise ModelError(f"{path} exists and is not overwritten: rename it or work in another folder")

    def write(self, path, recipe):
        """Writes the files, then the recipe: all of them or none."""
        self.check()
        written = []
        try:
            for name, text in {**self.texts, path: recipe}.items():
                if not os.path.exists(name):
                    written.append(name)
                    write_bytes(name, text.encode())
        except BaseException:
            _remove(written)
            raise


def _remove(paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _surfaces(files, unit, say):
    """The name of the file of slabs of a crystal, {} without one."""
    found = [f for _, f in novel.surfaces(unit, cells.UNIT)]
    if len(found) < len(novel.FACES):
        say(f"note: surfaces whose slabs have more than {cells.UNIT} atoms are left out")
    return {"surface": files.structures("surfaces", found)} if found else {}


def _without_lattice(files, unit, say):
    """Files of the structures of a crystal that is none of lattices.py."""
    whole = cells.repeated(unit, cells.times_for(unit, SUPERCELL, most=cells.UNIT))
    hole = defects.largest_hole(whole)
    added = [defects.with_atom(whole, e, hole) for e in sorted(set(unit["elements"]))]
    return {
        "unit": files.structures("unit", [unit]),
        "crystal": files.structures("crystal", [whole]),
        "large": files.structures("large", [cells.repeated(unit, cells.times_to(unit, default_recipe.LARGE))]),
        "vacancy": files.structures("vacancies", [f for _, f in novel.vacancies(whole)]),
        "interstitial": files.structures("interstitials", added),
        **_surfaces(files, unit, say),
    }


def _others_at_rest(ask, lattice, elements, frame):
    """{lattice: constants} of the other lattices of these elements, relaxed by the teacher from the volume of the
    crystal. They can be far from it: the volume of hcp iron is 14 % below that of bcc."""
    volume, out = abs(np.linalg.det(frame["cell"])) / len(frame["elements"]), {}
    for name in default_recipe.other_lattices(lattice, elements):
        unit = lattices.crystal(name, elements, lattices.constant_of(name, volume))
        out[name] = lattices.constant_in(name, relaxed(ask, unit)["cell"], 3)
    return out


def _crystal(args, started, section, ask, files, say):
    """What makes the recipe of a crystal, a function of the amount."""
    frame, found = started.frame, started.lattice
    lattice, elements, constant = found or (None, sorted(set(frame["elements"])), None)
    if found:
        frame = lattices.crystal(lattice, elements, constant)
    if lattice in (None, "hcp"):
        frame = relaxed(ask, frame)
    factor, bulk = at_rest(ask, frame)
    frame = _scaled(frame, factor)
    if found:
        constant = lattices.constant_in(lattice, frame["cell"], 4)
        say(f"lattice: {lattice}, {constant} A at rest by the teacher; bulk modulus {bulk / 1e4:.3g} GPa")
    else:
        cell = ", ".join(f"{x:.3f}" for x in np.linalg.norm(frame["cell"], axis=1))
        say(f"lattice: none of {', '.join(materials.SHELLS)}: the cell of the structure, {cell} A at rest")
    melting = materials.melting(frame)
    if args.temperature:
        top, why = args.temperature, "as given"
    elif melting:
        top, why = HOT * melting, f"{HOT:g} of the melting point, {melting:g} K"
    else:
        top, why = UNKNOWN, "the melting point is not in the table: give --temperature"
    say(f"highest temperature of the crystal: {top:.0f} K ({why})")
    more = {} if found else _without_lattice(files, frame, say)
    if lattice == "hcp":
        more |= _surfaces(files, frame, say)
    others = _others_at_rest(ask, lattice, elements, frame) if found else {}
    c = default_recipe.Crystal(frame, lattice, elements, constant, top, melting or top / HOT, bulk, more, others)
    return lambda amount: default_recipe.crystal(c, files.name, started.kind, section, args.size, amount)


def _liquid_of(text):
    """{name: number} of --liquid."""
    out = {}
    for word in text.replace(",", " ").split():
        name, _, number = word.rpartition(":")
        if not name or not number.isdigit() or int(number) < 1 or name in out:
            raise ModelError(f'--liquid {word}: molecules and numbers are expected, as "water:32 ethanol:4"')
        if name not in structures.MOLECULES and not os.path.isfile(name):
            known = ", ".join(structures.MOLECULES)
            raise ModelError(f"--liquid {name}: is not known; allowed are {known}, or an XYZ file of one molecule")
        out[name] = int(number)
    if not out:
        raise ModelError('--liquid: names no molecule; expected is "water:32 ethanol:4"')
    return out


def _mixed(molecules):
    """(density of an ideal mixture in g/cm3, molecules whose density is not known)"""
    mass = {m: n * sum(MASS[e] for e in liquids.read_molecule(m)[0]) for m, n in molecules.items()}
    volume = sum(mass[m] / materials.LIQUIDS.get(m, 1.0) for m in molecules)
    return sum(mass.values()) / volume, [m for m in molecules if m not in materials.LIQUIDS]


def _molecules_of(frame, files):
    """{name or file: number} of the molecules of a box; files are written of those that have no name."""
    groups, places, _ = materials.molecules(frame)
    names = {novel.of_molecule(name): name for name in structures.MOLECULES}
    out = {}
    for mine in groups:
        elements, x = [frame["elements"][k] for k in mine], places[mine]
        one = {"elements": elements, "positions": x - x.mean(0), "cell": None}
        (key,) = novel.structural_formulas([one])
        if key not in names:
            names[key] = files.structures(f"molecule-{len(files.texts) + 1}", [one])
        out[names[key]] = out.get(names[key], 0) + 1
    return out


def _kelvin(args):
    return f"{args.temperature:g} K" if args.temperature else f"{default_recipe.ROOM:g} K (change it by --temperature)"


def _liquid(args, molecules, density, section, files, box, say):
    t = args.temperature or default_recipe.ROOM
    amounts = ", ".join(f"{n} {name}" for name, n in molecules.items())
    say(f"liquid: {amounts} at {density:.3g} g/cm3 and {_kelvin(args)}")
    return lambda amount: default_recipe.liquid(
        molecules, density, t, files.name, section, args.size, amount, box and files.structures("box", [box])
    )


def _molecule(args, frame, section, files, say):
    t, elements = args.temperature or default_recipe.ROOM, sorted(set(frame["elements"]))
    path = files.structures("molecule", [{**frame, "positions": frame["positions"] - frame["positions"].mean(0)}])
    say(f"molecule: {len(frame['elements'])} atoms, up to 3 times {_kelvin(args)}")
    return lambda amount: default_recipe.molecule(path, elements, t, files.name, section, args.size, amount)


# ---- all together


class Started:
    """A structure as the options name it, before the teacher is asked: name, elements, kind, why, frame, lattice (as of
    materials.lattice_of), molecules."""

    def __init__(self, args):
        self.frame = self.molecules = self.lattice = None
        if args.liquid:
            self.molecules = _liquid_of(args.liquid)
            self.elements = {e for m in self.molecules for e in liquids.read_molecule(m)[0]}
            self.stem, self.kind, self.why = "-".join(map(_stem, self.molecules)), "liquid", "as given"
            sizes = [n * len(liquids.read_molecule(m)[0]) for m, n in self.molecules.items()]
            _check_size(f"--liquid {args.liquid}", sum(sizes))
        else:
            self.frame = of_element(args.element) if args.element else read(args.recipe, args.python)
            self.elements = set(self.frame["elements"])
            _check_size(args.recipe, len(self.frame["elements"]))
            self.stem = materials.formula(self.frame)
            self.kind, self.why = materials.kind(self.frame)
            if self.kind in CRYSTALS:
                self.lattice = materials.lattice_of(self.frame)
                if not self.lattice:
                    cells.times_for(self.frame, SUPERCELL, most=cells.UNIT)  # an error for a large one
        args.size = args.size or ("m" if self.kind in CRYSTALS else "xs")
        self.name = f"{self.stem}-{args.size}"


def _check_size(what, atoms):
    if atoms > cells.UNIT:
        raise ModelError(
            f"{what}: {atoms} atoms are too many to label thousands of structures: give the unit cell of a crystal, or "
            f"a box of up to {cells.UNIT} atoms"
        )


def _stem(path):
    return os.path.basename(path).split(".")[0]


def _planned(args, started, section, programs, files, say):
    """What makes the recipe, a function of the amount."""
    if started.molecules:
        density, unknown = _mixed(started.molecules)
        for molecule in unknown:
            say(f"note: the density of {molecule} is not known; 1 g/cm3 is assumed")
        return _liquid(args, started.molecules, density, section, files, None, say)
    frame = started.frame
    if started.kind == "liquid":
        return _liquid(args, _molecules_of(frame, files), materials.density(frame), section, files, frame, say)
    if started.kind == "molecule":
        return _molecule(args, frame, section, files, say)
    one = make_teacher(section, [frame], os.getcwd(), programs)
    try:
        ask = lambda frames: labelling.ask(one, build.filled(frames, "crystal"))
        return _crystal(args, started, section, ask, files, say)
    finally:
        one.close()


def _plain(value):
    """The value as YAML has it: whole numbers without a point."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return int(value) if value == int(value) else float(value)
    return value


def _flow(value):
    return (
        yaml.safe_dump(_plain(value), default_flow_style=True, sort_keys=False, width=10**6).split("\n...")[0].strip()
    )


def _text(args, wanted, lines):
    """The text of a recipe, a line for each key. Its first line is the command."""
    out = [f"# {command(args)}", *(f"# {line}" for line in lines), "# Change it as you like: docs/distillation.md"]
    for section, value in wanted.items():
        if section == "structures":
            out.append("structures:")
            for item in value:
                parts = [f"{key}: {_flow(v)}" for key, v in item.items()]
                out += [f"  {'- ' if k == 0 else '  '}{part}" for k, part in enumerate(parts)]
        elif isinstance(value, dict):
            out += [f"{section}:", *(f"  {key}: {_flow(v)}" for key, v in value.items())]
        else:
            out.append(f"{section}: {_flow(value)}")
    return "\n".join(out) + "\n"


def _renamed(value, names):
    """The value with the names of files replaced."""
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(v, names) for key, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


def _amount(args, make, files, programs):
    """The amount for --hours of core time. Some of the time does not depend on it, so that a few are tried. Recipe and
    files of the trials are hidden, and removed."""
    path, amount, each = f".{files.name}-plan.yaml", 1.0, None
    hidden = {name: f".{files.name}-plan-{name}" for name in files.texts}
    try:
        for name, other in hidden.items():
            write_bytes(other, files.texts[name].encode())
        for _ in range(4):
            write_bytes(path, _text(args, _renamed(make(amount), hidden), []).encode())
            wanted = recipe_rounds.read(path)
            each = each or plan.teacher_time(wanted, programs)
            amount = max(0.02, amount * 3600 * args.hours / plan.seconds(wanted, programs, each))
    finally:
        _remove([path, *hidden.values()])
    return amount


def _hash(path):
    return f"sha256 of {os.path.basename(path)}: {sha256_of(path)}"


def recipe(args, programs, write, ready=lambda: None):
    """Path of the recipe of a structure, written now or before by the same command. write: prints a line; ready: is
    called once all input is checked, before the teacher is asked."""
    started = Started(args)
    path = f"{started.name}.yaml"
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as f:
            if f.readline().rstrip("\n") == f"# {command(args)}":
                if args.recipe and f"# {_hash(args.recipe)}" not in f.read().splitlines():
                    raise ModelError(f"{path} is of an earlier {args.recipe}: rename it, or run mlff distill {path}")
                ready()
                write(f"{path}: the recipe that this command wrote before")
                return path
        raise ModelError(f"{path} exists and is not overwritten: run mlff distill {path}, or rename it")
    lines = []

    def say(line):
        lines.append(line)
        write(line)

    say(f"{started.stem}: {started.kind} ({started.why})")
    section, why = teacher(args.teacher, started.elements, started.kind, started.molecules or ())
    say(f"teacher: {section.get('mlff') or section['ase']['calculator']} ({why})")
    if section.get("mlff") in (started.name, path):
        raise ModelError(
            f"--teacher {section['mlff']}: is the name of the recipe as well; give the path of the model file"
        )
    ready()
    if args.recipe:
        lines.append(_hash(args.recipe))
    files = Files(started.name)
    make = _planned(args, started, section, programs, files, say)
    made = make(1.0)
    files.check()
    if args.hours:
        amount = _amount(args, make, files, programs)
        say(f"{args.hours:g} h of a core: {amount:.2g} times the default amount of structures and training")
        made = make(amount)
    files.write(path, _text(args, made, lines))
    write(f"{path} is written: change it as you like, mlff distill {path} runs it")
    return path
