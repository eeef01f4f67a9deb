"""Programs of LAMMPS' sources that test LAMMPS."""

import os
import subprocess


def start(words, folder, **more):
    """Runs a tester of LAMMPS, which finds the plugin by itself; more: of the environment."""
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "LAMMPS_PLUGIN_PATH": os.path.dirname(os.environ["MLFF_PLUGIN"]), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
