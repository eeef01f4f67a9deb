"""The command `python -m mlff_tools.sample`."""

import sys

from .train.sample import main

if __name__ == "__main__":
    sys.exit(main())
