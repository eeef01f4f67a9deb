"""The published values that certificates print: schema, sources, plausible sizes, no duplicates."""

import collections
import pathlib
import re

import pytest
import yaml

import mlff_tools.certify
from mlff_tools.model import structures

FILE = pathlib.Path(mlff_tools.certify.__file__).with_name("reality.yaml")
KEYS = {"quantity", "group", "value", "temperature", "kind", "source"}
SCALARS = {
    "bulk_modulus": (5, 500),  # GPa
    "vacancy_energy": (0.3, 6),  # eV
    "migration_barrier": (0.01, 3),
    "melting_temperature": (200, 4000),  # K
    "density": (0.5, 2),  # g/cm3
    "diffusion": (0.1, 10),  # 1e-9 m2/s
    "heat_of_vaporisation": (10, 80),  # kJ/mol
}
GROUPS = {
    "lattice_constant": (r"[abc]", 2, 15),  # A
    "elastic_constants": (r"C[1-6][1-6]", 1, 600),  # GPa
    "phonons": (r"[A-Z][1-9]", 0.5, 30),  # THz
    "interstitial_energy": (r"1[01][01]|hexagonal|tetrahedral|octahedral", 0.5, 8),  # eV
    "surface_energy": (r"1[01][01]|mean", 0.2, 4),  # J/m2
    "fault_energy": (r"intrinsic|unstable|twin", 5, 500),  # mJ/m2
    "polymorph_energy": (r"fcc|hcp|dhcp|bcc|diamond|hexagonal diamond", -500, 1000),  # meV/atom
    "thermal_expansion": (r"300 K", 0.1, 100),  # 1e-6/K
    "heat_capacity": (r"300 K", 10, 100),  # J/mol/K of formula units
    "rdf_peak": (r"[A-Z][a-z]?-[A-Z][a-z]?", 0.8, 5),  # A
    "rdf_height": (r"[A-Z][a-z]?-[A-Z][a-z]?", 1, 6),
}
KINDS = {"experiment", "PBE", "PBEsol", "PBE0", "SCAN", "r2SCAN", "HSE06", "RPA", "CCSD(T)", "GGA"}
REALITY = yaml.safe_load(FILE.read_text(encoding="utf-8"))
ENTRIES = [(material, entry) for material, entries in REALITY.items() for entry in entries]
NAMES = [" ".join(str(x) for x in (m, e["quantity"], e.get("group", ""), e["kind"])) for m, e in ENTRIES]


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@pytest.mark.parametrize("material,entry", ENTRIES, ids=NAMES)
def test_entry(material, entry):
    assert KEYS - {"group"} <= set(entry) <= KEYS
    assert entry["kind"] in KINDS
    assert number(entry["value"]) and number(entry["temperature"]) and 0 <= entry["temperature"] < 4000
    if entry["quantity"] in SCALARS:
        assert "group" not in entry
        low, high = SCALARS[entry["quantity"]]
    else:
        pattern, low, high = GROUPS[entry["quantity"]]
        assert isinstance(entry["group"], str) and re.fullmatch(pattern, entry["group"])
    assert low <= entry["value"] <= high


@pytest.mark.parametrize("material,entry", ENTRIES, ids=NAMES)
def test_source_has_author_work_and_year(material, entry):
    source = entry["source"].split(";")[0]
    assert re.search(r"\b(19[3-9]\d|20[0-2]\d)\b", source), "no year"
    author = re.match(r"([A-Z]\.[ -]?)+([A-Z][\w-]+|[Dd]e [A-Z]\w+)( et al\.)?, ", source)
    assert author or source.startswith("CRC Handbook"), "no author"
    assert len(source) - (author.end() if author else 0) > len("Nature 1 (1970)"), "no journal or book"


def test_no_duplicates():
    keys = [(m, e["quantity"], e.get("group"), e["temperature"], e["kind"]) for m, e in ENTRIES]
    assert [k for k, n in collections.Counter(keys).items() if n > 1] == []


def test_materials_are_named_as_systems():
    crystal = r"([A-Z][a-z]?\d*)+ (fcc|bcc|hcp|diamond|zincblende|rocksalt|quartz|argyrodite)"
    for material in REALITY:
        name = material.removesuffix(" liquid")
        assert re.fullmatch(crystal, material) or (name != material and name in structures.MOLECULES), material


def test_cubic_elastic_constants_agree_with_bulk_moduli():
    """B = (C11 + 2 C12) / 3 of one kind and temperature, where both are there, within 5 %."""
    compared = 0
    for material, entries in REALITY.items():
        values = {(e["quantity"], e.get("group"), e["temperature"], e["kind"]): e["value"] for e in entries}
        for (quantity, _, temperature, kind), bulk in values.items():
            c11, c12 = (values.get(("elastic_constants", c, temperature, kind)) for c in ("C11", "C12"))
            if quantity == "bulk_modulus" and c11 and c12 and not material.endswith("quartz"):
                assert abs((c11 + 2 * c12) / 3 / bulk - 1) < 0.05, (material, temperature, kind)
                compared += 1
    assert compared >= 5


def test_experiments_lie_near_calculations():
    """Low-temperature lattice constants of experiment and density functionals differ by less than 3 %."""
    compared = 0
    for material, entries in REALITY.items():
        found = {e["kind"]: e["value"] for e in entries if e["quantity"] == "lattice_constant" and not e["temperature"]}
        for kind, value in found.items():
            if kind != "experiment" and "experiment" in found:
                assert abs(value / found["experiment"] - 1) < 0.03, (material, kind)
                compared += 1
    assert compared >= 5
