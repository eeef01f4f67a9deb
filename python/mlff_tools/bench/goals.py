"""Targets of this project in one table: mlff bench --suite targets writes targets.json and targets.txt.

Students and teachers run the input scripts of the suite, interleaved. Precision, CUDA graphs and batches are timed with
`mlff time`, all variants in turn. The limits are those of docs/benchmarks.md, fixed before any measurement. A target
that cannot be measured here keeps its row, with the reason.
"""

import os
import statistics
import tempfile
import time

import numpy as np

from ..model import engine
from ..model.lammps import cpu_name
from ..model.modelfile import ModelError
from ..model.structures import write_xyz
from . import implementations, profiles
from .cases import ROLES, clean, model_of, why_missing

STEPS, REPEATS = 1020, 3  # defaults of the suite
FORMAT, ROUNDS, COPIES = "mlff-targets/1", 9, (4, 8, 16, 256)
PASS, FAIL, MISSING, NO_LIMIT = "PASS", "FAIL", "not measured", "-"


def memory_growth(report):
    """MB, of the program or of its GPU memory, whichever grew more."""
    memory = report["memory"]
    return max(place["delta_bytes"] for place in (memory["host"], memory["device"]) if place) / 1e6


# Student reports: (target, unit, upper limit, value of a report)
STUDENT = (
    ("mean step", "ms", 1.0, lambda r: r["mean_latency_ms"]),
    ("time per atom", "us", 10.0, lambda r: r["us_per_atom"]),
    ("P95 / mean", "", 2.0, lambda r: r["p95_latency_ms"] / r["mean_latency_ms"]),
    ("P99 / mean", "", 3.0, lambda r: r["p99_latency_ms"] / r["mean_latency_ms"]),
    ("CV of steps", "%", 20.0, lambda r: 100 * r["cv"]),
    ("memory growth", "MB", 10.0, memory_growth),
    ("memory peak", "GB", 1.0, lambda r: r["memory_peak_gb"]),
)
# name: (mean step in ms, peak of memory in GB) that the requirements expect of teachers of 64 atoms
TEACHERS = {"ani-2x": (5.0, 1.0), "orb-v2": (10.0, 2.0)}
SPEED_UP, SUITE_S, SPREAD = 5.0, 600.0, 5.0
PART = "part of it ran, or not with the default steps and repeats"
PLAIN, NO_MIXED = "--replay no --fuse no", "this processor has no mixed precision"
# (target, variant, variant that it is compared with, devices, lower limit); a variant begins with its number of copies
GAINS = (
    ("captured and fused / plain", "1", "1 plain", ("cuda",), 1.3),
    ("captured and fused / plain, batch of 16", "16", "16 plain", ("cuda",), 1.4),
    ("mixed / fp32", "1 mixed", "1", ("cpu", "cuda"), 1.5),
    ("mixed / fp32, batch of 16", "16 mixed", "16", ("cpu", "cuda"), 1.8),
    ("captured, fused and mixed / plain", "1 mixed", "1 plain", ("cuda",), 2.0),
    *((f"{n} copies at once / one by one", f"{n}", "1", ("cpu", "cuda"), None) for n in COPIES),
    ("256 copies, captured, fused and mixed / one, plain", "256 mixed", "1 plain", ("cuda",), 32.0),
)
# (target, unit, upper limit) of `precision mixed`
MIXED = (
    ("mixed: force RMSE", "% of RMS force", 1.0),
    ("mixed: energy error", "% of energy", 0.1),
    ("mixed: memory of 16 copies / fp32", "", 0.7),
)


def row(target, subject, value, limit=None, *, unit="", at_least=False, note=""):
    """A row of the table. value: None where it was not measured, and `note` says why."""
    if value is None:
        verdict = MISSING
    elif limit is None:
        verdict = NO_LIMIT
    else:
        verdict = PASS if (value >= limit if at_least else value < limit) else FAIL
    bar = None if limit is None else f"{'>=' if at_least else '<'} {limit:g}"
    return {
        "target": target,
        "of": subject,
        "limit": bar,
        "value": value,
        "unit": unit,
        "verdict": verdict,
        "note": note,
    }


# ---- runs of LAMMPS -------------------------------------------------------------------------------------


def of_reports(rows, out, comparisons, systems):
    """Rows of students, teachers and their ratios, from the summary rows of the suite and its comparisons."""
    found = []
    for system, name in ROLES["student"].items():
        if system in systems:
            found += _student(rows, out, f"{system}-small-nvt", name)
    for system, teacher in ROLES["teacher"].items():
        student = ROLES["student"].get(system)
        if system in systems and student:
            found.append(_ratio(comparisons, f"{system}-small-nvt", teacher, student))
    for name, (limit, memory) in TEACHERS.items():
        found += _teacher(rows, out, name, limit, memory)
    return found


def _report(rows, out, work, name):
    """(summary row, report) of a case; None where it did not run."""
    row_ = next((r for r in rows if r["work"] == work and r["potential"] == clean(name)), None)
    return row_ and (row_, profiles.read_json(out, row_["file"]))


def _student(rows, out, work, name):
    found = _report(rows, out, work, name)
    if not found:
        return [
            row(t, f"{name}, {work}", None, limit, unit=unit, note="its case did not run")
            for t, unit, limit, _ in STUDENT
        ]
    summary, report = found
    subject, note = f"{name}, {report['n_atoms']} atoms", "DISTURBED" if summary["disturbed"] else ""
    rows = [
        row(target, subject, _value(value, report), limit, unit=unit, note=note)
        for target, unit, limit, value in STUDENT
    ]
    return [{**r, "note": "not in the report"} if r["verdict"] == MISSING else r for r in rows]


def _value(value, report):
    try:
        return profiles.number(value(report))
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def _teacher(rows, out, name, limit, memory):
    found = next(filter(None, (_report(rows, out, r["work"], name) for r in rows if r["size"] == "small")), None)
    if not found:
        return [row("mean step of a teacher", name, None, limit, unit="ms", note=why_missing(name))]
    report, subject = found[1], f"{name}, {found[1]['n_atoms']} atoms"
    return [
        row("mean step of a teacher", subject, report["mean_latency_ms"], limit, unit="ms"),
        row("memory peak of a teacher", subject, report["memory_peak_gb"], memory, unit="GB"),
    ]


def _ratio(comparisons, work, teacher, student):
    """Teacher against student, from the same start in the same rounds."""
    target, subject = "teacher / student", f"{student}, teacher {teacher}"
    for c in comparisons:
        case = next((case for case in c["cases"] if case["work"] == work), None)
        pair = {c["a"]: 1.0, c["b"]: -1.0}
        if case and set(pair) == {clean(teacher), clean(student)}:
            power = -pair[clean(teacher)]
            speed_up = case["ratio"] ** power
            low, high = sorted(case[key] ** power for key in ("ratio_min", "ratio_max"))
            note = f"{case['rounds']} rounds, {low:.3g} to {high:.3g}"
            if case["disturbed"]:
                note += ", DISTURBED" + (", by processor time" if case["by"] == "cpu_ms" else "")
            return row(target, subject, speed_up, SPEED_UP, at_least=True, note=note)
    return row(target, subject, None, SPEED_UP, at_least=True, note=why_missing(teacher))


def of_suite(rows, reports, whole):
    """Rows of the suite of students: its time, and how well its repeats agree."""
    spreads = [100 * r["spread"] for r in rows if r["spread"] is not None]
    seconds = [profiles.number(r["context"].get("run_s")) for r in reports]
    total = sum(seconds) if whole and None not in seconds else None
    above = sum(s >= SPREAD for s in spreads)
    return [
        row(
            "suite of students, all runs", f"{len(reports)} runs", total, SUITE_S, unit="s", note="" if whole else PART
        ),
        row(
            "largest spread of repeats",
            f"{len(spreads)} cases",
            max(spreads, default=None),
            SPREAD,
            unit="%",
            note=f"{above} cases above, median {statistics.median(spreads):.2g} %" if spreads else "each case ran once",
        ),
    ]


# ---- precision, CUDA graphs, batches --------------------------------------------------------------------


def variants(device, has_mixed):
    """{variant: (precision, more options of mlff time)} on a device."""
    out = {"1": ("fp32", ""), **{f"{n}": ("fp32", f"--replicas {n}") for n in COPIES}}
    if device == "cuda":
        out.update({"1 plain": ("fp32", PLAIN), "16 plain": ("fp32", f"--replicas 16 {PLAIN}")})
    if has_mixed:
        out.update({f"{n} mixed": ("mixed", f"--replicas {n}") for n in (1, 16, 256)})
    return out


def copies_of(variant):
    return int(variant.split()[0])


def measure(model, frame, device, program=None):
    """({variant: ms in each round}, {target of MIXED: value}) of a model and a structure, all in one process."""
    program = engine.find_program(program)
    with tempfile.TemporaryDirectory(prefix="mlff-targets-") as folder:
        xyz = os.path.join(folder, "structure.xyz")
        write_xyz(xyz, [frame])
        ours = implementations.Ours(program, os.path.abspath(model), xyz)
        try:
            cuda = ours.machine["cuda"]
            if device == "cuda" and not cuda["n_usable"]:
                raise ModelError(f"--device cuda: {cuda['why_none'] or 'no usable GPU'}")
            has_mixed = device == "cuda" or " yes" in ours.machine["mixed"]
            timed = [ours.row(v, device, p, more=more) for v, (p, more) in variants(device, has_mixed).items()]
            for r in timed:
                r.warm_up()
            for _ in range(ROUNDS):
                for r in timed:
                    r.measure()
        finally:
            ours.program.stop()
    errors = {}
    if has_mixed:
        without = ("--e0", "no")  # energies of free atoms
        ((energy, forces, _),), _ = engine.evaluate(model, [frame], "fp64", program, without)
        ((other, wrong, _),), _ = engine.evaluate(model, [frame], "mixed", program, (*without, "--device", device))
        values = (
            100 * np.sqrt(np.mean((wrong - forces) ** 2) / np.mean(forces**2)),
            100 * abs((other - energy) / energy),
            ours.answers["16 mixed"]["memory_bytes"] / ours.answers["16"]["memory_bytes"],
        )
        errors = {target: float(v) for (target, _, _), v in zip(MIXED, values)}
    return {r.name: r.rounds for r in timed}, errors


def of_engine(subject, times, errors, device):
    """Rows of a model from what measure() gives."""
    found = []
    for target, variant, other, devices, limit in GAINS:
        note = NO_MIXED if device in devices else "GPU: not measured with this code (--device cuda)"
        value = None
        if variant in times and other in times:
            scale = copies_of(variant) / copies_of(other)
            ratios = [scale * a / b for a, b in zip(times[other], times[variant])]
            value, note = statistics.median(ratios), f"{len(ratios)} rounds, {min(ratios):.3g} to {max(ratios):.3g}"
        found.append(row(target, subject, value, limit, at_least=True, note=note))
    for target, unit, limit in MIXED:
        note = "" if errors else NO_MIXED
        found.append(row(target, subject, errors.get(target), limit, unit=unit, note=note))
    return found


# ---- the table ------------------------------------------------------------------------------------------


def text(found, device, date, commit):
    """The table as text."""
    lines = [("target", "of", "limit", "value", "", "verdict", "note")]
    for r in found:
        value = "-" if r["value"] is None else f"{r['value']:.3g}"
        lines.append((r["target"], r["of"], r["limit"] or "-", value, r["unit"], r["verdict"], r["note"]))
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    table = ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines]
    counts = ", ".join(f"{sum(r['verdict'] == v for r in found)} {v}" for v in (PASS, FAIL, MISSING))
    head = f"Targets on {'a GPU' if device == 'cuda' else 'one core'} ({cpu_name()}, {date}, mlff {commit}): {counts}"
    return "\n".join([head, "", *table]) + "\n"


def write(rows, results, comparisons, args):
    """Measures what the runs do not tell, writes targets.json and targets.txt into --out; returns the text."""
    systems = args.systems or list(ROLES["teacher"])
    found = of_reports(rows, args.out, comparisons, systems)
    students = {f"{name}.yaml" for name in ROLES["student"].values()}
    reports = [
        r for case, all_ in results.items() if not case.model or os.path.basename(case.model) in students for r in all_
    ]
    narrow = args.systems or args.sizes or args.protocols or args.names
    found += of_suite(rows, reports, not narrow and args.steps >= STEPS and args.repeats >= REPEATS)
    for system in implementations.STRUCTURES:
        name = ROLES["student"].get(system)
        if system in systems and name:
            path = model_of(system, "student")
            frame = implementations.structure(system, args.decks, "small")
            times, errors = measure(path, frame, args.device)
            found += of_engine(f"{name}, {len(frame['elements'])} atoms", times, errors, args.device)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    commits = dict.fromkeys(str(r["context"].get("commit")) for r in reports)
    table = text(found, args.device, date, " ".join(commits))
    record = {
        "format": FORMAT,
        "device": args.device,
        "processor": cpu_name(),
        "date": date,
        "commits": list(commits),
        "rows": found,
    }
    profiles.write_json(os.path.join(args.out, "targets.json"), record)
    profiles.write_text(os.path.join(args.out, "targets.txt"), table)
    return table
