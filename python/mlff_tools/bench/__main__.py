"""The command `python -m mlff_tools.bench`."""

import sys

from .suite import main

if __name__ == "__main__":
    sys.exit(main())
