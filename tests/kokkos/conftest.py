"""Tests of pair_style mlff/kk, for a LAMMPS with Kokkos (scripts/kokkos_root.sh). They use what tests/lammps has."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lammps"), os.path.join(HERE, "..", "..", "python")]
