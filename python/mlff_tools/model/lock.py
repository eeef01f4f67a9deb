"""A folder that one process works in at a time."""

import contextlib
import fcntl
import os

from .modelfile import ModelError

NAME = ".lock"


@contextlib.contextmanager
def locked(folder, busy):
    """The folder, made if it is not there; ModelError with the words `busy` while another process has it. One that was
    made here and in which nothing was put is taken away again."""
    is_new = not os.path.isdir(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        file = open(os.path.join(folder, NAME), "a", encoding="ascii")  # noqa: SIM115 (closed below)
    except OSError as e:
        raise ModelError(f"{folder}: {e.strerror}") from e
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise ModelError(f"{folder}: {busy}") from e
        except OSError:
            pass  # a file system without locks
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):
                if is_new and os.listdir(folder) == [NAME]:
                    os.remove(os.path.join(folder, NAME))
                    os.rmdir(folder)
    finally:
        with contextlib.suppress(OSError):  # nothing is written to it
            file.close()
