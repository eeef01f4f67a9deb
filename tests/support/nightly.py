"""What `make nightly` runs in addition to `make test`: `@nightly.only` tests, and longer lists of others."""

import os

import pytest

NIGHTLY = bool(os.environ.get("NIGHTLY"))
REASON = "long: make nightly"
only = pytest.mark.skipif(not NIGHTLY, reason=REASON)
