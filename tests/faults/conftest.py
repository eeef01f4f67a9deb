"""Fixtures of the tests under faults: inputs, made once, and what runs programs."""

import signal

import programs
import pytest
from injection import Faults

# A shell lets what it starts in the background ignore SIGINT, and so would every program of these tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
