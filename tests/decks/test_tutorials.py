"""The tutorials, typed as they stand with fewer steps: every command works and prints what the page shows."""

import json
import os
import re
import shutil
import subprocess
import sys

import pages
import pytest
from nightly import only

SHARED = os.environ.get("MLFF_SHARED_DIR", os.path.join(os.path.dirname(pages.ROOT), "shared"))
TORCH = os.environ.get("MLFF_TORCH_PYTHON")
TUTORIALS = os.path.join(pages.ROOT, "docs", "tutorials")


def kernels(folder):
    """Kernel paths of this processor; pages show those of one with AVX-512."""
    path = folder / "check.json"
    subprocess.run([os.path.join(pages.BUILD, "mlff"), "check", "--json", path], stdout=subprocess.DEVNULL, check=False)
    return json.loads(path.read_text())["kernels"].split()


def test_my_molecule(tmp_path):
    """With ANI-2x instead of ANI-1x, which the page downloads."""
    pytest.importorskip("ase", reason="ASE is not installed: scripts/setup.sh test")
    source = os.path.join(SHARED, "models", "ani-2x.yaml")
    if not os.path.exists(source):
        pytest.skip(f"{source} is not there (MLFF_SHARED_DIR)")
    convert = [sys.executable, "-m", "mlff_tools", "convert", "ani", source, "-o", "ani-2x", "--origin", "reference"]
    subprocess.run(convert, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": f"{pages.ROOT}/python"})
    output = "".join(
        text or ""
        for text in pages.type_page(
            "tutorials/my-molecule.md",
            tmp_path,
            replace=[("ani-1x", "ani-2x"), ("steps index 4000", "steps index 200")],
            skip=["pip download"],
            shown=[("ani-1x", "ani-2x"), ("H C N O, ensemble", "H C N O S F Cl, ensemble")],
        )
    )
    first = float(re.search(r"9 atoms\n  energy +(\S+) eV", output)[1])
    relaxed = float(re.search(r"relaxed: energy (\S+) eV", output)[1])
    assert 0 < first - relaxed < 0.1, "relaxing lowers the energy a little"
    assert (tmp_path / "ethanol.lammpstrj").read_text().count("ITEM: TIMESTEP") >= 9


@only
def test_my_student(tmp_path):
    """A network of 30 steps instead of 3000, on fewer frames: the bars are out of its reach, and the verdict is not
    looked at."""
    if not TORCH:
        pytest.skip("MLFF_TORCH_PYTHON names no Python with PyTorch")
    pages.type_page(
        "tutorials/my-student.md",
        tmp_path,
        replace=[
            ("size: xs, cutoff: 4.5", "features: 8, layers: 1, cutoff: 4.0, spacing: 0.25"),
            ("steps: 3000", "steps: 30, validate_every: 10"),
            ("[300, 800, 1300]", "[300]"),
            ("time: 2, every: 0.04, timestep: 2", "time: 0.08, every: 0.01, timestep: 2, equilibrate: 0.02"),
            ("copies: 60", "copies: 10"),
            ("supercell: [2, 2, 2]", "supercell: [1, 1, 1]"),
            ("measure: [errors, crystals, nve, speed], minutes: 2", "quick: true, measure: [errors], minutes: 1"),
            ("mlff distill copper.yaml\n", "mlff distill copper.yaml || test $? = 1 -o $? = 3\n"),
            ("steps index 2000", "steps index 20"),
        ],
        env={"MLFF_TORCH_PYTHON": TORCH},
        timeout=900,
    )
    certificate = json.loads((tmp_path / "copper" / "certificate.json").read_text())
    assert {row["quantity"] for row in certificate["bars"]} == {"forces", "lattice_constant", "bulk_modulus", "speedup"}


@only
def test_my_script(tmp_path):
    """A tiny network on few frames, and a short script: whether it passes after one round is not looked at."""
    if not TORCH:
        pytest.skip("MLFF_TORCH_PYTHON names no Python with PyTorch")
    pages.type_page(
        "tutorials/my-script.md",
        tmp_path,
        replace=[
            ("size: xs, cutoff: 4.8, spacing: 0.2", "features: 8, layers: 1, cutoff: 4.0, spacing: 0.25"),
            ("training: {steps: 10000}", "training: {steps: 100}\nrounds: {count: 0, frames: 3, steps: 20}"),
            ("[300, 600, 900]", "[300]"),
            ("time: 2, every: 0.04, timestep: 2", "time: 0.08, every: 0.01, timestep: 2, equilibrate: 0.02"),
            ("supercell: [2, 2, 2]", "supercell: [1, 1, 1]"),
            ("box block 0 2 0 2 0 4.2", "box block 0 1 0 1 0 4.2"),
            ("slab block 0 2 0 2 0 1.99", "slab block 0 1 0 1 0 1.99"),
            ("run             5000", "run             20"),
            ("in.slab --rounds 3 --no-certificate", "in.slab --rounds 1 --no-certificate || test $? = 1"),
        ],
        env={"MLFF_TORCH_PYTHON": TORCH},
        timeout=900,
    )
    assert json.loads((tmp_path / "aluminium" / "more.json").read_text())[0]["end"] in ("passed", "failed")


def test_profile(tmp_path):
    outputs = pages.type_page("tutorials/profile.md", tmp_path, replace=[("steps  index 2000", "steps  index 1000")])
    assert (tmp_path / "report.html").exists()
    medians = [float(line.split()[1]) for line in outputs[-1].splitlines() if re.match(r"[A-F] +[\d.]+ ", line)]
    assert len(medians) == 6 and min(medians[:3]) > max(medians[3:]), "a longer cutoff costs more"


def test_cluster(tmp_path):
    """All but the batch jobs, which tests/slurm types."""
    for name in ("examples", "benchmarks"):
        shutil.copytree(os.path.join(pages.ROOT, name), tmp_path / name)
    os.symlink(os.path.join(pages.ROOT, "models"), tmp_path / "models")
    pages.type_page(
        "tutorials/cluster.md",
        tmp_path,
        replace=[
            ("-var steps 200", "-var steps 10"),
            ("--steps 200", "--steps 20 --warmup 5 --equilibrate 5 --repeats 1"),
        ],
        skip=["sbatch long", "mlff-long.out"],
        shown=[("kernels generic avx2 avx512", " ".join(["kernels", *kernels(tmp_path)]))],
    )


def test_readme_script(tmp_path):
    """The script of README.md, run in the source directory, prints the output shown below it."""
    with open(os.path.join(pages.ROOT, "README.md"), encoding="utf-8") as f:
        script, shown = re.search(r"^```\n(units .*?)^```\n```text\n(.*?)^```", f.read(), re.M | re.S).groups()
    assert "run         1000\n" in script
    (tmp_path / "in.water").write_text(script.replace("run         1000", "run 10"))
    command = ["lmp", "-in", str(tmp_path / "in.water"), "-log", "none"]
    env = pages.environment()
    done = subprocess.run(command, cwd=pages.ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    shown = shown.replace("kernels avx512", f"kernels {kernels(tmp_path)[-1]}").replace("(...", f"({pages.ROOT}")
    pages.compare("README.md", [line for line in shown.splitlines() if line != "..."], done.stdout)
    assert "for 10 steps with 192 atoms" in done.stdout


def test_all_pages_are_typed():
    """A new tutorial has a test here, and the list of them names it."""
    found = {name for name in os.listdir(TUTORIALS) if name.endswith(".md") and name != "README.md"}
    with open(__file__, encoding="utf-8") as f:
        typed = set(re.findall(r'"tutorials/([\w-]+\.md)"', f.read()))
    with open(os.path.join(TUTORIALS, "README.md"), encoding="utf-8") as f:
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", f.read()))
    assert found == typed == listed, (found, typed, listed)


def test_what_a_page_shows_is_compared():
    """Lines match when only their numbers differ. Another word, or a number instead of a word, is an error."""
    shown = "  energy   -4217.48 eV  (-468.6 eV/atom), sha256 055026f73ba0"
    pages.compare("page", [shown], "x\n energy -1 eV (-2e-3 eV/atom), sha256 00aa26f73ba1\n")
    for other in ("energy - eV (1 eV/atom), sha256 055026f73ba0", "energy 1 meV (1 eV/atom), sha256 055026f73ba0"):
        with pytest.raises(AssertionError, match="which is not in"):
            pages.compare("page", [shown], other)
    with pytest.raises(AssertionError, match="which is not in"):
        pages.compare("page", ["second", "first"], "first\nsecond\n")
