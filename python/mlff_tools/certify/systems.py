"""Systems of a certificate: the liquids and crystals of a recipe, or those that it names for the certificate."""

import os

from ..train import build, labels, lattices
from ..train.extxyz import tag
from . import lattice
from .sides import number
from .work import CertifyError

KINDS = ("liquid", "crystal", "molecule")
SYSTEM = ("name", "kind", "temperature", "pressure", "high")  # keys in addition to those of a structure
NO_SYSTEMS = ("crystal", "dimer", "strained", "surface", "vacancy")  # config_types
NO_SYSTEMS += ("stacking", "fault", "interstitial", "dense", "cluster")


class System:
    """A structure that is measured. kind: liquid, crystal or molecule; unit: the unit cell of a crystal, else None;
    frame: what runs; high: temperature of the hot run of a crystal; phase: as `Al fcc`, where the recipe names it;
    packed: whether its atoms are not at rest yet."""

    def __init__(self, name, kind, frame, temperature, pressure, high=0.0, unit=None, packed=False, phase=None):
        self.name, self.kind, self.unit = name, kind, unit and {**bare(unit), "name": name}
        self.frame = {**bare(frame), "name": name}
        self.temperature, self.pressure, self.high = float(temperature), float(pressure), float(high)
        self.packed, self.phase = packed, phase

    @property
    def inputs(self):
        """What results depend on."""
        return [labels.structure_key(self.frame), self.unit and labels.structure_key(self.unit)]


def bare(frame):
    """The structure without labels."""
    return {key: frame[key] for key in ("elements", "positions", "cell")}


def formula(frame):
    """As SiO2, of the whole structure."""
    names = sorted(set(frame["elements"]))
    return "".join(f"{e}{n if n > 1 else ''}" for e, n in ((e, frame["elements"].count(e)) for e in names))


def kind_of(item):
    """What an item of a recipe is: as it says, by its label, or by what makes it; None where that is open."""
    said = item.get("kind") or item.get("label")
    return said if said in KINDS else next((key for key in KINDS if key in item), None)


def repeated(unit, least):
    """The unit cell repeated until it has so many atoms."""
    return lattice.repeated(unit, lattice.times_to(unit, least))


def _temperatures(item):
    """Those of the dynamics of an item, K."""
    given = (item.get("dynamics") or {}).get("temperature") or []
    return [float(t) for t in given] if isinstance(given, list) else [float(given)]


def _nearest(values, wanted):
    return min(values, key=lambda v: abs(v - wanted)) if values else wanted


def _hottest(frames, config_type):
    """The highest temperature of labelled frames of a type, or 0."""
    found = [number(f, "temperature") for f in frames if tag(f, "config_type") == config_type]
    return max([t for t in found if t is not None], default=0.0)


def crystal(item, unit, settings, name):
    """The system of a crystal."""
    if unit["cell"] is None:
        raise CertifyError(f"{name}: a crystal must be periodic")
    temperatures = _temperatures(item)
    t = item.get("temperature") or _nearest(temperatures, settings["temperature"])
    high = item.get("high") or 0.0
    if 0.0 < high <= t and "dynamics" not in item:  # as the item says; that of labels may be lower
        raise CertifyError(f"{name}: high: {high:g} K is not above the temperature, {t:g} K")
    high = high if high > t else 1.5 * t
    frame = repeated(unit, settings["atoms"])
    phase = _crystal_name(item) if "crystal" in item else None
    return System(name, "crystal", frame, t, item.get("pressure", settings["pressure"]), high, unit, phase=phase)


def _unit(item):
    return lattices.crystal(**{key: value for key, value in item["crystal"].items() if key != "supercell"})


def _crystal_name(item):
    return f"{''.join(item['crystal']['elements'])} {item['crystal']['lattice']}"


def _stem(item, frame, kind):
    if len(item.get("files", ())) == 1:
        return os.path.splitext(os.path.basename(item["files"][0]))[0]
    return f"{formula(frame)} {kind}"


def chosen(items, settings, place, python, known=()):
    """Systems of the items [(where, item)] of certify.systems; a word stands for one of `known`, by name."""
    out = []
    for where, item in items:
        if isinstance(item, str):
            if item not in known:
                raise CertifyError(f"{where}: the section structures has no {item!r}, but {', '.join(known) or 'none'}")
            out.append(known[item])
            continue
        kind = kind_of(item)
        if kind is None:
            raise CertifyError(f"{where}: what is it? Give kind: liquid, crystal or molecule")
        if kind == "crystal" and "crystal" in item:
            out.append(crystal(item, _unit(item), settings, item.get("name") or _crystal_name(item)))
            continue
        made = build.build({k: v for k, v in item.items() if k not in SYSTEM}, where, place, python)[-1]
        name = item.get("name") or _stem(item, made, kind)
        t = item.get("temperature") or number(made, "temperature") or settings["temperature"]
        if kind == "crystal":
            out.append(crystal(item, made, settings, name))
        else:
            pressure = item.get("pressure", settings["pressure"])
            out.append(System(name, kind, made, t, pressure, packed="liquid" in item))
    return _named_apart(out)


def _liquid(label, item, settings, frames, where, place, python):
    """The system of a liquid: the last labelled frame near the temperature, else as the item begins; None where that
    is no liquid yet."""
    mine = [f for f in frames if tag(f, "config_type") == label and f["cell"] is not None]
    hot = {number(f, "temperature") for f in mine} - {None}
    t = _nearest(sorted(hot) or _temperatures(item), settings["temperature"])
    if mine:
        matching = [f for f in mine if number(f, "temperature") == t] or mine
        return System(label, "liquid", matching[-1], t, settings["pressure"])
    if "crystal" in item:
        return None
    plain = {k: v for k, v in item.items() if k not in ("strain", "rattle", "copies", "relax", "dynamics")}
    if "liquid" in plain and "density" not in plain["liquid"]:
        density = item["dynamics"]["density"]
        plain["liquid"] = {**plain["liquid"], "density": density}
    made = build.build(plain, where, place, python)
    return System(label, "liquid", made[len(made) // 2], t, settings["pressure"], packed="liquid" in item)


def _crystals(items, settings, frames, place, python):
    """Each crystal of a recipe once, with the temperatures of all items that have it; without those of dynamics by
    another potential than the teacher, where there are others."""
    found = {}
    for where, item in items:
        if kind_of(item) != "crystal":
            continue
        if "crystal" in item:
            unit, name = _unit(item), _crystal_name(item)
        else:
            unit = build.build({"files": item["files"]}, where, place, python)[-1]
            name = _stem(item, unit, "crystal")
        found.setdefault(labels.structure_key(unit), (unit, name, []))[2].append(item)
    out = []
    for unit, name, mine in found.values():
        mine = [item for item in mine if "by" not in (item.get("dynamics") or {})] or mine
        temperatures = [t for item in mine for t in _temperatures(item)]
        hot = [_hottest(frames, kind) for kind in {"crystal", *(item.get("label", "crystal") for item in mine)}]
        item = {"high": max([*hot, *temperatures]), "dynamics": {"temperature": temperatures}}
        item |= {"crystal": mine[0]["crystal"]} if "crystal" in mine[0] else {}
        out.append(crystal(item, unit, settings, name))
    return out


def of_recipe(items, settings, frames, place, python):
    """Systems of the items [(where, item)] of the section structures: each crystal and each liquid once; molecules
    where there is nothing else."""
    out = _crystals(items, settings, frames, place, python)
    liquids, mixtures = {}, {}
    for where, item in items:
        label = item.get("label") or "liquid"
        if kind_of(item) == "liquid" and "liquid" in item:
            other = mixtures.setdefault(label, item["liquid"]["molecules"])
            if set(other) != set(item["liquid"]["molecules"]):
                raise CertifyError(
                    f"{where}: another liquid has the label {label} as well: give each a label of its own"
                )
        if kind_of(item) == "liquid" and liquids.get(label) is None:
            liquids[label] = _liquid(label, item, settings, frames, where, place, python)
    out += [s for s in liquids.values() if s]
    if not out:
        molecules = [(where, {"molecule": i["molecule"]}) for where, i in items if "molecule" in i]
        return chosen(molecules, settings, place, python)
    return _named_apart(out)


def of_labels(settings, frames):
    """Systems of labelled frames alone: of each type that is no crystal (whose unit cell is not known) the last frame;
    a periodic one without a type counts as a liquid."""
    out = []
    last = {tag(f, "config_type") or ("molecule" if f["cell"] is None else "liquid"): f for f in frames}
    for label, frame in last.items():
        if label in NO_SYSTEMS:
            continue
        kind = "molecule" if frame["cell"] is None else "liquid"
        t = number(frame, "temperature") or settings["temperature"]
        out.append(System(label, kind, frame, t, settings["pressure"]))
    return out


def _named_apart(systems):
    """The systems, with numbers appended to duplicate names."""
    names = [s.name for s in systems]
    for k, s in enumerate(systems):
        if names.count(s.name) > 1:
            s.name = f"{s.name} ({names[: k + 1].count(s.name)})"
    return systems
