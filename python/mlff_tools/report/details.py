"""What the HTML page shows of each run: charts, targets, causes of slow steps, advice, conditions."""

from . import charts
from .charts import short, text
from .parts import NOT, anchor, energy_chart, ensemble_of, marks, memory_chart, percent, table, value


def details(run):
    r = run.report
    plots = []
    if run.latencies:
        plots = [
            charts.histogram(run.latencies, run.css, "Latency", marks(run)),
            charts.series(run.latencies, r.get("latencies_stride") or 1, run.css, "Latency over the run", run.median),
        ]
    plots += [memory_chart(run), energy_chart(run)]
    facts = (
        f"{value(run.median)} ms per step · {value(r['n_steps'], '{:.0f}'.format)} steps after "
        f"{r.get('warmup', {}).get('n_steps', 0)} of warm-up · {value(r.get('us_per_atom'))} "
        "µs/atom"
    )
    tables = [
        targets_table(r),
        ensemble_table(run),
        tags_table(r),
        slow_table(r),
        thermal_table(r),
        hotspots(r),
        work_table(r),
        context_table(run),
    ]
    return (
        f'<details id="{anchor(run)}"><summary><b>{text(run.label)}</b><span>{facts}</span></summary>'
        f'<div class="charts">{"".join(p for p in plots if p)}</div><div class="two">'
        f"{''.join(t for t in tables if t)}</div></details>"
    )


def targets_table(r):
    rows = [
        [
            text(t["metric"]),
            f"{text(t['relation'])} {short(t['bound'])}",
            value(t["value"]),
            f'<span class="{ {"pass": "pass", "fail": "fail"}.get(t["status"], "nm") }">{text(t["status"])}</span>',
        ]
        for t in r.get("targets") or []
    ]
    return (
        block(
            "Targets", table([("metric", "", True), ("bar", "", False), ("measured", "", False), ("", "", False)], rows)
        )
        if rows
        else ""
    )


def ensemble_table(run):
    """The checks behind the verdict on the ensemble."""
    found = ensemble_of(run)
    if not found or not found["checks"]:
        return ""
    rows = []
    for c in found["checks"]:
        off = (
            f"{value(c['value'])} ± {value(c['error'], '{:.2g}'.format)}"
            if c["error"] is not None
            else value(c["value"])
        )
        within = "its interval" if c["bar"] is None else short(c["bar"])
        bar = f"{short(c['target'])}, within {within} {c['unit']}".rstrip()
        css = {"PASS": "pass", "FAIL": "fail"}.get(c["verdict"], "nm")
        said = f'<span class="{css}">{text(c["verdict"])}</span>'
        rows.append([text(c["name"]), off, text(bar), said, text(c["note"])])
    heads = [("check", "", True), ("found", "", False), ("wanted", "", False), ("", "", False), ("", "", True)]
    return block(f"Ensemble: {found['ensemble'].upper()}", table(heads, rows))


def tags_table(r):
    rows = [
        [
            text(t["name"].replace("_", " ")),
            text(t["n_steps"]),
            value(t["mean_latency_ms"]),
            value(t["share"], percent),
            value(t["times_untagged"], "{:.2f}x".format),
        ]
        for t in r.get("tags") or []
    ]
    heads = [
        ("steps with", "", True),
        ("steps", "", False),
        ("mean", "ms", False),
        ("of the time", "", False),
        ("against untagged", "", False),
    ]
    return block("Causes", table(heads, rows)) if rows else ""


def slow_table(r):
    rows = [
        [
            text(s["step"]),
            value(s["latency_ms"]),
            value(s["times_median"], "{:.1f}x".format),
            text(", ".join(t.replace("_", " ") for t in s["tags"]) or "none known"),
        ]
        for s in (r.get("slow_steps") or [])[:8]
    ]
    return (
        block(
            "Slowest steps",
            table([("step", "", True), ("time", "ms", False), ("over median", "", False), ("causes", "", True)], rows),
        )
        if rows
        else ""
    )


def thermal_table(r):
    """Energies, temperature, pressure, volume: where they stood, how they fluctuated, and whether they went
    anywhere."""
    energy = r.get("energy") or {}
    metal = energy.get("units") == "metal"
    rows = []
    for name, unit, rate in (
        ("total", "eV", "eV/atom/ps"),
        ("conserved", "eV", "eV/atom/ps"),
        ("temperature", "K", "K/ps"),
        ("pressure", "bar", "bar/ps"),
        ("volume", "Å³", "Å³/ps"),
    ):
        q = energy.get(name)
        if not q:
            continue
        trend = f"{value(q['drift'], '{:.3g}'.format)} ± {value(q['drift_error'], '{:.2g}'.format)}"
        rows.append(
            [
                text(f"{name}, {unit}" if metal else name),
                value(q["mean"]),
                value(q["std"], "{:.3g}".format),
                trend + (f" {rate}" if metal else ""),
            ]
        )
    heads = [
        ("quantity", "", True),
        ("mean", "", False),
        ("std", "", False),
        ("trend", "with its 95 % interval", False),
    ]
    return block("Energy, temperature, pressure", table(heads, rows)) if rows else ""


def hotspots(r):
    rows = [
        [text(h["component"]), percent(h["share"]), value(h.get("gain"), "{:.2f}x".format), text(h["advice"])]
        for h in r.get("hotspots") or []
    ]
    heads = [("part", "", True), ("share", "", False), ("faster", "at most, by it", False), ("advice", "", True)]
    return (
        block(
            "Why is it slow: parts above a tenth of the step",
            table(heads, rows).replace('<td class="t">', '<td class="t wrap">'),
        )
        if rows
        else ""
    )


def work_table(r):
    """What the parts of the model did, and at which rate: `mlff explain` says what a core can do."""
    rows = [
        [
            text(c["name"].replace("_", " ")),
            value(c["mean_ms"]),
            f"{1e3 * c['gflop'] / c['mean_ms']:.1f}",
            f"{1e3 * c['gbyte'] / c['mean_ms']:.1f}",
        ]
        for c in r.get("components") or []
        if c["mean_ms"] and c.get("gflop") and c.get("gbyte")
    ]
    heads = [
        ("part of the model", "", True),
        ("mean", "ms", False),
        ("does", "GFLOP/s", False),
        ("moves", "GB/s", False),
    ]
    return block("Rates", table(heads, rows)) if rows else ""


def context_table(run):
    r, flat = run.report, []

    def walk(prefix, node):
        for key, v in node.items():
            if isinstance(v, dict):
                walk(f"{prefix}{key}/", v)
            else:
                flat.append([text(prefix + key), NOT if v is None else text(short(v) if isinstance(v, float) else v)])

    walk("", r.get("context") or {})
    flat = [
        ["file", text(run.path)],
        ["name", text(r["name"])],
        ["report", text(r.get("timestamp") or "")],
        ["notes", text(r.get("notes") or "none")],
    ] + flat
    return block(
        "Conditions", table([("", "", True), ("", "", True)], flat).replace('<td class="t">', '<td class="t wrap">')
    )


def block(name, inner):
    return f"<div><h3>{text(name)}</h3>{inner}</div>"
