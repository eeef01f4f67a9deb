"""LAMMPS ends with the program that started it, also when that was killed."""

import glob
import signal
import subprocess
import sys
import time

import pytest

from mlff_tools.model import tied

LIMIT = 60.0  # s
BENCH = "--system water --size small --protocol nve --steps 10000000 --repeats 1 --ranks"


def mark_of(pid):
    """The mark of the processes that a program has started, once LAMMPS is among them."""
    begin, wanted = time.monotonic(), f"{tied.NAME}={pid}-"
    while time.monotonic() - begin < LIMIT:
        for place in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{place}/environ", encoding="utf-8") as f, open(f"{place}/cmdline", encoding="utf-8") as g:
                    marks = [text for text in f.read().split("\0") if text.startswith(wanted)]
                    if marks and "/lammps/lmp" in g.read():
                        return marks[0].split("=")[1]
            except OSError:
                continue  # it has ended
        time.sleep(0.05)
    raise AssertionError(f"process {pid} has started no LAMMPS")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by /proc")
@pytest.mark.parametrize("how", (signal.SIGKILL, signal.SIGTERM))
@pytest.mark.parametrize("ranks", (1, 2))
def test_bench(tmp_path, ranks, how):
    words = [sys.executable, "-m", "mlff_tools", "bench", *BENCH.split(), str(ranks)]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        value = mark_of(process.pid)
        process.send_signal(how)
        process.wait(LIMIT)
    begin = time.monotonic()
    while tied.marked(value):
        assert time.monotonic() - begin < LIMIT, "LAMMPS goes on"
        time.sleep(0.05)
