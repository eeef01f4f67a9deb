"""Runs programs under faults: the library of faults.c counts their calls and makes one of them fail."""

import dataclasses
import errno
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("open", "write", "fsync", "close", "rename", "mkdir")
HEAD, TIMEOUT = 6, 120  # numbers before the counts; seconds
# What each kind of call says when a disk is full, a quota is used up, a disk is broken or not ours.
ERRORS = {
    "open": (errno.EACCES, errno.EROFS, errno.ENOSPC),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "close": (errno.EIO, errno.EDQUOT),
    "rename": (errno.EACCES, errno.ENOSPC),
    "mkdir": (errno.ENOSPC, errno.EACCES),
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """The position-th call of a kind, and all later ones where it lasts, fails with an error of errno; a negative one
    is a signal, which comes before the call."""

    kind: str
    position: int
    error: int
    lasts: bool = False

    def __str__(self):
        what = signal.Signals(-self.error).name if self.error < 0 else errno.errorcode[self.error]
        return f"{self.kind} {self.position}{' and later' if self.lasts else ''}: {what}"


@dataclasses.dataclass
class Done:
    """What a run ended with. counts: calls of each kind."""

    status: int
    text: str
    counts: dict

    def __str__(self):
        return f"exit status {self.status}\n{self.text[-3000:]}"


class Faults:
    """Runs programs; what they write below `folder` counts."""

    def __init__(self, folder, scratch):
        self.folder = os.path.realpath(folder)
        library, self.state = os.path.join(scratch, "faults.so"), os.path.join(scratch, "state")
        self.log = os.path.join(scratch, "said")
        os.mkfifo(self.log)  # no file, whose size is limited as well
        words = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "faults.c")]
        subprocess.run([*words, "-ldl", "-lpthread"], check=True)
        self.set(None)
        self.env = {**os.environ, "LD_PRELOAD": library, "FAULTS_STATE": self.state, "FAULTS_FOLDER": self.folder}
        self.env.update(OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
        self.server = None

    def set(self, fault, jump=0):
        values = [KINDS.index(fault.kind), fault.position, fault.error, fault.lasts] if fault else [0, 0, 0, 0]
        data = struct.pack(f"{HEAD + len(KINDS)}q", *values, jump, *[0] * (1 + len(KINDS)))
        with open(self.state, "r+b" if os.path.exists(self.state) else "wb") as f:
            f.write(data)

    def counts(self):
        with open(self.state, "rb") as f:
            values = struct.unpack(f"{HEAD + len(KINDS)}q", f.read())
        return dict(zip(KINDS, values[HEAD:]))

    def run(self, words, place, fault=None, jump=0, limits=()):
        """Runs a program, or the command of a module of mlff_tools, in a folder. limits: [(name of resource, most)]."""
        self.set(fault, jump)
        said = []

        def listen():
            with open(self.log, encoding="utf-8", errors="replace") as f:
                said.append(f.read())

        listener = threading.Thread(target=listen)
        listener.start()
        status = (self._of_python if words[0].startswith("mlff_tools.") else self._of_program)(words, place, limits)
        listener.join()
        return Done(status, said[0], self.counts())

    def _of_program(self, words, place, limits):
        def begin():
            for name, most in limits:
                resource.setrlimit(getattr(resource, name), (most, most))

        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                words,
                cwd=place,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=begin,
            )
            with self._limited(process.pid):
                return process.wait()

    def _of_python(self, words, place, limits):
        if not self.server:
            self.server = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "server.py")],
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        job = {"module": words[0], "words": words[1:], "place": str(place), "log": self.log, "limits": limits}
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        with self._limited(int(self.server.stdout.readline())):
            return int(self.server.stdout.readline())

    @staticmethod
    def _limited(pid):
        """Ends a process, which leads its group, after TIMEOUT."""

        class Limit:
            def __enter__(self):
                self.timer = threading.Timer(TIMEOUT, lambda: os.killpg(pid, signal.SIGKILL))
                self.timer.start()

            def __exit__(self, *_):
                self.timer.cancel()

        return Limit()

    def fresh(self, name, before=None):
        """An empty folder, or a copy of one, below the folder that counts."""
        place = os.path.join(self.folder, name)
        shutil.rmtree(place, ignore_errors=True)
        if before:
            shutil.copytree(before, place)
        else:
            os.makedirs(place)
        return place

    def close(self):
        if self.server:
            self.server.stdin.close()
            self.server.wait(TIMEOUT)


def content(place):
    """{path: bytes} of the files of a folder."""
    found = {}
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, place)] = f.read()
    return found
