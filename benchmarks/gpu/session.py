"""What a call of run.py brings back, whole at any moment: gpu.json, summary.txt, logs.tar.gz and profiles.tar.gz.

Every file is written under another name and then renamed, after each part and every few seconds while a part runs, so
that a call which is killed leaves what was measured until then. Nothing else is written into the folder of results.
"""

import contextlib
import io
import json
import os
import selectors
import signal
import subprocess
import tarfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FORMAT = "mlff-gpu/2"
LOG_HEAD, LOG_TAIL = 40_000, 120_000  # bytes of a log that are kept
MOST_BYTES = 15_000_000  # of a file that is brought back
TICK = 3.0  # seconds between two writes of gpu.json while a program runs
CLOSING = 8  # seconds kept for the end


class Result:
    """How a program ended."""

    def __init__(self, code, seconds, path):
        self.code, self.seconds, self.path = code, seconds, path

    @property
    def timed_out(self):
        return self.code is None

    def text(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def last_line(self):
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def why(self):
        """Why it did not succeed, in one line."""
        return "ran out of time" if self.timed_out else f"exit code {self.code}: {self.last_line()}"


def end(process):
    """Ends a program with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Session:
    """One call: `kind` is the section of gpu.json that it fills, `out` the folder of results, `work` one for
    everything else."""

    def __init__(self, kind, out, work, limit):
        self.kind, self.out, self.work = kind, out, work
        self.begin, self.limit = time.monotonic(), limit
        self.part_end = self.begin + limit
        self.logs, self.profiles = os.path.join(work, "logs"), os.path.join(work, "profiles")
        for folder in (out, work, self.logs, self.profiles):
            os.makedirs(folder, exist_ok=True)
        self.state = self._earlier()
        self.state.update(format=FORMAT, host=os.uname().nodename)
        self.mine = self.state[kind] = {"state": "running", "unix_time": time.time(), "parts": [], "notes": []}
        self.summarise = lambda _state: []
        self.last_save = 0.0
        self.lock = threading.RLock()  # parts may run several programs at once

    def _earlier(self):
        """gpu.json of an earlier call with the other kind, if it can be read."""
        try:
            with open(os.path.join(self.out, "gpu.json"), encoding="utf-8") as f:
                state = json.load(f)
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and state.get("format") == FORMAT else {}

    # ---- time --------------------------------------------------------------------------------------------------------

    def elapsed(self):
        return time.monotonic() - self.begin

    def left(self):
        """Seconds until this part has to end, or results have to be closed."""
        return min(self.begin + self.limit - CLOSING, self.part_end) - time.monotonic()

    # ---- what is brought back ----------------------------------------------------------------------------------------

    def _replace(self, name, data):
        new = os.path.join(self.out, "new.tmp")
        with open(new, "wb") as f:
            f.write(data)
        os.replace(new, os.path.join(self.out, name))

    def _elsewhere(self, text):
        """The text without the folders of this machine, which say nothing elsewhere."""
        for folder in (self.out, os.path.dirname(self.work), ROOT):
            text = text.replace(folder + os.sep, "")
        return text.encode()

    def note(self, text):
        print(f"{self.elapsed():5.0f} s  {text}", flush=True)
        self.mine["notes"].append(f"{self.elapsed():.0f} s  {text}")

    def save(self):
        with self.lock:
            self.mine["seconds"] = round(self.elapsed(), 1)
            self._replace("gpu.json", self._elsewhere(json.dumps(self.state, indent=1) + "\n"))
            self._replace("summary.txt", self._elsewhere("\n".join([*self.summarise(self.state), ""])))
            self.last_save = time.monotonic()

    def tick(self):
        if time.monotonic() - self.last_save > TICK:
            self.save()

    def archive(self):
        """Logs of this call and profiles, each as one archive; what does not fit is named in the notes."""
        for name, folder in (("logs", self.logs), ("profiles", self.profiles)):
            data, left_out = pack_folder(folder, MOST_BYTES)
            self.mine["left_out_of_" + name] = left_out
            if data:
                with self.lock:
                    self._replace(f"{name}-{self.kind}.tar.gz", data)

    def close(self, state):
        self.mine["state"] = state
        self.archive()
        self.save()

    # ---- programs ----------------------------------------------------------------------------------------------------

    def run(self, name, command, limit, env=None, cwd=None, tick=None):
        """Runs a program for at most `limit` seconds, and no longer than is left; its log is NAME.log."""
        path, begin = os.path.join(self.logs, name + ".log"), time.monotonic()
        stop = begin + min(limit, max(self.left(), 0))
        with open(path, "wb") as log:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,
                )
            except OSError as e:
                log.write(str(e).encode())
                return Result(127, 0.0, path)
        code = None
        while code is None and time.monotonic() < stop:
            try:
                code = process.wait(min(1.0, max(0.01, stop - time.monotonic())))
            except subprocess.TimeoutExpired:
                if tick:
                    tick()
                self.tick()
        end(process)
        if tick:
            tick()
        return Result(code, time.monotonic() - begin, path)

    def part(self, part, function):
        """One part of the call (cases.Part): it may fail, but nothing that it does ends the call."""
        row = {"part": part.name, "limit": part.limit, "begin": round(self.elapsed(), 1)}
        self.mine["parts"].append(row)
        self.mine["state"] = "running: " + part.name
        self.part_end = time.monotonic() + part.limit
        if self.left() < 1:
            row["status"] = "left out: no time"
        else:
            row["status"] = "running"
            self.save()
            try:
                row["status"] = function() or "done"
            except Exception as e:  # of whatever kind: the next parts are still worth having
                row["status"] = f"failed: {type(e).__name__}: {e}"[:500]
        row["seconds"] = round(self.elapsed() - row["begin"], 1)
        self.note(f"{part.name}: {row['status']} ({row['seconds']:.0f} s)")
        self.archive()
        self.save()


def pack_folder(folder, most):
    """(bytes of a .tar.gz, names that did not fit): small files first, long texts without their middle."""
    buffer, left_out = io.BytesIO(), []
    paths = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]
    if not paths:
        return b"", left_out
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(paths, key=os.path.getsize):
            name, size = os.path.relpath(path, folder), os.path.getsize(path)
            if size + buffer.tell() > most and not path.endswith(".log"):
                left_out.append(f"{name} ({size} bytes)")
                continue
            with open(path, "rb") as f:
                data = f.read(LOG_HEAD + LOG_TAIL + 1) if path.endswith(".log") else f.read()
                if path.endswith(".log") and size > LOG_HEAD + LOG_TAIL:
                    f.seek(size - LOG_TAIL)
                    data = data[:LOG_HEAD] + b"\n[...]\n" + f.read(LOG_TAIL)
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), int(os.path.getmtime(path))
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue(), left_out


class Batch:
    """`mlff batch`: commands of the program in one process, each with a limit of its own. A command that fails or
    takes too long costs a new process, since a GPU that has failed once stays so."""

    def __init__(self, session, mlff, env):
        self.session, self.mlff, self.env, self.process = session, mlff, env, None
        self.n_started = 0

    def _start(self):
        self.n_started += 1
        with open(os.path.join(self.session.logs, f"batch-{self.n_started}.log"), "wb") as log:
            self.process = subprocess.Popen(
                [self.mlff, "batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.pending = b""

    def close(self):
        if self.process:
            end(self.process)
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def _lines(self, stop):
        """Lines of the answer, until `stop`; None when there is none in time, b"" when the program has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                line, newline, rest = self.pending.partition(b"\n")
                if newline:
                    self.pending = rest
                    yield line
                    continue
                self.session.tick()
                if time.monotonic() > stop:
                    yield None
                if selector.select(min(1.0, max(0.0, stop - time.monotonic()))):
                    data = self.process.stdout.read()
                    if not data:
                        yield b""
                    self.pending += data or b""

    def call(self, words, limit):
        """(what the command printed, "" or why it failed, seconds)"""
        if not self.process:
            self._start()
        begin, answer = time.monotonic(), []
        line = " ".join(f'"{word}"' for word in words) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.close()
            return "", "the program has ended", 0.0
        for reply in self._lines(begin + min(limit, max(self.session.left(), 0))):
            if not reply:
                code = self.process.poll()
                self.close()
                why = "took more than its limit" if reply is None else f"the program ended with {code}"
                return "", why, time.monotonic() - begin
            if reply.startswith(b'{"batch"'):
                break
            answer.append(reply)
        status = json.loads(reply)
        if status["status"]:
            self.close()
        return (
            b"\n".join(answer).decode(),
            (status["error"] or "failed") if status["status"] else "",
            time.monotonic() - begin,
        )
