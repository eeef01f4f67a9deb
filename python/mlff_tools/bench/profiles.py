"""Reading reports of fix mlffprof (docs/profile.schema.json) and writing files that are whole or absent."""

import ctypes
import json
import math
import os

from ..model.files import write_bytes
from ..model.modelfile import ModelError

SCHEMA_VERSION = 1
NEEDED = (
    "schema_version",
    "name",
    "n_steps",
    "latencies_ms",
    "median_latency_ms",
    "mean_latency_ms",
    "n_atoms",
    "context",
)


# Files of `mlff scaling`, not reports of single runs.
SCALING_REPORTS = ("_scaling_strong.json", "_scaling_weak.json", "_scaling_replicas.json")


class ProfileError(ModelError):
    """A file is not a report; the text names the file and the reason."""


def _reject(text):
    raise ValueError(f"{text} is not JSON")


def read(path):
    """One report as a dictionary. ProfileError when the file is not a report, or its numbers contradict each other."""
    try:
        with open(path, encoding="utf-8") as f:
            report = json.load(f, parse_constant=_reject)
    except OSError as e:
        raise ProfileError(f"{path}: {e.strerror}") from e
    except ValueError as e:
        raise ProfileError(f"{path}: not JSON: {e}") from e
    missing = [key for key in NEEDED if not isinstance(report, dict) or key not in report]
    if missing:
        raise ProfileError(f"{path}: not a report of mlffprof: it has no `{missing[0]}`")
    if report["schema_version"] != SCHEMA_VERSION:
        raise ProfileError(
            f"{path}: schema version {report['schema_version']}, and this program reads {SCHEMA_VERSION}: update it"
        )
    _check(path)
    return report


def _check(path):
    """ProfileError when the library refuses the report: its numbers contradict each other, or a block is wrong."""
    from mlff import library  # its package imports this module

    c, found, error = library.library(), ctypes.c_void_p(), library.CError()
    if c.mlffprof_report_read(os.fsencode(path), ctypes.byref(found), ctypes.byref(error)):
        raise ProfileError(error.text.decode("utf-8", "replace"))
    c.mlffprof_report_free(found)


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def number(value):
    """The value if it is a finite number, else None."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if ok else None


def get(report, *keys):
    """report[a][b]... or None where a block is missing or null."""
    for key in keys:
        if not isinstance(report, dict) or report.get(key) is None:
            return None
        report = report[key]
    return report


def is_disturbed(report):
    """Whether other programs had the processor for more than a tenth of the time, or in steps of more than a twentieth
    of it, so that wall times are in doubt; never on a device, for which a processor waits. Twin:
    mlffprof_is_disturbed."""
    if (report.get("device") or "cpu") != "cpu":
        return False
    preempted = (t.get("share") for t in report.get("tags") or [] if t.get("name") == "preempted")
    share = number(report.get("cpu_share"))
    return (share is not None and share < 0.9) or any((number(s) or 0) > 0.05 for s in preempted)


def batched_speedups(medians):
    """[(atoms, copies, speed-up)] of {atoms: time of a step}: n copies in one run against n runs of the smallest."""
    if len(medians) < 2:
        return []
    single = min(medians)
    return [(n, n // single, n // single * medians[single] / medians[n]) for n in sorted(medians) if n > single]


def write_text(path, text):
    """Writes a file so that it is the old one or the whole new one at any moment."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write_bytes(path, text.encode())


def dumps(value, indent=0, used=0):
    """JSON in lines that can be compared: a field of the outermost block and a block in a list begin one, fields within
    fill them up to 120 columns, and a list of plain values is always one."""
    text = json.dumps(value, allow_nan=False)
    pad, nested = " " * (indent + 1), isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)
    if nested:
        return "[\n" + ",\n".join(pad + json.dumps(item) for item in value) + f"\n{pad[1:]}]"
    if not isinstance(value, dict) or not value or indent and indent + used + len(text) < 120:
        return text
    lines = []
    for key, item in value.items():
        name = json.dumps(str(key)) + ": "
        field = name + dumps(item, indent + 1, len(name))
        if indent and lines and len(pad + lines[-1] + field) <= 117 and "\n" not in lines[-1] + field:
            lines[-1] += ", " + field
        else:
            lines.append(field)
    return "{\n" + ",\n".join(pad + line for line in lines) + f"\n{pad[1:]}}}"


def write_json(path, value):
    write_text(path, dumps(value) + "\n")
