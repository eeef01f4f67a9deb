"""Fixtures of the tests under faults: inputs, made once, and what runs programs."""

import programs
import pytest
from injection import Faults


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    programs.make_inputs(folder)
    return folder


@pytest.fixture(scope="session")
def faults(tmp_path_factory):
    folder, scratch = (tmp_path_factory.mktemp(name) for name in ("written", "scratch"))
    made = Faults(str(folder), str(scratch))
    made.env["TMPDIR"] = made.fresh("tmp")
    yield made
    made.close()
