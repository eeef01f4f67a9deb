"""ANI networks in the files of other programs: NeuroChem folders, FeNNol's .fnx, state dicts. The files are written
here."""

import bz2
import contextlib
import importlib.util
import io
import os
import struct
import tempfile
import unittest
import warnings

import helpers
import numpy as np

from mlff_tools.convert import checkpoints, fennol, neurochem
from mlff_tools.convert import command as convert
from mlff_tools.model import modelfile, reference, structures
from mlff_tools.model.modelfile import ModelError

# Constants of ANI-1x, whose layout (4 elements, 384 columns, cutoff 5.2 A) differs from that of ANI-2x everywhere.
ANI_1X = {
    "Rcr": 5.2,
    "Rca": 3.5,
    "EtaR": 16.0,
    "ShfR": (0.9 + np.arange(16) * 4.3 / 16).tolist(),
    "EtaA": 8.0,
    "Zeta": 32.0,
    "ShfA": [0.9, 1.55, 2.2, 2.85],
    "ShfZ": ((np.arange(8) + 0.5) * np.pi / 8).tolist(),
}
ELEMENTS = ("H", "C", "N", "O")
SELF_ENERGIES = {"H": -0.60095298, "C": -38.08316124, "N": -54.7077577, "O": -75.19446356}
WIDTHS = {"H": (384, 12, 10, 1), "C": (384, 11, 9, 1), "N": (384, 10, 8, 1), "O": (384, 10, 8, 1)}


def networks(n_members, seed=7, widths=None):
    """{(member, element): [(weight, bias), ...]} with random numbers."""
    rng, out, widths = np.random.default_rng(seed), {}, widths or WIDTHS
    for m in range(n_members):
        for e in ELEMENTS:
            out[m, e] = [
                ((rng.normal(size=(b, a)) / np.sqrt(a)).astype("<f4"), (0.1 * rng.normal(size=b)).astype("<f4"))
                for a, b in zip(widths[e], widths[e][1:])
            ]
    return out


# ---- writers --------------------------------------------------------------------------------------------------------


def write_neurochem(
    folder, n_members, info="ani-1x.info", activation=9, constants="rHCNO.params", energies=None, widths=None
):
    """A NeuroChem folder of random networks, as the published ones look."""
    energies = energies or SELF_ENERGIES
    listed = lambda values: "[" + ",".join(f"{x:.8e}" for x in np.ravel(values)) + "]"
    with open(os.path.join(folder, constants), "w", encoding="utf-8") as f:
        f.write(
            "TM = 1\n"
            + "".join(f"{k} = {v:.4e}\n" if k in ("Rcr", "Rca") else f"{k} = {listed(v)}\n" for k, v in ANI_1X.items())
            + f"Atyp = [{','.join(ELEMENTS)}]\n"
        )
    with open(os.path.join(folder, "sae_linfit.dat"), "w", encoding="utf-8") as f:
        f.write("".join(f"{e},{k}={energies[e]!r}\n" for k, e in enumerate(ELEMENTS)))
    if info:
        with open(os.path.join(folder, info), "w", encoding="utf-8") as f:
            f.write(f"{constants}\nsae_linfit.dat\ntrain\n{n_members}\n")
    made = networks(n_members, widths=widths)
    for (m, e), layers in made.items():
        place = os.path.join(folder, f"train{m}", "networks")
        os.makedirs(place, exist_ok=True)
        text = (
            "!InputFile for Force Prediction Network\nsflparamsfile="
            + constants
            + ";\nnetwork_setup {\ninputsize=384;\n"
        )
        for l, (weight, bias) in enumerate(layers):
            weight.tofile(os.path.join(place, f"ANN-{e}.nnf-l{l + 1}.wparam"))
            bias.tofile(os.path.join(place, f"ANN-{e}.nnf-l{l + 1}.bparam"))
            text += (
                f"layer [\nnodes={weight.shape[0]};\nactivation={6 if l == len(layers) - 1 else activation};\ntype=0;\n"
                f"blocksize={weight.shape[1]};\ndropout=0;\ndropset=0.5;\nmaskupdate=0.1;\nmaxnorm=0;\nnorm=3.0;\n"
                "normupdate=0.1;\nl2norm=0;\nl2valu=0.01;\nbtchnorm=0;\n"
                f"weights=FILE:ANN-{e}.nnf-l{l + 1}.wparam[{weight.size}];\n"
                f"biases=FILE:ANN-{e}.nnf-l{l + 1}.bparam[{bias.size}];\n]\n$\n"
            )
        with open(os.path.join(place, f"ANN-{e}.nnf"), "wb") as f:
            f.write(b"123=" + b"\n" + bz2.compress((text + "\0").encode()))
    return made


def pack(value):
    """MessagePack with arrays as flax writes them; every length as 32 bits."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if value is None:
        return b"\xc0"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, np.ndarray):
        body = pack([list(value.shape), value.dtype.name, value.tobytes()])
        return b"\xc9" + struct.pack(">I", len(body)) + b"\x01" + body
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(pack(v) for v in value)


def fnx(members, ensemble=False):
    """A model of FeNNol as a document: one member, or an ensemble as that of its ANI-2x."""
    embedding = {
        "module_name": "ANI_AEV",
        "angle_sections": 8,
        "angular_dist_divisions": 4,
        "angular_eta": 8.0,
        "angular_start": 0.9,
        "radial_dist_divisions": 16,
        "radial_eta": 16.0,
        "radial_start": 0.9,
        "species_order": list(ELEMENTS),
        "zeta": 32.0,
        "graph_key": "graph",
        "graph_angle_key": "graph_angle",
    }
    net = {
        "module_name": "SPECIES_INDEX_NET",
        "activation": "partial(celu, alpha=0.1)",
        "input_key": "ani_aev",
        "hidden_neurons": {e: list(WIDTHS[e][1:-1]) for e in ELEMENTS},
        "output_dim": 1,
        "use_bias": True,
    }
    names = [f"energy{m}" for m in range(len(members))] if ensemble else ["energy"]
    constant = np.zeros(119, np.float32)
    for e, x in SELF_ENERGIES.items():
        constant[modelfile.NUMBERS[e]] = x
    params = {
        name: {
            e: {
                f"Layer_{l + 1}": {"kernel": np.ascontiguousarray(w.T), "bias": b} for l, (w, b) in enumerate(member[e])
            }
            for e in ELEMENTS
        }
        for name, member in zip(names, members)
    }
    return {
        "cutoff": 5.2,
        "energy_terms": ["energy"] + ([] if ensemble else ["self_energy"]),
        "energy_unit": "Ha",
        "modules": [
            ["embedding", embedding],
            *[[name, dict(net)] for name in names],
            ["self_energy", {"module_name": "CHEMICAL_CONSTANT", "trainable": True, "value": SELF_ENERGIES}],
        ],
        "preprocessing": [
            ["graph_filter", {"cutoff": 3.5, "graph_key": "graph_angle", "parent_graph": "graph"}],
            ["species_indexer", {"output_key": "species_index"}],
        ],
        "variables": {"params": {**params, "self_energy": {"constant": constant}}},
    }


def members_of(made, n):
    return [{e: made[m, e] for e in ELEMENTS} for m in range(n)]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "out")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def convert(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main([*arguments, "-o", self.out])
        return modelfile.read(self.out)

    def same_tensors(self, tensors, made, n_members):
        self.assertEqual(len(tensors), n_members * 4 * 3 * 2)
        for (m, e), layers in made.items():
            for l, (weight, bias) in enumerate(layers):
                helpers.assert_near(tensors[f"member.{m}.{e}.{l}.weight"], weight, 0.0, f"weight {m} {e} {l}")
                helpers.assert_near(tensors[f"member.{m}.{e}.{l}.bias"], bias, 0.0, f"bias {m} {e} {l}")


class NeuroChem(Folder):
    def test_read(self):
        """From the .info file, the folder, and a folder without .info."""
        made = write_neurochem(self.folder, 2)
        for source in (self.path("ani-1x.info"), self.folder):
            head, tensors = self.convert("ani", source)
            self.same_tensors(tensors, made, 2)
            self.assertEqual(head["elements"], list(ELEMENTS))
            self.assertEqual(head["energy_offsets"], SELF_ENERGIES)
            self.assertEqual((head["cutoff"], head["ani"]["angular"]["cutoff"]), (5.2, 3.5))
            self.assertEqual((head["ani"]["angular"]["zeta"], head["ani"]["constants"]), (32.0, "float32-rounded"))
            self.assertEqual(head["ani"]["angular"]["sections"][1], float(np.float32(3 * np.pi / 16)))
            self.assertIn("ANI-1x", head["provenance"]["labels"])
            self.assertGreaterEqual(len(head["self_test"]["structures"]), 2)
        os.unlink(self.path("ani-1x.info"))
        head, _ = self.convert("ani", self.folder, "--constants", "exact")
        self.assertEqual(head["ani"]["angular"]["sections"][1], 3 * np.pi / 16)
        self.assertEqual(head["ani"]["constants"], "exact")

    def refused(self, text):
        with self.assertRaisesRegex(ModelError, text):
            neurochem.read(self.folder)

    def test_refused(self):
        write_neurochem(self.folder, 1, activation=5)
        self.refused("activation 5")
        write_neurochem(self.folder, 1)
        nnf = self.path("train0", "networks", "ANN-O.nnf")
        with open(nnf + "-l1.wparam", "ab") as f:
            f.write(b"1234")
        self.refused("wparam: 3841 numbers")
        os.unlink(nnf + "-l1.wparam")
        self.refused("l1.wparam: No such file")
        text = bz2.decompress(open(nnf, "rb").read()[5:]).replace(b"ANN-O.nnf-l1.wparam", b"../ANN-O.wparam")
        with open(nnf, "wb") as f:
            f.write(b"1=\n" + bz2.compress(text))
        self.refused("is missing in its folder")
        with open(nnf, "wb") as f:
            f.write(b"")
        self.refused("cannot be read as a network")
        os.unlink(self.path("sae_linfit.dat"))
        self.refused("sae_linfit.dat")
        with self.assertRaisesRegex(ModelError, "not an .info file"):
            neurochem.read(self.path("rHCNO.params"))

    @unittest.skipUnless(importlib.util.find_spec("torchani"), "TorchANI is not installed in this Python")
    def test_torchani_reads_the_same(self):
        import torch

        warnings.filterwarnings("ignore")
        from torchani import neurochem as theirs

        write_neurochem(self.folder, 2)
        s = structures.rattled("ethanol", 1)
        aev, symbols = theirs.load_aev_computer_and_symbols(self.path("rHCNO.params"))
        from torchani.arch import ANI

        original = ANI(
            symbols,
            aev,
            theirs.load_ensemble(symbols, self.path("train"), 2),
            theirs.load_sae(self.path("sae_linfit.dat")),
        ).double()
        x = torch.tensor(s["positions"])[None].requires_grad_()
        energy = original((torch.tensor([[modelfile.NUMBERS[e] for e in s["elements"]]]), x)).energies.sum()
        forces = -torch.autograd.grad(energy, x)[0][0].numpy()
        found, hartree = reference.evaluate(self.convert("ani", self.folder), s), modelfile.ENERGY_IN_EV["hartree"]
        helpers.assert_near(
            [found[0] / hartree], [float(energy.detach())], 1e-4, "energy (TorchANI rounds self energies)"
        )
        helpers.assert_near(found[1] / hartree, forces, 5e-9, "forces")


class FeNNol(Folder):
    def write(self, name, document):
        with open(self.path(name), "wb") as f:
            f.write(pack(document))
        return self.path(name)

    def test_read(self):
        """A member, an ensemble in a file, and a folder of members give the networks that were written."""
        made = networks(2)
        members = members_of(made, 2)
        os.mkdir(self.path("both"))
        for k, member in enumerate(members):
            self.write(os.path.join("both", f"m{k}.fnx"), fnx([member]))
        head, tensors = self.convert("fennol", self.path("both"))
        self.same_tensors(tensors, made, 2)
        self.assertEqual(head["energy_offsets"], SELF_ENERGIES)
        self.assertEqual((head["architecture"], head["ani"]["constants"]), ("ani", "exact"))
        self.assertEqual(head["ani"]["angular"]["sections"], ((np.arange(8) + 0.5) * np.pi / 8).tolist())
        helpers.assert_near(head["ani"]["radial"]["shifts"], ANI_1X["ShfR"], 1e-15, "shifts")
        helpers.assert_near(head["ani"]["angular"]["shifts"], ANI_1X["ShfA"], 1e-15, "shifts")
        head, tensors = self.convert("fennol", self.write("all.fnx", fnx(members, ensemble=True)))
        self.same_tensors(tensors, made, 2)
        self.assertEqual(set(head["energy_offsets"].values()), {0.0})
        self.assertIn("without self energies", head["provenance"]["code"])

    def test_ensembles_of_more_than_ten_keep_their_order(self):
        made = networks(11)
        _, tensors = self.convert(
            "fennol", self.write("many.fnx", fnx(members_of(made, 11), ensemble=True)), "--no-self-test"
        )
        self.same_tensors(tensors, made, 11)

    def test_refused(self):
        member = members_of(networks(1), 1)

        def changed(change):
            document = fnx(member)
            change(document)
            return self.write("bad.fnx", document)

        for change, text in (
            (lambda d: d["modules"][0][1].update(module_name="CRATE"), "0 modules ANI_AEV"),
            (lambda d: d["modules"][1][1].update(module_name="NEURAL_NET"), "SPECIES_INDEX_NET"),
            (lambda d: d["modules"][1][1].update(activation="silu"), "activation is 'silu'"),
            (lambda d: d["energy_terms"].append("coulomb"), "energy term 'coulomb'"),
            (lambda d: d["preprocessing"].pop(0), "no angular cutoff"),
            (lambda d: d["variables"]["params"]["energy"].pop("O"), "'energy' of O"),
            (lambda d: d.update(energy_unit="Ry"), "energy unit 'Ry'"),
            (lambda d: d.pop("modules"), "no modules"),
        ):
            with self.assertRaisesRegex(ModelError, text):
                fennol.read(changed(change))
        whole = pack(fnx(member))
        for data in (whole[:-5], b"\xc1", b"\x91" * 200, b"\xc7\x00\x05", b""):
            with open(self.path("bad.fnx"), "wb") as f:
                f.write(data)
            with self.assertRaisesRegex(ModelError, "cannot be read as a model of FeNNol"):
                fennol.read(self.path("bad.fnx"))
        with self.assertRaisesRegex(ModelError, "runs code"):
            fennol.read(self.path("model.pkl"))
        words = ["ani", self.write("good.fnx", fnx(member)), "-o", self.out]
        self.assertIn("convert fennol", helpers.refusal(convert.main, words))


class StateDicts(unittest.TestCase):
    """What a state dict of TorchANI does not say."""

    def state(self, eta=16.0, zeta=32.0, eta_angular=8.0):
        return {
            "aev_computer." + k: np.ravel(v).astype(np.float32)
            for k, v in {**ANI_1X, "EtaR": eta, "EtaA": eta_angular, "Zeta": zeta}.items()
            if k not in ("Rcr", "Rca")
        }

    def test_cutoffs(self):
        """The published models are told apart: 5.2 A for ANI-1x, 5.1 A for ANI-2x, and no guess for others."""
        cutoffs = lambda state, given=None: [
            checkpoints._torchani_constants("file", state, given)[k]["cutoff"] for k in ("radial", "angular")
        ]
        self.assertEqual(cutoffs(self.state()), [5.2, 3.5])
        self.assertEqual(cutoffs(self.state(19.7, 14.1, 12.5)), [5.1, 3.5])
        with self.assertRaisesRegex(ModelError, "--cutoffs"):
            cutoffs(self.state(zeta=31.0))
        self.assertEqual(cutoffs(self.state(zeta=31.0), (4.5, 3.25)), [4.5, 3.25])
        self.assertEqual(
            cutoffs({**self.state(), "aev.Rcr": np.float32(4.75), "aev.Rca": np.float32(3.5)}), [4.75, 3.5]
        )

    def test_self_energies_are_not_rounded(self):
        """TorchANI keeps them as float32 (trap A6)."""
        for e, x in (("Cl", -460.1681939421027), ("C", -38.08316124), ("C", -38.08933878049795)):
            self.assertNotEqual(float(np.float32(x)), x)
            self.assertEqual(checkpoints.unrounded_self_energy(e, np.float32(x)), x)
        self.assertEqual(checkpoints.unrounded_self_energy("C", np.float32(-38.0)), -38.0)
        self.assertEqual(
            checkpoints.unrounded_self_energy("O", np.float32(-38.08316124)), float(np.float32(-38.08316124))
        )


if __name__ == "__main__":
    unittest.main()
