"""mlff plot: pictures of runs: logs and dumps of LAMMPS, reports, certificates.

    mlff plot log.lammps                    energy, temperature, pressure, density with 95 % intervals: log.lammps.png
    mlff plot log.a log.b -o both.pdf       curves of both in the same panels
    mlff plot dump.water --elements O H     radial distribution functions, mean square displacement
    mlff plot report.json                   time per step, memory, energy, of fix mlffprof
    mlff plot copper-m.json --figure phonons pictures of a certificate whose titles have this word
    mlff plot validation/data.csv           columns of a table, as of mlff validate or of a training
    mlff plot log.lammps -o run.npz         the numbers of the curves

The end of the file name decides: .png, .pdf, .svg, or .npz for the numbers. Means are over what is after --from; their
intervals are of 95 %, from means of blocks. Needs matplotlib: pip install mlff[plot].
"""

import argparse
import itertools
import json
import math
import os
import re
import sys
import textwrap

import numpy as np

from ..bench import profiles
from ..certify import correlations
from ..command_line import above_zero, number, one_line
from ..ensemble import statistics
from ..model.files import write_npz
from ..model.modelfile import ModelError
from . import runs, style
from .charts import GREEK, SMOOTH, short, with_error

# Column of thermo output: title, unit by `units`, whether the first value is taken off (a conserved quantity)
ENERGY = {"metal": "eV", "real": "kcal/mol"}
PRESSURE = {"metal": "bar", "real": "atm"}
THERMO = {
    "Temp": ("Temperature", {"metal": "K", "real": "K"}, False),
    "PotEng": ("Potential energy", ENERGY, False),
    "TotEng": ("Total energy", ENERGY, True),
    "Econserve": ("Conserved quantity", ENERGY, True),
    "Press": ("Pressure", PRESSURE, False),
    "Volume": ("Volume", {"metal": "A^3", "real": "A^3"}, False),
    "Density": ("Density", {"metal": "g/cm^3", "real": "g/cm^3"}, False),
}
FREE, LINEAR = 5.0, 0.2  # A^2 beyond which an atom has left its cage; of the exponent of a diffusive displacement
SIDES = {"model": style.STUDENT, "teacher": style.TEACHER}
FORMATS = (".png", ".pdf", ".svg", ".npz")
PAIRS = 5e8  # of all frames of a radial distribution


def _pair(found, unit):
    return " $\\pm$ ".join(with_error(found.value, found.error)) + (f" {unit}" if unit else "")


def _mean(values, unit):
    """A mean and its interval in words."""
    if not np.isfinite(values).all():
        return f"{int((~np.isfinite(values)).sum())} of {len(values)} values are not finite"
    if not np.ptp(values) > 1e-12 * np.abs(values).max():
        return f"{short(float(values[0]))} {unit}, constant".replace(" ,", ",")
    found = statistics.mean(values)
    if not found.enough or not math.isfinite(found.error):
        return f"{short(found.value)} {unit}, too short for an interval".replace(" ,", ",")
    return _pair(found, unit)


def _curve(label, x, y, of="", **more):
    """of: the file, where the label says more."""
    return {"label": label, "of": of, "x": np.asarray(x, float).tolist(), "y": np.asarray(y, float).tolist(), **more}


def _panel(title, x_label, y_label, curves, **more):
    return {"kind": "lines", "title": title, "x_label": x_label, "y_label": y_label, "curves": curves, **more}


def of_log(path, label, begin):
    """Panels of a log."""
    log = runs.read_log(path)
    x = log.columns["Step"] if log.time is None else log.time
    used = x >= x[0] + begin
    if used.sum() < 2:
        raise ModelError(f"{path}: less than two rows lie after --from {begin:g}: the run has {x[-1] - x[0]:g}")
    out, per_atom = [], "/atom" if log.per_atom else ""
    for name, (title, units, is_conserved) in THERMO.items():
        if name not in log.columns:
            continue
        y, unit = log.columns[name], units.get(log.units, "")
        unit += per_atom if unit and units is ENERGY else ""
        if is_conserved:
            y, words = y - y[used][0], ""
            if log.time is not None:
                found = statistics.drift(x[used], y[used])
                words = _pair(found, f"{unit}/ps") if math.isfinite(found.error) else f"{short(found.value)} {unit}/ps"
            kind = "drift" if name == "Econserve" else "slope"  # which a thermostat gives the total energy as well
            title, words = f"{title} - begin", f"{kind} {words}" if words else ""
        else:
            words = _mean(y[used], unit)
        text = ": ".join(w for w in (label, words) if w)
        unit = f" ({unit})" if unit else ""
        more = {"begin": float(x[0] + begin)} if begin else {}
        axis = "step" if log.time is None else "time (ps)"
        out.append(_panel(title, axis, title.split(" - ")[0] + unit, [_curve(text, x, y, label)], **more))
    if not out:
        raise ModelError(f"{path}: none of the columns {', '.join(THERMO)}: add them by thermo_style custom")
    if log.error:
        print(f"mlff plot: warning: {path}: the run ended with {log.error}", file=sys.stderr)
    return out


def is_diffusive(lags, square):
    """Whether a mean square displacement grows linearly, beyond the cage of an atom, in its second half."""
    late = lags >= lags[-1] / 2
    if late.sum() < 3 or not square[-1] >= FREE:
        return False
    exponent = np.polyfit(np.log(lags[late]), np.log(square[late]), 1)[0]
    return abs(exponent - 1) <= LINEAR


def of_trajectory(t, label, begin, pairs, path):
    """Panels of radial distributions and mean square displacements."""
    where = t.step if t.time is None else t.time
    t = t.frames(where >= where[0] + begin)
    if len(t.positions) < 3:
        raise ModelError(f"{path}: {len(t.positions)} frames after --from {begin:g}: three or more are needed")
    kinds = list(dict.fromkeys(t.elements))
    known = {f"{a}-{b}": (a, b) for k, a in enumerate(sorted(kinds)) for b in sorted(kinds)[k:]}
    known = {name: p for name, p in known.items() if p[0] != p[1] or t.elements.count(p[0]) > 1}
    wanted = []
    for pair in pairs or known:
        name = pair if pair in known else "-".join(reversed(pair.split("-", 1)))
        if name not in known:
            unnamed = "; name the types by --elements" if any(kind.startswith("type ") for kind in kinds) else ""
            raise ModelError(f"{path}: has no pair {pair}; there are: {', '.join(known) or 'none'}{unnamed}")
        wanted.append(name)
    blocks = min(correlations.BLOCKS, len(t.positions))
    shown = t.frames(np.linspace(0, len(t.positions) - 1, _frames_of(len(t.elements), len(t.positions))).astype(int))
    found, r = correlations.rdf(shown.positions, shown.cells, t.elements, min(blocks, len(shown.positions)))
    out = []
    for name in wanted:
        mean, error = statistics.band(found[name])
        more = {"low": np.maximum(mean - error, 0.0).tolist(), "high": (mean + error).tolist()}
        out.append(_panel(f"{name}: radial distribution", "r (A)", "g(r)", [_curve(label, r, mean, label, **more)]))
    return out + _displacements(t, label, path)


def _frames_of(n, frames):
    """How many frames a radial distribution takes, so that it ends within a minute or so."""
    return int(max(3, min(frames, PAIRS / n**2)))


def _displacements(t, label, path):
    """Panels of mean square displacements, relative to all atoms; none, with the reason, where they have no meaning."""
    steps = np.diff(t.step if t.time is None else t.time)
    if t.time is None:
        why = "no time: give --timestep, or dump_modify time yes units yes"
    elif not np.ptp(steps) < 1e-6 * max(steps):
        why = "its frames are not evenly spaced in time"
    elif len(t.elements) < 2:
        why = "of one atom, relative to all atoms, there is none"
    else:
        why = ""
    if why:
        print(f"mlff plot: {path}: no mean square displacement: {why}", file=sys.stderr)
        return []
    out = []
    for e in dict.fromkeys(t.elements):
        mask = np.array([x == e for x in t.elements])
        d, lags, square = correlations.diffusion(t.positions, float(steps[0]), masks=mask)
        words = "too short for a diffusion coefficient"
        if len(d) >= 4 and is_diffusive(lags, square):  # A^2/ps are 1e-8 m2/s
            value = statistics.of_blocks(10 * d)
            words = f"D = {_pair(value, '1e-9 m$^2$/s')}"
        text = ": ".join(w for w in (label, words) if w)
        curve = _curve(text, lags, square, label)
        out.append(_panel(f"{e}: mean square displacement", "time (ps)", "MSD (A$^2$)", [curve]))
    return out


def of_report(report, label):
    """Panels of a report of fix mlffprof."""
    values, stride = report["latencies_ms"], report.get("latencies_stride") or 1
    series = [math.nan if v is None else v for v in values]
    words = f"median {short(report['median_latency_ms'])} ms" if report.get("median_latency_ms") else ""
    text = ": ".join(w for w in (label, words) if w)
    out = []
    if values:
        steps = stride * np.arange(len(series))
        title = "Time per step" + (f", one step in {stride}" if stride > 1 else "")
        out.append(_panel(title, "step after warm-up", "time (ms)", [_curve(text, steps, series, label)]))
    memory = (report.get("memory") or {}).get("series") or {}
    for kind in ("host", "device"):
        y = memory.get(f"{kind}_bytes")
        if y:
            grown = (np.array(y, float) - y[0]) / 1e6
            curve = _curve(label, memory["step"], grown)
            out.append(_panel(f"Memory of the {kind} - first sample", "step", "memory (MB)", [curve]))
    energy = report.get("energy") or {}
    series = energy.get("series") or {}
    unit = ENERGY.get(energy.get("units"), "")
    for key in ("conserved", "total", "potential", "temperature"):
        y = series.get(key)
        if y and any(v is not None for v in y):
            y = np.array([math.nan if v is None else v for v in y], float)
            y = y if key == "temperature" else y - y[0]
            what = key.capitalize() + ("" if key == "temperature" else " energy - begin")
            unit_of = "K" if key == "temperature" else unit
            out.append(_panel(what, "time (ps)", f"{key} ({unit_of})", [_curve(label, series["time_ps"], y)]))
    if not out:
        raise ModelError(f"{label}: the report has no series to plot")
    return out


def of_table(path, label):
    """Panels of a CSV file, as of mlff validate and of a training: columns over the time, or the first column."""
    with open(path, encoding="utf-8", errors="replace") as f:
        head, *lines = f.read().splitlines() or [""]
    names = [name.strip() for name in head.split(",")]
    try:
        rows = np.array([[float(w) if w else math.nan for w in line.split(",")] for line in lines if line])
    except ValueError as e:
        raise ModelError(f"{path}: not a table of numbers: {e}") from e
    if len(rows) and np.abs(rows[np.isfinite(rows)]).max(initial=0) > 1e100:
        raise ModelError(f"{path}: has numbers above 1e100")
    rows[~np.isfinite(rows)] = math.nan
    if rows.ndim != 2 or rows.shape[1] != len(names) or len(names) < 2:
        raise ModelError(f"{path}: its rows do not have the {len(names)} columns of the first line")
    x = next((k for k, name in enumerate(names) if name.startswith("time")), 0)
    ys = [k for k in range(len(names)) if k != x and not (names[0] == "step" and k == 0)]
    return [_panel(names[k], names[x], names[k], [_curve(label, rows[:, x], rows[:, k])]) for k in ys]


def of_certificate(certificate, words, path, label):
    """Figures of a certificate; words: of their titles. label: a name before the titles, where there are others."""
    try:
        out = [f for m in certificate["measurements"].values() for f in m["figures"]]
        out = [{**f, "title": f"{label}: {f['title']}" if label else f["title"]} for f in out]
    except (TypeError, KeyError, AttributeError):
        raise ModelError(f"{path}: not a certificate of mlff certify") from None
    chosen = [f for f in out if not words or any(w.lower() in f["title"].lower() for w in words)]
    if not chosen:
        raise ModelError(f"no figure has these words in its title; there are: {'; '.join(f['title'] for f in out)}")
    return chosen


def panels(path, label, args):
    """Panels of a file, by what is in it."""
    with open(path, encoding="utf-8", errors="replace") as f:
        begin = f.read(4096)
    if begin.lstrip().startswith("{"):
        try:
            with open(path, encoding="utf-8") as f:
                value = json.load(f)
        except ValueError as e:
            raise ModelError(f"{path}: is no JSON: {e}") from e
        if isinstance(value, dict) and "measurements" in value:
            return of_certificate(value, args.figure, path, label)
        return of_report(profiles.read(path), label)
    if path.endswith(".csv"):
        return of_table(path, label)
    if begin.startswith("ITEM: "):
        found = runs.read_dump(path, args.timestep, args.elements)
        return of_trajectory(found, label, args.begin, args.pair, path)
    if re.match(r"\s*\d+\s*\n.*\bLattice=", begin, re.IGNORECASE):
        return of_trajectory(runs.read_xyz(path, args.timestep), label, args.begin, args.pair, path)
    return of_log(path, label, args.begin)


def merged(groups):
    """Panels of several files: curves of the same title are in one."""
    out = {}
    for group in groups:
        for panel in group:
            key = (panel["title"], panel.get("x_label"), panel.get("y_label"))
            if key in out and "curves" in panel:
                out[key]["curves"] = out[key]["curves"] + panel["curves"]
            else:
                out.setdefault(key, dict(panel))
    return list(out.values())


def _draw(axes, panel):
    """One panel on matplotlib axes."""
    axes.set_title(textwrap.fill(panel["title"], 42))
    if panel["kind"] == "bars":
        rows = [b for b in panel["bars"] if b[1] is not None][::-1]
        errors = [b[2] or 0.0 for b in rows]
        axes.barh([b[0] for b in rows], [b[1] for b in rows], xerr=errors if any(errors) else None, color=style.STUDENT)
        axes.tick_params(axis="y", labelsize=6.0)
        axes.margins(y=0.01)
        axes.set_xlabel(panel["y_label"])
        return
    names = [c.get("label") for c in panel["curves"]]
    of_teacher = "teacher" in names and "model" in names
    shown = set()
    for k, c in enumerate(panel["curves"]):
        side = c.get("side", k)
        color = SIDES.get(c.get("label")) or style.CURVES[side % len(style.CURVES)]
        x, y = ([math.nan if v is None else v for v in c[key]] for key in ("x", "y"))
        label = c.get("label") if c.get("label") not in shown else None
        shown.add(c.get("label"))
        if panel["kind"] == "dots":
            axes.plot(x, y, ".", ms=2.5, color=color, label=label)
            continue
        wide = of_teacher and color == style.TEACHER and len(x) <= SMOOTH
        axes.plot(x, y, lw=3.5 if wide else 1.0, alpha=0.45 if wide else 1.0, zorder=1 if wide else 2, color=color)
        axes.plot([], [], lw=2, color=color, label=label)
        if c.get("low"):
            low, high = ([math.nan if v is None else v for v in c[key]] for key in ("low", "high"))
            axes.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
    if panel.get("bound"):
        axes.axhline(panel["bound"][0], color="0.4", lw=0.8, ls="--")
    if panel.get("begin"):
        axes.axvspan(min(panel["curves"][0]["x"]), panel["begin"], color="0.5", alpha=0.12, lw=0)
    if panel.get("log"):
        axes.set_xscale("log")
        axes.set_yscale("log")
    if panel.get("ticks"):
        axes.set_xticks([x for x, _ in panel["ticks"]], [GREEK.get(label, label) for _, label in panel["ticks"]])
    if panel.get("y_range"):
        axes.set_ylim(panel["y_range"])
    axes.set_xlabel(panel["x_label"])
    axes.set_ylabel(panel["y_label"])
    if any(names):
        axes.legend(fontsize=6.5)


def _height(panel):
    """Inches for all labels of bars, 0 for curves."""
    return 0.8 + 0.11 * len(panel["bars"]) if panel["kind"] == "bars" else 0


def draw(found, path, width=3.4, height=2.5):
    """Writes the picture: panels of width x height inches, two in a row."""
    columns = min(2, len(found))
    rows = math.ceil(len(found) / columns)
    needed = [max(height, *(_height(panel) for panel in found[k * columns : (k + 1) * columns])) for k in range(rows)]
    more = {"squeeze": False, "gridspec_kw": {"height_ratios": needed}}
    try:
        with style.drawing(path, (width * columns, sum(needed)), rows, columns, **more) as grid:
            for axes, panel in itertools.zip_longest(grid.flat, found):
                _draw(axes, panel) if panel else axes.remove()
    except ImportError as e:
        raise ModelError("mlff plot needs matplotlib: pip install matplotlib; -o NAME.npz needs none") from e


def numbers_of(found):
    """{name: array} of all curves: `TITLE | FILE | x` and `y`, `low`, `high`; without FILE where there is one, with the
    name of the curve in figures of certificates."""
    out, name = {}, lambda *words: " | ".join(str(w) for w in words if w != "")
    for panel in found:
        if panel["kind"] == "bars":
            rows = [b for b in panel["bars"] if b[1] is not None]
            out[f"{panel['title']} | names"] = np.array([str(b[0]) for b in rows])
            out[f"{panel['title']} | values"] = np.array([b[1] for b in rows], float)
            continue
        for k, c in enumerate(panel["curves"]):
            who = c["of"] if "of" in c else c.get("label") or k  # several curves of a band structure have no name
            who = who if name(panel["title"], who, "x") not in out else name(who, k)
            for key in ("x", "y", "low", "high"):
                if c.get(key) is not None:
                    values = np.array([math.nan if v is None else v for v in c[key]], float)
                    out[name(panel["title"], who, key)] = values
    return out


def parser():
    p = argparse.ArgumentParser(
        prog="mlff plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = p.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="log or dump of LAMMPS, extended XYZ, report or certificate (JSON), CSV",
    )
    add("-o", "--out", metavar="NAME", help="picture .png, .pdf or .svg, or numbers .npz (default: FILE.png)")
    begin = "leave out so many ps at the begin (steps or frames, if the time is not known)"
    add("--from", dest="begin", type=number(0, 1e12, "a time from 0"), default=0.0, metavar="PS", help=begin)
    add("--timestep", type=above_zero, metavar="PS", help="of a step of a dump, or between frames of extended XYZ")
    add("--elements", nargs="+", metavar="E", help="of the types 1, 2, ... of a dump without the column element")
    add("--pair", action="append", metavar="A-B", help="only this radial distribution; may be repeated")
    add("--figure", action="append", metavar="WORDS", help="only figures of a certificate with this in their title")
    return p


@one_line("mlff plot")
def main(argv=None):
    args = parser().parse_args(argv)
    out = args.out or f"{os.path.basename(args.files[0])}.png"
    if os.path.splitext(out)[1] not in FORMATS:
        raise ModelError(f"{out}: the end of the name must be one of {', '.join(FORMATS)}")
    if len(set(map(os.path.realpath, args.files))) < len(args.files):
        raise ModelError("the same file is given twice")
    labels = [os.path.basename(f) for f in args.files] if len(args.files) > 1 else [""]
    if len(set(labels)) < len(labels):
        labels = args.files
    found = merged([panels(path, label, args) for path, label in zip(args.files, labels)])
    if out.endswith(".npz"):
        write_npz(out, **numbers_of(found))
    else:
        draw(found, out)
    print(f"{out}: {len(found)} panels: " + "; ".join(panel["title"] for panel in found))
    return 0
