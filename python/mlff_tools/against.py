"""The command `python -m mlff_tools.against`."""

import sys

from .model.against import main

if __name__ == "__main__":
    sys.exit(main())
