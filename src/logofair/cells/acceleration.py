"""Whether to use the optional compiled code (numba, ``pip install 'logofair[fast]'``).

Compiled and plain code give certified results of the same value. The compiled one pays its loading time (a third of a
second; ten seconds the first time ever) back on large inputs only, so small ones never wait for it. The environment
variable ``LOGOFAIR_ACCELERATE`` forces the choice: ``0`` never, ``1`` always.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

ENOUGH_ROWS = 200_000


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def accelerated(rows: int) -> bool:
    """Whether a problem with this many rows is worth the compiled code, and it is there."""
    wish = os.environ.get("LOGOFAIR_ACCELERATE", "")
    return wish != "0" and (rows >= ENOUGH_ROWS or wish == "1") and _installed()
