"""What a script's evaluations ought to have given: the plain energy, forces and virial of the atoms that were there.

Pair follows the lines of a script that choose the force field. Models are evaluated by the engine through Python
(mlff.Model, in double precision, with neighbors that it finds itself), lj/cut by sums over pairs and images.
"""

import itertools
import re

import numpy as np

import mlff

PER_EV = {"metal": 1.0, "real": 23.060549}
HUGE = 1e6  # eV: less than the energy of a trial whose atoms overlap
TOLERANCE = 1e-8  # eV per atom, eV/A, relative to 1 and to the largest force: rounding of double precision


class Wrong(Exception):
    """A number is not the one of the reference, or nothing can be."""


def span(word, n):
    """Types of a range such as 2, *, 1*2."""
    low, star, high = word.partition("*")
    first = int(low) if low else 1
    last = int(high) if high else (n if star else first)
    return range(first, last + 1)


class Beyond(Exception):
    """What is not ours: lj/cut of two atoms in one place, or with lists that lack or keep pairs, which it does not
    check."""


class Pair:
    """The force field after some lines: mlff terms (factor, model, elements of types, members), and lj/cut of pairs of
    types."""

    def __init__(self):
        self.files = {}  # what was written, by the name of the command that reads it
        self.do_clear()

    def follow(self, line):
        words = line.split()
        if not words:
            return
        handler = getattr(self, "do_" + words[0], None)
        if handler:
            handler(words[1:])

    def do_clear(self, _=None):
        self.units, self.n_types, self.computes = "lj", 0, True
        self.style, self.subs = "none", []  # (style, factor, members)
        self.models, self.lj = {}, {}

    def do_write_restart(self, _):
        self.files["restart"] = (self.units, self.n_types, self.style, list(self.subs), dict(self.lj))

    def do_read_restart(self, _):
        """With the coefficients of lj/cut and without those of mlff."""
        self.units, self.n_types, self.style, subs, lj = self.files["restart"]
        self.subs, self.lj = list(subs), dict(lj)

    def do_write_data(self, _):
        self.files["data"] = self.n_types

    def do_read_data(self, _):
        self.n_types = self.files["data"]

    def do_units(self, words):
        self.units = words[0]

    def do_create_box(self, words):
        self.n_types = int(words[0])

    def do_pair_modify(self, words):
        for name, value in itertools.pairwise(words):
            if name == "compute":
                self.computes = value == "yes"

    def do_pair_style(self, words):
        self.models, self.lj, self.computes = {}, {}, True
        self.style = words[0].replace("/omp", "")
        self.subs = []
        if not self.style.startswith("hybrid"):
            self.subs = [(words[0], 1.0, self._members(words))]
            return
        factor, at = 1.0, 1
        while at < len(words):
            if re.fullmatch(r"[0-9.]+", words[at]) and self.style == "hybrid/scaled":
                factor, at = float(words[at]), at + 1
            end = at + 1
            while end < len(words) and not self._is_style(words, end):
                end += 1
            self.subs.append((words[at], factor, self._members(words[at:end])))
            at = end

    def _is_style(self, words, at):
        scaled = self.style == "hybrid/scaled"
        names = ("mlff", "zero", "lj/cut")
        return words[at] in names or (scaled and at + 1 < len(words) and words[at + 1] in names)

    @staticmethod
    def _members(words):
        return words[words.index("members") + 1] if "members" in words else "all"

    def do_pair_coeff(self, words):
        if not self.style.startswith("hybrid"):
            self.models = {0: (1.0, words[2], words[3:], self.subs[0][2])} if self.style == "mlff" else {}
            if self.style == "lj/cut":
                self._map_pairs(words, self.style, 0, words[2:])
            return
        name, rest = words[2], words[3:]
        which = [k for k, sub in enumerate(self.subs) if sub[0] == name]
        k = which[0]
        if name == "mlff" and len(which) > 1:
            k, rest = which[int(rest[0]) - 1], rest[1:]
        if name == "mlff":
            self.models[k] = (self.subs[k][1], rest[0], rest[1:], self.subs[k][2])
        self._map_pairs(words, name, k, rest)

    def _map_pairs(self, words, name, k, rest):
        """Which pairs lj/cut has; in hybrid, a later line takes pairs away from earlier ones."""
        for i, j in itertools.product(span(words[0], self.n_types), span(words[1], self.n_types)):
            pair = (min(i, j), max(i, j))
            if name == "mlff" and "NULL" in (rest[i], rest[j]):
                continue
            if name == "lj/cut" and i <= j:
                self.lj[pair] = (self.subs[k][1], *map(float, rest[:2]))
            elif self.style == "hybrid":
                self.lj.pop(pair, None)

    def lj_cutoff(self):
        return 5.0  # script_grammar.py gives no other


class Oracle:
    """Evaluates states. Models are opened once."""

    def __init__(self, folder):
        self.folder, self.open = folder, {}

    def model(self, name, members):
        key = (name, members)
        if key not in self.open:
            more = {} if members == "all" else {"members": members}
            self.open[key] = mlff.Model(f"{self.folder}/{name}", precision="fp64", domain="ignore", skin=0.0, **more)
        return self.open[key]

    def evaluate(self, pair, types, x, kept, cell, pbc):
        """Energy, forces [n, 3], virial [6] and energies of atoms [n] or None, in eV and A. Atoms that are not kept,
        which are in no neighbor list, contribute nothing."""
        if not kept.all():
            energy, f, virial, a = self.evaluate(pair, types[kept], x[kept], kept[kept], cell, pbc)
            forces, atoms = np.zeros((len(types), 3)), np.zeros(len(types))
            forces[kept] = f
            atoms[kept] = 0.0 if a is None else a
            return energy, forces, virial, None if a is None else atoms
        energy, forces, virial, atoms = 0.0, np.zeros((len(types), 3)), np.zeros(6), np.zeros(len(types))
        if not pair.computes or not len(types):
            return energy, forces, virial, atoms
        for factor, name, elements, members in pair.models.values():
            mine = np.array([elements[t - 1] != "NULL" for t in types])
            if not mine.any():
                continue
            symbols = [elements[t - 1] for t in types[mine]]
            result = self.model(name, members).evaluate(symbols, x[mine], cell if any(pbc) else None, pbc)
            energy += factor * result.energy
            forces[mine] += factor * result.forces
            virial += factor * result.virial
            if result.energies is None:
                atoms = None
            elif atoms is not None:
                atoms[mine] += factor * result.energies
        if pair.lj:
            e, f, v, a = lj(pair, types, x, cell, pbc)
            energy, forces, virial = energy + e, forces + f, virial + v
            atoms = None if atoms is None else atoms + a
        return energy, forces, virial, atoms


def lj(pair, types, x, cell, pbc):
    """Sums over pairs and images; epsilon is in the script's units."""
    cutoff, n = pair.lj_cutoff(), len(types)
    heights = 1.0 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    fractions = (x - x[0]) @ np.linalg.inv(cell)
    most = [int(np.ceil(cutoff / h + np.ptp(fractions[:, d]))) if pbc[d] else 0 for d, h in zip(range(3), heights)]
    table = np.zeros((3, pair.n_types + 1, pair.n_types + 1))
    for (i, j), (factor, epsilon, sigma) in pair.lj.items():
        table[:, i, j] = table[:, j, i] = factor, epsilon / PER_EV.get(pair.units, 1.0), sigma
    factor, epsilon, sigma = table[:, types[:, None], types[None, :]]
    energy, forces, virial, atoms = 0.0, np.zeros((n, 3)), np.zeros(6), np.zeros(n)
    for image in itertools.product(*(range(-m, m + 1) for m in most)):
        d = x[None, :] + np.array(image) @ cell - x[:, None]
        r2 = (d * d).sum(2)
        if (r2[~np.eye(n, dtype=bool)] == 0.0).any():
            raise Beyond
        there = (r2 < cutoff * cutoff) & (r2 > 0.0) & (epsilon != 0.0)
        s6 = np.where(there, (sigma**2 / np.where(there, r2, 1.0)) ** 3, 0.0)
        e = factor * 4.0 * epsilon * (s6 * s6 - s6)
        slope = factor * -24.0 * epsilon * (2.0 * s6 * s6 - s6) / np.where(there, r2, 1.0)
        energy += 0.5 * e.sum()
        atoms += 0.5 * e.sum(1)
        forces += (slope[:, :, None] * d).sum(1)
        w = -0.5 * np.einsum("ij,ija,ijb->ab", slope, d, d)
        virial += w[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return energy, forces, virial, atoms


def close(value, wanted, tolerance, what):
    """As harness.close."""
    value, wanted = np.asarray(value, float), np.asarray(wanted, float)
    bad = ~(np.abs(value - wanted) <= tolerance)
    if bad.any():
        k = np.unravel_index(np.argmax(bad), bad.shape)
        raise Wrong(f"{what}{[int(i) for i in k]} is {value[k]:.12g}, of the reference {wanted[k]:.12g}")


def merge(parts):
    """An evaluation of all ranks, atoms one after the other."""
    whole = dict(parts[0])
    for name in ("type", "excluded", "x", "f", "eatom"):
        if name in whole:
            whole[name] = np.concatenate([part[name] for part in parts])
    for name in ("pe", "virial"):
        if name in whole:
            whole[name] = sum(part[name] for part in parts)
    return whole


class Check:
    """Compares all evaluations of a script with the reference, given what each rank wrote down. Wrong at the first
    difference."""

    def __init__(self, oracle, lines, ranks):
        self.oracle, self.lines, self.ranks = oracle, lines, ranks
        self.pair, self.at = Pair(), 0
        self.respa = self.deforms = self.shakes = self.sets_types = self.sets_positions = self.watched = False
        self.excludes = self.delays = False
        self.n_checked, self.last_line = 0, -1

    def run(self):
        last, ends, error = {}, self.ranks[0]["ends"], self.ranks[0]["error"]
        n = min(len(rank["evaluations"]) for rank in self.ranks)
        if error and n and self.ranks[0]["evaluations"][n - 1]["line"] == error[0]:
            n -= 1  # it may have been unfinished
        for k in range(n):
            parts = [rank["evaluations"][k] for rank in self.ranks]
            line = parts[0]["line"]
            while ends and ends[0]["line"] < line:
                ends = self.end(last)
            self.follow(line)
            last = {"line": line}
            if self.respa and "x" in parts[0] and line == self.last_line:
                continue  # of an inner level
            self.last_line = line
            if "x" in parts[0]:
                last["energy"] = self.compare(merge(parts), f"{self.where(line)}, step {parts[0]['step']}")
        while ends:
            ends = self.end(last)

    def where(self, line):
        return f"line {line + 1}, {self.lines[line]!r}"

    def follow(self, line):
        for text in self.lines[self.at : line + 1]:
            self.pair.follow(text)
            if text.startswith("run_style") or text == "clear":
                self.respa = text.startswith("run_style respa")
            self.deforms = (self.deforms or " deform " in text or " press/" in text) and text != "clear"
            self.excludes = (self.excludes or text.startswith("neigh_modify exclude")) and text != "clear"
            self.delays = (self.delays or re.match("neigh_modify (delay|every|check|once)", text)) and text != "clear"
            self.shakes = (self.shakes or " shake " in text) and text != "clear"
            self.sets_types = (self.sets_types or (text.startswith("fix") and " type v_" in text)) and text != "clear"
            self.sets_positions = (
                self.sets_positions or (text.startswith("fix") and " x v_" in text)
            ) and text != "clear"
            self.watched = (self.watched or text == "#watch") and text != "clear"
            if text.startswith("fix ") and not self.watched:
                raise Beyond  # the watch sees forces that this fix has changed
        self.at = line + 1

    def end(self, last):
        """Checks the end of a run: thermo output of its last step. With run_style respa there is no watch, but atoms
        are those of the last step, unless the box is changed after it. Returns the later ends."""
        ends = self.ranks[0]["ends"]
        parts = [rank["ends"].pop(0) for rank in self.ranks]
        pe, line = parts[0]["pe"], parts[0]["line"]
        if pe is None or self.shakes:  # its restraints have an energy in minimisations
            return ends
        # by commands after its last step, or by fix set
        changed = " every " in self.lines[line] or self.sets_types or self.sets_positions
        if self.respa and not self.deforms and not changed:
            self.compare({**merge(parts), "pe": pe}, f"{self.where(line)}, at its end")
        elif not self.respa and self.pair.computes and line == last["line"] and last.get("energy"):
            close(pe, *last["energy"], f"{self.where(line)}: pe at its end")
        return ends

    def compare(self, seen, where):
        """Returns the energy in the script's units and its tolerance."""
        if seen.get("trial", False) and not self.pair.computes:
            return None  # fixes try energies in spite of pair_modify compute no
        if self.sets_types and self.pair.lj:
            raise Beyond  # fix set leaves ghosts their types, which lj/cut reads
        low, high, xy, yz, xz = seen["box"]
        size = np.array(high) - np.array(low)
        cell = np.array([[size[0], 0, 0], [xy, size[1], 0], [xz, yz, size[2]]])
        types, trial = seen["type"].astype(int), seen.get("trial", False)
        where += ", in a trial" if trial else ""
        per_ev, n = PER_EV.get(self.pair.units, 1.0), max(1, len(types))
        pbc = [bool(p) for p in seen["periodic"]]
        kept = seen["excluded"] == 0 if "excluded" in seen else np.full(len(types), True)
        old_lists = self.delays or " pre no" in self.lines[self.at - 1]
        if self.pair.lj and (self.deforms or old_lists or (self.excludes and not kept.all())):
            raise Beyond
        if self.excludes and old_lists and not kept.all():
            raise Beyond  # exclusions apply to the next list
        try:
            energy, forces, virial, atoms = self.oracle.evaluate(self.pair, types, seen["x"], kept, cell, pbc)
            apart = seen["excluded"] == 2 if "excluded" in seen else ~kept
            if self.pair.lj and self.pair.computes and apart.any():  # pair styles see them as neighbors
                energy += lj(self.pair, types[apart], seen["x"][apart], cell, pbc)[0]
        except mlff.Error as e:
            if trial and HUGE * per_ev < seen["pe"] < np.inf:
                return None
            raise Wrong(f"{where}: LAMMPS goes on, and the reference says: {e}") from None
        self.n_checked += 1
        tolerance = TOLERANCE * max(1.0, np.abs(forces).max(initial=0.0)) * per_ev
        if not self.respa and not trial:
            close(seen["f"], per_ev * forces, tolerance, f"{where}: force")
        if "pe" in seen and self.pair.computes:  # else it is that of the last trial
            close(seen["pe"], per_ev * energy, tolerance * n, f"{where}: energy")
        # with pair_modify compute no, LAMMPS keeps the virial and the energies of atoms of the last evaluation
        if "virial" in seen and self.pair.computes:
            tolerance_of_virial = max(tolerance * n * 10.0, TOLERANCE * per_ev * np.abs(virial).max())
            close(seen["virial"], per_ev * virial, tolerance_of_virial, f"{where}: virial")
        if "eatom" in seen and atoms is not None and self.pair.computes:
            close(seen["eatom"], per_ev * atoms, tolerance, f"{where}: energy of atom")
        return per_ev * energy, tolerance * n
