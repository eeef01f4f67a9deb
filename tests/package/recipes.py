"""The recipes of examples/packaging and the Dockerfile, by the linters of their own tools; `make test-install`.

Spack's `spack style` is in no package of PyPI or Debian: what it asks for is asked of ruff here.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from wheels import ROOT, run, succeed

RECIPES = pathlib.Path(ROOT, "examples", "packaging")
VERSION = re.search(r'^version = "(.*)"', pathlib.Path(ROOT, "pyproject.toml").read_text(), re.MULTILINE).group(1)
LMOD = "/usr/share/lmod/lmod/libexec/lmod"


def program(name):
    """Path of a program of section install of scripts/requirements.txt."""
    path = shutil.which(name, path=os.path.dirname(sys.executable))
    assert path, f"{name} is not installed: scripts/setup.sh install"
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of a release, as CONTRIBUTING.md makes it."""
    path = tmp_path_factory.mktemp("archive") / f"mlff-{VERSION}.tar.gz"
    pack = subprocess.run(
        ["git", "-C", ROOT, "archive", "--format=tar.gz", f"--prefix=mlff-{VERSION}/", "HEAD"],
        stdout=subprocess.PIPE,
        check=True,
    )
    path.write_bytes(pack.stdout)
    return path


def filled(recipe, archive):
    """Text of a recipe with the hash of the archive."""
    text = (RECIPES / recipe).read_text()
    assert text.count("@SHA256@") == 1 and VERSION in text
    return text.replace("@SHA256@", hashlib.sha256(archive.read_bytes()).hexdigest())


def test_dockerfile():
    code, output = run([program("hadolint"), "--no-color", "examples/containers/Dockerfile"], cwd=ROOT)
    assert code == 0, output


def test_conda_forge(archive):
    """It is rendered as conda-forge's own tool does; the archive is the one that it names."""
    import rattler_build as rb

    recipe = rb.Stage0Recipe.from_yaml(filled("conda-forge/recipe.yaml", archive))
    linux = rb.PlatformConfig(target_platform="linux-64")
    names = "c_compiler: [gcc]\ncxx_compiler: [gxx]\nc_stdlib: [sysroot]\n"
    (variant,) = recipe.render(rb.VariantConfig.from_yaml(names), rb.RenderConfig(linux))
    found = variant.recipe.to_dict()
    assert (found["package"]["name"], found["package"]["version"]) == ("mlff", VERSION)
    assert found["source"][0]["path"] == archive.name
    assert any("lammps" in str(one) for one in found["requirements"]["run"]), found["requirements"]


@pytest.fixture(scope="module")
def eb(tmp_path_factory):
    """Words of EasyBuild, which wants a tool for modules and no root."""
    if not os.path.exists(LMOD):
        code, output = run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "lmod"])
        if code:
            pytest.skip(f"lmod cannot be installed: {output[-200:]}")
    place = tmp_path_factory.mktemp("easybuild")
    (recipe,) = RECIPES.glob(f"easybuild/mlff-{VERSION}-*.eb")
    shutil.copy(recipe, place)
    environment = {
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "LMOD_CMD": LMOD,
        "EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES": "1",
        "EASYBUILD_INSTALLPATH": str(place / "installed"),
    }
    return lambda *options: run([program("eb"), *options, recipe.name], cwd=place, **environment), place / recipe.name


def test_easybuild(eb, archive):
    """Style, and with the archive's hash the checks of a contribution and all that it depends on."""
    run_eb, recipe = eb
    code, output = run_eb("--sourcepath", str(archive.parent), "--inject-checksums", "--force")
    assert code == 0 and hashlib.sha256(archive.read_bytes()).hexdigest() in recipe.read_text(), output
    code, output = run_eb("--check-contrib")  # style as well
    assert code == 0, output
    code, output = run_eb("--sourcepath", str(archive.parent), "--dry-run", "--robot")
    assert code == 0 and "/LAMMPS-22Jul2025" in output and f"module: mlff/{VERSION}-foss" in output, output


def test_spack(archive, tmp_path):
    """Python of at most 99 columns, as Spack has it; what a package must have; every option of CMake is one of ours."""
    text = filled("spack/package.py", archive)
    (tmp_path / "package.py").write_text(text)
    rules = ["--isolated", "--line-length", "99", "--select", "E,F,W", "--ignore", "F403,F405"]
    succeed([program("ruff"), "check", *rules, tmp_path / "package.py"])
    succeed([program("ruff"), "format", "--isolated", "--line-length", "99", "--check", tmp_path / "package.py"])
    assert "class Mlff(CMakePackage):" in text and 'license("MIT"' in text
    options = pathlib.Path(ROOT, "cmake", "Options.cmake").read_text()
    used = re.findall(r'"(MLFF_\w+)"', text.split("def cmake_args")[1].split("@run_after")[0])
    assert len(used) > 4 and all(re.search(rf"\b{name}\b", options) for name in used), used
