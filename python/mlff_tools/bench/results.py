"""What the benchmark suite writes at its end: summary table, profiles by model, scaling files, comparisons, the noise
verdict."""

import os
import shutil
from statistics import mean, median

from ..ensemble import judge
from ..model import files
from . import ensembles, goals, noise, profiles
from .cases import SYSTEMS, clean


def side_of(path, args):
    """A or B for the plugins of --against BUILD, else nothing: equal names must not collide."""
    return next((side for side, s in args.sides.items() if side and s["plugin"] == path), "")


def middle(values):
    """Index of the median of an odd number of values; of the lower one of the two in the middle otherwise."""
    return sorted(range(len(values)), key=lambda k: values[k])[(len(values) - 1) // 2]


def average(values):
    """Mean of the values that are there, None without any."""
    known = [v for v in values if v is not None]
    return mean(known) if known else None


def summarise(case, reports):
    """One row of the summary. `file` is the repeat whose median is in the middle."""
    medians = [r["median_latency_ms"] for r in reports]
    chosen = middle(medians)
    report = reports[chosen]
    each = profiles.number(report["mean_latency_ms"])

    def over_mean(key):
        value = profiles.number(report.get(key))
        return value / each if value is not None and each else None

    return {
        "case": case.name,
        "work": case.work,
        "potential": case.potential_name,
        "system": case.system,
        "size": case.size,
        "protocol": case.protocol,
        "temperature": case.temperature,
        "n_atoms": report["n_atoms"],
        "ranks": case.ranks,
        "threads": case.threads,
        "file": f"runs/{case.name}.r{chosen + 1}.json",
        "medians_ms": medians,
        "median_ms": median(medians),
        "cpus_ms": [profiles.number(r.get("cpu_ms")) for r in reports],
        "disturbed": sum(map(profiles.is_disturbed, reports)),
        "spread": (max(medians) - min(medians)) / median(medians) if len(medians) > 1 and median(medians) > 0 else None,
        "repeats": len(medians),
        "interval": noise.interval(medians),
        **{key: average(r["context"].get(key) for r in reports) for key in ("others", "stolen")},
        "us_per_atom": profiles.number(report.get("us_per_atom")),
        "ns_per_day": profiles.number(report.get("ns_per_day")),
        "median_us_per_atom": 1000 * median(medians) / report["n_atoms"],
        "median_ns_per_day": of_median(report, median(medians)),
        "p95_over_mean": over_mean("p95_latency_ms"),
        "p99_over_mean": over_mean("p99_latency_ms"),
        "cv": profiles.number(report.get("cv")),
        "drift": profiles.number(report.get("drift")),
        "memory": profiles.get(report, "memory", "verdict"),
        "ensemble": ensembles.of_report(report),
        "notes": report.get("notes"),
    }


def of_median(report, median_ms):
    """ns/day at the median step; None where the report has none."""
    speed, mean_ms = profiles.number(report.get("ns_per_day")), profiles.number(report.get("mean_latency_ms"))
    return speed * mean_ms / median_ms if speed and mean_ms and median_ms > 0 else None


def cell(value, form, scale=1.0):
    return "-" if value is None else form.format(scale * value)


def table(rows):
    """The summary as text; ms/step, us/atom and ns/day are those of the median step."""
    heads = (
        "case",
        "atoms",
        "median ms",
        "median us/atom",
        "median ns/day",
        "P95/mean",
        "P99/mean",
        "CV %",
        "drift ueV/atom/ps",
        "memory",
        "runs",
        "+- %",
        "spread %",
        "ensemble",
    )
    lines = [heads]
    for row in rows:
        lines.append(
            (
                row["case"],
                str(row["n_atoms"]),
                cell(row["median_ms"], "{:.4g}"),
                cell(row["median_us_per_atom"], "{:.3g}"),
                cell(row["median_ns_per_day"], "{:.3g}"),
                cell(row["p95_over_mean"], "{:.2f}"),
                cell(row["p99_over_mean"], "{:.2f}"),
                cell(row["cv"], "{:.0f}", 100),
                cell(row["drift"], "{:.2g}", 1e6),
                row["memory"] or "-",
                str(row["repeats"]),
                cell(row["interval"], "{:.1f}", 100),
                cell(row["spread"], "{:.1f}", 100),
                profiles.get(row, "ensemble", "verdict") or "-",
            )
        )
    widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    return "\n".join(
        "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
        for line in lines
    )


def notes_text(rows):
    """The notes of the reports of a model, without repetition."""
    return "\n".join(
        f"{p}: {notes}." for p, notes in dict.fromkeys((r["potential"], r["notes"]) for r in rows) if notes
    )


def compare(a_rows, b_rows, a, b):
    """Ratios of B to A for work that both did, round by round: of the medians of wall times, or where other programs
    disturbed a run, of processor times."""
    by_work = {row["work"]: row for row in a_rows}
    cases = []
    for row in b_rows:
        other = by_work.get(row["work"])
        if other is None:
            continue
        n_disturbed, cpus = other["disturbed"] + row["disturbed"], [other["cpus_ms"], row["cpus_ms"]]
        of_cpu = [y / x for x, y in zip(*cpus) if x and y]
        of_wall = [y / x for x, y in zip(other["medians_ms"], row["medians_ms"])]
        by_cpu = bool(n_disturbed) and len(of_cpu) == len(of_wall)
        ratios = of_cpu if by_cpu else of_wall
        cases.append(
            {
                "work": row["work"],
                "n_atoms": row["n_atoms"],
                "a": other["file"],
                "b": row["file"],
                "a_median_ms": other["median_ms"],
                "b_median_ms": row["median_ms"],
                "ratio": median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "speedup": 1 / median(ratios),
                "rounds": len(ratios),
                "disturbed": n_disturbed,
                "by": "cpu_ms" if by_cpu else "median_latency_ms",
                "wall_ratio": median(of_wall),
                "cpu_ratio": median(of_cpu) if of_cpu else None,
            }
        )
    return {
        "format": "mlff-comparison/1",
        "a": a,
        "b": b,
        "ratio_of": "median_latency_ms, B / A, within each round; cpu_ms where a run was disturbed (by)",
        "cases": cases,
    }


def doubt(case):
    """What a line of a comparison says where other programs had the processor."""
    if not case["disturbed"]:
        return ""
    means = "by processor time" if case["by"] == "cpu_ms" else "in doubt"
    return f"   DISTURBED in {case['disturbed']} runs: {means}; wall {1 / case['wall_ratio']:.2f}x"


def comparison_text(comparison):
    head = f"\n{comparison['b']} against {comparison['a']}: time per step B / A, median over rounds [lowest, highest]"
    lines = [
        f"  {c['work']:34s} {c['ratio']:7.3f}  [{c['ratio_min']:.3f}, {c['ratio_max']:.3f}]   speed-up "
        f"{c['speedup']:.2f}x{doubt(c)}"
        for c in comparison["cases"]
    ]
    return "\n".join([head, *lines])


def comparisons(rows, args, models):
    """All pairs of models by their names (or the two builds), as dictionaries, those without common work left out."""
    groups = {}
    for row in rows:
        side = row["case"].rpartition("-")[2] if args.by_build else ""
        if row["potential"] in models or args.by_build:
            groups.setdefault(side or row["potential"], []).append(row)
    names = list(groups)
    if not args.by_build:  # the slower one is A, so that ratios are speed-ups of B
        names.sort(key=lambda n: -sum(r["median_ms"] / r["n_atoms"] for r in groups[n]) / len(groups[n]))
    if args.by_build:  # rows of several potentials are told apart by their work
        for side in groups:
            groups[side] = [{**r, "work": f"{r['work']} {r['potential']}"} for r in groups[side]]
    found = [compare(groups[a], groups[b], a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    return [c for c in found if c["cases"]]


def headline(rows):
    """The row that stands for a model: liquid water of medium size at constant temperature, or what comes nearest."""

    def rank(row):
        return (
            row["system"] != "water",
            row["size"] != "medium",
            row["protocol"] != "nvt",
            row["ranks"] * row["threads"],
        )

    return min(rows, key=rank)


def scaling(rows):
    """Rows of one potential that differ in the number of atoms only, per system: the protocol with most sizes."""
    groups = {}
    for row in rows:
        if row["ranks"] == row["threads"] == 1 and not row["work"].startswith("replicas"):
            groups.setdefault((row["system"], row["protocol"], row.get("temperature")), {})[row["n_atoms"]] = row
    best = {}
    for (system, _, _), sizes in groups.items():
        if len(sizes) > max(1, len(best.get(system, ()))):
            best[system] = sizes
    return best


def batches(rows):
    """[{"potential", "n_atoms", "copies", "speedup"}]: replicas in one run against as many runs of one, one after the
    other."""
    groups = {}
    for row in rows:
        if row["work"].startswith("replicas"):
            key = (row["case"].removeprefix(f"replicas-{row['n_atoms']}"), row["potential"])
            groups.setdefault(key, {})[row["n_atoms"]] = row["median_ms"]
    return [
        {"potential": potential, "n_atoms": n, "copies": copies, "speedup": speedup}
        for (_, potential), medians in groups.items()
        for n, copies, speedup in profiles.batched_speedups(medians)
    ]


def batches_text(found):
    lines = [
        f"  {b['potential']:34s} {b['copies']:4d} replicas in one run: {b['speedup']:.2f}x as fast as one by one"
        for b in found
    ]
    return (
        "\n".join(["\nBatches: time of so many runs of one replica over the time of one run of all", *lines])
        if lines
        else ""
    )


def write(results, args, seconds):
    """Writes all files of --out; returns the text for the terminal, and whether no run is off its ensemble."""
    order = list(SYSTEMS)
    cases = sorted(
        results, key=lambda c: (c.deck, order.index(c.system), c.n_atoms, c.protocol, c.potential_name, c.side)
    )
    rows = [summarise(case, results[case]) for case in cases]
    ensembles.with_pairs(rows, [results[case][middle(row["medians_ms"])] for case, row in zip(cases, rows)])
    quiet, sentence = noise.sentence(rows, args.budget if args.repeats > 1 else 0)
    physics = ensembles.sentence(rows)
    remove_old(args.out)
    for row in rows:  # under a name without the number of the repeat, to be stored and compared
        copy(args.out, row["file"], os.path.join("cases", f"{row['case']}.json"))
    for potential in dict.fromkeys(row["potential"] for row in rows):
        selected = [row for row in rows if row["potential"] == potential]
        copy(args.out, headline(selected)["file"], f"{clean(potential)}_profile.json")
        for system, sizes in scaling(selected).items():
            for n, row in sizes.items():
                copy(args.out, row["file"], f"{clean(potential)}_scaling_{system}_{n}.json")
    found = comparisons(rows, args, {case.potential_name for case in cases if case.model})
    for c in found:
        profiles.write_json(os.path.join(args.out, f"comparison_{clean(c['a'])}_vs_{clean(c['b'])}.json"), c)
    batched = batches(rows)
    parts = [
        table(rows),
        "",
        sentence,
        physics,
        notes_text(rows),
        batches_text(batched),
        *(comparison_text(c) for c in found),
    ]
    text = "\n".join(p for k, p in enumerate(parts) if p or k == 1) + "\n"
    if args.suite == "targets":
        text += "\n" + goals.write(rows, results, found, args)
    profiles.write_text(os.path.join(args.out, "summary.txt"), text)
    profiles.write_json(
        os.path.join(args.out, "suite.json"),
        {
            **args.record,
            "cases": rows,
            "batches": batched,
            "quiet": quiet,
            "noise": sentence,
            "ensembles": physics,
            "repeats": args.repeats,
            "seconds": round(seconds, 1),
        },
    )
    text += f"\n{len(rows)} cases, {args.repeats} rounds, {seconds:.0f} s. Written to {args.out}; a page of it: mlff "
    return text + f"report {args.out}", not any(profiles.get(r, "ensemble", "verdict") == judge.FAIL for r in rows)


def remove_old(folder):
    """Cases, profiles, scaling files and comparisons of an earlier choice; runs stay."""
    shutil.rmtree(os.path.join(folder, "cases"), ignore_errors=True)
    os.makedirs(os.path.join(folder, "cases"))
    for name in os.listdir(folder):
        if name in ("targets.json", "targets.txt"):
            os.remove(os.path.join(folder, name))
        if name.endswith(profiles.SCALING_REPORTS):
            continue
        if name.endswith(".json") and ("_profile" in name or "_scaling_" in name or name.startswith("comparison_")):
            os.remove(os.path.join(folder, name))


def copy(folder, source, name):
    files.copy(os.path.join(folder, source), os.path.join(folder, name))
