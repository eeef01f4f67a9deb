"""Programs of LAMMPS' sources that test LAMMPS."""

import os

import processes


def start(words, folder, **more):
    """Runs a tester of LAMMPS, which finds the plugin by itself; more: of the environment."""
    return processes.merged(
        words,
        cwd=folder,
        env={**os.environ, "LAMMPS_PLUGIN_PATH": os.path.dirname(os.environ["MLFF_PLUGIN"]), **more},
        timeout=900,
    )
