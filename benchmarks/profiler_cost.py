"""What fix mlffprof costs per step: an almost empty run (32 atoms, pair_style zero) with and without it, in turns.

    .venv/bin/python benchmarks/profiler_cost.py --plugin build/mlffplugin.so

Prints, for each way to use the fix, the median over repeats of (time with - time without) / steps in microseconds, and the
spread of the repeats. Each repeat is one LAMMPS that runs all cases one after the other, so that they share its conditions.
The first line, twice the same run without the fix, shows what the machine's noise is.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

HEAD = """plugin load {plugin}
units metal
atom_style atomic
lattice fcc 4.0
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
mass 1 40
pair_style zero 3.0
pair_coeff * *
velocity all create 10 1
neigh_modify every 1000 delay 1000 check no
thermo 0
fix move all nve
run {steps} post no
"""
CASES = (("without, again", ""),
         ("components no, no samples", "fix p all mlffprof 1000000 components no memory no energy no table no"),
         ("components yes, no samples", "fix p all mlffprof 1000000 memory no energy no table no"),
         ("components no, every 1000", "fix p all mlffprof 1000 components no table no"),
         ("components yes, every 10", "fix p all mlffprof 10 table no"))


def deck(plugin, steps):
    text = HEAD.format(plugin=plugin, steps=steps)
    for _, fix in CASES:
        text += f"run {steps} post no\n"    # the run that the next one is compared with
        text += f"{fix}\nrun {steps} post no\n" + ("unfix p\n" if fix else "")
    return text


def loop_times(lmp, plugin, steps):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "in.cost"), "w", encoding="utf-8") as f:
            f.write(deck(plugin, steps))
        done = subprocess.run([lmp, "-in", "in.cost", "-log", "none", "-nocite"], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    times = [float(t) for t in re.findall(r"Loop time of ([0-9.e+-]+)", done.stdout)]
    if done.returncode or len(times) != 1 + 2 * len(CASES):
        sys.exit(f"LAMMPS did not run the deck:\n{done.stdout[-2000:]}")
    return times[1:]    # the first run is warm-up


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", default="build/mlffplugin.so")
    parser.add_argument("--lmp", default=os.path.join(os.path.dirname(sys.executable), "lmp"))
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if not os.path.exists(options.plugin):
        sys.exit(f"there is no plugin {options.plugin}: build it with `make build`, or give --plugin")
    costs = [[] for _ in CASES]
    base = []
    for _ in range(options.repeats):
        times = loop_times(options.lmp, os.path.abspath(options.plugin), options.steps)
        for k, values in enumerate(costs):
            values.append(1e6 * (times[2 * k + 1] - times[2 * k]) / options.steps)
            base.append(1e6 * times[2 * k] / options.steps)
    print(f"step without the fix: median {statistics.median(base):.2f} us; {options.repeats} repeats of {options.steps} steps")
    print(f"{'fix mlffprof':32} {'us per step':>12} {'smallest':>9} {'largest':>9}")
    for (name, _), values in zip(CASES, costs):
        print(f"{name:32} {statistics.median(values):12.3f} {min(values):9.3f} {max(values):9.3f}")


if __name__ == "__main__":
    main()
