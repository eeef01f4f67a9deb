"""The command `python -m mlff_tools.train`."""

import sys

from .training import main

if __name__ == "__main__":
    sys.exit(main())
