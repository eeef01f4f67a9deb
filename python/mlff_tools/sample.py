"""The command `mlff sample`."""

import sys

from .train.sample import main

if __name__ == "__main__":
    sys.exit(main())
