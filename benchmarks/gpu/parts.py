"""The parts of a call of run.py: each is a function of the call, fills in its section of gpu.json and returns how it
went. None ends the call: what fails or does not fit is a row that says so."""

import concurrent.futures
import functools
import json
import os
import re
import sys

import cases
import kernels
import session as session_module
import steps
import structures

HOT_SUITES = (
    "test_op_ops",
    "test_op_linear",
    "test_op_painn",
    "test_op_painn_radial",
    "test_op_ani",
    "test_op_ani_networks",
    "test_op_orb",
    "test_op_nequip",
)
HOT_MODELS = (cases.STUDENT, cases.TEACHER, cases.ANI_8, cases.NEQUIX)  # kernels of whole steps, of few atoms
TOO_FAR = "is too far from fp64 on the CPU"  # of `mlff time --against cpu`
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SUITES_AT_ONCE, SANITIZERS_AT_ONCE = 8, 8
SUITE_LIMIT, SANITIZER_LIMIT = 150, 110
# profiles of kernels and traces: model, atoms
PROFILED = (
    (cases.STUDENT, 63),
    (cases.STUDENT, 98304),
    (cases.ANI_8, 63),
    (cases.STUDENT, 1152),
    (cases.ANI_8, 98304),
    (cases.ORB, 63),
    (cases.NEQUIX, 64),
)
# whole steps: model, atoms, steps, others of steps.run; several ranks share the GPU
STEPS = (
    (cases.STUDENT, 63, 5000, {}),
    (cases.TEACHER, 63, 2000, {}),
    (cases.STUDENT, 1152, 2000, {}),
    (cases.TEACHER, 1152, 500, {}),
    (cases.STUDENT, 98304, 200, {}),
    (cases.STUDENT, 98304, 100, {"lists": "lammps"}),
    (cases.STUDENT, 98304, 200, {"n_ranks": 2}),
    (cases.STUDENT, 98304, 200, {"n_ranks": 4}),
    (cases.TEACHER, 98304, 100, {}),
)


class Call:
    """What the parts of one call share: the session, where programs and models are, and what has been found wrong."""

    def __init__(self, session, place, simulated):
        self.session, self.place, self.simulated = session, place, simulated
        self.structures = os.path.join(session.work, "structures")
        self.out = session.mine
        self.wrong, self.compared = set(), set()
        self.n_kernels = {}  # of a step, (model, atoms) -> number

    def model(self, name):
        return os.path.join(self.place.models, name + ".yaml")

    def structure(self, n_atoms, material="water"):
        return structures.path_of(self.structures, n_atoms, material)

    def time(self, model, n_atoms, *options):
        """The command that times a model on the GPU, for programs of their own."""
        structure = self.structure(n_atoms, cases.material(model))
        return [self.place.mlff, "time", self.model(model), structure, "--device", "cuda", *options]

    def has_program(self, *command):
        """Whether it is here and starts."""
        return self.session.run("has-" + os.path.basename(command[0]), [*command], 60).code == 0

    @functools.cached_property
    def has_torch(self):
        return self.has_program(sys.executable, "-c", "import torch; print(torch.__version__)")

    def program(self, row):
        return os.path.join(self.place.tests, row["suite"])

    def run_suites(self, rows, at_once, name, command, limit, read):
        """Runs the command of every row, several at a time. read: what its end says, for the row."""

        def one(row):
            row["status"] = "running"
            env = {**self.place.env, "CK_FORK": "no", "CK_DEFAULT_TIMEOUT": "0"}  # it has the limit of the program
            done = self.session.run(name(row), command(row), limit, env, self.place.test_folder)
            row.update(read(done), seconds=round(done.seconds, 1))

        with concurrent.futures.ThreadPoolExecutor(2 if self.simulated else at_once) as pool:
            list(pool.map(one, rows))


# ---- --time ----------------------------------------------------------------------------------------------------------


def device(call):
    """Launch floor and bandwidths: `mlff check`."""
    path = os.path.join(call.session.work, "check.json")
    done = call.session.run("check", [call.place.mlff, "check", "--json", path], cases.DEVICE.limit, call.place.env)
    if not os.path.exists(path):
        return "failed: " + done.why()
    with open(path, encoding="utf-8") as f:
        call.out["device"] = json.load(f)
    usable = call.out["device"]["cuda"]["n_usable"]
    return "done" if usable else "failed: no GPU that can be used: " + done.last_line()


def measure_cases(call, wanted, table):
    """One row for each case. A network is timed in a precision only after it has agreed there with the CPU."""
    rows = call.out.setdefault(table, [])
    batch = session_module.Batch(call.session, call.place.mlff, call.place.env)
    try:
        for case in wanted:
            row = {key: getattr(case, key) for key in ("model", "device", "precision", "graph", "fuse", "replicas")}
            rows.append({**row, "n_atoms": case.n_all, **measure_case(call, case, batch)})
            call.session.tick()
    finally:
        batch.close()
    return told(rows, "cases")


def told(rows, what):
    """A part's status: how many rows have a result. None at all is a failure."""
    failed, left_out = (sum(key in row for row in rows) for key in ("failed", "left_out"))
    counts = [
        f"{len(rows) - failed - left_out} of {len(rows)} {what}",
        f"{failed} failed" if failed else "",
        f"{left_out} left out" if left_out else "",
    ]
    return ("failed: " if rows and failed + left_out == len(rows) else "") + ", ".join(text for text in counts if text)


def measure_case(call, case, batch):
    key = (case.model, case.precision, case.fuse)
    if key in call.wrong:
        return {"left_out": "its forces differ from those of the CPU"}
    if case.device == "cuda" and not case.is_compared() and (case.model, case.precision) not in call.compared:
        return {"left_out": "it has not been compared with the CPU"}
    if call.session.left() < 1.5 * case.estimate():
        return {"left_out": "no time"}
    answer, why, seconds = batch.call(
        case.words(call.model(case.model), call.structure(case.n_atoms, case.material)), case.limit()
    )
    if why:
        if TOO_FAR in why:
            call.wrong.add(key)
        return {"failed": why[-500:], "seconds": round(seconds, 2)}
    found = json.loads(answer)
    if case.is_compared():
        call.compared.add((case.model, case.precision))
    if found.get("n_kernels"):
        call.n_kernels.setdefault((case.model, case.n_all), found["n_kernels"])
    for key in ("model", "device", "precision", "n_replicas", "graph", "n_atoms"):
        found.pop(key, None)
    return {**found, "memory_bytes_per_atom": found["memory_bytes"] / case.n_all, "seconds": round(seconds, 2)}


def whole_steps(call):
    """Whole steps of LAMMPS, NVE, by fix mlffprof."""
    if not call.place.lammps:
        return "left out: the programs were built here, without LAMMPS"
    rows, plugin = call.out.setdefault("steps", []), os.path.join(call.place.lammps, steps.PLUGIN)
    small = [(cases.STUDENT, 63, 20, {}), (cases.STUDENT, 63, 20, {"n_ranks": 2})]
    for model, n_atoms, n_steps, more in small if call.simulated else STEPS:
        limit = min(30 if n_atoms < 10000 else 45, call.session.left())
        rows.append(
            steps.run(
                call.place.lammps,
                plugin,
                call.model(model),
                n_atoms,
                n_steps=n_steps,
                limit_s=limit,
                out=call.session.logs,
                components="no",
                warmup=20,
                **more,
            )
        )
        call.session.save()
    plain = [row for row in rows if row["n_ranks"] == 1 and row["lists"] == "device"]
    call.out["verdicts"] = [
        {"model": row["model"], "n_atoms": row["n_atoms"], "what": name, "bar": bar, "value": value, "verdict": said}
        for row in plain
        for name, bar, value, said in steps.verdicts(row)
    ]
    call.out["speedups"] = speedups(plain)
    return told(rows, "runs")


def speedups(rows):
    """Teacher over student, at each size that both have."""
    of = {(row["model"], row["n_atoms"]): row for row in rows}
    return [
        {"n_atoms": n, **steps.speedup(of[cases.TEACHER, n], row)}
        for (model, n), row in of.items()
        if model == cases.STUDENT and (cases.TEACHER, n) in of
    ]


def torch(call, how, limit):
    """The same networks in PyTorch on the same structures, in a process of its own; its results are read as they
    come."""
    python = sys.executable
    if not call.has_torch:
        return f"left out: {python} has no PyTorch"
    path = os.path.join(call.session.work, f"torch-{how}.json")

    def read():
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                call.out["torch_" + how] = json.load(f)

    sizes = [24] if call.simulated else [63, 1152, 10368, 192] if how == "eager" else [63, 1152]
    files = [call.structure(n) for n in sizes]
    done = call.session.run(
        "torch-" + how,
        [
            python,
            os.path.join(structures.ROOT, "benchmarks", "gpu", "torch_bench.py"),
            "--models",
            call.place.models,
            "--how",
            how,
            "--mlff",
            call.place.mlff,
            "--device",
            "cpu" if call.simulated else "cuda",
            "--seconds",
            str(max(limit - 10, 1)),
            "--out",
            path,
            *(["--each", "0.1"] if call.simulated else []),
            *files,
        ],
        limit,
        call.place.env,
        tick=read,
    )
    return "done" if done.code == 0 else "failed: " + done.why()


def traces(call):
    """Where the time of an evaluation goes: the engine's own spans, measured by events on the GPU's stream."""
    rows = call.out.setdefault("spans", [])
    for model, n_atoms in [(cases.STUDENT, 24)] if call.simulated else PROFILED:
        name = f"spans-{model}-{n_atoms}"
        trace, report = (os.path.join(call.session.profiles, f"{name}.{kind}.json") for kind in ("trace", "report"))
        n_calls = "2" if call.simulated else "20"
        command = call.time(model, n_atoms, "--calls", n_calls, "--trace", trace, "--file", report)
        done = call.session.run(name, command, 20, call.place.env)
        rows.append(
            {"model": model, "n_atoms": n_atoms, **(components(report) if done.code == 0 else {"failed": done.why()})}
        )
    return told(rows, "traces")


def components(path):
    """Mean ms of each part of an evaluation, of a report."""
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    return {
        "mean_ms": report["mean_latency_ms"],
        "components_ms": {
            c["name"]: c["mean_ms"] for c in report.get("components", []) if c.get("mean_ms") is not None
        },
    }


def profile_kernels(call):
    """Nsight Compute over the kernels of one step."""
    if not call.has_program("ncu", "--version"):
        return "left out: ncu is not installed"
    rows = call.out.setdefault("kernels", [])
    for model, n_atoms in [(cases.STUDENT, 24)] if call.simulated else PROFILED:
        n = call.n_kernels.get((model, n_atoms))
        row = {"model": model, "n_atoms": n_atoms}
        if n:
            program = call.time(model, n_atoms, "--graph", "off", "--calls", str(kernels.CALLS))
            row.update(kernels.measure(call.session, f"{model}-{n_atoms}", program, n, call.place.env, 30))
        else:
            row["failed"] = "the number of kernels in a step is not known: no step was recorded"
        rows.append(row)
        call.session.save()
    return told(rows, "profiles")


# ---- --check ---------------------------------------------------------------------------------------------------------


def suites(call):
    """All suites of operations and models on the device; Check must not fork once CUDA has started."""
    rows = call.out["suites"] = [{"suite": name, "status": "waiting"} for name in call.place.manifest["suites"]]
    call.run_suites(
        rows, SUITES_AT_ONCE, lambda row: row["suite"], lambda row: [call.program(row)], SUITE_LIMIT, outcome
    )
    return counted(rows, ("passed", "skipped"), ("failed", "out of time"))


def counted(rows, good, bad):
    """A part's status: how many rows ended in which way."""
    counts = {kind: sum(row["status"] == kind for row in rows) for kind in (*good, *bad)}
    text = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)
    return text if all(row["status"] in good for row in rows) else "failed: " + text


def outcome(done):
    """How a program of Check's ended: its counts, reasons of skipped tests and lines about failures."""
    text = done.text()
    counts = re.findall(r"\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", text)
    checks, bad = sum(int(c[0]) for c in counts), sum(int(c[1]) + int(c[2]) for c in counts)
    status = "passed" if done.code == 0 and counts and not bad else "failed"
    if done.timed_out:
        status = "out of time"
    elif done.code == 77:
        status = "skipped"
    row = {"status": status, "checks": checks, "failures": bad, "skips": re.findall(r"^SKIPPED: *(.*)$", text, re.M)}
    if status == "failed":
        row["why"] = re.findall(r"^\S+:\d+:[FE]:.*$", text, re.M)[:20] or [done.why()]
    return row


def sanitizers(call):
    """compute-sanitizer over the hot kernels: findings are reported."""
    if not call.has_program("compute-sanitizer", "--version"):
        return "left out: compute-sanitizer is not installed"
    names = (
        ["test_op_painn_radial"]
        if call.simulated
        else [name for name in HOT_SUITES if name in call.place.manifest["suites"]]
    )
    wanted = [(tool, name) for tool in TOOLS for name in (*names, *([] if call.simulated else HOT_MODELS))]
    rows = call.out["sanitizers"] = [{"tool": tool, "suite": name, "status": "waiting"} for tool, name in wanted]

    small = {name: call.time(name, 8 if name == cases.NEQUIX else 24, "--calls", "2") for name in HOT_MODELS}

    def command(row):
        tool = ["compute-sanitizer", "--tool", row["tool"], "--error-exitcode", "9"]
        return [*tool, *small.get(row["suite"], [call.program(row)])]

    call.run_suites(
        rows, SANITIZERS_AT_ONCE, lambda row: f"{row['tool']}-{row['suite']}", command, SANITIZER_LIMIT, finding
    )
    return counted(rows, ("clean",), ("FOUND", "failed", "out of time"))


def finding(done):
    """What compute-sanitizer says at its end, and the first of what it found."""
    text = done.text()
    found = [line.strip("= \n") for line in text.splitlines() if re.match(r"=========\s+\S", line)]
    total = re.findall(r"SUMMARY: (\d+) (?:errors?|hazards?)", text)
    n = sum(int(x) for x in total)
    status = "clean" if total and done.code in (0, 77) else "failed"  # 77: all of a suite's tests were skipped
    if done.timed_out:
        status = "out of time"
    elif n:
        status = "FOUND"
    return {
        "status": status,
        "n": n,
        **({"first": found[:12]} if n else {}),
        **({"why": done.why()} if status == "failed" else {}),
    }
