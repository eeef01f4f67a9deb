"""mlff report: one self-contained HTML page of a folder of reports, without scripts and network access.

    mlff report DIR [-o FILE.html]        default: DIR/report.html

Reads every report of fix mlffprof below DIR (docs/profile.schema.json), suite.json and comparison_*.json of
`mlff bench`, and validation.json of `mlff validate`. The page shows the median of repeated runs of a suite.
Missing measurements are marked. Exit code: 0 success, 2 nothing to show or wrong usage.
"""

import argparse
import os
import sys
import time

from ..bench import profiles
from ..bench.profiles import ProfileError, get, number
from ..command_line import one_line
from .charts import short, text
from .data import Folder
from .details import details
from .parts import (
    component_section,
    conservation_section,
    latency_section,
    pairs_section,
    scaling_section,
    summary,
    value,
)
from .ranks import ranks_section
from .style import CSS


def facts(folder):
    runs = folder.runs
    fastest = min(
        (r for r in runs if number(r.report.get("us_per_atom"))), key=lambda r: r.report["us_per_atom"], default=None
    )
    atoms = [r.n_atoms for r in runs if r.n_atoms]
    missed = sum(any(t["status"] == "fail" for t in r.report.get("targets") or []) for r in runs)
    leaks = sum(get(r.report, "memory", "verdict") == "leak" for r in runs)
    judged = sum(get(r.report, "memory", "verdict") not in (None, "unknown") for r in runs)
    cells = [
        (len(runs), "runs"),
        (len({r.potential for r in runs}), "potentials"),
        (span(atoms), "atoms"),
        (short(sum(r.report["n_steps"] for r in runs)), "steps measured"),
        (
            f"{short(fastest.report['us_per_atom'])} µs" if fastest else "not measured",
            f"lowest cost of an atom ({fastest.potential})" if fastest else "cost of an atom",
        ),
        (missed or "none", "runs that miss a target"),
        (f"{leaks or 'none'} of {judged}" if judged else "not measured", "runs with a memory leak"),
    ]
    return (
        '<div class="facts">'
        + "".join(f"<div><b>{text(a)}</b><span>{text(b)}</span></div>" for a, b in cells)
        + "</div>"
    )


def span(values):
    if not values:
        return "not measured"
    return short(min(values)) if min(values) == max(values) else f"{short(min(values))} to {short(max(values))}"


def banners(folder):
    out = []
    for suite in folder.suites:
        if suite.get("noise"):
            css = {True: "good", False: "bad"}.get(suite.get("quiet"), "")
            out.append(f'<p class="banner {css}">{text(suite["noise"])}</p>')
        if suite.get("ensembles"):
            css = "bad" if "NOT OF THEIR ENSEMBLE" in suite["ensembles"] else ""
            out.append(f'<p class="banner {css}">{text(suite["ensembles"])}</p>')
    for v in folder.validations:
        word = v["verdict"] + (": " + "; ".join(v["failures"]) if v["failures"] else "")
        numbers = (
            f"{value(v.get('picoseconds'))} ps, drift {value(v.get('drift_meV_per_atom_per_ps'))} meV/atom/ps, "
            f"{value(v.get('temperature_mean_K'))} K"
        )
        css = {"PASS": "good", "FAIL": "bad"}.get(v["verdict"], "")
        what = f"NVE validation of {text(v['model'])}, {text(v['structure'])}"
        out.append(f'<p class="banner {css}">{what}: <b>{text(word)}</b> ({numbers})</p>')
    return "".join(out)


def some(words, most=3):
    """The different words, in order; of many the first ones and how many there are more."""
    words = [word for word in dict.fromkeys(words) if word]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def title_of(folder):
    """What was run: potentials, systems, sizes, ensembles."""
    runs = folder.runs
    atoms = [r.n_atoms for r in runs if r.n_atoms]
    work = [some(r.system for r in runs), f"{span(atoms)} atoms" if atoms else "", some(r.protocol for r in runs)]
    work = ", ".join(w for w in work if w)
    return some(r.potential for r in runs) + (f": {work}" if work else "")


def machine_of(folder):
    """The line below the title."""
    first = folder.runs[0].report
    lammps = get(first, "context", "lammps")
    known = (get(first, "context", "cpu"), get(first, "context", "gpu"), lammps and f"LAMMPS {lammps}")
    return " · ".join(text(v) for v in known if v) or "machine not recorded"


def body_of(folder):
    """The page below its navigation."""
    runs = folder.runs
    sections = [
        latency_section(runs),
        scaling_section(runs),
        ranks_section(folder),
        component_section(runs),
        conservation_section(runs),
        pairs_section(folder),
    ]
    return (
        f'{facts(folder)}<h2 id="runs">Summary</h2><p>Wall time of single steps, warm-up left out. Drift is that of '
        "the conserved quantity. Targets: P95 below twice and P99 below three "
        "times the mean, CV below 20 %, memory growth below 10 MB, unless the run names others.</p>"
        f"{summary(runs)}{''.join(sections)}"
        f'<h2 id="details">Each run</h2>{"".join(details(run) for run in runs)}'
    )


def page(folder, title):
    runs = folder.runs
    colours = {key: f"c{k % 7}" for k, key in enumerate(dict.fromkeys((r.potential, r.which) for r in runs))}
    for run in runs:
        run.css = colours[run.potential, run.which]
    names = [
        ("runs", "Summary"),
        ("latency", "Latency"),
        ("scaling", "Scaling"),
        ("ranks", "Ranks and replicas"),
        ("components", "Components"),
        ("memory", "Memory and energy"),
        ("compare", "Model against model"),
        ("details", "Each run"),
    ]
    body = body_of(folder)
    nav = "".join(f'<a href="#{k}">{text(n)}</a>' for k, n in names if f'id="{k}"' in body)
    skipped = "".join(f"<br>Not drawn: {text(name)}, a trace; ui.perfetto.dev opens it" for name in folder.traces)
    skipped += "".join(f"<br>Not read: {text(why)}" for _, why in folder.skipped)
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{CSS}</style></head><body><main><header><h1>{text(title)}</h1><p>"
        f"{machine_of(folder)}</p>"
        f"</header><nav>{nav}</nav>{banners(folder)}{body}"
        f"<footer>{made} · {reports(folder)} of "
        f"{text(os.path.basename(os.path.abspath(folder.path)))}{skipped}</footer></main></body></html>\n"
    )


def reports(folder):
    """The number of reports, in words."""
    n = len(folder.runs)
    return f"{n} report{'s' if n > 1 else ''}"


@one_line("mlff report")
def main(argv=None):
    p = argparse.ArgumentParser(
        prog="mlff report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("folder", metavar="DIR", help="folder of reports")
    p.add_argument("-o", "--out", metavar="FILE", help="default: DIR/report.html")
    p.add_argument("--title", help="of the page")
    args = p.parse_args(argv)
    folder = Folder(args.folder)
    out = args.out or os.path.join(args.folder, "report.html")
    place = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(place):
        raise ProfileError(f"-o {out}: there is no folder {place}")
    if os.path.isdir(out):
        raise ProfileError(f"-o {out}: is a folder; the name of a file is expected")
    profiles.write_text(out, page(folder, args.title or title_of(folder)))
    for name in folder.traces:
        print(f"{name}: a trace, not drawn here; open it in ui.perfetto.dev or chrome://tracing")
    for _, why in folder.skipped:
        print(f"mlff report: warning: {why}", file=sys.stderr)
    print(f"{reports(folder)}: {out}")
    return 0
