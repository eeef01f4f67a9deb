"""Lattice constants, energies and bulk moduli of 59 cubic crystals, against published PBE values.

  benchmarks/studies/lattice_constants.py [--model FILE] [--only SOLID ...]   writes results/MODEL-lattice-constants.txt
  benchmarks/studies/lattice_constants.py --card            writes the table of models/README.md from that file

Each crystal is one run of examples/lammps_inputs/in.eos (energies of nine volumes, in double precision) that starts
from the published value. References and their sources are in lattice_constants_pbe.csv. 1 to 2 minutes on one core.
"""

import argparse
import csv
import datetime
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from mlff_tools.model.lammps import LammpsError, cpu_name, environment, find_lmp, find_plugin, variable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "examples", "lammps_inputs")
REFERENCE = os.path.join(ROOT, "benchmarks", "studies", "lattice_constants_pbe.csv")
CARD = os.path.join(ROOT, "models", "README.md")
BEGIN, END = "<!-- lattice constants, measured with the engine: begin -->", "<!-- lattice constants: end -->"
# Rows of the card: of the file all.
WELL_KNOWN = (
    "Al Ni Cu Pd Ag Pt Au Pb Li Na Rb V Fe Nb Mo Ta W C Si Ge SiC GaAs InP BN LiF NaCl MgO CaO TiN NiAl".split()
)
LINE = re.compile(r"^(.+) (\w+): a = (\S+) A, E = (\S+) eV/atom, V = \S+ A\^3/atom, B = (\S+) GPa$", re.M)


def references():
    """Rows of the table of published values: solid, structure, haas, delta, bulk."""
    with open(REFERENCE, encoding="utf-8") as f:
        return list(csv.DictReader(line for line in f if not line.startswith("#")))


def equation_of_state(args, row, place):
    """(lattice constant, energy per atom, bulk modulus, version of LAMMPS) of one crystal by in.eos."""
    lmp = find_lmp(args.lmp)
    variables = {
        "plugin": variable(find_plugin(args.build)),
        "model": variable(args.model),
        "crystal": row["structure"],
        "elements": " ".join(re.findall("[A-Z][a-z]?", row["solid"])),
        "a": row["haas"],
    }
    words = [lmp, "-in", os.path.join(FOLDER, "in.eos"), "-nocite", "-log", "none"]
    for name, value in variables.items():
        words += ["-var", name, value]
    done = subprocess.run(
        words, cwd=place, env=environment(lmp), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    found = LINE.search(done.stdout)
    if done.returncode or not found:
        raise LammpsError(f"{row['solid']}: in.eos failed\n{done.stdout[-2000:]}")
    version = re.match(r"LAMMPS \(([^)]*?)(?: -|\))", done.stdout)
    return *(float(x) for x in found.groups()[2:]), version[1] if version else "?"


def text_of(args, rows, results):
    """The file of results."""
    model = os.path.splitext(os.path.basename(args.model))[0]
    lines = [
        f"# {model}: lattice constants (A), energies (eV/atom), bulk moduli (GPa); in.eos, precision fp64",
        f"# {datetime.date.today()}, LAMMPS {results[0][3]}, {cpu_name()}; by benchmarks/studies/lattice_constants.py",
        "# PBE: Haas, Tran, Blaha, Phys. Rev. B 79, 085104 (2009) with erratum; Delta: Science 351, aad3000 (2016).",
        f"# {summary(rows, results)}",
        "# solid  structure        a     PBE   off %   Delta   off %    energy       B  PBE B   off %",
    ]
    for row, (a, energy, bulk, _) in zip(rows, results):
        pbe, delta, pbe_bulk = float(row["haas"]), row["delta"], float(row["bulk"])
        more = f"{delta:>7} {100 * (a / float(delta) - 1):+7.2f}" if delta else f"{'-':>7} {'-':>7}"
        lines.append(
            f"{row['solid']:8} {row['structure']:10} {a:8.4f} {pbe:7.3f} {100 * (a / pbe - 1):+7.2f} {more} "
            f"{energy:9.4f} {bulk:7.1f} {pbe_bulk:6g} {100 * (bulk / pbe_bulk - 1):+7.1f}"
        )
    return "\n".join(lines) + "\n"


def summary(rows, results):
    """One line about all."""
    off = np.array([100 * (x[0] / float(row["haas"]) - 1) for row, x in zip(rows, results)])
    bulk = np.array([100 * (x[2] / float(row["bulk"]) - 1) for row, x in zip(rows, results)])
    worst = ", ".join(f"{rows[k]['solid']} {off[k]:+.2f} %" for k in np.argsort(-abs(off))[:3])
    return (
        f"{len(off)} crystals: mean {off.mean():+.2f} %, mean absolute {abs(off).mean():.2f} %, "
        f"{(abs(off) <= 0.5).sum()} within 0.5 %, farthest {worst}; bulk moduli: mean absolute {abs(bulk).mean():.0f} %"
    )


def write_card(path):
    """Puts the well-known rows of the file of results into models/README.md."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    rows = {line.split()[0]: line.split() for line in lines if not line.startswith("#")}
    date = re.match(r"# ([-\d]+)", lines[1])[1]
    table = ["| | structure | a, A | PBE, A | off, % | B, GPa | PBE, GPa |", "|---|---|---:|---:|---:|---:|---:|"]
    for solid in WELL_KNOWN:
        name, structure, a, pbe, off, *_, bulk, pbe_bulk, _ = rows[solid]
        table.append(f"| {name} | {structure} | {float(a):.3f} | {pbe} | {off} | {float(bulk):.0f} | {pbe_bulk} |")
    body = (
        f"Lattice constants against published PBE values ({date}; {lines[3][2:]}):\n\n" + "\n".join(table) + "\n\n"
        "PBE: P. Haas, F. Tran, P. Blaha, Phys. Rev. B 79, 085104 (2009) with its erratum, Phys. Rev. B 79, 209902 "
        "(2009), as tabulated in the Atomic Simulation Environment; bulk moduli there as a private communication of "
        "F. Tran.\n"
        "All rows, a second reference for elements, and energies: "
        f"[{os.path.basename(path)}](../benchmarks/results/{os.path.basename(path)}). Again: `.venv/bin/python "
        "benchmarks/studies/lattice_constants.py`.\n"
    )
    with open(CARD, encoding="utf-8") as f:
        before, rest = f.read().split(BEGIN)
    text = f"{before}{BEGIN}\n{body}{END}{rest.split(END)[1]}"
    with open(CARD, "w", encoding="utf-8") as f:
        f.write(text)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "nequix-oam-1-pft.yaml"))
    parser.add_argument("--only", nargs="+", metavar="SOLID", help="some of the crystals, printed and not written")
    parser.add_argument("--card", action="store_true", help="only write the table of models/README.md")
    parser.add_argument("--lmp")
    parser.add_argument("--build", help="build folder or plugin")
    args = parser.parse_args(argv)
    name = os.path.splitext(os.path.basename(args.model))[0]
    path = os.path.join(ROOT, "benchmarks", "results", f"{name}-lattice-constants.txt")
    if args.card:
        write_card(path)
        return 0
    rows = [row for row in references() if not args.only or row["solid"] in args.only]
    missing = set(args.only or ()) - {row["solid"] for row in rows}
    if missing:
        raise SystemExit(f"--only {' '.join(sorted(missing))}: not in {os.path.basename(REFERENCE)}")
    with tempfile.TemporaryDirectory() as place:
        results = [equation_of_state(args, row, place) for row in rows]
    text = text_of(args, rows, results)
    sys.stdout.write(text)
    if not args.only:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LammpsError as e:
        sys.exit(f"lattice_constants: {e}")
