"""The architectures `painn` (B-spline basis) and `ani` in PyTorch, for training only; `mace` is in networks_mace.py.

Both are functions of a mapping name -> parameter and of a batch of frames, and give the energy of each frame and the
force on each atom, differentiable with respect to the parameters. Geometry (radial functions, angular functions and
their slopes) is constant data of a batch: the graph that is differentiated twice begins at the radial functions and
unit vectors (painn) or at the environment vectors (ani), and forces follow from its gradient by linear maps.

Symbols: i centre, j neighbor, r_ij = x_j + S - x_i, e edge, t triple. Energies in eV without the elements' offsets.
"""

import math

import torch
from torch.nn.functional import celu, silu

from ..model.repulsion import CLAMPED
from . import losses


def bspline(r, n, cutoff):
    """phi [E, n] and d phi/dr [E, n] of r [E] in A: cubic B-splines B(r/h - (k - 3)), h = cutoff/n, k = 0 .. n-1."""
    h = cutoff / n
    t = r.unsqueeze(1) / h - torch.arange(-1.0, n - 1.0, device=r.device, dtype=r.dtype)  # t = 0 at the maximum
    outer, inner = (2.0 - t.abs()).clamp_min(0.0), (1.0 - t.abs()).clamp_min(0.0)
    value = (outer**3 - 4.0 * inner**3) / 6.0
    slope = (4.0 * inner**2 - outer**2) * torch.sign(t) / (2.0 * h)
    return value, slope


def splines_onto(weight, cutoff, n, new_n, new_cutoff):
    """Weights [..., new_n] of the splines up to new_cutoff that make the same function as weights [..., n] of those up
    to cutoff, but for splines that reach beyond new_cutoff, which are dropped; None unless the new spacing is the old
    one divided by 1, 2, 4, .... A spline of spacing h is five of spacing h/2, with weights 1 4 6 4 1 over 8."""
    if new_cutoff > cutoff * (1 + 1e-9):
        return None
    doublings = math.log2(cutoff / n * new_n / new_cutoff)
    if doublings < -1e-9 or abs(doublings - round(doublings)) > 1e-9:
        return None
    for _ in range(round(doublings)):
        finer = weight.new_zeros(*weight.shape[:-1], 2 * weight.shape[-1])
        for j, binomial in enumerate((1, 4, 6, 4, 1)):  # k becomes 2k - 3 + j; those that end below r = 0 are left out
            first = max(0, (4 - j) // 2)
            finer[..., 2 * first - 3 + j :: 2][..., : weight.shape[-1] - first].add_(
                weight[..., first:], alpha=binomial / 8
            )
        weight = finer
    return weight[..., :new_n]


def cosine_cutoff(r, cutoff):
    """fc and d fc/dr of r in A."""
    x = (r / cutoff).clamp_max(1.0) * math.pi
    return 0.5 * (1.0 + torch.cos(x)), -0.5 * math.pi / cutoff * torch.sin(x)


def edge_forces(gradient, i, j, n_atoms):
    """Forces [..., N, 3] from dE/d r_ij [..., E, 3]."""
    zero = gradient.new_zeros(gradient.shape[:-2] + (n_atoms, 3))
    return zero.index_add(-2, i, gradient).index_add(-2, j, -gradient)


def edge_virials(gradient, vectors, frame_of_edge, n_frames):
    """dE/d(strain) [..., B, 3, 3], symmetric, from dE/d r_ij [..., E, 3] and r_ij [E, 3]."""
    outer = (vectors.unsqueeze(-1) * gradient.unsqueeze(-2)).flatten(-2)
    zero = gradient.new_zeros(gradient.shape[:-2] + (n_frames, 9))
    total = zero.index_add(-2, frame_of_edge, outer).unflatten(-1, (3, 3))
    return 0.5 * (total + total.mT)


def clamp(network, batch):
    """Gives a batch, once: seen [E, 3], the vectors r_ij that the network gets where its repulsion clamps distances
    (short_range.py); slope [E], derivatives of their lengths; and own, the linear map of dE/d seen [..., E, 3] to
    dE/d r_ij, and of changes of r_ij to those of seen."""
    if hasattr(batch, "seen"):
        return
    batch.seen, batch.slope, batch.own = batch.vectors, torch.ones_like(batch.vectors[:, 0]), lambda gradient: gradient
    if network.clamps is None:
        return
    v, s = batch.vectors, batch.species.long()
    cutoff = network.clamps.to(v.dtype)[s[batch.i.long()], s[batch.j.long()]]
    r = v.norm(dim=1)
    t = ((1 - r / cutoff) / CLAMPED).clamp(0.0, 1.0)
    scale = torch.where(t > 0, cutoff * (1 - CLAMPED * (t - t**3 + 0.5 * t**4)) / r, 1.0).unsqueeze(1)
    batch.seen, batch.slope, u = scale * v, (1 - t) ** 2 * (1 + 2 * t), v / r.unsqueeze(1)
    radial = batch.slope.unsqueeze(1) - scale
    batch.own = lambda gradient: scale * gradient + radial * (u * gradient).sum(-1, keepdim=True) * u


class PaiNN:
    """PaiNN with a B-spline basis. The channels of the first layer that vectors would pass (there are none yet) and the
    vector update of the last one (nobody reads it) are left out; their weights stay zero."""

    n_members = 1
    needs_triples = False
    clamps = None  # cutoffs of the repulsion [elements, elements], A

    def __init__(self, spec, elements):
        self.f, self.n_layers = spec["n_features"], spec["n_interactions"]
        self.n_readout, self.n_basis = spec["n_readout"], spec["radial_basis"]["n"]
        self.cutoff, self.epsilon, self.n_elements = spec["cutoff"], spec.get("epsilon", 1e-8), len(elements)

    def block(self):
        """The `painn` block of a model file."""
        return {
            "n_features": self.f,
            "n_interactions": self.n_layers,
            "n_readout": self.n_readout,
            "radial_basis": {"kind": "bspline", "n": self.n_basis},
            "cutoff_function": "none",
            "epsilon": self.epsilon,
        }

    def initial(self, generator, _=None):
        """name -> initial parameter. Filters start as smooth random functions that fall off towards the cutoff."""
        f, k, out = self.f, self.n_basis, {}

        def linear(name, n_out, n_in, bias=True):
            bound = math.sqrt(6.0 / (n_in + n_out))
            out[name + ".weight"] = (2 * torch.rand(n_out, n_in, generator=generator) - 1) * bound
            if bias:
                out[name + ".bias"] = torch.zeros(n_out)

        out["embedding"] = torch.randn(self.n_elements, f, generator=generator)
        h = self.cutoff / k
        centre = (torch.arange(k) - 1.0) * h
        smooth = torch.exp(-0.5 * ((centre[:, None] - centre[None]) / 0.4) ** 2)
        smooth = smooth / smooth.square().sum(1, keepdim=True).sqrt() * (1 - centre.clamp_min(0) / self.cutoff)[:, None]
        for l in range(self.n_layers):
            out[f"filter.{l}.weight"] = 0.4 * torch.randn(3 * f, k, generator=generator) @ smooth.T
            linear(f"context.{l}.0", f, f)
            linear(f"context.{l}.1", 3 * f, f)
            linear(f"channel_mix.{l}", 2 * f, f, bias=False)
            linear(f"mixing.{l}.0", f, 2 * f)
            linear(f"mixing.{l}.1", 3 * f, f)
        linear("readout.0", self.n_readout, f)
        linear("readout.1", 1, self.n_readout)
        out["filter.0.weight"][2 * f :] = 0
        out["context.0.1.weight"][2 * f :] = 0
        out[f"mixing.{self.n_layers - 1}.1.weight"][f : 2 * f] = 0
        return out

    def prepare(self, batch):
        """Constant data of a batch: radial functions, their slopes and unit vectors of its edges."""
        clamp(self, batch)
        r = batch.seen.norm(dim=1)
        phi, slope = bspline(r, self.n_basis, self.cutoff)
        return r, phi, slope, batch.seen / r.unsqueeze(1)

    def node_energies(self, p, batch, phi, u):
        """Energy of each atom [N] from radial functions phi [E, K] and unit vectors u [E, 3]."""

        def message(l, x, q, mu):
            y = (phi @ p[f"filter.{l}.weight"][: x.shape[1]].t()) * x.index_select(0, batch.j)
            a, b, *c = y.split(self.f, dim=1)
            vector = b.unsqueeze(1) * u.unsqueeze(2)
            if c:
                vector = vector + c[0].unsqueeze(1) * mu.index_select(0, batch.j)
            mu = q.new_zeros(len(q), 3, self.f) if mu is None else mu
            return q.index_add(0, batch.i, a), mu.index_add(0, batch.i, vector)

        return self.layers(p, p["embedding"].index_select(0, batch.species), message)

    def layers(self, p, q, message):
        """Energy of each atom [N] from its embedding q [N, F]. message(layer, x [N, 2 F or 3 F], q, mu) returns q and
        mu with the messages of the neighbors added."""
        f, mu = self.f, None

        def linear(name, x):
            return torch.addmm(p[name + ".bias"], x, p[name + ".weight"].t())

        for l in range(self.n_layers):
            width = 2 * f if mu is None else 3 * f
            hidden = silu(linear(f"context.{l}.0", q))
            x = torch.addmm(p[f"context.{l}.1.bias"][:width], hidden, p[f"context.{l}.1.weight"][:width].t())
            q, mu = message(l, x, q, mu)
            v, w = (mu @ p[f"channel_mix.{l}.weight"].t()).split(f, dim=2)
            norm = torch.sqrt(v.square().sum(1) + self.epsilon)
            hidden = silu(linear(f"mixing.{l}.0", torch.cat([q, norm], 1)))
            s, g, t = linear(f"mixing.{l}.1", hidden).split(f, dim=1)
            q = q + s + t * (v * w).sum(1)
            if l < self.n_layers - 1:
                mu = mu + g.unsqueeze(1) * w
        return linear("readout.1", silu(linear("readout.0", q))).squeeze(1)

    def __call__(self, p, batch, training):
        """losses.outputs of the frames of a batch, in eV and A."""
        with torch.no_grad():
            r, phi, slope, u = self.prepare(batch)
        phi.requires_grad_()
        u.requires_grad_()
        with torch.enable_grad():
            nodes = self.node_energies(p, batch, phi, u)
            g_phi, g_u = torch.autograd.grad(nodes.sum(), (phi, u), create_graph=training)
        phi, u = phi.detach(), u.detach()
        radial = (g_phi * slope).sum(1, keepdim=True)
        gradient = batch.own(radial * u + (g_u - u * (u * g_u).sum(1, keepdim=True)) / r.unsqueeze(1))
        energies = nodes.new_zeros(batch.n_frames).index_add(0, batch.frame, nodes)
        forces = edge_forces(gradient, batch.i, batch.j, len(nodes))
        virials = edge_virials(gradient, batch.vectors, batch.frame[batch.i], batch.n_frames)
        return losses.outputs(*(x.unsqueeze(0) for x in (energies, forces, virials, nodes)))

    def state(self):
        """What initial() took from the data: nothing."""
        return {}

    def restore(self, state):
        pass

    def export(self, p, scale):
        """Tensors of a model file; `scale` (eV) multiplies the energies of training."""
        out = {k: v.double() for k, v in p.items()}
        for k in ("readout.1.weight", "readout.1.bias"):
            out[k] = out[k] * scale
        return {k: v.float().cpu().numpy() for k, v in out.items()}


class Ani:
    """An ensemble of ANI networks that share their environment vectors (AEVs); all members are trained at once."""

    needs_triples = True
    clamps = None

    def __init__(self, spec, elements):
        self.spec, self.elements = spec, list(elements)
        self.cutoff, self.angular_cutoff = spec["radial"]["cutoff"], spec["angular"]["cutoff"]
        self.n_members, self.hidden = spec["n_members"], spec["hidden"]
        n = len(elements)
        self.n_pairs = n * (n + 1) // 2
        self.n_radial, self.n_shells = len(spec["radial"]["shifts"]), len(spec["angular"]["shifts"])
        self.n_sections = len(spec["angular"]["sections"])
        self.n_angular = self.n_shells * self.n_sections
        self.length = n * self.n_radial + self.n_pairs * self.n_angular
        pair = torch.zeros(n, n, dtype=torch.long)
        upper = torch.triu_indices(n, n)
        pair[upper[0], upper[1]] = torch.arange(self.n_pairs)
        self.pair = torch.maximum(pair, pair.t())
        self.alpha = spec["activation"]["alpha"]
        # of each element's AEV in the training set, [n_elements, length]
        self.mean, self.deviation = torch.zeros(n, self.length), torch.ones(n, self.length)
        self._constants = {}

    def dims(self, element):
        """Widths of the network of an element."""
        return [self.length, *self.hidden[element], 1]

    def block(self):
        """The `ani` block of a model file."""
        keys = {
            "radial": ("cutoff", "eta", "prefactor", "shifts"),
            "angular": ("cutoff", "eta", "zeta", "cos_scale", "prefactor", "shifts", "sections"),
        }
        parts = {part: {k: self.spec[part][k] for k in names} for part, names in keys.items()}
        return {
            "n_members": self.n_members,
            "constants": "exact",
            **parts,
            "activation": {"kind": "celu", "alpha": self.alpha},
            "dims": {e: self.dims(e) for e in self.elements},
        }

    def initial(self, generator, batches):
        """name -> initial parameter [members, ...]; also finds mean and deviation of the AEVs over `batches`."""
        self._normalise(batches)
        out = {}
        for element in self.elements:
            dims = self.dims(element)
            for l, (n_in, n_out) in enumerate(zip(dims[:-1], dims[1:])):
                w = torch.randn(self.n_members, n_out, n_in, generator=generator) / math.sqrt(n_in)
                out[f"{element}.{l}.weight"] = w
                out[f"{element}.{l}.bias"] = torch.zeros(self.n_members, n_out)
        return out

    def _normalise(self, batches):
        n = len(self.elements)
        count, total, square = torch.zeros(n, 1), torch.zeros(n, self.length), torch.zeros(n, self.length)
        for batch in batches:
            with torch.no_grad():
                aev = self.prepare(batch)["aev"].cpu().double()
            species = batch.species.cpu().long()
            count.index_add_(0, species, torch.ones(len(aev), 1))
            total.index_add_(0, species, aev.float())
            square.index_add_(0, species, aev.square().float())
        count = count.clamp_min(1)
        self.mean = total / count
        self.deviation = (square / count - self.mean**2).clamp_min(0).sqrt() + 0.02
        self._constants = {}

    def constants(self, device):
        """Tensors that never change, on `device`; moved there once."""
        if device not in self._constants:
            values = {
                "radial_shifts": torch.tensor(self.spec["radial"]["shifts"]),
                "pair": self.pair,
                "angular_shifts": torch.tensor(self.spec["angular"]["shifts"]),
                "mean": self.mean,
                "sections": torch.tensor(self.spec["angular"]["sections"]),
                "deviation": self.deviation,
            }
            self._constants[device] = {k: v.to(device) for k, v in values.items()}
        return self._constants[device]

    def prepare(self, batch):
        """Constant data of a batch: AEVs [N, length] and the coefficients of their derivatives."""
        c = {"index": self._radial_index(batch)}
        radial, angular, n_atoms = self.spec["radial"], self.spec["angular"], len(batch.species)
        clamp(self, batch)
        constant = self.constants(batch.seen.device)
        r = batch.seen.norm(dim=1)
        u = batch.seen / r.unsqueeze(1)
        fc, dfc = cosine_cutoff(r, radial["cutoff"])
        x = r.unsqueeze(1) - constant["radial_shifts"]
        gauss = radial["prefactor"] * torch.exp(-radial["eta"] * x * x)
        c["slope"] = gauss * (dfc.unsqueeze(1) - 2 * radial["eta"] * x * fc.unsqueeze(1))
        part = gauss.new_zeros(n_atoms * len(self.elements), self.n_radial)
        aev = part.index_add(0, c["index"], gauss * fc.unsqueeze(1)).view(n_atoms, -1)

        a, b = batch.a, batch.b
        ra, rb, ua, ub = r[a], r[b], u[a], u[b]
        cos = (ua * ub).sum(1)
        scaled = (angular["cos_scale"] * cos).clamp(-1, 1)
        theta = torch.acos(scaled).unsqueeze(1) - constant["sections"]
        half = (0.5 * (1 + torch.cos(theta))).clamp_min(1e-12)
        f1 = angular["prefactor"] * half ** angular["zeta"]
        df1 = -0.5 * angular["prefactor"] * angular["zeta"] * half ** (angular["zeta"] - 1) * torch.sin(theta)
        df1 = df1 * (-angular["cos_scale"] / torch.sqrt(1 - scaled * scaled)).unsqueeze(1)
        x = (0.5 * (ra + rb)).unsqueeze(1) - constant["angular_shifts"]
        f2 = torch.exp(-angular["eta"] * x * x)
        df2 = -angular["eta"] * x * f2
        (ca, dca), (cb, dcb) = cosine_cutoff(ra, angular["cutoff"]), cosine_cutoff(rb, angular["cutoff"])
        outer = lambda s, z: (s.unsqueeze(2) * z.unsqueeze(1)).flatten(1)
        both = (ca * cb).unsqueeze(1)
        value, slope_r, slope_cos = outer(f2, f1), outer(df2, f1) * both, outer(f2, df1) * both
        c["along_a"] = slope_r + value * (dca * cb).unsqueeze(1)
        c["along_b"] = slope_r + value * (ca * dcb).unsqueeze(1)
        c["turn"] = slope_cos
        c["turn_a"] = (ub - cos.unsqueeze(1) * ua) / ra.unsqueeze(1)
        c["turn_b"] = (ua - cos.unsqueeze(1) * ub) / rb.unsqueeze(1)
        c["u"], c["ua"], c["ub"] = u, ua, ub
        pair = constant["pair"][batch.species[batch.j[a]].long(), batch.species[batch.j[b]].long()]
        c["block"] = batch.i[a] * self.n_pairs + pair
        part = gauss.new_zeros(n_atoms * self.n_pairs, self.n_angular)
        c["aev"] = torch.cat([aev, part.index_add(0, c["block"], value * both).view(n_atoms, -1)], 1)
        return c

    def _radial_index(self, batch):
        return batch.i * len(self.elements) + batch.species[batch.j]

    def node_energies(self, p, batch, aev):
        """Energies [members, N] from AEVs [members, N, length]."""
        out, constant = aev.new_zeros(aev.shape[:2]), self.constants(aev.device)
        for s, element in enumerate(self.elements):
            atoms = batch.of_element[s]
            if len(atoms) == 0:
                continue
            x = aev.index_select(1, atoms)
            x = (x - constant["mean"][s]) / constant["deviation"][s]
            last = len(self.hidden[element])
            for l in range(last + 1):
                x = torch.baddbmm(p[f"{element}.{l}.bias"].unsqueeze(1), x, p[f"{element}.{l}.weight"].transpose(1, 2))
                x = celu(x, self.alpha) if l < last else x
            out = out.index_add(1, atoms, x.squeeze(2))
        return out

    def __call__(self, p, batch, training):
        """losses.outputs of the frames of a batch, in eV and A."""
        with torch.no_grad():
            c = self.prepare(batch)
        aev = c["aev"].unsqueeze(0).repeat(self.n_members, 1, 1).requires_grad_()
        with torch.enable_grad():
            nodes = self.node_energies(p, batch, aev)
            (gradient,) = torch.autograd.grad(nodes.sum(), aev, create_graph=training)
        m, n, split = self.n_members, aev.shape[1], len(self.elements) * self.n_radial
        g = gradient[..., :split].reshape(m, -1, self.n_radial).index_select(1, c["index"])
        edges = (g * c["slope"]).sum(2, keepdim=True) * c["u"]
        g = gradient[..., split:].reshape(m, -1, self.n_angular).index_select(1, c["block"])
        turn = (g * c["turn"]).sum(2, keepdim=True)
        edges = edges.index_add(1, batch.a, (g * c["along_a"]).sum(2, keepdim=True) * c["ua"] + turn * c["turn_a"])
        edges = edges.index_add(1, batch.b, (g * c["along_b"]).sum(2, keepdim=True) * c["ub"] + turn * c["turn_b"])
        edges = batch.own(edges)
        energies = nodes.new_zeros(m, batch.n_frames).index_add(1, batch.frame, nodes)
        virials = edge_virials(edges, batch.vectors, batch.frame[batch.i], batch.n_frames)
        return losses.outputs(energies, edge_forces(edges, batch.i, batch.j, n), virials, nodes)

    def state(self):
        """What initial() took from the data."""
        return {"mean": self.mean, "deviation": self.deviation}

    def restore(self, state):
        self.mean, self.deviation, self._constants = state["mean"], state["deviation"], {}

    def export(self, p, scale):
        """Tensors of a model file; the normalisation of AEVs goes into the first layers, `scale` (eV) into the last."""
        out = {}
        for s, element in enumerate(self.elements):
            last = len(self.hidden[element])
            for l in range(last + 1):
                w, b = p[f"{element}.{l}.weight"].double().cpu(), p[f"{element}.{l}.bias"].double().cpu()
                if l == 0:
                    w = w / self.deviation[s].double()
                    b = b - w @ self.mean[s].double()
                if l == last:
                    w, b = w * scale, b * scale
                for m in range(self.n_members):
                    out[f"member.{m}.{element}.{l}.weight"] = w[m].float().numpy()
                    out[f"member.{m}.{element}.{l}.bias"] = b[m].float().numpy()
        return out
