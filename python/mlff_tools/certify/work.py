"""The folder of a certificate: each step is kept with a hash of its inputs, so that a killed certificate goes on.

FOLDER/NAME-HASH/result.json is what a step gave. It is there as a whole or not at all; a step that has none is done
again, and finds in its folder what it had left there."""

import contextlib
import hashlib
import json
import math
import os

import numpy as np

from ..model.files import write_bytes
from ..model.lock import locked
from ..model.modelfile import ModelError

VERSION = 2  # of what steps do: another one makes all of them anew


class CertifyError(ModelError):
    """A certificate that cannot be made. The text contains the reason."""


class NotMeasured(CertifyError):
    """Something that cannot be measured here. The text contains the reason."""


class Failed(NotMeasured):
    """Something that the model under test cannot do: a structure collapses. A bar on it is missed."""


class Failure(str):
    """The text of a Failed."""


def plain(value):
    """The same of dicts, lists, numbers and texts only; numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


def digest(value):
    """Hash of what `plain` leaves of a value."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()


def write_whole(path, text):
    """Writes a file that is there as a whole, or as it was before."""
    try:
        write_bytes(path, text.encode())
    except OSError as e:
        raise CertifyError(f"{path}: {e.strerror}") from e


class Work:
    """Steps in a folder, which is this process's alone. write: takes lines for the user."""

    def __init__(self, folder, write=print):
        self.folder, self.write = os.path.abspath(folder), write
        self.lock = contextlib.ExitStack()
        self.lock.enter_context(locked(self.folder, "another certificate is being made there"))

    def place(self, name, inputs):
        """The folder of a step."""
        path = os.path.join(self.folder, f"{name}-{digest([VERSION, inputs])[:12]}")
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as e:
            raise CertifyError(f"{path}: {e.strerror}") from e
        return path

    def step(self, name, inputs, do, keep=lambda _: True):
        """What do(folder) returned for these inputs, now or in a run before. keep: whether a result is kept."""
        place = self.place(name, inputs)
        path = os.path.join(place, "result.json")
        if os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as f:
                    return json.load(f)
            except (OSError, ValueError) as e:
                raise CertifyError(f"{path}: cannot be read ({e}): remove it") from e
        try:
            result = plain(do(place))
        except NotMeasured:
            with contextlib.suppress(OSError):
                os.rmdir(place)  # where nothing was left
            raise
        if keep(result):
            write_whole(path, json.dumps(result) + "\n")
        return result

    def close(self):
        self.lock.close()
