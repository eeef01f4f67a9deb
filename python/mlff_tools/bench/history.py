"""mlff bench --history DIR: one file per machine, DIR/MACHINE.jsonl, to which each suite appends a record per case.

A line is one JSON object: what was measured (the table of the suite, and counted work), on which commit, and with what
it may be compared (settings, kernels, precision, LAMMPS). Lines are written in one go, under a lock; one that a killed
run left incomplete is passed over by readers. `mlff report` draws the trend.
"""

import fcntl
import json
import os
import platform
import re
import subprocess
import typing

from ..model import files, modelfile
from ..model.lammps import LammpsError
from . import noise, profiles
from .profiles import ProfileError, get, number
from .results import average

FORMAT, ENDING = "mlff-history/1", ".jsonl"
HEAD = f'{{"format": "{FORMAT}", '
NEEDED = ("date", "commit", "dirty", "case", "build", "median_ms", "us_per_atom", "n_atoms", "quiet", "settings")
ADVICE = "give --history another folder, or move the file away"


class Build(typing.NamedTuple):
    """What is measured: commit (40 digits, or the name given), whether files differ from it, 16 digits of the SHA-256
    of the plugin (None without one)."""

    commit: str
    dirty: bool
    digest: str


def machine():
    """Name of this kind of machine: processor, family and model, number of processors, instruction set. Not its own
    name, and nothing else that tells it from others of its kind."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            rows = dict(re.findall(r"^([^:\n\t]+)\t*: (.*)$", f.read(), re.MULTILINE))
    except OSError:
        rows = {}
    flags = set(rows.get("flags", "").split())
    isa = "avx512" if "avx512f" in flags else "avx2" if {"avx2", "fma"} <= flags else platform.machine()
    family = [rows[key] for key in ("cpu family", "model") if key in rows]
    name = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", rows.get("model name", platform.processor()).lower())
    words = [name, ".".join(family), f"{os.cpu_count()}-processors", isa]
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(words)).strip("-")


def _git(folder, *words):
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    except OSError as e:
        return None, f"git: {e.strerror}"
    return (
        (done.stdout, "") if done.returncode == 0 else (None, (done.stderr.strip().splitlines() or ["git failed"])[0])
    )


def build_of(plugin, given, written=()):
    """The Build of a plugin: the commit given, else that of the git working tree that the plugin lies in. Folders of
    `written` hold results, which make no tree dirty. LammpsError when there is no commit to be found."""
    digest = modelfile.sha256_of(plugin)[:16] if plugin else None
    if given is not None and not given.strip():
        raise LammpsError("--commit is empty: give the commit of the build, or leave --commit out")
    if given:
        return Build(given, False, digest)
    folder = os.path.dirname(os.path.abspath(plugin)) if plugin else os.getcwd()
    head, why = _git(folder, "rev-parse", "HEAD", "--show-toplevel")
    if head is None:
        raise LammpsError(
            f"--history: {folder} tells no commit ({why}): say with --commit what the build was made of, for example "
            "--commit $(git rev-parse HEAD)"
        )
    commit, top = head.splitlines()
    changed, _ = _git(top, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
    paths = [os.path.join(os.path.realpath(top), row[3:]) for row in (changed or "").split("\0") if row]
    results = tuple(os.path.realpath(w) + os.sep for w in written if w)
    return Build(commit, any(not path.startswith(results) for path in paths), digest)


def record(row, reports, build, args):
    """The record of a case: `row` of suite.json and the reports of its repeats."""
    report = profiles.read(os.path.join(args.out, row["file"]))
    context, median = report["context"], number(row["median_ms"])
    of_model = report["model_name"] and args.reference
    return {
        "format": FORMAT,
        "date": reports[0]["timestamp"],
        "commit": build.commit,
        "dirty": build.dirty,
        "case": row["case"].removesuffix("-A") if args.by_build else row["case"],
        "potential": row["potential"],
        "median_ms": median,
        "mean_ms": average(number(r["mean_latency_ms"]) for r in reports),
        "us_per_atom": 1000 * median / row["n_atoms"] if median and row["n_atoms"] else None,
        "interval": row["interval"],
        "quiet": None if row["interval"] is None else row["interval"] <= noise.NARROW,
        **{
            key: row[key]
            for key in ("medians_ms", "n_atoms", "ranks", "threads", "others", "stolen", "drift", "memory")
        },
        "memory_peak_gb": number(report.get("memory_peak_gb")),
        "ensemble": get(row, "ensemble", "verdict"),
        "missed": [t["metric"] for t in report.get("targets") or [] if t["status"] == "fail"],
        "work": report.get("work"),
        "device": report.get("device"),
        **{key: context.get(key) for key in ("gpu", "kernels", "precision", "lammps", "plugin")},
        "model": (context.get("model_sha256") or "")[:16] or None,
        "build": build.digest,
        "settings": {
            **{key: getattr(args, key) for key in ("steps", "warmup", "equilibrate")},
            "pair": args.settings if report["model_name"] else None,
            **({"variables": args.variables} if args.variables else {}),
            **({"reference": os.path.basename(args.reference), "every": args.every} if of_model else {}),
        },
    }


def _line(text, path, k):
    """The record of line k, None for one that is incomplete. ProfileError when it is none of a history."""
    try:
        value = json.loads(text)
    except ValueError:
        if text.startswith(HEAD) or HEAD.startswith(text):
            return None
        raise ProfileError(f"{path}: line {k} is no record of `mlff bench --history`: {ADVICE}") from None
    kind = value.get("format") if isinstance(value, dict) else None
    if kind != FORMAT:
        newer = isinstance(kind, str) and kind.startswith("mlff-history/")
        why = f"has the format {kind}, and this program reads {FORMAT}: update it" if newer else None
        raise ProfileError(f"{path}: line {k} {why or f'is no record of `mlff bench --history`: {ADVICE}'}")
    missing = [key for key in NEEDED if key not in value]
    if missing:
        raise ProfileError(f"{path}: line {k} has no `{missing[0]}`: it was changed by hand; take the line out")
    return value


def _text(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError as e:
        raise ProfileError(f"{path}: {e.strerror}") from e
    except UnicodeError as e:
        raise ProfileError(f"{path}: is no text, so no history: {ADVICE}") from e


def same_runs(record):
    """Equal for records of the same runs: a suite that was gone on with, or told again."""
    return record["case"], record["date"], json.dumps((record.get("medians_ms") or [None])[0])


def read(path):
    """(records in the order of measurement, numbers of lines that are incomplete). Of records of the same runs the last
    counts, with the commit of the first. ProfileError when the file is no history."""
    found, torn = {}, []
    for k, line in enumerate(_text(path).split("\n"), 1):
        one = _line(line, path, k) if line.strip() else None
        if one is None:
            torn += [k] if line.strip() else []
            continue
        before = found.get(same_runs(one), one)
        found[same_runs(one)] = {**one, "commit": before["commit"], "dirty": before["dirty"]}
    return sorted(found.values(), key=lambda r: r["date"]), torn


def place(folder):
    """The file of this machine, which is a history or not there yet; else an error."""
    path = os.path.join(os.path.abspath(folder), machine() + ENDING)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise LammpsError(f"--history {folder}: is no folder: name one, in which there is a file for each machine")
    os.makedirs(folder, exist_ok=True)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise LammpsError(f"--history {folder}: may not be written: change its permissions or name another folder")
    if os.path.exists(path):
        read(path)
    return path


def _write(handle, data, size):
    """Adds lines to a file of so many bytes, all of them or none."""
    try:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


def append(path, records):
    """Adds those records that are not there yet, as whole lines, in one write. Returns how many they were."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.naming(path):
        return _append(path, records)


def _append(path, records):
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        there = {same_runs(one): one for one in read(path)[0]}
        lines = []
        for one in records:
            one = json.loads(json.dumps(one, allow_nan=False))  # as it will be read
            old = there.get(same_runs(one))
            if not old or {**one, "commit": old["commit"], "dirty": old["dirty"]} != old:
                lines.append(json.dumps(one) + "\n")
        size = os.fstat(handle).st_size
        torn = size and os.pread(handle, 1, size - 1) != b"\n"  # a killed run left half a line, which ends here
        data = (("\n" if torn else "") + "".join(lines)).encode()
        if lines:
            _write(handle, data, size)
    finally:
        os.close(handle)
    return len(lines)


def store(results, args):
    """Appends what the suite in --out measured: results {case: [report of each repeat]}. Of --against BUILD only this
    build. Returns a sentence."""
    rows = {row["case"]: row for row in profiles.read_json(args.out, "suite.json")["cases"]}
    records = [record(rows[case.name], of, args.build_of, args) for case, of in results.items() if case.side != "B"]
    n = append(args.history_file, records)
    what = f"commit {args.build_of.commit[:12]}" + (" with changes, so not judged" if args.build_of.dirty else "")
    told = f"{n} record{'s' if n > 1 else ''} of {what}" if n else "nothing new"
    return f"History: {told}, in {args.history_file}; a page of it: mlff report {os.path.dirname(args.history_file)}"
