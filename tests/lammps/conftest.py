"""Fixtures of the LAMMPS tests: random models, written once."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import models  # noqa: E402


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """name -> path of a model file."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "painn": models.painn(folder / "painn"),
        "gaussian": models.painn(folder / "gaussian", seed=3, kind="gaussian", n_interactions=3),
        "local": models.painn(folder / "local", seed=4, n_interactions=1),
        "ani": models.ani(folder / "ani"),
        "orb": models.orb(folder / "orb"),
    }
