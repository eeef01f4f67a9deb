"""Files of mace-torch (.model): what the converter makes of them, and what it refuses.

Files in the same format are written here, from the published descriptions. With mace-torch 0.3.16, the same seven
models were saved by torch.save: reading them gave the descriptions and the bits of all tensors, but for the last bit of
one coupling in three of them, which depends on the version of PyTorch. So did mace01_swa.model (2023) of
github.com/imagdau/Tutorials at 3b7b691 with mace_xtb_solvents. test_mace_packages.py repeats this where mace-torch is
installed. Traps: M5 order and dummies of weights, M13 order of elements, M14 channels of heads, M16 classes of gates,
M17 oddities of old files.
"""

import contextlib
import io
import os
import shutil
import zipfile

import helpers
import mace_files
import numpy as np
import pytest
import references
from mace_files import find
from test_nequip_files import same_bits
from torch_files import save_checkpoint, save_module

from mlff_tools.convert import checkpoints, mace_file
from mlff_tools.convert import command as convert
from mlff_tools.model import modelfile
from mlff_tools.model.modelfile import ModelError

NAMES = tuple(f"mace_tiny_{name}" for name in ("mp", "off", "mpa", "heads", "nonlin", "soft", "one"))
NAMES += ("mace_xtb_solvents",)
# Keys that only a description has.
DESCRIBED = {"license", "model", "path_columns", "product_columns", "source", "source_sha256", "spherical_harmonics"}
DESCRIBED |= {"weights"}
pytestmark = pytest.mark.skipif(not helpers.HAS_PUBLISHED, reason=helpers.NO_PUBLISHED)


def described(name):
    """(description, tensors); files of models have values of couplings in double."""
    source, tensors = references.described("mace", name)
    return source, {k: v.astype(np.float64) if k.endswith(".value") else v for k, v in tensors.items()}


def written(folder, change=lambda model, writer: model, name="mace_tiny_mp"):
    """Path of a file of the model `name`."""
    path = str(folder / (name + ".model"))
    mace_files.save_model(path, *described(name), change)
    return path


def refused(folder, path, *texts):
    """The command ends with one line that contains the texts and the path, and writes nothing."""
    line = helpers.refusal(convert.main, ["mace", path, "--no-self-test", "-o", str(folder / "out")])
    for text in (*texts, path):
        assert text in line
    assert line.startswith("mlff convert: error: ") and line.count("\n") == 1
    assert not (folder / "out.yaml").exists()


@pytest.mark.parametrize("name", NAMES)
def test_reads(tmp_path, name):
    """M5, M13, M14: description and bits of all tensors."""
    source, tensors = described(name)
    if not source["pair_repulsion_scaled"]:  # class MACE has none
        tensors |= {k: tensors[k].astype(tensors["atomic_energies"].dtype) for k in ("scale", "shift")}
    found, arrays = mace_file.read(written(tmp_path, name=name))
    assert same_bits(arrays, tensors)
    assert {key: found[key] for key in source if key not in DESCRIBED} == {
        key: value for key, value in source.items() if key not in DESCRIBED
    }


def test_dummy_weight(tmp_path):
    """M5: a degree without couplings has a weight that means nothing."""
    source, tensors = described("mace_tiny_mp")
    name = "layers.0.product.L1.nu1."
    without = {k: v for k, v in tensors.items() if not k.startswith(name)}
    path = str(tmp_path / "dummy.model")
    mace_files.save_model(path, source, without)
    found, arrays = mace_file.read(path)
    assert same_bits(arrays, without)
    assert found["layer"][0]["product"] == {"L0": [1, 2, 3], "L1": [2, 3]}


def old(model, writer):
    """M17: what files of 2022 have, and numbers as numpy writes them."""
    state = model.state
    del state["heads"], state["_buffers"]["atomic_numbers"], state["_buffers"]["r_max"]
    del find(model, "radial_embedding").state["apply_cutoff"], find(model, "products.0").state["use_agnostic_product"]
    numbers = writer.source["atomic_numbers"]
    state["atomic_numbers"] = writer.kind("AtomicNumberTable", "mace.tools.utils")(state={"zs": numbers})
    state["r_max"] = writer.source["cutoff"]
    for layer in find(model, "interactions").state["_modules"].values():
        layer.state["avg_num_neighbors"] = np.float64(layer.state["avg_num_neighbors"])
        layer.state["node_feats_irreps"] = " + ".join(
            f"{part.arguments[0][0]}x{l}{'eo'[l % 2]}"
            for l, part in enumerate(layer.state["node_feats_irreps"].arguments[0])
        )
        layer.state["__codegen__"] = {"_compiled_main": b"PK\x03\x04\xff\x00"}
    return model


def test_old(tmp_path):
    source, tensors = described("mace_tiny_mp")
    found, arrays = mace_file.read(written(tmp_path, old))
    assert same_bits(arrays, tensors)
    for key in ("atomic_numbers", "cutoff", "heads", "default_head", "layer", "cutoff_applied_to"):
        assert found[key] == source[key]


def test_old_gate(tmp_path):
    """M16: e3nn's class instead of that of mace-torch 0.3.16."""

    def change(model, writer):
        for layer, described in zip(find(model, "interactions").state["_modules"].values(), writer.source["layer"]):
            gate, g = layer.state["_modules"], described["gate"]
            acts = {
                "act_scalars": writer.activation(g["scalar_activation"], g["act_norm"]),
                "act_gates": writer.activation(g["gate_activation"], g["gate_norm"]),
            }
            parts = {
                k: writer.module("Activation", modules={"acts": writer.numbered([act])}) for k, act in acts.items()
            }
            gate["equivariant_nonlin"] = writer.module("Gate", modules=parts, package="e3nn.nn._gate")
        return model

    source, tensors = described("mace_tiny_nonlin")
    found, arrays = mace_file.read(written(tmp_path, change, "mace_tiny_nonlin"))
    assert same_bits(arrays, tensors)
    assert found["layer"] == source["layer"]


def test_constants_in_single_precision(tmp_path):
    """Those of the repulsion are decimals in files of single precision as well."""
    source, _ = described("mace_tiny_mpa")
    rounded = np.array(source["pair_repulsion"]["c"], np.float32)
    path = written(tmp_path, setting("pair_repulsion_fn", c=rounded), "mace_tiny_mpa")
    assert mace_file.read(path)[0]["pair_repulsion"] == source["pair_repulsion"]


@pytest.mark.parametrize(
    "name, options",
    [
        ("mace_tiny_off", []),
        ("mace_tiny_one", []),
        ("mace_tiny_mpa", []),
        ("mace_tiny_soft", []),
        ("mace_tiny_heads", ["--head", "r2scan"]),
    ],
)
def test_command(tmp_path, name, options):
    """The same model file as from the description."""
    path, models = written(tmp_path, name=name), []
    for source in (path, os.path.join(helpers.PUBLISHED, name + ".yaml")):
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main(["mace", source, "--no-self-test", *options, "-o", str(tmp_path / "out")])
        models.append(modelfile.read(str(tmp_path / "out")))
    (head, tensors), (expected, arrays) = models
    assert same_bits(tensors, arrays)
    assert {k: head[k] for k in ("mace", "elements", "cutoff", "energy_offsets")} == {
        k: expected[k] for k in ("mace", "elements", "cutoff", "energy_offsets")
    }
    assert modelfile.sha256_of(path) in head["provenance"]["code"]
    assert head["provenance"]["license"] == "unknown: see the source"


@pytest.mark.parametrize(
    "file, model, license, citation",
    [
        ("2023-12-10-mace-128-L0_energy_epoch-249.model", "mace-mp-0-small", "MIT (", "arXiv:2401.00096"),
        ("20231210mace128L0_energy_epoch249model", "mace-mp-0-small", "MIT (", "arXiv:2401.00096"),
        ("MACE-OFF23_small.model", "mace-off23-small", "Academic Software License (ASL): ", "arXiv:2312.15211"),
        ("mace-omat-0-medium.model", "mace-omat-0-medium", "Academic Software License (ASL): ", "arXiv:2401.00096"),
        ("mace-mh-1.model", "mace-mh-1", "Academic Software License (ASL): ", "arXiv:2510.25380"),
    ],
)
def test_released(tmp_path, file, model, license, citation):
    """Licence and citation by the file's published name, or that of the package's cache."""
    path = str(tmp_path / file)
    shutil.copy(written(tmp_path, name="mace_tiny_one"), path)
    with contextlib.redirect_stdout(io.StringIO()):
        convert.main(["mace", path, "--no-self-test", "-o", str(tmp_path / "out")])
    head = modelfile.read(str(tmp_path / "out"))[0]
    provenance = head["provenance"]
    assert head["description"].startswith(model)
    assert provenance["license"].startswith(license) and "recognized by the file name" in provenance["license"]
    assert "arXiv:2206.07697" in provenance["citation"] and citation in provenance["citation"]


def setting(name, **values):
    """A change: attributes, buffers or submodules of the module `name`; None takes one away."""

    def change(model, writer):
        state = find(model, name).state
        for key, value in values.items():
            places = [state[part] for part in ("_parameters", "_buffers", "_modules") if key in state[part]]
            (places[0] if places else state)[key] = value(writer) if callable(value) else value
        return model

    return change


def renamed(name, kind, package=None):
    """A change: another class of the module `name`."""

    def change(model, writer):
        module = find(model, name)
        module.__class__ = writer.kind(kind, package)
        return model

    return change


CUET = "cuequivariance_torch.operations.linear"
LAYOUT = "convert it to the layout of e3nn with mace-torch first"
REFUSED = {
    "polar": (renamed("", "PolarMACE", "mace.modules.extensions"), "the model is a mace.modules.extensions.PolarMACE"),
    "les": (renamed("", "MACELES", "mace.modules.extensions"), "MACELES, which is not supported"),
    "dipoles": (renamed("", "AtomicDipolesMACE", "mace.modules.models"), "AtomicDipolesMACE, which is not supported"),
    "own class": (renamed("", "ScaleShiftMACE", "mine"), "the model is a mine.ScaleShiftMACE, which is not supported"),
    "charges": (setting("", joint_embedding=lambda w: w.module("GenericJointEmbedding")), "charge or spin"),
    "so3": (setting("", use_so3=True), "harmonics without parity (use_so3)"),
    "attention": (
        renamed("interactions.1", "RealAgnosticAttResidualInteractionBlock"),
        "interactions.1 is a mace.modules.blocks.RealAgnosticAttResidualInteractionBlock",
    ),
    "chebyshev": (renamed("radial_embedding.bessel_fn", "ChebychevBasis", "mace.modules.radial"), "ChebychevBasis"),
    "cueq linear": (renamed("interactions.0.linear_up", "Linear", CUET), LAYOUT),
    "cueq contraction": (renamed("products.0.symmetric_contractions", "SymmetricContraction", CUET), LAYOUT),
    "oeq": (renamed("interactions.0.conv_tp", "TensorProductConv", "openequivariance"), LAYOUT),
    "dipole readout": (renamed("readouts.1", "NonLinearDipoleReadoutBlock"), "readouts.1 is a mace.modules.blocks."),
    "transform": (
        setting("radial_embedding", distance_transform=lambda w: w.module("OtherTransform")),
        "radial_embedding.distance_transform is a mace.modules.blocks.OtherTransform",
    ),
    "lmax": (
        setting("spherical_harmonics", irreps_out=lambda w: w.irreps([(1, l) for l in range(5)])),
        "orders above 3 are not supported",
    ),
    "normalization": (setting("spherical_harmonics", normalization="norm"), "the normalization 'norm'"),
    "parity": (setting("interactions.0", node_feats_irreps="6x0o"), "'6x0o': other parities than (-1)^l"),
    "two parities": (setting("interactions.0", target_irreps="6x0e+6x1o+6x1e"), "other parities than (-1)^l"),
    "widths": (setting("interactions.0", node_feats_irreps="4x0e+2x0e"), "each of the orders 0, 1, ... once"),
    "cutoff": (setting("radial_embedding.cutoff_fn", r_max=np.array(4.0)), "has the cutoff 4, the model 4.2"),
    "prefactor": (setting("radial_embedding.bessel_fn", prefactor=np.array(0.5)), "has the prefactor 0.5"),
    "variance": (setting("interactions.0.conv_tp_weights.layer0", var_in=2), "layer0 has other variances than 1"),
    "elements": (setting("", atomic_numbers=np.array([1, 8, 8])), "has the atomic numbers [1, 8, 8]"),
    "energies": (setting("atomic_energies_fn", atomic_energies=np.zeros(2)), "atomic energies of shape [1, 2]"),
    "not a number": (setting("", r_max=np.array(np.nan)), "has a r_max that is no number"),
    "average": (setting("interactions.0", avg_num_neighbors="many"), "has a avg_num_neighbors that is no number"),
    "missing part": (setting("interactions.0", linear_up=None), "interactions.0 has no linear_up: its version"),
    "missing layers": (setting("", products=None), "the model has no products: its version"),
    "weights": (setting("interactions.0.linear_up", weight=np.zeros(5)), "has 5 weights, which do not fit its irreps"),
    "skip": (setting("interactions.0.skip_tp", weight=np.zeros(5)), "is damaged, or of a version of mace-torch"),
    "networks": (setting("interactions.0.conv_tp_weights", hs=[7, 10, 9, 11, 23]), "of shape [11, 24], expected"),
    "couplings": (
        setting("products.0.symmetric_contractions.contractions.0", weights_max=np.zeros((3, 2, 6))),
        "has weights of shape [3, 2, 6] for 23 couplings",
    ),
    "irreps": (setting("interactions.0", node_feats_irreps="many"), "is damaged, or of a version of mace-torch"),
    "attribute": (setting("interactions.0.conv_tp", instructions=[1, 2]), "is damaged, or of a version of mace-torch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    change, text = REFUSED[case]
    refused(tmp_path, written(tmp_path, change), text)


def test_factors_of_layers(tmp_path):
    """Layers whose factors are not those of e3nn's defaults are refused."""

    def change(place, factor):
        def scaled(model, writer):
            module = find(model, place)
            entry = module.state["instructions"][0]
            numbers = [factor if isinstance(x, float) else x for x in entry.arguments]
            module.state["instructions"][0] = type(entry)(*numbers)
            return model

        return scaled

    for place, text in (
        ("interactions.0.linear_up", "is a linear layer of another form"),
        ("interactions.0.skip_tp", "is a product of another form"),
        ("interactions.0.conv_tp", "has a path 0, 0, 0 of another form"),
    ):
        refused(tmp_path, written(tmp_path, change(place, 0.7)), place, text)


def test_not_a_model(tmp_path):
    """Files of PyTorch that contain no model."""
    path = str(tmp_path / "state.model")
    tensors = {"embedding": np.zeros(3)}
    save_checkpoint(path, tensors)
    refused(tmp_path, path, "contains no model but a OrderedDict", "use the .model file of the same training")
    save_checkpoint(path, tensors, lambda state: {"model": state, "epoch": 3})
    refused(tmp_path, path, "contains no model but a dict")
    save_module(path, 1.5, {})
    refused(tmp_path, path, "contains no model but a float")
    for data in (b"", b"text\n", b"\x80\x02.", b"PK"):
        (tmp_path / "state.model").write_bytes(data)
        refused(tmp_path, path, "cut off or damaged" if data == b"PK" else "is not a checkpoint of PyTorch")


def repacked(path, change, compression=zipfile.ZIP_STORED):
    """The file's entries again; change(entries) gives what is written."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in change(entries).items():
            archive.writestr(name, data)


def test_damaged(tmp_path):
    path = written(tmp_path)
    with open(path, "rb") as f:
        data = f.read()
    for n in (3, 40, len(data) // 3, len(data) - 30, len(data) - 1):
        (tmp_path / "cut.model").write_bytes(data[:n])
        refused(tmp_path, str(tmp_path / "cut.model"), "is cut off or damaged")
    whole = {}
    repacked(path, lambda entries: whole.update(entries) or entries)
    text, largest = whole["model/data.pkl"], max(whole, key=lambda name: len(whole[name]))
    for change, message in (
        (lambda e: {**e, "model/constants.pkl": b""}, "it is a compiled TorchScript model"),
        (lambda e: {**e, "model/byteorder": b"big"}, "its numbers are not little-endian"),
        (lambda e: {k: v for k, v in e.items() if k != "model/data.pkl"}, "it is not a PyTorch file"),
        (lambda e: {k: v for k, v in e.items() if k != largest}, f"no item named '{largest}'"),
        (lambda e: {**e, largest: bytes(8)}, f"storage {os.path.basename(largest)} holds"),
        (lambda e: {**e, "model/data.pkl": text[: len(text) // 2]}, "cannot be read as a model of mace-torch"),
        (lambda e: {**e, "model/data.pkl": b""}, "cannot be read as a model of mace-torch"),
        (lambda e: {**e, "model/data.pkl": b"\x80\x02]r\xff\xff\xff\xff."}, "it contains the index 4294967295"),
        (lambda e: {**e, "model/data.pkl": b"\x80\x02]q\x00h\x00a."}, "contains no model but a list"),
    ):
        repacked(path, lambda _, change=change: change(whole))
        refused(tmp_path, path, message)
    repacked(path, lambda _: {**whole, "model/data/bomb": bytes(1 << 24)}, zipfile.ZIP_DEFLATED)
    refused(tmp_path, path, "it is compressed, which files of PyTorch are not")


def test_every_byte_of_the_pickle(tmp_path):
    """No change of a byte ends in anything but a model or an error."""
    path, rng = written(tmp_path, name="mace_tiny_one"), np.random.default_rng(1)
    whole = {}
    repacked(path, lambda entries: whole.update(entries) or entries)
    text, errors = whole["model/data.pkl"], 0
    for _ in range(300):
        changed = bytearray(text)
        changed[rng.integers(len(text))] = rng.integers(256)
        repacked(path, lambda _, changed=changed: {**whole, "model/data.pkl": bytes(changed)})
        try:
            mace_file.read(path)
        except ModelError as e:
            assert path in str(e)
            errors += 1
    assert errors > 50


class Evil:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments, {"a": 1}, iter([1, 2]), iter([("a", 1)])


def test_no_code_runs(tmp_path):
    """Whatever is not a tensor or a plain container is replaced by something that does nothing."""
    mark = str(tmp_path / "run")
    commands = [Evil(os.system, f"touch {mark}"), Evil(os.mkdir, mark), Evil(exec, f"import os; os.mkdir({mark!r})")]
    _, tensors = described("mace_tiny_mp")
    for evil in commands:
        path = written(tmp_path, setting("interactions.0", hook=evil, reshape=evil))
        assert same_bits(mace_file.read(path)[1], tensors)
        assert isinstance(
            checkpoints.read_module(path, "model").state["_modules"]["interactions"], checkpoints.Recorded
        )
        path = written(tmp_path, setting("interactions.0", avg_num_neighbors=evil))
        refused(tmp_path, path, "interactions.0 has a avg_num_neighbors that is no number")
        path = written(tmp_path, setting("interactions.0.linear_up", weight=evil))
        refused(tmp_path, path, "interactions.0.linear_up has a weight that is no tensor")
        save_module(path, evil, {})
        refused(tmp_path, path, "the model is a ", "which is not supported (possible: MACE, ScaleShiftMACE)")
    assert not os.path.exists(mark)


def test_large_tensor(tmp_path):
    """A tensor that repeats one number as often as no memory holds, and one beyond its storage."""
    path = str(tmp_path / "large.model")
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
    for size, stride in (
        (b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86", b"K\x00K\x00\x86"),
        (b"K\x07\x85", b"K\x01\x85"),
        (b"J\xff\xff\xff\xff\x85", b"K\x01\x85"),
    ):
        pickled = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + size + stride + b"\x89}tR."
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", pickled)
            archive.writestr("model/data/0", b"\0\0\0\0")
        refused(tmp_path, path, "reaches beyond its storage")
