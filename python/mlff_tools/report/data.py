"""What a folder of reports holds, for the HTML page."""

import hashlib
import json
import os
import re

from ..bench import profiles
from ..bench.profiles import ProfileError, get, number

TRACE = re.compile(rb'\s*\[\s*\{[^{}]*"ph":')  # how a trace of fix mlffprof begins; that of a killed run has no end


class Run:
    """One report and how it is labelled. `row`: its line of suite.json, or None."""

    def __init__(self, path, report, row=None):
        self.path, self.report, self.row = path, report, row
        deck = get(report, "context", "deck") or {}
        self.potential = (
            (row or {}).get("potential")
            or report.get("model_name")
            or get(report, "context", "pair_style")
            or report["name"]
        )
        self.system = (row or {}).get("system") or deck.get("system") or ""
        self.protocol = (row or {}).get("protocol") or report.get("ensemble") or ""
        self.ranks = report.get("n_ranks") or 1
        self.n_atoms = number(report["n_atoms"])
        self.replicas = bool(row) and row["work"].startswith("replicas")
        self.latencies = [v for v in report["latencies_ms"] if number(v) is not None]
        self.median = number(report["median_latency_ms"])
        self.css, self.which = "c0", ""  # which: what tells it from other runs of the same work and potential

    @property
    def what(self):
        """Which work it did, without the potential."""
        if self.row:
            return self.row["work"]
        words = [self.system, f"{self.n_atoms:g} atoms" if self.n_atoms else "", self.protocol]
        return " ".join(w for w in words if w) or self.report["name"]

    @property
    def label(self):
        return " · ".join(w for w in (self.what, self.potential, self.which) if w)

    @property
    def work(self):
        """Runs with the same key did equal work."""
        return (self.row or {}).get("work") or (self.system, self.n_atoms, self.protocol, self.ranks)


def tell_apart(runs):
    """Gives runs that have the same label their names; where these are the same as well, the files."""
    groups = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    for group in (g for g in groups.values() if len(g) > 1):
        names = [run.report["name"] for run in group]
        for run, name in zip(group, names):
            run.which = name if len(set(names)) == len(group) else run.path


class Folder:
    """The reports, suites and other results below a folder."""

    def __init__(self, path):
        self.path, self.suites, self.comparisons, self.validations, self.skipped, self.runs = path, [], [], [], [], []
        self.scalings, self.traces = [], []
        if not os.path.isdir(path):
            raise ProfileError(f"{path}: there is no such folder")
        found = {}
        for place, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(n for n in names if n.endswith(".json") and not n.startswith(".")):
                self._take(os.path.join(place, name), found)
        rows = {os.path.normpath(r["file"]): r for suite in self.suites for r in suite["cases"] if r["file"]}
        seen = set()
        for file, (report, digest) in sorted(found.items(), key=lambda f: (f[0] not in rows, f[0])):
            repeat = self.suites and file not in rows and os.path.dirname(file) in ("runs", "work")
            if digest not in seen and not repeat:  # the copies under other names, and the other repeats
                self.runs.append(Run(file, report, rows.get(file)))
                seen.add(digest)
        tell_apart(self.runs)
        if not self.runs:
            raise ProfileError(
                f"{path}: holds no report of fix mlffprof" + (f" ({self.skipped[0][1]})" if self.skipped else "")
            )

    def _take(self, path, found):
        try:
            with open(path, "rb") as f:
                data = f.read()
            if TRACE.match(data):
                self.traces.append(os.path.relpath(path, self.path))
                return
            value = json.loads(data)
            kind = value.get("format", "") if isinstance(value, dict) else ""
            if kind.startswith("mlff-bench/"):
                self.suites += [value] if value.get("cases") else []
            elif kind.startswith("mlff-comparison/"):
                self.comparisons.append(value)
            elif kind.startswith("mlff-scaling/"):
                self.scalings.append(value)
            elif kind.startswith("mlff-validation/"):
                self.validations.append(value)
            else:
                found[os.path.relpath(path, self.path)] = (profiles.read(path), hashlib.sha256(data).hexdigest())
        except ProfileError as e:
            self.skipped.append((path, str(e)))
        except (OSError, ValueError) as e:
            self.skipped.append((path, f"{path}: {e}"))
