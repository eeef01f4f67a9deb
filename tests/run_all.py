"""Runs every suite on a finished build and ends with one line: `N passed, N failed, N skipped`. See tests/README.md.

`make test` calls it. Three suites run at a time on two cores. Each prints one line, and its failures in full. Skipped
tests with their reasons and the names of failed tests follow at the end. Exit code 1 when anything failed or nothing
ran.
"""

import argparse
import concurrent.futures
import glob
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

from support import polite

from mlff_tools.bench import work
from mlff_tools.model.lammps import LammpsError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
C_LABELS = "unit|op|model|fuzz"
VALGRIND_PROGRAMS = ("test_unit_modelfile", "test_unit_safetensors", "test_unit_graph")
ASAN = "address,undefined"
SUITES_IN_PARALLEL = 3  # on two cores, since suites wait for files, for processes and for PyTorch
MPIEXEC = os.path.join(os.path.dirname(sys.executable), "mpiexec")
NIGHTLY = bool(os.environ.get("NIGHTLY"))  # as tests/support has it
TORCH = ("python", "distill", "decks")  # suites with tests that require PyTorch or ASE


class Result:
    """Counts of one suite. `skips` are reasons, `failures` are texts to print, `names` has a line for each failure."""

    def __init__(self):
        self.passed, self.failed, self.skips, self.failures, self.names = 0, 0, [], [], []

    def fail(self, text, name=None):
        self.failed += 1
        self.failures.append(text)
        self.names.append(name or (text.strip().splitlines() or ["(no output)"])[-1])

    def add(self, other, name):
        """Adds the counts of another suite."""
        self.passed, self.failed = self.passed + other.passed, self.failed + other.failed
        self.skips += [f"{name}: {text}" for text in other.skips]
        self.failures += other.failures
        self.names += [f"{name}: {text}" for text in other.names]


def run(command, env=None, cwd=ROOT):
    """(exit code, output) of a command without standard input."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def lmp_itself(build):
    """A shell script that starts the LAMMPS of the Python package. Its own `lmp` is a Python script, which takes three
    times as long to start. None when the package is not installed."""
    try:
        program, settings = work.program(os.path.join(os.path.dirname(sys.executable), "lmp"))
    except (OSError, LammpsError):
        return None
    return script(os.path.join(build, "lmp"), program, settings)


def script(path, program, settings, more=""):
    """path, where a shell script is that sets variables, does `more`, and starts the program."""
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(["#!/bin/sh\n", *(f"export {key}={shlex.quote(value)}\n" for key, value in settings.items())])
        f.write(f'{more}exec {shlex.quote(program)} "$@"\n')
    os.chmod(path, 0o755)
    return path


def polite_mpiexec(build):
    """mpiexec of the Python package, with settings for ranks that share cores, next to lmp_itself()."""
    library, source = os.path.join(build, "polite.so"), os.path.join(ROOT, "tests", "lammps", "polite.c")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    preload = f'export LD_PRELOAD="${{LD_PRELOAD:+$LD_PRELOAD }}"{shlex.quote(library)}\n'
    return script(os.path.join(build, "mpiexec"), MPIEXEC, polite.SETTINGS, preload)


def environment(build):
    """The environment of all tests: program and plugin of this build, this Python, one thread per process."""
    env = dict(os.environ)
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles what it imports, of PyTorch for a second
    env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env.get("PATH", "")
    env["PYTHONPATH"] = os.path.join(ROOT, "python")
    env["MLFF"] = os.path.join(build, "mlff")
    env["MLFF_PLUGIN"] = os.path.join(build, "mlffplugin.so")
    env["MLFF_LIBRARY"] = os.path.join(build, "libmlff.so")
    env["MLFF_BUILD_DIR"] = build
    lmp = lmp_itself(build)
    if lmp and "MLFF_LMP" not in env:
        env["MLFF_LMP"], env["MLFF_MPIEXEC"] = lmp, polite_mpiexec(build)
    env.setdefault("MLFF_SHARED_DIR", os.path.join(os.path.dirname(ROOT), "shared"))
    env["OMP_NUM_THREADS"] = "1"
    env["MPIR_CVAR_CH4_PROGRESS_THROTTLE"] = "1"  # MPICH: ranks that share a core yield it while they wait
    return env


# For builds that compile what the first one did, whose objects ccache has by the absolute paths of sources.
LIKE_FIRST = {"CCACHE_BASEDIR": ""}


def with_ccache(env):
    """Compiles through ccache, so that checkouts share objects: paths are relative to this one, but with LIKE_FIRST.
    The names of the compilers are fixed because scikit-build-core would use other ones."""
    launchers = {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX", "CUDA")}
    settings = {**launchers, "CC": "cc", "CXX": "c++", "CCACHE_BASEDIR": ROOT, "CCACHE_NOHASHDIR": "1"}
    return {**settings, **env} if shutil.which("ccache") else env


def train_python():
    """Variables that name a Python with PyTorch and ASE (scripts/train_python.sh). Variables that are set stay."""
    names = ("MLFF_TORCH_PYTHON", "MLFF_ASE_PYTHON")
    if all(os.environ.get(name) for name in names):
        return {}
    script = [os.path.join(ROOT, "scripts", "train_python.sh")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"no PyTorch and no ASE for tests: {done.stderr.strip()}", flush=True)
        return {}
    return {name: os.environ.get(name) or done.stdout.strip() for name in names}


# ---- C suites (Check, run by ctest) ---------------------------------------------------------------------------------

CHECK_LINE = re.compile(r"(\d+)%: Checks: (\d+), Failures: (\d+), Errors: (\d+)")


def count_check(result, name, output, code):
    """Adds the counts that a Check program printed. A program that fails without a count is one failure."""
    lines = CHECK_LINE.findall(output)
    checks, bad = sum(int(x[1]) for x in lines), sum(int(x[2]) + int(x[3]) for x in lines)
    skips = re.findall(r"^SKIPPED: *(.*)$", output, re.M)
    if code == 77 and not skips:
        skips = ["exit code 77 without a reason"]
    result.skips += [f"{name}: {reason}" for reason in skips]
    result.passed += max(0, checks - bad - min(len(skips), checks - bad))
    if bad:
        result.fail(f"{name}:\n{output}", f"{name}: {bad} of {checks} checks")
        result.failed += bad - 1
    elif code not in (0, 77):
        result.fail(f"{name}: exit code {code}\n{output}")
    elif name.startswith("fuzz_") and not lines:
        result.passed += 1
    elif not lines and code != 77:
        result.fail(f"{name}: ran no test\n{output}")


def run_ctest(build, env, pattern=C_LABELS, names=(), within=()):
    """Runs the C tests of a build by ctest, by label or by name, and reads its JUnit file. within: see build_apart."""
    result, report = Result(), os.path.join(build, "ctest.xml")
    if os.path.exists(report):
        os.remove(report)
    size = "10000000"
    _, output = run(
        [
            *within,
            "ctest",
            "--test-dir",
            build,
            *(("-R", f"^({'|'.join(names)})$") if names else ("-L", pattern)),
            "-j2",
            "--output-junit",
            report,
            "--test-output-size-passed",
            size,
            "--test-output-size-failed",
            size,
        ],
        env,
    )
    if not os.path.exists(report):
        result.fail(output)
        return result
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    if not cases:
        result.fail("ctest found no test: was the build configured with MLFF_BUILD_TESTS=ON?\n" + output)
    for case in cases:
        text = "".join(case.itertext()).strip()
        status, failure = case.get("status"), case.find("failure")
        text += "\n" + failure.get("message", "") if failure is not None else ""
        code = {"run": 0, "notrun": 77, "disabled": 77}.get(status, 1)
        if status == "notrun" and "SKIPPED" not in text and "Checks:" not in text:
            code = (
                77
                if case.find("skipped") is not None and "SKIP_RETURN_CODE" in ElementTree.tostring(case).decode()
                else 1
            )
        count_check(result, case.get("name"), text, code)
    return result


def suite_c(build, env):
    return run_ctest(build, env)


def build_apart(result, env, where, options, targets=(), limit=None, within=()):
    """Configures a build in the directory `where` with CMake options and builds it. Returns 1 on success. Appends the
    output to build.log in that directory. within: a command that runs its arguments, such as a chroot."""
    configure = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        where,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DMLFF_BUILD_TESTS=ON",
        "-DMLFF_WARNINGS_AS_ERRORS=ON",
        "-DMLFF_BUILD_PLUGIN=OFF",
        "-DMLFF_BUILD_EXAMPLES=OFF",
        *options,
    ]
    build = ["ninja", "-C", where, *targets]
    if limit:
        build = ["timeout", str(limit), *build]
    os.makedirs(where, exist_ok=True)
    env = with_ccache(env)
    for command in ([] if os.path.exists(os.path.join(where, "build.ninja")) else [configure]) + [build]:
        code, output = run([*within, *command], env)
        with open(os.path.join(where, "build.log"), "a", encoding="utf-8") as f:
            f.write(output)
        if code == 124 and limit:
            result.skips.append(f"{' '.join(targets)} was not built within {limit} s; run again to continue")
            return 0
        if code:
            result.fail(output)
            return 0
    return 1


def with_sanitizers(env, where):
    """Tests run without a fork each: forking the memory map of AddressSanitizer takes longer than most tests."""
    return {
        **env,
        "MLFF": os.path.join(where, "mlff"),
        "CK_FORK": "no",
        "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:quarantine_size_mb=32:malloc_context_size=8",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "LSAN_OPTIONS": "print_suppressions=0",
    }


def suite_asan(build, env):
    """The C tests under AddressSanitizer and UndefinedBehaviorSanitizer, in BUILD/asan, with kernel paths generic and
    AVX2. Nightly: all kernel paths, and the plugin in a LAMMPS built with AddressSanitizer."""
    result, where = Result(), os.path.join(build, "asan-all" if NIGHTLY else "asan")
    options = [f"-DMLFF_SANITIZE={ASAN}", "-DMLFF_CUDA=OFF"]
    if not NIGHTLY and platform.machine() == "x86_64":
        options.append("-DMLFF_KERNELS_SIMD=avx2")
    if build_apart(result, env, where, options):
        result = run_ctest(where, with_sanitizers(env, where))
        result.skips = [text for text in result.skips if "kernel path avx512" not in text]
    if NIGHTLY:
        result.add(asan_lammps(build, env), "lammps")
    return result


ASAN_LAMMPS = os.path.join(ROOT, "scripts", "asan_lammps.sh")
ASAN_TESTS = ("test_random_scripts.py", "test_lists.py", "test_monte_carlo.py", "test_ranks.py", "test_styles.py")


def asan_lammps(build, env):
    """Tests of tests/lammps with LAMMPS and the plugin under AddressSanitizer, on one to three ranks."""
    result, where = Result(), os.path.join(build, "asan-lammps")
    for command in ("make", "settings"):
        code, output = run([ASAN_LAMMPS, command], env)
        if code:
            result.fail(output)
            return result
    settings = dict(line.split("=", 1) for line in output.splitlines())
    options = [
        "-DMLFF_SANITIZE=address",
        "-DMLFF_CUDA=OFF",
        "-DMLFF_KERNELS_SIMD=OFF",
        "-DMLFF_BUILD_PLUGIN=ON",
        "-DMLFF_LAMMPS=source",
        f"-DLAMMPS_SOURCE_DIR={settings['LAMMPS_SOURCE_DIR']}",
        f"-DMLFF_LMP={settings['MLFF_LMP']}",
        f"-DMPI_CXX_COMPILER={os.path.join(os.path.dirname(sys.executable), 'mpicxx')}",
        f"-DMLFF_PYTHON={sys.executable}",
    ]
    if not build_apart(result, env, where, options, ["mlffplugin", "nudge", "watch"]):
        return result
    there = {**env, **settings, "MLFF_PLUGIN": os.path.join(where, "mlffplugin.so"), "MLFF_HANG": "600"}
    there["MLFF_MPIEXEC"] = MPIEXEC  # AddressSanitizer wants to be the first library
    there.pop("NIGHTLY", None)
    tests = [os.path.join(ROOT, "tests", "lammps", name) for name in ASAN_TESTS]
    return run_pytest("lammps-asan", build, there, only=tests)


AARCH64_ROOT = os.path.join(ROOT, "scripts", "aarch64_root.sh")
# Processors of qemu: a common one without SVE, and one with vectors of 512 bits, which qemu runs 20 times slower. Each
# program runs on one of them. Nightly: all programs on all of them, and vectors of 256 bits.
AARCH64 = {
    "neoverse-n1": ("unit_evaluate", "op_painn", "op_nequip_nodes", "op_repulsion"),
    "max,sve-max-vq=4": ("op_linear", "op_nequip", "op_orb", "op_ops"),
    **({"max,sve-max-vq=2": ()} if NIGHTLY else {}),
}
# Nightly: the plugin in LAMMPS. Its C++ is portable.
AARCH64_LAMMPS = (
    "test_physics.py::test_reference",
    "test_physics.py::test_precision_and_kernels",
    "test_runs.py::test_ensembles",
)


def suite_aarch64(build, env):
    """Operations and models on aarch64 in BUILD/aarch64, cross-compiled and run by qemu: kernels for NEON and SVE.
    Nightly: the plugin in LAMMPS."""
    result, where = Result(), os.path.join(build, "aarch64-all" if NIGHTLY else "aarch64")
    everything = [name for names in AARCH64.values() for name in names]
    code, output = run([AARCH64_ROOT, "make"], env)
    root = (output.strip().splitlines() or [""])[-1]
    if code:
        result.skips.append(root)
        return result
    options = [
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc",
        "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
        f"-DCMAKE_SYSROOT={root}",
        "-DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu",
        "-DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER",
        "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY",
        "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
        f"-DMLFF_PYTHON={root}/usr/bin/python3",
        "-DMLFF_BUILD_PLUGIN=" + ("ON" if NIGHTLY else "OFF"),
        "-DMLFF_CUDA=OFF",
        "-DMLFF_KERNELS_SIMD=" + ("ON" if NIGHTLY else "neon;sve512"),
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
    ]
    targets = [*(f"test_{name}" for name in everything), "mlff_cli", *(["mlffplugin"] if NIGHTLY else [])]
    if not build_apart(result, env, where, options, targets, within=(AARCH64_ROOT, "run")):
        return result
    settings = {
        "MLFF": os.path.join(where, "mlff"),
        "MLFF_PLUGIN": os.path.join(where, "mlffplugin.so"),
        "MLFF_LMP": os.path.join(root, "opt", "site", "lammps", "lmp"),
        "PYTHONPATH": env["PYTHONPATH"],
    }
    python = [AARCH64_ROOT, "run", "env", *(f"{key}={value}" for key, value in settings.items()), sys.executable]
    for cpu, own in AARCH64.items():
        there = {**env, "QEMU_CPU": cpu}
        found = run_ctest(where, there, names=everything if NIGHTLY else own, within=(AARCH64_ROOT, "run"))
        found.skips = [text for text in found.skips if "kernel path sve" not in text]  # of another processor
        result.add(found, cpu)
        if NIGHTLY:
            lammps = [os.path.join(ROOT, "tests", "lammps", name) for name in AARCH64_LAMMPS]
            result.add(run_pytest(f"lammps-aarch64-{cpu}", build, there, python, only=lammps), cpu)
    return result


def device_checks(folder):
    """Names of the programs of tests/cuda or tests/cudasim."""
    names = (
        os.path.splitext(os.path.basename(path))[0][5:]
        for path in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "test_*.c*")))
    )
    return [folder if name == folder else f"{folder}_{name}" for name in names]


def suite_cudasim(build, env):
    """The GPU backend on a simulated device under AddressSanitizer, in BUILD/cudasim: ops, models, failures. Blocks,
    warps and lanes run in shuffled order, so that code that relies on an order fails."""
    result, where = Result(), os.path.join(build, "cudasim")
    options = ["-DMLFF_CUDASIM=ON", "-DMLFF_KERNELS_SIMD=OFF", "-DMLFF_SANITIZE=address"]
    names = [
        f"{kind}_{os.path.basename(path)[5:-2]}"
        for kind in ("op", "model")
        for path in glob.glob(os.path.join(ROOT, "tests", kind, "test_*.c"))
        if not path.endswith("test_mixed.c")
    ]
    targets = [f"test_{name}" for name in names + device_checks("cuda") + device_checks("cudasim")]
    if not build_apart(result, {**env, **LIKE_FIRST}, where, options, targets):
        return result
    there = {**with_sanitizers(env, where), "MLFF_CUDASIM_SHUFFLE": "1"}
    return run_ctest(where, there, "op|model|cuda")


def suite_gpu(build, env):
    """The plugin with the simulated device, in BUILD/gpu: LAMMPS with `device cuda` against `device cpu`."""
    result, where = Result(), os.path.join(build, "gpu", "simulated")
    options = [
        "-DMLFF_CUDASIM=ON",
        "-DMLFF_KERNELS_SIMD=OFF",
        "-DMLFF_BUILD_TESTS=OFF",
        "-DMLFF_BUILD_PLUGIN=ON",
        f"-DMLFF_PYTHON={sys.executable}",
    ]
    if not build_apart(result, {**env, **LIKE_FIRST}, where, options):
        return result
    there = {**env, "MLFF": os.path.join(where, "mlff"), "MLFF_PLUGIN": os.path.join(where, "mlffplugin.so")}
    return run_pytest(os.path.join(ROOT, "tests", "gpu"), build, there)


def suite_cuda(build, env):
    """The GPU backend compiled by nvcc for all targets, in BUILD/cuda. Warnings and register spills are errors.
    Writes the registers of all kernels to registers.txt."""
    result, where = Result(), os.path.join(build, "cuda")
    if not shutil.which("nvcc") and not os.path.exists("/usr/local/cuda/bin/nvcc"):
        result.skips.append("nvcc is not installed: the GPU backend was not compiled for GPUs")
        return result
    log, table = (os.path.join(where, name) for name in ("build.log", "registers.txt"))
    if os.path.exists(where) and not os.path.exists(log):
        shutil.rmtree(where)  # an older build without a log
    options = ["-DMLFF_CUDA=ON", "-DMLFF_KERNELS_SIMD=OFF", "-DCMAKE_CUDA_FLAGS=-Xptxas=-v"]
    checks = ["op_ops", "op_ani_networks", *device_checks("cuda")]
    if build_apart(result, env, where, options, ["mlff_cuda", *(f"test_{name}" for name in checks)], 900):
        result.passed += 1
        code, output = run([sys.executable, os.path.join(ROOT, "tests", "cuda", "registers.py"), "--log", log], env)
        with open(table, "w", encoding="utf-8") as f:
            f.write(output)
        if code:
            result.fail("registers.py: " + output.splitlines()[-1])
        else:
            result.passed += 1
        code, output = run(["nm", os.path.join(where, "cuda", "libmlff_cuda.a")], env)
        if code or "nvtxRangePush" not in output:
            result.fail("cuda/timing.cpp was compiled without NVTX: profilers would see no ranges")
        else:
            result.passed += 1
        for name in checks:  # on a GPU; without one, the error message
            code, output = run([os.path.join(where, "tests", f"test_{name}")], env, os.path.join(ROOT, "tests"))
            count_check(result, f"{name} with the GPU backend", output, code)
        result.skips = [text for text in result.skips if "kernel path avx" not in text]
    compile_kokkos_cuda(result, build, env)
    return result


def compile_kokkos_cuda(result, build, env):
    """pair_style mlff/kk compiled by nvcc for Kokkos with CUDA, with the headers of suite kokkos."""
    code, output = run([KOKKOS_ROOT, "ready"], env)
    if code:
        result.skips.append("pair_style mlff/kk was not compiled for a Kokkos with CUDA: " + output.strip())
        return
    code, output = run(
        [os.path.join(ROOT, "tests", "kokkos", "compile_cuda.sh"), os.path.join(build, "kokkos_cuda")], env
    )
    if code:
        result.fail("pair_style mlff/kk for a Kokkos with CUDA\n" + output)
    else:
        result.passed += 1


def suite_valgrind(build, env):
    """Memory errors and leaks of the programs that read files and build graphs."""
    result = Result()
    if not shutil.which("valgrind"):
        result.skips.append("valgrind is not installed")
        return result
    for name in VALGRIND_PROGRAMS:
        program = os.path.join(build, "tests", name)
        if not os.path.exists(program):
            result.fail(f"{program} is missing")
            continue
        code, output = run(
            ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite", program],
            {**env, "CK_FORK": "no", "CK_DEFAULT_TIMEOUT": "0"},
            os.path.join(ROOT, "tests"),
        )
        count_check(result, name, output, code)
    return result


# ---- Python suites (pytest) -----------------------------------------------------------------------------------------


def run_pytest(folder, build, env, python=(sys.executable,), only=()):
    """Runs a folder of tests by pytest, or only the given tests, and reads its JUnit file. python: its command."""
    result = Result()
    report = os.path.join(build, f"pytest-{os.path.basename(folder)}.xml")
    if os.path.exists(report):
        os.remove(report)
    words = "-q -rs --tb=short -p no:cacheprovider -o junit_family=xunit1 --rootdir".split()
    code, output = run([*python, "-m", "pytest", *words, ROOT, f"--junitxml={report}", *(only or [folder])], env)
    if not os.path.exists(report):
        result.fail(output)
        return result
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{os.path.basename(folder)}: {case.get('name')}"
        bad = [x for kind in ("failure", "error") for x in case.findall(kind)]
        skipped = case.find("skipped")
        if bad:
            result.failed += 1
            said = [line.strip() for line in bad[0].get("message", "").splitlines() if line.strip()]
            result.names.append(f"{case.get('name')}: " + "; ".join([*said[:1], *said[1:][-2:]])[:300])
        elif skipped is not None:
            result.skips.append(f"{name}: {skipped.get('message')}")
        else:
            result.passed += 1
    if result.failed or code not in (0, 5):
        result.failures.append(output)
        result.failed = max(result.failed, 1)
    if result.passed + result.failed + len(result.skips) == 0:
        result.fail(f"pytest found no test in {folder}\n{output}")
    return result


def pytest_suite(name, changed=lambda env: env):
    return lambda build, env: run_pytest(os.path.join(ROOT, "tests", name), build, changed(env))


# ---- LAMMPS with Kokkos, in a separate Debian -----------------------------------------------------------------------

KOKKOS_ROOT = os.path.join(ROOT, "scripts", "kokkos_root.sh")
KOKKOS_LAMMPS = [
    "-DMLFF_LAMMPS=source",
    "-DLAMMPS_SOURCE_DIR=/opt/lammps/tree",
    "-DMLFF_LMP=/opt/lammps/build/lmp",
    "-DMPI_CXX_COMPILER=/usr/bin/mpicxx.mpich",
    "-DMLFF_PYTHON=/usr/bin/python3",
    "-DMLFF_KOKKOS=ON",
]


def suite_kokkos(build, env):
    """pair_style mlff/kk against mlff in BUILD/kokkos, with the LAMMPS of scripts/kokkos_root.sh."""
    result, where = Result(), os.path.join(build, "kokkos")
    env = {**env, "FOLDERS": build}
    code, output = run([KOKKOS_ROOT, "ready"], env)
    if code:
        result.skips.append(output.strip())
        return result
    configure = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        where,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DMLFF_BUILD_TESTS=OFF",
        "-DMLFF_BUILD_CLI=OFF",
        "-DMLFF_BUILD_EXAMPLES=OFF",
        "-DMLFF_KERNELS_SIMD=OFF",
        *KOKKOS_LAMMPS,
    ]
    for command in [configure, ["ninja", "-C", where]]:
        code, output = run([KOKKOS_ROOT, "run", *command], env)
        if code:
            result.fail(output)
            return result
    settings = {
        "MLFF_PLUGIN": os.path.join(where, "mlffplugin.so"),
        "MLFF_LMP": "/opt/lammps/build/lmp",
        "MLFF_MPIEXEC": "/usr/bin/mpiexec.mpich",
        "PYTHONPATH": os.path.join(ROOT, "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_PROC_BIND": "false",
        "OMP_WAIT_POLICY": "passive",
    }
    python = [KOKKOS_ROOT, "run", "env", *(f"{key}={value}" for key, value in settings.items()), "python3"]
    return run_pytest(os.path.join(ROOT, "tests", "kokkos"), build, env, python)


SUITES = {
    "lint": pytest_suite("lint"),
    "c": suite_c,
    "lammps": pytest_suite("lammps"),
    "python": pytest_suite("python"),
    "faults": pytest_suite("faults"),
    "distill": pytest_suite("distill"),
    "decks": pytest_suite("decks"),
    "build": pytest_suite("build"),
    "package": pytest_suite("package", lambda env: with_ccache({**env, **LIKE_FIRST})),
    "slurm": pytest_suite("slurm"),
    "kokkos": suite_kokkos,
    "valgrind": suite_valgrind,
    "aarch64": suite_aarch64,
    "asan": suite_asan,
    "cudasim": suite_cudasim,
    "gpu": suite_gpu,
    "cuda": suite_cuda,
}


# Longest first, so that both cores are busy until the end; those in TORCH when PyTorch is installed.
LONGEST_FIRST = [
    "cudasim",
    "lammps",
    "asan",
    "python",
    "distill",
    "aarch64",
    "package",
    "kokkos",
    "gpu",
    "decks",
    "faults",
    "lint",
    "slurm",
    "cuda",
    "c",
    "valgrind",
    "build",
]


def timed(name, build, env, torch):
    """(result, seconds) of one suite. torch: the future of train_python(), which other suites do not wait for."""
    begin = time.monotonic()
    if name in TORCH:
        env = {**env, **torch.result()}
    return SUITES[name](build, env), time.monotonic() - begin


def report(results):
    """Prints skipped tests, failed tests and the totals. Returns the exit code."""
    skips = [f"{suite}: {text}" for suite, r in results.items() for text in r.skips]
    if skips:
        print("\nskipped:")
        for text in skips:
            print(f"  {text}")
    passed, failed = sum(r.passed for r in results.values()), sum(r.failed for r in results.values())
    if failed:
        print("\nfailed in: " + ", ".join(name for name, r in results.items() if r.failed))
        for name, r in results.items():
            for text in r.names[:10] if r.failed else []:
                print(f"  {name}: {text[:400]}")
    print(f"\n{passed} passed, {failed} failed, {len(skips)} skipped")
    return 1 if failed or passed == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument("--only", default="", help="suites, separated by commas: " + ", ".join(SUITES))
    args = parser.parse_args()
    wanted = [name for name in args.only.split(",") if name] or list(SUITES)
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        parser.error(f"no suite '{unknown[0]}'; there are {', '.join(SUITES)}")
    build = os.path.abspath(args.build)
    if not glob.glob(os.path.join(build, "CMakeCache.txt")):
        parser.error(f"{build} is not a build directory: run `make test` or scripts/setup.sh test")
    env, workers = environment(build), min(SUITES_IN_PARALLEL, (os.cpu_count() or 1) + 1)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool, concurrent.futures.ThreadPoolExecutor(1) as extra:
        torch = extra.submit(train_python) if set(TORCH) & set(wanted) else None
        waiting = {
            pool.submit(timed, name, build, env, torch): name for name in sorted(wanted, key=LONGEST_FIRST.index)
        }
        found = {}
        for done in concurrent.futures.as_completed(waiting):
            r, seconds = found[waiting[done]] = done.result()
            print(
                f"{waiting[done]:9s} {r.passed:5d} passed {r.failed:4d} failed {len(r.skips):4d} skipped "
                f"{seconds:7.1f} s",
                flush=True,
            )
            for text in r.failures:
                print("\n".join("    " + line for line in text.splitlines()), flush=True)
    results = {name: found[name][0] for name in wanted}
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
