"""Times networks of this project in PyTorch, eager and compiled, on given structures. Needs PyTorch, NumPy and PyYAML.

  torch_gpu.py --how eager|compiled --out FILE.json --models MODEL.yaml ... --structures STRUCTURE.xyz ...
      [--device cuda] [--seconds N] [--mlff PROGRAM]

Structures are orthorhombic extended XYZ files, the most informative first; cases that find no time are left out.
Neighbors are found once and not timed; a call is energy and forces. The networks are those that the project trains with
(python/mlff_tools/train/networks.py): batched GEMMs, index_select and index_add, one autograd pass. Orb-v2 is that of
orb-models with random weights of its own. With --mlff, forces of structures below 100 atoms are compared first.
"""

import argparse
import importlib.util
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODES = {"eager": (None,), "compiled": ("default", "reduce-overhead")}  # of torch.compile


def load_networks():
    """The project's networks in PyTorch."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    return importlib.import_module("mlff_tools.train.networks")


def load_tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    out = {}
    for name, about in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        kind = {"F32": torch.float32, "F64": torch.float64}[about["dtype"]]
        raw = torch.frombuffer(bytearray(data[8 + n + begin : 8 + n + end]), dtype=kind)
        out[name] = raw.reshape(about["shape"]).float()
    return out


def load_model(path, device):
    """(head, network, parameters) of NAME.yaml and NAME.safetensors."""
    networks = load_networks()
    head = importlib.import_module("mlff_tools.model.modelfile").load_yaml(path)
    kind = head["architecture"]
    if kind not in ("painn", "ani"):
        return head, None, None
    tensors = load_tensors(path[: -len("yaml")] + "safetensors")
    if kind == "painn":
        spec = {**head["painn"], "cutoff": head["cutoff"]}
        p = tensors
    else:
        block = head["ani"]
        spec = {**block, "hidden": {e: d[1:-1] for e, d in block["dims"].items()}}
        p = {
            f"{e}.{l}.{part}": torch.stack([tensors[f"member.{m}.{e}.{l}.{part}"] for m in range(block["n_members"])])
            for e, d in block["dims"].items()
            for l in range(len(d) - 1)
            for part in ("weight", "bias")
        }
    network = networks.ARCHITECTURES[kind](spec, head["elements"])
    if kind == "ani":  # shipped and random models have the normalisation of descriptors in their weights
        network.deviation = torch.ones_like(network.deviation)
    return head, network, {k: v.to(device) for k, v in p.items()}


def read_structure(path):
    """(elements, positions [N, 3], box [3]) of an orthorhombic extended XYZ file."""
    with open(path, encoding="utf-8") as f:
        n, comment = int(f.readline()), f.readline()
        rows = [f.readline().split() for _ in range(n)]
    cell = [float(x) for x in re.search(r'Lattice="([^"]*)"', comment).group(1).split()]
    return (
        [r[0] for r in rows],
        torch.tensor([[float(x) for x in r[1:4]] for r in rows], dtype=torch.float64),
        torch.tensor([cell[0], cell[4], cell[8]], dtype=torch.float64),
    )


def neighbors(pos, box, cutoff):
    """i, j and x_j + S - x_i of all pairs within the cutoff."""
    found, n = [], len(pos)
    reach = [math.ceil(cutoff / float(b)) for b in box]
    rows = max(1, 20_000_000 // n)
    for s0 in range(-reach[0], reach[0] + 1):
        for s1 in range(-reach[1], reach[1] + 1):
            for s2 in range(-reach[2], reach[2] + 1):
                shifted = pos + torch.tensor([s0, s1, s2], dtype=pos.dtype, device=pos.device) * box
                for begin in range(0, n, rows):
                    r = torch.cdist(pos[begin : begin + rows], shifted)
                    i, j = torch.nonzero((r < cutoff) & (r > 1e-6), as_tuple=True)
                    found.append((i + begin, j, shifted[j] - pos[i + begin]))
    i, j, vectors = (torch.cat(x) for x in zip(*found))
    order = torch.argsort(i, stable=True)
    return i[order], j[order], vectors[order]


class Batch:
    """What the networks read of a structure."""

    def __init__(self, head, network, path, device):
        elements, pos, box = read_structure(path)
        pos, box = pos.to(device), box.to(device)
        self.i, self.j, vectors = neighbors(pos, box, network.cutoff)
        self.vectors = vectors.float()
        self.species = torch.tensor([head["elements"].index(e) for e in elements], device=device)
        self.frame = torch.zeros(len(pos), dtype=torch.long, device=device)
        self.n_frames = 1
        self.of_element = [torch.nonzero(self.species == s).squeeze(1) for s in range(len(head["elements"]))]
        if network.needs_triples:
            self.a, self.b = self._triples(network.angular_cutoff)

    def _triples(self, cutoff):
        """Edges a and b of the same centre, each pair once."""
        near = torch.nonzero(self.vectors.norm(dim=1) < cutoff).squeeze(1)
        centre, a, b, apart = self.i[near], [], [], 1
        while True:
            same = torch.nonzero(centre[apart:] == centre[:-apart]).squeeze(1)
            if len(same) == 0:
                break
            a.append(near[same])
            b.append(near[same + apart])
            apart += 1
        return torch.cat(a), torch.cat(b)


def time_calls(call, device, seconds):
    """Median milliseconds of a call, by events on a GPU, and the number of calls."""
    for _ in range(3):
        call()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end and len(times) < 200 or len(times) < 5:
        if device == "cuda":
            begin, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(stop))
        else:
            begin = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times), len(times)


def compare(mlff, model, path, forces, device):
    """Largest difference to the forces of `mlff`, eV/A; an error when both have not computed the same."""
    done = subprocess.run(
        [mlff, "evaluate", model, path, "--json", "--forces", "--device", device],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    ours = torch.tensor(json.loads(done.stdout)["structures"][0]["forces"])
    apart = float((ours - forces.cpu()).abs().max())
    if not apart <= 2e-3:
        raise RuntimeError(f"not timed: forces of PyTorch and mlff are {apart:.2e} eV/A apart")
    return apart


def orb_call(structure, device):
    """(call, atoms, edges) of orb-models, for energy, forces and stress with the graph found before; None without
    it."""
    if not importlib.util.find_spec("orb_models"):
        return None
    from ase import Atoms
    from orb_models.forcefield.atomic_system import SystemConfig, ase_atoms_to_atom_graphs
    from orb_models.forcefield.pretrained import orb_v2_architecture

    elements, pos, box = read_structure(structure)
    config = SystemConfig(radius=6.0, max_num_neighbors=20)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest")
    model = orb_v2_architecture(system_config=config, device=device).eval().requires_grad_(False)
    graph = ase_atoms_to_atom_graphs(
        Atoms(elements, positions=pos.numpy(), cell=box.numpy(), pbc=True),
        system_config=config,
        device=torch.device(device),
    )
    return lambda: model.predict(graph), len(elements), int(graph.n_edge.sum())


def measure_orb(row, structure, args):
    """orb-models, where it is installed."""
    found = orb_call(structure, args.device)
    if not found:
        raise RuntimeError("orb-models is not installed")
    row["how"] = "orb-models, random weights of its own"
    call, row["n_atoms"], row["n_edges"] = found
    with torch.no_grad():
        row["median_ms"], row["n_calls"] = time_calls(call, args.device, args.each)


def measure_network(row, loaded, path, structure, mode, args):
    """The networks that the project trains with; mode: of torch.compile, None = eager."""
    head, network, p = loaded
    batch = Batch(head, network, structure, args.device)
    row["n_atoms"], row["n_edges"] = len(batch.species), len(batch.i)
    if args.mlff and row["n_atoms"] < 100:
        forces = network(p, batch, False).forces.mean(0)
        row["force_difference"] = compare(args.mlff, path, structure, forces, args.device)
    if mode:
        begin = time.monotonic()
        torch._dynamo.reset()
        network.node_energies = torch.compile(network.node_energies, mode=mode)
        network(p, batch, False)
        row["compile_s"] = time.monotonic() - begin
    row["median_ms"], row["n_calls"] = time_calls(lambda: network(p, batch, False), args.device, args.each)


def measure(path, structure, mode, args):
    """One row; whatever the package, the compiler or the memory of the device does not manage is a row that says why
    not."""
    how = f"PyTorch compiled, {mode}" if mode else "PyTorch eager"
    loaded = load_model(path, args.device)
    row = {
        "model": loaded[0]["name"],
        "device": args.device,
        "precision": "fp32",
        "how": how,
        "n_atoms": len(read_structure(structure)[0]),
    }
    try:
        if loaded[0]["architecture"] == "orb":
            measure_orb(row, structure, args)
        else:
            measure_network(row, loaded, path, structure, mode, args)
    except Exception as e:
        row["why_not"] = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300]
    took = f"median {row['median_ms']:9.4f} ms" if "median_ms" in row else row["why_not"]
    print(f"{row['n_atoms']:8d} atoms  {row['model']:28s} {row['how']:32s} {took}", flush=True)
    return row


def save(path, rows):
    """Whole or not at all: what was measured is there when this program is ended for taking too long."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump({"torch": torch.__version__, "rows": rows}, f, indent=1)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--structures", nargs="+", required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--how", required=True, choices=("eager", "compiled"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--mlff")
    parser.add_argument("--seconds", type=float, default=120, help="for everything")
    parser.add_argument("--each", type=float, default=0.5, help="seconds for one case")
    args = parser.parse_args()
    end, rows = time.monotonic() + args.seconds, []
    for mode in MODES[args.how]:
        for structure in args.structures:
            for path in args.models:
                if time.monotonic() > end or (mode and "orb" in os.path.basename(path)):
                    continue
                rows.append(measure(path, structure, mode, args))
                save(args.out, rows)


if __name__ == "__main__":
    main()
