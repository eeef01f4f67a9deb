"""Files that are written as a whole or not at all, and what is said of those that cannot be."""

import contextlib
import io
import os
import secrets

import numpy as np


class ModelError(Exception):
    """An unusable model, file or option; the text states what failed, the value, and the fix."""


@contextlib.contextmanager
def naming(path):
    """What writes a file: an OSError within names it, as those of write() and close() do not."""
    try:
        yield
    except OSError as e:
        raise OSError(e.errno, e.strerror or str(e), path) from e


def in_words(e):
    """An error in words; of an OSError with the name of its file."""
    if not isinstance(e, OSError):
        return str(e)
    return f"{e.filename}: {e.strerror}" if e.filename else e.strerror or str(e)


def write_bytes(path, data):
    """Writes `data` to `path` so that a reader sees the old file or the new one, never a part. ModelError if nothing
    can be written to its folder, OSError with the path for what happens later."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        raise ModelError(f"{path} cannot be written: {folder} is not a writable folder")
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{secrets.token_hex(4)}.part")
    with naming(path):
        try:
            with open(temporary, "xb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def write_npz(path, **arrays):
    """Writes arrays as np.savez_compressed does, as a whole."""
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    write_bytes(path, data.getvalue())


def write_input(path, text):
    """Writes the input of a program that is started next."""
    with naming(path), open(path, "w", encoding="utf-8") as f:
        f.write(text)


def copy(source, target):
    """A copy of a file, as write_bytes writes it."""
    with open(source, "rb") as f:
        write_bytes(target, f.read())
