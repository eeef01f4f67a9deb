"""Other side of the speed comparison: TorchANI, SchNetPack, orb-models, SevenNet, mace-torch, matgl (PyTorch),
symmetrix-xl (C++) or Nequix (JAX).

Each is evaluated in a process of its own.

  $MLFF_TORCH_PYTHON torch_programs.py ani|painn|orb|nequix|sevennet|mace|tensornet WEIGHTS [THREADS]

The process reads one JSON object per line and answers with one per line, so that the caller can interleave its
evaluations with those of other programs:

  {"do": "system", "numbers": [...], "positions": [...], "cell": [...]}   what to evaluate; answers with versions
  {"do": "check", "variant": NAME}          energy (eV) and forces (eV/A), to compare results before speed
  {"do": "time", "variant": NAME, "n": N}   wall and CPU seconds of each of N evaluations of energy and forces

It has the packages themselves and PyTorch to import, and nothing of this project. One thread unless told otherwise,
float32.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time
import typing
import warnings

HARTREE_IN_EV = 27.211386024367243
# All compared PaiNN models have this cutoff.
PAINN_CUTOFF = 5.0


def import_torch():
    """The module torch, with one thread or as many as the third argument says."""
    os.environ["TORCHANI_NO_WARN_EXTENSIONS"] = "1"
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    return torch


class TorchANI:
    """ANI-2x, ensemble of eight, in TorchANI. A variant is KIND/NEIGHBOURLIST with KIND plain, infer or script."""

    def __init__(self, weights):
        import torchani

        self.torchani = torchani
        self.weights = weights
        self.models = {}

    def versions(self):
        return {"torchani": self.torchani.__version__}

    def set_system(self, numbers, positions, cell):
        self.numbers = torch.tensor(numbers)[None]
        self.positions = torch.tensor(positions, dtype=torch.float32)[None]
        self.cell = torch.tensor(cell, dtype=torch.float32)
        self.periodic = torch.tensor([True, True, True])

    def _assemble(self, neighbourlist):
        from torchani.arch import Assembler
        from torchani.utils import SYMBOLS_2X

        assembler = Assembler(periodic_table_index=True)
        assembler.set_symbols(SYMBOLS_2X)
        assembler.set_global_cutoff_fn("cosine")
        assembler.set_aev_computer(radial="ani2x", angular="ani2x", strategy="pyaev")
        assembler.set_atomic_networks(ctor="ani2x")
        assembler.set_neighborlist(neighbourlist)
        assembler.set_gsaes_as_self_energies("wb97x-631gd")
        return assembler.assemble(8)

    def _load(self, model):
        """Puts the published weights, named ensemble.{member}.{element}.{layer}.{kind}, into every linear layer."""
        from safetensors.torch import load_file

        tensors, used = load_file(self.weights), set()
        with torch.no_grad():
            for m, member in enumerate(model.nnp.neural_networks.members):
                for element, network in member.atomics.items():
                    for l, linear in enumerate([*network.layers, network.final_layer]):
                        for kind in ("weight", "bias"):
                            name = f"ensemble.{m}.{element}.{l}.{kind}"
                            target = getattr(linear, kind)
                            if target.shape != tensors[name].shape:
                                raise ValueError(f"{name} is {tensors[name].shape}, TorchANI has {target.shape}")
                            target.copy_(tensors[name])
                            used.add(name)
        if used != set(tensors):
            raise ValueError(f"{len(set(tensors) - used)} tensors of {self.weights} have no place in TorchANI")

    def _model(self, variant):
        if variant not in self.models:
            kind, neighbourlist = variant.split("/")
            model = self._assemble(neighbourlist)
            self._load(model)
            model.requires_grad_(False)
            model = model.to(torch.float32)
            # The sum of self energies, 1e5 times the interaction, is added by the caller in double precision.
            model.energy_shifter._enabled = False
            if kind == "infer":
                model = model.to_infer_model(use_mnp=False)
            elif kind == "script":
                model = torch.jit.script(model)
            elif kind != "plain":
                raise ValueError(f"variant '{variant}' is not known")
            self.models[variant] = model
        return self.models[variant]

    def evaluate(self, variant):
        """Energy without self energies (eV) and forces (eV/A); the neighbor list is part of it."""
        x = self.positions.clone().requires_grad_(True)
        energy = self._model(variant)((self.numbers, x), self.cell, self.periodic).energies
        return energy, -torch.autograd.grad(energy.sum(), x)[0]

    def in_ev(self, energy, forces):
        return float(energy.double()) * HARTREE_IN_EV, (forces[0].double() * HARTREE_IN_EV).tolist()


class SchNetPack:
    """PaiNN in SchNetPack. Variants: loaded (as the package loads it), frozen (no parameter gradients), script."""

    def __init__(self, weights):
        # PyTorch 2.13 has dropped a private name that schnetpack.data imports.
        import torch.utils.data.dataloader as dataloader

        if not hasattr(dataloader, "T_co"):
            dataloader.T_co = typing.TypeVar("T_co", covariant=True)
        import schnetpack

        self.spk = schnetpack
        self.weights = weights
        self.models = {}

    def versions(self):
        return {"schnetpack": self.spk.__version__}

    def set_system(self, numbers, positions, cell):
        """Builds the neighbor list once: it is not part of what is timed."""
        import numpy as np
        import schnetpack.properties as keys
        from ase import Atoms
        from matscipy.neighbours import neighbour_list

        atoms = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True)
        i, j, shift = neighbour_list("ijS", atoms, PAINN_CUTOFF)
        order = np.argsort(i, kind="stable")
        i, j, offsets = i[order], j[order], (shift[order] @ atoms.cell.array)
        self.inputs = {
            keys.Z: torch.tensor(atoms.numbers),
            keys.R: torch.tensor(atoms.positions, dtype=torch.float32),
            keys.cell: torch.tensor(atoms.cell.array, dtype=torch.float32)[None],
            keys.pbc: torch.tensor(atoms.pbc)[None],
            keys.idx_m: torch.zeros(len(atoms), dtype=torch.long),
            keys.n_atoms: torch.tensor([len(atoms)]),
            keys.idx_i: torch.tensor(i, dtype=torch.long),
            keys.idx_j: torch.tensor(j, dtype=torch.long),
            keys.offsets: torch.tensor(offsets, dtype=torch.float32),
        }

    def _build(self):
        from safetensors.torch import load_file

        spk = self.spk
        basis = spk.nn.GaussianRBF(n_rbf=20, cutoff=PAINN_CUTOFF)
        network = spk.representation.PaiNN(
            n_atom_basis=128, n_interactions=3, radial_basis=basis, cutoff_fn=spk.nn.CosineCutoff(PAINN_CUTOFF)
        )
        model = spk.model.NeuralNetworkPotential(
            representation=network,
            input_modules=[spk.atomistic.PairwiseDistances()],
            output_modules=[spk.atomistic.Atomwise(n_in=128, output_key="energy"), spk.atomistic.Forces()],
        ).eval()
        model.load_state_dict(load_file(self.weights), strict=True)
        return model

    def _model(self, variant):
        if variant not in self.models:
            model = self._build()
            if variant != "loaded":
                model.requires_grad_(False)
            if variant == "script":
                model = torch.jit.script(model)
            elif variant not in ("loaded", "frozen"):
                raise ValueError(f"variant '{variant}' is not known")
            self.models[variant] = model
        return self.models[variant]

    def evaluate(self, variant):
        results = self._model(variant)({name: value.detach().clone() for name, value in self.inputs.items()})
        return results["energy"], results["forces"]

    def in_ev(self, energy, forces):
        return float(energy.detach().double()), forces.detach().double().tolist()


class Orb:
    """Orb-v2 of full size in orb-models, random weights of a seed: the cost does not depend on them. One variant:
    predict, as its calculator calls it: graph, energy, forces and stress."""

    def __init__(self, weights):
        from orb_models.forcefield.atomic_system import SystemConfig, ase_atoms_to_atom_graphs
        from orb_models.forcefield.pretrained import orb_v2_architecture

        self.graphs, self.config = ase_atoms_to_atom_graphs, SystemConfig(radius=6.0, max_num_neighbors=20)
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("highest")
        self.model = orb_v2_architecture(system_config=self.config, device="cpu").eval()
        self.model.requires_grad_(False)
        for head in ("energy", "forces", "stress"):
            bn = self.model.heads[head].normalizer.bn
            bn.running_mean, bn.running_var = torch.tensor([0.0125]), torch.tensor([0.61])
        if not os.path.exists(weights):
            torch.save(self.model.state_dict(), weights)

    def versions(self):
        from importlib.metadata import version

        return {"orb-models": version("orb-models")}

    def set_system(self, numbers, positions, cell):
        from ase import Atoms

        self.atoms = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True)

    def evaluate(self, variant):
        if variant != "predict":
            raise ValueError(f"variant '{variant}' is not known")
        with torch.no_grad():
            out = self.model.predict(self.graphs(self.atoms, system_config=self.config, device=torch.device("cpu")))
        return out["energy"], out["forces"]

    def in_ev(self, energy, forces):
        return float(energy.double()), forces.double().tolist()


class Nequix:
    """Nequix in JAX. One variant: calculator, the network as the package's calculator calls it: compiled, with room for
    more edges and atoms; energy, forces and stress."""

    def __init__(self, weights):
        from nequix.calculator import NequixCalculator

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.nqx")
            self._write(path, weights)
            self.calculator = NequixCalculator(model_path=path, use_kernel=False)  # its kernels are for GPUs

    @staticmethod
    def _write(path, weights):
        """Writes the package's file (a line of JSON and the arrays in the order of its layers) and its description from
        the named tensors in `weights`, matrices [out, in]."""
        import numpy as np
        import yaml
        from safetensors.numpy import load_file

        with open(os.path.splitext(weights)[0] + ".yaml", encoding="utf-8") as file:
            source = yaml.safe_load(file)
        hidden = source["radial_mlp"]["layers"][1:]
        config = {
            **{key: source[key] for key in ("atomic_numbers", "cutoff", "lmax", "n_layers", "scale", "shift")},
            "avg_n_neighbors": source["avg_n_neighbors"],
            "hidden_irreps": " + ".join(f"{n}x{l}{'eo'[l % 2]}" for n, l in source["layer"][0]["irreps_out"]),
            "radial_basis_size": source["radial_basis"]["n"],
            "radial_mlp_size": hidden[0],
            "radial_mlp_layers": len(hidden),
            "radial_polynomial_p": source["radial_basis"]["envelope"]["p"],
            "mlp_init_scale": 4.0,
            "index_weights": False,
            "layer_norm": True,
        }
        tensors, names = load_file(weights), ["atom_energies"]
        for t in range(source["n_layers"]):
            for kind in ("radial_mlp", "linear_1", "linear_2", "skip", "norm"):
                names += sorted(name for name in tensors if name.startswith(f"layers.{t}.{kind}."))
        names.append("readout")
        if set(names) != set(tensors):
            raise ValueError(f"{weights}: {sorted(set(names) ^ set(tensors))} have no place in Nequix")
        with open(path, "wb") as out:
            out.write((json.dumps(config) + "\n").encode())
            for name in names:
                np.save(out, np.ascontiguousarray(tensors[name].T))

    def versions(self):
        from importlib.metadata import version

        return {name: version(name) for name in ("nequix", "jax")}

    def set_system(self, numbers, positions, cell):
        """Builds the neighbor list once: it is not part of what is timed."""
        from ase import Atoms
        from nequix.data import dict_to_graphstuple, preprocess_graph

        atoms, c = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True), self.calculator
        graph = dict_to_graphstuple(preprocess_graph(atoms, c.atom_indices, c.cutoff, False))
        self.graph, self.n_atoms = c._pad_graph_jax(graph, True), len(atoms)

    def evaluate(self, variant):
        import equinox
        import numpy as np

        if variant != "calculator":
            raise ValueError(f"variant '{variant}' is not known")
        energy, forces, stress = equinox.filter_jit(self.calculator.model)(self.graph)
        np.array(stress[0])  # JAX computes while Python goes on: the results must be waited for
        return energy[0].item(), np.array(forces[: self.n_atoms])

    def in_ev(self, energy, forces):
        return energy, forces.tolist()


class SevenNet:
    """SevenNet with a model that is part of its package, whose name stands for the file. One variant: calculator, the
    network as the package's calculator calls it: energy, forces and stress."""

    def __init__(self, weights):
        from sevenn.calculator import SevenNetCalculator

        self.calculator = SevenNetCalculator(weights, device="cpu")

    def versions(self):
        from importlib.metadata import version

        return {"sevenn": version("sevenn")}

    def set_system(self, numbers, positions, cell):
        """Builds the neighbor list once: it is not part of what is timed."""
        from ase import Atoms
        from sevenn.train.dataload import unlabeled_atoms_to_graph

        atoms = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True)
        self.graph = unlabeled_atoms_to_graph(atoms, self.calculator.cutoff, with_shift=False)

    def evaluate(self, variant):
        import sevenn._keys as keys
        from sevenn.atom_graph_data import AtomGraphData

        if variant != "calculator":
            raise ValueError(f"variant '{variant}' is not known")
        out = self.calculator.model(AtomGraphData.from_numpy_dict(dict(self.graph)))
        return out[keys.PRED_TOTAL_ENERGY], out[keys.PRED_FORCE]

    def in_ev(self, energy, forces):
        return float(energy.detach().double()), forces.detach().double().tolist()


class MACE:
    """MACE of a published size with random weights of a seed: the cost does not depend on them. WEIGHTS is the path
    SIZE.model with a SIZE of `sizes`, which is made if it is not there. Variants: mace-torch, its network without the
    neighbor list; symmetrix-xl, its calculator with the list that it keeps."""

    sizes: typing.ClassVar = {
        "mp-small": {"hidden": "128x0e", "cutoff": 6.0, "n_bessel": 10, "first": "Residual", "average": 61.96},
        "mp-medium": {"hidden": "128x0e+128x1o", "cutoff": 6.0, "n_bessel": 10, "first": "Residual", "average": 61.96},
        "off23-small": {"hidden": "96x0e", "cutoff": 4.5, "n_bessel": 8, "first": "", "average": 15.0},
    }
    elements: typing.ClassVar = {"mp": [*range(1, 84), *range(89, 95)], "off23": [1, 6, 7, 8, 9, 15, 16, 17, 35, 53]}

    def __init__(self, weights):
        self.weights, self.calculator = weights, None
        name = os.path.splitext(os.path.basename(weights))[0]
        if not os.path.exists(weights):
            torch.save(self._make(**self.sizes[name], numbers=self.elements[name.split("-")[0]]), weights)
        self.model = torch.load(weights, weights_only=False).float()
        self.model.requires_grad_(False)

    @staticmethod
    def _make(hidden, cutoff, n_bessel, first, average, numbers):
        import numpy as np
        from mace.modules import blocks
        from mace.modules.models import ScaleShiftMACE, o3

        torch.manual_seed(1)
        return ScaleShiftMACE(
            atomic_inter_scale=0.8,
            atomic_inter_shift=0.16,
            r_max=cutoff,
            num_bessel=n_bessel,
            num_polynomial_cutoff=5,
            max_ell=3,
            interaction_cls=blocks.RealAgnosticResidualInteractionBlock,
            interaction_cls_first=getattr(blocks, f"RealAgnostic{first}InteractionBlock"),
            num_interactions=2,
            num_elements=len(numbers),
            hidden_irreps=o3.Irreps(hidden),
            MLP_irreps=o3.Irreps("16x0e"),
            atomic_energies=np.linspace(-9.0, -1.0, len(numbers)),
            avg_num_neighbors=average,
            atomic_numbers=numbers,
            correlation=3,
            gate=torch.nn.functional.silu,
            radial_MLP=[64, 64, 64],
            use_reduced_cg=False,
        ).eval()

    def versions(self):
        from importlib.metadata import PackageNotFoundError, version

        found = {}
        for name in ("mace-torch", "e3nn", "symmetrix-xl"):
            with contextlib.suppress(PackageNotFoundError):
                found[name] = version(name)
        return found

    def set_system(self, numbers, positions, cell):
        """Builds the neighbor list of mace-torch once: it is not part of what is timed."""
        from ase import Atoms
        from mace.calculators import MACECalculator

        self.atoms = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True)
        calculator = MACECalculator(models=[self.model], device="cpu", default_dtype="float32")
        self.batch = calculator._atoms_to_batch(self.atoms)

    def evaluate(self, variant):
        if variant == "symmetrix-xl":
            return self._symmetrix()
        if variant != "mace-torch":
            raise ValueError(f"variant '{variant}' is not known")
        out = self.model(self.batch.to_dict(), compute_stress=True)
        return float(out["energy"].detach()), out["forces"].detach().double().numpy()

    def _symmetrix(self):
        from symmetrix import Symmetrix

        if self.calculator is None:
            self.calculator = Symmetrix(self.weights, dtype="float32")
        self.calculator.calculate(self.atoms, ["energy", "forces", "stress"], ["positions"])
        return self.calculator.results["energy"], self.calculator.results["forces"]

    def in_ev(self, energy, forces):
        return float(energy), forces.tolist()


class TensorNet:
    """TensorNet in matgl; WEIGHTS is an .npz file with the network's tensors by their names in matgl, and "options",
    JSON: arguments of the network, energy_scale, energy_offsets. One variant: calculator, the potential as the
    package's calculator calls it: energy, forces and stress."""

    def __init__(self, weights):
        import numpy as np

        found = dict(np.load(weights))
        options = json.loads(str(found.pop("options")))
        self.backend = os.environ["MATGL_BACKEND"] = options["backend"]
        import matgl
        from matgl.apps.pes import Potential
        from matgl.models import TensorNet as Network

        matgl.set_default_dtype("float", 32)
        self.elements, self.cutoff = options["arguments"]["element_types"], options["arguments"]["cutoff"]
        model = Network(**options["arguments"])
        state = model.state_dict()
        unused = {"bond_expansion.rbf.cutoff", "tensor_embedding.emb3.weight", "tensor_embedding.emb3.bias"}
        if set(state) - unused != set(found):
            raise ValueError(f"{weights}: {sorted((set(state) - unused) ^ set(found))} have no place in matgl")
        model.load_state_dict({**state, **{name: torch.tensor(value) for name, value in found.items()}})
        model.requires_grad_(False)
        offsets = torch.tensor(options["energy_offsets"], dtype=torch.float64)
        self.potential = Potential(model, data_std=options["energy_scale"], element_refs=offsets).eval()

    def versions(self):
        from importlib.metadata import version

        return {name: version(name) for name in ("matgl", "torch-geometric")}

    def set_system(self, numbers, positions, cell):
        """Builds the neighbor list once: it is not part of what is timed."""
        from ase import Atoms

        module = importlib.import_module(f"matgl.ext._ase_{self.backend.lower()}")
        atoms = Atoms(numbers=numbers, positions=positions, cell=cell, pbc=True)
        graphs = module.Atoms2Graph(tuple(self.elements), self.cutoff)
        self.graph, self.lattice, self.state = graphs.get_graph(atoms)

    def evaluate(self, variant):
        if variant != "calculator":
            raise ValueError(f"variant '{variant}' is not known")
        energy, forces, _, _ = self.potential(self.graph, self.lattice, self.state)
        return energy, forces

    def in_ev(self, energy, forces):
        return float(energy.detach().double()), forces.detach().double().tolist()


PROGRAMS = {
    "ani": TorchANI,
    "painn": SchNetPack,
    "orb": Orb,
    "nequix": Nequix,
    "sevennet": SevenNet,
    "mace": MACE,
    "tensornet": TensorNet,
}


def answer(program, request):
    """Dictionary that answers `request`."""
    if request["do"] == "system":
        program.set_system(request["numbers"], request["positions"], request["cell"])
        return {
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__, **program.versions()},
            "threads": torch.get_num_threads(),
        }
    variant = request["variant"]
    if request["do"] == "check":
        energy, forces = program.in_ev(*program.evaluate(variant))
        return {"energy": energy, "forces": forces}
    seconds, cpu_seconds = [], []
    for _ in range(request["n"]):
        start, cpu_start = time.perf_counter(), time.process_time()
        program.evaluate(variant)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds}


def main():
    # Packages print while they are imported; the answers get the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    program = PROGRAMS[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        try:
            reply = answer(program, json.loads(line))
        except Exception as problem:  # the caller decides what a failed variant means
            reply = {"error": f"{type(problem).__name__}: {problem}"[:2000]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    torch = import_torch()
    main()
