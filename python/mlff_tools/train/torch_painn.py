"""A model file of PaiNN in PyTorch, in single precision on one thread: what a student would cost there.

    python -m mlff_tools.train.torch_painn MODEL.yaml STRUCTURE.xyz eager|compiled

The network is that of the training (networks.py); compiled: its energies of atoms by torch.compile. The list of edges
and their vectors are made once and are not timed. It writes a line of JSON with energy (eV, without the energies of
free atoms), forces (eV/A) and the version of PyTorch, and for each line of standard input, a number of evaluations,
one with the seconds of each.
"""

import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch

from ..model import modelfile, reference
from ..model.modelfile import ModelError
from . import extxyz, networks


class Student:
    """network and weights of a model file, evaluated on one structure."""

    def __init__(self, path, frame, variant):
        head, tensors = modelfile.read(path)
        block = head.get("painn") or {}
        if block.get("radial_basis", {}).get("kind") != "bspline":
            raise ModelError(f"{path}: only PaiNN with B-splines is here in PyTorch")
        self.network = networks.PaiNN({**block, "cutoff": head["cutoff"]}, head["elements"])
        self.p = {name: torch.as_tensor(np.asarray(value, np.float32)) for name, value in tensors.items()}
        species = [head["elements"].index(e) for e in frame["elements"]]
        i, j, vectors = reference.neighbours(frame["positions"], frame["cell"], head["cutoff"])
        n = len(species)
        self.batch = SimpleNamespace(
            species=torch.tensor(species),
            i=torch.as_tensor(i),
            j=torch.as_tensor(j),
            vectors=torch.as_tensor(vectors.astype(np.float32)),
            frame=torch.zeros(n, dtype=torch.long),
            n_frames=1,
        )
        if variant == "compiled":
            self.network.node_energies = torch.compile(self.network.node_energies)

    def evaluate(self):
        out = self.network(self.p, self.batch, False)
        return float(out.energies.sum()), out.forces[0].numpy()


def main(argv):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    student = Student(argv[0], extxyz.read(argv[1])[0], argv[2])
    energy, forces = student.evaluate()
    print(json.dumps({"energy": energy, "forces": forces.tolist(), "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            student.evaluate()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"seconds": seconds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
