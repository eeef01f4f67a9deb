"""What a step of PaiNN, ANI or Orb takes on a GPU, by a model: launches, machine code of their loops, bytes, latencies.

  model.py [LIBRARY] [--gpu H200] [--case NAME]     default: build/cuda/cuda/libmlff_cuda.a, the table of all cases
  model.py --case student-64                        that case kernel by kernel

A model, and no measurement: nothing here has run on a device. A kernel takes the longest of

  latency   a warp's own chain: a round to the L2 cache for each load that waits for another one, and the instructions
            of its loops (from the machine code: sass.py), ISSUE cycles each while the warp is alone on its scheduler;
            times the waves of blocks
  issue     instructions of all warps over what the schedulers of all multiprocessors issue
  memory    bytes over the bandwidth of DRAM, or of the L2 cache for what is read again and again

and NODE us for the kernel before it to end and this one to begin. Copies and memsets of a recorded step take COPY us,
its start and the wait for it LAUNCH us. Assumptions about devices are in DEVICES, about kernels where they are counted:
clocks and bandwidths of data sheets, latencies as published microbenchmarks have them, within a third. The bars are in
CASES; the exit code is 1 when a case misses its bar.
"""

import argparse
import dataclasses
import math
import os
import sys

import registers
import sass


@dataclasses.dataclass(frozen=True)
class Device:
    """multiprocessors; GHz; cycles to L2; TB/s of DRAM and of L2; code: whose machine code it runs."""

    sms: int
    clock: float
    l2_cycles: float
    dram: float
    l2: float
    code: str

    def is_small(self, n_atoms):
        """As mlff_cuda_is_small: operations are fused, and an atom is shared by several warps."""
        return n_atoms <= 16 * self.sms


DEVICES = {
    "A100": Device(108, 1.41, 230, 2.0, 4.0, "sm_80"),
    "H100": Device(132, 1.75, 260, 3.35, 5.5, "sm_90"),
    "H200": Device(132, 1.75, 260, 4.8, 5.5, "sm_90"),
}
ISSUE = 2.0  # cycles between instructions of a warp that is alone: some wait for the one before
REACHED = 0.8  # of the peaks of issue and of bandwidths
NODE, COPY, LAUNCH = 1.3, 1.8, 8.0  # us
BARRIER = 40  # cycles
SCHEDULERS = 4
WARP = 32
REAL = 4  # bytes


@dataclasses.dataclass
class Kernel:
    """One launch. loops: (instructions, trips, rounds to L2 in a trip, whether the loads are ahead) of a warp."""

    name: str
    warps: float
    loops: list
    rounds: int = 2  # to L2 before and after the loops
    barriers: int = 0
    dram: float = 0  # bytes
    l2: float = 0
    resident: int = 32  # warps on a multiprocessor at a time

    def cycles(self, device):
        """Of a warp that is alone on its scheduler."""
        total = self.rounds * device.l2_cycles + self.barriers * BARRIER
        for instructions, trips, rounds, ahead in self.loops:
            busy, wait = ISSUE * instructions, rounds * device.l2_cycles
            total += trips * (max(busy, wait) if ahead else busy + wait)
        return total

    def parts(self, device):
        """us of latency, issue and memory."""
        waves = math.ceil(self.warps / (device.sms * self.resident))
        instructions = self.warps * sum(n * trips for n, trips, _, _ in self.loops)
        per_us = 1e3 * device.clock
        return (
            waves * self.cycles(device) / per_us,
            instructions / (device.sms * SCHEDULERS * per_us * REACHED),
            max(self.dram / (1e6 * device.dram), self.l2 / (1e6 * device.l2)) / REACHED,
        )

    def time(self, device):
        return NODE + max(self.parts(device))


class Code:
    """Instructions of loops, from the library's machine code."""

    def __init__(self, found):
        self.found = found

    def loop(self, kernel, n=0):
        """Instructions of a kernel's n-th loop by multiply-adds."""
        return len(self.found[kernel][n])

    def sums(self, kernel):
        """Multiply-adds of a lane in the loop with most of them."""
        return sass.sums(self.found[kernel][0])

    def loop_of(self, kernel, wanted):
        """Instructions of the kernel's loop with so many multiply-adds."""
        return min(len(loop) for loop in self.found[kernel] if sass.sums(loop) == wanted)


# ---- what all models share -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class System:
    """atoms; candidates and edges of an atom, as in water: 0.1 atoms/A^3, a skin of 1 A."""

    atoms: int
    cutoff: float

    @property
    def edges(self):
        return 0.1 * 4 / 3 * math.pi * self.cutoff**3

    @property
    def candidates(self):
        return 0.1 * 4 / 3 * math.pi * (self.cutoff + 1) ** 3


def edge_kernels(s):
    """edges.cu: a warp for each atom, two passes over its candidates, and sums over all atoms."""
    trips = math.ceil(s.candidates / WARP)
    position = 24 * s.atoms
    count = Kernel("edge_count", s.atoms, [(60, trips, 2, False), (60, 1, 0, False)], 2)
    count.dram, count.l2 = position + 4 * s.candidates * s.atoms, 28 * s.candidates * s.atoms
    scan = Kernel("edge_scan", s.atoms / WARP, [(20, 16, 0, False)], 2, 40, 32 * s.atoms)
    fill = Kernel("edge_fill", s.atoms, [(80, trips, 2, False)], 3)
    fill.dram = position + (8 * s.candidates + 28 * s.edges) * s.atoms
    fill.l2 = 32 * s.candidates * s.atoms
    blocks = math.ceil(s.atoms / 256)
    total = [Kernel("edge_total", 8, [(30, 16 * math.ceil(blocks / 256), 0, False)], 2, 40)] if blocks > 1 else []
    return [count, scan, *total, fill]


def force_kernels(s, device):
    """forces.cu: warps own up to 32 atoms, lanes their edges and the candidates that end there."""
    per_warp = min(32, max(1, math.ceil(s.atoms / (32 * device.sms))))
    trips = per_warp * (math.ceil(s.edges / WARP) + math.ceil(s.candidates / WARP))
    forces = Kernel("forces", s.atoms / per_warp, [(60, trips, 2, False), (60, per_warp, 0, False)], 3, 2)
    forces.dram = (2 * 16 * s.edges + 8 * s.candidates + 24) * s.atoms
    forces.l2 = (3 * 16 * s.edges + 8 * s.candidates) * s.atoms
    parts = math.ceil(s.atoms / per_warp / 4)
    return [forces, Kernel("virial", 9 * 8, [(20, math.ceil(parts / 256), 1, False), (20, 1, 0, False)], 2, 1)]


def product(code, rows, n_in, n_out, mixed=False):
    """linear.cu for many rows: a block of two warps owns 64 x 64 numbers and copies the next step of inputs ahead."""
    name = "linear_mixed_kernel<0,1>" if mixed else "linear_kernel<0,8,1>"
    sums = rows * max(n_in, 32) * math.ceil(n_out / 32) * 32 / WARP  # of warps
    warps = math.ceil(rows / 64) * math.ceil(n_out / 64) * 2
    trips = sums / code.sums(name) / warps
    kernel = Kernel(f"product {n_in} x {n_out}", warps, [(code.loop(name), trips, 1, True)], 3, 4, resident=16)
    kernel.dram = rows * (n_in + n_out) * REAL
    return kernel


# ---- PaiNN -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Painn:
    """features, layers, width of the readout, elements in use, splines to the cutoff."""

    f: int
    layers: int
    readout: int
    elements: int = 2
    splines: int = 39

    def products(self):
        """Lists of (rows for an atom, n_in, n_out) between messages: forward of each layer, then backward."""
        f, m = self.f, self.elements * self.splines
        update = [(3, f, 2 * f), (1, 2 * f, f), (1, f, 3 * f)]
        context = [(1, f, f), (1, f, 3 * f)]
        back = [(1, 3 * f, f), (1, f, 2 * f), (3, 2 * f, f)]
        first, last = [(1, m + self.elements, f), (3, m, f)], [(1, f, self.readout), (1, self.readout, f)]
        groups = [[*(first if l == 0 else []), *update, *context] for l in range(self.layers - 1)]
        top = [*update[:2], (1, f, 2 * f), *last, (1, 2 * f, f), *back[1:]]
        groups.append([*(first if self.layers == 1 else []), *top])
        groups += [[(1, 3 * f, f), (1, f, f), *back] for _ in range(self.layers - 1)]
        groups[-1] += [(3, f, m), (1, f, m)]
        return groups


def painn_messages(code, net, s, small):
    """painn_message.cu: forward 4 channels a thread, backward a warp for each atom; of small systems, four."""
    f, n, e = net.f, s.atoms, s.edges
    per = 4 if f > 64 else 2 if f > 32 else 1
    shares = 4 if small else 1
    row = 6 * f * REAL
    line = 64 * e * n
    forward_loop = code.loop(f"message_kernel<0,{int(small)}>")  # two edges
    forward = Kernel("message", n * f / 4 / WARP * shares, [(forward_loop, math.ceil(e / 2 / shares), 1, False)], 3)
    forward.dram, forward.l2 = n * row * 3 + line, n * e * row + line
    back_loop = code.loop(f"message_backward_kernel<0,{per},{int(small)}>")
    chunks = math.ceil(f / (WARP * per))
    # an edge waits for its line, then for what it gathers, then for eight shuffles
    back = Kernel("message_backward", n * shares, [(back_loop + 60, chunks * math.ceil(e / shares), 2, False)], 4)
    back.resident = 12
    back.dram, back.l2 = n * (4 + 7 + 7) * f * REAL + line + 32 * e * n, n * e * 4 * f * REAL * 2
    return forward, back


def painn(code, net, s, device):
    """The kernels of a recorded step."""
    n, e, m = s.atoms, s.edges, net.elements * net.splines
    small = device.is_small(n)
    forward, back = painn_messages(code, net, s, small)
    moments_loop = code.loop("moments_kernel")  # four edges, which wait for the slot and for shared memory
    moments = Kernel("moments", n, [(moments_loop, math.ceil(e / 4), 1, False)], 3)
    moments.dram = n * (64 * e + 4 * m * REAL)
    moments_back_loop = code.loop("moments_backward_kernel")
    moments_back = Kernel("moments_backward", n * math.ceil(e / WARP), [(moments_back_loop, 1, 3, False)], 2)
    moments_back.dram = n * ((64 + 32) * e + 4 * m * REAL)
    radial = Kernel("radial", n * e / WARP, [(150, 1, 0, False)], 3, 0, n * e * (24 + 64))
    groups = net.products()
    nodes = [between(code, net, s, device, small, group) for group in groups]
    messages = [forward] * (net.layers - 1), [back] * (net.layers - 1)
    order = [*edge_kernels(s), radial, moments, *nodes[0]]
    for message, of in zip([*messages[0], *messages[1]], nodes[1:]):
        order += [message, *of]
    return [*order, moments_back, *force_kernels(s, device)]


def between(code, net, s, device, small, products):
    """The operations on atoms between two messages: one kernel of small systems, or one for each."""
    n, f = s.atoms, net.f
    mixes = 3 if len(products) > 5 else 2
    if not small:
        mix = Kernel("mix", n * f / WARP, [(60, 1, 0, False)], 2, 0, n * 14 * f * REAL)
        return [*(product(code, rows * n, n_in, n_out) for rows, n_in, n_out in products), *[mix] * mixes]
    per_block = min(8, math.ceil(n / device.sms))
    loops = [(60, mixes, 2, False)]
    for rows, n_in, n_out in products:  # 16 weights of four rows, or 32 of one, are loaded ahead
        at_once, ahead, sums = (1, 32, 64) if rows * per_block == 1 else (4, 16, 128)
        passes = math.ceil(math.ceil(rows * per_block / at_once) * n_out / 256)
        loops.append((code.loop_of("atoms_kernel", sums) / 2, math.ceil(n_in / 32) * (32 // ahead) * passes, 1, True))
    return [Kernel("atoms", 8 * math.ceil(n / per_block), loops, 2 * len(products), 3 * len(products))]


# ---- ANI -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ani:
    """Networks of water with ANI-2x: widths of H and O, numbers of the descriptor in use, members, near neighbours."""

    hydrogen: tuple = (128, 256, 192, 160)
    oxygen: tuple = (128, 192, 160, 128)
    members: int = 8
    near: float = 0.1 * 4 / 3 * math.pi * 3.5**3

    def layers(self):
        """(share of the atoms, n_in, n_out) forward and backward of all but the last layer, which is one column."""
        found = []
        for share, widths in ((2 / 3, self.hydrogen), (1 / 3, self.oxygen)):
            pairs = list(zip(widths, widths[1:]))
            found += [(share, *pair) for pair in pairs] + [(share, n_out, n_in) for n_in, n_out in reversed(pairs)]
        return found


def descriptors(code, net, s, small):
    """aev.cu: forward 32 triples at a time, backward a lane for each near neighbour; a warp for each atom, or four."""
    n, e, near, warps = s.atoms, s.edges, net.near, 4 if small else 1
    same, other = (near * 2 / 3, near / 3)  # hydrogen and oxygen
    triples = [math.ceil(t / WARP) for t in (same * (same - 1) / 2, same * other, other * (other - 1) / 2)]
    expand = code.loop(f"aev_forward_kernel<4,8,1,{warps}>")
    radial, slopes = (25, math.ceil(e), 0, False), (20 * 16, math.ceil(e / WARP), 1, False)
    find = (40, 2 * math.ceil(e / WARP), 1, False)
    gather = code.loop(f"aev_backward_kernel<4,8,1,{warps}>")
    others = math.ceil(near) - 1
    if small:  # the longest of four warps: the radial columns or the pairs of two species, while the first one looks
        forward = Kernel("aev_forward", 4 * n, [radial, (expand, max(triples), 0, False)], 4, 2)
        back = Kernel("aev_backward", 4 * n, [slopes, (gather, math.ceil(others / 4) + 1, 0, False)], 5, 4)
    else:
        forward = Kernel("aev_forward", n, [find, radial, (expand, sum(triples), 0, False)], 4)
        back = Kernel("aev_backward", n, [find, slopes, (gather, others, 0, False)], 5)
    for kernel in (forward, back):
        kernel.resident, kernel.dram = 16, n * (32 * e + 128 * REAL)
    return forward, back


def ani(code, net, s, device, mixed):
    """The kernels of a recorded step: whole networks of few atoms, or all atoms and members layer by layer."""
    n = s.atoms
    forward, back = descriptors(code, net, s, device.is_small(n))
    sum_kernel = Kernel("ani_sum", n * 4, [(69, 1, net.members, False)], 2, 0, n * 128 * REAL * net.members)
    if n * net.members <= 32 * device.sms:
        sums = sum(n_in * n_out for share, n_in, n_out in net.layers() if share > 0.5)
        loop = code.loop("ani_networks_kernel<8>", 1)  # eight rows of x and their weights
        blocks = (math.ceil(2 / 3 * n / 8) + math.ceil(n / 3 / 8)) * net.members
        trips = sum(math.ceil(n_in / 8) for share, n_in, _ in net.layers() if share > 0.5)
        networks = [Kernel("ani_networks", 8 * blocks, [(loop, trips, 1, True)], 8, trips + 20)]
        networks[0].l2 = blocks * sums * REAL
    else:
        batches = math.ceil(n * net.members / 65536)
        rows = n * net.members / batches
        networks = [product(code, share * rows, *widths, mixed) for share, *widths in net.layers()] * batches
    return [*edge_kernels(s), forward, *networks, sum_kernel, back, *force_kernels(s, device)]


# ---- Orb -------------------------------------------------------------------------------------------------------------


def orb(code, s, mixed, f=256, hidden=512, layers=15, neighbours=20, n_basis=20):
    """Orb-v2, 32768 edges at a time: products, and what reads and writes rows of edges between them."""
    n, e = s.atoms, s.atoms * neighbours
    upper = [(hidden, hidden), (hidden, f)]
    blocks = max(1, math.ceil(e / 32768))
    rows = e / blocks

    def edge_rows(name, width, rounds=2):
        return Kernel(name, rows, [(4 * width / WARP, 1, 0, False)], rounds, 0, rows * width * REAL)

    of_edges = [product(code, rows, n_in, n_out, mixed) for n_in, n_out in [(f, hidden), *upper]]
    of_edges += [edge_rows("gather", 4 * hidden), edge_rows("norm, gates and sums", 6 * f, 4)]
    encoder = [product(code, rows, n_in, n_out, mixed) for n_in, n_out in [(n_basis + 3, hidden), *upper]]
    of_atoms = [product(code, n, n_in, n_out, mixed) for n_in, n_out in [(f, hidden), (f, hidden)]]
    of_atoms += [product(code, n, n_in, n_out, mixed) for n_in, n_out in [(3 * f, hidden), *upper]]
    small = Kernel("concat, sums, norm", n, [(100, 1, 0, False)], 3, 0, 8 * n * f * REAL)
    return [*edge_kernels(s), *(encoder * blocks), *((of_edges * blocks + of_atoms + [small] * 3) * layers)]


# ---- cases -----------------------------------------------------------------------------------------------------------

STUDENT, TEACHER = Painn(64, 2, 32), Painn(128, 3, 64)


@dataclasses.dataclass(frozen=True)
class Case:
    """name, atoms, its kernels by code and device; unit us (a step) or M (10^6 atoms and steps/s) or us/atom; what is
    held on an H200."""

    name: str
    atoms: int
    kernels: object
    unit: str
    bar: float

    def value(self, step):
        return {"us": step, "M": self.atoms / step, "us/atom": step / self.atoms}[self.unit]

    def holds(self, step):
        value = self.value(step)
        return value >= self.bar if self.unit == "M" else value <= self.bar


def _painn(net, cutoff):
    return lambda code, device, n: painn(code, net, System(n, cutoff), device)


def _ani(mixed):
    return lambda code, device, n: ani(code, Ani(), System(n, 5.1), device, mixed)


def _orb(mixed):
    return lambda code, _, n: orb(code, System(n, 6.0), mixed)


CASES = (
    Case("student-64", 64, _painn(STUDENT, 4.25), "us", 82),
    Case("student-1k", 1000, _painn(STUDENT, 4.25), "us", 125),
    Case("student-1M", 1000000, _painn(STUDENT, 4.25), "M", 17.5),
    Case("painn-128-64", 64, _painn(TEACHER, 5.0), "us", 142),
    Case("painn-128-100k", 100000, _painn(TEACHER, 5.0), "M", 3.4),
    Case("ani-2x-24", 24, _ani(False), "us", 81),
    Case("ani-2x-300k", 300000, _ani(False), "M", 8.6),
    Case("ani-2x-300k-mixed", 300000, _ani(True), "M", 15),
    Case("orb-1k", 1000, _orb(False), "us/atom", 14),
    Case("orb-1k-mixed", 1000, _orb(True), "us/atom", 7),
)


def step(kernels, copies=5):
    """us of a recorded step on a device, given its kernels' times."""
    return LAUNCH + copies * COPY + sum(kernels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(registers.ROOT, "build", "cuda", "cuda", "libmlff_cuda.a")
    parser.add_argument("library", nargs="?", default=default)
    parser.add_argument("--gpu", choices=sorted(DEVICES), default="H200", help="of --case (default: H200)")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="one case, kernel by kernel")
    args = parser.parse_args()
    env = sass.tools()
    if env is None:
        print("cuobjdump and nvdisasm are wanted: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
        sys.exit(sass.SKIPPED)
    codes = {gpu: Code(sass.read(args.library, gpu, "float", env)) for gpu in {d.code for d in DEVICES.values()}}

    def kernels(case, device):
        return case.kernels(codes[device.code], device, case.atoms)

    if args.case:
        device, case = DEVICES[args.gpu], next(case for case in CASES if case.name == args.case)
        print(f"{case.name} on {args.gpu}, us by a model")
        print(f"{'kernel':24s}{'time':>8s}{'latency':>9s}{'issue':>8s}{'memory':>8s}")
        found = kernels(case, device)
        for kernel in found:
            latency, issue, memory = kernel.parts(device)
            print(f"{kernel.name:24s}{kernel.time(device):8.1f}{latency:9.1f}{issue:8.1f}{memory:8.1f}")
        print(f"{'step, with copies':24s}{step([k.time(device) for k in found]):8.1f}")
        return
    print(
        f"{'case':18s}{'kernels':>8s}{'unit':>9s}" + "".join(f"{name:>9s}" for name in DEVICES) + f"{'bar, H200':>11s}"
    )
    missed = []
    for case in CASES:
        steps = {name: step([k.time(d) for k in kernels(case, d)]) for name, d in DEVICES.items()}
        n = len(kernels(case, DEVICES["H200"]))
        cells = "".join(f"{case.value(us):9.3g}" for us in steps.values())
        print(f"{case.name:18s}{n:8d}{case.unit:>9s}{cells}{case.bar:11.3g}")
        if not case.holds(steps["H200"]):
            missed.append(
                f"{case.name}: {case.value(steps['H200']):.3g} {case.unit} on an H200, and the bar is {case.bar}"
            )
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
