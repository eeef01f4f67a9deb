"""Fuzzes for minutes or hours: `make fuzz MINUTES=N` (10), and says what was run, found and reached.

The targets of tests/fuzz are built by Clang with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer in
BUILD/fuzz, and run one after another, each for its share of the time. Their corpora grow in ~/.cache/mlff/fuzz
(or $MLFF_CACHE); seeds are the files of seeds/ and what the targets make. Then come recipes (recipes.py), and random
models on several ranks (test_differential.c). Inputs that were found are in BUILD/fuzz/finds. Every run is a line of
history.jsonl next to the corpora.

Last, a build without sanitizers reads the corpora and counts what they reach (BUILD/fuzz-coverage): lines of each
loader, and the errors, other than those of memory, that no input reaches.
"""

import argparse
import datetime
import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Shares of the time: an input of the first takes a hundred times as long as one of the last.
SHARES = {"modelfile": 6, "report": 3, "xyz": 2, "rules": 1, "tables": 1, "weights": 1, "recipes": 1, "differential": 3}
TARGETS = tuple(name for name in SHARES if name not in ("recipes", "differential"))
SANITIZERS = "fuzzer-no-link,address,undefined"
COVERAGE = "-fprofile-instr-generate -fcoverage-mapping"
# What reads files: the sources whose errors are listed.
LOADERS = (
    "src/base/yaml.c",
    "src/mlff/model/header_hash.c",
    "src/mlff/model/modelfile.c",
    "src/mlff/model/pairs.c",
    "src/mlff/model/repulsion.c",
    "src/mlff/model/safetensors.c",
    "src/mlff/model/selftest.c",
    "src/mlff/model/yaml_get.c",
    "src/mlff/arch/ani_load.c",
    "src/mlff/arch/nequip_load.c",
    "src/mlff/arch/orb_load.c",
    "src/mlff/arch/painn_load.c",
    "src/mlff/xyz/columns.c",
    "src/mlff/xyz/comment.c",
    "src/mlff/xyz/frames.c",
    "src/mlff/xyz/lines.c",
    "src/mlffprof/document.c",
    "src/mlffprof/report/read.c",
    "src/mlffprof/report/scaling_table.c",
    "src/mlffprof/compare/rules.c",
)
FAIL = re.compile(r"\b(?:fail|fail_at|fail_\w+|mlff_fail|mlff_yaml_fail|mlff_fault_set|mlffprof_\w*fail)\(")
# Not of an input: memory, the operating system, arguments of the calling program; and limits of megabytes, which unit
# tests reach (test_yaml.c, test_prof_read.c, test_cli.c).
NOT_OF_INPUT = re.compile(r"NOMEM|FAULT_IO|_E_IO|_E_ARG|out of memory|read error|MAX_BYTES|MAX_NODES|LONGEST_LINE")


def run(command, **more):
    """(exit code, what the command printed)."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def must(command, **more):
    code, output = run(command, **more)
    if code:
        sys.exit(f"{' '.join(command[:4])} ... failed:\n{output[-4000:]}")
    return output


def clang_build(where, sanitizers, flags=""):
    """Builds the targets by Clang."""
    if not os.path.exists(os.path.join(where, "build.ninja")):
        options = {"SANITIZE": sanitizers, "BUILD_PLUGIN": "OFF", "BUILD_CLI": "OFF", "BUILD_EXAMPLES": "OFF"}
        options.update({"BUILD_TESTS": "ON", "KERNELS_SIMD": "OFF", "CUDA": "OFF"})
        words = [f"-DMLFF_{key}={value}" for key, value in options.items()]
        words += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_C_FLAGS={flags}"]
        env = {**os.environ, "CC": "clang", "CXX": "clang++"}
        must(["cmake", "-S", ROOT, "-B", where, "-G", "Ninja", *words], env=env)
    must(["ninja", "-C", where, *(f"test_fuzz_{name}" for name in TARGETS)])


def corpus_of(cache, name, build):
    """The folder of a target's corpus, with the seeds of today in it, and the dictionary."""
    folder = os.path.join(cache, name)
    os.makedirs(folder, exist_ok=True)
    must([os.path.join(build, "tests", f"test_fuzz_{name}"), "0", "1", folder], env=environment())
    return folder, folder + ".dict"


def environment(**more):
    return {**os.environ, "MLFF_TEST_SOURCE_DIR": ROOT, "UBSAN_OPTIONS": "print_stacktrace=1", **more}


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def libfuzzer(name, seconds, build, cache):
    """One target by libFuzzer. (executions, text of a find or "")."""
    program = os.path.join(build, "fuzz", "tests", f"test_fuzz_{name}")
    corpus, words = corpus_of(cache, name, build)
    finds = os.path.join(build, "fuzz", "finds")
    os.makedirs(finds, exist_ok=True)
    n = 0
    for profile in (1, 0):  # with what is compared, which finds more, and without, which is up to twice as fast
        options = [
            f"-max_total_time={(seconds + 1) // 2}",
            "-rss_limit_mb=4096",
            "-timeout=25",
            "-print_final_stats=1",
            f"-use_value_profile={profile}",
        ]
        code, output = run(
            [program, *options, f"-dict={words}", f"-artifact_prefix={finds}/{name}-", corpus], env=environment()
        )
        n += number(r"stat::number_of_executed_units:\s*(\d+)", output)
        if code:
            return n, output[-6000:]
    small = corpus + ".small"
    shutil.rmtree(small, ignore_errors=True)
    os.makedirs(small)
    if run([program, "-merge=1", "-rss_limit_mb=4096", small, corpus], env=environment())[0] == 0:
        shutil.rmtree(corpus)
        os.rename(small, corpus)
    return n, ""


def recipes(seconds, build, cache):
    seed = datetime.datetime.now().strftime("%y%m%d%H%M")
    env = environment(PYTHONPATH=os.path.join(ROOT, "python"))
    code, output = run([sys.executable, os.path.join(HERE, "recipes.py"), str(seconds), seed], env=env)
    return number(r"(\d+) recipes", output), output if code else ""


def differential(seconds, build, cache):
    seed = datetime.datetime.now().strftime("%y%m%d%H%M")
    env = environment(MLFF_FUZZ_SECONDS=str(seconds), MLFF_FUZZ_SEED=seed, CK_DEFAULT_TIMEOUT="0")
    code, output = run([os.path.join(build, "tests", "test_fuzz_differential")], env=env)
    return sum(int(n) for n in re.findall(r"(\d+) models", output)), output[-6000:] if code else ""


def fuzz(names, minutes, build, cache):
    """Runs the targets and prints a line for each. (executions by name, names of those that found something)"""
    shares = sum(SHARES[name] for name in names)
    runs, found = {}, []
    for name in names:
        seconds = max(1, round(60 * minutes * SHARES[name] / shares))
        if name in TARGETS:
            n, what = libfuzzer(name, seconds, build, cache)
        else:
            n, what = {"recipes": recipes, "differential": differential}[name](seconds, build, cache)
        runs[name] = n
        print(f"{name:13s} {n:12d} executions {seconds:6d} s  {'FOUND' if what else 'nothing found'}", flush=True)
        if what:
            found.append(name)
            print(what, flush=True)
    return runs, found


def remember(cache, runs, found):
    """Adds a line to the history and prints the sum of all its lines."""
    commit = run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"])[1].strip()
    line = {"date": datetime.date.today().isoformat(), "commit": commit, "executions": runs, "found": found}
    path = os.path.join(cache, "history.jsonl")
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(text) for text in f]
    total = sum(sum(line["executions"].values()) for line in lines)
    print(f"{sum(runs.values())} executions; {total} in {len(lines)} runs since {lines[0]['date']} ({path})")


# ---- coverage --------------------------------------------------------------------------------------------------------


def read_corpora(build, cache):
    """What llvm-cov exports after every target has read its corpus."""
    where = os.path.join(build, "fuzz-coverage")
    clang_build(where, "fuzzer-no-link", COVERAGE)
    for old in glob.glob(os.path.join(where, "*.profraw")):
        os.remove(old)
    programs = [os.path.join(where, "tests", f"test_fuzz_{name}") for name in TARGETS]
    for name, program in zip(TARGETS, programs):
        corpus, _ = corpus_of(cache, name, build)
        env = environment(LLVM_PROFILE_FILE=os.path.join(where, f"{name}.profraw"))
        must([program, "-runs=0", "-rss_limit_mb=4096", corpus], env=env)
    data = os.path.join(where, "all.profdata")
    raw = glob.glob(os.path.join(where, "*.profraw"))
    must(["llvm-profdata", "merge", "-sparse", "-o", data, *raw])
    objects = [word for program in programs[1:] for word in ("-object", program)]
    command = ["llvm-cov", "export", f"-instr-profile={data}", programs[0], *objects]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    # The compiler has left out where the repository lies (cmake/Options.cmake): sources seem to lie in the build.
    found = json.loads(done.stdout)["data"][0]["files"]
    files = {os.path.relpath(os.path.join(ROOT, file["filename"]), where): file for file in found}
    return {name: files[name] for name in LOADERS}


def count_at(segments, line, column):
    """How often the code at this place ran: the count of the last segment that begins before it."""
    count = 0
    for segment in segments:
        if (segment[0], segment[1]) > (line, column):
            break
        count = segment[2] if segment[3] else 0
    return count


def errors_of(path, segments):
    """(number of errors of a source that an input can cause, places of those that none reached)."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    n, missed = 0, []
    for found in FAIL.finditer(text):
        begin = text.rfind("\n", 0, found.start()) + 1
        call = text[found.start() : text.find(";", found.start())]
        if re.match(r"(static |mlff_status |mlffprof_status |int )", text[begin:]) or NOT_OF_INPUT.search(call):
            continue
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - begin + 1
        n += 1
        if not count_at(segments, line, column):
            missed.append(f"{os.path.relpath(path, ROOT)}:{line}: {' '.join(call.split())[:120]}")
    return n, missed


def coverage(build, cache):
    """Prints lines and errors that the corpora reach. Returns the errors that they do not."""
    missed = []
    print(f"\n{'loader':38s} {'lines':>7s} {'errors':>7s}")
    for name, file in read_corpora(build, cache).items():
        n, places = errors_of(os.path.join(ROOT, name), file["segments"])
        print(f"{name:38s} {file['summary']['lines']['percent']:6.1f}% {n - len(places):3d}/{n}")
        missed += places
    print(f"\nerrors that no input reaches: {len(missed)}")
    for place in missed:
        print("  " + place)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument(
        "--minutes", type=float, default=10, help="for all targets together (default: 10); 0: coverage alone"
    )
    parser.add_argument("--only", default=",".join(SHARES), help="targets, separated by commas: " + ", ".join(SHARES))
    args = parser.parse_args()
    names = [name for name in args.only.split(",") if name]
    unknown = [name for name in names if name not in SHARES]
    if unknown:
        parser.error(f"no target '{unknown[0]}'; there are {', '.join(SHARES)}")
    build = os.path.abspath(args.build)
    cache = os.path.join(os.environ.get("MLFF_CACHE") or os.path.expanduser("~/.cache/mlff"), "fuzz")
    os.makedirs(cache, exist_ok=True)
    found = []
    if args.minutes:
        clang_build(os.path.join(build, "fuzz"), SANITIZERS)
        runs, found = fuzz(names, args.minutes, build, cache)
        remember(cache, runs, found)
    coverage(build, cache)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
