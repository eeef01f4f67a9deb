"""mlff bench --publish DIR: the results of a suite as small files to be kept in a repository.

The profile of each model and the reports over system size are published, with all their numbers; of the raw series
every k-th value stays, with `latencies_stride` and `stride` saying so, in six digits (energies, whose differences
count, in twelve). The reports of all cases stay with the machine that made them; suite.json has a row of each. Where
things lay on that machine, and its name, are left out. A later publication replaces the files of the earlier one, which
its suite.json lists, and nothing else. With --publish-as NAME it is suite-NAME.json that is replaced, and what it
lists, so that one folder can contain several suites.
"""

import os

from ..model.lammps import LammpsError
from . import profiles

MAX_LATENCIES, MAX_POINTS = 250, 50
PRIVATE = ("host",)  # of the context
PLACES = ("plugin", "folder", "file")  # of the deck's variables: where things were, not what was run


def rounded(value, digits=6):
    """Numbers with so many digits, in lists and blocks too."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list):
        return [rounded(v, digits) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    return value


def thin(block, limit, digits):
    """A block {"stride": s, NAME: [n values] or null, ...} with at most `limit` values of each."""
    longest = max((len(v) for v in block.values() if isinstance(v, list)), default=0)
    every = -(-longest // limit) if longest else 1
    thinned = {k: rounded(v[::every], digits) if isinstance(v, list) else v for k, v in block.items()}
    return {**thinned, "stride": block["stride"] * every}, every


def without_places(text):
    """A deck's variable without folders: `compare /some/where/a.yaml every 100` -> `compare a.yaml every 100`."""
    return " ".join(os.path.basename(word) if "/" in word else word for word in text.split(" "))


def brief(report):
    """A report of few kilobytes that says the same."""
    small = dict(report)
    every = max(1, -(-len(report["latencies_ms"]) // MAX_LATENCIES))
    small["latencies_ms"] = rounded(report["latencies_ms"][::every])
    small["latencies_stride"] = report.get("latencies_stride", 1) * every
    for name in ("memory", "energy", "accuracy"):
        series = profiles.get(report, name, "series")
        if not series:
            continue
        block, every = thin(series, MAX_POINTS, 12 if name == "energy" else 6)
        small[name] = {**report[name], "series": block}
        if name == "memory" and report.get("memory_per_step_gb"):
            small["memory_per_step_gb"] = rounded(report["memory_per_step_gb"][::every])
    context = {k: v for k, v in report["context"].items() if k not in PRIVATE}
    deck = context.get("deck")
    if isinstance(deck, dict):
        context["deck"] = {
            k: without_places(v) if isinstance(v, str) else v for k, v in deck.items() if k not in PLACES
        }
    return {**small, "context": context}


def remove_old(path):
    """Files of the publication before this one, whose suite.json is at `path`."""
    folder = os.path.dirname(path)
    if not os.path.exists(path):
        return
    try:
        names = profiles.read_json(path)["published"]
    except (ValueError, KeyError, TypeError) as e:
        raise LammpsError(f"--publish: {path} was not written by `mlff bench --publish`: use another folder") from e
    for name in names:
        place = os.path.normpath(os.path.join(folder, name))
        if place.startswith(os.path.abspath(folder) + os.sep) and os.path.exists(place):
            os.remove(place)


def publish(source, folder, name=None):
    """Writes what `mlff bench` left in `source` to `folder`, in brief. Returns the number of files."""
    folder, end = os.path.abspath(folder), f"-{name}" if name else ""
    path, summary = os.path.join(folder, f"suite{end}.json"), f"summary{end}.txt"
    if folder == os.path.abspath(source):
        raise LammpsError(f"--publish: {folder} holds the suite itself: use another folder")
    suite = profiles.read_json(source, "suite.json")
    remove_old(path)
    reports = [n for n in os.listdir(source) if n.endswith(".json") and not n.endswith(profiles.SCALING_REPORTS)]
    names, kept = sorted(n for n in reports if "_profile" in n or "_scaling_" in n), {}
    for name in names:
        report = brief(profiles.read(os.path.join(source, name)))
        profiles.write_json(os.path.join(folder, name), report)
        kept.setdefault(report["name"], name)
    by_file = {row["file"]: kept.get(row["case"]) for row in suite["cases"]}  # None: stays where it was measured
    for name in sorted(n for n in os.listdir(source) if n.startswith("comparison_") and n.endswith(".json")):
        comparison = profiles.read_json(source, name)
        for case in comparison["cases"]:
            case.update(a=by_file[case["a"]], b=by_file[case["b"]])
        profiles.write_json(os.path.join(folder, name), rounded(comparison))
        names.append(name)
    texts = {"summary.txt": summary}
    if os.path.exists(os.path.join(source, "targets.json")):
        texts.update({f"targets.{kind}": f"targets{end}.{kind}" for kind in ("json", "txt")})
    for name, published in texts.items():
        with open(os.path.join(source, name), encoding="utf-8") as f:
            profiles.write_text(os.path.join(folder, published), f.read())
        names.append(published)
    settings = {
        k: suite["settings"][k] for k in ("steps", "warmup", "equilibrate", "pair_settings", "variables", "sha256")
    }
    reference = suite["settings"].get("reference")
    settings.update(reference=reference and os.path.basename(reference), every=suite["settings"]["every"])
    rows = [{**row, "file": by_file[row["file"]]} for row in suite["cases"]]
    record = {**suite, "settings": settings, "cases": rounded(rows), "published": names}
    profiles.write_json(path, record)
    return len(names) + 1
