"""The command `python -m mlff_tools.report`."""

import sys

from .page import main

if __name__ == "__main__":
    sys.exit(main())
