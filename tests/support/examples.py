"""How many examples a property is tried on: a third in ``make test``, all of them in ``make test-slow``."""

import os

from hypothesis import settings

_ALL = os.environ.get("LOGOFAIR_ALL_EXAMPLES") == "1"


def examples(number, **more):
    """Settings of a property test that deserves so many examples."""
    return settings(deadline=None, max_examples=number if _ALL else -(-number // 3), **more)
