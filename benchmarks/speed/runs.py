"""Runs one LAMMPS deck on chosen cores and reads its timings.

Every measurement is a fresh `lmp`: a short warm-up run, then the run that is timed. What is read is LAMMPS' own table:
loop time and its parts per step.
"""

import os
import re
import subprocess

from mlff_tools.model.lammps import LammpsError, on_ranks

SECTIONS = ("Pair", "Bond", "Neigh", "Comm", "Output", "Modify", "Other")
WARM_UP_STEPS = 20


def command(lmp, deck, cores, ranks=1):
    """Argument list that runs `deck` on `cores`, one core per rank."""
    words = on_ranks([lmp, "-in", deck, "-log", "none", "-nocite"], ranks, lmp)
    chosen = ",".join(map(str, cores[:ranks]))
    if ranks > 1:
        words[1:1] = ["-bind-to", "user:" + chosen]
    return ["taskset", "-c", chosen, *words]


def run(lmp, deck, cores, ranks=1, environment=None):
    """Standard output of LAMMPS; LammpsError when it fails."""
    env = dict(os.environ, OMP_NUM_THREADS="1", **(environment or {}))
    arguments = command(lmp, deck, cores, ranks)
    done = subprocess.run(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0 or "ERROR" in done.stdout:
        raise LammpsError(f"{' '.join(arguments)}: exit status {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def _last(pattern, text, what):
    found = re.findall(pattern, text)
    if not found:
        raise LammpsError(f"the output of LAMMPS has no {what}:\n{text[-3000:]}")
    return found[-1]


def parse(text):
    """Timings of the last run in LAMMPS' output.

    seconds: loop time per step; sections: seconds per step (mean of the ranks); cpu: share of a processor that each
    rank had, 1.0 on a quiet machine; builds: neighbor lists built in the run; memory: bytes that LAMMPS accounts for.
    """
    loop, ranks, steps, atoms = _last(
        r"Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", text, "loop time"
    )
    steps = int(steps)
    sections = {}
    for name in SECTIONS:
        rows = re.findall(rf"^{name}\s*\|([^|]*)\|([^|]*)\|([^|]*)\|", text, re.MULTILINE)
        if rows:
            numbers = [float(cell) for cell in rows[-1] if cell.strip()]
            sections[name] = numbers[len(numbers) // 2] / steps  # min, avg, max; "Other" has avg alone
    memory = _last(r"Per MPI rank memory allocation \(min/avg/max\) = \S+ \| (\S+) \| ", text, "memory line")
    return {
        "seconds": float(loop) / steps,
        "steps": steps,
        "atoms": int(atoms),
        "ranks": int(ranks),
        "sections": sections,
        "cpu": float(_last(r"([\d.]+)% CPU use", text, "CPU use")) / 100.0,
        "builds": int(_last(r"Neighbor list builds = (\d+)", text, "number of builds")),
        "dangerous": int(_last(r"Dangerous builds(?: not checked|\s*= (\d+))", text, "dangerous builds") or 0),
        "memory": float(memory) * 1024 * 1024 * int(ranks),
    }


def parse_peak(text):
    """Largest resident memory of the process so far, bytes, as `info memory` prints it."""
    return float(_last(r"Maximum resident set size: (\S+) Mbyte", text, "result of `info memory`")) * 1024 * 1024


def parse_thermo(text):
    """Last thermo line as a dictionary of its columns."""
    header = _last(r"^(\s+Step\s.*)$".replace("^", "(?m)^"), text, "thermo output").split()
    rows = [line.split() for line in text.splitlines() if re.match(r"^\s+\d+\s", line)]
    rows = [row for row in rows if len(row) == len(header)]
    return {name: float(value) for name, value in zip(header, rows[-1])}


def parse_style(text):
    """What pair_style mlff printed of itself: model, hash, device, precision, kernel path."""
    facts = {}
    found = re.search(r"model:\s+(\S+) \((.+)\), (\d+) parameters, sha256 (\w+)", text)
    if found:
        facts.update(model=found.group(1), parameters=int(found.group(3)), sha256=found.group(4))
    found = re.search(r"computed on:\s+(\S+), (\S+), kernels (\S+)", text)
    if found:
        facts.update(device=found.group(1), precision=found.group(2), kernels=found.group(3))
    return facts
