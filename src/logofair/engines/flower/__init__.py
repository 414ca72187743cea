"""Flower carries the messages: a transport over its grid, its two apps, and the processes of a deployment.

This room needs ``pip install 'logofair[flower]'``; nothing outside it knows Flower.
"""

from __future__ import annotations

import importlib.util

from logofair.errors import InputError

__all__ = ["require_flower"]


def require_flower(*packages: str) -> None:
    """Raise unless Flower, and any other package named, is installed."""
    for package in ("flwr", *packages):
        if importlib.util.find_spec(package) is None:
            raise InputError(f"flower: the package {package} is not installed; pip install 'logofair[flower]'.")
