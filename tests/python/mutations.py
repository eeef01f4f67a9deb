"""Changes of one number, key, word, order or line of a model file, and what becomes of each.

    python tests/python/mutations.py MODEL.yaml [--as stated|none|renewed] [--sample N]

A change is caught when the file does not open. What opens is compared with the model on bulk, atoms and dimers, which
are not those of its self-test: another number there is a silent change. --as says what becomes of header_sha256: it
stays as it was (stated), or is taken away (none) or made right (renewed), so that the self-test judges alone.
"""

import argparse
import collections
import itertools
import re
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np

import mlff
from mlff_tools.model import header

NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:[eE][-+]?\d+)?(?![\w.])")
WORDS = {
    "bspline": ["gaussian", "bessel"],
    "none": ["cosine"],
    "cosine": ["none"],
    "eV": ["hartree", "kcal/mol"],
    "exact": ["float32-rounded"],
    "float32-rounded": ["exact"],
    "polynomial": ["xplor"],
    "even": ["all"],
    "all": ["even"],
    "one_hot": ["linear"],
    "rms": ["none"],
    "bessel": ["trained", "gaussian"],
}


def _numbers(line):
    for t in NUMBER.finditer(line):
        old = t[0]
        if "." in old or "e" in old:
            f = float(old)
            new = [repr(f * 1.02), repr(f * 1.5), repr(-f), repr(f + 0.1), "0.0"]
        else:
            new = [str(int(old) + 1), str(int(old) - 1), str(2 * int(old)), "0"]
        for n in new:
            if n != old:
                yield f"{old} -> {n}", line[: t.start()] + n + line[t.end() :]


def _orders(line):
    """Neighbors in a list, and keys of a mapping, exchanged."""
    for t in re.finditer(r"\[([^\[\]]+)\]", line):
        items = t[1].split(", ")
        for q in range(min(len(items) - 1, 40)):
            swapped = [*items[:q], items[q + 1], items[q], *items[q + 2 :]]
            yield f"{items[q]} <-> {items[q + 1]}", line[: t.start(1)] + ", ".join(swapped) + line[t.end(1) :]
    keys = list(re.finditer(r"(?<=[{, ])([A-Za-z_0-9-]+)(?=: )", line))
    for a, b in zip(keys, keys[1:]):
        changed = line[: a.start()] + b[0] + line[a.end() : b.start()] + a[0] + line[b.end() :]
        yield f"keys {a[0]} <-> {b[0]}", changed


def _words(line):
    for old, others in WORDS.items():
        for t in re.finditer(r"(?<![\w-])" + re.escape(old) + r"(?![\w-])", line):
            for new in others:
                yield f"{old} -> {new}", line[: t.start()] + new + line[t.end() :]


def mutations(text):
    """(line from 1, what was changed, text) of every change."""
    lines, found = text.split("\n"), []
    for k, line in enumerate(lines):
        found.append((k + 1, "deleted", lines[:k] + lines[k + 1 :]))
        found.append((k + 1, "twice", lines[: k + 1] + lines[k:]))
        for make in (_numbers, _orders, _words):
            found += [(k + 1, what, [*lines[:k], changed, *lines[k + 1 :]]) for what, changed in make(line)]
    return [(k, what, "\n".join(changed)) for k, what, changed in found]


def structures(text, elements):
    """(elements, positions, cell) to compare models on."""
    rng = np.random.default_rng(0)
    sites = 20.0 * np.arange(len(elements))[:, None] * [1, 0, 0]
    out = [(elements, sites, None)]  # atoms; with all elements first the network is made once
    nearest = float(re.search(r"min_distance: ([0-9.e-]+)", text)[1])
    used = elements if len(elements) < 12 else ["Si", "O", "Na", "Cl", "H", "Fe", "C", "N", "Al", "Cu"]
    for spacing, n, jitter in ((1.6, 3, 0.15), (2.4, 3, 0.2)):
        sites = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3) * spacing
        symbols = [used[k % len(used)] for k in range(n**3)]
        out.append((symbols, sites + rng.normal(size=sites.shape) * jitter, np.eye(3) * spacing * n))
    pairs = [(a, b) for i, a in enumerate(used) for b in used[i:]]
    reach = (0.35, 0.6, 0.9, 1.2, 2.0, 3.5)
    out += [([a, b], [[0, 0, 0], [0, 0, r]], None) for a, b in pairs for r in reach if r > 1.05 * nearest]
    return out


class Judge:
    """Opens changed files of one model, in a folder with its weights, and compares."""

    def __init__(self, path, folder, precision="fp32"):
        self.text, self.precision = Path(path).read_text(encoding="utf-8"), precision
        self.path = str(Path(folder) / Path(path).name)
        weights = re.search(r"file: ([^,}\s]+)", self.text)[1]
        shutil.copy(Path(path).parent / weights, folder)
        model = mlff.Model(str(path), precision=precision, domain="ignore")
        self.structures = structures(self.text, model.elements)
        self.reference = [self._result(model, s) for s in self.structures]

    @staticmethod
    def _result(model, structure):
        try:
            r = model.evaluate(*structure)
        except mlff.Error as e:
            return str(e)
        return np.concatenate([[r.energy], r.forces.ravel(), r.virial, r.energies if r.energies is not None else []])

    @staticmethod
    def _stamped(text, way):
        if way == "stated":
            return text
        if way == "none":
            return re.sub(r"(?m)^header_sha256: .*\n", "", text)
        try:
            return header.renewed(text, "mutant")[0]
        except Exception:
            return text  # is no YAML any more

    def judge(self, text, way):
        """ "refused", "same", "stricter" (errors where there were numbers) or what differs."""
        Path(self.path).write_text(self._stamped(text, way), encoding="utf-8")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = mlff.Model(self.path, precision=self.precision, domain="ignore")
        except mlff.Error:
            return "refused"
        verdict = "same"
        for structure, before in zip(self.structures, self.reference):
            now = self._result(model, structure)
            if isinstance(before, str):
                if not isinstance(now, str):
                    return f"{' '.join(structure[0][:2])}: a number where there was an error"
            elif isinstance(now, str):
                verdict = "stricter"
            elif not (np.abs(now - before) <= 1e-3 * max(1.0, np.abs(before).max())).all():
                return f"{' '.join(structure[0][:2])}: {now[0] - before[0]:.3g} eV, {np.abs(now - before).max():.3g}"
        return verdict


def run(path, folder, ways=("stated", "none"), sample=None, header_only=False, seed=0):
    """(verdicts and how many there are of each, silent changes as text) of all mutations, or of a random sample, in
    each of the ways. header_only: without those of the block self_test, which ends a file."""
    judge = Judge(path, folder)
    end = judge.text[: judge.text.index("\nself_test:")].count("\n") + 1 if header_only else np.inf
    found = [m for m in mutations(judge.text) if m[0] <= end]
    if sample is not None and sample < len(found):
        found = [found[k] for k in np.random.default_rng(seed).permutation(len(found))[:sample]]
    counts, silent = collections.Counter(), []
    for way, (line, what, text) in itertools.product(ways, found):
        verdict = judge.judge(text, way)
        known = verdict in ("refused", "same", "stricter")
        counts[verdict if known else "silent"] += 1
        if not known:
            silent.append(
                f"{Path(path).name}:{line}: {judge.text.splitlines()[line - 1].strip()[:60]}: {what}: {way}: {verdict}"
            )
    return counts, silent


def main():
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--as", dest="way", choices=("stated", "none", "renewed"), default="stated")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--header-only", action="store_true", help="no changes of the block self_test")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, silent = run(args.model, folder, (args.way,), args.sample, args.header_only)
    print(args.model, args.way, dict(counts))
    print("\n".join(silent))
    sys.exit(bool(silent))


if __name__ == "__main__":
    main()
