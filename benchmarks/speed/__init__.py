"""Speed of pair_style mlff against other programs; benchmarks/studies/teachers.py uses parts of it."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
