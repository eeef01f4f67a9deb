"""What kernels take on a GPU, for model.py: devices, the time of a kernel, and the kernels that all models share.

A kernel takes the longest of

  latency   a warp's own chain: a round to the L2 cache for each load that waits for another one, and the instructions
            of its loops (from the machine code: sass.py), ISSUE cycles each while the warp is alone on its scheduler;
            times the waves of blocks
  issue     instructions of all warps over what the schedulers of all multiprocessors issue
  memory    bytes over the bandwidth of DRAM, or of the L2 cache for what is read again and again

and NODE us for the kernel before it to end and this one to begin, less where it starts early. Products of linear.cu and
of atoms.cu have their instructions in the chain: warps of a scheduler take turns there, and wait together. A step takes
its kernels, LAUNCH us for its start and the wait for it, a copy of positions, and the host's part.

Clocks and bandwidths are those of data sheets, the share of their peak that tensor cores reach by the instruction that
is used (sm_90: 62 %) is published. What is said to be from kernels or steps of an H200 is from
benchmarks/results/gpu-2026-11-28-h200-changes: durations of kernels by Nsight Compute, medians of recorded steps.
"""

import collections
import dataclasses
import functools
import math

import sass
import structures


@dataclasses.dataclass(frozen=True)
class Device:
    """multiprocessors; GHz; cycles of a round to L2; TB/s of DRAM and of L2; bytes of shared memory and cache of a
    multiprocessor; cycles of a scheduler's tensor core for 16 x 8 x 16 products; code: whose machine code it runs.

    A round has what leads to its address, too, and what else a cold kernel waits for. 600 cycles are from kernels of 63
    atoms on an H200 as they were, which are hardly more than rounds: edge_count 3.4 us, edge_fill 4.5, moments 3.5,
    ani_sum 3.2, collect 2.2, with 4, 6, 4, 3 and 3 of them; in some, loads waited for one another that are counted as
    one. A load alone takes 260, on an A100 230, whose rounds are longer in proportion: nobody measured them."""

    sms: int
    clock: float
    l2_cycles: float
    dram: float
    l2: float
    l1: float
    tensor: float
    code: str

    def is_small(self, n_atoms):
        """As mlff_cuda_is_small: operations are fused, and an atom is shared by several warps."""
        return n_atoms <= 16 * self.sms


DEVICES = {
    "A100": Device(108, 1.41, 530, 2.0, 4.0, 192e3, 8, "sm_80"),
    "H100": Device(132, 1.75, 600, 3.35, 5.5, 256e3, 6.4, "sm_90a"),
    "H200": Device(132, 1.75, 600, 4.8, 5.5, 256e3, 6.4, "sm_90a"),
}
ISSUE = 2.0  # cycles between instructions of a warp that is alone: some wait for the one before
REACHED = 0.8  # of the peaks of issue and of bandwidths
# us, of steps of an H200. Nsight Compute has 1.6 us in every kernel beside its work; the 208 kernels of Orb take 0.7 to
# 1.0 us less each in a step. Those of few blocks, which start early: 0.57 less (11 of the student 79.4 -> 73.2 us, 15
# of PaiNN 128/3 168.4 -> 158.9, 9 of ANI 95.5 -> 91.1). Positions by a kernel in place of a copy: 5.2 less, the mean of
# 7 systems. What steps of 63 atoms take beside these is LAUNCH (11.2 and 11.4 us); those of 1152 and 98304 atoms take
# HOST more for each atom (7 to 10 ns).
NODE, EARLY, COPY, LAUNCH, HOST = 0.8, 0.57, 6.7, 11.3, 0.009
EARLY_BLOCKS = 2  # of a multiprocessor: PDL_BLOCKS_PER_SM of launch.h
BUS = 55e3  # bytes/us from a GPU to its host
BARRIER = 40  # cycles
# Instructions of a warp for its 64 x 32 numbers of a product, with writes that wait: of one array, and where slopes are
# written or factors read, too. From tiles of 128 x 128 of `mixed` on an H200: 3 us (Orb, none), 4.8 (Orb, with an
# activation, which has taken 16 instructions less for a number since then), 10 (ANI, whose products wrote slopes then
# or read factors). Rows of edges, unmeasured: 35 more for four numbers, and for sixteen of them a round to L2.
FINISH, FINISH_TWO, FINISH_EDGES = 3000, 7000, 3800
# Times ISSUE for an instruction of kernels whose copies are ahead, barriers and waits: 46 us of ani_networks_kernel
# with 63 atoms on an H200, when threads had a quarter of 8 atoms, and tiles 16 rows for them. Since then nothing was
# measured.
STALLS = 1.4
# Cycles of a step of a product beside its instructions: copies that it waits for, a barrier, numbers that are split.
# From Orb on an H200: tiles of 128 x 128 took 13.1 us with 8 steps and 23.2 with 16, 1230 cycles of each are products.
# Those of fp32 are as of `mixed`: products of 1152 atoms of ANI, 28 to 42 us, come out within 12 % but for one. Since
# then copies to small tiles start three steps ahead, of which nothing is counted.
# Products of warpgroups had 630 by the same measurement, when copies started just before their use. Now they start up
# to three steps ahead, bring whole vectors, and come from tile to tile: STALLS is what they have, unmeasured.
PRODUCT_STEP = {"linear_kernel": 950, "linear_mixed_kernel": 950}
SCHEDULERS = 4
WARP = 32
REAL = 4  # bytes


@dataclasses.dataclass
class Kernel:
    """One launch. loops: (instructions, trips, rounds to L2 in a trip, whether the loads are ahead) of a warp;
    of_block: warps."""

    name: str
    warps: float
    loops: list
    rounds: int = 2  # to L2 before and after the loops
    barriers: int = 0
    dram: float = 0  # bytes
    l2: float = 0
    resident: int = 32  # warps on a multiprocessor at a time
    host: float = 0  # bytes written to the host's memory
    chain: float = 0  # cycles of a warp beside loops, rounds and barriers
    of_block: int = 4

    def cycles(self, device):
        """Of a warp that is alone on its scheduler."""
        total = self.chain + self.rounds * device.l2_cycles + self.barriers * BARRIER
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
            max(self.dram / (1e6 * device.dram), self.l2 / (1e6 * device.l2)) / REACHED + self.host / BUS,
        )

    def time(self, device):
        is_early = device.code == "sm_90a" and self.warps <= EARLY_BLOCKS * device.sms * self.of_block
        return NODE - (EARLY if is_early else 0) + max(self.parts(device))


class Code:
    """Instructions of loops, from the library's machine code. found: as sass.read returns; loops: of each kernel
    (multiply-adds, instructions), in the order of found."""

    def __init__(self, found):
        self.loops = {kernel: [(sass.sums(loop), len(loop)) for loop in loops] for kernel, loops in found.items()}

    def loop(self, kernel, n=0):
        """Instructions of a kernel's n-th loop by multiply-adds."""
        return self.loops[kernel][n][1]

    def sums(self, kernel):
        """Multiply-adds of a lane in the loop with most of them."""
        return self.loops[kernel][0][0]

    def loop_of(self, kernel, wanted):
        """Instructions of the kernel's loop with so many multiply-adds."""
        return min(length for sums, length in self.loops[kernel] if sums == wanted)


# ---- what all models share -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class System:
    """atoms, by default of water; candidates and edges of an atom, with a skin of 2 A."""

    atoms: int
    cutoff: float
    density: float = 0.1  # atoms/A^3

    @property
    def edges(self):
        return self.density * 4 / 3 * math.pi * self.cutoff**3

    @property
    def candidates(self):
        return self.density * 4 / 3 * math.pi * (self.cutoff + 2) ** 3


AT_ONCE = 4  # candidates or pairs of a lane, whose reads do not wait for one another


def edge_kernels(s, device):
    """edges.cu: a warp for each atom, two passes over its candidates, and sums over all atoms, of few in the second
    pass, which come while it reads where its row begins."""
    trips = math.ceil(s.candidates / WARP / AT_ONCE)
    position = 24 * s.atoms
    positions = Kernel("positions", 3 * s.atoms / WARP, [(10, 1, 0, False)], 2, host=position)
    count = Kernel("edge_count", s.atoms, [(60 * AT_ONCE, trips, 2, False), (60, 1, 0, False)], 2)
    count.dram, count.l2 = position + 4 * s.candidates * s.atoms, 28 * s.candidates * s.atoms
    fill = Kernel("edge_fill", s.atoms, [(80 * AT_ONCE, trips, 2, False)], 2)
    fill.dram = position + (8 * s.candidates + 28 * s.edges) * s.atoms
    fill.l2 = 32 * s.candidates * s.atoms
    if device.is_small(s.atoms):
        fill.loops.append((40, math.ceil(s.atoms / WARP / AT_ONCE), 0, False))
        return [positions, count, fill]
    blocks = math.ceil(s.atoms / 256)
    scan = Kernel("edge_scan", s.atoms / WARP, [(20, 16, 0, False)], 2, 40, 32 * s.atoms)
    total = Kernel("edge_total", 8, [(30, 16 * math.ceil(blocks / 256), 0, False)], 2, 40)
    return [count, scan, total, fill]


PIECE = 64  # bytes that DRAM gives for a number read at any place


def force_kernels(s, device):
    """forces.cu: warps own up to 32 atoms, lanes their edges and the candidates that end there, of which they read two
    beside an edge: a candidate, its edge, its gradient. Of small systems the last block adds up those of all, which
    waits for a fence, the counter and the parts, and forces go to the host."""
    per_warp = min(32, max(1, math.ceil(s.atoms / (32 * device.sms))))
    own = 2 if device.is_small(s.atoms) else 1  # edges of a lane at once
    trips = math.ceil(max(s.edges / own, s.candidates / own / 2) / WARP)
    loops = [((60 + 2 * 30) * own, per_warp * trips, 3, False), (80, per_warp, 1, False)]
    forces = Kernel("forces", s.atoms / per_warp, loops, 2, 2)
    forces.dram = (2 * 16 * s.edges + (8 + PIECE) * s.candidates + 24) * s.atoms
    forces.l2 = (3 * 16 * s.edges + 8 * s.candidates) * s.atoms
    parts = math.ceil(s.atoms / per_warp / 4)
    if device.is_small(s.atoms):
        forces.loops.append((60, 3 * math.ceil(parts / WARP / 4), 1, False))
        forces.rounds, forces.host = 4, 24 * s.atoms
        return [forces]
    results = Kernel("results", 11 * 8, [(20, math.ceil(parts / 256), 1, False), (20, 8, 0, False)], 2, 9)
    results.host = 24 * s.atoms
    return [forces, results]


@functools.lru_cache
def misses(cutoff, node, receivers, blocks, cache_bytes):
    """Share of the reads of neighbours, of `node` bytes each, that a cache of a multiprocessor does not have, whose
    least recently used goes first. It has so many blocks at a time, of receivers that follow one another and take an
    edge each in turn; blocks of a multiprocessor are far apart. Water of benchmarks/decks, in the order of its file."""
    length, atoms = structures.read_box("data.water64")
    cache, n_reads, n_missed = collections.OrderedDict(), 0, 0

    def neighbours(place, i):
        for j, other in enumerate(atoms):
            shifts = tuple(round((a - b) / length) for a, b in zip(atoms[i][1:], other[1:]))
            d = [b + s * length - a for a, b, s in zip(atoms[i][1:], other[1:], shifts)]
            if j != i and sum(x * x for x in d) < cutoff**2:
                yield place, j, shifts

    for generation in range(8):
        teams = [
            neighbours((generation, block), (generation * blocks + block) * receivers % len(atoms) + k)
            for block in range(blocks)
            for k in range(receivers)
        ]
        while teams:
            teams = [(team, key) for team in teams if (key := next(team, None))]
            for _, key in teams:
                n_reads, n_missed = n_reads + 1, n_missed + (key not in cache)
                cache[key] = True
                cache.move_to_end(key)
                if len(cache) > cache_bytes / node:
                    cache.popitem(last=False)
            teams = [team for team, _ in teams]
    return n_missed / n_reads


# Of products, the largest first: rows and columns of a tile, its warps, and how many are on a multiprocessor.
TILES = {"linear_kernel<0,8,1>": (64, 64, 2, 12), "linear_kernel<0,4,1>": (32, 32, 2, 16)}
MIXED_TILES = {
    "linear_mixed_kernel<0,128,128,1>": (128, 128, 8, 8),
    "linear_mixed_kernel<0,128,64,1>": (128, 64, 4, 8),
    "linear_mixed_kernel<0,64,64,1>": (64, 64, 4, 12),
    "linear_mixed_kernel<0,32,64,1>": (32, 64, 4, 16),
}
GROUPS_TILES = {
    "linear_groups_kernel<0,128,128,1>": (128, 128, 8, 8),
    "linear_groups_kernel<0,128,64,1>": (128, 64, 8, 16),
    "linear_groups_kernel<0,64,64,1>": (64, 64, 4, 8),
}


def tiles_of(height, width, of):
    return [math.ceil(rows / height) * math.ceil(n_out / width) for rows, _, n_out in of]


def fitting(device, of, mixed):
    """Name and tiles of the kernel that is taken: fitting and fitting_mixed of linear.cu."""
    if not mixed:
        large, small = TILES.items()
        return large if sum(tiles_of(64, 64, of)) >= 2 * device.sms else small
    # as fitting_mixed of linear.cu
    kernels, brought = (GROUPS_TILES, 48) if device.code == "sm_90a" else (MIXED_TILES, 16)

    def work(kernel):
        height, width = kernel[1][:2]
        if any(math.ceil(n_out / 64) * 64 % width for *_, n_out in of):
            return math.inf
        return math.ceil(sum(tiles_of(height, width, of)) / device.sms) * (height * width + brought * (height + width))

    return min(kernels.items(), key=work)


def products(code, device, name, of, mixed=False, finish=FINISH):
    """linear.cu: one launch for products of so many (rows, n_in, n_out), side by side. Blocks of a multiprocessor share
    its schedulers. A block does the sums of a step, then it waits for the next one."""
    kernel, (height, width, warps, resident) = fitting(device, of, mixed)
    tiles = tiles_of(height, width, of)
    of_warp, sums = height * width / warps, code.sums(kernel)
    trips = [of_warp * max(n_in, 32) / WARP / sums for _, n_in, _ in of]
    # the multiprocessor with most to do, in tiles of the longest's trips, and how many of them it has at a time
    most = math.ceil(sum(n * k for n, k in zip(tiles, trips)) / max(trips) / device.sms)
    at_once = min(most, resident / warps)

    def issue(blocks):  # cycles for an instruction of every warp
        return max(ISSUE, blocks * warps / SCHEDULERS / REACHED)

    def busy(blocks):  # for a step
        tensor = sums * sass.TENSOR_PRODUCTS * WARP / sass.SHAPES["16816"] * device.tensor if mixed else 0
        return max(issue(blocks) * code.loop(kernel), blocks * warps / SCHEDULERS * tensor)

    if kernel in GROUPS_TILES:
        step = max(busy(at_once), STALLS * issue(at_once) * code.loop(kernel))
    else:
        # numbers that go through registers are split behind a wait of all, others fill the waits of one another
        waits = PRODUCT_STEP[kernel.split("<")[0]]
        step = busy(at_once) + waits if kernel in MIXED_TILES else max(busy(at_once), busy(1) + waits)
    last = issue(at_once) * finish * of_warp / (64 * 32)
    made = Kernel(name, sum(tiles) * warps, [], 0, resident=sum(tiles) * warps, of_block=warps)
    made.chain = most / at_once * (max(trips) * step + last) + 3 * device.l2_cycles
    made.dram = REAL * sum(rows * (n_in + n_out) for rows, n_in, n_out in of)
    made.l2 = REAL * sum(n * (height + width) * n_in + rows * n_out for n, (rows, n_in, n_out) in zip(tiles, of))
    return made


def product(code, device, rows, n_in, n_out, mixed=False):
    return products(code, device, f"product {n_in} x {n_out}", [(rows, n_in, n_out)], mixed)


# Of atoms_kernel, in cycles: a step beside its sums; a chunk of weights beside the instructions that start its copies;
# of a multiprocessor four numbers of a row that all lanes of a warp read in shared memory. The first and the last one
# are from 63 and 1152 atoms of PaiNN 64/2 on an H200, whose kernels took 12.5, 15.1 and 13.6 us, and 29, 31.5 and 29.
# The second is from the day before, with chunks of 16 kB and 150 instructions. Rows went through the L2 cache then,
# a worker had a column of a whole sum, and nothing that is here since then was measured.
STEP, CHUNK, VECTOR = 400, 480, 3
MOST_CHUNK = 48 * 1024 // REAL
STARTING = (45, 5)  # instructions of a thread that copies: of a chunk, and of 512 of its weights
MIXING = 60  # instructions of a channel of a step that is no product
FINISHING = 40  # instructions of a number: activation and slope of some products, indices and writing of all
ADDING = 3  # the same for each slice of its sum
KEPT = 32  # numbers of an atom for each of its features, of rows in shared memory
SLICES = 16  # at most


def fused(code, device, n, f, mixes, of):
    """atoms.cu: products of so many (rows for an atom, n_in, n_out) of few atoms, and other steps on f channels."""
    per_block = min(16, math.ceil(n / device.sms))
    few, blocks = per_block <= 2, math.ceil(n / per_block)
    workers = 256 if few else 384

    def cycles(warps):  # for an instruction of all of them: a block has a multiprocessor, whose schedulers they share
        return max(ISSUE, warps / SCHEDULERS / REACHED)

    kernel = Kernel("atoms", blocks * (workers + 128) // WARP, [], 3, of_block=(workers + 128) // WARP)
    channels = per_block * f
    turns = math.ceil(channels / workers)
    kernel.chain = mixes * (STEP + turns * cycles(channels / turns / WARP) * MIXING + BARRIER)
    # what a block can have, beside steps, x and slices of one product; what is left is for weights
    room = (device.l1 - 29e3) / REAL - 6000 - KEPT * channels
    chunk = min(MOST_CHUNK, room // 4)
    for rows, n_in, n_out in of:
        n_rows, n_in, columns = rows * per_block, 4 * math.ceil(n_in / 4), 1 if n_out % 4 else 4
        at_once = 1 if n_rows == 1 else 4
        if not few and math.ceil(n_rows / at_once) * n_out / columns > workers:
            at_once = 8
        threads = math.ceil(n_rows / at_once) * n_out // columns
        passes = math.ceil(threads / workers)
        slices = max(1, min(SLICES, workers // threads, n_in // 4))
        warps = min(threads * slices, workers) / WARP
        chunks = math.ceil(n_in / (chunk // n_out // 4 * 4))
        loop = code.loop_of(f"atoms_kernel<{int(few)}>", 4 * at_once * columns)
        trip = max(cycles(warps) * loop, warps * (4 * columns + VECTOR * at_once))
        sums = math.ceil(n_in / 4 / chunks / slices) * trip
        copies = CHUNK + ISSUE * (STARTING[0] + STARTING[1] * n_in * n_out / 512 / chunks)
        numbers = n_rows * n_out
        turns = math.ceil(numbers / workers)
        finish = turns * cycles(min(numbers, workers) / WARP) * (FINISHING + ADDING * slices)
        # the next chunk is copied while one is used, and the first of a product before
        kernel.chain += max(STEP + 3 * BARRIER + finish + sums, copies) + (passes * chunks - 1) * max(sums, copies)
    kernel.l2 = blocks * REAL * sum(n_in * n_out for _, n_in, n_out in of)
    return kernel


# ---- steps -----------------------------------------------------------------------------------------------------------


def step(atoms, kernels, device):
    """us of a recorded step; the one copy is that of the positions of many atoms."""
    copy = 0 if device.is_small(atoms) else COPY + 24 * atoms / BUS
    return LAUNCH + HOST * atoms + copy + sum(kernel.time(device) for kernel in kernels)
