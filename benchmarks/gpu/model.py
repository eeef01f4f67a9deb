"""What a step of PaiNN, ANI, Orb or NequIP takes on a GPU, by a model: launches, machine code, bytes, latencies.

  model.py [LIBRARY] [--gpu H200] [--case NAME]     default: build/cuda/cuda/libmlff_cuda.a, the table of all cases
  model.py --case student-64                        that case kernel by kernel
  model.py --sass FILE                              the tables of sass.py as well, whose reading takes most of the time

A model; the table has what was measured on an H200 beside it, and how many times as long that takes. costs.py says what
a kernel and a step take, and of which devices. Assumptions about kernels stand where they are counted. The bars are in
CASES; the exit code is 1 when a case misses its bar.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
import sys

import registers
import sass
from costs import (
    DEVICES,
    FINISH,
    FINISH_EDGES,
    FINISH_TWO,
    ISSUE,
    REAL,
    STALLS,
    WARP,
    Code,
    Kernel,
    System,
    edge_kernels,
    force_kernels,
    fused,
    misses,
    product,
    products,
    step,
)

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
        """What is between messages, forward of each layer, then backward: how many steps that are no products, and a
        list of products, (rows for an atom, n_in, n_out)."""
        f, m = self.f, self.elements * self.splines
        update = [(3, f, 2 * f), (1, 2 * f, f), (1, f, 3 * f)]
        context = [(1, f, f), (1, f, 3 * f)]
        back = [(1, 3 * f, f), (1, f, 2 * f), (3, 2 * f, f)]
        first, last = [(1, m + self.elements, f), (3, m, f)], [(1, f, self.readout), (1, self.readout, f)]
        groups = [(2, [*(first if l == 0 else []), *update, *context]) for l in range(self.layers - 1)]
        top = [*update[:2], (1, f, 2 * f), *last, (1, 2 * f, f), *back[1:]]
        groups.append((6, [*(first if self.layers == 1 else []), *top]))
        groups += [(3, [(1, 3 * f, f), (1, f, f), *back]) for _ in range(self.layers - 1)]
        groups[-1][1].extend([(3, f, m), (1, f, m)])
        return groups


LINE = 75  # instructions that make the line of an edge
SHUFFLE = 30  # cycles, as published


def painn_messages(code, net, s, device):
    """painn_message.cu: forward 4 channels a thread, backward a warp for each atom; of small systems, four or eight."""
    f, n, e, small = net.f, s.atoms, s.edges, device.is_small(s.atoms)
    per = 4 if f > 64 else 2 if f > 32 else 1
    shares = 1 if not small else 8 if n <= 4 * device.sms else 4
    row, radial = 6 * f * REAL, (net.splines + 3) * 3 * f * REAL
    edge = 20 * e * n  # its vector and the node of the neighbour, of which a lane makes a line
    lines = (LINE, math.ceil(e / shares / (16 if f == 64 else WARP)), 1, False)
    forward_loop = (code.loop(f"message_kernel<0,{int(small)}>"), math.ceil(e / shares), 1, False)
    forward = Kernel("message", n * f / 4 / WARP * shares, [lines, forward_loop], 3)
    # blocks of many atoms share neighbours in the cache, beside which are lines in shared memory and radial functions
    missed = 1 if small else misses(s.cutoff, row, 256 * 4 // f, 2, device.l1 - 2 * 256 * 64 - radial)
    forward.dram, forward.l2 = n * row * 3 + edge, missed * n * e * row + edge
    back_loop = code.loop(f"message_backward_kernel<0,{per},{int(small)}>")
    chunks = math.ceil(f / (WARP * per))
    # the loop has the making of lines, once in 32 edges; an edge waits for what it gathers, then for eight shuffles
    trips = chunks * math.ceil(e / shares)
    back = Kernel("message_backward", n * shares, [(back_loop - LINE, trips, 1, False), (LINE, chunks, 1, False)], 4)
    back.chain = 8 * SHUFFLE * trips
    # of a block: four warps, each of which has lines of 32 edges in shared memory and four neighbours ahead
    blocks, of_block = (4 if small or per == 4 else 5), 4 * (32 * 64 + 4 * 4 * WARP * per * REAL)
    back.resident = 4 * blocks
    # adjoints of 128 features go past that cache
    missed = (
        1 if small or per == 4 else misses(s.cutoff, 4 * f * REAL, 4, blocks, device.l1 - blocks * of_block - radial)
    )
    back.dram, back.l2 = n * (4 + 7 + 7) * f * REAL + edge + 32 * e * n, missed * n * e * 4 * f * REAL
    return forward, back


def painn(code, net, s, device, mixed=False):
    """The kernels of a recorded step; mixed: of many atoms."""
    small = device.is_small(s.atoms)
    blocks = 1 if small else math.ceil(s.atoms / (33792 if mixed else 98304))
    block = dataclasses.replace(s, atoms=s.atoms / blocks)
    return [
        *edge_kernels(s, device),
        *painn_block(code, net, block, device, small, mixed) * blocks,
        *force_kernels(s, device),
    ]


def painn_block(code, net, s, device, small, mixed):
    """Of a block of atoms, between edges and forces."""
    n, e, m = s.atoms, s.edges, net.elements * net.splines
    forward, back = painn_messages(code, net, s, device)
    # sixteen edges of a warp, whose lines wait for vectors and species, then for slots; of small systems a block has
    # four warps
    moments_loop, warps = code.loop(f"moments_kernel<0,{int(small)}>"), 4 if small else 1
    moments = Kernel("moments", n * warps, [(moments_loop, math.ceil(e / 16 / warps), 2, False)], 2)
    moments.dram = n * (24 * e + 4 * m * REAL)
    moments_back_loop = code.loop("moments_backward_kernel")
    moments_back = Kernel("moments_backward", n * math.ceil(e / WARP), [(moments_back_loop, 1, 3, False)], 2)
    moments_back.dram = n * ((24 + 32) * e + 4 * m * REAL)
    groups = net.products()
    nodes = [between(code, net, s, device, small, mixed, group) for group in groups]
    messages = [forward] * (net.layers - 1), [back] * (net.layers - 1)
    order = [moments, *nodes[0]]
    for message, of in zip([*messages[0], *messages[1]], nodes[1:]):
        order += [message, *of]
    return [*order, moments_back]


def between(code, net, s, device, small, mixed, group):
    """The operations on atoms between two messages: one kernel of small systems, or one for each."""
    mixes, of = group
    n, f = s.atoms, net.f
    if small:
        return [fused(code, device, n, f, mixes, of)]
    mix = Kernel("mix", n * f / WARP, [(60, 1, 0, False)], 2, 0, n * 14 * f * REAL)
    return [*(product(code, device, rows * n, *widths, mixed) for rows, *widths in of), *[mix] * mixes]


# ---- ANI -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ani:
    """Networks of water with ANI-2x: widths of H and O, numbers of the descriptor in use, members, near neighbours."""

    hydrogen: tuple = (128, 256, 192, 160)
    oxygen: tuple = (128, 192, 160, 128)
    members: int = 8
    near: float = 0.1 * 4 / 3 * math.pi * 3.5**3

    def blocks(self, n, rows):
        """Of ani_networks_kernel, by its atoms of a block."""
        return (math.ceil(2 / 3 * n / rows) + math.ceil(n / 3 / rows)) * self.members

    def layers(self):
        """Forward and backward of all but the last layer, which is one column: (share of the atoms, n_in, n_out) of
        hydrogen and oxygen."""
        widths = list(zip(self.hydrogen, self.hydrogen[1:], self.oxygen, self.oxygen[1:]))
        back = [(n_out, n_in, other_out, other_in) for n_in, n_out, other_in, other_out in reversed(widths)]
        return [((2 / 3, *of[:2]), (1 / 3, *of[2:])) for of in [*widths, *back]]


def descriptors(code, net, s, small):
    """aev.cu: forward 32 triples at a time, backward a lane for each near neighbour; a warp for each atom, or four. A
    centre, its row, species and lengths of its edges at once, then their places by species, one after the other."""
    n, e, near, warps = s.atoms, s.edges, net.near, 4 if small else 1
    same, other = (near * 2 / 3, near / 3)  # hydrogen and oxygen
    triples = [math.ceil(t / WARP) for t in (same * (same - 1) / 2, same * other, other * (other - 1) / 2)]
    expand = code.loop(f"aev_forward_kernel<4,8,1,{warps}>")
    gather = code.loop(f"aev_backward_kernel<4,8,1,{warps}>")
    load, place = (40, math.ceil(e / WARP / warps), 0, False), (25, 2 * math.ceil(e / WARP), 0, False)
    radial, slopes = (17, math.ceil(2 / 3 * e), 0, False), (20 * 16, math.ceil(e / WARP), 0, False)
    others = math.ceil(near) - 1
    if small:  # the longest of four warps: the radial columns or the pairs of two species, while the first one looks
        slopes = (20 * 16, math.ceil(e / WARP / 3), 0, False)
        forward = Kernel("aev_forward", 4 * n, [load, place, radial, (expand, max(triples), 0, False)], 5, 3)
        back = Kernel("aev_backward", 4 * n, [load, slopes, (gather, math.ceil(others / 4) + 1, 0, False)], 5, 4)
    else:
        forward = Kernel("aev_forward", n, [load, place, place, radial, (expand, sum(triples), 0, False)], 5)
        back = Kernel("aev_backward", n, [load, place, slopes, (gather, others, 0, False)], 5)
    for kernel in (forward, back):
        kernel.resident, kernel.dram = 16, n * (32 * e + 128 * REAL)
    return forward, back


FROM_L2 = 40  # bytes of a cycle that copies bring to a multiprocessor
HALVING = 4  # instructions for each sum that a lane gets from another slice


def ani(code, net, s, device, mixed):
    """The kernels of a recorded step."""
    n = math.ceil(s.atoms * net.members / 65536)
    block = ani_block(code, net, dataclasses.replace(s, atoms=s.atoms / n), device, mixed)
    collect = Kernel("ani_collect", s.atoms / WARP, [(20 * net.members, 1, math.ceil(net.members / 8), False)], 2)
    return [*edge_kernels(s, device), *block * n, collect, *force_kernels(s, device)]


def ani_block(code, net, s, device, mixed):
    """Of a block of atoms: whole networks of few atoms, or all atoms and members layer by layer."""
    n = s.atoms
    forward, back = descriptors(code, net, s, device.is_small(n))
    # eight members' gradients are read at once; those of small systems by four warps
    columns = 128 / WARP / (4 if device.is_small(n) else 1)
    back.loops.insert(0, (8 * net.members, columns, math.ceil(net.members / 8), False))
    back.dram += n * 128 * REAL * (net.members - 1)
    if n * net.members <= 32 * device.sms:
        hydrogen = [pair for (_, *pair), _ in net.layers()]
        rows = 4
        while rows < 16 and net.blocks(n, rows) > device.sms:
            rows *= 2
        blocks = net.blocks(n, rows)
        depth = 16 if rows > 8 else 32  # rows of weights of a tile
        tile = STALLS * code.loop_of(f"ani_networks_kernel<{rows}>", depth * rows)
        loops = [
            (max(tile, depth * n_out * REAL / FROM_L2 / ISSUE), math.ceil(n_in / depth), 1, True)
            for n_in, n_out in hydrogen
        ]
        networks = [Kernel("ani_networks", 12 * blocks, loops, 8, sum(trips for _, trips, *_ in loops) + 20)]
        if rows <= 8:  # four slices add their sums of 4 columns: lanes get half of them, then a quarter
            networks[0].chain = len(hydrogen) * (ISSUE * HALVING * 3 * rows + 2 * SHUFFLE)
        networks[0].l2 = blocks * sum(n_in * n_out for n_in, n_out in hydrogen) * REAL
    else:
        layers = [[(share * n, *widths) for share, *widths in layer] * net.members for layer in net.layers()]
        # forward ones write one array, as does the last one; others read that of a layer, too
        finish = [FINISH] * (len(layers) // 2) + [FINISH_TWO] * (len(layers) // 2 - 1) + [FINISH]
        networks = [products(code, device, "layer", of, mixed, last) for of, last in zip(layers, finish)]
        numbers = n * net.members * net.hydrogen[-1]
        networks.insert(3, Kernel("ani_readout", n * net.members, [(48, 2, 1, False)], 3, 0, 2 * numbers * REAL))
    return [forward, *networks, back]


# ---- Orb -------------------------------------------------------------------------------------------------------------


def orb(code, s, device, mixed, f=256, hidden=512, layers=15, neighbours=20, n_basis=20):
    """Orb-v2, 32768 edges at a time: products, and what reads and writes rows of edges between them."""
    n, e = s.atoms, s.atoms * neighbours
    upper = [(hidden, hidden), (hidden, f)]
    blocks = max(1, math.ceil(e / 32768))
    rows = e / blocks

    # Three passes over f of an edge. Of senders, rows of all edges come at once, eight warps make factors of an edge
    # each, then threads take four channels of every fourth one, two at a time; those of receivers, whose edges are in
    # shared memory, four at a time.
    shares = 4 * 256 // f
    atoms, each = n / blocks, math.ceil(neighbours / shares)
    sums = [(290, math.ceil(neighbours / 8), 0, False), (113, math.ceil(each / 2), 0, False)]
    send = Kernel("send", 8 * atoms, sums, 5, 3, l2=3 * f * rows * REAL, resident=32)
    gather = code.loop("orb_receive_kernel<4>")
    receive = Kernel("receive", 8 * n, [(gather, math.ceil(each / 4), 1, False)], 4, 2, (f * rows + 2 * f * n) * REAL)
    receive.resident = 32
    # behind the sums of the first product come rows of receivers: senders' are in a cache of the multiprocessor
    first = products(code, device, f"product {f} x {hidden}, rows", [(rows, f, hidden)], mixed, FINISH_EDGES)
    first.l2 += hidden * rows * REAL
    of_edges = [first, *(product(code, device, rows, *widths, mixed) for widths in upper), send, receive]
    encoder = [product(code, device, rows, n_in, n_out, mixed) for n_in, n_out in [(n_basis + 3, hidden), *upper]]
    of_atoms = [products(code, device, "sender, receiver", [(n, f, hidden)] * 2, mixed)]
    of_atoms += [product(code, device, n, n_in, n_out, mixed) for n_in, n_out in [(3 * f, hidden), *upper]]
    # four numbers of a lane at a time: what it writes may be what it reads next
    concat = Kernel("concat", 3 * n, [(11, f / WARP / 4, 1, False)], 2, 0, 6 * n * f * REAL)
    norm = Kernel("norm", n, [(109, 1, 1, False)], 6, 0, 3 * n * f * REAL)
    return [*edge_kernels(s, device), *(encoder * blocks), *((of_edges * blocks + of_atoms + [concat, norm]) * layers)]


# ---- NequIP ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Nequip:
    """channels of each order in features; layers, of which the last one has scalars alone."""

    channels: tuple = (128, 64, 32, 32)
    layers: int = 4

    def paths(self, last=False):
        """(l1, l2, l3) of the messages of a layer: even ones."""
        orders = range(len(self.channels))
        triples = [(i, j, k) for i in orders for j in orders for k in ((0,) if last else orders)]
        return [(i, j, k) for i, j, k in triples if abs(i - j) <= k <= i + j and (i + j + k) % 2 == 0]

    def row(self, channels):
        return sum((2 * order + 1) * n for order, n in enumerate(channels))

    def gated(self, last=False):
        """Channels before the gates: scalars are gates, too."""
        return (self.channels[0],) if last else (sum(self.channels), *self.channels[1:])

    def gathered(self, order, last):
        """Channels of an order that messages bring."""
        return sum(self.channels[i] for i, _, k in self.paths(last) if k == order)


ORDERS = 4  # of the kernels' code
SLOTS, LANE_CHANNELS, BATCH = 4, 32, 16  # edges and channels of a warp at a time; edges whose couplings are shared
COUPLING_SUMS = 432  # multiply-adds of the loop that makes couplings, of all 34 paths that the code has


def nequip_map(code, device, n, name, widths):
    """One launch for the linear maps of all orders; widths: (n_in, n_out) of each."""
    return products(code, device, name, [(n * (2 * order + 1), *pair) for order, pair in enumerate(widths)])


def nequip_message(code, net, s, device, last):
    """nequip_message.cu, forward: a block for each atom, or several; a warp takes 32 channels of a path."""
    n, e, name = s.atoms, s.edges, "nequip_message_kernel"
    paths, widths = net.paths(last), [(2 * k + 1) for k in range(ORDERS)]
    loops, tasks, weights, gathered = [], 0, 0, 0
    for i, j, k in paths:
        size = widths[i] * (1 if j == 0 else widths[k])
        unrolled = 2 if widths[i] * widths[k] <= 5 else 1  # 16 multiply-adds for the weights
        chunks = net.channels[i] / LANE_CHANNELS
        loop = code.loop_of(name, unrolled * (16 + 4 * size))
        loops.append((loop, chunks * math.ceil(e / SLOTS) / unrolled, 2, False))
        tasks, weights = tasks + chunks, weights + net.channels[i]
        gathered += widths[i] * net.channels[i]
    blocks = max(1, min(math.ceil(2 * device.sms / n), math.ceil(tasks / 8)))
    couple = (code.loop_of(name, COUPLING_SUMS) * len(paths) / 34, math.ceil(e / BATCH) * blocks, 1, False)
    shares = 8 * blocks  # warps, which share out the tasks
    kernel = Kernel("message", n * shares, [(c, trips / shares, r, a) for c, trips, r, a in [*loops, couple]], 4, 6)
    kernel.resident = 16
    kernel.dram = n * (64 * e + REAL * (net.row(net.channels) + sum(widths[k] * net.channels[i] for i, _, k in paths)))
    kernel.l2 = n * e * REAL * (4 * weights + gathered)
    return kernel


def nequip_message_backward(code, net, s, last):
    """Backward: a warp takes four edges, all paths of an order at a time; then what neighbours get is added up."""
    n, e, name = s.atoms, s.edges, "nequip_message_backward_kernel"
    paths = net.paths(last)
    work = lambda triples: sum((2 * i + 1) * (2 * k + 1) for i, _, k in triples)
    every = [(i, j, k) for i in range(ORDERS) for j in range(ORDERS) for k in range(abs(i - j), min(i + j, 3) + 1)]
    of_orders = [n for sums, n in code.loops[name] if sums != COUPLING_SUMS][:ORDERS]  # instructions of all its paths
    loops = []
    for order, instructions in enumerate(reversed(of_orders)):
        of = [[path for path in some if path[0] == order] for some in (paths, every)]
        loops.append((instructions * work(of[0]) / work(of[1]), net.channels[order] / LANE_CHANNELS, 3, False))
    couple = (code.loop_of(name, COUPLING_SUMS) * len(paths) / 34 / 3, 1, 1, False)
    warps = n * math.ceil(e / SLOTS)
    back = Kernel("message_backward", warps, [*loops, couple], 4, 6, resident=12)
    row, weights = REAL * net.row(net.channels), sum(net.channels[i] for i, _, _ in paths)
    sums = REAL * sum((2 * k + 1) * net.channels[i] for i, _, k in paths)
    back.dram, back.l2 = n * (64 * e + e * row + sums), n * e * (4 * REAL * weights + row + sums)
    add = Kernel("neighbours", n * 6, [(code.loop("nequip_neighbours_kernel"), math.ceil(e / 4), 1, False)], 4)
    add.dram = n * (e * row + 2 * row)
    return [back, add]


def nequip(code, net, s, device):
    """The kernels of a recorded step, with radial functions from tables."""
    n, e, c = s.atoms, s.edges, net.channels
    chunks = [math.ceil(width / LANE_CHANNELS) for width in net.gated()]
    first = [(code.loop_of("nequip_first_kernel", sums), math.ceil(e / 8), 2, False) for sums in (40, 56, 78, 96)]
    of_first = sum(loop * trips * k for (loop, trips, _, _), k in zip(first, chunks)) / sum(chunks)
    forward = Kernel("first", n * sum(chunks), [(of_first / first[-1][1], first[-1][1], 2, False)], 3)
    forward.dram = n * (64 * e + REAL * net.row(net.gated()))
    kinds = zip((23, 56, 70, 84), chunks)
    of_back = [(code.loop_of("nequip_first_backward_kernel", sums), k, 2, False) for sums, k in kinds]
    back = Kernel("first_backward", n * math.ceil(e / SLOTS), of_back, 4, 2, n * (64 + 32) * e)
    radial = Kernel("radial", n * e / WARP, [(150, 1, 0, False)], 3, 0, n * e * (24 + 64))

    def gate(name, last=False):
        loops = [(800 if last else 1600, 1, 0, False)]
        return Kernel(name, n, loops, 4, 0, 2 * n * REAL * net.row(net.gated(last)))

    ahead, behind = [*edge_kernels(s, device), radial, forward, gate("gate")], []
    for layer in range(1, net.layers):
        last = layer == net.layers - 1
        gated = net.gated(last)
        maps = {"linear_1": [(width, width) for width in c], "skip": list(zip(c, gated))}
        maps["linear_2"] = [(net.gathered(order, last), width) for order, width in enumerate(gated)]
        there = {name: nequip_map(code, device, n, name, widths) for name, widths in maps.items()}
        home = {
            name: nequip_map(code, device, n, name, [pair[::-1] for pair in widths]) for name, widths in maps.items()
        }
        message = nequip_message(code, net, s, device, last)
        ahead += [there["linear_1"], message, there["linear_2"], there["skip"], gate("gate", last)]
        back_message = nequip_message_backward(code, net, s, last)
        behind[:0] = [gate("gate_backward", last), home["skip"], home["linear_2"], *back_message, home["linear_1"]]
    readout = Kernel("readout", n, [(80, 1, 0, False)], 3)
    return [*ahead, readout, *behind, gate("gate_backward"), back, *force_kernels(s, device)]


# ---- cases -----------------------------------------------------------------------------------------------------------

STUDENT, TEACHER = Painn(64, 2, 32), Painn(128, 3, 64)


@dataclasses.dataclass(frozen=True)
class Case:
    """name, atoms, its kernels by code and device; unit us (a step) or M (10^6 atoms and steps/s) or us/atom; what is
    held by the model of an H200; the network, with about as many atoms, that MEASURED has, and which of its versions is
    next to this code; OLD: that of BEFORE."""

    name: str
    atoms: int
    kernels: object
    unit: str
    bar: float
    network: str
    measured_atoms: int
    version: str

    def of(self, codes, device, atoms=None):
        """Kernels by the code of devices."""
        return self.kernels(codes[device.code], device, atoms or self.atoms)

    def value(self, step, atoms=None):
        n = atoms or self.atoms
        return {"us": step, "M": n / step, "us/atom": step / n}[self.unit]

    def measured(self, rows):
        """us of the recorded step among rows."""
        precision = "mixed" if self.name.endswith("-mixed") else "fp32"
        key = {"model": self.network, "n_atoms": self.measured_atoms, "precision": precision, "device": "cuda"}
        key["version"] = self.version
        rounds = [ms for row in rows if all(row[k] == v for k, v in key.items()) for ms in row["median_ms"]]
        return 1e3 * statistics.median(rounds)


def measurements():
    """Rows of MEASURED, and those of recorded steps of BEFORE."""
    with open(os.path.join(RESULTS, MEASURED + ".json"), encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    with open(os.path.join(RESULTS, BEFORE + ".json"), encoding="utf-8") as f:
        time = json.load(f)["time"]
    for row in time["cases"] + time["cases_2"]:
        if row["graph"] == row["fuse"] == "on" and row["replicas"] == 1:
            rows.append({**row, "version": OLD, "median_ms": [row["median_ms"]]})
    return rows


def _painn(net, cutoff, mixed=False):
    return lambda code, device, n: painn(code, net, System(n, cutoff), device, mixed)


def _ani(mixed):
    return lambda code, device, n: ani(code, Ani(), System(n, 5.1), device, mixed)


def _orb(mixed):
    return lambda code, device, n: orb(code, System(n, 6.0), device, mixed)


# Silicon has half the atoms of water in a volume.
def _nequip(code, device, n):
    silicon = System(n, 6.0, 0.05)
    return nequip(code, Nequip(), silicon, device)


RESULTS = os.path.join(registers.ROOT, "benchmarks", "results")
MEASURED, BEFORE, OLD = "gpu-2026-11-28-h200-changes", "gpu-2026-11-27-h200", "2744f7d"
WATER, WATER_128, ANI_2X, ORB = "water-benzene-student", "water-benzene-teacher", "random-ani2x-8", "random-orb-v2"
NEQUIX, BLOCKS = "nequix-oam-1-pft", "env33792/8192"
CASES = (
    Case("student-64", 64, _painn(STUDENT, 4.25), "us", 59, WATER, 63, "pdlpos"),
    Case("student-1k", 1000, _painn(STUDENT, 4.25), "us", 111, WATER, 1152, "pos"),
    Case("student-1M", 1000000, _painn(STUDENT, 4.25), "M", 15.6, WATER, 943296, OLD),
    Case("student-1M-mixed", 1000000, _painn(STUDENT, 4.25, True), "M", 18.5, WATER, 943296, OLD),
    Case("painn-128-64", 64, _painn(TEACHER, 5.0), "us", 121, WATER_128, 63, "pdlpos"),
    Case("painn-128-100k", 100000, _painn(TEACHER, 5.0), "M", 4.15, WATER_128, 98304, "bwd4"),
    Case("painn-128-100k-mixed", 100000, _painn(TEACHER, 5.0, True), "M", 5.5, WATER_128, 98304, BLOCKS),
    Case("ani-2x-24", 24, _ani(False), "us", 61.5, ANI_2X, 24, "pdlpos"),
    Case("ani-2x-300k", 300000, _ani(False), "M", 6.2, ANI_2X, 98304, "H"),
    Case("ani-2x-300k-mixed", 300000, _ani(True), "M", 10.4, ANI_2X, 98304, BLOCKS),
    Case("orb-1k", 1000, _orb(False), "us/atom", 12.3, ORB, 1152, "H"),
    Case("orb-1k-mixed", 1000, _orb(True), "us/atom", 4.0, ORB, 1152, "wg"),
    Case("nequix-64", 64, _nequip, "us", 487, NEQUIX, 64, "H"),
    Case("nequix-10k", 10000, _nequip, "us/atom", 2.3, NEQUIX, 4096, OLD),
)


def print_case(case, kernels, gpu):
    device = DEVICES[gpu]
    print(f"{case.name} on {gpu}, us by a model")
    print(f"{'kernel':24s}{'time':>8s}{'latency':>9s}{'issue':>8s}{'memory':>8s}")
    for kernel in kernels:
        latency, issue, memory = kernel.parts(device)
        print(f"{kernel.name:24s}{kernel.time(device):8.1f}{latency:9.1f}{issue:8.1f}{memory:8.1f}")
    print(f"{'step, with copies':24s}{step(case.atoms, kernels, device):8.1f}")


def print_table(codes):
    """All cases, by the code of devices; what is said of those that miss their bar."""
    gpus = "".join(f"{name:>9s}" for name in DEVICES)
    print(f"{'case':20s}{'kernels':>8s}{'unit':>9s}{gpus}{'bar, H200':>11s}{'measured':>10s}{'/ model':>9s}  version")
    missed, rows, h200 = [], measurements(), DEVICES["H200"]
    for case in CASES:
        values = {name: case.value(step(case.atoms, case.of(codes, d), d)) for name, d in DEVICES.items()}
        cells, here = "".join(f"{value:9.3g}" for value in values.values()), values["H200"]
        us, n = case.measured(rows), case.measured_atoms
        measured, longer = case.value(us, n), us / step(n, case.of(codes, h200, n), h200)
        start = f"{case.name:20s}{len(case.of(codes, h200)):8d}{case.unit:>9s}{cells}{case.bar:11.3g}"
        print(f"{start}{measured:10.3g}{longer:9.2f}  {case.version}")
        if here < case.bar if case.unit == "M" else here > case.bar:
            missed.append(f"{case.name}: {here:.3g} {case.unit} on an H200, and the bar is {case.bar}")
    print(f"measured: on an H200; / model: us by us of so many atoms. Versions are those of {MEASURED}")
    print(f"that are next to this code; {OLD} is that of {BEFORE}.")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(registers.ROOT, "build", "cuda", "cuda", "libmlff_cuda.a")
    parser.add_argument("library", nargs="?", default=default)
    parser.add_argument("--gpu", choices=sorted(DEVICES), default="H200", help="of --case (default: H200)")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="one case, kernel by kernel")
    parser.add_argument("--sass", metavar="FILE", help="write the tables of sass.py there, and hold its bars as well")
    args = parser.parse_args()
    env = sass.tools()
    if env is None:
        print("cuobjdump and nvdisasm are wanted: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
        sys.exit(sass.SKIPPED)
    loops = {gpu: sass.read(args.library, gpu, "float", env) for gpu in sorted({d.code for d in DEVICES.values()})}
    codes = {gpu: Code(found) for gpu, found in loops.items()}

    if args.case:
        case = next(case for case in CASES if case.name == args.case)
        print_case(case, case.of(codes, DEVICES[args.gpu]), args.gpu)
        return
    missed = print_table(codes)
    if args.sass:
        with open(args.sass, "w", encoding="utf-8") as f:
            for gpu, found in loops.items():
                f.write("\n".join([gpu, *sass.table(found), ""]))
                missed += [f"{gpu}: {text}" for text in sass.missed(found)]
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
