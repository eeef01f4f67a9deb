"""What a step costs on many ranks or GPUs: a cost model, fitted to measurements, checked on published ones, projected.

  benchmarks/projection.py                          published runs: fit, check on runs left out, projection
  benchmarks/projection.py --measured REPORT.json   the same for reports of `mlff scaling` (one or more)
  benchmarks/projection.py --us-per-atom 1.5 --latency-us 20 --bandwidth 20 ...       constants of your own

A step of one rank with n atoms, g ghosts and a box of edges l takes

  overhead + atom n + ghost g + latency (messages + reductions log2(ranks)) + bytes / bandwidth

Positions (24 bytes for each ghost of another rank) and forces (24 bytes) go through LAMMPS' communication with the
neighbours in x, then y, then z: two messages for every direction in which the box is divided, more where a rank's box
is thinner than `reach` = cutoff + skin. Features of message passing go straight from the owner of an atom to each rank
that needs it, all messages at once: 6 F numbers forward and 4 F of gradients back for each layer but the first
(docs/architecture.md). Ghosts come from geometry: a slab of thickness `reach` on each side, which grows with those of
the directions before. Ranks wait for the slowest; density is taken to be even, so nothing is lost by imbalance, and
computation and exchange do not overlap.

What is not known is asked for, or taken from a publication that is named. No constant of a GPU was measured by this
project: projections for GPUs rest on published programs, or on what you give.
"""

import argparse
import dataclasses
import itertools
import math
import os
import sys

import numpy as np

from mlff_tools.bench import profiles
from mlff_tools.model import modelfile
from mlff_tools.report import style

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

WATER = 0.1003  # atoms / A^3 at 1 g/cm3
GPUS = (8, 32, 128, 512, 1024, 4096, 10000)
ATOMS = (1e6, 1e7, 1e8, 1e9)


# ---- geometry ------------------------------------------------------------------------------------------------------


def factors(n):
    """All (a, b, c) with a b c = n."""
    for a in (k for k in range(1, n + 1) if n % k == 0):
        for b in (k for k in range(1, n // a + 1) if (n // a) % k == 0):
            yield a, b, n // a // b


def grid_of(ranks, box):
    """How LAMMPS divides a box: the grid whose parts have the smallest surface; of equal ones the first it tries."""

    def surface(grid):
        x, y, z = (edge / k for edge, k in zip(box, grid))
        return x * y + x * z + y * z

    best = None
    for grid in factors(ranks):
        if best is None or surface(grid) < surface(best) * (1 - 1e-12):
            best = grid
    return best


def halo(edges, grid, reach):
    """Of one rank: (volume whose ghosts arrive in messages, messages of an exchange). A direction that is not divided
    needs none: the rank copies images of what it has."""
    sent = messages = 0
    grown = list(edges)
    for axis in range(3):
        if grid[axis] > 1:
            sent += 2 * reach * math.prod(grown[k] for k in range(3) if k != axis)
            messages += 2 * math.ceil(reach / edges[axis] - 1e-12)
        grown[axis] = edges[axis] + 2 * reach
    return sent, messages


def others(edges, box, grid, reach):
    """Volume of what other ranks own within `reach` of a rank's box, each atom once however many images it has."""
    reached = (min(e + 2 * reach, b) if k > 1 else e for e, b, k in zip(edges, box, grid))
    return math.prod(reached) - math.prod(edges)


def ghosts(edges, density, reach):
    """Ghost atoms of a rank: all that lie within `reach` of its box."""
    return density * (math.prod(e + 2 * reach for e in edges) - math.prod(edges))


# ---- the model -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What a potential sends. Bytes of an atom, one entry for each exchange in a step: by LAMMPS, and straight from
    owners."""

    name: str
    reach: float  # A, cutoff + skin
    exchanges: tuple = (24, 24)
    features: tuple = ()
    reductions: int = 1  # over all ranks, in a step: whether neighbour lists are too old
    density: float = WATER

    @staticmethod
    def painn(features, layers, cutoff, skin, bytes_per_number=4, density=WATER):
        messages = (6 * features * bytes_per_number, 4 * features * bytes_per_number) * (layers - 1)
        name = f"PaiNN, {features} features, {layers} layers, cutoff {cutoff:g} A, skin {skin:g} A"
        return Pattern(name, cutoff + skin, (24, 24), messages, 2, density)  # 2: and whether a rank has failed

    @property
    def sends(self):
        parts = f"{sum(self.exchanges)} bytes per ghost in {len(self.exchanges)} exchanges"
        if self.features:
            parts += f", {sum(self.features)} bytes per atom of another rank in {len(self.features)}"
        return f"{parts}, {self.reductions} reductions"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Constants in seconds: of a step, an atom, a ghost, a message, a byte of a message."""

    overhead: float
    atom: float
    ghost: float
    latency: float
    byte: float


def terms(pattern, n_atoms, ranks, box=None):
    """Coefficients of the constants of a Machine in the time of a step. box: edges, default a cube."""
    edge = (n_atoms / pattern.density) ** (1 / 3)
    box = box or (edge, edge, edge)
    grid = grid_of(ranks, box)
    edges = [b / k for b, k in zip(box, grid)]
    density = n_atoms / math.prod(box)
    sent, messages = halo(edges, grid, pattern.reach)
    waits = len(pattern.exchanges) * messages + pattern.reductions * math.ceil(math.log2(ranks))
    waits += len(pattern.features) * (ranks > 1)
    n_ghosts = ghosts(edges, density, pattern.reach)
    direct = others(edges, box, grid, pattern.reach) * sum(pattern.features)
    return np.array([1.0, n_atoms / ranks, n_ghosts, waits, density * (sent * sum(pattern.exchanges) + direct)])


def step_seconds(machine, pattern, n_atoms, ranks, box=None):
    return float(terms(pattern, n_atoms, ranks, box) @ np.array(dataclasses.astuple(machine)))


def fit(rows, seconds, free=range(5)):
    """Machine whose constants are not negative and whose relative squared error is smallest: rows of terms(), measured
    seconds. Of all choices of constants that are zero the best is taken. free: which are fitted; the others are 0."""
    scaled = np.array(rows) / np.array(seconds)[:, None]
    best = None
    for used in (u for k in range(1, len(free) + 1) for u in itertools.combinations(free, k)):
        norms = np.linalg.norm(scaled[:, used], axis=0)
        if (norms == 0).any():
            continue
        x, _, rank, _ = np.linalg.lstsq(scaled[:, used] / norms, np.ones(len(scaled)), rcond=1e-10)
        if rank < len(used) or (x < 0).any():
            continue
        error = np.sum((scaled[:, used] @ (x / norms) - 1) ** 2)
        if best is None or error < best[0] * (1 - 1e-9) - 1e-24:
            best = (error, used, x / norms)
    constants = np.zeros(5)
    constants[list(best[1])] = best[2]
    return Machine(*constants)


# ---- published measurements ----------------------------------------------------------------------------------------
# (atoms, GPUs, steps/s, fitted). Runs that are not fitted are the check.

LAMMPS_ANI = {
    "name": "lammps-ani: ANI-2x, one network, water, A100",
    "source": "github.com/roitberg-group/lammps-ani, examples/benchmark/README.md, commit 34922acf",
    "pattern": Pattern("ANI, cutoff 5.1 A, skin 2 A", 7.1),
    "runs": (
        (50e3, 1, 65.4, True),
        (100e3, 1, 34.6, False),
        (300e3, 1, 12.07, False),
        (1e6, 1, 3.68, True),
        (100e3, 8, 177, False),
        (100e3, 32, 254, False),
        (1e6, 128, 168, True),
        (10e6, 128, 38.3, False),
        (51.2e6, 128, 8.27, False),
        (100e6, 80, 2.75, False),
        (100e6, 128, 4.355, True),
    ),
}
ALLEGRO = {
    "name": "Allegro, water, TF32, A100",
    "source": "Musaelian et al., Nat. Commun. 14, 579 (2023), and SC23; numbers as in the CSV of lammps-ani",
    "pattern": Pattern("strictly local, cutoff and skin assumed: 6 A and 1 A", 7.0),
    "runs": (
        (100e3, 4, 4.3, True),
        (100e3, 256, 118.9, True),
        (1e6, 64, 6.2, False),
        (1e6, 4096, 105, False),
        (100e6, 5120, 4.36, True),
    ),
}
PUBLISHED = (LAMMPS_ANI, ALLEGRO)


def fit_published(data):
    """Bytes and ghosts cannot be told apart where each ghost has the same bytes: the cost of a ghost has both in it."""
    chosen = [run for run in data["runs"] if run[3]]
    rows = [terms(data["pattern"], n, p) for n, p, _, _ in chosen]
    return fit(rows, [1 / rate for _, _, rate, _ in chosen], range(4))


def deviations(data, machine):
    """[(atoms, GPUs, steps/s published, steps/s of the model, relative difference, fitted)]"""
    rows = []
    for n, p, rate, fitted in data["runs"]:
        modelled = 1 / step_seconds(machine, data["pattern"], n, p)
        rows.append((n, p, rate, modelled, modelled / rate - 1, fitted))
    return rows


# ---- our own measurements ------------------------------------------------------------------------------------------


def read_measured(paths):
    """(pattern, rows of terms, seconds, what they are) of reports of `mlff scaling`, without ranks that shared
    processors."""
    rows, seconds, labels = [], [], []
    for path in paths:
        report = profiles.read_json(path)
        if report.get("format") != "mlff-scaling/1" or report.get("mode") not in ("strong", "weak"):
            raise SystemExit(f"projection.py: {path} is not a report of `mlff scaling strong` or `weak`")
        pattern = pattern_of(report)
        for row in report["rows"]:
            if row["oversubscribed"]:
                continue
            box = box_of(report, row)
            rows.append(terms(pattern, row["n_atoms"], row["ranks"], box))
            seconds.append(row["median_ms"] / 1000)
            labels.append((report["mode"], row["n_atoms"], row["ranks"]))
    if len(rows) < 4:
        raise SystemExit(f"projection.py: {len(rows)} runs are too few for a fit: give several boxes and ranks")
    return pattern, rows, seconds, labels


UNIT = 12.417126704414091  # A, edge of the 192 atoms of data.water64


def box_of(report, row):
    copies = [int(k) for k in row["box"].split("x")]
    if report["mode"] == "weak":
        grid = [int(k) for k in row["grid"].split(" x ")]
        copies = [c * g for c, g in zip(copies, grid)]
    return tuple(UNIT * c for c in copies)


def pattern_of(report):
    """Of the model file that the report names."""
    path = os.path.join(ROOT, "models", report["model"] + ".yaml")
    if not os.path.exists(path):
        raise SystemExit(f"projection.py: {path} is not there: its network says what is exchanged")
    model = modelfile.load_yaml(path)
    if model["architecture"] != "painn":
        return Pattern(model["name"], model["cutoff"] + report["context"]["skin"], reductions=2)
    network = model["painn"]
    return Pattern.painn(network["n_features"], network["n_interactions"], model["cutoff"], report["context"]["skin"])


# ---- output --------------------------------------------------------------------------------------------------------


def describe(machine):
    rate = f"bandwidth {1e-9 / machine.byte:.3g} GB/s" if machine.byte else "bytes free"
    return (
        f"overhead {1e3 * machine.overhead:.3g} ms per step, {1e6 * machine.atom:.4g} us per atom, "
        f"{1e6 * machine.ghost:.3g} us per ghost, latency {1e6 * machine.latency:.3g} us, {rate}"
    )


def check_text(data):
    machine = fit_published(data)
    lines = [
        f"\n{data['name']}",
        f"  source: {data['source']}",
        f"  {data['pattern'].name}",
        f"  fitted: {describe(machine)} (in the cost of a ghost)",
        f"  {'atoms':>10} {'GPUs':>6} {'published':>10} {'model':>8}  steps/s, difference",
    ]
    rows = deviations(data, machine)
    for n, p, rate, modelled, off, fitted in rows:
        mark = "  (fitted)" if fitted else ""
        lines.append(f"  {n:10.3g} {p:6d} {rate:10.4g} {modelled:8.4g}  {100 * off:+6.1f} %{mark}")
    worst = max((abs(r[4]) for r in rows if not r[5]), default=math.nan)
    lines.append(f"  largest difference of a run that was not fitted: {100 * worst:.1f} %")
    return "\n".join(lines)


def project(machine, pattern, most, atoms=ATOMS, gpus=GPUS):
    """[(atoms, ranks, steps/s, efficiency against the fewest that hold them)]; None where a rank would have more than
    `most` atoms, or less than one."""
    rows = []
    for n in atoms:
        first = None
        for p in gpus:
            if not 1 <= n / p <= most:
                rows.append((n, p, None, None))
                continue
            rate = 1 / step_seconds(machine, pattern, n, p)
            first = first or (p, rate)
            rows.append((n, p, rate, rate / first[1] * first[0] / p))
    return rows


def projection_text(rows, gpus):
    lines = ["steps/s (efficiency against the smallest number that the system fits into; -: does not fit)"]
    lines.append(f"  {'atoms':>8}" + "".join(f"{p:>16d}" for p in gpus))
    for n in dict.fromkeys(r[0] for r in rows):
        cells = ["-" if rate is None else f"{rate:.4g} ({100 * e:.0f} %)" for m, _, rate, e in rows if m == n]
        lines.append(f"  {n:8.0e}" + "".join(f"{c:>16}" for c in cells))
    return "\n".join(lines)


def atoms_text(n):
    """100k, 51.2M: a number of atoms as it is written into a picture."""
    return f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}k"


def plot_published(axis):
    for data, mark in zip(PUBLISHED, ("o", "s")):
        machine = fit_published(data)
        for n in dict.fromkeys(r[0] for r in data["runs"]):
            runs = [r for r in data["runs"] if r[0] == n]
            least, most = min(r[1] for r in runs), max(r[1] for r in runs)
            xs = sorted({least, most, *(2**k for k in range(14) if least < 2**k < most)})  # even grids
            (line,) = axis.plot(xs, [1 / step_seconds(machine, data["pattern"], n, p) for p in xs], ".-", markersize=3)
            for _, p, rate, fitted in runs:
                fill = line.get_color() if fitted else "none"
                axis.plot(p, rate, mark, color=line.get_color(), markerfacecolor=fill)
            axis.annotate(atoms_text(n), runs[-1][1:3], fontsize=7, xytext=(4, 3), textcoords="offset points")
    title = "Published (circles lammps-ani, squares Allegro;\nfilled: fitted) and the model (lines)"
    axis.set(xscale="log", yscale="log", xlabel="A100 GPUs", ylabel="steps/s", title=title)


def plot(path, projections):
    """Published points and the model's lines; projections: [(title, rows of project())]."""
    count = 1 + len(projections)
    with style.drawing(path, (4.6 * count, 4.2), columns=count) as axes:
        plot_published(axes[0])
        for axis, (title, rows) in zip(axes[1:], projections):
            for n in dict.fromkeys(r[0] for r in rows):
                good = [(p, rate) for m, p, rate, _ in rows if m == n and rate]
                if good:
                    axis.plot(*zip(*good), "o-", label=f"{atoms_text(n)} atoms")
            axis.set(xscale="log", yscale="log", xlabel="GPUs or ranks", ylabel="steps/s", title=title)
            axis.legend()


# ---- command line --------------------------------------------------------------------------------------------------

LINK_SOURCE = "25 GB/s, one InfiniBand HDR port of 200 Gb/s for each GPU, nominal"
PAINN_SOURCE = "PaiNN, 196 features, 4 layers, 5 A, 202,612 atoms of Al, one GH200: 674 katom-step/s (chemtrain-deploy)"


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--measured", nargs="+", metavar="REPORT", help="reports of `mlff scaling` to fit, instead of GPUs")
    p.add_argument("--us-per-atom", type=float, default=1e3 / 674, help=f"assumed; default: {PAINN_SOURCE}")
    p.add_argument("--overhead-ms", type=float, help="per step; default: that of lammps-ani, fitted")
    p.add_argument("--latency-us", type=float, help="per message; default: that of lammps-ani, fitted")
    p.add_argument("--bandwidth", type=float, default=25.0, metavar="GB/s", help=f"of messages; default: {LINK_SOURCE}")
    p.add_argument("--features", type=int, default=196, help="of PaiNN (default 196)")
    p.add_argument("--layers", type=int, default=4, help="of PaiNN (default 4)")
    p.add_argument("--cutoff", type=float, default=5.0, help="A (default 5)")
    p.add_argument("--skin", type=float, default=2.0, help="A (default 2)")
    p.add_argument("--bytes-per-number", type=int, default=4, help="of exchanged features (default 4)")
    p.add_argument("--most", type=float, default=1.25e6, help="atoms on a GPU; default 1.25e6: 1e8 on 80, as published")
    p.add_argument("--plot", metavar="FILE", help="write a picture, .svg or .png")
    return p


def given(args, machine):
    """The machine with what the command line says instead."""
    changes = {"atom": 1e-6 * args.us_per_atom, "byte": 1e-9 / args.bandwidth}
    if args.overhead_ms is not None:
        changes["overhead"] = 1e-3 * args.overhead_ms
    if args.latency_us is not None:
        changes["latency"] = 1e-6 * args.latency_us
    return dataclasses.replace(machine, **changes)


def show_measured(args):
    """Our own runs: fit, differences, and the projection to more ranks of that kind."""
    pattern, rows, seconds, labels = read_measured(args.measured)
    machine = fit(rows, seconds)
    print("Assumptions: ranks alike, even density, liquid water; messages cost what they cost between the measured")
    print("ranks, which share one machine. Between machines latency and bandwidth are others.")
    print(f"{pattern.name} sends {pattern.sends}")
    print(f"Fitted to {len(rows)} runs: {describe(machine)}")
    print(f"{'mode':>8} {'atoms':>8} {'ranks':>6} {'measured':>10} {'model':>9}  ms, difference")
    for (mode, n, p), row, took in zip(labels, rows, seconds):
        modelled = row @ np.array(dataclasses.astuple(machine))
        print(f"{mode:>8} {n:8d} {p:6d} {1e3 * took:10.3f} {1e3 * modelled:9.3f}  {100 * (modelled / took - 1):+.1f} %")
    if args.latency_us is not None:
        args.us_per_atom = 1e6 * machine.atom
        machine = given(args, machine)
        print(f"Projected with: {describe(machine)}")
    result = project(machine, pattern, math.inf)
    print("\n" + projection_text(result, GPUS))
    return [(f"{pattern.name.split(',')[0]}, measured constants", result)]


def show_published():
    for data in PUBLISHED:
        print(check_text(data))


def show_gpus(args):
    ani = fit_published(LAMMPS_ANI)
    painn = given(args, ani)
    pattern = Pattern.painn(args.features, args.layers, args.cutoff, args.skin, args.bytes_per_number)
    source = PAINN_SOURCE if args.us_per_atom == 1e3 / 674 else "given on the command line"
    print("Assumptions")
    print(f"  water of {WATER} atoms/A^3, even density, one rank on a GPU, at most {args.most:.3g} atoms on it")
    print(f"  A: as published: {LAMMPS_ANI['name']}; {describe(ani)}")
    print(f"     {LAMMPS_ANI['pattern'].name}; bytes are in the cost of a ghost")
    print(f"  B: {pattern.name}; {describe(painn)}")
    print(f"     time of an atom: {source}")
    link = LINK_SOURCE if args.bandwidth == 25 else "given on the command line"
    print(f"     bandwidth: {link}; overhead, ghost and latency: those of A unless given")
    print("     no constant of a GPU is a measurement of this project")
    print(f"     sends {pattern.sends}")
    show_published()
    projections = []
    for label, machine, what in (
        ("A: ANI-2x, one network, as published", ani, LAMMPS_ANI["pattern"]),
        (f"B: PaiNN, {args.us_per_atom:.3g} us/atom (assumed)", painn, pattern),
    ):
        rows = project(machine, what, args.most)
        print(f"\n{label}: " + projection_text(rows, GPUS))
        projections.append((label, rows))
    return projections


def main(argv=None):
    args = parser().parse_args(argv)
    positive = ("us_per_atom", "features", "layers", "cutoff", "most", "bytes_per_number", "bandwidth")
    for name in positive:
        if not getattr(args, name) > 0:
            raise SystemExit(f"projection.py: --{name.replace('_', '-')} must be positive, not {getattr(args, name)}")
    projections = show_measured(args) if args.measured else show_gpus(args)
    if args.plot:
        plot(args.plot, projections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
