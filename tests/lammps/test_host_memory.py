"""Features of atoms of other ranks through memory that the ranks of a machine share, against messages of MPI."""

import contextlib
import re
import resource

import pytest
from harness import CLEAR, launch, water
from test_runs import start

SHARED = "through shared memory within each node"
MESSAGES = "by MPI messages"


def dynamics(zoo, folder, options, model="painn", steps=30):
    """A run with atoms that change their rank, lists that are rebuilt, and more ghosts in its second part."""
    return (
        start(zoo, folder, model=model, n=(6, 2, 2), options=options, core=True)
        + "timestep 0.0003\nneighbor 0.3 bin\nneigh_modify every 2 delay 0 check no\nfix 1 all nve\nthermo 2\n"
        "thermo_style custom step pe ke press\nthermo_modify format float %.17g\n"
        f"run {steps}\nneighbor 1.5 bin\nrun {steps}\n"
    )


def ways(output):
    return re.findall(r"^  features: +(.*)$", output, re.M)


def table(output):
    rows = [line for line in output.splitlines() if re.match(r"^ +\d+( +-?\d[-+.e\d]*){3} *$", line)]
    assert len(rows) > 20, output[-2000:]
    return rows


@pytest.mark.parametrize(
    "ranks, model, options", [(2, "painn", ""), (2, "gaussian", "precision fp64"), (4, "painn", "")]
)
def test_same_bits_as_messages(zoo, tmp_path, ranks, model, options):
    """Also with more ranks than cores."""
    shared, messages = (
        launch(dynamics(zoo, tmp_path, f"{options} node_memory {way}", model), str(tmp_path), ranks)
        for way in ("yes", "no")
    )
    assert ways(shared) == [SHARED] and ways(messages) == [f"{MESSAGES} (node_memory no)"]
    assert table(shared) == table(messages)


def test_one_rank_exchanges_nothing(zoo, tmp_path):
    assert not ways(launch(dynamics(zoo, tmp_path, "", steps=5), str(tmp_path)))


@contextlib.contextmanager
def limit(which, amount):
    """A soft limit of this process and those that it starts."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (amount, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def test_messages_where_no_memory_can_be_shared(zoo, tmp_path):
    """A limit on file sizes stops the growth of shared memory. The run continues with messages and logs the reason."""
    shared = launch(dynamics(zoo, tmp_path, ""), str(tmp_path), 2)
    with limit(resource.RLIMIT_FSIZE, 1 << 30):
        limited = launch(dynamics(zoo, tmp_path, ""), str(tmp_path), 2)
    why = "because shared memory is not available: the size of files is limited (ulimit -f)"
    assert ways(limited) == [f"{MESSAGES}, {why}"]
    assert table(shared) == table(limited)


def test_memory_goes_with_its_style(zoo, tmp_path):
    """A hundred styles, one after another, with room for few open files."""
    n = 100
    system = water(2)
    (tmp_path / "w.data").write_text(system.data())
    deck = (
        f"variable k loop {n}\nlabel again\n{CLEAR}units metal\nread_data w.data\n"
        f"pair_style mlff self_test no\npair_coeff * * {zoo['painn']} O H\nrun 0 post no\n"
        "next k\njump SELF again\n"
    )
    with limit(resource.RLIMIT_NOFILE, 60):
        output = launch(deck, str(tmp_path), 2)
    assert ways(output) == [SHARED] * n
