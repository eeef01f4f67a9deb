"""The harness of the LAMMPS tests and their random models."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lammps"), os.path.join(HERE, "..", "..", "python")]

import models  # noqa: E402


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file. Orb is smaller than on the CPU: its networks of edges take long on a simulated
    GPU."""
    folder = tmp_path_factory.mktemp("models")
    return {
        **models.zoo(folder),
        "orb": models.orb(folder / "small_orb", n_features=8, n_interactions=2, n_neighbors=8, cutoff=4.5),
    }
