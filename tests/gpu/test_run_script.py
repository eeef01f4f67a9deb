"""benchmarks/gpu/run.sh, both calls, in a root that has only what a bare machine has, with the simulated device: that
everything is measured and tested there, that results are whole at every moment, and that nothing which fails, hangs
or is wrong ends a call."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tarfile
import threading
import time

import bare_root
import nightly
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "benchmarks", "gpu")
sys.path.insert(0, HERE)

import cases  # noqa: E402
import kernels  # noqa: E402
import pack  # noqa: E402
import parts  # noqa: E402
import session  # noqa: E402
import steps  # noqa: E402

BUILD = os.environ["MLFF_BUILD_DIR"]
WORK = os.path.join(BUILD, "gpu")  # what the suite has built lies in WORK/simulated
MOST_FILES, MOST_BYTES = 8, 16e6
# What such a machine has and this one has not: Nsight Compute, whose table has a line of names, one of units and one
# for each launch, and compute-sanitizer.
NCU = """#!{python}
import subprocess, sys
words, found = sys.argv[1:], {{"--launch-count": "1"}}
if words == ["--version"]:
    sys.exit()
while words[0].startswith("-"):
    name = words.pop(0)
    if name not in ("--csv", "--force-overwrite"):
        found[name] = words.pop(0)
done = subprocess.run(words, check=True)
if "--export" in found:
    with open(found["--export"] + ".ncu-rep", "w") as f:
        f.write("profile")
if "--log-file" in found:
    metrics = found["--metrics"].split(",")
    rows = [["ID", "Kernel Name", *metrics], ["", "", *("ns" for _ in metrics)]]
    rows += [[str(k), f"void <unnamed>::k{{k % 3}}_kernel<(int)8>(args)", *("2,000" for _ in metrics)]
             for k in range(int(found["--launch-count"]))]
    with open(found["--log-file"], "w") as f:
        f.write("==PROF== Connected\\n" + "".join(",".join(f'"{{x}}"' for x in row) + "\\n" for row in rows))
"""
SANITIZER = r"""#!/bin/sh
[ "$1" != --version ] || exit 0
shift 4
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
"""


def copy_repository(target):
    """The files that travel: those of git, and those that it does not ignore."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    for name in listed.decode().split("\0"):
        path = os.path.join(ROOT, name)
        if name and os.path.isfile(path) and not os.path.islink(path):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy(path, os.path.join(target, name))


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


@pytest.fixture(scope="session")
def pack_file():
    """run.sh --pack, with the simulated device. What uses it takes minutes."""
    if not nightly.NIGHTLY:
        pytest.skip(nightly.REASON)
    path = os.path.join(WORK, "gpu-pack.tar.xz")
    done = subprocess.run(
        [os.path.join(HERE, "run.sh"), "--pack", "--simulated", "--preset", "3", "--pack-file", path, "--work", WORK],
        env={**os.environ, "PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0 and " MB travel" in text, text
    return path


def add_python(root):
    """The Python that runs this, with its library and no packages."""
    program, library = os.path.realpath(sys.executable), sysconfig.get_path("stdlib")
    bare_root.add(root, program)
    unwanted = shutil.ignore_patterns(
        "site-packages", "test", "idlelib", "tkinter", "ensurepip", "__pycache__", "config-*"
    )
    shutil.copytree(library, root + library, ignore=unwanted, dirs_exist_ok=True)
    specs = [importlib.util.find_spec(name) for name in ("_lzma", "_bz2", "zlib", "_hashlib")]
    modules = [spec.origin for spec in specs if spec and spec.origin and os.path.exists(spec.origin)]
    for _, path in (library for file in (program, *modules) for library in bare_root.needed(file)):
        bare_root.add(root, path)


@pytest.fixture(scope="session")
def bare(pack_file, tmp_path_factory):
    """A root with sh, Python without packages, the profilers' stand-ins, the repository and the pack."""
    why_not = bare_root.why_not()
    if why_not:
        pytest.skip(why_not)
    root = str(tmp_path_factory.mktemp("bare") / "root")
    bare_root.make(root, programs=["sh", "dirname"])
    add_python(root)
    copy_repository(os.path.join(root, "repository"))
    shutil.copy(pack_file, os.path.join(root, "repository", "gpu-pack.tar.xz"))
    if not os.path.exists(os.path.join(root, "bin")):
        os.symlink(os.path.dirname(shutil.which("sh")).lstrip("/"), os.path.join(root, "bin"))
    write_program(os.path.join(root, "bin", "ncu"), NCU.format(python=os.path.realpath(sys.executable)))
    write_program(os.path.join(root, "bin", "compute-sanitizer"), SANITIZER)
    return root


def enter(root, *arguments, timeout):
    """(exit code or None, output) of run.sh inside."""
    return bare_root.run(
        root,
        ["/bin/sh", "/repository/benchmarks/gpu/run.sh", "--simulated", "/out", *arguments],
        env={"PYTHON": os.path.realpath(sys.executable), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=timeout,
    )


def check_results(out, kind=None):
    """gpu.json, once all that lies there has been found whole; the section of `kind` must exist if given."""
    names = os.listdir(out)
    assert len(names) <= MOST_FILES, names
    state = None
    for name in names:
        path = os.path.join(out, name)
        try:
            assert os.path.getsize(path) < MOST_BYTES, name
            if name == "gpu.json":
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                assert f"{os.sep}build-gpu{os.sep}" not in text  # where the call was made
                state = json.loads(text)
                assert state["format"] == session.FORMAT and ("time" in state or "check" in state)
            elif name.endswith(".tar.gz"):
                with tarfile.open(path) as archive:
                    assert archive.getnames()
        except FileNotFoundError:
            assert name == "new.tmp", name  # it has just been renamed
    assert kind is None or kind in state
    return state


class Watcher(threading.Thread):
    """Looks at results again and again while they are written: what lies there at a moment is what a call that is
    killed then leaves."""

    def __init__(self, out):
        super().__init__()
        self.out, self.n, self.fault, self.stop = out, 0, None, threading.Event()

    def run(self):
        while not self.stop.wait(0.1) and not self.fault:
            try:
                check_results(self.out)
                self.n += 1
            except Exception as e:  # told by the test
                self.fault = repr(e)


@contextlib.contextmanager
def watched(out):
    watcher = Watcher(out)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop.set()
        watcher.join()
    assert watcher.fault is None and watcher.n > 10, (watcher.fault, watcher.n, os.listdir(out))


@pytest.fixture(scope="session")
def results(bare):
    """kind -> (exit code, gpu.json) of both calls, which fill the same folder, watched."""
    out, found = os.path.join(bare, "out"), {}
    os.makedirs(out)
    for kind in ("time", "check"):
        with watched(out):
            code, text = enter(bare, "--" + kind, timeout=600)
            print(text)
        found[kind] = code, check_results(out, kind)
    return found


def test_measures_everything(results):
    code, state = results["time"]
    timed = state["time"]
    assert code == 0 and timed["state"] == "complete", timed["notes"]
    status = {part["part"]: part["status"] for part in timed["parts"]}
    assert list(status) == [part.name for part in cases.PLAN["time"]]
    left_out = {name for name, text in status.items() if text.startswith("left out")}
    assert (
        left_out == {cases.EAGER.name, cases.COMPILED.name} and "no PyTorch" in status[cases.EAGER.name]
    )  # it is not in a bare root
    assert timed["device"]["cuda"]["n_usable"] == 1
    rows = timed["cases"] + timed["cases_2"]
    assert all(row["median_ms"] > 0 for row in rows), [row for row in rows if "median_ms" not in row]
    assert {row["model"] for row in rows} == set(cases.MODELS)
    assert {(row["precision"], row["graph"], row["fuse"]) for row in rows} == {
        ("fp32", "on", "on"),
        ("mixed", "on", "on"),
        ("fp32", "off", "on"),
        ("fp32", "on", "off"),
        ("fp64", "on", "on"),
    }
    compared = {(row["model"], row["precision"]) for row in rows if "force_difference" in row}
    assert compared >= {(model, precision) for model in cases.MODELS for precision in ("fp32", "mixed")}
    ratios = [row["force_rms_ratio"] for row in rows if "force_rms_ratio" in row]
    assert ratios and max(ratios) < 1e-4
    assert any(row["replicas"] == 2 and row["n_atoms"] == 48 for row in rows)


def test_says_why(results):
    """Kernels, spans, memory and whole steps."""
    timed = results["time"][1]["time"]
    (kernel_row,), (spans,) = timed["kernels"], timed["spans"]
    assert kernel_row["n_kernels"] > 5 and sum(k["launches"] for k in kernel_row["kernels"]) == kernel_row["n_kernels"]
    assert kernel_row["us"] == pytest.approx(2 * kernel_row["n_kernels"]) and "full_profile" not in kernel_row
    assert spans["mean_ms"] > 0 and {"edges", "message", "dense"} <= set(spans["components_ms"])
    assert [run["n_ranks"] for run in timed["steps"]] == [1, 2]
    for run in timed["steps"]:
        assert run["mean_ms"] > 0 and run["n_steps"] == 20 and run["device"].startswith("cuda"), run
    assert {v["what"]: v["verdict"] for v in timed["verdicts"]}["mean_ms"] in ("PASS", "FAIL")
    assert all(row["memory_bytes_per_atom"] > 0 for row in timed["cases"])


def test_checks_everything(results):
    code, state = results["check"]
    checked = state["check"]
    assert code == 0 and checked["state"] == "complete", checked["notes"]
    assert [row["suite"] for row in checked["suites"]] == pack.suites(simulated=True)
    for row in checked["suites"]:
        assert row["status"] in ("passed", "skipped") and row["checks"] > 0 and not row["failures"], row
    skipped = {row["suite"] for row in checked["suites"] if row["status"] == "skipped"}
    assert skipped <= {"test_model_orb", "test_model_painn"}  # references that are large, or not here
    assert set(pack.suites(simulated=True)) < set(pack.suites(simulated=False))
    assert {(row["tool"], row["status"]) for row in checked["sanitizers"]} == {(tool, "clean") for tool in parts.TOOLS}
    assert state["time"]["state"] == "complete"  # of the call before


@pytest.mark.parametrize("seconds", (0.7, 4, 9))
def test_a_call_that_is_killed(bare, seconds):
    """As a batch system does it: everything at once, without a warning."""
    out = os.path.join(bare, "out")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    code, _ = enter(bare, "--time", timeout=seconds)
    assert code is None
    if os.listdir(out):
        assert check_results(out)["time"]["state"].startswith("running")
    else:
        assert seconds < 1  # before Python had started


@pytest.mark.parametrize(
    "missing,where",
    (("deps/lib", cases.PREPARE.name), ("models", "cases, first round"), ("lammps/lib", cases.STEPS.name)),
)
def test_what_is_missing_is_noticed(bare, results, missing, where):
    """A pack without one of its parts: the call ends as usual, says where it failed, and has not succeeded."""
    assert results["time"][0] == 0
    out, part = (os.path.join(bare, "out"), os.path.join(bare, "repository", "build-gpu", "unpacked", "pack", missing))
    shutil.rmtree(out, ignore_errors=True)
    os.rename(part, part + ".away")
    try:
        code, text = enter(bare, "--time", "--seconds", "55", timeout=70)
    finally:
        os.rename(part + ".away", part)
    timed = check_results(out, "time")["time"]
    status = {row["part"]: row["status"] for row in timed["parts"]}
    assert code == 1, text
    if where == cases.PREPARE.name:
        assert status[where].startswith("failed") and timed["state"] == "stopped: no programs", text
        assert any("libyaml" in note for note in timed["notes"]), timed["notes"]
    else:
        rows = timed["steps" if where == cases.STEPS.name else "cases"]
        assert rows and all("failed" in row or "left_out" in row for row in rows), rows
        assert status[where].startswith("failed"), status


def test_a_stale_pack_is_not_used(pack_file, tmp_path):
    """Programs are built anew where the sources differ; without LAMMPS, and the call says so. It is stopped after the
    first suite: all of them run in test_checks_everything."""
    folder, manifest = pack.unpack(pack_file, str(tmp_path / "unpacked"))
    manifest["sources"] = "others"
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as f:
        json.dump(manifest, f)
    stale = str(tmp_path / "stale.tar.xz")
    with tarfile.open(stale, "w:xz", preset=0) as archive:
        archive.add(folder, "pack")
    out, said = tmp_path / "out", tmp_path / "said.txt"
    ended = set()
    with (
        open(said, "w", encoding="utf-8") as f,
        subprocess.Popen(
            [os.path.join(HERE, "run.sh"), "--simulated", str(out), "--check", "--pack-file", stale, "--work", WORK],
            env={**os.environ, "PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=f,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as call,
    ):
        while call.poll() is None and "passed" not in ended:
            time.sleep(0.2)
            found = check_results(out) if (out / "gpu.json").exists() else {}
            status = [row["status"] for row in found.get("check", {}).get("suites", ())]
            ended = {s for s in status if s not in ("waiting", "running")}
        if call.poll() is None:
            os.killpg(call.pid, signal.SIGTERM)
    state = check_results(out, "check")["check"]
    assert "made from other sources" in state["notes"][0], said.read_text(encoding="utf-8")
    assert "passed" in ended <= {"passed", "skipped"}, state["suites"]


# ---- without programs ------------------------------------------------------------------------------------------------

FAKE = """#!{python}
import json, sys, time
for k, line in enumerate(sys.stdin, 1):
    reply, status, error = {{"median_ms": 1.0, "memory_bytes": 2400, "n_kernels": 3}}, 0, ""
    {behaviour}
    if reply is not None:
        print(json.dumps(reply))
    print(json.dumps({{"batch": k, "status": status, "seconds": 0.1, "error": error}}), flush=True)
"""


@pytest.fixture
def call(tmp_path):
    """A call of run.py whose program behaves as the text says."""

    def make(behaviour, seconds=60):
        program = tmp_path / "mlff"
        write_program(program, FAKE.format(python=sys.executable, behaviour=behaviour))
        one = session.Session("time", str(tmp_path / "out"), str(tmp_path / "work"), seconds)

        class Place:
            mlff, models, env = str(program), str(tmp_path), {}

        return parts.Call(one, Place, True)

    return make


def measure(call, wanted):
    call.session.part(cases.Part("cases", 30, 0), lambda: parts.measure_cases(call, wanted, "cases"))
    return call.out["cases"]


WANTED = [
    cases.Small(cases.STUDENT, 24),
    cases.Small(cases.ANI_1, 24, "mixed"),
    cases.Small(cases.STUDENT, 1152),
    cases.Small(cases.ANI_1, 1152, "mixed"),
    cases.Small(cases.ANI_1, 24),
]


def test_wrong_forces_are_not_timed(call):
    """A network whose forces differ is timed at no size; others are."""
    rows = measure(
        call('if "mixed" in line: reply, status, error = None, 1, "mixed ' + parts.TOO_FAR + ': forces"'), WANTED
    )
    assert [sorted({"median_ms", "failed", "left_out"} & set(row)) for row in rows] == [
        ["median_ms"],
        ["failed"],
        ["median_ms"],
        ["left_out"],
        ["median_ms"],
    ]
    assert "differ" in rows[3]["left_out"]


@pytest.mark.parametrize(
    "behaviour,why", (('if "1152" in line: time.sleep(100)', "limit"), ('if "1152" in line: sys.exit(9)', "ended with"))
)
def test_a_case_that_hangs_or_dies(call, monkeypatch, behaviour, why):
    """It costs its own limit and a new process."""
    monkeypatch.setattr(cases.Small, "limit", lambda case: 3)
    begin = time.monotonic()
    rows = measure(call(behaviour), WANTED)
    assert why in rows[2]["failed"] and rows[0]["median_ms"] and rows[4]["median_ms"] and time.monotonic() - begin < 25


def test_time_is_never_exceeded(call):
    rows = measure(call("time.sleep(0.5)", seconds=session.CLOSING + 2), WANTED * 10)
    assert any("median_ms" in row for row in rows) and rows[-1]["left_out"] == "no time"


def test_signals_end_it_whole(pack_file, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            sys.executable,
            os.path.join(HERE, "run.py"),
            "--simulated",
            str(out),
            "--time",
            "--pack-file",
            pack_file,
            "--work",
            str(tmp_path / "work"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    while not (out / "gpu.json").exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    assert check_results(out, "time")["time"]["state"] == "stopped"


def test_logs_and_profiles_stay_small(tmp_path):
    (tmp_path / "a.log").write_bytes(b"x" * 10_000_000)
    (tmp_path / "b.ncu-rep").write_bytes(os.urandom(2_000_000))
    (tmp_path / "c.ncu-rep").write_bytes(os.urandom(300_000))
    data, left_out = session.pack_folder(str(tmp_path), 1_000_000)
    assert len(data) < 1_000_000 and left_out == ["b.ncu-rep (2000000 bytes)"]


def test_plan_leaves_a_third():
    """Both calls, by the model of cost, take at most two thirds of ten minutes."""
    for plan in cases.PLAN.values():
        assert 0 < sum(part.estimate() for part in plan) <= 400, plan


def test_kernel_names():
    assert kernels.short_name("void <unnamed>::linear_kernel<(int)1>(linear_arrays)") == "linear_kernel<1>"
    assert kernels.short_name("(anonymous namespace)::message_kernel(message_arrays)") == "message_kernel"


def test_box_sizes_have_decks():
    assert {n for _, n, *_ in parts.STEPS} <= {63, 1152, 98304} and all(steps.box(n) for _, n, *_ in parts.STEPS)


def test_only_parts_of_the_call(tmp_path):
    """A part of the other call is not one of this; nothing is done then."""
    command = [
        sys.executable,
        os.path.join(HERE, "run.py"),
        str(tmp_path / "out"),
        "--check",
        "--only",
        cases.FIRST.name,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"no part '{cases.FIRST.name}' in this call; there are" in done.stderr
    assert not os.path.exists(tmp_path / "out")
