"""The command `python -m mlff_tools.distill`."""

import sys

from .train.distill import main

if __name__ == "__main__":
    sys.exit(main())
