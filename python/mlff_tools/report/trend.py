"""The trend over commits: histories of `mlff bench --history` as charts, a table, and sentences for the terminal that
name the first bad commit.

A series is one case on one machine, measured with the same settings, kernels, precision, device and LAMMPS; its time
and its counted instructions are judged apart. Times of a noisy machine and builds with uncommitted changes are drawn
and not judged. A level can only change where another build was measured.
"""

import json
import math

from ..bench.profiles import get, number
from ..ensemble.statistics import student
from . import changes
from .charts import Plot, padded, short, text
from .parts import NOT, section, table

SAME = ("case", "device", "gpu", "kernels", "precision", "lammps")
TIME, WORK = "time", "instructions"
SHARE = {TIME: 0.03, WORK: 0.01}  # that a change has at least; counted instructions repeat within 1 %
UNIT = {TIME: "µs/atom", WORK: "instructions/atom"}
MANY = 60  # commits, beyond which dots are small


class Series:
    """One quantity of records that may be compared. values, errors (relative, half of a 95 % interval) and at (number
    of the commit) of each record; judged: indices of those that count; found: changes.Found of these."""

    def __init__(self, machine, what, records, label):
        self.machine, self.what, self.label = machine, what, label
        commits = list(dict.fromkeys(r["commit"] for r in records))
        order = {c: k for k, c in enumerate(commits)}
        self.records = sorted(records, key=lambda r: order[r["commit"]])
        self.commits, self.at = commits, [order[r["commit"]] for r in self.records]
        self.values = [value_of(r, what) for r in self.records]
        self.errors = [(number(r.get("interval")) or 0.0) if what == TIME else 0.0 for r in self.records]
        quiet = [what == WORK or r["quiet"] is not False for r in self.records]
        self.judged = [k for k, r in enumerate(self.records) if quiet[k] and not r["dirty"]]
        self.n_noisy, self.n_dirty = quiet.count(False), sum(r["dirty"] for r in self.records)
        own = [self.errors[k] / student(len(r["medians_ms"]) - 1) for k, r in self._repeated()]
        self.found = changes.find([self.values[k] for k in self.judged], self._allowed(), SHARE[what], own)
        self.first_bad = next((c for c in self.found.changes if c.ratio > 1), None)

    def _repeated(self):
        return [(k, self.records[k]) for k in self.judged if self.errors[k] > 0]

    def _allowed(self):
        """Whether a level may begin at a judged record: another commit and another build, or model, than before."""
        pairs = [(self.records[k], self.at[k]) for k in self.judged]
        return [True] + [
            x != y and (a["build"] is None or (a["build"], a.get("model")) != (b["build"], b.get("model")))
            for (a, x), (b, y) in zip(pairs, pairs[1:])
        ]

    def commit(self, k):
        """Number of the commit of judged record k."""
        return self.at[self.judged[k]]

    def name(self, k):
        """The commit of judged record k, short."""
        return brief(self.commits[self.commit(k)])

    def place(self, change):
        """Which commit it was, and between which ones the noise does not tell."""
        record = self.records[self.judged[change.at]]
        told = f"{brief(record['commit'])} ({record['date'][:10]})"
        if change.first < change.last:
            told += f", or one from {self.name(change.first)} to {self.name(change.last)}"
        old = self.records[self.judged[change.at - 1]]
        return told + (", with another model file" if old.get("model") != record.get("model") else "")


def value_of(record, what):
    value = number(record["us_per_atom"]) if what == TIME else number(get(record, "work", "instructions_per_atom"))
    return value if value and value > 0 else None


def brief(commit):
    """A commit as it is written in a line."""
    return commit[:9] if len(commit) == 40 and all(c in "0123456789abcdef" for c in commit) else commit[:24]


def all_series(histories):
    """Series of {machine: records}, worst first: with a bad commit, with a better one, the others."""
    found = []
    for machine, records in histories.items():
        records = sorted(records, key=lambda r: r["date"])
        by_case = {}
        for what in SHARE:
            for record in records:
                if value_of(record, what):
                    counted = get(record, "work", "kernels") if what == WORK else None
                    settings = json.dumps(record["settings"], sort_keys=True)
                    key = (*(record.get(k) for k in SAME), counted, settings)
                    by_case.setdefault((record["case"], what), {}).setdefault(key, []).append(record)
        for (case, what), groups in by_case.items():
            for key, of in groups.items():
                differ = [k for k in range(1, len(key)) if len({other[k] for other in groups}) > 1]
                words = [told(key[k]) for k in differ]
                found.append(Series(machine, what, of, " · ".join([case, *words])))
    return sorted(found, key=lambda s: (s.first_bad is None, not s.found.changes, s.found.suspect is None))


def told(value):
    """What sets a series apart from others of its case."""
    return str(value or "none").strip("{}").replace('"', "")


def change_text(series, change):
    unit, size, error = UNIT[series.what], 100 * (change.ratio - 1), 100 * change.error
    off = f"{error:.1f}" if error >= 0.1 else f"{error:.1g}"
    return (
        f"{short(change.before)} -> {short(change.after)} {unit}, {size:+.1f} ± {off} %, "
        f"{change.n_before} measurements before, {change.n_after} from there on"
    )


def left_out(series):
    words = [f"{series.n_noisy} on a noisy machine"] if series.n_noisy else []
    words += [f"{series.n_dirty} with uncommitted changes"] if series.n_dirty else []
    return f"not judged: {', '.join(words)}" if words else ""


def verdict(series):
    """One sentence without the name of the series."""
    if series.found.changes:
        words = []
        for change in series.found.changes:
            kind = (
                "first bad commit"
                if change is series.first_bad
                else "worse from"
                if change.ratio > 1
                else "better from"
            )
            words.append(f"{kind} {series.place(change)}: {change_text(series, change)}")
        return "; ".join(words)
    if series.found.noise is None:
        return f"too short to say: {len(series.judged)} measurements to judge by, and 4 are needed"
    if not any(series._allowed()[1:]):
        return "too short to say: all measurements are of one build"
    return f"no change beyond noise: {len(series.judged)} measurements, noise {100 * series.found.noise:.1f} %"


def suspicion(series):
    if series.found.suspect is None:
        return ""
    size, newest = 100 * (series.found.suspect - 1), series.name(len(series.judged) - 1)
    return f"the newest commit, {newest}, is {size:+.1f} % off: too short to say; measure it again"


def sentences(found):
    """Lines for the terminal: series with a change or a suspicion, and how many have none."""
    lines, quiet = [], {}
    for series in found:
        extra = suspicion(series)
        if series.found.changes or extra or len(found) == 1:
            said = "; ".join(w for w in (verdict(series), extra, left_out(series)) if w)
            lines.append(f"{series.label}, {series.what}: {said}")
        else:
            kind = verdict(series).split(":")[0]
            quiet[kind] = quiet.get(kind, 0) + 1
    return lines + [f"{n} of {len(found)} series: {kind}" for kind, n in quiet.items()]


# ---- the page ------------------------------------------------------------------------------------------------------


def y_range(series):
    """Of what is judged, with its bars, so that an outlier flattens nothing; and how many points lie beyond."""
    judged = [series.values[k] for k in series.judged] or series.values
    middle = sorted(judged)[len(judged) // 2]
    noise = max(series.found.noise or 0.0, SHARE[series.what])
    levels = [level for _, _, level in series.found.levels] or [middle]
    bounds = min(levels) * math.exp(-6 * noise), max(levels) * math.exp(6 * noise)
    within = [v for v in series.values if bounds[0] <= v <= bounds[1]]
    reach = [
        v * (1 + s * min(e, 3 * noise)) for v, e in zip(series.values, series.errors) for s in (-1, 1) if v in within
    ]
    return padded([*reach, *levels]), len(series.values) - len(within)


def chart(series):
    """Every measurement over its commit, the levels, and where they change."""
    n, (limits, beyond) = len(series.commits), y_range(series)
    every = max(1, math.ceil(n / 5))
    ticks = [(k, brief(series.commits[k])) for k in range(0, n, every)]
    room = 0.02 * n + 0.5
    title = f"{series.label}, {series.what}" + (f" ({beyond} beyond the scale)" if beyond else "")
    unit = UNIT[series.what] + (" (median step)" if series.what == TIME else "")
    label = "commit, in order of measurement"
    plot = Plot((-room, n - 1 + room), limits, label, unit, x_ticks=ticks, title=title)
    css, judged = "c0" if series.what == TIME else "c3", set(series.judged)
    for hollow in (True, False):
        own = [k for k in range(len(series.values)) if (k not in judged) == hollow]
        values = [series.values[k] for k in own]
        errors = [v * series.errors[k] for v, k in zip(values, own)]
        plot.points([series.at[k] for k in own], values, "c7" if hollow else css, errors, hollow, n > MANY)
    if len(judged) < len(series.values):
        plot.keys += [(css, "judged"), ("c7", "drawn only")]
    for a, b, level in series.found.levels:
        plot.line([series.commit(a) - 0.5, series.commit(b - 1) + 0.5], [level, level], "c1")
    for row, change in enumerate(series.found.changes):
        label = f"{series.name(change.at)} {100 * (change.ratio - 1):+.1f} %"
        plot.vertical(series.commit(change.at) - 0.5, label, "rule bad" if change.ratio > 1 else "rule good", row % 3)
    return plot.svg()


def row_of(series):
    levels, bad = series.found.levels, series.first_bad
    better = next((c for c in series.found.changes if c.ratio < 1), None)
    css = "fail" if bad else "pass" if better else "nm"
    said = "; ".join(w for w in (verdict(series), suspicion(series), left_out(series)) if w)
    return [
        text(f"{series.label}, {series.what}"),
        f'<span class="{css}">{text(said)}</span>',
        text(UNIT[series.what]),
        short(levels[0][2]) if levels else NOT,
        short(levels[-1][2]) if levels else NOT,
        NOT if series.found.noise is None else f"{100 * series.found.noise:.1f} %",
        text(len(series.commits)),
        text(len(series.values)),
    ]


def trend_section(found):
    """Of each machine a table of its series and their charts; empty without a history."""
    heads = [("series", "", True), ("", "", True), ("", "", True), ("first level", "", False), ("now", "", False)]
    heads += [("noise", "one measurement", False), ("commits", "", False), ("measured", "times", False)]
    out = []
    for machine in sorted({s.machine for s in found}):
        own = [s for s in found if s.machine == machine]
        rows = table(heads, [row_of(s) for s in own]).replace('<td class="t"><span', '<td class="t wrap said"><span')
        charts = "".join(chart(s) for s in own)
        out.append(f'<p class="lead">{text(machine)}</p>{rows}<div class="charts">{charts}</div>')
    lead = (
        "A dot is one suite, its bar the 95 % interval of its repeats; lines are levels. A level changes where both "
        f"sides differ by more than the noise and by more than {100 * SHARE[TIME]:.0f} % of the time or "
        f"{100 * SHARE[WORK]:.0f} % of the instructions. Hollow dots are not judged: the machine was too noisy, or the "
        "build had uncommitted changes."
    )
    return section("Trend over commits", lead, []) + "".join(out) if found else ""


def banner(found):
    """The first bad commit of each series that has one; at most five are named."""
    bad = [s for s in found if s.first_bad]
    lines = [
        f"{s.label}, {s.what}: first bad commit {s.place(s.first_bad)}: {change_text(s, s.first_bad)}" for s in bad
    ]
    more = [f"and {len(bad) - 5} more series"] if len(bad) > 5 else []
    return f'<p class="banner bad">{"<br>".join(text(w) for w in [*lines[:5], *more])}</p>' if bad else ""
