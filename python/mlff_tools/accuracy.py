"""The command `python -m mlff_tools.accuracy`."""

import sys

from .train.accuracy import main

if __name__ == "__main__":
    sys.exit(main())
