"""Programs that tests run."""

import subprocess


def merged(command, timeout=900, **options):
    """A finished process without input. `stdout` is the text of both its streams; the exit code is not checked."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, timeout=timeout, text=True, errors="replace", check=False, **streams, **options)
