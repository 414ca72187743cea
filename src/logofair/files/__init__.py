"""Users' tables and our own documents on disk."""

from __future__ import annotations

from typing import Any

from logofair.errors import InputError

__all__ = ["polars_module"]


def polars_module() -> Any:
    """Import polars, which reads and writes tables; where it is missing, name the extra to install."""
    try:
        import polars
    except ImportError:
        raise InputError("files: reading tables needs polars; install it with pip install 'logofair[data]'.") from None
    return polars
