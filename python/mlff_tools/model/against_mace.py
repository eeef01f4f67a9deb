"""The part of against.py that knows mace-torch (PyTorch, e3nn)."""

import itertools

import numpy as np

from .against_base import Unsupported, edges, refuse, six
from .modelfile import NUMBERS


def _couplings(rows, order, n):
    """The U matrix of mace-torch [2 l + 1 if l > 0, n, .., n, weights] with the polynomials of a model file's rows."""
    degree, n_weights = rows.shape[1] - 3, int(rows[:, -2].max()) + 1
    out = np.zeros((2 * order + 1,) + (n,) * degree + (n_weights,))
    for m, *components, k, value in rows:
        places = set(itertools.permutations(int(i) for i in components))
        for place in places:
            out[(int(m), *place, int(k))] = value / len(places)
    return out if order else out[0]


def _orders(tensors, name):
    """{order: tensor}"""
    return {l: tensors[f"{name}.l{l}"] for l in range(4) if f"{name}.l{l}" in tensors}


# What the skip acts on and what divides messages -> the package's class.
BLOCKS = {
    ("messages", "average"): "RealAgnosticInteractionBlock",
    ("features", "average"): "RealAgnosticResidualInteractionBlock",
    ("messages", "density"): "RealAgnosticDensityInteractionBlock",
    ("features", "density"): "RealAgnosticDensityResidualInteractionBlock",
}


def _check(head, tensors, kinds, averages):
    """Refuses what the package's constructor cannot make."""
    p = head["mace"]
    refuse(
        "mace-torch",
        {
            "radial_network.fan_in": (p["radial_network"]["fan_in"], "none" if "nonlinear" in p else "sqrt"),
            "number of kinds of blocks after the first layer": (len(set(kinds[1:])), min(1, p["n_layers"] - 1)),
            "number of avg_num_neighbors": (len(averages), 1),
            "hidden units in the readout of its last layer": (p["n_readout"] > 0, p["n_layers"] > 1),
        },
    )
    if "repulsion" in head:
        refuse("mace-torch", {"repulsion.scale": (head["repulsion"]["scale"], float(tensors["energy_scale"][0]))})


def _nonlinear_options(p, blocks, o3):
    """Options of the package's constructor that models with non-linear blocks have."""
    options = {
        "use_agnostic_product": p.get("product_weights") == "common",
        "use_last_readout_only": p.get("readouts") == "last",
    }
    if p.get("n_readout_layers", 1) == 2:
        options["readout_cls"] = blocks.NonLinearBiasReadoutBlock
    if "nonlinear" not in p:
        return options
    first, rest = p["nonlinear"]["n_edge_first"], p["nonlinear"]["n_edge"]
    if first not in (p["n_channels"], rest[0]):
        raise Unsupported(f"mace-torch cannot have {first} channels on the edges of layer 0")
    return {
        **options,
        "apply_cutoff": False,
        "edge_irreps": o3.Irreps([(n, (l, (-1) ** l)) for l, n in enumerate(rest)]),
        "use_edge_irreps_first": first != p["n_channels"],
    }


class MACE:
    """A network built by mace-torch, in double from the start: else e3nn rounds its coefficients."""

    def __init__(self, head, tensors):
        import torch

        torch.set_default_dtype(torch.float64)
        from mace.modules import blocks
        from mace.modules.models import ScaleShiftMACE, o3  # e3nn 0.4 cannot be imported before mace with PyTorch 2.6

        p, self.torch, self.cutoff = head["mace"], torch, head["cutoff"]
        c, kinds = p["n_channels"], list(zip(p["skip"], p["divisor"]))
        averages = {n for n, d in zip(p["avg_num_neighbors"], p["divisor"]) if d == "average"} or {1.0}
        _check(head, tensors, kinds, averages)
        classes = ["RealAgnosticResidualNonLinearInteractionBlock" if "nonlinear" in p else BLOCKS[k] for k in kinds]
        self.model = ScaleShiftMACE(
            atomic_inter_scale=float(tensors["energy_scale"][0]),
            atomic_inter_shift=0.0,
            r_max=head["cutoff"],
            num_bessel=p["radial_basis"]["n"],
            radial_type=p["radial_basis"]["kind"],
            distance_transform=p["distance_transform"]["kind"].capitalize(),
            num_polynomial_cutoff=int(p["cutoff_function"]["p"]),
            pair_repulsion="repulsion" in head,
            max_ell=p["lmax"],
            interaction_cls=getattr(blocks, classes[-1]),
            interaction_cls_first=getattr(blocks, classes[0]),
            num_interactions=p["n_layers"],
            num_elements=len(head["elements"]),
            hidden_irreps=o3.Irreps([(c, (l, (-1) ** l)) for l in range(p["n_orders"])]),
            MLP_irreps=o3.Irreps(f"{p['n_readout'] or 1}x0e"),
            atomic_energies=np.array([head["energy_offsets"][e] for e in head["elements"]]),
            avg_num_neighbors=averages.pop(),
            atomic_numbers=[NUMBERS[e] for e in head["elements"]],
            correlation=list(p["degree"]),
            gate=torch.tanh if p["activation"] == "tanh" else torch.nn.functional.silu,
            radial_MLP=p["radial_network"]["hidden"],
            use_reduced_cg=False,
            **_nonlinear_options(p, blocks, o3),
        ).eval()
        self._check_norms(p)
        self.elements = {e: k for k, e in enumerate(head["elements"])}
        self.left = {
            (id(module), name)
            for module in self.model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None and parameter.numel()
        }
        self._fill_radial(head, tensors)
        self._fill_layers(p, tensors)
        if self.left:
            raise Unsupported("mace-torch has parameters that the model file lacks: is this version supported?")

    def _check_norms(self, p):
        block, norms = self.model.interactions[0], []
        if "nonlinear" in p:
            gate = block.equivariant_nonlin
            norms += [(gate._scalar_cst, p["nonlinear"]["activation_norm"])]
            norms += [(gate._gate_cst, p["nonlinear"]["gate_norm"])]
        else:
            norms.append((block.conv_tp_weights.layer0.act.cst, p["radial_network"]["activation_norm"]))
        if p["n_readout"]:
            norms.append((self.model.readouts[-1].non_linearity.acts[0].cst, p["activation_norm"]))
        for norm, value in norms:
            if abs(value * norm - 1) > 1e-12:
                raise Unsupported(f"mace-torch has activation_norm {1 / norm}; the file has {value}")

    def _put(self, module, name, value):
        """Puts an array into a parameter or buffer of any shape."""
        value = self.torch.tensor(np.asarray(value, np.float64))
        if name in module._buffers:
            module._buffers[name] = value
        else:
            module._parameters[name] = self.torch.nn.Parameter(value, requires_grad=False)
        self.left.discard((id(module), name))

    def _linear(self, layer, matrices):
        """{order: [out, in]} into e3nn's one row of matrices [in, out]; inputs of an order follow one another."""
        parts, first = [], {}
        for n, ir in layer.irreps_in:
            column = first.setdefault(ir.l, 0)
            if ir.l in matrices:
                parts.append(np.ravel(matrices[ir.l][:, column : column + n].T))
            first[ir.l] += n
        self._put(layer, "weight", np.concatenate(parts))

    def _selector(self, layer, matrices):
        parts = [np.ravel(np.transpose(matrices[l], (2, 0, 1))) for l in sorted(matrices)]
        self._put(layer, "weight", np.concatenate(parts))

    def _product(self, block, tensors, t, degree, lmax):
        for order, contraction in enumerate(block.symmetric_contractions.contractions):
            for nu in range(1, degree + 1):
                name = f"layers.{t}.product.l{order}.degree_{nu}."
                place = (contraction, "weights_max") if nu == degree else (contraction.weights, str(degree - 1 - nu))
                if name + "rows" not in tensors:
                    contraction._buffers[f"U_matrix_{nu}"].zero_()
                    self.left.discard((id(place[0]), place[1]))
                    continue
                couplings = _couplings(tensors[name + "rows"], order, (lmax + 1) ** 2)
                self._put(contraction, f"U_matrix_{nu}", couplings)
                self._put(*place, tensors[name + "weight"][:, : couplings.shape[-1]])

    def _radii(self, module, head, radii):
        table = module.covalent_radii.clone()
        for e, radius in zip(head["elements"], radii):
            table[NUMBERS[e]] = float(radius)
        module.covalent_radii = table

    def _fill_radial(self, head, tensors):
        """Radial functions, transform of distances and repulsion."""
        p, model = head["mace"], self.model
        basis = model.radial_embedding.bessel_fn
        if p["radial_basis"]["kind"] == "bessel":
            self._put(basis, "bessel_weights", tensors["radial_frequencies"])
        else:
            self._put(basis, "gaussian_weights", tensors["radial_centers"])
            basis.coeff = p["radial_basis"]["coefficient"]
        if p["distance_transform"]["kind"] != "none":
            transform = model.radial_embedding.distance_transform
            for key, value in p["distance_transform"].items():
                if key != "kind":
                    self._put(transform, "alpha" if p["distance_transform"]["kind"] == "soft" else key, value)
            self._radii(transform, head, tensors["covalent_radii"])
        if "repulsion" in head:
            block, zbl = head["repulsion"], model.pair_repulsion_fn
            for key, name in (("exponent", "a_exp"), ("prefactor", "a_prefactor")):
                self._put(zbl, name, block[key])
            zbl.p = self.torch.tensor(int(block["p"]))
            self._radii(zbl, head, [block["radii"][e] for e in head["elements"]])

    def _fill_layers(self, p, tensors):
        """Every parameter of the layers and readouts."""
        model = self.model
        self._linear(model.node_embedding.linear, {0: tensors["embedding"]})
        for t, (block, product) in enumerate(zip(model.interactions, model.products)):
            (self._fill_nonlinear if "nonlinear" in p else self._fill_plain)(p, tensors, t, block)
            self._linear(block.linear_up, _orders(tensors, f"layers.{t}.linear_up"))
            self._product(product, tensors, t, p["degree"][t], p["lmax"])
            self._linear(product.linear, _orders(tensors, f"layers.{t}.product.linear"))
        for t, readout in enumerate(model.readouts, p["n_layers"] - len(model.readouts)):
            names = [name for name in ("linear", "linear_1", "linear_mid", "linear_2") if hasattr(readout, name)]
            for k, name in enumerate(names):
                self._linear(getattr(readout, name), {0: tensors[f"readout.{t}.{k}"]})
            if len(names) == 3:
                self._put(readout.linear_mid, "bias", tensors[f"readout.{t}.1.bias"])
                self._put(readout.linear_2, "bias", np.zeros(1))  # in the offsets of energies

    def _fill_plain(self, p, tensors, t, block):
        for k in range(len(p["radial_network"]["hidden"]) + 1):
            layer = getattr(block.conv_tp_weights, f"layer{k}")
            self._put(layer, "weight", tensors[f"layers.{t}.radial_mlp.{k}"].T)
        if p["divisor"][t] == "density":
            self._put(block.density_fn.layer0, "weight", tensors[f"layers.{t}.density"].T)
        self._linear(block.linear, _orders(tensors, f"layers.{t}.linear"))
        self._selector(block.skip_tp, _orders(tensors, f"layers.{t}.skip"))

    def _fill_nonlinear(self, p, tensors, t, block):
        name = f"layers.{t}."
        for network, part in ((block.conv_tp_weights, "radial_mlp"), (block.density_fn, "density")):
            for k, layer in enumerate(network.net[::3]):
                for key, kind in (("weight", ""), ("bias", ".bias")):
                    self._put(layer, key, tensors[f"{name}{part}.{k}{kind}"])
            for k, norm in enumerate(network.net[1::3]):
                norm.eps = p["nonlinear"]["norm_epsilon"]
                for key, kind in (("weight", "norm"), ("bias", "norm_bias")):
                    self._put(norm, key, tensors[f"{name}{part}.{k}.{kind}"])
        for layer, kind in ((block.source_embedding, "source"), (block.target_embedding, "target")):
            self._linear(layer, {0: tensors[name + kind]})
        for layer, kind in ((block.linear_1, "linear"), (block.linear_2, "linear_2"), (block.linear_res, "linear_res")):
            self._linear(layer, _orders(tensors, name + kind))
        self._linear(block.skip_tp, _orders(tensors, name + "skip"))
        for key in ("alpha", "beta"):
            self._put(block, key, tensors[name + key][0])

    def evaluate(self, s):
        torch = self.torch
        torch.set_default_dtype(torch.float64)
        i, j, shifts, cell = edges(s, self.cutoff)
        real = lambda values: torch.tensor(np.asarray(values, np.float64))
        n, periodic = len(s["elements"]), s["cell"] is not None
        kinds = torch.tensor([self.elements[e] for e in s["elements"]])
        data = {
            "positions": real(s["positions"]),
            "node_attrs": torch.nn.functional.one_hot(kinds, len(self.elements)).double(),
            "edge_index": torch.tensor(np.stack([j, i])),  # from the neighbor to the center
            "unit_shifts": real(-shifts),
            "shifts": real(-shifts @ cell),
            "cell": real(cell),
            "batch": torch.zeros(n, dtype=torch.int64),
            "ptr": torch.tensor([0, n]),
        }
        out = self.model(data, compute_force=True, compute_stress=periodic, compute_virials=periodic)
        forces = np.zeros((n, 3)) if out["forces"] is None else out["forces"].detach().numpy()
        virial = six(out["virials"].detach().numpy().reshape(3, 3)) if periodic else None
        return float(out["energy"]), forces, virial
