"""examples/containers/Dockerfile, built by buildah on a Debian from debootstrap; its image runs water. Needs root and
the network: `make test-install`, some minutes."""

import os
import shutil

import pytest
from bare import make_root
from wheels import ROOT, run, succeed

FILE = os.path.join(ROOT, "examples", "containers", "Dockerfile")
DECK = "/opt/mlff/lib/python3.11/site-packages/mlff_tools/examples/lammps_inputs"


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    """The words of a buildah whose images and containers lie in a temporary folder."""
    if os.geteuid():
        pytest.skip("needs root")
    if not shutil.which("buildah"):
        code, output = run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "buildah"])
        if code:
            pytest.skip(f"buildah cannot be installed: {output[-200:]}")
    place = tmp_path_factory.mktemp("buildah")
    (place / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
    return ["buildah", "--storage-driver", "vfs", "--root", place / "images", "--runroot", place / "run"], place


@pytest.fixture(scope="module")
def image(buildah):
    """The name of the image. Its base is a Debian 12 of this test, under the name that the file has, since no registry
    of images may be in reach."""
    words, place = buildah
    base = make_root(place / "debian", "amd64", "ca-certificates", installed=True)
    (base / "etc" / "pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
    code, container = run([*words, "from", "--name", "base", "scratch"])
    assert code == 0, container
    succeed([*words, "add", "-q", "base", base, "/"])
    policy = ["--signature-policy", place / "policy.json"]
    succeed([*words, "commit", "-q", *policy, "base", "docker.io/library/debian:12-slim"])
    succeed([*words, "rm", "base"])
    options = ["--isolation", "chroot", "--network", "host", "--pull-never", *policy]
    succeed([*words, "bud", *options, "-f", FILE, "-t", "mlff", ROOT])
    return "mlff"


def test_image_runs_water(buildah, image):
    words, place = buildah
    succeed([*words, "from", "--pull-never", "--signature-policy", place / "policy.json", "--name", "one", image])
    inside = [*words, "run", "--isolation", "chroot", "one", "--"]
    code, output = run([*inside, "mlff", "verify", "water-mbpol-xs"])
    assert code == 0 and "passed" in output, output
    words = ["-in", f"{DECK}/in.water_nvt", "-var", "folder", DECK, "-var", "steps", "20", "-log", "none"]
    code, output = run([*inside, "mpiexec", "-n", "2", "lmp", *words])
    assert code == 0 and "Loop time" in output, output
