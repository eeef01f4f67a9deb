"""The command `benchmarks/speed`."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
from speed.measure import main  # noqa: E402

sys.exit(main())
