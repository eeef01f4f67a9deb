"""The harness and the random models of the LAMMPS tests."""

import importlib.util
import os
import sys

LAMMPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lammps")
sys.path.insert(0, LAMMPS)
spec = importlib.util.spec_from_file_location("lammps_conftest", os.path.join(LAMMPS, "conftest.py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
zoo = module.zoo
