"""Files as mace-torch writes them, of a description and its tensors, without PyTorch."""

import collections
import copyreg
import types

import numpy as np
from torch_files import save_module

PACKAGES = {
    "mace.modules.models": "MACE ScaleShiftMACE",
    "mace.modules.blocks": "AtomicEnergiesBlock EquivariantProductBasisBlock LinearNodeEmbeddingBlock "
    "LinearReadoutBlock NonLinearBiasReadoutBlock NonLinearReadoutBlock RadialEmbeddingBlock ScaleShiftBlock",
    "mace.modules.radial": "AgnesiTransform BesselBasis GaussianBasis PolynomialCutoff RadialMLP SoftTransform "
    "ZBLBasis",
    "mace.modules.symmetric_contraction": "Contraction SymmetricContraction",
    "mace.modules.gate": "GatedEquivariantBlock",
    "e3nn.math._normalize_activation": "normalize2mom",
    "e3nn.nn._activation": "Activation",
    "e3nn.nn._fc": "FullyConnectedNet _Layer",
    "e3nn.o3._irreps": "Irrep Irreps _MulIr",
    "e3nn.o3._linear": "Linear",
    "e3nn.o3._spherical_harmonics": "SphericalHarmonics",
    "e3nn.o3._tensor_product._sub": "FullyConnectedTensorProduct",
    "e3nn.o3._tensor_product._tensor_product": "TensorProduct",
    "torch.nn.functional": "silu",
    "torch.nn.modules.activation": "SiLU",
    "torch.nn.modules.container": "ModuleList ParameterList Sequential",
    "torch.nn.modules.normalization": "LayerNorm",
}
PLACES = {kind: package for package, kinds in PACKAGES.items() for kind in kinds.split()}


class Fake:
    """An object that pickles as one of another class."""

    def __init__(self, *arguments, state=None):
        self.arguments, self.state = arguments, state

    def __reduce__(self):
        return copyreg.__newobj__, (type(self), *self.arguments), self.state


class Writer:
    """Makes the objects that a model of mace-torch consists of."""

    def __init__(self, source, tensors):
        self.source, self.tensors, self.packages = source, tensors, {}
        self.n_elements, self.n_heads = len(source["atomic_numbers"]), len(source["heads"])

    def kind(self, name, package=None):
        """The class `name`, which pickle finds under the name of its package."""
        package = package or PLACES.get(name, "mace.modules.blocks")
        parts = package.split(".")
        for k in range(1, len(parts) + 1):
            self.packages.setdefault(".".join(parts[:k]), types.ModuleType(".".join(parts[:k])))
        module = self.packages[package]
        if not hasattr(module, name):
            setattr(module, name, type(name, (Fake,), {"__module__": package}))
        return getattr(module, name)

    def module(self, kind, parameters=(), buffers=(), modules=(), package=None, **attributes):
        parts = {"_parameters": parameters, "_buffers": buffers, "_modules": modules}
        state = {"training": False, **{k: collections.OrderedDict(v) for k, v in parts.items()}, **attributes}
        return self.kind(kind, package)(state=state)

    def numbered(self, modules, kind="ModuleList"):
        return self.module(kind, modules={str(k): module for k, module in enumerate(modules)})

    def irreps(self, irreps):
        irrep = lambda l: self.kind("Irrep")((l, (-1) ** l))
        return self.kind("Irreps")(tuple(self.kind("_MulIr")((n, irrep(l))) for n, l in irreps))

    def linear(self, matrices, inputs=None, outputs=None, bias=None):
        """matrices: {order: [out, in]}; inputs: [(channels, order)], several of an order one after the other."""
        inputs = inputs or [(matrix.shape[1], l) for l, matrix in matrices.items()]
        outputs = outputs or [(len(matrix), l) for l, matrix in matrices.items()]
        fan_in = {l: sum(n for n, k in inputs if k == l) for _, l in inputs}
        flat, instructions, first = [], [], dict.fromkeys(fan_in, 0)
        for i, (n, l) in enumerate(inputs):
            for j, (m, k) in enumerate(outputs):
                if k == l:
                    flat.append(np.ravel(matrices[l][:, first[l] : first[l] + n].T))
                    instructions.append(self.kind("Instruction", "e3nn.o3._linear")(i, j, (n, m), fan_in[l] ** -0.5))
            first[l] += n
        if bias is not None:
            instructions.append(self.kind("Instruction", "e3nn.o3._linear")(-1, 0, (len(bias),), 1.0))
        empty = np.zeros(0, flat[0].dtype)
        parameters = {"weight": np.concatenate(flat), "bias": empty if bias is None else bias}
        ends = {"irreps_in": self.irreps(inputs), "irreps_out": self.irreps(outputs)}
        return self.module("Linear", parameters, instructions=instructions, **ends)

    def orders(self, name):
        """{order: tensor}"""
        return {l: self.tensors[f"{name}.l{l}"] for l in range(4) if f"{name}.l{l}" in self.tensors}

    def activation(self, name, divisor):
        function = self.kind(name, "torch.nn.functional")
        if name == "tanh":  # torch.tanh
            where = self.kind("_VariableFunctions", "torch._C")()
            function = self.kind("getattr", "__builtin__")(where, name)
        return self.module("normalize2mom", f=function, cst=1.0 / divisor, _is_id=False)

    def scaled_network(self, name, act):
        matrices = self.chain(name)
        layers = {}
        for k, matrix in enumerate(matrices):
            last = {"act": None} if k == len(matrices) - 1 else {}
            modules = {} if last else {"act": act}
            layers[f"layer{k}"] = self.module(
                "_Layer", {"weight": matrix.T}, modules=modules, var_in=1, var_out=1, **last
            )
        return self.module("FullyConnectedNet", modules=layers, hs=self.widths(matrices))

    def chain(self, name):
        return [self.tensors[f"{name}.{k}"] for k in range(8) if f"{name}.{k}" in self.tensors]

    @staticmethod
    def widths(matrices):
        return [matrices[0].shape[1], *(len(matrix) for matrix in matrices)]

    def normed_network(self, name):
        parts, matrices, t = [], self.chain(name), self.tensors
        for k, matrix in enumerate(matrices):
            weights = {"weight": matrix, "bias": t[f"{name}.{k}.bias"]}
            parts.append(self.module("Linear", weights, package="torch.nn.modules.linear"))
            if k < len(matrices) - 1:
                norm = {"weight": t[f"{name}.{k}.norm"], "bias": t[f"{name}.{k}.norm_bias"]}
                parts.append(self.module("LayerNorm", norm, eps=self.source["radial_mlp"]["norm_epsilon"]))
                parts.append(self.module("SiLU"))
        return self.module("RadialMLP", modules={"net": self.numbered(parts, "Sequential")}, hs=self.widths(matrices))

    def selector(self, layer, name, outputs):
        matrices, flat, instructions = self.orders(name), [], []
        inputs = layer["irreps_message"] if layer["skip"] == "message" else layer["irreps_in"]
        for k, (l, matrix) in enumerate(matrices.items()):
            flat.append(np.ravel(matrix.transpose(2, 0, 1)))
            factor = ((2 * l + 1) / (matrix.shape[2] * self.n_elements)) ** 0.5
            shape = (matrix.shape[2], self.n_elements, matrix.shape[1])
            entry = (k, 0, k, "uvw", True, factor, shape)
            instructions.append(self.kind("Instruction", "e3nn.o3._tensor_product._instruction")(*entry))
        ends = {"irreps_in1": inputs, "irreps_in2": [(self.n_elements, 0)], "irreps_out": outputs}
        ends = {k: self.irreps(v) for k, v in ends.items()}
        weight = np.concatenate(flat)
        return self.module("FullyConnectedTensorProduct", {"weight": weight}, instructions=instructions, **ends)

    def paths(self, layer):
        """The coupling of a message, and what its sums consist of."""
        inputs, sums, instructions = layer["irreps_edge"], [], []
        for k, (l1, l2, l3, n, _, _) in enumerate(layer["paths"]):
            sums.append((n, l3))
            entry = (l1, l2, k, "uvu", True, (2 * l3 + 1) ** 0.5, (n, 1))
            instructions.append(self.kind("Instruction", "e3nn.o3._tensor_product._instruction")(*entry))
        harmonics = [(1, l) for l in range(self.source["lmax"] + 1)]
        ends = {"irreps_in1": inputs, "irreps_in2": harmonics, "irreps_out": sums}
        ends = {k: self.irreps(v) for k, v in ends.items()}
        return self.module("TensorProduct", instructions=instructions, **ends), sums

    def gate(self, layer):
        g = layer["gate"]
        functions = {
            "_act_scalar": self.kind(g["scalar_activation"], "torch.nn.functional"),
            "_act_gate": self.kind(g["gate_activation"], "torch.functional"),
            "_scalar_cst": 1.0 / g["act_norm"],
            "_gate_cst": 1.0 / g["gate_norm"],
        }
        return self.module("GatedEquivariantBlock", _layout_is_ir_mul=False, **functions)

    def interaction(self, t, layer):
        name, t0 = f"layers.{t}.", self.tensors
        coupling, sums = self.paths(layer)
        up = self.linear(self.orders(name + "linear_up"), layer["irreps_in"], layer["irreps_edge"])
        modules = {"linear_up": up, "conv_tp": coupling}
        parameters = {}
        if layer["kind"] == "nonlinear":
            gated = [(len(matrix), l) for l, matrix in self.orders(name + "linear").items()]
            modules |= {
                "conv_tp_weights": self.normed_network(name + "radial_mlp"),
                "density_fn": self.normed_network(name + "density"),
                "source_embedding": self.linear({0: t0[name + "source"]}),
                "target_embedding": self.linear({0: t0[name + "target"]}),
                "linear_1": self.linear(self.orders(name + "linear"), sums),
                "linear_res": self.linear(self.orders(name + "linear_res"), layer["irreps_edge"], gated),
                "linear_2": self.linear(self.orders(name + "linear_2")),
                "skip_tp": self.linear(self.orders(name + "skip"), layer["irreps_in"], layer["irreps_out"]),
                "equivariant_nonlin": self.gate(layer),
            }
            parameters = {k: np.ravel(t0[name + k]) for k in ("alpha", "beta")}
        else:
            mlp = self.source["radial_mlp"]
            act = self.activation(mlp["activation"], mlp["act_norm"])
            outputs = layer["irreps_message"] if layer["skip"] == "message" else layer["irreps_out"]
            modules["conv_tp_weights"] = self.scaled_network(name + "radial_mlp", act)
            if layer["density"]:
                modules["density_fn"] = self.scaled_network(name + "density", act)
            modules["linear"] = self.linear(self.orders(name + "linear"), sums)
            modules["skip_tp"] = self.selector(layer, name + "skip", outputs)
        ends = {"node_feats_irreps": layer["irreps_in"], "target_irreps": layer["irreps_message"]}
        ends = {k: self.irreps(v) for k, v in ends.items()}
        average = 1.0 if layer["avg_num_neighbors"] is None else layer["avg_num_neighbors"]
        return self.module(layer["block"], parameters, modules=modules, avg_num_neighbors=average, **ends)

    def contraction(self, t, l, degree):
        """One permutation of the components has the value, or two have a half of it."""
        n, parameters, buffers = (self.source["lmax"] + 1) ** 2, {}, {}
        weights = {}
        for nu in range(1, degree + 1):
            name = f"layers.{t}.product.L{l}.nu{nu}."
            shape = ((2 * l + 1,) if l else ()) + (n,) * nu
            if name + "index" not in self.tensors:  # M5: a dummy weight
                buffers[f"U_matrix_{nu}"] = np.zeros((*shape, 1))
                weights[nu] = np.zeros((self.n_elements, 1, 1))
                continue
            index, value = self.tensors[name + "index"], self.tensors[name + "value"]
            weights[nu] = self.tensors[name + "weight"]
            couplings = np.zeros((*shape, weights[nu].shape[1]))
            for row, x in zip(index.tolist(), value.tolist()):
                components = tuple(row[1:-1])
                head, other = (row[0],) if l else (), components[::-1]
                couplings[(*head, *components, row[-1])] += 0.5 * x
                couplings[(*head, *other, row[-1])] += 0.5 * x
            buffers[f"U_matrix_{nu}"] = couplings
        parameters["weights_max"] = weights[degree]  # M5
        rest = self.module("ParameterList", {str(degree - 1 - nu): weights[nu] for nu in range(1, degree)})
        return self.module("Contraction", parameters, buffers, {"weights": rest}, correlation=degree)

    def product(self, t, layer):
        degree = max(max(degrees) for degrees in layer["product"].values())
        contractions = [self.contraction(t, l, degree) for _, l in layer["irreps_out"]]
        symmetric = self.module("SymmetricContraction", modules={"contractions": self.numbered(contractions)})
        modules = {
            "symmetric_contractions": symmetric,
            "linear": self.linear(self.orders(f"layers.{t}.product.linear")),
        }
        options = {"use_sc": layer["skip"] != "message", "use_agnostic_product": layer["agnostic_product"]}
        return self.module("EquivariantProductBasisBlock", modules=modules, **options)

    def readout(self, readout):
        name, t = f"readout.{readout['layer']}.", self.tensors
        wide = [(n, l) for n, l in self.source["layer"][readout["layer"]]["irreps_out"]]
        if readout["kind"] == "linear":
            return self.module("LinearReadoutBlock", modules={"linear": self.linear({0: t[name + "0"]}, wide)})
        acts = self.numbered([self.activation(readout["activation"], readout["act_norm"])])
        modules = {
            "linear_1": self.linear({0: t[name + "0"]}, wide),
            "non_linearity": self.module("Activation", modules={"acts": acts}),
        }
        if readout["kind"] == "mlp":
            modules["linear_2"] = self.linear({0: t[name + "1"]})
            return self.module("NonLinearReadoutBlock", modules=modules)
        for k, part in enumerate(("linear_mid", "linear_2"), 1):
            modules[part] = self.linear({0: t[f"{name}{k}"]}, bias=t[f"{name}{k}.bias"])
        return self.module("NonLinearBiasReadoutBlock", modules=modules)

    def radii(self):
        out = np.full(119, 0.2)
        out[self.source["atomic_numbers"]] = self.source["covalent_radii"]
        return out

    def radial(self):
        source, basis, transform = self.source, self.source["radial_basis"], self.source["distance_transform"]
        if basis["kind"] == "bessel":
            buffers = {"bessel_weights": self.tensors["radial_frequencies"], "prefactor": np.array(basis["prefactor"])}
            functions = self.module("BesselBasis", buffers=buffers)
        else:
            centers = {"gaussian_weights": self.tensors["radial_centers"]}
            functions = self.module("GaussianBasis", buffers=centers, coeff=basis["coefficient"])
        cutoff = {"p": np.array(source["cutoff_function"]["p"]), "r_max": np.array(source["cutoff"])}
        modules = {"bessel_fn": functions, "cutoff_fn": self.module("PolynomialCutoff", buffers=cutoff)}
        if transform["kind"] != "none":
            numbers = {k: np.array(v) for k, v in transform.items() if k != "kind"}
            kind = transform["kind"].capitalize() + "Transform"
            modules["distance_transform"] = self.module(kind, buffers={**numbers, "covalent_radii": self.radii()})
        applied = source["cutoff_applied_to"] == "basis"
        return self.module("RadialEmbeddingBlock", modules=modules, out_dim=basis["n"], apply_cutoff=applied)

    def model(self):
        source, t = self.source, self.tensors
        embedding = self.module("LinearNodeEmbeddingBlock", modules={"linear": self.linear({0: t["embedding"]})})
        harmonics = {"normalize": True, "normalization": "component"}
        harmonics["irreps_out"] = self.irreps([(1, l) for l in range(source["lmax"] + 1)])
        energies = t["atomic_energies"] if self.n_heads > 1 else t["atomic_energies"][0]
        layers = list(enumerate(source["layer"]))
        modules = {
            "node_embedding": embedding,
            "radial_embedding": self.radial(),
            "spherical_harmonics": self.module("SphericalHarmonics", **harmonics),
            "atomic_energies_fn": self.module("AtomicEnergiesBlock", buffers={"atomic_energies": energies}),
            "interactions": self.numbered([self.interaction(*layer) for layer in layers]),
            "products": self.numbered([self.product(*layer) for layer in layers]),
            "readouts": self.numbered([self.readout(readout) for readout in source["readout"]]),
        }
        if source["pair_repulsion"] is not None:
            numbers = {k: np.array(v) for k, v in source["pair_repulsion"].items() if k != "kind"}
            modules["pair_repulsion_fn"] = self.module("ZBLBasis", buffers={**numbers, "covalent_radii": self.radii()})
        if source["pair_repulsion_scaled"]:
            buffers = {k: t[k] if self.n_heads > 1 else t[k].reshape(()) for k in ("scale", "shift")}
            modules["scale_shift"] = self.module("ScaleShiftBlock", buffers=buffers)
        buffers = {"atomic_numbers": np.array(source["atomic_numbers"]), "r_max": np.array(source["cutoff"])}
        kind = "ScaleShiftMACE" if source["pair_repulsion_scaled"] else "MACE"
        return self.module(kind, buffers=buffers, modules=modules, heads=source["heads"])


def find(module, name):
    """A submodule by its dotted name."""
    for key in filter(None, name.split(".")):
        module = module.state["_modules"][key]
    return module


def save_model(path, source, tensors, change=lambda model, writer: model):
    """Writes a file like torch.save(model); change(model, writer) gives what is written."""
    writer = Writer(source, tensors)
    save_module(path, change(writer.model(), writer), writer.packages)
