"""The command `mlff train`."""

import sys

from .training import main

if __name__ == "__main__":
    sys.exit(main())
