"""What can be timed: a LAMMPS deck, or a PyTorch or JAX program that answers over a pipe.

A case has `label` (what it is), `n_atoms`, `prepare()` (once, before the rounds) and `measure()` (one round: a
dictionary with `seconds` per step or evaluation, `cpu` the share of a processor it had, and whatever else is known).
"""

import concurrent.futures
import json
import os
import statistics
import subprocess

from mlff_tools.model.lammps import LammpsError

from . import runs

# glibc returns large buffers to the kernel by default, which costs PyTorch up to half of its time in page faults.
TUNED_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "200000000",
}
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_programs.py")


class LammpsCase:
    """A deck run by `lmp` on one core per rank; every round is a process of its own."""

    def __init__(self, context, name, label, deck, ranks=1, fewest=20):
        self.context, self.name, self.label, self.deck, self.ranks = context, name, label, deck, ranks
        self.fewest = fewest  # steps of a round at least
        self.cores = context.cores[:ranks]
        self.path = os.path.join(context.work, f"in.{name}")
        self.n_atoms = self.steps = None
        self.style = {}

    def _run(self, lines):
        with open(self.path, "w", encoding="ascii") as out:
            out.write("\n".join(self.deck + lines) + "\n")
        return runs.run(self.context.lmp, self.path, self.cores, self.ranks)

    def prepare(self):
        """Chooses the number of steps, so that one round takes about context.seconds."""
        if self.steps:
            return
        text = self._run(["run 5" if self.fewest > 5 else "run 1", f"run {self.fewest}"])
        found = runs.parse(text)
        self.style = runs.parse_style(text)
        self.n_atoms = found["atoms"]
        self.steps = max(self.fewest, min(20000, round(self.context.seconds / found["seconds"])))

    def measure(self):
        text = self._run([f"run {min(runs.WARM_UP_STEPS, self.fewest)}", f"run {self.steps}"])
        return runs.parse(text)

    def first_step(self):
        """Potential energy (eV) and forces (eV/A, by atom ID) of the deck's structure."""
        dump = os.path.join(self.context.work, f"forces.{self.name}")
        text = self._run(
            [
                "thermo_style custom step pe",
                "thermo_modify format float %.15g",
                "run 0",
                f"write_dump all custom {dump} id fx fy fz modify sort id format float %.15g",
            ]
        )
        with open(dump, encoding="ascii") as file:
            rows = file.read().split("id fx fy fz")[1].split("\n")
        forces = [[float(x) for x in row.split()[1:]] for row in rows if row.strip()]
        return runs.parse_thermo(text)["PotEng"], forces

    def describe(self):
        return {"label": self.label, "n_atoms": self.n_atoms, "ranks": self.ranks, "steps": self.steps, **self.style}


class TwoRuns(LammpsCase):
    """The deck of another case twice at once, one run on each core: what the machine leaves to each when both work."""

    def __init__(self, context, one):
        super().__init__(context, one.name + "-twice", one.label + ", two runs at once", one.deck, fewest=one.fewest)
        self.twin = LammpsCase(context, one.name + "-twin", one.label, one.deck, fewest=one.fewest)
        self.twin.cores = context.cores[1:2]

    def measure(self):
        self.twin.steps = self.steps
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.twin.measure)
            mine = super().measure()
            return max(mine, other.result(), key=lambda found: found["seconds"])


class TorchProgram:
    """A process of torch_programs.py pinned to as many cores as threads; it sleeps while others are timed."""

    def __init__(self, context, program, weights, tuned, threads=1):
        env = dict(
            os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **(TUNED_MALLOC if tuned else {})
        )
        cores = ",".join(map(str, context.cores[:threads]))
        arguments = ["taskset", "-c", cores, context.torch_python, SCRIPT, program, weights, str(threads)]
        self.process = subprocess.Popen(arguments, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        """Answer to `request`; LammpsError when the program has failed."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise LammpsError(f"{SCRIPT} ended with status {self.process.wait()}: its messages are above")
        reply = json.loads(line)
        if "error" in reply:
            raise LammpsError(f"{SCRIPT}: {reply['error']}")
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class TorchCase:
    """One variant of a TorchProgram; a round is the median of several evaluations of energy and forces."""

    def __init__(self, context, name, label, program, variant, n_atoms, fewest=3):
        self.context, self.name, self.label, self.program, self.variant = context, name, label, program, variant
        self.n_atoms, self.ranks, self.count = n_atoms, 1, None
        self.fewest = fewest  # evaluations of a round at least
        self.warm_up = min(2, fewest)

    def prepare(self):
        if self.count:
            return
        self.program.ask(do="time", variant=self.variant, n=self.fewest)
        seconds = self.program.ask(do="time", variant=self.variant, n=self.fewest)["seconds"]
        self.count = max(self.fewest, min(200, round(self.context.seconds / statistics.median(seconds))))

    def measure(self):
        reply = self.program.ask(do="time", variant=self.variant, n=self.count + self.warm_up)
        seconds, cpu = reply["seconds"][self.warm_up :], reply["cpu_seconds"][self.warm_up :]
        return {"seconds": statistics.median(seconds), "cpu": sum(cpu) / sum(seconds)}

    def describe(self):
        return {
            "label": self.label,
            "n_atoms": self.n_atoms,
            "ranks": 1,
            "evaluations": self.count,
            "variant": self.variant,
        }
