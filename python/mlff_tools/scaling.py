"""The command `python -m mlff_tools.scaling`."""

import sys

from .bench.scaling import main

if __name__ == "__main__":
    sys.exit(main())
