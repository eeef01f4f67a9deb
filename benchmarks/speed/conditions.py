"""Under which conditions speed was measured: machine, versions, cores, and what else ran."""

import os
import platform
import re
import subprocess

from mlff_tools.bench import noise
from mlff_tools.model.lammps import LammpsError, cpu_name

from . import ROOT


def choose_cores(core):
    """Cores to use: the wanted one (the last by default) first, then the others downwards."""
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    if core is None:
        return allowed
    if core not in allowed:
        raise LammpsError(f"core {core} cannot be used; possible: {', '.join(map(str, sorted(allowed)))}")
    return [core] + [c for c in allowed if c != core]


def cpu_times():
    """(clock, seconds that all processors were busy since the machine started)."""
    with open("/proc/uptime", encoding="ascii") as file:
        clock = float(file.read().split()[0])
    return clock, sum(noise.ticks())


def others_since(before, share, ranks):
    """Processors' worth of work by others since `before`, when ours had `share` of one for each rank."""
    clock, busy = cpu_times()
    elapsed = max(clock - before[0], 1e-9)
    return max(0.0, (busy - before[1]) / elapsed - share * ranks)


def _output(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _cache(build):
    """Compiler and build type from the CMake cache in the folder of the plugin."""
    path = os.path.join(build, "CMakeCache.txt")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        text = file.read()
    values = dict(re.findall(r"^(CMAKE_BUILD_TYPE|CMAKE_C_COMPILER):\w+=(.*)$", text, re.MULTILINE))
    compiler = _output(values.get("CMAKE_C_COMPILER", "cc"), "--version").splitlines()
    return {"build_type": values.get("CMAKE_BUILD_TYPE", ""), "compiler": compiler[0] if compiler else ""}


def _commit():
    """Commit of the checkout, with '+changes' when the sources differ from it; results of earlier runs do not count."""
    commit = _output("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    sources = [os.path.join(ROOT, name) for name in ("src", "include", "cmake", "models", "CMakeLists.txt")]
    changed = _output("git", "-C", ROOT, "status", "--porcelain", "--", *sources)
    return commit + ("+changes" if changed else "")


def describe(context):
    """Dictionary of the conditions."""
    version = re.search(r"Simulator - (.*)", _output(context.lmp, "-h"))
    versions = {
        "lammps": version.group(1) if version else "",
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "mlff_commit": _commit(),
    }
    return {
        "processor": cpu_name(),
        "n_processors": os.cpu_count(),
        "cores": context.cores[:2],
        "load_average_at_start": os.getloadavg()[0],
        "versions": versions,
        **_cache(os.path.dirname(context.plugin)),
    }
