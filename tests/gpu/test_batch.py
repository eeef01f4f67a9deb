"""mlff batch and mlff time on a GPU: the simulated one (tests/cudasim)."""

import json
import os
import subprocess

import pytest
from harness import water
from models import ARCHITECTURES

MLFF = os.environ.get("MLFF", "mlff")
FILLS = {
    "painn": 0,
    "ani": 0,
    "orb": 4,
    "nequix": 3,
    "mace": 1,
    "tensornet": 0,
}  # of a CUDA graph, whose other nodes are kernels, not copies
BOUNDS = {"fp64": (1e-8, 1e-7), "fp32": (1e-5, 1e-3), "mixed": (1e-5, 1e-3)}


def batch(*lines):
    """(what a command printed as JSON, or None, the line after it) of each."""
    done = subprocess.run([MLFF, "batch"], input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=False)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    ends = [k for k, row in enumerate(rows) if "batch" in row]
    assert len(ends) == len(lines) and done.returncode == max(rows[k]["status"] for k in ends)
    return [(rows[k - 1] if k and "batch" not in rows[k - 1] else None, rows[k]) for k in ends]


@pytest.fixture(name="xyz")
def write_xyz(tmp_path):
    system, path = water(2), tmp_path / "water.xyz"
    with open(path, "w", encoding="utf-8") as f:
        cell = " ".join(str(x) for x in system.cell.ravel())
        f.write(f'{len(system.types)}\nLattice="{cell}"\n')
        for kind, at in zip(system.types, system.x):
            f.write(f"{system.elements[kind - 1]} {at[0]} {at[1]} {at[2]}\n")
    return path


@pytest.mark.parametrize("model", ARCHITECTURES)
def test_against_cpu(zoo, xyz, model):
    """Every precision, with and without CUDA graphs, in one process. The nodes of a graph are reported."""
    cases = [(precision, graph) for precision in BOUNDS for graph in ("on", "off")]
    rows = batch(
        *[
            f"time {zoo[model]} {xyz} --device cuda --precision {precision} "
            f"--graph {graph} --calls 2 --against cpu --json"
            for precision, graph in cases
        ]
    )
    for (precision, graph), (row, end) in zip(cases, rows):
        assert end["status"] == 0 and not end["error"], end
        assert (row["device"], row["precision"], row["graph"]) == ("cuda", precision, graph)
        assert row["energy_difference"] <= BOUNDS[precision][0] and row["force_difference"] <= BOUNDS[precision][1]
        assert 0 < row["force_rms_ratio"] <= 1e-4
        if graph == "on":
            assert row["n_replayed"] > 0 and row["n_nodes"] - FILLS[model] == row["n_kernels"] > 5
        else:
            assert row["n_nodes"] == row["n_kernels"] == 0
    assert rows[0][0]["force_rms_ratio"] < 1e-8


def test_a_lost_device_does_not_end_a_batch(zoo, xyz, monkeypatch):
    monkeypatch.setenv("MLFF_CUDASIM_FAIL_LAUNCH", "40")
    case = f"time {zoo['painn']} {xyz} --graph off --calls 50 --json --device"
    (none, lost), (row, end) = batch(f"{case} cuda", f"{case} cpu")
    assert none is None and lost["status"] == 1 and "cuda" in lost["error"].lower()
    assert row["device"] == "cpu" and end["status"] == 0
