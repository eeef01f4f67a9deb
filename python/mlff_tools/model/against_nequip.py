"""The part of against.py that knows the packages of the NequIP family: Nequix (JAX) and SevenNet (PyTorch, e3nn)."""

import numpy as np

from .against_base import Unsupported, edges, refuse, six
from .modelfile import NUMBERS, nequip_layers, nequix_order


class Nequix:
    """A network built by Nequix; energies of free atoms, which it would round, are added here."""

    def __init__(self, head, tensors):
        import jax

        jax.config.update("jax_enable_x64", True)
        import e3nn_jax
        import equinox
        import jax.numpy as jnp
        from nequix.model import Nequix as Network

        p, self.jnp = head["nequip"], jnp
        hidden, divisors, scale = p["radial_network"]["hidden"], set(p["message_divisor"]), tensors["energy_scale"]
        refuse(
            "nequix",
            {
                "paths": (p["paths"], "even"),
                "embedding": (p["embedding"], "one_hot"),
                "radial_basis": (p["radial_basis"]["kind"], "bessel"),
                "cutoff_function": (p["cutoff_function"]["kind"], "polynomial"),
                "norm": (p["norm"], {"kind": "rms", "epsilon": 1e-12}),
                "n_readout": (p["n_readout"], []),
                "radial_network.activation_norm": (p["radial_network"]["activation_norm"], 1.0),
                "radial_network.fan_in": (p["radial_network"]["fan_in"], "none"),
                "numbers of widths, divisors and scales": (
                    (len(set(hidden)), len(divisors), len(set(scale))),
                    (1, 1, 1),
                ),
            },
        )
        norm = float(e3nn_jax.normalize_function(jax.nn.silu)(1.0) / jax.nn.silu(1.0))
        if abs(norm * p["activation_norm"] - 1) > 1e-12:
            raise Unsupported(f"nequix has activation_norm {1 / norm}; the file has {p['activation_norm']}")
        network = Network(
            key=jax.random.key(0),
            n_species=len(head["elements"]),
            lmax=p["lmax"],
            cutoff=head["cutoff"],
            hidden_irreps=" + ".join(f"{n}x{l}{'eo'[l % 2]}" for l, n in enumerate(p["n_channels"])),
            n_layers=p["n_layers"],
            radial_basis_size=p["radial_basis"]["n"],
            radial_mlp_size=hidden[0],
            radial_mlp_layers=len(hidden),
            radial_polynomial_p=p["cutoff_function"]["p"],
            index_weights=False,
            layer_norm=True,
            shift=0.0,
            scale=float(scale[0]),
            avg_n_neighbors=divisors.pop() ** 2,
        )
        weights, rest = equinox.partition(network, equinox.is_array)
        values = [np.zeros(len(head["elements"])), *(tensors[name].T for name in nequix_order(head))]
        if [x.shape for x in jax.tree.leaves(weights)] != [v.shape for v in values]:
            raise Unsupported("nequix has arrays of other shapes: is this version of the package supported?")
        values = [jnp.asarray(np.asarray(v, np.float64)) for v in values]
        self.model = equinox.combine(jax.tree.unflatten(jax.tree.structure(weights), values), rest)
        self.run = equinox.filter_jit(self.model)
        self.index = {e: k for k, e in enumerate(head["elements"])}
        self.cutoff, self.offsets = head["cutoff"], head["energy_offsets"]

    def _graph(self, s):
        """Padded: without a second graph the package sets all forces to zero. A missing cell gets a substitute."""
        import jraph

        i, j, shifts, cell = edges(s, self.cutoff)
        n = len(s["elements"])
        graph = jraph.GraphsTuple(
            n_node=np.array([n], np.int32),
            n_edge=np.array([len(i)], np.int32),
            nodes={
                "species": np.array([self.index[e] for e in s["elements"]], np.int32),
                "positions": np.asarray(s["positions"], np.float64),
            },
            edges={"shifts": shifts.astype(np.float64)},
            senders=j.astype(np.int32),
            receivers=i.astype(np.int32),
            globals={"cell": (np.eye(3) if s["cell"] is None else cell)[None]},
        )
        room = 1024 << max(0, int(np.ceil(np.log2((len(i) + 1) / 1024))))  # few sizes: each is compiled
        return jraph.pad_with_graphs(graph, n_node=16 * (n // 16 + 1), n_edge=room, n_graph=2)

    def evaluate(self, s):
        energy, forces, stress = self.run(self._graph(s))
        n = len(s["elements"])
        total, virial = float(energy[0]) + sum(self.offsets[e] for e in s["elements"]), None
        if s["cell"] is not None:
            virial = -six(np.array(stress[0])) * abs(np.linalg.det(s["cell"]))
        return total, np.array(forces[:n]), virial


class SevenNet:
    """A network built by SevenNet, in double from the start: else e3nn rounds its coefficients."""

    def __init__(self, head, tensors):
        import sevenn._keys as keys
        import torch
        from e3nn.math import normalize2mom
        from sevenn._const import DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG
        from sevenn.model_build import build_E3_equivariant_model

        torch.set_default_dtype(torch.float64)
        p, self.torch, self.keys, self.cutoff = head["nequip"], torch, keys, head["cutoff"]
        width, norm = p["n_channels"][0], 1 / normalize2mom(torch.nn.functional.silu).cst
        refuse(
            "sevenn",
            {
                "paths": (p["paths"], "all"),
                "embedding": (p["embedding"], "linear"),
                "radial_basis": (p["radial_basis"]["kind"], "trained"),
                "norm": (p["norm"], {"kind": "none"}),
                "n_readout": (p["n_readout"], [width // 2]),
                "radial_network.fan_in": (p["radial_network"]["fan_in"], "sqrt"),
            },
        )
        for value in (p["activation_norm"], p["radial_network"]["activation_norm"]):
            if abs(value / norm - 1) > 1e-12:
                raise Unsupported(f"sevenn has activation_norm {norm}; the file has {value}")
        symbols, scalars = head["elements"], f"{width}x0e"
        between = "+".join(f"{n}x{l}e" for l, n in enumerate(p["n_channels"]))
        f = p["cutoff_function"]
        polynomial = {"cutoff_function_name": "poly_cut", "poly_cut_p_value": f.get("p")}
        config = {
            **DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG,
            "cutoff": head["cutoff"],
            "channel": width,
            "irreps_manual": [scalars, *[between] * (p["n_layers"] - 1), scalars],
            "lmax": p["lmax"],
            "is_parity": False,
            "num_convolution_layer": p["n_layers"],
            "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": p["radial_basis"]["n"]},
            "cutoff_function": polynomial if "p" in f else {"cutoff_function_name": "XPLOR", "cutoff_on": f["onset"]},
            "weight_nn_hidden_neurons": p["radial_network"]["hidden"],
            "conv_denominator": list(p["message_divisor"]),
            "self_connection_type": "linear",
            "shift": [0.0] * len(symbols),
            "scale": [float(x) for x in tensors["energy_scale"]],
            "_number_of_species": len(symbols),
            "_type_map": {NUMBERS[e]: k for k, e in enumerate(symbols)},
        }
        self.model = build_E3_equivariant_model(config).double().eval()
        self.model.set_is_batch_data(False)
        self._fill(self._names(head, tensors))
        self.offsets = head["energy_offsets"]

    @staticmethod
    def _names(head, tensors):
        """Tensors of the file under SevenNet's names; one row of matrices [in, out] per linear layer."""

        def row(name, orders):
            return np.concatenate([np.ravel(tensors[f"{name}.l{l}"].T) for l in orders])

        out = {
            "edge_embedding.basis_function.coeffs": tensors["radial_frequencies"],
            "onehot_to_feature_x.linear.weight": np.ravel(tensors["embedding"].T),
            "reduce_input_to_hidden.linear.weight": np.ravel(tensors["readout.0"].T),
            "reduce_hidden_to_energy.linear.weight": np.ravel(tensors["readout.1"].T),
            "rescale_atomic_energy.scale": tensors["energy_scale"],
        }
        for t, layer in enumerate(nequip_layers(head)):
            for k in range(len(head["nequip"]["radial_network"]["hidden"]) + 1):
                out[f"{t}_convolution.weight_nn.layer{k}.weight"] = tensors[f"layers.{t}.radial_mlp.{k}"].T
            out[f"{t}_convolution.denominator"] = np.array([head["nequip"]["message_divisor"][t]])
            both = [l for l in layer.inputs if l in layer.sums]
            for theirs, ours, orders in (
                ("self_interaction_1", "linear_1", layer.inputs),
                ("self_interaction_2", "linear_2", layer.sums),
                ("self_connection_intro", "skip", both),
            ):
                out[f"{t}_{theirs}.linear.weight"] = row(f"layers.{t}.{ours}", orders)
        return out

    def _fill(self, values):
        """Every parameter but the energies of free atoms, which are zero here, must have its value."""
        parameters = {k: v for k, v in self.model.named_parameters() if v.numel() and not k.endswith("energy.shift")}
        strange = sorted(set(parameters) ^ set(values))
        if strange:
            raise Unsupported(f"sevenn and the model file differ in '{strange[0]}': is this version supported?")
        with self.torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.torch.tensor(np.asarray(values[name], np.float64)).reshape(parameter.shape))

    def evaluate(self, s):
        torch, keys = self.torch, self.keys
        torch.set_default_dtype(torch.float64)
        i, j, shifts, cell = edges(s, self.cutoff)
        real = lambda values: torch.tensor(np.asarray(values, np.float64))
        x, strain, shifts = real(s["positions"]).requires_grad_(), torch.zeros(3, 3, requires_grad=True), real(shifts)
        deform = torch.eye(3) + 0.5 * (strain + strain.T)
        moved, box, ends = x @ deform, real(cell) @ deform, torch.tensor(np.stack([i, j]))
        data = {
            keys.NODE_FEATURE: torch.tensor([self.model.type_map[NUMBERS[e]] for e in s["elements"]]),
            keys.ATOMIC_NUMBERS: torch.tensor([NUMBERS[e] for e in s["elements"]]),
            keys.POS: moved,
            keys.EDGE_IDX: ends,
            keys.EDGE_VEC: moved[ends[1]] - moved[ends[0]] + shifts @ box,
            keys.CELL: box,
            keys.CELL_SHIFT: shifts,
            keys.CELL_VOLUME: torch.det(real(cell)).abs(),
            keys.NUM_ATOMS: torch.tensor([len(x)]),
            keys.BATCH: torch.zeros(len(x), dtype=torch.int64),
        }
        for name, module in self.model._modules.items():
            if name == "force_output":
                break
            data = module(data)
            if name == "onehot_idx_to_onehot":  # which is float32 always
                data[keys.NODE_FEATURE] = data[keys.NODE_FEATURE].double()
        energy = data[keys.PRED_TOTAL_ENERGY].reshape(())
        gradient, of_strain = torch.autograd.grad(energy, (x, strain)) if len(i) else (0 * x, strain)
        total = float(energy.detach()) + sum(self.offsets[e] for e in s["elements"])
        virial = None if s["cell"] is None else -six(of_strain.numpy())
        return total, -gradient.detach().numpy(), virial
