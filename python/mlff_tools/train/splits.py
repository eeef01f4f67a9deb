"""Which frames are for training, validation and test: by rules, so that a recipe always deals them out alike.

Copies: of each ten the fourth is for validation and the fifth for the test. Trajectories are cut in time: the first
80 % for training, 10 % for validation, the last 10 % for the test, at least one frame each; frames closer than GAP to
the part before are left out. Fewer than five frames are all for training.
"""

import numpy as np

FEWEST = 5
GAP = 0.1  # ps


def of_copies(n):
    """Split of each of n copies."""
    names = {3: "validation", 4: "test"}
    return [names.get(k % 10, "train") if n >= FEWEST else "train" for k in range(n)]


def of_trajectory(n, every=GAP):
    """Split of each of n frames that are `every` ps apart, None for those to leave out."""
    if n < FEWEST:
        return ["train"] * n
    part = max(1, round(n / 10))
    out = ["train"] * (n - 2 * part) + ["validation"] * part + ["test"] * part
    gap = min(int(np.ceil(GAP / every - 1e-9)) - 1, part - 1)
    for first in (n - 2 * part, n - part):
        out[first : first + gap] = [None] * gap
    return out
