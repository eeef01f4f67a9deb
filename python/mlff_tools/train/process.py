"""A program that is asked over pipes, line by line: with a time limit, and with its last words when it dies."""

import collections
import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time

from ..model.modelfile import ModelError


class TeacherError(ModelError):
    """A teacher that cannot label. The text contains the reason."""


class Died(TeacherError):
    """The program has ended or does not answer."""


class Program:
    """A running program. words: its command. What it writes to standard error is kept for messages only."""

    def __init__(self, words, name, **options):
        self.name, self.lines, self.last = name, queue.Queue(), collections.deque(maxlen=12)
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                **options,
            )
        except OSError as e:
            raise TeacherError(f"{name}: {words[0]} cannot be run: {e.strerror}") from e
        self.threads = [
            threading.Thread(target=self._listen, args=(self.process.stdout, self.lines.put), daemon=True),
            threading.Thread(target=self._listen, args=(self.process.stderr, None), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def _listen(self, stream, put):
        for line in stream:
            if put:
                put(line.rstrip("\n"))
            else:
                self.last.append(line.rstrip("\n"))
        if put:
            put(None)

    def send(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: line() says so

    def line(self, deadline):
        """The next line of standard output. Died when there is none before `deadline` (time.monotonic)."""
        try:
            line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty as e:
            self.stop()
            raise Died(f"{self.name} has not answered in time{self.words()}") from e
        if line is None:
            self.stop()
            raise Died(f"{self.name} has ended{self._status()}{self.words()}")
        return line

    def batch(self, command, deadline):
        """(the lines that a command of `mlff batch` printed, the line of JSON behind them, as a mapping)."""
        self.send(command + "\n")
        lines = [self.line(deadline)]
        while not lines[-1].startswith('{"batch": '):
            lines.append(self.line(deadline))
        return lines[:-1], json.loads(lines[-1])

    def _status(self):
        code = self.process.returncode
        if code is not None and code < 0:
            return f" by signal {signal.Signals(-code).name}"
        return f" with status {code}"

    def words(self):
        """Its last lines on standard error, as a part of a message."""
        return "; its last lines:\n  " + "\n  ".join(self.last) if self.last else ""

    def stop(self):
        """Ends it, and what it has started."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for thread in self.threads:
            thread.join(1.0)
