"""Fast training of `ani` on a CPU: environment vectors are computed once, forces and their adjoint in C (aev.c), the
networks in PyTorch, one core.

Forces and virials are a linear map of the gradients g = dE/dAEV, F = J^T g, and J depends on the positions alone. So
the gradient of the loss by g is J applied to its gradient by forces and virials, and only the small networks are
differentiated twice.
"""

import ctypes
from types import SimpleNamespace

import torch

from .. import losses
from ..frames import EXTRA, OF_ATOM
from . import cpu


def _constants(network):
    """The struct `constants` of aev.c."""
    spec, f = network.spec, ctypes.c_float
    radial, angular = spec["radial"], spec["angular"]
    n_r, n_s, n_z = network.n_radial, network.n_shells, network.n_sections
    kind = type(
        "Constants",
        (ctypes.Structure,),
        {
            "_fields_": [
                ("radial_cutoff", f),
                ("radial_eta", f),
                ("radial_prefactor", f),
                ("radial_shifts", f * n_r),
                ("angular_cutoff", f),
                ("angular_eta", f),
                ("zeta", f),
                ("cos_scale", f),
                ("angular_prefactor", f),
                ("angular_shifts", f * n_s),
                ("cos_z", f * n_z),
                ("sin_z", f * n_z),
                ("n_species", ctypes.c_int32),
                ("length", ctypes.c_int32),
            ]
        },
    )
    z = torch.tensor(angular["sections"], dtype=torch.float64)
    return kind(
        radial["cutoff"],
        radial["eta"],
        radial["prefactor"],
        (f * n_r)(*radial["shifts"]),
        angular["cutoff"],
        angular["eta"],
        angular["zeta"],
        angular["cos_scale"],
        angular["prefactor"],
        (f * n_s)(*angular["shifts"]),
        (f * n_z)(*torch.cos(z).tolist()),
        (f * n_z)(*torch.sin(z).tolist()),
        len(network.elements),
        network.length,
    )


class _Frame(ctypes.Structure):
    _fields_ = [("n_edges", ctypes.c_int64), ("n_triples", ctypes.c_int64)] + [
        (k, ctypes.c_void_p) for k in ("i", "j", "species", "vector", "seen", "slope", "a", "b")
    ]


def _prepare(c, network):
    """Adds to a frames.FrameClass what a step needs: aev [F, n, length] and, per frame, the arrays of aev.c."""
    species = c.species.int().contiguous()
    keep, distinct = c.vectors.norm(dim=2) < 1.5 * network.cutoff, c.a != c.b
    c.arrays, c.c_frames, aev = [], [], []
    for k in range(len(c.frames)):
        batch = SimpleNamespace(
            species=c.species,
            i=c.i[k][keep[k]].long(),
            j=c.j[k][keep[k]].long(),
            vectors=c.vectors[k][keep[k]],
            a=c.a[k][distinct[k]].long(),
            b=c.b[k][distinct[k]].long(),
        )
        with torch.no_grad():
            aev.append(network.prepare(batch)["aev"])
        edges = (c.i[k][keep[k]], c.j[k][keep[k]], species, batch.vectors, batch.seen, batch.slope)
        arrays = [a.contiguous() for a in (*edges, c.a[k][distinct[k]], c.b[k][distinct[k]])]
        c.arrays.append(arrays)
        c.c_frames.append(_Frame(len(arrays[0]), len(arrays[6]), *(a.data_ptr() for a in arrays)))
    c.aev = torch.stack(aev)


class FastAni:
    """The networks of networks.Ani, with the same parameters."""

    def __init__(self, network, folder):
        self.network = network
        sizes = {"M": network.n_members, "NR": network.n_radial, "NS": network.n_shells, "NZ": network.n_sections}
        self.lib = cpu.library("aev.c", sizes, folder, ["-ffast-math"])
        self.constants = _constants(network)
        self.scratch = torch.empty(0)

    def prepare(self, frame_class):
        """Adds to a frames.FrameClass what a step needs."""
        _prepare(frame_class, self.network)

    def batch(self, parts):
        """Frames put together: aev [N, length], of_element, frame [N], forces [N, 3], energy and n_atoms [B],
        c_frames, and the labels frames.EXTRA."""
        c_frames, frame, n_atoms, species, count = [], [], [], [], 0
        for c, index in parts:
            for k in index.tolist():
                c_frames.append((c.c_frames[k], sum(n_atoms)))
                frame.append(torch.full((c.n_atoms,), count))
                species.append(c.species)
                n_atoms.append(c.n_atoms)
                count += 1
        species = torch.cat(species)
        extra = {name: [getattr(c, name)[index] for c, index in parts] for name in EXTRA}
        extra.update({name: [x.flatten(0, 1) for x in extra[name]] for name in OF_ATOM})
        return SimpleNamespace(
            **{name: torch.cat(x) for name, x in extra.items()},
            aev=torch.cat([c.aev[index].flatten(0, 1) for c, index in parts]),
            frame=torch.cat(frame),
            c_frames=c_frames,
            forces=torch.cat([c.forces[index].flatten(0, 1) for c, index in parts]),
            energy=torch.cat([c.energy[index] for c, index in parts]),
            n_atoms=torch.tensor(n_atoms, dtype=torch.float32),
            of_element=[torch.nonzero(species == s).squeeze(1) for s in range(len(self.network.elements))],
        )

    def _call(self, function, batch, g, forces, virials):
        """aev_pull or aev_push on every frame; g [N, length, members], forces [N, 3, members] and virials
        [B, 3, 3, members] are read or added to."""
        n = max(f.n_edges for f, _ in batch.c_frames) * (6 + 3 * self.network.n_members)
        if len(self.scratch) < n:
            self.scratch = torch.empty(2 * n)
        for k, (frame, atom) in enumerate(batch.c_frames):
            function(
                ctypes.byref(self.constants),
                ctypes.byref(frame),
                ctypes.c_void_p(g[atom].data_ptr()),
                ctypes.c_void_p(forces[atom].data_ptr()),
                ctypes.c_void_p(virials[k].data_ptr()),
                ctypes.c_void_p(self.scratch.data_ptr()),
            )

    def _evaluate(self, p, batch, training):
        """losses.outputs of a batch, whose energies are in the graph of the weights and whose forces and virials are
        not, and g = dE/dAEV [members, N, length], which is."""
        m = self.network.n_members
        aev = batch.aev.unsqueeze(0).repeat(m, 1, 1).requires_grad_()
        nodes = self.network.node_energies(p, batch, aev)
        (g,) = torch.autograd.grad(nodes.sum(), aev, create_graph=training)
        forces, virials = torch.zeros(len(batch.aev), 3, m), torch.zeros(len(batch.energy), 3, 3, m)
        self._call(self.lib.aev_pull, batch, g.detach().permute(1, 2, 0).contiguous(), forces, virials)
        virials = virials.permute(3, 0, 1, 2)
        energies = nodes.new_zeros(len(nodes), len(batch.energy)).index_add(1, batch.frame, nodes)
        return losses.outputs(energies, forces.permute(2, 0, 1), 0.5 * (virials + virials.mT), nodes), g

    def evaluate(self, p, batch):
        """losses.outputs of a batch, without weights in the graph."""
        out, _ = self._evaluate({k: v.detach() for k, v in p.items()}, batch, False)
        return losses.outputs(out.energies.detach(), out.forces, out.virials, out.nodes.detach())

    def gradient(self, p, batch, keep, weights, limits):
        """Gradient of losses.loss by each parameter (list), and its terms."""
        out, g = self._evaluate(p, batch, True)
        slopes, terms = cpu.gradients(out, batch, keep, weights, limits)
        by_g = torch.zeros(len(batch.aev), self.network.length, self.network.n_members)
        by_forces, by_virials = (
            slopes.forces.permute(1, 2, 0).contiguous(),
            slopes.virials.permute(1, 2, 3, 0).contiguous(),
        )
        self._call(self.lib.aev_push, batch, by_g, by_forces, by_virials)
        gradient = torch.autograd.grad(
            [out.energies, out.nodes, g],
            list(p.values()),
            [slopes.energies, slopes.nodes, by_g.permute(2, 0, 1)],
            materialize_grads=True,
        )
        return gradient, terms
