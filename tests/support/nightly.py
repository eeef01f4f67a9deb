"""What `make nightly` runs beside what `make test` does: `@nightly.only` tests, and the longer lists of others."""

import os

import pytest

NIGHTLY = bool(os.environ.get("NIGHTLY"))
REASON = "long: make nightly"
only = pytest.mark.skipif(not NIGHTLY, reason=REASON)
