"""Random weights for the Orb-v2 of the GPU benchmark: 100 MB that need not travel, since they are the same bytes
wherever they are made. Needs no packages.

  orb_weights.py NAME.json ...     writes NAME.safetensors beside each, unless it is there

NAME.json is the head of the model with its `tensors`, name -> shape, as shapes.py writes it. Numbers have variance
1/fan-in, so that features stay of order 1, and repeat after PERIOD of them, which is a prime: times do not depend on
them.
"""

import array
import hashlib
import json
import math
import os
import random
import struct
import sys
import zlib

PERIOD = 65521


class Numbers:
    """Uniform random numbers, scaled and shifted, as float32."""

    def __init__(self):
        rng = random.Random(1)
        self.uniform = [2 * rng.random() - 1 for _ in range(PERIOD)]
        self.tables = {}

    def tensor(self, name, shape):
        """Little-endian bytes."""
        scale, shift = 0.1, 1.0 if name.endswith("norm.weight") else 0.0
        if len(shape) == 2:
            scale = math.sqrt(3 / (1 if name == "embedding" else shape[1]))
        if (scale, shift) not in self.tables:
            table = array.array("f", (shift + scale * u for u in self.uniform))
            if sys.byteorder == "big":
                table.byteswap()
            self.tables[scale, shift] = table.tobytes()
        table, n, begin = self.tables[scale, shift], 4 * math.prod(shape), 4 * (zlib.crc32(name.encode()) % PERIOD)
        return (table * (n // len(table) + 2))[begin : begin + n]


def weights(tensors):
    """A safetensors file of random numbers for name -> shape."""
    header, data, numbers, at = {}, [], Numbers(), 0
    for name, shape in sorted(tensors.items()):
        data.append(numbers.tensor(name, shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def make(path):
    """Writes the weights that belong to the head NAME.json."""
    out = path[: -len("json")] + "safetensors"
    if os.path.exists(out):
        return
    with open(path, encoding="utf-8") as f:
        head = json.load(f)
    data = weights(head["tensors"])
    if hashlib.sha256(data).hexdigest() != head["weights"]["sha256"]:
        sys.exit(f"{out}: the weights are other ones than {path} says")
    with open(out + ".new", "wb") as f:
        f.write(data)
    os.replace(out + ".new", out)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        make(argument)
