"""The harness of the LAMMPS tests and their random models."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lammps"), os.path.join(HERE, "..", "..", "python")]

import models  # noqa: E402


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))
