"""Fixtures of the LAMMPS tests: random models, written once."""

import models
import pytest


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))
