"""summary.txt of a call of run.py: what gpu.json says, for a person."""


def lines(state):
    out = [f"host {state.get('host')}"]
    for kind in ("time", "check"):
        if kind in state:
            out += ["", f"== --{kind}: {state[kind]['state']}", *(text for text in state[kind]["notes"])]
    timed, checked = state.get("time", {}), state.get("check", {})
    return (
        out
        + device(timed.get("device"))
        + table(timed)
        + steps(timed)
        + kernels(timed)
        + suites(checked)
        + sanitizers(checked)
    )


def device(found):
    out = []
    for gpu in (found or {}).get("devices", []):
        numbers = ", ".join(
            f"{key} {gpu[key]:.4g}"
            for key in ("up_gb_per_s", "down_gb_per_s", "copy_gb_per_s", "launch_us", "round_trip_us", "graph_node_us")
            if isinstance(gpu.get(key), (int, float))
        )
        out.append(f"{gpu.get('device')} {gpu.get('name')}: {numbers}")
    return out


WAYS = {
    "fp32": ("cuda", "fp32", "on", "on"),
    "mixed": ("cuda", "mixed", "on", "on"),
    "no graph": ("cuda", "fp32", "off", "on"),
    "no fuse": ("cuda", "fp32", "on", "off"),
    "fp64": ("cuda", "fp64", "on", "on"),
    "one core": ("cpu", "fp32", "on", "on"),
}


def table(timed):
    """Median ms of an evaluation, for each way, network and size, and PyTorch's on the same structures."""
    found = {}
    for row in timed.get("cases", []) + timed.get("cases_2", []):
        way = next(
            (w for w, key in WAYS.items() if key == tuple(row[k] for k in ("device", "precision", "graph", "fuse"))),
            None,
        )
        if way:
            found.setdefault((row["model"], row["n_atoms"], row["replicas"]), {})[way] = row
    for how in ("eager", "compiled"):
        for row in (timed.get("torch_" + how) or {}).get("rows", []):
            rows = found.setdefault((row["model"], row["n_atoms"], 1), {})
            best = rows.get("PyTorch " + how, {})
            if row.get("median_ms", 1e300) <= best.get("median_ms", 1e300):  # the fastest mode of torch.compile
                rows["PyTorch " + how] = row
    if not found:
        return []
    ways = [*WAYS, "PyTorch eager", "PyTorch compiled"]
    out = [
        "",
        "median ms of an evaluation (energy and forces, C API, copies included)",
        f"{'model':24s} {'atoms':>8s} {'copies':>6s} " + " ".join(f"{way:>16s}" for way in ways),
    ]
    for (model, n_atoms, replicas), rows in sorted(found.items()):
        out.append(f"{model:24s} {n_atoms:8d} {replicas:6d} " + " ".join(f"{cell(rows.get(way)):>16s}" for way in ways))
    return out


def cell(row):
    if row is None:
        return ""
    if "median_ms" in row:
        return f"{row['median_ms']:.4f}"
    return next((key for key in ("failed", "left_out", "why_not") if key in row), "?")


def steps(timed):
    out = []
    for row in timed.get("steps", []):
        text = row.get("failed")
        if not text:
            text = (
                f"mean {row['mean_ms']:.4f} ms, median {row['median_ms']:.4f}, "
                f"P95 {row['p95_ms']:.4f}, P99 {row['p99_ms']:.4f}, "
                f"CV {100 * row['cv']:.1f} %, {row['us_per_atom']:.4f} us/atom, memory {row['memory']}"
            )
        ranks = f", {row['n_ranks']} ranks" if row["n_ranks"] > 1 else ""
        lists = ", lists by LAMMPS" if row["lists"] == "lammps" else ""
        out.append(f"{row['model']:24s} {row['n_atoms']:8d} atoms{ranks}{lists}: {text}")
    out += [
        f"{v['model']:24s} {v['n_atoms']:8d} atoms  {v['what']:14s} {v['bar']:10s} {v['verdict']}"
        for v in timed.get("verdicts", [])
    ]
    out += [
        f"teacher over student, {v['n_atoms']} atoms: "
        + ", ".join(f"{k} {v[k]:.2f}x" for k in ("mean", "median") if v.get(k))
        for v in timed.get("speedups", [])
    ]
    return ["", "whole steps of LAMMPS, NVE (fix mlffprof)", *out] if out else []


def kernels(timed):
    out = []
    for row in timed.get("kernels", []):
        if "failed" in row:
            out.append(f"{row['model']} {row['n_atoms']} atoms: {row['failed']}")
            continue
        out.append(
            f"{row['model']} {row['n_atoms']} atoms: {row['n_kernels']} kernels, {row['us']:.1f} us, "
            f"{(row['bytes_read'] + row['bytes_written']) / row['n_atoms']:.0f} bytes moved per atom"
        )
        out += [f"  {k['us']:9.1f} us  {k['launches']:3d} x {k['kernel']}" for k in row["kernels"][:6]]
    return ["", "kernels of one step (Nsight Compute)", *out] if out else []


def suites(checked):
    out = []
    for row in checked.get("suites", []):
        out.append(
            f"{row['suite']:32s} {row['status']:12s} {row.get('checks', 0):4d} checks "
            f"{row.get('failures', 0):3d} failures"
        )
        out += ["    " + text for text in row.get("why", [])[:5]]
    return ["", "suites on the device", *out] if out else []


def sanitizers(checked):
    out = []
    for row in checked.get("sanitizers", []):
        out.append(f"{row['tool']:10s} {row['suite']:28s} {row['status']:12s} {row.get('n', '')}")
        out += ["    " + text for text in row.get("first", [])[:4]]
    return ["", "compute-sanitizer", *out] if out else []
