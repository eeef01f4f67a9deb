"""Reads one file by ASE and prints its structures as a line of JSON: run by mlff label in a Python that has ASE."""

import json
import os
import sys

STATES = ("initial_charges", "initial_magmoms")  # labels.STATE_COLUMNS


def structures(path):
    from ase import io

    name = os.path.basename(path).lower()
    options = {"format": "lammps-data"} if name.startswith("data.") or name.endswith((".data", ".lmp")) else {}
    found = io.read(path, index=":", **options)
    return [
        {
            "elements": a.get_chemical_symbols(),
            "positions": a.get_positions().tolist(),
            "cell": [list(map(float, v)) for v in a.get_cell()],
            "pbc": [bool(x) for x in a.get_pbc()],
            "columns": {name: a.arrays[name].tolist() for name in STATES if name in a.arrays},
            "occupancy": json.dumps(a.info["occupancy"]) if "occupancy" in a.info else None,
        }
        for a in found
    ]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != here]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        import ase  # noqa: F401
    except ImportError:
        answer = {"missing": True}
    else:
        try:
            answer = {"frames": structures(sys.argv[1])}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
    out.write(json.dumps(answer) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
