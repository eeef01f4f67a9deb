"""benchmarks/gpu/torch_bench.py, on the CPU: PyTorch is held against mlff and timed. Needs MLFF_TORCH_PYTHON."""

import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = os.path.join(ROOT, "benchmarks", "gpu")
MLFF, TORCH_PYTHON = os.environ.get("MLFF", "mlff"), os.environ.get("MLFF_TORCH_PYTHON")

sys.path.insert(0, GPU)
import structures  # noqa: E402


@pytest.mark.skipif(not TORCH_PYTHON, reason="MLFF_TORCH_PYTHON names no Python with PyTorch")
def test_same_forces_and_a_time(tmp_path):
    """Of each network that PyTorch has; Orb wants orb-models, and says so where it is not installed."""
    folder, out, water = str(tmp_path / "models"), str(tmp_path / "torch.json"), structures.path_of(str(tmp_path), 24)
    subprocess.run([sys.executable, os.path.join(GPU, "shapes.py"), folder, "--small"], check=True)
    command = [TORCH_PYTHON, os.path.join(GPU, "torch_bench.py"), "--models", folder, "--how", "eager", "--out", out]
    subprocess.run([*command, "--device", "cpu", "--mlff", MLFF, "--each", "0.05", water], check=True)
    with open(out, encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    networks = [row for row in rows if "orb" not in row["model"]]
    assert len(networks) >= 2 and len(rows) - len(networks) == 1
    for row in networks:
        assert row["median_ms"] > 0 and row["force_difference"] < 2e-3, row
    assert "median_ms" in rows[-1] or "orb-models is not installed" in rows[-1]["why_not"], rows[-1]
