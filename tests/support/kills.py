"""Kills of processes at moments that are told by what a process has done, not by a clock: a fast computer, or one with
much else to do, then kills as often as a slow one."""

import os
import signal
import time

POLL = 0.005  # s
KILLED = -signal.SIGKILL  # exit code
LIMIT = 120.0  # s, after which a process that does nothing is an error


class Changes:
    """Counts how often the files below a folder have changed, when it is called often. True from `limit` changes on."""

    def __init__(self, folder, limit=float("inf")):
        self.folder, self.limit, self.count = str(folder), limit, 0
        self.last = self._state()

    def _state(self):
        found = []
        for place, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(place, name)
                try:
                    status = os.stat(path)
                except OSError:
                    continue  # replaced between the two calls
                found.append((path, status.st_size, status.st_mtime_ns, status.st_ino))
        return sorted(found)

    def __call__(self):
        state = self._state()
        self.count += state != self.last
        self.last = state
        return self.count >= self.limit


def kill_when(pid, seen, pause=0.0, how=signal.SIGKILL):
    """A signal to a child `pause` seconds after seen() holds, to its process group where it leads one. Returns its
    exit code: KILLED, or that of its own end."""
    begin = time.monotonic()
    while not seen():
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        assert time.monotonic() - begin < LIMIT, f"process {pid} has not come to where it was to be killed"
        time.sleep(POLL)
    time.sleep(pause)
    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, how)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
