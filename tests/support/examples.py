"""How many examples a property is tried on: a third in ``make test``, all of them in ``make test-slow``."""

import os

from hypothesis import settings

_ALL = os.environ.get("LOGOFAIR_ALL_EXAMPLES") == "1"


def examples(number, *, few=None, **more):
    """Settings of a property test with so many examples; ``few`` in ``make test`` where a third is too many."""
    return settings(deadline=None, max_examples=number if _ALL else few or -(-number // 3), **more)
