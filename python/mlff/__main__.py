"""python -m mlff ARGUMENTS: the program mlff, where its folder is not in PATH."""

import os
import sys

from mlff_tools.command_line import one_line
from mlff_tools.model.engine import find_program


@one_line("mlff")
def main(argv=None):
    path = find_program()
    sys.stdout.flush()
    os.execv(path, [path, *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
