"""Fixtures of the LAMMPS tests: random models, written once."""

import models
import pytest
import random_scripts


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    return models.zoo(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def court(tmp_path_factory):
    """Judges scripts; see random_scripts.py."""
    return random_scripts.Court(tmp_path_factory.mktemp("scripts"))
