"""The command line: parse, call, show. Nothing here is imported by the rest of the package."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]

_NEEDED = ("click", "rich")


def main() -> None:
    """Run the ``logofair`` command; where its optional packages are missing, say how to get them."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"logofair: the command line needs {' and '.join(missing)}, which this Python lacks; "
            "run: pip install 'logofair[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from logofair.cli.group import cli

    cli(prog_name="logofair")
