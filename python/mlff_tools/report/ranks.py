"""The section of the HTML page about reports of `mlff scaling`: ranks, and replicas in one run."""

from . import charts
from .charts import text
from .parts import section, table, value


def ranks_section(folder):
    """Charts and a table for each MODEL_scaling_strong.json, _weak.json, _replicas.json; an empty text without any."""
    if not folder.scalings:
        return ""
    plots, tables = [], []
    for report in sorted(folder.scalings, key=lambda r: (r["model"], r["mode"])):
        plots += replica_plots(report) if report["mode"] == "replicas" else rank_plots(report)
        tables.append(rows_of(report))
    lead = "Numbers of ranks above that of processors show that results agree, not speed, and have no efficiency."
    return section("Ranks and replicas", lead, plots) + "".join(tables)


def rank_plots(report):
    times, efficiencies = [], []
    for k, box in enumerate(dict.fromkeys(row["box"] for row in report["rows"])):
        rows = [r for r in report["rows"] if r["box"] == box and r["efficiency"] is not None]
        label = f"{rows[0]['n_atoms']} atoms" + (" per rank" if report["mode"] == "weak" else "") if rows else ""
        if rows:
            ranks = [r["ranks"] for r in rows]
            times.append((label, f"c{k % 8}", ranks, [r["median_ms"] for r in rows]))
            efficiencies.append((label, f"c{k % 8}", ranks, [r["efficiency"] for r in rows]))
    if not times:
        return []
    title = f"{report['model']}, {report['mode']} scaling"
    return [
        charts.lines(times, "ranks", "median (ms/step)", f"{title}: time per step", log=True, dots=True),
        charts.lines(
            efficiencies, "ranks", "efficiency", f"{title}: efficiency", dots=True, zero=True, bound=(1, "ideal")
        ),
    ]


def replica_plots(report):
    replicas = [r["replicas"] for r in report["rows"]]
    rates = [r["replica_steps_per_second"] for r in report["rows"]]
    costs = [r["cost_against_one"] for r in report["rows"]]
    name = report["model"]
    return [
        charts.lines(
            [(name, "c0", replicas, rates)], "replicas", "replica-steps/s", f"{name}: throughput", log=True, dots=True
        ),
        charts.lines(
            [(name, "c0", replicas, costs)],
            "replicas",
            "cost / one alone",
            f"{name}: cost of a replica",
            dots=True,
            zero=True,
            bound=(1, "alone"),
        ),
    ]


def rows_of(report):
    """The table of one report, and what its checks found."""
    keys = (
        ("replicas", "replicas", ""),
        ("ranks", "ranks", ""),
        ("n_atoms", "atoms", ""),
        ("ghosts_per_rank", "ghosts", "per rank"),
        ("median_ms", "median", "ms/step"),
        ("us_per_atom", "cost", "µs/atom"),
        ("replica_steps_per_second", "throughput", "replica-steps/s"),
        ("cost_against_one", "cost of one", "/ alone"),
        ("efficiency", "efficiency", ""),
        ("exchange_ms", "exchange", "ms"),
        ("comm_ms", "communication", "ms"),
        ("spread", "spread", ""),
    )
    keys = [k for k in keys if any(row.get(k[0]) is not None for row in report["rows"])]
    heads = [(head, small, False) for _, head, small in keys]
    rows = [[value(row.get(key)) for key, _, _ in keys] for row in report["rows"]]
    checks = "".join(
        f"<br>{c['ranks']} ranks, {c['n_atoms']} atoms, double precision: "
        f"{'the same as' if c['passed'] else '<b>differs from</b>'} one rank within {c['force']:.1e} eV/Å."
        for c in report.get("checks") or []
    )
    cpu = (report.get("context") or {}).get("cpu") or ""
    lead = f"{text(report['model'])}, {text(report['mode'])}, {text(cpu)}, {text(report.get('timestamp') or '')}"
    return f'<p class="lead">{lead}{checks}</p>{table(heads, rows)}'
