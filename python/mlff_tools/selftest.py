"""The command `python -m mlff_tools.selftest`."""

import sys

from .model.selftest import main

if __name__ == "__main__":
    sys.exit(main())
