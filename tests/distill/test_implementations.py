"""mlff bench --compare-all: the network of a model file in PyTorch is the one of the engine, rows are timed in turn,
and what cannot run is named."""

import json
import os

import nightly
import numpy as np
import pytest

from mlff_tools.bench import implementations, suite
from mlff_tools.model import modelfile
from mlff_tools.train import job

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUDENT = os.path.join(ROOT, "models", "water-xs.yaml")
DECKS = os.path.join(ROOT, "benchmarks", "decks")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(implementations, "ROUNDS", 2)
    monkeypatch.setattr(implementations, "SECONDS", 0.02)


@pytest.fixture(scope="module")
def python():
    try:
        return job.find_python()
    except modelfile.ModelError as e:
        pytest.skip(str(e))


def names(found):
    return [row["implementation"] for row in found["rows"]]


def without_mixed(found):
    """The name of the row that this processor lacks, in a set; it says that it has neither kind of such products."""
    name = "mlff, mixed"
    assert (name in names(found)) != (name in found["skipped"])
    assert name in names(found) or found["skipped"][name].count(" no: ") == 2, found["skipped"]
    return {name} & set(found["skipped"])


@nightly.only
def test_pytorch_and_engine(short, python, tmp_path):
    """Both rows of PyTorch are there, which they are only when energies and forces agree."""
    found = implementations.measure(STUDENT, implementations.structure("water", DECKS), write=lambda text: None)
    rows = names(found)
    assert set(found["skipped"]) == without_mixed(found), found["skipped"]
    assert rows[0].startswith("PyTorch ") and rows[0].endswith(", eager") and rows[1].endswith(", compiled"), rows
    assert rows[2] == "mlff, fp64" and "mlff, fp32, generic" in rows
    assert without_mixed(found) or rows[-1] in ("mlff, mixed", "mlff, mixed, GPU")
    assert found["rows"][0]["speed_up"] == 1 and all(row["median_ms"] > 0 for row in found["rows"])
    assert found["rows"][rows.index("mlff, fp64")]["speed_up"] > 1, "slower than PyTorch"
    text = implementations.table(found)
    assert all(name in text for name in rows)


@pytest.mark.parametrize(
    "mixed, there", [("amx no: x, avx512_bf16 no: x", False), ("amx no: x, avx512_bf16 yes", True)]
)
def test_mixed_where_the_processor_has_it(mixed, there):
    ours, skipped = object.__new__(implementations.Ours), {}
    ours.model = ours.xyz = "file"
    ours.machine = {"kernels": "generic avx2", "mixed": mixed, "cuda": {"n_usable": 0}}
    rows = [row.name for row in ours.rows(skipped)]
    assert rows == ["mlff, fp64", "mlff, fp32, generic", "mlff, fp32, avx2", *["mlff, mixed"] * there]
    assert skipped == ({} if there else {"mlff, mixed": mixed})


def test_another_network_is_no_row(short, python, tmp_path, monkeypatch):
    """PyTorch with other weights than the engine is left out, and it says why."""
    evaluate = implementations.engine.evaluate

    def other(*arguments):
        ((energy, forces, virial),), origin = evaluate(*arguments)
        return [(energy, np.asarray(forces) * 1.01, virial)], origin

    monkeypatch.setattr(implementations.engine, "evaluate", other)
    monkeypatch.setattr(implementations, "VARIANTS", ("eager",))
    found = implementations.measure(STUDENT, implementations.structure("water", DECKS), write=lambda text: None)
    assert set(found["skipped"]) == {"PyTorch, eager"} | without_mixed(found)
    assert found["skipped"]["PyTorch, eager"].startswith("PyTorch and this engine differ by"), found["skipped"]
    assert names(found)[0] == "mlff, fp64"


@nightly.only
def test_command(short, tmp_path, capsys, monkeypatch):
    """Without PyTorch for a model the other rows stand alone; the file has what was printed."""
    out = tmp_path / "out"
    words = ["--compare-all", "--model", "nequix-oam-1-pft", "--system", "silicon", "--out", str(out)]
    assert suite.main(words) == 0
    printed = capsys.readouterr().out
    assert "not measured: PyTorch, eager: " in printed and "nequix-oam-1-pft, 216 atoms of silicon" in printed
    (found,) = json.loads((out / "implementations.json").read_text(encoding="utf-8"))["models"]
    assert (found["model"], found["system"], found["n_atoms"]) == ("nequix-oam-1-pft", "silicon", 216)
    assert suite.main(["--compare-all", "--model", "water-xs", "--system", "iron", "--out", str(out)]) == 2
    assert "none of iron is a system of this model" in capsys.readouterr().err
