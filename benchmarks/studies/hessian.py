"""What Hessian-vector products in training are worth: students trained with and without them.

  benchmarks/studies/hessian.py benchmarks/studies/recipes/hessian-molecules.yaml [--work FOLDER]

The recipe's structures are labelled, a share of those for training with products, and three students are trained:

  without           no products
  with              products on top of as many frames in each step, which takes longer
  with, same time   products; steps have as many atoms as without, take as long, and hold fewer frames

Printed for each: time of training (CPU), root mean square errors of the test set's forces, energies and Hessian-vector
products (in % of the products), and of frequencies: of each molecule of the recipe at rest, and of the phonons of each
crystal at its high-symmetry points, relaxed by student and teacher on their own. What --work holds is not done again.
Training needs PyTorch, in the Python that MLFF_TORCH_PYTHON names.
"""

import argparse
import json
import os
import resource
import sys
from types import SimpleNamespace

import numpy as np

from mlff_tools.certify import lattice, vibrations
from mlff_tools.model.masses import MASS
from mlff_tools.model.modelfile import ModelError
from mlff_tools.train import build, generate, hessian, job, labelling, labels, recipe_rounds
from mlff_tools.train.extxyz import tag
from mlff_tools.train.label import make_teacher
from mlff_tools.train.teachers import ModelTeacher
from mlff_tools.train.trainer import BATCH

PER_CM = 33.35641  # cm^-1 in a THz
SLOWEST = 0.5  # THz: below are motions and rotations as a whole
ROOM = 30.0  # A: box of a molecule
HEADS = ("s", "meV/A", "meV/atom", "product, %", "cm^-1", "largest")


def say(text):
    print(text, flush=True)


def variants(share):
    """{name: keys of the section training}."""
    return {"without": {"hessian_weight": 0}, "with": {}, "with, same time": {"batch": round(BATCH / (1 + 2 * share))}}


def label(wanted, teacher, frames, path):
    """Labels the frames of the recipe; its test set."""
    file = labels.LabelFile(path, teacher.identity)
    try:
        labelling.label(teacher, frames, file, say, wanted.hessian_share)
        return [f for f in file.frames if tag(f, "split") == "test"]
    finally:
        file.close()


def train(wanted, name, keys, folder, path):
    """(path of the model, result.json, seconds of the CPU) of a student."""
    task = {"name": wanted.name, "folder": folder, "labels": path, "rounds": 0, "start": None, "stop": None}
    task |= {"student": wanted.student, "training": {**wanted.training, **keys}}
    clock = os.path.join(folder, "seconds.json")
    if job.result(task) is None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job.finish(task, job.start(task, job.find_python()), lambda line: say(f"{name}: {line}"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        job.write_json(clock, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    found = job.result(task)
    return os.path.join(folder, found["model"]), found, job.read_json(clock)


def of_molecule(evaluate, frame):
    """Frequencies of a molecule at rest, THz, without motions and rotations as a whole."""
    frame = {**frame, "cell": ROOM * np.eye(3)}
    ((frame, _),) = lattice.relax(evaluate, [frame])
    moved, n = [], 3 * len(frame["elements"])
    for k in range(n):
        for sign in (1, -1):
            x = frame["positions"].copy()
            x.ravel()[k] += sign * vibrations.MOVE
            moved.append({**frame, "positions": x})
    forces = np.array([answer["forces"].ravel() for answer in evaluate(moved)])
    matrix, mass = forces[1::2] - forces[0::2], np.repeat([MASS[e] for e in frame["elements"]], 3)
    w = np.linalg.eigvalsh((matrix + matrix.T) / (4 * vibrations.MOVE) / np.sqrt(np.outer(mass, mass)))
    w = np.sign(w) * np.sqrt(np.abs(w)) * vibrations.THZ
    return np.sort(w[np.argsort(np.abs(w))[6:]])


def of_crystal(evaluate, frame):
    """Frequencies of the phonons of a crystal at the points of its lattice, THz."""
    ((frame, _),) = lattice.relax(evaluate, [frame], cell=True)
    found = vibrations.ForceConstants(evaluate, frame)
    w = np.concatenate([found.frequencies(q) for q in vibrations.points(frame).values()])
    return w[w > SLOWEST]


def measure(wanted, teacher, test):
    """(Hessian-vector products of the test set, frequencies [THz]) of a teacher or student."""
    evaluate, frequencies = (lambda frames: labelling.ask(teacher, frames)), []
    moved = [f["forces"] for f in evaluate(hessian.probes(test))]
    molecules = dict.fromkeys(item["molecule"] for item in wanted.structures if "molecule" in item)
    frequencies += [of_molecule(evaluate, build.bases({"molecule": name}, name)[0]) for name in molecules]
    crystals = [{**item["crystal"], "supercell": [1, 1, 1]} for item in wanted.structures if "crystal" in item]
    for k, unit in enumerate(crystals):
        if unit not in crystals[:k]:
            frequencies.append(of_crystal(evaluate, build.bases({"crystal": unit}, "crystal")[0]))
    products = [(a - b) / (2 * hessian.STEP) for a, b in zip(moved[0::2], moved[1::2])]
    return np.concatenate(products), np.concatenate(frequencies)


def rms(values):
    return float(np.sqrt(np.mean(values**2)))


def row(seconds, result, mine, other):
    """The numbers of a student."""
    (everything,) = (r for r in result["errors"] if r["by"] == "all")
    (product, w), (exact, exact_w) = mine, other
    return [
        seconds,
        1000 * everything["force_rmse"],
        1000 * everything["energy_rmse"],
        100 * rms(product - exact) / rms(exact),
        PER_CM * rms(w - exact_w),
        PER_CM * float(np.abs(w - exact_w).max()),
    ]


def run(args):
    wanted = recipe_rounds.read(args.recipe)
    work = os.path.join(args.work, wanted.name)
    os.makedirs(work, exist_ok=True)
    programs = SimpleNamespace(lmp=None, plugin=None, program=None, mlff=None, python=None, jobs=1)
    folder, path = os.path.join(work, "structures"), os.path.join(work, "labels.xyz")
    frames = generate.generate(wanted.recipe, wanted.structures, wanted.teacher, folder, programs, say)
    teacher = make_teacher(wanted.teacher, frames, wanted.recipe.folder, programs)
    test = label(wanted, teacher, frames, path)
    chosen = {name: keys for name, keys in variants(wanted.hessian_share).items() if args.only in (None, name)}
    where = {name: os.path.join(work, name.replace(", ", "-")) for name in chosen}
    done = {name: train(wanted, name, keys, where[name], path) for name, keys in chosen.items()}
    other, found = measure(wanted, teacher, test), {}
    teacher.close()
    for name, (model, result, seconds) in done.items():
        student = ModelTeacher(model, "fp64")
        found[name] = row(seconds, result, measure(wanted, student, test), other)
        student.close()
    say(f"{'':16s}" + "".join(f"{head:>12s}" for head in HEADS))
    for name, numbers in found.items():
        say(f"{name:16s}" + "".join(f"{x:12.3g}" for x in numbers))
    with open(os.path.join(work, "result.json"), "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", metavar="RECIPE.yaml", help="as that of mlff distill, without rounds")
    parser.add_argument("--only", metavar="NAME", help="one of: without; with; with, same time")
    parser.add_argument("--work", default="work/hessian", metavar="FOLDER", help="(default: %(default)s)")
    try:
        run(parser.parse_args())
    except ModelError as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
