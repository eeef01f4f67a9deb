"""Tables and charts of the HTML page over all runs."""

import hashlib

from ..bench import ensembles
from ..bench.profiles import batched_speedups, get, number
from ..ensemble import judge
from . import charts
from .charts import short, text

NOT = '<span class="nm">not measured</span>'
PARTS = {
    "pair": "p0",
    "neigh": "p1",
    "comm": "p2",
    "modify": "p3",
    "output": "p4",
    "kspace": "p5",
    "bond": "p6",
    "other": "p7",
}
# parts of the network in `pair_style mlff`
INSIDE = {
    "edges": "p0",
    "descriptor": "p1",
    "message": "p2",
    "dense": "p3",
    "message_backward": "p4",
    "dense_backward": "p5",
    "descriptor_backward": "p8",
    "forces": "p6",
    "exchange": "p7",
    "copy": "p9",
    "stress": "p8",  # of models without descriptor_backward
}


# ---- cells ---------------------------------------------------------------------------------------------------------


def value(v, form=short, unit=""):
    return NOT if number(v) is None else f"{form(v)}{unit}"


def ratio(a, b):
    return a / b if number(a) is not None and number(b) else None


def percent(v):
    return f"{100 * v:.1f} %"


def table(heads, rows, css=""):
    """heads: [(text, small text, left?)]; rows: lists of HTML."""
    top = "".join(
        f'<th class="{"t" if left else ""}">{text(h)}{f"<small>{text(s)}</small>" if s else ""}</th>'
        for h, s, left in heads
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{"t" if h[2] else ""}">{c}</td>' for h, c in zip(heads, row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table class="{css}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def targets_cell(report):
    targets = report.get("targets") or []
    failed = [t["metric"] for t in targets if t["status"] == "fail"]
    measured = [t for t in targets if t["status"] != "not measured"]
    if not measured:
        return NOT
    if failed:
        return f'<span class="fail" title="{text(", ".join(failed))}">{len(failed)} of {len(measured)} missed</span>'
    return f'<span class="pass">{len(measured)} met</span>'


def memory_cell(report):
    verdict = get(report, "memory", "verdict")
    grew = any(get(report, "memory", kind, "growth_bytes") is not None for kind in ("host", "device"))
    css = {"stable": "pass", "growing": "warn", "leak": "fail", "unknown": grew and "warn"}.get(verdict)
    return f'<span class="{css}">{text(verdict)}</span>' if css else NOT


def ensemble_of(run):
    """{ensemble, verdict, checks} of a run: that of the suite, whose report was whole, else of what is there."""
    if run.row and "ensemble" in run.row:
        return run.row["ensemble"]
    return ensembles.of_report(run.report)


def ensemble_cell(run):
    found = ensemble_of(run)
    if not found or not found["verdict"]:
        return NOT
    css = {judge.PASS: "pass", judge.FAIL: "fail"}.get(found["verdict"], "nm")
    return f'<span class="{css}">{text(found["verdict"])}</span>'


def summary(runs):
    heads = [
        ("run", "", True),
        ("potential", "", True),
        ("atoms", "", False),
        ("median", "ms/step", False),
        ("mean", "ms", False),
        ("P95", "/ mean", False),
        ("P99", "/ mean", False),
        ("CV", "std / mean", False),
        ("cost", "µs/atom", False),
        ("speed", "steps/s", False),
        ("dynamics", "ns/day", False),
        ("memory", "peak, MB", False),
        ("memory", "verdict", False),
        ("drift", "µeV/atom/ps", False),
        ("ensemble", "", False),
        ("targets", "", False),
        ("latency", "over the run", False),
    ]
    rows = []
    for run in runs:
        r = run.report
        mean = number(r["mean_latency_ms"])
        rows.append(
            [
                f'<a href="#{anchor(run)}" title="{text(run.path)}">{text(run.what)}</a>'
                + (f" <small>{text(run.which)}</small>" if run.which else ""),
                f'<i class="k {run.css}"></i>{text(run.potential)}',
                value(run.n_atoms, "{:.0f}".format),
                value(run.median),
                value(mean),
                value(ratio(number(r.get("p95_latency_ms")), mean), "{:.2f}".format),
                value(ratio(number(r.get("p99_latency_ms")), mean), "{:.2f}".format),
                value(r.get("cv"), percent),
                value(r.get("us_per_atom")),
                value(r.get("steps_per_second")),
                value(r.get("ns_per_day")),
                value(None if number(r.get("memory_peak_gb")) is None else 1000 * r["memory_peak_gb"]),
                memory_cell(r),
                value(None if number(r.get("drift")) is None else 1e6 * r["drift"]),
                ensemble_cell(run),
                targets_cell(r),
                charts.spark(run.latencies, run.css) if run.latencies else NOT,
            ]
        )
    return table(heads, rows)


def anchor(run):
    return "r" + hashlib.sha256(run.path.encode()).hexdigest()[:10]


# ---- sections ------------------------------------------------------------------------------------------------------


def headlines(runs, limit=6):
    """One run of each potential: of the work that most potentials did, or the one of medium size nearest to 192
    atoms; and the other runs that did the same."""
    shared = {}
    for run in runs:
        shared.setdefault(run.work, set()).add(run.potential)
    chosen = {}
    for run in sorted(
        runs, key=lambda r: (r.replicas, -len(shared[r.work]), abs((r.n_atoms or 0) - 192), r.protocol != "nvt")
    ):
        chosen.setdefault(run.potential, run)
    same = {(run.work, run.potential) for run in chosen.values() if run.which}
    others = [r for r in runs if (r.work, r.potential) in same and r is not chosen[r.potential]]
    return [r for r in [*chosen.values(), *others][:limit] if r.latencies]


def marks(run):
    return (
        (run.median, "median"),
        (number(run.report.get("p95_latency_ms")), "P95"),
        (number(run.report.get("p99_latency_ms")), "P99"),
    )


def latency_section(runs):
    chosen = headlines(runs)
    if not chosen:
        return ""
    plots = [charts.percentiles([(r.label, r.css, r.latencies) for r in chosen], "How long the tail is")]
    for run in chosen[:2]:
        plots += [
            charts.histogram(run.latencies, run.css, f"Latency, {run.label}", marks(run)),
            charts.series(
                run.latencies,
                run.report.get("latencies_stride") or 1,
                run.css,
                f"Latency over the run, {run.label}",
                run.median,
            ),
        ]
    return section(
        "Latency",
        "One run of each potential, and what repeats it; the other runs are below. In a series the line is the median "
        "of neighboring steps, the band reaches from the fastest to the slowest of them.",
        plots,
    )


def scaling_section(runs):
    groups = {}
    for run in runs:
        if run.n_atoms and run.median and run.ranks == 1 and not run.replicas:
            key = (run.system, run.potential, run.protocol)
            groups.setdefault(key, {})[run.n_atoms] = run
    best = {}
    for (system, potential, _), sizes in groups.items():
        if len(sizes) > max(1, len(best.get((system, potential), {}))):
            best[system, potential] = sizes
    if not best:
        return ""
    curves, costs = [], []
    for k, ((system, potential), sizes) in enumerate(best.items()):
        css = f"c{k % 8}"
        ordered = [sizes[n] for n in sorted(sizes)]
        curves.append((f"{system} {potential}".strip(), css, [r.n_atoms for r in ordered], [r.median for r in ordered]))
        costs.append((curves[-1][0], css, curves[-1][2], [1000 * r.median / r.n_atoms for r in ordered]))
    plots = [
        charts.lines(curves, "atoms", "median (ms/step)", "Time per step", log=True, dots=True),
        charts.lines(
            costs, "atoms", "median (µs/atom)", "Cost of an atom (flat is linear scaling)", log=True, dots=True
        ),
    ]
    return section("Scaling with atoms", "One rank, one thread where the run does not say otherwise.", plots) + batches(
        runs
    )


def batches(runs):
    """Replicas in one run against as many runs of one."""
    groups = {}
    for run in runs:
        if run.replicas and run.n_atoms and run.median and run.ranks == 1:
            groups.setdefault((run.potential, run.protocol), {})[run.n_atoms] = run.median
    rows = [
        [text(potential), text(protocol), f"{copies:.0f}", f"{n:.0f}", value(medians[n]), f"<b>{speedup:.2f}x</b>"]
        for (potential, protocol), medians in groups.items()
        for n, copies, speedup in batched_speedups(medians)
    ]
    heads = [
        ("potential", "", True),
        ("protocol", "", True),
        ("replicas", "in one run", False),
        ("atoms", "", False),
        ("median", "ms/step", False),
        ("speed-up", "over one by one", False),
    ]
    return '<p class="lead">Many copies of a molecule in one run.</p>' + table(heads, rows) if rows else ""


def component_rows(run):
    """Top-level parts; those of the pair style stand for it where it was measured in parts."""
    parts = [c for c in run.report.get("components") or [] if number(c["mean_ms"]) is not None]
    top = [c for c in parts if c["parent"] is None]
    return [(c["name"], PARTS.get(c["name"], "p6"), c["mean_ms"]) for c in top if c["mean_ms"] > 0]


def component_section(runs, most=20):
    if len(runs) > most:  # the others are told apart in the details
        runs = headlines(runs, most)
    rows = [(run.label, component_rows(run)) for run in runs]
    rows = [r for r in rows if r[1]]
    inner = []
    for run in runs:
        inside = [
            c
            for c in run.report.get("components") or []
            if c["parent"] == "pair" and number(c["mean_ms"]) and c["mean_ms"] > 0
        ]
        if inside:
            inner.append((run.label, [(c["name"], INSIDE.get(c["name"], "p7"), c["mean_ms"]) for c in inside]))
    if not rows:
        return section("Components", "Not measured in any of these runs.", [])
    plots = [charts.stacked(rows, "Share of a step")]
    if inner:
        plots.append(charts.stacked(inner, "Inside the pair style, share of its measured parts"))
    return section(
        "Components",
        "Mean over the measured steps, of one run of each potential where there are many runs; the pointer shows "
        "milliseconds.",
        plots,
    )


def memory_chart(run, limit=400):
    points = get(run.report, "memory", "series")
    if not points:
        return ""
    curves = []
    for key, name, css in (("host_bytes", "host", "c0"), ("device_bytes", "device", "c1")):
        pairs = [(s, b) for s, b in zip(points["step"], points[key]) if number(b) is not None]
        if len(pairs) > 1:
            step = max(1, len(pairs) // limit)
            first = pairs[0][1]
            curves.append((name, css, [p[0] for p in pairs[::step]], [(p[1] - first) / 1e6 for p in pairs[::step]]))
    if not curves:
        return ""
    return charts.lines(
        curves,
        "step",
        "memory - first sample (MB)",
        f"Memory, {run.label}",
        zero=True,
        bound=(run.report["memory"]["tolerance_mb"], f"bar: {short(run.report['memory']['tolerance_mb'])} MB"),
    )


def energy_chart(run, limit=500):
    points = get(run.report, "energy", "series")
    if not points or not run.n_atoms:
        return ""
    key = "conserved" if any(number(v) is not None for v in points.get("conserved") or []) else "total"
    pairs = [
        (t, e)
        for t, e in zip(points["time_ps"], points.get(key) or [])
        if number(e) is not None and number(t) is not None
    ]
    if len(pairs) < 2:
        return ""
    step = max(1, len(pairs) // limit)
    unit = "meV/atom" if run.report["energy"]["units"] == "metal" else "1e-3 per atom"
    name = "conserved quantity" if key == "conserved" else "total energy"
    title = f"{name[0].upper() + name[1:]}, {run.label}"
    return charts.lines(
        [
            (
                "",
                run.css,
                [p[0] for p in pairs[::step]],
                [1000 * (p[1] - pairs[0][1]) / run.n_atoms for p in pairs[::step]],
            )
        ],
        "time (ps)",
        f"difference ({unit})",
        title,
    )


def conservation_section(runs):
    plots = []
    for run in headlines(runs, 2):
        plots += [memory_chart(run), energy_chart(run)]
    plots = [p for p in plots if p]
    lead = (
        "Growth from the first sample; the bar is the growth that counts as a leak. Energies are differences from the "
        "first sample, per atom."
        if plots
        else "Not measured in these runs."
    )
    return section("Memory and energy over time", lead, plots)


def pairs_section(folder):
    """Comparisons of `mlff bench`, else ratios of medians of runs that did equal work; and accuracy against a
    reference."""
    out = []
    for c in folder.comparisons:
        rows = [
            [
                text(k["work"]),
                value(k["n_atoms"], "{:.0f}".format),
                value(k["a_median_ms"]),
                value(k["b_median_ms"]),
                f"<b>{k['speedup']:.2f}x</b>" if number(k["speedup"]) else NOT,
                f"{1 / k['ratio_max']:.2f} to {1 / k['ratio_min']:.2f}x" if k["rounds"] > 1 else NOT,
                text(k["rounds"]),
            ]
            for k in c["cases"]
        ]
        heads = [
            ("work", "", True),
            ("atoms", "", False),
            (c["a"], "median, ms/step", False),
            (c["b"], "median, ms/step", False),
            ("speed-up", "A / B", False),
            ("over rounds", "lowest to highest", False),
            ("rounds", "", False),
        ]
        out.append(
            f"<p class=lead>{text(c['b'])} (B) against {text(c['a'])} (A), in the same rounds.</p>" + table(heads, rows)
        )
    if not folder.comparisons:
        out += plain_pairs(folder.runs)
    accurate = [run for run in folder.runs if run.report.get("accuracy")]
    if accurate:
        out.append(accuracy_table(accurate))
        out.append('<div class="charts">' + "".join(accuracy_chart(run) for run in accurate[:4]) + "</div>")
    return f'<h2 id="compare">Model against model</h2>{"".join(out)}' if out else ""


def plain_pairs(runs):
    by_work = {}
    for run in runs:
        if run.median:
            by_work.setdefault(run.work, []).append(run)
    rows = []
    for group in by_work.values():
        slow = max(group, key=lambda r: r.median)
        rows += [
            [
                text(run.what),
                text(slow.potential),
                text(run.potential),
                value(slow.median),
                value(run.median),
                f"{slow.median / run.median:.2f}x",
            ]
            for run in group
            if run is not slow and run.potential != slow.potential
        ]
    heads = [
        ("work", "", True),
        ("A", "", True),
        ("B", "", True),
        ("A", "median, ms/step", False),
        ("B", "median, ms/step", False),
        ("speed-up", "A / B", False),
    ]
    return (
        [
            "<p class=lead>Ratios of the medians of single runs, without an interval: `mlff compare` gives one.</p>"
            + table(heads, rows)
        ]
        if rows
        else []
    )


def accuracy_table(runs):
    heads = [
        ("run", "", True),
        ("reference", "", True),
        ("samples", "", False),
        ("force RMSE", "meV/A", False),
        ("force MAE", "meV/A", False),
        ("largest", "meV/A", False),
        ("cosine", "mean", False),
        ("energy RMSE", "meV/atom", False),
        ("energy bias", "meV/atom", False),
        ("stress RMSE", "GPa", False),
        ("pressure bias", "bar", False),
        ("force RMSE by element", "meV/A", True),
    ]
    rows = []
    for run in runs:
        a = run.report["accuracy"]

        def milli(key, a=a):
            return value(None if number(a[key]) is None else 1000 * a[key])

        rows.append(
            [
                text(run.label),
                text(a["reference"] or "not named"),
                text(a["n_samples"]),
                milli("force_rmse"),
                milli("force_mae"),
                milli("force_max"),
                value(a["force_cosine"], "{:.5f}".format),
                milli("energy_rmse"),
                milli("energy_bias"),
                value(a.get("stress_rmse")),  # reports of earlier versions have none
                value(a.get("pressure_bias")),
                text(
                    ", ".join(
                        f"{e['name']} {short(1000 * e['force_rmse'])}"
                        for e in a.get("elements") or []
                        if number(e["force_rmse"]) is not None
                    )
                )
                or NOT,
            ]
        )
    return "<p class=lead>Against a reference model, on the same positions during the run.</p>" + table(heads, rows)


def accuracy_chart(run):
    points = run.report["accuracy"]["series"]
    pairs = [(s, v) for s, v in zip(points["step"], points["force_rmse"]) if number(v) is not None]
    if len(pairs) < 2:
        return ""
    return charts.lines(
        [("", run.css, [p[0] for p in pairs], [1000 * p[1] for p in pairs])],
        "step",
        "force RMSE (meV/A)",
        f"Forces against {run.report['accuracy']['reference'] or 'the reference'}, {run.label}",
        dots=True,
        zero=True,
    )


def section(name, lead, plots):
    key = name.split()[0].lower()
    return f'<h2 id="{key}">{text(name)}</h2><p>{text(lead)}</p><div class="charts">{"".join(plots)}</div>'
