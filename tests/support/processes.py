"""Programs that tests run."""

import subprocess


def merged(command, timeout=900, **options):
    """A finished process without input. `stdout` is the text of both its streams; the exit code is not checked. One
    that does not end is a failure that has what it printed."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        return subprocess.run(command, timeout=timeout, text=True, errors="replace", check=False, **streams, **options)
    except subprocess.TimeoutExpired as e:
        printed = (e.stdout or b"").decode("utf-8", "replace")  # bytes, also of a process in text mode
        raise AssertionError(f"{command} did not end within {timeout} s; it printed\n{printed[-3000:]}") from e
