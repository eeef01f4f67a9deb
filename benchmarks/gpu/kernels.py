"""What each kernel of a step takes on a GPU, by Nsight Compute: time, bytes moved, registers, occupancy of all
kernels of one step, and everything that it can tell of the hottest six (files for its window, NAME.ncu-rep)."""

import collections
import csv
import os
import re

METRICS = {
    "gpu__time_duration.sum": "us",
    "dram__bytes_read.sum": "bytes_read",
    "dram__bytes_write.sum": "bytes_written",
    "launch__registers_per_thread": "registers",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute_percent",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory_percent",
}
SUMMED = ("us", "bytes_read", "bytes_written")
N_HOT = 6
SKIPPED_STEPS, CALLS = (
    20,
    40,
)  # the self-tests when a model is opened, and the evaluations that bring up the list, come first
NCU = ["ncu", "--clock-control", "none", "--cache-control", "none", "--target-processes", "application-only"]


def command(program, n_kernels, more):
    """ncu around a program that makes CALLS evaluations, operation by operation: settled steps, of which any stretch
    of n_kernels launches is a whole one."""
    return [*NCU, "--launch-skip", str(SKIPPED_STEPS * n_kernels), *more, *program]


def read(text):
    """[{kernel, us, ...}] in the order of launches, of what `ncu --csv --page raw --print-units base` prints: a line
    of names, one of units, then one for each launch."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if len(rows) < 3 or "Kernel Name" not in rows[0]:
        return []
    head, found = rows[0], []
    for row in rows[2:]:
        cells = dict(zip(head, row))
        about = {"kernel": short_name(cells["Kernel Name"])}
        for metric, name in METRICS.items():
            text = cells.get(metric, "").replace(",", "")
            about[name] = float(text) if re.fullmatch(r"[-+.\deE]+", text) else None
        if about["us"] is not None:
            about["us"] /= 1000  # base units are ns
        found.append(about)
    return found


def short_name(name):
    """Name and template arguments of one of the project's kernels, which all end in _kernel; others as they are."""
    found = re.search(r"(\w+_kernel)(<[^<>]*>)?", name)
    return found.group(1) + re.sub(r"\(\w+\)", "", found.group(2) or "") if found else name


def by_kernel(rows):
    """[{kernel, launches, us, ...}], the hottest first: sums of times and bytes, and of the rest the values of the
    longest launch."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["kernel"]].append(row)
    out = []
    for name, launches in groups.items():
        longest = max(launches, key=lambda row: row["us"] or 0)
        sums = {key: sum(row[key] or 0 for row in launches) for key in SUMMED}
        out.append({**longest, "kernel": name, "launches": len(launches), **sums})
    return sorted(out, key=lambda row: -row["us"])


def measure(session, name, program, n_kernels, env, limit):
    """The row of one model and size; profiles go into the session's folder."""
    table = os.path.join(session.work, name + ".csv")
    light = [
        "--launch-count",
        str(n_kernels),
        "--metrics",
        ",".join(METRICS),
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        table,
    ]
    done = session.run("ncu-" + name, command(program, n_kernels, light), limit, env)
    if done.code != 0 or not os.path.exists(table):
        return {"failed": done.why()}
    with open(table, encoding="utf-8", errors="replace") as f:
        text = f.read()
    with open(os.path.join(session.logs, f"ncu-{name}.csv.log"), "w", encoding="utf-8") as f:
        f.write(text)
    rows = by_kernel(read(text))
    if not rows:
        return {"failed": f"ncu's table was not understood; it is in the logs as ncu-{name}.csv.log"}
    out = {"n_kernels": n_kernels, "kernels": rows, **{key: sum(row[key] for row in rows) for key in SUMMED}}
    hot = "|".join(sorted({re.sub(r"<.*", "", row["kernel"]) for row in rows[:N_HOT]}))
    full = [
        "--launch-count",
        str(2 * N_HOT),
        "--kernel-name",
        f"regex:^({hot})$",
        "--set",
        "full",
        "--force-overwrite",
        "--export",
        os.path.join(session.profiles, name),
    ]
    program_again = session.run(
        f"ncu-full-{name}", [*NCU, "--launch-skip", str(SKIPPED_STEPS), *full, *program], limit, env
    )
    if program_again.code != 0:
        out["full_profile"] = program_again.why()
    return out
