"""Text that may hold anything: control characters are shown and not obeyed.

Names, notes and cells come from files and from other machines. What they hold could move a terminal's cursor, forge
lines or change what is copied, so all that commands print, and all names in documents, pass through here.
"""

from __future__ import annotations

import re

# All but tab and line feed, and the marks that reverse the order in which text is shown.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    r"""Return text in which control characters are written as escapes.

    Examples
    --------
    >>> print(harmless("north\x1b[2J\rsouth"))
    north\x1b[2J\rsouth
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
