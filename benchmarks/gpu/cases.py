"""What run.py --time measures, in which order, and about how long it takes on an H100: the table of `run.py --plan`.

Times here are those of earlier runs, rounded; they decide how many evaluations are timed and how much of a call a part
may use, and nothing that is reported comes from them.
"""

import dataclasses

STUDENT, TEACHER, ANI_8, ANI_1, ORB, NEQUIX = (
    "water-benzene-student",
    "water-benzene-teacher",
    "random-ani2x-8",
    "random-ani2x-1",
    "random-orb-v2",
    "nequix-oam-1-pft",
)
WATER_MODELS = (STUDENT, ANI_8, TEACHER, ANI_1, ORB)  # the most telling first
MODELS = (*WATER_MODELS, NEQUIX)
SIZES = (63, 1152, 98304, 24, 943296, 192, 10368)  # likewise
SILICON = (64, 110592, 4096, 512, 8)  # of NEQUIX
MOST_ORB, MOST_COMPARED = 98304, {ORB: 63, NEQUIX: 64}
MOST_COMPARED_ELSE = 192
MOST_GRAPH_OFF = 1152
TOLD = (63, 1152)  # sizes that the ways which nobody runs by default are measured at
REPLICAS = (16, 256)
# model -> (us of a step of few atoms, us per atom more, s to open it); measured on an H100, fp32
COST = {
    STUDENT: (140, 0.08, 0.1),
    TEACHER: (270, 0.28, 0.1),
    ANI_8: (160, 0.20, 0.1),
    ANI_1: (160, 0.07, 0.1),
    ORB: (4900, 13, 0.5),
    NEQUIX: (570, 3.5, 0.2),
}
CPU_COST = {STUDENT: 10, TEACHER: 60, ANI_8: 42, ANI_1: 8, ORB: 4000, NEQUIX: 5000}  # us per atom on one core
LIST_COST = 4e-6  # s per atom: reading and neighbours
SECONDS, MOST_CALLS, FEWEST_CALLS = 0.25, 300, 5  # of a case


def material(model):
    """What a network is measured on."""
    return "silicon" if model == NEQUIX else "water"


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the table of results."""

    model: str
    n_atoms: int
    precision: str = "fp32"
    graph: str = "on"
    fuse: str = "on"
    replicas: int = 1
    device: str = "cuda"

    @property
    def material(self):
        return material(self.model)

    @property
    def n_all(self):
        return self.n_atoms * self.replicas

    def seconds_per_call(self):
        """On an H100 or one core."""
        if self.device == "cpu":
            return 1e-6 * CPU_COST[self.model] * self.n_all
        base, per_atom, _ = COST[self.model]
        slower = {"fp32": 1, "mixed": 1, "fp64": 3}[self.precision] * (1.5 if self.graph == "off" else 1)
        return 1e-6 * slower * (base + per_atom * self.n_all)

    def n_calls(self):
        if self.device == "cpu":
            return max(3, min(30, int(SECONDS / self.seconds_per_call())))
        return max(FEWEST_CALLS, min(MOST_CALLS, int(SECONDS / self.seconds_per_call())))

    def is_compared(self):
        """Whether it is held against the CPU in double precision before it is timed."""
        return (
            self.device == "cuda"
            and self.replicas == 1
            and self.n_atoms <= MOST_COMPARED.get(self.model, MOST_COMPARED_ELSE)
        )

    def estimate(self):
        """Seconds of the whole case: opening with its self-test, list, evaluation on the CPU, warm-up, calls."""
        compared = 2e-6 * CPU_COST[self.model] * self.n_all if self.is_compared() else 0
        is_first = self == dataclasses.replace(
            self, precision="fp32", graph="on", fuse="on", device="cuda"
        )  # lists are kept
        listed = LIST_COST * self.n_all if is_first else 0
        return COST[self.model][2] + listed + compared + 1.2 * self.n_calls() * self.seconds_per_call() + 0.05

    def limit(self):
        """Seconds after which it is given up."""
        return 10 + 5 * self.estimate()

    def words(self, model_file, structure):
        """The command of `mlff batch`."""
        words = [
            "time",
            model_file,
            structure,
            "--json",
            "--device",
            self.device,
            "--precision",
            self.precision,
            "--graph",
            self.graph,
            "--fuse",
            self.fuse,
            "--replicas",
            str(self.replicas),
            "--calls",
            str(self.n_calls()),
        ]
        return words + ["--against", "cpu"] if self.is_compared() else words


def first_round():
    """Every network at every size in single and mixed precision, small ones also without recorded steps; Nequix in
    silicon, where fewer ways are enough."""
    for n in SIZES:
        for model in WATER_MODELS:
            if model == ORB and n >= MOST_ORB:
                continue
            yield Case(model, n)
            yield Case(model, n, "mixed")
            if n <= MOST_GRAPH_OFF:
                yield Case(model, n, graph="off")
    for n in SILICON:
        yield Case(NEQUIX, n)
    for n in (SILICON[-1], SILICON[1]):
        yield Case(NEQUIX, n, "mixed")
    yield Case(NEQUIX, SILICON[0], graph="off")


def second_round():
    """Replicas, unfused operations, double precision, and one core of the CPU. Orb's energy is of one system, and its
    fused operations are the plain ones."""
    for model in WATER_MODELS[:-1]:
        for n in (63, 24):
            for replicas in REPLICAS:
                yield Case(model, n, replicas=replicas)
                yield Case(model, n, "mixed", replicas=replicas)
    for n in TOLD:
        for model in WATER_MODELS:
            if model != ORB:
                yield Case(model, n, fuse="off")
            if not (model == ORB and n > TOLD[0]):
                yield Case(model, n, device="cpu")
            yield Case(model, n, "fp64")
    yield Case(ORB, MOST_ORB)
    yield Case(NEQUIX, SILICON[0], device="cpu")


def small(cases):
    """For the simulated device: the two smallest sizes of two networks, the smallest of the others, two replicas, few
    calls."""
    for case in cases:
        if case.replicas == REPLICAS[0]:
            case = dataclasses.replace(case, replicas=2)
        if case.replicas <= 2 and case.n_atoms <= (63 if case.model in (STUDENT, ANI_1) and case.replicas == 1 else 24):
            yield Small(**dataclasses.asdict(case))


class Small(Case):
    def n_calls(self):
        return 2

    def limit(self):
        return 120


@dataclasses.dataclass(frozen=True)
class Part:
    """Of a call: seconds after which it is ended, and, apart from those of its cases, about how many it takes on an
    H100."""

    name: str
    limit: int
    seconds: int
    cases: tuple = ()

    def estimate(self):
        return self.seconds + sum(case.estimate() for case in self.cases)


PREPARE = Part("unpack, or build", 150, 6)
DEVICE = Part("launch floor, bandwidths", 60, 5)
FIRST = Part("cases, first round", 200, 0, tuple(first_round()))
STEPS = Part("whole steps of LAMMPS", 70, 35)
EAGER = Part("PyTorch, eager", 60, 45)
KERNELS = Part("Nsight Compute", 110, 90)
TRACES = Part("span traces", 30, 10)
SECOND = Part("cases, second round", 120, 0, tuple(second_round()))
COMPILED = Part("PyTorch, compiled", 80, 60)
# Suites and those of the sanitizer run eight at a time.
SUITES = Part("suites on the device", 220, 20)
SANITIZERS = Part("compute-sanitizer", 330, 260)
# The parts of each call, in order
PLAN = {
    "time": (PREPARE, DEVICE, FIRST, STEPS, EAGER, KERNELS, TRACES, SECOND, COMPILED),
    "check": (PREPARE, SUITES, SANITIZERS),
}
