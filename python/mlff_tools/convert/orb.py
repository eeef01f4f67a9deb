"""The `orb` part of mlff_tools.convert: Orb-v2 from a checkpoint or a description, or with random weights.

Checkpoints of orb-models are plain state dicts. Both spellings of the heads are read: those of 2024 (graph_head,
node_head, stress_head) and the present ones (heads.energy, heads.forces, heads.stress). The decoder, which the force
field never uses, is left out; reference energies and normalisers come from the checkpoint.
"""

import numpy as np

from ..command_line import positive, whole
from ..model import modelfile
from ..model.modelfile import NUMBERS, SYMBOLS, ModelError
from . import checkpoints

CITATION = "M. Neumann et al., Orb: A Fast, Scalable Neural Network Potential, arXiv:2410.22570 (2024)"
# Elements of the training sets MPtraj and Alexandria: H to Pu without Po, At, Rn, Fr, Ra.
TRAINED = [symbol for z, symbol in enumerate(SYMBOLS) if 1 <= z <= 94 and not 84 <= z <= 88]
RANDOM = "random weights of full size, without physics: for timings only"
CUTOFF, N_NEIGHBOURS, BASIS_RADIUS, NORM_EPSILON = 6.0, 20, 10.0, 1e-5
OLD_HEADS = {"graph_head.": "heads.energy.", "node_head.": "heads.forces.", "stress_head.": "heads.stress."}
N_ROWS = {"model.atom_emb.embeddings.weight": 119, "heads.energy.reference.linear.weight": 118}  # row = atomic number
# What a description may say; the state dict itself holds none of it.
EXPECTED = {
    "activation": "ssp",
    "norm": "layer_norm",
    "norm_eps": NORM_EPSILON,
    "attention_gate": "sigmoid",
    "distance_cutoff": True,
    "num_mlp_layers": 2,
    "head_num_mlp_layers": 1,
    "envelope.order": 4,
    "envelope.r_max": CUTOFF,
    "graph.radius": CUTOFF,
    "graph.max_num_neighbors": N_NEIGHBOURS,
    "rbf.kind": "gaussian",
    "rbf.radius": BASIS_RADIUS,
    "rbf.scale": 1.0,
    "heads.energy.aggregation": "mean",
    "heads.energy.per_atom": True,
    "heads.forces.remove_mean": True,
    "heads.forces.remove_torque_nonperiodic": True,
    "heads.stress.aggregation": "mean",
    "heads.stress.order": "xx yy zz yz xz xy",
    "units.energy": "eV",
    "units.length": "angstrom",
}


def check_description(source, where):
    """Refuses, by name, every option that the engine does not have."""
    for path, expected in EXPECTED.items():
        value = source
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and value != expected:
            raise ModelError(f"{where}: {path} is {value!r}, which is not supported (possible: {expected!r})")


def present_names(tensors):
    """The state dict with today's names, without what is not used."""
    out = {}
    for name, tensor in tensors.items():
        for old, new in OLD_HEADS.items():
            if name.startswith(old):
                name = new + name[len(old) :]
        if not name.startswith("model._decoder.") and not name.endswith("num_batches_tracked"):
            out[name] = tensor
    return out


class _State:
    """A state dict from which tensors are taken under new names, until nothing is left."""

    def __init__(self, tensors, where):
        self.left, self.where, self.out = dict(tensors), where, {}

    def take(self, name):
        if name not in self.left:
            raise ModelError(
                f"{self.where}: the weights have no tensor '{name}', so this is no Orb-v2 (LayerNorm, three "
                "linear layers per network, heads for energy, forces and stress)"
            )
        return self.left.pop(name)

    def linear(self, old, new):
        for kind in ("weight", "bias"):
            self.out[f"{new}.{kind}"] = self.take(f"{old}.{kind}")

    def mlp(self, old, new, n_layers):
        for l in range(n_layers):
            self.linear(f"{old}.mlp.NN-{l}", f"{new}.{l}")

    def mlp_norm(self, old, new):
        self.mlp(old, new, 3)
        self.linear(old + ".layer_norm", new + ".norm")

    def number(self, name):
        value = np.ravel(self.take(name))
        if value.size != 1:
            raise ModelError(f"{self.where}: tensor '{name}' has {value.size} values, expected one")
        return float(value[0])


def orb_model(tensors, elements, where):
    """(head, tensors) of the `orb` model that a state dict defines."""
    state = _State(present_names(tensors), where)
    n_layers = 1 + max((int(k.split(".")[2]) for k in state.left if k.startswith("model.gnn_stacks.")), default=-1)
    if n_layers < 1:
        raise ModelError(f"{where}: no tensors model.gnn_stacks...: not an Orb-v2 state dict")
    numbers = [NUMBERS[e] for e in elements]
    for name, rows in N_ROWS.items():
        tensor = state.take(name)
        tensor = tensor.ravel() if rows == 118 else tensor
        if len(tensor) != rows:
            raise ModelError(f"{where}: tensor '{name}' has {len(tensor)} rows, expected {rows}")
        if rows == 118:
            offsets = {e: float(tensor[z]) for e, z in zip(elements, numbers)}
        else:
            state.out["embedding"] = tensor[numbers]
    state.mlp_norm("model._encoder._node_fn", "node_encoder")
    state.mlp_norm("model._encoder._edge_fn", "edge_encoder")
    for l in range(n_layers):
        old, new = f"model.gnn_stacks.{l}.", f"layer.{l}."
        state.mlp_norm(old + "_edge_mlp", new + "edge")
        state.mlp_norm(old + "_node_mlp", new + "node")
        state.linear(old + "_receive_attn", new + "receive")
        state.linear(old + "_send_attn", new + "send")
    normalizers = {}
    for head in ("energy", "forces", "stress"):
        state.mlp("heads." + head, head, 2)
        normalizers[head] = [state.number(f"heads.{head}.normalizer.bn.running_{k}") for k in ("mean", "var")]
    if state.left:
        raise ModelError(
            f"{where}: nothing explains tensor '{sorted(state.left)[0]}': a layer that Orb-v2 does not have"
        )
    hidden, n_input = state.out["edge_encoder.0.weight"].shape
    head = {
        "architecture": "orb",
        "elements": list(elements),
        "cutoff": CUTOFF,
        "energy_offsets": offsets,
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "orb": {
            "n_features": state.out["embedding"].shape[1],
            "n_hidden": hidden,
            "n_interactions": n_layers,
            "n_readout": len(state.out["energy.0.bias"]),
            "n_neighbours": N_NEIGHBOURS,
            "radial_basis": {"kind": "gaussian", "n": n_input - 3, "radius": BASIS_RADIUS},
            "norm_epsilon": NORM_EPSILON,
            "normalizers": normalizers,
        },
    }
    return head, state.out


def random_model(seed, n_layers, elements):
    """A full-size Orb-v2 with random weights: same shapes and cost as the published one, and no physics."""
    head = {
        "architecture": "orb",
        "elements": list(elements),
        "cutoff": CUTOFF,
        "energy_offsets": dict.fromkeys(elements, 0.0),
        "units": {"length": "angstrom", "energy": "eV", "energy_in_eV": 1.0},
        "orb": {
            "n_features": 256,
            "n_hidden": 512,
            "n_interactions": n_layers,
            "n_readout": 256,
            "n_neighbours": N_NEIGHBOURS,
            "radial_basis": {"kind": "gaussian", "n": 20, "radius": BASIS_RADIUS},
            "norm_epsilon": NORM_EPSILON,
            "normalizers": {"energy": [-0.25, 1.75], "forces": [0.0, 0.5], "stress": [-0.0625, 0.015625]},
        },
    }
    return head, random_tensors(head, seed)


def random_tensors(head, seed):
    """Normal weights of variance 1/fan-in, gains of the norms near 1, small biases."""
    rng, out = np.random.default_rng(seed), {}
    for name, shape in modelfile.orb_shapes(head).items():
        values = rng.standard_normal(shape)
        if name == "embedding":
            out[name] = values
        elif len(shape) == 2:
            out[name] = values / np.sqrt(shape[1])
        else:
            out[name] = 0.1 * values + (1.0 if name.endswith("norm.weight") else 0.0)
    return {name: np.ascontiguousarray(values, np.float32) for name, values in out.items()}


def read(args, read_description):
    """(source, head, tensors) for the options of the command line."""
    elements = args.elements or TRAINED
    if args.random is not None:
        source = {
            "random": f"Orb-v2, {args.layers} layers, {RANDOM}",
            "source": f"random numbers, seed {args.random}",
            "license": "none: random numbers",
            "provenance": {"labels": "none: random weights", "data": "none"},
        }
        return (source, *random_model(args.random, args.layers, elements))
    if args.source.endswith((".yaml", ".yml")):
        source, tensors = read_description(args.source, "orb-v2")
        check_description(source, args.source)
    else:
        source, tensors = {}, checkpoints.read_state_dict(args.source)
    return (source, *orb_model(tensors, elements, args.source))


def add_arguments(parser):
    parser.add_argument(
        "--elements",
        type=lambda text: text.split(","),
        metavar="H,C,O",
        help="elements to keep (default: the 89 of the training sets)",
    )
    parser.add_argument("--random", type=whole(0), metavar="SEED", help="random weights of full size instead of IN")
    parser.add_argument(
        "--layers",
        type=positive,
        default=15,
        help="layers of --random (default: %(default)s; orb-d3-sm-v2 has 10, orb-d3-xs-v2 has 5)",
    )
