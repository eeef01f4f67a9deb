"""The command `python -m mlff_tools.certify`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
