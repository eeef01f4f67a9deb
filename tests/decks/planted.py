"""Planted regressions, each with the rule of examples/ci that must catch it, and innocent runs, which no rule may
accuse.

    .venv/bin/python tests/decks/planted.py           all of them, as a table: 15 minutes on one core
    .venv/bin/python tests/decks/planted.py leak      those whose name has the word

tests/decks/test_gate_bites.py takes the quick ones. Counted work is held against what examples/ci/counts stores.
"""

import contextlib
import dataclasses
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from mlff_tools.bench import cases, profiles, suite, work
from mlff_tools.model import modelfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
PLUGIN = os.environ.get("MLFF_PLUGIN", os.path.join(BUILD, "mlffplugin.so"))
MLFF = os.environ.get("MLFF", os.path.join(BUILD, "mlff"))
CI, DECKS = os.path.join(ROOT, "examples", "ci"), os.path.join(ROOT, "benchmarks", "decks")
COUNTS = os.path.join(CI, "counts", "avx2")  # what valgrind runs on processors with AVX2
STUDENT = os.path.join(ROOT, "models", "water-xs.yaml")
# system -> shipped students whose work in it is stored; valgrind takes ten minutes for a universal model
COUNTED = {
    "water": ("water-xs", "water-s", "water-mbpol-xs"),
    "benzene": ("organics-s",),
    "silicon": ("silicon-m",),
    "gaas": ("gaas-r2scan-m",),
    "aluminium": ("aluminium-m",),
    "copper": ("copper-m",),
    "iron": ("iron-m",),
}
TIMED = ["--steps", "300", "--equilibrate", "50", "--every", "50"]
LISTS = ("neigh_modify every 1 delay 0 check yes", "neigh_modify every 1 delay 0 check no")
WHIRL = (
    "fix         move all nve\nfix         bath",
    "variable    whirl_x atom 0.01*(y-ly/2)\nvariable    whirl_y atom -0.01*(x-lx/2)\n"
    "fix         whirl all addforce v_whirl_x v_whirl_y 0.0\nfix         move all nve\nfix         bath",
)


@dataclasses.dataclass(frozen=True)
class Plant:
    """`how`: what is run. plain and ranks: allocations, messages and lists on one and two ranks; instructions: in
    valgrind; timed: a benchmark. `deck`: a text of in.bench and what replaces it. `scale`: factor on all forces.
    `model` of models/ in `system` and `protocol`: of counted work."""

    name: str
    how: str
    metric: str
    arguments: tuple = ()
    environment: tuple = ()
    deck: tuple = ()
    scale: float = 1.0
    model: str = "water-xs"
    system: str = "water"
    protocol: str = "nvt"

    @property
    def case(self):
        """Name of its case in the suite and of its stored counts."""
        ranks = "-r2" if self.how == "ranks" else ""
        return f"{self.system}-small-{self.protocol}{ranks}-{cases.clean(self.model)}"

    @property
    def rules(self):
        return {"ranks": "work-ranks.yaml", "timed": "previous.yaml", "speed": "previous-speed.yaml"}.get(
            self.how, "work.yaml"
        )


GENERIC = ("--settings", "precision fp32 kernels generic")
PLANTS = [
    Plant("scalar kernels", "instructions", "instructions_per_atom", GENERIC),
    Plant("scalar kernels, by the clock", "speed", "median_latency_ms", GENERIC),
    Plant("an extra copy of 800 kB", "instructions", "bytes_moved_per_atom", environment=("PLANT_COPY", 800000)),
    Plant("a buffer allocated in each step", "plain", "allocations_per_step", environment=("PLANT_ALLOCATE", 4000)),
    Plant("a leak", "plain", "leaked_bytes_per_step", environment=("PLANT_LEAK", 16)),
    Plant("lists rebuilt in each step", "plain", "list_builds_per_step", deck=LISTS),
    Plant("ghosts farther than needed", "ranks", "messages_per_step", ("--var", "ghosts=9")),
    Plant(
        "no memory shared by ranks", "ranks", "message_bytes_per_step", ("--settings", "precision fp32 node_memory no")
    ),
    Plant("forces 1 % too large", "timed", "force_rmse", scale=1.01),
    Plant("a time step of 1 fs", "timed", "energy_max_excursion", ("--var", "timestep=0.001")),
    Plant("forces that are no gradient", "timed", "drift_abs", deck=WHIRL),
]


def broken(rules, a, b):
    """Metric -> text of the rules of examples/ci/RULES that the change from report a to b breaks."""
    words = [MLFF, "compare", a, b, "--gate", os.path.join(CI, rules)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("pass ", "FAIL "))]
    if not lines or done.returncode != any(line[0] == "FAIL" for line in lines):
        raise RuntimeError(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}")
    return {line[1]: " ".join(line[2:6]) for line in lines if line[0] == "FAIL"}


@contextlib.contextmanager
def planted(plant, folder):
    """Arguments of mlff bench for a plant, with its environment set."""
    words = [*plant.arguments, "--build", PLUGIN]
    if plant.deck:
        decks = os.path.join(folder, "decks")
        shutil.copytree(DECKS, decks)
        path = os.path.join(decks, "in.bench")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        assert text.count(plant.deck[0]) == 1, plant
        profiles.write_text(path, text.replace(*plant.deck))
        words += ["--decks", decks]
    before = dict(os.environ)
    if plant.environment:
        library = os.path.join(folder, "plant.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plant.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", source, "-o", library, "-ldl"], check=True)
        os.environ.update({"LD_PRELOAD": library, plant.environment[0]: str(plant.environment[1])})
    try:
        yield words
    finally:
        os.environ.clear()
        os.environ.update(before)


def counted(plant, folder):
    """(the stored report, one with what was counted now of the kinds that the plant asks for)."""
    stored = os.path.join(COUNTS, f"{plant.case}.json")
    with planted(plant, folder) as words:
        ranks = ["--ranks", "2"] if plant.how == "ranks" else []
        args = suite.parser().parse_args([plant.case.replace("-r2", ""), "--model", plant.model, *ranks, *words])
        suite.check(args)
        (case,) = cases.chosen(args)
        counter = work.Counter(args, folder, suite.command)
        found = counter.instructions(case) if plant.how == "instructions" else counter.plain(case)[1]
    report = profiles.read(stored)
    report["work"].update(found)
    new = os.path.join(folder, "counted.json")
    profiles.write_json(new, report)
    return stored, new


def model(folder, factor=1.0):
    """A copy of the student whose forces, and energies without those of free atoms, are `factor` times as large, with a
    self-test that it passes if it is another one."""
    path = os.path.join(folder, f"scaled-{factor}.yaml")
    head, tensors = modelfile.read(STUDENT)
    for name in ("readout.1.weight", "readout.1.bias"):
        tensors[name] = tensors[name] * tensors[name].dtype.type(factor)
    modelfile.write(path.removesuffix(".yaml"), head, tensors)
    if factor != 1:
        subprocess.run([sys.executable, "-m", "mlff_tools", "selftest", path], check=True, stdout=subprocess.DEVNULL)
    return path


def timed(plant, folder):
    """Reports of the student and of the plant, whose forces are compared with those of a copy of the student."""
    copy, files = model(folder), []
    changed = STUDENT if plant.scale == 1 else model(folder, plant.scale)
    with planted(plant, folder) as words:
        for name, path, more in (("a", STUDENT, ["--build", PLUGIN]), ("b", changed, words)):
            out = os.path.join(folder, name)
            run = [sys.executable, "-m", "mlff_tools", "bench", "water-small-nvt*", "--model", path, "--out", out]
            run += [*TIMED, "--repeats", "1", "--reference", copy, *more]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            files += glob.glob(os.path.join(out, "cases", "*.json"))
    return files


def catch(plant):
    """The rules that a plant breaks, as of `broken`."""
    with tempfile.TemporaryDirectory(prefix="mlff-planted-") as folder:
        a, b = (timed if plant.how in ("timed", "speed") else counted)(plant, folder)
        return broken(plant.rules, a, b)


def innocent(seed, kinds=("plain", "ranks", "instructions")):
    """What rules say of the same build again: of its work, and interleaved with itself from other velocities."""
    found = {}
    for how in kinds:
        found.update({f"{how}: {k}": v for k, v in catch(Plant("nothing", how, "")).items()})
    with tempfile.TemporaryDirectory(prefix="mlff-planted-") as folder:
        bench = f"--build {PLUGIN} --var seed={seed} {' '.join(TIMED)}"
        env = {**os.environ, "MLFF": MLFF, "OUT": os.path.join(folder, "out"), "BENCH": bench}
        words = ["sh", os.path.join(CI, "gate.sh"), STUDENT, "--previous", PLUGIN, model(folder)]
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            found["gate.sh --previous"] = done.stdout[-3000:]
    return found


def main():
    wanted = [p for p in PLANTS if not sys.argv[1:] or any(w in p.name for w in sys.argv[1:])]
    missed = 0
    for plant in wanted:
        found = catch(plant)
        missed += plant.metric not in found
        verdict = found.get(plant.metric, "MISSED")
        others = ", ".join(k for k in found if k != plant.metric)
        print(f"{plant.name:32s} {plant.rules:20s} {plant.metric:24s} {verdict:34s} {others}", flush=True)
    for seed in range(1, 11) if not sys.argv[1:] or "innocent" in sys.argv[1:] else ():
        found = innocent(seed)
        missed += bool(found)
        print(f"innocent run {seed:2d}: {json.dumps(found) if found else 'no rule is broken'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
