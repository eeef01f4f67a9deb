"""Makes examples/lammps_inputs/data.water64: 64 water molecules at 1 g/cm3, equilibrated at 300 K with a model.

    .venv/bin/python scripts/make_water_box.py --model models/NAME.yaml

Molecules start randomly turned on a lattice (seed 64), are relaxed, heated to 400 K and cooled to 300 K. The committed file
holds positions and velocities; starting from it needs no equilibration.
"""

import argparse
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))

from mlff_tools.sample import data_file  # noqa: E402
from mlff_tools.structures import molecule_box  # noqa: E402

SCRIPT = """units metal
atom_style atomic
read_data start.data
plugin load {plugin}
pair_style mlff
pair_coeff * * {model} H O
neighbor 1.0 bin
thermo 200
minimize 0.0 0.05 100 500
reset_timestep 0
timestep 0.0005
velocity all create 400 64 mom yes rot yes dist gaussian
fix move all nve
fix bath all langevin 400 300 0.05 65 zero yes
run {hot}
fix bath all langevin 300 300 0.1 66 zero yes
run {cool}
reset_timestep 0
write_data final.data nocoeff
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", required=True, help="model file with H and O")
    parser.add_argument("--plugin", default=os.path.join(ROOT, "build", "mlffplugin.so"))
    parser.add_argument("--out", default=os.path.join(ROOT, "examples", "lammps_inputs", "data.water64"))
    parser.add_argument("--steps", type=int, nargs=2, default=(4000, 6000), help="of cooling and at 300 K")
    args = parser.parse_args()
    lmp = os.path.join(os.path.dirname(sys.executable), "lmp")
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "start.data"), "w", encoding="ascii") as f:
            f.write(data_file(molecule_box("water", 64, 1.0, 64), ["H", "O"]))
        with open(os.path.join(place, "in.lmp"), "w", encoding="ascii") as f:
            f.write(SCRIPT.format(plugin=os.path.abspath(args.plugin), model=os.path.abspath(args.model),
                                  hot=args.steps[0], cool=args.steps[1]))
        subprocess.run([lmp, "-in", "in.lmp", "-log", "none"], cwd=place, check=True, stdin=subprocess.DEVNULL)
        with open(os.path.join(place, "final.data"), encoding="ascii") as f:
            lines = f.read().splitlines()
    lines[0] = f"64 water molecules at 1 g/cm3, equilibrated at 300 K with {os.path.basename(args.model)}; types 1 = H, 2 = O"
    with open(args.out, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
