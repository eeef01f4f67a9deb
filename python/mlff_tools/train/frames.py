"""Frames of a data set on a device, with neighbor lists, ready to be put together into batches of constant shape.

Frames with the same sequence of elements form a class. Per class, edges and triples of all frames are padded to the
same number: a padding edge joins atom 0 to itself at twice the cutoff, where every radial function is zero; a padding
triple consists of padding edges.
"""

from types import SimpleNamespace

import numpy as np
import torch

from . import dataset, hessian


def _candidates(x, cell, cutoff):
    """Atoms and all periodic images that can be a neighbor of an atom in the cell: owner [G] and position [G, 3] (A).

    x [N, 3]: positions inside the cell. Images farther than the cutoff from every face of the cell are left out.
    """
    if not cell.any():
        return np.arange(len(x)), x
    inverse = np.linalg.inv(cell)
    reach = cutoff * np.linalg.norm(inverse, axis=0)  # the cutoff in units of the cell's heights
    n = np.floor(reach).astype(int) + 1
    grid = np.stack(np.meshgrid(*[np.arange(-k, k + 1) for k in n], indexing="ij"), -1).reshape(-1, 3)
    fractional = (x @ inverse)[None] + grid[:, None]
    image, owner = np.nonzero(((fractional > -reach - 1e-6) & (fractional < 1 + reach + 1e-6)).all(-1))
    return owner, x[owner] + grid[image] @ cell


def edges(positions, cell, cutoff, device):
    """Full neighbor list of one frame: i [E], j [E] (int32) and vectors [E, 3] (float64), ordered by i."""
    x = np.asarray(positions, float)
    if cell.any():
        x = (x @ np.linalg.inv(cell) % 1.0) @ cell
    owner, images = _candidates(x, cell, cutoff)
    x, images, owner = (torch.as_tensor(a, device=device) for a in (x, images, owner))
    # Candidates in single precision with a margin, then exactly.
    coarse = torch.cdist(x.float(), images.float(), compute_mode="donot_use_mm_for_euclid_dist")
    i, g = torch.nonzero((coarse < cutoff + 1e-3) & (coarse > 1e-4), as_tuple=True)
    vectors = images[g] - x[i]
    keep = vectors.square().sum(1) < cutoff * cutoff
    return i[keep].int(), owner[g[keep]].int(), vectors[keep]


def triples(i, vectors, n_atoms, cutoff):
    """Pairs (a, b) of edges of one centre, both shorter than `cutoff` (int32 [T] each), every unordered pair once."""
    edges = torch.nonzero(vectors.norm(dim=1) < cutoff).squeeze(1)
    centre = i[edges].long()
    count = torch.bincount(centre, minlength=n_atoms)
    width = int(count.max()) if len(edges) else 0
    place = torch.arange(len(edges), device=i.device) - (torch.cumsum(count, 0) - count)[centre]
    table = torch.full((n_atoms, max(width, 1)), -1, dtype=torch.long, device=i.device)
    table[centre, place] = edges
    x, y = torch.triu_indices(width, width, 1, device=i.device)
    a, b = table[:, x].flatten(), table[:, y].flatten()
    keep = (a >= 0) & (b >= 0)
    return a[keep].int(), b[keep].int()


OF_FRAME = ("has_labels", "virial", "has_virial", "has_atoms")
OF_ATOM = ("atom_energies", "product", "partner")
EXTRA = (*OF_FRAME, *OF_ATOM)


class FrameClass:
    """All frames of one sequence of elements. Attributes: n_atoms, species [n], frames [F] (indices in the data
    set)."""

    def __init__(self, data, frames, network, device, scale, offsets):
        first = data["first"]
        self.frames, self.device = frames, device
        a, b = first[frames[0]], first[frames[0] + 1]
        species = data["species"][a:b]
        self.n_atoms = int(b - a)
        self.species = torch.as_tensor(species.astype(np.int64), device=device)
        atoms = np.concatenate([np.arange(first[k], first[k + 1]) for k in frames])
        shape = (len(frames), self.n_atoms, 3)
        self.forces = torch.as_tensor(data["forces"][atoms].reshape(shape) / scale, device=device).float()
        energy = (data["energy"][frames] - offsets[species].sum()) / scale
        self.energy = torch.as_tensor(energy, device=device).float()
        self.rms = dataset.force_rms(data, frames)  # eV/A
        self.has_labels = torch.ones(len(frames), device=device)
        self.product = torch.zeros_like(self.forces)
        self.partner = torch.zeros(shape[:2], dtype=torch.long, device=device)
        self._more_labels(data, atoms, scale, offsets[species])
        self._lists(data, network)

    def _edges(self, data, k, network):
        """i, j, vectors and pairs of edges of frame k of the data set."""
        a, b = data["first"][k], data["first"][k + 1]
        return self._edges_at(data["positions"][a:b], data["cell"][k], network)

    def _edges_at(self, positions, cell, network):
        i, j, v = edges(positions, cell, network.cutoff, self.device)
        v = v.float()
        return (i, j, v, *(triples(i, v, len(positions), network.angular_cutoff) if network.needs_triples else ()))

    def _more_labels(self, data, atoms, scale, offsets):
        """virial [F, 3, 3] = stress * volume and atom_energies [F, n], zero where there are none, and has_virial and
        has_atoms [F], one where there are some."""
        n = len(self.frames)
        self.volume = np.abs(np.linalg.det(data["cell"][self.frames]))  # A^3; zero without a cell
        virial, atom_energies = np.full((n, 3, 3), np.nan), np.full((n, self.n_atoms), np.nan)
        if "stress" in data:
            virial = data["stress"][self.frames] * self.volume[:, None, None]
        if "atom_energies" in data:
            atom_energies = data["atom_energies"][atoms].reshape(n, self.n_atoms) - offsets
        for name, mask, values in (("virial", "has_virial", virial), ("atom_energies", "has_atoms", atom_energies)):
            known = np.isfinite(values.reshape(n, -1)).all(1)
            tensor = torch.as_tensor(np.nan_to_num(values) / scale, device=self.device).float()
            setattr(self, name, tensor)
            setattr(self, mask, torch.as_tensor(known, device=self.device).float())
            if not known.all():
                tensor[torch.as_tensor(~known, device=self.device)] = 0.0

    def _lists(self, data, network):
        parts = [self._edges(data, k, network) for k in self.frames]
        self.n_edges = max(len(p[0]) for p in parts) + 1
        n_frames, far = len(parts), torch.tensor([2.0 * network.cutoff, 0.0, 0.0], device=self.device)
        self.i = torch.zeros(n_frames, self.n_edges, dtype=torch.int32, device=self.device)
        self.j = torch.zeros_like(self.i)
        self.vectors = far.repeat(n_frames, self.n_edges, 1)
        self.n_triples = max(len(p[3]) for p in parts) if network.needs_triples else 0
        self.a = torch.full((n_frames, self.n_triples), self.n_edges - 1, dtype=torch.int32, device=self.device)
        self.b = self.a.clone()
        for k, p in enumerate(parts):
            for target, values in zip((self.i, self.j, self.vectors, self.a, self.b), p):
                target[k, : len(values)] = values
            parts[k] = None


class Pairs(FrameClass):
    """Frames with a Hessian-vector product (hessian.py): each stands for two, moved along +-STEP times its direction,
    as one frame of twice the atoms whose halves do not meet. Its label is product [F, 2n, 3], the difference of the
    forces of an atom and its partner in the other half over 2 STEP; partner [F, 2n] is where that is."""

    def __init__(self, data, frames, network, device, scale, offsets):
        super().__init__(data, frames, network, device, scale, offsets)
        n, first = self.n_atoms, data["first"]
        products = np.stack([data["hessian_product"][first[k] : first[k + 1]] for k in frames])
        self.product = torch.as_tensor(np.concatenate([products, -products], 1) / scale, device=device).float()
        self.partner = torch.tensor([n] * n + [-n] * n, device=device).repeat(len(frames), 1)
        self.species, self.n_atoms = self.species.repeat(2), 2 * n
        for name in ("has_labels", "energy", "virial", "has_virial", "has_atoms"):
            setattr(self, name, torch.zeros_like(getattr(self, name)))
        self.forces = torch.zeros_like(self.product)
        self.atom_energies = torch.zeros_like(self.product[..., 0])

    def _edges(self, data, k, network):
        a, b = data["first"][k], data["first"][k + 1]
        moved = hessian.STEP * data["hessian_direction"][a:b]
        one, two = (self._edges_at(data["positions"][a:b] + s * moved, data["cell"][k], network) for s in (1, -1))
        n, n_edges = int(b - a), len(one[0])
        shifts = (n, n, 0, n_edges, n_edges)
        return tuple(torch.cat([x, y + shift]) for x, y, shift in zip(one, two, shifts))


def classes(data, split, network, device, scale, offsets):
    """FrameClass objects of a split, smallest first."""
    return _grouped(FrameClass, data, dataset.frames_of(data, split), network, device, scale, offsets)


def pairs(data, split, network, device, scale, offsets):
    """Pairs objects of the frames of a split that have a Hessian-vector product."""
    if "hessian_product" not in data:
        return []
    known = [
        k
        for k in dataset.frames_of(data, split)
        if np.isfinite(data["hessian_product"][data["first"][k] : data["first"][k + 1]]).all()
    ]
    return _grouped(Pairs, data, known, network, device, scale, offsets)


def _grouped(kind, data, chosen, network, device, scale, offsets):
    groups = {}
    for k in chosen:
        key = data["species"][data["first"][k] : data["first"][k + 1]].tobytes()
        groups.setdefault(key, []).append(k)
    return [
        kind(data, np.array(groups[key]), network, device, scale, offsets)
        for key in sorted(groups, key=lambda key: (len(key), key))
    ]


def of_element(parts, n_elements):
    """Atoms of each element in a batch of `parts`, see batch(); depends on the classes and numbers of frames alone."""
    species = np.concatenate([np.tile(c.species.cpu().numpy(), len(index)) for c, index in parts])
    return [torch.as_tensor(np.nonzero(species == s)[0], device=parts[0][0].device) for s in range(n_elements)]


def batch(parts, atoms_of):
    """A batch from [(class, indices of its frames as a tensor [k])]: tensors whose shapes depend on the k alone.

    Fields: species [N], i j [E], vectors [E, 3], a b [T], frame [N], energy [B], forces [N, 3], n_atoms [B], n_frames,
    labels OF_FRAME [B, ...] and OF_ATOM [N, ...], of_element: atoms of each element, as from of_element().
    Only device work, so that a CUDA graph can hold it.
    """
    out = {k: [] for k in ("species", "i", "j", "vectors", "a", "b", "frame", "energy", "forces", "n_atoms", *EXTRA)}
    atoms = edges_before = frames_before = 0
    for c, index in parts:
        k, device = len(index), c.device
        row = torch.arange(k, device=device).unsqueeze(1)
        out["species"].append(c.species.repeat(k))
        for name, step, start in (
            ("i", c.n_atoms, atoms),
            ("j", c.n_atoms, atoms),
            ("a", c.n_edges, edges_before),
            ("b", c.n_edges, edges_before),
        ):
            out[name].append((getattr(c, name).index_select(0, index).long() + row * step + start).flatten())
        out["vectors"].append(c.vectors.index_select(0, index).flatten(0, 1))
        out["frame"].append((row.expand(k, c.n_atoms) + frames_before).flatten())
        out["energy"].append(c.energy.index_select(0, index))
        out["forces"].append(c.forces.index_select(0, index).flatten(0, 1))
        out["n_atoms"].append(torch.full((k,), float(c.n_atoms), device=device))
        for name in EXTRA:
            out[name].append(getattr(c, name).index_select(0, index))
        for name in OF_ATOM:
            out[name][-1] = out[name][-1].flatten(0, 1)
        atoms, edges_before, frames_before = atoms + k * c.n_atoms, edges_before + k * c.n_edges, frames_before + k
    fields = {k: torch.cat(v) for k, v in out.items()}
    return SimpleNamespace(**fields, n_frames=frames_before, of_element=atoms_of)
