"""python -m mlff: the program mlff."""

import os
import subprocess
import sys

import mlff.ase


def program(*words, **env):
    words = [sys.executable, "-m", "mlff", *words]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_the_module_is_the_program():
    done = program("info", "silicon-m")
    assert done.returncode == 0 and done.stdout.startswith("model          silicon-m\n"), done
    done = program("boil")
    assert done.returncode == 2 and "unknown command 'boil'" in done.stderr
    done = program("info", MLFF="/nowhere/mlff")
    assert done.returncode == 2 and done.stderr.startswith("mlff: error: $MLFF for the program mlff is '/nowhere/mlff'")


def test_calculators_tell_their_models():
    one, both = (mlff.ase.MLFF(m) for m in ("silicon-m", ["silicon-m", "nequix-oam-1-pft"]))
    assert repr(one) == "<mlff.ase.MLFF silicon-m (mace) on cpu, fp32>"
    assert repr(both) == f"{one!r} + <mlff.Model nequix-oam-1-pft (nequip) on cpu, fp32>"
