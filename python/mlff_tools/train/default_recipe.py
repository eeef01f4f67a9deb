"""The recipe of a kind of material, as a mapping: structures, student, training, rounds and certificate.

Amounts are for about ten minutes of labels and half an hour of training on one core (copper, Nequix), times `amount`.
Temperatures are shares of the melting point, lengths of the nearest distance, pressures of the bulk modulus."""

import math
import typing

import numpy as np

from ..certify import lattice as cells
from ..convert.short_range import RADII
from ..model import structures
from ..model.masses import MASS
from . import defects, lattices, materials, students

ROOM = 300.0  # K
WIDE, THICK = 5.8, 7.0  # A, at least, of a slab: its sides, and between its outer planes
SUPERCELL = {"fcc": [2, 2, 2], "hcp": [3, 3, 2], "diamond": [2, 2, 2], "rocksalt": [2, 2, 2], "zincblende": [2, 2, 2]}
FACES = {"rocksalt": ("100", "110"), "zincblende": ("110",), "cscl": ("110",)}
SEQUENCES = {"fcc": ["AB", "ABAC", "ABCACB"], "hcp": ["ABC", "ABAC", "ABCACB"], "diamond": ["AB", "ABAC", "ABCACB"]}
SEQUENCES["zincblende"] = SEQUENCES["diamond"]
LAYERS = {"hcp": 3, "rocksalt": 6}
LARGE = 200  # atoms of a box with the long waves that people's own runs have
PACKED = 0.5  # of the volume, filled by atoms of structures `dense`, at most
CLOSEST = 0.7  # sums of radii: of two atoms of a cluster; a student's repulsion begins at 0.8 (short_range.py)
CUTOFF = 1.7  # nearest distances: MACE sees in the first shell what PaiNN needs further ones for
CUTOFFS = (4.5, 6.5)  # A


class Crystal(typing.NamedTuple):
    """frame: the unit cell; lattice, elements, constant: those of lattices.py, or None; top: highest temperature of the
    crystal, K; melting: K; bulk: modulus, bar; files: {what: name of a file of structures that the recipe reads};
    others: {lattice: its constants, relaxed by the teacher}."""

    frame: dict
    lattice: typing.Optional[str]
    elements: list
    constant: typing.Any
    top: float
    melting: float
    bulk: float
    files: dict
    others: dict


def timestep(elements):
    """fs of dynamics that no bond of these elements is too fast for."""
    lightest = min(MASS[e] for e in elements)
    return 0.5 if lightest < 2 else 1.0 if lightest < 20 else 2.0


def _round(x, digits=2):
    """Rounded to significant digits, whole where it can be."""
    if x == 0:
        return 0
    y = round(float(x), digits - 1 - math.floor(math.log10(abs(x))))
    return int(y) if y == int(y) else y


class _Items:
    """Items of the section structures, each with a seed of its own."""

    def __init__(self, amount, step):
        self.amount, self.step, self.items = amount, step, []

    def number(self, n):
        return max(5, round(n * self.amount))

    def add(self, kind, value, copies=None, dynamics=None, **more):
        item = {kind: value, **more}
        if copies:
            item["copies"] = self.number(copies)
        if dynamics:
            item["dynamics"] = self.dynamics(**dynamics)
            if more.get("label") != "crystal":  # what begins far from rest may fail; the frames before count
                item["dynamics"]["on_error"] = "keep"
        if "number" in (value if isinstance(value, dict) else {}):
            item[kind] = {**value, "number": self.number(value["number"])}
        item["seed"] = len(self.items) + 1
        self.items.append(item)

    def dynamics(self, temperature, time, every=0.05, **more):
        """A section `dynamics`; at least five frames a run."""
        temperature = [_round(t, 3) for t in dict.fromkeys(temperature)]
        time = max(5 * every, round(time * self.amount / every) * every)
        if "equilibrate" in more:
            more["equilibrate"] = round(more["equilibrate"] * min(1.0, max(0.25, self.amount)), 3)
        return {
            "temperature": temperature if len(temperature) > 1 else temperature[0],
            "time": round(time, 6),
            "every": every,
            "timestep": self.step,
            **more,
        }


def _slab_size(lattice, elements, constant, face):
    """[nx, ny, layers] of a slab that is wide and thick."""
    sides = np.diag(lattices.surface(lattice, elements, constant, face, [1, 1, 1])["cell"])
    layers = 2
    while np.ptp(lattices.surface(lattice, elements, constant, face, [1, 1, layers])["positions"][:, 2]) < THICK:
        layers += 2 if lattice in ("diamond", "zincblende") else 1
    return [int(np.ceil(WIDE / sides[0])), int(np.ceil(WIDE / sides[1])), layers]


def other_lattices(lattice, elements):
    """Names of other lattices for these elements, but fcc and hcp where items `stacking` have them."""
    out = []
    for name, sites in lattices.LATTICES.items():
        stacked = {lattice, name} <= {"fcc", "hcp"}
        apart = name == "beta-tin" and lattice != "diamond"
        if len(sites) == len(elements) and name != lattice and not stacked and not apart:
            out.append(name)
    return out


def _other_lattices(items, c, near):
    """Other lattices with as much volume for an atom, of tetrahedral ones denser ones, too, strained and displaced; and
    near the crystal that the teacher relaxes, whose energy the certificate asks for."""
    volume = abs(np.linalg.det(c.frame["cell"])) / len(c.frame["elements"])
    for name, rest in c.others.items():
        shares = (1.0, 0.8) if c.lattice in ("diamond", "zincblende") else (1.0,)
        wide = [(np.round(lattices.constant_of(name, share * volume), 3).tolist(), 0.04, 0.03) for share in shares]
        for constant, strain, rattle in [*wide, (rest, 0.02, 0.006)]:
            unit = lattices.crystal(name, c.elements, constant)
            times = [max(1, math.ceil(2 * near / w)) for w in np.linalg.norm(unit["cell"], axis=1)]
            value = {"lattice": name, "elements": c.elements, "constant": constant, "supercell": times}
            items.add("crystal", value, 12, label="polymorph", strain=strain, rattle=_round(rattle * near))


def _bulk(items, c, near, source, large):
    """Strained, rattled, pressed, hot and molten crystals. source, large: (kind of item, its value)."""
    room = min(ROOM, 0.5 * c.top)
    for strain, rattle, copies in ((0.06, 0.01, 40), (0.02, 0.002, 20), (0.01, 0.025, 40), (0.05, 0.05, 60)):
        items.add(*source, copies, label="strained", strain=strain, rattle=_round(rattle * near))
    runs = {"pressure": 0, "equilibrate": 0.5}
    items.add(
        *source, dynamics={"temperature": [room / 3, room, c.top / 2, c.top], "time": 2.0, **runs}, label="crystal"
    )
    items.add(*large, dynamics={"temperature": [room, c.top], "time": 0.5, "every": 0.1, **runs}, label="large")
    pressures = [_round(share * c.bulk, 1) for share in (-0.02, 0.04, 0.1)]
    pressed = {"temperature": [c.top / 2], "pressure": pressures, "time": 1.0, "equilibrate": 0.5}
    items.add(*source, dynamics=pressed, label="pressed")
    molten = {"temperature": [1.2 * c.melting, 1.7 * c.melting], "hot": _round(4 * c.melting), "pressure": 0}
    molten["equilibrate"] = 3.0
    items.add(*source, dynamics={**molten, "time": 1.5, "every": 0.1, "runs": 2}, label="liquid")
    held = {"time": 0.5, "every": 0.1}
    at = {"temperature": [room, c.top], "runs": 5, **runs}
    items.add(*source, dynamics={**held, **at}, label="crystal", split="test")
    items.add(*source, dynamics={**held, **molten, "runs": 3}, label="liquid", split="test")


def _point_defects(items, c, near):
    room, base = min(ROOM, 0.5 * c.top), {"lattice": c.lattice, "elements": c.elements, "constant": c.constant}
    cell = SUPERCELL.get(c.lattice, [3, 3, 3])
    chain = {"rattle": _round(0.015 * near), "relax": 4}
    for remove in range(1, len(c.elements) + 1):
        vacancy = {**base, "supercell": cell, "remove": remove}
        items.add("vacancy", vacancy, 15, {"temperature": [room, 0.7 * c.top], "time": 1.0}, **chain)
        if remove == 1:
            items.add("vacancy", {**vacancy, "hop": [0.2, 0.35, 0.5]}, 8, rattle=chain["rattle"], strain=0.01)
    for add in c.elements:
        kinds = ["hole", "110", "111"]
        if len(c.elements) == 1:
            kinds = [k for k in defects.INTERSTITIALS if c.lattice in defects.WITH_HOLES.get(k, lattices.LATTICES)][:-1]
        value = {**base, "supercell": cell, "kind": [int(k) if k.isdigit() else k for k in kinds], "add": add}
        items.add("interstitial", value, 8, {"temperature": [0.5 * c.top], "time": 0.5}, **chain)


def _planar(items, c, near):
    room, base = min(ROOM, 0.5 * c.top), {"lattice": c.lattice, "elements": c.elements, "constant": c.constant}
    still = {"strain": 0.01, "rattle": _round(0.02 * near)}
    if c.lattice in SEQUENCES:
        value = {**base, "sequence": SEQUENCES[c.lattice], "size": [3, 3] if len(c.elements) == 1 else [2, 2]}
        items.add("stacking", value, 12, {"temperature": [room, 0.7 * c.top], "time": 0.5}, **still)
    for lattice, plane in defects.PLANES:
        if lattice == c.lattice:
            value = {
                **base,
                "plane": int(plane) if plane[0] != "0" else plane,
                "layers": LAYERS.get(lattice, 6),
                "size": [2, 2],
            }
            items.add("fault", {**value, "shift": [0.25, 0.5, 0.75, 1]}, 8, **still)
            items.add("fault", {**value, "shift": "random", "number": 25}, rattle=_round(0.02 * near))
    for face in FACES.get(c.lattice, lattices.MILLER if c.lattice in lattices.CUBIC else ()):
        size = _slab_size(c.lattice, c.elements, c.constant, face)
        runs = {"temperature": [room, 0.6 * c.top], "time": 1.0}
        value = {**base, "miller": int(face), "size": size, "vacuum": 10}
        items.add("surface", value, dynamics=runs)
        items.add("surface", value, dynamics={**runs, "time": 0.5, "every": 0.1, "runs": 2}, split="test")
    _other_lattices(items, c, near)


def _no_lattice(items, c, near):
    """Structures of files in addition to those of the crystal."""
    room = min(ROOM, 0.5 * c.top)
    for label, share in (("surface", 0.6), ("vacancy", 0.7), ("interstitial", 0.5)):
        if label in c.files:
            chain = (
                {} if label == "surface" else {"rattle": _round(0.015 * near), "relax": 4, "copies": items.number(8)}
            )
            runs = {"temperature": [room, share * c.top], "time": 0.5}
            items.add("files", [c.files[label]], dynamics=runs, label=label, **chain)


def _random(items, frame):
    """Dense boxes and clusters of the elements of a crystal."""
    numbers = materials.counts(frame)
    unit = int(np.gcd.reduce(list(numbers.values())))
    times = max(1, round(32 * unit / len(frame["elements"])))
    box = {e: times * n // unit for e, n in numbers.items()}
    densities = [_round(share * materials.density(frame), 3) for share in (0.8, 1.0, 1.2)]
    spheres = sum(n * (2 * RADII[e]) ** 3 for e, n in numbers.items()) * math.pi / 6
    filled = 1.2 * spheres / abs(np.linalg.det(frame["cell"]))
    most = math.floor(100 * min(1.0, (PACKED / filled) ** (1 / 3))) / 100
    # for training alone: their forces are ten times those of the crystal, and would be all that its errors consist of
    train = {"split": "train"}
    value = {"elements": box, "density": densities, "closest": [min(0.8, most - 0.1), most], "number": 60}
    items.add("dense", value, **train)
    least = 2 if len(numbers) == 1 else 0
    sizes = {e: [least, max(4, 8 // len(numbers))] for e in numbers}
    items.add("cluster", {"elements": sizes, "closest": [CLOSEST, 1.6], "number": 60}, **train)


def crystal(c, name, kind, teacher, size, amount):
    """The recipe of a Crystal."""
    step, near = timestep(c.elements), defects.nearest(c.frame)
    items = _Items(amount, step)
    if c.lattice:
        base = {"lattice": c.lattice, "elements": c.elements, "constant": c.constant}
        large = {**base, "supercell": cells.times_to(c.frame, LARGE)}
        _bulk(
            items, c, near, ("crystal", {**base, "supercell": SUPERCELL.get(c.lattice, [3, 3, 3])}), ("crystal", large)
        )
        _point_defects(items, c, near)
        _planar(items, c, near)
        system = {"crystal": base}
    else:
        _bulk(items, c, near, *(("files", [c.files[which]]) for which in ("crystal", "large")))
        system = {"files": [c.files["unit"]], "kind": "crystal"}
    _no_lattice(items, c, near)
    _random(items, c.frame)
    words = [next(key for key in item if key in KINDS) for item in items.items]
    found = dict.fromkeys(item.get("label", word) for item, word in zip(items.items, words))
    begin = [label for label in found if label not in ("strained", "dense", "cluster", "polymorph")]
    room = min(ROOM, 0.5 * c.top)
    hot = [_round(t, 3) for t in dict.fromkeys((room, c.top, 1.3 * c.top))]
    cutoff = round(min(max(CUTOFF * near, CUTOFFS[0]), CUTOFFS[1]), 1)
    system |= {"name": name.rsplit("-", 1)[0], "temperature": _round(room), "high": _round(c.top, 3)}
    student, rounds = {"architecture": "mace", "size": size, "cutoff": cutoff}, _rounds(begin, hot, step, amount)
    certify = {"minutes": 20, "timestep": step, "systems": [system]}
    return _recipe(name, kind, items, teacher, student, rounds, certify)


KINDS = ("files", "crystal", "vacancy", "interstitial", "stacking", "fault", "surface", "dense", "cluster")


def _recipe(name, kind, items, teacher, student, rounds, certify):
    """The sections in the order of the file. items: _Items, whose amount scales the training as well."""
    steps = max(1000, round(students.filled(student)["steps"] * min(items.amount, 3.0), -2))
    head = {"name": name, "kind": kind, "structures": items.items, "teacher": teacher, "student": student}
    return {**head, "training": {"steps": steps}, "rounds": rounds, "certify": certify}


def _rounds(begin, temperatures, step, amount):
    return {
        "count": 2,
        "from": begin,
        "temperature": temperatures,
        "time": 5,
        "every": 0.05,
        "timestep": step,
        "frames": max(10, round(100 * amount)),
        "steps": max(500, round(4000 * min(amount, 3.0), -2)),
        "learning_rate": 2.0e-3,
    }


def liquid(molecules, density, temperature, name, teacher, size, amount, box=None):
    """The recipe of a liquid. molecules: {name or XYZ file: number}; density: g/cm3; box: a file with a frame of it."""
    items, t, wet = _Items(amount, 0.5), temperature, {"molecules": molecules}
    hot = _round(2 * t, 2)
    runs = {"temperature": [0.93 * t, t, 1.2 * t], "every": 0.1, "equilibrate": 1.5, "hot": _round(1.6 * t, 2)}
    density_ = lambda *shares: [_round(share * density, 3) for share in shares]
    items.add("liquid", {**wet, "density": density_(0.95, 1.0, 1.05)}, dynamics={**runs, "time": 3.0})
    at = {"temperature": [hot], "time": 3.0, "every": 0.1, "equilibrate": 1.5}
    items.add("liquid", {**wet, "density": density_(0.9, 1.1)}, dynamics=at, label="hot")
    few = {m: max(1, n // 4) for m, n in molecules.items()}
    at = {"temperature": [t, 1.3 * t], "time": 2.0, "every": 0.1, "equilibrate": 1.0}
    items.add("liquid", {"molecules": few, "density": _round(0.3 * density)}, dynamics=at, label="vapour")
    if box:
        at = {"temperature": [t], "time": 2.0, "every": 0.1, "equilibrate": 0.5}
        items.add("files", [box], dynamics=at, label="box")
    held = {"temperature": [t], "time": 0.5, "every": 0.1, "equilibrate": 1.5, "runs": 5}
    items.add("liquid", {**wet, "density": _round(density, 3)}, dynamics=held, split="test")
    names, train = list(molecules), {"split": "train"}  # as for crystals: far from what a liquid visits
    for molecule in names:
        kind = ("molecule", molecule) if molecule in structures.MOLECULES else ("files", [molecule])
        items.add(*kind, 30, rattle=0.05, label="molecule")
        items.add(*kind, 30, rattle=0.15, label="distorted", **train)
    for k, one in enumerate(names):
        for other in names[k:]:
            items.add("dimer", {"molecules": [one, other], "number": 60}, **train)
    rounds = _rounds(["liquid", "hot", "vapour"], [_round(t, 3), _round(1.3 * t, 3), hot], 0.5, amount)
    certify = {"minutes": 20, "systems": ["liquid"]}
    return _recipe(name, "liquid", items, teacher, {"size": size, "cutoff": 5.0}, rounds, certify)


def molecule(path, elements, temperature, name, teacher, size, amount):
    """The recipe of a molecule in an XYZ file."""
    step = timestep(elements)
    items, t = _Items(amount, step), temperature
    for rattle in (0.03, 0.1, 0.2):
        items.add("files", [path], 60, rattle=rattle, label="molecule")
    hot = {"temperature": [t, 2 * t, 3 * t], "time": 5.0, "every": 0.05, "runs": 2}
    items.add("files", [path], dynamics=hot, label="molecule")
    held = {"temperature": [t, 2 * t], "time": 1.0, "every": 0.1, "runs": 5}
    items.add("files", [path], dynamics=held, label="molecule", split="test")
    items.add("dimer", {"molecules": [path, path], "number": 60})
    rounds = _rounds(["molecule"], [_round(t, 3), _round(2 * t, 3), _round(3 * t, 3)], step, amount)
    certify = {"minutes": 20, "systems": [{"files": [path], "kind": "molecule", "temperature": _round(t, 3)}]}
    return _recipe(name, "molecule", items, teacher, {"size": size, "cutoff": 5.0}, rounds, certify)
