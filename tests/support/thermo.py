"""Thermo output of LAMMPS, read as what it is: the rows below a header that begins with Step, up to the end of the run.
Other tables of the log, such as the slowest steps of fix mlffprof, look the same to a pattern of numbers."""

import numpy as np


def tables(output):
    """Name of the column -> array [rows], run by run, as far as each came."""
    found, names = [], None  # [(names, rows)] of the runs
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["Step"]:
            names = words
            found.append((names, []))
        elif line.startswith("Loop time"):
            names = None
        elif names and len(words) == len(names):
            try:
                found[-1][1].append([float(w) for w in words])
            except ValueError:  # a line between the rows: a warning
                continue
    return [dict(zip(names, np.reshape(rows, (-1, len(names))).T)) for names, rows in found]


def table(output, run=0):
    """Name of the column -> array [rows] of one run."""
    return tables(output)[run]
