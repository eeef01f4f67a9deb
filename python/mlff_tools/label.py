"""The command `python -m mlff_tools.label`."""

import sys

from .train.label import main

if __name__ == "__main__":
    sys.exit(main())
