"""The command `mlff accuracy`."""

import sys

from .train.accuracy import main

if __name__ == "__main__":
    sys.exit(main())
