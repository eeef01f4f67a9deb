"""The command `mlff validate`, or `python -m mlff_tools.validate`."""

import sys

from .bench.validate import main

if __name__ == "__main__":
    sys.exit(main())
