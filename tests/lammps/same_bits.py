"""Checks that two plugins give the same bits, for changes that must not change results. Not run by `make test`.

    python tests/lammps/same_bits.py OLD/mlffplugin.so NEW/mlffplugin.so [--ranks 1 2 4]

Energy, pressure, forces, energies and stress of atoms of every model of the LAMMPS tests, in fp32 and fp64, newton on
and off, with all ways of features between ranks; and trajectories with new lists and atoms that change their rank. A
run of the harness has one plugin, so each is started apart and prints what it finds with all digits.
"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = ("precision fp32", "precision fp64", "node_memory off")
DYNAMICS = """neighbor 0.5 bin
neigh_modify every 2 delay 0 check no
velocity all create 300 4711
velocity all set 500 0 0 sum yes
timestep 0.00005
fix 1 all nve
thermo 5
thermo_style custom step pe press
thermo_modify format float %.17g
run 60
"""


def cases():
    """Cases of the harness, with models in this folder."""
    from harness import Case, crystal, mlff, water
    from models import CONSERVATIVE, KINDS, zoo

    files = zoo(pathlib.Path("."))
    plain = {"box": water(3, tilt=(1.0, 0.7, -0.9)), "line": water((12, 1, 1))}
    of_orb = {"box": water((3, 2, 2)), "crystal": crystal()}
    for model, options, newton in itertools.product(KINDS, OPTIONS, ("on", "off")):
        for kind, system in (of_orb if model == "orb" else plain).items():
            name = f"{model}_{kind}_{options.replace(' ', '_')}_{newton}"
            yield Case(
                name,
                system,
                mlff(files[model], options=options),
                newton=newton,
                per_atom=model in CONSERVATIVE,
                before="processors * 1 1" if kind == "line" else "",
            )


def measure(ranks):
    """Prints the results of the plugin of the environment."""
    from harness import launch, run

    found = list(cases())
    for name, r in run(found, ".", ranks).items():
        numbers = [r.energy, *r.pressure, *(x for a in (r.f, r.eatom, r.stress) for x in a.ravel())]
        print(name, *(float(x).hex() for x in numbers))
    for case in found:
        if "_line_" in case.name:
            output = launch(case.text(".", single_point=False) + DYNAMICS, ".", ranks)
            rows = [line for line in output.splitlines() if len(line.split()) == 3 and line.split()[0].isdigit()]
            assert len(rows) > 12, output[-3000:]
            print("dynamics", case.name, *rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugins", nargs="*")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]
    if args.measure:
        measure(args.measure)
        return 0
    n_bad = 0
    for ranks in args.ranks:
        lines = []
        for plugin in args.plugins:
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "MLFF_PLUGIN": os.path.abspath(plugin)}
                done = subprocess.run(
                    [sys.executable, os.path.abspath(__file__), "--measure", str(ranks)],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
            lines.append(done.stdout.splitlines())
        old, new = lines
        assert len(old) == len(new) and len(old) > 30, (len(old), len(new))
        bad = [a.split()[0:2] for a, b in zip(old, new) if a != b]
        numbers = sum(len(line.split()) - 1 for line in old)
        print(f"{ranks} ranks: {len(old)} cases, {numbers} numbers, {len(bad)} cases differ: {bad}")
        n_bad += len(bad)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
