"""LAMMPS scripts at random, run and judged.

    python tests/lammps/random_scripts.py [--seeds 0:10000] [--show 17] [--shrink 17]

Every evaluation of forces in a run must be that of a plain reference (script_oracle.py), or the script must end with
one error. Signals, runs that do not end, numbers that differ and numbers that are not ones are failures; each prints
its seed. --shrink takes away the lines that a failure does not need. Scripts come from script_grammar.py, and run in
LAMMPS libraries that are kept (script_worker.py), on one to three ranks.

From the environment, as in harness.py: MLFF_PLUGIN, MLFF_LIBRARY, PYTHONPATH. `make test-scripts` sets them.
MLFF_PRELOAD: libraries that the workers load first, where LAMMPS and the plugin are compiled with AddressSanitizer.
"""

import argparse
import collections
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import traceback

import harness
import models
import polite  # models.py knows where it is
import script_grammar
import script_oracle
import script_worker

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 60  # scripts of a process
HANG = float(os.environ.get("MLFF_HANG", "120"))  # seconds of one script
# Runs of a script without a model: new memory as it is, or of bytes that are never zero, which show what LAMMPS reads
# before it writes; and the cutoff of pair_style zero, A, None: no pair style, with lists that are made in every step.
DIRTY = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
WITHOUT = (({}, 5.0), (DIRTY, 5.0), ({}, 3.0), ({}, None))
OK, ERROR, LAMMPS, WRONG, CRASH, HUNG = "ok", "error", "lammps", "wrong", "crash", "hung"
FAILURES = (WRONG, CRASH, HUNG)
NO_OPENMP = "without OPENMP package"  # of LAMMPS, which scripts with suffix omp need
WATER = """a molecule for fix gcmc and fix widom

3 atoms

Coords

1 0.0 0.0 0.0
2 0.9572 0.0 0.0
3 -0.24 0.9266 0.0

Types

1 1
2 2
3 2
"""


class Verdict:
    def __init__(self, kind, text="", n_checked=0):
        self.kind, self.text, self.n_checked = kind, text, n_checked

    @property
    def failed(self):
        return self.kind in FAILURES


class Court:
    """Runs scripts in folders below `folder`, where the models are, and judges them."""

    def __init__(self, folder):
        os.stat(
            os.path.join(os.path.dirname(harness.PLUGIN), "tests", "watch.so")
        )  # else all scripts end with an error
        self.folder = str(folder)
        for name, (make, options) in models.KINDS.items():
            make(os.path.join(self.folder, name), **options)
        with open(os.path.join(self.folder, "water.mol"), "w", encoding="utf-8") as f:
            f.write(WATER)
        self.oracle = script_oracle.Oracle(self.folder)
        self.environment = harness.with_libraries(OMP_NUM_THREADS="1", **harness.preload("polite"), **polite.SETTINGS)

    def judge(self, scripts, ranks):
        """Verdicts of scripts, lists of lines, on so many ranks."""
        verdicts = []
        while len(verdicts) < len(scripts):
            first = len(verdicts)
            for verdict in self.batch(scripts[first : first + BATCH], ranks):
                verdicts.append(self.control(scripts[len(verdicts)], ranks, verdict))
        return verdicts

    def batch(self, scripts, ranks, **environment):
        """Verdicts of the scripts that one process came to."""
        for name in os.listdir(self.folder):
            if name.endswith(".pickle"):
                os.remove(os.path.join(self.folder, name))
        with open(os.path.join(self.folder, "scripts.json"), "w", encoding="utf-8") as f:
            json.dump(scripts, f)
        end, output = self.start(ranks, environment)
        verdicts = []
        for k, lines in enumerate(scripts):
            written = self.read(k, ranks)
            if any(written):
                verdicts.append(self.verdict(lines, written, end if k == self.progress() else None))
            elif k == self.progress():
                verdicts.append(Verdict(HUNG if end == "hung" else CRASH, f"{end}\n{output[-1500:]}"))
            else:
                break
        return verdicts or [Verdict(CRASH, f"the worker did not start: {output[-3000:]}")]

    def start(self, ranks, environment):
        """Ends when the process does, or when a script takes too long; how it ended, and what it printed."""
        worker = [sys.executable, os.path.join(HERE, "script_worker.py"), "scripts.json", harness.PLUGIN]
        command = worker if ranks == 1 else [harness.MPIEXEC, "-n", str(ranks), *worker]
        path = os.path.join(self.folder, "output")
        self.write_progress("0")
        with open(path, "wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            before, since, end = -1, time.monotonic(), None
            while end is None:
                try:
                    code = process.wait(0.05)
                    end = "" if code == 0 else f"exit code {code}"
                except subprocess.TimeoutExpired:
                    if self.progress() != before:
                        before, since = self.progress(), time.monotonic()
                    elif time.monotonic() - since > HANG:
                        os.killpg(process.pid, 9)
                        process.wait()
                        end = "hung"
        with open(path, encoding="utf-8", errors="replace") as f:
            return end, f.read()

    def write_progress(self, text):
        with open(os.path.join(self.folder, "progress"), "w", encoding="utf-8") as f:
            f.write(text)

    def progress(self):
        with open(os.path.join(self.folder, "progress"), encoding="utf-8") as f:
            return int(f.read() or -1)

    def read(self, k, ranks):
        """What each rank wrote down of script k; None: nothing."""
        found = []
        for rank in range(ranks):
            path = os.path.join(self.folder, f"{k}.{rank}.pickle")
            if not os.path.exists(path):
                found.append(None)
                continue
            with open(path, "rb") as f:
                found.append(pickle.load(f))
        return found

    def verdict(self, lines, written, end):
        """The verdict on a script that ended on some rank. An error of one rank ends the others early."""
        errors = [rank["error"] for rank in written if rank and rank["error"]]
        failures = [rank["failure"] for rank in written if rank and rank["failure"]]
        if not all(written):
            if not errors:
                return Verdict(HUNG if end == "hung" else CRASH, f"{end}: only some ranks came to the end")
            return Verdict(ERROR, f"line {errors[0][0] + 1}, {lines[errors[0][0]]!r}: {errors[0][1]}")
        if failures and not errors:
            return Verdict(CRASH, f"the worker's own: {failures[0]}")
        try:
            check = script_oracle.Check(self.oracle, lines, written)
            check.run()
        except script_oracle.Beyond:
            pass
        except script_oracle.Wrong as e:
            return Verdict(WRONG, str(e))
        except Exception:
            return Verdict(CRASH, f"the oracle's own: {traceback.format_exc()}")
        if errors:
            return Verdict(ERROR, f"line {errors[0][0] + 1}, {lines[errors[0][0]]!r}: {errors[0][1]}", check.n_checked)
        return Verdict(OK, "", check.n_checked)

    def control(self, lines, ranks, verdict):
        """A script that crashes or hangs without a model, too, is LAMMPS' own. And one that does neither when it runs
        alone has met what another one left."""
        if verdict.kind not in (CRASH, HUNG):
            return verdict
        alone = self.batch([lines], ranks)[0]
        if alone.kind not in (CRASH, HUNG):
            return alone
        for memory, cutoff in WITHOUT:
            without = self.batch([without_models(lines, cutoff)], ranks, **memory)[0]
            if without.kind in (CRASH, HUNG):
                return Verdict(LAMMPS, f"{without.kind} without a model, too")
        return verdict

    def judge_seeds(self, seeds, report=None):
        """seed -> Verdict; report(seed, verdict) is called for each."""
        groups, verdicts = collections.defaultdict(list), {}
        for seed in seeds:
            groups[script_grammar.ranks_of(seed)].append(seed)
        for ranks, mine in sorted(groups.items()):
            scripts = [script_grammar.script(seed)[1] for seed in mine]
            done = 0
            while done < len(mine):
                for verdict in self.batch(scripts[done : done + BATCH], ranks):
                    verdict = self.control(scripts[done], ranks, verdict)
                    verdicts[mine[done]] = verdict
                    if report:
                        report(mine[done], verdict)
                    done += 1
        return verdicts


def without_models(lines, cutoff=5.0):
    """The script with pair_style zero instead of mlff. Fixes with trials use full_energy, as they do with mlff."""
    changed, hybrid = [], False
    for line in lines:
        words = line.split()
        if cutoff is None and words[:1] in (["pair_style"], ["pair_coeff"]):
            line = "neigh_modify delay 0 every 1 check no"
            words = line.split()
        if words[:1] == ["pair_style"] and "mlff" in words:
            hybrid = words[1] != "mlff"
            line = f"pair_style {'hybrid/overlay ' if hybrid else ''}zero {cutoff}"
        elif words[:1] == ["pair_coeff"]:
            line = "pair_coeff * * zero" if hybrid else "pair_coeff * *"
        elif words[:1] == ["run_style"]:
            line = line.replace("inner 1 0 0 outer 2", "pair 1").replace("inner 1 2.0 3.0 outer 2", "pair 1")
        elif words[:1] == ["fix"] and words[3] in ("gcmc", "widom") and "full_energy" not in words:
            line += " full_energy"
        elif words[:1] == ["compute"] and words[-2:] == ["pair", "mlff"]:
            line = line.replace("mlff", "zero")
        elif "mlffprof" in words:
            continue
        changed.append(line)
    return changed


def shrink(court, lines, ranks):
    """The lines without those that the failure does not need."""
    wanted = court.batch([lines], ranks)[0]
    if not wanted.failed:
        return lines, wanted
    size = max(1, len(lines) // 2)
    while size:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            script_grammar.tame(fewer)
            found = court.batch([fewer], ranks)[0] if fewer else None
            if found and found.kind == wanted.kind:
                lines, wanted = fewer, found
            else:
                at += size
        size //= 2
    return lines, wanted


def summary(verdicts):
    """Counts of kinds and of errors, numbers in them left out."""
    kinds, errors = collections.Counter(), collections.Counter()
    for verdict in verdicts.values():
        kinds[verdict.kind] += 1
        if verdict.kind == ERROR:
            text = re.sub(r"^line \d+, .*?: (?=ERROR|[A-Z])", "", " ".join(verdict.text.split()))
            errors[re.sub(r"[-+]?\d[\d.e+-]*", "#", text)[:110]] += 1
    return kinds, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:10000", help="FIRST:END (default: %(default)s)")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the script of a seed")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="shrink the script of a seed that fails")
    parser.add_argument("--file", help="judge this script; its first line is `# ranks N`")
    parser.add_argument("--log", help="write every verdict to this file, in a line of JSON")
    arguments = parser.parse_args()
    if arguments.show is not None:
        ranks, lines = script_grammar.script(arguments.show)
        print("\n".join([f"# ranks {ranks}", *lines]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        court = Court(folder)
        if arguments.shrink is not None:
            ranks, lines = script_grammar.script(arguments.shrink)
            lines, verdict = shrink(court, lines, ranks)
            print("\n".join([f"# ranks {ranks}", *lines, "", f"{verdict.kind}: {verdict.text}"]))
            return verdict.failed
        if arguments.file:
            with open(arguments.file, encoding="utf-8") as f:
                ranks, lines = parse(f.read())
            verdict = court.batch([lines], ranks)[0]
            print(f"{verdict.kind}, {verdict.n_checked} evaluations compared: {verdict.text}")
            return verdict.failed
        return judge_range(court, arguments)


def parse(text):
    """(ranks, lines) of a script in a file."""
    lines = [line for line in text.splitlines() if line.strip()]
    return int(re.match(r"# ranks (\d)", lines[0]).group(1)), [
        line for line in lines if line == script_worker.WATCH or not line.startswith("#")
    ]


def judge_range(court, arguments):
    first, end = map(int, arguments.seeds.split(":"))
    begin, log = time.monotonic(), open(arguments.log, "a", encoding="utf-8") if arguments.log else None

    def report(seed, verdict):
        if verdict.failed:
            print(f"seed {seed}: {verdict.kind}: {verdict.text}", flush=True)
        if log:
            line = {"seed": seed, "kind": verdict.kind, "checked": verdict.n_checked, "text": verdict.text}
            log.write(json.dumps(line) + "\n")
            log.flush()

    verdicts = court.judge_seeds(range(first, end), report)
    kinds, errors = summary(verdicts)
    for text, n in errors.most_common():
        print(f"{n:6d} {text}")
    n_checked = sum(verdict.n_checked for verdict in verdicts.values())
    print(f"{len(verdicts)} scripts, {n_checked} evaluations compared, {time.monotonic() - begin:.0f} s: {dict(kinds)}")
    return any(verdict.failed for verdict in verdicts.values())


if __name__ == "__main__":
    sys.exit(main())
