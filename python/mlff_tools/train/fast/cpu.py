"""Fast training of `painn` on a CPU: the message in C (message.c), the dense parts in PyTorch, one core.

Differentiating forces with respect to the weights needs second derivatives only along one direction. With the residual
dF = F - F_label of every atom, the gradient of the force loss is

    sum dF . dF/dtheta  =  - d/de  [ dE/dtheta at x + e dF ]  at e = 0,

taken here as a central difference of two ordinary weight gradients at displaced positions. A residual of the virial
is a strain in the same displacement, and residuals of energies are weights of the atoms in the same two passes, so that
all terms of losses.py cost no more than the forces. With displacements of DISPLACEMENT A on average in each frame, the
truncation is of relative order (DISPLACEMENT / spline spacing)^2 / 6, some 1e-5. Where a
network is still far off, it is larger: for frames with bent molecules, gradients of a teacher with 0.008 A were at
cosines of 0.2 to 0.7 to the exact ones, and the teacher never learnt them; with 0.002 A 0.96 to 1, with 0.0005 A 0.98
to 1, and rounding is no issue yet. A step therefore is one pass for energies and forces, and two passes for weights,
all of first order.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig

import numpy as np
import torch

from ...model.modelfile import ModelError
from .. import losses
from ..frames import EXTRA, OF_ATOM
from ..networks import clamp, edge_virials

DISPLACEMENT = 0.001  # A, root mean square
# DISPLACEMENTs of an atom; residuals beyond count with this size, and no atom is pushed to where none ever was.
LARGEST = 4.0
FLAGS = [
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-fPIC",
    "-shared",
]


def available():
    """Whether the message can be compiled here."""
    return shutil.which("cc") is not None


def processor():
    """What -march=native goes by: two processors of one name may have different instructions."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            lines = sorted({line for line in f if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        lines = []
    return "".join(lines) or platform.processor()


def library(name, sizes, folder, flags=()):
    """The compiled file `name` of this folder, with -Dkey=value for `sizes`. It is kept in `folder`, under a name of
    source, sizes and processor."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    defines = [f"-D{k}={v}" for k, v in sizes.items()]
    with open(source, "rb") as f:
        key = hashlib.sha256(f.read() + repr((FLAGS, flags, defines, processor())).encode()).hexdigest()[:12]
    path = os.path.join(folder, f"{name[:-2]}-{sysconfig.get_platform()}-{key}.so")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        done = subprocess.run(
            ["cc", *FLAGS, *flags, *defines, source, "-o", part, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ModelError(f"cc could not compile {source}: {done.stderr[-500:]}")
        os.replace(part, path)
    return ctypes.CDLL(path)


class _Edges(ctypes.Structure):
    _fields_ = [(k, ctypes.c_void_p) for k in ("row", "nbr", "m", "u", "c", "dc")]


def _pointer(tensor):
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


class Geometry:
    """Edges of a batch as message.c wants them; `gradient` [E, 3] collects dE/d(vector) when `wanted`."""

    def __init__(self, row, nbr, vectors, n_basis, cutoff, wanted):
        r = vectors.norm(dim=1)
        h = cutoff / n_basis
        # m is a row that C reads: where training has diverged, NaN must not become one outside.
        t = (r / h).nan_to_num(nan=n_basis + 0.5).clamp_max(n_basis + 0.5)
        m = t.floor()
        s = (t - m).unsqueeze(1)
        a, s2 = 1 - s, s * s
        self.row, self.nbr, self.m = row, nbr, m.int()
        self.u = (vectors / r.unsqueeze(1)).contiguous()
        self.c = torch.cat([a * a * a, 3 * s2 * s - 6 * s2 + 4, -3 * s2 * s + 3 * s2 + 3 * s + 1, s2 * s], 1) / 6
        self.dc = torch.cat([-3 * a * a, 9 * s2 - 12 * s, -9 * s2 + 6 * s + 3, 3 * s2], 1) / (6 * h)
        self.inverse_r = 1 / r
        self.gradient = torch.zeros_like(vectors) if wanted else None
        self.edges = _Edges(*(x.data_ptr() for x in (row, nbr, self.m, self.u, self.c, self.dc)))


class Message(torch.autograd.Function):
    """dq [N, F], dv [N, 3, F] of x [N, width], v [N, 3, F] or None, rows R [n_rows, width]; see message.c."""

    @staticmethod
    def forward(ctx, x, v, rows, geometry, lib):
        n, width = x.shape
        f = width // (2 if v is None else 3)
        x, v, rows = x.contiguous(), None if v is None else v.contiguous(), rows.contiguous()
        dq, dv = x.new_empty(n, f), x.new_empty(n, 3, f)
        lib.message_forward(
            ctypes.byref(geometry.edges),
            ctypes.c_int64(0),
            ctypes.c_int64(n),
            width,
            _pointer(rows),
            _pointer(x),
            _pointer(v),
            _pointer(dq),
            _pointer(dv),
        )
        ctx.save_for_backward(x, rows, *([] if v is None else [v]))
        ctx.geometry, ctx.lib = geometry, lib
        return dq, dv

    @staticmethod
    def backward(ctx, gq, gv):
        x, rows, *rest = ctx.saved_tensors
        v, geometry = rest[0] if rest else None, ctx.geometry
        gx, gv_in = torch.empty_like(x), None if v is None else torch.empty_like(v)
        g_rows = torch.zeros_like(rows) if ctx.needs_input_grad[2] else None
        edge = torch.empty_like(geometry.gradient) if geometry.gradient is not None else None
        gq, gv = gq.contiguous(), gv.contiguous()
        ctx.lib.message_backward(
            ctypes.byref(geometry.edges),
            ctypes.c_int64(0),
            ctypes.c_int64(len(x)),
            x.shape[1],
            _pointer(rows),
            _pointer(x),
            _pointer(v),
            _pointer(gq),
            _pointer(gv),
            _pointer(geometry.inverse_r),
            _pointer(gx),
            _pointer(gv_in),
            _pointer(g_rows),
            _pointer(edge),
        )
        if edge is not None:
            geometry.gradient += edge
        return gx, gv_in, g_rows, None, None


class Batch:
    """Frames put together: species [N], frame [N], forces [N, 3], energy and n_atoms [B], row, nbr, vectors, centre and
    the labels frames.EXTRA."""

    def __init__(self, network, parts):
        species, frame, forces, energy, n_atoms, row, nbr, vectors = ([] for _ in range(8))
        extra = {name: [] for name in EXTRA}
        atoms = edges = frames = 0
        for c, index in parts:
            for k in index.tolist():
                a, b = c.first_edge[k], c.first_edge[k + 1]
                species.append(c.species)
                frame.append(torch.full((c.n_atoms,), frames))
                forces.append(c.forces[k])
                energy.append(c.energy[k])
                row.append(c.rows[k][:-1] + edges)
                nbr.append(c.nbr[a:b] + atoms)
                vectors.append(c.edge_vectors[a:b])
                n_atoms.append(float(c.n_atoms))
                for name in EXTRA:
                    extra[name].append(getattr(c, name)[k])
                atoms, edges, frames = atoms + c.n_atoms, edges + int(b - a), frames + 1
        row.append(torch.tensor([edges]))
        self.species, self.frame, self.forces = torch.cat(species), torch.cat(frame), torch.cat(forces)
        self.energy, self.n_atoms = torch.stack(energy), torch.tensor(n_atoms)
        for name in EXTRA:
            setattr(self, name, (torch.cat if name in OF_ATOM else torch.stack)(extra[name]))
        self.row, self.nbr, self.vectors = torch.cat(row), torch.cat(nbr), torch.cat(vectors)
        self.centre = torch.repeat_interleave(torch.arange(atoms), self.row[1:] - self.row[:-1])
        self.i, self.j = self.centre, self.nbr
        clamp(network, self)


def prepare(frame_class, cutoff):
    """Adds unpadded neighbor lists to a frames.FrameClass: rows [F][n + 1], nbr, edge_vectors, first_edge [F + 1]."""
    keep = frame_class.vectors.norm(dim=2) < 1.5 * cutoff
    frame_class.first_edge = np.concatenate([[0], np.cumsum(keep.sum(1).numpy())])
    frame_class.nbr, frame_class.edge_vectors = frame_class.j[keep], frame_class.vectors[keep]
    frame_class.rows = []
    for i, k in zip(frame_class.i, keep):
        count = torch.bincount(i[k].long(), minlength=frame_class.n_atoms)
        frame_class.rows.append(torch.cat([torch.zeros(1, dtype=torch.long), torch.cumsum(count, 0)]))


class FastPaiNN:
    """The network of networks.PaiNN, with the same parameters."""

    def __init__(self, network, folder):
        self.network, self.batch = network, functools.partial(Batch, network)
        self.lib = library("message.c", {"F": network.f}, folder)

    def node_energies(self, p, species, geometry, with_weights):
        """Energies of the atoms [N]; without weights in the graph the embedding is its leaf."""
        q = p["embedding"].index_select(0, species)

        def message(l, x, q, mu):
            rows = torch.nn.functional.pad(p[f"filter.{l}.weight"][: x.shape[1]].t(), (0, 0, 0, 5))
            dq, dv = Message.apply(x, mu, rows, geometry, self.lib)
            return q + dq, dv if mu is None else mu + dv

        return self.network.layers(p, q if with_weights else q.detach().requires_grad_(), message)

    def _geometry(self, batch, vectors, wanted):
        return Geometry(batch.row, batch.nbr, vectors, self.network.n_basis, self.network.cutoff, wanted)

    def evaluate(self, p, batch):
        """losses.outputs of a batch, without weights in the graph."""
        p = {k: v.detach() for k, v in p.items()}
        geometry = self._geometry(batch, batch.seen, True)
        nodes = self.node_energies(p, batch.species, geometry, False)
        nodes.sum().backward()
        nodes, g = nodes.detach(), batch.own(geometry.gradient)
        energies = torch.zeros(len(batch.energy)).index_add(0, batch.frame, nodes)
        forces = torch.zeros(len(nodes), 3).index_add(0, batch.centre, g).index_add(0, batch.nbr.long(), -g)
        virials = edge_virials(g, batch.vectors, batch.frame[batch.centre], len(energies))
        return losses.outputs(*(x.unsqueeze(0) for x in (energies, forces, virials, nodes)))

    def prepare(self, frame_class):
        """Adds to a frames.FrameClass what a step needs."""
        prepare(frame_class, self.network.cutoff)

    def gradient(self, p, batch, keep, weights, limits):
        """Gradient of losses.loss by each parameter (list), and its terms."""
        out = self.evaluate(p, batch)
        slopes, terms = gradients(out, batch, keep, weights, limits)
        vectors, step = displaced(slopes, batch)
        vectors = batch.own(vectors)
        by_node = 0.5 * (slopes.nodes[0] + slopes.energies[0][batch.frame])
        total = None
        for sign in (1.0, -1.0):
            geometry = self._geometry(batch, batch.seen + sign * vectors, False)
            nodes = self.node_energies(p, batch.species, geometry, True)
            weight = by_node + (sign * 0.5 / step)[batch.frame]
            part = torch.autograd.grad((nodes * weight).sum(), list(p.values()), materialize_grads=True)
            total = part if total is None else [a + b for a, b in zip(total, part)]
        return total, terms


def gradients(out, batch, keep, weights, limits):
    """losses.outputs with the gradient of the loss by each output, and the terms of the loss."""
    leaves = [x.detach().requires_grad_() for x in (out.energies, out.forces, out.virials, out.nodes)]
    with torch.enable_grad():
        total, terms = losses.loss(losses.outputs(*leaves), batch, keep, weights, limits)
        found = torch.autograd.grad(total, leaves, materialize_grads=True)
    return losses.outputs(*found), terms


def displaced(slopes, batch):
    """Displacement [E, 3] (A) of the edges' vectors along minus the gradients by forces plus that by virials, and the
    step [B] of each frame: displacement / step is that direction."""
    centre, frame = batch.centre, batch.frame[batch.centre]
    direction, strain = -slopes.forces[0], slopes.virials[0]
    strained = (batch.vectors.unsqueeze(1) @ strain[frame]).squeeze(1)
    n_edges = torch.zeros(len(strain)).index_add(0, frame, torch.ones(len(frame))).clamp_min(1.0)
    square = losses.frame_means(direction.square().sum(1), batch)
    square = square + torch.zeros(len(strain)).index_add(0, frame, strained.square().sum(1)) / n_edges
    step = DISPLACEMENT / square.sqrt().clamp_min(1e-12)
    size = direction.norm(dim=1, keepdim=True) * step[batch.frame].unsqueeze(1)
    direction = direction * (LARGEST * DISPLACEMENT / size.clamp_min(1e-12)).clamp_max(1.0)
    moved = direction[batch.nbr.long()] - direction[centre] + strained
    return moved * step[frame].unsqueeze(1), step
