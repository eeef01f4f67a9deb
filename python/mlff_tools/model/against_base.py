"""What against.py and its parts share."""

import numpy as np

from .modelfile import ModelError


class Unsupported(ModelError):
    """The package has no such network."""


def six(m):
    """xx yy zz xy xz yz of a symmetric matrix."""
    return np.array([m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]])
