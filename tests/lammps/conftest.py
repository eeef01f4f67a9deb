"""Fixtures of the LAMMPS tests: random models, written once."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import models  # noqa: E402


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))
