"""Fast training of `ani` on a CPU: environment vectors are computed once, forces and their adjoint in C (aev.c), the
networks in PyTorch, one core.

Forces are a linear map of the gradients g = dE/dAEV, F = J^T g, and J depends on the positions alone. So the gradient
of the loss by g is J applied to its gradient by the forces, and only the small networks are differentiated twice.
"""

import ctypes
from types import SimpleNamespace

import torch

from .. import frames
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
        (k, ctypes.c_void_p) for k in ("i", "j", "species", "vector", "a", "b")
    ]


def _prepare(c, network):
    """Adds to a frames.FrameClass what a step needs: aev [F, n, length] and, per frame, the arrays of aev.c."""
    species = c.species.int().contiguous()
    keep, near = c.vectors.norm(dim=2) < 1.5 * network.cutoff, c.a != c.b
    c.arrays, c.c_frames, aev = [], [], []
    for k in range(len(c.frames)):
        batch = SimpleNamespace(
            species=c.species,
            i=c.i[k][keep[k]].long(),
            j=c.j[k][keep[k]].long(),
            vectors=c.vectors[k][keep[k]],
            a=c.a[k][near[k]].long(),
            b=c.b[k][near[k]].long(),
        )
        with torch.no_grad():
            aev.append(network.prepare(batch)["aev"])
        arrays = [c.i[k][keep[k]], c.j[k][keep[k]], species, batch.vectors, c.a[k][near[k]], c.b[k][near[k]]]
        arrays = [a.contiguous() for a in arrays]
        c.arrays.append(arrays)
        c.c_frames.append(_Frame(len(arrays[0]), len(arrays[4]), *(a.data_ptr() for a in arrays)))
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
        c_frames."""
        c_frames, frame, n_atoms, species, count = [], [], [], [], 0
        for c, index in parts:
            for k in index.tolist():
                c_frames.append((c.c_frames[k], sum(n_atoms)))
                frame.append(torch.full((c.n_atoms,), count))
                species.append(c.species)
                n_atoms.append(c.n_atoms)
                count += 1
        species = torch.cat(species)
        return SimpleNamespace(
            aev=torch.cat([c.aev[index].flatten(0, 1) for c, index in parts]),
            frame=torch.cat(frame),
            c_frames=c_frames,
            forces=torch.cat([c.forces[index].flatten(0, 1) for c, index in parts]),
            energy=torch.cat([c.energy[index] for c, index in parts]),
            n_atoms=torch.tensor(n_atoms, dtype=torch.float32),
            of_element=[torch.nonzero(species == s).squeeze(1) for s in range(len(self.network.elements))],
        )

    def _call(self, function, batch, g, forces):
        """aev_pull or aev_push on every frame; g [N, length, members] and forces [N, 3, members] are added to."""
        n = max(f.n_edges for f, _ in batch.c_frames) * (6 + 3 * self.network.n_members)
        if len(self.scratch) < n:
            self.scratch = torch.empty(2 * n)
        for frame, atom in batch.c_frames:
            function(
                ctypes.byref(self.constants),
                ctypes.byref(frame),
                ctypes.c_void_p(g[atom].data_ptr()),
                ctypes.c_void_p(forces[atom].data_ptr()),
                ctypes.c_void_p(self.scratch.data_ptr()),
            )

    def _evaluate(self, p, batch, training):
        """Node energies [members, N], g = dE/dAEV [members, N, length] and forces [N, 3, members]."""
        m = self.network.n_members
        aev = batch.aev.unsqueeze(0).repeat(m, 1, 1).requires_grad_()
        nodes = self.network.node_energies(p, batch, aev)
        (g,) = torch.autograd.grad(nodes.sum(), aev, create_graph=training)
        forces = torch.zeros(len(batch.aev), 3, m)
        self._call(self.lib.aev_pull, batch, g.detach().permute(1, 2, 0).contiguous(), forces)
        return nodes, g, forces

    def _frame_sums(self, nodes, batch):
        return nodes.new_zeros(len(nodes), len(batch.energy)).index_add(1, batch.frame, nodes)

    def energies_forces(self, p, batch):
        """Energies [members, B] and forces [members, N, 3] of a batch."""
        nodes, _, forces = self._evaluate({k: v.detach() for k, v in p.items()}, batch, False)
        return self._frame_sums(nodes.detach(), batch), forces.permute(2, 0, 1)

    def gradient(self, p, batch, energy_weight, keep, limits=(None, None)):
        """Gradient of the loss of Trainer.one_step by each parameter (list), energy loss and force loss.

        keep [members, B]: weights of the frames, 0 for those that a member is not trained on; limits: of force and
        energy errors, see frames.bounded.
        """
        m = self.network.n_members
        nodes, g, forces = self._evaluate(p, batch, True)
        d_force = forces - batch.forces.unsqueeze(2)
        of_frame = frames.mean_squares(d_force.permute(2, 0, 1), batch)
        energy_square = ((self._frame_sums(nodes, batch) - batch.energy) / batch.n_atoms).square()
        energy_loss = (frames.bounded(energy_square, limits[1]) * keep).sum() / keep.numel()
        force_loss = (frames.bounded(of_frame, limits[0]) * keep * batch.n_atoms).sum() * 3 / d_force.numel()
        factor = (keep * frames.bounded_slope(of_frame, limits[0]))[:, batch.frame].t().unsqueeze(1)
        by_force = (2 * m / d_force.numel() * d_force * factor).contiguous()
        by_g = torch.zeros(len(batch.aev), self.network.length, m)
        self._call(self.lib.aev_push, batch, by_g, by_force)
        gradient = torch.autograd.grad(
            [m * energy_weight * energy_loss, g],
            list(p.values()),
            [torch.ones(()), by_g.permute(2, 0, 1)],
            materialize_grads=True,
        )
        return gradient, energy_loss.detach(), force_loss
