"""`mlff verify MODEL.yaml --against PACKAGE [STRUCTURES.xyz ...]`: a model file against the package that it comes from.

PACKAGE: torchani (ANI), orb-models (Orb-v2), schnetpack (PaiNN with Gaussian or Bessel functions), nequix (Nequix),
sevenn (SevenNet), nequip (NequIP), mace (MACE) or matgl (TensorNet). The package builds its own network, gets the
weights of the model file, and evaluates the same structures in double on the CPU: without STRUCTURES those of the
file's self-test. A repulsion of kind zbl, which no package has, is added by numpy; structures within one of kind
clamped are not compared. Prints a table of differences to the program mlff; the exit status is 1 when one is too large.
Runs in this Python if it has the package, else in the one that MLFF_TORCH_PYTHON names.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import typing
import warnings

import numpy as np

from .. import PACKAGE
from ..command_line import one_line
from . import engine, modelfile, reference
from .against_base import Unsupported, fill, six
from .against_mace import MACE
from .against_matgl import TensorNet
from .against_nequip import Nequix, SevenNet
from .against_nequip_package import NequIP
from .modelfile import NUMBERS, ModelError
from .structures import read_xyz

MODULES = {
    "torchani": "torchani",
    "orb-models": "orb_models",
    "schnetpack": "schnetpack",
    "nequix": "nequix",
    "sevenn": "sevenn",
    "nequip": "nequip",
    "mace": "mace",
    "matgl": "matgl",
}
DISTRIBUTIONS = {**{package: package for package in MODULES}, "mace": "mace-torch"}  # names on PyPI
ARCHITECTURES = {
    "torchani": "ani",
    "orb-models": "orb",
    "schnetpack": "painn",
    "nequix": "nequip",
    "sevenn": "nequip",
    "nequip": "nequip",
    "mace": "mace",
    "matgl": "tensornet",
}
# eV/atom, eV/A, eV/A^3 in double. TorchANI's CELU is exact to 1e-9 hartree only in its slope.
LIMITS = {
    "torchani": (1e-9, 1e-7, 1e-8),
    "orb-models": (1e-9, 1e-9, 1e-10),
    "schnetpack": (1e-9, 1e-8, 1e-9),
    "nequix": (1e-11, 1e-10, 1e-12),
    "sevenn": (1e-11, 1e-10, 1e-12),
    "nequip": (1e-11, 1e-10, 1e-12),
    "mace": (1e-11, 1e-10, 1e-12),
    "matgl": (1e-11, 1e-10, 1e-12),
}


class TorchANI:
    """ANI built by TorchANI; self energies, which it would round to float32, are added here."""

    def __init__(self, head, tensors):
        import torch
        import torchani

        a, self.torch = head["ani"], torch
        radial, angular, symbols = a["radial"], a["angular"], head["elements"]
        known = (radial["prefactor"], angular["prefactor"], angular["cos_scale"], a["activation"]["alpha"])
        if known != (0.25, 2.0, 0.95, 0.1):
            raise Unsupported(f"TorchANI has prefactors 0.25 and 2, cos_scale 0.95 and alpha 0.1; the file has {known}")
        aev = torchani.aev.AEVComputer.from_constants(
            radial_cutoff=radial["cutoff"],
            angular_cutoff=angular["cutoff"],
            radial_eta=radial["eta"],
            radial_shifts=radial["shifts"],
            angular_eta=angular["eta"],
            angular_zeta=angular["zeta"],
            angular_shifts=angular["shifts"],
            sections=angular["sections"],
            num_species=len(symbols),
        )
        members = [
            torchani.nn.ANINetworks({e: self._network(torchani, a["dims"][e], tensors, m, e) for e in symbols})
            for m in range(a["n_members"])
        ]
        self.offsets, self.unit = head["energy_offsets"], head["units"]["energy_in_eV"]
        self.model = torchani.arch.ANI(
            symbols, aev, torchani.nn.Ensemble(members), torchani.sae.SelfEnergy(symbols, [0.0] * len(symbols))
        ).double()
        if a["constants"] == "exact":
            self._exact(radial, angular)

    def _network(self, torchani, dims, tensors, m, e):
        network = torchani.nn.AtomicNetwork(tuple(dims), activation=torchani.nn.TightCELU(), bias=True)
        for l, linear in enumerate([*network.layers, network.final_layer]):
            for kind in ("weight", "bias"):
                values = self.torch.tensor(tensors[f"member.{m}.{e}.{l}.{kind}"])
                getattr(linear, kind).data = values.reshape(getattr(linear, kind).shape)
        return network

    def _exact(self, radial, angular):
        """TorchANI makes its constants in float32; those of the file again, in double."""
        state = self.model.state_dict()
        for name, value in (
            ("radial.eta", radial["eta"]),
            ("radial.shifts", radial["shifts"]),
            ("angular.eta", angular["eta"]),
            ("angular.zeta", angular["zeta"]),
            ("angular.shifts", angular["shifts"]),
            ("angular.sections", angular["sections"]),
        ):
            key = next(k for k in state if k.endswith(name))
            state[key].copy_(self.torch.tensor(np.ravel(value)).reshape(state[key].shape))

    def evaluate(self, s):
        torch = self.torch
        x = torch.tensor(np.asarray(s["positions"], float))[None]
        strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        deform = torch.eye(3, dtype=torch.float64) + 0.5 * (strain + strain.T)
        x = x.requires_grad_()
        numbers = torch.tensor([[NUMBERS[e] for e in s["elements"]]])
        if s["cell"] is None:
            energy = self.model((numbers, x @ deform)).energies.sum()
        else:
            cell = torch.tensor(np.asarray(s["cell"], float)) @ deform
            energy = self.model((numbers, x @ deform), cell, torch.tensor([True] * 3)).energies.sum()
        gradient, of_strain = torch.autograd.grad(energy, (x, strain))
        total = float(energy.detach()) + sum(self.offsets[e] for e in s["elements"])
        return total * self.unit, -gradient[0].numpy() * self.unit, -six(of_strain.numpy()) * self.unit


class Orb:
    """Orb-v2 built by orb-models."""

    def __init__(self, head, tensors):
        import torch
        from orb_models.forcefield.atomic_system import SystemConfig, ase_atoms_to_atom_graphs
        from orb_models.forcefield.pretrained import orb_v2_architecture

        self.torch, self.graphs, o = torch, ase_atoms_to_atom_graphs, head["orb"]
        if (o["n_features"], o["n_hidden"], o["n_interactions"], o["n_neighbours"]) != (256, 512, 15, 20):
            raise Unsupported(
                "orb-models builds the network of orb-v2 (256 features, 15 layers, 20 neighbors); this is another"
            )
        self.config = SystemConfig(radius=head["cutoff"], max_num_neighbors=20)
        self.model = orb_v2_architecture(system_config=self.config, device="cpu").eval()
        state = {k: v.detach().numpy().copy() for k, v in self.model.state_dict().items()}
        for name, value in self._names(head, tensors).items():
            state[name] = value
        numbers = [NUMBERS[e] for e in head["elements"]]
        state["model.atom_emb.embeddings.weight"][numbers] = tensors["embedding"]
        reference = state["heads.energy.reference.linear.weight"].reshape(-1)
        self.offsets = head["energy_offsets"]
        reference[:] = 0.0
        state["heads.energy.reference.linear.weight"] = reference
        fill(torch, self.model, state)
        self.model = self.model.double()

    @staticmethod
    def _names(head, tensors):
        """Tensors of the file under orb-models' names."""
        out = {}
        for name, value in tensors.items():
            part, *rest = name.split(".")
            if part == "embedding":
                continue
            if part == "layer":
                place = (
                    f"model.gnn_stacks.{rest[0]}._"
                    + {"edge": "edge_mlp", "node": "node_mlp", "receive": "receive_attn", "send": "send_attn"}[rest[1]]
                )
                rest = rest[2:]
            elif part in ("node_encoder", "edge_encoder"):
                place = "model._encoder._" + part.split("_")[0] + "_fn"
            else:
                place = "heads." + part
            if len(rest) == 2:
                rest[0] = "layer_norm" if rest[0] == "norm" else f"mlp.NN-{rest[0]}"
            out[".".join([place, *rest])] = value
        for part, (mean, variance) in head["orb"]["normalizers"].items():
            out[f"heads.{part}.normalizer.bn.running_mean"], out[f"heads.{part}.normalizer.bn.running_var"] = (
                mean,
                variance,
            )
        return out

    def evaluate(self, s):
        from ase import Atoms

        torch = self.torch
        torch.set_default_dtype(torch.float64)
        atoms = Atoms(s["elements"], s["positions"], cell=s["cell"], pbc=s["cell"] is not None)
        graph = self.graphs(atoms, system_config=self.config, device=torch.device("cpu"), edge_method="knn_scipy")
        with torch.no_grad():
            out = self.model.predict(graph)
        energy = float(out["energy"][0]) + sum(self.offsets[e] for e in s["elements"])
        virial = None
        if s["cell"] is not None:
            virial = -abs(np.linalg.det(s["cell"])) * out["stress"][0].double().numpy()[[0, 1, 2, 5, 4, 3]]
        return energy, out["forces"].double().numpy(), virial


class SchNetPack:
    """PaiNN built by SchNetPack."""

    def __init__(self, head, tensors):
        import torch
        import torch.utils.data.dataloader as dataloader

        if not hasattr(dataloader, "T_co"):  # a private name that schnetpack.data imports and newer PyTorch dropped
            dataloader.T_co = typing.TypeVar("T_co", covariant=True)
        import schnetpack as spk

        self.torch, self.spk, p, self.cutoff = torch, spk, head["painn"], head["cutoff"]
        basis = {"gaussian": spk.nn.GaussianRBF, "bessel": spk.nn.BesselRBF}.get(p["radial_basis"]["kind"])
        if basis is None:
            raise Unsupported(f"SchNetPack has no radial basis '{p['radial_basis']['kind']}'")
        network = spk.representation.PaiNN(
            n_atom_basis=p["n_features"],
            n_interactions=p["n_interactions"],
            radial_basis=basis(n_rbf=p["radial_basis"]["n"], cutoff=self.cutoff),
            cutoff_fn=spk.nn.CosineCutoff(self.cutoff),
            epsilon=p["epsilon"],
        )
        readout = spk.atomistic.Atomwise(n_in=p["n_features"], n_hidden=p["n_readout"], output_key="energy")
        self.model = (
            spk.model.NeuralNetworkPotential(
                representation=network,
                input_modules=[spk.atomistic.Strain(), spk.atomistic.PairwiseDistances()],
                output_modules=[readout, spk.atomistic.Forces(calc_stress=True)],
            )
            .double()
            .eval()
        )
        state = {k: v.detach().numpy().copy() for k, v in self.model.state_dict().items()}
        state.update(self._names(p["n_interactions"], tensors))
        state["representation.embedding.weight"][[NUMBERS[e] for e in head["elements"]]] = tensors["embedding"]
        state["representation.cutoff_fn.cutoff"] = np.array([self.cutoff])
        fill(torch, self.model, state)
        self.offsets, self.unit = head["energy_offsets"], head["units"]["energy_in_eV"]

    @staticmethod
    def _names(n_interactions, tensors):
        """Tensors of the file under SchNetPack's names."""
        out = {}
        for kind in ("weight", "bias"):
            out[f"representation.filter_net.{kind}"] = np.concatenate(
                [tensors[f"filter.{l}.{kind}"] for l in range(n_interactions)]
            )
            for l in range(n_interactions):
                for k in ("0", "1"):
                    out[f"representation.interactions.{l}.interatomic_context_net.{k}.{kind}"] = tensors[
                        f"context.{l}.{k}.{kind}"
                    ]
                    out[f"representation.mixing.{l}.intraatomic_context_net.{k}.{kind}"] = tensors[
                        f"mixing.{l}.{k}.{kind}"
                    ]
            for k in ("0", "1"):
                out[f"output_modules.0.outnet.{k}.{kind}"] = tensors[f"readout.{k}.{kind}"]
        for l in range(n_interactions):
            out[f"representation.mixing.{l}.mu_channel_mix.weight"] = tensors[f"channel_mix.{l}.weight"]
        for name in ("offsets", "widths", "freqs"):
            if f"basis.{name}" in tensors:
                out[f"representation.radial_basis.{name}"] = tensors[f"basis.{name}"]
        return out

    def evaluate(self, s):
        import schnetpack.properties as keys
        from ase import Atoms
        from ase.neighborlist import neighbor_list

        torch, cell = self.torch, s["cell"]
        atoms = Atoms(s["elements"], s["positions"], cell=cell, pbc=cell is not None)
        i, j, shift = neighbor_list("ijS", atoms, self.cutoff)
        order = np.argsort(i, kind="stable")
        real = lambda values: torch.tensor(np.asarray(values, float))
        out = self.model(
            {
                keys.Z: torch.tensor(atoms.numbers),
                keys.R: real(atoms.positions),
                keys.cell: real(atoms.cell.array)[None],
                keys.pbc: torch.tensor(atoms.pbc)[None],
                keys.idx_m: torch.zeros(len(atoms), dtype=torch.long),
                keys.n_atoms: torch.tensor([len(atoms)]),
                keys.idx_i: torch.tensor(i[order]),
                keys.idx_j: torch.tensor(j[order]),
                keys.offsets: real(shift[order] @ atoms.cell.array),
            }
        )
        energy = float(out["energy"].detach()) + sum(self.offsets[e] for e in s["elements"])
        virial = None
        if cell is not None:
            virial = -six(out["stress"][0].detach().numpy()) * abs(np.linalg.det(cell)) * self.unit
        return energy * self.unit, out["forces"].detach().numpy() * self.unit, virial


PACKAGES = {
    "torchani": TorchANI,
    "orb-models": Orb,
    "schnetpack": SchNetPack,
    "nequix": Nequix,
    "sevenn": SevenNet,
    "nequip": NequIP,
    "mace": MACE,
    "matgl": TensorNet,
}

OWN_REPULSION = {"mace": "mace", "nequip": "nequip"}  # package -> kind of the repulsion that its networks have


def differences(structure, a, b):
    """Differences of two (energy, forces, virial) in eV/atom, eV/A and, with virials and a cell, eV/A^3."""
    stress = None
    if structure["cell"] is not None and a[2] is not None and b[2] is not None:
        stress = float(np.max(np.abs(a[2] - b[2])) / abs(np.linalg.det(structure["cell"])))
    return abs(a[0] - b[0]) / len(a[1]), float(np.max(np.abs(a[1] - b[1]))), stress


class NotCompared(Unsupported):
    """The package cannot evaluate one structure."""


class _WithRepulsion:
    """A package's network, and the repulsion of the model file by numpy, which the package does not have. Packages have
    no clamped distances either, so that kind clamped is compared without close pairs only."""

    def __init__(self, original, head):
        self.original, self.head = original, head

    def evaluate(self, s):
        if self.head["repulsion"]["kind"] == "clamped" and reference.is_repelled(self.head, s):
            raise NotCompared("not compared: atoms within the repulsion")
        return reference.with_repulsion(self.head, s, self.original.evaluate(s))


def build(package, head, tensors):
    """The package's own network with the weights of a model file; Unsupported when it cannot have it."""
    kind = head.get("repulsion", {}).get("kind")
    if kind not in (None, "zbl", "clamped", OWN_REPULSION.get(package)):
        raise Unsupported(f"the file has a repulsion of kind {kind}, which {package} does not compute")
    original = PACKAGES[package](head, tensors)
    return _WithRepulsion(original, head) if kind in ("zbl", "clamped") else original


def within(found, limits):
    """Whether all differences that there are keep to the limits; NaN does not."""
    return all(d is None or d <= limit for d, limit in zip(found, limits))


def compare(path, package, structures, program=None):
    """[(name, atoms, energy eV/atom, forces eV/A, virial eV/A^3 or None)]: differences between the package and mlff;
    (name, atoms, reason) of a structure that the package cannot evaluate."""
    head, tensors = modelfile.read(path)
    if head["architecture"] != ARCHITECTURES[package]:
        raise ModelError(f"{path}: architecture '{head['architecture']}', and {package} has '{ARCHITECTURES[package]}'")
    warnings.filterwarnings("ignore")
    original, rows = build(package, head, tensors), []
    ours, _ = engine.evaluate(modelfile.model_paths(path)[0], structures, "fp64", program)
    for s, result in zip(structures, ours):
        try:
            found = differences(s, result, original.evaluate(s))
        except NotCompared as e:
            found = (str(e),)
        rows.append((s["name"], len(s["elements"]), *found))
    return rows


def table(rows, limits):
    """(text, whether all differences are within the limits). Without any difference there is no agreement."""
    lines = [f"{'structure':28s}{'atoms':>6s}{'energy eV/atom':>18s}{'forces eV/A':>16s}{'stress eV/A^3':>16s}"]
    good = any(len(found) > 1 for _, _, *found in rows)
    for name, n, *found in rows:
        if len(found) == 1:
            lines.append(f"{name[:27]:28s}{n:6d}    {found[0]}")
            continue
        passed = within(found, limits)
        good = good and passed
        cells = "".join(f"{'-' if d is None else format(d, '.2e'):>{w}s}" for d, w in zip(found, (18, 16, 16)))
        lines.append(f"{name[:27]:28s}{n:6d}{cells}  {'ok' if passed else 'DIFFERS'}")
    lines.append(f"{'allowed':34s}" + "".join(f"{limit:{w}.0e}" for limit, w in zip(limits, (18, 16, 16))))
    return "\n".join(lines), good


def _elsewhere(package, arguments):
    """Runs this command in the Python that MLFF_TORCH_PYTHON names; its exit status, or ModelError."""
    python = os.environ.get("MLFF_TORCH_PYTHON")
    if not python or os.environ.get("MLFF_AGAINST"):
        raise ModelError(
            f"{package} is not installed in {sys.executable}: pip install {DISTRIBUTIONS[package]}, or let "
            "MLFF_TORCH_PYTHON name a Python that has it"
        )
    places = os.path.dirname(PACKAGE)
    env = dict(os.environ, MLFF_AGAINST="1", PYTHONPATH=places + os.pathsep + os.environ.get("PYTHONPATH", ""))
    return subprocess.run([python, "-m", "mlff_tools", "against", *arguments], env=env, check=False).returncode


@one_line("mlff verify")
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="mlff verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="model file, NAME.yaml")
    parser.add_argument(
        "structures", nargs="*", help="(extended) XYZ files; without any: the file's self-test structures"
    )
    parser.add_argument(
        "--against", required=True, choices=sorted(PACKAGES), metavar="PACKAGE", help=", ".join(sorted(PACKAGES))
    )
    parser.add_argument("--mlff", metavar="PATH", help="the program mlff (else $MLFF, build folders, PATH)")
    argv = sys.argv[1:] if argv is None else argv
    args = parser.parse_intermixed_args(argv)
    if not importlib.util.find_spec(MODULES[args.against]):
        return _elsewhere(args.against, argv)
    args.model = modelfile.find_model(args.model)
    structures = [s for path in args.structures for s in read_xyz(path)]
    if not args.structures:
        structures = [
            {**s, "cell": None if s["cell"] == "none" else s["cell"]}
            for s in modelfile.read(args.model)[0]["self_test"]["structures"]
        ]
    if not structures:
        raise ModelError(f"{args.model} has no self-test structures: give XYZ files")
    text, good = table(compare(args.model, args.against, structures, args.mlff), LIMITS[args.against])
    print(f"{args.model} in mlff (fp64) against {args.against} (float64)\n{text}")
    return 0 if good else 1
