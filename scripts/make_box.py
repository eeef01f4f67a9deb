"""Makes the boxes of molecules that decks start from: equilibrated liquids, or one molecule in an empty cell.

    python scripts/make_box.py water 64 --model models/NAME.yaml --out examples/lammps_inputs/data.water64
    python scripts/make_box.py water 21 --model models/NAME.yaml --out benchmarks/decks/data.water21
    python scripts/make_box.py benzene 16 --airebo --out benchmarks/decks/data.benzene16
    python scripts/make_box.py benzene 1 --cell 20 --out benchmarks/decks/data.benzene1

A liquid: molecules start randomly turned on a lattice (of benzene a wide one, which is then compressed), are relaxed,
heated to 400 K and cooled to 300 K, with a model or, for benzene, with LAMMPS' AIREBO. The file holds positions and
velocities; starting from it needs no equilibration. With --cell a molecule is put into the middle of a cubic cell as it
is.
"""

import argparse
import os
import subprocess
import tempfile

import numpy as np

from mlff_tools.model.lammps import environment, find_lmp, quoted
from mlff_tools.model.structures import molecule, molecule_box
from mlff_tools.train.lammps_data import data_text

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ELEMENTS = {"water": ["H", "O"], "benzene": ["C", "H"]}
DENSITY = {"water": 1.0, "benzene": 0.876}  # g/cm3, of the liquids at 300 K
START = {"water": 1.0, "benzene": 0.3}  # g/cm3, of the lattice: rings that start too close would be linked

SCRIPT = """units metal
atom_style atomic
read_data start.data
{potential}
neighbor 1.0 bin
thermo 200
min_modify dmax 0.02
minimize 0.0 0.05 200 1000
reset_timestep 0
timestep 0.0005
velocity all create 400 64 mom yes rot yes dist gaussian
fix move all nve
fix bath all langevin 400 300 0.05 65 zero yes
fix press all deform 1 x final 0 {edge} y final 0 {edge} z final 0 {edge} remap x
run {hot}
unfix press
fix bath all langevin 300 300 0.1 66 zero yes
run {cool}
reset_timestep 0
write_data final.data nocoeff
"""


def liquid(args):
    """Lines of the data file of an equilibrated liquid."""
    elements = ELEMENTS[args.molecule]
    if args.airebo:
        potential = f"pair_style airebo 3.0\npair_coeff * * CH.airebo {' '.join(elements)}"
    else:
        potential = (
            f"plugin load {quoted(args.plugin)}\npair_style mlff\n"
            f"pair_coeff * * {quoted(args.model)} {' '.join(elements)}"
        )
    lmp = find_lmp()
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "start.data"), "w", encoding="ascii") as f:
            f.write(data_text(molecule_box(args.molecule, args.number, START[args.molecule], args.seed), elements))
        with open(os.path.join(place, "in.lmp"), "w", encoding="ascii") as f:
            f.write(
                SCRIPT.format(
                    potential=potential,
                    hot=args.steps[0],
                    cool=args.steps[1],
                    edge=molecule_box(args.molecule, args.number, DENSITY[args.molecule], 1)["cell"][0, 0],
                )
            )
        subprocess.run(
            [lmp, "-in", "in.lmp", "-log", "none"],
            cwd=place,
            check=True,
            stdin=subprocess.DEVNULL,
            env=environment(lmp),
        )
        with open(os.path.join(place, "final.data"), encoding="ascii") as f:
            lines = f.read().splitlines()
    source = "AIREBO" if args.airebo else os.path.basename(args.model)
    lines[0] = (
        f"{args.number} {args.molecule} molecules at {DENSITY[args.molecule]:g} g/cm3, equilibrated at 300 K with "
        f"{source}; "
        f"types 1 = {elements[0]}, 2 = {elements[1]}"
    )
    return lines


def single(args):
    """Lines of the data file of one molecule in the middle of an empty cell."""
    kinds, positions = molecule(args.molecule)
    positions = np.round(positions - positions.mean(0) + args.cell / 2, 6)
    elements = ELEMENTS[args.molecule]
    structure = {
        "name": f"one {args.molecule} molecule in an empty cell; types 1 = {elements[0]}, 2 = {elements[1]}",
        "elements": kinds,
        "positions": positions,
        "cell": np.eye(3) * args.cell,
    }
    return data_text(structure, elements, title=structure["name"]).splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule", choices=sorted(ELEMENTS))
    parser.add_argument("number", type=int, help="of molecules")
    parser.add_argument("--out", required=True, help="data file to write")
    parser.add_argument("--model", help="model file that knows the elements")
    parser.add_argument(
        "--airebo", action="store_true", help="equilibrate with LAMMPS' AIREBO instead of a model (benzene)"
    )
    parser.add_argument("--cell", type=float, help="edge of the cell of a single molecule, A")
    parser.add_argument("--plugin", default=os.path.join(ROOT, "build", "mlffplugin.so"))
    parser.add_argument("--seed", type=int, default=64, help="of the random start; another one where molecules overlap")
    parser.add_argument("--steps", type=int, nargs=2, default=(4000, 6000), help="of cooling and at 300 K")
    args = parser.parse_args()
    if args.cell and args.number != 1:
        parser.error("--cell is for one molecule: give 1 as the number")
    if not args.cell and bool(args.model) == args.airebo:
        parser.error("a liquid needs either --model FILE or --airebo")
    if args.airebo and args.molecule != "benzene":
        parser.error("AIREBO is a potential of hydrocarbons: use --model for water")
    lines = single(args) if args.cell else liquid(args)
    with open(args.out, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
